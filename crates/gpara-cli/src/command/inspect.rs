//! `gpara inspect`: what a file holds, before it is used.

use std::path::{Path, PathBuf};

use clap::Args;
use gpara_tasks::field::{Field, MaskFile, PngScale};
use serde_json::{Value, json};

use crate::console::Console;
use crate::failure::{Failure, Outcome};

/// Say size, range and NaN, infinite, zero and negative counts of fields and masks
///
/// Example: gpara inspect configs/data/wave.csv configs/data/wave_mask.csv
#[derive(Debug, Args)]
pub(crate) struct InspectArguments {
    /// Fields or masks: .csv, .npy or gray .png
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Value of gray 0 of a PNG
    #[arg(long, allow_hyphen_values = true, default_value_t = 0.0)]
    png_offset: f64,
    /// Value of one gray step of a PNG [default: 1, or what the file records]
    #[arg(long, allow_hyphen_values = true)]
    png_step: Option<f64>,
}

/// Runs the command.
pub(crate) fn run(arguments: &InspectArguments, console: Console) -> Outcome {
    let entries = arguments.files.iter().map(|path| inspect(path, arguments)).collect::<Outcome<Vec<_>>>()?;
    if console.json {
        console.data(&format!("{:#}\n", Value::Array(entries)));
    } else {
        entries.iter().for_each(|entry| console.data(&described(entry)));
    }
    Ok(())
}

fn inspect(path: &Path, arguments: &InspectArguments) -> Outcome<Value> {
    let (field, scale) = read(path, arguments)?;
    let counts = field.counts();
    // A file that reads as a mask holds nothing but 0 and one mark.
    let mask = MaskFile::read(path).ok();
    let at = |cell: Option<(usize, usize)>| cell.map(|(row, col)| json!({ "row": row, "col": col }));
    let use_as = match &mask {
        Some(mask) => format!("a mask with {} of {} cells marked", mask.num_marked(), counts.cells),
        None if counts.nan + counts.infinite > 0 => "a field that needs a mask over its missing cells".to_string(),
        None => "a field".to_string(),
    };
    Ok(json!({
        "file": path.display().to_string(),
        "rows": field.grid().rows(),
        "cols": field.grid().cols(),
        "values": scale,
        "nan": counts.nan,
        "infinite": counts.infinite,
        "zero": counts.zero,
        "negative": counts.negative,
        "first_nan": at(counts.first.nan),
        "first_infinite": at(counts.first.infinite),
        "first_zero": at(counts.first.zero),
        "first_negative": at(counts.first.negative),
        "lowest": counts.range.map(|range| range.0),
        "median": counts.range.map(|range| range.1),
        "highest": counts.range.map(|range| range.2),
        "usable_as": use_as,
    }))
}

/// The field, and what its values are.
fn read(path: &Path, arguments: &InspectArguments) -> Outcome<(Field, &'static str)> {
    let given = arguments.png_step.map(|step| PngScale::new(arguments.png_offset, step)).transpose()?;
    let named = |error: gpara::Error| Failure::from(error).or_hint("fields are .csv, .npy or gray .png files");
    match Field::read(path, given) {
        Ok(field) if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("png")) => {
            Ok((field, if given.is_some() { "scaled as given" } else { "scaled as the file records" }))
        }
        Ok(field) => Ok((field, "as stored")),
        // Without any scale a PNG still has gray values to look at.
        Err(error) if given.is_none() => match Field::read(path, Some(PngScale::new(arguments.png_offset, 1.0)?)) {
            Ok(field) => Ok((field, "gray values, no scale recorded")),
            Err(_) => Err(named(error)),
        },
        Err(error) => Err(named(error)),
    }
}

fn described(entry: &Value) -> String {
    let number = |key: &str| entry[key].as_f64().map_or("none".to_string(), |value| value.to_string());
    let counted = |kind: &str| {
        let cell = &entry[format!("first_{kind}")];
        match (cell["row"].as_u64(), cell["col"].as_u64()) {
            (Some(row), Some(col)) => format!("{kind} {} (first at row {row}, col {col})", entry[kind]),
            _ => format!("{kind} {}", entry[kind]),
        }
    };
    let text = |key: &str| entry[key].as_str().unwrap_or_default().to_string();
    format!(
        "{}: {} rows x {} cols, values {}\n  lowest {}, median {}, highest {}\n  {}, {}, {}, {}\n  usable as {}\n",
        text("file"),
        entry["rows"],
        entry["cols"],
        text("values"),
        number("lowest"),
        number("median"),
        number("highest"),
        counted("nan"),
        counted("infinite"),
        counted("zero"),
        counted("negative"),
        text("usable_as")
    )
}

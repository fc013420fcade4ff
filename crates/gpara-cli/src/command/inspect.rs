//! `gpara inspect`: what a file holds, before it is used.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use gpara_tasks::field::{GrayScale, MaskFile, PngScale, Raster, RasterOptions};
use gpara_tasks::points::{PointColumns, Position, SampleRows, SampleRules};
use serde_json::{Value, json};

use crate::console::Console;
use crate::failure::{Failure, Outcome};

/// Say size, range, place and NaN, infinite, zero and negative counts of fields, masks and points
///
/// Example: gpara inspect configs/data/wave.csv configs/data/wave_mask.csv
#[derive(Debug, Args)]
pub(crate) struct InspectArguments {
    /// Fields or masks: .csv, .npy, .npz, .tif, .asc or gray .png; points: .csv with a header, .geojson, .parquet
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Value of gray 0 of a PNG
    #[arg(long, allow_hyphen_values = true, default_value_t = 0.0)]
    png_offset: f64,
    /// Value of one gray step of a PNG [default: 1, or what the file records]
    #[arg(long, allow_hyphen_values = true)]
    png_step: Option<f64>,
    /// A value that stands for a missing one, e.g. -9999
    #[arg(long, allow_hyphen_values = true)]
    missing: Option<f64>,
    /// Name of the array in an .npz that holds more than one
    #[arg(long)]
    array: Option<String>,
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
    let (raster, scale) = match read(path, arguments) {
        Ok(found) => found,
        // What is no field may hold points; if it does not either, the error of the likelier reading is told.
        Err(failure) => {
            let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
            let points = SampleRows::read(path, &PointColumns::default(), SampleRules::default());
            return match (points, ending.as_deref()) {
                (Ok(rows), _) => Ok(inspect_points(path, &rows)),
                (Err(error), Some("geojson" | "json" | "parquet" | "tsv")) => Err(named(error)),
                (Err(error), Some("csv")) if has_header(path) => Err(named(error)),
                (Err(_), _) => Err(failure),
            };
        }
    };
    let field = raster.field;
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
        "geotransform": raster.georeference.map(|place| place.affine().coefficients()),
        "crs": raster.georeference.and_then(|place| place.crs()).map(|crs| crs.to_string()),
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

/// Whether every cell of the first line of a text file is the name of a column.
fn has_header(path: &Path) -> bool {
    let Ok(file) = std::fs::File::open(path) else { return false };
    let mut line = Vec::new();
    // A first line longer than this is no header.
    let read = BufReader::new(file.take(1 << 16)).read_until(b'\n', &mut line);
    let text = String::from_utf8_lossy(&line);
    let name = |cell: &str| {
        let cell = cell.trim().trim_matches('"').trim_start_matches('\u{feff}');
        cell.chars().any(char::is_alphabetic) && cell.parse::<f64>().is_err()
    };
    read.is_ok() && text.split([',', ';', '\t']).all(name)
}

/// Counts of a point file, whose grid is not known here.
fn inspect_points(path: &Path, rows: &SampleRows) -> Value {
    let mut values: Vec<f64> = rows.samples.iter().map(|sample| sample.value).collect();
    values.sort_by(f64::total_cmp);
    let position = match rows.samples.first().map(|sample| sample.position) {
        None => "none",
        Some(Position::Cell { .. }) => "row and col",
        Some(Position::World { .. }) => "x and y",
        Some(Position::LatLon { .. }) => "latitude and longitude",
    };
    let refused = rows.refused.first();
    json!({
        "file": path.display().to_string(),
        "points": rows.samples.len(),
        "position": position,
        "with_sigma": rows.samples.iter().filter(|sample| sample.sigma.is_some()).count(),
        "refused": rows.refused.len(),
        "first_refused": refused.map(|row| json!({ "line": row.line, "reason": row.reason })),
        "lowest": values.first(),
        "median": values.get(values.len().saturating_sub(1) / 2),
        "highest": values.last(),
        "usable_as": "points",
    })
}

fn named(error: gpara::Error) -> Failure {
    Failure::from(error).or_hint(
        "fields are .csv, .npy, .npz, .tif, .asc or gray .png files, points .csv with a header, .geojson or .parquet",
    )
}

/// The field, and what its values are.
fn read(path: &Path, arguments: &InspectArguments) -> Outcome<(Raster, &'static str)> {
    let given = arguments.png_step.map(|step| PngScale::new(arguments.png_offset, step)).transpose()?;
    let is_png = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("png"));
    let with_scale = |scale: Option<PngScale>| {
        let (missing, array) = (arguments.missing, arguments.array.clone());
        Raster::read(path, &RasterOptions { scale: scale.map(GrayScale::Steps), missing, array })
    };
    match with_scale(given) {
        Ok(raster) if is_png => {
            Ok((raster, if given.is_some() { "scaled as given" } else { "scaled as the file records" }))
        }
        Ok(raster) => Ok((raster, "as stored")),
        // Without any scale a PNG still has gray values to look at.
        Err(error) if is_png && given.is_none() => match with_scale(Some(PngScale::new(arguments.png_offset, 1.0)?)) {
            Ok(raster) => Ok((raster, "gray values, no scale recorded")),
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
    if let Some(points) = entry["points"].as_u64() {
        let refused = match entry["first_refused"]["line"].as_u64() {
            None => "none refused".to_string(),
            Some(line) => {
                let reason = entry["first_refused"]["reason"].as_str().unwrap_or_default();
                format!("{} refused (first at {line}: {reason})", entry["refused"])
            }
        };
        return format!(
            "{}: {points} points by {}, {} with sigma, {refused}\n  lowest {}, median {}, highest {}\n",
            text("file"),
            text("position"),
            entry["with_sigma"],
            number("lowest"),
            number("median"),
            number("highest")
        );
    }
    let place = match entry["crs"].as_str() {
        Some(crs) => format!(", {crs}"),
        None if entry["geotransform"].is_array() => ", with a place of unknown coordinate system".into(),
        None => String::new(),
    };
    format!(
        "{}: {} rows x {} cols, values {}{place}\n  lowest {}, median {}, highest {}\n  {}, {}, {}, {}\n  usable as {}\n",
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

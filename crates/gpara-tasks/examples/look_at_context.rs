//! Times loading and context of radio maps, fits the field on the channels, and writes channels as pictures.
//!
//! `cargo run --release -p gpara-tasks --example look_at_context -- DATA_FOLDER|sample OUT_FOLDER [NUM_MAPS]`

use std::path::Path;
use std::time::Instant;

use gpara::Context;
use gpara_tasks::radio::{RadioDataset, RadioMap, Split, sample_city};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, data, out, rest @ ..] = arguments.as_slice() else { return Err("DATA_FOLDER|sample OUT_FOLDER".into()) };
    let num_maps: usize = rest.first().map_or(Ok(8), |text| text.parse())?;
    std::fs::create_dir_all(out)?;

    let start = Instant::now();
    let maps: Vec<RadioMap> = if data == "sample" {
        sample_city()?.into_iter().take(num_maps).collect()
    } else {
        let dataset = RadioDataset::open(Path::new(data))?;
        dataset.split(Split::Validation).iter().take(num_maps).map(|id| dataset.load(id)).collect::<Result<_, _>>()?
    };
    println!("load {:.2} ms a map", start.elapsed().as_secs_f64() * 1e3 / maps.len() as f64);
    let mut contexts = Vec::new();
    let mut seconds = Vec::new();
    for map in &maps {
        let start = Instant::now();
        contexts.push(map.scene.context());
        seconds.push(start.elapsed().as_secs_f64());
    }
    let total: f64 = seconds.iter().sum();
    let worst = seconds.iter().copied().fold(0.0, f64::max);
    println!("context {:.2} ms a map, worst {:.2} ms", total * 1e3 / maps.len() as f64, worst * 1e3);

    let sets: [(&str, &[usize]); 6] = [
        ("log_distance", &[2]),
        ("log_distance + line_of_sight", &[2, 3]),
        ("+ detour", &[2, 3, 4]),
        ("+ diffraction_order (no detour)", &[2, 3, 5]),
        ("+ both", &[2, 3, 4, 5]),
        ("all but building", &[1, 2, 3, 4, 5]),
    ];
    for (name, channels) in sets {
        println!("R2 {:.4}  {name}", explained_share(&maps, &contexts, channels));
    }
    for (map, context) in maps.iter().zip(&contexts) {
        write_strip(map, context, &Path::new(out).join(format!("{}.png", map.id)))?;
    }
    Ok(())
}

/// Share of the variance of the valid cells explained by least squares on the channels and a constant.
fn explained_share(maps: &[RadioMap], contexts: &[Context], channels: &[usize]) -> f64 {
    let size = channels.len() + 1;
    let mut normal = vec![vec![0.0; size + 1]; size];
    let (mut sum, mut square, mut count) = (0.0, 0.0, 0.0);
    let rows = |map: &RadioMap, context: &Context, node: usize| {
        let mut row: Vec<f64> = channels.iter().map(|&k| f64::from(context.channels()[k].values[node])).collect();
        row.push(1.0);
        row.push(f64::from(map.field[node]));
        row
    };
    for (map, context) in maps.iter().zip(contexts) {
        for node in map.scene.valid().nodes() {
            let row = rows(map, context, node);
            for first in 0..size {
                for second in 0..=size {
                    normal[first][second] += row[first] * row[second];
                }
            }
            let value = row[size];
            sum += value;
            square += value * value;
            count += 1.0;
        }
    }
    let right: Vec<f64> = normal.iter().map(|row| row[size]).collect();
    for pivot in 0..size {
        for row in 0..size {
            if row != pivot {
                let factor = normal[row][pivot] / normal[pivot][pivot];
                for col in 0..=size {
                    normal[row][col] -= factor * normal[pivot][col];
                }
            }
        }
    }
    let explained: f64 = (0..size).map(|row| normal[row][size] / normal[row][row] * right[row]).sum();
    (explained - sum * sum / count) / (square - sum * sum / count)
}

/// Field and channels side by side, each scaled from its range to 0..=255.
fn write_strip(map: &RadioMap, context: &Context, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let grid = map.scene.grid();
    let mut tiles: Vec<Vec<f32>> = vec![map.field.iter().map(|value| (value + 1.0) / 2.0).collect()];
    tiles.extend(context.channels().iter().map(|channel| channel.values.clone()));
    let zoom = 2;
    let (rows, cols) = (grid.rows() * zoom, grid.cols() * zoom);
    let picture = image::GrayImage::from_fn(((cols + 4) * tiles.len()) as u32, rows as u32, |x, y| {
        let (tile, col) = (x as usize / (cols + 4), x as usize % (cols + 4));
        let value = if col < cols { tiles[tile][grid.node(y as usize / zoom, col / zoom)] } else { 1.0 };
        image::Luma([(255.0 * value) as u8])
    });
    picture.save(path)?;
    Ok(())
}

//! Twelve squares of the project's own making, embedded (`data/sample_city/README.md` says how they were made).

use std::collections::BTreeMap;
use std::path::Path;

use gpara::Result;

use super::dataset::RadioMap;
use super::error::RadioError;
use super::gray::Gray;
use super::scene::RadioScene;

/// Number of embedded squares.
pub const NUM_SAMPLE_SCENES: usize = 12;

macro_rules! sample_files {
    ($($index:literal)*) => {
        [$((
            include_bytes!(concat!("../../data/sample_city/buildings/", $index, ".png")),
            include_bytes!(concat!("../../data/sample_city/gain/", $index, ".png")),
        )),*]
    };
}

/// Building mask and gain map of each square, as PNG.
const FILES: [(&[u8], &[u8]); NUM_SAMPLE_SCENES] = sample_files!(0 1 2 3 4 5 6 7 8 9 10 11);

/// Positions of the antennas, `{"K": [x, y]}`, x = column.
const TRANSMITTERS: &str = include_str!("../../data/sample_city/tx.json");

/// Side of a pixel of the files, in metres.
const METERS_PER_PIXEL: f64 = 1.0;

/// All embedded squares, 128 x 128 cells of 2 m; their ids are `sample_K`.
///
/// # Errors
/// None in a sound build; the embedded files pass the same checks as files of a user.
pub fn sample_city() -> Result<Vec<RadioMap>> {
    (0..NUM_SAMPLE_SCENES).map(sample_scene).collect()
}

/// One embedded square.
///
/// # Errors
/// `InvalidInput` if `index` is not below [`NUM_SAMPLE_SCENES`].
pub fn sample_scene(index: usize) -> Result<RadioMap> {
    let &(buildings, gain) =
        FILES.get(index).ok_or(RadioError::NoSampleScene { index, last: NUM_SAMPLE_SCENES - 1 })?;
    let path = Path::new("sample_city/tx.json");
    let transmitters: BTreeMap<usize, (usize, usize)> = serde_json::from_str(TRANSMITTERS)
        .map_err(|error| RadioError::Json { path: path.into(), reason: error.to_string() })?;
    let &(col, row) = transmitters
        .get(&index)
        .ok_or_else(|| RadioError::Json { path: path.into(), reason: format!("square {index} is missing") })?;

    let path = Path::new("sample_city/buildings");
    let buildings = Gray::decode(buildings, path)?;
    let grid = buildings.grid;
    let built = buildings.into_buildings(path)?;
    let gain = Gray::decode(gain, Path::new("sample_city/gain"))?;
    let scene = RadioScene::from_halved_mask(grid, built, (row, col), METERS_PER_PIXEL)?;
    let field = scene.field_from_gray(gain.grid, &gain.values)?;
    Ok(RadioMap { id: format!("sample_{index}"), scene, field })
}

#[cfg(test)]
mod tests {
    use gpara::ErrorKind;

    use super::*;

    #[test]
    fn sample_city_has_twelve_squares_with_gain_near_the_antenna() {
        let maps = sample_city().unwrap();
        assert_eq!(maps.len(), NUM_SAMPLE_SCENES);
        for map in maps {
            let grid = map.scene.grid();
            assert_eq!((grid.rows(), grid.cols()), (128, 128), "{}", map.id);
            let (row, col) = map.scene.transmitter();
            let (row, col) = (row.round() as usize, col.round() as usize);
            let peak = map.field.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let near = (row - 1..=row + 1).flat_map(|row| (col - 1..=col + 1).map(move |col| grid.node(row, col)));
            // The strongest cell of a square is at its antenna: rows and columns are not swapped anywhere.
            assert!(near.map(|node| map.field[node]).any(|value| value == peak), "{}", map.id);
            let invalid = (0..grid.num_nodes()).filter(|&node| !map.scene.valid().is_valid(node));
            assert!(invalid.into_iter().all(|node| map.field[node] == -1.0), "{}", map.id);
        }
    }

    #[test]
    fn sample_scene_beyond_the_last_is_refused() {
        assert_eq!(sample_scene(12).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}

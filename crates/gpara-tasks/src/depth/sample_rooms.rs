//! Twelve rooms of the project's own making, embedded (`data/sample_rooms/README.md` says how they were made).

use std::path::Path;

use gpara::Result;

use super::dataset::DepthMap;
use super::error::DepthError;
use super::pictures::{Millimeters, Picture};

/// Number of embedded rooms.
pub const NUM_SAMPLE_ROOMS: usize = 12;

macro_rules! sample_files {
    ($($index:literal)*) => {
        [$((
            include_bytes!(concat!("../../data/sample_rooms/rgb/", $index, ".png")),
            include_bytes!(concat!("../../data/sample_rooms/depth/", $index, ".png")),
        )),*]
    };
}

/// Picture and depth map of each room, as PNG.
const FILES: [(&[u8], &[u8]); NUM_SAMPLE_ROOMS] = sample_files!(0 1 2 3 4 5 6 7 8 9 10 11);

/// All embedded rooms, 192 x 256 cells; their ids are `room_K`.
///
/// # Errors
/// None in a sound build; the embedded files pass the same checks as files of a user.
pub fn sample_rooms() -> Result<Vec<DepthMap>> {
    (0..NUM_SAMPLE_ROOMS).map(sample_room).collect()
}

/// One embedded room.
///
/// # Errors
/// `InvalidInput` if `index` is not below [`NUM_SAMPLE_ROOMS`].
pub fn sample_room(index: usize) -> Result<DepthMap> {
    let &(picture, depth) = FILES.get(index).ok_or(DepthError::NoSampleRoom { index, last: NUM_SAMPLE_ROOMS - 1 })?;
    let picture = Picture::decode(picture, Path::new("sample_rooms/rgb"))?;
    let depth = Millimeters::decode(depth, Path::new("sample_rooms/depth"))?;
    DepthMap::new(format!("room_{index}"), picture, depth)
}

#[cfg(test)]
mod tests {
    use gpara::ErrorKind;

    use super::*;
    use crate::depth::meters_from_normalized;

    #[test]
    fn sample_rooms_are_192_by_256_with_indoor_depths_everywhere() {
        let rooms = sample_rooms().unwrap();
        assert_eq!(rooms.len(), NUM_SAMPLE_ROOMS);
        for room in rooms {
            let grid = room.scene.grid();
            assert_eq!((grid.rows(), grid.cols(), room.valid.num_valid()), (192, 256, 192 * 256), "{}", room.id);
            let meters = room.field.iter().map(|&value| meters_from_normalized(f64::from(value)));
            let (low, high) = meters.fold((f64::MAX, 0f64), |(low, high), depth| (low.min(depth), high.max(depth)));
            assert!(low > 0.3 && high < 10.0 && high > 2.0, "{}: {low} to {high} m", room.id);
        }
    }

    #[test]
    fn sample_room_beyond_the_last_is_refused() {
        assert_eq!(sample_room(12).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}

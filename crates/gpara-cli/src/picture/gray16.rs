//! Values as a 16-bit grey PNG: lossless to half a step of a stated range.

use std::io::Cursor;

use gpara::ValidMask;
use image::{ImageBuffer, ImageFormat, Luma};

/// The range that grey 0 and grey 65535 stand for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct GrayRange {
    /// Value of grey 0.
    pub(crate) low: f64,
    /// Value of grey 65535.
    pub(crate) high: f64,
}

/// `num_nodes` values as PNG bytes; invalid cells are 0, values outside the range take the nearest end.
pub(crate) fn gray16_png(values: &[f64], valid: &ValidMask, range: GrayRange) -> Vec<u8> {
    let grid = valid.grid();
    let image = ImageBuffer::from_fn(grid.cols() as u32, grid.rows() as u32, |x, y| {
        let node = grid.node(y as usize, x as usize);
        let position = (values[node] - range.low) / (range.high - range.low);
        Luma([if valid.is_valid(node) { (position.clamp(0.0, 1.0) * 65535.0).round() as u16 } else { 0 }])
    });
    let mut bytes = Cursor::new(Vec::new());
    image.write_to(&mut bytes, ImageFormat::Png).expect("a PNG fits in memory");
    bytes.into_inner()
}

#[cfg(test)]
mod tests {
    use gpara::Grid;

    use super::*;

    #[test]
    fn reading_back_is_within_half_a_step() {
        let valid = ValidMask::new(Grid::new(3, 5).unwrap(), (0..15).map(|node| node != 7).collect()).unwrap();
        let range = GrayRange { low: -147.0, high: -47.84 };
        let values: Vec<f64> = (0..15).map(|node| -147.0 + f64::from(node) * 7.08).collect();
        let image = image::load_from_memory(&gray16_png(&values, &valid, range)).unwrap().into_luma16();
        let half_step = 0.5 * (range.high - range.low) / 65535.0;
        for (node, value) in values.iter().enumerate() {
            let gray = f64::from(image.get_pixel(node as u32 % 5, node as u32 / 5).0[0]);
            let read = range.low + gray / 65535.0 * (range.high - range.low);
            match valid.is_valid(node) {
                true => assert!((read - value).abs() <= half_step * (1.0 + 1e-9), "{node}: {read} {value}"),
                false => assert_eq!(gray, 0.0),
            }
        }
    }
}

//! Any grid size on a network of strided layers: mirrored cells fill the sides up, and are cut off the answer.

use gpara::Grid;

/// The grid of a scene and the larger one the network runs on; the scene is its top left corner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Padding {
    rows: usize,
    cols: usize,
    padded_rows: usize,
    padded_cols: usize,
}

impl Padding {
    /// Sides rounded up to multiples of `multiple`.
    pub(crate) fn new(grid: Grid, multiple: usize) -> Self {
        let (rows, cols) = (grid.rows(), grid.cols());
        Self { rows, cols, padded_rows: rows.next_multiple_of(multiple), padded_cols: cols.next_multiple_of(multiple) }
    }

    /// Rows and columns the network runs on.
    pub(crate) fn shape(self) -> [usize; 2] {
        [self.padded_rows, self.padded_cols]
    }

    /// Cells the network runs on.
    pub(crate) fn len(self) -> usize {
        self.padded_rows * self.padded_cols
    }

    /// Appends `values` (`[rows * cols]`), mirrored about the outer edges of the last row and column.
    ///
    /// Mirroring, because the result looks like one more scene: the noise keeps its statistics, maps keep their
    /// texture, and a measurement is mirrored together with the field it was taken from.
    pub(crate) fn extend(self, values: &[f32], padded: &mut Vec<f32>) {
        assert_eq!(values.len(), self.rows * self.cols, "one value a cell");
        for padded_row in 0..self.padded_rows {
            let row = mirror(padded_row, self.rows);
            let line = &values[row * self.cols..][..self.cols];
            padded.extend_from_slice(line);
            padded.extend((self.cols..self.padded_cols).map(|col| line[mirror(col, self.cols)]));
        }
    }

    /// The value of the scene's cells, in node order, of a padded array.
    pub(crate) fn crop(self, padded: &[f32]) -> impl Iterator<Item = f32> + '_ {
        assert_eq!(padded.len(), self.len(), "one value a padded cell");
        padded.chunks_exact(self.padded_cols).take(self.rows).flat_map(move |line| &line[..self.cols]).copied()
    }
}

/// Index into `0..len` of a position in the endless mirrored sequence 0, 1, .., len-1, len-1, .., 1, 0, 0, 1, ...
fn mirror(at: usize, len: usize) -> usize {
    let phase = at % (2 * len);
    if phase < len { phase } else { 2 * len - 1 - phase }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_are_mirrored_and_cropped_back() {
        let padding = Padding::new(Grid::new(2, 3).unwrap(), 4);
        let mut padded = Vec::new();
        padding.extend(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &mut padded);
        assert_eq!(padding.shape(), [4, 4]);
        assert_eq!(
            padded,
            [[1.0, 2.0, 3.0, 3.0], [4.0, 5.0, 6.0, 6.0], [4.0, 5.0, 6.0, 6.0], [1.0, 2.0, 3.0, 3.0]].concat()
        );
        assert_eq!(padding.crop(&padded).collect::<Vec<_>>(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    }

    #[test]
    fn grid_of_one_cell_fills_the_whole_padding() {
        let padding = Padding::new(Grid::new(1, 1).unwrap(), 8);
        let mut padded = Vec::new();
        padding.extend(&[2.5], &mut padded);
        assert_eq!(padded, vec![2.5; 64]);
    }

    #[test]
    fn fitting_grid_is_unchanged() {
        let padding = Padding::new(Grid::new(2, 4).unwrap(), 2);
        let values: Vec<f32> = (0..8).map(|value| value as f32).collect();
        let mut padded = Vec::new();
        padding.extend(&values, &mut padded);
        assert_eq!(padded, values);
    }
}

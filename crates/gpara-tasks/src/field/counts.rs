//! What the values of a field are like: counts per kind, range, where the first bad one is.

use super::raster::Field;

/// Counts over all cells of a field, for people who look at a file before they use it.
#[derive(Debug, Clone, PartialEq)]
pub struct Counts {
    /// Number of cells.
    pub cells: usize,
    /// Cells that are NaN.
    pub nan: usize,
    /// Cells that are infinite.
    pub infinite: usize,
    /// Cells that are exactly zero: missing values in many depth and gain files.
    pub zero: usize,
    /// Finite cells below zero.
    pub negative: usize,
    /// Row and column of the first NaN, infinite, zero and negative cell.
    pub first: FirstCells,
    /// Smallest, median and largest finite value; none if no value is finite.
    pub range: Option<(f64, f64, f64)>,
}

/// Row and column of the first cell of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FirstCells {
    /// The first NaN.
    pub nan: Option<(usize, usize)>,
    /// The first infinity.
    pub infinite: Option<(usize, usize)>,
    /// The first zero.
    pub zero: Option<(usize, usize)>,
    /// The first negative finite value.
    pub negative: Option<(usize, usize)>,
}

impl Field {
    /// Counts its values per kind.
    pub fn counts(&self) -> Counts {
        let (nan, first_nan) = self.count(f64::is_nan);
        let (infinite, first_infinite) = self.count(f64::is_infinite);
        let (zero, first_zero) = self.count(|value| value == 0.0);
        let (negative, first_negative) = self.count(|value| value.is_finite() && value < 0.0);
        let mut finite: Vec<f64> = self.values().iter().copied().filter(|value| value.is_finite()).collect();
        finite.sort_by(f64::total_cmp);
        let range = match finite.as_slice() {
            [] => None,
            // The lower of the two middle values: a value that occurs.
            sorted => Some((sorted[0], sorted[(sorted.len() - 1) / 2], sorted[sorted.len() - 1])),
        };
        let first = FirstCells { nan: first_nan, infinite: first_infinite, zero: first_zero, negative: first_negative };
        Counts { cells: self.values().len(), nan, infinite, zero, negative, first, range }
    }

    fn count(&self, is_of_kind: impl Fn(f64) -> bool) -> (usize, Option<(usize, usize)>) {
        let mut nodes = (0..self.values().len()).filter(|&node| is_of_kind(self.values()[node]));
        let first = nodes.next();
        (usize::from(first.is_some()) + nodes.count(), first.map(|node| self.grid().row_col(node)))
    }
}

#[cfg(test)]
mod tests {
    use gpara::Grid;

    use super::*;

    #[test]
    fn users_01_counts_and_first_cells_of_each_kind() {
        let values = vec![1.0, f64::NAN, 0.0, -2.0, f64::NEG_INFINITY, f64::NAN, 0.0, 5.0];
        let counts = Field::new(Grid::new(2, 4).unwrap(), values).unwrap().counts();
        assert_eq!((counts.cells, counts.nan, counts.infinite, counts.zero, counts.negative), (8, 2, 1, 2, 1));
        let first =
            FirstCells { nan: Some((0, 1)), infinite: Some((1, 0)), zero: Some((0, 2)), negative: Some((0, 3)) };
        assert_eq!(counts.first, first);
        assert_eq!(counts.range, Some((-2.0, 0.0, 5.0)));
        let empty = Field::new(Grid::new(1, 1).unwrap(), vec![f64::NAN]).unwrap().counts();
        assert_eq!(empty.range, None);
    }
}

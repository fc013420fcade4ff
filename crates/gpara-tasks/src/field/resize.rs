//! Resizing by areas, of the valid cells only.

use gpara::{Grid, Result, ValidMask};

use super::error::FieldError;
use super::raster::Field;

/// A field on another grid over the same area: each new cell is the mean of the valid cells it covers, by their areas.
///
/// A new cell is valid if at least half of it is covered by valid cells. No invalid value enters any mean; new cells that
/// are not valid are NaN.
///
/// # Errors
/// `ShapeMismatch` if mask and field differ in size; `NonFinite` with the first valid cell that is not finite; `InvalidInput`
/// if no new cell is valid.
pub fn resize(field: &Field, valid: &ValidMask, grid: Grid) -> Result<(Field, ValidMask)> {
    field.check_finite(valid)?;
    let row_weights = overlaps(field.grid().rows(), grid.rows());
    let col_weights = overlaps(field.grid().cols(), grid.cols());
    let full = field.grid().num_nodes() as f64 / grid.num_nodes() as f64;
    let mut values = Vec::with_capacity(grid.num_nodes());
    let mut flags = Vec::with_capacity(grid.num_nodes());
    for rows in &row_weights {
        for cols in &col_weights {
            let (mut area, mut sum) = (0.0, 0.0);
            for &(row, height) in rows {
                for &(col, width) in cols {
                    let node = field.grid().node(row, col);
                    if valid.is_valid(node) {
                        area += height * width;
                        sum += height * width * field.values()[node];
                    }
                }
            }
            // Half an area may be missed by rounding.
            let is_valid = area >= 0.5 * full * (1.0 - 1e-9);
            flags.push(is_valid);
            values.push(if is_valid { sum / area } else { f64::NAN });
        }
    }
    if !flags.contains(&true) {
        return Err(FieldError::NoneLeft { from: field.grid(), to: grid }.into());
    }
    Ok((Field::new(grid, values)?, ValidMask::new(grid, flags)?))
}

/// For each new cell along one axis, the old cells it overlaps and by how much, in old cells.
fn overlaps(old: usize, new: usize) -> Vec<Vec<(usize, f64)>> {
    let ratio = old as f64 / new as f64;
    let of_cell = |cell: usize| {
        let (start, end) = (cell as f64 * ratio, ((cell + 1) as f64 * ratio).min(old as f64));
        let last = (end.ceil() as usize).min(old);
        let overlap = |at: usize| (at, (end.min((at + 1) as f64) - start.max(at as f64)).max(0.0));
        (start as usize..last).map(overlap).filter(|&(_, overlap)| overlap > 0.0).collect()
    };
    (0..new).map(of_cell).collect()
}

#[cfg(test)]
mod tests {
    use gpara::ErrorKind;

    use super::*;

    fn grid(rows: usize, cols: usize) -> Grid {
        Grid::new(rows, cols).unwrap()
    }

    #[test]
    fn users_07_no_mean_mixes_valid_and_invalid_cells() {
        let missing = f64::NAN;
        let field =
            Field::new(grid(2, 6), vec![1.0, missing, 3.0, 4.0, 9.0, missing, 2.0, 5.0, 5.0, 6.0, missing, missing]);
        let field = field.unwrap();
        let flags = field.values().iter().map(|value| value.is_finite()).collect();
        let (small, valid) = resize(&field, &ValidMask::new(field.grid(), flags).unwrap(), grid(1, 3)).unwrap();
        assert_eq!(small.values()[..2], [8.0 / 3.0, 4.5]);
        assert!(small.values()[2].is_nan());
        assert_eq!(valid.as_slice(), [true, true, false]);
        // A huge value below the mask leaves no trace.
        let mut flags = vec![true; 4];
        flags[3] = false;
        let spoiled = Field::new(grid(2, 2), vec![1.0, 1.0, 1.0, 1e30]).unwrap();
        let (one, _) = resize(&spoiled, &ValidMask::new(grid(2, 2), flags).unwrap(), grid(1, 1)).unwrap();
        assert_eq!(one.values(), [1.0]);
    }

    #[test]
    fn uneven_and_larger_grids_keep_the_mean() {
        let values: Vec<f64> = (0..35).map(|node| f64::from(node * node % 17)).collect();
        let mean = values.iter().sum::<f64>() / 35.0;
        let field = Field::new(grid(5, 7), values).unwrap();
        for target in [grid(2, 3), grid(1, 1), grid(5, 7), grid(11, 8), grid(50, 70)] {
            let (resized, valid) = resize(&field, &ValidMask::all(field.grid()), target).unwrap();
            assert_eq!((resized.grid(), valid.num_valid()), (target, target.num_nodes()));
            let resized_mean = resized.values().iter().sum::<f64>() / target.num_nodes() as f64;
            assert!((resized_mean - mean).abs() < 1e-12, "{target}: {resized_mean} {mean}");
        }
        assert_eq!(resize(&field, &ValidMask::all(field.grid()), field.grid()).unwrap().0, field);
    }

    #[test]
    fn field_that_vanishes_is_an_error() {
        let mut flags = vec![false; 9];
        flags[4] = true;
        let field = Field::new(grid(3, 3), vec![1.0; 9]).unwrap();
        let error = resize(&field, &ValidMask::new(grid(3, 3), flags).unwrap(), grid(1, 1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}

//! What is said of cells outside the valid mask: nothing of their own, so what their neighbours say.

use super::{Reconstruction, ReconstructionInput, Reconstructor};
use crate::context::Context;
use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::grid::{Grid, ValidMask};
use crate::observations::Observations;
use thiserror::Error as ThisError;

/// Gives the cells outside the mask the mixture of what their neighbours have, ring after ring from the mask inwards (Eq. G.18):
/// `mean_i` is the mean over the sides of i that are valid or in an earlier ring, `std_i^2` the mean of their `std^2` plus the
/// variance of their means, but `std_i` at least the median over the valid cells: a measured cell beside says nothing of how far its
/// value goes. Valid cells keep what they have.
///
/// A mask is knowledge that may be wrong. Where it is right nobody asks for these cells; where it invents a building, the street
/// beside it says more of the cells below than a fixed value.
///
/// # Errors
/// `ShapeMismatch` if `mean` or `std` have another length than the mask's grid has cells; nothing is written then.
pub fn extend_beyond_mask(valid: &ValidMask, mean: &mut [f64], std: Option<&mut [f64]>) -> Result<()> {
    let grid = valid.grid();
    for found in std::iter::once(mean.len()).chain(std.as_ref().map(|std| std.len())) {
        if found != grid.num_nodes() {
            return Err(BeyondMaskError { found, grid }.into());
        }
    }
    if valid.num_valid() == grid.num_nodes() {
        return Ok(());
    }
    let mut nothing = Vec::new();
    let std = std.unwrap_or(&mut nothing);
    let least = median(valid.nodes().filter_map(|node| std.get(node).copied()).collect());
    let mut known = valid.as_slice().to_vec();
    let mut ring: Vec<usize> = valid.nodes().collect();
    loop {
        ring = next_ring(grid, &known, &ring);
        if ring.is_empty() {
            return Ok(());
        }
        // All values of a ring come from the rings before, so their order does not matter.
        for &node in &ring {
            let sides = || grid.sides(node).filter(|&side| known[side]);
            let count = sides().count() as f64;
            let centre = sides().map(|side| mean[side]).sum::<f64>() / count;
            if !std.is_empty() {
                let square = |side: usize| std[side].powi(2) + (mean[side] - centre).powi(2);
                std[node] = (sides().map(square).sum::<f64>() / count).sqrt().max(least);
            }
            mean[node] = centre;
        }
        ring.iter().for_each(|&node| known[node] = true);
    }
}

/// The lower median; 0 of nothing.
fn median(mut values: Vec<f64>) -> f64 {
    match values.len() {
        0 => 0.0,
        count => *values.select_nth_unstable_by((count - 1) / 2, f64::total_cmp).1,
    }
}

/// The unknown cells that touch a cell of `ring` by a side, in ascending order.
fn next_ring(grid: Grid, known: &[bool], ring: &[usize]) -> Vec<usize> {
    let mut next: Vec<usize> = ring.iter().flat_map(|&node| grid.sides(node)).filter(|&side| !known[side]).collect();
    next.sort_unstable();
    next.dedup();
    next
}

/// A reconstructor whose field goes on beyond the mask by [`extend_beyond_mask`].
pub struct BeyondMask<R> {
    within: R,
}

impl<R: Reconstructor> BeyondMask<R> {
    /// The reconstructor that answers within the mask.
    pub fn new(within: R) -> Self {
        Self { within }
    }
}

impl<R: Reconstructor> Reconstructor for BeyondMask<R> {
    fn name(&self) -> &str {
        self.within.name()
    }

    fn interval_factors(&self, context: &Context, observations: &Observations) -> [f64; 3] {
        self.within.interval_factors(context, observations)
    }

    fn reconstruct(&self, input: &ReconstructionInput<'_>) -> Result<Reconstruction> {
        let mut made = self.within.reconstruct(input)?;
        extend_beyond_mask(input.context.valid(), &mut made.mean, made.std.as_deref_mut())?;
        Ok(made)
    }
}

#[derive(Debug, ThisError)]
#[error("{found} values, the grid {grid} of the mask has {} cells", grid.num_nodes())]
struct BeyondMaskError {
    found: usize,
    grid: Grid,
}

impl ErrorDetail for BeyondMaskError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::ShapeMismatch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(grid: Grid, invalid: &[usize]) -> ValidMask {
        ValidMask::new(grid, (0..grid.num_nodes()).map(|node| !invalid.contains(&node)).collect()).unwrap()
    }

    #[test]
    fn a_hole_in_a_ramp_is_filled_by_the_ramp_and_its_std_holds_the_spread_of_its_sides() {
        let grid = Grid::new(3, 4).unwrap();
        let ramp: Vec<f64> = (0..12).map(|node| 0.5 * (node % 4) as f64 - 0.25 * (node / 4) as f64).collect();
        let (mut mean, mut std) = (ramp.clone(), vec![0.3; 12]);
        (mean[5], std[5]) = (-1.0, 7.0);
        extend_beyond_mask(&mask(grid, &[5]), &mut mean, Some(&mut std)).unwrap();
        mean.iter().zip(&ramp).for_each(|(found, wanted)| assert!((found - wanted).abs() < 1e-15));
        // Sides differ by -.25, -.5, .5 and .25 from the centre.
        let spread = (2.0 * 0.25_f64.powi(2) + 2.0 * 0.5_f64.powi(2)) / 4.0;
        assert!((std[5] - (0.09 + spread).sqrt()).abs() < 1e-15);
        assert!(std.iter().enumerate().all(|(node, &std)| node == 5 || std == 0.3));
    }

    #[test]
    fn rings_go_inwards_and_a_cell_sees_earlier_rings_only() {
        // One row: valid 1, three unknown, valid 5. The middle one is the mean of its neighbours, which copied the ends.
        let grid = Grid::new(1, 5).unwrap();
        let mut mean = vec![1.0, 9.0, 9.0, 9.0, 5.0];
        extend_beyond_mask(&mask(grid, &[1, 2, 3]), &mut mean, None).unwrap();
        assert_eq!(mean, [1.0, 1.0, 3.0, 5.0, 5.0]);
        // A closed corner: its one open side decides.
        let mut mean = vec![9.0, 2.0, 4.0, 4.0];
        extend_beyond_mask(&mask(Grid::new(2, 2).unwrap(), &[0]), &mut mean, None).unwrap();
        assert_eq!(mean, [3.0, 2.0, 4.0, 4.0]);
    }

    #[test]
    fn one_valid_cell_fills_the_grid_and_a_full_mask_changes_nothing() {
        let grid = Grid::new(5, 7).unwrap();
        let invalid: Vec<usize> = (0..35).filter(|&node| node != 17).collect();
        let (mut mean, mut std) = (vec![0.0; 35], vec![9.0; 35]);
        (mean[17], std[17]) = (0.7, 0.2);
        extend_beyond_mask(&mask(grid, &invalid), &mut mean, Some(&mut std)).unwrap();
        assert!(mean.iter().all(|value| (value - 0.7).abs() < 1e-14));
        assert!(std.iter().all(|value| (value - 0.2).abs() < 1e-14));
        let mut own: Vec<f64> = (0..35).map(f64::from).collect();
        extend_beyond_mask(&ValidMask::all(grid), &mut own, None).unwrap();
        assert!(own.iter().enumerate().all(|(node, &value)| value == node as f64));
    }

    #[test]
    fn a_measured_cell_beside_does_not_make_a_cell_known() {
        let (mut mean, mut std) = (vec![0.0, 0.0, 9.0], vec![0.4, 1e-4, 9.0]);
        let valid = mask(Grid::new(1, 3).unwrap(), &[2]);
        extend_beyond_mask(&valid, &mut mean, Some(&mut std)).unwrap();
        // The lower median of two.
        assert_eq!((mean[2], std[2]), (0.0, 1e-4));
        let (mut mean, mut std) = (vec![0.0; 4], vec![0.4, 0.3, 1e-4, 9.0]);
        extend_beyond_mask(&mask(Grid::new(1, 4).unwrap(), &[3]), &mut mean, Some(&mut std)).unwrap();
        assert_eq!(std, [0.4, 0.3, 1e-4, 0.3]);
    }

    #[test]
    fn another_length_is_refused_and_nothing_is_written() {
        let grid = Grid::new(2, 2).unwrap();
        let mut mean = vec![9.0, 2.0, 4.0, 4.0];
        let error = extend_beyond_mask(&mask(grid, &[0]), &mut mean, Some(&mut [0.1; 3])).unwrap_err();
        assert_eq!((error.kind(), mean[0]), (ErrorKind::ShapeMismatch, 9.0));
        assert!(error.to_string().contains("3 values"), "{error}");
        let error = extend_beyond_mask(&mask(grid, &[0]), &mut mean[..3], None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ShapeMismatch);
    }
}

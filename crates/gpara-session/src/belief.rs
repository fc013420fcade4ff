//! What networks say of the field after measurements, kept in the session file, so that they are asked once a state.

use gpara::Observations;

use crate::store::sha256_hex;

/// An estimate with the standard deviation of its error, `num_nodes` normalised values each.
#[derive(Debug, Clone, PartialEq)]
pub struct BelievedField {
    /// The estimate, before it is corrected by the graph.
    pub mean: Vec<f64>,
    /// Standard deviation of its error.
    pub std: Vec<f64>,
}

impl BelievedField {
    /// The standard deviation, at measured cells the noise of the measurement where that is less.
    pub fn std_given(&self, observations: &Observations) -> Vec<f64> {
        let mut std = self.std.clone();
        observations.iter().for_each(|entry| std[entry.node] = std[entry.node].min(entry.noise_std));
        std
    }
}

/// A belief with the measurements it was made from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KeptBelief {
    /// [`fingerprint`] of the measurements.
    pub(crate) observations: String,
    /// The belief.
    pub(crate) field: BelievedField,
    /// Whether it stands in the file.
    pub(crate) is_stored: bool,
}

/// A hash of measurements: same cells, values and noise, same hash.
pub(crate) fn fingerprint(observations: &Observations) -> String {
    let bytes: Vec<u8> = observations
        .iter()
        .flat_map(|entry| [entry.node as u64, entry.value.to_bits(), entry.noise_std.to_bits()])
        .flat_map(u64::to_le_bytes)
        .collect();
    sha256_hex(&bytes)
}

#[cfg(test)]
mod tests {
    use gpara::{Grid, Observation, ValidMask};

    use super::*;

    fn measured(entries: &[(usize, f64, f64)]) -> Observations {
        let grid = Grid::new(2, 3).unwrap();
        let mut observations = Observations::none(grid);
        let entries: Vec<Observation> =
            entries.iter().map(|&(node, value, noise_std)| Observation { node, value, noise_std }).collect();
        observations.add(&ValidMask::all(grid), &entries).unwrap();
        observations
    }

    #[test]
    fn fingerprint_tells_cells_values_and_noise_apart() {
        let one = fingerprint(&measured(&[(1, 0.5, 0.1)]));
        assert_eq!(one, fingerprint(&measured(&[(1, 0.5, 0.1)])));
        for other in [&[(2, 0.5, 0.1)][..], &[(1, 0.25, 0.1)], &[(1, 0.5, 0.2)], &[]] {
            assert_ne!(one, fingerprint(&measured(other)), "{other:?}");
        }
    }

    #[test]
    fn measured_cells_are_known_to_the_noise_of_their_measurement() {
        let field = BelievedField { mean: vec![0.0; 6], std: vec![0.3; 6] };
        assert_eq!(field.std_given(&measured(&[(1, 0.5, 0.1), (4, 0.0, 0.9)])), [0.3, 0.1, 0.3, 0.3, 0.3, 0.3]);
    }
}

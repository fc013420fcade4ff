//! A network of role `spread` on libtorch: a campaign asks it once a round, which on a CPU is half of its time.

use gpara::{Context, Observations, Result, SpreadPredictor};
use gpara_nn::spread_of_output;

use super::TorchNetwork;
use crate::config::Role;

/// The network as it was trained: factors that were fitted on validation maps belong to a card, not to the weights.
impl SpreadPredictor for TorchNetwork {
    fn name(&self) -> &str {
        &self.facts().config.name
    }

    /// One evaluation with the mean estimate as the state, at timestep 0.
    fn predict_std(&self, context: &Context, observations: &Observations, mean: &[f64]) -> Result<Vec<f64>> {
        self.require(Role::Spread)?;
        let outputs = self.outputs(mean, 0, context, observations)?;
        Ok(outputs.into_iter().map(|output| spread_of_output(f64::from(output))).collect())
    }
}

#[cfg(test)]
mod tests {
    use gpara::{ErrorKind, Grid, MeanPredictor, Observations};

    use super::super::tests::{config, forward, network, random, scene};
    use super::*;
    use crate::config::Output;

    #[test]
    fn std_is_that_of_one_evaluation_of_the_mean_at_timestep_zero() {
        let grid = Grid::new(8, 12).unwrap();
        let (context, observations) = scene(grid);
        let (torch, network, _store) = network(config(Role::Spread, Output::LogScale), |_, _| {});
        let mean = random("mean", grid.num_nodes());
        let found = torch.predict_std(&context, &observations, &mean).unwrap();
        let raw = forward(&network, &mean, 0, &context, &observations);
        assert!(raw.iter().any(|value| value.abs() > 0.1), "the network returns next to nothing");
        for (found, &raw) in found.iter().zip(&raw) {
            let expected = std::f64::consts::SQRT_2 * (f64::from(raw) - 3.0).clamp(-9.0, 1.0).exp();
            assert!((found - expected).abs() < 1e-6, "{found} for {expected}");
        }
        let other = torch.predict_std(&context, &Observations::none(grid), &mean).unwrap();
        assert_ne!(found, other, "the measurements reach the network");
    }

    #[test]
    fn other_roles_are_refused_both_ways() {
        let grid = Grid::new(8, 12).unwrap();
        let (context, observations) = scene(grid);
        let (mean, _, _store) = network(config(Role::Mean, Output::Clean), |_, _| {});
        let error = mean.predict_std(&context, &observations, &vec![0.0; grid.num_nodes()]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Incompatible);
        let (spread, _, _store) = network(config(Role::Spread, Output::LogScale), |_, _| {});
        assert_eq!(spread.predict(&context, &observations).unwrap_err().kind(), ErrorKind::Incompatible);
    }
}

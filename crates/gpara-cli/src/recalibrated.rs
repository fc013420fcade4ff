//! Networks whose spread has other factors than its own: those being fitted, or those of a card beside bare weights.

use std::sync::Arc;

use gpara::{
    Calibration, Context, Denoiser, GraphPredictor, MeanPredictor, NoiseSchedule, Observations, Result, Scorer,
    SpreadPredictor,
};

use crate::failure::Outcome;
use crate::model_source::ModelSource;

/// The networks of another source, with these factors on every spread.
pub(crate) struct Recalibrated<'a> {
    pub(crate) models: &'a dyn ModelSource,
    pub(crate) calibration: Calibration,
}

impl ModelSource for Recalibrated<'_> {
    fn prior(&self, name: &str, task: &str) -> Outcome<(Arc<dyn Denoiser>, NoiseSchedule)> {
        self.models.prior(name, task)
    }

    fn mean(&self, name: &str, task: &str) -> Outcome<Arc<dyn MeanPredictor>> {
        self.models.mean(name, task)
    }

    fn spread(&self, name: &str, task: &str) -> Outcome<Arc<dyn SpreadPredictor>> {
        let network = self.models.spread(name, task)?;
        Ok(Arc::new(RecalibratedSpread { network, calibration: self.calibration.clone() }))
    }

    fn graph(&self, name: &str, task: &str) -> Outcome<Arc<dyn GraphPredictor>> {
        self.models.graph(name, task)
    }

    fn scorer(&self, name: &str, task: &str) -> Outcome<Arc<dyn Scorer>> {
        self.models.scorer(name, task)
    }

    fn fingerprint(&self, name: &str) -> Outcome<String> {
        self.models.fingerprint(name)
    }
}

/// A spread network with other factors than its own.
pub(crate) struct RecalibratedSpread {
    pub(crate) network: Arc<dyn SpreadPredictor>,
    pub(crate) calibration: Calibration,
}

impl SpreadPredictor for RecalibratedSpread {
    fn name(&self) -> &str {
        self.network.name()
    }

    fn predict_std(&self, context: &Context, observations: &Observations, mean: &[f64]) -> Result<Vec<f64>> {
        let mut std = self.network.predict_std(context, observations, mean)?;
        let factor = self.std_factor(context, observations) / self.network.std_factor(context, observations);
        std.iter_mut().for_each(|std| *std *= factor);
        Ok(std)
    }

    fn std_factor(&self, context: &Context, observations: &Observations) -> f64 {
        self.calibration.of(context.valid(), observations).std_factor
    }

    fn interval_factors(&self, context: &Context, observations: &Observations) -> [f64; 3] {
        self.calibration.of(context.valid(), observations).interval_factors
    }
}

#[cfg(test)]
mod tests {
    use gpara::{CalibrationCurve, CalibrationPoint, Grid, MeasurementLayout, Observation, POISSON_DISPERSION};

    use super::*;

    /// .5 everywhere times a factor of 3.
    struct Fixed;

    impl SpreadPredictor for Fixed {
        fn name(&self) -> &str {
            "fixed"
        }

        fn predict_std(&self, context: &Context, _: &Observations, _: &[f64]) -> Result<Vec<f64>> {
            Ok(vec![1.5; context.grid().num_nodes()])
        }

        fn std_factor(&self, _: &Context, _: &Observations) -> f64 {
            3.0
        }
    }

    #[test]
    fn factors_replace_those_of_the_network() {
        let layout = MeasurementLayout { spacing: 2.0, dispersion: POISSON_DISPERSION };
        let point = CalibrationPoint { layout, std_factor: 0.25, interval_factors: [0.6, 1.2, 2.0] };
        let curve = CalibrationCurve { chosen_by: None, points: vec![point] };
        let calibration = Calibration::new(vec![curve]).unwrap();
        let spread = RecalibratedSpread { network: Arc::new(Fixed), calibration };
        let context = Context::empty(Grid::new(4, 4).unwrap());
        let mut observations = Observations::none(context.grid());
        observations.add(context.valid(), &[Observation { node: 5, value: 0.1, noise_std: 0.0 }]).unwrap();
        let std = spread.predict_std(&context, &observations, &[0.0; 16]).unwrap();
        // .5 * .25
        assert!(std.iter().all(|std| (std - 0.125).abs() < 1e-15), "{std:?}");
        assert_eq!(spread.std_factor(&context, &observations), 0.25);
        assert_eq!(spread.interval_factors(&context, &observations), [0.6, 1.2, 2.0]);
    }
}

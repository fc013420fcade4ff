//! The seam between a session and the method that serves it: a prior, a graph, a reconstruction.

use gpara::{
    Conductances, Context, Correction, GaussianReconstructor, GaussianSettings, GraphDescriptor, GraphPredictor,
    MeanSolver, PriorEnsemble, PriorMean, Reconstruction, ReconstructionInput, Reconstructor, ResidualPrecision,
    Result, RiskRule, SeedTree, StdScale, UniformGraph,
};

use crate::error::SessionError;
use crate::settings::SessionPrior;

/// What is predicted of the field, normalised, `num_nodes` values each.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// The mean.
    pub mean: Vec<f64>,
    /// Standard deviation of the prediction's error; `None` as long as there is no basis for one.
    pub std: Option<Vec<f64>>,
}

/// What a session asks of a method. Its answers depend on nothing but its inputs and what it was made with.
pub trait Method: Send + Sync {
    /// Says what the answers depend on, e.g. a preset's and its networks' hashes; a session refuses another one.
    fn identity(&self) -> String;

    /// Whether the level of the field is fitted to the measurements (ordinary kriging), which leave-one-out must know.
    fn fits_level(&self) -> bool;

    /// How samples are conditioned on measurements (Eq. 13).
    fn correction(&self) -> Correction;

    /// Which cells' uncertainty counts (B.32-B.34).
    fn risk(&self) -> RiskRule;

    /// Draws the samples the session keeps; `None` for a prior without samples.
    ///
    /// # Errors
    /// Those of the network.
    fn draw_prior(&self, context: &Context, seeds: SeedTree) -> Result<Option<PriorEnsemble>>;

    /// Q_g of the scene. Only the valid cells of `context` are looked at.
    ///
    /// # Errors
    /// Those of the graph.
    fn precision(&self, context: &Context, ensemble: Option<&PriorEnsemble>) -> Result<ResidualPrecision>;

    /// The field as far as it is known, without any network: fast enough for every ask.
    ///
    /// # Errors
    /// Those of the linear algebra.
    fn predict(&self, input: &ReconstructionInput<'_>) -> Result<Prediction>;

    /// The field as well as the method can tell, with `num_samples` samples of it (0: none).
    ///
    /// # Errors
    /// Those of the network and of the linear algebra; `Unsupported` if samples are wanted and the method makes none.
    fn reconstruct(&self, input: &ReconstructionInput<'_>, num_samples: usize) -> Result<Reconstruction>;

    /// Standard deviation of the error of [`reconstruct`](Self::reconstruct), without its cost; `None` as long as there is
    /// no basis for one.
    ///
    /// # Errors
    /// Those of the linear algebra.
    fn error_std(&self, input: &ReconstructionInput<'_>) -> Result<Option<Vec<f64>>>;
}

/// A Gaussian field on the grid with a fitted level and spread: no network, any field.
#[derive(Debug, Clone, PartialEq)]
pub struct GaussianMethod {
    level: f64,
    residual_precision: f64,
    graph_coupling: f64,
}

impl GaussianMethod {
    /// The method of a session whose prior is Gaussian; `None` for another prior.
    pub fn of(prior: &SessionPrior) -> Option<Self> {
        match *prior {
            SessionPrior::Gaussian { level, residual_precision, graph_coupling } => {
                Some(Self { level, residual_precision, graph_coupling })
            }
            SessionPrior::Preset { .. } => None,
        }
    }

    fn reconstructor(&self, num_samples: usize) -> GaussianReconstructor {
        let mean = PriorMean::Fitted { without_measurements: self.level };
        GaussianReconstructor::new(GaussianSettings { mean, scale: StdScale::Fitted, num_samples })
    }
}

impl Method for GaussianMethod {
    fn identity(&self) -> String {
        let Self { level, residual_precision, graph_coupling } = self;
        format!("gaussian 1, level {level}, residual_precision {residual_precision}, graph_coupling {graph_coupling}")
    }

    fn fits_level(&self) -> bool {
        true
    }

    fn correction(&self) -> Correction {
        Correction { solver: MeanSolver::Exact, strength: 1.0, range: None }
    }

    fn risk(&self) -> RiskRule {
        RiskRule::Uniform
    }

    fn draw_prior(&self, _context: &Context, _seeds: SeedTree) -> Result<Option<PriorEnsemble>> {
        Ok(None)
    }

    fn precision(&self, context: &Context, _ensemble: Option<&PriorEnsemble>) -> Result<ResidualPrecision> {
        let flat = vec![0.0; context.grid().num_nodes()];
        let descriptor = GraphDescriptor { context, prior_mean: &flat, prior_std: &flat, num_measured: 0 };
        let conductances: Conductances = UniformGraph.predict(&descriptor)?;
        ResidualPrecision::new(conductances, self.residual_precision, self.graph_coupling)
    }

    fn predict(&self, input: &ReconstructionInput<'_>) -> Result<Prediction> {
        let Reconstruction { mean, std, .. } = self.reconstruct(input, 0)?;
        Ok(Prediction { mean, std })
    }

    fn reconstruct(&self, input: &ReconstructionInput<'_>, num_samples: usize) -> Result<Reconstruction> {
        let made = self.reconstructor(num_samples).reconstruct(input)?;
        if num_samples > 0 && made.samples.is_none() {
            let method = "gaussian (with fewer than two measurements)".into();
            return Err(SessionError::NoSamples { method }.into());
        }
        Ok(made)
    }

    fn error_std(&self, input: &ReconstructionInput<'_>) -> Result<Option<Vec<f64>>> {
        Ok(self.reconstruct(input, 0)?.std)
    }
}

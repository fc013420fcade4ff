//! Numeric core of gpara: where to measure a field next, and what the whole field looks like given the measurements.
//!
//! The modules follow the data flow of the method (Algorithm 1 of the paper):
//! `context -> prior -> graph -> posterior -> acquisition -> session -> reconstruct`.
//! Six object-safe traits are the seams: [`Denoiser`], [`GraphPredictor`], [`Scorer`], [`Policy`], [`Reconstructor`]
//! and [`MeasurementSource`]; each has an exact toy implementation here, so that the whole algorithm has a closed-form
//! answer in the tests.
//!
//! Conventions: a field is a row-major slice of `num_nodes` values, node = row * cols + col; row 0 is the top.
//! Quantities are `f64`; networks take and give `f32` behind [`Denoiser`]. Paper symbols map to names in `docs/notation.md`.

mod batch;
mod belief;
mod calibration;
mod coarse_field;
mod context;
mod counting_denoiser;
mod denoiser;
mod discrepancy;
mod drift;
mod engine;
mod ensemble_cache;
mod error;
mod gaussian_denoiser;
mod gaussian_field;
mod graph;
mod grid;
mod layout;
mod likelihood;
mod linearization;
mod mean;
mod measurement_source;
mod memory;
mod metrics;
mod observations;
mod policy;
mod posterior;
mod precision;
mod prior;
mod probing;
mod reconstruct;
mod residual_scale;
mod reverse_chain;
mod risk;
mod schedule;
mod scorer;
mod seed;
mod session;
mod solve;
mod spread;
mod symmetry;
mod tiles;
mod utility;
mod value_range;

pub use batch::{
    BatchInput, BatchMoments, BatchRule, CarriedMoments, probe_overlap, select_batch, select_batch_with_moments,
};
pub use belief::{Belief, BeliefCache, BeliefModel, ErrorCoupling, NetworkBelief, error_weights};
pub use calibration::{COVERAGE_LEVELS, Calibration, CalibrationCurve, CalibrationPoint, NORMAL_INTERVALS};
pub use coarse_field::CoarseField;
pub use context::{Channel, Context};
pub use counting_denoiser::CountingDenoiser;
pub use denoiser::{Denoiser, DenoiserInput};
pub use discrepancy::DiscrepancyRule;
pub use drift::{Drift, MAX_DRIFT_COLUMNS};
pub use ensemble_cache::EnsembleCache;
pub use error::{Error, ErrorDetail, ErrorKind, Result};
pub use gaussian_denoiser::GaussianDenoiser;
pub use gaussian_field::{sample_fields, sample_residual};
pub use graph::{
    Conductances, EDGE_OFFSETS, EdgeAware, GraphDescriptor, GraphPredictor, Guided, UniformGraph, edge_mask,
};
pub use grid::{Grid, ValidMask};
pub use layout::{MeasurementLayout, POISSON_DISPERSION, measurement_spacing};
pub use likelihood::{
    MarginalGradient, PrecisionGradient, log_marginal_likelihood, marginal_likelihood_gradient,
    residual_likelihood_gradient, residual_log_likelihood,
};
pub use linearization::Pullback;
pub use mean::MeanPredictor;
pub use measurement_source::{FieldSource, MeasurementSource};
pub use metrics::{FieldErrors, RelativeErrors, errors_over_unobserved, errors_over_valid, relative_errors_over_valid};
pub use observations::{Observation, Observations};
pub use policy::{
    AcquisitionInput, FarthestPoint, FirstPoint, Gpara, GparaSettings, MaxVariance, Policy, Random, RiskRule,
    SelectedPoint, Selection,
};
pub use posterior::{Correction, Posterior};
pub use precision::{PosteriorPrecision, PrecisionOrder, PrecisionScale, ResidualPrecision};
pub use prior::{PriorEnsemble, sample_prior};
pub use probing::{ProbeKind, rademacher_probes};
pub use reconstruct::{
    BeyondMask, CorrectionSchedule, DenseSettings, GaussianReconstructor, GaussianSettings, MeanReconstructor,
    MeanSettings, PriorMean, Reconstruction, ReconstructionInput, Reconstructor, StdScale, StdSource,
    TrajectoryReconstructor, TrajectorySettings, extend_beyond_mask,
};
pub use residual_scale::{ScaleOutcome, ScaledPosterior};
pub use reverse_chain::SamplerSettings;
pub use risk::{EnsembleMoments, RiskSettings, RiskWeights, mean_variance};
pub use schedule::{NoiseSchedule, Parameterization, ReverseCoefficients, ReverseStep};
pub use scorer::{AcquisitionState, Scorer, ZeroScorer, calibrated_score, normalized_utility};
pub use seed::{SeedTree, Stream};
pub use session::{AcquisitionModel, AcquisitionSession, RoundRecord, SessionSettings, run_to_end};
pub use solve::{Arithmetic, MeanSolver, SolveInfo, Stop};
pub use spread::{NoiseAwareSpread, SpreadPredictor};
pub use symmetry::{Symmetry, SymmetrySet};
pub use tiles::{HaloChoice, HaloSearch, Tiling};
pub use utility::{UtilityMethod, UtilityMoments};
pub use value_range::ValueRange;

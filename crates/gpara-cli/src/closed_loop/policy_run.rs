//! One policy on one known field, from the first point to the scored reconstruction.

use std::time::Instant;

use gpara::{
    AcquisitionModel, AcquisitionSession, Context, FieldSource, MeasurementSource, Observations, Posterior,
    RoundRecord, SeedTree, SessionSettings, errors_over_valid,
};

use super::score::{Score, Scored};
use crate::failure::Outcome;
use crate::preset::{MethodParts, PolicyChoice};

/// Numbers of measurements at which error and risk are recorded on the way; the end is always recorded.
const CURVE_AT: [usize; 9] = [0, 8, 16, 32, 64, 128, 192, 256, 384];

/// The field, and how it is measured.
pub(crate) struct LoopInput<'a> {
    /// What the preset made for this scene.
    pub(crate) parts: &'a MethodParts,
    /// The scene.
    pub(crate) context: &'a Context,
    /// The field, `num_nodes` normalised values.
    pub(crate) truth: &'a [f64],
    /// The normalised value that stands for nothing, where errors relative to the truth are wanted.
    pub(crate) zero: Option<f64>,
    /// Budget, batch and noise.
    pub(crate) settings: SessionSettings,
    /// Root of the run's randomness.
    pub(crate) seeds: SeedTree,
}

/// What one policy led to.
pub(crate) struct PolicyRun {
    /// The policy.
    pub(crate) policy: PolicyChoice,
    /// Its rounds.
    pub(crate) rounds: Vec<RoundRecord>,
    /// The measurements.
    pub(crate) observations: Observations,
    /// RMSE over valid cells of the quick estimate against the number of measurements, normalised units.
    pub(crate) error_curve: Vec<(f64, f64)>,
    /// Mean posterior variance of the valid cells against the number of measurements: the risk of Eq. 14 with W = I.
    pub(crate) risk_curve: Vec<(f64, f64)>,
    /// The reconstruction from all measurements.
    pub(crate) result: Scored,
}

/// Runs a policy to the end of its budget, after the rounds in `recorded`, and reconstructs.
///
/// `after_round` sees each new round after its values are told, e.g. to log it.
pub(crate) fn run_policy(
    input: &LoopInput<'_>,
    policy: PolicyChoice,
    recorded: &[RoundRecord],
    after_round: &mut dyn FnMut(&RoundRecord) -> Outcome,
) -> Outcome<PolicyRun> {
    let LoopInput { parts, context, truth, settings, seeds, .. } = *input;
    let mut model = parts.acquisition_model(policy)?;
    let mut session = AcquisitionSession::new(context.clone(), settings, seeds)?;
    let mut source = FieldSource::new(truth.to_vec(), settings.noise_std, seeds)?;
    let mut curves = Curves::default();
    curves.record(input, session.observations())?;
    for record in recorded {
        session.replay(&mut model, record)?;
        curves.record(input, session.observations())?;
    }
    while session.next_batch() > 0 {
        let record = one_round(&mut session, &mut model, &mut source)?;
        after_round(&record)?;
        curves.record(input, session.observations())?;
    }
    curves.record_end(input, session.observations())?;
    let seconds = session.rounds().iter().map(|round| round.seconds).sum::<f64>();
    let network_calls = session.rounds().iter().map(|round| round.network_calls).sum::<u64>();
    let without_network = session.rounds().iter().filter(|round| round.network_calls == 0);
    let selection_seconds = without_network.map(|round| round.seconds).sum::<f64>();
    let mut result = reconstruct_scored(input, session.observations())?;
    result.score.seconds += seconds;
    result.score.selection_seconds = selection_seconds;
    result.score.network_calls += network_calls;
    Ok(PolicyRun {
        policy,
        rounds: session.rounds().to_vec(),
        observations: session.observations().clone(),
        error_curve: curves.error,
        risk_curve: curves.risk,
        result,
    })
}

/// Asks, measures and tells one batch; cells that give no value are told as failed.
fn one_round(
    session: &mut AcquisitionSession,
    model: &mut AcquisitionModel,
    source: &mut FieldSource,
) -> Outcome<RoundRecord> {
    let count = session.next_batch();
    let nodes = session.ask(model, count)?.nodes();
    session.tell(&source.measure(&nodes)?)?;
    Ok(session.rounds().last().expect("a round was asked").clone())
}

/// Reconstructs from the given measurements and scores the result.
pub(crate) fn reconstruct_scored(input: &LoopInput<'_>, observations: &Observations) -> Outcome<Scored> {
    let started = Instant::now();
    let made = input.parts.reconstruct(input.context, observations, input.seeds)?;
    let (valid, seconds) = (input.context.valid(), started.elapsed().as_secs_f64());
    let score = Score::of(&made.mean, input.truth, valid, observations, seconds, made.network_calls)?;
    let score = match input.zero {
        Some(zero) => score.relative_to(zero, &made.mean, input.truth, valid)?,
        None => score,
    };
    Ok(Scored { mean: made.mean, std: made.std, score })
}

#[derive(Default)]
struct Curves {
    error: Vec<(f64, f64)>,
    risk: Vec<(f64, f64)>,
    /// Number of entries of `CURVE_AT` that are done.
    passed: usize,
    last: Option<usize>,
}

impl Curves {
    /// Records a point if the measurements have reached the next mark.
    fn record(&mut self, input: &LoopInput<'_>, observations: &Observations) -> Outcome {
        let passed = CURVE_AT.partition_point(|&mark| mark <= observations.len());
        if passed == self.passed {
            return Ok(());
        }
        self.passed = passed;
        self.record_end(input, observations)
    }

    /// Records a point unless the last one stands at the same number of measurements.
    fn record_end(&mut self, input: &LoopInput<'_>, observations: &Observations) -> Outcome {
        if self.last == Some(observations.len()) {
            return Ok(());
        }
        self.last = Some(observations.len());
        let (context, valid) = (input.context, input.context.valid());
        let estimate = input.parts.quick_estimate(context, observations, input.seeds)?;
        let variances = Posterior::new(&input.parts.precision, observations)?.variances()?;
        let risk = valid.nodes().map(|node| variances[node]).sum::<f64>() / valid.num_valid() as f64;
        let count = observations.len() as f64;
        self.error.push((count, errors_over_valid(&estimate, input.truth, valid)?.rmse));
        self.risk.push((count, risk));
        Ok(())
    }
}

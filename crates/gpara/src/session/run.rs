//! A session against a measurement source, to the end of the budget.

use super::{AcquisitionModel, AcquisitionSession};
use crate::error::Result;
use crate::measurement_source::MeasurementSource;

/// Asks, measures and tells until the budget is spent or no candidate is left.
///
/// A node the source does not answer for is told as failed and replaced by another. `after_round` sees the session once
/// the values of a round are in; an error of it stops the loop.
///
/// # Errors
/// Those of [`AcquisitionSession::ask`], of the source, of [`AcquisitionSession::tell`] and of `after_round`.
pub fn run_to_end(
    session: &mut AcquisitionSession,
    model: &mut AcquisitionModel,
    source: &mut dyn MeasurementSource,
    after_round: &mut dyn FnMut(&AcquisitionSession) -> Result<()>,
) -> Result<()> {
    loop {
        let count = session.next_batch();
        if count == 0 {
            return Ok(());
        }
        let nodes = session.ask(model, count)?.nodes();
        let measured = source.measure(&nodes)?;
        session.tell(&measured)?;
        let failed: Vec<usize> =
            nodes.into_iter().filter(|node| measured.iter().all(|entry| entry.node != *node)).collect();
        session.tell_failed(&failed)?;
        after_round(session)?;
    }
}

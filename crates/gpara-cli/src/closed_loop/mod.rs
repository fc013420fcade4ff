//! Algorithm 1 against a field that is known: the policy asks, the field answers, the reconstruction is scored.

mod policy_run;
mod score;

pub(crate) use policy_run::{LoopInput, PolicyRun, reconstruct_scored, run_policy};
pub(crate) use score::{Score, Scored};

//! The drift of a fitted prior: what the field follows on the whole, with unknown factors.

use gpara::{Grid, MAX_DRIFT_COLUMNS, Result, ValidMask};
use serde::{Deserialize, Serialize};

use crate::error::SessionError;
use crate::scene::Scene;

/// One term of the drift.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum DriftTerm {
    /// An unknown level.
    Constant,
    /// An unknown factor on the logarithm of the distance to a place, e.g. a transmitter.
    LogDistance {
        /// Row of the place; cells count from 0.
        row: f64,
        /// Column of the place.
        col: f64,
    },
    /// An unknown factor on a map, e.g. the height of the ground.
    Channel {
        /// The name of the session's layer `channel:NAME`.
        name: String,
    },
}

/// Distances below half a cell count as half a cell: the logarithm has no end there.
const NEAREST: f64 = 0.5;

impl DriftTerm {
    /// A short name.
    pub fn label(&self) -> String {
        match self {
            Self::Constant => "constant".into(),
            Self::LogDistance { row, col } => format!("log-distance={row}:{col}"),
            Self::Channel { name } => format!("channel={name}"),
        }
    }

    fn raw(&self, scene: &Scene) -> Result<Vec<f64>> {
        let grid = scene.grid();
        match self {
            Self::Constant => Ok(vec![1.0; grid.num_nodes()]),
            Self::LogDistance { row, col } => Ok(log_distance(grid, *row, *col)),
            Self::Channel { name } => scene.channel(name).map(<[f64]>::to_vec).ok_or_else(|| {
                let (name, value) = ("drift", self.label());
                SessionError::Setting { name, value, allowed: "a map that the session holds" }.into()
            }),
        }
    }
}

fn log_distance(grid: Grid, row: f64, col: f64) -> Vec<f64> {
    let value = |node: usize| {
        let (r, c) = grid.row_col(node);
        (r as f64 - row).hypot(c as f64 - col).max(NEAREST).ln()
    };
    (0..grid.num_nodes()).map(value).collect()
}

/// Checks the number and the repetition of terms.
///
/// # Errors
/// `InvalidInput` for no term, too many, one that repeats another, a drift without its constant, or a place that is not
/// finite.
pub(crate) fn check_terms(terms: &[DriftTerm]) -> Result<()> {
    let labels: Vec<String> = terms.iter().map(DriftTerm::label).collect();
    let refused = |allowed| {
        let (name, value) = ("drift", labels.join(","));
        Err(SessionError::Setting { name, value, allowed }.into())
    };
    if terms.len() > MAX_DRIFT_COLUMNS {
        return refused("at most 8 terms");
    }
    if terms.first() != Some(&DriftTerm::Constant) {
        return refused("the first term is `constant`: a field has a level");
    }
    if labels.iter().enumerate().any(|(at, label)| labels[..at].contains(label)) {
        return refused("no term twice");
    }
    let finite = |term: &DriftTerm| match term {
        DriftTerm::LogDistance { row, col } => row.is_finite() && col.is_finite(),
        _ => true,
    };
    if terms.iter().all(finite) { Ok(()) } else { refused("a place is two finite numbers ROW:COL") }
}

/// The columns of the terms: the constant as it is, every other one with mean 0 and standard deviation 1 over the valid cells,
/// so that one prior suits all. A map that is the same everywhere has a column of zeros.
pub(super) fn columns(terms: &[DriftTerm], scene: &Scene) -> Result<Vec<Vec<f64>>> {
    terms
        .iter()
        .map(|term| {
            let raw = term.raw(scene)?;
            Ok(if *term == DriftTerm::Constant { raw } else { standardised(&raw, scene.valid()) })
        })
        .collect()
}

fn standardised(raw: &[f64], valid: &ValidMask) -> Vec<f64> {
    let count = valid.num_valid() as f64;
    let mean = valid.nodes().map(|node| raw[node]).sum::<f64>() / count;
    let variance = valid.nodes().map(|node| (raw[node] - mean).powi(2)).sum::<f64>() / count;
    let scale = if variance > 0.0 { variance.sqrt().recip() } else { 0.0 };
    (0..raw.len()).map(|node| if valid.is_valid(node) { scale * (raw[node] - mean) } else { 0.0 }).collect()
}

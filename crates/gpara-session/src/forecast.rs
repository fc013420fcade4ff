//! How well the field will be known after more measurements, before any of them is made.
//!
//! Exact: the variance of every cell for a given set of measured cells, which does not depend on the values. Heuristic: the
//! set itself, cells of large utility at a distance from each other; a campaign that asks step by step does no worse as a
//! rule.

use gpara::{Context, Observation, Observations, Result, RiskWeights, UtilityMoments};

use crate::method::FieldModel;

/// What a forecast is made from.
#[derive(Debug, Clone, Copy)]
pub struct ForecastInput<'a> {
    /// The cells of the field.
    pub context: &'a Context,
    /// The field's model.
    pub model: &'a FieldModel,
    /// Measured cells, and pending ones taken as measured.
    pub observations: &'a Observations,
    /// Nodes that may be measured, increasing.
    pub candidates: &'a [usize],
    /// Noise of the measurements to come.
    pub noise_std: f64,
    /// What each cell's variance counts, one a node; 1 everywhere where `None`.
    pub weights: Option<&'a [f64]>,
    /// Measurements the forecast reaches beyond those of `observations`.
    pub remaining: usize,
}

/// The curve has this many steps from here to the end of the budget.
const NUM_STEPS: usize = 6;

/// Mean weighted posterior variance of the valid cells (of the model, nugget included, normalised squared) against the number of
/// measurements; the first entry is the present state.
///
/// # Errors
/// Those of the linear algebra.
pub fn variance_curve(input: &ForecastInput<'_>) -> Result<Vec<(usize, f64)>> {
    let valid = input.context.valid();
    let weights = match input.weights {
        Some(weights) => RiskWeights::from_values(weights.to_vec())?,
        None => RiskWeights::uniform(valid.grid(), &valid.nodes().collect::<Vec<_>>())?,
    };
    let mut observations = input.observations.clone();
    let mut curve = Vec::new();
    let nugget = input.model.nugget_std * input.model.nugget_std;
    let (first, total) = (observations.len(), input.remaining.min(input.candidates.len()));
    for step in 1..=NUM_STEPS {
        // Early measurements change most, so early steps are short.
        let target = first + (total * step * step).div_ceil(NUM_STEPS * NUM_STEPS);
        let wanted = target - observations.len();
        if wanted == 0 {
            continue;
        }
        let posterior = input.model.posterior_of(&observations)?;
        let moments = UtilityMoments::exact(&posterior, &weights, input.noise_std)?;
        push_mean(&mut curve, valid.nodes(), &weights, &moments.variance_estimate, nugget, observations.len());
        let planned = spread_out(input, &observations, &moments.utility, wanted);
        let noise_std = input.noise_std;
        let assumed: Vec<Observation> =
            planned.into_iter().map(|node| Observation { node, value: 0.0, noise_std }).collect();
        observations.add(valid, &assumed)?;
    }
    let variances = input.model.posterior_of(&observations)?.variances()?;
    push_mean(&mut curve, valid.nodes(), &weights, &variances, nugget, observations.len());
    Ok(curve)
}

fn push_mean(
    curve: &mut Vec<(usize, f64)>,
    nodes: impl Iterator<Item = usize>,
    weights: &RiskWeights,
    variance: &[f64],
    nugget: f64,
    count: usize,
) {
    let weights = weights.as_slice();
    let (sum, cells) =
        nodes.fold((0.0, 0usize), |(sum, cells), node| (sum + weights[node] * variance[node], cells + 1));
    curve.push((count, nugget + sum / cells as f64));
}

/// `count` open candidates of large utility, as far from each other and from the measured cells as their number allows.
fn spread_out(input: &ForecastInput<'_>, observations: &Observations, utility: &[f64], count: usize) -> Vec<usize> {
    let grid = input.context.grid();
    let mut ranked: Vec<usize> =
        input.candidates.iter().copied().filter(|&node| !observations.contains(node)).collect();
    ranked.sort_by(|&first, &second| utility[second].total_cmp(&utility[first]).then(first.cmp(&second)));
    let per_point = ranked.len() as f64 / (observations.len() + count) as f64;
    let mut distance = per_point.sqrt();
    let mut planned: Vec<usize> = Vec::new();
    let mut taken = vec![false; grid.num_nodes()];
    loop {
        let mut near = taken.clone();
        for node in observations.iter().map(|entry| entry.node).chain(planned.iter().copied()) {
            block(grid, &mut near, node, distance);
        }
        for &node in &ranked {
            if planned.len() == count {
                return planned;
            }
            if !near[node] && !taken[node] {
                planned.push(node);
                taken[node] = true;
                block(grid, &mut near, node, distance);
            }
        }
        if distance < 1.0 {
            return planned;
        }
        distance *= 0.5;
    }
}

fn block(grid: gpara::Grid, near: &mut [bool], node: usize, distance: f64) {
    let reach = distance.floor() as isize;
    for down in -reach..=reach {
        for right in -reach..=reach {
            if ((down * down + right * right) as f64) < distance * distance
                && let Some(other) = grid.neighbor(node, (down, right))
            {
                near[other] = true;
            }
        }
    }
}

/// The point of diminishing return: the entry of a falling curve that lies farthest below the straight line from its first
/// to its last entry; `None` for a curve of fewer than three entries or one that is nowhere below that line.
pub fn diminishing_return(curve: &[(usize, f64)]) -> Option<usize> {
    let (&(first, high), &(last, low)) = (curve.first()?, curve.last()?);
    if curve.len() < 3 || last == first {
        return None;
    }
    let below = |&(count, error): &(usize, f64)| {
        let share = (count - first) as f64 / (last - first) as f64;
        high + share * (low - high) - error
    };
    let best = curve.iter().max_by(|a, b| below(a).total_cmp(&below(b)))?;
    (below(best) > 0.0).then_some(best.0)
}

/// The number of measurements at which a falling curve reaches `target`, on the straight line between its entries; `None` if
/// it does not.
pub fn reaches(curve: &[(usize, f64)], target: f64) -> Option<usize> {
    let at = curve.iter().position(|&(_, error)| error <= target)?;
    let Some(&(before, high)) = at.checked_sub(1).and_then(|before| curve.get(before)) else {
        return Some(curve[at].0);
    };
    let (count, low) = curve[at];
    Some(before + ((high - target) / (high - low) * (count - before) as f64).ceil() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knee_is_farthest_below_the_chord_and_target_lies_between_entries() {
        let curve = [(0, 10.0), (10, 4.0), (50, 3.0), (100, 2.0)];
        assert_eq!(diminishing_return(&curve), Some(10));
        assert_eq!(diminishing_return(&[(0, 3.0), (1, 2.0), (2, 1.0)]), None);
        assert_eq!(reaches(&curve, 5.5), Some(8));
        assert_eq!(reaches(&curve, 12.0), Some(0));
        assert_eq!(reaches(&curve, 1.0), None);
    }
}

//! Asking: which points to measure next, recorded as pending.

use std::time::Instant;

use gpara::Result;

use super::Campaign;
use crate::choice::{Choice, ChoiceInput, Limits, choose};
use crate::error::SessionError;
use crate::method::Method;
use crate::route::{distances, order};
use crate::state::{State, checked_node};
use crate::store::{AskRecord, AskedPoint};

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AskRequest {
    /// Number of points.
    pub count: usize,
    /// Largest sum of the points' costs.
    pub cost_budget: Option<f64>,
    /// Where a route through the points begins; `None` gives them in the order of choice.
    pub route_from: Option<(usize, usize)>,
}

impl AskRequest {
    /// `count` points without further limits.
    pub fn points(count: usize) -> Self {
        Self { count, cost_budget: None, route_from: None }
    }
}

/// The answer to an ask.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The points, which are pending from here on, and what they were chosen by.
    pub ask: AskRecord,
    /// Sum of the points' costs, if the session has a cost map.
    pub cost: Option<f64>,
    /// Whether the prior was drawn for this ask, which takes seconds.
    pub drawn: bool,
    /// Whether networks were asked about the measurements for this ask.
    pub believed: bool,
}

impl Campaign {
    /// Chooses up to `request.count` points and records them as pending; fewer where budget or limits leave fewer.
    ///
    /// The points are a function of settings, seed and what is told and pending, not of the order in which it came.
    ///
    /// # Errors
    /// `BudgetSpent` if the budget is measured or pending, `InvalidInput` if no point is open under the limits or the
    /// request is not allowed, those of [`prepare`](Self::prepare) and of the method, `Io` if the file cannot be written.
    pub fn ask(&mut self, method: &dyn Method, request: &AskRequest) -> Result<Answer> {
        if request.count == 0 {
            return Err(SessionError::Count { count: 0 }.into());
        }
        if let Some(budget) = request.cost_budget.filter(|budget| !(budget.is_finite() && *budget > 0.0)) {
            let (name, value) = ("cost-budget", budget.to_string());
            return Err(SessionError::Setting { name, value, allowed: "a finite number > 0" }.into());
        }
        let started = Instant::now();
        let drawn = self.prepare(method)?;
        // Networks are asked outside of the lock; if another process tells meanwhile, they are asked again inside.
        let state = self.state()?;
        self.believe(method, &state)?;
        // Other processes wait from here on, so that no two asks get the same point.
        let (ask, believed) = self.file.locked(|_| self.choose_and_record(method, request, started))?;
        let cost = self
            .scene
            .cost()
            .map(|cost| ask.points.iter().map(|point| cost[self.scene.grid().node(point.row, point.col)]).sum());
        Ok(Answer { ask, cost, drawn, believed })
    }

    /// The ask, and whether networks were asked for it.
    fn choose_and_record(
        &self,
        method: &dyn Method,
        request: &AskRequest,
        started: Instant,
    ) -> Result<(AskRecord, bool)> {
        let (settings, grid) = (&self.settings, self.scene.grid());
        let state = self.state()?;
        let remaining = state.remaining(settings.budget);
        if remaining == 0 {
            return Err(SessionError::BudgetSpent { budget: settings.budget }.into());
        }
        let prepared = self.prepared();
        let model = self.model(method, &state)?;
        let noise_std = settings.noise_std(settings.sigma).hypot(model.nugget_std);
        let posterior = model.posterior()?;
        let prediction = method.predict(&self.reconstruction_input(&prepared.context, &model), &model, &posterior)?;
        let with_pending = match state.pending.is_empty() {
            true => None,
            false => {
                let seen = state.with_pending(self.valid(), &model.observations, &prediction.mean, noise_std)?;
                Some(model.posterior_of(&seen)?)
            }
        };
        let candidates = self.candidates(&state, request)?;
        let error_weights = self.error_weights(&model)?;
        let input = ChoiceInput {
            context: &prepared.context,
            posterior: with_pending.as_ref().unwrap_or(&posterior),
            candidates: &candidates,
            ensemble: prepared.ensemble.as_ref(),
            correction: method.correction(),
            risk: method.risk(),
            error_weights: error_weights.as_deref(),
            importance: self.scene.importance(),
            noise_std,
            limits: Limits {
                min_distance: settings.min_distance,
                cost: self.scene.cost(),
                cost_budget: request.cost_budget,
            },
        };
        let Choice { mut points, risk } = choose(&input, request.count.min(remaining))?;
        let mut route_length = None;
        if let Some((row, col)) = request.route_from {
            let start = checked_node(self.valid(), row, col)?;
            let tour = order(self.valid(), start, &points.iter().map(|point| point.node).collect::<Vec<_>>())?;
            points = tour.order.into_iter().map(|at| points[at]).collect();
            route_length = Some(tour.length);
        }
        let square = settings.scale.factor().powi(2);
        let nodes: Vec<usize> = points.iter().map(|point| point.node).collect();
        let std = prediction.std.at(&posterior, &nodes)?;
        let references: Vec<usize> = model.interval_references.iter().map(|&(node, _)| node).collect();
        let at_references = match references.is_empty() {
            true => None,
            false => prediction.std.at(&posterior, &references)?,
        };
        let asked = points.iter().enumerate().map(|(at, point)| {
            let (row, col) = grid.row_col(point.node);
            AskedPoint {
                row,
                col,
                score: point.score,
                expected_risk_drop: square * point.expected_risk_drop,
                predicted: std.as_ref().map(|std| {
                    let scale = &settings.scale;
                    (scale.value(prediction.mean[point.node]), scale.factor() * std[at])
                }),
            }
        });
        let mut ask = AskRecord {
            id: 0,
            at: String::new(),
            num_observed: state.observations.len(),
            risk: square * risk,
            seconds: started.elapsed().as_secs_f64(),
            route_length,
            interval_factors: model.intervals_in(&at_references.unwrap_or_default()),
            points: asked.collect(),
        };
        let (connection, failure) = (self.file.connection(), self.file.failure("write"));
        ask.id = crate::store::insert_ask(connection, &ask).map_err(&failure)?;
        let believed = self.belief(method, &state)?.filter(|kept| !kept.is_stored);
        if let Some(kept) = &believed {
            crate::store::replace_belief(connection, &prepared.identity, kept).map_err(&failure)?;
        }
        Ok((ask, believed.is_some()))
    }

    /// The cells that may be asked for, increasing; for a route those that can be reached.
    fn candidates(&self, state: &State, request: &AskRequest) -> Result<Vec<usize>> {
        let askable = self.scene.askable();
        let mut nodes: Vec<usize> = (0..askable.len()).filter(|&node| askable[node] && !state.is_taken(node)).collect();
        if let Some((row, col)) = request.route_from {
            let reach = distances(self.valid(), checked_node(self.valid(), row, col)?)?;
            nodes.retain(|&node| reach[node].is_finite());
        }
        Ok(nodes)
    }
}

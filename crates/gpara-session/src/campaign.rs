//! A campaign: a session file, its scene, and the method that serves it.

mod ask;
mod estimate;
mod status;

use std::path::Path;

use gpara::{Belief, Context, PriorEnsemble, ReconstructionInput, Result, ValidMask, error_weights};

pub use ask::{Answer, AskRequest};
pub use estimate::{Estimate, Misfit};
pub use status::{Forecast, Status};

use crate::belief::{KeptBelief, fingerprint};
use crate::error::SessionError;
use crate::method::{FieldModel, Method, ModelInput};
use crate::scene::Scene;
use crate::settings::Settings;
use crate::state::{State, check_contradictions, checked_node};
use crate::store::{NewTell, SessionFile, ToldValue};

/// A session that is open.
///
/// The file holds everything; what is kept in memory follows from it, so that other processes may change it between calls.
#[derive(Debug)]
pub struct Campaign {
    file: SessionFile,
    settings: Settings,
    scene: Scene,
    prepared: Option<Prepared>,
}

/// What a method needs for the scene of this campaign, made once.
#[derive(Debug)]
struct Prepared {
    identity: String,
    context: Context,
    ensemble: Option<PriorEnsemble>,
    believed: Option<KeptBelief>,
}

/// What a tell did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// Its number in the file.
    pub tell: i64,
    /// Values recorded.
    pub num_values: usize,
    /// Values that merged with another one of the same cell, by precision.
    pub num_merged: usize,
    /// Cells measured in all.
    pub num_observed: usize,
}

impl Campaign {
    /// Opens a session to ask and tell.
    ///
    /// # Errors
    /// Those of [`SessionFile::open`].
    pub fn open(path: &Path) -> Result<Self> {
        Self::new(SessionFile::open(path)?)
    }

    /// Opens a session to look at.
    ///
    /// # Errors
    /// Those of [`SessionFile::open_read_only`].
    pub fn open_read_only(path: &Path) -> Result<Self> {
        Self::new(SessionFile::open_read_only(path)?)
    }

    /// A campaign over an open file.
    ///
    /// # Errors
    /// `Io` if the file cannot be read, `Incompatible` if what it holds does not fit together.
    pub fn new(file: SessionFile) -> Result<Self> {
        let settings = file.settings()?;
        let scene = Scene::new(&settings, &file.layers()?)?;
        Ok(Self { file, settings, scene, prepared: None })
    }

    /// The file.
    pub fn file(&self) -> &SessionFile {
        &self.file
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The scene.
    pub fn scene(&self) -> &Scene {
        &self.scene
    }

    /// The cells of the field.
    pub fn valid(&self) -> &ValidMask {
        self.scene.valid()
    }

    /// What is measured, pending and failed at this moment.
    ///
    /// # Errors
    /// `Io` if the file cannot be read.
    pub fn state(&self) -> Result<State> {
        let (told, pending, failed) = (self.file.told()?, self.file.pending()?, self.file.failed()?);
        State::new(&self.settings, self.valid(), &told, &pending, &failed)
    }

    /// Records measurements, asked for or not: all of them are durable when this returns, or none is recorded.
    ///
    /// # Errors
    /// `InvalidInput` or `NonFinite` if a cell, value or sigma is not allowed or two exact values of a cell contradict each
    /// other; `Io` if the file cannot be written.
    pub fn tell(&mut self, tell: &NewTell) -> Result<Told> {
        let sigma = self.settings.sigma;
        for measurement in &tell.measurements {
            let (row, col, value) = (measurement.row, measurement.col, measurement.value);
            checked_node(self.scene.valid(), row, col)?;
            if !value.is_finite() {
                return Err(SessionError::Value { value, row, col }.into());
            }
            if let Some(sigma) = measurement.sigma.filter(|sigma| !(sigma.is_finite() && *sigma >= 0.0)) {
                return Err(SessionError::Sigma { sigma, row, col }.into());
            }
        }
        let num_values = tell.measurements.len();
        self.file.locked(|file| {
            let count = || -> Result<usize> {
                let query = "SELECT count(*) FROM (SELECT DISTINCT row, col FROM measurement)";
                file.connection().query_row(query, (), |row| row.get(0)).map_err(file.failure("read"))
            };
            check_against_recorded(file, tell, sigma)?;
            let before = count()?;
            let id = crate::store::insert_tell(file.connection(), tell, sigma).map_err(file.failure("write"))?;
            let num_observed = count()?;
            Ok(Told { tell: id, num_values, num_merged: num_values - (num_observed - before), num_observed })
        })
    }

    /// Records that cells could not be measured: they are not pending any more and never asked again.
    ///
    /// # Errors
    /// `InvalidInput` if a cell is not valid; none is recorded then. `Io` if the file cannot be written.
    pub fn tell_failed(&mut self, cells: &[(usize, usize)]) -> Result<()> {
        cells.iter().try_for_each(|&(row, col)| checked_node(self.scene.valid(), row, col).map(|_| ()))?;
        self.file.change(|transaction| crate::store::insert_failures(transaction, cells))
    }

    /// Whether the next [`prepare`](Self::prepare) draws samples, which takes seconds.
    ///
    /// # Errors
    /// `Io` if the file cannot be read.
    pub fn must_draw(&self, method: &dyn Method) -> Result<bool> {
        let num_nodes = self.scene.grid().num_nodes();
        Ok(method.draws_prior() && self.file.prior_samples(&method.identity(), num_nodes)?.is_none())
    }

    /// Draws the samples that the method's asks read, and keeps them in the file; says whether any were drawn.
    ///
    /// # Errors
    /// `Incompatible` if the session was begun with another method; those of the network; `Io` if the file cannot be
    /// written.
    pub fn prepare(&mut self, method: &dyn Method) -> Result<bool> {
        let identity = method.identity();
        if let Some(prepared) = &self.prepared
            && prepared.identity == identity
        {
            return Ok(false);
        }
        self.check_method(&identity)?;
        let num_nodes = self.scene.grid().num_nodes();
        let ensemble = self.file.prior_samples(&identity, num_nodes)?;
        let must_draw = ensemble.is_none() && method.draws_prior();
        let context = self.scene.bare_context()?;
        self.prepared = Some(Prepared { identity, context, ensemble, believed: None });
        if must_draw {
            self.draw(method)?;
        }
        Ok(must_draw)
    }

    /// Draws the samples of the method's prior, if it has some and they are not here yet, and keeps them in the file.
    fn draw(&mut self, method: &dyn Method) -> Result<()> {
        if self.prepared().ensemble.is_some() {
            return Ok(());
        }
        // Outside of any lock: a draw takes seconds. Two processes that draw get the same samples.
        let Some(ensemble) = method.draw_prior(self.scene.context()?, self.settings.seeds())? else { return Ok(()) };
        if !self.file.is_read_only() {
            let identity = method.identity();
            self.file.change(|transaction| crate::store::replace_prior(transaction, &identity, &ensemble))?;
        }
        self.prepared.as_mut().expect("every caller prepares first").ensemble = Some(ensemble);
        Ok(())
    }

    /// What the method's networks say after the measurements of `state`: from memory, from the file, or asked now.
    fn belief(&self, method: &dyn Method, state: &State) -> Result<Option<KeptBelief>> {
        if !method.believes() {
            return Ok(None);
        }
        let prepared = self.prepared();
        let observations = fingerprint(&state.observations);
        if let Some(kept) = prepared.believed.as_ref().filter(|kept| kept.observations == observations) {
            return Ok(Some(kept.clone()));
        }
        if let Some(field) = self.file.belief(&prepared.identity, &observations, self.scene.grid().num_nodes())? {
            return Ok(Some(KeptBelief { observations, field, is_stored: true }));
        }
        let believed = method.believe(self.scene.context()?, &state.observations)?;
        Ok(believed.map(|field| KeptBelief { observations, field, is_stored: false }))
    }

    /// Asks the method's networks about the measurements of `state`, unless it is known what they say.
    fn believe(&mut self, method: &dyn Method, state: &State) -> Result<()> {
        let believed = self.belief(method, state)?;
        self.prepared.as_mut().expect("every caller prepares first").believed = believed;
        Ok(())
    }

    /// Whether the next ask asks networks, which takes longer than anything else.
    ///
    /// # Errors
    /// `Io` if the file cannot be read.
    pub fn must_believe(&self, method: &dyn Method) -> Result<bool> {
        if !method.believes() {
            return Ok(false);
        }
        let observations = fingerprint(&self.state()?.observations);
        let num_nodes = self.scene.grid().num_nodes();
        Ok(self.file.belief(&method.identity(), &observations, num_nodes)?.is_none())
    }

    /// The weights of the squared errors that the method's networks predict; `None` without such networks.
    fn error_weights(&self, model: &FieldModel) -> Result<Option<Vec<f64>>> {
        let Some(believed) = &model.believed else { return Ok(None) };
        let (mean, std, precision) = (believed.mean.clone(), believed.std.clone(), model.precision.clone());
        let belief = Belief { mean, std, precision };
        error_weights(&self.prepared().context, &model.observations, &belief).map(Some)
    }

    /// The first use of a method binds the session to it: mixed answers could not be repeated.
    fn check_method(&mut self, identity: &str) -> Result<()> {
        match self.file.method()? {
            Some(recorded) if recorded == identity => Ok(()),
            Some(recorded) => Err(SessionError::OtherMethod { recorded, found: identity.to_owned() }.into()),
            None if self.file.is_read_only() => Ok(()),
            None => self.file.change(|transaction| {
                let query = "INSERT INTO meta (key, value) VALUES ('method', ?) ON CONFLICT DO NOTHING";
                transaction.execute(query, [identity]).map(|_| ())
            }),
        }
    }

    fn prepared(&self) -> &Prepared {
        self.prepared.as_ref().expect("every caller prepares first")
    }

    /// What the method makes of a state of the measurements.
    fn model(&self, method: &dyn Method, state: &State) -> Result<FieldModel> {
        let Prepared { context, ensemble, .. } = self.prepared();
        let (scene, observations) = (&self.scene, &state.observations);
        let mut model = method.model(&ModelInput { scene, context, observations, ensemble: ensemble.as_ref() })?;
        model.believed = self.belief(method, state)?.map(|kept| kept.field);
        Ok(model)
    }

    /// What predictions and reconstructions by a model are made from.
    fn reconstruction_input<'a>(&'a self, context: &'a Context, model: &'a FieldModel) -> ReconstructionInput<'a> {
        ReconstructionInput {
            context,
            observations: &model.observations,
            precision: &model.precision,
            ensemble: self.prepared().ensemble.as_ref(),
            seeds: self.settings.seeds(),
        }
    }
}

/// Refuses exact values that contradict each other or an exact value told before.
fn check_against_recorded(file: &SessionFile, tell: &NewTell, sigma: f64) -> Result<()> {
    let mut exact: Vec<ToldValue> = Vec::new();
    let told_now = tell.measurements.iter().filter(|value| value.sigma.unwrap_or(sigma) == 0.0);
    for measurement in told_now {
        if let Some(earlier) = file.exact_value(measurement.row, measurement.col)? {
            exact.push(earlier);
        }
        exact.push(ToldValue {
            tell: 0,
            line: measurement.line,
            row: measurement.row,
            col: measurement.col,
            value: measurement.value,
            sigma: 0.0,
            predicted: None,
            interval_factors: gpara::NORMAL_INTERVALS,
        });
    }
    check_contradictions(&exact)
}

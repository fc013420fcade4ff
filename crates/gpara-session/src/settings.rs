//! What a session is told once, at its beginning.

use gpara::{Grid, Result, SeedTree};
use gpara_tasks::depth::DEPTH_RANGE_METERS;
use gpara_tasks::geo::{Affine, Crs, Georeference};
use gpara_tasks::radio::{GAIN_FLOOR_DB, GAIN_RANGE_DB};
use serde::{Deserialize, Serialize};

use crate::error::SessionError;
use crate::fitted::{DriftTerm, FittedPrior, check_terms};
use crate::scale::Scale;
use crate::scene::Scene;

/// The settings of a session, stored in its file as one JSON object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// What kind of scene it is.
    pub task: Task,
    /// Rows of the field.
    pub rows: usize,
    /// Columns of the field.
    pub cols: usize,
    /// Unit and range of the values.
    pub scale: Scale,
    /// Measurements that may be made in all.
    pub budget: usize,
    /// Noise standard deviation expected of a measurement, in the unit; 0 is an exact instrument.
    pub sigma: f64,
    /// Smallest distance of an asked point from every other point, in cells; 0 sets no limit.
    pub min_distance: f64,
    /// Predicted root mean square error at which one may stop, in the unit.
    pub stop_at: Option<f64>,
    /// Root of all randomness.
    pub seed: u64,
    /// What is assumed of the field before it is measured.
    pub prior: SessionPrior,
    /// The grid's place in the world; `None` counts in cells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
}

/// The place of a grid in the world.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// `x_origin, x_per_col, x_per_row, y_origin, y_per_col, y_per_row`, as GDAL's geotransform.
    pub geotransform: [f64; 6],
    /// The coordinate reference system, e.g. `EPSG:32632`, if it is known.
    pub crs: Option<String>,
}

impl From<Georeference> for Place {
    fn from(place: Georeference) -> Self {
        let crs = place.crs().map(|crs| crs.to_string());
        Self { geotransform: place.affine().coefficients(), crs }
    }
}

/// The kind of a scene.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Task {
    /// A field of any kind, no context.
    Field,
    /// Path gain around one transmitter between buildings.
    Radio {
        /// Row and column of the transmitter in pixels of the building mask.
        transmitter: (usize, usize),
        /// Side of a pixel in metres.
        meters_per_pixel: f64,
        /// Pixels along the side of a cell, 1 or 2.
        pixels_per_cell: usize,
    },
    /// Depth in metres behind the pixels of a colour picture ([`Layers::picture`](crate::Layers::picture)).
    Depth,
}

/// What is assumed of the field before it is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum SessionPrior {
    /// A Gaussian field whose drift, range, spread and nugget are fitted to the measurements.
    Fitted(FittedPrior),
    /// A Gaussian field of fixed first-order precision; its level and the scale of its spread are fitted to the measurements.
    Gaussian {
        /// Normalised level as long as nothing is measured.
        level: f64,
        /// tau of Eq. 8.
        residual_precision: f64,
        /// lambda of Eq. 8.
        graph_coupling: f64,
    },
    /// A preset of the program that opened the session, with the text it had then.
    Preset {
        /// Its name.
        name: String,
        /// Its text.
        text: String,
    },
}

impl SessionPrior {
    /// The Gaussian prior of the preset `gaussian`, level in the middle of the range.
    pub const GAUSSIAN: Self = Self::Gaussian { level: 0.0, residual_precision: 1e-3, graph_coupling: 1.0 };

    /// Checks the numbers.
    fn check(&self) -> Result<()> {
        let refused =
            |name, value: f64, allowed| Err(SessionError::Setting { name, value: value.to_string(), allowed }.into());
        match self {
            Self::Fitted(prior) => {
                if let Some(scale) = prior.guide_scale.filter(|scale| !(scale.is_finite() && *scale > 0.0)) {
                    return refused("guide-scale", scale, "a finite number > 0");
                }
                check_terms(&prior.drift)
            }
            Self::Gaussian { level, residual_precision, graph_coupling } => {
                if !level.is_finite() {
                    return refused("level", *level, "a finite number");
                }
                for (name, value) in [("residual_precision", *residual_precision), ("graph_coupling", *graph_coupling)]
                {
                    if !(value.is_finite() && value > 0.0) {
                        return refused(name, value, "a finite number > 0");
                    }
                }
                Ok(())
            }
            Self::Preset { .. } => Ok(()),
        }
    }

    /// Checks that the scene holds the maps that the prior names.
    pub(crate) fn check_maps(&self, scene: &Scene) -> Result<()> {
        let Self::Fitted(prior) = self else { return Ok(()) };
        let expected = prior.maps.as_ref().map_or(0, |maps| maps.count);
        if expected != scene.maps().len() {
            let (name, value) = ("prior", format!("{} maps", scene.maps().len()));
            return Err(
                SessionError::Setting { name, value, allowed: "as many maps as the prior was made from" }.into()
            );
        }
        for term in &prior.drift {
            if let DriftTerm::Channel { name } = term
                && scene.channel(name).is_none()
            {
                let (setting, value) = ("drift", term.label());
                let allowed = "a map that the session holds";
                return Err(SessionError::Setting { name: setting, value, allowed }.into());
            }
        }
        Ok(())
    }
}

/// Share of the valid cells that is measured where no budget is given; the paper's 491 of 128 x 128.
const DEFAULT_SHARE: f64 = 0.03;

impl Settings {
    /// A field of any kind with a fitted Gaussian prior: values in `scale`, a budget of 3 % of the cells, exact measurements.
    pub fn field(grid: Grid, scale: Scale) -> Self {
        Self {
            task: Task::Field,
            rows: grid.rows(),
            cols: grid.cols(),
            scale,
            budget: default_budget(grid.num_nodes()),
            sigma: 0.0,
            min_distance: 0.0,
            stop_at: None,
            seed: 0,
            prior: SessionPrior::Fitted(FittedPrior::default()),
            place: None,
        }
    }

    /// The scale of path gains in dB.
    pub fn radio_scale() -> Scale {
        Scale { low: GAIN_FLOOR_DB, high: GAIN_FLOOR_DB + GAIN_RANGE_DB, unit: "dB".into() }
    }

    /// The scale of depths in metres.
    pub fn depth_scale() -> Scale {
        Scale { low: 0.0, high: DEPTH_RANGE_METERS, unit: "m".into() }
    }

    /// The grid of the field.
    ///
    /// # Errors
    /// `InvalidInput` for an empty or far too large grid.
    pub fn grid(&self) -> Result<Grid> {
        Grid::new(self.rows, self.cols)
    }

    /// The grid's place in the world; in cells where none is declared.
    ///
    /// # Errors
    /// `InvalidInput` if the transform has no inverse or the system is unknown.
    pub fn georeference(&self) -> Result<Georeference> {
        let Some(place) = &self.place else { return Ok(Georeference::CELLS) };
        let crs = place.crs.as_deref().map(str::parse::<Crs>).transpose()?;
        Ok(Georeference::new(Affine::new(place.geotransform)?, crs))
    }

    /// The root of the session's randomness.
    pub fn seeds(&self) -> SeedTree {
        SeedTree::new(self.seed)
    }

    /// Normalised noise of a measurement with the given standard deviation in the unit; an exact value gets the smallest
    /// noise the algebra takes.
    pub fn noise_std(&self, sigma: f64) -> f64 {
        (sigma / self.scale.factor()).max(EXACT_NOISE_STD)
    }

    /// Checks every number.
    ///
    /// # Errors
    /// `InvalidInput` naming the first setting that is not allowed.
    pub fn check(&self) -> Result<()> {
        let refused = |name, value: String, allowed| Err(SessionError::Setting { name, value, allowed }.into());
        self.grid()?;
        Scale::new(self.scale.low, self.scale.high, &self.scale.unit)?;
        if self.budget == 0 {
            return refused("budget", self.budget.to_string(), "at least 1");
        }
        if !(self.sigma.is_finite() && self.sigma >= 0.0) {
            return refused("sigma", self.sigma.to_string(), "a finite number >= 0");
        }
        if !(self.min_distance.is_finite() && self.min_distance >= 0.0) {
            return refused("min-distance", self.min_distance.to_string(), "a finite number of cells >= 0");
        }
        if let Some(target) = self.stop_at.filter(|target| !(target.is_finite() && *target > 0.0)) {
            return refused("stop-at", target.to_string(), "a finite number > 0");
        }
        self.georeference()?;
        self.prior.check()
    }
}

/// Normalised noise of an exact value: its reproduction is off by the square of this relative to the prior's variance.
pub const EXACT_NOISE_STD: f64 = 1e-6;

/// 3 % of the cells, at least one.
pub fn default_budget(num_cells: usize) -> usize {
    ((num_cells as f64 * DEFAULT_SHARE) as usize).max(1)
}

#[cfg(test)]
mod tests {
    use gpara::ErrorKind;

    use super::*;

    #[test]
    fn json_round_trip_keeps_settings_and_refuses_unknown_keys() {
        let grid = Grid::new(3, 4).unwrap();
        let settings = Settings { stop_at: Some(0.1), ..Settings::field(grid, Scale::new(-5.0, 7.0, "m").unwrap()) };
        let text = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<Settings>(&text).unwrap(), settings);
        let unknown = text.replacen("\"rows\"", "\"speed\":1,\"rows\"", 1);
        assert!(serde_json::from_str::<Settings>(&unknown).is_err());
    }

    #[test]
    fn each_bad_number_is_refused() {
        let good = Settings::field(Grid::new(3, 4).unwrap(), Scale::new(0.0, 1.0, "").unwrap());
        good.check().unwrap();
        for bad in [
            Settings { budget: 0, ..good.clone() },
            Settings { sigma: -1.0, ..good.clone() },
            Settings { sigma: f64::NAN, ..good.clone() },
            Settings { min_distance: f64::INFINITY, ..good.clone() },
            Settings { stop_at: Some(0.0), ..good.clone() },
            Settings { scale: Scale { low: 1.0, high: 1.0, unit: String::new() }, ..good.clone() },
            Settings { rows: 0, ..good.clone() },
        ] {
            assert_eq!(bad.check().unwrap_err().kind(), ErrorKind::InvalidInput, "{bad:?}");
        }
    }

    #[test]
    fn default_budget_is_the_papers_on_its_grid() {
        assert_eq!((default_budget(128 * 128), default_budget(1)), (491, 1));
    }
}

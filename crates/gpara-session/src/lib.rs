//! Campaigns that outlive a process: a session is one SQLite file, `S.gpara`, that holds the inputs, the settings, and every
//! ask, tell, failure and reconstruction with its time. A tell is acknowledged only once it is durable; several processes may
//! share the file.
//!
//! [`Campaign`] joins a file with a [`Method`]: [`gaussian_method`] gives those that need no network; a
//! program with networks brings its own.
//! What is computed is pure and can be used by itself: [`choose`] (points under limits), [`route`] (a short tour around
//! obstacles), [`variance_curve`] (what more measurements would bring), [`leave_one_out()`].
//!
//! # Example: a field of 12 x 20 cells, twelve measurements
//! ```
//! use gpara::Grid;
//! use gpara_session::{
//!     AskRequest, Campaign, Layers, NewMeasurement, NewTell, Scale, SessionFile, Settings, gaussian_method,
//! };
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("S.gpara");
//! let field = |row: usize, col: usize| 20.0 + (row as f64 * 0.4).sin() + (col as f64 * 0.3).cos();
//!
//! let mut settings = Settings::field(Grid::new(12, 20)?, Scale::new(15.0, 25.0, "m")?);
//! settings.budget = 12;
//! settings.sigma = 0.05;
//! SessionFile::create(&path, &settings, &Layers::default(), &[])?;
//!
//! let mut campaign = Campaign::open(&path)?;
//! let method = gaussian_method(&campaign.settings().prior).expect("the session has a Gaussian prior");
//! for _ in 0..3 {
//!     let answer = campaign.ask(&*method, &AskRequest::points(4))?;
//!     let measured = answer.ask.points.iter().map(|point| NewMeasurement {
//!         line: None,
//!         row: point.row,
//!         col: point.col,
//!         value: field(point.row, point.col),
//!         sigma: None,
//!     });
//!     campaign.tell(&NewTell { source: "instrument".into(), num_skipped: 0, measurements: measured.collect() })?;
//! }
//!
//! let estimate = campaign.estimate(&*method, 0, false)?;
//! let error = |node: usize| estimate.mean[node] - field(node / 20, node % 20);
//! let rmse = ((0..240).map(|node| error(node).powi(2)).sum::<f64>() / 240.0).sqrt();
//! assert_eq!(estimate.num_observed, 12);
//! assert!(rmse < 0.6, "{rmse} m");
//! # Ok::<(), gpara::Error>(())
//! ```

mod belief;
mod campaign;
mod choice;
mod error;
mod fitted;
mod forecast;
mod layer;
mod leave_one_out;
mod method;
pub mod route;
mod scale;
mod scene;
mod schema;
mod settings;
mod state;
mod store;

pub use belief::BelievedField;
pub use campaign::{Answer, AskRequest, Campaign, Estimate, Forecast, Misfit, Status, Told};
pub use choice::{Choice, ChoiceInput, ChosenPoint, Limits, choose};
pub use error::is_disk_full;
pub use fitted::{DriftTerm, FittedMethod, FittedPrior, MapsOrigin, Robust};
pub use forecast::{ForecastInput, diminishing_return, reaches, variance_curve};
pub use leave_one_out::{Coverage, LeftOut, PredictedValue, coverage, leave_one_out};
pub use method::{
    FieldModel, GaussianMethod, Method, ModelInput, Parameter, PredictedStd, Prediction, gaussian_method,
};
pub use scale::{Scale, difference_unit};
pub use scene::{Layers, Scene};
pub use settings::{EXACT_NOISE_STD, Place, SessionPrior, Settings, Task, default_budget};
pub use state::State;
pub use store::{
    AskRecord, AskedPoint, InputFile, InputRecord, NewMeasurement, NewTell, ReconstructionRecord, SessionFile,
    TellRecord, ToldValue, sha256_hex,
};

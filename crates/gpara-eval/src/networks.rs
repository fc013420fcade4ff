//! Where methods get their networks: by name, every evaluation counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use gpara::{
    Context, CountingDenoiser, Denoiser, ErrorDetail, ErrorKind, GraphPredictor, MeanPredictor, NoiseSchedule,
    Observations, Result, Scorer,
};
use thiserror::Error as ThisError;

/// A denoiser with the schedule its timesteps belong to.
pub type ScheduledDenoiser = (Arc<dyn Denoiser>, NoiseSchedule);

/// Gives networks by name.
///
/// Every method fails with `InvalidInput` for a name that is not known, and `Incompatible` for a network of another task.
pub trait Networks: Sync {
    /// A diffusion prior.
    ///
    /// # Errors
    /// Those above.
    fn denoiser(&self, name: &str, context: &Context) -> Result<ScheduledDenoiser>;

    /// A network for the conditional mean.
    ///
    /// # Errors
    /// Those above.
    fn mean(&self, name: &str) -> Result<Arc<dyn MeanPredictor>>;

    /// A network for the graph.
    ///
    /// # Errors
    /// Those above.
    fn graph(&self, name: &str) -> Result<Arc<dyn GraphPredictor>>;

    /// A network that shifts acquisition scores.
    ///
    /// # Errors
    /// Those above.
    fn scorer(&self, name: &str) -> Result<Arc<dyn Scorer>>;

    /// A hash of the weights, so that results of other weights are told apart.
    ///
    /// # Errors
    /// Those above.
    fn fingerprint(&self, name: &str) -> Result<String>;
}

/// No networks at all: methods that ask for one fail and say so.
pub struct NoNetworks;

impl NoNetworks {
    fn refuse<T>(name: &str) -> Result<T> {
        Err(NetworkError::None { name: name.to_owned() }.into())
    }
}

impl Networks for NoNetworks {
    fn denoiser(&self, name: &str, _context: &Context) -> Result<ScheduledDenoiser> {
        Self::refuse(name)
    }

    fn mean(&self, name: &str) -> Result<Arc<dyn MeanPredictor>> {
        Self::refuse(name)
    }

    fn graph(&self, name: &str) -> Result<Arc<dyn GraphPredictor>> {
        Self::refuse(name)
    }

    fn scorer(&self, name: &str) -> Result<Arc<dyn Scorer>> {
        Self::refuse(name)
    }

    fn fingerprint(&self, name: &str) -> Result<String> {
        Self::refuse(name)
    }
}

/// The networks of one scene's methods: counts every evaluation of a denoiser or mean network and remembers the names.
///
/// The count is taken where the networks are called, so no method's own account is trusted. Graph and scorer networks are
/// not counted: the paper's NFE means evaluations of the prior.
pub struct CountedNetworks<'a> {
    inner: &'a dyn Networks,
    denoisers: Mutex<Vec<Arc<CountingDenoiser>>>,
    other_calls: Arc<AtomicU64>,
    names: Mutex<Vec<String>>,
}

impl<'a> CountedNetworks<'a> {
    /// Counts from 0.
    pub fn new(inner: &'a dyn Networks) -> Self {
        Self { inner, denoisers: Mutex::default(), other_calls: Arc::default(), names: Mutex::default() }
    }

    /// Evaluations so far, one a state whatever the batch.
    pub fn network_calls(&self) -> u64 {
        let denoisers = self.denoisers.lock().expect("counting does not panic");
        let counted: u64 = denoisers.iter().map(|denoiser| denoiser.network_calls()).sum();
        counted + self.other_calls.load(Ordering::Relaxed)
    }

    /// Counts evaluations of a network that is neither denoiser nor mean network, e.g. of an input gradient.
    pub fn count(&self, calls: u64) {
        self.other_calls.fetch_add(calls, Ordering::Relaxed);
    }

    /// The names asked for since the last call, sorted.
    pub(crate) fn take_names(&self) -> Vec<String> {
        let mut names = std::mem::take(&mut *self.names.lock().expect("noting a name does not panic"));
        names.sort();
        names.dedup();
        names
    }

    fn note(&self, name: &str) {
        self.names.lock().expect("noting a name does not panic").push(name.to_owned());
    }
}

impl Networks for CountedNetworks<'_> {
    fn denoiser(&self, name: &str, context: &Context) -> Result<ScheduledDenoiser> {
        self.note(name);
        let (denoiser, schedule) = self.inner.denoiser(name, context)?;
        let counting = Arc::new(CountingDenoiser::new(denoiser));
        self.denoisers.lock().expect("counting does not panic").push(Arc::clone(&counting));
        Ok((counting, schedule))
    }

    fn mean(&self, name: &str) -> Result<Arc<dyn MeanPredictor>> {
        self.note(name);
        Ok(Arc::new(CountingMean { inner: self.inner.mean(name)?, calls: Arc::clone(&self.other_calls) }))
    }

    fn graph(&self, name: &str) -> Result<Arc<dyn GraphPredictor>> {
        self.note(name);
        self.inner.graph(name)
    }

    fn scorer(&self, name: &str) -> Result<Arc<dyn Scorer>> {
        self.note(name);
        self.inner.scorer(name)
    }

    fn fingerprint(&self, name: &str) -> Result<String> {
        self.inner.fingerprint(name)
    }
}

struct CountingMean {
    inner: Arc<dyn MeanPredictor>,
    calls: Arc<AtomicU64>,
}

impl MeanPredictor for CountingMean {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn predict(&self, context: &Context, observations: &Observations) -> Result<Vec<f64>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.inner.predict(context, observations)
    }
}

#[derive(Debug, ThisError)]
enum NetworkError {
    #[error("network `{name}` is asked for and this evaluation has none")]
    None { name: String },
}

impl ErrorDetail for NetworkError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::None { .. } => ErrorKind::Unsupported,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::None { .. } => Some("run it by `gpara eval`, which has the networks of the binary".into()),
        }
    }
}

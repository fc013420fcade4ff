//! Timing two sides in turn, and the line that is printed about it.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use gpara::Grid;
use serde_json::{Value, json};

/// A side is repeated until it has used this much time, at least [`MIN_RUNS`] and at most [`MAX_RUNS`] times.
const TIME_FOR_A_SIDE: Duration = Duration::from_millis(1500);
const MIN_RUNS: usize = 3;
const MAX_RUNS: usize = 15;
const SHORT: Duration = Duration::from_millis(100);

/// Median and spread of repeated runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    /// Median, milliseconds.
    pub(crate) median_ms: f64,
    /// Distance of the quartiles over the median; NaN, printed as null, for a single run.
    pub(crate) spread: f64,
}

impl Timing {
    pub(crate) fn of(mut milliseconds: Vec<f64>) -> Self {
        milliseconds.sort_by(f64::total_cmp);
        if milliseconds.is_empty() {
            return Self { median_ms: f64::NAN, spread: f64::NAN };
        }
        let quantile = |share: f64| milliseconds[((milliseconds.len() - 1) as f64 * share).round() as usize];
        Self { median_ms: quantile(0.5), spread: (quantile(0.75) - quantile(0.25)) / quantile(0.5) }
    }
}

static WITHOUT_RIVALS: OnceLock<()> = OnceLock::new();

/// Times our side alone from now on; rows say that the rival was left out.
pub(crate) fn leave_rivals_out() {
    WITHOUT_RIVALS.get_or_init(|| ());
}

/// Whether [`leave_rivals_out`] was called.
pub(crate) fn rivals_left_out() -> bool {
    WITHOUT_RIVALS.get().is_some()
}

/// Times `own` and `rival` in turn, so that both see the same state of the machine. Each closure does its work and checks
/// the answer; what it returns is the time of the work alone. Work shorter than [`SHORT`] is done twice in a row and the
/// second time counts: in a campaign, what comes before a refresh is not the rival, whose data would take the caches.
pub(crate) fn side_by_side(mut own: impl FnMut() -> Duration, mut rival: impl FnMut() -> Duration) -> (Timing, Timing) {
    let (mut own_times, mut rival_times) = (Vec::new(), Vec::new());
    let wants_more = |times: &[Duration]| {
        times.len() < MIN_RUNS || (times.len() < MAX_RUNS && times.iter().sum::<Duration>() < TIME_FOR_A_SIDE)
    };
    // The first run of each side warms caches and allocators and does not count.
    let warm = |run: &mut dyn FnMut() -> Duration, short: bool| {
        if short {
            run();
        }
        run()
    };
    let alone = rivals_left_out();
    let (own_short, rival_short) = (own() < SHORT, !alone && rival() < SHORT);
    while wants_more(&own_times) || (!alone && wants_more(&rival_times)) {
        if wants_more(&own_times) {
            own_times.push(warm(&mut own, own_short));
        }
        if !alone && wants_more(&rival_times) {
            rival_times.push(warm(&mut rival, rival_short));
        }
    }
    let timing = |times: Vec<Duration>| Timing::of(times.iter().map(|time| time.as_secs_f64() * 1e3).collect());
    (timing(own_times), timing(rival_times))
}

/// Times one side alone.
pub(crate) fn alone(own: impl FnMut() -> Duration) -> Timing {
    side_by_side(own, || TIME_FOR_A_SIDE).0
}

/// One run, for what takes too long to repeat; the spread is unknown.
pub(crate) fn once(own: impl FnOnce() -> Duration) -> Timing {
    Timing { median_ms: own().as_secs_f64() * 1e3, spread: f64::NAN }
}

/// The largest memory of this process so far, where the system tells.
pub(crate) fn peak_megabytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? >> 10)
}

/// The result and the time of some work.
pub(crate) fn timed<R>(work: impl FnOnce() -> R) -> (R, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

/// Runs on a pool of that many threads.
pub(crate) fn on_threads<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> R {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.expect("a thread pool can be made").install(work)
}

/// What a row is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) grid: Grid,
    pub(crate) dtype: &'static str,
    pub(crate) threads: usize,
}

/// Prints rows as they come.
#[derive(Debug, Default)]
pub(crate) struct Report;

impl Report {
    /// A row with a rival that ran.
    pub(crate) fn against(&mut self, subject: Subject, own: Timing, rival: &str, rival_timing: Timing) {
        if rival_timing.median_ms.is_nan() {
            return self.unopposed(subject, own, &format!("left out: {rival}"));
        }
        self.print(subject, own, json!(rival), json!(rounded(rival_timing.median_ms)));
    }

    /// A row whose rival did not run, with the reason, or that has none.
    pub(crate) fn unopposed(&mut self, subject: Subject, own: Timing, why: &str) {
        self.print(subject, own, json!(why), Value::Null);
    }

    fn print(&mut self, subject: Subject, own: Timing, rival: Value, rival_ms: Value) {
        let Subject { name, grid, dtype, threads } = subject;
        let row = json!({
            "name": name, "rows": grid.rows(), "cols": grid.cols(), "dtype": dtype, "threads": threads,
            "median_ms": rounded(own.median_ms), "spread": if own.spread.is_nan() { Value::Null } else { json!(rounded(own.spread)) },
            "rival": rival, "rival_ms": rival_ms,
        });
        println!("{row}");
    }
}

/// Four digits are more than a timing holds.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().expect("a formatted number is a number")
}

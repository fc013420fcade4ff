//! Benchmarks of the numerical core against its rivals: one JSON line a row on stdout, progress on stderr.
//!
//! `make bench-core`, or here `cargo run --release -- [--only NAME]` with a name of [`GROUPS`]. Both sides of a row are timed
//! in turn in the same run, and every timed answer is checked.

mod campaign;
mod cholesky;
mod grid_ordering;
mod mean;
mod refresh;
mod row;
mod scene;
mod scipy;
mod second_order;
mod takahashi;
mod tiled;

use row::Report;

/// The groups of rows by the name they print, in the order of running.
const GROUPS: [(&str, fn(&mut Report)); 5] = [
    ("refresh", refresh::run),
    ("campaign", campaign::run),
    ("second_order", second_order::run),
    ("tiled", tiled::run),
    ("mean", mean::run),
];

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let only = match &arguments[..] {
        [] => None,
        [flag, name] if flag == "--only" && GROUPS.iter().any(|(group, _)| group == name) => Some(name.as_str()),
        _ => {
            let names = GROUPS.map(|(name, _)| name).join("|");
            eprintln!("usage: gpara-bench [--only {names}]");
            return std::process::ExitCode::from(2);
        }
    };
    let mut report = Report::default();
    for (name, run) in GROUPS.iter().filter(|(name, _)| only.is_none_or(|only| only == *name)) {
        eprintln!("{name}");
        run(&mut report);
    }
    std::process::ExitCode::SUCCESS
}

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

/// Runs the rows of a group.
type Group = fn(&mut Report);

/// The groups of rows in the order of running, by the name they print; the rows of `growth` are called `tiled`, too.
const GROUPS: [(&str, Group); 6] = [
    ("refresh", refresh::run),
    ("campaign", campaign::run),
    ("second_order", second_order::run),
    ("tiled", tiled::run),
    ("growth", tiled::growth),
    ("mean", mean::run),
];

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let only = match &arguments[..] {
        [] => None,
        [flag] if flag == "--alone" => {
            row::leave_rivals_out();
            None
        }
        [flag, name, rest @ ..]
            if flag == "--only" && is_alone(rest) && GROUPS.iter().any(|(group, _)| group == name) =>
        {
            if !rest.is_empty() {
                row::leave_rivals_out();
            }
            Some(name.as_str())
        }
        _ => {
            let names = GROUPS.map(|(name, _)| name).join("|");
            eprintln!("usage: gpara-bench [--only {names}] [--alone]");
            return std::process::ExitCode::from(2);
        }
    };
    let mut report = Report;
    for (name, run) in GROUPS.iter().filter(|(name, _)| only.is_none_or(|only| only == *name)) {
        eprintln!("{name}");
        run(&mut report);
    }
    std::process::ExitCode::SUCCESS
}

/// Whether what follows is nothing, or asks for our side alone.
fn is_alone(rest: &[String]) -> bool {
    rest.is_empty() || rest == ["--alone"]
}

//! The child process: asks and tells in a session as long as it lives or as often as it is told, and says each thing only
//! once the library has acknowledged it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use gpara::Grid;
use gpara_session::{
    AskRequest, Campaign, Layers, NewMeasurement, NewTell, Scale, SessionFile, SessionPrior, Settings, gaussian_method,
};

const SESSION: &str = "GPARA_TEST_SESSION";
const WRITER: &str = "GPARA_TEST_WRITER";
const TELLS: &str = "GPARA_TEST_TELLS";
const ASKS: &str = "GPARA_TEST_ASKS";

/// What a child is to do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    /// Its number, which its values carry.
    pub(crate) writer: u32,
    /// How many tells it makes; with 0 it only looks, and says how many values there are as the value of tell 0.
    pub(crate) tells: u32,
    /// Whether it asks before each tell.
    pub(crate) asks: bool,
}

/// A line of a child, after the library acknowledged what it says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Said {
    /// A point was asked for.
    Asked { row: usize, col: usize },
    /// A value was told.
    Told { tell: i64, value: f64 },
}

/// A session of 30 x 30 cells.
pub(crate) fn new_session(path: &Path) {
    let scale = Scale::new(-1.0, 1.0, "").unwrap();
    // A prior that is not fitted asks in a few milliseconds, so that kills hit every step.
    let prior = SessionPrior::GAUSSIAN;
    let settings = Settings { budget: 900, sigma: 0.1, prior, ..Settings::field(Grid::new(30, 30).unwrap(), scale) };
    SessionFile::create(path, &settings, &Layers::default(), &[]).unwrap();
}

/// The command that starts a child on a session.
pub(crate) fn command(path: &Path, work: Work) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "child::works_in_a_session", "--nocapture", "--test-threads=1"]);
    command.env(SESSION, path).env(WRITER, work.writer.to_string()).env(TELLS, work.tells.to_string());
    command.env(ASKS, if work.asks { "yes" } else { "no" });
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Reads what a child says until it ends; a line it did not finish does not count.
pub(crate) fn listen(child: &mut Child, mut heard: impl FnMut(Said)) {
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while lines.read_line(&mut line).unwrap_or(0) > 0 {
        if let Some(said) = line.ends_with('\n').then(|| parse(&line)).flatten() {
            heard(said);
        }
        line.clear();
    }
}

fn parse(line: &str) -> Option<Said> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["asked", row, col] => Some(Said::Asked { row: row.parse().ok()?, col: col.parse().ok()? }),
        ["told", tell, value] => Some(Said::Told { tell: tell.parse().ok()?, value: value.parse().ok()? }),
        _ => None,
    }
}

#[test]
#[ignore = "the child of the other tests; does nothing without a session in its environment"]
fn works_in_a_session() {
    let Ok(path) = std::env::var(SESSION) else { return };
    let number = |name: &str| std::env::var(name).unwrap().parse::<u32>().unwrap();
    let (writer, tells, asks) = (number(WRITER), number(TELLS), std::env::var(ASKS).unwrap() == "yes");
    if tells == 0 {
        let status = Campaign::open_read_only(Path::new(&path)).and_then(|campaign| campaign.status());
        println!("\ntold 0 {}", status.unwrap_or_else(|error| refuse(&error)).num_values);
        return;
    }
    let mut campaign = Campaign::open(Path::new(&path)).unwrap_or_else(|error| refuse(&error));
    let method = gaussian_method(&campaign.settings().prior).unwrap();
    let mut out = std::io::stdout();
    // The harness has written a line without an end.
    writeln!(out).unwrap();
    for count in 0..tells {
        let (mut row, mut col) = ((count as usize * 7) % 30, (count as usize * 11) % 30);
        if asks && let Ok(answer) = campaign.ask(&*method, &AskRequest::points(2)) {
            for point in &answer.ask.points {
                writeln!(out, "asked {} {}", point.row, point.col).unwrap();
            }
            (row, col) = (answer.ask.points[0].row, answer.ask.points[0].col);
        }
        let value = f64::from(writer) * 1e6 + f64::from(count);
        let measurements = vec![NewMeasurement { line: None, row, col, value, sigma: None }];
        match campaign.tell(&NewTell { source: "child".into(), num_skipped: 0, measurements }) {
            Ok(told) => writeln!(out, "told {} {value}", told.tell).unwrap(),
            Err(error) => refuse(&error),
        }
        out.flush().unwrap();
    }
}

fn refuse(error: &gpara::Error) -> ! {
    eprintln!("refused: {:?} {error}", error.kind());
    std::process::exit(3);
}

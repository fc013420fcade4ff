//! The rival in Python: SuperLU of SciPy, in a virtual environment under `bench/target`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::row::Timing;

/// An interpreter that has SciPy.
#[derive(Debug)]
pub(crate) struct SuperLu {
    python: PathBuf,
    folder: PathBuf,
}

impl SuperLu {
    /// Makes the environment and installs SciPy by pip unless it is there.
    ///
    /// # Errors
    /// The first line of what went wrong, for the row that is skipped.
    pub(crate) fn install() -> Result<Self, String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target");
        let environment = folder.join("scipy");
        let python = environment.join("bin").join("python");
        if !python.exists() {
            run(Command::new("python3").arg("-m").arg("venv").arg(&environment))?;
        }
        if run(Command::new(&python).arg("-c").arg("import scipy")).is_err() {
            eprintln!("installing SciPy into {}", environment.display());
            run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "scipy"]))?;
        }
        Ok(Self { python, folder })
    }

    /// Times one solve with a kept factor; the script checks its answer against `expected`.
    ///
    /// # Errors
    /// What the script wrote if it fails.
    pub(crate) fn solve(
        &self,
        entries: &[(usize, usize, f64)],
        order: &[usize],
        rhs: &[f64],
        expected: &[f64],
    ) -> Result<Timing, String> {
        let system = self.folder.join("superlu_system.json");
        let text = json!({ "entries": entries, "order": order, "rhs": rhs, "expected": expected }).to_string();
        fs::write(&system, text).map_err(|error| format!("{}: {error}", system.display()))?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("superlu.py");
        let output = run(Command::new(&self.python).arg(script).arg(&system))?;
        let times: Value = serde_json::from_str(&output).map_err(|error| error.to_string())?;
        let times = times["solve_ms"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect::<Vec<_>>();
        if times.is_empty() { Err("superlu.py printed no times".into()) } else { Ok(Timing::of(times)) }
    }
}

/// The standard output of a command, or the last line of its errors.
fn run(command: &mut Command) -> Result<String, String> {
    // One thread, as the other side of the row.
    let output = command.env("OMP_NUM_THREADS", "1").env("OPENBLAS_NUM_THREADS", "1").output();
    let output = output.map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(errors.trim().lines().last().unwrap_or("failed without a message").to_string())
}

//! Runs `gpara` and keeps what it said.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// What a run left.
pub(crate) struct Finished {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    /// Panics with everything the program said unless it ended well.
    #[track_caller]
    pub(crate) fn success(self) -> Self {
        assert_eq!(self.code, 0, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// stdout as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in:\n{}", self.stdout))
    }
}

/// Runs `gpara` in a folder; `arguments` is split at spaces.
pub(crate) fn gpara(folder: &Path, arguments: &str) -> Finished {
    let output = Command::new(env!("CARGO_BIN_EXE_gpara"))
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("the binary starts");
    Finished {
        code: output.status.code().expect("the program ended by itself"),
        stdout: String::from_utf8(output.stdout).expect("output is UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("output is UTF-8"),
    }
}

/// Every file under a folder by its path in it.
pub(crate) fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&next) else { continue };
        for entry in entries {
            let path = entry.expect("folder can be listed").path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("under the folder").display().to_string();
                files.insert(name, std::fs::read(&path).expect("file can be read"));
            }
        }
    }
    files
}

//! Hashes the sources that decide numbers, so that results of different code are told apart.

use std::path::{Path, PathBuf};
use std::{env, fs};

use sha2::{Digest, Sha256};

/// Relative to the workspace root. What only reads, shows or trains is left out.
const SOURCES: [&str; 6] = [
    "crates/gpara/src",
    "crates/gpara-nn/src",
    "crates/gpara-tasks/src",
    "crates/gpara-eval/src",
    "crates/gpara-cli/src/preset",
    "configs",
];

fn main() {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..");
    let mut files = Vec::new();
    for folder in SOURCES {
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
        collect(&root.join(folder), &mut files);
    }
    files.sort();
    let mut hash = Sha256::new();
    for file in &files {
        let name = file.strip_prefix(&root).expect("every file lies under the root").to_string_lossy().into_owned();
        let bytes = fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        hash.update(name.as_bytes());
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    }
    let version: String = hash.finalize()[..6].iter().map(|byte| format!("{byte:02x}")).collect();
    println!("cargo::rustc-env=GPARA_CODE_VERSION={version}");
}

/// Rust sources and presets; other configurations only say what is run.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("a source folder can be listed").path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if path.is_dir() {
            collect(&path, files);
        } else if name.ends_with(".rs") || (name.starts_with("preset_") && name.ends_with(".toml")) {
            files.push(path);
        }
    }
}

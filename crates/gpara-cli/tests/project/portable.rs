//! The default build needs no library of the system.

use std::process::Command;

use crate::{read, workspace_root};

/// Packages of the default build that link a native library, with its name.
fn native_links() -> Vec<(String, String)> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--locked"])
        .current_dir(workspace_root())
        .output()
        .expect("cargo runs");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let packages = metadata["packages"].as_array().expect("there are packages");
    let linked = packages
        .iter()
        .filter_map(|package| Some((package["name"].as_str()?.to_string(), package["links"].as_str()?.to_string())));
    linked.collect()
}

#[test]
fn users_35_native_code_is_compiled_from_its_crate_and_never_looked_for_in_the_system() {
    // `sqlite3` is built from the source inside its crate; rayon-core and wasm-bindgen-shared reserve a name without a
    // library; the rest belongs to the training crate, which is not in the default build.
    const KNOWN: [&str; 6] =
        ["libsqlite3-sys", "rayon-core", "wasm-bindgen-shared", "torch-sys", "bzip2-sys", "zstd-sys"];
    for (package, library) in native_links() {
        assert!(KNOWN.contains(&package.as_str()), "{package} links `{library}`");
    }
    assert!(read("Cargo.toml").contains("\"bundled\""), "SQLite comes with its source");
    assert!(read(".ci/run").contains("scripts/check-windows.sh"), "CI checks the core for Windows");
}

//! Every command of the README that starts the program is run.

use std::path::Path;

use crate::program::gpara;

#[test]
fn users_34_every_gpara_command_of_the_readme_works() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let commands: Vec<&str> = readme.lines().filter_map(|line| line.strip_prefix("cargo run --release -- ")).collect();
    assert!(commands.len() >= 5 && commands[0] == "demo radio", "{commands:?}");
    // Run away from the checkout, so that nothing is left in it.
    let folder = tempfile::tempdir().unwrap();
    let configs = folder.path().join("configs");
    copy(&root.join("configs"), &configs);
    let data = "crates/gpara-tasks/data";
    copy(&root.join(data), &folder.path().join(data));
    for command in commands {
        gpara(folder.path(), command).success();
    }
    for written in ["out/demo_radio/report.html", "city.html", "room.png", "drive.tif"] {
        assert!(folder.path().join(written).exists(), "the README says that there is `{written}`");
    }
}

/// Copies a folder and what is in it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

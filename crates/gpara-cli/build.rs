//! Embeds every model of `models/` (NAME.onnx with its card NAME.toml) in the binary; with GPARA_EMBED=none in the environment
//! none, for a small program that takes its networks from a folder (`--weights`).

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..");
    let models = root.join("models");
    println!("cargo::rerun-if-changed={}", models.display());
    println!("cargo::rerun-if-env-changed=GPARA_EMBED");
    let embed = match env::var("GPARA_EMBED").as_deref() {
        Err(_) | Ok("all") => true,
        Ok("none") => false,
        Ok(other) => panic!("GPARA_EMBED={other}: it is `all` (or not set) or `none`"),
    };
    let mut networks: Vec<PathBuf> = match fs::read_dir(&models) {
        Ok(entries) if embed => entries.map(|entry| entry.expect("models/ can be listed").path()).collect(),
        _ => Vec::new(),
    };
    networks.retain(|path| path.extension().is_some_and(|extension| extension == "onnx"));
    // By name: `a-b` stands behind `a`, as a list of names has it.
    networks.sort_by(|left, right| left.file_stem().cmp(&right.file_stem()));

    let mut source = String::from("pub(crate) static EMBEDDED_MODELS: &[EmbeddedModel] = &[\n");
    for network in networks {
        let card = network.with_extension("toml");
        assert!(card.exists(), "{} has no card {}", network.display(), card.display());
        println!("cargo::rerun-if-changed={}", network.display());
        println!("cargo::rerun-if-changed={}", card.display());
        let name = network.file_stem().and_then(|name| name.to_str()).expect("model names are UTF-8");
        let (network, card) = (absolute(&network), absolute(&card));
        writeln!(
            source,
            "    EmbeddedModel {{ name: {name:?}, onnx: include_bytes!({network:?}), card: include_str!({card:?}) }},"
        )
        .expect("a String takes any text");
    }
    source.push_str("];\n");
    let target = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("embedded_models.rs");
    fs::write(&target, source).expect("the build folder is writable");
}

fn absolute(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

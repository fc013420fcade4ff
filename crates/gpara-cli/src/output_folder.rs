//! The folder of a run's results; every file in it appears whole or not at all.

use std::path::{Path, PathBuf};

use gpara_nn::sha256_hex;
use gpara_tasks::field::write_whole;
use tempfile::NamedTempFile;

use crate::failure::{Failure, Outcome};

const WRITABLE_HINT: &str = "name a folder you may write to with --out";

/// A folder that results are written to, and what was written.
pub(crate) struct OutputFolder {
    path: PathBuf,
    written: Vec<Written>,
}

/// A file that was written.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    /// Its name in the folder.
    pub(crate) name: String,
    /// SHA-256 of its bytes, in hexadecimal.
    pub(crate) sha256: String,
}

impl OutputFolder {
    /// Opens or makes the folder, and tries a file in it, so that long work does not end at a closed door.
    pub(crate) fn open(path: &Path) -> Outcome<Self> {
        std::fs::create_dir_all(path).map_err(|error| Failure::file("make folder", path, &error, WRITABLE_HINT))?;
        NamedTempFile::new_in(path).map_err(|error| Failure::file("write into", path, &error, WRITABLE_HINT))?;
        Ok(Self { path: path.to_path_buf(), written: Vec::new() })
    }

    /// The folder's path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The files written so far, in the order of writing.
    pub(crate) fn written(&self) -> &[Written] {
        &self.written
    }

    /// Writes a file.
    pub(crate) fn write(&mut self, name: &str, bytes: &[u8]) -> Outcome {
        self.write_by(name, |path| write_whole(path, bytes))
    }

    /// Notes a file that `write` writes whole at the path it is given.
    pub(crate) fn write_by<T>(&mut self, name: &str, write: impl FnOnce(&Path) -> gpara::Result<T>) -> Outcome<T> {
        let path = self.path.join(name);
        let written = write(&path).map_err(|error| Failure::from(error).or_hint(WRITABLE_HINT))?;
        let bytes = std::fs::read(&path).map_err(|error| Failure::file("read back", &path, &error, WRITABLE_HINT))?;
        self.written.push(Written { name: name.to_string(), sha256: sha256_hex(&bytes) });
        Ok(written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_written_whole_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let mut output = OutputFolder::open(&folder.path().join("a/b")).unwrap();
        output.write("x.csv", b"old").unwrap();
        output.write("x.csv", b"new").unwrap();
        let names: Vec<_> = std::fs::read_dir(output.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["x.csv"]);
        assert_eq!(std::fs::read(output.path().join("x.csv")).unwrap(), b"new");
        assert_eq!(output.written()[1].sha256, sha256_hex(b"new"));
    }

    #[test]
    fn folder_that_is_a_file_is_refused() {
        let file = NamedTempFile::new().unwrap();
        assert!(OutputFolder::open(file.path()).is_err());
    }

    #[test]
    fn hash_of_nothing_is_the_published_one() {
        assert_eq!(sha256_hex(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}

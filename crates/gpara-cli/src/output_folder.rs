//! Output files appear whole or not at all: temporary file in the same folder, fsync, rename.

use std::io::Write;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
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
        write_whole(&self.path.join(name), bytes)?;
        self.written.push(Written { name: name.to_string(), sha256: sha256_hex(bytes) });
        Ok(())
    }
}

/// Writes a file so that a reader sees the old or the new content, never a part.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Outcome {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let whole = || {
        let mut file = new_file().tempfile_in(folder)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)
    };
    whole().map(drop).map_err(|error| Failure::file("write", path, &error, WRITABLE_HINT))
}

/// A temporary file with the permissions of any new file; by default it would be private to its owner.
fn new_file() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder
}

/// SHA-256 in hexadecimal.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
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

//! Files appear whole or not at all.

use std::io::Write;
use std::path::{Path, PathBuf};

use gpara::Result;

use super::error::FieldError;

/// Writes a file through a temporary one in the same folder and a rename: a reader sees the old or the new content.
///
/// # Errors
/// `Io` if the folder is missing or may not be written to; nothing is left behind.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || -> std::io::Result<()> {
        stage(path, bytes)?.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    write().map_err(|source| FieldError::Write { path: path.into(), source }.into())
}

/// Writes files that belong together: all are complete on disk under temporary names before the first one is renamed.
///
/// # Errors
/// `Io` if a folder is missing or may not be written to; no file has its name then. Only a failure of a rename itself, after
/// everything was written, can leave some of the files.
pub(crate) fn write_together(files: &[(PathBuf, Vec<u8>)]) -> Result<()> {
    let failed = |path: &Path, source| FieldError::Write { path: path.into(), source };
    let mut staged = Vec::with_capacity(files.len());
    for (path, bytes) in files {
        if path.is_dir() {
            return Err(failed(path, std::io::ErrorKind::IsADirectory.into()).into());
        }
        staged.push((path, stage(path, bytes).map_err(|source| failed(path, source))?));
    }
    for (path, file) in staged {
        file.persist(path).map_err(|error| failed(path, error.error))?;
    }
    Ok(())
}

/// The bytes under a temporary name in the folder of `path`.
fn stage(path: &Path, bytes: &[u8]) -> std::io::Result<tempfile::NamedTempFile> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut file = new_file().tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// A temporary file with the permissions of any new file; by default it would be private to its owner.
fn new_file() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder
}

#[cfg(test)]
mod tests {
    use gpara::ErrorKind;

    use super::*;

    #[test]
    fn file_is_replaced_whole_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        write_whole(&path, b"old").unwrap();
        write_whole(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn folder_that_is_missing_or_a_file_gives_an_io_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, b"").unwrap();
        for path in [folder.path().join("missing/a.csv"), file.join("a.csv")] {
            assert_eq!(write_whole(&path, b"x").unwrap_err().kind(), ErrorKind::Io, "{}", path.display());
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

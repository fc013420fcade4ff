//! What is refused before memory is taken: absurd sizes, and files that promise more than they can hold.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use gpara::{Grid, Result};

use super::error::FieldError;

/// Largest number of cells of a field that is read: 2^28, which take 2 GiB as `f64`.
pub const MAX_CELLS: usize = 1 << 28;

/// Largest file that is read: 4 GiB.
pub const MAX_FILE_BYTES: u64 = 1 << 32;

/// Bytes that one compressed byte can stand for at most: deflate reaches 1032, LZW with 12-bit codes 2731.
const MAX_EXPANSION: u64 = 2800;

/// Reads a whole file, if it is not too large.
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>> {
    let failed = |source| FieldError::Read { path: path.into(), source };
    let file = File::open(path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    let too_large = |size| FieldError::TooLarge { path: path.into(), what: "bytes", size, limit: MAX_FILE_BYTES };
    if size > MAX_FILE_BYTES {
        return Err(too_large(size).into());
    }
    let mut bytes = Vec::with_capacity(size as usize);
    // A pipe or a growing file may give more than it announced.
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(too_large(bytes.len() as u64).into());
    }
    Ok(bytes)
}

/// The grid of announced sides, if it is one and not too large.
pub(crate) fn announced_grid(path: &Path, rows: u64, cols: u64) -> Result<Grid> {
    let cells = rows.saturating_mul(cols);
    if cells > MAX_CELLS as u64 {
        return Err(
            FieldError::TooLarge { path: path.into(), what: "cells", size: cells, limit: MAX_CELLS as u64 }.into()
        );
    }
    // Each side is at most MAX_CELLS, or the other one is 0, which the grid refuses.
    Grid::new(rows.min(MAX_CELLS as u64) as usize, cols.min(MAX_CELLS as u64) as usize)
}

/// Refuses compressed data that are announced to be larger than their compression can reach.
pub(crate) fn check_expansion(path: &Path, announced: u64, compressed: usize) -> Result<(), FieldError> {
    if announced > (compressed as u64).saturating_mul(MAX_EXPANSION) {
        let reason = format!("{announced} bytes are announced, {compressed} compressed bytes cannot hold them");
        return Err(FieldError::content(path, reason));
    }
    Ok(())
}

/// Refuses a text with more values than a field may have cells, before they are split.
pub(crate) fn check_num_values(path: &Path, text: &[u8], delimiter: u8) -> Result<(), FieldError> {
    let size = text.iter().filter(|&&byte| byte == delimiter || byte == b'\n').count() as u64;
    let limit = MAX_CELLS as u64;
    if size > limit {
        return Err(FieldError::TooLarge { path: path.into(), what: "values", size, limit });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use gpara::ErrorKind;

    use super::*;

    #[test]
    fn absurd_sides_are_refused_with_their_product() {
        let path = Path::new("a.tif");
        for (rows, cols) in [(1 << 15, 1 << 14), (u64::MAX, u64::MAX), (1, (1 << 28) + 1)] {
            let error = announced_grid(path, rows, cols).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{rows}x{cols}");
        }
        assert_eq!(announced_grid(path, u64::MAX, 0).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(announced_grid(path, 1 << 14, 1 << 14).unwrap().num_nodes(), MAX_CELLS);
    }

    #[test]
    fn sparse_file_above_the_limit_is_refused_unread() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        File::create(&path).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
        let error = read_file(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("4294967297 bytes"), "{error}");
    }
}

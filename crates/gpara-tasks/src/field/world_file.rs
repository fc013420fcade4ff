//! World files: six numbers beside a picture that say where its pixels lie.

use std::path::{Path, PathBuf};

use gpara::Result;

use super::error::FieldError;
use super::limits::read_file;
use crate::geo::{Affine, Georeference};

/// The transform of the world file beside a picture, if there is one: `a.pgw`, `a.pngw` or `a.wld` for `a.png`.
///
/// # Errors
/// `InvalidInput` if there is one that is not six numbers of an invertible transform; `Io` if it cannot be read.
pub fn read_world_file(picture: &Path) -> Result<Option<Georeference>> {
    for path in names(picture) {
        if path.exists() {
            return decode(&read_file(&path)?, &path).map(Some);
        }
    }
    Ok(None)
}

/// The names a world file may have, the usual one first.
fn names(picture: &Path) -> Vec<PathBuf> {
    let ending = picture.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let short: Option<String> = match (ending.chars().next(), ending.chars().last()) {
        (Some(first), Some(last)) => Some([first, last, 'w'].iter().collect()),
        _ => None,
    };
    let endings = [short, Some(format!("{ending}w")), Some("wld".into())];
    endings.into_iter().flatten().map(|ending| picture.with_extension(ending)).collect()
}

/// Decodes six numbers: x per column, y per column, x per row, y per row, x and y of the first pixel's centre.
pub(super) fn decode(bytes: &[u8], path: &Path) -> Result<Georeference> {
    let text = std::str::from_utf8(bytes).map_err(|_| FieldError::content(path, "not a text"))?;
    let numbers: Vec<f64> = text.split_whitespace().take(7).filter_map(|word| word.parse().ok()).collect();
    let [x_per_col, y_per_col, x_per_row, y_per_row, x_centre, y_centre] = numbers[..] else {
        return Err(FieldError::content(path, "a world file is six numbers, one a line").into());
    };
    let x_origin = x_centre - 0.5 * (x_per_col + x_per_row);
    let y_origin = y_centre - 0.5 * (y_per_col + y_per_row);
    let affine = Affine::new([x_origin, x_per_col, x_per_row, y_origin, y_per_col, y_per_row])?;
    Ok(Georeference::new(affine, None))
}

/// The name and text of the world file of a picture.
pub(crate) fn encode(picture: &Path, georeference: Georeference) -> (PathBuf, String) {
    let [_, x_per_col, x_per_row, _, y_per_col, y_per_row] = georeference.affine().coefficients();
    let (x, y) = georeference.centre(0, 0);
    let text = format!("{x_per_col}\n{y_per_col}\n{x_per_row}\n{y_per_row}\n{x}\n{y}\n");
    let name = names(picture).into_iter().next().expect("there is always the ending .wld");
    (name, text)
}

#[cfg(test)]
mod tests {
    use gpara::ErrorKind;

    use super::*;

    #[test]
    fn world_file_holds_the_centre_of_the_first_pixel() {
        let folder = tempfile::tempdir().unwrap();
        let picture = folder.path().join("map.png");
        assert_eq!(read_world_file(&picture).unwrap(), None);
        std::fs::write(folder.path().join("map.pgw"), "2.0\n0\n0\n-2.0\r\n101\n49\n").unwrap();
        let expected = Georeference::north_up(100.0, 50.0, 2.0, None).unwrap();
        assert_eq!(read_world_file(&picture).unwrap(), Some(expected));
        let (name, text) = encode(&picture, expected);
        assert_eq!(name, folder.path().join("map.pgw"));
        assert_eq!(decode(text.as_bytes(), &name).unwrap(), expected);
    }

    #[test]
    fn damaged_world_files_are_refused() {
        for text in ["", "1\n2\n3\n", "1 0 0 1 0 0 0", "1 0 0 x 0 0", "0 0 0 0 0 0", "\u{fffd}"] {
            let error = decode(text.as_bytes(), Path::new("a.pgw")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text}");
        }
    }
}

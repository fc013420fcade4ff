//! Lists of cells as CSV, e.g. the places a vehicle can reach.

use std::path::Path;

use csv::StringRecord;
use gpara::{Grid, Result};

use super::error::PointError;
use crate::field::{Records, read_file};

/// Reads cells by the columns `row` and `col` (0-based); other columns are ignored.
///
/// # Errors
/// `Io` if the file cannot be read; `InvalidInput` if a column is missing (named), a line is not a cell of the grid (with its
/// number), or there is no cell at all.
pub fn read_cells(path: &Path, grid: Grid) -> Result<Vec<usize>> {
    let bytes = read_file(path)?;
    let mut records = Records::new(&bytes);
    let broken = |error: csv::Error| PointError::content(path, error);
    let (_, header) = records.next().transpose().map_err(broken)?.unwrap_or_default();
    let (row, col) = (column(&header, "row", path)?, column(&header, "col", path)?);
    let mut nodes = Vec::new();
    for record in records {
        let (line, record) = record.map_err(broken)?;
        let refused =
            |reason| PointError::RefusedRow { path: path.into(), item: "line", number: line, reason, more: 0 };
        let row = index(&record, row, "row", grid.rows()).map_err(refused)?;
        let col = index(&record, col, "col", grid.cols()).map_err(refused)?;
        nodes.push(grid.node(row, col));
    }
    if nodes.is_empty() {
        return Err(PointError::content(path, "the file holds no cells").into());
    }
    Ok(nodes)
}

fn column(header: &StringRecord, name: &str, path: &Path) -> Result<usize> {
    let found = || header.iter().map(|column| format!("`{column}`")).collect::<Vec<_>>().join(", ");
    let at = header.iter().position(|column| column.eq_ignore_ascii_case(name));
    Ok(at.ok_or_else(|| PointError::NoColumn { path: path.into(), column: name.into(), found: found() })?)
}

fn index(record: &StringRecord, column: usize, name: &str, limit: usize) -> Result<usize, String> {
    let text = record.get(column).unwrap_or_default();
    let index = text.parse::<usize>().ok().filter(|&index| index < limit);
    index.ok_or_else(|| format!("{name} is `{text}`, it must be a whole number from 0 to {}", limit - 1))
}

#[cfg(test)]
mod tests {
    use gpara::ErrorKind;

    use super::*;

    #[test]
    fn cells_are_read_by_column_name_and_bad_lines_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cells.csv");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read_cells(&path, Grid::new(3, 4).unwrap())
        };
        assert_eq!(read("note;Col;row\na;1;2\nb;3;0\n").unwrap(), [9, 3]);
        for (text, part) in [
            ("row,value\n1,1\n", "`col`"),
            ("row,col\n1,1\n3,0\n", "line 3"),
            ("row,col\n1,-1\n", "line 2"),
            ("row,col\n", "no cells"),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text}");
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}

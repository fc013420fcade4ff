//! Points as CSV: measurements coming in, points and their values going out.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use csv::StringRecord;
use gpara::{Grid, Result, ValidMask};

use super::delimited::{Delimiter, Records};
use super::error::FieldError;
use super::whole::write_whole;

/// One measured point of a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Line of the file it came from, 1-based.
    pub line: u64,
    /// The cell that contains it.
    pub node: usize,
    /// Its value in the file's unit.
    pub value: f64,
    /// Standard deviation of its noise, if the file has a column `sigma`.
    pub sigma: Option<f64>,
}

/// A line that is not a measurement of a valid cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedRow {
    /// Line of the file, 1-based.
    pub line: u64,
    /// What is wrong, the value, what is allowed.
    pub reason: String,
}

/// The lines of a point file, good and refused ones.
#[derive(Debug, Clone, PartialEq)]
pub struct PointRows {
    path: PathBuf,
    /// The measurements in the order of the file.
    pub points: Vec<Point>,
    /// The refused lines in the order of the file.
    pub refused: Vec<RefusedRow>,
}

impl PointRows {
    /// The points, if no line was refused: all land or none.
    ///
    /// # Errors
    /// `InvalidInput` with the first refused line and how many more there are.
    pub fn all(self) -> Result<Vec<Point>> {
        match self.refused.first() {
            None => Ok(self.points),
            Some(RefusedRow { line, reason }) => {
                let (line, reason, more) = (*line, reason.clone(), self.refused.len() - 1);
                Err(FieldError::RefusedRow { path: self.path, line, reason, more }.into())
            }
        }
    }
}

/// Reads points by the names in the first line: `value` and either `row`, `col` (0-based cells) or `x`, `y` (cell (0, 0)
/// covers 0 <= x < 1 and 0 <= y < 1, x to the right, y down); `sigma` if there is one. Other columns are ignored.
///
/// Tolerates a byte order mark, CRLF, semicolons, decimal commas between semicolons, any order of columns and upper case.
/// `row` and `col` are used if both pairs are there.
///
/// # Errors
/// `Io` if the file cannot be read; `InvalidInput` if a column is missing (named). What is wrong with single lines is in
/// the result.
pub fn read_points(path: &Path, valid: &ValidMask) -> Result<PointRows> {
    let bytes = std::fs::read(path).map_err(|source| FieldError::Read { path: path.into(), source })?;
    let mut records = Records::new(&bytes);
    let delimiter = records.delimiter();
    let broken = |error: csv::Error| FieldError::content(path, error);
    let (_, header) = records.next().transpose().map_err(broken)?.unwrap_or_default();
    let columns = Columns::find(&header, delimiter, path)?;
    let mut rows = PointRows { path: path.into(), points: Vec::new(), refused: Vec::new() };
    for record in records {
        let (line, record) = record.map_err(broken)?;
        match columns.point(&record, line, valid) {
            Ok(point) => rows.points.push(point),
            Err(reason) => rows.refused.push(RefusedRow { line, reason }),
        }
    }
    Ok(rows)
}

/// Where the columns of a point file are.
struct Columns {
    delimiter: Delimiter,
    position: Position,
    value: usize,
    sigma: Option<usize>,
}

enum Position {
    Cell { row: usize, col: usize },
    World { x: usize, y: usize },
}

impl Columns {
    fn find(header: &StringRecord, delimiter: Delimiter, path: &Path) -> Result<Self> {
        let find = |name: &str| header.iter().position(|column| column.eq_ignore_ascii_case(name));
        let missing = |column: &str| {
            let found = header.iter().map(|column| format!("`{column}`")).collect::<Vec<_>>().join(", ");
            FieldError::NoColumn { path: path.into(), column: column.into(), found }
        };
        let position = match (find("row"), find("col"), find("x"), find("y")) {
            (Some(row), Some(col), ..) => Position::Cell { row, col },
            (.., Some(x), Some(y)) => Position::World { x, y },
            (Some(_), None, ..) => return Err(missing("col").into()),
            (None, _, Some(_), None) => return Err(missing("y").into()),
            (None, _, None, Some(_)) => return Err(missing("x").into()),
            (None, ..) => return Err(missing("row").into()),
        };
        let value = find("value").ok_or_else(|| missing("value"))?;
        Ok(Self { delimiter, position, value, sigma: find("sigma") })
    }

    fn point(&self, record: &StringRecord, line: u64, valid: &ValidMask) -> Result<Point, String> {
        let grid = valid.grid();
        let (row, col) = match self.position {
            Position::Cell { row, col } => {
                let row = self.cell_index(record, row, "row", grid.rows())?;
                (row, self.cell_index(record, col, "col", grid.cols())?)
            }
            Position::World { x, y } => {
                let row = self.containing(record, y, "y", grid.rows())?;
                (row, self.containing(record, x, "x", grid.cols())?)
            }
        };
        let node = grid.node(row, col);
        if !valid.is_valid(node) {
            return Err(format!("row {row}, col {col} is outside the valid mask"));
        }
        let value = self.finite(record, self.value, "value")?;
        let sigma = match self.sigma {
            None => None,
            Some(column) => Some(self.finite(record, column, "sigma")?),
        };
        if let Some(sigma) = sigma.filter(|&sigma| sigma < 0.0) {
            return Err(format!("sigma is {sigma}, it must not be negative"));
        }
        Ok(Point { line, node, value, sigma })
    }

    fn finite(&self, record: &StringRecord, column: usize, name: &str) -> Result<f64, String> {
        let text = record.get(column).unwrap_or_default();
        let number = self.delimiter.number(text).filter(|number| number.is_finite());
        number.ok_or_else(|| format!("{name} is `{text}`, it must be a finite number"))
    }

    /// A 0-based index below `limit`.
    fn cell_index(&self, record: &StringRecord, column: usize, name: &str, limit: usize) -> Result<usize, String> {
        let text = record.get(column).unwrap_or_default();
        let index = text.parse::<usize>().ok().filter(|&index| index < limit);
        index.ok_or_else(|| format!("{name} is `{text}`, it must be a whole number from 0 to {}", limit - 1))
    }

    /// The cell whose half-open interval contains a coordinate.
    fn containing(&self, record: &StringRecord, column: usize, name: &str, limit: usize) -> Result<usize, String> {
        let coordinate = self.finite(record, column, name)?;
        if coordinate < 0.0 || coordinate >= limit as f64 {
            return Err(format!("{name} is {coordinate}, it must be at least 0 and less than {limit}"));
        }
        Ok(coordinate as usize)
    }
}

/// Writes points as CSV: `row,col,x,y` (x, y at the cell's centre, in cells) and the given columns, one value a point.
///
/// # Shapes
/// * `columns` - name and one value for each of `nodes`
///
/// # Errors
/// `ShapeMismatch` if a column has another number of values; `Io` if the file cannot be written.
pub fn write_points(path: &Path, grid: Grid, nodes: &[usize], columns: &[(&str, &[f64])]) -> Result<()> {
    for (name, values) in columns {
        if values.len() != nodes.len() {
            let (found, expected) = (values.len(), nodes.len());
            return Err(FieldError::Column { name: (*name).into(), found, expected }.into());
        }
    }
    let mut text = String::from("row,col,x,y");
    for (name, _) in columns {
        text.push(',');
        text.push_str(name);
    }
    text.push('\n');
    for (point, &node) in nodes.iter().enumerate() {
        let (row, col) = grid.row_col(node);
        write!(text, "{row},{col},{},{}", col as f64 + 0.5, row as f64 + 0.5).expect("writing to a String succeeds");
        for (_, values) in columns {
            // The shortest text that reads back to the same bits.
            write!(text, ",{}", values[point]).expect("writing to a String succeeds");
        }
        text.push('\n');
    }
    write_whole(path, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use gpara::ErrorKind;

    use super::*;

    fn read(text: &[u8], valid: &ValidMask) -> Result<PointRows> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("points.csv");
        std::fs::write(&path, text).unwrap();
        read_points(&path, valid)
    }

    fn all_valid(rows: usize, cols: usize) -> ValidMask {
        ValidMask::all(Grid::new(rows, cols).unwrap())
    }

    #[test]
    fn variants_of_one_file_read_the_same() {
        let variants: [&[u8]; 5] = [
            b"row,col,value\n1,2,-80.5\n0,4,3\n",
            b"\xef\xbb\xbfrow,col,value\r\n1,2,-80.5\r\n0,4,3\r\n",
            b"Value;note;COL;row\n-80,5;north;2;1\n3;;4;0\n",
            b"x,y,value\n2.5,1.5,-80.5\n4,0.999,3\n",
            b"\"row\",\"col\",\"value\"\n1, 2, -80.5\n0, 4, 3\n",
        ];
        for text in variants {
            let points = read(text, &all_valid(2, 5)).unwrap().all().unwrap();
            let found: Vec<_> = points.iter().map(|point| (point.line, point.node, point.value, point.sigma)).collect();
            assert_eq!(found, [(2, 7, -80.5, None), (3, 4, 3.0, None)], "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn each_kind_of_bad_line_is_refused_with_its_number_and_the_rest_is_read() {
        let mut flags = vec![true; 10];
        flags[3] = false;
        let valid = ValidMask::new(Grid::new(2, 5).unwrap(), flags).unwrap();
        let text = b"row,col,value,sigma\n1,2,7,0.5\n2,0,1,1\n0,5,1,1\n0,3,1,1\n0,0,nan,1\n0,0,,1\n0,-1,1,1\n0,0,1,-1\n0,0\n1,1,2,0\n";
        let rows = read(text, &valid).unwrap();
        let lines: Vec<u64> = rows.refused.iter().map(|row| row.line).collect();
        assert_eq!(lines, [3, 4, 5, 6, 7, 8, 9, 10]);
        let points: Vec<_> = rows.points.iter().map(|point| (point.node, point.value, point.sigma)).collect();
        assert_eq!(points, [(7, 7.0, Some(0.5)), (6, 2.0, Some(0.0))]);
        let error = rows.all().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("line 3") && error.to_string().contains("7 more"), "{error}");
    }

    #[test]
    fn lines_are_counted_across_empty_lines_and_quoted_line_breaks() {
        let text = b"row,col,value,note\r\n\r\n0,0,1,\"two\r\nlines\"\r\n0,1,x,\r\n";
        let rows = read(text, &all_valid(1, 2)).unwrap();
        assert_eq!(rows.points.iter().map(|point| point.line).collect::<Vec<_>>(), [3]);
        assert_eq!(rows.refused.iter().map(|row| row.line).collect::<Vec<_>>(), [5]);
    }

    #[test]
    fn coordinates_are_half_open_and_refused_outside() {
        let text = b"x,y,value\n0,0,1\n5,0,1\n-0.1,0,1\n4.999,1.999,1\n0,2,1\n";
        let rows = read(text, &all_valid(2, 5)).unwrap();
        assert_eq!(rows.points.iter().map(|point| point.node).collect::<Vec<_>>(), [0, 9]);
        assert_eq!(rows.refused.iter().map(|row| row.line).collect::<Vec<_>>(), [3, 4, 6]);
    }

    #[test]
    fn missing_column_is_named() {
        for (header, column) in
            [("row,value", "col"), ("row,col", "value"), ("x,value", "y"), ("value", "row"), ("", "row")]
        {
            let error = read(header.as_bytes(), &all_valid(1, 1)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains(&format!("no column `{column}`")), "{header}: {error}");
        }
    }

    #[test]
    fn written_points_read_back_to_the_same_bits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("points.csv");
        let valid = all_valid(3, 4);
        let (nodes, values) = ([11, 0, 5], [0.1, -1.0 / 3.0, 1e-300]);
        write_points(&path, valid.grid(), &nodes, &[("value", &values), ("sigma", &[0.5, 0.25, 0.0])]).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().starts_with("row,col,x,y,value,sigma\n2,3,3.5,2.5,0.1,0.5\n"));
        let points = read_points(&path, &valid).unwrap().all().unwrap();
        assert_eq!(points.iter().map(|point| point.node).collect::<Vec<_>>(), nodes);
        assert_eq!(points.iter().map(|point| point.value).collect::<Vec<_>>(), values);
        let error = write_points(&path, valid.grid(), &nodes, &[("value", &[1.0])]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ShapeMismatch);
    }
}

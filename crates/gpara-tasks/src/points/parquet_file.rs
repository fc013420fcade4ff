//! Parquet: a flat table with columns of numbers.

use std::path::Path;

use bytes::Bytes;
use gpara::Result;
use parquet::basic::Type as PhysicalType;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::error::PointError;
use super::samples::{Collector, Entry};

/// Rows read at once.
const BATCH: usize = 4096;

/// Reads the rows of all row groups.
pub(super) fn read(bytes: &[u8], path: &Path, collector: &mut Collector<'_>) -> Result<()> {
    let broken = |error: ParquetError| PointError::content(path, format!("not a readable Parquet ({error})"));
    let reader = SerializedFileReader::new(Bytes::copy_from_slice(bytes)).map_err(broken)?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let names: Vec<String> = schema.columns().iter().map(|column| column.path().string()).collect();
    let wanted = collector.header(&names)?;
    for &column in &wanted {
        let descriptor = schema.column(column);
        let is_number = matches!(
            descriptor.physical_type(),
            PhysicalType::INT32 | PhysicalType::INT64 | PhysicalType::FLOAT | PhysicalType::DOUBLE
        );
        if !is_number || descriptor.max_rep_level() > 0 || descriptor.max_def_level() > 1 {
            let reason = format!("column `{}` must hold one number (integer or float) a row", names[column]);
            return Err(PointError::content(path, reason).into());
        }
    }
    let mut number = 0;
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(broken)?;
        let columns = wanted
            .iter()
            .map(|&column| {
                let required = schema.column(column).max_def_level() == 0;
                numbers(group.get_column_reader(column)?, required)
            })
            .collect::<Result<Vec<_>, ParquetError>>()
            .map_err(broken)?;
        let num_rows = columns.first().map_or(0, Vec::len);
        if columns.iter().any(|column| column.len() != num_rows) {
            return Err(PointError::content(path, "its columns have different lengths").into());
        }
        for row in 0..num_rows {
            number += 1;
            let entries: Vec<Entry> =
                columns.iter().map(|column| column[row].map_or(Entry::Missing, Entry::Number)).collect();
            collector.row(number, &entries);
        }
    }
    Ok(())
}

/// The numbers of a column in one row group; none = null.
fn numbers(reader: ColumnReader, required: bool) -> Result<Vec<Option<f64>>, ParquetError> {
    match reader {
        ColumnReader::Int32ColumnReader(reader) => read_all(reader, required, f64::from),
        // Beyond 2^53 a value is rounded.
        ColumnReader::Int64ColumnReader(reader) => read_all(reader, required, |value| value as f64),
        ColumnReader::FloatColumnReader(reader) => read_all(reader, required, f64::from),
        ColumnReader::DoubleColumnReader(reader) => read_all(reader, required, |value| value),
        _ => Err(ParquetError::General("a column of numbers was announced".into())),
    }
}

fn read_all<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    required: bool,
    to_f64: impl Fn(T::T) -> f64,
) -> Result<Vec<Option<f64>>, ParquetError> {
    let mut numbers = Vec::new();
    loop {
        let (mut levels, mut values) = (Vec::new(), Vec::new());
        let (num_rows, ..) = reader.read_records(BATCH, Some(&mut levels), None, &mut values)?;
        if num_rows == 0 {
            return Ok(numbers);
        }
        let mut values = values.into_iter().map(&to_f64);
        if required {
            numbers.extend(values.map(Some));
        } else {
            numbers.extend(levels.iter().map(|&level| if level == 0 { None } else { values.next() }));
        }
    }
}

//! Parquet: a flat table with columns of numbers.

use std::panic::AssertUnwindSafe;
use std::path::Path;

use bytes::Bytes;
use gpara::Result;
use parquet::basic::Type as PhysicalType;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::error::PointError;
use super::samples::{Collector, Entry};
use crate::field::check_expansion;

/// Rows read at once.
const BATCH: usize = 4096;

/// Reads the rows of all row groups.
///
/// The decoder asserts what damaged metadata can break; such a panic is the file's fault and becomes an error.
pub(super) fn read(bytes: &[u8], path: &Path, collector: &mut Collector<'_>) -> Result<()> {
    std::panic::catch_unwind(AssertUnwindSafe(|| read_rows(bytes, path, collector)))
        .unwrap_or_else(|_| Err(PointError::content(path, "not a readable Parquet (the decoder gave up)").into()))
}

fn read_rows(bytes: &[u8], path: &Path, collector: &mut Collector<'_>) -> Result<()> {
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
        for &column in &wanted {
            check_size(path, group.metadata().column(column), bytes.len())?;
        }
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

/// Refuses a column chunk that lies outside of the file, or announces more than its compression can reach.
fn check_size(path: &Path, chunk: &ColumnChunkMetaData, file_length: usize) -> Result<()> {
    let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
    let range = u64::try_from(start).ok().zip(u64::try_from(chunk.compressed_size()).ok());
    let end = range.and_then(|(start, length)| start.checked_add(length)).filter(|&end| end <= file_length as u64);
    let sizes = u64::try_from(chunk.uncompressed_size()).ok().filter(|_| end.is_some());
    let announced = sizes.ok_or_else(|| PointError::content(path, "a column lies outside of the file"))?;
    check_expansion(path, announced, file_length)?;
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

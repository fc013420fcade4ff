//! Text tables of points: CSV and its relatives.

use std::path::Path;

use gpara::Result;

use super::error::PointError;
use super::samples::{Collector, Entry};
use crate::field::{Records, check_num_values};

/// Reads the header and the rows.
pub(super) fn read(bytes: &[u8], path: &Path, collector: &mut Collector<'_>) -> Result<()> {
    let mut records = Records::new(bytes);
    let delimiter = records.delimiter();
    check_num_values(path, bytes, delimiter.byte())?;
    let broken = |error: csv::Error| PointError::content(path, error);
    let (_, header) = records.next().transpose().map_err(broken)?.unwrap_or_default();
    let names: Vec<String> = header.iter().map(String::from).collect();
    let wanted = collector.header(&names)?;
    let mut entries = Vec::with_capacity(wanted.len());
    for record in records {
        let (line, record) = record.map_err(broken)?;
        entries.clear();
        entries.extend(wanted.iter().map(|&column| match record.get(column).unwrap_or_default() {
            "" => Entry::Missing,
            text => delimiter.number(text).map_or_else(|| Entry::Text(text.into()), Entry::Number),
        }));
        collector.row(line, &entries);
    }
    Ok(())
}

//! Text tables as spreadsheets write them: byte order mark, CRLF, commas, semicolons or tabulators, decimal commas.

use csv::{ReaderBuilder, StringRecord, StringRecordsIntoIter, Trim};

/// What separates the values of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delimiter {
    /// A comma; numbers have a decimal point.
    Comma,
    /// A semicolon; numbers have a decimal point or a decimal comma.
    Semicolon,
    /// A tabulator; numbers as between semicolons.
    Tab,
}

impl Delimiter {
    /// The delimiter of a text: semicolons if its first line has any, else tabulators, else commas.
    fn of(text: &[u8]) -> Self {
        let first = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
        match (first.contains(&b';'), first.contains(&b'\t')) {
            (true, _) => Self::Semicolon,
            (false, true) => Self::Tab,
            (false, false) => Self::Comma,
        }
    }

    /// The character itself.
    pub(crate) fn byte(self) -> u8 {
        match self {
            Self::Comma => b',',
            Self::Semicolon => b';',
            Self::Tab => b'\t',
        }
    }

    /// The number a text stands for.
    pub(crate) fn number(self, text: &str) -> Option<f64> {
        let text = text.trim();
        match self {
            Self::Semicolon | Self::Tab if text.contains(',') && !text.contains('.') => {
                text.replacen(',', ".", 1).parse().ok()
            }
            Self::Comma | Self::Semicolon | Self::Tab => text.parse().ok(),
        }
    }
}

/// The records of a table as they stand, the header included, each with its line.
pub(crate) struct Records<'a> {
    text: &'a [u8],
    delimiter: Delimiter,
    records: StringRecordsIntoIter<&'a [u8]>,
    // How far lines are counted.
    byte: usize,
    line: u64,
}

impl<'a> Records<'a> {
    /// The records of a file's bytes, without the byte order mark.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let delimiter = Delimiter::of(text);
        let mut builder = ReaderBuilder::new();
        builder.has_headers(false).flexible(true).delimiter(delimiter.byte()).trim(Trim::All);
        Self { text, delimiter, records: builder.from_reader(text).into_records(), byte: 0, line: 1 }
    }

    /// What separates the values.
    pub(crate) fn delimiter(&self) -> Delimiter {
        self.delimiter
    }

    /// The line a record starts at. The reader's own count is one too small after CRLF and empty lines, which it skips
    /// only when it reads on.
    fn line_of(&mut self, record: &StringRecord) -> u64 {
        let mut start = record.position().map_or(self.byte, |position| position.byte() as usize);
        while matches!(self.text.get(start), Some(b'\r' | b'\n')) {
            start += 1;
        }
        self.line += self.text[self.byte..start].iter().filter(|&&byte| byte == b'\n').count() as u64;
        self.byte = start;
        self.line
    }
}

impl Iterator for Records<'_> {
    type Item = Result<(u64, StringRecord), csv::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.records.next()?;
        Some(record.map(|record| (self.line_of(&record), record)))
    }
}

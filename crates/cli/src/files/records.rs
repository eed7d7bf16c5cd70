//! Cutting text into records: the rows of CSV, which may span lines, and the lines of JSON lines.

use std::fmt;
use std::io::{self, BufRead, Read};
use std::ops::Range;

use indicatif::HumanBytes;

/// The longest record. Without a limit one quote that is never closed, or packed zeros, would be read into
/// memory to the end of the file.
pub const RECORD_BYTES_MAX: usize = 32 << 20;
/// Records that are read together end with the one that reaches this, however few they are.
const RECORDS_BYTES: usize = 16 << 20;

/// What some programs put before a text in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[derive(Clone, Copy, PartialEq)]
pub enum Syntax {
    Csv { separator: u8 },
    Jsonl,
}

/// Some records as they stand in a file, and the lines that they begin at. Blank lines are no records.
#[derive(Default)]
pub struct Records {
    text: Vec<u8>,
    starts: Vec<usize>,
    lines: Vec<u64>,
}

impl Records {
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    pub fn byte_len(&self) -> usize {
        self.text.len()
    }

    /// Adds a record that begins in a line.
    pub fn push(&mut self, text: &[u8], line: u64) {
        self.starts.push(self.text.len());
        self.lines.push(line);
        self.text.extend_from_slice(text);
    }

    /// Some of these records.
    pub fn part(&self, records: Range<usize>) -> Records {
        let mut part = Records::default();
        for record in records {
            part.push(self.text(record..record + 1), self.lines[record]);
        }
        part
    }

    /// The text of these records.
    pub fn text(&self, records: Range<usize>) -> &[u8] {
        let start = |record: usize| self.starts.get(record).copied().unwrap_or(self.text.len());
        &self.text[start(records.start)..start(records.end)]
    }

    /// The lines that these records begin at; the first of a file is 1.
    pub fn lines(&self, records: Range<usize>) -> &[u64] {
        &self.lines[records]
    }
}

/// Why no more records can be read. What stands behind is lost, so this is no record to be left out.
#[derive(Debug)]
pub enum RecordError {
    Io(io::Error),
    /// In these lines, counted from 1, a quoted cell or a record begins that is none.
    UnclosedQuote {
        line: u64,
    },
    TooLong {
        line: u64,
        /// Whether it is as long because a quote that opens in that line is not closed.
        is_quoted: bool,
    },
}

impl From<io::Error> for RecordError {
    fn from(error: io::Error) -> RecordError {
        RecordError::Io(error)
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const HINT: &str = "add the closing quote, or double every quote that belongs to the text";
        match self {
            RecordError::Io(error) => error.fmt(f),
            RecordError::UnclosedQuote { line } => {
                write!(f, "line {line}: the quote that opens here is never closed; {HINT}")
            }
            RecordError::TooLong { line, is_quoted: true } => write!(
                f,
                "line {line}: the quote that opens here is not closed within {}, the limit of a record; {HINT}",
                HumanBytes(RECORD_BYTES_MAX as u64)
            ),
            RecordError::TooLong { line, is_quoted: false } => write!(
                f,
                "line {line}: the record has more than {}, the limit; check the format of the file",
                HumanBytes(RECORD_BYTES_MAX as u64)
            ),
        }
    }
}

/// Reads records one behind the other.
pub struct RecordReader<R> {
    file: R,
    syntax: Syntax,
    lines_read: u64,
}

impl<R: BufRead> RecordReader<R> {
    pub fn new(file: R, syntax: Syntax) -> RecordReader<R> {
        RecordReader { file, syntax, lines_read: 0 }
    }

    /// Adds the next record, or returns false at the end.
    pub fn read(&mut self, records: &mut Records) -> Result<bool, RecordError> {
        let start = records.text.len();
        loop {
            let line = self.lines_read + 1;
            self.read_one(&mut records.text)?;
            let record = &records.text[start..];
            if record.is_empty() {
                return Ok(false);
            }
            if !record.iter().all(|&byte| self.is_blank(byte)) {
                records.starts.push(start);
                records.lines.push(line);
                return Ok(true);
            }
            records.text.truncate(start);
        }
    }

    /// Reads records until there are `count`, or as much text as is held at once, or no more.
    pub fn read_up_to(&mut self, count: usize) -> Result<Records, RecordError> {
        let mut records = Records::default();
        let has_room = |records: &Records| records.byte_len() < RECORDS_BYTES;
        while records.len() < count && has_room(&records) && self.read(&mut records)? {}
        Ok(records)
    }

    /// One line, or the lines of one row of CSV. Nothing is looked at twice but for the end of the line, and
    /// for quotes.
    fn read_one(&mut self, text: &mut Vec<u8>) -> Result<(), RecordError> {
        let (first, first_line) = (text.len(), self.lines_read + 1);
        // The line in which the quote opens that is not closed yet.
        let mut quoted_from = None;
        loop {
            let start = text.len();
            let room = RECORD_BYTES_MAX - (start - first);
            let mut bounded = self.file.by_ref().take(room as u64 + 1);
            let len = bounded.read_until(b'\n', text)?;
            if len > room {
                let line = quoted_from.unwrap_or(first_line);
                return Err(RecordError::TooLong { line, is_quoted: quoted_from.is_some() });
            }
            if len == 0 {
                return match quoted_from {
                    Some(line) => Err(RecordError::UnclosedQuote { line }),
                    None => Ok(()),
                };
            }
            if self.lines_read == 0 && text[start..].starts_with(BYTE_ORDER_MARK) {
                text.drain(start..start + BYTE_ORDER_MARK.len());
            }
            self.lines_read += 1;
            let line = &text[start..];
            if let Syntax::Csv { separator } = self.syntax
                && (quoted_from.is_some() || line.contains(&b'"'))
            {
                quoted_from = match open_quote(line, quoted_from.is_some(), separator) {
                    OpenQuote::None => None,
                    OpenQuote::OfThisLine => Some(self.lines_read),
                    OpenQuote::OfBefore => quoted_from,
                };
            }
            if quoted_from.is_none() {
                return Ok(());
            }
        }
    }

    fn is_blank(&self, byte: u8) -> bool {
        match self.syntax {
            // A row of one column may be spaces.
            Syntax::Csv { .. } => matches!(byte, b'\r' | b'\n'),
            Syntax::Jsonl => byte.is_ascii_whitespace(),
        }
    }
}

/// The quote of the cell that goes on behind a line of CSV.
#[derive(Clone, Copy)]
enum OpenQuote {
    None,
    OfThisLine,
    OfBefore,
}

/// Whether a quoted cell goes on behind this line of CSV, which begins in one or not. Quotes count where a
/// cell begins; two of them inside a quoted cell are one.
fn open_quote(line: &[u8], begins_quoted: bool, separator: u8) -> OpenQuote {
    #[derive(PartialEq)]
    enum At {
        Start,
        Plain,
        Quoted,
        Quote,
    }
    let mut opened = OpenQuote::OfBefore;
    let mut step = |at: At, &byte: &u8| match (at, byte) {
        (At::Start, b'"') => {
            opened = OpenQuote::OfThisLine;
            At::Quoted
        }
        (At::Quote, b'"') => At::Quoted,
        (At::Quoted, b'"') => At::Quote,
        (At::Quoted, _) => At::Quoted,
        (_, byte) if byte == separator => At::Start,
        _ => At::Plain,
    };
    let begin = if begins_quoted { At::Quoted } else { At::Start };
    match line.iter().fold(begin, &mut step) {
        At::Quoted => opened,
        _ => OpenQuote::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: Syntax = Syntax::Csv { separator: b',' };

    fn records_of(text: &str, syntax: Syntax) -> Vec<(u64, String)> {
        let records = RecordReader::new(text.as_bytes(), syntax).read_up_to(100).unwrap();
        let text = |record| String::from_utf8(records.text(record..record + 1).to_vec()).unwrap();
        (0..records.len())
            .map(|record| (records.lines(0..records.len())[record], text(record)))
            .collect()
    }

    fn expected(records: &[(u64, &str)]) -> Vec<(u64, String)> {
        records.iter().map(|&(line, text)| (line, text.to_string())).collect()
    }

    #[test]
    fn a_row_of_csv_ends_with_the_line_unless_a_quoted_cell_goes_on() {
        let text = "a,b\r\n\n1,\"x\ny \"\"z\"\",\n\",2\n3\",4\n\"\",\"5\"\n6,\"\"";
        let rows = [
            (1, "a,b\r\n"),
            (3, "1,\"x\ny \"\"z\"\",\n\",2\n"),
            (6, "3\",4\n"),
            (7, "\"\",\"5\"\n"),
            (8, "6,\"\""),
        ];
        assert_eq!(records_of(text, CSV), expected(&rows));
    }

    #[test]
    fn a_quote_that_is_never_closed_is_named_by_the_line_that_opens_it() {
        for (text, line) in [
            ("a\n\"", 2),
            ("a\n1,\"x\ny\n\nz\n", 2),
            ("\"a\nb\",c\n1,\"x\ny\",\"z\n\n", 4),
            ("\"a\"\"\n", 1),
            ("\"a\n\"\"\n", 1),
        ] {
            let mut reader = RecordReader::new(text.as_bytes(), CSV);
            let found = match reader.read_up_to(100) {
                Err(RecordError::UnclosedQuote { line }) => Some(line),
                _ => None,
            };
            assert_eq!(found, Some(line), "{text:?}");
            // In JSON lines a quote is none of ours.
            assert!(RecordReader::new(text.as_bytes(), Syntax::Jsonl).read_up_to(100).is_ok());
        }
    }

    #[test]
    fn a_record_is_as_long_as_the_limit_and_no_longer() {
        let long = |len: usize| "x".repeat(len);
        for (text, syntax, expected) in [
            (format!("1\n{}\n", long(RECORD_BYTES_MAX - 1)), CSV, None),
            (format!("1\n{}", long(RECORD_BYTES_MAX)), Syntax::Jsonl, None),
            (format!("1\n{}\n", long(RECORD_BYTES_MAX)), CSV, Some((2, false))),
            (format!("1\n{}", long(RECORD_BYTES_MAX + 1)), Syntax::Jsonl, Some((2, false))),
            (
                format!("1\n2,\"y\nz\",\"{}\n\n", long(RECORD_BYTES_MAX / 2).repeat(2)),
                CSV,
                Some((2, true)),
            ),
            (
                format!("1\n2,\"y\nz\",\"\n{}\n\n", long(RECORD_BYTES_MAX / 2).repeat(2)),
                CSV,
                Some((3, true)),
            ),
        ] {
            let found = match RecordReader::new(text.as_bytes(), syntax).read_up_to(100) {
                Ok(records) => {
                    assert_eq!(records.len(), 2);
                    None
                }
                Err(RecordError::TooLong { line, is_quoted }) => Some((line, is_quoted)),
                Err(other) => panic!("{other}"),
            };
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn long_records_are_not_held_by_the_thousand() {
        let text = format!("{}\n", "x".repeat(RECORDS_BYTES / 4)).repeat(10);
        let mut reader = RecordReader::new(text.as_bytes(), Syntax::Jsonl);
        let mut lens = Vec::new();
        loop {
            let records = reader.read_up_to(1000).unwrap();
            if records.is_empty() {
                break;
            }
            lens.push(records.len());
        }
        assert_eq!(lens, [4, 4, 2]);
    }

    #[test]
    fn a_mark_before_the_text_is_none_of_it() {
        let text = "\u{feff}\"a\nb\",c\n\u{feff}1,2\n";
        let rows = [(1, "\"a\nb\",c\n"), (3, "\u{feff}1,2\n")];
        assert_eq!(records_of(text, CSV), expected(&rows));
        assert_eq!(records_of("\u{feff}{}\n", Syntax::Jsonl), expected(&[(1, "{}\n")]));
        assert!(records_of("\u{feff}", Syntax::Jsonl).is_empty());
    }

    #[test]
    fn quotes_do_not_join_json_lines() {
        let text = "{\"a\n \n\"}\n";
        assert_eq!(records_of(text, Syntax::Jsonl), expected(&[(1, "{\"a\n"), (3, "\"}\n")]));
    }
}

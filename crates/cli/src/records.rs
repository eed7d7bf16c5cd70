//! Cutting text into records: the rows of CSV, which may span lines, and the lines of JSON lines.

use std::io::{self, BufRead};
use std::ops::Range;

/// What some programs put before a text in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[derive(Clone, Copy, PartialEq)]
pub enum Syntax {
    Csv,
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
    pub fn read(&mut self, records: &mut Records) -> io::Result<bool> {
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

    /// Adds records until there are `count`, or no more.
    pub fn read_up_to(&mut self, count: usize) -> io::Result<Records> {
        let mut records = Records::default();
        while records.len() < count && self.read(&mut records)? {}
        Ok(records)
    }

    /// One line, or the lines of one row of CSV. Nothing is looked at twice but for the end of the line, and
    /// for quotes.
    fn read_one(&mut self, text: &mut Vec<u8>) -> io::Result<()> {
        let mut is_quoted = false;
        loop {
            let start = text.len();
            if self.file.read_until(b'\n', text)? == 0 {
                return Ok(());
            }
            if self.lines_read == 0 && text[start..].starts_with(BYTE_ORDER_MARK) {
                text.drain(start..start + BYTE_ORDER_MARK.len());
            }
            self.lines_read += 1;
            let line = &text[start..];
            if self.syntax == Syntax::Csv && (is_quoted || line.contains(&b'"')) {
                is_quoted = ends_quoted(line, is_quoted);
            }
            if !is_quoted {
                return Ok(());
            }
        }
    }

    fn is_blank(&self, byte: u8) -> bool {
        match self.syntax {
            // A row of one column may be spaces.
            Syntax::Csv => matches!(byte, b'\r' | b'\n'),
            Syntax::Jsonl => byte.is_ascii_whitespace(),
        }
    }
}

/// Whether a quoted cell goes on behind this line of CSV, which begins in one or not. Quotes count where a
/// cell begins; two of them inside a quoted cell are one.
fn ends_quoted(line: &[u8], begins_quoted: bool) -> bool {
    #[derive(PartialEq)]
    enum At {
        Start,
        Plain,
        Quoted,
        Quote,
    }
    let step = |at: At, &byte: &u8| match (at, byte) {
        (At::Start | At::Quote, b'"') => At::Quoted,
        (At::Quoted, b'"') => At::Quote,
        (At::Quoted, _) => At::Quoted,
        (_, b',') => At::Start,
        _ => At::Plain,
    };
    let begin = if begins_quoted { At::Quoted } else { At::Start };
    line.iter().fold(begin, step) == At::Quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str, syntax: Syntax) -> Vec<(u64, String)> {
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
        let text = "a,b\r\n\n1,\"x\ny \"\"z\"\",\n\",2\n3\",4\n\"\",\"5\"\n6,\"";
        let rows = [
            (1, "a,b\r\n"),
            (3, "1,\"x\ny \"\"z\"\",\n\",2\n"),
            (6, "3\",4\n"),
            (7, "\"\",\"5\"\n"),
            (8, "6,\""),
        ];
        assert_eq!(cut(text, Syntax::Csv), expected(&rows));
    }

    #[test]
    fn a_mark_before_the_text_is_none_of_it() {
        let text = "\u{feff}\"a\nb\",c\n\u{feff}1,2\n";
        let rows = [(1, "\"a\nb\",c\n"), (3, "\u{feff}1,2\n")];
        assert_eq!(cut(text, Syntax::Csv), expected(&rows));
        assert_eq!(cut("\u{feff}{}\n", Syntax::Jsonl), expected(&[(1, "{}\n")]));
        assert!(cut("\u{feff}", Syntax::Jsonl).is_empty());
    }

    #[test]
    fn quotes_do_not_join_json_lines() {
        let text = "{\"a\n \n\"}\n";
        assert_eq!(cut(text, Syntax::Jsonl), expected(&[(1, "{\"a\n"), (3, "\"}\n")]));
    }
}

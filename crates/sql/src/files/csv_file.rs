//! A CSV file as rows of a query: its header names the columns, and all of its values decide their types.
//!
//! A column holds whole numbers, floats, booleans, dates, times or else text. A time with an offset is a moment: if all
//! of a column have one, its type has the zone UTC; if only some have, or one is a leap second, the column is text. An empty
//! cell is null.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_csv::reader::{Format, Reader};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use drillcore::Interrupt;

use crate::files::packing::Packing;
use crate::type_names::with_type_names;

/// Rows of a batch.
const BATCH_ROWS: usize = 8192;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// "2024-01-01T".
const TIME_AT: usize = 11;
/// A line, with the lines that a quoted value goes on in, is held in memory. So one quote too few must not make one of
/// the whole file.
const RECORD_BYTES_MAX: u64 = 64 << 20;
/// What to do about a quote that is not closed.
const CLOSE: &str = "add the closing quote, or double every quote that belongs to the text";

/// What was found out about a file.
#[derive(Debug, Clone)]
pub struct CsvFile {
    schema: SchemaRef,
    delimiter: u8,
}

impl CsvFile {
    /// Reads the file once to find the types, and once more if it has times.
    pub fn open(path: &str, delimiter: u8, interrupt: &Interrupt) -> Result<CsvFile, ArrowError> {
        let format = format(delimiter);
        let text = Checked::new(unpacked(path, interrupt)?, delimiter);
        let (guessed, _) = format.infer_schema(text, None)?;
        if guessed.fields().is_empty() {
            let message = "the file is empty; its first line must name the columns";
            return Err(ArrowError::CsvError(message.to_string()));
        }
        let schema = Arc::new(known(&guessed));
        let file = CsvFile { schema, delimiter };
        let is_time = |column: &usize| {
            matches!(file.schema.field(*column).data_type(), DataType::Timestamp(..))
        };
        let times: Vec<usize> = (0..file.schema.fields().len()).filter(is_time).collect();
        match times.is_empty() {
            true => Ok(file),
            false => file.with_moments(path, &times, interrupt),
        }
    }

    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// What Arrow says of a file, in words of ours that say what to do.
    pub fn reworded(said: &str) -> String {
        let said = said.split(". Row data: ").next().unwrap_or(said);
        let (said, number) = said.rsplit_once(" at line ").unwrap_or((said, ""));
        let number = number.split(|of: char| !of.is_ascii_digit()).next().unwrap_or_default();
        if said.starts_with("Encountered UTF-8 error") {
            return format!("line {number}: the text is not valid UTF-8; save the file as UTF-8");
        }
        let unfit = said.strip_prefix("Error while parsing value '");
        match unfit.and_then(|unfit| unfit.split_once("' as type '")) {
            Some((value, rest)) => {
                let stores = with_type_names(rest.split('\'').next().unwrap_or(rest));
                let a = if stores.starts_with('i') { "an" } else { "a" };
                // It counts rows, and the header as the one before the first.
                format!(
                    "row {number}: {value:?} is not {a} {stores}, unlike the other values of its column; correct it, or \
                     load the file into a table whose column is a string"
                )
            }
            None if number.is_empty() => said.to_string(),
            None => format!("{said} at line {number}"),
        }
    }

    /// Reads columns, by position in rising order.
    pub fn read(
        &self,
        path: &str,
        columns: &[usize],
        interrupt: &Interrupt,
    ) -> Result<Reader<Unpacked>, ArrowError> {
        self.reader(path, self.schema.clone(), columns, interrupt)
    }

    fn reader(
        &self,
        path: &str,
        schema: SchemaRef,
        columns: &[usize],
        interrupt: &Interrupt,
    ) -> Result<Reader<Unpacked>, ArrowError> {
        arrow_csv::ReaderBuilder::new(schema)
            .with_format(format(self.delimiter))
            .with_batch_size(BATCH_ROWS)
            .with_projection(columns.to_vec())
            .build(unpacked(path, interrupt)?)
    }

    /// The file with the types of its columns of times, by whether these have offsets.
    fn with_moments(
        self,
        path: &str,
        times: &[usize],
        interrupt: &Interrupt,
    ) -> Result<CsvFile, ArrowError> {
        let as_text = |field: &FieldRef| Field::new(field.name(), DataType::Utf8, true);
        let texts: Schema =
            Schema::new(self.schema.fields().iter().map(as_text).collect::<Vec<_>>());
        let mut found = vec![Times::default(); times.len()];
        for batch in self.reader(path, Arc::new(texts), times, interrupt)? {
            for (column, found) in batch?.columns().iter().zip(&mut found) {
                column.as_string::<i32>().iter().flatten().for_each(|text| found.take(text));
            }
        }
        let mut fields: Vec<FieldRef> = self.schema.fields().iter().cloned().collect();
        for (&column, found) in times.iter().zip(found) {
            let field = &fields[column];
            let data_type = found.data_type(field.data_type());
            fields[column] = Arc::new(Field::new(field.name(), data_type, true));
        }
        Ok(CsvFile { schema: Arc::new(Schema::new(fields)), ..self })
    }
}

fn format(delimiter: u8) -> Format {
    Format::default().with_header(true).with_delimiter(delimiter)
}

/// Columns without values are text.
fn known(guessed: &Schema) -> Schema {
    let field = |field: &FieldRef| match field.data_type() {
        DataType::Null => Field::new(field.name(), DataType::Utf8, true),
        other => Field::new(field.name(), other.clone(), true),
    };
    Schema::new(guessed.fields().iter().map(field).collect::<Vec<_>>())
}

/// What is in a column of texts that are read as times.
#[derive(Debug, Clone, Copy, Default)]
struct Times {
    has_moment: bool,
    has_clock_reading: bool,
    has_leap_second: bool,
}

impl Times {
    fn take(&mut self, text: &str) {
        let is_moment = has_offset(text);
        self.has_moment |= is_moment;
        self.has_clock_reading |= !is_moment;
        // No minute is 60, and no offset has seconds.
        self.has_leap_second |= text.contains(":60");
    }

    /// The type of the column, which was guessed without a zone.
    fn data_type(self, guessed: &DataType) -> DataType {
        match guessed {
            // A timestamp would be the second before, or after.
            _ if self.has_leap_second => DataType::Utf8,
            _ if self.has_moment && self.has_clock_reading => DataType::Utf8,
            DataType::Timestamp(unit, _) if self.has_moment => {
                DataType::Timestamp(*unit, Some("UTC".into()))
            }
            clock_reading => clock_reading.clone(),
        }
    }
}

/// Whether a text that is read as a time says how far from UTC it is.
fn has_offset(text: &str) -> bool {
    let is_of_time = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b':' | b'.');
    text.as_bytes().get(TIME_AT..).is_some_and(|rest| !rest.iter().all(is_of_time))
}

/// The text of a file, without a byte order mark, until an interrupt.
pub type Unpacked = Chain<Cursor<Vec<u8>>, Interrupted>;

/// A reader that ends with an error after an interrupt.
pub struct Interrupted {
    inner: Box<dyn Read + Send>,
    interrupt: Interrupt,
}

impl Read for Interrupted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.interrupt.check().map_err(io::Error::other)?;
        self.inner.read(buffer)
    }
}

/// A text whose records are of a bounded length and have as many values as the first, and whose quotes are all closed;
/// or else it ends with an error that names the line.
struct Checked<R> {
    inner: R,
    delimiter: u8,
    at: Place,
    /// Of the record under way.
    record_bytes: u64,
    /// The line under way, that in which its record begins, and that in which a quote opened last. The first of a file
    /// is 1.
    line: u64,
    record_line: u64,
    quote_line: u64,
    is_behind_return: bool,
    /// Values of the record under way, and of the first one once it has ended.
    values: u64,
    header_values: Option<u64>,
}

/// What a byte stands behind. A quote opens only at the beginning of a value, and two of them are one inside.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Start,
    Plain,
    Quoted,
    QuoteInQuoted,
}

impl<R> Checked<R> {
    fn new(inner: R, delimiter: u8) -> Checked<R> {
        Checked {
            inner,
            delimiter,
            at: Place::Start,
            record_bytes: 0,
            line: 1,
            record_line: 1,
            quote_line: 1,
            is_behind_return: false,
            values: 1,
            header_values: None,
        }
    }

    fn pass(&mut self, byte: u8) -> Result<(), String> {
        self.record_bytes += 1;
        // A line ends with a line feed, a carriage return, or both.
        let ends_line = byte == b'\r' || byte == b'\n' && !self.is_behind_return;
        self.is_behind_return = byte == b'\r';
        self.line += u64::from(ends_line);
        self.at = match (self.at, byte) {
            (Place::Quoted, b'"') => Place::QuoteInQuoted,
            (Place::Quoted, _) | (Place::QuoteInQuoted, b'"') => Place::Quoted,
            (Place::Start, b'"') => {
                self.quote_line = self.line;
                Place::Quoted
            }
            (_, b'\n' | b'\r') => {
                // A blank line is no record.
                if self.record_bytes > 1 {
                    self.end_record()?;
                }
                self.record_bytes = 0;
                self.record_line = self.line;
                Place::Start
            }
            (_, byte) if byte == self.delimiter => {
                self.values += 1;
                Place::Start
            }
            _ => Place::Plain,
        };
        match self.record_bytes > RECORD_BYTES_MAX {
            true => Err(self.too_long()),
            false => Ok(()),
        }
    }

    fn too_long(&self) -> String {
        match self.at {
            Place::Quoted => format!(
                "line {}: the quote that opens here is not closed within {RECORD_BYTES_MAX} bytes, the limit of a \
                 line; {CLOSE}",
                self.quote_line
            ),
            _ => format!(
                "line {}: the line has more than {RECORD_BYTES_MAX} bytes, the limit; check that the file is CSV",
                self.record_line
            ),
        }
    }

    fn end_record(&mut self) -> Result<(), String> {
        let values = std::mem::replace(&mut self.values, 1);
        let expected = *self.header_values.get_or_insert(values);
        match values == expected {
            true => Ok(()),
            false => Err(format!(
                "line {}: expected {expected} values, as many as the first line names, but found {values}; add or \
                 remove values, and put a value that contains the separator in quotes",
                self.record_line
            )),
        }
    }

    fn end(&mut self) -> Result<(), String> {
        match self.at {
            Place::Quoted => Err(format!(
                "line {}: the quote that opens here is not closed; {CLOSE}",
                self.quote_line
            )),
            _ if self.record_bytes > 0 => {
                self.record_bytes = 0;
                self.end_record()
            }
            _ => Ok(()),
        }
    }
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.inner.read(buffer)?;
        let checked = match len == 0 && !buffer.is_empty() {
            true => self.end(),
            false => buffer[..len].iter().try_for_each(|&byte| self.pass(byte)),
        };
        match checked {
            Ok(()) => Ok(len),
            Err(refusal) => Err(io::Error::new(io::ErrorKind::InvalidData, refusal)),
        }
    }
}

/// Opens a file; what its first bytes say is packed is unpacked.
fn unpacked(path: &str, interrupt: &Interrupt) -> io::Result<Unpacked> {
    let mut file = BufReader::new(File::open(path)?);
    let inner: Box<dyn Read + Send> = match Packing::of(file.fill_buf()?) {
        Packing::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(file)),
        Packing::Zstd => Box::new(zstd::Decoder::with_buffer(file)?),
        Packing::None => Box::new(file),
    };
    let mut text = Interrupted { inner, interrupt: interrupt.clone() };
    let mut start = Vec::new();
    (&mut text).take(BYTE_ORDER_MARK.len() as u64).read_to_end(&mut start)?;
    if start == BYTE_ORDER_MARK {
        start.clear();
    }
    Ok(Cursor::new(start).chain(text))
}

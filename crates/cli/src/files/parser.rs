//! Parsing records of text, with a reason for each that cannot be.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use drillcore::{OnError, type_name};
use drillcore_sql::with_type_names;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::files::batches::{BadRecord, lacks};
use crate::files::exact_text::{doubtful, hint, holds_from_file};
use crate::files::flat_json::{flat, may_change, names_of, two_values, value};
use crate::files::records::{Records, Syntax};
use crate::files::time_text::time_type;

/// Why a line is refused that is no text.
pub const NOT_UTF_8: &str = "the line is not valid UTF-8; save the file as UTF-8";
/// Characters of a value that a reason shows.
const SHOWN_CHARS: usize = 200;

/// What is made of records.
pub struct Parsed {
    pub rows: RecordBatch,
    /// The line of each row.
    pub lines: Vec<u64>,
    pub bad: Vec<BadRecord>,
}

/// Parses records as rows of a schema.
pub struct Parser {
    pub syntax: Syntax,
    pub schema: SchemaRef,
    /// Refuses values of columns that are not in the schema. For JSON lines only: CSV names them in its header.
    pub is_strict: bool,
    /// Columns that every row has, if only to say null. CSV, whose rows have all columns, names them in its header.
    pub spelled_out: Vec<String>,
    /// Types of columns that were asked for, where they can be. Of those of strings, JSON lines may have any value.
    pub given: Option<Vec<(String, DataType)>>,
}

impl Parser {
    /// Parses these records. All at once, as a rule; only if that fails are they halved until the bad ones stand
    /// alone. With `OnError::Raise` the first of them is the last that is looked for.
    pub fn parse(
        &self,
        records: &Records,
        range: Range<usize>,
        on_error: OnError,
    ) -> Result<Parsed, ArrowError> {
        let (good, lines, bad) = Default::default();
        let mut sieve = Sieve { parser: self, records, on_error, good, lines, bad };
        sieve.sift(range);
        let rows = match &sieve.good[..] {
            [rows] => rows.clone(),
            several => concat_batches(&self.schema, several)?,
        };
        Ok(Parsed { rows, lines: sieve.lines, bad: sieve.bad })
    }

    /// The rows of records, made flat.
    fn rows(&self, records: &Records, range: Range<usize>) -> Result<RecordBatch, ArrowError> {
        let text = records.text(range.clone());
        if self.syntax != Syntax::Jsonl || !may_change(text, &self.schema, self.given()) {
            return self.flat_rows(records, range);
        }
        let part = records.part(range);
        match flat(&part, Some(&self.schema), self.given()).map_err(ArrowError::ParseError)? {
            None => self.flat_rows(&part, 0..part.len()),
            Some(flat) => self.flat_rows(&flat, 0..flat.len()),
        }
    }

    fn given(&self) -> &[(String, DataType)] {
        self.given.as_deref().unwrap_or(&[])
    }

    fn flat_rows(&self, records: &Records, range: Range<usize>) -> Result<RecordBatch, ArrowError> {
        let count = range.len();
        let rows = match self.syntax {
            Syntax::Csv { separator } => {
                let text = records.text(range.clone());
                csv_rows(self.schema.clone(), None, separator, text, count)?
            }
            Syntax::Jsonl => self.jsonl_rows(records, range.clone())?,
        };
        match rows {
            Some(rows) if rows.num_rows() == count => {
                self.check_exact(records, range.clone())?;
                self.check_spelled_out(records, range)?;
                Ok(rows)
            }
            _ => Err(ArrowError::ParseError("this is not one record a line".to_string())),
        }
    }

    /// Refuses records of which parsing has dropped something.
    fn check_exact(&self, records: &Records, range: Range<usize>) -> Result<(), ArrowError> {
        let text = records.text(range.clone());
        let doubtful = doubtful(&self.schema, text, self.syntax);
        if doubtful.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = doubtful.iter().map(|field| field.name().as_str()).collect();
        let texts = texts(self.syntax, &self.schema, &names, text, range.len())?;
        let texts = texts.expect("it was parsed before");
        for (name, texts) in names.iter().zip(texts.columns()) {
            let stores = self.schema.field_with_name(name)?.data_type();
            let texts = texts.as_string::<i32>();
            if let Some(text) = texts.iter().flatten().find(|text| !holds_from_file(stores, text)) {
                let (hint, text) = (hint(stores, text), shortened(text));
                let stores = type_name(stores);
                let what =
                    format!("column {name:?} stores {stores}, which cannot hold {text:?}{hint}");
                return Err(ArrowError::ParseError(what));
            }
        }
        Ok(())
    }

    /// Refuses JSON lines of which what they lack would be taken for null.
    fn check_spelled_out(&self, records: &Records, range: Range<usize>) -> Result<(), ArrowError> {
        if self.spelled_out.is_empty() || self.syntax != Syntax::Jsonl {
            return Ok(());
        }
        for record in range {
            let text = records.text(record..record + 1);
            let found: HashMap<Cow<'_, str>, IgnoredAny> = serde_json::from_slice(text)
                .map_err(|error| ArrowError::JsonError(error.to_string()))?;
            if let Some(lacking) = lacks(&self.spelled_out, |name| found.contains_key(name)) {
                return Err(ArrowError::ParseError(lacking));
            }
        }
        Ok(())
    }

    /// One object per line. The decoder would take any number of them, and objects over several lines, but then
    /// no error could say which line a row is from. It would also take commas before brackets and numbers such as 01 and
    /// 1., so each line is looked at once more.
    fn jsonl_rows(
        &self,
        records: &Records,
        range: Range<usize>,
    ) -> Result<Option<RecordBatch>, ArrowError> {
        let mut decoder = arrow_json::ReaderBuilder::new(self.schema.clone())
            .with_strict_mode(self.is_strict)
            // One more, so that too many are noticed.
            .with_batch_size(range.len() + 1)
            .build_decoder()?;
        for (before, record) in range.enumerate() {
            let text = records.text(record..record + 1);
            decoder.decode(text)?;
            let what = match decoder.len() {
                _ if decoder.has_partial_record() => "the object continues on the next line",
                rows if rows > before + 1 => "the line has more than one object",
                _ => {
                    check_json(text)?;
                    continue;
                }
            };
            let what = format!("{what}; write one JSON object per line");
            return Err(ArrowError::ParseError(what));
        }
        decoder.flush()
    }

    /// Why a record cannot be parsed.
    fn reason(&self, record: &[u8], error: ArrowError) -> String {
        if std::str::from_utf8(record).is_err() {
            return NOT_UTF_8.to_string();
        }
        let bad_cell = match self.syntax {
            Syntax::Csv { separator } => self.bad_cell(record, separator),
            Syntax::Jsonl => self.bad_value(record),
        };
        bad_cell.unwrap_or_else(|| match error {
            // Each record is parsed alone, so it is not this line.
            ArrowError::CsvError(what) => what.replace(" for line 1,", ","),
            ArrowError::JsonError(what) | ArrowError::ParseError(what) => {
                shortened(&with_type_names(&what))
            }
            other => other.to_string(),
        })
    }

    /// The first value of a JSON line that does not fit its column, and what to do about it.
    fn bad_value(&self, record: &[u8]) -> Option<String> {
        serde_json::from_slice::<IgnoredAny>(record).ok()?;
        let mut line = Records::default();
        line.push(record, 1);
        let line = flat(&line, Some(&self.schema), self.given()).ok()?.unwrap_or(line);
        let text = line.text(0..1);
        if is_unreadable(text) {
            return None;
        }
        let does_not_fit = |field: &&FieldRef| {
            let column = Arc::new(Schema::new(vec![FieldRef::clone(field)]));
            let decoder = arrow_json::ReaderBuilder::new(column).with_batch_size(1).build_decoder();
            let decoded = decoder.and_then(|mut decoder| {
                decoder.decode(text)?;
                decoder.flush()
            });
            decoded.is_err()
        };
        let field = self.schema.fields().iter().find(does_not_fit)?;
        let (name, stores) = (field.name(), type_name(field.data_type()));
        let found = shortened(value(text, name)?);
        let local = no_local_time(field.data_type(), found.trim_matches('"'));
        let hint = local.unwrap_or_else(|| self.as_text(name, field.data_type()));
        Some(format!("column {name:?} stores {stores}, which cannot hold {found}{hint}"))
    }

    /// How to store a value that does not fit its column.
    fn as_text(&self, column: &str, stores: &DataType) -> String {
        match (&self.given, stores) {
            (None, _) => String::new(),
            (Some(_), DataType::Utf8) => {
                format!("; use --type {column}=string to store it as text")
            }
            (Some(_), _) => format!(
                "; correct it, or store the column as text in a new table, with --type {column}=string"
            ),
        }
    }

    /// The first cell of a row of CSV that does not fit its column.
    fn bad_cell(&self, record: &[u8], separator: u8) -> Option<String> {
        let fields = self.schema.fields();
        let cells = csv_rows(as_texts(&self.schema), None, separator, record, 1).ok()??;
        let does_not_fit = |&column: &usize| {
            csv_rows(self.schema.clone(), Some(vec![column]), separator, record, 1).is_err()
        };
        let column = (0..fields.len()).find(does_not_fit)?;
        let cell = arrow_cast::display::array_value_to_string(cells.column(column), 0).ok()?;
        let (name, stores) = (fields[column].name(), type_name(fields[column].data_type()));
        let local = no_local_time(fields[column].data_type(), &cell);
        let hint = local.unwrap_or_else(|| self.as_text(name, fields[column].data_type()));
        let cell = shortened(&cell);
        Some(format!("column {name:?} stores {stores}, which cannot hold {cell:?}{hint}"))
    }
}

/// Refuses what the decoder takes although it is not JSON, and of two values of one name all but the last.
fn check_json(line: &[u8]) -> Result<(), ArrowError> {
    // Names are borrowed from the line, unless it has escapes in one.
    let twice = name_given_twice::<&str>(line).or_else(|_| name_given_twice::<String>(line));
    let twice = twice.map_err(|error| {
        let why = error.to_string().replace(" at line 1 column ", " at byte ");
        ArrowError::ParseError(format!("the line is not JSON: {why}"))
    })?;
    match twice {
        None => Ok(()),
        Some(name) => Err(ArrowError::ParseError(two_values(&name))),
    }
}

/// The first of the names in an object that comes a second time, by their order as texts.
fn name_given_twice<'de, N>(line: &'de [u8]) -> serde_json::Result<Option<String>>
where
    N: Deserialize<'de> + Ord + AsRef<str>,
{
    let mut names = names_of::<N>(line)?;
    names.sort_unstable();
    let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
    Ok(twice.map(|pair| pair[0].as_ref().to_string()))
}

/// Whether no column can be read from a line, whatever its type.
fn is_unreadable(line: &[u8]) -> bool {
    let no_columns = arrow_json::ReaderBuilder::new(Arc::new(Schema::empty()));
    let decoder = no_columns.with_batch_size(1).build_decoder();
    decoder.and_then(|mut decoder| decoder.decode(line)).is_err()
}

/// Why a text that is the reading of a clock may not fit a column of times with a zone, and what to do about it.
fn no_local_time(stores: &DataType, text: &str) -> Option<String> {
    let DataType::Timestamp(_, Some(zone)) = stores else { return None };
    let is_reading = matches!(time_type([text]), Some(DataType::Timestamp(_, None)));
    is_reading.then(|| {
        format!(": clocks in {zone} show this time twice or never; add the offset, such as +01:00")
    })
}

/// The values of some columns as text, numbers as they are written.
pub fn texts(
    syntax: Syntax,
    schema: &Schema,
    names: &[&str],
    text: &[u8],
    count: usize,
) -> Result<Option<RecordBatch>, ArrowError> {
    match syntax {
        Syntax::Csv { separator } => {
            let columns = names.iter().map(|name| schema.index_of(name));
            let columns = Some(columns.collect::<Result<_, _>>()?);
            csv_rows(as_texts(schema), columns, separator, text, count)
        }
        Syntax::Jsonl => {
            let field = |name: &&str| Field::new(*name, DataType::Utf8, true);
            let texts = Arc::new(Schema::new(names.iter().map(field).collect::<Vec<_>>()));
            let decoder = arrow_json::ReaderBuilder::new(texts).with_coerce_primitive(true);
            let mut decoder = decoder.with_batch_size(count).build_decoder()?;
            decoder.decode(text)?;
            decoder.flush()
        }
    }
}

/// The same columns, as text.
fn as_texts(schema: &Schema) -> SchemaRef {
    let text = |field: &FieldRef| Field::new(field.name(), DataType::Utf8, true);
    Arc::new(Schema::new(schema.fields().iter().map(text).collect::<Vec<_>>()))
}

/// Rows of CSV without a header, some columns of them or all.
fn csv_rows(
    schema: SchemaRef,
    columns: Option<Vec<usize>>,
    separator: u8,
    mut text: &[u8],
    count: usize,
) -> Result<Option<RecordBatch>, ArrowError> {
    let builder = arrow_csv::ReaderBuilder::new(schema).with_batch_size(count + 1);
    let builder = builder.with_delimiter(separator);
    let mut decoder = match columns {
        None => builder.build_decoder(),
        Some(columns) => builder.with_projection(columns).build_decoder(),
    };
    // Nothing is decoded of too many records, and of no text, which ends a record that lacks its line's end.
    loop {
        match decoder.decode(text)? {
            0 => return decoder.flush(),
            len => text = &text[len..],
        }
    }
}

/// A value as a reason shows it.
pub fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        None => text.to_string(),
        Some((len, _)) => format!("{}...", &text[..len]),
    }
}

/// What came through and what did not.
struct Sieve<'a> {
    parser: &'a Parser,
    records: &'a Records,
    on_error: OnError,
    good: Vec<RecordBatch>,
    lines: Vec<u64>,
    bad: Vec<BadRecord>,
}

impl Sieve<'_> {
    fn sift(&mut self, range: Range<usize>) {
        let text = self.records.text(range.clone());
        let lines = self.records.lines(range.clone());
        match self.parser.rows(self.records, range.clone()) {
            Ok(rows) => {
                self.good.push(rows);
                self.lines.extend(lines);
            }
            Err(error) if range.len() == 1 => {
                let reason = self.parser.reason(text, error);
                self.bad.push(BadRecord { line: lines[0], reason });
            }
            Err(_) => {
                let middle = range.start + range.len() / 2;
                self.sift(range.start..middle);
                if self.on_error == OnError::Skip || self.bad.is_empty() {
                    self.sift(middle..range.end);
                }
            }
        }
    }
}

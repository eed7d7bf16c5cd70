//! Reading files of several formats, packed or not, as batches.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_json::reader::infer_json_schema;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use drillcore::{Error, Interrupt, OnError};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::arguments::Format;
use crate::fault::Fault;
use crate::parser::{BadRecord, Parsed, Parser};
use crate::records::{RecordReader, Records, Syntax};
use crate::source::{self, Packing};

/// Bytes of a text that its columns' types are guessed from, and its first record.
const SAMPLE_BYTES: usize = 4 << 20;
/// Rows of it.
const SAMPLE_ROWS: usize = 10_000;

/// The batches of one file.
pub type Batches = Box<dyn Iterator<Item = Result<Batch, Fault>> + Send>;

/// A file ready to be read.
pub struct Input {
    pub schema: SchemaRef,
    pub batches: Batches,
}

/// Rows of a file, and what stood between them that is none.
pub struct Batch {
    pub rows: RecordBatch,
    pub places: Places,
    /// With `OnError::Skip`: what was left out.
    pub bad: Vec<BadRecord>,
}

/// Where the rows of a batch stand in their file.
pub enum Places {
    /// Behind this many others.
    Rows { before: u64 },
    /// In these lines.
    Lines(Vec<u64>),
}

impl Places {
    /// The place of one row, as people count.
    pub fn of(&self, row: u64) -> String {
        match self {
            Places::Rows { before } => format!("row {}", before + row + 1),
            Places::Lines(lines) => format!("line {}", lines[row as usize]),
        }
    }
}

/// How to read.
pub struct Reading<'a> {
    /// By default the file's name tells.
    pub format: Option<Format>,
    pub batch_rows: usize,
    /// What to do with text that cannot be parsed.
    pub on_error: OnError,
    /// Ends a wait for a pipe.
    pub interrupt: &'a Interrupt,
}

/// The columns that whoever reads a file takes.
pub struct Taken {
    /// Text is parsed into their types.
    pub columns: SchemaRef,
    /// Other columns of the file are left out, and all of these must be in it. Otherwise the others are
    /// handed on, and missing ones are missing.
    pub skips_others: bool,
}

/// Opens a file, or standard input for `-`.
pub fn open(name: &str, taken: Option<&Taken>, reading: &Reading<'_>) -> Result<Input, Fault> {
    let interrupt = reading.interrupt.clone();
    let or_interrupted = move |fault| match interrupt.check() {
        Ok(()) => fault,
        Err(_) => Fault::interrupted(),
    };
    let input = open_whole(name, taken, reading).map_err(&or_interrupted)?;
    let batches = input.batches.map(move |batch| batch.map_err(&or_interrupted));
    let input = Input { batches: Box::new(batches), ..input };
    match taken {
        Some(taken) if taken.skips_others => {
            narrowed(input, &taken.columns).map_err(|fault| fault.at(name))
        }
        _ => Ok(input),
    }
}

/// The file with the columns taken only.
fn narrowed(input: Input, taken: &Schema) -> Result<Input, Fault> {
    let names = || input.schema.fields().iter().map(|field| field.name().as_str());
    let index = |field: &FieldRef| {
        let index = input.schema.index_of(field.name());
        index.map_err(|_| Error::unknown("column", field.name(), names()))
    };
    let indexes = taken.fields().iter().map(index).collect::<Result<Vec<usize>, _>>()?;
    let project = |schema: &Schema| schema.project(&indexes).expect("they are columns of the file");
    let schema = Arc::new(project(&input.schema));
    let batches = input.batches.map(move |batch| {
        let batch = batch?;
        let rows = batch.rows.project(&indexes).expect("they are columns of the file");
        Ok(Batch { rows, ..batch })
    });
    Ok(Input { schema, batches: Box::new(batches) })
}

fn open_whole(name: &str, taken: Option<&Taken>, reading: &Reading<'_>) -> Result<Input, Fault> {
    let (stem, packing) = packing(name);
    let format = match reading.format.or_else(|| format_of(stem)) {
        Some(format) => format,
        None if name == "-" => Format::Csv,
        None => {
            return Err(Fault::wrong_call(format!(
                "cannot tell the format of {name} by its name; give --format"
            )));
        }
    };
    if format == Format::Parquet && packing == Packing::None && !source::is_read_once(name) {
        let file = File::open(name).map_err(|error| unusable(name, &error))?;
        return columnar(name, parquet(file, reading.batch_rows));
    }
    let file =
        source::open(name, packing, reading.interrupt).map_err(|error| unusable(name, &error))?;
    match format {
        Format::Csv => Text::new(name, file, Syntax::Csv, reading).csv(taken),
        Format::Jsonl => Text::new(name, file, Syntax::Jsonl, reading).jsonl(taken),
        Format::Parquet => {
            columnar(name, unnamed(file).and_then(|file| parquet(file, reading.batch_rows)))
        }
        Format::Arrow => columnar(name, arrow(file)),
    }
}

fn unusable(name: &str, error: &dyn Display) -> Fault {
    Fault::unusable(format!("cannot read {name}: {error}"))
}

fn packing(name: &str) -> (&str, Packing) {
    if let Some(stem) = name.strip_suffix(".gz") {
        return (stem, Packing::Gzip);
    }
    match name.strip_suffix(".zst") {
        Some(stem) => (stem, Packing::Zstd),
        None => (name, Packing::None),
    }
}

fn format_of(stem: &str) -> Option<Format> {
    let extension = stem.rsplit_once('.')?.1.to_ascii_lowercase();
    match extension.as_str() {
        "csv" => Some(Format::Csv),
        "jsonl" | "ndjson" | "json" => Some(Format::Jsonl),
        "parquet" => Some(Format::Parquet),
        "arrow" | "arrows" | "feather" | "ipc" => Some(Format::Arrow),
        _ => None,
    }
}

/// A file of text.
struct Text<'a> {
    name: &'a str,
    reader: RecordReader<Unpacked>,
    reading: &'a Reading<'a>,
    syntax: Syntax,
}

type Unpacked = BufReader<Box<dyn Read + Send>>;

impl<'a> Text<'a> {
    fn new(
        name: &'a str,
        file: Box<dyn Read + Send>,
        syntax: Syntax,
        reading: &'a Reading<'a>,
    ) -> Text<'a> {
        let reader = RecordReader::new(BufReader::new(file), syntax);
        Text { name, reader, reading, syntax }
    }

    fn csv(mut self, taken: Option<&Taken>) -> Result<Input, Fault> {
        let header = self.records(1)?;
        let names = header.text(0..header.len());
        if names.trim_ascii_end().contains(&b'\r') {
            let what = "the header goes on behind a carriage return; lines end in line feeds";
            return Err(Fault::wrong_call(what).at(self.name));
        }
        let head = self.head()?;
        // Rows that do not parse, and what is no UTF-8, are for the parser to tell.
        let format =
            arrow_csv::reader::Format::default().with_header(true).with_truncated_rows(true);
        let text = [names, head.text(0..head.len())].concat();
        let text = String::from_utf8_lossy(&text);
        let guessed = format.infer_schema(text.as_bytes(), Some(SAMPLE_ROWS));
        let (guessed, _) = guessed.map_err(|error| self.malformed(&error))?;
        self.check_guess(&head, taken)?;
        let schema = csv_columns(texts_for_nulls(&guessed), taken);
        check_readable(&schema).map_err(|error| self.malformed(&error))?;
        Ok(self.input(head, schema, true))
    }

    fn jsonl(mut self, taken: Option<&Taken>) -> Result<Input, Fault> {
        let head = self.head()?;
        self.check_guess(&head, taken)?;
        let schema = match taken {
            None => Arc::new(self.guessed(&head)?),
            // What cannot be guessed may still fit the columns that are known.
            Some(taken) => jsonl_columns(self.guessed(&head).ok(), taken),
        };
        // A column that first comes behind the sample is not dropped silently.
        let is_strict = !taken.is_some_and(|taken| taken.skips_others);
        Ok(self.input(head, schema, is_strict))
    }

    /// The columns of JSON lines, of those that are JSON where the others are to be left out.
    fn guessed(&self, head: &Records) -> Result<Schema, Fault> {
        let guess = |text: &[u8]| {
            let text = String::from_utf8_lossy(text);
            let guessed = infer_json_schema(text.as_bytes(), Some(SAMPLE_ROWS));
            guessed.map(|(guessed, _)| texts_for_nulls(&guessed))
        };
        let all = match guess(head.text(0..head.len())) {
            Ok(guessed) => return Ok(guessed),
            Err(error) => error,
        };
        let mut good = Vec::new();
        for record in 0..head.len() {
            let text = head.text(record..record + 1);
            match guess(text) {
                Ok(_) => good.extend_from_slice(text),
                Err(_) if self.reading.on_error == OnError::Skip => {}
                Err(error) => {
                    let line = head.lines(record..record + 1)[0];
                    // It was looked at alone, so "line 1" is not what a reader wants.
                    let reason = error.to_string().replace(" at line 1 column", " at column");
                    let reason = format!("{reason}; JSON lines hold one object a line");
                    return Err(bad_line(self.name, line, &reason));
                }
            }
        }
        guess(&good).map_err(|_| self.malformed(&all))
    }

    /// What types are guessed from.
    fn head(&mut self) -> Result<Records, Fault> {
        let mut head = Records::default();
        let is_enough = |head: &Records| {
            head.len() >= SAMPLE_ROWS || !head.is_empty() && head.byte_len() >= SAMPLE_BYTES
        };
        let mut read = Ok(true);
        while !is_enough(&head) && matches!(read, Ok(true)) {
            read = self.reader.read(&mut head);
        }
        read.map(|_| head).map_err(|error| unusable(self.name, &error))
    }

    /// Refuses to guess the types of columns from nothing.
    fn check_guess(&self, head: &Records, taken: Option<&Taken>) -> Result<(), Fault> {
        if taken.is_some() || !head.is_empty() {
            return Ok(());
        }
        let what = "it has no rows, from which the columns of a new table are guessed";
        Err(Fault::wrong_call(what).at(self.name))
    }

    fn records(&mut self, count: usize) -> Result<Records, Fault> {
        self.reader.read_up_to(count).map_err(|error| unusable(self.name, &error))
    }

    fn input(self, head: Records, schema: SchemaRef, is_strict: bool) -> Input {
        let batches = TextBatches {
            name: self.name.to_string(),
            parser: Parser { syntax: self.syntax, schema: schema.clone(), is_strict },
            batch_rows: self.reading.batch_rows,
            on_error: self.reading.on_error,
            records: head,
            parsed_count: 0,
            reader: self.reader,
        };
        Input { schema, batches: Box::new(batches) }
    }

    fn malformed(&self, error: &ArrowError) -> Fault {
        Fault::wrong_call(format!("{}: {error}", self.name))
    }
}

fn bad_line(name: &str, line: u64, reason: &str) -> Fault {
    Fault::wrong_call(format!("{name}, line {line}: {reason}"))
}

/// The batches of a text: first those of the beginning that was read already.
struct TextBatches {
    name: String,
    parser: Parser,
    batch_rows: usize,
    on_error: OnError,
    /// Those read last.
    records: Records,
    parsed_count: usize,
    reader: RecordReader<Unpacked>,
}

impl TextBatches {
    fn batch(&mut self) -> Result<Option<Batch>, Fault> {
        if self.parsed_count == self.records.len() {
            let read = self.reader.read_up_to(self.batch_rows);
            self.records = read.map_err(|error| unusable(&self.name, &error))?;
            self.parsed_count = 0;
        }
        let range = self.parsed_count..self.records.len().min(self.parsed_count + self.batch_rows);
        if range.is_empty() {
            return Ok(None);
        }
        self.parsed_count = range.end;
        let parsed = self.parser.parse(&self.records, range, self.on_error);
        let Parsed { rows, lines, bad } = parsed.map_err(|error| unusable(&self.name, &error))?;
        match bad.first() {
            Some(first) if self.on_error == OnError::Raise => {
                Err(bad_line(&self.name, first.line, &first.reason))
            }
            _ => Ok(Some(Batch { rows, places: Places::Lines(lines), bad })),
        }
    }
}

impl Iterator for TextBatches {
    type Item = Result<Batch, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batch().transpose()
    }
}

/// Refuses columns whose values CSV has no text for.
fn check_readable(schema: &Schema) -> Result<(), ArrowError> {
    let has_no_text =
        |data_type: &DataType| data_type.is_nested() || *data_type == DataType::Binary;
    match schema.fields().iter().find(|field| has_no_text(field.data_type())) {
        None => Ok(()),
        Some(field) => Err(ArrowError::CsvError(format!(
            "column {:?} stores {}, which CSV cannot hold; use JSON lines, Parquet or Arrow",
            field.name(),
            field.data_type()
        ))),
    }
}

/// Columns of which the beginning has no value are guessed to hold text.
fn texts_for_nulls(guessed: &Schema) -> Schema {
    let text = |data_type: &DataType| match data_type {
        DataType::Null => DataType::Utf8,
        DataType::List(item) if item.data_type().is_null() => {
            DataType::new_list(DataType::Utf8, true)
        }
        other => other.clone(),
    };
    let field = |field: &FieldRef| Field::new(field.name(), text(field.data_type()), true);
    Schema::new(guessed.fields().iter().map(field).collect::<Vec<_>>())
}

/// The columns of the header in the types of those taken. Columns to be skipped are text, which always fits.
fn csv_columns(guessed: Schema, taken: Option<&Taken>) -> SchemaRef {
    let Some(taken) = taken else { return Arc::new(guessed) };
    let field = |field: &FieldRef| {
        let data_type = match taken.columns.field_with_name(field.name()) {
            Ok(known) => known.data_type().clone(),
            Err(_) if taken.skips_others => DataType::Utf8,
            Err(_) => field.data_type().clone(),
        };
        Field::new(field.name(), data_type, true)
    };
    Arc::new(Schema::new(guessed.fields().iter().map(field).collect::<Vec<_>>()))
}

/// The columns taken, all of which a row may lack, and those that the beginning of the file has besides.
fn jsonl_columns(guessed: Option<Schema>, taken: &Taken) -> SchemaRef {
    let known = taken.columns.fields();
    let mut fields: Vec<Field> = known
        .iter()
        .map(|field| Field::new(field.name(), field.data_type().clone(), true))
        .collect();
    if let (false, Some(guessed)) = (taken.skips_others, guessed) {
        let others = guessed.fields().iter().filter(|field| known.find(field.name()).is_none());
        fields.extend(others.map(|field| field.as_ref().clone()));
    }
    Arc::new(Schema::new(fields))
}

/// Batches in columns. What cannot be read of them is damage.
fn columnar(
    name: &str,
    opened: Result<(SchemaRef, ArrowBatches), ArrowError>,
) -> Result<Input, Fault> {
    let (schema, batches) = opened.map_err(|error| unusable(name, &error))?;
    let name = name.to_string();
    let mut before = 0;
    let batches = batches.map(move |rows| {
        let rows = rows.map_err(|error| {
            Fault::unusable(format!("cannot read {name}, after row {before}: {error}"))
        })?;
        let places = Places::Rows { before };
        before += rows.num_rows() as u64;
        Ok(Batch { rows, places, bad: Vec::new() })
    });
    Ok(Input { schema, batches: Box::new(batches) })
}

type ArrowBatches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

fn parquet(file: File, batch_rows: usize) -> Result<(SchemaRef, ArrowBatches), ArrowError> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(file)?.with_batch_size(batch_rows);
    Ok((builder.schema().clone(), Box::new(builder.build()?)))
}

/// The reader of Parquet wants to seek, so what cannot be sought is kept in a file without a name.
fn unnamed(mut source: Box<dyn Read + Send>) -> Result<File, ArrowError> {
    let mut file = tempfile::tempfile()?;
    io::copy(&mut source, &mut file)?;
    file.rewind()?;
    Ok(file)
}

/// An Arrow IPC file begins with a magic word, a stream does not.
fn arrow(plain: Box<dyn Read + Send>) -> Result<(SchemaRef, ArrowBatches), ArrowError> {
    let mut buffered = BufReader::new(plain);
    if buffered.fill_buf()?.starts_with(b"ARROW1") {
        let mut bytes = Vec::new();
        buffered.read_to_end(&mut bytes)?;
        let reader = FileReader::try_new(Cursor::new(bytes), None)?;
        return Ok((reader.schema(), Box::new(reader)));
    }
    let reader = StreamReader::try_new(buffered, None)?;
    Ok((reader.schema(), Box::new(reader)))
}

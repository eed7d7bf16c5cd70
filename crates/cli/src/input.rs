//! Reading files of several formats, packed or not, as batches.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use drillcore::Error;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::arguments::Format;
use crate::fault::Fault;

/// Bytes of a text that its columns' types are guessed from.
const SAMPLE_BYTES: usize = 4 << 20;
/// Rows of it.
const SAMPLE_ROWS: usize = 10_000;

/// The batches of one file.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

/// A file ready to be read.
pub struct Input {
    pub schema: SchemaRef,
    pub batches: Batches,
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
pub fn open(
    name: &str,
    format: Option<Format>,
    taken: Option<&Taken>,
    batch_rows: usize,
) -> Result<Input, Fault> {
    let input = open_whole(name, format, taken, batch_rows)?;
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
    let batches = input.batches.map(move |batch| batch?.project(&indexes));
    Ok(Input { schema, batches: Box::new(batches) })
}

fn open_whole(
    name: &str,
    format: Option<Format>,
    taken: Option<&Taken>,
    batch_rows: usize,
) -> Result<Input, Fault> {
    let cannot =
        |error: &dyn std::fmt::Display| Fault::unusable(format!("cannot read {name}: {error}"));
    let (stem, unpack) = packing(name);
    let format = match format.or_else(|| format_of(stem)) {
        Some(format) => format,
        None if name == "-" => Format::Csv,
        None => {
            return Err(Fault::wrong_call(format!(
                "cannot tell the format of {name} by its name; give --format"
            )));
        }
    };
    if format == Format::Parquet && unpack == Packing::None && name != "-" {
        let file = File::open(name).map_err(|error| cannot(&error))?;
        return parquet(file, batch_rows).map_err(|error| cannot(&error));
    }
    let raw: Box<dyn Read + Send> = match name {
        "-" => Box::new(io::stdin()),
        _ => Box::new(File::open(name).map_err(|error| cannot(&error))?),
    };
    let plain: Box<dyn Read + Send> = match unpack {
        Packing::None => raw,
        Packing::Gzip => Box::new(flate2::read::MultiGzDecoder::new(raw)),
        Packing::Zstd => Box::new(zstd::Decoder::new(raw).map_err(|error| cannot(&error))?),
    };
    match format {
        Format::Csv => csv(plain, taken, batch_rows).map_err(|error| cannot(&error)),
        Format::Jsonl => jsonl(plain, taken, batch_rows).map_err(|error| cannot(&error)),
        Format::Parquet => {
            let whole = read_whole(plain).map_err(|error| cannot(&error))?;
            let bytes = parquet_bytes(whole, batch_rows);
            bytes.map_err(|error| cannot(&error))
        }
        Format::Arrow => arrow(plain).map_err(|error| cannot(&error)),
    }
}

#[derive(PartialEq)]
enum Packing {
    None,
    Gzip,
    Zstd,
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

/// The beginning of a text, and all of it again.
fn peek(mut text: Box<dyn Read + Send>) -> io::Result<(Vec<u8>, impl Read + Send)> {
    let mut head = Vec::new();
    text.by_ref().take(SAMPLE_BYTES as u64).read_to_end(&mut head)?;
    let whole = Cursor::new(head.clone()).chain(text);
    if head.len() == SAMPLE_BYTES {
        // Types are not guessed from half a line.
        let lines = head.iter().rposition(|&byte| byte == b'\n').map_or(head.len(), |at| at + 1);
        head.truncate(lines);
    }
    Ok((head, whole))
}

fn csv(
    text: Box<dyn Read + Send>,
    taken: Option<&Taken>,
    batch_rows: usize,
) -> Result<Input, ArrowError> {
    let (head, whole) = peek(text)?;
    let format = arrow_csv::reader::Format::default().with_header(true);
    let (guessed, _) = format.infer_schema(Cursor::new(&head), Some(SAMPLE_ROWS))?;
    let schema = csv_columns(guessed, taken);
    check_readable(&schema)?;
    let reader = arrow_csv::ReaderBuilder::new(schema.clone())
        .with_format(format)
        .with_batch_size(batch_rows)
        .build_buffered(BufReader::new(whole))?;
    Ok(Input { schema, batches: Box::new(reader) })
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

fn jsonl(
    text: Box<dyn Read + Send>,
    taken: Option<&Taken>,
    batch_rows: usize,
) -> Result<Input, ArrowError> {
    let (head, whole) = peek(text)?;
    let guessed = arrow_json::reader::infer_json_schema(Cursor::new(&head), Some(SAMPLE_ROWS));
    let schema = match taken {
        None => Arc::new(guessed?.0),
        // What cannot be guessed may still fit the columns that are known.
        Some(taken) => jsonl_columns(guessed.ok().map(|(guessed, _)| guessed), taken),
    };
    let skips_others = taken.is_some_and(|taken| taken.skips_others);
    let reader = arrow_json::ReaderBuilder::new(schema.clone())
        // A column that first comes behind the sample is not dropped silently.
        .with_strict_mode(!skips_others)
        .with_batch_size(batch_rows)
        .build(BufReader::new(whole))?;
    Ok(Input { schema, batches: Box::new(reader) })
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

fn parquet(file: File, batch_rows: usize) -> Result<Input, ArrowError> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(file)?.with_batch_size(batch_rows);
    let schema = builder.schema().clone();
    Ok(Input { schema, batches: Box::new(builder.build()?) })
}

fn parquet_bytes(bytes: Vec<u8>, batch_rows: usize) -> Result<Input, ArrowError> {
    // The reader wants to seek, so what cannot be sought is kept in a file without a name.
    let mut file = tempfile_of(bytes)?;
    file.rewind()?;
    parquet(file, batch_rows)
}

fn tempfile_of(bytes: Vec<u8>) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    io::Write::write_all(&mut file, &bytes)?;
    Ok(file)
}

fn read_whole(mut plain: Box<dyn Read + Send>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    plain.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// An Arrow IPC file begins with a magic word, a stream does not.
fn arrow(plain: Box<dyn Read + Send>) -> Result<Input, ArrowError> {
    let mut buffered = BufReader::new(plain);
    if buffered.fill_buf()?.starts_with(b"ARROW1") {
        let mut bytes = Vec::new();
        buffered.read_to_end(&mut bytes)?;
        let reader = FileReader::try_new(Cursor::new(bytes), None)?;
        return Ok(Input { schema: reader.schema(), batches: Box::new(reader) });
    }
    let reader = StreamReader::try_new(buffered, None)?;
    Ok(Input { schema: reader.schema(), batches: Box::new(reader) })
}

//! Reading files of several formats, packed or not, as batches.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek};

use arrow_array::RecordBatch;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
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

/// Opens a file, or standard input for `-`. With `schema`, text is parsed into its types.
pub fn open(
    name: &str,
    format: Option<Format>,
    schema: Option<SchemaRef>,
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
        Format::Csv => csv(plain, schema, batch_rows).map_err(|error| cannot(&error)),
        Format::Jsonl => jsonl(plain, schema, batch_rows).map_err(|error| cannot(&error)),
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
    schema: Option<SchemaRef>,
    batch_rows: usize,
) -> Result<Input, ArrowError> {
    let (head, whole) = peek(text)?;
    let format = arrow_csv::reader::Format::default().with_header(true);
    let (guessed, _) = format.infer_schema(Cursor::new(&head), Some(SAMPLE_ROWS))?;
    let schema = typed(guessed.into(), schema);
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
    schema: Option<SchemaRef>,
    batch_rows: usize,
) -> Result<Input, ArrowError> {
    let (head, whole) = peek(text)?;
    let (guessed, _) =
        arrow_json::reader::infer_json_schema(Cursor::new(&head), Some(SAMPLE_ROWS))?;
    let schema = typed(guessed.into(), schema);
    let reader = arrow_json::ReaderBuilder::new(schema.clone())
        .with_batch_size(batch_rows)
        .build(BufReader::new(whole))?;
    Ok(Input { schema, batches: Box::new(reader) })
}

/// The file's columns in the types of the table's, where the table has them.
fn typed(found: SchemaRef, table: Option<SchemaRef>) -> SchemaRef {
    let Some(table) = table else { return found };
    let field = |field: &std::sync::Arc<arrow_schema::Field>| {
        let of_table = table.field_with_name(field.name()).ok();
        let data_type = of_table.map_or(field.data_type(), |of_table| of_table.data_type());
        arrow_schema::Field::new(field.name(), data_type.clone(), true)
    };
    let fields: Vec<_> = found.fields().iter().map(field).collect();
    std::sync::Arc::new(Schema::new(fields))
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

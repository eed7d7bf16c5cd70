//! Reading files of several formats, packed or not, as batches.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, FieldRef, Schema, SchemaRef};
use drillcore::Error;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::arguments::Format;
use crate::arrow_file::ArrowFile;
use crate::batches::{Batch, Input, Places, Reading, Taken, lacks, unusable};
use crate::fault::Fault;
use crate::records::Syntax;
use crate::source::{self, Packing, Replay};
use crate::text_file::Text;

/// Bytes of one commit, about: batches with longer rows are cut into more of them.
const COMMIT_BYTES: usize = 16 << 20;
/// What is written to a temporary file at most.
const TEMPORARY_BYTES_MAX: u64 = 1 << 30;

/// Opens a file, or standard input for `-`.
pub fn open(name: &str, taken: Option<&Taken>, reading: &Reading<'_>) -> Result<Input, Fault> {
    open_again(name, taken, reading, None)
}

/// [`open`] for a file whose beginning is kept, if there is one.
pub fn open_again(
    name: &str,
    taken: Option<&Taken>,
    reading: &Reading<'_>,
    replay: Option<&Arc<Replay>>,
) -> Result<Input, Fault> {
    let interrupt = reading.interrupt.clone();
    let or_interrupted = move |fault| match interrupt.check() {
        Ok(()) => fault,
        Err(_) => Fault::interrupted(),
    };
    let input = open_whole(name, taken, reading, replay).map_err(&or_interrupted)?;
    let batches = input.batches.map(move |batch| batch.map_err(&or_interrupted));
    let input = Input { batches: Box::new(batches), ..input };
    let Some(taken) = taken else { return Ok(input) };
    let has = |column: &str| input.schema.column_with_name(column).is_some();
    if let Some(lacking) = lacks(&taken.spelled_out, has) {
        return Err(Fault::wrong_call(lacking).at(name));
    }
    if taken.skips_others {
        return narrowed(input, &taken.columns).map_err(|fault| fault.at(name));
    }
    Ok(input)
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

fn open_whole(
    name: &str,
    taken: Option<&Taken>,
    reading: &Reading<'_>,
    replay: Option<&Arc<Replay>>,
) -> Result<Input, Fault> {
    let (stem, packing) = packing(name);
    let format = match reading.format.or_else(|| format_of(stem)) {
        Some(format) => format,
        None if name == "-" => Format::Csv,
        None => {
            return Err(Fault::wrong_call(format!(
                "the name {name:?} does not show the format of the file; use --format"
            )));
        }
    };
    if format == Format::Parquet && packing == Packing::None && !source::is_read_once(name) {
        let file = File::open(name).map_err(|error| unusable(name, &error))?;
        return columnar(name, parquet(file, reading.batch_rows), reading.batch_rows);
    }
    let file = match replay {
        None => source::open(name, packing, reading.interrupt),
        Some(replay) => replay.read(packing),
    };
    let file = file.map_err(|error| unusable(name, &error))?;
    match format {
        Format::Csv => Text::new(name, file, Syntax::Csv, reading).csv(taken),
        Format::Jsonl => Text::new(name, file, Syntax::Jsonl, reading).jsonl(taken),
        Format::Parquet => {
            let file = unnamed(file).map_err(|error| unusable(name, &error))?.ok_or_else(|| {
                Fault::wrong_call(format!(
                    "{name} has more than {TEMPORARY_BYTES_MAX} bytes, the limit for compressed or piped Parquet; \
                     write it to an uncompressed file first"
                ))
            })?;
            columnar(name, parquet(file, reading.batch_rows), reading.batch_rows)
        }
        Format::Arrow => {
            let opened = ArrowFile::open(file);
            let opened = opened.map(|file| (file.schema(), Box::new(file) as ArrowBatches));
            columnar(name, opened, reading.batch_rows)
        }
    }
}

/// How a file is packed, by its name, and the name without that.
pub fn packing(name: &str) -> (&str, Packing) {
    if let Some(stem) = name.strip_suffix(".gz") {
        return (stem, Packing::Gzip);
    }
    match name.strip_suffix(".zst") {
        Some(stem) => (stem, Packing::Zstd),
        None => (name, Packing::None),
    }
}

/// The format that a name shows.
pub fn format_of(stem: &str) -> Option<Format> {
    let extension = stem.rsplit_once('.')?.1.to_ascii_lowercase();
    match extension.as_str() {
        "csv" => Some(Format::Csv),
        "jsonl" | "ndjson" | "json" => Some(Format::Jsonl),
        "parquet" => Some(Format::Parquet),
        "arrow" | "arrows" | "feather" | "ipc" => Some(Format::Arrow),
        _ => None,
    }
}

/// Batches in columns, cut to the rows of a commit. What cannot be read of them is damage.
fn columnar(
    name: &str,
    opened: Result<(SchemaRef, ArrowBatches), ArrowError>,
    batch_rows: usize,
) -> Result<Input, Fault> {
    let (schema, batches) = opened.map_err(|error| unusable(name, &error))?;
    let name = name.to_string();
    let mut read = 0;
    let cut = batches.flat_map(move |rows| match rows {
        Ok(rows) => cut(rows, batch_rows).map(Ok).collect::<Vec<_>>(),
        Err(error) => vec![Err(error)],
    });
    let batches = cut.map(move |rows| {
        let before = read;
        let rows = rows.map_err(|error| {
            Fault::unusable(format!("cannot read {name} after row {before}: {error}"))
        })?;
        read += rows.num_rows() as u64;
        Ok(Batch { rows, places: Places::Rows { before }, bad: Vec::new() })
    });
    Ok(Input { schema, batches: Box::new(batches) })
}

/// The rows in parts of at most `part_rows`, fewer where they are long. Copies none.
fn cut(rows: RecordBatch, part_rows: usize) -> impl Iterator<Item = RecordBatch> {
    let row_bytes = rows.get_array_memory_size() / rows.num_rows().max(1);
    let part_rows = part_rows.min(COMMIT_BYTES / row_bytes.max(1)).max(1);
    let first_rows = (0..rows.num_rows()).step_by(part_rows);
    first_rows.map(move |first| rows.slice(first, part_rows.min(rows.num_rows() - first)))
}

type ArrowBatches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

fn parquet(file: File, batch_rows: usize) -> Result<(SchemaRef, ArrowBatches), ArrowError> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(file)?.with_batch_size(batch_rows);
    Ok((builder.schema().clone(), Box::new(builder.build()?)))
}

/// The reader of Parquet wants to seek, so what cannot be sought is kept in a file without a name, unless there
/// is more of it than such a file may hold.
fn unnamed(source: Box<dyn Read + Send>) -> io::Result<Option<File>> {
    let mut file = tempfile::tempfile()?;
    let copied = io::copy(&mut source.take(TEMPORARY_BYTES_MAX + 1), &mut file)?;
    file.rewind()?;
    Ok((copied <= TEMPORARY_BYTES_MAX).then_some(file))
}

//! Reading files of several formats, packed or not, as batches.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, FieldRef, Schema};
use drillcore::Error;
use drillcore_sql::{Packing, parquet_metadata};
use indicatif::HumanBytes;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};

use crate::arguments::shared_options::Format;
use crate::files::arrow_file::ArrowFile;
use crate::files::batches::{
    Batch, Input, Part, Parts, Places, Reading, Taken, batch_bytes, lacks, unopened, unusable,
};
use crate::files::records::Syntax;
use crate::files::shared_file::SharedFile;
use crate::files::source::{self, Replay};
use crate::files::text_file::Text;
use crate::process::fault::Fault;

/// Bytes of one commit, about: batches with longer rows are cut into more of them.
const COMMIT_BYTES: usize = 16 << 20;
/// A larger row group of Parquet is decoded bit by bit by one thread, as several threads hold one each.
const PART_BYTES_MAX: u64 = 32 << 20;
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
    let parts = input.parts.map(move |part| part.map_err(&or_interrupted));
    let input = Input { parts: Box::new(parts), ..input };
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
    let indexes: Arc<[usize]> = indexes.into();
    let narrow = move |part: Part| {
        let indexes = indexes.clone();
        part.then(move |batches| {
            let narrow = |batch: Batch| {
                let rows = batch.rows.project(&indexes).expect("they are columns of the file");
                Batch { rows, ..batch }
            };
            Ok(batches?.into_iter().map(narrow).collect())
        })
    };
    let parts = input.parts.map(move |part| part.map(&narrow));
    Ok(Input { schema, parts: Box::new(parts) })
}

fn open_whole(
    name: &str,
    taken: Option<&Taken>,
    reading: &Reading<'_>,
    replay: Option<&Arc<Replay>>,
) -> Result<Input, Fault> {
    let (stem, _) = packing(name);
    let by_name = || if is_tsv(stem) { Some(Format::Csv) } else { format_of(stem) };
    let format = match reading.format.or_else(by_name) {
        Some(format) => format,
        None if name == "-" => Format::Csv,
        None => {
            return Err(Fault::wrong_call(format!(
                "the name {name:?} does not show the format of the file; use --format"
            )));
        }
    };
    if format == Format::Parquet && !source::is_read_once(name) {
        let cannot_read = |error: io::Error| unopened(name, &error);
        let mut file = File::open(name).map_err(cannot_read)?;
        if !source::is_packed(&mut file).map_err(cannot_read)? {
            return parquet(name, file, reading);
        }
    }
    let file = match replay {
        None => source::open(name, reading.interrupt),
        Some(replay) => replay.read(),
    };
    let file = file.map_err(|error| unopened(name, &error))?;
    if format != Format::Csv && reading.separator.is_some() {
        let what = "--separator is for CSV; leave it out";
        return Err(Fault::wrong_call(what).at(name));
    }
    match format {
        Format::Csv => {
            let separator = reading.separator.unwrap_or(if is_tsv(stem) { b'\t' } else { b',' });
            Text::new(name, file, Syntax::Csv { separator }, reading).csv(separator, taken)
        }
        Format::Jsonl => Text::new(name, file, Syntax::Jsonl, reading).jsonl(taken),
        Format::Parquet => {
            let file = unnamed(file).map_err(|error| unusable(name, &error))?.ok_or_else(|| {
                Fault::wrong_call(format!(
                    "{name} has more than {}, the limit for compressed or piped Parquet; write it to an uncompressed \
                     file first",
                    HumanBytes(TEMPORARY_BYTES_MAX)
                ))
            })?;
            parquet(name, file, reading)
        }
        Format::Arrow => arrow(name, file, reading),
    }
}

/// How a file is packed that is to be written, by its name, and the name without that.
pub fn packing(name: &str) -> (&str, Packing) {
    if let Some(stem) = name.strip_suffix(".gz") {
        return (stem, Packing::Gzip);
    }
    match name.strip_suffix(".zst") {
        Some(stem) => (stem, Packing::Zstd),
        None => (name, Packing::None),
    }
}

/// Whether a name shows that cells are separated by tabs.
fn is_tsv(stem: &str) -> bool {
    stem.to_ascii_lowercase().ends_with(".tsv")
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

/// Where rows in columns stand in their file, and how they are cut.
#[derive(Clone)]
struct Columnar {
    name: Arc<str>,
    batch_rows: usize,
    records_before: u64,
}

impl Columnar {
    fn new(name: &str, reading: &Reading<'_>) -> Columnar {
        let Reading { batch_rows, records_before, .. } = *reading;
        Columnar { name: Arc::from(name), batch_rows, records_before }
    }

    /// Rows that follow `before` others, cut to the rows of a commit, but for those that are passed over.
    fn batches(&self, rows: RecordBatch, before: u64) -> Vec<Batch> {
        let passed = self.records_before.saturating_sub(before).min(rows.num_rows() as u64);
        let rows = rows.slice(passed as usize, rows.num_rows() - passed as usize);
        let mut records_read = before + passed;
        let batch = |rows: RecordBatch| {
            let before = records_read;
            records_read += rows.num_rows() as u64;
            Batch { rows, places: Places::Rows { before }, bad: Vec::new(), records_read }
        };
        in_parts(rows, self.batch_rows).map(batch).collect()
    }

    /// What cannot be read is damage.
    fn damage(&self, error: &ArrowError, before: u64) -> Fault {
        Fault::unusable(format!("cannot read {} after row {before}: {error}", self.name))
    }
}

/// Each batch of the file is a part.
fn arrow(name: &str, file: Box<dyn Read + Send>, reading: &Reading<'_>) -> Result<Input, Fault> {
    let file = ArrowFile::open(file).map_err(|error| unusable(name, &error))?;
    let (schema, columnar) = (file.schema(), Columnar::new(name, reading));
    let mut read = 0;
    let parts = file.map(move |encoded| {
        let before = read;
        let encoded = encoded.map_err(|error| columnar.damage(&error, before))?;
        read += encoded.rows();
        let (columnar, is_passed) = (columnar.clone(), read <= columnar.records_before);
        Ok(Part::new(encoded.bytes(), move || match is_passed {
            true => Ok(Vec::new()),
            false => match encoded.decode() {
                Ok(rows) => Ok(columnar.batches(rows, before)),
                Err(error) => Err(columnar.damage(&error, before)),
            },
        }))
    });
    Ok(Input { schema, parts: Box::new(parts) })
}

/// A row group is a part, unless it is so large that it is decoded batch by batch.
fn parquet(name: &str, file: File, reading: &Reading<'_>) -> Result<Input, Fault> {
    let damaged = |error: &dyn std::fmt::Display| unusable(name, error);
    let file = SharedFile::new(file).map_err(|error| damaged(&error))?;
    let metadata = parquet_metadata(&file).map_err(|error| damaged(&error))?;
    let schema = metadata.schema().clone();
    let columnar = Columnar::new(name, reading);
    let mut read = 0;
    let mut groups = Vec::new();
    for (number, group) in metadata.metadata().row_groups().iter().enumerate() {
        // What is negative is damage, which reading it says.
        let rows = u64::try_from(group.num_rows()).unwrap_or(0);
        let bytes = u64::try_from(group.total_byte_size()).unwrap_or(u64::MAX);
        groups.push(RowGroup { number, before: read, rows, bytes });
        read += rows;
    }
    let parts = groups.into_iter().flat_map(move |group| {
        if group.before + group.rows <= columnar.records_before && group.rows > 0 {
            return Box::new(std::iter::empty()) as Parts;
        }
        let (file, metadata, columnar) = (file.clone(), metadata.clone(), columnar.clone());
        let decode = move || group.decode(file, metadata, columnar);
        match group.bytes <= PART_BYTES_MAX {
            true => Box::new(std::iter::once(Ok(Part::new(group.bytes, move || {
                let decoded = decode().collect::<Result<Vec<_>, _>>()?;
                Ok(decoded.into_iter().flatten().collect())
            })))),
            false => Box::new(decode().map(|batches| {
                let batches = batches?;
                let bytes = batches.iter().map(|batch| batch_bytes(&batch.rows) as u64);
                Ok(Part::new(bytes.sum(), move || Ok(batches)))
            })),
        }
    });
    Ok(Input { schema, parts: Box::new(parts) })
}

/// A row group of a Parquet file.
#[derive(Clone, Copy)]
struct RowGroup {
    number: usize,
    /// Rows of the groups before.
    before: u64,
    rows: u64,
    bytes: u64,
}

type Decoded = Box<dyn Iterator<Item = Result<Vec<Batch>, Fault>> + Send>;

impl RowGroup {
    fn decode(
        self,
        file: SharedFile,
        metadata: ArrowReaderMetadata,
        columnar: Columnar,
    ) -> Decoded {
        let mut before = self.before;
        let open = || {
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata);
            let builder = builder.with_row_groups(vec![self.number]);
            builder.with_batch_size(columnar.batch_rows).build().map_err(ArrowError::from)
        };
        match open() {
            Err(error) => Box::new(std::iter::once(Err(columnar.damage(&error, before)))),
            Ok(rows) => Box::new(rows.map(move |rows| {
                let first = before;
                let rows = rows.map_err(|error| columnar.damage(&error, first))?;
                before += rows.num_rows() as u64;
                Ok(columnar.batches(rows, first))
            })),
        }
    }
}

/// The rows in parts of at most `part_rows`, fewer where they are long. Copies none.
fn in_parts(rows: RecordBatch, part_rows: usize) -> impl Iterator<Item = RecordBatch> {
    let row_bytes = batch_bytes(&rows) / rows.num_rows().max(1);
    let part_rows = part_rows.min(COMMIT_BYTES / row_bytes.max(1)).max(1);
    let first_rows = (0..rows.num_rows()).step_by(part_rows);
    first_rows.map(move |first| rows.slice(first, part_rows.min(rows.num_rows() - first)))
}

/// The reader of Parquet wants to seek, so what cannot be sought is kept in a file without a name, unless there
/// is more of it than such a file may hold.
fn unnamed(source: Box<dyn Read + Send>) -> io::Result<Option<File>> {
    let mut file = tempfile::tempfile()?;
    let copied = io::copy(&mut source.take(TEMPORARY_BYTES_MAX + 1), &mut file)?;
    file.rewind()?;
    Ok((copied <= TEMPORARY_BYTES_MAX).then_some(file))
}

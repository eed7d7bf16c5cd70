//! A Parquet file, whose columns several threads encode.
//!
//! Memory holds the rows of one row group as they are collected, and those of the group before as it is encoded.

use std::collections::{HashSet, VecDeque};
use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use parking_lot::Mutex;
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use parquet::basic::{BrotliLevel, Compression, Encoding, GzipLevel, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;

/// The most rows of a row group, which readers skip or read as one.
const GROUP_ROWS_MAX: usize = 1 << 17;
/// A row group with longer rows ends at about this many bytes, as they are in memory.
const GROUP_BYTES_MAX: usize = 64 << 20;
/// A dictionary is of use if a value has this many rows on average.
const REPEATS_MIN: usize = 5;
/// Row groups that are encoded while the next one is collected.
const GROUPS_ENCODED_MAX: usize = 1;

/// Writes batches as row groups with statistics, in a file that a reader of Arrow data gets the same types from.
///
/// Parquet has no type for times in seconds, and none for dates in milliseconds: other programs would read numbers. The
/// file has times in milliseconds, and dates in days.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/doc/flights.rs"));
/// use drillcore::ScanRequest;
/// use drillcore_sql::{ParquetCompression, ParquetWriter};
///
/// let rows = flights.snapshot()?.scan(ScanRequest::default())?;
/// // Sorted by the first column, ascending; columns are encoded by two threads.
/// let schema = rows.schema();
/// let sorted = [(0, false)];
/// let mut file = ParquetWriter::new(Vec::new(), &schema, &sorted, ParquetCompression::Zstd, 2).unwrap();
/// for batch in rows {
///     file.write(&batch?).unwrap();
/// }
/// assert!(file.finish().unwrap().starts_with(b"PAR1"));
/// # drillcore::Result::Ok(())
/// ```
pub struct ParquetWriter<W: Write + Send> {
    file: Begun<W>,
    /// The columns as the file holds them.
    schema: SchemaRef,
    /// For each column, how many the file has for it: a struct has one for each of its fields.
    leaves: Vec<usize>,
    compression: Compression,
    sorted: Vec<SortingColumn>,
    collected: Vec<RecordBatch>,
    collected_rows: usize,
    collected_bytes: usize,
    encoded: VecDeque<EncodedGroup>,
    group_count: usize,
    encoders: Encoders,
}

/// How the pages of a file are compressed.
///
/// ```
/// use drillcore_sql::ParquetCompression;
///
/// assert_eq!(ParquetCompression::named("zstd"), Some(ParquetCompression::Zstd));
/// assert_eq!(ParquetCompression::named("zip"), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParquetCompression {
    /// Pages are not compressed.
    None,
    /// Snappy, which has no levels.
    Snappy,
    /// Gzip, at its default level.
    Gzip,
    /// LZ4, in raw blocks.
    Lz4,
    /// Brotli, at its default level.
    Brotli,
    /// Zstandard, at its default level.
    Zstd,
}

impl ParquetCompression {
    /// The compression of this name, in lower case.
    pub fn named(name: &str) -> Option<ParquetCompression> {
        Some(match name {
            "none" => ParquetCompression::None,
            "snappy" => ParquetCompression::Snappy,
            "gzip" => ParquetCompression::Gzip,
            "lz4" => ParquetCompression::Lz4,
            "brotli" => ParquetCompression::Brotli,
            "zstd" => ParquetCompression::Zstd,
            _ => return None,
        })
    }

    fn codec(self) -> Compression {
        match self {
            ParquetCompression::None => Compression::UNCOMPRESSED,
            ParquetCompression::Snappy => Compression::SNAPPY,
            ParquetCompression::Gzip => Compression::GZIP(GzipLevel::default()),
            // What readers call lz4: the first form of it in Parquet was ambiguous, and is deprecated.
            ParquetCompression::Lz4 => Compression::LZ4_RAW,
            ParquetCompression::Brotli => Compression::BROTLI(BrotliLevel::default()),
            ParquetCompression::Zstd => Compression::ZSTD(ZstdLevel::default()),
        }
    }
}

/// Why rows are not written.
///
/// ```
/// use drillcore_sql::ParquetWriteError;
///
/// let error = ParquetWriteError::from(std::io::Error::other("the disk is full"));
/// assert_eq!(error.to_string(), "the disk is full");
/// ```
#[derive(Debug)]
pub enum ParquetWriteError {
    /// The file cannot be written.
    Io(io::Error),
    /// Parquet has no form for a column or a value.
    NoForm(String),
}

impl fmt::Display for ParquetWriteError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParquetWriteError::Io(error) => error.fmt(out),
            ParquetWriteError::NoForm(what) => out.write_str(what),
        }
    }
}

impl Error for ParquetWriteError {}

impl From<io::Error> for ParquetWriteError {
    fn from(error: io::Error) -> ParquetWriteError {
        ParquetWriteError::Io(error)
    }
}

impl From<ParquetError> for ParquetWriteError {
    fn from(error: ParquetError) -> ParquetWriteError {
        match error {
            ParquetError::External(error) => match error.downcast::<io::Error>() {
                Ok(error) => ParquetWriteError::Io(*error),
                Err(other) => ParquetWriteError::NoForm(other.to_string()),
            },
            ParquetError::General(what)
            | ParquetError::NYI(what)
            | ParquetError::ArrowError(what) => ParquetWriteError::NoForm(what),
            other => ParquetWriteError::NoForm(other.to_string()),
        }
    }
}

impl From<ArrowError> for ParquetWriteError {
    fn from(error: ArrowError) -> ParquetWriteError {
        ParquetWriteError::NoForm(error.to_string())
    }
}

/// A file begins with its first row group: that shows how its columns are best encoded.
enum Begun<W: Write + Send> {
    No(W),
    Yes(Box<SerializedFileWriter<W>>, ArrowRowGroupWriterFactory),
    Failed,
}

/// The columns of a row group, each as soon as its thread is done with it.
struct EncodedGroup {
    columns: Vec<Receiver<EncodedColumn>>,
}

/// What the file has for a column of a row group.
type EncodedColumn = Result<Vec<ArrowColumnChunk>, ParquetError>;

impl<W: Write + Send> ParquetWriter<W> {
    /// Begins a file, whose columns `threads` threads encode. `sorted` names the columns that order the rows, by their
    /// indexes, each with whether from its highest value to its lowest.
    pub fn new(
        out: W,
        schema: &Schema,
        sorted: &[(usize, bool)],
        compression: ParquetCompression,
        threads: usize,
    ) -> Result<ParquetWriter<W>, ParquetWriteError> {
        let fields: Vec<_> = schema.fields().iter().map(stored).collect();
        let leaves = fields.iter().map(leaves).collect::<Result<Vec<_>, _>>()?;
        let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        let sorted = sorted.iter().map(|&(column, descending)| SortingColumn {
            column_idx: i32::try_from(leaves[..column].iter().sum::<usize>())
                .expect("a table has far fewer columns"),
            descending,
            // A null is the lowest value of a key.
            nulls_first: !descending,
        });
        Ok(ParquetWriter {
            file: Begun::No(out),
            sorted: sorted.collect(),
            encoders: Encoders::start(threads.clamp(1, schema.fields().len().max(1))),
            schema,
            leaves,
            compression: compression.codec(),
            collected: Vec::new(),
            collected_rows: 0,
            collected_bytes: 0,
            encoded: VecDeque::new(),
            group_count: 0,
        })
    }

    /// Writes rows, once there are enough of them for a row group. Waits while the group before is encoded.
    ///
    /// # Errors
    ///
    /// Nothing can be written behind an error; the file is not complete.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), ParquetWriteError> {
        let batch = as_stored(batch, &self.schema)?;
        let row_bytes = batch_bytes(&batch).div_ceil(batch.num_rows().max(1)).max(1);
        let mut first = 0;
        while first < batch.num_rows() {
            let bytes_left = GROUP_BYTES_MAX.saturating_sub(self.collected_bytes);
            let room = (GROUP_ROWS_MAX - self.collected_rows).min(bytes_left / row_bytes).max(1);
            let len = room.min(batch.num_rows() - first);
            self.collected.push(batch.slice(first, len));
            self.collected_rows += len;
            self.collected_bytes += len * row_bytes;
            first += len;
            if self.collected_rows == GROUP_ROWS_MAX || self.collected_bytes >= GROUP_BYTES_MAX {
                self.encode_group()?;
            }
        }
        Ok(())
    }

    /// Writes what is left, and the footer.
    pub fn finish(mut self) -> Result<W, ParquetWriteError> {
        if self.collected_rows > 0 {
            self.encode_group()?;
        }
        self.begin(&[])?;
        while let Some(group) = self.encoded.pop_front() {
            self.append(group)?;
        }
        match self.file {
            Begun::Yes(file, _) => Ok((*file).into_inner()?),
            Begun::No(_) | Begun::Failed => unreachable!("it was begun above"),
        }
    }

    /// Begins the file, unless it has begun, with the rows of its first group.
    fn begin(&mut self, first: &[RecordBatch]) -> Result<(), ParquetError> {
        let out = match mem::replace(&mut self.file, Begun::Failed) {
            Begun::No(out) => out,
            begun => {
                self.file = begun;
                return Ok(());
            }
        };
        let mut properties = WriterProperties::builder()
            .set_compression(self.compression)
            // Values of lists and maps have the names that the format asks for.
            .set_coerce_types(true)
            .set_statistics_enabled(EnabledStatistics::Page)
            .set_max_row_group_row_count(Some(GROUP_ROWS_MAX))
            .set_sorting_columns((!self.sorted.is_empty()).then(|| self.sorted.clone()))
            .set_created_by(concat!("drillcore ", env!("CARGO_PKG_VERSION")).to_string());
        for (column, field) in self.schema.fields().iter().enumerate() {
            let values: Vec<&ArrayRef> = first.iter().map(|batch| batch.column(column)).collect();
            if repeat(&values) {
                continue;
            }
            let path = ColumnPath::new(vec![field.name().clone()]);
            if is_integer(field.data_type()) {
                let packed = Encoding::DELTA_BINARY_PACKED;
                properties = properties.set_column_encoding(path.clone(), packed);
            }
            properties = properties.set_column_dictionary_enabled(path, false);
        }
        let writer = ArrowWriter::try_new(out, self.schema.clone(), Some(properties.build()))?;
        let (file, factory) = writer.into_serialized_writer()?;
        self.file = Begun::Yes(Box::new(file), factory);
        Ok(())
    }

    /// Hands the rows collected to the encoding threads, once they are done with those before.
    fn encode_group(&mut self) -> Result<(), ParquetError> {
        while self.encoded.len() >= GROUPS_ENCODED_MAX {
            let group = self.encoded.pop_front().expect("there is one");
            self.append(group)?;
        }
        let batches = mem::take(&mut self.collected);
        (self.collected_rows, self.collected_bytes) = (0, 0);
        self.begin(&batches)?;
        let Begun::Yes(_, factory) = &self.file else { unreachable!("it was begun above") };
        let writers = factory.create_column_writers(self.group_count)?;
        self.group_count += 1;
        let mut writers = writers.into_iter();
        let columns = self.leaves.iter().zip(self.schema.fields()).enumerate();
        let columns = columns.map(|(column, (&leaves, field))| {
            let values = batches.iter().map(|batch| batch.column(column).clone()).collect();
            self.encoders.encode(field.clone(), values, writers.by_ref().take(leaves).collect())
        });
        let columns = columns.collect();
        assert!(writers.next().is_none(), "the file has other columns than were counted");
        self.encoded.push_back(EncodedGroup { columns });
        Ok(())
    }

    fn append(&mut self, group: EncodedGroup) -> Result<(), ParquetError> {
        let Begun::Yes(file, _) = &mut self.file else {
            unreachable!("no group is encoded before")
        };
        let mut row_group = file.next_row_group()?;
        for column in group.columns {
            for chunk in column.recv().expect("an encoding thread does not panic")? {
                chunk.append_to_row_group(&mut row_group)?;
            }
        }
        row_group.close().map(drop)
    }
}

/// Threads that each encode a column of a row group at a time. They end when this is dropped, and leave what they
/// have not done.
struct Encoders {
    tasks: Option<Sender<Task>>,
    is_given_up: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

struct Task {
    field: FieldRef,
    values: Vec<ArrayRef>,
    /// One for each column that the file has for this one.
    writers: Vec<ArrowColumnWriter>,
    done: Sender<EncodedColumn>,
}

impl Encoders {
    fn start(count: usize) -> Encoders {
        let (tasks, receiver) = mpsc::channel::<Task>();
        let receiver = Arc::new(Mutex::new(receiver));
        let is_given_up = Arc::new(AtomicBool::new(false));
        let encoder = || {
            let (receiver, is_given_up) = (receiver.clone(), is_given_up.clone());
            thread::spawn(move || {
                let next = || receiver.lock().recv();
                while let Ok(task) = next() {
                    let Task { field, values, writers, done } = task;
                    match encode(&field, &values, writers, &is_given_up).transpose() {
                        // If it is not waited for any more, the file was given up, too.
                        Some(column) => drop(done.send(column)),
                        None => return,
                    }
                }
            })
        };
        let threads = (0..count).map(|_| encoder()).collect();
        Encoders { tasks: Some(tasks), is_given_up, threads }
    }

    fn encode(
        &self,
        field: FieldRef,
        values: Vec<ArrayRef>,
        writers: Vec<ArrowColumnWriter>,
    ) -> Receiver<EncodedColumn> {
        let (done, column) = mpsc::channel();
        let tasks = self.tasks.as_ref().expect("there are until this is dropped");
        // If no thread is left to take it, `column` says so.
        let _ = tasks.send(Task { field, values, writers, done });
        column
    }
}

impl Drop for Encoders {
    fn drop(&mut self) {
        self.is_given_up.store(true, Ordering::Relaxed);
        self.tasks = None;
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// Encodes a column of a row group; `None` if it is given up.
fn encode(
    field: &Field,
    values: &[ArrayRef],
    mut writers: Vec<ArrowColumnWriter>,
    is_given_up: &AtomicBool,
) -> Result<Option<Vec<ArrowColumnChunk>>, ParquetError> {
    for array in values {
        if is_given_up.load(Ordering::Relaxed) {
            return Ok(None);
        }
        for (writer, leaf) in writers.iter_mut().zip(compute_leaves(field, array)?) {
            writer.write(&leaf)?;
        }
    }
    writers.into_iter().map(ArrowColumnWriter::close).collect::<Result<_, _>>().map(Some)
}

/// Whether values repeat so often that a dictionary of them is of use. With one, columns that count up, or are measured,
/// took twice the space and longer.
fn repeat(values: &[&ArrayRef]) -> bool {
    let rows: usize = values.iter().map(|array| array.len()).sum();
    let data: Vec<_> = values.iter().map(|array| array.to_data()).collect();
    let mut known: HashSet<&[u8]> = HashSet::new();
    for (array, data) in values.iter().zip(&data) {
        let mut few = |value| {
            known.insert(value);
            known.len() <= rows / REPEATS_MIN
        };
        let are_few = if let Some(texts) = array.as_string_opt::<i32>() {
            texts.iter().flatten().all(|text| few(text.as_bytes()))
        } else if let Some(width) = data.data_type().primitive_width() {
            let values = &data.buffers()[0].as_slice()[data.offset() * width..];
            values[..data.len() * width].chunks_exact(width).all(few)
        } else {
            return true;
        };
        if !are_few {
            return false;
        }
    }
    true
}

/// Whether the file holds a column as integers, of which it can store the differences.
fn is_integer(data_type: &DataType) -> bool {
    let is_time = matches!(data_type, DataType::Date32 | DataType::Timestamp(_, _));
    data_type.is_integer() || is_time
}

/// How many columns the file has for one.
fn leaves(field: &FieldRef) -> Result<usize, ParquetWriteError> {
    let no_form = |why: &dyn fmt::Display| {
        ParquetWriteError::NoForm(format!(
            "column {:?} has no form there ({why}); leave it out",
            field.name()
        ))
    };
    // The converter panics on one.
    if has_union(field) {
        return Err(no_form(&"a union"));
    }
    let schema = Schema::new(vec![field.clone()]);
    let converted = ArrowSchemaConverter::new().convert(&schema).map_err(|error| {
        let ParquetWriteError::NoForm(why) = error.into() else { unreachable!("nothing is read") };
        no_form(&why)
    })?;
    Ok(converted.num_columns())
}

fn has_union(field: &Field) -> bool {
    matches!(field.data_type(), DataType::Union(_, _)) || inner(field.data_type()).any(has_union)
}

/// The fields that make up values of a type.
fn inner(data_type: &DataType) -> Box<dyn Iterator<Item = &Field> + '_> {
    match data_type {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::Map(field, _)
        | DataType::RunEndEncoded(_, field) => Box::new([field.as_ref()].into_iter()),
        DataType::Struct(fields) => Box::new(fields.iter().map(AsRef::as_ref)),
        _ => Box::new([].into_iter()),
    }
}

/// A column as the file holds it.
fn stored(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Timestamp(TimeUnit::Second, zone) => {
            DataType::Timestamp(TimeUnit::Millisecond, zone.clone())
        }
        DataType::Time32(TimeUnit::Second) => DataType::Time32(TimeUnit::Millisecond),
        DataType::Date64 => DataType::Date32,
        DataType::List(item) => DataType::List(stored(item)),
        DataType::LargeList(item) => DataType::LargeList(stored(item)),
        DataType::FixedSizeList(item, len) => DataType::FixedSizeList(stored(item), *len),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(stored).collect()),
        DataType::Map(entry, is_sorted) => DataType::Map(stored(entry), *is_sorted),
        other => other.clone(),
    };
    match data_type == *field.data_type() {
        true => field.clone(),
        false => Arc::new(field.as_ref().clone().with_data_type(data_type)),
    }
}

fn as_stored(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    // Times that have no place in 64 bits are errors.
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
        match column.data_type() == field.data_type() {
            true => Ok(column.clone()),
            false => cast_with_options(column, field.data_type(), &strict),
        }
    });
    RecordBatch::try_new(schema.clone(), columns.collect::<Result<_, _>>()?)
}

/// Bytes of the values, those that a slice leaves out not counted.
fn batch_bytes(batch: &RecordBatch) -> usize {
    let bytes = |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or(0);
    batch.columns().iter().map(bytes).sum()
}

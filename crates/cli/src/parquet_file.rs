//! A Parquet file, whose columns several threads encode.
//!
//! Memory holds the rows of one row group as they are collected, and those of the group before as it is encoded.

use std::collections::{HashSet, VecDeque};
use std::io::Write;
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
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;

use crate::batches::batch_bytes;

/// The most rows of a row group, which readers skip or read as one.
const GROUP_ROWS_MAX: usize = 1 << 17;
/// A row group with longer rows ends at about this many bytes, as they are in memory.
const GROUP_BYTES_MAX: usize = 64 << 20;
/// A dictionary is of use if a value has this many rows on average.
const REPEATS_MIN: usize = 5;
/// Row groups that are encoded while the next one is collected.
const GROUPS_ENCODED_MAX: usize = 1;

/// Writes batches as row groups.
pub struct ParquetFile<W: Write + Send> {
    file: Begun<W>,
    /// The columns as the file holds them.
    schema: SchemaRef,
    sorted: Vec<SortingColumn>,
    collected: Vec<RecordBatch>,
    collected_rows: usize,
    collected_bytes: usize,
    encoded: VecDeque<EncodedGroup>,
    group_count: usize,
    encoders: Encoders,
}

/// A file begins with its first row group: that shows how its columns are best encoded.
enum Begun<W: Write + Send> {
    No(W),
    Yes(Box<SerializedFileWriter<W>>, ArrowRowGroupWriterFactory),
    Failed,
}

/// The columns of a row group, each as soon as its thread is done with it.
struct EncodedGroup {
    chunks: Vec<Receiver<Result<ArrowColumnChunk, ParquetError>>>,
}

impl<W: Write + Send> ParquetFile<W> {
    /// Begins a file. `sorted` names the columns that order the rows, by their indexes, each with whether from its
    /// highest value to its lowest.
    pub fn new(
        out: W,
        schema: &Schema,
        sorted: &[(usize, bool)],
        threads: usize,
    ) -> ParquetFile<W> {
        let schema = Arc::new(stored(schema));
        let sorted = sorted.iter().map(|&(column, descending)| SortingColumn {
            column_idx: i32::try_from(column).expect("a table has far fewer columns"),
            descending,
            // A null is the lowest value of a key.
            nulls_first: !descending,
        });
        ParquetFile {
            file: Begun::No(out),
            sorted: sorted.collect(),
            encoders: Encoders::start(threads.clamp(1, schema.fields().len().max(1))),
            schema,
            collected: Vec::new(),
            collected_rows: 0,
            collected_bytes: 0,
            encoded: VecDeque::new(),
            group_count: 0,
        }
    }

    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), ParquetError> {
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
    pub fn finish(mut self) -> Result<W, ParquetError> {
        if self.collected_rows > 0 {
            self.encode_group()?;
        }
        self.begin(&[])?;
        while let Some(group) = self.encoded.pop_front() {
            self.append(group)?;
        }
        match self.file {
            Begun::Yes(file, _) => (*file).into_inner(),
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
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
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
        // A list of strings has one leaf, too.
        assert_eq!(writers.len(), self.schema.fields().len(), "each column has one leaf");
        let chunks = writers.into_iter().zip(self.schema.fields()).enumerate();
        let chunks = chunks.map(|(column, (writer, field))| {
            let values = batches.iter().map(|batch| batch.column(column).clone()).collect();
            self.encoders.encode(field.clone(), values, writer)
        });
        self.encoded.push_back(EncodedGroup { chunks: chunks.collect() });
        Ok(())
    }

    fn append(&mut self, group: EncodedGroup) -> Result<(), ParquetError> {
        let Begun::Yes(file, _) = &mut self.file else {
            unreachable!("no group is encoded before")
        };
        let mut row_group = file.next_row_group()?;
        for chunk in group.chunks {
            let chunk = chunk.recv().expect("an encoding thread does not panic")?;
            chunk.append_to_row_group(&mut row_group)?;
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
    writer: ArrowColumnWriter,
    done: Sender<Result<ArrowColumnChunk, ParquetError>>,
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
                    let Task { field, values, writer, done } = task;
                    match encode(&field, &values, writer, &is_given_up).transpose() {
                        // If it is not waited for any more, the file was given up, too.
                        Some(chunk) => drop(done.send(chunk)),
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
        writer: ArrowColumnWriter,
    ) -> Receiver<Result<ArrowColumnChunk, ParquetError>> {
        let (done, chunk) = mpsc::channel();
        let tasks = self.tasks.as_ref().expect("there are until this is dropped");
        // If no thread is left to take it, `chunk` says so.
        let _ = tasks.send(Task { field, values, writer, done });
        chunk
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
    mut writer: ArrowColumnWriter,
    is_given_up: &AtomicBool,
) -> Result<Option<ArrowColumnChunk>, ParquetError> {
    for array in values {
        if is_given_up.load(Ordering::Relaxed) {
            return Ok(None);
        }
        for leaf in compute_leaves(field, array)? {
            writer.write(&leaf)?;
        }
    }
    writer.close().map(Some)
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

/// The columns of the file. Parquet has no type for times in seconds: other programs would read numbers.
fn stored(schema: &Schema) -> Schema {
    let field = |field: &FieldRef| match field.data_type() {
        DataType::Timestamp(TimeUnit::Second, zone) => {
            let milliseconds = DataType::Timestamp(TimeUnit::Millisecond, zone.clone());
            Arc::new(field.as_ref().clone().with_data_type(milliseconds))
        }
        _ => field.clone(),
    };
    Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>())
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

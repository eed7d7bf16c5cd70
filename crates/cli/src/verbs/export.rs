//! `drillcore export`: rows of a table into a file.

use std::io::{self, Write};

use arrow_array::RecordBatch;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_json::writer::LineDelimited;
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use drillcore::{
    ErrorKind, Interrupt, SampleRequest, ScanRequest, Selection, TableSchema, TableSnapshot,
};
use drillcore_sql::{Packing, ParquetCompression, ParquetWriteError, ParquetWriter};
use flate2::Compression;
use flate2::write::GzEncoder;
use indicatif::{HumanCount, ProgressBar};

use crate::arguments::export::Export;
use crate::arguments::shared_options::Format;
use crate::files::input::{format_of, packing};
use crate::files::source::unknown_packing;
use crate::files::written_times::written_times;
use crate::printing::output::{check_flat, print_line};
use crate::printing::progress;
use crate::process::fault::{Fault, report};
use crate::process::opening::moment;
use crate::verbs::export_target::ExportTarget;
use crate::verbs::selection::selection;

/// Level of Zstandard: that of the program `zstd`.
const ZSTD_LEVEL: i32 = 3;

/// Writes the rows, and prints how many they are.
pub fn export(arguments: Export, interrupt: Interrupt) -> Result<(), Fault> {
    let kind = Kind::of(&arguments)?;
    let Export { source, file, force, quiet, .. } = &arguments;
    let table = moment(&source.database, arguments.moment.at.as_deref(), &interrupt)?
        .table(&source.table)?;
    let selection = selection(&table.schema(), &arguments.selection, &interrupt)?;
    // Before anything is read: what may take long should not end in this.
    let target = ExportTarget::open(file, *force, &source.database)?;
    let bar = progress_bar(*quiet, row_count(&table, &selection, &arguments)?);
    let rows = Rows::read(&table, selection, &arguments)?;
    if kind.format == Format::Csv {
        check_flat(&rows.schema, "--format jsonl")?;
    }
    let done = write(rows, kind, &target, threads(&arguments), &bar, &interrupt);
    let count = match done {
        Ok(count) => count,
        // The one who reads has had enough, as `head` does.
        Err(_) if target.is_closed() => return Ok(()),
        Err(Stop::Fault(fault)) => return Err(fault),
        Err(Stop::Write(error)) => {
            interrupt.check()?;
            return Err(Fault::unusable(format!("cannot write {file}: {error}")));
        }
    };
    target.keep(file)?;
    bar.finish_and_clear();
    let rows = if count == 1 { "row" } else { "rows" };
    let count = HumanCount(count);
    match file.as_str() {
        // A closed standard error is no reason to fail.
        "-" => report(format_args!("{count} {rows} exported")),
        file => print_line(&format!("{count} {rows} exported to {file}"))?,
    }
    Ok(())
}

/// What a file is made of.
#[derive(Clone, Copy)]
struct Kind {
    format: Format,
    packing: Packing,
    /// Of Arrow: without the footer of a file.
    is_stream: bool,
}

impl Kind {
    fn of(arguments: &Export) -> Result<Kind, Fault> {
        let name = &arguments.file;
        let (stem, packing) = packing(name);
        let format = match arguments.format.or_else(|| format_of(stem)) {
            Some(format) => format,
            None if name == "-" => Format::Csv,
            None => {
                return Err(Fault::wrong_call(format!(
                    "the name {name:?} does not show the format of the file; use --format"
                )));
            }
        };
        if packing != Packing::None && matches!(format, Format::Parquet | Format::Arrow) {
            return Err(Fault::wrong_call(format!(
                "only CSV and JSONL can be compressed as a whole; leave the ending of {name:?} off"
            )));
        }
        Ok(Kind { format, packing, is_stream: name == "-" || name.ends_with(".arrows") })
    }
}

/// Rows on their way.
struct Rows {
    schema: SchemaRef,
    batches: Box<dyn Iterator<Item = drillcore::Result<RecordBatch>>>,
    /// The columns that order them, each with whether from its highest value to its lowest.
    sorted: Vec<(usize, bool)>,
}

impl Rows {
    fn read(
        table: &TableSnapshot,
        selection: Selection,
        arguments: &Export,
    ) -> Result<Rows, Fault> {
        let columns = arguments.columns.columns.clone();
        let threads = arguments.threads;
        let sample = &arguments.sample;
        let Some(n) = sample.n else {
            let (limit, reverse) = (arguments.limit, arguments.reverse);
            let request = ScanRequest {
                selection,
                columns,
                limit,
                reverse,
                threads,
                ..ScanRequest::default()
            };
            let scan = table.scan(request)?;
            let schema = scan.schema();
            let sorted = sorted(&table.schema(), &schema, reverse);
            return Ok(Rows { schema, batches: Box::new(scan), sorted });
        };
        let request = SampleRequest {
            n,
            selection,
            weight: sample.weight.clone(),
            replace: sample.replace,
            at_most: sample.at_most,
            with_probability: sample.with_probability,
            seed: sample.seed,
            columns,
            threads,
            ..SampleRequest::default()
        };
        let rows = table.sample(&request).map_err(|error| match error.kind() {
            ErrorKind::TooFewRows => Fault::wrong_call(format!("{error} (--at-most)")),
            _ => error.into(),
        })?;
        let (schema, batches) = (rows.schema(), Box::new(std::iter::once(Ok(rows))));
        Ok(Rows { schema, batches, sorted: Vec::new() })
    }
}

/// The columns of the key that order the rows, as far as they are among those written and readers order their values
/// as a key does: they have other rules for floats.
fn sorted(table: &TableSchema, written: &Schema, reverse: bool) -> Vec<(usize, bool)> {
    let column = |&column: &usize| {
        let field = table.columns.field(column);
        let is_float = matches!(field.data_type(), DataType::Float32 | DataType::Float64);
        let index = written.index_of(field.name()).ok()?;
        (!is_float).then_some((index, reverse))
    };
    table.key.iter().map_while(column).collect()
}

/// How many rows will be written, if that is known without reading them.
fn row_count(
    table: &TableSnapshot,
    selection: &Selection,
    arguments: &Export,
) -> Result<Option<u64>, Fault> {
    if arguments.sample.n.is_some() {
        return Ok(arguments.sample.n);
    }
    // Sets that a predicate names may lack an index, and to count them would take a pass of its own.
    if selection.predicate.is_some() || !table.counts_by_indexes(selection)? {
        return Ok(arguments.limit);
    }
    let count = table.count(selection)?;
    Ok(Some(count.min(arguments.limit.unwrap_or(u64::MAX))))
}

fn threads(arguments: &Export) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    arguments.threads.unwrap_or_else(cores)
}

/// Why no more is written.
enum Stop {
    Fault(Fault),
    /// What was written could not be.
    Write(String),
}

impl From<drillcore::Error> for Stop {
    fn from(error: drillcore::Error) -> Stop {
        Stop::Fault(error.into())
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Write(error.to_string())
    }
}

impl From<ArrowError> for Stop {
    fn from(error: ArrowError) -> Stop {
        match error {
            ArrowError::IoError(_, error) => error.into(),
            ArrowError::InvalidArgumentError(why) => Stop::Write(why),
            other => Stop::Write(other.to_string()),
        }
    }
}

impl From<ParquetWriteError> for Stop {
    fn from(error: ParquetWriteError) -> Stop {
        Stop::Write(error.to_string())
    }
}

/// Writes and flushes all rows, and returns how many they are.
fn write(
    rows: Rows,
    kind: Kind,
    target: &ExportTarget,
    threads: usize,
    bar: &ProgressBar,
    interrupt: &Interrupt,
) -> Result<u64, Stop> {
    let Rows { schema, batches, sorted } = rows;
    let mut count = 0;
    let batches = batches.map(|batch| {
        interrupt.check()?;
        let batch = batch?;
        count += batch.num_rows() as u64;
        bar.inc(batch.num_rows() as u64);
        Ok::<_, drillcore::Error>(batch)
    });
    let out = target.writer()?;
    match kind.format {
        Format::Parquet => {
            let zstd = ParquetCompression::Zstd;
            let mut file = ParquetWriter::new(out, &schema, &sorted, zstd, threads)?;
            for batch in batches {
                file.write(&batch?)?;
            }
            file.finish()?.flush()?;
        }
        Format::Arrow if kind.is_stream => {
            let mut stream = StreamWriter::try_new(out, &schema)?;
            for batch in batches {
                stream.write(&batch?)?;
            }
            stream.into_inner()?.flush()?;
        }
        Format::Arrow => {
            let mut file = FileWriter::try_new(out, &schema)?;
            for batch in batches {
                file.write(&batch?)?;
            }
            file.into_inner()?.flush()?;
        }
        Format::Csv => {
            let mut packed = Packed::new(out, kind.packing)?;
            let mut text = arrow_csv::WriterBuilder::new().with_header(true).build(&mut packed);
            text.write(&RecordBatch::new_empty(schema))?;
            for batch in batches {
                text.write(&written_times(batch?)?)?;
            }
            drop(text);
            packed.finish()?;
        }
        Format::Jsonl => {
            let mut packed = Packed::new(out, kind.packing)?;
            // Nulls are there to be read: a column that is missing is something else in an upsert table.
            let text = arrow_json::WriterBuilder::new().with_explicit_nulls(true);
            let mut text = text.build::<_, LineDelimited>(&mut packed);
            for batch in batches {
                text.write(&written_times(batch?)?)?;
            }
            text.finish()?;
            drop(text);
            packed.finish()?;
        }
    }
    Ok(count)
}

/// Text on its way to being compressed, or not.
enum Packed {
    No(Box<dyn Write + Send>),
    Gzip(GzEncoder<Box<dyn Write + Send>>),
    Zstd(zstd::Encoder<'static, Box<dyn Write + Send>>),
}

impl Packed {
    fn new(out: Box<dyn Write + Send>, packing: Packing) -> io::Result<Packed> {
        Ok(match packing {
            Packing::None => Packed::No(out),
            Packing::Gzip => Packed::Gzip(GzEncoder::new(out, Compression::default())),
            Packing::Zstd => Packed::Zstd(zstd::Encoder::new(out, ZSTD_LEVEL)?),
            other => return Err(unknown_packing(other)),
        })
    }

    fn finish(self) -> io::Result<()> {
        let mut out = match self {
            Packed::No(out) => out,
            Packed::Gzip(encoder) => encoder.finish()?,
            Packed::Zstd(encoder) => encoder.finish()?,
        };
        out.flush()
    }
}

impl Write for Packed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Packed::No(out) => out.write(bytes),
            Packed::Gzip(out) => out.write(bytes),
            Packed::Zstd(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Packed::No(out) => out.flush(),
            // The writer of CSV flushes after each batch, which would cut what is compressed into small parts.
            Packed::Gzip(_) | Packed::Zstd(_) => Ok(()),
        }
    }
}

fn progress_bar(quiet: bool, rows: Option<u64>) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    match rows {
        None => {
            let style = progress::style("{spinner} {human_pos} rows, {rate}, {elapsed}");
            ProgressBar::new_spinner().with_style(style)
        }
        Some(rows) => {
            let template = "{wide_bar} {human_pos} of {human_len} rows, {rate}, {eta} left";
            ProgressBar::new(rows).with_style(progress::style(template))
        }
    }
}

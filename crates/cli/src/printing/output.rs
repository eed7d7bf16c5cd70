//! Printing batches as a table, CSV, JSON lines or an Arrow stream.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_cast::pretty::pretty_format_batches;
use arrow_json::writer::LineDelimited;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use indicatif::HumanCount;

use crate::arguments::shared_options::Style;
use crate::files::written_times::written_times;
use crate::printing::noting::Noting;
use crate::printing::terminal_text::{has_controls, on_its_lines};
use crate::process::fault::Fault;

/// Bytes of a text that a cell of a table shows.
const CELL_BYTES_MAX: usize = 32 << 10;

/// Prints batches to standard output. A table is laid out when all of it is there; the others stream.
pub fn print(
    style: Style,
    schema: SchemaRef,
    batches: impl Iterator<Item = Result<RecordBatch, Fault>>,
) -> Result<(), Fault> {
    let is_closed = Arc::new(AtomicBool::new(false));
    let out = Noting::new(BufWriter::new(io::stdout().lock()), is_closed.clone());
    let done = write(style, schema, batches, out);
    or_fault(if is_closed.load(Ordering::Relaxed) { Err(Stop::ClosedPipe) } else { done })
}

/// The same as text, for a result that is held anyway.
pub fn printed(style: Style, batches: &[RecordBatch]) -> Result<Vec<u8>, Fault> {
    let (mut text, schema) = (Vec::new(), batches[0].schema());
    or_fault(write(style, schema, batches.iter().cloned().map(Ok), &mut text))?;
    Ok(text)
}

/// Prints text as it is.
pub fn print_text(text: &[u8]) -> Result<(), Fault> {
    let mut out = io::stdout().lock();
    or_fault(out.write_all(text).and_then(|()| out.flush()).map_err(Stop::from))
}

/// Prints one batch.
pub fn print_one(style: Style, batch: RecordBatch) -> Result<(), Fault> {
    print(style, batch.schema(), std::iter::once(Ok(batch)))
}

/// Prints a line.
pub fn print_line(line: &str) -> Result<(), Fault> {
    or_fault(writeln!(io::stdout().lock(), "{line}").map_err(Stop::from))
}

fn or_fault(printed: Result<(), Stop>) -> Result<(), Fault> {
    match printed {
        Err(Stop::Fault(fault)) => Err(fault),
        // The reader of the pipe has had enough, as `head` does.
        Err(Stop::ClosedPipe) | Ok(()) => Ok(()),
    }
}

enum Stop {
    ClosedPipe,
    Fault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        Stop::Fault(fault)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Stop::ClosedPipe,
            _ => Stop::Fault(Fault::unusable(format!("cannot write to standard output: {error}"))),
        }
    }
}

impl From<ArrowError> for Stop {
    fn from(error: ArrowError) -> Stop {
        match error {
            ArrowError::IoError(_, error) => error.into(),
            ArrowError::InvalidArgumentError(why) => Stop::Fault(Fault::unusable(why)),
            // Of a time zone that this build does not know.
            ArrowError::ParseError(why) => Stop::Fault(Fault::unusable(format!(
                "cannot write the rows as text: {why}; --output arrow writes them as they are"
            ))),
            other => {
                Stop::Fault(Fault::unusable(format!("cannot write to standard output: {other}")))
            }
        }
    }
}

/// Refuses columns that a cell of CSV cannot hold; `other` is the option for a format that can.
pub fn check_flat(schema: &Schema, other: &str) -> Result<(), Fault> {
    match schema.fields().iter().find(|field| field.data_type().is_nested()) {
        None => Ok(()),
        Some(field) => Err(Fault::wrong_call(format!(
            "column {:?} contains lists, which CSV cannot hold; use {other}, or \
             leave the column out with --columns",
            field.name()
        ))),
    }
}

/// A table with the beginnings of texts that no line has room for, as laying them out takes time by the square of their length, and
/// with control characters spelled out.
fn with_short_cells(batch: RecordBatch) -> RecordBatch {
    let is_long = |text: &str| text.len() > CELL_BYTES_MAX;
    let shortened = |column: &ArrayRef| {
        let texts = column.as_string_opt::<i32>()?;
        if !texts.iter().flatten().any(|text| is_long(text) || has_controls(text)) {
            return None;
        }
        let cell = |text: &str| match is_long(text) {
            true => {
                let is_boundary = |end: &usize| text.is_char_boundary(*end);
                let end = (0..=CELL_BYTES_MAX).rfind(is_boundary).unwrap_or(0);
                let bytes = HumanCount(text.len() as u64);
                format!("{}... ({bytes} bytes; --output csv has them all)", &text[..end])
            }
            false => text.to_string(),
        };
        let cell = |text: &str| on_its_lines(&cell(text));
        let cells: StringArray = texts.iter().map(|text| text.map(cell)).collect();
        Some(Arc::new(cells) as ArrayRef)
    };
    let columns = batch.columns().iter();
    let columns = columns.map(|column| shortened(column).unwrap_or_else(|| column.clone()));
    RecordBatch::try_new(batch.schema(), columns.collect())
        .expect("the columns are of the same types")
}

fn write(
    style: Style,
    schema: SchemaRef,
    batches: impl Iterator<Item = Result<RecordBatch, Fault>>,
    mut out: impl Write,
) -> Result<(), Stop> {
    match style {
        Style::Table => {
            let batches = batches.map(|batch| batch.map(with_short_cells));
            let batches = batches.collect::<Result<Vec<_>, _>>()?;
            let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
            let shown =
                if batches.is_empty() { vec![RecordBatch::new_empty(schema)] } else { batches };
            // Names and lists may have them, too.
            writeln!(out, "{}", on_its_lines(&pretty_format_batches(&shown)?.to_string()))?;
            let noun = if rows == 1 { "row" } else { "rows" };
            writeln!(out, "{} {noun}", HumanCount(rows as u64))?;
        }
        Style::Csv => {
            check_flat(&schema, "--output jsonl")?;
            let mut writer = arrow_csv::WriterBuilder::new().with_header(true).build(&mut out);
            writer.write(&RecordBatch::new_empty(schema))?;
            for batch in batches {
                writer.write(&written_times(batch?)?)?;
            }
        }
        Style::Jsonl => {
            // Nulls are there to be read: a column that is missing is something else in an upsert table.
            let writer = arrow_json::WriterBuilder::new().with_explicit_nulls(true);
            let mut writer = writer.build::<_, LineDelimited>(&mut out);
            for batch in batches {
                writer.write(&written_times(batch?)?)?;
            }
            writer.finish()?;
        }
        Style::Arrow => {
            let mut writer = arrow_ipc::writer::StreamWriter::try_new(&mut out, &schema)?;
            for batch in batches {
                writer.write(&batch?)?;
            }
            writer.finish()?;
        }
    }
    out.flush()?;
    Ok(())
}

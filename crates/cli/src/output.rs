//! Printing batches as a table, CSV, JSON lines or an Arrow stream.

use std::io::{self, BufWriter, Write};

use arrow_array::RecordBatch;
use arrow_cast::pretty::pretty_format_batches;
use arrow_json::writer::LineDelimited;
use arrow_schema::{ArrowError, Schema, SchemaRef};

use crate::arguments::Style;
use crate::fault::Fault;

/// Prints batches to standard output. A table is laid out when all of it is there; the others stream.
pub fn print(
    style: Style,
    schema: SchemaRef,
    batches: impl Iterator<Item = Result<RecordBatch, Fault>>,
) -> Result<(), Fault> {
    let out = BufWriter::new(io::stdout().lock());
    or_fault(write(style, schema, batches, out))
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
        // Whoever reads has had enough, as `head` does.
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

fn write(
    style: Style,
    schema: SchemaRef,
    batches: impl Iterator<Item = Result<RecordBatch, Fault>>,
    mut out: impl Write,
) -> Result<(), Stop> {
    match style {
        Style::Table => {
            let batches = batches.collect::<Result<Vec<_>, _>>()?;
            let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
            let shown =
                if batches.is_empty() { vec![RecordBatch::new_empty(schema)] } else { batches };
            writeln!(out, "{}", pretty_format_batches(&shown)?)?;
            writeln!(out, "{rows} row{}", if rows == 1 { "" } else { "s" })?;
        }
        Style::Csv => {
            check_flat(&schema, "--output jsonl")?;
            let mut writer = arrow_csv::WriterBuilder::new().with_header(true).build(&mut out);
            writer.write(&RecordBatch::new_empty(schema))?;
            for batch in batches {
                writer.write(&batch?)?;
            }
        }
        Style::Jsonl => {
            // Nulls are there to be read: a column that is missing is something else in an upsert table.
            let writer = arrow_json::WriterBuilder::new().with_explicit_nulls(true);
            let mut writer = writer.build::<_, LineDelimited>(&mut out);
            for batch in batches {
                writer.write(&batch?)?;
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

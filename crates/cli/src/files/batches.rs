//! Rows on their way from a file into a table: what is wanted of the file, and what comes.

use std::fmt::Display;
use std::io;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use drillcore::{Interrupt, OnError};

use crate::arguments::shared_options::Format;
use crate::process::fault::Fault;

/// The parts of one file, in order.
pub type Parts = Box<dyn Iterator<Item = Result<Part, Fault>> + Send>;

/// A file ready to be read.
pub struct Input {
    pub schema: SchemaRef,
    pub parts: Parts,
}

impl Input {
    /// The batches of the file, parsed by the thread that asks for them.
    pub fn batches(self) -> impl Iterator<Item = Result<Batch, Fault>> {
        self.parts.flat_map(|part| match part.and_then(Part::parse) {
            Ok(batches) => batches.into_iter().map(Ok).collect(),
            Err(fault) => vec![Err(fault)],
        })
    }
}

/// Some rows of a file that were read, but not parsed yet: that can be done by another thread.
pub struct Part {
    /// What it takes in memory, about, before it is parsed or after it.
    pub bytes: u64,
    parse: Box<dyn FnOnce() -> Result<Vec<Batch>, Fault> + Send>,
}

impl Part {
    pub fn new(
        bytes: u64,
        parse: impl FnOnce() -> Result<Vec<Batch>, Fault> + Send + 'static,
    ) -> Part {
        Part { bytes, parse: Box::new(parse) }
    }

    /// The rows, a batch for each commit.
    pub fn parse(self) -> Result<Vec<Batch>, Fault> {
        (self.parse)()
    }

    /// The part with something done to what comes of it.
    pub fn then(
        self,
        change: impl FnOnce(Result<Vec<Batch>, Fault>) -> Result<Vec<Batch>, Fault> + Send + 'static,
    ) -> Part {
        Part::new(self.bytes, move || change(self.parse()))
    }
}

/// Rows of a file, and what stood between them that is none.
pub struct Batch {
    pub rows: RecordBatch,
    pub places: Places,
    /// With `OnError::Skip`: what was left out.
    pub bad: Vec<BadRecord>,
    /// Records or rows of the file up to the end of this batch, those that were left out among them.
    pub records_read: u64,
}

/// A record that could not be parsed.
pub struct BadRecord {
    pub line: u64,
    pub reason: String,
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
    /// Between the cells of CSV; by default the file's name tells.
    pub separator: Option<u8>,
    pub batch_rows: usize,
    /// What to do with text that cannot be parsed.
    pub on_error: OnError,
    /// Types of columns that are not to be guessed, where they can be given.
    pub given: Option<&'a [(String, DataType)]>,
    /// Records or rows at the beginning of the file that are passed over.
    pub records_before: u64,
    /// Ends a wait for a pipe.
    pub interrupt: &'a Interrupt,
}

/// The columns that the reader of a file takes.
pub struct Taken {
    /// Text is parsed into their types.
    pub columns: SchemaRef,
    /// Other columns of the file are left out, and all of these must be in it. Otherwise the others are
    /// handed on, and missing ones are missing.
    pub skips_others: bool,
    /// Other columns of the file become columns.
    pub adds_others: bool,
    /// Columns that every row has, if only to say null.
    pub spelled_out: Vec<String>,
}

/// Why rows that have some columns do not fit, if they lack one of those that are to be spelled out.
pub fn lacks(spelled_out: &[String], has: impl Fn(&str) -> bool) -> Option<String> {
    let lacking = spelled_out.iter().filter(|name| !has(name)).map(|name| format!("{name:?}"));
    let lacking: Vec<String> = lacking.collect();
    let (is, them) = if lacking.len() == 1 { ("is", "it") } else { ("are", "them") };
    (!lacking.is_empty()).then(|| {
        format!(
            "{} {is} missing, and an upsert would set {them} to null; add {them}, or use --fill-nulls to store null",
            lacking.join(", ")
        )
    })
}

/// A file that cannot be read.
pub fn unusable(name: &str, error: &dyn Display) -> Fault {
    Fault::unusable(format!("cannot read {name}: {error}"))
}

/// A file that cannot be opened.
pub fn unopened(name: &str, error: &io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::NotFound => unusable(name, &"it does not exist; check the path"),
        _ => unusable(name, error),
    }
}

/// Bytes of the values, those that a slice leaves out not counted.
pub fn batch_bytes(batch: &RecordBatch) -> usize {
    let bytes = |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or(0);
    batch.columns().iter().map(bytes).sum()
}

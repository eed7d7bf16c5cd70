//! Rows that wait for their commit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;

use crate::database::background_writer::writer_options::Limits;
use crate::database::handles::Table;

/// The rows of one call of `add`, which one commit has.
pub struct Add {
    /// A table at most once each.
    pub parts: Vec<Part>,
}

/// Those for one table.
pub struct Part {
    pub table: Table,
    pub batch: RecordBatch,
}

impl Add {
    pub fn rows(&self) -> usize {
        self.parts.iter().map(|part| part.batch.num_rows()).sum()
    }

    pub fn bytes(&self) -> u64 {
        let columns = self.parts.iter().flat_map(|part| part.batch.columns());
        let bytes = columns.map(|column| column.to_data().get_slice_memory_size().unwrap_or(0));
        bytes.map(|bytes| bytes as u64).sum()
    }
}

/// What one commit will have, as long as it is gathered.
#[derive(Default)]
pub struct OpenBatch {
    pub adds: Vec<Add>,
    pub rows: usize,
    bytes: u64,
    /// Since when its oldest row waits.
    since: Option<Instant>,
}

impl OpenBatch {
    /// Whether an add may join those that are there: within the limits, and with the columns that they have, as a
    /// column may have been added since.
    pub fn has_room(&self, add: &Add, bytes: u64, limits: &Limits) -> bool {
        let fits = self.rows + add.rows() <= limits.rows && self.bytes + bytes <= limits.bytes;
        self.adds.is_empty() || fits && add.parts.iter().all(|part| self.has_columns_of(part))
    }

    pub fn push(&mut self, add: Add, bytes: u64, waited: Duration) {
        self.rows += add.rows();
        self.bytes += bytes;
        let now = Instant::now();
        let since = now.checked_sub(waited).unwrap_or(now);
        self.since = Some(self.since.map_or(since, |before| before.min(since)));
        self.adds.push(add);
    }

    pub fn is_full(&self, limits: &Limits) -> bool {
        self.rows >= limits.rows || self.bytes >= limits.bytes
    }

    /// How long its oldest row may wait yet; `None` if there is no row, or it may wait for ever.
    pub fn time_left(&self, limits: &Limits) -> Option<Duration> {
        let since = self.since?;
        (limits.age < Duration::MAX).then(|| limits.age.saturating_sub(since.elapsed()))
    }

    fn has_columns_of(&self, part: &Part) -> bool {
        let others = self.adds.iter().rev().flat_map(|add| &add.parts);
        let mut of_table = others.filter(|other| other.table.id() == part.table.id());
        let given = part.batch.schema_ref();
        of_table.next().is_none_or(|other| {
            let known = other.batch.schema_ref();
            Arc::ptr_eq(known, given) || known == given
        })
    }
}

//! Rows that wait for their commit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::database::background_writer::add::{Add, Part};
use crate::database::background_writer::growing_rows::GrowingRows;
use crate::database::background_writer::writer_options::Limits;

/// What one commit will have, as long as it is gathered.
#[derive(Default)]
pub struct OpenBatch {
    adds: Vec<Add>,
    /// The small adds that came last, if those need not be kept whole.
    growing: Option<GrowingRows>,
    /// How often rows were added.
    pub calls: u64,
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
        self.is_empty() || fits && add.parts.iter().all(|part| self.has_columns_of(part))
    }

    pub fn is_empty(&self) -> bool {
        self.calls == 0
    }

    /// Takes the rows of a call; `keeps_whole` says whether they must stay one add.
    pub fn push(&mut self, add: Add, bytes: u64, waited: Duration, keeps_whole: bool) {
        self.calls += 1;
        self.rows += add.rows();
        self.bytes += bytes;
        if self.since.is_none() || !waited.is_zero() {
            let now = Instant::now();
            let since = now.checked_sub(waited).unwrap_or(now);
            self.since = Some(self.since.map_or(since, |before| before.min(since)));
        }
        match &add.parts[..] {
            [part] if !keeps_whole => {
                if !self.growing.as_ref().is_some_and(|growing| growing.takes(part, bytes)) {
                    self.end_growing();
                    self.growing = GrowingRows::begin(part, bytes);
                }
                match &mut self.growing {
                    Some(growing) => growing.push(&part.batch, bytes),
                    None => self.adds.push(add),
                }
            }
            _ => self.adds.push(add),
        }
    }

    /// The rows, in the order in which they came: those of small adds together, if these did not have to stay whole.
    pub fn into_adds(mut self) -> Vec<Add> {
        self.end_growing();
        self.adds
    }

    fn end_growing(&mut self) {
        if let Some(growing) = self.growing.take() {
            self.adds.push(Add { parts: vec![growing.finish()], is_gathered: true });
        }
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
        if let Some(is_so) = self.growing.as_ref().and_then(|growing| growing.has_columns_of(part))
        {
            return is_so;
        }
        let others = self.adds.iter().rev().flat_map(|add| &add.parts);
        let mut of_table = others.filter(|other| other.table.id() == part.table.id());
        let given = part.batch.schema_ref();
        of_table.next().is_none_or(|other| {
            let known = other.batch.schema_ref();
            Arc::ptr_eq(known, given) || known == given
        })
    }
}

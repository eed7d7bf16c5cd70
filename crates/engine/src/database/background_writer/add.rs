//! Rows on their way to a commit.

use arrow_array::RecordBatch;
use drillcore_format::value_bytes::batch_bytes;

use crate::database::handles::Table;

/// The rows of one call of `add`, which one commit has, or those of several calls that need not be kept whole.
#[derive(Clone)]
pub struct Add {
    /// A table at most once each.
    pub parts: Vec<Part>,
    /// Whether it is of several calls.
    pub is_gathered: bool,
}

/// Those for one table.
#[derive(Clone)]
pub struct Part {
    pub table: Table,
    pub batch: RecordBatch,
}

impl Add {
    pub fn rows(&self) -> usize {
        self.parts.iter().map(|part| part.batch.num_rows()).sum()
    }

    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| batch_bytes(&part.batch) as u64).sum()
    }
}

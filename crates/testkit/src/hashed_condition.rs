//! A condition that nothing but a look at each row can answer.

use std::hash::{DefaultHasher, Hash, Hasher};

use drillcore::arrow_array::{BooleanArray, RecordBatch};
use drillcore::{Predicate, Result};

use crate::cell::{Cell, rows_of};

/// Rows whose value in one column has some remainder as a hash.
#[derive(Debug, Clone)]
pub struct HashedCondition {
    columns: [String; 1],
    modulus: u64,
    remainder: u64,
    text: String,
}

impl HashedCondition {
    /// Passes rows whose value in `column` has a hash that leaves `remainder` when it is divided by `modulus`.
    pub fn new(column: &str, modulus: u64, remainder: u64) -> HashedCondition {
        let text = format!("hash of {column} mod {modulus} is {remainder}");
        HashedCondition { columns: [column.to_string()], modulus, remainder, text }
    }

    /// Whether a row with this value passes.
    pub fn passes(&self, cell: &Cell) -> bool {
        let mut hasher = DefaultHasher::new();
        cell.hash(&mut hasher);
        hasher.finish() % self.modulus == self.remainder
    }
}

impl Predicate for HashedCondition {
    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn select(&self, rows: &RecordBatch) -> Result<BooleanArray> {
        Ok(rows_of(rows).iter().map(|row| Some(self.passes(&row[0]))).collect())
    }

    fn text(&self) -> &str {
        &self.text
    }
}

//! Which column is stored where, once columns were dropped or got a wider type.
//!
//! Every column that a table ever had is a *stored column* with a number, in the order in which they came. A row has
//! its values in that order. A dropped column keeps its number, so that no other one is taken for it, also one that gets
//! its name later. A column that gets a wider type gets a new number; in rows that were written before, its values are
//! those of the number before.

use std::sync::Arc;

use arrow_schema::{DataType, Field};

use crate::cursor::{Cursor, put_varint};
use crate::error::Result;
use crate::schema::columns::{put_column, read_column};
use crate::schema::rollup::StoredMetric;

/// The numbers of a table's columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredColumns {
    /// `None` as long as each column has its index for its number.
    moved: Option<Arc<Moved>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Moved {
    /// Of each column.
    numbers: Vec<usize>,
    /// Those that no column has, rising.
    retired: Vec<Retired>,
}

/// A number that no column has any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retired {
    /// The number, which no column gets again.
    pub number: usize,
    /// The type of the values that older rows have there.
    pub data_type: DataType,
    /// The number that took its place, if its column got a wider type.
    pub widened: Option<usize>,
    /// In a rollup table: what was stored.
    pub metric: Option<StoredMetric>,
}

impl StoredColumns {
    /// Whether each column has its index for its number.
    pub fn is_plain(&self) -> bool {
        self.moved.is_none()
    }

    /// How many numbers there are, of a table with `columns` columns.
    pub fn count(&self, columns: usize) -> usize {
        columns + self.retired().len()
    }

    /// The number of a column.
    pub fn number(&self, column: usize) -> usize {
        self.moved.as_ref().map_or(column, |moved| moved.numbers[column])
    }

    /// The column that has a number.
    pub fn column(&self, number: usize) -> Option<usize> {
        match &self.moved {
            None => Some(number),
            Some(moved) => moved.numbers.iter().position(|&of_column| of_column == number),
        }
    }

    /// Numbers that no column has, rising.
    pub fn retired(&self) -> &[Retired] {
        self.moved.as_ref().map_or(&[], |moved| &moved.retired)
    }

    /// The type of a number that no column has.
    pub fn retired_type(&self, number: usize) -> Option<&DataType> {
        let found = self.retired().iter().find(|retired| retired.number == number);
        found.map(|retired| &retired.data_type)
    }

    /// The numbers that a column had before it got its present one, the last one first.
    pub fn earlier(&self, number: usize) -> Vec<&Retired> {
        let before =
            |number: usize| self.retired().iter().find(|retired| retired.widened == Some(number));
        std::iter::successors(before(number), |retired| before(retired.number)).collect()
    }

    /// After one more column, behind `columns` others.
    pub(super) fn with_column(&self, columns: usize) -> StoredColumns {
        let Some(moved) = &self.moved else { return StoredColumns::default() };
        let mut moved = (**moved).clone();
        moved.numbers.push(self.count(columns));
        StoredColumns { moved: Some(moved.into()) }
    }

    /// After one of the `columns` columns, of a type, was dropped; in a rollup table, it was a metric.
    pub(super) fn without_column(
        &self,
        columns: usize,
        column: usize,
        data_type: &DataType,
        metric: Option<StoredMetric>,
    ) -> StoredColumns {
        let mut moved = self.written_out(columns);
        let number = moved.numbers.remove(column);
        moved.retire(Retired { number, data_type: data_type.clone(), widened: None, metric });
        StoredColumns { moved: Some(moved.into()) }
    }

    /// After one of the `columns` columns, of a type, got another one.
    pub(super) fn with_wider(
        &self,
        columns: usize,
        column: usize,
        data_type: &DataType,
    ) -> StoredColumns {
        let wider = self.count(columns);
        let mut moved = self.written_out(columns);
        let number = std::mem::replace(&mut moved.numbers[column], wider);
        let (data_type, widened) = (data_type.clone(), Some(wider));
        moved.retire(Retired { number, data_type, widened, metric: None });
        StoredColumns { moved: Some(moved.into()) }
    }

    fn written_out(&self, columns: usize) -> Moved {
        let plain = || Moved { numbers: (0..columns).collect(), retired: Vec::new() };
        self.moved.as_ref().map_or_else(plain, |moved| (**moved).clone())
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let Some(moved) = &self.moved else { return };
        moved.numbers.iter().for_each(|&number| put_varint(out, number as u64));
        put_varint(out, moved.retired.len() as u64);
        for Retired { number, data_type, widened, metric } in &moved.retired {
            put_varint(out, *number as u64);
            put_column(&Field::new("", data_type.clone(), true), out);
            put_varint(out, widened.map_or(0, |number| number as u64 + 1));
            if let Some(metric) = metric {
                metric.encode(out);
            }
        }
    }

    /// Reads what [`StoredColumns::encode`] wrote of a table with `columns` columns. If it is a rollup table, its events
    /// have `events` columns. Fails on numbers that are not each given once.
    pub(super) fn decode(
        cursor: &mut Cursor<'_>,
        columns: usize,
        events: Option<usize>,
    ) -> Result<StoredColumns> {
        let mut numbers = Vec::new();
        for _ in 0..columns {
            numbers.push(cursor.varint()?);
        }
        let mut retired = Vec::new();
        for _ in 0..cursor.varint()? {
            let number = cursor.varint()?;
            let data_type = read_column(cursor)?.data_type().clone();
            let widened = cursor.varint()?;
            let metric = events.map(|columns| StoredMetric::decode(cursor, columns)).transpose()?;
            retired.push((number, data_type, widened, metric));
        }
        let count = (columns + retired.len()) as u64;
        let mut all: Vec<u64> =
            numbers.iter().copied().chain(retired.iter().map(|(number, ..)| *number)).collect();
        all.sort_unstable();
        let rises = retired.is_sorted_by(|(a, ..), (b, ..)| a < b);
        let is_later = |(number, _, widened, _): &(u64, DataType, u64, Option<StoredMetric>)| {
            *widened == 0 || (number + 2..=count).contains(widened)
        };
        if !all.into_iter().eq(0..count) || !rises || !retired.iter().all(is_later) {
            return Err(cursor.error("the numbers of stored columns are not each given once"));
        }
        let retired = retired.into_iter().map(|(number, data_type, widened, metric)| Retired {
            number: number as usize,
            data_type,
            widened: widened.checked_sub(1).map(|number| number as usize),
            metric,
        });
        let numbers = numbers.into_iter().map(|number| number as usize).collect();
        Ok(StoredColumns { moved: Some(Moved { numbers, retired: retired.collect() }.into()) })
    }
}

impl Moved {
    fn retire(&mut self, retired: Retired) {
        let at = self.retired.partition_point(|other| other.number < retired.number);
        self.retired.insert(at, retired);
    }
}

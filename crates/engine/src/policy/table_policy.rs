//! The merge policy of one table, by what it means for rows.
//!
//! | | append | upsert | rollup |
//! |---|---|---|---|
//! | a batch becomes | its rows | the last row of each key | one partial row of each key |
//! | rows with one key | all stay | the newest stays, unless it is a tombstone | their partial rows are combined |
//! | a stored row is shown | as it is | as it is | after all partial rows of its key were combined |

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{FieldRef, Schema, SchemaRef};
use drillcore_format::rows::{Groups, Layout, Projection, Rows};
use drillcore_format::schema::{MergePolicy, Rollup, TableSchema};

use crate::error::Result;
use crate::policy::batch_coder::BatchCoder;
use crate::policy::fold::Fold;
use crate::policy::rollup::{fold, partial_rows, shown};
use crate::schema::unit::Unit;

/// The merge policy of the table with a layout.
#[derive(Clone, Copy)]
pub struct TablePolicy<'l> {
    layout: &'l Layout,
}

impl<'l> TablePolicy<'l> {
    pub fn of(layout: &'l Layout) -> TablePolicy<'l> {
        TablePolicy { layout }
    }

    /// Whether each stored row is a row of the table, so that indexes alone can count rows.
    pub fn keeps_all(&self) -> bool {
        self.layout.schema().merge == MergePolicy::Append
    }

    /// Whether a row of the table may be stored as several partial ones.
    pub fn combines(&self) -> bool {
        self.layout.rollup().is_some()
    }

    /// Whether rows can be deleted by their key.
    pub fn deletes(&self) -> bool {
        self.layout.has_tombstones()
    }

    /// What becomes of equal keys where all rows of the table are merged.
    pub fn fold(&self) -> Fold {
        match self.layout.schema().merge {
            MergePolicy::Append => Fold::KeepAll,
            MergePolicy::Upsert { .. } => Fold::KeepNewest,
            MergePolicy::Rollup(_) => Fold::Combine(self.layout.clone()),
        }
    }

    /// The shape that batches must have, and which of their columns the key is made of: those of a rollup table are
    /// events.
    pub fn batches(&self) -> (Cow<'l, TableSchema>, Vec<usize>) {
        let schema = self.layout.schema();
        match self.layout.rollup() {
            None => (Cow::Borrowed(schema), schema.key.clone()),
            Some(rollup) => {
                let keyed = dimensions(schema, rollup);
                (Cow::Owned(events_schema(schema, rollup, &keyed)), keyed)
            }
        }
    }

    /// The rows that are stored for those of a batch of the right shape, in its order: with keys and texts by code where that is worth it.
    pub fn stored(&self, batch: &RecordBatch, coder: &BatchCoder) -> Rows {
        match self.layout.rollup() {
            None => {
                let coder = coder.next_batch();
                self.layout.encode_with(
                    batch,
                    |columns| coder.keys(columns),
                    |value, texts| coder.texts(value, texts),
                )
            }
            Some(rollup) => partial_rows(self.layout, rollup, batch, coder),
        }
    }

    /// Sorts a batch's stored rows by key, ties in the order given, and folds those with one key: before they are sorted where keys
    /// come again and again.
    pub fn sorted(&self, rows: &Rows) -> Result<Rows> {
        if let Some(rollup) = self.layout.rollup()
            && let Some(groups) = Groups::by_key(rows.keys())
        {
            let folded = fold(self.layout, rollup, rows, &groups)?;
            return Ok(self.resettled(folded.take(&folded.sort_permutation())));
        }
        let mut order = rows.sort_permutation();
        if self.deletes() {
            let key = |row: u32| rows.key(row as usize);
            let is_last =
                |at: usize| order.get(at + 1).is_none_or(|&next| key(next) != key(order[at]));
            order = (0..order.len()).filter(|&at| is_last(at)).map(|at| order[at]).collect();
        }
        // Taking copies even where the order is right: a run owns exactly its bytes, not a slice of the
        // caller's.
        let taken = rows.take(&order);
        let folded = self.folded(taken)?;
        Ok(match folded.len() == rows.len() {
            true => folded,
            false => self.resettled(folded),
        })
    }

    /// Fewer rows than came, with keys and texts by code where that is still worth it.
    fn resettled(&self, folded: Rows) -> Rows {
        self.settled(match folded.key_codes() {
            Some(_) => folded.with_settled_codes(self.layout.key_types()),
            None => folded,
        })
    }

    /// Rows sorted by key, of which those with one key become one where rows are combined.
    fn folded(&self, rows: Rows) -> Result<Rows> {
        let Some(rollup) = self.layout.rollup() else { return Ok(rows) };
        match Groups::of_sorted(rows.keys()) {
            None => Ok(rows),
            Some(groups) => fold(self.layout, rollup, &rows, &groups),
        }
    }

    /// Rows that came together, with texts by code where that is worth it now. Those that are combined have none but in their keys.
    pub fn settled(&self, rows: Rows) -> Rows {
        match self.combines() {
            true => rows,
            false => rows.with_settled_texts(),
        }
    }

    /// What must be read of whole rows to show some columns of them.
    pub fn projection(&self, columns: &[usize]) -> Projection {
        match self.combines() {
            // What is shown of a metric may be made of several values.
            true => self.layout.all(),
            false => self.layout.projection(columns),
        }
    }

    /// Some columns of whole rows, as they are shown.
    ///
    /// # Errors
    /// `OutOfRange` if a sum among the columns does not fit its type.
    pub fn shown(&self, rows: &Rows, columns: &[usize]) -> Result<RecordBatch> {
        match self.layout.rollup() {
            None => Ok(self.layout.decode(rows, columns)?),
            Some(rollup) => shown(self.layout, rollup, rows, columns),
        }
    }

    /// What is counted or drawn where `asked` is asked for: where rows are not combined, an event is a row.
    pub fn unit(&self, asked: Unit) -> Unit {
        match self.combines() {
            true => asked,
            false => Unit::Rows,
        }
    }

    /// Whether draws among what indexes find may meet what does not stay, and drop it: dead rows, or what fails a test. What is
    /// drawn has to be numbered through for that, and where rows are combined, only their events are.
    pub fn may_drop(&self, drawn: Unit, is_tested: bool) -> bool {
        (self.deletes() || is_tested) && (drawn == Unit::Events || !self.combines())
    }

    /// Those of some columns that stored rows hold as they are shown.
    pub fn stored_as_shown(&self, columns: &[usize]) -> Vec<usize> {
        columns.iter().copied().filter(|&column| self.stores_as_shown(column)).collect()
    }

    /// Whether a value that is shown may be null: what is combined may be, where what was appended is not.
    pub fn may_be_null(&self, column: usize) -> bool {
        self.layout.schema().columns.field(column).is_nullable() || !self.stores_as_shown(column)
    }

    /// Whether a stored row holds the value of this column that is shown of its row, or of an older version of it.
    pub fn stores_as_shown(&self, column: usize) -> bool {
        !self.combines() || self.layout.schema().key.contains(&column)
    }
}

/// The columns of a rollup table's events that its key is made of.
fn dimensions(schema: &TableSchema, rollup: &Rollup) -> Vec<usize> {
    let of_events = |&column: &usize| {
        let name = schema.columns.field(column).name();
        rollup.events.index_of(name).expect("the events have the key's columns")
    };
    schema.key.iter().map(of_events).collect()
}

/// The shape of a rollup table's events, keyed by the dimensions that all must have.
fn events_schema(schema: &TableSchema, rollup: &Rollup, dimensions: &[usize]) -> TableSchema {
    TableSchema::new(
        wanted_events(schema, rollup, dimensions),
        dimensions[..rollup.declared].to_vec(),
    )
}

/// The columns of a rollup table's events. Those that only dropped metrics were made of may be missing.
fn wanted_events(schema: &TableSchema, rollup: &Rollup, dimensions: &[usize]) -> SchemaRef {
    let dropped: Vec<usize> = schema
        .stored
        .retired()
        .iter()
        .filter_map(|retired| retired.metric?.input)
        .filter(|input| !rollup.is_input(*input) && !dimensions.contains(input))
        .collect();
    if dropped.is_empty() {
        return rollup.events.clone();
    }
    let field = |(column, field): (usize, &FieldRef)| match dropped.contains(&column) {
        true => Arc::new(field.as_ref().clone().with_nullable(true)),
        false => field.clone(),
    };
    let fields: Vec<FieldRef> = rollup.events.fields().iter().enumerate().map(field).collect();
    Arc::new(Schema::new(fields))
}

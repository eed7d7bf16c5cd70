//! Rows of small adds, copied together as they come.
//!
//! So the thread that made a small batch frees it, soon. Kept until the commit, each row would hold an allocation for every
//! buffer, and the thread that commits would free what another allocates from.

use std::sync::Arc;

use arrow_array::builder::{
    ArrayBuilder, BinaryBuilder, BooleanBuilder, PrimitiveBuilder, StringBuilder, make_builder,
};
use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch, downcast_primitive};
use arrow_schema::{DataType, SchemaRef};

use crate::database::background_writer::add::Part;
use crate::database::handles::Table;

/// Batches of more rows are not small.
const ROWS_MAX: usize = 256;
/// Bytes that are copied together: the strings of a column stay below 2 GiB.
const BYTES_MAX: u64 = 1 << 30;

/// Rows of one table with the same columns.
pub struct GrowingRows {
    table: Table,
    schema: SchemaRef,
    columns: Vec<Box<dyn ArrayBuilder>>,
    bytes: u64,
}

impl GrowingRows {
    /// For rows such as those of a small batch, which are not pushed yet; `None` if it is not small, or has lists.
    pub fn begin(part: &Part, bytes: u64) -> Option<GrowingRows> {
        let schema = part.batch.schema();
        let types = || schema.fields().iter().map(|field| field.data_type());
        let can_grow = !schema.fields().is_empty() && types().all(can_grow);
        if !can_grow || !is_small(part, bytes) {
            return None;
        }
        let columns = types().map(|of| make_builder(of, ROWS_MAX)).collect();
        Some(GrowingRows { table: part.table.clone(), schema, columns, bytes: 0 })
    }

    /// Whether a batch is small, and of the same table and columns.
    pub fn takes(&self, part: &Part, bytes: u64) -> bool {
        is_small(part, self.bytes + bytes) && self.has_columns_of(part).unwrap_or(false)
    }

    /// Whether a batch of this table has the same columns; `None` if it is of another.
    pub fn has_columns_of(&self, part: &Part) -> Option<bool> {
        let given = part.batch.schema_ref();
        let is_same = || Arc::ptr_eq(&self.schema, given) || self.schema == *given;
        (self.table.id() == part.table.id()).then(is_same)
    }

    /// Copies the rows of a batch that it takes.
    pub fn push(&mut self, batch: &RecordBatch, bytes: u64) {
        self.bytes += bytes;
        self.columns.iter_mut().zip(batch.columns()).for_each(|(to, from)| extend(to, from));
    }

    /// All of them as one batch.
    pub fn finish(mut self) -> Part {
        let columns = self.columns.iter_mut().map(|column| column.finish()).collect();
        let batch = RecordBatch::try_new(self.schema, columns);
        Part { table: self.table, batch: batch.expect("every batch had these columns") }
    }
}

fn is_small(part: &Part, bytes: u64) -> bool {
    part.batch.num_rows() <= ROWS_MAX && bytes <= BYTES_MAX
}

fn can_grow(of: &DataType) -> bool {
    of.is_primitive() || matches!(of, DataType::Boolean | DataType::Utf8 | DataType::Binary)
}

fn extend(to: &mut Box<dyn ArrayBuilder>, from: &dyn Array) {
    fn of<B: ArrayBuilder>(to: &mut Box<dyn ArrayBuilder>) -> &mut B {
        to.as_any_mut().downcast_mut().expect("the builder is of the column's type")
    }
    const SHORT: &str = "less than 2 GiB are copied together";
    macro_rules! primitive {
        ($type:ty) => {
            of::<PrimitiveBuilder<$type>>(to).append_array(from.as_primitive())
        };
    }
    downcast_primitive! {
        from.data_type() => (primitive),
        DataType::Boolean => of::<BooleanBuilder>(to).append_array(from.as_boolean()),
        DataType::Utf8 => of::<StringBuilder>(to).append_array(from.as_string()).expect(SHORT),
        DataType::Binary => of::<BinaryBuilder>(to).append_array(from.as_binary()).expect(SHORT),
        other => unreachable!("{other} cannot grow")
    }
}

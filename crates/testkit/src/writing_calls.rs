//! Every call that writes, on a database made for it: for tests that go through all of them.

use std::sync::Arc;

use drillcore::arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::*;

/// A call that succeeds once on what [`prepare`] makes.
pub type WritingCall = fn(&Database) -> Result<()>;

/// Rows of each table after [`prepare`].
pub const ROWS: u64 = 30;

/// All of them. Those up to the first that is no append commit rows.
pub const WRITING_CALLS: [(&str, WritingCall); 20] = [
    ("append", |db| db.table("events")?.append(&batch(100..110), OnError::Raise).map(drop)),
    ("append to several tables", |db| {
        let batch = batch(100..110);
        db.append(&[("events", &batch), ("newest", &batch)]).map(drop)
    }),
    ("append that discovers", |db| {
        let wider = batch(100..110);
        let mut columns: Vec<(String, ArrayRef)> = Vec::new();
        for (field, column) in wider.schema_ref().fields().iter().zip(wider.columns()) {
            columns.push((field.name().clone(), column.clone()));
        }
        columns.push(("city".into(), Arc::new(StringArray::from(vec!["Oslo"; 10]))));
        let wider = RecordBatch::try_from_iter(columns).expect("the columns have one length");
        db.table("folded")?.append(&wider, OnError::Raise).map(drop)
    }),
    ("delete", |db| db.table("newest")?.delete(&[ids(0..3)]).map(drop)),
    ("update", |db| {
        let columns = [("id", ids(0..3)), ("set", ids(0..3))];
        let batch = RecordBatch::try_from_iter(columns).expect("the columns have one length");
        db.table("newest")?.update(&[batch], Missing::Skip).map(drop)
    }),
    ("flush", |db| db.flush()),
    ("compact", |db| db.compact()),
    ("named_snapshot", |db| db.named_snapshot("new").map(drop)),
    ("drop_snapshot", |db| db.drop_snapshot("old")),
    ("index_sets", |db| db.table("events")?.index_sets(&ids(1..2))),
    ("index_all_sets", |db| db.table("events")?.index_all_sets()),
    ("unindex_all_sets", |db| db.table("newest")?.unindex_all_sets()),
    ("add_column", |db| db.table("events")?.add_column("added", &DataType::Float64)),
    ("rename_column", |db| db.table("events")?.rename_column("set", "group")),
    ("drop_column", |db| {
        db.table("newest")?.add_column("short", &DataType::Int8)?;
        db.table("newest")?.widen("short", &DataType::Int32)?;
        db.table("newest")?.drop_column("short")
    }),
    ("rename_table", |db| db.rename_table("folded", "hourly").map(drop)),
    ("copy_table", |db| db.copy_table("newest", "copy").map(drop)),
    ("create_table", |db| db.create_table("new", three_sets_spec(Merge::Append, true)).map(drop)),
    ("drop_table", |db| db.drop_table("events")),
    ("drop_table of segments", |db| {
        db.compact()?;
        db.drop_table("newest")
    }),
];

/// Makes a table of each kind with rows in two segments and in memory, and a named snapshot.
pub fn prepare(db: &Database) -> Result<()> {
    let folds = RollupSpec {
        time: None,
        granularity: Granularity::NONE,
        metrics: vec![("n".into(), Metric::Count)],
        discover: true,
    };
    db.create_table("events", three_sets_spec(Merge::Append, false))?;
    db.create_table("newest", three_sets_spec(Merge::Upsert, true))?;
    let folded = TableSpec { set: None, ..three_sets_spec(Merge::Rollup(folds), true) };
    db.create_table("folded", folded)?;
    for first in [0, 10, 20] {
        let batch = batch(first..first + 10);
        db.append(&[("events", &batch), ("newest", &batch), ("folded", &batch)])?;
        match first {
            20 => {}
            _ => db.flush()?,
        }
    }
    db.named_snapshot("old").map(drop)
}

fn three_sets_spec(merge: Merge, set_index: bool) -> TableSpec {
    let fields = ["id", "set"].map(|name| Field::new(name, DataType::Int64, true));
    TableSpec {
        set_index,
        ..TableSpec::new(Arc::new(Schema::new(fields.to_vec())), ["id"]).set("set").merge(merge)
    }
}

fn ids(ids: std::ops::Range<i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(ids))
}

/// Rows with these ids, in three sets.
pub fn batch(range: std::ops::Range<i64>) -> RecordBatch {
    let sets: ArrayRef = Arc::new(Int64Array::from_iter_values(range.clone().map(|id| id % 3)));
    RecordBatch::try_from_iter([("id", ids(range)), ("set", sets)])
        .expect("the columns have one length")
}

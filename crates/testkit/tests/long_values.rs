//! Values of megabytes: whatever collects rows stops by their bytes, not by their number alone.
//!
//! The bounds are small in this process, so that strings of some hundred bytes are as long for it as values of
//! megabytes are for others: random operations take every path on which rows are collected. What would build an
//! array of strings beyond the bound fails.

use std::sync::Arc;

use drillcore::arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::{Database, ErrorKind, OnError, Options, TableSpec};
use drillcore_format::byte_bounds;
use drillcore_testkit::random_ops::RandomOps;
use drillcore_testkit::repetitions::repetitions;

/// Operations of one run.
const STEPS: usize = 120;

/// Instead of 2 GiB, 16 MiB, 4 MiB and 16 KiB. A commit is a quarter of the least memory, 256 KiB, at most.
const ARRAY_BYTES: usize = 512 << 10;
const BATCH_BYTES: usize = 8 << 10;
const CHUNK_BYTES: usize = 2 << 10;
const TRAINING_BYTES: usize = 256;
/// Instead of 64 MiB: a few sets of a segment have room, or some dozens.
const LISTS_BYTES: [usize; 2] = [512, 4 << 10];

#[test]
fn every_read_agrees_with_the_model_where_a_few_rows_are_as_much_as_is_read_at_once() {
    byte_bounds::set(ARRAY_BYTES, BATCH_BYTES, CHUNK_BYTES, TRAINING_BYTES);
    for seed in 0..repetitions(4) {
        byte_bounds::set_lists(LISTS_BYTES[seed as usize % LISTS_BYTES.len()]);
        let folder = tempfile::tempdir().unwrap();
        RandomOps::new(folder.path().join("db"), 1_000 + seed).run(STEPS);
    }
}

/// Runs hold texts that repeat by code, in a few bytes; together they fit no array.
#[test]
fn keys_whose_texts_by_code_fit_no_array_are_refused() {
    byte_bounds::set(ARRAY_BYTES, BATCH_BYTES, CHUNK_BYTES, TRAINING_BYTES);
    let db = Database::in_memory(Options::default()).unwrap();
    let columns =
        vec![Field::new("id", DataType::Int64, false), Field::new("note", DataType::Utf8, false)];
    let columns = Arc::new(Schema::new(columns));
    let table = db.create_table("t", TableSpec::new(columns.clone(), ["id"])).unwrap();
    let keys = |ids: std::ops::Range<i64>| Arc::new(Int64Array::from_iter_values(ids)) as ArrayRef;
    for first in [0, 2_000] {
        let ids = first..first + 2_000;
        let notes = ids.clone().map(|id| format!("{:0200}", id % 8 + first));
        let arrays = vec![keys(ids), Arc::new(StringArray::from_iter_values(notes)) as ArrayRef];
        let batch = RecordBatch::try_new(columns.clone(), arrays).unwrap();
        table.append(&batch, OnError::Raise).unwrap();
    }
    let table = table.snapshot().unwrap();
    let few = table.get(&[keys(1_000..3_000)], None).unwrap();
    assert_eq!(few.rows.num_rows(), 2_000);
    let error = table.get(&[keys(0..4_000)], None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("800000 bytes of strings"), "{error}");
}

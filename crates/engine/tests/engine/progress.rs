//! How far a long call is, as another thread sees it.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use drillcore::arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::*;

const ROWS: i64 = 400_000;

/// Two levels on disk whose keys overlap, and a table that is one segment already.
fn database() -> (tempfile::TempDir, Database, Table) {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path().join("db"), Options::default()).unwrap();
    let columns = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("s", DataType::Utf8, false),
    ]));
    let spec = || TableSpec::new(columns.clone(), ["id"]).set("s").without_set_index();
    let table = db.create_table("t", spec()).unwrap();
    let other = db.create_table("other", spec()).unwrap();
    for part in 0..2 {
        let ids = (0..ROWS).filter(|id| id % 2 == part);
        let sets: ArrayRef =
            Arc::new(StringArray::from_iter_values(ids.clone().map(|id| format!("s{}", id % 50))));
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(ids));
        let batch = RecordBatch::try_new(columns.clone(), vec![ids, sets]).unwrap();
        table.append(&batch, OnError::Raise).unwrap();
        if part == 0 {
            other.append(&batch, OnError::Raise).unwrap();
        }
        db.flush().unwrap();
    }
    (folder, db, table)
}

/// The shares that a thread sees while another makes a call.
fn seen(call: impl FnOnce(&Progress) + Send) -> (Vec<f64>, Progress) {
    let progress = Progress::default();
    assert_eq!(progress.share(), None);
    let shares = thread::scope(|scope| {
        let called = scope.spawn(|| call(&progress));
        let mut shares = Vec::new();
        while !called.is_finished() {
            shares.extend(progress.share());
            thread::sleep(Duration::from_micros(200));
        }
        called.join().unwrap();
        shares
    });
    (shares, progress)
}

fn assert_seen_on_the_way(shares: &[f64]) {
    assert!(shares.is_sorted(), "{shares:?}");
    let between = shares.iter().filter(|share| (0.01..0.99).contains(*share));
    assert!(between.count() > 2, "{shares:?}");
}

#[test]
fn another_thread_sees_how_far_merges_indexing_and_checks_are() {
    let (_folder, db, table) = database();
    table.index_all_sets().unwrap();
    let (_, indexing) = seen(|progress| table.wait_for_set_index_with(progress).unwrap());
    assert_eq!(indexing.done(), indexing.total());

    let (shares, merging) = seen(|progress| db.compact_with(progress).unwrap());
    assert_seen_on_the_way(&shares);
    assert_eq!(
        (merging.done(), merging.total()),
        (ROWS as u64, ROWS as u64),
        "other is one already"
    );
    assert_eq!(merging.share(), Some(1.0));
    let (_, nothing) = seen(|progress| db.compact_with(progress).unwrap());
    assert_eq!((nothing.done(), nothing.share()), (0, None));

    let mut report = None;
    let (shares, checking) = seen(|progress| report = Some(db.verify_with(progress).unwrap()));
    assert_seen_on_the_way(&shares);
    assert_eq!(checking.done(), report.unwrap().bytes);
    assert_eq!(checking.share(), Some(1.0));
}

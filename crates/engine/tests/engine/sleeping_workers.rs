//! Whatever a call leaves for workers is done by them, though no other call comes that would wake them.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use drillcore::*;

use crate::fixtures::{
    integers, key, of_keys, of_set, place_rows, places_spec, value_rows, values_spec, wait_until,
};

const ROWS: i64 = 10_000;

/// Long enough for workers that have nothing to do to fall asleep.
fn let_sleep() {
    thread::sleep(Duration::from_millis(100));
}

/// What a case does to a table of rows on disk.
type Change = fn(&Table);

#[test]
fn rows_on_disk_that_were_deleted_are_reclaimed() {
    let cases: [(&str, Merge, Change); 5] = [
        ("a key range", Merge::Append, |table| {
            table.delete_selected(&of_keys(0, ROWS - 2)).unwrap();
        }),
        ("a set", Merge::Append, |table| {
            table.delete_selected(&of_set("Rome")).unwrap();
        }),
        ("all rows", Merge::Append, |table| {
            table.truncate().unwrap();
        }),
        ("a key range of an upsert table", Merge::Upsert, |table| {
            table.delete_selected(&of_keys(0, ROWS - 2)).unwrap();
        }),
        ("keys", Merge::Upsert, |table| {
            table.delete(&[integers(0..ROWS - 1)]).unwrap();
        }),
    ];
    for durability in [Durability::Os, Durability::Fsync, Durability::None] {
        for may_stop in [false, true] {
            for (what, merge, change) in &cases {
                let folder = tempfile::tempdir().unwrap();
                let options = Options { durability, ..Options::default() };
                let db = Database::open(folder.path(), options).unwrap();
                let table = db.create_table("t", places_spec(merge.clone())).unwrap();
                table.append(&place_rows(0..ROWS, "Rome"), OnError::Raise).unwrap();
                table.append(&place_rows(ROWS..ROWS + 10, "Oslo"), OnError::Raise).unwrap();
                db.flush().unwrap();
                db.compact().unwrap();
                let_sleep();
                match may_stop {
                    true => change(&table.interrupted_by(Interrupt::new(Arc::new(|| false)))),
                    false => change(&table),
                }
                let rows = || {
                    let stats = &db.stats().unwrap().tables[0];
                    (stats.rows, stats.erased_rows)
                };
                let what = format!("{what}, {durability:?}, {may_stop}");
                wait_until(&what, || rows().0 <= 20 && rows().1 == 0);
            }
        }
    }
}

#[test]
fn what_fills_memory_or_the_log_is_flushed() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { wal_bytes_max: 20_000, ..Options::default() };
    let db = Database::open(folder.path(), options).unwrap();
    let table = db.create_table("t", values_spec(Merge::Append)).unwrap();
    let wal_bytes = || db.stats().unwrap().wal_bytes;
    table.append(&value_rows(0..10, 1), OnError::Raise).unwrap();
    let_sleep();
    table.append(&value_rows(10..ROWS, 1), OnError::Raise).unwrap();
    wait_until("a long log of rows", || wal_bytes() < 20_000);

    table.append(&value_rows(0..10, 1), OnError::Raise).unwrap();
    let_sleep();
    // No row is with them that would be compacted.
    let position = SourcePosition { source: "topic".into(), position: vec![7; 30_000] };
    db.prepare(&[], OnError::Raise).unwrap().commit(&[position]).unwrap();
    wait_until("a long log of positions", || wal_bytes() < 20_000);
}

fn now(table: &Table) -> TableSnapshot {
    table.snapshot().unwrap()
}

/// Reads of a table of several runs, `n` times.
type Reads = fn(&Table, n: i64);

#[test]
fn runs_that_reads_search_often_are_compacted() {
    let cases: [(&str, Reads); 4] = [
        ("gets", |table, n| {
            (0..n).for_each(|n| drop(now(table).get(&key(n % ROWS), None).unwrap()));
        }),
        ("one get of many keys", |table, n| drop(now(table).get(&[integers(0..n)], None).unwrap())),
        ("counts", |table, n| {
            for n in 0..n {
                assert_eq!(now(table).count(&of_keys(n, n)).unwrap(), 1);
            }
        }),
        ("samples", |table, n| {
            for n in 0..n {
                let selection = of_keys(n, n + 10);
                let request = SampleRequest { n: 3, selection, ..SampleRequest::default() };
                assert_eq!(now(table).sample(&request).unwrap().num_rows(), 3);
            }
        }),
    ];
    for merge in [Merge::Append, Merge::Upsert] {
        for (what, read) in &cases {
            let db = Database::in_memory(Options::default()).unwrap();
            let table = db.create_table("t", values_spec(merge.clone())).unwrap();
            // Fewer than are compacted for their number.
            for run in 0..5 {
                let ids = (run..ROWS).step_by(5);
                table.append(&value_rows(ids, 1), OnError::Raise).unwrap();
            }
            let runs = || now(&table).pieces();
            read(&table, 300);
            let_sleep();
            assert_eq!(runs(), 5, "{what}: that is not worth it");
            // To merge all takes some 12,000 units, and a search fewer of four spares 16.
            read(&table, 3_000);
            wait_until(what, || runs() == 1);
            assert_eq!(now(&table).rows().unwrap(), ROWS as u64);
        }
    }
}

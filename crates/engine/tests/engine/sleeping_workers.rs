//! Whatever a call leaves for workers is done by them, though no other call comes that would wake them.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use drillcore::*;

use crate::fixtures::{
    integers, key, of_keys, of_set, place_rows, places_spec, value_rows, values_spec, wait_until,
};

const ROWS: i64 = 10_000;

/// Long enough for workers to find that tables rest, and to fall asleep as they have nothing to do.
fn let_sleep() {
    thread::sleep(Duration::from_millis(300));
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
            // Fewer than are compacted for their number, and each so large that no rest has it rewritten for later ones.
            for run in [0..850, 850..980, 980..1_000] {
                let ids = (0..ROWS).filter(|id| run.contains(&(id % 1_000)));
                table.append(&value_rows(ids, 1), OnError::Raise).unwrap();
            }
            let runs = || now(&table).pieces();
            read(&table, 300);
            let_sleep();
            assert_eq!(runs(), 3, "{what}: that is not worth it");
            // To merge the two small ones and then all takes some 14,000 units, and a search fewer of both spares 4.
            read(&table, ROWS - 10);
            wait_until(what, || runs() == 1);
            assert_eq!(now(&table).rows().unwrap(), ROWS as u64);
        }
    }
}

#[test]
fn runs_of_a_table_that_rests_are_compacted() {
    for merge in [Merge::Append, Merge::Upsert] {
        let db = Database::in_memory(Options::default()).unwrap();
        let table = db.create_table("t", values_spec(merge.clone())).unwrap();
        let runs = || now(&table).pieces();
        let hold = db.hold_maintenance();
        for run in 0..5 {
            let ids = (run..ROWS).step_by(5);
            table.append(&value_rows(ids, 1), OnError::Raise).unwrap();
        }
        assert_eq!(runs(), 5);
        drop(hold);
        wait_until("runs of the same size", || runs() == 1);
        assert_eq!(now(&table).rows().unwrap(), ROWS as u64);
        // No worker looks at it any more.
        let_sleep();
        table.append(&value_rows(ROWS..ROWS + 1_000, 1), OnError::Raise).unwrap();
        let_sleep();
        assert_eq!(runs(), 2, "a tenth of its rows is not worth a copy of all");
        table.append(&value_rows(ROWS + 1_000..2 * ROWS, 1), OnError::Raise).unwrap();
        wait_until("as many rows as before", || runs() == 1);
        assert_eq!(now(&table).rows().unwrap(), 2 * ROWS as u64);
    }
}

#[test]
fn runs_of_a_table_that_was_flushed_are_compacted_at_the_next_rest() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", values_spec(Merge::Append)).unwrap();
    let runs = || db.stats().unwrap().tables[0].runs;
    for pause in [Duration::ZERO, Duration::from_millis(50), Duration::from_millis(300)] {
        table.append(&value_rows(0..10, 1), OnError::Raise).unwrap();
        table.append(&value_rows(5..15, 1), OnError::Raise).unwrap();
        thread::sleep(pause);
        db.flush().unwrap();
        let_sleep();
        table.append(&value_rows(0..10, 1), OnError::Raise).unwrap();
        table.append(&value_rows(5..15, 1), OnError::Raise).unwrap();
        wait_until("two runs are one", || runs() == 1);
    }
}

#[test]
fn a_table_that_rested_without_room_is_compacted_once_there_is_some() {
    let db = Database::in_memory(Options { memory_bytes: 4 << 20, ..Options::default() }).unwrap();
    let table = db.create_table("t", values_spec(Merge::Append)).unwrap();
    let other = db.create_table("other", values_spec(Merge::Append)).unwrap();
    // More than half of what may be held before rows are flushed.
    for batch in 0..7 {
        let ids = batch * 20_000..(batch + 1) * 20_000;
        other.append(&value_rows(ids, 1), OnError::Raise).unwrap();
    }
    let hold = db.hold_maintenance();
    for run in 0..2 {
        table.append(&value_rows((run..30_000).step_by(2), 1), OnError::Raise).unwrap();
    }
    drop(hold);
    let_sleep();
    let held = db.stats().unwrap().buffered_bytes;
    assert_eq!(now(&table).pieces(), 2, "there is no room, as {held} bytes are held");
    drop(other);
    db.drop_table("other").unwrap();
    wait_until("there is room", || now(&table).pieces() == 1);
}

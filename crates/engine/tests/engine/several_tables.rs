//! What a commit to one table leaves the others.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use drillcore::arrow_array::{ArrayRef, RecordBatch, TimestampSecondArray};
use drillcore::arrow_schema::{DataType, TimeUnit};
use drillcore::*;

use crate::fixtures::{
    all_ids, ids, integers, key, of_keys, of_set, pairs, place_rows, places_spec, schema_of,
    value_rows, values_spec, wait_until,
};

fn rows_examined(db: &Database) -> u64 {
    db.stats().unwrap().rows_examined
}

/// Two upsert tables, in each of which ten rows of a hundred were replaced.
fn two_tables(db: &Database) -> [Table; 2] {
    ["first", "second"].map(|name| {
        let table = db.create_table(name, values_spec(Merge::Upsert)).unwrap();
        table.append(&value_rows(0..100, 1), OnError::Raise).unwrap();
        table.append(&value_rows(0..10, 2), OnError::Raise).unwrap();
        table
    })
}

#[test]
fn what_was_found_out_of_a_table_outlives_commits_to_others() {
    let db = Database::in_memory(Options::default()).unwrap();
    let _hold = db.hold_maintenance();
    let [first, second] = two_tables(&db);
    let selection = of_keys(5, 50);
    // The rows that a count examines.
    let counted = || {
        let before = rows_examined(&db);
        assert_eq!(first.snapshot().unwrap().count(&selection).unwrap(), 46);
        rows_examined(&db) - before
    };
    let (unknown, known) = (counted(), counted());
    assert!(
        known < unknown,
        "the ends of the range are looked for, and no row: {known}, {unknown}"
    );
    for id in 100..110 {
        second.append(&value_rows(id..id + 1, 1), OnError::Raise).unwrap();
        assert_eq!(counted(), known);
        assert_eq!(second.snapshot().unwrap().rows().unwrap(), id as u64 + 1);
    }
    first.append(&value_rows(3..8, 3), OnError::Raise).unwrap();
    assert!(counted() > known, "five rows are new");
}

#[test]
fn the_log_goes_with_the_tables_that_need_it() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let log_bytes = |db: &Database| db.stats().unwrap().wal_bytes;
    let [first, second] = two_tables(&db);
    let whole = log_bytes(&db);
    db.drop_table("second").unwrap();
    assert_eq!(log_bytes(&db), whole, "the first table has older commits");
    first.append(&value_rows(0..1, 7), OnError::Raise).unwrap();
    db.drop_table("first").unwrap();
    assert_eq!(log_bytes(&db), 0);
    let in_folder = std::fs::read_dir(folder.path()).unwrap();
    let names: Vec<_> = in_folder.map(|entry| entry.unwrap().file_name()).collect();
    let is_log = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("wal-");
    assert!(!names.iter().any(is_log), "{names:?}");
    let third = db.create_table("third", values_spec(Merge::Upsert)).unwrap();
    third.append(&value_rows(0..5, 1), OnError::Raise).unwrap();
    drop((first, second, third));
    db.close().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    assert_eq!(all_ids(&db.table("third").unwrap().snapshot().unwrap()), [0, 1, 2, 3, 4]);
}

#[test]
fn a_table_shows_the_commit_of_its_snapshot_whenever_it_changed_last() {
    let db = Database::in_memory(Options::default()).unwrap();
    let _hold = db.hold_maintenance();
    let [first, second] = two_tables(&db);
    let before = first.snapshot().unwrap();
    let lsn = second.append(&value_rows(0..1, 5), OnError::Raise).unwrap().lsn;
    let of_first = first.snapshot().unwrap();
    assert!(before.lsn() < lsn);
    assert_eq!(of_first.lsn(), lsn);
    let oldest = || db.stats().unwrap().writer.unwrap().oldest_snapshot_lsn;
    assert_eq!(oldest(), Some(before.lsn()));
    drop(before);
    assert_eq!(oldest(), None, "the other is the newest");
    second.append(&value_rows(0..1, 6), OnError::Raise).unwrap();
    assert_eq!(oldest(), Some(lsn));
    drop(of_first);
    assert_eq!(oldest(), None);
}

/// Commits to two tables at once, shapes, names and tables that come and go: each snapshot shows all of it.
#[test]
fn snapshots_follow_tables_that_come_go_and_change() {
    let db = Database::in_memory(Options::default()).unwrap();
    let [first, second] = two_tables(&db);
    let names = || db.snapshot().unwrap().tables();
    let ids = |table: &Table| all_ids(&table.snapshot().unwrap());
    let until = |last: i64| (0..last).collect::<Vec<i64>>();
    assert_eq!((names(), ids(&first)), (vec!["first".into(), "second".into()], until(100)));
    db.rename_table("second", "renamed").unwrap();
    second.append(&value_rows(100..110, 1), OnError::Raise).unwrap();
    assert_eq!((names(), ids(&second)), (vec!["first".into(), "renamed".into()], until(110)));
    let third = db.create_table("second", values_spec(Merge::Append)).unwrap();
    assert_eq!((names().len(), ids(&third)), (3, until(0)));
    db.append(&[("first", &value_rows(100..120, 4)), ("second", &value_rows(0..5, 4))]).unwrap();
    assert_eq!((ids(&first), ids(&third), ids(&second)), (until(120), until(5), until(110)));
    db.flush().unwrap();
    db.drop_table("renamed").unwrap();
    first.delete_selected(&of_keys(0, 99)).unwrap();
    let shown = db.snapshot().unwrap();
    assert_eq!(shown.tables(), ["first", "second"]);
    assert_eq!(
        pairs(&shown.table("first").unwrap()),
        (100..120).map(|id| (id, 4)).collect::<Vec<_>>()
    );
    assert_eq!(second.snapshot().unwrap_err().kind(), ErrorKind::NotFound);
    third.set_ttl(Some(("id", Duration::from_secs(1)))).unwrap_err();
    assert_eq!(ids(&third), until(5));
}

/// Workers look at tables that changed only. Here they have looked at all, and found nothing, before any of these does.
#[test]
fn workers_find_what_there_is_to_do_in_any_of_many_tables() {
    let db = Database::in_memory(Options::default()).unwrap();
    let tables: Vec<Table> = (0..50)
        .map(|number| db.create_table(&format!("{number}"), values_spec(Merge::Append)).unwrap())
        .collect();
    thread::sleep(Duration::from_millis(100));
    let segments = |table: &Table| {
        let stats = db.stats().unwrap();
        stats.tables.iter().find(|of| of.name == table.name()).unwrap().segments
    };
    for (number, table) in tables.iter().enumerate().step_by(7) {
        for batch in 0..9 {
            table.append(&value_rows(batch..batch + 100, number as i64), OnError::Raise).unwrap();
            db.flush().unwrap();
        }
        wait_until("its segments are merged", || segments(table) <= 4);
    }
}

/// Reads of a table want its runs compacted, and memory has no room for the copy until rows of another are flushed.
#[test]
fn runs_that_reads_search_are_compacted_as_soon_as_there_is_room() {
    let memory_bytes = 4 << 20;
    let db = Database::in_memory(Options { memory_bytes, ..Options::default() }).unwrap();
    let read = db.create_table("read", values_spec(Merge::Append)).unwrap();
    let written = db.create_table("written", values_spec(Merge::Append)).unwrap();
    // So much smaller than the one before that no rest has them compacted.
    for run in [0..850, 850..980, 980..1_000] {
        let ids = (0..50_000).filter(|id| run.contains(&(id % 1_000)));
        read.append(&value_rows(ids, 1), OnError::Raise).unwrap();
    }
    let mut next = 0;
    let mut write = || {
        written.append(&value_rows(next..next + 1_000, 1), OnError::Raise).unwrap();
        next += 1_000;
    };
    // What was written is compacted meanwhile, which may leave room again.
    let is_full = || db.stats().unwrap().buffered_bytes >= memory_bytes / 2 - 60_000;
    while !is_full() {
        while !is_full() {
            write();
        }
        thread::sleep(Duration::from_millis(300));
    }
    let runs = || read.snapshot().unwrap().pieces();
    for id in 0..3_300 {
        read.snapshot().unwrap().get(&key(id), None).unwrap();
    }
    thread::sleep(Duration::from_millis(200));
    assert_eq!(runs(), 3, "there is no room");
    while db.stats().unwrap().writer.unwrap().flushes == 0 {
        write();
    }
    wait_until("there is room by now", || {
        // On a busy machine memory may be full again before the flush is seen.
        if db.stats().unwrap().buffered_bytes > memory_bytes / 2 - 250_000 {
            write();
        }
        (0..100).for_each(|id| drop(read.snapshot().unwrap().get(&key(id), None).unwrap()));
        runs() < 3
    });
}

/// A snapshot that was asked while sets were being listed is not what later ones go by.
#[test]
fn sizes_of_sets_are_known_once_they_are_listed() {
    let db = Database::in_memory(Options::default()).unwrap();
    let spec = places_spec(Merge::Append).without_set_index();
    let table = db.create_table("t", spec).unwrap();
    for place in ["Rome", "Oslo", "Bern"] {
        table.append(&place_rows(0..50_000, place), OnError::Raise).unwrap();
    }
    db.flush().unwrap();
    let are_exact = || {
        let request = EstimateRequest {
            aggregates: vec![("count".into(), Aggregate::Count)],
            by: vec!["place".into()],
            stop: Stop::Rows(2_000),
            seed: Some(1),
            ..EstimateRequest::default()
        };
        let estimate = table.snapshot().unwrap().estimate(&request).unwrap();
        estimate.aggregates[0].intervals.iter().all(|interval| interval.low == interval.high)
    };
    let hold = db.hold_maintenance();
    table.index_all_sets().unwrap();
    assert!(!are_exact());
    drop(hold);
    table.wait_for_set_index().unwrap();
    assert!(are_exact());
}

#[test]
fn a_snapshot_is_not_old_because_time_passes() {
    let db = Database::in_memory(Options::default()).unwrap();
    let at = DataType::Timestamp(TimeUnit::Second, None);
    let columns = schema_of(&[("id", DataType::Int64, false), ("at", at, false)]);
    let spec = TableSpec::new(columns, ["id"]).ttl("at", Duration::from_secs(3_600));
    let table = db.create_table("t", spec).unwrap();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let times: ArrayRef = Arc::new(TimestampSecondArray::from(vec![now as i64]));
    let batch = RecordBatch::try_from_iter([("id", integers([1])), ("at", times)]).unwrap();
    table.append(&batch, OnError::Raise).unwrap();
    let held = table.snapshot().unwrap();
    thread::sleep(Duration::from_millis(1_500));
    table.snapshot().unwrap();
    assert_eq!(db.stats().unwrap().writer.unwrap().oldest_snapshot_lsn, None);
    table.append(&batch, OnError::Raise).unwrap();
    assert_eq!(db.stats().unwrap().writer.unwrap().oldest_snapshot_lsn, Some(held.lsn()));
}

/// Ten tables that do not change, in each of which a set has to be looked for: there is room for six lists of its rows.
#[test]
fn lists_that_reads_leave_take_a_share_of_memory_whatever_the_tables() {
    const MEMBERS: i64 = 10_000;
    const LIST_BYTES: u64 = 4 * MEMBERS as u64;
    let options = Options { memory_bytes: Options::MEMORY_BYTES_MIN, ..Options::default() };
    let limit = options.memory_bytes / 4;
    let db = Database::in_memory(options).unwrap();
    let tables: Vec<Table> = (0..10)
        .map(|number| {
            let spec = places_spec(Merge::Append).without_set_index();
            let table = db.create_table(&format!("{number}"), spec).unwrap();
            table.append(&place_rows(0..1_000, "Oslo"), OnError::Raise).unwrap();
            table.append(&place_rows(1_000..1_000 + MEMBERS, "Rome"), OnError::Raise).unwrap();
            table
        })
        .collect();
    db.compact().unwrap();
    let (list_bytes, snapshot) = (|| db.stats().unwrap().list_bytes, db.snapshot().unwrap());
    assert_eq!(list_bytes(), 0);
    let draw = |table: &Table| {
        let selection = of_set("Rome");
        let request = SampleRequest { n: 10, selection, seed: Some(1), ..Default::default() };
        ids(&snapshot.table(table.name()).unwrap().sample(&request).unwrap())
    };
    let drawn = draw(&tables[0]);
    assert_eq!(list_bytes(), LIST_BYTES);
    // The last two find their lists again.
    for table in tables.iter().chain(&tables[8..]) {
        assert_eq!(draw(table), drawn);
        assert!(list_bytes() <= limit, "{} of {limit}", list_bytes());
    }
    assert_eq!(list_bytes(), limit / LIST_BYTES * LIST_BYTES);
    tables[9].append(&place_rows(0..1, "Oslo"), OnError::Raise).unwrap();
    drop(snapshot);
    db.snapshot().unwrap();
    assert_eq!(list_bytes(), (limit / LIST_BYTES - 1) * LIST_BYTES, "one goes with its version");
}

//! Segments of some of the keys: what flushes and merges write as several files, and what they need not write again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use drillcore::arrow_array::{ArrayRef, Int64Array, RecordBatch};
use drillcore::*;
use drillcore_sample::rng::Rng;

use crate::fixtures::{integers, pairs, value_rows, values_spec};

const BATCH_ROWS: i64 = 5_000;

fn database(segment_bytes: u64, threads: usize) -> Database {
    let files = Arc::new(directory::MemoryDirectory::new());
    let options = Options {
        segment_bytes,
        maintenance_threads: threads,
        durability: Durability::None,
        ..Default::default()
    };
    Database::open_in(files, options).unwrap()
}

fn stats(db: &Database) -> (TableStats, WriterStats) {
    let mut stats = db.stats().unwrap();
    (stats.tables.remove(0), stats.writer.unwrap())
}

/// Waits until background work leaves the segments alone.
fn settled(db: &Database) -> (TableStats, WriterStats) {
    let end = Instant::now() + Duration::from_secs(60);
    let mut last = stats(db);
    let mut same = 0;
    while same < 10 {
        assert!(Instant::now() < end, "merges go on: {last:?}");
        std::thread::sleep(Duration::from_millis(20));
        let now = stats(db);
        same = if now.1.rows_written == last.1.rows_written { same + 1 } else { 0 };
        last = now;
    }
    last
}

#[test]
fn rows_in_key_order_are_written_once_however_many_segments_they_make() {
    let db = database(16 << 10, 2);
    let table = db.create_table("t", values_spec(Merge::Append)).unwrap();
    for number in 0..40 {
        table
            .append(
                &value_rows(number * BATCH_ROWS..(number + 1) * BATCH_ROWS, number),
                OnError::Raise,
            )
            .unwrap();
        db.flush().unwrap();
    }
    let (of_table, writer) = settled(&db);
    assert_eq!((of_table.levels, writer.rows_written), (1, 40 * BATCH_ROWS as u64));
    assert!(of_table.segments >= 80, "{of_table:?}");
    db.compact().unwrap();
    assert_eq!(stats(&db).1.rows_written, writer.rows_written, "there is nothing to merge");

    // Late rows: what they overlap is written again, and no more than that.
    table.append(&value_rows((0..100).map(|id| 7 * BATCH_ROWS + id), 99), OnError::Raise).unwrap();
    db.flush().unwrap();
    assert_eq!(settled(&db).0.levels, 2);
    db.compact().unwrap();
    let (of_table, after) = settled(&db);
    let written = after.rows_written - writer.rows_written;
    assert_eq!(of_table.levels, 1);
    assert!((200..BATCH_ROWS as u64).contains(&written), "{written} rows were written");
    let expected = (0..40 * BATCH_ROWS).flat_map(|id| {
        let late = (0..100).contains(&(id - 7 * BATCH_ROWS)).then_some((id, 99));
        std::iter::once((id, id / BATCH_ROWS)).chain(late)
    });
    assert!(pairs(&table.snapshot().unwrap()).into_iter().eq(expected));
}

#[test]
fn small_segments_side_by_side_become_fewer() {
    let db = database(8 << 20, 2);
    let table = db.create_table("t", values_spec(Merge::Append)).unwrap();
    for number in 0..64 {
        table.append(&value_rows(number * 10..(number + 1) * 10, number), OnError::Raise).unwrap();
        db.flush().unwrap();
    }
    let (of_table, _) = settled(&db);
    assert!(of_table.levels == 1 && of_table.segments < 16, "{of_table:?}");
    db.compact().unwrap();
    assert_eq!(stats(&db).0.segments, 1);
    assert!(pairs(&table.snapshot().unwrap()).into_iter().eq((0..640).map(|id| (id, id / 10))));
}

#[test]
fn shuffled_keys_become_one_level_of_several_segments_with_any_number_of_threads() {
    for threads in [1, 3] {
        let db = database(64 << 10, threads);
        let spec = values_spec(Merge::Upsert);
        let table = db.create_table("t", spec).unwrap();
        let mut model = std::collections::BTreeMap::new();
        let mut rng = Rng::keyed(8, 0);
        for number in 0..12 {
            let ids: Vec<i64> = (0..BATCH_ROWS).map(|_| rng.below(20_000) as i64).collect();
            model.extend(ids.iter().map(|&id| (id, number)));
            table.append(&value_rows(ids, number), OnError::Raise).unwrap();
            let gone: Vec<i64> = (0..500).map(|_| rng.below(20_000) as i64).collect();
            gone.iter().for_each(|id| {
                model.remove(id);
            });
            table.delete(&[Arc::new(Int64Array::from(gone)) as ArrayRef]).unwrap();
            db.flush().unwrap();
        }
        let expected: Vec<(i64, i64)> = model.into_iter().collect();
        assert_eq!(pairs(&table.snapshot().unwrap()), expected);
        db.compact().unwrap();
        let (of_table, _) = stats(&db);
        assert!(of_table.levels == 1 && of_table.segments > 3, "{of_table:?}");
        assert_eq!(of_table.rows, expected.len() as u64, "tombstones are gone");
        assert_eq!(pairs(&table.snapshot().unwrap()), expected);
        assert!(db.verify().unwrap().faults.is_empty());
    }
}

#[test]
fn an_upsert_table_is_at_most_half_as_long_again_as_its_rows() {
    let db = database(1 << 30, 2);
    let spec = values_spec(Merge::Upsert);
    let table = db.create_table("t", spec).unwrap();
    let mut rng = Rng::keyed(9, 0);
    let rows = 400_000;
    for _ in 0..12 {
        let mut ids: Vec<i64> = (0..rows).collect();
        (1..ids.len()).for_each(|at| ids.swap(at, rng.below(at as u64 + 1) as usize));
        // Values that differ, so that a segment is worth its name.
        let values: Vec<i64> = ids.iter().map(|_| rng.next_u64() as i64 >> 8).collect();
        let columns = [("id", integers(ids)), ("value", integers(values))];
        table.append(&RecordBatch::try_from_iter(columns).unwrap(), OnError::Raise).unwrap();
        db.flush().unwrap();
        wait_for_rows(&db, rows as u64 * 3 / 2);
    }
}

/// Waits until no more rows are stored. A merge shows no progress before its first rows are written, so a pause in it is not
/// its end.
fn wait_for_rows(db: &Database, most: u64) {
    let end = Instant::now() + Duration::from_secs(60);
    while stats(db).0.rows > most {
        assert!(Instant::now() < end, "{:?}", stats(db));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_upsert_table_gives_back_what_deleted_rows_took_in_memory_or_written_out() {
    for flushes in [false, true] {
        let db = database(1 << 30, 2);
        let spec = values_spec(Merge::Upsert);
        let table = db.create_table("t", spec).unwrap();
        table.append(&value_rows(0..20_000, 1), OnError::Raise).unwrap();
        db.flush().unwrap();
        // Each delete alone is of too few rows to be worth a merge.
        for rest in 0..4 {
            let ids: Vec<i64> = (0..20_000).filter(|id| id % 5 == rest).collect();
            table.delete(&[Arc::new(Int64Array::from(ids)) as ArrayRef]).unwrap();
            if flushes {
                db.flush().unwrap();
            }
        }
        wait_for_rows(&db, 3 * 4_000);
        let left = pairs(&table.snapshot().unwrap());
        assert_eq!(left.len(), 4_000);
        assert!(left.iter().all(|(id, _)| id % 5 == 4));
    }
}

/// Where a merge under way gives way to it, and where nothing is under way: the answer is the same.
#[test]
fn a_call_of_compact_beside_merges_under_way_loses_nothing_and_leaves_one_level() {
    for round in 0..6u64 {
        let db = database(256 << 10, 3);
        let table = db.create_table("t", values_spec(Merge::Append)).unwrap();
        let mut rng = Rng::keyed(round, 0);
        let (batches, rows_of_batch) = (24, 4_000);
        for number in 0..batches {
            let ids: Vec<i64> = (0..rows_of_batch).map(|_| rng.below(1 << 40) as i64).collect();
            table.append(&value_rows(ids, number), OnError::Raise).unwrap();
            db.flush().unwrap();
        }
        std::thread::sleep(Duration::from_millis(round * 3));
        std::thread::scope(|scope| {
            scope.spawn(|| db.compact().unwrap());
            scope.spawn(|| db.compact().unwrap());
        });
        let (of_table, writer) = settled(&db);
        assert_eq!((of_table.levels, writer.failure), (1, None));
        assert_eq!(of_table.rows as i64, batches * rows_of_batch);
        let rows = pairs(&table.snapshot().unwrap());
        assert!(rows.is_sorted_by_key(|(id, _)| *id));
        for number in 0..batches {
            assert_eq!(rows.iter().filter(|(_, of)| *of == number).count() as i64, rows_of_batch);
        }
        assert!(db.verify().unwrap().faults.is_empty());
    }
}

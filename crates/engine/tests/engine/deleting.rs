//! Deleting by key range, set and condition, in tables of every merge policy.

use std::collections::BTreeSet;
use std::sync::Arc;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::*;

use crate::fixtures::{all_ids, of_keys, of_set};

const ROWS: i64 = 1_000;

fn schema() -> Arc<Schema> {
    let int = |name: &str| Field::new(name, DataType::Int64, false);
    Arc::new(Schema::new(vec![int("id"), Field::new("group", DataType::Utf8, false), int("w")]))
}

/// Rows of ids, each in one of seven groups and with a weight below five.
fn rows(ids: impl Iterator<Item = i64> + Clone) -> RecordBatch {
    let groups: StringArray = ids.clone().map(|id| Some(format!("g{}", id % 7))).collect();
    let weights: Int64Array = ids.clone().map(|id| Some(id % 5)).collect();
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from_iter_values(ids)), Arc::new(groups), Arc::new(weights)];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn table(database: &Database, merge: Merge) -> Table {
    let is_rollup = matches!(merge, Merge::Rollup(_));
    let spec = TableSpec::new(schema(), ["id", "group"]).set("group").merge(merge);
    let weights = if is_rollup { vec![] } else { vec!["w".to_string()] };
    database.create_table("t", TableSpec { weights, ..spec }).unwrap()
}

fn rollup() -> Merge {
    Merge::Rollup(RollupSpec::default().metric("n", Metric::Count))
}

/// Rows with an even id, found by testing each.
#[derive(Debug)]
struct Even([String; 1]);

impl Predicate for Even {
    fn columns(&self) -> &[String] {
        &self.0
    }

    fn select(&self, rows: &RecordBatch) -> Result<BooleanArray> {
        let ids = rows.column(0).as_primitive::<Int64Type>();
        Ok(ids.values().iter().map(|id| Some(id % 2 == 0)).collect())
    }

    fn text(&self) -> &str {
        "even"
    }
}

fn even() -> Selection {
    let predicate = Some(Arc::new(Even(["id".into()])) as Arc<dyn Predicate>);
    Selection { predicate, ..Selection::default() }
}

#[test]
fn what_is_selected_goes_in_every_kind_of_table_and_later_rows_are_new() {
    for merge in [Merge::Append, Merge::Upsert, rollup()] {
        for (is_flushed, selection) in [false, true]
            .into_iter()
            .flat_map(|flushed| [of_keys(100, 299), of_set("g3"), even()].map(|s| (flushed, s)))
        {
            let database = Database::in_memory(Options::default()).unwrap();
            let table = table(&database, merge.clone());
            table.append(&rows(0..ROWS), OnError::Raise).unwrap();
            if is_flushed {
                database.flush().unwrap();
                table.append(&rows(ROWS..ROWS + 50), OnError::Raise).unwrap();
            }
            let before = table.snapshot().unwrap();
            let all = all_ids(&before);
            let selected = before.count(&selection).unwrap();
            let deleted = table.delete_selected(&selection).unwrap();
            assert_eq!((deleted.rows, deleted.lsn.0), (selected, before.lsn().0 + 1));
            let after = table.snapshot().unwrap();
            assert_eq!((all_ids(&before), before.rows().unwrap()), (all.clone(), all.len() as u64));
            assert_eq!(after.rows().unwrap(), all.len() as u64 - selected);
            assert_eq!(after.count(&selection).unwrap(), 0);
            assert_eq!(all_ids(&after).len() as u64, after.rows().unwrap());
            // Nothing is left to delete, and what comes later stays.
            let again = table.delete_selected(&selection).unwrap();
            assert_eq!((again.rows, again.lsn), (0, after.lsn()));
            table.append(&rows(0..ROWS), OnError::Raise).unwrap();
            let now = table.snapshot().unwrap();
            assert!(now.count(&selection).unwrap() > 0);
            database.compact().unwrap();
            database.flush().unwrap();
            assert_eq!(all_ids(&table.snapshot().unwrap()), all_ids(&now));
        }
    }
}

/// Rows whose weight is not among some.
#[derive(Debug)]
struct OtherWeights([String; 1], BTreeSet<i64>);

impl Predicate for OtherWeights {
    fn columns(&self) -> &[String] {
        &self.0
    }

    fn select(&self, rows: &RecordBatch) -> Result<BooleanArray> {
        let weights = rows.column(0).as_primitive::<Int64Type>();
        Ok(weights.values().iter().map(|weight| Some(!self.1.contains(weight))).collect())
    }

    fn text(&self) -> &str {
        "other weights"
    }
}

/// A key with rows in many blocks, of which the newest were erased, and keys with all rows erased, in runs and in segments.
#[test]
fn the_newest_row_of_a_key_is_the_newest_that_was_not_erased() {
    const IDS: i64 = 40;
    const ROWS: i64 = 12_000;
    // Most rows have the key 7. The weight is the number of the row.
    let id_of = |row: i64| if row % 3 == 0 { row / 3 % IDS } else { 7 };
    let spec = || TableSpec::new(schema(), ["id"]);
    let batch = |from: i64, to: i64| {
        let ids = Int64Array::from_iter_values((from..to).map(id_of));
        let groups = StringArray::from_iter_values((from..to).map(|row| format!("{row:040}")));
        let weights = Int64Array::from_iter_values(from..to);
        let columns: Vec<ArrayRef> = vec![Arc::new(ids), Arc::new(groups), Arc::new(weights)];
        RecordBatch::try_new(schema(), columns).unwrap()
    };
    for (parts, is_flushed) in [(1, false), (3, false), (1, true), (3, true)] {
        let database = Database::in_memory(Options::default()).unwrap();
        let _hold = database.hold_maintenance();
        let table = database.create_table("t", spec()).unwrap();
        for part in 0..parts {
            table
                .append(&batch(part * ROWS / parts, (part + 1) * ROWS / parts), OnError::Raise)
                .unwrap();
            if is_flushed {
                database.flush().unwrap();
            }
        }
        let mut left: Vec<i64> = (0..ROWS).collect();
        // Of most keys nothing is left at last.
        let lasts = [ROWS, 9_000, 8_500, 4_100, 60, 31, 2];
        for last in lasts {
            left.retain(|&row| row < last && (last == ROWS || row % 11 != 5));
            let others = OtherWeights(["w".into()], left.iter().copied().collect());
            let predicate = Some(Arc::new(others) as Arc<dyn Predicate>);
            table.delete_selected(&Selection { predicate, ..Selection::default() }).unwrap();
            let snapshot = table.snapshot().unwrap();
            let newest = |id: i64| left.iter().copied().filter(|&row| id_of(row) == id).max();
            let found = |ids: Vec<i64>| -> Vec<Option<i64>> {
                let keys: ArrayRef = Arc::new(Int64Array::from(ids));
                let found = snapshot.get(&[keys], None).unwrap();
                let weights = found.rows.column(2).as_primitive::<Int64Type>();
                let weight = |row: Option<u32>| row.map(|row| weights.value(row as usize));
                found.positions.into_iter().map(weight).collect()
            };
            let all: Vec<i64> = (-1..=IDS).collect();
            let expected: Vec<Option<i64>> = all.iter().copied().map(newest).collect();
            assert_eq!(found(all.clone()), expected, "{parts} parts, {is_flushed}, up to {last}");
            for id in all {
                assert_eq!(
                    found(vec![id]),
                    [newest(id)],
                    "{id} of {parts} parts, {is_flushed}, {last}"
                );
            }
        }
    }
}

#[test]
fn events_of_a_row_that_was_deleted_count_anew() {
    let database = Database::in_memory(Options::default()).unwrap();
    let table = table(&database, rollup());
    table.append(&rows([5, 5, 5].into_iter()), OnError::Raise).unwrap();
    assert_eq!(table.delete_selected(&of_keys(0, 9)).unwrap().rows, 1);
    table.append(&rows([5].into_iter()), OnError::Raise).unwrap();
    let snapshot = table.snapshot().unwrap();
    assert_eq!(snapshot.count_events(&Selection::default()).unwrap(), 1);
    #[derive(Debug)]
    struct Many([String; 1]);
    impl Predicate for Many {
        fn columns(&self) -> &[String] {
            &self.0
        }
        fn select(&self, rows: &RecordBatch) -> Result<BooleanArray> {
            Ok(BooleanArray::from(vec![true; rows.num_rows()]))
        }
        fn text(&self) -> &str {
            "many"
        }
    }
    let predicate = Some(Arc::new(Many(["n".into()])) as Arc<dyn Predicate>);
    let by_metric = Selection { predicate, ..Selection::default() };
    let error = table.delete_selected(&by_metric).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains("\"n\" is a metric"), "{error}");
}

#[test]
fn erased_rows_are_reclaimed_and_a_segment_without_others_is_dropped_unread() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(folder.path().join("db"), Options::default()).unwrap();
    let table = table(&database, Merge::Append);
    let hold = database.hold_maintenance();
    for part in 0..4 {
        table.append(&rows(part * ROWS..(part + 1) * ROWS), OnError::Raise).unwrap();
        database.flush().unwrap();
    }
    let stats = || database.stats().unwrap().tables[0].clone();
    let bytes = stats().segment_bytes;
    let deleted = table.delete_selected(&of_keys(0, 2 * ROWS - 1)).unwrap();
    assert_eq!((deleted.rows, stats().erased_rows), (2 * ROWS as u64, 2 * ROWS as u64));
    let written = database.stats().unwrap().writer.unwrap().rows_written;
    drop(hold);
    let give_up = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while stats().erased_rows > 0 {
        assert!(std::time::Instant::now() < give_up, "{:?}", stats());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(stats().segment_bytes <= bytes * 6 / 10, "{} of {bytes}", stats().segment_bytes);
    assert_eq!(database.stats().unwrap().writer.unwrap().rows_written, written);
    assert_eq!(table.truncate().unwrap().rows, 2 * ROWS as u64);
    database.compact().unwrap();
    assert_eq!((stats().rows, stats().segments), (0, 0));
}

#[test]
fn a_delete_survives_a_restart_before_and_after_its_rows_are_flushed() {
    for durability in [Durability::Os, Durability::Fsync, Durability::None] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let options = || Options { durability, ..Options::default() };
        let mut expected: Vec<i64> = (0..ROWS).collect();
        for step in 0..6i64 {
            let database = Database::open(&path, options()).unwrap();
            let table = match step {
                0 => {
                    let table = table(&database, Merge::Append);
                    table.append(&rows(0..ROWS), OnError::Raise).unwrap();
                    table
                }
                _ => database.table("t").unwrap(),
            };
            assert_eq!(
                all_ids(&table.snapshot().unwrap()),
                expected,
                "{durability:?}, step {step}"
            );
            let (low, high) = (step * 100, step * 100 + 49);
            let deleted = match step % 3 {
                0 => table.delete_selected(&of_keys(low, high)).unwrap(),
                1 => {
                    let both = Selection { sets: of_set("g3").sets, ..of_keys(low, high) };
                    table.delete_selected(&both).unwrap()
                }
                _ => {
                    let both = Selection { predicate: even().predicate, ..of_keys(low, high) };
                    table.delete_selected(&both).unwrap()
                }
            };
            let before = expected.len();
            expected.retain(|id| {
                let in_range = (low..=high).contains(id);
                !(in_range && [true, id % 7 == 3, id % 2 == 0][step as usize % 3])
            });
            assert_eq!(deleted.rows, (before - expected.len()) as u64);
            if step == 3 {
                database.named_snapshot("kept").unwrap();
                database.flush().unwrap();
            }
            assert_eq!(
                all_ids(&table.snapshot().unwrap()),
                expected,
                "{durability:?}, step {step}"
            );
        }
        let database = Database::open(&path, options()).unwrap();
        let kept = database.named_snapshot("kept").unwrap().table("t").unwrap();
        assert!(kept.rows().unwrap() > expected.len() as u64);
        assert_eq!(all_ids(&kept).len() as u64, kept.rows().unwrap());
    }
}

/// What is left is drawn in proportion to its weight, whether few intervals were erased or many.
#[test]
fn weighted_draws_know_what_was_erased() {
    for selection in [of_keys(200, 599), even()] {
        for is_flushed in [false, true] {
            let database = Database::in_memory(Options::default()).unwrap();
            let table = table(&database, Merge::Append);
            table.append(&rows(0..ROWS), OnError::Raise).unwrap();
            if is_flushed {
                database.flush().unwrap();
            }
            table.delete_selected(&selection).unwrap();
            let snapshot = table.snapshot().unwrap();
            let left = all_ids(&snapshot);
            let total: i64 = left.iter().map(|id| id % 5).sum();
            let request = SampleRequest {
                n: 20_000,
                weight: Some("w".into()),
                replace: true,
                with_probability: true,
                seed: Some(7),
                ..Default::default()
            };
            let drawn = snapshot.sample(&request).unwrap();
            let found = drawn.column(0).as_primitive::<Int64Type>().values();
            let chances =
                drawn.column(3).as_primitive::<drillcore::arrow_array::types::Float64Type>();
            let mut counts = vec![0u64; ROWS as usize];
            for (id, chance) in found.iter().zip(chances.values()) {
                assert!(left.binary_search(id).is_ok(), "{id} was erased");
                assert!((chance - (id % 5) as f64 / total as f64).abs() < 1e-12);
                counts[*id as usize] += 1;
            }
            // Chi-squared with as many degrees as rows that can be drawn, less one: its mean, and six deviations.
            let statistic: f64 = (left.iter().filter(|id| *id % 5 > 0))
                .map(|id| {
                    let expected = 20_000.0 * (id % 5) as f64 / total as f64;
                    (counts[*id as usize] as f64 - expected).powi(2) / expected
                })
                .sum();
            let degrees = left.iter().filter(|id| *id % 5 > 0).count() as f64 - 1.0;
            let far = 6.0 * (2.0 * degrees).sqrt();
            assert!((statistic - degrees).abs() < far, "{statistic} with {degrees} degrees");
        }
    }
}

/// Deletes and appends beside merges: each delete takes exactly what was there.
#[test]
fn deletes_beside_writers_and_merges_take_what_was_committed_before() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { memory_bytes: Options::MEMORY_BYTES_MIN, ..Options::default() };
    let database = Database::open(folder.path().join("db"), options).unwrap();
    let table = table(&database, Merge::Append);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for part in 0..200i64 {
                table.append(&rows(part * 500..(part + 1) * 500), OnError::Raise).unwrap();
            }
        });
        let mut deleted = 0;
        let mut round = 0;
        while !writer.is_finished() {
            round += 1;
            let known = table.snapshot().unwrap();
            let selection = if round % 2 == 0 { of_set("g2") } else { of_keys(0, round * 300) };
            let at_least = known.count(&selection).unwrap();
            let rows = table.delete_selected(&selection).unwrap().rows;
            assert!(rows >= at_least, "{rows} of {at_least} rows");
            deleted += rows;
        }
        writer.join().unwrap();
        let snapshot = table.snapshot().unwrap();
        assert_eq!(snapshot.rows().unwrap() + deleted, 200 * 500);
        assert_eq!(all_ids(&snapshot).len() as u64, snapshot.rows().unwrap());
    });
    let left = all_ids(&table.snapshot().unwrap());
    database.flush().unwrap();
    database.compact().unwrap();
    assert_eq!(all_ids(&table.snapshot().unwrap()), left);
    let report = database.verify().unwrap();
    assert!(report.faults.is_empty(), "{:?}", report.faults);
}

/// Writers that wait until an update lets them publish hold memory, and the update does not wait for it.
#[test]
fn updates_and_deletes_beside_writers_at_the_memory_limit_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { memory_bytes: Options::MEMORY_BYTES_MIN, ..Options::default() };
    let database = Database::open(folder.path().join("db"), options).unwrap();
    let table = table(&database, Merge::Upsert);
    table.append(&rows(0..ROWS), OnError::Raise).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..6i64 {
            let table = &table;
            scope.spawn(move || {
                for part in 0..20 {
                    let first = ROWS + (writer * 20 + part) * 4_000;
                    table.append(&rows(first..first + 4_000), OnError::Raise).unwrap();
                }
            });
        }
        for round in 0..40i64 {
            let columns: Vec<(&str, ArrayRef)> = vec![
                ("id", Arc::new(Int64Array::from_iter_values(0..ROWS))),
                (
                    "group",
                    Arc::new(
                        (0..ROWS).map(|id| Some(format!("g{}", id % 7))).collect::<StringArray>(),
                    ),
                ),
                ("w", Arc::new(Int64Array::from(vec![round; ROWS as usize]))),
            ];
            let batch = RecordBatch::try_from_iter(columns).unwrap();
            assert_eq!(table.update(&[batch], Missing::Error).unwrap().rows, ROWS as u64);
        }
    });
    assert_eq!(table.snapshot().unwrap().rows().unwrap(), (ROWS + 6 * 20 * 4_000) as u64);
}

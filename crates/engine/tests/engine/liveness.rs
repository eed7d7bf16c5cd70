//! What is found out of which rows are alive stays with the pieces: whatever became of these since, a snapshot shows the same
//! rows, and draws the same ones by a seed, as if nothing were known.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use drillcore::arrow_array::{ArrayRef, RecordBatch, StringArray};
use drillcore::arrow_schema::DataType;
use drillcore::*;
use drillcore_sample::rng::Rng;

use crate::fixtures::{
    all_ids, between, ids, integers, of_keys, of_set, schema_of, value_rows, values_spec,
    wait_until, weighted_places_spec,
};

const KEYS: u64 = 3_000;
const PLACES: [&str; 3] = ["Oslo", "Rome", "Turin"];

/// The rows that should be there, by id: the place and the weight of each.
type Shadow = BTreeMap<i64, (usize, i64)>;

fn rows(of: &[(i64, usize, i64)]) -> RecordBatch {
    let places: Vec<&str> = of.iter().map(|(_, place, _)| PLACES[*place]).collect();
    let places: ArrayRef = Arc::new(StringArray::from(places));
    let weights = integers(of.iter().map(|row| row.2));
    let ids = integers(of.iter().map(|row| row.0));
    RecordBatch::try_from_iter([("id", ids), ("place", places), ("weight", weights)]).unwrap()
}

/// What a snapshot draws of all rows, of a range and of a set, by the row and by the weight, with replacement and without.
fn drawn(table: &TableSnapshot, seed: u64) -> Vec<Vec<i64>> {
    let selections = [Selection::default(), of_keys(500, 900), of_set("Rome")];
    let mut drawn = Vec::new();
    for selection in selections {
        for weight in [None, Some("weight".to_string())] {
            for (n, replace) in [(1, false), (40, false), (40, true), (5_000, false), (5_000, true)]
            {
                let (selection, weight) = (selection.clone(), weight.clone());
                let (seed, at_most) = (Some(seed), true);
                let request = SampleRequest {
                    n,
                    selection,
                    weight,
                    replace,
                    seed,
                    at_most,
                    ..Default::default()
                };
                drawn.push(ids(&table.sample(&request).unwrap()));
            }
        }
    }
    drawn
}

/// Compares a snapshot with what it should show, drawing before anything has to be known of all rows, and after.
fn check(table: &TableSnapshot, shadow: &Shadow, rng: &mut Rng, what: &str) {
    let seed = rng.next_u64();
    let before = drawn(table, seed);
    let low = rng.below(KEYS) as i64;
    let range = low..low + rng.below(600) as i64;
    let in_range = shadow.range(range.clone()).count() as u64;
    let selection = of_keys(range.start, range.end - 1);
    if !range.is_empty() {
        assert_eq!(table.count(&selection).unwrap(), in_range, "{what}: {range:?}");
    }
    assert_eq!(table.rows().unwrap(), shadow.len() as u64, "{what}");
    for (number, place) in PLACES.iter().enumerate() {
        let of_place = || shadow.iter().filter(|(_, row)| row.0 == number);
        assert_eq!(table.count(&of_set(place)).unwrap(), of_place().count() as u64, "{what}");
        let both = Selection { between: Some(between(500, 900)), ..of_set(place) };
        let in_both = of_place().filter(|(id, _)| (500..=900).contains(*id)).count();
        assert_eq!(table.count(&both).unwrap(), in_both as u64, "{what}");
    }
    if !range.is_empty() {
        assert_eq!(table.count(&selection).unwrap(), in_range, "{what}: {range:?}");
    }
    let sets = table.sets().unwrap().rows.iter().sum::<u64>();
    assert_eq!(sets, shadow.len() as u64, "{what}");
    assert_eq!(all_ids(table), shadow.keys().copied().collect::<Vec<_>>(), "{what}");
    assert_eq!(drawn(table, seed), before, "{what}: draws depend on what was known");
    let mut all = ids(&table
        .sample(&SampleRequest { n: KEYS * 2, at_most: true, ..Default::default() })
        .unwrap());
    all.sort_unstable();
    assert_eq!(all, shadow.keys().copied().collect::<Vec<_>>(), "{what}");
    for of in drawn(table, seed) {
        assert!(of.iter().all(|id| shadow.contains_key(id)), "{what}");
    }
}

#[test]
fn every_snapshot_shows_its_rows_whatever_was_found_out_and_merged_since() {
    for seed in 0..6 {
        let mut rng = Rng::keyed(seed, 0);
        let folder = tempfile::tempdir().unwrap();
        let options = || Options {
            memory_bytes: if seed % 2 == 0 { 1 << 20 } else { 64 << 20 },
            durability: Durability::Os,
            ..Options::default()
        };
        let mut db = Database::open(folder.path(), options()).unwrap();
        let mut table = db.create_table("t", weighted_places_spec(Merge::Upsert)).unwrap();
        let mut shadow = Shadow::new();
        let mut held: Vec<(TableSnapshot, Shadow)> = Vec::new();
        let mut named: Option<Shadow> = None;
        for step in 0..150 {
            let what = format!("seed {seed}, step {step}");
            match rng.below(20) {
                0..=8 => {
                    let of: Vec<(i64, usize, i64)> = (0..1 + rng.below(400))
                        .map(|_| {
                            let weight = rng.below(5) as i64;
                            (rng.below(KEYS) as i64, rng.below(3) as usize, weight)
                        })
                        .collect();
                    table.append(&rows(&of), OnError::Raise).unwrap();
                    shadow.extend(of.iter().map(|&(id, place, weight)| (id, (place, weight))));
                }
                9..=11 => {
                    let gone: Vec<i64> =
                        (0..1 + rng.below(100)).map(|_| rng.below(KEYS) as i64).collect();
                    table.delete(&[integers(gone.clone())]).unwrap();
                    shadow.retain(|id, _| !gone.contains(id));
                }
                12 => {
                    let low = rng.below(KEYS) as i64;
                    table.delete_selected(&of_keys(low, low + 50)).unwrap();
                    shadow.retain(|id, _| !(low..=low + 50).contains(id));
                }
                13 => db.flush().unwrap(),
                14 => {
                    db.flush().unwrap();
                    db.compact().unwrap();
                }
                15 => {
                    if let Some(shadow) = &named {
                        let kept = db.named_snapshot("kept").unwrap().table("t").unwrap();
                        check(&kept, shadow, &mut rng, &format!("{what}, named"));
                        db.drop_snapshot("kept").unwrap();
                    }
                    db.named_snapshot("kept").unwrap();
                    named = Some(shadow.clone());
                }
                16 => {
                    held.clear();
                    drop(table);
                    db.close().unwrap();
                    db = Database::open(folder.path(), options()).unwrap();
                    table = db.table("t").unwrap();
                }
                17 => {
                    // Something is known of part of the rows, and of a snapshot that goes on to be held.
                    let snapshot = table.snapshot().unwrap();
                    snapshot.count(&of_keys(0, 2_000)).unwrap();
                    held.push((snapshot, shadow.clone()));
                }
                18 if !held.is_empty() => {
                    let at = rng.below(held.len() as u64) as usize;
                    let (snapshot, shadow) = held.swap_remove(at);
                    check(&snapshot, &shadow, &mut rng, &format!("{what}, held"));
                }
                _ => check(&table.snapshot().unwrap(), &shadow, &mut rng, &what),
            }
        }
        check(&table.snapshot().unwrap(), &shadow, &mut rng, "at the end");
        let reader = Database::open_read_only(folder.path(), ReadOptions::default()).unwrap();
        let read = reader.table("t").unwrap().snapshot().unwrap();
        check(&read, &shadow, &mut rng, "read by another");
    }
}

/// How many rows in memory a call examined.
fn examined<T>(db: &Database, call: impl FnOnce() -> T) -> (T, u64) {
    let before = db.stats().unwrap().rows_examined;
    let result = call();
    (result, db.stats().unwrap().rows_examined - before)
}

#[test]
fn what_was_found_out_once_is_not_looked_for_again() {
    const ROWS: u64 = 100_000;
    let row = |id: u64| (id as i64, id as usize % 3, 1);
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", weighted_places_spec(Merge::Upsert)).unwrap();
    let append = |ids: Vec<u64>| {
        let of: Vec<(i64, usize, i64)> = ids.into_iter().map(row).collect();
        table.append(&rows(&of), OnError::Raise).unwrap();
    };
    let hold = db.hold_maintenance();
    // Ten batches with keys in no order.
    (0..10)
        .for_each(|batch| append((0..ROWS / 10).map(|at| (at * 10 + batch) * 7 % ROWS).collect()));
    let count = || table.snapshot().unwrap().rows().unwrap();
    let workers_do_nothing = || {
        let stats = db.stats().unwrap();
        let of_runs: u64 = stats.tables.iter().map(|table| table.run_bytes).sum();
        (stats.buffered_bytes == of_runs).then(|| stats.writer.unwrap().memory_compactions)
    };
    let (counted, first) = examined(&db, count);
    assert_eq!(counted, ROWS);
    assert!(first >= ROWS, "{first} rows: all keys are merged");
    drop(hold);
    // Else all rounds may be over before the ten runs are one.
    wait_until("the runs are compacted", || workers_do_nothing().is_some_and(|done| done > 0));
    let mut rounds = 0;
    for round in 0..20u64 {
        append((0..50).map(|at| (round * 50 + at) * 31).collect());
        let before = workers_do_nothing();
        let (counted, now) = examined(&db, count);
        assert_eq!(counted, ROWS);
        if before.is_none() || workers_do_nothing() != before {
            // What they examined is counted as well, if the test paused for long enough.
            continue;
        }
        rounds += 1;
        // Each of the 50 keys is searched in each older run, with 2 looks for each doubling.
        assert!(now < ROWS / 4, "{now} rows in round {round}");
    }
    assert!(rounds > 0, "workers were never done");
    // A merge hands on what is known, on disk as well.
    db.flush().unwrap();
    append((0..20).collect());
    let snapshot = table.snapshot().unwrap();
    let before = db.stats().unwrap();
    assert_eq!(snapshot.rows().unwrap(), ROWS);
    let after = db.stats().unwrap();
    let (read, all) = (after.bytes_read - before.bytes_read, before.tables[0].segment_bytes);
    assert!(read < all / 4, "{read} of {all} bytes");
}

#[test]
fn draws_find_out_which_rows_are_alive_once_they_have_looked_often_enough() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", weighted_places_spec(Merge::Upsert)).unwrap();
    for batch in 0..10 {
        let of: Vec<(i64, usize, i64)> = (0..2_000).map(|at| (at * 3 + batch, 0, 1)).collect();
        table.append(&rows(&of), OnError::Raise).unwrap();
    }
    let looked = looked_until_known(&db, &table.snapshot().unwrap());
    assert!(looked > 220, "{looked} rows");
}

/// Draws 100 rows at a time until it is known which are alive: then only what is drawn is read. Says how many were read at first.
fn looked_until_known(db: &Database, snapshot: &TableSnapshot) -> u64 {
    let draw = |seed: u64| {
        let request = SampleRequest { n: 100, seed: Some(seed), ..Default::default() };
        examined(db, || ids(&snapshot.sample(&request).unwrap()))
    };
    let (first, looked) = draw(7);
    (0..200).for_each(|seed| drop(draw(seed)));
    // A thread finds it out.
    let give_up = Instant::now() + Duration::from_secs(30);
    let (again, known) = loop {
        let (again, known) = draw(7);
        if known <= 110 || Instant::now() > give_up {
            break (again, known);
        }
        thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(first, again);
    assert!(known <= 110, "{known} rows, {looked} at first");
    looked
}

#[test]
fn rows_of_a_rollup_table_are_counted_as_they_fold() {
    for seed in 0..4 {
        let mut rng = Rng::keyed(seed, 1);
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open(folder.path(), Options::default()).unwrap();
        let columns = schema_of(&[("id", DataType::Int64, false)]);
        let rollup = RollupSpec::default().metric("n", Metric::Count);
        let spec = TableSpec::new(columns, ["id"]).merge(Merge::Rollup(rollup));
        let table = db.create_table("t", spec).unwrap();
        let mut shadow: BTreeMap<i64, u64> = BTreeMap::new();
        let mut held: Vec<(TableSnapshot, BTreeMap<i64, u64>)> = Vec::new();
        for step in 0..120 {
            let what = format!("seed {seed}, step {step}");
            let check = |snapshot: &TableSnapshot, shadow: &BTreeMap<i64, u64>| {
                assert_eq!(snapshot.rows().unwrap(), shadow.len() as u64, "{what}");
                let in_range = shadow.range(500..=900).count() as u64;
                assert_eq!(snapshot.count(&of_keys(500, 900)).unwrap(), in_range, "{what}");
                let events = snapshot.count_events(&Selection::default()).unwrap();
                assert_eq!(events, shadow.values().sum::<u64>(), "{what}");
                assert_eq!(all_ids(snapshot), shadow.keys().copied().collect::<Vec<_>>(), "{what}");
            };
            match rng.below(12) {
                0..=5 => {
                    let of: Vec<i64> =
                        (0..1 + rng.below(300)).map(|_| rng.below(KEYS) as i64).collect();
                    let batch = RecordBatch::try_from_iter([("id", integers(of.clone()))]).unwrap();
                    table.append(&batch, OnError::Raise).unwrap();
                    of.into_iter().for_each(|id| *shadow.entry(id).or_default() += 1);
                }
                6 => db.flush().unwrap(),
                7 => db.compact().unwrap(),
                8 => {
                    let low = rng.below(KEYS) as i64;
                    table.delete_selected(&of_keys(low, low + 50)).unwrap();
                    shadow.retain(|id, _| !(low..=low + 50).contains(id));
                }
                9 => held.push((table.snapshot().unwrap(), shadow.clone())),
                10 if !held.is_empty() => {
                    let at = rng.below(held.len() as u64) as usize;
                    let (snapshot, shadow) = held.swap_remove(at);
                    check(&snapshot, &shadow);
                }
                _ => check(&table.snapshot().unwrap(), &shadow),
            }
        }
    }
}

#[test]
fn a_count_that_was_ended_makes_no_draw_do_its_work() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", weighted_places_spec(Merge::Upsert)).unwrap();
    let _hold = db.hold_maintenance();
    for batch in 0..10 {
        let of: Vec<(i64, usize, i64)> = (0..5_000).map(|at| (at * 3 + batch, 0, 1)).collect();
        table.append(&rows(&of), OnError::Raise).unwrap();
    }
    let snapshot = table.snapshot().unwrap();
    let ended = Interrupt::new(Arc::new(|| true));
    let error = snapshot.interrupted_by(ended).rows().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    let request =
        SampleRequest { n: 10, selection: of_keys(0, 100), seed: Some(1), ..Default::default() };
    let (_, looked) = examined(&db, || snapshot.sample(&request).unwrap());
    assert!(looked < 2_000, "{looked} rows");
}

#[test]
fn runs_of_which_all_but_one_were_erased_are_compacted() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { memory_bytes: 1 << 30, ..Options::default() };
    let db = Database::open(folder.path(), options).unwrap();
    let table = db.create_table("t", values_spec(Merge::Upsert)).unwrap();
    let hold = db.hold_maintenance();
    for _ in 0..7 {
        table.append(&value_rows(0..20_000, 0), OnError::Raise).unwrap();
    }
    table.delete_selected(&of_keys(0, 20_000)).unwrap();
    table.append(&value_rows(30_000..50_000, 0), OnError::Raise).unwrap();
    drop(hold);
    let give_up = Instant::now() + Duration::from_secs(30);
    loop {
        let stats = db.stats().unwrap();
        let writer = stats.writer.unwrap();
        assert_eq!(writer.failure, None);
        if stats.tables[0].runs == 1 {
            break;
        }
        assert!(Instant::now() < give_up, "nothing is compacted");
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(table.snapshot().unwrap().rows().unwrap(), 20_000);
}

//! Rows in memory that only snapshots hold go to files, and no answer changes.

use std::sync::Arc;

use drillcore::arrow_array::{ArrayRef, RecordBatch, StringArray};
use drillcore::*;

use crate::fixtures::{
    as_one, between, integers, key, named, of_keys, of_set, wait_until, weighted_places_spec,
};

const MEMORY: u64 = 4 << 20;
/// Rows of a batch.
const ROWS: i64 = 10_000;

fn rollup() -> Merge {
    Merge::Rollup(RollupSpec::default().metric("total", Metric::sum("weight")))
}

fn spec(merge: Merge) -> TableSpec {
    match merge {
        Merge::Rollup(_) => {
            let key = vec!["id".into(), "place".into()];
            TableSpec { key, weights: vec![], ..weighted_places_spec(merge) }
        }
        other => weighted_places_spec(other),
    }
}

/// Some rows, of which those of the batches before share half of the keys.
fn rows(batch: i64) -> RecordBatch {
    let ids = batch * ROWS / 2..batch * ROWS / 2 + ROWS;
    let place = |id: i64| ["Rome", "Oslo", "Lima", "Kiev"][(id % 97 % 4) as usize];
    let places: ArrayRef = Arc::new(StringArray::from_iter_values(ids.clone().map(place)));
    // They rise, so those of a range are between narrower bounds.
    let weights = integers(ids.clone().map(|id| 1 + id / 10 + batch));
    RecordBatch::try_from_iter([("id", integers(ids)), ("place", places), ("weight", weights)])
        .unwrap()
}

fn writer(db: &Database) -> WriterStats {
    db.stats().unwrap().writer.unwrap()
}

/// What a snapshot answers, by the name of the question.
fn answers(table: &TableSnapshot, is_rollup: bool) -> Vec<(&'static str, String)> {
    let shown = |batch: RecordBatch| format!("{batch:?}");
    let range = of_keys(7_000, 19_000);
    let both = Selection { between: Some(between(3_000, 22_000)), ..of_set("Oslo") };
    let scan = |selection: &Selection, reverse, threads| {
        let selection = selection.clone();
        let request =
            ScanRequest { selection, reverse, threads: Some(threads), ..Default::default() };
        shown(as_one(table.scan(request).unwrap()))
    };
    let sample = |selection: &Selection, replace, weight: Option<&str>| {
        let (selection, weight) = (selection.clone(), weight.map(String::from));
        let request = SampleRequest {
            n: 500,
            selection,
            replace,
            weight,
            seed: Some(7),
            ..Default::default()
        };
        shown(table.sample(&request).unwrap())
    };
    let estimate = |selection: &Selection, stop: Stop| {
        let column = if is_rollup { "total" } else { "weight" };
        let request = EstimateRequest {
            aggregates: named(&[Aggregate::Avg(column.into())]),
            selection: selection.clone(),
            stop,
            seed: Some(7),
            ..Default::default()
        };
        format!("{:?}", table.estimate(&request).unwrap())
    };
    let everything = Selection::default();
    let weight = (!is_rollup).then_some("weight");
    let mut answers = vec![
        ("all rows", scan(&everything, false, 1)),
        ("all rows, backwards, by two threads", scan(&everything, true, 2)),
        ("a range", scan(&range, false, 1)),
        ("a set", scan(&of_set("Rome"), false, 1)),
        ("a set in a range, backwards", scan(&both, true, 1)),
        (
            "counts",
            format!("{:?}", [&everything, &range, &both].map(|of| table.count(of).unwrap())),
        ),
        ("sets", format!("{:?}", table.sets().unwrap().rows)),
        ("a sample", sample(&everything, false, None)),
        ("a sample of a range", sample(&range, true, None)),
        ("a sample of a set", sample(&both, false, None)),
        ("a sample by weight", sample(&everything, true, weight)),
        ("a sample of a set by weight", sample(&of_set("Lima"), true, weight)),
        ("a sample of a range by weight", sample(&range, false, weight)),
        ("a sample of a set without an index", sample(&of_set("Kiev"), true, None)),
        ("a sample of that by weight", sample(&of_set("Kiev"), true, weight)),
        ("an estimate", estimate(&everything, Stop::Rows(100))),
        ("an estimate of a range", estimate(&range, Stop::Rows(100))),
        ("one of some width", estimate(&range, Stop::Error(HalfWidth::Absolute(100.0)))),
        ("an estimate of a set", estimate(&both, Stop::Rows(100))),
    ];
    if !is_rollup {
        let found = table.get(&key(12_345), None).unwrap();
        answers.push(("a key", format!("{:?}", found.rows)));
    }
    answers
}

/// Appends batches until those of the table take so much memory.
fn fill(db: &Database, table: &Table, bytes: u64, next: &mut i64) {
    while db.stats().unwrap().buffered_bytes < bytes {
        table.append(&rows(*next), OnError::Raise).unwrap();
        *next += 1;
    }
}

#[test]
fn a_snapshot_answers_the_same_once_its_rows_are_in_files() {
    for (merge, is_rollup) in [(Merge::Append, false), (Merge::Upsert, false), (rollup(), true)] {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { memory_bytes: MEMORY, ..Options::default() };
        let db = Database::open(folder.path(), options).unwrap();
        let table = db.create_table("t", spec(merge.clone())).unwrap();
        let kiev: ArrayRef = Arc::new(StringArray::from(vec!["Kiev"]));
        table.unindex_sets(&kiev).unwrap();
        let hold = db.hold_maintenance();
        let mut next = 0;
        fill(&db, &table, MEMORY / 16 * 9, &mut next);
        if matches!(merge, Merge::Upsert) {
            table.delete(&key(8_001)).unwrap();
        }
        if !is_rollup {
            table.delete_selected(&of_keys(15_000, 15_100)).unwrap();
        }
        let snapshot = table.snapshot().unwrap();
        let before = answers(&snapshot, is_rollup);
        let pieces = snapshot.pieces();
        assert!(pieces > 2, "{pieces} pieces");
        db.flush().unwrap();
        fill(&db, &table, MEMORY / 16 * 9, &mut next);
        assert!(db.stats().unwrap().row_bytes > MEMORY, "the snapshot holds what was flushed");
        assert_eq!(writer(&db).snapshot_spills, 0);
        drop(hold);
        let budget = MEMORY / 8 * 7;
        wait_until("rows go to files", || db.stats().unwrap().row_bytes <= budget);
        assert!(writer(&db).snapshot_spills > 0);
        let spilled = writer(&db).oldest_snapshot_file_bytes;
        assert!(spilled > 0, "nothing but a snapshot has these rows in a file");
        assert_eq!(snapshot.pieces(), pieces);
        let compare = |how: &str| {
            for ((question, before), (_, now)) in before.iter().zip(answers(&snapshot, is_rollup)) {
                assert!(*before == now, "{merge:?}: {question} has another answer, {how}");
            }
        };
        compare("some in files");
        db.spill_snapshots().unwrap();
        assert!(writer(&db).snapshot_row_bytes < MEMORY / 8, "nearly all of it");
        compare("all in files");
        drop(snapshot);
        db.compact().unwrap();
        db.flush().unwrap();
        let files = || {
            let names = std::fs::read_dir(folder.path()).unwrap();
            let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
            names.map(name).filter(|name| name.to_string_lossy().starts_with("segment-")).count()
        };
        wait_until("files of the snapshot go with it", || {
            files() as u64 == db.stats().unwrap().tables[0].segments
        });
    }
}

/// How many scans are under way at once, each of another moment.
const SCANS: usize = 20;

/// The rows of a scan that has given some batches.
fn rest_of(mut batches: Vec<RecordBatch>, scan: Scan) -> RecordBatch {
    let schema = scan.schema();
    batches.extend(scan.map(Result::unwrap));
    arrow_select::concat::concat_batches(&schema, &batches).unwrap()
}

/// What twenty slow readers are at would take twenty times the budget, and takes it once.
#[test]
fn twenty_slow_scans_hold_one_budget() {
    for merge in [Merge::Append, Merge::Upsert, rollup()] {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { memory_bytes: MEMORY, ..Options::default() };
        let db = Database::open(folder.path(), options).unwrap();
        let table = db.create_table("t", spec(merge.clone())).unwrap();
        let (mut next, mut scans) = (0, Vec::new());
        let mut most = 0;
        for number in 0..SCANS {
            for _ in 0..8 {
                table.append(&rows(next), OnError::Raise).unwrap();
                next += 1;
            }
            let snapshot = table.snapshot().unwrap();
            let selection = match number % 4 {
                0 | 1 => Selection::default(),
                2 => of_set("Rome"),
                _ => of_keys(next * ROWS / 4, next * ROWS / 2),
            };
            let columns = (number % 3 == 0).then(|| vec!["place".into(), "id".into()]);
            let request = ScanRequest {
                selection,
                columns,
                reverse: number % 5 == 1,
                threads: Some(1 + number % 2),
                batch_rows: Some(1_000),
                ..Default::default()
            };
            let expected = snapshot.scan(request.clone()).unwrap();
            let expected = rest_of(Vec::new(), expected);
            let mut scan = snapshot.scan(request.clone()).unwrap();
            // Some have not begun.
            let read = scan.by_ref().take(number % 3).map(Result::unwrap).collect();
            let partitions = snapshot.scan_partitions(&request, 3).unwrap();
            scans.push((expected, read, scan, partitions));
            most = most.max(db.stats().unwrap().row_bytes);
        }
        let budget = MEMORY / 8 * 7;
        let held = || db.stats().unwrap().row_bytes;
        wait_until("rows go to files", || held() <= budget);
        assert!(most <= 2 * MEMORY, "{most} bytes of rows while appends were under way");
        for (expected, read, scan, partitions) in scans {
            assert!(expected == rest_of(read, scan), "{merge:?}: a scan went astray");
            let schema = expected.schema();
            let scans = partitions.iter().flat_map(|partition| partition.scan().unwrap());
            let batches: Vec<RecordBatch> = scans.map(Result::unwrap).collect();
            let scanned = arrow_select::concat::concat_batches(&schema, &batches).unwrap();
            assert!(expected == scanned, "{merge:?}: partitions went astray");
        }
    }
}

/// What is known of which rows are dead was found out of runs, before it was asked of all of them; and it takes fewer steps to look the
/// deleted keys up than to merge all.
#[test]
fn deleted_rows_stay_deleted_once_tombstones_are_in_files() {
    const DELETED: i64 = 1_000;
    let db = Database::in_memory(Options::default()).unwrap();
    let _hold = db.hold_maintenance();
    let table = db.create_table("t", spec(Merge::Upsert)).unwrap();
    (0..20).for_each(|batch| drop(table.append(&rows(2 * batch), OnError::Raise).unwrap()));
    table.delete(&[integers((0..DELETED).map(|id| 7 * id))]).unwrap();
    let snapshot = table.snapshot().unwrap();
    let one = SampleRequest { n: 1, seed: Some(1), ..Default::default() };
    let drawn = snapshot.sample(&one).unwrap();
    assert_eq!(db.stats().unwrap().liveness_bytes, 0, "too dear for one row");
    db.flush().unwrap();
    db.spill_snapshots().unwrap();
    assert_eq!(writer(&db).snapshot_row_bytes, 0);
    assert!(snapshot.sample(&one).unwrap() == drawn);
    let alive = (20 * ROWS - DELETED) as u64;
    assert_eq!(snapshot.rows().unwrap(), alive);
    assert_eq!(as_one(snapshot.scan(ScanRequest::default()).unwrap()).num_rows() as u64, alive);
}

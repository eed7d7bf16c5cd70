//! Scans and samples by several threads: rows come as one thread gives them, and the threads end when the scan
//! does.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use arrow_select::concat::concat_batches;
use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use drillcore::arrow_schema::{DataType, SchemaRef};
use drillcore::*;
use drillcore_sample::rng::Rng;

use crate::fixtures::schema_of;

fn columns() -> SchemaRef {
    schema_of(&[
        ("place", DataType::Utf8, true),
        ("number", DataType::Int64, false),
        ("value", DataType::Int64, true),
    ])
}

fn batch(rows: &[(Option<&str>, i64, Option<i64>)]) -> RecordBatch {
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.0).collect::<StringArray>()),
        Arc::new(rows.iter().map(|row| row.1).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.2).collect::<Int64Array>()),
    ];
    RecordBatch::try_new(columns(), arrays).unwrap()
}

fn numbered_spec(merge: Merge) -> TableSpec {
    TableSpec::new(columns(), ["place", "number"]).set("place").merge(merge)
}

fn merges() -> [Merge; 3] {
    let rollup = RollupSpec::default()
        .metric("n", Metric::Count)
        .metric("total", Metric::sum("value"))
        .metric("most", Metric::max("value"));
    [Merge::Append, Merge::Upsert, Merge::Rollup(rollup)]
}

/// Rows of few places, and of numbers that come again.
fn some_rows(rng: &mut Rng, rows: usize) -> RecordBatch {
    let places = [None, Some("a"), Some("b"), Some("bb"), Some("c")];
    let row = |_| {
        let value = (rng.below(5) > 0).then(|| rng.below(100) as i64);
        (places[rng.below(5) as usize], rng.below(300) as i64, value)
    };
    batch(&(0..rows).map(row).collect::<Vec<_>>())
}

/// Passes every third value or so, and fails or panics at a value.
#[derive(Debug, Default)]
struct Thirds {
    fails_at: Option<i64>,
    panics_at: Option<i64>,
    tested: AtomicU64,
    columns: Vec<String>,
}

impl Thirds {
    fn new() -> Thirds {
        Thirds { columns: vec!["value".into()], ..Default::default() }
    }
}

impl Predicate for Thirds {
    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn select(&self, rows: &RecordBatch) -> Result<BooleanArray> {
        let values = rows.column(0).as_primitive::<Int64Type>();
        self.tested.fetch_add(values.len() as u64, Ordering::Relaxed);
        if self.panics_at.is_some_and(|at| values.iter().any(|value| value == Some(at))) {
            panic!("the test broke");
        }
        if self.fails_at.is_some_and(|at| values.iter().any(|value| value == Some(at))) {
            return Err(Error::new(ErrorKind::InvalidArgument, "the test failed"));
        }
        Ok(values.iter().map(|value| value.map(|value| value % 3 == 0)).collect())
    }

    fn text(&self) -> &str {
        "thirds"
    }
}

fn whole(batches: impl Iterator<Item = Result<RecordBatch>>, columns: &SchemaRef) -> RecordBatch {
    let batches: Vec<RecordBatch> = batches.map(Result::unwrap).collect();
    assert!(batches.iter().all(|batch| batch.num_rows() > 0));
    concat_batches(columns, &batches).unwrap()
}

fn scanned(table: &TableSnapshot, request: &ScanRequest) -> RecordBatch {
    let scan = table.scan(request.clone()).unwrap();
    let columns = scan.schema();
    whole(scan, &columns)
}

fn random_request(rng: &mut Rng) -> ScanRequest {
    let end = |rng: &mut Rng, place: &str| -> Option<Vec<ArrayRef>> {
        let place: ArrayRef = Arc::new(StringArray::from(vec![place]));
        let number: ArrayRef = Arc::new(Int64Array::from(vec![rng.below(300) as i64]));
        match rng.below(3) {
            0 => None,
            1 => Some(vec![place]),
            _ => Some(vec![place, number]),
        }
    };
    let between = (rng.below(2) == 0).then(|| Between {
        low: end(rng, "a"),
        high: end(rng, "bb"),
        closed: [Closed::Both, Closed::Neither][rng.below(2) as usize],
    });
    let sets: Option<ArrayRef> = match rng.below(3) {
        0 => Some(Arc::new(StringArray::from(vec!["b"]))),
        1 => Some(Arc::new(StringArray::from(vec![Some("c"), None, Some("bb"), Some("a")]))),
        _ => None,
    };
    let columns = match rng.below(3) {
        0 => Some(vec!["place".to_string()]),
        1 => Some(vec!["number".to_string(), "place".to_string()]),
        _ => None,
    };
    ScanRequest {
        selection: Selection { between, sets, ..Selection::default() },
        columns,
        limit: (rng.below(3) == 0).then(|| rng.below(700)),
        reverse: rng.below(2) == 0,
        threads: Some(1),
        partition_rows: Some(1 + rng.below(60)),
        ..Default::default()
    }
}

#[test]
fn any_number_of_threads_gives_the_rows_of_one() {
    let mut cut = 0;
    for (seed, merge) in merges().into_iter().enumerate() {
        let mut rng = Rng::keyed(seed as u64, 1);
        let folder = tempfile::tempdir().unwrap();
        let options = Options { memory_bytes: Options::MEMORY_BYTES_MIN, ..Default::default() };
        let db = Database::open(folder.path(), options).unwrap();
        let table = db.create_table("t", numbered_spec(merge)).unwrap();
        for round in 0..6 {
            let _hold = (round % 2 == 0).then(|| db.hold_maintenance());
            for _ in 0..3 {
                table.append(&some_rows(&mut rng, 300), OnError::Raise).unwrap();
            }
            if matches!(table.schema().merge, MergePolicy::Upsert { .. }) {
                let gone = some_rows(&mut rng, 50);
                table.delete(&[gone.column(0).clone(), gone.column(1).clone()]).unwrap();
            }
            match round {
                1 | 3 => db.flush().unwrap(),
                4 => db.compact().unwrap(),
                _ => {}
            }
            let snapshot = table.snapshot().unwrap();
            for _ in 0..60 {
                let mut request = random_request(&mut rng);
                if rng.below(3) == 0 && table.schema().merge != MergePolicy::Append {
                    request.selection.sets = None;
                }
                if snapshot.schema().columns.index_of("value").is_ok() && rng.below(2) == 0 {
                    request.selection.predicate = Some(Arc::new(Thirds::new()));
                }
                let expected = scanned(&snapshot, &request);
                let threads = Some(2 + rng.below(3) as usize);
                let found = scanned(&snapshot, &ScanRequest { threads, ..request.clone() });
                assert_eq!(found, expected, "seed {seed}, round {round}: {request:?}");
                let count = 1 + rng.below(20) as usize;
                let partitions = snapshot.scan_partitions(&request, count).unwrap();
                assert!(partitions.len() <= count && partitions.iter().all(|s| s.candidates() > 0));
                cut += u32::from(partitions.len() > 3);
                let one_after_the_other = partitions.iter().flat_map(|s| s.scan().unwrap());
                let found = whole(one_after_the_other, &expected.schema());
                let limit = request.limit.map_or(usize::MAX, |limit| limit as usize);
                let found = found.slice(0, found.num_rows().min(limit));
                assert_eq!(found, expected, "seed {seed}, round {round}: {request:?}");
            }
        }
    }
    assert!(cut > 300, "only {cut} scans were cut into several partitions");
}

/// A table of the given numbers of rows a key, in several pieces.
fn table_of(db: &Database, rows_of_key: impl Fn(i64) -> usize, keys: i64) -> TableSnapshot {
    let table = db.create_table("t", numbered_spec(Merge::Append)).unwrap();
    let _hold = db.hold_maintenance();
    for piece in 0..4 {
        let of_piece = (0..keys).filter(|key| key % 4 == piece || piece == 3);
        let rows: Vec<_> = of_piece
            .flat_map(|key| {
                (0..rows_of_key(key)).map(move |row| (Some("a"), key, Some(row as i64)))
            })
            .collect();
        table.append(&batch(&rows), OnError::Raise).unwrap();
    }
    table.snapshot().unwrap()
}

#[test]
fn partitions_have_about_equally_many_rows() {
    let db = Database::in_memory(Options::default()).unwrap();
    let snapshot = table_of(&db, |key| 1 + key as usize % 3, 40_000);
    let all = snapshot.rows().unwrap();
    let sets: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    for selection in [Selection::default(), Selection { sets: Some(sets), ..Default::default() }] {
        let request = ScanRequest { selection, partition_rows: Some(1_000), ..Default::default() };
        for count in [2, 5, 16] {
            let partitions = snapshot.scan_partitions(&request, count).unwrap();
            assert_eq!(partitions.len(), count);
            let fair = all / count as u64;
            for rows in partitions.iter().map(KeyPartition::candidates) {
                assert!(rows.abs_diff(fair) < fair / 3, "{rows} rows, where {fair} were fair");
            }
        }
    }
    // No more than are worth it.
    let request = ScanRequest::default();
    assert_eq!(snapshot.scan_partitions(&request, 100).unwrap().len() as u64, all / (32 << 10));
}

#[test]
fn rows_of_one_key_are_one_partition() {
    let db = Database::in_memory(Options::default()).unwrap();
    let snapshot = table_of(&db, |_| 250_000, 1);
    assert_eq!(snapshot.rows().unwrap(), 500_000);
    let request = ScanRequest { partition_rows: Some(1_000), ..Default::default() };
    assert_eq!(snapshot.scan_partitions(&request, 8).unwrap().len(), 1);
    let threads = ScanRequest { threads: Some(3), ..request.clone() };
    let one = ScanRequest { threads: Some(1), ..request.clone() };
    assert_eq!(scanned(&snapshot, &threads), scanned(&snapshot, &one));
    // With others around it.
    let db = Database::in_memory(Options::default()).unwrap();
    let snapshot = table_of(&db, |key| if key == 500 { 50_000 } else { 7 }, 1_000);
    let partitions = snapshot.scan_partitions(&request, 8).unwrap();
    assert!(partitions.len() > 1);
    let has_it = |partition: &&KeyPartition| {
        let mut batches = partition.scan().unwrap().map(Result::unwrap);
        batches.any(|batch| batch.column(1).as_primitive::<Int64Type>().values().contains(&500))
    };
    assert_eq!(partitions.iter().filter(has_it).count(), 1);
    assert_eq!(scanned(&snapshot, &threads), scanned(&snapshot, &one));
}

/// An interrupt that notes which threads ask, and stops once a test sets it.
#[derive(Default)]
struct Asked {
    threads: Mutex<HashSet<ThreadId>>,
    stop: AtomicBool,
}

impl Asked {
    fn interrupt(self: &Arc<Asked>) -> Interrupt {
        let asked = self.clone();
        Interrupt::new(Arc::new(move || {
            asked.threads.lock().unwrap().insert(thread::current().id());
            asked.stop.load(Ordering::Relaxed)
        }))
    }

    /// Holds the calling thread up at each look until another one asks, but not for long: so it does not do all the
    /// work alone.
    fn interrupt_for_two(self: &Arc<Asked>) -> Interrupt {
        let (asked, caller) = (self.clone(), thread::current().id());
        Interrupt::new(Arc::new(move || {
            asked.threads.lock().unwrap().insert(thread::current().id());
            let started = Instant::now();
            while thread::current().id() == caller
                && asked.threads.lock().unwrap().len() == 1
                && started.elapsed() < Duration::from_millis(100)
            {
                thread::sleep(Duration::from_millis(1));
            }
            false
        }))
    }

    fn others(&self) -> usize {
        let threads = self.threads.lock().unwrap();
        threads.iter().filter(|id| **id != thread::current().id()).count()
    }
}

#[test]
fn threads_read_only_where_there_is_work_for_them() {
    let db = Database::in_memory(Options::default()).unwrap();
    let snapshot = table_of(&db, |_| 1, 100_000);
    let others = |request: ScanRequest| {
        let asked = Arc::new(Asked::default());
        scanned(&snapshot.interrupted_by(asked.interrupt()), &request);
        asked.others()
    };
    let several = ScanRequest { threads: Some(3), ..Default::default() };
    let asked = Arc::new(Asked::default());
    let interrupt = asked.interrupt_for_two();
    scanned(&snapshot.interrupted_by(interrupt), &several);
    assert!(asked.others() > 0);
    assert_eq!(others(ScanRequest { limit: Some(10_000), ..several.clone() }), 0);
    assert_eq!(others(ScanRequest { threads: Some(1), ..several.clone() }), 0);
    let first = Some(vec![Arc::new(StringArray::from(vec!["a"])) as ArrayRef]);
    let high =
        Some(vec![first.clone().unwrap()[0].clone(), Arc::new(Int64Array::from(vec![9_000]))]);
    let between = Some(Between { low: first, high, closed: Closed::Both });
    let small = Selection { between, ..Default::default() };
    assert_eq!(others(ScanRequest { selection: small, ..several }), 0);
    let none = ScanRequest { threads: Some(0), ..Default::default() };
    assert_eq!(snapshot.scan(none).err().unwrap().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn dropping_a_scan_ends_its_threads() {
    let db = Database::in_memory(Options::default()).unwrap();
    let snapshot = table_of(&db, |_| 1, 100_000);
    for batches in [0, 1, 5] {
        let asked = Arc::new(Asked::default());
        let request =
            ScanRequest { threads: Some(3), partition_rows: Some(5_000), ..Default::default() };
        let mut scan = snapshot.interrupted_by(asked.interrupt()).scan(request).unwrap();
        for _ in 0..batches {
            assert!(scan.next().unwrap().unwrap().num_rows() > 0);
        }
        drop(scan);
        // Each thread had a hold on it.
        assert_eq!(Arc::strong_count(&asked), 1);
    }
}

/// A scan by two threads in partitions of a few thousand rows.
fn small_partitions(test: &Arc<Thirds>) -> ScanRequest {
    ScanRequest {
        selection: Selection { predicate: Some(test.clone()), ..Default::default() },
        threads: Some(2),
        partition_rows: Some(2_000),
        ..Default::default()
    }
}

/// How many rows were tested once the threads of scans have done all that they may without their readers.
fn tested_until_all_wait(test: &Thirds) -> u64 {
    let mut tested = 0;
    while tested != test.tested.load(Ordering::Relaxed) {
        tested = test.tested.load(Ordering::Relaxed);
        thread::sleep(Duration::from_millis(200));
    }
    tested
}

#[test]
fn a_slow_reader_bounds_what_is_read_ahead() {
    let db = Database::in_memory(Options::default()).unwrap();
    let snapshot = table_of(&db, |_| 2, 100_000);
    let test = Arc::new(Thirds::new());
    let request = small_partitions(&test);
    let mut scan = snapshot.scan(request).unwrap();
    scan.next().unwrap().unwrap();
    let tested = tested_until_all_wait(&test);
    assert!((2_000..40_000).contains(&tested), "{tested} rows of 350,000 were read ahead");
    assert!(scan.count() > 10);
}

#[test]
fn errors_interrupts_and_panics_of_threads_are_the_readers() {
    let db = Database::in_memory(Options::default()).unwrap();
    let snapshot = table_of(&db, |key| if key == 60_000 { 78 } else { 1 }, 100_000);
    let request = |test: Thirds| ScanRequest {
        selection: Selection { predicate: Some(Arc::new(test)), ..Default::default() },
        threads: Some(3),
        partition_rows: Some(5_000),
        ..Default::default()
    };
    let failing = Thirds { fails_at: Some(77), ..Thirds::new() };
    let mut scan = snapshot.scan(request(failing)).unwrap();
    let mut rows = 0;
    let error = loop {
        match scan.next().unwrap() {
            Ok(batch) => rows += batch.num_rows(),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("the test failed"), "{error}");
    // All that lies before it came, and nothing comes behind it.
    assert!(rows > 40_000, "{rows} rows");
    assert!(scan.next().is_none());
    let asked = Arc::new(Asked::default());
    let stopped = snapshot.interrupted_by(asked.interrupt());
    let mut scan = stopped.scan(request(Thirds::new())).unwrap();
    drop(stopped);
    scan.next().unwrap().unwrap();
    asked.stop.store(true, Ordering::Relaxed);
    assert_eq!(scan.next().unwrap().unwrap_err().kind(), ErrorKind::Interrupted);
    assert!(scan.next().is_none());
    let breaking = request(Thirds { panics_at: Some(77), ..Thirds::new() });
    for threads in [1, 3] {
        let request = ScanRequest { threads: Some(threads), ..breaking.clone() };
        let mut scan = snapshot.scan(request).unwrap();
        let panic = catch_unwind(AssertUnwindSafe(|| scan.by_ref().count())).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"the test broke"));
        assert!(scan.next().is_none(), "rows are missing");
    }
}

#[test]
fn a_seed_gives_the_same_sample_with_any_number_of_threads() {
    for merge in merges() {
        let folder = tempfile::tempdir().unwrap();
        let options =
            Options { memory_bytes: 16 << 20, cache_bytes: 1 << 20, ..Default::default() };
        let db = Database::open(folder.path(), options).unwrap();
        let weights = if matches!(merge, Merge::Rollup(_)) { vec![] } else { vec!["value".into()] };
        let table = db.create_table("t", TableSpec { weights, ..numbered_spec(merge) }).unwrap();
        for piece in 0..5 {
            let row = |row: i64| (["a", "b"].get(row as usize % 3).copied(), row, Some(row % 90));
            let rows: Vec<_> = (piece * 9_000..piece * 9_000 + 20_000).map(row).collect();
            table.append(&batch(&rows), OnError::Raise).unwrap();
            if piece == 2 {
                db.flush().unwrap();
            }
        }
        let snapshot = table.snapshot().unwrap();
        let sets: ArrayRef = Arc::new(StringArray::from(vec![Some("b"), None]));
        let of_sets = Selection { sets: Some(sets), ..Default::default() };
        let is_rollup = matches!(table.schema().merge, MergePolicy::Rollup(_));
        let mut requests = vec![
            SampleRequest { n: 50_000, ..Default::default() },
            SampleRequest {
                n: 80_000,
                replace: true,
                with_probability: true,
                ..Default::default()
            },
            SampleRequest { n: 9_000, selection: of_sets, unit: Unit::Rows, ..Default::default() },
        ];
        if !is_rollup {
            let weight = Some("value".into());
            let columns = Some(vec!["value".into(), "place".into()]);
            requests.push(SampleRequest { n: 12_345, weight, columns, ..Default::default() });
            let predicate: Arc<dyn Predicate> = Arc::new(Thirds::new());
            let selection = Selection { predicate: Some(predicate), ..Default::default() };
            requests.push(SampleRequest { n: 9_000, selection, ..Default::default() });
        }
        for request in requests {
            let drawn = |threads| {
                let request = SampleRequest { seed: Some(5), threads, ..request.clone() };
                snapshot.sample(&request).unwrap()
            };
            let expected = drawn(Some(1));
            assert_eq!(expected.num_rows() as u64, request.n);
            for threads in [None, Some(2), Some(3), Some(16)] {
                assert_eq!(drawn(threads), expected, "{threads:?} threads, {request:?}");
            }
        }
        let none = SampleRequest { n: 3, threads: Some(0), ..Default::default() };
        assert_eq!(snapshot.sample(&none).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn few_rows_are_fetched_by_the_caller() {
    let db = Database::in_memory(Options::default()).unwrap();
    let snapshot = table_of(&db, |_| 1, 100_000);
    let others = |n: u64, threads: Option<usize>| {
        let asked = Arc::new(Asked::default());
        let snapshot = snapshot.interrupted_by(asked.interrupt());
        snapshot.sample(&SampleRequest { n, threads, ..Default::default() }).unwrap();
        asked.others()
    };
    assert_eq!(others(10_000, Some(4)), 0);
    assert_eq!(others(50_000, None), 0);
    assert_eq!(others(50_000, Some(1)), 0);
    let asked = Arc::new(Asked::default());
    let interrupt = asked.interrupt_for_two();
    let many = SampleRequest { n: 50_000, threads: Some(4), ..Default::default() };
    assert_eq!(snapshot.interrupted_by(interrupt).sample(&many).unwrap().num_rows(), 50_000);
    assert!(asked.others() > 0);
}

#[test]
fn all_threads_count_the_rows_that_pass() {
    let db = Database::in_memory(Options::default()).unwrap();
    let snapshot = table_of(&db, |key| 1 + key as usize % 7, 60_000);
    let sets: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
    for sets in [None, Some(sets)] {
        let asked = Arc::new(Asked::default());
        let test = Arc::new(Thirds::new());
        let predicate: Option<Arc<dyn Predicate>> = Some(test.clone());
        let selection = Selection { sets, predicate, ..Default::default() };
        let interrupt = asked.interrupt_for_two();
        let counted = snapshot.interrupted_by(interrupt).count(&selection).unwrap();
        let has_one_core = thread::available_parallelism().map_or(1, usize::from) == 1;
        assert!(asked.others() > 0 || has_one_core);
        // Each row is tested once.
        assert_eq!(test.tested.load(Ordering::Relaxed), snapshot.rows().unwrap());
        let request = ScanRequest { selection, threads: Some(1), ..Default::default() };
        assert_eq!(counted, scanned(&snapshot, &request).num_rows() as u64);
    }
}

/// Rows that pass a test are counted side by side; the members of several sets lie in the same blocks, which one thread reads once.
#[test]
fn rows_of_several_sets_that_pass_a_test_are_counted_side_by_side_and_read_once() {
    const ROWS: i64 = 900_000;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let directory = Arc::new(directory::MemoryDirectory::new());
    let options = || Options { cache_bytes: 16 << 10, ..Options::default() };
    let db = Database::open_in(directory.clone(), options()).unwrap();
    let spec = TableSpec::new(columns(), ["number"]).set("place").streams(Vec::<String>::new());
    let table = db.create_table("t", spec).unwrap();
    // Each set in each block, and enough rows of two of them for several threads.
    let places = ["a", "b", "c"];
    let rows: Vec<_> = (0..ROWS)
        .map(|n| (Some(places[n as usize % 3]), n, (n % 7 > 0).then_some(n / 3)))
        .collect();
    table.append(&batch(&rows), OnError::Raise).unwrap();
    db.compact().unwrap();
    db.close().unwrap();
    let db = Database::open_in(directory, options()).unwrap();
    let snapshot = db.table("t").unwrap().snapshot().unwrap();
    let count = |sets: &[&str], predicate: &Arc<Thirds>| {
        let before = db.stats().unwrap().blocks_read;
        let sets = Some(Arc::new(StringArray::from(sets.to_vec())) as ArrayRef);
        let predicate = Some(predicate.clone() as Arc<dyn Predicate>);
        let count = snapshot.count(&Selection { sets, predicate, ..Selection::default() }).unwrap();
        (count, db.stats().unwrap().blocks_read - before)
    };
    let passing = |of: &[&str]| {
        let passes = |row: &&(Option<&str>, i64, Option<i64>)| {
            of.contains(&row.0.unwrap()) && row.2.is_some_and(|value| value % 3 == 0)
        };
        rows.iter().filter(passes).count() as u64
    };
    let thirds = Arc::new(Thirds::new());
    let (of_one, blocks_of_one) = count(&["a"], &thirds);
    assert_eq!(of_one, passing(&["a"]));
    assert_eq!(thirds.tested.load(Ordering::Relaxed), ROWS as u64 / 3);
    for sets in [&["a", "c"][..], &["c", "b", "a"]] {
        let thirds = Arc::new(Thirds::new());
        let (of_all, blocks) = count(sets, &thirds);
        assert_eq!(of_all, passing(sets));
        assert_eq!(thirds.tested.load(Ordering::Relaxed), (ROWS as usize / 3 * sets.len()) as u64);
        // A chunk of 4,096 may share its first and its last block with its neighbours, while another thread fills the cache.
        let selected = ROWS as usize / 3 * sets.len();
        // Each thread has four partitions, which eight keys are looked at for.
        let looked_at = cores.min(selected / (32 << 10)) * 4 * 8;
        let most = blocks_of_one + blocks_of_one / 20 + (2 * (selected / 4096) + looked_at) as u64;
        assert!(
            most < blocks_of_one * sets.len() as u64,
            "set by set they would be read more often"
        );
        assert!(blocks <= most, "{blocks} blocks of {sets:?}, {blocks_of_one} of one set");
    }
    drop(snapshot);
}

/// Scans whose readers take one batch and then pause: all of them together read a bounded number of partitions ahead.
#[test]
fn many_slow_scans_read_no_more_ahead_than_a_few() {
    let cores = thread::available_parallelism().unwrap().get();
    let scans = 60.max(8 * cores);
    let db = Database::in_memory(Options::default()).unwrap();
    let snapshot = table_of(&db, |_| 2, 100_000);
    let test = Arc::new(Thirds::new());
    let request = small_partitions(&test);
    // The scans with the rows read of each, and how many rows were tested until all wait for their readers.
    let begin = |scans: usize| {
        let before = test.tested.load(Ordering::Relaxed);
        let begun: Vec<(Scan, usize)> = (0..scans)
            .map(|_| {
                let mut scan = snapshot.scan(request.clone()).unwrap();
                let rows = scan.next().unwrap().unwrap().num_rows();
                (scan, rows)
            })
            .collect();
        (begun, tested_until_all_wait(&test) - before)
    };
    let (alone, rows_of_one) = begin(1);
    let rows: Vec<usize> = alone.into_iter().map(|(scan, first)| first + rest_of(scan)).collect();
    let (begun, rows_of_all) = begin(scans);
    // A scan by itself reads four partitions ahead, and all together some for each core, and each one.
    let partitions = (4 * cores).max(16) + scans;
    let most = rows_of_one * partitions as u64 / 4 * 5 / 4;
    assert!(rows_of_all < most, "{rows_of_all} of {most} rows, of one scan {rows_of_one}");
    assert!(most < rows_of_one * scans as u64 * 3 / 4, "else the test says nothing");
    for (scan, first) in begun {
        assert_eq!(first + rest_of(scan), rows[0]);
    }
}

#[test]
fn many_slow_scans_of_long_rows_hold_about_what_one_may() {
    const ROW_BYTES: usize = 1 << 10;
    const ROWS: usize = 40_000;
    const SCANS: usize = 20;
    const BATCH_ROWS: usize = 512;
    let db = Database::in_memory(Options::default()).unwrap();
    let columns = schema_of(&[("value", DataType::Int64, false), ("text", DataType::Utf8, false)]);
    let table = db.create_table("long", TableSpec::new(columns.clone(), ["value"])).unwrap();
    for start in (0..ROWS).step_by(1_000) {
        // All pass the test.
        let values = (start as i64..start as i64 + 1_000).map(|value| 3 * value);
        let values: ArrayRef = Arc::new(values.collect::<Int64Array>());
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(ROW_BYTES); 1_000]));
        let batch = RecordBatch::try_new(columns.clone(), vec![values, texts]).unwrap();
        table.append(&batch, OnError::Raise).unwrap();
    }
    let (snapshot, test) = (table.snapshot().unwrap(), Arc::new(Thirds::new()));
    let request = ScanRequest {
        selection: Selection { predicate: Some(test.clone()), ..Default::default() },
        threads: Some(2),
        partition_rows: Some(ROWS as u64 / 2),
        batch_rows: Some(BATCH_ROWS),
        ..Default::default()
    };
    let begin = |_| {
        let mut scan = snapshot.scan(request.clone()).unwrap();
        let rows = scan.next().unwrap().unwrap().num_rows();
        (scan, rows)
    };
    let begun: Vec<(Scan, usize)> = (0..SCANS).map(begin).collect();
    let waiting = tested_until_all_wait(&test) as usize * ROW_BYTES;
    // What one scan may hold, what each and all may beyond it, and a batch per thread and reader.
    let of_scans = (64 << 20) + SCANS * (2 << 20) + (8 << 20);
    let most = of_scans + SCANS * 3 * BATCH_ROWS * ROW_BYTES;
    assert!(waiting < most, "{waiting} bytes wait, of {most}");
    assert!(most < SCANS * ROWS / 2 * ROW_BYTES * 2 / 3, "else the test says nothing");
    for (scan, first) in begun {
        assert_eq!(first + rest_of(scan), ROWS);
    }
}

/// How many rows are left of a scan.
fn rest_of(scan: Scan) -> usize {
    scan.map(|batch| batch.unwrap().num_rows()).sum()
}

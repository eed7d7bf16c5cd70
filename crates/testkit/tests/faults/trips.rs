//! How many trips to a device a call takes, however many segments it asks: on a device that is far away its time says so.

use std::sync::Arc;
use std::time::{Duration, Instant};

use drillcore::arrow_array::{ArrayRef, RecordBatch, StringArray};
use drillcore::*;
use drillcore_testkit::event_table::{Events, Kind};
use drillcore_testkit::hashed_condition::HashedCondition;

use crate::slow_directory::{EVENTS, FAR, ROWS, SlowDirectory, keys};

/// The time of a call on a database that was opened anew, in trips to a device that is far away: of reads that are made together one
/// counts.
fn trips(
    directory: &SlowDirectory,
    call: impl Fn(&TableSnapshot) -> Vec<RecordBatch>,
) -> (f64, Vec<RecordBatch>) {
    directory.take(Duration::ZERO);
    let db = Database::open_in(Arc::new(directory.clone()), Options::default()).unwrap();
    let _hold = db.hold_maintenance();
    let table = db.table("events").unwrap().snapshot().unwrap();
    directory.take(FAR);
    let started = Instant::now();
    let answer = call(&table);
    let took = started.elapsed();
    directory.take(Duration::ZERO);
    (took.as_secs_f64() / FAR.as_secs_f64(), answer)
}

/// A table in eight segments, each with rows from all over the keys.
fn eight_segments(and_then: impl FnOnce(&Table)) -> SlowDirectory {
    eight_segments_of(Events::spec_of(Kind::Append), and_then)
}

fn eight_segments_of(spec: TableSpec, and_then: impl FnOnce(&Table)) -> SlowDirectory {
    const SEGMENTS: i64 = 8;
    let directory = SlowDirectory::new();
    let db = Database::open_in(Arc::new(directory.clone()), Options::default()).unwrap();
    let _hold = db.hold_maintenance();
    let table = db.create_table("events", spec).unwrap();
    for part in 0..SEGMENTS {
        let ids: Vec<i64> = (0..ROWS / SEGMENTS).map(|row| row * SEGMENTS + part).collect();
        EVENTS.append(&table, &ids);
        db.flush().unwrap();
    }
    and_then(&table);
    assert_eq!(db.stats().unwrap().tables[0].segments, SEGMENTS as u64);
    directory
}

/// Each segment once cost its own trips, one after the other: up to 30 for eight segments.
#[test]
fn a_call_over_many_segments_makes_no_more_trips_than_over_one() {
    let directory = eight_segments(|_| ());
    let key = |id: i64| Some(keys([id]).to_vec());
    let between =
        |low, high| Some(Between { low: key(low), high: key(high), closed: Closed::Both });
    let teams = |numbers: &[i64]| -> Option<ArrayRef> {
        let names = numbers.iter().map(|&number| EVENTS.team(number));
        Some(Arc::new(StringArray::from_iter_values(names)))
    };
    let range = Selection { between: between(3_000, 9_000), ..Default::default() };
    let sets = Selection { sets: teams(&[7, 9]), ..Default::default() };
    let both = Selection { between: between(3_000, 9_000), ..sets.clone() };
    let ordered = |selection: &Selection, table: &TableSnapshot| -> Vec<RecordBatch> {
        let request = ScanRequest { selection: selection.clone(), ..Default::default() };
        table.scan(request).unwrap().map(Result::unwrap).collect()
    };
    let drawn = |selection: &Selection, table: &TableSnapshot| {
        let selection = selection.clone();
        let request = SampleRequest { n: 100, seed: Some(3), selection, ..Default::default() };
        vec![table.sample(&request).unwrap()]
    };
    let by_weight = |selection: &Selection, table: &TableSnapshot| {
        let (selection, weight) = (selection.clone(), Some("weight".into()));
        let (n, seed, replace) = (100, Some(3), true);
        let request = SampleRequest { n, seed, selection, weight, replace, ..Default::default() };
        vec![table.sample(&request).unwrap()]
    };
    // Keys of all segments, and some that none has.
    let of_keys = |_: &Selection, table: &TableSnapshot| {
        let found = table.get(&keys((0..150).map(|id| (id * 7_919) % (ROWS + 5_000))), None);
        vec![found.unwrap().rows]
    };
    let of_one_key = |_: &Selection, table: &TableSnapshot| {
        let found = table.get(&keys([8 * 1_234]), None).unwrap().rows;
        vec![found; 100]
    };
    type Call<'c> = &'c dyn Fn(&Selection, &TableSnapshot) -> Vec<RecordBatch>;
    let calls: [(&str, Call<'_>, &Selection, f64); 12] = [
        ("rows of keys", &of_keys, &Selection::default(), 3.0),
        ("row of a key", &of_one_key, &Selection::default(), 5.0),
        ("sample", &drawn, &Selection::default(), 1.0),
        ("sample of a range", &drawn, &range, 2.0),
        ("sample of sets", &drawn, &sets, 3.0),
        ("sample of sets in a range", &drawn, &both, 4.0),
        ("sample by weight", &by_weight, &Selection::default(), 2.0),
        ("sample by weight of a range", &by_weight, &range, 4.0),
        ("sample by weight of sets", &by_weight, &sets, 6.0),
        ("sample by weight of sets in a range", &by_weight, &both, 9.0),
        ("scan of sets", &ordered, &sets, 3.0),
        ("scan of sets in a range", &ordered, &both, 4.0),
    ];
    for (name, call, selection, most) in calls {
        let mut least = f64::INFINITY;
        // Other tests may have the processors meanwhile.
        for _ in 0..3 {
            let (took, answer) = trips(&directory, |table| call(selection, table));
            println!("{name}: {took:.1} trips");
            assert!(answer.iter().map(RecordBatch::num_rows).sum::<usize>() >= 100, "{name}");
            least = least.min(took);
            if least < most + 3.0 {
                break;
            }
        }
        assert!(least < most + 3.0, "{name}: {least:.1} trips instead of {most}");
    }
}

/// Segments with erased rows were asked one after the other, without a look at their filters: 9.4 trips for eight segments.
#[test]
fn rows_by_key_take_no_more_trips_where_some_were_erased() {
    let directory = eight_segments(|table| {
        let team: ArrayRef = Arc::new(StringArray::from(vec![EVENTS.team(7)]));
        let erased = Selection { sets: Some(team), ..Default::default() };
        assert!(table.delete_selected(&erased).unwrap().rows > 100);
    });
    let ids = || (0..400).map(|id| (id * 7_919) % ROWS);
    let mut least = f64::INFINITY;
    // Other tests may have the processors meanwhile.
    for _ in 0..3 {
        let of_keys = |table: &TableSnapshot| vec![table.get(&keys(ids()), None).unwrap().rows];
        let (took, answer) = trips(&directory, of_keys);
        println!("{took:.1} trips, {} rows", answer[0].num_rows());
        assert!((300..400).contains(&answer[0].num_rows()), "some of them were erased");
        least = least.min(took);
        if least < 7.5 {
            break;
        }
    }
    assert!(least < 7.5, "{least:.1} trips");
}

/// A table in 32 segments that share no keys. Nothing merges them meanwhile.
fn segments_of_other_keys(db: &Database) -> Table {
    const SEGMENTS: i64 = 32;
    let table = db.create_table("events", Events::spec()).unwrap();
    for ids in (0..ROWS).collect::<Vec<_>>().chunks((ROWS / SEGMENTS) as usize) {
        EVENTS.append(&table, ids);
        db.flush().unwrap();
    }
    table
}

/// The folder of such a table, which nothing has open.
fn closed_segments_of_other_keys() -> SlowDirectory {
    let directory = SlowDirectory::new();
    let db = Database::open_in(Arc::new(directory.clone()), Options::default()).unwrap();
    let hold = db.hold_maintenance();
    segments_of_other_keys(&db);
    db.close().unwrap();
    drop((hold, db));
    directory
}

/// Such segments are read one behind the other, and once took the trips of each.
#[test]
fn a_set_of_many_segments_that_share_no_keys_is_read_in_few_trips() {
    let directory = closed_segments_of_other_keys();
    // About half of the rows of four sets are read together.
    for (teams, most) in [(vec![7], 4.0), (vec![7, 9, 11, 13], 8.0)] {
        let names = teams.iter().map(|&team| EVENTS.team(team));
        let sets: ArrayRef = Arc::new(StringArray::from_iter_values(names));
        let all = |table: &TableSnapshot| {
            let selection = Selection { sets: Some(sets.clone()), ..Default::default() };
            let request = ScanRequest { selection, threads: Some(1), ..Default::default() };
            table.scan(request).unwrap().map(Result::unwrap).collect()
        };
        let mut least = f64::INFINITY;
        // Other tests may have the processors meanwhile.
        for _ in 0..3 {
            let (took, answer) = trips(&directory, all);
            let rows = answer.iter().map(RecordBatch::num_rows).sum::<usize>();
            println!("{took:.1} trips, {rows} rows");
            assert_eq!(rows, teams.len() * (ROWS / EVENTS.teams) as usize);
            least = least.min(took);
            if least < most {
                break;
            }
        }
        assert!(least < most, "{least:.1} trips for {} sets", teams.len());
    }
}

/// Who wants the first rows of a set does not read those of all segments.
#[test]
fn the_first_rows_of_a_set_are_read_of_the_first_segments() {
    let db = Database::open_in(Arc::new(SlowDirectory::new()), Options::default()).unwrap();
    let _hold = db.hold_maintenance();
    let table = segments_of_other_keys(&db);
    let selection = EVENTS.of_team(7);
    let blocks_of = |limit: Option<u64>| {
        let before = db.stats().unwrap().blocks_read;
        let request = ScanRequest { selection: selection.clone(), limit, ..Default::default() };
        let scan = table.snapshot().unwrap().scan(request).unwrap();
        let rows: usize = scan.map(|batch| batch.unwrap().num_rows()).sum();
        (rows, db.stats().unwrap().blocks_read - before)
    };
    let (first, few) = blocks_of(Some(20));
    let (all, many) = blocks_of(None);
    assert_eq!((first, all), (20, (ROWS / EVENTS.teams) as usize));
    assert!(many > 400 && few < 80, "{few} blocks for 20 rows, {many} for all");
}

/// Panics unless one of some measurements, which other tests may hold up, is no more than `most` and a quarter.
fn check_trips(name: &str, most: f64, measure: impl Fn() -> f64) {
    let mut least = f64::INFINITY;
    for _ in 0..3 {
        least = measure().min(least);
        println!("{name}: {least:.1} trips");
        if least < most * 1.25 + 3.0 {
            return;
        }
    }
    panic!("{name}: {least:.1} trips instead of {most}");
}

type Call<'c> = &'c dyn Fn(&TableSnapshot) -> Vec<RecordBatch>;

fn scanned(request: ScanRequest) -> impl Fn(&TableSnapshot) -> Vec<RecordBatch> {
    move |table| table.scan(request.clone()).unwrap().map(Result::unwrap).collect()
}

/// Counts the rows that pass a condition which statistics say nothing of.
fn counted(table: &TableSnapshot) -> Vec<RecordBatch> {
    let condition = HashedCondition::new("weight", 2, 0);
    let selection = Selection { predicate: Some(Arc::new(condition)), ..Default::default() };
    assert!(table.count(&selection).unwrap() > 0);
    Vec::new()
}

/// Each portion of 256 KiB of each segment once was a trip, each statistics page, and whatever it takes to open a column: up to 26 for
/// eight segments.
#[test]
fn passes_over_segments_that_share_keys_read_them_together() {
    let indexed = eight_segments(|_| ());
    let unindexed = eight_segments_of(Events::spec_of(Kind::Append).without_set_index(), |_| ());
    let by_threads = |threads| ScanRequest { threads: Some(threads), ..Default::default() };
    let column = ScanRequest { columns: Some(vec!["weight".into()]), ..by_threads(1) };
    let of_set = ScanRequest { selection: EVENTS.of_team(7), ..by_threads(1) };
    let reversed = ScanRequest { reverse: true, ..by_threads(1) };
    let estimated = |table: &TableSnapshot| {
        let request = EstimateRequest {
            aggregates: vec![("mean".into(), Aggregate::avg("value"))],
            stop: Stop::Rows(1_000),
            seed: Some(3),
            ..Default::default()
        };
        let estimate = table.estimate(&request).unwrap();
        assert_eq!(estimate.sampled, 1_000);
        Vec::new()
    };
    let sets = |table: &TableSnapshot| {
        assert_eq!(table.sets().unwrap().rows.len(), EVENTS.teams as usize);
        Vec::new()
    };
    let calls: [(&str, &SlowDirectory, Call<'_>, f64); 7] = [
        ("scan by one thread", &indexed, &scanned(by_threads(1)), 4.0),
        ("scan against the order of keys", &indexed, &scanned(reversed), 4.0),
        ("scan of a column", &indexed, &scanned(column), 2.0),
        ("scan of a set without an index", &unindexed, &scanned(of_set), 4.0),
        ("sets without an index", &unindexed, &sets, 3.0),
        ("count of a condition", &indexed, &counted, 2.0),
        ("estimate", &indexed, &estimated, 2.0),
    ];
    for (name, directory, call, most) in calls {
        check_trips(name, most, || trips(directory, call).0);
    }
}

/// Such segments are read one behind the other.
#[test]
fn passes_over_segments_that_share_no_keys_read_them_together() {
    let directory = closed_segments_of_other_keys();
    let by_one = ScanRequest { threads: Some(1), ..Default::default() };
    let column = ScanRequest { columns: Some(vec!["weight".into()]), ..by_one.clone() };
    let reversed = ScanRequest { reverse: true, ..column.clone() };
    let calls: [(&str, Call<'_>, f64); 4] = [
        ("scan by one thread", &scanned(by_one), 5.0),
        ("scan of a column", &scanned(column), 2.0),
        ("scan of a column against the order of keys", &scanned(reversed), 2.0),
        ("count of a condition", &counted, 2.0),
    ];
    for (name, call, most) in calls {
        check_trips(name, most, || trips(&directory, call).0);
    }
    // Each segment once was a trip.
    check_trips("opening", 3.0, || {
        directory.take(FAR);
        let started = Instant::now();
        let db = Database::open_in(Arc::new(directory.clone()), Options::default()).unwrap();
        let took = started.elapsed();
        directory.take(Duration::ZERO);
        let _hold = db.hold_maintenance();
        assert_eq!(db.table("events").unwrap().snapshot().unwrap().pieces(), 32);
        took.as_secs_f64() / FAR.as_secs_f64()
    });
}

/// What is read ahead is read once, whichever way, and no further than a limit or the last row of a set lets it.
#[test]
fn passes_over_a_far_segment_read_each_page_once() {
    let directory = Arc::new(SlowDirectory::new());
    let options = Options { cache_bytes: 0, ..Default::default() };
    let db = Database::open_in(directory, options).unwrap();
    let table = db.create_table("events", Events::spec()).unwrap();
    let ids: Vec<i64> = (0..400_000).collect();
    ids.chunks(50_000).for_each(|ids| drop(EVENTS.append(&table, ids)));
    db.flush().unwrap();
    db.compact().unwrap();
    let read = |request: ScanRequest| {
        let before = db.stats().unwrap();
        let scan = table.snapshot().unwrap().scan(request).unwrap();
        let rows: usize = scan.map(|batch| batch.unwrap().num_rows()).sum();
        let after = db.stats().unwrap();
        let pages = after.stream_pages_read - before.stream_pages_read;
        (rows, pages, after.blocks_read - before.blocks_read)
    };
    let all = ScanRequest { threads: Some(1), ..Default::default() };
    let column = ScanRequest { columns: Some(vec!["weight".into()]), ..all.clone() };
    let reversed = |request: &ScanRequest| ScanRequest { reverse: true, ..request.clone() };
    // The first time the directory of the streams.
    let (rows, pages, blocks) = read(column.clone());
    assert_eq!((rows, pages, blocks), (400_000, 13 + 1, 0));
    assert_eq!(read(column.clone()), (400_000, 13, 0));
    assert_eq!(read(reversed(&column)), (400_000, 13, 0));
    let few = ScanRequest { limit: Some(10), ..column.clone() };
    let (rows, pages, blocks) = read(few);
    assert!(rows == 10 && pages + blocks <= 2, "{pages} pages and {blocks} blocks for ten rows");
    let (rows, _, blocks) = read(all.clone());
    let (again, _, reverse_blocks) = read(reversed(&all));
    assert_eq!((rows, again), (400_000, 400_000));
    assert!(blocks.abs_diff(reverse_blocks) < blocks / 50, "{blocks} and {reverse_blocks}");
}

//! Promises that counters can prove: what a read costs, and what goes on beside what.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use drillcore::arrow_array::{ArrayRef, Int64Array};
use drillcore::{Database, Interrupt, Options, SampleRequest, Selection, Stats, TableSnapshot};
use drillcore_testkit::deadline::{wait_until, within};
use drillcore_testkit::event_table::{Events, ids, sample_ids, scan_ids};

const PATIENCE: Duration = Duration::from_secs(20);
const EVENTS: Events = Events { teams: 50, payload_bytes: 20 };

fn get(snapshot: &TableSnapshot, id: i64) -> Option<i64> {
    let key: ArrayRef = Arc::new(Int64Array::from(vec![id]));
    let found = snapshot.get(&[key], None).unwrap();
    found.positions[0].map(|row| ids(&found.rows)[row as usize])
}

/// What one read cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Pages {
    index_pages: u64,
    filter_pages: u64,
    /// Without those read in vain.
    blocks: u64,
    false_positives: u64,
}

fn cost(db: &Database, read: impl FnOnce()) -> Pages {
    let before = db.stats().unwrap();
    read();
    let after = db.stats().unwrap();
    let false_positives = after.filter_false_positives - before.filter_false_positives;
    Pages {
        index_pages: after.index_pages_read - before.index_pages_read,
        filter_pages: after.filter_pages_read - before.filter_pages_read,
        blocks: after.blocks_read - before.blocks_read - false_positives,
        false_positives,
    }
}

struct ColdCosts {
    segments: u64,
    sample: Pages,
    hit: Pages,
    miss: Pages,
    false_positives: u64,
}

/// The largest costs of 300 cold reads of each kind from a table of even ids in several segments.
fn cold_costs(rows: i64) -> ColdCosts {
    // One fewer than are merged at once, as maintenance is held only after opening.
    const PARTS: i64 = 3;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    {
        let db = Database::open(&path, Options::default()).unwrap();
        let _hold = db.hold_maintenance();
        let table = db.create_table("events", Events::spec()).unwrap();
        for part in 0..PARTS {
            let numbers: Vec<i64> = (part..rows).step_by(PARTS as usize).collect();
            for batch in numbers.chunks(20_000) {
                EVENTS.append(&table, &batch.iter().map(|number| number * 2).collect::<Vec<_>>());
            }
            db.flush().unwrap();
        }
        db.close().unwrap();
    }
    let db = Database::open(&path, Options { cache_bytes: 0, ..Default::default() }).unwrap();
    let _hold = db.hold_maintenance();
    let snapshot = db.table("events").unwrap().snapshot().unwrap();
    let mut costs = ColdCosts {
        segments: snapshot.pieces() as u64,
        sample: Pages::default(),
        hit: Pages::default(),
        miss: Pages::default(),
        false_positives: 0,
    };
    let worst = |worst: &mut Pages, pages: Pages| {
        worst.index_pages = worst.index_pages.max(pages.index_pages);
        worst.filter_pages = worst.filter_pages.max(pages.filter_pages);
        worst.blocks = worst.blocks.max(pages.blocks);
        worst.false_positives = worst.false_positives.max(pages.false_positives);
    };
    for seed in 0..300 {
        let mut drawn = Vec::new();
        let all = Selection::default();
        let pages = cost(&db, || drawn = sample_ids(&snapshot, &all, false, 1, seed));
        worst(&mut costs.sample, pages);
        let pages = cost(&db, || assert_eq!(get(&snapshot, drawn[0]), Some(drawn[0])));
        worst(&mut costs.hit, pages);
        costs.false_positives += pages.false_positives;
        let pages = cost(&db, || assert_eq!(get(&snapshot, drawn[0] + 1), None));
        worst(&mut costs.miss, pages);
        costs.false_positives += pages.false_positives;
    }
    costs
}

#[test]
fn a_cold_sample_or_get_reads_an_index_page_a_segment_and_one_block_at_any_number_of_rows() {
    for rows in [100_000, 1_000_000] {
        let costs = cold_costs(rows);
        println!(
            "{rows} rows in {} segments: sample(1) {:?}, get hit {:?}, miss {:?}, {} of 900 filter tests false",
            costs.segments, costs.sample, costs.hit, costs.miss, costs.false_positives
        );
        assert_eq!(costs.segments, 3);
        // A sample of a whole table looks only into the segment that the row lies in.
        assert!(costs.sample.index_pages <= 1 && costs.sample.blocks <= 1, "{:?}", costs.sample);
        assert!(costs.sample.index_pages == 1, "the reads were not cold");
        assert!(costs.hit.index_pages <= costs.segments && costs.hit.blocks == 1);
        assert!(costs.miss.index_pages <= costs.segments && costs.miss.blocks <= 1);
        assert!(costs.hit.false_positives < costs.segments);
        // The filter of the oldest segment is not asked: no other one is left then. So 300 hits ask for 300 absent keys,
        // and 300 misses for 600.
        assert!(
            costs.hit.filter_pages < costs.segments && costs.miss.filter_pages < costs.segments
        );
        assert!(costs.sample.filter_pages == 0, "{:?}", costs.sample);
        assert!(costs.false_positives < 900 / 20, "{} false positives", costs.false_positives);
    }
}

#[test]
fn with_maintenance_held_everything_goes_on_and_an_append_at_the_limit_waits_for_the_release() {
    const LIMIT: u64 = 4 << 20;
    const BATCHES: i64 = 400;
    const BATCH_ROWS: i64 = 500;
    let folder = tempfile::tempdir().unwrap();
    let options = Options { memory_bytes: LIMIT, ..Default::default() };
    let db = Database::open(folder.path().join("db"), options).unwrap();
    let table = db.create_table("events", Events::spec()).unwrap();
    EVENTS.append(&table, &[-1]);

    let hold = db.hold_maintenance();
    let appended = Arc::new(AtomicU64::new(0));
    let writer = thread::spawn({
        let (table, appended) = (table.clone(), appended.clone());
        move || {
            for batch in 0..BATCHES {
                EVENTS.append(
                    &table,
                    &(batch * BATCH_ROWS..(batch + 1) * BATCH_ROWS).collect::<Vec<_>>(),
                );
                appended.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    let stats = || -> Stats { db.stats().unwrap() };
    let batch_bytes = {
        wait_until(PATIENCE, "the first batch is in", || appended.load(Ordering::SeqCst) > 0);
        stats().buffered_bytes / appended.load(Ordering::SeqCst).max(1) + (64 << 10)
    };
    wait_until(PATIENCE, "the budget is full", || stats().buffered_bytes + batch_bytes > LIMIT);
    thread::sleep(Duration::from_millis(200));
    let at_limit = appended.load(Ordering::SeqCst);
    assert!(at_limit > 10, "appends went on while maintenance was held: {at_limit}");
    thread::sleep(Duration::from_millis(300));
    assert_eq!(appended.load(Ordering::SeqCst), at_limit, "the append at the limit waits");
    assert!(at_limit < BATCHES as u64);
    let held = stats();
    assert!(held.buffered_bytes <= LIMIT, "{} bytes", held.buffered_bytes);
    let held = held.writer.unwrap();
    assert_eq!((held.memory_compactions, held.flushes, held.merges), (0, 0, 0));

    let rows = at_limit as i64 * BATCH_ROWS;
    let reader = table.clone();
    within(PATIENCE, "reading beside a waiting append", move || {
        let snapshot = reader.snapshot().unwrap();
        assert_eq!(snapshot.rows().unwrap(), rows as u64 + 1);
        assert_eq!(scan_ids(&snapshot, &Selection::default()), (-1..rows).collect::<Vec<_>>());
        assert_eq!(get(&snapshot, rows - 1), Some(rows - 1));
        assert_eq!(snapshot.count(&EVENTS.of_team(3)).unwrap(), rows as u64 / 50);
        let request = SampleRequest { n: 1_000, ..Default::default() };
        assert_eq!(snapshot.sample(&request).unwrap().num_rows(), 1_000);
    });

    drop(hold);
    within(PATIENCE, "the rest of the appends after the release", move || writer.join().unwrap());
    let snapshot = table.snapshot().unwrap();
    assert_eq!(
        scan_ids(&snapshot, &Selection::default()),
        (-1..BATCHES * BATCH_ROWS).collect::<Vec<_>>()
    );
    let writer = stats().writer.unwrap();
    assert!(writer.stall_seconds > 0.3, "the wait is in the stall metric");
    assert!(writer.flushes > 0);
}

/// A place where threads wait until `all` of them are there at once.
struct Meeting {
    all: usize,
    present: Mutex<usize>,
    changed: Condvar,
}

impl Meeting {
    /// Whether the others came within `limit`.
    fn wait(&self, limit: Duration) -> bool {
        let mut present = self.present.lock().unwrap();
        *present += 1;
        self.changed.notify_all();
        let missing = |present: &mut usize| *present < self.all;
        !self.changed.wait_timeout_while(present, limit, missing).unwrap().1.timed_out()
    }
}

/// How often an append of one batch asks its interrupt until it has nothing left to do but to commit.
const ASKED_BEFORE_COMMIT: u64 = 3;

/// Has `writers` threads append one batch each, which wait for each other, `all` at once, before they commit.
/// Whether all met there.
fn writers_meet_inside_append(writers: usize, all: usize, limit: Duration) -> bool {
    let meeting = Arc::new(Meeting { all, present: Mutex::new(0), changed: Condvar::new() });
    let met = Arc::new(AtomicU64::new(0));
    let interrupt = || {
        let (meeting, met, asked) = (meeting.clone(), met.clone(), AtomicU64::new(0));
        Interrupt::new(Arc::new(move || {
            if asked.fetch_add(1, Ordering::SeqCst) + 1 == ASKED_BEFORE_COMMIT {
                met.fetch_add(u64::from(meeting.wait(limit)), Ordering::SeqCst);
            }
            false
        }))
    };
    let db = Database::in_memory(Options::default()).unwrap();
    let table = db.create_table("events", Events::spec()).unwrap();
    thread::scope(|scope| {
        for writer in 0..writers as i64 {
            let table = table.interrupted_by(interrupt());
            scope.spawn(move || EVENTS.append(&table, &[writer, writer + 10]));
        }
    });
    assert_eq!(table.snapshot().unwrap().rows().unwrap(), 2 * writers as u64);
    met.load(Ordering::SeqCst) == writers as u64
}

#[test]
fn two_writers_of_one_table_are_inside_append_at_once() {
    assert!(writers_meet_inside_append(2, 2, PATIENCE));
    // Or the meeting proves nothing.
    assert!(!writers_meet_inside_append(1, 2, Duration::from_millis(200)));
}

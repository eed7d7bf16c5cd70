//! A caller that wants out of a call gets out, whatever the call is busy with: a disk that is stuck, memory that
//! is full, or many rows to read. Nothing is lost by it, and the database stays usable.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use drillcore::directory::{Directory, LocalDirectory, Lock, MemoryDirectory, ReadFile, WriteFile};
use drillcore::*;
use drillcore_testkit::deadline::{wait_until, within};
use drillcore_testkit::stuck_directory::StuckDirectory;
use drillcore_testkit::writing_calls::{ROWS, WRITING_CALLS, batch, prepare};

/// Far more than a call takes to end that wants to.
const LIMIT: Duration = Duration::from_secs(20);

/// An interrupt that stops once its flag is set.
fn interrupt() -> (Interrupt, Arc<AtomicBool>) {
    let stop = Arc::new(AtomicBool::new(false));
    let asked = stop.clone();
    (Interrupt::new(Arc::new(move || asked.load(Ordering::Relaxed))), stop)
}

fn options(durability: Durability) -> Options {
    Options { durability, memory_bytes: Options::MEMORY_BYTES_MIN, ..Default::default() }
}

/// The database works, and lacks nothing.
fn check(db: &Database, case: &str) {
    let works = || -> Result<()> {
        assert_eq!(db.stats()?.writer.unwrap().failure, None, "{case}");
        let tables = db.tables()?;
        for name in tables.iter().filter(|name| *name != "new") {
            let counted = || -> Result<u64> {
                let table = db.table(name)?;
                table.append(&batch(1000..1001), OnError::Raise)?;
                table.snapshot()?.rows()
            };
            match counted() {
                Ok(rows) => assert!(rows + 3 > ROWS, "{case}: {name} has {rows} rows"),
                // The call to drop it went on behind its caller.
                Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{case}: {error}"),
            }
        }
        db.flush()?;
        assert_eq!(db.verify()?.faults, Vec::<String>::new(), "{case}");
        db.compact()
    };
    works().unwrap_or_else(|error| panic!("{case}: {error}"));
}

#[test]
fn every_call_that_writes_ends_when_its_caller_wants_out_though_the_disk_is_stuck() {
    for durability in [Durability::None, Durability::Os, Durability::Fsync] {
        let mut steps = 0;
        for (name, call) in WRITING_CALLS {
            // The system's cache takes these at once; what waits for a disk is the log's sync.
            let is_logged =
                ["append", "append to several tables", "delete", "update"].contains(&name);
            if is_logged && durability != Durability::Fsync {
                continue;
            }
            for step in 0.. {
                let case = format!("{name} stuck in step {step}, {durability:?}");
                let directory = StuckDirectory::new(Arc::new(MemoryDirectory::new()));
                let shared = Arc::new(directory.clone());
                let db = Database::open_in(shared, options(durability)).unwrap();
                prepare(&db).unwrap();
                let hold = db.hold_maintenance();
                let (interrupt, stop) = interrupt();
                let caller = db.interrupted_by(interrupt);
                directory.stick_after(step);
                let calling = thread::spawn(move || call(&caller));
                wait_until(LIMIT, &case, || directory.is_stuck() || calling.is_finished());
                if !directory.is_stuck() {
                    directory.release();
                    calling.join().unwrap().unwrap_or_else(|error| panic!("{case}: {error}"));
                    break;
                }
                stop.store(true, Ordering::Relaxed);
                let called = within(LIMIT, &case, move || calling.join().unwrap());
                let error = called.expect_err(&case);
                assert_eq!(error.kind(), ErrorKind::Interrupted, "{case}: {error}");
                assert!(directory.is_stuck(), "{case}: it returned before the disk did");
                assert!(db.snapshot().is_ok(), "{case}");
                directory.release();
                drop(hold);
                check(&db, &case);
                db.close().unwrap_or_else(|error| panic!("{case}: {error}"));
                steps += 1;
            }
        }
        assert!(steps >= 20, "{durability:?}: only {steps} steps were looked at");
    }
}

#[test]
fn an_append_that_waits_for_memory_ends_when_its_caller_wants_out_and_has_appended_nothing() {
    let directory = StuckDirectory::new(Arc::new(MemoryDirectory::new()));
    let shared = Arc::new(directory.clone());
    let db = Database::open_in(shared, options(Durability::Os)).unwrap();
    prepare(&db).unwrap();
    let (interrupt, stop) = interrupt();
    let table = db.table("events").unwrap().interrupted_by(interrupt);
    let appended = Arc::new(AtomicU64::new(0));
    // The log goes on, and no segment is written: memory fills up.
    directory.stick_on("create segment-");
    let counted = appended.clone();
    let appending = thread::spawn(move || {
        loop {
            let first = 10_000 + 500 * counted.load(Ordering::Relaxed) as i64;
            match table.append(&batch(first..first + 500), OnError::Raise) {
                Ok(_) => drop(counted.fetch_add(1, Ordering::Relaxed)),
                Err(error) => return error,
            }
        }
    });
    wait_until(LIMIT, "a flush is stuck", || directory.is_stuck());
    let mut before = u64::MAX;
    wait_until(LIMIT, "appends wait for memory", || {
        sleep(Duration::from_millis(50));
        std::mem::replace(&mut before, appended.load(Ordering::Relaxed))
            == appended.load(Ordering::Relaxed)
    });
    stop.store(true, Ordering::Relaxed);
    let error = within(LIMIT, "the append", move || appending.join().unwrap());
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    assert!(directory.is_stuck());
    let rows = ROWS + 500 * appended.load(Ordering::Relaxed);
    assert_eq!(db.table("events").unwrap().snapshot().unwrap().rows().unwrap(), rows);
    directory.release();
    check(&db, "after a stalled append");
    db.close().unwrap();
}

#[test]
fn an_append_whose_log_is_being_synced_ends_when_its_caller_wants_out_and_is_committed() {
    let directory = StuckDirectory::new(Arc::new(MemoryDirectory::new()));
    let shared = Arc::new(directory.clone());
    let db = Database::open_in(shared, options(Durability::Fsync)).unwrap();
    prepare(&db).unwrap();
    let table = db.table("events").unwrap();
    directory.stick_on("sync wal-");
    let first = table.clone();
    let syncing = thread::spawn(move || first.append(&batch(30..31), OnError::Raise));
    wait_until(LIMIT, "the first append is stuck", || directory.is_stuck());
    for row in 31..34 {
        let (interrupt, stop) = interrupt();
        let table = table.interrupted_by(interrupt);
        let call = move || table.append(&batch(row..row + 1), OnError::Raise);
        let appending = thread::spawn(call);
        sleep(Duration::from_millis(50));
        assert!(!appending.is_finished(), "it waits for the log");
        stop.store(true, Ordering::Relaxed);
        let appended = within(LIMIT, "the append", move || appending.join().unwrap());
        assert_eq!(appended.unwrap_err().kind(), ErrorKind::Interrupted);
        assert!(directory.is_stuck());
    }
    directory.release();
    syncing.join().unwrap().unwrap();
    table.append(&batch(34..35), OnError::Raise).unwrap();
    assert_eq!(table.snapshot().unwrap().rows().unwrap(), ROWS + 5, "all have their places");
    check(&db, "after appends that waited for the log");
    db.close().unwrap();
}

#[test]
fn appends_go_on_beside_a_flush_whose_sync_of_the_log_takes_long() {
    let directory = StuckDirectory::new(Arc::new(MemoryDirectory::new()));
    let shared = Arc::new(directory.clone());
    let db = Database::open_in(shared, options(Durability::Os)).unwrap();
    prepare(&db).unwrap();
    let table = db.table("events").unwrap();
    table.append(&batch(30..31), OnError::Raise).unwrap();
    // What is in a segment must not be lost before the log, so a flush syncs it.
    directory.stick_on("sync wal-");
    let flushed = db.clone();
    let flushing = thread::spawn(move || flushed.flush());
    wait_until(LIMIT, "the flush is stuck", || directory.is_stuck());
    let appending = thread::spawn(move || {
        for row in 31..34 {
            table.append(&batch(row..row + 1), OnError::Raise).unwrap();
        }
        table.snapshot().unwrap().rows().unwrap()
    });
    let rows = within(LIMIT, "the appends", move || appending.join().unwrap());
    assert_eq!(rows, ROWS + 4);
    assert!(directory.is_stuck());
    directory.release();
    flushing.join().unwrap().unwrap();
    check(&db, "after appends beside a sync");
    db.close().unwrap();
}

#[test]
fn a_close_goes_on_behind_its_caller_and_a_second_one_waits_for_it() {
    for durability in [Durability::None, Durability::Os] {
        for step in 0.. {
            let case = format!("stuck in step {step} of closing, {durability:?}");
            let files = MemoryDirectory::new();
            let directory = StuckDirectory::new(Arc::new(files.clone()));
            let shared = Arc::new(directory.clone());
            let db = Database::open_in(shared, options(durability)).unwrap();
            prepare(&db).unwrap();
            // There is something to do in any case: a file that only a snapshot held.
            db.compact().unwrap();
            db.table("events").unwrap().append(&batch(30..31), OnError::Raise).unwrap();
            let (interrupt, stop) = interrupt();
            let caller = db.interrupted_by(interrupt);
            directory.stick_after(step);
            let closing = thread::spawn(move || caller.close());
            wait_until(LIMIT, &case, || directory.is_stuck() || closing.is_finished());
            if !directory.is_stuck() {
                directory.release();
                closing.join().unwrap().unwrap();
                assert!(step > 0 || durability != Durability::None, "rows were written out");
                break;
            }
            stop.store(true, Ordering::Relaxed);
            let closed = within(LIMIT, &case, move || closing.join().unwrap());
            assert_eq!(closed.expect_err(&case).kind(), ErrorKind::Interrupted, "{case}");
            let second = thread::spawn(move || db.close());
            sleep(Duration::from_millis(20));
            assert!(!second.is_finished(), "{case}: it is not closed yet");
            directory.release();
            within(LIMIT, &case, move || second.join().unwrap()).unwrap();
            let db = Database::open_in(Arc::new(files), options(durability)).unwrap();
            let rows = db.table("events").unwrap().snapshot().unwrap().rows().unwrap();
            assert_eq!(rows, ROWS + 1, "{case}");
            db.close().unwrap();
        }
    }
}

#[test]
fn an_opening_ends_when_its_caller_wants_out_and_lets_go_of_the_lock() {
    for step in 0.. {
        let case = format!("stuck in step {step} of opening");
        let folder = tempfile::tempdir().unwrap();
        let open = |interrupt, durability| {
            let local = LocalDirectory::open(folder.path()).unwrap();
            let directory = StuckDirectory::new(Arc::new(local));
            (directory.clone(), move || {
                let options = Options { interrupt, ..options(durability) };
                Database::open_in(Arc::new(directory), options)
            })
        };
        let (_, first) = open(Interrupt::never(), Durability::Os);
        let db = first().unwrap();
        prepare(&db).unwrap();
        db.close().unwrap();
        let (interrupt, stop) = interrupt();
        // Without a log from now on: there is much to write.
        let (directory, opening) = open(interrupt, Durability::None);
        directory.stick_after(step);
        let opening = thread::spawn(opening);
        wait_until(LIMIT, &case, || directory.is_stuck() || opening.is_finished());
        if !directory.is_stuck() {
            directory.release();
            opening.join().unwrap().unwrap();
            assert!(step > 5, "there are that many steps");
            break;
        }
        stop.store(true, Ordering::Relaxed);
        let opened = within(LIMIT, &case, move || opening.join().unwrap());
        assert_eq!(opened.err().expect(&case).kind(), ErrorKind::Interrupted, "{case}");
        directory.release();
        let mut again = None;
        wait_until(LIMIT, &case, || {
            let (_, open) = open(Interrupt::never(), Durability::Os);
            match open() {
                Ok(db) => again = Some(db),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Locked, "{case}: {error}"),
            }
            again.is_some()
        });
        check(&again.expect("waited for"), &case);
    }
}

/// A folder that counts what is read, and tells once it is so much.
struct CountingDirectory {
    inner: MemoryDirectory,
    reads: Arc<Reads>,
}

/// What reads are counted in.
const PAGE_BYTES: usize = 4096;

#[derive(Default)]
struct Reads {
    count: AtomicU64,
    stops_at: AtomicU64,
    stop: AtomicBool,
}

struct CountingFile {
    inner: Arc<dyn ReadFile>,
    reads: Arc<Reads>,
}

impl ReadFile for CountingFile {
    fn byte_len(&self) -> io::Result<u64> {
        self.inner.byte_len()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let reads = &self.reads;
        // One read may be of several pages.
        let pages = buffer.len().div_ceil(PAGE_BYTES) as u64;
        let before = reads.count.fetch_add(pages, Ordering::Relaxed);
        if (before..before + pages).contains(&reads.stops_at.load(Ordering::Relaxed)) {
            reads.stop.store(true, Ordering::Relaxed);
        }
        self.inner.read_exact_at(buffer, offset)
    }
}

impl Directory for CountingDirectory {
    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(CountingFile { inner: self.inner.open(name)?, reads: self.reads.clone() }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        self.inner.create(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        self.inner.lock(name)
    }
}

/// Keys all over the table, each in another block than the one before.
fn keys() -> drillcore::arrow_array::ArrayRef {
    let far_apart = (0..3_000).map(|key| key * 7919 % READ_ROWS);
    Arc::new(drillcore::arrow_array::Int64Array::from_iter_values(far_apart))
}

const READ_ROWS: i64 = 1_600_000;
/// Reads after which the caller wants out, and how many there may be beyond them. A partition of a scan is read by
/// itself, a group of a column at once; other rows are read in waves, which end together, and the next one is under way, or in
/// sequence, then two portions of 256 KiB are read together the second time. Reads are counted by their pages, and a read of
/// neighbours has pages between them, too.
const READS_BEFORE: u64 = 20;
const READS_BEYOND: u64 = 40;
const READS_OF_TWO_WAVES: u64 = 640;
const READS_OF_TWO_PORTIONS: u64 = 128;
const READS_OF_GROUPS: u64 = 6;

type Reading = fn(&Database, &Interrupt) -> Result<()>;

const READINGS: [(&str, Reading); 8] = [
    ("get", |db, interrupt| {
        let table = db.table("events")?.interrupted_by(interrupt.clone()).snapshot()?;
        table.get(&[keys()], None).map(drop)
    }),
    ("get of an upsert table", |db, interrupt| {
        let table = db.table("newest")?.snapshot()?.interrupted_by(interrupt.clone());
        table.get(&[keys()], None).map(drop)
    }),
    ("get of a rollup table", |db, interrupt| {
        let table = db.interrupted_by(interrupt.clone()).snapshot()?.table("folded")?;
        table.get(&[keys()], None).map(drop)
    }),
    ("rows of an upsert table", |db, interrupt| {
        let table = db.snapshot()?.interrupted_by(interrupt.clone()).table("newest")?;
        table.rows().map(drop)
    }),
    ("sets", |db, interrupt| {
        db.table("events")?.snapshot()?.interrupted_by(interrupt.clone()).sets().map(drop)
    }),
    ("verify", |db, interrupt| db.interrupted_by(interrupt.clone()).verify().map(drop)),
    ("scan", |db, interrupt| {
        let table = db.table("events")?.snapshot()?.interrupted_by(interrupt.clone());
        let request = ScanRequest { threads: Some(1), ..Default::default() };
        table.scan(request)?.try_for_each(|batch| batch.map(drop))
    }),
    ("sample", |db, interrupt| {
        let table = db.table("events")?.snapshot()?.interrupted_by(interrupt.clone());
        let request = SampleRequest { n: 5_000, seed: Some(1), ..Default::default() };
        table.sample(&request).map(drop)
    }),
];

/// Counted in reads, so that it says the same on every machine.
#[test]
fn every_call_that_reads_ends_a_few_reads_after_its_caller_wants_out() {
    let reads = Arc::new(Reads::default());
    reads.stops_at.store(u64::MAX, Ordering::Relaxed);
    let directory = CountingDirectory { inner: MemoryDirectory::new(), reads: reads.clone() };
    // Without a cache, so that nothing need not be read.
    let options = Options { cache_bytes: 0, ..Options::default() };
    let db = Database::open_in(Arc::new(directory), options).unwrap();
    prepare(&db).unwrap();
    let rows = batch(0..READ_ROWS);
    db.append(&[("events", &rows), ("newest", &rows), ("folded", &rows)]).unwrap();
    db.compact().unwrap();
    for (call, (name, read)) in READINGS.into_iter().enumerate() {
        reads.stops_at.store(u64::MAX, Ordering::Relaxed);
        reads.stop.store(false, Ordering::Relaxed);
        let before = reads.count.load(Ordering::Relaxed);
        read(&db, &Interrupt::never()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let whole = reads.count.load(Ordering::Relaxed) - before;
        let in_waves = name.starts_with("get") || name == "sample";
        let beyond = match name {
            _ if in_waves => READS_OF_TWO_WAVES,
            "sets" | "scan" => READS_OF_GROUPS,
            "rows of an upsert table" => READS_OF_TWO_PORTIONS,
            _ => READS_BEYOND,
        };
        assert!(whole > READS_BEFORE + beyond * 5 / 4, "{name}: {whole} reads tell nothing");

        // What the first call found out is kept with the snapshot, and of a table whose keys fold with its pieces.
        if name == "rows of an upsert table" {
            db.copy_table("newest", "copy").unwrap();
            db.drop_table("newest").unwrap();
            db.rename_table("copy", "newest").unwrap();
        }
        let next = READ_ROWS + call as i64;
        let one = batch(next..next + 1);
        db.append(&[("events", &one), ("newest", &one), ("folded", &one)]).unwrap();
        let before = reads.count.load(Ordering::Relaxed);
        reads.stops_at.store(before + READS_BEFORE, Ordering::Relaxed);
        let asked = reads.clone();
        let interrupt = Interrupt::new(Arc::new(move || asked.stop.load(Ordering::Relaxed)));
        let error = read(&db, &interrupt).expect_err(name);
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{name}: {error}");
        let done = reads.count.load(Ordering::Relaxed) - before;
        println!("{name}: {done} of {whole} reads");
        assert!(done <= READS_BEFORE + beyond, "{name}: {done} of {whole} reads");
    }
}

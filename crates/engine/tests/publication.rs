//! Publication under many schedules: what becomes visible when, whichever thread goes first.
//!
//! Shuttle runs the real engine and the real log, one thread at a time, and chooses at each lock, atomic
//! and wait which thread goes on. Its primitives stand in for those of the standard library only with the feature `shuttle`:
//!
//! ```text
//! cargo test --workspace --features drillcore/shuttle --test publication
//! ```
//!
//! Not explored: weak memory. Shuttle's atomics are sequentially consistent.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::arrow_array::{ArrayRef, BinaryArray, Int64Array, RecordBatch};
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::directory::{Directory, Lock, MemoryDirectory, ReadFile, WriteFile};
use drillcore::*;
use drillcore_format::frame::{FILE_HEADER_BYTES, LogKind};
use drillcore_format::frame_reader::FrameReader;
use drillcore_storage::sync::shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use drillcore_storage::sync::shuttle::thread;
use drillcore_storage::sync::shuttle::{Config, FailurePersistence, Runner};

const SEED: u64 = 20_261;
const STACK_BYTES: usize = 1 << 20;
const TABLES: [&str; 2] = ["left", "right"];
/// How often the reader looks.
const LOOKS: usize = 4;

/// A folder in memory whose log files hold only what would survive: with `fsync`, what was synced. Writing
/// the log lets other threads go first, and can be made to fail for good.
#[derive(Clone)]
struct LogFolder {
    files: MemoryDirectory,
    log: Arc<LogWrites>,
}

struct LogWrites {
    durability: Durability,
    /// The last LSN whose frame is whole in the files.
    logged: AtomicU64,
    /// Writes and syncs that still succeed.
    left: AtomicU64,
    has_failed: AtomicBool,
}

struct LogFile {
    file: Box<dyn WriteFile>,
    log: Arc<LogWrites>,
    /// The commit that it begins with.
    first: u64,
    bytes: Mutex<LogBytes>,
}

#[derive(Default)]
struct LogBytes {
    unsynced: Vec<u8>,
    /// All that the file holds.
    held: Vec<u8>,
}

impl LogFolder {
    fn new(durability: Durability, log_writes_max: u64) -> LogFolder {
        let log = LogWrites {
            durability,
            logged: AtomicU64::new(0),
            left: AtomicU64::new(log_writes_max),
            has_failed: AtomicBool::new(false),
        };
        LogFolder { files: MemoryDirectory::new(), log: Arc::new(log) }
    }

    fn logged(&self) -> u64 {
        self.log.logged.load(Ordering::SeqCst)
    }

    fn has_failed(&self) -> bool {
        self.log.has_failed.load(Ordering::SeqCst)
    }
}

impl Directory for LogFolder {
    fn list(&self) -> io::Result<Vec<String>> {
        self.files.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
        self.files.open(name)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        let file = self.files.create(name)?;
        if !name.starts_with("wal-") {
            return Ok(file);
        }
        let log = self.log.clone();
        let first = name.trim_end_matches(".new").trim_end_matches(".log");
        let first = first["wal-".len()..].parse().expect("no file becomes full here");
        Ok(Box::new(LogFile { file, log, first, bytes: Mutex::default() }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.files.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.files.sync()
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        self.files.lock(name)
    }
}

impl LogFile {
    /// Brings the bytes that wait into the file; where writing fails, half of them.
    fn land(&self) -> io::Result<()> {
        // What is written beside a sync is none of its business.
        let mut bytes = std::mem::take(&mut self.bytes.lock().unwrap().unsynced);
        thread::yield_now();
        let left = self.log.left.load(Ordering::SeqCst);
        self.log.left.store(left.saturating_sub(1), Ordering::SeqCst);
        if left == 0 {
            self.log.has_failed.store(true, Ordering::SeqCst);
            bytes.truncate(bytes.len() / 2);
        }
        self.file.write_all(&bytes)?;
        {
            let held = &mut self.bytes.lock().unwrap().held;
            held.extend(bytes);
            self.count_frames(held);
        }
        thread::yield_now();
        // Not for want of room: a file that cannot be begun for that is no failure, and the log goes on.
        if left == 0 { Err(io::Error::other("the disk broke")) } else { Ok(()) }
    }

    fn count_frames(&self, held: &[u8]) {
        if held.len() < FILE_HEADER_BYTES {
            return;
        }
        let (_, mut frames) = FrameReader::new(held, LogKind::Wal, self.first).unwrap();
        while let Some(frame) = frames.next_frame().unwrap() {
            self.log.logged.fetch_max(frame.sequence, Ordering::SeqCst);
        }
    }
}

impl WriteFile for LogFile {
    fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        self.bytes.lock().unwrap().unsynced.extend(bytes);
        if self.log.durability == Durability::Fsync { Ok(()) } else { self.land() }
    }

    fn sync(&self) -> io::Result<()> {
        self.land()
    }
}

/// What the threads of one schedule do.
#[derive(Clone, Copy)]
struct Scenario {
    durability: Durability,
    writers: i64,
    commits_each: i64,
    /// Bytes of each of the two rows of a commit.
    row_bytes: usize,
    log_writes_max: u64,
}

/// Writers whose rows stay in memory; there are enough commits that runs are compacted.
const IN_MEMORY: Scenario = Scenario {
    durability: Durability::Fsync,
    writers: 3,
    commits_each: 3,
    row_bytes: 1,
    log_writes_max: u64::MAX,
};

/// Commits of nearly the largest size in the smallest budget, which holds four of the five: a writer waits
/// for a flush, and that for a commit to become visible.
const AT_THE_LIMIT: Scenario = Scenario {
    durability: Durability::Os,
    writers: 5,
    commits_each: 1,
    row_bytes: 110 << 10,
    log_writes_max: u64::MAX,
};

/// One snapshot: its LSN, and the keys it shows.
struct View {
    lsn: Lsn,
    keys: BTreeSet<i64>,
}

fn filled_keys_spec() -> TableSpec {
    TableSpec::new(
        Arc::new(Schema::new(vec![
            Field::new("key", DataType::Int64, false),
            Field::new("filling", DataType::Binary, false),
        ])),
        ["key"],
    )
}

fn row(key: i64, bytes: usize) -> RecordBatch {
    let filling = BinaryArray::from_iter_values([vec![0; bytes]]);
    let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![key])), Arc::new(filling)];
    RecordBatch::try_new(filled_keys_spec().columns, columns).unwrap()
}

fn keys(table: &TableSnapshot) -> BTreeSet<i64> {
    let request = ScanRequest { columns: Some(vec!["key".into()]), ..Default::default() };
    let batches = table.scan(request).unwrap().map(Result::unwrap);
    batches.flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

/// Takes a snapshot and checks what must hold of each by itself.
fn look(db: &Database, folder: &LogFolder) -> View {
    let snapshot = db.snapshot().unwrap();
    let (lsn, logged) = (snapshot.lsn(), Lsn(folder.logged()));
    assert!(lsn <= logged, "commit {lsn} is visible, but the log ends at {logged}");
    let [left, right] = TABLES.map(|name| keys(&snapshot.table(name).unwrap()));
    assert_eq!(left, right, "commit {lsn} is visible in part");
    View { lsn, keys: left }
}

/// One schedule.
fn run(scenario: Scenario) {
    let folder = LogFolder::new(scenario.durability, scenario.log_writes_max);
    let options = Options {
        durability: scenario.durability,
        memory_bytes: Options::MEMORY_BYTES_MIN,
        cache_bytes: 1 << 20,
        maintenance_threads: 1,
        ..Default::default()
    };
    let db = Database::open_in(Arc::new(folder.clone()), options.clone()).unwrap();
    for name in TABLES {
        db.create_table(name, filled_keys_spec()).unwrap();
    }
    // Locks of the standard library, held for a moment only: no thread goes on to another meanwhile.
    let acknowledged: Mutex<BTreeMap<i64, Lsn>> = Mutex::default();
    let views: Mutex<Vec<View>> = Mutex::default();
    let (db_ref, folder_ref, acknowledged_ref, views_ref) = (&db, &folder, &acknowledged, &views);
    thread::scope(|scope| {
        for writer in 0..scenario.writers {
            scope.spawn(move || {
                for number in 0..scenario.commits_each {
                    let key = writer * scenario.commits_each + number;
                    let batch = row(key, scenario.row_bytes);
                    match db_ref.append(&TABLES.map(|name| (name, &batch))) {
                        Ok(done) => {
                            acknowledged_ref.lock().unwrap().insert(key, done.lsn);
                            let view = look(db_ref, folder_ref);
                            assert!(
                                view.lsn >= done.lsn && view.keys.contains(&key),
                                "commit {} is acknowledged, but not visible",
                                done.lsn
                            );
                            views_ref.lock().unwrap().push(view);
                        }
                        Err(error) => {
                            assert!(folder_ref.has_failed(), "{error}");
                            let kind = error.kind();
                            assert!(matches!(kind, ErrorKind::Io | ErrorKind::ReadOnly), "{error}");
                        }
                    }
                }
            });
        }
        scope.spawn(move || {
            let mut last = look(db_ref, folder_ref);
            for _ in 0..LOOKS {
                thread::yield_now();
                let next = look(db_ref, folder_ref);
                assert!(last.lsn <= next.lsn, "the visible LSN fell");
                let older = std::mem::replace(&mut last, next);
                views_ref.lock().unwrap().push(older);
            }
        });
    });
    views.lock().unwrap().push(look(&db, &folder));
    db.close().unwrap();
    drop(db);

    let acknowledged = acknowledged.into_inner().unwrap();
    let commits = (scenario.writers * scenario.commits_each) as usize;
    assert_eq!(acknowledged.len() < commits, folder.has_failed());
    for view in views.into_inner().unwrap() {
        let shown = acknowledged.iter().filter(|(_, lsn)| **lsn <= view.lsn);
        let shown: BTreeSet<i64> = shown.map(|(key, _)| *key).collect();
        assert_eq!(view.keys, shown, "not the commits up to {}", view.lsn);
    }
    // What was acknowledged is in the files.
    let db = Database::open_in(Arc::new(folder.files.clone()), options).unwrap();
    let found = keys(&db.snapshot().unwrap().table("left").unwrap());
    assert!(acknowledged.keys().all(|key| found.contains(key)), "an acknowledged commit is lost");
}

/// Runs a scenario under the schedules of a kind.
fn explore_by<S: Scheduler + 'static>(scheduler: S, scenario: Scenario) {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.failure_persistence = FailurePersistence::Print;
    Runner::new(scheduler, config).run(move || run(scenario));
}

/// Half of the schedules are random walks; the other half go by priorities that change three times, which
/// finds what needs a thread to stand still for long.
fn explore(scenario: Scenario, schedules: usize) {
    explore_by(RandomScheduler::new_from_seed(SEED, schedules / 2), scenario);
    explore_by(PctScheduler::new_from_seed(SEED, 3, schedules / 2), scenario);
}

/// Explores with a fault built in, and expects one of its symptoms to be complained of: which comes first depends on how often
/// threads meet elsewhere.
fn expect_found(fault: PublicationFault, complaints: &[&str]) {
    fault.inject();
    let found = catch_unwind(AssertUnwindSafe(|| explore(IN_MEMORY, 20_000)));
    let found = found.expect_err("no schedule shows the fault");
    let text = found.downcast_ref::<String>().map(String::as_str).unwrap_or_default();
    let is_expected = complaints.iter().any(|complaint| text.contains(complaint));
    assert!(is_expected, "found something else: {text}");
}

#[test]
fn what_is_visible_is_logged_whole_and_never_less_than_before() {
    explore(IN_MEMORY, 2_000);
    explore(Scenario { durability: Durability::Os, ..IN_MEMORY }, 1_000);
}

#[test]
fn a_failed_log_write_shows_nothing_and_ends_all_writing() {
    for durability in [Durability::Os, Durability::Fsync] {
        for log_writes_max in [0, 1, 3] {
            explore(Scenario { durability, log_writes_max, ..IN_MEMORY }, 400);
        }
    }
}

#[test]
fn writers_that_wait_for_memory_are_woken_and_all_commits_become_visible() {
    explore(AT_THE_LIMIT, 400);
}

#[test]
fn a_commit_shown_before_it_is_logged_is_found() {
    expect_found(PublicationFault::ShowBeforeLogging, &["but the log ends at"]);
}

#[test]
fn a_visible_lsn_read_too_early_is_found() {
    // Runs that were compacted with later ones meanwhile are left out, of some tables or of all; or a table is shown as a later
    // snapshot has found it.
    let complaints =
        ["is visible in part", "is acknowledged, but not visible", "not the commits up to"];
    expect_found(PublicationFault::LookBeforeLocking, &complaints);
}

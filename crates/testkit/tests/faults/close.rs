//! Closing a database beside its users, and opening it again while they may still be on their way out; and
//! after its own code has failed.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use drillcore::directory::{Directory, Lock, MemoryDirectory, ReadFile, WriteFile};
use drillcore::*;
use drillcore_sample::rng::Rng;
use drillcore_testkit::deadline::{wait_until, within};
use drillcore_testkit::numbered_batches::{append, create_tables, last_batches, spec};
use drillcore_testkit::stuck_directory::StuckDirectory;
use drillcore_testkit::writing_calls::{WRITING_CALLS, WritingCall, prepare};

const SEED: u64 = 3;
const WRITERS: i32 = 3;
const ROUNDS: u64 = 25;
const DEADLINE: Duration = Duration::from_secs(20);

fn options(durability: Durability) -> Options {
    let memory_bytes = Options::MEMORY_BYTES_MIN;
    Options { durability, memory_bytes, segment_bytes: 100_000, ..Default::default() }
}

/// Appends until the database is closed; returns the last acknowledged batch.
fn write_until_closed(database: &Database, writer: i32, mut last: u64) -> u64 {
    loop {
        match append(database, writer, last + 1) {
            Ok(_) => last += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Closed, "writer {writer}: {error}");
                return last;
            }
        }
    }
}

/// Flushes and compacts, makes and drops a table, until the database is closed.
fn tend_until_closed(database: &Database) {
    let tend = || -> Result<()> {
        database.flush()?;
        database.create_table("passing", spec("passing"))?;
        database.compact()?;
        database.drop_table("passing")
    };
    loop {
        if let Err(error) = tend() {
            assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
            return;
        }
    }
}

#[test]
fn a_database_closed_beside_its_users_can_be_opened_at_once_and_has_all_they_were_told() {
    for durability in [Durability::Os, Durability::None] {
        let folder = tempfile::tempdir().unwrap();
        let mut rng = Rng::keyed(SEED, 0);
        let mut acknowledged: BTreeMap<i32, u64> = (0..WRITERS).map(|w| (w, 0)).collect();
        std::thread::scope(|scope| {
            let mut leaving = Vec::new();
            for round in 0..ROUNDS {
                let database = Database::open(folder.path(), options(durability))
                    .unwrap_or_else(|error| panic!("{durability:?}, round {round}: {error}"));
                create_tables(&database).unwrap();
                // The users of the round before have seen the close by now, or are about to.
                for (writer, left) in leaving.drain(..) {
                    let left: std::thread::ScopedJoinHandle<'_, u64> = left;
                    acknowledged.insert(writer, left.join().unwrap());
                }
                let found = last_batches(&database.snapshot().unwrap());
                for (writer, last) in &acknowledged {
                    let found = found.get(writer).copied().unwrap_or(0);
                    // A call that was refused may still have been logged.
                    assert!(
                        (*last..=last + 1).contains(&found),
                        "round {round}: {found} of {last}"
                    );
                }
                for writer in 0..WRITERS {
                    let (database, last) = (database.clone(), found.get(&writer).copied());
                    let write = move || write_until_closed(&database, writer, last.unwrap_or(0));
                    leaving.push((writer, scope.spawn(write)));
                }
                let tended = database.clone();
                scope.spawn(move || tend_until_closed(&tended));
                std::thread::sleep(Duration::from_millis(rng.below(25)));
                database.close().unwrap();
            }
        });
    }
}

/// A folder in memory in which no segment can be begun without a panic.
struct BrokenDirectory(MemoryDirectory);

impl Directory for BrokenDirectory {
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
        self.0.open(name)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        assert!(!name.starts_with("segment-"), "broken on purpose");
        self.0.create(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        self.0.lock(name)
    }
}

#[test]
fn after_a_job_that_panicked_calls_return_and_say_that_nothing_is_written_any_more() {
    let directory = Arc::new(BrokenDirectory(MemoryDirectory::new()));
    let options = Options { durability: Durability::None, ..Default::default() };
    let database = Database::open_in(directory, options).unwrap();
    create_tables(&database).unwrap();
    append(&database, 1, 1).unwrap();
    let flush = || database.flush();
    assert!(catch_unwind(AssertUnwindSafe(flush)).is_err());
    let closed = within(DEADLINE, "flushing and closing", move || {
        let error = database.flush().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
        database.close()
    });
    // Without a log, what was not written out is lost, and closing says so.
    let error = closed.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
}

/// What a call and `close` do while the call is stuck in its `step`-th operation that writes: whatever was written after
/// `close` had returned. `None` if the call takes fewer steps.
fn written_after_close(
    durability: Durability,
    call: WritingCall,
    step: usize,
) -> Option<(Result<()>, Vec<String>)> {
    let files = MemoryDirectory::new();
    let directory = StuckDirectory::new(Arc::new(files.clone()));
    let shared = Arc::new(directory.clone());
    let database = Database::open_in(shared, options(durability)).unwrap();
    // Nothing writes but the call, and then `close`.
    let hold = database.hold_maintenance();
    prepare(&database).unwrap();
    let held = database.snapshot().unwrap();
    directory.stick_after(step);
    let caller = database.clone();
    let calling = std::thread::spawn(move || call(&caller));
    wait_until(DEADLINE, "the call is stuck or done", || {
        directory.is_stuck() || calling.is_finished()
    });
    if !directory.is_stuck() {
        directory.release();
        calling.join().unwrap().unwrap();
        return None;
    }
    let (closer, closed) = (database.clone(), directory.clone());
    let closing = std::thread::spawn(move || {
        closer.close().unwrap();
        closed.written().len()
    });
    wait_until(DEADLINE, "the database refuses calls", || {
        database.append(&[]).is_err_and(|error| error.kind() == ErrorKind::Closed)
    });
    // Time for a `close` that does not wait to return.
    std::thread::sleep(Duration::from_millis(20));
    directory.release();
    let called = within(DEADLINE, "the call", move || calling.join().unwrap());
    let before = within(DEADLINE, "closing", move || closing.join().unwrap());
    // Files that only they needed are not removed any more, either.
    drop((hold, held, database));
    let late = directory.written().split_off(before);
    let again = Database::open_in(Arc::new(files), options(durability)).unwrap();
    assert_eq!(again.verify().unwrap().faults, Vec::<String>::new());
    Some((called, late))
}

#[test]
fn nothing_is_written_once_close_has_returned_whatever_call_was_under_way() {
    for durability in [Durability::None, Durability::Os, Durability::Fsync] {
        let mut steps = 0;
        for (name, call) in WRITING_CALLS {
            for step in 0.. {
                let Some((called, late)) = written_after_close(durability, call, step) else {
                    break;
                };
                let case = format!("{name} stuck in step {step}, {durability:?}");
                assert_eq!(late, Vec::<String>::new(), "{case}");
                if let Err(error) = called {
                    assert_eq!(error.kind(), ErrorKind::Closed, "{case}: {error}");
                }
                steps += 1;
            }
        }
        assert!(steps >= 30, "{durability:?}: only {steps} steps were looked at");
    }
}

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
use drillcore_testkit::deadline::within;
use drillcore_testkit::numbered_batches::{append, create_tables, last_batches, spec};

const SEED: u64 = 3;
const WRITERS: i32 = 3;
const ROUNDS: u64 = 25;
const DEADLINE: Duration = Duration::from_secs(20);

fn options(durability: Durability) -> Options {
    Options { durability, memory_bytes: Options::MEMORY_BYTES_MIN, ..Default::default() }
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
                // The users of the round before have been told by now, or are about to be.
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
    let database = Database::open_in(directory, options, None).unwrap();
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

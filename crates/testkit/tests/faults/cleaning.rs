//! Cleaning up never fails a call: what cannot be removed now goes later, and is reported meanwhile.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use drillcore::directory::{Directory, LocalDirectory, Lock, ReadFile, WriteFile};
use drillcore::*;
use drillcore_testkit::deadline::wait_until;
use drillcore_testkit::numbered_batches::{TABLES, append, create_tables, last_batches};

/// A folder that refuses what only cleaning up asks of it, while a test says so.
struct RefusingDirectory {
    inner: LocalDirectory,
    refuses: Arc<AtomicBool>,
    refused: Refused,
    error: io::ErrorKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refused {
    Removing,
    TryingLeases,
}

impl RefusingDirectory {
    fn check(&self, refused: Refused) -> io::Result<()> {
        match self.refuses.load(Ordering::Relaxed) && refused == self.refused {
            true => Err(io::Error::new(self.error, "refused on purpose")),
            false => Ok(()),
        }
    }
}

impl Directory for RefusingDirectory {
    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
        self.inner.open(name)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        self.inner.create(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.check(Refused::Removing)?;
        self.inner.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        self.inner.lock(name)
    }

    fn try_lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        self.check(Refused::TryingLeases)?;
        self.inner.try_lock(name)
    }
}

fn options(durability: Durability) -> Options {
    // The log is shortened now and then.
    let memory_bytes = Options::MEMORY_BYTES_MIN;
    Options { durability, memory_bytes, wal_bytes_max: 20_000, ..Default::default() }
}

/// Does all that makes files to be removed: flushes, merges, indexing, drops of tables and of named snapshots.
fn work(database: &Database, numbers: std::ops::Range<u64>) -> Result<()> {
    create_tables(database)?;
    for number in numbers {
        append(database, 1, number)?;
        match number % 10 {
            2 => database.flush()?,
            4 => drop(database.named_snapshot("pinned")?),
            5 => database.table("a")?.unindex_all_sets()?,
            6 => database.compact()?,
            7 => database.drop_snapshot("pinned")?,
            8 => {
                let table = database.table("a")?;
                table.index_all_sets()?;
                table.wait_for_set_index()?;
            }
            9 => {
                let spec = drillcore_testkit::numbered_batches::spec("passing");
                database.create_table("passing", spec)?;
                database.drop_table("passing")?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// For what takes milliseconds on an idle machine.
const LIMIT: Duration = Duration::from_secs(60);

/// The result of a call that must not fail.
fn works<T>(case: &str, done: Result<T>) -> T {
    done.unwrap_or_else(|error| panic!("{case}: {error}"))
}

#[test]
fn what_cannot_be_cleaned_up_is_put_off_and_reported() {
    let errors =
        [io::ErrorKind::PermissionDenied, io::ErrorKind::ResourceBusy, io::ErrorKind::Other];
    for refused in [Refused::Removing, Refused::TryingLeases] {
        for durability in [Durability::None, Durability::Os, Durability::Fsync] {
            for error in errors {
                let case = format!("{refused:?} {error:?} {durability:?}");
                let folder = tempfile::tempdir().unwrap();
                let refuses = Arc::new(AtomicBool::new(false));
                let open = || {
                    let inner = LocalDirectory::open(folder.path()).unwrap();
                    let refuses = refuses.clone();
                    let directory = RefusingDirectory { inner, refuses, refused, error };
                    Database::open_in(Arc::new(directory), options(durability))
                };
                // What dead readers and crashes leave behind.
                let leave = || {
                    let path = |name: &str| folder.path().join(name);
                    let lease = "lease-00000000-000000000000-00000000000000aa";
                    std::fs::write(path(lease), b"").unwrap();
                    std::fs::write(path("segment-00005000.drill"), b"half a segment").unwrap();
                };
                let database = open().unwrap();
                work(&database, 1..20).unwrap();
                database.close().unwrap();
                drop(database);
                leave();
                refuses.store(true, Ordering::Relaxed);
                let database = works(&case, open());
                works(&case, work(&database, 20..50));
                let stats = database.stats().unwrap().writer.unwrap();
                assert_eq!(stats.failure, None, "{case}");
                assert!(stats.held_back_bytes > 0, "{case}");
                let reported = match refused {
                    Refused::Removing => stats.unremoved_files,
                    Refused::TryingLeases => stats.untried_leases,
                };
                let named = match refused {
                    Refused::Removing => "segment-00005000.drill",
                    Refused::TryingLeases => "lease-00000000-",
                };
                let is_named = |said: &String| said.contains(named) && said.contains("on purpose");
                assert!(reported.iter().any(is_named), "{case}: {reported:?}");
                works(&case, database.close());
                drop(database);

                // What an opening meets again goes now, and so does what this one leaves.
                refuses.store(false, Ordering::Relaxed);
                let database = works(&case, open());
                works(&case, work(&database, 50..57));
                let stats = database.stats().unwrap().writer.unwrap();
                assert_eq!(
                    (stats.untried_leases, stats.unremoved_files),
                    (vec![], vec![]),
                    "{case}"
                );
                works(&case, database.drop_snapshot("pinned"));
                works(&case, database.compact());
                assert_eq!(last_batches(&database.snapshot().unwrap())[&1], 56, "{case}");
                // A merge of a worker that has just ended may hold its inputs still.
                wait_until(LIMIT, &format!("{case}: nothing is held back"), || {
                    database.stats().unwrap().writer.unwrap().held_back_bytes == 0
                });
                let tables = database.stats().unwrap().tables;
                let segments: u64 = tables.iter().map(|table| table.segments).sum();
                works(&case, database.close());
                let names = std::fs::read_dir(folder.path()).unwrap();
                let names: BTreeSet<String> =
                    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
                let of = |stem: &str| names.iter().filter(|name| name.starts_with(stem)).count();
                assert_eq!(of("segment-") as u64, segments, "{case}: {names:?}");
                assert_eq!((of("lease-"), of("manifest-")), (0, 1), "{case}: {names:?}");
                assert!(segments <= TABLES.len() as u64, "{case}: compacted");
            }
        }
    }
}

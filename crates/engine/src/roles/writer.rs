//! The writer of a database: its parts and its threads, from opening to closing, and what it answers.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use drillcore_format::ids::{Lsn, SegmentId, TableId};
use drillcore_format::schema::TableSchema;
use drillcore_storage::background::be_in_background;
use drillcore_storage::files::directory::Directory;
use drillcore_storage::files::local_directory::LocalDirectory;
use drillcore_storage::files::memory_directory::MemoryDirectory;
use drillcore_storage::files::process::Process;
use drillcore_storage::files::proven_names::ProvenNames;
use drillcore_storage::files::whole_file::is_unfinished;
use drillcore_storage::segments::segment::Segment;
use drillcore_storage::sync::thread::{self, JoinHandle};

use crate::calls::aside::aside;
use crate::calls::interrupt::Interrupt;
use crate::calls::progress::Progress;
use crate::catalog::named_snapshot;
use crate::catalog::tables::{self, Known};
use crate::error::{Error, ErrorKind, Result};
use crate::maintenance::closing::{WithoutRoom, Workers, close};
use crate::maintenance::scheduler::{self, Duty};
use crate::maintenance::spilling::spill_all;
use crate::read::fresh_seed::fresh_seed;
use crate::read::snapshot::Snapshot;
use crate::reports::stats::Stats;
use crate::reports::verify::VerifyReport;
use crate::roles::opening::database_path::check_path;
use crate::roles::opening::recovery;
use crate::roles::time_to_live::expire_now_and_then;
use crate::state::core::Core;
use crate::state::options::{Durability, Options};

/// A database open for writing; it is closed when dropped.
pub struct Writer {
    core: Arc<Core>,
    workers: Arc<Workers>,
    /// The one whose threads the workers are.
    process: Process,
}

/// What a thread does.
type Work = Box<dyn FnOnce() + Send>;

impl Writer {
    /// See [`Database::open`](crate::Database::open).
    pub fn open(path: &Path, options: Options) -> Result<Writer> {
        check_path(path)?;
        let directory = match options.create {
            true => LocalDirectory::create_for(path, options.read_mode()),
            false => LocalDirectory::open_for(path, options.read_mode()),
        };
        let directory = directory.map_err(|error| Error::cannot_open(path, error))?;
        check_is_database(&directory, &path.display().to_string(), options.create)?;
        Writer::open_in(Arc::new(directory), options)
    }

    /// See [`Database::in_memory`](crate::Database::in_memory).
    pub fn in_memory(options: Options) -> Result<Writer> {
        let options = Options { durability: Durability::None, ..options };
        let writer = Writer::open_in(Arc::new(MemoryDirectory::new()), options)?;
        writer.core.die_with_handles();
        Ok(writer)
    }

    /// See [`Database::open_in`](crate::Database::open_in).
    pub fn open_in(directory: Arc<dyn Directory>, options: Options) -> Result<Writer> {
        Writer::open_starting(directory, options, |name, work| {
            thread::Builder::new().name(name).spawn(work)
        })
    }

    /// Opens it with threads of maintenance that `start` starts.
    fn open_starting(
        directory: Arc<dyn Directory>,
        options: Options,
        start: impl FnMut(String, Work) -> io::Result<JoinHandle<()>>,
    ) -> Result<Writer> {
        if options.memory_bytes < Options::MEMORY_BYTES_MIN {
            let (given, least) = (options.memory_bytes, Options::MEMORY_BYTES_MIN);
            return Err(Error::invalid(format!(
                "memory_bytes must be at least {least}, got {given}"
            )));
        }
        let directory: Arc<dyn Directory> = Arc::new(ProvenNames::new(directory));
        let fresh = u128::from(fresh_seed()) << 64 | u128::from(fresh_seed());
        let interrupt = options.interrupt.clone();
        let core = aside(&interrupt, move |interrupt| {
            let options = Options { interrupt: interrupt.clone(), ..options };
            let core = recovery::open(directory, options, fresh.max(1))
                .map_err(|error| error.if_lacking().unwrap_or_else(|error| error))?;
            Ok(Arc::new(core))
        })?;
        let workers = Workers::default();
        let writer = Writer { core, workers: Arc::new(workers), process: Process::current() };
        // Where a thread cannot be started, dropping it ends those that were, and frees the lock.
        writer.start_workers(start)?;
        Ok(writer)
    }

    /// The parts that are open.
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// A table by name.
    pub fn table(&self, name: &str) -> Result<Known> {
        let state = self.core.open_state()?;
        let names = || state.tables.values().map(|table| &*table.name).collect::<BTreeSet<_>>();
        tables::find(&state, name).ok_or_else(|| Error::unknown("table", name, names()))
    }

    /// The names of all tables, in order.
    pub fn tables(&self) -> Result<Vec<String>> {
        let state = self.core.open_state()?;
        let mut names: Vec<String> =
            state.tables.values().map(|table| table.name.to_string()).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// The shape of a table, unless it was dropped.
    pub fn schema(&self, table: TableId) -> Option<Arc<TableSchema>> {
        let state = self.core.state_unless_lost().ok()?;
        Some(state.tables.get(&table)?.schema.clone())
    }

    /// All tables as of the newest visible commit.
    pub fn snapshot(&self, interrupt: &Interrupt) -> Result<Snapshot> {
        Ok(Snapshot::new(self.core.version_interruptibly(interrupt)?))
    }

    /// The snapshot of that name, made now if there is none.
    pub fn named_snapshot(&self, name: &str, interrupt: &Interrupt) -> Result<Snapshot> {
        if let Some(known) = named_snapshot::find(&self.core, name)? {
            return Ok(Snapshot::new(known));
        }
        let (core, name) = (self.core.clone(), name.to_string());
        let pin = move |interrupt: &Interrupt| named_snapshot::open_or_pin(&core, &name, interrupt);
        Ok(Snapshot::new(aside(interrupt, pin)?))
    }

    /// Writes all rows that are visible now to segments.
    pub fn flush(&self, interrupt: &Interrupt) -> Result<()> {
        let core = self.core.clone();
        aside(interrupt, move |interrupt| {
            let _underway = core.begin()?;
            scheduler::flush(&core, core.visible(), interrupt)
        })
    }

    /// Writes the rows in memory that only snapshots hold to files of these.
    pub fn spill_snapshots(&self) -> Result<()> {
        spill_all(&*self.core.begin()?)
    }

    /// Flushes, then merges the segments of each table into one.
    pub fn compact(&self, interrupt: &Interrupt, progress: &Progress) -> Result<()> {
        let (core, progress) = (self.core.clone(), progress.clone());
        aside(interrupt, move |interrupt| {
            let _underway = core.begin()?;
            scheduler::flush(&core, core.visible(), interrupt)?;
            scheduler::compact(&core, interrupt, &progress)
        })
    }

    /// The names of all named snapshots, in order, with the commits they show.
    pub fn snapshots(&self) -> Result<Vec<(String, Lsn)>> {
        named_snapshot::list(&self.core)
    }

    /// How far sources have been read, as visible commits say.
    pub fn positions(&self) -> Result<BTreeMap<String, Vec<u8>>> {
        let state = self.core.open_state()?;
        Ok(state.positions.at(self.core.visible()))
    }

    /// The newest visible commit.
    pub fn visible(&self) -> Result<Lsn> {
        let _is_open = self.core.open_state()?;
        Ok(self.core.visible())
    }

    /// Checks every segment of tables and named snapshots.
    pub fn verify(&self, interrupt: &Interrupt, progress: &Progress) -> Result<VerifyReport> {
        let segments: Vec<_> = {
            let state = self.core.open_state()?;
            let of_tables = state.tables.values().flat_map(|table| &table.segments);
            let of_tables = of_tables.map(|slot| slot.piece.clone());
            let pinned = state.named.values().flat_map(|version| version.segments());
            let by_id: BTreeMap<SegmentId, Arc<Segment>> =
                of_tables.chain(pinned).map(|segment| (segment.id(), segment)).collect();
            by_id.into_values().collect()
        };
        let segments = segments.into_iter().map(Ok).collect();
        VerifyReport::of(&self.core.directory, segments, interrupt, progress)
    }

    /// Sizes, counts and rates.
    pub fn stats(&self) -> Result<Stats> {
        Stats::read(&self.core)
    }

    /// Ends background work, and frees the lock. A second call waits for the first.
    ///
    /// # Errors
    /// See [`closing::close`](close).
    pub fn close(&self, interrupt: &Interrupt) -> Result<()> {
        self.close_or(WithoutRoom::StayOpen, interrupt)
    }

    fn close_or(&self, without_room: WithoutRoom, interrupt: &Interrupt) -> Result<()> {
        if self.process.check().is_err() {
            // In a fork of that process there are no workers, and nothing that is its own to close. A lock may
            // have been held when it was forked, so none is taken.
            return Ok(());
        }
        let (core, workers) = (self.core.clone(), self.workers.clone());
        aside(interrupt, move |_| close(&core, &workers, fresh_seed(), without_room))
    }

    /// Starts the threads of maintenance, each under a name.
    fn start_workers(
        &self,
        mut start: impl FnMut(String, Work) -> io::Result<JoinHandle<()>>,
    ) -> Result<()> {
        let threads = self.core.options.maintenance_threads.max(1);
        for number in 0..threads {
            let core = self.core.clone();
            let is_first_of_several = number == 0 && threads > 1;
            let duty = if is_first_of_several { Duty::Memory } else { Duty::Everything };
            let workers = self.workers.clone();
            let now_and_then = move |core: &Arc<Core>| expire_now_and_then(core, &workers.expiry);
            let work = Box::new(move || {
                be_in_background();
                scheduler::work(&core, duty, now_and_then);
            });
            let worker = start(format!("drillcore-maintenance-{number}"), work)
                .map_err(|error| Error::io("cannot start a thread for maintenance", error))?;
            self.workers.maintenance.lock().push(worker);
        }
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.process.check().is_err() {
            // The threads are not here, but their share of `workers` is. So no handle of a thread is dropped, which would
            // detach what does not exist.
            return;
        }
        // No caller is left for an error; what was acknowledged is in the log.
        let _ = self.close_or(WithoutRoom::Close, &Interrupt::never());
    }
}

/// A directory with files but without a manifest is something else.
fn check_is_database(directory: &dyn Directory, path: &str, create: bool) -> Result<()> {
    if recovery::holds_database(directory, path)? {
        return Ok(());
    }
    let names =
        directory.list().map_err(|error| Error::io(format_args!("cannot list {path}"), error))?;
    // A first manifest that was being begun has no name yet.
    if names.iter().any(|name| name != recovery::LOCK_FILE && !is_unfinished(name)) {
        return Err(Error::invalid(format!(
            "{path} is not a Drillcore database, and not empty; use a new or an empty directory"
        )));
    }
    if !create {
        return Err(Error::new(ErrorKind::NotFound, format!("there is no database in {path}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_thread_of_maintenance_that_cannot_be_started_fails_the_opening_and_frees_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let threads = 3;
        for nth in 0..threads {
            let options = Options { maintenance_threads: threads, ..Options::default() };
            let directory = || Arc::new(LocalDirectory::open(folder.path()).unwrap());
            let mut started = 0;
            let start = |name, work| {
                if started == nth {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                started += 1;
                thread::Builder::new().name(name).spawn(work)
            };
            let refused = Writer::open_starting(directory(), options.clone(), start);
            let error = refused.err().expect("a thread is missing");
            assert_eq!(error.kind(), ErrorKind::Io, "{error}");
            assert!(error.to_string().contains("cannot start a thread"), "{error}");
            Writer::open_in(directory(), options).unwrap().close(&Interrupt::never()).unwrap();
        }
    }

    /// See `drillcore_storage::background`.
    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu", not(feature = "shuttle")))]
    fn threads_of_maintenance_interrupt_no_others() {
        let (sender, started) = std::sync::mpsc::channel();
        let start = |name: String, work: Work| {
            let sender = sender.clone();
            thread::Builder::new().name(name).spawn(move || {
                sender.send(std::fs::read_link("/proc/thread-self").unwrap()).unwrap();
                work();
            })
        };
        let options = Options { maintenance_threads: 2, ..Options::default() };
        let writer =
            Writer::open_starting(Arc::new(MemoryDirectory::new()), options, start).unwrap();
        for thread in started.iter().take(2) {
            let stat = std::path::Path::new("/proc").join(thread).join("stat");
            let is_batch = || {
                // Behind the name, the 39th field is the policy; 3 is that of batches.
                let line = std::fs::read_to_string(&stat).unwrap();
                line.rsplit(')').next().unwrap().split_whitespace().nth(38) == Some("3")
            };
            let since = std::time::Instant::now();
            while !is_batch() {
                assert!(since.elapsed().as_secs() < 20);
                thread::yield_now();
            }
        }
        writer.close(&Interrupt::never()).unwrap();
    }

    #[test]
    fn closing_ends_threads_that_work_for_reads() {
        let writer = Writer::in_memory(Options::default()).unwrap();
        let reads = writer.core.state().reads.clone();
        let has_ended = Arc::new(AtomicBool::new(false));
        let ended = has_ended.clone();
        let work = move |interrupt: &Interrupt| {
            while interrupt.check().is_ok() {
                thread::yield_now();
            }
            ended.store(true, Ordering::Relaxed);
        };
        reads.threads.start("drillcore-test", work).unwrap();
        writer.close(&Interrupt::never()).unwrap();
        assert!(has_ended.load(Ordering::Relaxed), "it is still running");
    }
}

//! Reader processes: a database that another process may be writing, read without disturbing it.
//!
//! A reader sees the segments of one version of the manifest, held by a lease, and the complete frames of the
//! log above them. It writes nothing but its lease file, and moves on when it is refreshed: then it reads of the log what
//! is new, or all that is needed once the writer has flushed some of what it holds. What its log holds
//! beyond the segments is kept in memory, at most about as much as the writer's `wal_bytes_max`. The same
//! lease holds the segments of that version's named snapshots, so they are opened when they are asked for.
//!
//! A reader at a moment sees the version and the end of the log that another reader saw, and stays there. Each reader has
//! a second lease, on its moment, which keeps the manifest and the log for those who open it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use drillcore_format::ids::{Lsn, SegmentId, TableId};
use drillcore_format::rows::Layout;
use drillcore_format::schema::TableSchema;
use drillcore_storage::files::directory::Directory;
use drillcore_storage::files::local_directory::LocalDirectory;
use drillcore_storage::files::open_files::OpenFiles;
use drillcore_storage::manifest::PinnedSnapshot;
use drillcore_storage::pages::page_cache::PageCache;
use drillcore_storage::segments::segment::Segment;
use parking_lot::Mutex;

use crate::calls::interrupt::Interrupt;
use crate::calls::progress::Progress;
use crate::catalog::tables::Known;
use crate::error::{Error, ErrorKind, Result};
use crate::pieces::rows_examined::RowsExamined;
use crate::read::snapshot::Snapshot;
use crate::reports::stats::Stats;
use crate::reports::verify::VerifyReport;
use crate::roles::known_segments::KnownSegments;
use crate::roles::loader::{Current, Loader, Shown};
use crate::roles::opening::database_path::check_path;
use crate::roles::opening::recovery::{self, open_described, open_snapshot};
use crate::select::read_memory::ReadMemory;
use crate::state::clock::Clock;
use crate::state::moment::{At, Moment};
use crate::state::options::{READER_LIST_BYTES, ReadOptions};
use crate::state::version::Version;

/// A database open for reading only. Clones share it.
#[derive(Clone)]
pub struct Reader {
    shared: Arc<Shared>,
}

struct Shared {
    loader: Loader,
    current: Mutex<Option<Arc<Current>>>,
    /// Held while manifest and log are read: what a later refresh finds is no older.
    loading: Mutex<()>,
}

impl Reader {
    /// See [`Database::open_read_only`](crate::Database::open_read_only).
    pub fn open(path: &Path, options: &ReadOptions) -> Result<Reader> {
        check_path(path)?;
        let directory = LocalDirectory::open_for(path, options.read_mode())
            .map_err(|error| Error::cannot_open(path, error))?;
        let folder = path.display().to_string();
        if !recovery::holds_database(&directory, &folder)? {
            let message = format!("there is no database in {folder}");
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        Reader::open_in(Arc::new(directory), options)
    }

    /// [`Reader::open`] in any [`Directory`] that holds a database.
    pub fn open_in(directory: Arc<dyn Directory>, options: &ReadOptions) -> Result<Reader> {
        let directory: Arc<dyn Directory> = Arc::new(OpenFiles::new(directory));
        let reads = ReadMemory::new(READER_LIST_BYTES, options.direct_io);
        let loader = Loader {
            cache: Arc::new(PageCache::new(directory.clone(), options.cache_bytes)),
            directory,
            meter: reads.meter.clone(),
            examined: RowsExamined::default(),
            reads,
            clock: Clock::default(),
            segments: KnownSegments::default(),
        };
        let current = loader.load(&options.at, None, &options.interrupt)?;
        let (current, loading) = (Mutex::new(Some(Arc::new(current))), Mutex::new(()));
        Ok(Reader { shared: Arc::new(Shared { loader, current, loading }) })
    }

    /// A table by name, as of the last refresh.
    pub fn table(&self, name: &str) -> Result<Known> {
        let snapshot = self.snapshot(&Interrupt::never())?.table(name)?;
        let table = snapshot.table();
        Ok(Known { id: table.id, name: table.name.clone(), schema: table.schema.clone() })
    }

    /// The names of all tables, in order.
    pub fn tables(&self) -> Result<Vec<String>> {
        Ok(self.snapshot(&Interrupt::never())?.tables())
    }

    /// The shape of a table, unless it was dropped.
    pub fn schema(&self, table: TableId) -> Option<Arc<TableSchema>> {
        let current = self.current().ok()?;
        let found = current.version.tables.get(&table)?;
        Some(found.schema.clone())
    }

    /// The directory that is read, unless the reader was closed.
    pub fn directory(&self) -> Result<Arc<dyn Directory>> {
        let _is_open = self.current()?;
        Ok(self.shared.loader.directory.clone())
    }

    /// All tables as of the last refresh.
    pub fn snapshot(&self, interrupt: &Interrupt) -> Result<Snapshot> {
        Ok(Snapshot::new(self.shown(&*self.current()?, interrupt)?))
    }

    /// What is read, without what has expired.
    fn shown(&self, current: &Current, interrupt: &Interrupt) -> Result<Arc<Version>> {
        let clock = self.shared.loader.clock.now();
        if current.fixed.is_some() || !current.version.expires {
            return Ok(current.version.clone());
        }
        let mut shown = current.shown.lock();
        if shown.version.clock < clock {
            let Shown { version, expiring } = &mut *shown;
            let later = version.at_clock(clock, expiring, &self.shared.loader.meter, interrupt);
            // What was taken of it before an error is not in the version.
            let later = later.inspect_err(|_| expiring.clear())?;
            *version = Arc::new(later);
        }
        Ok(shown.version.clone())
    }

    /// What is read, for others that open it too, and as a snapshot.
    pub fn moment(&self, interrupt: &Interrupt) -> Result<(Moment, Snapshot)> {
        let current = self.current()?;
        let shown = self.shown(&current, interrupt)?;
        let moment = match &current.fixed {
            Some(fixed) => fixed.clone(),
            None => {
                let moment = current.moment()?;
                if shown.expires { moment.at_clock(shown.clock) } else { moment }
            }
        };
        Ok((moment, Snapshot::new(shown)))
    }

    /// The named snapshot as it was pinned by the writer, also one that was dropped since the last refresh.
    pub fn named_snapshot(&self, name: &str, interrupt: &Interrupt) -> Result<Snapshot> {
        let current = self.current()?;
        let Some(pinned) = current.named.get(name) else {
            return Err(Error::unknown("snapshot", name, current.named.keys().map(String::as_str)));
        };
        let segments = pinned.segments();
        let mut opening = self.shared.loader.opening(&current.postings, &current.lease, segments);
        let open = |id, layout: &Layout| {
            interrupt.check()?;
            opening.segment(id, layout)
        };
        let version = open_snapshot(pinned, &self.shared.loader.reads, open)?;
        opening.finish(interrupt)?;
        Ok(Snapshot::new(Arc::new(version)))
    }

    /// The names of all named snapshots as of the last refresh, in order, with the commits they show.
    pub fn snapshots(&self) -> Result<Vec<(String, Lsn)>> {
        let current = self.current()?;
        Ok(current.named.iter().map(|(name, pinned)| (name.clone(), pinned.lsn)).collect())
    }

    /// How far sources have been read as of the last refresh.
    pub fn positions(&self) -> Result<BTreeMap<String, Vec<u8>>> {
        let current = self.current()?;
        if current.fixed.as_ref().is_some_and(|moment| moment.snapshot().is_some()) {
            let message =
                "a named snapshot has no positions of sources; ask a reader of the newest commit";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(current.positions.at(current.version.lsn()))
    }

    /// Checks every segment of the last refresh, those of named snapshots too. The writer's merges remove nothing of
    /// it meanwhile.
    pub fn verify(&self, interrupt: &Interrupt, progress: &Progress) -> Result<VerifyReport> {
        let current = self.current()?;
        let of_tables =
            current.version.segments().into_iter().map(|segment| (segment.id(), Ok(segment)));
        let mut segments: BTreeMap<SegmentId, Result<Arc<Segment>>> = of_tables.collect();
        let of_named = current.named.values().flat_map(PinnedSnapshot::segments);
        let mut opening = self.shared.loader.opening(&current.postings, &current.lease, of_named);
        for table in current.named.values().flat_map(|pinned| &pinned.tables) {
            let layout = Layout::new(&table.schema);
            for meta in &table.segments {
                segments.entry(meta.id).or_insert_with(|| {
                    let mut open = |id, layout: &Layout| opening.segment(id, layout);
                    open_described(table.table, meta, &layout, &mut open)
                });
            }
        }
        opening.finish(interrupt)?;
        let segments = segments.into_values().collect();
        VerifyReport::of(&self.shared.loader.directory, segments, interrupt, progress)
    }

    /// Sizes and counts of what this reader holds and has read. What the writer does is not in them.
    pub fn stats(&self) -> Result<Stats> {
        let current = self.current()?;
        let Loader { cache, meter, examined, .. } = &self.shared.loader;
        Ok(Stats::of_reader(&current.version, &current.log, cache, meter, examined))
    }

    /// Takes what is there now for what is read, and returns its newest commit. Snapshots taken before stay as they
    /// are.
    pub fn refresh(&self, interrupt: &Interrupt) -> Result<Lsn> {
        let _loading = self.shared.loading.lock();
        let before = self.current()?;
        if let Some(moment) = &before.fixed {
            let message = format!(
                "this reader was opened at {moment} and cannot refresh; open another reader for newer rows"
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let fresh = self.shared.loader.load(&At::Newest, Some(&before), interrupt)?;
        let lsn = fresh.version.lsn();
        // Who closed it meanwhile wants no more of it.
        if let Some(current) =
            self.shared.current.lock().as_mut().filter(|_| before.version.lsn() <= lsn)
        {
            *current = Arc::new(fresh);
        }
        Ok(lsn)
    }

    /// Lets go of what is read. Snapshots stay readable, and hold the lease as long as they need its files.
    pub fn close(&self) {
        self.shared.current.lock().take();
        self.shared.loader.reads.threads.end();
    }

    fn current(&self) -> Result<Arc<Current>> {
        let current = self.shared.current.lock().clone();
        current
            .ok_or_else(|| Error::new(ErrorKind::Closed, "the database is closed; open it again"))
    }
}

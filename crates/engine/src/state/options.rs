//! How a database is opened.

use std::thread;

use drillcore_storage::files::local_directory::ReadMode;

use crate::calls::interrupt::Interrupt;
use crate::state::moment::At;

/// What a commit survives once `append` has returned.
///
/// ```
/// use drillcore::{Database, Durability, Options};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("ledger.drill");
/// let options = Options { durability: Durability::Fsync, ..Options::default() };
/// let ledger = Database::open(&path, options)?; // each append waits for the disk
/// # ledger.close()?;
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// Nothing but a clean close, which writes all rows to segments.
    None,
    /// A killed process, but not power loss.
    Os,
    /// Power loss.
    Fsync,
}

/// The default limit on cached pages of segments.
const CACHE_BYTES: u64 = 128 << 20;

/// One for memory, which must not wait, and one for merges, which are long.
const MAINTENANCE_THREADS_MIN: usize = 2;
/// Lists of rows that reads leave for later ones take this share of `memory_bytes`, ...
const LIST_SHARE: u64 = 4;
/// ... and of a reader this.
pub const READER_LIST_BYTES: u64 = 128 << 20;

/// Options of [`Database::open`](crate::Database::open).
///
/// ```
/// use drillcore::{Database, Options};
///
/// let options = Options { memory_bytes: 64 << 20, cache_bytes: 16 << 20, ..Options::default() };
/// let small = Database::in_memory(options)?;
/// assert_eq!(small.stats()?.cache_bytes_limit, 16 << 20);
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    /// What a commit survives once `append` has returned. By default [`Durability::Os`].
    pub durability: Durability,
    /// Memory budget, in bytes, for rows, running compactions, set lists that maintenance makes, and what reads keep (row lists,
    /// bitmaps; up to half of it). By default 512 MiB, at least [`Options::MEMORY_BYTES_MIN`].
    ///
    /// Writers slow down near the limit and wait at it. Flushed rows that only snapshots hold are spilled to files; meanwhile
    /// writers slow down.
    pub memory_bytes: u64,
    /// The limit on cached pages of segments. By default 128 MiB. Up to half of it is for index pages, which stay while their
    /// segments are open.
    pub cache_bytes: u64,
    /// Read segments past the cache of the operating system, so that their pages are held once, and the limit above is
    /// what they take. Where the file system cannot do that, they are read as usual.
    pub direct_io: bool,
    /// Issue the reads of one call together through io_uring where available; otherwise use threads.
    pub io_uring: bool,
    /// Threads that flush and merge. Half of the cores, but two at least, by default.
    pub maintenance_threads: usize,
    /// Flushes and merges that write more than this make several segments, each of some of the keys and about as long. Their
    /// threads share what has a part of it for each. By default 1 GiB.
    pub segment_bytes: u64,
    /// The log may grow to this before rows are flushed to shorten it. By default 1 GiB.
    pub wal_bytes_max: u64,
    /// Make the database where there is none.
    pub create: bool,
    /// Stops the opening, and then the calls made through the handle that it returns: see
    /// [`Database::interrupted_by`](crate::Database::interrupted_by).
    pub interrupt: Interrupt,
}

/// Options of [`Database::open_read_only`](crate::Database::open_read_only).
///
/// ```
/// use drillcore::{Database, ErrorKind, ReadOptions};
///
/// let options = ReadOptions { cache_bytes: 16 << 20, ..ReadOptions::default() };
/// let missing = Database::open_read_only("/no/such/directory", options);
/// assert_eq!(missing.err().unwrap().kind(), ErrorKind::NotFound);
/// ```
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// Which state of the database is shown.
    pub at: At,
    /// The limit on cached pages of segments. By default 128 MiB. Up to half of it is for index pages, which stay while their
    /// segments are open.
    pub cache_bytes: u64,
    /// Read segments past the cache of the operating system, so that their pages are held once, and the limit above is
    /// what they take. Where the file system cannot do that, they are read as usual.
    pub direct_io: bool,
    /// Issue the reads of one call together through io_uring where available; otherwise use threads.
    pub io_uring: bool,
    /// Stops the opening, and then the calls made through the handle that it returns: see
    /// [`Database::interrupted_by`](crate::Database::interrupted_by).
    pub interrupt: Interrupt,
}

impl Options {
    /// The least a database works with.
    pub const MEMORY_BYTES_MIN: u64 = 1 << 20;

    pub(crate) fn read_mode(&self) -> ReadMode {
        ReadMode { direct_io: self.direct_io, io_uring: self.io_uring }
    }

    /// What lists of rows that reads leave for later ones may take.
    pub(crate) fn list_bytes(&self) -> u64 {
        self.memory_bytes / LIST_SHARE
    }
}

impl ReadOptions {
    pub(crate) fn read_mode(&self) -> ReadMode {
        ReadMode { direct_io: self.direct_io, io_uring: self.io_uring }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            durability: Durability::Os,
            memory_bytes: 512 << 20,
            cache_bytes: CACHE_BYTES,
            direct_io: false,
            io_uring: true,
            maintenance_threads: maintenance_threads(),
            segment_bytes: 1 << 30,
            wal_bytes_max: 1 << 30,
            create: true,
            interrupt: Interrupt::never(),
        }
    }
}

fn maintenance_threads() -> usize {
    (thread::available_parallelism().map_or(0, usize::from) / 2).max(MAINTENANCE_THREADS_MIN)
}

impl Default for ReadOptions {
    fn default() -> ReadOptions {
        let interrupt = Interrupt::never();
        let (at, cache_bytes) = (At::Newest, CACHE_BYTES);
        ReadOptions { at, cache_bytes, direct_io: false, io_uring: true, interrupt }
    }
}

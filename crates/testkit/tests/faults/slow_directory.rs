//! A disk that takes its time, and the table on it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use drillcore::arrow_array::{ArrayRef, Int64Array};
use drillcore::directory::{Directory, Lock, MemoryDirectory, ReadFile, WriteFile};
use drillcore_testkit::event_table::Events;

pub const EVENTS: Events = Events { teams: 40, payload_bytes: 200 };
pub const ROWS: i64 = 20_000;
/// The time that a device far away takes to answer.
pub const FAR: Duration = Duration::from_millis(20);
/// The time that a page takes which is hard to read.
pub const STUCK: Duration = Duration::from_secs(3);
pub const NOWHERE: u64 = u64::MAX;

/// A folder in memory behind a disk that takes its time. Clones share the disk.
#[derive(Clone)]
pub struct SlowDirectory {
    pub files: MemoryDirectory,
    pub disk: Arc<Disk>,
}

pub struct Disk {
    /// How long a read takes, in milliseconds.
    pub pause: AtomicU64,
    /// All reads of segments fail.
    pub is_broken: AtomicBool,
    /// Reads of segments at this place fail, ...
    pub broken: AtomicU64,
    /// ... and at this one take a second.
    pub stuck: AtomicU64,
    /// Reads of segments.
    pub reads: AtomicUsize,
    /// The place of the last read of a segment.
    pub last: AtomicU64,
    pub under_way: AtomicUsize,
    pub most_under_way: AtomicUsize,
    /// Listings of the directory.
    pub lists: AtomicUsize,
}

struct SlowFile {
    inner: Arc<dyn ReadFile>,
    is_segment: bool,
    disk: Arc<Disk>,
}

impl SlowDirectory {
    pub fn new() -> SlowDirectory {
        let disk = Disk {
            pause: AtomicU64::new(0),
            is_broken: AtomicBool::new(false),
            broken: AtomicU64::new(NOWHERE),
            stuck: AtomicU64::new(NOWHERE),
            reads: AtomicUsize::new(0),
            last: AtomicU64::new(0),
            under_way: AtomicUsize::new(0),
            most_under_way: AtomicUsize::new(0),
            lists: AtomicUsize::new(0),
        };
        SlowDirectory { files: MemoryDirectory::new(), disk: Arc::new(disk) }
    }

    pub fn take(&self, pause: Duration) {
        self.disk.pause.store(pause.as_millis() as u64, Ordering::SeqCst);
    }

    pub fn break_at(&self, offset: u64) {
        self.disk.broken.store(offset, Ordering::SeqCst);
    }
}

impl ReadFile for SlowFile {
    fn byte_len(&self) -> io::Result<u64> {
        self.inner.byte_len()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let disk = &self.disk;
        let under_way = disk.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        disk.most_under_way.fetch_max(under_way, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(disk.pause.load(Ordering::SeqCst)));
        disk.under_way.fetch_sub(1, Ordering::SeqCst);
        if self.is_segment {
            disk.reads.fetch_add(1, Ordering::SeqCst);
            disk.last.store(offset, Ordering::SeqCst);
            let read = offset..offset + buffer.len() as u64;
            if read.contains(&disk.stuck.load(Ordering::SeqCst)) {
                thread::sleep(STUCK);
            }
            let is_broken = disk.is_broken.load(Ordering::SeqCst);
            if is_broken || read.contains(&disk.broken.load(Ordering::SeqCst)) {
                return Err(io::Error::from_raw_os_error(5));
            }
        }
        self.inner.read_exact_at(buffer, offset)
    }
}

impl Directory for SlowDirectory {
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.lists.fetch_add(1, Ordering::SeqCst);
        self.files.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
        let (inner, disk) = (self.files.open(name)?, self.disk.clone());
        Ok(Arc::new(SlowFile { inner, is_segment: name.starts_with("segment-"), disk }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        self.files.create(name)
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

pub fn keys(ids: impl IntoIterator<Item = i64>) -> [ArrayRef; 1] {
    [Arc::new(Int64Array::from_iter_values(ids))]
}

//! The door to files: everything the store keeps goes through a [`Directory`].
//!
//! Files are written once, front to back, and never changed afterwards. A new file is durable after
//! [`WriteFile::sync`] and [`Directory::sync`]; until then a power cut may take it away, or any of its pages.
//! After a sync that failed, what is read proves nothing, nor does a later sync: write it anew.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::files::read_threads::read_with_threads;
pub use crate::files::reads::{Descriptor, FileIdentity, ReadFile};
use crate::files::reads::{ReadBytes, ReadRequest, TakeRead};

/// A flat directory of files.
pub trait Directory: Send + Sync {
    /// The names of all files, in no order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Opens an existing file for reading at any position.
    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadFile>>;
    /// [`Directory::open`] of a file that is read in whole pages, which the caller keeps: the system need not.
    fn open_pages(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
        self.open(name)
    }
    /// Reads ranges of files that were opened here, many at once, and hands over each result once it is there. One that fails
    /// or takes long leaves the others alone.
    ///
    /// The door to everything that is far away: the cost of a call is that of a few reads, however many ranges it has.
    fn read_each(&self, requests: &[ReadRequest], take: TakeRead<'_>) {
        read_with_threads(requests, take);
    }
    /// [`Directory::read_each`], with all results in the order of the requests.
    fn read_many(&self, requests: &[ReadRequest]) -> Vec<io::Result<ReadBytes>> {
        let mut results: Vec<_> = requests.iter().map(|_| None).collect();
        self.read_each(requests, &mut |number, read| results[number] = Some(read));
        results.into_iter().map(|result| result.expect("each read has a result")).collect()
    }
    /// How many reads of some 256 KiB are best under way at once for who reads files from end to end. One, where the system reads
    /// ahead by itself; a device that is far away is as fast as it can be only with several. A directory around another one hands
    /// this on.
    fn reads_in_sequence(&self) -> u64 {
        8
    }
    /// How [`Directory::read_each`] has several reads under way: a word for statistics.
    fn reads_by(&self) -> &'static str {
        "threads"
    }
    /// Whether what [`Directory::open_pages`] opens is read past the cache of the system, as far as is known: what files have been
    /// opened may have shown that it cannot be. A directory around another one hands this on.
    fn reads_past_cache(&self) -> bool {
        false
    }
    /// Creates a file; one of that name must not exist.
    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>>;
    /// Gives a file another name, and takes it from the file that had it. A power cut leaves the name with the one
    /// or the other.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file; fails where there is none.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes creations, removals and names durable.
    fn sync(&self) -> io::Result<()>;
    /// Takes the lock of a file, which is made where there is none, for this holder alone; `None` where another
    /// one lives. Freed on drop, and by the kernel when the process dies.
    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>>;
    /// Keeps others from [`Directory::lock`]; `None` if it is held already. Makes no file, and asks for no more
    /// than the right to read it.
    fn try_lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        self.lock(name)
    }
    /// Whether it is this process that holds a lock.
    fn is_locked_here(&self, _name: &str) -> bool {
        false
    }
    /// The directory of the local file system that it is, if it is one.
    fn local_folder(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// How many more bytes files may take, as far as that is known.
    fn free_bytes(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }
}

/// A file that is being written, at its end, by one thread at a time.
pub trait WriteFile: Send + Sync {
    /// Appends bytes. They are durable after [`WriteFile::sync`]; after an error any part of them may be in the file.
    fn write_all(&self, bytes: &[u8]) -> io::Result<()>;
    /// [`WriteFile::write_all`] of several parts, one behind the other.
    fn write_all_of(&self, parts: &[&[u8]]) -> io::Result<()> {
        match parts {
            [bytes] => self.write_all(bytes),
            _ => self.write_all(&parts.concat()),
        }
    }
    /// Makes everything written before the call durable. Another thread may write meanwhile.
    fn sync(&self) -> io::Result<()>;
}

/// Held while a database is open for writing.
pub trait Lock: Send + Sync {}

/// Reads a whole file.
pub fn read_file(directory: &dyn Directory, name: &str) -> io::Result<Vec<u8>> {
    let file = directory.open(name)?;
    let len = usize::try_from(file.byte_len()?).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

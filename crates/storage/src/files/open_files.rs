//! Open files within a budget of file descriptors.
//!
//! A process may hold a limited number of files open at once, often 256 or 1,024 for everything it does, and a database
//! may have more segments than that. [`OpenFiles`] is a door to a directory whose files stay open only while there is
//! room. Reading a file that was closed opens it again, by its name, and closes one that was not read for some
//! time (second chance, or CLOCK: Corbató, 1968). Where the system has no descriptor left, whatever needs one, also a new file, a
//! listing or a lock, first has all databases of the process close what is not being read, and tries again.
//!
//! What it leaves to others: that a file which may still be read keeps its name. Files are named by numbers that
//! are never given twice, and go once no handle and no [lease](crate::files::lease) needs them.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::error::{Lack, same_error};
use crate::few::Few;
use crate::files::directory::{Directory, FileIdentity, Lock, ReadFile, WriteFile};
use crate::files::reads::{ReadBytes, ReadRequest, TakeRead};

/// The files of one database may take this share of the descriptors of the process ...
const SHARE: u64 = 4;
/// ... and at least this many ...
const LEAST: usize = 8;
/// ... and no more, so that closing one stays cheap.
const MOST: usize = 4096;
/// How often a call that lacks a descriptor is tried ...
const ATTEMPTS: u32 = 8;
/// ... and how long it waits where none of ours could be closed: reads end soon.
const PAUSE: Duration = Duration::from_millis(5);

/// How long a wave waits for others that have files open: a wave may have a page that takes very long. In tests no page does, but the
/// machine may be busy.
const TURN_PATIENCE: Duration = Duration::from_millis(if cfg!(test) { 20_000 } else { 200 });

/// All pools of the process: descriptors are its own, not a database's.
static POOLS: Mutex<Vec<Weak<Pool>>> = Mutex::new(Vec::new());

/// A directory of which a limited number of files is open for reading.
pub struct OpenFiles {
    pool: Arc<Pool>,
}

struct Pool {
    directory: Arc<dyn Directory>,
    limit: usize,
    /// What is open. The first one is closed next, unless it was read meanwhile.
    open: Mutex<VecDeque<Arc<PooledFile>>>,
    beside: Mutex<Beside>,
    wave_ended: Condvar,
}

/// Descriptors beside those of the files that are kept open.
#[derive(Default)]
struct Beside {
    /// Of files that waves are about to open.
    opening: usize,
    /// Of files that were closed while they were being read.
    still_read: Vec<Weak<dyn ReadFile>>,
}

/// The files that a wave may open.
struct Turn<'a> {
    pool: &'a Pool,
    files: usize,
}

/// A file that is open or can be opened again.
struct PooledFile {
    name: String,
    purpose: Purpose,
    identity: Option<FileIdentity>,
    open: Mutex<Option<Arc<dyn ReadFile>>>,
    /// Since it was opened, or last passed over.
    was_read: AtomicBool,
}

/// What a file was opened for.
#[derive(Clone, Copy)]
enum Purpose {
    Bytes,
    Pages,
}

/// What a caller holds of a file. Dropping it closes the file.
struct Handle {
    pool: Arc<Pool>,
    file: Arc<PooledFile>,
}

impl OpenFiles {
    /// A directory that keeps a quarter of the descriptors that the process may have, if it has as many files.
    pub fn new(directory: Arc<dyn Directory>) -> OpenFiles {
        OpenFiles::with_limit(directory, limit_of_process())
    }

    /// A directory that keeps at most `limit` files open, and those that are being read at the moment.
    pub fn with_limit(directory: Arc<dyn Directory>, limit: usize) -> OpenFiles {
        let pool = Arc::new(Pool {
            directory,
            limit,
            open: Mutex::default(),
            beside: Mutex::default(),
            wave_ended: Condvar::new(),
        });
        let mut pools = POOLS.lock();
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(&pool));
        OpenFiles { pool }
    }
}

impl Directory for OpenFiles {
    fn list(&self) -> io::Result<Vec<String>> {
        with_descriptor(|| self.pool.directory.list())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
        self.pool.open(name, Purpose::Bytes)
    }

    fn open_pages(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
        self.pool.open(name, Purpose::Pages)
    }

    /// Waves of files that may all be open at once.
    fn read_each(&self, requests: &[ReadRequest], take: TakeRead<'_>) {
        let is_same = |a: &ReadRequest, b: &ReadRequest| Arc::ptr_eq(&a.file, &b.file);
        let files: Few<&[ReadRequest]> = requests.chunk_by(is_same).collect();
        let mut first = 0;
        for wave in files.chunks(self.pool.limit) {
            self.pool.read_wave(wave, &mut |number, read| take(first + number, read));
            first += wave.iter().map(|of_file| of_file.len()).sum::<usize>();
        }
    }

    fn reads_in_sequence(&self) -> u64 {
        self.pool.directory.reads_in_sequence()
    }

    fn reads_by(&self) -> &'static str {
        self.pool.directory.reads_by()
    }

    fn reads_past_cache(&self) -> bool {
        self.pool.directory.reads_past_cache()
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        with_descriptor(|| self.pool.directory.create(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.pool.directory.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.pool.directory.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.pool.directory.sync()
    }

    fn local_folder(&self) -> Option<BorrowedFd<'_>> {
        self.pool.directory.local_folder()
    }

    fn free_bytes(&self) -> io::Result<Option<u64>> {
        self.pool.directory.free_bytes()
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        with_descriptor(|| self.pool.directory.lock(name))
    }

    fn try_lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        with_descriptor(|| self.pool.directory.try_lock(name))
    }

    fn is_locked_here(&self, name: &str) -> bool {
        self.pool.directory.is_locked_here(name)
    }
}

impl ReadFile for Handle {
    fn byte_len(&self) -> io::Result<u64> {
        self.pool.opened(&self.file)?.byte_len()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.pool.opened(&self.file)?.read_exact_at(buffer, offset)
    }

    fn read_over(&self, earlier: ReadBytes, offset: u64, len: usize) -> io::Result<ReadBytes> {
        self.pool.opened(&self.file)?.read_over(earlier, offset, len)
    }

    fn identity(&self) -> io::Result<Option<FileIdentity>> {
        Ok(self.file.identity)
    }

    fn opened(&self) -> io::Result<Option<Arc<dyn ReadFile>>> {
        self.pool.opened(&self.file).map(Some)
    }

    fn if_open(&self) -> Option<Arc<dyn ReadFile>> {
        self.file.if_open()
    }
}

impl Purpose {
    fn open(self, directory: &dyn Directory, name: &str) -> io::Result<Arc<dyn ReadFile>> {
        match self {
            Purpose::Bytes => directory.open(name),
            Purpose::Pages => directory.open_pages(name),
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.pool.beside.lock().opening -= self.files;
        self.pool.wave_ended.notify_all();
    }
}

impl Beside {
    fn count(&mut self) -> usize {
        self.still_read.retain(|file| file.strong_count() > 0);
        self.opening + self.still_read.len()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.file.open.lock().take().is_some() {
            self.pool.open.lock().retain(|file| !Arc::ptr_eq(file, &self.file));
        }
    }
}

impl Pool {
    fn open(self: &Arc<Pool>, name: &str, purpose: Purpose) -> io::Result<Arc<dyn ReadFile>> {
        let opened = with_descriptor(|| purpose.open(&*self.directory, name))?;
        let file = Arc::new(PooledFile {
            name: name.to_string(),
            purpose,
            identity: opened.identity()?,
            open: Mutex::new(Some(opened)),
            was_read: AtomicBool::new(false),
        });
        self.keep(file.clone());
        Ok(Arc::new(Handle { pool: self.clone(), file }))
    }

    /// Reads ranges of some files, given file by file, all of which are open meanwhile.
    fn read_wave(&self, files: &[&[ReadRequest]], take: TakeRead<'_>) {
        let (mut number, mut numbers, mut opened) = (0, Few::new(), Few::new());
        for (requests, file) in files.iter().zip(self.open_together(files)) {
            for request in *requests {
                match &file {
                    Err(error) => take(number, Err(same_error(error))),
                    Ok(file) => {
                        numbers.push(number);
                        opened.push(ReadRequest { file: file.clone(), ..*request });
                    }
                }
                number += 1;
            }
        }
        if !opened.is_empty() {
            self.directory.read_each(&opened, &mut |at, read| take(numbers[at], read));
        }
        drop(opened);
        self.wave_ended.notify_all();
    }

    /// The files of a wave, all of them open.
    fn open_together(&self, files: &[&[ReadRequest]]) -> Few<io::Result<Arc<dyn ReadFile>>> {
        let (found, _turn) = self.find_open(files);
        let or_open = |(requests, found): (&&[ReadRequest], Option<_>)| match found {
            Some(file) => Ok(file),
            None => Ok(requests[0].file.opened()?.unwrap_or_else(|| requests[0].file.clone())),
        };
        files.iter().zip(found).map(or_open).collect()
    }

    /// Those files that are open, and the right to open the others. Who waits for it, which is not for long, keeps none open.
    fn find_open(
        &self,
        files: &[&[ReadRequest]],
    ) -> (Few<Option<Arc<dyn ReadFile>>>, Option<Turn<'_>>) {
        let mut until = None;
        loop {
            let found: Few<_> = files.iter().map(|requests| requests[0].file.if_open()).collect();
            let closed = found.iter().filter(|file| file.is_none()).count();
            if closed == 0 {
                return (found, None);
            }
            let mut beside = self.beside.lock();
            let until = *until.get_or_insert_with(|| Instant::now() + TURN_PATIENCE);
            if beside.count() + closed <= self.limit || Instant::now() >= until {
                beside.opening += closed;
                return (found, Some(Turn { pool: self, files: closed }));
            }
            // Who drops a file as the last closes it, which may take long.
            drop(beside);
            drop(found);
            // The end of a wave may come between, unseen, and nothing says when a single read ends.
            self.wave_ended.wait_for(&mut self.beside.lock(), PAUSE);
        }
    }

    /// The file, opened if it is closed. A caller keeps it for one read.
    fn opened(&self, file: &Arc<PooledFile>) -> io::Result<Arc<dyn ReadFile>> {
        if let Some(open) = file.if_open() {
            return Ok(open);
        }
        // Without the lock, as it may take long: of two who come together both open it, and one is kept.
        let opened = with_descriptor(|| file.purpose.open(&*self.directory, &file.name))?;
        if opened.identity()? != file.identity {
            let message = "another file replaced the one that was opened; open the database again";
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        }
        let mut slot = file.open.lock();
        if let Some(open) = &*slot {
            return Ok(open.clone());
        }
        *slot = Some(opened.clone());
        drop(slot);
        self.keep(file.clone());
        Ok(opened)
    }

    /// Takes in a file that was opened, and closes others to stay within the limit.
    fn keep(&self, file: Arc<PooledFile>) {
        // It has to be read once more to be spared, as one that is read but once must not drive out the others.
        file.was_read.store(false, Ordering::Relaxed);
        let mut open = self.open.lock();
        let mut looks = 2 * open.len();
        while open.len() >= self.limit && looks > 0 {
            looks -= 1;
            let Some(file) = open.pop_front() else { break };
            if file.was_read.swap(false, Ordering::Relaxed) || !self.close(&file) {
                open.push_back(file);
            }
        }
        open.push_back(file);
    }

    /// Closes whatever is not being opened or read; says whether there was anything.
    fn close_all(&self) -> bool {
        let mut open = self.open.lock();
        let before = open.len();
        open.retain(|file| !self.close(file));
        open.len() < before
    }

    /// Closes the file for all but the reads under way, unless its slot is locked at the moment.
    fn close(&self, file: &PooledFile) -> bool {
        let Some(mut slot) = file.open.try_lock() else { return false };
        if let Some(open) = slot.take().filter(|open| Arc::strong_count(open) > 1) {
            let mut beside = self.beside.lock();
            beside.still_read.retain(|file| file.strong_count() > 0);
            beside.still_read.push(Arc::downgrade(&open));
        }
        true
    }
}

impl PooledFile {
    fn if_open(&self) -> Option<Arc<dyn ReadFile>> {
        self.was_read.store(true, Ordering::Relaxed);
        self.open.lock().clone()
    }
}

/// Tries again what fails for want of a descriptor, once files were closed for it.
fn with_descriptor<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..ATTEMPTS {
        match call() {
            Err(error) if Lack::of(&error) == Some(Lack::Descriptors) => {
                let pools: Vec<Arc<Pool>> = POOLS.lock().iter().filter_map(Weak::upgrade).collect();
                let closed = pools.iter().filter(|pool| pool.close_all()).count();
                if closed == 0 {
                    thread::sleep(PAUSE);
                }
            }
            done => return done,
        }
    }
    call()
}

fn limit_of_process() -> usize {
    // Where the system does not say, as if it had said the usual.
    let soft = rlimit::Resource::NOFILE.get_soft().unwrap_or(1024);
    usize::try_from(soft / SHARE).unwrap_or(MOST).clamp(LEAST, MOST)
}

#[cfg(test)]
mod tests;

//! Open files within a budget of file descriptors.
//!
//! A process may hold so many files open at once, often 256 or 1,024 for everything it does, and a database may
//! have more segments than that. [`OpenFiles`] is a door to a directory whose files stay open only while there is
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
/// ... and so many in any case ...
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

    fn reads_by(&self) -> &'static str {
        self.pool.directory.reads_by()
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
            // The end of a wave may come between, unseen, and that of a single read is not told.
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

    /// Closes the file for all but those who read it at the moment, unless somebody looks at it just now.
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
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::ops::Range;

    use parking_lot::MutexGuard;

    use crate::files::local_directory::LocalDirectory;
    use crate::files::memory_directory::MemoryDirectory;

    const FILES: usize = 20;
    /// A test that lacks descriptors closes the files of all pools of the process, also those of tests that count how
    /// often files are opened.
    static ALONE: Mutex<()> = Mutex::new(());

    /// A directory in memory that counts what is open, and refuses descriptors above a number of them.
    #[derive(Clone)]
    struct Counting {
        files: MemoryDirectory,
        open: Arc<Mutex<Counts>>,
    }

    #[derive(Default)]
    struct Counts {
        open: BTreeMap<String, usize>,
        opened: usize,
        most: usize,
        granted: Option<usize>,
        /// Reads of these files end once they are not among them any more, ...
        held: Vec<String>,
        /// ... as so many reads did or will.
        waiting: usize,
    }

    impl Counts {
        fn now(&self) -> usize {
            self.open.values().sum()
        }
    }

    struct Counted {
        file: Arc<dyn ReadFile>,
        name: String,
        open: Arc<Mutex<Counts>>,
    }

    impl ReadFile for Counted {
        fn byte_len(&self) -> io::Result<u64> {
            self.file.byte_len()
        }

        fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
            let is_held = || self.open.lock().held.contains(&self.name);
            if is_held() {
                self.open.lock().waiting += 1;
            }
            while is_held() {
                thread::sleep(Duration::from_millis(1));
            }
            self.file.read_exact_at(buffer, offset)
        }
    }

    impl Drop for Counted {
        fn drop(&mut self) {
            *self.open.lock().open.get_mut(&self.name).unwrap() -= 1;
        }
    }

    impl Counting {
        /// With files "0", "1" and so on, each of which holds its number.
        fn new() -> Counting {
            let files = MemoryDirectory::new();
            for number in 0..FILES {
                let file = files.create(&number.to_string()).unwrap();
                file.write_all(&[number as u8]).unwrap();
            }
            Counting { files, open: Arc::default() }
        }

        fn take(&self) -> io::Result<MutexGuard<'_, Counts>> {
            let counts = self.open.lock();
            match counts.granted {
                Some(granted) if counts.now() >= granted => Err(io::Error::from_raw_os_error(24)),
                _ => Ok(counts),
            }
        }
    }

    impl Directory for Counting {
        fn list(&self) -> io::Result<Vec<String>> {
            drop(self.take()?);
            self.files.list()
        }

        fn open(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
            let mut counts = self.take()?;
            let file = self.files.open(name)?;
            *counts.open.entry(name.into()).or_default() += 1;
            counts.opened += 1;
            counts.most = counts.most.max(counts.now());
            Ok(Arc::new(Counted { file, name: name.into(), open: self.open.clone() }))
        }

        fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
            drop(self.take()?);
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
            drop(self.take()?);
            self.files.lock(name)
        }
    }

    fn open_all(files: &OpenFiles) -> Vec<Arc<dyn ReadFile>> {
        (0..FILES).map(|number| files.open(&number.to_string()).unwrap()).collect()
    }

    fn read(file: &dyn ReadFile) -> io::Result<u8> {
        let mut byte = [0];
        file.read_exact_at(&mut byte, 0).map(|()| byte[0])
    }

    /// Reads some of the files together, as a wave of reads does.
    fn read_wave(files: &OpenFiles, handles: &[Arc<dyn ReadFile>], range: Range<usize>) {
        let request =
            |file: &Arc<dyn ReadFile>| ReadRequest { file: file.clone(), offset: 0, len: 1 };
        let requests: Vec<_> = handles[range.clone()].iter().map(request).collect();
        for (number, read) in range.zip(files.read_many(&requests)) {
            assert_eq!(read.unwrap().as_slice(), [number as u8]);
        }
    }

    #[test]
    fn waves_of_many_callers_open_no_more_files_than_the_limit_together() {
        let _alone = ALONE.lock();
        for limit in [2, 5] {
            let counting = Counting::new();
            let files = OpenFiles::with_limit(Arc::new(counting.clone()), limit);
            let handles = open_all(&files);
            thread::scope(|scope| {
                let read_all = || (0..20).for_each(|_| read_wave(&files, &handles, 0..FILES));
                (0..8).for_each(|_| drop(scope.spawn(read_all)));
            });
            // What is kept, what waves opened, and of each caller one file that another opened, too.
            let most = counting.open.lock().most;
            assert!(most <= 2 * limit + 8, "{most} with a limit of {limit}");
        }
    }

    #[test]
    fn a_wave_waits_for_files_that_were_closed_while_they_are_read() {
        let _alone = ALONE.lock();
        let counting = Counting::new();
        let files = OpenFiles::with_limit(Arc::new(counting.clone()), 2);
        let handles = open_all(&files);
        let last = FILES - 2..FILES;
        counting.open.lock().held = last.clone().map(|number| number.to_string()).collect();
        let open_in_turn = thread::scope(|scope| {
            let (files, handles) = (&files, &handles[..]);
            let wave = |range| scope.spawn(move || read_wave(files, handles, range));
            let now = || counting.open.lock().now();
            // The first are open when they are read, and closed for the second meanwhile.
            wave(last);
            while counting.open.lock().waiting == 0 {
                thread::sleep(Duration::from_millis(1));
            }
            let first = now();
            wave(0..2).join().unwrap();
            let second = now();
            // The third would be too many.
            wave(2..4);
            thread::sleep(Duration::from_millis(50));
            let third = now();
            counting.open.lock().held.clear();
            [first, second, third]
        });
        assert_eq!(open_in_turn, [2, 4, 4]);
        assert_eq!(counting.open.lock().most, 4);
    }

    #[test]
    fn no_more_files_are_open_than_the_limit_and_all_can_be_read() {
        let _alone = ALONE.lock();
        for limit in [1, 3, FILES - 1, FILES] {
            let counting = Counting::new();
            let files = OpenFiles::with_limit(Arc::new(counting.clone()), limit);
            let handles = open_all(&files);
            for _ in 0..3 {
                for (number, handle) in handles.iter().enumerate() {
                    assert_eq!(read(&**handle).unwrap(), number as u8);
                    assert_eq!(handle.byte_len().unwrap(), 1);
                }
            }
            let counts = counting.open.lock();
            // One more while it is being opened.
            assert!(counts.now() == limit && counts.most <= limit + 1, "{} open", counts.most);
            if limit == FILES {
                assert_eq!(counts.opened, FILES, "none is opened twice");
            }
        }
    }

    #[test]
    fn what_is_read_again_and_again_stays_open() {
        let _alone = ALONE.lock();
        let counting = Counting::new();
        let files = OpenFiles::with_limit(Arc::new(counting.clone()), 3);
        let handles = open_all(&files);
        read(&*handles[0]).unwrap();
        for round in 0..100 {
            read(&*handles[0]).unwrap();
            read(&*handles[1 + round % (FILES - 1)]).unwrap();
        }
        let opened = counting.open.lock().opened;
        // At first, each of the others at each read, and once the one that stays.
        assert!(opened <= FILES + 100 + 1, "{opened} times");
    }

    #[test]
    fn a_dropped_handle_closes_its_file() {
        let counting = Counting::new();
        let files = OpenFiles::with_limit(Arc::new(counting.clone()), 5);
        let handles = open_all(&files);
        assert_eq!(counting.open.lock().now(), 5);
        drop(handles);
        assert_eq!(counting.open.lock().now(), 0);
        assert!(files.pool.open.lock().is_empty());
    }

    #[test]
    fn whatever_needs_a_descriptor_gets_that_of_a_file_that_is_not_read() {
        let _alone = ALONE.lock();
        let counting = Counting::new();
        let files = OpenFiles::with_limit(Arc::new(counting.clone()), FILES);
        // Another database of the same process.
        let other = OpenFiles::with_limit(Arc::new(counting.clone()), FILES);
        let handles = open_all(&files);
        counting.open.lock().granted = Some(FILES);
        for call in 0..5 {
            match call {
                0 => assert_eq!(other.list().unwrap().len(), FILES),
                1 => drop(other.create("new").unwrap()),
                2 => assert!(other.lock("LOCK").unwrap().is_some()),
                3 => assert!(other.try_lock("LOCK").unwrap().is_some()),
                _ => drop(other.open("new").unwrap()),
            }
            for (number, handle) in handles.iter().enumerate() {
                assert_eq!(read(&**handle).unwrap(), number as u8);
            }
        }
        assert!(counting.open.lock().opened > FILES);
        counting.open.lock().granted = Some(0);
        let error = other.create("newer").err().unwrap();
        assert_eq!(Lack::of(&error), Some(Lack::Descriptors), "none is left to give");
        counting.open.lock().granted = None;
        other.create("newer").unwrap();
    }

    #[test]
    fn any_number_of_threads_reads_what_it_asked_for() {
        let counting = Counting::new();
        let files = OpenFiles::with_limit(Arc::new(counting.clone()), 2);
        let handles = open_all(&files);
        thread::scope(|scope| {
            for first in 0..8 {
                let handles = &handles;
                scope.spawn(move || {
                    for step in 0..2_000 {
                        let number = (first * 7 + step * 3) % FILES;
                        assert_eq!(read(&*handles[number]).unwrap(), number as u8);
                    }
                });
            }
        });
        assert!(counting.open.lock().now() <= 2);
        assert_eq!(files.pool.open.lock().len(), counting.open.lock().now());
    }

    #[test]
    fn another_file_of_the_same_name_is_not_read_for_the_one_that_was_opened() {
        let folder = tempfile::tempdir().unwrap();
        let local: Arc<dyn Directory> = Arc::new(LocalDirectory::open(folder.path()).unwrap());
        let files = OpenFiles::with_limit(local, 1);
        for name in ["a", "b"] {
            files.create(name).unwrap().write_all(&[1]).unwrap();
        }
        let handle = files.open("a").unwrap();
        files.open("b").unwrap();
        assert_eq!(read(&*handle).unwrap(), 1);
        let _b = files.open("b").unwrap();
        read(&*_b).unwrap();
        std::fs::write(folder.path().join("c"), [2]).unwrap();
        std::fs::rename(folder.path().join("c"), folder.path().join("a")).unwrap();
        let error = read(&*handle).unwrap_err();
        assert!(error.to_string().contains("replaced the one"), "{error}");
    }

    #[test]
    fn a_share_of_what_the_process_may_have_is_taken() {
        let soft = rlimit::Resource::NOFILE.get_soft().unwrap();
        let limit = limit_of_process() as u64;
        assert!((LEAST as u64..=MOST as u64).contains(&limit));
        assert!(limit == LEAST as u64 || limit <= soft / SHARE);
    }
}

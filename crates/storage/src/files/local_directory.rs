//! Files of the local file system.

use std::fs::{self, DirBuilder, File};
use std::io::{self, IoSlice, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, fcntl_setfl, flock, fstatvfs, openat,
    renameat, statat, unlinkat,
};

use crate::files::directory::{Descriptor, Directory, FileIdentity, Lock, ReadFile, WriteFile};
use crate::files::permissions::FileAccess;
use crate::files::process::Process;
use crate::files::read_threads::read_with_threads;
use crate::files::reads::{READ_BYTES_MAX, ReadBytes, ReadRequest, TakeRead};
#[cfg(target_os = "linux")]
use crate::files::ring;
use crate::files::standard_streams::open_closed_streams;

/// The flag of direct reads, where the system has one.
#[cfg(target_os = "linux")]
const DIRECT: OFlags = OFlags::DIRECT;
#[cfg(not(target_os = "linux"))]
const DIRECT: OFlags = OFlags::empty();

/// What offset, length and address of a direct read are multiples of: enough for the sectors of all usual devices.
const DIRECT_ALIGNMENT: usize = 4096;

/// A directory of the local file system: the directory itself, whatever it is called later and whatever takes its
/// name.
///
/// Its files are plain files. Something else under the name of one (a directory, a pipe, a link to elsewhere) is an
/// error that says so, and is neither waited for nor followed. Who may use a new file, the directory's permissions
/// say: `docs/durability.md` has the rule.
///
/// A process that was forked off the one that opened it may read, but not write: both would write at the
/// same places of the same files.
#[derive(Debug)]
pub struct LocalDirectory {
    folder: File,
    process: Process,
    mode: ReadMode,
    /// The file system has refused to read past the cache.
    refuses_direct_io: AtomicBool,
}

/// How files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadMode {
    /// Pages that the caller keeps come past the cache of the system, where the file system can do that.
    pub direct_io: bool,
    /// Reads of one call go through the rings of Linux (io_uring), where the system allows that. Otherwise, and with
    /// `false`, threads make them.
    pub io_uring: bool,
}

impl Default for ReadMode {
    fn default() -> ReadMode {
        ReadMode { direct_io: false, io_uring: true }
    }
}

impl LocalDirectory {
    /// Opens a directory, and makes it where it is missing, for its owner alone.
    pub fn create(path: &Path) -> io::Result<LocalDirectory> {
        LocalDirectory::create_for(path, ReadMode::default())
    }

    /// [`LocalDirectory::create`], and how its files are read.
    pub fn create_for(path: &Path, mode: ReadMode) -> io::Result<LocalDirectory> {
        let above = path.parent().map_or(Ok(()), fs::create_dir_all);
        match above.and_then(|()| DirBuilder::new().mode(Mode::RWXU.bits()).create(path)) {
            // Something is there that is no folder: opening says so.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => LocalDirectory::open_for(path, mode),
        }
    }

    /// Opens an existing directory. Where a standard stream is closed, no file in it takes its descriptor.
    pub fn open(path: &Path) -> io::Result<LocalDirectory> {
        LocalDirectory::open_for(path, ReadMode::default())
    }

    /// [`LocalDirectory::open`], and how its files are read.
    pub fn open_for(path: &Path, mode: ReadMode) -> io::Result<LocalDirectory> {
        open_closed_streams()?;
        if !fs::metadata(path)?.is_dir() {
            return Err(io::Error::new(io::ErrorKind::NotADirectory, "not a directory"));
        }
        Ok(LocalDirectory {
            folder: File::open(path)?,
            process: Process::current(),
            mode,
            refuses_direct_io: AtomicBool::new(false),
        })
    }

    /// Opens a plain file. Does not wait for the other end of a pipe, and follows no link.
    fn open_file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let careful = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = match openat(&self.folder, name, flags | careful, FileAccess::at_first()) {
            Ok(file) => File::from(file),
            Err(error) => return Err(self.strange(name).unwrap_or(error.into())),
        };
        // Some that are no files can be opened like one.
        if !file.metadata()?.is_file() {
            return Err(self.strange(name).unwrap_or(io::ErrorKind::InvalidInput.into()));
        }
        // Reads and writes of a file wait. Of the flags that can be changed, only that of direct reads stays.
        fcntl_setfl(&file, flags & DIRECT)?;
        Ok(file)
    }

    /// Makes a file that must not exist.
    fn create_file(&self, name: &str, access: FileAccess) -> io::Result<File> {
        let file = self.open_file(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)?;
        access.grant(&file)?;
        Ok(file)
    }

    /// What there is under a name, if it is anything but a plain file.
    fn strange(&self, name: &str) -> Option<io::Error> {
        let found = statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let what = match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => return None,
            FileType::Directory => "a directory",
            FileType::Symlink => "a symbolic link",
            FileType::Fifo => "a pipe",
            FileType::Socket => "a socket",
            FileType::CharacterDevice | FileType::BlockDevice => "a device",
            FileType::Unknown => "something unknown",
        };
        let message = format!("it is {what}, not a file; move it out of the database directory");
        Some(io::Error::new(io::ErrorKind::InvalidInput, message))
    }

    fn locked(&self, file: File, operation: FlockOperation) -> io::Result<Option<Box<dyn Lock>>> {
        match flock(&file, operation) {
            Ok(()) => Ok(Some(Box::new(LocalLock::held(file, self.process)?))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Directory for LocalDirectory {
    fn list(&self) -> io::Result<Vec<String>> {
        let name = |entry: rustix::io::Result<rustix::fs::DirEntry>| {
            Ok(entry?.file_name().to_string_lossy().into_owned())
        };
        let mut names = Dir::read_from(&self.folder)?.map(name).collect::<io::Result<Vec<_>>>()?;
        names.retain(|name| name != "." && name != "..");
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
        let file = self.open_file(name, OFlags::RDONLY)?;
        Ok(Arc::new(LocalFile { file, process: self.process, alignment: 1 }))
    }

    fn open_pages(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
        if !self.mode.direct_io || DIRECT.is_empty() {
            return self.open(name);
        }
        match self.open_file(name, OFlags::RDONLY | DIRECT) {
            // The file system cannot do that.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                self.refuses_direct_io.store(true, Ordering::Relaxed);
                self.open(name)
            }
            file => {
                let (file, process) = (file?, self.process);
                Ok(Arc::new(LocalFile { file, process, alignment: DIRECT_ALIGNMENT }))
            }
        }
    }

    fn read_each(&self, requests: &[ReadRequest], take: TakeRead<'_>) {
        if let [request] = requests {
            return take(0, request.read());
        }
        #[cfg(target_os = "linux")]
        if self.mode.io_uring {
            let left = ring::read_each(requests, take);
            let requests: Vec<_> = left.iter().map(|&number| requests[number].clone()).collect();
            return read_with_threads(&requests, &mut |at, read| take(left[at], read));
        }
        read_with_threads(requests, take);
    }

    fn reads_in_sequence(&self) -> u64 {
        if self.mode.direct_io { 4 } else { 1 }
    }

    fn reads_by(&self) -> &'static str {
        #[cfg(target_os = "linux")]
        if self.mode.io_uring && ring::is_available() {
            return "io_uring";
        }
        "threads"
    }

    fn reads_past_cache(&self) -> bool {
        let is_refused = self.refuses_direct_io.load(Ordering::Relaxed);
        self.mode.direct_io && !DIRECT.is_empty() && !is_refused
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        self.process.check()?;
        let file = self.create_file(name, FileAccess::of_data(&self.folder)?)?;
        Ok(Box::new(LocalFile { file, process: self.process, alignment: 1 }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.process.check()?;
        Ok(renameat(&self.folder, from, &self.folder, to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.process.check()?;
        match unlinkat(&self.folder, name, AtFlags::empty()) {
            // A folder cannot be removed like a file, and need not be empty.
            Err(error) => Err(self.strange(name).unwrap_or(error.into())),
            Ok(()) => Ok(()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.process.check()?;
        self.folder.sync_all()
    }

    fn local_folder(&self) -> Option<BorrowedFd<'_>> {
        Some(self.folder.as_fd())
    }

    fn free_bytes(&self) -> io::Result<Option<u64>> {
        let system = fstatvfs(&self.folder)?;
        Ok(Some(system.f_bavail.saturating_mul(system.f_frsize)))
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        self.process.check()?;
        let file = match self.open_file(name, OFlags::RDWR) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match self.create_file(name, FileAccess::of_lock(&self.folder)?) {
                    // Another process was faster.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        self.open_file(name, OFlags::RDWR)?
                    }
                    made => made?,
                }
            }
            found => found?,
        };
        self.locked(file, FlockOperation::NonBlockingLockExclusive)
    }

    fn try_lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        self.process.check()?;
        // Some file systems give a lock for oneself alone only to who may write the file.
        let file = self.open_file(name, OFlags::RDONLY)?;
        self.locked(file, FlockOperation::NonBlockingLockShared)
    }

    fn is_locked_here(&self, name: &str) -> bool {
        let Ok(found) = statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW) else { return false };
        let found = (found.st_dev, found.st_ino);
        held_locks().iter().any(|(id, process)| *id == found && process.check().is_ok())
    }
}

/// A write takes no more parts than this; the system allows 1,024.
const PARTS_PER_WRITE_MAX: usize = 1024;

struct LocalFile {
    file: File,
    process: Process,
    /// What offset, length and address of a read must be multiples of.
    alignment: usize,
}

impl ReadFile for LocalFile {
    fn byte_len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        if self.alignment == 1 {
            return self.file.read_exact_at(buffer, offset);
        }
        let read = self.read_over(ReadBytes::default(), offset, buffer.len())?;
        buffer.copy_from_slice(read.as_slice());
        Ok(())
    }

    fn read_over(&self, earlier: ReadBytes, offset: u64, len: usize) -> io::Result<ReadBytes> {
        let before = (offset % self.alignment as u64) as usize;
        let end = before + len;
        let whole = end.next_multiple_of(self.alignment);
        let mut pages = ReadBytes::of_any_content(earlier, whole, self.alignment);
        let mut filled = 0;
        while filled < end {
            let at = offset - before as u64 + filled as u64;
            let asked = whole.min(filled + READ_BYTES_MAX);
            match self.file.read_at(&mut pages.as_mut_slice()[filled..asked], at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(pages.narrowed(before..end))
    }

    fn descriptor(&self) -> Option<Descriptor<'_>> {
        Some(Descriptor { fd: self.file.as_fd(), alignment: self.alignment })
    }

    fn identity(&self) -> io::Result<Option<FileIdentity>> {
        let metadata = self.file.metadata()?;
        Ok(Some(FileIdentity { device: metadata.dev(), inode: metadata.ino() }))
    }
}

impl WriteFile for LocalFile {
    fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        self.process.check()?;
        (&self.file).write_all(bytes)
    }

    fn write_all_of(&self, parts: &[&[u8]]) -> io::Result<()> {
        self.process.check()?;
        let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut left = &mut slices[..];
        // Of parts without a byte.
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            match (&self.file).write_vectored(&left[..left.len().min(PARTS_PER_WRITE_MAX)]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut left, written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.process.check()?;
        self.file.sync_data()
    }
}

/// The number of a file: its device, and the number it has there.
type FileId = (u64, u64);

/// The locks that this process holds, or that the one it was forked off held.
static HELD_LOCKS: Mutex<Vec<(FileId, Process)>> = Mutex::new(Vec::new());

fn held_locks() -> MutexGuard<'static, Vec<(FileId, Process)>> {
    HELD_LOCKS.lock()
}

struct LocalLock {
    file: File,
    id: FileId,
    process: Process,
}

impl LocalLock {
    /// Of a file whose lock was taken.
    fn held(file: File, process: Process) -> io::Result<LocalLock> {
        let found = file.metadata()?;
        let id = (found.dev(), found.ino());
        held_locks().push((id, process));
        Ok(LocalLock { file, id, process })
    }
}

impl Lock for LocalLock {}

impl Drop for LocalLock {
    fn drop(&mut self) {
        // Closing frees the lock only once no forked process has the file open, either.
        if self.process.check().is_ok() {
            let _ = flock(&self.file, FlockOperation::Unlock);
            let mut held = held_locks();
            if let Some(at) = held.iter().position(|lock| *lock == (self.id, self.process)) {
                held.swap_remove(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::directory::read_file;

    #[test]
    fn a_folder_is_the_one_that_was_opened_whatever_takes_its_name() {
        let parent = tempfile::tempdir().unwrap();
        let (path, moved) = (parent.path().join("db"), parent.path().join("moved"));
        let directory = LocalDirectory::create(&path).unwrap();
        directory.create("a").unwrap().write_all(b"old").unwrap();
        fs::rename(&path, &moved).unwrap();
        let other = LocalDirectory::create(&path).unwrap();
        other.create("a").unwrap().write_all(b"new").unwrap();
        assert_eq!(read_file(&directory, "a").unwrap(), b"old");
        directory.create("b").unwrap();
        directory.remove("a").unwrap();
        assert_eq!(directory.list().unwrap(), ["b"]);
        assert_eq!(other.list().unwrap(), ["a"]);
        assert!(moved.join("b").exists());
    }

    #[test]
    fn a_second_local_lock_is_refused_until_the_first_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let directory = LocalDirectory::create(folder.path()).unwrap();
        let first = directory.lock("LOCK").unwrap();
        assert!(first.is_some());
        assert!(directory.lock("LOCK").unwrap().is_none());
        drop(first);
        assert!(directory.lock("LOCK").unwrap().is_some());
    }

    const BYTES: usize = 300_000;

    fn expected(offset: u64, len: usize) -> Vec<u8> {
        (offset..offset + len as u64).map(|at| (at % 251) as u8).collect()
    }

    /// A directory with two files, opened in each mode.
    fn in_each_mode(test: impl Fn(&LocalDirectory, &Path)) {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            fs::write(folder.path().join(name), expected(0, BYTES)).unwrap();
        }
        for (direct_io, io_uring) in [(false, false), (false, true), (true, false), (true, true)] {
            let mode = ReadMode { direct_io, io_uring };
            test(&LocalDirectory::open_for(folder.path(), mode).unwrap(), folder.path());
        }
    }

    #[test]
    fn any_ranges_of_any_files_come_back_in_the_order_asked_for() {
        in_each_mode(|directory, _| {
            let files = [directory.open_pages("a").unwrap(), directory.open_pages("b").unwrap()];
            let request = |number: usize| ReadRequest {
                file: files[number % 2].clone(),
                offset: (number * 7919 % BYTES) as u64,
                len: number % 9000,
            };
            let requests: Vec<_> = (0..500).map(request).collect();
            for (request, result) in requests.iter().zip(directory.read_many(&requests)) {
                let ReadRequest { offset, len, .. } = *request;
                let alone = request.read();
                match offset as usize + len <= BYTES {
                    true => {
                        assert_eq!(result.unwrap().as_slice(), expected(offset, len));
                        assert_eq!(alone.unwrap().as_slice(), expected(offset, len));
                    }
                    false => {
                        let kind = io::ErrorKind::UnexpectedEof;
                        assert_eq!(result.err().map(|error| error.kind()), Some(kind));
                        assert_eq!(alone.err().map(|error| error.kind()), Some(kind));
                    }
                }
            }
        });
    }

    /// Here the system is asked for a page at a time.
    #[test]
    fn a_read_goes_on_where_the_system_gave_less_than_it_was_asked_for() {
        const { assert!(READ_BYTES_MAX < 3 * 4096) };
        in_each_mode(|directory, _| {
            let file = directory.open_pages("a").unwrap();
            let mut earlier = ReadBytes::default();
            for (offset, len) in
                [(0, 3 * 4096), (5, 20_000), (4095, 8194), (BYTES as u64 - 9999, 9999)]
            {
                earlier = file.read_over(earlier, offset, len).unwrap();
                assert_eq!(earlier.as_slice(), expected(offset, len));
                let mut exact = vec![0; len];
                file.read_exact_at(&mut exact, offset).unwrap();
                assert_eq!(exact, expected(offset, len));
            }
            // Some pages of it are there.
            let error = file.read_over(earlier, BYTES as u64 - 9000, 9001).err().unwrap();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        });
    }

    /// Whether the system has rings that read, as it says itself.
    #[cfg(target_os = "linux")]
    fn has_rings() -> bool {
        let made = io_uring::IoUring::new(2);
        made.is_ok_and(|ring| ring.submitter().register_probe(&mut io_uring::Probe::new()).is_ok())
    }

    /// What a ring leaves is read by threads, and nothing but the time tells.
    #[test]
    #[cfg(target_os = "linux")]
    fn where_the_system_has_rings_they_read_all_of_plain_files() {
        assert_eq!(ring::is_available(), has_rings());
        in_each_mode(|directory, _| {
            let is_by_ring = directory.mode.io_uring && has_rings();
            assert_eq!(directory.reads_by(), if is_by_ring { "io_uring" } else { "threads" });
            if !is_by_ring {
                return;
            }
            let files = [directory.open_pages("a").unwrap(), directory.open("b").unwrap()];
            let request = |number: usize| ReadRequest {
                file: files[number % 2].clone(),
                offset: (number * 7919 % (BYTES - 9000)) as u64,
                len: number * 31 % 9000,
            };
            let requests: Vec<_> = (0..300).map(request).collect();
            let mut taken = vec![0; requests.len()];
            let left = ring::read_each(&requests, &mut |number, read| {
                let ReadRequest { offset, len, .. } = requests[number];
                assert_eq!(read.unwrap().as_slice(), expected(offset, len));
                taken[number] += 1;
            });
            assert!(left.is_empty(), "{left:?}");
            assert!(taken.iter().all(|&times| times == 1), "{taken:?}");
        });
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn direct_reads_pass_the_cache_of_the_system_where_it_lets_them() {
        use std::os::unix::fs::OpenOptionsExt;
        in_each_mode(|directory, path| {
            let flag = DIRECT.bits() as i32;
            let is_let = File::options().read(true).custom_flags(flag).open(path.join("a")).is_ok();
            println!("{:?}, the system lets them: {is_let}", directory.mode);
            let is_direct = |file: Arc<dyn ReadFile>| {
                let Descriptor { fd, alignment } = file.descriptor().unwrap();
                assert_eq!(alignment > 1, rustix::fs::fcntl_getfl(fd).unwrap().contains(DIRECT));
                alignment > 1
            };
            let expected = directory.mode.direct_io && is_let;
            assert_eq!(is_direct(directory.open_pages("a").unwrap()), expected);
            assert!(!is_direct(directory.open("a").unwrap()), "not what is read by the byte");
            assert_eq!(directory.reads_past_cache(), expected);
        });
    }

    #[test]
    fn a_file_that_cannot_be_read_fails_its_own_reads_only() {
        in_each_mode(|directory, path| {
            let written_to = File::options().append(true).open(path.join("a")).unwrap();
            let process = Process::current();
            let unreadable: Arc<dyn ReadFile> =
                Arc::new(LocalFile { file: written_to, process, alignment: 1 });
            let readable = directory.open_pages("a").unwrap();
            let request =
                |file: &Arc<dyn ReadFile>| ReadRequest { file: file.clone(), offset: 3, len: 5 };
            let requests = [request(&readable), request(&unreadable), request(&readable)];
            let [first, second, third] = directory.read_many(&requests).try_into().ok().unwrap();
            assert_eq!(first.unwrap().as_slice(), expected(3, 5));
            let code = second.err().and_then(|error| error.raw_os_error());
            assert_eq!(code, Some(rustix::io::Errno::BADF.raw_os_error()));
            assert_eq!(third.unwrap().as_slice(), expected(3, 5));
        });
    }

    #[test]
    fn many_threads_read_many_ranges_at_once() {
        in_each_mode(|directory, _| {
            let file = directory.open_pages("b").unwrap();
            let read = |thread: usize| {
                for round in 0..20 {
                    let request = |number: usize| ReadRequest {
                        file: file.clone(),
                        offset: ((thread * 31 + round * 17 + number) * 4096 % (BYTES - 8192))
                            as u64,
                        len: 4096,
                    };
                    let requests: Vec<_> = (0..100).map(request).collect();
                    for (request, result) in requests.iter().zip(directory.read_many(&requests)) {
                        assert_eq!(result.unwrap().as_slice(), expected(request.offset, 4096));
                    }
                }
            };
            std::thread::scope(|scope| {
                (0..8).for_each(|thread| drop(scope.spawn(move || read(thread))));
            });
        });
    }
}

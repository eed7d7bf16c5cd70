//! The door to files: everything the store keeps goes through a [`Directory`].
//!
//! Files are written once, front to back, and never changed afterwards. A new file is durable after
//! [`WriteFile::sync`] and [`Directory::sync`]; until then a power cut may take it away, or any of its pages.
//! After a sync that failed, what is read proves nothing, nor does a later sync: write it anew.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard, RwLock};
use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, flock, fstatvfs, openat, renameat,
    statat, unlinkat,
};

use crate::files::permissions::FileAccess;
use crate::files::standard_streams::open_closed_streams;

/// A flat folder of files.
pub trait Directory: Send + Sync {
    /// The names of all files, in no order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Opens an existing file for reading at any position.
    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadFile>>;
    /// Creates a file; one of that name must not exist.
    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>>;
    /// Gives a file another name, and takes it from the file that had it. A power cut leaves the name with the one
    /// or the other.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes creations, removals and names durable.
    fn sync(&self) -> io::Result<()>;
    /// Takes the lock of a file, which is made where there is none, for this holder alone; `None` where another
    /// one lives. Freed on drop, and by the kernel when the process dies.
    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>>;
    /// Keeps others from [`Directory::lock`]; `None` if somebody holds it. Makes no file, and asks for no more
    /// than the right to read it.
    fn try_lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        self.lock(name)
    }
    /// Whether it is this process that holds a lock.
    fn is_locked_here(&self, _name: &str) -> bool {
        false
    }
    /// How many more bytes files may take, as far as that is known.
    fn free_bytes(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }
}

/// A file that is read at any position by any number of threads.
pub trait ReadFile: Send + Sync {
    fn byte_len(&self) -> io::Result<u64>;
    /// Fills `buffer` from `offset` on; fewer bytes in the file are an `UnexpectedEof`.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// Which file it is, whatever its name, where that is known.
    fn identity(&self) -> io::Result<Option<FileIdentity>> {
        Ok(None)
    }
}

/// What tells a file from all others that there are at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
}

/// A file that is being written.
pub trait WriteFile: Send {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes everything written so far durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// Held while a database is open for writing.
pub trait Lock: Send + Sync {}

/// A folder of the local file system: the folder itself, whatever it is called later and whatever takes its
/// name.
///
/// Its files are plain files. Something else under the name of one (a folder, a pipe, a link to elsewhere) is an
/// error that says so, and is neither waited for nor followed. Who may use a new file, the folder's permissions
/// say: `docs/durability.md` has the rule.
///
/// A process that was forked off the one that opened it may read, but not write: both would write at the
/// same places of the same files.
#[derive(Debug)]
pub struct LocalDirectory {
    folder: File,
    process: Process,
}

impl LocalDirectory {
    /// Opens a folder, and makes it where it is missing, for its owner alone.
    pub fn create(path: &Path) -> io::Result<LocalDirectory> {
        let above = path.parent().map_or(Ok(()), fs::create_dir_all);
        match above.and_then(|()| DirBuilder::new().mode(Mode::RWXU.bits()).create(path)) {
            // Something is there that is no folder: opening says so.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => LocalDirectory::open(path),
        }
    }

    /// Opens an existing folder. Where a standard stream is closed, no file in it takes its descriptor.
    pub fn open(path: &Path) -> io::Result<LocalDirectory> {
        open_closed_streams()?;
        if !fs::metadata(path)?.is_dir() {
            return Err(io::Error::new(io::ErrorKind::NotADirectory, "not a directory"));
        }
        Ok(LocalDirectory { folder: File::open(path)?, process: Process::current() })
    }

    /// Opens a plain file. Does not wait for the other end of a pipe, and follows no link.
    fn open_file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let careful = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = match openat(&self.folder, name, flags | careful, FileAccess::at_first()) {
            Ok(file) => File::from(file),
            Err(error) => return Err(self.strange(name).unwrap_or(error.into())),
        };
        // Some that are no files can be opened like one.
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(self.strange(name).unwrap_or(io::ErrorKind::InvalidInput.into())),
        }
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
        Ok(Arc::new(LocalFile { file, process: self.process }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        self.process.check()?;
        let file = self.create_file(name, FileAccess::of_data(&self.folder)?)?;
        Ok(Box::new(LocalFile { file, process: self.process }))
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

/// A process, to tell it from those forked off it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    id: u32,
}

impl Process {
    pub fn current() -> Process {
        Process { id: std::process::id() }
    }

    /// Refuses work in any process but this one.
    pub fn check(self) -> io::Result<()> {
        if self == Process::current() {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "process {} opened the database, and this process is a fork of it; open it again here, \
             or write to it there",
            self.id
        )))
    }
}

struct LocalFile {
    file: File,
    process: Process,
}

impl ReadFile for LocalFile {
    fn byte_len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn identity(&self) -> io::Result<Option<FileIdentity>> {
        let metadata = self.file.metadata()?;
        Ok(Some(FileIdentity { device: metadata.dev(), inode: metadata.ino() }))
    }
}

impl WriteFile for LocalFile {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.process.check()?;
        self.file.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
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

/// A folder that lives in memory and dies with its last handle. Clones share the files.
#[derive(Debug, Clone, Default)]
pub struct MemoryDirectory {
    files: Arc<Mutex<BTreeMap<String, Arc<MemoryFile>>>>,
}

#[derive(Debug, Default)]
struct MemoryFile {
    bytes: RwLock<Vec<u8>>,
}

impl MemoryDirectory {
    pub fn new() -> MemoryDirectory {
        MemoryDirectory::default()
    }

    fn file(&self, name: &str) -> io::Result<Arc<MemoryFile>> {
        let files = self.files.lock();
        files.get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Directory for MemoryDirectory {
    fn list(&self) -> io::Result<Vec<String>> {
        let files = self.files.lock();
        Ok(files.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
        Ok(self.file(name)?)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        let mut files = self.files.lock();
        if files.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = Arc::new(MemoryFile::default());
        files.insert(name.to_string(), file.clone());
        Ok(Box::new(MemoryWriter(file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = self.files.lock();
        let file = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_string(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut files = self.files.lock();
        files.remove(name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    /// Nobody else can open a folder in memory: the handle is the lock.
    fn lock(&self, _name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        struct Nobody;
        impl Lock for Nobody {}
        Ok(Some(Box::new(Nobody)))
    }
}

impl ReadFile for MemoryFile {
    fn byte_len(&self) -> io::Result<u64> {
        Ok(self.bytes.read().len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let bytes = self.bytes.read();
        let found = usize::try_from(offset)
            .ok()
            .and_then(|from| bytes.get(from..from.checked_add(buffer.len())?))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(found);
        Ok(())
    }
}

struct MemoryWriter(Arc<MemoryFile>);

impl WriteFile for MemoryWriter {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.0.bytes.write();
        file.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a whole file.
pub fn read_file(directory: &dyn Directory, name: &str) -> io::Result<Vec<u8>> {
    let file = directory.open(name)?;
    let len = usize::try_from(file.byte_len()?).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// What the name of a file ends in until it is whole.
const UNFINISHED: &str = ".new";

/// Makes a file that is never seen without these bytes: it gets its name, in the place of the file that has it, once
/// they are on stable storage. When this returns, the name is as well. What is written to the file then is up
/// to the caller to sync.
pub fn create_whole(
    directory: &dyn Directory,
    name: &str,
    bytes: &[u8],
) -> io::Result<Box<dyn WriteFile>> {
    let unfinished = format!("{name}{UNFINISHED}");
    let mut file = match directory.create(&unfinished) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            directory.remove(&unfinished)?;
            directory.create(&unfinished)?
        }
        created => created?,
    };
    let named = file
        .write_all(bytes)
        .and_then(|()| file.sync())
        .and_then(|()| directory.rename(&unfinished, name));
    if let Err(error) = named {
        // Where room is short, it would take some of it.
        let _ = directory.remove(&unfinished);
        return Err(error);
    }
    // Whatever it was for want of: the name is seen, and may not be durable.
    directory.sync().map_err(|error| io::Error::other(format!("the directory: {error}")))?;
    Ok(file)
}

/// Whether a file of this name was being made by [`create_whole`], perhaps when the process died.
pub fn is_unfinished(name: &str) -> bool {
    name.ends_with(UNFINISHED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(test: impl Fn(&dyn Directory)) {
        let folder = tempfile::tempdir().unwrap();
        test(&LocalDirectory::create(&folder.path().join("db")).unwrap());
        test(&MemoryDirectory::new());
    }

    #[test]
    fn a_file_reads_back() {
        both(|directory| {
            let mut file = directory.create("a").unwrap();
            file.write_all(b"hello ").unwrap();
            file.write_all(b"world").unwrap();
            file.sync().unwrap();
            assert_eq!(read_file(directory, "a").unwrap(), b"hello world");
            let mut beyond = [0; 2];
            let error = directory.open("a").unwrap().read_exact_at(&mut beyond, 10).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        });
    }

    #[test]
    fn creating_a_file_twice_fails_and_removing_it_makes_room() {
        both(|directory| {
            directory.create("a").unwrap();
            assert!(directory.create("a").is_err());
            directory.remove("a").unwrap();
            directory.create("a").unwrap();
            assert_eq!(directory.list().unwrap(), ["a"]);
        });
    }

    #[test]
    fn a_file_that_is_made_whole_takes_the_place_of_another_and_can_be_written_to() {
        both(|directory| {
            directory.create("a").unwrap().write_all(b"old").unwrap();
            directory.create("a.new").unwrap().write_all(b"left behind").unwrap();
            let before = directory.open("a").unwrap();
            let mut file = create_whole(directory, "a", b"new").unwrap();
            file.write_all(b"er").unwrap();
            assert_eq!(directory.list().unwrap(), ["a"]);
            assert_eq!(read_file(directory, "a").unwrap(), b"newer");
            assert_eq!(before.byte_len().unwrap(), 3, "who reads the old one goes on");
            assert!(directory.rename("b", "a").is_err());
            assert!(is_unfinished("a.new") && !is_unfinished("a"));
        });
    }

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
    fn another_process_than_the_one_that_opened_it_is_refused() {
        assert!(Process::current().check().is_ok());
        let other = Process { id: std::process::id() + 1 };
        assert!(other.check().unwrap_err().to_string().contains("fork"));
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
}

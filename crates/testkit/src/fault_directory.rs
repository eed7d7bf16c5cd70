//! A folder in memory that fails on demand and shows what a power cut would leave of it.
//!
//! It keeps apart what was written and what was synced: bytes of files, and entries of the folder. A
//! crash image is a fresh folder with everything synced and some of the rest.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use drillcore_sample::rng::Rng;
use drillcore_storage::directory::{Directory, Lock, MemoryDirectory, ReadFile, WriteFile};

/// The unit in which a disk writes.
const SECTOR_BYTES: usize = 512;

/// A call that changes the folder or makes a change durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    Write,
    Sync,
    Truncate,
    Remove,
    SyncFolder,
}

/// Which operations fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// This one. Operations are counted from 0, over all kinds.
    Once(u64),
    /// This one and all after it.
    Forever(u64),
    /// Of this one and all after it those that need room: the disk is full.
    DiskFull(u64),
}

impl Operation {
    fn needs_room(self) -> bool {
        matches!(self, Operation::Create | Operation::Write)
    }
}

/// What a power cut does to bytes that were not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsynced {
    /// They are gone, and so are unsynced changes of the folder.
    Dropped,
    /// They are all there, and so are unsynced changes of the folder.
    Kept,
    /// Each file ends at a random one of them; each change of the folder happened or did not.
    Cut,
    /// Each file has its length, but is zero from a random sector on; the folder as with `Cut`.
    Zeroed,
}

impl Unsynced {
    pub const ALL: [Unsynced; 4] =
        [Unsynced::Dropped, Unsynced::Kept, Unsynced::Cut, Unsynced::Zeroed];
}

/// A folder whose clones share the files and the fault.
#[derive(Clone, Default)]
pub struct FaultDirectory {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    files: BTreeMap<String, FileState>,
    /// The folder as of its last sync; files that both know share their bytes.
    synced_files: BTreeMap<String, FileState>,
    fault: Option<Fault>,
    operations: Vec<Operation>,
    is_locked: bool,
}

type FileState = Arc<Mutex<FileBytes>>;

#[derive(Default)]
struct FileBytes {
    bytes: Vec<u8>,
    synced_len: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FaultDirectory {
    pub fn new() -> FaultDirectory {
        FaultDirectory::default()
    }

    /// Arms a fault, or none. Operations go on counting.
    pub fn set_fault(&self, fault: Option<Fault>) {
        lock(&self.shared).fault = fault;
    }

    /// All operations so far, failed ones too.
    pub fn operations(&self) -> Vec<Operation> {
        lock(&self.shared).operations.clone()
    }

    /// What a power cut at this moment could leave.
    pub fn crash_image(&self, unsynced: Unsynced, rng: &mut Rng) -> MemoryDirectory {
        let image = MemoryDirectory::new();
        let shared = lock(&self.shared);
        let mut names: Vec<&String> =
            shared.files.keys().chain(shared.synced_files.keys()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let (now, synced) = (shared.files.get(name), shared.synced_files.get(name));
            let change_happened = match unsynced {
                Unsynced::Dropped => false,
                Unsynced::Kept => true,
                Unsynced::Cut | Unsynced::Zeroed => rng.below(2) == 0,
            };
            let Some(file) = (if change_happened { now } else { synced }) else { continue };
            let bytes = lock(file).after_crash(unsynced, rng);
            let mut copy = image.create(name).expect("each name comes once");
            copy.write_all(&bytes).expect("memory takes everything");
        }
        image
    }

    /// Counts an operation, and fails where the fault says so.
    fn operate(&self, operation: Operation) -> io::Result<MutexGuard<'_, Shared>> {
        let mut shared = lock(&self.shared);
        let number = shared.operations.len() as u64;
        shared.operations.push(operation);
        let message = format!("injected failure of operation {number}");
        match shared.fault {
            Some(Fault::Once(nth)) if number == nth => Err(io::Error::other(message)),
            Some(Fault::Forever(nth)) if number >= nth => Err(io::Error::other(message)),
            Some(Fault::DiskFull(nth)) if number >= nth && operation.needs_room() => {
                Err(io::Error::new(io::ErrorKind::StorageFull, format!("{message}: no space left")))
            }
            _ => Ok(shared),
        }
    }

    fn file(&self, name: &str) -> io::Result<FileState> {
        lock(&self.shared).files.get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl FileBytes {
    fn after_crash(&self, unsynced: Unsynced, rng: &mut Rng) -> Vec<u8> {
        let loose = (self.bytes.len() - self.synced_len) as u64;
        let cut = self.synced_len + rng.below(loose + 1) as usize;
        let mut bytes = self.bytes.clone();
        match unsynced {
            Unsynced::Dropped => bytes.truncate(self.synced_len),
            Unsynced::Kept => {}
            Unsynced::Cut => bytes.truncate(cut),
            Unsynced::Zeroed => {
                let from = (cut / SECTOR_BYTES * SECTOR_BYTES).max(self.synced_len);
                bytes[from..].fill(0);
            }
        }
        bytes
    }
}

impl Directory for FaultDirectory {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(lock(&self.shared).files.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(Reader(self.file(name)?)))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        let mut shared = self.operate(Operation::Create)?;
        if shared.files.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = FileState::default();
        shared.files.insert(name.to_string(), file.clone());
        Ok(Box::new(Writer { directory: self.clone(), file }))
    }

    fn truncate(&self, name: &str, len: u64) -> io::Result<()> {
        drop(self.operate(Operation::Truncate)?);
        let file = self.file(name)?;
        let mut file = lock(&file);
        file.bytes.truncate(len as usize);
        file.synced_len = file.bytes.len();
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut shared = self.operate(Operation::Remove)?;
        shared.files.remove(name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn sync(&self) -> io::Result<()> {
        let mut shared = self.operate(Operation::SyncFolder)?;
        shared.synced_files = shared.files.clone();
        Ok(())
    }

    fn lock(&self, _name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        let mut shared = lock(&self.shared);
        if shared.is_locked {
            return Ok(None);
        }
        shared.is_locked = true;
        Ok(Some(Box::new(Held(self.clone()))))
    }
}

struct Held(FaultDirectory);

impl Lock for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        lock(&self.0.shared).is_locked = false;
    }
}

struct Reader(FileState);

impl ReadFile for Reader {
    fn byte_len(&self) -> io::Result<u64> {
        Ok(lock(&self.0).bytes.len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let file = lock(&self.0);
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let found = file.bytes.get(from..from.saturating_add(buffer.len()));
        buffer.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

struct Writer {
    directory: FaultDirectory,
    file: FileState,
}

impl WriteFile for Writer {
    /// A write that fails has written half of its bytes.
    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let operated = self.directory.operate(Operation::Write).map(drop);
        if operated.is_err() {
            bytes = &bytes[..bytes.len() / 2];
        }
        Write::write_all(&mut lock(&self.file).bytes, bytes)?;
        operated
    }

    fn sync(&mut self) -> io::Result<()> {
        drop(self.directory.operate(Operation::Sync)?);
        let mut file = lock(&self.file);
        file.synced_len = file.bytes.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drillcore_storage::directory::read_file;

    #[test]
    fn an_image_holds_what_was_synced_and_the_rest_as_asked() {
        let (directory, mut rng) = (FaultDirectory::new(), Rng::keyed(1, 0));
        let mut file = directory.create("kept").unwrap();
        file.write_all(&[1; 600]).unwrap();
        file.sync().unwrap();
        directory.sync().unwrap();
        file.write_all(&[2; 1000]).unwrap();
        let _ = directory.create("loose").unwrap();
        let image = directory.crash_image(Unsynced::Dropped, &mut rng);
        assert_eq!(image.list().unwrap(), ["kept"]);
        assert_eq!(read_file(&image, "kept").unwrap(), [1; 600]);
        let image = directory.crash_image(Unsynced::Kept, &mut rng);
        assert_eq!(image.list().unwrap(), ["kept", "loose"]);
        assert_eq!(read_file(&image, "kept").unwrap().len(), 1600);
        let image = directory.crash_image(Unsynced::Zeroed, &mut rng);
        let bytes = read_file(&image, "kept").unwrap();
        assert_eq!((bytes.len(), &bytes[..600]), (1600, &[1u8; 600][..]));
        assert_eq!(bytes[1599], 0);
    }

    #[test]
    fn the_nth_operation_fails_once_or_for_ever_or_for_want_of_room() {
        let faults = [Fault::Once(1), Fault::Forever(1), Fault::DiskFull(1)];
        for (fault, then_fail) in
            faults.into_iter().zip([[false, false], [true, true], [false, true]])
        {
            let directory = FaultDirectory::new();
            directory.set_fault(Some(fault));
            let mut file = directory.create("a").unwrap();
            assert!(file.write_all(&[1; 10]).is_err());
            assert_eq!(read_file(&directory, "a").unwrap().len(), 5);
            assert_eq!([file.sync().is_err(), file.write_all(&[1; 10]).is_err()], then_fail);
            use Operation::*;
            assert_eq!(directory.operations(), [Create, Write, Sync, Write]);
        }
    }
}

//! A folder in memory that fails on demand and shows what a power cut would leave of it.
//!
//! It keeps apart what was written and what was synced: bytes of files ([`CachedFile`]), and entries of the
//! folder. Like those of files, changes of the folder whose sync failed are there for all who look, but no later sync
//! makes them durable. A crash image is a fresh folder with everything synced and some of the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use drillcore_sample::rng::Rng;
use drillcore_storage::files::directory::{Directory, Lock, ReadFile, WriteFile, read_file};
use drillcore_storage::files::memory_directory::MemoryDirectory;
use drillcore_storage::files::reads::{ReadRequest, TakeRead, read_in_turn};
use drillcore_storage::sync::{Mutex, MutexGuard};

use crate::cached_file::CachedFile;
pub use crate::cached_file::Unsynced;

/// What Unix systems call too many open files, and a device that cannot be read.
const EMFILE: i32 = 24;
const EIO: i32 = 5;

/// A call that changes the folder or makes a change durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A file is made.
    Create,
    /// Bytes are written.
    Write,
    /// A file is synced.
    Sync,
    /// A file gets another name.
    Rename,
    /// A file is removed.
    Remove,
    /// The names in the directory are synced.
    SyncFolder,
}

/// Which operations fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// This one. Operations are counted from 0, over all kinds.
    Once(u64),
    /// This one and all after it.
    Forever(u64),
    /// The first, and from the second on all.
    OnceThenForever(u64, u64),
    /// Of this one and all after it those that need room: the disk is full.
    DiskFull(u64),
}

/// Which read fails, once. Reads of a range of a file are counted from 0, over all files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFault {
    /// The device cannot do this one.
    Device(u64),
    /// The file ends before the range that this one is of.
    EndOfFile(u64),
}

impl Operation {
    fn needs_room(self) -> bool {
        matches!(self, Operation::Create | Operation::Write)
    }
}

/// A folder whose clones share the files and the fault.
#[derive(Clone, Default)]
pub struct FaultDirectory {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    files: BTreeMap<String, FileState>,
    /// The folder as a power cut cannot take it; files that both know share their bytes.
    synced_files: BTreeMap<String, FileState>,
    /// Names that the next sync of the folder makes durable, or their being gone.
    dirty_names: BTreeSet<String>,
    fault: Option<Fault>,
    operations: Vec<Operation>,
    read_fault: Option<ReadFault>,
    reads: u64,
    is_locked: bool,
    /// Bytes that all files together may take.
    capacity: Option<u64>,
    scarcity: Option<Scarcity>,
}

/// Spells in which no call gets a file descriptor.
struct Scarcity {
    rng: Rng,
    /// Calls that still fail.
    left: u64,
    /// Calls that failed.
    failed: u64,
}

type FileState = Arc<Mutex<CachedFile>>;

impl FaultDirectory {
    /// An empty directory in which nothing fails.
    pub fn new() -> FaultDirectory {
        FaultDirectory::default()
    }

    /// What a power cut left, all of it on disk.
    pub fn restarted(image: &MemoryDirectory) -> FaultDirectory {
        let directory = FaultDirectory::new();
        let mut shared = directory.shared.lock();
        for name in image.list().expect("memory lists its files") {
            let bytes = read_file(image, &name).expect("memory reads back");
            shared.files.insert(name, Arc::new(Mutex::new(CachedFile::on_disk(bytes))));
        }
        shared.synced_files = shared.files.clone();
        drop(shared);
        directory
    }

    /// Arms a fault, or none. Operations go on counting.
    pub fn set_fault(&self, fault: Option<Fault>) {
        self.shared.lock().fault = fault;
    }

    /// Arms a fault of reads, or none. Reads go on counting.
    pub fn set_read_fault(&self, fault: Option<ReadFault>) {
        self.shared.lock().read_fault = fault;
    }

    /// How many ranges of files were read so far, or failed to be.
    pub fn reads(&self) -> u64 {
        self.shared.lock().reads
    }

    /// Lets files take this many bytes in all, or any number. Files that are removed make room again.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.shared.lock().capacity = bytes;
    }

    /// Starts to refuse descriptors: at random moments, which depend on `seed`, to some calls in a row that open,
    /// create, list or lock.
    pub fn begin_scarcity(&self, seed: u64) {
        let (rng, left, failed) = (Rng::keyed(seed, 11), 0, 0);
        self.shared.lock().scarcity = Some(Scarcity { rng, left, failed });
    }

    /// Grants all descriptors again. Returns how many calls got none.
    pub fn end_scarcity(&self) -> u64 {
        self.shared.lock().scarcity.take().map_or(0, |scarcity| scarcity.failed)
    }

    /// All operations so far, failed ones too.
    pub fn operations(&self) -> Vec<Operation> {
        self.shared.lock().operations.clone()
    }

    /// What a power cut at this moment could leave.
    pub fn crash_image(&self, unsynced: Unsynced, rng: &mut Rng) -> MemoryDirectory {
        let image = MemoryDirectory::new();
        let shared = self.shared.lock();
        let mut names: Vec<&String> =
            shared.files.keys().chain(shared.synced_files.keys()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let (now, synced) = (shared.files.get(name), shared.synced_files.get(name));
            let change_happened = match unsynced {
                Unsynced::Dropped => false,
                Unsynced::Kept => true,
                _ => rng.below(2) == 0,
            };
            let Some(file) = (if change_happened { now } else { synced }) else { continue };
            let bytes = file.lock().after_power_cut(unsynced, rng);
            let copy = image.create(name).expect("each name comes once");
            copy.write_all(&bytes).expect("memory takes everything");
        }
        image
    }

    /// Counts an operation, and fails where the fault says so.
    fn operate(&self, operation: Operation) -> io::Result<MutexGuard<'_, Shared>> {
        let mut shared = self.shared.lock();
        let number = shared.operations.len() as u64;
        shared.operations.push(operation);
        let message = format!("injected failure of operation {number}");
        match shared.fault {
            Some(Fault::Once(nth)) if number == nth => Err(io::Error::other(message)),
            Some(Fault::Forever(nth)) if number >= nth => Err(io::Error::other(message)),
            Some(Fault::OnceThenForever(nth, then)) if number == nth || number >= then => {
                Err(io::Error::other(message))
            }
            Some(Fault::DiskFull(nth)) if number >= nth && operation.needs_room() => {
                Err(io::Error::new(io::ErrorKind::StorageFull, format!("{message}: no space left")))
            }
            _ => Ok(shared),
        }
    }

    /// Counts a read, and fails where the fault says so.
    fn read(&self) -> io::Result<()> {
        let mut shared = self.shared.lock();
        let number = shared.reads;
        shared.reads += 1;
        match shared.read_fault {
            Some(ReadFault::Device(nth)) if number == nth => Err(io::Error::from_raw_os_error(EIO)),
            Some(ReadFault::EndOfFile(nth)) if number == nth => {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            _ => Ok(()),
        }
    }

    /// Fails where a call gets no descriptor.
    fn take_descriptor(&self) -> io::Result<()> {
        let mut shared = self.shared.lock();
        let Some(scarcity) = &mut shared.scarcity else { return Ok(()) };
        if scarcity.left == 0 && scarcity.rng.below(20) == 0 {
            scarcity.left = scarcity.rng.below(20);
        }
        if scarcity.left == 0 {
            return Ok(());
        }
        scarcity.left -= 1;
        scarcity.failed += 1;
        Err(io::Error::from_raw_os_error(EMFILE))
    }

    fn file(&self, name: &str) -> io::Result<FileState> {
        self.shared.lock().files.get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Shared {
    fn used_bytes(&self) -> u64 {
        self.files.values().map(|file| file.lock().bytes().len() as u64).sum()
    }

    fn room(&self) -> usize {
        let room = self.capacity.map(|capacity| capacity.saturating_sub(self.used_bytes()));
        room.and_then(|room| usize::try_from(room).ok()).unwrap_or(usize::MAX)
    }
}

impl Directory for FaultDirectory {
    fn list(&self) -> io::Result<Vec<String>> {
        self.take_descriptor()?;
        Ok(self.shared.lock().files.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
        self.take_descriptor()?;
        Ok(Arc::new(Reader { directory: self.clone(), file: self.file(name)? }))
    }

    fn read_each(&self, requests: &[ReadRequest], take: TakeRead<'_>) {
        read_in_turn(requests, take);
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        self.take_descriptor()?;
        let mut shared = self.operate(Operation::Create)?;
        if shared.files.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = FileState::default();
        shared.files.insert(name.to_string(), file.clone());
        shared.dirty_names.insert(name.to_string());
        Ok(Box::new(Writer { directory: self.clone(), file }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut shared = self.operate(Operation::Rename)?;
        let file = shared.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        shared.files.insert(to.to_string(), file);
        shared.dirty_names.extend([from.to_string(), to.to_string()]);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut shared = self.operate(Operation::Remove)?;
        shared.dirty_names.insert(name.to_string());
        shared.files.remove(name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn sync(&self) -> io::Result<()> {
        let operated = self.operate(Operation::SyncFolder).map(drop);
        let mut shared = self.shared.lock();
        let Shared { files, synced_files, dirty_names, .. } = &mut *shared;
        let names = std::mem::take(dirty_names);
        operated?;
        for name in names {
            match files.get(&name) {
                Some(file) => synced_files.insert(name, file.clone()),
                None => synced_files.remove(&name),
            };
        }
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<Option<u64>> {
        let shared = self.shared.lock();
        Ok(shared.capacity.map(|capacity| capacity.saturating_sub(shared.used_bytes())))
    }

    fn lock(&self, _name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        self.take_descriptor()?;
        let mut shared = self.shared.lock();
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
        self.0.shared.lock().is_locked = false;
    }
}

struct Reader {
    directory: FaultDirectory,
    file: FileState,
}

impl ReadFile for Reader {
    fn byte_len(&self) -> io::Result<u64> {
        Ok(self.file.lock().bytes().len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.directory.read()?;
        let file = self.file.lock();
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let found = file.bytes().get(from..from.saturating_add(buffer.len()));
        buffer.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

struct Writer {
    directory: FaultDirectory,
    file: FileState,
}

impl WriteFile for Writer {
    /// A write that fails has written half of its bytes, or those that there was room for.
    fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        let room = self.directory.operate(Operation::Write).map(|shared| shared.room());
        let written = match &room {
            Ok(room) => bytes.len().min(*room),
            Err(_) => bytes.len() / 2,
        };
        self.file.lock().append(&bytes[..written]);
        match room {
            Ok(_) if written < bytes.len() => Err(io::Error::new(
                io::ErrorKind::StorageFull,
                "injected: no space left on a small disk",
            )),
            room => room.map(drop),
        }
    }

    fn sync(&self) -> io::Result<()> {
        let operated = self.directory.operate(Operation::Sync).map(drop);
        match operated {
            Ok(()) => self.file.lock().sync(),
            Err(_) => self.file.lock().fail_sync(),
        }
        operated
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drillcore_storage::files::directory::read_file;

    #[test]
    fn an_image_holds_what_was_synced_and_the_rest_as_asked() {
        let (directory, mut rng) = (FaultDirectory::new(), Rng::keyed(1, 0));
        let file = directory.create("kept").unwrap();
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
        let restarted = FaultDirectory::restarted(&image);
        assert_eq!(restarted.crash_image(Unsynced::Dropped, &mut rng).list().unwrap().len(), 2);
    }

    #[test]
    fn a_change_of_the_folder_whose_sync_failed_is_there_until_a_power_cut() {
        let (directory, mut rng) = (FaultDirectory::new(), Rng::keyed(1, 0));
        let _ = directory.create("lost").unwrap();
        directory.set_fault(Some(Fault::Once(1)));
        assert!(directory.sync().is_err());
        let _ = directory.create("kept").unwrap();
        directory.sync().unwrap();
        assert_eq!(directory.list().unwrap(), ["kept", "lost"]);
        let mut after_cut = |unsynced| directory.crash_image(unsynced, &mut rng).list().unwrap();
        assert_eq!(after_cut(Unsynced::Dropped), ["kept"]);
        assert_eq!(after_cut(Unsynced::Kept), ["kept", "lost"]);
    }

    #[test]
    fn the_nth_operation_fails_once_or_for_ever_or_for_want_of_room() {
        let faults = [Fault::Once(1), Fault::Forever(1), Fault::DiskFull(1)];
        for (fault, then_fail) in
            faults.into_iter().zip([[false, false], [true, true], [false, true]])
        {
            let directory = FaultDirectory::new();
            directory.set_fault(Some(fault));
            let file = directory.create("a").unwrap();
            assert!(file.write_all(&[1; 10]).is_err());
            assert_eq!(read_file(&directory, "a").unwrap().len(), 5);
            assert_eq!([file.sync().is_err(), file.write_all(&[1; 10]).is_err()], then_fail);
            use Operation::*;
            assert_eq!(directory.operations(), [Create, Write, Sync, Write]);
        }
    }

    #[test]
    fn the_nth_read_fails_once_as_a_device_does_or_for_the_end_of_the_file() {
        let directory = FaultDirectory::new();
        directory.create("a").unwrap().write_all(&[1; 10]).unwrap();
        let file = directory.open("a").unwrap();
        let read = || file.read_exact_at(&mut [0; 4], 2);
        for (fault, kind) in [
            (ReadFault::Device as fn(u64) -> ReadFault, None),
            (ReadFault::EndOfFile, Some(io::ErrorKind::UnexpectedEof)),
        ] {
            directory.set_read_fault(Some(fault(directory.reads() + 1)));
            assert!(read().is_ok());
            let error = read().unwrap_err();
            assert_eq!(error.raw_os_error().is_none(), kind.is_some(), "{error}");
            assert!(kind.is_none_or(|kind| error.kind() == kind), "{error}");
            assert!(read().is_ok());
        }
        assert_eq!(directory.reads(), 6);
    }
}

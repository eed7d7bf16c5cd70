//! Files in memory.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::files::directory::{Directory, Lock, ReadFile, WriteFile};
use crate::files::reads::{ReadRequest, TakeRead, read_in_turn};

/// A directory that lives in memory and dies with its last handle. Clones share the files.
#[derive(Debug, Clone, Default)]
pub struct MemoryDirectory {
    files: Arc<Mutex<BTreeMap<String, Arc<MemoryFile>>>>,
}

#[derive(Debug, Default)]
struct MemoryFile {
    bytes: RwLock<Vec<u8>>,
}

impl MemoryDirectory {
    /// A directory without files.
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

    fn read_each(&self, requests: &[ReadRequest], take: TakeRead<'_>) {
        read_in_turn(requests, take);
    }

    fn reads_in_sequence(&self) -> u64 {
        1
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

    /// A directory in memory is open only through its handles: holding one is the lock.
    fn lock(&self, _name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        struct Unshared;
        impl Lock for Unshared {}
        Ok(Some(Box::new(Unshared)))
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
    fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.0.bytes.write();
        file.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::directory::read_file;
    use crate::files::local_directory::LocalDirectory;

    fn both(test: impl Fn(&dyn Directory)) {
        let folder = tempfile::tempdir().unwrap();
        test(&LocalDirectory::create(&folder.path().join("db")).unwrap());
        test(&MemoryDirectory::new());
    }

    #[test]
    fn a_file_reads_back() {
        both(|directory| {
            let file = directory.create("a").unwrap();
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
}

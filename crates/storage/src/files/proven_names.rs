//! A directory whose failed sync is its last one.
//!
//! After a sync of a directory that failed, the system may take the names for synced that it lost, so a later sync
//! that succeeds proves nothing about them. They may be those of another thread: it made a file, has not synced the directory
//! yet, and would name the file in the manifest after a sync of its own. So once a sync failed, all fail, and what is
//! not durable is found and written anew when the database is opened the next time.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::files::directory::{Directory, Lock, ReadFile, WriteFile};
use crate::files::reads::{ReadRequest, TakeRead};
use crate::sync::Mutex;

/// A [`Directory`] that syncs until it fails to.
pub struct ProvenNames {
    inner: Arc<dyn Directory>,
    /// What the sync that failed said. Held while one is under way: two at once could each take the names of the
    /// other, and only one of them fail.
    failure: Mutex<Option<String>>,
}

impl ProvenNames {
    /// Passes everything on to `inner`, which no one else syncs.
    pub fn new(inner: Arc<dyn Directory>) -> ProvenNames {
        ProvenNames { inner, failure: Mutex::new(None) }
    }
}

impl Directory for ProvenNames {
    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
        self.inner.open(name)
    }

    fn open_pages(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
        self.inner.open_pages(name)
    }

    fn read_each(&self, requests: &[ReadRequest], take: TakeRead<'_>) {
        self.inner.read_each(requests, take);
    }

    fn reads_in_sequence(&self) -> u64 {
        self.inner.reads_in_sequence()
    }

    fn reads_by(&self) -> &'static str {
        self.inner.reads_by()
    }

    fn reads_past_cache(&self) -> bool {
        self.inner.reads_past_cache()
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        self.inner.create(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        let mut failure = self.failure.lock();
        if let Some(first) = &*failure {
            return Err(io::Error::other(format!(
                "an earlier sync of the directory failed ({first}), so later ones are not reliable; open the \
                 database again"
            )));
        }
        self.inner.sync().inspect_err(|error| *failure = Some(error.to_string()))
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        self.inner.lock(name)
    }

    fn try_lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        self.inner.try_lock(name)
    }

    fn is_locked_here(&self, name: &str) -> bool {
        self.inner.is_locked_here(name)
    }

    fn local_folder(&self) -> Option<BorrowedFd<'_>> {
        self.inner.local_folder()
    }

    fn free_bytes(&self) -> io::Result<Option<u64>> {
        self.inner.free_bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::files::memory_directory::MemoryDirectory;

    /// Fails its first sync.
    struct FailsOnce(MemoryDirectory, AtomicBool);

    impl Directory for FailsOnce {
        fn list(&self) -> io::Result<Vec<String>> {
            self.0.list()
        }
        fn open(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
            self.0.open(name)
        }
        fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
            self.0.create(name)
        }
        fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            self.0.rename(from, to)
        }
        fn remove(&self, name: &str) -> io::Result<()> {
            self.0.remove(name)
        }
        fn sync(&self) -> io::Result<()> {
            match self.1.swap(true, Ordering::SeqCst) {
                true => Ok(()),
                false => Err(io::Error::other("on purpose")),
            }
        }
        fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
            self.0.lock(name)
        }
    }

    #[test]
    fn after_a_sync_that_failed_none_is_said_to_have_succeeded() {
        let inner = FailsOnce(MemoryDirectory::new(), AtomicBool::new(false));
        let names = ProvenNames::new(Arc::new(inner));
        names.create("of another thread").unwrap();
        assert!(names.sync().is_err());
        let error = names.sync().unwrap_err();
        assert!(error.to_string().contains("failed (on purpose)"), "{error}");
        assert_eq!(names.list().unwrap().len(), 1, "the rest goes on");
    }
}

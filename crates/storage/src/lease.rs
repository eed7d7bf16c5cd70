//! Leases: how reader processes keep the writer from removing what they read.
//!
//! A lease is an empty file, locked for as long as its reader lives (the kernel frees the lock when the
//! process dies), whose name says which version of the manifest is being read. A reader first takes a lease
//! on everything, then reads the manifest, then narrows the lease to what it found; a writer looks for
//! leases after its edit is in the manifest. So whichever comes first, a file that a reader needs is
//! either seen as leased or not in the manifest that the reader found.

use std::io;
use std::sync::{Arc, PoisonError};

use crate::directory::{Directory, Lock};
use crate::error::{IoContext, Result, StorageError};
use crate::sync::{Mutex, MutexGuard};

/// A state of the manifest: the number of its file, and of the last edit in it. Versions rise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ManifestVersion {
    pub file: u64,
    pub edit: u64,
}

impl ManifestVersion {
    /// Before every version: a lease on it keeps everything.
    pub const EVERYTHING: ManifestVersion = ManifestVersion { file: 0, edit: 0 };
}

/// A reader's hold on one version. Dropping it lets go.
pub struct Lease {
    directory: Arc<dyn Directory>,
    name: String,
    _lock: Box<dyn Lock>,
}

impl Lease {
    /// Takes a lease; `nonce` must be a number that no other reader uses.
    pub fn take(
        directory: Arc<dyn Directory>,
        version: ManifestVersion,
        nonce: u64,
    ) -> Result<Lease> {
        let ManifestVersion { file, edit } = version;
        let name = format!("lease-{file:08}-{edit:012}-{nonce:016x}");
        let lock = directory.lock(&name).context("lock", &name)?.ok_or(StorageError::Locked)?;
        // A writer that looked between the file's making and its locking took it for dead.
        let names = directory.list().context("list", "the database folder")?;
        if !names.contains(&name) {
            return Err(StorageError::Locked);
        }
        Ok(Lease { directory, name, _lock: lock })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // A file that stays behind is unlocked, and removed by whoever looks for leases next.
        let _ = self.directory.remove(&self.name);
    }
}

/// The oldest version that a living reader holds. Removes the leases of dead ones.
pub fn oldest_lease(directory: &dyn Directory) -> Result<Option<ManifestVersion>> {
    let names = directory.list().context("list", "the database folder")?;
    let mut oldest: Option<ManifestVersion> = None;
    for name in names {
        let Some(version) = version_of(&name) else { continue };
        match directory.lock(&name).context("lock", &name)? {
            None => oldest = Some(oldest.map_or(version, |other| other.min(version))),
            // The reader may have removed the file itself meanwhile.
            Some(_dead) => drop(directory.remove(&name)),
        }
    }
    Ok(oldest)
}

fn version_of(name: &str) -> Option<ManifestVersion> {
    let mut parts = name.strip_prefix("lease-")?.split('-');
    let (file, edit) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some(ManifestVersion { file, edit })
}

/// Files that are in the manifest no more and go once no reader holds a version that needs them.
pub struct DeferredRemovals {
    directory: Arc<dyn Directory>,
    pending: Mutex<Vec<Pending>>,
}

struct Pending {
    name: String,
    bytes: u64,
    /// The first version without the file.
    removed_at: ManifestVersion,
}

impl DeferredRemovals {
    pub fn new(directory: Arc<dyn Directory>) -> DeferredRemovals {
        DeferredRemovals { directory, pending: Mutex::default() }
    }

    /// Takes over a file that this process does not read any more.
    pub fn defer(&self, name: String, bytes: u64, removed_at: ManifestVersion) {
        self.pending().push(Pending { name, bytes, removed_at });
    }

    /// Removes the files that nobody needs any more.
    pub fn sweep(&self) -> Result<()> {
        let mut pending = self.pending();
        if pending.is_empty() {
            return Ok(());
        }
        let oldest = oldest_lease(self.directory.as_ref())?;
        let is_needed = |file: &Pending| oldest.is_some_and(|version| version < file.removed_at);
        let mut swept = Ok(());
        pending.retain(|file| {
            if is_needed(file) {
                return true;
            }
            match self.directory.remove(&file.name) {
                // An earlier opening of the database may have had it on its list, too.
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    swept = Err(error).context("remove", &file.name);
                    true
                }
                _ => false,
            }
        });
        swept
    }

    /// Whether a reader is just opening, and may still need anything there is.
    pub fn is_everything_leased(&self) -> Result<bool> {
        Ok(oldest_lease(self.directory.as_ref())? == Some(ManifestVersion::EVERYTHING))
    }

    /// Bytes of the files that wait for readers.
    pub fn bytes(&self) -> u64 {
        self.pending().iter().map(|file| file.bytes).sum()
    }

    fn pending(&self) -> MutexGuard<'_, Vec<Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::LocalDirectory;

    fn at(edit: u64) -> ManifestVersion {
        ManifestVersion { file: 1, edit }
    }

    #[test]
    fn a_file_goes_once_no_lease_needs_it() {
        let folder = tempfile::tempdir().unwrap();
        let directory: Arc<dyn Directory> = Arc::new(LocalDirectory::open(folder.path()).unwrap());
        let removals = DeferredRemovals::new(directory.clone());
        let defer = |name: &str, removed_at: ManifestVersion| {
            directory.create(name).unwrap().write_all(b"12345").unwrap();
            removals.defer(name.into(), 5, removed_at);
            removals.sweep().unwrap();
        };
        let exists = |name: &str| directory.list().unwrap().contains(&name.to_string());
        defer("a", at(1));
        assert!(!exists("a"), "nobody reads");

        let opening = Lease::take(directory.clone(), ManifestVersion::EVERYTHING, 1).unwrap();
        assert!(removals.is_everything_leased().unwrap());
        let reading = Lease::take(directory.clone(), at(3), 2).unwrap();
        defer("b", at(2));
        defer("c", at(4));
        assert_eq!(removals.bytes(), 10);
        drop(opening);
        removals.sweep().unwrap();
        assert!(!exists("b") && exists("c"), "version 3 has c, but not b");
        assert!(!removals.is_everything_leased().unwrap());
        drop(reading);
        removals.sweep().unwrap();
        assert!(!exists("c"));
        assert_eq!(directory.list().unwrap(), Vec::<String>::new());
    }

    /// A snapshot can outlive its database: once dropped it removes a file that the next opening of the
    /// database has on its list, too.
    #[test]
    fn a_file_that_somebody_else_removed_is_no_failure() {
        let folder = tempfile::tempdir().unwrap();
        let directory: Arc<dyn Directory> = Arc::new(LocalDirectory::open(folder.path()).unwrap());
        let openings = [0, 1].map(|_| DeferredRemovals::new(directory.clone()));
        directory.create("a").unwrap();
        openings.iter().for_each(|removals| removals.defer("a".into(), 0, at(1)));
        for removals in openings {
            removals.sweep().unwrap();
        }
    }

    #[test]
    fn the_lease_of_a_dead_reader_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let directory = LocalDirectory::open(folder.path()).unwrap();
        directory.create("lease-00000001-000000000007-0000000000000abc").unwrap();
        assert_eq!(oldest_lease(&directory).unwrap(), None);
        assert!(directory.list().unwrap().is_empty());
    }
}

//! Leases: how reader processes keep the writer from removing what they read.
//!
//! A lease is an empty file, locked for as long as its reader lives (the kernel frees the lock when the
//! process dies), whose name says which version of the manifest is being read. A reader first takes a lease
//! on everything, then reads the manifest, then narrows the lease to what it found; a writer looks for
//! leases after its edit is in the manifest. So whichever comes first, a file that a reader needs is
//! either seen as leased or not in the manifest that the reader found.
//!
//! Cleaning up never fails a writer. A lease whose lock cannot be tried (it is of another user, or no file at
//! all) counts as held, a file that cannot be removed is tried again later, and both are reported.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use crate::error::{IoContext, Result, StorageError};
use crate::files::directory::{Directory, Lock};
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
    /// Before every version but that: what goes at it is only held back for readers that are just opening.
    pub const ANY: ManifestVersion = ManifestVersion { file: 0, edit: 1 };
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
        let lock = match directory.lock(&name) {
            Err(source) if is_denied(&source) => return Err(StorageError::LeaseDenied { source }),
            lock => lock.context("lock", &name)?.ok_or(StorageError::Locked)?,
        };
        // A writer that looked between the file's making and its locking took it for dead.
        let names = directory.list().context("list", "the database directory")?;
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

/// Whether it is a matter of permissions, or of a file system that nothing is written to.
fn is_denied(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// What a look at all leases found.
#[derive(Debug, Clone, Default)]
struct Leases {
    /// The oldest version that may be held.
    oldest: Option<ManifestVersion>,
    /// Why leases count as held of which it is not known.
    untried: Vec<String>,
    /// Why leases of dead readers are still there.
    unremoved: Vec<String>,
}

/// How often it is looked again after a lease had gone from under the look.
const LOOKS_MAX: usize = 20;

impl Leases {
    /// Looks for leases, and removes those of dead readers.
    ///
    /// A reader that moves on takes its next lease before it lets go of the one it has. If the folder was listed before
    /// that and the lease is tried after, the look sees neither. So wherever a listed lease is gone, or free,
    /// it is looked again, until none is that was not before.
    fn look(directory: &dyn Directory) -> Leases {
        Leases::look_at(directory, || directory.list())
    }

    /// [`Leases::look`] at the names that `list` finds.
    fn look_at(
        directory: &dyn Directory,
        mut list: impl FnMut() -> io::Result<Vec<String>>,
    ) -> Leases {
        let mut let_go: HashSet<String> = HashSet::new();
        for _ in 0..LOOKS_MAX {
            let known = let_go.len();
            let found = Leases::look_once(directory, list(), &mut let_go);
            if let_go.len() == known {
                return found;
            }
        }
        // Readers move on faster than they can be looked for: nothing is known of them for now.
        let mut found = Leases::default();
        found.hold(ManifestVersion::EVERYTHING);
        found
    }

    /// Notes the names of leases that were listed and are free or gone.
    fn look_once(
        directory: &dyn Directory,
        names: io::Result<Vec<String>>,
        let_go: &mut HashSet<String>,
    ) -> Leases {
        let mut found = Leases::default();
        let names = match names {
            Ok(names) => names,
            Err(error) => {
                found
                    .untried
                    .push(format!("cannot list the database directory for leases: {error}"));
                found.hold(ManifestVersion::EVERYTHING);
                return found;
            }
        };
        for name in names {
            let Some(version) = version_of(&name) else { continue };
            match directory.try_lock(&name) {
                Ok(None) => found.hold(version),
                // The reader may have removed the file itself meanwhile.
                Ok(Some(_dead)) => {
                    found.unremoved.extend(cannot_remove(directory, &name));
                    let_go.insert(name);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let_go.insert(name);
                }
                Err(error) => {
                    let todo = "it counts as held; remove it when its reader is gone";
                    found.untried.push(format!("cannot check {name}: {error}; {todo}"));
                    found.hold(version);
                }
            }
        }
        found
    }

    fn hold(&mut self, version: ManifestVersion) {
        self.oldest = Some(self.oldest.map_or(version, |other| other.min(version)));
    }
}

/// Removes a file; says why, if it is still there then.
fn cannot_remove(directory: &dyn Directory, name: &str) -> Option<String> {
    match directory.remove(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Some(format!("cannot remove {name}: {error}"))
        }
        // An earlier opening of the database may have had it on its list, too.
        _ => None,
    }
}

fn version_of(name: &str) -> Option<ManifestVersion> {
    let mut parts = name.strip_prefix("lease-")?.split('-');
    let (file, edit) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some(ManifestVersion { file, edit })
}

/// Files that are in the manifest no more and go once no reader holds a version that needs them.
///
/// What keeps one from going is no failure: it is tried again later, and [`DeferredRemovals::report`] has it.
pub struct DeferredRemovals {
    directory: Arc<dyn Directory>,
    waiting: Mutex<Waiting>,
    /// Held by whoever removes files.
    sweeping: Mutex<Sweeping>,
}

#[derive(Default)]
struct Waiting {
    files: Vec<Pending>,
    /// How many files were ever deferred.
    deferred: u64,
    report: RemovalReport,
}

#[derive(Default)]
struct Sweeping {
    /// Nothing is removed any more.
    is_closed: bool,
}

#[derive(Clone)]
struct Pending {
    name: String,
    bytes: u64,
    /// The first version without the file.
    removed_at: ManifestVersion,
}

/// What waits to be removed, and why that is more than living readers need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemovalReport {
    /// Bytes of the files that wait.
    pub bytes: u64,
    /// Leases that could not be tried, and therefore count as held: a message each.
    pub untried_leases: Vec<String>,
    /// Files that nobody needs and that could not be removed: a message each.
    pub unremoved_files: Vec<String>,
}

impl DeferredRemovals {
    pub fn new(directory: Arc<dyn Directory>) -> DeferredRemovals {
        DeferredRemovals { directory, waiting: Mutex::default(), sweeping: Mutex::default() }
    }

    /// Takes over a file that this process does not read any more.
    pub fn defer(&self, name: String, bytes: u64, removed_at: ManifestVersion) {
        let mut waiting = self.waiting();
        waiting.files.push(Pending { name, bytes, removed_at });
        waiting.deferred += 1;
    }

    /// Removes the files that nobody needs any more, as far as the system lets it. Where another thread is at
    /// it, that one does.
    pub fn sweep(&self) {
        loop {
            let deferred = self.waiting().deferred;
            let Some(sweeping) = self.sweeping.try_lock() else { return };
            if sweeping.is_closed {
                return;
            }
            self.remove_unneeded();
            drop(sweeping);
            // Whoever deferred a file meanwhile has left it to this thread.
            if self.waiting().deferred == deferred {
                return;
            }
        }
    }

    /// Removes nothing from now on, also not in a sweep under way elsewhere: others may open the files.
    pub fn close(&self) {
        self.sweeping.lock().is_closed = true;
    }

    fn remove_unneeded(&self) {
        // Removing takes long, and others only want to know what waits.
        let files = self.waiting().files.clone();
        if files.is_empty() {
            return;
        }
        let Leases { oldest, untried, unremoved } = Leases::look(self.directory.as_ref());
        let mut report =
            RemovalReport { untried_leases: untried, unremoved_files: unremoved, bytes: 0 };
        let mut gone: HashSet<String> = HashSet::new();
        for Pending { name, removed_at, .. } in files {
            if oldest.is_some_and(|version| version < removed_at) {
                continue;
            }
            match cannot_remove(self.directory.as_ref(), &name) {
                None => drop(gone.insert(name)),
                Some(why) => report.unremoved_files.push(why),
            }
        }
        let mut waiting = self.waiting();
        waiting.files.retain(|file| !gone.contains(&file.name));
        waiting.report = if waiting.files.is_empty() { RemovalReport::default() } else { report };
    }

    /// What waits now, and what the last sweep met.
    pub fn report(&self) -> RemovalReport {
        let waiting = self.waiting();
        let bytes = waiting.files.iter().map(|file| file.bytes).sum();
        RemovalReport { bytes, ..waiting.report.clone() }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::local_directory::LocalDirectory;

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
            removals.sweep();
        };
        let exists = |name: &str| directory.list().unwrap().contains(&name.to_string());
        defer("a", at(1));
        assert!(!exists("a"), "nobody reads");

        let opening = Lease::take(directory.clone(), ManifestVersion::EVERYTHING, 1).unwrap();
        let reading = Lease::take(directory.clone(), at(3), 2).unwrap();
        defer("b", at(2));
        defer("c", at(4));
        defer("log", ManifestVersion::ANY);
        assert_eq!(removals.report().bytes, 15);
        drop(opening);
        removals.sweep();
        assert!(!exists("b") && exists("c"), "version 3 has c, but not b");
        assert!(!exists("log"), "who has opened has read it");
        drop(reading);
        removals.sweep();
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
            removals.sweep();
        }
    }

    #[test]
    fn a_reader_that_moves_on_while_it_is_looked_for_leases_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let directory: Arc<dyn Directory> = Arc::new(LocalDirectory::open(folder.path()).unwrap());
        let take = |edit| Lease::take(directory.clone(), at(edit), edit).unwrap();
        let (mut version, mut held) = (2, take(2));
        // It moves on after the folder was listed, and before the lease is tried.
        let mut look = |moves: u64| {
            let end = version + moves;
            let list = || {
                let names = directory.list();
                if version < end {
                    version += 1;
                    held = take(version);
                }
                names
            };
            Leases::look_at(directory.as_ref(), list).oldest
        };
        assert_eq!(look(2), Some(at(4)));
        // Who never stops moving holds everything, until it does.
        let looks = LOOKS_MAX as u64;
        assert_eq!(look(looks), Some(ManifestVersion::EVERYTHING));
        assert_eq!(look(0), Some(at(4 + looks)));
        drop(held);
    }

    #[test]
    fn the_lease_of_a_dead_reader_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let directory = LocalDirectory::open(folder.path()).unwrap();
        directory.create("lease-00000001-000000000007-0000000000000abc").unwrap();
        assert_eq!(Leases::look(&directory).oldest, None);
        assert!(directory.list().unwrap().is_empty());
    }
}

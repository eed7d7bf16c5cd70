//! Leases: how reader processes keep the writer from removing what they read.
//!
//! A lease is an empty file, locked for as long as its reader lives (the kernel frees the lock when the
//! process dies), whose name says which version of the manifest is being read. A reader first takes a lease
//! on everything, then reads the manifest, then narrows the lease to what it found; a writer looks for
//! leases after its edit is in the manifest. So whichever comes first, a file that a reader needs is
//! either seen as leased or not in the manifest that the reader found.
//!
//! A lease on a *moment* also names a commit: the manifest of the version, and the log up to there, stay for readers that open the
//! same moment while it is held. A reader that opens one takes a lease on everything, looks whether a lease [holds](is_held)
//! it, and only then takes one of its own: so two readers never take each other for its holder.
//!
//! Cleaning up never fails a writer. A lease whose lock cannot be tried (it is of another user, or no file at
//! all) counts as held, a file that cannot be removed is tried again later, and both are reported.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use drillcore_format::ids::Lsn;

use crate::error::{IoContext, Result, StorageError};
use crate::files::directory::{Directory, Lock};
use crate::files::process::Process;
use crate::sync::{Mutex, MutexGuard};

/// A state of the manifest: the number of its file, and of the last edit in it. Versions rise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ManifestVersion {
    /// The number of the manifest's file.
    pub file: u64,
    /// The number of the edit in that file.
    pub edit: u64,
}

impl ManifestVersion {
    /// Before every version: a lease on it keeps everything.
    pub const EVERYTHING: ManifestVersion = ManifestVersion { file: 0, edit: 0 };

    /// Before every version of the manifest file with that number.
    pub fn before_file(number: u64) -> ManifestVersion {
        ManifestVersion { file: number, edit: 0 }
    }
}

/// What a lease holds: what has been removed since a version, and of the log the files with commits up to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Files that a later version removed stay.
    pub version: ManifestVersion,
    /// `None` for the segments alone.
    pub log_to: Option<Lsn>,
}

impl Held {
    /// Whether it holds all that a reader of the manifest at `version` needs, with the log up to `lsn`.
    fn covers(&self, version: ManifestVersion, lsn: Lsn) -> bool {
        // A lease on everything is of a reader that may find nothing yet.
        let is_of_a_version = self.version != ManifestVersion::EVERYTHING;
        is_of_a_version && self.version <= version && self.log_to.is_some_and(|to| to >= lsn)
    }

    fn needs(&self, file: &Pending) -> bool {
        let is_of_its_log = |first| self.log_to.is_some_and(|to| first <= to);
        self.version < file.removed_at && file.first.is_none_or(is_of_its_log)
    }
}

/// A reader's hold on one version. Dropping it lets go.
pub struct Lease {
    directory: Arc<dyn Directory>,
    name: String,
    _lock: Box<dyn Lock>,
    /// The one that took it: what was forked off it has the lease, too, and may end before.
    process: Process,
}

impl Lease {
    /// Takes a lease on the segments of a version; `nonce` must be a number that no other reader uses.
    pub fn take(
        directory: Arc<dyn Directory>,
        version: ManifestVersion,
        nonce: u64,
    ) -> Result<Lease> {
        Lease::take_named(directory, name_of(Held { version, log_to: None }, nonce))
    }

    /// Takes a lease on a moment: the manifest of a version, its segments, and the log up to a commit.
    pub fn take_moment(
        directory: Arc<dyn Directory>,
        version: ManifestVersion,
        lsn: Lsn,
        nonce: u64,
    ) -> Result<Lease> {
        Lease::take_named(directory, name_of(Held { version, log_to: Some(lsn) }, nonce))
    }

    fn take_named(directory: Arc<dyn Directory>, name: String) -> Result<Lease> {
        let lock = match directory.lock(&name) {
            Err(source) if is_denied(&source) => return Err(StorageError::LeaseDenied { source }),
            lock => lock.context("lock", &name)?.ok_or(StorageError::Locked)?,
        };
        let lease = Lease { directory, name, _lock: lock, process: Process::current() };
        // A writer that looked between the file's making and its locking took it for dead.
        let names = lease.directory.list().context("list", "the database directory")?;
        if !names.contains(&lease.name) {
            return Err(StorageError::Locked);
        }
        Ok(lease)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.process.check().is_ok() {
            // A file that stays behind is unlocked, and the next process that looks for leases removes it.
            let _ = self.directory.remove(&self.name);
        }
    }
}

/// Whether it is a matter of permissions, or of a file system that nothing is written to.
fn is_denied(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Whether a reader holds the manifest of a version with its segments, and the log up to a commit.
///
/// Costs a listing of the directory, and a lock to try for each lease that says so, up to the first one that is held. One that
/// cannot be tried counts as held.
pub fn is_held(directory: &dyn Directory, version: ManifestVersion, lsn: Lsn) -> Result<bool> {
    let names = directory.list().context("list", "the database directory")?;
    let covers = |name: &&String| held_by(name).is_some_and(|held| held.covers(version, lsn));
    Ok(names.iter().filter(covers).any(|name| match directory.try_lock(name) {
        Ok(free) => free.is_none(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }))
}

/// What a look at all leases found.
#[derive(Debug, Clone, Default)]
struct Leases {
    /// What may be held, each once.
    held: Vec<Held>,
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
    /// A reader that moves on takes its next lease before it lets go of the one it has. If the directory was listed before
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
        found.hold(EVERYTHING);
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
                found.hold(EVERYTHING);
                return found;
            }
        };
        for name in names {
            let Some(held) = held_by(&name) else { continue };
            match directory.try_lock(&name) {
                Ok(None) => found.hold(held),
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
                    found.hold(held);
                }
            }
        }
        found
    }

    fn hold(&mut self, held: Held) {
        if !self.held.contains(&held) {
            self.held.push(held);
        }
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

/// A lease on everything, all of the log with it.
const EVERYTHING: Held = Held { version: ManifestVersion::EVERYTHING, log_to: Some(Lsn(u64::MAX)) };

/// The name of a lease, as `docs/format.md` has it.
fn name_of(held: Held, nonce: u64) -> String {
    let Held { version: ManifestVersion { file, edit }, log_to } = held;
    let log = log_to.map_or(String::new(), |lsn| format!("-{:020}", lsn.0));
    format!("lease-{file:08}-{edit:012}-{nonce:016x}{log}")
}

/// What the lease of a name holds.
fn held_by(name: &str) -> Option<Held> {
    let mut parts = name.strip_prefix("lease-")?.split('-');
    let (file, edit) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let version = ManifestVersion { file, edit };
    if version == ManifestVersion::EVERYTHING {
        return Some(EVERYTHING);
    }
    Some(Held { version, log_to: parts.nth(1).and_then(|lsn| lsn.parse().ok()).map(Lsn) })
}

/// Files that are in the manifest no more and go once no reader holds a version that needs them.
///
/// What keeps one from going is no failure: it is tried again later, and [`DeferredRemovals::report`] has it.
pub struct DeferredRemovals {
    directory: Arc<dyn Directory>,
    waiting: Mutex<Waiting>,
    /// Held by the thread that removes files.
    sweeping: Mutex<Sweeping>,
}

#[derive(Default)]
struct Waiting {
    files: Vec<Pending>,
    /// How many sweeps were asked for, and up to which of these one has begun since and ended.
    asked: u64,
    answered: u64,
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
    /// The first commit in a file of the log.
    first: Option<Lsn>,
}

/// What waits to be removed, and why that is more than living readers need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemovalReport {
    /// Bytes of the files that wait.
    pub bytes: u64,
    /// Leases that could not be tried, and therefore count as held: a message each.
    pub untried_leases: Vec<String>,
    /// Files that are not needed and could not be removed: a message each.
    pub unremoved_files: Vec<String>,
}

impl DeferredRemovals {
    /// Nothing waits yet. Files are removed from `directory`.
    pub fn new(directory: Arc<dyn Directory>) -> DeferredRemovals {
        DeferredRemovals { directory, waiting: Mutex::default(), sweeping: Mutex::default() }
    }

    /// Takes over a file that this process does not read any more.
    pub fn defer(&self, name: String, bytes: u64, removed_at: ManifestVersion) {
        self.add(Pending { name, bytes, removed_at, first: None });
    }

    /// Takes over a file of the log that begins with a commit: only those who read the log up to there need it.
    pub fn defer_log(&self, name: String, bytes: u64, removed_at: ManifestVersion, first: Lsn) {
        self.add(Pending { name, bytes, removed_at, first: Some(first) });
    }

    fn add(&self, file: Pending) {
        self.waiting().files.push(file);
    }

    /// Removes the files that are no longer needed, as far as the system lets it. If another thread is removing
    /// files, that one does.
    pub fn sweep(&self) {
        self.waiting().asked += 1;
        self.sweep_if_asked();
    }

    /// Makes the sweeps that were asked for. A thread calls this once it has unlocked `sweeping`: other threads that asked
    /// meanwhile rely on it.
    fn sweep_if_asked(&self) {
        let is_asked = || {
            let waiting = self.waiting();
            waiting.asked > waiting.answered
        };
        while is_asked() {
            let Some(sweeping) = self.sweeping.try_lock() else { return };
            if sweeping.is_closed {
                return;
            }
            let asked = self.waiting().asked;
            self.remove_unneeded();
            self.waiting().answered = asked;
        }
    }

    /// Does something that may defer files, each with a sweep of its own, and if any was asked for, sweeps once afterwards: each sweep
    /// lists the directory.
    pub fn in_one_sweep(&self, defer: impl FnOnce()) {
        let sweeping = self.sweeping.try_lock();
        defer();
        drop(sweeping);
        self.sweep_if_asked();
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
        let Leases { held, untried, unremoved } = Leases::look(self.directory.as_ref());
        let mut report =
            RemovalReport { untried_leases: untried, unremoved_files: unremoved, bytes: 0 };
        let mut gone: HashSet<String> = HashSet::new();
        for file in files {
            if held.iter().any(|held| held.needs(&file)) {
                continue;
            }
            let name = file.name;
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
    fn files_that_are_deferred_together_go_in_one_sweep() {
        let folder = tempfile::tempdir().unwrap();
        let directory: Arc<dyn Directory> = Arc::new(LocalDirectory::open(folder.path()).unwrap());
        let removals = DeferredRemovals::new(directory.clone());
        removals.in_one_sweep(|| {
            for name in ["a", "b"] {
                directory.create(name).unwrap().write_all(b"12345").unwrap();
                removals.defer(name.into(), 5, at(1));
                removals.sweep();
            }
            assert_eq!(directory.list().unwrap().len(), 2, "not yet");
        });
        assert!(directory.list().unwrap().is_empty());
    }

    #[test]
    fn a_sweep_that_another_thread_asks_for_meanwhile_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let directory: Arc<dyn Directory> = Arc::new(LocalDirectory::open(folder.path()).unwrap());
        let removals = DeferredRemovals::new(directory.clone());
        let reading = Lease::take(directory.clone(), at(0), 1).unwrap();
        directory.create("a").unwrap().write_all(b"12345").unwrap();
        removals.defer("a".into(), 5, at(1));
        removals.sweep();
        assert!(directory.list().unwrap().contains(&"a".to_string()), "it is read");
        // Nothing is deferred meanwhile, but a reader ends.
        removals.in_one_sweep(|| {
            drop(reading);
            std::thread::scope(|scope| drop(scope.spawn(|| removals.sweep())));
        });
        assert!(directory.list().unwrap().is_empty());
    }

    #[test]
    fn a_file_goes_once_no_lease_needs_it() {
        let folder = tempfile::tempdir().unwrap();
        let directory: Arc<dyn Directory> = Arc::new(LocalDirectory::open(folder.path()).unwrap());
        let removals = DeferredRemovals::new(directory.clone());
        let create = |name: &str| directory.create(name).unwrap().write_all(b"12345").unwrap();
        let defer = |name: &str, removed_at: ManifestVersion| {
            create(name);
            removals.defer(name.into(), 5, removed_at);
            removals.sweep();
        };
        let exists = |name: &str| directory.list().unwrap().contains(&name.to_string());
        defer("a", at(1));
        assert!(!exists("a"), "no lease needs it");

        let opening = Lease::take(directory.clone(), ManifestVersion::EVERYTHING, 1).unwrap();
        let reading = Lease::take(directory.clone(), at(3), 2).unwrap();
        defer("b", at(2));
        defer("c", at(4));
        create("log");
        removals.defer_log("log".into(), 5, at(4), Lsn(7));
        removals.sweep();
        assert_eq!(removals.report().bytes, 15);
        drop(opening);
        removals.sweep();
        assert!(!exists("b") && exists("c"), "version 3 has c, but not b");
        assert!(!exists("log"), "it holds the segments alone");
        drop(reading);
        removals.sweep();
        assert!(!exists("c"));
        assert_eq!(directory.list().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_lease_on_a_moment_holds_its_manifest_and_the_log_up_to_its_commit() {
        let folder = tempfile::tempdir().unwrap();
        let directory: Arc<dyn Directory> = Arc::new(LocalDirectory::open(folder.path()).unwrap());
        let removals = DeferredRemovals::new(directory.clone());
        let held = |edit, lsn| is_held(directory.as_ref(), at(edit), Lsn(lsn)).unwrap();
        let wide = Lease::take(directory.clone(), ManifestVersion::EVERYTHING, 1).unwrap();
        let segments = Lease::take(directory.clone(), at(5), 2).unwrap();
        assert!(!held(5, 0), "one opens, one holds no log");
        drop(wide);
        let moment = Lease::take_moment(directory.clone(), at(5), Lsn(20), 3).unwrap();
        assert!(held(5, 20) && held(5, 19) && held(6, 20));
        assert!(!held(5, 21) && !held(4, 20));
        let defer = |name: &str, edit, first| {
            directory.create(name).unwrap();
            removals.defer_log(name.into(), 0, at(edit), Lsn(first));
        };
        defer("flushed", 5, 1);
        defer("needed", 6, 11);
        defer("last", 9, 20);
        defer("later", 9, 21);
        directory.create("manifest").unwrap();
        removals.defer("manifest".into(), 0, ManifestVersion::before_file(2));
        let files = || {
            removals.sweep();
            let mut names = directory.list().unwrap();
            names.retain(|name| !name.starts_with("lease-"));
            names.sort();
            names
        };
        assert_eq!(files(), ["last", "manifest", "needed"]);
        drop(moment);
        assert_eq!(files(), ["manifest"], "as the segments of an earlier version are held");
        drop(segments);
        assert_eq!(files(), Vec::<String>::new());
        // A dead reader's.
        directory
            .create("lease-00000001-000000000005-0000000000000abc-00000000000000000020")
            .unwrap();
        assert!(!held(5, 20));
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
            let mut held = Leases::look_at(directory.as_ref(), list).held;
            assert!(held.len() <= 1);
            held.pop().map(|held| held.version)
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
        assert_eq!(Leases::look(&directory).held, []);
        assert!(directory.list().unwrap().is_empty());
    }
}

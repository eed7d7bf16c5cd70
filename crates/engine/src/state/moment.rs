//! Moments: which state of a database a reader shows, as a value that other processes can open.

use std::fmt;

use drillcore_format::ids::Lsn;
use drillcore_storage::files::lease::ManifestVersion;

use crate::error::{Error, ErrorKind, Result};

/// Bits of a version's number that count the edits of one manifest file.
const EDIT_BITS: u32 = 32;

/// A state of a database: a version of its manifest and a commit, which is the newest one that a reader shows.
///
/// A reader gives its own with [`Database::moment`](crate::Database::moment), and another one opens there with
/// [`At::Moment`]. As long as some reader is open at a moment, another process can open one there, whatever the writer flushes,
/// merges, drops or expires meanwhile, and sees the same rows. A moment is only a value: it keeps no file.
///
/// ```
/// use drillcore::{At, Database, Moment, Options, ReadOptions};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("flights.drill");
/// let db = Database::open(&path, Options::default())?;
/// let first = Database::open_read_only(&path, ReadOptions::default())?;
/// let moment = first.moment()?;
/// db.flush()?;
/// let at = At::Moment(Moment::new(moment.version(), moment.lsn()));
/// let second = Database::open_read_only(&path, ReadOptions { at, ..ReadOptions::default() })?;
/// assert_eq!(second.snapshot()?.lsn(), first.snapshot()?.lsn());
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Moment {
    version: u64,
    lsn: Lsn,
    clock: Option<u64>,
    snapshot: Option<String>,
    database: Option<u128>,
}

/// Which state of a database a reader shows.
///
/// ```
/// use drillcore::{At, Database, ErrorKind, Options, ReadOptions};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("flights.drill");
/// let db = Database::open(&path, Options::default())?;
/// db.named_snapshot("training")?;
/// let at = At::Snapshot("training".into());
/// let reader = Database::open_read_only(&path, ReadOptions { at, ..ReadOptions::default() })?;
/// assert_eq!(reader.refresh().unwrap_err().kind(), ErrorKind::Unsupported); // it stays there
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum At {
    /// The newest complete commit, and later ones after a refresh.
    #[default]
    Newest,
    /// That one and no other.
    Moment(Moment),
    /// The named snapshot of that name.
    Snapshot(String),
}

impl Moment {
    /// The moment of a version and a commit.
    pub fn new(version: u64, lsn: Lsn) -> Moment {
        Moment { version, lsn, clock: None, snapshot: None, database: None }
    }

    /// The same at a time of day, in seconds since 1970: rows that had expired then are not shown. Without one, the time of the
    /// opening counts.
    #[must_use]
    pub fn at_clock(self, clock: u64) -> Moment {
        Moment { clock: Some(clock), ..self }
    }

    /// A named snapshot as it was at that version.
    #[must_use]
    pub fn of_snapshot(self, name: impl Into<String>) -> Moment {
        Moment { snapshot: Some(name.into()), ..self }
    }

    /// The same of the database with that identity: another one in the same directory does not have it.
    #[must_use]
    pub fn of_database(self, identity: u128) -> Moment {
        Moment { database: Some(identity), ..self }
    }

    /// The version of the manifest.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The newest commit that is shown.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// The time of day by which rows have expired, where rows of some table do.
    pub fn clock(&self) -> Option<u64> {
        self.clock
    }

    /// The named snapshot that it is of, if it is of one.
    pub fn snapshot(&self) -> Option<&str> {
        self.snapshot.as_deref()
    }

    /// The random number that its database got when it was first opened for writing.
    pub fn database(&self) -> Option<u128> {
        self.database
    }

    pub(crate) fn of(version: ManifestVersion, lsn: Lsn) -> Result<Moment> {
        let ManifestVersion { file, edit } = version;
        // Either takes billions: of edits since an opening, or of openings.
        if file >> (63 - EDIT_BITS) != 0 || edit >> EDIT_BITS != 0 {
            let message = format!(
                "version {edit} of manifest {file} is too large to be stored in a moment; open the database for writing \
                 again, which starts a new manifest"
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(Moment::new(file << EDIT_BITS | edit, lsn))
    }

    pub(crate) fn manifest(&self) -> ManifestVersion {
        ManifestVersion {
            file: self.version >> EDIT_BITS,
            edit: self.version & ((1 << EDIT_BITS) - 1),
        }
    }

    /// The error of a moment that cannot be opened any more.
    pub(crate) fn gone(&self, why: impl fmt::Display) -> Error {
        let message = format!(
            "{self} no longer exists: {why}. Take a new moment and keep its reader open until others have opened it, \
             or use a named snapshot"
        );
        Error::new(ErrorKind::MomentGone, message)
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the moment of version {} and commit {}", self.version, self.lsn)
    }
}

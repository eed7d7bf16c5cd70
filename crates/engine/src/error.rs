//! What callers see when something goes wrong.

use std::any::Any;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use drillcore_format::error::FormatError;
use drillcore_storage::error::{Lack, StorageError};
use strsim::levenshtein;

/// What a caller can do about an error.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use drillcore::ErrorKind;
///
/// let db = flights.database();
/// let kind = db.table("fligths").err().unwrap().kind();
/// match kind {
///     ErrorKind::NotFound => println!("there are {:?}", db.tables()?),
///     ErrorKind::Locked | ErrorKind::StorageFull => println!("later, perhaps"),
///     _ => println!("give up"),
/// }
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A database, table, column or set option of that name does not exist: fix the name.
    NotFound,
    /// A table or column of that name exists.
    AlreadyExists,
    /// An argument is invalid. Nothing was changed.
    InvalidArgument,
    /// A sum, or what SQL computes, does not fit its type: ask for a wider one.
    OutOfRange,
    /// A query's operators would hold more memory than they may: give them more, or ask for less at once.
    OutOfMemory,
    /// Fewer rows than asked for: ask for fewer, or with `at_most`.
    TooFewRows,
    /// The database was closed: open it again.
    Closed,
    /// The writer has not written as far as a reader asked for: wait, and refresh again.
    Behind,
    /// A moment that no reader holds any more: take a new one.
    MomentGone,
    /// Another process writes to this database: wait, or ask that process.
    Locked,
    /// Written by a later version: upgrade.
    Unsupported,
    /// Damaged bytes: restore from a copy. Nothing damaged is ever returned as an answer.
    Corrupt,
    /// Writes are refused: an earlier write failed (fix the cause, then reopen), or the database was opened for
    /// reading only.
    ReadOnly,
    /// The disk has too little room, and nothing was changed: free some and try again.
    StorageFull,
    /// The operating system refused.
    Io,
    /// The caller's [`Interrupt`](crate::Interrupt) said stop.
    Interrupted,
    /// A bug in Drillcore or in a library that it uses: please report it. Nothing stored is damaged, and the
    /// database can be used as before.
    Internal,
}

/// An error with its kind and a message that names what was being done, on what, and what was found.
///
/// [`source`](std::error::Error::source) gives the error that led to it, if one did: of the operating system
/// ([`io::Error`]), of Arrow, or of bytes that do not decode. The message is complete without it.
///
/// ```
/// use std::error::Error;
/// use std::io;
///
/// use drillcore::{Database, Options};
///
/// let options = Options { create: false, ..Options::default() };
/// let error = Database::open("/no/such/directory", options).err().unwrap();
/// println!("{error}");
/// let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
/// assert_eq!(source.unwrap().kind(), io::ErrorKind::NotFound);
/// ```
#[derive(Debug, Clone)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
    /// What the system had too little of, if that is why an operation on a file failed.
    lack: Option<Lack>,
    /// What background work reads could not be read, so nothing that others need is in doubt.
    is_of_input: bool,
    /// The file that could not be read or written.
    file: Option<Arc<str>>,
}

/// Runs one call of a face. A panic in it, which is a bug, becomes an error of kind `Internal`, so that it
/// neither ends the caller's process nor crosses into another language.
///
/// What the engine shares between calls stays usable after a panic: locks are taken over, and nothing is half
/// done under one.
pub fn without_panic<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|payload| Err(Error::panicked(&*payload)))
}

/// A result with Drillcore's error.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// fn rows(table: &drillcore::Table) -> drillcore::Result<u64> {
///     table.snapshot()?.rows()
/// }
/// assert_eq!(rows(&flights)?, 100);
/// # drillcore::Result::Ok(())
/// ```
pub type Result<T> = std::result::Result<T, Error>;

/// What to do about damage, behind what was found.
const RESTORE: &str = "; restore the database from an undamaged backup";

/// Valid names that an error lists.
const LISTED_MAX: usize = 20;

impl Error {
    /// An error for a caller, as a [`Predicate`](crate::Predicate) may have one.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error {
            kind,
            message: message.into(),
            source: None,
            lack: None,
            is_of_input: false,
            file: None,
        }
    }

    /// The same, with the error that led to it.
    #[must_use]
    pub fn with_source(self, source: impl std::error::Error + Send + Sync + 'static) -> Error {
        Error { source: Some(Arc::new(source)), ..self }
    }

    /// Damaged bytes were found, and what to do about it.
    pub(crate) fn damaged(found: impl fmt::Display) -> Error {
        Error::new(ErrorKind::Corrupt, format!("{found}{RESTORE}"))
    }

    /// The message without the advice of [`Error::damaged`], for a list of what was found.
    pub(crate) fn found(&self) -> &str {
        self.message.strip_suffix(RESTORE).unwrap_or(&self.message)
    }

    /// The operating system refused something: `what` was to be done.
    pub fn io(what: impl fmt::Display, error: io::Error) -> Error {
        Error::new(ErrorKind::Io, format!("{what}: {error}")).with_source(error)
    }

    /// Something was not done, and nothing was changed, for want of room or of descriptors.
    pub(crate) fn lacking(lack: Lack, message: impl fmt::Display) -> Error {
        let (kind, advice) = match lack {
            Lack::Room => (ErrorKind::StorageFull, "free disk space and try again"),
            Lack::Descriptors => (
                ErrorKind::Io,
                "close files, or raise the limit of open files (ulimit -n), and try again",
            ),
        };
        let message = format!("{message}; {advice}");
        Error { lack: Some(lack), ..Error::new(kind, message) }
    }

    /// The error of a call that changed nothing, if that is for want of something; any other one is an error.
    pub(crate) fn if_lacking(self) -> Result<Error> {
        match self.lack {
            None => Err(self),
            Some(_) if self.kind == ErrorKind::StorageFull => Ok(self),
            Some(lack) => {
                let lacking = Error::lacking(lack, &self);
                Ok(Error { source: self.source, ..lacking })
            }
        }
    }

    /// The same error, of reading what background work is to rewrite, or has just written.
    pub(crate) fn of_input(self) -> Error {
        let is_of_input =
            matches!(self.kind, ErrorKind::Io | ErrorKind::Corrupt | ErrorKind::Unsupported);
        Error { is_of_input, ..self }
    }

    /// The error of background work that changed nothing and is tried again later, if it is one of that kind: something was
    /// lacking, or its input could not be read. Any other one is an error.
    pub(crate) fn if_postponed(self) -> Result<Error> {
        match self.lack.is_none() && self.is_of_input {
            true => Ok(self),
            false => self.if_lacking(),
        }
    }

    /// Whether [`Error::of_input`] made it.
    pub(crate) fn is_of_input(&self) -> bool {
        self.is_of_input
    }

    /// The file that could not be read or written, if it was one.
    pub(crate) fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// The same, saying first what was to be done, unless it names the path that is meant.
    pub(crate) fn during(self, what: impl fmt::Display, path: &Path) -> Error {
        let says_all =
            matches!(self.kind, ErrorKind::Interrupted | ErrorKind::Internal | ErrorKind::Closed);
        match says_all || self.message.contains(&path.display().to_string()) {
            true => self,
            false => Error { message: format!("{what}: {}", self.message), ..self },
        }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::InvalidArgument, message)
    }

    /// A table is gone; `what` is "the table", or says which.
    pub(crate) fn dropped(what: &str) -> Error {
        let message = format!("{what} was dropped; create it again, or use another table");
        Error::new(ErrorKind::NotFound, message)
    }

    /// Sets are asked for of a table without.
    pub(crate) fn no_set_column() -> Error {
        Error::invalid("the table has no set column; name one when you create a table")
    }

    /// Rows of an upsert table lack columns; `what` are these rows. See
    /// [`AppendOptions::fill_nulls`](crate::AppendOptions::fill_nulls).
    pub fn lacks_columns(what: &str, names: &[&str]) -> Error {
        let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
        let (columns, they, them) =
            if names.len() == 1 { ("column", "it", "it") } else { ("columns", "they", "them") };
        Error::invalid(format!(
            "{what} lacks {columns} {}; an upsert replaces the whole row, so {they} would become null. Add {them}, \
             or allow missing columns to become null",
            names.join(", ")
        ))
    }

    /// A directory cannot be opened.
    pub(crate) fn cannot_open(path: &Path, error: io::Error) -> Error {
        let path = path.display();
        match error.kind() {
            io::ErrorKind::NotFound => {
                let message = format!("directory {path} does not exist; check the path");
                Error::new(ErrorKind::NotFound, message).with_source(error)
            }
            io::ErrorKind::NotADirectory => {
                let message = format!("cannot open {path}: not a directory; give a directory");
                Error::new(ErrorKind::Io, message).with_source(error)
            }
            _ => Error::io(format_args!("cannot open {path}"), error),
        }
    }

    /// "unknown WHAT NAME", with the nearest of the valid names or, if none is near, all of them or the first, in the order
    /// given.
    pub fn unknown<'a>(what: &str, name: &str, valid: impl IntoIterator<Item = &'a str>) -> Error {
        let valid: Vec<&str> = valid.into_iter().collect();
        let hint = match nearest(name, &valid) {
            Some(near) => format!("; did you mean {near:?}?"),
            None if valid.is_empty() => "; there are none".to_string(),
            None => match valid.len().checked_sub(LISTED_MAX) {
                None | Some(0) => format!("; there are: {}", valid.join(", ")),
                Some(more) => {
                    let first = valid[..LISTED_MAX].join(", ");
                    format!("; there are: {first}, ... and {more} more")
                }
            },
        };
        Error::new(ErrorKind::NotFound, format!("unknown {what} {name:?}{hint}"))
    }

    /// The error of a thread or a call that panicked with `payload`.
    pub fn panicked(payload: &(dyn Any + Send)) -> Error {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let found = text.unwrap_or("no message");
        let message = format!(
            "internal error: {found}. Nothing stored is damaged, and the database can be used as before; \
             please report this, with the call that led to it"
        );
        Error::new(ErrorKind::Internal, message)
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}

impl From<StorageError> for Error {
    fn from(error: StorageError) -> Error {
        let kind = match &error {
            StorageError::Io { .. }
            | StorageError::FolderSync { .. }
            | StorageError::LeaseDenied { .. } => ErrorKind::Io,
            StorageError::Damaged { source: FormatError::Version { .. }, .. } => {
                ErrorKind::Unsupported
            }
            StorageError::Damaged { .. } | StorageError::Inconsistent { .. } => ErrorKind::Corrupt,
            StorageError::Locked | StorageError::LockedHere => ErrorKind::Locked,
            StorageError::LogFailed { .. } => ErrorKind::ReadOnly,
            StorageError::NoRoom { .. } => return Error::lacking(Lack::Room, error),
        };
        let file = match &error {
            StorageError::Io { file, .. }
            | StorageError::Damaged { file, .. }
            | StorageError::Inconsistent { file, .. } => Some(Arc::from(file.as_str())),
            _ => None,
        };
        let ours = match kind {
            ErrorKind::Corrupt => Error::damaged(&error),
            kind => Error::new(kind, error.to_string()),
        };
        let ours = Error { lack: error.lack(), file, ..ours };
        // Ours says all that a storage error does, so it takes the place of that in the chain.
        match error {
            StorageError::Io { source, .. }
            | StorageError::FolderSync { source, .. }
            | StorageError::LeaseDenied { source } => ours.with_source(source),
            StorageError::Damaged { source, .. } => ours.with_source(source),
            _ => ours,
        }
    }
}

/// Damage outside files: bytes that passed their checksum but do not decode.
impl From<FormatError> for Error {
    fn from(error: FormatError) -> Error {
        Error::damaged(&error).with_source(error)
    }
}

/// The valid name with the fewest edits to `name`, ignoring case, if that is few enough to be a slip: a third of its
/// characters, or two in a short name, but never all of them.
fn nearest<'a>(name: &str, valid: &[&'a str]) -> Option<&'a str> {
    let name = name.to_lowercase();
    let edits = |valid: &str| levenshtein(&name, &valid.to_lowercase());
    let (distance, near) = valid.iter().map(|candidate| (edits(candidate), *candidate)).min()?;
    let chars = name.chars().count();
    (distance < chars && distance <= chars.max(6) / 3).then_some(near)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_answered_with_the_nearest_name() {
        let error = Error::unknown("column", "carier", ["carrier", "flight", "origin"]);
        assert_eq!(error.to_string(), r#"unknown column "carier"; did you mean "carrier"?"#);
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn the_error_of_the_operating_system_is_the_source_and_clones_keep_it() {
        let refused = || io::Error::from_raw_os_error(13);
        let storage =
            StorageError::Io { action: "read", file: "wal-1.log".to_string(), source: refused() };
        for error in [Error::from(storage), Error::io("cannot list x", refused())] {
            assert_eq!(error.kind(), ErrorKind::Io);
            let copy = error.clone();
            let source = std::error::Error::source(&copy).expect("there is one");
            let source = source.downcast_ref::<io::Error>().expect("it is the system's");
            assert_eq!(source.raw_os_error(), Some(13));
            assert!(copy.to_string().contains(&source.to_string()), "{copy}");
        }
        let full = StorageError::Io {
            action: "write",
            file: "x".to_string(),
            source: io::ErrorKind::StorageFull.into(),
        };
        let put_off = Error::from(full).if_lacking().expect("nothing was changed");
        assert_eq!(put_off.kind(), ErrorKind::StorageFull);
        assert!(std::error::Error::source(&put_off).is_some());
        assert!(std::error::Error::source(&Error::invalid("n is 0")).is_none());
    }

    #[test]
    fn damage_comes_with_advice_but_for_lists_of_what_was_found() {
        let damaged = |source| StorageError::Damaged { file: "x".to_string(), offset: 7, source };
        let error = Error::from(damaged(FormatError::malformed("block", "it has no rows")));
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert_eq!(error.found(), "x, at byte 7: block is malformed: it has no rows");
        assert_eq!(error.to_string(), format!("{}{RESTORE}", error.found()));
        let later = FormatError::Version { what: "block", found: 9, supported: 6 };
        let error = Error::from(damaged(later));
        assert_eq!((error.kind(), error.found()), (ErrorKind::Unsupported, &*error.to_string()));
    }

    #[test]
    fn a_name_that_shares_no_character_is_no_slip() {
        let near = |name, valid| nearest(name, &[valid]);
        for (name, valid) in [("UA", "ts"), ("x", "u"), ("", "ts"), ("\u{fc}", "u")] {
            assert_eq!(near(name, valid), None, "{name}");
        }
        for (name, valid) in [("TS", "ts"), ("X", "x"), ("tt", "t"), ("dst", "dist")] {
            assert_eq!(near(name, valid), Some(valid), "{name}");
        }
    }

    #[test]
    fn a_name_like_none_is_answered_with_all_or_the_first() {
        let error = Error::unknown("table", "zzz", ["flights", "hourly"]);
        assert_eq!(error.to_string(), r#"unknown table "zzz"; there are: flights, hourly"#);
        assert!(Error::unknown("table", "x", []).to_string().ends_with("there are none"));
        let many: Vec<String> = (0..1000).map(|table| format!("t{table}")).collect();
        let error = Error::unknown("table", "zzz", many.iter().map(String::as_str)).to_string();
        assert!(error.ends_with("t18, t19, ... and 980 more"), "{error}");
    }
}

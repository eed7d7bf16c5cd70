//! Engine errors as Python exceptions.
//!
//! The classes live in `drillcore.errors`, where they can inherit from `drillcore.Error` and from a
//! builtin at once; this module picks the class by the error's kind.

use std::fmt::Display;

use arrow_schema::ArrowError;
use drillcore::{Error, ErrorKind};
use drillcore_sql::{Advice, advised};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

/// The exception for `error`, of the class that belongs to its kind.
pub fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    let message = advised(error, in_python);
    match class_name(error.kind()) {
        Some(class) => raise(py, class, &message),
        None => PyKeyboardInterrupt::new_err(message),
    }
}

/// What to do about a refused query, where Python's call is another one than that of Rust.
fn in_python(advice: Advice) -> Option<&'static str> {
    match advice {
        Advice::Delete => Some("use delete, or sql of the database that writes the table"),
        _ => None,
    }
}

/// Arrow data from the caller that cannot be read. An exception raised by the caller's own stream
/// comes back as it was.
pub fn from_arrow(py: Python<'_>, error: ArrowError) -> PyErr {
    if let ArrowError::ExternalError(inner) = error {
        return match inner.downcast::<PyErr>() {
            Ok(raised) => *raised,
            Err(inner) => unreadable(py, &inner),
        };
    }
    unreadable(py, &error)
}

/// Arrow data from the caller that cannot be read, and why.
pub fn unreadable(py: Python<'_>, why: &dyn Display) -> PyErr {
    invalid(py, &format!("the data cannot be read: {why}"))
}

/// An argument the Python layer should have refused, or that only the border can judge.
pub fn invalid(py: Python<'_>, message: &str) -> PyErr {
    raise(py, "InvalidArgumentError", message)
}

/// A call that a database opened for reading does not take.
pub fn read_only(py: Python<'_>, what: &str) -> PyErr {
    let message = format!(
        "{what}: the database was opened with read_only=True; open it without, or write in the process \
         that has it open for writing"
    );
    raise(py, "ReadOnlyError", &message)
}

/// A call that asks for what this object does not do.
pub fn unsupported(py: Python<'_>, message: &str) -> PyErr {
    raise(py, "UnsupportedError", message)
}

fn class_name(kind: ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::NotFound => "NotFoundError",
        ErrorKind::AlreadyExists => "AlreadyExistsError",
        ErrorKind::InvalidArgument => "InvalidArgumentError",
        ErrorKind::OutOfRange => "OutOfRangeError",
        ErrorKind::OutOfMemory => "OutOfMemoryError",
        ErrorKind::TooFewRows => "TooFewRowsError",
        ErrorKind::Closed => "ClosedError",
        ErrorKind::Behind => "BehindError",
        ErrorKind::MomentGone => "MomentGoneError",
        ErrorKind::Locked => "LockedError",
        ErrorKind::Unsupported => "UnsupportedError",
        ErrorKind::Corrupt => "CorruptError",
        ErrorKind::ReadOnly => "ReadOnlyError",
        ErrorKind::StorageFull => "StorageFullError",
        ErrorKind::Io => "StorageError",
        ErrorKind::Internal => "InternalError",
        ErrorKind::Interrupted => return None,
        _ => "Error",
    })
}

fn raise(py: Python<'_>, class: &str, message: &str) -> PyErr {
    let made = py
        .import("drillcore.errors")
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call1((message,)));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

//! What to do about a query that was refused, where each face of Drillcore names its own calls or options.

use std::fmt;

use drillcore::{Error, ErrorKind};

/// What to do about a refused query. As text, it names the methods and options of the Rust API.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/doc/flights.rs"));
/// use drillcore_sql::{Advice, QueryOptions, advised, query};
///
/// let snapshot = flights.database().snapshot()?;
/// let error = query(&snapshot, "drop table flights", &QueryOptions::default()).err().unwrap();
/// assert!(error.to_string().ends_with("use drop_table to remove a table"));
/// let message = advised(&error, |advice| match advice {
///     Advice::DropTable => Some("choose Drop in the menu of the table"),
///     _ => None,
/// });
/// assert_eq!(message, "queries are read-only, so DROP is not supported; choose Drop in the menu of the table");
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// Append rows.
    Append,
    /// Append rows that replace those with equal keys.
    Replace,
    /// Append the rows of a query.
    AppendQuery,
    /// Change rows.
    Update,
    /// Delete rows.
    Delete,
    /// Delete all rows.
    Truncate,
    /// Create a table.
    CreateTable,
    /// Create a table and load a file into it.
    LoadFile,
    /// Drop a table.
    DropTable,
    /// Change the columns of a table.
    AlterTable,
    /// Write the rows of a query to a file.
    WriteFile,
    /// Pass options with each query.
    PassOptions,
    /// Give the query more memory, or ask for less.
    MoreMemory,
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Advice::Append => "use append to add rows",
            Advice::Replace => "use append to add or replace rows of an upsert table",
            Advice::AppendQuery => "use append to add the rows of a query to a table",
            Advice::Update => "use update to change rows of an upsert table",
            Advice::Delete => "use delete_selected to delete rows",
            Advice::Truncate => "use truncate to delete all rows, or drop_table to remove a table",
            Advice::CreateTable => "use create_table",
            Advice::LoadFile => "use create_table, then load the file into the table",
            Advice::DropTable => "use drop_table to remove a table",
            Advice::AlterTable => "use add_column, rename_column, drop_column or widen",
            Advice::WriteFile => "write the rows of a query to a file instead",
            Advice::PassOptions => "pass threads and memory_bytes with each query",
            Advice::MoreMemory => "raise memory_bytes, or select fewer rows, groups or columns",
        })
    }
}

/// The message of an error. The advice in it, if there is one, is in the caller's words, or as it was where they are `None`.
pub fn advised(error: &Error, words: impl Fn(Advice) -> Option<&'static str>) -> String {
    let refusal = std::error::Error::source(error).and_then(|source| source.downcast_ref());
    match refusal {
        Some(Refusal { found, advice }) => match words(*advice) {
            Some(words) => format!("{found}; {words}"),
            None => error.to_string(),
        },
        None => error.to_string(),
    }
}

/// Why a query was refused, and what to do instead.
#[derive(Debug)]
struct Refusal {
    found: String,
    advice: Advice,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.found, self.advice)
    }
}

impl std::error::Error for Refusal {}

/// An error whose advice [`advised`] finds.
pub fn with_advice(kind: ErrorKind, found: String, advice: Advice) -> Error {
    let refusal = Refusal { found, advice };
    Error::new(kind, refusal.to_string()).with_source(refusal)
}

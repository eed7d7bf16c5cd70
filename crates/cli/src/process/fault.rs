//! Errors, and the exit codes that scripts can rely on.

use std::fmt::{self, Display};
use std::io::{self, Write};

use drillcore::ErrorKind;
use drillcore_sql::{Advice, advised};

/// The answer is no: nothing found, or something damaged.
pub const NO: u8 = 1;
/// The command line or an argument is invalid.
const WRONG_CALL: u8 = 2;
/// The database or a file cannot be used.
const UNUSABLE: u8 = 3;
/// A bug of the command or the engine.
const INTERNAL: u8 = 4;
/// Stopped by Ctrl-C, as shells count it.
const INTERRUPTED: u8 = 130;

/// What is printed, and the exit code.
#[derive(Debug)]
pub struct Fault {
    message: String,
    pub exit_code: u8,
}

/// Prints a line to standard error, where it can be written: what the call comes to does not depend on that.
pub fn report(what: impl Display) {
    let _ = writeln!(io::stderr(), "{what}");
}

impl Fault {
    /// The arguments do not make sense.
    pub fn wrong_call(message: impl Into<String>) -> Fault {
        Fault { message: message.into(), exit_code: WRONG_CALL }
    }

    /// A file cannot be read or written.
    pub fn unusable(message: impl Into<String>) -> Fault {
        Fault { message: message.into(), exit_code: UNUSABLE }
    }

    /// Ctrl-C.
    pub fn interrupted() -> Fault {
        Fault { message: "interrupted".to_string(), exit_code: INTERRUPTED }
    }

    /// An answer that should have come out otherwise.
    pub fn wrong_answer(message: impl Into<String>) -> Fault {
        Fault { message: message.into(), exit_code: NO }
    }

    /// Adds where it happened.
    pub fn at(self, place: &str) -> Fault {
        if self.exit_code == INTERRUPTED {
            return self;
        }
        Fault { message: format!("{place}: {}", self.message), ..self }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<drillcore::Error> for Fault {
    fn from(error: drillcore::Error) -> Fault {
        let exit_code = match error.kind() {
            ErrorKind::NotFound
            | ErrorKind::AlreadyExists
            | ErrorKind::InvalidArgument
            | ErrorKind::OutOfMemory
            | ErrorKind::OutOfRange
            | ErrorKind::TooFewRows => WRONG_CALL,
            ErrorKind::Internal => INTERNAL,
            ErrorKind::Interrupted => return Fault::interrupted(),
            _ => UNUSABLE,
        };
        Fault { message: advised(&error, in_shell), exit_code }
    }
}

/// What to do about a refused query, with commands and their options.
fn in_shell(advice: Advice) -> Option<&'static str> {
    Some(match advice {
        Advice::Append => "use `drillcore ingest` to add rows",
        Advice::Replace | Advice::Update => {
            "use `drillcore ingest` to add or replace rows of an upsert table"
        }
        Advice::AppendQuery => {
            "write the rows of the query to a file with --output, then use `drillcore ingest`"
        }
        Advice::Delete => "use `drillcore delete DATABASE TABLE --where CONDITION`",
        Advice::Truncate => {
            "use `drillcore delete --all` to delete all rows, or `drillcore drop-table` to remove a table"
        }
        Advice::CreateTable => "use `drillcore ingest`, which creates the table from a file",
        Advice::LoadFile => "use `drillcore ingest`, or read_csv or read_parquet in a query",
        Advice::DropTable => "use `drillcore drop-table` to remove a table",
        Advice::AlterTable => {
            "use `drillcore add-column`, `rename-column`, `drop-column` or `widen`"
        }
        Advice::WriteFile => "use `drillcore export`, or `drillcore sql` with --output",
        Advice::PassOptions => "give `drillcore sql` --threads and --memory-bytes",
        Advice::MoreMemory => "raise --memory-bytes, or select fewer rows, groups or columns",
        _ => return None,
    })
}

//! Which process this is: files are not written by one that was forked off it.

use std::io;

/// A process, to tell it from those forked off it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    id: u32,
}

impl Process {
    /// The process that calls.
    pub fn current() -> Process {
        Process { id: std::process::id() }
    }

    /// Refuses work in any process but this one.
    pub fn check(self) -> io::Result<()> {
        if self == Process::current() {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "process {} opened the database, and this process is a fork of it; open it again here, \
             or write to it there",
            self.id
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_than_the_one_that_opened_it_is_refused() {
        assert!(Process::current().check().is_ok());
        let other = Process { id: std::process::id() + 1 };
        assert!(other.check().unwrap_err().to_string().contains("fork"));
    }
}

//! Descriptors 0 to 2, which must not be files of a database.
//!
//! A new file gets the lowest free descriptor. In a process that was started with a standard stream closed
//! that is one of these three, and what the process prints would go into the file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd};

/// The last descriptor of a standard stream.
const STANDARD_ERROR: i32 = 2;

/// Opens `/dev/null` in the place of every standard stream that is closed. One file is opened and closed
/// where none is.
pub fn open_closed_streams() -> io::Result<()> {
    loop {
        let nothing = open_nothing()?;
        if nothing.as_raw_fd() > STANDARD_ERROR {
            return Ok(());
        }
        // It stays open as long as the process.
        let _ = nothing.into_raw_fd();
    }
}

fn open_nothing() -> io::Result<File> {
    let null = OpenOptions::new().read(true).write(true).open("/dev/null");
    // A sandbox may lack it. The root folder keeps the place as well: it can be neither read nor written.
    null.or_else(|_| File::open("/"))
}

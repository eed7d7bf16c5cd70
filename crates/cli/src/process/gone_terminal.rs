//! Ends a prompt whose terminal is gone.
//!
//! The system sends a signal then, but a process may have been started to ignore it (`nohup`), and the line editor would go
//! on reading from nothing, which takes a core.

use std::io::{self, IsTerminal};
use std::process;
use std::thread;
use std::time::Duration;

/// How often the terminal is looked for.
const LOOK: Duration = Duration::from_secs(1);
/// What a shell reports of a process that the signal has ended.
const HUNG_UP: i32 = 129;

/// Ends the process once its standard input is a terminal no more. A prompt only reads, so nothing is lost.
pub fn end_with_it() {
    thread::spawn(|| {
        while io::stdin().is_terminal() {
            thread::sleep(LOOK);
        }
        process::exit(HUNG_UP);
    });
}

//! Standard output whose reader may go before all is written, as `head` does.

use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Output with a note of it when its reader goes. Formats wrap this error in their own, each in its way, some as text only.
pub struct Noting<W> {
    out: W,
    is_closed: Arc<AtomicBool>,
}

impl<W> Noting<W> {
    /// Sets `is_closed` once the reader has gone.
    pub fn new(out: W, is_closed: Arc<AtomicBool>) -> Noting<W> {
        Noting { out, is_closed }
    }

    fn note<T>(&self, done: io::Result<T>) -> io::Result<T> {
        if done.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) {
            self.is_closed.store(true, Ordering::Relaxed);
        }
        done
    }
}

impl<W: Write> Write for Noting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.out.write(bytes);
        self.note(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.out.flush();
        self.note(done)
    }
}

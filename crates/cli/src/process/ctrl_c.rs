//! Ctrl-C: asks the call under way to stop, and ends a process that does not.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use drillcore::Interrupt;
use parking_lot::Mutex;

use crate::process::fault::{Fault, report};

/// How long a call may take to end by itself after Ctrl-C.
const GRACE: Duration = Duration::from_secs(1);

/// A file that is of no use unless its call ends by itself.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Has the file removed if Ctrl-C must end the process. There is one at a time.
pub fn remove_if_killed(file: &Path) {
    *UNFINISHED.lock() = Some(file.to_path_buf());
}

/// What Ctrl-C has asked for.
#[derive(Default)]
pub struct CtrlC {
    is_asked: AtomicBool,
    /// At a prompt: when it was asked for, and not answered yet.
    asked_at: Mutex<Option<Instant>>,
    /// Nothing is left to stop.
    is_over: AtomicBool,
    /// Stops the query only, not the process.
    is_at_prompt: AtomicBool,
    /// Another program that the terminal belongs to handles it.
    is_left: AtomicBool,
}

impl CtrlC {
    /// Handles the signal from now on, as far as the process can.
    pub fn watch() -> Arc<CtrlC> {
        let ctrl_c = Arc::new(CtrlC::default());
        let watching = ctrl_c.clone();
        // Without a handler Ctrl-C ends the process at once, which loses nothing either.
        let _ = ctrlc::set_handler(move || watching.ask());
        ctrl_c
    }

    /// Stops what is handed it once Ctrl-C is pressed.
    pub fn interrupt(self: &Arc<CtrlC>) -> Interrupt {
        let ctrl_c = self.clone();
        Interrupt::new(Arc::new(move || ctrl_c.is_asked.load(Ordering::Relaxed)))
    }

    /// From now on Ctrl-C stops a query, and the process only if it is pressed again and the query goes on.
    pub fn begin_prompt(&self) {
        self.is_at_prompt.store(true, Ordering::Relaxed);
    }

    /// Runs what handles Ctrl-C itself, as a pager does.
    pub fn leave_to<T>(&self, other: impl FnOnce() -> T) -> T {
        self.is_left.store(true, Ordering::Relaxed);
        let done = other();
        self.is_left.store(false, Ordering::Relaxed);
        done
    }

    /// What Ctrl-C asked for has been done, or there was nothing to stop.
    pub fn forget(&self) {
        *self.asked_at.lock() = None;
        self.is_asked.store(false, Ordering::Relaxed);
    }

    /// Nothing is left to stop.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    fn ask(&self) {
        if self.is_left.load(Ordering::Relaxed) {
            return;
        }
        self.is_asked.store(true, Ordering::Relaxed);
        if self.is_at_prompt.load(Ordering::Relaxed) {
            let asked_at = *self.asked_at.lock().get_or_insert_with(Instant::now);
            if asked_at.elapsed() < GRACE {
                return;
            }
        } else {
            thread::sleep(GRACE);
        }
        if !self.is_over.load(Ordering::Relaxed) {
            if let Some(file) = UNFINISHED.lock().take() {
                // It may have its name by now.
                let _ = fs::remove_file(file);
            }
            // Something waits for a disk. What was written stays, as if the process had been killed.
            let fault = Fault::interrupted();
            report(format_args!("drillcore: {fault}"));
            std::process::exit(fault.exit_code.into());
        }
    }
}

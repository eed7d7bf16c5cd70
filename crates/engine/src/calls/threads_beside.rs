//! Threads that do work beside calls, and end by themselves.
//!
//! They are joined. Letting go of a thread (detaching it) while it ends is not safe with glibc: sourceware bug 19951.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::{io, mem};

use drillcore_storage::background::be_in_background;
use drillcore_storage::files::process::Process;
use parking_lot::Mutex;

use crate::calls::aside::leave;
use crate::calls::interrupt::Interrupt;

/// Threads of one process, each with a flag that asks it to end.
#[derive(Debug)]
pub struct ThreadsBeside {
    threads: Mutex<Vec<Beside>>,
    /// The one whose threads they are.
    process: Process,
}

#[derive(Debug)]
struct Beside {
    thread: JoinHandle<()>,
    stopped: Arc<AtomicBool>,
}

impl Default for ThreadsBeside {
    fn default() -> ThreadsBeside {
        ThreadsBeside { threads: Mutex::default(), process: Process::current() }
    }
}

impl ThreadsBeside {
    /// Starts a thread, and joins those that have ended. Its work hears by the interrupt that it should end.
    ///
    /// # Errors
    /// Those of starting it. None is started in a fork of the process that began with this.
    pub fn start(
        &self,
        name: &str,
        work: impl FnOnce(&Interrupt) + Send + 'static,
    ) -> io::Result<()> {
        self.process.check()?;
        let stopped = Arc::new(AtomicBool::new(false));
        let asked = stopped.clone();
        let of_work = Interrupt::new(Arc::new(move || asked.load(Ordering::Relaxed)));
        let mut threads = self.threads.lock();
        for ended in threads.extract_if(.., |beside| beside.thread.is_finished()) {
            let _ = ended.thread.join();
        }
        let work = move || {
            be_in_background();
            work(&of_work);
        };
        let thread = Builder::new().name(name.to_string()).spawn(work)?;
        threads.push(Beside { thread, stopped });
        Ok(())
    }

    /// Has all threads end, and returns once they have.
    pub fn end(&self) {
        if self.process.check().is_err() {
            return;
        }
        let threads = mem::take(&mut *self.threads.lock());
        threads.iter().for_each(|beside| beside.stopped.store(true, Ordering::Relaxed));
        for Beside { thread, .. } in threads {
            let _ = thread.join();
        }
    }
}

impl Drop for ThreadsBeside {
    fn drop(&mut self) {
        let is_forked = self.process.check().is_err();
        for Beside { thread, .. } in mem::take(self.threads.get_mut()) {
            // This may be the thread, which holds what it works on.
            if is_forked { mem::forget(thread) } else { leave(thread) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread::sleep;
    use std::time::Duration;

    #[test]
    fn threads_hear_that_they_should_end_and_are_waited_for() {
        let threads = ThreadsBeside::default();
        let has_ended = Arc::new(AtomicBool::new(false));
        let ended = has_ended.clone();
        let work = move |interrupt: &Interrupt| {
            while interrupt.check().is_ok() {
                sleep(Duration::from_millis(1));
            }
            sleep(Duration::from_millis(30));
            ended.store(true, Ordering::Relaxed);
        };
        threads.start("drillcore-test", work).unwrap();
        threads.end();
        assert!(has_ended.load(Ordering::Relaxed), "it is still running");
    }

    #[test]
    fn a_thread_may_be_the_last_that_holds_them() {
        let threads = Arc::new(ThreadsBeside::default());
        let (go_on, waits) = channel::<()>();
        let (sender, done) = channel();
        let held = threads.clone();
        let work = move |_: &Interrupt| {
            waits.recv().unwrap();
            drop(held);
            sender.send(()).unwrap();
        };
        threads.start("drillcore-test", work).unwrap();
        drop(threads);
        go_on.send(()).unwrap();
        done.recv().unwrap();
    }
}

//! Calls that return at once when their caller wants out, whatever they are busy with.
//!
//! Loops ask the caller's [`Interrupt`] as they go. A call that also waits for a disk, which nothing cuts short,
//! runs on a thread of its own, and its caller only waits for that.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::{Builder, JoinHandle};

use parking_lot::Mutex;

use crate::calls::interrupt::Interrupt;
use crate::error::Result;

/// What a call does, given an interrupt of its own.
type Work<T> = Box<dyn FnOnce(&Interrupt) -> Result<T> + Send>;

/// Runs `work` such that the caller returns when its interrupt says stop. The work hears of that by the interrupt
/// that it is given, and ends in the background: at its next step, or when the disk is done with the last one.
///
/// An interrupt that never stops costs no thread.
///
/// # Errors
/// `Interrupted`, and those of `work`.
pub fn aside<T: Send + 'static>(
    interrupt: &Interrupt,
    work: impl FnOnce(&Interrupt) -> Result<T> + Send + 'static,
) -> Result<T> {
    interrupt.check()?;
    finish_aside(interrupt, work)
}

/// [`aside`] for work that must be begun in any case.
pub fn finish_aside<T: Send + 'static>(
    interrupt: &Interrupt,
    work: impl FnOnce(&Interrupt) -> Result<T> + Send + 'static,
) -> Result<T> {
    if !interrupt.may_stop() {
        return work(interrupt);
    }
    let stopped = Arc::new(AtomicBool::new(false));
    let asked = stopped.clone();
    let of_work = Interrupt::new(Arc::new(move || asked.load(Ordering::Relaxed)));
    let (sender, done) = channel();
    let (hand_over, handed_over) = channel::<Work<T>>();
    let run = move || {
        let work = handed_over.recv().expect("the caller hands it over at once");
        // The caller may have gone.
        let _ = sender.send(work(&of_work));
    };
    let Ok(thread) = Builder::new().name("drillcore-call".into()).spawn(run) else {
        // Where no thread can be had, the call is made all the same.
        return work(interrupt);
    };
    hand_over.send(Box::new(work)).expect("the thread waits for it");
    loop {
        match done.recv_timeout(Interrupt::POLL) {
            Ok(result) => {
                // It has no more to do but to end.
                let _ = thread.join();
                return result;
            }
            Err(RecvTimeoutError::Timeout) => {
                if let Err(interrupted) = interrupt.check() {
                    stopped.store(true, Ordering::Relaxed);
                    leave(thread);
                    return Err(interrupted);
                }
            }
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                Err(panic) => resume_unwind(panic),
                Ok(()) => unreachable!("a thread that ends well has sent its result"),
            },
        }
    }
}

/// Keeps a thread that is not waited for until it has ended, and joins those that have. Letting go of a thread
/// (detaching it) while it ends is not safe with glibc: sourceware bug 19951.
pub fn leave(thread: JoinHandle<()>) {
    static LEFT: Mutex<Vec<JoinHandle<()>>> = Mutex::new(Vec::new());
    let mut left = LEFT.lock();
    left.push(thread);
    for ended in left.extract_if(.., |thread| thread.is_finished()) {
        let _ = ended.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, ErrorKind};
    use std::sync::mpsc::Receiver;
    use std::thread::current;

    #[test]
    fn work_is_done_by_the_caller_unless_it_may_want_out() {
        let caller = current().id();
        let who = |interrupt: &Interrupt| aside(interrupt, |_| Ok(current().id())).unwrap();
        assert_eq!(who(&Interrupt::never()), caller);
        assert_ne!(who(&Interrupt::new(Arc::new(|| false))), caller);
    }

    /// A step that lasts until the test lets it go on; then the work sees that it is not wanted any more.
    #[test]
    fn a_caller_that_wants_out_returns_during_a_step_and_the_work_ends_behind_it() {
        let (go_on, stuck) = channel::<()>();
        let (begun, is_begun) = channel();
        let (ended, is_ended) = channel();
        let is_begun: Mutex<Receiver<()>> = Mutex::new(is_begun);
        // Stops as soon as the work is in its step.
        let stop = move || is_begun.lock().try_recv().is_ok();
        let error = aside(&Interrupt::new(Arc::new(stop)), move |interrupt| {
            begun.send(()).unwrap();
            stuck.recv().unwrap();
            let next_step = interrupt.check();
            ended.send(next_step.is_err()).unwrap();
            next_step
        });
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Interrupted);
        go_on.send(()).unwrap();
        assert!(is_ended.recv().unwrap(), "the interrupt of the work says stop");
    }

    #[test]
    fn errors_and_panics_of_the_work_are_the_callers() {
        let interrupt = Interrupt::new(Arc::new(|| false));
        let fails = aside(&interrupt, |_| Err::<(), _>(Error::new(ErrorKind::Io, "it burns")));
        assert_eq!(fails.unwrap_err().kind(), ErrorKind::Io);
        let panics = || aside(&interrupt, |_| -> Result<()> { panic!("broken on purpose") });
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"broken on purpose"));
    }
}

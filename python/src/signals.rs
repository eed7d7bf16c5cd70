//! Long calls: the interpreter is released while they run, and a signal stops them.
//!
//! The engine polls an [`Interrupt`] between blocks and while it waits. Ours attaches to the interpreter at most every
//! 50 ms and lets pending signal handlers run; what a handler raises stops the engine and is then
//! raised from the call. A panic of the engine becomes an `InternalError`.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use drillcore::{Error, Interrupt, without_panic};
use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::error;

const POLL_INTERVAL: Duration = Duration::from_millis(50);

thread_local! {
    /// Whether this thread gave up the interpreter itself, in [`Signals::run`]. A foreign thread that
    /// pulls a stream may be one for which another thread waits while holding the interpreter:
    /// attaching there could deadlock, so such a thread never polls.
    static DETACHED_HERE: Cell<bool> = const { Cell::new(false) };
}

/// Releases the interpreter for a call and carries a handler's exception out of it.
#[derive(Clone)]
pub struct Signals {
    state: Arc<State>,
}

struct State {
    stopped: AtomicBool,
    raised: Mutex<Option<PyErr>>,
    last_poll: Mutex<Instant>,
}

impl Signals {
    pub fn new() -> Signals {
        Signals {
            state: Arc::new(State {
                stopped: AtomicBool::new(false),
                raised: Mutex::new(None),
                last_poll: Mutex::new(Instant::now()),
            }),
        }
    }

    /// What the engine polls during calls made through [`Signals::run`].
    pub fn interrupt(&self) -> Interrupt {
        let state = Arc::clone(&self.state);
        Interrupt::new(Arc::new(move || state.poll()))
    }

    /// Runs `work` without the interpreter; an engine error becomes an exception.
    pub fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce() -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let result = py.detach(|| {
            let outer = DETACHED_HERE.replace(true);
            let result = without_panic(work);
            DETACHED_HERE.set(outer);
            result
        });
        if let Some(raised) = self.state.raised.lock().take() {
            return Err(raised);
        }
        result.map_err(|error| error::to_python(py, &error))
    }
}

impl State {
    fn poll(&self) -> bool {
        if self.stopped.load(Ordering::Relaxed) {
            return true;
        }
        if !DETACHED_HERE.get() || !self.is_due() {
            return false;
        }
        match Python::attach(|py| py.check_signals()) {
            Ok(()) => false,
            Err(raised) => {
                *self.raised.lock() = Some(raised);
                self.stopped.store(true, Ordering::Relaxed);
                true
            }
        }
    }

    fn is_due(&self) -> bool {
        let mut last = self.last_poll.lock();
        let due = last.elapsed() >= POLL_INTERVAL;
        if due {
            *last = Instant::now();
        }
        due
    }
}

/// [`Signals::run`] with signals of its own, for a call whose result is complete.
pub fn call<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(Interrupt) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let signals = Signals::new();
    signals.run(py, || work(signals.interrupt()))
}

/// For calls that never take long: nothing interrupts them.
pub fn run<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, Error> + Send) -> PyResult<T> {
    py.detach(|| without_panic(work)).map_err(|error| error::to_python(py, &error))
}

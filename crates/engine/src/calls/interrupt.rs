//! A caller's way to stop a long call.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};

/// Asked between blocks of work, and during waits, whether to go on. Always by the thread that makes the call, and
/// never while a lock is held that others might want.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use std::sync::Arc;
/// use std::time::{Duration, Instant};
///
/// use drillcore::{ErrorKind, Interrupt};
///
/// let end = Instant::now() + Duration::from_millis(1);
/// let interrupt = Interrupt::new(Arc::new(move || Instant::now() > end));
/// std::thread::sleep(Duration::from_millis(5));
/// let stopped = flights.snapshot()?.interrupted_by(interrupt).sets();
/// assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Interrupted);
/// # drillcore::Result::Ok(())
/// ```
#[derive(Clone, Default)]
pub struct Interrupt {
    stop: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl Interrupt {
    /// Never stops.
    pub fn never() -> Interrupt {
        Interrupt { stop: None }
    }

    /// Stops once `stop` returns true. It is called often, so it should be cheap.
    pub fn new(stop: Arc<dyn Fn() -> bool + Send + Sync>) -> Interrupt {
        Interrupt { stop: Some(stop) }
    }

    /// Lookups, each of which may read a page or two, between two questions.
    pub(crate) const LOOKUPS: usize = 64;

    /// How often a wait asks.
    pub(crate) const POLL: Duration = Duration::from_millis(20);

    /// Whether it could ever stop.
    pub(crate) fn may_stop(&self) -> bool {
        self.stop.is_some()
    }

    /// An error of kind [`ErrorKind::Interrupted`] if the caller says stop.
    pub fn check(&self) -> Result<()> {
        if self.stop.as_ref().is_some_and(|stop| stop()) {
            return Err(Error::new(ErrorKind::Interrupted, "interrupted by the caller"));
        }
        Ok(())
    }
}

/// An interrupt for work that has errors of its own: it asks whether to go on, and the answer is kept. Who stops
/// says so once, perhaps.
pub(crate) struct Asked<'a> {
    interrupt: &'a Interrupt,
    steps: Cell<u32>,
    answer: RefCell<Result<()>>,
}

impl<'a> Asked<'a> {
    /// The number of short steps, of microseconds each, between two questions.
    const STEPS: u32 = 16;

    pub(crate) fn new(interrupt: &'a Interrupt) -> Asked<'a> {
        Asked { interrupt, steps: Cell::new(0), answer: RefCell::new(Ok(())) }
    }

    /// Whether to go on with another step. Asks each time.
    pub(crate) fn go_on(&self) -> bool {
        let mut answer = self.answer.borrow_mut();
        if answer.is_ok() {
            *answer = self.interrupt.check();
        }
        answer.is_ok()
    }

    /// [`Asked::go_on`] for short steps.
    pub(crate) fn go_on_shortly(&self) -> bool {
        let step = self.steps.get();
        self.steps.set(step.wrapping_add(1));
        match step % Asked::STEPS {
            0 => self.go_on(),
            _ => self.answer.borrow().is_ok(),
        }
    }

    /// The error, if the work was stopped.
    pub(crate) fn answer(self) -> Result<()> {
        self.answer.into_inner()
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.stop.is_some() { "Interrupt" } else { "Interrupt::never" })
    }
}

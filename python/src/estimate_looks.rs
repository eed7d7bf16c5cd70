//! An estimate that is shown while it is refined.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use drillcore::{Error, EstimateRequest, Interrupt, TableSnapshot, without_panic};
use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::error;
use crate::estimate::Estimate;

/// How often pending signals are looked for while a look is waited for.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

type Look = Result<drillcore::Estimate, Error>;

/// Looks at an estimate, made by a thread that is one look ahead. Closing it ends the thread.
#[pyclass(module = "drillcore._native", frozen)]
pub struct EstimateLooks {
    looks: Mutex<Option<Receiver<Look>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    stop: Arc<AtomicBool>,
}

impl EstimateLooks {
    /// Starts to estimate.
    pub fn start(
        py: Python<'_>,
        table: TableSnapshot,
        request: EstimateRequest,
    ) -> PyResult<EstimateLooks> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let interrupt = Interrupt::new(Arc::new(move || stopped.load(Ordering::Relaxed)));
        let table = table.interrupted_by(interrupt);
        let (sender, looks) = sync_channel(0);
        let work = move || {
            let mut show = |look: &drillcore::Estimate| match sender.send(Ok(look.clone())) {
                Ok(()) => ControlFlow::Continue(()),
                // The iterator is gone.
                Err(_) => ControlFlow::Break(()),
            };
            let last = without_panic(|| table.estimate_watched(&request, &mut show));
            // The receiver may be gone.
            let _ = sender.send(last);
        };
        let thread = Builder::new().name("drillcore-estimate".into()).spawn(work);
        let thread = thread.map_err(|error| {
            error::invalid(py, &format!("cannot start a thread for the estimate: {error}"))
        })?;
        Ok(EstimateLooks { looks: Mutex::new(Some(looks)), thread: Mutex::new(Some(thread)), stop })
    }
}

#[pymethods]
impl EstimateLooks {
    /// The next look, the last of which is the result; none after that.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Estimate>> {
        loop {
            let look = py.detach(|| {
                let looks = self.looks.lock();
                looks.as_ref().map(|looks| looks.recv_timeout(POLL_INTERVAL))
            });
            match look {
                None | Some(Err(RecvTimeoutError::Disconnected)) => return Ok(None),
                Some(Ok(Ok(estimate))) => return Ok(Some(Estimate::new(estimate))),
                Some(Ok(Err(failed))) => return Err(error::to_python(py, &failed)),
                Some(Err(RecvTimeoutError::Timeout)) => py.check_signals()?,
            }
        }
    }

    /// Ends the estimate and waits for its thread.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.end());
    }
}

impl EstimateLooks {
    fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
        *self.looks.lock() = None;
        if let Some(thread) = self.thread.lock().take() {
            // What it panicked with was sent as an error, if anybody looked.
            let _ = thread.join();
        }
    }
}

impl Drop for EstimateLooks {
    fn drop(&mut self) {
        self.end();
    }
}

//! A caller's way to stop a long call.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};

/// Asked between blocks of work whether to go on.
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

    /// An error of kind [`ErrorKind::Interrupted`] if the caller says stop.
    pub fn check(&self) -> Result<()> {
        if self.stop.as_ref().is_some_and(|stop| stop()) {
            return Err(Error::new(ErrorKind::Interrupted, "interrupted by the caller"));
        }
        Ok(())
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.stop.is_some() { "Interrupt" } else { "Interrupt::never" })
    }
}

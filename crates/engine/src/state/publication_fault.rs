//! Deliberate faults of publication, each of which the test of publication must find: a check that nothing
//! fails proves nothing. Only there under the feature `shuttle`.

use std::cell::Cell;

/// A wrong order of two steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublicationFault {
    /// A commit becomes visible before it is logged.
    ShowBeforeLogging,
    /// A snapshot reads the visible LSN before it takes the lock under which it copies the lists.
    LookBeforeLocking,
}

thread_local! {
    // Shuttle runs all threads of a schedule on the thread of its test.
    static FAULT: Cell<Option<PublicationFault>> = const { Cell::new(None) };
}

impl PublicationFault {
    /// Builds the fault into every database that this thread explores from now on.
    pub fn inject(self) {
        FAULT.set(Some(self));
    }

    pub(crate) fn is_injected(self) -> bool {
        FAULT.get() == Some(self)
    }
}

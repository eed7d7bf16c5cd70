//! Points at which a long job yields to shorter ones.
//!
//! A merge of a whole table takes minutes, and few threads merge. If it kept its thread to the end, what is flushed
//! meanwhile would pile up as levels. So between two batches a long job looks for shorter ones and has them done, in its own
//! thread: shortest job first, without more threads. A job that was let in does the same, and takes no more than half of
//! what waits for it, so they nest only as deep as sizes can be halved.

use std::time::{Duration, Instant};

use drillcore_storage::sync::Mutex;

/// How long a job goes on before it looks again.
const TURN: Duration = Duration::from_millis(20);

/// Does what is more urgent than a job over some bytes.
pub type Urgent<'a> = &'a (dyn Fn(u64) + Sync);

/// The points at which a job of several threads looks for more urgent ones.
pub struct YieldPoints<'a> {
    urgent: Urgent<'a>,
    bytes: u64,
    next_look: Mutex<Instant>,
}

impl<'a> YieldPoints<'a> {
    /// For a job over `bytes`.
    pub fn new(urgent: Urgent<'a>, bytes: u64) -> YieldPoints<'a> {
        YieldPoints { urgent, bytes, next_look: Mutex::new(Instant::now() + TURN) }
    }

    /// To be called between batches, by any of its threads. While one does something else the others wait here, too: that
    /// has all the threads there are.
    pub fn between_batches(&self) {
        let mut next_look = self.next_look.lock();
        if Instant::now() >= *next_look {
            (self.urgent)(self.bytes);
            *next_look = Instant::now() + TURN;
        }
    }
}

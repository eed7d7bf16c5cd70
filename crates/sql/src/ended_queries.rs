//! The threads of queries that are over.
//!
//! A query's threads end on their own, after a batch at most, and no caller waits for that. They must not be let go of
//! (detached) meanwhile, though: glibc's `pthread_detach` looks at a thread's control block after the thread, which
//! just ended, may have given its memory back (sourceware bug 19951), and the memory of stacks as large as ours is
//! unmapped at once. So one thread, which does nothing else, joins them.

use std::mem;
use std::process;
use std::sync::mpsc::{Sender, channel};
use std::thread::Builder;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Runtime;

/// How long threads may take to end before they are let go of all the same: they wait for a disk that is stuck, and
/// others want to be joined.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where runtimes are sent to be shut down, and the process whose thread takes them: a fork has none.
static JOINING: Mutex<Option<(u32, Sender<Runtime>)>> = Mutex::new(None);

/// Ends a runtime once its threads have done what they are busy with. Does not wait for that.
pub fn end(runtime: Runtime) {
    let mut joining = JOINING.lock();
    let here = process::id();
    if joining.as_ref().is_none_or(|(process, _)| *process != here) {
        *joining = start().map(|sender| (here, sender));
    }
    match &*joining {
        Some((_, sender)) => {
            if let Err(unsent) = sender.send(runtime) {
                unsent.0.shutdown_background();
            }
        }
        // No thread can be had.
        None => runtime.shutdown_background(),
    }
}

fn start() -> Option<Sender<Runtime>> {
    let (sender, ended) = channel::<Runtime>();
    let join = move || ended.iter().for_each(|runtime| runtime.shutdown_timeout(PATIENCE));
    let thread = Builder::new().name("drillcore-ended".into()).spawn(join).ok()?;
    // It lives as long as the process, so nothing is to be joined, and it is not let go of either.
    mem::forget(thread);
    Some(sender)
}

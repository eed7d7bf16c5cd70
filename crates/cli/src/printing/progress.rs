//! Progress bars on standard error; there are none where that is no terminal.

use std::fmt::Write;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use drillcore::Progress;
use indicatif::{HumanCount, ProgressBar, ProgressState, ProgressStyle};

/// How often a bar looks how far a call is.
const TICK: Duration = Duration::from_millis(100);

/// A style in which `{rate}` is the whole number of rows per second.
pub fn style(template: &str) -> ProgressStyle {
    let rate = |state: &ProgressState, out: &mut dyn Write| {
        // The bar leaves out what cannot be written.
        let _ = write!(out, "{}/s", HumanCount(state.per_sec() as u64));
    };
    ProgressStyle::with_template(template).expect("the template is sound").with_key("rate", rate)
}

/// Shows on a bar how far a call is until it ends.
pub fn shown<T>(bar: &ProgressBar, call: impl FnOnce(&Progress) -> T) -> T {
    let progress = &Progress::default();
    let show = || {
        if progress.total() > 0 {
            bar.set_length(progress.total());
            bar.set_position(progress.done());
        }
    };
    let called = thread::scope(|scope| {
        // Dropped when the call ends, also if it panics.
        let (_under_way, ended) = channel::<()>();
        scope.spawn(move || {
            while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                show();
            }
        });
        call(progress)
    });
    bar.finish_and_clear();
    called
}

//! Progress bars on standard error; there are none where that is no terminal.

use std::fmt::Write;

use indicatif::{HumanCount, ProgressState, ProgressStyle};

/// A style in which `{rate}` is the whole number of rows a second.
pub fn style(template: &str) -> ProgressStyle {
    let rate = |state: &ProgressState, out: &mut dyn Write| {
        // The bar leaves out what cannot be written.
        let _ = write!(out, "{}/s", HumanCount(state.per_sec() as u64));
    };
    ProgressStyle::with_template(template).expect("the template is sound").with_key("rate", rate)
}

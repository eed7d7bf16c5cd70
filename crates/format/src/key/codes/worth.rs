//! When keys get codes.

use std::sync::atomic::{AtomicBool, Ordering};

/// Fewer rows have keys without codes: lists of values are not worth their own room then.
const ROWS_MIN: usize = 1024;

/// Whether texts have codes also where that is not worth it.
static ALWAYS: AtomicBool = AtomicBool::new(false);

/// Gives texts codes also where that is not worth it, from now on in the whole process, for tests: few rows take the paths of many then.
#[doc(hidden)]
pub fn give_codes_always(always: bool) {
    ALWAYS.store(always, Ordering::Relaxed);
}

/// When the texts of some rows get codes; `None` if they are too few.
pub(crate) fn worth(rows: usize) -> Option<Worth> {
    match ALWAYS.load(Ordering::Relaxed) {
        true => Some(Worth::Always),
        false => (rows >= ROWS_MIN).then_some(Worth::IfSmaller),
    }
}

/// Bytes that codes must save of a row: finding out the code of a text takes longer than copying a short one.
const SAVED_BYTES_MIN: usize = 3;

/// When texts get codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Worth {
    /// If they save some bytes per row, and a quarter of them all, which a sample tells first.
    IfSmaller,
    /// If they save half: what they take already has to be written anew.
    IfHalf,
    Always,
}

impl Worth {
    /// Whether codes of some rows, whose values take `plain` bytes, are worth it, where they and the list of values take `coded` bytes.
    pub fn allows(self, rows: usize, coded: usize, plain: usize) -> bool {
        let saves = |part: usize| coded + (plain / part).max(SAVED_BYTES_MIN * rows) <= plain;
        match self {
            Worth::IfSmaller => saves(4),
            Worth::IfHalf => saves(2),
            Worth::Always => true,
        }
    }
}

//! Doing work on other threads: side by side, or aside, so that a caller can leave.

pub mod aside;
pub mod side_by_side;

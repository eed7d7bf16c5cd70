//! How a call is interrupted, left behind, spread over threads, and how far it is.

pub mod interrupt;
pub mod progress;
pub mod aside;
pub mod threads_beside;
pub mod side_by_side;

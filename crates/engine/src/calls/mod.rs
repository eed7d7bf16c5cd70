//! How a call is interrupted, left behind, and spread over threads.

pub mod interrupt;
pub mod aside;
pub mod side_by_side;

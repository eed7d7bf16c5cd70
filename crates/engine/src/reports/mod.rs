//! What a database reports about itself.

pub mod stats;
pub mod verify;

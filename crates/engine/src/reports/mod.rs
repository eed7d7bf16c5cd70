//! What a database tells about itself.

pub mod stats;
pub mod verify;

//! How engines take turns, and what the benches of one call share.

pub mod trial;
pub mod setup;

//! What a process is to a database: its only writer, or one of its readers.

pub mod opening;
pub mod deleting;
pub mod updating;
pub mod time_to_live;
pub mod load_fault;
pub mod held_moment;
pub mod known_segments;
pub mod loader;
pub mod reader;
pub mod writer;

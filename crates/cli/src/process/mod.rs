//! The process: its signals, its exit code, and the database that it opens.

pub mod fault;
pub mod ctrl_c;
pub mod idle;
pub mod gone_terminal;
pub mod opening;

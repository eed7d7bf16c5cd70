//! From a path to an open database.

pub mod database_path;
pub mod recovery;

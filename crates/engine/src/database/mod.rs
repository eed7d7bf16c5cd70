//! The public handles of a database and its tables, with a file for each subject of their calls; alike for both roles.

pub mod handles;
pub mod altering;
pub mod reshaping;
pub mod backups;
pub mod appending;
pub mod background_writer;

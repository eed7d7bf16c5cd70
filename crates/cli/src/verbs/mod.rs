//! The verbs of the command, each a module.

pub mod selection;
pub mod read;
pub mod describe;
pub mod export_target;
pub mod export;
pub mod shape_check;
pub mod resume;
pub mod in_turn;
pub mod held_bytes;
pub mod ingest;
pub mod delete;
pub mod add_column;
pub mod reshaping;
pub mod drop_table;
pub mod set_index;
pub mod set_ttl;
pub mod named_snapshot;
pub mod backup;
pub mod upkeep;
pub mod shell_files;
pub mod bench;
pub mod demo;

//! Drillcore and its tables of pairs and records; other engines load the same records.

pub mod engine;
pub mod pairs;
pub mod records;
pub mod record_table;

//! Tables in a plan: their scans and samples.

pub mod subqueries;
pub mod scan_exec;
pub mod key_order;
pub mod table;
pub mod table_sample;

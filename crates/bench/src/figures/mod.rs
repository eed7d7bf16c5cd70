//! What is measured, on which machine, and how it is printed.

pub mod metric;
pub mod report;
pub mod machine;

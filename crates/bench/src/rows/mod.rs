//! The rows that engines are given, and how their answers are compared.

pub mod event;
pub mod workload;
pub mod arriving;

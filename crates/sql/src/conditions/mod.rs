//! Conditions and aggregates of one table, for reads without a query.

pub mod narrow;
pub mod zones;
pub mod predicate;
pub mod aggregates;

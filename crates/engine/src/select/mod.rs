//! From a question to ordinals of pieces, and from ordinals to rows.

pub mod unindexed_sets;
pub mod key_range;
pub mod predicate;
pub mod selection;
pub mod expiry;
pub mod read_memory;
pub mod held_pieces;
pub mod resolved_selections;
pub mod fetch;
pub mod partitioning;
pub mod pruning;

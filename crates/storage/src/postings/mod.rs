//! Which rows of a segment each set has.

pub mod ordinal_list;
pub mod set_lists;
pub mod set_postings;

//! Which rows of a segment each set has.

mod ordinal_list;
pub(crate) mod set_lists;
pub mod set_postings;

//! Column streams: a column by itself, in the order of ordinals, beside the row blocks that hold it too.
//!
//! Who wants a row reads a block; who wants a column of many rows reads its stream and nothing else. Published as
//! *fractured mirrors*: Ramamurthy, DeWitt and Su, *A Case for Fractured Mirrors*, VLDB 2002. The rows of a segment are
//! cut into groups ([`group`]); a [`page`] holds one column of one group, and the
//! [`directory`] says where each lies. Drawn in `docs/format.md`, section "Column streams".

pub mod group;
pub mod frames;
pub mod words;
pub mod page;
pub mod directory;
#[cfg(test)]
mod tests;

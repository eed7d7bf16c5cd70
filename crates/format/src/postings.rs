//! Set postings: the rows of each set, as ascending ordinals.
//!
//! A list is cut into *chunks* of [`CHUNK`] ordinals, each bit-packed over its first. That of a short list lies in the set's
//! directory entry; all others lie in postings pages of [`PAGE_BYTES`](crate::page::PAGE_BYTES); none straddles two. A list of several chunks also has *skip
//! tables*, each with the first ordinal and the place of [`TABLE_CHUNKS`] chunks, in the same pages;
//! the set's directory entry names its skip tables. So the i-th member and the rank of an ordinal
//! cost one skip table and one chunk, at most two page reads, however long the list is. Where the table has weight columns,
//! a list has *weight tables* of each, too.
//!
//! The *set directory* holds an entry per set, sorted by value, in pages of its own; a resident
//! [`SetDirectorySummary`] holds the first value of each. [`PostingsWriter`] streams all of it in one
//! pass. Reading pages is left to the caller: every search says which page it needs next, or takes a
//! function that reads one. Drawn in `docs/format.md`, section "Set postings".

mod item_place;
mod chunk;
mod skip_table;
mod weights;
mod list_place;
mod directory;
mod writer;
mod search;
#[cfg(test)]
mod tests;

pub use chunk::{CHUNK, PostingChunk};
pub use directory::{DirectoryPage, SetDirectorySummary, SetEntry};
pub use item_place::ItemPlace;
pub use list_place::{InlineList, ListPlace};
pub use search::ChunkPlace;
pub use skip_table::{ListRoot, SkipTable, TABLE_CHUNKS, TABLE_MEMBERS};
pub use weights::{GroupWeight, SetWeights, WEIGHT_GROUP, WeightGroup, WeightTables};
pub use writer::PostingsWriter;

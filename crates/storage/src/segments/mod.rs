//! Sorted, immutable files of rows: written, read and checked.

mod fit;
mod windows;
mod resident_index;
pub mod segment;
mod dictionaries;
mod index;
mod weights;
mod extents;
pub mod sequence;
mod ranks;
pub mod newest_row;
pub mod lookup;
pub mod fetch;
pub mod columns;
mod streams_writer;
mod extents_writer;
pub mod segment_writer;
pub mod postings_writer;
pub mod segment_check;

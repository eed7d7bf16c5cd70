//! Sorted, immutable files of rows: written, read and checked.

mod fit;
pub mod segment;
pub mod segment_writer;
pub mod postings_writer;
pub mod segment_check;

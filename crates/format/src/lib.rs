//! Bytes: how Drillcore writes keys, rows, pages, log frames and manifest edits.
//!
//! Pure functions from values to bytes and back; no files, no threads. `docs/format.md` draws every
//! byte. Modules, from the ground up:

#![forbid(unsafe_code)]

pub mod ids;
pub mod error;
pub mod cursor;
mod packed;
pub mod pick;
mod dense_picks;
pub mod byte_bounds;
pub mod overlap;
pub mod symbol_table;
pub mod dictionary;
pub mod indexed_sets;
pub mod ordinal_intervals;
pub mod weight;
pub mod type_name;
pub mod widening;
pub mod texts_by_code;
pub mod schema;
pub mod value_bytes;
pub mod key;
pub mod narrowing;
pub mod text_codes;
mod gathered;
pub mod rows;
pub mod page;
pub mod extents;
pub mod block;
pub mod index_page;
pub mod statistics_page;
pub mod streams;
pub mod postings;
pub mod file_tail;
pub mod segment_footer;
pub mod postings_footer;
pub mod frame;
pub mod frame_reader;
pub mod logged_commit;
pub mod manifest_edit;

//! A block: some consecutive rows, all columns, in bytes that stand for themselves.
//!
//! One form serves the data blocks of a segment and the bodies of log frames, so a block may have
//! any size. Every encoding's length is known before it is written ([`BlockSizer`]), and every
//! value can be read without touching the rows before it, so fetching a row costs O(columns). The
//! bytes are drawn in `docs/format.md`, section "Row blocks".
//!
//! Reading checks everything it relies on: damaged bytes are an error, never a panic, and a block
//! never claims more rows than it has bytes. Checksums, and which layout a block was written with,
//! are left to the caller that stores it; a block with fewer values than the layout has was written before
//! columns were added, and reads as null there.

mod encoding_byte;
mod byte_list;
mod tail_bits;
mod encoder;
mod section;
mod numbered_keys;
mod key_encoder;
mod sizer;
mod picked;
mod view;
mod weights;
mod builder;
#[cfg(test)]
mod tests;

pub use builder::RowsBuilder;
pub use picked::Picked;
pub use sizer::{Apart, BlockSizer, Effort, encode, encoded_len, rows_of_block};
pub use view::{BlockView, value_count};

//! Overflow extents: long values, which lie in pages of their own, apart from the block of their row.
//!
//! A block has a reference in place of such a value: file offset and bytes of its page. So blocks stay short, and who does not
//! ask for the column reads none of it.

use crate::error::{FormatError, Result};
use crate::page::{HEADER_BYTES, PAGE_BYTES};

/// A value of more bytes lies apart: a quarter of a block.
pub const INLINE_BYTES_MAX: usize = (PAGE_BYTES - HEADER_BYTES) / 4;

/// Where a page lies: file offset and bytes.
pub type ExtentPlace = (u64, u32);

/// A place as it stands in a block.
pub type Reference = [u8; REFERENCE_BYTES];
/// Eight bytes of the file offset, then four of the page's length, both little-endian.
pub const REFERENCE_BYTES: usize = 12;

/// For each value of some rows' table, the references of the rows whose value lies apart; none if it is `None`.
pub type Extents = [Option<Vec<Option<Reference>>>];

/// The reference to a place.
pub fn reference((offset, bytes): ExtentPlace) -> Reference {
    let mut reference = [0; REFERENCE_BYTES];
    reference[..8].copy_from_slice(&offset.to_le_bytes());
    reference[8..].copy_from_slice(&bytes.to_le_bytes());
    reference
}

/// The place that a block names.
pub fn place_of(reference: &[u8]) -> Result<ExtentPlace> {
    let (offset, bytes) = reference.split_at_checked(8).unwrap_or((&[], &[]));
    match (offset.try_into(), bytes.try_into()) {
        (Ok(offset), Ok(bytes)) => Ok((u64::from_le_bytes(offset), u32::from_le_bytes(bytes))),
        _ => {
            let detail = format!("a reference of {} bytes", reference.len());
            Err(FormatError::malformed("block", detail))
        }
    }
}

//! The byte that says how a column's section is encoded. Its upper two bits say where nulls are, the lower six how values
//! are stored.

use crate::error::FormatError;

pub(super) const NULL_MASK: u8 = 0xc0;
/// All rows are null, and the section is empty.
pub(super) const ALL_NULL: u8 = 0x40;
/// The section begins with one bit per row, set where the row has a value.
pub(super) const NULL_BITMAP: u8 = 0x80;
/// One value for all rows.
pub(super) const CONSTANT: u8 = 0;
/// Numbers, each in its own width.
pub(super) const PLAIN: u8 = 1;
/// Booleans, one bit each.
pub(super) const BITS: u8 = 1;
/// Integers: the least in its own width, the bits of a distance, then each one's distance from the least.
pub(super) const PACKED: u8 = 2;
/// Numbers that are integers once they are multiplied by a power of ten: that power, then these as in [`PACKED`].
pub(super) const SCALED: u8 = 3;
/// Texts: the bits of a code, then one code per row into the segment's dictionary of the column. It is [`DICTIONARY`] without a list.
pub(super) const SHARED: u8 = DICTIONARY;
/// Strings are compressed by the segment's symbols of the column; plus what they are encoded by.
pub(super) const COMPRESSED: u8 = 16;
/// Some strings lie apart: one bit per row, set where that is so, then the others as without this bit, with a reference in
/// place of each that does.
pub(super) const EXTENTS: u8 = 32;
/// One code per row into a list of different strings; plus that list's form. A string column without
/// this bit is a list itself.
pub(super) const DICTIONARY: u8 = 8;

/// Keys as numbers; plus the form of the list of their heads. Keys without this bit are a list themselves.
pub(super) const NUMBERED: u8 = 8;

/// The error of bytes that no block has.
#[cold]
pub(super) fn malformed(detail: impl Into<String>) -> FormatError {
    FormatError::malformed("block", detail)
}

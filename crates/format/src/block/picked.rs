//! Which rows of a block are taken.

use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, NullBufferBuilder};

use crate::block::section::Presence;
use crate::error::Result;

/// Some rows of a block.
#[derive(Debug, Clone, Copy)]
pub enum Picked<'r> {
    /// From the one up to the other.
    Range(usize, usize),
    /// In any order.
    Rows(&'r [u32]),
}

impl Picked<'_> {
    pub(super) fn len(self) -> usize {
        match self {
            Picked::Range(from, to) => to - from,
            Picked::Rows(rows) => rows.len(),
        }
    }

    pub(super) fn append_presence(self, presence: Presence<'_>, nulls: &mut NullBufferBuilder) {
        match (presence, self) {
            (Presence::All, _) => nulls.append_n_non_nulls(self.len()),
            (Presence::None, _) => nulls.append_n_nulls(self.len()),
            (Presence::Bitmap(bits), Picked::Range(from, to)) => {
                let bytes = Buffer::from(&bits[from / 8..to.div_ceil(8)]);
                let bits = BooleanBuffer::new(bytes, from % 8, to - from);
                nulls.append_buffer(&NullBuffer::new(bits));
            }
            (Presence::Bitmap(_), Picked::Rows(rows)) => {
                rows.iter().for_each(|row| nulls.append(presence.holds(*row as usize)));
            }
        }
    }

    /// Calls `each` with every row number.
    pub(super) fn for_each(self, mut each: impl FnMut(usize)) {
        match self {
            Picked::Range(from, to) => (from..to).for_each(each),
            Picked::Rows(rows) => rows.iter().for_each(|row| each(*row as usize)),
        }
    }

    /// [`Picked::for_each`] that stops at the first error.
    pub(super) fn try_for_each(self, mut each: impl FnMut(usize) -> Result<()>) -> Result<()> {
        match self {
            Picked::Range(from, to) => (from..to).try_for_each(each),
            Picked::Rows(rows) => rows.iter().try_for_each(|row| each(*row as usize)),
        }
    }
}

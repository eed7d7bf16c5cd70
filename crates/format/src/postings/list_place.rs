//! Where the members of a set are listed.

use crate::cursor::Cursor;
use crate::error::Result;
use crate::postings::chunk::{PostingChunk, put_ordinals};
use crate::postings::item_place::ItemPlace;
use crate::postings::skip_table::ListRoot;
use crate::postings::weights::WEIGHT_GROUP;

/// A set of at most as many members lies in the directory with all that is said of it, so that one read finds it: the members of one
/// group of weights. With the widest ordinals that is an eighth of a page.
pub(super) const INLINE_MEMBERS: u64 = WEIGHT_GROUP;

/// Where the members of a set are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListPlace {
    /// The set is the whole segment; nothing is stored.
    All,
    /// The list is a short one in the directory itself.
    Inline(InlineList),
    /// The list is one chunk.
    Chunk(ItemPlace),
    /// The list has several chunks.
    Skips(ListRoot),
}

/// The ordinals of a short list, as they lie in a set's directory entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InlineList {
    len: usize,
    bytes: Box<[u8]>,
}

impl InlineList {
    pub(super) fn of(ordinals: &[u32]) -> InlineList {
        let mut bytes = Vec::new();
        put_ordinals(ordinals, &mut bytes);
        InlineList { len: ordinals.len(), bytes: bytes.into() }
    }

    /// Reads a list of `len` ordinals. Fails as [`PostingChunk::parse`].
    pub(super) fn decode(len: usize, cursor: &mut Cursor<'_>) -> Result<InlineList> {
        let list = cursor.clone();
        PostingChunk::of_len(len, cursor)?;
        Ok(InlineList { len, bytes: list.up_to(cursor).rest().into() })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its only chunk. Costs O(1).
    pub fn chunk(&self) -> Result<PostingChunk<'_>> {
        PostingChunk::of_len(self.len, &mut Cursor::new(&self.bytes, "posting chunk"))
    }
}

//! The end of a postings file: what lists which sets of which segment.
//!
//! A segment that was written while some sets were not indexed gets their postings later, in a file of
//! their own: postings pages, set directory and its summary as in a segment, then a footer page and a
//! [tail](crate::file_tail). Drawn in `docs/format.md`, section "Postings files".

use crate::cursor::{Cursor, put_varint};
use crate::error::Result;
use crate::ids::SegmentId;
use crate::indexed_sets::IndexedSets;
use crate::page::{put_page_place, read_page_place};

/// What a postings file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostingsFooter {
    /// The file's own number, given out among those of segments.
    pub file: SegmentId,
    /// The segment whose ordinals are listed.
    pub segment: SegmentId,
    /// The rows of that segment.
    pub rows: u64,
    /// The column whose values name the sets, by its stored number.
    pub set_column: u32,
    /// The sets that are listed: one that has no entry has no rows.
    pub indexed: IndexedSets,
    /// File offset and bytes of the page that holds the set directory summary.
    pub set_directory: (u64, u32),
}

impl PostingsFooter {
    /// Appends the payload of the footer page.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.file.0);
        put_varint(out, self.segment.0);
        put_varint(out, self.rows);
        put_varint(out, u64::from(self.set_column));
        self.indexed.encode(out);
        put_page_place(out, self.set_directory);
    }

    /// Reads what [`PostingsFooter::encode`] wrote.
    pub fn decode(payload: &[u8]) -> Result<PostingsFooter> {
        let mut cursor = Cursor::new(payload, "postings footer");
        let footer = PostingsFooter {
            file: cursor.segment_id()?,
            segment: cursor.segment_id()?,
            rows: cursor.varint()?,
            set_column: cursor.varint_u32()?,
            indexed: IndexedSets::decode(&mut cursor)?,
            set_directory: read_page_place(&mut cursor)?,
        };
        cursor.finish()?;
        Ok(footer)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::indexed_sets::arbitrary::indexed_sets;

    proptest! {
        #[test]
        fn a_footer_reads_back_and_every_prefix_of_it_is_an_error(
            ids in (0..SegmentId::MAX.0, 0..SegmentId::MAX.0),
            numbers: (u64, u32),
            indexed in indexed_sets(),
            set_directory: (u64, u32),
        ) {
            let ((file, segment), (rows, set_column)) = (ids, numbers);
            let (file, segment) = (SegmentId(file), SegmentId(segment));
            let footer =
                PostingsFooter { file, segment, rows, set_column, indexed, set_directory };
            let mut bytes = Vec::new();
            footer.encode(&mut bytes);
            prop_assert_eq!(PostingsFooter::decode(&bytes), Ok(footer));
            for len in 0..bytes.len() {
                prop_assert!(PostingsFooter::decode(&bytes[..len]).is_err());
            }
        }
    }
}

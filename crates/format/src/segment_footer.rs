//! The end of a segment file: a footer page that describes the segment, before the
//! [tail](crate::file_tail).
//!
//! Opening a segment reads the tail, the footer, and the summaries the footer points at. Drawn in
//! `docs/format.md`, section "Segment footer and tail".

use crate::cursor::{Cursor, put_bytes, put_varint};
use crate::error::Result;
use crate::ids::{LsnRange, SegmentId, TableId};
use crate::indexed_sets::IndexedSets;
use crate::page::{put_page_place, read_page_place};
use crate::streams::directory::StreamColumn;

const FOOTER: &str = "segment footer";

/// What a segment holds and where its resident parts lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentFooter {
    /// The segment's own number.
    pub segment: SegmentId,
    /// The table that the rows belong to.
    pub table: TableId,
    /// At least 1, and fewer than 2^32.
    pub rows: u64,
    /// The commits whose rows the segment holds.
    pub lsns: LsnRange,
    /// How many columns the table's schema had when the segment was written.
    pub columns: u32,
    /// The encoded key of the first row.
    pub first_key: Vec<u8>,
    /// The encoded key of the last row.
    pub last_key: Vec<u8>,
    /// File offset and bytes of the page that holds the index summary.
    pub summary: (u64, u32),
    /// File offset and bytes of the stream directory page, if any column is a stream.
    pub streams: Option<(u64, u32)>,
    /// The columns that have a dictionary of texts or symbols, rising, with file offset and bytes of its page.
    pub dictionaries: Vec<(StreamColumn, (u64, u32))>,
    /// File offset and bytes of the page that holds the set directory summary, if any set is indexed ...
    pub set_directory: Option<(u64, u32)>,
    /// ... and which are: one of them that has no entry has no rows.
    pub indexed: IndexedSets,
    /// The column whose values name the sets.
    pub set_column: Option<u32>,
    /// At least 1, as each block has rows, and each index page blocks.
    pub blocks: u64,
    /// At least 1, as there are blocks.
    pub index_pages: u64,
}

/// What the footer says of its set directory.
const NO_SETS: u8 = 0;
const ALL_SETS: u8 = 1;
const SOME_SETS: u8 = 2;

impl SegmentFooter {
    /// Appends the payload of the footer page.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.segment.0);
        put_varint(out, u64::from(self.table.0));
        put_varint(out, self.rows);
        put_varint(out, self.lsns.first.0);
        put_varint(out, self.lsns.last.0);
        put_varint(out, u64::from(self.columns));
        put_bytes(out, &self.first_key);
        put_bytes(out, &self.last_key);
        put_page_place(out, self.summary);
        // No page lies at the beginning of the file but the first block.
        put_page_place(out, self.streams.unwrap_or_default());
        put_varint(out, self.dictionaries.len() as u64);
        for &(column, place) in &self.dictionaries {
            put_varint(out, column.number());
            put_page_place(out, place);
        }
        match self.set_directory {
            None => out.push(NO_SETS),
            Some(place) => {
                let is_all = self.indexed.is_all();
                out.push(if is_all { ALL_SETS } else { SOME_SETS });
                put_page_place(out, place);
                if !is_all {
                    self.indexed.encode(out);
                }
            }
        }
        put_varint(out, self.set_column.map_or(0, |column| u64::from(column) + 1));
        put_varint(out, self.blocks);
        put_varint(out, self.index_pages);
    }

    /// Reads what [`SegmentFooter::encode`] wrote. Fails on numbers that no segment has; whether they are those of
    /// the file is left to who reads it.
    pub fn decode(payload: &[u8]) -> Result<SegmentFooter> {
        let mut cursor = Cursor::new(payload, FOOTER);
        let (segment, table) = (cursor.segment_id()?, cursor.table_id()?);
        let rows = cursor.varint()?;
        let lsns = cursor.lsns()?;
        let columns = cursor.varint_u32()?;
        let (first_key, last_key) = (cursor.bytes()?.to_vec(), cursor.bytes()?.to_vec());
        let summary = read_page_place(&mut cursor)?;
        let streams = match read_page_place(&mut cursor)? {
            (0, 0) => None,
            place => Some(place),
        };
        let mut dictionaries: Vec<(StreamColumn, (u64, u32))> = Vec::new();
        for _ in 0..cursor.varint()? {
            let number = cursor.varint()?;
            let column = StreamColumn::of(number);
            let is_next = dictionaries.last().is_none_or(|(last, _)| last.number() < number);
            match column.filter(|_| is_next) {
                Some(column) => dictionaries.push((column, read_page_place(&mut cursor)?)),
                None => return Err(cursor.error(format!("a dictionary of column {number}"))),
            }
        }
        let (set_directory, indexed) = match cursor.u8()? {
            NO_SETS => (None, IndexedSets::none()),
            ALL_SETS => (Some(read_page_place(&mut cursor)?), IndexedSets::all()),
            SOME_SETS => (Some(read_page_place(&mut cursor)?), IndexedSets::decode(&mut cursor)?),
            other => return Err(cursor.error(format!("set directory flag {other}"))),
        };
        let footer = SegmentFooter {
            segment,
            table,
            rows,
            lsns,
            columns,
            first_key,
            last_key,
            summary,
            streams,
            dictionaries,
            set_directory,
            indexed,
            set_column: match cursor.varint_u32()? {
                0 => None,
                column => Some(column - 1),
            },
            blocks: cursor.varint()?,
            index_pages: cursor.varint()?,
        };
        let fits = (1..=u64::from(u32::MAX)).contains(&footer.rows)
            && (1..=footer.rows).contains(&footer.blocks)
            && (1..=footer.blocks).contains(&footer.index_pages);
        if !fits {
            let SegmentFooter { rows, blocks, index_pages, .. } = footer;
            let detail = format!("{rows} rows in {blocks} blocks of {index_pages} index pages");
            return Err(cursor.error(detail));
        }
        if footer.first_key > footer.last_key {
            return Err(cursor.error("the first key is greater than the last"));
        }
        cursor.finish()?;
        Ok(footer)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ids::Lsn;
    use crate::indexed_sets::arbitrary::indexed_sets;

    fn any_footer() -> impl Strategy<Value = SegmentFooter> {
        let ids = (0..SegmentId::MAX.0, 0..TableId::MAX.0, 1..=u64::from(u32::MAX), any::<u32>());
        let lsns = (0..Lsn::MAX.0, 0..Lsn::MAX.0);
        let keys =
            (prop::collection::vec(any::<u8>(), 0..20), prop::collection::vec(any::<u8>(), 0..20));
        let streams = prop::option::of((1..u64::MAX, any::<u32>()));
        let places = (any::<(u64, u32)>(), any::<Option<(u64, u32)>>(), indexed_sets(), streams);
        let set_column = prop::option::of(0..u32::MAX);
        (ids, lsns, keys, places, set_column, any::<(u64, u64)>()).prop_map(
            |(
                (segment, table, rows, columns),
                (a, b),
                (k, l),
                (summary, set_directory, indexed, streams),
                set_column,
                counts,
            )| {
                SegmentFooter {
                    segment: SegmentId(segment),
                    table: TableId(table),
                    rows,
                    lsns: LsnRange { first: Lsn(a.min(b)), last: Lsn(a.max(b)) },
                    columns,
                    first_key: k.clone().min(l.clone()),
                    last_key: k.max(l),
                    summary,
                    streams,
                    dictionaries: streams
                        .map_or(Vec::new(), |place| vec![(StreamColumn::Value(3), place)]),
                    set_directory,
                    indexed: match set_directory {
                        None => IndexedSets::none(),
                        Some(_) => indexed,
                    },
                    set_column,
                    blocks: 1 + counts.0 % rows,
                    index_pages: 1 + counts.1 % (1 + counts.0 % rows),
                }
            },
        )
    }

    proptest! {
        #[test]
        fn a_footer_reads_back_and_every_prefix_of_it_is_an_error(footer in any_footer()) {
            let mut bytes = Vec::new();
            footer.encode(&mut bytes);
            prop_assert_eq!(SegmentFooter::decode(&bytes), Ok(footer));
            for len in 0..bytes.len() {
                prop_assert!(SegmentFooter::decode(&bytes[..len]).is_err());
            }
        }

        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = SegmentFooter::decode(&bytes);
        }
    }
}

//! The end of a segment file: a footer page that describes the segment, then a tail of fixed size
//! that says where the footer lies.
//!
//! Opening a segment reads the tail, the footer, and the summaries the footer points at. Drawn in
//! `docs/format.md`, section "Segment footer and tail".

use crate::cursor::{Cursor, put_bytes, put_varint};
use crate::error::{FormatError, Result};
use crate::ids::{Lsn, LsnRange, SegmentId, TableId};

/// The bytes of the tail, the last of a segment file.
pub const TAIL_BYTES: usize = 32;

/// The version of segment files this build writes, and the latest it reads.
pub const SEGMENT_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"DRILLSEG";
const FOOTER: &str = "segment footer";
const TAIL: &str = "segment tail";

/// What a segment holds and where its resident parts lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentFooter {
    pub segment: SegmentId,
    pub table: TableId,
    pub rows: u64,
    /// The commits whose rows the segment holds.
    pub lsns: LsnRange,
    /// How many columns the table's schema had when the segment was written.
    pub columns: u32,
    pub first_key: Vec<u8>,
    pub last_key: Vec<u8>,
    /// File offset and bytes of the page that holds the index summary.
    pub summary: (u64, u32),
    /// File offset and bytes of the page that holds the set directory summary, if sets are indexed.
    pub set_directory: Option<(u64, u32)>,
    /// The column whose values name the sets.
    pub set_column: Option<u32>,
    pub blocks: u64,
    pub index_pages: u64,
}

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
        out.push(u8::from(self.set_directory.is_some()));
        if let Some(place) = self.set_directory {
            put_page_place(out, place);
        }
        put_varint(out, self.set_column.map_or(0, |column| u64::from(column) + 1));
        put_varint(out, self.blocks);
        put_varint(out, self.index_pages);
    }

    /// Reads what [`SegmentFooter::encode`] wrote.
    pub fn decode(payload: &[u8]) -> Result<SegmentFooter> {
        let mut cursor = Cursor::new(payload, FOOTER);
        let footer = SegmentFooter {
            segment: SegmentId(cursor.varint()?),
            table: TableId(varint_u32(&mut cursor)?),
            rows: cursor.varint()?,
            lsns: LsnRange { first: Lsn(cursor.varint()?), last: Lsn(cursor.varint()?) },
            columns: varint_u32(&mut cursor)?,
            first_key: cursor.bytes()?.to_vec(),
            last_key: cursor.bytes()?.to_vec(),
            summary: page_place(&mut cursor)?,
            set_directory: match cursor.u8()? {
                0 => None,
                1 => Some(page_place(&mut cursor)?),
                other => return Err(cursor.error(format!("set directory flag {other}"))),
            },
            set_column: match varint_u32(&mut cursor)? {
                0 => None,
                column => Some(column - 1),
            },
            blocks: cursor.varint()?,
            index_pages: cursor.varint()?,
        };
        if footer.lsns.first > footer.lsns.last {
            return Err(cursor.error(format!("LSNs {}..={}", footer.lsns.first, footer.lsns.last)));
        }
        if footer.first_key > footer.last_key {
            return Err(cursor.error("the first key lies behind the last"));
        }
        cursor.finish()?;
        Ok(footer)
    }
}

/// Appends the tail, which points at the footer page of `footer_bytes` at `footer_offset`.
pub fn write_tail(footer_offset: u64, footer_bytes: u32, out: &mut Vec<u8>) {
    let mut tail = [0u8; TAIL_BYTES];
    tail[..8].copy_from_slice(&footer_offset.to_le_bytes());
    tail[8..12].copy_from_slice(&footer_bytes.to_le_bytes());
    tail[12..16].copy_from_slice(&SEGMENT_VERSION.to_le_bytes());
    let checksum = crc32c::crc32c(&tail[..16]);
    tail[16..20].copy_from_slice(&checksum.to_le_bytes());
    tail[24..].copy_from_slice(&MAGIC);
    out.extend_from_slice(&tail);
}

/// The file offset and the bytes of the footer page.
///
/// Fails on a file that is no segment, on a changed bit and on a segment of a later version.
pub fn read_tail(tail: &[u8; TAIL_BYTES]) -> Result<(u64, u32)> {
    if tail[24..] != MAGIC {
        let magic = tail[24..].escape_ascii();
        return Err(FormatError::malformed(
            TAIL,
            format!("not a segment: the file ends in \"{magic}\""),
        ));
    }
    let expected = crc32c::crc32c(&tail[..16]);
    let mut cursor = Cursor::new(&tail[..24], TAIL);
    let (offset, bytes, version) = (cursor.u64()?, cursor.u32()?, cursor.u32()?);
    let (found, zero) = (cursor.u32()?, cursor.u32()?);
    if found != expected {
        return Err(FormatError::Checksum { what: TAIL, found, expected });
    }
    if version != SEGMENT_VERSION {
        return Err(FormatError::Version {
            what: TAIL,
            found: version,
            supported: SEGMENT_VERSION,
        });
    }
    if zero != 0 {
        return Err(cursor.error(format!("reserved bytes are {zero:#010x}")));
    }
    Ok((offset, bytes))
}

fn put_page_place(out: &mut Vec<u8>, (offset, bytes): (u64, u32)) {
    put_varint(out, offset);
    put_varint(out, u64::from(bytes));
}

fn page_place(cursor: &mut Cursor<'_>) -> Result<(u64, u32)> {
    Ok((cursor.varint()?, varint_u32(cursor)?))
}

fn varint_u32(cursor: &mut Cursor<'_>) -> Result<u32> {
    let value = cursor.varint()?;
    u32::try_from(value).map_err(|_| cursor.error(format!("{value} does not fit 32 bits")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_footer() -> impl Strategy<Value = SegmentFooter> {
        let ids = (any::<u64>(), any::<u32>(), any::<u64>(), any::<u32>());
        let lsns = (any::<u64>(), any::<u64>());
        let keys =
            (prop::collection::vec(any::<u8>(), 0..20), prop::collection::vec(any::<u8>(), 0..20));
        let places = (any::<(u64, u32)>(), any::<Option<(u64, u32)>>());
        let set_column = prop::option::of(0..u32::MAX);
        (ids, lsns, keys, places, set_column, any::<(u64, u64)>()).prop_map(
            |(
                (segment, table, rows, columns),
                (a, b),
                (k, l),
                (summary, set_directory),
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
                    set_directory,
                    set_column,
                    blocks: counts.0,
                    index_pages: counts.1,
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
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80), tail: [u8; 32]) {
            let _ = SegmentFooter::decode(&bytes);
            prop_assert!(read_tail(&tail).is_err());
        }
    }

    fn tail() -> [u8; TAIL_BYTES] {
        let mut out = Vec::new();
        write_tail(123_456, 789, &mut out);
        out.try_into().expect("a tail has a fixed size")
    }

    #[test]
    fn a_tail_reads_back() {
        assert_eq!(read_tail(&tail()), Ok((123_456, 789)));
    }

    #[test]
    fn every_flipped_bit_of_a_tail_is_an_error() {
        for bit in 0..TAIL_BYTES * 8 {
            let mut bytes = tail();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(read_tail(&bytes).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_file_with_another_ending_is_called_not_a_segment() {
        let error = read_tail(&[b'x'; TAIL_BYTES]).unwrap_err();
        assert!(error.to_string().contains("not a segment"), "{error}");
    }

    #[test]
    fn a_segment_of_a_later_version_is_named() {
        let mut bytes = tail();
        bytes[12] = 2;
        let checksum = crc32c::crc32c(&bytes[..16]);
        bytes[16..20].copy_from_slice(&checksum.to_le_bytes());
        let error = read_tail(&bytes).unwrap_err();
        assert_eq!(error, FormatError::Version { what: TAIL, found: 2, supported: 1 });
    }
}

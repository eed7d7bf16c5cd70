//! The envelope of every page of a segment file: kind, version, length and checksum.
//!
//! A page is the smallest thing that is read and verified. Its checksum also covers where it lies
//! (segment and file offset), so a page that was misdirected by the storage below reads as damaged,
//! however intact its bytes are. What a payload means is left to the module of its kind. Drawn in
//! `docs/format.md`, section "Pages".

use crate::cursor::{Cursor, put_varint};
use crate::error::{FormatError, Result};
use crate::ids::SegmentId;

/// The unit in which padded pages are measured and aligned.
pub const PAGE_BYTES: usize = 4096;

/// The bytes before a page's payload.
pub const HEADER_BYTES: usize = 12;

const VERSION: u8 = 1;

/// What a page's payload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PageKind {
    /// Rows, see [`crate::block`].
    Block = 1,
    /// A leaf of the partition index, see [`crate::index_page::IndexPage`].
    Index = 2,
    /// Posting chunks and skip tables, see [`crate::postings`].
    Postings = 3,
    /// Where the posting lists lie, see [`crate::postings::DirectoryPage`].
    SetDirectory = 4,
    /// First values of the set directory pages, see [`crate::postings::SetDirectorySummary`].
    SetSummary = 5,
    /// First separators of the index pages, see [`crate::index_page::Summary`].
    Summary = 6,
    /// The description of the whole file, see [`crate::segment_footer::SegmentFooter`] and
    /// [`crate::postings_footer::PostingsFooter`].
    Footer = 7,
    /// Zones of the blocks of an index page, see [`crate::statistics_page`].
    Statistics = 8,
    /// Part of the filter over the keys of an index page's blocks, see [`crate::index_page::may_contain`].
    Filter = 9,
    /// One column of a group of rows, see [`crate::streams::page`].
    Stream = 10,
    /// The texts that codes in blocks and streams stand for, see [`crate::dictionary`].
    Dictionary = 11,
    /// Which columns are streams, see [`crate::streams::directory`].
    StreamDirectory = 12,
    /// One long value, see [`crate::extents`].
    Extent = 13,
}

impl PageKind {
    /// The kind's name in error messages.
    pub fn name(self) -> &'static str {
        match self {
            PageKind::Block => "block",
            PageKind::Index => "index page",
            PageKind::Postings => "postings page",
            PageKind::SetDirectory => "set directory page",
            PageKind::SetSummary => "set directory summary",
            PageKind::Summary => "index summary",
            PageKind::Footer => "footer",
            PageKind::Statistics => "statistics page",
            PageKind::Filter => "filter page",
            PageKind::Stream => "stream page",
            PageKind::Dictionary => "dictionary page",
            PageKind::StreamDirectory => "stream directory",
            PageKind::Extent => "extent",
        }
    }
}

/// Where a page lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageAddress {
    /// The file, by its number: a segment, or a postings file.
    pub segment: SegmentId,
    /// Bytes from the start of the segment file.
    pub offset: u64,
}

/// Appends where a page lies that is named from another one: file offset and bytes.
pub fn put_page_place(out: &mut Vec<u8>, (offset, bytes): (u64, u32)) {
    put_varint(out, offset);
    put_varint(out, u64::from(bytes));
}

/// Reads what [`put_page_place`] wrote.
pub fn read_page_place(cursor: &mut Cursor<'_>) -> Result<(u64, u32)> {
    Ok((cursor.varint()?, cursor.varint_u32()?))
}

/// The bytes of a page at `offset` with a payload of `payload_bytes`, padded up to a multiple of [`PAGE_BYTES`] in the
/// file or not.
pub fn page_len(offset: u64, payload_bytes: usize, pad: bool) -> usize {
    let bytes = HEADER_BYTES + payload_bytes;
    let in_page = (offset % PAGE_BYTES as u64) as usize;
    if pad { (in_page + bytes).next_multiple_of(PAGE_BYTES) - in_page } else { bytes }
}

/// Appends a page: header, payload and, if `pad`, zeros up to a multiple of [`PAGE_BYTES`] in the file.
///
/// `address` must be where the caller will store it.
pub fn write_page(
    kind: PageKind,
    address: PageAddress,
    payload: &[u8],
    pad: bool,
    out: &mut Vec<u8>,
) {
    let payload_len = u32::try_from(payload.len()).expect("a page is shorter than 4 GiB");
    let mut header = [0u8; HEADER_BYTES];
    header[4] = kind as u8;
    header[5] = VERSION;
    header[8..12].copy_from_slice(&payload_len.to_le_bytes());
    let checksum = page_checksum(address, &header[4..], payload);
    header[..4].copy_from_slice(&checksum.to_le_bytes());
    let end = out.len() + page_len(address.offset, payload.len(), pad);
    out.reserve(end - out.len());
    out.extend_from_slice(&header);
    out.extend_from_slice(payload);
    out.resize(end, 0);
}

/// The payload of the page that fills `bytes`, padding included.
///
/// Costs one pass over the bytes. Fails on any changed bit, on a page of another kind, on one that
/// was written for another address and on one written by a later version.
pub fn read_page(bytes: &[u8], kind: PageKind, address: PageAddress) -> Result<&[u8]> {
    let what = kind.name();
    let malformed = |detail: String| FormatError::malformed(what, detail);
    let Some((header, body)) = bytes.split_at_checked(HEADER_BYTES) else {
        return Err(malformed(format!("{} bytes are less than a page header", bytes.len())));
    };
    let payload_len = u32_at(header, 8) as usize;
    let Some((payload, padding)) = body.split_at_checked(payload_len) else {
        return Err(malformed(format!(
            "a payload of {payload_len} bytes in a page of {}",
            bytes.len()
        )));
    };
    let found = u32_at(header, 0);
    let expected = page_checksum(address, &header[4..], payload);
    if found != expected {
        return Err(FormatError::Checksum { what, found, expected });
    }
    if header[5] != VERSION {
        let (found, supported) = (u32::from(header[5]), u32::from(VERSION));
        return Err(FormatError::Version { what, found, supported });
    }
    if header[4] != kind as u8 {
        return Err(malformed(format!(
            "it is a page of kind {}, expected {}",
            header[4], kind as u8
        )));
    }
    if header[6..8] != [0, 0] {
        return Err(malformed(format!("reserved bytes are {:?}", &header[6..8])));
    }
    if padding.iter().any(|&byte| byte != 0) {
        return Err(malformed("padding is not zero".into()));
    }
    Ok(payload)
}

fn page_checksum(address: PageAddress, header: &[u8], payload: &[u8]) -> u32 {
    let mut place = [0u8; 16];
    place[..8].copy_from_slice(&address.segment.0.to_le_bytes());
    place[8..].copy_from_slice(&address.offset.to_le_bytes());
    let checksum = crc32c::crc32c(&place);
    let checksum = crc32c::crc32c_append(checksum, header);
    crc32c::crc32c_append(checksum, payload)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes were sliced"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HERE: PageAddress = PageAddress { segment: SegmentId(7), offset: 8192 };

    fn page(payload: &[u8], pad: bool) -> Vec<u8> {
        let mut out = Vec::new();
        write_page(PageKind::Block, HERE, payload, pad, &mut out);
        out
    }

    proptest! {
        #[test]
        fn a_page_reads_back(payload in prop::collection::vec(any::<u8>(), 0..9000), pad: bool) {
            let bytes = page(&payload, pad);
            prop_assert_eq!(bytes.len(), page_len(HERE.offset, payload.len(), pad));
            prop_assert!(!pad || bytes.len().is_multiple_of(PAGE_BYTES));
            prop_assert_eq!(read_page(&bytes, PageKind::Block, HERE), Ok(&payload[..]));
        }

        #[test]
        fn a_padded_page_ends_where_another_may_begin(payload in prop::collection::vec(any::<u8>(), 0..9000), offset in 0..20_000u64) {
            let mut bytes = Vec::new();
            let here = PageAddress { offset, ..HERE };
            write_page(PageKind::Stream, here, &payload, true, &mut bytes);
            prop_assert_eq!((offset + bytes.len() as u64) % PAGE_BYTES as u64, 0);
            prop_assert_eq!(read_page(&bytes, PageKind::Stream, here), Ok(&payload[..]));
        }

        #[test]
        fn random_bytes_are_an_error_and_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            prop_assert!(read_page(&bytes, PageKind::Block, HERE).is_err());
        }
    }

    #[test]
    fn every_flipped_bit_of_a_page_is_an_error() {
        let sound = page(b"sixteen bytes in", true);
        for bit in 0..sound.len() * 8 {
            let mut bytes = sound.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(read_page(&bytes, PageKind::Block, HERE).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn every_truncated_page_is_an_error() {
        let sound = page(b"payload", false);
        for len in 0..sound.len() {
            assert!(read_page(&sound[..len], PageKind::Block, HERE).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn a_page_read_at_another_address_is_damaged() {
        let bytes = page(b"payload", false);
        let elsewhere = PageAddress { offset: HERE.offset + 4096, ..HERE };
        let other_segment = PageAddress { segment: SegmentId(8), ..HERE };
        for address in [elsewhere, other_segment] {
            let error = read_page(&bytes, PageKind::Block, address).unwrap_err();
            assert!(matches!(error, FormatError::Checksum { what: "block", .. }), "{error}");
        }
    }

    #[test]
    fn a_page_of_another_kind_is_named() {
        let error = read_page(&page(b"payload", false), PageKind::Index, HERE).unwrap_err();
        assert!(error.to_string().contains("kind 1, expected 2"), "{error}");
    }

    #[test]
    fn a_later_version_is_named() {
        let mut bytes = page(b"payload", false);
        bytes[5] = 9;
        let checksum = page_checksum(HERE, &bytes[4..12], &bytes[12..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        let error = read_page(&bytes, PageKind::Block, HERE).unwrap_err();
        assert_eq!(error, FormatError::Version { what: "block", found: 9, supported: 1 });
    }
}

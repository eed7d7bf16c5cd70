//! The last bytes of a file of pages: what it is, and where its footer page lies.
//!
//! Drawn in `docs/format.md`, section "Segment footer and tail".

use crate::cursor::Cursor;
use crate::error::{FormatError, Result};

/// The bytes of a tail, the last of its file.
pub const TAIL_BYTES: usize = 32;

/// The version of files that this build writes, and the only one that it reads.
pub const FILE_VERSION: u32 = 6;

const TAIL: &str = "file tail";

/// What a file of pages is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// Rows with their indexes, see [`crate::segment_footer`].
    Segment,
    /// The postings of a segment, in a file of their own, see [`crate::postings_footer`].
    Postings,
}

impl FileKind {
    /// The kind's name in error messages.
    pub fn name(self) -> &'static str {
        match self {
            FileKind::Segment => "segment",
            FileKind::Postings => "postings file",
        }
    }

    fn magic(self) -> [u8; 8] {
        match self {
            FileKind::Segment => *b"DRILLSEG",
            FileKind::Postings => *b"DRILLSET",
        }
    }
}

/// Appends the tail, which points at the footer page of `footer_bytes` at `footer_offset`.
pub fn write_tail(kind: FileKind, footer_offset: u64, footer_bytes: u32, out: &mut Vec<u8>) {
    let mut tail = [0u8; TAIL_BYTES];
    tail[..8].copy_from_slice(&footer_offset.to_le_bytes());
    tail[8..12].copy_from_slice(&footer_bytes.to_le_bytes());
    tail[12..16].copy_from_slice(&FILE_VERSION.to_le_bytes());
    let checksum = crc32c::crc32c(&tail[..16]);
    tail[16..20].copy_from_slice(&checksum.to_le_bytes());
    tail[24..].copy_from_slice(&kind.magic());
    out.extend_from_slice(&tail);
}

/// The file offset and the bytes of the footer page.
///
/// Fails on a file of another kind, on a changed bit and on a file of another version.
pub fn read_tail(kind: FileKind, tail: &[u8; TAIL_BYTES]) -> Result<(u64, u32)> {
    if tail[24..] != kind.magic() {
        let (name, magic) = (kind.name(), tail[24..].escape_ascii());
        let detail = format!("not a {name}: the file ends in \"{magic}\"");
        return Err(FormatError::malformed(TAIL, detail));
    }
    let expected = crc32c::crc32c(&tail[..16]);
    let mut cursor = Cursor::new(&tail[..24], TAIL);
    let (offset, bytes, version) = (cursor.u64()?, cursor.u32()?, cursor.u32()?);
    let (found, zero) = (cursor.u32()?, cursor.u32()?);
    if found != expected {
        return Err(FormatError::Checksum { what: TAIL, found, expected });
    }
    if version != FILE_VERSION {
        return Err(FormatError::Version { what: TAIL, found: version, supported: FILE_VERSION });
    }
    if zero != 0 {
        return Err(cursor.error(format!("reserved bytes are {zero:#010x}")));
    }
    Ok((offset, bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KINDS: [FileKind; 2] = [FileKind::Segment, FileKind::Postings];

    fn tail(kind: FileKind) -> [u8; TAIL_BYTES] {
        let mut out = Vec::new();
        write_tail(kind, 123_456, 789, &mut out);
        out.try_into().expect("a tail has a fixed size")
    }

    proptest! {
        #[test]
        fn random_bytes_are_no_tail(tail: [u8; 32]) {
            for kind in KINDS {
                prop_assert!(read_tail(kind, &tail).is_err());
            }
        }
    }

    #[test]
    fn a_tail_reads_back_as_what_it_is_only() {
        for kind in KINDS {
            for other in KINDS {
                let found = read_tail(other, &tail(kind));
                assert_eq!(found.ok(), (kind == other).then_some((123_456, 789)));
            }
        }
    }

    #[test]
    fn every_flipped_bit_of_a_tail_is_an_error() {
        for bit in 0..TAIL_BYTES * 8 {
            let mut bytes = tail(FileKind::Segment);
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(read_tail(FileKind::Segment, &bytes).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_file_with_another_ending_is_called_not_a_segment() {
        let error = read_tail(FileKind::Segment, &[b'x'; TAIL_BYTES]).unwrap_err();
        assert!(error.to_string().contains("not a segment"), "{error}");
    }

    #[test]
    fn a_file_of_another_version_is_named() {
        for found in [1, 5, 7] {
            let mut bytes = tail(FileKind::Segment);
            bytes[12] = found as u8;
            let checksum = crc32c::crc32c(&bytes[..16]);
            bytes[16..20].copy_from_slice(&checksum.to_le_bytes());
            let error = read_tail(FileKind::Segment, &bytes).unwrap_err();
            assert_eq!(error, FormatError::Version { what: TAIL, found, supported: FILE_VERSION });
        }
    }
}

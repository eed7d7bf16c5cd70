//! The last bytes of a file of pages: what it is, and where its footer page lies.
//!
//! Drawn in `docs/format.md`, section "Segment footer and tail".

use crate::cursor::Cursor;
use crate::error::{FormatError, Result};

/// The bytes of a tail, the last of its file.
pub const TAIL_BYTES: usize = 40;

/// The version of files that this build writes, and the only one that it reads.
pub const FILE_VERSION: u32 = 7;

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

/// What a tail says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileTail {
    /// Where the footer page begins.
    pub footer_offset: u64,
    /// The bytes of the footer page.
    pub footer_bytes: u32,
    /// A hash of all bytes before the tail: the manifest has it, too, so that another file in the place of this one is
    /// noticed. XXH64 with seed 0.
    pub fingerprint: u64,
}

impl FileTail {
    /// Appends the tail of a file of that kind.
    pub fn write(&self, kind: FileKind, out: &mut Vec<u8>) {
        let mut tail = [0u8; TAIL_BYTES];
        tail[..8].copy_from_slice(&self.fingerprint.to_le_bytes());
        tail[8..16].copy_from_slice(&self.footer_offset.to_le_bytes());
        tail[16..20].copy_from_slice(&self.footer_bytes.to_le_bytes());
        tail[20..24].copy_from_slice(&FILE_VERSION.to_le_bytes());
        let checksums = [&tail[8..24], &tail[..8]].map(crc32c::crc32c);
        tail[24..28].copy_from_slice(&checksums[0].to_le_bytes());
        tail[28..32].copy_from_slice(&checksums[1].to_le_bytes());
        tail[32..].copy_from_slice(&kind.magic());
        out.extend_from_slice(&tail);
    }

    /// Reads what [`FileTail::write`] wrote.
    ///
    /// # Errors
    /// A file of another kind, a changed bit, or a file of another version.
    pub fn read(kind: FileKind, tail: &[u8; TAIL_BYTES]) -> Result<FileTail> {
        if tail[32..] != kind.magic() {
            let (name, magic) = (kind.name(), tail[32..].escape_ascii());
            let detail = format!("not a {name}: the file ends in \"{magic}\"");
            return Err(FormatError::malformed(TAIL, detail));
        }
        let mut cursor = Cursor::new(&tail[..32], TAIL);
        let fingerprint = cursor.u64()?;
        let (footer_offset, footer_bytes, version) = (cursor.u64()?, cursor.u32()?, cursor.u32()?);
        // Files of earlier versions have this checksum and the version at these places, too.
        let check = |found: u32, bytes: &[u8]| match crc32c::crc32c(bytes) {
            expected if expected == found => Ok(()),
            expected => Err(FormatError::Checksum { what: TAIL, found, expected }),
        };
        check(cursor.u32()?, &tail[8..24])?;
        if version != FILE_VERSION {
            return Err(FormatError::Version {
                what: TAIL,
                found: version,
                supported: FILE_VERSION,
            });
        }
        check(cursor.u32()?, &tail[..8])?;
        Ok(FileTail { footer_offset, footer_bytes, fingerprint })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KINDS: [FileKind; 2] = [FileKind::Segment, FileKind::Postings];
    const TAIL_OF_FILE: FileTail =
        FileTail { footer_offset: 123_456, footer_bytes: 789, fingerprint: 0x1234_5678_9abc_def0 };

    fn tail(kind: FileKind) -> [u8; TAIL_BYTES] {
        let mut out = Vec::new();
        TAIL_OF_FILE.write(kind, &mut out);
        out.try_into().expect("a tail has a fixed size")
    }

    proptest! {
        #[test]
        fn random_bytes_are_no_tail(tail: [u8; TAIL_BYTES]) {
            for kind in KINDS {
                prop_assert!(FileTail::read(kind, &tail).is_err());
            }
        }
    }

    #[test]
    fn a_tail_reads_back_as_what_it_is_only() {
        for kind in KINDS {
            for other in KINDS {
                let found = FileTail::read(other, &tail(kind));
                assert_eq!(found.ok(), (kind == other).then_some(TAIL_OF_FILE));
            }
        }
    }

    #[test]
    fn every_flipped_bit_of_a_tail_is_an_error() {
        for bit in 0..TAIL_BYTES * 8 {
            let mut bytes = tail(FileKind::Segment);
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(FileTail::read(FileKind::Segment, &bytes).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_file_with_another_ending_is_called_not_a_segment() {
        let error = FileTail::read(FileKind::Segment, &[b'x'; TAIL_BYTES]).unwrap_err();
        assert!(error.to_string().contains("not a segment"), "{error}");
    }

    #[test]
    fn a_file_of_another_version_is_named() {
        for found in [1, 6, 8] {
            let mut bytes = tail(FileKind::Segment);
            bytes[20] = found as u8;
            let checksum = crc32c::crc32c(&bytes[8..24]);
            bytes[24..28].copy_from_slice(&checksum.to_le_bytes());
            let error = FileTail::read(FileKind::Segment, &bytes).unwrap_err();
            assert_eq!(error, FormatError::Version { what: TAIL, found, supported: FILE_VERSION });
        }
    }
}

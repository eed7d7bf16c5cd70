//! Log framing, used by the write-ahead log and by the manifest, and the payload of a commit.
//!
//! A log file is a header and frames back to back. A crash can leave the last frame incomplete;
//! anything else that does not check was complete once and has changed since:
//!
//! - **Torn**, the end of the log: the file ends inside the frame, or the file had grown but the
//!   data was never written. The second shows as zeros that begin at the frame or at a sector
//!   boundary inside it, take in the frame's end mark (never zero in a written frame) and reach to
//!   the end of the file.
//! - **Damaged**, an error: every other frame that does not check. So no flipped bit of a complete
//!   frame shortens a log, not even one of the last frame.
//!
//! That sequence numbers rise without a gap is checked by the caller, who knows where they start.
//! Drawn in `docs/format.md`, section "Log files".

use crate::cursor::{Cursor, put_u32, put_varint};
use crate::error::{FormatError, Result};
use crate::ids::TableId;

/// The bytes before the first frame of a log file.
pub const FILE_HEADER_BYTES: usize = 16;

/// The bytes before a frame's payload.
pub const FRAME_HEADER_BYTES: usize = 24;

/// The bytes a frame takes beside its payload.
pub const FRAME_OVERHEAD_BYTES: usize = FRAME_HEADER_BYTES + 1;

const VERSION: u32 = 1;

/// The last byte of a frame. Not zero, so that a frame whose end was written shows it.
const END_MARK: u8 = 0xa5;

/// The unit in which disks write; a torn write ends at a multiple of it.
const SECTOR_BYTES: usize = 512;

/// Which log a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    Wal,
    Manifest,
}

impl LogKind {
    fn magic(self) -> [u8; 8] {
        match self {
            LogKind::Wal => *b"DRILLWAL",
            LogKind::Manifest => *b"DRILLMAN",
        }
    }

    fn header_name(self) -> &'static str {
        match self {
            LogKind::Wal => "WAL file header",
            LogKind::Manifest => "manifest file header",
        }
    }
}

/// Appends the header of a log file.
pub fn put_file_header(kind: LogKind, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&kind.magic());
    put_u32(out, VERSION);
    let checksum = crc32c::crc32c(&out[start..]);
    put_u32(out, checksum);
}

/// Checks the header of a log file and returns where its first frame begins, or `None` if the header
/// is torn: cut off by the end of the file, or never written (the whole file is zero).
pub fn read_file_header(bytes: &[u8], kind: LogKind) -> Result<Option<usize>> {
    let what = kind.header_name();
    if bytes.len() < FILE_HEADER_BYTES || is_zero(bytes) {
        return Ok(None);
    }
    let (header, checksum) = bytes[..FILE_HEADER_BYTES].split_at(12);
    let magic = kind.magic();
    if header[..8] != magic {
        let detail = format!(
            "it begins with \"{}\", expected \"{}\"",
            header[..8].escape_ascii(),
            magic.escape_ascii()
        );
        return Err(FormatError::malformed(what, detail));
    }
    let (found, expected) = (u32_at(checksum, 0), crc32c::crc32c(header));
    if found != expected {
        return Err(FormatError::Checksum { what, found, expected });
    }
    let version = u32_at(header, 8);
    if version != VERSION {
        return Err(FormatError::Version { what, found: version, supported: VERSION });
    }
    Ok(Some(FILE_HEADER_BYTES))
}

/// Appends a frame.
pub fn put_frame(sequence: u64, payload: &[u8], out: &mut Vec<u8>) {
    out.reserve(payload.len() + FRAME_OVERHEAD_BYTES);
    let start = begin_frame(out);
    out.extend_from_slice(payload);
    end_frame(sequence, start, out);
}

/// Leaves room for a frame's header and returns where the frame starts. The caller appends the
/// payload, then calls [`end_frame`].
pub fn begin_frame(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.resize(start + FRAME_HEADER_BYTES, 0);
    start
}

/// Completes the frame that [`begin_frame`] started at `start`; all bytes behind its header are its
/// payload.
pub fn end_frame(sequence: u64, start: usize, out: &mut Vec<u8>) {
    let (header, payload) = out[start..].split_at_mut(FRAME_HEADER_BYTES);
    let payload_len = u32::try_from(payload.len()).expect("a frame is shorter than 4 GiB");
    header[4..8].copy_from_slice(&payload_len.to_le_bytes());
    header[8..16].copy_from_slice(&sequence.to_le_bytes());
    header[16..20].copy_from_slice(&crc32c::crc32c(payload).to_le_bytes());
    let checksum = crc32c::crc32c(&header[4..]);
    header[..4].copy_from_slice(&checksum.to_le_bytes());
    out.push(END_MARK);
}

/// What lies at some place of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read<'a> {
    /// A frame; the next one begins at `end`.
    Frame { sequence: u64, payload: &'a [u8], end: usize },
    /// The log ends exactly here.
    End,
    /// The log ends here, with a frame that was never completed.
    Torn { at: usize },
}

/// Reads the frame at byte `at` of a log file, whose content is `bytes`.
///
/// `bytes` must begin where the file begins and reach to its end: both take part in telling a torn
/// frame from a damaged one (see the module).
pub fn read_frame(bytes: &[u8], at: usize) -> Result<Read<'_>> {
    assert!(at <= bytes.len(), "byte {at} of a log of {}", bytes.len());
    if at == bytes.len() {
        return Ok(Read::End);
    }
    let Some((header, body)) = bytes[at..].split_at_checked(FRAME_HEADER_BYTES) else {
        return Ok(Read::Torn { at });
    };
    let (found, expected) = (u32_at(header, 0), crc32c::crc32c(&header[4..]));
    if found != expected {
        return torn_or(
            FormatError::Checksum { what: "frame header", found, expected },
            bytes,
            at,
            at + FRAME_HEADER_BYTES,
        );
    }
    if u32_at(header, 20) != 0 {
        return Err(FormatError::malformed("frame header", "reserved bytes are not zero"));
    }
    let payload_len = u32_at(header, 4) as usize;
    if body.len() <= payload_len {
        return Ok(Read::Torn { at });
    }
    let (payload, mark) = (&body[..payload_len], body[payload_len]);
    let end = at + FRAME_OVERHEAD_BYTES + payload_len;
    let (found, expected) = (crc32c::crc32c(payload), u32_at(header, 16));
    if found != expected {
        return torn_or(
            FormatError::Checksum { what: "frame payload", found, expected },
            bytes,
            at,
            end,
        );
    }
    if mark != END_MARK {
        return torn_or(
            FormatError::malformed("frame", format!("it ends in {mark:#04x}")),
            bytes,
            at,
            end,
        );
    }
    let sequence = u64::from_le_bytes(header[8..16].try_into().expect("eight bytes were sliced"));
    Ok(Read::Frame { sequence, payload, end })
}

/// The frame `at..end` does not check: torn if its end was never written, else `damage`.
fn torn_or(damage: FormatError, bytes: &[u8], at: usize, end: usize) -> Result<Read<'_>> {
    let last_sector = (end - 1) / SECTOR_BYTES * SECTOR_BYTES;
    if is_zero(&bytes[at.max(last_sector)..]) {
        return Ok(Read::Torn { at });
    }
    Err(damage)
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes were sliced"))
}

/// Appends the payload of a commit's WAL frame: per table, the block of its new rows.
pub fn encode_commit(batches: &[(TableId, &[u8])], out: &mut Vec<u8>) {
    put_batch_count(batches.len(), out);
    for (table, block) in batches {
        put_batch(*table, block, out);
    }
}

/// Begins a commit's payload; as many [`put_batch`] calls must follow.
pub fn put_batch_count(count: usize, out: &mut Vec<u8>) {
    put_varint(out, count as u64);
}

/// Appends one table's rows to a commit's payload.
pub fn put_batch(table: TableId, block: &[u8], out: &mut Vec<u8>) {
    put_u32(out, table.0);
    put_u32(out, u32::try_from(block.len()).expect("a batch is shorter than 4 GiB"));
    out.extend_from_slice(block);
}

/// Reads what [`encode_commit`] wrote.
pub fn decode_commit(payload: &[u8]) -> Result<Vec<(TableId, &[u8])>> {
    let mut cursor = Cursor::new(payload, "commit");
    let count = cursor.varint()?;
    // No capacity from `count`: it is not to be trusted with memory before the batches are there.
    let mut batches = Vec::new();
    for _ in 0..count {
        let table = TableId(cursor.u32()?);
        let len = cursor.u32()? as usize;
        batches.push((table, cursor.take(len)?));
    }
    cursor.finish()?;
    Ok(batches)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sequence number and payload of each frame.
    type Frames = Vec<(u64, Vec<u8>)>;

    /// The frames up to the first that is none, and what that one is.
    fn read_log(bytes: &[u8]) -> Result<(Frames, Read<'_>)> {
        let mut frames = Vec::new();
        let Some(mut at) = read_file_header(bytes, LogKind::Wal)? else {
            return Ok((frames, Read::Torn { at: 0 }));
        };
        loop {
            match read_frame(bytes, at)? {
                Read::Frame { sequence, payload, end } => {
                    frames.push((sequence, payload.to_vec()));
                    at = end;
                }
                other => return Ok((frames, other)),
            }
        }
    }

    /// A log, its frames, and where the file header and each frame end.
    fn log(payloads: &[Vec<u8>]) -> (Vec<u8>, Frames, Vec<usize>) {
        let (mut bytes, mut frames, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        put_file_header(LogKind::Wal, &mut bytes);
        ends.push(bytes.len());
        for (payload, sequence) in payloads.iter().zip(40..) {
            put_frame(sequence, payload, &mut bytes);
            frames.push((sequence, payload.clone()));
            ends.push(bytes.len());
        }
        (bytes, frames, ends)
    }

    /// Three frames; the payloads span sectors and end in zeros, as encoded blocks do.
    fn three_frames() -> (Vec<u8>, Frames, Vec<usize>) {
        let long = (0..1300u32).map(|i| (i % 251) as u8).chain([0; 700]).collect();
        log(&[b"first".to_vec(), long, vec![0; 90]])
    }

    #[test]
    fn every_truncation_of_a_log_yields_a_prefix_of_its_frames() {
        let (bytes, frames, ends) = three_frames();
        for len in 0..=bytes.len() {
            let (found, last) = read_log(&bytes[..len]).unwrap();
            let complete = ends.iter().filter(|&&end| end <= len).count();
            assert_eq!(found, frames[..complete.saturating_sub(1)], "{len} bytes");
            let at = if complete == 0 { 0 } else { ends[complete - 1] };
            let expected = if at == len && len > 0 { Read::End } else { Read::Torn { at } };
            assert_eq!(last, expected, "{len} bytes");
        }
    }

    #[test]
    fn every_flipped_bit_of_a_log_is_an_error() {
        let (sound, ..) = three_frames();
        for bit in 0..sound.len() * 8 {
            let mut bytes = sound.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(read_log(&bytes).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_log_that_grew_without_its_data_ends_at_the_torn_frame() {
        let (sound, frames, ends) = three_frames();
        for sector in (0..sound.len()).step_by(SECTOR_BYTES) {
            for grown in [0, 1, 5000] {
                let mut bytes = sound.clone();
                bytes[sector..].fill(0);
                bytes.resize(sound.len() + grown, 0);
                let (found, last) = read_log(&bytes).unwrap();
                let complete = ends.iter().filter(|&&end| end <= sector).count();
                assert_eq!(found, frames[..complete.saturating_sub(1)], "zeros from {sector}");
                assert!(matches!(last, Read::Torn { .. }), "zeros from {sector}");
            }
        }
    }

    #[test]
    fn zeros_behind_the_last_frame_end_the_log() {
        let (mut bytes, frames, ends) = three_frames();
        bytes.resize(bytes.len() + 4096, 0);
        assert_eq!(read_log(&bytes), Ok((frames, Read::Torn { at: ends[3] })));
    }

    #[test]
    fn a_zeroed_sector_before_a_later_frame_is_damage() {
        let (mut bytes, ..) = three_frames();
        bytes[512..1024].fill(0);
        let error = read_log(&bytes).unwrap_err();
        assert!(matches!(error, FormatError::Checksum { what: "frame payload", .. }), "{error}");
    }

    #[test]
    fn a_log_of_the_other_kind_and_a_later_version_are_named() {
        let mut bytes = Vec::new();
        put_file_header(LogKind::Manifest, &mut bytes);
        let error = read_file_header(&bytes, LogKind::Wal).unwrap_err();
        assert!(error.to_string().contains("DRILLMAN"), "{error}");
        bytes[8] = 2;
        let checksum = crc32c::crc32c(&bytes[..12]);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        let error = read_file_header(&bytes, LogKind::Manifest).unwrap_err();
        assert!(matches!(error, FormatError::Version { found: 2, supported: 1, .. }), "{error}");
    }

    proptest! {
        #[test]
        fn frames_read_back(payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..600), 0..8)) {
            let (bytes, frames, _) = log(&payloads);
            prop_assert_eq!(read_log(&bytes), Ok((frames, Read::End)));
        }

        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0usize..200) {
            let _ = read_frame(&bytes, at.min(bytes.len()));
            let _ = read_file_header(&bytes, LogKind::Wal);
            let _ = decode_commit(&bytes);
        }

        #[test]
        fn a_commit_reads_back_and_every_prefix_of_it_is_an_error(
            batches in prop::collection::vec((any::<u32>(), prop::collection::vec(any::<u8>(), 0..50)), 0..5)
        ) {
            let batches: Vec<(TableId, &[u8])> =
                batches.iter().map(|(table, block)| (TableId(*table), &block[..])).collect();
            let mut payload = Vec::new();
            encode_commit(&batches, &mut payload);
            prop_assert_eq!(decode_commit(&payload), Ok(batches));
            for len in 0..payload.len() {
                prop_assert!(decode_commit(&payload[..len]).is_err());
            }
        }
    }
}

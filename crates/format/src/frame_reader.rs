//! Reading a log file: its frames, and where it ends.
//!
//! A power cut takes any of what was not synced, in any order, so frames behind one that is lost may be whole.
//! It takes nothing that was synced. So a frame that does not check is one of two things:
//!
//! - **Damage**, an error, if it was synced. That is so if a whole frame header behind it bears a mark beyond it,
//!   since a mark says up to where the log was synced when its frame was written; or if the caller knows it
//!   ([`FrameReader::expect_synced`]).
//! - **The end of the log**, if nothing says that it was synced, *and* it looks as a lost write does. It and
//!   all behind it is not part of the log: its writing was never reported as durable.
//! - Damage again, if nothing says that it was synced, but no lost write explains it.
//!
//! A lost write leaves the file shorter, or zeros: files only grow, and a disk writes whole sectors. The zeros go
//! from the frame's beginning, if an earlier write reached the sector, or from the sector's, to the sector's or
//! the file's end. They are not taken for the frame's own: it begins and ends in bytes that are not zero,
//! and its header says how many of the sectors in its payload are zero. So a flipped bit of a log whose frames were
//! all written is damage, also behind the last mark.
//!
//! What remains, behind the last mark: a medium that turns whole sectors to zero, or a flipped bit that was the only
//! one set in its sector, is taken for a lost write. And a file system that shows what a block held earlier in place
//! of a lost write is taken for damage.

use crate::error::{FormatError, Result};
use crate::frame::{
    BEGIN_MARK, END_MARK, FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FRAME_OVERHEAD_BYTES, FileHeader,
    FrameHeader, LogKind, SECTOR_BYTES, check, is_zero, zero_sectors,
};

/// A frame with a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The frame's number: one more than that of the frame before it. In the write-ahead log it is the LSN.
    pub sequence: u64,
    /// What was logged. Its checksum holds; what the bytes mean is not checked yet.
    pub payload: &'a [u8],
}

/// Reads the frames of one log file in order.
#[derive(Debug, Clone)]
pub struct FrameReader<'a> {
    nonce: u32,
    /// From a sector boundary to the end of the file.
    bytes: &'a [u8],
    at: usize,
    next: u64,
    synced_before: u64,
}

/// A whole frame, with the place where the next one begins.
struct Whole<'a> {
    header: FrameHeader,
    payload: &'a [u8],
    end: usize,
}

impl<'a> FrameReader<'a> {
    /// Reads a log file, whose content is `bytes` and whose first frame is `first`, from its header on.
    pub fn new(
        bytes: &'a [u8],
        kind: LogKind,
        first: u64,
    ) -> Result<(FileHeader, FrameReader<'a>)> {
        let header = FileHeader::read(bytes, kind)?;
        Ok((header, FrameReader::resume(&header, bytes, FILE_HEADER_BYTES, first)))
    }

    /// Goes on in the middle of a log file with frame `next`. `bytes` reach from a multiple of 512 in the file
    /// to its end; the frame begins at byte `at` of them.
    pub fn resume(header: &FileHeader, bytes: &'a [u8], at: usize, next: u64) -> FrameReader<'a> {
        assert!(at <= bytes.len(), "byte {at} of a log of {}", bytes.len());
        FrameReader { nonce: header.nonce, bytes, at, next, synced_before: 0 }
    }

    /// Takes it as known that all frames before `sequence` were synced, so one of them that does not check is
    /// damaged. Whether the file ends before them is for the caller to see.
    pub fn expect_synced(&mut self, sequence: u64) {
        self.synced_before = self.synced_before.max(sequence);
    }

    /// The number of the next frame.
    pub fn next_sequence(&self) -> u64 {
        self.next
    }

    /// Where in `bytes` the next frame begins; at the end of the log, where it ends.
    pub fn at(&self) -> usize {
        self.at
    }

    /// All frames before this one were synced, as far as is known from what was read; 0 if nothing is known. At the end
    /// of the log that includes what lies behind it.
    pub fn synced_before(&self) -> u64 {
        self.synced_before
    }

    /// The next frame, or `None` where the log ends. Closing frames are passed over.
    ///
    /// # Errors
    /// The frame at [`at`](FrameReader::at) is damaged, or has another number than the next one.
    ///
    /// Costs as much as the frame is long; at the end of the log, as much as what lies behind it.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'a>>> {
        while self.at < self.bytes.len() {
            let Whole { header, payload, end } = match self.whole_frame() {
                Ok(frame) => frame,
                Err(damage) => {
                    self.synced_before = self.synced_before.max(self.highest_mark());
                    let was_synced = self.next < self.synced_before;
                    let is_end = !was_synced && self.is_lost();
                    return if is_end { Ok(None) } else { Err(damage) };
                }
            };
            if header.sequence != self.next {
                let detail = format!("number {} where {} belongs", header.sequence, self.next);
                return Err(FormatError::malformed("frame", detail));
            }
            self.synced_before = self.synced_before.max(header.synced_before());
            self.at = end;
            if !payload.is_empty() {
                self.next += 1;
                return Ok(Some(Frame { sequence: header.sequence, payload }));
            }
        }
        Ok(None)
    }

    fn whole_frame(&self) -> Result<Whole<'a>> {
        let rest = &self.bytes[self.at..];
        let Some((header, body)) = rest.split_first_chunk::<FRAME_HEADER_BYTES>() else {
            return Err(cut_short(rest.len(), FRAME_OVERHEAD_BYTES));
        };
        let header = FrameHeader::read(header, self.nonce)?;
        let payload_len = header.payload_len as usize;
        if body.len() <= payload_len {
            return Err(cut_short(rest.len(), FRAME_OVERHEAD_BYTES + payload_len));
        }
        let (payload, mark) = (&body[..payload_len], body[payload_len]);
        check("frame payload", header.payload_crc, crc32c::crc32c(payload))?;
        if mark != END_MARK {
            return Err(FormatError::malformed("frame", format!("it ends in {mark:#04x}")));
        }
        Ok(Whole { header, payload, end: self.at + FRAME_OVERHEAD_BYTES + payload_len })
    }

    /// The header of a frame that would begin at byte `at`, if there is one.
    fn header_at(&self, at: usize) -> Option<FrameHeader> {
        let header = self.bytes.get(at..)?.first_chunk::<FRAME_HEADER_BYTES>()?;
        if header[0] != BEGIN_MARK {
            return None;
        }
        FrameHeader::read(header, self.nonce).ok()
    }

    /// The highest mark of the frame that does not check and of those behind it, 0 if no header of them is
    /// whole. Their payloads need not be: a header that was written says the truth.
    fn highest_mark(&self) -> u64 {
        let headers = (self.at..self.bytes.len()).filter_map(|at| {
            let header = self.header_at(at)?;
            let frames_between = header.sequence.checked_sub(self.next)?;
            let has_room = frames_between <= ((at - self.at) / FRAME_OVERHEAD_BYTES) as u64;
            has_room.then(|| header.synced_before())
        });
        headers.max().unwrap_or(0)
    }

    /// Whether bytes that never reached the disk explain that the frame does not check: the file ends in it,
    /// or a sector of it is zero that was not.
    fn is_lost(&self) -> bool {
        let len = self.bytes.len();
        let header = self.header_at(self.at);
        let payload_len = header.map_or(0, |header| header.payload_len as usize);
        let payload_at = self.at + FRAME_HEADER_BYTES;
        // Where the header is not whole, it must be the header that is lost.
        let end = if header.is_some() { payload_at + payload_len + 1 } else { payload_at };
        if end > len {
            return true;
        }
        let is_zero_to_boundary = |from: usize| {
            is_zero(&self.bytes[from..len.min((from + 1).next_multiple_of(SECTOR_BYTES))])
        };
        let payload = &self.bytes[payload_at..payload_at + payload_len];
        let zeros = zero_sectors(payload, payload_at as u64);
        if header.is_some_and(|header| zeros > header.zero_sectors) {
            return true;
        }
        // The other sectors hold bytes that are not zero: a mark, or the payload's first byte behind the header.
        let boundaries = (self.at + 1).next_multiple_of(SECTOR_BYTES)..end;
        let is_in_payload =
            |at: &usize| *at >= payload_at && at + SECTOR_BYTES <= payload_at + payload_len;
        let mut others = boundaries.step_by(SECTOR_BYTES).filter(|at| !is_in_payload(at));
        is_zero_to_boundary(self.at) || others.any(is_zero_to_boundary)
    }
}

fn cut_short(found: usize, expected: usize) -> FormatError {
    FormatError::malformed("frame", format!("it has {found} of at least {expected} bytes"))
}

#[cfg(test)]
mod tests;

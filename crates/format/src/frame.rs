//! Log files, which the write-ahead log and the manifest are.
//!
//! A log file is a header and frames back to back, numbered without gaps. A frame also says how far the log
//! was on stable storage when the frame was written: its *mark*. [`frame_reader`](crate::frame_reader) says what
//! that is for. Drawn in `docs/format.md`, section "Log files".

use crate::cursor::{put_u32, put_u64};
use crate::error::{FormatError, Result};

/// The bytes before the first frame of a log file.
pub const FILE_HEADER_BYTES: usize = 32;
/// The bytes before a frame's payload.
pub const FRAME_HEADER_BYTES: usize = 28;
/// The bytes a frame takes beside its payload.
pub const FRAME_OVERHEAD_BYTES: usize = FRAME_HEADER_BYTES + 1;

const VERSION: u32 = 2;

/// The first byte of a frame and its last. Neither is zero, so that a frame whose first or last bytes never
/// reached the disk shows it.
pub(crate) const BEGIN_MARK: u8 = 0x5a;
pub(crate) const END_MARK: u8 = 0xa5;

/// The unit in which disks write.
pub(crate) const SECTOR_BYTES: usize = 512;

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

/// What the header of a log file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileHeader {
    pub kind: LogKind,
    /// Goes into the checksum of each frame's header, so that the bytes of another file's frames are no
    /// frame in this one, wherever they turn up.
    pub nonce: u32,
    /// The number of the first frame. What is before it is on stable storage.
    pub first: u64,
}

impl FileHeader {
    fn put(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.kind.magic());
        put_u32(out, VERSION);
        let checksum = crc32c::crc32c(&out[start..]);
        put_u32(out, checksum);
        put_u32(out, self.nonce);
        put_u64(out, self.first);
        let checksum = crc32c::crc32c(&out[start..]);
        put_u32(out, checksum);
    }

    /// Reads the header at the beginning of a log file.
    pub fn read(bytes: &[u8], kind: LogKind) -> Result<FileHeader> {
        let what = kind.header_name();
        let Some((header, _)) = bytes.split_first_chunk::<FILE_HEADER_BYTES>() else {
            let detail = format!("it has {} of {FILE_HEADER_BYTES} bytes", bytes.len());
            return Err(FormatError::malformed(what, detail));
        };
        let magic = kind.magic();
        if header[..8] != magic {
            let detail = format!(
                "it begins with \"{}\", expected \"{}\"",
                header[..8].escape_ascii(),
                magic.escape_ascii()
            );
            return Err(FormatError::malformed(what, detail));
        }
        // The first 16 bytes are the same in all versions.
        check(what, u32_at(header, 12), crc32c::crc32c(&header[..12]))?;
        let version = u32_at(header, 8);
        if version != VERSION {
            return Err(FormatError::Version { what, found: version, supported: VERSION });
        }
        check(what, u32_at(header, 28), crc32c::crc32c(&header[..28]))?;
        Ok(FileHeader { kind, nonce: u32_at(header, 16), first: u64_at(header, 20) })
    }
}

/// Encodes the frames of one log file, one behind the other, and keeps count of what is synced of them.
#[derive(Debug, Clone)]
pub struct FrameWriter {
    nonce: u32,
    /// Where in the file the next frame begins.
    offset: u64,
    next: u64,
    synced_before: u64,
}

impl FrameWriter {
    /// Begins a file: appends its header to `out`. All before `header.first` must be on stable storage.
    pub fn begin(header: FileHeader, out: &mut Vec<u8>) -> FrameWriter {
        header.put(out);
        let FileHeader { nonce, first, .. } = header;
        let offset = FILE_HEADER_BYTES as u64;
        FrameWriter { nonce, offset, next: first, synced_before: first }
    }

    /// The number of the next frame.
    pub fn next_sequence(&self) -> u64 {
        self.next
    }

    /// Whether all frames so far were noted as synced.
    pub fn is_synced(&self) -> bool {
        self.synced_before == self.next
    }

    /// Notes that all frames so far are on stable storage, for those that follow to say.
    pub fn note_synced(&mut self) {
        self.synced_before = self.next;
    }

    /// Appends the next frame to `out`, which goes to the end of the file. The payload is not empty.
    pub fn put(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        assert!(!payload.is_empty(), "a frame without a payload is a closing one");
        self.put_frame(payload, out);
        self.next += 1;
    }

    /// Appends a closing frame: it says that all before it is on stable storage, and nothing else.
    pub fn put_closing(&mut self, out: &mut Vec<u8>) {
        assert!(self.is_synced(), "a closing frame says that all before it is synced");
        self.put_frame(&[], out);
    }

    fn put_frame(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        let unsynced = self.next - self.synced_before;
        let header = FrameHeader {
            zero_sectors: zero_sectors(payload, self.offset + FRAME_HEADER_BYTES as u64),
            payload_len: u32::try_from(payload.len()).expect("a frame is shorter than 4 GiB"),
            sequence: self.next,
            // A mark that is too low is true as well.
            unsynced: u32::try_from(unsynced).unwrap_or(u32::MAX),
            payload_crc: crc32c::crc32c(payload),
        };
        out.reserve(payload.len() + FRAME_OVERHEAD_BYTES);
        out.extend_from_slice(&header.encode(self.nonce));
        out.extend_from_slice(payload);
        out.push(END_MARK);
        self.offset += (payload.len() + FRAME_OVERHEAD_BYTES) as u64;
    }
}

/// What the header of a frame says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    /// See [`zero_sectors`].
    pub zero_sectors: u32,
    pub payload_len: u32,
    pub sequence: u64,
    /// How many frames right before this one were not known to be synced when it was written.
    pub unsynced: u32,
    pub payload_crc: u32,
}

impl FrameHeader {
    fn encode(&self, nonce: u32) -> [u8; FRAME_HEADER_BYTES] {
        let mut header = [0; FRAME_HEADER_BYTES];
        // A frame is shorter than 2^23 sectors, so three bytes are enough.
        header[..4].copy_from_slice(&(self.zero_sectors << 8 | BEGIN_MARK as u32).to_le_bytes());
        header[4..8].copy_from_slice(&self.payload_len.to_le_bytes());
        header[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        header[16..20].copy_from_slice(&self.unsynced.to_le_bytes());
        header[20..24].copy_from_slice(&self.payload_crc.to_le_bytes());
        let checksum = crc32c::crc32c_append(nonce, &header[..24]);
        header[24..].copy_from_slice(&checksum.to_le_bytes());
        header
    }

    pub fn read(bytes: &[u8; FRAME_HEADER_BYTES], nonce: u32) -> Result<FrameHeader> {
        let what = "frame header";
        check(what, u32_at(bytes, 24), crc32c::crc32c_append(nonce, &bytes[..24]))?;
        if bytes[0] != BEGIN_MARK {
            return Err(FormatError::malformed(what, format!("it begins with {:#04x}", bytes[0])));
        }
        let header = FrameHeader {
            zero_sectors: u32_at(bytes, 0) >> 8,
            payload_len: u32_at(bytes, 4),
            sequence: u64_at(bytes, 8),
            unsynced: u32_at(bytes, 16),
            payload_crc: u32_at(bytes, 20),
        };
        if u64::from(header.unsynced) > header.sequence {
            let FrameHeader { sequence, unsynced, .. } = header;
            let detail = format!("{unsynced} frames before frame {sequence} are not synced");
            return Err(FormatError::malformed(what, detail));
        }
        Ok(header)
    }

    /// The mark: all before this frame was synced when the header was written.
    pub fn synced_before(&self) -> u64 {
        self.sequence - u64::from(self.unsynced)
    }
}

/// How many of the file's sectors that lie wholly in a payload, which begins at byte `offset`, hold nothing but
/// zeros.
pub(crate) fn zero_sectors(payload: &[u8], offset: u64) -> u32 {
    let first = (offset.next_multiple_of(SECTOR_BYTES as u64) - offset) as usize;
    let sectors = payload.get(first..).unwrap_or_default().chunks_exact(SECTOR_BYTES);
    sectors.filter(|sector| is_zero(sector)).count() as u32
}

pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

pub(crate) fn check(what: &'static str, expected: u32, found: u32) -> Result<()> {
    if found == expected { Ok(()) } else { Err(FormatError::Checksum { what, found, expected }) }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes were sliced"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes were sliced"))
}

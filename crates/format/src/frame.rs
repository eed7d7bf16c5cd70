//! Log files, which the write-ahead log and the manifest are.
//!
//! A log file is a header and frames back to back, numbered without gaps. A frame also says how far the log
//! was on stable storage when the frame was written: its *mark*. [`frame_reader`](crate::frame_reader) says what
//! that is for. Drawn in `docs/format.md`, section "Log files".

use crate::cursor::put_u32;
use crate::error::{FormatError, Result};

/// The bytes before the first frame of a log file.
pub const FILE_HEADER_BYTES: usize = 24;
/// The bytes before a frame's payload.
pub const FRAME_HEADER_BYTES: usize = 28;
/// The bytes a frame takes beside its payload.
pub const FRAME_OVERHEAD_BYTES: usize = FRAME_HEADER_BYTES + 1;

const VERSION: u32 = 5;

/// The first byte of a frame and its last. Neither is zero, so that a frame whose first or last bytes never
/// reached the disk shows it.
pub(crate) const BEGIN_MARK: u8 = 0x5a;
pub(crate) const END_MARK: u8 = 0xa5;

/// The unit in which disks write.
pub(crate) const SECTOR_BYTES: usize = 512;

/// Which log a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    /// The write-ahead log: one frame per commit.
    Wal,
    /// The manifest: one frame per list of edits.
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
    /// Which log the file belongs to. Each kind begins with other bytes, so one is not read as the other.
    pub kind: LogKind,
    /// Goes into the checksum of each frame's header, so that the bytes of another file's frames are no
    /// frame in this one, wherever they turn up.
    pub nonce: u32,
}

impl FileHeader {
    /// Appends the header, with which a log file begins.
    pub fn put(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.kind.magic());
        put_u32(out, VERSION);
        let checksum = crc32c::crc32c(&out[start..]);
        put_u32(out, checksum);
        put_u32(out, self.nonce);
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
        check(what, u32_at(header, 20), crc32c::crc32c(&header[..20]))?;
        Ok(FileHeader { kind, nonce: u32_at(header, 16) })
    }
}

/// A payload under construction, with room before it for its frame's header.
#[derive(Debug, Clone)]
pub struct PayloadBuilder {
    frame: Vec<u8>,
}

/// A payload in its frame, of which all is known but what depends on its place in a log. So little is left to do once it
/// has one.
#[derive(Debug, Clone)]
pub struct Payload {
    frame: Vec<u8>,
    crc: u32,
    /// Whether a sector of it may be zero, wherever it comes to lie.
    may_have_zero_sectors: bool,
}

impl PayloadBuilder {
    /// An empty one, with room for `capacity` bytes.
    pub fn new(capacity: usize) -> PayloadBuilder {
        let mut frame = Vec::with_capacity(capacity + FRAME_OVERHEAD_BYTES);
        frame.resize(FRAME_HEADER_BYTES, 0);
        PayloadBuilder { frame }
    }

    /// What the payload is appended to.
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.frame
    }

    /// The payload, which must not be empty. Costs as much as it is long.
    pub fn finish(self) -> Payload {
        let PayloadBuilder { mut frame } = self;
        let payload = &frame[FRAME_HEADER_BYTES..];
        assert!(!payload.is_empty(), "a frame without a payload is a closing one");
        let crc = crc32c::crc32c(payload);
        // A sector has one of these in it, wherever it begins.
        let may_have_zero_sectors = payload.chunks_exact(SECTOR_BYTES / 2).any(is_zero);
        frame.push(END_MARK);
        Payload { frame, crc, may_have_zero_sectors }
    }
}

impl Payload {
    /// A payload of these bytes, of which there must be some.
    pub fn of(bytes: &[u8]) -> Payload {
        let mut payload = PayloadBuilder::new(bytes.len());
        payload.out().extend_from_slice(bytes);
        payload.finish()
    }

    fn bytes(&self) -> &[u8] {
        &self.frame[FRAME_HEADER_BYTES..self.frame.len() - 1]
    }

    /// The bytes of its frame.
    pub fn frame_bytes(&self) -> usize {
        self.frame.len()
    }
}

/// Numbers the frames of one log file, places them one behind the other, and keeps count of what is synced of the log.
#[derive(Debug, Clone)]
pub struct FrameWriter {
    nonce: u32,
    /// Where in the file the next frame begins.
    offset: u64,
    next: u64,
    synced_before: u64,
}

impl FrameWriter {
    /// Of a file with this header, in which nothing is behind it yet: it goes on with frame `first`. All frames before
    /// `synced_before` must be on stable storage.
    pub fn new(header: FileHeader, first: u64, synced_before: u64) -> FrameWriter {
        let offset = FILE_HEADER_BYTES as u64;
        FrameWriter { nonce: header.nonce, offset, next: first, synced_before }
    }

    /// The number of the next frame.
    pub fn next_sequence(&self) -> u64 {
        self.next
    }

    /// Frames before this one are on stable storage, as far as that was noted.
    pub fn synced_before(&self) -> u64 {
        self.synced_before
    }

    /// Notes that all frames so far are on stable storage, for those that follow to say.
    pub fn note_synced(&mut self) {
        self.synced_before = self.next;
    }

    /// Notes that all frames before `sequence` are on stable storage, for those that follow to say.
    pub fn note_synced_before(&mut self, sequence: u64) {
        assert!(sequence <= self.next, "what is synced was written");
        self.synced_before = self.synced_before.max(sequence);
    }

    /// The next frame, complete. It goes to the end of the file.
    pub fn place<'a>(&mut self, payload: &'a mut Payload) -> &'a [u8] {
        let zero_sectors = match payload.may_have_zero_sectors {
            true => zero_sectors(payload.bytes(), self.payload_offset()),
            false => 0,
        };
        let header = self.header(payload.bytes().len(), payload.crc, zero_sectors);
        payload.frame[..FRAME_HEADER_BYTES].copy_from_slice(&header);
        self.next += 1;
        self.offset += payload.frame.len() as u64;
        &payload.frame
    }

    /// Appends the next frame to `out`, which goes to the end of the file. The payload is not empty.
    pub fn put(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        assert!(!payload.is_empty(), "a frame without a payload is a closing one");
        self.put_frame(payload, out);
        self.next += 1;
    }

    /// Appends a closing frame: it says that all before it is on stable storage, and nothing else.
    pub fn put_closing(&mut self, out: &mut Vec<u8>) {
        assert!(
            self.synced_before == self.next,
            "a closing frame says that all before it is synced"
        );
        self.put_frame(&[], out);
    }

    fn put_frame(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        let zero_sectors = zero_sectors(payload, self.payload_offset());
        let header = self.header(payload.len(), crc32c::crc32c(payload), zero_sectors);
        out.reserve(payload.len() + FRAME_OVERHEAD_BYTES);
        out.extend_from_slice(&header);
        out.extend_from_slice(payload);
        out.push(END_MARK);
        self.offset += (payload.len() + FRAME_OVERHEAD_BYTES) as u64;
    }

    /// Where in the file the payload of the next frame begins.
    fn payload_offset(&self) -> u64 {
        self.offset + FRAME_HEADER_BYTES as u64
    }

    /// The header of the next frame.
    fn header(
        &self,
        payload_len: usize,
        payload_crc: u32,
        zero_sectors: u32,
    ) -> [u8; FRAME_HEADER_BYTES] {
        let unsynced = self.next - self.synced_before;
        let header = FrameHeader {
            zero_sectors,
            payload_len: u32::try_from(payload_len).expect("a frame is shorter than 4 GiB"),
            sequence: self.next,
            // A mark that is too low is true as well.
            unsynced: u32::try_from(unsynced).unwrap_or(u32::MAX),
            payload_crc,
        };
        header.encode(self.nonce)
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

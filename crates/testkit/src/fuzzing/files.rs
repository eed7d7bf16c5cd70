//! Files of a database as parts: their frames and pages, without checksums.
//!
//! [`assemble`] writes each page at the place where it comes to lie, and each frame, with the checksums that belong to it;
//! [`take_apart`] does the reverse with files of the store. So a mutation of the parts is a crafted file with right checksums.

use drillcore::directory::{Directory, MemoryDirectory, read_file};
use drillcore_format::file_tail::{FileKind, FileTail, TAIL_BYTES};
use drillcore_format::frame::{FileHeader, FrameWriter, LogKind};
use drillcore_format::frame_reader::FrameReader;
use drillcore_format::ids::SegmentId;
use drillcore_format::page::{PAGE_BYTES, PageAddress, PageKind, page_len, read_page, write_page};
use drillcore_storage::pages::paged_file::{file_name, file_of};

use super::pages::KINDS;
use super::parts::number;

// The first byte of a part. Pages have that of their kind, 1 to 8.
/// A manifest begins: its number, eight bytes.
const MANIFEST: u8 = 0x10;
/// A frame of the log file that was begun: eight bytes that only tell what it is, and its payload. Frames are numbered as
/// they come.
const FRAME: u8 = 0x11;
/// A file of the write-ahead log begins: the commit that names it, eight bytes.
const WAL: u8 = 0x20;
/// A segment begins: its number, eight bytes.
const SEGMENT: u8 = 0x30;
/// A postings file begins: its number, eight bytes.
const POSTINGS: u8 = 0x31;

/// The fingerprint of each file: one that was changed passes for the file that the manifest describes.
pub const FINGERPRINT: u64 = 7;

/// A file that parts are being added to.
struct File {
    name: String,
    /// Of a file of pages.
    paged: Option<(FileKind, SegmentId)>,
    /// Of a log file.
    frames: Option<FrameWriter>,
    bytes: Vec<u8>,
    /// The kind of the last page.
    last: Option<PageKind>,
    /// Where the last footer page lies.
    footer: (u64, u32),
}

impl File {
    fn begin(mark: u8, at: u64) -> File {
        let mut bytes = Vec::new();
        let nonce = at as u32;
        let mut log = |kind, first| {
            let header = FileHeader { kind, nonce };
            header.put(&mut bytes);
            // Room for the numbers of the frames that follow.
            let first = u64::min(first, u64::MAX / 2);
            Some(FrameWriter::new(header, first, first))
        };
        let ((name, paged), frames) = match mark {
            MANIFEST => ((format!("manifest-{at:08}.log"), None), log(LogKind::Manifest, 0)),
            WAL => ((format!("wal-{at:020}.log"), None), log(LogKind::Wal, at)),
            SEGMENT => (named(FileKind::Segment, at), None),
            _ => (named(FileKind::Postings, at), None),
        };
        File { name, paged, frames, bytes, last: None, footer: (0, 0) }
    }

    fn add(&mut self, part: &[u8]) {
        match (part[0], self.paged) {
            (FRAME, None) => {
                let frames = self.frames.as_mut().expect("it is a log");
                put_frame(frames, part.get(9..).unwrap_or_default(), &mut self.bytes);
            }
            (mark, Some((_, segment))) => {
                let Some(kind) = KINDS.into_iter().find(|kind| *kind as u8 == mark) else { return };
                // The last stream page of a group is padded, and the last long value before blocks.
                let last = self.last.replace(kind);
                if matches!(last, Some(PageKind::Stream | PageKind::Extent)) && last != Some(kind) {
                    self.bytes.resize(self.bytes.len().next_multiple_of(PAGE_BYTES), 0);
                }
                let offset = self.bytes.len() as u64;
                let address = PageAddress { segment, offset };
                write_page(kind, address, &part[1..], is_padded(kind), &mut self.bytes);
                if kind == PageKind::Footer {
                    self.footer = (offset, (self.bytes.len() as u64 - offset) as u32);
                }
            }
            _ => {}
        }
    }

    fn finish(mut self, directory: &MemoryDirectory) {
        if let Some((kind, _)) = self.paged {
            let (footer_offset, footer_bytes) = self.footer;
            let tail = FileTail { footer_offset, footer_bytes, fingerprint: FINGERPRINT };
            tail.write(kind, &mut self.bytes);
        }
        // Of two files of one name the first stays.
        if let Ok(file) = directory.create(&self.name) {
            file.write_all(&self.bytes).expect("memory is there");
        }
    }
}

/// Appends a frame; one without a payload is a closing one.
pub fn put_frame(frames: &mut FrameWriter, payload: &[u8], out: &mut Vec<u8>) {
    if payload.is_empty() {
        frames.note_synced();
        frames.put_closing(out);
    } else {
        frames.put(payload, out);
    }
}

fn named(kind: FileKind, at: u64) -> (String, Option<(FileKind, SegmentId)>) {
    let id = SegmentId(at);
    (file_name(kind, id), Some((kind, id)))
}

/// Whether pages of a kind are filled up to whole pages.
fn is_padded(kind: PageKind) -> bool {
    !matches!(
        kind,
        PageKind::SetSummary
            | PageKind::Summary
            | PageKind::Footer
            | PageKind::Stream
            | PageKind::Extent
    )
}

/// The folder of these files.
pub fn assemble<'a>(parts: impl IntoIterator<Item = &'a Vec<u8>>) -> MemoryDirectory {
    let directory = MemoryDirectory::new();
    let mut file: Option<File> = None;
    for part in parts {
        match part.first() {
            None => {}
            Some(&mark @ (MANIFEST | WAL | SEGMENT | POSTINGS)) => {
                let begun = file.replace(File::begin(mark, number(part, 1)));
                begun.into_iter().for_each(|file| file.finish(&directory));
            }
            Some(_) => file.iter_mut().for_each(|file| file.add(part)),
        }
    }
    file.into_iter().for_each(|file| file.finish(&directory));
    directory
}

/// The parts of all files of a closed database.
///
/// # Panics
/// If they are not whole.
pub fn take_apart(directory: &MemoryDirectory) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    for name in directory.list().expect("memory is there") {
        let bytes = read_file(directory, &name).expect("the file is there");
        let log = |stem: &str| name.strip_prefix(stem)?.strip_suffix(".log")?.parse::<u64>().ok();
        if let Some((kind, id)) = file_of(&name) {
            parts.push(mark(if kind == FileKind::Segment { SEGMENT } else { POSTINGS }, id.0));
            parts.extend(pages(&bytes, id));
        } else if let Some(number) = log("manifest-") {
            parts.push(mark(MANIFEST, number));
            parts.extend(frames(&bytes, LogKind::Manifest, 0));
        } else if let Some(number) = log("wal-") {
            parts.push(mark(WAL, number));
            parts.extend(frames(&bytes, LogKind::Wal, number));
        }
    }
    parts
}

fn mark(mark: u8, number: u64) -> Vec<u8> {
    let mut part = vec![mark];
    part.extend_from_slice(&number.to_le_bytes());
    part
}

fn frames(bytes: &[u8], kind: LogKind, first: u64) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let (_, mut reader) = FrameReader::new(bytes, kind, first).expect("a whole log");
    while let Some(frame) = reader.next_frame().expect("a whole log") {
        let mut part = mark(FRAME, frame.sequence);
        part.extend_from_slice(frame.payload);
        frames.push(part);
    }
    frames
}

/// The pages of a file of pages: the kind of each and its payload.
pub fn pages(bytes: &[u8], segment: SegmentId) -> Vec<Vec<u8>> {
    let (mut pages, mut at) = (Vec::new(), 0);
    while at < bytes.len() - TAIL_BYTES {
        // What the last stream page of a group is padded with.
        if bytes[at + 4] == 0 {
            at = (at + 1).next_multiple_of(PAGE_BYTES);
            continue;
        }
        let payload_len =
            u32::from_le_bytes(bytes[at + 8..at + 12].try_into().expect("four bytes"));
        let kind = KINDS.into_iter().find(|kind| *kind as u8 == bytes[at + 4]);
        let kind = kind.expect("a whole file of pages");
        let len = page_len(at as u64, payload_len as usize, is_padded(kind));
        let address = PageAddress { segment, offset: at as u64 };
        let payload = read_page(&bytes[at..at + len], kind, address).expect("a whole page");
        pages.push([&[kind as u8], payload].concat());
        at += len;
    }
    pages
}

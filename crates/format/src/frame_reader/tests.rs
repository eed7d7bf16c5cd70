use std::ops::Range;

use proptest::prelude::*;

use super::*;
use crate::frame::FrameWriter;
use crate::logged_commit::decode_commit;

const FIRST: u64 = 40;
const HEADER: FileHeader = FileHeader { kind: LogKind::Wal, nonce: 0xfeed };

/// A log file in memory.
struct Log {
    bytes: Vec<u8>,
    payloads: Vec<Vec<u8>>,
    /// Where the file header and each frame end.
    ends: Vec<usize>,
    frames: FrameWriter,
}

impl Log {
    fn new(header: FileHeader) -> Log {
        let mut bytes = Vec::new();
        header.put(&mut bytes);
        let frames = FrameWriter::new(header, FIRST, FIRST);
        Log { payloads: Vec::new(), ends: vec![bytes.len()], bytes, frames }
    }

    fn put(&mut self, payload: Vec<u8>) {
        self.frames.put(&payload, &mut self.bytes);
        self.payloads.push(payload);
        self.ends.push(self.bytes.len());
    }

    /// All payloads; of the frames `synced` were synced before the next one was put.
    fn of(payloads: &[Vec<u8>], synced: usize) -> Log {
        let mut log = Log::new(HEADER);
        for (number, payload) in payloads.iter().enumerate() {
            if number == synced {
                log.frames.note_synced();
            }
            log.put(payload.clone());
        }
        log
    }

    fn frame(&self, number: usize) -> Range<usize> {
        self.ends[number]..self.ends[number + 1]
    }

    /// How many frames come before the first one with a byte in which `bytes` differ.
    fn whole_in(&self, bytes: &[u8]) -> usize {
        let is_whole = |number: &usize| {
            bytes.get(self.frame(*number)) == Some(&self.bytes[self.frame(*number)])
        };
        (0..self.payloads.len()).take_while(is_whole).count()
    }
}

/// The payloads up to the end of the log.
fn read(bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
    let (_, mut frames) = FrameReader::new(bytes, LogKind::Wal, FIRST)?;
    let mut payloads = Vec::new();
    for number in FIRST.. {
        let Some(frame) = frames.next_frame()? else { break };
        assert_eq!(frame.sequence, number);
        payloads.push(frame.payload.to_vec());
    }
    Ok(payloads)
}

/// Frames of a few bytes and of several sectors, with zeros where encoded blocks have them and whole sectors of
/// them. The file header and the frames take nine sectors.
fn payloads() -> Vec<Vec<u8>> {
    let counted = |from: u32, len: u32| (from..from + len).map(|i| (i % 251) as u8);
    vec![
        b"first".to_vec(),
        counted(7, 500).chain([0; 1200]).collect(),
        counted(90, 90).chain([0; 90]).collect(),
        b"short".to_vec(),
        counted(3, 1300).chain([0; 700]).collect(),
        vec![0x31; 60],
    ]
}

fn sectors(log: &Log) -> usize {
    log.bytes.len().div_ceil(SECTOR_BYTES)
}

/// What is left of a log if of the bytes from `from` on the chosen sectors are lost.
fn lose(log: &Log, from: usize, is_lost: impl Fn(usize) -> bool) -> Vec<u8> {
    let mut bytes = log.bytes.clone();
    for sector in (0..sectors(log)).filter(|sector| is_lost(*sector)) {
        let end = bytes.len().min((sector + 1) * SECTOR_BYTES);
        bytes[(sector * SECTOR_BYTES).max(from)..end.max(from)].fill(0);
    }
    bytes
}

#[test]
fn every_truncation_of_an_unsynced_log_yields_a_prefix_of_its_frames() {
    let log = Log::of(&payloads(), 0);
    for len in FILE_HEADER_BYTES..=log.bytes.len() {
        let whole = log.ends.iter().filter(|end| **end <= len).count() - 1;
        assert_eq!(read(&log.bytes[..len]).unwrap(), log.payloads[..whole], "{len} bytes");
    }
    assert!(
        read(&log.bytes[..FILE_HEADER_BYTES - 1]).is_err(),
        "a file has its name with its header"
    );
}

#[test]
fn every_flipped_bit_of_a_log_is_an_error_however_much_of_it_was_synced() {
    for synced in [0, 3, payloads().len()] {
        let mut log = Log::of(&payloads(), synced);
        if synced == payloads().len() {
            log.frames.note_synced();
            log.frames.put_closing(&mut log.bytes);
        }
        for bit in 0..log.bytes.len() * 8 {
            let mut bytes = log.bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&bytes).is_err(), "bit {bit}, {synced} frames synced");
        }
    }
}

#[test]
fn whichever_unsynced_sectors_are_lost_the_frames_before_them_are_left() {
    for synced in 0..payloads().len() {
        let log = Log::of(&payloads(), synced);
        assert_eq!(sectors(&log), 9);
        for lost in 0..1u32 << sectors(&log) {
            let bytes = lose(&log, log.ends[synced], |sector| lost >> sector & 1 == 1);
            // The file may be shorter, too.
            for len in [bytes.len(), bytes.len() - 40, bytes.len().min(2_000)] {
                let bytes = &bytes[..len.max(log.ends[synced])];
                let whole = log.whole_in(bytes);
                assert!(whole >= synced);
                let context = format!("{synced} synced, {len} bytes, lost: {lost:09b}");
                let found = read(bytes).unwrap_or_else(|error| panic!("{context}: {error}"));
                assert_eq!(found.len(), whole, "{context}");
                assert_eq!(found, log.payloads[..whole], "{context}");
            }
        }
    }
}

/// A page goes to the disk with the frames that there are, and again with those that came later, or not.
#[test]
fn a_sector_that_was_written_before_its_last_frame_was_put_ends_the_log_there() {
    let log = Log::of(&payloads(), 0);
    for end in &log.ends {
        for sector in 0..sectors(&log) {
            let bytes = lose(&log, *end, |lost| lost == sector);
            let found = read(&bytes).unwrap_or_else(|error| panic!("{end}, {sector}: {error}"));
            assert_eq!(found, log.payloads[..log.whole_in(&bytes)], "{end}, {sector}");
        }
    }
}

#[test]
fn a_lost_sector_of_a_synced_frame_is_damage_if_a_frame_behind_it_says_so() {
    let mut damaged = 0;
    for synced in 1..payloads().len() {
        let log = Log::of(&payloads(), synced);
        for lost in 0..1u32 << sectors(&log) {
            let bytes = lose(&log, FILE_HEADER_BYTES, |sector| lost >> sector & 1 == 1);
            let whole = log.whole_in(&bytes);
            let is_header_whole = |number: usize| {
                let header = log.ends[number]..log.ends[number] + FRAME_HEADER_BYTES;
                bytes[header.clone()] == log.bytes[header]
            };
            let is_known = (synced..payloads().len()).any(is_header_whole);
            let found = read(&bytes);
            let context = format!("{synced} synced, lost: {lost:09b}");
            if whole < synced && is_known {
                assert!(found.is_err(), "{context}");
                damaged += 1;
            } else {
                assert_eq!(found.unwrap(), log.payloads[..whole], "{context}");
            }
        }
    }
    assert!(damaged > 100, "{damaged}");
}

#[test]
fn what_the_caller_knows_to_be_synced_is_damaged_where_it_does_not_check() {
    let log = Log::of(&payloads(), 0);
    let bytes = lose(&log, log.ends[2], |sector| sector == log.ends[2] / SECTOR_BYTES);
    for (expected, is_error) in [(FIRST + 2, false), (FIRST + 3, true)] {
        let (_, mut frames) = FrameReader::new(&bytes, LogKind::Wal, FIRST).unwrap();
        frames.expect_synced(expected);
        assert!((0..2).all(|_| frames.next_frame().unwrap().is_some()));
        assert_eq!(frames.at(), log.ends[2]);
        assert_eq!(frames.next_frame().is_err(), is_error, "{expected}");
    }
}

#[test]
fn marks_say_how_far_the_log_was_synced_and_closing_frames_are_passed_over() {
    let mut log = Log::new(HEADER);
    log.put(b"a".to_vec());
    log.put(b"b".to_vec());
    log.frames.note_synced();
    log.put(b"c".to_vec());
    let synced_before = |bytes: &[u8]| {
        let (_, mut frames) = FrameReader::new(bytes, LogKind::Wal, FIRST).unwrap();
        while frames.next_frame().unwrap().is_some() {}
        frames.synced_before() - FIRST
    };
    assert_eq!(synced_before(&log.bytes[..log.ends[2]]), 0);
    assert_eq!(synced_before(&log.bytes), 2);
    // The header is enough, also of a frame that is no part of the log.
    assert_eq!(synced_before(&log.bytes[..log.ends[2] + FRAME_HEADER_BYTES]), 2);
    log.frames.note_synced();
    log.frames.put_closing(&mut log.bytes);
    assert_eq!(synced_before(&log.bytes), 3);
    log.put(b"d".to_vec());
    assert_eq!(read(&log.bytes).unwrap(), [b"a", b"b", b"c", b"d"]);
}

/// A row may hold the bytes of a log.
#[test]
fn frames_of_another_file_in_a_payload_are_no_frames() {
    let mut other = Log::new(FileHeader { nonce: 0xbeef, ..HEADER });
    for _ in 0..3 {
        other.put(vec![1; 50]);
        other.frames.note_synced();
    }
    let mut log = Log::of(&[vec![7; 700], vec![8; 700], other.bytes], 0);
    log.bytes[512..1024].fill(0);
    assert_eq!(read(&log.bytes), Ok(vec![]));
    // The same bytes in a file of that nonce would be a mark.
    let mut same = Log::of(&[vec![7; 700], vec![8; 700]], 0);
    same.frames.note_synced();
    same.put(vec![9]);
    same.bytes[512..1024].fill(0);
    assert!(read(&same.bytes).is_err());
}

#[test]
fn a_frame_with_another_number_than_the_next_is_an_error() {
    let mut log = Log::new(HEADER);
    log.put(b"a".to_vec());
    let (header, mut frames) = FrameReader::new(&log.bytes, LogKind::Wal, FIRST).unwrap();
    assert_eq!(header, HEADER);
    assert_eq!(frames.next_frame().unwrap(), Some(Frame { sequence: FIRST, payload: b"a" }));
    let mut resumed = FrameReader::resume(&header, &log.bytes, FILE_HEADER_BYTES, FIRST + 1);
    let error = resumed.next_frame().unwrap_err().to_string();
    assert!(error.contains("number 40 where 41 belongs"), "{error}");
}

#[test]
fn reading_goes_on_at_any_frame_from_any_sector_before_it() {
    let log = Log::of(&payloads(), 3);
    for (number, end) in log.ends[..payloads().len()].iter().enumerate() {
        for begin in (0..=*end).step_by(SECTOR_BYTES) {
            let next = FIRST + number as u64;
            let mut frames = FrameReader::resume(&HEADER, &log.bytes[begin..], end - begin, next);
            for payload in &log.payloads[number..] {
                assert_eq!(frames.next_frame().unwrap().unwrap().payload, payload);
            }
            assert_eq!(frames.next_frame(), Ok(None));
        }
    }
}

#[test]
fn a_log_of_the_other_kind_and_another_version_are_named() {
    let mut bytes = Log::new(FileHeader { kind: LogKind::Manifest, ..HEADER }).bytes;
    let error = FileHeader::read(&bytes, LogKind::Wal).unwrap_err();
    assert!(error.to_string().contains("DRILLMAN"), "{error}");
    for version in [1, 4, 6] {
        bytes[8] = version;
        let checksum = crc32c::crc32c(&bytes[..12]);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        let error = FileHeader::read(&bytes[..], LogKind::Manifest).unwrap_err();
        let found = u32::from(version);
        let what = "manifest file header";
        assert_eq!(error, FormatError::Version { what, found, supported: 5 });
    }
}

proptest! {
    #[test]
    fn frames_read_back(payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..1600), 0..8)) {
        let log = Log::of(&payloads, payloads.len() / 2);
        prop_assert_eq!(read(&log.bytes), Ok(payloads));
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0usize..200) {
        let at = at.min(bytes.len());
        let _ = FrameReader::resume(&HEADER, &bytes, at, FIRST).next_frame();
        let _ = FileHeader::read(&bytes, LogKind::Wal);
        let _ = decode_commit(&bytes);
    }
}

//! The files of the log: their names, which commit each begins with, and the frames in them.

use drillcore_format::frame::{FILE_HEADER_BYTES, FileHeader, LogKind};
use drillcore_format::frame_reader::FrameReader;
use drillcore_format::ids::Lsn;

use crate::error::{IoContext, Result, StorageError};
use crate::files::directory::{Directory, ReadFile};

/// The name, as far as it has one, of the file that is to become the next one.
pub const NEXT_FILE: &str = "wal-next.log";

/// The name of the file that begins with a commit.
pub fn file_name(first: Lsn) -> String {
    format!("wal-{:020}.log", first.0)
}

/// Whether a name is that of a log's file.
pub fn is_log_file(name: &str) -> bool {
    name.starts_with("wal-") && name.ends_with(".log")
}

/// The commit that a file begins with, by its name.
pub fn first_of(name: &str) -> Option<Lsn> {
    let first = name.strip_prefix("wal-")?.strip_suffix(".log")?.parse().ok().map(Lsn)?;
    (file_name(first) == name).then_some(first)
}

/// The log's files with the first LSN of each, oldest first.
pub fn log_files(directory: &dyn Directory) -> Result<Vec<(Lsn, String)>> {
    let names = directory.list().context("list", "the database directory")?;
    let mut files: Vec<(Lsn, String)> =
        names.into_iter().filter_map(|name| Some((first_of(&name)?, name))).collect();
    files.sort_unstable();
    Ok(files)
}

/// The frames of a log file, whose content is `bytes`.
pub fn frames_of<'a>(name: &str, first: Lsn, bytes: &'a [u8]) -> Result<FrameReader<'a>> {
    let damaged = |source| StorageError::Damaged { file: name.to_string(), offset: 0, source };
    let (_, frames) = FrameReader::new(bytes, LogKind::Wal, first.0).map_err(damaged)?;
    Ok(frames)
}

/// The header of a file that is read from somewhere in the middle.
pub fn header_of(name: &str, file: &dyn ReadFile) -> Result<FileHeader> {
    let mut header = [0; FILE_HEADER_BYTES];
    file.read_exact_at(&mut header, 0).context("read", name)?;
    let damaged = |source| StorageError::Damaged { file: name.to_string(), offset: 0, source };
    FileHeader::read(&header, LogKind::Wal).map_err(damaged)
}

/// The next commit of a file that is read from its byte `begin` on: up to where the next file takes over.
pub fn next_commit<'a>(
    name: &str,
    begin: u64,
    next_file: Option<Lsn>,
    frames: &mut FrameReader<'a>,
) -> Result<Option<(Lsn, &'a [u8])>> {
    if next_file.is_some_and(|next| frames.next_sequence() >= next.0) {
        return Ok(None);
    }
    let offset = begin + frames.at() as u64;
    let damaged = |source| StorageError::Damaged { file: name.to_string(), offset, source };
    let frame = frames.next_frame().map_err(damaged)?;
    Ok(frame.map(|frame| (Lsn(frame.sequence), frame.payload)))
}

/// The log starts no later than it is needed, and goes on in the next file where it ends in the one before. Before
/// that a file may be missing: of several removed ones a power cut can bring some back.
pub fn check_starts(file: &str, last: Option<Lsn>, needed_from: Lsn, first: Lsn) -> Result<()> {
    let detail = match last {
        _ if first <= needed_from => return Ok(()),
        Some(last) if first.0 <= last.0 + 1 => return Ok(()),
        Some(last) => format!("the log skips from commit {last} to commit {first}"),
        None => {
            format!("the log starts at commit {first}, but is needed from commit {needed_from}")
        }
    };
    Err(StorageError::Inconsistent { file: file.to_string(), detail })
}

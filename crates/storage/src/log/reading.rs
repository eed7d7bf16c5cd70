//! Reading a log that another process may be writing.

use drillcore_format::frame_reader::FrameReader;
use drillcore_format::ids::Lsn;

use crate::error::{IoContext, StorageError};
use crate::files::directory::Directory;
use crate::log::log_files::{check_starts, frames_of, header_of, log_files, next_commit};
use crate::log::synced_before::synced_before;

/// Where frames are read from, a multiple of this lies before them.
const SECTOR_BYTES: u64 = 512;

/// What [`read_log`] found, and how far it came.
#[derive(Debug, Clone, Default)]
pub struct LogRead {
    /// The last commit, if there is one.
    pub last: Option<Lsn>,
    /// The bytes of all files.
    pub bytes: u64,
    /// Those that were read.
    pub bytes_read: u64,
    /// The file of the last commit, and where its frame ends there.
    end: Option<(String, u64)>,
}

/// Reads a log that another process may be writing, from `needed_from` to `to`, and changes nothing. Ends at
/// the first frame that is not whole yet.
///
/// `before` is how far an earlier call came: only what follows is read, unless the file that it ended in
/// is gone; then `each` hears commits again that it heard then. A file removed meanwhile is an error of a
/// missing file: the caller tries again.
pub fn read_log<E: From<StorageError>>(
    directory: &dyn Directory,
    needed_from: Lsn,
    to: Lsn,
    before: Option<&LogRead>,
    mut each: impl FnMut(Lsn, &[u8]) -> std::result::Result<(), E>,
) -> std::result::Result<LogRead, E> {
    let names = log_files(directory)?;
    let before = before.filter(|before| {
        let end = before.end.as_ref();
        end.is_some_and(|(file, _)| names.iter().any(|(_, name)| name == file))
    });
    let mut read = LogRead { bytes: 0, bytes_read: 0, ..before.cloned().unwrap_or_default() };
    let start = read.end.clone();
    for (number, (first, name)) in names.iter().enumerate() {
        let next_file = names.get(number + 1).map(|(first, _)| *first);
        // Of what lies before, and what a reader at an earlier moment needs still, nothing is opened.
        if next_file.is_some_and(|next| next <= needed_from) || *first > to {
            continue;
        }
        let file = directory.open(name).context("open", name)?;
        let len = file.byte_len().context("measure", name)?;
        read.bytes += len;
        // An earlier call ended in the next file, or at its beginning: it takes the place of what is left here.
        let known = read.last.map_or(0, |last| last.0 + 1);
        if next_file.is_some_and(|next| next.0 <= known) {
            continue;
        }
        check_starts(name, read.last, needed_from, *first)?;
        let from = match &start {
            Some((end_file, end)) if end_file == name => *end,
            _ => 0,
        };
        if from > len {
            let detail = format!(
                "the file has {len} bytes, but had {from} before: commits that were read are gone; open \
                 the database again"
            );
            return Err(StorageError::Inconsistent { file: name.clone(), detail }.into());
        }
        let begin = from / SECTOR_BYTES * SECTOR_BYTES;
        let mut bytes = vec![0; (len - begin) as usize];
        file.read_exact_at(&mut bytes, begin).context("read", name)?;
        read.bytes_read += len - from;
        let mut frames = match from {
            0 => frames_of(name, *first, &bytes)?,
            _ => {
                let header = header_of(name, file.as_ref())?;
                FrameReader::resume(&header, &bytes, (from - begin) as usize, known)
            }
        };
        while let Some((lsn, payload)) = next_commit(name, begin, next_file, &mut frames)? {
            if lsn.0 >= known && lsn <= to {
                each(lsn, payload)?;
                read.last = Some(lsn);
                read.end = Some((name.clone(), begin + frames.at() as u64));
            }
            if lsn >= to {
                // What came behind it may have been removed.
                return Ok(read);
            }
        }
        if next_file.is_some_and(|next| frames.next_sequence() < next.0) {
            let synced_before = synced_before(directory, &names)?.0;
            frames.expect_synced(synced_before);
            next_commit(name, begin, next_file, &mut frames)?;
            // Else the next file has a gap before it.
            if frames.next_sequence() >= synced_before {
                // A power cut took what came behind, and no writer was there since.
                return Ok(read);
            }
        }
    }
    Ok(read)
}

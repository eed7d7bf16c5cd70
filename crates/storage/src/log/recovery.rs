//! What an opening finds of the log: its commits, and where it ends.

use std::collections::VecDeque;
use std::sync::Arc;

use drillcore_format::frame::{FileHeader, FrameWriter, LogKind};
use drillcore_format::ids::Lsn;

use crate::error::{IoContext, Result, StorageError};
use crate::files::directory::{Directory, read_file};
use crate::files::whole_file::create_whole;
use crate::log::log_files::{check_starts, file_name, frames_of, log_files, next_commit};
use crate::log::synced_before::synced_before;
use crate::log::wal::{LogFile, LogOptions, Wal};

/// Reads the log from `needed_from` on, hands every commit to `replay` in LSN order, and opens the
/// log for what follows. Returns it with the last LSN that it holds, if any.
///
/// The log ends where [`FrameReader`](drillcore_format::frame_reader::FrameReader) says, in one of the newest two files; what
/// lies behind is removed. Damage before that, and any gap, is an error. What is not known to be
/// synced is written anew, to files of its own, before it is replayed: it may be in the system's cache only,
/// and where an earlier sync failed, no later one brings it to the disk.
///
/// Memory: the newest file and another one, and one of them twice.
pub fn recover_log<E: From<StorageError>>(
    directory: Arc<dyn Directory>,
    options: LogOptions,
    needed_from: Lsn,
    mut replay: impl FnMut(Lsn, &[u8]) -> std::result::Result<(), E>,
) -> std::result::Result<(Wal, Option<Lsn>), E> {
    let names = log_files(directory.as_ref())?;
    let synced_before = synced_before(directory.as_ref(), &names)?;
    let mut files = VecDeque::new();
    let mut last: Option<Lsn> = None;
    for (number, (first, name)) in names.iter().enumerate() {
        let next_file = names.get(number + 1).map(|(first, _)| *first);
        check_starts(name, last, needed_from, *first)?;
        if let Some(next) = next_file.filter(|next| *next <= needed_from) {
            // Only a reader needs it still, at an earlier moment.
            let file = directory.open(name).context("open", name)?;
            let bytes = file.byte_len().context("measure", name)?;
            files.push_back(LogFile { name: name.clone(), last: Lsn(next.0 - 1), bytes });
            continue;
        }
        let bytes = read_file(directory.as_ref(), name).context("read", name)?;
        let mut frames = frames_of(name, *first, &bytes)?;
        frames.expect_synced(synced_before.0);
        let mut commits: Vec<(Lsn, &[u8])> = Vec::new();
        while let Some(commit) = next_commit(name, 0, next_file, &mut frames)? {
            commits.push(commit);
        }
        let is_end = next_file.is_some_and(|next| frames.next_sequence() < next.0)
            && frames.next_sequence() >= synced_before.0;
        if let Some((file_last, _)) = commits.last() {
            last = Some(*file_last);
            // What is before `needed_from` is in segments.
            let unproven = frames.synced_before().max(needed_from.0);
            let unproven = commits.partition_point(|(lsn, _)| lsn.0 < unproven);
            if let Some((last, _)) = commits[..unproven].last() {
                let (name, bytes) = (name.clone(), bytes.len() as u64);
                files.push_back(LogFile { name, last: *last, bytes });
            }
            if unproven < commits.len() {
                let nonce = options.nonce.wrapping_sub(number as u32);
                files.push_back(write_anew(directory.as_ref(), nonce, &commits[unproven..])?);
            }
            commits.into_iter().try_for_each(|(lsn, payload)| replay(lsn, payload))?;
        } else {
            remove(directory.as_ref(), name)?;
        }
        if is_end {
            // None of them may come back: what follows takes the numbers of their commits, and they would stand alone once what
            // is before them is removed.
            names[number + 1..]
                .iter()
                .try_for_each(|(_, name)| remove(directory.as_ref(), name))?;
            directory.sync().context("sync", "the database directory")?;
            break;
        }
    }
    let wal = Wal::behind(directory, options, files, last.unwrap_or_default());
    Ok((wal, last))
}

/// Makes a log of consecutive commits in a directory without one, on stable storage when this returns.
pub fn write_log(directory: &dyn Directory, nonce: u32, commits: &[(Lsn, &[u8])]) -> Result<()> {
    if commits.is_empty() {
        return Ok(());
    }
    write_anew(directory, nonce, commits).map(drop)
}

/// Writes commits to a file of their own, on stable storage with its name when this returns. The file says so.
fn write_anew(directory: &dyn Directory, nonce: u32, commits: &[(Lsn, &[u8])]) -> Result<LogFile> {
    let (first, last) = (commits[0].0, commits[commits.len() - 1].0);
    let header = FileHeader { kind: LogKind::Wal, nonce };
    let mut bytes = Vec::new();
    header.put(&mut bytes);
    let mut frames = FrameWriter::new(header, first.0, first.0);
    commits.iter().for_each(|(_, payload)| frames.put(payload, &mut bytes));
    let name = file_name(first);
    let writer = create_whole(directory, &name, &bytes).context("create", &name)?;
    frames.note_synced();
    let mut closing = Vec::new();
    frames.put_closing(&mut closing);
    // Not before, although nothing of the file is seen before it is synced: its name may not be durable.
    writer.write_all(&closing).context("append to", &name)?;
    Ok(LogFile { name, last, bytes: (bytes.len() + closing.len()) as u64 })
}

fn remove(directory: &dyn Directory, name: &str) -> Result<()> {
    directory.remove(name).context("remove", name)
}

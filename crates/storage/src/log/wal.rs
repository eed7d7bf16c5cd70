//! The write-ahead log: every commit, in LSN order, until its rows are in segments.
//!
//! A commit is first *enqueued* (in memory, in LSN order) and then *written through*. Whoever writes
//! first takes all frames that wait, so threads that commit together share one write and one sync.
//! A log that failed to write is finished: what its file holds is unknown, so it refuses all that
//! follows.
//!
//! Files are named by their first LSN, and removed whole. A file is begun only once all before it is on stable
//! storage, and it takes the place of what an older file holds from its first LSN on. So what lies behind the end
//! of the log need not be cut off: the next file says that it is no part of it.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use drillcore_format::frame::{FRAME_OVERHEAD_BYTES, FileHeader, FrameWriter, LogKind};
use drillcore_format::frame_reader::FrameReader;
use drillcore_format::ids::Lsn;

use crate::error::{IoContext, Result, StorageError};
use crate::files::directory::{Directory, WriteFile, read_file};
use crate::files::whole_file::create_whole;
use crate::log::log_files::{
    check_starts, file_name, first_of, frames_of, header_of, log_files, next_commit,
};
use crate::sync::atomic::{self, AtomicBool, AtomicU64};
use crate::sync::{Mutex, MutexGuard, thread};

/// A file is closed once it is larger than this.
const FILE_BYTES: u64 = 16 << 20;
/// Where frames are read from, a multiple of this lies before them.
const SECTOR_BYTES: u64 = 512;
/// How often a writer that does not wait for a disk looks whether another thread's write is over.
const TRIES_AT_ONCE: u32 = 32;

/// The log of one database.
pub struct Wal {
    directory: Arc<dyn Directory>,
    sync: bool,
    nonce: u32,
    queue: Mutex<Vec<(Lsn, Vec<u8>)>>,
    log: Mutex<Log>,
    /// Whether `log` has an open file.
    is_open: AtomicBool,
    logged: AtomicU64,
    bytes: AtomicU64,
    syncs: AtomicU64,
}

struct Log {
    /// The newest file, the only one with bytes not yet synced.
    open: Option<OpenFile>,
    /// Oldest first; the last one is `open`, if any is.
    files: VecDeque<LogFile>,
    failure: Option<String>,
}

struct OpenFile {
    writer: Box<dyn WriteFile>,
    frames: FrameWriter,
}

struct LogFile {
    name: String,
    last: Lsn,
    bytes: u64,
}

/// A file that the log needs no more.
pub struct Released {
    pub name: String,
    /// The commit that it begins with.
    pub first: Lsn,
    pub bytes: u64,
}

/// What [`Wal::read`] found, and how far it came.
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

impl Wal {
    /// Reads the log from `needed_from` on, hands every commit to `replay` in LSN order, and opens the
    /// log for what follows. Returns it with the last LSN that it holds, if any. `nonce` should be a number that
    /// no other opening uses.
    ///
    /// The log ends where [`FrameReader`] says; damage before that, and any gap, is an error. What is not known to be
    /// synced is written anew, to a file of its own, before it is replayed: it may be in the system's cache only,
    /// and where an earlier sync failed, no later one brings it to the disk. That is the end of the newest file at
    /// most: those before it were synced.
    ///
    /// Memory: one file at a time, the newest twice.
    pub fn recover<E: From<StorageError>>(
        directory: Arc<dyn Directory>,
        sync: bool,
        nonce: u32,
        needed_from: Lsn,
        mut replay: impl FnMut(Lsn, &[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(Wal, Option<Lsn>), E> {
        let names = log_files(directory.as_ref())?;
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
            if let Some(next) = next_file.filter(|next| *next > needed_from) {
                frames.expect_synced(next.0);
            }
            let mut commits: Vec<(Lsn, &[u8])> = Vec::new();
            while let Some(commit) = next_commit(name, 0, next_file, &mut frames)? {
                commits.push(commit);
            }
            let Some((file_last, _)) = commits.last().copied() else {
                remove(directory.as_ref(), name)?;
                continue;
            };
            last = Some(file_last);
            // What is before `needed_from` is in segments.
            let unproven = match next_file {
                Some(_) => commits.len(),
                None => {
                    let unproven = frames.synced_before().max(needed_from.0);
                    commits.partition_point(|(lsn, _)| lsn.0 < unproven)
                }
            };
            if let Some((last, _)) = commits[..unproven].last() {
                let (name, bytes) = (name.clone(), bytes.len() as u64);
                files.push_back(LogFile { name, last: *last, bytes });
            }
            if let Some((first, _)) = commits.get(unproven) {
                let header = FileHeader { kind: LogKind::Wal, nonce, first: first.0 };
                files.push_back(write_anew(directory.as_ref(), header, &commits[unproven..])?);
            }
            commits.into_iter().try_for_each(|(lsn, payload)| replay(lsn, payload))?;
        }
        let bytes = files.iter().map(|file| file.bytes).sum();
        let wal = Wal {
            directory,
            sync,
            nonce,
            queue: Mutex::default(),
            log: Mutex::new(Log { open: None, files, failure: None }),
            is_open: AtomicBool::new(false),
            logged: AtomicU64::new(last.unwrap_or_default().0),
            bytes: AtomicU64::new(bytes),
            syncs: AtomicU64::new(0),
        };
        Ok((wal, last))
    }

    /// Reads a log that another process may be writing, from `needed_from` to `to`, and changes nothing. Ends at
    /// the first frame that is not whole yet.
    ///
    /// `before` is how far an earlier call came: only what follows is read, unless the file that it ended in
    /// is gone; then `each` hears commits again that it heard then. A file removed meanwhile is an error of a
    /// missing file: the caller tries again.
    pub fn read<E: From<StorageError>>(
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
            if let Some(next) = next_file.filter(|next| *next > needed_from) {
                frames.expect_synced(next.0);
            }
            while let Some((lsn, payload)) = next_commit(name, begin, next_file, &mut frames)? {
                if lsn.0 >= known && lsn <= to {
                    each(lsn, payload)?;
                    read.last = Some(lsn);
                    read.end = Some((name.clone(), begin + frames.at() as u64));
                }
                if lsn >= to {
                    // What came behind it may have been removed.
                    break;
                }
            }
        }
        Ok(read)
    }

    /// Whether a file is open, so that [`Wal::make_ready`] has nothing to do.
    pub fn is_open(&self) -> bool {
        self.is_open.load(atomic::Ordering::Acquire)
    }

    /// Begins a file if none is open. `first` lies behind all that is logged.
    ///
    /// # Errors
    /// What it [lacks](StorageError::lack), if the file cannot be begun for want of it: then it has no name yet,
    /// and the log goes on. Any other error finishes it.
    pub fn make_ready(&self, first: Lsn) -> Result<()> {
        if self.is_open() {
            return Ok(());
        }
        let mut log = self.log();
        if let Some(first) = &log.failure {
            return Err(StorageError::LogFailed { first: first.clone() });
        }
        if log.open.is_some() {
            return Ok(());
        }
        // Others may have logged, and had it removed, since the caller looked.
        let first = first.max(Lsn(self.logged().0 + 1));
        self.start_file(&mut log, first).inspect_err(|error| {
            if error.lack().is_none() {
                log.failure = Some(error.to_string());
            }
        })
    }

    /// Hands over the next commit. The caller sees to it that LSNs arrive in order.
    pub fn enqueue(&self, lsn: Lsn, payload: Vec<u8>) {
        self.queue.lock().push((lsn, payload));
    }

    /// Returns once the commit `lsn`, enqueued before, has been handed to the operating system, or is on
    /// stable storage if the log syncs.
    pub fn write_through(&self, lsn: Lsn) -> Result<()> {
        if self.logged() >= lsn {
            return Ok(());
        }
        self.write_queue_through(&mut self.log(), lsn)
    }

    /// [`Wal::write_through`] where no disk has to be waited for; says no, and has done nothing, where the log syncs
    /// each write, is being synced, or goes on in another file.
    pub fn write_through_at_once(&self, lsn: Lsn) -> Result<bool> {
        if self.logged() >= lsn {
            return Ok(true);
        }
        if self.sync {
            return Ok(false);
        }
        for _ in 0..TRIES_AT_ONCE {
            let Some(mut log) = self.log.try_lock() else {
                // Another thread's write takes microseconds.
                thread::yield_now();
                continue;
            };
            if log.is_full() {
                return Ok(false);
            }
            return self.write_queue_through(&mut log, lsn).map(|()| true);
        }
        Ok(false)
    }

    fn write_queue_through(&self, log: &mut Log, lsn: Lsn) -> Result<()> {
        if self.logged() >= lsn {
            return Ok(());
        }
        if let Some(first) = &log.failure {
            return Err(StorageError::LogFailed { first: first.clone() });
        }
        let commits = std::mem::take(&mut *self.queue.lock());
        let last = commits.last().expect("an LSN is enqueued before it is written through").0;
        assert!(last >= lsn, "an LSN is enqueued before it is written through");
        if let Err(error) = self.write(log, &commits) {
            log.failure = Some(error.to_string());
            return Err(error);
        }
        self.logged.store(last.0, atomic::Ordering::Release);
        Ok(())
    }

    /// Makes all that is logged survive a power cut. Does nothing in a log that syncs each write; else
    /// others who write through wait meanwhile.
    pub fn make_durable(&self) -> Result<()> {
        if self.sync {
            return Ok(());
        }
        let mut log = self.log();
        if let Some(first) = &log.failure {
            return Err(StorageError::LogFailed { first: first.clone() });
        }
        log.sync_open_file()
    }

    /// Ends the log: writes what waits, makes it durable, and notes that behind it, so that nothing of it can be
    /// taken for the end of the log later. Does nothing in a log that failed.
    ///
    /// # Errors
    /// The log could not be synced. Who enqueued what could not be written hears of that itself.
    pub fn close(&self) -> Result<()> {
        let _ = self.write_all_enqueued();
        let mut log = self.log();
        if log.failure.is_some() {
            return Ok(());
        }
        log.sync_open_file()?;
        self.is_open.store(false, atomic::Ordering::Release);
        if let Some(OpenFile { mut writer, mut frames }) = log.open.take() {
            let mut closing = Vec::new();
            frames.put_closing(&mut closing);
            // Where it is missing, the next opening writes anew what it speaks of.
            let _ = writer.write_all(&closing);
        }
        Ok(())
    }

    /// Returns once nothing that was enqueued before waits to be written, or is being written.
    pub fn write_all_enqueued(&self) -> Result<()> {
        let last = self.queue.lock().last().map(|f| f.0);
        match last {
            Some(lsn) => self.write_through(lsn),
            // Whoever took the last frames holds the log until they are written.
            None => {
                drop(self.log());
                Ok(())
            }
        }
    }

    /// The last LSN that is logged.
    pub fn logged(&self) -> Lsn {
        Lsn(self.logged.load(atomic::Ordering::Acquire))
    }

    /// Lets go of the files whose commits all lie before `needed_from`. The caller removes them, now or later: one
    /// that is found at an opening is passed over.
    pub fn release_before(&self, needed_from: Lsn) -> Vec<Released> {
        let mut log = self.log();
        let mut released = Vec::new();
        while log.files.front().is_some_and(|file| file.last < needed_from) {
            let file = log.files.pop_front().expect("there is a first one");
            self.bytes.fetch_sub(file.bytes, atomic::Ordering::Relaxed);
            let first =
                first_of(&file.name).expect("files of the log are named by their first commit");
            released.push(Released { name: file.name, first, bytes: file.bytes });
        }
        if log.files.is_empty() {
            log.open = None;
            self.is_open.store(false, atomic::Ordering::Release);
        }
        released
    }

    /// The bytes of all log files.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(atomic::Ordering::Relaxed)
    }

    /// How often the log was synced.
    pub fn syncs(&self) -> u64 {
        self.syncs.load(atomic::Ordering::Relaxed)
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock()
    }

    fn write(&self, log: &mut Log, commits: &[(Lsn, Vec<u8>)]) -> Result<()> {
        if log.is_full() {
            match self.start_file(log, commits[0].0) {
                // The file that is open takes more than it should.
                Err(error)
                    if log.open.is_some() && log.failure.is_none() && error.lack().is_some() => {}
                started => started?,
            }
        }
        let Log { open, files, .. } = log;
        let (Some(OpenFile { writer, frames }), Some(file)) = (open, files.back_mut()) else {
            unreachable!("a file was started above");
        };
        let payload_len: usize = commits.iter().map(|(_, payload)| payload.len()).sum();
        let mut bytes = Vec::with_capacity(payload_len + commits.len() * FRAME_OVERHEAD_BYTES);
        for (lsn, payload) in commits {
            assert_eq!(lsn.0, frames.next_sequence(), "LSNs rise by one");
            frames.put(payload, &mut bytes);
        }
        writer.write_all(&bytes).context("append to", &file.name)?;
        if self.sync {
            writer.sync().context("sync", &file.name)?;
            frames.note_synced();
            self.syncs.fetch_add(1, atomic::Ordering::Relaxed);
        }
        file.bytes += bytes.len() as u64;
        file.last = commits[commits.len() - 1].0;
        self.bytes.fetch_add(bytes.len() as u64, atomic::Ordering::Relaxed);
        Ok(())
    }

    /// Begins a file with commit `first`, once all before it is on stable storage.
    fn start_file(&self, log: &mut Log, first: Lsn) -> Result<()> {
        log.sync_open_file()?;
        let name = file_name(first);
        let mut header = Vec::new();
        let kind = LogKind::Wal;
        let frames =
            FrameWriter::begin(FileHeader { kind, nonce: self.nonce, first: first.0 }, &mut header);
        let writer =
            create_whole(self.directory.as_ref(), &name, &header).context("create", &name)?;
        let bytes = header.len() as u64;
        self.bytes.fetch_add(bytes, atomic::Ordering::Relaxed);
        log.files.push_back(LogFile { name, last: first, bytes });
        log.open = Some(OpenFile { writer, frames });
        self.is_open.store(true, atomic::Ordering::Release);
        Ok(())
    }
}

impl Log {
    /// Whether what is written next begins a file.
    fn is_full(&self) -> bool {
        self.open.is_none() || self.files.back().is_none_or(|file| file.bytes > FILE_BYTES)
    }

    /// Makes the newest file durable; its name is. A failure is the log's end.
    fn sync_open_file(&mut self) -> Result<()> {
        let (Some(open), Some(file)) = (&mut self.open, self.files.back()) else { return Ok(()) };
        if open.frames.is_synced() {
            return Ok(());
        }
        let synced = open.writer.sync().context("sync", &file.name);
        match &synced {
            Ok(()) => open.frames.note_synced(),
            Err(error) => self.failure = Some(error.to_string()),
        }
        synced
    }
}

/// Makes a log of consecutive commits in a folder without one, on stable storage when this returns.
pub fn write_log(directory: &dyn Directory, nonce: u32, commits: &[(Lsn, &[u8])]) -> Result<()> {
    let Some((first, _)) = commits.first() else { return Ok(()) };
    let header = FileHeader { kind: LogKind::Wal, nonce, first: first.0 };
    write_anew(directory, header, commits).map(drop)
}

/// Writes commits to a file of their own, on stable storage with its name when this returns. The file says so.
fn write_anew(
    directory: &dyn Directory,
    header: FileHeader,
    commits: &[(Lsn, &[u8])],
) -> Result<LogFile> {
    let mut bytes = Vec::new();
    let mut frames = FrameWriter::begin(header, &mut bytes);
    commits.iter().for_each(|(_, payload)| frames.put(payload, &mut bytes));
    let name = file_name(Lsn(header.first));
    let mut writer = create_whole(directory, &name, &bytes).context("create", &name)?;
    frames.note_synced();
    let mut closing = Vec::new();
    frames.put_closing(&mut closing);
    // Not before, although nothing of the file is seen before it is synced: its name may not be durable.
    writer.write_all(&closing).context("append to", &name)?;
    let last = commits.last().expect("there is something to write anew").0;
    Ok(LogFile { name, last, bytes: (bytes.len() + closing.len()) as u64 })
}

fn remove(directory: &dyn Directory, name: &str) -> Result<()> {
    directory.remove(name).context("remove", name)
}

//! The write-ahead log: every commit, in LSN order, until its rows are in segments.
//!
//! A commit is first *enqueued* (in memory, in LSN order) and then *written through*. The thread that writes first takes all frames
//! that wait, so threads that commit together share one write. A sync, where it is needed, is a second step, also taken by
//! one for all, and the writes of others go on beside it. A log that failed to write or to sync is finished: what its file
//! holds is unknown, so it refuses all that follows.
//!
//! Files are named by their first LSN, and removed whole. A file takes the place of what an older file holds from its first
//! LSN on. So what lies behind the end of the log need not be cut off: the next file says that it is no part of it.
//!
//! A file is begun only once all before the file before it is on stable storage, with that file's name: only the newest two
//! have bytes that a power cut may take. A thread of the log's own sees to that each half file, and makes the next file
//! ready, so that no commit waits for a disk because a file is full. Where the thread lags, the file becomes larger.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use drillcore_format::frame::{FILE_HEADER_BYTES, FileHeader, FrameWriter, LogKind, Payload};
use drillcore_format::ids::Lsn;

use crate::error::{IoContext, Result, StorageError};
use crate::files::directory::{Directory, WriteFile};
use crate::files::whole_file::{UnnamedFile, create_whole};
use crate::log::log_files::{NEXT_FILE, file_name, first_of};
use crate::log::turns::Turns;
use crate::sync::atomic::{self, AtomicBool, AtomicU64};
use crate::sync::{Mutex, MutexGuard, thread};

/// How many files of a log need not be full. Each opening that commits begins one, and the next opening reads all.
const SMALL_FILES_MAX: u64 = 64;

/// How a log is written.
#[derive(Debug, Clone, Copy)]
pub struct LogOptions {
    /// Whether a commit that is written through is on stable storage.
    pub sync: bool,
    /// A number that no other opening uses, which distinguishes what its files hold from what was there before.
    pub nonce: u32,
    /// A file is full once it is larger than this.
    pub file_bytes: u64,
}

impl LogOptions {
    /// Files of 16 MiB.
    pub fn new(sync: bool, nonce: u32) -> LogOptions {
        LogOptions { sync, nonce, file_bytes: 16 << 20 }
    }

    /// The log's thread works once per this many bytes of a file.
    fn upkeep_bytes(&self) -> u64 {
        self.file_bytes / 2
    }
}

/// The log of one database.
pub struct Wal {
    shared: Arc<Shared>,
    /// The thread that was last started for upkeep.
    upkeep: Mutex<Option<thread::JoinHandle<()>>>,
}

/// What the log's thread also has.
struct Shared {
    directory: Arc<dyn Directory>,
    options: LogOptions,
    queue: Mutex<Queue>,
    written: Turns,
    synced: Turns,
    /// Held while files are written, and not while they are synced.
    log: Mutex<Log>,
    /// Whether `log` has an open file.
    is_open: AtomicBool,
    has_upkeep: AtomicBool,
    bytes: AtomicU64,
    /// How many files there are.
    files: AtomicU64,
    syncs: AtomicU64,
}

/// The commits that wait to be written.
#[derive(Default)]
struct Queue {
    commits: Vec<(Lsn, Payload)>,
    /// The last that was ever enqueued.
    last: Lsn,
}

#[derive(Default)]
struct Log {
    /// The newest file.
    open: Option<OpenFile>,
    /// The file before it, as long as it, or the newest one's name, may not be on stable storage.
    unsynced: Option<UnsyncedFile>,
    /// What becomes the next file.
    next: Option<NextFile>,
    /// Oldest first; the last one is `open`, if any is.
    files: VecDeque<LogFile>,
    /// The last commit that was written.
    last: Lsn,
    begun: u32,
    failure: Option<String>,
    /// The failure, as long as no call has returned it.
    untold: Option<StorageError>,
}

struct OpenFile {
    writer: Arc<dyn WriteFile>,
    frames: FrameWriter,
    /// The log's thread works once the file has this many bytes.
    upkeep_at: u64,
}

#[derive(Clone)]
struct UnsyncedFile {
    name: String,
    writer: Arc<dyn WriteFile>,
}

/// A file with a header and no name yet.
struct NextFile {
    header: FileHeader,
    file: UnnamedFile,
}

/// A file of the log, as long as it is not removed.
pub(super) struct LogFile {
    pub name: String,
    pub last: Lsn,
    pub bytes: u64,
}

/// A file that the log needs no more.
pub struct Released {
    /// Its name in the directory.
    pub name: String,
    /// The commit that it begins with.
    pub first: Lsn,
    /// Its length.
    pub bytes: u64,
}

impl Wal {
    /// The log that goes on behind commit `last` of these files. All of them is on stable storage.
    pub(super) fn behind(
        directory: Arc<dyn Directory>,
        options: LogOptions,
        files: VecDeque<LogFile>,
        last: Lsn,
    ) -> Wal {
        let bytes = files.iter().map(|file| file.bytes).sum();
        let file_count = files.len() as u64;
        let shared = Shared {
            directory,
            options,
            queue: Mutex::default(),
            written: Turns::new(last),
            synced: Turns::new(last),
            log: Mutex::new(Log { files, last, ..Log::default() }),
            is_open: AtomicBool::new(false),
            has_upkeep: AtomicBool::new(false),
            bytes: AtomicU64::new(bytes),
            files: AtomicU64::new(file_count),
            syncs: AtomicU64::new(0),
        };
        Wal { shared: Arc::new(shared), upkeep: Mutex::default() }
    }

    /// Whether a file is open, so that [`Wal::make_ready`] has nothing to do.
    pub fn is_open(&self) -> bool {
        self.shared.is_open.load(atomic::Ordering::Acquire)
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
        let mut log = self.shared.healthy_log()?;
        if log.open.is_some() {
            return Ok(());
        }
        // Others may have logged, and had it removed, since the caller looked.
        let first = first.max(Lsn(log.last.0 + 1));
        self.shared.begin_first_file(&mut log, first).inspect_err(|error| {
            if error.lack().is_none() {
                log.failure = Some(error.to_string());
            }
        })
    }

    /// Hands over the next commit. The caller sees to it that LSNs arrive in order.
    pub fn enqueue(&self, lsn: Lsn, payload: Payload) {
        let mut queue = self.shared.queue.lock();
        queue.commits.push((lsn, payload));
        queue.last = lsn;
    }

    /// Returns once the commit `lsn`, enqueued before, has been handed to the operating system, or is on
    /// stable storage if the log syncs.
    pub fn write_through(&self, lsn: Lsn) -> Result<()> {
        self.shared.written.reach(lsn, || self.write())?;
        if self.shared.options.sync { self.sync_through(lsn) } else { Ok(()) }
    }

    /// [`Wal::write_through`] where no disk has to be waited for; says no, and has done nothing, where the log syncs
    /// each write, where others write for long, or where a file is to be begun.
    pub fn write_through_at_once(&self, lsn: Lsn) -> Result<bool> {
        if self.shared.options.sync {
            return Ok(self.logged() >= lsn);
        }
        self.shared.written.try_reach(lsn, || {
            let is_ready = self.is_open();
            if is_ready { self.write().map(Some) } else { Ok(None) }
        })
    }

    /// Makes all that is written survive a power cut. Does nothing in a log that syncs each write. Others go on writing
    /// meanwhile.
    pub fn make_durable(&self) -> Result<()> {
        self.sync_through(self.shared.written.reached())
    }

    /// Ends the log: writes what waits, makes it durable, and notes that behind it, so that nothing of it can be
    /// taken for the end of the log later. Does nothing in a log that failed.
    ///
    /// # Errors
    /// The log could not be synced, now or by its thread. Who enqueued what could not be written hears of that itself.
    pub fn close(&self) -> Result<()> {
        let _ = self.write_all_enqueued();
        self.end_upkeep();
        {
            let mut log = self.shared.log();
            if log.failure.is_some() {
                return log.untold.take().map_or(Ok(()), Err);
            }
        }
        self.make_durable()?;
        let mut log = self.shared.log();
        self.shared.is_open.store(false, atomic::Ordering::Release);
        if let Some(next) = log.next.take() {
            // An opening removes it, if it is still there.
            let _ = next.file.remove(self.shared.directory.as_ref());
        }
        if let Some(OpenFile { writer, mut frames, .. }) = log.open.take()
            && frames.synced_before() == frames.next_sequence()
        {
            let mut closing = Vec::new();
            frames.put_closing(&mut closing);
            // Where it is missing, the next opening writes anew what it speaks of.
            let _ = writer.write_all(&closing);
        }
        Ok(())
    }

    /// Returns once nothing that was enqueued before waits to be written, or is being written.
    pub fn write_all_enqueued(&self) -> Result<()> {
        let last = self.shared.queue.lock().last;
        self.write_through(last)
    }

    /// The last LSN that is logged: on stable storage, if the log syncs.
    pub fn logged(&self) -> Lsn {
        if self.shared.options.sync {
            self.shared.synced.reached()
        } else {
            self.shared.written.reached()
        }
    }

    /// Lets go of the files whose commits all lie before `needed_from`. The caller removes them, now or later: one
    /// that is found at an opening is passed over.
    pub fn release_before(&self, needed_from: Lsn) -> Vec<Released> {
        let mut log = self.shared.log();
        let mut released = Vec::new();
        while log.files.front().is_some_and(|file| file.last < needed_from) {
            let file = log.files.pop_front().expect("there is a first one");
            self.shared.bytes.fetch_sub(file.bytes, atomic::Ordering::Relaxed);
            self.shared.files.fetch_sub(1, atomic::Ordering::Relaxed);
            let first =
                first_of(&file.name).expect("files of the log are named by their first commit");
            released.push(Released { name: file.name, first, bytes: file.bytes });
        }
        if log.files.is_empty() {
            (log.open, log.unsynced) = (None, None);
            self.shared.is_open.store(false, atomic::Ordering::Release);
        }
        released
    }

    /// The bytes of all log files.
    pub fn bytes(&self) -> u64 {
        self.shared.bytes.load(atomic::Ordering::Relaxed)
    }

    /// Whether many files are not full, so that they should be released.
    pub fn has_many_small_files(&self) -> bool {
        let full = self.bytes() / self.shared.options.file_bytes;
        self.shared.files.load(atomic::Ordering::Relaxed) > full + SMALL_FILES_MAX
    }

    /// How often commits were synced.
    pub fn syncs(&self) -> u64 {
        self.shared.syncs.load(atomic::Ordering::Relaxed)
    }

    /// Writes what waits, and has the log's thread look after the file where it is time. Returns the last commit of it.
    fn write(&self) -> Result<Lsn> {
        let mut commits = Vec::new();
        let (last, needs_upkeep) = {
            let mut log = self.shared.healthy_log()?;
            commits.append(&mut self.shared.queue.lock().commits);
            let last = commits.last().expect("an LSN is enqueued before it is written through").0;
            if let Err(error) = self.shared.write(&mut log, &mut commits) {
                log.failure = Some(error.to_string());
                return Err(error);
            }
            (last, log.needs_upkeep(self.shared.options))
        };
        if needs_upkeep {
            self.start_upkeep(last);
        }
        Ok(last)
    }

    /// Returns once commit `lsn`, which was written, is on stable storage.
    fn sync_through(&self, lsn: Lsn) -> Result<()> {
        self.shared.synced.reach(lsn, || self.shared.sync())
    }

    /// Has a thread sync what was written, up to a commit, and make the next file ready, if none is at it.
    fn start_upkeep(&self, last: Lsn) {
        if self.shared.has_upkeep.swap(true, atomic::Ordering::AcqRel) {
            return;
        }
        let shared = self.shared.clone();
        let work = move || {
            shared.keep_up(last);
            shared.has_upkeep.store(false, atomic::Ordering::Release);
        };
        // Without a thread the file becomes larger.
        match thread::Builder::new().name("drillcore-log".into()).spawn(work) {
            Ok(thread) => {
                // The one before has done its work; it is waited for so that none is left behind.
                let before = self.upkeep.lock().replace(thread);
                before.into_iter().for_each(|before| drop(before.join()));
            }
            Err(_) => self.shared.has_upkeep.store(false, atomic::Ordering::Release),
        }
    }

    /// Waits for the log's thread, if it is at work.
    pub fn end_upkeep(&self) {
        let thread = self.upkeep.lock().take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Drop for Wal {
    /// The thread makes files in a directory that another process may use then.
    fn drop(&mut self) {
        if let Some(thread) = self.upkeep.get_mut().take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock()
    }

    /// # Errors
    /// `LogFailed`.
    fn healthy_log(&self) -> Result<MutexGuard<'_, Log>> {
        let mut log = self.log();
        match log.failure.clone() {
            Some(first) => {
                log.untold = None;
                Err(StorageError::LogFailed { first })
            }
            None => Ok(log),
        }
    }

    fn write(&self, log: &mut Log, commits: &mut [(Lsn, Payload)]) -> Result<()> {
        let first = commits[0].0;
        if log.open.is_none() {
            self.begin_first_file(log, first)?;
        } else if log.may_begin_file(self.options) {
            self.begin_file(log, first)?;
        }
        let (Some(open), Some(file)) = (&mut log.open, log.files.back_mut()) else {
            unreachable!("a file was begun above");
        };
        let mut frames: Vec<&[u8]> = Vec::with_capacity(commits.len());
        for (lsn, payload) in commits {
            assert_eq!(lsn.0, open.frames.next_sequence(), "LSNs rise by one");
            frames.push(open.frames.place(payload));
        }
        open.writer.write_all_of(&frames).context("append to", &file.name)?;
        let bytes: usize = frames.iter().map(|frame| frame.len()).sum();
        file.bytes += bytes as u64;
        log.last = Lsn(open.frames.next_sequence() - 1);
        file.last = log.last;
        self.bytes.fetch_add(bytes as u64, atomic::Ordering::Relaxed);
        Ok(())
    }

    /// Begins a file where none is open: all before commit `first` is on stable storage.
    fn begin_first_file(&self, log: &mut Log, first: Lsn) -> Result<()> {
        let name = file_name(first);
        let header = self.next_header(log);
        let mut bytes = Vec::new();
        header.put(&mut bytes);
        let writer =
            create_whole(self.directory.as_ref(), &name, &bytes).context("create", &name)?;
        self.open(log, name, writer.into(), FrameWriter::new(header, first.0, first.0));
        Ok(())
    }

    /// Goes on with commit `first` in the file that is ready.
    fn begin_file(&self, log: &mut Log, first: Lsn) -> Result<()> {
        let NextFile { header, file } = log.next.take().expect("a file may be begun");
        let name = file_name(first);
        let writer = match file.give_name(self.directory.as_ref(), &name).context("create", &name) {
            // The file that is open takes more than it should.
            Err(error) if error.lack().is_some() => return Ok(()),
            named => named?,
        };
        let open = log.open.take().expect("a file may be begun");
        let before = log.files.back().expect("the open file is one of them");
        log.unsynced = Some(UnsyncedFile { name: before.name.clone(), writer: open.writer });
        let synced_before = open.frames.synced_before();
        self.open(log, name, writer.into(), FrameWriter::new(header, first.0, synced_before));
        Ok(())
    }

    fn open(&self, log: &mut Log, name: String, writer: Arc<dyn WriteFile>, frames: FrameWriter) {
        let (last, bytes) = (Lsn(frames.next_sequence()), FILE_HEADER_BYTES as u64);
        self.bytes.fetch_add(bytes, atomic::Ordering::Relaxed);
        self.files.fetch_add(1, atomic::Ordering::Relaxed);
        log.files.push_back(LogFile { name, last, bytes });
        log.open = Some(OpenFile { writer, frames, upkeep_at: self.options.upkeep_bytes() });
        self.is_open.store(true, atomic::Ordering::Release);
    }

    fn next_header(&self, log: &mut Log) -> FileHeader {
        log.begun += 1;
        FileHeader { kind: LogKind::Wal, nonce: self.options.nonce.wrapping_add(log.begun) }
    }

    /// Makes all that is written survive a power cut, and returns the last commit of it. A failure is the log's end.
    fn sync(&self) -> Result<Lsn> {
        let (files, last) = {
            let log = self.healthy_log()?;
            let (Some(open), Some(file)) = (&log.open, log.files.back()) else {
                // It is in segments.
                return Ok(log.last);
            };
            let newest = UnsyncedFile { name: file.name.clone(), writer: open.writer.clone() };
            let files: Vec<UnsyncedFile> = log.unsynced.iter().cloned().chain([newest]).collect();
            (files, log.last)
        };
        let mut synced =
            files.iter().try_for_each(|file| file.writer.sync().context("sync", &file.name));
        if files.len() > 1 {
            synced = synced
                .and_then(|()| self.directory.sync().context("sync", "the database directory"));
        }
        let mut log = self.log();
        if let Err(error) = synced {
            log.failure.get_or_insert_with(|| error.to_string());
            return Err(error);
        }
        if let Some(open) = &mut log.open {
            open.frames.note_synced_before(last.0 + 1);
        }
        // A file that was full meanwhile is unsynced from then on, and was not among them.
        let (before, _) = files.split_at(files.len() - 1);
        log.unsynced.take_if(|file| before.iter().any(|synced| synced.name == file.name));
        if self.options.sync {
            self.syncs.fetch_add(1, atomic::Ordering::Relaxed);
        }
        Ok(last)
    }

    /// The work of the log's thread. What it is for want of comes up later, or never: the file becomes larger meanwhile.
    fn keep_up(&self, last: Lsn) {
        match self.synced.reach(last, || self.sync()) {
            Ok(()) => {}
            // A call has returned the failure.
            Err(StorageError::LogFailed { .. }) => return,
            Err(error) => {
                // The next commit returns it, or else the close.
                self.log().untold = Some(error);
                return;
            }
        }
        let header = {
            let mut log = self.log();
            if log.next.is_some() {
                return;
            }
            self.next_header(&mut log)
        };
        let mut bytes = Vec::new();
        header.put(&mut bytes);
        let made = UnnamedFile::create(self.directory.as_ref(), NEXT_FILE, &bytes);
        if let Ok(file) = made {
            self.log().next = Some(NextFile { header, file });
        }
    }
}

impl Log {
    /// Whether the open file is full, and what follows can go to another one.
    fn may_begin_file(&self, options: LogOptions) -> bool {
        let is_full = self.files.back().is_some_and(|file| file.bytes > options.file_bytes);
        // The next file may have been made ready for this one, and the one before is unsynced since.
        is_full && self.unsynced.is_none() && self.next.is_some()
    }

    /// Whether it is time for the log's thread, once.
    fn needs_upkeep(&mut self, options: LogOptions) -> bool {
        let (Some(open), Some(file)) = (&mut self.open, self.files.back()) else { return false };
        if file.bytes < open.upkeep_at {
            return false;
        }
        open.upkeep_at = file.bytes + options.upkeep_bytes();
        true
    }
}

//! The write-ahead log: every commit, in LSN order, until its rows are in segments.
//!
//! A commit is first *enqueued* (in memory, in LSN order) and then *written through*. Whoever writes
//! first takes all frames that wait, so threads that commit together share one write and one sync.
//! A log that failed to write is finished: what its file holds is unknown, so it refuses all that
//! follows. Files are named by their first LSN and removed whole.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use drillcore_format::frame::{self, LogKind, Read};
use drillcore_format::ids::Lsn;

use crate::directory::{Directory, WriteFile, read_file};
use crate::error::{IoContext, Result, StorageError};
use crate::sync::atomic::{self, AtomicU64};
use crate::sync::{Mutex, MutexGuard};

/// A file is closed once it is larger than this.
const FILE_BYTES: u64 = 16 << 20;
/// What a disk writes whole or not at all.
const SECTOR_BYTES: u64 = 512;

/// The log of one database.
pub struct Wal {
    directory: Arc<dyn Directory>,
    sync: bool,
    queue: Mutex<Vec<(Lsn, Vec<u8>)>>,
    log: Mutex<Log>,
    logged: AtomicU64,
    bytes: AtomicU64,
    syncs: AtomicU64,
}

struct Log {
    /// The newest file, the only one with bytes not yet synced.
    open: Option<Box<dyn WriteFile>>,
    /// Oldest first; the last one is `open`, if any is.
    files: VecDeque<LogFile>,
    failure: Option<String>,
}

struct LogFile {
    name: String,
    last: Lsn,
    bytes: u64,
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
    /// log for what follows. Returns it with the last LSN that it holds, if any.
    ///
    /// A frame cut short at the very end was never acknowledged: it is removed. Any other damage, and
    /// any gap, is an error. A commit is durable before it is replayed, as what comes of it may be. Memory:
    /// one file at a time.
    pub fn recover<E: From<StorageError>>(
        directory: Arc<dyn Directory>,
        sync: bool,
        needed_from: Lsn,
        mut replay: impl FnMut(Lsn, &[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(Wal, Option<Lsn>), E> {
        let names = log_files(directory.as_ref())?;
        let mut files = VecDeque::new();
        let mut last: Option<Lsn> = None;
        for (number, name) in names.iter().enumerate() {
            let is_newest = number + 1 == names.len();
            let bytes = read_file(directory.as_ref(), name).context("read", name)?;
            let damaged = |offset: usize, source| StorageError::Damaged {
                file: name.clone(),
                offset: offset as u64,
                source,
            };
            let header =
                frame::read_file_header(&bytes, LogKind::Wal).map_err(|e| damaged(0, e))?;
            let mut at = match header {
                Some(first_frame) => first_frame,
                None if is_newest => {
                    remove(directory.as_ref(), name)?;
                    continue;
                }
                None => {
                    let detail = "has no header, but the log goes on in another file".to_string();
                    return Err(StorageError::Inconsistent { file: name.clone(), detail }.into());
                }
            };
            let mut commits: Vec<(Lsn, &[u8])> = Vec::new();
            loop {
                match frame::read_frame(&bytes, at).map_err(|e| damaged(at, e))? {
                    Read::Frame { sequence, payload, end } => {
                        check_sequence(name, last, needed_from, Lsn(sequence))?;
                        commits.push((Lsn(sequence), payload));
                        last = Some(Lsn(sequence));
                        at = end;
                    }
                    Read::End => break,
                    Read::Torn { .. } if is_newest => break,
                    Read::Torn { at: torn } => {
                        let detail = format!(
                            "ends inside a frame at byte {torn}, but the log goes on in another file"
                        );
                        return Err(
                            StorageError::Inconsistent { file: name.clone(), detail }.into()
                        );
                    }
                }
            }
            match last {
                Some(last) if at > frame::FILE_HEADER_BYTES => {
                    // Cuts a torn frame off, and makes durable what will be replayed: the process that
                    // wrote it may have died before it was.
                    directory.truncate(name, at as u64).context("truncate", name)?;
                    files.push_back(LogFile { name: name.clone(), last, bytes: at as u64 });
                }
                _ => remove(directory.as_ref(), name)?,
            }
            commits.into_iter().try_for_each(|(lsn, payload)| replay(lsn, payload))?;
        }
        let bytes = files.iter().map(|file| file.bytes).sum();
        let wal = Wal {
            directory,
            sync,
            queue: Mutex::default(),
            log: Mutex::new(Log { open: None, files, failure: None }),
            logged: AtomicU64::new(last.unwrap_or_default().0),
            bytes: AtomicU64::new(bytes),
            syncs: AtomicU64::new(0),
        };
        Ok((wal, last))
    }

    /// Reads a log that another process may be writing, from `needed_from` on, and changes nothing. Ends at
    /// the first frame that is not whole yet.
    ///
    /// `before` is how far an earlier call came: only what follows is read, unless the file that it ended in
    /// is gone; then `each` hears commits again that it heard then. A file removed meanwhile is an error of a
    /// missing file: the caller tries again.
    pub fn read<E: From<StorageError>>(
        directory: &dyn Directory,
        needed_from: Lsn,
        before: Option<&LogRead>,
        mut each: impl FnMut(Lsn, &[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<LogRead, E> {
        let names = log_files(directory)?;
        let before = before.filter(|before| {
            before.end.as_ref().is_some_and(|(file, _)| names.binary_search(file).is_ok())
        });
        let mut read = LogRead { bytes: 0, bytes_read: 0, ..before.cloned().unwrap_or_default() };
        let start = read.end.clone();
        for name in names {
            let file = directory.open(&name).context("open", &name)?;
            let len = file.byte_len().context("measure", &name)?;
            read.bytes += len;
            let from = match start.as_ref().map(|(last, end)| (name.cmp(last), *end)) {
                Some((Ordering::Less, _)) => continue,
                Some((Ordering::Equal, end)) => end,
                Some((Ordering::Greater, _)) | None => 0,
            };
            if from > len {
                let detail = format!(
                    "{len} bytes, but {from} were there before: commits that were read are gone; open \
                     the database again"
                );
                return Err(StorageError::Inconsistent { file: name, detail }.into());
            }
            // Frames tell a torn end by the sectors of the file.
            let begin = from / SECTOR_BYTES * SECTOR_BYTES;
            let mut bytes = vec![0; (len - begin) as usize];
            file.read_exact_at(&mut bytes, begin).context("read", &name)?;
            read.bytes_read += len - from;
            let damaged = |offset: usize, source| StorageError::Damaged {
                file: name.clone(),
                offset: begin + offset as u64,
                source,
            };
            let mut at = (from - begin) as usize;
            if from == 0 {
                let header =
                    frame::read_file_header(&bytes, LogKind::Wal).map_err(|e| damaged(0, e))?;
                // If the log goes on behind a file without a header, its next frame shows the gap.
                let Some(first_frame) = header else { continue };
                at = first_frame;
            }
            while let Read::Frame { sequence, payload, end } =
                frame::read_frame(&bytes, at).map_err(|e| damaged(at, e))?
            {
                check_sequence(&name, read.last, needed_from, Lsn(sequence))?;
                each(Lsn(sequence), payload)?;
                read.last = Some(Lsn(sequence));
                read.end = Some((name.clone(), begin + end as u64));
                at = end;
            }
        }
        Ok(read)
    }

    /// Hands over the next commit. The caller sees to it that LSNs arrive in order.
    pub fn enqueue(&self, lsn: Lsn, payload: Vec<u8>) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push((lsn, payload));
    }

    /// Returns once the commit `lsn`, enqueued before, has been handed to the operating system, or is on
    /// stable storage if the log syncs.
    pub fn write_through(&self, lsn: Lsn) -> Result<()> {
        if self.logged() >= lsn {
            return Ok(());
        }
        let mut log = self.log();
        if self.logged() >= lsn {
            return Ok(());
        }
        if let Some(first) = &log.failure {
            return Err(StorageError::LogFailed { first: first.clone() });
        }
        let commits =
            std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner));
        let last = commits.last().expect("an LSN is enqueued before it is written through").0;
        assert!(last >= lsn, "an LSN is enqueued before it is written through");
        if let Err(error) = self.write(&mut log, &commits) {
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
        if let Err(error) = self.sync_open_file(&mut log) {
            log.failure = Some(error.to_string());
            return Err(error);
        }
        Ok(())
    }

    /// Returns once nothing that was enqueued before waits to be written, or is being written.
    pub fn write_all_enqueued(&self) -> Result<()> {
        let last = self.queue.lock().unwrap_or_else(PoisonError::into_inner).last().map(|f| f.0);
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

    /// Removes the files whose commits all lie before `needed_from`.
    pub fn remove_before(&self, needed_from: Lsn) -> Result<()> {
        let mut log = self.log();
        while let Some(file) = log.files.front().filter(|file| file.last < needed_from) {
            remove(self.directory.as_ref(), &file.name)?;
            self.bytes.fetch_sub(file.bytes, atomic::Ordering::Relaxed);
            log.files.pop_front();
            if log.files.is_empty() {
                log.open = None;
            }
        }
        Ok(())
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
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, log: &mut Log, commits: &[(Lsn, Vec<u8>)]) -> Result<()> {
        if log.open.is_none() || log.files.back().is_none_or(|file| file.bytes > FILE_BYTES) {
            self.start_file(log, commits[0].0)?;
        }
        let payload_len: usize = commits.iter().map(|(_, payload)| payload.len()).sum();
        let mut bytes =
            Vec::with_capacity(payload_len + commits.len() * frame::FRAME_OVERHEAD_BYTES);
        for (lsn, payload) in commits {
            frame::put_frame(lsn.0, payload, &mut bytes);
        }
        let Log { open, files, .. } = log;
        let (Some(writer), Some(file)) = (open, files.back_mut()) else {
            unreachable!("a file was started above");
        };
        writer.write_all(&bytes).context("append to", &file.name)?;
        if self.sync {
            writer.sync().context("sync", &file.name)?;
            self.syncs.fetch_add(1, atomic::Ordering::Relaxed);
        }
        file.bytes += bytes.len() as u64;
        file.last = commits[commits.len() - 1].0;
        self.bytes.fetch_add(bytes.len() as u64, atomic::Ordering::Relaxed);
        Ok(())
    }

    /// Makes the newest file durable, with its name.
    fn sync_open_file(&self, log: &mut Log) -> Result<()> {
        if let (Some(open), Some(file)) = (&mut log.open, log.files.back()) {
            open.sync().context("sync", &file.name)?;
        }
        self.directory.sync().context("sync", "the folder of the log")
    }

    fn start_file(&self, log: &mut Log, first: Lsn) -> Result<()> {
        if !self.sync && log.open.is_some() {
            // A power cut must not tear a file that the log goes on behind: that reads as damage.
            self.sync_open_file(log)?;
        }
        let name = format!("wal-{:020}.log", first.0);
        let mut header = Vec::new();
        frame::put_file_header(LogKind::Wal, &mut header);
        let mut writer = self.directory.create(&name).context("create", &name)?;
        writer.write_all(&header).context("write", &name)?;
        if self.sync {
            self.directory.sync().context("sync the folder of", &name)?;
        }
        let bytes = header.len() as u64;
        self.bytes.fetch_add(bytes, atomic::Ordering::Relaxed);
        log.files.push_back(LogFile { name, last: first, bytes });
        log.open = Some(writer);
        Ok(())
    }
}

/// The names of the log's files, oldest first: names are zero-padded, so they sort by LSN.
fn log_files(directory: &dyn Directory) -> Result<Vec<String>> {
    let mut names = directory.list().context("list", "the database folder")?;
    names.retain(|name| name.starts_with("wal-") && name.ends_with(".log"));
    names.sort_unstable();
    Ok(names)
}

fn remove(directory: &dyn Directory, name: &str) -> Result<()> {
    directory.remove(name).context("remove", name)
}

/// LSNs rise by one from frame to frame, and the log starts no later than it is needed. Before that a
/// file may be missing: of several removed ones a power cut can bring some back.
fn check_sequence(file: &str, last: Option<Lsn>, needed_from: Lsn, found: Lsn) -> Result<()> {
    let detail = match last {
        Some(last) if found <= last || found.0 > last.0 + 1 && found > needed_from => {
            format!("commit {found} follows commit {last}")
        }
        None if found > needed_from => {
            format!(
                "the log starts at commit {found}, but commits from {needed_from} on are needed"
            )
        }
        _ => return Ok(()),
    };
    Err(StorageError::Inconsistent { file: file.to_string(), detail })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::MemoryDirectory;

    /// LSN and payload.
    type Commit = (u64, Vec<u8>);

    fn recover(directory: &MemoryDirectory, needed_from: u64) -> Result<(Wal, Vec<Commit>)> {
        let mut commits = Vec::new();
        let shared: Arc<dyn Directory> = Arc::new(directory.clone());
        let (wal, _) = Wal::recover(shared, true, Lsn(needed_from), |lsn, payload| {
            commits.push((lsn.0, payload.to_vec()));
            Ok::<(), StorageError>(())
        })?;
        Ok((wal, commits))
    }

    fn log(wal: &Wal, lsn: u64, payload: &[u8]) {
        wal.enqueue(Lsn(lsn), payload.to_vec());
        wal.write_through(Lsn(lsn)).unwrap();
    }

    fn rewrite(directory: &MemoryDirectory, change: impl FnOnce(&mut Vec<u8>)) {
        let name = log_files(directory).unwrap().pop().unwrap();
        let mut bytes = read_file(directory, &name).unwrap();
        change(&mut bytes);
        directory.remove(&name).unwrap();
        directory.create(&name).unwrap().write_all(&bytes).unwrap();
    }

    #[test]
    fn commits_come_back_in_order_over_several_openings() {
        let directory = MemoryDirectory::new();
        for round in 0..3u64 {
            let (wal, commits) = recover(&directory, 1).unwrap();
            assert_eq!(commits.len() as u64, round * 2);
            log(&wal, round * 2 + 1, b"odd");
            log(&wal, round * 2 + 2, b"even");
        }
        let (_, commits) = recover(&directory, 1).unwrap();
        assert_eq!(commits.iter().map(|c| c.0).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
        assert_eq!(commits[3].1, b"even");
    }

    #[test]
    fn writing_all_enqueued_leaves_nothing_to_whoever_enqueued_it() {
        let directory = MemoryDirectory::new();
        let (wal, _) = recover(&directory, 1).unwrap();
        wal.write_all_enqueued().unwrap();
        wal.enqueue(Lsn(1), b"first".to_vec());
        wal.enqueue(Lsn(2), b"second".to_vec());
        wal.write_all_enqueued().unwrap();
        assert_eq!(wal.logged(), Lsn(2));
        assert_eq!(recover(&directory, 1).unwrap().1.len(), 2);
        wal.write_through(Lsn(1)).unwrap();
    }

    #[test]
    fn a_torn_last_commit_is_dropped_and_the_log_goes_on_behind_it() {
        let directory = MemoryDirectory::new();
        let (wal, _) = recover(&directory, 1).unwrap();
        log(&wal, 1, b"whole");
        log(&wal, 2, b"torn");
        rewrite(&directory, |bytes| bytes.truncate(bytes.len() - 1));
        let (wal, commits) = recover(&directory, 1).unwrap();
        assert_eq!(commits, [(1, b"whole".to_vec())]);
        log(&wal, 2, b"again");
        assert_eq!(recover(&directory, 1).unwrap().1[1], (2, b"again".to_vec()));
    }

    #[test]
    fn a_flipped_bit_in_an_acknowledged_commit_is_an_error() {
        let directory = MemoryDirectory::new();
        let (wal, _) = recover(&directory, 1).unwrap();
        log(&wal, 1, b"first");
        log(&wal, 2, b"second");
        rewrite(&directory, |bytes| {
            let len = bytes.len();
            bytes[len - 2] ^= 0x10;
        });
        assert!(matches!(recover(&directory, 1), Err(StorageError::Damaged { .. })));
    }

    #[test]
    fn a_missing_file_is_an_error_and_a_file_no_longer_needed_is_removed() {
        let directory = MemoryDirectory::new();
        let (wal, _) = recover(&directory, 1).unwrap();
        log(&wal, 1, b"a");
        drop(wal);
        let (wal, _) = recover(&directory, 1).unwrap();
        log(&wal, 2, b"b");
        assert_eq!(log_files(&directory).unwrap().len(), 2);
        wal.remove_before(Lsn(2)).unwrap();
        assert_eq!(log_files(&directory).unwrap().len(), 1);
        drop(wal);
        assert!(matches!(recover(&directory, 1), Err(StorageError::Inconsistent { .. })));
        assert_eq!(recover(&directory, 2).unwrap().1.len(), 1);
    }

    #[test]
    fn a_reader_takes_a_file_without_a_header_for_a_gap_unless_it_is_the_newest() {
        for (cut, expected) in [(2, Some(Some(Lsn(2)))), (1, None)] {
            let directory = MemoryDirectory::new();
            for lsn in 1..=3 {
                log(&recover(&directory, 1).unwrap().0, lsn, b"x");
            }
            let read = || Wal::read(&directory, Lsn(1), None, |_, _| Ok::<(), StorageError>(()));
            let whole = read().unwrap();
            assert_eq!(whole.last, Some(Lsn(3)));
            directory.truncate(&log_files(&directory).unwrap()[cut], 3).unwrap();
            let found = read().ok();
            assert_eq!(found.as_ref().map(|found| found.last), expected, "file {cut} is cut short");
            assert!(found.is_none_or(|found| found.bytes < whole.bytes));
        }
    }

    #[test]
    fn a_removed_file_that_a_power_cut_brings_back_is_no_damage() {
        let directory = MemoryDirectory::new();
        let mut first_file = None;
        for lsn in 1..=3 {
            let (wal, _) = recover(&directory, 1).unwrap();
            log(&wal, lsn, b"x");
            let name = log_files(&directory).unwrap()[0].clone();
            first_file.get_or_insert_with(|| (name.clone(), read_file(&directory, &name).unwrap()));
        }
        let (wal, _) = recover(&directory, 1).unwrap();
        wal.remove_before(Lsn(3)).unwrap();
        drop(wal);
        let (name, bytes) = first_file.unwrap();
        directory.create(&name).unwrap().write_all(&bytes).unwrap();
        let lsns = |commits: Vec<(u64, Vec<u8>)>| commits.iter().map(|c| c.0).collect::<Vec<_>>();
        assert_eq!(lsns(recover(&directory, 3).unwrap().1), [1, 3]);
        assert!(matches!(recover(&directory, 2), Err(StorageError::Inconsistent { .. })));
    }

    #[test]
    fn threads_that_commit_together_all_see_their_commit_logged() {
        let directory = MemoryDirectory::new();
        let (wal, _) = recover(&directory, 1).unwrap();
        let next = Mutex::new(1u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let lsn = {
                            let mut next = next.lock().unwrap();
                            wal.enqueue(Lsn(*next), next.to_le_bytes().to_vec());
                            *next += 1;
                            Lsn(*next - 1)
                        };
                        wal.write_through(lsn).unwrap();
                        assert!(wal.logged() >= lsn);
                    }
                });
            }
        });
        drop(wal);
        assert_eq!(recover(&directory, 1).unwrap().1.len(), 800);
    }
}

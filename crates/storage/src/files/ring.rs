//! Many reads under way at once, by one thread: through rings of requests and answers that the kernel and the process
//! share (io_uring, Axboe 2019).

#![allow(unsafe_code)]

use std::io;
use std::mem::{forget, take};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use io_uring::{IoUring, Probe, opcode, types};
use parking_lot::Mutex;
use rustix::io::Errno;

use crate::error::same_error;
use crate::files::process::Process;
use crate::files::reads::{ReadBytes, ReadFile, ReadRequest};

/// Reads under way at the same time. Devices answer no faster with more.
const DEPTH: usize = 64;
/// Rings that wait for the next call. Each has a file descriptor.
const IDLE_RINGS: usize = 4;
/// The longest read that the kernel is asked for at once.
const READ_BYTES_MAX: usize = 1 << 30;

/// Rings that no call uses at the moment, and the process that made them.
struct Idle {
    rings: Vec<IoUring>,
    process: Option<Process>,
}

static IDLE: Mutex<Idle> = Mutex::new(Idle { rings: Vec::new(), process: None });
/// The system has no rings for this process, and will have none later.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// Whether reads can be made this way.
pub fn is_available() -> bool {
    ring().map(give_back).is_some()
}

/// Reads some ranges; `None` where that cannot be done here, because the system has no rings or a file is not one of
/// the system's.
pub fn read_many(requests: &[ReadRequest]) -> Option<Vec<io::Result<ReadBytes>>> {
    if requests.iter().any(|request| request.file.descriptor().is_none()) {
        return None;
    }
    let mut batch = Batch { ring: Some(ring()?), reads: Vec::new(), under_way: 0 };
    batch.reads.extend(requests.iter().map(Read::new));
    batch.run();
    Some(batch.finish())
}

fn ring() -> Option<IoUring> {
    // A process that was forked off has no part in the rings of the other one. And if another thread held the lock at
    // that moment, it stays locked here: so no call waits for it.
    if let Some(mut idle) = IDLE.try_lock() {
        let here = Some(Process::current());
        if idle.process != here {
            take(&mut idle.rings).into_iter().for_each(forget);
            idle.process = here;
        }
        if let Some(ring) = idle.rings.pop() {
            return Some(ring);
        }
    }
    if IS_REFUSED.load(Ordering::Relaxed) {
        return None;
    }
    let made = IoUring::new(DEPTH as u32).and_then(|ring| {
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        match probe.is_supported(opcode::Read::CODE) {
            true => Ok(ring),
            false => Err(io::ErrorKind::Unsupported.into()),
        }
    });
    match made {
        Ok(ring) => Some(ring),
        Err(error) => {
            let lacks = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN];
            let is_passing = Errno::from_io_error(&error).is_some_and(|code| lacks.contains(&code));
            IS_REFUSED.fetch_or(!is_passing, Ordering::Relaxed);
            None
        }
    }
}

fn give_back(ring: IoUring) {
    if let Some(mut idle) = IDLE.try_lock()
        && idle.process == Some(Process::current())
        && idle.rings.len() < IDLE_RINGS
    {
        idle.rings.push(ring);
    }
}

/// Reads that one ring makes.
struct Batch {
    /// `None` once it was given back.
    ring: Option<IoUring>,
    reads: Vec<Read>,
    /// How many reads the kernel may still write into the buffers for.
    under_way: usize,
}

/// One read, which may take several requests: the kernel may read less than it is asked to.
struct Read {
    /// Keeps the descriptor open.
    file: Arc<dyn ReadFile>,
    buffer: ReadBytes,
    /// Where in the file the buffer begins.
    offset: u64,
    /// Which of the buffer's bytes are asked for.
    wanted: Range<usize>,
    filled: usize,
    result: Option<io::Result<()>>,
}

impl Batch {
    fn run(&mut self) {
        let ring = self.ring.as_mut().expect("it is given back at the end");
        // The last is next.
        let mut queue: Vec<usize> = (0..self.reads.len()).rev().collect();
        loop {
            while self.under_way < DEPTH
                && let Some(number) = queue.pop()
            {
                let Some(entry) = self.reads[number].next_request(number) else { continue };
                // SAFETY: the entry names a descriptor and a buffer of `self.reads[number]`, which holds the file open.
                // Both outlive the request: while one is under way, `reads` is neither grown nor shrunk, no other
                // code touches the buffer, and dropping the batch leaks it.
                if unsafe { ring.submission().push(&entry) }.is_err() {
                    queue.push(number);
                    break;
                }
                self.under_way += 1;
            }
            if self.under_way == 0 {
                return;
            }
            match ring.submit_and_wait(1) {
                Ok(_) => {}
                // The kernel is short of something until answers are taken.
                Err(error)
                    if matches!(
                        Errno::from_io_error(&error),
                        Some(Errno::INTR | Errno::AGAIN | Errno::BUSY)
                    ) => {}
                Err(error) => {
                    // What is under way cannot be waited for.
                    let open = self.reads.iter_mut().filter(|read| read.result.is_none());
                    open.for_each(|read| read.result = Some(Err(same_error(&error))));
                    return;
                }
            }
            for answer in ring.completion() {
                self.under_way -= 1;
                let number = answer.user_data() as usize;
                if self.reads[number].note(answer.result()) {
                    queue.push(number);
                }
            }
        }
    }

    fn finish(mut self) -> Vec<io::Result<ReadBytes>> {
        if self.under_way > 0 {
            let failed = |read: &mut Read| {
                let result = read.result.take().unwrap_or(Ok(()));
                Err(result.err().unwrap_or_else(|| io::ErrorKind::Interrupted.into()))
            };
            return self.reads.iter_mut().map(failed).collect();
        }
        if let Some(ring) = self.ring.take() {
            give_back(ring);
        }
        let read = |read: Read| {
            read.result.expect("every read has ended")?;
            Ok(read.buffer.narrowed(read.wanted))
        };
        take(&mut self.reads).into_iter().map(read).collect()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if self.under_way > 0 {
            // The kernel may write into the buffers at any time.
            forget(self.ring.take());
            forget(take(&mut self.reads));
        }
    }
}

impl Read {
    fn new(request: &ReadRequest) -> Read {
        let alignment = request.file.descriptor().map_or(1, |descriptor| descriptor.alignment);
        let ReadRequest { offset, len, .. } = *request;
        let before = (offset % alignment as u64) as usize;
        let buffer = ReadBytes::zeroed((before + len).next_multiple_of(alignment), alignment);
        let (file, wanted) = (request.file.clone(), before..before + len);
        Read { file, buffer, offset: offset - before as u64, wanted, filled: 0, result: None }
    }

    /// What to ask the kernel for; `None` if there is nothing left to read.
    fn next_request(&mut self, number: usize) -> Option<io_uring::squeue::Entry> {
        let descriptor = self.file.descriptor().expect("requests were checked");
        let fd = types::Fd(descriptor.fd.as_raw_fd());
        let rest = &mut self.buffer.as_mut_slice()[self.filled..];
        if self.filled >= self.wanted.end {
            self.result = Some(Ok(()));
            return None;
        }
        let len = rest.len().min(READ_BYTES_MAX) as u32;
        let entry = opcode::Read::new(fd, rest.as_mut_ptr(), len);
        let entry = entry.offset(self.offset + self.filled as u64);
        Some(entry.build().user_data(number as u64))
    }

    /// Takes an answer. Says whether there is more to ask for.
    fn note(&mut self, answer: i32) -> bool {
        let result = match answer {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            read if read > 0 => {
                self.filled += read as usize;
                if self.filled < self.wanted.end {
                    return true;
                }
                Ok(())
            }
            failed => match Errno::from_raw_os_error(-failed) {
                Errno::INTR => return true,
                // The file is of a kind that a ring does not wait for.
                Errno::AGAIN => {
                    let wanted = &mut self.buffer.as_mut_slice()[self.wanted.clone()];
                    self.file.read_exact_at(wanted, self.offset + self.wanted.start as u64)
                }
                error => Err(error.into()),
            },
        };
        self.result = Some(result);
        false
    }
}

//! Many reads under way at once, by one thread: through rings of requests and answers that the kernel and the process
//! share (io_uring, Axboe 2019).

#![allow(unsafe_code)]

use std::io;
use std::mem::{self, forget};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use io_uring::{IoUring, Probe, opcode, types};
use parking_lot::Mutex;
use rustix::io::Errno;

use crate::files::process::Process;
use crate::files::reads::{READ_BYTES_MAX, ReadBytes, ReadFile, ReadRequest, TakeRead};

/// Reads under way at the same time. Devices answer no faster with more.
const DEPTH: usize = 64;
/// Reads that the kernel is handed at once. A device begins with them only then, and would else do nothing while as many are made ready
/// as may be under way: for some tenths of a millisecond, where it is that of a virtual machine.
const HANDED_AT_ONCE: usize = 8;
/// Rings that wait for the next call. Each has a file descriptor.
const IDLE_RINGS: usize = 4;

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

/// Reads some ranges. Gives the numbers of those that were not read and that have to be read in another way: the system has no
/// rings, or none any more, or a file is not one of the system's.
pub fn read_each(requests: &[ReadRequest], take: TakeRead<'_>) -> Vec<usize> {
    let all = || (0..requests.len()).collect();
    if requests.iter().any(|request| request.file.descriptor().is_none()) {
        return all();
    }
    let Some(ring) = ring() else { return all() };
    let reads = requests.iter().map(Read::new).collect();
    Batch { ring: Some(ring), reads, under_way: 0 }.run(take)
}

fn ring() -> Option<IoUring> {
    // A process that was forked off has no part in the rings of the other one. And if another thread held the lock at
    // that moment, it stays locked here: so no call waits for it.
    if let Some(mut idle) = IDLE.try_lock() {
        let here = Some(Process::current());
        if idle.process != here {
            mem::take(&mut idle.rings).into_iter().for_each(forget);
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
            note_refusal(&error);
            None
        }
    }
}

/// Has rings left alone from now on, unless the system was only short of something.
fn note_refusal(error: &io::Error) {
    let lacks = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN];
    let is_passing = Errno::from_io_error(error).is_some_and(|code| lacks.contains(&code));
    IS_REFUSED.fetch_or(!is_passing, Ordering::Relaxed);
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
    /// Empty until the kernel is asked, so that what is not under way takes no memory.
    buffer: ReadBytes,
    /// The bytes of the buffer.
    len: usize,
    /// Where in the file the buffer begins.
    offset: u64,
    /// Which of the buffer's bytes are asked for.
    wanted: Range<usize>,
    filled: usize,
    has_ended: bool,
}

impl Batch {
    /// Gives the numbers of what the kernel did not take.
    fn run(mut self, take: TakeRead<'_>) -> Vec<usize> {
        // The last is next.
        let mut queue: Vec<usize> = (0..self.reads.len()).rev().collect();
        let mut ended: Vec<(usize, io::Result<()>)> = Vec::new();
        loop {
            let ring = self.ring.as_mut().expect("it is given back at the end");
            while self.under_way < DEPTH
                && let Some(number) = queue.pop()
            {
                let Some(entry) = self.reads[number].next_request(number) else {
                    ended.push((number, Ok(())));
                    continue;
                };
                // SAFETY: the entry names a descriptor and a buffer of `self.reads[number]`, which holds the file open.
                // Both outlive the request: while one is under way, `reads` is neither grown nor shrunk, no other
                // code touches the buffer, and dropping the batch leaks it.
                if unsafe { ring.submission().push(&entry) }.is_err() {
                    queue.push(number);
                    break;
                }
                self.under_way += 1;
                if self.under_way.is_multiple_of(HANDED_AT_ONCE) {
                    // Where that fails, it fails again below, with the rest.
                    let _ = ring.submit();
                }
            }
            let submitted = match self.under_way {
                0 => Ok(0),
                // What ended is taken while others are under way.
                _ => ring.submit_and_wait(usize::from(ended.is_empty())),
            };
            for (number, result) in ended.drain(..) {
                take(number, self.reads[number].end(result));
            }
            match submitted {
                Ok(_) => {}
                // The kernel is short of something until answers are taken.
                Err(error)
                    if matches!(
                        Errno::from_io_error(&error),
                        Some(Errno::INTR | Errno::AGAIN | Errno::BUSY)
                    ) => {}
                Err(error) => return self.refused(&error),
            }
            for answer in ring.completion() {
                self.under_way -= 1;
                let number = answer.user_data() as usize;
                match self.reads[number].note(answer.result()) {
                    Some(result) => ended.push((number, result)),
                    None => queue.push(number),
                }
            }
            if self.under_way == 0 && queue.is_empty() && ended.is_empty() {
                self.ring.take().into_iter().for_each(give_back);
                return Vec::new();
            }
        }
    }

    /// The system takes no more requests of this process: a filter of system calls may forbid that at any time. What is not there
    /// yet is read in another way, into other buffers: what the kernel has already cannot be waited for.
    fn refused(mut self, error: &io::Error) -> Vec<usize> {
        note_refusal(error);
        let ring = self.ring.as_mut().expect("it is given back at the end");
        if ring.submission().len() == self.under_way {
            // The kernel has none of them. The ring goes, with its requests.
            self.under_way = 0;
        }
        (0..self.reads.len()).filter(|&number| !self.reads[number].has_ended).collect()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if self.under_way > 0 {
            // The kernel may write into the buffers at any time.
            forget(self.ring.take());
            forget(mem::take(&mut self.reads));
        }
    }
}

impl Read {
    fn new(request: &ReadRequest) -> Read {
        let alignment = request.file.descriptor().map_or(1, |descriptor| descriptor.alignment);
        let ReadRequest { offset, len, .. } = *request;
        let before = (offset % alignment as u64) as usize;
        Read {
            file: request.file.clone(),
            buffer: ReadBytes::default(),
            len: (before + len).next_multiple_of(alignment),
            offset: offset - before as u64,
            wanted: before..before + len,
            filled: 0,
            has_ended: false,
        }
    }

    /// What to ask the kernel for; `None` if there is nothing left to read.
    fn next_request(&mut self, number: usize) -> Option<io_uring::squeue::Entry> {
        if self.filled >= self.wanted.end {
            return None;
        }
        let descriptor = self.file.descriptor().expect("requests were checked");
        let fd = types::Fd(descriptor.fd.as_raw_fd());
        if self.filled == 0 {
            let none = mem::take(&mut self.buffer);
            self.buffer = ReadBytes::of_any_content(none, self.len, descriptor.alignment);
        }
        let rest = &mut self.buffer.as_mut_slice()[self.filled..];
        let len = rest.len().min(READ_BYTES_MAX) as u32;
        let entry = opcode::Read::new(fd, rest.as_mut_ptr(), len);
        let entry = entry.offset(self.offset + self.filled as u64);
        Some(entry.build().user_data(number as u64))
    }

    /// Takes an answer. `None` if there is more to ask for.
    fn note(&mut self, answer: i32) -> Option<io::Result<()>> {
        Some(match answer {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            read if read > 0 => {
                self.filled += read as usize;
                if self.filled < self.wanted.end {
                    return None;
                }
                Ok(())
            }
            failed => match Errno::from_raw_os_error(-failed) {
                Errno::INTR => return None,
                // The file is of a kind that a ring does not wait for.
                Errno::AGAIN => {
                    let wanted = &mut self.buffer.as_mut_slice()[self.wanted.clone()];
                    self.file.read_exact_at(wanted, self.offset + self.wanted.start as u64)
                }
                error => Err(error.into()),
            },
        })
    }

    /// The bytes, with the kernel done.
    fn end(&mut self, result: io::Result<()>) -> io::Result<ReadBytes> {
        self.has_ended = true;
        result?;
        Ok(mem::take(&mut self.buffer).narrowed(self.wanted.clone()))
    }
}

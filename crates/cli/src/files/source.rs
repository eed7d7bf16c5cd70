//! The bytes of a file or of standard input, unpacked, such that Ctrl-C ends a wait for them.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use drillcore::Interrupt;
use drillcore_sql::Packing;
use parking_lot::Mutex;
use tempfile::SpooledTempFile;

/// How often a wait looks whether it should end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const CHUNK_BYTES: usize = 64 << 10;
/// Chunks read before they are taken.
const CHUNKS_AHEAD: usize = 4;
/// Bytes of a beginning that are kept in memory.
const KEPT_IN_MEMORY_BYTES: usize = 1 << 20;

/// The bytes of a file, or of standard input for `-`, unpacked where the first ones say that they are packed.
pub fn open(name: &str, interrupt: &Interrupt) -> io::Result<Box<dyn Read + Send>> {
    unpacked(raw(name, interrupt)?)
}

/// Whether the bytes of a file are packed.
pub fn is_packed(file: &mut File) -> io::Result<bool> {
    let packing = Packing::of(&beginning(&mut *file)?);
    file.rewind()?;
    Ok(packing != Packing::None)
}

/// The bytes as they are.
pub fn raw(name: &str, interrupt: &Interrupt) -> io::Result<Box<dyn Read + Send>> {
    Ok(match name {
        "-" => Box::new(Awaited::new(|| Ok(io::stdin()), interrupt)),
        // The other end of a pipe may let us wait as long as it likes, for its opening as well.
        _ if !std::fs::metadata(name)?.is_file() => {
            let name = name.to_string();
            Box::new(Awaited::new(move || File::open(name), interrupt))
        }
        _ => Box::new(File::open(name)?),
    })
}

fn unpacked(mut raw: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let beginning = beginning(&mut raw)?;
    let packing = Packing::of(&beginning);
    let whole = io::Cursor::new(beginning).chain(raw);
    Ok(match packing {
        Packing::None => Box::new(whole),
        Packing::Gzip => Box::new(flate2::read::MultiGzDecoder::new(whole)),
        Packing::Zstd => Box::new(zstd::Decoder::new(whole)?),
        other => return Err(unknown_packing(other)),
    })
}

/// A way of packing that a later version of `drillcore_sql` may know.
pub fn unknown_packing(packing: Packing) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("{packing:?} is not supported"))
}

/// As many of the first bytes as show how a file is packed.
fn beginning(file: impl Read) -> io::Result<Vec<u8>> {
    let mut beginning = Vec::new();
    file.take(Packing::BEGINNING_BYTES as u64).read_to_end(&mut beginning)?;
    Ok(beginning)
}

/// Whether the bytes can be read only once, as those of a pipe.
pub fn is_read_once(name: &str) -> bool {
    name == "-" || std::fs::metadata(name).is_ok_and(|found| !found.is_file())
}

/// A pipe or standard input of which the beginning is kept, so that it can be read again.
pub struct Replay {
    kept: Mutex<Kept>,
}

struct Kept {
    raw: Box<dyn Read + Send>,
    /// What was read of it: in memory while it is short, then in a file without a name.
    beginning: SpooledTempFile,
    len: u64,
    keeps_more: bool,
}

impl Replay {
    pub fn new(name: &str, interrupt: &Interrupt) -> io::Result<Replay> {
        let raw = raw(name, interrupt)?;
        let beginning = SpooledTempFile::new(KEPT_IN_MEMORY_BYTES);
        Ok(Replay { kept: Mutex::new(Kept { raw, beginning, len: 0, keeps_more: true }) })
    }

    /// All bytes from the first one, unpacked. No other reader may be in use.
    pub fn read(self: &Arc<Replay>) -> io::Result<Box<dyn Read + Send>> {
        unpacked(Box::new(Again { replay: self.clone(), position: 0 }))
    }

    /// What is read from now on need not be read again.
    pub fn keep_no_more(&self) {
        self.kept.lock().keeps_more = false;
    }
}

struct Again {
    replay: Arc<Replay>,
    position: u64,
}

impl Read for Again {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut kept = self.replay.kept.lock();
        let Kept { raw, beginning, len: kept_len, keeps_more } = &mut *kept;
        let len = if self.position < *kept_len {
            beginning.seek(SeekFrom::Start(self.position))?;
            let room = usize::try_from(*kept_len - self.position).unwrap_or(usize::MAX);
            let len = buffer.len().min(room);
            beginning.read(&mut buffer[..len])?
        } else {
            let len = raw.read(buffer)?;
            if *keeps_more {
                beginning.seek(SeekFrom::Start(*kept_len))?;
                beginning.write_all(&buffer[..len])?;
                *kept_len += len as u64;
            }
            len
        };
        self.position += len as u64;
        Ok(len)
    }
}

/// Bytes that a thread of their own waits for, because nothing else ends the wait: a system call that a
/// signal interrupts is made again. The thread ends at the end of its file or with the process.
struct Awaited {
    chunks: Receiver<io::Result<Vec<u8>>>,
    chunk: io::Cursor<Vec<u8>>,
    interrupt: Interrupt,
}

impl Awaited {
    fn new<F: Read>(
        open: impl FnOnce() -> io::Result<F> + Send + 'static,
        interrupt: &Interrupt,
    ) -> Awaited {
        let (sender, chunks) = mpsc::sync_channel(CHUNKS_AHEAD);
        thread::spawn(move || {
            let mut file = match open() {
                Ok(file) => file,
                Err(error) => return drop(sender.send(Err(error))),
            };
            loop {
                let chunk = read_chunk(&mut file);
                let is_last = chunk.as_ref().map_or(true, Vec::is_empty);
                if sender.send(chunk).is_err() || is_last {
                    return;
                }
            }
        });
        Awaited { chunks, chunk: io::Cursor::default(), interrupt: interrupt.clone() }
    }
}

/// What there is; nothing at the end.
fn read_chunk(file: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match file.read(&mut chunk) {
            Ok(len) => {
                chunk.truncate(len);
                return Ok(chunk);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

impl Read for Awaited {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.chunk.position() == self.chunk.get_ref().len() as u64 {
            match self.chunks.recv_timeout(POLL_INTERVAL) {
                Ok(chunk) => self.chunk = io::Cursor::new(chunk?),
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
                Err(RecvTimeoutError::Timeout) => {
                    // Not of the kind `Interrupted`, at which callers try again.
                    self.interrupt.check().map_err(io::Error::other)?;
                }
            }
        }
        self.chunk.read(buffer)
    }
}

//! Files that are read, and several reads of one call, which need not wait for one another.

use std::cell::Cell;
use std::io;
use std::mem;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use parking_lot::Mutex;

/// A file that is read at any position by any number of threads.
pub trait ReadFile: Send + Sync {
    /// The length of the file in bytes.
    fn byte_len(&self) -> io::Result<u64>;
    /// Fills `buffer`, which may hold anything before, from `offset` on; fewer bytes in the file are an `UnexpectedEof`.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// As [`ReadFile::read_exact_at`], `len` bytes into the memory of an earlier read, if that has room for them, or else of their own.
    /// Nothing of the earlier read is kept, and after an error its memory is gone; [`ReadBytes::default`] has none.
    fn read_over(&self, earlier: ReadBytes, offset: u64, len: usize) -> io::Result<ReadBytes> {
        let mut read = ReadBytes::of_any_content(earlier, len, 1);
        self.read_exact_at(read.as_mut_slice(), offset)?;
        Ok(read)
    }
    /// Which file it is, whatever its name, where that is known.
    fn identity(&self) -> io::Result<Option<FileIdentity>> {
        Ok(None)
    }
    /// The file itself, open, where this is a handle that may have to open it.
    fn opened(&self) -> io::Result<Option<Arc<dyn ReadFile>>> {
        Ok(None)
    }
    /// What [`ReadFile::opened`] gives, unless it has to open the file for it, or this is no handle.
    fn if_open(&self) -> Option<Arc<dyn ReadFile>> {
        None
    }
    /// What the operating system knows the file by, where it does.
    fn descriptor(&self) -> Option<Descriptor<'_>> {
        None
    }
}

/// An open file of the operating system.
#[derive(Debug, Clone, Copy)]
pub struct Descriptor<'a> {
    /// Open for reading as long as the file that gave it.
    pub fd: BorrowedFd<'a>,
    /// What offset, length and address of a read must be multiples of.
    pub alignment: usize,
}

/// What tells a file from all others that there are at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIdentity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

/// A range of an open file.
#[derive(Clone)]
pub struct ReadRequest {
    /// The file to read from.
    pub file: Arc<dyn ReadFile>,
    /// Bytes from the start of the file.
    pub offset: u64,
    /// Bytes to read. A file that ends before them is an error.
    pub len: usize,
}

/// What gets the result of each read, with the number of its request: each once, in any order.
pub type TakeRead<'a> = &'a mut dyn FnMut(usize, io::Result<ReadBytes>);

/// The longest read that the system is asked for at once. In tests it is a page: longer reads go on there as they do where the
/// system gives less than it was asked for.
pub(crate) const READ_BYTES_MAX: usize = if cfg!(test) { 4096 } else { 1 << 30 };

thread_local! {
    /// The buffer of an earlier read of this thread.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Those of reads that were under way at once, for any thread. A fork may find it locked for good, so no read waits for it.
static SPARES: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// The longest buffer that is kept for a later read: of a block at any alignment.
const SPARE_BYTES_MAX: usize = 16 << 10;
/// Buffers that are kept for all threads: of what two calls have under way.
const SPARES_MAX: usize = 128;

/// Bytes that were read, at an address that the file asks for.
#[derive(Default)]
pub struct ReadBytes {
    buffer: Vec<u8>,
    bytes: Range<usize>,
}

impl ReadRequest {
    /// Reads the range by itself.
    pub fn read(&self) -> io::Result<ReadBytes> {
        self.file.read_over(ReadBytes::default(), self.offset, self.len)
    }
}

impl ReadBytes {
    /// Bytes to be read over, at an address that is a multiple of `alignment`: zeros, or what was read before.
    pub(crate) fn of_any_content(
        mut earlier: ReadBytes,
        len: usize,
        alignment: usize,
    ) -> ReadBytes {
        let needed = len + alignment - 1;
        let mut buffer = Vec::new();
        if earlier.buffer.len() >= needed {
            buffer = mem::take(&mut earlier.buffer);
        }
        // Before there is another one.
        drop(earlier);
        if buffer.is_empty() && needed <= SPARE_BYTES_MAX {
            buffer = SPARE.try_with(Cell::take).unwrap_or_default();
            if buffer.is_empty() {
                buffer = SPARES.try_lock().and_then(|mut all| all.pop()).unwrap_or_default();
            }
        }
        if buffer.len() < needed {
            buffer = vec![0; needed];
        }
        // The buffer never grows, so it stays where it is.
        let start = buffer.as_ptr().align_offset(alignment);
        ReadBytes { buffer, bytes: start..start + len }
    }

    /// The same without what lies outside of a range.
    pub(crate) fn narrowed(mut self, range: Range<usize>) -> ReadBytes {
        assert!(range.start <= range.end && range.end <= self.bytes.len());
        let start = self.bytes.start;
        self.bytes = start + range.start..start + range.end;
        self
    }

    /// Exactly the bytes of the range that was asked for.
    pub fn as_slice(&self) -> &[u8] {
        &self.buffer[self.bytes.clone()]
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.buffer[self.bytes.clone()]
    }
}

impl Drop for ReadBytes {
    /// Leaves the buffer for the next read, which neither asks for memory nor clears it then.
    fn drop(&mut self) {
        if self.buffer.is_empty() || self.buffer.len() > SPARE_BYTES_MAX {
            return;
        }
        let buffer = mem::take(&mut self.buffer);
        let _ = SPARE.try_with(|spare| {
            let before = spare.take();
            let is_longer = buffer.len() >= before.len();
            let (own, other) = if is_longer { (buffer, before) } else { (before, buffer) };
            spare.set(own);
            if !other.is_empty()
                && let Some(mut spares) = SPARES.try_lock()
                && spares.len() < SPARES_MAX
            {
                spares.push(other);
            }
        });
    }
}

/// Reads one range after the other: for files in memory.
pub fn read_in_turn(requests: &[ReadRequest], take: TakeRead<'_>) {
    requests.iter().enumerate().for_each(|(number, request)| take(number, request.read()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_lie_where_they_are_asked_to() {
        for alignment in [1, 512, 4096] {
            let mut read = ReadBytes::of_any_content(ReadBytes::default(), 8192, alignment);
            assert_eq!(read.as_slice().as_ptr().align_offset(alignment), 0);
            read.as_mut_slice()[4000..4003].copy_from_slice(&[7, 0, 0]);
            let narrow = read.narrowed(4000..4003);
            assert_eq!(narrow.as_slice(), [7, 0, 0]);
            assert_eq!(narrow.narrowed(0..1).as_slice(), [7]);
        }
    }

    #[test]
    fn buffers_of_reads_under_way_at_once_are_used_again_as_far_as_they_are_kept() {
        let reads = || -> Vec<ReadBytes> {
            (0..20).map(|_| ReadBytes::of_any_content(ReadBytes::default(), 9000, 1)).collect()
        };
        // Tests beside this one may hold the lock, or take some of them. Memory of their own is zeros.
        let again = (0..2 * SPARES_MAX).map(|_| {
            let mut all = reads();
            let again = all.iter().filter(|read| read.as_slice()[8999] == 7).count();
            all.iter_mut().for_each(|read| read.as_mut_slice()[8999] = 7);
            again
        });
        assert!(again.max().unwrap() > 1, "that of the thread and others");
        assert!(SPARES.lock().len() <= SPARES_MAX);
        assert!(SPARES.lock().iter().all(|spare| spare.len() <= SPARE_BYTES_MAX));
    }

    #[test]
    fn a_buffer_is_used_again_where_it_is_long_enough() {
        // Else it is one that another thread left, of any length.
        drop(ReadBytes { buffer: vec![0; 8192], bytes: 0..0 });
        let mut read = ReadBytes::of_any_content(ReadBytes::default(), 8192, 1);
        read.as_mut_slice()[0] = 7;
        drop(read);
        let read = ReadBytes::of_any_content(ReadBytes::default(), 8192, 1);
        assert_eq!(read.as_slice()[0], 7);
        let longer = ReadBytes::of_any_content(ReadBytes::default(), 8193, 1);
        let len = longer.buffer.len();
        assert_eq!((longer.as_slice().len(), len >= 8193), (8193, true));
        drop(longer);
        // Neither those that are shorter, or none, nor longer ones take its place.
        drop((
            read,
            ReadBytes::default(),
            ReadBytes::of_any_content(ReadBytes::default(), SPARE_BYTES_MAX + 1, 1),
        ));
        assert_eq!(ReadBytes::of_any_content(ReadBytes::default(), 1, 1).buffer.len(), len);
        let mut long = ReadBytes::of_any_content(ReadBytes::default(), 1 << 20, 1);
        long.as_mut_slice()[7] = 7;
        let again = ReadBytes::of_any_content(long, 1 << 19, 1);
        assert_eq!(
            (again.as_slice()[7], again.buffer.len()),
            (7, 1 << 20),
            "it is that of the earlier read"
        );
    }
}

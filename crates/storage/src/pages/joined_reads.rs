//! Reading neighbours in a file together.
//!
//! A device that gives many small reads gives fewer long ones in less time, and each read costs the system some microseconds of
//! processor, whatever its length.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::few::Few;
use crate::files::directory::Directory;
use crate::files::reads::ReadRequest;

/// The longest joined read, in bytes. The device then takes longer for the bytes than for the request, and a call holds little
/// more than without.
const JOINED_BYTES_MAX: u64 = 128 << 10;
/// The longest gap between neighbours, in bytes. To read it takes less time than another request.
const GAP_BYTES_MAX: u64 = 4 << 10;

/// Reads some ranges, as [`Directory::read_each`], those next to each other in the order given with one read. Where that fails,
/// each range is read by itself, so that each has its own error.
pub(super) fn read_joined(
    directory: &dyn Directory,
    requests: &[ReadRequest],
    take: &mut dyn FnMut(usize, io::Result<&[u8]>),
) {
    let groups = groups(requests);
    if groups.len() == requests.len() {
        return directory.read_each(requests, &mut |at, read| match read {
            Ok(bytes) => take(at, Ok(bytes.as_slice())),
            Err(error) => take(at, Err(error)),
        });
    }
    let joined: Vec<ReadRequest> =
        groups.iter().map(|group| joined(&requests[group.clone()])).collect();
    let mut failed: Vec<usize> = Vec::new();
    directory.read_each(&joined, &mut |number, read| {
        let group = groups[number].clone();
        match read {
            Ok(bytes) => {
                for at in group {
                    let begin = (requests[at].offset - joined[number].offset) as usize;
                    take(at, Ok(&bytes.as_slice()[begin..begin + requests[at].len]));
                }
            }
            Err(error) if group.len() == 1 => take(group.start, Err(error)),
            Err(_) => failed.extend(group),
        }
    });
    if failed.is_empty() {
        return;
    }
    let alone: Vec<ReadRequest> = failed.iter().map(|&at| requests[at].clone()).collect();
    directory.read_each(&alone, &mut |number, read| {
        let at = failed[number];
        match read {
            Ok(bytes) => take(at, Ok(bytes.as_slice())),
            Err(error) => take(at, Err(error)),
        }
    });
}

/// Which requests are read together, in order.
fn groups(requests: &[ReadRequest]) -> Few<Range<usize>> {
    let mut groups: Few<Range<usize>> = Few::new();
    for (at, request) in requests.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if is_joined(&requests[group.start], &requests[at - 1], request) => {
                group.end += 1;
            }
            _ => groups.push(at..at + 1),
        }
    }
    groups
}

/// Whether a request is read together with those from `first` to `last`.
fn is_joined(first: &ReadRequest, last: &ReadRequest, next: &ReadRequest) -> bool {
    let gap = next.offset.checked_sub(end(last));
    Arc::ptr_eq(&first.file, &next.file)
        && gap.is_some_and(|gap| gap <= GAP_BYTES_MAX)
        && end(next) - first.offset <= JOINED_BYTES_MAX
}

fn end(request: &ReadRequest) -> u64 {
    request.offset + request.len as u64
}

/// One request for all.
fn joined(requests: &[ReadRequest]) -> ReadRequest {
    let (first, last) = (&requests[0], &requests[requests.len() - 1]);
    let len = (end(last) - first.offset) as usize;
    ReadRequest { file: first.file.clone(), offset: first.offset, len }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use parking_lot::Mutex;

    use super::*;
    use crate::files::memory_directory::MemoryDirectory;
    use crate::files::reads::ReadFile;

    /// A file that cannot be read at some bytes, and what was read of it.
    struct Faulty {
        bad: Range<u64>,
        reads: Mutex<Vec<Range<u64>>>,
    }

    impl ReadFile for Faulty {
        fn byte_len(&self) -> io::Result<u64> {
            Ok(1 << 30)
        }

        fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
            let end = offset + buffer.len() as u64;
            self.reads.lock().push(offset..end);
            (0..).zip(&mut *buffer).for_each(|(at, byte)| *byte = (offset + at) as u8);
            match offset < self.bad.end && self.bad.start < end {
                true => Err(io::ErrorKind::Other.into()),
                false => Ok(()),
            }
        }
    }

    fn read(file: &Arc<Faulty>, ranges: &[(u64, usize)]) -> HashMap<usize, Option<Vec<u8>>> {
        let request = |&(offset, len)| ReadRequest { file: file.clone(), offset, len };
        let requests: Vec<ReadRequest> = ranges.iter().map(request).collect();
        let mut taken = HashMap::new();
        read_joined(&MemoryDirectory::new(), &requests, &mut |at, read| {
            assert!(taken.insert(at, read.ok().map(<[u8]>::to_vec)).is_none());
        });
        taken
    }

    fn file(bad: Range<u64>) -> Arc<Faulty> {
        Arc::new(Faulty { bad, reads: Mutex::default() })
    }

    fn expected((offset, len): (u64, usize)) -> Option<Vec<u8>> {
        Some((offset..offset + len as u64).map(|at| at as u8).collect())
    }

    #[test]
    fn neighbours_are_one_read_and_each_has_its_own_bytes() {
        let file = file(0..0);
        // The third touches the second, the fourth leaves a gap, the fifth is far away, the last lies before it.
        let ranges = [(10, 4000), (4010, 96), (4106, 1), (8000, 5), (90_000, 7), (20_000, 7)];
        let taken = read(&file, &ranges);
        assert_eq!(taken.len(), ranges.len());
        for (at, range) in ranges.into_iter().enumerate() {
            assert_eq!(taken[&at], expected(range), "{range:?}");
        }
        assert_eq!(*file.reads.lock(), [10..8005, 90_000..90_007, 20_000..20_007]);
    }

    #[test]
    fn a_read_grows_no_longer_than_it_may() {
        let file = file(0..0);
        let ranges: Vec<(u64, usize)> = (0..100).map(|page| (page * 4096, 4096)).collect();
        let taken = read(&file, &ranges);
        assert!((0..100).all(|at| taken[&at] == expected(ranges[at])));
        let reads = file.reads.lock();
        assert!(reads.iter().all(|read| read.end - read.start <= JOINED_BYTES_MAX));
        assert_eq!(reads.len(), 4);
    }

    #[test]
    fn of_neighbours_those_fail_that_cannot_be_read() {
        let file = file(4096..4097);
        let taken = read(&file, &[(0, 4096), (4096, 4096), (8192, 4096)]);
        assert_eq!(taken[&0], expected((0, 4096)));
        assert_eq!(taken[&1], None);
        assert_eq!(taken[&2], expected((8192, 4096)));
        assert_eq!(file.reads.lock().len(), 4);
    }
}

//! Files of pages: segments, and postings that lie beside one. How they are opened, read and removed.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use drillcore_format::error::FormatError;
use drillcore_format::file_tail::{FileKind, FileTail, TAIL_BYTES};
use drillcore_format::ids::SegmentId;
use drillcore_format::page::{PageAddress, PageKind, read_page};

use crate::error::{IoContext, Result, StorageError};
use crate::few::Few;
use crate::files::directory::{Directory, ReadFile};
use crate::files::lease::{DeferredRemovals, Lease, ManifestVersion};
use crate::files::reads::{ReadBytes, ReadRequest};
use crate::pages::closed_files::ClosedFiles;
use crate::pages::joined_reads::read_joined;
use crate::sync::Mutex;

/// The name of a file. Both kinds are numbered together.
pub fn file_name(kind: FileKind, id: SegmentId) -> String {
    let stem = match kind {
        FileKind::Segment => "segment",
        FileKind::Postings => "postings",
    };
    format!("{stem}-{id}.drill")
}

/// The file that has that name.
pub fn file_of(name: &str) -> Option<(FileKind, SegmentId)> {
    let (stem, number) = name.strip_suffix(".drill")?.split_once('-')?;
    let kind = match stem {
        "segment" => FileKind::Segment,
        "postings" => FileKind::Postings,
        _ => return None,
    };
    Some((kind, SegmentId(number.parse().ok()?)))
}

/// An open file of pages. May be marked for removal: then it goes with its last handle.
pub(crate) struct PagedFile {
    file: Arc<dyn ReadFile>,
    name: String,
    id: SegmentId,
    bytes: u64,
    /// What its tail has, once that is read.
    fingerprint: u64,
    /// Once the file is in the manifest no more: who removes it, and since which version.
    removal: OnceLock<(Arc<DeferredRemovals>, ManifestVersion)>,
    /// What keeps the writer from removing it, where this process is not the writer.
    lease: Mutex<Option<Arc<Lease>>>,
    /// Where it is noted once it is closed.
    closed_files: OnceLock<Arc<ClosedFiles>>,
}

/// A page of an open file.
#[derive(Clone, Copy)]
pub(crate) struct PageRequest<'a> {
    pub file: &'a PagedFile,
    pub offset: u64,
    pub bytes: u32,
    pub kind: PageKind,
}

/// Bytes at the end of a file that are read at once when it is opened. Of most files they have all that stays in memory.
const END_BYTES: u64 = 16 << 10;

/// The end of a file that is being opened, with its footer page.
pub(crate) struct FileEnd {
    /// The payload of the footer page ...
    pub footer: Vec<u8>,
    /// ... and where the page lies.
    pub footer_offset: u64,
    /// What was read, from this offset on.
    bytes: ReadBytes,
    offset: u64,
}

impl PagedFile {
    /// Opens a file, and reads its tail and its footer: mostly in one read.
    pub fn open(
        directory: &dyn Directory,
        kind: FileKind,
        id: SegmentId,
    ) -> Result<(PagedFile, FileEnd)> {
        let mut opened = PagedFile::open_unread(directory, kind, id)?;
        let Range { start, end } = opened.end();
        let read = opened.read_over(ReadBytes::default(), start, end - start)?;
        let end = opened.check_end(kind, read)?;
        Ok((opened, end))
    }

    /// Opens a file that has room for a tail.
    pub fn open_unread(
        directory: &dyn Directory,
        kind: FileKind,
        id: SegmentId,
    ) -> Result<PagedFile> {
        let name = file_name(kind, id);
        let file = directory.open_pages(&name).context("open", &name)?;
        let bytes = file.byte_len().context("measure", &name)?;
        let (removal, lease, closed_files) = (OnceLock::new(), Mutex::default(), OnceLock::new());
        let opened =
            PagedFile { file, name, id, bytes, fingerprint: 0, removal, lease, closed_files };
        if bytes < TAIL_BYTES as u64 {
            let detail = format!("{bytes} bytes are too few for a {}", kind.name());
            return Err(opened.inconsistent(detail));
        }
        Ok(opened)
    }

    /// What is read of it when it is opened.
    pub fn end(&self) -> Range<u64> {
        self.bytes.saturating_sub(END_BYTES)..self.bytes
    }

    /// Takes the bytes of [`PagedFile::end`]: the tail and the footer, which is read if it does not lie there.
    pub fn check_end(&mut self, kind: FileKind, bytes: ReadBytes) -> Result<FileEnd> {
        let tail_offset = self.bytes - TAIL_BYTES as u64;
        let offset = self.end().start;
        let mut end = FileEnd { footer: Vec::new(), footer_offset: 0, bytes, offset };
        let tail = end.bytes.as_slice().last_chunk().expect("a file is as long as its tail");
        let tail = FileTail::read(kind, tail).map_err(|error| self.damaged(tail_offset, error))?;
        let place = (tail.footer_offset, tail.footer_bytes);
        end.footer = end.page(self, place, PageKind::Footer)?;
        end.footer_offset = tail.footer_offset;
        self.fingerprint = tail.fingerprint;
        Ok(end)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number that the addresses of its pages have.
    pub fn id(&self) -> SegmentId {
        self.id
    }

    /// The length of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What its tail has: see [`FileTail::fingerprint`].
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// A page, checked, past the cache.
    fn read_whole_page(&self, (offset, len): (u64, u32), kind: PageKind) -> Result<Vec<u8>> {
        let page = self.read_over(ReadBytes::default(), offset, u64::from(len))?;
        Ok(self.payload(page.as_slice(), kind, offset)?.to_vec())
    }

    /// Reads bytes of the file, into the memory of an earlier read where that has room for them.
    pub fn read_over(&self, earlier: ReadBytes, offset: u64, len: u64) -> Result<ReadBytes> {
        self.check_range(offset, len)?;
        self.file.read_over(earlier, offset, len as usize).context("read", &self.name)
    }

    /// Reads ranges of files of a directory together, and gives what came of each.
    pub fn read_ranges(
        directory: &dyn Directory,
        ranges: &[(&PagedFile, Range<u64>)],
    ) -> Vec<Result<ReadBytes>> {
        let fits = |(file, range): &(&PagedFile, Range<u64>)| {
            file.check_range(range.start, range.end - range.start)
        };
        let checked: Vec<Result<()>> = ranges.iter().map(fits).collect();
        let request = |(file, range): &(&PagedFile, Range<u64>)| {
            let len = (range.end - range.start) as usize;
            ReadRequest { file: file.file.clone(), offset: range.start, len }
        };
        let sound = ranges.iter().zip(&checked).filter(|(_, checked)| checked.is_ok());
        let requests: Vec<ReadRequest> = sound.map(|(range, _)| request(range)).collect();
        let mut read = directory.read_many(&requests).into_iter();
        let of_range = |((file, _), checked): (&(&PagedFile, _), Result<()>)| {
            checked?;
            read.next().expect("each was asked for").context("read", &file.name)
        };
        ranges.iter().zip(checked).map(of_range).collect()
    }

    fn check_range(&self, offset: u64, len: u64) -> Result<()> {
        if offset.checked_add(len).is_none_or(|end| end > self.bytes) {
            let detail = format!("a page of {len} bytes at byte {offset} is past the end");
            return Err(self.inconsistent(detail));
        }
        Ok(())
    }

    /// The payload of a page that was read at `offset`.
    pub fn payload<'a>(&self, page: &'a [u8], kind: PageKind, offset: u64) -> Result<&'a [u8]> {
        let address = PageAddress { segment: self.id, offset };
        read_page(page, kind, address).map_err(|error| self.damaged(offset, error))
    }

    /// Damage found at a place of the file.
    pub fn damaged(&self, offset: u64, source: FormatError) -> StorageError {
        StorageError::Damaged { file: self.name.clone(), offset, source }
    }

    /// What of the file does not fit together.
    pub fn inconsistent(&self, detail: String) -> StorageError {
        StorageError::Inconsistent { file: self.name.clone(), detail }
    }

    /// Has the file removed once the last handle is dropped and no reader process needs it. `removed_at` is
    /// the first version of the manifest without it.
    pub fn remove_when_unused(
        &self,
        removals: &Arc<DeferredRemovals>,
        removed_at: ManifestVersion,
    ) {
        self.removal.get_or_init(|| (removals.clone(), removed_at));
    }

    /// Holds a lease that the file needs for as long as it has handles, or until it is given another one. The
    /// file may be closed between two reads, so that it is open is no protection.
    pub fn keep_leased(&self, lease: &Arc<Lease>) {
        *self.lease.lock() = Some(lease.clone());
    }

    /// Has it noted in a list once its last handle is dropped, and not before.
    pub(super) fn note_closing(&self, closed_files: &Arc<ClosedFiles>) {
        self.closed_files.get_or_init(|| closed_files.clone()).remove(self.id);
    }

    /// What was given to [`PagedFile::remove_when_unused`], if it was called.
    pub fn removals(&self) -> Option<&Arc<DeferredRemovals>> {
        self.removal.get().map(|(removals, _)| removals)
    }
}

impl FileEnd {
    /// Bytes of the file that were read already.
    pub fn bytes_at(&self, offset: u64, len: u64) -> Option<&[u8]> {
        let start = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        self.bytes.as_slice().get(start..)?.get(..usize::try_from(len).ok()?)
    }

    /// The payload of a page of the file, checked: of what was read already, if it lies there.
    pub fn page(
        &self,
        file: &PagedFile,
        (offset, len): (u64, u32),
        kind: PageKind,
    ) -> Result<Vec<u8>> {
        match self.bytes_at(offset, u64::from(len)) {
            Some(page) => Ok(file.payload(page, kind, offset)?.to_vec()),
            None => file.read_whole_page((offset, len), kind),
        }
    }
}

impl PageRequest<'_> {
    /// Reads pages of files of a directory, and gives the payload of each, or its own error, with its number, once it is there:
    /// in any order.
    pub fn read_each(
        directory: &dyn Directory,
        wanted: &[PageRequest<'_>],
        mut each: impl FnMut(usize, Result<&[u8]>),
    ) {
        let mut numbers: Few<usize> = Few::new();
        let mut requests: Few<ReadRequest> = Few::new();
        for (number, page) in wanted.iter().enumerate() {
            match page.file.check_range(page.offset, u64::from(page.bytes)) {
                Err(error) => each(number, Err(error)),
                Ok(()) => {
                    let (file, len) = (page.file.file.clone(), page.bytes as usize);
                    requests.push(ReadRequest { file, offset: page.offset, len });
                    numbers.push(number);
                }
            }
        }
        read_joined(directory, &requests, &mut |at, read| {
            let page = &wanted[numbers[at]];
            let payload = match read.context("read", page.file.name()) {
                Err(error) => Err(error),
                Ok(bytes) => page.file.payload(bytes, page.kind, page.offset),
            };
            each(numbers[at], payload);
        });
    }
}

impl Drop for PagedFile {
    fn drop(&mut self) {
        if let Some(closed_files) = self.closed_files.get() {
            closed_files.add(self.id);
        }
        if let Some((removals, removed_at)) = self.removal.get() {
            removals.defer(self.name.clone(), self.bytes, *removed_at);
            removals.sweep();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_files_name_says_what_it_is() {
        for kind in [FileKind::Segment, FileKind::Postings] {
            let name = file_name(kind, SegmentId(17));
            assert_eq!(file_of(&name), Some((kind, SegmentId(17))), "{name}");
        }
        for other in ["segment-x.drill", "segment-1", "wal-1.drill", "LOCK", "postings.drill"] {
            assert_eq!(file_of(other), None, "{other}");
        }
    }
}

//! Writing a file of pages from front to back.

use std::hash::Hasher;
use std::sync::Arc;

use drillcore_format::file_tail::{FileKind, FileTail};
use drillcore_format::ids::SegmentId;
use drillcore_format::page::{PAGE_BYTES, PageAddress, PageKind, write_page};
use twox_hash::XxHash64;

use crate::error::{IoContext, Result, StorageError};
use crate::files::directory::{Directory, WriteFile};
use crate::pages::paged_file::file_name;

/// Bytes are handed to the file in portions of this size.
const PORTION_BYTES: usize = 256 << 10;
/// A long file is made durable so far whenever it has grown by this much: else all of it would be left for the end, when
/// the device has no time for anybody else.
const SYNC_BYTES: u64 = 32 << 20;

/// A file of pages under construction.
pub struct PageWriter {
    directory: Arc<dyn Directory>,
    file: Box<dyn WriteFile>,
    kind: FileKind,
    name: String,
    id: SegmentId,
    /// Bytes not yet handed to the file, which begin at byte `written`.
    pending: Vec<u8>,
    written: u64,
    synced: u64,
    /// Of all that was written.
    fingerprint: XxHash64,
}

/// A whole file of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenFile {
    /// Its length.
    pub bytes: u64,
    /// What its tail has.
    pub fingerprint: u64,
}

impl PageWriter {
    pub fn create(
        directory: Arc<dyn Directory>,
        kind: FileKind,
        id: SegmentId,
    ) -> Result<PageWriter> {
        let name = file_name(kind, id);
        let file = directory.create(&name).context("create", &name)?;
        Ok(PageWriter {
            directory,
            file,
            kind,
            name,
            id,
            pending: Vec::new(),
            written: 0,
            synced: 0,
            fingerprint: XxHash64::with_seed(0),
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn id(&self) -> SegmentId {
        self.id
    }

    /// Where the next page goes.
    pub fn position(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    /// Adds a page and returns its place: file offset and bytes.
    pub fn put_page(&mut self, kind: PageKind, payload: &[u8], pad: bool) -> (u64, u32) {
        let offset = self.position();
        let start = self.pending.len();
        write_page(kind, PageAddress { segment: self.id, offset }, payload, pad, &mut self.pending);
        let bytes =
            u32::try_from(self.pending.len() - start).expect("a page is shorter than 4 GiB");
        (offset, bytes)
    }

    /// Adds zeros up to a multiple of [`PAGE_BYTES`].
    pub fn pad(&mut self) {
        let padded = self.position().next_multiple_of(PAGE_BYTES as u64);
        self.pending.resize((padded - self.written) as usize, 0);
    }

    /// For pages that a caller lays out for [`PageWriter::position`]: they are appended to this.
    pub fn pending(&mut self) -> &mut Vec<u8> {
        &mut self.pending
    }

    /// Hands pages to the file once there are enough of them.
    pub fn write_portion(&mut self) -> Result<()> {
        if self.pending.len() >= PORTION_BYTES { self.write_out() } else { Ok(()) }
    }

    /// Writes the footer page and the tail, and makes the file durable.
    pub fn finish(mut self, footer: &[u8]) -> Result<WrittenFile> {
        let (footer_offset, footer_bytes) = self.put_page(PageKind::Footer, footer, false);
        self.write_out()?;
        let fingerprint = self.fingerprint.finish();
        let tail = FileTail { footer_offset, footer_bytes, fingerprint };
        tail.write(self.kind, &mut self.pending);
        self.write_out()?;
        self.file.sync().context("sync", &self.name)?;
        self.directory
            .sync()
            .map_err(|source| StorageError::FolderSync { file: self.name, source })?;
        Ok(WrittenFile { bytes: self.written, fingerprint })
    }

    fn write_out(&mut self) -> Result<()> {
        self.file.write_all(&self.pending).context("write", &self.name)?;
        self.fingerprint.write(&self.pending);
        self.written += self.pending.len() as u64;
        self.pending.clear();
        if self.written - self.synced >= SYNC_BYTES {
            self.file.sync().context("sync", &self.name)?;
            self.synced = self.written;
        }
        Ok(())
    }
}

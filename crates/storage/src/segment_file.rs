//! A segment's file: its name, its footer, and its pages past the cache.

use std::sync::Arc;

use drillcore_format::error::FormatError;
use drillcore_format::ids::SegmentId;
use drillcore_format::page::{PageAddress, PageKind, read_page};
use drillcore_format::segment_footer::{SegmentFooter, TAIL_BYTES, read_tail};

use crate::directory::{Directory, ReadFile};
use crate::error::{IoContext, Result, StorageError};

/// The name of a segment's file.
pub fn file_name(id: SegmentId) -> String {
    format!("segment-{id}.drill")
}

/// The segment whose file has that name.
pub fn id_of(file_name: &str) -> Option<SegmentId> {
    let number = file_name.strip_prefix("segment-")?.strip_suffix(".drill")?;
    number.parse().ok().map(SegmentId)
}

/// A segment's file with its footer.
pub struct OpenFile {
    pub file: Arc<dyn ReadFile>,
    pub name: String,
    pub bytes: u64,
    pub footer: SegmentFooter,
}

impl OpenFile {
    /// Reads its tail and its footer.
    pub fn open(directory: &dyn Directory, id: SegmentId) -> Result<OpenFile> {
        let name = file_name(id);
        let file = directory.open(&name).context("open", &name)?;
        let bytes = file.byte_len().context("measure", &name)?;
        let inconsistent =
            |detail: String| StorageError::Inconsistent { file: name.clone(), detail };
        if bytes < TAIL_BYTES as u64 {
            return Err(inconsistent(format!("{bytes} bytes are too few for a segment")));
        }
        let tail_offset = bytes - TAIL_BYTES as u64;
        let mut tail = [0; TAIL_BYTES];
        file.read_exact_at(&mut tail, tail_offset).context("read", &name)?;
        let place = read_tail(&tail).map_err(damage_in(&name, tail_offset))?;
        let page = read_whole_page(file.as_ref(), &name, bytes, id, place, PageKind::Footer)?;
        let footer = SegmentFooter::decode(&page).map_err(damage_in(&name, place.0))?;
        if footer.segment != id {
            return Err(inconsistent(format!("the file holds segment {}", footer.segment)));
        }
        Ok(OpenFile { file, name, bytes, footer })
    }
}

/// Damage found at a place of a file.
pub fn damage_in(name: &str, offset: u64) -> impl FnOnce(FormatError) -> StorageError + use<> {
    let file = name.to_string();
    move |source| StorageError::Damaged { file, offset, source }
}

/// A page of a file that ends at byte `end`, checked, past the cache.
pub fn read_whole_page(
    file: &dyn ReadFile,
    name: &str,
    end: u64,
    segment: SegmentId,
    (offset, len): (u64, u32),
    kind: PageKind,
) -> Result<Vec<u8>> {
    if offset.checked_add(u64::from(len)).is_none_or(|past| past > end) {
        return Err(StorageError::Inconsistent {
            file: name.to_string(),
            detail: format!("a page of {len} bytes at byte {offset} lies past the end"),
        });
    }
    let mut page = vec![0; len as usize];
    file.read_exact_at(&mut page, offset).context("read", name)?;
    let payload = read_page(&page, kind, PageAddress { segment, offset });
    Ok(payload.map_err(damage_in(name, offset))?.to_vec())
}

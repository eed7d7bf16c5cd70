//! Member by position and position by ordinal, through a function that reads postings pages.

use std::ops::Range;

use crate::error::FormatError;
use crate::postings::chunk::{CHUNK, PostingChunk};
use crate::postings::directory::SetEntry;
use crate::postings::item_place::ItemPlace;
use crate::postings::list_place::{InlineList, ListPlace};
use crate::postings::skip_table::{SkipTable, TABLE_MEMBERS};

/// Where a chunk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkPlace<'a> {
    /// In the set's directory entry.
    Inline(&'a InlineList),
    /// On a postings page.
    Page(ItemPlace),
}

impl ChunkPlace<'_> {
    /// What is made of the chunk.
    ///
    /// `read` returns the payload of the postings page at a file offset; it is called at most once.
    pub fn chunk<P: AsRef<[u8]>, E: From<FormatError>, T>(
        self,
        read: impl FnOnce(u64) -> Result<P, E>,
        make: impl FnOnce(PostingChunk<'_>) -> Result<T, FormatError>,
    ) -> Result<T, E> {
        let made = match self {
            ChunkPlace::Inline(list) => list.chunk().and_then(make),
            ChunkPlace::Page(place) => {
                let payload = read(place.page_offset)?;
                PostingChunk::parse(payload.as_ref(), place.position).and_then(make)
            }
        };
        Ok(made?)
    }
}

impl SetEntry {
    /// The chunk that holds member `member` (counted from 0, less than the set's count), and the
    /// member's position in it; `None` for a set that is the whole segment, where a member is its
    /// ordinal.
    ///
    /// `read` returns the payload of the postings page at a file offset; it is called at most once.
    pub fn chunk_of_member<P: AsRef<[u8]>, E: From<FormatError>>(
        &self,
        member: u64,
        mut read: impl FnMut(u64) -> Result<P, E>,
    ) -> Result<Option<(ChunkPlace<'_>, usize)>, E> {
        assert!(member < self.count, "member {member} of {}", self.count);
        let within = (member % CHUNK as u64) as usize;
        match &self.place {
            ListPlace::All => Ok(None),
            ListPlace::Inline(list) => Ok(Some((ChunkPlace::Inline(list), within))),
            ListPlace::Chunk(place) => Ok(Some((ChunkPlace::Page(*place), within))),
            ListPlace::Skips(root) => {
                let place = root.table((member / TABLE_MEMBERS) as usize);
                let payload = read(place.page_offset)?;
                let table = SkipTable::parse(payload.as_ref(), place.position)?;
                let chunk = (member % TABLE_MEMBERS) as usize / CHUNK;
                if chunk >= table.chunks() {
                    let detail = format!("chunk {chunk} of {}", table.chunks());
                    return Err(FormatError::malformed("skip table", detail).into());
                }
                Ok(Some((ChunkPlace::Page(table.chunk(chunk)), within)))
            }
        }
    }

    /// The ordinal of member `member`, counted from 0 and less than the set's count.
    ///
    /// `read` returns the payload of the postings page at a file offset; it is called at most twice.
    pub fn select<P: AsRef<[u8]>, E: From<FormatError>>(
        &self,
        member: u64,
        mut read: impl FnMut(u64) -> Result<P, E>,
    ) -> Result<u32, E> {
        let Some((place, within)) = self.chunk_of_member(member, &mut read)? else {
            return Ok(member as u32);
        };
        place.chunk(read, |chunk| {
            if within >= chunk.len() {
                let detail = format!("member {within} of {}", chunk.len());
                return Err(FormatError::malformed("posting chunk", detail));
            }
            Ok(chunk.select(within))
        })
    }

    /// Appends the ordinals of `members`, counted from 0 and none past the set's count: they ascend.
    ///
    /// `read` returns the payload of the postings page at a file offset; it is called at most twice a chunk.
    pub fn ordinals<P: AsRef<[u8]>, E: From<FormatError>>(
        &self,
        members: Range<u64>,
        mut read: impl FnMut(u64) -> Result<P, E>,
        out: &mut Vec<u32>,
    ) -> Result<(), E> {
        let (start, mut next) = (out.len(), members.start);
        while next < members.end {
            let Some((place, within)) = self.chunk_of_member(next, &mut read)? else {
                out.extend((next..members.end).map(|member| member as u32));
                break;
            };
            let end = (within as u64 + members.end - next).min(CHUNK as u64) as usize;
            place.chunk(&mut read, |chunk| {
                if end > chunk.len() {
                    let detail = format!("the members {within}..{end} of {}", chunk.len());
                    return Err(FormatError::malformed("posting chunk", detail));
                }
                out.extend((within..end).map(|member| chunk.select(member)));
                Ok(())
            })?;
            next += (end - within) as u64;
        }
        if !out[start..].is_sorted_by(|a, b| a < b) {
            return Err(
                FormatError::malformed("posting chunk", "its ordinals do not ascend").into()
            );
        }
        Ok(())
    }

    /// The members with an ordinal below `ordinal`.
    ///
    /// `read` returns the payload of the postings page at a file offset; it is called at most twice.
    pub fn rank<P: AsRef<[u8]>, E: From<FormatError>>(
        &self,
        ordinal: u32,
        mut read: impl FnMut(u64) -> Result<P, E>,
    ) -> Result<u64, E> {
        let (place, members_before) = match &self.place {
            ListPlace::All => return Ok(self.count.min(u64::from(ordinal))),
            ListPlace::Inline(list) => (ChunkPlace::Inline(list), 0),
            ListPlace::Chunk(place) => (ChunkPlace::Page(*place), 0),
            ListPlace::Skips(root) => {
                let number = root.table_of_ordinal(ordinal);
                let place = root.table(number);
                let payload = read(place.page_offset)?;
                let table = SkipTable::parse(payload.as_ref(), place.position)?;
                let chunk = table.chunk_of_ordinal(ordinal);
                let place = ChunkPlace::Page(table.chunk(chunk));
                (place, number as u64 * TABLE_MEMBERS + (chunk * CHUNK) as u64)
            }
        };
        let in_chunk = place.chunk(read, |chunk| Ok(chunk.rank(ordinal)))?;
        let rank = members_before + in_chunk as u64;
        if rank > self.count {
            let detail = format!("{rank} members before {ordinal}, of {}", self.count);
            return Err(FormatError::malformed("posting chunk", detail).into());
        }
        Ok(rank)
    }
}

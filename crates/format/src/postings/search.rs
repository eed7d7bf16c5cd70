//! Member by position and position by ordinal, through a function that reads postings pages.

use std::ops::Range;

use crate::error::FormatError;
use crate::postings::chunk::{CHUNK, PostingChunk};
use crate::postings::directory::SetEntry;
use crate::postings::item_place::ItemPlace;
use crate::postings::skip_table::{ListPlace, SkipTable, TABLE_MEMBERS};

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
    ) -> Result<Option<(ItemPlace, usize)>, E> {
        assert!(member < self.count, "member {member} of {}", self.count);
        let within = (member % CHUNK as u64) as usize;
        match &self.place {
            ListPlace::All => Ok(None),
            ListPlace::Chunk(place) => Ok(Some((*place, within))),
            ListPlace::Skips(root) => {
                let place = root.table((member / TABLE_MEMBERS) as usize);
                let payload = read(place.page_offset)?;
                let table = SkipTable::parse(payload.as_ref(), place.position)?;
                let chunk = (member % TABLE_MEMBERS) as usize / CHUNK;
                if chunk >= table.chunks() {
                    let detail = format!("chunk {chunk} of {}", table.chunks());
                    return Err(FormatError::malformed("skip table", detail).into());
                }
                Ok(Some((table.chunk(chunk), within)))
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
        let payload = read(place.page_offset)?;
        let chunk = PostingChunk::parse(payload.as_ref(), place.position)?;
        if within >= chunk.len() {
            let detail = format!("member {within} of {}", chunk.len());
            return Err(FormatError::malformed("posting chunk", detail).into());
        }
        Ok(chunk.select(within))
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
            let payload = read(place.page_offset)?;
            let chunk = PostingChunk::parse(payload.as_ref(), place.position)?;
            let end = (within as u64 + members.end - next).min(CHUNK as u64) as usize;
            if end > chunk.len() {
                let detail = format!("the members {within}..{end} of {}", chunk.len());
                return Err(FormatError::malformed("posting chunk", detail).into());
            }
            out.extend((within..end).map(|member| chunk.select(member)));
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
            ListPlace::Chunk(place) => (*place, 0),
            ListPlace::Skips(root) => {
                let number = root.table_of_ordinal(ordinal);
                let place = root.table(number);
                let payload = read(place.page_offset)?;
                let table = SkipTable::parse(payload.as_ref(), place.position)?;
                let chunk = table.chunk_of_ordinal(ordinal);
                (table.chunk(chunk), number as u64 * TABLE_MEMBERS + (chunk * CHUNK) as u64)
            }
        };
        let payload = read(place.page_offset)?;
        let chunk = PostingChunk::parse(payload.as_ref(), place.position)?;
        let rank = members_before + chunk.rank(ordinal) as u64;
        if rank > self.count {
            let detail = format!("{rank} members before {ordinal}, of {}", self.count);
            return Err(FormatError::malformed("posting chunk", detail).into());
        }
        Ok(rank)
    }
}

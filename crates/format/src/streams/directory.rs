//! The stream directory: which columns of a segment are streams, and where their pages lie.
//!
//! The pages of a group lie one behind the other, so for each group there is one offset, and for each stream of it a
//! length.

use crate::cursor::{Cursor, put_varint};
use crate::error::Result;
use crate::streams::group::is_group_rows;

const DIRECTORY: &str = "stream directory";

/// What a stream holds of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamColumn {
    /// A column of the key, by its position there.
    Key(u32),
    /// A stored value, by its index among the layout's.
    Value(u32),
}

/// One stream of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// What the stream holds of each row.
    pub column: StreamColumn,
    /// Bytes of its page in each group; 0 where it has none.
    pub page_bytes: Vec<u32>,
}

/// The streams of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamDirectory {
    /// Rows of every group but the last, which may have fewer.
    pub group_rows: u64,
    /// Where the pages of each group begin in the file.
    pub groups: Vec<u64>,
    /// By rising column.
    pub streams: Vec<Stream>,
}

impl StreamColumn {
    /// Its place among the streams.
    pub fn number(self) -> u64 {
        match self {
            StreamColumn::Key(position) => 2 * u64::from(position),
            StreamColumn::Value(index) => 2 * u64::from(index) + 1,
        }
    }

    /// The one with that number, if there is one.
    pub fn of(number: u64) -> Option<StreamColumn> {
        let index = u32::try_from(number / 2).ok()?;
        Some(if number.is_multiple_of(2) {
            StreamColumn::Key(index)
        } else {
            StreamColumn::Value(index)
        })
    }
}

impl StreamDirectory {
    /// The heap bytes held.
    pub fn allocated_bytes(&self) -> usize {
        let of_streams = self
            .streams
            .iter()
            .map(|stream| size_of::<Stream>() + stream.page_bytes.capacity() * size_of::<u32>());
        self.groups.capacity() * size_of::<u64>() + of_streams.sum::<usize>()
    }

    /// Appends the payload of the directory page.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.group_rows);
        put_varint(out, self.groups.len() as u64);
        let mut last = 0;
        for &offset in &self.groups {
            put_varint(out, offset - last);
            last = offset;
        }
        put_varint(out, self.streams.len() as u64);
        for Stream { column, page_bytes } in &self.streams {
            put_varint(out, column.number());
            page_bytes.iter().for_each(|&bytes| put_varint(out, u64::from(bytes)));
        }
    }

    /// Reads the directory of a segment with `rows` rows. O(groups * streams); fails on what
    /// [`StreamDirectory::encode`] does not write.
    pub fn decode(payload: &[u8], rows: u64) -> Result<StreamDirectory> {
        let mut cursor = Cursor::new(payload, DIRECTORY);
        let (group_rows, count) = (cursor.varint()?, cursor.varint()?);
        if !is_group_rows(group_rows) || count != rows.div_ceil(group_rows) {
            return Err(cursor.error(format!("{count} groups of {group_rows} of {rows} rows")));
        }
        let (mut groups, mut last) = (Vec::new(), 0u64);
        for _ in 0..count {
            let offset = last.checked_add(cursor.varint()?);
            last = offset.ok_or_else(|| cursor.error("an offset does not fit 64 bits"))?;
            groups.push(last);
        }
        let mut streams: Vec<Stream> = Vec::new();
        for _ in 0..cursor.varint()? {
            let number = cursor.varint()?;
            let Some(column) = StreamColumn::of(number) else {
                return Err(cursor.error(format!("column {number}")));
            };
            if streams.last().is_some_and(|last| last.column.number() >= number) {
                return Err(cursor.error("its columns do not rise"));
            }
            let page_bytes =
                (0..count).map(|_| cursor.varint_u32()).collect::<Result<Vec<u32>>>()?;
            streams.push(Stream { column, page_bytes });
        }
        cursor.finish()?;
        Ok(StreamDirectory { group_rows, groups, streams })
    }

    /// The number of the stream of a column, if it is one.
    pub fn stream_of(&self, column: StreamColumn) -> Option<usize> {
        self.streams.binary_search_by_key(&column.number(), |stream| stream.column.number()).ok()
    }

    /// Where the page of a stream lies in a group: file offset and bytes; `None` if it has none there. O(streams).
    pub fn page(&self, stream: usize, group: usize) -> Option<(u64, u32)> {
        let bytes = self.streams[stream].page_bytes[group];
        let before =
            self.streams[..stream].iter().map(|stream| u64::from(stream.page_bytes[group]));
        (bytes > 0).then(|| (self.groups[group].saturating_add(before.sum()), bytes))
    }
}

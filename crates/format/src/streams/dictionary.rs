//! The dictionary of a segment's column of strings: each string once, in the order in which it first came.
//!
//! Stream pages of the column hold codes into it, so a scan copies strings that lie in the processor's cache, and a
//! string is stored once however many groups it is in.

use std::collections::HashMap;

use arrow_array::StringArray;
use arrow_buffer::{Buffer, OffsetBuffer};
use foldhash::fast::FixedState;

use crate::cursor::{Cursor, put_varint};
use crate::error::Result;

/// Entries that a dictionary has at most ...
const ENTRIES_MAX: usize = 1 << 16;
/// ... and bytes of their strings.
const BYTES_MAX: usize = 1 << 20;

const DICTIONARY: &str = "dictionary";

/// A dictionary that grows with the rows of a segment.
#[derive(Debug, Default)]
pub struct DictionaryBuilder {
    codes: HashMap<Box<str>, u32, FixedState>,
    /// The entries one after the other, and where each ends.
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl DictionaryBuilder {
    /// The code of each string; equal neighbours are looked up once. `None`, and nothing is added, if a group of these
    /// would add more than `fresh_max` strings, or the dictionary would be too long.
    pub fn codes<'s>(
        &mut self,
        strings: impl Iterator<Item = &'s str>,
        fresh_max: usize,
    ) -> Option<Vec<u64>> {
        let (entries, bytes) = (self.ends.len(), self.bytes.len());
        let mut codes = Vec::with_capacity(strings.size_hint().0);
        let mut last: Option<(&str, u64)> = None;
        for string in strings {
            let code = match last {
                Some((known, code)) if known == string => code,
                _ => match self.code_of(string) {
                    Some(code) if self.ends.len() - entries <= fresh_max => u64::from(code),
                    _ => {
                        self.shrink_to(entries, bytes);
                        return None;
                    }
                },
            };
            last = Some((string, code));
            codes.push(code);
        }
        Some(codes)
    }

    fn code_of(&mut self, string: &str) -> Option<u32> {
        if let Some(&code) = self.codes.get(string) {
            return Some(code);
        }
        let code = self.ends.len();
        if code == ENTRIES_MAX || self.bytes.len() + string.len() > BYTES_MAX {
            return None;
        }
        self.bytes.extend_from_slice(string.as_bytes());
        self.ends.push(self.bytes.len() as u32);
        self.codes.insert(string.into(), code as u32);
        Some(code as u32)
    }

    fn shrink_to(&mut self, entries: usize, bytes: usize) {
        self.codes.retain(|_, code| (*code as usize) < entries);
        self.ends.truncate(entries);
        self.bytes.truncate(bytes);
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Appends the payload of a dictionary page.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.ends.len() as u64);
        let mut start = 0;
        for &end in &self.ends {
            put_varint(out, u64::from(end - start));
            start = end;
        }
        out.extend_from_slice(&self.bytes);
    }
}

/// The entries of a dictionary page, by code. O(bytes); fails on what [`DictionaryBuilder::encode`] does not write.
pub fn decode_dictionary(payload: &[u8]) -> Result<StringArray> {
    let mut cursor = Cursor::new(payload, DICTIONARY);
    let count = cursor.varint()?;
    if count > ENTRIES_MAX as u64 {
        return Err(cursor.error(format!("{count} entries")));
    }
    let mut offsets = Vec::with_capacity(count as usize + 1);
    offsets.push(0i32);
    let mut end = 0u64;
    for _ in 0..count {
        end = end.saturating_add(cursor.varint()?);
        if end > BYTES_MAX as u64 {
            return Err(cursor.error("its strings are too long"));
        }
        offsets.push(end as i32);
    }
    let bytes = cursor.rest();
    if bytes.len() as u64 != end {
        return Err(cursor.error(format!("{} bytes of strings, not {end}", bytes.len())));
    }
    StringArray::try_new(OffsetBuffer::new(offsets.into()), Buffer::from(bytes), None)
        .map_err(|_| cursor.error("a string is not UTF-8"))
}

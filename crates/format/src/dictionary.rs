//! The dictionary of a segment's column of strings: each text once, in the order in which it first came, and the table of
//! symbols by which other strings are compressed.
//!
//! Blocks and stream pages of the column hold codes into it. So a text is stored once however many blocks it is in, and a
//! scan copies texts that lie in the processor's cache. Where texts seldom come again, blocks have compressed ones.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::Arc;

use arrow_array::{Array, StringArray};
use arrow_buffer::{Buffer, OffsetBuffer};
use foldhash::fast::FixedState;

use crate::cursor::{Cursor, put_varint};
use crate::error::Result;
use crate::symbol_table::{StringCompressor, SymbolTable};

/// The codes of some rows' texts: for each value of their table, one for each row if its column has a dictionary that knows
/// them all.
pub type TextCodes = [Option<Vec<u32>>];

/// Dictionaries of values of a segment, by the index of the value.
pub type Dictionaries = [(usize, Arc<Dictionary>)];

/// Entries that a dictionary has at most ...
const ENTRIES_MAX: usize = 1 << 16;
/// ... and bytes of their strings, each of which ...
const BYTES_MAX: usize = 1 << 20;
/// ... has at most 256.
const ENTRY_BYTES_MAX: usize = 256;

const DICTIONARY: &str = "dictionary";

/// What blocks and streams of a column refer to.
#[derive(Debug, Clone)]
pub struct Dictionary {
    texts: StringArray,
    symbols: Option<SymbolTable>,
}

impl Dictionary {
    /// A dictionary of texts by code, by which nothing is compressed.
    pub fn of_texts(texts: StringArray) -> Dictionary {
        Dictionary { texts, symbols: None }
    }

    /// The payload of a dictionary page, taken apart. O(bytes); fails on what [`encode_dictionary`] does not write.
    pub fn decode(payload: &[u8]) -> Result<Dictionary> {
        let mut cursor = Cursor::new(payload, DICTIONARY);
        let texts = decode_texts(&mut cursor)?;
        let symbols = match cursor.is_empty() {
            true => None,
            false => Some(SymbolTable::decode(&mut cursor)?),
        };
        cursor.finish()?;
        Ok(Dictionary { texts, symbols })
    }

    /// The texts, by code.
    pub fn texts(&self) -> &StringArray {
        &self.texts
    }

    /// What strings are compressed by, if some are.
    pub(crate) fn symbols(&self) -> Option<&SymbolTable> {
        self.symbols.as_ref()
    }

    /// The heap bytes held.
    pub fn allocated_bytes(&self) -> usize {
        let symbols = self.symbols.as_ref().map_or(0, SymbolTable::allocated_bytes);
        self.texts.get_array_memory_size() + symbols
    }
}

/// The payload of the dictionary page of a column, from what it has of a dictionary and of compressed strings; `None` if it needs
/// none. O(bytes).
pub fn encode_dictionary(
    texts: Option<&DictionaryBuilder>,
    compressor: &StringCompressor,
) -> Option<Vec<u8>> {
    let texts = texts.filter(|texts| !texts.is_empty());
    if texts.is_none() && compressor.table().is_none() {
        return None;
    }
    let mut payload = Vec::new();
    texts.unwrap_or(&DictionaryBuilder::default()).encode(&mut payload);
    compressor.table().inspect(|table| table.encode(&mut payload));
    Some(payload)
}

/// A dictionary that grows with the rows of a segment.
#[derive(Debug, Default)]
pub struct DictionaryBuilder {
    codes: HashMap<Box<str>, u32, FixedState>,
    /// The entries one after the other, and where each ends.
    bytes: Vec<u8>,
    ends: Vec<u32>,
    /// Hashes of texts that came with too many others.
    refused: HashSet<u64, FixedState>,
}

impl DictionaryBuilder {
    /// The code of each text, any for a null; equal neighbours are looked up once.
    ///
    /// # Errors
    /// How many texts never came before, if they are more than `fresh_max`; `usize::MAX` if one is long, or the dictionary
    /// would be. Nothing is added then.
    ///
    /// What was refused is remembered by its hash: texts that come again get in, and those that never do stay out.
    pub fn codes(
        &mut self,
        texts: &StringArray,
        fresh_max: usize,
    ) -> std::result::Result<Vec<u32>, usize> {
        let (entries, bytes) = (self.ends.len(), self.bytes.len());
        let mut codes = Vec::with_capacity(texts.len());
        let mut last: (Option<&str>, u32) = (None, 0);
        let mut fresh = 0;
        for text in texts {
            if let Some(text) = text
                && last.0 != Some(text)
            {
                let known = self.ends.len();
                let Some(code) = self.code_of(text) else {
                    self.shrink_to(entries, bytes);
                    return Err(usize::MAX);
                };
                fresh += usize::from(self.ends.len() > known && !self.was_refused(text));
                last = (Some(text), code);
            }
            codes.push(last.1);
        }
        if fresh > fresh_max {
            self.refuse(entries, bytes);
            return Err(fresh);
        }
        Ok(codes)
    }

    fn was_refused(&self, text: &str) -> bool {
        !self.refused.is_empty() && self.refused.contains(&self.codes.hasher().hash_one(text))
    }

    /// Forgets the entries from `entries` on, but for their hashes.
    fn refuse(&mut self, entries: usize, bytes: usize) {
        if self.refused.len() > ENTRIES_MAX {
            self.refused.clear();
        }
        let hashes = self.codes.iter().filter(|(_, code)| **code as usize >= entries);
        let hashes = hashes.map(|(text, _)| self.codes.hasher().hash_one(&**text));
        self.refused.extend(hashes);
        self.shrink_to(entries, bytes);
    }

    fn code_of(&mut self, string: &str) -> Option<u32> {
        if let Some(&code) = self.codes.get(string) {
            return Some(code);
        }
        let code = self.ends.len();
        if code == ENTRIES_MAX
            || string.len() > ENTRY_BYTES_MAX
            || self.bytes.len() + string.len() > BYTES_MAX
        {
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

    /// Whether no text has got a code yet.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// How many different texts have a code; their codes are the numbers below it.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Appends the texts as they stand in a dictionary page.
    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.ends.len() as u64);
        let mut start = 0;
        for &end in &self.ends {
            put_varint(out, u64::from(end - start));
            start = end;
        }
        out.extend_from_slice(&self.bytes);
    }
}

/// The texts of a dictionary page, by code. O(bytes); fails on what [`DictionaryBuilder::encode`] does not write.
fn decode_texts(cursor: &mut Cursor<'_>) -> Result<StringArray> {
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
    let bytes = cursor.take(end as usize)?;
    StringArray::try_new(OffsetBuffer::new(offsets.into()), Buffer::from(bytes), None)
        .map_err(|_| cursor.error("a string is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dictionary_refuses_too_many_texts_at_once_and_forgets_them() {
        let mut dictionary = DictionaryBuilder::default();
        let mut codes = |texts: &[Option<&str>], fresh_max| {
            dictionary.codes(&StringArray::from(texts.to_vec()), fresh_max)
        };
        let texts = [Some("a"), Some("b"), None, Some("a"), Some("a")];
        assert_eq!(codes(&texts, 2), Ok(vec![0, 1, 1, 0, 0]));
        assert_eq!(codes(&[Some("c"), Some("d"), Some("a")], 1), Err(2));
        assert_eq!(codes(&[Some("x".repeat(300).as_str())], 5), Err(usize::MAX));
        assert_eq!(codes(&[Some("d"), Some("b")], 1), Ok(vec![2, 1]));
        let mut payload = Vec::new();
        dictionary.encode(&mut payload);
        let decoded = Dictionary::decode(&payload).unwrap();
        assert_eq!(decoded.texts(), &StringArray::from(vec!["a", "b", "d"]));
        assert!(decoded.symbols().is_none());
        for len in 0..payload.len() {
            assert!(Dictionary::decode(&payload[..len]).is_err());
        }
    }

    #[test]
    fn texts_that_come_again_get_in_and_others_stay_out() {
        let texts = |from: usize| {
            StringArray::from_iter_values((from..from + 100).map(|at| at.to_string()))
        };
        let mut dictionary = DictionaryBuilder::default();
        assert!(dictionary.codes(&texts(0), 50).is_err());
        assert!(dictionary.codes(&texts(100), 50).is_err());
        assert!(dictionary.codes(&texts(60), 50).is_ok());
        assert_eq!(dictionary.len(), 100);
        assert!((200..10_000).step_by(100).all(|at| dictionary.codes(&texts(at), 50).is_err()));
        assert_eq!(dictionary.len(), 100);
    }

    #[test]
    fn a_dictionary_that_is_full_knows_what_it_has() {
        let mut dictionary = DictionaryBuilder::default();
        let texts = |range: std::ops::Range<usize>| {
            StringArray::from_iter_values(range.map(|at| format!("{at:x}")))
        };
        assert!(dictionary.codes(&texts(0..ENTRIES_MAX - 1), usize::MAX).is_ok());
        assert!(dictionary.codes(&texts(ENTRIES_MAX - 1..ENTRIES_MAX + 1), usize::MAX).is_err());
        assert_eq!(dictionary.len(), ENTRIES_MAX - 1);
        assert_eq!(dictionary.codes(&texts(5..7), 0), Ok(vec![5, 6]));
        let long = StringArray::from_iter_values((0..5000).map(|at| format!("{at:0250}")));
        assert!(DictionaryBuilder::default().codes(&long, usize::MAX).is_err(), "over a MiB");
    }
}

//! Symbol tables: strings as codes of a byte each, which stand for up to eight bytes that often follow each other.
//!
//! This is *FSST* (Boncz, Neumann and Leis, VLDB 2020). A table serves all strings of a column of a segment, and each string
//! is compressed by itself: whoever wants one row takes one row apart. Tables are trained, and strings compressed, by the
//! crate `fsst`; codes are taken apart here, where each of them is checked.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ByteArrayType;
use arrow_array::{Array, ArrayRef, BinaryArray, GenericByteArray};
use arrow_buffer::{Buffer, OffsetBuffer};
use arrow_schema::DataType;
use fsst::Compressor;

use crate::byte_bounds;
use crate::cursor::Cursor;
use crate::error::Result;

/// Bytes of a symbol at most.
const SYMBOL_BYTES_MAX: usize = 8;
/// Codes that stand for symbols are below it; behind it comes a byte that stands for itself.
const ESCAPE: u8 = 255;

/// A table is used if it leaves two thirds of the strings that it is trained with at most, ...
const USEFUL_SHARE: (usize, usize) = (2, 3);
/// ... for some rows if it leaves three quarters of theirs.
const WORTH_SHARE: (usize, usize) = (3, 4);
/// Long strings are compressed in parts, since each takes room for twice its bytes.
const PART_BYTES: usize = 64 << 10;

/// The symbols that codes stand for.
#[derive(Debug, Clone)]
pub struct SymbolTable {
    /// By code, the bytes of a symbol in the lowest bytes of a word.
    words: Box<[u64; 256]>,
    /// By code, the bytes of a symbol; 0 for codes without one.
    lengths: Box<[u8; 256]>,
}

impl SymbolTable {
    fn new(symbols: impl Iterator<Item = (u64, u8)>) -> SymbolTable {
        let mut table = SymbolTable { words: Box::new([0; 256]), lengths: Box::new([0; 256]) };
        for (code, (word, length)) in symbols.enumerate() {
            (table.words[code], table.lengths[code]) = (word, length);
        }
        table
    }

    /// How many codes have a symbol; these are the first.
    fn len(&self) -> usize {
        self.lengths.iter().take_while(|length| **length > 0).count()
    }

    /// Appends the table as it stands in the page of a dictionary: the number of symbols, their lengths, their bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let len = self.len();
        out.push(len as u8);
        out.extend_from_slice(&self.lengths[..len]);
        for (word, length) in self.words.iter().zip(&self.lengths[..len]) {
            out.extend_from_slice(&word.to_le_bytes()[..usize::from(*length)]);
        }
    }

    /// Reads what [`SymbolTable::encode`] wrote.
    pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<SymbolTable> {
        let len = usize::from(cursor.u8()?);
        let lengths = cursor.take(len)?;
        let mut symbols = Vec::with_capacity(len);
        for &length in lengths {
            if !(1..=SYMBOL_BYTES_MAX).contains(&usize::from(length)) {
                return Err(cursor.error(format!("a symbol of {length} bytes")));
            }
            let mut word = [0; SYMBOL_BYTES_MAX];
            word[..usize::from(length)].copy_from_slice(cursor.take(usize::from(length))?);
            symbols.push((u64::from_le_bytes(word), length));
        }
        Ok(SymbolTable::new(symbols.into_iter()))
    }

    /// The heap bytes held.
    pub(crate) fn allocated_bytes(&self) -> usize {
        size_of_val(&*self.words) + size_of_val(&*self.lengths)
    }

    /// Bytes of the string that some codes stand for; `None` if a code has no symbol, or the last is an escape of nothing.
    /// O(codes).
    pub(crate) fn decoded_len(&self, codes: &[u8]) -> Option<usize> {
        // Most strings have no escapes, and their lengths are added up without a branch.
        let (mut len, mut is_known) = (0, true);
        for &code in codes {
            let length = self.lengths[usize::from(code)];
            len += usize::from(length);
            is_known &= length > 0;
        }
        if is_known { Some(len) } else { self.decoded_len_with_escapes(codes) }
    }

    fn decoded_len_with_escapes(&self, codes: &[u8]) -> Option<usize> {
        let (mut len, mut at) = (0, 0);
        while let Some(&code) = codes.get(at) {
            at += 1;
            match self.lengths[usize::from(code)] {
                0 if code == ESCAPE && at < codes.len() => {
                    len += 1;
                    at += 1;
                }
                0 => return None,
                length => len += usize::from(length),
            }
        }
        Some(len)
    }

    /// Appends the string that some codes stand for; `len` is what [`SymbolTable::decoded_len`] found. O(codes): a symbol is
    /// copied as a whole word, of which the next overwrites what is not its own.
    pub(crate) fn decode_into(&self, codes: &[u8], len: usize, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + len + SYMBOL_BYTES_MAX, 0);
        let mut room = &mut out[start..];
        let mut codes = codes.iter();
        while let (Some(&code), Some(word)) = (codes.next(), room.first_chunk_mut()) {
            *word = self.words[usize::from(code)].to_le_bytes();
            let mut length = usize::from(self.lengths[usize::from(code)]);
            if code == ESCAPE {
                word[0] = *codes.next().expect("its length was known");
                length = 1;
            }
            room = &mut room[length..];
        }
        out.truncate(start + len);
    }
}

/// Compresses a column of strings, with a table that is trained with the first of them. A column that this makes little
/// smaller stays as it is.
#[derive(Default)]
pub enum StringCompressor {
    /// There were too few strings so far.
    #[default]
    Untrained,
    /// Of no use for this column.
    Useless,
    /// Strings become codes of its table.
    Trained(Box<Trained>),
}

/// A table with what compresses by it.
pub struct Trained {
    compressor: Compressor,
    table: SymbolTable,
}

impl StringCompressor {
    /// Each string of an array of texts or bytes as codes, nulls as nulls; `None` if that saves too little.
    /// O(bytes), the first time with some milliseconds of training.
    pub fn compress(&mut self, strings: &dyn Array) -> Option<ArrayRef> {
        match strings.data_type() {
            DataType::Utf8 => self.compress_all(strings.as_string::<i32>()),
            _ => self.compress_all(strings.as_binary::<i32>()),
        }
    }

    fn compress_all<T: ByteArrayType<Offset = i32>>(
        &mut self,
        strings: &GenericByteArray<T>,
    ) -> Option<ArrayRef> {
        let offsets = strings.value_offsets();
        let bytes = (offsets[strings.len()] - offsets[0]) as usize;
        let is_first = matches!(self, StringCompressor::Untrained);
        if is_first {
            if bytes < byte_bounds::training() {
                return None;
            }
            *self = StringCompressor::Trained(Box::new(Trained::new(strings)));
        }
        let StringCompressor::Trained(trained) = self else { return None };
        let compressed = trained.compress(strings)?;
        let (of, parts) = if is_first { USEFUL_SHARE } else { WORTH_SHARE };
        let left = compressed.value_data().len();
        if left.saturating_mul(parts) <= bytes.saturating_mul(of) {
            return Some(Arc::new(compressed));
        }
        if is_first {
            *self = StringCompressor::Useless;
        }
        None
    }

    /// The table, if strings are compressed.
    pub fn table(&self) -> Option<&SymbolTable> {
        match self {
            StringCompressor::Trained(trained) => Some(&trained.table),
            _ => None,
        }
    }
}

impl Trained {
    fn new<T: ByteArrayType<Offset = i32>>(strings: &GenericByteArray<T>) -> Trained {
        let strings: Vec<&[u8]> = strings.iter().flatten().map(<T::Native>::as_ref).collect();
        let compressor = Compressor::train(&strings);
        let words = compressor.symbol_table().iter().map(|symbol| symbol.to_u64());
        let table = SymbolTable::new(words.zip(compressor.symbol_lengths().iter().copied()));
        Trained { compressor, table }
    }

    /// `None` if a string would not come back.
    fn compress<T: ByteArrayType<Offset = i32>>(
        &self,
        strings: &GenericByteArray<T>,
    ) -> Option<BinaryArray> {
        let (mut ends, mut all) = (vec![0], Vec::new());
        for string in strings {
            let string = string.map_or(&[][..], <T::Native>::as_ref);
            for part in string.chunks(PART_BYTES) {
                let codes = self.compressor.compress(part);
                // A symbol that ends in zeros might go on behind the end of a string.
                if self.table.decoded_len(&codes) != Some(part.len()) {
                    return None;
                }
                all.extend_from_slice(&codes);
            }
            ends.push(i32::try_from(all.len()).ok()?);
        }
        let ends = OffsetBuffer::new(ends.into());
        Some(BinaryArray::new(ends, Buffer::from(all), strings.nulls().cloned()))
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::StringArray;
    use proptest::prelude::*;

    use super::*;

    fn decoded(table: &SymbolTable, codes: &[u8]) -> Option<Vec<u8>> {
        let mut out = b"before".to_vec();
        let len = table.decoded_len(codes)?;
        table.decode_into(codes, len, &mut out);
        Some(out.split_off(6))
    }

    fn read_back(table: &SymbolTable) -> SymbolTable {
        let mut bytes = Vec::new();
        table.encode(&mut bytes);
        for len in 0..bytes.len() {
            assert!(SymbolTable::decode(&mut Cursor::new(&bytes[..len], "dictionary")).is_err());
        }
        SymbolTable::decode(&mut Cursor::new(&bytes, "dictionary")).unwrap()
    }

    #[test]
    fn texts_that_are_alike_take_less_than_half() {
        let line =
            |at: usize| format!("GET /shop/item/{at}?page={} HTTP/1.1 200 Mozilla/5.0", at % 7);
        let lines = StringArray::from_iter((0..1_000).map(|at| (at % 9 > 0).then(|| line(at))));
        let mut compressor = StringCompressor::default();
        let compressed = compressor.compress(&lines).unwrap();
        let compressed = compressed.as_binary::<i32>();
        assert!(compressed.value_data().len() * 2 < lines.value_data().len());
        assert_eq!(compressed.nulls(), lines.nulls());
        let table = read_back(compressor.table().unwrap());
        for (codes, line) in compressed.iter().zip(&lines) {
            let expected = line.map(|line| line.as_bytes().to_vec());
            assert_eq!(codes.and_then(|codes| decoded(&table, codes)), expected);
        }
    }

    #[test]
    fn few_strings_and_noise_stay_as_they_are() {
        let mut compressor = StringCompressor::default();
        assert!(compressor.compress(&StringArray::from(vec!["the same"; 10])).is_none());
        assert!(matches!(compressor, StringCompressor::Untrained));
        let mut word = 1u64;
        let mut noise = || {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            word.to_be_bytes()
        };
        let noise: BinaryArray = (0..20_000).map(|_| Some(noise())).collect();
        assert!(compressor.compress(&noise).is_none());
        assert!(matches!(compressor, StringCompressor::Useless));
        assert!(compressor.compress(&StringArray::from(vec!["the same"; 10_000])).is_none());
    }

    #[test]
    fn codes_without_a_symbol_are_found() {
        let table = SymbolTable::new([(u64::from(b'a'), 1)].into_iter());
        assert_eq!(decoded(&table, &[0, 0, ESCAPE, 7]), Some(b"aa\x07".to_vec()));
        assert_eq!(decoded(&table, &[]), Some(Vec::new()));
        assert_eq!(decoded(&table, &[0, 1]), None);
        assert_eq!(decoded(&table, &[0, ESCAPE]), None);
    }

    proptest! {
        /// Zeros at the ends of strings, strings of any bytes, long ones and empty ones.
        #[test]
        fn strings_come_back(
            words in prop::collection::vec(prop::collection::vec(prop_oneof![Just(0u8), Just(7u8), any::<u8>()], 0..9), 1..20),
            picks in prop::collection::vec((0usize..20, 0usize..20, 0usize..40), 400..800),
        ) {
            let string = |&(one, other, times): &(usize, usize, usize)| {
                let two = [&words[one % words.len()][..], &words[other % words.len()][..]].concat();
                two.repeat(times)
            };
            let strings: BinaryArray = picks.iter().map(|pick| Some(string(pick))).collect();
            let mut compressor = StringCompressor::default();
            if let Some(compressed) = compressor.compress(&strings) {
                let table = compressor.table().unwrap();
                for (codes, string) in compressed.as_binary::<i32>().iter().zip(&strings) {
                    prop_assert_eq!(decoded(table, codes.unwrap()), string.map(<[u8]>::to_vec));
                }
            }
        }

        #[test]
        fn any_bytes_are_a_table_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..600), codes in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(table) = SymbolTable::decode(&mut Cursor::new(&bytes, "dictionary")) {
                let _ = decoded(&table, &codes);
            }
        }
    }
}

//! Symbol tables: strings as codes of a byte each, which stand for up to eight bytes that often follow each other.
//!
//! This is *FSST* (Boncz, Neumann and Leis, VLDB 2020). A table serves all strings of a column of a segment, and each string
//! is compressed by itself: a read of one row decodes one row. Tables are trained, and strings compressed, by the
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
const USEFUL: Share = Share { of: 2, parts: 3 };
/// ... for some rows if it leaves three quarters of theirs.
const WORTH: Share = Share { of: 3, parts: 4 };
/// Strings are compressed some at a time, as that takes room for twice their bytes. Longer ones are cut.
const TOGETHER_BYTES: usize = 64 << 10;
/// After rows that were not worth it, others are tried once twice as many have passed as before, up to two to this power.
const PAUSES_MAX: u32 = 6;

/// How much of some strings is left, at most.
#[derive(Clone, Copy)]
struct Share {
    of: usize,
    parts: usize,
}

impl Share {
    fn of(self, bytes: usize) -> usize {
        bytes / self.parts * self.of
    }
}

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

    /// Writes the bytes that some codes stand for; says how many these are, unless one of the codes has no symbol.
    fn decode_together(
        &self,
        codes: &[u8; TOGETHER],
        room: &mut [u8; ROOM_OF_TOGETHER],
    ) -> Option<usize> {
        let (mut len, mut is_known) = (0, true);
        for &code in codes {
            // It is below that, which the compiler does not know: so it checks no bounds.
            let start = len % (TOGETHER * SYMBOL_BYTES_MAX);
            let word = self.words[usize::from(code)].to_le_bytes();
            room[start..start + SYMBOL_BYTES_MAX].copy_from_slice(&word);
            let length = self.lengths[usize::from(code)];
            len += usize::from(length);
            is_known &= length > 0;
        }
        is_known.then_some(len)
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

/// Codes that are taken apart together.
const TOGETHER: usize = 8;
/// Bytes that they may write to: each of them a whole word, behind the symbols of those before it.
const ROOM_OF_TOGETHER: usize = (TOGETHER + 1) * SYMBOL_BYTES_MAX;

/// Strings that were decoded one behind the other. Its memory serves one list of strings after the other.
#[derive(Default)]
pub(crate) struct DecodedStrings {
    /// As long as it ever had to be, so that it is cleared once.
    room: Vec<u8>,
    len: usize,
}

impl DecodedStrings {
    /// Forgets all strings, and takes room for those that some codes in all stand for: eight bytes or less for each.
    pub(crate) fn start(&mut self, codes: usize) {
        self.len = 0;
        let needed = codes * SYMBOL_BYTES_MAX + ROOM_OF_TOGETHER;
        if self.room.len() < needed {
            self.room.resize(needed, 0);
        }
    }

    /// Appends the string that some codes stand for; `None` as [`SymbolTable::decoded_len`] says. O(codes): eight of them at a time
    /// are looked at without a branch, unless one is an escape.
    pub(crate) fn push(&mut self, table: &SymbolTable, codes: &[u8]) -> Option<()> {
        let mut rest = codes;
        loop {
            while let Some((codes, later)) = rest.split_first_chunk::<TOGETHER>()
                && let Some(room) = self.room[self.len..].first_chunk_mut::<ROOM_OF_TOGETHER>()
                && let Some(len) = table.decode_together(codes, room)
            {
                self.len += len;
                rest = later;
            }
            let last = rest.len().saturating_sub(TOGETHER);
            while rest.len() > last {
                let (&code, mut later) = rest.split_first()?;
                let word = self.room[self.len..].first_chunk_mut()?;
                *word = table.words[usize::from(code)].to_le_bytes();
                self.len += match table.lengths[usize::from(code)] {
                    0 if code == ESCAPE => {
                        (word[0], later) = later.split_first().map(|(byte, rest)| (*byte, rest))?;
                        1
                    }
                    0 => return None,
                    length => usize::from(length),
                };
                rest = later;
            }
            if rest.is_empty() {
                return Some(());
            }
        }
    }

    /// The strings, one behind the other.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.room[..self.len]
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

/// A table with what compresses by it: some 170 KB.
pub struct Trained {
    compressor: Compressor,
    table: SymbolTable,
    /// How many times in a row rows were not worth it, ...
    failures: u32,
    /// ... and how many times more none are tried.
    pause: u32,
}

impl StringCompressor {
    /// Each string of an array of texts or bytes as codes, nulls as nulls; `None` if that saves too little, or if a table would have
    /// to be trained and that is not allowed. O(bytes), the first time with some milliseconds of training. Takes room for up to
    /// one and a half times the strings while it works, and for three quarters of them then, beside 16 bytes per string and 256 KiB.
    pub fn compress(&mut self, strings: &dyn Array, may_train: bool) -> Option<ArrayRef> {
        match strings.data_type() {
            DataType::Utf8 => self.compress_all(strings.as_string::<i32>(), may_train),
            _ => self.compress_all(strings.as_binary::<i32>(), may_train),
        }
    }

    fn compress_all<T: ByteArrayType<Offset = i32>>(
        &mut self,
        strings: &GenericByteArray<T>,
        may_train: bool,
    ) -> Option<ArrayRef> {
        match self {
            StringCompressor::Useless => None,
            StringCompressor::Trained(trained) => trained.compress_if_worth(strings),
            StringCompressor::Untrained if !may_train => None,
            StringCompressor::Untrained => {
                let bytes = bytes_of(strings);
                if bytes < byte_bounds::training() {
                    return None;
                }
                let trained = Trained::new(strings);
                let compressed = trained.compress(strings, bytes, USEFUL);
                *self = match compressed {
                    Some(_) => StringCompressor::Trained(Box::new(trained)),
                    None => StringCompressor::Useless,
                };
                compressed
            }
        }
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
        Trained { compressor, table, failures: 0, pause: 0 }
    }

    fn compress_if_worth<T: ByteArrayType<Offset = i32>>(
        &mut self,
        strings: &GenericByteArray<T>,
    ) -> Option<ArrayRef> {
        if self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        let compressed = self.compress(strings, bytes_of(strings), WORTH);
        match compressed {
            Some(_) => self.failures = 0,
            None => {
                self.failures = (self.failures + 1).min(PAUSES_MAX);
                self.pause = 1 << self.failures;
            }
        }
        compressed
    }

    /// `None` if more than a share of the strings' bytes would be left, which most often shows early, or one would not come back.
    fn compress<T: ByteArrayType<Offset = i32>>(
        &self,
        strings: &GenericByteArray<T>,
        bytes: usize,
        share: Share,
    ) -> Option<ArrayRef> {
        let bytes_max = share.of(bytes);
        let mut codes = Codes::default();
        // Of each string, how many parts it and those before it have.
        let mut parts = Vec::with_capacity(strings.len());
        let mut waiting: Vec<&[u8]> = Vec::new();
        let (mut waiting_bytes, mut passed) = (0, 0);
        for string in strings {
            let string = string.map_or(&[][..], <T::Native>::as_ref);
            for part in string.chunks(TOGETHER_BYTES) {
                waiting.push(part);
                waiting_bytes += part.len();
                if waiting_bytes >= TOGETHER_BYTES {
                    codes.take_in(self, &waiting)?;
                    passed += waiting_bytes;
                    if codes.bytes.len() > bytes_max.min(share.of(passed) + bytes_max / 8) {
                        return None;
                    }
                    waiting.clear();
                    waiting_bytes = 0;
                }
            }
            parts.push(codes.ends.len() + waiting.len());
        }
        codes.take_in(self, &waiting)?;
        (codes.bytes.len() <= bytes_max).then(|| codes.array(&parts, strings))
    }
}

/// The codes of parts of strings one after the other, and where each part ends.
#[derive(Default)]
struct Codes {
    bytes: Vec<u8>,
    ends: Vec<u64>,
}

impl Codes {
    fn take_in(&mut self, trained: &Trained, parts: &[&[u8]]) -> Option<()> {
        const LANES: usize = Compressor::DEFAULT_BULK_LANES;
        let mut start = self.bytes.len();
        let first = self.ends.len();
        trained.compressor.compress_bulk_into::<LANES>(parts, &mut self.bytes, &mut self.ends);
        for (part, &end) in parts.iter().zip(&self.ends[first..]) {
            // It would be a fault of the compressor, and rows that do not come back.
            if trained.table.decoded_len(&self.bytes[start..end as usize]) != Some(part.len()) {
                return None;
            }
            start = end as usize;
        }
        Some(())
    }

    /// The compressed strings. `parts` counts, for each string, its parts and those of the strings before it.
    fn array<T: ByteArrayType<Offset = i32>>(
        mut self,
        parts: &[usize],
        strings: &GenericByteArray<T>,
    ) -> ArrayRef {
        let end = |&parts: &usize| parts.checked_sub(1).map_or(0, |last| self.ends[last] as i32);
        let ends = std::iter::once(0).chain(parts.iter().map(end)).collect::<Vec<i32>>();
        self.bytes.shrink_to_fit();
        let ends = OffsetBuffer::new(ends.into());
        Arc::new(BinaryArray::new(ends, Buffer::from(self.bytes), strings.nulls().cloned()))
    }
}

/// Bytes of the strings that are not null.
fn bytes_of<T: ByteArrayType<Offset = i32>>(strings: &GenericByteArray<T>) -> usize {
    strings.iter().flatten().map(|string| AsRef::<[u8]>::as_ref(string).len()).sum()
}

#[cfg(test)]
mod tests {
    use arrow_array::StringArray;
    use proptest::prelude::*;

    use super::*;

    /// Decoded by itself, and between others: both are the same.
    fn decoded(table: &SymbolTable, codes: &[u8]) -> Option<Vec<u8>> {
        let mut strings = DecodedStrings::default();
        strings.start(codes.len());
        assert_eq!(strings.push(table, codes).is_none(), table.decoded_len(codes).is_none());
        let mut out = b"before".to_vec();
        let len = table.decoded_len(codes)?;
        table.decode_into(codes, len, &mut out);
        let string = out.split_off(6);
        assert_eq!(strings.bytes(), string);
        strings.start(3 * codes.len());
        (0..3).for_each(|_| strings.push(table, codes).unwrap());
        assert_eq!(strings.bytes(), string.repeat(3));
        Some(string)
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
        let compressed = compressor.compress(&lines, true).unwrap();
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
        assert!(compressor.compress(&StringArray::from(vec!["the same"; 10]), true).is_none());
        assert!(matches!(compressor, StringCompressor::Untrained));
        let mut word = 1u64;
        let mut noise = || {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            word.to_be_bytes()
        };
        let noise: BinaryArray = (0..20_000).map(|_| Some(noise())).collect();
        assert!(compressor.compress(&noise, true).is_none());
        assert!(matches!(compressor, StringCompressor::Useless));
        let same = StringArray::from(vec!["the same"; 10_000]);
        assert!(compressor.compress(&same, true).is_none());
        assert!(StringCompressor::default().compress(&same, false).is_none());
        assert!(StringCompressor::default().compress(&same, true).is_some());
    }

    #[test]
    fn codes_without_a_symbol_are_found() {
        let table = SymbolTable::new([(u64::from(b'a'), 1)].into_iter());
        assert_eq!(decoded(&table, &[0, 0, ESCAPE, 7]), Some(b"aa\x07".to_vec()));
        assert_eq!(decoded(&table, &[]), Some(Vec::new()));
        assert_eq!(decoded(&table, &[0, 1]), None);
        assert_eq!(decoded(&table, &[0, ESCAPE]), None);
    }

    /// Rows of noise behind such as a table was trained with: they stay as they are, and the others do not.
    #[test]
    fn rows_that_are_not_worth_it_are_tried_seldom() {
        let lines =
            StringArray::from_iter_values((0..2_000).map(|at| format!("line {at} of a log")));
        let noise: BinaryArray = (0u64..4_000)
            .map(|at| Some((at * at).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()))
            .collect();
        let mut compressor = StringCompressor::default();
        assert!(compressor.compress(&lines, true).is_some());
        let mut tries = |strings: &dyn Array| {
            (0..40).filter(|_| compressor.compress(strings, true).is_some()).count()
        };
        assert_eq!(tries(&noise), 0);
        let compressed = tries(&lines);
        assert!((8..40).contains(&compressed), "{compressed} of 40 behind a pause");
        assert_eq!(tries(&lines), 40);
    }

    proptest! {
        /// Zeros at the ends of strings, strings of any bytes, long ones and empty ones.
        #[test]
        fn strings_come_back(
            words in prop::collection::vec(prop::collection::vec(prop_oneof![Just(0u8), Just(7u8), any::<u8>()], 1..9), 1..20),
            picks in prop::collection::vec((0usize..20, 0usize..20, 0usize..40), 400..800),
            long in 0usize..40_000,
        ) {
            let string = |&(one, other, times): &(usize, usize, usize)| {
                let two = [&words[one % words.len()][..], &words[other % words.len()][..]].concat();
                two.repeat(times)
            };
            let strings = picks.iter().map(string).chain([words.concat().repeat(long), Vec::new()]);
            let strings: BinaryArray = strings.map(Some).collect();
            let trained = Trained::new(&strings);
            let all = Share { of: 2, parts: 1 };
            let compressed = trained.compress(&strings, bytes_of(&strings), all);
            let compressed = compressed.expect("no byte takes more than two");
            for (codes, string) in compressed.as_binary::<i32>().iter().zip(&strings) {
                prop_assert_eq!(decoded(&trained.table, codes.unwrap()), string.map(<[u8]>::to_vec));
            }
        }

        #[test]
        fn any_bytes_are_a_table_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = SymbolTable::decode(&mut Cursor::new(&bytes, "dictionary"));
        }

        #[test]
        fn any_codes_are_a_string_or_an_error(
            symbols in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..9), 0..256),
            codes in prop::collection::vec(prop_oneof![any::<u8>(), 0u8..20, Just(ESCAPE)], 0..100),
        ) {
            let symbols = &symbols[..symbols.len().min(255)];
            let mut bytes = vec![symbols.len() as u8];
            bytes.extend(symbols.iter().map(|symbol| symbol.len() as u8));
            bytes.extend(symbols.iter().flatten());
            let table = SymbolTable::decode(&mut Cursor::new(&bytes, "dictionary")).unwrap();
            // Slow and plainly right.
            let mut expected = Some(Vec::new());
            let mut rest = codes.iter();
            while let (Some(&code), Some(string)) = (rest.next(), &mut expected) {
                match (symbols.get(usize::from(code)), code) {
                    (Some(symbol), _) => string.extend_from_slice(symbol),
                    (None, ESCAPE) => match rest.next() {
                        Some(&byte) => string.push(byte),
                        None => expected = None,
                    },
                    (None, _) => expected = None,
                }
            }
            prop_assert_eq!(decoded(&table, &codes), expected);
        }
    }
}

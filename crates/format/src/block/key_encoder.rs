//! The encoder of keys: what all have in common once, then a list of the rest of each, or one number for each.
//!
//! Numbers are what keys of several columns need: sorted, they begin alike for some rows in a row, and end in numbers or times
//! that differ in few of their bits. So a key is cut into a head and a tail of a length that all tails have. A number is that of
//! the head, among those of the block in order, and behind it the bits in which tails differ. Of all lengths of tails the one is
//! taken that gives the fewest bytes, which is looked for behind every eighth key only. A block's length is asked for behind each, and
//! to look for it there took a third of the time in which records with random keys were written.

use std::ops::Range;

use crate::block::byte_list::ListSize;
use crate::block::encoder::{ColumnEncoder, section_size};
use crate::block::encoding_byte::NUMBERED;
use crate::block::numbered_keys::{HEADS_MAX, NUMBER_BITS_MAX, number_bits};
use crate::block::tail_bits::{TAIL_BYTES_MAX, TailBits, mask_of_tail, tail_word};
use crate::cursor::{put_bytes, varint_len};
use crate::key::{Keys, shared_len};
use crate::packed::{packed_len, put_packed, width_of};

/// After every eight keys, the encoder looks again for the best place to cut them.
const CHOSEN_FOR: usize = 8;

/// Takes in keys.
pub(super) struct KeyEncoder<'a> {
    keys: &'a Keys,
    /// What the keys so far have in common.
    prefix: &'a [u8],
    whole: ListSize,
    /// `None` where keys become a list in any case.
    differences: Option<Differences<'a>>,
}

/// How keys that were taken in differ.
struct Differences<'a> {
    first: &'a [u8],
    previous: &'a [u8],
    shortest: usize,
    /// The bits in which their last sixteen bytes differ.
    varying: u128,
    /// By the bytes from where a key first differs from the one before to its end: keys of another length than the one before
    /// count with those that differ before the last sixteen.
    begun: [Begun; TAIL_BYTES_MAX + 2],
    /// Where to cut them, if numbers were shorter than a list when that was chosen.
    tails: Option<Tails>,
}

/// Where keys are cut into heads and tails.
#[derive(Debug, Clone, Copy)]
struct Tails {
    tail_len: usize,
    heads: Begun,
}

/// Keys with which heads begin.
#[derive(Debug, Clone, Copy, Default)]
struct Begun {
    keys: usize,
    /// Bytes of these keys.
    bytes: usize,
}

/// Keys as numbers.
struct Numbers {
    tail_len: usize,
    heads: ListSize,
    /// Bits of a number.
    width: u8,
    /// Bytes behind the common prefix.
    len: usize,
}

impl<'a> KeyEncoder<'a> {
    /// Of keys that become a list, or what takes less.
    pub fn new(keys: &'a Keys, is_small: bool) -> KeyEncoder<'a> {
        let differences = is_small.then(|| Differences {
            first: &[],
            previous: &[],
            shortest: usize::MAX,
            varying: 0,
            begun: [Begun::default(); TAIL_BYTES_MAX + 2],
            tails: None,
        });
        KeyEncoder { keys, prefix: &[], whole: ListSize::default(), differences }
    }

    fn rest(&self) -> ListSize {
        self.whole.without_prefix(self.prefix.len())
    }

    /// Keys as numbers, if these pay.
    fn numbers(&self) -> Option<Numbers> {
        let differences = self.differences.as_ref()?;
        let numbers = differences.numbers(differences.tails?, self.prefix.len(), self.whole)?;
        pays(numbers.len, self.rest()).then_some(numbers)
    }
}

/// Whether numbers that take `len` bytes take less than a list by a byte for each: for less, keys are not to be put together
/// anew each time they are read.
fn pays(len: usize, list: ListSize) -> bool {
    len + list.count < list.len()
}

impl Begun {
    fn push(&mut self, key: &[u8]) {
        self.keys += 1;
        self.bytes += key.len();
    }
}

impl<'a> Differences<'a> {
    fn push(&mut self, key: &'a [u8], is_first: bool) {
        self.shortest = self.shortest.min(key.len());
        let previous = std::mem::replace(&mut self.previous, key);
        if is_first {
            self.first = key;
        }
        self.varying |= tail_word(key) ^ tail_word(self.first);
        let behind = match key.len() == previous.len() && !is_first {
            true => (key.len() - shared_len(key, previous)).min(TAIL_BYTES_MAX + 1),
            false => TAIL_BYTES_MAX + 1,
        };
        self.begun[behind].push(key);
        if let Some(tails) = self.tails.as_mut().filter(|tails| behind > tails.tail_len) {
            tails.heads.push(key);
        }
    }

    /// Cuts the keys where their numbers are the shortest, if these pay.
    fn choose(&mut self, prefix_len: usize, whole: ListSize) {
        let mut heads = Begun { keys: whole.count, bytes: whole.total };
        let mut bits = 0;
        let mut best: Option<(usize, Tails)> = None;
        for tail_len in 0..=TAIL_BYTES_MAX.min(self.shortest - prefix_len) {
            heads.keys -= self.begun[tail_len].keys;
            heads.bytes -= self.begun[tail_len].bytes;
            if let Some(byte) = tail_len.checked_sub(1) {
                bits += ((self.varying >> (8 * byte)) as u8).count_ones() as u8;
            }
            if bits > NUMBER_BITS_MAX {
                break;
            }
            let tails = Tails { tail_len, heads };
            if let Some(numbers) = self.numbers_of(tails, bits, prefix_len, whole)
                && best.is_none_or(|(len, _)| numbers.len < len)
            {
                best = Some((numbers.len, tails));
            }
        }
        let list = whole.without_prefix(prefix_len);
        self.tails = best.filter(|(len, _)| pays(*len, list)).map(|(_, tails)| tails);
    }

    /// The numbers of the keys as they are cut, where they fit numbers.
    fn numbers(&self, tails: Tails, prefix_len: usize, whole: ListSize) -> Option<Numbers> {
        let bits = (self.varying & mask_of_tail(tails.tail_len)).count_ones() as u8;
        self.numbers_of(tails, bits, prefix_len, whole)
    }

    /// [`Differences::numbers`] of tails that differ in some bits.
    fn numbers_of(
        &self,
        Tails { tail_len, heads }: Tails,
        tail_bits: u8,
        prefix_len: usize,
        whole: ListSize,
    ) -> Option<Numbers> {
        if tail_len > self.shortest - prefix_len || heads.keys > HEADS_MAX {
            return None;
        }
        let bits = width_of(heads.keys as u64 - 1) + tail_bits;
        if bits > NUMBER_BITS_MAX {
            return None;
        }
        let total = heads.bytes - heads.keys * (prefix_len + tail_len);
        let heads = whole.of_some(heads.keys, total, prefix_len + tail_len);
        let width = number_bits(bits);
        let len = 2 + 2 * tail_len + packed_len(whole.count, width) + heads.len();
        Some(Numbers { tail_len, heads, width, len })
    }
}

impl KeyEncoder<'_> {
    /// [`ColumnEncoder::extend`] for keys of `width` bytes that become a list.
    fn extend_list(&mut self, rows: Range<usize>, width: usize) {
        if self.whole.count == 0 {
            self.prefix = self.keys.value(rows.start);
        }
        for row in rows.clone() {
            // Most have nothing in common.
            if self.prefix.is_empty() {
                break;
            }
            let key = self.keys.value(row);
            if !key.starts_with(self.prefix) {
                self.prefix = &self.prefix[..shared_len(self.prefix, key)];
            }
        }
        self.whole.push_even(rows.len(), width);
    }
}

impl ColumnEncoder for KeyEncoder<'_> {
    fn extend(&mut self, rows: Range<usize>, record: &mut [usize]) {
        if let (Some(width), None, true, false) =
            (self.keys.width(), &self.differences, record.is_empty(), rows.is_empty())
        {
            return self.extend_list(rows, width);
        }
        for (nth, row) in rows.enumerate() {
            let key = self.keys.value(row);
            let is_first = self.whole.count == 0;
            self.prefix = match is_first {
                true => key,
                false => &self.prefix[..shared_len(self.prefix, key)],
            };
            self.whole.push(key.len());
            if let Some(differences) = &mut self.differences {
                differences.push(key, is_first);
                let (prefix_len, count) = (self.prefix.len(), self.whole.count);
                // For fewer than two bytes of each key it does not pay.
                let may_pay = self.whole.total > (prefix_len + 2) * count;
                if may_pay && count.is_multiple_of(CHOSEN_FOR) {
                    differences.choose(prefix_len, self.whole);
                }
            }
            if let Some(size) = record.get_mut(nth) {
                *size += section_size(self.form());
            }
        }
    }

    fn form(&self) -> (u8, usize) {
        let prefix_len = varint_len(self.prefix.len() as u64) + self.prefix.len();
        match self.numbers() {
            Some(numbers) => (NUMBERED | numbers.heads.form(), prefix_len + numbers.len),
            None => (self.rest().form(), prefix_len + self.rest().len()),
        }
    }

    fn write(&self, rows: Range<usize>, out: &mut Vec<u8>) {
        put_bytes(out, self.prefix);
        // A list of strings without bytes has an end for each.
        let even = self.keys.even_bytes().filter(|(width, _)| *width > 0);
        if let (Some((width, bytes)), None, true) =
            (even, &self.differences, self.prefix.is_empty())
        {
            return out.extend_from_slice(&bytes[rows.start * width..rows.end * width]);
        }
        let keys = rows.map(|row| self.keys.value(row));
        match (self.numbers(), &self.differences) {
            (Some(numbers), Some(differences)) => {
                differences.write(&numbers, self.prefix.len(), keys, out);
            }
            _ => self.rest().write(keys.map(|key| &key[self.prefix.len()..]), out),
        }
    }
}

impl Differences<'_> {
    fn write<'k>(
        &self,
        numbers: &Numbers,
        prefix_len: usize,
        keys: impl Iterator<Item = &'k [u8]>,
        out: &mut Vec<u8>,
    ) {
        let Numbers { tail_len, heads, width, .. } = numbers;
        let mask = mask_of_tail(*tail_len);
        let (varying, common) = (self.varying & mask, tail_word(self.first) & mask & !self.varying);
        out.extend([(heads.count - 1) as u8, *tail_len as u8]);
        out.extend_from_slice(&varying.to_be_bytes()[TAIL_BYTES_MAX - tail_len..]);
        out.extend_from_slice(&common.to_be_bytes()[TAIL_BYTES_MAX - tail_len..]);
        let tails = TailBits::new(varying, common);
        let mut distinct: Vec<&[u8]> = Vec::with_capacity(heads.count);
        let number = |key: &'k [u8]| {
            let (head, tail) = key.split_at(key.len() - tail_len);
            if distinct.last().is_none_or(|last| *last != &head[prefix_len..]) {
                distinct.push(&head[prefix_len..]);
            }
            // Shifted by all bits only where there is one head.
            let head = (distinct.len() as u64 - 1).checked_shl(tails.width.into()).unwrap_or(0);
            head | tails.number_of(tail_word(tail))
        };
        put_packed(keys.map(number), *width, out);
        heads.write(distinct.into_iter(), out);
    }
}

//! Keys as numbers, opened for reading: see [`crate::block::key_encoder`].

use std::ops::Range;

use smallvec::SmallVec;

use crate::block::byte_list::ListView;
use crate::block::encoding_byte::{NUMBERED, malformed};
use crate::block::section::PackedView;
use crate::block::tail_bits::{TAIL_BYTES_MAX, TailBits, tail_word};
use crate::error::Result;
use crate::packed::width_of;

/// The number of a head is at most a byte.
pub(super) const HEADS_MAX: usize = 256;
pub(super) const NUMBER_BITS_MAX: u8 = 64;
/// A block has no more rows than bytes, so each number takes at least one.
const NUMBER_BITS_MIN: u8 = 8;

/// The bits that numbers take which need some.
pub(super) fn number_bits(needed: u8) -> u8 {
    needed.max(NUMBER_BITS_MIN)
}

/// Room for a key, or for a part of it.
pub(super) type KeyRoom = SmallVec<[u8; 64]>;

/// The keys of a block behind what all have in common.
#[derive(Debug, Clone)]
pub(super) enum KeyRests<'a> {
    List(ListView<'a>),
    Numbered(NumberedKeys<'a>),
}

#[derive(Debug, Clone)]
pub(super) struct NumberedKeys<'a> {
    head_count: usize,
    heads: ListView<'a>,
    tail_len: usize,
    tails: TailBits,
    numbers: PackedView<'a>,
}

impl<'a> KeyRests<'a> {
    /// What follows the common prefix in a section. O(1).
    pub fn parse(form: u8, row_count: usize, bytes: &'a [u8]) -> Result<KeyRests<'a>> {
        match form & NUMBERED {
            0 => Ok(KeyRests::List(ListView::parse(form, row_count, bytes)?)),
            _ => NumberedKeys::parse(form & !NUMBERED, row_count, bytes).map(KeyRests::Numbered),
        }
    }

    /// The rest of a row's key, where it lies or put together in `room`. O(its bytes).
    pub fn get<'r>(&self, row: usize, room: &'r mut KeyRoom) -> Result<&'r [u8]>
    where
        'a: 'r,
    {
        match self {
            KeyRests::List(list) => list.get(row),
            KeyRests::Numbered(keys) => {
                room.clear();
                keys.put(row, room)?;
                Ok(room)
            }
        }
    }
}

impl<'a> NumberedKeys<'a> {
    fn parse(form: u8, row_count: usize, bytes: &'a [u8]) -> Result<NumberedKeys<'a>> {
        let cut_short = || malformed("numbered keys are cut short");
        let ([heads, tail_len], bytes) = bytes.split_first_chunk().ok_or_else(cut_short)?;
        let (head_count, tail_len) = (usize::from(*heads) + 1, usize::from(*tail_len));
        if tail_len > TAIL_BYTES_MAX {
            return Err(malformed(format!("keys that end in {tail_len} bytes")));
        }
        let (varying, bytes) = bytes.split_at_checked(tail_len).ok_or_else(cut_short)?;
        let (common, bytes) = bytes.split_at_checked(tail_len).ok_or_else(cut_short)?;
        let (varying, common) = (tail_word(varying), tail_word(common));
        if varying & common != 0 {
            return Err(malformed("bits of keys that are the same and differ"));
        }
        let bits = varying.count_ones() + u32::from(width_of(u64::from(*heads)));
        if bits > NUMBER_BITS_MAX.into() {
            return Err(malformed(format!("keys that differ in {bits} bits")));
        }
        let (numbers, bytes) = PackedView::parse(number_bits(bits as u8), row_count, bytes)?;
        let heads = ListView::parse(form, head_count, bytes)?;
        let tails = TailBits::new(varying, common);
        Ok(NumberedKeys { head_count, heads, tail_len, tails, numbers })
    }

    /// Appends what a row's key has behind the common prefix.
    #[inline]
    fn put(&self, row: usize, out: &mut KeyRoom) -> Result<()> {
        let number = self.numbers.get(row);
        out.extend_from_slice(self.head(self.head_of(number))?);
        let word = self.tails.word_of(number).to_be_bytes();
        out.extend_from_slice(&word[TAIL_BYTES_MAX - self.tail_len..]);
        Ok(())
    }

    /// Calls `each` with the keys of some rows in a row, which begin with `prefix`. What keys have in common with the ones
    /// before them is put together once.
    pub fn for_each(
        &self,
        prefix: &[u8],
        rows: Range<usize>,
        mut each: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let (mut key, mut head, mut tail_at) = (KeyRoom::from_slice(prefix), None, 0);
        let mut done = Ok(());
        self.numbers.for_each(rows.start, rows.end, |number| {
            if done.is_err() {
                return;
            }
            done = (|| {
                let of_number = self.head_of(number);
                if head != Some(of_number) {
                    key.truncate(prefix.len());
                    key.extend_from_slice(self.head(of_number)?);
                    tail_at = key.len();
                    key.resize(tail_at + self.tail_len, 0);
                    head = Some(of_number);
                }
                let word = self.tails.word_of(number).to_be_bytes();
                key[tail_at..].copy_from_slice(&word[TAIL_BYTES_MAX - self.tail_len..]);
                each(&key)
            })();
        });
        done
    }

    fn head_of(&self, number: u64) -> usize {
        number.checked_shr(self.tails.width.into()).unwrap_or(0) as usize
    }

    fn head(&self, head: usize) -> Result<&'a [u8]> {
        match head < self.head_count {
            true => self.heads.get(head),
            false => Err(malformed(format!("head {head} of {} of a key", self.head_count))),
        }
    }
}

//! The bits in which byte strings of one length differ, as one number.

use smallvec::SmallVec;

/// The longest tail.
pub(super) const TAIL_BYTES_MAX: usize = 16;

/// The last bytes of a string as a word, the last byte lowest; zeros stand before a shorter string.
#[inline]
pub(super) fn tail_word(string: &[u8]) -> u128 {
    match string.last_chunk() {
        Some(last) => u128::from_be_bytes(*last),
        None => string.iter().fold(0, |word, &byte| word << 8 | u128::from(byte)),
    }
}

/// A mask of the last `len` bytes.
pub(super) fn mask_of_tail(len: usize) -> u128 {
    u128::MAX.checked_shr(u128::BITS - 8 * len as u32).unwrap_or(0)
}

/// Bits in a row of a word.
#[derive(Debug, Clone, Copy)]
struct BitRun {
    /// The place of the lowest.
    shift: u8,
    len: u8,
}

/// Which bits of a word may be set and which are known, so that words become numbers in the same order, and back.
///
/// To take the bits that differ out of a word and to put them back is what processors know as bit extraction and deposit. Tries
/// find keys by such bits, too (HOT: Binna, Zangerle, Pichl, Specht and Leis, SIGMOD 2018).
#[derive(Debug, Clone)]
pub(super) struct TailBits {
    /// From the lowest on.
    runs: SmallVec<[BitRun; 8]>,
    /// The bits that all words have.
    common: u128,
    /// How many bits differ: at most 64.
    pub width: u8,
}

impl TailBits {
    /// Words that differ in the bits of `varying`, at most 64, and have those of `common` besides.
    pub fn new(varying: u128, common: u128) -> TailBits {
        let mut runs = SmallVec::new();
        let mut rest = varying;
        while rest != 0 {
            let shift = rest.trailing_zeros();
            let len = (rest >> shift).trailing_ones();
            runs.push(BitRun { shift: shift as u8, len: len as u8 });
            rest &= !(ones(len) << shift);
        }
        TailBits { runs, common: common & !varying, width: varying.count_ones() as u8 }
    }

    /// The number of a word.
    #[inline]
    pub fn number_of(&self, word: u128) -> u64 {
        let (mut number, mut at) = (0, 0);
        for run in &self.runs {
            let bits = (word >> run.shift) & ones(run.len.into());
            number |= (bits as u64) << at;
            at += u32::from(run.len);
        }
        number
    }

    /// The word of a number.
    #[inline]
    pub fn word_of(&self, number: u64) -> u128 {
        // Of keys that end in one number, most often.
        if let [run] = self.runs[..] {
            return self.common | (u128::from(number) & ones(run.len.into())) << run.shift;
        }
        let (mut word, mut rest) = (self.common, number);
        for run in &self.runs {
            let bits = u128::from(rest) & ones(run.len.into());
            word |= bits << run.shift;
            rest = rest.checked_shr(run.len.into()).unwrap_or(0);
        }
        word
    }
}

/// The lowest `count` bits: one to 128.
fn ones(count: u32) -> u128 {
    u128::MAX >> (u128::BITS - count)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn words_that_differ_in_some_bits_become_numbers_in_their_order_and_back(
            mask in any::<u128>(), thinned in any::<u128>(), common in any::<u128>(),
            words in proptest::collection::vec(any::<u128>(), 1..20),
        ) {
            let mut varying = mask & thinned;
            while varying.count_ones() > 64 {
                varying &= varying - 1;
            }
            let bits = TailBits::new(varying, common);
            prop_assert_eq!(u32::from(bits.width), varying.count_ones());
            let mut words: Vec<u128> =
                words.into_iter().map(|word| word & varying | common & !varying).collect();
            words.sort_unstable();
            let numbers: Vec<u64> = words.iter().map(|&word| bits.number_of(word)).collect();
            prop_assert!(numbers.is_sorted());
            prop_assert!(numbers.iter().all(|number| bits.width == 64 || number >> bits.width == 0));
            let back: Vec<u128> = numbers.into_iter().map(|number| bits.word_of(number)).collect();
            prop_assert_eq!(back, words);
        }
    }

    #[test]
    fn a_tail_is_a_word_with_the_last_byte_lowest() {
        assert_eq!(tail_word(b""), 0);
        assert_eq!(tail_word(&[1, 2]), 0x0102);
        assert_eq!(tail_word(&[7; 40]), u128::from_be_bytes([7; 16]));
        assert_eq!((mask_of_tail(0), mask_of_tail(2), mask_of_tail(16)), (0, 0xffff, u128::MAX));
    }
}

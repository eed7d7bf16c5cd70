//! The order of rows by a word of each: most of what an append of unsorted rows costs.

use std::cmp::Ordering;

use crate::packed::width_of;

/// Bits of a digit, by which rows are dealt out: the counts of all its values fit the first cache of a processor.
const DIGIT_BITS: u32 = 8;
/// Words that differ in more digits are compared.
const DIGITS_MAX: u32 = 4;
/// Fewer rows are compared.
const ROWS_MIN: usize = 256;

/// Row numbers in the order of words, and where these are equal in their own.
///
/// Where it fits 64 bits, a word's distance from the least stands above the row's number, so that one comparison of a number of
/// eight bytes says all. Of distances, the lowest bits that are 0 in all are left out: words of short keys begin with these.
/// Those of few digits are dealt out by them, the last one first (a radix sort), in O(rows · digits).
pub fn order_of_words(row_count: u32, word: impl Fn(u32) -> u64) -> Vec<u32> {
    let words: Vec<u64> = (0..row_count).map(&word).collect();
    let least = words.iter().copied().min().unwrap_or(0);
    let used = words.iter().fold(0, |used, word| used | (word - least));
    let unused_bits = used.trailing_zeros() % u64::BITS;
    let distance_bits = u32::from(width_of(used >> unused_bits));
    let row_bits = u32::from(width_of(u64::from(row_count)));
    if distance_bits + row_bits > u64::BITS {
        let word = |row: u32| u128::from(words[row as usize]);
        return order_of_long_words(row_count, word, |_, _| Ordering::Equal);
    }
    let numbered = words.iter().zip(0u64..);
    let mut order: Vec<u64> =
        numbered.map(|(word, row)| (word - least) >> unused_bits << row_bits | row).collect();
    drop(words);
    let digits = distance_bits.div_ceil(DIGIT_BITS);
    if digits > DIGITS_MAX || order.len() < ROWS_MIN {
        order.sort_unstable();
    } else {
        deal_out(&mut order, row_bits, digits);
    }
    let row = (1 << row_bits) - 1;
    order.into_iter().map(|numbered| (numbered & row) as u32).collect()
}

/// Row numbers in the order of long words, where these are equal in that of what lies `behind` them, and where that is equal in their own.
///
/// As many leading bits of a word's distance from the least as fit 64 bits stand above the row's number, and mostly tell already. Only
/// rows for which they do not are compared by their words. O(rows · log rows).
pub fn order_of_long_words(
    row_count: u32,
    word: impl Fn(u32) -> u128,
    behind: impl Fn(u32, u32) -> Ordering,
) -> Vec<u32> {
    let words: Vec<u128> = (0..row_count).map(word).collect();
    let least = words.iter().copied().min().unwrap_or(0);
    let distance_max = words.iter().copied().max().unwrap_or(0) - least;
    let distance_bits = u128::BITS - distance_max.leading_zeros();
    let row_bits = u32::from(width_of(u64::from(row_count)));
    let bits_left_out = distance_bits.saturating_sub(u64::BITS - row_bits);
    let numbered = words.iter().zip(0u64..);
    let mut order: Vec<u64> = numbered
        .map(|(word, row)| (((word - least) >> bits_left_out) as u64) << row_bits | row)
        .collect();
    order.sort_unstable();
    let row_of = |numbered: &u64| (numbered & ((1 << row_bits) - 1)) as u32;
    let mut rows: Vec<u32> = order.iter().map(row_of).collect();
    let mut left = &mut rows[..];
    for alike in order.chunk_by(|a, b| a >> row_bits == b >> row_bits) {
        let (of_these, others) = left.split_at_mut(alike.len());
        left = others;
        if alike.len() > 1 {
            let with_word = |&row: &u32| (words[row as usize], row);
            let mut with_words: Vec<(u128, u32)> = of_these.iter().map(with_word).collect();
            with_words.sort_unstable_by(|a, b| {
                a.0.cmp(&b.0).then_with(|| behind(a.1, b.1)).then(a.1.cmp(&b.1))
            });
            of_these.iter_mut().zip(with_words).for_each(|(row, (_, sorted))| *row = sorted);
        }
    }
    rows
}

/// Sorts numbers by some digits that begin at a bit; equal ones stay in their order.
fn deal_out(numbers: &mut Vec<u64>, first_bit: u32, digits: u32) {
    const VALUES: usize = 1 << DIGIT_BITS;
    let digit = |number: u64, at: u32| (number >> (first_bit + at * DIGIT_BITS)) as usize % VALUES;
    let mut counts = [[0u32; VALUES]; DIGITS_MAX as usize];
    for &number in &*numbers {
        (0..digits).for_each(|at| counts[at as usize][digit(number, at)] += 1);
    }
    let mut dealt = vec![0; numbers.len()];
    for at in 0..digits {
        let mut places = counts[at as usize];
        let mut end = 0;
        for place in &mut places {
            end += std::mem::replace(place, end);
        }
        for &number in &*numbers {
            let place = &mut places[digit(number, at)];
            dealt[*place as usize] = number;
            *place += 1;
        }
        std::mem::swap(numbers, &mut dealt);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The order by comparing all.
    fn sorted<W: Ord>(row_count: u32, word: impl Fn(u32) -> W) -> Vec<u32> {
        let mut order: Vec<u32> = (0..row_count).collect();
        order.sort_by_key(|&row| word(row));
        order
    }

    proptest! {
        /// Words of few and of many bits, close together and far apart, few rows and many.
        #[test]
        fn rows_are_in_the_order_of_words_and_of_their_numbers(
            words in prop::collection::vec(any::<u64>(), 0..1_500),
            bits in 0..65u32,
            least in prop_oneof![Just(0), any::<u64>(), Just(u64::MAX)],
            unused in 0..64u32,
        ) {
            let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
            let words: Vec<u64> = words.iter().map(|word| ((word & mask) << unused).saturating_add(least)).collect();
            let word = |row: u32| words[row as usize];
            let rows = words.len() as u32;
            prop_assert_eq!(order_of_words(rows, word), sorted(rows, word));
        }

        /// Words that differ in their first bits, only in their last, or not at all.
        #[test]
        fn rows_are_in_the_order_of_long_words_then_of_what_lies_behind_them(
            words in prop::collection::vec((any::<u128>(), 0..3u8), 0..1_500),
            bits in 0..129u32,
            shift in 0..128u32,
            least in prop_oneof![Just(0), any::<u128>(), Just(u128::MAX)],
        ) {
            let mask = u128::MAX.checked_shr(128 - bits).unwrap_or(0);
            let words: Vec<(u128, u8)> = words
                .iter()
                .map(|(word, behind)| (((word & mask) << shift).saturating_add(least), *behind))
                .collect();
            let behind = |row: u32| words[row as usize].1;
            let word = |row: u32| words[row as usize].0;
            let rows = words.len() as u32;
            let compare = |a: u32, b: u32| behind(a).cmp(&behind(b));
            prop_assert_eq!(
                order_of_long_words(rows, word, compare),
                sorted(rows, |row| words[row as usize])
            );
        }
    }
}

//! The order of rows by a word of each: most of what an append of unsorted rows costs.

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
        return sorted(row_count, word);
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

/// Row numbers in the order of what is compared, and where that is equal in their own.
pub fn sorted<W: Ord>(row_count: u32, word: impl Fn(u32) -> W) -> Vec<u32> {
    let mut order: Vec<(W, u32)> = (0..row_count).map(|row| (word(row), row)).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, row)| row).collect()
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
    }
}

//! The keys of a few rows, found by those of many.

use std::hash::BuildHasher;

use drillcore_format::key::{Keys, leading_word};
use foldhash::fast::FixedState;

/// No row.
const NONE: u32 = u32::MAX;
/// Places per key: enough that most searches for missing keys end at an empty one.
const SPREAD: usize = 4;

/// A hash table of keys, each with the rows that have it.
pub struct KeyTable<'k> {
    keys: &'k Keys,
    /// At each place the last row that was put there, ...
    heads: Vec<u32>,
    /// ... and for each row the one that was put there before.
    before: Vec<u32>,
}

impl<'k> KeyTable<'k> {
    /// O(keys).
    pub fn new(keys: &'k Keys) -> KeyTable<'k> {
        let mut table = KeyTable {
            keys,
            heads: vec![NONE; (SPREAD * keys.len()).next_power_of_two()],
            before: Vec::with_capacity(keys.len()),
        };
        for (row, key) in (0..).zip(keys.iter()) {
            let place = table.place(key);
            table.before.push(std::mem::replace(&mut table.heads[place], row));
        }
        table
    }

    /// Calls `each` with every row that has this key. O(1 + rows), unless many keys have one hash.
    #[inline]
    pub fn for_each_row(&self, key: &[u8], mut each: impl FnMut(usize)) {
        let mut row = self.heads[self.place(key)];
        while row != NONE {
            if self.keys.value(row as usize) == key {
                each(row as usize);
            }
            row = self.before[row as usize];
        }
    }

    #[inline]
    fn place(&self, key: &[u8]) -> usize {
        hash(key) as usize & (self.heads.len() - 1)
    }
}

/// Without a seed, so the same keys take the same time in every run; keys chosen to collide cost time, never a wrong answer.
#[inline]
fn hash(key: &[u8]) -> u64 {
    if key.len() > size_of::<u128>() {
        return FixedState::default().hash_one(key);
    }
    // Halves of a short key are multiplied to both halves of the product.
    let word = leading_word(key);
    let (high, low) = ((word >> 64) as u64, word as u64);
    let product =
        u128::from(high ^ 0x9e37_79b9_7f4a_7c15) * u128::from(low ^ 0xd1b5_4a32_d192_ed03);
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_a_key_is_found_and_no_other() {
        for width in [2, 9, 16, 17, 40] {
            let key = |number: u32| {
                let mut key = vec![1; width];
                key[..2].copy_from_slice(&(number as u16).to_be_bytes());
                key
            };
            let keys: Keys = (0..500).map(|row| key(row % 200)).collect();
            let table = KeyTable::new(&keys);
            for number in 0..300 {
                let mut rows = Vec::new();
                table.for_each_row(&key(number), |row| rows.push(row as u32));
                rows.sort_unstable();
                let expected: Vec<u32> = (0..500).filter(|row| row % 200 == number).collect();
                assert_eq!(rows, expected, "{number} of {width} bytes");
            }
        }
        KeyTable::new(&Keys::from_iter([[0u8; 0]; 0])).for_each_row(b"", |_| unreachable!());
    }

    #[test]
    fn whole_numbers_are_spread_over_the_places() {
        for step in [1i64, 256, 1 << 32] {
            let keys: Keys = (0..4_096)
                .map(|number| [&[1], &(number * step).to_be_bytes()[..]].concat())
                .collect();
            let table = KeyTable::new(&keys);
            let taken = table.heads.iter().filter(|&&row| row != NONE).count();
            // By chance 3,624 of 16,384 places would be taken.
            assert!(taken > 3_400, "{taken} with steps of {step}");
        }
    }
}

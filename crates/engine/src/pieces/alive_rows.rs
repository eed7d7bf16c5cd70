//! Which rows of a piece are alive: a bitmap with rank and select.
//!
//! Beside the bits lies how many are set before each block of 512. So the rank of an ordinal is a look at one block, and the
//! ordinal at a position a binary search of the blocks and a look at one (Jacobson, "Space-efficient static trees and graphs",
//! 1989). 1.06 bits per row of the piece, however many are alive.

use std::ops::Range;

use crate::pieces::memory_meter::{Charge, MemoryMeter};

/// Words of a block.
const BLOCK_WORDS: usize = 8;
const BLOCK_ROWS: u64 = 64 * BLOCK_WORDS as u64;

/// Some rows of one piece.
#[derive(Debug)]
pub struct AliveRows {
    words: Vec<u64>,
    /// How many of the rows lie before each block, and at the end in all.
    before: Vec<u32>,
    /// How many rows the piece has.
    rows: u64,
    _charge: Charge,
}

/// Bits, one for each row of a piece, until they are counted.
#[derive(Debug)]
pub struct RowBits {
    words: Vec<u64>,
    rows: u64,
}

impl RowBits {
    /// All rows of a piece.
    pub fn all(rows: u64) -> RowBits {
        let mut bits = RowBits { words: vec![u64::MAX; rows.div_ceil(64) as usize], rows };
        if !rows.is_multiple_of(64) {
            *bits.words.last_mut().expect("there is a row") = (1 << (rows % 64)) - 1;
        }
        bits
    }

    /// None of the rows of a piece.
    pub fn none(rows: u64) -> RowBits {
        RowBits { words: vec![0; rows.div_ceil(64) as usize], rows }
    }

    /// Adds a row behind all others.
    pub fn push(&mut self, is_among: bool) {
        if self.rows.is_multiple_of(64) {
            self.words.push(0);
        }
        self.rows += 1;
        if is_among {
            self.set(self.rows as u32 - 1);
        }
    }

    pub fn set(&mut self, ordinal: u32) {
        self.words[ordinal as usize / 64] |= 1 << (ordinal % 64);
    }

    pub fn clear(&mut self, ordinal: u32) {
        self.words[ordinal as usize / 64] &= !(1 << (ordinal % 64));
    }

    /// Takes out some rows side by side.
    pub fn clear_range(&mut self, ordinals: Range<u32>) {
        let Range { start, end } = ordinals;
        if start >= end {
            return;
        }
        let (first, last) = (start as usize / 64, (end as usize - 1) / 64);
        for number in first..=last {
            let mut cleared = u64::MAX;
            if number == first {
                cleared &= u64::MAX << (start % 64);
            }
            if number == last && !end.is_multiple_of(64) {
                cleared &= (1 << (end % 64)) - 1;
            }
            self.words[number] &= !cleared;
        }
    }

    /// Counts the rows, and in `meter` what they take. O(rows / 64).
    pub fn counted(self, meter: &MemoryMeter) -> AliveRows {
        let RowBits { words, rows } = self;
        let mut before = Vec::with_capacity(words.len() / BLOCK_WORDS + 2);
        let mut count = 0;
        before.push(0);
        for block in words.chunks(BLOCK_WORDS) {
            count += block.iter().map(|word| word.count_ones()).sum::<u32>();
            before.push(count);
        }
        let bytes = words.capacity() * size_of::<u64>() + before.capacity() * size_of::<u32>();
        AliveRows { words, before, rows, _charge: meter.charge_alive(bytes as u64) }
    }
}

impl AliveRows {
    /// How many rows are alive.
    pub fn len(&self) -> u64 {
        u64::from(self.before[self.before.len() - 1])
    }

    /// Whether all rows of the piece are.
    pub fn is_all(&self) -> bool {
        self.len() == self.rows
    }

    /// The same bits, to be changed.
    pub fn bits(&self) -> RowBits {
        RowBits { words: self.words.clone(), rows: self.rows }
    }

    /// The same as words, a bit for each row of the piece.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    #[inline]
    pub fn contains(&self, ordinal: u32) -> bool {
        self.words[ordinal as usize / 64] >> (ordinal % 64) & 1 == 1
    }

    /// How many of the rows lie before an ordinal. O(1).
    pub fn rank(&self, ordinal: u64) -> u64 {
        let word = ordinal as usize / 64;
        let block = word / BLOCK_WORDS;
        let whole = &self.words[block * BLOCK_WORDS..word];
        let mut rank = self.before[block] + whole.iter().map(|word| word.count_ones()).sum::<u32>();
        if !ordinal.is_multiple_of(64) {
            rank += (self.words[word] & ((1 << (ordinal % 64)) - 1)).count_ones();
        }
        rank.into()
    }

    /// The ordinal of the row at a position. O(log rows).
    ///
    /// # Panics
    /// If there are not as many.
    pub fn ordinal(&self, position: u64) -> u64 {
        assert!(position < self.len(), "there is no alive row {position}");
        let block = self.block_of(position);
        let mut rest = (position - u64::from(self.before[block])) as u32;
        let mut number = block * BLOCK_WORDS;
        loop {
            let ones = self.words[number].count_ones();
            if rest < ones {
                break;
            }
            rest -= ones;
            number += 1;
        }
        number as u64 * 64 + u64::from(bit_at(self.words[number], rest))
    }

    /// The block with the row at a position: first guessed from how many are alive, which is right or nearly so where the dead
    /// lie anywhere.
    fn block_of(&self, position: u64) -> usize {
        let is_behind = |block: usize| u64::from(self.before[block]) <= position;
        let guess = (position * self.rows / self.len() / BLOCK_ROWS) as usize;
        let (mut low, mut high) = (guess, guess + 1);
        let mut step = 1;
        while !is_behind(low) {
            high = low;
            low = low.saturating_sub(step);
            step *= 2;
        }
        while high < self.before.len() && is_behind(high) {
            low = high;
            high += step;
            step *= 2;
        }
        let high = high.min(self.before.len());
        low + self.before[low..high].partition_point(|&before| u64::from(before) <= position) - 1
    }

    /// Appends the ordinals of the rows that lie in an interval.
    pub fn ordinals_in(&self, ordinals: Range<u64>, out: &mut Vec<u32>) {
        let Range { start, end } = ordinals;
        if start >= end {
            return;
        }
        let (first, last) = (start as usize / 64, (end as usize - 1) / 64);
        for number in first..=last {
            let mut word = self.words[number];
            if number == first {
                word &= u64::MAX << (start % 64);
            }
            if number == last && !end.is_multiple_of(64) {
                word &= (1 << (end % 64)) - 1;
            }
            while word != 0 {
                out.push(number as u32 * 64 + word.trailing_zeros());
                word &= word - 1;
            }
        }
    }
}

/// Where in a byte its set bits are.
static BITS_OF_BYTE: [[u8; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut rank) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                table[byte][rank] = bit as u8;
                rank += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    table
};

/// Where the set bit is that has `rank` others before it. Without a loop, whose end no processor guesses (Vigna, "Broadword
/// implementation of rank/select queries", 2008).
#[inline]
fn bit_at(word: u64, rank: u32) -> u32 {
    const ONE_PER_BYTE: u64 = 0x0101_0101_0101_0101;
    const HIGHEST_PER_BYTE: u64 = 0x80 * ONE_PER_BYTE;
    const LOW_OF_TWO: u64 = 0x55 * ONE_PER_BYTE;
    const LOW_OF_FOUR: u64 = 0x33 * ONE_PER_BYTE;
    const LOW_OF_EIGHT: u64 = 0x0f * ONE_PER_BYTE;
    let of_two = word - ((word >> 1) & LOW_OF_TWO);
    let of_four = (of_two & LOW_OF_FOUR) + ((of_two >> 2) & LOW_OF_FOUR);
    let of_eight = (of_four + (of_four >> 4)) & LOW_OF_EIGHT;
    // In each byte how many bits are set there and in those below.
    let through = of_eight.wrapping_mul(ONE_PER_BYTE);
    let ranks = (u64::from(rank) * ONE_PER_BYTE) | HIGHEST_PER_BYTE;
    let ended = ((ranks - through) & HIGHEST_PER_BYTE) >> 7;
    let first = (ended.wrapping_mul(ONE_PER_BYTE) >> 56) as u32 * 8;
    let rest = rank as u8 - ((through << 8) >> first) as u8;
    first + u32::from(BITS_OF_BYTE[usize::from((word >> first) as u8)][usize::from(rest)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bit_of_a_rank_is_the_one_that_a_walk_finds() {
        let single = (0..64).map(|bit| 1u64 << bit);
        let some = [u64::MAX, 0x8000_0000_0000_0001, 0x0f0f_00ff_8001_7f00, 0x5555_5555_5555_5555];
        for word in single.chain(some) {
            let bits = (0..64).filter(|bit| word >> bit & 1 == 1);
            for (rank, bit) in bits.enumerate() {
                assert_eq!(bit_at(word, rank as u32), bit, "{word:#x}");
            }
        }
    }

    #[test]
    fn rank_and_ordinal_agree_with_a_list_wherever_the_dead_lie() {
        let mut state = 5u64;
        let mut random = |limit: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % limit
        };
        for round in 0..60 {
            let rows = [0, 1, 63, 64, 65, 511, 512, 513, 3000, 20_000][round % 10];
            let share = [1, 2, 20, 500][round % 4];
            // Anywhere, or all behind a third of the rows.
            let is_dead = |ordinal: u64, random: &mut dyn FnMut(u64) -> u64| match round % 3 {
                0 => ordinal > rows / 3,
                _ => random(share) == 0,
            };
            let mut bits = RowBits::none(0);
            let mut alive: Vec<u32> = Vec::new();
            for ordinal in 0..rows {
                let is_alive = !is_dead(ordinal, &mut random);
                bits.push(is_alive);
                alive.extend(is_alive.then_some(ordinal as u32));
            }
            let meter = MemoryMeter::default();
            let known = bits.counted(&meter);
            assert!(meter.alive_bytes() >= rows / 8);
            assert_eq!(known.len(), alive.len() as u64);
            let mut rank = 0;
            for ordinal in 0..rows {
                assert_eq!(known.rank(ordinal), rank);
                rank += u64::from(known.contains(ordinal as u32));
            }
            assert_eq!(known.rank(rows), rank);
            for (position, &ordinal) in alive.iter().enumerate() {
                assert_eq!(known.ordinal(position as u64), u64::from(ordinal));
            }
            for _ in 0..20 {
                let from = random(rows + 1);
                let to = from + random(rows - from + 1);
                let mut found = Vec::new();
                known.ordinals_in(from..to, &mut found);
                let range = from as u32..to as u32;
                let expected: Vec<u32> =
                    alive.iter().copied().filter(|ordinal| range.contains(ordinal)).collect();
                assert_eq!(found, expected);
            }
            let (from, to) = (random(rows + 1) as u32, random(rows + 1) as u32);
            let (mut by_range, mut one_by_one) = (known.bits(), known.bits());
            by_range.clear_range(from..to);
            (from..to).for_each(|ordinal| one_by_one.clear(ordinal));
            assert_eq!(by_range.words, one_by_one.words);
            let mut same = RowBits::all(rows);
            (0..rows as u32)
                .filter(|&ordinal| !known.contains(ordinal))
                .for_each(|o| same.clear(o));
            assert_eq!(same.words, known.words);
            drop(known);
            assert_eq!(meter.alive_bytes(), 0);
        }
    }
}

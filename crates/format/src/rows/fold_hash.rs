//! A fast hash for tables that live as long as one call.

use std::hash::Hasher;

/// Multiplies eight bytes at a time into 128 bits and folds the halves together (the mixing step
/// of Wang Yi's wyhash).
///
/// Unseeded, so the same input takes the same time in every run; values chosen to collide cost
/// time, never a wrong answer.
#[derive(Debug, Default)]
pub(crate) struct FoldHasher(u64);

impl FoldHasher {
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ 0xa076_1d64_78bd_642f)
            * u128::from(0xe703_7ed1_a0b4_28db_u64);
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

impl Hasher for FoldHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        let mut last = [0u8; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.mix(u64::from_le_bytes(last) ^ (bytes.len() as u64) << 56);
    }

    fn write_u8(&mut self, value: u8) {
        self.mix(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    fn write_u128(&mut self, value: u128) {
        self.mix(value as u64);
        self.mix((value >> 64) as u64);
    }

    fn write_usize(&mut self, value: usize) {
        self.mix(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.mix(value as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

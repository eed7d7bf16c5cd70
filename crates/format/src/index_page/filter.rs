//! The key hash, and the blocked Bloom filter over key hashes.
//!
//! A *split block Bloom filter* (Putze, Sanders and Singler, "Cache-, hash- and space-efficient Bloom
//! filters", 2007; the variant of Apache Parquet): a hash picks one 32-byte line and one bit in each
//! of the line's eight words, so a test touches one cache line. At 10 bits a key about 1.3 % of
//! absent keys are found.

use twox_hash::XxHash64;

/// Filter bits spent on each distinct key.
const BITS_PER_KEY: usize = 10;

pub(super) const LINE_BYTES: usize = 32;

/// Odd multipliers, one per word of a line; those of the Parquet format.
const SALTS: [u32; 8] = [
    0x47b6_137b,
    0x4497_4d91,
    0x8824_ad5b,
    0xa2b7_289d,
    0x7054_95c7,
    0x2df1_424b,
    0x9efc_4947,
    0x5c6b_fb31,
];

/// The lines of a filter over `keys` distinct keys.
pub(super) fn line_count(keys: usize) -> usize {
    (keys * BITS_PER_KEY).div_ceil(LINE_BYTES * 8)
}

/// Appends the filter over `hashes`.
pub(super) fn put_filter(hashes: &[u64], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + line_count(hashes.len()) * LINE_BYTES, 0);
    let filter = &mut out[start..];
    let lines = filter_lines(filter);
    for &hash in hashes {
        let line = &mut filter[line_range(lines, hash)];
        for (byte, bit) in bits(hash) {
            line[byte] |= bit;
        }
    }
}

/// Whether `hash` may be among those of the filter; a filter without lines knows nothing.
pub(super) fn may_contain(filter: &[u8], hash: u64) -> bool {
    if filter.is_empty() {
        return true;
    }
    let line = &filter[line_range(filter_lines(filter), hash)];
    bits(hash).all(|(byte, bit)| line[byte] & bit != 0)
}

fn filter_lines(filter: &[u8]) -> u64 {
    (filter.len() / LINE_BYTES) as u64
}

/// The upper half of the hash picks the line, by multiplication instead of division.
fn line_range(lines: u64, hash: u64) -> std::ops::Range<usize> {
    let line = (((hash >> 32) * lines) >> 32) as usize;
    line * LINE_BYTES..(line + 1) * LINE_BYTES
}

/// The lower half picks one of the 32 bits of each word: as (byte in the line, mask in the byte).
fn bits(hash: u64) -> impl Iterator<Item = (usize, u8)> {
    SALTS.iter().enumerate().map(move |(word, salt)| {
        let bit = ((hash as u32).wrapping_mul(*salt) >> 27) as usize;
        (word * 4 + bit / 8, 1 << (bit % 8))
    })
}

/// The hash of an encoded key: XXH64 with seed 0 (Collet's xxHash specification).
///
/// Filters on disk hold it, so it never changes. Costs one pass over the key.
pub fn key_hash(key: &[u8]) -> u64 {
    XxHash64::oneshot(0, key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_hash_is_xxh64_for_ever() {
        assert_eq!(key_hash(b""), 0xef46_db37_51d8_e999);
        assert_eq!(key_hash(b"a"), 0xd24e_c4f1_a98c_6e5b);
        assert_eq!(key_hash(b"abc"), 0x44bc_2cf5_ad77_0999);
        // 43 bytes: a stripe, one word and a tail.
        assert_eq!(key_hash(b"The quick brown fox jumps over the lazy dog"), 0x0b24_2d36_1fda_71bc);
    }

    #[test]
    fn a_filter_forgets_no_key_and_finds_under_2_percent_of_absent_ones() {
        for keys in [10u64, 100, 2_000, 50_000] {
            let hashes: Vec<u64> = (0..keys).map(|i| key_hash(&i.to_be_bytes())).collect();
            let mut filter = Vec::new();
            put_filter(&hashes, &mut filter);
            assert!(hashes.iter().all(|&hash| may_contain(&filter, hash)));
            let absent = (1u64 << 40..).take(100_000).map(|i| key_hash(&i.to_be_bytes()));
            let found = absent.filter(|&hash| may_contain(&filter, hash)).count();
            assert!(found < 2_000, "{found} of 100000 absent keys found among {keys}");
        }
    }
}

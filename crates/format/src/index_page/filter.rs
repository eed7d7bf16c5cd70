//! The key hash, and the blocked Bloom filter over key hashes.
//!
//! A *split block Bloom filter* (Putze, Sanders and Singler, "Cache-, hash- and space-efficient Bloom
//! filters", 2007; the variant of Apache Parquet): a hash picks one 32-byte line and one bit in each
//! of the line's eight words, so a test touches one cache line, and so one page. At 10 bits per key about 1.3 % of
//! absent keys are found.

use twox_hash::XxHash64;

use crate::error::{FormatError, Result};
use crate::page::{HEADER_BYTES, PAGE_BYTES};

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

/// The lines of one page.
const PAGE_LINES: usize = (PAGE_BYTES - HEADER_BYTES) / LINE_BYTES;

/// Where a hash is looked for in a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilterPlace {
    /// The page of the filter, counted from 0.
    pub page: usize,
    /// The line in that page.
    line: usize,
}

/// The lines of a filter over `keys` distinct keys.
pub(super) fn line_count(keys: usize) -> usize {
    (keys * BITS_PER_KEY).div_ceil(LINE_BYTES * 8)
}

/// The pages of a filter of some lines.
pub(super) fn page_count(lines: usize) -> usize {
    lines.div_ceil(PAGE_LINES)
}

/// The payloads of the pages of a filter over `hashes`.
pub(super) fn filter_pages(hashes: &[u64]) -> Vec<Vec<u8>> {
    let lines = line_count(hashes.len());
    let mut filter = vec![0; lines * LINE_BYTES];
    for &hash in hashes {
        let line = &mut filter[line_of(lines, hash) * LINE_BYTES..][..LINE_BYTES];
        for (byte, bit) in bits(hash) {
            line[byte] |= bit;
        }
    }
    filter.chunks(PAGE_LINES * LINE_BYTES).map(<[u8]>::to_vec).collect()
}

/// Where a filter of `lines` lines has the line of `hash`; `None` if it has none, and so excludes nothing.
pub(super) fn place(lines: usize, hash: u64) -> Option<FilterPlace> {
    let line = (lines > 0).then(|| line_of(lines, hash))?;
    Some(FilterPlace { page: line / PAGE_LINES, line: line % PAGE_LINES })
}

/// Whether `hash` may be among those of a filter, of which `payload` is the page that its place names. Never wrong when it
/// says no; wrong for under 2 % of absent keys when it says yes. An error if the page has no such line.
pub fn may_contain(payload: &[u8], place: FilterPlace, hash: u64) -> Result<bool> {
    let line = payload.get(place.line * LINE_BYTES..).and_then(|rest| rest.get(..LINE_BYTES));
    let malformed = || {
        let detail = format!("{} bytes have no line {}", payload.len(), place.line);
        FormatError::malformed("filter page", detail)
    };
    let line = line.ok_or_else(malformed)?;
    Ok(bits(hash).all(|(byte, bit)| line[byte] & bit != 0))
}

/// The upper half of the hash picks the line, by multiplication instead of division.
fn line_of(lines: usize, hash: u64) -> usize {
    (((hash >> 32) * lines as u64) >> 32) as usize
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
            let (filter, lines) = (filter_pages(&hashes), line_count(hashes.len()));
            assert_eq!(filter.len(), page_count(lines));
            assert!(filter.iter().all(|page| page.len() <= PAGE_BYTES - HEADER_BYTES));
            let may_contain = |hash| {
                let place = place(lines, hash).unwrap();
                may_contain(&filter[place.page], place, hash).unwrap()
            };
            assert!(hashes.iter().all(|&hash| may_contain(hash)));
            let absent = (1u64 << 40..).take(100_000).map(|i| key_hash(&i.to_be_bytes()));
            let found = absent.filter(|&hash| may_contain(hash)).count();
            assert!(found < 2_000, "{found} of 100000 absent keys found among {keys}");
        }
    }

    #[test]
    fn a_page_that_is_too_short_is_an_error_and_no_filter_excludes_nothing() {
        assert_eq!(place(0, 7), None);
        let place = place(200, u64::MAX).unwrap();
        assert_eq!((place.page, place.line), (1, 72));
        assert!(may_contain(&[0xff; 73 * LINE_BYTES], place, u64::MAX).unwrap());
        assert!(may_contain(&[0xff; 73 * LINE_BYTES - 1], place, u64::MAX).is_err());
    }
}

//! Keys by code: what the rows of one run have in their keys, each value once.
//!
//! A key with texts is long, and most of its texts occur in many rows. A run holds of each key column that is worth it the distinct
//! values, sorted, and in its keys their numbers: as few bytes as hold the greatest, the most significant first. Whole numbers and
//! times are numbered by their distance from the least. So codes compare as the values do, and so do keys of codes: what sorts,
//! merges or searches keys does the same with these, on a fifth of the bytes. Runs are put together by merging their lists of values,
//! which hashes none again. Columns whose values hardly repeat stay as they are, between the codes of others.
//!
//! (Order-preserving dictionaries: Antoshenkov, Lomet and Murray, *Order Preserving String Compression*, ICDE 1996; of integers:
//! frames of reference, Goldstein, Ramakrishnan and Shaft, ICDE 1998.)

mod worth;
mod values;
mod columns;
mod key_codes;
mod encode;
mod recoding;
#[cfg(test)]
mod tests;

pub use encode::{CodedKeys, KnownCodes, encode_keys_by_code};
pub(crate) use encode::{coded_texts, distinct_texts};
pub use key_codes::KeyCodes;
pub(crate) use key_codes::{picked_column, picked_keys};
pub(crate) use recoding::{coded_alike, settled};
pub(crate) use values::{Lookup, Values};
pub use worth::give_codes_always;
pub(crate) use worth::{Worth, worth};

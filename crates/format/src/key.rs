//! Order-preserving keys: a tuple of key columns as one byte string.
//!
//! Comparing two encoded keys bytewise is comparing the tuples: column by column, nulls first,
//! -0.0 equal to 0.0 and one NaN above all numbers. No key's column is a prefix of another's, and
//! nulls at the end of a key are dropped, so a key column added later changes no key. The bytes are
//! drawn in `docs/format.md`, section "Encoded keys".
//!
//! Encoding trusts its input (the types were accepted by `create_table`); decoding checks
//! everything. What a key means (sets, partitions, merge policies) is left to others.

#[cfg(test)]
pub(crate) mod arbitrary;
pub(crate) mod fixed;
mod keys;
mod keys_builder;
mod encoding;
mod key_writer;
mod text;
mod from_columns;
mod bound;
mod codes;
mod fences;
#[cfg(test)]
mod tests;

pub use bound::Bound;
pub(crate) use bound::compare_parts;
pub use codes::{CodedKeys, KeyCodes, KnownCodes, encode_keys_by_code, give_codes_always};
pub(crate) use codes::{
    Lookup, Values, Worth, coded_alike, coded_texts, distinct_texts, picked_column, picked_keys,
    settled, worth,
};
pub use encoding::{
    decode_column, decode_values, encode_value, has_more_columns, separator, split_column,
};
pub(crate) use encoding::{decode_picked, shared_len};
pub use fences::{KeyFences, RankSearch, search_together};
pub(crate) use from_columns::Payloads;
pub use from_columns::encode_keys;
pub use keys::{Keys, leading_word};
pub(crate) use keys_builder::KeysBuilder;

//! A place between encoded keys, where a range of keys begins or ends.

use std::cmp::Ordering;

use arrow_array::{Array, ArrayRef};
use smallvec::SmallVec;

use crate::cursor::{Cursor, put_bytes};
use crate::error::Result;
use crate::key::encoding::encode_value;

/// Bytes of the longest value in a key but strings, its tag included.
const VALUE_BYTES: usize = 17;

/// Those of a key of two or three numbers lie in the bound itself.
type BoundBytes = SmallVec<[u8; 40]>;

/// A place between encoded keys.
///
/// Along the key order [`Bound::lies_before`] is false up to the bound and true from there on, so
/// a binary search finds the first key behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    bytes: BoundBytes,
    /// Whether the bound lies behind all keys that begin with `bytes`, not before them.
    past_prefix: bool,
}

impl Bound {
    /// Before every key whose leading columns are at least these, each an array of one value.
    ///
    /// Nulls at the end say nothing, as they are the least values, and are dropped as in a key.
    pub fn before(prefix_columns: &[ArrayRef]) -> Bound {
        let kept = prefix_columns.iter().rposition(|column| !column.is_null(0));
        let kept = &prefix_columns[..kept.map_or(0, |last| last + 1)];
        Bound { bytes: encoded(kept).into(), past_prefix: false }
    }

    /// After every key whose leading columns equal these, each an array of one value.
    ///
    /// Nulls at the end count: `(a, null)` covers the keys that begin with `a` and have null next,
    /// and those that end after `a` because their nulls were dropped.
    pub fn after(prefix_columns: &[ArrayRef]) -> Bound {
        Bound { bytes: encoded(prefix_columns).into(), past_prefix: true }
    }

    /// Before the first key that is at least `key`.
    pub fn at_key(key: &[u8]) -> Bound {
        Bound { bytes: key.into(), past_prefix: false }
    }

    /// Before the first key that is greater than `key`.
    pub fn past_key(key: &[u8]) -> Bound {
        // The shortest byte string above `key`.
        let mut bytes = BoundBytes::with_capacity(key.len() + 1);
        bytes.extend_from_slice(key);
        bytes.push(0x00);
        Bound { bytes, past_prefix: false }
    }

    /// Behind all keys that begin with some bytes, or before them.
    pub(super) fn of_parts(bytes: Vec<u8>, past_prefix: bool) -> Bound {
        Bound { bytes: bytes.into(), past_prefix }
    }

    /// What [`Bound::of_parts`] makes it of.
    pub(super) fn parts(&self) -> (&[u8], bool) {
        (&self.bytes, self.past_prefix)
    }

    /// Appends it: whether it lies behind all keys with its prefix, then the prefix.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.past_prefix));
        put_bytes(out, &self.bytes);
    }

    /// Reads what [`Bound::encode`] wrote.
    pub fn decode(cursor: &mut Cursor<'_>) -> Result<Bound> {
        let past_prefix = match cursor.u8()? {
            side @ (0 | 1) => side == 1,
            other => return Err(cursor.error(format!("a bound begins with {other}"))),
        };
        Ok(Bound { bytes: cursor.bytes()?.into(), past_prefix })
    }

    /// Whether this bound lies before `key`, so that `key` is behind it.
    pub fn lies_before(&self, key: &[u8]) -> bool {
        self.within(&[]).lies_before(key)
    }

    /// The bound as it is seen by keys that all begin with `head`, so that searching them compares only
    /// what they differ in.
    pub(crate) fn within(&self, head: &[u8]) -> BoundWithin<'_> {
        match self.bytes.strip_prefix(head) {
            Some(rest) => BoundWithin::At { rest, past_prefix: self.past_prefix },
            None if self.past_prefix && head.starts_with(&self.bytes) => BoundWithin::Behind,
            None if head < self.bytes.as_slice() => BoundWithin::Behind,
            None => BoundWithin::Before,
        }
    }
}

/// The values of some columns, each an array of one, one behind the other.
fn encoded(columns: &[ArrayRef]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(VALUE_BYTES * columns.len());
    for column in columns {
        assert_eq!(column.len(), 1, "a bound is made of one value per column");
        encode_value(column, 0, &mut bytes);
    }
    bytes
}

/// Where a [`Bound`] lies among keys that begin alike.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BoundWithin<'a> {
    /// Before all of them.
    Before,
    /// Behind all of them.
    Behind,
    /// Where what is left of the keys meets what is left of the bound.
    At { rest: &'a [u8], past_prefix: bool },
}

impl BoundWithin<'_> {
    /// [`Bound::lies_before`] for the key that ends with `tail` behind what all have in common.
    pub fn lies_before(self, tail: &[u8]) -> bool {
        match self {
            BoundWithin::Before => true,
            BoundWithin::Behind => false,
            BoundWithin::At { rest, past_prefix: false } => tail >= rest,
            BoundWithin::At { rest, past_prefix: true } => tail > rest && !tail.starts_with(rest),
        }
    }
}

/// The order of places: a bound is less than another if it lies before more keys.
impl Ord for Bound {
    fn cmp(&self, other: &Bound) -> Ordering {
        match (self.past_prefix, other.past_prefix) {
            (false, false) => self.bytes.cmp(&other.bytes),
            // Behind all that begin with other's bytes lies behind self, which begins with them.
            (false, true) if self.bytes.starts_with(&other.bytes) => Ordering::Less,
            (true, false) if other.bytes.starts_with(&self.bytes) => Ordering::Greater,
            // The shorter prefix covers more.
            (true, true) if self.bytes.starts_with(&other.bytes) => {
                other.bytes.len().cmp(&self.bytes.len())
            }
            (true, true) if other.bytes.starts_with(&self.bytes) => Ordering::Greater,
            _ => self.bytes.cmp(&other.bytes),
        }
    }
}

impl PartialOrd for Bound {
    fn partial_cmp(&self, other: &Bound) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Compares `head` followed by `tail` with `other`.
pub(crate) fn compare_parts(head: &[u8], tail: &[u8], other: &[u8]) -> Ordering {
    let shared = head.len().min(other.len());
    head[..shared]
        .cmp(&other[..shared])
        .then_with(|| head.len().cmp(&shared))
        .then_with(|| tail.cmp(&other[shared..]))
}

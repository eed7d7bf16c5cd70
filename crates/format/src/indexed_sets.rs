//! Which sets are indexed: all but some, or only some.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cursor::{Cursor, put_bytes, put_varint};
use crate::error::Result;

/// The sets of a table, or of one piece of it, whose rows are listed. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedSets {
    /// What holds of every set but the exceptions.
    all: bool,
    /// Encoded values, as `key::encode_value` writes them.
    exceptions: Arc<BTreeSet<Box<[u8]>>>,
}

impl IndexedSets {
    /// Every set, also those that come up later.
    pub fn all() -> IndexedSets {
        IndexedSets { all: true, exceptions: Arc::default() }
    }

    /// No set, until some are added by [`IndexedSets::with`].
    pub fn none() -> IndexedSets {
        IndexedSets { all: false, exceptions: Arc::default() }
    }

    /// Whether every set is indexed, also those that come up later.
    pub fn is_all(&self) -> bool {
        self.all && self.exceptions.is_empty()
    }

    /// Whether no set is indexed.
    pub fn is_none(&self) -> bool {
        !self.all && self.exceptions.is_empty()
    }

    /// Whether sets are indexed unless they are among the exceptions, not only if.
    pub fn is_all_but_exceptions(&self) -> bool {
        self.all
    }

    /// The encoded values of which the opposite holds, in order.
    pub fn exceptions(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.exceptions.iter().map(AsRef::as_ref)
    }

    /// Whether a set is indexed. O(log exceptions).
    pub fn contains(&self, value: &[u8]) -> bool {
        self.all != self.exceptions.contains(value)
    }

    /// Whether every set of `other` is among these.
    pub fn cover(&self, other: &IndexedSets) -> bool {
        match other.all {
            true => self.all && self.exceptions.is_subset(&other.exceptions),
            false => other.exceptions.iter().all(|value| self.contains(value)),
        }
    }

    /// These sets and some more.
    pub fn with(&self, values: impl IntoIterator<Item = Vec<u8>>) -> IndexedSets {
        self.changed(values, true)
    }

    /// These sets without some.
    pub fn without(&self, values: impl IntoIterator<Item = Vec<u8>>) -> IndexedSets {
        self.changed(values, false)
    }

    fn changed(&self, values: impl IntoIterator<Item = Vec<u8>>, indexed: bool) -> IndexedSets {
        let mut exceptions = (*self.exceptions).clone();
        for value in values {
            match indexed == self.all {
                true => exceptions.remove(value.as_slice()),
                false => exceptions.insert(value.into()),
            };
        }
        IndexedSets { all: self.all, exceptions: exceptions.into() }
    }

    /// Appends the encoding drawn in `docs/format.md`, section "Indexed sets".
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.all));
        put_varint(out, self.exceptions.len() as u64);
        self.exceptions.iter().for_each(|value| put_bytes(out, value));
    }

    /// Reads what [`IndexedSets::encode`] wrote.
    pub fn decode(cursor: &mut Cursor<'_>) -> Result<IndexedSets> {
        let all = match cursor.u8()? {
            0 => false,
            1 => true,
            other => return Err(cursor.error(format!("flag {other} of indexed sets"))),
        };
        let mut exceptions: BTreeSet<Box<[u8]>> = BTreeSet::new();
        for _ in 0..cursor.varint()? {
            let value = cursor.bytes()?;
            if exceptions.last().is_some_and(|last| **last >= *value) {
                return Err(cursor.error("the values of indexed sets are not ascending"));
            }
            exceptions.insert(value.into());
        }
        Ok(IndexedSets { all, exceptions: exceptions.into() })
    }
}

#[cfg(test)]
pub(crate) mod arbitrary {
    use proptest::prelude::*;

    use super::*;

    /// Few different values, so that two of these have some in common.
    pub fn indexed_sets() -> impl Strategy<Value = IndexedSets> {
        let values = prop::collection::btree_set(0u8..6, 0..5);
        (any::<bool>(), values).prop_map(|(all, values)| {
            let start = if all { IndexedSets::all() } else { IndexedSets::none() };
            start.changed(values.into_iter().map(|value| vec![value]), !all)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::arbitrary::indexed_sets;
    use super::*;

    /// Every value that the strategy knows, and one that it does not.
    fn members(sets: &IndexedSets) -> Vec<u8> {
        (0..7).filter(|value| sets.contains(&[*value])).collect()
    }

    proptest! {
        #[test]
        fn they_are_what_sets_of_values_are(a in indexed_sets(), b in indexed_sets(), value in 0u8..7) {
            let (of_a, of_b) = (members(&a), members(&b));
            prop_assert_eq!(a.cover(&b), of_b.iter().all(|value| of_a.contains(value)));
            let mut more = of_a.clone();
            more.push(value);
            more.sort_unstable();
            more.dedup();
            prop_assert_eq!(members(&a.with([vec![value]])), more);
            let less: Vec<u8> = of_a.into_iter().filter(|other| *other != value).collect();
            prop_assert_eq!(members(&a.without([vec![value]])), less);
        }

        #[test]
        fn they_read_back_and_every_prefix_is_an_error(sets in indexed_sets()) {
            let mut bytes = Vec::new();
            sets.encode(&mut bytes);
            let mut cursor = Cursor::new(&bytes, "test");
            prop_assert_eq!(IndexedSets::decode(&mut cursor), Ok(sets));
            prop_assert!(cursor.is_empty());
            for len in 0..bytes.len() {
                prop_assert!(IndexedSets::decode(&mut Cursor::new(&bytes[..len], "test")).is_err());
            }
        }
    }
}

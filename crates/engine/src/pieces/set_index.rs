//! The sets of one run: for each set value the ordinals of its rows.
//!
//! One flat array of ordinals, grouped by set and ascending in each group, so that a set's length, its
//! i-th member and the rank of an ordinal cost a binary search at most.

use std::ops::Range;

use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::rows::SetCodes;

/// Set values in order, each with a slice of `ordinals`.
#[derive(Debug)]
pub struct SetIndex {
    indexed: IndexedSets,
    values: Vec<Box<[u8]>>,
    /// `starts[i]..starts[i + 1]` are the members of `values[i]`.
    starts: Vec<u32>,
    ordinals: Vec<u32>,
}

impl SetIndex {
    /// Groups the ordinals of the indexed sets. O(rows + sets log sets), by counting.
    pub fn new(codes: SetCodes, indexed: IndexedSets) -> SetIndex {
        let SetCodes { values, codes } = codes;
        let is_listed = |code: &u32| indexed.contains(&values[*code as usize]);
        let mut order: Vec<u32> = (0..values.len() as u32).filter(is_listed).collect();
        order.sort_unstable_by(|&a, &b| values[a as usize].cmp(&values[b as usize]));
        // The others come together behind those that are listed, and are cut off.
        let listed = order.len();
        let mut place_of_code = vec![listed as u32; values.len()];
        for (place, &code) in order.iter().enumerate() {
            place_of_code[code as usize] = place as u32;
        }
        let mut starts = vec![0u32; listed + 2];
        for &code in &codes {
            starts[place_of_code[code as usize] as usize + 1] += 1;
        }
        for place in 1..starts.len() {
            starts[place] += starts[place - 1];
        }
        let mut next = starts.clone();
        starts.truncate(listed + 1);
        let mut ordinals = vec![0u32; starts[listed] as usize];
        for (ordinal, &code) in codes.iter().enumerate() {
            let place = place_of_code[code as usize] as usize;
            if place < listed {
                ordinals[next[place] as usize] = ordinal as u32;
                next[place] += 1;
            }
        }
        let mut values: Vec<Option<Box<[u8]>>> = values.into_iter().map(Some).collect();
        let sorted = order
            .iter()
            .map(|&code| values[code as usize].take().expect("each code has one place"))
            .collect();
        SetIndex { indexed, values: sorted, starts, ordinals }
    }

    /// The positions of a set's members, none if no row has the value; `None` if the set is not indexed.
    /// O(log sets).
    pub fn members(&self, value: &[u8]) -> Option<Range<u32>> {
        match self.values.binary_search_by(|known| (**known).cmp(value)) {
            Ok(place) => Some(self.starts[place]..self.starts[place + 1]),
            Err(_) => self.indexed.contains(value).then_some(0..0),
        }
    }

    /// The sets that are listed.
    pub fn indexed(&self) -> &IndexedSets {
        &self.indexed
    }

    /// The ordinals at some positions; ascending inside one set's range.
    pub fn ordinals(&self, positions: &Range<u32>) -> &[u32] {
        &self.ordinals[positions.start as usize..positions.end as usize]
    }

    /// Every listed set with its number of rows, in value order.
    pub fn sets(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let rows = |place: usize| u64::from(self.starts[place + 1] - self.starts[place]);
        self.values.iter().enumerate().map(move |(place, value)| (&**value, rows(place)))
    }

    pub fn allocated_bytes(&self) -> usize {
        let values: usize = self.values.iter().map(|value| value.len()).sum();
        values
            + self.values.capacity() * size_of::<Box<[u8]>>()
            + (self.starts.capacity() + self.ordinals.capacity()) * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ordinal_is_a_member_of_its_set_only() {
        let values: Vec<Box<[u8]>> =
            vec![b"m".as_slice().into(), b"a".as_slice().into(), b"z".as_slice().into()];
        let codes = SetCodes { values, codes: vec![0, 1, 0, 2, 1, 1] };
        let index = SetIndex::new(codes.clone(), IndexedSets::all());
        let ordinals = |index: &SetIndex, value: &[u8]| {
            index.members(value).map(|members| index.ordinals(&members).to_vec())
        };
        assert_eq!(ordinals(&index, b"m"), Some(vec![0, 2]));
        assert_eq!(ordinals(&index, b"a"), Some(vec![1, 4, 5]));
        assert_eq!(ordinals(&index, b"z"), Some(vec![3]));
        assert_eq!(ordinals(&index, b"q"), Some(vec![]));
        let sets: Vec<_> = index.sets().collect();
        assert_eq!(sets, [(b"a".as_slice(), 3), (b"m".as_slice(), 2), (b"z".as_slice(), 1)]);

        let some = SetIndex::new(codes, IndexedSets::all().without([b"a".to_vec()]));
        assert_eq!(ordinals(&some, b"a"), None, "it has rows, but they are not listed");
        assert_eq!(ordinals(&some, b"m"), Some(vec![0, 2]));
        assert_eq!(ordinals(&some, b"z"), Some(vec![3]));
        assert_eq!(ordinals(&some, b"q"), Some(vec![]));
        assert!(some.allocated_bytes() < index.allocated_bytes());
    }
}

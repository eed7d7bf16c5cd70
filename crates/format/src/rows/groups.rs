//! Groups of rows with equal keys: neighbours among sorted rows, or found by hashing where keys come again and again, so that
//! fewer rows are sorted.

use std::hash::BuildHasher;

use foldhash::fast::{FixedState, RandomState};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::key::{Keys, leading_word};

/// Fewer rows are sorted in less time than it takes to guess how many keys they have.
const ROWS_MIN: usize = 512;
/// Rows that are looked at for the guess.
const SAMPLED_ROWS: usize = 256;
/// The most bytes of a key that a [`leading_word`] holds.
const WORD_BYTES: usize = 16;

/// Which group each of some rows is in.
pub struct Groups {
    of_rows: Vec<u32>,
    representatives: Vec<u32>,
}

impl Groups {
    /// Groups of neighbours, of which group `i` ends before row `ends[i]`. The last row stands for each.
    pub fn of_neighbours(ends: &[u32]) -> Groups {
        let mut of_rows = Vec::with_capacity(ends.last().map_or(0, |end| *end as usize));
        for (group, &end) in (0..).zip(ends) {
            while of_rows.len() < end as usize {
                of_rows.push(group);
            }
        }
        Groups { of_rows, representatives: ends.iter().map(|end| end - 1).collect() }
    }

    /// Rows by their keys, of rows that are sorted by them; the last row of each group stands for it. `None` if each row has another key.
    /// O(rows).
    pub fn of_sorted(keys: &Keys) -> Option<Groups> {
        let ends: Vec<u32> = match keys.width() {
            Some(width) if width <= WORD_BYTES => ends_of_equal(keys.iter().map(leading_word)),
            _ => ends_of_equal(keys.iter()),
        };
        (ends.len() < keys.len()).then(|| Groups::of_neighbours(&ends))
    }

    /// Rows by their keys, in the order of the first row of each group, which stands for it. `None` if there are fewer than four rows per key,
    /// as a few rows say: then sorting takes less time. O(rows), with one hash per row.
    pub fn by_key(keys: &Keys) -> Option<Groups> {
        match keys.width() {
            // All that is compared is one number.
            Some(width) if width <= WORD_BYTES => {
                Groups::by(keys.len(), |row| leading_word(keys.value(row)))
            }
            _ => Groups::by(keys.len(), |row| keys.value(row)),
        }
    }

    fn by<K: Eq + std::hash::Hash>(rows: usize, key: impl Fn(usize) -> K) -> Option<Groups> {
        if rows < ROWS_MIN || !come_again(rows, &key) {
            return None;
        }
        let hashes = RandomState::default();
        let hash = |row: u32| hashes.hash_one(key(row as usize));
        let mut groups = HashTable::new();
        let (mut of_rows, mut representatives) = (Vec::with_capacity(rows), Vec::new());
        for row in 0..rows as u32 {
            let own = key(row as usize);
            let is_same = |group: &u32| key(representatives[*group as usize] as usize) == own;
            let hash_of = |group: &u32| hash(representatives[*group as usize]);
            let group = match groups.entry(hashes.hash_one(&own), is_same, hash_of) {
                Entry::Occupied(group) => *group.get(),
                Entry::Vacant(place) => {
                    let group = representatives.len() as u32;
                    place.insert(group);
                    representatives.push(row);
                    group
                }
            };
            of_rows.push(group);
        }
        Some(Groups { of_rows, representatives })
    }

    /// How many groups there are.
    pub fn len(&self) -> usize {
        self.representatives.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.representatives.is_empty()
    }

    /// The group of each row.
    pub fn of_rows(&self) -> &[u32] {
        &self.of_rows
    }

    /// A row of each group.
    pub fn representatives(&self) -> &[u32] {
        &self.representatives
    }
}

/// Behind the last of neighbours that are equal.
fn ends_of_equal<K: Eq>(mut keys: impl ExactSizeIterator<Item = K>) -> Vec<u32> {
    let rows = keys.len() as u32;
    let mut ends = Vec::with_capacity(keys.len());
    let Some(mut before) = keys.next() else { return ends };
    for (row, key) in (1..).zip(keys) {
        if key != before {
            ends.push(row);
        }
        before = key;
    }
    ends.push(rows);
    ends
}

/// Whether keys seem to have four rows or more each, on average. Of `n` rows at random of `m` keys, about `n² / 2m` have a key that
/// one before them has.
fn come_again<K: Eq + std::hash::Hash>(rows: usize, key: &impl Fn(usize) -> K) -> bool {
    let sampled = SAMPLED_ROWS.min(rows / 4);
    let (places, hashes) = (FixedState::default(), RandomState::default());
    // One row at random of each of as many parts: keys may come in turn, and no row may come twice.
    let part = rows / sampled;
    let row = |number: usize| number * part + places.hash_one(number) as usize % part;
    let mut seen: Vec<u64> = (0..sampled).map(|number| hashes.hash_one(key(row(number)))).collect();
    seen.sort_unstable();
    let again = seen.windows(2).filter(|pair| pair[0] == pair[1]).count();
    again * rows >= 2 * sampled * sampled
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(rows: usize, of_row: impl Fn(usize) -> Vec<u8>) -> Keys {
        (0..rows).map(of_row).collect()
    }

    #[test]
    fn rows_of_one_key_are_one_group_whatever_keys_are_like() {
        let shapes: [fn(usize) -> Vec<u8>; 3] = [
            |key| (key as u32).to_be_bytes().to_vec(),
            |key| [&[7; 20][..], &key.to_be_bytes()].concat(),
            |key| vec![key as u8; key % 40],
        ];
        for shape in shapes {
            for distinct in [1, 2, 100, 500] {
                let keys = keys(4_000, |row| shape(row * 7_919 % distinct));
                let Some(groups) = Groups::by_key(&keys) else { panic!("{distinct} keys") };
                let representatives = groups.representatives();
                assert!(representatives.is_sorted());
                for (row, &group) in groups.of_rows().iter().enumerate() {
                    let first = representatives[group as usize] as usize;
                    assert!(first <= row && keys.value(first) == keys.value(row));
                }
                let mut values: Vec<&[u8]> = keys.iter().collect();
                values.sort_unstable();
                values.dedup();
                assert_eq!(groups.len(), values.len());
            }
        }
    }

    #[test]
    fn rows_that_have_a_key_each_and_few_rows_are_left_to_be_sorted() {
        let one_each = |rows: usize| keys(rows, |row| row.to_be_bytes().to_vec());
        for rows in [0, 1, 511, 512, 8_192, 150_000] {
            assert!(Groups::by_key(&one_each(rows)).is_none(), "{rows} rows");
        }
        assert!(Groups::by_key(&keys(511, |_| vec![1])).is_none());
        assert!(Groups::by_key(&keys(8_192, |row| vec![row as u8])).is_some());
    }

    #[test]
    fn sorted_rows_are_groups_by_where_their_keys_change() {
        for width in [0, 3, 16, 17, 40] {
            let key = |row: usize| [vec![5; width], vec![row as u8 / 3]].concat();
            let groups = Groups::of_sorted(&keys(8, key)).expect("keys come again");
            assert_eq!(groups.of_rows(), [0, 0, 0, 1, 1, 1, 2, 2]);
            assert_eq!(groups.representatives(), [2, 5, 7]);
            let one_each = |row: usize| [vec![5; width], vec![row as u8]].concat();
            assert!((0..4).all(|rows| Groups::of_sorted(&keys(rows, one_each)).is_none()));
        }
    }

    #[test]
    fn neighbours_are_groups_by_where_they_end() {
        let groups = Groups::of_neighbours(&[2, 3, 6]);
        assert_eq!(groups.of_rows(), [0, 0, 1, 2, 2, 2]);
        assert_eq!(groups.representatives(), [1, 2, 5]);
        assert!(Groups::of_neighbours(&[]).is_empty());
    }
}

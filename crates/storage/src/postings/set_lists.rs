//! Collecting the rows of each set while a segment's rows go by, and writing them as postings.

use std::hash::BuildHasher;

use drillcore_format::error::FormatError;
use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::page::PageKind;
use drillcore_format::postings::{GroupWeight, PostingsWriter, WEIGHT_GROUP};
use drillcore_format::rows::{Layout, Rows};
use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::error::Result;
use crate::pages::page_writer::PageWriter;
use crate::postings::ordinal_list::{OrdinalArena, OrdinalList};

/// The ordinals of each indexed set: a byte or two a row, and some 100 bytes and its value per set. Of each weight column what the
/// members weigh: a quarter of a byte a row, and at least 32 bytes a set.
pub struct SetLists {
    indexed: IndexedSets,
    weight_columns: usize,
    /// The numbers of sets, to be found by their values.
    numbers: HashTable<u32>,
    hasher: RandomState,
    /// All values, one after the other, ...
    values: Vec<u8>,
    /// ... and where that of each set ends.
    ends: Vec<u64>,
    /// By the set's number.
    ordinals: Vec<OrdinalList>,
    arena: OrdinalArena,
    /// By the set's number, of each group of members one for each weight column. Empty, if there is none.
    groups: Vec<Vec<GroupWeight>>,
}

/// The members of a set.
pub struct SetList<'a> {
    lists: &'a SetLists,
    number: usize,
}

impl<'a> SetList<'a> {
    pub fn len(&self) -> u64 {
        self.lists.ordinals[self.number].len()
    }

    pub fn ordinals(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.lists.ordinals[self.number].iter(&self.lists.arena)
    }

    /// What each group weighs by one weight column.
    pub fn groups(&self, weight: usize) -> impl Iterator<Item = GroupWeight> + use<'a> {
        let of_set = self.lists.groups.get(self.number).map_or(&[][..], Vec::as_slice);
        of_set.iter().copied().skip(weight).step_by(self.lists.weight_columns.max(1))
    }
}

impl SetLists {
    pub fn new(indexed: IndexedSets, layout: &Layout) -> SetLists {
        SetLists {
            indexed,
            weight_columns: layout.weight_count(),
            numbers: HashTable::new(),
            hasher: RandomState::default(),
            values: Vec::new(),
            ends: Vec::new(),
            ordinals: Vec::new(),
            arena: OrdinalArena::default(),
            groups: Vec::new(),
        }
    }

    pub fn indexed(&self) -> &IndexedSets {
        &self.indexed
    }

    /// Adds rows that follow those before. The first has the ordinal `first`; `weights` has for each weight column the units
    /// of each row.
    pub fn note(
        &mut self,
        layout: &Layout,
        rows: &Rows,
        weights: &[Vec<u64>],
        first: u64,
    ) -> std::result::Result<(), FormatError> {
        if self.indexed.is_none() {
            return Ok(());
        }
        let Some(codes) = layout.set_codes(rows)? else { return Ok(()) };
        let first = u32::try_from(first + rows.len() as u64)
            .expect("a segment has fewer than 2^32 rows")
            - rows.len() as u32;
        let numbers: Vec<Option<usize>> =
            codes.values.iter().map(|value| self.number(value)).collect();
        for (row, &code) in codes.codes.iter().enumerate() {
            if let Some(number) = numbers[code as usize] {
                if self.weight_columns > 0 {
                    self.weigh(number, weights.iter().map(|units| units[row]));
                }
                self.ordinals[number].push(&mut self.arena, first + row as u32);
            }
        }
        Ok(())
    }

    /// Adds what a member of a set weighs, before it is listed.
    fn weigh(&mut self, number: usize, units: impl Iterator<Item = u64>) {
        let groups = &mut self.groups[number];
        if self.ordinals[number].len().is_multiple_of(WEIGHT_GROUP) {
            // Most sets of a table with many have one group.
            groups.reserve_exact(self.weight_columns);
            groups.resize(groups.len() + self.weight_columns, GroupWeight::default());
        }
        let last = groups.len() - self.weight_columns;
        groups[last..].iter_mut().zip(units).for_each(|(group, units)| group.add(units));
    }

    /// The number of an indexed set, a new one if need be.
    fn number(&mut self, value: &[u8]) -> Option<usize> {
        if !self.indexed.contains(value) {
            return None;
        }
        let SetLists { numbers, hasher, values, ends, .. } = self;
        let hash = hasher.hash_one(value);
        let is_it = |number: &u32| value_at(values, ends, *number as usize) == value;
        if let Some(&number) = numbers.find(hash, is_it) {
            return Some(number as usize);
        }
        let number = ends.len();
        values.extend_from_slice(value);
        ends.push(values.len() as u64);
        let hash_of = |number: &u32| hasher.hash_one(value_at(values, ends, *number as usize));
        numbers.insert_unique(hash, number as u32, hash_of);
        self.ordinals.push(OrdinalList::default());
        if self.weight_columns > 0 {
            self.groups.push(Vec::new());
        }
        Some(number)
    }

    /// The number of sets with rows.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Each set with its members, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], SetList<'_>)> {
        let value = |number| value_at(&self.values, &self.ends, number);
        (0..self.len()).map(move |number| (value(number), SetList { lists: self, number }))
    }

    /// Writes postings, directory and its summary, whose place is returned. The segment has `rows` rows.
    pub fn write(&self, rows: u64, file: &mut PageWriter) -> Result<(u64, u32)> {
        let value = |number: u32| value_at(&self.values, &self.ends, number as usize);
        let mut numbers: Vec<u32> = (0..self.len() as u32).collect();
        numbers.sort_unstable_by_key(|&number| value(number));
        let mut writer = PostingsWriter::new(file.id(), file.position(), self.weight_columns);
        for number in numbers {
            let list = SetList { lists: self, number: number as usize };
            let weights: Vec<Vec<GroupWeight>> =
                (0..self.weight_columns).map(|weight| list.groups(weight).collect()).collect();
            let (len, all) = (list.len(), list.len() == rows);
            writer.push(value(number), list.ordinals(), len, all, &weights, file.pending());
            file.write_portion()?;
        }
        let directory = writer.finish(file.pending());
        let mut payload = Vec::new();
        directory.encode(&mut payload);
        Ok(file.put_page(PageKind::SetSummary, &payload, false))
    }
}

/// The value of a set, of all that lie one after the other.
fn value_at<'a>(values: &'a [u8], ends: &[u64], number: usize) -> &'a [u8] {
    let begin = number.checked_sub(1).map_or(0, |before| ends[before]);
    &values[begin as usize..ends[number] as usize]
}

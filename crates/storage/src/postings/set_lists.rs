//! Collecting the rows of each set while a segment's rows go by, and writing them as postings.

use std::collections::HashMap;

use drillcore_format::error::FormatError;
use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::page::PageKind;
use drillcore_format::postings::{GroupWeight, PostingsWriter, WEIGHT_GROUP};
use drillcore_format::rows::{Layout, Rows};

use crate::error::Result;
use crate::pages::page_writer::PageWriter;
use crate::postings::ordinal_list::OrdinalList;

/// The ordinals of each indexed set: about a byte or two a row. Of each weight column what the members weigh: a quarter of
/// a byte a row.
pub struct SetLists {
    indexed: IndexedSets,
    weight_columns: usize,
    numbers: HashMap<Box<[u8]>, usize>,
    /// By the set's number.
    lists: Vec<SetList>,
}

/// The members of a set.
#[derive(Default)]
pub struct SetList {
    pub ordinals: OrdinalList,
    /// Of each group of members, one for each weight column.
    groups: Vec<GroupWeight>,
}

impl SetList {
    fn push(&mut self, ordinal: u32, units: impl ExactSizeIterator<Item = u64>) {
        let columns = units.len();
        if self.ordinals.len().is_multiple_of(WEIGHT_GROUP) {
            self.groups.resize(self.groups.len() + columns, GroupWeight::default());
        }
        let last = self.groups.len() - columns;
        self.groups[last..].iter_mut().zip(units).for_each(|(group, units)| group.add(units));
        self.ordinals.push(ordinal);
    }

    /// What each group weighs by one weight column; `columns` is the number of all weight columns.
    pub fn groups(&self, weight: usize, columns: usize) -> impl Iterator<Item = GroupWeight> + '_ {
        self.groups.iter().copied().skip(weight).step_by(columns)
    }
}

impl SetLists {
    pub fn new(indexed: IndexedSets, layout: &Layout) -> SetLists {
        let weight_columns = layout.weight_count();
        SetLists { indexed, weight_columns, numbers: HashMap::new(), lists: Vec::new() }
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
            codes.values.into_iter().map(|value| self.number(value)).collect();
        for (row, &code) in codes.codes.iter().enumerate() {
            if let Some(number) = numbers[code as usize] {
                let units = weights.iter().map(|units| units[row]);
                self.lists[number].push(first + row as u32, units);
            }
        }
        Ok(())
    }

    /// The number of an indexed set, a new one if need be.
    fn number(&mut self, value: Box<[u8]>) -> Option<usize> {
        if !self.indexed.contains(&value) {
            return None;
        }
        if let Some(&number) = self.numbers.get(&value) {
            return Some(number);
        }
        self.numbers.insert(value, self.lists.len());
        self.lists.push(SetList::default());
        Some(self.lists.len() - 1)
    }

    /// The number of sets with rows.
    pub fn len(&self) -> usize {
        self.lists.len()
    }

    /// Each set with its members, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &SetList)> {
        self.numbers.iter().map(|(value, &number)| (&**value, &self.lists[number]))
    }

    /// Writes postings, directory and its summary, whose place is returned. The segment has `rows` rows.
    pub fn write(&self, rows: u64, file: &mut PageWriter) -> Result<(u64, u32)> {
        let mut lists: Vec<(&[u8], &SetList)> = self.iter().collect();
        lists.sort_unstable_by_key(|(value, _)| *value);
        let columns = self.weight_columns;
        let mut writer = PostingsWriter::new(file.id(), file.position(), columns);
        for (value, list) in lists {
            let weights: Vec<Vec<GroupWeight>> =
                (0..columns).map(|weight| list.groups(weight, columns).collect()).collect();
            let ordinals = &list.ordinals;
            let (len, all) = (ordinals.len(), ordinals.len() == rows);
            writer.push(value, ordinals.iter(), len, all, &weights, file.pending());
            file.write_portion()?;
        }
        let directory = writer.finish(file.pending());
        let mut payload = Vec::new();
        directory.encode(&mut payload);
        Ok(file.put_page(PageKind::SetSummary, &payload, false))
    }
}

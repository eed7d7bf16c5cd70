//! Collecting the rows of each set while a segment's rows go by, and writing them as postings.

use std::collections::HashMap;

use drillcore_format::error::FormatError;
use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::page::PageKind;
use drillcore_format::postings::PostingsWriter;
use drillcore_format::rows::{Layout, Rows};

use crate::error::Result;
use crate::pages::page_writer::PageWriter;
use crate::postings::ordinal_list::OrdinalList;

/// The ordinals of each indexed set: about a byte or two a row.
pub struct SetLists {
    indexed: IndexedSets,
    numbers: HashMap<Box<[u8]>, usize>,
    /// By the set's number.
    lists: Vec<OrdinalList>,
}

impl SetLists {
    pub fn new(indexed: IndexedSets) -> SetLists {
        SetLists { indexed, numbers: HashMap::new(), lists: Vec::new() }
    }

    pub fn indexed(&self) -> &IndexedSets {
        &self.indexed
    }

    /// Adds rows that follow those before. The first has the ordinal `first`.
    pub fn note(
        &mut self,
        layout: &Layout,
        rows: &Rows,
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
                self.lists[number].push(first + row as u32);
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
        self.lists.push(OrdinalList::default());
        Some(self.lists.len() - 1)
    }

    /// The number of sets with rows.
    pub fn len(&self) -> usize {
        self.lists.len()
    }

    /// Each set with its ordinals, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &OrdinalList)> {
        self.numbers.iter().map(|(value, &number)| (&**value, &self.lists[number]))
    }

    /// Writes postings, directory and its summary, whose place is returned. The segment has `rows` rows.
    pub fn write(&self, rows: u64, file: &mut PageWriter) -> Result<(u64, u32)> {
        let mut lists: Vec<(&[u8], &OrdinalList)> = self.iter().collect();
        lists.sort_unstable_by_key(|(value, _)| *value);
        let mut writer = PostingsWriter::new(file.id(), file.position());
        for (value, list) in lists {
            let all = list.len() == rows;
            writer.push(value, list.iter(), list.len(), all, file.pending());
            file.write_portion()?;
        }
        let directory = writer.finish(file.pending());
        let mut payload = Vec::new();
        directory.encode(&mut payload);
        Ok(file.put_page(PageKind::SetSummary, &payload, false))
    }
}

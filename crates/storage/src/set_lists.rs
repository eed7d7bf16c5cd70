//! Collecting the rows of each set while a segment's rows go by, and writing them as postings.

use std::collections::HashMap;

use drillcore_format::error::FormatError;
use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::page::PageKind;
use drillcore_format::postings::PostingsWriter;
use drillcore_format::rows::{Layout, Rows};

use crate::error::Result;
use crate::ordinal_list::OrdinalList;
use crate::page_writer::PageWriter;

/// The ordinals of each indexed set: about a byte or two a row.
pub struct SetLists {
    indexed: IndexedSets,
    lists: HashMap<Box<[u8]>, OrdinalList>,
}

impl SetLists {
    pub fn new(indexed: IndexedSets) -> SetLists {
        SetLists { indexed, lists: HashMap::new() }
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
        let mut of_code: Vec<Option<Vec<u32>>> =
            codes.values.iter().map(|value| self.indexed.contains(value).then(Vec::new)).collect();
        for (row, &code) in codes.codes.iter().enumerate() {
            if let Some(ordinals) = &mut of_code[code as usize] {
                ordinals.push(first + row as u32);
            }
        }
        for (value, ordinals) in codes.values.into_iter().zip(of_code) {
            if let Some(ordinals) = ordinals {
                self.lists.entry(value).or_default().extend(&ordinals);
            }
        }
        Ok(())
    }

    /// The number of sets with rows.
    pub fn len(&self) -> usize {
        self.lists.len()
    }

    /// Each set with its ordinals, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &OrdinalList)> {
        self.lists.iter().map(|(value, list)| (&**value, list))
    }

    /// Writes postings, directory and its summary, whose place is returned. The segment has `rows` rows.
    pub fn write(self, rows: u64, file: &mut PageWriter) -> Result<(u64, u32)> {
        let mut lists: Vec<(Box<[u8]>, OrdinalList)> = self.lists.into_iter().collect();
        lists.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut writer = PostingsWriter::new(file.id(), file.position());
        for (value, list) in lists {
            let all = list.len() == rows;
            writer.push(&value, list.iter(), list.len(), all, file.pending());
            file.write_portion()?;
        }
        let directory = writer.finish(file.pending());
        let mut payload = Vec::new();
        directory.encode(&mut payload);
        Ok(file.put_page(PageKind::SetSummary, &payload, false))
    }
}

//! Writing the column streams of a segment, a group of rows at a time.
//!
//! Which columns become streams is judged by group, from sizes that are known by then: a text with too many values has no
//! page there. Where no column outside the key has a page, as in a table of keys and long values, no column has: who
//! reads such rows reads blocks.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_select::concat::concat;
use drillcore_format::byte_bounds;
use drillcore_format::page::PageKind;
use drillcore_format::rows::{Layout, Rows};
use drillcore_format::streams::dictionary::DictionaryBuilder;
use drillcore_format::streams::directory::{Stream, StreamColumn, StreamDirectory};
use drillcore_format::streams::group::group_rows;
use drillcore_format::streams::page::{is_streamable, put_codes, put_values};

use crate::pages::page_writer::PageWriter;

/// Of so many rows of a group, one may have a string that no row before it had ...
const FRESH_SHARE: usize = 4;
/// ... and so many may in any group.
const FRESH_MIN: usize = 256;

/// The streams of a segment under construction.
pub struct StreamsWriter {
    columns: Vec<ColumnWriter>,
    group_rows: u64,
    /// Rows of the group under construction.
    rows: usize,
    /// Payloads of whole groups that have no place yet, one for each column that has a page.
    waiting: Vec<Vec<Option<Vec<u8>>>>,
    groups: Vec<u64>,
}

struct ColumnWriter {
    column: StreamColumn,
    /// Whether it is what the table is kept for: no key, and nothing hidden.
    is_shown_value: bool,
    parts: Vec<ArrayRef>,
    /// Of texts.
    dictionary: Option<DictionaryBuilder>,
    /// Of texts: bytes of `parts`, which are dropped once they are more than are read at once.
    string_bytes: usize,
    page_bytes: Vec<u32>,
}

impl StreamsWriter {
    pub fn new(layout: &Layout) -> StreamsWriter {
        let keys = layout.key_types().iter().enumerate();
        let keys = keys.map(|(at, of)| (StreamColumn::Key(at as u32), of, false));
        let hidden = layout.hidden_values();
        let values = layout.value_types().iter().enumerate();
        let values = values.map(|(at, of)| (StreamColumn::Value(at as u32), of, at >= hidden));
        let columns = keys.chain(values).filter(|(_, data_type, _)| is_streamable(data_type));
        let mut columns: Vec<ColumnWriter> = columns
            .map(|(column, data_type, is_shown_value)| ColumnWriter {
                column,
                is_shown_value,
                parts: Vec::new(),
                dictionary: data_type.is_string().then(DictionaryBuilder::default),
                string_bytes: 0,
                page_bytes: Vec::new(),
            })
            .collect();
        columns.sort_by_key(|column| column.column.number());
        let has_shown_values = hidden < layout.value_types().len();
        if has_shown_values && !columns.iter().any(|column| column.is_shown_value) {
            columns.clear();
        }
        let group_rows = group_rows(layout);
        StreamsWriter { columns, group_rows, rows: 0, waiting: Vec::new(), groups: Vec::new() }
    }

    /// Adds rows that follow those before them, with the columns of their table as they are stored.
    pub fn append(&mut self, layout: &Layout, rows: &Rows, columns: &[ArrayRef]) {
        let mut from = 0;
        while from < rows.len() && !self.columns.is_empty() {
            let len = (rows.len() - from).min(self.group_rows as usize - self.rows);
            for writer in &mut self.columns {
                writer.push(match writer.column {
                    StreamColumn::Key(position) => {
                        columns[layout.schema().key[position as usize]].slice(from, len)
                    }
                    StreamColumn::Value(index) => rows.value(index as usize).slice(from, len),
                });
            }
            self.rows += len;
            from += len;
            if self.rows == self.group_rows as usize {
                self.end_group();
            }
        }
    }

    /// Encodes the group, whose pages then wait for a place.
    fn end_group(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        let mut has_shown_values = !self.columns.iter().any(|column| column.is_shown_value);
        let mut pages = Vec::with_capacity(self.columns.len());
        for writer in &mut self.columns {
            let page = writer.take_page(rows);
            has_shown_values |= writer.is_shown_value && page.is_some();
            pages.push(page);
        }
        if !has_shown_values {
            pages.fill(None);
        }
        self.waiting.push(pages);
    }

    /// Adds the pages of whole groups to the file.
    pub fn put_whole_groups(&mut self, file: &mut PageWriter) {
        for pages in self.waiting.drain(..) {
            self.groups.push(file.position());
            let last = pages.iter().rposition(Option::is_some);
            for (at, (writer, page)) in self.columns.iter_mut().zip(pages).enumerate() {
                // Behind the last page of a group, blocks go on.
                let put =
                    |page: Vec<u8>| file.put_page(PageKind::Stream, &page, last == Some(at)).1;
                writer.page_bytes.push(page.map_or(0, put));
            }
        }
    }

    /// Adds what is left, the dictionaries and the directory; gives its place if there is any stream.
    pub fn finish(&mut self, file: &mut PageWriter) -> Option<(u64, u32)> {
        if self.rows > 0 {
            self.end_group();
        }
        self.put_whole_groups(file);
        let mut streams = Vec::with_capacity(self.columns.len());
        for ColumnWriter { column, dictionary, page_bytes, .. } in self.columns.drain(..) {
            if page_bytes.iter().all(|&bytes| bytes == 0) {
                continue;
            }
            let dictionary = dictionary.map(|dictionary| {
                let mut payload = Vec::new();
                dictionary.encode(&mut payload);
                file.put_page(PageKind::Dictionary, &payload, false)
            });
            streams.push(Stream { column, dictionary, page_bytes });
        }
        if streams.is_empty() {
            return None;
        }
        let mut payload = Vec::new();
        let groups = std::mem::take(&mut self.groups);
        StreamDirectory { group_rows: self.group_rows, groups, streams }.encode(&mut payload);
        Some(file.put_page(PageKind::StreamDirectory, &payload, true))
    }
}

impl ColumnWriter {
    fn push(&mut self, part: ArrayRef) {
        if let Some(texts) = part.as_string_opt::<i32>() {
            let offsets = texts.value_offsets();
            self.string_bytes += (offsets[texts.len()] - offsets[0]) as usize;
            if self.string_bytes > byte_bounds::chunk() {
                self.parts.clear();
                return;
            }
        }
        self.parts.push(part);
    }

    /// The page of what was collected; `None` if it is not worth one.
    fn take_page(&mut self, rows: usize) -> Option<Vec<u8>> {
        let parts = std::mem::take(&mut self.parts);
        if std::mem::take(&mut self.string_bytes) > byte_bounds::chunk() {
            return None;
        }
        let parts: Vec<&dyn Array> = parts.iter().map(|part| part.as_ref()).collect();
        let column = concat(&parts).expect("parts of one column, whose strings fit an array");
        let mut page = Vec::new();
        match &mut self.dictionary {
            None => put_values(&column, &mut page),
            Some(dictionary) => {
                let texts = column.as_string::<i32>();
                let fresh_max = (rows / FRESH_SHARE).max(FRESH_MIN);
                let codes = dictionary.codes(texts.iter().flatten(), fresh_max)?;
                put_codes(texts, codes, &mut page);
            }
        }
        Some(page)
    }
}

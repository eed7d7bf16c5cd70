//! Writing the column streams of a segment, a group of rows at a time.
//!
//! Which columns become streams is judged by group, from sizes that are known by then: a text with too many values has no
//! page there. Where no column outside the key has a page, as in a table of keys and long values, no column has: who
//! reads such rows reads blocks.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use arrow_select::concat::concat;
use drillcore_format::byte_bounds;
use drillcore_format::dictionary::{DictionaryBuilder, encode_dictionary};
use drillcore_format::page::PageKind;
use drillcore_format::rows::{Layout, Rows};
use drillcore_format::schema::Streams;
use drillcore_format::streams::directory::{Stream, StreamColumn, StreamDirectory};
use drillcore_format::streams::group::group_rows;
use drillcore_format::streams::page::{is_streamable, put_codes, put_values};
use drillcore_format::symbol_table::StringCompressor;

use crate::pages::page_writer::PageWriter;

/// Half of the rows that come together may have a text that no row before them had ...
const FRESH_SHARE: usize = 2;
/// ... and 256 may in any case.
const FRESH_MIN: usize = 256;
/// Columns whose strings are compressed, at most: each takes some 170 KB until the segment is written.
const COMPRESSED_COLUMNS_MAX: usize = 64;

/// The streams of a segment under construction.
pub struct StreamsWriter {
    columns: Vec<ColumnWriter>,
    /// Whether sizes decide which columns are streams.
    is_by_size: bool,
    group_rows: u64,
    /// Rows of the group under construction.
    rows: usize,
    /// Payloads of whole groups that have no place yet, one for each column that has a page.
    waiting: Vec<Vec<Option<Vec<u8>>>>,
    groups: Vec<u64>,
}

struct ColumnWriter {
    column: StreamColumn,
    /// If not, only what blocks hold of its strings is wanted of it.
    has_pages: bool,
    /// Whether it is what the table is kept for: no key, and nothing hidden.
    is_shown_value: bool,
    parts: Vec<ArrayRef>,
    /// Of texts.
    dictionary: Option<DictionaryBuilder>,
    /// Of strings outside the key.
    compressor: StringCompressor,
    /// Of texts, of the rows in `parts`; `None` once some came together that got no codes.
    codes: Option<Vec<u32>>,
    /// How many texts these were that never came before; `usize::MAX` if the group cannot have codes at all.
    fresh: usize,
    string_bytes: usize,
    string_bytes_max: usize,
    page_bytes: Vec<u32>,
}

/// The place of a page in a file: offset and bytes.
type PagePlace = (u64, u32);

/// What the blocks of some rows have in place of strings: for each value, their codes or the compressed ones, if they have either.
pub struct StringsOfBlocks {
    pub codes: Vec<Option<Vec<u32>>>,
    pub compressed: Vec<Option<ArrayRef>>,
}

impl StringsOfBlocks {
    fn of(values: usize) -> StringsOfBlocks {
        StringsOfBlocks { codes: vec![None; values], compressed: vec![None; values] }
    }
}

impl StreamsWriter {
    pub fn new(layout: &Layout) -> StreamsWriter {
        let schema = layout.schema();
        let is_wanted = |column: Option<usize>| match (&schema.streams, column) {
            (Streams::BySize, _) => true,
            (Streams::Only(wanted), Some(column)) => wanted.contains(&column),
            // What is hidden serves the columns that are shown.
            (Streams::Only(wanted), None) => !wanted.is_empty(),
        };
        let column_of = |column: StreamColumn| match column {
            StreamColumn::Key(position) => Some(schema.key[position as usize]),
            StreamColumn::Value(index) => layout.column_of_value(index as usize),
        };
        let keys = layout.key_types().iter().enumerate();
        let keys = keys.map(|(at, of)| (StreamColumn::Key(at as u32), of, false));
        let hidden = layout.hidden_values();
        let values = layout.value_types().iter().enumerate();
        let values = values.map(|(at, of)| (StreamColumn::Value(at as u32), of, at >= hidden));
        let columns = keys.chain(values).filter_map(|(column, data_type, is_shown_value)| {
            let has_pages = is_streamable(data_type) && is_wanted(column_of(column));
            let is_string = matches!(data_type, DataType::Utf8 | DataType::Binary);
            let is_string_of_blocks = is_string && matches!(column, StreamColumn::Value(_));
            let is_shown_value = is_shown_value && has_pages;
            (has_pages || is_string_of_blocks).then_some((
                column,
                data_type,
                is_shown_value,
                has_pages,
            ))
        });
        let mut columns: Vec<ColumnWriter> = columns
            .map(|(column, data_type, is_shown_value, has_pages)| ColumnWriter {
                column,
                has_pages,
                is_shown_value,
                parts: Vec::new(),
                dictionary: data_type.is_string().then(DictionaryBuilder::default),
                compressor: StringCompressor::default(),
                codes: Some(Vec::new()),
                fresh: 0,
                string_bytes: 0,
                string_bytes_max: 0,
                page_bytes: Vec::new(),
            })
            .collect();
        columns.sort_by_key(|column| column.column.number());
        // Texts of a group are held until it is whole, and those of one column are read at once.
        let texts = columns.iter().filter(|column| column.dictionary.is_some()).count().max(1);
        let string_bytes_max = byte_bounds::chunk().min(byte_bounds::batch() / texts);
        columns.iter_mut().for_each(|column| column.string_bytes_max = string_bytes_max);
        let has_shown_values = hidden < layout.value_types().len();
        let is_by_size = schema.streams == Streams::BySize;
        if is_by_size && has_shown_values && !columns.iter().any(|column| column.is_shown_value) {
            columns.retain(|column| !column.has_pages);
        }
        let group_rows = group_rows(layout);
        StreamsWriter {
            columns,
            is_by_size,
            group_rows,
            rows: 0,
            waiting: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// Adds rows that follow those before them, with the columns of their table as they are stored. Gives what the blocks of
    /// these rows have in place of strings outside the key.
    pub fn append(
        &mut self,
        layout: &Layout,
        rows: &Rows,
        columns: &[ArrayRef],
    ) -> StringsOfBlocks {
        let arrays: Vec<&ArrayRef> = (self.columns.iter())
            .map(|writer| match writer.column {
                StreamColumn::Key(at) => &columns[layout.schema().key[at as usize]],
                StreamColumn::Value(index) => rows.value(index as usize),
            })
            .collect();
        let codes: Vec<Option<Vec<u32>>> = self
            .columns
            .iter_mut()
            .zip(&arrays)
            .map(|(writer, array)| writer.codes(array))
            .collect();
        let mut from = 0;
        while from < rows.len() && !self.columns.is_empty() {
            let len = (rows.len() - from).min(self.group_rows as usize - self.rows);
            for ((writer, array), codes) in self.columns.iter_mut().zip(&arrays).zip(&codes) {
                writer.push(
                    array.slice(from, len),
                    codes.as_ref().map(|codes| &codes[from..from + len]),
                );
            }
            self.rows += len;
            from += len;
            if self.rows == self.group_rows as usize {
                self.end_group();
            }
        }
        let has_table = |writer: &&ColumnWriter| writer.compressor.table().is_some();
        let mut trained = self.columns.iter().filter(has_table).count();
        let mut strings = StringsOfBlocks::of(layout.value_types().len());
        for ((writer, array), codes) in self.columns.iter_mut().zip(arrays).zip(codes) {
            let StreamColumn::Value(index) = writer.column else { continue };
            if codes.is_none() && matches!(array.data_type(), DataType::Utf8 | DataType::Binary) {
                let may_train = trained < COMPRESSED_COLUMNS_MAX;
                let was_trained = writer.compressor.table().is_some();
                strings.compressed[index as usize] = writer.compressor.compress(array, may_train);
                trained += usize::from(!was_trained && writer.compressor.table().is_some());
            }
            strings.codes[index as usize] = codes;
        }
        strings
    }

    /// Encodes the group, whose pages then wait for a place.
    fn end_group(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        let mut has_shown_values =
            !self.is_by_size || !self.columns.iter().any(|column| column.is_shown_value);
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

    /// Adds what is left, the dictionaries and the directory. Gives the place of the directory, if there are any streams, and
    /// those of the dictionaries.
    pub fn finish(
        &mut self,
        file: &mut PageWriter,
    ) -> (Option<PagePlace>, Vec<(StreamColumn, PagePlace)>) {
        if self.rows > 0 {
            self.end_group();
        }
        self.put_whole_groups(file);
        let (mut streams, mut dictionaries) = (Vec::new(), Vec::new());
        for ColumnWriter { column, dictionary, compressor, page_bytes, .. } in
            self.columns.drain(..)
        {
            if let Some(payload) = encode_dictionary(dictionary.as_ref(), &compressor) {
                dictionaries.push((column, file.put_page(PageKind::Dictionary, &payload, true)));
            }
            if page_bytes.iter().any(|&bytes| bytes > 0) {
                streams.push(Stream { column, page_bytes });
            }
        }
        if streams.is_empty() {
            return (None, dictionaries);
        }
        let (group_rows, groups) = (self.group_rows, std::mem::take(&mut self.groups));
        let mut payload = Vec::new();
        StreamDirectory { group_rows, groups, streams }.encode(&mut payload);
        (Some(file.put_page(PageKind::StreamDirectory, &payload, true)), dictionaries)
    }
}

impl ColumnWriter {
    /// The codes of texts, if all have one.
    fn codes(&mut self, array: &ArrayRef) -> Option<Vec<u32>> {
        let fresh_max = (array.len() / FRESH_SHARE).max(FRESH_MIN);
        match self.dictionary.as_mut()?.codes(array.as_string::<i32>(), fresh_max) {
            Ok(codes) => Some(codes),
            Err(fresh) => {
                self.fresh = self.fresh.saturating_add(fresh);
                None
            }
        }
    }

    fn push(&mut self, part: ArrayRef, codes: Option<&[u32]>) {
        if !self.has_pages {
            return;
        }
        if let Some(texts) = part.as_string_opt::<i32>() {
            let offsets = texts.value_offsets();
            self.string_bytes += (offsets[texts.len()] - offsets[0]) as usize;
            if self.string_bytes > self.string_bytes_max {
                self.fresh = usize::MAX;
                self.parts.clear();
                return;
            }
            match (&mut self.codes, codes) {
                (Some(all), Some(codes)) => all.extend_from_slice(codes),
                (known, _) => *known = None,
            }
        }
        self.parts.push(part);
    }

    /// The page of what was collected; `None` if it has none.
    fn take_page(&mut self, rows: usize) -> Option<Vec<u8>> {
        let parts = std::mem::take(&mut self.parts);
        self.string_bytes = 0;
        let (codes, fresh) = (self.codes.replace(Vec::new()), std::mem::take(&mut self.fresh));
        if !self.has_pages || fresh > rows / FRESH_SHARE {
            return None;
        }
        let parts: Vec<&dyn Array> = parts.iter().map(|part| part.as_ref()).collect();
        let column = concat(&parts).expect("parts of one column, whose strings fit an array");
        let mut page = Vec::new();
        match &mut self.dictionary {
            None => put_values(&column, &mut page),
            Some(dictionary) => {
                let texts = column.as_string::<i32>();
                // Seen together, texts come again that did not among fewer rows.
                let codes = codes.map_or_else(|| dictionary.codes(texts, usize::MAX), Ok);
                put_codes(texts, &codes.ok()?, &mut page);
            }
        }
        Some(page)
    }
}

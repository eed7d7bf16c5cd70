//! Columns of segments by their ordinals, from streams: what a scan reads that asks for some columns of many rows.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, new_null_array};
use arrow_schema::DataType;
use drillcore_format::dictionary::Dictionary;
use drillcore_format::error::FormatError;
use drillcore_format::page::PageKind;
use drillcore_format::rows::{Projection, Rows};
use drillcore_format::streams::directory::{Stream, StreamColumn, StreamDirectory};
use drillcore_format::streams::page::StreamView;
use drillcore_format::widening::widen;

use crate::error::{Result, StorageError};
use crate::pages::paged_file::PageRequest;
use crate::segments::segment::Segment;

/// Bytes of a directory of streams that stays in memory: of some dozen columns of a hundred million rows.
const DIRECTORY_HELD_MAX: usize = 1 << 20;

/// Reads some columns of a segment in sequence, a group of rows at a time.
pub struct ColumnReader {
    segment: Arc<Segment>,
    directory: Arc<StreamDirectory>,
    /// Positions in the key of the columns wanted of it; their streams come first.
    key_positions: Vec<usize>,
    columns: Vec<Column>,
    /// The group that was read last: its number and the payloads of its pages, one for each stream wanted.
    group: Option<(usize, Vec<Arc<[u8]>>)>,
}

struct Column {
    /// As it is stored.
    data_type: DataType,
    /// As it is wanted.
    wanted: DataType,
    /// `None` of a column that was added after the segment was written: it is null.
    stream: Option<usize>,
    /// Of texts.
    dictionary: Option<Arc<Dictionary>>,
}

impl ColumnReader {
    /// Prepares to read columns of the key, by their positions there, and values. `None` if not all of them are streams.
    ///
    /// One page, and one for each column of texts.
    pub fn open(
        segment: Arc<Segment>,
        key: &[(usize, DataType)],
        projection: &Projection,
    ) -> Result<Option<ColumnReader>> {
        let Some(directory) = segment.stream_directory()? else { return Ok(None) };
        let key_columns =
            key.iter().map(|(at, of)| (StreamColumn::Key(*at as u32), of, segment.key_columns()));
        let values = projection.values.iter().zip(&projection.types);
        let values =
            values.map(|(at, of)| (StreamColumn::Value(*at as u32), of, segment.value_columns()));
        let mut columns = Vec::new();
        for (mut column, wanted, known) in key_columns.chain(values) {
            let mut data_type = wanted;
            if let StreamColumn::Value(at) = column
                && at as usize >= known
                && let Some((at, narrow)) =
                    projection.earlier(at as usize).find(|(at, _)| *at < known)
            {
                (column, data_type) = (StreamColumn::Value(at as u32), narrow);
            }
            let (StreamColumn::Key(at) | StreamColumn::Value(at)) = column;
            let stream = match directory.stream_of(column) {
                // It stores no column any more.
                _ if *wanted == DataType::Null => None,
                None if (at as usize) < known => return Ok(None),
                stream => stream,
            };
            let known = &segment.footer.dictionaries;
            let number = known.iter().position(|(of, _)| *of == column && stream.is_some());
            let dictionary = number.map(|number| segment.dictionary(number)).transpose()?;
            let (data_type, wanted) = (data_type.clone(), wanted.clone());
            columns.push(Column { data_type, wanted, stream, dictionary });
        }
        let key_positions = key.iter().map(|(at, _)| *at).collect();
        Ok(Some(ColumnReader { segment, directory, key_positions, columns, group: None }))
    }

    /// A reader for each stream by itself, of what it is.
    ///
    /// # Errors
    /// `Inconsistent` if a stream is of no column.
    pub(crate) fn of_each_stream(
        segment: &Arc<Segment>,
    ) -> Result<Vec<(StreamColumn, ColumnReader)>> {
        let Some(directory) = segment.stream_directory()? else { return Ok(Vec::new()) };
        let layout = segment.layout();
        let reader = |Stream { column, .. }: &Stream| {
            let (key, values) = match *column {
                StreamColumn::Key(at) => {
                    let of = layout.key_types().get(at as usize).cloned();
                    (of.map(|of| (at as usize, of)), Vec::new())
                }
                StreamColumn::Value(at) => {
                    let is_known = (at as usize) < layout.value_types().len();
                    (None, is_known.then_some(at as usize).into_iter().collect())
                }
            };
            if key.is_none() && values.is_empty() {
                return Err(segment.inconsistent(format!("a stream is of {column:?}")));
            }
            let (key, values) = (Vec::from_iter(key), layout.stored(false, values));
            let reader = ColumnReader::open(segment.clone(), &key, &values)?;
            Ok((*column, reader.expect("the directory has its stream")))
        };
        // What stores no column any more, or a narrower one, is not read by itself.
        let types = layout.value_types();
        let is_retired = |stream: &&Stream| match stream.column {
            StreamColumn::Value(at) => types.get(at as usize) == Some(&DataType::Null),
            StreamColumn::Key(_) => false,
        };
        directory.streams.iter().filter(|stream| !is_retired(stream)).map(reader).collect()
    }

    /// Rows of a group, a power of two; the last group may have fewer.
    pub fn group_rows(&self) -> u64 {
        self.directory.group_rows
    }

    /// Where the group of an ordinal ends, unless the segment does so before.
    pub fn group_end(&self, ordinal: u64) -> u64 {
        (ordinal / self.group_rows() + 1) * self.group_rows()
    }

    /// Whether the group of an ordinal is the one that was read last: to read more of it costs no reads.
    pub fn is_in_hand(&self, ordinal: u64) -> bool {
        self.group.as_ref().is_some_and(|(group, _)| *group as u64 == ordinal / self.group_rows())
    }

    /// The columns of some rows, all of one group; `None` if a column has no page there. The first call for a group reads
    /// its pages; the cache keeps them while it has room.
    pub fn read(&mut self, ordinals: Range<u64>) -> Result<Option<Rows>> {
        let Some((group, rows)) = self.load(&ordinals)? else { return Ok(None) };
        let (_, pages) = self.group.as_ref().expect("it was just read");
        let mut pages = pages.iter();
        let mut arrays = Vec::with_capacity(self.columns.len());
        for Column { data_type, wanted, stream, dictionary } in &self.columns {
            let Some(stream) = *stream else {
                arrays.push(new_null_array(wanted, rows.len()));
                continue;
            };
            let page = pages.next().expect("each stream has a page here");
            let texts = dictionary.as_ref().map(|dictionary| dictionary.texts());
            let decoded = self
                .view(page, group, data_type)
                .and_then(|view| view.decode(rows.start, rows.end, data_type, texts));
            let decoded = decoded.map_err(|error| self.damaged(stream, group, error))?;
            arrays.push(widen(&decoded, wanted));
        }
        let values = arrays.split_off(self.key_positions.len());
        let key_columns: Vec<(usize, ArrayRef)> =
            self.key_positions.iter().copied().zip(arrays).collect();
        Ok(Some(Rows::of_columns(rows.len(), key_columns, values)))
    }

    /// The texts of the only column, if it is a stream of which some have codes.
    pub fn dictionary(&self) -> Option<&Arc<Dictionary>> {
        match self.columns.as_slice() {
            [Column { stream: Some(_), dictionary, .. }] => {
                dictionary.as_ref().filter(|dictionary| !dictionary.texts().is_empty())
            }
            _ => None,
        }
    }

    /// The codes of the only column, which is of texts, as [`ColumnReader::read`] has them: `each` gets the first ordinal of some
    /// rows, their codes into the dictionary, and whether a row has none. False if the column has no page there.
    pub fn for_each_code(
        &mut self,
        ordinals: Range<u64>,
        mut each: impl FnMut(u64, &[u64], &dyn Fn(usize) -> bool),
    ) -> Result<bool> {
        let Some((group, rows)) = self.load(&ordinals)? else { return Ok(false) };
        let (_, pages) = self.group.as_ref().expect("it was just read");
        let Column { data_type, stream, dictionary, .. } = &self.columns[0];
        let entries = dictionary.as_ref().map_or(0, |dictionary| dictionary.texts().len() as u64);
        let first = ordinals.start - rows.start as u64;
        let codes = self.view(&pages[0], group, data_type).and_then(|view| {
            let (mut unknown, last) = (None, entries.wrapping_sub(1));
            view.for_each_code(rows.start, rows.end, |row, codes| {
                // The upper bit is set by a code that is negative, or above the last: looked at for all codes together, without a
                // comparison of each.
                let sign = |bits: u64, code: &u64| bits | code | last.wrapping_sub(*code);
                if codes.iter().fold(0, sign) >> 63 != 0 {
                    unknown = unknown.or(codes.iter().copied().find(|&code| code >= entries));
                }
                if unknown.is_none() {
                    let is_null = |at: usize| view.has_nulls() && view.is_null(row + at);
                    each(first + row as u64, codes, &is_null);
                }
            })?;
            match unknown {
                Some(code) => {
                    let detail = format!("code {code} in a dictionary of {entries}");
                    Err(FormatError::malformed("stream page", detail))
                }
                None => Ok(()),
            }
        });
        codes.map_err(|error| self.damaged(stream.unwrap_or(0), group, error))?;
        Ok(true)
    }

    /// Calls `each` with those of some ordinals whose text has one of some codes, as [`ColumnReader::for_each_code`] has them, and with
    /// its code; they need not be unpacked for that. False if the column has no page there.
    pub fn find_codes(
        &mut self,
        ordinals: Range<u64>,
        sought: &[u64],
        mut each: impl FnMut(u64, u64),
    ) -> Result<bool> {
        let Some((group, rows)) = self.load(&ordinals)? else { return Ok(false) };
        let (_, pages) = self.group.as_ref().expect("it was just read");
        let Column { data_type, stream, .. } = &self.columns[0];
        let first = ordinals.start - rows.start as u64;
        self.view(&pages[0], group, data_type)
            .and_then(|view| {
                sought.iter().try_for_each(|&code| {
                    view.find_code(rows.start, rows.end, code, |row| {
                        each(first + row as u64, code);
                    })
                })
            })
            .map_err(|error| self.damaged(stream.unwrap_or(0), group, error))?;
        Ok(true)
    }

    /// Reads the pages of the group that the ordinals lie in, unless they are in hand; gives it and the rows in it.
    fn load(&mut self, ordinals: &Range<u64>) -> Result<Option<(usize, Range<usize>)>> {
        let group = (ordinals.start / self.group_rows()) as usize;
        let first = group as u64 * self.group_rows();
        let end = first + self.rows_of_group(group);
        assert!(ordinals.start < ordinals.end && ordinals.end <= end);
        if !self.is_in_hand(ordinals.start) {
            self.group = None;
            let Some(pages) = self.read_group(group)? else { return Ok(None) };
            self.group = Some((group, pages));
        }
        Ok(Some((group, (ordinals.start - first) as usize..(ordinals.end - first) as usize)))
    }

    fn rows_of_group(&self, group: usize) -> u64 {
        self.group_rows().min(self.segment.rows() - group as u64 * self.group_rows())
    }

    fn view<'p>(
        &self,
        page: &'p [u8],
        group: usize,
        data_type: &DataType,
    ) -> std::result::Result<StreamView<'p>, FormatError> {
        let view = StreamView::parse(page, data_type)?;
        let expected = self.rows_of_group(group);
        if view.rows() as u64 != expected {
            let detail = format!("{} rows of {expected}", view.rows());
            return Err(FormatError::malformed("stream page", detail));
        }
        Ok(view)
    }

    fn damaged(&self, stream: usize, group: usize, error: FormatError) -> StorageError {
        let offset = self.directory.page(stream, group).map_or(0, |(offset, _)| offset);
        self.segment.damaged(offset, error)
    }

    /// The payloads of the pages of a group; `None` if a column has none there.
    fn read_group(&self, group: usize) -> Result<Option<Vec<Arc<[u8]>>>> {
        let streams = self.columns.iter().filter_map(|column| column.stream);
        let places = streams.map(|stream| self.directory.page(stream, group));
        let Some(places) = places.collect::<Option<Vec<(u64, u32)>>>() else { return Ok(None) };
        let requests: Vec<PageRequest<'_>> = places
            .into_iter()
            .map(|place| self.segment.stream_request(place, PageKind::Stream))
            .collect();
        let pages = self.segment.cache().payloads_if_room(&requests);
        pages.into_iter().collect::<Result<_>>().map(Some)
    }
}

impl Segment {
    /// The directory of the streams, if there are any. Once it was asked for, it stays, unless it is long.
    fn stream_directory(&self) -> Result<Option<Arc<StreamDirectory>>> {
        let Some(place) = self.footer.streams else { return Ok(None) };
        if let Some(known) = self.streams.get() {
            return Ok(Some(known.clone()));
        }
        let payload =
            self.cache().payload(self.stream_request(place, PageKind::StreamDirectory))?;
        let decoded = StreamDirectory::decode(&payload, self.rows());
        let decoded = Arc::new(decoded.map_err(|error| self.damaged(place.0, error))?);
        if decoded.allocated_bytes() <= DIRECTORY_HELD_MAX {
            let _ = self.streams.set(decoded.clone());
        }
        Ok(Some(decoded))
    }

    /// How many columns the key had when the segment was written.
    fn key_columns(&self) -> usize {
        let schema = self.layout().schema();
        let number = |column: &&usize| schema.stored.number(**column);
        schema.key.iter().filter(|column| number(column) < self.footer.columns as usize).count()
    }

    /// How many values the rows had when the segment was written.
    fn value_columns(&self) -> usize {
        self.layout().values_before(self.footer.columns as usize)
    }
}

//! Columns of segments by their ordinals, from streams: what a scan reads that asks for some columns of many rows.

use std::collections::VecDeque;
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
use crate::few::Few;
use crate::pages::paged_file::PageRequest;
use crate::segments::dictionaries;
use crate::segments::segment::Segment;

/// Bytes of a directory of streams that stays in memory: of some dozen columns of a hundred million rows.
const DIRECTORY_HELD_MAX: usize = 1 << 20;

/// Bytes of pages that are read ahead, unless the first group has more.
const AHEAD_BYTES: u64 = 2 << 20;

/// Segments that are opened together, and the stored bytes of their dictionaries, unless the first has more.
const OPENED_AT_ONCE: usize = 64;
const DICTIONARY_BYTES_AHEAD: u64 = 4 << 20;

/// Reads some columns of a segment in sequence, by groups of rows.
pub struct ColumnReader {
    segment: Arc<Segment>,
    directory: Arc<StreamDirectory>,
    /// Positions in the key of the columns wanted of it; their streams come first.
    key_positions: Vec<usize>,
    columns: Vec<Column>,
    /// Groups that were read together, from the one that is in use on.
    groups: VecDeque<Group>,
    /// How many were the last time; 0 at first.
    at_once: usize,
}

/// Some rows as they lie in streams.
struct Group {
    number: usize,
    /// The payloads of its pages, one for each stream wanted.
    pages: Result<Vec<Arc<[u8]>>>,
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
        let mut readers = ColumnReader::open_each(&[segment], key, projection)?;
        Ok(readers.pop().expect("one was asked for"))
    }

    /// How many of some segments are opened together, at least one: as many as have few bytes of dictionaries.
    pub fn opened_together(
        segments: &[Arc<Segment>],
        key: &[(usize, DataType)],
        projection: &Projection,
    ) -> usize {
        let mut bytes = 0;
        let fits = |segment: &&Arc<Segment>| {
            for (column, (_, len)) in &segment.footer.dictionaries {
                let is_read = match column {
                    StreamColumn::Key(at) => {
                        key.iter().any(|(wanted, _)| wanted == &(*at as usize))
                    }
                    StreamColumn::Value(at) => projection.values.contains(&(*at as usize)),
                };
                bytes += if is_read { u64::from(*len) } else { 0 };
            }
            bytes <= DICTIONARY_BYTES_AHEAD
        };
        segments.iter().take(OPENED_AT_ONCE).take_while(fits).count().max(1).min(segments.len())
    }

    /// [`ColumnReader::open`] of each of some segments, which share a page cache. Their pages are read together: two reads one after the
    /// other in all.
    pub fn open_each(
        segments: &[Arc<Segment>],
        key: &[(usize, DataType)],
        projection: &Projection,
    ) -> Result<Vec<Option<ColumnReader>>> {
        let directories = Segment::stream_directories(segments)?;
        let mut readers = Vec::with_capacity(segments.len());
        let mut dictionaries: Vec<(&Segment, usize)> = Vec::new();
        for (segment, directory) in segments.iter().zip(directories) {
            let Some(directory) = directory else {
                readers.push(None);
                continue;
            };
            let columns = columns_of(segment, &directory, key, projection);
            let numbers = columns.iter().flatten().filter_map(|(_, dictionary)| *dictionary);
            dictionaries.extend(numbers.map(|number| (&**segment, number)));
            readers.push(columns.map(|columns| (segment.clone(), directory, columns)));
        }
        let mut found = match dictionaries.first() {
            Some((first, _)) => dictionaries::read(first.shared_cache(), &dictionaries, &[]).0?,
            None => Few::new(),
        }
        .into_iter();
        let key_positions: Vec<usize> = key.iter().map(|(at, _)| *at).collect();
        let mut reader = |(segment, directory, columns): (_, _, Vec<(Column, Option<usize>)>)| {
            let with_dictionary = |(column, number): (Column, Option<usize>)| Column {
                dictionary: number.map(|_| found.next().expect("each was asked for")),
                ..column
            };
            let columns = columns.into_iter().map(with_dictionary).collect();
            let (key_positions, groups, at_once) = (key_positions.clone(), VecDeque::new(), 0);
            ColumnReader { segment, directory, key_positions, columns, groups, at_once }
        };
        Ok(readers.into_iter().map(|of_segment| of_segment.map(&mut reader)).collect())
    }

    /// Reads the first groups of rows together that some readers will read next: as many as are few bytes. Nothing where the system
    /// reads ahead by itself.
    pub fn read_ahead<'r>(readers: impl Iterator<Item = (&'r mut ColumnReader, u64)>) {
        let (mut next, mut requests, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (reader, ordinal) in readers {
            let group = (ordinal / reader.group_rows()) as usize;
            let waits = reader.segment.cache().reads_in_sequence() > 1;
            let places = match waits && reader.groups.is_empty() {
                true => reader.places_of(group),
                false => None,
            };
            let Some(places) = places else { continue };
            bytes += places.iter().map(|(_, bytes)| u64::from(*bytes)).sum::<u64>();
            if bytes > AHEAD_BYTES && !next.is_empty() {
                break;
            }
            requests.push(places);
            next.push((reader, group));
        }
        let mut all: Vec<PageRequest<'_>> = Vec::new();
        for ((reader, _), places) in next.iter().zip(&requests) {
            let of_page = |&place| reader.segment.stream_request(place, PageKind::Stream);
            all.extend(places.iter().map(of_page));
        }
        let Some((first, _)) = next.first() else { return };
        let cache = first.segment.shared_cache().clone();
        let read = cache.payloads_if_room(&all);
        drop(all);
        let mut read = read.into_iter();
        for ((reader, number), places) in next.into_iter().zip(requests) {
            let pages = read.by_ref().take(places.len()).collect();
            reader.groups.push_back(Group { number, pages });
            reader.at_once = 1;
        }
    }

    /// A reader for each stream by itself, of what it is.
    ///
    /// # Errors
    /// `Inconsistent` if a stream is of no column.
    pub(crate) fn of_each_stream(
        segment: &Arc<Segment>,
    ) -> Result<Vec<(StreamColumn, ColumnReader)>> {
        let mut directories = Segment::stream_directories(std::slice::from_ref(segment))?;
        let Some(directory) = directories.pop().flatten() else { return Ok(Vec::new()) };
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

    /// Whether the group of an ordinal was read: to read more of it costs no reads.
    pub fn is_in_hand(&self, ordinal: u64) -> bool {
        let number = (ordinal / self.group_rows()) as usize;
        self.groups.iter().any(|group| group.number == number)
    }

    /// The columns of some rows, all of one group; `None` if a column has no page there. The first call for a group reads
    /// its pages, later ones those of the groups that follow as well, up to the ordinal where the sequence ends; the cache keeps them
    /// while it has room.
    pub fn read(&mut self, ordinals: Range<u64>, sequence_end: u64) -> Result<Option<Rows>> {
        let Some((group, rows)) = self.load(&ordinals, sequence_end)? else { return Ok(None) };
        let mut pages = self.pages().iter();
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
        sequence_end: u64,
        mut each: impl FnMut(u64, &[u64], &dyn Fn(usize) -> bool),
    ) -> Result<bool> {
        let Some((group, rows)) = self.load(&ordinals, sequence_end)? else { return Ok(false) };
        let pages = self.pages();
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
        sequence_end: u64,
        sought: &[u64],
        mut each: impl FnMut(u64, u64),
    ) -> Result<bool> {
        let Some((group, rows)) = self.load(&ordinals, sequence_end)? else { return Ok(false) };
        let pages = self.pages();
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

    /// Reads the pages of the group that the ordinals lie in, unless they are in hand, and some of the groups behind it; gives it and
    /// the rows in it.
    fn load(
        &mut self,
        ordinals: &Range<u64>,
        sequence_end: u64,
    ) -> Result<Option<(usize, Range<usize>)>> {
        let group = (ordinals.start / self.group_rows()) as usize;
        let first = group as u64 * self.group_rows();
        let end = first + self.rows_of_group(group);
        assert!(ordinals.start < ordinals.end && ordinals.end <= end);
        while self.groups.front().is_some_and(|front| front.number != group) {
            self.groups.pop_front();
        }
        if self.groups.is_empty() && !self.read_groups(group, sequence_end.max(ordinals.end)) {
            return Ok(None);
        }
        if self.groups[0].pages.is_err() {
            let failed = self.groups.pop_front().expect("it is the first");
            failed.pages?;
        }
        Ok(Some((group, (ordinals.start - first) as usize..(ordinals.end - first) as usize)))
    }

    /// The payloads of the pages of the group in use.
    fn pages(&self) -> &[Arc<[u8]>] {
        self.groups[0].pages.as_ref().expect("it was just read")
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

    /// Reads the pages of a group, and twice as many groups in all as the last time, up to the end of a sequence. False if a column has
    /// no page in the first.
    fn read_groups(&mut self, first: usize, sequence_end: u64) -> bool {
        let groups_max = self.segment.cache().reads_in_sequence() as usize;
        self.at_once = (2 * self.at_once).clamp(1, groups_max);
        let end = sequence_end.min(self.segment.rows()).div_ceil(self.group_rows()) as usize;
        let mut places: Vec<(u64, u32)> = Vec::new();
        let (mut bytes, mut numbers) = (0, first..first);
        for group in first..end.min(first + self.at_once) {
            let Some(of_group) = self.places_of(group) else { break };
            bytes += of_group.iter().map(|(_, bytes)| u64::from(*bytes)).sum::<u64>();
            if !numbers.is_empty() && bytes > AHEAD_BYTES {
                break;
            }
            places.extend(of_group);
            numbers.end = group + 1;
        }
        let requests: Vec<PageRequest<'_>> = places
            .into_iter()
            .map(|place| self.segment.stream_request(place, PageKind::Stream))
            .collect();
        let per_group = requests.len() / numbers.len().max(1);
        let mut read = self.segment.cache().payloads_if_room(&requests).into_iter();
        let group = |number| Group { number, pages: read.by_ref().take(per_group).collect() };
        self.groups = numbers.map(group).collect();
        !self.groups.is_empty()
    }

    /// Where the pages of a group lie; `None` if a column has none there.
    fn places_of(&self, group: usize) -> Option<Vec<(u64, u32)>> {
        let streams = self.columns.iter().filter_map(|column| column.stream);
        streams.map(|stream| self.directory.page(stream, group)).collect()
    }
}

/// What is read of a segment for each column wanted, with the number of its dictionary; `None` if not all are streams.
fn columns_of(
    segment: &Segment,
    directory: &StreamDirectory,
    key: &[(usize, DataType)],
    projection: &Projection,
) -> Option<Vec<(Column, Option<usize>)>> {
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
            && let Some((at, narrow)) = projection.earlier(at as usize).find(|(at, _)| *at < known)
        {
            (column, data_type) = (StreamColumn::Value(at as u32), narrow);
        }
        let (StreamColumn::Key(at) | StreamColumn::Value(at)) = column;
        let stream = match directory.stream_of(column) {
            // It stores no column any more.
            _ if *wanted == DataType::Null => None,
            None if (at as usize) < known => return None,
            stream => stream,
        };
        let known = &segment.footer.dictionaries;
        let number = known.iter().position(|(of, _)| *of == column && stream.is_some());
        let (data_type, wanted) = (data_type.clone(), wanted.clone());
        columns.push((Column { data_type, wanted, stream, dictionary: None }, number));
    }
    Some(columns)
}

impl Segment {
    /// The directory of the streams of each of some segments, if there are any. Once it was asked for, it stays, unless it is long.
    fn stream_directories(segments: &[Arc<Segment>]) -> Result<Vec<Option<Arc<StreamDirectory>>>> {
        // Another thread may come to know one meanwhile.
        let known = |segment: &Arc<Segment>| segment.streams.get().cloned();
        let mut directories: Vec<Option<Arc<StreamDirectory>>> =
            segments.iter().map(known).collect();
        let mut unknown = Vec::new();
        for (at, segment) in segments.iter().enumerate() {
            if let (None, Some(place)) = (&directories[at], segment.footer.streams) {
                unknown.push((at, segment, place));
            }
        }
        let Some((_, first, _)) = unknown.first() else { return Ok(directories) };
        let mut requests: Vec<PageRequest<'_>> = Vec::new();
        for (_, segment, place) in &unknown {
            requests.push(segment.stream_request(*place, PageKind::StreamDirectory));
        }
        let read = first.cache().payloads(&requests);
        for ((at, segment, (offset, _)), payload) in unknown.into_iter().zip(read) {
            let decoded = StreamDirectory::decode(&payload?, segment.rows());
            let decoded = Arc::new(decoded.map_err(|error| segment.damaged(offset, error))?);
            if decoded.allocated_bytes() <= DIRECTORY_HELD_MAX {
                let _ = segment.streams.set(decoded.clone());
            }
            directories[at] = Some(decoded);
        }
        Ok(directories)
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

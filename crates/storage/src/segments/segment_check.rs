//! Checking a whole segment: every checksum, the order of keys, counts, filters, statistics and postings
//! against the rows.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use drillcore_format::byte_bounds;
use drillcore_format::error::FormatError;
use drillcore_format::index_page::{IndexPage, key_hash, may_contain};
use drillcore_format::key::Bound;
use drillcore_format::postings::{WEIGHT_GROUP, WeightGroup};
use drillcore_format::rows::{Projection, Rows};
use drillcore_format::statistics_page::Zones;
use drillcore_format::streams::directory::StreamColumn;

use crate::error::{Result, StorageError};
use crate::files::directory::Directory;
use crate::postings::set_lists::SetLists;
use crate::postings::set_postings::{SegmentMembers, SetPostings};
use crate::segments::columns::ColumnReader;
use crate::segments::postings_writer::note_all;
use crate::segments::segment::Segment;
use crate::segments::sequence::End;
use crate::segments::weights::weights_of;

/// Pages kept while a segment is checked, read from its file and not taken from those that others keep.
const CACHE_BYTES: u64 = 1 << 20;
/// Groups of a set that are looked up together.
const GROUPS_AT_ONCE: usize = 1024;
/// Sets that are counted between two looks whether to go on.
const SETS_PER_LOOK: usize = 4096;

/// Reads a segment's file from end to end, past the page cache. The first fault found is the error; `go_on`
/// is asked before each portion that is read, given the number of rows that were. Memory: some rows, however long they are, and
/// lists of sets, which take more passes over the set column where they have no room together.
pub fn check_segment(
    directory: Arc<dyn Directory>,
    segment: &Segment,
    mut go_on: impl FnMut(u64) -> bool,
) -> Result<()> {
    let known = segment.meta();
    let segment = &Arc::new(segment.reopen(directory, CACHE_BYTES)?);
    if segment.meta() != known {
        return Err(fault(segment, "the file is not the one that was opened".to_string()));
    }
    let mut check = RowsCheck::new(segment)?;
    for (number, page) in segment.index_pages().enumerate() {
        let page = page?;
        if !check.check_page(number, &page, &mut go_on)? {
            return Ok(());
        }
    }
    check.check_counts(known.blocks)?;
    check_sets(segment, check.sets, go_on)
}

/// Checks the rows of a segment, from the first to the last.
struct RowsCheck<'s> {
    segment: &'s Segment,
    all: Projection,
    /// The columns that are lists.
    lists: Vec<usize>,
    /// No two rows have the same key.
    is_distinct: bool,
    last_key: Vec<u8>,
    next_ordinal: u64,
    /// The blocks before that row.
    blocks: u64,
    sets: SetLists,
    streams: Vec<(StreamColumn, ColumnReader)>,
}

/// An index page whose rows are checked.
struct PageCheck<'p> {
    page: &'p IndexPage,
    /// The pages of its filter.
    filter: Vec<Arc<[u8]>>,
    zones: Zones,
    /// Of each weight column what the rows so far weigh.
    sums: Vec<u128>,
}

impl<'s> RowsCheck<'s> {
    fn new(segment: &'s Arc<Segment>) -> Result<RowsCheck<'s>> {
        let layout = segment.layout();
        // Reading rows checks their other columns; lists are taken apart only when they are shown.
        let fields = layout.schema().columns.fields();
        let is_list = |column: &usize| matches!(fields[*column].data_type(), DataType::List(_));
        Ok(RowsCheck {
            segment,
            all: layout.all(),
            lists: (0..fields.len()).filter(is_list).collect(),
            is_distinct: !layout.schema().repeats_keys(),
            last_key: Vec::new(),
            next_ordinal: 0,
            blocks: 0,
            sets: SetLists::new(segment.indexed(), layout),
            streams: ColumnReader::of_each_stream(segment)?,
        })
    }

    /// Checks the next index page, and the rows in its blocks. False if `go_on` said no.
    fn check_page(
        &mut self,
        number: usize,
        page: &IndexPage,
        go_on: &mut impl FnMut(u64) -> bool,
    ) -> Result<bool> {
        let segment = self.segment;
        let filter = (0..page.filter_pages()).map(|part| segment.filter_request(number, part));
        let filter: Vec<_> = filter.collect();
        let filter = segment.cache().payloads(&filter).into_iter().collect::<Result<Vec<_>>>()?;
        let before = self.next_ordinal;
        if page.first_ordinal() != before {
            let detail =
                format!("an index page starts at row {}, not {before}", page.first_ordinal());
            return Err(fault(segment, detail));
        }
        let after = before + page.rows();
        let zones = zones_of(segment, page)?;
        let sums = vec![0; segment.layout().weight_count()];
        let mut of_page = PageCheck { page, filter, zones, sums };
        while self.next_ordinal < after {
            if !go_on(self.next_ordinal) {
                return Ok(false);
            }
            let end = end_of_zones(segment, &of_page.zones, self.next_ordinal..after)?;
            self.check_rows(&mut of_page, end)?;
        }
        of_page.check_weights(segment, before..after)?;
        self.blocks += page.blocks() as u64;
        Ok(true)
    }

    /// Checks the next rows of an index page, up to an ordinal where a zone ends.
    fn check_rows(&mut self, of_page: &mut PageCheck<'_>, end: u64) -> Result<()> {
        let (segment, layout, from) = (self.segment, self.segment.layout(), self.next_ordinal);
        let page = of_page.page;
        let decode = |source: FormatError| segment.damaged(page.block(0).offset, source);
        let rows = segment.read(from, end, &self.all)?;
        self.check_keys(of_page, &rows)?;
        let weights = weights_of(layout, &rows, &self.all).map_err(decode)?;
        for (sum, units) in of_page.sums.iter_mut().zip(&weights) {
            *sum += units.iter().map(|&unit| u128::from(unit)).sum::<u128>();
        }
        check_searches(segment, page, from, &rows)?;
        let columns = layout.stored_columns(&rows).map_err(decode)?;
        for (column, reader) in &mut self.streams {
            check_stream(segment, *column, reader, from, &rows, &columns)?;
        }
        let zones = of_page.zones.overlapping(from..end);
        let spans: Vec<_> = (0..zones.len()).map(|zone| zones.span(zone)).collect();
        if zones != Zones::measure(layout, &rows, from, &spans).map_err(decode)? {
            let detail = format!("the zones of the rows {from}..{end} do not describe them");
            return Err(fault(segment, detail));
        }
        layout.decode(&rows, &self.lists).map_err(decode)?;
        self.sets.note(layout, &rows, &weights, from).map_err(decode)?;
        self.sets.make_room();
        self.next_ordinal = end;
        Ok(())
    }

    /// Checks that the keys of the next rows ascend, and that the filter lets them through.
    fn check_keys(&mut self, of_page: &PageCheck<'_>, rows: &Rows) -> Result<()> {
        let segment = self.segment;
        for row in 0..rows.len() {
            let (key, ordinal) = (rows.key(row), self.next_ordinal + row as u64);
            // The first row has none before it, and its key may be empty.
            let is_first = ordinal == 0;
            let is_repeated = || !is_first && *self.last_key == *key;
            if *self.last_key > *key || self.is_distinct && is_repeated() {
                return Err(fault(segment, format!("row {ordinal} is not in key order")));
            }
            let passes = of_page.lets_through(key);
            if !passes.map_err(|error| fault(segment, error.to_string()))? {
                return Err(fault(segment, format!("the filter excludes row {ordinal}")));
            }
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        }
        Ok(())
    }

    /// Compares how many blocks and rows there were with what the footer says.
    fn check_counts(&self, blocks: u64) -> Result<()> {
        if self.blocks != blocks {
            let detail = format!("{} blocks, but the footer says {blocks}", self.blocks);
            return Err(fault(self.segment, detail));
        }
        let (found, rows) = (self.next_ordinal, self.segment.rows());
        if found != rows {
            let detail = format!("{found} rows, but the footer says {rows}");
            return Err(fault(self.segment, detail));
        }
        Ok(())
    }
}

impl PageCheck<'_> {
    fn lets_through(&self, key: &[u8]) -> std::result::Result<bool, FormatError> {
        let hash = key_hash(key);
        match self.page.filter_place(hash) {
            Some(place) => may_contain(&self.filter[place.page], place, hash),
            None => Ok(true),
        }
    }

    /// Compares what all its rows weigh with what the page says, and with what reads find.
    fn check_weights(&self, segment: &Segment, ordinals: Range<u64>) -> Result<()> {
        let (before, after) = (ordinals.start, ordinals.end);
        for (weight, &sum) in self.sums.iter().enumerate() {
            let found =
                segment.weight_before(weight, after)? - segment.weight_before(weight, before)?;
            if self.page.weight_before(weight, self.page.blocks()) != sum || found != sum {
                let detail = format!("weights of the rows {before}..{after} sum to {sum}");
                return Err(fault(segment, detail));
            }
        }
        Ok(())
    }
}

/// Compares what a stream has of some rows, where it has something, with the rows from ordinal `from` on.
fn check_stream(
    segment: &Segment,
    column: StreamColumn,
    reader: &mut ColumnReader,
    from: u64,
    rows: &Rows,
    columns: &[ArrayRef],
) -> Result<()> {
    let end = from + rows.len() as u64;
    let mut next = from;
    while next < end {
        let to = end.min(reader.group_end(next));
        let Some(read) = reader.read(next..to, end)? else {
            next = to;
            continue;
        };
        let (found, all) = match column {
            StreamColumn::Key(position) => {
                let position = position as usize;
                let column = segment.layout().schema().key[position];
                (read.key_column(position).expect("it was asked for"), &columns[column])
            }
            StreamColumn::Value(index) => (read.value(0), rows.value(index as usize)),
        };
        if *found != all.slice((next - from) as usize, (to - next) as usize) {
            let detail = format!("the stream of {column:?} differs in the rows {next}..{to}");
            return Err(fault(segment, detail));
        }
        next = to;
    }
    Ok(())
}

/// Looks for the first and the last key of each of some blocks of an index page, as reads do. `rows` are those of the
/// page from ordinal `from` on, and end with a block.
fn check_searches(segment: &Segment, page: &IndexPage, from: u64, rows: &Rows) -> Result<()> {
    let end = from + rows.len() as u64;
    let places = (0..page.blocks()).map(|number| page.block(number));
    for place in places.filter(|place| (from..end).contains(&place.first_ordinal)) {
        let first = (place.first_ordinal - from) as usize;
        let (first, last) = (rows.key(first), rows.key(first + place.rows as usize - 1));
        let (low, high) = segment.key_ends();
        let found = segment.block_of_bound(&Bound::at_key(last))?.1.first_ordinal
            ..=segment.block_of_bound(&Bound::past_key(first))?.1.first_ordinal;
        if !found.contains(&place.first_ordinal) || first < low || last > high {
            let detail =
                format!("a search does not find the keys of the block at byte {}", place.offset);
            return Err(fault(segment, detail));
        }
    }
    Ok(())
}

/// The zones of an index page with all columns, if they take in its blocks.
fn zones_of(segment: &Segment, page: &IndexPage) -> Result<Zones> {
    let (first, end) = (page.first_ordinal(), page.first_ordinal() + page.rows());
    let layout = segment.layout();
    let columns: Vec<usize> = (0..layout.schema().columns.fields().len()).collect();
    let zones = segment.zones(layout, first..end, &columns)?;
    let mut blocks = (0..page.blocks()).map(|number| u64::from(page.block(number).rows));
    for zone in 0..zones.len() {
        let span = zones.span(zone);
        let rows: u64 = blocks.by_ref().take(span.blocks as usize).sum();
        if rows != span.rows {
            let detail =
                format!("a zone of {} blocks has {rows} rows, not {}", span.blocks, span.rows);
            return Err(fault(segment, detail));
        }
    }
    match zones.is_empty() || zones.ordinals(zones.len() - 1).end != end {
        true => Err(fault(segment, format!("the zones of the rows {first}..{end} end elsewhere"))),
        false => Ok(zones),
    }
}

/// Where the first zones of a range end that can be read together: as many as bounds on bytes allow, at least one.
fn end_of_zones(segment: &Segment, zones: &Zones, ordinals: Range<u64>) -> Result<u64> {
    let zones = zones.overlapping(ordinals.clone());
    let all = segment.layout().all();
    let bytes_max = byte_bounds::chunk() as u64;
    let portion = segment.portion(ordinals, End::First, &all, bytes_max, u64::MAX)?;
    let ends = (1..zones.len()).map(|zone| zones.ordinals(zone).end);
    let more = ends.take_while(|end| *end <= portion.end).last();
    Ok(more.unwrap_or(zones.ordinals(0).end))
}

/// Checks postings against the rows: lists of all sets, or of those that have room, which are followed by passes over the rows for the
/// others. Ends without an answer if `go_on` says no, which is given the number of rows.
fn check_sets(
    segment: &Arc<Segment>,
    mut sets: SetLists,
    mut go_on: impl FnMut(u64) -> bool,
) -> Result<()> {
    let Some(postings) = segment.postings() else { return Ok(()) };
    let mut found = sets.len();
    check_lists(segment, &postings, &sets)?;
    while let Some(next) = sets.of_those_left_out() {
        sets = next;
        if !note_all(segment, &mut sets, |_| go_on(segment.rows()).then_some(usize::MAX))? {
            return Ok(());
        }
        found += sets.len();
        check_lists(segment, &postings, &sets)?;
    }
    let (mut listed, mut goes_on) = (0, true);
    postings.sets(|_, _| {
        listed += 1;
        goes_on = listed % SETS_PER_LOOK != 0 || go_on(segment.rows());
        goes_on
    })?;
    if goes_on && listed != found {
        return Err(fault(segment, format!("{listed} sets are listed, but the rows have {found}")));
    }
    Ok(())
}

/// Checks what postings say of some sets.
fn check_lists(segment: &Segment, postings: &Arc<SetPostings>, sets: &SetLists) -> Result<()> {
    let columns = segment.layout().weight_count();
    for (value, list) in sets.iter() {
        let members = postings.members(value)?.expect("only indexed sets were noted");
        if members.len() != list.len() {
            let (found, expected) = (members.len(), list.len());
            return Err(fault(segment, format!("a set lists {found} rows, but has {expected}")));
        }
        for (position, ordinal) in list.ordinals().enumerate() {
            if members.ordinal(position as u64)? != u64::from(ordinal) {
                return Err(fault(segment, format!("row {ordinal} is missing from its set")));
            }
        }
        for weight in 0..columns {
            let (mut before, mut groups) = (0, list.groups(weight));
            let all = list.len().div_ceil(WEIGHT_GROUP);
            for first in (0..all).step_by(GROUPS_AT_ONCE) {
                let numbers = first..all.min(first + GROUPS_AT_ONCE as u64);
                let wanted: Vec<_> = numbers.map(|number| (&members, number)).collect();
                let found = SegmentMembers::groups_of_numbers(&wanted, weight)?;
                for ((_, number), found) in wanted.into_iter().zip(found) {
                    let group = groups.next().expect("a group of every 128 rows");
                    let expected = WeightGroup { number, before, weight: group };
                    if found != expected {
                        let detail =
                            format!("group {number} of a set weighs other than {expected:?}");
                        return Err(fault(segment, detail));
                    }
                    before += group.sum;
                }
            }
        }
    }
    Ok(())
}

fn fault(segment: &Segment, detail: String) -> StorageError {
    segment.inconsistent(detail)
}

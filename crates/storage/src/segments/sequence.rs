//! Reading rows of segments in sequence: neighbouring blocks with one read, past the cache, and the next such reads together.
//!
//! What was read and not taken apart yet stays in memory, so a segment that is read in small steps costs no more reads than one
//! that is read at once, and segments that are merged wait for the device together.

use std::collections::VecDeque;
use std::mem;
use std::ops::Range;
use std::sync::atomic::Ordering;

use drillcore_format::block::{Picked, RowsBuilder};
use drillcore_format::index_page::{BlockPlace, IndexPage};
use drillcore_format::page::PageKind;
use drillcore_format::rows::{Projection, Rows};

use crate::error::Result;
use crate::files::reads::ReadBytes;
use crate::pages::paged_file::PagedFile;
use crate::segments::segment::Segment;

/// Bytes that one read asks the file for, unless a block is longer: enough that the device takes longer for them
/// than for the request, and few enough to stay in the processor's cache until they are decoded.
const PORTION_BYTES: u64 = 256 << 10;
/// The least that it asks for once few bytes are still wanted, where nothing is kept: what it reads and does not decode is wasted.
const PORTION_BYTES_MIN: u64 = 64 << 10;
/// Bytes of rows for each byte of the file, at most, unless they are compressed very well.
const BYTES_PER_STORED: u64 = 4;
/// Segments whose blocks are read ahead together: each has its share of the bytes.
pub const TOGETHER_MAX: usize = 64;
const TOGETHER_BYTES: u64 = 4 << 20;

/// From where on rows are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// From the least key up.
    First,
    /// From the greatest key down.
    Last,
}

/// Blocks of one segment that were read and not taken apart yet.
#[derive(Default)]
pub struct BlocksAhead {
    portions: VecDeque<Portion>,
    /// How many were read together the last time; 0 at first.
    at_once: u64,
    /// Bytes that they may have, and a portion more. None where each call reads what it returns, and what it does not return is let go.
    bytes_max: u64,
    /// The memory of a portion that was taken apart.
    spare: ReadBytes,
}

/// Neighbouring blocks that are read at once.
struct Portion {
    /// The rows that they hold.
    rows: Range<u64>,
    /// Where they lie in the file.
    bytes: Range<u64>,
    blocks: u64,
    read: Result<ReadBytes>,
}

/// Rows of one segment that are read in sequence.
pub struct InSequence<'a> {
    /// The segment to read from.
    pub segment: &'a Segment,
    /// Those that come next: more than one step of the reader.
    pub rows: Range<u64>,
    /// Where the next step ends. The first time no more is read, for who then stops.
    pub step_end: u64,
    /// What was read of them already.
    pub ahead: &'a mut BlocksAhead,
}

/// Reads what comes next of some segments, which share a page cache, together: of those of which not much is left of earlier
/// reads. A read that fails is an error once its rows are asked for. Index pages that are not resident are read before.
///
/// Nothing is read where nothing is kept, or of more than [`TOGETHER_MAX`] segments.
pub fn read_ahead(mut wanted: Vec<InSequence<'_>>) -> Result<()> {
    wanted.retain(|next| next.ahead.bytes_max > 0);
    match (1..=TOGETHER_MAX).contains(&wanted.len()) {
        true => read_next(&mut wanted, PORTION_BYTES),
        false => Ok(()),
    }
}

/// Reads portions of up to `portion_bytes`.
fn read_next(wanted: &mut [InSequence<'_>], portion_bytes: u64) -> Result<()> {
    let share = TOGETHER_BYTES / wanted.len().max(1) as u64;
    let mut short: Vec<_> = wanted.iter_mut().filter_map(|next| next.lacking()).collect();
    let Some((first, _)) = short.first() else { return Ok(()) };
    let cache = first.segment.shared_cache();
    let mut numbers = Vec::with_capacity(short.len());
    for (InSequence { segment, .. }, from) in &short {
        numbers.push((*segment, segment.summary.page_of_ordinal(*from)));
    }
    let pages = Segment::index_pages_of(cache, &numbers);
    let at_once_max = (cache.reads_in_sequence() / short.len() as u64).max(1);
    let mut planned: Vec<(usize, Portion)> = Vec::new();
    for (at, ((next, from), page)) in short.iter_mut().zip(pages).enumerate() {
        let InSequence { rows, step_end, ahead, .. } = &mut **next;
        let is_one_step = ahead.at_once == 0 || ahead.bytes_max == 0;
        let end = if is_one_step { *step_end } else { rows.end };
        let (bytes_max, count) = match ahead.bytes_max.min(share) {
            0 => (portion_bytes, 1),
            share => {
                let bytes_max = share.min(portion_bytes);
                ahead.at_once = (2 * ahead.at_once).clamp(1, at_once_max);
                (
                    bytes_max,
                    (share.saturating_sub(ahead.bytes()) / bytes_max).clamp(1, ahead.at_once),
                )
            }
        };
        let portions = portions(&*page?, *from..end, bytes_max, count);
        planned.extend(portions.into_iter().map(|portion| (at, portion)));
    }
    let counts = cache.counts();
    for (_, Portion { bytes, blocks, .. }) in &planned {
        counts.blocks.fetch_add(*blocks, Ordering::Relaxed);
        counts.bytes.fetch_add(bytes.end - bytes.start, Ordering::Relaxed);
    }
    match planned.as_mut_slice() {
        [(at, portion)] => {
            let InSequence { segment, ahead, .. } = &mut *short[*at].0;
            let Range { start, end } = portion.bytes;
            let spare = mem::take(&mut ahead.spare);
            portion.read = segment.file().read_over(spare, start, end - start);
        }
        all => {
            let range = |(at, portion): &(usize, Portion)| {
                (short[*at].0.segment.file(), portion.bytes.clone())
            };
            let ranges: Vec<(&PagedFile, Range<u64>)> = all.iter().map(range).collect();
            // It would be held beside what takes its place.
            short.iter_mut().for_each(|(next, _)| next.ahead.spare = ReadBytes::default());
            for ((_, portion), read) in all.iter_mut().zip(cache.read_ranges(&ranges)) {
                portion.read = read;
            }
        }
    }
    for (at, portion) in planned {
        short[at].0.ahead.portions.push_back(portion);
    }
    Ok(())
}

/// The first portions of the blocks of an index page that hold some rows.
fn portions(page: &IndexPage, rows: Range<u64>, bytes_max: u64, count: u64) -> Vec<Portion> {
    let mut portions: Vec<Portion> = Vec::new();
    for place in blocks_of(page, &rows) {
        let end = place.offset + u64::from(place.bytes);
        let rows = place.first_ordinal..place.first_ordinal + u64::from(place.rows);
        let is_full = portions.len() as u64 == count;
        match portions.last_mut() {
            Some(last) if end - last.bytes.start <= bytes_max => {
                (last.rows.end, last.bytes.end) = (rows.end, end);
                last.blocks += 1;
            }
            _ if is_full => break,
            _ => {
                let (bytes, read) = (place.offset..end, Ok(ReadBytes::default()));
                portions.push(Portion { rows, bytes, blocks: 1, read });
            }
        }
    }
    portions
}

/// The blocks of an index page that hold some rows, of which the first lies in it.
fn blocks_of(page: &IndexPage, rows: &Range<u64>) -> impl Iterator<Item = BlockPlace> {
    let end = rows.end;
    (page.block_of_ordinal(rows.start).number..page.blocks())
        .map(|number| page.block(number))
        .take_while(move |place| place.first_ordinal < end)
}

impl InSequence<'_> {
    /// From which row on more has to be read: if less is there than two steps need, and not as many bytes as may be.
    fn lacking(&mut self) -> Option<(&mut Self, u64)> {
        let step = self.step_end.saturating_sub(self.rows.start);
        let from = self.ahead.end(self.rows.start);
        let soon = self.step_end.saturating_add(step).min(self.rows.end);
        let has_room = from == self.rows.start || self.ahead.bytes() < self.ahead.bytes_max;
        (from < soon && has_room).then_some((self, from))
    }
}

impl BlocksAhead {
    /// For a segment that is read by itself: as much as is best under way at once, and nothing where the system reads ahead by
    /// itself. What it gives is in the processor's cache if it is taken apart at once.
    pub fn of_one(segment: &Segment) -> BlocksAhead {
        let bytes_max = match segment.cache().reads_in_sequence() {
            1 => 0,
            reads => reads * PORTION_BYTES,
        };
        BlocksAhead { bytes_max, ..BlocksAhead::default() }
    }

    /// Limits what is read ahead to this segment's share, where some `segments` are merged. Of more than [`TOGETHER_MAX`] nothing is.
    pub fn share(&mut self, segments: usize) {
        let share = TOGETHER_BYTES / segments.max(1) as u64;
        self.bytes_max = if segments > TOGETHER_MAX { 0 } else { self.bytes_max.min(share) };
    }

    /// Whether anything is read ahead.
    pub fn is_kept(&self) -> bool {
        self.bytes_max > 0
    }

    fn bytes(&self) -> u64 {
        self.portions.iter().map(|portion| portion.bytes.end - portion.bytes.start).sum()
    }

    /// The page of a block, if it was read.
    fn page_of(&mut self, place: &BlockPlace) -> Result<Option<&[u8]>> {
        self.let_go_before(place.first_ordinal);
        if self.portions.front().is_some_and(|front| front.read.is_err())
            && let Some(failed) = self.portions.pop_front()
        {
            failed.read?;
        }
        let Some(Portion { bytes, read: Ok(read), .. }) = self.portions.front() else {
            return Ok(None);
        };
        let at = (place.offset - bytes.start) as usize;
        Ok(Some(&read.as_slice()[at..at + place.bytes as usize]))
    }

    /// Lets go of what comes before a row.
    fn let_go_before(&mut self, row: u64) {
        while let Some(front) = self.portions.front()
            && !front.rows.contains(&row)
        {
            if let Some(Portion { read: Ok(bytes), .. }) = self.portions.pop_front() {
                self.spare = bytes;
            }
        }
    }

    /// Where the rows end that were read, from a row on.
    fn end(&mut self, row: u64) -> u64 {
        self.let_go_before(row);
        self.portions.back().map_or(row, |last| last.rows.end)
    }
}

impl Segment {
    /// As many rows of the one end of a range, or of the other, as lie within `bytes_max` in the file with what is projected, and up to
    /// `rows_max`, or those of one block. This part can be [read](Segment::read) at once, however long its rows are: the rows of a block
    /// are short, but for one. There is a row at least.
    ///
    /// Two index pages where rows are short, else some ten.
    pub fn portion(
        &self,
        ordinals: Range<u64>,
        end: End,
        projection: &Projection,
        bytes_max: u64,
        rows_max: u64,
    ) -> Result<Range<u64>> {
        let portion = |len: u64| match end {
            End::First => ordinals.start..ordinals.start + len,
            End::Last => ordinals.end - len..ordinals.end,
        };
        let block = match end {
            End::First => self.place_of_ordinal(ordinals.start)?.1,
            End::Last => self.place_of_ordinal(ordinals.end - 1)?.1,
        };
        // Less than a block would have it read, and decoded, twice.
        let of_block = match end {
            End::First => block.first_ordinal + u64::from(block.rows) - ordinals.start,
            End::Last => ordinals.end - block.first_ordinal,
        };
        let has_extents = projection.has_strings();
        let mut len = (ordinals.end - ordinals.start).min(rows_max.max(of_block));
        while len > of_block && self.span_bytes(&portion(len), has_extents)? > bytes_max {
            len = (len / 2).max(of_block);
        }
        Ok(portion(len))
    }

    /// The bytes of the file from the first block with one of the rows to the last, with their long values or without; there
    /// is a row at least.
    fn span_bytes(&self, ordinals: &Range<u64>, has_extents: bool) -> Result<u64> {
        let (first_page, first) = self.place_of_ordinal(ordinals.start)?;
        let (last_page, last) = self.place_of_ordinal(ordinals.end - 1)?;
        let bytes = (last.offset + u64::from(last.bytes)).saturating_sub(first.offset);
        // Those of an index page lie before its blocks: so of other pages they are among these bytes.
        let extents = match (has_extents, first_page.first_ordinal() == last_page.first_ordinal()) {
            (false, _) => 0,
            (true, false) => first_page.extent_bytes_from(first.number),
            (true, true) => {
                let behind = first_page.extent_bytes_from(last.number) - last.extent_bytes;
                first_page.extent_bytes_from(first.number) - behind
            }
        };
        Ok(bytes.saturating_add(extents))
    }

    /// The rows `from..to`, read in sequence in large portions, without filling the cache. Their strings must fit
    /// an array; see [`Segment::portion`].
    pub fn read(&self, from: u64, to: u64, projection: &Projection) -> Result<Rows> {
        self.read_some(from..to, projection, usize::MAX, &mut BlocksAhead::default(), to)
    }

    /// The first of the rows that [`Segment::read`] gives: up to the block with which their keys and strings have `bytes_max`, at least
    /// one. However long rows are, those of a block are short, but for one. What is read on the way and not decoded stays in `ahead`
    /// for the next call; later calls read up to `sequence_end`.
    pub fn read_some(
        &self,
        rows: Range<u64>,
        projection: &Projection,
        bytes_max: usize,
        ahead: &mut BlocksAhead,
        sequence_end: u64,
    ) -> Result<Rows> {
        let mut builder = RowsBuilder::new(projection, (rows.end - rows.start) as usize);
        let dictionaries = self.dictionaries(projection)?;
        let mut next = rows.start;
        while next < rows.end && builder.string_bytes() < bytes_max {
            let page = self.index_page(self.summary.page_of_ordinal(next))?;
            for place in blocks_of(&page, &(next..rows.end)) {
                if builder.string_bytes() >= bytes_max {
                    break;
                }
                if ahead.page_of(&place)?.is_none() {
                    let bytes_max = match ahead.is_kept() {
                        true => PORTION_BYTES,
                        false => {
                            let left = (bytes_max - builder.string_bytes()) as u64;
                            (left / BYTES_PER_STORED).clamp(PORTION_BYTES_MIN, PORTION_BYTES)
                        }
                    };
                    let (rows, step_end) = (place.first_ordinal..sequence_end, rows.end);
                    read_next(
                        &mut [InSequence { segment: self, rows, step_end, ahead }],
                        bytes_max,
                    )?;
                }
                let page = ahead.page_of(&place)?.expect("it was just read");
                let payload = self.file().payload(page, PageKind::Block, place.offset)?;
                let view = self.view(&place, payload, &dictionaries)?;
                let begin = rows.start.saturating_sub(place.first_ordinal) as usize;
                let end = (rows.end - place.first_ordinal).min(u64::from(place.rows)) as usize;
                let extents = match place.extent_bytes {
                    0 => Vec::new(),
                    _ => {
                        let rows = Picked::Range(begin, end);
                        let places = self.extents_of(place.offset, &view, projection, rows)?;
                        self.read_extents(&places)?
                    }
                };
                builder
                    .append_range(&view.with_extents(&extents), begin, end)
                    .map_err(|error| self.damaged(place.offset, error))?;
            }
            next = page.first_ordinal() + page.rows();
        }
        if !ahead.is_kept() {
            *ahead = BlocksAhead::default();
        }
        self.finish(builder)
    }
}

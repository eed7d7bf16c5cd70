//! Rows of segments by their keys.
//!
//! A key costs an index page and a block in a segment that spans it. Where another piece may have it as well, a page of the filter comes between,
//! and the block is read only if the filter lets the key through. The index pages of many keys and segments are read together,
//! then the filters, then the blocks. Who wants one row of a key gets it from the first segment that has it: blocks of the next one
//! are read only for keys that were not in those before.

use std::ops::Range;
use std::sync::Arc;

use drillcore_format::block::{BlockView, Picked, RowsBuilder};
use drillcore_format::byte_bounds;
use drillcore_format::extents::ExtentPlace;
use drillcore_format::index_page::{BlockPlace, FilterPlace, key_hash, may_contain};
use drillcore_format::key::{Bound, Keys};
use drillcore_format::ordinal_intervals::OrdinalIntervals;
use drillcore_format::overlap::overlap;
use drillcore_format::rows::{Projection, Rows};
use smallvec::smallvec;

use crate::error::{Result, StorageError};
use crate::few::Few;
use crate::pages::page_cache::{PageCache, WithPayloads};
use crate::pages::paged_file::PageRequest;
use crate::segments::dictionaries;
use crate::segments::extents::ExtentsAhead;
use crate::segments::newest_row::InBlock;
use crate::segments::segment::Segment;
use crate::segments::windows::read_ahead;

/// Keys that are looked up together, each counted once per segment that spans it.
const LOOKED_UP_AT_ONCE: usize = 4096;

/// Keys that are looked for in segments that share a page cache.
pub struct Lookup<'a> {
    /// Where to look.
    pub segments: &'a [Searched<'a>],
    /// What `asked` names by number.
    pub keys: &'a Keys,
    /// The numbers of the keys to look for, ascending by key.
    pub asked: &'a [u32],
    /// What to read of the rows.
    pub projection: &'a Projection,
    /// Rows whose keys and strings take more are not all looked for: the caller has no use for some of them.
    pub bytes_max: usize,
    /// Which rows to give of a key that several segments have.
    pub which: Which,
    /// How a segment that spans a key is asked for it: by its place in `segments` and the key's number.
    pub ask: &'a dyn Fn(usize, u32) -> Ask,
    /// Asked before each step, by how many keys it looks up; once it says no, it does so for good, and what was found so far is
    /// returned.
    pub go_on: &'a dyn Fn(usize) -> bool,
}

/// A segment in which keys are looked for.
pub struct Searched<'a> {
    /// The number that its rows get.
    pub number: usize,
    /// The segment.
    pub segment: &'a Segment,
    /// Those of its rows that were erased.
    pub erased: Option<&'a OrdinalIntervals>,
    /// Which of the keys that are looked for it spans, by their places.
    pub spanned: Range<usize>,
}

impl<'a> Searched<'a> {
    /// A segment in which some keys are looked for, ascending. O(log keys).
    pub fn new(
        number: usize,
        segment: &'a Segment,
        erased: Option<&'a OrdinalIntervals>,
        keys: &Keys,
        asked: &[u32],
    ) -> Searched<'a> {
        let (first, last) = segment.key_ends();
        Searched { number, segment, erased, spanned: keys.between(asked, first, last) }
    }
}

/// Which rows of a key are wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The newest one in the first of the segments that has it.
    First,
    /// The newest one in each.
    OfEach,
}

/// How a segment is asked for a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Not at all.
    Not,
    /// Its filter first, as the key may be elsewhere.
    Filter,
    /// Its block, as no other piece may have the key.
    Block,
}

/// Rows of some keys in one segment, or in one of several pieces.
pub struct Hits {
    /// The number of the segment or piece.
    pub of: usize,
    /// The number of each key, and of its row in `rows`.
    pub found: Few<(u32, u32)>,
    /// The rows that were found, with the columns that were asked for.
    pub rows: Rows,
}

/// A key that is looked for.
struct Key<'a> {
    number: u32,
    bytes: &'a [u8],
    /// Behind its newest row.
    past: Bound,
}

/// Keys that are looked up at once.
struct Chunk<'a> {
    keys: Few<Key<'a>>,
    /// Of which of them a row was found.
    is_found: Few<bool>,
}

/// A key and a block that holds its newest row in a segment, if that has one.
struct Candidate {
    /// The key's place in its chunk.
    at: usize,
    /// The segment's place.
    of: usize,
    place: BlockPlace,
    /// The filter was asked, and does not exclude the key.
    is_let_through: bool,
}

/// The block of a candidate, once it was looked into.
struct LookedInto<'p> {
    view: BlockView<'p>,
    /// The row of the key, if the block has one that was not erased.
    row: Option<u32>,
}

/// A key all of whose rows in a block were erased, and the row before these that may have it, too.
struct Before {
    at: usize,
    of: usize,
    ordinal: u64,
}

/// Where some keys may be, segment by segment.
#[derive(Default)]
struct Candidates {
    blocks: Few<Candidate>,
    /// Which pages could not be read. That does not matter if one row is wanted and a segment before has the key.
    unread: Few<Unread>,
}

/// A page that says where a key may be in a segment.
struct Unread {
    at: usize,
    of: usize,
    error: StorageError,
}

/// The rows that were found.
#[derive(Default)]
struct Found {
    hits: Vec<Hits>,
    /// Rows that are not in `hits` yet, by segment.
    open: Few<Option<Open>>,
    /// Bytes of keys and strings in both.
    bytes: usize,
}

/// Rows of one segment, with the numbers of their keys.
struct Open {
    keys: Vec<(u32, u32)>,
    rows: RowsBuilder,
    bytes: usize,
}

impl<'a> Lookup<'a> {
    /// The rows that were found. Those of a segment are in order where the rows of each are wanted, or there is no other, and no key has
    /// several rows in one.
    pub fn find(&self) -> Result<Vec<Hits>> {
        if self.segments.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = Found::default();
        let mut dictionaries = dictionaries::Ahead::default();
        let mut from = 0;
        while from < self.asked.len() && found.bytes <= self.bytes_max {
            let spanned = self.segments.iter().map(|searched| &searched.spanned);
            let to = end_of_chunk(spanned, from, self.asked.len());
            if !(self.go_on)(to - from) {
                break;
            }
            let key = |&number: &u32| self.key(number);
            let keys: Few<Key<'_>> = self.asked[from..to].iter().map(key).collect();
            let Candidates { mut blocks, unread } = self.candidates(from, &keys);
            let is_found: Few<bool> = smallvec![false; keys.len()];
            let mut chunk = Chunk { keys, is_found };
            loop {
                let matters = |page: &Unread| {
                    let is_before = |block: &Candidate| block.at == page.at && block.of < page.of;
                    let is_spared = || chunk.is_found[page.at] || blocks.iter().any(is_before);
                    self.which == Which::OfEach || !is_spared()
                };
                if let Some(page) = unread.iter().find(|page| matters(page)) {
                    return Err(page.error.clone());
                }
                if blocks.is_empty() {
                    break;
                }
                let (now, later) = match self.which {
                    Which::First if self.segments.len() > 1 => {
                        first_of_each(blocks, chunk.keys.len())
                    }
                    _ => (blocks, Few::new()),
                };
                let before = self.read(&now, &mut chunk, &mut dictionaries, &mut found)?;
                let Some(before) = before else { break };
                blocks = self.blocks_of(&before)?;
                blocks.extend(later);
                if self.which == Which::First {
                    blocks.retain(|block| !chunk.is_found[block.at]);
                }
                blocks.sort_by_key(|block| block.of);
            }
            from = to;
        }
        (0..found.open.len()).try_for_each(|of| found.hand_on(self, of))?;
        Ok(found.hits)
    }

    fn cache(&self) -> &'a Arc<PageCache> {
        self.segments[0].segment.shared_cache()
    }

    fn key(&self, number: u32) -> Key<'a> {
        let bytes = self.keys.value(number as usize);
        Key { number, bytes, past: Bound::past_key(bytes) }
    }

    /// The blocks in which some keys may be, which follow `from` others.
    fn candidates(&self, from: usize, keys: &[Key<'_>]) -> Candidates {
        // The key's place, its segment, and whether the filter is asked.
        let mut within: Few<(usize, usize, bool)> = Few::new();
        for (of, searched) in self.segments.iter().enumerate() {
            for at in overlap(&searched.spanned, &(from..from + keys.len())) {
                match (self.ask)(of, self.asked[at]) {
                    Ask::Not => {}
                    ask => within.push((at - from, of, ask == Ask::Filter)),
                }
            }
        }
        if within.is_empty() {
            return Candidates::default();
        }
        let page_of = |&(at, of, _): &(usize, usize, bool)| {
            let segment = self.segments[of].segment;
            (segment, segment.summary.page_of_bound(&keys[at].past))
        };
        let wanted: Few<_> = within.iter().map(page_of).collect();
        let pages = Segment::index_pages_of(self.cache(), &wanted);
        // Where filters are asked.
        let mut filtered: Few<(usize, u64, FilterPlace)> = Few::new();
        for (candidate, (&(at, _, has_filter), page)) in within.iter().zip(&pages).enumerate() {
            if let (true, Ok(page)) = (has_filter, page) {
                let hash = key_hash(keys[at].bytes);
                filtered.extend(page.filter_place(hash).map(|place| (candidate, hash, place)));
            }
        }
        let request = |(candidate, _, place): &(usize, u64, FilterPlace)| {
            let (segment, page) = wanted[*candidate];
            segment.filter_request(page, place.page)
        };
        let requests: Few<_> = filtered.iter().map(request).collect();
        let payloads = match requests.is_empty() {
            true => Few::new(),
            false => self.cache().payloads(&requests),
        };
        // Whether the key passes the filter, where that was asked.
        let mut passes: Few<Option<Result<bool>>> = Few::new();
        passes.resize_with(within.len(), || None);
        for ((candidate, hash, place), (request, payload)) in
            filtered.into_iter().zip(requests.iter().zip(payloads))
        {
            let damaged = |error| wanted[candidate].0.damaged(request.offset, error);
            passes[candidate] =
                Some(payload.and_then(|page| may_contain(&page, place, hash).map_err(damaged)));
        }
        let mut candidates = Candidates::default();
        candidates.blocks.reserve(within.len());
        for (((at, of, _), page), passes) in within.into_iter().zip(pages).zip(passes) {
            let is_let_through = passes.is_some();
            match (passes, page) {
                (Some(Ok(false)), _) => {}
                (None | Some(Ok(true)), Ok(page)) => {
                    let place = page.block_of_bound(&keys[at].past);
                    candidates.blocks.push(Candidate { at, of, place, is_let_through });
                }
                (Some(Err(error)), _) | (_, Err(error)) => {
                    candidates.unread.push(Unread { at, of, error });
                }
            }
        }
        candidates
    }

    /// The blocks with some rows. Their index pages are read together.
    fn blocks_of(&self, rows: &[Before]) -> Result<Few<Candidate>> {
        if rows.is_empty() {
            return Ok(Few::new());
        }
        let page_of = |row: &Before| {
            let segment = self.segments[row.of].segment;
            (segment, segment.summary.page_of_ordinal(row.ordinal))
        };
        let wanted: Few<_> = rows.iter().map(page_of).collect();
        let mut blocks = Few::new();
        for (row, page) in rows.iter().zip(Segment::index_pages_of(self.cache(), &wanted)) {
            let &Before { at, of, ordinal } = row;
            let place = page?.block_of_ordinal(ordinal);
            blocks.push(Candidate { at, of, place, is_let_through: false });
        }
        Ok(blocks)
    }

    /// Looks into the blocks of some candidates, and notes which keys were found. Gives where the rows of others may be, before those that
    /// were erased; nothing if no more is wanted.
    fn read(
        &self,
        candidates: &[Candidate],
        chunk: &mut Chunk<'_>,
        dictionaries: &mut dictionaries::Ahead,
        found: &mut Found,
    ) -> Result<Option<Few<Before>>> {
        // The thread that reads ahead has these, and does not ask `go_on`.
        let (segments, projection) = (self.segments, self.projection);
        let mut before = Few::new();
        let goes_on = read_ahead(
            candidates,
            |candidate| candidate.place.bytes,
            |window: &[Candidate]| read_blocks(segments, projection, window),
            |window, (of_window, payloads)| {
                dictionaries.add(of_window?);
                let payloads = payloads.into_iter().collect::<Result<Few<_>>>()?;
                let mut looked = Few::new();
                for (candidate, payload) in window.iter().zip(&payloads) {
                    looked.push(self.look(&chunk.keys, candidate, payload, &mut before)?);
                }
                self.copy(window, &looked, chunk, dictionaries, found)
            },
        );
        Ok(goes_on?.then_some(before))
    }

    /// Looks for a candidate's key in its block. If all rows of the key there were erased, the row before them is noted.
    fn look<'p>(
        &self,
        keys: &[Key<'_>],
        candidate: &Candidate,
        payload: &'p [u8],
        before: &mut Few<Before>,
    ) -> Result<LookedInto<'p>> {
        let Searched { segment, erased, .. } = self.segments[candidate.of];
        let view = segment.view(&candidate.place, payload, &[])?;
        let Key { bytes, past, .. } = &keys[candidate.at];
        let &Candidate { at, of, ref place, is_let_through } = candidate;
        let newest = segment.newest_in_block(&view, bytes, past, place, erased, is_let_through)?;
        let row = match newest {
            InBlock::Row(row) => Some(row),
            InBlock::Nothing => None,
            InBlock::Before(ordinal) => {
                before.push(Before { at, of, ordinal });
                None
            }
        };
        Ok(LookedInto { view, row })
    }

    /// Copies the rows that some blocks have of their candidates' keys. Says whether more is wanted.
    fn copy(
        &self,
        window: &[Candidate],
        looked: &[LookedInto<'_>],
        chunk: &mut Chunk<'_>,
        dictionaries: &mut dictionaries::Ahead,
        found: &mut Found,
    ) -> Result<bool> {
        let has_extents = self.projection.has_strings()
            && window.iter().any(|candidate| candidate.place.extent_bytes > 0);
        let mut ahead = ExtentsAhead::default();
        for (number, (candidate, LookedInto { view, row })) in window.iter().zip(looked).enumerate()
        {
            if !(self.go_on)(1) {
                return Ok(false);
            }
            let extents = match has_extents {
                false => Vec::new(),
                true => ahead.next(self.cache(), |further| {
                    let at = number + further;
                    let Some(looked) = looked.get(at) else { return Ok(None) };
                    let places = self.extents_of(&window[at], looked)?;
                    Ok(Some((self.segments[window[at].of].segment, places)))
                })?,
            };
            let Some(row) = *row else { continue };
            if dictionaries.of(candidate.of).is_none() {
                let rest = &window[number..];
                let read = dictionaries_of(self.segments, self.projection, rest, &[]).0?;
                dictionaries.add(read);
            }
            let of_segment = dictionaries.of(candidate.of).expect("they were read");
            let view = view.clone().with_dictionaries(of_segment).with_extents(&extents);
            chunk.is_found[candidate.at] = true;
            if !found.take(self, chunk.keys[candidate.at].number, candidate, &view, row)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Where the values of a candidate's row lie that lie apart.
    fn extents_of(
        &self,
        candidate: &Candidate,
        looked: &LookedInto<'_>,
    ) -> Result<Vec<ExtentPlace>> {
        let Candidate { of, place, .. } = candidate;
        match looked.row {
            Some(row) if place.extent_bytes > 0 => {
                let (segment, rows) = (self.segments[*of].segment, [row]);
                let rows = Picked::Rows(&rows);
                segment.extents_of(place.offset, &looked.view, self.projection, rows)
            }
            _ => Ok(Vec::new()),
        }
    }
}

/// A wave of blocks: their payloads, and the dictionaries of the first ones.
fn read_blocks(
    segments: &[Searched<'_>],
    projection: &Projection,
    window: &[Candidate],
) -> WithPayloads<dictionaries::Ahead> {
    let block =
        |candidate: &Candidate| segments[candidate.of].segment.block_request(&candidate.place);
    let requests: Few<_> = window.iter().map(block).collect();
    dictionaries_of(segments, projection, window, &requests)
}

/// The dictionaries for the first of some blocks, and the payloads of others.
fn dictionaries_of(
    segments: &[Searched<'_>],
    projection: &Projection,
    candidates: &[Candidate],
    requests: &[PageRequest<'_>],
) -> WithPayloads<dictionaries::Ahead> {
    let cache = segments[0].segment.shared_cache();
    let numbers = candidates.iter().map(|candidate| candidate.of);
    let segment = |number: usize| segments[number].segment;
    dictionaries::Ahead::read(cache, numbers, segment, projection, requests)
}

/// Of each key the first block, and all others.
fn first_of_each(blocks: Few<Candidate>, keys: usize) -> (Few<Candidate>, Few<Candidate>) {
    let mut has_one: Few<bool> = smallvec![false; keys];
    blocks.into_iter().partition(|block| !std::mem::replace(&mut has_one[block.at], true))
}

/// Up to which key, of those from one on, they are looked up together: at least one.
fn end_of_chunk<'s>(
    spanned: impl Iterator<Item = &'s Range<usize>> + Clone,
    from: usize,
    len: usize,
) -> usize {
    let mut count = (len - from).min(LOOKED_UP_AT_ONCE);
    let lookups = |count| {
        let spanned = spanned.clone();
        spanned.map(|spanned| overlap(spanned, &(from..from + count)).len()).sum::<usize>()
    };
    while count > 1 && lookups(count) > LOOKED_UP_AT_ONCE {
        count /= 2;
    }
    from + count
}

impl Found {
    /// Copies a row of a candidate's block. Says whether more is wanted.
    fn take(
        &mut self,
        lookup: &Lookup<'_>,
        key: u32,
        candidate: &Candidate,
        view: &BlockView<'_>,
        row: u32,
    ) -> Result<bool> {
        let of = candidate.of;
        if self.open.is_empty() {
            self.open.resize_with(lookup.segments.len(), || None);
        }
        let new = || {
            let rows = RowsBuilder::new(lookup.projection, 1);
            Open { keys: Vec::new(), rows, bytes: 0 }
        };
        let open = self.open[of].get_or_insert_with(new);
        let damaged = |error| lookup.segments[of].segment.damaged(candidate.place.offset, error);
        open.rows.append_rows(view, &[row]).map_err(damaged)?;
        open.keys.push((key, open.keys.len() as u32));
        let bytes = open.rows.string_bytes();
        self.bytes += bytes - open.bytes;
        open.bytes = bytes;
        if bytes >= byte_bounds::batch() {
            self.hand_on(lookup, of)?;
        }
        Ok(self.bytes <= lookup.bytes_max)
    }

    /// Makes what was found in a segment a part of the answer.
    fn hand_on(&mut self, lookup: &Lookup<'_>, of: usize) -> Result<()> {
        if let Some(Open { keys, rows, .. }) = self.open[of].take() {
            let Searched { number, segment, .. } = lookup.segments[of];
            let rows = segment.finish(rows)?;
            if self.hits.is_empty() {
                // Most calls find rows in one segment.
                self.hits.reserve_exact(1);
            }
            self.hits.push(Hits { of: number, found: keys.into(), rows });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use arrow_schema::{DataType, Field, Schema};
    use drillcore_format::ids::{Lsn, LsnRange, SegmentId, TableId};
    use drillcore_format::key::encode_keys;
    use drillcore_format::rows::Layout;
    use drillcore_format::schema::TableSchema;

    use super::*;
    use crate::files::memory_directory::MemoryDirectory;
    use crate::segments::segment_writer::SegmentWriter;

    #[test]
    fn keys_are_cut_by_how_many_segments_span_them() {
        let ends = |spanned: &[Range<usize>], len: usize| -> Vec<usize> {
            let next =
                |from: &usize| (*from < len).then(|| end_of_chunk(spanned.iter(), *from, len));
            std::iter::successors(next(&0), next).collect()
        };
        assert_eq!(ends(std::slice::from_ref(&(0..10_000)), 10_000), [4_096, 8_192, 10_000]);
        // Many segments one after the other: as if they were one.
        let one_after_the_other: Vec<_> = (0..100).map(|at| at * 100..(at + 1) * 100).collect();
        assert_eq!(ends(&one_after_the_other, 10_000), [4_096, 8_192, 10_000]);
        assert_eq!(ends(&vec![0..1_000; 8], 1_000), [500, 1_000]);
        assert_eq!(ends(&vec![0..3; 10_000], 3), [1, 2, 3]);
        assert_eq!(ends(&[], 5_000), [4_096, 5_000]);
    }

    const KEYS: i64 = 6;
    const ROWS: i64 = 3_000;

    /// The key of a row of a segment: most rows have few keys, whose rows fill blocks.
    fn key_of(segment: i64, row: i64) -> i64 {
        (row * KEYS / ROWS + segment) % (KEYS + 1)
    }

    fn layout() -> Layout {
        let int = |name: &str| Field::new(name, DataType::Int64, false);
        let filling = Field::new("filling", DataType::Utf8, false);
        let schema = Arc::new(Schema::new(vec![int("id"), int("row"), filling]));
        Layout::new(&TableSchema::new(schema, vec![0]))
    }

    fn segment(directory: &Arc<MemoryDirectory>, number: i64) -> Segment {
        let layout = layout();
        let mut rows: Vec<(i64, i64)> = (0..ROWS).map(|row| (key_of(number, row), row)).collect();
        rows.sort_unstable();
        // So that a block has fewer rows than a key.
        let filling = |row: i64| format!("{:x}", (row as u128 + 1).pow(9)).repeat(4);
        let columns: [ArrayRef; 3] = [
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|(key, _)| *key))),
            Arc::new(Int64Array::from_iter_values(0..ROWS)),
            Arc::new(StringArray::from_iter_values((0..ROWS).map(filling))),
        ];
        let schema = layout.schema().columns.clone();
        let batch = RecordBatch::try_new(schema, columns.to_vec()).unwrap();
        let (id, lsns) = (SegmentId(number as u64), LsnRange { first: Lsn(1), last: Lsn(1) });
        let writer = SegmentWriter::create(directory.clone(), id, TableId(1), &layout, lsns);
        let mut writer = writer.unwrap();
        writer.append(&layout.encode(&batch)).unwrap();
        writer.finish().unwrap();
        let cache = Arc::new(PageCache::new(directory.clone(), 1 << 20));
        Segment::open(directory.as_ref(), id, &layout, cache).unwrap()
    }

    /// Of each key the newest row that was not erased, whichever were, in the first segment or in each.
    #[test]
    fn rows_before_erased_ones_are_found_in_every_segment() {
        let directory = Arc::new(MemoryDirectory::new());
        let segments = [1, 2, 3].map(|number| segment(&directory, number));
        let layout = layout();
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(-1..=KEYS + 1));
        let keys = encode_keys(&[ids]);
        let asked: Vec<u32> = (0..keys.len() as u32).collect();
        // All but every 700th row; rows from the middle of a key on; a key; a few rows; none.
        let most = OrdinalIntervals::new((0..5).map(|at| at * 700..(at * 700 + 699).min(3_000)));
        let erasures = [
            most.clone(),
            OrdinalIntervals::of_range(250..1_700),
            OrdinalIntervals::of_range(500..1_000),
            OrdinalIntervals::of(&[499, 999, 1_998, 1_999, 2_999]),
            OrdinalIntervals::new([]),
        ];
        for turn in 0..erasures.len() {
            let erased = |of: usize| &erasures[(turn + of) % erasures.len()];
            let searched = |(of, segment): (usize, _)| {
                Searched::new(of, segment, Some(erased(of)), &keys, &asked)
            };
            let searched: Vec<Searched<'_>> = segments.iter().enumerate().map(searched).collect();
            let newest = |of: usize, id: i64| {
                let mut sorted: Vec<i64> =
                    (0..ROWS).map(|row| key_of(of as i64 + 1, row)).collect();
                sorted.sort_unstable();
                let is_left = |row: &usize| sorted[*row] == id && !erased(of).contains(*row as u32);
                (0..sorted.len()).rev().find(is_left).map(|row| (of, row as i64))
            };
            for which in [Which::First, Which::OfEach] {
                let (projection, ask) = (layout.all(), |_: usize, _: u32| Ask::Filter);
                let found = Lookup {
                    segments: &searched,
                    keys: &keys,
                    asked: &asked,
                    projection: &projection,
                    bytes_max: usize::MAX,
                    which,
                    ask: &ask,
                    go_on: &|_| true,
                };
                let mut rows: Vec<(usize, (usize, i64))> = Vec::new();
                for hits in found.find().unwrap() {
                    let values = hits.rows.value(0).as_primitive::<Int64Type>().clone();
                    let row = |(key, row): (u32, u32)| {
                        (key as usize, (hits.of, values.value(row as usize)))
                    };
                    rows.extend(hits.found.iter().copied().map(row));
                }
                rows.sort_unstable();
                let mut expected = Vec::new();
                for (key, id) in (-1..=KEYS + 1).enumerate() {
                    let of_each = (0..segments.len()).filter_map(|of| newest(of, id));
                    let wanted = if which == Which::First { 1 } else { segments.len() };
                    expected.extend(of_each.take(wanted).map(|row| (key, row)));
                }
                assert_eq!(rows, expected, "turn {turn}");
            }
        }
    }
}

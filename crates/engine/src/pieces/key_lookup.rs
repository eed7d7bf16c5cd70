//! Rows of pieces by their keys.

use std::borrow::Cow;
use std::ops::Range;

use drillcore_format::key::{Bound, Keys};
use drillcore_format::rows::Projection;
use drillcore_storage::few::Few;
use drillcore_storage::segments::lookup::{Ask, Hits, Lookup, Which};
use drillcore_storage::segments::segment::Segment;

use crate::calls::interrupt::{Asked, Interrupt};
use crate::error::Result;
use crate::pieces::live_rows::LiveRows;
use crate::pieces::piece::{Piece, SortedArray};

/// Keys that are looked for together in a piece of which rows were erased.
const KEYS_AT_ONCE: usize = 256;
/// How many more segments that span it are asked for a key than were asked before, of one key and of several.
const SEGMENTS_OF_ONE_KEY: usize = 1;
const SEGMENTS_OF_A_KEY: usize = 4;

/// Keys that are looked for, and what is wanted of their rows.
///
/// In a run, a key takes a binary search. A segment that does not span it costs nothing. Another one costs an index page and
/// a block; where another piece may have the key as well, a page of the filter comes between, which may spare the block. Where rows of
/// a segment were erased, the filter is not asked, and a key costs two index pages and two blocks, mostly the same.
#[derive(Clone, Copy)]
pub struct KeyLookup<'a> {
    /// What is named by number.
    pub keys: &'a Keys,
    pub projection: &'a Projection,
    /// Rows whose keys and strings take more are read in part.
    pub bytes_max: usize,
    pub interrupt: &'a Interrupt,
}

impl KeyLookup<'_> {
    /// The newest row of each key that `asked` names, ascending by key, of pieces that are given from the oldest.
    ///
    /// These are asked from the newest on until one has the key. Of the segments that span one key, the newest is asked first, then
    /// the next two, then four, and so on: so it takes at most twice the pages of asking one after the other. Several keys are looked for
    /// in four segments each at first, then in eight, and so on, counted over all keys together: so it takes at most twice the pages, and four
    /// per key.
    pub fn newest(&self, pieces: &[Piece], asked: &[u32]) -> Result<Vec<Hits>> {
        match *asked {
            [key] => Ok(self.newest_of_one(pieces, key)?.into_iter().collect()),
            _ => self.newest_of_each(pieces, asked, SEGMENTS_OF_A_KEY, 0),
        }
    }

    /// [`KeyLookup::newest`] of one key. There is mostly one segment that may have it.
    pub fn newest_of_one(&self, pieces: &[Piece], number: u32) -> Result<Option<Hits>> {
        let key = self.keys.value(number as usize);
        let (mut rest, mut segments_asked) = (pieces, 0);
        while let Some((newest, older)) = rest.split_last()
            && newest.unerased().is_none()
        {
            rest = older;
            if !newest.spans(key) {
                continue;
            }
            self.interrupt.check()?;
            match &newest.array {
                SortedArray::Run(run) => {
                    if let Some(row) = run.find(key) {
                        let found = vec![(number, row as u32)];
                        let hits = run.hits(found, self.projection, self.bytes_max);
                        return Ok(Some(Hits { of: older.len(), ..hits }));
                    }
                }
                SortedArray::Segment(segment) => {
                    let may_be_older = older.iter().any(|piece| piece.spans(key));
                    let rows = segment.newest_row(key, self.projection, may_be_older)?;
                    if let Some(rows) = rows {
                        let found = vec![(number, 0)];
                        return Ok(Some(Hits { of: older.len(), found, rows }));
                    }
                    segments_asked = 1;
                    break;
                }
            }
        }
        let mut hits = self.newest_of_each(rest, &[number], SEGMENTS_OF_ONE_KEY, segments_asked)?;
        Ok(hits.pop())
    }

    /// [`KeyLookup::newest`] of keys that were looked for in some segments, each in as many, and are looked for in some more at a
    /// time.
    fn newest_of_each(
        &self,
        pieces: &[Piece],
        asked: &[u32],
        segments_more: usize,
        mut segments_asked: usize,
    ) -> Result<Vec<Hits>> {
        let (mut rest, mut missing) = (pieces, Cow::Borrowed(asked));
        let mut is_found = Vec::new();
        let (mut hits, mut bytes) = (Vec::new(), 0);
        while let Some((newest, older)) = rest.split_last()
            && !missing.is_empty()
            && bytes <= self.bytes_max
        {
            let lookup = KeyLookup { bytes_max: self.bytes_max - bytes, ..*self };
            let mut found = match newest.unerased_segment() {
                Some(_) => {
                    let lookups_max = missing.len().saturating_mul(segments_asked + segments_more);
                    let (segments, lookups) =
                        self.segments_that_span(&mut rest, &missing, lookups_max);
                    // On average.
                    segments_asked += lookups / missing.len();
                    lookup.newest_in_segments(&segments, rest, &missing)?
                }
                None => {
                    rest = older;
                    let mut found = lookup.in_piece(newest, &missing, Ask::Block)?;
                    found.iter_mut().for_each(|hits| hits.of = older.len());
                    found
                }
            };
            if newest.segment().is_some() {
                bytes += found.iter().map(|hits| hits.rows.string_bytes()).sum::<usize>();
            }
            let found_count: usize = found.iter().map(|hits| hits.found.len()).sum();
            if found_count == missing.len() {
                missing = Cow::Borrowed(&[]);
            } else if found_count > 0 {
                is_found.resize(self.keys.len(), false);
                let keys = found.iter().flat_map(|hits| &hits.found);
                keys.for_each(|(key, _)| is_found[*key as usize] = true);
                missing.to_mut().retain(|key| !is_found[*key as usize]);
            }
            match hits.is_empty() {
                true => hits = found,
                false => hits.append(&mut found),
            }
        }
        Ok(hits)
    }

    /// Takes the newest segments off a list of pieces, as many as span the keys `lookups_max` times in all, and at least one that
    /// spans any. Gives those that do, each with its number, from the newest, and how often they span one.
    fn segments_that_span<'p>(
        &self,
        pieces: &mut &'p [Piece],
        asked: &[u32],
        lookups_max: usize,
    ) -> (Few<(usize, &'p Segment)>, usize) {
        let (mut segments, mut lookups) = (Few::new(), 0);
        while let Some((newest, older)) = pieces.split_last()
            && let Some(segment) = newest.unerased_segment()
        {
            let spanned = self.spanned(newest, asked).len();
            if spanned > 0 {
                if lookups + spanned > lookups_max && !segments.is_empty() {
                    break;
                }
                lookups += spanned;
                segments.push((older.len(), segment));
            }
            *pieces = older;
        }
        (segments, lookups)
    }

    /// The newest row of each key in the first of some segments that has it, which are given with their numbers among the pieces, the `older`
    /// of which may have it as well.
    fn newest_in_segments(
        &self,
        segments: &[(usize, &Segment)],
        older: &[Piece],
        asked: &[u32],
    ) -> Result<Vec<Hits>> {
        let ask = |at: usize, number: u32| {
            let key = self.keys.value(number as usize);
            let may_be_older = segments[at + 1..].iter().any(|(_, segment)| segment.spans(key))
                || older.iter().any(|piece| piece.spans(key));
            if may_be_older { Ask::Filter } else { Ask::Block }
        };
        self.in_segments(segments, asked, Which::First, &ask)
    }

    /// The newest row of each key in each of some pieces, in the order of these. Segments are asked together.
    pub fn of_each(&self, pieces: &[Piece], asked: &[u32]) -> Result<Vec<Hits>> {
        let mut hits = Vec::new();
        let mut segments = Vec::new();
        for (number, piece) in pieces.iter().enumerate() {
            let spanned = &asked[self.spanned(piece, asked)];
            if spanned.is_empty() {
                continue;
            }
            if let Some(segment) = piece.unerased_segment() {
                segments.push((number, segment));
                continue;
            }
            let found = self.in_piece(piece, spanned, Ask::Filter)?;
            hits.extend(found.into_iter().map(|found| Hits { of: number, ..found }));
        }
        let ask = |at: usize, key: u32| {
            let key = self.keys.value(key as usize);
            let (before, after) = (&pieces[..segments[at].0], &pieces[segments[at].0 + 1..]);
            let is_elsewhere = before.iter().chain(after).any(|piece| piece.spans(key));
            if is_elsewhere { Ask::Filter } else { Ask::Block }
        };
        hits.extend(self.in_segments(&segments, asked, Which::OfEach, &ask)?);
        hits.sort_by_key(|hits| hits.of);
        Ok(hits)
    }

    /// Which of the keys that `asked` names, ascending, a piece spans.
    fn spanned(&self, piece: &Piece, asked: &[u32]) -> Range<usize> {
        let (first, last) = piece.key_ends();
        self.keys.between(asked, first, last)
    }

    /// The newest row of each key in one piece, as piece number 0. How it is asked matters to a segment of which no rows were erased.
    pub fn in_piece(&self, piece: &Piece, asked: &[u32], ask: Ask) -> Result<Vec<Hits>> {
        if let Some(live) = piece.unerased() {
            return self.unerased(piece, &live, asked);
        }
        match &piece.array {
            SortedArray::Segment(segment) => {
                self.in_segments(&[(0, segment)], asked, Which::First, &|_, _| ask)
            }
            SortedArray::Run(run) => {
                let interrupted = Asked::new(self.interrupt);
                let asked = asked.iter().take_while(|_| interrupted.go_on_shortly());
                let find =
                    |&key: &u32| Some((key, run.find(self.keys.value(key as usize))? as u32));
                let found: Vec<(u32, u32)> = asked.filter_map(find).collect();
                interrupted.answer()?;
                Ok(match found.is_empty() {
                    true => Vec::new(),
                    false => vec![run.hits(found, self.projection, self.bytes_max)],
                })
            }
        }
    }

    /// The newest row of each key in the first of some segments that has it, or in each. `ask` says how one is asked for a key that it
    /// spans: by its place in the list and the key's number.
    pub fn in_segments(
        &self,
        segments: &[(usize, &Segment)],
        asked: &[u32],
        which: Which,
        ask: &dyn Fn(usize, u32) -> Ask,
    ) -> Result<Vec<Hits>> {
        let KeyLookup { keys, projection, bytes_max, interrupt } = *self;
        let interrupted = Asked::new(interrupt);
        let go_on = |keys: usize| match keys {
            1 => interrupted.go_on_shortly(),
            _ => interrupted.go_on(),
        };
        let go_on = &go_on;
        let lookup = Lookup { segments, keys, asked, projection, bytes_max, which, ask, go_on };
        let hits = lookup.find()?;
        interrupted.answer()?;
        Ok(hits)
    }

    /// The newest of the rows that were not erased: on disk at most two index pages and two blocks per key, those of many keys together.
    fn unerased(&self, piece: &Piece, live: &LiveRows, asked: &[u32]) -> Result<Vec<Hits>> {
        let spanned = &asked[self.spanned(piece, asked)];
        let mut found = Vec::new();
        for keys in spanned.chunks(KEYS_AT_ONCE) {
            self.interrupt.check()?;
            let ends_of = |&key: &u32| {
                let key = self.keys.value(key as usize);
                [Bound::at_key(key), Bound::past_key(key)]
            };
            let bounds: Vec<Bound> = keys.iter().flat_map(ends_of).collect();
            let ranks = piece.ranks(&bounds)?;
            for (&key, ends) in keys.iter().zip(ranks.chunks_exact(2)) {
                let row = live.trimmed(ends[0]..ends[1]).map(|range| range.end as u32 - 1);
                found.extend(row.map(|row| (key, row)));
            }
        }
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let mut ordinals: Vec<u32> = found.iter().map(|(_, ordinal)| *ordinal).collect();
        ordinals.sort_unstable();
        ordinals.dedup();
        // What is too much is read in part, and one byte more than may be shows that.
        let bytes_max = self.bytes_max.saturating_add(1);
        let rows = piece.fetch_some(&ordinals, self.projection, bytes_max, self.interrupt)?;
        ordinals.truncate(rows.len());
        found.retain_mut(|(_, ordinal)| match ordinals.binary_search(ordinal) {
            Ok(row) => {
                *ordinal = row as u32;
                true
            }
            Err(_) => false,
        });
        Ok(vec![Hits { of: 0, found, rows }])
    }
}

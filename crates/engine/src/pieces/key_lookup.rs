//! Rows of pieces by their keys.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use drillcore_format::key::{Bound, Keys};
use drillcore_format::rows::Projection;
use drillcore_storage::few::Few;
use drillcore_storage::segments::lookup::{Ask, Hits, Lookup, Searched, Which};

use crate::calls::interrupt::{Asked, Interrupt};
use crate::error::Result;
use crate::pieces::erased_rows::ErasedRows;
use crate::pieces::piece::{Piece, SortedArray};
use crate::pieces::run::Run;

/// How many more segments that span it are asked for a key than were asked before, of one key and of several.
const SEGMENTS_OF_ONE_KEY: usize = 1;
const SEGMENTS_OF_A_KEY: usize = 4;

/// Keys that are looked for, and what is wanted of their rows.
///
/// In a run, a key takes a binary search. A segment that does not span it costs nothing. Another one costs an index page and
/// a block; where another piece may have the key as well, a page of the filter comes between, which may spare the block. Where a key
/// has several rows in a segment, of which the newest were erased, another index page and another block may come behind.
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
        while let Some((newest, older)) = rest.split_last() {
            rest = older;
            if !newest.spans(key) {
                continue;
            }
            self.interrupt.check()?;
            match &newest.array {
                SortedArray::Run(run) => {
                    if let Some(row) = newest_in_run(run, newest.erased.as_ref(), key) {
                        let found = Few::from_slice(&[(number, row)]);
                        let hits = run.hits(found, self.projection, self.bytes_max);
                        return Ok(Some(Hits { of: older.len(), ..hits }));
                    }
                }
                SortedArray::Segment(segment) => {
                    let may_be_older = older.iter().any(|piece| piece.spans(key));
                    let erased = newest.erased.as_deref().map(ErasedRows::ordinals);
                    let rows = segment.newest_row(key, self.projection, erased, may_be_older)?;
                    if let Some(rows) = rows {
                        let found = Few::from_slice(&[(number, 0)]);
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
            let mut found = match newest.segment() {
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
    ) -> (Few<Searched<'p>>, usize) {
        let (mut segments, mut lookups) = (Few::new(), 0);
        while let Some((newest, older)) = pieces.split_last()
            && let Some(searched) = self.searched(older.len(), newest, asked)
        {
            let spanned = searched.spanned.len();
            if spanned > 0 {
                if lookups + spanned > lookups_max && !segments.is_empty() {
                    break;
                }
                lookups += spanned;
                segments.push(searched);
            }
            *pieces = older;
        }
        (segments, lookups)
    }

    /// The newest row of each key in the first of some segments that has it, which are given with their numbers among the pieces, the `older`
    /// of which may have it as well.
    fn newest_in_segments(
        &self,
        segments: &[Searched<'_>],
        older: &[Piece],
        asked: &[u32],
    ) -> Result<Vec<Hits>> {
        let ask = |at: usize, number: u32| {
            let key = self.keys.value(number as usize);
            let may_be_older = segments[at + 1..].iter().any(|older| older.segment.spans(key))
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
            if let Some(searched) = self.searched(number, piece, asked) {
                if !searched.spanned.is_empty() {
                    segments.push(searched);
                }
                continue;
            }
            let spanned = &asked[self.spanned(piece, asked)];
            if spanned.is_empty() {
                continue;
            }
            let found = self.in_piece(piece, spanned, Ask::Filter)?;
            hits.extend(found.into_iter().map(|found| Hits { of: number, ..found }));
        }
        let ask = |at: usize, key: u32| {
            let key = self.keys.value(key as usize);
            let number = segments[at].number;
            let (before, after) = (&pieces[..number], &pieces[number + 1..]);
            let is_elsewhere = before.iter().chain(after).any(|piece| piece.spans(key));
            if is_elsewhere { Ask::Filter } else { Ask::Block }
        };
        hits.extend(self.in_segments(&segments, asked, Which::OfEach, &ask)?);
        hits.sort_by_key(|hits| hits.of);
        Ok(hits)
    }

    /// The segment that a piece is, if it is one, as one in which keys are looked for.
    pub fn searched<'p>(
        &self,
        number: usize,
        piece: &'p Piece,
        asked: &[u32],
    ) -> Option<Searched<'p>> {
        let erased = piece.erased.as_deref().map(ErasedRows::ordinals);
        Some(Searched::new(number, piece.segment()?, erased, self.keys, asked))
    }

    /// Which of the keys that `asked` names, ascending, a piece spans.
    fn spanned(&self, piece: &Piece, asked: &[u32]) -> Range<usize> {
        let (first, last) = piece.key_ends();
        self.keys.between(asked, first, last)
    }

    /// The newest row of each key in one piece, as piece number 0. How it is asked matters to a segment.
    pub fn in_piece(&self, piece: &Piece, asked: &[u32], ask: Ask) -> Result<Vec<Hits>> {
        if let Some(searched) = self.searched(0, piece, asked) {
            return self.in_segments(&[searched], asked, Which::First, &|_, _| ask);
        }
        let run = piece.run().expect("what is no segment is a run");
        let interrupted = Asked::new(self.interrupt);
        let asked = asked.iter().take_while(|_| interrupted.go_on_shortly());
        let find = |&number: &u32| {
            let key = self.keys.value(number as usize);
            Some((number, newest_in_run(run, piece.erased.as_ref(), key)?))
        };
        let found: Vec<(u32, u32)> = asked.filter_map(find).collect();
        interrupted.answer()?;
        Ok(match found.is_empty() {
            true => Vec::new(),
            false => vec![run.hits(found.into(), self.projection, self.bytes_max)],
        })
    }

    /// The newest row of each key in the first of some segments that has it, or in each. `ask` says how one is asked for a key that it
    /// spans: by its place in the list and the key's number.
    pub fn in_segments(
        &self,
        segments: &[Searched<'_>],
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
}

/// The newest row with a key of a run, of those that were not erased.
fn newest_in_run(run: &Run, erased: Option<&Arc<ErasedRows>>, key: &[u8]) -> Option<u32> {
    let newest = run.find(key)?;
    let Some(erased) = erased else { return Some(newest as u32) };
    let position = erased.live_before(newest + 1).checked_sub(1)?;
    let ordinal = erased.outside(position);
    let has_key = || ordinal >= run.rank(&Bound::at_key(key));
    (ordinal == newest || has_key()).then_some(ordinal as u32)
}

//! Fences: every 64th of some sorted keys, as a machine word. They bring a search near its end before it reads a key.

use std::ops::RangeInclusive;

use crate::key::bound::{Bound, BoundWithin};
use crate::key::encoding::shared_len;
use crate::key::keys::Keys;

/// Keys from one fence to the next: what is searched key by key lies together then, and fences take an eighth of a byte a
/// key.
const STRIDE: usize = 64;

/// Fences of sorted keys.
///
/// A fence is the first eight bytes of a key behind what all keys begin with, as a number, which orders like the keys as
/// far as it goes. So a search among fences reads a word each step, out of a list that stays in the processor's caches,
/// where a search among keys waits for memory twice.
#[derive(Debug)]
pub struct KeyFences {
    /// Bytes that all keys begin with.
    shared: Box<[u8]>,
    fences: Box<[u64]>,
    keys: usize,
}

impl KeyFences {
    /// Fences of keys that ascend. O(keys / 64).
    pub fn new(keys: &Keys) -> KeyFences {
        let shared = match keys.len() {
            0 => &[][..],
            len => {
                let first = keys.value(0);
                &first[..shared_len(first, keys.value(len - 1))]
            }
        };
        let fence = |number: usize| word(&keys.value(number)[shared.len()..], 0x00);
        let fences = (0..keys.len()).step_by(STRIDE).map(fence).collect();
        KeyFences { shared: shared.into(), fences, keys: keys.len() }
    }

    /// The number of keys before a bound. `keys` are those that the fences were made of. O(log keys), of which the last
    /// few steps compare keys; `compared` grows by their number.
    pub fn rank(&self, keys: &Keys, bound: &Bound, compared: &mut usize) -> usize {
        let mut search = [self.search(keys, bound)];
        search_together(&mut search, compared);
        search[0].rank()
    }

    /// A search for the number of keys before a bound, to be done by [`search_together`].
    pub fn search<'k>(&'k self, keys: &'k Keys, bound: &'k Bound) -> RankSearch<'k> {
        match bound.within(&self.shared) {
            BoundWithin::Before => self.found(keys, 0),
            BoundWithin::Behind => self.found(keys, self.keys),
            BoundWithin::At { rest, past_prefix } => {
                let least = word(rest, 0x00);
                let greatest = if past_prefix { word(rest, 0xff) } else { least };
                let end = if past_prefix { End::PastPrefix } else { End::At };
                self.search_words(keys, rest, end, least..=greatest)
            }
        }
    }

    /// The number of the last key that equals `key`, if one does. Costs what [`KeyFences::rank`] does.
    pub fn last(&self, keys: &Keys, key: &[u8], compared: &mut usize) -> Option<usize> {
        let rest = key.strip_prefix(&*self.shared)?;
        let least = word(rest, 0x00);
        let mut search = [self.search_words(keys, rest, End::PastKey, least..=least)];
        search_together(&mut search, compared);
        *compared += 1;
        search[0].rank().checked_sub(1).filter(|&last| keys.value(last) == key)
    }

    /// The heap bytes held.
    pub fn allocated_bytes(&self) -> usize {
        self.shared.len() + size_of_val(&*self.fences)
    }

    fn found<'k>(&'k self, keys: &'k Keys, rank: usize) -> RankSearch<'k> {
        let (fences, rest) = (&self.fences[..0], &[][..]);
        let (low, high, shared, end) = (rank, rank, self.shared.len(), End::At);
        RankSearch {
            keys,
            shared,
            fences,
            rest,
            end,
            least: 0,
            greatest: 0,
            base: 0,
            left: 0,
            low,
            high,
        }
    }

    fn search_words<'k>(
        &'k self,
        keys: &'k Keys,
        rest: &'k [u8],
        end: End,
        words: RangeInclusive<u64>,
    ) -> RankSearch<'k> {
        let (least, greatest) = words.into_inner();
        let (fences, shared, left) = (&*self.fences, self.shared.len(), self.fences.len());
        let (low, high) = (0, self.keys);
        RankSearch { keys, shared, fences, rest, end, least, greatest, base: 0, left, low, high }
    }
}

/// The search of one place in sorted keys. It looks at words first and, where these are equal, at keys.
pub struct RankSearch<'k> {
    keys: &'k Keys,
    /// How many bytes all keys have in common.
    shared: usize,
    fences: &'k [u64],
    /// What of a key is compared, behind what all have in common, ...
    rest: &'k [u8],
    /// ... and where the place is.
    end: End,
    /// Keys whose words are less lie before the place, ...
    least: u64,
    /// ... and those whose words are greater behind it.
    greatest: u64,
    /// As many fences are less than `least`, of the first fences, ...
    base: usize,
    /// ... and as many come after these that may be.
    left: usize,
    /// At least this many keys lie before the place, ...
    low: usize,
    /// ... and all from this one on behind it.
    high: usize,
}

/// Where a place is.
#[derive(Debug, Clone, Copy)]
enum End {
    /// Before the key.
    At,
    /// Behind it.
    PastKey,
    /// Behind all that begin with it.
    PastPrefix,
}

/// Does some searches, a step of each in turn: the next search goes on while one waits for memory. `compared` grows by the number
/// of keys that were compared.
pub fn search_together(searches: &mut [RankSearch<'_>], compared: &mut usize) {
    while searches.iter_mut().map(RankSearch::step_among_fences).sum::<usize>() > 0 {}
    searches.iter_mut().for_each(RankSearch::enter_keys);
    loop {
        let steps: usize = searches.iter_mut().map(RankSearch::step_among_keys).sum();
        *compared += steps;
        if steps == 0 {
            break;
        }
    }
}

impl RankSearch<'_> {
    /// The number of keys before the place, once the search is done.
    pub fn rank(&self) -> usize {
        self.low
    }

    /// Halves what is left, without a branch that a processor would have to guess. Returns how many fences were compared, one or
    /// none.
    #[inline]
    fn step_among_fences(&mut self) -> usize {
        if self.left < 2 {
            return 0;
        }
        let half = self.left / 2;
        let middle = self.base + half;
        self.base = if self.fences[middle - 1] < self.least { middle } else { self.base };
        self.left -= half;
        1
    }

    /// From the fences to the keys between two.
    fn enter_keys(&mut self) {
        if self.fences.is_empty() {
            return;
        }
        let below = self.base + usize::from(self.fences[self.base] < self.least);
        let others = &self.fences[below..];
        let among = match others.first() {
            Some(&fence) if fence <= self.greatest => {
                others.partition_point(|&fence| fence <= self.greatest)
            }
            _ => 0,
        };
        self.low = below.checked_sub(1).map_or(0, |last| last * STRIDE + 1);
        self.high = self.high.min((below + among) * STRIDE);
    }

    /// Compares a key; returns how many were, one or none.
    #[inline]
    fn step_among_keys(&mut self) -> usize {
        if self.low >= self.high {
            return 0;
        }
        let middle = self.low + (self.high - self.low) / 2;
        let tail = &self.keys.value(middle)[self.shared..];
        let word = word(tail, 0x00);
        let is_behind = word > self.greatest || word >= self.least && self.is_behind(tail);
        self.high = if is_behind { middle } else { self.high };
        self.low = if is_behind { self.low } else { middle + 1 };
        1
    }

    fn is_behind(&self, tail: &[u8]) -> bool {
        match self.end {
            End::At => tail >= self.rest,
            End::PastKey => tail > self.rest,
            End::PastPrefix => tail > self.rest && !tail.starts_with(self.rest),
        }
    }
}

/// The first eight bytes as a number that orders like them; what is missing is filled up.
fn word(bytes: &[u8], fill: u8) -> u64 {
    match bytes.first_chunk() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let mut first = [fill; size_of::<u64>()];
            first[..bytes.len()].copy_from_slice(bytes);
            u64::from_be_bytes(first)
        }
    }
}

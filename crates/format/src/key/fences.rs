//! Fences: every 64th of some sorted keys, as a machine word. They bring a search near its end before it reads a key.

use std::hint::select_unpredictable;
use std::ops::Range;

use crate::key::bound::{Bound, BoundWithin};
use crate::key::encoding::shared_len;
use crate::key::keys::Keys;

/// Keys from one fence to the next: what is searched key by key lies together then, and fences take an eighth of a byte a
/// key.
const STRIDE: usize = 64;
/// Fences of a node: they lie in two or three cache lines.
const NODE: usize = 16;
/// Keys from the place where one is expected to those that are looked at with it. Of keys that are spread at random, all but one
/// place in twenty lies between these two.
const NEAR: usize = 8;
/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// Fences of sorted keys.
///
/// A fence is the first eight bytes of a key behind what all keys begin with, as a number, which orders like the keys as
/// far as it goes. So a search among fences reads words out of a list that stays in the processor's caches, where a search
/// among keys waits for memory at each step. They are searched as a tree: upper levels are few words, and of each level one
/// node is read.
#[derive(Debug)]
pub struct KeyFences {
    /// Bytes that all keys begin with.
    shared: Box<[u8]>,
    /// Where the words of keys are read, if these have one length.
    even: Option<EvenWords>,
    /// Every fence in the last, in each before that every [`NODE`]th of the next, and in the first no more than a node.
    levels: Box<[Box<[u64]>]>,
    keys: usize,
}

/// Where the words of keys are that have one length, which is that of a word at least.
#[derive(Debug, Clone, Copy)]
struct EvenWords {
    width: usize,
    /// A word is read from here on in a key, ...
    at: usize,
    /// ... and its first bits are dropped, which all keys have in common: some are read where a key ends too soon behind them.
    dropped: u32,
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
        let fences: Box<[u64]> = (0..keys.len()).step_by(STRIDE).map(fence).collect();
        let mut levels = vec![fences];
        while levels[0].len() > NODE {
            levels.insert(0, levels[0].iter().copied().step_by(NODE).collect());
        }
        let even = keys.width().and_then(|width| EvenWords::new(width, shared.len()));
        KeyFences { shared: shared.into(), even, levels: levels.into(), keys: keys.len() }
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
            BoundWithin::At { rest, past_prefix: false } => self.search_rest(keys, rest, End::At),
            BoundWithin::At { rest, past_prefix: true } => {
                self.search_rest(keys, rest, End::PastPrefix)
            }
        }
    }

    /// The number of the last key that equals `key`, if one does. Costs what [`KeyFences::rank`] does.
    pub fn last(&self, keys: &Keys, key: &[u8], compared: &mut usize) -> Option<usize> {
        let rest = key.strip_prefix(&*self.shared)?;
        let mut search = [self.search_rest(keys, rest, End::PastKey)];
        search_together(&mut search, compared);
        *compared += 1;
        search[0].rank().checked_sub(1).filter(|&last| keys.value(last) == key)
    }

    /// The heap bytes held.
    pub fn allocated_bytes(&self) -> usize {
        let levels: usize = self.levels.iter().map(|level| size_of_val(&**level)).sum();
        self.shared.len() + size_of_val(&*self.levels) + levels
    }

    fn found<'k>(&'k self, keys: &'k Keys, rank: usize) -> RankSearch<'k> {
        self.search_words(keys, &[], End::At, (0, 0), rank..rank)
    }

    fn search_rest<'k>(&'k self, keys: &'k Keys, rest: &'k [u8], end: End) -> RankSearch<'k> {
        match self.unclear(keys, rest, end) {
            Some(unclear) => self.search_words(keys, rest, end, unclear, 0..self.keys),
            None => self.found(keys, self.keys),
        }
    }

    fn search_words<'k>(
        &'k self,
        keys: &'k Keys,
        rest: &'k [u8],
        end: End,
        (least, unclear): (u64, u64),
        ranks: Range<usize>,
    ) -> RankSearch<'k> {
        RankSearch {
            fences: self,
            keys,
            even_bytes: keys.even_bytes().map_or(&[], |(_, bytes)| bytes),
            rest,
            end,
            least,
            unclear,
            level: 0,
            below: 0,
            low: ranks.start,
            high: ranks.end,
            expected: 0,
            words_near: [0; 3],
        }
    }

    /// Which words leave open on which side of a place their keys lie: the first of them, and how many there are. Keys with lesser
    /// words lie before the place, others behind it. `None` if all keys lie before the place.
    fn unclear(&self, keys: &Keys, rest: &[u8], end: End) -> Option<(u64, u64)> {
        let tail = keys.width().map(|width| width - self.shared.len());
        if let Some(tail) = tail.filter(|&tail| tail <= WORD) {
            return Some((first_behind(rest, end, tail)?, 0));
        }
        let least = word(rest, 0x00);
        match end {
            End::At | End::PastKey => Some((least, 1)),
            End::PastPrefix if rest.is_empty() => None,
            End::PastPrefix => Some((least, word(rest, 0xff) - least + 1)),
        }
    }
}

impl EvenWords {
    /// Reads keys of `width` bytes, the first `shared` of which they have in common. `None` if they are shorter than a word, or all the same.
    fn new(width: usize, shared: usize) -> Option<EvenWords> {
        let at = shared.min(width.checked_sub(WORD)?);
        let dropped = 8 * (shared - at) as u32;
        (dropped < u64::BITS).then_some(EvenWords { width, at, dropped })
    }
}

/// The search of one place in sorted keys. It looks at words first and, where these do not tell, at keys.
pub struct RankSearch<'k> {
    fences: &'k KeyFences,
    keys: &'k Keys,
    /// All keys, if they have one length.
    even_bytes: &'k [u8],
    /// What of a key is compared, behind what all have in common, ...
    rest: &'k [u8],
    /// ... and where the place is.
    end: End,
    /// Keys whose words are less lie before the place, ...
    least: u64,
    /// ... and others behind it, but that as many words from `least` on do not tell. None if words tell all.
    unclear: u64,
    /// How many of [`KeyFences::levels`] were searched, ...
    level: u32,
    /// ... and how many fences of the last of these are less than `least`.
    below: usize,
    /// At least this many keys lie before the place, ...
    low: usize,
    /// ... and all from this one on behind it.
    high: usize,
    /// The place, if keys were spread evenly from one fence to the next.
    expected: usize,
    /// Of the keys [near](RankSearch::near) it.
    words_near: [u64; 3],
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
    let levels = searches.iter().map(|search| search.fences.levels.len()).max().unwrap_or(0);
    for _ in 0..levels {
        searches.iter_mut().for_each(RankSearch::descend);
    }
    searches.iter_mut().for_each(RankSearch::enter_keys);
    searches.iter_mut().for_each(RankSearch::read_near);
    *compared += searches.iter_mut().map(RankSearch::compare_near).sum::<usize>();
    loop {
        let steps: usize = searches.iter_mut().map(RankSearch::halve).sum();
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

    /// Counts in the next level the fences that are less, of which all but those of one node are known. Without a branch that a
    /// processor would have to guess.
    #[inline]
    fn descend(&mut self) {
        let Some(level) = self.fences.levels.get(self.level as usize) else { return };
        self.level += 1;
        // Where none was less above, the first is none either.
        let node = self.below.saturating_sub(1) * NODE;
        let fences = &level[node..];
        let is_less = |fence: &u64| *fence < self.least;
        self.below = node
            + match fences.first_chunk::<NODE>() {
                Some(fences) => fences.partition_point(is_less),
                None => fences.partition_point(is_less),
            };
    }

    /// From the fences to the keys between two.
    fn enter_keys(&mut self) {
        let fences = self.fences.levels.last().expect("one has all fences");
        if self.low >= self.high {
            return;
        }
        let (before, others) = fences.split_at(self.below);
        let is_unclear = |&fence: &u64| self.is_unclear(fence);
        let unclear = match others.first() {
            Some(first) if is_unclear(first) => others.partition_point(is_unclear),
            _ => 0,
        };
        self.low = before.len().checked_sub(1).map_or(0, |last| last * STRIDE + 1);
        self.high = self.high.min((before.len() + unclear) * STRIDE);
        self.expected = match (before, others) {
            ([.., before], [behind, ..]) if unclear == 0 => {
                let share = (self.least - before) as f64 / (behind - before) as f64;
                self.low + (share * STRIDE as f64) as usize
            }
            _ => usize::midpoint(self.low, self.high),
        };
    }

    /// The keys that are looked at first: where the place is expected, and on either side.
    #[inline]
    fn near(&self) -> [usize; 3] {
        let (first, last, expected) = (self.low, self.high - 1, self.expected);
        let near = [expected.saturating_sub(NEAR), expected, expected + NEAR];
        near.map(|key| key.max(first).min(last))
    }

    /// Reads the words of the keys that are looked at first. It does nothing else, so that a processor comes to read those of many
    /// searches while it waits for the first.
    #[inline]
    fn read_near(&mut self) {
        if self.low < self.high {
            self.words_near = self.near().map(|key| self.word(key));
        }
    }

    /// Compares the keys that were read. Returns how many were compared.
    #[inline]
    fn compare_near(&mut self) -> usize {
        if self.low >= self.high {
            return 0;
        }
        let mut left = self.low..self.high;
        for (key, word) in self.near().into_iter().zip(self.words_near) {
            left = self.narrowed(left, key, word);
        }
        (self.low, self.high) = (left.start, left.end);
        self.words_near.len()
    }

    /// Halves what is left. Returns how many keys were compared, one or none.
    #[inline]
    fn halve(&mut self) -> usize {
        if self.low >= self.high {
            return 0;
        }
        let middle = usize::midpoint(self.low, self.high);
        let left = self.narrowed(self.low..self.high, middle, self.word(middle));
        (self.low, self.high) = (left.start, left.end);
        1
    }

    /// Where the place is left to be, by the word of a key. Without a branch that a processor would have to guess: it goes on with
    /// the next search then, and waits for the keys of several at a time.
    #[inline]
    fn narrowed(&self, left: Range<usize>, key: usize, word: u64) -> Range<usize> {
        let is_behind = match self.is_unclear(word) {
            true => self.is_behind(key),
            false => word >= self.least,
        };
        let before = left.start.max(key + 1)..left.end;
        let behind = left.start..left.end.min(key);
        select_unpredictable(is_behind, behind.start, before.start)
            ..select_unpredictable(is_behind, behind.end, before.end)
    }

    /// Whether a word leaves open on which side of the place its key lies. One comparison, as a second would be a branch.
    #[inline]
    fn is_unclear(&self, word: u64) -> bool {
        word.wrapping_sub(self.least) < self.unclear
    }

    #[inline(never)]
    fn is_behind(&self, key: usize) -> bool {
        let tail = self.tail(key);
        match self.end {
            End::At => tail >= self.rest,
            End::PastKey => tail > self.rest,
            End::PastPrefix => tail > self.rest && !tail.starts_with(self.rest),
        }
    }

    /// The word of a key, what is missing filled up with zeros.
    #[inline]
    fn word(&self, key: usize) -> u64 {
        match &self.fences.even {
            Some(EvenWords { width, at, dropped }) => {
                let first = self.even_bytes[key * width + at..].first_chunk();
                u64::from_be_bytes(*first.expect("a key is as long as a word")) << dropped
            }
            None => word(self.tail(key), 0x00),
        }
    }

    #[inline]
    fn tail(&self, key: usize) -> &[u8] {
        &self.keys.value(key)[self.fences.shared.len()..]
    }
}

/// The least word of keys behind a place, where keys have `tail` bytes behind what all have in common, at most those of a word.
/// `None` if none lies behind it.
fn first_behind(rest: &[u8], end: End, tail: usize) -> Option<u64> {
    let has_equal = match end {
        End::At => rest.len() <= tail,
        End::PastKey => rest.len() < tail,
        End::PastPrefix => false,
    };
    let compared = &rest[..rest.len().min(tail)];
    match has_equal {
        true => Some(word(compared, 0x00)),
        false => word(compared, 0xff).checked_add(1),
    }
}

/// The first eight bytes as a number that orders like them; what is missing is filled up.
#[inline]
fn word(bytes: &[u8], fill: u8) -> u64 {
    match bytes.first_chunk() {
        Some(first) => u64::from_be_bytes(*first),
        // Not by a copy, whose bytes would have to be written before the number can be read.
        None => {
            let filled = u64::from_be_bytes([fill; WORD]);
            bytes.iter().rev().fold(filled, |word, &byte| word >> 8 | u64::from(byte) << 56)
        }
    }
}

//! Merging sorted sources of rows into one sorted stream.
//!
//! The one loop behind ordered scans, compactions of runs, flushes and segment merges. A tournament tree of
//! losers (Knuth, *The Art of Computer Programming* 3, 5.4.1) finds the next row in log(sources)
//! comparisons, which mostly are of machine words that lie in the tree; output is gathered in batches by index, so no row
//! is moved more than once.

use std::cmp::Ordering;
use std::hint::select_unpredictable;
use std::ops::Range;

use drillcore_format::byte_bounds;
use drillcore_format::pick::Pick;
use drillcore_format::rows::Rows;

use crate::error::Result;
use crate::policy::fold::{Again, Fold};

/// Rows in key order, a batch at a time.
pub trait RowSource: Send {
    /// The next rows, at least one, with their keys; `None` at the end.
    fn next_rows(&mut self) -> Result<Option<Rows>>;

    /// Has read together what all sources of a merge need for their next rows, where they would wait for it one by one. Says whether
    /// that is so; if not, it is not asked again.
    fn read_ahead<'s>(_sources: impl Iterator<Item = &'s mut Self>) -> Result<bool>
    where
        Self: Sized + 's,
    {
        Ok(false)
    }

    /// Goes on with the file of a run that was spilled, and gives the last `rest` rows anew, if it reads such a run.
    ///
    /// # Errors
    /// Why the file cannot be read: the source goes on with the run.
    fn let_go_of_spilled(&mut self, _rest: usize) -> Result<Option<Rows>> {
        Ok(None)
    }
}

/// Which way keys run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Forward,
    Reverse,
}

impl Direction {
    /// Takes up to `len` ordinals off the end of a range that comes next.
    pub fn take_next(self, range: &mut Range<u64>, len: u64) -> Range<u64> {
        let len = len.min(range.end - range.start);
        match self {
            Direction::Forward => {
                range.start += len;
                range.start - len..range.start
            }
            Direction::Reverse => {
                range.end -= len;
                range.end..range.end + len
            }
        }
    }
}

/// What a merge notes of each row of a batch.
pub const PICK_BYTES: usize = size_of::<Pick>();

/// The merged stream.
pub struct Merger<S> {
    sources: Vec<Head<S>>,
    direction: Direction,
    fold: Fold,
    batch_rows: usize,
    /// The bytes of keys and strings at which a batch is closed; the row that reaches them is its last.
    batch_bytes: usize,
    /// Those of the rows picked.
    picked_bytes: usize,
    /// `losers[0]` is the source with the next row; the others lost at their node of the tree.
    losers: Vec<Contender>,
    /// Whether what the sources need is read together.
    reads_together: bool,
    /// Whether rows that are handed out have no keys.
    drops_keys: bool,
    /// Whether batches of the only source are handed on, and whether in copies.
    passes_through: bool,
    copies: bool,
    /// Batches that output rows not yet handed out lie in.
    parts: Vec<Rows>,
    picked: Vec<Pick>,
    /// Where each group of equal keys ends among `picked`, when they are combined.
    group_ends: Vec<u32>,
}

/// A source in the tree.
#[derive(Debug, Clone, Copy)]
struct Contender {
    /// Its [`Head::word`], which mostly decides.
    word: u128,
    /// `usize::MAX` while no source has come to the node.
    source: usize,
}

const NO_CONTENDER: Contender = Contender { word: u128::MAX, source: usize::MAX };

/// Words of a batch that are taken from its keys at once.
const WORDS_AT_ONCE: usize = 16;

/// Source batches below this share of an output batch are not looked at row by row: their mean says enough.
const EVEN_SHARE: usize = 256;

/// How long the rows of a batch are.
enum RowBytes {
    Mean(usize),
    Each(Vec<usize>),
}

/// A source and its current batch.
struct Head<S> {
    source: S,
    rows: Option<Rows>,
    /// How many `rows` are.
    len: usize,
    at: usize,
    /// Of some keys, the current one's among them, the first bytes as a number, against the direction their complement: not above the
    /// word of a key that comes later. The greatest there is at the end.
    words: [u128; WORDS_AT_ONCE],
    /// Bytes of the keys and strings of `rows`.
    bytes: RowBytes,
    /// Where `rows` stands in `parts`.
    part: Option<u32>,
}

impl<S: RowSource> Merger<S> {
    /// Merges `sources`, given oldest first (newest first when reversed), into batches of up to
    /// `batch_rows` rows, or of fewer long ones: memory is bounded, and the strings of a batch fit one array.
    pub fn new(
        sources: Vec<S>,
        direction: Direction,
        fold: Fold,
        batch_rows: usize,
    ) -> Result<Merger<S>> {
        assert!(batch_rows > 0);
        let mut sources = sources;
        let mut heads = Vec::with_capacity(sources.len());
        let reads_together = S::read_ahead(sources.iter_mut())?;
        for source in sources {
            let bytes = RowBytes::Mean(0);
            let words = [0; WORDS_AT_ONCE];
            let mut head = Head { source, rows: None, len: 0, at: 0, words, bytes, part: None };
            head.load(direction)?;
            if head.rows.is_some() {
                heads.push(head);
            }
        }
        let mut merger = Merger {
            losers: vec![NO_CONTENDER; heads.len()],
            reads_together,
            drops_keys: false,
            passes_through: true,
            copies: false,
            sources: heads,
            direction,
            fold,
            batch_rows,
            batch_bytes: byte_bounds::batch(),
            picked_bytes: 0,
            parts: Vec::new(),
            picked: Vec::new(),
            group_ends: Vec::new(),
        };
        for source in (0..merger.sources.len()).rev() {
            merger.enter(source);
        }
        Ok(merger)
    }

    /// Puts all rows of all sources into one batch, however long they are. They are no more than `rows_max`, and the caller knows
    /// that they fit one array. Which they are takes [`PICK_BYTES`] per row, until they are copied.
    pub fn in_one_batch(mut self, rows_max: usize) -> Merger<S> {
        (self.batch_rows, self.batch_bytes) = (usize::MAX, usize::MAX);
        self.passes_through = false;
        self.picked.reserve_exact(rows_max);
        self
    }

    /// Hands out no rows that share memory with a source.
    pub fn in_copies(self) -> Merger<S> {
        Merger { copies: true, ..self }
    }

    /// Closes a batch at fewer bytes of keys and strings.
    pub fn in_batches_of(self, batch_bytes: usize) -> Merger<S> {
        Merger { batch_bytes, ..self }
    }

    /// Gives rows without their keys, which need not be copied then. Rows of which several become one still need them.
    pub fn without_keys(mut self) -> Merger<S> {
        self.drops_keys = !self.fold.combines();
        self
    }

    /// The next rows, at least one, in order; `None` at the end.
    pub fn next_rows(&mut self) -> Result<Option<Rows>> {
        if self.passes_through && self.sources.len() == 1 {
            return self.winner().map(|only| self.pass_through(only)).transpose();
        }
        let (compares_keys, combines) = (self.fold.compares_keys(), self.fold.combines());
        while let Some(winner) = self.winner() {
            if compares_keys && self.repeats_last_key(winner) {
                self.pick_again(winner);
            } else if self.rows_out() == self.batch_rows || self.picked_bytes >= self.batch_bytes {
                break;
            } else {
                self.pick(winner);
                if combines {
                    self.group_ends.push(self.picked.len() as u32);
                }
            }
            if !self.sources[winner].advance(self.direction) {
                self.load(winner)?;
            }
            self.replay(winner);
        }
        self.gather()
    }

    /// Has the sources go on with the files of runs that were spilled, between two batches. One whose file cannot be read goes on with the
    /// run.
    pub fn let_go_of_spilled(&mut self) {
        for head in &mut self.sources {
            if let Ok(Some(rows)) = head.source.let_go_of_spilled(head.len - head.at) {
                head.put(Some(rows), self.direction);
            }
        }
    }

    /// Loads the next batch of a source. Others come to the end of theirs soon, so what these need is read with it.
    #[inline(never)]
    fn load(&mut self, source: usize) -> Result<()> {
        if self.reads_together {
            S::read_ahead(self.sources.iter_mut().map(|head| &mut head.source))?;
        }
        self.sources[source].load(self.direction)
    }

    /// The source with the next row, unless all have ended.
    #[inline]
    fn winner(&self) -> Option<usize> {
        let winner = self.losers.first()?.source;
        (self.sources[winner].len > 0).then_some(winner)
    }

    /// With one source there is nothing to merge: its batches are the output.
    fn pass_through(&mut self, source: usize) -> Result<Rows> {
        let head = &mut self.sources[source];
        let rows = head.rows.as_ref().expect("the winner has a row");
        let len = (rows.len() - head.at).min(self.batch_rows);
        let slice = match self.copies {
            true => rows.take(&(head.at as u32..(head.at + len) as u32).collect::<Vec<_>>()),
            false => rows.slice(head.at, len),
        };
        head.at += len;
        if head.at == rows.len() {
            head.load(self.direction)?;
        }
        Ok(if self.drops_keys { slice.without_keys() } else { slice })
    }

    /// The rows that come of what is picked.
    fn rows_out(&self) -> usize {
        self.fold.rows_out(self.picked.len(), self.group_ends.len())
    }

    /// Picks a row with the key of the last one.
    fn pick_again(&mut self, source: usize) {
        // Backwards the newest source comes first among equals, forwards last.
        match self.fold.again(self.direction == Direction::Reverse) {
            Again::Skip => {}
            Again::Replace => {
                self.picked.pop();
                self.pick(source);
            }
            Again::Combine => {
                self.pick(source);
                let end = self.group_ends.last_mut().expect("the key was picked before");
                *end = self.picked.len() as u32;
            }
        }
    }

    fn repeats_last_key(&self, source: usize) -> bool {
        let Some(last) = self.picked.last() else { return false };
        let head = &self.sources[source];
        let rows = head.rows.as_ref().expect("the winner has a row");
        self.parts[last.part()].key(last.row()) == rows.key(head.at)
    }

    #[inline]
    fn pick(&mut self, source: usize) {
        let head = &mut self.sources[source];
        let part = *head.part.get_or_insert_with(|| {
            self.parts.push(head.rows.clone().expect("the winner has a row"));
            u32::try_from(self.parts.len() - 1).expect("parts have 32 bits")
        });
        self.picked.push(Pick::of(part, head.at as u32));
        self.picked_bytes += match &head.bytes {
            RowBytes::Mean(bytes) => *bytes,
            RowBytes::Each(bytes) => bytes[head.at],
        };
    }

    fn gather(&mut self) -> Result<Option<Rows>> {
        if self.picked.is_empty() {
            return Ok(None);
        }
        if self.drops_keys {
            self.parts.iter_mut().for_each(|part| *part = part.without_keys());
        }
        let parts: Vec<&Rows> = self.parts.iter().collect();
        let rows = self.fold.combine(Rows::interleave(&parts, &self.picked), &self.group_ends)?;
        self.group_ends.clear();
        self.parts.clear();
        self.picked.clear();
        self.picked_bytes = 0;
        for head in &mut self.sources {
            head.part = None;
        }
        Ok(Some(rows))
    }

    /// Puts `source` into the tree that is being built: the first to come to a node waits for its opponent.
    fn enter(&mut self, source: usize) {
        let mut winner = Contender { word: self.sources[source].word(), source };
        let mut node = (source + self.sources.len()) / 2;
        while node > 0 {
            let other = self.losers[node];
            if other.source == usize::MAX {
                self.losers[node] = winner;
                return;
            }
            (winner, self.losers[node]) = self.played(winner, other);
            node /= 2;
        }
        self.losers[0] = winner;
    }

    /// Plays `source` up the tree: it stays behind where it loses, and the other one goes on.
    #[inline]
    fn replay(&mut self, source: usize) {
        let mut winner = Contender { word: self.sources[source].word(), source };
        let mut node = (source + self.sources.len()) / 2;
        while node > 0 {
            (winner, self.losers[node]) = self.played(winner, self.losers[node]);
            node /= 2;
        }
        self.losers[0] = winner;
    }

    /// The one of two that comes first, and the other.
    #[inline]
    fn played(&self, a: Contender, b: Contender) -> (Contender, Contender) {
        let is_first = match a.word == b.word {
            true => self.comes_before_by_key(a.source, b.source),
            false => a.word < b.word,
        };
        // Which wins cannot be foreseen, so it is no branch.
        (select_unpredictable(is_first, a, b), select_unpredictable(is_first, b, a))
    }

    /// Whether one of two sources whose words are equal comes first.
    #[inline(never)]
    fn comes_before_by_key(&self, a: usize, b: usize) -> bool {
        let (x, y) = (&self.sources[a], &self.sources[b]);
        let by_key = match (&x.rows, &y.rows) {
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
            (Some(left), Some(right)) => {
                let forward = left.key(x.at).cmp(right.key(y.at));
                if self.direction == Direction::Forward { forward } else { forward.reverse() }
            }
        };
        by_key.then(a.cmp(&b)) == Ordering::Less
    }
}

impl<S: RowSource> Head<S> {
    /// That of the current key.
    #[inline]
    fn word(&self) -> u128 {
        self.words[self.at % WORDS_AT_ONCE]
    }

    /// Goes to the next row, if there is one in the batch.
    #[inline]
    fn advance(&mut self, direction: Direction) -> bool {
        self.at += 1;
        if self.at >= self.len {
            return false;
        }
        if self.at.is_multiple_of(WORDS_AT_ONCE) {
            self.take_words(direction);
        }
        true
    }

    fn load(&mut self, direction: Direction) -> Result<()> {
        let rows = self.source.next_rows()?;
        self.put(rows, direction);
        Ok(())
    }

    /// Goes on with other rows.
    fn put(&mut self, rows: Option<Rows>, direction: Direction) {
        self.rows = rows;
        self.at = 0;
        self.part = None;
        self.len = self.rows.as_ref().map_or(0, Rows::len);
        assert!(u32::try_from(self.len).is_ok(), "rows of a batch have 32 bits");
        self.bytes = match &self.rows {
            None => RowBytes::Mean(0),
            Some(rows) => match rows.string_bytes() {
                few if few < byte_bounds::batch() / EVEN_SHARE => RowBytes::Mean(few / rows.len()),
                _ => RowBytes::Each(rows.string_bytes_by_row()),
            },
        };
        self.take_words(direction);
    }

    /// Takes the words of the current key and of those behind it.
    fn take_words(&mut self, direction: Direction) {
        let Some(rows) = &self.rows else {
            self.words[0] = u128::MAX;
            return;
        };
        let words = &mut self.words[..WORDS_AT_ONCE.min(self.len - self.at)];
        rows.keys().leading_words(self.at, words);
        if direction == Direction::Reverse {
            words.iter_mut().for_each(|word| *word = !*word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use drillcore_format::key::Keys;

    use arrow_array::{Int64Array, cast::AsArray, types::Int64Type};

    struct Batches(std::vec::IntoIter<Rows>);

    impl RowSource for Batches {
        fn next_rows(&mut self) -> Result<Option<Rows>> {
            Ok(self.0.next())
        }
    }

    /// A source of `(key, source number)` rows in batches of three, or of about as many as words are taken at once.
    fn source(number: i64, keys: &[u16]) -> Batches {
        let batch = |keys: &[u16]| {
            let encoded: Vec<[u8; 2]> = keys.iter().map(|key| key.to_be_bytes()).collect();
            let encoded = Keys::from_iter(encoded);
            Rows::new(
                keys.len(),
                Some(encoded),
                vec![Arc::new(Int64Array::from(vec![number; keys.len()]))],
            )
        };
        let batch_rows = [3, 40, WORDS_AT_ONCE, 1, WORDS_AT_ONCE + 1][number as usize % 5];
        Batches(keys.chunks(batch_rows).map(batch).collect::<Vec<_>>().into_iter())
    }

    fn merge(
        sources: &[Vec<u16>],
        direction: Direction,
        fold: Fold,
        batch_rows: usize,
    ) -> Vec<(u16, i64)> {
        let sources = sources.iter().enumerate().map(|(n, keys)| source(n as i64, keys)).collect();
        let mut merger = Merger::new(sources, direction, fold.clone(), batch_rows).unwrap();
        let mut merged = Vec::new();
        while let Some(rows) = merger.next_rows().unwrap() {
            assert!(!rows.is_empty() && rows.len() <= batch_rows);
            let numbers = rows.values()[0].as_primitive::<Int64Type>();
            merged.extend(
                (0..rows.len()).map(|i| {
                    (u16::from_be_bytes(rows.key(i).try_into().unwrap()), numbers.value(i))
                }),
            );
        }
        merged
    }

    #[test]
    fn any_number_of_sources_comes_out_sorted_with_ties_in_source_order() {
        let mut state = 1u64;
        let mut random = |limit: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % limit
        };
        for sources in 0..20 {
            let mut keys: Vec<Vec<u16>> = Vec::new();
            for _ in 0..sources {
                let mut of_one: Vec<u16> = (0..random(40)).map(|_| random(50) as u16).collect();
                of_one.sort_unstable();
                keys.push(of_one);
            }
            let mut expected: Vec<(u16, i64)> = Vec::new();
            for (number, of_one) in keys.iter().enumerate() {
                expected.extend(of_one.iter().map(|&key| (key, number as i64)));
            }
            expected.sort_unstable();
            for batch_rows in [1, 7, 1000] {
                assert_eq!(merge(&keys, Direction::Forward, Fold::KeepAll, batch_rows), expected);
            }
            for of_one in &mut keys {
                of_one.reverse();
            }
            expected.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
            assert_eq!(merge(&keys, Direction::Reverse, Fold::KeepAll, 7), expected);
        }
    }

    #[test]
    fn keys_that_are_equal_as_far_as_words_go_are_merged_in_order_both_ways() {
        let mut state = 7u64;
        let mut random = |limit: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % limit
        };
        for round in 0..40 {
            // Sixteen bytes that all begin with, or fewer; with ends that a word cannot tell from nothing.
            let begins = [vec![0xff; 16], vec![0; 16], vec![1; 15], Vec::new()];
            let mut keys: Vec<Vec<Vec<u8>>> = (0..1 + round % 6)
                .map(|_| {
                    let mut of_one: Vec<Vec<u8>> = (0..random(30))
                        .map(|_| {
                            let mut key = begins[random(4)].clone();
                            (0..random(4)).for_each(|_| key.push([0, 1, 0xff][random(3)]));
                            key
                        })
                        .collect();
                    of_one.sort_unstable();
                    of_one.dedup();
                    of_one
                })
                .collect();
            for direction in [Direction::Forward, Direction::Reverse] {
                if direction == Direction::Reverse {
                    keys.iter_mut().for_each(|of_one| of_one.reverse());
                    keys.reverse();
                }
                let mut expected: Vec<(&[u8], usize)> = keys
                    .iter()
                    .enumerate()
                    .flat_map(|(source, of_one)| of_one.iter().map(move |key| (&key[..], source)))
                    .collect();
                expected.sort_by(|a, b| match direction {
                    Direction::Forward => a.cmp(b),
                    Direction::Reverse => b.0.cmp(a.0).then(a.1.cmp(&b.1)),
                });
                let source = |(number, of_one): (usize, &Vec<Vec<u8>>)| {
                    let rows = |keys: &[Vec<u8>]| {
                        let numbers = Arc::new(Int64Array::from(vec![number as i64; keys.len()]));
                        Rows::new(keys.len(), Some(Keys::from_iter(keys)), vec![numbers])
                    };
                    Batches(of_one.chunks(3).map(rows).collect::<Vec<_>>().into_iter())
                };
                let merger = |fold| {
                    let sources = keys.iter().enumerate().map(source).collect();
                    Merger::new(sources, direction, fold, 5).unwrap()
                };
                let numbers_of = |rows: &Rows| {
                    let numbers = rows.value(0).as_primitive::<Int64Type>().values();
                    numbers.iter().map(|&number| number as usize).collect::<Vec<_>>()
                };
                let (mut all, mut found) = (merger(Fold::KeepAll), Vec::new());
                while let Some(rows) = all.next_rows().unwrap() {
                    let keys = rows.keys().iter().map(<[u8]>::to_vec);
                    found.extend(keys.zip(numbers_of(&rows)));
                }
                let expected_keys = expected.iter().map(|&(key, source)| (key.to_vec(), source));
                assert_eq!(found, expected_keys.collect::<Vec<_>>());
                // The newest of each key, handed on without it.
                let newest = expected.chunk_by(|a, b| a.0 == b.0).map(|equal| match direction {
                    Direction::Forward => equal[equal.len() - 1].1,
                    Direction::Reverse => equal[0].1,
                });
                let (mut newest_only, mut found) =
                    (merger(Fold::KeepNewest).without_keys(), Vec::new());
                while let Some(rows) = newest_only.next_rows().unwrap() {
                    assert!(!rows.has_keys());
                    found.extend(numbers_of(&rows));
                }
                assert_eq!(found, newest.collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn of_equal_keys_the_one_of_the_newest_source_stays() {
        let mut keys = vec![vec![1, 3, 5, 7, 9], vec![1, 2, 3, 9], vec![3, 4, 9]];
        let expected = [(1, 1), (2, 1), (3, 2), (4, 2), (5, 0), (7, 0), (9, 2)];
        for batch_rows in [1, 2, 100] {
            let merged = merge(&keys, Direction::Forward, Fold::KeepNewest, batch_rows);
            assert_eq!(merged, expected, "in batches of {batch_rows}");
        }
        // Backwards, sources are given newest first.
        keys.reverse();
        keys.iter_mut().for_each(|of_one| of_one.reverse());
        for batch_rows in [1, 2, 100] {
            let merged = merge(&keys, Direction::Reverse, Fold::KeepNewest, batch_rows);
            let expected = expected.iter().rev().map(|&(key, source)| (key, 2 - source));
            assert_eq!(merged, expected.collect::<Vec<_>>(), "in batches of {batch_rows}");
        }
    }
}

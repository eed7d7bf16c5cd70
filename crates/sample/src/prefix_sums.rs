//! [`PrefixSums`]: allocation of positions over the pieces of a snapshot.
//!
//! Each piece brings the count of its selected rows (or of its weight). Laid end to end they form one
//! population, and the sums are the places where one piece ends and the next begins. Drawing a position
//! of the population and locating it gives each piece exactly its share of the draws, without an alias
//! table: for the few dozen pieces of a snapshot a binary search is a handful of steps.

/// Of many positions each is located by a table first, of about this many entries.
const TABLE_BITS: u32 = 9;
/// A table is worth making for at least this many positions.
const TABLE_WORTH: usize = 1 << TABLE_BITS;

/// Prefix sums of the pieces' counts.
///
/// Built once for a selection and shared by all draws from it. Holds 8 bytes per piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixSums {
    /// `starts[i]` counts the positions before piece `i`, of one piece more than there are; never falls. So a piece's start is found
    /// without asking whether it is the first, which of random positions no processor guesses.
    starts: Vec<u64>,
}

impl PrefixSums {
    /// Lays the pieces end to end, in the order given.
    ///
    /// # Panics
    /// If the counts sum to more than `u64::MAX`: no store holds that many rows, so a count is broken.
    pub fn from_counts(counts: impl IntoIterator<Item = u64>) -> PrefixSums {
        let counts = counts.into_iter();
        let mut starts = Vec::with_capacity(counts.size_hint().0 + 1);
        let mut total = 0u64;
        starts.push(total);
        for count in counts {
            total =
                total.checked_add(count).expect("counts of the pieces sum to more than 64 bits");
            starts.push(total);
        }
        PrefixSums { starts }
    }

    /// The size of the whole population.
    pub fn total(&self) -> u64 {
        *self.starts.last().expect("the end of the last piece is one")
    }

    /// How many pieces there are, empty ones included.
    pub fn piece_count(&self) -> usize {
        self.starts.len() - 1
    }

    /// The piece that holds `position`, and the position's ordinal inside that piece's selection.
    ///
    /// One binary search over the pieces. A piece with count 0 is never located.
    ///
    /// # Panics
    /// If `position` is not below [`PrefixSums::total`].
    #[inline]
    pub fn locate(&self, position: u64) -> (usize, u64) {
        assert!(
            position < self.total(),
            "position {position} outside a population of {}",
            self.total()
        );
        // The first piece that ends past the position; an empty piece ends where it begins, so it is passed.
        let piece = self.ends().partition_point(|&end| end <= position);
        (piece, position - self.starts[piece])
    }

    /// [`PrefixSums::locate`] of many positions: a table says which piece the first of some neighbouring positions is in, and few steps
    /// lead from there. Of few positions there is none.
    pub fn locator(&self, positions: usize) -> Locator<'_> {
        if positions < TABLE_WORTH || self.total() == 0 {
            return Locator { sums: self, shift: 0, table: Vec::new() };
        }
        let shift = (u64::BITS - self.total().leading_zeros()).saturating_sub(TABLE_BITS);
        let mut piece = 0;
        let mut first = |entry: u64| {
            while self.ends()[piece] <= entry << shift {
                piece += 1;
            }
            piece as u32
        };
        let table = (0..self.total().div_ceil(1 << shift)).map(&mut first).collect();
        Locator { sums: self, shift, table }
    }

    /// The position of the first row of `piece` (or where it would stand, if the piece is empty).
    ///
    /// # Panics
    /// If there is no such piece.
    #[inline]
    pub fn start(&self, piece: usize) -> u64 {
        assert!(piece < self.piece_count(), "no piece {piece}");
        self.starts[piece]
    }

    /// The count that `piece` brought.
    ///
    /// # Panics
    /// If there is no such piece.
    pub fn count(&self, piece: usize) -> u64 {
        self.ends()[piece] - self.starts[piece]
    }

    /// `ends()[i]` counts the positions of pieces `0..=i`.
    #[inline]
    fn ends(&self) -> &[u64] {
        &self.starts[1..]
    }
}

/// Locates many positions; see [`PrefixSums::locator`].
#[derive(Debug, Clone)]
pub struct Locator<'f> {
    sums: &'f PrefixSums,
    /// Bits of a position that are left out of the number of its entry.
    shift: u32,
    table: Vec<u32>,
}

impl Locator<'_> {
    /// The piece that holds `position`, and the position's ordinal inside that piece's selection.
    ///
    /// # Panics
    /// If `position` is not below [`PrefixSums::total`].
    #[inline(always)]
    pub fn locate(&self, position: u64) -> (usize, u64) {
        if self.table.is_empty() {
            return self.sums.locate(position);
        }
        let ends = self.sums.ends();
        let mut piece = self.table[(position >> self.shift) as usize] as usize;
        while ends[piece] <= position {
            piece += 1;
        }
        (piece, position - self.sums.starts[piece])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Walks the pieces one by one: slow and plainly right.
    fn locate_by_walking(counts: &[u64], position: u64) -> (usize, u64) {
        let mut left = position;
        for (piece, &count) in counts.iter().enumerate() {
            if left < count {
                return (piece, left);
            }
            left -= count;
        }
        panic!("position {position} outside {counts:?}");
    }

    proptest! {
        #[test]
        fn locate_agrees_with_a_walk_over_the_pieces(
            counts in prop::collection::vec(prop_oneof![Just(0u64), 1u64..5, 1u64..1 << 40], 1..40),
            picks in prop::collection::vec(any::<u64>(), 20),
        ) {
            let sums = PrefixSums::from_counts(counts.iter().copied());
            prop_assert_eq!(sums.total(), counts.iter().sum::<u64>());
            prop_assert_eq!(sums.piece_count(), counts.len());
            if sums.total() > 0 {
                let edges = (0..counts.len())
                    .flat_map(|piece| [sums.start(piece).wrapping_sub(1), sums.start(piece)]);
                for position in picks.into_iter().chain(edges).map(|pick| pick % sums.total()) {
                    let (piece, ordinal) = sums.locate(position);
                    prop_assert_eq!((piece, ordinal), locate_by_walking(&counts, position));
                    prop_assert!(ordinal < sums.count(piece));
                }
                // A few, and enough for a table.
                let step = (sums.total() / 700).max(1);
                for len in [3, 2_000] {
                    let positions: Vec<u64> =
                        (0..len).map(|at| (at * step * 7 + at) % sums.total()).collect();
                    let locator = sums.locator(positions.len());
                    for position in positions {
                        prop_assert_eq!(locator.locate(position), sums.locate(position));
                    }
                }
            }
        }
    }

    #[test]
    fn empty_pieces_are_never_located() {
        let sums = PrefixSums::from_counts([0, 2, 0, 0, 1, 0]);
        let located: Vec<_> = (0..sums.total()).map(|at| sums.locate(at)).collect();
        assert_eq!(located, [(1, 0), (1, 1), (4, 0)]);
        assert_eq!(sums.count(2), 0);
    }

    #[test]
    fn no_pieces_make_an_empty_population() {
        assert_eq!(PrefixSums::from_counts([]).total(), 0);
        assert_eq!(PrefixSums::from_counts([u64::MAX]).total(), u64::MAX);
    }

    #[test]
    #[should_panic(expected = "more than 64 bits")]
    fn a_sum_past_64_bits_is_refused() {
        PrefixSums::from_counts([u64::MAX, 1]);
    }

    #[test]
    #[should_panic(expected = "outside a population of 3")]
    fn a_position_past_the_end_is_refused() {
        PrefixSums::from_counts([1, 2]).locate(3);
    }
}

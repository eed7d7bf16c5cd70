//! [`Rng`]: the generator behind every draw.
//!
//! Promises that a (seed, stream) pair gives the same numbers on every machine and in every version (a
//! golden test pins it), that streams of one seed are independent for practical purposes, and that
//! integers below a bound are *exactly* uniform: no modulo bias, no word cut to 32 bits.
//!
//! Not for secrets: the state can be computed from the output.

use rand_distr::{Binomial, Distribution, Exp1};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// The step of SplitMix64: 2^64 divided by the golden ratio, odd.
const SPLITMIX_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A 64-bit generator (xoshiro256++, Blackman and Vigna 2021), period 2^256 - 1, keyed by a seed and a stream.
///
/// Cloning copies the state: the clone repeats the numbers of the original.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rng {
    words: Xoshiro256PlusPlus,
}

impl Rng {
    /// The generator of one stream of one seed. Costs about as much as eight numbers; allocates nothing.
    ///
    /// Seed and stream are each expanded by SplitMix64 (Steele, Lea and Flood 2014) and joined through a
    /// further round of its mixing function, so neighbouring seeds or streams share no state words, and
    /// two streams of one seed never start in the same state.
    pub fn keyed(seed: u64, stream: u64) -> Rng {
        let mut state = [0; 32];
        for (index, word) in state.chunks_exact_mut(8).enumerate() {
            let from_seed = splitmix64(seed, index as u64);
            // Mixed once more than the seed's word: otherwise (a, b) and (b, a) would be the same key.
            let from_stream = mix64(splitmix64(stream, index as u64));
            word.copy_from_slice(&mix64(from_seed ^ from_stream).to_le_bytes());
        }
        Rng { words: Xoshiro256PlusPlus::from_seed(state) }
    }

    /// 64 uniform bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.words.next_u64()
    }

    /// A number exactly uniform on `[0, n)`.
    ///
    /// Lemire's method (2019): the high word of `word * n`, where the few words that would favour some results
    /// are drawn again. One multiplication as a rule; the division runs with chance `n / 2^64`.
    ///
    /// # Panics
    /// If `n` is 0.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "no number lies below 0");
        let mut product = u128::from(self.next_u64()) * u128::from(n);
        if (product as u64) < n {
            // 2^64 mod n low words are surplus, and the rest divide evenly among the n results.
            let surplus = n.wrapping_neg() % n;
            while (product as u64) < surplus {
                product = u128::from(self.next_u64()) * u128::from(n);
            }
        }
        (product >> 64) as u64
    }

    /// A number exactly uniform on `[0, n)`, for sums of weights that outgrow 64 bits.
    ///
    /// While `n` fits 64 bits this is [`Rng::below`], number for number. Above that, as many bits as `n - 1` has
    /// are drawn until they lie below `n`: fewer than two tries on average.
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn below_u128(&mut self, n: u128) -> u128 {
        if let Ok(n) = u64::try_from(n) {
            return u128::from(self.below(n));
        }
        let mask = u128::MAX >> (n - 1).leading_zeros();
        loop {
            let high = u128::from(self.next_u64());
            let low = u128::from(self.next_u64());
            let drawn = ((high << 64) | low) & mask;
            if drawn < n {
                return drawn;
            }
        }
    }

    /// How many of `n` independent trials succeed, each with chance `share`: exact, in time that does not grow
    /// with `n` (Kachitvichyanukul and Schmeiser's BTPE, 1988).
    ///
    /// # Panics
    /// If `share` is not in `[0, 1]`.
    pub fn binomial(&mut self, n: u64, share: f64) -> u64 {
        let trials = Binomial::new(n, share).expect("a chance lies between 0 and 1");
        trials.sample(&mut self.words)
    }

    /// A number exponential with rate 1 (Marsaglia and Tsang's ziggurat, 2000).
    pub fn exponential(&mut self) -> f64 {
        Exp1.sample(&mut self.words)
    }

    /// A number uniform on the multiples of 2^-53 in `[0, 1)`.
    #[inline]
    pub fn unit_f64(&mut self) -> f64 {
        const SCALE: f64 = 1.0 / (1u64 << 53) as f64;
        (self.next_u64() >> 11) as f64 * SCALE
    }
}

/// Number `index` of the SplitMix64 sequence that begins at `start`.
fn splitmix64(start: u64, index: u64) -> u64 {
    mix64(start.wrapping_add(SPLITMIX_STEP.wrapping_mul(index + 1)))
}

/// The mixing function of SplitMix64: a bijection in which every bit of the input moves half of the output.
#[inline]
pub(crate) fn mix64(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goodness::chi_square_p_value;

    const SEED: u64 = 0x5eed_0001;
    /// Chance that a fair generator fails one of the chi-square tests below, were the seed drawn afresh.
    const FALSE_ALARM: f64 = 1e-6;
    const DRAWS: u64 = 300_000;
    /// A bound for which 2^64 leaves a remainder of a third of the range: any bias of the method is gross here.
    const AWKWARD: u64 = 3 << 62;

    /// Tallies `draw` over `cells` cells and gives the p-value of "all cells equally likely".
    fn uniformity(cells: usize, draws: u64, mut draw: impl FnMut() -> usize) -> f64 {
        let mut observed = vec![0; cells];
        for _ in 0..draws {
            observed[draw()] += 1;
        }
        let expected = vec![draws as f64 / cells as f64; cells];
        chi_square_p_value(&observed, &expected)
    }

    #[test]
    fn splitmix64_matches_the_published_sequence() {
        // First outputs of the reference generator for the seed 1234567.
        let expected =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        for (index, expected) in expected.into_iter().enumerate() {
            assert_eq!(splitmix64(1_234_567, index as u64), expected);
        }
    }

    /// Computed from the definitions, by other code. A change here changes every seeded sample ever drawn.
    #[test]
    fn a_key_gives_the_same_numbers_in_every_version() {
        let mut rng = Rng::keyed(42, 7);
        let numbers: [u64; 3] = std::array::from_fn(|_| rng.next_u64());
        let expected = [0xfb37_c095_e529_0944, 0xa6e0_4ee1_aeb3_a7f6, 0xaad9_c52d_858b_cac3];
        assert_eq!(numbers, expected);
    }

    #[test]
    fn one_key_gives_one_sequence_and_other_keys_give_others() {
        let first = |seed, stream| Rng::keyed(seed, stream).next_u64();
        assert_eq!(Rng::keyed(7, 3), Rng::keyed(7, 3));
        let mut seen = std::collections::HashSet::new();
        for seed in 0..50 {
            for stream in 0..50 {
                assert!(seen.insert(first(seed, stream)), "key ({seed}, {stream})");
            }
        }
    }

    /// Null hypothesis: first numbers of neighbouring streams are uniform in their top and bottom bits.
    /// 65,536 streams, 256 cells, false alarm 1e-6 each. Twin: the stream number used as the number itself.
    #[test]
    fn neighbouring_streams_begin_independently() {
        let streams = 65_536;
        let p_value = |bits: fn(u64) -> u64, first: fn(u64) -> u64| {
            let mut stream = 0;
            uniformity(256, streams, || {
                stream += 1;
                bits(first(stream)) as usize
            })
        };
        let keyed = |stream| Rng::keyed(SEED, stream).next_u64();
        let top = p_value(|word| word >> 56, keyed);
        let bottom = p_value(|word| word & 255, keyed);
        assert!(top > FALSE_ALARM, "seed {SEED:#x}: p = {top:e}");
        assert!(bottom > FALSE_ALARM, "seed {SEED:#x}: p = {bottom:e}");
        assert!(p_value(|word| word >> 56, |stream| stream) < FALSE_ALARM);
    }

    /// Null hypothesis: `below(n)` is uniform, seen by thirds and by remainders, for an `n` that does not divide
    /// 2^64. 300,000 draws, false alarm 1e-6 each. Twins: the remainder of a word, which doubles the first third;
    /// and the multiplication without rejection, which doubles every third result.
    #[test]
    fn below_is_uniform_where_modulo_and_plain_multiplication_are_not() {
        let by_third = |x: u64| (x >> 62) as usize;
        let by_remainder = |x: u64| (x % 3) as usize;

        let mut rng = Rng::keyed(SEED, 1);
        let thirds = uniformity(3, DRAWS, || by_third(rng.below(AWKWARD)));
        let remainders = uniformity(3, DRAWS, || by_remainder(rng.below(AWKWARD)));
        assert!(thirds > FALSE_ALARM, "seed {SEED:#x}: p = {thirds:e}");
        assert!(remainders > FALSE_ALARM, "seed {SEED:#x}: p = {remainders:e}");

        let modulo = uniformity(3, DRAWS, || by_third(rng.next_u64() % AWKWARD));
        assert!(modulo < FALSE_ALARM, "modulo passed: p = {modulo:e}");
        let unrejected = uniformity(3, DRAWS, || {
            let product = u128::from(rng.next_u64()) * u128::from(AWKWARD);
            by_remainder((product >> 64) as u64)
        });
        assert!(unrejected < FALSE_ALARM, "no rejection passed: p = {unrejected:e}");
    }

    /// Null hypothesis: `below(n)` is uniform for small and odd `n`. 300,000 draws each, false alarm 1e-6 each.
    /// Twin: the remainder of an 8-bit word.
    #[test]
    fn below_is_uniform_for_small_bounds() {
        for n in [2, 3, 7, 100, 1_000] {
            let mut rng = Rng::keyed(SEED, n);
            let p_value = uniformity(n as usize, DRAWS, || rng.below(n) as usize);
            assert!(p_value > FALSE_ALARM, "seed {SEED:#x}, n = {n}: p = {p_value:e}");
        }
        let mut rng = Rng::keyed(SEED, 0);
        let twin = uniformity(100, DRAWS, || ((rng.next_u64() >> 56) % 100) as usize);
        assert!(twin < FALSE_ALARM, "modulo of a byte passed: p = {twin:e}");
    }

    /// Null hypothesis: `below_u128(3 * 2^100)` is uniform by thirds, and by remainders of 3. 300,000 draws,
    /// false alarm 1e-6 each. Twin: 102 random bits taken modulo the bound.
    #[test]
    fn below_u128_is_uniform_beyond_64_bits() {
        let bound = 3u128 << 100;
        let mut rng = Rng::keyed(SEED, 2);
        let thirds = uniformity(3, DRAWS, || (rng.below_u128(bound) >> 100) as usize);
        let remainders = uniformity(3, DRAWS, || (rng.below_u128(bound) % 3) as usize);
        assert!(thirds > FALSE_ALARM, "seed {SEED:#x}: p = {thirds:e}");
        assert!(remainders > FALSE_ALARM, "seed {SEED:#x}: p = {remainders:e}");
        let twin = uniformity(3, DRAWS, || {
            let bits = (u128::from(rng.next_u64() >> 26) << 64) | u128::from(rng.next_u64());
            ((bits % bound) >> 100) as usize
        });
        assert!(twin < FALSE_ALARM, "modulo passed: p = {twin:e}");
    }

    #[test]
    fn below_u128_agrees_with_below_while_the_bound_fits_64_bits() {
        let (mut narrow, mut wide) = (Rng::keyed(SEED, 3), Rng::keyed(SEED, 3));
        for n in [1, 2, 1_000, AWKWARD, u64::MAX] {
            assert_eq!(u128::from(narrow.below(n)), wide.below_u128(u128::from(n)));
        }
        assert!(wide.below_u128(u128::MAX) < u128::MAX);
    }

    /// Null hypothesis: `unit_f64` is uniform over 100 equal cells of [0, 1). 300,000 draws, false alarm 1e-6.
    /// Twin: its square root.
    #[test]
    fn unit_f64_is_uniform_and_below_one() {
        let mut rng = Rng::keyed(SEED, 4);
        let p_value = uniformity(100, DRAWS, || {
            let unit = rng.unit_f64();
            assert!((0.0..1.0).contains(&unit));
            (unit * 100.0) as usize
        });
        assert!(p_value > FALSE_ALARM, "seed {SEED:#x}: p = {p_value:e}");
        let twin = uniformity(100, DRAWS, || (rng.unit_f64().sqrt() * 100.0) as usize);
        assert!(twin < FALSE_ALARM);
    }

    /// Null hypothesis: `exponential` is so, over 100 cells that are equally likely then. 300,000 draws, false alarm
    /// 1e-6. Twin: a rate of 1.05.
    #[test]
    fn exponential_has_rate_one() {
        let mut rng = Rng::keyed(SEED, 6);
        let cell = |time: f64| ((1.0 - (-time).exp()) * 100.0).min(99.0) as usize;
        let p_value = uniformity(100, DRAWS, || cell(rng.exponential()));
        assert!(p_value > FALSE_ALARM, "seed {SEED:#x}: p = {p_value:e}");
        let twin = uniformity(100, DRAWS, || cell(rng.exponential() / 1.05));
        assert!(twin < FALSE_ALARM, "another rate passed: p = {twin:e}");
    }

    #[test]
    #[should_panic(expected = "no number lies below 0")]
    fn below_zero_is_a_broken_caller() {
        Rng::keyed(SEED, 5).below(0);
    }
}

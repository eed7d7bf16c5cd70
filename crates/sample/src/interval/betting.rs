//! The mean of numbers that are known to lie between bounds, at all looks together.
//!
//! Each candidate mean `m` is tested by bets against it (Waudby-Smith and Ramdas 2024, "Estimating means of bounded random
//! variables by betting"). For the upper end, a *stake* `c` turns a wealth of 1 into the product of `1 + c g` over the draws,
//! where the *gain* `g = (u - x) / (1 - m)` compares a number `x`, scaled to lie in `[0, 1]`, with the mean `u` that it has if
//! `m` is right. If `m` is too large, numbers lie below it and wealth grows. If `m` is right, wealth is a supermartingale, which
//! ever reaches `1 / alpha` with a chance of `alpha` at most (Ville's inequality). So the candidates that no bet has refuted
//! hold the truth at all looks together: for any numbers between the bounds, from the first draw on, without a limit theorem.
//!
//! - **The best stake** depends on how many numbers are drawn and how they spread. Wealth is shared beforehand among stakes
//!   from 1, where a single draw can lose everything, down to a thousandth. So one of them is about right.
//! - **Without replacement** the numbers left do not have the mean `m`. After `i` draws it is
//!   `u = m + i (m - mean of the i numbers) / (all - i)`. Where some rows belong to other groups or hold no number, `all` is known
//!   within limits only. The limit that makes `u` smaller is taken: the upper one while the numbers drawn have a mean below
//!   `m`, else the lower one. A smaller `u` makes wealth smaller, so what is refuted is refuted whatever `all` is.
//! - **Wealth grows with `m`**, because `u` does and each gain grows with `u`. So one search finds the end.
//!
//! With many numbers, both ends lie about 1.8 times as far from the mean as those of a t interval. A share of
//! `7 / n` of the rows may lie at a bound without having been met, so an interval of few draws reaches that far.

use crate::interval::bounded::{BoundedNumbers, Bounds};
use crate::interval::confidence::Confidence;
use crate::interval::design::{Design, ENDLESS_POPULATION};
use crate::interval::error_bars::{Interval, Method};
use crate::interval::share::share_sequence;
use crate::moments::Moments;

const STAKE_COUNT: usize = 16;

/// Shares of what a draw can lose at most. Those near 1 serve numbers of which few carry the mean and some were met; below 1/2
/// each serves about three times as many draws as the one before.
pub(super) const STAKES: [f64; STAKE_COUNT] = stakes();

/// The share of the chance to be wrong that is spent on how many numbers there are.
const COUNT_SHARE: f64 = 0.02;

/// Larger gains are cut, which makes wealth smaller, so that the product over a chunk of draws is finite.
const GAIN_MAX: f64 = 1e9;
const CHUNK: usize = 32;

/// How finely an end is found, as a share of its distance from the mean. It is rounded outwards.
const END_PRECISION: f64 = 5e-3;

/// Steps of the search for an end; the precision is reached long before.
const STEPS_MAX: u32 = 60;

const fn stakes() -> [f64; STAKE_COUNT] {
    let mut stakes = [0.0; STAKE_COUNT];
    [stakes[0], stakes[1], stakes[2], stakes[3]] = [1.0, 0.9, 0.75, 0.5];
    let mut at = 4;
    while at < STAKE_COUNT {
        stakes[at] = 0.6 * stakes[at - 1];
        at += 1;
    }
    stakes
}

/// The mean over the rows of a group, valid at all looks together, of numbers that are known to lie between bounds: from bets,
/// see the head of this module's source. Exact for any such numbers, however rare the large ones.
///
/// `numbers` are those that `m` counts, in the order in which they were drawn, and `design` is what they were drawn from: the
/// selection, or of a group with a known number of rows the group. `n_opt` is the number of draws at which the range for how many
/// numbers there are is tightest. Without numbers the interval is that of the bounds around a NaN.
///
/// Makes some dozen passes over the numbers kept.
///
/// # Panics
/// If `design` draws more rows than there are, or fewer than `m` counts, or if `n_opt` is 0.
pub fn mean_sequence_bounded(
    m: &Moments,
    numbers: &BoundedNumbers,
    design: &Design,
    confidence: Confidence,
    n_opt: u64,
) -> Interval {
    design.check(m.count());
    if design.is_exhausted() {
        return Interval::exact(m.mean());
    }
    let Bounds { low, high } = numbers.bounds();
    let method = Method::BoundedSequence;
    if m.count() == 0 {
        return Interval { value: f64::NAN, low, high, method };
    }
    if low == high {
        return Interval::exact(m.mean());
    }
    let range = high - low;
    let drawn = numbers.kept();
    let all = HowMany::numbers(m.count(), design, confidence, n_opt);
    let alpha = confidence.spending(1.0 - COUNT_SHARE).alpha();
    let log_wealth_max = (2.0 / alpha).ln();
    let above = drawn.iter().map(|x| (x - low) / range);
    let below = drawn.iter().map(|x| (high - x) / range);
    let most = low + range * greatest_mean(above, &all, log_wealth_max);
    let least = high - range * greatest_mean(below, &all, log_wealth_max);
    // Of more numbers than are kept, the estimate may lie elsewhere.
    let value = m.mean().clamp(low, high);
    Interval { value, low: least.clamp(low, value), high: most.clamp(value, high), method }
}

/// The first numbers of a group, whose mean is what squares are taken from.
const HEAD: usize = 64;

/// The share of the chance to be wrong that the mean takes in an interval for a variance.
const MEAN_SHARE: f64 = 0.2;

/// The variance of the numbers of a group, with one less than their number below the line, valid at all looks together, of numbers
/// that are known to lie between bounds: whatever they are. Takes what [`mean_sequence_bounded`] takes.
///
/// The first 64 numbers give a centre `c`. Of what is left after them the later ones are uniform draws, so bets give a sequence
/// for `W`, the mean of `(x - c)^2` over what was left then. All numbers give one for their mean. With `K` numbers, of
/// which the first have the sum of squares `A`, the variance is `(A + (K - 64) W - K (mean - c)^2) / (K - 1)`; the ends are its
/// least and greatest value. Up to 64 numbers, the interval is all that the bounds allow.
///
/// # Panics
/// As [`mean_sequence_bounded`].
pub fn variance_sequence_bounded(
    m: &Moments,
    numbers: &BoundedNumbers,
    design: &Design,
    confidence: Confidence,
    n_opt: u64,
) -> Interval {
    design.check(m.count());
    let (value, method) = (m.variance(), Method::BoundedSequence);
    if design.is_exhausted() {
        return Interval::exact(value);
    }
    let Bounds { low, high } = numbers.bounds();
    let (range, count) = (high - low, m.count());
    // Popoviciu's bound, of so few numbers at least.
    let fewest = count.max(2) as f64;
    let most_of_all = range * range / 4.0 * (fewest / (fewest - 1.0));
    if count as usize <= HEAD || range == 0.0 {
        return Interval { value, low: 0.0, high: most_of_all, method };
    }
    let (head, rest) = numbers.kept().split_at(HEAD);
    let centre = head.iter().sum::<f64>() / HEAD as f64;
    let square_max = (high - centre).max(centre - low).powi(2);
    let all = HowMany::numbers(count, design, confidence, n_opt);
    let head_count = HEAD as f64;
    let left = HowMany { least: all.least - head_count, most: all.most - head_count };
    let alpha = confidence.spending(1.0 - COUNT_SHARE).alpha();
    let log_wealth_max = |share: f64| (2.0 / (share * alpha)).ln();
    let of_squares = log_wealth_max(1.0 - MEAN_SHARE);
    let squares = rest.iter().map(|x| ((x - centre).powi(2) / square_max).min(1.0));
    let most_square = square_max * greatest_mean(squares.clone(), &left, of_squares);
    let least_square =
        square_max * (1.0 - greatest_mean(squares.map(|square| 1.0 - square), &left, of_squares));
    let of_mean = log_wealth_max(MEAN_SHARE);
    let drawn = numbers.kept().iter();
    let mean_most =
        low + range * greatest_mean(drawn.clone().map(|x| (x - low) / range), &all, of_mean);
    let mean_least = high - range * greatest_mean(drawn.map(|x| (high - x) / range), &all, of_mean);
    let (below, above) = (mean_least - centre, mean_most - centre);
    let most_off = below.powi(2).max(above.powi(2));
    let least_off =
        if below <= 0.0 && above >= 0.0 { 0.0 } else { below.powi(2).min(above.powi(2)) };
    let of_head: f64 = head.iter().map(|x| (x - centre).powi(2)).sum();
    // Monotone in the number of values, so its ends are enough.
    let variance = |all: f64, square: f64, off: f64| {
        (of_head + (all - head_count) * square - all * off) / (all - 1.0)
    };
    let ends = [all.least, all.most];
    let least = ends.map(|all| variance(all, least_square, most_off));
    let most = ends.map(|all| variance(all, most_square, least_off));
    Interval {
        value,
        low: least[0].min(least[1]).max(0.0).min(value),
        high: most[0].max(most[1]).min(most_of_all).max(value),
        method,
    }
}

/// Limits for how many numbers there are.
struct HowMany {
    least: f64,
    most: f64,
}

impl HowMany {
    fn numbers(count: u64, design: &Design, confidence: Confidence, n_opt: u64) -> HowMany {
        let all = design.population.unwrap_or(ENDLESS_POPULATION) as f64;
        let share = share_sequence(count, design, confidence.spending(COUNT_SHARE), n_opt);
        let least = (share.low * all).floor().max(count as f64);
        let most = (all - (design.drawn - count) as f64).max(least);
        HowMany { least, most }
    }
}

/// The upper end for the mean of numbers in `[0, 1]`, at least one of which was drawn.
fn greatest_mean(
    drawn: impl Iterator<Item = f64> + Clone,
    all: &HowMany,
    log_wealth_max: f64,
) -> f64 {
    let (count, sum, squares) = drawn
        .clone()
        .fold((0.0, 0.0, 0.0), |(count, sum, squares), x| (count + 1.0, sum + x, squares + x * x));
    let mean: f64 = sum / count;
    // What is left to draw may be 1, and no more than that.
    let most = ((sum + (all.most - count)) / all.most).min(1.0);
    let gained = |m: f64| log_wealth(drawn.clone(), all, m) - log_wealth_max;
    // About where bets win: Bernstein's distance.
    let variance = (squares / count - mean * mean).max(0.0);
    let scale = log_wealth_max / count;
    let mut distance = (2.0 * variance * scale).sqrt() + scale;
    let (mut standing, mut of_standing) = (mean, -log_wealth_max);
    let (mut refuted, mut of_refuted);
    loop {
        refuted = mean + distance;
        if refuted >= most {
            refuted = most;
        }
        of_refuted = gained(refuted);
        if of_refuted >= 0.0 {
            break;
        }
        if refuted == most {
            return most;
        }
        (standing, of_standing) = (refuted, of_refuted);
        distance *= 1.5;
    }
    // False position (Illinois): an end that stays twice counts half.
    let mut last_moved_standing = None;
    for _ in 0..STEPS_MAX {
        if refuted - standing <= END_PRECISION * (refuted - mean) {
            break;
        }
        let share =
            if of_refuted.is_finite() { of_standing / (of_standing - of_refuted) } else { 0.5 };
        let middle = standing + share.clamp(0.02, 0.98) * (refuted - standing);
        let of_middle = gained(middle);
        let moves_standing = of_middle < 0.0;
        if moves_standing {
            (standing, of_standing) = (middle, of_middle);
        } else {
            (refuted, of_refuted) = (middle, of_middle);
        }
        if last_moved_standing == Some(moves_standing) {
            if moves_standing {
                of_refuted /= 2.0;
            } else {
                of_standing /= 2.0;
            }
        }
        last_moved_standing = Some(moves_standing);
    }
    refuted
}

/// Logarithm of what bets against a mean of `m` or more have made of 1.
fn log_wealth(drawn: impl Iterator<Item = f64>, all: &HowMany, m: f64) -> f64 {
    let room = 1.0 - m;
    let mut logarithms = [0.0; STAKE_COUNT];
    let mut products = [1.0; STAKE_COUNT];
    let mut of_chunk = 0;
    let (mut count, mut sum) = (0.0, 0.0);
    for x in drawn {
        // How far the numbers drawn lie below what `m` makes of them.
        let behind = count * m - sum;
        let gain = if behind >= 0.0 {
            (m + behind / (all.most - count) - x) / room
        } else {
            let u = m + behind / (all.least - count);
            (u - x) / (1.0 - u)
        };
        // What 0 / 0 gives counts as a loss.
        let gain = if gain > -1.0 { gain.min(GAIN_MAX) } else { -1.0 };
        for (product, stake) in products.iter_mut().zip(STAKES) {
            *product *= 1.0 + stake * gain;
        }
        count += 1.0;
        sum += x;
        of_chunk += 1;
        if of_chunk == CHUNK {
            take_logarithms(&mut products, &mut logarithms);
            of_chunk = 0;
        }
    }
    take_logarithms(&mut products, &mut logarithms);
    log_of_shared(&logarithms)
}

fn take_logarithms(products: &mut [f64; STAKE_COUNT], logarithms: &mut [f64; STAKE_COUNT]) {
    for (product, logarithm) in products.iter_mut().zip(logarithms) {
        *logarithm += product.ln();
        *product = 1.0;
    }
}

/// Logarithm of the wealth in all stakes, of which each began with its share of 1 and made what `logarithms` say.
pub(super) fn log_of_shared(logarithms: &[f64; STAKE_COUNT]) -> f64 {
    // A share for each, larger for large stakes: these serve few draws, where the ends are far.
    let weight = |stake: usize| 1.0 / (stake + 3) as f64;
    let all: f64 = (0..STAKE_COUNT).map(weight).sum();
    let most = logarithms.iter().fold(f64::NEG_INFINITY, |most, &x| most.max(x));
    if most.is_infinite() {
        return most;
    }
    let wealth = logarithms.iter().enumerate().map(|(at, x)| weight(at) * (x - most).exp());
    most + (wealth.sum::<f64>() / all).ln()
}

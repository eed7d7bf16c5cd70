//! [`Interval`]: how far an estimate can be from the truth.
//!
//! Two families, told apart by how the drawing stops. [`mean_t`] and [`share_wilson`] hold for a number of draws fixed
//! beforehand, looked at once. [`mean_sequence_bounded`], [`mean_sequence`] and [`share_sequence`] hold at *all* looks together,
//! so drawing may stop when the interval is small enough, at the price of half again the width or more.
//! For intervals that hold together with others, [`Confidence::spending`] divides what may go wrong, and [`group_share`] and
//! [`group_share_sequence`] do it for groups that were not known before they were drawn; [`NewGroups`] says how many rows may lie in
//! groups not met. All take uniform draws and know the finite population they come from.
//! Those for means lean on the central limit theorem, unless bounds of the numbers are known: heavy tails want many draws.
//! Wilson's is approximate too; the others for shares are exact. When all of a population is drawn, the answer is a number
//! without error (NaN if there is no row to take a mean or share of).
//! What the numbers mean, and which rows count as drawn, is left to the caller.

mod beta_binomial;
mod betting;
mod bounded;
mod hypergeometric;
mod new_groups;
#[cfg(test)]
mod tests;

use std::fmt;

use statrs::distribution::{Continuous, ContinuousCDF, Normal, StudentsT};

use self::beta_binomial::Candidates;
pub use self::betting::mean_sequence_bounded;
pub use self::bounded::{BoundedNumbers, Bounds};
use self::hypergeometric::Urn;
pub use self::new_groups::NewGroups;
use crate::moments::Moments;

/// Below this many numbers a confidence sequence for a mean is unbounded. It is asymptotic: it must not be believed
/// before the central limit theorem and the estimated variance can be.
pub const SEQUENCE_COUNT_MIN: u64 = 100;

/// From this many degrees of freedom on, the t quantile is taken from its expansion around the normal one, whose error
/// is then below 1e-6 of the quantile up to a confidence of 1 - 1e-9.
const T_EXPANSION_FREEDOM_MIN: f64 = 1000.0;

/// Of fewer numbers than this no heavy tail is noted: chance alone makes some skewed.
const NOTED_COUNT_MIN: u64 = 30;

/// From so many numbers on t gives way to bounds because of their skewness. Of fewer, bounds cost more width than t lacks.
const T_SKEWNESS_COUNT_MIN: u64 = 1_000;

/// As many numbers as this times their squared skewness are enough for t (Cochran 1977, section 2.15).
const T_SKEWNESS_FACTOR: f64 = 25.0;

/// If unmet rows could move the mean by more than so many half widths, t gives way to bounds.
const T_REACH_MAX: f64 = 10.0;

/// So large that draws without replacement are as good as with.
const ENDLESS_POPULATION: u64 = 1 << 60;

/// An estimate with its error bars.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The estimate itself; NaN if nothing was drawn that could give one.
    pub value: f64,
    /// Lower end; minus infinity where nothing can be said.
    pub low: f64,
    /// Upper end; infinity where nothing can be said.
    pub high: f64,
    /// The way the ends were found.
    pub method: Method,
}

impl Interval {
    /// A number known without error.
    pub fn exact(value: f64) -> Interval {
        Interval { value, low: value, high: value, method: Method::Exact }
    }

    /// The larger distance from the estimate to an end: what a target for the error is compared with.
    pub fn half_width(&self) -> f64 {
        (self.value - self.low).max(self.high - self.value)
    }

    /// Whether `truth` lies between the ends, both included.
    pub fn contains(&self, truth: f64) -> bool {
        self.low <= truth && truth <= self.high
    }

    fn unbounded(value: f64, method: Method) -> Interval {
        Interval { value, low: f64::NEG_INFINITY, high: f64::INFINITY, method }
    }
}

/// How an interval was found, which also says what it is valid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Method {
    /// Every row of the population was looked at, or an index knows the number.
    Exact,
    /// Student's t, further out on the side of a longer tail; for a number of draws fixed beforehand.
    StudentT,
    /// From the bounds of the numbers, where few rows may carry most of the mean; for a number of draws fixed beforehand.
    Bounded,
    /// Wilson's score interval; for a number of draws fixed beforehand.
    Wilson,
    /// The exact test of a share; for a number of draws fixed beforehand.
    Hypergeometric,
    /// The exact sequence of a share: valid at all looks together, however the drawing is stopped.
    ConfidenceSequence,
    /// The sequence of a mean from the bounds of its numbers: valid at all looks together, whatever the numbers.
    BoundedSequence,
    /// The sequence of a mean without bounds: valid at all looks together where the central limit theorem has set in.
    AsymptoticSequence,
}

impl Method {
    /// The name shown to users.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Exact => "exact",
            Method::StudentT => "t",
            Method::Bounded => "bounded",
            Method::Wilson => "wilson",
            Method::Hypergeometric => "hypergeometric",
            Method::ConfidenceSequence => "confidence sequence",
            Method::BoundedSequence => "bounded confidence sequence",
            Method::AsymptoticSequence => "asymptotic confidence sequence",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How often the truth shall lie in the interval: strictly between 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Confidence(f64);

/// A confidence that is no probability strictly between 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("confidence {found} is not between 0 and 1, both excluded (0.95 is usual)")]
pub struct ConfidenceError {
    /// The number given.
    pub found: f64,
}

impl Confidence {
    /// Checks that `confidence` lies strictly between 0 and 1; NaN does not.
    pub fn new(confidence: f64) -> Result<Confidence, ConfidenceError> {
        if confidence > 0.0 && confidence < 1.0 {
            Ok(Confidence(confidence))
        } else {
            Err(ConfidenceError { found: confidence })
        }
    }

    /// The confidence as a number.
    pub fn get(self) -> f64 {
        self.0
    }

    /// The confidence that leaves only a share of the chance for the truth to lie outside: `1 / k` for each of `k`
    /// intervals that shall hold together (Bonferroni). Below 1, however small the share.
    ///
    /// # Panics
    /// If `share` lies outside of 0 to 1.
    pub fn spending(self, share: f64) -> Confidence {
        assert!((0.0..=1.0).contains(&share), "{share} is no share");
        Confidence((1.0 - self.alpha() * share).min(1.0 - f64::EPSILON))
    }

    /// The chance left for the truth to lie outside.
    fn alpha(self) -> f64 {
        1.0 - self.0
    }
}

/// What the sample is drawn from.
///
/// Drawing without replacement from a finite population leaves less to be uncertain about; when all of it is drawn, the
/// answer is [`Method::Exact`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Design {
    /// Size of the population when draws are without replacement; `None` with replacement, or if unknown.
    pub population: Option<u64>,
    /// How many rows were drawn, whether or not they belong to the group or hold a number.
    pub drawn: u64,
}

impl Design {
    fn is_exhausted(&self) -> bool {
        self.population == Some(self.drawn)
    }

    /// How many draws with replacement would give a mean of the same variance: `drawn / (1 - drawn / population)`.
    fn effective_draws(&self) -> f64 {
        self.effective_draws_leaving(0.0)
    }

    /// The same, as if at least `rest_min` rows of the population were left to draw.
    fn effective_draws_leaving(&self, rest_min: f64) -> f64 {
        let drawn = self.drawn as f64;
        self.population.map_or(drawn, |all| {
            let rest = ((all - self.drawn) as f64).max(rest_min);
            drawn * (all as f64 / rest)
        })
    }

    fn check(&self, counted: u64) {
        assert!(
            self.population.is_none_or(|all| self.drawn <= all),
            "more rows drawn than there are: {self:?}"
        );
        assert!(counted <= self.drawn, "{counted} rows counted of {} drawn", self.drawn);
    }
}

/// The mean over the rows of a group, from the numbers `m` met among the draws: Student's t.
///
/// Without a group, `m` holds all draws that are not null. With one, the mean is a ratio of two estimates; linearised
/// (Cochran 1977, section 2.11) its standard error is that of a mean over the members met, with the finite
/// population correction `1 - drawn / population` of the whole design.
///
/// Of skewed numbers t is often too small on the side of the longer tail, since a sample without the tail has a small mean and a
/// small spread at once. So that end lies `g (2 z^2 + 1) / 6 sqrt(n)` standard errors further out, with `g` the skewness of the
/// `n` numbers and `z` the normal quantile (Johnson 1978, "Modified t tests and confidence intervals for asymmetrical
/// populations"; Hall 1983). The other end might come closer by as much, but stays: of few numbers the skewness says too little
/// to make anything narrower.
///
/// Unbounded on both sides with fewer than two members or a number that is not finite; value NaN without members.
/// Members that are all equal give an interval of no width: the sample holds no sign of a difference.
///
/// # Panics
/// If `design` draws more rows than there are, or fewer than `m` counts.
pub fn mean_t(m: &Moments, design: &Design, confidence: Confidence) -> Interval {
    design.check(m.count());
    if design.is_exhausted() {
        return Interval::exact(m.mean());
    }
    if m.count() < 2 {
        return Interval::unbounded(m.mean(), Method::StudentT);
    }
    let standard_error = (variance_per_draw(m, design) / design.effective_draws()).sqrt();
    let quantile = t_quantile((m.count() - 1) as f64, confidence);
    let even = around_mean(m, quantile * standard_error, Method::StudentT);
    let z = normal_quantile(confidence);
    let skew = m.skewness() * (2.0 * z * z + 1.0) / (6.0 * (m.count() as f64).sqrt());
    // The lesser of NaN, which is the skewness of numbers that are not finite, and 0 is 0.
    let further = skew * standard_error;
    Interval { low: even.low + further.min(0.0), high: even.high + further.max(0.0), ..even }
}

/// [`mean_t`] for numbers that are known to lie between bounds. Where few rows may carry most of the mean, both ends are those
/// of [`BoundedNumbers`], which lean on no limit theorem; elsewhere t's are narrower, and no further out than the bounds.
///
/// Few rows may carry most of it, if either
/// - the bounds say so: the rows that could be unmet with the chance to be wrong, all at a bound, would move the mean by more
///   than ten times the half width of the t interval; or
/// - the draws say so: of 1,000 or more, their skewness `g` is so large that there are less than `25 g^2` of them (Cochran 1977,
///   section 2.15).
///
/// One number alone has the bounds for its interval.
///
/// # Panics
/// As [`mean_t`].
pub fn mean_t_or_bounded(
    m: &Moments,
    numbers: &BoundedNumbers,
    design: &Design,
    confidence: Confidence,
) -> Interval {
    let t = mean_t(m, design, confidence);
    if t.method == Method::Exact || !t.value.is_finite() {
        return t;
    }
    let (bounds, count) = (numbers.bounds(), m.count() as f64);
    // What is left to draw may be all at a bound, and no more than that.
    let rest = design.population.map_or(f64::INFINITY, |all| (all - design.drawn) as f64);
    let rest_share = if rest.is_finite() { rest / (count + rest) } else { 1.0 };
    let least = t.value - rest_share * (t.value - bounds.low);
    let most = t.value + rest_share * (bounds.high - t.value);
    let within = |low: f64, high: f64, method: Method| {
        let (low, high) = (low.clamp(least, t.value), high.clamp(t.value, most));
        Interval { value: t.value, low, high, method }
    };
    let alpha_of_end = confidence.alpha() / 2.0;
    let unmet_share = (-alpha_of_end.ln() / count).min(rest_share);
    let reach = unmet_share * (bounds.high - t.value).max(t.value - bounds.low);
    // On the side of the shorter tail, where skewness has not moved it.
    let half_width = (t.high - t.value).min(t.value - t.low);
    let is_skewed = m.count() >= T_SKEWNESS_COUNT_MIN && is_heavy_tailed(m);
    if reach > T_REACH_MAX * half_width || is_skewed {
        let (low, high) = (numbers.mean_at_least(alpha_of_end), numbers.mean_at_most(alpha_of_end));
        within(low, high, Method::Bounded)
    } else {
        within(t.low, t.high, Method::StudentT)
    }
}

/// Whether the draws show a tail so heavy that a t interval may hold less often than it says: fewer of them than 25 times their
/// squared skewness (Cochran 1977, section 2.15). Fewer than 30 can show nothing.
pub fn is_heavy_tailed(m: &Moments) -> bool {
    let skewness = m.skewness();
    m.count() >= NOTED_COUNT_MIN && (m.count() as f64) < T_SKEWNESS_FACTOR * skewness * skewness
}

/// The share of the population with a property that `hits` of the draws have: Wilson's score interval (1927).
///
/// The draws count as many more as the finite population correction says. Never outside `[0, 1]`, nor outside what the
/// rows already drawn allow in a finite population; always holds `hits / drawn`. Without draws, all of
/// `[0, 1]` around a NaN.
///
/// # Panics
/// If `design` draws more rows than there are, or fewer than `hits`.
pub fn share_wilson(hits: u64, design: &Design, confidence: Confidence) -> Interval {
    design.check(hits);
    let value = hits as f64 / design.drawn as f64;
    if design.is_exhausted() {
        return Interval::exact(value);
    }
    if design.drawn == 0 {
        return share_between(0.0, 1.0, value, Method::Wilson);
    }
    let quantile = normal_quantile(confidence);
    // The correction is exact for the variance with one row less below the line; p (1 - p) has them all.
    let effective = match design.population {
        None => design.effective_draws(),
        Some(all) => design.effective_draws() * (1.0 - 1.0 / all as f64),
    };
    // The shares p with (value - p)^2 <= spread * p (1 - p).
    let spread = quantile * quantile / effective;
    let middle = (value + spread / 2.0) / (1.0 + spread);
    let reach = (spread * (value * (1.0 - value) + spread / 4.0)).sqrt() / (1.0 + spread);
    let (sure_low, sure_high) = sure_shares(hits, design);
    share_between(
        (middle - reach).max(sure_low),
        (middle + reach).min(sure_high),
        value,
        Method::Wilson,
    )
}

/// The mean over the rows of a group, valid at all looks together: an asymptotic confidence sequence (Waudby-Smith,
/// Arbour, Sinha, Kennedy and Ramdas 2021, arXiv 2103.06476, theorem 2.2).
///
/// Takes what [`mean_t`] takes, after each look anew, with the same `n_opt` at every look: the number of draws at which
/// the sequence is tightest. Half of a finite population is the most that `n_opt` counts for. Wider than the t
/// interval by a factor 1.55 at `n_opt` for a confidence of 0.95, and by less than 2 from a fifth of that to ten times.
///
/// Asymptotic: the failures at confidence 0.95, all looks at single draws together, were measured as 3 to 4 % of runs for
/// normal numbers, 3 to 5 % for exponential ones and 6 to 9 % for lognormal ones, tuned to 2,000 and 200 members. Where
/// so few are left of a finite population that their sum is not normal again, the interval stops shrinking until all
/// are drawn.
///
/// If bounds of the numbers are known, [`mean_sequence_bounded`] needs no limit theorem: this one is badly wrong where the mean
/// rests on rows so rare that the draws so far have not met one.
///
/// Unbounded below [`SEQUENCE_COUNT_MIN`] members, or with a number that is not finite. Members that are all
/// equal give an interval of no width: a caller who stops on a small error should ask for a look at more draws then,
/// since a rare large value may not have been met.
///
/// # Panics
/// If `design` draws more rows than there are, or fewer than `m` counts, or if `n_opt` is 0.
pub fn mean_sequence(m: &Moments, design: &Design, confidence: Confidence, n_opt: u64) -> Interval {
    design.check(m.count());
    if design.is_exhausted() {
        return Interval::exact(m.mean());
    }
    if m.count() < SEQUENCE_COUNT_MIN {
        return Interval::unbounded(m.mean(), Method::AsymptoticSequence);
    }
    // Where fewer members than this are left, their sum is as far from normal as that of the first few was.
    let rest_min = SEQUENCE_COUNT_MIN as f64 * (design.drawn as f64 / m.count() as f64);
    let effective = design.effective_draws_leaving(rest_min);
    let z_squared = sequence_z_squared(effective, design, confidence, n_opt);
    let half_width = (z_squared * variance_per_draw(m, design) / effective).sqrt();
    around_mean(m, half_width, Method::AsymptoticSequence)
}

/// The share of the population with a property, valid at all looks together: the shares against which no
/// beta-binomial mixture has won (Robbins 1970; Howard, Ramdas, McAuliffe and Sekhon 2021).
///
/// Unlike [`mean_sequence`] it is exact, not asymptotic: valid from the first draw, for rare properties, and until a
/// finite population is exhausted. About as wide as the asymptotic sequence where that may be used, and tightest at
/// about `n_opt` draws; half of a finite population is the most that `n_opt` counts for. Never outside `[0, 1]`,
/// always holds `hits / drawn`. Some hundred evaluations of the gamma function.
///
/// # Panics
/// If `design` draws more rows than there are, or fewer than `hits`, or if `n_opt` is 0.
pub fn share_sequence(hits: u64, design: &Design, confidence: Confidence, n_opt: u64) -> Interval {
    sequence_of_share(hits, design, confidence, n_opt, false)
}

/// The share of one of many groups, the intervals of all of them valid together, at all looks: as [`share_sequence`],
/// but a candidate share is refuted with a chance of `alpha` times itself, see [`group_share`].
///
/// # Panics
/// As [`share_sequence`].
pub fn group_share_sequence(
    hits: u64,
    design: &Design,
    confidence: Confidence,
    n_opt: u64,
) -> Interval {
    sequence_of_share(hits, design, confidence, n_opt, true)
}

/// The share of one of many groups, of which those met are looked at; the intervals of all of them hold together.
/// For a number of draws fixed beforehand; exact.
///
/// To divide `alpha` by the number of groups met would not do: a group is looked at *because* it was met, so the share of
/// a rare one is overestimated whenever it is. Instead each candidate share `p` is tested at the level `alpha p`. The true
/// share of a group, met or not, is then refuted with a chance of at most `alpha` times that share; and the shares of
/// all groups add up to 1 at most, so any is refuted with a chance of at most `alpha`. Of `k` groups of equal size this is
/// Bonferroni's division by `k`, without knowing `k`. One hit refutes no small share at all.
///
/// The test is that of Clopper and Pearson (1934) for draws without replacement. Some terms of the hypergeometric
/// distribution for each of some 80 steps of a bisection. Without draws, all of `[0, 1]` around a NaN.
///
/// # Panics
/// If `design` draws more rows than there are, or fewer than `hits`.
pub fn group_share(hits: u64, design: &Design, confidence: Confidence) -> Interval {
    design.check(hits);
    let value = hits as f64 / design.drawn as f64;
    if design.is_exhausted() {
        return Interval::exact(value);
    }
    if design.drawn == 0 {
        return share_between(0.0, 1.0, value, Method::Hypergeometric);
    }
    let all = design.population.unwrap_or(ENDLESS_POPULATION);
    let urn = Urn { hits, misses: design.drawn - hits, all };
    let (least, most) = urn.hits_not_refuted(|share| confidence.alpha() * share);
    share_between(
        least as f64 / all as f64,
        most as f64 / all as f64,
        value,
        Method::Hypergeometric,
    )
}

fn sequence_of_share(
    hits: u64,
    design: &Design,
    confidence: Confidence,
    n_opt: u64,
    is_one_of_many: bool,
) -> Interval {
    design.check(hits);
    let value = hits as f64 / design.drawn as f64;
    if design.is_exhausted() {
        return Interval::exact(value);
    }
    let log_alpha = confidence.alpha().ln();
    let n_opt = useful_n_opt(n_opt, design.population);
    let candidates = Candidates {
        hits,
        misses: design.drawn - hits,
        // Against a normal mixture worth r draws, n draws have y = n / r.
        mixture_draws: n_opt as f64 / tightest_y(2.0 * log_alpha),
        log_wealth_max: -log_alpha,
        is_one_of_many,
    };
    let (low, high) = match design.population {
        None => candidates.shares(),
        Some(all) => {
            let (least, most) = candidates.hits_of(all);
            (least as f64 / all as f64, most as f64 / all as f64)
        }
    };
    share_between(low, high, value, Method::ConfidenceSequence)
}

/// What the rows already drawn leave possible for a share of a finite population.
fn sure_shares(hits: u64, design: &Design) -> (f64, f64) {
    design.population.map_or((0.0, 1.0), |all| {
        let misses = design.drawn - hits;
        (hits as f64 / all as f64, (all - misses) as f64 / all as f64)
    })
}

/// The interval with these ends; rounding may not push them past 0, 1 or the estimate.
fn share_between(low: f64, high: f64, value: f64, method: Method) -> Interval {
    // The minimum of a number and NaN, which is the estimate without draws, is the number.
    let low = if value == 0.0 { 0.0 } else { low.max(0.0) };
    let high = if value == 1.0 { 1.0 } else { high.min(1.0) };
    Interval { value, low: low.min(value), high: high.max(value), method }
}

/// The variance of one draw's part in the linearised mean: members weigh `drawn / members`, other rows nothing.
fn variance_per_draw(m: &Moments, design: &Design) -> f64 {
    m.variance() * (design.drawn as f64 / m.count() as f64)
}

fn around_mean(m: &Moments, half_width: f64, method: Method) -> Interval {
    let value = m.mean();
    if !value.is_finite() || half_width.is_nan() {
        return Interval::unbounded(value, method);
    }
    Interval { value, low: value - half_width, high: value + half_width, method }
}

/// Squared number of standard errors that Robbins' normal mixture allows at this look, for all looks to hold together.
///
/// With `y = t rho^2` the boundary of the paper, `sqrt(2 (y + 1) / (t^2 rho^2) ln(sqrt(y + 1) / alpha))`, is
/// `sqrt((y + 1) / y (ln(y + 1) - 2 ln alpha))` standard errors `1 / sqrt(t)`.
///
/// Without replacement `t` is not the number of draws. For a sum `S` of centred draws, `S / (population - drawn)`
/// is a martingale (Serfling 1974) whose variance grows as `drawn / (1 - drawn / population)`: time runs in
/// `effective` draws, and the boundary carries over.
fn sequence_z_squared(effective: f64, design: &Design, confidence: Confidence, n_opt: u64) -> f64 {
    let at_opt =
        Design { population: design.population, drawn: useful_n_opt(n_opt, design.population) };
    let log_alpha_squared = 2.0 * confidence.alpha().ln();
    let y = tightest_y(log_alpha_squared) * (effective / at_opt.effective_draws());
    (y + 1.0) / y * (y.ln_1p() - log_alpha_squared)
}

/// The number of draws to tune to: past half the population the clock of effective draws races, and a sequence tuned to
/// that time is wide at every earlier look.
fn useful_n_opt(n_opt: u64, population: Option<u64>) -> u64 {
    assert!(n_opt > 0, "a sequence cannot be tightest at no draws");
    population.map_or(n_opt, |all| n_opt.min(all.div_ceil(2)))
}

/// The `y` that minimises `(y + 1) / y (ln(y + 1) - ln(alpha^2))`: where the logarithm's factor equals `y`.
///
/// Found by iterating that equation, which contracts by `1 / (1 + y)` a step; the paper gives the same root by
/// Lambert's W. Any `y` gives a valid sequence: stopping early, at a confidence near 0, costs some width at most.
fn tightest_y(log_alpha_squared: f64) -> f64 {
    let mut y = 1.0 - log_alpha_squared;
    for _ in 0..200 {
        let next = y.ln_1p() - log_alpha_squared;
        if (next - y).abs() <= 1e-12 * y {
            return next;
        }
        y = next;
    }
    y
}

/// How many standard errors a normal estimate stays within, with the given confidence.
fn normal_quantile(confidence: Confidence) -> f64 {
    // Taken in the lower tail, where a confidence near 1 keeps its digits.
    -Normal::standard().inverse_cdf(confidence.alpha() / 2.0)
}

/// Newton's steps from a quantile of the lower tail, which comes out too small where many intervals together leave next to
/// nothing for it. On logarithms of both sides, where the far tail is a straight line.
fn refine_quantile(t: &StudentsT, mut quantile: f64, tail: f64) -> f64 {
    for _ in 0..50 {
        let found = t.cdf(-quantile);
        let off = (found / tail).ln();
        if off.abs() < 1e-9 {
            break;
        }
        quantile *= (off * found / (t.pdf(-quantile) * quantile)).exp();
    }
    quantile
}

/// How many estimated standard errors a mean stays within, with the given confidence.
fn t_quantile(freedom: f64, confidence: Confidence) -> f64 {
    if freedom < T_EXPANSION_FREEDOM_MIN {
        let t = StudentsT::new(0.0, 1.0, freedom).expect("degrees of freedom are positive");
        let tail = confidence.alpha() / 2.0;
        return refine_quantile(&t, -t.inverse_cdf(tail), tail);
    }
    // Abramowitz and Stegun 26.7.5, two terms.
    let z = normal_quantile(confidence);
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    z + first / freedom + second / (freedom * freedom)
}

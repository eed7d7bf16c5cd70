//! What a reader of an estimate should know besides its numbers: what intervals allow for and what they do not, which groups may be
//! missing, and which rows were read instead of drawn.

use drillcore_sample::interval::{
    Bounds, Confidence, Design, Interval, Method, is_heavy_tailed, share_sequence,
};

use crate::read::estimate::plan::{EstimatePlan, Figure, Measure};
use crate::read::estimate::result::{AggregateEstimate, Estimate};
use crate::read::estimate::shown_figures::whole;
use crate::read::estimate::tally::Tally;
use crate::read::estimate::unreached::sentences;

/// Sentences: those for each aggregate that needs some, then those of the whole estimate.
pub fn notes(
    estimate: &Estimate,
    plan: &EstimatePlan,
    tally: &Tally,
    groups: &[usize],
    confidence: Confidence,
    n_opt: u64,
    slow: &str,
) -> Vec<String> {
    let mut notes = Vec::new();
    for ((name, aggregate), found) in plan.aggregates.iter().zip(&estimate.aggregates) {
        let Measure::Of(figure, slot) = *aggregate else { continue };
        let tails = figure.leans_on_tails();
        let sentences = [
            tails
                .then(|| of_tails(tally, slot, groups, &found.intervals, confidence.get()))
                .flatten(),
            of_missing_values(estimate, tally, (figure, slot), groups, found, confidence, n_opt),
            of_open_ends(figure, found),
        ];
        notes.extend(sentences.into_iter().flatten().map(|sentence| format!("{name}: {sentence}")));
    }
    notes.extend(sentences(estimate));
    notes.extend(of_groups_not_met(estimate));
    notes.extend(of_rows_read(estimate, tally, groups, slow));
    notes
}

/// What the intervals of an average make of values that were not met.
fn of_tails(
    tally: &Tally,
    slot: usize,
    groups: &[usize],
    intervals: &[Interval],
    confidence: f64,
) -> Option<String> {
    let is_estimated = |interval: &&Interval| interval.method != Method::Exact;
    let estimated = intervals.iter().filter(is_estimated).count();
    let heavy = heavy_tail(tally, slot, groups, intervals);
    let them = if estimated == 1 { "the interval" } else { "intervals" };
    match tally.known_of(slot).bounds() {
        _ if estimated == 0 => None,
        None => {
            let tail = heavy.map_or(String::new(), |heavy| format!(" ({})", heavy.tail));
            Some(format!(
                "the bounds of its values are unknown, and rare large values may be missing from the sample{tail}: {them} may \
                 hold in fewer than {} % of cases",
                confidence * 100.0
            ))
        }
        Some(bounds)
            if intervals.iter().any(|interval| interval.method == Method::BoundedSequence) =>
        {
            let allows = if estimated == 1 { "allows" } else { "allow" };
            Some(format!("{them} {allows} for {}", as_far_as(bounds)))
        }
        Some(bounds) => heavy.map(|heavy| heavy.sentence(bounds)),
    }
}

/// Groups of whose sum few rows may carry most.
struct HeavyTail {
    /// All groups of the result, those with such a tail, and those of these whose interval was made from bounds.
    groups: usize,
    heavy: usize,
    bounded: usize,
    /// The group that is most skewed, in words.
    tail: String,
}

fn heavy_tail(
    tally: &Tally,
    slot: usize,
    groups: &[usize],
    intervals: &[Interval],
) -> Option<HeavyTail> {
    let is_heavy = |(group, interval): &(&usize, &Interval)| match interval.method {
        Method::Exact => false,
        Method::Bounded => true,
        _ => is_heavy_tailed(&tally.moments(**group, slot)),
    };
    // Of no numbers nothing can be said.
    let has_numbers = |(group, _): &(&usize, &Interval)| tally.moments(**group, slot).count() > 0;
    let of_groups = groups.iter().zip(intervals).filter(has_numbers);
    let heavy: Vec<(&usize, &Interval)> = of_groups.filter(is_heavy).collect();
    let skewness = |group: &usize| tally.moments(*group, slot).skewness();
    let (worst, _) =
        heavy.iter().max_by(|a, b| skewness(a.0).abs().total_cmp(&skewness(b.0).abs()))?;
    let draws = tally.moments(**worst, slot).count();
    Some(HeavyTail {
        groups: groups.len(),
        heavy: heavy.len(),
        bounded: heavy.iter().filter(|(_, each)| each.method == Method::Bounded).count(),
        tail: format!("skewness {:.1} over {draws} draws", skewness(worst)),
    })
}

impl HeavyTail {
    /// For intervals of one look, of a column with bounds.
    fn sentence(&self, bounds: Bounds) -> String {
        let HeavyTail { groups, heavy, bounded, tail } = self;
        let values = as_far_as(bounds);
        let narrow =
            "may contain the true value less often than the confidence level says; draw more rows";
        match (*groups, heavy - bounded) {
            (1, 0) => {
                format!(
                    "heavy tail ({tail}); the interval allows for {values}: more draws narrow it"
                )
            }
            (1, _) => format!("heavy tail ({tail}); the interval {narrow}"),
            (all, 0) => format!(
                "heavy tails in {bounded} of {all} groups (the heaviest: {tail}); their intervals allow for {values}: more draws \
                 narrow them"
            ),
            (all, narrow_ones) => format!(
                "heavy tails in {heavy} of {all} groups (the heaviest: {tail}); {narrow_ones} of these intervals {narrow}"
            ),
        }
    }
}

/// Of ends that no number drawn is far enough out for, and of what only a scan would tell.
fn of_open_ends(figure: Figure, found: &AggregateEstimate) -> Option<String> {
    let groups = found.intervals.len();
    let count = |is_so: &dyn Fn(&Interval) -> bool| {
        found.intervals.iter().filter(|interval| is_so(interval)).count()
    };
    let where_of = |open: usize| match (groups, open) {
        (1, _) => String::new(),
        (all, open) => format!(" in {open} of {all} groups"),
    };
    match figure {
        Figure::Distinct => {
            let open = count(&|interval| interval.method == Method::LowerBound);
            (open > 0).then(|| {
                format!(
                    "a lower bound{}: the sample has this many different values, and there may be more; stop by an error to \
                     read all rows",
                    where_of(open)
                )
            })
        }
        Figure::Quantile(_) => {
            let open = count(&|interval| {
                interval.method != Method::Exact
                    && (interval.low.is_infinite() || interval.high.is_infinite())
                    && interval.value.is_finite()
            });
            (open > 0).then(|| {
                format!(
                    "too few values were met for both ends of the interval{}; draw more",
                    where_of(open)
                )
            })
        }
        Figure::Ratio => {
            let open =
                count(&|interval| interval.method != Method::Exact && interval.low.is_infinite());
            (open > 0).then(|| {
                format!(
                    "the denominator may be 0{}, as far as the draws show; draw more",
                    where_of(open)
                )
            })
        }
        _ => None,
    }
}

/// Of groups that rows were drawn of, but no value of a figure that needs some.
fn of_missing_values(
    estimate: &Estimate,
    tally: &Tally,
    (figure, slot): (Figure, usize),
    groups: &[usize],
    found: &AggregateEstimate,
    confidence: Confidence,
    n_opt: u64,
) -> Option<String> {
    let rows = estimate.unit.as_str();
    let is_missing = |(group, interval): &(&usize, &Interval)| {
        let values = tally.count(**group, slot);
        interval.method != Method::Exact && values == 0
    };
    let (missing, not_drawn): (Vec<usize>, Vec<usize>) = groups
        .iter()
        .zip(&found.intervals)
        .filter(is_missing)
        .map(|(group, _)| *group)
        .partition(|&group| tally.drawn(group) > 0);
    let share_max = |group: usize| {
        let drawn = tally.drawn(group);
        let design = tally.design(group).unwrap_or(Design { population: None, drawn });
        share_sequence(0, &design, confidence, n_opt).high
    };
    let (count, share) = missing
        .into_iter()
        .fold((0, 0.0f64), |(count, most), group| (count + 1, most.max(share_max(group))));
    let share = percent_at_most(share);
    if matches!(figure, Figure::Values | Figure::Distinct) {
        return None;
    }
    if !not_drawn.is_empty() {
        return Some(of_rows_not_drawn(estimate, not_drawn.len(), confidence, n_opt));
    }
    let noun = figure.noun();
    match (groups.len(), count) {
        (_, 0) => None,
        (1, _) => Some(format!(
            "no value was met, so there may be no {noun}; at most {share} of the {rows} have a value"
        )),
        (all, count) => Some(format!(
            "no value was met in {count} of {all} groups, so there may be no {noun}; at most {share} of the {rows} of each have a \
             value"
        )),
    }
}

/// Of groups that no draw met: all that is estimated, where nothing drawn passes the condition, or known sets.
fn of_rows_not_drawn(
    estimate: &Estimate,
    count: usize,
    confidence: Confidence,
    n_opt: u64,
) -> String {
    let rows = estimate.unit.as_str();
    if !estimate.groups.is_empty() {
        let all = estimate.drawn.len();
        return format!("no {rows} were drawn of {count} of the {all} groups; draw more");
    }
    let Estimate { population, sampled, .. } = *estimate;
    let design = Design { population: Some(population), drawn: sampled };
    let share = share_sequence(0, &design, confidence, n_opt).high;
    format!(
        "none of the {} {rows} drawn meets the condition; at most {} of all do: draw more",
        in_thousands(sampled),
        percent_at_most(share)
    )
}

fn of_groups_not_met(estimate: &Estimate) -> Option<String> {
    let Estimate { unseen_share, unseen_share_high, .. } = *estimate;
    let rows = estimate.unit.as_str();
    let may_be = !estimate.groups.is_empty() && unseen_share_high > 0.0;
    may_be.then(|| {
        format!(
            "groups not met hold an estimated {} of the {rows}, at most {}",
            percent(unseen_share),
            percent_at_most(unseen_share_high)
        )
    })
}

fn of_rows_read(
    estimate: &Estimate,
    tally: &Tally,
    groups: &[usize],
    slow: &str,
) -> Option<String> {
    let rows = estimate.unit.as_str();
    let [sampled, scanned] = [estimate.sampled, estimate.scanned].map(in_thousands);
    if tally.is_scanned() {
        let all = in_thousands(estimate.population);
        return Some(match estimate.sampled {
            0 => format!("all {all} {rows} were read, because that cost less than drawing some"),
            _ => format!(
                "all {all} {rows} were read after {sampled} draws, because that cost less than drawing more{}",
                if slow.is_empty() { String::new() } else { format!(" for {slow}") }
            ),
        });
    }
    let read = groups.iter().filter(|group| tally.is_read(**group)).count();
    (read > 0).then(|| {
        format!(
            "{read} of {} groups were read whole, {scanned} {rows}: their figures are exact",
            groups.len()
        )
    })
}

fn as_far_as(Bounds { low, high }: Bounds) -> String {
    format!("values as far as the column's bounds, {} to {}", whole(low), whole(high))
}

/// Two digits of a share, or three.
fn percent(share: f64) -> String {
    format!("{:.*} %", decimals(share), share * 100.0)
}

/// The same, rounded up: what is said to be an upper end.
fn percent_at_most(share: f64) -> String {
    let unit = 10f64.powi(decimals(share) as i32);
    format!("{:.*} %", decimals(share), (share * 100.0 * unit).ceil() / unit)
}

fn decimals(share: f64) -> usize {
    match share * 100.0 {
        10.0.. | 0.0 => 0,
        1.0.. => 1,
        0.1.. => 2,
        0.01.. => 3,
        _ => 4,
    }
}

fn in_thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut shown = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_with_their_digits_and_upper_ends_are_rounded_up() {
        let counts = [0, 999, 1_000, 2_000_000].map(in_thousands);
        assert_eq!(counts, ["0", "999", "1,000", "2,000,000"]);
        let shares = [0.9432, 0.0432, 0.00432, 0.000_432, 0.0];
        assert_eq!(shares.map(percent), ["94 %", "4.3 %", "0.43 %", "0.043 %", "0 %"]);
        assert_eq!(shares.map(percent_at_most)[..3], ["95 %", "4.4 %", "0.44 %"]);
    }
}

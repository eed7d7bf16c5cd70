//! Notes on averages that few rows may carry, whose intervals lean on a central limit theorem that has not set in, or on bounds:
//! what that means for them, and what would make them narrower.

use drillcore_sample::interval::{Bounds, Interval, Method, is_heavy_tailed};

use crate::estimate::AggregateEstimate;
use crate::estimate::tally::Tally;
use crate::estimate::target::{Aggregate, Target};

/// One sentence an average that needs it.
pub fn heavy_tails(
    target: &Target,
    tally: &Tally,
    groups: &[usize],
    estimates: &[AggregateEstimate],
) -> Vec<String> {
    let averages = target.aggregates.iter().zip(estimates);
    let note = |((name, aggregate), estimate): (&(String, Aggregate), &AggregateEstimate)| {
        let Aggregate::Avg(slot) = *aggregate else { return None };
        Some(format!("{name}: {}", sentence(tally, slot, groups, &estimate.intervals)?))
    };
    averages.filter_map(note).collect()
}

fn sentence(
    tally: &Tally,
    slot: usize,
    groups: &[usize],
    intervals: &[Interval],
) -> Option<String> {
    let is_heavy = |(group, interval): &(&usize, &Interval)| match interval.method {
        Method::Exact => false,
        Method::Bounded => true,
        _ => is_heavy_tailed(tally.moments(**group, slot)),
    };
    let heavy: Vec<(&usize, &Interval)> = groups.iter().zip(intervals).filter(is_heavy).collect();
    // The group that is most skewed speaks for all.
    let skewness = |group: &usize| tally.moments(*group, slot).skewness();
    let (worst, _) =
        heavy.iter().max_by(|a, b| skewness(a.0).abs().total_cmp(&skewness(b.0).abs()))?;
    let bounded = heavy.iter().filter(|(_, interval)| interval.method == Method::Bounded).count();
    let tail = format!(
        "skewness {:.1} over {} draws",
        skewness(worst),
        tally.moments(**worst, slot).count()
    );
    let values = || {
        let numbers = tally.bounded(**worst, slot).expect("bounded intervals are of such numbers");
        let Bounds { low, high } = numbers.bounds();
        format!("values as far as the column's bounds, {} to {}", shown(low), shown(high))
    };
    let narrow = "may hold less often than said; draw more";
    Some(match (groups.len(), heavy.len() - bounded) {
        (1, 0) => {
            format!(
                "heavy tail ({tail}); the interval allows for {}: more draws narrow it",
                values()
            )
        }
        (1, _) => format!("heavy tail ({tail}); the interval {narrow}"),
        (all, 0) => format!(
            "heavy tails in {bounded} of {all} groups (most: {tail}); their intervals allow for {}: more draws narrow them",
            values()
        ),
        (all, narrow_ones) => format!(
            "heavy tails in {} of {all} groups (most: {tail}); {narrow_ones} of their intervals {narrow}",
            heavy.len()
        ),
    })
}

/// A bound without a row of zeros; no zero has a sign.
fn shown(bound: f64) -> String {
    match bound.abs() {
        1e-4..1e15 | 0.0 => (bound + 0.0).to_string(),
        _ => format!("{bound:e}"),
    }
}

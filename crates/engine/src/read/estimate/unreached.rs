//! Groups whose intervals are not as narrow as was asked for, and why.

use drillcore_sample::interval::{Interval, Method};

use crate::read::estimate::plan::{EstimatePlan, Measure};
use crate::read::estimate::request::HalfWidth;
use crate::read::estimate::result::{Estimate, Unreached};
use crate::read::estimate::tally::Tally;

/// Group names that a sentence has at most.
const NAMED_MAX: usize = 3;

/// The intervals of `estimate` that are wider than `width`, in the order of aggregates, then of groups: `order` has their numbers.
pub fn unreached(
    estimate: &Estimate,
    plan: &EstimatePlan,
    tally: &Tally,
    order: &[usize],
    width: HalfWidth,
) -> Vec<Unreached> {
    let of_group = if plan.by.is_empty() { "" } else { " of the group" };
    let mut found = Vec::new();
    for ((_, measure), aggregate) in plan.aggregates.iter().zip(&estimate.aggregates) {
        for (place, (interval, &group)) in aggregate.intervals.iter().zip(order).enumerate() {
            if is_reached(interval, width) {
                continue;
            }
            let values = match *measure {
                Measure::Count => tally.drawn(group),
                Measure::Of(_, slot) => tally.count(group, slot),
            };
            let unit = plan.unit.as_str();
            let reason = match (tally.drawn(group), values) {
                (0, _) => format!("no {unit}{of_group} were drawn"),
                (drawn, 0) => format!("none of the {drawn} drawn {unit}{of_group} has a value"),
                (drawn, _) => format!("{drawn} drawn {unit}{of_group} are not enough"),
            };
            found.push(Unreached { aggregate: aggregate.name.clone(), group: place, reason });
        }
    }
    found
}

fn is_reached(interval: &Interval, width: HalfWidth) -> bool {
    interval.method == Method::Exact || interval.half_width() <= limit(width, interval.value.abs())
}

/// The half width that is asked for of an estimate.
pub fn limit(width: HalfWidth, value: f64) -> f64 {
    match width {
        HalfWidth::Absolute(limit) => limit,
        HalfWidth::Relative(share) => share * value,
    }
}

/// A sentence for each aggregate that did not reach its width in some group, which names the first of them.
pub fn sentences(estimate: &Estimate) -> Vec<String> {
    let of_aggregate = |aggregate: &[Unreached]| {
        let Unreached { aggregate: name, reason, .. } = &aggregate[0];
        if estimate.groups.is_empty() {
            return format!("{name}: the interval is wider than the requested error: {reason}");
        }
        let all = estimate.drawn.len();
        let places: Vec<usize> = aggregate.iter().map(|each| each.group).collect();
        format!(
            "{name}: the interval is wider than the requested error in {} of {all} groups ({}): {}{reason}",
            places.len(),
            named(estimate, &places),
            if places.len() > 1 { "of the first, " } else { "" },
        )
    };
    let by_aggregate = estimate.unreached.chunk_by(|a, b| a.aggregate == b.aggregate);
    by_aggregate.map(of_aggregate).collect()
}

/// The names of some groups, by their places in the result: the first few, and how many more there are.
pub fn named(estimate: &Estimate, places: &[usize]) -> String {
    let mut names: Vec<String> =
        places.iter().take(NAMED_MAX).map(|&place| estimate.group_name(place)).collect();
    if places.len() > NAMED_MAX {
        names.push(format!("and {} more", places.len() - NAMED_MAX));
    }
    names.join(", ")
}

//! What to do after a look, when drawing is to stop at a width: enough was drawn, or draw on, or read rows instead, which makes
//! their part of the answer exact.
//!
//! Costs are counted in draws. Reading all rows costs what drawing one in [`ROWS_PER_DRAW`] does, of a selection by sets one in
//! [`SET_ROWS_PER_DRAW`]. So
//!
//! - small groups that a set index knows are read whole, the smallest first, as soon as that is no more reading than was drawn
//!   so far;
//! - all rows are read once drawing has cost as much, or is sure to cost as much again: no interval shrinks faster than in
//!   proportion to the draws.
//!
//! Together that is never more than some times the cost of the cheapest way.

use drillcore_sample::interval::{Interval, Method, SEQUENCE_COUNT_MIN};

use crate::read::estimate::plan::{EstimatePlan, Measure};
use crate::read::estimate::request::{HalfWidth, ROUND_MIN, USUAL_DRAWS};
use crate::read::estimate::result::Estimate;
use crate::read::estimate::tally::Tally;

/// So many rows are read in order in the time of one draw, at least; `docs/sampling.md` has the measurement.
const ROWS_PER_DRAW: u64 = 16;
/// And of sets, whose rows lie among others.
const SET_ROWS_PER_DRAW: u64 = 4;

/// A group of which so many rows were drawn, and no value among them, holds up nothing: a share of 1 % of its rows may have one.
const NULLS_ENOUGH: u64 = 1_000;

/// What comes after a look.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    Stop,
    Draw,
    /// Reads all rows of these groups.
    ReadGroups(Vec<usize>),
    /// Reads all rows.
    Scan,
}

/// How many draws cost as much as to read all of so many rows.
pub fn draws_of_scan(rows: u64, is_by_set: bool) -> u64 {
    rows / if is_by_set { SET_ROWS_PER_DRAW } else { ROWS_PER_DRAW }
}

/// Decides what comes after `estimate`, of the groups of `tally` in their order, where to read all rows costs `scan_draws`.
pub fn next_step(
    estimate: &Estimate,
    plan: &EstimatePlan,
    tally: &Tally,
    width: HalfWidth,
    scan_draws: u64,
) -> Step {
    let Estimate { sampled: drawn, population, .. } = *estimate;
    if drawn == population || drawn == 0 && estimate.exact {
        return Step::Stop;
    }
    // Before anything was drawn there is nothing to be expected.
    if drawn == 0 {
        return if scan_draws <= ROUND_MIN { Step::Scan } else { Step::Draw };
    }
    // Groups that are not narrow enough yet, with the draws that they take at least.
    let mut wide: Vec<(usize, f64)> = Vec::new();
    for (place, group) in tally.groups_in_order().into_iter().enumerate() {
        let draws = |(aggregate, of): (&(String, Measure), &Vec<Interval>)| {
            let values = match aggregate.1 {
                Measure::Count => u64::MAX,
                Measure::Avg(slot) => tally.moments(group, slot).count(),
            };
            draws_needed(&of[place], width, drawn, values, tally.drawn(group))
        };
        let intervals = estimate.aggregates.iter().map(|aggregate| &aggregate.intervals);
        let needed = plan.aggregates.iter().zip(intervals).map(draws).fold(0.0, f64::max);
        if needed > drawn as f64 {
            wide.push((group, needed));
        }
    }
    // Groups may be still to be met.
    let is_met = !estimate.drawn.is_empty();
    if is_met && wide.is_empty() {
        return Step::Stop;
    }
    // Reading a group and all smaller ones, after those that were read before.
    wide.sort_by_key(|&(group, _)| tally.known_rows(group).unwrap_or(u64::MAX));
    let mut reading = tally.scanned();
    let mut to_read = Vec::new();
    let mut draws_left: f64 = 0.0;
    for &(group, needed) in &wide {
        reading = reading.saturating_add(tally.known_rows(group).unwrap_or(u64::MAX));
        if reading <= drawn {
            to_read.push(group);
        } else {
            draws_left = draws_left.max(needed.min(reading as f64) - drawn as f64);
        }
    }
    if is_met && to_read.len() == wide.len() {
        Step::ReadGroups(to_read)
    } else if drawn >= scan_draws || draws_left > scan_draws as f64 {
        Step::Scan
    } else if to_read.is_empty() {
        Step::Draw
    } else {
        Step::ReadGroups(to_read)
    }
}

/// The draws after which an interval can be narrow enough, if all goes well; no more than `drawn` if it is. `values` were met among
/// the `rows` drawn of its group.
fn draws_needed(interval: &Interval, width: HalfWidth, drawn: u64, values: u64, rows: u64) -> f64 {
    let drawn = drawn as f64;
    let half_width = interval.half_width();
    if interval.method == Method::Exact {
        0.0
    } else if values == 0 {
        // Nothing is known of an average without values. Of a group that was not met not even how rare it is.
        match rows {
            0 => drawn + 1.0,
            NULLS_ENOUGH.. => 0.0,
            _ => drawn * NULLS_ENOUGH as f64 / rows as f64,
        }
    } else if !interval.value.is_finite() {
        // A value that is not finite was met.
        f64::INFINITY
    } else if half_width <= limit(width, interval.value.abs()) {
        // One of no width says only that all numbers drawn were equal; a rare different one gets the usual number of draws to
        // show up.
        if half_width > 0.0 { 0.0 } else { USUAL_DRAWS as f64 }
    } else if half_width.is_infinite() {
        drawn * SEQUENCE_COUNT_MIN as f64 / values as f64
    } else {
        // The truth may be as large as this, and the limit with it.
        let largest = interval.low.abs().max(interval.high.abs());
        (drawn * half_width / limit(width, largest)).max(drawn + 1.0)
    }
}

fn limit(width: HalfWidth, value: f64) -> f64 {
    match width {
        HalfWidth::Absolute(limit) => limit,
        HalfWidth::Relative(share) => share * value,
    }
}

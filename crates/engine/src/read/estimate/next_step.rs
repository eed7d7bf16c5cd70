//! What to do after a look, when drawing is to stop at a width: enough was drawn, or draw on, or read rows instead, which makes
//! their part of the answer exact.
//!
//! Costs are counted in draws. Reading all rows costs what drawing one in [`ROWS_PER_DRAW`] does, on disk one in [`DISK_ROWS_PER_DRAW`],
//! and of a selection by sets one in [`SET_ROWS_PER_DRAW`]. From what was drawn so far it is predicted how many draws each interval takes, and
//!
//! - groups that a set index knows are read whole, if that and the draws that the others take cost less than the draws that
//!   all take;
//! - all rows are read if the draws would cost half of that or more. So an answer costs half more than to read all rows at
//!   most, and that only where the first draws gave a wrong idea of how many are needed.

use drillcore_sample::interval::{Interval, Method, SEQUENCE_COUNT_MIN};

use crate::read::estimate::looks::Looks;
use crate::read::estimate::plan::{EstimatePlan, Measure};
use crate::read::estimate::request::{HalfWidth, ROUND_MIN, USUAL_DRAWS};
use crate::read::estimate::result::{AggregateEstimate, Estimate};
use crate::read::estimate::tally::Tally;
use crate::read::estimate::unreached::limit;
use crate::select::selection::{Part, Selected};

/// Rows in memory that are read in order in the time of one draw and what is made of it; `docs/sampling.md` has the
/// measurement.
const ROWS_PER_DRAW: u64 = 128;
/// And of rows on disk, of which a draw reads a block.
const DISK_ROWS_PER_DRAW: u64 = 1_024;
/// And of sets, whose rows lie among others.
const SET_ROWS_PER_DRAW: u64 = 4;
/// Draws are worth it where reading all rows costs at least this many times as much.
const SCAN_SHARE: f64 = 2.0;

/// Once this many rows of a group were drawn without a value among them, the estimate does not wait for the group: up to
/// 1 % of its rows may have one.
const NULLS_ENOUGH: u64 = 1_000;

/// An interval that holds at all looks is this much wider than one that is looked at once.
const SEQUENCE_WIDTH: f64 = 1.9;

/// What comes after a look.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    Stop,
    /// Draws more rows: this many in all may be enough.
    Draw {
        until: u64,
    },
    /// Reads all rows of these groups.
    ReadGroups(Vec<usize>),
    /// Reads all rows. For these groups alone, by their places in the result, drawing on would cost more.
    Scan {
        slow: Vec<usize>,
    },
}

/// What it costs to read instead of to draw.
#[derive(Debug, Clone, Copy)]
pub struct Costs {
    /// How many draws cost as much as to read all rows.
    scan_draws: u64,
    /// Whether something is asked for that only all rows tell.
    needs_scan: bool,
}

impl Costs {
    pub fn new(selected: &Selected, is_by_set: bool, needs_scan: bool) -> Costs {
        let of_parts = |(number, parts): (usize, &[Part])| {
            let rows: u64 = parts.iter().map(|part| part.to - part.from).sum();
            // Of a run that was spilled as before: the same seed goes on to draw the same rows.
            match selected.pieces()[number].is_of_run() {
                _ if is_by_set => rows / SET_ROWS_PER_DRAW,
                true => rows / ROWS_PER_DRAW,
                false => rows / DISK_ROWS_PER_DRAW,
            }
        };
        Costs { scan_draws: selected.by_piece().map(of_parts).sum(), needs_scan }
    }

    fn of_group(rows: Option<u64>) -> f64 {
        rows.map_or(f64::INFINITY, |rows| rows as f64 / SET_ROWS_PER_DRAW as f64)
    }
}

/// Decides what comes after `estimate`, of the groups of `tally` in their order.
pub fn next_step(
    estimate: &Estimate,
    plan: &EstimatePlan,
    tally: &Tally,
    looks: &Looks,
    width: HalfWidth,
    costs: Costs,
) -> Step {
    let Estimate { sampled: drawn, population, .. } = *estimate;
    if drawn == population || drawn == 0 && estimate.exact {
        return Step::Stop;
    }
    if costs.needs_scan {
        return Step::Scan { slow: Vec::new() };
    }
    // Before anything was drawn there is nothing to be expected.
    if drawn == 0 {
        let is_small = costs.scan_draws as f64 <= SCAN_SHARE * ROUND_MIN as f64;
        return if is_small {
            Step::Scan { slow: Vec::new() }
        } else {
            Step::Draw { until: ROUND_MIN }
        };
    }
    // Groups that are not narrow enough yet, with the draws that they may take in all.
    let mut wide: Vec<(usize, f64)> = Vec::new();
    let mut needed_at: Vec<f64> = Vec::new();
    for (place, group) in tally.groups_in_order().into_iter().enumerate() {
        let draws = |((_, measure), found): (&(String, Measure), &AggregateEstimate)| {
            draws_needed(&found.intervals[place], width, drawn, *measure, tally, looks, group)
        };
        let needed = plan.aggregates.iter().zip(&estimate.aggregates).map(draws);
        let needed = needed.fold(0.0, f64::max);
        needed_at.push(needed);
        if needed > drawn as f64 {
            wide.push((group, needed));
        }
    }
    // Groups may be still to be met.
    let is_met = !estimate.drawn.is_empty();
    if is_met && wide.is_empty() {
        return Step::Stop;
    }
    if !is_met {
        let until = drawn * 2;
        return match drawn >= costs.scan_draws {
            true => Step::Scan { slow: Vec::new() },
            false => Step::Draw { until },
        };
    }
    // The groups that take most draws are read, or none, or all: whichever is cheapest.
    wide.sort_by(|a, b| b.1.total_cmp(&a.1));
    let left = |needed: f64| needed.min(population as f64) - drawn as f64;
    let (mut reading, mut cheapest) = (0.0, (left(wide[0].1), 0));
    for read in 1..=wide.len() {
        reading += Costs::of_group(tally.known_rows(wide[read - 1].0));
        let cost = reading + wide.get(read).map_or(0.0, |&(_, needed)| left(needed));
        if cost < cheapest.0 {
            cheapest = (cost, read);
        }
    }
    let (cost, read) = cheapest;
    // What was drawn and read before is spent; it counts, so that no answer costs much more than to read all.
    let spent = drawn as f64 + tally.scanned() as f64 / SET_ROWS_PER_DRAW as f64;
    let draws_max = costs.scan_draws as f64 / SCAN_SHARE;
    if spent + cost > draws_max {
        let is_slow = |place: &usize| spent + left(needed_at[*place]) > draws_max;
        Step::Scan { slow: (0..needed_at.len()).filter(is_slow).collect() }
    } else if read > 0 {
        Step::ReadGroups(wide[..read].iter().map(|&(group, _)| group).collect())
    } else {
        Step::Draw { until: wide[0].1 as u64 + 1 }
    }
}

/// The draws after which an interval may be narrow enough; no more than `drawn` if it is.
fn draws_needed(
    interval: &Interval,
    width: HalfWidth,
    drawn: u64,
    measure: Measure,
    tally: &Tally,
    looks: &Looks,
    group: usize,
) -> f64 {
    let (rows, all) = (tally.drawn(group), drawn as f64);
    let values = match measure {
        Measure::Count => u64::MAX,
        Measure::Of(_, slot) => tally.count(group, slot),
    };
    let half_width = interval.half_width();
    if interval.method == Method::Exact {
        return 0.0;
    }
    if rows == 0 {
        // Until a group of a known size is met often enough.
        let share = tally.known_rows(group).map_or(0.0, |rows| rows as f64);
        return (SEQUENCE_COUNT_MIN as f64 * looks.population as f64 / share).max(all + 1.0);
    }
    if values == 0 {
        // Nothing is known of a figure without values.
        return if rows >= NULLS_ENOUGH { 0.0 } else { all * NULLS_ENOUGH as f64 / rows as f64 };
    }
    if !interval.value.is_finite() {
        // A value that is not finite was met.
        return f64::INFINITY;
    }
    if half_width <= limit(width, interval.value.abs()) {
        // One of no width says only that all numbers drawn were equal; a rare different one gets the usual number of draws to
        // show up.
        return if half_width > 0.0 { 0.0 } else { USUAL_DRAWS as f64 };
    }
    // One part of the width shrinks with the root of the draws, and the rest, which bounds are the reason for, with their number.
    let plain = SEQUENCE_WIDTH * looks.plain_half_width(tally, measure, group, drawn);
    let slow = if plain.is_nan() { half_width } else { plain.min(half_width) };
    let fast = if half_width.is_finite() { half_width - slow } else { 0.0 };
    // The truth may be farther from 0, and the limit with it.
    let limit = limit(width, interval.value.abs() + slow / 4.0);
    if slow.is_infinite() {
        return all * SEQUENCE_COUNT_MIN as f64 / values as f64 + 1.0;
    }
    let root = (slow + (slow * slow + 4.0 * fast * limit).sqrt()) / (2.0 * limit);
    let few = if half_width.is_finite() { 1.0 } else { SEQUENCE_COUNT_MIN as f64 / values as f64 };
    (all * (root * root).max(few)).max(all + 1.0)
}

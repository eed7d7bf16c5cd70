//! Estimates: aggregates of a selection from a sample of it, with intervals that hold for the way the
//! sampling stopped.
//!
//! Rows are drawn without replacement, in growing rounds, from the same numbering that samples use. Of a
//! rollup table they are whole rows, not events: what a scan shows is estimated. What an index knows (the
//! number of rows selected; of each set, when grouped by the set column) is not estimated but given.

mod bounds;
mod heavy_tails;
mod levels;
mod tally;
mod target;

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, Float64Array, RecordBatch, UInt64Array};
use arrow_schema::{Field, Schema};
use drillcore_format::key::decode_values;
use drillcore_sample::choose::WithoutReplacement;
use drillcore_sample::interval::{
    Confidence, Design, Interval, Method, group_share, group_share_sequence, mean_sequence, mean_t,
    mean_t_or_bounded, share_sequence, share_wilson,
};
use drillcore_sample::rng::Rng;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::estimate::bounds::bounds;
use crate::estimate::heavy_tails::heavy_tails;
use crate::estimate::levels::Levels;
use crate::estimate::tally::Tally;
use crate::estimate::target::{Aggregate, Target};
use crate::interrupt::Interrupt;
use crate::sample::{fresh_seed, rows_at};
use crate::select::{Question, Selection};
use crate::snapshot::TableSnapshot;

/// The stream of a seed that estimates draw from.
const STREAM: u64 = 2;
/// The first round; later ones grow with what was drawn.
const ROUND_MIN: u64 = 1_000;
const ROUND_MAX: u64 = 50_000;
/// The number of draws at which intervals that hold at all looks are tightest, unless `n` is known.
const USUAL_DRAWS: u64 = 10_000;

/// What to estimate.
#[derive(Debug, Clone)]
pub struct EstimateRequest {
    /// Result name and expression: `count`, `count(*)` or `avg(column)`.
    pub aggregates: Vec<(String, String)>,
    /// One result for each value of this column.
    pub by: Option<String>,
    pub selection: Selection,
    pub stop: Stop,
    /// How often the truth shall lie inside, for each interval by itself.
    pub confidence: f64,
    /// All intervals of a result shall hold together as often: of all aggregates and all groups.
    pub simultaneous: bool,
    pub seed: Option<u64>,
    pub interrupt: Interrupt,
}

/// When enough has been drawn. In every case at the latest when all rows have been: the result is exact then.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Stop {
    /// After so many rows.
    Rows(u64),
    /// When every interval is this narrow.
    Error(HalfWidth),
    /// After so many seconds.
    Seconds(f64),
}

/// Half the width of an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HalfWidth {
    Absolute(f64),
    /// As a share of the estimate.
    Relative(f64),
}

/// Sees an estimate while it is being refined. Its intervals hold at all looks together.
pub type Watch<'a> = dyn FnMut(&Estimate) -> ControlFlow<()> + 'a;

/// Estimated aggregates, one interval a group.
#[derive(Debug, Clone)]
pub struct Estimate {
    /// The groups' values, ascending; absent without `by`, where there is one group.
    pub groups: Option<ArrayRef>,
    pub by: Option<String>,
    pub aggregates: Vec<AggregateEstimate>,
    /// Rows drawn of each group.
    pub drawn: Vec<u64>,
    /// Rows drawn in all; those that fail the predicate, and so belong to no group, among them.
    pub sampled: u64,
    /// Rows that were drawn from: those selected, before a predicate that has to be tested.
    pub population: u64,
    pub confidence: f64,
    /// Whether the confidence is that of all intervals together, not of each.
    pub simultaneous: bool,
    /// The ways the intervals were found, joined by ", ".
    pub method: String,
    /// Nothing was estimated.
    pub exact: bool,
    /// The estimated share of the selected rows that lie in groups not met (Good and Turing: the share
    /// of rows drawn whose group was met once); 0 where an index lists all groups.
    pub unseen_share: f64,
    /// For each average that few rows may carry a sentence that says so: how skewed the numbers drawn are, whether the
    /// intervals allow for what bounds of the column do, and what would make them narrower.
    pub notes: Vec<String>,
}

/// One aggregate of an estimate.
#[derive(Debug, Clone)]
pub struct AggregateEstimate {
    pub name: String,
    /// One a group.
    pub intervals: Vec<Interval>,
}

impl Default for EstimateRequest {
    fn default() -> EstimateRequest {
        EstimateRequest {
            aggregates: Vec::new(),
            by: None,
            selection: Selection::default(),
            stop: Stop::Rows(USUAL_DRAWS),
            confidence: 0.95,
            simultaneous: false,
            seed: None,
            interrupt: Interrupt::never(),
        }
    }
}

impl TableSnapshot {
    /// Estimates from a sample that grows until it may stop; `watch` sees each refinement and may stop
    /// it earlier. See [`EstimateRequest`].
    pub fn estimate(&self, request: &EstimateRequest, watch: &mut Watch<'_>) -> Result<Estimate> {
        estimate(self, request, watch)
    }
}

/// Draws rows until the request is met, or `watch` breaks.
fn estimate(
    table: &TableSnapshot,
    request: &EstimateRequest,
    watch: &mut Watch<'_>,
) -> Result<Estimate> {
    let draws_max = check_stop(request.stop)?;
    // Rows that fail the test are drawn too, and count as rows of no group.
    let Question { filter, test } = request.selection.check(table.table().layout.schema())?;
    let target = Target::new(table, request, test)?;
    let selected = table.resolved(Question { filter, test: None }, &request.interrupt)?;
    let bounds = match request.stop {
        // They would serve no interval that holds at all looks.
        Stop::Error(_) => vec![None; target.measures.len()],
        Stop::Rows(_) | Stop::Seconds(_) => {
            let layout = &table.table().layout;
            let (columns, pages_max) = (target.measured_columns(), draws_max.min(USUAL_DRAWS));
            bounds(layout, &selected, &columns, pages_max, &request.interrupt)?
        }
    };
    let mut tally = Tally::new(&target, bounds);
    if let Some(sets) = target.known_groups(table, request)? {
        tally.expect_groups(sets);
    }
    let mut rng = Rng::keyed(request.seed.unwrap_or_else(fresh_seed), STREAM);
    let mut chooser = WithoutReplacement::new(selected.len());
    let started = Instant::now();
    let mut looks = Looks {
        levels: Levels::new(request, &target, &tally)?,
        population: selected.len(),
        tightest_at: match request.stop {
            Stop::Rows(n) => n,
            _ => USUAL_DRAWS,
        },
    };
    let mut drawn = 0;
    let mut numbers = Vec::new();
    loop {
        let estimate = looks.estimate(&target, &tally, drawn, Look::Running)?;
        let done = drawn == selected.len()
            || match request.stop {
                Stop::Rows(n) => drawn >= n,
                Stop::Seconds(seconds) => started.elapsed() >= Duration::from_secs_f64(seconds),
                Stop::Error(width) => drawn > 0 && is_within(&estimate, width),
            };
        if done || drawn > 0 && watch(&estimate).is_break() {
            // Stopped by what was seen, an interval must hold at every look.
            let look = match request.stop {
                Stop::Rows(_) | Stop::Seconds(_) if done => Look::Last,
                _ => Look::Running,
            };
            return looks.estimate(&target, &tally, drawn, look);
        }
        let round = (drawn / 2).clamp(ROUND_MIN, ROUND_MAX).min(draws_max - drawn);
        numbers.clear();
        chooser.draw_into(&mut rng, round as usize, &mut numbers);
        let batch = rows_at(table, &selected, target.columns(), &numbers, &request.interrupt)?;
        tally.add(&target.passing(batch)?)?;
        drawn += numbers.len() as u64;
    }
}

/// Whether an interval will be looked at once, after a number of draws that did not depend on it.
#[derive(Clone, Copy, PartialEq)]
enum Look {
    Running,
    Last,
}

struct Looks {
    levels: Levels,
    population: u64,
    tightest_at: u64,
}

impl Looks {
    fn estimate(
        &mut self,
        target: &Target,
        tally: &Tally,
        drawn: u64,
        look: Look,
    ) -> Result<Estimate> {
        let order = tally.groups_in_order();
        let design = Design { population: Some(self.population), drawn };
        let mut aggregates = Vec::with_capacity(target.aggregates.len());
        for (name, aggregate) in &target.aggregates {
            let intervals = match *aggregate {
                Aggregate::Count => self.counts(tally, &order, &design, look),
                Aggregate::Avg(slot) => self.averages(tally, slot, &order, &design, look),
            };
            aggregates.push(AggregateEstimate { name: name.clone(), intervals });
        }
        let groups = match &target.by {
            None => None,
            Some((_, data_type)) => {
                let values: Vec<&[u8]> = order.iter().map(|&group| tally.value(group)).collect();
                Some(decode_values(&values, data_type)?)
            }
        };
        let intervals = || aggregates.iter().flat_map(|aggregate| &aggregate.intervals);
        let mut methods: Vec<&str> = intervals().map(|interval| interval.method.as_str()).collect();
        methods.sort_unstable();
        methods.dedup();
        Ok(Estimate {
            groups,
            by: target.by_name.clone(),
            drawn: order.iter().map(|&group| tally.drawn(group)).collect(),
            sampled: drawn,
            population: self.population,
            confidence: self.levels.confidence().get(),
            simultaneous: self.levels.are_together(),
            method: methods.join(", "),
            // Of groups not met, nothing is known.
            exact: methods.iter().all(|method| *method == "exact")
                && (!methods.is_empty() || drawn == self.population),
            notes: heavy_tails(target, tally, &order, &aggregates),
            unseen_share: if drawn == self.population { 0.0 } else { tally.unseen_share() },
            aggregates,
        })
    }

    fn counts(
        &self,
        tally: &Tally,
        groups: &[usize],
        design: &Design,
        look: Look,
    ) -> Vec<Interval> {
        let level = self.levels.of_count();
        let is_one_of_many = self.levels.are_together() && tally.known_groups().is_none();
        let count = |&group: &usize| {
            if let Some(rows) = tally.known_rows(group) {
                return Interval::exact(rows as f64);
            }
            if tally.counts_all() {
                return Interval::exact(self.population as f64);
            }
            let hits = tally.drawn(group);
            if design.drawn == self.population {
                // All were counted. A share times the population would be off by a rounding.
                return Interval::exact(hits as f64);
            }
            let share = match (look, is_one_of_many) {
                (Look::Last, false) => share_wilson(hits, design, level),
                (Look::Last, true) => group_share(hits, design, level),
                (Look::Running, false) => share_sequence(hits, design, level, self.tightest_at),
                (Look::Running, true) => {
                    group_share_sequence(hits, design, level, self.tightest_at)
                }
            };
            scale(share, self.population as f64)
        };
        groups.iter().map(count).collect()
    }

    fn averages(
        &mut self,
        tally: &Tally,
        slot: usize,
        groups: &[usize],
        design: &Design,
        look: Look,
    ) -> Vec<Interval> {
        let levels = self.levels.of_averages(tally, slot, groups, look);
        let average = |(&group, level): (&usize, Confidence)| {
            let moments = tally.moments(group, slot);
            match look {
                Look::Last => match tally.bounded(group, slot) {
                    Some(bounded) => mean_t_or_bounded(moments, bounded, design, level),
                    None => mean_t(moments, design, level),
                },
                Look::Running => mean_sequence(moments, design, level, self.tightest_at),
            }
        };
        groups.iter().zip(levels).map(average).collect()
    }
}

fn scale(share: Interval, by: f64) -> Interval {
    Interval { value: share.value * by, low: share.low * by, high: share.high * by, ..share }
}

/// Whether every interval is narrow enough. One of no width says only that the numbers drawn were all
/// equal; a rare different one gets the usual number of draws to show up.
fn is_within(estimate: &Estimate, width: HalfWidth) -> bool {
    let mut intervals = estimate.aggregates.iter().flat_map(|aggregate| &aggregate.intervals);
    // Groups may be still to be met.
    let is_met = !estimate.drawn.is_empty();
    is_met
        && intervals.all(|interval| {
            let limit = match width {
                HalfWidth::Absolute(limit) => limit,
                HalfWidth::Relative(share) => share * interval.value.abs(),
            };
            let half_width = interval.half_width();
            let is_trusted = half_width > 0.0
                || interval.method == Method::Exact
                || estimate.sampled >= USUAL_DRAWS;
            is_trusted && half_width <= limit
        })
}

/// The most rows that will be drawn.
fn check_stop(stop: Stop) -> Result<u64> {
    match stop {
        Stop::Rows(0) => Err(Error::invalid("an estimate needs n >= 1 rows")),
        Stop::Rows(n) => Ok(n),
        Stop::Seconds(seconds) if !(0.0..1e9).contains(&seconds) => {
            Err(Error::invalid(format!("{seconds} seconds is no time to stop after")))
        }
        Stop::Error(HalfWidth::Absolute(width) | HalfWidth::Relative(width))
            if width.is_nan() || width <= 0.0 =>
        {
            Err(Error::invalid(format!("an error of {width} cannot be reached; give one above 0")))
        }
        _ => Ok(u64::MAX),
    }
}

impl Estimate {
    /// One row a group: its value, then for each aggregate the estimate and its ends as `name`,
    /// `name_low` and `name_high`, then the rows drawn as `sampled`.
    pub fn to_batch(&self) -> RecordBatch {
        let mut columns: Vec<ArrayRef> = self.groups.iter().cloned().collect();
        for aggregate in &self.aggregates {
            let ends: [fn(&Interval) -> f64; 3] =
                [|interval| interval.value, |interval| interval.low, |interval| interval.high];
            for end in ends {
                let values = Float64Array::from_iter_values(aggregate.intervals.iter().map(end));
                columns.push(Arc::new(values));
            }
        }
        columns.push(Arc::new(UInt64Array::from(self.drawn.clone())));
        let aggregates = self.aggregates.iter().map(|aggregate| aggregate.name.as_str());
        let names = column_names(self.by.as_deref(), aggregates);
        let field = |(name, values): (&String, &ArrayRef)| {
            Field::new(name, values.data_type().clone(), name != SAMPLED)
        };
        let fields: Vec<Field> = names.iter().zip(&columns).map(field).collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
            .expect("columns have one row a group")
    }
}

/// The rows drawn of each group, as a column.
const SAMPLED: &str = "sampled";

/// The names of the columns of an estimate as a batch, in order.
fn column_names<'a>(by: Option<&'a str>, aggregates: impl Iterator<Item = &'a str>) -> Vec<String> {
    let of_aggregates =
        aggregates.flat_map(|name| ["", "_low", "_high"].map(|end| format!("{name}{end}")));
    let group = by.map(str::to_string);
    group.into_iter().chain(of_aggregates).chain([SAMPLED.to_string()]).collect()
}

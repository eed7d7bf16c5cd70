//! A look at what was drawn: the intervals that it gives.

use drillcore_format::key::decode_values;
use drillcore_sample::interval::{
    Confidence, Design, Interval, Method, group_share, group_share_sequence, mean_sequence,
    mean_sequence_bounded, mean_t, mean_t_or_bounded, share_sequence, share_wilson,
};

use crate::error::Result;
use crate::read::estimate::bounds::Known;
use crate::read::estimate::levels::{Levels, Look};
use crate::read::estimate::notes::notes;
use crate::read::estimate::plan::{EstimatePlan, Measure};
use crate::read::estimate::result::{AggregateEstimate, Estimate};
use crate::read::estimate::tally::Tally;

/// All looks of one estimate.
pub struct Looks {
    pub levels: Levels,
    pub population: u64,
    /// The number of draws at which intervals that hold at all looks are tightest.
    pub tightest_at: u64,
}

impl Looks {
    /// The estimate after so many draws. All is exact once every row was drawn or scanned.
    pub fn estimate(
        &mut self,
        plan: &EstimatePlan,
        tally: &Tally,
        drawn: u64,
        look: Look,
    ) -> Result<Estimate> {
        let order = tally.groups_in_order();
        let is_all = drawn == self.population || tally.is_scanned();
        let counted = if is_all { self.population } else { drawn };
        let design = Design { population: Some(self.population), drawn: counted };
        let mut aggregates = Vec::with_capacity(plan.aggregates.len());
        for (name, aggregate) in &plan.aggregates {
            aggregates.push(match *aggregate {
                Measure::Count => AggregateEstimate {
                    name: name.clone(),
                    intervals: self.counts(tally, &order, &design, look),
                    has_value: vec![true; order.len()],
                    bounds: None,
                },
                Measure::Avg(slot) => {
                    let intervals = self.averages(tally, slot, &order, &design, look);
                    let is_bounded = |interval: &Interval| {
                        matches!(interval.method, Method::Bounded | Method::BoundedSequence)
                    };
                    let bounds = tally.known(slot).bounds();
                    AggregateEstimate {
                        name: name.clone(),
                        bounds: bounds.filter(|_| intervals.iter().any(is_bounded)),
                        intervals,
                        has_value: order
                            .iter()
                            .map(|&group| tally.moments(group, slot).count() > 0)
                            .collect(),
                    }
                }
            });
        }
        let groups = match &plan.by {
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
        let confidence = self.levels.confidence();
        let mut estimate = Estimate {
            groups,
            by: plan.by_name.clone(),
            drawn: order.iter().map(|&group| tally.drawn(group)).collect(),
            sampled: drawn,
            scanned: tally.scanned(),
            population: self.population,
            confidence: confidence.get(),
            simultaneous: self.levels.are_together(),
            method: methods.join(", "),
            // Of groups not met, nothing is known.
            exact: methods.iter().all(|method| *method == "exact")
                && (!methods.is_empty() || is_all),
            asymptotic: is_asymptotic(plan, tally, &aggregates),
            unseen_share: if is_all { 0.0 } else { tally.unseen_share() },
            unseen_share_high: if is_all { 0.0 } else { tally.unseen_share_max(confidence) },
            aggregates,
            notes: Vec::new(),
        };
        estimate.notes = notes(&estimate, plan, tally, &order, confidence, self.tightest_at);
        Ok(estimate)
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
            if tally.is_whole(group) {
                return Interval::exact(moments.mean());
            }
            match (tally.known(slot), tally.bounded(group, slot)) {
                // There is no average.
                (Known::NoValues, _) => Interval::exact(f64::NAN),
                (Known::Between(bounds), _) if bounds.low == bounds.high && moments.count() > 0 => {
                    Interval::exact(moments.mean())
                }
                (_, Some(numbers)) if look == Look::Last => {
                    mean_t_or_bounded(moments, numbers, design, level)
                }
                (_, Some(numbers)) => {
                    let design = tally.design(group).unwrap_or(*design);
                    mean_sequence_bounded(moments, numbers, &design, level, self.tightest_at)
                }
                (_, None) if look == Look::Last => mean_t(moments, design, level),
                (_, None) => mean_sequence(moments, design, level, self.tightest_at),
            }
        };
        groups.iter().zip(levels).map(average).collect()
    }
}

/// Whether an average rests on a limit theorem alone.
fn is_asymptotic(plan: &EstimatePlan, tally: &Tally, estimates: &[AggregateEstimate]) -> bool {
    plan.aggregates.iter().zip(estimates).any(|((_, aggregate), estimate)| match aggregate {
        Measure::Count => false,
        Measure::Avg(slot) => {
            let is_estimated = |interval: &Interval| interval.method != Method::Exact;
            tally.known(*slot).bounds().is_none() && estimate.intervals.iter().any(is_estimated)
        }
    })
}

fn scale(share: Interval, by: f64) -> Interval {
    Interval { value: share.value * by, low: share.low * by, high: share.high * by, ..share }
}

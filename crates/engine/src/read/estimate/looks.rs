//! A look at what was drawn: the intervals that it gives.

use arrow_array::ArrayRef;
use drillcore_format::key::{decode_values, split_column};
use drillcore_sample::interval::{Confidence, Design, Interval, Method};

use crate::error::Result;
use crate::read::estimate::figures::{Extreme, View};
use crate::read::estimate::levels::{Levels, Look};
use crate::read::estimate::notes::notes;
use crate::read::estimate::plan::{EstimatePlan, Figure, Measure};
use crate::read::estimate::request::HalfWidth;
use crate::read::estimate::result::{AggregateEstimate, Estimate};
use crate::read::estimate::tally::{Drawn, Tally};
use crate::read::estimate::unreached::unreached;
use crate::schema::number::Number;

/// All looks of one estimate.
pub struct Looks {
    pub levels: Levels,
    pub population: u64,
    /// The number of draws at which intervals that hold at all looks are tightest.
    pub tightest_at: u64,
    /// The half width to be reached, if that is when to stop.
    pub width: Option<HalfWidth>,
    /// The groups for which all rows were read, in words; empty if it was not for some of them.
    pub slow: String,
}

/// What there is at one look.
struct Seen<'a> {
    plan: &'a EstimatePlan,
    tally: &'a Tally,
    /// The groups, in the order of the result.
    order: &'a [usize],
    design: Design,
    look: Look,
}

impl Looks {
    /// The estimate after a number of draws. All is exact once every row was drawn or scanned.
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
        let seen = Seen { plan, tally, order: &order, design, look };
        let mut aggregates = Vec::with_capacity(plan.aggregates.len());
        for at in 0..plan.aggregates.len() {
            aggregates.push(self.aggregate(at, &seen));
        }
        let intervals = || aggregates.iter().flat_map(|aggregate| &aggregate.intervals);
        let mut methods: Vec<&str> = intervals().map(|interval| interval.method.as_str()).collect();
        methods.sort_unstable();
        methods.dedup();
        let confidence = self.levels.confidence();
        let mut estimate = Estimate {
            groups: groups(plan, tally, &order)?,
            by: plan.by_names.clone(),
            drawn: order.iter().map(|&group| tally.drawn(group)).collect(),
            unit: plan.unit,
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
            unreached: Vec::new(),
        };
        if let Some(width) = self.width {
            estimate.unreached = unreached(&estimate, plan, tally, &order, width);
        }
        estimate.notes =
            notes(&estimate, plan, tally, &order, confidence, self.tightest_at, &self.slow);
        Ok(estimate)
    }

    /// The estimate of one aggregate, by its number.
    fn aggregate(&mut self, at: usize, seen: &Seen<'_>) -> AggregateEstimate {
        let &Seen { plan, tally, order, look, .. } = seen;
        let (name, measure) = &plan.aggregates[at];
        let levels = match *measure {
            Measure::Count => vec![self.levels.confidence(); order.len()],
            Measure::Of(_, slot) => self.levels.of_values(tally, at, slot, order.len(), look),
        };
        let (intervals, extremes) = self.intervals(*measure, &levels, seen);
        let is_bounded = |interval: &Interval| {
            matches!(interval.method, Method::Bounded | Method::BoundedSequence)
        };
        let bounds = match *measure {
            Measure::Of(_, slot) if plan.data_type(*measure).is_floating() => {
                tally.known_of(slot).bounds()
            }
            _ => None,
        };
        let exists = |(&group, interval): (&usize, &Interval)| {
            exists(*measure, tally, group, interval.method == Method::Exact)
        };
        let has_value = order.iter().zip(&intervals).map(exists).collect();
        AggregateEstimate {
            name: name.clone(),
            data_type: plan.data_type(*measure).clone(),
            bounds: bounds.filter(|_| intervals.iter().any(is_bounded)),
            intervals,
            has_value,
            extremes,
        }
    }

    /// The interval of each group; and of a minimum or maximum, its ends as numbers.
    fn intervals(
        &self,
        measure: Measure,
        levels: &[Confidence],
        seen: &Seen<'_>,
    ) -> (Vec<Interval>, Vec<[Option<Number>; 3]>) {
        let groups = seen.order.iter();
        let view = |group: usize| self.view(seen.tally, &seen.design, seen.look, levels[group]);
        match measure {
            Measure::Count => (groups.map(|&group| view(group).rows(group)).collect(), Vec::new()),
            Measure::Of(figure @ (Figure::Min | Figure::Max), slot) => {
                let found = groups.map(|&group| view(group).extreme(figure, group, slot));
                let found: Vec<Extreme> = found.collect();
                let extremes = found.iter().map(|extreme| extreme.numbers).collect();
                (found.iter().map(Extreme::interval).collect(), extremes)
            }
            Measure::Of(figure, slot) => {
                let of_group = |&group: &usize| view(group).figure(figure, group, slot);
                (groups.map(of_group).collect(), Vec::new())
            }
        }
    }

    /// Half the width that an interval of one aggregate and one group would have if it were looked at once and needed no bounds:
    /// what shrinks with the root of the draws.
    pub fn plain_half_width(
        &self,
        tally: &Tally,
        measure: Measure,
        group: usize,
        drawn: u64,
    ) -> f64 {
        let design = Design { population: Some(self.population), drawn };
        let view = self.view(tally, &design, Look::Last, self.levels.confidence());
        let interval = match measure {
            Measure::Count => view.rows(group),
            Measure::Of(figure, slot) => view.without_bounds(figure, group, slot),
        };
        interval.half_width()
    }

    fn view<'a>(
        &'a self,
        tally: &'a Tally,
        design: &'a Design,
        look: Look,
        level: Confidence,
    ) -> View<'a> {
        View {
            tally,
            design,
            look,
            level,
            count_level: self.levels.of_count(),
            is_one_of_many: self.levels.are_together() && tally.known_groups().is_none(),
            tightest_at: self.tightest_at,
        }
    }
}

/// The values of the grouping columns, column by column.
fn groups(plan: &EstimatePlan, tally: &Tally, order: &[usize]) -> Result<Vec<ArrayRef>> {
    let types: Vec<_> = plan.by.iter().map(|(_, data_type)| data_type.clone()).collect();
    let column = |at: usize| -> Result<ArrayRef> {
        let split = |&group: &usize| split_column(tally.value(group), &types, at);
        let values = order.iter().map(split).collect::<std::result::Result<Vec<_>, _>>()?;
        Ok(decode_values(&values, &types[at])?)
    };
    (0..types.len()).map(column).collect()
}

/// Whether a figure of a group exists, as far as rows were met.
fn exists(measure: Measure, tally: &Tally, group: usize, is_exact: bool) -> bool {
    let Measure::Of(figure, slot) = measure else { return true };
    match figure {
        Figure::Values | Figure::Distinct => true,
        // An average of numbers of which one is not is not a number either; it exists.
        _ => match tally.whole(group, slot) {
            Some(whole) => whole.has(figure),
            None => match (figure, tally.slot_drawn(group, slot)) {
                (Figure::Variance | Figure::StdDev, Drawn::Numbers(drawn)) => drawn.all.count > 1,
                // Where none was met, the sum may be 0.
                (Figure::Sum, Drawn::Numbers(drawn)) => drawn.all.count > 0 || !is_exact,
                (_, Drawn::Numbers(drawn)) => drawn.all.count > 0,
                (_, Drawn::Pair(drawn)) => !drawn.pairs.ratio().is_nan(),
                (_, Drawn::Values(_)) => true,
            },
        },
    }
}

/// Whether an interval rests on a limit theorem alone.
fn is_asymptotic(plan: &EstimatePlan, tally: &Tally, estimates: &[AggregateEstimate]) -> bool {
    let is_estimated = |interval: &Interval| interval.method != Method::Exact;
    plan.aggregates.iter().zip(estimates).any(|((_, measure), estimate)| match *measure {
        Measure::Of(figure, slot) if figure.leans_on_tails() => {
            tally.known_of(slot).bounds().is_none() && estimate.intervals.iter().any(is_estimated)
        }
        _ => false,
    })
}

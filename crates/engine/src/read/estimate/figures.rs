//! The interval of one figure of one group, from the rows drawn of it.

use drillcore_sample::interval::{
    Confidence, Design, Interval, Method, group_share, group_share_sequence, mean_sequence,
    mean_sequence_bounded, mean_t, mean_t_or_bounded, quantile_ranked, quantile_sequence,
    ratio_sequence, ratio_sequence_bounded, ratio_t, ratio_t_or_bounded, share_exact,
    share_sequence, sum_sequence, sum_sequence_bounded, sum_t, variance_sequence,
    variance_sequence_bounded, variance_t,
};

use crate::read::estimate::bounds::Known;
use crate::read::estimate::levels::Look;
use crate::read::estimate::numbers::Whole;
use crate::read::estimate::plan::Figure;
use crate::read::estimate::tally::{Drawn, DrawnNumbers, DrawnPairs, Tally};
use crate::schema::number::Number;

/// An extreme and its ends, without what a float would lose.
pub struct Extreme {
    /// `None` is not known, or if it is exact, not there.
    pub numbers: [Option<Number>; 3],
    method: Method,
}

impl Extreme {
    pub fn interval(&self) -> Interval {
        let unknown = match self.method {
            Method::Exact => Interval::exact(f64::NAN),
            method => unbounded(f64::NAN, method),
        };
        let [value, low, high] = self.numbers.map(|number| number.map(Number::as_f64));
        Interval {
            value: value.unwrap_or(unknown.value),
            low: low.unwrap_or(unknown.low),
            high: high.unwrap_or(unknown.high),
            method: self.method,
        }
    }
}

/// How a figure is looked at.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub tally: &'a Tally,
    /// Of all that was drawn.
    pub design: &'a Design,
    pub look: Look,
    /// Of figures made of the values of a group.
    pub level: Confidence,
    /// Of the number of rows or values of a group.
    pub count_level: Confidence,
    /// Whether counts of groups found by drawing hold together.
    pub is_one_of_many: bool,
    /// The number of draws at which intervals that hold at all looks are tightest.
    pub tightest_at: u64,
}

impl View<'_> {
    /// The number of rows of a group.
    pub fn rows(&self, group: usize) -> Interval {
        let View { tally, design, .. } = *self;
        let population = design.population.expect("a selection has a number of rows");
        if let Some(rows) = tally.known_rows(group) {
            return Interval::exact(rows as f64);
        }
        if tally.counts_all() {
            return Interval::exact(population as f64);
        }
        let hits = tally.drawn(group);
        if design.drawn == population {
            // All were counted. A share times the population would be off by a rounding.
            return Interval::exact(hits as f64);
        }
        self.count_of(hits, design, self.count_level)
    }

    /// A figure of the values of a group.
    pub fn figure(&self, figure: Figure, group: usize, slot: usize) -> Interval {
        let View { tally, .. } = *self;
        if let Figure::Min | Figure::Max = figure {
            return self.extreme(figure, group, slot).interval();
        }
        if let Some(whole) = tally.whole(group, slot) {
            return exactly(whole.figure(figure));
        }
        let known = tally.known_of(slot);
        let is_all = self.is_all(group);
        match tally.slot_drawn(group, slot) {
            Drawn::Numbers(drawn) if is_all => {
                exactly(Whole::Numbers(drawn.all.clone()).figure(figure))
            }
            Drawn::Pair(drawn) if is_all => {
                exactly(Whole::Pair(Box::new(drawn.sums.clone())).figure(figure))
            }
            Drawn::Values(values) if figure == Figure::Values => {
                self.values(group, slot, values.count)
            }
            Drawn::Values(values) if is_all => Interval::exact(values.len() as f64),
            Drawn::Values(values) => at_least(values.len() as f64),
            Drawn::Pair(drawn) => self.ratio(group, slot, drawn),
            Drawn::Numbers(drawn) => match (figure, known) {
                (Figure::Values, _) => self.values(group, slot, drawn.all.count),
                // There are no values.
                (_, Known::NoValues) => Interval::exact(f64::NAN),
                (Figure::Sum, _) => self.sum(group, slot, drawn),
                (_, Known::Between(low, high)) if low == high => {
                    self.of_equals(figure, drawn, low.as_f64())
                }
                (Figure::Avg, _) => self.average(group, drawn),
                (Figure::Quantile(share), _) => self.quantile(share, group, slot, drawn, known),
                (Figure::Variance, _) => self.variance(group, drawn),
                (Figure::StdDev, _) => self.variance(group, drawn).square_root(),
                (Figure::Min | Figure::Max | Figure::Ratio | Figure::Distinct, _) => {
                    unreachable!("looked at above, or of pairs, or of values")
                }
            },
        }
    }

    /// The least or the greatest of the values of a group, which are numbers: between the bound of the column and what was met,
    /// which needs no chance.
    pub fn extreme(&self, figure: Figure, group: usize, slot: usize) -> Extreme {
        let View { tally, .. } = *self;
        let exactly = |ends: Option<(Number, Number)>| {
            let number = ends.map(|(low, high)| if figure == Figure::Min { low } else { high });
            Extreme { numbers: [number; 3], method: Method::Exact }
        };
        let met = match (tally.whole(group, slot), tally.slot_drawn(group, slot)) {
            (Some(Whole::Numbers(read)), _) => return exactly(read.extremes()),
            (None, Drawn::Numbers(drawn)) => drawn.all.extremes(),
            _ => unreachable!("of numbers"),
        };
        let numbers = match tally.known_of(slot) {
            _ if self.is_all(group) => return exactly(met),
            Known::NoValues => return exactly(None),
            Known::Between(low, high) if tally.bounds_are_met(slot) => {
                return exactly(Some((low, high)));
            }
            Known::Nothing => [None; 3],
            Known::Between(low, high) => {
                let (least, most) = met.unwrap_or((high, low));
                match figure {
                    Figure::Min => [least, low, least].map(Some),
                    _ => [most, most, high].map(Some),
                }
            }
        };
        Extreme { numbers, method: Method::LowerBound }
    }

    /// The same for one look, and as if nothing bounded the values: what shrinks with the root of the draws.
    pub fn without_bounds(&self, figure: Figure, group: usize, slot: usize) -> Interval {
        let View { tally, design, level, .. } = *self;
        match (figure, tally.slot_drawn(group, slot)) {
            (Figure::Avg, Drawn::Numbers(drawn)) => mean_t(&drawn.all.moments, design, level),
            (Figure::Sum, Drawn::Numbers(drawn)) => {
                sum_t(&drawn.all.moments, None, false, &self.design_of(group), level)
            }
            (Figure::Variance, Drawn::Numbers(drawn)) => {
                variance_t(&drawn.all.moments, drawn.all.kept(), None, design, level)
            }
            (Figure::StdDev, Drawn::Numbers(drawn)) => {
                variance_t(&drawn.all.moments, drawn.all.kept(), None, design, level).square_root()
            }
            (Figure::Ratio, Drawn::Pair(drawn)) => ratio_t(&drawn.pairs, design, level),
            _ => self.figure(figure, group, slot),
        }
    }

    /// Whether all rows of a group were met.
    fn is_all(&self, group: usize) -> bool {
        self.tally.is_whole(group) || self.design.drawn == self.population()
    }

    fn population(&self) -> u64 {
        self.design.population.expect("a selection has a number of rows")
    }

    /// What the rows of a group were drawn from, if that is known, else what all were.
    fn design_of(&self, group: usize) -> Design {
        if self.tally.counts_all() {
            return *self.design;
        }
        self.tally.design(group).unwrap_or(*self.design)
    }

    fn knows_rows(&self, group: usize) -> bool {
        self.tally.counts_all() || self.tally.known_rows(group).is_some()
    }

    /// A number of rows, from those met among the draws of a design.
    fn count_of(&self, hits: u64, design: &Design, level: Confidence) -> Interval {
        let share = match (self.look, self.is_one_of_many) {
            (Look::Last, false) => share_exact(hits, design, level),
            (Look::Last, true) => group_share(hits, design, level),
            (Look::Running, false) => share_sequence(hits, design, level, self.tightest_at),
            (Look::Running, true) => group_share_sequence(hits, design, level, self.tightest_at),
        };
        share.times(design.population.expect("a selection has a number of rows") as f64)
    }

    /// The number of values that are not null.
    fn values(&self, group: usize, slot: usize, met: u64) -> Interval {
        let design = self.design_of(group);
        let rows = design.population.expect("a selection has a number of rows");
        if self.knows_rows(group) && !self.tally.may_lack(slot) {
            return Interval::exact(rows as f64);
        }
        if design.drawn == rows {
            return Interval::exact(met as f64);
        }
        self.count_of(met, &design, self.count_level)
    }

    fn average(&self, group: usize, drawn: &DrawnNumbers) -> Interval {
        let View { tally, design, level, .. } = *self;
        let moments = &drawn.all.moments;
        match &drawn.bounded {
            Some(numbers) if self.look == Look::Last => {
                mean_t_or_bounded(moments, numbers, design, level)
            }
            Some(numbers) => {
                let design = tally.design(group).unwrap_or(*design);
                mean_sequence_bounded(moments, numbers, &design, level, self.tightest_at)
            }
            None if self.look == Look::Last => mean_t(moments, design, level),
            None => mean_sequence(moments, design, level, self.tightest_at),
        }
    }

    fn sum(&self, group: usize, slot: usize, drawn: &DrawnNumbers) -> Interval {
        let (moments, design) = (&drawn.all.moments, self.design_of(group));
        let is_every = self.knows_rows(group) && !self.tally.may_lack(slot);
        if self.is_one_of_many {
            return self.sum_of_one_of_many(group, drawn);
        }
        match &drawn.bounded {
            numbers if self.look == Look::Last => {
                sum_t(moments, numbers.as_ref(), is_every, &design, self.level)
            }
            Some(numbers) => sum_sequence_bounded(
                moments,
                numbers,
                is_every,
                &design,
                self.level,
                self.tightest_at,
            ),
            None => sum_sequence(moments, &design, self.level, self.tightest_at),
        }
    }

    /// Which groups were met depends on how many rows they have, so what counts these must hold for all groups together; given
    /// that, averages need not.
    fn sum_of_one_of_many(&self, group: usize, drawn: &DrawnNumbers) -> Interval {
        let moments = &drawn.all.moments;
        let count = self.count_of(moments.count(), self.design, self.count_level.spending(0.5));
        let average = View { level: self.level.spending(0.5), ..*self }.average(group, drawn);
        let products = [count.low, count.high]
            .map(|count| {
                // No rows have the sum 0, whatever their average might be.
                [average.low, average.high]
                    .map(|average| if count == 0.0 { 0.0 } else { count * average })
            })
            .concat();
        let value = if moments.count() == 0 { 0.0 } else { count.value * moments.mean() };
        let least = products.iter().copied().fold(value, f64::min);
        let most = products.iter().copied().fold(value, f64::max);
        Interval { value, low: least, high: most, method: average.method }
    }

    fn ratio(&self, group: usize, slot: usize, drawn: &DrawnPairs) -> Interval {
        let View { tally, level, tightest_at, .. } = *self;
        if drawn.sums.iter().any(|numbers| numbers.count == 0) {
            let method = match (self.look, &drawn.bounded) {
                (Look::Last, _) => Method::StudentT,
                (Look::Running, Some(_)) => Method::BoundedSequence,
                (Look::Running, None) => Method::AsymptoticSequence,
            };
            let is_none = tally.known_of(slot) == Known::NoValues;
            return if is_none { Interval::exact(f64::NAN) } else { unbounded(f64::NAN, method) };
        }
        match (&drawn.bounded, self.look) {
            (None, Look::Last) => ratio_t(&drawn.pairs, self.design, level),
            (Some([upper, lower]), Look::Last) => {
                let [of_upper, of_lower] = &drawn.filled;
                let (upper, lower) = ((of_upper, upper), (of_lower, lower));
                ratio_t_or_bounded(&drawn.pairs, upper, lower, self.design, level)
            }
            (None, Look::Running) => ratio_sequence(&drawn.pairs, self.design, level, tightest_at),
            (Some([upper, lower]), Look::Running) => {
                let design = tally.design(group).unwrap_or(*self.design);
                let [of_upper, of_lower] = &drawn.filled;
                ratio_sequence_bounded(
                    (of_upper, upper),
                    (of_lower, lower),
                    &design,
                    level,
                    tightest_at,
                )
            }
        }
    }

    fn variance(&self, group: usize, drawn: &DrawnNumbers) -> Interval {
        let View { tally, design, level, tightest_at, .. } = *self;
        let (moments, kept) = (&drawn.all.moments, drawn.all.kept());
        let bounds = drawn.bounded.as_ref().map(|numbers| numbers.bounds());
        match (&drawn.bounded, self.look) {
            (_, Look::Last) => variance_t(moments, kept, bounds, design, level),
            (None, Look::Running) => variance_sequence(moments, kept, design, level, tightest_at),
            (Some(numbers), Look::Running) => {
                let design = tally.design(group).unwrap_or(*design);
                variance_sequence_bounded(moments, numbers, &design, level, tightest_at)
            }
        }
    }

    fn quantile(
        &self,
        share: f64,
        group: usize,
        slot: usize,
        drawn: &DrawnNumbers,
        known: Known,
    ) -> Interval {
        let is_every = self.knows_rows(group) && !self.tally.may_lack(slot);
        let design = self.design_of(group);
        let (sorted, bounds) = (drawn.all.sorted(), known.bounds());
        match self.look {
            Look::Last => quantile_ranked(
                &sorted,
                share,
                bounds,
                is_every,
                self.is_one_of_many,
                &design,
                self.level,
            ),
            Look::Running => quantile_sequence(
                &sorted,
                share,
                bounds,
                is_every,
                &design,
                self.level,
                self.tightest_at,
            ),
        }
    }

    /// Where all values are equal.
    fn of_equals(&self, figure: Figure, drawn: &DrawnNumbers, value: f64) -> Interval {
        match figure {
            Figure::Variance | Figure::StdDev if drawn.all.count < 2 => {
                Interval { value: f64::NAN, low: 0.0, high: 0.0, method: Method::Bounded }
            }
            Figure::Variance | Figure::StdDev => Interval::exact(0.0),
            _ if drawn.all.count > 0 => Interval::exact(value),
            _ => Interval { value: f64::NAN, low: value, high: value, method: Method::Bounded },
        }
    }
}

fn exactly(figure: Option<f64>) -> Interval {
    Interval::exact(figure.unwrap_or(f64::NAN))
}

/// A number of different values of which `met` were met.
fn at_least(met: f64) -> Interval {
    Interval { value: met, low: met, high: f64::INFINITY, method: Method::LowerBound }
}

fn unbounded(value: f64, method: Method) -> Interval {
    Interval { value, low: f64::NEG_INFINITY, high: f64::INFINITY, method }
}

//! [`Estimate`]: what an estimate found.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, Field, Schema};
use drillcore_sample::interval::{Bounds, Interval, Method};

use crate::read::estimate::shown_figures::{shown_figures, shown_values};
use crate::schema::number::{Number, is_time, values_of};
use crate::schema::unit::Unit;

/// Estimated aggregates, one interval per group.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use drillcore::{Aggregate, EstimateRequest};
///
/// let aggregates = vec![("mean".into(), Aggregate::avg("delay"))];
/// let request = EstimateRequest { aggregates, ..EstimateRequest::default() };
/// let estimate = flights.snapshot()?.estimate(&request)?;
/// println!("{} of {} rows drawn", estimate.sampled, estimate.population);
/// assert!(estimate.exact, "of so few rows all were drawn");
/// assert_eq!(estimate.to_batch().schema().field(1).name(), "mean_low");
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Estimate {
    /// The groups' values, one array per column of `by`, ascending; empty without `by`, where there is one group.
    pub groups: Vec<ArrayRef>,
    /// The columns that rows are grouped by.
    pub by: Vec<String>,
    /// One per aggregate of the request, in its order.
    pub aggregates: Vec<AggregateEstimate>,
    /// Rows read of each group: those drawn, or all of them where it was read whole.
    pub drawn: Vec<u64>,
    /// What was drawn and counted: rows, or events of a rollup table. Where this says rows below, these are meant.
    pub unit: Unit,
    /// Rows drawn in all; those that fail the predicate, and so belong to no group, among them.
    pub sampled: u64,
    /// Rows read without drawing: of groups read whole, or all of them where a scan costs less than drawing on.
    pub scanned: u64,
    /// Rows that were drawn from: those selected, before a predicate that has to be tested. Of an upsert or rollup table that was
    /// read instead, those that pass it.
    pub population: u64,
    /// Confidence level of each interval, or of all together if `simultaneous`.
    pub confidence: f64,
    /// Whether the confidence is that of all intervals together, not of each.
    pub simultaneous: bool,
    /// The ways the intervals were found, joined by ", ".
    pub method: String,
    /// Nothing was estimated.
    pub exact: bool,
    /// Whether the interval of an average, a sum, a ratio or a variance leans on a limit theorem and no bounds of its values are known. Where few rows carry
    /// most of the sum it may then hold less often than `confidence` says, and the rows drawn need not show it.
    pub asymptotic: bool,
    /// The estimated share of the selected rows that lie in groups not met (Good and Turing: the share
    /// of rows drawn whose group was met once); 0 where an index lists all groups.
    pub unseen_share: f64,
    /// The upper end for that share, which holds with `confidence` at all looks together.
    pub unseen_share_high: f64,
    /// Sentences on what the intervals allow for and what they do not, on groups not met, and on rows read without drawing.
    pub notes: Vec<String>,
    /// With [`Stop::Error`](crate::Stop::Error), intervals that are wider than asked for: of groups that were not waited for, as no
    /// value was met in them, and of what was not drawn long enough, where a watcher stopped.
    pub unreached: Vec<Unreached>,
}

/// An interval that is wider than was asked for.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use drillcore::{Aggregate, EstimateRequest, HalfWidth, Stop};
///
/// let request = EstimateRequest {
///     aggregates: vec![("mean".into(), Aggregate::avg("delay"))],
///     by: vec!["carrier".into()],
///     stop: Stop::Error(HalfWidth::Relative(0.05)),
///     ..EstimateRequest::default()
/// };
/// let estimate = flights.snapshot()?.estimate(&request)?;
/// for wide in &estimate.unreached {
///     println!("{} of {}: {}", wide.aggregate, estimate.group_name(wide.group), wide.reason);
/// }
/// assert!(estimate.unreached.is_empty(), "so few rows are read, and exact");
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Unreached {
    /// The name of the aggregate.
    pub aggregate: String,
    /// The place of the group in the result.
    pub group: usize,
    /// Why, in words.
    pub reason: String,
}

/// One aggregate of an estimate.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use drillcore::{Aggregate, EstimateRequest};
///
/// let aggregates = vec![("rows".into(), Aggregate::Count)];
/// let request = EstimateRequest { aggregates, ..EstimateRequest::default() };
/// let estimate = flights.snapshot()?.estimate(&request)?;
/// let rows = &estimate.aggregates[0];
/// assert_eq!((rows.name.as_str(), rows.intervals[0].value), ("rows", 100.0));
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AggregateEstimate {
    /// Its name in the request.
    pub name: String,
    /// The type of [`AggregateEstimate::figures`]: that of the column for extremes, and for quantiles of dates and timestamps,
    /// else `Float64`.
    pub data_type: DataType,
    /// One per group. What a group without values does not have, known to be one, is exactly NaN. Of dates and timestamps these
    /// count the units of the type since the beginning of 1970. Beyond 2^53 they are rounded.
    pub intervals: Vec<Interval>,
    /// Whether the figure of each group exists, as far as values were met: an average needs one, a variance two, and the lower sum
    /// of a ratio must not be 0.
    pub has_value: Vec<bool>,
    /// What the intervals allow values to be, if any was made from bounds of the column.
    pub bounds: Option<Bounds>,
    /// Of the least and the greatest values their numbers, one per group; of others none.
    pub(super) extremes: Vec<[Option<Number>; 3]>,
}

impl AggregateEstimate {
    /// The value, the lower and the upper end of each group, of the type of the aggregate, as [`Estimate::to_batch`] has them:
    /// extremes of integers, dates and timestamps to the last digit, quantiles of times rounded to the unit, their ends outward.
    /// A figure that does not exist, or of which no value was met, is null; its ends are null once that is certain. So is an end
    /// that is not known, or of a time, unbounded.
    pub fn figures(&self) -> [ArrayRef; 3] {
        let groups: Vec<_> = (0..self.intervals.len()).map(|group| self.numbers(group)).collect();
        [0, 1, 2].map(|end| {
            let numbers: Vec<_> = groups.iter().map(|numbers| numbers[end]).collect();
            values_of(&numbers, &self.data_type)
        })
    }

    /// The same of one group, as numbers.
    fn numbers(&self, group: usize) -> [Option<Number>; 3] {
        if let Some(numbers) = self.extremes.get(group) {
            return *numbers;
        }
        let Interval { value, low, high, method } = self.intervals[group];
        if is_time(&self.data_type) {
            let ends = match method {
                Method::Exact => [value.round(); 3],
                _ => [value.round(), low.floor(), high.ceil()],
            };
            let number = |end: f64| end.is_finite().then_some(Number::Signed(end as i64));
            return ends.map(number);
        }
        let is_open = |number: f64| method == Method::LowerBound && number.is_infinite();
        let is_there =
            |number: f64| (self.has_value[group] || !number.is_nan()) && !is_open(number);
        [value, low, high].map(|number| is_there(number).then_some(Number::Float(number)))
    }
}

impl Estimate {
    /// The values of a group by its place in the result, as text; nothing where there are no groups.
    pub fn group_name(&self, group: usize) -> String {
        let options = FormatOptions::new().with_null("null").with_display_error(true);
        let value = |column: &ArrayRef| match ArrayFormatter::try_new(column, &options) {
            Ok(values) => values.value(group).to_string(),
            Err(error) => error.to_string(),
        };
        self.groups.iter().map(value).collect::<Vec<_>>().join(", ")
    }

    /// The value and the ends of an aggregate in a group, both by their places, as people read them: with the digits that the
    /// interval supports, ends rounded outward. An end is `unbounded` where there is none, and `unknown` where a sample does not
    /// show it.
    pub fn shown(&self, aggregate: usize, group: usize) -> [String; 3] {
        let found = &self.aggregates[aggregate];
        let (interval, has_value) = (&found.intervals[group], found.has_value[group]);
        match found.data_type.is_floating() {
            true => shown_figures(interval, has_value),
            false => shown_values(found.numbers(group), &found.data_type, interval, has_value),
        }
    }

    /// One row per group: its values, then for each aggregate the estimate and its ends as `name`,
    /// `name_low` and `name_high`, then the rows read of it as `sampled`. See [`AggregateEstimate::figures`]. A lower bound has
    /// no upper end.
    pub fn to_batch(&self) -> RecordBatch {
        let mut columns: Vec<ArrayRef> = self.groups.clone();
        columns.extend(self.aggregates.iter().flat_map(AggregateEstimate::figures));
        columns.push(Arc::new(UInt64Array::from(self.drawn.clone())));
        let aggregates = self.aggregates.iter().map(|aggregate| aggregate.name.as_str());
        let names = column_names(&self.by, aggregates);
        let field = |(name, values): (&String, &ArrayRef)| {
            Field::new(name, values.data_type().clone(), name != SAMPLED)
        };
        let fields: Vec<Field> = names.iter().zip(&columns).map(field).collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
            .expect("columns have one row per group")
    }
}

/// The rows read of each group, as a column.
const SAMPLED: &str = "sampled";

/// The names of the columns of an estimate as a batch, in order.
pub fn column_names<'a>(by: &[String], aggregates: impl Iterator<Item = &'a str>) -> Vec<String> {
    let of_aggregates =
        aggregates.flat_map(|name| ["", "_low", "_high"].map(|end| format!("{name}{end}")));
    by.iter().cloned().chain(of_aggregates).chain([SAMPLED.to_string()]).collect()
}

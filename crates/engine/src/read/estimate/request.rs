//! What to estimate, and when enough has been drawn.

use std::ops::ControlFlow;

use crate::error::{Error, Result};
use crate::read::estimate::aggregate::Aggregate;
use crate::read::estimate::computed::Computed;
use crate::read::estimate::result::Estimate;
use crate::schema::unit::Unit;
use crate::select::selection::Selection;

/// The first round; later ones grow with what was drawn.
pub const ROUND_MIN: u64 = 1_000;
/// The number of draws at which intervals that hold at all looks are tightest, unless `n` is known.
pub const USUAL_DRAWS: u64 = 10_000;

/// What to estimate.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use drillcore::{Aggregate, EstimateRequest};
///
/// let request = EstimateRequest {
///     aggregates: vec![("rows".into(), Aggregate::Count), ("mean".into(), Aggregate::avg("delay"))],
///     by: vec!["carrier".into()],
///     ..EstimateRequest::default()
/// };
/// let estimate = flights.snapshot()?.estimate(&request)?;
/// assert_eq!(estimate.aggregates[0].intervals.len(), 2); // one per carrier
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone)]
pub struct EstimateRequest {
    /// Each with the name that it has in the result.
    pub aggregates: Vec<(String, Aggregate)>,
    /// Group by these columns: one result per combination of their values that occurs.
    pub by: Vec<String>,
    /// Columns that the table does not have, for `aggregates` and `by` to name.
    pub computed: Vec<Computed>,
    /// Which rows the aggregates are of.
    pub selection: Selection,
    /// What is drawn and counted in a rollup table: its rows, or the events that they were folded from, each of which has the
    /// values of its row. In other tables an event is a row.
    pub unit: Unit,
    /// When to stop drawing.
    pub stop: Stop,
    /// Confidence level of each interval, between 0 and 1.
    pub confidence: f64,
    /// Whether the confidence is that of all intervals together, over all aggregates and groups.
    pub simultaneous: bool,
    /// The same seed on the same snapshot draws the same rows; none is a fresh one.
    pub seed: Option<u64>,
}

/// When enough has been drawn. In every case at the latest when all rows have been: the result is exact then.
///
/// With [`Stop::Error`] rows may be read instead of drawn, which makes their part of the result exact: of small groups that a set
/// index knows, and all rows where drawing on would cost half of that or more.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use drillcore::{Aggregate, EstimateRequest, Stop};
///
/// let request = EstimateRequest {
///     aggregates: vec![("mean".into(), Aggregate::avg("delay"))],
///     stop: Stop::Rows(40),
///     ..EstimateRequest::default()
/// };
/// assert_eq!(flights.snapshot()?.estimate(&request)?.sampled, 40);
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Stop {
    /// After this number of rows.
    Rows(u64),
    /// When every interval is this narrow. The average of a group without values among 1,000 rows drawn of it is not waited for.
    Error(HalfWidth),
    /// After this time, in seconds.
    Seconds(f64),
}

/// Half the width of an interval.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use drillcore::{Aggregate, EstimateRequest, HalfWidth, Stop};
///
/// let request = EstimateRequest {
///     aggregates: vec![("mean".into(), Aggregate::avg("delay"))],
///     stop: Stop::Error(HalfWidth::Relative(0.05)),
///     ..EstimateRequest::default()
/// };
/// let mean = flights.snapshot()?.estimate(&request)?.aggregates[0].intervals[0];
/// assert!(mean.half_width() <= 0.05 * mean.value);
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum HalfWidth {
    /// In the unit of the column; of dates in days.
    Absolute(f64),
    /// As a share of the estimate. Quantiles of dates and timestamps have none.
    Relative(f64),
}

/// Sees an estimate while it is being refined. Its intervals hold at all looks together.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use std::ops::ControlFlow;
///
/// use drillcore::{Aggregate, EstimateRequest};
///
/// let aggregates = vec![("mean".into(), Aggregate::avg("delay"))];
/// let request = EstimateRequest { aggregates, ..EstimateRequest::default() };
/// let estimate = flights.snapshot()?.estimate_watched(&request, &mut |so_far| {
///     println!("{:?}", so_far.aggregates[0].intervals[0]);
///     ControlFlow::Continue(()) // or `Break`, once it is good enough
/// })?;
/// assert!(estimate.exact, "so few rows are drawn at once");
/// # drillcore::Result::Ok(())
/// ```
pub type Watch<'a> = dyn FnMut(&Estimate) -> ControlFlow<()> + 'a;

impl Default for EstimateRequest {
    fn default() -> EstimateRequest {
        EstimateRequest {
            aggregates: Vec::new(),
            by: Vec::new(),
            computed: Vec::new(),
            selection: Selection::default(),
            unit: Unit::Rows,
            stop: Stop::Rows(USUAL_DRAWS),
            confidence: 0.95,
            simultaneous: false,
            seed: None,
        }
    }
}

impl Stop {
    /// The most rows that will be drawn.
    pub fn draws_max(self) -> Result<u64> {
        match self {
            Stop::Rows(0) => Err(Error::invalid("n must be at least 1, got 0")),
            Stop::Rows(n) => Ok(n),
            Stop::Seconds(seconds) if !(0.0..1e9).contains(&seconds) => {
                Err(Error::invalid(format!("seconds must be from 0 to 1e9, got {seconds}")))
            }
            Stop::Error(HalfWidth::Absolute(width) | HalfWidth::Relative(width))
                if width.is_nan() || width <= 0.0 =>
            {
                Err(Error::invalid(format!("the error must be a positive number, got {width}")))
            }
            _ => Ok(u64::MAX),
        }
    }
}

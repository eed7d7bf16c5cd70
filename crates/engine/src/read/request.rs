//! What to draw, and how a sample came about.

use crate::schema::unit::Unit;
use crate::select::selection::Selection;

/// What to draw.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use drillcore::SampleRequest;
///
/// // Five different flights, the late ones likelier; the same ones each time.
/// let weight = Some("delay".to_string());
/// let request = SampleRequest { n: 5, weight, seed: Some(7), ..SampleRequest::default() };
/// let now = flights.snapshot()?;
/// let drawn = now.sample(&request)?;
/// assert_eq!(drawn.num_rows(), 5);
/// assert_eq!(drawn, now.sample(&request)?);
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct SampleRequest {
    /// The number of rows.
    pub n: u64,
    /// Which rows to draw from.
    pub selection: Selection,
    /// In a rollup table, what is drawn: rows, or events, which is the default. In other tables an event is a row.
    pub unit: Unit,
    /// Draw in proportion to this weight column; by default every row is equally likely.
    pub weight: Option<String>,
    /// Add a column `probability`: the chance of the row in each draw with replacement, or to be among
    /// the rows drawn uniformly without.
    pub with_probability: bool,
    /// Add a column `arrival_time` to draws by weight without replacement, which ascends: the time of each row is exponential
    /// with its weight as the rate, and independent of the others'. So of the samples of selections that share no row,
    /// the earliest rows are drawn as they would be from all of these together.
    pub arrival_times: bool,
    /// Let a row be drawn more than once, each draw independent of the others.
    pub replace: bool,
    /// Give what there is where fewer than `n` rows can be drawn, instead of an error.
    pub at_most: bool,
    /// The same seed on the same snapshot gives the same rows; none is a fresh one.
    pub seed: Option<u64>,
    /// Names of the columns wanted, in that order; all by default.
    pub columns: Option<Vec<String>>,
    /// Threads that read the drawn rows, at least 16,384 rows per thread; by default one. The rows do not depend on it.
    pub threads: Option<usize>,
}

/// A share of a selection's rows.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use drillcore::ShareRequest;
///
/// let request = ShareRequest { share: 0.1, seed: Some(7), ..ShareRequest::default() };
/// let drawn = flights.snapshot()?.sample_share(&request)?;
/// assert!(drawn.num_rows() < 100, "about one in ten");
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct ShareRequest {
    /// The chance of each row, from 0 to 1.
    pub share: f64,
    /// Which rows to draw from.
    pub selection: Selection,
    /// The same seed on the same snapshot gives the same rows; none is a fresh one.
    pub seed: Option<u64>,
    /// Names of the columns wanted, in that order; all by default.
    pub columns: Option<Vec<String>>,
}

/// How a sample came about.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use drillcore::SampleRequest;
///
/// let request = SampleRequest { n: 5, ..SampleRequest::default() };
/// let (drawn, report) = flights.snapshot()?.sample_with_report(&request)?;
/// assert_eq!((drawn.num_rows(), report.attempts), (5, 5)); // none was dropped
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SampleReport {
    /// Rows drawn, those among them that were dead or did not pass the predicate.
    pub attempts: u64,
    /// Whether too many were dropped, so that the selection was resolved and the sample drawn from it.
    pub resolved: bool,
}

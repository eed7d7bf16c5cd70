//! [`Computed`]: columns that are computed from others, to aggregate or to group by. The engine parses nothing: the
//! crate that reads text hands it an [`Expression`].

use std::fmt;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::DataType;

use crate::error::Result;

/// A value that each row of a table has, whatever the other rows are: computed twice, it is the same.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use std::sync::Arc;
///
/// use drillcore::arrow_array::cast::AsArray;
/// use drillcore::arrow_array::types::Int64Type;
/// use drillcore::arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use drillcore::arrow_schema::DataType;
/// use drillcore::{Aggregate, Computed, EstimateRequest, Expression, Result};
///
/// #[derive(Debug)]
/// struct Twice {
///     columns: [String; 1],
/// }
///
/// impl Expression for Twice {
///     fn columns(&self) -> &[String] {
///         &self.columns
///     }
///
///     fn data_type(&self) -> &DataType {
///         &DataType::Int64
///     }
///
///     fn evaluate(&self, rows: &RecordBatch) -> Result<ArrayRef> {
///         let delays = rows.column(0).as_primitive::<Int64Type>();
///         Ok(Arc::new(delays.iter().map(|delay| delay.map(|delay| 2 * delay)).collect::<Int64Array>()))
///     }
/// }
///
/// let expression = Arc::new(Twice { columns: ["delay".to_string()] });
/// let request = EstimateRequest {
///     aggregates: vec![("twice".into(), Aggregate::avg("2 * delay")), ("once".into(), Aggregate::avg("delay"))],
///     computed: vec![Computed { name: "2 * delay".into(), expression }],
///     ..EstimateRequest::default()
/// };
/// let [twice, once] = &flights.snapshot()?.estimate(&request)?.aggregates[..] else { panic!() };
/// assert!((twice.intervals[0].value - 2.0 * once.intervals[0].value).abs() < 1e-9);
/// # drillcore::Result::Ok(())
/// ```
pub trait Expression: fmt::Debug + Send + Sync {
    /// Names of the columns that it reads; may be none.
    fn columns(&self) -> &[String];

    /// The type of the values.
    fn data_type(&self) -> &DataType;

    /// The value of each row. `rows` has exactly the columns of [`Expression::columns`], in that order.
    fn evaluate(&self, rows: &RecordBatch) -> Result<ArrayRef>;

    /// A column of which each value that is not null is the row's own; then its bounds bound the values.
    fn chooses_from(&self) -> Option<&str> {
        None
    }
}

/// A column of an estimate that the table does not have.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use std::sync::Arc;
///
/// use drillcore::arrow_array::{ArrayRef, BooleanArray, RecordBatch, cast::AsArray, types::Int64Type};
/// use drillcore::arrow_schema::DataType;
/// use drillcore::{Aggregate, Computed, EstimateRequest, Expression, Result};
///
/// #[derive(Debug)]
/// struct IsLate([String; 1]);
///
/// impl Expression for IsLate {
///     fn columns(&self) -> &[String] {
///         &self.0
///     }
///
///     fn data_type(&self) -> &DataType {
///         &DataType::Boolean
///     }
///
///     fn evaluate(&self, rows: &RecordBatch) -> Result<ArrayRef> {
///         let delays = rows.column(0).as_primitive::<Int64Type>();
///         Ok(Arc::new(delays.iter().map(|delay| delay.map(|delay| delay > 15)).collect::<BooleanArray>()))
///     }
/// }
///
/// // Delays of those that are late, and of those that are not.
/// let late = Computed { name: "late".into(), expression: Arc::new(IsLate(["delay".to_string()])) };
/// let request = EstimateRequest {
///     aggregates: vec![("delay".into(), Aggregate::avg("delay"))],
///     by: vec!["late".into()],
///     computed: vec![late],
///     ..EstimateRequest::default()
/// };
/// assert_eq!(flights.snapshot()?.estimate(&request)?.aggregates[0].intervals.len(), 2);
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone)]
pub struct Computed {
    /// What aggregates and `by` call it. No column of the table has this name.
    pub name: String,
    /// What its values are.
    pub expression: Arc<dyn Expression>,
}

//! Rows and events: what is counted and drawn.

/// What is drawn from a rollup table. In other tables an event is a row.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use drillcore::{SampleRequest, Unit};
///
/// let request = SampleRequest { n: 5, unit: Unit::Rows, ..SampleRequest::default() };
/// assert_eq!(flights.snapshot()?.sample(&request)?.num_rows(), 5);
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Unit {
    /// Events, each of which shows the row that it was folded into.
    #[default]
    Events,
    /// Rows.
    Rows,
}

impl Unit {
    /// What it is called: `rows` or `events`.
    pub fn as_str(self) -> &'static str {
        match self {
            Unit::Rows => "rows",
            Unit::Events => "events",
        }
    }
}

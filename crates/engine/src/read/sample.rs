//! Sampling: random rows of a selection.
//!
//! The selection's rows are numbered through, numbers are drawn, and only the rows behind them are read:
//! the cost is that of the rows drawn, whatever surrounds them. Draws depend on the seed and the
//! snapshot alone.

use std::sync::Arc;

use arrow_array::{Float64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use drillcore_format::rows::Layout;
use drillcore_format::weight::FLOAT_STEPS;
use drillcore_sample::rng::Rng;

use crate::error::{Error, Result};
use crate::read::arrivals::Arrivals;
use crate::read::draw::{ByNumber, Drawn, Draws, Probability, SamplingUnit, drawable};
use crate::read::fresh_seed::fresh_seed;
use crate::read::request::{SampleReport, SampleRequest, ShareRequest};
use crate::read::shown::{rows_pass, show, threads_of};
use crate::read::snapshot::TableSnapshot;
use crate::select::selection::{Place, Question};

/// The stream of a seed that sampling draws from; estimates have another.
const STREAM: u64 = 1;

impl TableSnapshot {
    /// Random rows of the selection; see [`SampleRequest`].
    ///
    /// # Errors
    /// `TooFewRows` if there are fewer than `n` and not `at_most`, `NotFound` for an unknown column or weight, `InvalidArgument`
    /// for options that contradict each other or more rows than fit in memory, and as [`TableSnapshot::scan`].
    pub fn sample(&self, request: &SampleRequest) -> Result<RecordBatch> {
        Ok(self.sample_with_report(request)?.0)
    }

    /// Random rows of the selection, and what it took to find them.
    ///
    /// # Errors
    /// As [`TableSnapshot::sample`].
    pub fn sample_with_report(
        &self,
        request: &SampleRequest,
    ) -> Result<(RecordBatch, SampleReport)> {
        let columns = self.columns(request.columns.as_deref())?;
        // Refused before anything is read: rows are shown last, or along the way.
        threads_of(request.threads, request.n)?;
        sample(self, &columns, request)
    }

    /// Each row of the selection with the same chance, independently of the others, in random order
    /// (Bernoulli sampling). Costs what the rows cost that are drawn before the predicate is tested.
    ///
    /// # Errors
    /// `InvalidArgument` for a share that is not between 0 and 1 or more rows than fit in memory, and as [`TableSnapshot::scan`].
    pub fn sample_share(&self, request: &ShareRequest) -> Result<RecordBatch> {
        if !(0.0..=1.0).contains(&request.share) {
            let share = request.share;
            return Err(Error::invalid(format!("share must be between 0 and 1, got {share}")));
        }
        let columns = self.columns(request.columns.as_deref())?;
        let mut rng = Rng::keyed(request.seed.unwrap_or_else(fresh_seed), STREAM);
        let layout = &self.table().layout;
        let Question { scope, test } = request.selection.check(layout.schema())?;
        // Which rows are in does not depend on which pass, so no more than those need be tested.
        let interrupt = self.interrupt();
        let selected = self.resolved(self.shown(scope), interrupt)?;
        let n = drawable(rng.binomial(selected.len(), request.share))?;
        let mut draws = ByNumber::rows(&selected, interrupt);
        let mut places = draws.draw(&mut rng, n, &SampleRequest::default())?;
        if let Some(test) = &test {
            let passes = rows_pass(self, &selected, test, &places, interrupt)?;
            let mut passes = passes.into_iter();
            places.retain(|_| passes.next().expect("one answer per row"));
        }
        show(self, &selected, &columns, &places, None, interrupt)
    }
}

/// Draws `request.n` rows in the order drawn: any prefix is itself a sample. Without a weight each row of
/// the selection is equally likely, or each event; with one, a row's chance is its share of the weight. Without
/// replacement all are different.
fn sample(
    table: &TableSnapshot,
    columns: &[usize],
    request: &SampleRequest,
) -> Result<(RecordBatch, SampleReport)> {
    if request.with_probability && request.weight.is_some() && !request.replace {
        return Err(Error::invalid(
            "probabilities are not available for weighted draws without replacement; draw with replacement, or leave the \
             probabilities out",
        ));
    }
    let layout = &table.table().layout;
    let unit = SamplingUnit::of(layout, request)?;
    let seed = request.seed.unwrap_or_else(fresh_seed);
    let mut arrivals = arrivals(layout, &unit, request, seed)?;
    let question = table.question(&request.selection)?;
    let mut rng = Rng::keyed(seed, STREAM);
    let (drawn, report) =
        unit.sample(table, columns, question, request, arrivals.as_mut(), &mut rng)?;
    let rows = match drawn.rows {
        Some(rows) => rows,
        None => {
            let Drawn { selected, places, .. } = &drawn;
            show(table, selected, columns, places, request.threads, table.interrupt())?
        }
    };
    let rows = match drawn.probability {
        _ if !request.with_probability => rows,
        Probability::Same(chance) => {
            with_column(&rows, "probability", vec![chance; rows.num_rows()])?
        }
        Probability::Each(chances) => with_column(&rows, "probability", chances)?,
    };
    Ok((with_arrivals(rows, arrivals, &drawn.places)?, report))
}

/// Adds the arrival times of rows, if they were noted.
fn with_arrivals(
    rows: RecordBatch,
    arrivals: Option<Arrivals>,
    places: &[Place],
) -> Result<RecordBatch> {
    match arrivals {
        None => Ok(rows),
        Some(arrivals) => with_column(&rows, "arrival_time", arrivals.of(places)),
    }
}

/// What notes arrival times, if they are asked for.
fn arrivals(
    layout: &Layout,
    unit: &SamplingUnit,
    request: &SampleRequest,
    seed: u64,
) -> Result<Option<Arrivals>> {
    if !request.arrival_times {
        return Ok(None);
    }
    let SamplingUnit::Weight(_, weight) = unit else {
        return Err(Error::invalid(
            "arrival times need draws by weight; give a weight column, or leave the arrival times out",
        ));
    };
    if request.replace {
        return Err(Error::invalid(
            "arrival times need draws without replacement; turn replacement off, or leave the arrival times out",
        ));
    }
    let schema = layout.schema();
    let field = schema.columns.field(schema.weights[*weight]);
    let unit = if field.data_type().is_integer() { 1.0 } else { 1.0 / FLOAT_STEPS };
    Ok(Some(Arrivals::new(seed, unit)))
}

/// Adds a column of numbers, one per row.
fn with_column(rows: &RecordBatch, name: &str, values: Vec<f64>) -> Result<RecordBatch> {
    if rows.column_by_name(name).is_some() {
        return Err(Error::invalid(format!(
            "the table already has a column {name:?}; select columns without it"
        )));
    }
    let mut fields: Vec<_> = rows.schema().fields().iter().cloned().collect();
    fields.push(Arc::new(Field::new(name, DataType::Float64, false)));
    let mut columns = rows.columns().to_vec();
    columns.push(Arc::new(Float64Array::from(values)));
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns);
    Ok(batch.expect("one number per row"))
}

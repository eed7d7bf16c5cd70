//! Sampling: random rows of a selection.
//!
//! The selection's rows are numbered through, numbers are drawn, and only the rows behind them are read:
//! the cost is that of the rows drawn, whatever surrounds them. Draws depend on the seed and the
//! snapshot alone.

use std::sync::Arc;

use arrow_array::{Float64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use drillcore_sample::rng::Rng;

use crate::error::{Error, Result};
use crate::read::draw::{ByNumber, Draws, Population, Probability, by_rejection, drawable, stay};
use crate::read::request::{SampleReport, SampleRequest, ShareRequest};
use crate::read::shown::{rows_pass, show};
use crate::read::snapshot::TableSnapshot;
use crate::select::selection::{Place, Question};

/// The stream of a seed that sampling draws from; estimates have another.
const STREAM: u64 = 1;

impl TableSnapshot {
    /// Random rows of the selection; see [`SampleRequest`].
    pub fn sample(&self, request: &SampleRequest) -> Result<RecordBatch> {
        Ok(self.sample_with_report(request)?.0)
    }

    /// Random rows of the selection, and what it took to find them.
    pub fn sample_with_report(
        &self,
        request: &SampleRequest,
    ) -> Result<(RecordBatch, SampleReport)> {
        let columns = self.columns(request.columns.as_deref())?;
        sample(self, &columns, request)
    }

    /// Each row of the selection with the same chance, independently of the others, in random order
    /// (Bernoulli sampling). Costs what the rows cost that are drawn before the predicate is tested.
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
        let selected = self.resolved(self.shown(scope), &request.interrupt)?;
        let n = drawable(rng.binomial(selected.len(), request.share))?;
        let draws = SampleRequest { interrupt: request.interrupt.clone(), ..Default::default() };
        let mut places = ByNumber::rows(&selected).draw(&mut rng, n, &draws)?;
        if let Some(test) = &test {
            let passes = rows_pass(self, &selected, test, &places, &request.interrupt)?;
            let mut passes = passes.into_iter();
            places.retain(|_| passes.next().expect("one answer a row"));
        }
        show(self, &selected, &columns, &places, None, &request.interrupt)
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
            "weighted draws without replacement have no closed form of their probabilities; \
             draw with replacement, or leave the probabilities out",
        ));
    }
    let layout = &table.table().layout;
    let interrupt = &request.interrupt;
    let question = table.question(&request.selection)?;
    let population = Population::of(layout, request)?;
    let mut rng = Rng::keyed(request.seed.unwrap_or_else(fresh_seed), STREAM);
    let mut report = SampleReport::default();
    let (mut drawn, mut enough_of) = (Vec::new(), None);
    if population.may_drop(layout, &question, request) {
        let candidates = table.candidates(&question.scope, interrupt)?;
        let test = question.test.as_ref();
        let stays = |places: &[Place]| stay(table, &candidates, test, places, interrupt);
        // For as many as there are, the exact selection costs no more than as many tries.
        if request.n < candidates.len() {
            let mut draws = population.draws(&candidates, layout, interrupt)?;
            drawn = by_rejection(&mut *draws, stays, request, &mut rng, &mut report)?;
        }
        report.resolved = drawn.len() as u64 != request.n;
        enough_of = (!report.resolved).then_some(candidates);
    }
    let (selected, places, probability) = match enough_of {
        Some(candidates) => (candidates, drawn, None),
        None => {
            let selected = population.exact(table, question, interrupt)?;
            let (places, probability) =
                population.draw(&selected, layout, drawn, request, &mut rng)?;
            report.attempts += places.len() as u64;
            (selected, places, Some(probability).filter(|_| request.with_probability))
        }
    };
    let rows = show(table, &selected, columns, &places, request.threads, interrupt)?;
    let rows = match probability {
        None => rows,
        Some(probability) => with_probability(&rows, probability)?,
    };
    Ok((rows, report))
}

/// Adds the column `probability`.
fn with_probability(rows: &RecordBatch, probability: Probability) -> Result<RecordBatch> {
    let values: Float64Array = match probability {
        Probability::Same(chance) => vec![chance; rows.num_rows()].into(),
        Probability::Each(chances) => chances.into(),
    };
    if rows.column_by_name("probability").is_some() {
        return Err(Error::invalid(
            "the table already has a column \"probability\"; select columns without it",
        ));
    }
    let mut fields: Vec<_> = rows.schema().fields().iter().cloned().collect();
    fields.push(Arc::new(Field::new("probability", DataType::Float64, false)));
    let mut columns = rows.columns().to_vec();
    columns.push(Arc::new(values));
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns);
    Ok(batch.expect("one probability a row"))
}

/// A fresh seed, from the operating system.
pub fn fresh_seed() -> u64 {
    getrandom::u64().expect("the operating system gives random numbers")
}

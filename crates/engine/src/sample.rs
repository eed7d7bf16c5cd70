//! Sampling: random rows of a selection.
//!
//! The selection's rows are numbered through, numbers are drawn, and only the rows behind them are read:
//! the cost is that of the rows drawn, whatever surrounds them. Draws depend on the seed and the
//! snapshot alone.

use arrow_array::RecordBatch;
use drillcore_format::rows::Layout;
use drillcore_sample::choose::{WithReplacement, WithoutReplacement};
use drillcore_sample::rng::Rng;

use crate::error::{Error, ErrorKind, Result};
use crate::fetch::fetch;
use crate::interrupt::Interrupt;
use crate::select::{Place, Selected, Selection};

/// The stream of a seed that sampling draws from; estimates have another.
const STREAM: u64 = 1;
/// Places looked up between two looks at the interrupt.
const CHUNK: usize = 4096;

/// What to draw.
#[derive(Debug, Clone, Default)]
pub struct SampleRequest {
    /// The number of rows.
    pub n: u64,
    pub selection: Selection,
    /// Let a row be drawn more than once, each draw independent of the others.
    pub replace: bool,
    /// Give what there is where fewer than `n` rows can be drawn, instead of an error.
    pub at_most: bool,
    /// The same seed on the same snapshot gives the same rows; none is a fresh one.
    pub seed: Option<u64>,
    /// Names of the columns wanted, in that order; all by default.
    pub columns: Option<Vec<String>>,
    pub interrupt: Interrupt,
}

/// Draws `request.n` rows, each of the selection equally likely, in the order drawn: any prefix is itself
/// a sample. Without replacement all are different.
pub(crate) fn sample(
    selected: &Selected,
    layout: &Layout,
    columns: &[usize],
    request: &SampleRequest,
) -> Result<RecordBatch> {
    let n = checked_count(selected.len(), request)?;
    if n == 0 {
        return Ok(no_rows(layout, columns));
    }
    let mut rng = Rng::keyed(request.seed.unwrap_or_else(fresh_seed), STREAM);
    let mut numbers = Vec::with_capacity(n);
    if request.replace {
        WithReplacement::new(selected.len()).draw_into(&mut rng, n, &mut numbers);
    } else {
        WithoutReplacement::new(selected.len()).draw_into(&mut rng, n, &mut numbers);
    }
    rows_at(selected, layout, columns, &numbers, &request.interrupt)
}

/// The rows with the given numbers of a selection, at least one, in that order.
pub(crate) fn rows_at(
    selected: &Selected,
    layout: &Layout,
    columns: &[usize],
    numbers: &[u64],
    interrupt: &Interrupt,
) -> Result<RecordBatch> {
    let mut places: Vec<Place> = Vec::with_capacity(numbers.len());
    for chunk in numbers.chunks(CHUNK) {
        interrupt.check()?;
        for &number in chunk {
            places.push(selected.place(number)?);
        }
    }
    let rows = fetch(selected.pieces(), &places, &layout.projection(columns), interrupt)?;
    Ok(layout.decode(&rows, columns)?)
}

/// A batch without rows.
pub(crate) fn no_rows(layout: &Layout, columns: &[usize]) -> RecordBatch {
    let schema = layout.schema().columns.project(columns).expect("columns were resolved");
    RecordBatch::new_empty(schema.into())
}

/// A seed nobody has used before, from the operating system.
pub(crate) fn fresh_seed() -> u64 {
    getrandom::u64().expect("the operating system gives random numbers")
}

/// How many rows will be drawn.
fn checked_count(population: u64, request: &SampleRequest) -> Result<usize> {
    let enough = if request.replace { population > 0 } else { population >= request.n };
    if enough || request.n == 0 {
        return usize::try_from(request.n).map_err(|_| Error::invalid("n does not fit memory"));
    }
    if request.at_most {
        return Ok(if request.replace { 0 } else { population as usize });
    }
    let found = match population {
        0 => "the selection is empty".to_string(),
        rows => format!("the selection has {rows}"),
    };
    let n = request.n;
    let message = format!("{n} rows were asked for, but {found}; at_most=True gives what there is");
    Err(Error::new(ErrorKind::TooFewRows, message))
}

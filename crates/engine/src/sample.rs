//! Sampling: random rows of a selection.
//!
//! The selection's rows are numbered through, numbers are drawn, and only the rows behind them are read:
//! the cost is that of the rows drawn, whatever surrounds them. Draws depend on the seed and the
//! snapshot alone.

use std::sync::Arc;

use arrow_array::{Float64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use drillcore_format::rows::{Layout, Projection};
use drillcore_format::schema::Rollup;
use drillcore_sample::choose::{WithReplacement, WithoutReplacement};
use drillcore_sample::rng::Rng;

use crate::error::{Error, ErrorKind, Result};
use crate::fetch::{fetch, no_rows};
use crate::interrupt::Interrupt;
use crate::live::are_live;
use crate::rollup::shown;
use crate::select::{Filter, Place, Selected, Selection};
use crate::snapshot::TableSnapshot;
use crate::weighted::{EVENTS, Weighted};

/// The stream of a seed that sampling draws from; estimates have another.
const STREAM: u64 = 1;
/// Places looked up between two looks at the interrupt.
const CHUNK: usize = 4096;
/// Draws by rejection are given up after so many tries a row.
const TRIES: usize = 16;
/// What a drawn row takes besides its values: its number, its place, its turn and where it was fetched to.
const DRAWN_BYTES: usize = 48;

/// What to draw.
#[derive(Debug, Clone, Default)]
pub struct SampleRequest {
    /// The number of rows.
    pub n: u64,
    pub selection: Selection,
    /// Draw in proportion to this weight column; by default every row is equally likely.
    pub weight: Option<String>,
    /// Add a column `probability`: the chance of the row in each draw with replacement, or to be among
    /// the rows drawn uniformly without.
    pub with_probability: bool,
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

impl TableSnapshot {
    /// Random rows of the selection; see [`SampleRequest`].
    pub fn sample(&self, request: &SampleRequest) -> Result<RecordBatch> {
        let columns = self.columns(request.columns.as_deref())?;
        sample(self, &columns, request)
    }
}

/// Draws `request.n` rows in the order drawn: any prefix is itself a sample. Without a weight each row of
/// the selection is equally likely; with one, a row's chance is its share of the weight. Without
/// replacement all are different.
fn sample(
    table: &TableSnapshot,
    columns: &[usize],
    request: &SampleRequest,
) -> Result<RecordBatch> {
    if request.with_probability && request.weight.is_some() && !request.replace {
        return Err(Error::invalid(
            "the probabilities of weighted draws without replacement have no closed form; \
             draw with replace=True, or without with_probability",
        ));
    }
    let layout = &table.table().layout;
    let mut rng = Rng::keyed(request.seed.unwrap_or_else(fresh_seed), STREAM);
    if let Some(rollup) = layout.rollup() {
        return sample_events(table, rollup, columns, request, &mut rng);
    }
    // Chances, and weighted draws, need to know how many rows are alive.
    let needs_live = request.with_probability || request.weight.is_some();
    if layout.has_tombstones() && !needs_live {
        let filter = Filter::new(layout.schema(), &request.selection)?;
        let candidates = table.candidates(&filter)?;
        if let Some(places) = by_rejection(layout, &candidates, request, &mut rng)? {
            return gather(&candidates, layout, columns, &places, request);
        }
    }
    let selected = table.select(&request.selection, &request.interrupt)?;
    let (places, probability) = match &request.weight {
        None => uniform(&selected, request, &mut rng)?,
        Some(column) => weighted(&selected, layout, column, request, &mut rng)?,
    };
    let rows = gather(&selected, layout, columns, &places, request)?;
    if request.with_probability { with_probability(&rows, probability) } else { Ok(rows) }
}

/// Draws events of a rollup table, and shows the whole row that each was folded into.
fn sample_events(
    table: &TableSnapshot,
    rollup: &Rollup,
    columns: &[usize],
    request: &SampleRequest,
    rng: &mut Rng,
) -> Result<RecordBatch> {
    let layout = &table.table().layout;
    if let Some(weight) = &request.weight {
        return Err(Error::invalid(format!(
            "a rollup table is drawn from by event; it has no weight {weight:?}"
        )));
    }
    let filter = Filter::new(layout.schema(), &request.selection)?;
    let events = Weighted::new(table.candidates(&filter)?, layout, EVENTS, &request.interrupt)?;
    let population = u64::try_from(events.total()).expect("events are counted in 64 bits");
    let n = checked_count(population, request)?;
    if n == 0 {
        let rows = no_rows(layout, columns);
        let probability = Probability::Same(0.0);
        return if request.with_probability {
            with_probability(&rows, probability)
        } else {
            Ok(rows)
        };
    }
    let mut numbers = Vec::with_capacity(n);
    if request.replace {
        WithReplacement::new(population).draw_into(rng, n, &mut numbers);
    } else {
        WithoutReplacement::new(population).draw_into(rng, n, &mut numbers);
    }
    let mut places = Vec::with_capacity(n);
    for (draw, number) in numbers.into_iter().enumerate() {
        if draw % CHUNK == 0 {
            request.interrupt.check()?;
        }
        places.push(events.at(u128::from(number))?.0);
    }
    let only_keys = Projection { keys: true, values: Vec::new() };
    let keys = fetch(events.selected().pieces(), &places, &only_keys, &request.interrupt)?;
    let found = table.whole_rows(keys.keys(), &request.interrupt)?;
    let rows: Vec<u32> =
        found.positions.iter().map(|row| row.expect("a drawn event has a row")).collect();
    let rows = shown(layout, rollup, &found.rows.take(&rows), columns)?;
    let draws = if request.replace { 1.0 } else { n as f64 };
    match request.with_probability {
        true => with_probability(&rows, Probability::Same(draws / population as f64)),
        false => Ok(rows),
    }
}

/// Draws among all versions of rows and drops the dead, so that each live row is equally likely. `None`
/// if that takes too many tries, or not enough rows may be alive: whoever asks then resolves the
/// selection and draws anew.
fn by_rejection(
    layout: &Layout,
    candidates: &Selected,
    request: &SampleRequest,
    rng: &mut Rng,
) -> Result<Option<Vec<Place>>> {
    if request.n >= candidates.len() {
        // Resolving costs no more than as many tries.
        return Ok(None);
    }
    let n = drawable(request.n)?;
    let mut tries = n.saturating_mul(TRIES).min(candidates.len() as usize);
    if request.replace && candidates.len() > 0 {
        tries = n.saturating_mul(TRIES);
    }
    let mut places = Vec::with_capacity(n.min(tries));
    let mut without = WithoutReplacement::new(candidates.len());
    while places.len() < n && tries > 0 {
        request.interrupt.check()?;
        let round = (n - places.len()).min(tries).min(CHUNK);
        tries -= round;
        let mut numbers = Vec::with_capacity(round);
        if request.replace {
            WithReplacement::new(candidates.len()).draw_into(rng, round, &mut numbers);
        } else {
            without.draw_into(rng, round, &mut numbers);
        }
        let drawn = places_of(candidates, &numbers, &request.interrupt)?;
        let live = are_live(layout, candidates.pieces(), &drawn)?;
        places
            .extend(drawn.into_iter().zip(live).filter(|(_, live)| *live).map(|(place, _)| place));
    }
    Ok((places.len() == n).then_some(places))
}

fn gather(
    selected: &Selected,
    layout: &Layout,
    columns: &[usize],
    places: &[Place],
    request: &SampleRequest,
) -> Result<RecordBatch> {
    match places {
        [] => Ok(no_rows(layout, columns)),
        _ => rows_at_places(selected, layout, columns, places, &request.interrupt),
    }
}

/// The chance of a row, or of each.
enum Probability {
    Same(f64),
    Each(Vec<f64>),
}

fn uniform(
    selected: &Selected,
    request: &SampleRequest,
    rng: &mut Rng,
) -> Result<(Vec<Place>, Probability)> {
    let population = selected.len();
    let n = checked_count(population, request)?;
    let mut numbers = Vec::with_capacity(n);
    let draws = if request.replace { 1.0 } else { n as f64 };
    if n > 0 && request.replace {
        WithReplacement::new(population).draw_into(rng, n, &mut numbers);
    } else if n > 0 {
        WithoutReplacement::new(population).draw_into(rng, n, &mut numbers);
    }
    let places = places_of(selected, &numbers, &request.interrupt)?;
    Ok((places, Probability::Same(draws / population as f64)))
}

fn weighted(
    selected: &Arc<Selected>,
    layout: &Layout,
    column: &str,
    request: &SampleRequest,
    rng: &mut Rng,
) -> Result<(Vec<Place>, Probability)> {
    let weight = weight_column(layout, column)?;
    let weighted = Weighted::new(selected.clone(), layout, weight, &request.interrupt)?;
    let most = match weighted.total() {
        0 => 0,
        _ if request.replace => request.n,
        _ => request.n.min(selected.len()),
    };
    let n = drawable(most)?;
    let mut places = Vec::new();
    let mut probabilities = Vec::new();
    if request.replace && weighted.total() > 0 {
        for draw in 0..n {
            if draw % CHUNK == 0 {
                request.interrupt.check()?;
            }
            let (place, units) = weighted.draw(rng)?;
            places.push(place);
            probabilities.push(units as f64 / weighted.total() as f64);
        }
    } else if n > 0 {
        places = weighted.draw_different(rng, n, layout, &request.interrupt)?;
    }
    if (places.len() as u64) < request.n && !request.at_most {
        let (n, found) = (request.n, places.len());
        let message = format!(
            "{n} rows were asked for, but {found} of the {} selected have a {column} above 0; \
             at_most=True gives what there is",
            selected.len(),
        );
        return Err(Error::new(ErrorKind::TooFewRows, message));
    }
    Ok((places, Probability::Each(probabilities)))
}

/// The position of a column among the table's weights.
fn weight_column(layout: &Layout, column: &str) -> Result<usize> {
    let schema = layout.schema();
    let name = |index: &usize| schema.columns.field(*index).name().as_str();
    let weight = schema.weights.iter().position(|index| name(index) == column);
    weight.ok_or_else(|| Error::unknown("weight", column, schema.weights.iter().map(name)))
}

/// Adds the column `probability`.
fn with_probability(rows: &RecordBatch, probability: Probability) -> Result<RecordBatch> {
    let values: Float64Array = match probability {
        Probability::Same(chance) => vec![chance; rows.num_rows()].into(),
        Probability::Each(chances) => chances.into(),
    };
    if rows.column_by_name("probability").is_some() {
        return Err(Error::invalid(
            "the table has a column \"probability\" of its own; choose other columns",
        ));
    }
    let mut fields: Vec<_> = rows.schema().fields().iter().cloned().collect();
    fields.push(Arc::new(Field::new("probability", DataType::Float64, false)));
    let mut columns = rows.columns().to_vec();
    columns.push(Arc::new(values));
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns);
    Ok(batch.expect("one probability a row"))
}

/// The rows with the given numbers of a selection, at least one, in that order.
pub(crate) fn rows_at(
    selected: &Selected,
    layout: &Layout,
    columns: &[usize],
    numbers: &[u64],
    interrupt: &Interrupt,
) -> Result<RecordBatch> {
    let places = places_of(selected, numbers, interrupt)?;
    rows_at_places(selected, layout, columns, &places, interrupt)
}

fn places_of(selected: &Selected, numbers: &[u64], interrupt: &Interrupt) -> Result<Vec<Place>> {
    let mut places = Vec::with_capacity(numbers.len());
    for chunk in numbers.chunks(CHUNK) {
        interrupt.check()?;
        for &number in chunk {
            places.push(selected.place(number)?);
        }
    }
    Ok(places)
}

fn rows_at_places(
    selected: &Selected,
    layout: &Layout,
    columns: &[usize],
    places: &[Place],
    interrupt: &Interrupt,
) -> Result<RecordBatch> {
    let rows = fetch(selected.pieces(), places, &layout.projection(columns), interrupt)?;
    Ok(layout.decode(&rows, columns)?)
}

/// A seed nobody has used before, from the operating system.
pub(crate) fn fresh_seed() -> u64 {
    getrandom::u64().expect("the operating system gives random numbers")
}

/// A number of rows to draw, if as many can be held: they are counted in 32 bits, and each takes at least
/// [`DRAWN_BYTES`].
fn drawable(n: u64) -> Result<usize> {
    let too_many = || Error::invalid(format!("a sample of {n} rows does not fit memory"));
    let n = u32::try_from(n).map_err(|_| too_many())? as usize;
    let mut room: Vec<[u8; DRAWN_BYTES]> = Vec::new();
    room.try_reserve_exact(n).map_err(|_| too_many())?;
    Ok(n)
}

/// How many rows will be drawn.
fn checked_count(population: u64, request: &SampleRequest) -> Result<usize> {
    let enough = if request.replace { population > 0 } else { population >= request.n };
    if enough || request.n == 0 {
        return drawable(request.n);
    }
    if request.at_most {
        return drawable(if request.replace { 0 } else { population });
    }
    let found = match population {
        0 => "the selection is empty".to_string(),
        rows => format!("the selection has {rows}"),
    };
    let n = request.n;
    let message = format!("{n} rows were asked for, but {found}; at_most=True gives what there is");
    Err(Error::new(ErrorKind::TooFewRows, message))
}

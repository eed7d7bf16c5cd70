//! Sampling: random rows of a selection.
//!
//! The selection's rows are numbered through, numbers are drawn, and only the rows behind them are read:
//! the cost is that of the rows drawn, whatever surrounds them. Draws depend on the seed and the
//! snapshot alone.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::{Float64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::concat::concat_batches;
use drillcore_format::rows::{Layout, Projection, Rows};
use drillcore_sample::choose::{WithReplacement, WithoutReplacement};
use drillcore_sample::rng::Rng;

use crate::calls::interrupt::Interrupt;
use crate::calls::side_by_side::{side_by_side, threads_for};
use crate::error::{Error, ErrorKind, Result};
use crate::merge::resolving::are_live;
use crate::merge::rollup::shown;
use crate::read::passing::pass;
use crate::read::snapshot::TableSnapshot;
use crate::read::weighted::{EVENTS, Weighted};
use crate::select::fetch::{
    Fetched, check_string_bytes, fetch, fetch_parts, gather, no_rows, rows_at_once,
};
use crate::select::predicate::Test;
use crate::select::selection::{Place, Question, Selected, Selection};

/// The stream of a seed that sampling draws from; estimates have another.
const STREAM: u64 = 1;
/// Places drawn at once that may not stay.
const ROUND: usize = 4096;
/// Rows drawn that are worth a thread.
const PLACES_PER_THREAD: u64 = 16_384;
/// Draws by rejection are given up after so many tries a row.
const TRIES: usize = 16;
/// What a drawn row takes besides its values: its number, its place, its turn and where it was fetched to.
const DRAWN_BYTES: usize = 48;

/// What to draw.
#[derive(Debug, Clone, Default)]
pub struct SampleRequest {
    /// The number of rows.
    pub n: u64,
    /// Which rows to draw from.
    pub selection: Selection,
    /// What is equally likely in a rollup table.
    pub unit: Unit,
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
    /// How many threads read the rows drawn, where these are many; by default the calling one, as another gained
    /// little in most measurements. Which rows they are does not depend on it.
    pub threads: Option<usize>,
    /// Ends the call early.
    pub interrupt: Interrupt,
}

/// What is drawn from a rollup table. In other tables an event is a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// Events, each of which shows the row that it was folded into.
    #[default]
    Events,
    /// Rows.
    Rows,
}

/// A share of a selection's rows.
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
    /// Ends the call early.
    pub interrupt: Interrupt,
}

/// How a sample came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SampleReport {
    /// Rows drawn, those among them that were dead or did not pass the predicate.
    pub attempts: u64,
    /// Whether so many were dropped that the selection was resolved, and the sample drawn from that.
    pub resolved: bool,
}

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
            return Err(Error::invalid(format!("a share of {share} does not lie between 0 and 1")));
        }
        let columns = self.columns(request.columns.as_deref())?;
        let mut rng = Rng::keyed(request.seed.unwrap_or_else(fresh_seed), STREAM);
        let layout = &self.table().layout;
        let Question { scope, test } = request.selection.check(layout.schema())?;
        // Which rows are in does not depend on which pass, so no more than those need be tested.
        let selected = self.resolved(Question { scope, test: None }, &request.interrupt)?;
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

/// Which of the rows at some places pass a test.
fn rows_pass(
    table: &TableSnapshot,
    selected: &Selected,
    test: &Test,
    places: &[Place],
    interrupt: &Interrupt,
) -> Result<Vec<bool>> {
    let layout = &table.table().layout;
    match layout.rollup() {
        Some(rollup) if !places.is_empty() => {
            let whole = whole_rows_at(table, selected, places, interrupt)?;
            let passes = test.passes(&shown(layout, rollup, &whole, test.columns())?)?;
            Ok(passes.values().iter().collect())
        }
        _ => pass(selected, layout, test, places, interrupt),
    }
}

/// The rows at some places, as they are shown. Several threads read where there are many.
fn show(
    table: &TableSnapshot,
    selected: &Selected,
    columns: &[usize],
    places: &[Place],
    threads: Option<usize>,
    interrupt: &Interrupt,
) -> Result<RecordBatch> {
    let layout = &table.table().layout;
    let threads = threads_for(Some(threads.unwrap_or(1)), places.len() as u64, PLACES_PER_THREAD)?;
    if places.is_empty() {
        return Ok(no_rows(layout, columns));
    }
    match layout.rollup() {
        None => rows_at_places(selected, layout, columns, places, threads, interrupt),
        Some(rollup) => in_shares(places, threads, |places| {
            let whole = whole_rows_at(table, selected, places, interrupt)?;
            shown(layout, rollup, &whole, columns)
        }),
    }
}

/// The rows of all items, of which each thread works on a share.
fn in_shares<T: Sync>(
    items: &[T],
    threads: usize,
    rows: impl Fn(&[T]) -> Result<RecordBatch> + Sync,
) -> Result<RecordBatch> {
    let shares: Vec<&[T]> = items.chunks(items.len().div_ceil(threads)).collect();
    let mut batches = side_by_side(shares.len(), threads, |share| rows(shares[share]))?;
    match batches.len() {
        1 => Ok(batches.remove(0)),
        _ => {
            let columns = batches[0].schema();
            concat_batches(&columns, &batches).map_err(|error| {
                Error::invalid(format!("{} rows do not fit one batch: {error}", items.len()))
            })
        }
    }
}

/// Draws `request.n` rows in the order drawn: any prefix is itself a sample. Without a weight each row of
/// the selection is equally likely; with one, a row's chance is its share of the weight. Without
/// replacement all are different.
fn sample(
    table: &TableSnapshot,
    columns: &[usize],
    request: &SampleRequest,
) -> Result<(RecordBatch, SampleReport)> {
    if request.with_probability && request.weight.is_some() && !request.replace {
        return Err(Error::invalid(
            "the probabilities of weighted draws without replacement have no closed form; \
             draw with replacement, or without probabilities",
        ));
    }
    let layout = &table.table().layout;
    let interrupt = &request.interrupt;
    let question = request.selection.check(layout.schema())?;
    let mut rng = Rng::keyed(request.seed.unwrap_or_else(fresh_seed), STREAM);
    let is_rollup = layout.rollup().is_some();
    if is_rollup && request.weight.is_some() {
        return Err(Error::invalid(
            "a rollup table has no weights of its own; it is drawn from by event",
        ));
    }
    if is_rollup && request.unit == Unit::Events {
        return sample_events(table, columns, question, request, &mut rng);
    }
    let mut report = SampleReport::default();
    let mut drawn = Vec::new();
    // A chance to be drawn cannot be told without knowing how many rows there are; nor are the rows of a
    // rollup table numbered before they are resolved.
    let may_drop = layout.has_tombstones() || question.test.is_some();
    if may_drop && !request.with_probability && !is_rollup {
        let candidates = table.candidates(&question.scope, interrupt)?;
        let stays = |places: &[Place]| {
            let mut stays = vec![true; places.len()];
            if layout.has_tombstones() {
                stays = are_live(layout, candidates.pieces(), places, interrupt)?;
            }
            if let Some(test) = &question.test {
                // Tombstones have no values that could be tested.
                let live = places.iter().zip(&stays).filter(|(_, stays)| **stays);
                let live: Vec<Place> = live.map(|(place, _)| *place).collect();
                let passes = pass(&candidates, layout, test, &live, interrupt)?;
                let tested = stays.iter_mut().filter(|stays| **stays);
                tested.zip(passes).for_each(|(stays, passes)| *stays = passes);
            }
            Ok(stays)
        };
        drawn = if request.n >= candidates.len() {
            // Resolving costs no more than as many tries.
            Vec::new()
        } else if let Some(column) = &request.weight {
            let weight = weight_column(layout, column)?;
            let weighted = Weighted::new(candidates.clone(), layout, weight, interrupt)?;
            by_rejection(&mut ByWeight::new(&weighted), stays, request, &mut rng, &mut report)?
        } else {
            by_rejection(&mut ByNumber::rows(&candidates), stays, request, &mut rng, &mut report)?
        };
        if drawn.len() as u64 == request.n {
            return Ok((
                show(table, &candidates, columns, &drawn, request.threads, interrupt)?,
                report,
            ));
        }
        report.resolved = true;
    }
    let selected = table.resolved(question, interrupt)?;
    let (places, probability) = match &request.weight {
        None => uniform(&selected, request, &mut rng)?,
        Some(column) => weighted(&selected, layout, column, drawn, request, &mut rng)?,
    };
    report.attempts += places.len() as u64;
    let rows = show(table, &selected, columns, &places, request.threads, interrupt)?;
    let rows = if request.with_probability { with_probability(&rows, probability)? } else { rows };
    Ok((rows, report))
}

/// Draws events of a rollup table, and shows the whole row that each was folded into.
fn sample_events(
    table: &TableSnapshot,
    columns: &[usize],
    question: Question,
    request: &SampleRequest,
    rng: &mut Rng,
) -> Result<(RecordBatch, SampleReport)> {
    let layout = &table.table().layout;
    let interrupt = &request.interrupt;
    let mut report = SampleReport::default();
    let candidates = table.candidates(&question.scope, interrupt)?;
    if let Some(test) = question.test.as_ref().filter(|_| !request.with_probability) {
        let events = Weighted::new(candidates.clone(), layout, EVENTS, interrupt)?;
        let passes = |places: &[Place]| rows_pass(table, &candidates, test, places, interrupt);
        if request.n < candidates.len() {
            let mut draws = ByNumber::events(&events)?;
            let places = by_rejection(&mut draws, passes, request, rng, &mut report)?;
            if places.len() as u64 == request.n {
                return Ok((
                    show(table, &candidates, columns, &places, request.threads, interrupt)?,
                    report,
                ));
            }
        }
        report.resolved = true;
    }
    let partials = table.partials(&question, interrupt)?;
    let events = Weighted::new(partials.clone(), layout, EVENTS, interrupt)?;
    let population = events.events()?;
    let n = checked_count(population, request)?;
    let places = ByNumber::events(&events)?.draw(rng, n, request)?;
    report.attempts += places.len() as u64;
    let rows = show(table, &partials, columns, &places, request.threads, interrupt)?;
    if !request.with_probability {
        return Ok((rows, report));
    }
    let draws = if request.replace { 1.0 } else { n as f64 };
    let chance = if n == 0 { 0.0 } else { draws / population as f64 };
    Ok((with_probability(&rows, Probability::Same(chance))?, report))
}

/// The whole row of each partial row, at least one.
fn whole_rows_at(
    table: &TableSnapshot,
    partials: &Selected,
    places: &[Place],
    interrupt: &Interrupt,
) -> Result<Rows> {
    let only_keys = Projection { keys: true, ..Default::default() };
    let keys = fetch(partials.pieces(), places, &only_keys, interrupt)?;
    let found = table.whole_rows(keys.keys(), interrupt)?;
    let rows = found.positions.iter().zip(places).map(|(row, place)| match row {
        Some(row) => Ok((0, *row as usize)),
        // Its own piece has the key, if it was not hidden there.
        None => Err(partials.pieces()[place.piece].hides(place.ordinal)),
    });
    gather(vec![found.rows], &rows.collect::<Result<Vec<_>>>()?)
}

/// Successive draws, all with replacement or all without.
trait Draws {
    /// How many different draws there are without replacement, at most.
    fn len(&self) -> u64;

    /// Up to `n` more; fewer once nothing is left, or where the same row came again.
    fn draw(&mut self, rng: &mut Rng, n: usize, request: &SampleRequest) -> Result<Vec<Place>>;
}

/// Equally likely numbers, of rows or of events.
struct ByNumber<'a> {
    population: u64,
    place: Box<dyn Fn(u64) -> Result<Place> + 'a>,
    without: WithoutReplacement,
}

impl ByNumber<'_> {
    fn rows(selected: &Selected) -> ByNumber<'_> {
        ByNumber {
            population: selected.len(),
            place: Box::new(|number| selected.place(number)),
            without: WithoutReplacement::new(selected.len()),
        }
    }

    fn events(events: &Weighted) -> Result<ByNumber<'_>> {
        let population = events.events()?;
        Ok(ByNumber {
            population,
            place: Box::new(|number| Ok(events.at(u128::from(number))?.0)),
            without: WithoutReplacement::new(population),
        })
    }
}

impl Draws for ByNumber<'_> {
    fn len(&self) -> u64 {
        self.population
    }

    fn draw(&mut self, rng: &mut Rng, n: usize, request: &SampleRequest) -> Result<Vec<Place>> {
        let mut numbers = Vec::with_capacity(n);
        if request.replace && self.population > 0 {
            WithReplacement::new(self.population).draw_into(rng, n, &mut numbers);
        } else if !request.replace {
            self.without.draw_into(rng, n, &mut numbers);
        }
        let mut places = Vec::with_capacity(numbers.len());
        for (draw, number) in numbers.into_iter().enumerate() {
            if draw % Interrupt::LOOKUPS == 0 {
                request.interrupt.check()?;
            }
            places.push((self.place)(number)?);
        }
        Ok(places)
    }
}

/// Rows in proportion to a weight.
struct ByWeight<'a> {
    weighted: &'a Weighted,
    drawn: HashSet<Place>,
}

impl ByWeight<'_> {
    fn new(weighted: &Weighted) -> ByWeight<'_> {
        ByWeight { weighted, drawn: HashSet::new() }
    }
}

impl Draws for ByWeight<'_> {
    fn len(&self) -> u64 {
        self.weighted.selected().len()
    }

    fn draw(&mut self, rng: &mut Rng, n: usize, request: &SampleRequest) -> Result<Vec<Place>> {
        let mut places = Vec::with_capacity(n);
        let draws = if self.weighted.total() == 0 { 0 } else { n };
        for draw in 0..draws {
            if draw % Interrupt::LOOKUPS == 0 {
                request.interrupt.check()?;
            }
            let (place, _) = self.weighted.draw(rng)?;
            if request.replace || self.drawn.insert(place) {
                places.push(place);
            }
        }
        Ok(places)
    }
}

/// Draws and drops what does not stay, so that what stays is drawn as if there were nothing else. Fewer than
/// asked for come back if that takes too many tries, or not enough may stay: whoever asks then resolves
/// the selection.
fn by_rejection(
    draws: &mut dyn Draws,
    stays: impl Fn(&[Place]) -> Result<Vec<bool>>,
    request: &SampleRequest,
    rng: &mut Rng,
    report: &mut SampleReport,
) -> Result<Vec<Place>> {
    let n = drawable(request.n)?;
    let mut tries = n.saturating_mul(TRIES);
    if !request.replace {
        tries = tries.min(usize::try_from(draws.len()).unwrap_or(usize::MAX));
    }
    let mut places = Vec::with_capacity(n.min(tries));
    while places.len() < n && tries > 0 {
        request.interrupt.check()?;
        let round = (n - places.len()).min(tries).min(ROUND);
        tries -= round;
        let drawn = draws.draw(rng, round, request)?;
        report.attempts += drawn.len() as u64;
        if drawn.is_empty() {
            continue;
        }
        let stay = stays(&drawn)?;
        places.extend(drawn.into_iter().zip(stay).filter(|(_, stays)| *stays).map(|(p, _)| p));
    }
    Ok(places)
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
    let draws = if request.replace { 1.0 } else { n as f64 };
    let places = ByNumber::rows(selected).draw(rng, n, request)?;
    Ok((places, Probability::Same(draws / population as f64)))
}

/// Draws by weight. Without replacement `drawn` comes first: heavy rows come again and so use up tries, thus
/// to start anew where tries ran out would favour the light.
fn weighted(
    selected: &Arc<Selected>,
    layout: &Layout,
    column: &str,
    drawn: Vec<Place>,
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
            if draw % Interrupt::LOOKUPS == 0 {
                request.interrupt.check()?;
            }
            let (place, units) = weighted.draw(rng)?;
            places.push(place);
            probabilities.push(units as f64 / weighted.total() as f64);
        }
    } else if n > 0 {
        places = weighted.draw_different(rng, drawn, n, layout, &request.interrupt)?;
    }
    if (places.len() as u64) < request.n && !request.at_most {
        let (n, found) = (request.n, places.len());
        let message = format!(
            "{n} rows were asked for, but {found} of the {} selected have a {column} above 0; \
             allow fewer to get what there is",
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

/// How many rows of a selection, drawn at random, [`rows_at`] gives at once without taking much memory.
pub(crate) fn rows_at_a_time(
    table: &TableSnapshot,
    selected: &Selected,
    columns: &[usize],
) -> usize {
    let layout = &table.table().layout;
    match layout.rollup() {
        None => rows_at_once(selected, &layout.projection(columns)),
        Some(_) => rows_at_once(selected, &layout.all()),
    }
}

/// The rows with the given numbers of a selection, in that order, as they are shown.
pub(crate) fn rows_at(
    table: &TableSnapshot,
    selected: &Selected,
    columns: &[usize],
    numbers: &[u64],
    interrupt: &Interrupt,
) -> Result<RecordBatch> {
    let places = places_of(selected, numbers, interrupt)?;
    show(table, selected, columns, &places, Some(1), interrupt)
}

fn places_of(selected: &Selected, numbers: &[u64], interrupt: &Interrupt) -> Result<Vec<Place>> {
    let mut places = Vec::with_capacity(numbers.len());
    for chunk in numbers.chunks(Interrupt::LOOKUPS) {
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
    threads: usize,
    interrupt: &Interrupt,
) -> Result<RecordBatch> {
    let projection = layout.projection(columns);
    if threads == 1 {
        let rows = fetch(selected.pieces(), places, &projection, interrupt)?;
        return Ok(layout.decode(&rows, columns)?);
    }
    let Fetched { parts, picks } =
        fetch_parts(selected.pieces(), places, &projection, threads, interrupt)?;
    check_string_bytes(&parts, &picks)?;
    let parts: Vec<&Rows> = parts.iter().collect();
    in_shares(
        &picks,
        threads,
        |picks| Ok(layout.decode(&Rows::interleave(&parts, picks), columns)?),
    )
}

/// A seed nobody has used before, from the operating system.
pub fn fresh_seed() -> u64 {
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
    let message = format!("{n} rows were asked for, but {found}; allow fewer to get what there is");
    Err(Error::new(ErrorKind::TooFewRows, message))
}

//! Drawing: from a selection and a seed to places.
//!
//! What a draw picks is a [`SamplingUnit`]: a row, an event or a unit of weight. For each of them the four steps of a sample are
//! the same: candidates by their indexes, draws among these that drop what does not stay, the exact selection where
//! that drops too many, and draws from it.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::RecordBatch;
use drillcore_format::rows::Layout;
use drillcore_sample::choose::{WithReplacement, WithoutReplacement};
use drillcore_sample::rng::Rng;

use crate::calls::interrupt::Interrupt;
use crate::error::{Error, ErrorKind, Result};
use crate::policy::refusals::check_has_weights;
use crate::policy::table_policy::TablePolicy;
use crate::read::arrivals::Arrivals;
use crate::read::request::{SampleReport, SampleRequest};
use crate::read::snapshot::TableSnapshot;
use crate::read::staying::Staying;
use crate::read::weighted::Weighted;
use crate::schema::unit::Unit;
use crate::select::selection::{Place, Question, Selected};

/// Places drawn at once that may not stay.
const ROUND: usize = 4096;
/// Tries per row after which draws by rejection are given up.
const TRIES: usize = 16;
/// What a drawn row takes besides its values: its number, its place, its turn and where it was fetched to.
const DRAWN_BYTES: usize = 32;
/// Of so few drawn rows, whether they can be held is not asked first.
const FEW: usize = 16_384;

/// What one draw picks.
pub enum SamplingUnit {
    /// A row, each as likely as the others.
    Row,
    /// An event of a rollup table, each as likely as the others; a draw gives the row that it was folded into.
    Event,
    /// A unit of a weight column: its name, and its number among the weights.
    Weight(String, usize),
}

/// The chance of a row, or of each.
pub enum Probability {
    Same(f64),
    Each(Vec<f64>),
}

/// What a sample drew.
pub struct Drawn {
    pub selected: Arc<Selected>,
    pub places: Vec<Place>,
    pub probability: Probability,
    /// The rows, if they were read as they were drawn.
    pub rows: Option<RecordBatch>,
}

impl SamplingUnit {
    /// What each draw of a request picks.
    pub fn of(layout: &Layout, request: &SampleRequest) -> Result<SamplingUnit> {
        if let Some(column) = &request.weight {
            check_has_weights(layout, "its samples draw events. Leave the weight out")?;
            return Ok(SamplingUnit::Weight(column.clone(), weight_column(layout, column)?));
        }
        Ok(match TablePolicy::of(layout).unit(request.unit) {
            Unit::Events => SamplingUnit::Event,
            Unit::Rows => SamplingUnit::Row,
        })
    }

    /// Whether draws among candidates may be dropped, so that a sample need not know how many rows stay.
    ///
    /// A chance to be drawn cannot be given without knowing that.
    fn may_drop(&self, layout: &Layout, question: &Question, request: &SampleRequest) -> bool {
        let drawn = match self {
            SamplingUnit::Event => Unit::Events,
            SamplingUnit::Row | SamplingUnit::Weight(..) => Unit::Rows,
        };
        !request.with_probability
            && TablePolicy::of(layout).may_drop(drawn, question.test.is_some())
    }

    /// The four steps of a sample: candidates, draws among them that drop what does not stay, the exact selection where
    /// that drops too many, and draws from it.
    pub fn sample(
        &self,
        table: &TableSnapshot,
        columns: &[usize],
        question: Question,
        request: &SampleRequest,
        mut arrivals: Option<&mut Arrivals>,
        rng: &mut Rng,
    ) -> Result<(Drawn, SampleReport)> {
        let layout = &table.table().layout;
        let interrupt = table.interrupt();
        let mut report = SampleReport::default();
        let mut drawn = Vec::new();
        if self.may_drop(layout, &question, request) {
            let candidates = table.candidates(&question.scope, interrupt)?;
            // For as many as there are, the exact selection costs no more than as many tries.
            if request.n < candidates.len() {
                let mut draws =
                    self.draws(&candidates, layout, arrivals.as_deref_mut(), interrupt)?;
                let mut staying =
                    Staying::new(table, &candidates, columns, question.test.as_ref(), request)?;
                drawn = by_rejection(&mut *draws, &mut staying, request, rng, &mut report)?;
                if drawn.len() as u64 == request.n {
                    let (rows, selected) = (staying.shown()?, candidates.clone());
                    // No chance was asked for: see `may_drop`.
                    let probability = Probability::Each(Vec::new());
                    return Ok((Drawn { selected, places: drawn, probability, rows }, report));
                }
            }
            report.resolved = true;
        }
        let selected = self.exact(table, question, interrupt)?;
        let mut draws = self.draws(&selected, layout, arrivals, interrupt)?;
        let (places, probability) = draws.sample(rng, drawn, request)?;
        report.attempts += places.len() as u64;
        Ok((Drawn { selected, places, probability, rows: None }, report))
    }

    /// The exact selection: numbered through, and what it numbers stays.
    fn exact(
        &self,
        table: &TableSnapshot,
        question: Question,
        interrupt: &Interrupt,
    ) -> Result<Arc<Selected>> {
        match self {
            SamplingUnit::Event => table.partials(&question, interrupt),
            SamplingUnit::Row | SamplingUnit::Weight(..) => table.resolved(question, interrupt),
        }
    }

    /// Successive draws from a selection.
    fn draws<'a>(
        &'a self,
        selected: &Arc<Selected>,
        layout: &Layout,
        arrivals: Option<&'a mut Arrivals>,
        interrupt: &Interrupt,
    ) -> Result<Box<dyn Draws + 'a>> {
        Ok(match self {
            SamplingUnit::Row => Box::new(ByNumber::rows(selected, interrupt)),
            SamplingUnit::Event => {
                let events = Weighted::by_events(selected.clone(), layout, interrupt)?;
                Box::new(ByNumber::events(events)?)
            }
            SamplingUnit::Weight(column, weight) => {
                let weighted = Weighted::new(selected.clone(), layout, *weight, interrupt)?;
                Box::new(ByWeight { column, weighted, drawn: HashSet::new(), arrivals })
            }
        })
    }
}

/// Successive draws, all with replacement or all without.
pub trait Draws {
    /// How many different draws there are without replacement, at most.
    fn len(&self) -> u64;

    /// Up to `n` more; fewer once nothing is left, or where the same row came again.
    fn draw(&mut self, rng: &mut Rng, n: usize, request: &SampleRequest) -> Result<Vec<Place>>;

    /// As many as a request asks for, if all that is drawn stays, and the chance of each. Those in `drawn` come first where a row's
    /// chance depends on what was drawn before.
    fn sample(
        &mut self,
        rng: &mut Rng,
        drawn: Vec<Place>,
        request: &SampleRequest,
    ) -> Result<(Vec<Place>, Probability)>;
}

/// Equally likely numbers, of rows or of events.
pub struct ByNumber {
    population: u64,
    places: Box<PlacesOf>,
    without: WithoutReplacement,
}

/// What has some numbers.
type PlacesOf = dyn Fn(&[u64]) -> Result<Vec<Place>>;

impl ByNumber {
    pub fn rows(selected: &Arc<Selected>, interrupt: &Interrupt) -> ByNumber {
        let population = selected.len();
        let (selected, interrupt) = (selected.clone(), interrupt.clone());
        ByNumber {
            population,
            places: Box::new(move |numbers| selected.places(numbers, &interrupt)),
            without: WithoutReplacement::new(population),
        }
    }

    fn events(events: Weighted) -> Result<ByNumber> {
        let population = events.events()?;
        Ok(ByNumber {
            population,
            places: Box::new(move |numbers| events.of_events(numbers)),
            without: WithoutReplacement::new(population),
        })
    }
}

impl Draws for ByNumber {
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
        (self.places)(&numbers)
    }

    fn sample(
        &mut self,
        rng: &mut Rng,
        _: Vec<Place>,
        request: &SampleRequest,
    ) -> Result<(Vec<Place>, Probability)> {
        let n = checked_count(self.population, request)?;
        let places = self.draw(rng, n, request)?;
        let expected = if request.replace { 1.0 } else { n as f64 };
        Ok((places, Probability::Same(expected / self.population as f64)))
    }
}

/// Rows in proportion to a weight.
struct ByWeight<'a> {
    /// The name of the weight.
    column: &'a str,
    weighted: Weighted,
    drawn: HashSet<Place>,
    /// When each of the drawn arrived, if that is asked for.
    arrivals: Option<&'a mut Arrivals>,
}

impl Draws for ByWeight<'_> {
    fn len(&self) -> u64 {
        self.weighted.selected().len()
    }

    fn draw(&mut self, rng: &mut Rng, n: usize, request: &SampleRequest) -> Result<Vec<Place>> {
        let total = self.weighted.total();
        let draws = if total == 0 { 0 } else { n };
        let places = self.weighted.draw(rng, draws)?.into_iter().map(|(place, _)| place);
        let ByWeight { drawn, arrivals, .. } = self;
        let is_new = |place: &Place| {
            arrivals.as_mut().into_iter().for_each(|arrivals| arrivals.arrive(total, *place));
            request.replace || drawn.insert(*place)
        };
        Ok(places.filter(is_new).collect())
    }

    /// Without replacement heavy rows come again and so use up tries: to start anew where tries ran out would favour the light.
    fn sample(
        &mut self,
        rng: &mut Rng,
        drawn: Vec<Place>,
        request: &SampleRequest,
    ) -> Result<(Vec<Place>, Probability)> {
        let ByWeight { column, weighted, arrivals, .. } = self;
        let (total, rows) = (weighted.total(), weighted.selected().len());
        let most = match total {
            0 => 0,
            _ if request.replace => request.n,
            _ => request.n.min(rows),
        };
        let n = drawable(most)?;
        let mut places = Vec::new();
        let mut probabilities = Vec::new();
        if request.replace && total > 0 {
            let drawn = weighted.draw(rng, n)?;
            places.extend(drawn.iter().map(|(place, _)| *place));
            if request.with_probability {
                probabilities.extend(drawn.iter().map(|(_, units)| *units as f64 / total as f64));
            }
        } else if n > 0 {
            places = weighted.draw_different(rng, drawn, arrivals.as_deref_mut(), n)?;
        }
        if (places.len() as u64) < request.n && !request.at_most {
            let (n, found) = (request.n, places.len());
            let message = format!(
                "cannot draw {n} rows: {found} of the {rows} selected rows have a {column} above 0; draw fewer rows, or allow a \
                 smaller sample",
            );
            return Err(Error::new(ErrorKind::TooFewRows, message));
        }
        Ok((places, Probability::Each(probabilities)))
    }
}

/// Draws and drops what does not stay, so that what stays is drawn as if there were nothing else. Fewer than
/// asked for come back if that takes too many tries, or not enough may stay: the exact selection is
/// drawn from then.
fn by_rejection(
    draws: &mut dyn Draws,
    staying: &mut Staying<'_>,
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
        staying.interrupt().check()?;
        let round = (n - places.len()).min(tries).min(ROUND);
        tries -= round;
        let mut drawn = draws.draw(rng, round, request)?;
        report.attempts += drawn.len() as u64;
        if drawn.is_empty() {
            continue;
        }
        staying.retain(&mut drawn)?;
        places.append(&mut drawn);
    }
    Ok(places)
}

/// The position of a column among the table's weights.
pub fn weight_column(layout: &Layout, column: &str) -> Result<usize> {
    let schema = layout.schema();
    let name = |index: &usize| schema.columns.field(*index).name().as_str();
    let weight = schema.weights.iter().position(|index| name(index) == column);
    weight.ok_or_else(|| Error::unknown("weight", column, schema.weights.iter().map(name)))
}

/// A number of rows to draw, if as many can be held: they are counted in 32 bits, and each takes at least
/// [`DRAWN_BYTES`].
pub fn drawable(n: u64) -> Result<usize> {
    let too_many =
        || Error::invalid(format!("a sample of {n} rows does not fit in memory; draw fewer"));
    let n = u32::try_from(n).map_err(|_| too_many())? as usize;
    if n <= FEW {
        return Ok(n);
    }
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
    let n = request.n;
    let found = match population {
        0 => "no row is selected; check the key range, sets and condition".to_string(),
        rows => format!("the selection has {rows}; draw fewer rows"),
    };
    let message = format!("cannot draw {n} rows: {found}, or allow a smaller sample");
    Err(Error::new(ErrorKind::TooFewRows, message))
}

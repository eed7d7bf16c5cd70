//! Drawing the rows of an estimate, round by round.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use drillcore_format::key::decode_values;
use drillcore_sample::choose::WithoutReplacement;
use drillcore_sample::rng::Rng;

use crate::calls::side_by_side::{side_by_side, threads_for};
use crate::error::Result;
use crate::read::estimate::bounds::{Known, bounds};
use crate::read::estimate::levels::{Levels, Look};
use crate::read::estimate::looks::Looks;
use crate::read::estimate::next_step::{Costs, Step, next_step};
use crate::read::estimate::plan::EstimatePlan;
use crate::read::estimate::population::Population;
use crate::read::estimate::reading::ReadGroups;
use crate::read::estimate::request::{EstimateRequest, ROUND_MIN, Stop, USUAL_DRAWS, Watch};
use crate::read::estimate::result::Estimate;
use crate::read::estimate::tally::Tally;
use crate::read::estimate::unreached::named;
use crate::read::fresh_seed::fresh_seed;
use crate::read::scan::ScanRequest;
use crate::read::shown::rows_at_a_time;
use crate::read::snapshot::TableSnapshot;
use crate::schema::unit::Unit;
use crate::select::selection::{Question, Selected, Selection};

/// The stream of a seed that estimates draw from.
const STREAM: u64 = 2;
/// Rounds grow to this, where the data does not say when to stop.
const ROUND_MAX: u64 = 50_000;
/// The most that a round is, as a multiple of what was drawn: from few rows it is hard to tell how many are needed.
const ROUND_GROWTH_MAX: u64 = 8;
/// Partitions of a scan per thread, so that none waits long for the last.
const PARTITIONS_PER_THREAD: usize = 4;
/// Rows that are worth a thread that reads them.
const ROWS_PER_THREAD: u64 = 50_000;

impl TableSnapshot {
    /// Estimates from a sample that grows until it may stop. See [`EstimateRequest`].
    pub fn estimate(&self, request: &EstimateRequest) -> Result<Estimate> {
        Drawing::start(self, request)?.run(None)
    }

    /// The same, while `watch` sees each refinement and may stop it earlier. The intervals that it sees and those of the result
    /// hold at all looks together, whatever it stops for; so those of the result are wider than without a watcher if the
    /// request fixes when to stop.
    pub fn estimate_watched(
        &self,
        request: &EstimateRequest,
        watch: &mut Watch<'_>,
    ) -> Result<Estimate> {
        Drawing::start(self, request)?.run(Some(watch))
    }
}

/// Rows of a selection, drawn round by round.
struct Drawing<'a> {
    table: &'a TableSnapshot,
    request: &'a EstimateRequest,
    plan: EstimatePlan,
    population: Population,
    tally: Tally,
    looks: Looks,
    rng: Rng,
    chooser: WithoutReplacement,
    drawn: u64,
    draws_max: u64,
    costs: Costs,
}

impl<'a> Drawing<'a> {
    fn start(table: &'a TableSnapshot, request: &'a EstimateRequest) -> Result<Drawing<'a>> {
        let draws_max = request.stop.draws_max()?;
        // Rows that fail the test are drawn too, and count as rows of no group.
        let Question { scope, test } = request.selection.check(table.table().layout.schema())?;
        let mut plan = EstimatePlan::new(table, request, test)?;
        let is_by_set = scope.is_by_set();
        // To find the live rows costs about what it costs to read all of them.
        let stops_by_error = matches!(request.stop, Stop::Error(_));
        let population =
            Population::of(table, scope, plan.unit, stops_by_error, table.interrupt())?;
        let is_unresolved = matches!(population, Population::Unresolved(_));
        let selected = population.selected();
        let all_rows: u64 = table.table().pieces.now().iter().map(|piece| piece.rows()).sum();
        plan.bounds_are_met = table.indexes_suffice(None) && all_rows == selected.len();
        let known = known(table, &plan, selected, draws_max.min(USUAL_DRAWS))?;
        if !stops_by_error && draws_max < population.len() {
            plan.check_sampled(&known)?;
        }
        let costs = Costs::new(selected, is_by_set, plan.needs_all_rows(&known));
        let mut tally = Tally::new(&plan, known);
        if !is_unresolved && let Some(sets) = plan.known_groups(table, request)? {
            tally.expect_groups(sets);
        }
        let looks = Looks {
            levels: Levels::new(request, &plan, &tally)?,
            population: population.len(),
            tightest_at: match request.stop {
                Stop::Rows(n) => n,
                _ => USUAL_DRAWS,
            },
            width: match request.stop {
                Stop::Error(width) => Some(width),
                _ => None,
            },
            slow: String::new(),
        };
        let rng = Rng::keyed(request.seed.unwrap_or_else(fresh_seed), STREAM);
        let chooser = WithoutReplacement::new(population.len());
        Ok(Drawing {
            table,
            request,
            plan,
            population,
            tally,
            looks,
            rng,
            chooser,
            drawn: 0,
            draws_max,
            costs,
        })
    }

    /// Draws until the request is met, or `watch` breaks.
    fn run(&mut self, mut watch: Option<&mut Watch<'_>>) -> Result<Estimate> {
        let started = Instant::now();
        if self.is_unresolved() {
            self.scan()?;
            return self.look(Look::Running);
        }
        if self.drawn == 0 {
            // What is known without a draw needs none.
            let known = self.look(Look::Last)?;
            if known.exact {
                return Ok(known);
            }
        }
        loop {
            let is_done = self.drawn == self.population.len()
                || match self.request.stop {
                    Stop::Rows(n) => self.drawn >= n,
                    Stop::Seconds(seconds) => started.elapsed() >= Duration::from_secs_f64(seconds),
                    Stop::Error(_) => false,
                };
            if is_done {
                // Stopped by what was seen, or seen beside others, an interval must hold at every look.
                let is_only_look = watch.is_none() && !matches!(self.request.stop, Stop::Error(_));
                return self.look(if is_only_look { Look::Last } else { Look::Running });
            }
            if let Stop::Error(width) = self.request.stop {
                let estimate = self.look(Look::Running)?;
                let step =
                    next_step(&estimate, &self.plan, &self.tally, &self.looks, width, self.costs);
                if step == Step::Stop {
                    return Ok(estimate);
                }
                if self.is_stopped_by(&mut watch, &estimate) {
                    return Ok(estimate);
                }
                match step {
                    Step::Stop => unreachable!("it was returned"),
                    Step::Scan { slow } => {
                        // Where others would have been narrow enough, these are the reason.
                        if slow.len() < estimate.drawn.len() {
                            self.looks.slow = named(&estimate, &slow);
                        }
                        self.scan()?;
                        return self.look(Look::Running);
                    }
                    Step::ReadGroups(groups) => self.read_groups(&groups)?,
                    Step::Draw { until } => self.draw_round(until)?,
                }
                continue;
            }
            if watch.is_some() {
                let estimate = self.look(Look::Running)?;
                if self.is_stopped_by(&mut watch, &estimate) {
                    return Ok(estimate);
                }
            }
            self.draw_round(0)?;
        }
    }

    /// Whether old versions or partial rows may be selected besides those that count, so that none can be drawn.
    fn is_unresolved(&self) -> bool {
        matches!(self.population, Population::Unresolved(_))
    }

    fn look(&mut self, look: Look) -> Result<Estimate> {
        self.looks.estimate(&self.plan, &self.tally, self.drawn, look)
    }

    /// Shows an estimate of some rows.
    fn is_stopped_by(&self, watch: &mut Option<&mut Watch<'_>>, estimate: &Estimate) -> bool {
        self.drawn > 0 && watch.as_mut().is_some_and(|watch| watch(estimate).is_break())
    }

    /// Draws more rows, until about `until` are drawn if that is known.
    fn draw_round(&mut self, until: u64) -> Result<()> {
        let least = (self.drawn / 2).clamp(ROUND_MIN, ROUND_MAX);
        let round = match self.request.stop {
            Stop::Error(_) => {
                let least = least.max(self.drawn / 4);
                let most = least.max(self.drawn.saturating_mul(ROUND_GROWTH_MAX));
                until.saturating_sub(self.drawn).clamp(least, most)
            }
            _ => least,
        };
        let rest = self.population.len() - self.drawn;
        let round = round.min(self.draws_max - self.drawn).min(rest);
        let mut numbers = Vec::new();
        self.chooser.draw_into(&mut self.rng, round as usize, &mut numbers);
        let Drawing { table, plan, population, tally, .. } = self;
        let at_once = rows_at_a_time(table, population.selected(), plan.columns());
        let at_once = at_once.min(ROUND_MAX as usize);
        for numbers in numbers.chunks(at_once) {
            let batch = population.rows_at(table, plan.columns(), numbers, table.interrupt())?;
            tally.add(&plan.passing(batch)?)?;
        }
        self.drawn += numbers.len() as u64;
        Ok(())
    }

    /// Reads all rows that are selected.
    fn scan(&mut self) -> Result<()> {
        let read = self.read(self.request.selection.clone())?;
        if self.is_unresolved() {
            self.looks.population = read.rows.iter().sum();
        }
        self.tally.take_read(read, None)?;
        self.tally.end_scan(self.looks.population);
        Ok(())
    }

    /// Reads all rows of some sets, which are the groups.
    fn read_groups(&mut self, groups: &[usize]) -> Result<()> {
        let values: Vec<&[u8]> = groups.iter().map(|&group| self.tally.value(group)).collect();
        let [(_, data_type)] = &self.plan.by[..] else {
            unreachable!("groups are of one set column")
        };
        let sets = decode_values(&values, data_type)?;
        let read = self.read(Selection { sets: Some(sets), ..self.request.selection.clone() })?;
        self.tally.take_read(read, Some(groups))
    }

    /// Reads rows by several threads, each into a tally of its own.
    fn read(&self, selection: Selection) -> Result<ReadGroups> {
        let schema = &self.table.table().layout.schema().columns;
        let names = self.plan.columns().iter().map(|&column| schema.field(column).name().clone());
        let request =
            ScanRequest { selection, columns: Some(names.collect()), ..ScanRequest::default() };
        let threads = threads_for(None, self.population.selected().len(), ROWS_PER_THREAD)?;
        let parts = if threads == 1 { 1 } else { threads * PARTITIONS_PER_THREAD };
        let partitions = self.table.scan_partitions(&request, parts)?;
        let next = AtomicUsize::new(0);
        let read = side_by_side(threads, threads, |_| {
            let mut groups = ReadGroups::new(&self.plan);
            while let Some(partition) = partitions.get(next.fetch_add(1, Ordering::Relaxed)) {
                if self.plan.unit == Unit::Events {
                    let mut rows = partition.start();
                    while let Some((batch, events)) = rows.next_with_events()? {
                        groups.add(&self.plan.values(&batch)?.repeated(events));
                    }
                    continue;
                }
                for batch in partition.scan()? {
                    groups.add(&self.plan.values(&batch?)?);
                }
            }
            Ok(groups)
        })?;
        let all = read.into_iter().reduce(|mut all, groups| {
            all.merge(groups);
            all
        });
        Ok(all.expect("there is a thread at least"))
    }
}

/// What is known of each position of a plan without drawing. Of what a row may choose from a column or not, the column's bounds.
fn known(
    table: &TableSnapshot,
    plan: &EstimatePlan,
    selected: &Selected,
    pages_max: u64,
) -> Result<Vec<Known>> {
    let bounding = plan.bounding_columns(table);
    let columns: Vec<usize> = bounding.iter().copied().flatten().collect();
    let layout = &table.table().layout;
    let mut found = bounds(layout, selected, &columns, pages_max, table.interrupt())?.into_iter();
    let known = |column: &Option<usize>| match column {
        None => Known::Nothing,
        Some(_) => found.next().expect("one per column"),
    };
    Ok(bounding.iter().map(known).collect())
}

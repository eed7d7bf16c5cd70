//! Drawing the rows of an estimate, round by round.

use std::sync::Arc;
use std::time::{Duration, Instant};

use drillcore_format::key::decode_values;
use drillcore_sample::choose::WithoutReplacement;
use drillcore_sample::rng::Rng;

use crate::error::Result;
use crate::read::estimate::bounds::bounds;
use crate::read::estimate::levels::{Levels, Look};
use crate::read::estimate::looks::Looks;
use crate::read::estimate::next_step::{Step, draws_of_scan, next_step};
use crate::read::estimate::plan::EstimatePlan;
use crate::read::estimate::request::{EstimateRequest, ROUND_MIN, Stop, USUAL_DRAWS, Watch};
use crate::read::estimate::result::Estimate;
use crate::read::estimate::tally::Tally;
use crate::read::sample::fresh_seed;
use crate::read::scan::ScanRequest;
use crate::read::shown::{rows_at, rows_at_a_time};
use crate::read::snapshot::TableSnapshot;
use crate::select::selection::{Question, Selected, Selection};

/// The stream of a seed that estimates draw from.
const STREAM: u64 = 2;
/// A round beyond this is at most a quarter of what was drawn.
const ROUND_MAX: u64 = 50_000;
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
    selected: Arc<Selected>,
    tally: Tally,
    looks: Looks,
    rng: Rng,
    chooser: WithoutReplacement,
    drawn: u64,
    draws_max: u64,
    scan_draws: u64,
}

impl<'a> Drawing<'a> {
    fn start(table: &'a TableSnapshot, request: &'a EstimateRequest) -> Result<Drawing<'a>> {
        let draws_max = request.stop.draws_max()?;
        // Rows that fail the test are drawn too, and count as rows of no group.
        let Question { scope, test } = request.selection.check(table.table().layout.schema())?;
        let plan = EstimatePlan::new(table, request, test)?;
        let is_by_set = scope.is_by_set();
        let selected = table.resolved(table.shown(scope), &request.interrupt)?;
        let (columns, pages_max) = (plan.measured_columns(), draws_max.min(USUAL_DRAWS));
        let layout = &table.table().layout;
        let known = bounds(layout, &selected, &columns, pages_max, &request.interrupt)?;
        let mut tally = Tally::new(&plan, known);
        if let Some(sets) = plan.known_groups(table, request)? {
            tally.expect_groups(sets);
        }
        let looks = Looks {
            levels: Levels::new(request, &plan, &tally)?,
            population: selected.len(),
            tightest_at: match request.stop {
                Stop::Rows(n) => n,
                _ => USUAL_DRAWS,
            },
        };
        let rng = Rng::keyed(request.seed.unwrap_or_else(fresh_seed), STREAM);
        let chooser = WithoutReplacement::new(selected.len());
        let scan_draws = draws_of_scan(selected.len(), is_by_set);
        Ok(Drawing {
            table,
            request,
            plan,
            selected,
            tally,
            looks,
            rng,
            chooser,
            drawn: 0,
            draws_max,
            scan_draws,
        })
    }

    /// Draws until the request is met, or `watch` breaks.
    fn run(&mut self, mut watch: Option<&mut Watch<'_>>) -> Result<Estimate> {
        let started = Instant::now();
        loop {
            let is_done = self.drawn == self.selected.len()
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
                match next_step(&estimate, &self.plan, &self.tally, width, self.scan_draws) {
                    Step::Stop => return Ok(estimate),
                    Step::Scan => {
                        self.scan()?;
                        return self.look(Look::Running);
                    }
                    Step::ReadGroups(groups) => {
                        self.read_groups(&groups)?;
                        continue;
                    }
                    Step::Draw => {}
                }
                if self.is_stopped_by(&mut watch, &estimate) {
                    return Ok(estimate);
                }
            } else if watch.is_some() {
                let estimate = self.look(Look::Running)?;
                if self.is_stopped_by(&mut watch, &estimate) {
                    return Ok(estimate);
                }
            }
            self.draw_round()?;
        }
    }

    fn look(&mut self, look: Look) -> Result<Estimate> {
        self.looks.estimate(&self.plan, &self.tally, self.drawn, look)
    }

    /// Shows an estimate of some rows.
    fn is_stopped_by(&self, watch: &mut Option<&mut Watch<'_>>, estimate: &Estimate) -> bool {
        self.drawn > 0 && watch.as_mut().is_some_and(|watch| watch(estimate).is_break())
    }

    fn draw_round(&mut self) -> Result<()> {
        let round_max = match self.request.stop {
            // A look takes time in proportion to all that was drawn.
            Stop::Error(_) => ROUND_MAX.max(self.drawn / 4),
            _ => ROUND_MAX,
        };
        let round = (self.drawn / 2).clamp(ROUND_MIN, round_max).min(self.draws_max - self.drawn);
        let mut numbers = Vec::new();
        self.chooser.draw_into(&mut self.rng, round as usize, &mut numbers);
        let Drawing { table, request, plan, selected, tally, .. } = self;
        let at_once = rows_at_a_time(table, selected, plan.columns()).min(ROUND_MAX as usize);
        for numbers in numbers.chunks(at_once) {
            let batch = rows_at(table, selected, plan.columns(), numbers, &request.interrupt)?;
            tally.add(&plan.passing(batch)?)?;
        }
        self.drawn += numbers.len() as u64;
        Ok(())
    }

    /// Reads all rows that are selected.
    fn scan(&mut self) -> Result<()> {
        self.tally.read_all(self.selected.len());
        self.read(self.request.selection.clone())
    }

    /// Reads all rows of some sets, which are the groups.
    fn read_groups(&mut self, groups: &[usize]) -> Result<()> {
        let values: Vec<&[u8]> = groups.iter().map(|&group| self.tally.value(group)).collect();
        let (_, data_type) = self.plan.by.as_ref().expect("sets are groups of an estimate");
        let sets = decode_values(&values, data_type)?;
        self.tally.read_whole(groups);
        self.read(Selection { sets: Some(sets), ..self.request.selection.clone() })
    }

    fn read(&mut self, selection: Selection) -> Result<()> {
        let schema = &self.table.table().layout.schema().columns;
        let names = self.plan.columns().iter().map(|&column| schema.field(column).name().clone());
        let request = ScanRequest {
            selection,
            columns: Some(names.collect()),
            interrupt: self.request.interrupt.clone(),
            ..ScanRequest::default()
        };
        for batch in self.table.scan(request)? {
            self.tally.add_read(&batch?)?;
        }
        Ok(())
    }
}

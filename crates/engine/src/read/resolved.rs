//! Which rows answer a question.
//!
//! Indexes find candidates. Some of these may be dead, or partial, or fail the question's test, which is one of rows
//! as they are shown: in an append table of each row, in an upsert table of the live ones, in a rollup table of whole
//! rows. What is left is resolved: numbered through, so that it can be counted and drawn from.

use std::sync::Arc;

use drillcore_format::rows::{Layout, Rows};

use crate::calls::interrupt::Interrupt;
use crate::calls::side_by_side::{side_by_side, threads_for};
use crate::error::Result;
use crate::merge::merger::{Direction, Merger};
use crate::merge::passing::{for_each_tested, passing};
use crate::merge::piece_source::PieceSource;
use crate::merge::resolving::{PlacedSource, places, resolve};
use crate::policy::fold::Fold;
use crate::policy::table_policy::TablePolicy;
use crate::read::snapshot::TableSnapshot;
use crate::select::partitioning::{PARTITION_ROWS, partition_by_keys, partition_by_places};
use crate::select::predicate::Test;
use crate::select::pruning::Pruning;
use crate::select::selection::{Place, Question, Scope, Selected};
use crate::state::version::TableVersion;

/// Rows of a merge handled at once.
const CHUNK_ROWS: usize = 4096;

/// Steps that it takes to resolve a row that indexes find, by the measure of [`TableSnapshot::alive_if_worth`].
const RESOLVING_STEPS: u64 = 4;

/// Partitions that each thread counts in, so that none waits long for another's last.
const PARTITIONS_PER_THREAD: usize = 4;

/// Which partial rows of a row that passes are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Partials {
    /// The newest, which stands for the row.
    Newest,
    /// Each, for the events that it holds.
    All,
}

impl TableSnapshot {
    /// Whether what indexes find is what passes a test and is shown: in an append table, where nothing is tested.
    pub(crate) fn indexes_suffice(&self, test: Option<&Test>) -> bool {
        TablePolicy::of(&self.table().layout).keeps_all() && test.is_none()
    }

    /// Whether [`TableSnapshot::resolved`] returns what is known, without a merge of keys.
    pub(crate) fn is_resolved(&self, question: &Question) -> bool {
        self.indexes_suffice(question.test.as_ref())
            || question.test.is_none() && self.table().liveness.alive.get().is_some()
            || self.table().resolved.get(question).is_some()
    }

    /// The selected rows, resolved: numbered through, each alive and passing.
    pub(crate) fn resolved(
        &self,
        question: Question,
        interrupt: &Interrupt,
    ) -> Result<Arc<Selected>> {
        let TableVersion { layout, resolved, .. } = self.table();
        let scope = &question.scope;
        if self.indexes_suffice(question.test.as_ref()) {
            return self.candidates(scope, interrupt);
        }
        if let Some(known) = resolved.get(&question) {
            return Ok(known);
        }
        let selected = match &question.test {
            None => {
                let candidates = self.candidates(scope, interrupt)?;
                let alive = match scope.is_everything() {
                    true => Some(self.alive(interrupt)?),
                    false => {
                        let steps = candidates.len().saturating_mul(RESOLVING_STEPS);
                        self.alive_if_worth(steps, interrupt)?
                    }
                };
                if let Some(alive) = alive {
                    // To ask again is as cheap, but where members were looked at.
                    let selected = Arc::new(scope.select_alive(&candidates, alive, interrupt)?);
                    return Ok(match scope.is_by_set() {
                        true => resolved.keep(question, selected),
                        false => selected,
                    });
                }
                resolve(layout, &candidates, scope.is_by_set(), &self.known_dead(), interrupt)?
            }
            Some(test) if TablePolicy::of(layout).combines() => {
                let candidates = self.candidates(scope, interrupt)?;
                passing_partials(&candidates, layout, test, Partials::Newest, interrupt)?
            }
            Some(test) => {
                let scope = scope.clone();
                let shown = self.resolved(Question { scope, test: None }, interrupt)?;
                passing(&shown, layout, test, interrupt)?
            }
        };
        Ok(resolved.keep(question, Arc::new(selected)))
    }

    /// All partial rows of the selected rows of a rollup table.
    pub(crate) fn partials(
        &self,
        question: &Question,
        interrupt: &Interrupt,
    ) -> Result<Arc<Selected>> {
        let candidates = self.candidates(&question.scope, interrupt)?;
        let Some(test) = &question.test else { return Ok(candidates) };
        let layout = &self.table().layout;
        passing_partials(&candidates, layout, test, Partials::All, interrupt).map(Arc::new)
    }

    /// What indexes find, in an upsert table dead rows among it. Everything is selected once a version.
    pub(crate) fn candidates(&self, scope: &Scope, interrupt: &Interrupt) -> Result<Arc<Selected>> {
        if scope.is_everything() {
            return Ok(self.table().pieces.now().whole().clone());
        }
        let TableVersion { layout, pieces, passed, .. } = self.table();
        let pieces = pieces.now();
        let select = || Ok(Arc::new(scope.select(layout, pieces.all().clone(), interrupt)?));
        if !scope.takes_a_pass(&pieces) {
            self.table().note_searches(1);
            return select();
        }
        let question = Question { scope: scope.clone(), test: None };
        match passed.get(&question) {
            Some(known) => Ok(known),
            None => Ok(passed.keep(question, select()?)),
        }
    }
}

/// Counts what [`passing`] lists, with as many threads as there are cores where there is enough to test.
pub fn count_passing(
    selected: &Selected,
    layout: &Layout,
    test: &Test,
    interrupt: &Interrupt,
) -> Result<u64> {
    let count_in = |selected: &Selected| {
        let mut count = 0;
        for_each_tested(selected, layout, test, interrupt, |_, _, passes| {
            count += passes.count_set_bits() as u64;
        })?;
        Ok(count)
    };
    let threads = threads_for(None, selected.len(), PARTITION_ROWS)?;
    if threads == 1 {
        return count_in(selected);
    }
    let count = threads * PARTITIONS_PER_THREAD;
    // Members of several sets lie in the same blocks, which are read once where they are read together.
    let partitions = match selected.by_piece().all(|(_, parts)| parts.len() == 1) {
        true => partition_by_places(selected, count),
        false => partition_by_keys(selected, count, interrupt)?,
    };
    let counts = side_by_side(partitions.len(), threads, |number| count_in(&partitions[number]))?;
    Ok(counts.into_iter().sum())
}

/// Lists partial rows of the whole rows that pass. One merge of the candidates for their places, and one
/// that folds them, side by side: both see each key once, in order.
pub fn passing_partials(
    candidates: &Selected,
    layout: &Layout,
    test: &Test,
    listed: Partials,
    interrupt: &Interrupt,
) -> Result<Selected> {
    // The keys of what is left out fail, in every piece, and both merges leave out the same.
    let pruning = Pruning::new(layout, Some(test));
    let policy = TablePolicy::of(layout);
    let all = layout.all();
    let sources =
        PieceSource::of(candidates, &all, Direction::Forward, pruning.as_ref(), interrupt);
    let sources = sources.map(|(_, source)| source).collect();
    let mut whole = Merger::new(sources, Direction::Forward, policy.fold(), CHUNK_ROWS)?;
    let sources = PlacedSource::of(layout, candidates, pruning.as_ref(), interrupt);
    let fold = match listed {
        Partials::Newest => Fold::KeepNewest,
        Partials::All => Fold::KeepAll,
    };
    let mut placed = Placed {
        merger: Merger::new(sources, Direction::Forward, fold, CHUNK_ROWS)?,
        rows: None,
        at: 0,
    };
    let mut ordinals = vec![Vec::new(); candidates.pieces().len()];
    while let Some(rows) = whole.next_rows()? {
        interrupt.check()?;
        let passes = test.passes(&policy.shown(&rows, test.columns())?)?;
        for row in 0..rows.len() {
            while let Some(place) = placed.next_of(rows.key(row))? {
                if passes.value(row) {
                    ordinals[place.piece as usize].push(place.ordinal);
                }
            }
        }
    }
    Ok(Selected::listed(candidates.pieces().clone(), ordinals))
}

/// Places in the order of their keys.
struct Placed {
    merger: Merger<PlacedSource>,
    rows: Option<Rows>,
    at: usize,
}

impl Placed {
    /// The next place, if its key is the given one.
    fn next_of(&mut self, key: &[u8]) -> Result<Option<Place>> {
        if self.rows.as_ref().is_none_or(|rows| self.at == rows.len()) {
            self.rows = self.merger.next_rows()?;
            self.at = 0;
        }
        let Some(rows) = self.rows.as_ref().filter(|rows| rows.key(self.at) == key) else {
            return Ok(None);
        };
        let (pieces, ordinals) = places(rows);
        let place = Place { piece: pieces[self.at], ordinal: ordinals[self.at] };
        self.at += 1;
        Ok(Some(place))
    }
}

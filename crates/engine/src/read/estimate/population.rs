//! What an estimate draws from: rows of a selection, or the events that rows of a rollup table were folded from.

use std::sync::Arc;

use arrow_array::RecordBatch;

use crate::calls::interrupt::Interrupt;
use crate::error::Result;
use crate::read::shown::{rows_at, show};
use crate::read::snapshot::TableSnapshot;
use crate::read::weighted::Weighted;
use crate::schema::unit::Unit;
use crate::select::selection::{Question, Scope, Selected};

/// Units of a selection, numbered through: each is as likely to be drawn as the others.
pub enum Population {
    /// Rows, each alive.
    Rows(Arc<Selected>),
    /// Candidates among which may be rows that do not count: they can be read, but not drawn.
    Unresolved(Arc<Selected>),
    /// Events of partial rows. One shows the whole row that it was folded into.
    Events(Box<Weighted>, u64),
}

impl Population {
    /// The rows or events in a scope. Rows that are not resolved yet are left so, if `is_read_then` and to find them costs about
    /// what it costs to read them.
    pub fn of(
        table: &TableSnapshot,
        scope: Scope,
        unit: Unit,
        is_read_then: bool,
        interrupt: &Interrupt,
    ) -> Result<Population> {
        if unit == Unit::Events {
            let partials = table.candidates(&scope, interrupt)?;
            let events = Weighted::by_events(partials, &table.table().layout, interrupt)?;
            let count = events.events()?;
            return Ok(Population::Events(Box::new(events), count));
        }
        let question: Question = table.shown(scope);
        if is_read_then && !table.is_resolved(&question) {
            let candidates = table.candidates(&question.scope, interrupt)?;
            if question.test.is_some()
                || table.alive_if_worth(candidates.len(), interrupt)?.is_none()
            {
                return Ok(Population::Unresolved(candidates));
            }
        }
        Ok(Population::Rows(table.resolved(question, interrupt)?))
    }

    /// How many there are; of candidates at most.
    pub fn len(&self) -> u64 {
        match self {
            Population::Rows(selected) | Population::Unresolved(selected) => selected.len(),
            Population::Events(_, events) => *events,
        }
    }

    /// The stored rows behind them.
    pub fn selected(&self) -> &Selected {
        match self {
            Population::Rows(selected) | Population::Unresolved(selected) => selected,
            Population::Events(events, _) => events.selected(),
        }
    }

    /// The rows of those with some numbers, in that order, as they are shown.
    pub fn rows_at(
        &self,
        table: &TableSnapshot,
        columns: &[usize],
        numbers: &[u64],
        interrupt: &Interrupt,
    ) -> Result<RecordBatch> {
        match self {
            Population::Rows(selected) => rows_at(table, selected, columns, numbers, interrupt),
            Population::Unresolved(_) => unreachable!("what is not resolved is not drawn from"),
            Population::Events(events, _) => {
                let places = events.of_events(numbers)?;
                show(table, events.selected(), columns, &places, None, interrupt)
            }
        }
    }
}

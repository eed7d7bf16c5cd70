//! What bounds the numbers of a column, as far as pieces tell without reading rows.
//!
//! On disk the statistics pages do, in memory the column itself, once per run. Bounds are of all rows of the pieces that the
//! selection has rows in, in a range of it of the zones it touches; versions of rows that are dead may widen them.
//! So they hold for every row drawn. The partial rows of a rollup table do not bound the metrics that they fold to; its
//! dimensions do not fold.

use std::ops::Range;

use arrow_array::{Array, ArrayRef, UInt64Array};
use drillcore_format::rows::Layout;
use drillcore_format::statistics_page::Zones;
use drillcore_sample::interval::Bounds;

use crate::calls::interrupt::Interrupt;
use crate::error::Result;
use crate::pieces::extremes::Extremes;
use crate::pieces::piece::Piece;
use crate::pieces::run::Run;
use crate::policy::table_policy::TablePolicy;
use crate::schema::number::Number;
use crate::select::selection::Selected;

/// Rows of a run whose numbers are decoded at once.
const ROWS_AT_ONCE: usize = 1 << 16;
/// Statistics pages of several segments that are read together.
const PAGES_AT_ONCE: u64 = 256;

/// What is known of the numbers of a column without drawing any.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Known {
    /// That none lies below the first or above the second, which are so close that a float has their distance.
    Between(Number, Number),
    /// That there are none: every value is null.
    NoValues,
    /// Nothing: some are not finite, or fold, or it would take too much reading.
    Nothing,
}

impl Known {
    pub fn bounds(self) -> Option<Bounds> {
        match self {
            Known::Between(low, high) => Bounds::new(low.as_f64(), high.as_f64()),
            _ => None,
        }
    }
}

/// What is known of some columns of a selection. Nothing if that would take more than `pages_max` statistics pages: an estimate
/// is not to read more of them than rows; but for those of runs that were spilled, which are read all.
pub fn bounds(
    layout: &Layout,
    selected: &Selected,
    columns: &[usize],
    pages_max: u64,
    interrupt: &Interrupt,
) -> Result<Vec<Known>> {
    let pieces = selected.by_piece().map(|(number, _)| &selected.pieces()[number]);
    // Of a run that was spilled what was known before: the same seed goes on to give the same intervals.
    let on_disk = pieces.filter(|piece| !piece.is_of_run()).filter_map(Piece::segment);
    let is_too_much =
        on_disk.map(|segment| segment.statistics_page_count()).sum::<u64>() > pages_max;
    // Of a column that folds, what partial rows hold says nothing.
    let plain = TablePolicy::of(layout).stored_as_shown(columns);
    if plain.is_empty() || is_too_much {
        return Ok(vec![Known::Nothing; columns.len()]);
    }
    let mut found: Vec<Extremes> = vec![Extremes::default(); plain.len()];
    let mut on_disk: Vec<(&Piece, Range<u64>)> = Vec::new();
    for (number, parts) in selected.by_piece() {
        interrupt.check()?;
        let piece = &selected.pieces()[number];
        match piece.run() {
            Some(run) => {
                for (extremes, &column) in found.iter_mut().zip(&plain) {
                    extremes.merge(&of_run(run, layout, column)?);
                }
            }
            None => {
                let is_listed = parts.iter().any(|part| part.members.is_some());
                let all = 0..piece.rows();
                let is_whole = is_listed || piece.is_of_run();
                let ordinals = if is_whole { all } else { parts[0].from..parts[0].to };
                on_disk.push((piece, ordinals));
            }
        }
    }
    let pages = |(piece, _): &&(&Piece, _)| {
        piece.segment().map_or(0, |segment| segment.statistics_page_count())
    };
    let mut rest = on_disk.as_slice();
    while !rest.is_empty() {
        interrupt.check()?;
        let mut sum = 0;
        let fits = |segment: &&(&Piece, Range<u64>)| {
            sum += pages(segment);
            sum <= PAGES_AT_ONCE
        };
        let (some, later) = rest.split_at(rest.iter().take_while(fits).count().max(1));
        rest = later;
        for zones in Piece::zones_of_each(some, layout, &plain)? {
            take_zones(&zones, &plain, &mut found);
        }
    }
    let known_of = |column: &usize| match plain.iter().position(|each| each == column) {
        None => Known::Nothing,
        Some(at) if found[at].are_of_nothing() => Known::NoValues,
        Some(at) => found[at].ends().map_or(Known::Nothing, between),
    };
    Ok(columns.iter().map(known_of).collect())
}

fn between((low, high): (Number, Number)) -> Known {
    let bounds = Bounds::new(low.as_f64(), high.as_f64());
    bounds.map_or(Known::Nothing, |_| Known::Between(low, high))
}

fn of_run(run: &Run, layout: &Layout, column: usize) -> Result<Extremes> {
    run.extremes(layout.schema().stored.number(column), || {
        let mut extremes = Extremes::default();
        for first in (0..run.rows()).step_by(ROWS_AT_ONCE) {
            let end = run.rows().min(first + ROWS_AT_ONCE as u64);
            let rows = run.slice(first, end, &layout.projection(&[column]));
            extremes.add(layout.decode(&rows, &[column])?.column(0));
        }
        Ok(extremes)
    })
}

fn take_zones(zones: &Zones, columns: &[usize], found: &mut [Extremes]) {
    for (extremes, &column) in found.iter_mut().zip(columns) {
        let Some(of_column) = zones.column(column) else {
            extremes.add_unknown();
            continue;
        };
        extremes.add(&of_column.mins);
        extremes.add(&of_column.maxes);
        if !are_known(&of_column.mins, &of_column.null_counts, zones.rows()) {
            extremes.add_unknown();
        }
    }
}

/// Whether each zone with a value in it has bounds.
fn are_known(bounds: &ArrayRef, nulls: &UInt64Array, rows: &UInt64Array) -> bool {
    let counts = nulls.values().iter().zip(rows.values());
    counts.enumerate().all(|(zone, (nulls, rows))| nulls == rows || bounds.is_valid(zone))
}

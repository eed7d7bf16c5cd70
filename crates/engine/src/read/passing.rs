//! Which rows of a selection pass a test.
//!
//! The test is one of rows as they are shown: in an append table of each row, in an upsert table of the
//! live ones, in a rollup table of whole rows.

use drillcore_format::rows::{Layout, Rows};

use crate::calls::interrupt::Interrupt;
use crate::calls::side_by_side::{side_by_side, threads_for};
use crate::error::Result;
use crate::merge::merger::{Direction, Fold, Merger};
use crate::merge::piece_source::PieceSource;
use crate::merge::resolving::{PlacedSource, places};
use crate::merge::rollup::shown;
use crate::read::partitioning::{PARTITION_ROWS, split_by_keys};
use crate::select::fetch::{fetch, rows_at_once};
use crate::select::predicate::Test;
use crate::select::pruning::Pruning;
use crate::select::selection::{Place, Selected};

/// Rows of a merge handled at once.
const CHUNK_ROWS: usize = 4096;

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

/// Lists the rows that pass, of rows that are shown as they are stored. Reads the test's columns of all.
pub fn passing(
    selected: &Selected,
    layout: &Layout,
    test: &Test,
    interrupt: &Interrupt,
) -> Result<Selected> {
    let mut ordinals = vec![Vec::new(); selected.pieces().len()];
    for_each_tested(selected, layout, test, interrupt, |piece, tested, passes| {
        ordinals[piece].extend(passes.set_indices().map(|row| tested[row]));
    })?;
    Ok(Selected::listed(selected.pieces().clone(), ordinals))
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
    let partitions = split_by_keys(selected, threads * PARTITIONS_PER_THREAD, interrupt)?;
    let counts = side_by_side(partitions.len(), threads, |number| count_in(&partitions[number]))?;
    Ok(counts.into_iter().sum())
}

/// Which of the rows at some places pass, of rows that are shown as they are stored.
pub fn pass(
    selected: &Selected,
    layout: &Layout,
    test: &Test,
    places: &[Place],
    interrupt: &Interrupt,
) -> Result<Vec<bool>> {
    let projection = layout.projection(test.columns());
    let mut passed = Vec::with_capacity(places.len());
    for places in places.chunks(rows_at_once(selected, &projection)) {
        let rows = fetch(selected.pieces(), places, &projection, interrupt)?;
        let passes = test.passes(&layout.decode(&rows, test.columns())?)?;
        passed.extend(passes.values().iter());
    }
    Ok(passed)
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
    let rollup = layout.rollup().expect("only rollup tables have partial rows");
    // The keys of what is left out fail, in every piece, and both merges leave out the same.
    let pruning = Pruning::new(layout, Some(test));
    let sources: Vec<PieceSource> = candidates
        .parts()
        .chunk_by(|a, b| a.piece == b.piece)
        .map(|parts| {
            let piece = candidates.pieces()[parts[0].piece].clone();
            let parts = parts.to_vec();
            PieceSource::selected(piece, parts, layout.all(), Direction::Forward, interrupt)
                .pruned(pruning.as_ref())
        })
        .collect();
    let combine = Fold::Combine(layout.clone());
    let mut whole = Merger::new(sources, Direction::Forward, combine, CHUNK_ROWS)?;
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
        let passes = test.passes(&shown(layout, rollup, &rows, test.columns())?)?;
        for row in 0..rows.len() {
            while let Some(place) = placed.next_of(rows.key(row))? {
                if passes.value(row) {
                    ordinals[place.piece].push(place.ordinal);
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
        let place = Place { piece: pieces[self.at] as usize, ordinal: ordinals[self.at] };
        self.at += 1;
        Ok(Some(place))
    }
}

/// Calls `each` with chunks of a piece's selected rows: their ordinals, and which of them pass.
fn for_each_tested(
    selected: &Selected,
    layout: &Layout,
    test: &Test,
    interrupt: &Interrupt,
    mut each: impl FnMut(usize, &[u32], &arrow_buffer::BooleanBuffer),
) -> Result<()> {
    let projection = layout.projection(test.columns());
    let pruning = Pruning::new(layout, Some(test));
    for parts in selected.parts().chunk_by(|a, b| a.piece == b.piece) {
        let number = parts[0].piece;
        let piece = selected.pieces()[number].clone();
        let (parts, projection) = (parts.to_vec(), projection.clone());
        let mut source =
            PieceSource::selected(piece, parts, projection, Direction::Forward, interrupt)
                .pruned(pruning.as_ref());
        while let Some((rows, ordinals)) = source.next_placed()? {
            interrupt.check()?;
            let passes = test.passes(&layout.decode(&rows, test.columns())?)?;
            each(number, &ordinals, passes.values());
        }
    }
    Ok(())
}

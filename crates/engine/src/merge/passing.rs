//! Which of some selected rows pass a test, where rows are shown as they are stored.

use std::collections::VecDeque;

use arrow_buffer::BooleanBuffer;
use drillcore_format::rows::Layout;

use crate::calls::interrupt::Interrupt;
use crate::error::Result;
use crate::merge::merger::Direction;
use crate::merge::piece_source::PieceSource;
use crate::select::predicate::Test;
use crate::select::pruning::Pruning;
use crate::select::selection::Selected;

/// Rows tested at once.
const CHUNK_ROWS: u64 = 4096;

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

/// Calls `each` with chunks of a piece's selected rows: their ordinals, and which of them pass.
pub fn for_each_tested(
    selected: &Selected,
    layout: &Layout,
    test: &Test,
    interrupt: &Interrupt,
    mut each: impl FnMut(usize, &[u32], &BooleanBuffer),
) -> Result<()> {
    let projection = layout.projection(test.columns());
    let pruning = Pruning::new(layout, Some(test));
    let pruning = pruning.as_ref();
    let sources = PieceSource::of(selected, &projection, Direction::Forward, pruning, interrupt);
    let (mut numbers, mut sources): (VecDeque<usize>, VecDeque<PieceSource>) = sources.unzip();
    while !sources.is_empty() {
        let opened =
            PieceSource::some_by_columns(&mut sources, layout, test.columns(), CHUNK_ROWS)?;
        for (number, mut source) in numbers.drain(..opened).zip(sources.drain(..opened)) {
            while let Some((rows, ordinals)) = source.next_placed()? {
                interrupt.check()?;
                let passes = test.passes(&layout.decode(&rows, test.columns())?)?;
                each(number, &ordinals, passes.values());
            }
        }
    }
    Ok(())
}

//! An append in two steps, so that several threads prepare appends whose commits keep an order.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::RecordBatch;
use drillcore_format::logged_commit::SourcePosition;

use crate::calls::aside::aside;
use crate::calls::interrupt::Interrupt;
use crate::error::{Error, Result};
use crate::schema::conform::{AppendOptions, Rejected};
use crate::state::core::Core;
use crate::write::commit::{AppendResult, Prepared, TableShape, commit_prepared, prepare};

/// The longest name of a source, and its longest position.
const SOURCE_BYTES_MAX: usize = 4096;
const POSITION_BYTES_MAX: usize = 64 << 10;

/// An append whose rows were brought into the shape of their tables, sorted and encoded. Nothing is stored before it is
/// committed; dropped, it leaves nothing behind. It holds its rows in memory, which no budget counts, so hold few.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use drillcore::{AppendOptions, SourcePosition};
///
/// # let batch = flights.snapshot()?.scan(Default::default())?.next().unwrap()?;
/// let db = flights.database();
/// let ready = db.prepare(&[("flights", &batch)], AppendOptions::default())?; // on any thread
/// assert_eq!(ready.rows(), 100);
/// let position = SourcePosition { source: "topic-0".into(), position: b"123".to_vec() };
/// ready.commit(&[position])?;
/// assert_eq!(db.positions()?["topic-0"], b"123");
/// # drillcore::Result::Ok(())
/// ```
#[must_use]
pub struct PreparedAppend {
    core: Arc<Core>,
    batches: Vec<(TableShape, RecordBatch)>,
    options: AppendOptions,
    prepared: Prepared,
    interrupt: Interrupt,
}

impl PreparedAppend {
    pub(crate) fn new(
        core: &Arc<Core>,
        batches: Vec<(TableShape, RecordBatch)>,
        options: AppendOptions,
        interrupt: Interrupt,
    ) -> Result<PreparedAppend> {
        let _underway = core.begin()?;
        let prepared = prepare(core, &batches, options, &interrupt)?;
        Ok(PreparedAppend { core: core.clone(), batches, options, prepared, interrupt })
    }

    /// Rows that it will append.
    pub fn rows(&self) -> u64 {
        self.prepared.rows
    }

    /// Rows that it leaves out, with [`OnError::Skip`](crate::OnError::Skip).
    pub fn rejected(&self) -> &[Rejected] {
        &self.prepared.rejected
    }

    /// Appends the rows in one commit, and notes in the same commit how far their sources have been read: after a crash
    /// both are there, or neither is. A position replaces the one before of its source; an empty one forgets the source.
    /// Without rows it is a commit, too, if there is a position.
    ///
    /// # Errors
    /// `InvalidArgument` for a source without a name, listed twice or with a position of more than 64 KiB, and as
    /// [`Table::append`](crate::Table::append).
    pub fn commit(self, positions: &[SourcePosition]) -> Result<AppendResult> {
        check_positions(positions)?;
        let PreparedAppend { core, batches, options, prepared, interrupt } = self;
        // A new column is an edit of the manifest.
        if !batches.iter().any(|(shape, _)| shape.discovers()) {
            return commit_prepared(&core, &batches, options, prepared, positions, &interrupt);
        }
        let positions = positions.to_vec();
        aside(&interrupt, move |interrupt| {
            commit_prepared(&core, &batches, options, prepared, &positions, interrupt)
        })
    }
}

fn check_positions(positions: &[SourcePosition]) -> Result<()> {
    let mut sources = HashSet::with_capacity(positions.len());
    for SourcePosition { source, position } in positions {
        let fault = if source.is_empty() {
            "a source has no name; give each one a name".to_string()
        } else if source.len() > SOURCE_BYTES_MAX {
            format!(
                "the name of a source has {} bytes; the limit is {SOURCE_BYTES_MAX}. Shorten it",
                source.len()
            )
        } else if position.len() > POSITION_BYTES_MAX {
            let bytes = position.len();
            format!(
                "the position of {source:?} has {bytes} bytes; the limit is {POSITION_BYTES_MAX}. Shorten it"
            )
        } else if !sources.insert(source) {
            format!("source {source:?} is listed twice; give each source one position")
        } else {
            continue;
        };
        return Err(Error::invalid(fault));
    }
    Ok(())
}

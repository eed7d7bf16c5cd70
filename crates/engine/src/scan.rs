//! Ordered scans: the selected rows of all pieces, merged by key, streamed.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrow_select::filter::filter_record_batch;
use drillcore_format::rows::{Layout, Projection, Rows};

use crate::error::Result;
use crate::interrupt::Interrupt;
use crate::live::{with_flags, without_tombstones};
use crate::merge::{Direction, Fold, Merger};
use crate::piece_source::PieceSource;
use crate::predicate::Test;
use crate::pruning::Pruning;
use crate::rollup::shown;
use crate::select::{Part, Selected, Selection};

/// Rows of a batch, unless they are long ...
const BATCH_ROWS: usize = 8192;
/// ... and bytes of their keys and strings.
const BATCH_BYTES: usize = 16 << 20;

/// What to scan.
#[derive(Debug, Clone, Default)]
pub struct ScanRequest {
    pub selection: Selection,
    /// Names of the columns wanted, in that order; all by default.
    pub columns: Option<Vec<String>>,
    /// At most so many rows.
    pub limit: Option<u64>,
    /// From the highest key down.
    pub reverse: bool,
    pub interrupt: Interrupt,
}

/// Batches in key order. Holding it keeps the snapshot's pieces alive.
pub struct Scan {
    merger: Merger<PieceSource>,
    layout: Layout,
    /// What is read, and what of it the columns need.
    read: Projection,
    needed: Projection,
    drops_tombstones: bool,
    /// The columns wanted, and behind them those that only the test reads.
    columns: Vec<usize>,
    test: Option<TestPlace>,
    schema: SchemaRef,
    rest: u64,
    interrupt: Interrupt,
}

/// A test, with the positions of its columns among those of a batch.
struct TestPlace {
    test: Test,
    columns: Vec<usize>,
}

impl Scan {
    /// Starts a scan of what was selected, folding equal keys of different pieces and then testing.
    pub(crate) fn new(
        selected: &Selected,
        layout: &Layout,
        columns: Vec<usize>,
        test: Option<Test>,
        fold: Fold,
        request: ScanRequest,
    ) -> Result<Scan> {
        let schema = layout.schema().columns.project(&columns).expect("columns were resolved");
        let mut columns = columns;
        let pruning = Pruning::new(layout, test.as_ref());
        let test = test.map(|test| TestPlace::new(test, &mut columns));
        let direction = if request.reverse { Direction::Reverse } else { Direction::Forward };
        // Merging compares keys, so they are read even where no key column is asked for.
        let needed = match layout.rollup() {
            // What is shown of a metric may be made of several values.
            Some(_) => layout.all(),
            None => Projection { keys: true, ..layout.projection(&columns) },
        };
        let drops_tombstones = matches!(fold, Fold::KeepNewest);
        let read = if drops_tombstones { with_flags(layout, &needed) } else { needed.clone() };
        let mut sources: Vec<PieceSource> = selected
            .parts()
            .chunk_by(|a, b| a.piece == b.piece)
            .map(|parts: &[Part]| {
                let piece = selected.pieces()[parts[0].piece].clone();
                PieceSource::selected(piece, parts.to_vec(), read.clone(), direction)
                    .pruned(pruning.as_ref())
            })
            .collect();
        if request.reverse {
            sources.reverse();
        }
        let limit = request.limit.unwrap_or(u64::MAX);
        let batch_rows = match test {
            None => usize::try_from(limit).unwrap_or(usize::MAX).clamp(1, BATCH_ROWS),
            Some(_) => BATCH_ROWS,
        };
        Ok(Scan {
            merger: Merger::new(sources, direction, fold, batch_rows)?
                .with_batch_bytes(BATCH_BYTES),
            layout: layout.clone(),
            read,
            needed,
            drops_tombstones,
            columns,
            test,
            schema: schema.into(),
            rest: limit,
            interrupt: request.interrupt,
        })
    }

    /// The schema of every batch.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn next_rows(&mut self) -> Result<Option<Rows>> {
        while let Some(rows) = self.merger.next_rows()? {
            if !self.drops_tombstones {
                return Ok(Some(rows));
            }
            let rows = without_tombstones(rows);
            if !rows.is_empty() {
                return Ok(Some(rows.narrow(&self.read, &self.needed)));
            }
            self.interrupt.check()?;
        }
        Ok(None)
    }

    /// The next rows that pass, as they are shown, at least one.
    fn next_passing(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(rows) = self.next_rows()? {
            let batch = match self.layout.rollup() {
                None => self.layout.decode(&rows, &self.columns)?,
                Some(rollup) => shown(&self.layout, rollup, &rows, &self.columns)?,
            };
            let Some(TestPlace { test, columns }) = &self.test else { return Ok(Some(batch)) };
            let tested = batch.project(columns).expect("the batch has the test's columns");
            let passes = test.passes(&tested)?;
            if passes.true_count() > 0 {
                let wanted: Vec<usize> = (0..self.schema.fields().len()).collect();
                let batch = batch.project(&wanted).expect("the batch has the columns wanted");
                return Ok(Some(filter_record_batch(&batch, &passes).expect("one answer a row")));
            }
            self.interrupt.check()?;
        }
        Ok(None)
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        self.interrupt.check()?;
        if self.rest == 0 {
            return Ok(None);
        }
        let Some(batch) = self.next_passing()? else { return Ok(None) };
        let len = usize::try_from(self.rest).unwrap_or(usize::MAX).min(batch.num_rows());
        self.rest -= len as u64;
        Ok(Some(if len < batch.num_rows() { batch.slice(0, len) } else { batch }))
    }
}

impl TestPlace {
    /// Adds to `columns` what the test reads besides.
    fn new(test: Test, columns: &mut Vec<usize>) -> TestPlace {
        let place = |&column: &usize| {
            columns.iter().position(|&known| known == column).unwrap_or_else(|| {
                columns.push(column);
                columns.len() - 1
            })
        };
        let places = test.columns().iter().map(place).collect();
        TestPlace { test, columns: places }
    }
}

impl Iterator for Scan {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        let next = self.next_batch();
        if next.is_err() {
            self.rest = 0;
        }
        next.transpose()
    }
}

//! Ordered scans: the selected rows as a stream of batches, read by the calling thread or by several.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::calls::side_by_side::threads_for;
use crate::error::Result;
use crate::merge::merger::Direction;
use crate::policy::fold::Fold;
use crate::policy::table_policy::TablePolicy;
use crate::read::held_scan::HeldScan;
use crate::read::partition::{KeyPartition, ScanPlan};
use crate::read::scan_ahead::ScanAhead;
use crate::read::snapshot::TableSnapshot;
use crate::select::partitioning::PARTITION_ROWS;
use crate::select::selection::{Question, Scope, Selection};

/// What to scan.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use drillcore::ScanRequest;
///
/// let columns = Some(vec!["id".to_string()]);
/// let newest = ScanRequest { columns, reverse: true, limit: Some(10), ..ScanRequest::default() };
/// for batch in flights.snapshot()?.scan(newest)? {
///     assert_eq!(batch?.num_columns(), 1);
/// }
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct ScanRequest {
    /// Which rows.
    pub selection: Selection,
    /// Names of the columns wanted, in that order; all by default.
    pub columns: Option<Vec<String>>,
    /// The most rows that are returned; all by default.
    pub limit: Option<u64>,
    /// From the highest key down.
    pub reverse: bool,
    /// How many threads read, ahead of the caller and only where there is enough to read for them. The caller's is one of them,
    /// unless there is a predicate. With one, the calling thread reads by itself. By default one per core; where files are
    /// read past the system's cache two, and at least eight.
    pub threads: Option<usize>,
    /// About how many rows a thread reads at once; by default as many as are worth it.
    pub partition_rows: Option<u64>,
    /// The most rows of a batch; by default 32,768, and 8,192 where rows of several pieces are merged. Long rows are fewer.
    pub batch_rows: Option<usize>,
}

/// Batches in key order. Holding it keeps the snapshot's pieces alive; dropping it ends its threads.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use drillcore::ScanRequest;
///
/// let scan = flights.snapshot()?.scan(ScanRequest::default())?;
/// assert_eq!(scan.schema().fields().len(), 3);
/// let batches = scan.collect::<drillcore::Result<Vec<_>>>()?;
/// assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 100);
/// # drillcore::Result::Ok(())
/// ```
#[must_use]
pub struct Scan {
    source: Source,
    schema: SchemaRef,
    rest: u64,
}

/// Who reads.
enum Source {
    Caller(Box<HeldScan>),
    Threads(Box<ScanAhead>),
    Ended,
}

impl TableSnapshot {
    /// The selected rows in key order, streamed; ties in commit order, reversed when the scan is.
    ///
    /// # Errors
    /// `NotFound` for an unknown column, `InvalidArgument` for a selection that does not fit the table or for no threads,
    /// `Corrupt`, `Io`, `Interrupted`. A batch can also fail with these, with `OutOfRange` if a sum of a rollup table does not fit its
    /// type, and with what the predicate returns.
    pub fn scan(&self, request: ScanRequest) -> Result<Scan> {
        Scan::new(&self.partition(&request)?, &request)
    }

    /// Up to `count` partitions of keys that share the selected rows about equally, none of them empty, to be
    /// scanned side by side; one after the other they give what [`TableSnapshot::scan`] gives. They are fewer
    /// where a partition would not be worth a thread, or where many rows have one key. A limit is that of each.
    ///
    /// Looks at some keys of each partition. A set of an upsert table is resolved first.
    pub fn scan_partitions(
        &self,
        request: &ScanRequest,
        count: usize,
    ) -> Result<Vec<KeyPartition>> {
        let whole = self.partition(request)?;
        whole.partition_by_keys(whole.worth(request.partition_rows).min(count))
    }

    /// Whether a scan, or a cut into partitions, begins with a look for each selected row in newer pieces, once per snapshot: of sets in
    /// a table whose rows are replaced.
    pub fn resolves_before_scan(&self, selection: &Selection) -> Result<bool> {
        Ok(self.resolves_first(&selection.check(&self.table().schema)?.scope))
    }

    /// The live rows of a range come out of the merge by themselves, those of a set do not.
    fn resolves_first(&self, scope: &Scope) -> bool {
        scope.is_by_set() && TablePolicy::of(&self.table().layout).deletes()
    }

    /// All that a request asks for.
    fn partition(&self, request: &ScanRequest) -> Result<KeyPartition> {
        let layout = &self.table().layout;
        let columns = self.columns(request.columns.as_deref())?;
        let Question { scope, test } = self.question(&request.selection)?;
        let (selected, fold) = if self.resolves_first(&scope) {
            (self.resolved(Question { scope, test: None }, self.interrupt())?, Fold::KeepAll)
        } else {
            (self.candidates(&scope, self.interrupt())?, TablePolicy::of(layout).fold())
        };
        let direction = if request.reverse { Direction::Reverse } else { Direction::Forward };
        let (memory, interrupt) = (self.table().reads.clone(), self.interrupt().clone());
        let plan = ScanPlan::new(layout, columns, test, fold, direction, memory, interrupt);
        Ok(KeyPartition::new(selected, plan.limited(request.limit, request.batch_rows)))
    }
}

impl Scan {
    /// Starts to scan a partition as a request says.
    pub(crate) fn new(partition: &KeyPartition, request: &ScanRequest) -> Result<Scan> {
        match useful_threads(partition, request)? {
            1 => partition.scan(),
            threads => {
                let scan = ScanAhead::start(partition, request.partition_rows, threads)?;
                Ok(Scan::of(partition, Source::Threads(scan.into())))
            }
        }
    }

    fn of(partition: &KeyPartition, source: Source) -> Scan {
        Scan { source, schema: partition.schema(), rest: partition.limit().unwrap_or(u64::MAX) }
    }

    /// The schema of every batch.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn next_batch(&mut self, source: &mut Source) -> Result<Option<RecordBatch>> {
        let batch = match source {
            Source::Ended => None,
            _ if self.rest == 0 => None,
            Source::Caller(scan) => scan.next_batch()?,
            Source::Threads(scan) => scan.next_batch()?,
        };
        let Some(batch) = batch else { return Ok(None) };
        let len = usize::try_from(self.rest).unwrap_or(usize::MAX).min(batch.num_rows());
        self.rest -= len as u64;
        Ok(Some(if len < batch.num_rows() { batch.slice(0, len) } else { batch }))
    }
}

impl Iterator for Scan {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        // Also after a panic there is nothing more: some rows would be missing.
        let mut source = std::mem::replace(&mut self.source, Source::Ended);
        let next = self.next_batch(&mut source);
        if matches!(next, Ok(Some(_))) {
            self.source = source;
        }
        next.transpose()
    }
}

impl KeyPartition {
    /// Starts to scan it, in the thread that asks for batches.
    pub fn scan(&self) -> Result<Scan> {
        Ok(Scan::of(self, Source::Caller(HeldScan::start(self).into())))
    }
}

/// How many threads there is work for: what is read beyond the limit is read for nothing.
fn useful_threads(partition: &KeyPartition, request: &ScanRequest) -> Result<usize> {
    let limit = request.limit.unwrap_or(u64::MAX);
    let of_limit = limit / request.partition_rows.unwrap_or(PARTITION_ROWS).max(1);
    let worth = partition.worth(request.partition_rows) as u64;
    let threads = request.threads.or(partition.memory().scan_threads());
    threads_for(threads, worth.min(of_limit), 1)
}

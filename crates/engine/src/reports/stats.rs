//! What a database holds and does, in numbers.

use std::sync::Arc;

use drillcore_format::ids::Lsn;
use drillcore_format::schema::TableSchema;
use drillcore_storage::log::reading::LogRead;
use drillcore_storage::pages::page_cache::PageCache;
use drillcore_storage::segments::segment::Segment;
use serde::ser::Error as _;
use serde::{Serialize, Serializer};

use crate::error::{Error, Result};
use crate::pieces::memory_meter::MemoryMeter;
use crate::pieces::piece::{Piece, SortedArray};
use crate::pieces::rows_examined::RowsExamined;
use crate::pieces::run::Run;
use crate::state::core::Core;
use crate::state::guarded::State;
use crate::state::levels::levels;
use crate::state::table_state::rows_to_index;
use crate::state::version::{TableVersion, Version};

/// Numbers of a whole database at one moment, of the writer or as of the last refresh of a reader. What is in
/// memory and what was read is counted in the process that is asked.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// let stats = flights.database().stats()?;
/// assert!(stats.row_bytes > 0);
/// println!("{}", stats.to_json());
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// One per table, in order of their names.
    pub tables: Vec<TableStats>,
    /// The newest visible commit.
    #[serde(serialize_with = "number")]
    pub lsn: Lsn,
    /// Rows in memory that new snapshots see; of a writer also appends and compactions under way.
    pub buffered_bytes: u64,
    /// All rows in memory, including those that only older snapshots hold, and the times of rows that expire next.
    pub row_bytes: u64,
    /// Lists of rows that reads leave for later ones: of rows that meet a condition, of sets that are not indexed, and of rows
    /// of such tables as fold keys. A quarter of `memory_bytes` at most, but for the longest; in a reader 128 MiB. And the running sums of
    /// sets in memory that were drawn from by weight: half as much, but for the longest.
    pub list_bytes: u64,
    /// Bitmaps of the rows that are alive in tables whose keys fold.
    pub liveness_bytes: u64,
    /// Bytes of pages in the cache.
    pub cache_bytes: u64,
    /// Of these, index pages that stay while their segments are open.
    pub cache_index_bytes: u64,
    /// The most bytes that the cache takes.
    pub cache_bytes_limit: u64,
    /// Bytes of the log.
    pub wal_bytes: u64,
    /// Bytes of the log that the last refresh read; `None` of the writer.
    pub refresh_bytes: Option<u64>,
    /// Rows in memory whose keys were compared or whose values were handed on, by reads, compactions in memory and flushes.
    pub rows_examined: u64,
    /// What has the reads of one call under way at the same time: `io_uring`, or `threads` where the system or
    /// an option forbids that.
    pub reads_by: &'static str,
    /// Whether segments are read past the cache of the operating system: the option `direct_io` asks for it, and no file system has
    /// refused it so far.
    pub direct_io: bool,
    /// Index pages read from files.
    pub index_pages_read: u64,
    /// Pages of filters over keys read from files.
    pub filter_pages_read: u64,
    /// Blocks of rows read from files.
    pub blocks_read: u64,
    /// Pages of set indexes read from files.
    pub set_pages_read: u64,
    /// Pages of zone maps read from files.
    pub statistics_pages_read: u64,
    /// Pages of columns that lie by themselves, with their dictionaries and directories, read from disk.
    pub stream_pages_read: u64,
    /// Values of more than 1 KB, which lie apart from their rows, read from disk.
    pub long_values_read: u64,
    /// Bytes of all these pages.
    pub bytes_read: u64,
    /// Blocks read in vain because a filter let a key through.
    pub filter_false_positives: u64,
    /// Blocks that scans left out because statistics say that no row of theirs passes.
    pub blocks_pruned: u64,
    /// `None` of a reader.
    #[serde(flatten, serialize_with = "or_nulls")]
    pub writer: Option<WriterStats>,
}

/// What only the process that writes knows; counted since it opened the database.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// let db = flights.database();
/// db.flush()?;
/// let writer = db.stats()?.writer.expect("this database was opened for writing");
/// assert_eq!((writer.flushes, writer.rows_written, writer.failure), (1, 100, None));
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WriterStats {
    /// The option `memory_bytes`.
    pub memory_bytes_limit: u64,
    /// Files that wait to be removed: reader processes may still need them, or they could not be removed.
    pub held_back_bytes: u64,
    /// Leases of readers that could not be tried, as of other users, and therefore count as held: one message per
    /// lease, with the name of the file.
    pub untried_leases: Vec<String>,
    /// Files that are no longer needed but could not be removed yet: one message per file.
    pub unremoved_files: Vec<String>,
    /// How often the log was synced.
    pub wal_syncs: u64,
    /// How long appends were made to wait, all together.
    pub stall_seconds: f64,
    /// Of that, for merges: a table had more than 16 levels left to merge.
    pub merge_stall_seconds: f64,
    /// How often neighbouring runs were made one.
    pub memory_compactions: u64,
    /// How often runs were written to a segment.
    pub flushes: u64,
    /// How often segments were merged.
    pub merges: u64,
    /// Segments whose sets were indexed after they were written.
    pub segments_indexed: u64,
    /// How often rows went to files that only snapshots hold.
    pub snapshot_spills: u64,
    /// Rows that flushes and merges wrote.
    pub rows_written: u64,
    /// Lists of sets of segments that are being written or indexed.
    pub set_list_bytes: u64,
    /// Rows in memory that only snapshots and scans hold, all together. They go to files once all rows in memory take seven eighths of
    /// what `memory_bytes_limit` has for rows; from all of it on, writers are slowed for their sake.
    pub snapshot_row_bytes: u64,
    /// The commit of the oldest snapshot held in this process, if there were commits or maintenance since; named
    /// snapshots do not count.
    #[serde(serialize_with = "number_or_null")]
    pub oldest_snapshot_lsn: Option<Lsn>,
    /// Rows in memory that it shows and new snapshots do not, as far as they are held.
    pub oldest_snapshot_row_bytes: u64,
    /// Files that are held of what it shows and new snapshots do not.
    pub oldest_snapshot_file_bytes: u64,
    /// Why the database is read-only, if it is.
    pub failure: Option<String>,
}

/// Numbers of one table.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// let stats = flights.database().stats()?;
/// let table = &stats.tables[0];
/// assert_eq!((table.name.as_str(), table.rows, table.segments), ("flights", 100, 0));
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TableStats {
    /// The table's name.
    pub name: String,
    /// Rows stored: in an upsert table with rows that newer ones replace and tombstones, and in any table with those that
    /// were deleted and not reclaimed yet.
    pub rows: u64,
    /// Of these, rows that were deleted by a condition and are left to reclaim.
    pub erased_rows: u64,
    /// Pieces in memory.
    pub runs: u64,
    /// Bytes of these.
    pub run_bytes: u64,
    /// Pieces on disk.
    pub segments: u64,
    /// How many levels these make: neighbours whose keys do not overlap read like one. Merges make them fewer.
    pub levels: u64,
    /// Of their files, those of set indexes beside them included.
    pub segment_bytes: u64,
    /// Bytes that segments hold in memory: their summaries.
    pub segment_resident_bytes: u64,
    /// Which sets are indexed; `None` of a table without sets.
    pub indexed_sets: Option<IndexedSetsStats>,
    /// Why rows are not written out, if they should be and it was put off: too little room on the disk, or too
    /// few file descriptors. It is tried again. `None` of a reader.
    pub flush_put_off: Option<String>,
    /// As `flush_put_off`: why segments are not merged, or their sets not indexed.
    pub merge_put_off: Option<String>,
    /// Since the writer opened the database; equal keys of a batch are folded first. `None` of a reader.
    pub appended_rows: Option<u64>,
    /// As `appended_rows`.
    pub appended_batches: Option<u64>,
}

/// Which sets of a table are indexed.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// let stats = flights.database().stats()?;
/// let indexed = stats.tables[0].indexed_sets.as_ref().expect("the table has a set column");
/// assert!(indexed.all && indexed.rows_to_index == 0);
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct IndexedSetsStats {
    /// Whether all are but the exceptions, not only these.
    pub all: bool,
    /// How many sets are the exceptions.
    pub exceptions: u64,
    /// Rows of segments whose lists are not whole yet.
    pub rows_to_index: u64,
    /// Why they are not being listed, if so. Switching sets, or opening the database anew, tries again.
    pub fault: Option<String>,
}

impl Stats {
    pub(crate) fn read(core: &Core) -> Result<Stats> {
        let mut state = core.open_state()?;
        let visible = core.visible();
        state.settle(visible);
        let tables = state.tables.values().map(|table| {
            let runs = table.runs.iter().map(|slot| &*slot.piece);
            let segments = table.segments.iter().map(|slot| &*slot.piece);
            TableStats {
                run_bytes: table.run_bytes(),
                indexed_sets: IndexedSetsStats::of(
                    &table.schema,
                    table.rows_to_index(),
                    table.index_fault.as_ref(),
                ),
                flush_put_off: table
                    .flush_put_off
                    .as_ref()
                    .map(|put_off| put_off.why().to_string()),
                merge_put_off: table.why_not_merged().map(Error::to_string),
                appended_rows: Some(table.appended_rows),
                appended_batches: Some(table.appended_batches),
                erased_rows: table.pieces().iter().map(Piece::erased_rows).sum(),
                ..TableStats::of(
                    &table.name,
                    runs.filter(|run| run.lsns().last <= visible),
                    segments,
                )
            }
        });
        let oldest = state.oldest_snapshot();
        let older = oldest.as_ref().map_or(&[][..], |oldest| &oldest.tables);
        let (oldest_row_bytes, oldest_file_bytes) = held_alone(&state, older);
        let removals = core.removals.report();
        Ok(Stats {
            tables: tables.collect(),
            lsn: visible,
            buffered_bytes: state.buffered_bytes,
            wal_bytes: core.wal.get().map_or(0, |wal| wal.bytes()),
            writer: Some(WriterStats {
                memory_bytes_limit: core.options.memory_bytes,
                held_back_bytes: removals.bytes,
                untried_leases: removals.untried_leases,
                unremoved_files: removals.unremoved_files,
                wal_syncs: core.wal.get().map_or(0, |wal| wal.syncs()),
                stall_seconds: state.stall.as_secs_f64(),
                merge_stall_seconds: state.merge_stall.as_secs_f64(),
                memory_compactions: state.counts.memory_compactions,
                flushes: state.counts.flushes,
                merges: state.counts.merges,
                segments_indexed: state.counts.segments_indexed,
                snapshot_spills: state.counts.snapshot_spills,
                rows_written: state.counts.rows_written,
                set_list_bytes: core.meter.set_list_bytes(),
                snapshot_row_bytes: core.held_row_bytes(&state),
                oldest_snapshot_lsn: oldest.map(|oldest| oldest.lsn),
                oldest_snapshot_row_bytes: oldest_row_bytes,
                oldest_snapshot_file_bytes: oldest_file_bytes,
                failure: state.failure.as_ref().map(ToString::to_string),
            }),
            ..Stats::of_process(&core.cache, &core.meter, &core.rows_examined)
        })
    }

    /// The numbers of a reader.
    pub(crate) fn of_reader(
        version: &Version,
        log: &LogRead,
        cache: &PageCache,
        meter: &MemoryMeter,
        examined: &RowsExamined,
    ) -> Stats {
        let tables = version.tables.values().map(|table| {
            let pieces = table.pieces.now();
            let runs = pieces.iter().filter_map(Piece::run).map(AsRef::as_ref);
            let segments = pieces.iter().filter_map(Piece::segment).map(AsRef::as_ref);
            let rows_to_index = rows_to_index(&table.schema, segments.clone());
            TableStats {
                indexed_sets: IndexedSetsStats::of(&table.schema, rows_to_index, None),
                erased_rows: pieces.iter().map(Piece::erased_rows).sum(),
                ..TableStats::of(&table.name, runs, segments)
            }
        });
        let tables: Vec<TableStats> = tables.collect();
        Stats {
            lsn: version.lsn(),
            buffered_bytes: tables.iter().map(|table| table.run_bytes).sum(),
            wal_bytes: log.bytes,
            refresh_bytes: Some(log.bytes_read),
            tables,
            ..Stats::of_process(cache, meter, examined)
        }
    }

    /// What this process holds and has read.
    fn of_process(cache: &PageCache, meter: &MemoryMeter, examined: &RowsExamined) -> Stats {
        let io = cache.counts().read();
        Stats {
            row_bytes: meter.all_row_bytes() + meter.time_bytes(),
            list_bytes: meter.list_bytes(),
            liveness_bytes: meter.alive_bytes(),
            cache_bytes: cache.bytes(),
            cache_index_bytes: cache.index_bytes(),
            reads_by: cache.reads_by(),
            direct_io: cache.reads_past_cache(),
            cache_bytes_limit: cache.budget_bytes(),
            rows_examined: examined.total(),
            index_pages_read: io.index_pages,
            filter_pages_read: io.filter_pages,
            blocks_read: io.blocks,
            set_pages_read: io.set_pages,
            statistics_pages_read: io.statistics_pages,
            stream_pages_read: io.stream_pages,
            long_values_read: io.extents,
            bytes_read: io.bytes,
            filter_false_positives: io.filter_false_positives,
            blocks_pruned: io.blocks_pruned,
            ..Stats::default()
        }
    }

    /// The numbers as one JSON object, field by field, those of the writer among the others; null is what a
    /// reader does not know.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and texts have a form in JSON")
    }
}

fn number<S: Serializer>(lsn: &Lsn, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    lsn.0.serialize(serializer)
}

fn number_or_null<S: Serializer>(
    lsn: &Option<Lsn>,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    lsn.map(|lsn| lsn.0).serialize(serializer)
}

/// The fields of the writer by name, of a reader all with null.
fn or_nulls<S: Serializer>(
    writer: &Option<WriterStats>,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    let of_none = WriterStats::default();
    let fields = serde_json::to_value(writer.as_ref().unwrap_or(&of_none));
    let fields = fields.map_err(S::Error::custom)?;
    let fields = fields.as_object().expect("a struct is an object");
    serializer
        .collect_map(fields.iter().map(|(name, value)| (name, writer.as_ref().map(|_| value))))
}

/// Bytes of the runs and of the segments in older versions of tables that the tables have no more.
fn held_alone(state: &State, older: &[Arc<TableVersion>]) -> (u64, u64) {
    let (mut row_bytes, mut file_bytes) = (0, 0);
    for version in older {
        let table = state.tables.get(&version.id);
        for piece in version.pieces.now().iter() {
            match &piece.array {
                SortedArray::Run(run) => {
                    let mut runs = table.iter().flat_map(|table| &table.runs);
                    if !runs.any(|slot| Arc::ptr_eq(&slot.piece, run)) {
                        row_bytes += run.bytes();
                    }
                }
                SortedArray::Segment(segment) => {
                    if segment.is_to_be_removed() {
                        file_bytes += segment.disk_bytes();
                    }
                }
            }
        }
    }
    (row_bytes, file_bytes)
}

impl IndexedSetsStats {
    fn of(
        schema: &TableSchema,
        rows_to_index: u64,
        fault: Option<&Error>,
    ) -> Option<IndexedSetsStats> {
        let indexed = &schema.set.as_ref()?.indexed;
        let (all, exceptions) =
            (indexed.is_all_but_exceptions(), indexed.exceptions().len() as u64);
        let fault = fault.map(ToString::to_string);
        Some(IndexedSetsStats { all, exceptions, rows_to_index, fault })
    }
}

impl TableStats {
    fn of<'a>(
        name: &str,
        runs: impl Iterator<Item = &'a Run> + Clone,
        segments: impl Iterator<Item = &'a Segment> + Clone,
    ) -> TableStats {
        TableStats {
            name: name.to_string(),
            rows: runs.clone().map(Run::rows).sum::<u64>()
                + segments.clone().map(Segment::rows).sum::<u64>(),
            erased_rows: 0,
            runs: runs.clone().count() as u64,
            run_bytes: runs.map(Run::bytes).sum(),
            segments: segments.clone().count() as u64,
            levels: levels(segments.clone()).len() as u64,
            segment_bytes: segments.clone().map(Segment::disk_bytes).sum(),
            segment_resident_bytes: segments.map(Segment::resident_bytes).sum(),
            indexed_sets: None,
            flush_put_off: None,
            merge_put_off: None,
            appended_rows: None,
            appended_batches: None,
        }
    }
}

//! What a database holds and does, in numbers.

use std::fmt::Write;

use crate::core::Core;
use crate::error::Result;

/// Numbers of a whole database at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stats {
    pub tables: Vec<TableStats>,
    /// The newest visible commit.
    pub lsn: u64,
    pub memory_bytes_limit: u64,
    /// Rows in memory that new snapshots see, appends under way and joins under way.
    pub buffered_bytes: u64,
    /// All rows in memory, including those that only older snapshots hold.
    pub row_bytes: u64,
    pub cache_bytes: u64,
    pub cache_bytes_limit: u64,
    /// Files that only reader processes still need.
    pub held_back_bytes: u64,
    pub wal_bytes: u64,
    pub wal_syncs: u64,
    /// How long appends were made to wait, all together.
    pub stall_seconds: f64,
    pub joins: u64,
    pub spills: u64,
    pub merges: u64,
    /// Rows that spills and merges wrote.
    pub rows_written: u64,
    /// Rows in memory whose keys were compared or whose values were handed on, by reads, joins and spills.
    pub rows_examined: u64,
    /// Pages read from files.
    pub index_pages_read: u64,
    pub blocks_read: u64,
    pub set_pages_read: u64,
    pub statistics_pages_read: u64,
    pub bytes_read: u64,
    /// Blocks read in vain because a filter let a key through.
    pub filter_false_positives: u64,
    /// Blocks that scans left out because statistics say that no row of theirs passes.
    pub blocks_pruned: u64,
    /// Why the database is read-only, if it is.
    pub failure: Option<String>,
}

/// Numbers of one table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TableStats {
    pub name: String,
    /// In an upsert table, with rows that newer ones replace and tombstones.
    pub rows: u64,
    pub runs: u64,
    pub run_bytes: u64,
    pub segments: u64,
    pub segment_bytes: u64,
    pub segment_resident_bytes: u64,
    /// Since the database was opened; equal keys of a batch are folded first.
    pub appended_rows: u64,
    pub appended_batches: u64,
}

impl Stats {
    pub(crate) fn read(core: &Core) -> Result<Stats> {
        let state = core.state();
        state.check_open()?;
        let visible = core.visible();
        let tables = state.tables.values().map(|table| {
            let runs = || table.runs.iter().filter(|slot| slot.piece.lsns().last <= visible);
            let segments = || table.segments.iter().map(|slot| &slot.piece);
            TableStats {
                name: table.name.to_string(),
                rows: runs().map(|slot| slot.piece.rows()).sum::<u64>()
                    + segments().map(|segment| segment.rows()).sum::<u64>(),
                runs: runs().count() as u64,
                run_bytes: table.run_bytes(),
                segments: table.segments.len() as u64,
                segment_bytes: segments().map(|segment| segment.bytes()).sum(),
                segment_resident_bytes: segments().map(|segment| segment.resident_bytes()).sum(),
                appended_rows: table.appended_rows,
                appended_batches: table.appended_batches,
            }
        });
        let io = core.cache.counts().read();
        Ok(Stats {
            tables: tables.collect(),
            lsn: visible.0,
            memory_bytes_limit: core.options.memory_bytes,
            buffered_bytes: state.buffered_bytes,
            row_bytes: core.meter.bytes(),
            cache_bytes: core.cache.bytes(),
            cache_bytes_limit: core.cache.budget_bytes(),
            held_back_bytes: core.removals.bytes(),
            wal_bytes: core.wal.get().map_or(0, |wal| wal.bytes()),
            wal_syncs: core.wal.get().map_or(0, |wal| wal.syncs()),
            stall_seconds: state.stall.as_secs_f64(),
            joins: state.counts.joins,
            spills: state.counts.spills,
            merges: state.counts.merges,
            rows_written: state.counts.rows_written,
            rows_examined: core.rows_examined.total(),
            index_pages_read: io.index_pages,
            blocks_read: io.blocks,
            set_pages_read: io.set_pages,
            statistics_pages_read: io.statistics_pages,
            bytes_read: io.bytes,
            filter_false_positives: io.filter_false_positives,
            blocks_pruned: io.blocks_pruned,
            failure: state.failure.as_ref().map(ToString::to_string),
        })
    }

    /// The numbers as one JSON object, field by field.
    pub fn to_json(&self) -> String {
        let mut json = String::from("{\"tables\":[");
        for (number, table) in self.tables.iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            let TableStats { rows, runs, run_bytes, segments, segment_bytes, .. } = table;
            let TableStats { segment_resident_bytes, appended_rows, appended_batches, .. } = table;
            let name = json_string(&table.name);
            let _ = write!(
                json,
                "{comma}{{\"name\":{name},\"rows\":{rows},\"runs\":{runs},\"run_bytes\":{run_bytes},\
                 \"segments\":{segments},\"segment_bytes\":{segment_bytes},\
                 \"segment_resident_bytes\":{segment_resident_bytes},\
                 \"appended_rows\":{appended_rows},\"appended_batches\":{appended_batches}}}"
            );
        }
        json.push(']');
        let numbers: [(&str, u64); 21] = [
            ("lsn", self.lsn),
            ("memory_bytes_limit", self.memory_bytes_limit),
            ("buffered_bytes", self.buffered_bytes),
            ("row_bytes", self.row_bytes),
            ("cache_bytes", self.cache_bytes),
            ("cache_bytes_limit", self.cache_bytes_limit),
            ("held_back_bytes", self.held_back_bytes),
            ("wal_bytes", self.wal_bytes),
            ("wal_syncs", self.wal_syncs),
            ("joins", self.joins),
            ("spills", self.spills),
            ("merges", self.merges),
            ("rows_written", self.rows_written),
            ("rows_examined", self.rows_examined),
            ("index_pages_read", self.index_pages_read),
            ("blocks_read", self.blocks_read),
            ("set_pages_read", self.set_pages_read),
            ("statistics_pages_read", self.statistics_pages_read),
            ("bytes_read", self.bytes_read),
            ("filter_false_positives", self.filter_false_positives),
            ("blocks_pruned", self.blocks_pruned),
        ];
        for (name, value) in numbers {
            let _ = write!(json, ",\"{name}\":{value}");
        }
        let failure = self.failure.as_deref().map_or("null".to_string(), json_string);
        let _ = write!(json, ",\"stall_seconds\":{},\"failure\":{failure}}}", self.stall_seconds);
        json
    }
}

fn json_string(text: &str) -> String {
    let mut json = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                json.push('\\');
                json.push(c);
            }
            c if (c as u32) < 0x20 => {
                let _ = write!(json, "\\u{:04x}", c as u32);
            }
            c => json.push(c),
        }
    }
    json.push('"');
    json
}

//! Rows that expire, in tables of every merge policy.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::{Int64Type, TimestampSecondType};
use drillcore::arrow_array::{
    ArrayRef, Int64Array, RecordBatch, StringArray, TimestampSecondArray,
};
use drillcore::arrow_schema::{DataType, Field, Schema, TimeUnit};
use drillcore::*;

use crate::fixtures::{of_set, schema_of};

const HOUR: i64 = 3_600;

/// Kinds of tables: what their key is made of, and what equal keys mean.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    AppendByTime,
    AppendById,
    UpsertByTime,
    UpsertById,
    Rollup,
}

const KINDS: [Kind; 5] =
    [Kind::AppendByTime, Kind::AppendById, Kind::UpsertByTime, Kind::UpsertById, Kind::Rollup];

/// A row: its id, and how many hours ago it was, less half an hour, so that no hour begins during a test.
type Row = (i64, i64);

fn now() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() as i64
}

struct Events {
    kind: Kind,
    /// When the test began.
    now: i64,
    /// The steps of a rollup table.
    granularity: Granularity,
}

impl Events {
    fn new(kind: Kind) -> Events {
        Events { kind, now: now(), granularity: Granularity::MINUTE }
    }

    fn schema() -> Arc<Schema> {
        schema_of(&[
            ("id", DataType::Int64, false),
            ("at", DataType::Timestamp(TimeUnit::Second, None), true),
            ("group", DataType::Utf8, false),
            ("w", DataType::Int64, false),
        ])
    }

    fn spec(&self) -> TableSpec {
        let by_time = ["at", "id", "group"];
        let spec = |key: &[&str]| TableSpec::new(Events::schema(), key.to_vec()).set("group");
        match self.kind {
            Kind::AppendByTime => spec(&by_time).weights(["w"]),
            Kind::AppendById => spec(&["id"]).weights(["w"]),
            Kind::UpsertByTime => spec(&by_time).weights(["w"]).merge(Merge::Upsert),
            Kind::UpsertById => spec(&["id"]).weights(["w"]).merge(Merge::Upsert),
            Kind::Rollup => {
                let folded = RollupSpec::default().time("at", self.granularity);
                let folded = folded.metric("w", Metric::sum("w"));
                spec(&["id", "at", "group"]).merge(Merge::Rollup(folded))
            }
        }
    }

    fn at(&self, age: i64) -> i64 {
        self.now - age * HOUR + HOUR / 2
    }

    fn batch(&self, rows: &[Row]) -> RecordBatch {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|(id, _)| *id))),
            Arc::new(TimestampSecondArray::from_iter_values(
                rows.iter().map(|(_, age)| self.at(*age)),
            )),
            Arc::new(StringArray::from_iter_values(rows.iter().map(|(id, _)| group(*id)))),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|_| 1))),
        ];
        RecordBatch::try_new(Events::schema(), columns).unwrap()
    }

    fn append(&self, table: &Table, rows: &[Row]) {
        let options = AppendOptions { on_error: OnError::Raise, fill_nulls: true };
        table.append(&self.batch(rows), options).unwrap();
    }

    /// All rows that a scan shows, in order, each as often as it is there.
    fn rows(&self, snapshot: &TableSnapshot, selection: &Selection) -> Vec<Row> {
        let columns = Some(["id", "at", "w"].map(String::from).to_vec());
        let selection = selection.clone();
        let scan = snapshot.scan(ScanRequest { columns, selection, ..Default::default() }).unwrap();
        let mut rows = Vec::new();
        for batch in scan {
            let batch = batch.unwrap();
            let ids = batch.column(0).as_primitive::<Int64Type>();
            let times = batch.column(1).as_primitive::<TimestampSecondType>();
            let events = batch.column(2).as_primitive::<Int64Type>();
            for row in 0..batch.num_rows() {
                // Of a rollup the minute.
                let age = (self.now + HOUR / 2 - times.value(row)).div_euclid(HOUR);
                rows.extend(vec![(ids.value(row), age); events.value(row) as usize]);
            }
        }
        rows.sort_unstable();
        rows
    }

    /// Every way to ask says that these are the rows.
    fn check(&self, snapshot: &TableSnapshot, expected: &[Row], what: &str) {
        let everything = Selection::default();
        let rows = self.rows(snapshot, &everything);
        assert_eq!(rows, expected, "{:?}: {what}", self.kind);
        assert_eq!(snapshot.count_events(&everything).unwrap(), rows.len() as u64, "{what}");
        let mut shown = rows.clone();
        if self.kind == Kind::Rollup {
            shown.dedup();
        }
        assert_eq!(snapshot.rows().unwrap(), shown.len() as u64, "{:?}: {what}", self.kind);
        let mut of_groups: BTreeMap<String, u64> = BTreeMap::new();
        shown.iter().for_each(|(id, _)| *of_groups.entry(group(*id)).or_default() += 1);
        let sets = snapshot.sets().unwrap();
        let values = sets.values.as_string::<i32>();
        let listed = values.iter().flatten().map(String::from).zip(sets.rows.iter().copied());
        assert_eq!(listed.collect::<BTreeMap<_, _>>(), of_groups, "{:?}: {what}", self.kind);
        for number in 0..3 {
            let one = of_set(&group(number));
            let of_group: Vec<Row> =
                rows.iter().filter(|(id, _)| id % 3 == number).copied().collect();
            assert_eq!(self.rows(snapshot, &one), of_group, "{:?}: {what}", self.kind);
        }
        let sample = |weight: Option<&str>| {
            let n = rows.len() as u64 + 1;
            let weight = weight.map(String::from);
            let request = SampleRequest { n, weight, at_most: true, ..Default::default() };
            snapshot.sample(&request).unwrap().num_rows()
        };
        assert_eq!(sample(None), rows.len(), "{:?}: {what}", self.kind);
        if self.kind != Kind::Rollup {
            assert_eq!(sample(Some("w")), rows.len(), "{:?}: {what}", self.kind);
        }
        let estimate = EstimateRequest {
            aggregates: vec![("n".into(), Aggregate::Count)],
            ..EstimateRequest::default()
        };
        let estimate = snapshot.estimate(&estimate).unwrap();
        assert_eq!(estimate.aggregates[0].intervals[0].value, shown.len() as f64, "{what}");
        assert!(estimate.exact, "{:?}: {what}", self.kind);
    }
}

fn group(id: i64) -> String {
    format!("g{}", id % 3)
}

fn hours(hours: i64) -> Option<(&'static str, Duration)> {
    Some(("at", Duration::from_secs((hours * HOUR) as u64)))
}

/// 600 rows, up to a day old.
fn some_rows() -> Vec<Row> {
    (0..600).map(|id| (id, id * 7 % 25)).collect()
}

fn younger_than(rows: &[Row], hours: i64) -> Vec<Row> {
    let mut kept: Vec<Row> = rows.iter().filter(|(_, age)| *age <= hours).copied().collect();
    kept.sort_unstable();
    kept
}

#[test]
fn what_has_expired_is_shown_nowhere_and_never_comes_back() {
    for kind in KINDS {
        let events = Events::new(kind);
        let folder = tempfile::tempdir().unwrap();
        let open = || Database::open(folder.path(), Options::default()).unwrap();
        let mut db = open();
        let day = Duration::from_secs(24 * HOUR as u64);
        let mut table = db.create_table("t", events.spec().ttl("at", day)).unwrap();
        let rows = some_rows();
        events.append(&table, &rows[..300]);
        events.check(&table.snapshot().unwrap(), &younger_than(&rows[..300], 24), "in memory");
        db.flush().unwrap();
        events.append(&table, &rows[300..]);
        let before = table.snapshot().unwrap();
        events.check(&before, &younger_than(&rows, 24), "in both");
        db.named_snapshot("before").unwrap();
        table.set_ttl(hours(12)).unwrap();
        events.check(&table.snapshot().unwrap(), &younger_than(&rows, 12), "after half a day");
        events.check(&before, &younger_than(&rows, 24), "a snapshot stays as it is");
        table.set_ttl(hours(24)).unwrap();
        events.check(&table.snapshot().unwrap(), &younger_than(&rows, 12), "kept longer");
        let reader = Database::open_read_only(folder.path(), ReadOptions::default()).unwrap();
        let read = reader.table("t").unwrap();
        events.check(&read.snapshot().unwrap(), &younger_than(&rows, 12), "in a reader");
        table.set_ttl(hours(6)).unwrap();
        reader.refresh().unwrap();
        events.check(&read.snapshot().unwrap(), &younger_than(&rows, 6), "in a reader");
        table.set_ttl(None).unwrap();
        reader.refresh().unwrap();
        events.check(&read.snapshot().unwrap(), &younger_than(&rows, 6), "in a reader, for good");
        for step in ["compacted", "opened anew"] {
            match step {
                "compacted" => db.compact().unwrap(),
                _ => {
                    db.close().unwrap();
                    db = open();
                    table = db.table("t").unwrap();
                }
            }
            events.check(&table.snapshot().unwrap(), &younger_than(&rows, 6), step);
            let kept = db.named_snapshot("before").unwrap().table("t").unwrap();
            events.check(&kept, &younger_than(&rows, 24), step);
        }
        assert_eq!(table.schema().ttl, None);
        // What comes later is new, however old it says to be.
        events.append(&table, &[(1_000, 20)]);
        let mut expected = younger_than(&rows, 6);
        expected.push((1_000, 20));
        events.check(&table.snapshot().unwrap(), &expected, "for good");
    }
}

#[test]
fn the_newest_version_of_a_row_tells_when_it_expires() {
    let events = Events::new(Kind::UpsertById);
    for is_flushed in [false, true] {
        let db = Database::in_memory(Options::default()).unwrap();
        let table = db.create_table("t", events.spec()).unwrap();
        table.set_ttl(hours(6)).unwrap();
        events.append(&table, &[(1, 1), (2, 10), (3, 1)]);
        if is_flushed {
            db.flush().unwrap();
        }
        // 1 is older than its older version, 2 is younger.
        events.append(&table, &[(1, 10), (2, 1)]);
        let expected = [(2, 1), (3, 1)];
        events.check(&table.snapshot().unwrap(), &expected, "by the newest");
        let keys = |ids: Vec<i64>| vec![Arc::new(Int64Array::from(ids)) as ArrayRef];
        let found = table.snapshot().unwrap().get(&keys(vec![1, 2, 3, 4]), None).unwrap();
        assert_eq!(found.positions, [None, Some(0), Some(1), None]);
        let change = |id: i64| {
            let id = Arc::new(Int64Array::from(vec![id])) as ArrayRef;
            let w = Arc::new(Int64Array::from(vec![1])) as ArrayRef;
            let batch = RecordBatch::try_from_iter([("id", id), ("w", w)]).unwrap();
            table.update(&[batch], Missing::Error)
        };
        assert_eq!(change(1).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(change(2).unwrap().rows, 1);
        assert_eq!(table.delete(&keys(vec![1, 4])).unwrap().rows, 0);
        db.compact().unwrap();
        events.check(&table.snapshot().unwrap(), &expected, "compacted");
        table.set_ttl(None).unwrap();
        events.check(&table.snapshot().unwrap(), &expected, "for good");
        db.flush().unwrap();
        db.compact().unwrap();
        events.check(&table.snapshot().unwrap(), &expected, "for good, compacted");
    }
}

#[test]
fn a_delete_counts_what_was_shown() {
    for kind in KINDS {
        let events = Events::new(kind);
        let db = Database::in_memory(Options::default()).unwrap();
        let table = db.create_table("t", events.spec()).unwrap();
        table.set_ttl(hours(6)).unwrap();
        let rows = some_rows();
        events.append(&table, &rows);
        let shown = younger_than(&rows, 6);
        let of_group = shown.iter().filter(|(id, _)| id % 3 == 1).count();
        assert_eq!(table.delete_selected(&of_set("g1")).unwrap().rows, of_group as u64, "{kind:?}");
        let rest = shown.len() - of_group;
        assert_eq!(table.truncate().unwrap().rows, rest as u64, "{kind:?}");
    }
}

#[test]
fn rows_expire_while_time_passes_and_named_snapshots_keep_them() {
    // Each waits until its rows have expired.
    std::thread::scope(|scope| {
        for kind in KINDS {
            scope.spawn(move || expire_while_time_passes(kind));
        }
    });
}

fn expire_while_time_passes(kind: Kind) {
    let mut events = Events { granularity: Granularity::SECOND, ..Events::new(kind) };
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", events.spec()).unwrap();
    table.set_ttl(hours(6)).unwrap();
    // The rows are a little younger than six hours, and then as old. A step of a rollup table lasts a second more.
    let lasts = 3;
    events.now += lasts - HOUR / 2;
    let rows: Vec<Row> = (0..100).map(|id| (id, 6)).collect();
    events.append(&table, &rows);
    events.append(&table, &[(200, 1)]);
    db.flush().unwrap();
    let reader = Database::open_read_only(folder.path(), ReadOptions::default()).unwrap();
    let before = table.snapshot().unwrap();
    let kept = db.named_snapshot("kept").unwrap().table("t").unwrap();
    let seen_by_reader = reader.table("t").unwrap().snapshot().unwrap();
    assert_eq!(before.rows().unwrap(), 101, "{kind:?}");
    std::thread::sleep(Duration::from_secs(lasts as u64 + 1));
    assert_eq!(table.snapshot().unwrap().rows().unwrap(), 1, "{kind:?}");
    assert_eq!(reader.table("t").unwrap().snapshot().unwrap().rows().unwrap(), 1, "{kind:?}");
    for snapshot in [before, kept, seen_by_reader] {
        assert_eq!(snapshot.rows().unwrap(), 101, "{kind:?}");
    }
    db.close().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let kept = db.named_snapshot("kept").unwrap().table("t").unwrap();
    assert_eq!(kept.rows().unwrap(), 101, "{kind:?}: opened anew");
    assert_eq!(db.table("t").unwrap().snapshot().unwrap().rows().unwrap(), 1, "{kind:?}");
}

#[test]
fn the_space_of_what_has_expired_comes_back_by_itself() {
    for kind in [Kind::AppendByTime, Kind::AppendById, Kind::UpsertById] {
        let events = Events::new(kind);
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open(folder.path(), Options::default()).unwrap();
        let table = db.create_table("t", events.spec()).unwrap();
        let rows: Vec<Row> = (0..20_000).map(|id| (id, 2 + id % 20)).collect();
        events.append(&table, &rows);
        db.flush().unwrap();
        let full = db.stats().unwrap().tables[0].segment_bytes;
        table.set_ttl(hours(1)).unwrap();
        events.append(&table, &[(30_000, 1)]);
        db.flush().unwrap();
        let bytes = || db.stats().unwrap().tables[0].segment_bytes;
        for _ in 0..600 {
            if bytes() < full / 4 {
                break;
            }
            // Tombstones go with the rows that they hide, once both are merged.
            db.flush().unwrap();
            db.compact().unwrap();
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(bytes() < full / 4, "{kind:?}: {} of {full} bytes are left", bytes());
        events.check(&table.snapshot().unwrap(), &[(30_000, 1)], "reclaimed");
    }
}

/// The row that was appended last may have expired before one that it hides.
#[test]
fn a_key_has_its_newest_row_that_has_not_expired() {
    let rows: [Row; 8] = [(1, 1), (1, 2), (1, 9), (2, 8), (2, 9), (3, 1), (4, 9), (4, 2)];
    let expected = [Some(2), None, Some(1), Some(2), None];
    let events = Events::new(Kind::AppendById);
    for parts in [1, 2, 8] {
        let db = Database::in_memory(Options::default()).unwrap();
        let _hold = db.hold_maintenance();
        let table = db.create_table("t", events.spec()).unwrap();
        table.set_ttl(hours(4)).unwrap();
        rows.chunks(8 / parts).for_each(|rows| events.append(&table, rows));
        for is_flushed in [false, true] {
            if is_flushed {
                db.flush().unwrap();
            }
            let snapshot = table.snapshot().unwrap();
            let get = |ids: Vec<i64>| -> Vec<Option<i64>> {
                let keys: ArrayRef = Arc::new(Int64Array::from(ids));
                let found = snapshot.get(&[keys], None).unwrap();
                let times = found.rows.column(1).as_primitive::<TimestampSecondType>();
                let age = |row: u32| (events.now + HOUR / 2 - times.value(row as usize)) / HOUR;
                found.positions.into_iter().map(|row| row.map(age)).collect()
            };
            assert_eq!(get((1..=5).collect()), expected, "{parts} parts, {is_flushed}");
            let each: Vec<_> = (1..=5).flat_map(|id| get(vec![id])).collect();
            assert_eq!(each, expected, "{parts} parts, {is_flushed}");
        }
    }
}

#[test]
fn rows_without_a_time_never_expire() {
    for key in [vec!["id"], vec!["at", "id"]] {
        let db = Database::in_memory(Options::default()).unwrap();
        let spec = TableSpec::new(Events::schema(), key);
        let table = db.create_table("t", spec).unwrap();
        table.set_ttl(hours(1)).unwrap();
        let old = Events::new(Kind::AppendById).batch(&[(1, 5)]);
        let mut columns = old.columns().to_vec();
        columns[1] = Arc::new(TimestampSecondArray::from(vec![None]));
        let timeless = RecordBatch::try_new(old.schema(), columns).unwrap();
        table.append(&old, OnError::Raise).unwrap();
        table.append(&timeless, OnError::Raise).unwrap();
        assert_eq!(table.snapshot().unwrap().rows().unwrap(), 1);
        db.flush().unwrap();
        assert_eq!(table.snapshot().unwrap().rows().unwrap(), 1);
        table.set_ttl(None).unwrap();
        assert_eq!(table.snapshot().unwrap().rows().unwrap(), 1);
    }
}

/// Compaction in memory leaves out what has expired, and then the log alone has it.
#[test]
fn what_expired_before_it_left_memory_does_not_come_back() {
    for kind in KINDS {
        for durability in [Durability::Os, Durability::None] {
            let events = Events::new(kind);
            let folder = tempfile::tempdir().unwrap();
            let options = Options { durability, ..Options::default() };
            let db = Database::open(folder.path(), options.clone()).unwrap();
            let table = db.create_table("t", events.spec()).unwrap();
            table.set_ttl(hours(1)).unwrap();
            for id in 0..71 {
                events.append(&table, &[(id, 5)]);
                assert_eq!(table.snapshot().unwrap().rows().unwrap(), 0, "{kind:?}");
            }
            let reader = Database::open_read_only(folder.path(), ReadOptions::default()).unwrap();
            table.set_ttl(None).unwrap();
            reader.refresh().unwrap();
            let read = reader.table("t").unwrap().snapshot().unwrap();
            assert_eq!(read.rows().unwrap(), 0, "{kind:?}");
            assert_eq!(table.snapshot().unwrap().rows().unwrap(), 0, "{kind:?}");
            events.append(&table, &[(1_000, 5)]);
            db.close().unwrap();
            let db = Database::open(folder.path(), options).unwrap();
            let table = db.table("t").unwrap();
            events.check(&table.snapshot().unwrap(), &[(1_000, 5)], "opened anew");
        }
    }
}

/// Without a log, rows that expired were in segments, and what hides them must get there before the time to live changes.
#[test]
fn what_expired_does_not_come_back_after_a_crash_of_a_database_without_a_log() {
    for kind in KINDS {
        let events = Events::new(kind);
        let files = directory::MemoryDirectory::new();
        let options = Options { durability: Durability::None, ..Options::default() };
        let open = |files: directory::MemoryDirectory| {
            Database::open_in(Arc::new(files), options.clone()).unwrap()
        };
        let db = open(files.clone());
        let table = db.create_table("t", events.spec()).unwrap();
        let rows = some_rows();
        events.append(&table, &rows);
        db.flush().unwrap();
        table.set_ttl(hours(23)).unwrap();
        let hold = db.hold_maintenance();
        events.check(&table.snapshot().unwrap(), &younger_than(&rows, 23), "expired");
        table.set_ttl(None).unwrap();
        // As they are at this moment, as if the process ended.
        let crashed = copy_of(&files);
        drop(hold);
        let again = open(crashed);
        let table = again.table("t").unwrap();
        events.check(&table.snapshot().unwrap(), &younger_than(&rows, 23), "after a crash");
    }
}

fn copy_of(files: &directory::MemoryDirectory) -> directory::MemoryDirectory {
    use directory::Directory;
    let copy = directory::MemoryDirectory::new();
    for name in files.list().unwrap().into_iter().filter(|name| !name.contains("LOCK")) {
        let bytes = directory::read_file(files, &name).unwrap();
        copy.create(&name).unwrap().write_all(&bytes).unwrap();
    }
    copy
}

#[test]
fn rows_of_a_table_with_columns_renamed_and_dropped_expire_all_the_same() {
    for kind in [Kind::AppendByTime, Kind::AppendById, Kind::UpsertById] {
        let events = Events::new(kind);
        let db = Database::in_memory(Options::default()).unwrap();
        let mut fields = vec![Field::new("gone", DataType::Int64, true)];
        fields.extend(Events::schema().fields().iter().map(|field| field.as_ref().clone()));
        let spec = TableSpec { columns: Arc::new(Schema::new(fields)), ..events.spec() };
        let table = db.create_table("t", spec).unwrap();
        table.set_ttl(hours(12)).unwrap();
        let rows = some_rows();
        events.append(&table, &rows);
        db.flush().unwrap();
        table.drop_column("gone").unwrap();
        events.check(&table.snapshot().unwrap(), &younger_than(&rows, 12), "dropped");
        let error = table.drop_column("at").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        table.rename_column("at", "then").unwrap();
        assert_eq!(TableSpec::of(&table.schema()).ttl.unwrap().0, "then");
        table.set_ttl(Some(("then", Duration::from_secs((6 * HOUR) as u64)))).unwrap();
        table.rename_column("then", "at").unwrap();
        events.check(&table.snapshot().unwrap(), &younger_than(&rows, 6), "renamed");
        db.compact().unwrap();
        events.check(&table.snapshot().unwrap(), &younger_than(&rows, 6), "compacted");
    }
}

#[test]
fn a_snapshot_that_reads_a_column_of_times_can_be_stopped_and_counts_what_it_remembers() {
    let folder = tempfile::tempdir().unwrap();
    let events = Events::new(Kind::AppendById);
    let rows: Vec<Row> = (0..1000).map(|id| (id, 1 + id * 7 % 100)).collect();
    {
        let db = Database::open(folder.path(), Options::default()).unwrap();
        let table = db.create_table("t", events.spec()).unwrap();
        events.append(&table, &rows);
        db.flush().unwrap();
        table.set_ttl(hours(50)).unwrap();
        db.close().unwrap();
    }
    let reader = Database::open_read_only(folder.path(), ReadOptions::default()).unwrap();
    // Later than what was found as it was opened.
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(reader.stats().unwrap().row_bytes, 0);
    let stopped = reader.interrupted_by(Interrupt::new(Arc::new(|| true)));
    assert_eq!(stopped.snapshot().err().unwrap().kind(), ErrorKind::Interrupted);
    assert_eq!(reader.stats().unwrap().row_bytes, 0);
    let shown = younger_than(&rows, 50);
    let snapshot = reader.table("t").unwrap().snapshot().unwrap();
    assert_eq!(events.rows(&snapshot, &Selection::default()).len(), shown.len());
    // A time and an ordinal of each.
    assert_eq!(reader.stats().unwrap().row_bytes, 16 * shown.len() as u64);
    let db = Database::open(folder.path(), Options::default()).unwrap();
    assert_eq!(db.table("t").unwrap().snapshot().unwrap().rows().unwrap(), shown.len() as u64);
    let stats = db.stats().unwrap();
    let of_times = stats.row_bytes - stats.buffered_bytes;
    assert!(of_times <= 16 * shown.len() as u64 && stats.writer.unwrap().snapshot_row_bytes == 0);
}

#[test]
fn a_time_to_live_that_makes_no_sense_is_refused() {
    let db = Database::in_memory(Options::default()).unwrap();
    let events = Events::new(Kind::Rollup);
    let table = db.create_table("t", events.spec()).unwrap();
    let refused = |ttl: Option<(&str, Duration)>| table.set_ttl(ttl).unwrap_err();
    let day = Duration::from_secs(86_400);
    for (ttl, says) in [
        (("group", day), "needs a timestamp or date column"),
        (("w", day), "needs a timestamp or date column"),
        (("at", Duration::ZERO), "whole number of seconds"),
        (("at", Duration::from_millis(1_500)), "whole number of seconds"),
        (("at", Duration::MAX), "whole number of seconds"),
    ] {
        let error = refused(Some(ttl));
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(says), "{error}");
    }
    assert_eq!(refused(Some(("nowhere", day))).kind(), ErrorKind::NotFound);
    assert_eq!(table.schema().ttl, None);
    let spec = TableSpec::new(Events::schema(), ["id"]).ttl("group", day);
    let error = db.create_table("other", spec).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(db.tables().unwrap(), ["t"]);
}

/// What a table should show.
struct Model {
    kind: Kind,
    rows: Vec<Row>,
    ttl: Option<i64>,
}

impl Model {
    fn append(&mut self, rows: &[Row]) {
        for row in rows {
            match self.kind {
                Kind::UpsertById => self.rows.retain(|(id, _)| *id != row.0),
                Kind::UpsertByTime => self.rows.retain(|known| known != row),
                _ => {}
            }
            self.rows.push(*row);
        }
    }

    fn set_ttl(&mut self, ttl: Option<i64>) {
        self.rows = self.shown();
        self.ttl = ttl;
    }

    fn shown(&self) -> Vec<Row> {
        younger_than(&self.rows, self.ttl.unwrap_or(i64::MAX))
    }
}

#[test]
fn random_appends_deletes_and_times_to_live_agree_with_a_model() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: i64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as i64
    };
    for kind in KINDS {
        for round in 0..6 {
            let events = Events::new(kind);
            let folder = tempfile::tempdir().unwrap();
            let open = || {
                let options =
                    Options { memory_bytes: Options::MEMORY_BYTES_MIN, ..Default::default() };
                Database::open(folder.path(), options).unwrap()
            };
            let mut db = open();
            let mut table = db.create_table("t", events.spec()).unwrap();
            let mut model = Model { kind, rows: Vec::new(), ttl: None };
            let mut seen: Vec<(TableSnapshot, Vec<Row>)> = Vec::new();
            for step in 0..40 {
                match random(10) {
                    0..=3 => {
                        let rows: Vec<Row> =
                            (0..1 + random(60)).map(|_| (random(200), random(30))).collect();
                        events.append(&table, &rows);
                        model.append(&rows);
                    }
                    4 => {
                        let ttl = (random(4) > 0).then(|| 1 + random(30));
                        table.set_ttl(ttl.and_then(hours)).unwrap();
                        if ttl != model.ttl {
                            model.set_ttl(ttl);
                        }
                    }
                    5 => {
                        let number = random(3);
                        table.delete_selected(&of_set(&group(number))).unwrap();
                        let is_hidden = |row: &Row| !model.shown().contains(row);
                        let hidden: Vec<Row> =
                            model.rows.iter().filter(|row| is_hidden(row)).copied().collect();
                        model.rows.retain(|row| row.0 % 3 != number || hidden.contains(row));
                    }
                    6 => db.flush().unwrap(),
                    7 => db.compact().unwrap(),
                    8 if round % 2 == 0 => {
                        db.close().unwrap();
                        db = open();
                        table = db.table("t").unwrap();
                    }
                    _ => seen.push((table.snapshot().unwrap(), model.shown())),
                }
                let what = format!("round {round}, step {step}");
                events.check(&table.snapshot().unwrap(), &model.shown(), &what);
            }
            for (snapshot, rows) in seen.iter().rev().take(3) {
                events.check(snapshot, rows, "a snapshot stays as it is");
            }
        }
    }
}

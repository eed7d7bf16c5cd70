//! Batches that carry their number, so that a test can see what a crash left and what it took.
//!
//! A writer makes batches 1, 2, 3 ...: each is one commit, to some of four tables of all merge policies at once, or
//! deletes rows of one. Every row is computed from (writer, number, position), so its rows show how many batches
//! of a writer a table has.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::*;

/// Two tables that keep every row, one in which the newest row of a slot wins, and one that adds up.
pub const TABLES: [&str; 4] = ["a", "b", "slots", "sums"];

/// Slots of each writer in `slots`; those above are deleted but never written.
const SLOTS: u64 = 40;
/// Keys of each writer in `sums`.
const BUCKETS: i64 = 5;

/// Columns of a batch, all integers; those of the table `sums` are its key and metrics.
const APPENDED: [&str; 4] = ["id", "writer", "number", "position"];
const SLOT_ROWS: [&str; 4] = ["writer", "slot", "number", "position"];
const EVENTS: [&str; 4] = ["writer", "bucket", "number", "position"];

/// One writer's rows of one table, in short, by key: of `a` and `b`, by batch, the number of rows, the sum of
/// their positions and of its squares; of `slots` number and position; of `sums` the metrics.
type Digest = BTreeMap<i64, [i64; 4]>;

/// The shape of one of the tables; another name gives one like `a`.
pub fn spec(table: &str) -> TableSpec {
    let spec = |columns: [&str; 4], key: &[&str], set: &str, merge: Merge| {
        TableSpec::new(schema(columns), key.iter().copied()).set(set).merge(merge).exist_ok()
    };
    match table {
        "slots" => TableSpec {
            weights: vec!["position".into()],
            ..spec(SLOT_ROWS, &["writer", "slot"], "number", Merge::Upsert)
        },
        "sums" => {
            let rollup = RollupSpec::default()
                .metric("events", Metric::Count)
                .metric("sum", Metric::sum("number"))
                .metric("least", Metric::min("position"))
                .metric("most", Metric::max("number"));
            spec(EVENTS, &["writer", "bucket"], "bucket", Merge::Rollup(rollup))
        }
        _ => spec(APPENDED, &["id"], "number", Merge::Append),
    }
}

fn schema(names: [&str; 4]) -> Arc<Schema> {
    let fields = names.map(|name| Field::new(name, DataType::Int64, false));
    Arc::new(Schema::new(fields.to_vec()))
}

/// Makes all tables that are missing.
pub fn create_tables(database: &Database) -> Result<()> {
    TABLES.iter().try_for_each(|name| database.create_table(name, spec(name)).map(drop))
}

/// Commits one batch, and returns its LSN.
pub fn append(database: &Database, writer: i32, number: u64) -> Result<Lsn> {
    if is_delete(number) {
        return delete(database, writer.into(), number);
    }
    let batches = TABLES.map(|table| batch(table, i64::from(writer), number));
    let named: Vec<(&str, &RecordBatch)> =
        TABLES.into_iter().zip(&batches).filter(|(_, batch)| batch.num_rows() > 0).collect();
    Ok(database.append(&named)?.lsn)
}

/// Commits a batch that deletes rows: of one table by their keys, of one by their set and a condition, of one by a key range.
fn delete(database: &Database, writer: i64, number: u64) -> Result<Lsn> {
    let value = |value: i64| Arc::new(Int64Array::from(vec![value])) as ArrayRef;
    let deleted = match deletes(number) {
        Deletes::Slots(slots) => {
            let writers = Int64Array::from(vec![writer; slots.len()]);
            let keys: [ArrayRef; 2] = [Arc::new(writers), Arc::new(Int64Array::from(slots))];
            database.table("slots")?.delete(&keys)?
        }
        Deletes::Batch(batch) => {
            let sets = Some(value(batch as i64));
            let predicate = Some(Arc::new(OfWriter::new(writer)) as Arc<dyn Predicate>);
            let selection = Selection { sets, predicate, ..Default::default() };
            database.table("a")?.delete_selected(&selection)?
        }
        Deletes::Buckets(buckets) => {
            let end = |bucket: i64| Some(vec![value(writer), value(bucket)]);
            let (low, high) = (end(*buckets.start()), end(*buckets.end()));
            let between = Some(Between { low, high, closed: Closed::Both });
            database.table("sums")?.delete_selected(&Selection { between, ..Default::default() })?
        }
    };
    Ok(deleted.lsn)
}

/// What a batch deletes; there is a row among that.
enum Deletes {
    /// Of `slots`, also some without a row.
    Slots(Vec<i64>),
    /// Of `a`: all rows of an earlier batch.
    Batch(u64),
    /// Of `sums`.
    Buckets(RangeInclusive<i64>),
}

fn deletes(number: u64) -> Deletes {
    match number / 5 % 3 {
        0 => Deletes::Slots(deleted_slots(number)),
        1 => {
            // Not one of the last: without it a table would look as it did before.
            let has_rows = |batch: &u64| !positions("a", *batch).is_empty();
            let batch = (1..number - 3).rev().find(has_rows);
            Deletes::Batch(batch.expect("there is one in three"))
        }
        _ => Deletes::Buckets(0..=1),
    }
}

/// The rows of one writer.
#[derive(Debug)]
struct OfWriter {
    writer: i64,
    columns: [String; 1],
    text: String,
}

impl OfWriter {
    fn new(writer: i64) -> OfWriter {
        OfWriter { writer, columns: ["writer".into()], text: format!("writer = {writer}") }
    }
}

impl Predicate for OfWriter {
    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn select(&self, rows: &RecordBatch) -> Result<BooleanArray> {
        let writers = rows.column(0).as_primitive::<Int64Type>();
        Ok(writers.iter().map(|writer| writer.map(|writer| writer == self.writer)).collect())
    }

    fn text(&self) -> &str {
        &self.text
    }
}

fn is_delete(number: u64) -> bool {
    number % 5 == 4
}

/// Positions of a batch's rows in one table; `a` or `b` has some of every batch that is no deletion.
fn positions(table: &str, number: u64) -> std::ops::Range<i64> {
    let count = match (table, number % 3, number % 2) {
        _ if is_delete(number) => 0,
        ("a", 0 | 1, _) => 1 + number * 37 % 80,
        ("b", 0 | 2, _) => 1 + number * 11 % 30,
        ("slots", _, 1) => 1 + number * 7 % 12,
        ("sums", _, _) => number * 3 % 20,
        _ => 0,
    };
    0..count as i64
}

fn slot(number: u64, position: i64) -> i64 {
    ((number * 5 + position as u64 * 3) % SLOTS) as i64
}

/// The slots of the last batch that wrote some, so that there is a row to delete, and some without a row.
fn deleted_slots(number: u64) -> Vec<i64> {
    let written = number - 1 - number % 2;
    let there = positions("slots", written).map(|position| slot(written, position));
    there.chain([SLOTS as i64, SLOTS as i64 + 1]).collect()
}

/// A key that scatters neighbours.
fn id(writer: i64, number: i64, position: i64) -> i64 {
    let plain = (number << 20) + (position << 4) + writer;
    ((plain as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1) as i64
}

fn batch(table: &str, writer: i64, number: u64) -> RecordBatch {
    let positions = positions(table, number);
    let column = |value: &dyn Fn(i64) -> i64| -> ArrayRef {
        Arc::new(positions.clone().map(|position| Some(value(position))).collect::<Int64Array>())
    };
    let of_writer = column(&|_| writer);
    let (of_number, of_position) = (column(&|_| number as i64), column(&|position| position));
    let (names, columns) = match table {
        "slots" => {
            let slots = column(&|position| slot(number, position));
            (SLOT_ROWS, vec![of_writer, slots, of_number, of_position])
        }
        "sums" => {
            let buckets = column(&|position| position % BUCKETS);
            (EVENTS, vec![of_writer, buckets, of_number, of_position])
        }
        _ => {
            let ids = column(&|position| id(writer, number as i64, position));
            (APPENDED, vec![ids, of_writer, of_number, of_position])
        }
    };
    RecordBatch::try_new(schema(names), columns).expect("the columns fit the schema")
}

/// What a batch does to a table.
fn apply(table: &str, number: u64, digest: &mut Digest) {
    if is_delete(number) {
        match (table, deletes(number)) {
            ("slots", Deletes::Slots(slots)) => digest.retain(|slot, _| !slots.contains(slot)),
            ("a", Deletes::Batch(batch)) => digest.retain(|key, _| *key != batch as i64),
            ("sums", Deletes::Buckets(buckets)) => digest.retain(|key, _| !buckets.contains(key)),
            _ => {}
        }
    }
    let n = number as i64;
    for position in positions(table, number) {
        match table {
            "slots" => {
                digest.insert(slot(number, position), [n, position, 0, 0]);
            }
            "sums" => {
                let sums = digest.entry(position % BUCKETS).or_insert([0, 0, i64::MAX, 0]);
                *sums = [sums[0] + 1, sums[1] + n, sums[2].min(position), sums[3].max(n)];
            }
            _ => add_appended(digest, n, position),
        }
    }
}

fn add_appended(digest: &mut Digest, number: i64, position: i64) {
    let rows = digest.entry(number).or_default();
    *rows = [rows[0] + 1, rows[1] + position, rows[2] + position * position, 0];
}

/// The last batch of each writer.
///
/// Panics unless all tables show the same batches 1, 2, ... of each writer, every one whole, and counts and
/// sets agree with the rows. A table may be missing if it has no rows yet.
pub fn last_batches(snapshot: &Snapshot) -> BTreeMap<i32, u64> {
    let tables = TABLES.map(|name| digests(snapshot, name));
    let mut writers: Vec<i32> = tables.iter().flat_map(|digests| digests.keys().copied()).collect();
    writers.sort_unstable();
    writers.dedup();
    let last_batch = |writer: i32| {
        let shown = shown_batches(&tables, writer);
        let is_common = |number: &u64| shown.iter().all(|shown| shown.contains(number));
        let common: Vec<u64> = shown[0].iter().copied().filter(is_common).collect();
        assert_eq!(common.len(), 1, "writer {writer}: {TABLES:?} show the batches up to {shown:?}");
        (writer, common[0])
    };
    writers.into_iter().map(last_batch).collect()
}

/// Panics unless each table by itself shows the batches of a writer up to one of `range`.
pub fn check_each_table(snapshot: &Snapshot, writer: i32, range: RangeInclusive<u64>) {
    let shown = shown_batches(&TABLES.map(|name| digests(snapshot, name)), writer);
    for (name, shown) in TABLES.iter().zip(shown) {
        let is_in_range = shown.iter().any(|number| range.contains(number));
        assert!(is_in_range, "{name} shows the batches up to one of {shown:?}, not {range:?}");
    }
}

/// For each table the numbers of batches after which it looks as it does; none if it never does.
fn shown_batches(tables: &[BTreeMap<i32, Digest>; 4], writer: i32) -> [Vec<u64>; 4] {
    let digests = tables.each_ref().map(|digests| digests.get(&writer));
    let numbers = |digest: &Digest| -> Option<i64> {
        digest.iter().map(|(key, values)| (*key).max(values[0]).max(values[3])).max()
    };
    let met = digests.iter().flatten().filter_map(|digest| numbers(digest)).max().unwrap_or(0);
    let (none, mut table) = (Digest::new(), 0);
    digests.map(|found| {
        let (name, found) = (TABLES[table], found.unwrap_or(&none));
        table += 1;
        let mut expected = Digest::new();
        let mut shown = Vec::new();
        // A deletion leaves no number behind.
        for number in 0..=met as u64 + 1 {
            if number > 0 {
                apply(name, number, &mut expected);
            }
            if expected == *found {
                shown.push(number);
            }
        }
        shown
    })
}

/// One table's rows by writer.
fn digests(snapshot: &Snapshot, name: &str) -> BTreeMap<i32, Digest> {
    let mut digests: BTreeMap<i32, Digest> = BTreeMap::new();
    let Ok(table) = snapshot.table(name) else { return digests };
    let mut total = 0;
    for batch in table.scan(ScanRequest::default()).expect("a scan starts") {
        let batch = batch.expect("a scan goes on");
        total += batch.num_rows() as u64;
        let columns: Vec<&[i64]> =
            batch.columns().iter().map(|c| &c.as_primitive::<Int64Type>().values()[..]).collect();
        for row in 0..batch.num_rows() {
            let value = |column: usize| columns[column][row];
            match name {
                "slots" | "sums" => {
                    let rest: Vec<i64> = (2..columns.len()).map(value).collect();
                    let mut values = [0; 4];
                    values[..rest.len()].copy_from_slice(&rest);
                    digests.entry(value(0) as i32).or_default().insert(value(1), values);
                }
                _ => {
                    let (writer, number, position) = (value(1), value(2), value(3));
                    assert_eq!(value(0), id(writer, number, position), "{name}: batch {number}");
                    add_appended(digests.entry(writer as i32).or_default(), number, position);
                }
            }
        }
    }
    assert_eq!(table.rows().unwrap(), total, "{name}: rows() and the scan");
    let sets = table.sets().expect("sets are read");
    assert_eq!(sets.rows.iter().sum::<u64>(), total, "{name}: sets() and the scan");
    digests
}

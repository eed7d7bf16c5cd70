//! A whole database folder: opened by the engine, read in all ways, written to, closed and opened again.

use std::fs;
use std::sync::Arc;

use drillcore::arrow_array::{
    Array, ArrayRef, BooleanArray, RecordBatch, make_array, new_null_array,
};
use drillcore::arrow_schema::{DataType, Schema};
use drillcore::directory::{Directory, MemoryDirectory, read_file};
use drillcore::{
    Aggregate, Between, Closed, Database, Durability, Error, EstimateRequest, OnError, Options,
    Predicate, ReadOptions, Result, SampleRequest, ScanRequest, Selection, ShareRequest, Stop,
    Table, TableSchema, TableSnapshot, Unit, Zones,
};

use super::files::assemble;
use super::outcome::Outcome;

/// Rows drawn at once.
const DRAWN: u64 = 20;

fn options() -> Options {
    Options {
        memory_bytes: Options::MEMORY_BYTES_MIN,
        cache_bytes: 1 << 20,
        maintenance_threads: 1,
        // A fuzzer has no use for a disk that is in step.
        durability: Durability::Os,
        ..Options::default()
    }
}

/// Opens the folder as the writer and as a reader process does.
pub fn database(parts: &[Vec<u8>]) -> Outcome {
    let mut outcome = Outcome::default();
    let files = assemble(parts);
    read_beside(&files, &mut outcome);
    let Some(database) = outcome.note(open(&files)) else { return outcome };
    use_database(&database, &mut outcome);
    write(&database, &mut outcome);
    let _ = database.close();
    drop(database);
    if let Some(database) = outcome.note(open(&files)) {
        use_database(&database, &mut outcome);
    }
    outcome
}

fn open(files: &MemoryDirectory) -> Result<Database> {
    Database::open_in(Arc::new(files.clone()), options())
}

/// A reader process needs a folder on disk for its lease.
fn read_beside(files: &MemoryDirectory, outcome: &mut Outcome) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    for name in files.list().expect("memory is there") {
        let bytes = read_file(files, &name).expect("the file is there");
        fs::write(folder.path().join(name), bytes).expect("a file can be written");
    }
    let reader = Database::open_read_only(
        folder.path(),
        ReadOptions { cache_bytes: 1 << 20, ..ReadOptions::default() },
    );
    // A folder without a manifest is no database.
    if reader.is_ok()
        && let Some(reader) = outcome.note(reader)
    {
        use_database(&reader, outcome);
    }
}

fn use_database(database: &Database, outcome: &mut Outcome) {
    for name in outcome.note(database.tables()).unwrap_or_default() {
        let Some(table) = outcome.note(database.table(&name)) else { continue };
        outcome.note(table.snapshot()).iter().for_each(|table| use_table(table, outcome));
    }
    for (name, _) in outcome.note(database.snapshots()).unwrap_or_default() {
        let Some(snapshot) = outcome.note(database.named_snapshot(&name)) else { continue };
        for name in snapshot.tables() {
            use_table(&snapshot.table(&name).expect("it is listed"), outcome);
        }
    }
    outcome.note(database.verify());
    outcome.note(database.stats()).iter().for_each(|stats| drop(stats.to_json()));
}

fn use_table(table: &TableSnapshot, outcome: &mut Outcome) {
    let schema = table.schema();
    outcome.note(table.rows());
    if schema.set.is_some() {
        outcome.note(table.sets());
    }
    let everything = scan(table, ScanRequest::default(), outcome);
    // What there is tells what to ask for.
    let example = everything.iter().find(|batch| batch.num_rows() > 0);
    let rows = example.map_or(0, RecordBatch::num_rows);
    for row in [0, rows / 2, rows.saturating_sub(1)] {
        let key: Option<Vec<ArrayRef>> = example.map(|batch| {
            let column = |&column: &usize| batch.column(column).slice(row, 1);
            schema.key.iter().map(column).collect()
        });
        if let Some(key) = key {
            outcome.note(table.get(&key, None));
        }
    }
    for (number, selection) in selections(&schema, example).into_iter().enumerate() {
        ask(table, &schema, &selection, number as u64, outcome);
    }
}

/// Every kind of question about a selection.
fn ask(
    table: &TableSnapshot,
    schema: &TableSchema,
    selection: &Selection,
    seed: u64,
    outcome: &mut Outcome,
) {
    let selection = || selection.clone();
    outcome.note(table.count(&selection()));
    outcome.note(table.count_events(&selection()));
    let backwards = ScanRequest { selection: selection(), reverse: true, ..Default::default() };
    scan(table, backwards, outcome);
    let in_partitions = ScanRequest {
        selection: selection(),
        threads: Some(2),
        partition_rows: Some(7),
        limit: Some(30),
        ..Default::default()
    };
    scan(table, in_partitions, outcome);
    let draw = SampleRequest {
        n: DRAWN,
        selection: selection(),
        at_most: true,
        seed: Some(seed),
        ..Default::default()
    };
    outcome.note(table.sample(&draw));
    outcome.note(table.sample(&SampleRequest { unit: Unit::Rows, ..draw.clone() }));
    let again = SampleRequest { replace: true, with_probability: true, ..draw.clone() };
    outcome.note(table.sample(&again));
    for &weight in &schema.weights {
        let weight = Some(schema.columns.field(weight).name().clone());
        outcome.note(table.sample(&SampleRequest { weight: weight.clone(), ..draw.clone() }));
        outcome.note(table.sample(&SampleRequest { weight, ..again.clone() }));
    }
    let share =
        ShareRequest { share: 0.3, selection: selection(), seed: Some(seed), ..Default::default() };
    outcome.note(table.sample_share(&share));
    for by in [None, schema.set_column()] {
        let numbers = schema
            .columns
            .fields()
            .iter()
            .find(|field| field.data_type().is_integer() || field.data_type().is_floating());
        let average = numbers.map(|field| ("mean".to_string(), Aggregate::avg(field.name())));
        let count = ("rows".to_string(), Aggregate::Count);
        let request = EstimateRequest {
            aggregates: [count].into_iter().chain(average).collect(),
            by: by.map(|column| schema.columns.field(column).name().clone()).into_iter().collect(),
            selection: selection(),
            stop: Stop::Rows(DRAWN),
            seed: Some(seed),
            ..Default::default()
        };
        outcome.note(table.estimate(&request));
    }
}

/// All rows, ranges of keys, sets, conditions that zones answer, and some of these together.
fn selections(schema: &TableSchema, example: Option<&RecordBatch>) -> Vec<Selection> {
    let mut selections = vec![Selection::default()];
    let one = |column: usize, at: usize| -> Option<ArrayRef> {
        example.map(|batch| batch.column(column).slice(batch.num_rows() * at / 4, 1))
    };
    let key = |at: usize| schema.key.first().and_then(|&column| one(column, at));
    let is_end = |array: &ArrayRef| !is_nan(array);
    let range = |low: Option<ArrayRef>, high: Option<ArrayRef>, closed| Between {
        low: low.filter(is_end).map(|array| vec![array]),
        high: high.filter(is_end).map(|array| vec![array]),
        closed,
    };
    let between = [
        range(key(1), key(3), Closed::Both),
        range(None, key(2), Closed::Neither),
        range(key(2), None, Closed::Left),
    ];
    let of_range = |between: Between| Selection { between: Some(between), ..Default::default() };
    selections.extend(between.iter().cloned().map(of_range));
    if let Some(column) = schema.set_column() {
        let data_type = schema.columns.field(column).data_type();
        let values = [one(column, 0), one(column, 2), Some(new_null_array(data_type, 1))];
        for sets in values.into_iter().flatten() {
            let sets = Some(sets);
            selections.push(Selection { sets: sets.clone(), ..Default::default() });
            let between = Some(between[0].clone());
            selections.push(Selection { sets, between, ..Default::default() });
        }
    }
    for (number, field) in schema.columns.fields().iter().enumerate().take(4) {
        let predicate = NullTest::new(field.name(), number % 2 == 0);
        selections.push(Selection { predicate: Some(Arc::new(predicate)), ..Default::default() });
    }
    selections
}

fn is_nan(array: &ArrayRef) -> bool {
    use drillcore::arrow_array::cast::AsArray;
    use drillcore::arrow_array::types::{Float32Type, Float64Type};
    match array.data_type() {
        DataType::Float32 => array.as_primitive::<Float32Type>().values()[0].is_nan(),
        DataType::Float64 => array.as_primitive::<Float64Type>().values()[0].is_nan(),
        _ => false,
    }
}

fn scan(table: &TableSnapshot, request: ScanRequest, outcome: &mut Outcome) -> Vec<RecordBatch> {
    let Some(scan) = outcome.note(table.scan(request)) else { return Vec::new() };
    let batches: Result<Vec<RecordBatch>> = scan.collect();
    outcome.note(batches).unwrap_or_default()
}

/// Appends, deletes, flushes, merges, indexes and pins. What cannot be done may be refused for any reason.
fn write(database: &Database, outcome: &mut Outcome) {
    let mut done = |result: Result<()>| {
        let panicked = |error: &Error| error.to_string().contains("panicked");
        assert!(!result.as_ref().is_err_and(panicked), "a job of maintenance panicked");
        outcome.answered += 1;
    };
    for name in database.tables().unwrap_or_default() {
        let Ok(table) = database.table(&name) else { continue };
        done(append(&table));
        done(table.delete(&key_of_zeros(&table.schema())).map(drop));
        done(table.unindex_all_sets());
        done(database.flush());
        done(table.index_all_sets());
        done(table.add_column("added by the fuzzer", &DataType::Int64));
        done(append(&table));
    }
    done(database.named_snapshot("pinned by the fuzzer").map(drop));
    done(database.compact());
    for name in database.tables().unwrap_or_default() {
        let Ok(table) = database.table(&name) else { continue };
        done(table.wait_for_set_index());
    }
    done(database.flush());
    done(database.verify().map(drop));
}

/// Appends two rows of nulls, or of zeros where there may be no nulls.
fn append(table: &Table) -> Result<()> {
    let schema = table.schema();
    let columns = schema.rollup().map_or(&schema.columns, |rollup| &rollup.events);
    let arrays = columns.fields().iter().map(|field| match field.is_nullable() {
        true => new_null_array(field.data_type(), 2),
        false => zeros(field.data_type(), 2),
    });
    let columns: Arc<Schema> = columns.clone();
    let batch = RecordBatch::try_new(columns, arrays.collect());
    table.append(&batch.expect("the columns are the table's"), OnError::Raise).map(drop)
}

fn key_of_zeros(schema: &TableSchema) -> Vec<ArrayRef> {
    let columns = schema.key.iter();
    columns.map(|&column| zeros(schema.columns.field(column).data_type(), 1)).collect()
}

/// What lies beneath nulls: zeros, empty strings, false.
fn zeros(data_type: &DataType, len: usize) -> ArrayRef {
    let data = new_null_array(data_type, len).to_data().into_builder().nulls(None).build();
    make_array(data.expect("zeros are values of every type"))
}

/// Whether a column is null, or is not, as rows and zones tell.
#[derive(Debug)]
struct NullTest {
    column: [String; 1],
    wants_null: bool,
    text: String,
}

impl NullTest {
    fn new(column: &str, wants_null: bool) -> NullTest {
        let text = format!("{column:?} is null: {wants_null}");
        NullTest { column: [column.to_string()], wants_null, text }
    }
}

impl Predicate for NullTest {
    fn columns(&self) -> &[String] {
        &self.column
    }

    fn select(&self, rows: &RecordBatch) -> Result<BooleanArray> {
        let tested = rows.column(0);
        Ok((0..tested.len()).map(|row| Some(tested.is_null(row) == self.wants_null)).collect())
    }

    fn zone_columns(&self) -> &[String] {
        &self.column
    }

    fn may_match(&self, zones: &Zones) -> Result<BooleanArray> {
        let Some(known) = zones.column(0) else {
            return Ok(BooleanArray::from(vec![true; zones.len()]));
        };
        let counts = known.null_counts.values().iter().zip(zones.rows().values());
        Ok(counts
            .map(|(&nulls, &rows)| Some(if self.wants_null { nulls > 0 } else { nulls < rows }))
            .collect())
    }

    fn text(&self) -> &str {
        &self.text
    }
}

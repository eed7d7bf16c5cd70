//! Discovered dimensions against a map: a column that a rollup table does not know becomes one, older rows
//! are null there, and every row is the exact fold of its events in every state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};

use arrow_cast::display::array_value_to_string;
use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::arrow_array::{
    Array, ArrayRef, Float32Array, Float64Array, Int8Array, Int64Array, NullArray, RecordBatch,
    StringArray,
};
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::*;
use drillcore_sample::rng::Rng;

const CACHE_BYTES: u64 = 1 << 20;

/// Names and values of the dimensions that are not null.
type Dimensions = BTreeMap<String, String>;
type Key = (i64, Dimensions);
/// Events and the sum of their amounts, by key.
type Model = BTreeMap<Key, (i64, i64)>;

/// Key `id`, metrics `n` and `total`; the columns of `more` are neither.
fn discovering_spec(more: Vec<Field>) -> TableSpec {
    let mut fields = vec![Field::new("id", DataType::Int64, false)];
    fields.extend(more);
    fields.push(Field::new("amount", DataType::Int64, true));
    let rollup =
        RollupSpec::default().metric("n", Metric::Count).metric("total", Metric::sum("amount"));
    let merge = Merge::Rollup(RollupSpec { discover: true, ..rollup });
    TableSpec::new(Arc::new(Schema::new(fields)), ["id"]).set("id").merge(merge)
}

fn named(name: &str, values: impl Array + 'static) -> (String, ArrayRef) {
    (name.to_string(), Arc::new(values))
}

fn batch(columns: impl IntoIterator<Item = (String, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

/// Events of amount 1 with these dimensions, all of which are in the batch.
fn events(keys: &[Key]) -> RecordBatch {
    let names: BTreeSet<&String> = keys.iter().flat_map(|key| key.1.keys()).collect();
    let ids: Int64Array = keys.iter().map(|key| Some(key.0)).collect();
    let amounts: Int64Array = keys.iter().map(|_| Some(1)).collect();
    let of_name = |name: &String| -> (String, ArrayRef) {
        let values: StringArray = keys.iter().map(|key| key.1.get(name)).collect();
        named(name, values)
    };
    let dimensions = names.into_iter().map(of_name);
    batch([named("id", ids)].into_iter().chain(dimensions).chain([named("amount", amounts)]))
}

fn append(table: &Table, rows: &RecordBatch) -> Lsn {
    table.append(rows, OnError::Raise).unwrap().lsn
}

fn add(model: &mut Model, keys: &[Key]) {
    for key in keys {
        let row = model.entry(key.clone()).or_default();
        *row = (row.0 + 1, row.1 + 1);
    }
}

/// The rows of a batch, as the model has them.
fn rows(batch: &RecordBatch) -> Vec<(Key, (i64, i64))> {
    let integer = |name: &str, row: usize| {
        let values = batch.column_by_name(name).unwrap().as_primitive::<Int64Type>();
        values.value(row)
    };
    let schema = batch.schema();
    let is_dimension = |name: &str| !["id", "n", "total"].contains(&name);
    let of_row = |row: usize| {
        let dimensions = schema
            .fields()
            .iter()
            .zip(batch.columns())
            .filter(|(field, values)| is_dimension(field.name()) && values.is_valid(row));
        let text = |values| array_value_to_string(values, row).unwrap();
        let dimensions = dimensions.map(|(field, values)| (field.name().clone(), text(values)));
        ((integer("id", row), dimensions.collect()), (integer("n", row), integer("total", row)))
    };
    (0..batch.num_rows()).map(of_row).collect()
}

fn scan(table: &TableSnapshot, request: ScanRequest) -> Vec<(Key, (i64, i64))> {
    table.scan(request).unwrap().flat_map(|batch| rows(&batch.unwrap())).collect()
}

fn check(table: &TableSnapshot, model: &Model) {
    let found = scan(table, ScanRequest::default());
    assert_eq!(found.len(), model.len(), "no key comes twice");
    assert_eq!(&found.iter().cloned().collect::<Model>(), model);
    let mut backwards = scan(table, ScanRequest { reverse: true, ..Default::default() });
    backwards.reverse();
    assert_eq!(backwards, found, "the key's order has the new dimensions");
    assert_eq!(table.rows().unwrap(), model.len() as u64);
    let events = model.values().map(|row| row.0).sum::<i64>() as u64;
    assert_eq!(table.count_events(&Selection::default()).unwrap(), events);
    let request = SampleRequest { n: events, ..Default::default() };
    let drawn = rows(&table.sample(&request).unwrap());
    assert!(drawn.iter().all(|(key, row)| model[key] == *row), "a drawn row is whole");
    for id in model.keys().map(|key| key.0).take(3) {
        let of_id: Vec<_> = found.iter().filter(|row| row.0.0 == id).cloned().collect();
        let sets: ArrayRef = Arc::new(Int64Array::from(vec![id]));
        let selection = Selection { sets: Some(sets.clone()), ..Default::default() };
        assert_eq!(scan(table, ScanRequest { selection, ..Default::default() }), of_id);
        let ends = Some(vec![sets.clone()]);
        let between = Between { low: ends.clone(), high: ends, closed: Closed::Both };
        let selection = Selection { between: Some(between), ..Default::default() };
        assert_eq!(table.count(&selection).unwrap(), of_id.len() as u64);
        // What stands behind the declared key may be left off: it is null then.
        let plain = model.get(&(id, Dimensions::new()));
        let rest = found_row(table, vec![sets]);
        assert_eq!(rest.as_ref(), plain);
    }
    for (key, row) in model.iter().take(5) {
        assert_eq!(found_row(table, whole_key(table, key)), Some(*row), "{key:?}");
    }
}

fn found_row(table: &TableSnapshot, key: Vec<ArrayRef>) -> Option<(i64, i64)> {
    let found = table.get(&key, None).unwrap();
    found.positions[0].map(|row| rows(&found.rows)[row as usize].1)
}

fn whole_key(table: &TableSnapshot, key: &Key) -> Vec<ArrayRef> {
    let schema = table.schema();
    let names = schema.key.iter().skip(1).map(|&column| schema.columns.field(column).name());
    let id: ArrayRef = Arc::new(Int64Array::from(vec![key.0]));
    let value = |name| -> ArrayRef { Arc::new(StringArray::from(vec![key.1.get(name).cloned()])) };
    [id].into_iter().chain(names.map(value)).collect()
}

fn random_keys(rng: &mut Rng, known: u64, len: u64) -> Vec<Key> {
    let of_event = |rng: &mut Rng| {
        let mut dimensions = Dimensions::new();
        for dimension in 0..known {
            if rng.below(3) == 0 {
                dimensions.insert(format!("d{dimension}"), format!("v{}", rng.below(2)));
            }
        }
        (rng.below(6) as i64, dimensions)
    };
    (0..len).map(|_| of_event(rng)).collect()
}

#[test]
fn rows_are_the_exact_fold_of_their_events_while_dimensions_come() {
    for seed in 0..12 {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { memory_bytes: 1 << 20, ..Default::default() };
        let mut db = Database::open(folder.path(), options.clone()).unwrap();
        let mut table = db.create_table("t", discovering_spec(vec![])).unwrap();
        let mut rng = Rng::keyed(seed, 0);
        let mut model = Model::new();
        let mut held = Vec::new();
        for step in 0..40u64 {
            println!("seed {seed}, step {step}");
            match rng.below(9) {
                0..=5 => {
                    let len = rng.below(60);
                    let keys = random_keys(&mut rng, step / 8, len);
                    append(&table, &events(&keys));
                    add(&mut model, &keys);
                }
                6 => db.flush().unwrap(),
                7 => db.compact().unwrap(),
                _ => {
                    held.push((table.snapshot().unwrap(), model.clone()));
                    drop(table);
                    db.close().unwrap();
                    db = Database::open(folder.path(), options.clone()).unwrap();
                    table = db.table("t").unwrap();
                }
            }
            check(&table.snapshot().unwrap(), &model);
        }
        for (snapshot, model) in &held {
            check(snapshot, model);
        }
        let columns = table.schema().columns.fields().len();
        assert!((5..=8).contains(&columns), "{columns} columns: some were found");
        assert!(db.verify().unwrap().faults.is_empty());
    }
}

/// `name` is null; looks at zones.
#[derive(Debug)]
struct IsNull(Vec<String>);

impl Predicate for IsNull {
    fn columns(&self) -> &[String] {
        &self.0
    }

    fn select(&self, rows: &RecordBatch) -> Result<drillcore::arrow_array::BooleanArray> {
        let values = rows.column(0);
        Ok((0..values.len()).map(|row| Some(values.is_null(row))).collect())
    }

    fn zone_columns(&self) -> &[String] {
        &self.0
    }

    fn may_match(&self, zones: &Zones) -> Result<drillcore::arrow_array::BooleanArray> {
        let nulls = &zones.column(0).expect("asked for").null_counts;
        Ok((0..zones.len()).map(|zone| Some(nulls.value(zone) > 0)).collect())
    }

    fn text(&self) -> &str {
        "d0 is null"
    }
}

#[test]
fn zones_of_segments_older_than_a_dimension_say_that_it_is_null() {
    let with_value = Dimensions::from([("d0".to_string(), "x".to_string())]);
    let in_two_segments = || {
        let db = Database::in_memory(Options::default()).unwrap();
        let table = db.create_table("t", discovering_spec(vec![])).unwrap();
        for dimensions in [Dimensions::new(), with_value.clone()] {
            let keys: Vec<Key> = (0..5_000).map(|id| (id, dimensions.clone())).collect();
            append(&table, &events(&keys));
            db.flush().unwrap();
        }
        let snapshot = table.snapshot().unwrap();
        // Now and then they are merged by then.
        (snapshot.pieces() == 2).then_some((db, snapshot))
    };
    let (db, snapshot) = (0..100).find_map(|_| in_two_segments()).unwrap();
    let before = db.stats().unwrap().blocks_pruned;
    let predicate = IsNull(vec!["d0".into()]);
    let selection = Selection { predicate: Some(Arc::new(predicate)), ..Default::default() };
    assert_eq!(snapshot.count(&selection).unwrap(), 5_000);
    assert!(db.stats().unwrap().blocks_pruned > before, "those of the newer segment");
}

#[test]
fn a_table_begins_with_the_dimensions_of_its_columns_and_takes_batches_without_them() {
    let db = Database::in_memory(Options::default()).unwrap();
    let more =
        vec![Field::new("host", DataType::Utf8, false), Field::new("code", DataType::Int16, true)];
    let table = db.create_table("t", discovering_spec(more)).unwrap();
    let schema = table.schema();
    let names: Vec<&str> = schema.columns.fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(names, ["id", "n", "total", "host", "code"]);
    assert_eq!(schema.key, [0, 3, 4]);
    assert_eq!(schema.columns.field(4).data_type(), &DataType::Int64, "the widest of its kind");
    append(&table, &batch([named("id", Int64Array::from(vec![1, 1]))]));
    append(
        &table,
        &batch([
            named("code", Int8Array::from(vec![None, Some(4)])),
            named("id", Int64Array::from(vec![1, 1])),
        ]),
    );
    let found = scan(&table.snapshot().unwrap(), ScanRequest::default());
    let coded = Dimensions::from([("code".to_string(), "4".to_string())]);
    assert_eq!(found.len(), 2);
    assert_eq!((found[0].0.clone(), found[0].1.0), ((1, Dimensions::new()), 3));
    assert_eq!((found[1].0.clone(), found[1].1.0), ((1, coded), 1));
}

#[test]
fn a_dimension_has_the_widest_type_of_its_kind_so_that_later_batches_fit() {
    let db = Database::in_memory(Options::default()).unwrap();
    let table = db.create_table("t", discovering_spec(vec![])).unwrap();
    let id = || named("id", Int64Array::from(vec![1]));
    append(&table, &batch([id(), named("code", Int8Array::from(vec![5]))]));
    append(&table, &batch([id(), named("code", Int64Array::from(vec![1 << 40]))]));
    append(&table, &batch([id(), named("share", Float32Array::from(vec![0.5]))]));
    append(&table, &batch([id(), named("share", Float64Array::from(vec![0.1]))]));
    let other = batch([id(), named("code", StringArray::from(vec!["x"]))]);
    let error = table.append(&other, OnError::Raise).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("\"code\" stores int64, but string"), "{error}");
    let snapshot = table.snapshot().unwrap();
    let types: Vec<_> =
        snapshot.schema().columns.fields()[3..].iter().map(|f| f.data_type().clone()).collect();
    assert_eq!(types, [DataType::Int64, DataType::Float64]);
    assert_eq!(snapshot.rows().unwrap(), 4);
}

#[test]
fn a_failed_batch_discovers_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { memory_bytes: Options::MEMORY_BYTES_MIN, ..Default::default() };
    let db = Database::open(folder.path(), options).unwrap();
    let table = db.create_table("t", discovering_spec(vec![])).unwrap();
    let plain = db
        .create_table("plain", TableSpec { merge: Merge::Append, ..discovering_spec(vec![]) })
        .unwrap();
    let manifest = || {
        let of_folder = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap());
        let manifests =
            of_folder.filter(|file| file.file_name().to_string_lossy().starts_with("manifest"));
        manifests.map(|file| file.metadata().unwrap().len()).collect::<Vec<_>>()
    };
    let before = (table.schema(), manifest());
    let id = |ids: Vec<Option<i64>>| named("id", Int64Array::from(ids));
    let host = |len: usize| named("host", StringArray::from(vec!["a"; len]));
    let tags =
        arrow_cast::cast(&StringArray::from(vec!["a"]), &DataType::new_list(DataType::Utf8, true));
    let tags = ("tags".to_string(), tags.unwrap());
    let total = named("total", Int64Array::from(vec![1]));
    let text = named("amount", StringArray::from(vec!["x"]));
    let long = StringArray::from(vec!["x".repeat(60 << 10); 8]);
    for (what, rows, reason) in [
        ("no key", batch([host(1)]), "lacks key column \"id\""),
        ("a null in the key", batch([id(vec![None]), host(1)]), "is not nullable"),
        ("a list", batch([id(vec![Some(1)]), host(1), tags]), "\"tags\" has type list"),
        ("a metric's name", batch([id(vec![Some(1)]), host(1), total]), "the name of a metric"),
        ("text to be added", batch([id(vec![Some(1)]), host(1), text]), "stores int64"),
        ("too long", batch([id((0..8).map(Some).collect()), named("host", long)]), "the limit is"),
    ] {
        let error = table.append(&rows, OnError::Raise).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{what}: {error}");
        assert!(error.to_string().contains(reason), "{what}: {error}");
    }
    // All or none, over several tables.
    let good = batch([id(vec![Some(1)]), host(1)]);
    let bad = batch([host(1)]);
    assert!(db.append(&[("t", &good), ("plain", &bad)]).is_err());
    // What says nothing discovers nothing, and is no error.
    let no_host = named("host", NullArray::new(1));
    let no_name = named("name", StringArray::from(vec![None::<&str>]));
    append(&table, &batch([id(vec![Some(1)]), no_host, no_name]));
    let none = table.append(&batch([id(vec![None]), host(1)]), OnError::Skip).unwrap();
    assert_eq!((none.rows, none.rejected.len()), (0, 1));
    assert_eq!((table.schema(), manifest()), before);
    let error = plain.append(&good, OnError::Raise).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "other tables discover nothing: {error}");
    let found = db.append(&[("t", &good)]).unwrap();
    assert_eq!((found.rows, table.schema().columns.fields().len()), (1, 4));
}

/// Two threads find the same new column, and columns of their own, over and over.
#[test]
fn threads_that_discover_at_once_agree_on_one_schema() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", discovering_spec(vec![])).unwrap();
    let barrier = Barrier::new(3);
    let is_done = AtomicBool::new(false);
    let models: Vec<Model> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let (table, barrier) = (&table, &barrier);
                scope.spawn(move || {
                    let mut model = Model::new();
                    for round in 0..40 {
                        barrier.wait();
                        let dimension = |name: String| (name, format!("w{writer}"));
                        let mut dimensions = Dimensions::from([dimension(format!("same{round}"))]);
                        if round % 4 == writer {
                            dimensions.extend([dimension(format!("own{writer}.{round}"))]);
                        }
                        let keys = vec![(round, dimensions)];
                        append(table, &events(&keys));
                        add(&mut model, &keys);
                        if round % 10 == 9 && writer == 0 {
                            table.snapshot().unwrap();
                        }
                    }
                    model
                })
            })
            .collect();
        let reader = Database::open_read_only(
            folder.path(),
            ReadOptions { cache_bytes: CACHE_BYTES, ..ReadOptions::default() },
        )
        .unwrap();
        let is_done = &is_done;
        scope.spawn(move || {
            while !is_done.load(Ordering::Acquire) {
                reader.refresh().unwrap();
                let snapshot = reader.snapshot().unwrap().table("t").unwrap();
                for (key, row) in scan(&snapshot, ScanRequest::default()) {
                    assert!(row.0 == 1 && key.1.contains_key(&format!("same{}", key.0)), "{key:?}");
                }
            }
        });
        let models = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        is_done.store(true, Ordering::Release);
        models
    });
    let model: Model = models.into_iter().flatten().collect();
    let schema = table.schema();
    assert_eq!(schema.columns.fields().len(), 3 + 40 + 30);
    let names: BTreeSet<&str> = schema.columns.fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(names.len(), 3 + 40 + 30, "each once");
    check(&table.snapshot().unwrap(), &model);
    drop(table);
    db.close().unwrap();
    drop(db);
    let db = Database::open(folder.path(), Options::default()).unwrap();
    assert_eq!(db.table("t").unwrap().schema(), schema, "a dimension keeps its place");
    check(&db.table("t").unwrap().snapshot().unwrap(), &model);
}

/// What a reader finds that reads the manifest just before a discovery and the log just after.
#[test]
fn a_reader_shows_no_row_without_the_dimension_that_it_brought() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", discovering_spec(vec![])).unwrap();
    append(&table, &events(&[(1, Dimensions::new())]));
    let torn = tempfile::tempdir().unwrap();
    let copy = |prefix: &str| {
        for file in std::fs::read_dir(folder.path()).unwrap() {
            let file = file.unwrap();
            if file.file_name().to_string_lossy().starts_with(prefix) {
                std::fs::copy(file.path(), torn.path().join(file.file_name())).unwrap();
            }
        }
    };
    copy("manifest");
    append(&table, &events(&[(1, Dimensions::from([("host".into(), "a".into())]))]));
    copy("wal");
    let error = Database::open_read_only(
        torn.path(),
        ReadOptions { cache_bytes: CACHE_BYTES, ..ReadOptions::default() },
    )
    .err()
    .expect("the commit cannot be shown");
    assert!(error.to_string().contains("a column added to \"t\" meanwhile"), "{error}");
    copy("manifest");
    let reader = Database::open_read_only(
        torn.path(),
        ReadOptions { cache_bytes: CACHE_BYTES, ..ReadOptions::default() },
    )
    .unwrap();
    assert_eq!(reader.snapshot().unwrap().table("t").unwrap().rows().unwrap(), 2);
}

/// Of two threads that find one column with two types, the one that comes later fails, and changes nothing.
#[test]
fn a_column_found_with_two_types_at_once_has_the_first() {
    for round in 0..20 {
        let db = Database::in_memory(Options::default()).unwrap();
        let table = db.create_table("t", discovering_spec(vec![])).unwrap();
        let barrier = Barrier::new(2);
        let id = || named("id", Int64Array::from(vec![1]));
        let text = batch([id(), named("code", StringArray::from(vec!["x"]))]);
        let number = batch([id(), named("code", Int64Array::from(vec![7]))]);
        let results: Vec<Result<AppendResult>> = std::thread::scope(|scope| {
            let append = |rows| {
                barrier.wait();
                table.append(rows, OnError::Raise)
            };
            let handles = [&text, &number].map(|rows| scope.spawn(move || append(rows)));
            handles.map(|handle| handle.join().unwrap()).into()
        });
        let failed: Vec<&Error> =
            results.iter().filter_map(|result| result.as_ref().err()).collect();
        assert_eq!(failed.len(), 1, "round {round}");
        assert_eq!(failed[0].kind(), ErrorKind::InvalidArgument);
        let snapshot = table.snapshot().unwrap();
        assert_eq!(snapshot.rows().unwrap(), 1);
        let expected = if results[0].is_ok() { DataType::Utf8 } else { DataType::Int64 };
        assert_eq!(snapshot.schema().columns.field(3).data_type(), &expected);
    }
}

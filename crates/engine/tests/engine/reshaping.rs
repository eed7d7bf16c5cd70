//! Columns that are renamed, dropped and widened, tables that are renamed and copied, beside everything else: each read
//! agrees with a model.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_cast::cast;
use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::{Float64Type, Int64Type};
use drillcore::arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, new_null_array,
};
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::*;
use drillcore_sample::rng::Rng;

use crate::fixtures::{of_keys, schema_of};

/// A row: what is in its columns outside the key, as text; nulls are left out.
type Row = BTreeMap<String, String>;
type Rows = BTreeMap<i64, Row>;

/// A table as it should be.
#[derive(Clone)]
struct Model {
    name: String,
    key: String,
    set: String,
    weight: String,
    /// The other columns and all of their types, in order.
    columns: Vec<(String, DataType)>,
    rows: Rows,
    is_upsert: bool,
    next_id: i64,
}

const NARROW: [DataType; 5] =
    [DataType::Int8, DataType::Int16, DataType::UInt8, DataType::Float32, DataType::Utf8];

fn wider(data_type: &DataType) -> Option<DataType> {
    Some(match data_type {
        DataType::Int8 => DataType::Int16,
        DataType::Int16 => DataType::Int64,
        DataType::Int32 => DataType::Int64,
        DataType::UInt8 => DataType::UInt32,
        DataType::UInt32 => DataType::UInt64,
        DataType::Float32 => DataType::Float64,
        _ => return None,
    })
}

fn narrow_columns_spec(is_upsert: bool) -> TableSpec {
    let columns = vec![
        Field::new("id", DataType::Int64, false),
        Field::new("a", DataType::Int8, true),
        Field::new("place", DataType::Utf8, true),
        Field::new("w", DataType::Int32, true),
        Field::new("f", DataType::Float32, true),
    ];
    let merge = if is_upsert { Merge::Upsert } else { Merge::Append };
    TableSpec::new(Arc::new(Schema::new(columns)), ["id"]).set("place").weights(["w"]).merge(merge)
}

fn texts(array: &ArrayRef) -> Vec<Option<String>> {
    let texts = cast(array, &DataType::Utf8).unwrap();
    texts.as_string::<i32>().iter().map(|text| text.map(String::from)).collect()
}

impl Model {
    fn new(is_upsert: bool) -> Model {
        Model {
            name: "t".into(),
            key: "id".into(),
            set: "place".into(),
            weight: "w".into(),
            columns: vec![
                ("a".into(), DataType::Int8),
                ("place".into(), DataType::Utf8),
                ("w".into(), DataType::Int32),
                ("f".into(), DataType::Float32),
            ],
            rows: Rows::new(),
            is_upsert,
            next_id: 0,
        }
    }

    fn append(&mut self, table: &Table, rng: &mut Rng) {
        let len = 1 + rng.below(40) as i64;
        let ids: Vec<i64> = match self.is_upsert {
            true => (0..len).map(|_| rng.below(300) as i64).collect(),
            false => (self.next_id..self.next_id + len).collect(),
        };
        self.next_id += len;
        let mut columns: Vec<(String, ArrayRef)> =
            vec![(self.key.clone(), Arc::new(Int64Array::from(ids.clone())))];
        for (name, data_type) in &self.columns {
            let values: Vec<Option<i64>> = ids
                .iter()
                .map(|_| {
                    // Weights have no nulls.
                    let is_there = *name == self.weight || rng.below(5) > 0;
                    is_there.then(|| rng.below(100) as i64)
                })
                .collect();
            let values: ArrayRef = match *name == self.set {
                true => {
                    let name = |value: &Option<i64>| value.map(|value| format!("s{}", value % 3));
                    Arc::new(values.iter().map(name).collect::<StringArray>())
                }
                false => {
                    cast(&(Arc::new(Int64Array::from(values)) as ArrayRef), data_type).unwrap()
                }
            };
            // Those that were declared may not be missing from an upsert.
            if self.is_upsert || *name == self.weight || rng.below(4) > 0 {
                columns.push((name.clone(), values));
            } else {
                columns.push((name.clone(), new_null_array(data_type, ids.len())));
            }
        }
        let batch = RecordBatch::try_from_iter(columns.clone()).unwrap();
        table.append(&batch, OnError::Raise).unwrap();
        let columns: Vec<(String, Vec<Option<String>>)> =
            columns[1..].iter().map(|(name, array)| (name.clone(), texts(array))).collect();
        for (at, id) in ids.into_iter().enumerate() {
            let row =
                columns.iter().filter_map(|(name, texts)| Some((name.clone(), texts[at].clone()?)));
            self.rows.insert(id, row.collect());
        }
    }

    fn renamed(&mut self, old: &str, new: &str) {
        for name in [&mut self.key, &mut self.set, &mut self.weight] {
            if name == old {
                *name = new.to_string();
            }
        }
        self.columns
            .iter_mut()
            .filter(|(name, _)| name == old)
            .for_each(|(name, _)| *name = new.into());
        for row in self.rows.values_mut() {
            if let Some(value) = row.remove(old) {
                row.insert(new.to_string(), value);
            }
        }
    }

    fn widened(&mut self, name: &str, to: &DataType) {
        let column = self.columns.iter_mut().find(|(of, _)| of == name).unwrap();
        column.1 = to.clone();
        // A number's text may change with its type.
        for text in self.rows.values_mut().filter_map(|row| row.get_mut(name)) {
            let array: ArrayRef = Arc::new(StringArray::from(vec![text.clone()]));
            *text = texts(&cast(&array, to).unwrap())[0].clone().unwrap();
        }
    }

    fn check(&self, table: &TableSnapshot, rng: &mut Rng) {
        let schema = table.schema();
        let names: Vec<&String> =
            schema.columns.fields().iter().map(|field| field.name()).collect();
        let types: BTreeMap<&String, &DataType> =
            schema.columns.fields().iter().map(|field| (field.name(), field.data_type())).collect();
        assert_eq!(names.len(), self.columns.len() + 1);
        self.columns.iter().for_each(|(name, of)| assert_eq!(types[name], of, "{name}"));
        assert_eq!(self.found(table, None), self.rows);
        // Some columns, which are read by themselves.
        let column = &self.columns[rng.below(self.columns.len() as u64) as usize].0;
        let some = Some(vec![self.key.clone(), column.clone()]);
        let expected = self.rows.iter().map(|(id, row)| {
            let row = row.iter().filter(|(name, _)| *name == column);
            (*id, row.map(|(name, text)| (name.clone(), text.clone())).collect())
        });
        assert_eq!(self.found(table, some), expected.collect::<Rows>());
        self.check_greatest(table, column);
        for set in ["s0", "s2"] {
            let sets: ArrayRef = Arc::new(StringArray::from(vec![set]));
            let selection = Selection { sets: Some(sets), ..Selection::default() };
            let members =
                self.rows.values().filter(|row| row.get(&self.set).is_some_and(|of| of == set));
            assert_eq!(table.count(&selection).unwrap(), members.count() as u64);
        }
        if let Some((id, row)) =
            self.rows.iter().nth(rng.below(self.rows.len().max(1) as u64) as usize)
        {
            let found = table.get(&[Arc::new(Int64Array::from(vec![*id]))], None).unwrap().rows;
            let of_row = found.schema_ref().fields().iter().zip(found.columns()).filter_map(
                |(field, array)| Some((field.name().clone(), texts(array)[0].clone()?)),
            );
            let found: Row = of_row.filter(|(name, _)| *name != self.key).collect();
            assert_eq!(found, *row);
        }
        let weighs = |row: &Row| row.get(&self.weight).is_some_and(|weight| weight != "0");
        if self.rows.values().any(weighs) {
            let request = SampleRequest {
                n: 5,
                weight: Some(self.weight.clone()),
                replace: true,
                ..SampleRequest::default()
            };
            let drawn = table.sample(&request).unwrap();
            let ids = drawn.column_by_name(&self.key).unwrap().as_primitive::<Int64Type>().clone();
            assert!(ids.values().iter().all(|id| weighs(&self.rows[id])));
        }
    }

    /// What is known of the numbers of a piece is of the column that the table has now.
    fn check_greatest(&self, table: &TableSnapshot, column: &String) {
        let of_column = self.columns.iter().find(|(name, _)| name == column);
        if !of_column.is_some_and(|(_, of)| of.is_numeric()) {
            return;
        }
        let numbers = self.rows.values().filter_map(|row| row.get(column)?.parse::<f64>().ok());
        let Some(greatest) = numbers.max_by(f64::total_cmp) else { return };
        let request = EstimateRequest {
            aggregates: vec![("greatest".into(), Aggregate::Max(column.clone()))],
            stop: Stop::Error(HalfWidth::Relative(1e-9)),
            ..EstimateRequest::default()
        };
        let found = table.estimate(&request).unwrap();
        assert!(found.exact);
        assert_eq!(found.aggregates[0].intervals[0].value, greatest, "{column}");
    }

    fn found(&self, table: &TableSnapshot, columns: Option<Vec<String>>) -> Rows {
        let scan = table.scan(ScanRequest { columns, ..ScanRequest::default() }).unwrap();
        let mut rows = Rows::new();
        for batch in scan {
            let batch = batch.unwrap();
            let ids = batch.column_by_name(&self.key).unwrap().as_primitive::<Int64Type>().clone();
            let columns: Vec<(String, Vec<Option<String>>)> = (batch.schema_ref().fields().iter())
                .zip(batch.columns())
                .filter(|(field, _)| *field.name() != self.key)
                .map(|(field, array)| (field.name().clone(), texts(array)))
                .collect();
            for (at, id) in ids.values().iter().enumerate() {
                let row = columns
                    .iter()
                    .filter_map(|(name, texts)| Some((name.clone(), texts[at].clone()?)));
                assert!(rows.insert(*id, row.collect()).is_none(), "row {id} comes once");
            }
        }
        rows
    }
}

fn run(seed: u64, is_upsert: bool, durability: Durability) {
    let folder = tempfile::tempdir().unwrap();
    let rng = &mut Rng::keyed(seed, 5);
    let options = || Options { durability, segment_bytes: 200_000, ..Options::default() };
    let mut db = Database::open(folder.path(), options()).unwrap();
    let mut table = db.create_table("t", narrow_columns_spec(is_upsert)).unwrap();
    let mut model = Model::new(is_upsert);
    let mut named: Vec<(String, Model)> = Vec::new();
    // Goes on through the writer's restarts.
    let reader = Database::open_read_only(folder.path(), ReadOptions::default()).unwrap();
    let backups = tempfile::tempdir().unwrap();
    let backup = backups.path().join("backup");
    let mut held: Vec<(TableSnapshot, Model)> = Vec::new();
    for step in 0..150 {
        let fresh = format!("c{step}");
        let any = rng.below(model.columns.len() as u64) as usize;
        let (name, data_type) = model.columns[any].clone();
        let is_plain = name != model.set && name != model.weight;
        match rng.below(16) {
            0..=4 => model.append(&table, rng),
            5 => db.flush().unwrap(),
            6 if rng.below(2) == 0 => db.compact().unwrap(),
            7 => {
                drop(table);
                held.clear();
                if rng.below(2) == 0 {
                    db.close().unwrap();
                }
                drop(db);
                db = Database::open(folder.path(), options()).unwrap();
                table = db.table(&model.name).unwrap();
            }
            8 => {
                let old = if rng.below(4) == 0 { model.key.clone() } else { name };
                // Names come again, also those of columns that are gone.
                let new = format!("n{}", rng.below(6));
                match table.rename_column(&old, &new) {
                    Ok(()) => model.renamed(&old, &new),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}"),
                }
            }
            9 if is_plain => {
                table.drop_column(&name).unwrap();
                model.columns.remove(any);
                model.rows.values_mut().for_each(|row| drop(row.remove(&name)));
            }
            10 | 11 => {
                let name = if rng.below(2) == 0 { fresh } else { format!("n{}", rng.below(6)) };
                let data_type = NARROW[rng.below(5) as usize].clone();
                match table.add_column(&name, &data_type) {
                    Ok(()) => model.columns.push((name, data_type)),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}"),
                }
            }
            12 => match wider(&data_type) {
                Some(to) => {
                    table.widen(&name, &to).unwrap();
                    model.widened(&name, &to);
                }
                None => {
                    let error = table.widen(&name, &DataType::Float64).unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
                }
            },
            13 => {
                let pinned = format!("s{step}");
                db.named_snapshot(&pinned).unwrap();
                named.push((pinned, model.clone()));
                held.push((table.snapshot().unwrap(), model.clone()));
            }
            14 => {
                let low = rng.below(300) as i64;
                let deleted = table.delete_selected(&of_keys(low, low + 9)).unwrap().rows;
                let before = model.rows.len();
                model.rows.retain(|id, _| !(low..=low + 9).contains(id));
                assert_eq!(deleted, (before - model.rows.len()) as u64);
            }
            _ if rng.below(3) == 0 => {
                let new = format!("table {step}");
                db.rename_table(&model.name, &new).unwrap();
                assert_eq!(db.table(&model.name).err().unwrap().kind(), ErrorKind::NotFound);
                model.name = new;
                if rng.below(2) == 0 {
                    let copy = format!("copy {step}");
                    let copied = db.copy_table(&model.name, &copy).unwrap();
                    model.check(&copied.snapshot().unwrap(), rng);
                    // The copy goes on, and the other one goes.
                    db.drop_table(&model.name).unwrap();
                    model.name = copy;
                    table = copied;
                }
            }
            _ => {}
        }
        model.check(&table.snapshot().unwrap(), rng);
        if step % 10 == 0 {
            for (snapshot, then) in &held {
                then.check(snapshot, rng);
            }
            for (name, then) in &named {
                then.check(&db.named_snapshot(name).unwrap().table(&then.name).unwrap(), rng);
            }
            assert_eq!(db.verify().unwrap().faults, Vec::<String>::new());
            if durability != Durability::None {
                reader.refresh().unwrap();
                model.check(&reader.snapshot().unwrap().table(&model.name).unwrap(), rng);
                assert!(reader.verify().unwrap().faults.is_empty());
            }
            db.backup(&backup, rng.below(4) == 0).unwrap();
            let copy = Database::open_read_only(&backup, ReadOptions::default()).unwrap();
            model.check(&copy.snapshot().unwrap().table(&model.name).unwrap(), rng);
            for (name, then) in &named {
                let of_then = copy.named_snapshot(name).unwrap();
                then.check(&of_then.table(&then.name).unwrap(), rng);
            }
        }
    }
}

#[test]
fn every_read_agrees_with_a_model_whatever_becomes_of_the_columns() {
    let seeds = if std::env::var_os("DRILLCORE_LONG").is_some() { 60 } else { 4 };
    for seed in 0..seeds {
        for is_upsert in [false, true] {
            let durability = if seed % 3 == 0 { Durability::None } else { Durability::Os };
            println!("seed {seed}, upsert {is_upsert}");
            run(seed, is_upsert, durability);
        }
    }
}

fn filled(path: &Path) -> (Database, Table) {
    let db = Database::open(path, Options::default()).unwrap();
    let t = db.create_table("t", narrow_columns_spec(false)).unwrap();
    let ids: ArrayRef = Arc::new((0..100).map(Some).collect::<Int64Array>());
    let a: ArrayRef = cast(&ids, &DataType::Int8).unwrap();
    t.append(
        &RecordBatch::try_from_iter([("id", ids.clone()), ("a", a), ("w", ids)]).unwrap(),
        OnError::Raise,
    )
    .unwrap();
    (db, t)
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (db, t) = filled(folder.path());
    let before = t.schema();
    let refused = |result: Result<()>, kind: ErrorKind| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(t.schema(), before);
    };
    for name in ["id", "place", "w"] {
        refused(t.drop_column(name), ErrorKind::InvalidArgument);
    }
    refused(t.drop_column("none"), ErrorKind::NotFound);
    refused(t.rename_column("none", "x"), ErrorKind::NotFound);
    refused(t.rename_column("a", "f"), ErrorKind::AlreadyExists);
    refused(t.rename_column("a", " "), ErrorKind::InvalidArgument);
    for (name, to) in [
        ("a", DataType::Int8),
        ("a", DataType::Float64),
        ("a", DataType::UInt16),
        ("f", DataType::Int64),
        ("id", DataType::Int64),
        ("place", DataType::Binary),
    ] {
        refused(t.widen(name, &to), ErrorKind::InvalidArgument);
    }
    db.create_table("other", narrow_columns_spec(false)).unwrap();
    refused(db.rename_table("t", "other").map(drop), ErrorKind::AlreadyExists);
    refused(db.rename_table("none", "x").map(drop), ErrorKind::NotFound);
    refused(db.rename_table("t", "").map(drop), ErrorKind::InvalidArgument);
    refused(db.copy_table("t", "other").map(drop), ErrorKind::AlreadyExists);
    refused(db.copy_table("none", "x").map(drop), ErrorKind::NotFound);
    let reader = Database::open_read_only(folder.path(), ReadOptions::default()).unwrap();
    refused(reader.rename_table("t", "x").map(drop), ErrorKind::ReadOnly);
    refused(reader.table("t").unwrap().drop_column("a"), ErrorKind::ReadOnly);
    assert_eq!(db.tables().unwrap(), ["other", "t"]);

    // A batch with a name of before is refused by that name.
    t.rename_column("a", "b").unwrap();
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let old =
        RecordBatch::try_from_iter([("id", ids.clone()), ("w", ids.clone()), ("a", ids)]).unwrap();
    let error = t.append(&old, OnError::Raise).unwrap_err();
    assert!(error.to_string().contains(r#""a""#), "{error}");
}

#[test]
fn a_rollup_table_renames_its_columns_and_keeps_them() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let columns = schema_of(&[("city", DataType::Utf8, true), ("x", DataType::Int32, true)]);
    let rollup = RollupSpec::default().metric("n", Metric::Count).metric("s", Metric::sum("x"));
    let spec = TableSpec::new(columns, ["city"]).merge(Merge::Rollup(rollup));
    let t = db.create_table("t", spec).unwrap();
    let append = |city: &str, input: &str| {
        let cities: ArrayRef = Arc::new(StringArray::from(vec!["A", "A"]));
        let x: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        t.append(&RecordBatch::try_from_iter([(city, cities), (input, x)]).unwrap(), OnError::Raise)
    };
    append("city", "x").unwrap();
    db.flush().unwrap();
    for (old, new) in [("city", "town"), ("s", "total"), ("x", "amount")] {
        t.rename_column(old, new).unwrap();
    }
    assert_eq!(append("city", "amount").unwrap_err().kind(), ErrorKind::NotFound);
    append("town", "amount").unwrap();
    for refused in [t.drop_column("town"), t.widen("n", &DataType::Int64)] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    db.close().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let mut scan = db.table("t").unwrap().snapshot().unwrap().scan(ScanRequest::default()).unwrap();
    let rows = scan.next().unwrap().unwrap();
    let total = rows.column_by_name("total").unwrap().as_primitive::<Int64Type>();
    assert_eq!((rows.num_rows(), total.value(0)), (1, 6));
}

/// Threads append with whatever shape they find, and some batches are on their way while it changes.
#[test]
fn appends_beside_changes_keep_their_values_and_none_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let memory_bytes = Options::MEMORY_BYTES_MIN;
    let db = Database::open(folder.path(), Options { memory_bytes, ..Options::default() }).unwrap();
    let t = db.create_table("t", narrow_columns_spec(false)).unwrap();
    let ends = AtomicBool::new(false);
    let appended = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|thread: i64| {
                let (t, ends) = (&t, &ends);
                scope.spawn(move || {
                    let mut number = 0i64;
                    while !ends.load(Ordering::Relaxed) && number < 20_000 {
                        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(
                            (0..10).map(|at| thread * 1_000_000 + number * 10 + at),
                        ));
                        let f: ArrayRef = Arc::new(Float64Array::from(vec![1.5; 10]));
                        let w: ArrayRef = Arc::new(Int64Array::from(vec![1; 10]));
                        let columns = [("id", ids), ("f", f), ("w", w)];
                        let batch = RecordBatch::try_from_iter(columns).unwrap();
                        t.append(&batch, OnError::Raise).unwrap();
                        number += 1;
                    }
                    number * 10
                })
            })
            .collect();
        for round in 0..20 {
            t.add_column("gone", &DataType::Int64).unwrap();
            if round == 7 {
                t.widen("f", &DataType::Float64).unwrap();
            }
            if round % 5 == 0 {
                db.flush().unwrap();
            }
            t.drop_column("gone").unwrap();
        }
        db.compact().unwrap();
        ends.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap()).sum::<i64>()
    });
    let check = |t: &Table| {
        let scan = t.snapshot().unwrap().scan(ScanRequest::default()).unwrap();
        let mut rows = 0;
        for batch in scan {
            let batch = batch.unwrap();
            let f = batch.column_by_name("f").unwrap().as_primitive::<Float64Type>();
            assert!(f.null_count() == 0 && f.values().iter().all(|value| *value == 1.5));
            rows += batch.num_rows() as i64;
        }
        assert_eq!(rows, appended);
    };
    check(&t);
    db.close().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    check(&db.table("t").unwrap());
    assert!(db.verify().unwrap().faults.is_empty());
}

/// A reader that reads the manifest before a change and the log after it starts over.
#[test]
fn a_reader_beside_changes_sees_each_row_with_its_values() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let field = |name: &str, of| Field::new(name, of, name != "y");
    let spec = || {
        let columns = vec![field("id", DataType::Int64), field("x", DataType::Int16)];
        let y = field("y", DataType::Int64);
        TableSpec::new(Arc::new(Schema::new([columns, vec![y]].concat())), ["id"])
    };
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let reader = Database::open_read_only(folder.path(), ReadOptions::default()).unwrap();
            while !ends.load(Ordering::Relaxed) {
                reader.refresh().unwrap();
                let snapshot = reader.snapshot().unwrap();
                for name in snapshot.tables() {
                    let table = snapshot.table(&name).unwrap();
                    for batch in table.scan(ScanRequest::default()).unwrap() {
                        // A column that takes no nulls has none.
                        let batch = batch.unwrap();
                        batch
                            .columns()
                            .iter()
                            .for_each(|column| assert_eq!(column.null_count(), 0));
                    }
                }
            }
        });
        for number in 0..60 {
            let name = format!("t{number}");
            let t = db.create_table(&name, spec()).unwrap();
            let append = |columns: &[&str]| {
                let value: ArrayRef = Arc::new(Int64Array::from(vec![7]));
                let columns = columns.iter().map(|name| (*name, value.clone()));
                t.append(&RecordBatch::try_from_iter(columns).unwrap(), OnError::Raise).unwrap();
            };
            append(&["id", "x", "y"]);
            t.widen("x", &DataType::Int32).unwrap();
            append(&["id", "x", "y"]);
            t.drop_column("y").unwrap();
            append(&["id", "x"]);
            append(&["id", "x"]);
            if number % 5 == 0 {
                db.flush().unwrap();
            }
        }
        ends.store(true, Ordering::Relaxed);
    });
}

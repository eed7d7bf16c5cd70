//! Numbers outside the key, which runs hold in the narrowest types that have them: rows read as they came, whatever the runs beside
//! them need, and what they take.

use std::collections::BTreeMap;
use std::sync::Arc;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::{
    ArrowPrimitiveType, Decimal128Type, Float64Type, Int64Type, UInt32Type, UInt64Type,
};
use drillcore::arrow_array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int64Array, PrimitiveArray,
    RecordBatch, UInt32Array,
};
use drillcore::arrow_schema::DataType;
use drillcore::*;

use crate::fixtures::{as_one, integers, schema_of};

/// The values of a row beside its id.
#[derive(Debug, Clone, PartialEq)]
struct Numbers {
    place: i64,
    weight: f64,
    count: Option<i64>,
    price: Option<i128>,
    code: Option<u32>,
}

/// How large the numbers of a batch are, by the type that they need.
#[derive(Debug, Clone, Copy)]
enum Size {
    Nulls,
    Byte,
    Short,
    Word,
    Long,
}

const SIZES: [Size; 5] = [Size::Byte, Size::Nulls, Size::Short, Size::Long, Size::Word];
const PRICE: DataType = DataType::Decimal128(38, 2);

impl Numbers {
    fn of(id: i64, size: Size) -> Numbers {
        let is_null = matches!(size, Size::Nulls) || id % 7 == 0;
        let most = match size {
            Size::Nulls | Size::Byte => 1i64 << 6,
            Size::Short => 1 << 14,
            Size::Word => 1 << 30,
            Size::Long => 1 << 60,
        };
        let number = if id % 2 == 0 { most - id % 50 } else { id % 50 - most };
        let wide = matches!(size, Size::Long) && id % 3 == 0;
        Numbers {
            place: (id % 5) * most.min(1 << 50),
            // Halves need 32 bits, tenths all of 64.
            weight: 1.0 + (id % 3) as f64 / if matches!(size, Size::Long) { 10.0 } else { 2.0 },
            count: (!is_null).then_some(number),
            price: (!is_null).then(|| i128::from(number) << if wide { 60 } else { 0 }),
            code: (!is_null).then_some((most.min(1 << 30) - id % 50) as u32),
        }
    }
}

type Model = BTreeMap<i64, Numbers>;

fn spec(merge: Merge) -> TableSpec {
    let columns = schema_of(&[
        ("id", DataType::Int64, false),
        ("place", DataType::Int64, false),
        ("weight", DataType::Float64, false),
        ("count", DataType::Int64, true),
        ("price", PRICE, true),
        ("code", DataType::UInt32, true),
    ]);
    TableSpec::new(columns, ["id"]).set("place").weights(["weight"]).merge(merge)
}

fn batch(rows: &Model) -> RecordBatch {
    let all = || rows.values();
    let prices: Decimal128Array = all().map(|row| row.price).collect();
    let columns: [(&str, ArrayRef, bool); 6] = [
        ("id", integers(rows.keys().copied()), false),
        ("place", integers(all().map(|row| row.place)), false),
        ("weight", Arc::new(Float64Array::from_iter_values(all().map(|row| row.weight))), false),
        ("count", Arc::new(Int64Array::from_iter(all().map(|row| row.count))), true),
        ("price", Arc::new(prices.with_data_type(PRICE)), true),
        ("code", Arc::new(UInt32Array::from_iter(all().map(|row| row.code))), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn rows_of(batch: &RecordBatch) -> Vec<(i64, Numbers)> {
    let ids = batch.column(0).as_primitive::<Int64Type>().values();
    let places = batch.column(1).as_primitive::<Int64Type>().values();
    let weights = batch.column(2).as_primitive::<Float64Type>().values();
    let counts = batch.column(3).as_primitive::<Int64Type>();
    let prices = batch.column(4).as_primitive::<Decimal128Type>();
    // Wider once the table says so.
    let codes: Vec<Option<u64>> = match batch.column(5).data_type() {
        DataType::UInt32 => of_optional(batch.column(5).as_primitive::<UInt32Type>()),
        _ => of_optional(batch.column(5).as_primitive::<UInt64Type>()),
    };
    let of_row = |row: usize| {
        let numbers = Numbers {
            place: places[row],
            weight: weights[row],
            count: counts.is_valid(row).then(|| counts.value(row)),
            price: prices.is_valid(row).then(|| prices.value(row)),
            code: codes[row].map(|code| code as u32),
        };
        (ids[row], numbers)
    };
    (0..batch.num_rows()).map(of_row).collect()
}

fn of_optional<T: ArrowPrimitiveType<Native: Into<u64>>>(
    numbers: &PrimitiveArray<T>,
) -> Vec<Option<u64>> {
    numbers.iter().map(|number| number.map(Into::into)).collect()
}

/// Rows whose count is above zero.
#[derive(Debug)]
struct Above {
    columns: [String; 1],
}

impl Predicate for Above {
    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn select(&self, rows: &RecordBatch) -> Result<BooleanArray> {
        let counts = rows.column(0).as_primitive::<Int64Type>();
        Ok(counts.iter().map(|count| count.map(|count| count > 0)).collect())
    }

    fn text(&self) -> &str {
        "count > 0"
    }
}

/// Compares every kind of read with what the rows should be.
fn check(db: &Database, model: &Model) {
    let table = db.table("t").unwrap().snapshot().unwrap();
    let scanned = rows_of(&as_one(table.scan(ScanRequest::default()).unwrap()));
    assert!(scanned.iter().map(|(id, row)| (id, row)).eq(model));
    let backwards = ScanRequest {
        reverse: true,
        threads: Some(2),
        partition_rows: Some(100),
        ..ScanRequest::default()
    };
    let backwards = rows_of(&as_one(table.scan(backwards).unwrap()));
    assert!(backwards.iter().rev().eq(&scanned));
    let above = Selection {
        predicate: Some(Arc::new(Above { columns: ["count".into()] })),
        ..Selection::default()
    };
    let is_above = |row: &Numbers| row.count.is_some_and(|count| count > 0);
    let found = ScanRequest { selection: above.clone(), ..ScanRequest::default() };
    let found = rows_of(&as_one(table.scan(found).unwrap()));
    assert!(found.iter().eq(scanned.iter().filter(|(_, row)| is_above(row))));
    assert_eq!(table.count(&above).unwrap(), found.len() as u64);
    let request = |weight: Option<&str>, selection: Selection| SampleRequest {
        n: 400,
        replace: true,
        weight: weight.map(String::from),
        selection,
        ..SampleRequest::default()
    };
    let drawn = table.sample(&request(None, above)).unwrap();
    assert!(rows_of(&drawn).iter().all(|(id, row)| is_above(row) && *row == model[id]));
    for weight in [None, Some("weight")] {
        let drawn = table.sample(&request(weight, Selection::default())).unwrap();
        rows_of(&drawn).into_iter().for_each(|(id, row)| assert_eq!(row, model[&id], "{id}"));
    }
    let asked: Vec<i64> = (0..3_000).step_by(13).collect();
    let got = table.get(&[integers(asked.iter().copied())], None).unwrap();
    let known = asked.iter().filter_map(|id| Some((*id, model.get(id)?.clone())));
    assert_eq!(rows_of(&got.rows).into_iter().collect::<Model>(), known.collect());
    let one = asked.iter().copied().find(|id| model.contains_key(id)).unwrap();
    let got = table.get(&[integers([one])], None).unwrap();
    assert_eq!(rows_of(&got.rows), [(one, model[&one].clone())]);
    let mut places: Vec<i64> = model.values().map(|row| row.place).collect();
    places.sort_unstable();
    places.dedup();
    for place in places {
        let of_place = || model.iter().filter(|(_, row)| row.place == place);
        let selection = Selection { sets: Some(integers([place])), ..Selection::default() };
        assert_eq!(table.count(&selection).unwrap(), of_place().count() as u64, "{place}");
        let selected = ScanRequest { selection: selection.clone(), ..ScanRequest::default() };
        let found = rows_of(&as_one(table.scan(selected).unwrap()));
        assert!(found.iter().map(|(id, row)| (id, row)).eq(of_place()), "{place}");
        let drawn = table.sample(&request(Some("weight"), selection)).unwrap();
        assert!(rows_of(&drawn).iter().all(|(id, row)| row.place == place && *row == model[id]));
    }
}

#[test]
fn rows_read_as_they_came_whatever_types_the_runs_beside_them_have() {
    for merge in [Merge::Append, Merge::Upsert] {
        let is_upsert = merge == Merge::Upsert;
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open(folder.path(), Options::default()).unwrap();
        let table = db.create_table("t", spec(merge)).unwrap();
        let mut model = Model::new();
        let append = |model: &mut Model, ids: &[i64], size: Size| {
            let rows: Model = ids.iter().map(|id| (*id, Numbers::of(*id, size))).collect();
            table.append(&batch(&rows), OnError::Raise).unwrap();
            model.extend(rows);
        };
        for round in 0..40i64 {
            let size = SIZES[round as usize % SIZES.len()];
            let ids: Vec<i64> = (0..if round % 4 == 0 { 300 } else { 20 })
                .map(|row| (row * 40 + round) % 3_000)
                .filter(|id| is_upsert || !model.contains_key(id))
                .collect();
            append(&mut model, &ids, size);
            if is_upsert && round % 3 == 0 {
                let gone: Vec<i64> = (0..9).map(|row| (row * 77 + round * 5) % 3_000).collect();
                table.delete(&[integers(gone.iter().copied())]).unwrap();
                model.retain(|id, _| !gone.contains(id));
            }
            if round < 12 || round % 8 == 0 {
                check(&db, &model);
            }
        }
        check(&db, &model);
        // Runs hold the narrow codes, and no notes.
        table.widen("code", &DataType::UInt64).unwrap();
        table.add_column("note", &DataType::Utf8).unwrap();
        table.add_column("late", &DataType::Int64).unwrap();
        check(&db, &model);
        append(&mut model, &[3_000, 3_001, 3_007], Size::Short);
        check(&db, &model);
        for round in 0..20 {
            append(&mut model, &[3_100 + round, 3_200 + round], SIZES[round as usize % 5]);
        }
        check(&db, &model);
        table.drop_column("late").unwrap();
        check(&db, &model);
        drop((table, db));
        let db = Database::open(folder.path(), Options::default()).unwrap();
        check(&db, &model);
        db.flush().unwrap();
        check(&db, &model);
    }
}

/// Whole numbers of 64 bits that need eight take one byte, and a run of nulls none.
#[test]
fn numbers_take_the_bytes_that_they_need() {
    let bytes_of = |numbers: ArrayRef| {
        let db = Database::in_memory(Options::default()).unwrap();
        let rows = numbers.len() as i64;
        let columns = schema_of(&[("id", DataType::Int64, false), ("n", DataType::Int64, true)]);
        let table = db.create_table("t", TableSpec::new(columns, ["id"])).unwrap();
        let columns = [("id", integers(0..rows), false), ("n", numbers, true)];
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        table.append(&batch, OnError::Raise).unwrap();
        db.stats().unwrap().row_bytes as f64 / rows as f64
    };
    let rows = 100_000;
    let nothing = bytes_of(Arc::new(Int64Array::new_null(rows)));
    assert!((8.0..9.5).contains(&nothing), "of keys, and what finds them: {nothing}");
    let of = |number: i64| bytes_of(integers((0..rows as i64).map(|row| number - row % 50)));
    for (number, bytes) in [(100, 1.0), (30_000, 2.0), (1 << 30, 4.0), (1 << 40, 8.0)] {
        let found = of(number) - nothing;
        assert!((found - bytes).abs() < 0.1, "{number}: {found} bytes instead of {bytes}");
    }
}

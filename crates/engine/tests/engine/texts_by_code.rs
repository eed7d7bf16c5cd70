//! Texts outside the key by code: rows read as they came, whatever becomes of the columns, and how runs come together.

use std::collections::BTreeMap;
use std::sync::Arc;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::*;

use crate::fixtures::as_one;

/// Of each id its texts.
type Model = BTreeMap<i64, Vec<Option<String>>>;

struct Noted {
    /// The columns of texts, in their order.
    columns: Vec<&'static str>,
    rows: Model,
}

impl Noted {
    /// Texts of few values in most columns, which differ between columns and slowly change.
    fn append(&mut self, table: &Table, ids: impl Iterator<Item = i64>) {
        let ids: Vec<i64> = ids.collect();
        let text = |id: i64, column: &str| match (id + column.len() as i64) % 11 {
            0 => None,
            1 => Some(String::new()),
            // Bytes that keys write in other ones.
            2 if id % 3_000 == 0 => Some("with\0zeros\u{1}".to_string()),
            rest => Some(format!("{column} of {} and {rest}", id / 4_000)),
        };
        for &id in &ids {
            let texts = self.columns.iter().map(|column| text(id, column)).collect();
            self.rows.insert(id, texts);
        }
        let of = |column: &&str| {
            let texts: StringArray = ids.iter().map(|&id| text(id, column)).collect();
            (column.to_string(), Arc::new(texts) as ArrayRef, true)
        };
        let key: ArrayRef = Arc::new(Int64Array::from(ids.clone()));
        let columns =
            std::iter::once(("id".to_string(), key, false)).chain(self.columns.iter().map(of));
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        table.append(&batch, OnError::Raise).unwrap();
    }

    fn drop(&mut self, table: &Table, at: usize) {
        table.drop_column(self.columns.remove(at)).unwrap();
        self.rows.values_mut().for_each(|texts| drop(texts.remove(at)));
    }

    fn add(&mut self, table: &Table, column: &'static str) {
        table.add_column(column, &DataType::Utf8).unwrap();
        self.columns.push(column);
        self.rows.values_mut().for_each(|texts| texts.push(None));
    }

    fn check(&self, db: &Database) {
        let table = db.table("t").unwrap().snapshot().unwrap();
        let scanned = as_one(table.scan(ScanRequest::default()).unwrap());
        assert_eq!(found(&scanned), self.rows);
        let request = SampleRequest { n: 300, replace: true, ..SampleRequest::default() };
        for (id, texts) in found(&table.sample(&request).unwrap()) {
            assert_eq!(texts, self.rows[&id], "{id}");
        }
        let ids: Vec<i64> = self.rows.keys().copied().step_by(97).collect();
        let keys: ArrayRef = Arc::new(Int64Array::from(ids.clone()));
        let got = found(&table.get(&[keys], None).unwrap().rows);
        assert_eq!(got, ids.iter().map(|id| (*id, self.rows[id].clone())).collect());
    }
}

fn found(batch: &RecordBatch) -> Model {
    let ids = batch.column(0).as_primitive::<Int64Type>();
    let texts: Vec<&StringArray> = batch.columns()[1..].iter().map(|of| of.as_string()).collect();
    let of_row = |row: usize| {
        let text = |of: &&StringArray| of.is_valid(row).then(|| of.value(row).to_string());
        (ids.value(row), texts.iter().map(text).collect())
    };
    (0..batch.num_rows()).map(of_row).collect()
}

#[test]
fn rows_read_as_they_came_whatever_becomes_of_their_columns() {
    for merge in [Merge::Append, Merge::Upsert] {
        let is_upsert = merge == Merge::Upsert;
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open(folder.path(), Options::default()).unwrap();
        let mut noted = Noted { columns: vec!["note", "kind", "place"], rows: Model::new() };
        let texts = noted.columns.iter().map(|name| Field::new(*name, DataType::Utf8, true));
        let columns: Vec<Field> =
            std::iter::once(Field::new("id", DataType::Int64, false)).chain(texts).collect();
        let spec = TableSpec::new(Arc::new(Schema::new(columns)), ["id"]).set("place").merge(merge);
        let table = db.create_table("t", spec).unwrap();
        let mut next = 0..;
        let mut ids = |count: usize| next.by_ref().take(count).collect::<Vec<i64>>().into_iter();
        for _ in 0..5 {
            noted.append(&table, ids(2_000).rev());
            noted.append(&table, ids(3));
        }
        noted.check(&db);
        noted.drop(&table, 0);
        noted.check(&db);
        for round in 0..60 {
            noted.append(&table, ids(if round % 6 == 0 { 1_500 } else { 5 }));
        }
        noted.check(&db);
        noted.add(&table, "late");
        for round in 0..60 {
            noted.append(&table, ids(if round % 6 == 1 { 1_500 } else { 5 }));
            if is_upsert && round % 3 == 0 {
                let gone: Vec<i64> = (0..4).map(|of| round * 50 + of * 7).collect();
                gone.iter().for_each(|id| drop(noted.rows.remove(id)));
                let keys: ArrayRef = Arc::new(Int64Array::from(gone));
                table.delete(&[keys]).unwrap();
            }
        }
        if is_upsert {
            // Many rows of few keys: what is left of them has no need of their list.
            noted.append(&table, (0..5_000).map(|id| id % 7));
        }
        noted.check(&db);
        drop((table, db));
        let db = Database::open(folder.path(), Options::default()).unwrap();
        noted.check(&db);
        db.flush().unwrap();
        noted.check(&db);
    }
}

/// What a run of a table takes, and whether the next batch is held as the first was.
#[test]
fn batches_of_few_rows_or_without_texts_do_not_make_a_table_forget_its_texts() {
    let db = Database::in_memory(Options::default()).unwrap();
    let columns =
        vec![Field::new("id", DataType::Int64, false), Field::new("note", DataType::Utf8, true)];
    let spec = TableSpec::new(Arc::new(Schema::new(columns)), ["id"]);
    let table = db.create_table("t", spec).unwrap();
    let taken = || {
        let before = db.stats().unwrap().row_bytes;
        move |db: &Database| db.stats().unwrap().row_bytes - before
    };
    let mut noted = Noted { columns: vec!["note"], rows: Model::new() };
    let first = taken();
    noted.append(&table, 0..2_000);
    let first = first(&db);
    assert!(first < 2_000 * 20, "{first} bytes of 2,000 rows");
    noted.append(&table, 2_000..2_010);
    let again = taken();
    noted.append(&table, 2_010..4_000);
    let again = again(&db);
    assert!(again <= first + 2_000, "{again} bytes, and before {first}");
}

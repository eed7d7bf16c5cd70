//! Texts of keys that come as dictionaries: the same rows as plain ones, in every kind of table.

use std::sync::Arc;

use drillcore::arrow_array::types::{Int8Type, UInt32Type};
use drillcore::arrow_array::{
    ArrayRef, DictionaryArray, Int8Array, LargeStringArray, RecordBatch, StringArray,
    StringViewArray, UInt32Array,
};
use drillcore::arrow_schema::DataType;
use drillcore::*;

use crate::fixtures::{as_one, integers, schema_of};

fn cities(merge: Merge) -> TableSpec {
    let columns = [
        ("city", DataType::Utf8, false),
        ("street", DataType::Utf8, true),
        ("note", DataType::Utf8, true),
        ("n", DataType::Int64, false),
    ];
    TableSpec::new(schema_of(&columns), ["city", "street"]).set("city").merge(merge)
}

fn counted() -> Merge {
    let rollup = RollupSpec::default().metric("rows", Metric::Count).metric("n", Metric::sum("n"));
    Merge::Rollup(rollup)
}

const CITIES: [&str; 6] = ["Oslo", "Bergen", "Oslo", "Oslo", "Bergen", "Oslo"];
const STREETS: [Option<&str>; 6] = [Some("a\0b"), None, Some("a\0b"), Some(""), Some("b"), None];

fn rows(city: ArrayRef, street: ArrayRef, note: ArrayRef) -> RecordBatch {
    let n = integers(0..city.len() as i64);
    let columns =
        [("city", city, true), ("street", street, true), ("note", note, true), ("n", n, true)];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn texts(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn by_code(codes: Vec<Option<i8>>, values: ArrayRef) -> ArrayRef {
    Arc::new(DictionaryArray::<Int8Type>::new(Int8Array::from(codes), values))
}

fn all_rows(db: &Database, spec: TableSpec, batch: &RecordBatch) -> RecordBatch {
    let table = db.create_table(&format!("t{}", db.tables().unwrap().len()), spec).unwrap();
    table.append(batch, OnError::Raise).unwrap();
    as_one(table.snapshot().unwrap().scan(ScanRequest::default()).unwrap())
}

#[test]
fn texts_by_code_are_stored_as_the_texts_are_wherever_their_dictionary_lies() {
    let db = Database::in_memory(Options::default()).unwrap();
    let cities_plain = texts(&CITIES.map(Some));
    let plain = rows(cities_plain.clone(), texts(&STREETS), texts(&STREETS));
    // Not sorted, one twice, one used by no row; nulls without a code, and by the code of a null.
    let names = ["Bergen", "Oslo", "Ålesund", "Oslo"];
    let city = |values: ArrayRef| by_code([1, 0, 3, 1, 0, 3].map(Some).to_vec(), values);
    let streets = texts(&[None, Some("b"), Some(""), Some("a\0b")]);
    let street = by_code(vec![Some(3), None, Some(3), Some(2), Some(1), Some(0)], streets);
    let values: [ArrayRef; 3] = [
        Arc::new(StringArray::from(names.to_vec())),
        Arc::new(LargeStringArray::from(names.to_vec())),
        Arc::new(StringViewArray::from(names.to_vec())),
    ];
    for spec in [|| cities(Merge::Append), || cities(Merge::Upsert), || cities(counted())] {
        let expected = all_rows(&db, spec(), &plain);
        for values in &values {
            let batch = rows(city(values.clone()), street.clone(), street.clone());
            assert_eq!(all_rows(&db, spec(), &batch), expected);
            let halves = [batch.slice(0, 2), batch.slice(2, 4)];
            let table = db.create_table("halves", spec()).unwrap();
            halves.iter().for_each(|half| drop(table.append(half, OnError::Raise).unwrap()));
            let scan = table.snapshot().unwrap().scan(ScanRequest::default()).unwrap();
            let found = as_one(scan);
            assert_eq!(found.num_rows(), expected.num_rows());
            assert_eq!(found.column(0), expected.column(0));
            assert_eq!(found.column(1), expected.column(1));
            db.drop_table("halves").unwrap();
        }
    }
}

#[test]
fn rows_that_do_not_fit_are_named_as_plain_ones_are() {
    let db = Database::in_memory(Options::default()).unwrap();
    let table = db.create_table("t", cities(Merge::Append)).unwrap();
    let long = "x".repeat(70_000);
    type Case<'a> = (Vec<Option<&'a str>>, Vec<Option<i8>>, &'a str);
    let cases: [Case<'_>; 4] = [
        (
            vec![Some("a"), Some("b")],
            vec![Some(0), None, Some(1)],
            "row 1: column \"city\" is not nullable",
        ),
        (
            vec![None, Some("b")],
            vec![Some(1), Some(1), Some(0)],
            "row 2: column \"city\" is not nullable",
        ),
        (
            vec![Some("a"), Some(&long)],
            vec![Some(0), Some(0), Some(1)],
            "row 2: column \"city\": the set name has 70000 bytes",
        ),
        (vec![], vec![None, None, None], "row 0: column \"city\" is not nullable"),
    ];
    for (values, codes, message) in cases {
        let city = by_code(codes, texts(&values));
        let note = texts(&[None, None, None]);
        let batch = rows(city, note.clone(), note);
        let error = table.append(&batch, OnError::Raise).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().starts_with(message), "{error}");
        assert_eq!(table.snapshot().unwrap().rows().unwrap(), 0);
    }
    let city = by_code(vec![Some(0), None, Some(1)], texts(&[Some("a"), Some("b")]));
    let note = texts(&[None, None, None]);
    let appended = table.append(&rows(city, note.clone(), note), OnError::Skip).unwrap();
    assert_eq!((appended.rows, appended.rejected.len(), appended.rejected[0].row), (2, 1, 1));
    assert_eq!(table.snapshot().unwrap().rows().unwrap(), 2);
}

#[test]
fn a_key_whose_texts_are_too_long_together_is_refused() {
    let db = Database::in_memory(Options::default()).unwrap();
    let table = db.create_table("t", cities(Merge::Append)).unwrap();
    let half = "x".repeat(40_000);
    let column = || by_code(vec![Some(0), Some(1)], texts(&[Some("a"), Some(&half)]));
    let batch = rows(column(), column(), texts(&[None, None]));
    let error = table.append(&batch, OnError::Raise).unwrap_err().to_string();
    assert!(
        error.starts_with(
            "row 1: key columns \"city\", \"street\": the strings of the key have 80000 bytes"
        ),
        "{error}"
    );
}

#[test]
fn a_null_is_not_as_long_as_the_text_that_its_code_names() {
    let db = Database::in_memory(Options::default()).unwrap();
    let table = db.create_table("t", cities(Merge::Append)).unwrap();
    let long = "x".repeat(70_000);
    // Without a value, a code is 0.
    let street = by_code(vec![Some(1), None, Some(2)], texts(&[Some(&long), Some("a"), None]));
    let city = by_code(vec![Some(0); 3], texts(&[Some("Oslo")]));
    let batch = rows(city, street, texts(&[None, None, None]));
    assert_eq!(table.append(&batch, OnError::Raise).unwrap().rows, 3);
    let found = as_one(table.snapshot().unwrap().scan(ScanRequest::default()).unwrap());
    assert_eq!(found.column(1).null_count(), 2);
}

#[test]
fn a_small_dictionary_of_long_texts_makes_no_commit_too_large_for_its_arrays() {
    let db = Database::in_memory(Options { memory_bytes: 1 << 40, ..Options::default() }).unwrap();
    let table = db.create_table("t", cities(Merge::Append)).unwrap();
    let rows_of_it = 40_000;
    let long: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(60_000)]));
    let codes = UInt32Array::from(vec![0; rows_of_it]);
    let city: ArrayRef = Arc::new(DictionaryArray::<UInt32Type>::new(codes, long));
    let note = drillcore::arrow_array::new_null_array(&DataType::Utf8, rows_of_it);
    let error = table.append(&rows(city, note.clone(), note), OnError::Raise).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("Append in smaller batches"), "{error}");
}

//! A row that is appended to an upsert table stands for the whole row of its key, so one that lacks columns is
//! refused; in other tables, and where nulls are asked for, what is missing is null.

use std::sync::Arc;

use drillcore::arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::*;

use crate::fixtures::schema_of;

const FILL_NULLS: AppendOptions = AppendOptions { on_error: OnError::Raise, fill_nulls: true };

fn planes_spec(merge: Merge) -> TableSpec {
    let columns = schema_of(&[
        ("id", DataType::Int64, false),
        ("name", DataType::Utf8, true),
        ("seats", DataType::Int64, true),
    ]);
    TableSpec::new(columns, ["id"]).merge(merge).exist_ok()
}

/// One row with these columns: numbers are 7, names "x".
fn row(columns: &[&str]) -> RecordBatch {
    let value = |name: &&str| -> (String, ArrayRef) {
        let value: ArrayRef = match *name {
            "name" => Arc::new(StringArray::from(vec!["x"])),
            _ => Arc::new(Int64Array::from(vec![7])),
        };
        (name.to_string(), value)
    };
    RecordBatch::try_from_iter(columns.iter().map(value)).unwrap()
}

fn nulls(table: &Table) -> Vec<String> {
    let rows = table.snapshot().unwrap().scan(ScanRequest::default()).unwrap().last().unwrap();
    let rows = rows.unwrap();
    let is_null = |name: &&String| {
        let column = rows.column_by_name(name).unwrap();
        column.is_null(column.len() - 1)
    };
    let schema = rows.schema();
    schema.fields().iter().map(|field| field.name()).filter(is_null).cloned().collect()
}

#[test]
fn an_upsert_of_rows_that_lack_columns_is_refused_with_their_names() {
    let db = Database::in_memory(Options::default()).unwrap();
    let table = db.create_table("t", planes_spec(Merge::Upsert)).unwrap();
    let other = db.create_table("other", planes_spec(Merge::Append)).unwrap();
    table.append(&row(&["id", "name", "seats"]), OnError::Raise).unwrap();
    for (columns, named) in [
        (&["id"][..], "lacks columns \"name\", \"seats\""),
        (&["id", "name"], "lacks column \"seats\""),
        (&["seats", "id"], "lacks column \"name\""),
        // Without its key it is no row at all.
        (&["name"], "lacks key column \"id\""),
    ] {
        let lacking = row(columns);
        let whole = row(&["id"]);
        for refused in [
            table.append(&lacking, OnError::Raise),
            table.append(&lacking, OnError::Skip),
            db.append(&[("t", &lacking)]),
            db.append(&[("other", &whole), ("t", &lacking)]),
        ] {
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
            assert!(refused.to_string().contains(named), "{columns:?}: {refused}");
        }
    }
    assert_eq!(nulls(&table), [""; 0], "the row is as it was");
    assert_eq!(other.snapshot().unwrap().rows().unwrap(), 0, "a commit is whole");
    // A null that is there is a value.
    let null = RecordBatch::try_from_iter([
        ("id", Arc::new(Int64Array::from(vec![7])) as ArrayRef),
        ("name", arrow_null(1)),
        ("seats", arrow_null(1)),
    ]);
    table.append(&null.unwrap(), OnError::Raise).unwrap();
    assert_eq!(nulls(&table), ["name", "seats"]);
}

fn arrow_null(len: usize) -> ArrayRef {
    Arc::new(drillcore::arrow_array::NullArray::new(len))
}

#[test]
fn missing_columns_are_null_where_that_is_asked_for_or_replaces_nothing() {
    let db = Database::in_memory(Options::default()).unwrap();
    let rollup = RollupSpec {
        granularity: Granularity::NONE,
        metrics: vec![("seats".into(), Metric::sum("seats"))],
        ..Default::default()
    };
    let rollup = TableSpec { ..planes_spec(Merge::Rollup(rollup)) };
    for (number, (spec, fill_nulls)) in [
        (planes_spec(Merge::Upsert), true),
        (planes_spec(Merge::Append), true),
        (planes_spec(Merge::Append), false),
        (rollup, false),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("t{number}");
        let table = db.create_table(&name, spec).unwrap();
        let options = AppendOptions { fill_nulls, ..Default::default() };
        table.append(&row(&["id"]), options).unwrap();
        let lacking = row(&["id"]);
        match fill_nulls {
            true => db.append_with_nulls(&[(&name, &lacking)]).unwrap(),
            false => db.append(&[(&name, &lacking)]).unwrap(),
        };
        assert!(nulls(&table).contains(&"seats".to_string()), "{name}");
        // What cannot be null is refused all the same.
        let refused = table.append(&row(&["name"]), FILL_NULLS).unwrap_err();
        assert!(refused.to_string().contains("lacks key column"), "{refused}");
    }
}

#[test]
fn columns_that_were_added_may_be_missing_so_that_running_producers_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Database::open(folder.path(), Options::default()).unwrap();
    let whole = row(&["id", "name", "seats"]);
    {
        let db = open();
        let table = db.create_table("t", planes_spec(Merge::Upsert)).unwrap();
        table.append(&whole, OnError::Raise).unwrap();
        table.add_column("gate", &DataType::Int64).unwrap();
        table.append(&whole, OnError::Raise).unwrap();
        assert_eq!(nulls(&table), ["gate"]);
        db.named_snapshot("pinned").unwrap();
    }
    // The rule outlasts a restart, and a second column.
    let db = open();
    let table = db.table("t").unwrap();
    table.add_column("door", &DataType::Int64).unwrap();
    for _ in 0..2 {
        table.append(&row(&["id", "name", "seats", "door"]), OnError::Raise).unwrap();
        assert_eq!(nulls(&table), ["gate"]);
        let refused = table.append(&row(&["id", "name", "gate", "door"]), OnError::Raise);
        assert!(refused.unwrap_err().to_string().contains("lacks column \"seats\""));
        // Asking for the table as it is now is asking for the same table.
        let mut now = planes_spec(Merge::Upsert);
        let added = ["gate", "door"].map(|name| Arc::new(Field::new(name, DataType::Int64, true)));
        let columns: Vec<_> = now.columns.fields().iter().cloned().chain(added).collect();
        now.columns = Arc::new(Schema::new(columns));
        db.create_table("t", now).unwrap();
    }
}

/// Without a weight, no sample by weight would ever draw the row: so nothing is filled in for it.
#[test]
fn weights_and_columns_that_are_not_nullable_are_never_filled() {
    let columns = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("w", DataType::Int64, true),
        Field::new("x", DataType::Int64, false),
        Field::new("name", DataType::Utf8, true),
    ]));
    let db = Database::in_memory(Options::default()).unwrap();
    for merge in [Merge::Append, Merge::Upsert] {
        let name = format!("{merge:?}");
        let spec = TableSpec::new(columns.clone(), ["id"]).weights(["w"]).merge(merge);
        let table = db.create_table(&name, spec).unwrap();
        for on_error in [OnError::Raise, OnError::Skip] {
            let options = AppendOptions { on_error, fill_nulls: true };
            let refused = |columns: &[&str]| {
                let error = table.append(&row(columns), options).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidArgument);
                error.to_string()
            };
            let lacks =
                "lacks weight column \"w\", which cannot hold null; add it, with 0 for rows";
            assert!(refused(&["id", "x"]).contains(lacks));
            assert!(
                refused(&["id", "w"]).contains("lacks column \"x\", which is not nullable; add it")
            );
            assert_eq!(table.append(&row(&["id", "w", "x"]), options).unwrap().rows, 1);
        }
        let null = RecordBatch::try_from_iter([
            ("id", Arc::new(Int64Array::from(vec![7])) as ArrayRef),
            ("w", arrow_null(1)),
            ("x", Arc::new(Int64Array::from(vec![7]))),
        ]);
        let options = AppendOptions { on_error: OnError::Skip, fill_nulls: true };
        let [rejected] = &table.append(&null.unwrap(), options).unwrap().rejected[..] else {
            panic!("one row has no weight");
        };
        let reason = "weight column \"w\" cannot hold null; use 0 for a row that samples by weight do not draw";
        assert_eq!(rejected.reason, reason);
    }
}

//! What tables, columns, snapshots and folders may be called, and how a table that is there already differs.

use std::sync::Arc;

use drillcore::arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::*;

use crate::fixtures::schema_of;

fn cities() -> TableSpec {
    TableSpec::new(
        schema_of(&[
            ("id", DataType::Int64, false),
            ("city", DataType::Utf8, true),
            ("delay", DataType::Int64, true),
        ]),
        ["id"],
    )
    .set("city")
    .weights(["delay"])
    .exist_ok()
}

fn rollup() -> TableSpec {
    let merge = Merge::Rollup(RollupSpec {
        granularity: Granularity::NONE,
        metrics: vec![("n".into(), Metric::Count), ("worst".into(), Metric::max("delay"))],
        discover: true,
        ..Default::default()
    });
    TableSpec { merge, weights: vec![], set: None, ..cities() }
}

#[test]
fn one_rule_says_what_a_table_a_column_or_a_snapshot_may_be_called() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let plain = db.create_table("plain", cities()).unwrap();
    let found = db.create_table("found", rollup()).unwrap();
    let create = |name: &str, spec: TableSpec| db.create_table(name, spec).map(drop);
    let with_column = |name: &str, mut spec: TableSpec| {
        let mut fields: Vec<_> = spec.columns.fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new(name, DataType::Int64, true)));
        spec.columns = Arc::new(Schema::new(fields));
        spec
    };
    let discovered = |name: &str| {
        let one: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let city: ArrayRef = Arc::new(StringArray::from(vec!["Oslo"]));
        let batch = [("id", one.clone()), ("city", city), ("delay", one.clone()), (name, one)];
        found.append(&RecordBatch::try_from_iter(batch).unwrap(), OnError::Raise).map(drop)
    };
    let metric = |name: &str| {
        let mut spec = rollup();
        let Merge::Rollup(rollup) = &mut spec.merge else { unreachable!() };
        rollup.metrics.push((name.into(), Metric::min("delay")));
        spec
    };
    type Naming<'a> = Box<dyn Fn(&str) -> Result<()> + 'a>;
    let namings: [(&str, Naming<'_>); 7] = [
        ("table", Box::new(|name| create(name, cities()))),
        ("column of a new table", Box::new(|name| create("new", with_column(name, cities())))),
        ("column of events", Box::new(|name| create("new", with_column(name, rollup())))),
        ("metric", Box::new(|name| create("new", metric(name)))),
        ("added column", Box::new(|name| plain.add_column(name, &DataType::Int64))),
        ("discovered dimension", Box::new(discovered)),
        ("snapshot", Box::new(|name| db.named_snapshot(name).map(drop))),
    ];
    let long = "é".repeat(513);
    for (what, naming) in &namings {
        for name in ["", " ", "\t\n", "\u{2003}", "\0", "a\0b", &long] {
            let refused = naming(name).expect_err(&format!("{what} {name:?} is taken"));
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{what} {name:?}: {refused}");
            assert!(refused.to_string().len() < 400, "{refused}");
        }
    }
    assert_eq!(db.tables().unwrap(), ["found", "plain"]);
    assert!(db.snapshots().unwrap().is_empty());
    for (number, (what, naming)) in namings.iter().enumerate() {
        for name in [" x", "a b\nc", "\"", "ø", "\u{200b}", &long[..1024]] {
            let done = naming(name);
            assert!(done.is_ok(), "{what} {name:?}: {}", done.unwrap_err());
            if (1..4).contains(&number) {
                db.drop_table("new").unwrap();
            }
        }
    }
    let tables = db.tables().unwrap();
    db.close().unwrap();
    assert_eq!(
        Database::open(folder.path(), Options::default()).unwrap().tables().unwrap(),
        tables
    );
}

#[test]
fn what_is_no_path_of_a_folder_is_refused_and_makes_nothing() {
    for (path, hint) in [
        ("s3://bucket/x", "a directory on a local file system"),
        ("S3A+x.y-1://bucket", "a directory on a local file system"),
        ("gs://b", "a directory on a local"),
        ("https://example.org/db", "a directory on a local"),
        // As programs spell it that take it for a path.
        ("s3:/bucket/x", "a directory on a local"),
        ("c:/data", "a directory on a local"),
        ("file:///tmp/db", "give the path itself: /tmp/db"),
        ("FILE:/tmp/db", "give the path itself: /tmp/db"),
        (":memory:", "ends with its process"),
        ("", "not a valid path"),
        ("a\0b", "not a valid path"),
    ] {
        let create = Database::open(path, Options::default()).map(drop);
        let open = Database::open(path, Options { create: false, ..Options::default() }).map(drop);
        let read = Database::open_read_only(
            path,
            ReadOptions { cache_bytes: 1 << 20, ..ReadOptions::default() },
        )
        .map(drop);
        for refused in [create, open, read] {
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{path:?}: {refused}");
            assert!(refused.to_string().contains(hint), "{refused}");
        }
        let made = path.split('/').next().unwrap();
        assert!(made.is_empty() || made.contains('\0') || !std::path::Path::new(made).exists());
    }
    // Names with a colon are names.
    let folder = tempfile::tempdir().unwrap();
    for name in ["12:30", "a:b", "s3:", ":memory:", "file://x"] {
        let path = folder.path().join(name);
        Database::open(&path, Options::default()).unwrap();
        assert!(path.is_dir(), "{name}");
    }
}

#[test]
fn a_table_of_another_shape_says_what_differs() {
    let db = Database::in_memory(Options::default()).unwrap();
    db.create_table("t", cities()).unwrap();
    db.create_table("r", rollup()).unwrap();
    let base = cities().columns;
    let only = |names: &[&str]| {
        let index = |name: &&str| base.index_of(name).unwrap();
        Arc::new(base.project(&names.iter().map(index).collect::<Vec<_>>()).unwrap())
    };
    let unset = TableSpec { set: None, weights: vec![], ..cities() };
    let retyped = schema_of(&[
        ("id", DataType::Int64, false),
        ("city", DataType::Utf8, false),
        ("delay", DataType::Float64, true),
    ]);
    let wider = schema_of(&[
        ("id", DataType::Int64, false),
        ("city", DataType::Utf8, true),
        ("delay", DataType::Int64, true),
        ("gate", DataType::Utf8, true),
    ]);
    let with_rollup = |change: &dyn Fn(&mut RollupSpec)| {
        let mut spec = rollup();
        let Merge::Rollup(rollup) = &mut spec.merge else { unreachable!() };
        change(rollup);
        spec
    };
    let events = schema_of(&[
        ("id", DataType::Int64, false),
        ("city", DataType::Utf8, true),
        ("delay", DataType::Int32, true),
    ]);
    let cases: [(&str, TableSpec, &[&str]); 12] = [
        ("t", TableSpec { key: vec!["city".into()], ..cities() }, &["its key is (id), not (city)"]),
        ("t", TableSpec { merge: Merge::Upsert, ..cities() }, &["its merge is append, not upsert"]),
        ("t", unset, &["its set column is \"city\", not none", "weights is (delay), not none"]),
        (
            "t",
            TableSpec { columns: retyped, ..cities() },
            &["column \"city\" is nullable", "column \"delay\" has type int64, not float64"],
        ),
        ("t", TableSpec { columns: wider, ..cities() }, &["it has no column \"gate\""]),
        (
            "t",
            TableSpec { columns: only(&["delay", "id", "city"]), ..cities() },
            &["its columns have the order (id, city, delay)"],
        ),
        (
            "t",
            TableSpec { columns: only(&["id", "delay"]), set: None, ..cities() },
            &["set column"],
        ),
        ("t", rollup(), &["its merge is append, not rollup"]),
        (
            "r",
            with_rollup(&|rollup| rollup.metrics[1].1 = Metric::min("delay")),
            &["metrics is (n=count, worst=max(delay)), not (n=count, worst=min(delay))"],
        ),
        ("r", with_rollup(&|rollup| rollup.discover = false), &["dimensions is open, not closed"]),
        ("r", TableSpec { columns: events, ..rollup() }, &["\"delay\" has type int64, not int32"]),
        ("r", TableSpec { key: vec!["city".into()], ..rollup() }, &["its key is (id), not (city)"]),
    ];
    for (name, spec, said) in cases {
        let refused = db.create_table(name, spec).map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
        let message = refused.to_string();
        assert!(message.contains("already exists with another shape: it"), "{message}");
        for part in said {
            assert!(message.contains(part), "{part:?} is missing in {message}");
        }
    }
}

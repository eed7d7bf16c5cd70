//! Calls that cannot be meant: each is refused with its kind and a message that helps, and changes nothing.

use std::path::Path;
use std::sync::Arc;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::*;

use ErrorKind::{
    AlreadyExists, Interrupted, InvalidArgument, Io, Locked, NotFound, TooFewRows, Unsupported,
};

fn fields() -> Vec<Field> {
    vec![
        Field::new("id", DataType::Int64, false),
        Field::new("price", DataType::Float64, true),
        Field::new("city", DataType::Utf8, true),
        Field::new("grade", DataType::Int32, false),
    ]
}

fn spec_of(fields: Vec<Field>, key: &[&str], set: Option<&str>) -> TableSpec {
    TableSpec {
        set: set.map(str::to_string),
        ..TableSpec::new(Arc::new(Schema::new(fields)), key.iter().copied())
    }
}

fn ints(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn floats(values: &[f64]) -> ArrayRef {
    Arc::new(Float64Array::from(values.to_vec()))
}

fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn grades(count: usize) -> ArrayRef {
    Arc::new(Int32Array::from(vec![1; count]))
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let nullable = columns.into_iter().map(|(name, values)| (name, values, true));
    RecordBatch::try_from_iter_with_nullable(nullable).unwrap()
}

fn good(ids: std::ops::Range<i64>) -> RecordBatch {
    let count = (ids.end - ids.start) as usize;
    let prices: Vec<f64> = ids.clone().map(|id| id as f64).collect();
    batch(vec![("id", ints(ids)), ("price", floats(&prices)), ("grade", grades(count))])
}

/// A folder with a database of two tables: `trades` with 100 rows and sets, `plain` with a float key.
struct Fixture {
    _folder: tempfile::TempDir,
    path: std::path::PathBuf,
    database: Database,
    trades: Table,
    plain: Table,
}

impl Fixture {
    fn new() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let database = Database::open(&path, Options::default()).unwrap();
        let spec = spec_of(fields(), &["id"], Some("city"));
        let trades = database.create_table("trades", spec).unwrap();
        trades.append(&good(0..100), OnError::Raise).unwrap();
        let spec = spec_of(fields(), &["price", "id"], None);
        let plain = database.create_table("plain", spec).unwrap();
        plain.append(&good(0..10), OnError::Raise).unwrap();
        Fixture { _folder: folder, path, database, trades, plain }
    }

    /// All that a refused call could have changed.
    fn state(&self) -> (Snapshotted, Vec<(String, u64)>) {
        let snapshot = self.database.snapshot().unwrap();
        let tables = snapshot.tables().into_iter().map(|name| {
            let table = snapshot.table(&name).unwrap();
            (name, table.rows().unwrap(), table.schema().as_ref().clone())
        });
        let state = Snapshotted { lsn: snapshot.lsn(), tables: tables.collect() };
        (state, files(&self.path))
    }

    #[track_caller]
    fn refuses<T>(&self, kind: ErrorKind, message: &str, call: impl FnOnce(&Fixture) -> Result<T>) {
        let before = self.state();
        let Err(error) = call(self) else { panic!("accepted; expected {message:?}") };
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(message), "{error}\ndoes not contain\n{message}");
        assert_eq!(self.state(), before, "a refused call changed something: {error}");
    }

    fn snapshot(&self) -> TableSnapshot {
        self.trades.snapshot().unwrap()
    }
}

#[derive(Debug, PartialEq)]
struct Snapshotted {
    lsn: Lsn,
    tables: Vec<(String, u64, TableSchema)>,
}

fn files(path: &Path) -> Vec<(String, u64)> {
    let entry = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.unwrap();
        (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len())
    };
    let mut files: Vec<(String, u64)> = std::fs::read_dir(path).unwrap().map(entry).collect();
    files.sort_unstable();
    files
}

#[test]
fn a_table_that_cannot_be_is_refused() {
    let f = Fixture::new();
    let create =
        |spec: TableSpec| move |f: &Fixture| f.database.create_table("new", spec).map(drop);
    f.refuses(
        NotFound,
        r#"unknown key column "idd"; did you mean "id"?"#,
        create(spec_of(fields(), &["idd"], None)),
    );
    f.refuses(
        NotFound,
        r#"unknown set column "ciyt"; did you mean "city"?"#,
        create(spec_of(fields(), &["id"], Some("ciyt"))),
    );
    f.refuses(
        NotFound,
        "there are: id, price, city, grade",
        create(spec_of(fields(), &["zzzzzz"], None)),
    );
    f.refuses(
        InvalidArgument,
        "the key has no column; give at least one",
        create(spec_of(fields(), &[], None)),
    );
    f.refuses(
        InvalidArgument,
        r#"key column "id" is listed twice"#,
        create(spec_of(fields(), &["id", "id"], None)),
    );
    let twice = [fields(), vec![Field::new("id", DataType::Int64, true)]].concat();
    f.refuses(
        InvalidArgument,
        r#"column "id" appears twice"#,
        create(spec_of(twice, &["id"], None)),
    );
    let wide = |data_type| [fields(), vec![Field::new("wide", data_type, true)]].concat();
    let list = |of| DataType::new_list(of, true);
    f.refuses(
        InvalidArgument,
        r#"column "wide" has type list<int64>"#,
        create(spec_of(wide(list(DataType::Int64)), &["id"], None)),
    );
    for data_type in [DataType::Binary, DataType::LargeBinary, list(DataType::Utf8)] {
        let spec = |key: &[&str], set| spec_of(wide(data_type.clone()), key, set);
        f.refuses(
            InvalidArgument,
            r#"key column "wide" has type"#,
            create(spec(&["id", "wide"], None)),
        );
        f.refuses(
            InvalidArgument,
            r#"set column "wide" has type"#,
            create(spec(&["id"], Some("wide"))),
        );
        let weights = vec!["wide".to_string()];
        f.refuses(
            InvalidArgument,
            r#"weight column "wide" has type"#,
            create(TableSpec { weights, ..spec(&["id"], None) }),
        );
        let metrics = vec![("most".to_string(), Metric::max("wide"))];
        let rollup = RollupSpec { granularity: Granularity::NONE, metrics, ..Default::default() };
        let merge = Merge::Rollup(rollup);
        f.refuses(
            InvalidArgument,
            r#"column "wide" has type"#,
            create(TableSpec { merge, ..spec(&["id"], None) }),
        );
        let db = Database::in_memory(Options::default()).unwrap();
        let table = db.create_table("t", spec(&["id"], None)).unwrap().snapshot().unwrap();
        let aggregates = vec![("n".to_string(), Aggregate::Count)];
        let by = vec!["wide".to_string()];
        let request = EstimateRequest { aggregates, by, ..Default::default() };
        let error = table.estimate(&request).err().unwrap();
        assert_eq!(error.kind(), InvalidArgument, "{error}");
        assert!(error.to_string().contains(r#"cannot group by column "wide""#), "{error}");
    }
    f.refuses(InvalidArgument, "is not a valid name of a table", |f| {
        f.database.create_table("", spec_of(fields(), &["id"], None)).map(drop)
    });
}

#[test]
fn a_table_is_taken_as_it_is_only_if_its_shape_is_the_same() {
    let f = Fixture::new();
    let spec = || spec_of(fields(), &["id"], Some("city"));
    f.refuses(AlreadyExists, r#""trades" already exists; use another name, or open"#, |f| {
        f.database.create_table("trades", spec()).map(drop)
    });
    let exist_ok = TableSpec { exist_ok: true, ..spec() };
    let before = f.state();
    assert_eq!(f.database.create_table("trades", exist_ok.clone()).unwrap().name(), "trades");
    assert_eq!(f.state(), before);
    let mut other_null = fields();
    other_null[3] = Field::new("grade", DataType::Int32, true);
    let others = [
        TableSpec { key: vec!["grade".into()], ..exist_ok.clone() },
        TableSpec { set: None, ..exist_ok.clone() },
        TableSpec { columns: Arc::new(Schema::new(fields()[..3].to_vec())), ..exist_ok.clone() },
        TableSpec { columns: Arc::new(Schema::new(other_null)), ..exist_ok },
    ];
    for other in others {
        f.refuses(AlreadyExists, "with another shape", |f| {
            f.database.create_table("trades", other).map(drop)
        });
    }
}

#[test]
fn a_batch_that_does_not_fit_is_refused_whole() {
    let f = Fixture::new();
    let append = |batch: RecordBatch| move |f: &Fixture| f.trades.append(&batch, OnError::Raise);
    let with = |more: Vec<(&'static str, ArrayRef)>| {
        let mut columns = vec![("id", ints(0..2)), ("grade", grades(2))];
        columns.retain(|(name, _)| more.iter().all(|(other, _)| other != name));
        columns.extend(more);
        append(batch(columns))
    };
    f.refuses(
        NotFound,
        r#"unknown column "prise"; did you mean "price"?"#,
        with(vec![("prise", floats(&[1.0, 2.0]))]),
    );
    f.refuses(
        InvalidArgument,
        r#"column "price" stores float64, but string was given"#,
        with(vec![("price", texts(&["1", "2"]))]),
    );
    f.refuses(
        InvalidArgument,
        r#"column "id" stores int64, but bool was given"#,
        with(vec![("id", Arc::new(BooleanArray::from(vec![true, false])))]),
    );
    f.refuses(
        InvalidArgument,
        r#"lacks key column "id""#,
        append(batch(vec![("grade", grades(2))])),
    );
    f.refuses(
        InvalidArgument,
        r#"lacks column "grade", which is not nullable"#,
        append(batch(vec![("id", ints(0..2))])),
    );
    f.refuses(
        InvalidArgument,
        r#"row 1: column "id" is not nullable"#,
        with(vec![("id", Arc::new(Int64Array::from(vec![Some(1), None])))]),
    );
    f.refuses(
        InvalidArgument,
        r#"row 0: column "grade" stores int32, which cannot hold 4294967296"#,
        with(vec![("grade", ints([1 << 32, 3]))]),
    );
    f.refuses(
        InvalidArgument,
        r#"row 1: column "id" stores int64, which cannot hold 0.5"#,
        with(vec![("id", floats(&[1.0, 0.5]))]),
    );
    let twice = Schema::new(vec![fields()[0].clone(), fields()[0].clone(), fields()[3].clone()]);
    let twice = RecordBatch::try_new(Arc::new(twice), vec![ints(0..2), ints(0..2), grades(2)]);
    f.refuses(InvalidArgument, r#"column "id" appears twice in the batch"#, append(twice.unwrap()));
    let huge = good(0..8_000_000);
    f.refuses(InvalidArgument, "Append in smaller batches", append(huge));
}

#[test]
fn a_commit_over_several_tables_with_one_bad_part_changes_none() {
    let f = Fixture::new();
    let (fits, bad) = (good(0..5), batch(vec![("grade", grades(1))]));
    f.refuses(InvalidArgument, "lacks key column", |f| {
        f.database.append(&[("trades", &fits), ("plain", &bad)])
    });
    f.refuses(NotFound, r#"unknown table "trade"; did you mean "trades"?"#, |f| {
        f.database.append(&[("plain", &fits), ("trade", &fits)])
    });
    f.refuses(InvalidArgument, r#""trades" is listed twice"#, |f| {
        f.database.append(&[("trades", &fits), ("plain", &fits), ("trades", &fits)])
    });
    let before = f.state();
    assert_eq!(f.database.append(&[]).unwrap().rows, 0);
    assert_eq!(f.database.append(&[("trades", &good(0..0))]).unwrap().lsn, before.0.lsn);
    assert_eq!(f.state(), before, "an append without rows is no commit");
}

#[test]
fn skip_appends_the_good_rows_and_reports_each_bad_one() {
    let f = Fixture::new();
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![Some(200), None, Some(202), Some(203)]));
    let given = batch(vec![("id", ids), ("grade", ints([1, 2, 1 << 40, 4]))]);
    let result = f.trades.append(&given, OnError::Skip).unwrap();
    assert_eq!(result.rows, 2);
    let rejected: Vec<(u64, &str)> =
        result.rejected.iter().map(|rejected| (rejected.row, rejected.reason.as_str())).collect();
    assert_eq!(rejected.len(), 2);
    assert_eq!(
        rejected[0],
        (1, r#"column "id" is not nullable, but the value is null; give it a value"#)
    );
    assert!(rejected[1].0 == 2 && rejected[1].1.contains("cannot hold 1099511627776"));
    let above = Between { low: Some(vec![ints([200])]), high: None, closed: Closed::Both };
    let request = ScanRequest {
        selection: Selection { between: Some(above), sets: None, ..Default::default() },
        ..Default::default()
    };
    let found: Vec<i64> = f
        .snapshot()
        .scan(request)
        .unwrap()
        .flat_map(|b| b.unwrap().column(0).as_primitive::<Int64Type>().values().to_vec())
        .collect();
    assert_eq!(found, [200, 203]);
    // What is wrong with the whole batch is no matter of rows.
    f.refuses(InvalidArgument, "lacks key column", |f| {
        f.trades.append(&batch(vec![("grade", grades(1))]), OnError::Skip)
    });
    let none_good = batch(vec![("id", ints([1])), ("grade", ints([1 << 40]))]);
    let before = f.state();
    let result = f.trades.append(&none_good, OnError::Skip).unwrap();
    assert_eq!((result.rows, result.rejected.len(), result.lsn), (0, 1, before.0.lsn));
    assert_eq!(f.state(), before);
}

#[test]
fn unknown_names_are_answered_with_the_nearest_one() {
    let f = Fixture::new();
    let names = || Some(vec!["id".to_string(), "pirce".to_string()]);
    let message = r#"unknown column "pirce"; did you mean "price"?"#;
    f.refuses(NotFound, message, |f| {
        f.snapshot().scan(ScanRequest { columns: names(), ..Default::default() }).map(drop)
    });
    f.refuses(NotFound, message, |f| {
        f.snapshot().sample(&SampleRequest { n: 1, columns: names(), ..Default::default() })
    });
    f.refuses(NotFound, message, |f| f.snapshot().get(&[ints([1])], names().as_deref()));
    let table = r#"unknown table "trads"; did you mean "trades"?"#;
    f.refuses(NotFound, table, |f| f.database.table("trads").map(drop));
    f.refuses(NotFound, table, |f| f.database.drop_table("trads"));
    f.refuses(NotFound, table, |f| f.database.snapshot()?.table("trads").map(drop));
}

#[test]
fn a_range_that_cannot_be_meant_is_refused() {
    let f = Fixture::new();
    let count = |low: Option<Vec<ArrayRef>>, high: Option<Vec<ArrayRef>>| {
        move |f: &Fixture| {
            let between = Some(Between { low, high, closed: Closed::Both });
            let selection = Selection { between, sets: None, ..Default::default() };
            let plain = f.plain.snapshot().unwrap();
            let counted = plain.count(&selection);
            // Every read judges a selection alike.
            let scan = ScanRequest { selection: selection.clone(), ..Default::default() };
            assert_eq!(plain.scan(scan).is_err(), counted.is_err());
            let sample = SampleRequest { n: 0, selection, ..Default::default() };
            assert_eq!(plain.sample(&sample).is_err(), counted.is_err());
            counted
        }
    };
    let one = |value: f64| Some(vec![floats(&[value])]);
    f.refuses(InvalidArgument, "reversed", count(one(2.0), one(1.0)));
    f.refuses(
        InvalidArgument,
        "reversed",
        count(Some(vec![floats(&[1.0]), ints([5])]), Some(vec![floats(&[1.0]), ints([4])])),
    );
    f.refuses(InvalidArgument, r#"NaN for column "price""#, count(one(f64::NAN), None));
    f.refuses(InvalidArgument, r#"NaN for column "price""#, count(None, one(f64::NAN)));
    f.refuses(InvalidArgument, "has 0 values; it must have 1 to 2", count(Some(vec![]), None));
    f.refuses(
        InvalidArgument,
        "has 3 values; it must have 1 to 2",
        count(None, Some(vec![floats(&[1.0]), ints([1]), ints([1])])),
    );
    f.refuses(
        InvalidArgument,
        r#"has 2 values for column "price""#,
        count(Some(vec![floats(&[1.0, 2.0])]), None),
    );
    f.refuses(
        InvalidArgument,
        r#"has 0 values for column "price""#,
        count(Some(vec![floats(&[])]), None),
    );
    f.refuses(
        InvalidArgument,
        "stores float64, but string was given",
        count(Some(vec![texts(&["x"])]), None),
    );
    // Equal ends are a range of one key, or with one end open an empty one.
    assert_eq!(count(one(3.0), one(3.0))(&f).unwrap(), 1);
    assert_eq!(count(one(-0.0), one(0.0))(&f).unwrap(), 1);
}

#[test]
fn sets_and_keys_of_the_wrong_kind_are_refused() {
    let f = Fixture::new();
    let in_sets = |table: &Table, sets: ArrayRef| {
        let selection = Selection { between: None, sets: Some(sets), ..Default::default() };
        table.snapshot().unwrap().count(&selection)
    };
    f.refuses(InvalidArgument, "no set column", |f| in_sets(&f.plain, texts(&["x"])));
    f.refuses(InvalidArgument, "no set column", |f| f.plain.snapshot().unwrap().sets());
    f.refuses(InvalidArgument, r#"column "city" stores string, but int64"#, |f| {
        in_sets(&f.trades, ints([1]))
    });
    assert_eq!(in_sets(&f.trades, texts(&[])).unwrap(), 0);
    assert_eq!(in_sets(&f.trades, texts(&["nowhere"])).unwrap(), 0);
    f.refuses(
        InvalidArgument,
        "a key needs 1 value (id), but 2 were given; give one value per key column",
        |f| f.snapshot().get(&[ints([1]), ints([1])], None),
    );
    f.refuses(InvalidArgument, "have different lengths", |f| {
        f.plain.snapshot().unwrap().get(&[floats(&[1.0]), ints([1, 2])], None)
    });
    f.refuses(InvalidArgument, "stores int64, but string was given", |f| {
        f.snapshot().get(&[texts(&["1"])], None)
    });
    f.refuses(InvalidArgument, "cannot hold 0.5", |f| f.snapshot().get(&[floats(&[0.5])], None));
    assert!(f.snapshot().get(&[ints([])], None).unwrap().positions.is_empty());
}

#[test]
fn more_rows_than_there_are_is_an_error_and_none_is_an_empty_sample() {
    let f = Fixture::new();
    let request = |n: u64| SampleRequest { n, ..Default::default() };
    f.refuses(TooFewRows, "cannot draw 101 rows: the selection has 100", |f| {
        f.snapshot().sample(&request(101))
    });
    f.refuses(TooFewRows, "18446744073709551615 rows", |f| f.snapshot().sample(&request(u64::MAX)));
    let nowhere =
        Selection { between: None, sets: Some(texts(&["nowhere"])), ..Default::default() };
    for replace in [false, true] {
        let empty = SampleRequest { selection: nowhere.clone(), replace, ..request(1) };
        f.refuses(TooFewRows, "no row is selected; check the key range", |f| {
            f.snapshot().sample(&empty)
        });
        let at_most = SampleRequest { at_most: true, ..empty };
        assert_eq!(f.snapshot().sample(&at_most).unwrap().num_rows(), 0);
    }
    let none = f.snapshot().sample(&request(0)).unwrap();
    assert_eq!((none.num_rows(), none.num_columns()), (0, 4));
    let limit = ScanRequest { limit: Some(0), ..Default::default() };
    assert_eq!(f.snapshot().scan(limit).unwrap().count(), 0);
}

#[test]
fn an_estimate_that_cannot_be_made_is_refused() {
    let f = Fixture::new();
    let estimate = |request: EstimateRequest| move |f: &Fixture| f.snapshot().estimate(&request);
    let average = |column: &str| EstimateRequest {
        aggregates: vec![("x".into(), Aggregate::avg(column))],
        ..Default::default()
    };
    f.refuses(
        NotFound,
        r#"unknown column "pirce"; did you mean "price"?"#,
        estimate(average("pirce")),
    );
    f.refuses(NotFound, "unknown column", estimate(average("")));
    f.refuses(InvalidArgument, "city", estimate(average("city")));
    f.refuses(InvalidArgument, "at least one aggregate", estimate(EstimateRequest::default()));
    // The names of the result's columns: the group, each aggregate with its ends, and "sampled".
    let called = |names: &[&str], by: Option<&str>| EstimateRequest {
        aggregates: names.iter().map(|name| (name.to_string(), Aggregate::Count)).collect(),
        by: by.map(str::to_string).into_iter().collect(),
        ..Default::default()
    };
    for (names, by, twice) in [
        (&["x", "x"][..], None, "x"),
        (&["x", "x_low"], None, "x_low"),
        (&["x_high", "x"], None, "x_high"),
        (&["city"], Some("city"), "city"),
        (&["sampled"], None, "sampled"),
    ] {
        let message = format!("the result would have two columns named {twice:?}");
        f.refuses(InvalidArgument, &message, estimate(called(names, by)));
    }
    assert!(estimate(called(&["x", "x_lower", "city"], None))(&f).is_ok());
    f.refuses(
        NotFound,
        r#"unknown column "ctiy""#,
        estimate(EstimateRequest { by: vec!["ctiy".into()], ..average("price") }),
    );
    for confidence in [0.0, 1.0, -0.5, 1.5, f64::NAN, f64::INFINITY] {
        f.refuses(
            InvalidArgument,
            "confidence",
            estimate(EstimateRequest { confidence, ..average("price") }),
        );
    }
    let widths = [0.0, -1.0, f64::NAN];
    let stops = widths.iter().flat_map(|&width| {
        [Stop::Error(HalfWidth::Absolute(width)), Stop::Error(HalfWidth::Relative(width))]
    });
    let seconds = [-1.0, f64::NAN, f64::INFINITY].map(Stop::Seconds);
    for stop in stops.chain(seconds).chain([Stop::Rows(0)]) {
        let before = f.state();
        let error = estimate(EstimateRequest { stop, ..average("price") })(&f)
            .expect_err(&format!("{stop:?}"));
        assert_eq!(error.kind(), InvalidArgument, "{stop:?}: {error}");
        assert_eq!(f.state(), before);
    }
}

#[test]
fn an_interrupted_call_says_so() {
    let f = Fixture::new();
    f.database.flush().unwrap();
    let stop = Interrupt::new(Arc::new(|| true));
    f.refuses(Interrupted, "interrupted", |f| {
        let mut scan = f.snapshot().interrupted_by(stop.clone()).scan(ScanRequest::default())?;
        scan.next().expect("a first batch or an error")
    });
    f.refuses(Interrupted, "interrupted", |f| {
        let request = SampleRequest { n: 5, ..Default::default() };
        f.snapshot().interrupted_by(stop.clone()).sample(&request)
    });
    f.refuses(Interrupted, "interrupted", |f| f.database.interrupted_by(stop.clone()).verify());
    f.refuses(Interrupted, "interrupted", |f| {
        let request = EstimateRequest {
            aggregates: vec![("n".into(), Aggregate::avg("price"))],
            ..Default::default()
        };
        f.snapshot().interrupted_by(stop.clone()).estimate(&request)
    });
}

#[test]
fn every_call_on_a_closed_database_says_that_it_is_closed() {
    let f = Fixture::new();
    let snapshot = f.snapshot();
    f.database.close().unwrap();
    f.database.close().unwrap();
    let (db, fits) = (&f.database, good(0..1));
    let spec = || TableSpec { exist_ok: true, ..spec_of(fields(), &["id"], Some("city")) };
    let calls: Vec<(&str, Result<()>)> = vec![
        ("create_table", db.create_table("new", spec()).map(drop)),
        ("create_table, exist_ok", db.create_table("trades", spec()).map(drop)),
        ("table", db.table("trades").map(drop)),
        ("tables", db.tables().map(drop)),
        ("drop_table", db.drop_table("trades")),
        ("drop_table, unknown", db.drop_table("nothing")),
        ("append", db.append(&[("trades", &fits)]).map(drop)),
        ("append of nothing", db.append(&[]).map(drop)),
        ("snapshot", db.snapshot().map(drop)),
        ("flush", db.flush()),
        ("compact", db.compact()),
        ("verify", db.verify().map(drop)),
        ("stats", db.stats().map(drop)),
        ("Table::append", f.trades.append(&fits, OnError::Raise).map(drop)),
        ("Table::append of nothing", f.trades.append(&good(0..0), OnError::Skip).map(drop)),
        ("Table::snapshot", f.trades.snapshot().map(drop)),
    ];
    for (name, called) in calls {
        let error = called.err().unwrap_or_else(|| panic!("{name} works on a closed database"));
        assert_eq!(error.kind(), ErrorKind::Closed, "{name}: {error}");
    }
    drop(db.hold_maintenance());
    assert_eq!(snapshot.count(&Selection::default()).unwrap(), 100, "snapshots stay readable");
    let reopened = Database::open(&f.path, Options::default()).unwrap();
    assert_eq!(reopened.table("trades").unwrap().snapshot().unwrap().rows().unwrap(), 100);
}

#[test]
fn the_handle_of_a_dropped_table_does_not_lead_to_its_namesake() {
    let f = Fixture::new();
    let snapshot = f.snapshot();
    f.database.drop_table("trades").unwrap();
    f.refuses(NotFound, "was dropped", |f| f.trades.append(&good(0..1), OnError::Raise));
    f.refuses(NotFound, "was dropped", |f| f.trades.snapshot().map(drop));
    let spec = spec_of(fields(), &["grade"], None);
    let namesake = f.database.create_table("trades", spec).unwrap();
    f.refuses(NotFound, "was dropped", |f| f.trades.snapshot().map(drop));
    assert_eq!(namesake.snapshot().unwrap().rows().unwrap(), 0);
    assert_eq!(snapshot.rows().unwrap(), 100, "a snapshot keeps what it saw");
}

#[test]
fn a_folder_that_is_no_database_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("letter.txt"), "dear reader").unwrap();
    let error = Database::open(folder.path(), Options::default()).err().unwrap();
    assert_eq!(error.kind(), InvalidArgument, "{error}");
    assert!(error.to_string().contains("not a Drillcore database"), "{error}");
    let file = folder.path().join("letter.txt");
    let error = Database::open(&file, Options::default()).err().unwrap();
    assert_eq!(error.kind(), Io, "{error}");
    assert!(error.to_string().contains("not a directory"), "{error}");
    assert_eq!(files(folder.path()), [("letter.txt".to_string(), 11)]);

    let error = Database::open(folder.path().join("letter.txt"), Options::default()).err().unwrap();
    assert_eq!(error.kind(), Io, "{error}");
    assert!(error.to_string().contains("letter.txt"), "{error}");

    let missing = folder.path().join("missing");
    let no_create = Options { create: false, ..Default::default() };
    let error = Database::open(&missing, no_create.clone()).err().unwrap();
    assert!(error.to_string().contains("missing"), "{error}");
    assert!(!missing.exists());
    let empty = tempfile::tempdir().unwrap();
    let error = Database::open(empty.path(), no_create).err().unwrap();
    assert_eq!(error.kind(), NotFound, "{error}");
    assert!(files(empty.path()).is_empty());

    let tiny = Options { memory_bytes: 1000, ..Default::default() };
    let error = Database::open(empty.path(), tiny.clone()).err().unwrap();
    assert!(
        error.to_string().contains("memory_bytes must be at least 1048576, got 1000"),
        "{error}"
    );
    assert!(files(empty.path()).is_empty());
    assert_eq!(Database::in_memory(tiny).err().unwrap().kind(), InvalidArgument);
}

/// Sets the format version of a file to one that does not exist yet, with a checksum that fits.
fn write_later_version(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    // Log files begin, segment files end with a version and the checksum of all up to it.
    let start = if path.extension().unwrap() == "log" { 0 } else { bytes.len() - 32 };
    let version_at = start + if start == 0 { 8 } else { 12 };
    bytes[version_at] += 1;
    let checksum = crc32c::crc32c(&bytes[start..version_at + 4]);
    bytes[version_at + 4..version_at + 8].copy_from_slice(&checksum.to_le_bytes());
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_file_of_a_later_version_is_refused_and_named() {
    for (prefix, supported) in [("manifest-", 5), ("wal-", 5), ("segment-", 7)] {
        let f = Fixture::new();
        f.database.flush().unwrap();
        f.trades.append(&good(0..1), OnError::Raise).unwrap();
        f.database.close().unwrap();
        let (name, _) =
            files(&f.path).into_iter().find(|(name, _)| name.starts_with(prefix)).unwrap();
        write_later_version(&f.path.join(&name));
        let error = Database::open(&f.path, Options::default()).err().unwrap();
        assert_eq!(error.kind(), Unsupported, "{name}: {error}");
        let message = error.to_string();
        let version = format!("this build reads version {supported}");
        assert!(message.contains(&name) && message.contains(&version), "{name}: {message}");
    }
}

#[test]
fn a_second_writer_in_the_same_process_is_refused_until_the_first_is_closed() {
    let f = Fixture::new();
    f.refuses(Locked, "this process already has", |f| {
        Database::open(&f.path, Options::default()).map(drop)
    });
    f.database.close().unwrap();
    Database::open(&f.path, Options::default()).unwrap();
}

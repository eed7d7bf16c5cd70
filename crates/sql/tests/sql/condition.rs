//! Conditions: a scan with one, and a query with one, show exactly the rows of a plain scan for which the
//! condition is true when it is evaluated as it stands, whatever part of it became a key range or sets.

use std::sync::Arc;

use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::DFSchema;
use datafusion::prelude::SessionContext;
use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::*;
use drillcore::arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use drillcore::*;
use drillcore_sample::rng::Rng;
use drillcore_sql::{QueryOptions, predicate};

use crate::fixtures::*;

fn columns() -> SchemaRef {
    let stamp = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    Arc::new(Schema::new(vec![
        Field::new("place", DataType::Utf8, true),
        Field::new("number", DataType::Int64, true),
        Field::new("size", DataType::Float64, true),
        Field::new("at", stamp, true),
        Field::new("flag", DataType::Boolean, true),
        Field::new("price", DataType::Decimal128(10, 2), true),
        Field::new("day", DataType::Date32, true),
        Field::new("DepDelay", DataType::Int32, true),
    ]))
}

const SIZES: [f64; 7] = [f64::NEG_INFINITY, -1.5, -0.0, 0.0, 1.0, f64::INFINITY, f64::NAN];

fn batch(rng: &mut Rng, rows: usize) -> RecordBatch {
    let mut maybe = |n: u64| (rng.below(6) > 0).then(|| rng.below(n));
    let place: StringArray =
        (0..rows).map(|_| maybe(4).map(|i| ["", "a", "ab", "b"][i as usize])).collect();
    let number: Int64Array = (0..rows).map(|_| maybe(5).map(|i| i as i64 - 2)).collect();
    let size: Float64Array = (0..rows).map(|_| maybe(7).map(|i| SIZES[i as usize])).collect();
    let at: TimestampMicrosecondArray =
        (0..rows).map(|_| maybe(4).map(|i| i as i64 * 1_000_000)).collect();
    let flag: BooleanArray = (0..rows).map(|_| maybe(2).map(|i| i == 1)).collect();
    let price: Decimal128Array = (0..rows).map(|_| maybe(4).map(i128::from)).collect();
    let day: Date32Array = (0..rows).map(|_| maybe(3).map(|i| i as i32)).collect();
    let delay: Int32Array = (0..rows).map(|_| maybe(3).map(|i| i as i32)).collect();
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(place),
        Arc::new(number),
        Arc::new(size),
        Arc::new(at.with_timezone("UTC")),
        Arc::new(flag),
        Arc::new(price.with_precision_and_scale(10, 2).unwrap()),
        Arc::new(day),
        Arc::new(delay),
    ];
    RecordBatch::try_new(columns(), arrays).unwrap()
}

/// A comparison of one column with something of its kind, or not quite of its kind.
fn comparison(rng: &mut Rng) -> String {
    let mut pick = |texts: &[&str]| texts[rng.below(texts.len() as u64) as usize].to_string();
    let column = pick(&["place", "number", "size", "at", "flag", "price", "day", "DepDelay"]);
    let values: &[&str] = match column.as_str() {
        "place" => &["''", "'a'", "'ab'", "'zz'"],
        "number" => &["-2", "0", "1", "1.5", "99", "9999999999999999999"],
        "size" => &["-1.5", "0.0", "-0.0", "1", "cast('nan' as double)", "cast('inf' as double)"],
        "at" => &["'1970-01-01T00:00:01Z'", "timestamp '1970-01-01 00:00:02'", "'1970-01-01'"],
        "flag" => &["true", "false"],
        "price" => &["0.01", "0.02", "1", "0.015"],
        "day" => &["'1970-01-02'", "date '1970-01-01'"],
        _ => &["0", "1", "2.0", "-7"],
    };
    let operator = pick(&["=", "<", "<=", ">", ">=", "<>", "in", "between", "null", "not null"]);
    match operator.as_str() {
        "in" => {
            // Long lists are looked up in another way than short ones.
            let list: Vec<String> =
                (0..[1, 2, 6][column.len() % 3]).map(|_| pick(values)).collect();
            format!("{column} in ({})", list.join(", "))
        }
        "between" => format!("{column} between {} and {}", pick(values), pick(values)),
        "null" => format!("{column} is null"),
        "not null" => format!("{column} is not null"),
        operator => match pick(&["left", "right"]).as_str() {
            "left" => format!("{column} {operator} {}", pick(values)),
            _ => format!("{} {operator} {column}", pick(values)),
        },
    }
}

fn condition(rng: &mut Rng, depth: u64) -> String {
    if depth == 0 || rng.below(4) == 0 {
        return comparison(rng);
    }
    match rng.below(8) {
        0 => format!("not ({})", condition(rng, depth - 1)),
        1 => format!("({} or {})", condition(rng, depth - 1), condition(rng, depth - 1)),
        _ => format!("{} and {}", condition(rng, depth - 1), condition(rng, depth - 1)),
    }
}

/// Rows as texts, sorted, with one zero, as queries have it.
fn shown(batches: Vec<RecordBatch>) -> Vec<String> {
    let options = FormatOptions::default().with_null("null");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            let mut text = String::new();
            for column in &columns {
                let cell = column.value(row).to_string();
                text.push_str(if cell == "-0.0" { "0.0" } else { &cell });
                text.push('|');
            }
            rows.push(text);
        }
    }
    rows.sort();
    rows
}

fn with_one_zero(batch: &RecordBatch) -> RecordBatch {
    let mut columns = batch.columns().to_vec();
    let at = columns.iter().position(|column| *column.data_type() == DataType::Float64).unwrap();
    let sizes = columns[at].as_primitive::<types::Float64Type>();
    columns[at] = Arc::new(sizes.unary::<_, types::Float64Type>(|size| size + 0.0));
    RecordBatch::try_new(batch.schema(), columns).unwrap()
}

fn query_of(db: &Database, text: &str) -> Vec<String> {
    shown(run(db, text))
}

#[test]
fn a_number_compared_with_a_decimal_is_the_decimal_that_it_spells() {
    let db = Database::in_memory(Options::default()).unwrap();
    let values: Vec<i128> = (0..2_000).map(|i| i * 4_999 + 7).collect();
    let decimals = Decimal128Array::from(values.clone()).with_precision_and_scale(12, 2).unwrap();
    let keys = Int64Array::from_iter_values(0..2_000);
    for (key, set) in [("k", None), ("d", Some("d"))] {
        let (keys, decimals) = (Arc::new(keys.clone()), Arc::new(decimals.clone()));
        let rows = rows_of([("k", keys, false), ("d", decimals, false)]);
        let spec =
            TableSpec { set: set.map(str::to_string), ..TableSpec::new(rows.schema(), [key]) };
        let snapshot = add_table_of(&db, key, spec, &rows).snapshot().unwrap();
        let count = |condition: &str| {
            let predicate = drillcore_sql::predicate(&snapshot.schema(), condition).unwrap();
            let predicate = Some(predicate);
            snapshot.count(&Selection { predicate, ..Default::default() }).unwrap()
        };
        for (at, value) in values.iter().enumerate() {
            let text = format!("{}.{:02}", value / 100, value % 100);
            assert_eq!(count(&format!("d = {text}")), 1, "{text}");
            assert_eq!(count(&format!("{text} <= d")), 2_000 - at as u64, "{text}");
            assert_eq!(count(&format!("d > {text}0 and d in (1.5, {text})")), 0, "{text}");
            if at % 100 == 0 {
                let sql = format!(
                    "select count(*), d = {text} from {key} where d in (-0.5, {text}) group by 2"
                );
                let rows = run(&db, &sql);
                assert_eq!(numbers(&rows), [1], "{text}");
                assert!(rows[0].column(1).as_boolean().value(0), "{text}");
                assert!(
                    rows[0].schema().field(1).name().contains(text.trim_end_matches('0')),
                    "{text}"
                );
            }
        }
    }
}

#[test]
fn a_scan_shows_what_a_filter_keeps() {
    let keys: [(&[&str], &str); 6] = [
        (&["place", "number"], "place"),
        (&["number", "place", "at"], "flag"),
        (&["size", "number"], "DepDelay"),
        (&["flag", "at"], "day"),
        (&["price", "size"], "number"),
        (&["day", "DepDelay", "place"], "price"),
    ];
    let mut rng = Rng::keyed(11, 0);
    let conditions = if std::env::var_os("DRILLCORE_LONG").is_some() { 1_000 } else { 40 };
    let (mut narrowed, mut pruned, mut in_partitions) = (0, 0, 0);
    for (key, set) in keys {
        let db = Database::in_memory(Options::default()).unwrap();
        let spec = TableSpec::new(columns(), key.iter().copied()).set(set);
        let table = db.create_table("t", spec).unwrap();
        for part in 0..4 {
            table.append(&batch(&mut rng, 120), OnError::Raise).unwrap();
            if part == 2 {
                db.flush().unwrap();
            }
        }
        let snapshot = table.snapshot().unwrap();
        let all: Vec<RecordBatch> =
            snapshot.scan(ScanRequest::default()).unwrap().map(Result::unwrap).collect();
        let state = SessionContext::new().state();
        let fields = DFSchema::try_from(columns()).unwrap();
        for _ in 0..conditions {
            let text = condition(&mut rng, 3);
            // DataFusion lowers names that are not quoted.
            let quoted = text.replace("DepDelay", "\"DepDelay\"");
            // The plain meaning: coerced, evaluated, and nothing else done to it. DataFusion is not of one mind
            // about two zeros, so it is given one.
            let quoted = quoted.replace("-0.0", "0.0");
            let plain = state.create_logical_expr(&quoted, &fields).unwrap();
            let plain = state.create_physical_expr(plain, &fields).unwrap();
            let kept = |batch: &RecordBatch| {
                let passes = plain
                    .evaluate(&with_one_zero(batch))
                    .unwrap()
                    .into_array(batch.num_rows())
                    .unwrap();
                filter_record_batch(batch, passes.as_boolean()).unwrap()
            };
            let expected = shown(all.iter().map(kept).collect());
            let predicate = predicate(&snapshot.schema(), &text).unwrap();
            narrowed += u32::from(predicate.between().is_some() || predicate.sets().is_some());
            let selection = Selection { predicate: Some(predicate), ..Default::default() };
            let request = ScanRequest { selection: selection.clone(), ..Default::default() };
            let found = shown(snapshot.scan(request).unwrap().map(Result::unwrap).collect());
            assert_eq!(found, expected, "{text} with key {key:?} and set {set}");
            let query = format!("select * from t where {text}");
            let found = query_of(&db, &query);
            assert_eq!(found, expected, "{query} with key {key:?} and set {set}");
            // Several streams of the table's rows, as something is worked out for each.
            let cut =
                QueryOptions { threads: Some(3), partition_rows: Some(15), ..Default::default() };
            let query = format!("select *, day is null as no_day from t where {text}");
            let found = run_with(&db, &query, &cut);
            let kept: Vec<usize> = (0..columns().fields().len()).collect();
            let found = shown(found.iter().map(|batch| batch.project(&kept).unwrap()).collect());
            assert_eq!(found, expected, "{query} with key {key:?} and set {set}");
            let plan = shown(run_with(&db, &format!("explain {query}"), &cut)).concat();
            in_partitions += u32::from(plan.contains("key_partitions="));
            assert_eq!(snapshot.count(&selection).unwrap(), expected.len() as u64, "{text}");
        }
        pruned += db.stats().unwrap().blocks_pruned;
    }
    let asked = keys.len() as u32 * conditions;
    assert!(pruned > u64::from(asked / 5), "only {pruned} blocks were skipped");
    assert!(in_partitions > asked * 2 / 3, "only {in_partitions} of {asked} read in partitions");
    assert!(narrowed > asked / 5, "only {narrowed} of {asked} conditions used an index");
}

/// Days from 1970-01-01 to the first of January of a year, in the calendar of SQL.
fn days_to(year: i64) -> i64 {
    let leaps = |year: i64| year / 4 - year / 100 + year / 400;
    (year - 1970) * 365 + leaps(year - 1) - leaps(1969)
}

#[test]
fn times_of_all_years_are_compared_as_they_are() {
    const YEARS: [i64; 10] = [1, 1400, 1676, 1678, 1970, 2000, 2262, 2263, 5000, 9999];
    let stamp = |unit, zone: Option<&str>| DataType::Timestamp(unit, zone.map(Into::into));
    let columns = [
        ("seconds", stamp(TimeUnit::Second, None)),
        ("millis", stamp(TimeUnit::Millisecond, Some("UTC"))),
        ("micros", stamp(TimeUnit::Microsecond, None)),
        ("zoned", stamp(TimeUnit::Microsecond, Some("Europe/Berlin"))),
    ];
    // Noons, so that no zone makes it another day.
    let noon = |year: i64| days_to(year) * 86_400 + 43_200;
    for (name, data_type) in columns {
        let DataType::Timestamp(unit, _) = &data_type else { unreachable!() };
        let per_second = match unit {
            TimeUnit::Second => 1,
            TimeUnit::Millisecond => 1_000,
            _ => 1_000_000,
        };
        let times = Int64Array::from_iter_values(YEARS.map(|year| noon(year) * per_second));
        let times = datafusion::arrow::compute::cast(&times, &data_type).unwrap();
        let db = database_of(&rows_of([(name, times, false)]));
        let snapshot = db.table("t").unwrap().snapshot().unwrap();
        let check = |condition: String, expected: usize| {
            let predicate = Some(predicate(&snapshot.schema(), &condition).unwrap());
            let found = snapshot.count(&Selection { predicate, ..Default::default() }).unwrap();
            assert_eq!(found, expected as u64, "{condition}");
            let rows = query_of(&db, &format!("select * from t where {condition}"));
            assert_eq!(rows.len(), expected, "query: {condition}");
        };
        for year in YEARS {
            let day = format!("{year:04}-01-01");
            let before = YEARS.iter().filter(|&&other| other < year).count();
            for literal in [
                format!("'{day}'"),
                format!("'{day}T00:00:00.000'"),
                format!("timestamp '{day} 00:00:00'"),
                format!("cast('{day}' as timestamp)"),
                format!("date '{day}'"),
            ] {
                check(format!("{name} < {literal}"), before);
                check(format!("{literal} <= {name}"), YEARS.len() - before);
                check(format!("{name} between {literal} and '9999-12-31'"), YEARS.len() - before);
                check(format!("not ({name} > {literal}) or {name} is null"), before);
            }
            if name != "zoned" {
                check(format!("{name} = '{day} 12:00:00'"), 1);
                check(
                    format!("{name} in ('{day} 12:00:00', '1970-01-01 12:00:00')"),
                    2 - usize::from(year == 1970),
                );
                check(format!("{name} <> timestamp '{day} 12:00:00'"), YEARS.len() - 1);
            }
        }
        // More digits than the unit has would make neighbours equal.
        let fine = format!("{name} = '1970-01-01 12:00:00.0000001'");
        let error = predicate(&snapshot.schema(), &fine).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("more digits"), "{error}");
    }
}

fn table() -> (Database, TableSnapshot) {
    let db = Database::in_memory(Options::default()).unwrap();
    let spec = TableSpec::new(columns(), ["place", "number"]).set("DepDelay");
    let table = add_table_of(&db, "t", spec, &batch(&mut Rng::keyed(1, 1), 100));
    let snapshot = table.snapshot().unwrap();
    (db, snapshot)
}

#[test]
fn what_an_index_answers_is_not_tested() {
    let (_db, snapshot) = table();
    let schema = snapshot.schema();
    let read = |text: &str| {
        let predicate = predicate(&schema, text).unwrap();
        (predicate.between().is_some(), predicate.sets().is_some(), predicate.columns().to_vec())
    };
    let none: Vec<String> = vec![];
    assert_eq!(read("place = 'a' and number > 0"), (true, false, none.clone()));
    assert_eq!(read("place is null"), (true, false, none.clone()));
    assert_eq!(read("DepDelay in (1, 2, 3, 4, 5)"), (false, true, none.clone()));
    assert_eq!(read("DepDelay = 1 or DepDelay is null"), (false, true, none.clone()));
    assert_eq!(read("1 = 1"), (false, false, none.clone()));
    assert_eq!(read("1 = 0"), (true, false, none.clone()));
    assert_eq!(read("number > 0"), (false, false, vec!["number".to_string()]));
    assert_eq!(read("place > 'a' and number > 0"), (true, false, vec!["number".to_string()]));
    let both = read("place = 'a' and DepDelay = 1 and size > 0 and flag");
    assert_eq!(both, (true, true, vec!["size".to_string(), "flag".to_string()]));
}

#[test]
fn conditions_that_look_alike_are_told_apart() {
    let (_db, snapshot) = table();
    let schema = snapshot.schema();
    let text = |text: &str| predicate(&schema, text).unwrap().text().to_string();
    let two = text("place <> 'a' and place <> 'b'");
    assert_eq!(text("place <> 'a'  AND place<>'b'"), two);
    assert_ne!(text(r#"place <> 'a") AND place != Utf8("b'"#), two);
    assert_ne!(text("size > 1"), text("size > 1.5"));
}

#[test]
fn what_is_no_condition_is_refused() {
    let (_db, snapshot) = table();
    let refused = |text: &str| {
        let error = predicate(&snapshot.schema(), text).unwrap_err();
        assert_ne!(error.kind(), ErrorKind::Corrupt, "{text}");
        error.to_string()
    };
    let unknown = predicate(&snapshot.schema(), "plac = 'a'").unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
    assert!(unknown.to_string().contains("did you mean \"place\"?"), "{unknown}");
    assert!(refused("depdelay > 1").contains("did you mean \"DepDelay\""));
    for text in [r#"place = "a""#, r#"number > 1 and place in ("it's; so")"#] {
        assert!(
            refused(text)
                .ends_with("Use single quotes for strings; double quotes are for identifiers")
        );
    }
    assert!(!refused("place = a and place <> '\"a'").contains("quotes"));
    assert!(refused("number + 1").contains("true or false"));
    assert!(refused("").contains("where"));
    let ends = "where: invalid SQL: the text ends where an expression is expected; complete it";
    assert_eq!(refused("number >"), ends);
    assert!(refused("number = 'x'").starts_with("where: \"x\" is not a valid int"));
    assert!(refused("number > 1; drop table t").contains("invalid SQL"));
    assert!(refused("number > 1 order by 1").contains("invalid SQL"));
    assert!(refused("sum(number) > 1").contains("applies to one row"));
    assert!(refused("row_number() over () > 1").contains("applies to one row"));
    assert!(refused("number > (select 1)").contains("query"));
    assert!(refused("exists (select 1)").contains("query"));
    assert!(refused("random() < 0.5").contains("differs between calls"));
    assert!(refused("number > $1").contains("placeholder"));
    assert!(refused("nonsense(number)").contains("unknown function \"nonsense\""));
    assert!(refused("lenght(place) > 1").contains("did you mean \"length\"?"));
    assert!(refused("t.number > 3").contains("write number without t"));
    assert!(refused("t.numbr > 3").contains("did you mean \"number\"?"));
    assert!(refused("number < 9223372036854775807 + 'x'").contains("coerce"));
    assert!(refused("place > 5 and number = 'x'").contains("where"));
}

#[test]
fn what_a_row_makes_of_a_condition_may_be_an_error() {
    let (_db, snapshot) = table();
    let failing = predicate(&snapshot.schema(), "1 / number > 0").unwrap();
    let selection = Selection { predicate: Some(failing), ..Default::default() };
    let error = snapshot.count(&selection).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("zero"), "{error}");
}

#[test]
fn deep_and_wide_conditions_are_answered_or_refused() {
    let (db, snapshot) = table();
    let schema = snapshot.schema();
    let selection = |text: &str| {
        Ok::<_, Error>(Selection {
            predicate: Some(predicate(&schema, text)?),
            ..Default::default()
        })
    };
    let joined = |count: u64, by: &str| {
        (0..count).map(|i| format!("number <> {i} + size")).collect::<Vec<_>>().join(by)
    };
    for by in [" and ", " or "] {
        // Half of the operators are the pluses.
        let count = |text: &str| snapshot.count(&selection(text).unwrap()).unwrap();
        count(&joined(1_000, by));
        let wide = joined(300, by);
        let found = count(&wide);
        let query = format!("select * from t where {wide}");
        assert_eq!(query_of(&db, &query).len() as u64, found);
        let error = selection(&joined(1_001, by)).unwrap_err().to_string();
        assert!(error.contains("2001 operators"), "{error}");
        let query = format!("select * from t where {}", joined(1_001, by));
        assert!(answer(&db, &query, &QueryOptions::default()).is_err());
    }
    let deep = format!("{}number > 0{}", "(".repeat(10_000), ")".repeat(10_000));
    assert!(selection(&deep).is_err());
}

//! Queries: what reaches the engine, and what comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::arrow_array::*;
use drillcore::arrow_schema::{DataType, Field, Schema, SchemaRef};
use drillcore::*;
use drillcore_sql::{QueryOptions, query};

use crate::fixtures::*;

fn columns() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("carrier", DataType::Utf8, false),
        Field::new("flight", DataType::Int64, false),
        Field::new("delay", DataType::Int64, true),
    ]))
}

const CARRIERS: [&str; 3] = ["AA", "DL", "UA"];

/// Flights 0 to `n`, carriers in turn, each late by its number modulo 100.
fn flights(n: i64) -> RecordBatch {
    let carriers: StringArray = (0..n).map(|i| Some(CARRIERS[i as usize % 3])).collect();
    let delays: Int64Array = (0..n).map(|i| Some(i % 100)).collect();
    let arrays: Vec<ArrayRef> =
        vec![Arc::new(carriers), Arc::new(Int64Array::from_iter_values(0..n)), Arc::new(delays)];
    RecordBatch::try_new(columns(), arrays).unwrap()
}

fn flights_spec(merge: Merge) -> TableSpec {
    TableSpec::new(columns(), ["carrier", "flight"]).set("carrier").merge(merge)
}

pub fn database(rows: i64) -> Database {
    let db = Database::in_memory(Options::default()).unwrap();
    let airlines = rows_of([
        ("carrier", Arc::new(StringArray::from(vec!["AA", "DL", "XX"])), false),
        ("name", Arc::new(StringArray::from(vec!["American", "Delta", "None"])), false),
    ]);
    add_table(&db, "airlines", &airlines);
    add_table_of(&db, "flights", flights_spec(Merge::Append), &flights(rows));
    db
}

/// Has three threads read even small tables.
fn in_partitions() -> QueryOptions {
    QueryOptions { threads: Some(3), partition_rows: Some(20), ..Default::default() }
}

pub fn refused(db: &Database, text: &str) -> Error {
    match answer(db, text, &QueryOptions::default()) {
        Ok(_) => panic!("{text} was answered"),
        Err(error) => error,
    }
}

/// The physical plan.
fn plan(db: &Database, text: &str) -> String {
    texts(&run(db, &format!("explain format indent {text}")), 1)
}

#[test]
fn plans_say_what_the_engine_does() {
    let db = database(1000);
    let shown =
        plan(&db, "select delay from flights where carrier = 'UA' and flight < 50 and delay > 3");
    assert!(shown.contains("DrillcoreScan: table=flights, columns=[delay]"), "{shown}");
    assert!(
        shown.contains("range=[(carrier = 'UA') AND (flight < 50)]") || shown.contains("range=[")
    );
    assert!(shown.contains("test=["), "{shown}");
    assert!(!shown.contains("FilterExec"), "{shown}");
    let shown = plan(&db, "select * from flights where carrier in ('UA', 'DL') limit 7");
    assert!(shown.contains("sets=[") && shown.contains("limit=7"), "{shown}");
    // The key order needs no sort.
    let shown =
        plan(&db, "select flight from flights where carrier = 'UA' order by flight limit 3");
    assert!(!shown.contains("SortExec: "), "{shown}");
    let shown = plan(&db, "select * from flights order by carrier, flight");
    assert!(!shown.contains("SortExec"), "{shown}");
    let shown = plan(&db, "select * from flights order by delay");
    assert!(shown.contains("SortExec"), "{shown}");
    // Counts that indexes know need no scan.
    let shown = plan(&db, "select count(*) from flights where carrier = 'UA'");
    assert!(!shown.contains("DrillcoreScan"), "{shown}");
    let shown = plan(&db, "select * from flights tablesample (5 rows) where delay > 3");
    assert!(shown.contains("test=[") && shown.contains("sample=5 rows"), "{shown}");
    let analyzed = texts(&run(&db, "explain analyze select * from flights where delay = 3"), 1);
    assert!(analyzed.contains("output_rows=10"), "{analyzed}");
}

#[test]
fn large_tables_are_read_by_all_threads() {
    let db = database(9_000);
    let plan = |text: &str| {
        let text = format!("explain format indent {text}");
        texts(&run_with(&db, &text, &in_partitions()), 1)
    };
    // Where something is done to the rows, in as many streams.
    for text in [
        "select sum(delay) from flights",
        "select delay, count(*) from flights where carrier <> 'AA' group by delay",
        "select delay + 1 from flights",
    ] {
        assert!(plan(text).contains("key_partitions=3"), "{}", plan(text));
        assert!(!plan(text).contains("RoundRobin"), "{}", plan(text));
    }
    // The streams are in key order each, so that groups by it need no sort.
    let shown = plan("select carrier, flight, sum(delay) from flights group by carrier, flight");
    assert!(
        shown.contains("key_partitions=3") && shown.contains("ordering_mode=Sorted"),
        "{shown}"
    );
    // The later ones need not wait for the first.
    assert!(shown.contains("BufferExec"), "{shown}");
    assert!(!shown.contains("SortExec"), "{shown}");
    // Else in one, in key order.
    for text in [
        "select * from flights",
        "select flight as f from flights order by carrier, flight",
        "select carrier, flight, delay + 1 from flights order by carrier, flight",
    ] {
        assert!(plan(text).contains("threads=3"), "{}", plan(text));
        assert!(
            !plan(text).contains("key_partitions") && !plan(text).contains("Merge"),
            "{}",
            plan(text)
        );
    }
    // A limit goes to the scan.
    for text in [
        "select sum(delay) from (select delay from flights limit 50)",
        "select * from flights limit 50",
        "select * from flights order by carrier, flight limit 50",
    ] {
        let shown = plan(text);
        assert!(shown.contains("limit=50") && !shown.contains("key_partitions"), "{shown}");
    }
    // Too little to read, or one thread.
    let small = texts(&run(&db, "explain format indent select sum(delay) from flights"), 1);
    assert!(!small.contains("key_partitions"), "{small}");
    let one = QueryOptions { threads: Some(1), ..in_partitions() };
    let one =
        texts(&run_with(&db, "explain format indent select sum(delay) from flights", &one), 1);
    assert!(!one.contains("key_partitions"), "{one}");
}

#[test]
fn rows_come_in_key_order_from_several_threads() {
    let db = database(9_000);
    let mut in_order: Vec<i64> = (0..9_000).collect();
    in_order.sort_by_key(|flight| flight % 3);
    let asked = [
        ("select flight from flights", in_order.clone()),
        ("select flight from flights order by carrier, flight", in_order.clone()),
        ("select flight + 0 from flights order by carrier, flight", in_order.clone()),
        ("select flight + 0 from flights order by carrier, flight limit 40", in_order[..40].into()),
        ("select flight from flights order by carrier, flight limit 40", in_order[..40].into()),
        (
            "select flight from flights where carrier >= 'DL' order by carrier, flight",
            in_order[3_000..].into(),
        ),
    ];
    for (text, expected) in asked {
        for options in [QueryOptions::default(), in_partitions()] {
            assert_eq!(numbers(&run_with(&db, text, &options)), expected, "{text}, {options:?}");
        }
    }
}

#[test]
fn answers_are_those_of_the_tables() {
    let db = database(1000);
    check_answers(&db, &QueryOptions::default());
    check_answers(&db, &in_partitions());
    // Statements of other kinds.
    assert_eq!(texts(&run(&db, "show tables"), 2).matches("flights").count(), 1);
    assert_eq!(texts(&run(&db, "describe flights"), 0), "carrier\nflight\ndelay");
}

fn check_answers(db: &Database, options: &QueryOptions) {
    let run = |db: &Database, text: &str| run_with(db, text, options);
    assert_eq!(numbers(&run(db, "select count(*) from flights")), [1000]);
    let by_carrier = "select count(*) from flights group by carrier order by carrier";
    assert_eq!(numbers(&run(db, by_carrier)), [334, 333, 333]);
    let indexed = "select count(*) from flights where carrier = 'UA' and flight between 2 and 20";
    assert_eq!(numbers(&run(db, indexed)), [7]);
    let tested = "select count(*) from flights where delay % 10 = 3 and carrier <> 'AA'";
    assert_eq!(numbers(&run(db, tested)), [66]);
    let last = "select flight from flights where carrier = 'UA' order by flight desc limit 2";
    assert_eq!(numbers(&run(db, last)), [998, 995]);
    let joined = "select count(*) from flights f join airlines a on f.carrier = a.carrier \
                  where a.name = 'Delta' and f.delay < 10";
    assert_eq!(numbers(&run(db, joined)), [33]);
    let nested = "select max(n) from (select count(*) as n from flights group by carrier) t";
    assert_eq!(numbers(&run(db, nested)), [334]);
    let windowed = "select flight from flights qualify row_number() over \
                    (partition by carrier order by flight desc) = 1 order by 1";
    assert_eq!(numbers(&run(db, windowed)), [997, 998, 999]);
    assert!(numbers(&run(db, "select flight from flights where false")).is_empty());
    // One thread gives what many give.
    let options = QueryOptions { threads: Some(1), ..Default::default() };
    assert_eq!(numbers(&run_with(db, by_carrier, &options)), [334, 333, 333]);
}

#[test]
fn rows_of_upsert_and_rollup_tables_are_the_folded_ones() {
    let db = Database::in_memory(Options::default()).unwrap();
    let table = db.create_table("newest", flights_spec(Merge::Upsert)).unwrap();
    table.append(&flights(300), OnError::Raise).unwrap();
    // Overwritten with the delays of flights a hundred further on, so all of them move by nothing ...
    let later = flights(300);
    let delays: ArrayRef = Arc::new((0..300).map(|_| Some(1000)).collect::<Int64Array>());
    let later = RecordBatch::try_new(
        columns(),
        vec![later.column(0).clone(), later.column(1).clone(), delays],
    )
    .unwrap();
    table.append(&later.slice(0, 100), OnError::Raise).unwrap();
    let count = |text: &str| numbers(&run(&db, text))[0];
    assert_eq!(count("select count(*) from newest"), 300);
    let cut = |text: &str| numbers(&run_with(&db, text, &in_partitions()))[0];
    assert_eq!(cut("select count(delay + 0) from newest where delay < 1000"), 200);
    assert_eq!(cut("select sum(flight) from newest"), 299 * 150);
    assert_eq!(cut("select sum(flight) from newest where carrier = 'AA'"), 14_850);
    // ... and no old version comes back because the new one fails.
    assert_eq!(count("select count(*) from newest where delay < 1000"), 200);
    assert_eq!(count("select count(*) from newest where delay < 1000 and carrier = 'AA'"), 66);
    let merge = Merge::Rollup(RollupSpec {
        time: None,
        granularity: Granularity::NONE,
        metrics: vec![("n".into(), Metric::Count), ("total".into(), Metric::sum("delay"))],
        discover: false,
    });
    let folded = TableSpec { key: vec!["carrier".into()], ..flights_spec(merge) };
    let table = db.create_table("folded", folded).unwrap();
    for part in 0..3 {
        table.append(&flights(300).slice(part * 100, 100), OnError::Raise).unwrap();
    }
    assert_eq!(count("select count(*) from folded"), 3);
    assert_eq!(count("select n from folded where carrier = 'AA'"), 100);
    assert_eq!(count("select sum(n) from folded where total > 4949"), 300);
    let one_row = QueryOptions { partition_rows: Some(1), ..in_partitions() };
    assert_eq!(
        numbers(&run_with(&db, "select sum(n) from folded where total > 4949", &one_row)),
        [300]
    );
    assert_eq!(count("select count(*) from folded where total > 4950"), 0);
    assert_eq!(numbers(&run(&db, "select n from folded tablesample (2 rows)")).len(), 2);
    let by_event = "select n from sample('folded', 200)";
    assert_eq!(numbers(&run(&db, by_event)).len(), 200);
}

#[test]
fn a_query_reads_one_snapshot() {
    let db = database(100);
    let snapshot = db.snapshot().unwrap();
    db.table("flights").unwrap().append(&flights(50), OnError::Raise).unwrap();
    let count = "select count(*) from flights";
    let before = query(&snapshot, count, &QueryOptions::default()).unwrap();
    assert_eq!(numbers(&before.map(Result::unwrap).collect::<Vec<_>>()), [100]);
    assert_eq!(numbers(&run(&db, count)), [150]);
}

#[test]
fn a_sample_is_of_what_the_where_leaves() {
    let db = database(3000);
    let rows = |text: &str| numbers(&run(&db, text));
    let passes = |flights: &[i64]| flights.iter().all(|f| f % 100 < 10 && f % 3 == 2);
    let text = "select flight from flights tablesample (20 rows) repeatable (7) \
                where carrier = 'UA' and delay < 10";
    let drawn = rows(text);
    assert_eq!(drawn.len(), 20);
    assert!(passes(&drawn), "{drawn:?}");
    assert_eq!(rows(text), drawn);
    let again = rows(&text.replace("repeatable (7)", "repeatable (8)"));
    assert_ne!(again, drawn);
    // However the same query is put.
    for same in [
        "select flight from flights as f tablesample (20 rows) repeatable (7) \
         where f.carrier = 'UA' and f.delay < 10",
        "select f.flight from airlines a join flights f tablesample (20 rows) repeatable (7) \
         on a.carrier <> f.carrier where f.carrier = 'UA' and f.delay < 10 and a.name = 'Delta'",
        "select f.flight from flights f tablesample (20 rows) repeatable (7), airlines a \
         where f.carrier = 'UA' and a.name = 'Delta' and f.delay < 10",
        "select flight from flights tablesample (20 rows) seed (7) \
         where carrier = 'UA' and delay < 10 limit 20",
        "select f.flight from flights f tablesample (20 rows) repeatable (7) \
         left join airlines a on f.carrier = a.carrier where f.carrier = 'UA' and f.delay < 10",
        "with s as (select * from flights tablesample (20 rows) repeatable (7) \
         where carrier = 'UA' and delay < 10) select flight from s where flight >= 0",
        "select flight from (select * from flights tablesample (20 rows) repeatable (7) \
         where carrier = 'UA' and delay < 10) s where s.delay < 1000",
    ] {
        let (mut found, mut expected) = (rows(same), drawn.clone());
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{same}");
    }
    // A limit takes the first of the sample.
    let few = rows(&format!("{text} limit 5"));
    assert_eq!(few, drawn[..5]);
    // The order of the conditions, and what else is asked, change nothing.
    let swapped = text.replace("carrier = 'UA' and delay < 10", "delay < 10 and carrier = 'UA'");
    assert_eq!(rows(&swapped), drawn);
    assert_eq!(rows(&text.replace("select flight", "select flight, carrier, delay")), drawn);
    // A condition of an outer query comes after the sample it is about.
    let outer =
        "select count(*) from (select * from flights tablesample (200 rows)) s where s.delay < 10";
    let left = rows(outer)[0];
    assert!((5..50).contains(&left), "{left}");
    // So do conditions on groups.
    let grouped = "select sum(n) from (select carrier, count(*) as n from flights \
                   tablesample (200 rows) group by carrier having count(*) > 0) t";
    assert_eq!(rows(grouped), [200]);
    // Both sides of a join of samples are drawn from their own conditions.
    let both = "select count(*) from flights a tablesample (10 rows), flights b tablesample (20 rows) \
                where a.delay < 5 and b.delay > 90";
    assert_eq!(rows(both), [200]);
    // Where fewer pass, all come.
    assert_eq!(rows("select flight from flights tablesample (50 rows) where flight < 9").len(), 9);
    assert_eq!(rows("select flight from flights tablesample (0 rows)").len(), 0);
    // sample() comes first.
    let first = rows("select count(*) from sample('flights', 200, 3) where delay < 10")[0];
    assert!((5..50).contains(&first), "{first}");
    assert_eq!(rows("select flight from sample('flights', 10, 3)").len(), 10);
}

#[test]
fn one_sample_is_drawn_once() {
    let db = database(3000);
    // Two uses of one name see the same rows.
    let twice = "with s as (select * from flights tablesample (30 rows)) \
                 select count(*) from s a join s b on a.flight = b.flight";
    assert_eq!(numbers(&run(&db, twice)), [30]);
}

#[test]
fn a_percentage_takes_each_row_by_itself() {
    let db = database(3000);
    let mut sizes = Vec::new();
    for seed in 0..200 {
        let text = format!(
            "select flight from flights tablesample bernoulli (10) repeatable ({seed}) where delay < 50"
        );
        let drawn = numbers(&run(&db, &text));
        assert!(drawn.iter().all(|flight| flight % 100 < 50));
        sizes.push(drawn.len() as f64);
    }
    // 1,500 rows pass: 150 are expected, with a variance of 135.
    let mean = sizes.iter().sum::<f64>() / 200.0;
    let variance = sizes.iter().map(|size| (size - mean).powi(2)).sum::<f64>() / 199.0;
    assert!((mean - 150.0).abs() < 5.0, "{mean}");
    assert!((80.0..210.0).contains(&variance), "{variance}");
    let all = "select flight from flights tablesample (100 percent)";
    assert_eq!(numbers(&run(&db, all)).len(), 3000);
}

#[test]
fn queries_in_the_condition_of_a_sample_are_answered_before_it_is_drawn() {
    let db = database(3_000);
    for (condition, rows) in [
        ("carrier in (select carrier from airlines)", 2_000),
        ("carrier not in (select carrier from airlines)", 1_000),
        ("carrier in (select carrier from airlines where name = 'nobody')", 0),
        ("carrier not in (select carrier from airlines where name = 'nobody')", 3_000),
        ("carrier not in (select null from airlines)", 0),
        ("delay > (select avg(delay) from flights)", 1_500),
        ("delay > (select delay from flights where flight < 0)", 0),
        ("flight + 1 in (select delay from flights) or delay = (select 50)", 99 + 30 - 1),
        ("exists (select 1 from airlines) = (delay < 10)", 300),
        ("not (exists (select 1 from airlines where name = '') or delay < 10)", 2_700),
        (
            "flight in (select flight from flights tablesample (9 rows) where delay in (select 7))",
            9,
        ),
        ("f.carrier = (with s as (select 'UA' as c) select c from s) and delay < 50", 500),
    ] {
        let of = |quantity: u64| {
            let text = format!(
                "select flight from flights f tablesample ({quantity} rows) repeatable (5) where {condition}"
            );
            numbers(&run(&db, &text))
        };
        let mut all = of(10_000);
        all.sort_unstable();
        assert_eq!(all.len(), rows, "{condition}");
        if !condition.contains("tablesample") {
            let text = format!("select flight from flights f where {condition} order by flight");
            assert_eq!(numbers(&run(&db, &text)), all, "{condition}");
        }
        assert_eq!(of(7).len(), rows.min(7), "{condition}");
    }
    let joined = "select f.flight from flights f tablesample (20 rows) join airlines a on f.carrier = a.carrier \
                  where f.delay < (select 10) and a.name = (select 'Delta')";
    let drawn = numbers(&run(&db, joined));
    assert!(drawn.len() < 20 && drawn.iter().all(|flight| flight % 3 == 1 && flight % 100 < 10));
    let plan = run(
        &db,
        "explain select * from flights tablesample (5 rows) where carrier in (select 'UA')",
    );
    assert!(format!("{plan:?}").contains("range=[carrier = "), "an answer narrows: {plan:?}");
}

#[test]
fn a_query_keeps_to_its_memory() {
    let db = database(200_000);
    let run_within = |text: &str, memory_bytes: u64| -> Result<Vec<RecordBatch>> {
        let memory_bytes = Some(memory_bytes);
        let options = QueryOptions { memory_bytes, ..Default::default() };
        answer(&db, text, &options)
    };
    // By what no index orders; the bytes of one column alone are 1.6 MB.
    let sorted = "select flight from flights order by flight % 1000, flight";
    let found = numbers(&run_within(sorted, 24 << 20).unwrap());
    assert_eq!(found, numbers(&run_within(sorted, 1 << 30).unwrap()));
    let grouped =
        "select count(*) from (select flight % 100000 as g, sum(delay) from flights group by 1)";
    assert_eq!(numbers(&run_within(grouped, 4 << 20).unwrap()), [100_000]);
    let spilled = |memory_bytes| {
        let plan = run_within(&format!("explain analyze {grouped}"), memory_bytes).unwrap();
        let plan = format!("{plan:?}");
        plan.matches("spilled_bytes=").count() > plan.matches("spilled_bytes=0.0 B").count()
    };
    assert!(spilled(4 << 20) && !spilled(1 << 30), "it goes on in files");
    let joined = "select count(*) from flights a join flights b on a.flight = b.flight + 1";
    assert_eq!(numbers(&run_within(joined, 1 << 30).unwrap()), [199_999]);
    let error = run_within(joined, 100_000).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    assert!(error.to_string().contains("memory_bytes"), "{error}");
}

#[test]
fn samples_are_uniform_over_what_passes() {
    let db = database(300);
    let mut tally = vec![0u64; 300];
    for seed in 0..1_000 {
        let text = format!(
            "select flight from flights tablesample (4 rows) repeatable ({seed}) where delay < 20"
        );
        numbers(&run(&db, &text)).into_iter().for_each(|flight| tally[flight as usize] += 1);
    }
    let passing: Vec<u64> = (0..300).filter(|f| f % 100 < 20).map(|f| tally[f]).collect();
    assert_eq!(passing.iter().sum::<u64>(), 4_000);
    let expected = vec![4_000.0 / 60.0; 60];
    let p = drillcore_sample::goodness::chi_square_p_value(&passing, &expected);
    assert!(p > 1e-6, "{p}");
    // The same test sees a sampler that favours the first carrier by a third.
    let tilted: Vec<f64> =
        (0..60).map(|i| if i < 20 { 4.0 / 3.0 } else { 5.0 / 6.0 } * 4_000.0 / 60.0).collect();
    assert!(drillcore_sample::goodness::chi_square_p_value(&passing, &tilted) < 1e-6);
}

#[test]
fn a_query_can_be_stopped() {
    let db = database(3000);
    let asked = Arc::new(AtomicU64::new(0));
    let counter = asked.clone();
    // Stops the third time that the query asks.
    let interrupt = Interrupt::new(Arc::new(move || counter.fetch_add(1, Ordering::Relaxed) >= 2));
    let snapshot = db.snapshot().unwrap().interrupted_by(interrupt);
    // An operator that does not stop by itself for a long time.
    let text = "select count(*) from flights a, flights b, flights c where a.delay + b.delay + c.delay = 5";
    let started = std::time::Instant::now();
    let found = query(&snapshot, text, &QueryOptions::default());
    let error = found.and_then(Iterator::collect::<Result<Vec<_>>>).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    assert!(started.elapsed().as_secs() < 10);
    // One that is dropped after its first batch leaves nothing behind that the database waits for.
    let mut rows =
        query(&db.snapshot().unwrap(), "select * from flights", &QueryOptions::default()).unwrap();
    assert!(rows.next().unwrap().unwrap().num_rows() > 0);
    drop(rows);
    db.close().unwrap();
}

#[test]
fn from_without_a_select_list_gives_all_columns() {
    let db = database(20);
    for (short, long) in [
        ("from flights limit 2", "select * from flights limit 2"),
        ("from flights", "select * from flights"),
        (
            "from flights order by delay desc limit 3",
            "select * from flights order by delay desc limit 3",
        ),
        ("select count(*) from (from flights) f", "select count(*) from (select * from flights) f"),
        ("with f as (from flights) from f", "select * from flights"),
        (
            "from airlines union all from airlines",
            "select * from airlines union all select * from airlines",
        ),
        ("from airlines, flights", "select * from airlines, flights"),
        ("from flights select delay", "select delay from flights"),
        (
            "select * from airlines where carrier in (select carrier from (from flights) f)",
            "select * from airlines where carrier in (select carrier from flights)",
        ),
        ("explain from airlines", "explain select * from airlines"),
    ] {
        let (short, long) = (run(&db, short), run(&db, long));
        assert!(short[0].num_columns() > 0);
        assert_eq!(short, long);
    }
    // A list without columns is no query; a test whether there are rows needs none.
    for text in ["select from flights", "select from flights limit 2"] {
        let refused = query(&db.snapshot().unwrap(), text, &QueryOptions::default());
        let refused = refused.err().expect("refused");
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert!(refused.to_string().contains("selects no columns"), "{refused}");
    }
    let exists = "select count(*) as n from airlines where exists (select from flights)";
    assert_eq!(run(&db, exists)[0].column(0).as_primitive::<Int64Type>().values(), &[3]);
}

#[test]
fn windows_may_be_in_the_order_of_any_values() {
    let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![&b"b"[..], b"a", b"b", b"c"]));
    let seconds = Int64Array::from(vec![Some(2), Some(1), Some(2), None]);
    let db = database_of(&rows_of([
        ("k", Arc::new(Int64Array::from_iter_values(0..4)), false),
        ("b", bytes, false),
        ("d", Arc::new(seconds), true),
    ]));
    for (window, expected) in [
        ("row_number() over (order by b, k)", [2, 1, 3, 4]),
        ("rank() over (order by b)", [2, 1, 2, 4]),
        ("dense_rank() over (order by arrow_cast(d, 'Duration(s)'))", [2, 1, 2, 3]),
        ("sum(k) over (order by b)", [3, 1, 3, 6]),
        (
            "sum(k) over (order by arrow_cast(arrow_cast(d, 'Int32'), 'Time32(s)') desc)",
            [5, 6, 5, 3],
        ),
        ("first_value(k) over (order by b desc, k)", [3, 3, 3, 3]),
        (
            "sum(k) over (order by b range between current row and unbounded following)",
            [5, 6, 5, 3],
        ),
    ] {
        let rows = run(&db, &format!("select {window}, k from t order by k"));
        assert_eq!(numbers(&rows), expected, "{window}");
        let windowed = run(&db, &format!("select {window} from t"));
        assert_eq!(windowed[0].schema().field(0).name(), rows[0].schema().field(0).name());
    }
    let distance = refused(&db, "select sum(k) over (order by b range 1 preceding) from t");
    assert!(distance.to_string().contains("use ROWS or GROUPS"), "{distance}");
}

#[test]
fn a_sort_within_little_memory_goes_on_in_files() {
    let rows: i64 = 400_000;
    let mixed = || (0..rows).map(|row| row * 7_919 % rows);
    let texts = StringArray::from_iter_values(mixed().map(|row| format!("the row {row}")));
    let db = database_of(&rows_of([
        ("k", Arc::new(Int64Array::from_iter_values(0..rows)), false),
        ("x", Arc::new(Int64Array::from_iter_values(mixed())), false),
        ("s", Arc::new(texts), false),
    ]));
    let options =
        QueryOptions { threads: Some(2), memory_bytes: Some(16 << 20), ..Default::default() };
    let sorted = run_with(&db, "select x, s, k from t order by x", &options);
    assert!(numbers(&sorted).into_iter().eq(0..rows));
}

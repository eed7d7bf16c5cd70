//! A caller that wants out of reading or planning a long text gets out, which nothing in a parser or planner asks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use drillcore::arrow_array::Int64Array;
use drillcore::*;
use drillcore_sql::{QueryOptions, predicate_interruptibly, query};

use crate::fixtures::{database_of, rows_of};

fn table() -> (Database, Table) {
    let db = database_of(&rows_of([("a", Arc::new(Int64Array::from_iter_values(0..100)), false)]));
    let table = db.table("t").unwrap();
    (db, table)
}

/// An interrupt that lets a call begin, and stops it when it asks once more. A wait asks every 20 milliseconds.
fn second_question() -> Interrupt {
    let asked = AtomicU32::new(0);
    Interrupt::new(Arc::new(move || asked.fetch_add(1, Ordering::Relaxed) > 0))
}

fn numbers(count: u32) -> String {
    let numbers: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    numbers.join(", ")
}

/// `call` lasts, and ends early where its interrupt says so.
fn ends_early(name: &str, call: impl Fn(&Interrupt) -> Result<()>) {
    let started = Instant::now();
    call(&Interrupt::never()).unwrap_or_else(|error| panic!("{name}: {error}"));
    let whole = started.elapsed();
    assert!(whole > Duration::from_millis(200), "{name}: {whole:?} is too short to tell anything");
    let error = call(&second_question()).expect_err(name);
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{name}: {error}");
}

#[test]
fn reading_a_long_condition_ends_early() {
    let (_db, table) = table();
    let schema = table.schema();
    let condition = format!("a in ({})", numbers(300_000));
    ends_early("condition", |interrupt| {
        predicate_interruptibly(&schema, &condition, interrupt).map(drop)
    });
}

#[test]
fn reading_and_planning_a_long_query_end_early() {
    let (db, _) = table();
    let snapshot = db.snapshot().unwrap();
    let run = |text: &str, interrupt: &Interrupt| {
        let snapshot = snapshot.interrupted_by(interrupt.clone());
        query(&snapshot, text, &QueryOptions::default()).map(drop)
    };
    let list = format!("select a from t where a in ({})", numbers(300_000));
    ends_early("a long list", |interrupt| run(&list, interrupt));
    let sums: Vec<String> =
        (0..700).map(|number| format!("sum(a + {number}) as s{number}")).collect();
    let sums = format!("select {} from t", sums.join(", "));
    ends_early("many sums", |interrupt| run(&sums, interrupt));
}

//! The part of bench `ingest` that holds rows in memory as they arrive, folded or plain, as an incremental index does.

use std::sync::Arc;
use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMillisecondType};
use arrow_cast::cast;
use arrow_schema::DataType;
use drillcore::{
    Database, Durability, Granularity, Merge, Metric as Folded, Options, RollupSpec, ScanRequest,
    Table, TableSnapshot, TableSpec,
};

use crate::error::Result;
use crate::figures::metric::{Better, Metric};
use crate::peers::row_objects::{RowObjects, SKIP_LIST};
use crate::rows::arriving::{Columns, DIMENSIONS, FLOAT, NUMBERS, TIME, raw_bytes};
use crate::rows::event::{Answer, Event};
use crate::tables::engine::{self, DRILLCORE};
use crate::trials::setup::Setup;
use crate::trials::trial::{Contender, Outcome, Role, Trial};

const PER_MILLION: Metric = Metric { name: "1 M rows", unit: "ms", better: Better::Lower };
pub const IN_MEMORY: Metric =
    Metric { name: "in memory", unit: "bytes/row", better: Better::Lower };
/// The thread counts that incremental indexes are compared at; `--threads` adds those above.
pub const THREADS: [u32; 4] = [1, 2, 4, 8];
/// Enough for all rows, so that none is written out.
pub const MEMORY_BYTES: u64 = 64 << 30;

/// Different keys where every commit has rows of the same ones, and milliseconds after which the next key comes.
const HOT_KEYS: i64 = 1_000;
const HOT_STEP: i64 = 86;

/// Two schemas, folded and plain; and the one with texts once more with texts that come as codes of a dictionary per batch, for
/// which the peers get plain ones.
pub fn incremental(setup: &Setup, trial: &mut Trial) -> Result<()> {
    for (columns, name) in [(Columns::Basic, "basic"), (Columns::SimpleFloat, "simple float")] {
        trial.announce("generating rows as they arrive")?;
        let batches = columns.generate(setup.arguments.rows, setup.arguments.seed);
        for (folds, how) in [(true, "rollup"), (false, "plain")] {
            let case = format!("{name}, {how}, in memory");
            held(setup, trial, &case, (columns, folds), &batches, &batches)?;
            if columns == Columns::Basic {
                let case = format!("{name}, {how}, texts by code, in memory");
                let by_code: Vec<_> = batches.iter().map(texts_by_code).collect();
                held(setup, trial, &case, (columns, folds), &batches, &by_code)?;
            }
        }
        if columns == Columns::SimpleFloat {
            let case = format!("{name}, rollup of 1,000 keys, in memory");
            let hot: Vec<_> = batches.iter().map(of_hot_keys).collect();
            held(setup, trial, &case, (columns, true), &hot, &hot)?;
        }
    }
    Ok(())
}

/// The batch with few different times, which come in turn: every commit folds into the rows of all others.
fn of_hot_keys(batch: &RecordBatch) -> RecordBatch {
    let times = batch.column(0).as_primitive::<TimestampMillisecondType>();
    let step = |time: i64| time / HOT_STEP % HOT_KEYS;
    let hot = times.unary::<_, TimestampMillisecondType>(step);
    let mut columns = batch.columns().to_vec();
    columns[0] = Arc::new(hot);
    RecordBatch::try_new(batch.schema(), columns).expect("the same columns")
}

/// The batch with each column of texts as a dictionary.
fn texts_by_code(batch: &RecordBatch) -> RecordBatch {
    let by_code = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let columns = batch.columns().iter().map(|column| match column.data_type() {
        DataType::Utf8 => cast(column, &by_code).expect("texts have codes"),
        _ => column.clone(),
    });
    let names = batch.schema();
    let columns: Vec<_> = names.fields().iter().map(|field| field.name()).zip(columns).collect();
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

fn held(
    setup: &Setup,
    trial: &mut Trial,
    case: &str,
    (columns, folds): (Columns, bool),
    batches: &[RecordBatch],
    appended: &[RecordBatch],
) -> Result<()> {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let values = |seconds: f64, bytes: u64| {
        vec![(PER_MILLION, seconds * 1e9 / rows as f64), (IN_MEMORY, bytes as f64 / rows as f64)]
    };
    let mut contenders = Vec::new();
    let more = setup.thread_counts().into_iter().filter(|threads| *threads > THREADS[3]);
    let threads = THREADS.into_iter().chain(more);
    for threads in threads.filter(|&threads| threads >= setup.arguments.threads_from) {
        contenders.push(Contender::new(DRILLCORE, threads, Role::Subject, move |_| {
            let options = Options {
                durability: Durability::None,
                memory_bytes: MEMORY_BYTES,
                ..Options::default()
            };
            let db = Database::in_memory(options)?;
            let table = create(&db, columns, folds)?;
            let started = Instant::now();
            engine::append_all(&table, appended, threads)?;
            let values = values(started.elapsed().as_secs_f64(), db.stats()?.row_bytes);
            let answer = answer(&table.snapshot()?, columns, folds)?;
            Ok(Outcome { values, answer: Some(answer) })
        }));
        contenders.push(Contender::new(SKIP_LIST, threads, Role::Peer, move |_| {
            let list = RowObjects::new(columns, folds);
            let started = Instant::now();
            list.insert_all(batches, threads);
            let values = values(started.elapsed().as_secs_f64(), list.bytes());
            Ok(Outcome { values, answer: Some(list.answer()) })
        }));
    }
    let raw = raw_bytes(batches);
    contenders.push(Contender::new("raw values", 1, Role::Floor, move |_| {
        Ok(Outcome { values: vec![(IN_MEMORY, raw as f64 / rows as f64)], answer: None })
    }));
    trial.compare(case, None, &mut contenders)
}

/// By time and all dimensions with sums, or by time alone with all columns.
pub fn create(db: &Database, columns: Columns, folds: bool) -> Result<Table> {
    let schema = columns.schema();
    let spec = match (folds, columns) {
        (false, _) => TableSpec::new(schema, [TIME]),
        (true, Columns::Basic) => {
            let rollup = RollupSpec::default()
                .time(TIME, Granularity::NONE)
                .metric("rows", Folded::Count)
                .metric("sum", Folded::sum(NUMBERS[0]))
                .metric("most", Folded::max(NUMBERS[1]))
                .metric("float", Folded::sum(NUMBERS[2]))
                .metric("least", Folded::min(NUMBERS[3]));
            let key = [TIME].into_iter().chain(DIMENSIONS);
            TableSpec::new(schema, key).merge(Merge::Rollup(rollup))
        }
        (true, Columns::SimpleFloat) => {
            let rollup = RollupSpec::default()
                .time(TIME, Granularity::NONE)
                .metric("rows", Folded::Count)
                .metric("float", Folded::sum(FLOAT));
            TableSpec::new(schema, [TIME]).merge(Merge::Rollup(rollup))
        }
    };
    Ok(db.create_table("arriving", spec)?)
}

/// The rows as [`RowObjects::answer`] gives them.
fn answer(table: &TableSnapshot, columns: Columns, folds: bool) -> Result<Answer> {
    let of_basic = columns == Columns::Basic;
    let names: &[&str] = match (folds, of_basic) {
        (true, true) => &[TIME, "float", "rows", "sum", "most", "least", DIMENSIONS[2]],
        (true, false) => &[TIME, "float", "rows"],
        (false, true) => &[TIME, NUMBERS[2], NUMBERS[0], NUMBERS[1], NUMBERS[3], DIMENSIONS[2]],
        (false, false) => &[TIME, FLOAT],
    };
    let mut answer = Answer::default();
    let wanted = Some(names.iter().map(ToString::to_string).collect());
    for batch in table.scan(ScanRequest { columns: wanted, ..ScanRequest::default() })? {
        let batch = batch?;
        let long = |column: usize| batch.column(column).as_primitive::<Int64Type>().values();
        let float = |column: usize| batch.column(column).as_primitive::<Float64Type>().values();
        let at = batch.column(0).as_primitive::<TimestampMillisecondType>().values();
        // Behind the number of rows, which folded ones have.
        let numbers = if folds { 3 } else { 2 };
        for row in 0..batch.num_rows() {
            let id = if folds { long(2)[row] } else { 1 };
            let (mut units, mut price, mut city) = (0, float(1)[row], "");
            if of_basic {
                units = long(numbers)[row] + long(numbers + 1)[row];
                price += float(numbers + 2)[row];
                city = batch.column(numbers + 3).as_string::<i32>().value(row);
            }
            answer.add(&Event { id, at: at[row], city, units, price, note: "" });
        }
    }
    Ok(answer)
}

//! The verbs that read, each as of one moment.

use std::io::{self, IsTerminal, Read};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use drillcore::{
    ErrorKind, EstimateRequest, HalfWidth, Interrupt, SampleRequest, ScanRequest, Snapshot, Stop,
    TableSchema, TableSnapshot, Unit,
};
use drillcore_sql::QueryOptions;
use indicatif::{HumanBytes, HumanCount};

use crate::arguments::reading::{Count, Estimate, Get, Sample, Scan, Sets, Sql, Tables};
use crate::arguments::shared_options::{Moment, Source, Style};
use crate::files::source;
use crate::printing::output::{print, print_line, print_one};
use crate::process::fault::{Fault, NO, report};
use crate::process::opening::moment;
use crate::verbs::selection::{key, selection};

/// The longest query from standard input, which may have no end.
const QUERY_BYTES_MAX: u64 = 16 << 20;
/// Rows that `scan` prints in a terminal, unless it is asked for another number.
const TERMINAL_ROWS_MAX: u64 = 1_000;

/// Prints the row with a key; `NO` if there is none.
pub fn get(arguments: Get, interrupt: &Interrupt) -> Result<u8, Fault> {
    let table = table(&arguments.source, &arguments.moment, interrupt)?;
    let keys = key(&table.schema(), &arguments.key)?;
    let columns = arguments.columns.columns.as_deref();
    let found = table.get(&keys, columns)?;
    let is_found = found.rows.num_rows() > 0;
    print_one(arguments.output.output, found.rows)?;
    Ok(if is_found { 0 } else { NO })
}

pub fn scan(arguments: Scan, interrupt: Interrupt) -> Result<(), Fault> {
    let table = table(&arguments.source, &arguments.moment, &interrupt)?;
    let in_terminal = arguments.limit.is_none() && io::stdout().is_terminal();
    let scan = table.scan(ScanRequest {
        selection: selection(&table.schema(), &arguments.selection, &interrupt)?,
        columns: arguments.columns.columns,
        // One more, so that it is known whether there are more.
        limit: arguments.limit.or(in_terminal.then_some(TERMINAL_ROWS_MAX + 1)),
        reverse: arguments.reverse,
        threads: arguments.threads,
        ..ScanRequest::default()
    })?;
    let schema = scan.schema();
    let mut rows = 0;
    let batches = scan.map(|batch| {
        let batch = batch?;
        let room = if in_terminal { TERMINAL_ROWS_MAX.saturating_sub(rows) } else { u64::MAX };
        rows += batch.num_rows() as u64;
        Ok(batch.slice(0, batch.num_rows().min(usize::try_from(room).unwrap_or(usize::MAX))))
    });
    print(arguments.output.output, schema, batches)?;
    if in_terminal && rows > TERMINAL_ROWS_MAX {
        report(format_args!(
            "only the first {} rows are shown in a terminal; use --limit for more",
            HumanCount(TERMINAL_ROWS_MAX)
        ));
    }
    Ok(())
}

pub fn count(arguments: Count, interrupt: Interrupt) -> Result<(), Fault> {
    let table = table(&arguments.source, &arguments.moment, &interrupt)?;
    let selection = selection(&table.schema(), &arguments.selection, &interrupt)?;
    let count = match arguments.events {
        true => table.count_events(&selection)?,
        false => table.count(&selection)?,
    };
    print_line(&count.to_string())
}

pub fn sample(arguments: Sample, interrupt: Interrupt) -> Result<(), Fault> {
    let table = table(&arguments.source, &arguments.moment, &interrupt)?;
    let rows = table.sample(&SampleRequest {
        n: arguments.n,
        selection: selection(&table.schema(), &arguments.selection, &interrupt)?,
        weight: arguments.weight,
        replace: arguments.replace,
        at_most: arguments.at_most,
        with_probability: arguments.with_probability,
        seed: arguments.seed,
        columns: arguments.columns.columns,
        threads: arguments.threads,
        ..SampleRequest::default()
    });
    print_one(arguments.output.output, rows.map_err(with_option)?)
}

/// Names the option that allows fewer rows.
fn with_option(error: drillcore::Error) -> Fault {
    match error.kind() {
        ErrorKind::TooFewRows => Fault::wrong_call(format!("{error} (--at-most)")),
        _ => error.into(),
    }
}

pub fn estimate(arguments: Estimate, interrupt: Interrupt) -> Result<(), Fault> {
    let table = table(&arguments.source, &arguments.moment, &interrupt)?;
    let stop = match (arguments.n, &arguments.error, arguments.seconds) {
        (Some(n), _, _) => Stop::Rows(n),
        (_, Some(error), _) => Stop::Error(half_width(error)?),
        (_, _, Some(seconds)) => Stop::Seconds(seconds),
        _ => EstimateRequest::default().stop,
    };
    // An aggregate is its own name.
    let texts: Vec<_> =
        arguments.aggregates.iter().map(|text| (text.clone(), text.clone())).collect();
    let asked = drillcore_sql::aggregates(&table.schema(), &texts, &arguments.by, &interrupt)?;
    let request = EstimateRequest {
        aggregates: asked.aggregates,
        by: asked.by,
        computed: asked.computed,
        selection: selection(&table.schema(), &arguments.selection, &interrupt)?,
        unit: if arguments.events { Unit::Events } else { Unit::Rows },
        stop,
        confidence: arguments.confidence,
        simultaneous: arguments.simultaneous,
        seed: arguments.seed,
    };
    let estimate = table.estimate(&request)?;
    match arguments.output.output {
        Style::Table => print_one(Style::Table, as_text(&estimate))?,
        style => print_one(style, estimate.to_batch())?,
    }
    report(how(&estimate));
    estimate.notes.iter().for_each(report);
    Ok(())
}

/// The result with figures as people read them.
fn as_text(estimate: &drillcore::Estimate) -> RecordBatch {
    let exact = estimate.to_batch();
    let groups = estimate.groups.len();
    let mut columns: Vec<(String, ArrayRef)> = Vec::new();
    for (at, field) in exact.schema().fields().iter().enumerate() {
        let column: ArrayRef = match (at.checked_sub(groups), at + 1 == exact.num_columns()) {
            (Some(of_aggregates), false) => {
                let (aggregate, end) = (of_aggregates / 3, of_aggregates % 3);
                let text = |group: usize| Some(estimate.shown(aggregate, group)[end].clone());
                Arc::new((0..exact.num_rows()).map(text).collect::<StringArray>())
            }
            _ => exact.column(at).clone(),
        };
        columns.push((field.name().clone(), column));
    }
    let fields =
        columns.iter().map(|(name, column)| Field::new(name, column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    RecordBatch::try_new(schema, columns).expect("one figure per group")
}

/// How the figures were found, in a line.
fn how(estimate: &drillcore::Estimate) -> String {
    let (unit, population) = (estimate.unit.as_str(), HumanCount(estimate.population));
    let read = match estimate.scanned {
        0 => String::new(),
        scanned => format!(", {} read", HumanCount(scanned)),
    };
    let drawn = format!("drew {} of {population} {unit}{read}", HumanCount(estimate.sampled));
    match (estimate.exact, estimate.sampled + estimate.scanned) {
        (true, 0) => format!("exact: an index answered for {population} {unit}; none were drawn"),
        (true, _) => format!("exact: {drawn}"),
        (false, _) => format!(
            "{drawn}; intervals: {}, {} at {} % confidence",
            estimate.method,
            if estimate.simultaneous { "together" } else { "each" },
            estimate.confidence * 100.0
        ),
    }
}

pub fn sets(arguments: Sets, interrupt: Interrupt) -> Result<(), Fault> {
    let table = table(&arguments.source, &arguments.moment, &interrupt)?;
    let sets = table.sets()?;
    let schema = Schema::new(vec![
        Field::new("set", sets.values.data_type().clone(), true),
        Field::new("rows", DataType::UInt64, false),
    ]);
    let rows = Arc::new(UInt64Array::from(sets.rows));
    let batch = RecordBatch::try_new(Arc::new(schema), vec![sets.values, rows]);
    print_one(arguments.output.output, batch.expect("one count per set"))
}

/// Prints the result of one query.
pub fn sql(arguments: &Sql, text: &str, interrupt: &Interrupt) -> Result<(), Fault> {
    let snapshot = moment(&arguments.database, arguments.moment.at.as_deref(), interrupt)?;
    print_query(&snapshot, arguments, text)
}

/// Prints the result of one query over a snapshot, with the options for queries.
pub fn print_query(snapshot: &Snapshot, arguments: &Sql, text: &str) -> Result<(), Fault> {
    let (threads, memory_bytes) = (arguments.threads, arguments.memory_bytes);
    let options = QueryOptions { threads, memory_bytes, ..Default::default() };
    let query = drillcore_sql::query(snapshot, text, &options)?;
    let schema = query.schema();
    print(arguments.output.output, schema, query.map(|batch| batch.map_err(Fault::from)))
}

/// Prints what tables there are. Counts the rows of each.
pub fn tables(arguments: Tables, interrupt: Interrupt) -> Result<(), Fault> {
    let snapshot = moment(&arguments.database, arguments.moment.at.as_deref(), &interrupt)?;
    let names = snapshot.tables();
    let tables = names.iter().map(|name| snapshot.table(name)).collect::<Result<Vec<_>, _>>()?;
    let schemas: Vec<Arc<TableSchema>> = tables.iter().map(TableSnapshot::schema).collect();
    let rows = tables.iter().map(TableSnapshot::rows).collect::<Result<Vec<u64>, _>>()?;
    let text = |of: fn(&TableSchema) -> Option<String>| -> ArrayRef {
        Arc::new(schemas.iter().map(|schema| of(schema)).collect::<StringArray>())
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("table", Arc::new(StringArray::from(names.clone()))),
        ("merge", text(|schema| Some(schema.merge.name().to_string()))),
        ("key", text(|schema| Some(column_names(schema, &schema.key)))),
        ("set", text(|schema| Some(column_names(schema, &[schema.set_column()?])))),
        ("rows", Arc::new(UInt64Array::from(rows))),
    ];
    let batch = RecordBatch::try_from_iter(columns).expect("one value per table");
    print_one(arguments.output.output, batch)
}

/// All of standard input, which must have an end.
pub fn standard_input(interrupt: &Interrupt) -> Result<String, Fault> {
    let bounded = |input: Box<dyn Read + Send>| input.take(QUERY_BYTES_MAX + 1);
    let read = source::raw("-", interrupt).map(bounded);
    let read = read.and_then(std::io::read_to_string).map_err(|error| match interrupt.check() {
        Ok(()) => Fault::unusable(format!("cannot read standard input: {error}")),
        Err(_) => Fault::interrupted(),
    })?;
    if read.len() as u64 > QUERY_BYTES_MAX {
        let limit = HumanBytes(QUERY_BYTES_MAX);
        let message = format!("the query on standard input has more than {limit}, the limit");
        return Err(Fault::wrong_call(message));
    }
    Ok(read)
}

fn table(source: &Source, as_of: &Moment, interrupt: &Interrupt) -> Result<TableSnapshot, Fault> {
    Ok(moment(&source.database, as_of.at.as_deref(), interrupt)?.table(&source.table)?)
}

/// "0.5", or "2%" of the estimate.
fn half_width(text: &str) -> Result<HalfWidth, Fault> {
    let number = |text: &str| {
        text.trim().parse::<f64>().map_err(|_| {
            Fault::wrong_call(format!(
                "--error {text:?} is not a number or a percentage, such as 0.5 or 2%"
            ))
        })
    };
    match text.strip_suffix('%') {
        Some(percent) => Ok(HalfWidth::Relative(number(percent)? / 100.0)),
        None => Ok(HalfWidth::Absolute(number(text)?)),
    }
}

/// Names of columns, separated by commas.
fn column_names(schema: &TableSchema, columns: &[usize]) -> String {
    let names: Vec<&str> =
        columns.iter().map(|&column| schema.columns.field(column).name().as_str()).collect();
    names.join(",")
}

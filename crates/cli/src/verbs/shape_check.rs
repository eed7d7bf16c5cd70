//! Whether the options that say what a new table looks like hold for a table that is there already. What they
//! leave out, they say nothing about.

use std::time::Duration;

use arrow_schema::DataType;
use drillcore::{Merge, Metric, RollupSpec, TableSchema, TableSpec, type_name};

use crate::arguments::ingest::{MergeName, Shape};
use crate::duration::duration_text;
use crate::process::fault::Fault;

/// Refuses options that contradict the table, each with what it says and what the table has.
pub fn check_agrees(shape: &Shape, table: &str, schema: &TableSchema) -> Result<(), Fault> {
    let contradictions = contradictions(shape, schema);
    if contradictions.is_empty() {
        return Ok(());
    }
    Err(Fault::wrong_call(format!(
        "table {table:?} exists and does not match the options: {}; leave these options out, or use another table name",
        contradictions.join("; ")
    )))
}

/// Refuses two types of one column.
pub fn check_types(types: &[(String, DataType)]) -> Result<(), Fault> {
    for (at, (name, given)) in types.iter().enumerate() {
        let mut others = types[..at].iter().filter(|(other, _)| other == name);
        if let Some((_, other)) = others.find(|(_, other)| other != given) {
            return Err(Fault::wrong_call(format!(
                "--type gives column {name:?} two types, {} and {}; leave one out",
                type_name(other),
                type_name(given)
            )));
        }
    }
    Ok(())
}

/// The key, time and dimensions, each once.
pub fn whole_key(shape: &Shape) -> Vec<String> {
    let mut key = shape.key.clone();
    for column in shape.rollup.time.iter().chain(&shape.rollup.dimension) {
        if !key.contains(column) {
            key.push(column.clone());
        }
    }
    key
}

fn contradictions(shape: &Shape, schema: &TableSchema) -> Vec<String> {
    let table = TableSpec::of(schema);
    let mut said = Contradictions::default();
    if let Some(merge) = shape.merge.map(merge_name).filter(|merge| *merge != table.merge.name()) {
        said.note("--merge", merge.to_string(), table.merge.name().to_string());
    }
    said.compare_key(shape, schema, &table);
    said.compare_types(shape, schema);
    said.compare_sets(shape, schema, &table);
    if !shape.weights.is_empty() && !same(&shape.weights, &table.weights) {
        said.note("--weights", listed(&shape.weights), listed(&table.weights));
    }
    said.compare_streams(shape, &table);
    if let Some(asked) = shape.ttl.as_ref().filter(|asked| table.ttl.as_ref() != Some(asked)) {
        let shown = |(column, duration): &(String, Duration)| {
            format!("{column}={}", duration_text(*duration))
        };
        said.note("--ttl", shown(asked), table.ttl.as_ref().map_or_else(none, shown));
    }
    said.compare_rollup(shape, &table);
    said.0
}

/// What options say and a table has otherwise, in words.
#[derive(Default)]
struct Contradictions(Vec<String>);

impl Contradictions {
    fn note(&mut self, option: &str, asked: String, found: String) {
        self.0.push(format!("{option} is {asked}, but the table has {found}"));
    }

    fn compare_key(&mut self, shape: &Shape, schema: &TableSchema, table: &TableSpec) {
        if shape.key.is_empty() && shape.rollup.dimension.is_empty() {
            return;
        }
        let asked = whole_key(shape);
        // Dimensions that were added may be named, as far as they are.
        let whole: Vec<&String> =
            schema.key.iter().map(|&column| schema.columns.field(column).name()).collect();
        let is_beginning = asked.iter().eq(whole.iter().copied().take(asked.len()));
        if !is_beginning || asked.len() < table.key.len() {
            let option = match shape.rollup.dimension.is_empty() {
                true => "--key",
                false => "--key with --time and --dimension",
            };
            self.note(option, listed(&asked), listed(&whole));
        }
    }

    fn compare_types(&mut self, shape: &Shape, schema: &TableSchema) {
        for (name, asked) in &shape.column_types {
            let columns = [schema.batch_columns(), &schema.columns];
            let found = columns.iter().find_map(|columns| columns.field_with_name(name).ok());
            if found.is_none_or(|found| found.data_type() != asked) {
                let found = found
                    .map_or("no such column".to_string(), |found| type_name(found.data_type()));
                self.note("--type", format!("{name}={}", type_name(asked)), found);
            }
        }
    }

    fn compare_sets(&mut self, shape: &Shape, schema: &TableSchema, table: &TableSpec) {
        if let Some(set) = shape.set.as_ref().filter(|set| table.set.as_ref() != Some(set)) {
            self.note("--set", set.clone(), table.set.clone().unwrap_or_else(none));
        }
        if shape.no_set_index && schema.set.as_ref().is_some_and(|set| !set.indexed.is_none()) {
            let found = "indexed sets (see unindex-sets)".to_string();
            self.note("--no-set-index", "given".to_string(), found);
        }
    }

    fn compare_streams(&mut self, shape: &Shape, table: &TableSpec) {
        let streams = |streams: &Option<Vec<String>>| {
            streams.as_ref().map_or("by size".to_string(), |streams| listed(streams))
        };
        let agree =
            |asked: &[String]| table.streams.as_ref().is_some_and(|known| same(asked, known));
        if !shape.streams.is_empty() && !agree(&shape.streams) {
            self.note("--streams", listed(&shape.streams), streams(&table.streams));
        }
        if shape.no_streams && !agree(&[]) {
            self.note("--no-streams", "given".to_string(), streams(&table.streams));
        }
    }

    fn compare_rollup(&mut self, Shape { rollup: asked, .. }: &Shape, table: &TableSpec) {
        let no_rollup = RollupSpec::default();
        let rollup = match &table.merge {
            Merge::Rollup(rollup) => rollup,
            _ => &no_rollup,
        };
        if let Some(time) = asked.time.as_ref().filter(|time| rollup.time.as_ref() != Some(time)) {
            self.note("--time", time.clone(), rollup.time.clone().unwrap_or_else(none));
        }
        if let Some(asked) = asked.granularity.filter(|asked| *asked != rollup.granularity) {
            self.note("--granularity", asked.to_string(), rollup.granularity.to_string());
        }
        if asked.discover && !rollup.discover {
            self.note("--discover", "given".to_string(), "fixed dimensions".to_string());
        }
        if !asked.metric.is_empty() {
            let metric = |(name, metric): &(String, Metric)| format!("{name}={metric}");
            let asked: Vec<String> = asked.metric.iter().map(metric).collect();
            let found: Vec<String> = rollup.metrics.iter().map(metric).collect();
            if !same(&asked, &found) {
                self.note("--metric", listed(&asked), listed(&found));
            }
        }
    }
}

fn merge_name(merge: MergeName) -> &'static str {
    match merge {
        MergeName::Append => "append",
        MergeName::Upsert => "upsert",
        MergeName::Rollup => "rollup",
    }
}

fn none() -> String {
    "none".to_string()
}

/// Whether two lists have the same names, in any order.
fn same(some: &[String], others: &[String]) -> bool {
    some.len() == others.len() && some.iter().all(|name| others.contains(name))
}

fn listed<T: AsRef<str>>(names: &[T]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    if names.is_empty() { none() } else { names.join(",") }
}

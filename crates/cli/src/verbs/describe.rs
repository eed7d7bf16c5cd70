//! `drillcore describe`: tables in one line each, or one with its columns.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, StringArray, UInt64Array};
use drillcore::{
    Interrupt, Merge, RollupSpec, Snapshot, Stats, TableSchema, TableSnapshot, TableSpec, type_name,
};
use indicatif::{HumanBytes, HumanCount};

use crate::arguments::reading::Describe;
use crate::arguments::shared_options::Style;
use crate::duration::duration_text;
use crate::printing::output::{print_line, print_one};
use crate::process::fault::Fault;
use crate::process::opening::open_to_read;

pub fn describe(arguments: &Describe, interrupt: &Interrupt) -> Result<(), Fault> {
    let db = open_to_read(&arguments.database, interrupt)?;
    let (snapshot, stats) = (db.snapshot()?, db.stats()?);
    let style = arguments.output.output;
    let Some(name) = &arguments.table else {
        return print_one(style, tables(&snapshot, &stats)?);
    };
    let table = snapshot.table(name)?;
    if style == Style::Table {
        print_line(&heading(&table, &stats)?)?;
    }
    print_one(style, columns(&table.schema()))
}

/// All tables. Counts the rows of each.
pub fn tables(snapshot: &Snapshot, stats: &Stats) -> Result<RecordBatch, Fault> {
    let names = snapshot.tables();
    let tables = names.iter().map(|name| snapshot.table(name)).collect::<Result<Vec<_>, _>>()?;
    let specs: Vec<TableSpec> = tables.iter().map(|table| TableSpec::of(&table.schema())).collect();
    let rows = tables.iter().map(TableSnapshot::rows).collect::<Result<Vec<_>, _>>()?;
    let text = |of: fn(&TableSpec) -> Option<String>| -> ArrayRef {
        Arc::new(specs.iter().map(of).collect::<StringArray>())
    };
    let number = |of: &dyn Fn(&str) -> Option<u64>| -> ArrayRef {
        Arc::new(names.iter().map(|name| of(name)).collect::<UInt64Array>())
    };
    let widths = tables.iter().map(|table| table.schema().columns.fields().len() as u64);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("table", Arc::new(StringArray::from(names.clone()))),
        ("merge", text(|spec| Some(spec.merge.name().to_string()))),
        ("key", text(|spec| Some(spec.key.join(",")))),
        ("set", text(|spec| spec.set.clone())),
        ("weights", text(|spec| Some(spec.weights.join(",")).filter(|names| !names.is_empty()))),
        ("columns", Arc::new(UInt64Array::from_iter_values(widths))),
        ("rows", Arc::new(UInt64Array::from(rows))),
        ("segments", number(&|name| Some(stored(stats, name)?.segments))),
        ("bytes", number(&|name| Some(stored(stats, name)?.segment_bytes))),
    ];
    Ok(RecordBatch::try_from_iter(columns).expect("one value per table"))
}

/// What a table is, in a few lines. Counts its rows.
pub fn heading(table: &TableSnapshot, stats: &Stats) -> Result<String, Fault> {
    let schema = table.schema();
    let spec = TableSpec::of(&schema);
    let rows = table.rows()?;
    let mut lines = vec![
        format!("table     {}", table.name()),
        format!("merge     {}", spec.merge.name()),
        format!("key       {}", spec.key.join(", ")),
    ];
    if let Merge::Rollup(RollupSpec { time: Some(time), granularity, .. }) = &spec.merge {
        lines.push(format!("time      {time}, in steps of {granularity}"));
    }
    if let Some((column, duration)) = &spec.ttl {
        lines.push(format!("kept      {} after {column}", duration_text(*duration)));
    }
    if let Some(set) = &spec.set {
        lines.push(format!("set       {set}"));
    }
    if !spec.weights.is_empty() {
        lines.push(format!("weights   {}", spec.weights.join(", ")));
    }
    lines.push(format!("rows      {}", HumanCount(rows)));
    if let Some(stored) = stored(stats, table.name()) {
        let segments = if stored.segments == 1 { "segment" } else { "segments" };
        let (on_disk, in_memory) = (HumanBytes(stored.segment_bytes), HumanBytes(stored.run_bytes));
        lines.push(format!("on disk   {on_disk} in {} {segments}", stored.segments));
        if stored.run_bytes > 0 {
            lines.push(format!("in log    {in_memory} of rows that are in no segment yet"));
        }
    }
    Ok(lines.join("\n"))
}

/// The columns of a table, each with what it is for.
pub fn columns(schema: &TableSchema) -> RecordBatch {
    let spec = TableSpec::of(schema);
    let fields = schema.columns.fields();
    let role = |name: &String| {
        let mut roles = Vec::new();
        if let Some(place) = spec.key.iter().position(|column| column == name) {
            roles.push(format!("key {}", place + 1));
        } else if schema.key.iter().any(|&column| fields[column].name() == name) {
            roles.push("key, discovered".to_string());
        }
        if spec.set.as_ref() == Some(name) {
            roles.push("set".to_string());
        }
        if spec.weights.contains(name) {
            roles.push("weight".to_string());
        }
        if let Merge::Rollup(rollup) = &spec.merge {
            let metrics = rollup.metrics.iter().filter(|(metric, _)| metric == name);
            roles.extend(metrics.map(|(_, metric)| metric.to_string()));
        }
        roles.join(", ")
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "column",
            Arc::new(StringArray::from_iter_values(fields.iter().map(|field| field.name()))),
        ),
        (
            "type",
            Arc::new(StringArray::from_iter_values(
                fields.iter().map(|field| type_name(field.data_type())),
            )),
        ),
        (
            "nullable",
            Arc::new(BooleanArray::from_iter(fields.iter().map(|field| Some(field.is_nullable())))),
        ),
        (
            "role",
            Arc::new(StringArray::from_iter_values(fields.iter().map(|field| role(field.name())))),
        ),
    ];
    RecordBatch::try_from_iter(columns).expect("one value per column")
}

fn stored<'a>(stats: &'a Stats, table: &str) -> Option<&'a drillcore::TableStats> {
    stats.tables.iter().find(|stored| stored.name == table)
}

//! What tells the shape of one table from that of another, in words.

use arrow_schema::{FieldRef, Schema};
use drillcore_format::type_name::type_name;

use crate::schema::metric::Metric;
use crate::schema::table_spec::{Merge, RollupSpec, TableSpec};

/// Differences that are said; the others are counted.
const SAID_MAX: usize = 5;

/// How a table that was found differs from the one asked for: "its key is (a, b), not (a); ...". Empty if only
/// columns that were added, or which sets are indexed, tell them apart.
pub fn difference(found: &TableSpec, asked: &TableSpec) -> String {
    let mut said = Vec::new();
    let mut differs = |what: &str, found: String, asked: String| {
        if found != asked {
            said.push(format!("its {what} is {found}, not {asked}"));
        }
    };
    let name = |name: &Option<String>| match name {
        Some(name) => format!("{name:?}"),
        None => "none".to_string(),
    };
    differs("merge", found.merge.name().to_string(), asked.merge.name().to_string());
    differs("key", listed(&found.key), listed(&asked.key));
    differs("set column", name(&found.set), name(&asked.set));
    differs("list of weights", listed(&found.weights), listed(&asked.weights));
    let streams = |spec: &TableSpec| spec.streams.as_ref().map_or("by size".into(), |s| listed(s));
    differs("list of streams", streams(found), streams(asked));
    if let (Merge::Rollup(found), Merge::Rollup(asked)) = (&found.merge, &asked.merge) {
        differs("time column", name(&found.time), name(&asked.time));
        differs("granularity", found.granularity.to_string(), asked.granularity.to_string());
        differs("list of metrics", metrics(found), metrics(asked));
        let dimensions = |rollup: &RollupSpec| match rollup.discover {
            true => "open".to_string(),
            false => "closed".to_string(),
        };
        differs("list of dimensions", dimensions(found), dimensions(asked));
    }
    said.extend(columns(&found.columns, &asked.columns));
    let more = said.len().saturating_sub(SAID_MAX);
    said.truncate(SAID_MAX);
    if more > 0 {
        said.push(format!("and {more} more differences"));
    }
    said.join("; ")
}

fn listed(names: &[String]) -> String {
    match names.is_empty() {
        true => "none".to_string(),
        false => format!("({})", names.join(", ")),
    }
}

fn metrics(rollup: &RollupSpec) -> String {
    let metric = |(name, metric): &(String, Metric)| format!("{name}={metric}");
    listed(&rollup.metrics.iter().map(metric).collect::<Vec<_>>())
}

/// Columns of `asked` that are missing or otherwise in `found`, and those that `found` has besides.
fn columns(found: &Schema, asked: &Schema) -> Vec<String> {
    let mut said = Vec::new();
    for field in asked.fields() {
        let name = field.name();
        let Ok(known) = found.field_with_name(name) else {
            said.push(format!("it has no column {name:?}"));
            continue;
        };
        if known.data_type() != field.data_type() {
            let (known, field) = (type_name(known.data_type()), type_name(field.data_type()));
            said.push(format!("its column {name:?} has type {known}, not {field}"));
        } else if known.is_nullable() != field.is_nullable() {
            let takes = if known.is_nullable() { "is nullable" } else { "is not nullable" };
            said.push(format!("its column {name:?} {takes}"));
        }
    }
    if !said.is_empty() {
        return said;
    }
    let is_asked = |field: &FieldRef| asked.field_with_name(field.name()).is_ok();
    // Columns that were added stand behind all others, and take nulls.
    let width = asked.fields().len();
    let is_added = |index: usize, field: &FieldRef| index >= width && field.is_nullable();
    let fields = || found.fields().iter().enumerate();
    let besides = fields().filter(|(index, field)| !is_asked(field) && !is_added(*index, field));
    said.extend(besides.map(|(_, field)| format!("it also has a column {:?}", field.name())));
    let in_order = fields().filter(|(_, field)| is_asked(field)).map(|(_, field)| field.name());
    if !in_order.eq(asked.fields().iter().map(|field| field.name())) {
        let names: Vec<String> = fields().map(|(_, field)| field.name().clone()).collect();
        said.push(format!("its columns have the order {}", listed(&names)));
    }
    said
}

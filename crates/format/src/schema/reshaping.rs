//! What becomes of a shape when a column is renamed, dropped or widened. Rows that were written before stay as they
//! are.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};

use crate::schema::rollup::StoredMetric;
use crate::schema::table_schema::{MergePolicy, SetColumn, Streams, TableSchema};
use crate::schema::time_to_live::TimeToLive;
use crate::widening::is_wider;

impl TableSchema {
    /// How many columns rows are stored with, also those that were dropped.
    pub fn stored_count(&self) -> usize {
        self.stored.count(self.columns.fields().len())
    }

    /// The type that a stored column has, or had, by its number.
    pub(crate) fn stored_type(&self, number: usize) -> Option<&DataType> {
        match self.stored.column(number) {
            Some(column) => self.columns.fields().get(column).map(|field| field.data_type()),
            None => self.stored.retired_type(number),
        }
    }

    /// The same table, whose column has another name; in a rollup table a dimension also among the events.
    pub fn with_name(&self, column: usize, name: &str) -> TableSchema {
        let old = self.columns.field(column).name().clone();
        let renamed = |field: &Field| field.clone().with_name(name);
        let mut schema =
            TableSchema { columns: with_field(&self.columns, column, renamed), ..self.clone() };
        if let MergePolicy::Rollup(rollup) = &mut schema.merge
            && self.key.contains(&column)
            && let Ok(of_events) = rollup.events.index_of(&old)
        {
            rollup.events = with_field(&rollup.events, of_events, renamed);
        }
        schema
    }

    /// The same rollup table, whose events have another name of a column that only they have.
    pub fn with_event_name(&self, column: usize, name: &str) -> TableSchema {
        let mut schema = self.clone();
        if let MergePolicy::Rollup(rollup) = &mut schema.merge {
            let renamed = |field: &Field| field.clone().with_name(name);
            rollup.events = with_field(&rollup.events, column, renamed);
        }
        schema
    }

    /// The same rollup table, whose events have a wider type of a column that is no dimension. Metrics are stored in
    /// the widest type, whatever they are made of.
    pub fn with_wider_event(&self, column: usize, data_type: &DataType) -> TableSchema {
        let mut schema = self.clone();
        if let MergePolicy::Rollup(rollup) = &mut schema.merge {
            let wider = |field: &Field| field.clone().with_data_type(data_type.clone());
            rollup.events = with_field(&rollup.events, column, wider);
        }
        schema
    }

    /// The metric that a column of a rollup table outside its key shows.
    pub fn metric(&self, column: usize) -> Option<StoredMetric> {
        Some(self.rollup()?.metrics[self.metric_at(column)?])
    }

    /// The place among the metrics of that of a column.
    fn metric_at(&self, column: usize) -> Option<usize> {
        let is_metric = self.rollup().is_some() && !self.key.contains(&column);
        is_metric.then(|| (0..column).filter(|other| !self.key.contains(other)).count())
    }

    /// The metric that a stored column has, or had, by its number.
    pub(crate) fn stored_metric(&self, number: usize) -> Option<StoredMetric> {
        match self.stored.column(number) {
            Some(column) => self.metric(column),
            None => {
                let retired = self.stored.retired().iter();
                retired.filter(|retired| retired.number == number).find_map(|found| found.metric)
            }
        }
    }

    /// The same table without a column, which is neither in the key nor names the sets nor weighs nor says when rows
    /// expire. In a rollup table it is a metric.
    pub fn without_column(&self, column: usize) -> TableSchema {
        let fields = self.columns.fields();
        assert!(!self.key.contains(&column), "rows keep their keys");
        let is_special = self.set_column() == Some(column) || self.weights.contains(&column);
        let is_special = is_special || self.ttl.is_some_and(|ttl| ttl.column == column);
        assert!(!is_special, "sets, weights and times of expiry stay");
        let metric = self.metric_at(column);
        let moved = |of: usize| if of > column { of - 1 } else { of };
        let mut kept: Vec<FieldRef> = fields.iter().cloned().collect();
        let dropped = kept.remove(column);
        let streams = match &self.streams {
            Streams::BySize => Streams::BySize,
            Streams::Only(columns) => Streams::Only(
                columns.iter().filter(|of| **of != column).map(|of| moved(*of)).collect(),
            ),
        };
        TableSchema {
            columns: Arc::new(Schema::new(kept)),
            key: self.key.iter().map(|of| moved(*of)).collect(),
            set: self
                .set
                .as_ref()
                .map(|set| SetColumn { column: moved(set.column), ..set.clone() }),
            merge: match &self.merge {
                MergePolicy::Append => MergePolicy::Append,
                MergePolicy::Upsert { declared } => {
                    MergePolicy::Upsert { declared: declared - usize::from(column < *declared) }
                }
                MergePolicy::Rollup(rollup) => {
                    let mut rollup = rollup.clone();
                    rollup.metrics.remove(metric.expect("others are in the key"));
                    MergePolicy::Rollup(rollup)
                }
            },
            weights: self.weights.iter().map(|of| moved(*of)).collect(),
            streams,
            ttl: self.ttl.map(|ttl| TimeToLive { column: moved(ttl.column), ..ttl }),
            stored: self.stored.without_column(
                fields.len(),
                column,
                dropped.data_type(),
                self.metric(column),
            ),
        }
    }

    /// The same table with a wider type of a column, which is neither in the key nor names the sets, of a table that
    /// keeps rows.
    pub fn with_wider(&self, column: usize, data_type: &DataType) -> TableSchema {
        assert!(self.rollup().is_none() && !self.key.contains(&column), "rows keep their keys");
        assert!(self.set_column() != Some(column), "sets keep their names");
        let before = self.columns.field(column).data_type();
        let count = self.columns.fields().len();
        let wider = |field: &Field| field.clone().with_data_type(data_type.clone());
        TableSchema {
            columns: with_field(&self.columns, column, wider),
            stored: self.stored.with_wider(count, column, before),
            ..self.clone()
        }
    }

    /// Whether this can be what became of `earlier`: what was stored by that shape reads by this one. Names do not
    /// matter, nor do sets that are indexed, nor how long rows are kept.
    pub fn continues(&self, earlier: &TableSchema) -> bool {
        let numbers = |schema: &TableSchema, columns: &[usize]| {
            columns.iter().map(|column| schema.stored.number(*column)).collect::<Vec<_>>()
        };
        let of_set =
            |schema: &TableSchema| schema.set_column().map(|column| schema.stored.number(column));
        let is_same_type = |number: usize| self.stored_type(number) == earlier.stored_type(number);
        // A weight that got a wider type has another number.
        let origin = |schema: &TableSchema, column: usize| {
            let number = schema.stored.number(column);
            schema.stored.earlier(number).last().map_or(number, |retired| retired.number)
        };
        let weights = |schema: &TableSchema| {
            schema.weights.iter().map(|column| origin(schema, *column)).collect::<Vec<_>>()
        };
        let is_same_merge = match (&self.merge, &earlier.merge) {
            (MergePolicy::Append, MergePolicy::Append)
            | (MergePolicy::Upsert { .. }, MergePolicy::Upsert { .. }) => true,
            (MergePolicy::Rollup(now), MergePolicy::Rollup(before)) => {
                let (events, earlier_events) = (now.events.fields(), before.events.fields());
                let numbers = 0..earlier.stored_count();
                events.len() >= earlier_events.len()
                    && events
                        .iter()
                        .zip(earlier_events)
                        .all(|(now, before)| is_stored_alike(now, before))
                    && numbers
                        .into_iter()
                        .all(|number| self.stored_metric(number) == earlier.stored_metric(number))
                    && (now.time, now.granularity, now.declared, now.discovers)
                        == (before.time, before.granularity, before.declared, before.discovers)
            }
            _ => false,
        };
        let (key, earlier_key) = (numbers(self, &self.key), numbers(earlier, &earlier.key));
        self.stored_count() >= earlier.stored_count()
            && (0..earlier.stored_count()).all(is_same_type)
            && is_same_merge
            && match self.widens_key() {
                true => key.starts_with(&earlier_key),
                false => key == earlier_key,
            }
            && of_set(self) == of_set(earlier)
            && weights(self) == weights(earlier)
    }
}

/// Whether metrics of two columns of events are stored in the same types.
fn is_stored_alike(a: &Field, b: &Field) -> bool {
    let (of_a, of_b) = (a.data_type(), b.data_type());
    let is_alike = of_a == of_b || is_wider(of_a, of_b) || is_wider(of_b, of_a);
    is_alike && a.is_nullable() == b.is_nullable()
}

fn with_field(columns: &Schema, column: usize, change: impl Fn(&Field) -> Field) -> SchemaRef {
    let fields = columns.fields().iter().enumerate();
    let fields = fields.map(|(at, field)| match at == column {
        true => Arc::new(change(field)),
        false => field.clone(),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

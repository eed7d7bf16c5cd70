//! What the events of a rollup table become in the model: one row per key, folded event by event.

use std::sync::Arc;

use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::{Granularity, RollupSpec};

use crate::cell::Cell;

/// How events fold.
#[derive(Debug, Clone)]
pub struct RollupShape {
    /// Columns of an appended batch.
    pub events: Arc<Schema>,
    /// Indexes of the key columns among them.
    pub key: Vec<usize>,
    /// The column of the key that is truncated, if one is.
    pub time: Option<Time>,
    /// With their names in the table.
    pub metrics: Vec<(&'static str, Metric)>,
    /// Columns of a batch that became dimensions later.
    pub added: Vec<usize>,
}

/// The key column that is truncated.
#[derive(Debug, Clone, Copy)]
pub struct Time {
    /// Its index among the columns of a batch.
    pub column: usize,
    /// As it is declared.
    pub granularity: Granularity,
    /// The same in microseconds.
    pub step_us: i128,
}

/// What is kept of a column's values; nulls are passed over.
#[derive(Debug, Clone, Copy)]
pub enum Metric {
    /// How many events.
    Count,
    /// The sum of a column.
    Sum(usize),
    /// Its least value.
    Least(usize),
    /// Its greatest value.
    Greatest(usize),
}

impl RollupShape {
    /// The table's columns: the key's, then the metrics, then dimensions added later.
    pub fn columns(&self) -> Arc<Schema> {
        let of_event = |&column: &usize| self.events.field(column).clone();
        let (key, added) = (self.key.iter().map(of_event), self.added.iter().map(of_event));
        let metrics = self.metrics.iter().map(|(name, metric)| metric.field(name, &self.events));
        Arc::new(Schema::new(key.chain(metrics).chain(added).collect::<Vec<Field>>()))
    }

    /// Adds a nullable dimension behind all columns.
    pub fn add_dimension(&mut self, name: &str, data_type: &DataType) {
        self.added.push(self.events.fields().len());
        self.events = with_nullable(&self.events, name, data_type);
    }

    /// As the engine takes it.
    pub fn spec(&self) -> RollupSpec {
        let name = |column: usize| self.events.field(column).name().clone();
        let of_table = |metric: &Metric| match *metric {
            Metric::Count => drillcore::Metric::Count,
            Metric::Sum(column) => drillcore::Metric::sum(name(column)),
            Metric::Least(column) => drillcore::Metric::min(name(column)),
            Metric::Greatest(column) => drillcore::Metric::max(name(column)),
        };
        let metrics = self.metrics.iter();
        RollupSpec {
            time: self.time.map(|time| name(time.column)),
            granularity: self.time.map(|time| time.granularity).unwrap_or_default(),
            metrics: metrics.map(|(name, metric)| (name.to_string(), of_table(metric))).collect(),
            discover: false,
        }
    }

    /// The row of a single event.
    pub fn row(&self, event: &[Cell]) -> Vec<Cell> {
        let of_key = |&column: &usize| match (self.time, &event[column]) {
            (Some(time), Cell::Int(moment)) if time.column == column => {
                Cell::Int(moment - moment.rem_euclid(time.step_us))
            }
            (_, cell) => cell.normalised(),
        };
        let metrics = self.metrics.iter().map(|(_, metric)| metric.of_event(event));
        let added = self.added.iter().map(|&column| event[column].normalised());
        self.key.iter().map(of_key).chain(metrics).chain(added).collect()
    }

    /// Adds the metrics of `other` to `row`, which has the same key.
    pub fn fold(&self, row: &mut [Cell], other: &[Cell]) {
        let metrics = row.iter_mut().zip(other).skip(self.key.len());
        for ((cell, other), (_, metric)) in metrics.zip(&self.metrics) {
            *cell = match (&*cell, other) {
                (Cell::Null, any) | (any, Cell::Null) => any.clone(),
                (a, b) => metric.fold(a, b),
            };
        }
    }
}

/// Columns with one more behind them that takes nulls.
pub fn with_nullable(columns: &Schema, name: &str, data_type: &DataType) -> Arc<Schema> {
    let added = Arc::new(Field::new(name, data_type.clone(), true));
    let fields = columns.fields().iter().cloned().chain([added]);
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

impl Metric {
    fn field(&self, name: &str, events: &Schema) -> Field {
        match *self {
            Metric::Count => Field::new(name, DataType::Int64, false),
            Metric::Sum(column) | Metric::Least(column) | Metric::Greatest(column) => {
                let input = events.field(column);
                let is_float = input.data_type().is_floating();
                let shown = if is_float { DataType::Float64 } else { DataType::Int64 };
                Field::new(name, shown, input.is_nullable())
            }
        }
    }

    fn of_event(&self, event: &[Cell]) -> Cell {
        match *self {
            Metric::Count => Cell::Int(1),
            Metric::Sum(column) | Metric::Least(column) | Metric::Greatest(column) => {
                event[column].with_one_nan()
            }
        }
    }

    fn fold(&self, a: &Cell, b: &Cell) -> Cell {
        match (self, a, b) {
            (Metric::Count | Metric::Sum(_), Cell::Int(a), Cell::Int(b)) => Cell::Int(a + b),
            (Metric::Sum(_), Cell::Float(a), Cell::Float(b)) => {
                Cell::float(f64::from_bits(*a) + f64::from_bits(*b)).with_one_nan()
            }
            (Metric::Least(_), a, b) => if is_above(a, b) { b } else { a }.clone(),
            (Metric::Greatest(_), a, b) => if is_above(a, b) { a } else { b }.clone(),
            _ => panic!("{self:?} of {a:?} and {b:?}"),
        }
    }
}

/// NaN is above all numbers, and -0.0 below 0.0.
fn is_above(a: &Cell, b: &Cell) -> bool {
    match (a, b) {
        (Cell::Float(a), Cell::Float(b)) => {
            let (a, b) = (f64::from_bits(*a), f64::from_bits(*b));
            a.is_nan().cmp(&b.is_nan()).then(a.total_cmp(&b)).is_gt()
        }
        (a, b) => a.key_order(b).is_gt(),
    }
}

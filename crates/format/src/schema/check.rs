//! Whether a shape is one that a table can have: what all who read rows rely on.

use std::collections::BTreeSet;

use arrow_schema::{DataType, Field, Fields};

use crate::schema::columns::{is_key_type, is_supported};
use crate::schema::rollup::Rollup;
use crate::schema::stored_columns::Retired;
use crate::schema::table_schema::{MergePolicy, Streams, TableSchema};
use crate::schema::time_to_live::{TimeToLive, is_time_type};
use crate::weight::{WEIGHTS_MAX, is_weight_type};
use crate::widening::is_wider;

impl TableSchema {
    /// What is wrong with the shape. `create_table` makes none that fails, nor do added columns. O(columns).
    ///
    /// Expects that indexes lie within the columns, which the maker of the schema ensures.
    pub fn check(&self) -> Result<(), String> {
        let fields = self.columns.fields();
        check_columns(fields)?;
        let key: BTreeSet<usize> = self.key.iter().copied().collect();
        if key.is_empty() || key.len() < self.key.len() {
            return Err(format!("the key's columns are {:?}", self.key));
        }
        let ordered = self.key.iter().copied().chain(self.set_column());
        if let Some(column) = ordered.into_iter().find(|&c| !is_key_type(fields[c].data_type())) {
            let (name, found) = (fields[column].name(), fields[column].data_type());
            return Err(format!("column {name:?} of {found} is in the key or names the sets"));
        }
        let weights: BTreeSet<usize> = self.weights.iter().copied().collect();
        let is_weight =
            |column: &usize| is_weight_type(fields[*column].data_type()) && !key.contains(column);
        if weights.len() < self.weights.len()
            || weights.len() > WEIGHTS_MAX
            || !weights.iter().all(is_weight)
        {
            return Err(format!("the weights are {:?}", self.weights));
        }
        self.check_stored()?;
        if let Streams::Only(columns) = &self.streams
            && !columns.is_sorted_by(|a, b| a < b)
        {
            return Err(format!("the streams are {columns:?}"));
        }
        self.check_ttl()?;
        match &self.merge {
            MergePolicy::Append => Ok(()),
            MergePolicy::Upsert { declared } => match (1..=fields.len()).contains(declared) {
                true => Ok(()),
                false => Err(format!("{declared} of {} columns are declared", fields.len())),
            },
            MergePolicy::Rollup(rollup) => self.check_rollup(rollup),
        }
    }

    /// What is wrong with the time to live.
    fn check_ttl(&self) -> Result<(), String> {
        let Some(TimeToLive { column, seconds }) = self.ttl else { return Ok(()) };
        let field = self.columns.fields().get(column).map(AsRef::as_ref);
        let is_time = field.is_some_and(|field| is_time_type(field.data_type()));
        let is_stored = self.rollup().is_none() || self.key.contains(&column);
        if is_time && is_stored && (1..=TimeToLive::SECONDS_MAX).contains(&seconds) {
            return Ok(());
        }
        Err(format!("rows live for {seconds} s after the time in column {column}"))
    }

    /// Columns outside the key get wider types, each from one place.
    fn check_stored(&self) -> Result<(), String> {
        if self.stored.is_plain() {
            return Ok(());
        }
        let mut origins = BTreeSet::new();
        for Retired { number, data_type, widened, metric } in self.stored.retired() {
            if metric.is_some() != self.rollup().is_some()
                || (metric.is_some() && widened.is_some())
            {
                return Err(format!("column {number} was {metric:?} and became {widened:?}"));
            }
            if !is_supported(data_type) {
                return Err(format!("column {number} had type {data_type}"));
            }
            let Some(wide) = widened else { continue };
            let is_key = self.stored.column(*wide).is_some_and(|column| self.key.contains(&column));
            let to = self.stored_type(*wide).ok_or("a column got the place of none")?;
            if is_key || !origins.insert(wide) || !is_wider(data_type, to) {
                return Err(format!("column {number} of {data_type} became {wide} of {to}"));
            }
        }
        Ok(())
    }

    fn check_rollup(&self, rollup: &Rollup) -> Result<(), String> {
        let fields = self.columns.fields();
        if !self.weights.is_empty() || self.set_column().is_some_and(|set| !self.key.contains(&set))
        {
            return Err("a rollup table has weights, or a set column outside its key".into());
        }
        check_columns(rollup.events.fields())?;
        for &column in &self.key {
            let (name, data_type) = (fields[column].name(), fields[column].data_type());
            let of_events = rollup.events.field_with_name(name).map(|field| field.data_type());
            if of_events.ok() != Some(data_type) {
                return Err(format!("the events have no column {name:?} of {data_type}"));
            }
        }
        if !(1..=self.key.len()).contains(&rollup.declared) {
            return Err(format!(
                "{} of {} dimensions are declared",
                rollup.declared,
                self.key.len()
            ));
        }
        if let Some(position) = rollup.time {
            let column = self.key.get(position).map(|&column| fields[column].data_type());
            if !matches!(column, Some(DataType::Timestamp(..))) {
                return Err(format!(
                    "the time at position {position} of the key is not a timestamp"
                ));
            }
        }
        for Retired { number, data_type, metric, .. } in self.stored.retired() {
            let input =
                metric.and_then(|metric| metric.input).map(|input| rollup.events.field(input));
            // It may have been widened to a type that no metric is made of.
            let is_number =
                |field: &Field| field.data_type().is_integer() || field.data_type().is_floating();
            if !input.is_none_or(is_number) {
                return Err(format!("column {number} of {data_type} was {metric:?} of {input:?}"));
            }
        }
        let shown = (0..fields.len()).filter(|column| !self.key.contains(column));
        let shown: Vec<usize> = shown.collect();
        if shown.len() != rollup.metrics.len() {
            return Err(format!("{} metrics in {} columns", rollup.metrics.len(), shown.len()));
        }
        for (metric, column) in rollup.metrics.iter().zip(shown) {
            let input = metric.input.map(|input| rollup.events.field(input));
            let field = &fields[column];
            if metric.kind.shown(input) != Some((field.data_type().clone(), field.is_nullable())) {
                let (kind, name, found) = (metric.kind, field.name(), field.data_type());
                return Err(format!("column {name:?} of {found} is not a {kind:?} of {input:?}"));
            }
        }
        Ok(())
    }
}

/// Names differ and can be handed to other programs, and types are stored.
fn check_columns(fields: &Fields) -> Result<(), String> {
    let mut names = BTreeSet::new();
    for field in fields {
        if !names.insert(field.name()) {
            return Err(format!("column {:?} appears twice", field.name()));
        }
        // Other programs would end the name there.
        if field.name().contains('\0') {
            return Err(format!("column {:?} has a NUL character in its name", field.name()));
        }
        if !is_supported(field.data_type()) {
            return Err(format!("column {:?} has type {}", field.name(), field.data_type()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::{Field, Schema};

    use super::*;
    use crate::schema::{MetricKind, SetColumn, StoredGranularity, StoredMetric, list_of_strings};

    fn append() -> TableSchema {
        let columns = vec![
            Field::new("id", DataType::Int64, false),
            Field::new("city", DataType::Utf8, true),
            Field::new("tags", list_of_strings(), true),
            Field::new("n", DataType::UInt8, false),
        ];
        TableSchema {
            set: Some(1.into()),
            weights: vec![3],
            ..TableSchema::new(Arc::new(Schema::new(columns)), vec![0, 1])
        }
    }

    fn rollup() -> TableSchema {
        let events =
            vec![Field::new("city", DataType::Utf8, true), Field::new("n", DataType::UInt8, true)];
        let columns = vec![
            Field::new("city", DataType::Utf8, true),
            Field::new("sum", DataType::Int64, true),
            Field::new("rows", DataType::Int64, false),
        ];
        let metrics = vec![
            StoredMetric { kind: MetricKind::Sum, input: Some(1) },
            StoredMetric { kind: MetricKind::Count, input: None },
        ];
        let events = Arc::new(Schema::new(events));
        let (granularity, discovers) = (StoredGranularity::None, false);
        let rollup = Rollup { events, time: None, granularity, metrics, declared: 1, discovers };
        TableSchema {
            merge: MergePolicy::Rollup(rollup),
            ..TableSchema::new(Arc::new(Schema::new(columns)), vec![0])
        }
    }

    fn faulty(sound: fn() -> TableSchema, change: impl Fn(&mut TableSchema)) -> bool {
        let mut schema = sound();
        assert_eq!(schema.check(), Ok(()));
        change(&mut schema);
        schema.check().is_err()
    }

    #[test]
    fn a_shape_that_readers_cannot_rely_on_is_refused() {
        type Change = fn(&mut TableSchema);
        let changes: [Change; 11] = [
            |schema| schema.key.clear(),
            |schema| schema.key = vec![0, 0],
            |schema| schema.key = vec![2],
            |schema| schema.set = Some(SetColumn::from(2)),
            |schema| schema.weights = vec![3, 3],
            |schema| schema.weights = vec![0],
            |schema| schema.weights = vec![1],
            |schema| {
                let twice = schema.columns.fields()[0].clone();
                schema.columns = Arc::new(Schema::new(vec![twice.clone(), twice]));
                schema.set = None;
                schema.weights.clear();
            },
            |schema| {
                let nul = Field::new("a\0b", DataType::Int64, true);
                schema.columns = Arc::new(Schema::new(vec![nul]));
                (schema.key, schema.set, schema.weights) = (vec![0], None, Vec::new());
            },
            |schema| {
                let coarse = Field::new("d", DataType::Decimal128(4, -2), true);
                schema.columns = Arc::new(Schema::new(vec![coarse]));
                (schema.key, schema.set, schema.weights) = (vec![0], None, Vec::new());
            },
            |schema| {
                let wide = Field::new("d", DataType::Decimal128(39, 0), true);
                schema.columns = Arc::new(Schema::new(vec![wide]));
                (schema.key, schema.set, schema.weights) = (vec![0], None, Vec::new());
            },
        ];
        for (number, change) in changes.into_iter().enumerate() {
            assert!(faulty(append, change), "change {number}");
        }
    }

    #[test]
    fn columns_that_moved_where_none_can_be_are_refused() {
        let moved = || {
            let mut schema = append();
            schema.weights.clear();
            schema.with_wider(3, &DataType::UInt16)
        };
        assert_eq!(moved().check(), Ok(()));
        assert_eq!(moved().without_column(2).check(), Ok(()));
        let narrow = |schema: &mut TableSchema| {
            let mut fields: Vec<Field> =
                schema.columns.fields().iter().map(|field| field.as_ref().clone()).collect();
            fields[3] = Field::new("n", DataType::Int8, false);
            schema.columns = Arc::new(Schema::new(fields));
        };
        assert!(faulty(moved, narrow), "not all values fit");
        assert!(faulty(moved, |schema| schema.key = vec![3]), "keys do not move");
        let mut folded = rollup();
        folded.stored = moved().stored;
        assert!(folded.check().is_err(), "a rollup table keeps its columns");
    }

    #[test]
    fn a_rollup_whose_columns_and_metrics_do_not_fit_is_refused() {
        type Change = fn(&mut Rollup);
        let changes: [Change; 7] = [
            |rollup| rollup.metrics.truncate(1),
            |rollup| rollup.metrics.swap(0, 1),
            |rollup| rollup.metrics[0].kind = MetricKind::Avg,
            |rollup| rollup.metrics[1].input = Some(1),
            |rollup| rollup.declared = 2,
            |rollup| rollup.time = Some(0),
            |rollup| rollup.events = Arc::new(Schema::empty()),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let changed = |schema: &mut TableSchema| match &mut schema.merge {
                MergePolicy::Rollup(rollup) => change(rollup),
                _ => unreachable!("made so"),
            };
            assert!(faulty(rollup, changed), "change {number}");
        }
        assert!(faulty(rollup, |schema| schema.weights = vec![2]));
        assert!(faulty(rollup, |schema| schema.set = Some(SetColumn::from(1))));
    }
}

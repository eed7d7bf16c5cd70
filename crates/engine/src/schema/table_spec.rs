//! What a caller says of a new table, checked and turned into its stored shape.

use std::sync::Arc;
use std::time::Duration;

use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::schema::{
    self as stored, MergePolicy, Rollup, SetColumn, Streams, TableSchema, TimeToLive, is_time_type,
};
use drillcore_format::streams::page::is_streamable;
use drillcore_format::type_name::type_name;
use drillcore_format::weight::{WEIGHTS_MAX, is_weight_type};

use crate::error::{Error, Result};
use crate::schema::columns::{check_columns, check_is_scalar, stored_type, widest, with_dimension};
use crate::schema::granularity::Granularity;
use crate::schema::metric::Metric;
use crate::schema::name::check_name;

/// What a new table looks like.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use drillcore::{Merge, TableSpec};
///
/// let columns = flights.schema().columns.clone();
/// let spec = TableSpec::new(columns, ["id"]).set("carrier").merge(Merge::Upsert).exist_ok();
/// let newest = flights.database().create_table("newest", spec)?;
/// assert_eq!(newest.name(), "newest");
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct TableSpec {
    /// The columns of an appended batch. They are the table's, too, but in a rollup table, which has its
    /// key's columns and its metrics. The ways to lay out strings, binary and lists in memory are one type.
    pub columns: SchemaRef,
    /// Names of the sort key's columns, most significant first. In a rollup table, time and dimensions.
    pub key: Vec<String>,
    /// The column whose values name the sets.
    pub set: Option<String>,
    /// Whether all sets are indexed from the start; [`Table::index_sets`](crate::Table::index_sets) and its
    /// kin change that at any time.
    pub set_index: bool,
    /// Columns that rows can be drawn by: integers or floats, none of them in the key. Their values must
    /// be finite and not negative.
    pub weights: Vec<String>,
    /// What rows with equal keys mean.
    pub merge: Merge,
    /// Columns to store a second time by themselves, so that a scan of few columns reads only these. By default
    /// numbers, times, booleans and texts that repeat, unless all columns outside the key are long values. With none,
    /// segments are smaller.
    pub streams: Option<Vec<String>>,
    /// How long after the time in a column rows are kept, in whole seconds; for good without. See [`Table::set_ttl`](crate::Table::set_ttl).
    pub ttl: Option<(String, Duration)>,
    /// Take a table of the same shape that is already there. Columns may have been added to it.
    pub exist_ok: bool,
}

/// What rows with equal keys mean.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use std::sync::Arc;
///
/// use drillcore::arrow_array::{ArrayRef, Int64Array};
/// use drillcore::{Merge, TableSpec};
///
/// let spec = TableSpec::new(flights.schema().columns.clone(), ["id"]).merge(Merge::Upsert);
/// let newest = flights.database().create_table("newest", spec)?;
/// let keys: ArrayRef = Arc::new(Int64Array::from(vec![7]));
/// newest.delete(&[keys])?;
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Merge {
    /// All are kept, in commit order.
    Append,
    /// The newest wins; rows can also be deleted by key and updated.
    Upsert,
    /// They are folded into one.
    Rollup(RollupSpec),
}

/// How events are folded.
///
/// ```
/// use drillcore::{Granularity, Metric, RollupSpec};
///
/// // One row per hour and carrier, if these are the key's columns.
/// let hourly = RollupSpec::default()
///     .time("at", Granularity::HOUR)
///     .metric("flights", Metric::Count)
///     .metric("worst", Metric::max("delay"));
/// assert_eq!(hourly.metrics.len(), 2);
/// ```
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RollupSpec {
    /// The key column that is truncated to the granularity.
    pub time: Option<String>,
    /// The steps that time is truncated to.
    pub granularity: Granularity,
    /// Each with the name of its column.
    pub metrics: Vec<(String, Metric)>,
    /// Whether columns that are neither in the key nor read by a metric become dimensions behind those of
    /// the key: at once those of [`TableSpec::columns`], later those that batches bring. Where a batch lacks
    /// one it is null.
    pub discover: bool,
}

impl Merge {
    /// "append", "upsert" or "rollup".
    pub fn name(&self) -> &'static str {
        match self {
            Merge::Append => "append",
            Merge::Upsert => "upsert",
            Merge::Rollup(_) => "rollup",
        }
    }
}

impl RollupSpec {
    /// The same, with time truncated to steps.
    pub fn time(self, column: impl Into<String>, granularity: Granularity) -> RollupSpec {
        RollupSpec { time: Some(column.into()), granularity, ..self }
    }

    /// The same, with one more metric, called `name`.
    pub fn metric(mut self, name: impl Into<String>, metric: Metric) -> RollupSpec {
        self.metrics.push((name.into(), metric));
        self
    }
}

impl TableSpec {
    /// Describes an append table with these columns and this sort key, without sets, weights or metrics.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use drillcore::arrow_schema::{DataType, Field, Schema};
    /// use drillcore::{Merge, TableSpec};
    ///
    /// let columns = Arc::new(Schema::new(vec![
    ///     Field::new("id", DataType::Int64, false),
    ///     Field::new("carrier", DataType::Utf8, true),
    ///     Field::new("seats", DataType::Int32, false),
    /// ]));
    /// let spec = TableSpec::new(columns, ["id"]).set("carrier").weights(["seats"]).merge(Merge::Upsert);
    /// assert_eq!(spec.set.as_deref(), Some("carrier"));
    /// ```
    pub fn new(columns: SchemaRef, key: impl IntoIterator<Item = impl Into<String>>) -> TableSpec {
        TableSpec {
            columns,
            key: key.into_iter().map(Into::into).collect(),
            set: None,
            set_index: true,
            weights: Vec::new(),
            merge: Merge::Append,
            streams: None,
            ttl: None,
            exist_ok: false,
        }
    }

    /// The same, with sets named by a column.
    pub fn set(self, column: impl Into<String>) -> TableSpec {
        TableSpec { set: Some(column.into()), ..self }
    }

    /// The same, with no set indexed at first.
    pub fn without_set_index(self) -> TableSpec {
        TableSpec { set_index: false, ..self }
    }

    /// The same, with columns that rows can be drawn by.
    pub fn weights(self, columns: impl IntoIterator<Item = impl Into<String>>) -> TableSpec {
        TableSpec { weights: columns.into_iter().map(Into::into).collect(), ..self }
    }

    /// The same, with these columns by themselves beside the rows, and no others; see [`TableSpec::streams`](#structfield.streams).
    pub fn streams(self, columns: impl IntoIterator<Item = impl Into<String>>) -> TableSpec {
        TableSpec { streams: Some(columns.into_iter().map(Into::into).collect()), ..self }
    }

    /// The same, with rows kept for some time after the one in a column.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use drillcore::arrow_schema::{DataType, Field, Schema, TimeUnit};
    /// use drillcore::TableSpec;
    ///
    /// let at = Field::new("at", DataType::Timestamp(TimeUnit::Microsecond, None), false);
    /// let week = Duration::from_secs(7 * 86_400);
    /// let spec = TableSpec::new(Arc::new(Schema::new(vec![at])), ["at"]).ttl("at", week);
    /// assert_eq!(spec.ttl, Some(("at".to_string(), week)));
    /// ```
    pub fn ttl(self, column: impl Into<String>, lasting: Duration) -> TableSpec {
        TableSpec { ttl: Some((column.into(), lasting)), ..self }
    }

    /// The same, with another meaning of equal keys.
    pub fn merge(self, merge: Merge) -> TableSpec {
        TableSpec { merge, ..self }
    }

    /// The same, taking a table of this shape that is already there.
    pub fn exist_ok(self) -> TableSpec {
        TableSpec { exist_ok: true, ..self }
    }

    /// What a table of a stored shape is made with. Columns that were added to it are among the columns, but
    /// dimensions not in the key.
    pub fn of(schema: &TableSchema) -> TableSpec {
        let name = |columns: &Schema, column: usize| columns.field(column).name().clone();
        let names = |columns: &[usize]| -> Vec<String> {
            columns.iter().map(|&column| name(&schema.columns, column)).collect()
        };
        let mut key = names(&schema.key);
        let (mut columns, mut merge) = (schema.columns.clone(), Merge::Append);
        match &schema.merge {
            MergePolicy::Append => {}
            MergePolicy::Upsert { .. } => merge = Merge::Upsert,
            MergePolicy::Rollup(rollup) => {
                let shown = &schema.columns.fields()[rollup.declared..];
                let metric = |stored: &stored::StoredMetric| {
                    let column = stored.input.map(|input| name(&rollup.events, input));
                    Metric::of(stored.kind, column.as_deref())
                };
                let metrics = shown.iter().zip(&rollup.metrics);
                merge = Merge::Rollup(RollupSpec {
                    time: rollup.time.map(|position| key[position].clone()),
                    granularity: Granularity::of(rollup.granularity),
                    metrics: metrics
                        .map(|(field, stored)| (field.name().clone(), metric(stored)))
                        .collect(),
                    discover: rollup.discovers,
                });
                key.truncate(rollup.declared);
                columns = rollup.events.clone();
            }
        }
        TableSpec {
            columns,
            key,
            set: schema.set_column().map(|column| name(&schema.columns, column)),
            set_index: schema.set.as_ref().is_none_or(|set| set.indexed.is_all()),
            weights: names(&schema.weights),
            merge,
            streams: match &schema.streams {
                Streams::BySize => None,
                Streams::Only(columns) => Some(names(columns)),
            },
            ttl: schema
                .ttl
                .map(|ttl| (name(&schema.columns, ttl.column), Duration::from_secs(ttl.seconds))),
            exist_ok: false,
        }
    }

    /// The stored shape of a table called `name`.
    pub(crate) fn schema(&self, name: &str) -> Result<TableSchema> {
        check_name("table", name)?;
        // Metadata of the caller's schema is not stored, so it must not make two shapes differ.
        let plain = |field: &Arc<Field>| {
            Field::new(field.name(), stored_type(field.data_type()), field.is_nullable())
        };
        let columns = self.columns.fields().iter().map(plain).collect::<Vec<_>>();
        let columns = Arc::new(Schema::new(columns));
        check_columns(columns.fields())?;
        let key = self.indexes("key column", &self.key)?;
        if key.is_empty() {
            return Err(Error::invalid("the key has no column; give at least one"));
        }
        if let Some(column) = repeated(&self.key) {
            return Err(Error::invalid(format!(
                "key column {column:?} is listed twice; list it once"
            )));
        }
        let set = match &self.set {
            Some(column) => Some(self.index("set column", column)?),
            None => None,
        };
        let indexed = if self.set_index { IndexedSets::all() } else { IndexedSets::none() };
        let set_column = |column| SetColumn { column, indexed: indexed.clone() };
        key.iter().try_for_each(|&of_key| check_is_scalar("key column", columns.field(of_key)))?;
        set.iter().try_for_each(|&of_set| check_is_scalar("set column", columns.field(of_set)))?;
        let weights = self.checked_weights(&key)?;
        let schema = match &self.merge {
            Merge::Append => {
                let set = set.map(set_column);
                TableSchema { set, weights, ..TableSchema::new(columns, key) }
            }
            Merge::Upsert => {
                let declared = columns.fields().len();
                let (set, merge) = (set.map(set_column), MergePolicy::Upsert { declared });
                TableSchema { set, merge, weights, ..TableSchema::new(columns, key) }
            }
            Merge::Rollup(rollup) => {
                self.rollup_schema(rollup, columns, key, set)?.with_indexed(indexed)
            }
        };
        let schema = TableSchema { streams: self.checked_streams(&schema)?, ..schema };
        let ttl = self.ttl.as_ref();
        let ttl =
            ttl.map(|(column, lasting)| checked_ttl(&schema, column, *lasting)).transpose()?;
        let schema = schema.with_ttl(ttl);
        assert_eq!(schema.check(), Ok(()), "what is stored can be read");
        Ok(schema)
    }

    /// The columns of the table that are to lie by themselves.
    fn checked_streams(&self, schema: &TableSchema) -> Result<Streams> {
        let Some(names) = &self.streams else { return Ok(Streams::BySize) };
        let mut streams = Vec::with_capacity(names.len());
        for name in names {
            let known = || schema.columns.fields().iter().map(|field| field.name().as_str());
            let column = schema.columns.index_of(name);
            let column = column.map_err(|_| Error::unknown("stream column", name, known()))?;
            let data_type = schema.columns.field(column).data_type();
            if !is_streamable(data_type) {
                return Err(Error::invalid(format!(
                    "column {name:?} has type {}, which cannot be a stream; leave it out",
                    type_name(data_type)
                )));
            }
            streams.push(column);
        }
        if let Some(column) = repeated(names) {
            return Err(Error::invalid(format!(
                "stream column {column:?} is listed twice; list it once"
            )));
        }
        streams.sort_unstable();
        Ok(Streams::Only(streams))
    }

    fn rollup_schema(
        &self,
        spec: &RollupSpec,
        events: SchemaRef,
        key: Vec<usize>,
        set: Option<usize>,
    ) -> Result<TableSchema> {
        if !self.weights.is_empty() {
            return Err(Error::invalid(
                "a rollup table cannot have weights: its samples draw events; remove the weights",
            ));
        }
        let set = match set {
            None => None,
            Some(column) => {
                Some(key.iter().position(|&of_key| of_key == column).ok_or_else(|| {
                    Error::invalid(format!(
                        "set column {:?} of a rollup table must be in the key; add it to the key",
                        events.field(column).name()
                    ))
                })?)
            }
        };
        let time = match &spec.time {
            None => None,
            Some(column) => Some(self.time_position(column)?),
        };
        if time.is_none() && spec.granularity != Granularity::NONE {
            return Err(Error::invalid(
                "a granularity needs a time column; name one, or use granularity \"none\"",
            ));
        }
        let mut fields: Vec<Field> =
            key.iter().map(|&column| events.field(column).clone()).collect();
        let mut metrics = Vec::new();
        for (name, metric) in &spec.metrics {
            check_name("column", name)?;
            if fields.iter().any(|field| field.name() == name) {
                return Err(Error::invalid(format!(
                    "column {name:?} appears twice; rename the metric"
                )));
            }
            let (metric, data_type, nullable) = self.metric(metric)?;
            metrics.push(metric);
            fields.push(Field::new(name, data_type, nullable));
        }
        let (declared, discovers) = (key.len(), spec.discover);
        let is_read = |column: &usize| metrics.iter().any(|metric| metric.input == Some(*column));
        let (others, kept): (Vec<usize>, Vec<usize>) = (0..events.fields().len())
            .partition(|column| discovers && !key.contains(column) && !is_read(column));
        let others: Vec<FieldRef> =
            others.into_iter().map(|column| events.fields()[column].clone()).collect();
        // The others come last, as they do when a batch brings them.
        for metric in &mut metrics {
            metric.input = metric
                .input
                .map(|input| kept.binary_search(&input).expect("what a metric reads is kept"));
        }
        let events = Arc::new(events.project(&kept).expect("the columns are there"));
        let granularity = spec.granularity.stored();
        let rollup = Rollup { events, time, granularity, metrics, declared, discovers };
        let schema = TableSchema {
            set: set.map(SetColumn::from),
            merge: MergePolicy::Rollup(rollup),
            ..TableSchema::new(Arc::new(Schema::new(fields)), (0..declared).collect())
        };
        others.into_iter().try_fold(schema, |schema, column| {
            Ok(with_dimension(&schema, column.name(), &widest(column.data_type()))?.0)
        })
    }

    /// The position in the key of the time column.
    fn time_position(&self, column: &str) -> Result<usize> {
        let index = self.index("time column", column)?;
        let data_type = self.columns.field(index).data_type();
        if !matches!(data_type, DataType::Timestamp(_, _)) {
            return Err(Error::invalid(format!(
                "time column {column:?} has type {}; it must be a timestamp",
                type_name(data_type)
            )));
        }
        self.key.iter().position(|of_key| of_key == column).ok_or_else(|| {
            Error::invalid(format!(
                "time column {column:?} of a rollup table must be in the key; add it to the key"
            ))
        })
    }

    /// A metric as it is stored, with the type it is shown in.
    fn metric(&self, metric: &Metric) -> Result<(stored::StoredMetric, DataType, bool)> {
        let (kind, column) = metric.kind_and_column();
        let input = column.map(|column| self.index("column", column)).transpose()?;
        let field = input.map(|input| self.columns.field(input));
        let (shown, nullable) = kind.shown(field).ok_or_else(|| {
            let field = field.expect("a count reads no column");
            let (metric, column) = (metric.to_string(), field.name());
            let found = type_name(field.data_type());
            Error::invalid(format!(
                "metric {metric:?} needs a float, a signed integer or an unsigned one of up to 32 bits, but column \
                 {column:?} has type {found}; use another column"
            ))
        })?;
        Ok((stored::StoredMetric { kind, input }, shown, nullable))
    }

    fn checked_weights(&self, key: &[usize]) -> Result<Vec<usize>> {
        let weights = self.indexes("weight column", &self.weights)?;
        for &column in &weights {
            let field = self.columns.field(column);
            let (name, data_type) = (field.name(), field.data_type());
            if !is_weight_type(data_type) {
                return Err(Error::invalid(format!(
                    "weight column {name:?} has type {}; it must be a number",
                    type_name(data_type)
                )));
            }
            if key.contains(&column) {
                return Err(Error::invalid(format!(
                    "key column {name:?} cannot be a weight; use another column"
                )));
            }
        }
        if let Some(column) = repeated(&self.weights) {
            return Err(Error::invalid(format!(
                "weight column {column:?} is listed twice; list it once"
            )));
        }
        if weights.len() > WEIGHTS_MAX {
            return Err(Error::invalid(format!(
                "the table has {} weights; the limit is {WEIGHTS_MAX}. Remove some",
                weights.len()
            )));
        }
        Ok(weights)
    }

    fn indexes(&self, what: &str, names: &[String]) -> Result<Vec<usize>> {
        names.iter().map(|name| self.index(what, name)).collect()
    }

    fn index(&self, what: &str, name: &str) -> Result<usize> {
        let names = || self.columns.fields().iter().map(|field| field.name().as_str());
        self.columns.index_of(name).map_err(|_| Error::unknown(what, name, names()))
    }
}

/// How long rows of a table are kept after the time in a column.
///
/// # Errors
/// `NotFound` for a column that is not there; `InvalidArgument` for one without times or a metric, or a time that is not of whole
/// seconds.
pub fn checked_ttl(schema: &TableSchema, name: &str, lasting: Duration) -> Result<TimeToLive> {
    let known = || schema.columns.fields().iter().map(|field| field.name().as_str());
    let column = schema.columns.index_of(name);
    let column = column.map_err(|_| Error::unknown("time column", name, known()))?;
    let data_type = schema.columns.field(column).data_type();
    if !is_time_type(data_type) {
        return Err(Error::invalid(format!(
            "column {name:?} has type {}, but a time to live needs a timestamp or date column; use another column",
            type_name(data_type)
        )));
    }
    if schema.metric(column).is_some() {
        return Err(Error::invalid(format!(
            "{name:?} is a metric; the time to live of a rollup table needs a time column in the key"
        )));
    }
    let seconds = lasting.as_secs();
    if lasting != Duration::from_secs(seconds) || !(1..=TimeToLive::SECONDS_MAX).contains(&seconds)
    {
        return Err(Error::invalid(format!(
            "a time to live must be a whole number of seconds from 1 to {}, got {lasting:?}",
            TimeToLive::SECONDS_MAX
        )));
    }
    Ok(TimeToLive { column, seconds })
}

/// The first name that comes a second time.
fn repeated(names: &[String]) -> Option<&String> {
    (0..names.len()).find(|&at| names[..at].contains(&names[at])).map(|at| &names[at])
}

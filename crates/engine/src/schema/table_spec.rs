//! What a caller says of a new table, checked and turned into its stored shape.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::schema::{
    Granularity, MergePolicy, Metric, MetricKind, Rollup, SetColumn, TableSchema, is_key_type,
    is_supported, list_of_strings,
};
use drillcore_format::weight::is_weight_type;

use crate::error::{Error, ErrorKind, Result};
use crate::schema::name::check_name;

/// What a new table looks like.
#[derive(Debug, Clone)]
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
    /// Take a table of the same shape that is already there. Columns may have been added to it.
    pub exist_ok: bool,
}

/// What rows with equal keys mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merge {
    /// All are kept, in commit order.
    Append,
    /// The newest wins; rows can be deleted.
    Upsert,
    /// They are folded into one.
    Rollup(RollupSpec),
}

/// How events are folded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RollupSpec {
    /// The key column that is truncated to the granularity.
    pub time: Option<String>,
    /// `none`, `1s`, `1m`, `5m`, `15m`, `30m`, `1h` or `1d`; steps are counted from 1970-01-01 00:00 UTC.
    pub granularity: String,
    /// Name and expression: `count`, `sum(column)`, `min(column)`, `max(column)` or `avg(column)`.
    pub metrics: Vec<(String, String)>,
    /// Whether columns that are neither in the key nor read by a metric become dimensions behind those of
    /// the key: at once those of [`TableSpec::columns`], later those that batches bring. Where a batch lacks
    /// one it is null.
    pub discover: bool,
}

/// Names of granularities with their seconds.
pub const GRANULARITIES: [(&str, u32); 8] = [
    ("none", 0),
    ("1s", 1),
    ("1m", 60),
    ("5m", 300),
    ("15m", 900),
    ("30m", 1800),
    ("1h", 3600),
    ("1d", 86_400),
];
const METRICS: [(&str, MetricKind); 5] = [
    ("count", MetricKind::Count),
    ("sum", MetricKind::Sum),
    ("min", MetricKind::Min),
    ("max", MetricKind::Max),
    ("avg", MetricKind::Avg),
];
/// The most weight columns of a table: their number is a byte on disk.
const WEIGHTS_MAX: usize = 255;

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
            exist_ok: false,
        }
    }

    /// The same, with sets named by a column.
    #[must_use]
    pub fn set(self, column: impl Into<String>) -> TableSpec {
        TableSpec { set: Some(column.into()), ..self }
    }

    /// The same, with no set indexed at first.
    #[must_use]
    pub fn without_set_index(self) -> TableSpec {
        TableSpec { set_index: false, ..self }
    }

    /// The same, with columns that rows can be drawn by.
    #[must_use]
    pub fn weights(self, columns: impl IntoIterator<Item = impl Into<String>>) -> TableSpec {
        TableSpec { weights: columns.into_iter().map(Into::into).collect(), ..self }
    }

    /// The same, with another meaning of equal keys.
    #[must_use]
    pub fn merge(self, merge: Merge) -> TableSpec {
        TableSpec { merge, ..self }
    }

    /// The same, taking a table of this shape that is already there.
    #[must_use]
    pub fn if_not_exists(self) -> TableSpec {
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
                let expression = |metric: &Metric| match metric.input {
                    None => metric_name(metric.kind).to_string(),
                    Some(input) => {
                        format!("{}({})", metric_name(metric.kind), name(&rollup.events, input))
                    }
                };
                let metrics = shown.iter().zip(&rollup.metrics);
                merge = Merge::Rollup(RollupSpec {
                    time: rollup.time.map(|position| key[position].clone()),
                    granularity: granularity_name(rollup.granularity),
                    metrics: metrics
                        .map(|(field, metric)| (field.name().clone(), expression(metric)))
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
            return Err(Error::invalid("the key must have at least one column"));
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
                let (set, merge) = (set.map(set_column), MergePolicy::Append);
                TableSchema { columns, key, set, merge, weights }
            }
            Merge::Upsert => {
                let declared = columns.fields().len();
                let (set, merge) = (set.map(set_column), MergePolicy::Upsert { declared });
                TableSchema { columns, key, set, merge, weights }
            }
            Merge::Rollup(rollup) => {
                self.rollup_schema(rollup, columns, key, set)?.with_indexed(indexed)
            }
        };
        assert_eq!(schema.check(), Ok(()), "what is stored can be read");
        Ok(schema)
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
        let granularity = granularity(&spec.granularity)?;
        if time.is_none() && granularity != Granularity::None {
            return Err(Error::invalid(
                "a granularity needs a time column; name one, or use granularity \"none\"",
            ));
        }
        let mut fields: Vec<Field> =
            key.iter().map(|&column| events.field(column).clone()).collect();
        let mut metrics = Vec::new();
        for (name, expression) in &spec.metrics {
            check_name("column", name)?;
            if fields.iter().any(|field| field.name() == name) {
                return Err(Error::invalid(format!(
                    "column {name:?} appears twice; rename the metric"
                )));
            }
            let (metric, data_type, nullable) = self.metric(expression)?;
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
        let rollup = Rollup { events, time, granularity, metrics, declared, discovers };
        let schema = TableSchema {
            columns: Arc::new(Schema::new(fields)),
            key: (0..declared).collect(),
            set: set.map(SetColumn::from),
            weights: Vec::new(),
            merge: MergePolicy::Rollup(rollup),
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
                "time column {column:?} has type {data_type}; it must be a timestamp"
            )));
        }
        self.key.iter().position(|of_key| of_key == column).ok_or_else(|| {
            Error::invalid(format!(
                "time column {column:?} of a rollup table must be in the key; add it to the key"
            ))
        })
    }

    /// A parsed metric, with the type it is shown in.
    fn metric(&self, expression: &str) -> Result<(Metric, DataType, bool)> {
        let (name, argument) = name_and_argument(expression)?;
        let named = METRICS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let &(_, kind) =
            named.ok_or_else(|| Error::unknown("metric", name, METRICS.map(|(known, _)| known)))?;
        let column = match (kind, argument) {
            (MetricKind::Count, None | Some("" | "*")) => {
                return Ok((Metric { kind, input: None }, DataType::Int64, false));
            }
            (MetricKind::Count, Some(_)) => {
                return Err(Error::invalid(format!(
                    "metric {expression:?}: count counts events and has no column; use \"count\""
                )));
            }
            (_, None | Some("")) => {
                return Err(Error::invalid(format!(
                    "metric {name:?} needs a column, as in \"sum(delay)\""
                )));
            }
            (_, Some(column)) => self.index("column", column)?,
        };
        let field = self.columns.field(column);
        let (shown, nullable) = kind.shown(Some(field)).ok_or_else(|| {
            let (column, found) = (field.name(), field.data_type());
            Error::invalid(format!(
                "metric {expression:?} needs a float, a signed integer or an unsigned one of up to 32 bits, but column \
                 {column:?} has type {found}"
            ))
        })?;
        Ok((Metric { kind, input: Some(column) }, shown, nullable))
    }

    fn checked_weights(&self, key: &[usize]) -> Result<Vec<usize>> {
        let weights = self.indexes("weight column", &self.weights)?;
        for &column in &weights {
            let field = self.columns.field(column);
            let (name, data_type) = (field.name(), field.data_type());
            if !is_weight_type(data_type) {
                return Err(Error::invalid(format!(
                    "weight column {name:?} has type {data_type}; it must be a number"
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
                "the table has {} weights; the limit is {WEIGHTS_MAX}",
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

/// A table's shape with one more nullable column, and that column: in a rollup table a dimension.
///
/// # Errors
/// `AlreadyExists` if there is a column of that name, `InvalidArgument` for a type that is not stored, or
/// in a rollup table has no order.
pub fn with_column(
    table: &str,
    schema: &TableSchema,
    name: &str,
    data_type: &DataType,
) -> Result<(TableSchema, FieldRef)> {
    if schema.columns.column_with_name(name).is_some() {
        let message = format!("table {table:?} already has a column {name:?}");
        return Err(Error::new(ErrorKind::AlreadyExists, message));
    }
    if let MergePolicy::Rollup(_) = schema.merge {
        return with_dimension(schema, name, &stored_type(data_type));
    }
    let column: FieldRef = Arc::new(Field::new(name, stored_type(data_type), true));
    let wider = schema.with_column(column.clone());
    check_columns(wider.columns.fields())?;
    Ok((wider, column))
}

/// A rollup table's shape with the columns of a batch that it lacks, and these: none unless it discovers
/// dimensions. Columns of nothing but nulls say nothing.
///
/// # Errors
/// `InvalidArgument` for a column whose name a metric has, or whose type is no dimension's.
pub fn with_discovered(
    schema: &TableSchema,
    batch: &RecordBatch,
) -> Result<(TableSchema, Vec<FieldRef>)> {
    let (mut wider, mut columns) = (schema.clone(), Vec::new());
    let MergePolicy::Rollup(Rollup { events, discovers: true, .. }) = &schema.merge else {
        return Ok((wider, columns));
    };
    for (field, values) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let is_known = events.column_with_name(field.name()).is_some();
        if is_known || values.logical_null_count() == values.len() {
            continue;
        }
        let column;
        (wider, column) = with_dimension(&wider, field.name(), &widest(values.data_type()))?;
        columns.push(column);
    }
    Ok((wider, columns))
}

/// A rollup table's shape with one more dimension, and its column.
fn with_dimension(
    schema: &TableSchema,
    name: &str,
    data_type: &DataType,
) -> Result<(TableSchema, FieldRef)> {
    let MergePolicy::Rollup(rollup) = &schema.merge else {
        unreachable!("only a rollup table has dimensions")
    };
    if schema.columns.column_with_name(name).is_some() {
        return Err(Error::invalid(format!(
            "dimension {name:?} has the name of a metric; rename it"
        )));
    }
    if let Some((index, of_events)) = rollup.events.column_with_name(name) {
        if rollup.metrics.iter().any(|metric| metric.input == Some(index)) {
            let message = format!(
                "column {name:?} is read by a metric, so it cannot be a dimension; use another name"
            );
            return Err(Error::invalid(message));
        }
        if of_events.data_type() != data_type {
            let known = of_events.data_type();
            let message = format!(
                "column {name:?} has type {known} in appended batches, not {data_type}; use {known}"
            );
            return Err(Error::invalid(message));
        }
    }
    let column: FieldRef = Arc::new(Field::new(name, data_type.clone(), true));
    let wider = schema.with_column(column.clone());
    check_columns(wider.columns.fields())?;
    check_is_scalar("dimension", &column)?;
    Ok((wider, column))
}

/// What a discovered dimension of a type is stored as: integers and floats in 64 bits, so that later
/// batches fit, which may come with wider ones.
fn widest(data_type: &DataType) -> DataType {
    match stored_type(data_type) {
        DataType::UInt64 => DataType::UInt64,
        integer if integer.is_integer() => DataType::Int64,
        float if float.is_floating() => DataType::Float64,
        other => other,
    }
}

/// What an expression calls a metric.
fn metric_name(kind: MetricKind) -> &'static str {
    METRICS.iter().find(|(_, known)| *known == kind).expect("every kind has a name").0
}

impl RollupSpec {
    /// The metrics as [`TableSpec::of`] has them, however their expressions are written.
    ///
    /// # Errors
    /// As [`RollupSpec::inputs`].
    pub fn canonical_metrics(&self) -> Result<Vec<(String, String)>> {
        let canonical = |(name, expression): &(String, String)| {
            let (called, column) = name_and_argument(expression)?;
            let called = called.to_ascii_lowercase();
            let expression = match column {
                None | Some("" | "*") => called,
                Some(column) => format!("{called}({column})"),
            };
            Ok((name.clone(), expression))
        };
        self.metrics.iter().map(canonical).collect()
    }

    /// The columns that the metrics read, in their order.
    ///
    /// # Errors
    /// `InvalidArgument` for an expression that cannot be taken apart. Whether a column exists, and fits, is
    /// left to [`Database::create_table`](crate::Database::create_table).
    pub fn inputs(&self) -> Result<Vec<&str>> {
        let arguments = self.metrics.iter().map(|(_, text)| Ok(name_and_argument(text)?.1));
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        Ok(arguments.into_iter().flatten().filter(|column| !matches!(*column, "" | "*")).collect())
    }
}

/// What a metric's expression calls, and with which argument.
fn name_and_argument(expression: &str) -> Result<(&str, Option<&str>)> {
    let expression = expression.trim();
    let Some((name, rest)) = expression.split_once('(') else { return Ok((expression, None)) };
    let argument = rest.strip_suffix(')').ok_or_else(|| {
        Error::invalid(format!("metric {expression:?} has no closing parenthesis; add it"))
    })?;
    Ok((name.trim_end(), Some(argument.trim())))
}

fn granularity(name: &str) -> Result<Granularity> {
    match GRANULARITIES.iter().find(|(known, _)| *known == name) {
        Some((_, 0)) => Ok(Granularity::None),
        Some((_, seconds)) => Ok(Granularity::Seconds(*seconds)),
        None => Err(Error::unknown("granularity", name, GRANULARITIES.map(|(known, _)| known))),
    }
}

/// The name of a granularity.
fn granularity_name(granularity: Granularity) -> String {
    let seconds = match granularity {
        Granularity::None => 0,
        Granularity::Seconds(seconds) => seconds,
    };
    let known = GRANULARITIES.iter().find(|(_, of_name)| *of_name == seconds);
    known.map_or_else(|| format!("{seconds}s"), |(name, _)| (*name).to_string())
}

/// What a column of a type is stored as: how values lie in memory does not matter.
fn stored_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => stored_type(values),
        DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            DataType::Binary
        }
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
            if stored_type(item.data_type()) == DataType::Utf8 =>
        {
            list_of_strings()
        }
        other => other.clone(),
    }
}

/// Refuses a role for a column whose values have no order.
fn check_is_scalar(role: &str, field: &Field) -> Result<()> {
    if is_key_type(field.data_type()) {
        return Ok(());
    }
    let (column, found) = (field.name(), field.data_type());
    Err(Error::invalid(format!(
        "{role} {column:?} has type {found}; use binary and list columns as values only"
    )))
}

fn check_columns(fields: &Fields) -> Result<()> {
    let mut seen = HashSet::new();
    for field in fields {
        check_name("column", field.name())?;
        if !seen.insert(field.name()) {
            return Err(Error::invalid(format!(
                "column {:?} appears twice; rename one",
                field.name()
            )));
        }
        if !is_supported(field.data_type()) {
            let (column, found) = (field.name(), field.data_type());
            return Err(Error::invalid(format!(
                "column {column:?} has type {found}, which is not supported; use an integer, a float, decimal128, \
                 bool, string, binary, date32, a timestamp or a list of strings"
            )));
        }
    }
    Ok(())
}

/// The first name that comes a second time.
fn repeated(names: &[String]) -> Option<&String> {
    (0..names.len()).find(|&at| names[..at].contains(&names[at])).map(|at| &names[at])
}

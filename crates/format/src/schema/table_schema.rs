//! A table's columns, sort key, set column, merge policy and what else was chosen for it.

use std::sync::Arc;

use arrow_schema::{FieldRef, Schema, SchemaRef};

use crate::cursor::{Cursor, put_varint};
use crate::error::Result;
use crate::indexed_sets::IndexedSets;
use crate::schema::columns::{put_columns, read_columns};
use crate::schema::rollup::Rollup;
use crate::schema::stored_columns::StoredColumns;
use crate::schema::time_to_live::TimeToLive;

/// What rows with equal keys mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MergePolicy {
    /// All are kept, in commit order.
    Append,
    /// The newest wins; rows can also be deleted by key and updated.
    Upsert {
        /// How many columns the table was made with. An appended row stands for the whole row of its key, so
        /// it has all of them; the columns behind them were added later, and are null where a row lacks them.
        declared: usize,
    },
    /// They are folded into one.
    Rollup(Rollup),
}

/// The column whose values name the sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetColumn {
    /// Its index among the table's.
    pub column: usize,
    /// The sets whose rows are listed as they are written.
    pub indexed: IndexedSets,
}

/// Which columns of new segments also lie by themselves, see [`crate::streams`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Streams {
    /// Those that sizes speak for, where there are any outside the key.
    #[default]
    BySize,
    /// These at most, by index, ascending.
    Only(Vec<usize>),
}

/// A table's shape. What a column is known by in rows that are stored is its number among [`StoredColumns`]: that is its
/// index, until columns are dropped or widened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSchema {
    /// All columns in the order the user sees.
    pub columns: SchemaRef,
    /// Indexes of the sort key's columns, most significant first.
    pub key: Vec<usize>,
    /// The column whose values name the sets; `None` if the table has no sets.
    pub set: Option<SetColumn>,
    /// What rows of equal keys mean.
    pub merge: MergePolicy,
    /// Indexes of the columns that rows can be drawn by, none of them in the key.
    pub weights: Vec<usize>,
    /// Which columns new segments also store by themselves.
    pub streams: Streams,
    /// How long rows are kept; for good without.
    pub ttl: Option<TimeToLive>,
    /// Where rows have the columns.
    pub stored: StoredColumns,
}

/// Bit of the byte of the merge policy: not all sets are indexed, and which are is said at the end.
const INDEXED_SETS_FOLLOW: u8 = 0x10;
/// Bit of the same byte: not what sizes speak for lies in streams, and which columns do is said at the end.
const STREAMS_FOLLOW: u8 = 0x20;
/// Bit of the same byte: rows have a time to live, which is said at the end.
const TTL_FOLLOWS: u8 = 0x40;
/// Bit of the same byte: columns were dropped or widened, and where the others are stored is said behind all that.
const STORED_COLUMNS_FOLLOW: u8 = 0x80;

impl From<usize> for SetColumn {
    /// With every set indexed.
    fn from(column: usize) -> SetColumn {
        SetColumn { column, indexed: IndexedSets::all() }
    }
}

impl MergePolicy {
    /// Its name, as users know it.
    pub fn name(&self) -> &'static str {
        match self {
            MergePolicy::Append => "append",
            MergePolicy::Upsert { .. } => "upsert",
            MergePolicy::Rollup(_) => "rollup",
        }
    }
}

impl TableSchema {
    /// An append table with these columns and this key, and with nothing else.
    pub fn new(columns: SchemaRef, key: Vec<usize>) -> TableSchema {
        TableSchema {
            columns,
            key,
            set: None,
            merge: MergePolicy::Append,
            weights: Vec::new(),
            streams: Streams::BySize,
            ttl: None,
            stored: StoredColumns::default(),
        }
    }

    /// The same table with one more column, behind the others; rows written before hold null there.
    ///
    /// In a rollup table it is a dimension, the last of the key: keys drop the nulls at their end, so
    /// no key changes.
    pub fn with_column(&self, column: FieldRef) -> TableSchema {
        assert!(column.is_nullable(), "rows written before have no value");
        let with = |columns: &Schema| {
            let columns = columns.fields().iter().chain([&column]).cloned().collect::<Vec<_>>();
            Arc::new(Schema::new(columns))
        };
        let stored = self.stored.with_column(self.columns.fields().len());
        let mut wider = TableSchema { columns: with(&self.columns), stored, ..self.clone() };
        if let MergePolicy::Rollup(rollup) = &mut wider.merge {
            wider.key.push(self.columns.fields().len());
            // Batches may have it already, unused.
            if rollup.events.column_with_name(column.name()).is_none() {
                rollup.events = with(&rollup.events);
            }
        }
        wider
    }

    /// Index of the column whose values name the sets.
    pub fn set_column(&self) -> Option<usize> {
        self.set.as_ref().map(|set| set.column)
    }

    /// The same table with other sets indexed; itself if it has no set column.
    pub fn with_indexed(&self, indexed: IndexedSets) -> TableSchema {
        let set = self.set.as_ref().map(|set| SetColumn { column: set.column, indexed });
        TableSchema { set, ..self.clone() }
    }

    /// The columns that an appended row has to have, because it replaces one that has them: in an upsert table
    /// those that it was made with. See [`MergePolicy::Upsert`].
    pub fn whole_row_columns(&self) -> &[FieldRef] {
        match self.merge {
            MergePolicy::Upsert { declared } => &self.columns.fields()[..declared],
            MergePolicy::Append | MergePolicy::Rollup(_) => &[],
        }
    }

    /// Whether appended rows may hold null in a column of [`TableSchema::batch_columns`].
    pub fn takes_null(&self, column: usize) -> bool {
        self.batch_columns().field(column).is_nullable() && !self.weights.contains(&column)
    }

    /// How rows are folded, in a rollup table.
    pub fn rollup(&self) -> Option<&Rollup> {
        match &self.merge {
            MergePolicy::Rollup(rollup) => Some(rollup),
            MergePolicy::Append | MergePolicy::Upsert { .. } => None,
        }
    }

    /// In a rollup table the nullable columns of the events that metrics are made of, or were until they were dropped,
    /// ascending: those whose values are counted, once per column.
    pub fn counted_inputs(&self) -> Vec<usize> {
        let Some(rollup) = self.rollup() else { return Vec::new() };
        let was_input = |column| {
            let dropped = self.stored.retired().iter().filter_map(|retired| retired.metric);
            dropped.into_iter().any(|metric| metric.input == Some(column))
        };
        let is_counted = |&column: &usize| {
            let is_nullable = rollup.events.field(column).is_nullable();
            is_nullable && (rollup.is_input(column) || was_input(column))
        };
        (0..rollup.events.fields().len()).filter(is_counted).collect()
    }

    /// The columns that batches have: in a rollup table those of its events.
    pub fn batch_columns(&self) -> &SchemaRef {
        self.rollup().map_or(&self.columns, |rollup| &rollup.events)
    }

    /// Whether a batch may add columns to the table.
    pub fn discovers(&self) -> bool {
        self.rollup().is_some_and(|rollup| rollup.discovers)
    }

    /// Whether a batch may have columns that the table leaves out: those of events that no metric or dimension reads.
    pub fn skips_columns(&self) -> bool {
        self.rollup().is_some_and(|rollup| !rollup.discovers)
    }

    /// The columns of [`TableSchema::batch_columns`] outside the key in which no appended row has null, by position. Which
    /// ones they are in the events of a rollup table changes with its metrics, so none is listed.
    pub fn never_null(&self) -> Vec<usize> {
        let count = if self.rollup().is_some() { 0 } else { self.columns.fields().len() };
        let is_never_null =
            |&column: &usize| !self.takes_null(column) && !self.key.contains(&column);
        (0..count).filter(is_never_null).collect()
    }

    /// Whether columns that are added to the table are part of its key, as the dimensions of a rollup table are.
    pub fn widens_key(&self) -> bool {
        self.rollup().is_some()
    }

    /// How many columns of the key a given key must have at least. Dimensions that were not declared may be left
    /// off: such keys end in nulls, which are not encoded.
    pub fn key_columns_min(&self) -> usize {
        self.rollup().map_or(self.key.len(), |rollup| rollup.declared)
    }

    /// Whether a piece may hold several rows with one key.
    pub fn repeats_keys(&self) -> bool {
        self.merge == MergePolicy::Append
    }

    /// The columns whose values say of a stored row, whatever else is stored, that it does not count: those of the
    /// key, and where rows repeat keys all. Elsewhere, leaving out the newest version of a row would bring an older
    /// one back, and leaving out a partial row would change a fold; all versions have one key.
    pub fn is_prunable(&self, column: usize) -> bool {
        self.repeats_keys() || self.key.contains(&column)
    }

    /// Whether this is `other`, or what columns added to it have made of it, whichever sets are indexed, and however
    /// long rows are kept. Which columns of an upsert table were added does not matter.
    pub fn widens(&self, other: &TableSchema) -> bool {
        let mut other = match &self.set {
            Some(set) => other.with_indexed(set.indexed.clone()),
            None => other.clone(),
        };
        other.ttl = self.ttl;
        if let (MergePolicy::Upsert { .. }, MergePolicy::Upsert { .. }) =
            (&self.merge, &other.merge)
        {
            other.merge = self.merge.clone();
        }
        // Where they are stored is no part of what was asked for.
        other.stored = StoredColumns::default();
        let plain = TableSchema { stored: StoredColumns::default(), ..self.clone() };
        let added = self.columns.fields().iter().skip(other.columns.fields().len());
        let mut added = added.cloned();
        let wider = added.try_fold(other.clone(), |schema, column| {
            column.is_nullable().then(|| schema.with_column(column))
        });
        wider == Some(plain)
    }

    /// Appends the encoding drawn in `docs/format.md`, section "Table schema".
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_columns(&self.columns, out);
        put_varint(out, self.key.len() as u64);
        for &column in &self.key {
            put_varint(out, column as u64);
        }
        put_varint(out, self.set_column().map_or(0, |column| column as u64 + 1));
        let policy = match self.merge {
            MergePolicy::Append => 0,
            MergePolicy::Rollup(_) => 3,
            MergePolicy::Upsert { .. } => 4,
        };
        let indexed = self.set.as_ref().map(|set| &set.indexed).filter(|sets| !sets.is_all());
        let sets_follow = if indexed.is_some() { INDEXED_SETS_FOLLOW } else { 0 };
        let streams_follow = if self.streams == Streams::BySize { 0 } else { STREAMS_FOLLOW };
        let ttl_follows = if self.ttl.is_some() { TTL_FOLLOWS } else { 0 };
        let stored_follow = if self.stored.is_plain() { 0 } else { STORED_COLUMNS_FOLLOW };
        out.push(policy | sets_follow | streams_follow | ttl_follows | stored_follow);
        put_varint(out, self.weights.len() as u64);
        for &column in &self.weights {
            put_varint(out, column as u64);
        }
        match &self.merge {
            MergePolicy::Append => {}
            MergePolicy::Upsert { declared } => put_varint(out, *declared as u64),
            MergePolicy::Rollup(rollup) => rollup.encode(out),
        }
        if let Some(indexed) = indexed {
            indexed.encode(out);
        }
        if let Streams::Only(columns) = &self.streams {
            put_varint(out, columns.len() as u64);
            columns.iter().for_each(|&column| put_varint(out, column as u64));
        }
        if let Some(ttl) = &self.ttl {
            ttl.encode(out);
        }
        self.stored.encode(out);
    }

    /// Reads what [`TableSchema::encode`] wrote. Fails on a shape that no table has, see [`TableSchema::check`].
    pub fn decode(cursor: &mut Cursor<'_>) -> Result<TableSchema> {
        let columns = read_columns(cursor)?;
        let width = columns.fields().len();
        let column = |cursor: &mut Cursor<'_>, index: u64| match usize::try_from(index) {
            Ok(index) if index < width => Ok(index),
            _ => Err(cursor.error(format!("column {index} of {width}"))),
        };
        let mut key = Vec::new();
        for _ in 0..cursor.varint()? {
            let index = cursor.varint()?;
            key.push(column(cursor, index)?);
        }
        let set = match cursor.varint()? {
            0 => None,
            index => Some(column(cursor, index - 1)?),
        };
        let flags = cursor.u8()?;
        let mut weights = Vec::new();
        for _ in 0..cursor.varint()? {
            let index = cursor.varint()?;
            weights.push(column(cursor, index)?);
        }
        let follow = INDEXED_SETS_FOLLOW | STREAMS_FOLLOW | TTL_FOLLOWS | STORED_COLUMNS_FOLLOW;
        let merge = match flags & !follow {
            0 => MergePolicy::Append,
            3 => MergePolicy::Rollup(Rollup::decode(cursor, key.len())?),
            4 => match usize::try_from(cursor.varint()?) {
                Ok(declared) if declared <= width => MergePolicy::Upsert { declared },
                _ => return Err(cursor.error("more columns are declared than there are")),
            },
            other => return Err(cursor.error(format!("unknown merge policy {other}"))),
        };
        let set = match (set, flags & INDEXED_SETS_FOLLOW != 0) {
            (None, true) => return Err(cursor.error("sets are indexed of a table without")),
            (None, false) => None,
            (Some(column), false) => Some(column.into()),
            (Some(column), true) => {
                Some(SetColumn { column, indexed: IndexedSets::decode(cursor)? })
            }
        };
        let streams = match flags & STREAMS_FOLLOW {
            0 => Streams::BySize,
            _ => {
                let mut streams = Vec::new();
                for _ in 0..cursor.varint()? {
                    let index = cursor.varint()?;
                    streams.push(column(cursor, index)?);
                }
                Streams::Only(streams)
            }
        };
        let ttl = match flags & TTL_FOLLOWS {
            0 => None,
            _ => Some(TimeToLive::decode(cursor)?),
        };
        let stored = match flags & STORED_COLUMNS_FOLLOW {
            0 => StoredColumns::default(),
            _ => {
                let events = match &merge {
                    MergePolicy::Rollup(rollup) => Some(rollup.events.fields().len()),
                    MergePolicy::Append | MergePolicy::Upsert { .. } => None,
                };
                StoredColumns::decode(cursor, width, events)?
            }
        };
        let schema = TableSchema { columns, key, set, merge, weights, streams, ttl, stored };
        schema.check().map_err(|detail| cursor.error(detail))?;
        Ok(schema)
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::{DataType, Field, TimeUnit};

    use super::*;
    use crate::schema::columns::{TYPE_TAGS, is_supported, list_of_strings};
    use crate::schema::rollup::{MetricKind, StoredGranularity, StoredMetric};

    #[test]
    fn a_schema_reads_back() {
        let plain = TYPE_TAGS.iter().filter(|(_, data_type)| is_supported(data_type));
        let mut fields: Vec<Field> = plain
            .map(|(tag, data_type)| Field::new(format!("c{tag}"), data_type.clone(), tag % 2 == 0))
            .collect();
        let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some("America/New_York".into()));
        fields.push(Field::new("zoned", zoned, true));
        fields.push(Field::new("tags", list_of_strings(), true));
        fields.push(Field::new("money", DataType::Decimal128(20, 4), true));
        let schema = TableSchema {
            columns: Arc::new(Schema::new(fields)),
            key: vec![16, 4],
            set: Some(0.into()),
            merge: MergePolicy::Append,
            weights: vec![3, 9],
            streams: Streams::Only(vec![0, 3]),
            ttl: Some(TimeToLive { column: 16, seconds: 86_400 }),
            stored: Default::default(),
        };
        let mut bytes = Vec::new();
        schema.encode(&mut bytes);
        let mut cursor = Cursor::new(&bytes, "schema");
        assert_eq!(TableSchema::decode(&mut cursor).unwrap(), schema);
        cursor.finish().unwrap();
    }

    #[test]
    fn an_upsert_table_reads_back_with_the_columns_that_were_added() {
        let field = |name: &str| Field::new(name, DataType::Int64, true);
        let made = TableSchema {
            merge: MergePolicy::Upsert { declared: 2 },
            ..TableSchema::new(Arc::new(Schema::new(vec![field("id"), field("x")])), vec![0])
        };
        let wider = made.with_column(Arc::new(field("added")));
        assert_eq!(wider.merge, MergePolicy::Upsert { declared: 2 });
        let made_wide = TableSchema { merge: MergePolicy::Upsert { declared: 3 }, ..wider.clone() };
        // A caller that makes the table if it is missing names the columns of today.
        assert!(wider.widens(&made) && wider.widens(&made_wide) && !made.widens(&made_wide));
        for schema in [made, wider, made_wide] {
            let mut bytes = assert_reads_back(&schema);
            *bytes.last_mut().unwrap() = 4;
            assert!(TableSchema::decode(&mut Cursor::new(&bytes, "schema")).is_err());
        }
    }

    #[test]
    fn a_rollup_reads_back() {
        let fields = vec![
            Field::new("ts", DataType::Timestamp(TimeUnit::Second, None), false),
            Field::new("delay", DataType::Int16, true),
        ];
        let shown = Schema::new(vec![
            fields[0].clone(),
            Field::new("n", DataType::Int64, false),
            Field::new("worst", DataType::Int64, true),
        ]);
        let count = StoredMetric { kind: MetricKind::Count, input: None };
        let worst = StoredMetric { kind: MetricKind::Max, input: Some(1) };
        let schema = TableSchema {
            merge: MergePolicy::Rollup(Rollup {
                events: Arc::new(Schema::new(fields)),
                time: Some(0),
                granularity: StoredGranularity::Seconds(3600),
                metrics: vec![count, worst],
                declared: 1,
                discovers: true,
            }),
            ..TableSchema::new(Arc::new(shown), vec![0])
        };
        // One that has lost a metric still says what was stored of it.
        let without = schema.without_column(2);
        assert_eq!(without.stored.retired()[0].metric, Some(worst));
        assert!(without.continues(&schema) && without.check().is_ok());
        assert_eq!(without.counted_inputs(), schema.counted_inputs());
        let wider = schema.with_wider_event(1, &DataType::Int64);
        assert!(wider.continues(&schema) && wider.check().is_ok());
        for schema in [schema, without] {
            assert_reads_back(&schema);
        }
    }

    /// Whole it reads back, and cut anywhere it is an error. Returns its bytes.
    fn assert_reads_back(schema: &TableSchema) -> Vec<u8> {
        let mut bytes = Vec::new();
        schema.encode(&mut bytes);
        let mut cursor = Cursor::new(&bytes, "schema");
        assert_eq!(TableSchema::decode(&mut cursor).unwrap(), *schema);
        cursor.finish().unwrap();
        for len in 0..bytes.len() {
            assert!(TableSchema::decode(&mut Cursor::new(&bytes[..len], "schema")).is_err());
        }
        bytes
    }
}

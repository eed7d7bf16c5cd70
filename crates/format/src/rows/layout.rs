//! How a table's columns are spread over encoded keys and value arrays.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{DataType, SchemaRef};

use crate::error::{FormatError, Result};
use crate::key::{KeyCodes, Keys, decode_column, encode_keys};
use crate::narrowing::restored;
use crate::rows::lists::{decode_lists, encode_lists};
use crate::rows::projection::Projection;
use crate::rows::set_codes::{Compared, SetCodes};
use crate::rows::stored_rows::Rows;
use crate::schema::{MergePolicy, MetricKind, Rollup, StoredMetric, TableSchema};
use crate::texts_by_code::plain;

/// Where each column of a table is stored. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Layout {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    schema: Arc<TableSchema>,
    key_types: Vec<DataType>,
    value_types: Vec<DataType>,
    /// One place a column of the schema.
    places: Vec<Place>,
    /// Of each stored column the first value, unless it is in the key.
    stored_values: Vec<Option<usize>>,
    /// How many of the values store no column.
    hidden: usize,
    /// Of columns that got wider types, the value, and where it was before with its type then; the last one first.
    earlier: Vec<(usize, usize, DataType)>,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    /// Position in the key.
    Key(usize),
    /// Index among the values.
    Value(usize),
}

impl Layout {
    /// Key columns go into the key; the others are values, in schema order.
    pub fn new(schema: &TableSchema) -> Layout {
        let data_type = |column: usize| schema.columns.field(column).data_type().clone();
        let mut value_types = Vec::new();
        match &schema.merge {
            MergePolicy::Append => {}
            // The hidden first value: whether the row is a tombstone.
            MergePolicy::Upsert { .. } => value_types.push(DataType::Boolean),
            // The hidden first values: the number of events, and of those with a value in a column, null where all have one.
            MergePolicy::Rollup(_) => {
                value_types.resize(1 + schema.counted_inputs().len(), DataType::UInt64);
            }
        }
        let hidden = value_types.len();
        let columns = schema.columns.fields().len();
        let mut places = vec![Place::Value(0); columns];
        // Of each stored column, its value.
        let mut values: Vec<Option<usize>> = Vec::with_capacity(columns);
        for number in 0..schema.stored_count() {
            let Some(column) = schema.stored.column(number) else {
                values.push(Some(value_types.len()));
                let metric = schema.rollup().zip(schema.stored_metric(number));
                let len = metric.map_or(1, |(rollup, metric)| {
                    sum_types(rollup, metric).map_or(1, |of| of.len())
                });
                value_types.extend(std::iter::repeat_n(DataType::Null, len));
                continue;
            };
            match schema.key.iter().position(|key| *key == column) {
                Some(position) => {
                    places[column] = Place::Key(position);
                    values.push(None);
                }
                None => {
                    places[column] = Place::Value(value_types.len());
                    values.push(Some(value_types.len()));
                    value_types.extend(stored_types(schema, column));
                }
            }
        }
        let mut earlier = Vec::new();
        for column in (0..columns).filter(|_| !schema.stored.is_plain()) {
            let number = schema.stored.number(column);
            for retired in schema.stored.earlier(number) {
                if let (Some(value), Some(at)) = (values[number], values[retired.number]) {
                    earlier.push((value, at, retired.data_type.clone()));
                }
            }
        }
        let key_types = schema.key.iter().map(|column| data_type(*column)).collect();
        let schema = Arc::new(schema.clone());
        Layout {
            shared: Arc::new(Shared {
                schema,
                key_types,
                value_types,
                places,
                stored_values: values,
                hidden,
                earlier,
            }),
        }
    }

    /// The shape of the table.
    pub fn schema(&self) -> &TableSchema {
        &self.shared.schema
    }

    /// The same, to be shared.
    pub fn shared_schema(&self) -> &Arc<TableSchema> {
        &self.shared.schema
    }

    /// The types that the columns outside the key are stored in, in schema order.
    pub fn value_types(&self) -> &[DataType] {
        &self.shared.value_types
    }

    /// Types of the key's columns, most significant first.
    pub fn key_types(&self) -> &[DataType] {
        &self.shared.key_types
    }

    /// The index among the values of each weight column, in the order of the schema's `weights`.
    ///
    /// A rollup table has one: the hidden number of events.
    pub fn weight_values(&self) -> impl Iterator<Item = usize> + '_ {
        let events = matches!(self.shared.schema.merge, MergePolicy::Rollup(_)).then_some(0);
        let columns = self.shared.schema.weights.iter();
        events.into_iter().chain(columns.map(|&column| match self.shared.places[column] {
            Place::Value(index) => index,
            Place::Key(_) => unreachable!("create_table refuses key columns as weights"),
        }))
    }

    /// The number of weight columns.
    pub fn weight_count(&self) -> usize {
        self.weight_values().count()
    }

    /// How rows are folded, in a rollup table.
    pub fn rollup(&self) -> Option<&Rollup> {
        self.shared.schema.rollup()
    }

    /// The index of the first value that stores a column outside the key.
    pub fn value_of(&self, column: usize) -> Option<usize> {
        match self.shared.places[column] {
            Place::Value(index) => Some(index),
            Place::Key(_) => None,
        }
    }

    /// Whether a stored column, by its number, has or had one value of the type that is shown. Sums of a rollup table do
    /// not, nor do lists.
    pub fn is_stored_as_shown(&self, number: usize) -> bool {
        let schema = &self.shared.schema;
        let metric = schema.rollup().zip(schema.stored_metric(number));
        let is_sum = metric.is_some_and(|(rollup, metric)| sum_types(rollup, metric).is_some());
        !is_sum && !matches!(schema.stored_type(number), Some(DataType::List(_)))
    }

    /// The positions in the key of those of some columns that are in it, ascending.
    pub fn key_positions(&self, columns: &[usize]) -> Vec<usize> {
        let position = |&column: &usize| match self.shared.places[column] {
            Place::Key(position) => Some(position),
            Place::Value(_) => None,
        };
        let mut positions: Vec<usize> = columns.iter().filter_map(position).collect();
        positions.sort_unstable();
        positions.dedup();
        positions
    }

    /// The column that a value stores, or a part of; `None` of one that is hidden. O(columns).
    pub fn column_of_value(&self, value: usize) -> Option<usize> {
        if self.shared.value_types[value] == DataType::Null {
            return None;
        }
        let firsts =
            self.shared.places.iter().enumerate().filter_map(|(column, place)| match place {
                Place::Value(first) if *first <= value => Some((*first, column)),
                _ => None,
            });
        firsts.max().map(|(_, column)| column)
    }

    /// How many values rows had when `columns` columns were stored, key columns included.
    pub fn values_before(&self, columns: usize) -> usize {
        let Shared { schema, places, value_types, .. } = &*self.shared;
        let retired = schema.stored.retired().iter().map(|retired| retired.number);
        let added = (0..places.len()).map(|column| schema.stored.number(column)).chain(retired);
        let values = added
            .filter(|number| *number >= columns)
            .filter_map(|number| self.shared.stored_values[number]);
        values.min().unwrap_or(value_types.len())
    }

    /// How many of the values are hidden: they store no column.
    pub fn hidden_values(&self) -> usize {
        self.shared.hidden
    }

    /// Every column of the schema as it is stored, of rows that hold all; of one stored in several values
    /// the first. Decodes the key columns; fails on keys that do not decode.
    pub fn stored_columns(&self, rows: &Rows) -> Result<Vec<ArrayRef>> {
        let array = |place: &Place| match *place {
            Place::Key(position) => self.decode_key(rows, position),
            Place::Value(index) => Ok(rows.value(index).clone()),
        };
        self.shared.places.iter().map(array).collect()
    }

    /// Rows of a batch that has exactly the table's columns.
    ///
    /// Texts may come as dictionaries. Keys and lists are encoded; other values are shared with the batch, and keep its buffers alive.
    /// Panics if the batch has other columns.
    pub fn encode(&self, batch: &RecordBatch) -> Rows {
        self.encode_with(batch, |columns| (encode_keys(columns), None), |_, texts| plain(texts))
    }

    /// [`Layout::encode`] with keys as `keys` makes them of the key's columns, of which there is one at least, and columns of texts
    /// outside of it as `texts` makes them, each given with its index among the values.
    pub fn encode_with(
        &self,
        batch: &RecordBatch,
        keys: impl FnOnce(&[ArrayRef]) -> (Keys, Option<KeyCodes>),
        texts: impl Fn(usize, &ArrayRef) -> ArrayRef,
    ) -> Rows {
        let fields = self.shared.schema.columns.fields();
        assert_eq!(batch.num_columns(), fields.len(), "the batch has other columns than the table");
        let places = &self.shared.places;
        for (column, field) in batch.columns().iter().zip(fields) {
            let given = match column.data_type() {
                DataType::Dictionary(_, texts) => texts,
                given => given,
            };
            assert_eq!(given, field.data_type(), "type of column {:?}", field.name());
        }
        let key_columns: Vec<ArrayRef> =
            self.shared.schema.key.iter().map(|column| batch.column(*column).clone()).collect();
        let (keys, codes) = match key_columns.len() {
            0 => (Keys::even(batch.num_rows(), 0, Vec::new()), None),
            _ => keys(&key_columns),
        };
        let mut values: Vec<Option<ArrayRef>> = vec![None; self.shared.value_types.len()];
        if let Some(first) = values.first_mut() {
            *first = self.tombstone_flags(false, batch.num_rows());
        }
        for (column, place) in batch.columns().iter().zip(places) {
            if let Place::Value(index) = place {
                values[*index] = Some(match self.shared.value_types[*index] {
                    DataType::Utf8 => stored(&texts(*index, column)),
                    _ => stored(column),
                });
            }
        }
        // What is left stores no column any more.
        let nothing = || new_null_array(&DataType::Null, batch.num_rows());
        let values = values.into_iter().map(|value| value.unwrap_or_else(nothing)).collect();
        Rows::new(batch.num_rows(), None, values).with_keys(keys, codes.map(Arc::new))
    }

    /// Whether rows can be tombstones. Their first value, a bool, shows it.
    pub fn has_tombstones(&self) -> bool {
        matches!(self.shared.schema.merge, MergePolicy::Upsert { .. })
    }

    /// Rows that say of each key that it is deleted.
    pub fn tombstones(&self, keys: Keys) -> Rows {
        assert!(self.has_tombstones(), "only upsert tables delete");
        let len = keys.len();
        let nulls = self.shared.value_types[1..].iter().map(|kind| new_null_array(kind, len));
        let values = self.tombstone_flags(true, len).into_iter().chain(nulls).collect();
        Rows::new(len, Some(keys), values)
    }

    fn tombstone_flags(&self, flag: bool, len: usize) -> Option<ArrayRef> {
        let flags = || Arc::new(BooleanArray::from(vec![flag; len])) as ArrayRef;
        self.has_tombstones().then(flags)
    }

    /// What must be fetched to decode these columns of the schema.
    pub fn projection(&self, columns: &[usize]) -> Projection {
        let (mut keys, mut values) = (false, Vec::with_capacity(columns.len()));
        for &column in columns {
            match self.shared.places[column] {
                Place::Key(_) => keys = true,
                Place::Value(index) => values.push(index),
            }
        }
        values.sort_unstable();
        values.dedup();
        self.stored(keys, values)
    }

    /// Keys, if wanted, and some values as they are stored, by ascending indexes.
    pub fn stored(&self, keys: bool, values: Vec<usize>) -> Projection {
        let types = values.iter().map(|&index| self.shared.value_types[index].clone()).collect();
        let is_wanted = |value: &usize| values.binary_search(value).is_ok();
        let earlier = self.shared.earlier.iter().filter(|(of, ..)| is_wanted(of)).cloned();
        Projection { keys, types, earlier: earlier.collect(), values }
    }

    /// Keys and every value.
    pub fn all(&self) -> Projection {
        self.stored(true, (0..self.shared.value_types.len()).collect())
    }

    /// The given columns of the schema, in the order given, of rows fetched with their
    /// [`Layout::projection`] or with [`Layout::all`].
    ///
    /// Columns may repeat, or be none: the batch still knows its row count. Fails on keys and lists
    /// that do not decode.
    pub fn decode(&self, rows: &Rows, columns: &[usize]) -> Result<RecordBatch> {
        let held = rows.values().len();
        let holds_all = held == self.shared.value_types.len();
        // Only some are held: a value lies where it is among those of the projection.
        let projection = (!holds_all).then(|| self.projection(columns));
        assert!(
            projection.as_ref().is_none_or(|projection| held == projection.values.len()),
            "the rows hold {held} values, neither all nor those of {projection:?}"
        );
        let array = |&column: &usize| match (self.shared.places[column], &projection) {
            (Place::Key(position), _) => self.key_column(rows, position),
            (Place::Value(index), None) => self.shown(column, index, rows.value(index)),
            (Place::Value(index), Some(projection)) => {
                let at = projection.values.binary_search(&index).expect("the column is projected");
                self.shown(column, index, rows.value(at))
            }
        };
        let arrays = columns.iter().map(array).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        // What can still be wrong is a null in a column that has none.
        RecordBatch::try_new_with_options(self.schema_of(columns), arrays, &options)
            .map_err(|error| FormatError::malformed("rows", error.to_string()))
    }

    /// A column of the key, of rows that hold it, or keys.
    fn key_column(&self, rows: &Rows, position: usize) -> Result<ArrayRef> {
        match rows.key_column(position) {
            Some(column) => Ok(column.clone()),
            None => self.decode_key(rows, position),
        }
    }

    /// A column of the key, by its position there, out of keys. Fails on keys that do not decode.
    pub fn decode_key(&self, rows: &Rows, position: usize) -> Result<ArrayRef> {
        let types = self.key_types();
        match rows.key_codes() {
            None => decode_column(rows.keys(), types, position),
            Some(codes) => {
                let alone = codes.spelled_column(rows.keys(), position);
                decode_column(&alone, &types[position..=position], 0)
            }
        }
    }

    /// The schema of some columns. All of them share the table's.
    fn schema_of(&self, columns: &[usize]) -> SchemaRef {
        let schema = &self.shared.schema.columns;
        match columns.iter().copied().eq(0..schema.fields().len()) {
            true => schema.clone(),
            false => Arc::new(schema.project(columns).expect("columns are in range")),
        }
    }

    /// A column outside the key as the schema has it, of the value that stores it, as rows hold that.
    fn shown(&self, column: usize, value: usize, held: &ArrayRef) -> Result<ArrayRef> {
        let stored = restored(held, &self.shared.value_types[value]);
        match self.shared.schema.columns.field(column).data_type() {
            DataType::List(_) => Ok(Arc::new(decode_lists(stored.as_binary())?)),
            _ => Ok(stored),
        }
    }

    /// The set of each row, or `None` if the table has no set column.
    ///
    /// The rows were fetched with [`Layout::all`] or with the projection of the set column. One
    /// hash a row, none for a row in the same set as the one before it.
    pub fn set_codes(&self, rows: &Rows) -> Result<Option<SetCodes>> {
        let Some(column) = self.shared.schema.set_column() else { return Ok(None) };
        let codes = match (self.set_array(rows, column), self.shared.places[column]) {
            (Some(array), _) => {
                SetCodes::of_array(array, self.shared.schema.columns.field(column).data_type())
            }
            (None, Place::Key(position)) => {
                SetCodes::of_key_column(rows, self.key_types(), position)?
            }
            // Written before the column was added.
            (None, Place::Value(_)) => SetCodes::of_nulls(rows.len()),
        };
        Ok(Some(codes))
    }

    /// Calls `each` with the rows that are in one of some sets, which are given by encoded values in order, and with the
    /// number of that. Rows hold the set column as for [`Layout::set_codes`]; the table must have one.
    pub fn for_each_in_sets(
        &self,
        rows: &Rows,
        sets: &[&[u8]],
        mut each: impl FnMut(usize, usize),
    ) -> Result<()> {
        let column = self.shared.schema.set_column().expect("the table has a set column");
        let (array, place) = (self.set_array(rows, column), self.shared.places[column]);
        let compared = Compared::with(sets, array)?;
        match (compared, array, place) {
            (Some(compared), Some(array), _) => compared.in_array(array.as_string(), each),
            (Some(compared), None, Place::Key(position)) => {
                compared.in_keys(&rows.spelled_keys(), self.key_types(), position, each)?;
            }
            _ => {
                let SetCodes { values, codes } =
                    self.set_codes(rows)?.expect("it has a set column");
                let wanted: Vec<Option<usize>> =
                    values.iter().map(|value| sets.binary_search(&&**value).ok()).collect();
                if wanted.iter().any(Option::is_some) {
                    let sets = codes.iter().map(|&code| wanted[code as usize]);
                    sets.enumerate()
                        .for_each(|(row, set)| set.iter().for_each(|&set| each(row, set)));
                }
            }
        }
        Ok(())
    }

    /// The array of the set column, of rows that hold one.
    fn set_array<'r>(&self, rows: &'r Rows, column: usize) -> Option<&'r ArrayRef> {
        match self.shared.places[column] {
            Place::Key(position) => rows.key_column(position),
            Place::Value(index) => {
                let alone = !rows.has_keys() && rows.values().len() == 1;
                rows.values().get(if alone { 0 } else { index })
            }
        }
    }
}

/// What is stored of a column outside the key.
fn stored(array: &ArrayRef) -> ArrayRef {
    match array.as_list_opt() {
        Some(lists) => Arc::new(encode_lists(lists)),
        None => array.clone(),
    }
}

/// What a column outside the key is stored as. A list is one byte string. Sums are kept wider than they
/// are shown: integers in 128 bits, floats with what rounding left over. An average is stored as a sum.
fn stored_types(schema: &TableSchema, column: usize) -> Vec<DataType> {
    let shown = match schema.columns.field(column).data_type() {
        DataType::List(_) => &DataType::Binary,
        other => other,
    };
    let MergePolicy::Rollup(rollup) = &schema.merge else { return vec![shown.clone()] };
    let before = (0..column).filter(|other| !schema.key.contains(other)).count();
    sum_types(rollup, rollup.metrics[before]).unwrap_or_else(|| vec![shown.clone()])
}

/// What a sum or an average is stored as; other metrics are as they are shown.
fn sum_types(rollup: &Rollup, metric: StoredMetric) -> Option<Vec<DataType>> {
    let StoredMetric { kind: MetricKind::Sum | MetricKind::Avg, input: Some(input) } = metric
    else {
        return None;
    };
    Some(match rollup.events.field(input).data_type().is_floating() {
        true => vec![DataType::Float64, DataType::Float64],
        false => vec![DataType::Decimal128(38, 0)],
    })
}

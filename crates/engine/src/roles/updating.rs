//! Changing some columns of rows of an upsert table.
//!
//! The rows are read, changed and written again while no other writer may change them. So of two updates of different
//! columns of one row both stay.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow_cast::display::array_value_to_string;
use arrow_select::interleave::interleave;
use drillcore_format::ids::Lsn;
use drillcore_format::key::{Keys, decode_column};
use drillcore_format::schema::TableSchema;

use crate::calls::interrupt::Interrupt;
use crate::error::{Error, ErrorKind, Result};
use crate::policy::refusals::check_updates;
use crate::read::get::Found;
use crate::roles::deleting::{select_exclusively, table, wait_until_all_is_visible};
use crate::schema::conform::{OnError, conform};
use crate::schema::whole_keys::encode_whole_keys;
use crate::select::predicate::column;
use crate::select::selection::Selection;
use crate::state::core::Core;
use crate::write::commit::{TableShape, replace};
use crate::write::erase::Exclusive;

/// What an update does with a key that has no row.
///
/// ```
/// assert_eq!(drillcore::Missing::default(), drillcore::Missing::Error);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Missing {
    /// Nothing is changed, and the error names the key.
    #[default]
    Error,
    /// Passes the key over.
    Skip,
    /// Inserts a row, which is null in the other columns.
    Insert,
}

/// What an update did.
///
/// ```
/// use std::sync::Arc;
///
/// use drillcore::arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use drillcore::arrow_schema::{DataType, Field, Schema};
/// use drillcore::{Database, Merge, Missing, OnError, Options, TableSpec};
///
/// let db = Database::in_memory(Options::default())?;
/// let field = |name: &str| Field::new(name, DataType::Int64, true);
/// let schema = Arc::new(Schema::new(vec![field("id"), field("prio"), field("seen")]));
/// let tasks = db.create_table("tasks", TableSpec::new(schema, ["id"]).merge(Merge::Upsert))?;
/// let column = |values: &[i64]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
/// let rows = [("id", column(&[1, 2])), ("prio", column(&[5, 6])), ("seen", column(&[0, 0]))];
/// tasks.append(&RecordBatch::try_from_iter(rows).unwrap(), OnError::Raise)?;
/// let changes = [("id", column(&[2])), ("prio", column(&[9]))];
/// let changes = RecordBatch::try_from_iter(changes).unwrap();
/// assert_eq!(tasks.update(&[changes], Missing::Error)?.rows, 1);
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpdateResult {
    /// Rows changed or inserted.
    pub rows: u64,
    /// The commit; where nothing was changed, the newest visible one.
    pub lsn: Lsn,
}

/// New values of some columns, in the table's types.
struct Changes {
    /// For each column of the table its values, if they are given.
    columns: Vec<Option<ArrayRef>>,
}

/// Where the newest value of a column comes from: the changes of that number, and the row.
type Origin = (usize, usize);

/// Changes the rows whose keys batches name, each with all key columns and the columns to change; those of one key in
/// order. One commit.
pub fn update(
    core: &Arc<Core>,
    name: &str,
    shape: &TableShape,
    batches: &[RecordBatch],
    missing: Missing,
    interrupt: &Interrupt,
) -> Result<UpdateResult> {
    check_updates(name, &shape.layout)?;
    let _underway = core.begin()?;
    let exclusive = Exclusive::take(core, shape.table, interrupt)?;
    wait_until_all_is_visible(core, shape, interrupt)?;
    // Columns may have been added since.
    let shape = &TableShape::of(core, shape.table)?;
    let mut changes = Vec::with_capacity(batches.len());
    let mut numbers: HashMap<Vec<u8>, usize> = HashMap::new();
    let (mut keys, mut origins) = (Vec::new(), Vec::new());
    for batch in batches {
        interrupt.check()?;
        let of_batch = Changes::of_rows(&shape.schema, batch)?;
        let key_columns: Vec<ArrayRef> = (shape.schema.key.iter())
            .map(|&column| of_batch.columns[column].clone().expect("a batch has the key"))
            .collect();
        let encoded = encode_whole_keys(&shape.schema, &key_columns)?;
        for (row, key) in encoded.iter().enumerate() {
            let number = *numbers.entry(key.to_vec()).or_insert_with(|| {
                keys.push(key.to_vec());
                origins.push(Vec::new());
                keys.len() - 1
            });
            origins[number].push((changes.len(), row));
        }
        changes.push(of_batch);
    }
    let keys = Keys::from_iter(keys);
    let done = change(core, shape, &keys, &changes, &origins, missing, interrupt)?;
    drop(exclusive);
    Ok(done)
}

/// Gives the selected rows the values of a batch of one row, in one commit.
pub fn update_selected(
    core: &Arc<Core>,
    name: &str,
    shape: &TableShape,
    selection: &Selection,
    values: &RecordBatch,
    interrupt: &Interrupt,
) -> Result<UpdateResult> {
    check_updates(name, &shape.layout)?;
    let changes = Changes::of_values(&shape.schema, values)?;
    let question = table(core, shape)?.question(selection)?;
    let _underway = core.begin()?;
    let (exclusive, keys) = select_exclusively(core, shape, question, interrupt)?;
    let fresh = TableShape::of(core, shape.table)?;
    let mut changes = [changes];
    changes[0].columns.resize(fresh.schema.columns.fields().len(), None);
    let origins = vec![vec![(0, 0)]; keys.len()];
    let done = change(core, &fresh, &keys, &changes, &origins, Missing::Skip, interrupt)?;
    drop(exclusive);
    Ok(done)
}

impl Changes {
    /// Those of a batch with the key columns and others.
    fn of_rows(schema: &TableSchema, batch: &RecordBatch) -> Result<Changes> {
        let name = |&column: &usize| schema.columns.field(column).name().as_str();
        let lacking: Vec<&str> = (schema.key.iter().map(name))
            .filter(|name| batch.schema_ref().column_with_name(name).is_none())
            .collect();
        match lacking.is_empty() {
            true => Changes::of_columns(schema, batch),
            false => Err(Error::invalid(format!(
                "the update lacks key column {:?}; add it, so that the update finds its rows",
                lacking[0]
            ))),
        }
    }

    /// Those of a batch of one row without key columns.
    fn of_values(schema: &TableSchema, values: &RecordBatch) -> Result<Changes> {
        let is_key = |name: &str| {
            schema.key.iter().any(|&column| schema.columns.field(column).name() == name)
        };
        let fields = values.schema_ref().fields();
        if let Some(field) = fields.iter().find(|field| is_key(field.name())) {
            return Err(Error::invalid(format!(
                "{:?} is a key column, and updates cannot change keys; delete the row and append it with the new key",
                field.name()
            )));
        }
        if values.num_rows() != 1 || fields.is_empty() {
            return Err(Error::invalid(format!(
                "an update of selected rows takes one row of one or more columns, got {} of {}",
                values.num_rows(),
                fields.len()
            )));
        }
        Changes::of_columns(schema, values)
    }

    fn of_columns(schema: &TableSchema, batch: &RecordBatch) -> Result<Changes> {
        let given = batch.schema_ref().fields().iter().map(|field| column(schema, field.name()));
        let mut given = given.collect::<Result<Vec<usize>>>()?;
        given.sort_unstable();
        given.dedup();
        let position = |wanted: &usize| given.binary_search(wanted).ok();
        let set = schema.set.as_ref().and_then(|set| {
            Some(drillcore_format::schema::SetColumn {
                column: position(&set.column)?,
                ..set.clone()
            })
        });
        let partial = TableSchema {
            set,
            weights: schema.weights.iter().filter_map(position).collect(),
            ..TableSchema::new(
                Arc::new(schema.columns.project(&given).expect("the columns are the table's")),
                schema.key.iter().filter_map(position).collect(),
            )
        };
        let conformed = conform(&partial, &partial.key, batch, OnError::Raise.into())?.batch;
        let mut columns = vec![None; schema.columns.fields().len()];
        for (column, values) in given.into_iter().zip(conformed.columns()) {
            columns[column] = Some(values.clone());
        }
        Ok(Changes { columns })
    }
}

/// Reads the rows with some keys, each once, changes them and writes them. `origins` are the changes of each key, in order.
fn change(
    core: &Arc<Core>,
    shape: &TableShape,
    keys: &Keys,
    changes: &[Changes],
    origins: &[Vec<Origin>],
    missing: Missing,
    interrupt: &Interrupt,
) -> Result<UpdateResult> {
    let table = table(core, shape)?;
    let all: Vec<usize> = (0..shape.schema.columns.fields().len()).collect();
    let found = table.get_encoded(keys, &all, interrupt)?;
    let key_columns = (0..shape.schema.key.len())
        .map(|position| decode_column(keys, shape.layout.key_types(), position))
        .collect::<std::result::Result<Vec<_>, _>>()?;
    if let (Missing::Error, Some(number)) =
        (missing, found.positions.iter().position(Option::is_none))
    {
        return Err(no_row(&key_columns, number));
    }
    let is_changed =
        |number: &usize| missing == Missing::Insert || found.positions[*number].is_some();
    let wanted: Vec<usize> = (0..keys.len()).filter(is_changed).collect();
    if wanted.is_empty() {
        return Ok(UpdateResult { rows: 0, lsn: core.visible() });
    }
    let columns =
        all.iter().map(|&column| match shape.schema.key.iter().position(|key| *key == column) {
            Some(position) => taken(&key_columns[position], &wanted),
            None => changed(shape, column, &found, changes, origins, &wanted),
        });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let rows = RecordBatch::try_new(shape.schema.columns.clone(), columns)
        .map_err(|error| Error::invalid(format!("the updated rows do not fit: {error}")))?;
    let lsn = replace(core, shape, &rows, interrupt)?;
    Ok(UpdateResult { rows: wanted.len() as u64, lsn })
}

fn taken(values: &ArrayRef, rows: &[usize]) -> Result<ArrayRef> {
    let picks: Vec<(usize, usize)> = rows.iter().map(|&row| (0, row)).collect();
    Ok(interleave(&[values], &picks).expect("rows of one array"))
}

/// One column of the rows wanted: the last value that is given for each, or the one that it has, or null.
fn changed(
    shape: &TableShape,
    column: usize,
    found: &Found,
    changes: &[Changes],
    origins: &[Vec<Origin>],
    wanted: &[usize],
) -> Result<ArrayRef> {
    let field = shape.schema.columns.field(column);
    let null = new_null_array(field.data_type(), 1);
    // What the rows have, null, and what each of the changes gives.
    let mut arrays: Vec<&dyn Array> = vec![found.rows.column(column).as_ref(), null.as_ref()];
    let mut place_of = vec![None; changes.len()];
    for (number, of_batch) in changes.iter().enumerate() {
        if let Some(values) = &of_batch.columns[column] {
            place_of[number] = Some(arrays.len());
            arrays.push(values.as_ref());
        }
    }
    let pick = |&key: &usize| {
        let given = origins[key].iter().rev();
        let given = given.filter_map(|&(batch, row)| Some((place_of[batch]?, row)));
        given.into_iter().next().unwrap_or(match found.positions[key] {
            Some(row) => (0, row as usize),
            None => (1, 0),
        })
    };
    let picks: Vec<(usize, usize)> = wanted.iter().map(pick).collect();
    let may_be_null = field.is_nullable() && !shape.schema.weights.contains(&column);
    if !may_be_null && picks.iter().any(|(array, _)| *array == 1) {
        return Err(Error::invalid(format!(
            "a row to insert lacks column {:?}, which cannot be null; give it a value",
            field.name()
        )));
    }
    interleave(&arrays, &picks).map_err(|error| Error::invalid(error.to_string()))
}

fn no_row(key_columns: &[ArrayRef], number: usize) -> Error {
    let text = |values: &ArrayRef| match values.is_null(number) {
        true => "null".to_string(),
        false => array_value_to_string(values, number).unwrap_or_default(),
    };
    let key: Vec<String> = key_columns.iter().map(text).collect();
    let message = format!(
        "no row has the key ({}); nothing was changed. Skip keys without a row, or insert \
         rows for them",
        key.join(", ")
    );
    Error::new(ErrorKind::NotFound, message)
}

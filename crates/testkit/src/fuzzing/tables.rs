//! The tables that crafted bytes are read as: of every merge policy, with sets, weights and columns of all kinds.

use std::sync::{Arc, OnceLock};

use drillcore::{Database, Options, TableSchema};
use drillcore_format::key::Bound;
use drillcore_format::rows::{Layout, Projection, Rows};
use drillcore_format::weight::stored_units;

use super::outcome::Outcome;
use crate::shape::Shape;

/// A table's shape, with what the store makes of it.
pub struct FuzzTable {
    /// As the model knows it.
    pub shape: Shape,
    /// As files have it.
    pub schema: Arc<TableSchema>,
    /// Where its columns are stored.
    pub layout: Layout,
}

/// One of the tables, whatever the selector.
pub fn table(selector: u8) -> &'static FuzzTable {
    let tables = tables();
    &tables[usize::from(selector) % tables.len()]
}

/// All of them, in the order of [`Shape::all`].
pub fn tables() -> &'static [FuzzTable] {
    static TABLES: OnceLock<Vec<FuzzTable>> = OnceLock::new();
    TABLES.get_or_init(|| {
        let database = Database::in_memory(Options::default()).expect("memory is there");
        let table = |(number, shape): (usize, Shape)| {
            let table = database.create_table(&format!("t{number}"), shape.spec());
            let schema = table.expect("a shape makes a table").schema();
            FuzzTable { layout: Layout::new(&schema), shape, schema }
        };
        Shape::all().into_iter().enumerate().map(table).collect()
    })
}

/// What is read of rows: everything, keys alone, and each column by itself.
pub fn projections(layout: &Layout) -> Vec<Projection> {
    let columns = 0..layout.schema().columns.fields().len();
    let only_keys = Projection { keys: true, ..Projection::default() };
    let mut projections = vec![layout.all(), only_keys];
    projections.extend(columns.map(|column| layout.projection(&[column])));
    projections
}

/// Places around some keys, and before and behind all.
pub fn bounds(keys: &[Vec<u8>]) -> Vec<Bound> {
    let step = keys.len().div_ceil(40).max(1);
    let around = keys.iter().step_by(step).flat_map(|key| {
        let prefix = &key[..key.len() / 2];
        [Bound::at_key(key), Bound::past_key(key), Bound::at_key(prefix)]
    });
    around.chain([Bound::at_key(&[]), Bound::past_key(&[0xff; 40])]).collect()
}

/// Takes apart rows that hold all columns.
pub fn use_rows(layout: &Layout, rows: &Rows, outcome: &mut Outcome) {
    let columns: Vec<usize> = (0..layout.schema().columns.fields().len()).collect();
    // Rows of a rollup table are shown by the engine.
    if layout.rollup().is_none() {
        outcome.note(layout.decode(rows, &columns));
    }
    outcome.note(layout.stored_columns(rows));
    outcome.note(layout.set_codes(rows));
    for value in layout.weight_values() {
        // A value that is no weight is for the caller to refuse.
        let _ = stored_units(rows.value(value));
    }
}

//! Comparing what a table says with what the model says.

use std::collections::HashMap;
use std::sync::Arc;

use drillcore::arrow_array::{ArrayRef, RecordBatch};
use drillcore::*;
use drillcore_sample::rng::Rng;

use crate::cell::{Cell, from_array, rows_of, to_array};
use crate::model::{ModelBetween, ModelRow, ModelSelection, ModelTable};
use crate::shape::random_cell;

/// Compares every kind of read of one table with the model: the whole table, then `questions` random
/// selections. Panics at the first difference.
pub fn check_table(table: &TableSnapshot, model: &ModelTable, questions: usize, rng: &mut Rng) {
    let sorted = model.sorted();
    assert_eq!(table.rows().unwrap(), sorted.len() as u64, "rows()");
    check_selection(table, model, &sorted, &ModelSelection::default(), rng);
    for _ in 0..questions {
        let selection = random_selection(model, rng);
        check_selection(table, model, &sorted, &selection, rng);
    }
    check_get(table, model, rng);
    check_sets(table, model);
}

fn check_selection(
    table: &TableSnapshot,
    model: &ModelTable,
    sorted: &[Arc<ModelRow>],
    wanted: &ModelSelection,
    rng: &mut Rng,
) {
    let selection = to_selection(model, wanted);
    if wanted.between.as_ref().is_some_and(ModelBetween::is_reversed) {
        let error = table.count(&selection).expect_err("a reversed range is refused");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{wanted:?}: {error}");
        return;
    }
    let mut expected: Vec<&ModelRow> =
        sorted.iter().map(AsRef::as_ref).filter(|row| model.selects(row, wanted)).collect();
    assert_eq!(table.count(&selection).unwrap(), expected.len() as u64, "count of {wanted:?}");
    check_sample(table, &selection, &expected, wanted, rng);

    let reverse = rng.below(2) == 1;
    if reverse {
        expected.reverse();
    }
    let limit = (rng.below(3) == 0).then(|| rng.below(expected.len() as u64 + 3));
    let columns = random_columns(model, rng);
    let names = columns.iter().map(|&column| model.shape.columns.field(column).name().clone());
    let request = ScanRequest {
        selection,
        columns: Some(names.collect()),
        limit,
        reverse,
        interrupt: Interrupt::never(),
    };
    let batches: Vec<RecordBatch> = table.scan(request).unwrap().map(Result::unwrap).collect();
    let found: Vec<Vec<Cell>> = batches.iter().flat_map(rows_of).collect();
    expected.truncate(limit.map_or(usize::MAX, |limit| limit as usize));
    let projected = |row: &&ModelRow| -> Vec<Cell> {
        columns.iter().map(|&column| row.cells[column].clone()).collect()
    };
    let expected: Vec<Vec<Cell>> = expected.iter().map(projected).collect();
    let what =
        format!("scan of {wanted:?}, reverse {reverse}, limit {limit:?}, columns {columns:?}");
    assert_same(&found, &expected, &what);
}

fn check_sample(
    table: &TableSnapshot,
    selection: &Selection,
    expected: &[&ModelRow],
    wanted: &ModelSelection,
    rng: &mut Rng,
) {
    let population = expected.len() as u64;
    let n = match rng.below(4) {
        0 => population + rng.below(3),
        _ => rng.below(population.min(60) + 2),
    };
    let request = SampleRequest {
        n,
        selection: selection.clone(),
        replace: rng.below(4) == 0,
        at_most: rng.below(2) == 0,
        seed: Some(rng.next_u64()),
        ..Default::default()
    };
    let is_enough = n <= population || request.replace && population > 0;
    let sampled = match table.sample(&request) {
        Ok(batch) => batch,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::TooFewRows, "{error}");
            assert!(!is_enough && !request.at_most, "{n} of {population}: {error}");
            return;
        }
    };
    assert!(is_enough || request.at_most, "{n} rows of {population} were drawn");
    let count = if is_enough { n } else { population };
    let rows = rows_of(&sampled);
    assert_eq!(rows.len() as u64, count, "sample of {wanted:?}");
    assert_eq!(rows, rows_of(&table.sample(&request).unwrap()), "one seed, one sample");
    let mut left: HashMap<&[Cell], u64> = HashMap::new();
    expected.iter().for_each(|row| *left.entry(&row.cells).or_default() += 1);
    for row in &rows {
        let left = left.get_mut(row.as_slice());
        let left = left.unwrap_or_else(|| panic!("{row:?} was drawn but is not in {wanted:?}"));
        if !request.replace {
            *left = left.checked_sub(1).unwrap_or_else(|| panic!("{row:?} was drawn too often"));
        }
    }
}

fn check_get(table: &TableSnapshot, model: &ModelTable, rng: &mut Rng) {
    let keys: Vec<Vec<Cell>> = (0..12).map(|_| random_key(model, rng)).collect();
    let arrays: Vec<ArrayRef> = (0..model.shape.key.len())
        .map(|position| {
            let cells: Vec<Cell> = keys.iter().map(|key| key[position].clone()).collect();
            to_array(model.shape.columns.field(model.shape.key[position]).data_type(), &cells)
        })
        .collect();
    let found = table.get(&arrays, None).unwrap();
    let rows = rows_of(&found.rows);
    assert_eq!(found.positions.len(), keys.len());
    for (key, position) in keys.iter().zip(&found.positions) {
        let found = position.map(|position| rows[position as usize].as_slice());
        let expected = model.get(key).map(|row| row.cells.as_slice());
        assert_eq!(found, expected, "get of {key:?}");
    }
}

fn check_sets(table: &TableSnapshot, model: &ModelTable) {
    if model.shape.set.is_none() {
        assert_eq!(table.sets().unwrap_err().kind(), ErrorKind::InvalidArgument);
        return;
    }
    let sets = table.sets().unwrap();
    let found: Vec<(Cell, u64)> =
        from_array(sets.values.as_ref()).into_iter().zip(sets.rows).collect();
    assert_eq!(found, model.sets(), "sets()");
}

/// Like `assert_eq!`, but prints the first difference instead of thousands of rows.
fn assert_same(found: &[Vec<Cell>], expected: &[Vec<Cell>], what: &str) {
    let differs = |(found, expected): (&Vec<Cell>, &Vec<Cell>)| found != expected;
    if let Some(row) = found.iter().zip(expected).position(differs) {
        panic!("{what}: row {row} is {:?}, expected {:?}", found[row], expected[row]);
    }
    assert_eq!(found.len(), expected.len(), "{what}: the number of rows");
}

/// The model's selection as the engine takes it.
fn to_selection(model: &ModelTable, wanted: &ModelSelection) -> Selection {
    let column_type = |column: usize| model.shape.columns.field(column).data_type();
    let end = |cells: &Vec<Cell>| -> Vec<ArrayRef> {
        let columns = model.shape.key.iter();
        cells
            .iter()
            .zip(columns)
            .map(|(cell, &column)| to_array(column_type(column), std::slice::from_ref(cell)))
            .collect()
    };
    let between = wanted.between.as_ref().map(|between| Between {
        low: between.low.as_ref().map(end),
        high: between.high.as_ref().map(end),
        closed: between.closed,
    });
    let sets = wanted
        .sets
        .as_ref()
        .map(|sets| to_array(column_type(model.shape.set.expect("sets need a set column")), sets));
    Selection { between, sets, predicate: None }
}

fn random_selection(model: &ModelTable, rng: &mut Rng) -> ModelSelection {
    let between = (rng.below(4) > 0).then(|| random_between(model, rng));
    let sets = model.shape.set.filter(|_| rng.below(2) == 0).map(|column| {
        let data_type = model.shape.columns.field(column).data_type();
        let set = |rng: &mut Rng| match model.rows.len() as u64 {
            rows if rows > 0 && rng.below(4) > 0 => {
                model.rows[rng.below(rows) as usize].cells[column].clone()
            }
            _ => random_cell(rng, data_type, true),
        };
        (0..rng.below(5)).map(|_| set(rng)).collect()
    });
    ModelSelection { between, sets }
}

fn random_between(model: &ModelTable, rng: &mut Rng) -> ModelBetween {
    let end = |rng: &mut Rng| -> Option<Vec<Cell>> {
        if rng.below(5) == 0 {
            return None;
        }
        let mut key = random_key(model, rng);
        key.truncate(1 + rng.below(key.len() as u64) as usize);
        // A NaN is refused as an end; that has a test of its own.
        key.iter_mut().filter(|cell| cell.is_nan()).for_each(|cell| *cell = Cell::float(1.25));
        Some(key)
    };
    let (mut low, mut high) = (end(rng), end(rng));
    if let (Some(a), Some(b)) = (&low, &high)
        && crate::cell::prefix_order(a, b).is_gt()
        && rng.below(8) > 0
    {
        std::mem::swap(&mut low, &mut high);
    }
    let closed = [Closed::Both, Closed::Left, Closed::Right, Closed::Neither];
    ModelBetween { low, high, closed: closed[rng.below(4) as usize] }
}

/// Mostly the key of a row, else some key.
fn random_key(model: &ModelTable, rng: &mut Rng) -> Vec<Cell> {
    let rows = model.rows.len() as u64;
    if rows > 0 && rng.below(4) > 0 {
        return model.rows[rng.below(rows) as usize].key.clone();
    }
    let cell =
        |column: &usize| random_cell(rng, model.shape.columns.field(*column).data_type(), true);
    model.shape.key.iter().map(cell).collect()
}

/// At least one column, in any order.
fn random_columns(model: &ModelTable, rng: &mut Rng) -> Vec<usize> {
    let mut columns: Vec<usize> = (0..model.shape.columns.fields().len()).collect();
    for last in (1..columns.len()).rev() {
        columns.swap(last, rng.below(last as u64 + 1) as usize);
    }
    columns.truncate(1 + rng.below(columns.len() as u64) as usize);
    columns
}

//! Comparing what a table says with what the model says.

use std::collections::HashMap;
use std::sync::Arc;

use drillcore::arrow_array::{ArrayRef, RecordBatch};
use drillcore::*;
use drillcore_format::byte_bounds;
use drillcore_format::schema::is_key_type;
use drillcore_format::value_bytes::string_offsets;
use drillcore_sample::rng::Rng;

use crate::cell::{Cell, from_array, prefix_order, rows_of, to_array};
use crate::hashed_condition::HashedCondition;
use crate::model::{Change, ModelBetween, ModelRow, ModelSelection, ModelTable};
use crate::shape::random_cell;

/// Compares every kind of read of one table with the model: the whole table, then `questions` random
/// selections. Panics at the first difference.
pub fn check_table(table: &TableSnapshot, model: &ModelTable, questions: usize, rng: &mut Rng) {
    let rows = model.rows();
    assert_eq!(table.rows().unwrap(), rows.len() as u64, "rows()");
    check_selection(table, model, &rows, &ModelSelection::default(), rng);
    for _ in 0..questions {
        let selection = random_selection(model, rng);
        check_selection(table, model, &rows, &selection, rng);
    }
    check_get(table, model, &rows, rng);
    check_sets(table, model, &rows);
}

fn check_selection(
    table: &TableSnapshot,
    model: &ModelTable,
    rows: &[Arc<ModelRow>],
    wanted: &ModelSelection,
    rng: &mut Rng,
) {
    let selection = to_selection(model, wanted);
    if wanted.between.as_ref().is_some_and(ModelBetween::is_reversed) {
        let error = table.count(&selection).expect_err("a reversed range is refused");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{wanted:?}: {error}");
        return;
    }
    let expected: Vec<&ModelRow> =
        rows.iter().map(AsRef::as_ref).filter(|row| model.selects(row, wanted)).collect();
    let selected = Selected { table, model, wanted, selection, expected };
    // What is resolved for one of them is there for the next, so each comes first at times.
    let first = rng.below(3);
    for check in first..first + 3 {
        match check % 3 {
            0 => selected.check_counts(),
            1 => selected.check_sample(rng),
            _ => selected.check_scan(rng),
        }
    }
    if rng.below(3) == 0 {
        selected.check_estimate(rng);
    }
    if rng.below(2) == 0 {
        selected.check_splits(rng);
    }
}

/// A selection, and the rows that it should give in key order.
struct Selected<'a> {
    table: &'a TableSnapshot,
    model: &'a ModelTable,
    wanted: &'a ModelSelection,
    selection: Selection,
    expected: Vec<&'a ModelRow>,
}

impl Selected<'_> {
    fn check_counts(&self) {
        let rows = self.expected.len() as u64;
        assert_eq!(self.table.count(&self.selection).unwrap(), rows, "count of {:?}", self.wanted);
        let events = self.table.count_events(&self.selection).unwrap();
        assert_eq!(events, self.events(), "events of {:?}", self.wanted);
    }

    fn check_scan(&self, rng: &mut Rng) {
        let mut expected = self.expected.clone();
        let reverse = rng.below(2) == 1;
        if reverse {
            expected.reverse();
        }
        let limit = (rng.below(3) == 0).then(|| rng.below(expected.len() as u64 + 3));
        let columns = random_columns(self.model, rng);
        let request = ScanRequest {
            selection: self.selection.clone(),
            columns: Some(column_names(self.model, &columns)),
            limit,
            reverse,
            // Several threads, in partitions of any size, give what one gives.
            threads: Some(1 + rng.below(3) as usize),
            partition_rows: (rng.below(3) > 0).then(|| 1 + rng.below(40)),
            ..Default::default()
        };
        let what = format!(
            "scan of {:?}, reverse {reverse}, limit {limit:?}, columns {columns:?}, {:?} threads, \
             partitions of {:?}",
            self.wanted, request.threads, request.partition_rows
        );
        let batches: Vec<RecordBatch> =
            self.table.scan(request).unwrap().map(Result::unwrap).collect();
        batches.iter().for_each(check_closed_in_time);
        let found: Vec<Vec<Cell>> = batches.iter().flat_map(rows_of).collect();
        expected.truncate(limit.map_or(usize::MAX, |limit| limit as usize));
        let expected: Vec<Vec<Cell>> =
            expected.iter().map(|row| projected(row, &columns)).collect();
        assert_same(&found, &expected, &what);
    }

    /// Draws come from the selection, as many as were asked for, none too often, the same for the same
    /// seed; a rollup table's draws are events. How often each comes is left to the statistics.
    fn check_sample(&self, rng: &mut Rng) {
        let weight = match self.model.shape.weights.as_slice() {
            [] => None,
            weights => {
                (rng.below(2) == 0).then(|| weights[rng.below(weights.len() as u64) as usize])
            }
        };
        let can_be_drawn = |row: &&&ModelRow| {
            weight
                .is_none_or(|column| row.cells[column].as_f64().is_some_and(|weight| weight > 0.0))
        };
        let drawable: Vec<&ModelRow> = self.expected.iter().filter(can_be_drawn).copied().collect();
        let population: u64 = drawable.iter().map(|row| row.events).sum();
        let n = match rng.below(4) {
            0 => population.min(4_000) + rng.below(3),
            _ => rng.below(population.min(60) + 2),
        };
        let replace = rng.below(4) == 0;
        let request = SampleRequest {
            n,
            selection: self.selection.clone(),
            weight: weight.map(|column| column_names(self.model, &[column]).remove(0)),
            with_probability: (replace || weight.is_none()) && rng.below(3) == 0,
            replace,
            at_most: rng.below(2) == 0,
            seed: Some(rng.next_u64()),
            ..Default::default()
        };
        let is_enough = n <= population || replace && population > 0;
        let sampled = match self.table.sample(&request) {
            Ok(batch) => batch,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::TooFewRows, "{error}");
                assert!(!is_enough && !request.at_most, "{n} of {population}: {error}");
                return;
            }
        };
        assert!(is_enough || request.at_most, "{n} rows of {population} were drawn");
        let count = if is_enough {
            n
        } else if replace {
            0
        } else {
            population
        };
        let mut rows = rows_of(&sampled);
        assert_eq!(rows.len() as u64, count, "sample of {:?}", self.wanted);
        assert_eq!(rows, rows_of(&self.table.sample(&request).unwrap()), "one seed, one sample");
        if request.with_probability {
            self.check_probability(&mut rows, weight, replace);
        }
        let mut left: HashMap<&[Cell], u64> = HashMap::new();
        drawable.iter().for_each(|row| *left.entry(&row.cells).or_default() += row.events);
        for row in &rows {
            let left = left.get_mut(row.as_slice());
            let left =
                left.unwrap_or_else(|| panic!("{row:?} was drawn but not in {:?}", self.wanted));
            if !replace {
                *left =
                    left.checked_sub(1).unwrap_or_else(|| panic!("{row:?} was drawn too often"));
            }
        }
    }

    /// One after the other, splits are the scan; no two share a key, and each says what is in it. With a condition or
    /// without.
    fn check_splits(&self, rng: &mut Rng) {
        let fields = self.model.shape.columns.fields();
        let tested = rng.below(fields.len() as u64) as usize;
        let condition = HashedCondition::new(fields[tested].name(), 3, rng.below(3));
        let condition = Some(condition).filter(|_| rng.below(3) == 0);
        let passes = |row: &&ModelRow| {
            condition.as_ref().is_none_or(|condition| condition.passes(&row.cells[tested]))
        };
        let expected: Vec<&ModelRow> = self.expected.iter().copied().filter(passes).collect();
        let predicate = condition.clone().map(|condition| Arc::new(condition) as _);
        let selection = Selection { predicate, ..self.selection.clone() };
        let count = [1, 2, 1 + rng.below(9) as usize, 500][rng.below(4) as usize];
        let splits = self.table.splits(count, &selection).unwrap();
        assert_eq!(splits, self.table.splits(count, &selection).unwrap(), "one way to split");
        let what = format!("{count} splits of {:?} where {condition:?}", self.wanted);
        assert!(splits.len() <= count, "{what}: {} splits", splits.len());
        let mut found: Vec<Vec<Cell>> = Vec::new();
        for split in &splits {
            let range = Some(split.range.clone());
            let selection = Selection { split: range, ..selection.clone() };
            let request = ScanRequest { selection: selection.clone(), ..Default::default() };
            let batches = self.table.scan(request).unwrap().map(Result::unwrap);
            let rows: Vec<Vec<Cell>> = batches.flat_map(|batch| rows_of(&batch)).collect();
            let len = rows.len() as u64;
            assert_eq!(self.table.count(&selection).unwrap(), len, "{what}: a count");
            assert!(split.rows.is_none_or(|rows| rows == len && rows > 0), "{what}: {split:?}");
            let of_split = &expected[found.len()..(found.len() + rows.len()).min(expected.len())];
            let events = of_split.iter().map(|row| row.events).sum::<u64>();
            assert_eq!(self.table.count_events(&selection).unwrap(), events, "{what}: events");
            for &column in &self.model.shape.weights {
                let name = fields[column].name();
                let found = self.table.weight(name, &selection).unwrap() as f64;
                let step =
                    if fields[column].data_type().is_integer() { 1.0 } else { 2f64.powi(32) };
                let weights = of_split.iter().map(|row| row.cells[column].as_f64().unwrap());
                let expected = weights.sum::<f64>();
                assert!(
                    (found / step - expected).abs() < 1e-6 * (1.0 + expected),
                    "{what}: weight"
                );
            }
            if let (Some(last), Some(first)) = (found.len().checked_sub(1), of_split.first()) {
                assert!(
                    prefix_order(&expected[last].key, &first.key).is_ne(),
                    "{what}: a key is cut"
                );
            }
            let request = SampleRequest { n: 5, selection, at_most: true, ..Default::default() };
            for drawn in rows_of(&self.table.sample(&request).unwrap()) {
                assert!(rows.contains(&drawn), "{what}: {drawn:?} is of another split");
            }
            found.extend(rows);
        }
        let all: Vec<Vec<Cell>> = expected.iter().map(|row| row.cells.clone()).collect();
        assert_same(&found, &all, &what);
    }

    /// Takes the column of probabilities off, which holds each row's share of the weight.
    fn check_probability(&self, rows: &mut [Vec<Cell>], weight: Option<usize>, replace: bool) {
        let weight_of = |cells: &[Cell]| {
            weight.map_or(1.0, |column| cells[column].as_f64().expect("weights are numbers"))
        };
        let total: f64 = match weight {
            None => self.events() as f64,
            Some(_) => self.expected.iter().map(|row| weight_of(&row.cells)).sum(),
        };
        let draws = if replace { 1.0 } else { rows.len() as f64 };
        for row in rows {
            let found =
                row.pop().and_then(|cell| cell.as_f64()).expect("a probability is a number");
            let expected = draws * weight_of(row) / total;
            assert!((found - expected).abs() <= 1e-12, "{row:?}: {found}, expected {expected}");
        }
    }

    /// With all rows drawn nothing is left to estimate.
    fn check_estimate(&self, rng: &mut Rng) {
        let fields = self.model.shape.columns.fields();
        let columns = || 0..fields.len();
        let is_number = |column: &usize| {
            let data_type = fields[*column].data_type();
            data_type.is_integer() || data_type.is_floating()
        };
        let measure = columns().find(is_number);
        let groupable: Vec<usize> =
            columns().filter(|&column| is_key_type(fields[column].data_type())).collect();
        let by = (rng.below(2) == 0).then(|| groupable[rng.below(groupable.len() as u64) as usize]);
        let name = |column: usize| fields[column].name().clone();
        let mut aggregates = vec![("rows".to_string(), Aggregate::Count)];
        aggregates.extend(measure.map(|column| ("mean".into(), Aggregate::avg(name(column)))));
        let request = EstimateRequest {
            aggregates,
            by: by.map(name).into_iter().collect(),
            selection: self.selection.clone(),
            stop: Stop::Rows(u64::MAX),
            ..Default::default()
        };
        let what = format!("estimate of {:?} by {by:?}", self.wanted);
        let estimate = self.table.estimate(&request).unwrap();
        assert_eq!(estimate.population, self.expected.len() as u64, "{what}");
        let groups = match by {
            None => vec![(Cell::Null, self.expected.len() as u64)],
            Some(column) => self.model.groups(column, self.expected.iter().copied()),
        };
        if let [found] = &estimate.groups[..] {
            let values: Vec<&Cell> = groups.iter().map(|(value, _)| value).collect();
            let found = from_array(found.as_ref());
            assert_eq!(found.iter().collect::<Vec<_>>(), values, "{what}");
        }
        for (group, (value, rows)) in groups.iter().enumerate() {
            let counted = &estimate.aggregates[0].intervals[group];
            assert_eq!([counted.low, counted.high], [*rows as f64; 2], "{what}, group {value:?}");
            let Some(measure) = measure else { continue };
            let is_in =
                |row: &&&ModelRow| by.is_none_or(|column| row.cells[column].normalised() == *value);
            let of_group = self.expected.iter().filter(is_in);
            let numbers: Vec<f64> =
                of_group.filter_map(|row| row.cells[measure].as_f64()).collect();
            if numbers.is_empty() || numbers.iter().any(|number| !number.is_finite()) {
                continue;
            }
            let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
            let size = numbers.iter().map(|number| number.abs()).sum::<f64>() + 1.0;
            let found = &estimate.aggregates[1].intervals[group];
            let off = (found.low - mean).abs().max((found.high - mean).abs());
            assert!(off <= 1e-9 * size, "{what}, group {value:?}: {found:?}, expected {mean}");
        }
    }

    fn events(&self) -> u64 {
        self.expected.iter().map(|row| row.events).sum()
    }
}

/// A batch was closed with the row that reached the bound on its bytes, or soon after it.
fn check_closed_in_time(batch: &RecordBatch) {
    let row_bytes = |row: usize| -> usize {
        batch.columns().iter().map(|column| string_bytes(&column.slice(row, 1))).sum()
    };
    let bytes: Vec<usize> = (0..batch.num_rows()).map(row_bytes).collect();
    let (total, longest) = (bytes.iter().sum::<usize>(), bytes.iter().max().unwrap_or(&0));
    assert!(total - longest <= 2 * byte_bounds::batch(), "{total} bytes in a batch");
}

fn string_bytes(column: &ArrayRef) -> usize {
    string_offsets(column).map_or(0, |offsets| (offsets[offsets.len() - 1] - offsets[0]) as usize)
}

fn check_get(table: &TableSnapshot, model: &ModelTable, rows: &[Arc<ModelRow>], rng: &mut Rng) {
    let keys: Vec<Vec<Cell>> = (0..12).map(|_| random_key(model, rng)).collect();
    let columns = random_columns(model, rng);
    let names = column_names(model, &columns);
    let found = table.get(&model.shape.key_arrays(&keys), Some(&names)).unwrap();
    let found_rows = rows_of(&found.rows);
    assert_eq!(found.positions.len(), keys.len());
    for (key, position) in keys.iter().zip(&found.positions) {
        let found = position.map(|position| found_rows[position as usize].clone());
        // The newest of equal keys.
        let newest = rows.iter().rev().find(|row| prefix_order(&row.key, key).is_eq());
        assert_eq!(found, newest.map(|row| projected(row, &columns)), "get of {key:?}");
    }
}

fn check_sets(table: &TableSnapshot, model: &ModelTable, rows: &[Arc<ModelRow>]) {
    let Some(column) = model.shape.set else {
        assert_eq!(table.sets().unwrap_err().kind(), ErrorKind::InvalidArgument);
        return;
    };
    let sets = table.sets().unwrap();
    let found: Vec<(Cell, u64)> =
        from_array(sets.values.as_ref()).into_iter().zip(sets.rows).collect();
    assert_eq!(found, model.groups(column, rows.iter().map(AsRef::as_ref)), "sets()");
}

fn projected(row: &ModelRow, columns: &[usize]) -> Vec<Cell> {
    columns.iter().map(|&column| row.cells[column].clone()).collect()
}

fn column_names(model: &ModelTable, columns: &[usize]) -> Vec<String> {
    columns.iter().map(|&column| model.shape.columns.field(column).name().clone()).collect()
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
pub fn to_selection(model: &ModelTable, wanted: &ModelSelection) -> Selection {
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
    Selection { between, sets, ..Selection::default() }
}

/// Some key range, some sets, both or neither, mostly of what the model has.
pub fn random_selection(model: &ModelTable, rng: &mut Rng) -> ModelSelection {
    let between = (rng.below(4) > 0).then(|| random_between(model, rng));
    let sets = model.shape.set.filter(|_| rng.below(2) == 0);
    let sets = sets.map(|column| random_set_cells(model, column, rng));
    ModelSelection { between, sets }
}

/// Up to four sets, most of which some row is or was in.
fn random_set_cells(model: &ModelTable, column: usize, rng: &mut Rng) -> Vec<Cell> {
    let data_type = model.shape.columns.field(column).data_type();
    let set = |rng: &mut Rng| {
        let row = random_change(model, rng).and_then(|change| change.row.as_ref());
        row.map_or_else(|| random_cell(rng, data_type, true), |row| row.cells[column].clone())
    };
    (0..rng.below(5)).map(|_| set(rng)).collect()
}

/// Sets as the engine takes them; of a table without, some values.
pub fn random_sets(model: &ModelTable, rng: &mut Rng) -> ArrayRef {
    let column = model.shape.set.unwrap_or(0);
    let data_type = model.shape.columns.field(column).data_type();
    to_array(data_type, &random_set_cells(model, column, rng))
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
        && prefix_order(a, b).is_gt()
        && rng.below(8) > 0
    {
        std::mem::swap(&mut low, &mut high);
    }
    let closed = [Closed::Both, Closed::Left, Closed::Right, Closed::Neither];
    ModelBetween { low, high, closed: closed[rng.below(4) as usize] }
}

/// Mostly the key of a row that is or was there, else some key.
pub fn random_key(model: &ModelTable, rng: &mut Rng) -> Vec<Cell> {
    if let Some(change) = random_change(model, rng) {
        return change.key.clone();
    }
    let cell =
        |column: &usize| random_cell(rng, model.shape.columns.field(*column).data_type(), true);
    model.shape.key.iter().map(cell).collect()
}

/// Mostly one of the changes there were.
fn random_change<'a>(model: &'a ModelTable, rng: &mut Rng) -> Option<&'a Change> {
    let changes = model.changes.len() as u64;
    let index = (changes > 0 && rng.below(4) > 0).then(|| rng.below(changes) as usize);
    index.map(|index| model.changes[index].as_ref())
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

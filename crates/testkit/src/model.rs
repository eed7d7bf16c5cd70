//! The reference: a list of changes in commit order. Every answer comes from sorting, folding and
//! filtering all of them.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use drillcore::Closed;
use drillcore::arrow_schema::DataType;

use crate::cell::{Cell, prefix_order};
use crate::shape::{Policy, Shape};

/// One row that the table shows: its key and all its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelRow {
    /// The values of the key.
    pub key: Vec<Cell>,
    /// All values, as they are shown.
    pub cells: Vec<Cell>,
    /// The appended rows that are folded into it.
    pub events: u64,
}

/// One row that was appended, or a key that was deleted.
#[derive(Debug)]
pub struct Change {
    /// The values of the key.
    pub key: Vec<Cell>,
    /// The row, or nothing for a delete.
    pub row: Option<Arc<ModelRow>>,
}

/// One table.
#[derive(Debug, Clone)]
pub struct ModelTable {
    /// What the table looks like.
    pub shape: Shape,
    /// In commit order.
    pub changes: Vec<Arc<Change>>,
}

/// A key range in cells; an end is a key prefix.
#[derive(Debug, Clone)]
pub struct ModelBetween {
    /// The lower end, of the key or of its first columns.
    pub low: Option<Vec<Cell>>,
    /// The upper end.
    pub high: Option<Vec<Cell>>,
    /// Which ends belong to it.
    pub closed: Closed,
}

/// Which rows a question is about.
#[derive(Debug, Clone, Default)]
pub struct ModelSelection {
    /// The key range; `None` for all keys.
    pub between: Option<ModelBetween>,
    /// The sets; `None` for all.
    pub sets: Option<Vec<Cell>>,
}

impl ModelTable {
    /// A table without rows.
    pub fn new(shape: Shape) -> ModelTable {
        ModelTable { shape, changes: Vec::new() }
    }

    /// Adds a column, which is null in all rows so far.
    pub fn add_column(&mut self, name: &str, data_type: &DataType) {
        self.shape.add_column(name, data_type);
        let is_dimension = matches!(self.shape.policy, Policy::Rollup(_));
        let wider_key =
            |key: &[Cell]| [key, if is_dimension { &[Cell::Null] } else { &[] }].concat();
        let widened = |row: &Arc<ModelRow>| {
            let cells = [row.cells.as_slice(), &[Cell::Null]].concat();
            Arc::new(ModelRow { key: wider_key(&row.key), cells, events: row.events })
        };
        for change in &mut self.changes {
            let (key, row) = (wider_key(&change.key), change.row.as_ref().map(widened));
            *change = Arc::new(Change { key, row });
        }
    }

    /// Appends rows, as one commit.
    pub fn append(&mut self, rows: &[Vec<Cell>]) {
        for row in rows {
            let (key, cells) = self.shape.stored(row);
            let row = Arc::new(ModelRow { key: key.clone(), cells, events: 1 });
            self.changes.push(Arc::new(Change { key, row: Some(row) }));
        }
    }

    /// Deletes rows by their keys, as one commit.
    pub fn delete(&mut self, keys: &[Vec<Cell>]) {
        for key in keys {
            let key = key.iter().map(Cell::normalised).collect();
            self.changes.push(Arc::new(Change { key, row: None }));
        }
    }

    /// Deletes the rows that are shown and `is_deleted`, and says how many there were. What is selected of a rollup table
    /// is the same for all events of a row.
    pub fn delete_shown(&mut self, is_deleted: impl Fn(&ModelRow) -> bool) -> u64 {
        let deleted: Vec<_> = self.rows().into_iter().filter(|row| is_deleted(row)).collect();
        match self.shape.policy {
            Policy::Upsert => {
                let keys: Vec<_> = deleted.iter().map(|row| row.key.clone()).collect();
                self.delete(&keys);
            }
            Policy::Append | Policy::Rollup(_) => self.changes.retain(|change| {
                !is_deleted(change.row.as_ref().expect("only upsert tables delete keys"))
            }),
        }
        deleted.len() as u64
    }

    /// What the table shows: its rows in key order, ties in commit order.
    pub fn rows(&self) -> Vec<Arc<ModelRow>> {
        let mut changes = self.changes.clone();
        // The sort is stable, so ties stay as they are.
        changes.sort_by(|a, b| prefix_order(&a.key, &b.key));
        let of_equal_keys = changes.chunk_by(|a, b| prefix_order(&a.key, &b.key).is_eq());
        of_equal_keys.flat_map(|changes| self.rows_of_key(changes)).collect()
    }

    fn rows_of_key(&self, changes: &[Arc<Change>]) -> Vec<Arc<ModelRow>> {
        let rows = || changes.iter().filter_map(|change| change.row.clone());
        match &self.shape.policy {
            Policy::Append => rows().collect(),
            Policy::Upsert => {
                changes.last().and_then(|newest| newest.row.clone()).into_iter().collect()
            }
            Policy::Rollup(rollup) => {
                let mut folded =
                    ModelRow::clone(&changes[0].row.clone().expect("nothing is deleted"));
                for row in rows().skip(1) {
                    rollup.fold(&mut folded.cells, &row.cells);
                    folded.events += row.events;
                }
                vec![Arc::new(folded)]
            }
        }
    }

    /// Whether a row belongs to a selection.
    pub fn selects(&self, row: &ModelRow, selection: &ModelSelection) -> bool {
        let in_range = selection.between.as_ref().is_none_or(|between| between.contains(&row.key));
        let in_set = selection.sets.as_ref().is_none_or(|sets| {
            let column = self.shape.set.expect("sets are asked for where there are some");
            sets.iter().any(|set| set.normalised() == row.cells[column].normalised())
        });
        in_range && in_set
    }

    /// The values of a column among some rows with their numbers of rows, in order.
    pub fn groups<'a>(
        &self,
        column: usize,
        rows: impl IntoIterator<Item = &'a ModelRow>,
    ) -> Vec<(Cell, u64)> {
        struct Ordered(Cell);
        impl PartialEq for Ordered {
            fn eq(&self, other: &Ordered) -> bool {
                self.cmp(other).is_eq()
            }
        }
        impl Eq for Ordered {}
        impl PartialOrd for Ordered {
            fn partial_cmp(&self, other: &Ordered) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }
        impl Ord for Ordered {
            fn cmp(&self, other: &Ordered) -> Ordering {
                self.0.key_order(&other.0)
            }
        }
        let mut counts: BTreeMap<Ordered, u64> = BTreeMap::new();
        for row in rows {
            *counts.entry(Ordered(row.cells[column].normalised())).or_default() += 1;
        }
        counts.into_iter().map(|(value, rows)| (value.0, rows)).collect()
    }
}

impl ModelBetween {
    /// The low end lies above the high end, so that the range is an error and not empty.
    pub fn is_reversed(&self) -> bool {
        match (&self.low, &self.high) {
            (Some(low), Some(high)) => prefix_order(low, high).is_gt(),
            _ => false,
        }
    }

    fn contains(&self, key: &[Cell]) -> bool {
        let above_low = self.low.as_ref().is_none_or(|low| match prefix_order(key, low) {
            Ordering::Less => false,
            Ordering::Equal => matches!(self.closed, Closed::Both | Closed::Left),
            Ordering::Greater => true,
        });
        let below_high = self.high.as_ref().is_none_or(|high| match prefix_order(key, high) {
            Ordering::Less => true,
            Ordering::Equal => matches!(self.closed, Closed::Both | Closed::Right),
            Ordering::Greater => false,
        });
        above_low && below_high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_stay_in_commit_order_or_the_newest_wins() {
        let mut table = ModelTable::new(Shape::all()[4].clone());
        let row = |word: &str, n: i128| vec![Cell::Text(word.into()), Cell::Int(n)];
        table.append(&[row("b", 1), row("a", 2), row("b", 3)]);
        let numbers = |table: &ModelTable| -> Vec<Cell> {
            table.rows().iter().map(|row| row.cells[1].clone()).collect()
        };
        assert_eq!(numbers(&table), [Cell::Int(2), Cell::Int(1), Cell::Int(3)]);
        table.shape.policy = Policy::Upsert;
        assert_eq!(numbers(&table), [Cell::Int(2), Cell::Int(3)]);
        table.delete(&[vec![Cell::Text("b".into())]]);
        assert_eq!(numbers(&table), [Cell::Int(2)]);
        table.append(&[row("b", 4)]);
        assert_eq!(numbers(&table), [Cell::Int(2), Cell::Int(4)]);
    }

    #[test]
    fn events_of_one_second_fold_and_nulls_are_passed_over() {
        let shapes = Shape::all();
        let is_rollup = |shape: &&Shape| matches!(shape.policy, Policy::Rollup(_));
        let mut table = ModelTable::new(shapes.iter().find(is_rollup).unwrap().clone());
        let event = |at: i128, step: Cell, x: f64| {
            let (flag, big) = (Cell::Bool(true), Cell::Null);
            vec![Cell::Int(at), Cell::float(0.25), Cell::Null, flag, step, Cell::float(x), big]
        };
        table.append(&[
            event(1_999_999, Cell::Int(3), -0.0),
            event(1_000_000, Cell::Null, f64::NAN),
            event(1_000_001, Cell::Int(-5), 0.0),
            event(-1, Cell::Int(1), 0.0),
        ]);
        let rows = table.rows();
        assert_eq!(rows.iter().map(|row| row.events).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(rows[0].key, [Cell::Null, Cell::Int(-1_000_000), Cell::Bool(true)]);
        let metrics = [Cell::Int(3), Cell::Int(-2), Cell::float(0.75), Cell::float(-0.0)];
        assert_eq!(rows[1].cells[3..7], metrics);
        assert!(rows[1].cells[7].is_nan());
        assert_eq!(rows[1].cells[8..], [Cell::Null, Cell::Null]);
    }

    #[test]
    fn a_prefix_as_an_end_stands_for_every_key_that_begins_with_it() {
        let key = |a: &str, b: i128| vec![Cell::Text(a.into()), Cell::Int(b), Cell::Null];
        let end = Some(vec![Cell::Text("m".into())]);
        let contains =
            |closed, low, high, key: &[Cell]| ModelBetween { low, high, closed }.contains(key);
        for b in [-1, 7] {
            assert!(contains(Closed::Both, None, end.clone(), &key("m", b)));
            assert!(!contains(Closed::Left, None, end.clone(), &key("m", b)));
            assert!(!contains(Closed::Right, end.clone(), None, &key("m", b)));
            assert!(contains(Closed::Left, end.clone(), None, &key("m", b)));
            assert!(contains(Closed::Neither, end.clone(), None, &key("n", b)));
        }
    }
}

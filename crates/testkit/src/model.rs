//! The reference: a list of rows in commit order. Every answer comes from filtering and sorting all of
//! them.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use drillcore::Closed;

use crate::cell::{Cell, prefix_order};
use crate::shape::Shape;

/// One row: its key and all its values.
#[derive(Debug, PartialEq, Eq)]
pub struct ModelRow {
    pub key: Vec<Cell>,
    pub cells: Vec<Cell>,
}

/// One table.
#[derive(Debug, Clone)]
pub struct ModelTable {
    pub shape: Shape,
    /// In commit order.
    pub rows: Vec<Arc<ModelRow>>,
}

/// A key range in cells; an end is a key prefix.
#[derive(Debug, Clone)]
pub struct ModelBetween {
    pub low: Option<Vec<Cell>>,
    pub high: Option<Vec<Cell>>,
    pub closed: Closed,
}

/// Which rows a question is about.
#[derive(Debug, Clone, Default)]
pub struct ModelSelection {
    pub between: Option<ModelBetween>,
    pub sets: Option<Vec<Cell>>,
}

impl ModelTable {
    pub fn new(shape: Shape) -> ModelTable {
        ModelTable { shape, rows: Vec::new() }
    }

    pub fn append(&mut self, rows: &[Vec<Cell>]) {
        for row in rows {
            let (key, cells) = self.shape.stored(row);
            self.rows.push(Arc::new(ModelRow { key, cells }));
        }
    }

    /// All rows in key order, ties in commit order.
    pub fn sorted(&self) -> Vec<Arc<ModelRow>> {
        let mut rows = self.rows.clone();
        // The sort is stable, so ties stay as they are.
        rows.sort_by(|a, b| prefix_order(&a.key, &b.key));
        rows
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

    /// The newest row with a key.
    pub fn get(&self, key: &[Cell]) -> Option<&ModelRow> {
        let found = self.rows.iter().rev().find(|row| prefix_order(&row.key, key).is_eq());
        found.map(AsRef::as_ref)
    }

    /// Every value of the set column with its number of rows, in order.
    pub fn sets(&self) -> Vec<(Cell, u64)> {
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
        let column = self.shape.set.expect("sets are asked for where there are some");
        let mut counts: BTreeMap<Ordered, u64> = BTreeMap::new();
        for row in &self.rows {
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
    fn ties_stay_in_commit_order_and_the_newest_is_got() {
        let mut table = ModelTable::new(Shape::all()[4].clone());
        let row = |word: &str, n: i128| vec![Cell::Text(word.into()), Cell::Int(n)];
        table.append(&[row("b", 1), row("a", 2), row("b", 3)]);
        let numbers: Vec<Cell> = table.sorted().iter().map(|row| row.cells[1].clone()).collect();
        assert_eq!(numbers, [Cell::Int(2), Cell::Int(1), Cell::Int(3)]);
        assert_eq!(table.get(&[Cell::Text("b".into())]).unwrap().cells[1], Cell::Int(3));
        assert_eq!(table.get(&[Cell::Text("c".into())]), None);
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

//! What the draws so far say, by group.

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use drillcore_format::key::encode_value;
use drillcore_sample::interval::{BoundedNumbers, Bounds};
use drillcore_sample::moments::Moments;

use crate::error::{Error, ErrorKind, Result};
use crate::estimate::target::{KnownGroup, Target};

/// Counts and moments of each group met or known of.
pub struct Tally {
    by: Option<usize>,
    measures: Vec<usize>,
    /// What bounds each measure, if that is known.
    bounds: Vec<Option<Bounds>>,
    group_of: HashMap<Vec<u8>, usize>,
    groups: Vec<Group>,
    all_known: bool,
    /// Whether a row may be drawn that belongs to no group.
    is_tested: bool,
}

struct Group {
    /// The encoded value of the grouping column.
    value: Vec<u8>,
    drawn: u64,
    known_rows: Option<u64>,
    moments: Vec<Moments>,
    /// Of each measure that has bounds.
    bounded: Vec<Option<BoundedNumbers>>,
}

impl Tally {
    /// `bounds` are those of the measures.
    pub fn new(target: &Target, bounds: Vec<Option<Bounds>>) -> Tally {
        assert_eq!(bounds.len(), target.measures.len());
        let mut tally = Tally {
            by: target.by.as_ref().map(|(place, _)| *place),
            measures: target.measures.clone(),
            bounds,
            group_of: HashMap::new(),
            groups: Vec::new(),
            all_known: false,
            is_tested: target.is_tested(),
        };
        if tally.by.is_none() {
            tally.group(&[]);
        }
        tally
    }

    /// Lists all groups there are, with their exact numbers of rows.
    pub fn expect_groups(&mut self, groups: Vec<KnownGroup>) {
        for (value, rows) in groups {
            let group = self.group(&value);
            self.groups[group].known_rows = Some(rows);
        }
        self.all_known = true;
    }

    /// Adds drawn rows that pass, which hold the target's columns.
    ///
    /// # Errors
    /// `Corrupt` if a number lies outside of what bounds its column.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let group_of_row = self.group_of_rows(batch);
        for &group in &group_of_row {
            self.groups[group].drawn += 1;
        }
        for slot in 0..self.measures.len() {
            let values = batch.column(self.measures[slot]);
            let values =
                arrow_cast::cast(values, &DataType::Float64).expect("measures are numbers");
            let values = values.as_primitive::<Float64Type>();
            for (row, &group) in group_of_row.iter().enumerate() {
                if values.is_valid(row) {
                    let number = values.value(row);
                    check_bounds(number, self.bounds[slot])?;
                    self.groups[group].push(slot, number);
                }
            }
        }
        Ok(())
    }

    /// Whether there is one group, and every row belongs to it.
    pub fn counts_all(&self) -> bool {
        self.by.is_none() && !self.is_tested
    }

    /// Whether the rows of every group are known without drawing.
    pub fn knows_counts(&self) -> bool {
        self.all_known || self.counts_all()
    }

    /// How many groups there are, if that was known before drawing.
    pub fn known_groups(&self) -> Option<usize> {
        (self.all_known || self.by.is_none()).then_some(self.groups.len())
    }

    /// The groups of which at least so many numbers were drawn.
    pub fn groups_with(&self, slot: usize, count_min: u64) -> impl Iterator<Item = usize> + '_ {
        let count = move |group: &usize| self.groups[*group].moments[slot].count();
        (0..self.groups.len()).filter(move |group| count(group) >= count_min)
    }

    /// Group numbers in the order of their values.
    pub fn groups_in_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.groups.len()).collect();
        order.sort_unstable_by(|&a, &b| self.groups[a].value.cmp(&self.groups[b].value));
        order
    }

    pub fn value(&self, group: usize) -> &[u8] {
        &self.groups[group].value
    }

    pub fn drawn(&self, group: usize) -> u64 {
        self.groups[group].drawn
    }

    pub fn known_rows(&self, group: usize) -> Option<u64> {
        self.groups[group].known_rows
    }

    pub fn moments(&self, group: usize, slot: usize) -> &Moments {
        &self.groups[group].moments[slot]
    }

    /// The same numbers between their bounds, if these are known.
    pub fn bounded(&self, group: usize, slot: usize) -> Option<&BoundedNumbers> {
        self.groups[group].bounded[slot].as_ref()
    }

    /// The estimated share of rows in groups not met: Good (1953), the share of rows alone in their group.
    pub fn unseen_share(&self) -> f64 {
        let drawn: u64 = self.groups.iter().map(|group| group.drawn).sum();
        if self.all_known || self.by.is_none() || drawn == 0 {
            return 0.0;
        }
        let alone = self.groups.iter().filter(|group| group.drawn == 1).count();
        alone as f64 / drawn as f64
    }

    fn group_of_rows(&mut self, batch: &RecordBatch) -> Vec<usize> {
        let Some(by) = self.by else { return vec![0; batch.num_rows()] };
        let mut value = Vec::new();
        (0..batch.num_rows())
            .map(|row| {
                value.clear();
                encode_value(batch.column(by), row, &mut value);
                self.group(&value)
            })
            .collect()
    }

    fn group(&mut self, value: &[u8]) -> usize {
        if let Some(&group) = self.group_of.get(value) {
            return group;
        }
        self.groups.push(Group {
            value: value.to_vec(),
            drawn: 0,
            known_rows: None,
            moments: vec![Moments::new(); self.measures.len()],
            bounded: self.bounds.iter().map(|bounds| bounds.map(BoundedNumbers::new)).collect(),
        });
        self.group_of.insert(value.to_vec(), self.groups.len() - 1);
        self.groups.len() - 1
    }
}

/// Refuses a number that its column's bounds leave out: an interval would rest on them.
fn check_bounds(number: f64, bounds: Option<Bounds>) -> Result<()> {
    match bounds.filter(|bounds| !(bounds.low..=bounds.high).contains(&number)) {
        None => Ok(()),
        Some(Bounds { low, high }) => Err(Error::new(
            ErrorKind::Corrupt,
            format!(
                "statistics say {low} to {high} of a column, but a row has {number}: one of them is damaged"
            ),
        )),
    }
}

impl Group {
    fn push(&mut self, slot: usize, number: f64) {
        self.moments[slot].push(number);
        if let Some(bounded) = &mut self.bounded[slot] {
            bounded.push(number);
        }
    }
}

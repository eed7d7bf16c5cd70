//! What the rows read so far say, by group: rows drawn, and those of groups that are read whole.

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use drillcore_format::key::encode_value;
use drillcore_sample::interval::{BoundedNumbers, Bounds, Confidence, Design, NewGroups};
use drillcore_sample::moments::Moments;

use crate::error::{Error, ErrorKind, Result};
use crate::read::estimate::bounds::Known;
use crate::read::estimate::plan::{EstimatePlan, KnownGroup};

/// Counts and moments of each group met or known of.
pub struct Tally {
    by: Option<usize>,
    measures: Vec<usize>,
    /// What is known of each measure without drawing.
    known: Vec<Known>,
    group_of: HashMap<Vec<u8>, usize>,
    groups: Vec<Group>,
    new_groups: NewGroups,
    all_known: bool,
    /// Whether a row may be drawn that belongs to no group.
    is_tested: bool,
    /// Rows that were read without drawing, and whether these are all rows.
    scanned: u64,
    is_scanned: bool,
}

struct Group {
    /// The encoded value of the grouping column.
    value: Vec<u8>,
    drawn: u64,
    known_rows: Option<u64>,
    /// Whether its rows were read, instead of drawn.
    is_read: bool,
    moments: Vec<Moments>,
    /// Of each measure that has bounds.
    bounded: Vec<Option<BoundedNumbers>>,
}

impl Tally {
    /// `known` is what is known of the measures.
    pub fn new(plan: &EstimatePlan, known: Vec<Known>) -> Tally {
        assert_eq!(known.len(), plan.measures.len());
        let mut tally = Tally {
            by: plan.by.as_ref().map(|(place, _)| *place),
            measures: plan.measures.clone(),
            known,
            group_of: HashMap::new(),
            groups: Vec::new(),
            new_groups: NewGroups::default(),
            all_known: false,
            is_tested: plan.is_tested(),
            scanned: 0,
            is_scanned: false,
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

    /// Adds drawn rows that pass, which hold the plan's columns, in the order in which they were drawn. Of groups that are
    /// read whole they say nothing new.
    ///
    /// # Errors
    /// `Corrupt` if a number lies outside of what bounds its column.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let known = self.groups.len();
        self.take(batch, |group| !group.is_read)?;
        let new = (self.groups.len() - known) as u64;
        self.new_groups.push(batch.num_rows() as u64, new);
        Ok(())
    }

    /// Adds rows that were not drawn but read, of a group after [`Tally::read_whole`] or of all after
    /// [`Tally::read_all`].
    pub fn add_read(&mut self, batch: &RecordBatch) -> Result<()> {
        self.take(batch, |_| true)
    }

    /// Forgets what was drawn of some groups with a known number of rows: all of these will be read.
    pub fn read_whole(&mut self, groups: &[usize]) {
        for &group in groups {
            self.groups[group].begin_reading();
            self.scanned += self.groups[group].known_rows.expect("the set index knows its rows");
        }
    }

    /// Forgets what was drawn: all of so many rows will be read.
    pub fn read_all(&mut self, rows: u64) {
        self.groups.iter_mut().for_each(|group| group.begin_reading());
        self.scanned += rows;
        self.is_scanned = true;
    }

    /// Rows that were read without drawing.
    pub fn scanned(&self) -> u64 {
        self.scanned
    }

    /// Whether all rows were read.
    pub fn is_scanned(&self) -> bool {
        self.is_scanned
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

    /// The rows of a group that were drawn, or read.
    pub fn drawn(&self, group: usize) -> u64 {
        self.groups[group].drawn
    }

    pub fn known_rows(&self, group: usize) -> Option<u64> {
        self.groups[group].known_rows
    }

    /// Whether the rows of a group were read, instead of drawn.
    pub fn is_read(&self, group: usize) -> bool {
        self.groups[group].is_read || self.is_scanned
    }

    /// Whether no row of a group is left to draw.
    pub fn is_whole(&self, group: usize) -> bool {
        let Group { drawn, known_rows, .. } = self.groups[group];
        self.is_read(group) || known_rows == Some(drawn)
    }

    /// What the rows of a group were drawn from, if its rows are known.
    pub fn design(&self, group: usize) -> Option<Design> {
        let Group { drawn, known_rows, .. } = self.groups[group];
        known_rows.map(|rows| Design { population: Some(rows), drawn })
    }

    /// What is known of a measure without drawing.
    pub fn known(&self, slot: usize) -> Known {
        self.known[slot]
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
        if !self.may_miss_groups() || drawn == 0 {
            return 0.0;
        }
        let alone = self.groups.iter().filter(|group| group.drawn == 1).count();
        alone as f64 / drawn as f64
    }

    /// The upper end for that share, at all looks together.
    pub fn unseen_share_max(&self, confidence: Confidence) -> f64 {
        if self.may_miss_groups() { self.new_groups.unmet_share_max(confidence) } else { 0.0 }
    }

    fn may_miss_groups(&self) -> bool {
        self.known_groups().is_none() && !self.is_scanned
    }

    /// Adds the rows of those groups that take them.
    fn take(&mut self, batch: &RecordBatch, takes: impl Fn(&Group) -> bool) -> Result<()> {
        let group_of_row = self.group_of_rows(batch);
        for &group in &group_of_row {
            let group = &mut self.groups[group];
            group.drawn += u64::from(takes(group));
        }
        for slot in 0..self.measures.len() {
            let values = batch.column(self.measures[slot]);
            let values =
                arrow_cast::cast(values, &DataType::Float64).expect("measures are numbers");
            let values = values.as_primitive::<Float64Type>();
            for (row, &group) in group_of_row.iter().enumerate() {
                let group = &mut self.groups[group];
                if values.is_valid(row) && takes(group) {
                    let number = values.value(row);
                    check_bounds(number, self.known[slot])?;
                    group.push(slot, number);
                }
            }
        }
        Ok(())
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
            is_read: false,
            moments: vec![Moments::new(); self.measures.len()],
            bounded: self
                .known
                .iter()
                .map(|known| known.bounds().map(BoundedNumbers::new))
                .collect(),
        });
        self.group_of.insert(value.to_vec(), self.groups.len() - 1);
        self.groups.len() - 1
    }
}

/// Refuses a number that its column's bounds leave out: an interval would rest on them.
fn check_bounds(number: f64, known: Known) -> Result<()> {
    let found = match known {
        Known::Nothing => return Ok(()),
        Known::Between(Bounds { low, high }) if (low..=high).contains(&number) => return Ok(()),
        Known::Between(Bounds { low, high }) => format!("{low} to {high}"),
        Known::NoValues => "no values".to_string(),
    };
    let message = format!(
        "statistics say {found} of a column, but a row has {number}: one of them is damaged"
    );
    Err(Error::new(ErrorKind::Corrupt, message))
}

impl Group {
    fn push(&mut self, slot: usize, number: f64) {
        self.moments[slot].push(number);
        // Of all rows the mean is enough.
        if let Some(bounded) = self.bounded[slot].as_mut().filter(|_| !self.is_read) {
            bounded.push(number);
        }
    }

    fn begin_reading(&mut self) {
        self.is_read = true;
        self.drawn = 0;
        self.moments.fill(Moments::new());
        self.bounded.fill(None);
    }
}

//! What the rows read so far say, by group: rows drawn, and those of groups that are read whole.

use std::collections::HashMap;

use drillcore_format::key::encode_value;
use drillcore_sample::interval::{BoundedNumbers, Bounds, Confidence, Design, NewGroups};
use drillcore_sample::moments::Moments;
use drillcore_sample::pair_moments::PairMoments;

use crate::error::{Error, Result};
use crate::read::estimate::bounds::Known;
use crate::read::estimate::distinct::{Distinct, add_values};
use crate::read::estimate::numbers::{Numbers, Whole};
use crate::read::estimate::plan::{EstimatePlan, Input, KnownGroup, RowValues, Slot};
use crate::read::estimate::reading::{ReadGroups, nothing};
use crate::schema::number::{Number, each_number};

/// Counts and moments of each group met or known of.
pub struct Tally {
    by: Vec<usize>,
    slots: Vec<Slot>,
    /// What is known of each position without drawing.
    known: Vec<Known>,
    group_of: HashMap<Vec<u8>, usize>,
    groups: Vec<Group>,
    new_groups: NewGroups,
    all_known: bool,
    /// Whether a row may be drawn that belongs to no group.
    is_tested: bool,
    bounds_are_met: bool,
    /// Rows that were read without drawing, and whether these are all rows.
    scanned: u64,
    is_scanned: bool,
}

struct Group {
    /// The encoded values of the grouping columns, one after the other.
    value: Vec<u8>,
    drawn: u64,
    known_rows: Option<u64>,
    slots: Vec<Drawn>,
    /// What all its rows make of each slot, once they were read instead of drawn.
    read: Option<Vec<Whole>>,
}

/// What the rows drawn of a group make of a slot.
pub enum Drawn {
    Numbers(DrawnNumbers),
    Pair(Box<DrawnPairs>),
    Values(Distinct),
}

/// Numbers drawn.
pub struct DrawnNumbers {
    /// With moments.
    pub all: Numbers,
    /// The same between their bounds, if these are known.
    pub bounded: Option<BoundedNumbers>,
}

/// Upper and lower numbers drawn, 0 where a row lacks one.
pub struct DrawnPairs {
    pub pairs: PairMoments,
    pub sums: [Numbers; 2],
    /// Both filled up with zeros.
    pub filled: [Moments; 2],
    pub bounded: Option<[BoundedNumbers; 2]>,
}

impl Tally {
    /// `known` is what is known of the plan's positions.
    pub fn new(plan: &EstimatePlan, known: Vec<Known>) -> Tally {
        let mut tally = Tally {
            by: plan.by.iter().map(|(place, _)| *place).collect(),
            slots: plan.slots.clone(),
            known,
            group_of: HashMap::new(),
            groups: Vec::new(),
            new_groups: NewGroups::default(),
            all_known: false,
            is_tested: plan.is_tested(),
            bounds_are_met: plan.bounds_are_met,
            scanned: 0,
            is_scanned: false,
        };
        if tally.by.is_empty() {
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

    /// Adds drawn rows that pass, in the order in which they were drawn. Of groups that are read whole they say nothing new.
    ///
    /// # Errors
    /// `Corrupt` if a number lies outside of what bounds its column.
    pub fn add(&mut self, values: &RowValues) -> Result<()> {
        let known = self.groups.len();
        let group_of_row = self.group_of_rows(values);
        for &group in &group_of_row {
            let group = &mut self.groups[group];
            group.drawn += u64::from(group.read.is_none());
        }
        for at in 0..self.slots.len() {
            match self.slots[at].input {
                Input::Numbers(place) => self.add_numbers(at, place, &group_of_row, values)?,
                Input::Pair(..) => self.add_pairs(at, &group_of_row, values)?,
                Input::Values(place) => self.add_values(at, place, &group_of_row, values),
            }
        }
        let new = (self.groups.len() - known) as u64;
        self.new_groups.push(values.rows as u64, new);
        Ok(())
    }

    fn add_numbers(
        &mut self,
        at: usize,
        place: usize,
        groups: &[usize],
        values: &RowValues,
    ) -> Result<()> {
        let keeps = self.slots[at].keeps_drawn;
        let known = self.known[place];
        let mut checked = Ok(());
        each_number(&values.columns[place], |row, number| {
            let group = &mut self.groups[groups[row]];
            if group.read.is_some() || checked.is_err() {
                return;
            }
            let Drawn::Numbers(drawn) = &mut group.slots[at] else { unreachable!("of numbers") };
            checked = check_bounds(number, known);
            if checked.is_err() {
                return;
            }
            drawn.all.push(number);
            drawn.all.widen(number);
            let number = number.as_f64();
            drawn.all.moments.push(number);
            if keeps {
                drawn.all.keep(number);
            }
            if let Some(bounded) = &mut drawn.bounded {
                bounded.push(number);
            }
        });
        checked
    }

    fn add_pairs(&mut self, at: usize, groups: &[usize], values: &RowValues) -> Result<()> {
        let Input::Pair(upper, lower) = self.slots[at].input else { unreachable!("of pairs") };
        let mut numbers = vec![[None; 2]; values.rows];
        for (side, place) in [upper, lower].into_iter().enumerate() {
            each_number(&values.columns[place], |row, number| numbers[row][side] = Some(number));
        }
        for (&group, sides) in groups.iter().zip(numbers) {
            let group = &mut self.groups[group];
            if group.read.is_some() {
                continue;
            }
            let Drawn::Pair(drawn) = &mut group.slots[at] else { unreachable!("of pairs") };
            let filled = sides.map(|number| number.map_or(0.0, Number::as_f64));
            for (side, (number, filled)) in sides.into_iter().zip(filled).enumerate() {
                if let Some(number) = number {
                    check_bounds(number, self.known[[upper, lower][side]])?;
                    drawn.sums[side].push(number);
                }
                drawn.filled[side].push(filled);
                if let Some(bounded) = &mut drawn.bounded {
                    bounded[side].push(filled);
                }
            }
            let [x, y] = filled;
            drawn.pairs.push(x, y);
        }
        Ok(())
    }

    fn add_values(&mut self, at: usize, place: usize, groups: &[usize], values: &RowValues) {
        let keeps = self.slots[at].keeps_drawn;
        let group_of = |row: usize| groups[row];
        add_values(
            &values.columns[place],
            keeps,
            &mut self.groups,
            group_of,
            None,
            |group| match (&group.read, &mut group.slots[at]) {
                (None, Drawn::Values(distinct)) => Some(distinct),
                _ => None,
            },
        );
    }

    /// Takes rows that were read: of all groups, or of these, whose drawn rows are forgotten.
    ///
    /// # Errors
    /// `Corrupt` if a number lies outside of what bounds its column.
    pub fn take_read(&mut self, mut read: ReadGroups, only: Option<&[usize]>) -> Result<()> {
        for found in 0..read.values.len() {
            let group = self.group(&read.values[found]);
            let wholes = read.wholes_of(found);
            self.check_wholes(&wholes)?;
            let rows = read.rows[found];
            let group = &mut self.groups[group];
            group.drawn = rows;
            group.read = Some(wholes);
            self.scanned += rows;
        }
        // A group of which there is no row after all.
        let slots = &self.slots;
        let empty = || slots.iter().map(|slot| nothing(slot.input)).collect();
        let is_meant = |group: usize| only.is_none_or(|only| only.contains(&group));
        for (number, group) in self.groups.iter_mut().enumerate() {
            if group.read.is_none() && is_meant(number) {
                group.drawn = 0;
                group.read = Some(empty());
            }
        }
        Ok(())
    }

    /// Notes that all `rows` rows were read, including those that belong to no group.
    pub fn end_scan(&mut self, rows: u64) {
        self.scanned = rows;
        self.is_scanned = true;
        // What a set index knew is known now.
        self.groups
            .retain(|group| group.drawn > 0 || group.known_rows.is_some() || self.by.is_empty());
        let places = self.groups.iter().enumerate();
        self.group_of = places.map(|(at, group)| (group.value.clone(), at)).collect();
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
        self.by.is_empty() && !self.is_tested
    }

    /// Whether the rows of every group are known without drawing.
    pub fn knows_counts(&self) -> bool {
        self.all_known || self.counts_all()
    }

    /// How many groups there are, if that was known before drawing.
    pub fn known_groups(&self) -> Option<usize> {
        (self.all_known || self.by.is_empty()).then_some(self.groups.len())
    }

    /// The groups of which at least `count_min` values were drawn.
    pub fn groups_with(&self, slot: usize, count_min: u64) -> impl Iterator<Item = usize> + '_ {
        (0..self.groups.len()).filter(move |&group| self.count(group, slot) >= count_min)
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

    /// What all rows of a group make of a slot, if they were read.
    pub fn whole(&self, group: usize, slot: usize) -> Option<&Whole> {
        self.groups[group].read.as_ref().map(|wholes| &wholes[slot])
    }

    /// Whether the rows of a group were read, instead of drawn.
    pub fn is_read(&self, group: usize) -> bool {
        self.groups[group].read.is_some()
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

    /// What is known of the numbers of a slot; of a ratio, of the upper ones if both are bounded.
    pub fn known_of(&self, slot: usize) -> Known {
        match self.slots[slot].input {
            Input::Numbers(place) => self.known[place],
            Input::Values(_) => Known::Nothing,
            Input::Pair(upper, lower) => match (self.known[upper], self.known[lower]) {
                (Known::Nothing, _) | (_, Known::Nothing) => Known::Nothing,
                (upper, _) => upper,
            },
        }
    }

    /// Whether the bounds of a slot are values that some row has.
    pub fn bounds_are_met(&self, slot: usize) -> bool {
        self.bounds_are_met && self.counts_all() && self.slots[slot].is_stored
    }

    pub fn may_lack(&self, slot: usize) -> bool {
        self.slots[slot].may_lack
    }

    pub fn slot_drawn(&self, group: usize, slot: usize) -> &Drawn {
        &self.groups[group].slots[slot]
    }

    /// Values that were met: of a ratio, rows.
    pub fn count(&self, group: usize, slot: usize) -> u64 {
        if let Some(whole) = self.whole(group, slot) {
            return match whole {
                Whole::Numbers(numbers) => numbers.count,
                Whole::Pair(pair) => pair[0].count.min(pair[1].count),
                Whole::Values(values) => values.count,
            };
        }
        match &self.groups[group].slots[slot] {
            Drawn::Numbers(drawn) => drawn.all.count,
            Drawn::Pair(drawn) => drawn.pairs.count(),
            Drawn::Values(distinct) => distinct.count,
        }
    }

    /// The moments of the numbers drawn of a slot; of a ratio, of how far its upper numbers are from what the ratio says.
    pub fn moments(&self, group: usize, slot: usize) -> Moments {
        match &self.groups[group].slots[slot] {
            Drawn::Numbers(drawn) => drawn.all.moments,
            Drawn::Pair(drawn) => drawn.pairs.residual(drawn.pairs.ratio()),
            Drawn::Values(_) => Moments::new(),
        }
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

    fn group_of_rows(&mut self, values: &RowValues) -> Vec<usize> {
        if self.by.is_empty() {
            return vec![0; values.rows];
        }
        let mut value = Vec::new();
        (0..values.rows)
            .map(|row| {
                value.clear();
                for &place in &self.by {
                    encode_value(&values.columns[place], row, &mut value);
                }
                self.group(&value)
            })
            .collect()
    }

    fn group(&mut self, value: &[u8]) -> usize {
        if let Some(&group) = self.group_of.get(value) {
            return group;
        }
        let slots = self.slots.iter().map(|slot| self.nothing_drawn(slot)).collect();
        let value = value.to_vec();
        self.groups.push(Group {
            value: value.clone(),
            drawn: 0,
            known_rows: None,
            slots,
            read: None,
        });
        self.group_of.insert(value, self.groups.len() - 1);
        self.groups.len() - 1
    }

    fn nothing_drawn(&self, slot: &Slot) -> Drawn {
        let bounds = |place: usize| self.known[place].bounds();
        match slot.input {
            Input::Numbers(place) => Drawn::Numbers(DrawnNumbers {
                all: Numbers::default(),
                bounded: bounds(place).map(BoundedNumbers::new),
            }),
            Input::Values(_) => Drawn::Values(Distinct::default()),
            Input::Pair(upper, lower) => {
                let filled = |place: usize| {
                    let Bounds { low, high } = bounds(place)?;
                    let bounds = if slot.may_lack {
                        Bounds { low: low.min(0.0), high: high.max(0.0) }
                    } else {
                        Bounds { low, high }
                    };
                    Some(BoundedNumbers::new(bounds))
                };
                Drawn::Pair(Box::new(DrawnPairs {
                    pairs: PairMoments::new(),
                    sums: Default::default(),
                    filled: Default::default(),
                    bounded: filled(upper).zip(filled(lower)).map(|(x, y)| [x, y]),
                }))
            }
        }
    }

    /// Refuses numbers that were read and lie outside of their bounds, as far as their extremes are known.
    fn check_wholes(&self, wholes: &[Whole]) -> Result<()> {
        let check = |numbers: &Numbers, place: usize| match numbers.extremes() {
            None => Ok(()),
            Some((least, most)) => {
                check_bounds(least, self.known[place])?;
                check_bounds(most, self.known[place])
            }
        };
        for (slot, whole) in self.slots.iter().zip(wholes) {
            match (slot.input, whole) {
                (Input::Numbers(place), Whole::Numbers(numbers)) => check(numbers, place)?,
                (Input::Pair(upper, lower), Whole::Pair(pair)) => {
                    check(&pair[0], upper)?;
                    check(&pair[1], lower)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Refuses a number that its column's bounds leave out: an interval would rest on them.
fn check_bounds(number: Number, known: Known) -> Result<()> {
    let found = match known {
        Known::Nothing => return Ok(()),
        Known::Between(low, high) if low.most(number) == number && high.least(number) == number => {
            return Ok(());
        }
        Known::Between(low, high) => format!("{low} to {high}"),
        Known::NoValues => "no values".to_string(),
    };
    Err(Error::damaged(format_args!(
        "statistics say {found} of a column, but a row has {number}: one of them is damaged"
    )))
}

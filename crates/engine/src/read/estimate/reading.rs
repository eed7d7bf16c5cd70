//! [`ReadGroups`]: rows that are read, not drawn, by group. What they say is exact.
//!
//! Several threads fill one each; then they are joined.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int8Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType};
use arrow_schema::DataType;
use drillcore_format::key::{encode_value, leading_word};
use foldhash::fast::FixedState;

use crate::read::estimate::distinct::{Distinct, add_values};
use crate::read::estimate::numbers::{Numbers, Whole};
use crate::read::estimate::plan::{EstimatePlan, Input, RowValues, Slot};
use crate::read::estimate::recent::{RECENT, recent_place};
use crate::schema::number::{Number, each_number, each_valid};

/// Rows of a batch that a group must have on average, so that batches are added up apart.
const ROWS_PER_SUM: usize = 8;
/// Sums of each group while a batch is added up: additions to one do not wait for those to another.
const LANES: usize = 4;
/// Numbers below this are looked up by a list.
const SMALL: usize = 4096;
/// No group.
const NONE: u32 = u32::MAX;

/// Figures of all groups that were met.
pub struct ReadGroups {
    by: Vec<usize>,
    group_of: HashMap<Vec<u8>, u32, FixedState>,
    /// What a group of the first kind of column is called before it is encoded: most rows are of a group that was met.
    known: KnownValues,
    pub values: Vec<Vec<u8>>,
    pub rows: Vec<u64>,
    slots: Vec<Slot>,
    /// Slot by slot, one per group.
    wholes: Vec<Vec<Whole>>,
}

/// Groups by the bits of an integer, or by the bytes of a text.
#[derive(Default)]
struct KnownValues {
    /// Groups of small numbers.
    small: Vec<u32>,
    /// Other numbers that were met last with their groups, each at a place of its bits: mostly one look.
    recent: Vec<(u64, u32)>,
    numbers: HashMap<u64, u32, FixedState>,
    /// Texts of up to sixteen bytes that were met last, by these and their length.
    recent_texts: Vec<(u128, u32, u32)>,
    texts: HashMap<Vec<u8>, u32, FixedState>,
}

impl KnownValues {
    /// The place for the group of a small number.
    #[inline]
    fn small(&mut self, number: u64) -> Option<&mut u32> {
        usize::try_from(number).ok().and_then(|number| self.small.get_mut(number))
    }
}

impl ReadGroups {
    pub fn new(plan: &EstimatePlan) -> ReadGroups {
        let mut groups = ReadGroups {
            by: plan.by.iter().map(|(place, _)| *place).collect(),
            group_of: HashMap::default(),
            known: KnownValues::default(),
            values: Vec::new(),
            rows: Vec::new(),
            slots: plan.slots.clone(),
            wholes: plan.slots.iter().map(|_| Vec::new()).collect(),
        };
        if groups.by.is_empty() {
            groups.group(Vec::new());
        }
        groups
    }

    /// The figures of a group, slot by slot.
    pub fn wholes_of(&mut self, group: usize) -> Vec<Whole> {
        let empty = |slot: &Slot| nothing(slot.input);
        let slots = self.wholes.iter_mut().zip(&self.slots);
        slots.map(|(of_slot, slot)| std::mem::replace(&mut of_slot[group], empty(slot))).collect()
    }

    /// Adds rows that count.
    pub fn add(&mut self, values: &RowValues) {
        let (group_of_row, times) = (self.group_of_rows(values), values.times());
        let group_of_row = group_of_row.as_deref();
        // Rows of each group in this batch, where they are added up apart.
        let counts = match (group_of_row, times) {
            (Some(groups), None) if self.values.len() <= groups.len() / ROWS_PER_SUM => {
                Some(rows_by_group(groups, self.values.len()))
            }
            _ => None,
        };
        match (group_of_row, &counts) {
            (None, _) => self.rows[0] += values.count(),
            (_, Some(counts)) => {
                self.rows.iter_mut().zip(counts).for_each(|(rows, count)| *rows += count);
            }
            (Some(groups), None) => {
                for (row, &group) in groups.iter().enumerate() {
                    self.rows[group as usize] += times.map_or(1, |times| times[row]);
                }
            }
        }
        for (slot, wholes) in self.slots.iter().zip(&mut self.wholes) {
            let is_taken = match (group_of_row, &counts) {
                (None, _) => times.is_none() && take_floats(slot, &mut wholes[0], values),
                (Some(groups), Some(counts)) => {
                    take_floats_by_group(slot, wholes, groups, counts, values)
                }
                _ => false,
            };
            if is_taken {
                continue;
            }
            match slot.input {
                Input::Numbers(place) => {
                    each_number(&values.columns[place], |row, number| {
                        let Whole::Numbers(numbers) = &mut wholes[group_at(group_of_row, row)]
                        else {
                            unreachable!("the slot is of numbers")
                        };
                        match times {
                            None => take(numbers, slot, number),
                            Some(times) => numbers.push_repeated(number, times[row], slot),
                        }
                    });
                }
                Input::Pair(upper, lower) => {
                    for (at, place) in [upper, lower].into_iter().enumerate() {
                        each_number(&values.columns[place], |row, number| {
                            let Whole::Pair(pair) = &mut wholes[group_at(group_of_row, row)] else {
                                unreachable!("the slot is of pairs")
                            };
                            match times {
                                None => pair[at].push(number),
                                Some(times) => pair[at].push_repeated(number, times[row], slot),
                            }
                        });
                    }
                }
                Input::Values(place) => {
                    let group_of = |row: usize| group_at(group_of_row, row);
                    let column = &values.columns[place];
                    add_values(column, slot.keeps_read, wholes, group_of, times, values_of);
                }
            }
        }
    }

    /// Takes what another has read.
    pub fn merge(&mut self, mut other: ReadGroups) {
        for theirs in 0..other.values.len() {
            let group = self.group(std::mem::take(&mut other.values[theirs])) as usize;
            self.rows[group] += other.rows[theirs];
            for (of_slot, whole) in self.wholes.iter_mut().zip(other.wholes_of(theirs)) {
                of_slot[group].merge(whole);
            }
        }
    }

    /// The group of each row; `None` where there is one only.
    fn group_of_rows(&mut self, values: &RowValues) -> Option<Vec<u32>> {
        if self.by.is_empty() {
            return None;
        }
        if let [place] = self.by[..] {
            let column = &values.columns[place];
            match column.data_type() {
                DataType::Utf8 => return Some(self.of_texts(column)),
                DataType::Int64 => return Some(self.of_bits::<Int64Type>(column, |x| x as u64)),
                DataType::Int32 => return Some(self.of_bits::<Int32Type>(column, |x| x as u64)),
                DataType::Int16 => return Some(self.of_bits::<Int16Type>(column, |x| x as u64)),
                DataType::Int8 => return Some(self.of_bits::<Int8Type>(column, |x| x as u64)),
                _ => {}
            }
        }
        let mut groups: Vec<u32> = Vec::with_capacity(values.rows);
        let (mut value, mut last) = (Vec::new(), Vec::new());
        for row in 0..values.rows {
            value.clear();
            for &place in &self.by {
                encode_value(&values.columns[place], row, &mut value);
            }
            let group = match groups.last() {
                Some(&group) if value == last => group,
                _ => self.group_of(&value),
            };
            groups.push(group);
            std::mem::swap(&mut value, &mut last);
        }
        Some(groups)
    }

    fn of_texts(&mut self, column: &ArrayRef) -> Vec<u32> {
        let texts = column.as_string::<i32>();
        self.known.recent_texts.resize(RECENT, (0, 0, NONE));
        let nulls = texts.nulls().filter(|nulls| nulls.null_count() > 0);
        let mut groups: Vec<u32> = Vec::with_capacity(texts.len());
        let mut last = (0, 0, NONE);
        for row in 0..texts.len() {
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                groups.push(self.of_encoded(column, row));
                continue;
            }
            let text = texts.value(row).as_bytes();
            if text.len() > size_of::<u128>() {
                groups.push(self.of_text(text, column, row));
                continue;
            }
            let (word, len) = (leading_word(text), text.len() as u32);
            let is_it = |(known, of_len, group): (u128, u32, u32)| {
                known == word && of_len == len && group != NONE
            };
            // Often many rows of a group come one after the other.
            if !is_it(last) {
                let place = recent_place((word >> 64) as u64 ^ word as u64);
                last = self.known.recent_texts[place];
                if !is_it(last) {
                    last = (word, len, self.of_text(text, column, row));
                    self.known.recent_texts[place] = last;
                }
            }
            groups.push(last.2);
        }
        groups
    }

    fn of_text(&mut self, text: &[u8], column: &ArrayRef, row: usize) -> u32 {
        if let Some(&group) = self.known.texts.get(text) {
            return group;
        }
        let group = self.of_encoded(column, row);
        self.known.texts.insert(text.to_vec(), group);
        group
    }

    fn of_bits<T: ArrowPrimitiveType>(
        &mut self,
        column: &ArrayRef,
        bits: impl Fn(T::Native) -> u64,
    ) -> Vec<u32> {
        let numbers = column.as_primitive::<T>();
        self.known.small.resize(SMALL, NONE);
        self.known.recent.resize(RECENT, (0, NONE));
        let nulls = numbers.nulls().filter(|nulls| nulls.null_count() > 0);
        let mut groups: Vec<u32> = Vec::with_capacity(numbers.len());
        for (row, &number) in numbers.values().iter().enumerate() {
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                groups.push(self.of_encoded(column, row));
                continue;
            }
            let number = bits(number);
            let group = match self.known.small(number) {
                Some(group) => *group,
                None => match self.known.recent[recent_place(number)] {
                    (known, group) if known == number => group,
                    _ => NONE,
                },
            };
            groups.push(if group == NONE { self.of_number(number, column, row) } else { group });
        }
        groups
    }

    fn of_number(&mut self, number: u64, column: &ArrayRef, row: usize) -> u32 {
        let group = match self.known.numbers.get(&number) {
            Some(&group) => group,
            None => {
                let group = self.of_encoded(column, row);
                self.known.numbers.insert(number, group);
                group
            }
        };
        match self.known.small(number) {
            Some(small) => *small = group,
            None => self.known.recent[recent_place(number)] = (number, group),
        }
        group
    }

    fn of_encoded(&mut self, column: &ArrayRef, row: usize) -> u32 {
        let mut value = Vec::new();
        encode_value(column, row, &mut value);
        self.group(value)
    }

    fn group_of(&mut self, value: &[u8]) -> u32 {
        match self.group_of.get(value) {
            Some(&group) => group,
            None => self.group(value.to_vec()),
        }
    }

    fn group(&mut self, value: Vec<u8>) -> u32 {
        if let Some(&group) = self.group_of.get(&value) {
            return group;
        }
        let group = u32::try_from(self.values.len()).expect("fewer groups than rows");
        self.values.push(value.clone());
        self.rows.push(0);
        for (slot, wholes) in self.slots.iter().zip(&mut self.wholes) {
            wholes.push(nothing(slot.input));
        }
        self.group_of.insert(value, group);
        group
    }
}

/// Takes the floats of rows of one group, many at once; says whether that is what the slot is of.
fn take_floats(slot: &Slot, whole: &mut Whole, values: &RowValues) -> bool {
    match (slot.input, whole) {
        (Input::Numbers(place), Whole::Numbers(numbers)) => match floats(&values.columns[place]) {
            None => false,
            Some(floats) => {
                numbers.push_floats(&floats, slot);
                true
            }
        },
        (Input::Pair(upper, lower), Whole::Pair(pair)) => {
            match [upper, lower].map(|place| floats(&values.columns[place])) {
                [Some(upper), Some(lower)] => {
                    pair[0].push_floats(&upper, slot);
                    pair[1].push_floats(&lower, slot);
                    true
                }
                _ => false,
            }
        }
        _ => false,
    }
}

/// Takes the floats of rows of several groups, those of each many at once; says whether that is what the slot is of. `counts`
/// are the rows of each group. Where groups have few rows of a batch each, that is not worth it.
fn take_floats_by_group(
    slot: &Slot,
    wholes: &mut [Whole],
    groups: &[u32],
    counts: &[u64],
    values: &RowValues,
) -> bool {
    let by_group = |place: usize| FloatsByGroup::of(&values.columns[place], groups, counts);
    match slot.input {
        Input::Numbers(place) => {
            let Some(floats) = by_group(place) else { return false };
            for (whole, floats) in wholes.iter_mut().zip(floats.groups()) {
                let Whole::Numbers(numbers) = whole else { unreachable!("the slot is of numbers") };
                numbers.push_floats(floats, slot);
            }
        }
        Input::Pair(upper, lower) => {
            let [Some(upper), Some(lower)] = [upper, lower].map(by_group) else { return false };
            for ((whole, upper), lower) in wholes.iter_mut().zip(upper.groups()).zip(lower.groups())
            {
                let Whole::Pair(pair) = whole else { unreachable!("the slot is of pairs") };
                pair[0].push_floats(upper, slot);
                pair[1].push_floats(lower, slot);
            }
        }
        Input::Values(_) => return false,
    }
    true
}

/// The floats of a batch that are not null, group after group.
struct FloatsByGroup {
    floats: Vec<f64>,
    /// Where those of each group lie.
    spans: Vec<Range<usize>>,
}

impl FloatsByGroup {
    /// Places each behind those of its group that came before. `None` if the column has other values. O(rows + groups).
    fn of(column: &ArrayRef, groups: &[u32], counts: &[u64]) -> Option<FloatsByGroup> {
        let column = column.as_primitive_opt::<Float64Type>()?;
        let mut begin = 0;
        let room = |&count: &u64| {
            let empty = begin..begin;
            begin += count as usize;
            empty
        };
        let mut spans: Vec<Range<usize>> = counts.iter().map(room).collect();
        let mut floats = vec![0.0; column.len()];
        each_valid(column, |row, float| {
            let span = &mut spans[groups[row] as usize];
            floats[span.end] = float;
            span.end += 1;
        });
        Some(FloatsByGroup { floats, spans })
    }

    fn groups(&self) -> impl Iterator<Item = &[f64]> {
        self.spans.iter().map(|span| &self.floats[span.clone()])
    }
}

/// How many rows are of each group.
fn rows_by_group(groups: &[u32], group_count: usize) -> Vec<u64> {
    let mut lanes = vec![[0u64; LANES]; group_count];
    for (row, &group) in groups.iter().enumerate() {
        lanes[group as usize][row % LANES] += 1;
    }
    lanes.into_iter().map(|lanes| lanes.iter().sum()).collect()
}

/// The values of a column of floats that are not null.
fn floats(column: &ArrayRef) -> Option<Cow<'_, [f64]>> {
    let floats = column.as_primitive_opt::<Float64Type>()?;
    Some(match floats.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => Cow::Borrowed(&floats.values()[..]),
        Some(nulls) => nulls.valid_indices().map(|row| floats.value(row)).collect(),
    })
}

fn values_of(whole: &mut Whole) -> Option<&mut Distinct> {
    match whole {
        Whole::Values(distinct) => Some(distinct),
        _ => unreachable!("the slot is of values"),
    }
}

#[inline]
fn group_at(groups: Option<&[u32]>, row: usize) -> usize {
    groups.map_or(0, |groups| groups[row] as usize)
}

/// What no rows make of an input.
pub fn nothing(input: Input) -> Whole {
    match input {
        Input::Numbers(_) => Whole::Numbers(Numbers::default()),
        Input::Pair(..) => Whole::Pair(Box::default()),
        Input::Values(_) => Whole::Values(Distinct::default()),
    }
}

#[inline]
fn take(numbers: &mut Numbers, slot: &Slot, number: Number) {
    numbers.push(number);
    if slot.extremes {
        numbers.widen(number);
    }
    if slot.squares {
        numbers.moments.push(number.as_f64());
    }
    if slot.keeps_read {
        numbers.keep(number.as_f64());
    }
}

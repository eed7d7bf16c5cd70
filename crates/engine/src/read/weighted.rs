//! A selection's rows in proportion to a weight column.
//!
//! Weights are integers, so all units of weight of a selection are numbered through, a unit is drawn
//! uniformly, and the row that holds it is found by running sums: exactly proportional, a few searches a
//! draw. Inside a set the members' weights are read and added up once a selection.

use std::collections::HashSet;
use std::sync::Arc;

use drillcore_format::rows::Layout;
use drillcore_format::weight::stored_units;
use drillcore_sample::rng::Rng;

use crate::calls::interrupt::Interrupt;
use crate::error::{Error, ErrorKind, Result};
use crate::pieces::weight_index::no_weight;
use crate::select::selection::{Part, Place, Selected};

/// The weight of a rollup table's rows: their numbers of events.
pub(crate) const EVENTS: usize = 0;
/// Tries per row after which draws by rejection are given up.
const TRIES: usize = 16;
/// Members whose weights are read at once.
const CHUNK: usize = 4096;

/// A selection with the weights of its parts.
pub struct Weighted {
    selected: Arc<Selected>,
    weight: usize,
    parts: Vec<PartWeight>,
    /// The sum over the parts before each, then over all.
    starts: Vec<u128>,
}

enum PartWeight {
    /// An interval of ordinals, before which the piece holds so many units.
    Interval { before: u128 },
    /// The running sums of the members, one a member.
    Members { ends: Vec<u128> },
}

impl Weighted {
    /// Weighs a selection by the `weight`-th weight column of the table. On disk two ends of an interval
    /// cost an index page and a block each; a set costs its members.
    pub fn new(
        selected: Arc<Selected>,
        layout: &Layout,
        weight: usize,
        interrupt: &Interrupt,
    ) -> Result<Weighted> {
        let mut parts = Vec::with_capacity(selected.parts().len());
        let mut starts = vec![0u128];
        for part in selected.parts() {
            let piece = &selected.pieces()[part.piece];
            let (part, sum) = match part.members {
                None => {
                    let before = piece.weight_before(weight, part.from)?;
                    let sum = piece.weight_before(weight, part.to)? - before;
                    (PartWeight::Interval { before }, sum)
                }
                Some(_) => {
                    let ends = member_sums(&selected, part, layout, weight, interrupt)?;
                    let sum = ends.last().copied().unwrap_or(0);
                    (PartWeight::Members { ends }, sum)
                }
            };
            starts.push(starts[starts.len() - 1] + sum);
            parts.push(part);
        }
        Ok(Weighted { selected, weight, parts, starts })
    }

    pub fn selected(&self) -> &Selected {
        &self.selected
    }

    /// The units of all rows.
    pub fn total(&self) -> u128 {
        self.starts[self.starts.len() - 1]
    }

    /// The units of all rows of a rollup table, which are events.
    ///
    /// # Errors
    /// `Corrupt` if they are more than there can be.
    pub fn events(&self) -> Result<u64> {
        u64::try_from(self.total()).map_err(|_| {
            let message = format!("partial rows have {} events: they are damaged", self.total());
            Error::new(ErrorKind::Corrupt, message)
        })
    }

    /// Draws a row with the chance of its weight, and says how many units it has. The total must be
    /// above 0.
    pub fn draw(&self, rng: &mut Rng) -> Result<(Place, u128)> {
        self.at(rng.below_u128(self.total()))
    }

    /// The row that holds a unit below the total, and how many it has.
    pub fn at(&self, unit: u128) -> Result<(Place, u128)> {
        let number = self.starts.partition_point(|&start| start <= unit) - 1;
        let part = &self.selected.parts()[number];
        let piece = &self.selected.pieces()[part.piece];
        let unit = unit - self.starts[number];
        let (ordinal, units) = match &self.parts[number] {
            PartWeight::Interval { before } => piece.row_of_weight(self.weight, before + unit)?,
            PartWeight::Members { ends } => {
                let member = ends.partition_point(|&end| end <= unit);
                let before = member.checked_sub(1).map_or(0, |previous| ends[previous]);
                (part.ordinal(piece, part.from + member as u64)?, ends[member] - before)
            }
        };
        Ok((Place { piece: part.piece, ordinal: ordinal as u32 }, units))
    }

    /// Draws up to `n` different rows by successive draws, those in `places` first: each with the chance of its
    /// weight among the rows not drawn yet. Fewer come back where fewer have a weight above 0.
    ///
    /// A row that comes again is drawn anew, which is the same as drawing among the others. Once that
    /// takes too many tries, the weights of all rows are read and drawn from without rejection.
    pub fn draw_different(
        &self,
        rng: &mut Rng,
        mut places: Vec<Place>,
        n: usize,
        layout: &Layout,
        interrupt: &Interrupt,
    ) -> Result<Vec<Place>> {
        let mut drawn: HashSet<Place> = places.iter().copied().collect();
        if self.total() == 0 {
            return Ok(places);
        }
        // Past as many tries as there are rows, reading all their weights costs less.
        let rows = usize::try_from(self.selected.len()).unwrap_or(usize::MAX);
        for attempt in 0..n.saturating_mul(TRIES).min(rows) {
            if places.len() == n {
                return Ok(places);
            }
            if attempt % Interrupt::LOOKUPS == 0 {
                interrupt.check()?;
            }
            let (place, _) = self.draw(rng)?;
            if drawn.insert(place) {
                places.push(place);
            }
        }
        if places.len() == n {
            return Ok(places);
        }
        let mut rest = self.remaining(&drawn, layout, interrupt)?;
        while places.len() < n && rest.total() > 0 {
            if places.len().is_multiple_of(CHUNK) {
                interrupt.check()?;
            }
            places.push(rest.draw(rng));
        }
        Ok(places)
    }

    /// Every row with a weight that was not drawn yet.
    fn remaining(
        &self,
        drawn: &HashSet<Place>,
        layout: &Layout,
        interrupt: &Interrupt,
    ) -> Result<UnitTree> {
        let mut rest = Vec::new();
        for part in self.selected.parts() {
            for_each_weight(
                &self.selected,
                part,
                layout,
                self.weight,
                interrupt,
                |place, unit| {
                    if unit > 0 && !drawn.contains(&place) {
                        rest.push((place, unit));
                    }
                },
            )?;
        }
        Ok(UnitTree::new(rest))
    }
}

/// Places with their units in a Fenwick tree: drawing one and taking it out costs O(log places).
struct UnitTree {
    places: Vec<(Place, u64)>,
    /// `sums[i]` covers the lowest set bit of `i` places up to the `i`-th, counted from 1.
    sums: Vec<u128>,
    total: u128,
}

impl UnitTree {
    fn new(places: Vec<(Place, u64)>) -> UnitTree {
        let mut sums = vec![0u128; places.len() + 1];
        let mut total = 0;
        for (i, (_, unit)) in places.iter().enumerate() {
            total += u128::from(*unit);
            sums[i + 1] += u128::from(*unit);
            let parent = (i + 1) + ((i + 1) & (i + 1).wrapping_neg());
            if parent < sums.len() {
                sums[parent] += sums[i + 1];
            }
        }
        UnitTree { places, sums, total }
    }

    fn total(&self) -> u128 {
        self.total
    }

    fn draw(&mut self, rng: &mut Rng) -> Place {
        let mut unit = rng.below_u128(self.total);
        let mut at = 0;
        let mut step = (self.sums.len() - 1).next_power_of_two();
        while step > 0 {
            if at + step < self.sums.len() && self.sums[at + step] <= unit {
                at += step;
                unit -= self.sums[at];
            }
            step /= 2;
        }
        let (place, weight) = self.places[at];
        let mut node = at + 1;
        while node < self.sums.len() {
            self.sums[node] -= u128::from(weight);
            node += node & node.wrapping_neg();
        }
        self.total -= u128::from(weight);
        place
    }
}

fn member_sums(
    selected: &Selected,
    part: &Part,
    layout: &Layout,
    weight: usize,
    interrupt: &Interrupt,
) -> Result<Vec<u128>> {
    let mut ends = Vec::with_capacity(part.len() as usize);
    let mut sum = 0u128;
    for_each_weight(selected, part, layout, weight, interrupt, |_, unit| {
        sum += u128::from(unit);
        ends.push(sum);
    })?;
    Ok(ends)
}

/// Reads the weights of a part's rows, in order.
fn for_each_weight(
    selected: &Selected,
    part: &Part,
    layout: &Layout,
    weight: usize,
    interrupt: &Interrupt,
    mut each: impl FnMut(Place, u64),
) -> Result<()> {
    let value = layout.weight_values().nth(weight).expect("the weight was looked up");
    let projection = layout.stored(false, vec![value]);
    let piece = &selected.pieces()[part.piece];
    let (mut from, mut ordinals) = (part.from, Vec::new());
    while from < part.to {
        interrupt.check()?;
        let to = part.to.min(from + CHUNK as u64);
        ordinals.clear();
        part.ordinals(piece, from..to, &mut ordinals)?;
        let rows = match part.members {
            None => piece.read(from, to, &projection)?,
            Some(_) => piece.fetch(&ordinals, &projection, interrupt)?,
        };
        let units = stored_units(rows.value(0)).map_err(no_weight)?;
        for (&ordinal, unit) in ordinals.iter().zip(units) {
            each(Place { piece: part.piece, ordinal }, unit);
        }
        from = to;
    }
    Ok(())
}

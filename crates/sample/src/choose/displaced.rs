//! [`Displaced`]: the part of a shuffled array that differs from `[0, 1, 2, ..]`.
//!
//! A shuffle that has drawn `front` numbers needs the places from `front` on. Most still hold their own
//! number; this stores the others, in the form that is smallest for how many there are.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::rng::mix64;

/// How many displaced numbers are kept without touching the heap: a linear search among them is a few cache lines.
const FEW: usize = 16;

/// Past this share of the population an array of all the rest (8 bytes a place) takes no more memory than a hash
/// table over the drawn (19 to 39 bytes an entry), so the table is given up.
const DENSE_SHARE: u64 = 4;

/// Place -> number, for places at or past the front that do not hold their own number.
#[derive(Debug, Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "a box would put the few on the heap, which is what they are to avoid"
)]
pub(super) enum Displaced {
    /// The first `len` entries are (place, number) in no order.
    Few {
        entries: [(u64, u64); FEW],
        len: usize,
    },
    Sparse(HashMap<u64, u64, BuildHasherDefault<PlaceHasher>>),
    /// All places from `first` on, displaced or not.
    Dense {
        first: u64,
        numbers: Vec<u64>,
    },
}

impl Displaced {
    /// Every place holds its own number.
    pub fn none() -> Displaced {
        Displaced::Few { entries: [(0, 0); FEW], len: 0 }
    }

    /// Takes the number out of `place`, moves the number at `front` into the hole, and forgets the front.
    ///
    /// Needs room for one entry ([`Displaced::make_room`]).
    pub fn replace_by_front(&mut self, front: u64, place: u64) -> u64 {
        match self {
            Displaced::Few { entries, len } => replace_in_few(entries, len, front, place),
            Displaced::Sparse(table) => {
                let front_number = table.remove(&front).unwrap_or(front);
                if place == front {
                    return front_number;
                }
                table.insert(place, front_number).unwrap_or(place)
            }
            Displaced::Dense { first, numbers } => {
                let front_number = numbers[(front - *first) as usize];
                let hole = &mut numbers[(place - *first) as usize];
                std::mem::replace(hole, front_number)
            }
        }
    }

    /// Sees to it that one more entry fits the form at hand, and that the form is the right one.
    pub fn make_room(&mut self, front: u64, population: u64) {
        match self {
            Displaced::Few { len, .. } if *len < FEW => {}
            Displaced::Few { .. } => self.change_form(front, 1, population),
            Displaced::Sparse(_) if is_large_share(front, population) => {
                self.change_form(front, 1, population);
            }
            Displaced::Sparse(_) | Displaced::Dense { .. } => {}
        }
    }

    /// Takes the memory for `n` more draws in one step.
    pub fn reserve(&mut self, front: u64, n: usize, population: u64) {
        match self {
            Displaced::Few { len, .. } if n <= FEW - *len => {}
            Displaced::Few { .. } | Displaced::Sparse(_) => {
                self.change_form(front, n, population);
            }
            Displaced::Dense { .. } => {}
        }
    }

    /// Moves all entries to the hash table or the array, whichever suits `n` more draws.
    fn change_form(&mut self, front: u64, n: usize, population: u64) {
        if is_large_share(front.saturating_add(n as u64), population) {
            let mut numbers: Vec<u64> = (front..population).collect();
            self.for_each(|place, number| numbers[(place - front) as usize] = number);
            *self = Displaced::Dense { first: front, numbers };
        } else if let Displaced::Sparse(table) = self {
            table.reserve(n);
        } else {
            let mut table = HashMap::default();
            table.reserve(n + FEW);
            self.for_each(|place, number| {
                table.insert(place, number);
            });
            *self = Displaced::Sparse(table);
        }
    }

    fn for_each(&self, mut visit: impl FnMut(u64, u64)) {
        match self {
            Displaced::Few { entries, len } => {
                entries[..*len].iter().for_each(|&(p, n)| visit(p, n));
            }
            Displaced::Sparse(table) => table.iter().for_each(|(&p, &n)| visit(p, n)),
            Displaced::Dense { .. } => unreachable!("the dense form is never left"),
        }
    }
}

fn is_large_share(drawn: u64, population: u64) -> bool {
    drawn >= population / DENSE_SHARE
}

fn replace_in_few(entries: &mut [(u64, u64); FEW], len: &mut usize, front: u64, place: u64) -> u64 {
    let find = |wanted: u64| entries[..*len].iter().position(|entry| entry.0 == wanted);
    let front_at = find(front);
    let front_number = front_at.map_or(front, |at| entries[at].1);
    let (number, forgotten) = if place == front {
        (front_number, front_at)
    } else if let Some(at) = find(place) {
        (std::mem::replace(&mut entries[at].1, front_number), front_at)
    } else if let Some(at) = front_at {
        // The front's own entry is not needed any more and serves the hole.
        entries[at] = (place, front_number);
        (place, None)
    } else {
        entries[*len] = (place, front_number);
        *len += 1;
        (place, None)
    };
    if let Some(at) = forgotten {
        *len -= 1;
        entries[at] = entries[*len];
    }
    number
}

/// Hashes a place by one round of mixing. The places come from our own generator, not from an adversary, and the
/// table's order is never seen, so the keyed hash of the standard library would only cost time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn write_u64(&mut self, place: u64) {
        self.0 = mix64(self.0 ^ place);
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

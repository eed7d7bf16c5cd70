//! Arrival times: what makes successive draws by weight from several selections one from all of them.
//!
//! Think of each row as a clock that rings once, after a time that is exponential with the row's weight as its rate, all
//! clocks independent. The order in which they ring is that of successive draws by weight without replacement: whichever have
//! not rung yet, each is the next with the chance of its weight among theirs (Efraimidis and Spirakis, "Weighted random sampling
//! with a reservoir", 2006, whose keys are these times turned round). So the earliest of several selections that share no row,
//! each drawn by itself, are what successive draws from all of them give.
//!
//! The times come with the draws. A Poisson process whose rate is the weight of a selection rings one of its rows in proportion
//! to weight each time; the first time of a row is exponential with its weight as the rate, and independent of the others'. Rows
//! that come again, or are dead or do not pass a test, are passed over, which leaves the others' times as they are. Once
//! draws are made among the rows that are left, the rate is the weight that is left.

use std::collections::HashMap;

use drillcore_sample::rng::Rng;

use crate::select::selection::Place;

/// The stream of a seed that times are drawn from: the rows are the same with them and without.
const STREAM: u64 = 5;

/// When rows arrived that were drawn by weight without replacement.
pub struct Arrivals {
    rng: Rng,
    /// What a unit of weight is as a number.
    unit: f64,
    now: f64,
    times: HashMap<Place, f64>,
}

impl Arrivals {
    /// Before the first.
    pub fn new(seed: u64, unit: f64) -> Arrivals {
        Arrivals { rng: Rng::keyed(seed, STREAM), unit, now: 0.0, times: HashMap::new() }
    }

    /// Has a row arrive that was drawn from rows with some units of weight in all; the first time of each counts.
    pub fn arrive(&mut self, units: u128, place: Place) {
        self.now += self.rng.exponential() / (units as f64 * self.unit);
        self.times.entry(place).or_insert(self.now);
    }

    /// When rows arrived.
    pub fn of(&self, places: &[Place]) -> Vec<f64> {
        places.iter().map(|place| self.times[place]).collect()
    }
}

//! The rows that every engine of a bench is given.

use std::fmt;

use arrow_array::RecordBatch;
use drillcore_sample::rng::Rng;

use crate::figures::report::{grouped, megabytes};
use crate::rows::event::{Answer, Event, batch, events};

/// Rows of one append, and of one transaction of the peer.
pub const BATCH_ROWS: usize = 8192;
/// Sets by the number of their rows.
const SETS: [(&str, u64); 4] =
    [("ten", 10), ("hundred", 100), ("thousand", 1_000), ("ten thousand", 10_000)];
/// The set of a tenth of all rows.
pub const TENTH: &str = "tenth";
/// The number of sets that the other rows are spread over, evenly.
const OTHER_SETS: usize = 100;
/// 1,000 rows per minute.
const MS_PER_ROW: i64 = 60;
const NOTE_BYTES: usize = 60;
/// 32 letters, so that 5 random bits make one.
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz012345";

/// Streams of the seed.
const ARRIVALS: u64 = 1;
const CITIES: u64 = 2;
const VALUES: u64 = 3;

/// In which order keys arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Rising,
    Shuffled,
}

/// Batches in arrival order.
pub struct Workload {
    pub batches: Vec<RecordBatch>,
    pub rows: u64,
    /// What the values take, without any structure around them.
    pub bytes: u64,
}

impl Workload {
    /// Sets are spread over the keys at random, whatever the order.
    pub fn generate(rows: u64, order: Order, seed: u64) -> Workload {
        let mut ids: Vec<u32> = (1..=rows as u32).collect();
        let mut city_of = ids.clone();
        shuffle(&mut city_of, &mut Rng::keyed(seed, CITIES));
        if order == Order::Shuffled {
            shuffle(&mut ids, &mut Rng::keyed(seed, ARRIVALS));
        }
        let others: Vec<String> = (0..OTHER_SETS).map(|city| format!("city-{city:02}")).collect();
        let mut end = 0;
        let ends: Vec<(&str, u64)> = sets(rows)
            .map(|(set, size)| {
                end += size;
                (set, end)
            })
            .collect();
        let city = |id: u32| {
            let place = u64::from(city_of[id as usize - 1]);
            let set = ends.iter().find(|(_, end)| place <= *end);
            set.map_or(&*others[place as usize % OTHER_SETS], |(set, _)| set)
        };
        let mut rng = Rng::keyed(seed, VALUES);
        let mut at = 0;
        let mut workload = Workload { batches: Vec::new(), rows, bytes: 0 };
        for ids in ids.chunks(BATCH_ROWS) {
            let notes: Vec<String> = ids.iter().map(|_| note(&mut rng)).collect();
            let rows: Vec<Event> = (ids.iter().zip(&notes))
                .map(|(&id, note)| {
                    at += MS_PER_ROW;
                    let (units, price) = (rng.below(1000) as i64, rng.unit_f64() * 100.0);
                    Event { id: i64::from(id), at, city: city(id), units, price, note }
                })
                .collect();
            workload.bytes += rows.iter().map(value_bytes).sum::<u64>();
            workload.batches.push(batch(&rows));
        }
        workload
    }

    /// All rows.
    pub fn answer(&self) -> Answer {
        let mut answer = Answer::default();
        self.batches.iter().for_each(|batch| answer.add_batch(batch));
        answer
    }

    /// The rows of one set.
    pub fn answer_of_set(&self, set: &str) -> Answer {
        let mut answer = Answer::default();
        let of_set = |event: &Event| event.city == set;
        self.batches.iter().flat_map(events).filter(of_set).for_each(|event| answer.add(&event));
        answer
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows, {} of values", grouped(self.rows), megabytes(self.bytes))
    }
}

/// Sets of 10, 100, 1,000 and 10,000 rows, as far as that is less than a tenth of all, and one of a tenth; each with its size.
pub fn sets(rows: u64) -> impl Iterator<Item = (&'static str, u64)> {
    let tenth = rows / 10;
    SETS.into_iter().filter(move |(_, size)| *size < tenth).chain([(TENTH, tenth)])
}

fn value_bytes(event: &Event) -> u64 {
    let fixed = size_of_val(&event.id) + size_of_val(&event.at);
    let numbers = size_of_val(&event.units) + size_of_val(&event.price);
    (fixed + numbers + event.city.len() + event.note.len()) as u64
}

fn note(rng: &mut Rng) -> String {
    let mut note = String::with_capacity(NOTE_BYTES);
    let mut bits = 0;
    for place in 0..NOTE_BYTES {
        if place % 12 == 0 {
            bits = rng.next_u64();
        }
        note.push(char::from(LETTERS[(bits % 32) as usize]));
        bits /= 32;
    }
    note
}

fn shuffle(values: &mut [u32], rng: &mut Rng) {
    for last in (1..values.len()).rev() {
        values.swap(last, rng.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders_hold_every_key_once_and_sets_of_the_promised_sizes() {
        for order in [Order::Rising, Order::Shuffled] {
            let workload = Workload::generate(20_000, order, 7);
            let mut ids: Vec<i64> =
                workload.batches.iter().flat_map(events).map(|e| e.id).collect();
            assert_eq!(ids.is_sorted(), order == Order::Rising);
            ids.sort_unstable();
            assert_eq!(ids, (1..=20_000).collect::<Vec<i64>>());
            let sizes: Vec<u64> = sets(20_000).map(|(_, size)| size).collect();
            assert_eq!(sizes, [10, 100, 1_000, 2_000]);
            for (set, size) in sets(20_000) {
                assert_eq!(workload.answer_of_set(set).rows, size);
            }
            assert_eq!(workload.answer().rows, 20_000);
            let row_bytes = workload.bytes / workload.rows;
            assert!((90..110).contains(&row_bytes), "{row_bytes} bytes per row");
        }
    }

    #[test]
    fn one_seed_gives_one_workload() {
        let answer = |seed| Workload::generate(2_000, Order::Shuffled, seed).answer();
        assert_eq!(answer(1), answer(1));
        assert_ne!(answer(1), answer(2));
    }
}

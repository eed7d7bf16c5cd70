//! The peer of an incremental index: rows as objects in a concurrent skip list, as such an index is made in languages of
//! objects.
//!
//! A row's dimensions are texts of their own behind a list, its sums stand behind a lock of their own. Threads insert beside
//! each other; of rows with equal keys one holds the sums of all.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMillisecondType};
use arrow_array::{Array, RecordBatch};
use crossbeam_skiplist::SkipMap;

use crate::rows::arriving::Columns;
use crate::rows::event::{Answer, Event};

/// The name of the peer in figures.
pub const SKIP_LIST: &str = "skip list of rows";

/// A time and dimensions; of plain rows also the number of the row, so that all stay.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    at: i64,
    dimensions: Box<[Option<Box<str>>]>,
    number: u64,
}

/// What is kept of the rows with one key.
#[derive(Debug, Default)]
struct Sums {
    rows: i64,
    sum: i64,
    most: i64,
    float: f64,
    least: f64,
}

/// Rows in the order of their keys.
pub struct RowObjects {
    columns: Columns,
    folds: bool,
    rows: SkipMap<Key, Mutex<Sums>>,
    numbers: AtomicU64,
    bytes: AtomicU64,
}

impl RowObjects {
    pub fn new(columns: Columns, folds: bool) -> RowObjects {
        let [numbers, bytes] = [const { AtomicU64::new(0) }; 2];
        RowObjects { columns, folds, rows: SkipMap::new(), numbers, bytes }
    }

    /// Inserts batches from several threads that each take the next.
    pub fn insert_all(&self, batches: &[RecordBatch], threads: u32) {
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.insert(batch);
            }
        };
        thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    }

    /// Inserts the rows of a batch.
    pub fn insert(&self, batch: &RecordBatch) {
        let mut bytes = 0;
        let at = batch.column(0).as_primitive::<TimestampMillisecondType>().values();
        let dimensions = 1..1 + self.columns.dimensions().len();
        let texts: Vec<_> =
            dimensions.clone().map(|column| batch.column(column).as_string::<i32>()).collect();
        let numbers = &batch.columns()[dimensions.end..];
        for (row, &at) in at.iter().enumerate() {
            let text = |column: &&arrow_array::StringArray| {
                column.is_valid(row).then(|| column.value(row).into())
            };
            let number =
                if self.folds { 0 } else { 1 + self.numbers.fetch_add(1, Ordering::Relaxed) };
            let key = Key { at, dimensions: texts.iter().map(text).collect(), number };
            let entry = self.rows.get_or_insert_with(key, Mutex::default);
            let mut sums = entry.value().lock().expect("no panic while held");
            sums.rows += 1;
            bytes += if sums.rows == 1 { bytes_of(entry.key()) } else { 0 };
            match self.columns {
                Columns::SimpleFloat => {
                    sums.float += numbers[0].as_primitive::<Float64Type>().value(row);
                }
                Columns::Basic => {
                    let least = numbers[3].as_primitive::<Float64Type>().value(row);
                    sums.least = if sums.rows == 1 { least } else { sums.least.min(least) };
                    sums.sum += numbers[0].as_primitive::<Int64Type>().value(row);
                    sums.most = sums.most.max(numbers[1].as_primitive::<Int64Type>().value(row));
                    sums.float += numbers[2].as_primitive::<Float64Type>().value(row);
                }
            }
        }
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The rows, each as an event: its number of rows, time, a dimension, its sum and the sum of its floats.
    pub fn answer(&self) -> Answer {
        let mut answer = Answer::default();
        for entry in &self.rows {
            let sums = entry.value().lock().expect("no panic while held");
            let city = entry.key().dimensions.get(2).and_then(Option::as_deref).unwrap_or("");
            let (at, price) = (entry.key().at, sums.float + sums.least);
            let units = sums.sum + sums.most;
            answer.add(&Event { id: sums.rows, at, city, units, price, note: "" });
        }
        answer
    }

    /// Bytes of the objects: keys, texts, sums, and per row two links, as a skip list has on average, and a word of counts.
    /// What the allocator adds to each is left out, so they are a lower bound.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

fn bytes_of(key: &Key) -> usize {
    let links = 3 * size_of::<usize>();
    let texts: usize = key.dimensions.iter().flatten().map(|text| text.len()).sum();
    let list = size_of_val(&*key.dimensions);
    size_of::<Key>() + size_of::<Mutex<Sums>>() + links + list + texts
}

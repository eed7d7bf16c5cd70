//! Rows as they arrive at an incremental index: the two schemas that such indexes are measured with.
//!
//! `basic` has eight dimensions and four numbers per row, `simple float` a time and one number. The dimensions take their
//! values in turn, at random, by a power law, with nulls, and as lists, which are joined here. Times rise, each
//! other than the last, so a rollup by the millisecond folds no two rows and has all the work.

use std::fmt::Write;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use drillcore_sample::rng::Rng;

use crate::rows::workload::BATCH_ROWS;

/// Which columns rows have: a time, dimensions, then numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Columns {
    Basic,
    SimpleFloat,
}

pub const TIME: &str = "at";
pub const DIMENSIONS: [&str; 8] =
    ["in_turn", "skewed", "any", "half_null", "list_of_4", "list_of_3", "list_in_turn", "nothing"];
/// Whole numbers, then floats.
pub const NUMBERS: [&str; 4] = ["long_in_turn", "long_any", "float_normal", "float_skewed"];
pub const FLOAT: &str = "float";

/// Streams of the seed.
const BASIC: u64 = 11;
const SIMPLE: u64 = 12;

const FOUR_OF: [(&str, f64); 5] =
    [("Hello", 0.2), ("World", 0.25), ("Foo", 0.15), ("Bar", 0.1), ("Baz", 0.3)];
const THREE_OF: [(&str, f64); 4] =
    [("Apple", 0.2), ("Orange", 0.25), ("Xylophone", 0.15), ("Corundum", 0.1)];

impl Columns {
    pub fn dimensions(self) -> &'static [&'static str] {
        match self {
            Columns::Basic => &DIMENSIONS,
            Columns::SimpleFloat => &[],
        }
    }

    pub fn schema(self) -> SchemaRef {
        let time = Field::new(TIME, DataType::Timestamp(TimeUnit::Millisecond, None), false);
        let dimensions =
            self.dimensions().iter().map(|name| Field::new(*name, DataType::Utf8, true));
        let number = |name: &str, data_type| Field::new(name, data_type, false);
        let numbers = match self {
            Columns::Basic => vec![
                number(NUMBERS[0], DataType::Int64),
                number(NUMBERS[1], DataType::Int64),
                number(NUMBERS[2], DataType::Float64),
                number(NUMBERS[3], DataType::Float64),
            ],
            Columns::SimpleFloat => vec![number(FLOAT, DataType::Float64)],
        };
        Arc::new(Schema::new(
            [time].into_iter().chain(dimensions).chain(numbers).collect::<Vec<_>>(),
        ))
    }

    /// Rows in batches, in the order in which they arrive.
    pub fn generate(self, rows: u64, seed: u64) -> Vec<RecordBatch> {
        let stream = if self == Columns::Basic { BASIC } else { SIMPLE };
        let (mut rng, skewed) = (Rng::keyed(seed, stream), Skewed::new(100));
        let skewed_numbers = Skewed::new(1_000);
        (0..rows)
            .step_by(BATCH_ROWS)
            .map(|first| {
                let numbers = first..rows.min(first + BATCH_ROWS as u64);
                let mut batch = Vec::new();
                batch.push(times(numbers.clone(), rows));
                if self == Columns::Basic {
                    batch.extend(dimensions(numbers.clone(), &mut rng, &skewed));
                    batch.extend(metrics(numbers, &mut rng, &skewed_numbers));
                } else {
                    let float = |_| (rng.unit_f64() * 1e4) as f32;
                    batch.push(floats(numbers.map(float).map(f64::from)));
                }
                RecordBatch::try_new(self.schema(), batch).expect("the columns of the schema")
            })
            .collect()
    }
}

/// Bytes of the values: eight for a number or a time, those of a text, nothing for a null.
pub fn raw_bytes(batches: &[RecordBatch]) -> u64 {
    let bytes = |column: &ArrayRef| match column.data_type() {
        DataType::Utf8 => {
            let texts = column.as_any().downcast_ref::<StringArray>().expect("a column of texts");
            texts.iter().flatten().map(|text| text.len() as u64).sum()
        }
        _ => 8 * column.len() as u64,
    };
    batches.iter().flat_map(|batch| batch.columns()).map(bytes).sum()
}

/// Spread evenly over a day.
fn times(rows: std::ops::Range<u64>, all: u64) -> ArrayRef {
    let step = (86_400_000 / all as i64).max(1);
    let time = |row: u64| 1_700_000_000_000 + row as i64 * step;
    Arc::new(TimestampMillisecondArray::from_iter_values(rows.map(time)))
}

fn floats(values: impl Iterator<Item = f64>) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(values))
}

fn dimensions(rows: std::ops::Range<u64>, rng: &mut Rng, skewed: &Skewed) -> Vec<ArrayRef> {
    let mut columns: Vec<Vec<Option<String>>> = vec![Vec::new(); DIMENSIONS.len()];
    for row in rows {
        let list = |cells: &mut dyn Iterator<Item = &str>| {
            let mut joined = String::new();
            cells.for_each(|cell| write!(joined, "{cell},").expect("texts take all"));
            Some(joined)
        };
        let any = |rng: &mut Rng, of: &[(&'static str, f64)]| {
            let mut share = rng.unit_f64();
            of.iter()
                .find(|(_, weight)| {
                    share -= weight;
                    share < 0.0
                })
                .map_or("", |(value, _)| value)
        };
        let values = [
            Some((row % 1_000).to_string()),
            Some(skewed.draw(rng).to_string()),
            Some(rng.below(100_000).to_string()),
            row.is_multiple_of(2).then(|| (row / 2 % 1_000).to_string()),
            list(&mut (0..4).map(|_| any(rng, &FOUR_OF))),
            list(&mut (0..3).map(|_| any(rng, &THREE_OF))),
            (rng.unit_f64() >= 0.15).then(|| {
                let cells = (0..8).map(|cell| ((row * 8 + cell) % 10 + 1).to_string());
                cells.collect::<Vec<_>>().join(",")
            }),
            None,
        ];
        columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
    }
    columns.into_iter().map(|column| Arc::new(StringArray::from(column)) as ArrayRef).collect()
}

fn metrics(rows: std::ops::Range<u64>, rng: &mut Rng, skewed: &Skewed) -> Vec<ArrayRef> {
    let len = (rows.end - rows.start) as usize;
    let long_any: Vec<i64> = (0..len).map(|_| rng.below(500) as i64).collect();
    // The sum of twelve numbers, each anywhere between 0 and 1, is about normal.
    let normal: Vec<f64> = (0..len)
        .map(|_| (4_994.0 + (0..12).map(|_| rng.unit_f64()).sum::<f64>()).round())
        .collect();
    let skewed: Vec<f64> = (0..len).map(|_| skewed.draw(rng) as f64).collect();
    vec![
        Arc::new(Int64Array::from_iter_values(rows.map(|row| (row % 10_000) as i64))),
        Arc::new(Int64Array::from(long_any)),
        floats(normal.into_iter()),
        floats(skewed.into_iter()),
    ]
}

/// Whole numbers from 1 on, each with a chance in proportion to its inverse.
struct Skewed {
    ends: Vec<f64>,
}

impl Skewed {
    fn new(values: u32) -> Skewed {
        let mut end = 0.0;
        let ends = (1..=values).map(|value| {
            end += 1.0 / f64::from(value);
            end
        });
        Skewed { ends: ends.collect() }
    }

    fn draw(&self, rng: &mut Rng) -> usize {
        let place = rng.unit_f64() * self.ends[self.ends.len() - 1];
        self.ends.partition_point(|end| *end <= place).min(self.ends.len() - 1) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_as_long_as_those_that_were_measured_elsewhere() {
        let batches = Columns::Basic.generate(20_000, 1);
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 20_000);
        // 84.6 bytes per row were counted of floats of four bytes and lists without commas.
        let bytes = raw_bytes(&batches) as f64 / 20_000.0;
        assert!((85.0..110.0).contains(&bytes), "{bytes}");
        assert_eq!(raw_bytes(&Columns::SimpleFloat.generate(1_000, 1)), 16_000);
    }
}

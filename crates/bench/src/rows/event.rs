//! One row of every bench, and how two answers are compared.

use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMillisecondType};
use arrow_array::{Float64Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

/// About 100 bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Event<'a> {
    /// The key: 1 to the number of rows, each once.
    pub id: i64,
    /// Milliseconds; rises from one appended row to the next.
    pub at: i64,
    /// The set.
    pub city: &'a str,
    pub units: i64,
    pub price: f64,
    pub note: &'a str,
}

/// Some rows, whatever their order: how many, and a sum in which every value of each takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Answer {
    pub rows: u64,
    sum: u64,
}

impl Event<'_> {
    /// Multiplying between the values binds them to their row: swapped between rows, they change the sum.
    fn mixed(&self) -> u64 {
        let head = |text: &str| {
            let mut bytes = [0; 8];
            let len = text.len().min(8);
            bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
            u64::from_le_bytes(bytes) ^ text.len() as u64
        };
        let values = [
            self.id as u64,
            self.at as u64,
            head(self.city),
            self.units as u64,
            self.price.to_bits(),
            head(self.note),
        ];
        let mix = |mixed: u64, value: u64| (mixed ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        values.into_iter().fold(0, |mixed, value| mix(mixed.rotate_left(29), value))
    }
}

impl Answer {
    /// A number of rows, whichever they are: random rows are not the same twice.
    pub fn any(rows: u64) -> Answer {
        Answer { rows, sum: 0 }
    }

    pub fn add(&mut self, event: &Event) {
        self.rows += 1;
        self.sum = self.sum.wrapping_add(event.mixed());
    }

    pub fn add_batch(&mut self, batch: &RecordBatch) {
        events(batch).for_each(|event| self.add(&event));
    }

    /// These rows and others.
    pub fn and(self, other: Answer) -> Answer {
        Answer { rows: self.rows + other.rows, sum: self.sum.wrapping_add(other.sum) }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows with the sum {:016x}", self.rows, self.sum)
    }
}

/// The columns, in the order of the fields of [`Event`].
pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, None), false),
        Field::new("city", DataType::Utf8, false),
        Field::new("units", DataType::Int64, false),
        Field::new("price", DataType::Float64, false),
        Field::new("note", DataType::Utf8, false),
    ]))
}

/// The rows of a batch with all columns.
pub fn events(batch: &RecordBatch) -> impl Iterator<Item = Event<'_>> {
    let id = batch.column(0).as_primitive::<Int64Type>().values();
    let at = batch.column(1).as_primitive::<TimestampMillisecondType>().values();
    let city = batch.column(2).as_string::<i32>();
    let units = batch.column(3).as_primitive::<Int64Type>().values();
    let price = batch.column(4).as_primitive::<Float64Type>().values();
    let note = batch.column(5).as_string::<i32>();
    (0..batch.num_rows()).map(move |row| Event {
        id: id[row],
        at: at[row],
        city: city.value(row),
        units: units[row],
        price: price[row],
        note: note.value(row),
    })
}

/// A batch of rows.
pub fn batch(events: &[Event]) -> RecordBatch {
    let columns: Vec<arrow_array::ArrayRef> = vec![
        Arc::new(events.iter().map(|event| event.id).collect::<Int64Array>()),
        Arc::new(TimestampMillisecondArray::from_iter_values(events.iter().map(|event| event.at))),
        Arc::new(StringArray::from_iter_values(events.iter().map(|event| event.city))),
        Arc::new(events.iter().map(|event| event.units).collect::<Int64Array>()),
        Arc::new(events.iter().map(|event| event.price).collect::<Float64Array>()),
        Arc::new(StringArray::from_iter_values(events.iter().map(|event| event.note))),
    ];
    RecordBatch::try_new(schema(), columns).expect("the columns are those of the schema")
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: Event =
        Event { id: 7, at: 60_000, city: "Oslo", units: 3, price: 0.5, note: "two words" };

    fn answer(events: &[Event]) -> Answer {
        let mut answer = Answer::default();
        answer.add_batch(&batch(events));
        answer
    }

    #[test]
    fn an_answer_changes_with_every_value_and_not_with_the_order() {
        let other = Event { id: 8, city: "Rome", ..EVENT };
        assert_eq!(answer(&[EVENT, other]), answer(&[other, EVENT]));
        assert_eq!(answer(&[EVENT, other]), answer(&[EVENT]).and(answer(&[other])));
        for changed in [
            Event { id: 9, ..EVENT },
            Event { at: 1, ..EVENT },
            Event { city: "Osl", ..EVENT },
            Event { units: 4, ..EVENT },
            Event { price: -0.5, ..EVENT },
            Event { note: "two", ..EVENT },
        ] {
            assert_ne!(answer(&[changed]), answer(&[EVENT]), "{changed:?}");
        }
        assert_ne!(answer(&[EVENT, EVENT]), answer(&[EVENT]));
    }

    #[test]
    fn values_swapped_between_rows_change_the_answer() {
        let other = Event { id: 8, units: 4, ..EVENT };
        let swapped = [Event { units: 4, ..EVENT }, Event { units: 3, ..other }];
        assert_ne!(answer(&swapped), answer(&[EVENT, other]));
    }
}

//! Shapes of tables that the random operations use, and random rows for them.
//!
//! Values are drawn from small domains on purpose: ties, common prefixes and large sets are where order
//! and grouping go wrong.

use std::sync::Arc;

use drillcore::arrow_array::RecordBatch;
use drillcore::arrow_schema::{DataType, Field, Schema, TimeUnit};
use drillcore::{Merge, TableSpec};
use drillcore_sample::rng::Rng;

use crate::cell::{Cell, to_array};

/// Columns, key and set column of a table.
#[derive(Debug, Clone)]
pub struct Shape {
    pub columns: Arc<Schema>,
    /// Indexes of the key columns.
    pub key: Vec<usize>,
    pub set: Option<usize>,
}

impl Shape {
    /// The shapes that together have every supported kind of key, and set columns of every role.
    pub fn all() -> Vec<Shape> {
        let timestamp = DataType::Timestamp(TimeUnit::Microsecond, Some("Europe/Berlin".into()));
        let shape = |columns: &[(&str, DataType, bool)], key: &[usize], set: Option<usize>| {
            let fields = columns.iter().map(|(name, t, null)| Field::new(*name, t.clone(), *null));
            let columns = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
            Shape { columns, key: key.to_vec(), set }
        };
        let (int, text, float, bool) =
            (DataType::Int64, DataType::Utf8, DataType::Float64, DataType::Boolean);
        let list = DataType::new_list(DataType::Utf8, true);
        vec![
            shape(
                &[
                    ("id", int.clone(), false),
                    ("city", text.clone(), true),
                    ("x", float.clone(), true),
                    ("blob", DataType::Binary, true),
                    ("tags", list, true),
                ],
                &[0],
                Some(1),
            ),
            // The set column is a key column in the middle; every key column takes nulls.
            shape(
                &[
                    ("note", text.clone(), true),
                    ("a", text.clone(), true),
                    ("b", DataType::Int32, true),
                    ("c", text.clone(), true),
                ],
                &[1, 2, 3],
                Some(2),
            ),
            shape(
                &[
                    ("f", float.clone(), true),
                    ("flag", bool.clone(), true),
                    ("u", DataType::UInt64, true),
                ],
                &[0],
                Some(0),
            ),
            shape(
                &[
                    ("at", timestamp, false),
                    ("day", DataType::Date32, true),
                    ("flag", bool, false),
                    ("x", float, true),
                ],
                &[2, 0],
                Some(3),
            ),
            shape(&[("word", text, false), ("n", int, true)], &[0], None),
            shape(&[("only", DataType::UInt64, true)], &[0], Some(0)),
        ]
    }

    pub fn spec(&self) -> TableSpec {
        let name = |column: &usize| self.columns.field(*column).name().clone();
        TableSpec {
            columns: self.columns.clone(),
            key: self.key.iter().map(name).collect(),
            set: self.set.as_ref().map(name),
            weights: Vec::new(),
            merge: Merge::Append,
            exist_ok: false,
        }
    }

    /// Random rows.
    pub fn rows(&self, rng: &mut Rng, count: u64) -> Vec<Vec<Cell>> {
        let fields = self.columns.fields();
        let row = |rng: &mut Rng| {
            fields.iter().map(|f| random_cell(rng, f.data_type(), f.is_nullable())).collect()
        };
        (0..count).map(|_| row(rng)).collect()
    }

    /// Rows as a batch.
    pub fn batch(&self, rows: &[Vec<Cell>]) -> RecordBatch {
        let column = |(index, field): (usize, &Arc<Field>)| {
            let cells: Vec<Cell> = rows.iter().map(|row| row[index].clone()).collect();
            to_array(field.data_type(), &cells)
        };
        let columns = self.columns.fields().iter().enumerate().map(column).collect();
        RecordBatch::try_new(self.columns.clone(), columns).expect("rows fit their own shape")
    }

    /// The row's key, and its values as the table gives them back.
    pub fn stored(&self, row: &[Cell]) -> (Vec<Cell>, Vec<Cell>) {
        let mut cells = row.to_vec();
        for &column in &self.key {
            cells[column] = cells[column].normalised();
        }
        (self.key.iter().map(|&column| cells[column].clone()).collect(), cells)
    }
}

/// A value of a type; null in one of eight where it may be.
pub fn random_cell(rng: &mut Rng, data_type: &DataType, nullable: bool) -> Cell {
    if nullable && rng.below(8) == 0 {
        return Cell::Null;
    }
    match data_type {
        DataType::Boolean => Cell::Bool(rng.below(2) == 1),
        DataType::Int32 => Cell::Int(i128::from(rng.below(9)) - 4),
        DataType::Date32 => Cell::Int(i128::from(rng.below(2_000)) - 1_000),
        DataType::UInt64 => match rng.below(50) {
            0 => Cell::Int(u64::MAX.into()),
            1 => Cell::Int(1 << 63),
            _ => Cell::Int(rng.below(400).into()),
        },
        DataType::Int64 => match rng.below(200) {
            0 => Cell::Int(i64::MIN.into()),
            1 => Cell::Int(i64::MAX.into()),
            _ => Cell::Int(i128::from(rng.below(3_000)) - 1_500),
        },
        DataType::Timestamp(..) => Cell::Int(1_700_000_000_000_000 + i128::from(rng.below(5_000))),
        DataType::Float64 => match rng.below(12) {
            0 => Cell::float(f64::NAN),
            // A NaN of another payload and sign.
            1 => Cell::Float(0xfff8_0000_0000_0123),
            2 => Cell::float(-0.0),
            3 => Cell::float(0.0),
            4 => Cell::float(f64::NEG_INFINITY),
            5 => Cell::float(f64::INFINITY),
            _ => Cell::float(rng.below(41) as f64 / 4.0 - 5.0),
        },
        DataType::Utf8 => {
            // Bytes that keys must escape, beside plain ones and one of several bytes.
            const LETTERS: [&str; 6] = ["\0", "\u{1}", "\u{2}", "a", "b", "é"];
            let letter = |rng: &mut Rng| LETTERS[rng.below(6) as usize];
            let len = rng.below(4);
            let mut text: String = (0..len).map(|_| letter(rng)).collect();
            if rng.below(300) == 0 {
                text.push_str(&"long ".repeat(rng.below(1_200) as usize));
            }
            Cell::Text(text)
        }
        DataType::Binary => {
            let len = rng.below(20);
            Cell::Bytes((0..len).map(|_| rng.below(256) as u8).collect())
        }
        DataType::List(item) => {
            let len = rng.below(4);
            Cell::List((0..len).map(|_| random_cell(rng, item.data_type(), true)).collect())
        }
        other => panic!("the model knows no {other}"),
    }
}

//! Shapes of tables that the random operations use, and random rows for them.
//!
//! Values are drawn from small domains on purpose: ties, common prefixes and large sets are where order
//! and grouping go wrong.

use std::sync::Arc;

use drillcore::arrow_array::{ArrayRef, RecordBatch};
use drillcore::arrow_schema::{DataType, Field, Schema, TimeUnit};
use drillcore::{Granularity, Merge, TableSpec};
use drillcore_sample::rng::Rng;

use crate::cell::{Cell, to_array};
use crate::rollup_shape::{Metric, RollupShape, Time, with_nullable};

/// Columns, key, set column, weights and merge policy of a table.
#[derive(Debug, Clone)]
pub struct Shape {
    /// The columns of the rows that are appended.
    pub columns: Arc<Schema>,
    /// Indexes of the key columns.
    pub key: Vec<usize>,
    /// The set column.
    pub set: Option<usize>,
    /// The weight columns.
    pub weights: Vec<usize>,
    /// What equal keys mean.
    pub policy: Policy,
}

/// What rows with equal keys mean.
#[derive(Debug, Clone)]
pub enum Policy {
    /// Every row is kept.
    Append,
    /// The newest row of a key is kept.
    Upsert,
    /// Rows are folded by key.
    Rollup(RollupShape),
}

impl Shape {
    /// The shapes that together have every supported kind of key, set columns of every role, and all
    /// merge policies.
    pub fn all() -> Vec<Shape> {
        let appended = Shape::appended();
        let upserted: Vec<Shape> = appended
            .iter()
            .map(|shape| Shape { policy: Policy::Upsert, ..shape.clone() })
            .collect();
        [appended, upserted, Shape::rolled_up()].concat()
    }

    /// Shapes of tables that keep every row.
    fn appended() -> Vec<Shape> {
        let shape = |columns: &[(&str, DataType, bool)], key: &[usize], set: Option<usize>| Shape {
            columns: schema(columns),
            key: key.to_vec(),
            set,
            weights: Vec::new(),
            policy: Policy::Append,
        };
        let (int, text, float, bool) =
            (DataType::Int64, DataType::Utf8, DataType::Float64, DataType::Boolean);
        let list = DataType::new_list(DataType::Utf8, true);
        let weighted = [
            ("id", int.clone(), false),
            ("whole", DataType::UInt32, false),
            ("team", text.clone(), true),
            ("share", DataType::Float32, false),
        ];
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
                    ("at", timestamp(), false),
                    ("day", DataType::Date32, true),
                    ("flag", bool, false),
                    ("x", float, true),
                ],
                &[2, 0],
                Some(3),
            ),
            shape(&[("word", text, false), ("n", int, true)], &[0], None),
            shape(&[("only", DataType::UInt64, true)], &[0], Some(0)),
            Shape { weights: vec![1, 3], ..shape(&weighted, &[0], Some(2)) },
        ]
    }

    /// Shapes of tables that fold events. Sums are of values that add up exactly in any order.
    fn rolled_up() -> Vec<Shape> {
        let shape = |set: Option<usize>, rollup: RollupShape| Shape {
            columns: rollup.columns(),
            key: (0..rollup.key.len()).collect(),
            set,
            weights: Vec::new(),
            policy: Policy::Rollup(rollup),
        };
        let sums = |metrics: &[(&'static str, Metric)]| metrics.to_vec();
        vec![
            // Several dimensions before and behind the time, and every kind of metric.
            shape(
                Some(0),
                RollupShape {
                    events: schema(&[
                        ("at", timestamp(), false),
                        ("amount", DataType::Float32, true),
                        ("place", DataType::Utf8, true),
                        ("flag", DataType::Boolean, true),
                        ("step", DataType::Int32, true),
                        ("x", DataType::Float64, true),
                        ("big", DataType::Int64, true),
                    ]),
                    key: vec![2, 0, 3],
                    time: Some(Time {
                        column: 0,
                        granularity: Granularity::SECOND,
                        step_us: 1_000_000,
                    }),
                    metrics: sums(&[
                        ("n", Metric::Count),
                        ("steps", Metric::Sum(4)),
                        ("amount", Metric::Sum(1)),
                        ("least_x", Metric::Least(5)),
                        ("most_x", Metric::Greatest(5)),
                        ("least_big", Metric::Least(6)),
                        ("most_big", Metric::Greatest(6)),
                    ]),
                    added: Vec::new(),
                },
            ),
            // Keys with NaN and two zeros, which fold; inputs that are never null.
            shape(
                Some(1),
                RollupShape {
                    events: schema(&[
                        ("u", DataType::UInt64, true),
                        ("f", DataType::Float64, true),
                        ("step", DataType::Int32, false),
                    ]),
                    key: vec![0, 1],
                    time: None,
                    metrics: sums(&[("steps", Metric::Sum(2)), ("worst", Metric::Least(2))]),
                    added: Vec::new(),
                },
            ),
            // Few keys with very many events.
            shape(
                Some(0),
                RollupShape {
                    events: schema(&[
                        ("flag", DataType::Boolean, true),
                        ("step", DataType::Int32, true),
                    ]),
                    key: vec![0],
                    time: None,
                    metrics: sums(&[("step", Metric::Sum(1)), ("n", Metric::Count)]),
                    added: Vec::new(),
                },
            ),
            // Events alone.
            shape(
                None,
                RollupShape {
                    events: schema(&[("word", DataType::Utf8, false)]),
                    key: vec![0],
                    time: None,
                    metrics: Vec::new(),
                    added: Vec::new(),
                },
            ),
        ]
    }

    /// As the engine takes it.
    pub fn spec(&self) -> TableSpec {
        let name = |column: &usize| self.columns.field(*column).name().clone();
        TableSpec {
            set: self.set.as_ref().map(name),
            ..TableSpec::new(self.batch_columns(), self.key.iter().map(name))
                .weights(self.weights.iter().map(name))
                .merge(match &self.policy {
                    Policy::Append => Merge::Append,
                    Policy::Upsert => Merge::Upsert,
                    Policy::Rollup(rollup) => Merge::Rollup(rollup.spec()),
                })
        }
    }

    /// Adds a nullable column behind the others, in a rollup table a dimension.
    pub fn add_column(&mut self, name: &str, data_type: &DataType) {
        if let Policy::Rollup(rollup) = &mut self.policy {
            rollup.add_dimension(name, data_type);
            self.key.push(self.columns.fields().len());
        }
        self.columns = with_nullable(&self.columns, name, data_type);
    }

    /// Columns of an appended batch.
    fn batch_columns(&self) -> Arc<Schema> {
        match &self.policy {
            Policy::Rollup(rollup) => rollup.events.clone(),
            _ => self.columns.clone(),
        }
    }

    /// Random rows to append.
    pub fn rows(&self, rng: &mut Rng, count: u64) -> Vec<Vec<Cell>> {
        let columns = self.batch_columns();
        let fields = columns.fields();
        let row = |rng: &mut Rng| {
            fields.iter().map(|f| random_cell(rng, f.data_type(), f.is_nullable())).collect()
        };
        (0..count).map(|_| row(rng)).collect()
    }

    /// Rows as a batch.
    pub fn batch(&self, rows: &[Vec<Cell>]) -> RecordBatch {
        let schema = self.batch_columns();
        let column = |(index, field): (usize, &Arc<Field>)| {
            let cells: Vec<Cell> = rows.iter().map(|row| row[index].clone()).collect();
            to_array(field.data_type(), &cells)
        };
        let columns = schema.fields().iter().enumerate().map(column).collect();
        RecordBatch::try_new(schema.clone(), columns).expect("rows fit their own shape")
    }

    /// Keys as one array per key column.
    pub fn key_arrays(&self, keys: &[Vec<Cell>]) -> Vec<ArrayRef> {
        let column = |(position, &column): (usize, &usize)| {
            let cells: Vec<Cell> = keys.iter().map(|key| key[position].clone()).collect();
            to_array(self.columns.field(column).data_type(), &cells)
        };
        self.key.iter().enumerate().map(column).collect()
    }

    /// The key of an appended row, and the values that the table shows of it.
    pub fn stored(&self, row: &[Cell]) -> (Vec<Cell>, Vec<Cell>) {
        let cells = match &self.policy {
            Policy::Rollup(rollup) => rollup.row(row),
            _ => {
                let mut cells: Vec<Cell> = row.iter().map(Cell::with_one_nan).collect();
                for &column in &self.key {
                    cells[column] = cells[column].normalised();
                }
                cells
            }
        };
        (self.key.iter().map(|&column| cells[column].clone()).collect(), cells)
    }
}

/// Columns of name, type and whether they take nulls.
fn schema(columns: &[(&str, DataType, bool)]) -> Arc<Schema> {
    let fields = columns.iter().map(|(name, t, null)| Field::new(*name, t.clone(), *null));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn timestamp() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("Europe/Berlin".into()))
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
        // Some seconds, and some before 1970.
        DataType::Timestamp(..) => match i128::from(rng.below(5_000)) * 1_000 {
            early if rng.below(16) == 0 => Cell::Int(-early),
            late => Cell::Int(1_700_000_000_000_000 + late),
        },
        DataType::UInt32 => match rng.below(80) {
            0 => Cell::Int(u32::MAX.into()),
            few => Cell::Int(i128::from(few % 20)),
        },
        // Numbers that add up exactly, and weigh something.
        DataType::Float32 => Cell::float(rng.below(41) as f64 / 4.0),
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

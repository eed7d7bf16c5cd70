//! Single values: what the model keeps instead of Arrow arrays.

use std::cmp::Ordering;
use std::sync::Arc;

use drillcore::arrow_array::builder::{ListBuilder, StringBuilder};
use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::{
    Date32Type, Float32Type, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType,
    UInt32Type, UInt64Type,
};
use drillcore::arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Float32Array, Float64Array, PrimitiveArray,
    RecordBatch, StringArray,
};
use drillcore::arrow_schema::{DataType, TimeUnit};

/// One value. Equality is that of bits: NaNs of different payload differ, as do -0.0 and 0.0.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Cell {
    /// No value.
    Null,
    /// True or false.
    Bool(bool),
    /// Integers, dates and timestamps.
    Int(i128),
    /// The bits of a double; of a float, widened.
    Float(u64),
    /// A text.
    Text(String),
    /// A binary value.
    Bytes(Vec<u8>),
    /// Texts and nulls.
    List(Vec<Cell>),
}

impl Cell {
    /// A float, which is compared by its bits.
    pub fn float(value: f64) -> Cell {
        Cell::Float(value.to_bits())
    }

    /// The value as a column stores it: there is one NaN.
    pub fn with_one_nan(&self) -> Cell {
        if self.is_nan() { Cell::float(f64::NAN) } else { self.clone() }
    }

    /// The value as a key column stores it: -0.0 is 0.0, too.
    pub fn normalised(&self) -> Cell {
        match self {
            Cell::Float(bits) if f64::from_bits(*bits) == 0.0 => Cell::float(0.0),
            other => other.with_one_nan(),
        }
    }

    /// The number, of an integer or a float.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Cell::Int(value) => Some(*value as f64),
            Cell::Float(bits) => Some(f64::from_bits(*bits)),
            _ => None,
        }
    }

    /// Whether it is a float that is no number.
    pub fn is_nan(&self) -> bool {
        matches!(self, Cell::Float(bits) if f64::from_bits(*bits).is_nan())
    }

    /// The order of keys: nulls first, -0.0 equal to 0.0, NaN last.
    pub fn key_order(&self, other: &Cell) -> Ordering {
        match (self, other) {
            (Cell::Null, Cell::Null) => Ordering::Equal,
            (Cell::Null, _) => Ordering::Less,
            (_, Cell::Null) => Ordering::Greater,
            (Cell::Bool(a), Cell::Bool(b)) => a.cmp(b),
            (Cell::Int(a), Cell::Int(b)) => a.cmp(b),
            (Cell::Text(a), Cell::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Cell::Float(a), Cell::Float(b)) => {
                let (a, b) = (f64::from_bits(*a), f64::from_bits(*b));
                match (a.is_nan(), b.is_nan()) {
                    (false, false) => a.partial_cmp(&b).expect("neither is NaN"),
                    (a, b) => a.cmp(&b),
                }
            }
            (a, b) => panic!("{a:?} and {b:?} are of different types"),
        }
    }
}

/// Compares two lists of cells, a shorter one with the beginning of the longer.
pub fn prefix_order(a: &[Cell], b: &[Cell]) -> Ordering {
    let decided = a.iter().zip(b).map(|(a, b)| a.key_order(b)).find(|order| order.is_ne());
    decided.unwrap_or(Ordering::Equal)
}

/// An array of cells of one type.
pub fn to_array(data_type: &DataType, cells: &[Cell]) -> ArrayRef {
    fn ints<T>(data_type: &DataType, cells: &[Cell]) -> ArrayRef
    where
        T: drillcore::arrow_array::ArrowPrimitiveType,
        T::Native: TryFrom<i128>,
    {
        let native = |cell: &Cell| match cell {
            Cell::Null => None,
            Cell::Int(value) => T::Native::try_from(*value).ok(),
            other => panic!("{other:?} is no integer"),
        };
        let values: PrimitiveArray<T> = cells.iter().map(native).collect();
        Arc::new(values.with_data_type(data_type.clone()))
    }
    fn floats(cells: &[Cell]) -> impl Iterator<Item = Option<f64>> + '_ {
        cells.iter().map(|cell| match cell {
            Cell::Null => None,
            Cell::Float(bits) => Some(f64::from_bits(*bits)),
            other => panic!("{other:?} is no float"),
        })
    }
    match data_type {
        DataType::Boolean => {
            let values = cells.iter().map(|cell| match cell {
                Cell::Null => None,
                Cell::Bool(value) => Some(*value),
                other => panic!("{other:?} is no bool"),
            });
            Arc::new(values.collect::<BooleanArray>())
        }
        DataType::Float32 => {
            Arc::new(floats(cells).map(|value| value.map(|v| v as f32)).collect::<Float32Array>())
        }
        DataType::Float64 => Arc::new(floats(cells).collect::<Float64Array>()),
        DataType::Utf8 => {
            let values = cells.iter().map(|cell| match cell {
                Cell::Null => None,
                Cell::Text(value) => Some(value.as_str()),
                other => panic!("{other:?} is no text"),
            });
            Arc::new(values.collect::<StringArray>())
        }
        DataType::Binary => {
            let values = cells.iter().map(|cell| match cell {
                Cell::Null => None,
                Cell::Bytes(value) => Some(value.as_slice()),
                other => panic!("{other:?} is no binary"),
            });
            Arc::new(values.collect::<BinaryArray>())
        }
        DataType::List(_) => {
            let mut lists = ListBuilder::new(StringBuilder::new());
            for cell in cells {
                let item = |item: &Cell| match item {
                    Cell::Null => None,
                    Cell::Text(text) => Some(text.clone()),
                    other => panic!("{other:?} is no text"),
                };
                lists.append_option(match cell {
                    Cell::Null => None,
                    Cell::List(items) => Some(items.iter().map(item)),
                    other => panic!("{other:?} is no list"),
                });
            }
            Arc::new(lists.finish())
        }
        DataType::Int32 => ints::<Int32Type>(data_type, cells),
        DataType::Int64 => ints::<Int64Type>(data_type, cells),
        DataType::UInt32 => ints::<UInt32Type>(data_type, cells),
        DataType::UInt64 => ints::<UInt64Type>(data_type, cells),
        DataType::Date32 => ints::<Date32Type>(data_type, cells),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            ints::<TimestampMicrosecondType>(data_type, cells)
        }
        other => panic!("the model knows no {other}"),
    }
}

/// The cells of an array.
pub fn from_array(values: &dyn Array) -> Vec<Cell> {
    let cell = |row: usize| -> Cell {
        if values.is_null(row) {
            return Cell::Null;
        }
        match values.data_type() {
            DataType::Boolean => Cell::Bool(values.as_boolean().value(row)),
            DataType::Float32 => {
                Cell::float(values.as_primitive::<Float32Type>().value(row).into())
            }
            DataType::Float64 => Cell::float(values.as_primitive::<Float64Type>().value(row)),
            DataType::Utf8 => Cell::Text(values.as_string::<i32>().value(row).to_string()),
            DataType::Binary => Cell::Bytes(values.as_binary::<i32>().value(row).to_vec()),
            DataType::List(_) => Cell::List(from_array(&values.as_list::<i32>().value(row))),
            DataType::Int32 => Cell::Int(values.as_primitive::<Int32Type>().value(row).into()),
            DataType::Int64 => Cell::Int(values.as_primitive::<Int64Type>().value(row).into()),
            DataType::UInt32 => Cell::Int(values.as_primitive::<UInt32Type>().value(row).into()),
            DataType::UInt64 => Cell::Int(values.as_primitive::<UInt64Type>().value(row).into()),
            DataType::Date32 => Cell::Int(values.as_primitive::<Date32Type>().value(row).into()),
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                Cell::Int(values.as_primitive::<TimestampMicrosecondType>().value(row).into())
            }
            other => panic!("the model knows no {other}"),
        }
    };
    (0..values.len()).map(cell).collect()
}

/// The rows of a batch as lists of cells.
pub fn rows_of(batch: &RecordBatch) -> Vec<Vec<Cell>> {
    let columns: Vec<Vec<Cell>> = batch.columns().iter().map(|c| from_array(c.as_ref())).collect();
    (0..batch.num_rows()).map(|row| columns.iter().map(|c| c[row].clone()).collect()).collect()
}

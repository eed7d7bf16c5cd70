//! Which set each row belongs to, as small codes.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, StringArray};
use arrow_schema::DataType;
use foldhash::fast::FixedState;

use crate::error::Result;
use crate::key::fixed::{Fixed, with_fixed_type};
use crate::key::{Keys, decode_values, encode_value, split_column};
use crate::narrowing::restored;
use crate::rows::stored_rows::Rows;
use crate::texts_by_code::{Codes, texts_of};

/// The set of each row, as a code into the distinct set values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetCodes {
    /// The distinct set values as `key::encode_value` writes them, in order of appearance.
    pub values: Vec<Box<[u8]>>,
    /// One position in `values` per row.
    pub codes: Vec<u32>,
}

impl SetCodes {
    /// All rows in the set of rows without a value.
    pub(super) fn of_nulls(len: usize) -> SetCodes {
        let mut value = Vec::new();
        encode_value(&BooleanArray::new_null(1), 0, &mut value);
        let values = if len == 0 { Vec::new() } else { vec![value.into()] };
        SetCodes { values, codes: vec![0; len] }
    }

    /// Codes of the key column at `position`; costs a walk over each key up to that column.
    pub(super) fn of_key_column(
        rows: &Rows,
        types: &[DataType],
        position: usize,
    ) -> Result<SetCodes> {
        if let Some(codes) = rows.key_codes()
            && let Some(of_rows) = codes.codes_of(rows.keys(), position)
        {
            let mut coder = Coder::new(rows.len());
            for code in of_rows {
                coder.push(Some(code), || Box::from(codes.value(position, code)));
            }
            return Ok(coder.finish());
        }
        let mut coder = Coder::new(rows.len());
        for key in rows.keys().iter() {
            let value = match rows.key_codes() {
                None => split_column(key, types, position)?,
                Some(codes) => codes.plain_value(key, position).expect("codes were looked at"),
            };
            coder.push(Some(value), || value.into());
        }
        Ok(coder.finish())
    }

    /// Codes of an array of set values of a type, which may be narrow numbers.
    pub(super) fn of_array(array: &ArrayRef, data_type: &DataType) -> SetCodes {
        let encoded = |row: usize| {
            let mut value = Vec::new();
            encode_value(&restored(&array.slice(row, 1), data_type), 0, &mut value);
            value.into_boxed_slice()
        };
        match array.data_type() {
            DataType::Null => SetCodes::of_nulls(array.len()),
            DataType::Utf8 => {
                let mut coder = Coder::new(array.len());
                for (row, value) in array.as_string::<i32>().iter().enumerate() {
                    coder.push(value, || encoded(row));
                }
                coder.finish()
            }
            DataType::Dictionary(..) => {
                let codes = Codes::of(array).expect("codes of texts are unsigned");
                let texts = texts_of(array).expect("it is by code");
                let mut coder = Coder::new(array.len());
                for row in 0..array.len() {
                    let code = array.is_valid(row).then(|| codes.at(row));
                    coder.push(code, || {
                        let mut value = Vec::new();
                        match code {
                            Some(code) => encode_value(texts, code, &mut value),
                            None => encode_value(&BooleanArray::new_null(1), 0, &mut value),
                        }
                        value.into_boxed_slice()
                    });
                }
                coder.finish()
            }
            DataType::Boolean => {
                let mut coder = Coder::new(array.len());
                for (row, value) in array.as_boolean().iter().enumerate() {
                    coder.push(value, || encoded(row));
                }
                coder.finish()
            }
            data_type => with_fixed_type!(data_type, T => {
                let mut coder = Coder::new(array.len());
                for (row, value) in array.as_primitive::<T>().iter().enumerate() {
                    // The ordered form makes equal floats equal bits.
                    let bits = value.map(|value| {
                        let mut bits = [0u8; 16];
                        value.put_ordered(&mut bits[..size_of_val(&value)]);
                        u128::from_le_bytes(bits)
                    });
                    coder.push(bits, || encoded(row));
                }
                coder.finish()
            }, panic!("{data_type} is not a set type")),
        }
    }
}

/// Sets that rows are compared with one by one; of more, each row's is looked up.
const COMPARED_MAX: usize = 8;

/// Finds rows that are in one of a few sets, by comparing.
pub(super) enum Compared {
    /// By texts.
    Texts(StringArray),
    /// By encoded values.
    Encoded(Vec<Box<[u8]>>),
}

impl Compared {
    /// How rows are compared with these sets, given by encoded values, where they hold the set column as `array` or in
    /// keys; `None` if that takes longer than to look them up.
    pub fn with(sets: &[&[u8]], array: Option<&ArrayRef>) -> Result<Option<Compared>> {
        if sets.len() > COMPARED_MAX {
            return Ok(None);
        }
        Ok(match array {
            None => Some(Compared::Encoded(sets.iter().map(|&set| set.into()).collect())),
            Some(array) if *array.data_type() == DataType::Utf8 => {
                let texts = decode_values(sets, &DataType::Utf8)?;
                Some(Compared::Texts(texts.as_string::<i32>().clone()))
            }
            Some(_) => None,
        })
    }

    /// Calls `each` with the rows of an array that are in a set, and with the number of that.
    pub fn in_array(&self, array: &StringArray, mut each: impl FnMut(usize, usize)) {
        let Compared::Texts(sets) = self else { unreachable!("arrays are compared by texts") };
        let wanted: Vec<Option<&str>> = sets.iter().collect();
        for (row, value) in array.iter().enumerate() {
            if let Some(set) = wanted.iter().position(|set| *set == value) {
                each(row, set);
            }
        }
    }

    /// The same, of the key column at `position`.
    pub fn in_keys(
        &self,
        keys: &Keys,
        types: &[DataType],
        position: usize,
        mut each: impl FnMut(usize, usize),
    ) -> Result<()> {
        let Compared::Encoded(sets) = self else { unreachable!("keys are compared as they are") };
        for (row, key) in keys.iter().enumerate() {
            let value = split_column(key, types, position)?;
            if let Some(set) = sets.iter().position(|set| **set == *value) {
                each(row, set);
            }
        }
        Ok(())
    }
}

/// Gives out codes in order of appearance: one lookup per row, none for a row like the one before.
struct Coder<K> {
    /// The hash has no seed, so the same input takes the same time in every run; values chosen to collide cost
    /// time, never a wrong answer.
    known: HashMap<Option<K>, u32, FixedState>,
    previous: Option<(Option<K>, u32)>,
    result: SetCodes,
}

impl<K: Hash + Eq + Copy> Coder<K> {
    fn new(row_count: usize) -> Coder<K> {
        let result = SetCodes { values: Vec::new(), codes: Vec::with_capacity(row_count) };
        Coder { known: HashMap::default(), previous: None, result }
    }

    fn push(&mut self, value: Option<K>, encoded: impl FnOnce() -> Box<[u8]>) {
        let code = match self.previous {
            Some((previous, code)) if previous == value => code,
            _ => match self.known.entry(value) {
                Entry::Occupied(entry) => *entry.get(),
                Entry::Vacant(entry) => {
                    let code = u32::try_from(self.result.values.len()).expect("codes fit 32 bits");
                    self.result.values.push(encoded());
                    *entry.insert(code)
                }
            },
        };
        self.previous = Some((value, code));
        self.result.codes.push(code);
    }

    fn finish(self) -> SetCodes {
        self.result
    }
}

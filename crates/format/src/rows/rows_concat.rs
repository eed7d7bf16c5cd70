//! Rows of several parts, one part behind the other, copied some at a time.

use std::sync::Arc;
use std::vec;

use arrow_array::builder::{BooleanBuilder, GenericByteBuilder, PrimitiveBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryType, ByteArrayType, Utf8Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, GenericByteArray};
use arrow_schema::DataType;
use arrow_select::concat::concat;

use crate::key::fixed::with_fixed_type;
use crate::key::{KeyCodes, Keys, KeysBuilder};
use crate::narrowing::{restored, widest};
use crate::rows::stored_rows::{OVERFULL, Rows};
use crate::text_codes;
use crate::texts_by_code::{codes_of, texts_of, with_codes};

/// Rows of a column that are copied at once.
const COPIED_AT_ONCE: usize = 1 << 14;

/// Rows of several parts that are being put together: any thread may copy some more. A part's column is freed once it is copied, so
/// there is at no time more than one column twice.
pub struct RowsConcat {
    len: usize,
    keys: Option<KeysConcat>,
    codes: Option<Arc<KeyCodes>>,
    /// The parts of the columns that are still to come, the last column first.
    rest: Vec<Vec<ArrayRef>>,
    column: Option<ColumnConcat>,
    done: Vec<ArrayRef>,
}

impl RowsConcat {
    /// O(parts * columns). Panics if there is no part, or if parts hold different columns.
    pub fn new(parts: Vec<Rows>) -> RowsConcat {
        let len = parts.iter().map(Rows::len).sum();
        let first = parts.first().expect("at least one part");
        let are_alike = parts.iter().all(|part| part.has_codes_of(first));
        assert!(are_alike, "keys of the parts are by different codes");
        let (codes, width) = (first.key_codes().cloned(), first.values().len());
        let has_keys = first.has_keys();
        let mut keys = Vec::with_capacity(parts.len());
        let mut rest: Vec<Vec<ArrayRef>> = vec![Vec::with_capacity(parts.len()); width];
        for part in parts {
            let (of_part, values) = part.into_keys_and_values();
            assert!(of_part.is_some() == has_keys && values.len() == width, "{OVERFULL}");
            keys.extend(of_part);
            rest.iter_mut().rev().zip(values).for_each(|(column, array)| column.push(array));
        }
        let keys = has_keys.then(|| KeysConcat::new(keys));
        RowsConcat { len, keys, codes, rest, column: None, done: Vec::with_capacity(width) }
    }

    /// Copies some rows of one column, and says about how many bytes they take; `None` once all are copied. Of texts whose parts are by
    /// different codes, all get the same ones before the first are copied.
    pub fn go_on(&mut self) -> Option<usize> {
        if let Some(bytes) = self.keys.as_mut().and_then(KeysConcat::go_on) {
            return Some(bytes);
        }
        loop {
            if let Some(column) = &mut self.column {
                if let Some(bytes) = column.go_on() {
                    return Some(bytes);
                }
                self.done.extend(self.column.take().map(ColumnConcat::finish));
            }
            self.column = Some(ColumnConcat::new(self.rest.pop()?));
        }
    }

    /// The rows, in arrays of exact size, once all are copied. Panics if strings do not fit an array.
    pub fn finish(mut self) -> Rows {
        while self.go_on().is_some() {}
        let rows = Rows::new(self.len, None, self.done);
        let rows = match self.keys {
            Some(keys) => rows.with_keys(keys.finish(), self.codes),
            None => rows,
        };
        rows.check_fits();
        rows
    }
}

/// Something of which [`COPIED_AT_ONCE`] rows are taken at a time.
struct Pieces<T> {
    rest: vec::IntoIter<T>,
    /// How many rows of the first of the rest are copied.
    copied: usize,
}

impl<T> Pieces<T> {
    fn new(pieces: Vec<T>) -> Pieces<T> {
        Pieces { rest: pieces.into_iter(), copied: 0 }
    }

    fn next(
        &mut self,
        len: impl Fn(&T) -> usize,
        slice: impl Fn(&T, usize, usize) -> T,
    ) -> Option<T> {
        loop {
            let piece = self.rest.as_slice().first()?;
            let rows = COPIED_AT_ONCE.min(len(piece) - self.copied);
            if self.copied == 0 && rows == len(piece) {
                return self.rest.next();
            }
            if rows > 0 {
                let some = slice(piece, self.copied, rows);
                self.copied += rows;
                return Some(some);
            }
            self.rest.next();
            self.copied = 0;
        }
    }
}

/// The keys of all parts.
struct KeysConcat {
    pieces: Pieces<Keys>,
    keys: KeysBuilder,
}

impl KeysConcat {
    fn new(parts: Vec<Keys>) -> KeysConcat {
        KeysConcat { keys: KeysBuilder::for_all(&parts), pieces: Pieces::new(parts) }
    }

    fn go_on(&mut self) -> Option<usize> {
        let some = self.pieces.next(Keys::len, Keys::slice)?;
        self.keys.extend_keys(&some);
        Some(some.bytes())
    }

    fn finish(self) -> Keys {
        self.keys.finish()
    }
}

/// One column of all parts.
struct ColumnConcat {
    pieces: Pieces<ArrayRef>,
    column: Box<dyn Column>,
    /// The list of texts, of a column by code.
    texts: Option<ArrayRef>,
}

impl ColumnConcat {
    fn new(mut pieces: Vec<ArrayRef>) -> ColumnConcat {
        text_codes::alike(&mut pieces);
        let texts = pieces.first().and_then(|piece| texts_of(piece)).cloned();
        if texts.is_some() {
            pieces.iter_mut().for_each(|piece| *piece = codes_of(piece));
        }
        // Numbers that were narrowed apart get the narrowest type for all of them.
        let data_type = widest(pieces.iter().map(|piece| piece.data_type())).clone();
        let rows = pieces.iter().map(|piece| piece.len()).sum();
        let column: Box<dyn Column> = with_fixed_type!(&data_type, T => {
            let numbers = PrimitiveBuilder::<T>::with_capacity(rows);
            let numbers = numbers.with_data_type(data_type.clone());
            Box::new(Numbers { data_type, numbers })
        }, match &data_type {
            DataType::Utf8 => bytes_builder::<Utf8Type>(&pieces),
            DataType::Binary => bytes_builder::<BinaryType>(&pieces),
            DataType::Boolean => Box::new(BooleanBuilder::with_capacity(rows)),
            _ => Box::new(Others(Vec::new())),
        });
        ColumnConcat { pieces: Pieces::new(pieces), column, texts }
    }

    fn go_on(&mut self) -> Option<usize> {
        let some =
            self.pieces.next(|piece| piece.len(), |piece, first, rows| piece.slice(first, rows))?;
        Some(self.column.append(&some))
    }

    fn finish(mut self) -> ArrayRef {
        let column = self.column.finish();
        match &self.texts {
            Some(texts) => with_codes(&column, texts),
            None => column,
        }
    }
}

/// A column to which rows are appended.
trait Column: Send {
    /// Appends the rows, and says how many bytes they take.
    fn append(&mut self, rows: &ArrayRef) -> usize;

    fn finish(&mut self) -> ArrayRef;
}

/// Numbers in the type that holds all of them.
struct Numbers<T: ArrowPrimitiveType> {
    data_type: DataType,
    numbers: PrimitiveBuilder<T>,
}

impl<T: ArrowPrimitiveType> Column for Numbers<T> {
    fn append(&mut self, rows: &ArrayRef) -> usize {
        self.numbers.append_array(restored(rows, &self.data_type).as_primitive());
        rows.len() * size_of::<T::Native>()
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(self.numbers.finish())
    }
}

impl<T: ByteArrayType<Offset = i32>> Column for GenericByteBuilder<T> {
    fn append(&mut self, rows: &ArrayRef) -> usize {
        let strings = rows.as_bytes::<T>();
        self.append_array(strings).expect(OVERFULL);
        byte_len(strings) + rows.len() * size_of::<i32>()
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(GenericByteBuilder::finish(self))
    }
}

/// For texts or bytes, with room for all pieces.
fn bytes_builder<T: ByteArrayType<Offset = i32>>(pieces: &[ArrayRef]) -> Box<dyn Column> {
    let rows = pieces.iter().map(|piece| piece.len()).sum();
    let bytes = pieces.iter().map(|piece| byte_len(piece.as_bytes::<T>())).sum();
    Box::new(GenericByteBuilder::<T>::with_capacity(rows, bytes))
}

impl Column for BooleanBuilder {
    fn append(&mut self, rows: &ArrayRef) -> usize {
        self.append_array(rows.as_boolean());
        rows.len().div_ceil(8)
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(BooleanBuilder::finish(self))
    }
}

/// Those of any other type, such as nulls alone, which are copied at once in the end.
struct Others(Vec<ArrayRef>);

impl Column for Others {
    fn append(&mut self, rows: &ArrayRef) -> usize {
        self.0.push(rows.clone());
        0
    }

    fn finish(&mut self) -> ArrayRef {
        let pieces: Vec<&dyn Array> = self.0.iter().map(|piece| &**piece).collect();
        concat(&pieces).expect(OVERFULL)
    }
}

/// Bytes of some strings.
fn byte_len<T: ByteArrayType<Offset = i32>>(strings: &GenericByteArray<T>) -> usize {
    let offsets = strings.value_offsets();
    (offsets[strings.len()] - offsets[0]) as usize
}

#[cfg(test)]
mod tests {
    use arrow_array::{BinaryArray, BooleanArray, Decimal128Array, Int64Array, StringArray};

    use super::*;
    use crate::narrowing::narrowed;

    /// One column of some pieces, and how often something was copied.
    fn put_together(pieces: Vec<ArrayRef>) -> (ArrayRef, usize) {
        let parts = pieces.into_iter().map(|piece| Rows::new(piece.len(), None, vec![piece]));
        let mut concat = RowsConcat::new(parts.collect());
        let mut steps = 0;
        while concat.go_on().is_some() {
            steps += 1;
        }
        (concat.finish().value(0).clone(), steps)
    }

    #[test]
    fn long_pieces_are_copied_some_rows_at_a_time_whatever_their_type() {
        let rows = 3 * COPIED_AT_ONCE as i64 + 7;
        let numbers = || (0..rows).map(|row| (row % 3 > 0).then_some(row));
        let texts = || numbers().map(|row| row.map(|row| row.to_string()));
        let columns: [ArrayRef; 4] = [
            Arc::new(Int64Array::from_iter(numbers())),
            Arc::new(StringArray::from_iter(texts())),
            Arc::new(BinaryArray::from_iter(texts())),
            Arc::new(BooleanArray::from_iter(numbers().map(|row| row.map(|row| row % 2 > 0)))),
        ];
        for column in columns {
            let pieces = [(0, 0), (0, rows - 5), (rows - 5, 0), (rows - 5, 2), (rows - 3, 3)];
            let piece = |(first, len): (i64, i64)| column.slice(first as usize, len as usize);
            let (whole, steps) = put_together(pieces.map(piece).to_vec());
            assert_eq!(whole.as_ref(), column.as_ref());
            assert!((6..=8).contains(&steps), "{steps} steps of {}", column.data_type());
        }
    }

    #[test]
    fn keys_of_all_lengths_come_one_behind_the_other() {
        let rows = 2 * COPIED_AT_ONCE + 100;
        let even: Keys = (0..rows).map(|row| (row as u32).to_be_bytes()).collect();
        let uneven: Keys = (0..rows).map(|row| vec![7; row % 5]).collect();
        let parts = [even.slice(3, rows - 3), uneven.slice(20, rows - 30), even.slice(0, 1)];
        let expected: Keys = parts.iter().flat_map(Keys::iter).collect();
        let rows = |keys: Keys| Rows::new(keys.len(), Some(keys), Vec::new());
        let whole = RowsConcat::new(parts.map(rows).to_vec()).finish();
        assert_eq!(whole.keys(), &expected);
    }

    #[test]
    fn pieces_of_an_array_take_the_type_that_all_of_it_would() {
        let wide = Decimal128Array::from(vec![Some(1 << 70), None]);
        let wide: ArrayRef = Arc::new(wide.with_precision_and_scale(38, 0).unwrap());
        let cases: Vec<(Vec<Option<i128>>, DataType)> = vec![
            (vec![None, None, Some(3), Some(-4), None, Some(9)], DataType::Int8),
            (vec![Some(3), Some(300), None, None, Some(1), Some(2)], DataType::Int16),
            (vec![Some(1 << 40), None, Some(70_000), Some(5), None, None], DataType::Int64),
            (vec![None, Some(3), Some(1 << 70), None, Some(2), Some(2)], wide.data_type().clone()),
            (vec![None; 6], DataType::Null),
        ];
        for (numbers, expected) in cases {
            let whole = Decimal128Array::from(numbers.clone());
            let whole: ArrayRef = Arc::new(whole.with_precision_and_scale(38, 0).unwrap());
            let pieces = (0..3).map(|at| narrowed(&whole.slice(2 * at, 2)));
            let (found, _) = put_together(pieces.collect());
            assert_eq!(*found.data_type(), expected, "{numbers:?}");
            assert_eq!(restored(&found, whole.data_type()).as_ref(), whole.as_ref(), "{numbers:?}");
        }
    }
}

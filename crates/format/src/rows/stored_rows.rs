//! Rows in memory: encoded keys beside arrays.

use std::cell::LazyCell;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, UInt32Array, new_null_array};
use arrow_schema::DataType;
use arrow_select::take::take;

use crate::byte_bounds;
use crate::error::Result;
use crate::gathered::gathered;
use crate::key::{
    KeyCodes, Keys, coded_alike, decode_column, decode_picked, leading_word, picked_column,
    picked_keys, settled, shared_len,
};
use crate::narrowing::{may_be_restored, narrowed, narrows, restored};
use crate::pick::Pick;
use crate::rows::projection::Projection;
use crate::rows::row_order::{order_of_long_words, order_of_words};
use crate::text_codes;
use crate::texts_by_code::{Strings, code_bytes, interleaved, is_by_code, picked, texts_of};
use crate::value_bytes::string_offsets;
use crate::widening::widen;

/// What must hold of rows that are put together.
pub(super) const OVERFULL: &str = "parts have the same types, and strings that fit an array";

/// Some rows of a table, or some columns of them.
///
/// Rows do not know which columns they hold: the caller that passes them on says so by the
/// [`Projection`] they were made with. The strings of one `Rows` stay below 2 GiB a column.
#[derive(Debug, Clone)]
pub struct Rows {
    len: usize,
    keys: Option<Keys>,
    /// What the codes in the keys stand for, of rows as a run holds them.
    codes: Option<Arc<KeyCodes>>,
    /// Columns of the key with their positions in it, of rows that were read by columns.
    key_columns: Vec<(usize, ArrayRef)>,
    values: Vec<ArrayRef>,
}

/// Bytes of rows with columns of texts by code.
#[derive(Debug, Clone, Copy, Default)]
pub struct CodedTexts {
    /// What those columns have more when they are read than as they are held, without the lists of their texts.
    pub more: usize,
    /// The lists.
    pub lists: usize,
    /// All keys and strings without codes: those of keys by code, or more.
    pub strings: usize,
}

impl Rows {
    /// Panics if an array has another length.
    pub fn new(len: usize, keys: Option<Keys>, values: Vec<ArrayRef>) -> Rows {
        assert!(keys.as_ref().is_none_or(|keys| keys.len() == len), "one key per row");
        assert!(values.iter().all(|array| array.len() == len), "one value per row and column");
        Rows { len, keys, codes: None, key_columns: Vec::new(), values }
    }

    /// Rows without keys, that hold columns of the key instead, each with its position there. Who compares keys cannot
    /// use them. Panics if an array has another length.
    pub fn of_columns(
        len: usize,
        key_columns: Vec<(usize, ArrayRef)>,
        values: Vec<ArrayRef>,
    ) -> Rows {
        let all = key_columns.iter().map(|(_, array)| array).chain(&values);
        assert!(all.into_iter().all(|array| array.len() == len), "one value per row and column");
        Rows { len, keys: None, codes: None, key_columns, values }
    }

    /// The same values with other keys, which are by code if `codes` says so. Panics if there are not as many.
    pub fn with_keys(&self, keys: Keys, codes: Option<Arc<KeyCodes>>) -> Rows {
        assert_eq!(keys.len(), self.len, "one key per row");
        Rows { keys: Some(keys), codes, ..self.clone() }
    }

    /// What the codes in the keys stand for. Of rows without codes, keys are as they are encoded.
    pub fn key_codes(&self) -> Option<&Arc<KeyCodes>> {
        self.codes.as_ref()
    }

    /// The keys as they are encoded, without codes. O(bytes) of rows with codes, else O(1).
    pub fn spelled_keys(&self) -> Keys {
        self.spelled(self.keys().clone())
    }

    fn spelled(&self, keys: Keys) -> Keys {
        match &self.codes {
            None => keys,
            Some(codes) => codes.spelled(&keys),
        }
    }

    /// The column at a position of the key, of rows that were read by columns.
    pub fn key_column(&self, position: usize) -> Option<&ArrayRef> {
        self.key_columns.iter().find(|(at, _)| *at == position).map(|(_, column)| column)
    }

    /// The same key columns, or keys, beside other values.
    pub fn with_values(&self, values: Vec<ArrayRef>) -> Rows {
        assert!(values.iter().all(|array| array.len() == self.len), "one value per row and column");
        Rows {
            len: self.len,
            keys: self.keys.clone(),
            codes: self.codes.clone(),
            key_columns: self.key_columns.clone(),
            values,
        }
    }

    /// The number of rows, also where no column is held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether [`Rows::keys`] and [`Rows::key`] may be called.
    pub fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    /// The keys as they are held: by code if there are [`Rows::key_codes`]. Panics if the rows were fetched without keys.
    pub fn keys(&self) -> &Keys {
        self.keys.as_ref().expect("the rows were fetched without keys")
    }

    /// The encoded key of a row, as it is held. Panics if the rows were fetched without keys.
    pub fn key(&self, row: usize) -> &[u8] {
        self.keys().value(row)
    }

    /// The value arrays held, one per value of the projection.
    pub fn values(&self) -> &[ArrayRef] {
        &self.values
    }

    /// The value array at a position among those held.
    pub fn value(&self, position: usize) -> &ArrayRef {
        &self.values[position]
    }

    /// The projected columns of the rows in `range`, of rows that hold all.
    ///
    /// Values that the rows lack at the end, because they were written before a column was added,
    /// are null. Shares the arrays, but of [narrow](Rows::narrowed) numbers.
    pub fn project(&self, projection: &Projection, range: Range<usize>) -> Rows {
        if range == (0..self.len) {
            // A slice would count the nulls of all rows.
            return self.projected(projection, self.len, || self.spelled_keys(), Arc::clone);
        }
        let keys = || self.spelled(self.keys().slice(range.start, range.len()));
        let pick = |array: &ArrayRef| array.slice(range.start, range.len());
        self.projected(projection, range.len(), keys, pick)
    }

    /// A projection of rows that hold all, in the types in which they hold the columns: numbers [narrow](Rows::narrowed) and texts by
    /// code. [`Layout::decode`](crate::rows::Layout::decode) takes either.
    pub fn in_held_types(&self, projection: &Projection) -> Projection {
        let values = projection.values.iter().zip(&projection.types);
        let types =
            values.map(|(&index, data_type)| self.held_type(projection, index, data_type).clone());
        Projection { types: types.collect(), ..projection.clone() }
    }

    /// The type in which a projected value is held, or could be where it is of rows that lack it.
    fn held_type<'t>(
        &'t self,
        projection: &Projection,
        index: usize,
        data_type: &'t DataType,
    ) -> &'t DataType {
        match self.values.get(index) {
            _ if *data_type == DataType::Null => data_type,
            Some(array) => array.data_type(),
            None if narrows(data_type) && projection.earlier(index).next().is_none() => {
                &DataType::Null
            }
            None => data_type,
        }
    }

    /// [`Rows::project`] of all rows [in the types](Rows::in_held_types) in which they are held, and with keys by code. Shares the
    /// arrays.
    pub fn project_held(&self, projection: &Projection) -> Rows {
        let value = |(&index, data_type): (&usize, &DataType)| {
            let held_type = self.held_type(projection, index, data_type);
            self.projected_value(projection, index, held_type, self.len, &Arc::clone)
        };
        Rows {
            len: self.len,
            keys: projection.keys.then(|| self.keys().clone()),
            codes: self.codes.clone().filter(|_| projection.keys),
            key_columns: Vec::new(),
            values: projection.values.iter().zip(&projection.types).map(value).collect(),
        }
    }

    /// [`Rows::project_held`], if it makes no array: all columns are held, and keys without codes if there are to be some.
    pub fn shared(&self, projection: &Projection) -> Option<Rows> {
        let are_spelled = !projection.keys || self.codes.is_none();
        let are_held = projection.values.iter().all(|&index| index < self.values.len());
        (are_spelled && are_held).then(|| self.project_held(projection))
    }

    /// [`Rows::project`] of the rows at `indices`, copied in that order into arrays of exact size.
    pub fn project_rows(&self, projection: &Projection, indices: &[u32]) -> Rows {
        let keys = || self.spelled(self.keys().take(indices));
        self.projected(projection, indices.len(), keys, |array| take_array(array, indices))
    }

    fn projected(
        &self,
        projection: &Projection,
        len: usize,
        keys: impl Fn() -> Keys,
        pick: impl Fn(&ArrayRef) -> ArrayRef,
    ) -> Rows {
        let value = |(&index, data_type): (&usize, &DataType)| {
            self.projected_value(projection, index, data_type, len, &pick)
        };
        Rows {
            len,
            keys: projection.keys.then(keys),
            codes: None,
            key_columns: Vec::new(),
            values: projection.values.iter().zip(&projection.types).map(value).collect(),
        }
    }

    /// A value of `len` rows that `pick` takes of an array.
    fn projected_value(
        &self,
        projection: &Projection,
        index: usize,
        data_type: &DataType,
        len: usize,
        pick: &impl Fn(&ArrayRef) -> ArrayRef,
    ) -> ArrayRef {
        match self.values.get(index) {
            // Of a column that was dropped since.
            Some(_) if *data_type == DataType::Null => new_null_array(data_type, len),
            Some(array) => restored(&pick(array), data_type),
            None => {
                let mut earlier = projection.earlier(index);
                let earlier = earlier.find_map(|(at, of)| Some((self.values.get(at)?, of)));
                match earlier {
                    Some((array, of)) => widen(&restored(&pick(array), of), data_type),
                    None => new_null_array(data_type, len),
                }
            }
        }
    }

    /// The same rows with each column of numbers in the narrowest type that holds them, as a run keeps them. Columns that are
    /// projected are as they were.
    pub fn narrowed(self) -> Rows {
        // Each is freed before the next one is copied.
        Rows { values: self.values.into_iter().map(|array| narrowed(&array)).collect(), ..self }
    }

    /// The same rows with values of these types, which may be held [narrowed](Rows::narrowed).
    pub fn restored(&self, types: &[DataType]) -> Rows {
        let values = self.values.iter().zip(types);
        self.with_values(values.map(|(array, data_type)| restored(array, data_type)).collect())
    }

    /// Bytes of the numbers in values of these types, which the rows may hold in narrower ones. O(columns).
    pub fn number_bytes(&self, types: &[DataType]) -> usize {
        let widths = types.iter().take(self.values.len()).filter_map(DataType::primitive_width);
        self.len * widths.sum::<usize>()
    }

    /// The columns of `to` out of those of `from`, which the rows hold. Shares the arrays.
    pub fn narrow(&self, from: &Projection, to: &Projection) -> Rows {
        let place =
            |index: &usize| from.values.binary_search(index).expect("`to` lies within `from`");
        Rows {
            len: self.len,
            keys: self.keys.clone().filter(|_| to.keys),
            codes: self.codes.clone().filter(|_| to.keys),
            key_columns: self.key_columns.clone(),
            values: to.values.iter().map(|index| self.values[place(index)].clone()).collect(),
        }
    }

    /// The same rows without keys. Shares the arrays.
    pub fn without_keys(&self) -> Rows {
        let (key_columns, values) = (self.key_columns.clone(), self.values.clone());
        Rows { len: self.len, keys: None, codes: None, key_columns, values }
    }

    /// Shares the arrays: the slice keeps the whole buffers alive.
    pub fn slice(&self, offset: usize, len: usize) -> Rows {
        assert!(offset + len <= self.len, "{len} rows from {offset} of {}", self.len);
        Rows {
            len,
            keys: self.keys.as_ref().map(|keys| keys.slice(offset, len)),
            codes: self.codes.clone(),
            key_columns: self.each_key_column(|array| array.slice(offset, len)),
            values: self.values.iter().map(|array| array.slice(offset, len)).collect(),
        }
    }

    /// Copies the rows at `indices`, in that order, into arrays of exact size.
    pub fn take(&self, indices: &[u32]) -> Rows {
        Rows {
            len: indices.len(),
            keys: self.keys.as_ref().map(|keys| keys.take(indices)),
            codes: self.codes.clone(),
            key_columns: self.each_key_column(|array| take_array(array, indices)),
            values: self.values.iter().map(|array| take_array(array, indices)).collect(),
        }
    }

    /// Copies the rows at `picks` into arrays of exact size. All parts
    /// hold the same columns.
    pub fn interleave(parts: &[&Rows], picks: &[Pick]) -> Rows {
        let first = parts.first().expect("at least one part");
        for part in parts {
            assert_eq!(part.has_keys(), first.has_keys(), "parts hold different columns");
            assert_eq!(part.values.len(), first.values.len(), "parts hold different columns");
            assert!(part.has_codes_of(first), "keys of the parts are by different codes");
        }
        let column = |of: &dyn Fn(&Rows) -> &dyn Array| {
            let arrays: Vec<&dyn Array> = parts.iter().map(|part| of(part)).collect();
            interleaved(&arrays, picks, |codes| gathered(codes, picks))
                .unwrap_or_else(|| gathered(&arrays, picks))
        };
        let keys = || {
            let keys: Vec<&Keys> = parts.iter().map(|part| part.keys()).collect();
            Keys::interleave(&keys, picks)
        };
        let rows = Rows {
            len: picks.len(),
            keys: first.has_keys().then(keys),
            codes: first.codes.clone(),
            key_columns: Vec::new(),
            values: (0..first.values.len()).map(|at| column(&|part| part.value(at))).collect(),
        };
        rows.check_fits();
        rows
    }

    /// Whether [`Rows::picked`] has some parts' columns as they are to be shown, or can make them so.
    pub fn may_be_picked(parts: &[&Rows], projection: &Projection) -> bool {
        let is_held = |part: &Rows, (&index, data_type): (&usize, &DataType)| {
            part.values.get(index).is_some_and(|array| {
                let held = array.data_type();
                let is_text = *data_type == DataType::Utf8 && is_by_code(array);
                held == data_type || is_text || may_be_restored(held, data_type)
            })
        };
        let columns = || projection.values.iter().zip(&projection.types);
        parts.iter().all(|part| columns().all(|column| is_held(part, column)))
    }

    /// The projected columns of the rows at `picks`, of parts that hold all columns; keys are without codes. Parts are such that they
    /// [may be](Rows::may_be_picked). Panics if strings of a column take more than 2 GiB.
    pub fn picked(parts: &[&Rows], picks: &[Pick], projection: &Projection) -> Rows {
        let keys = || match parts.iter().any(|part| part.codes.is_some()) {
            true => picked_keys(&Rows::keys_of(parts), picks),
            false => {
                let keys: Vec<&Keys> = parts.iter().map(|part| part.keys()).collect();
                Keys::interleave(&keys, picks)
            }
        };
        Rows {
            len: picks.len(),
            keys: projection.keys.then(keys),
            codes: None,
            key_columns: Vec::new(),
            values: Rows::picked_values(parts, picks, projection),
        }
    }

    fn picked_values(parts: &[&Rows], picks: &[Pick], projection: &Projection) -> Vec<ArrayRef> {
        let column = |(&index, data_type): (&usize, &DataType)| -> ArrayRef {
            let arrays: Vec<&dyn Array> =
                parts.iter().map(|part| &*part.values[index] as _).collect();
            match arrays.iter().any(|array| is_by_code(*array)) {
                true => picked(&arrays, picks),
                false => restored(&gathered(&arrays, picks), data_type),
            }
        };
        projection.values.iter().zip(&projection.types).map(column).collect()
    }

    /// [`Rows::picked`] with columns of the key, at some positions of it, in place of keys; `types` are those of all its columns. Fails on
    /// keys that do not decode.
    pub fn picked_by_columns(
        parts: &[&Rows],
        picks: &[Pick],
        projection: &Projection,
        types: &[DataType],
        key: &[usize],
    ) -> Result<Rows> {
        let keys: Vec<&Keys> = parts.iter().map(|part| part.keys()).collect();
        let has_codes = parts.iter().any(|part| part.codes.is_some());
        let whole = LazyCell::new(|| Keys::interleave(&keys, picks));
        let column = |&at: &usize| {
            let column = if has_codes {
                let alone = picked_column(&Rows::keys_of(parts), picks, types, at)?;
                decode_column(&alone, &types[at..=at], 0)?
            } else {
                match decode_picked(&keys, picks, types, at) {
                    Some(column) => column,
                    None => decode_column(&whole, types, at)?,
                }
            };
            Ok((at, column))
        };
        Ok(Rows {
            len: picks.len(),
            keys: None,
            codes: None,
            key_columns: key.iter().map(column).collect::<Result<_>>()?,
            values: Rows::picked_values(parts, picks, projection),
        })
    }

    /// The most bytes that the keys, or the strings of a projected column, of the rows at `picks` take.
    pub fn picked_bytes(parts: &[&Rows], picks: &[Pick], projection: &Projection) -> usize {
        let of_column = |&index: &usize| {
            let strings: Option<Vec<Strings<'_>>> =
                parts.iter().map(|part| Strings::of(&part.values[index])).collect();
            let strings = strings?;
            Some(picks.iter().map(|pick| strings[pick.part()].byte_len(pick.row())).sum())
        };
        let keys = projection.keys.then(|| {
            if parts.iter().all(|part| part.codes.is_none()) {
                let keys: Vec<&Keys> = parts.iter().map(|part| part.keys()).collect();
                return Keys::picked_bytes(&keys, picks);
            }
            let len = |pick: &Pick| {
                let (rows, row): (&Rows, usize) = (parts[pick.part()], pick.row());
                key_bytes(rows.keys(), rows.codes.as_deref(), row..row + 1)
            };
            picks.iter().map(len).sum()
        });
        projection.values.iter().filter_map(of_column).chain(keys).max().unwrap_or(0)
    }

    fn keys_of<'r>(parts: &[&'r Rows]) -> Vec<(&'r Keys, Option<&'r KeyCodes>)> {
        parts.iter().map(|part| (part.keys(), part.codes.as_deref())).collect()
    }

    /// The keys, if there are any, and the columns that are values.
    pub(super) fn into_keys_and_values(self) -> (Option<Keys>, Vec<ArrayRef>) {
        (self.keys, self.values)
    }

    fn each_key_column(&self, pick: impl Fn(&ArrayRef) -> ArrayRef) -> Vec<(usize, ArrayRef)> {
        self.key_columns.iter().map(|(position, array)| (*position, pick(array))).collect()
    }

    /// The same rows with keys by code, if that is worth it now that rows came together or became fewer. `types` are those of all
    /// columns of the key. O(rows) to look at some of them, O(bytes of keys) where these are written anew.
    pub fn with_settled_codes(mut self, types: &[DataType]) -> Rows {
        let codes = self.codes.take().map(Arc::unwrap_or_clone);
        let (keys, codes) = settled(self.keys().clone(), codes, types);
        self.with_keys(keys, codes.map(Arc::new))
    }

    /// The keys of several parts in the same codes, so that they compare, and what they stand for; `None` if no part has codes.
    /// O(bytes of keys) of parts that had others.
    pub fn keys_coded_alike(
        parts: &[&Rows],
        types: &[DataType],
    ) -> Option<(Vec<Keys>, Arc<KeyCodes>)> {
        let parts: Vec<_> = parts.iter().map(|part| (part.keys(), part.codes.as_deref())).collect();
        coded_alike(&parts, types).map(|(keys, codes)| (keys, Arc::new(codes)))
    }

    /// Whether keys are by the same codes, or without.
    pub(super) fn has_codes_of(&self, other: &Rows) -> bool {
        match (&self.codes, &other.codes) {
            (None, None) => true,
            (Some(codes), Some(of_other)) => Arc::ptr_eq(codes, of_other),
            _ => false,
        }
    }

    /// The row numbers in key order; rows with equal keys stay in their order.
    ///
    /// O(n) comparisons if the rows are sorted already, else one sort, which mostly compares the
    /// eight or sixteen bytes behind what all keys have in common, as a number.
    pub fn sort_permutation(&self) -> Vec<u32> {
        let row_count = u32::try_from(self.len).expect("row numbers fit 32 bits");
        let keys = self.keys();
        if (1..self.len).all(|row| keys.value(row - 1) <= keys.value(row)) {
            return (0..row_count).collect();
        }
        let first = keys.value(0);
        let shared = (1..self.len)
            .fold(first.len(), |shared, row| shared_len(&first[..shared], keys.value(row)));
        let rest = |row: u32| &keys.value(row as usize)[shared..];
        let word = |row: u32| leading_word(rest(row));
        match keys.width().map(|width| width - shared) {
            // Words of half the length are sorted in less time, and say all.
            Some(0..=8) => order_of_words(row_count, |row| (word(row) >> 64) as u64),
            // Keys of one length up to sixteen are equal where their words are.
            Some(9..=16) => order_of_long_words(row_count, word, |_, _| Ordering::Equal),
            _ => order_of_long_words(row_count, word, |a, b| rest(a).cmp(rest(b))),
        }
    }

    /// The first row whose key does not stand behind that of the row before: is less or, where keys are to be
    /// `distinct`, the same. O(rows).
    pub fn first_out_of_order(&self, distinct: bool) -> Option<usize> {
        let keys = self.keys();
        let in_order = |row: usize| match keys.value(row - 1).cmp(keys.value(row)) {
            Ordering::Less => true,
            Ordering::Equal => !distinct,
            Ordering::Greater => false,
        };
        (1..self.len).find(|row| !in_order(*row))
    }

    /// Bytes of the keys and strings of these rows alone, whatever buffers they share: of keys by code those that they have without,
    /// or more. O(columns), by code O(rows).
    pub fn string_bytes(&self) -> usize {
        self.string_bytes_in(0..self.len)
    }

    /// Bytes of the key and the strings of each row. O(rows * columns of strings).
    pub fn string_bytes_by_row(&self) -> Vec<usize> {
        let mut bytes = vec![0; self.len];
        if let Some(keys) = &self.keys {
            let len = |row: usize| key_bytes(keys, self.codes.as_deref(), row..row + 1);
            bytes.iter_mut().enumerate().for_each(|(row, bytes)| *bytes += len(row));
        }
        for strings in self.values.iter().filter_map(|array| Strings::of(array)) {
            bytes.iter_mut().enumerate().for_each(|(row, bytes)| *bytes += strings.byte_len(row));
        }
        bytes
    }

    /// Bytes of the keys and strings of some rows. O(columns), by code O(rows).
    pub fn string_bytes_in(&self, rows: Range<usize>) -> usize {
        self.keys_bytes(rows.clone()) + string_bytes(self.values.iter(), &rows)
    }

    /// Bytes of the keys of some rows, if there are keys.
    fn keys_bytes(&self, rows: Range<usize>) -> usize {
        self.keys.as_ref().map_or(0, |keys| key_bytes(keys, self.codes.as_deref(), rows))
    }

    /// Bytes of those keys and strings of some rows that are projected, of rows that hold all. O(columns), by code O(rows).
    pub fn projected_string_bytes_in(&self, projection: &Projection, rows: Range<usize>) -> usize {
        let keys = self.keys.as_ref().filter(|_| projection.keys);
        let keys = keys.map_or(0, |keys| key_bytes(keys, self.codes.as_deref(), rows.clone()));
        let columns = projection.values.iter().filter_map(|&index| self.values.get(index));
        keys + string_bytes(columns, &rows)
    }

    /// Panics if keys or strings of a column are more than an array holds.
    pub(super) fn check_fits(&self) {
        assert!(self.held_spans().all(|bytes| bytes <= byte_bounds::array()), "{OVERFULL}");
    }

    /// Bytes of the keys, then of each column of strings, as they are held.
    fn held_spans(&self) -> impl Iterator<Item = usize> {
        let strings = self.values.iter().filter_map(|array| string_offsets(array));
        let strings = strings.map(|offsets| match offsets {
            [first, .., last] => (last - first) as usize,
            _ => 0,
        });
        self.keys.iter().map(|keys| keys.bytes_in(0..keys.len())).chain(strings)
    }

    /// What columns by code have that their rows do not show, in bytes: see [`CodedTexts`]. O(rows).
    pub fn coded_texts(&self) -> CodedTexts {
        let mut all = CodedTexts { strings: self.keys_bytes(0..self.len), ..CodedTexts::default() };
        for array in &self.values {
            let Some(strings) = Strings::of(array) else { continue };
            let bytes = strings.bytes_in(0..self.len);
            all.strings += bytes;
            if let Some(list) = texts_of(array) {
                let plain = bytes + self.len * size_of::<i32>();
                all.more += plain.saturating_sub(self.len * code_bytes(list.len()));
                all.lists += list.get_buffer_memory_size();
            }
        }
        all
    }

    /// The same rows with columns of texts by code where that is worth it now that rows came together or became fewer. O(rows).
    pub fn with_settled_texts(self) -> Rows {
        Rows { values: self.values.iter().map(text_codes::settled).collect(), ..self }
    }

    /// The values of several parts, whose columns of texts are by code with one list each where that is worth it, else plain; `None`
    /// if they are plain in all. `types` are those of all values: what is no column of texts any more stays as it is.
    pub fn texts_coded_alike(parts: &[&Rows], types: &[DataType]) -> Option<Vec<Vec<ArrayRef>>> {
        let mut values: Vec<Vec<ArrayRef>> = parts.iter().map(|part| part.values.clone()).collect();
        let mut are_plain = true;
        let texts = types.iter().enumerate().filter(|(_, of)| **of == DataType::Utf8);
        for (at, _) in texts {
            let held: Vec<usize> =
                (0..parts.len()).filter(|part| at < values[*part].len()).collect();
            if !held.iter().any(|part| is_by_code(&values[*part][at])) {
                continue;
            }
            are_plain = false;
            let mut column: Vec<ArrayRef> =
                held.iter().map(|part| values[*part][at].clone()).collect();
            text_codes::alike(&mut column);
            held.into_iter().zip(column).for_each(|(part, array)| values[part][at] = array);
        }
        (!are_plain).then_some(values)
    }

    /// Bytes of the buffers held that `other` does not hold. Of columns that differ their lists of texts count, too.
    pub fn allocated_beside(&self, other: &Rows) -> usize {
        let keys = match (&self.keys, &other.keys) {
            (Some(keys), Some(others)) if keys.shares_bytes_with(others) => 0,
            (keys, _) => keys.as_ref().map_or(0, Keys::allocated_bytes),
        };
        let is_held = |array: &&ArrayRef| {
            let is_same = |held: &ArrayRef| Arc::as_ptr(held).addr() == Arc::as_ptr(array).addr();
            other.values.iter().any(is_same)
        };
        let added = self.values.iter().filter(|array| !is_held(array));
        keys + added.map(|array| array.get_buffer_memory_size()).sum::<usize>()
    }

    /// Bytes of the buffers held. A buffer that other rows share counts whole.
    pub fn allocated_bytes(&self) -> usize {
        let keys = self.keys.as_ref().map_or(0, |keys| keys.allocated_bytes());
        let codes = self.codes.as_ref().map_or(0, |codes| codes.allocated_bytes());
        keys + codes + self.values.iter().map(|array| array.get_buffer_memory_size()).sum::<usize>()
    }
}

/// Bytes of some keys without codes: of one key those that it has, of several by code a bound.
fn key_bytes(keys: &Keys, codes: Option<&KeyCodes>, rows: Range<usize>) -> usize {
    match codes {
        None => keys.bytes_in(rows),
        Some(codes) if rows.len() == 1 => codes.spelled_len(keys.value(rows.start)),
        Some(codes) => codes.spelled_bytes_max(keys, rows),
    }
}

fn string_bytes<'r>(columns: impl Iterator<Item = &'r ArrayRef>, rows: &Range<usize>) -> usize {
    let strings = columns.filter_map(|array| Strings::of(array));
    strings.map(|strings| strings.bytes_in(rows.clone())).sum()
}

pub(super) fn take_array(array: &dyn Array, indices: &[u32]) -> ArrayRef {
    take(array, &UInt32Array::from(indices.to_vec()), None).expect("strings stay below 2 GiB")
}

//! Collects rows from blocks into arrays.

use std::slice::Iter;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, PrimitiveArray, StringArray,
    new_null_array,
};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBufferBuilder, OffsetBuffer};
use arrow_schema::DataType;

use crate::block::byte_list::ListView;
use crate::block::encoding_byte::{EXTENTS, malformed};
use crate::block::numbered_keys::{KeyRests, KeyRoom};
use crate::block::picked::Picked;
use crate::block::section::{
    BoolValues, DICTIONARY_ENTRIES_MAX, FixedValues, PackedView, Presence, Section, StringValues,
    bit, check_code, texts_of,
};
use crate::block::view::BlockView;
use crate::byte_bounds;
use crate::dictionary::Dictionary;
use crate::error::{FormatError, Result};
use crate::key::KeysBuilder;
use crate::key::fixed::{Fixed, typed, with_fixed_type};
use crate::rows::{Projection, Rows};
use crate::symbol_table::{DecodedStrings, SymbolTable};
use crate::widening::widen;

/// Collects the projected columns of rows from any number of blocks.
///
/// Strings are checked to be UTF-8 at the end. After an error the rows collected so far are in an undefined
/// state, and the builder must be dropped.
pub struct RowsBuilder {
    len: usize,
    keys: Option<KeysBuilder>,
    /// The index of each column among the layout's values, and what has been collected of it.
    values: Vec<(usize, Box<dyn ColumnBuilder>)>,
    /// Those among them that got wider types.
    widened: Vec<Widened>,
}

/// A column that got a wider type. The blocks of a segment have it all where it was when the segment was written.
struct Widened {
    /// Its position among the columns.
    position: usize,
    data_type: DataType,
    /// Where older blocks have it, with the type there, the last one first.
    earlier: Vec<(usize, DataType)>,
    /// How many values the blocks have that came in.
    found: Option<usize>,
}

impl RowsBuilder {
    /// Makes room for `capacity_rows`, more come in nevertheless.
    pub fn new(projection: &Projection, capacity_rows: usize) -> RowsBuilder {
        let values = projection.values.iter().zip(&projection.types);
        let values =
            values.map(|(&index, data_type)| (index, column_builder(data_type, capacity_rows)));
        RowsBuilder {
            len: 0,
            keys: projection.keys.then(|| KeysBuilder::new(capacity_rows)),
            values: values.collect(),
            widened: Widened::of(projection),
        }
    }

    /// Appends the rows `from..to` of a block; O(rows * columns projected), in typed loops.
    pub fn append_range(&mut self, view: &BlockView<'_>, from: usize, to: usize) -> Result<()> {
        assert!(from <= to && to <= view.row_count, "rows {from}..{to} of {}", view.row_count);
        if from == to {
            return Ok(());
        }
        if let Some(keys) = &mut self.keys {
            append_keys(keys, view, from, to)?;
        }
        self.append(view, Picked::Range(from, to))
    }

    /// Appends single rows of a block, in the order given; O(rows * columns projected).
    pub fn append_rows(&mut self, view: &BlockView<'_>, rows: &[u32]) -> Result<()> {
        for &row in rows {
            assert!((row as usize) < view.row_count, "row {row} of {}", view.row_count);
        }
        if let Some(keys) = &mut self.keys {
            append_each_key(keys, view, rows)?;
        }
        self.append(view, Picked::Rows(rows))
    }

    fn append(&mut self, view: &BlockView<'_>, picked: Picked<'_>) -> Result<()> {
        for widened in &mut self.widened {
            let (index, column) = &mut self.values[widened.position];
            if let Some((at, builder)) = widened.find(*index, view)? {
                (*index, *column) = (at, builder);
            }
        }
        if !self.widened.is_empty()
            && !self.values.is_sorted_by(|(index, _), (next, _)| index < next)
        {
            return self.append_out_of_order(view, picked);
        }
        let (mut sections, mut passed) = (view.sections.clone(), 0);
        let mut extents = view.extents.iter();
        for (index, column) in &mut self.values {
            // Indexes ascend.
            let section = sections.nth(*index - passed);
            passed = *index + 1;
            let Some(section) = section else {
                // The block was written before the column was added.
                column.append_nulls(picked.len());
                continue;
            };
            match section.presence(view.row_count)? {
                (Presence::None, _) => column.append_nulls(picked.len()),
                (presence, values) => {
                    let apart =
                        Apart { dictionary: view.dictionary(*index), extents: &mut extents };
                    column.append(values, presence, view.row_count, picked, apart)?;
                }
            }
        }
        if extents.next().is_some() {
            return Err(malformed("more values lie apart than the rows have"));
        }
        self.len += picked.len();
        Ok(())
    }

    /// [`RowsBuilder::append`] where the indexes need not ascend.
    fn append_out_of_order(&mut self, view: &BlockView<'_>, picked: Picked<'_>) -> Result<()> {
        let mut extents = view.extents.iter();
        for (index, column) in &mut self.values {
            let Some(section) = view.sections.clone().nth(*index) else {
                column.append_nulls(picked.len());
                continue;
            };
            match section.presence(view.row_count)? {
                (Presence::None, _) => column.append_nulls(picked.len()),
                (presence, values) => {
                    let apart =
                        Apart { dictionary: view.dictionary(*index), extents: &mut extents };
                    column.append(values, presence, view.row_count, picked, apart)?;
                }
            }
        }
        if extents.next().is_some() {
            return Err(malformed("more values lie apart than the rows have"));
        }
        self.len += picked.len();
        Ok(())
    }

    /// Rows collected so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no row has been collected.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the keys and strings collected so far.
    pub fn string_bytes(&self) -> usize {
        let keys = self.keys.as_ref().map_or(0, KeysBuilder::bytes);
        keys + self.values.iter().map(|(_, column)| column.string_bytes()).sum::<usize>()
    }

    /// The rows. Fails if a string is not UTF-8.
    pub fn finish(self) -> Result<Rows> {
        let keys = self.keys.map(KeysBuilder::finish);
        let values = self.values.into_iter().map(|(_, column)| column.finish());
        let mut values = values.collect::<Result<Vec<ArrayRef>>>()?;
        for Widened { position, data_type, .. } in &self.widened {
            values[*position] = widen(&values[*position], data_type);
        }
        Ok(Rows::new(self.len, keys, values))
    }
}

impl Widened {
    fn of(projection: &Projection) -> Vec<Widened> {
        let values = projection.values.iter().zip(&projection.types).enumerate();
        let widened = values.filter_map(|(position, (&value, data_type))| {
            let earlier: Vec<_> =
                projection.earlier(value).map(|(at, of)| (at, of.clone())).collect();
            let data_type = data_type.clone();
            (!earlier.is_empty()).then_some(Widened { position, data_type, earlier, found: None })
        });
        widened.collect()
    }

    /// Where a block has the value, whose index is `index`, with a builder of its type there, if it is an earlier place
    /// and nothing was collected yet.
    fn find(
        &mut self,
        index: usize,
        view: &BlockView<'_>,
    ) -> Result<Option<(usize, Box<dyn ColumnBuilder>)>> {
        let count = view.sections.clone().count();
        match self.found.replace(count) {
            Some(before) if before == count => return Ok(None),
            Some(_) => return Err(malformed("blocks of different shapes")),
            None if index < count => return Ok(None),
            None => {}
        }
        let found = self.earlier.iter().find(|(at, _)| *at < count);
        Ok(found.map(|(at, data_type)| (*at, column_builder(data_type, 0))))
    }
}

/// What a block names and does not hold.
struct Apart<'a, 'v> {
    /// The segment's dictionary of the column.
    dictionary: Option<&'a Dictionary>,
    /// The values that lie apart, of this column and those behind it.
    extents: &'v mut Iter<'a, Arc<[u8]>>,
}

/// Collects one column.
trait ColumnBuilder {
    /// Appends picked rows of a section that has `row_count` of them; null bits have been split off.
    fn append(
        &mut self,
        values: Section<'_>,
        presence: Presence<'_>,
        row_count: usize,
        picked: Picked<'_>,
        apart: Apart<'_, '_>,
    ) -> Result<()>;

    fn append_nulls(&mut self, count: usize);

    /// Bytes collected, of a column of strings.
    fn string_bytes(&self) -> usize {
        0
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef>;
}

fn column_builder(data_type: &DataType, capacity: usize) -> Box<dyn ColumnBuilder> {
    let nulls = NullBufferBuilder::new(capacity);
    match data_type {
        DataType::Null => Box::new(NothingBuilder { len: 0 }),
        DataType::Boolean => {
            Box::new(BoolBuilder { values: BooleanBufferBuilder::new(capacity), nulls })
        }
        DataType::Utf8 | DataType::Binary => Box::new(StringBuilder {
            strings: ByteStrings::new(capacity),
            nulls,
            is_text: *data_type == DataType::Utf8,
            decoded: DecodedStrings::default(),
            ends: Vec::new(),
        }),
        data_type => with_fixed_type!(data_type, T => Box::new(FixedBuilder::<T> {
            data_type: data_type.clone(),
            values: Vec::with_capacity(capacity),
            nulls,
        }), panic!("{data_type} is not a column type")),
    }
}

/// Of a value that stores no column any more: whatever blocks have of it is passed over.
struct NothingBuilder {
    len: usize,
}

impl ColumnBuilder for NothingBuilder {
    fn append(
        &mut self,
        _values: Section<'_>,
        _presence: Presence<'_>,
        _row_count: usize,
        picked: Picked<'_>,
        _apart: Apart<'_, '_>,
    ) -> Result<()> {
        self.append_nulls(picked.len());
        Ok(())
    }

    fn append_nulls(&mut self, count: usize) {
        self.len += count;
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef> {
        Ok(new_null_array(&DataType::Null, self.len))
    }
}

struct FixedBuilder<T: ArrowPrimitiveType> {
    data_type: DataType,
    values: Vec<T::Native>,
    nulls: NullBufferBuilder,
}

/// Rows in a row that are worth unpacking together.
const TOGETHER_MIN: usize = 16;

fn for_each_number(numbers: PackedView<'_>, picked: Picked<'_>, mut each: impl FnMut(u64)) {
    match picked {
        Picked::Range(from, to) if to - from >= TOGETHER_MIN => numbers.for_each(from, to, each),
        _ => picked.for_each(|row| each(numbers.get(row))),
    }
}

impl<T: ArrowPrimitiveType<Native: Fixed>> ColumnBuilder for FixedBuilder<T> {
    fn append(
        &mut self,
        values: Section<'_>,
        presence: Presence<'_>,
        row_count: usize,
        picked: Picked<'_>,
        _apart: Apart<'_, '_>,
    ) -> Result<()> {
        picked.append_presence(presence, &mut self.nulls);
        let out = &mut self.values;
        match FixedValues::<T::Native>::parse(values, row_count)? {
            FixedValues::Constant(value) => out.resize(out.len() + picked.len(), value),
            FixedValues::Plain(bytes) => {
                append_fixed(out, bytes, T::Native::WIDTH, picked, T::Native::read_le);
            }
            FixedValues::Packed { least, distances } => {
                for_each_number(distances, picked, |distance| out.push(least.plus(distance)));
            }
            FixedValues::Scaled { scale, least, distances } => {
                for_each_number(distances, picked, |distance| {
                    // Only bytes that break the promise of the format can overflow; those read as some value.
                    let integer = least.wrapping_add(distance as i64);
                    out.push(T::Native::of_scaled(integer, scale));
                });
            }
        }
        Ok(())
    }

    fn append_nulls(&mut self, count: usize) {
        self.nulls.append_n_nulls(count);
        self.values.resize(self.values.len() + count, T::Native::default());
    }

    fn finish(mut self: Box<Self>) -> Result<ArrayRef> {
        let array = PrimitiveArray::<T>::new(self.values.into(), self.nulls.finish());
        Ok(typed(array, &self.data_type))
    }
}

/// Appends the picked ones of values that take `width` bytes each.
fn append_fixed<N>(
    out: &mut Vec<N>,
    bytes: &[u8],
    width: usize,
    picked: Picked<'_>,
    value: impl Fn(&[u8]) -> N,
) {
    match picked {
        Picked::Range(from, to) => {
            out.extend(bytes[from * width..to * width].chunks_exact(width).map(value));
        }
        Picked::Rows(rows) => out.extend(rows.iter().map(|row| {
            let start = *row as usize * width;
            value(&bytes[start..start + width])
        })),
    }
}

struct BoolBuilder {
    values: BooleanBufferBuilder,
    nulls: NullBufferBuilder,
}

impl ColumnBuilder for BoolBuilder {
    fn append(
        &mut self,
        values: Section<'_>,
        presence: Presence<'_>,
        row_count: usize,
        picked: Picked<'_>,
        _apart: Apart<'_, '_>,
    ) -> Result<()> {
        picked.append_presence(presence, &mut self.nulls);
        match (BoolValues::parse(values, row_count)?, picked) {
            (BoolValues::Constant(value), _) => self.values.append_n(picked.len(), value),
            (BoolValues::Bits(bits), Picked::Range(from, to)) => {
                self.values.append_packed_range(from..to, bits);
            }
            (BoolValues::Bits(bits), _) => {
                picked.for_each(|row| self.values.append(bit(bits, row)))
            }
        }
        Ok(())
    }

    fn append_nulls(&mut self, count: usize) {
        self.nulls.append_n_nulls(count);
        self.values.append_n(count, false);
    }

    fn finish(mut self: Box<Self>) -> Result<ArrayRef> {
        Ok(Arc::new(BooleanArray::new(self.values.finish(), self.nulls.finish())))
    }
}

struct StringBuilder {
    strings: ByteStrings,
    nulls: NullBufferBuilder,
    /// Whether strings are text, which must be UTF-8, or any bytes.
    is_text: bool,
    /// What strings of a block are decoded to, and where the codes of each end among theirs.
    decoded: DecodedStrings,
    ends: Vec<usize>,
}

impl ColumnBuilder for StringBuilder {
    fn append(
        &mut self,
        values: Section<'_>,
        presence: Presence<'_>,
        row_count: usize,
        picked: Picked<'_>,
        Apart { dictionary, extents }: Apart<'_, '_>,
    ) -> Result<()> {
        picked.append_presence(presence, &mut self.nulls);
        if values.encoding & EXTENTS != 0 {
            let (apart, values) = values.apart(row_count)?;
            let (is_compressed, values) = values.compressed()?;
            let mut strings = self.strings.taking(is_compressed, dictionary)?;
            let values = StringValues::parse(values, row_count)?;
            return picked.try_for_each(|row| match presence.holds(row) {
                true if bit(apart, row) => match extents.next() {
                    Some(value) => strings.push(value),
                    None => Err(malformed("a value that lies apart was not read")),
                },
                true => strings.push(values.get(row, dictionary)?),
                false => strings.push(&[]),
            });
        }
        let (is_compressed, values) = values.compressed()?;
        let mut strings = self.strings.taking(is_compressed, dictionary)?;
        // A null is an empty string below its null bit, whatever its place in the block holds.
        match StringValues::parse(values, row_count)? {
            StringValues::Shared(codes) => {
                let entries = texts_of(dictionary)?;
                picked.try_for_each(|row| match presence.holds(row) {
                    true => {
                        let code = check_code(codes.get(row), entries.len())?;
                        strings.push(entries.value(code).as_bytes())
                    }
                    false => strings.push(&[]),
                })
            }
            StringValues::Constant(value) => picked
                .try_for_each(|row| strings.push(if presence.holds(row) { value } else { &[] })),
            StringValues::Dictionary { codes, entry_count, entries } => match picked {
                Picked::Range(from, to) => {
                    // Where each entry begins, and the end of the last.
                    let (mut ends, mut count) = ([0u32; DICTIONARY_ENTRIES_MAX + 1], 0);
                    let bytes = entries.range(0, entry_count, |end| {
                        count += 1;
                        ends[count] = end as u32;
                    })?;
                    (from..to).try_for_each(|row| match presence.holds(row) {
                        true => {
                            let code = check_code(codes.get(row), entry_count)?;
                            strings.push(&bytes[ends[code] as usize..ends[code + 1] as usize])
                        }
                        false => strings.push(&[]),
                    })
                }
                Picked::Rows(_) => picked.try_for_each(|row| match presence.holds(row) {
                    true => strings.push(entries.get(check_code(codes.get(row), entry_count)?)?),
                    false => strings.push(&[]),
                }),
            },
            StringValues::Plain(list) => match picked {
                Picked::Range(from, to) if !is_compressed => {
                    self.strings.append_list_range(list, from, to)
                }
                Picked::Range(from, to) => {
                    let symbols =
                        dictionary.and_then(Dictionary::symbols).ok_or_else(no_symbols)?;
                    self.append_compressed(list, from, to, presence, symbols)
                }
                Picked::Rows(_) => picked.try_for_each(|row| {
                    strings.push(if presence.holds(row) { list.get(row)? } else { &[] })
                }),
            },
        }
    }

    fn append_nulls(&mut self, count: usize) {
        self.nulls.append_n_nulls(count);
        let end = *self.strings.offsets.last().expect("offsets begin with 0");
        self.strings.offsets.resize(self.strings.offsets.len() + count, end);
    }

    fn string_bytes(&self) -> usize {
        self.strings.bytes.len()
    }

    fn finish(mut self: Box<Self>) -> Result<ArrayRef> {
        let offsets = OffsetBuffer::new(self.strings.offsets.into());
        let mut bytes = self.strings.bytes;
        // As it grows by doubling, half of it may be free.
        if bytes.capacity() - bytes.len() > FREE_BYTES_MAX {
            bytes.shrink_to_fit();
        }
        let bytes = Buffer::from(bytes);
        let nulls = self.nulls.finish();
        if !self.is_text {
            return Ok(Arc::new(BinaryArray::new(offsets, bytes, nulls)));
        }
        let array = StringArray::try_new(offsets, bytes, nulls);
        Ok(Arc::new(array.map_err(|_| malformed("a string is not UTF-8"))?))
    }
}

impl StringBuilder {
    /// Appends the strings `from..to` of a list of compressed ones.
    fn append_compressed(
        &mut self,
        list: ListView<'_>,
        from: usize,
        to: usize,
        presence: Presence<'_>,
        symbols: &SymbolTable,
    ) -> Result<()> {
        self.ends.clear();
        let codes = list.range(from, to, |end| self.ends.push(end))?;
        if codes.len() > DECODED_TOGETHER_MAX {
            let mut strings = StoredStrings { strings: &mut self.strings, symbols: Some(symbols) };
            return (from..to).try_for_each(|row| {
                strings.push(if presence.holds(row) { list.get(row)? } else { &[] })
            });
        }
        self.decoded.start(codes.len());
        let ByteStrings { offsets, bytes } = &mut self.strings;
        let (base, mut start) = (bytes.len(), 0);
        for (row, &end) in (from..to).zip(&self.ends) {
            if presence.holds(row) {
                self.decoded.push(symbols, &codes[start..end]).ok_or_else(unknown_code)?;
            }
            // As in `append_list_range`.
            offsets.push((base + self.decoded.bytes().len()) as i32);
            start = end;
        }
        offset(base + self.decoded.bytes().len())?;
        bytes.extend_from_slice(self.decoded.bytes());
        Ok(())
    }
}

/// Codes of a block that are decoded together: more than all blocks have but those of one long row.
const DECODED_TOGETHER_MAX: usize = 256 << 10;

/// Bytes of an array of strings that may be free: what is less is not worth a copy.
const FREE_BYTES_MAX: usize = 64 << 10;

/// Byte strings one behind the other, below 2 GiB in all.
struct ByteStrings {
    /// Where each string begins, and the end of the last.
    offsets: Vec<i32>,
    bytes: Vec<u8>,
}

impl ByteStrings {
    fn new(capacity: usize) -> ByteStrings {
        let mut offsets = Vec::with_capacity(capacity + 1);
        offsets.push(0);
        ByteStrings { offsets, bytes: Vec::new() }
    }

    /// What takes in strings as blocks have them.
    fn taking<'s>(
        &'s mut self,
        is_compressed: bool,
        dictionary: Option<&'s Dictionary>,
    ) -> Result<StoredStrings<'s>> {
        let symbols = match is_compressed {
            true => Some(dictionary.and_then(Dictionary::symbols).ok_or_else(no_symbols)?),
            false => None,
        };
        Ok(StoredStrings { strings: self, symbols })
    }

    /// Appends the strings `from..to` of a list.
    fn append_list_range(&mut self, list: ListView<'_>, from: usize, to: usize) -> Result<()> {
        let base = self.bytes.len();
        // The ends are those of 32-bit lengths: they are checked below, by the greatest.
        let bytes = list.range(from, to, |end| self.offsets.push((base + end) as i32))?;
        offset(base + bytes.len())?;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

/// Takes in strings as blocks have them.
struct StoredStrings<'a> {
    strings: &'a mut ByteStrings,
    /// What they are compressed by, if they are.
    symbols: Option<&'a SymbolTable>,
}

impl StoredStrings<'_> {
    fn push(&mut self, stored: &[u8]) -> Result<()> {
        let ByteStrings { offsets, bytes } = self.strings;
        let end = |len: usize| offset(bytes.len().saturating_add(len));
        // The end is checked first, as a constant can repeat a long string very often.
        match self.symbols {
            None => {
                offsets.push(end(stored.len())?);
                bytes.extend_from_slice(stored);
            }
            Some(symbols) => {
                let len = symbols.decoded_len(stored);
                let len = len.ok_or_else(unknown_code)?;
                offsets.push(end(len)?);
                symbols.decode_into(stored, len, bytes);
            }
        }
        Ok(())
    }
}

#[cold]
fn unknown_code() -> FormatError {
    malformed("a compressed string without its symbols")
}

#[cold]
fn no_symbols() -> FormatError {
    malformed("compressed strings without a table of symbols")
}

/// Appends the keys of a block's rows.
fn append_keys(keys: &mut KeysBuilder, view: &BlockView<'_>, from: usize, to: usize) -> Result<()> {
    let prefix = view.key_prefix;
    let list = match &view.key_rests {
        KeyRests::List(list) => list,
        KeyRests::Numbered(numbered) => {
            return numbered.for_each(prefix, from..to, |key| {
                offset(keys.bytes().saturating_add(key.len()))?;
                keys.push(key, &[]);
                Ok(())
            });
        }
    };
    let checked_room = |rests: usize, keys: &KeysBuilder| {
        let total = (to - from).checked_mul(prefix.len()).map(|len| len + rests);
        let total = total.ok_or_else(|| malformed("keys exceed memory"))?;
        offset(keys.bytes().saturating_add(total))?;
        Ok(total)
    };
    if let Some((width, rests)) = list.even_range(from, to) {
        keys.reserve(checked_room(rests.len(), keys)?);
        keys.extend(prefix, rests, width);
        return Ok(());
    }
    let mut ends = Vec::with_capacity(to - from);
    let rests = list.range(from, to, |end| ends.push(end))?;
    keys.reserve(checked_room(rests.len(), keys)?);
    let mut start = 0;
    for end in ends {
        keys.push(prefix, &rests[start..end]);
        start = end;
    }
    Ok(())
}

fn append_each_key(keys: &mut KeysBuilder, view: &BlockView<'_>, rows: &[u32]) -> Result<()> {
    let (prefix, mut room) = (view.key_prefix, KeyRoom::new());
    rows.iter().try_for_each(|&row| {
        let rest = view.key_rests.get(row as usize, &mut room)?;
        let len = prefix.len() + rest.len();
        offset(keys.bytes().saturating_add(len))?;
        keys.reserve(len);
        keys.push(prefix, rest);
        Ok(())
    })
}

/// Readers stop long before this, so what comes here is a single block, whose writer kept to the same bound.
#[inline]
fn offset(len: usize) -> Result<i32> {
    if len > byte_bounds::array() {
        return Err(malformed("the strings of a column exceed 2 GiB"));
    }
    Ok(len as i32)
}

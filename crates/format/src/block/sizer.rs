//! The length of a block before it is written, and writing it.

use smallvec::{SmallVec, smallvec};

use crate::block::encoder::{ApartInColumn, ColumnEncoder, column_encoder, section_size};
use crate::block::key_encoder::KeyEncoder;
use crate::cursor::{put_u32, put_varint, varint_len};
use crate::dictionary::TextCodes;
use crate::extents::Extents;
use crate::rows::Rows;

/// Rows whose size is worked out at a time ...
const SIZING_STEP: usize = 32;
/// ... unless their keys and strings are longer: one that is too many is looked at for nothing.
const SIZING_STEP_BYTES: usize = 64 << 10;

/// As many rows leave less than a fifth of their page free.
const NARROW_ROWS: usize = 4;

/// What of some rows' values is not in their blocks, but named there.
#[derive(Debug, Clone, Copy, Default)]
pub struct Apart<'a> {
    /// Of texts that a dictionary has.
    pub codes: &'a TextCodes,
    /// For each value, whether the rows have compressed strings in place of its own.
    pub compressed: &'a [bool],
    /// Of long values.
    pub extents: &'a Extents,
}

impl<'a> Apart<'a> {
    fn in_column(&self, value: usize) -> ApartInColumn<'a> {
        ApartInColumn {
            codes: self.codes.get(value).and_then(|codes| codes.as_deref()),
            is_compressed: self.compressed.get(value).is_some_and(|is_compressed| *is_compressed),
            extents: self.extents.get(value).and_then(|extents| extents.as_deref()),
        }
    }
}

/// What a block is written for.
#[derive(Debug, Clone, Copy)]
pub enum Effort<'a> {
    /// To be written in little time and read once, whole, if ever: nothing lies apart, and keys are a list.
    Quick,
    /// To be small.
    Small(Apart<'a>),
}

/// The exact encoded length of a block that grows row by row.
///
/// Costs O(columns) a row, in one typed loop a column and call.
pub struct BlockSizer<'a> {
    from: usize,
    to: usize,
    row_count: usize,
    /// The keys, then the values.
    columns: Vec<Box<dyn ColumnEncoder + 'a>>,
}

impl<'a> BlockSizer<'a> {
    /// A block that begins with row `from` of `rows` and is empty so far. What lies apart is that of all rows, or nothing.
    pub fn new(rows: &'a Rows, from: usize, effort: Effort<'a>) -> BlockSizer<'a> {
        let (apart, is_small) = match effort {
            Effort::Quick => (Apart::default(), false),
            Effort::Small(apart) => (apart, true),
        };
        let keys: Box<dyn ColumnEncoder + 'a> = Box::new(KeyEncoder::new(rows.keys(), is_small));
        let values = rows.values().iter().enumerate();
        let values =
            values.map(|(value, array)| column_encoder(array, apart.in_column(value), is_small));
        let columns = std::iter::once(keys).chain(values).collect();
        BlockSizer { from, to: from, row_count: rows.len(), columns }
    }

    /// Lets the block end before row `to`, which must not lie before its present end.
    pub fn extend_to(&mut self, to: usize) {
        self.extend(to, &mut []);
    }

    fn extend(&mut self, to: usize, record: &mut [usize]) {
        assert!(self.to <= to && to <= self.row_count, "rows end at {}", self.row_count);
        for column in &mut self.columns {
            column.extend(self.to..to, record);
        }
        self.to = to;
    }

    /// Bytes that the block takes.
    pub fn encoded_len(&self) -> usize {
        let sections = self.columns.iter().map(|column| section_size(column.form()));
        self.preamble_len() + sections.sum::<usize>()
    }

    fn preamble_len(&self) -> usize {
        4 + varint_len(self.value_count())
    }

    fn value_count(&self) -> u64 {
        self.columns.len() as u64 - 1
    }

    /// Appends the block.
    fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let encoded_len = self.encoded_len();
        out.reserve(encoded_len);
        put_u32(out, u32::try_from(self.to - self.from).expect("a block's rows fit 32 bits"));
        put_varint(out, self.value_count());
        for column in &self.columns {
            let (encoding, len) = column.form();
            out.push(encoding);
            put_varint(out, len as u64);
        }
        for column in &self.columns {
            column.write(self.from..self.to, out);
        }
        assert_eq!(out.len() - start, encoded_len, "a section has another length than foreseen");
    }
}

/// How many rows from `from` on the next block has, where a page has room for `page` bytes of it; at least one, which may be
/// larger. These are the rows that fit one page, unless there are fewer than four: what such rows leave free of their
/// page may be half of it, so they get as many pages as it takes to come near the least bytes per row, up to `pages_max`.
///
/// O(rows taken * columns).
pub fn rows_of_block(
    rows: &Rows,
    from: usize,
    effort: Effort<'_>,
    page: usize,
    pages_max: usize,
) -> usize {
    assert!(from < rows.len(), "row {from} of {}", rows.len());
    let mut sizer = BlockSizer::new(rows, from, effort);
    // Of one page, of two and so on, as far as they are known.
    let mut fitting: SmallVec<[usize; 4]> = smallvec![rows.len() - from; pages_max];
    let (mut known, mut start) = (0, from);
    while start < rows.len() {
        let mut end = rows.len().min(start + SIZING_STEP);
        while end - start > 1 && rows.string_bytes_in(start..end) > SIZING_STEP_BYTES {
            end = start + (end - start).div_ceil(2);
        }
        let mut sizes = [sizer.preamble_len(); SIZING_STEP];
        sizer.extend(end, &mut sizes);
        for (at, size) in sizes[..end - start].iter().enumerate() {
            // The first size that is too large ends the block: sizes rise, but for a byte at times.
            while known < pages_max && *size > (known + 1) * page {
                fitting[known] = start + at - from;
                known += 1;
                if fitting[0] >= NARROW_ROWS {
                    return fitting[0];
                }
            }
            if known == pages_max {
                return rows_of_few_pages(&fitting).max(1);
            }
        }
        start = end;
    }
    rows_of_few_pages(&fitting).max(1)
}

/// Of the numbers of rows that fit one page, two and so on, that of the fewest pages whose bytes per row are at most a
/// quarter more than the least there are.
fn rows_of_few_pages(fitting: &[usize]) -> usize {
    let pages_per_row = |(at, rows): (usize, &usize)| (at + 1) as f64 / *rows as f64;
    let least = fitting.iter().enumerate().map(pages_per_row).fold(f64::INFINITY, f64::min);
    let is_near = |of: &(usize, &usize)| pages_per_row(*of) <= 1.25 * least;
    fitting.iter().enumerate().find(is_near).map_or(0, |(_, rows)| *rows)
}

/// Appends the block of the rows `from..to`, which hold all columns. What lies apart is that of all rows, or nothing.
pub fn encode(rows: &Rows, from: usize, to: usize, effort: Effort<'_>, out: &mut Vec<u8>) {
    let mut sizer = BlockSizer::new(rows, from, effort);
    sizer.extend_to(to);
    sizer.write(out);
}

/// Bytes that [`encode`] appends.
pub fn encoded_len(rows: &Rows, from: usize, to: usize, effort: Effort<'_>) -> usize {
    let mut sizer = BlockSizer::new(rows, from, effort);
    sizer.extend_to(to);
    sizer.encoded_len()
}

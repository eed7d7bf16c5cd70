//! Keys by code out of columns of values.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef};

use crate::key::codes::columns::{Column, NUMBER, Numbers};
use crate::key::codes::key_codes::KeyCodes;
use crate::key::codes::values::{Entries, Lookup, Values, coded};
use crate::key::codes::worth::{Worth, worth};
use crate::key::encoding::payload_width;
use crate::key::from_columns::{Payloads, encode_keys, even_widths, put_plain};
use crate::key::key_writer::KeyWriter;
use crate::key::keys::{Keys, offset};

/// What keys are written of, one behind the other.
enum Written<'c> {
    /// A column as other keys have it.
    Plain(&'c Payloads<'c>),
    /// The codes of some columns as one number per row, and its width in bytes.
    Codes(Vec<u64>, usize),
}

/// What the keys of earlier rows had. The next ones get the same codes where they can, so that runs that come together mostly have the
/// same ones, and whether columns repeat is not found out for each batch.
#[derive(Debug, Clone)]
pub struct KnownCodes {
    columns: Vec<Known>,
}

#[derive(Debug, Clone)]
enum Known {
    /// Codes were not worth it.
    Plain,
    Numbers(Numbers),
    Texts(Arc<Lookup>),
}

/// Keys that [`encode_keys_by_code`] made.
pub struct CodedKeys {
    /// One per row.
    pub keys: Keys,
    /// What the codes in them stand for, if there are some.
    pub codes: Option<KeyCodes>,
    /// What is known from now on, if that has changed.
    pub known: Option<KnownCodes>,
}

/// A list of known values is carried on up to this many times the distinct values of a batch: most of a longer one is old.
const KNOWN_SHARE: usize = 4;

/// Encodes one key per row from key columns of equal length, most significant first: by code, if there are texts that repeat.
///
/// `looks_again`: also whether texts repeat that did not in what is `known`. O(bytes), and a hash for each text, or an entry of a
/// dictionary. Panics if the keys exceed 2 GiB.
pub fn encode_keys_by_code(
    columns: &[ArrayRef],
    known: Option<&KnownCodes>,
    looks_again: bool,
) -> CodedKeys {
    let rows = columns.first().map_or(0, |column| column.len());
    match worth(rows) {
        Some(worth) if even_widths(columns).is_none() => {
            let known = known.filter(|known| known.columns.len() == columns.len());
            let looks_again = looks_again || worth == Worth::Always;
            encode_if_worth(columns, worth, known, looks_again)
        }
        _ => CodedKeys { keys: encode_keys(columns), codes: None, known: None },
    }
}

pub(super) fn encode_if_worth(
    columns: &[ArrayRef],
    worth: Worth,
    known: Option<&KnownCodes>,
    looks_again: bool,
) -> CodedKeys {
    let rows = columns.first().map_or(0, |column| column.len());
    let payloads: Vec<Payloads> = columns.iter().map(Payloads::of).collect();
    let mut texts = Vec::with_capacity(columns.len());
    for (at, column) in payloads.iter().enumerate() {
        texts.push(match known.map(|known| &known.columns[at]) {
            _ if !column.are_texts() => None,
            Some(Known::Plain) if !looks_again => None,
            Some(Known::Texts(lookup)) => coded_texts(column, rows, worth, Some(lookup)),
            _ => coded_texts(column, rows, worth, None),
        });
    }
    let has_codes = texts.iter().any(Option::is_some);
    let (mut held, mut written) = (Vec::new(), Vec::new());
    let mut now = Vec::with_capacity(columns.len());
    let mut is_changed = known.is_none();
    for (at, ((column, payloads), texts)) in columns.iter().zip(&payloads).zip(texts).enumerate() {
        let data_type = column.data_type();
        let before = known.map(|known| &known.columns[at]);
        match (texts, payload_width(data_type)) {
            (Some(Texts { codes, lookup, is_new }), _) => {
                let column = Column::Texts(lookup.values().clone());
                let width = column.width().expect("it has codes");
                put_codes(&mut written, width, codes.into_iter().map(u64::from));
                held.push(column);
                now.push(Known::Texts(lookup));
                is_changed |= is_new;
            }
            (None, Some(payload @ ..=NUMBER))
                if has_codes && let Some(own) = Numbers::of(payload, payloads.numbers(rows)) =>
            {
                let numbers = match before {
                    Some(Known::Numbers(before)) => {
                        before.or(own).filter(|both| both.width() <= own.width() + 1).unwrap_or(own)
                    }
                    _ => own,
                };
                is_changed |= !matches!(before, Some(Known::Numbers(before)) if *before == numbers);
                let codes = payloads.numbers(rows).map(|number| numbers.code(number));
                put_codes(&mut written, numbers.width(), codes);
                held.push(Column::Numbers(numbers));
                now.push(Known::Numbers(numbers));
            }
            (None, _) => {
                written.push(Written::Plain(payloads));
                held.push(Column::plain(data_type));
                is_changed |= !matches!(before, Some(Known::Plain));
                now.push(Known::Plain);
            }
        }
    }
    let known = is_changed.then_some(KnownCodes { columns: now });
    match has_codes {
        true => {
            let codes = Some(KeyCodes::new(held));
            CodedKeys { keys: put_written(&written, rows), codes, known }
        }
        false => CodedKeys { keys: put_plain(&payloads, rows), codes: None, known },
    }
}

/// A column of texts by code.
pub(crate) struct Texts {
    /// Of each row.
    pub codes: Vec<u32>,
    pub lookup: Arc<Lookup>,
    /// Whether the list is another one than the known one.
    pub is_new: bool,
}

/// The code of each row's text, if that is worth it: among known values, which become more if some are missing. The list counts as if
/// no other rows had it, so that the keys of few rows never take more room with a long list than without codes.
pub(crate) fn coded_texts(
    column: &Payloads<'_>,
    rows: usize,
    worth: Worth,
    known: Option<&Arc<Lookup>>,
) -> Option<Texts> {
    let text = |row: usize| column.text(row);
    let entries = column.entries().and_then(|entry_of| {
        Entries::of(entry_of, |row| column.is_null(row), |entry| column.entry(entry))
    });
    let is_worth =
        |values: &Values| worth.allows(rows, values.coded_bytes(rows), column.bytes_max(rows));
    if let Some(lookup) = known.filter(|lookup| is_worth(lookup.values())) {
        let codes = match &entries {
            Some(entries) => entries.codes(lookup),
            None => lookup.codes(rows, text),
        };
        if let Some(codes) = codes {
            return Some(Texts { codes, lookup: lookup.clone(), is_new: false });
        }
    }
    let (mut values, mut codes) = match &entries {
        Some(entries) => entries.coded(worth)?,
        None => coded(rows, text, worth)?,
    };
    if let Some(known) = known.map(|lookup| lookup.values())
        && known.len() <= KNOWN_SHARE * values.len()
    {
        let (both, maps) = Values::merged(&[known, &values]);
        if is_worth(&both) {
            codes.iter_mut().for_each(|code| *code = maps[1][*code as usize]);
            values = both;
        }
    }
    Some(Texts { codes, lookup: Arc::new(Lookup::new(Arc::new(values))), is_new: true })
}

/// The distinct texts of some rows, and the code of each row's, if that is worth it. O(rows), and a hash for each text.
pub(crate) fn distinct_texts(
    column: &Payloads<'_>,
    rows: usize,
    worth: Worth,
) -> Option<(Values, Vec<u32>)> {
    coded(rows, |row| column.text(row), worth)
}

/// Adds a column of codes of `width` bytes: to the column before, if both fit a number.
fn put_codes(written: &mut Vec<Written<'_>>, width: usize, codes: impl Iterator<Item = u64>) {
    match written.last_mut() {
        Some(Written::Codes(before, used)) if *used + width <= NUMBER => {
            let bits = u8::BITS * width as u32;
            let both = before.iter_mut().zip(codes);
            both.for_each(|(before, code)| *before = before.unbounded_shl(bits) | code);
            *used += width;
        }
        _ => written.push(Written::Codes(codes.collect(), width)),
    }
}

fn put_written(columns: &[Written<'_>], rows: usize) -> Keys {
    let bytes_max = columns.iter().map(|column| match column {
        Written::Plain(payloads) => payloads.bytes_max(rows),
        Written::Codes(_, width) => rows * width,
    });
    let mut out = KeyWriter::new(bytes_max.sum());
    let are_even = columns.iter().all(|column| matches!(column, Written::Codes(..)));
    let mut offsets = Vec::with_capacity(if are_even { 0 } else { rows + 1 });
    offsets.push(0);
    for row in 0..rows {
        for column in columns {
            match column {
                Written::Plain(payloads) => payloads.put(row, &mut out),
                Written::Codes(codes, width) => out.put_number(codes[row], *width),
            }
        }
        if !are_even {
            offsets.push(offset(out.len()));
        }
    }
    match are_even {
        true => Keys::even(rows, out.len() / rows.max(1), out.finish()),
        false => Keys::new(offsets, out.finish()),
    }
}

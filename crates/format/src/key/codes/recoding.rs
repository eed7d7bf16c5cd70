//! Putting keys of several runs into the same codes, and giving keys codes that had none.

use std::sync::Arc;

use arrow_schema::DataType;

use crate::key::codes::columns::{Column, NUMBER, Numbers, code_of};
use crate::key::codes::key_codes::KeyCodes;
use crate::key::codes::values::{Values, coded, text_of};
use crate::key::codes::worth::{Worth, worth};
use crate::key::encoding::{NULL, number_of, payload_width};
use crate::key::key_writer::KeyWriter;
use crate::key::keys::{Ends, Keys, offset};

/// Fewer rows, some of whose columns have codes, are not looked at again for more: what batches of them did not repeat, they hardly do.
const LOOKED_AT_AGAIN_MIN: usize = 1 << 17;

/// What becomes of a column where keys are written anew.
enum Change {
    Keep,
    /// The codes of codes.
    Texts {
        to: Vec<u32>,
        width: usize,
    },
    Numbers {
        from: Numbers,
        to: Numbers,
        width: usize,
    },
    /// Each row's code of a column that had none.
    Rows {
        codes: Vec<u32>,
        width: usize,
    },
    /// The codes of numbers that had none.
    Numbered {
        to: Numbers,
        width: usize,
    },
    /// The value instead of a code.
    Spell,
}

/// Keys of one part of the rows, with codes or without.
struct Part {
    keys: Keys,
    codes: KeyCodes,
    /// Whether nulls may be missing at the end of keys, as they are in keys without codes.
    lacks_nulls: bool,
}

/// The keys of some parts in the same codes, so that keys of all parts compare, and what they stand for. `None` if no part has
/// codes.
///
/// `types` are those of all key columns, of which rows may have the first. Values are hashed only of parts without codes.
/// O(bytes of keys + values · log parts).
pub fn coded_alike(
    parts: &[(&Keys, Option<&KeyCodes>)],
    types: &[DataType],
) -> Option<(Vec<Keys>, KeyCodes)> {
    parts.iter().find_map(|(_, codes)| *codes)?;
    let part = |&(keys, codes): &(&Keys, Option<&KeyCodes>)| match codes {
        None => Part::plain(keys.clone(), types),
        Some(codes) => {
            let lacks_nulls = codes.columns.len() < types.len();
            Part { keys: keys.clone(), codes: codes.padded(types), lacks_nulls }
        }
    };
    let mut parts: Vec<Part> = parts.iter().map(part).collect();
    let rows: usize = parts.iter().map(|part| part.keys.len()).sum();
    let are_mostly_coded = |column: usize| {
        let coded = parts.iter().filter(|part| !part.codes.columns[column].is_plain());
        2 * coded.map(|part| part.keys.len()).sum::<usize>() >= rows
    };
    let wanted: Vec<bool> = (0..types.len()).map(are_mostly_coded).collect();
    // What follows takes longer texts into lists, too: the codes of others would have to be spelled.
    for part in &mut parts {
        if let Some(better) = with_codes(part, |column| wanted[column].then_some(Worth::Always)) {
            *part = better;
        }
    }
    let mut changes: Vec<Vec<Change>> = parts.iter().map(|_| Vec::new()).collect();
    let mut columns = Vec::with_capacity(types.len());
    for (at, data_type) in types.iter().enumerate() {
        let of_parts: Vec<&Column> = parts.iter().map(|part| &part.codes.columns[at]).collect();
        let (column, of_column) = joint(&of_parts, data_type);
        columns.push(column);
        changes.iter_mut().zip(of_column).for_each(|(changes, change)| changes.push(change));
    }
    let keys = parts.iter().zip(&changes).map(|(part, changes)| changed(part, changes)).collect();
    Some((keys, KeyCodes::new(columns)))
}

/// Keys with the codes that are worth it, after rows came together or became fewer: with codes for columns that had none and repeat,
/// without those of columns that hardly repeat.
pub fn settled(
    keys: Keys,
    codes: Option<KeyCodes>,
    types: &[DataType],
) -> (Keys, Option<KeyCodes>) {
    let rows = keys.len();
    let (keys, codes) = match codes {
        Some(codes) if worth(rows).is_none() => (codes.spelled(&keys), None),
        Some(codes) if worth(rows) != Some(Worth::Always) => with_fewer_codes(keys, codes, types),
        other => (keys, other),
    };
    let has_texts = types.iter().any(|of| payload_width(of).is_none());
    let worth = match (worth(rows), &codes) {
        (Some(Worth::IfSmaller), Some(_)) if rows >= LOOKED_AT_AGAIN_MIN => Some(Worth::IfHalf),
        (Some(Worth::IfSmaller), Some(_)) => None,
        (worth, _) => worth,
    };
    let Some(worth) = worth.filter(|_| has_texts) else { return (keys, codes) };
    let had_codes = codes.is_some();
    let part = match codes {
        None => Part::plain(keys, types),
        Some(codes) => Part { keys, codes, lacks_nulls: false },
    };
    let is_text = |column: usize| types.get(column).is_some_and(|of| payload_width(of).is_none());
    let better = with_codes(&part, |column| is_text(column).then_some(worth));
    let (part, have_codes) = match better {
        // Numbers get codes beside texts that have some.
        Some(texts) => (with_codes(&texts, |_| Some(worth)).unwrap_or(texts), true),
        None => (part, had_codes),
    };
    (part.keys, have_codes.then_some(part.codes))
}

impl KeyCodes {
    /// The same with columns that rows were written before.
    fn padded(&self, types: &[DataType]) -> KeyCodes {
        let missing = types.iter().skip(self.columns.len()).map(Column::of_nulls);
        KeyCodes::new(self.columns.iter().cloned().chain(missing).collect())
    }
}

/// The keys without the codes of columns whose texts take less room than these and the list do.
fn with_fewer_codes(keys: Keys, codes: KeyCodes, types: &[DataType]) -> (Keys, Option<KeyCodes>) {
    let rows = keys.len();
    let is_lost = |(at, column): (usize, &Column)| match column.texts() {
        Some(values) if 2 * values.len() > rows => {
            let len = |key: &[u8]| column.spelled_len(codes.held(key, at));
            values.coded_bytes(rows) > keys.iter().map(len).sum()
        }
        _ => false,
    };
    let are_lost: Vec<bool> = codes.columns.iter().enumerate().map(is_lost).collect();
    let mut stay = codes.columns.iter().zip(&are_lost);
    if !stay.any(|(column, is_lost)| column.texts().is_some() && !is_lost) {
        return (codes.spelled(&keys), None);
    }
    if !are_lost.contains(&true) {
        return (keys, Some(codes));
    }
    let columns = codes.columns.iter().zip(types).zip(&are_lost);
    let columns = columns.map(|((column, data_type), is_lost)| match is_lost {
        true => Column::plain(data_type),
        false => column.clone(),
    });
    let columns = columns.collect();
    let change = |is_lost: &bool| if *is_lost { Change::Spell } else { Change::Keep };
    let changes: Vec<Change> = are_lost.iter().map(change).collect();
    let keys = changed(&Part { keys, codes, lacks_nulls: false }, &changes);
    (keys, Some(KeyCodes::new(columns)))
}

impl Part {
    fn plain(keys: Keys, types: &[DataType]) -> Part {
        Part { keys, codes: KeyCodes::plain(types), lacks_nulls: true }
    }
}

/// Gives codes to columns that have none, as is wished. `None` if no column gets some.
fn with_codes(part: &Part, wish: impl Fn(usize) -> Option<Worth>) -> Option<Part> {
    let Part { keys, codes, .. } = part;
    let rows = keys.len();
    let mut columns = Vec::with_capacity(codes.columns.len());
    let change = |(at, column): (usize, &Column)| {
        let (Column::Plain(payload), Some(worth)) = (column, wish(at)) else {
            return (column.clone(), Change::Keep);
        };
        let value = |row: usize| codes.held(keys.value(row), at);
        let changed = match *payload {
            None => coded(rows, |row| text_of(value(row)), worth).map(|(values, codes)| {
                let column = Column::Texts(Arc::new(values));
                let width = column.width().expect("it has codes");
                (column, Change::Rows { codes, width })
            }),
            Some(payload @ ..=NUMBER) => {
                Numbers::of(payload, (0..rows).map(|row| number(value(row)))).map(|to| {
                    let column = Column::Numbers(to);
                    let width = column.width().expect("it has codes");
                    (column, Change::Numbered { to, width })
                })
            }
            Some(_) => None,
        };
        changed.unwrap_or_else(|| (column.clone(), Change::Keep))
    };
    let mut changes = Vec::with_capacity(codes.columns.len());
    for (column, change) in codes.columns.iter().enumerate().map(change) {
        columns.push(column);
        changes.push(change);
    }
    let is_same = changes.iter().all(|change| matches!(change, Change::Keep));
    (!is_same).then(|| Part {
        keys: changed(part, &changes),
        codes: KeyCodes::new(columns),
        lacks_nulls: false,
    })
}

/// A number, of a value in a key.
fn number(value: &[u8]) -> Option<u64> {
    match value {
        [] | [NULL] => None,
        value => Some(number_of(&value[1..])),
    }
}

/// What holds the values of a column of all parts, and what becomes of each part's.
fn joint(parts: &[&Column], data_type: &DataType) -> (Column, Vec<Change>) {
    if parts.iter().all(|part| part.is_like(parts[0])) {
        return (parts[0].clone(), parts.iter().map(|_| Change::Keep).collect());
    }
    let numbers = |part: &&Column| match part {
        Column::Numbers(numbers) => Some(*numbers),
        Column::Plain(_) | Column::Texts(_) => None,
    };
    if let Some(lists) = parts.iter().map(|part| part.texts()).collect::<Option<Vec<_>>>() {
        let (values, maps) = Values::merged(&lists);
        let column = Column::Texts(Arc::new(values));
        let width = column.width().expect("it has codes");
        return (column, maps.into_iter().map(|to| Change::Texts { to, width }).collect());
    }
    let of_parts: Option<Vec<Numbers>> = parts.iter().map(numbers).collect();
    if let Some((first, others)) = of_parts.as_deref().and_then(<[Numbers]>::split_first)
        && let Some(to) = others.iter().try_fold(*first, |all, part| all.or(*part))
    {
        let column = Column::Numbers(to);
        let width = column.width().expect("it has codes");
        let change = |part: &Numbers| Change::Numbers { from: *part, to, width };
        return (column, std::iter::once(first).chain(others).map(change).collect());
    }
    let change = |part: &&Column| if part.is_plain() { Change::Keep } else { Change::Spell };
    (Column::plain(data_type), parts.iter().map(change).collect())
}

impl Change {
    /// Bytes of a column's codes after the change.
    fn width(&self, before: Option<usize>) -> Option<usize> {
        match self {
            Change::Keep => before,
            Change::Texts { width, .. }
            | Change::Numbers { width, .. }
            | Change::Rows { width, .. }
            | Change::Numbered { width, .. } => Some(*width),
            Change::Spell => None,
        }
    }

    /// The new code of what a row holds, if it has one then.
    #[inline]
    fn code(&self, row: usize, held: &[u8]) -> Option<u64> {
        match self {
            Change::Texts { to, .. } => Some(u64::from(to[code_of(held) as usize])),
            Change::Numbers { from, to, .. } => Some(to.code(from.number(code_of(held)))),
            Change::Rows { codes, .. } => Some(u64::from(codes[row])),
            Change::Numbered { to, .. } => Some(to.code(number(held))),
            Change::Keep | Change::Spell => None,
        }
    }
}

/// The keys with changed columns.
fn changed(part: &Part, changes: &[Change]) -> Keys {
    let Part { keys, codes, lacks_nulls } = part;
    let widths: Vec<Option<usize>> =
        changes.iter().zip(&codes.widths).map(|(change, before)| change.width(*before)).collect();
    let are_same_widths = widths == *codes.widths;
    if !lacks_nulls
        && are_same_widths
        && let Some(keys) = changed_in_place(keys, &widths, changes)
    {
        return keys;
    }
    let steps = steps(codes, changes, *lacks_nulls);
    let (ends, bytes) = keys.ends();
    let longest = NUMBER * changes.len() + codes.spelled_len_max(0);
    let mut out = KeyWriter::new(bytes.len());
    let mut offsets = Vec::with_capacity(keys.len() + 1);
    offsets.push(0);
    let mut begin = 0;
    for row in 0..keys.len() {
        let end = ends.of(row);
        let key = &bytes[begin..end];
        out.reserve(longest + key.len());
        let mut rest = key;
        for step in &steps {
            match *step {
                Step::Keep(len) => {
                    // With what lies behind the key, so that a short copy is one of a length that is known.
                    out.copy(bytes, end - rest.len(), len);
                    rest = &rest[len..];
                }
                Step::KeepRest => out.copy(bytes, end - rest.len(), rest.len()),
                Step::Column(at) => {
                    let column = &codes.columns[at];
                    let held = column.take(codes.widths[at], &mut rest);
                    match (changes[at].code(row, held), widths[at]) {
                        (Some(code), Some(width)) => out.put_number(code, width),
                        (None, Some(_)) => out.copy(held, 0, held.len()),
                        (_, None) => column.spell(held, &mut out),
                    }
                }
            }
        }
        offsets.push(offset(out.len()));
        begin = end;
    }
    Keys::new(offsets, out.finish())
}

/// A step of writing a key anew.
enum Step {
    /// The next bytes, of this number, stay.
    Keep(usize),
    /// What is left stays.
    KeepRest,
    /// The column with this number may change.
    Column(usize),
}

/// What is done with each key: columns that stay and are neighbours are moved together.
fn steps(codes: &KeyCodes, changes: &[Change], lacks_nulls: bool) -> Vec<Step> {
    let stays = |at: usize| {
        let is_plain = codes.widths[at].is_none();
        matches!(changes[at], Change::Keep) && !(is_plain && lacks_nulls)
    };
    let last_that_changes = (0..changes.len()).rposition(|at| !stays(at));
    let until = last_that_changes.map_or(0, |last| last + 1);
    let mut steps = Vec::new();
    for at in 0..until {
        match (codes.widths[at].filter(|_| stays(at)), steps.last_mut()) {
            (Some(width), Some(Step::Keep(len))) => *len += width,
            (Some(width), _) => steps.push(Step::Keep(width)),
            (None, _) => steps.push(Step::Column(at)),
        }
    }
    steps.push(Step::KeepRest);
    steps
}

/// [`changed`] of keys whose columns keep their widths: a copy, in which codes that change are written over, column by column.
/// `None` if one stands between columns without codes, so that its place is different in each key.
fn changed_in_place(keys: &Keys, widths: &[Option<usize>], changes: &[Change]) -> Option<Keys> {
    let (ends, bytes) = keys.ends();
    let mut changed: Option<Vec<u8>> = None;
    for (at, (change, width)) in changes.iter().zip(widths).enumerate() {
        let width = match (change, *width) {
            (Change::Keep, _) | (_, Some(0)) => continue,
            (_, width) => width?,
        };
        let of_all = |columns: &[Option<usize>]| columns.iter().copied().sum::<Option<usize>>();
        let out = changed.get_or_insert_with(|| bytes.to_vec());
        match (of_all(&widths[..at]), of_all(&widths[at..])) {
            (Some(before), _) => {
                let begins = (0..keys.len())
                    .scan(0, |begin, row| Some(std::mem::replace(begin, ends.of(row)) + before));
                change.write_over(out, width, begins);
            }
            (None, Some(behind)) => {
                change.write_over(out, width, (0..keys.len()).map(|row| ends.of(row) - behind));
            }
            (None, None) => return None,
        }
    }
    let Some(bytes) = changed else { return Some(keys.clone()) };
    Some(match ends {
        Ends::Even(width) => Keys::even(keys.len(), width, bytes),
        Ends::Uneven(first, ends) => {
            let offsets = ends[..keys.len()].iter().map(|end| end - first);
            Keys::uneven(std::iter::once(0).chain(offsets).collect(), bytes)
        }
    })
}

impl Change {
    /// Changes codes of `width` bytes at some places.
    fn write_over(&self, bytes: &mut [u8], width: usize, places: impl Iterator<Item = usize>) {
        match self {
            Change::Texts { to, .. } => {
                write_over(bytes, width, places, |code| u64::from(to[code as usize]));
            }
            Change::Numbers { from, to, .. } => {
                write_over(bytes, width, places, |code| to.code(from.number(code)));
            }
            Change::Keep | Change::Rows { .. } | Change::Numbered { .. } | Change::Spell => {
                unreachable!("codes become others")
            }
        }
    }
}

fn write_over(
    bytes: &mut [u8],
    width: usize,
    places: impl Iterator<Item = usize>,
    change: impl Fn(u64) -> u64,
) {
    // A width that is known takes fewer instructions.
    match width {
        1 => places.for_each(|at| bytes[at] = change(u64::from(bytes[at])) as u8),
        2 => places.for_each(|at| {
            let code = bytes[at..].first_chunk_mut().expect("two bytes");
            *code = (change(u64::from(u16::from_be_bytes(*code))) as u16).to_be_bytes();
        }),
        4 => places.for_each(|at| {
            let code = bytes[at..].first_chunk_mut().expect("four bytes");
            *code = (change(u64::from(u32::from_be_bytes(*code))) as u32).to_be_bytes();
        }),
        _ => places.for_each(|at| {
            let code = &mut bytes[at..at + width];
            code.copy_from_slice(&change(code_of(code)).to_be_bytes()[NUMBER - width..]);
        }),
    }
}

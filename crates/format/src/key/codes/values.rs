//! The distinct values of a column of texts, sorted, and the number of each row's value.

use std::hash::{BuildHasher, Hasher};
use std::ops::RangeInclusive;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::key::codes::worth::Worth;
use crate::key::encoding::{END, NULL, PRESENT};
use crate::key::keys::leading_word;
use crate::key::text::Text;

/// Columns with longer texts get no codes by themselves: rows that are spelled out of codes have hardly more bytes than this per column.
const TEXT_BYTES_MAX: usize = 255;
/// Bytes behind the last value, so that a copy of a short one moves a fixed number of bytes.
pub(super) const SLACK: usize = 16;
/// The sample that decides whether a column gets codes: one row in this many, within bounds. A thousand rows show whether there are
/// fewer than half a million distinct values, as some occur twice then.
const SAMPLED_SHARE: usize = 256;
const SAMPLED: RangeInclusive<usize> = 1024..=8192;

/// Distinct values of one column as keys have them, tag and end included, ascending. Codes are their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Values {
    /// One behind the other.
    bytes: Box<[u8]>,
    /// Where each begins, and the end of the last.
    begins: Box<[u32]>,
    longest: usize,
}

impl Values {
    /// Those of ascending texts.
    fn of_texts<'t>(ascending: impl ExactSizeIterator<Item = Option<Text<'t>>>) -> Values {
        Values::new(ascending, |text, bytes| match text {
            None => bytes.push(NULL),
            Some(text) => {
                bytes.push(PRESENT);
                bytes.extend_from_slice(text.bytes);
                bytes.push(END);
            }
        })
    }

    /// Panics if the values have more than 4 GiB.
    fn new<V>(
        ascending: impl ExactSizeIterator<Item = V>,
        put: impl Fn(V, &mut Vec<u8>),
    ) -> Values {
        let (mut bytes, mut longest) = (Vec::new(), 0);
        let mut begins = Vec::with_capacity(ascending.len() + 1);
        begins.push(0);
        for value in ascending {
            let begin = bytes.len();
            put(value, &mut bytes);
            longest = longest.max(bytes.len() - begin);
            begins.push(u32::try_from(bytes.len()).expect("values of a run stay below 4 GiB"));
        }
        bytes.resize(bytes.len() + SLACK, 0);
        Values { bytes: bytes.into(), begins: begins.into(), longest }
    }

    /// The null alone.
    pub fn of_nulls() -> Values {
        Values::of_texts([None].into_iter())
    }

    pub fn len(&self) -> usize {
        self.begins.len() - 1
    }

    /// Whether the first value is null.
    pub fn has_null(&self) -> bool {
        self.len() > 0 && *self.get(0) == [NULL]
    }

    /// The texts of the values but null, ascending, as keys have them.
    pub fn texts(&self) -> impl Iterator<Item = &[u8]> {
        self.iter().filter_map(|value| text_of(value).map(|text| text.bytes))
    }

    /// The bytes of the longest value.
    pub fn longest(&self) -> usize {
        self.longest
    }

    #[inline]
    pub fn get(&self, code: usize) -> &[u8] {
        &self.bytes[self.begins[code] as usize..self.begins[code + 1] as usize]
    }

    /// All bytes, with [`SLACK`] behind, and where in them a value lies.
    #[inline]
    pub fn place(&self, code: usize) -> (&[u8], usize, usize) {
        let begin = self.begins[code] as usize;
        (&self.bytes, begin, self.begins[code + 1] as usize - begin)
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|code| self.get(code))
    }

    /// How many values are not `is_behind` something, which holds of the last ones.
    pub fn count_before(&self, is_behind: impl Fn(&[u8]) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if is_behind(self.get(middle)) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// The code of a value, or how many are less.
    pub fn code(&self, value: &[u8]) -> Result<usize, usize> {
        let code = self.count_before(|other| other >= value);
        if code < self.len() && self.get(code) == value { Ok(code) } else { Err(code) }
    }

    pub fn allocated_bytes(&self) -> usize {
        self.bytes.len() + size_of_val(&*self.begins)
    }

    /// Bytes of the codes of some rows and of the values.
    pub fn coded_bytes(&self, rows: usize) -> usize {
        coded_bytes(rows, self.len(), self.bytes.len() - SLACK)
    }

    /// The values of several lists, and what the codes of each list become. No value is hashed. O(values · log lists).
    pub fn merged(lists: &[&Values]) -> (Values, Vec<Vec<u32>>) {
        let mut all: Vec<(u128, &[u8], u32, u32)> = Vec::new();
        for (list, values) in lists.iter().enumerate() {
            let numbered = values.iter().enumerate();
            all.extend(
                numbered
                    .map(|(code, value)| (leading_word(value), value, list as u32, code as u32)),
            );
        }
        // Lists are sorted, and a stable sort finds that out.
        all.sort_by(|left, right| left.0.cmp(&right.0).then_with(|| left.1.cmp(right.1)));
        let mut maps: Vec<Vec<u32>> = lists.iter().map(|values| vec![0; values.len()]).collect();
        let mut distinct: Vec<&[u8]> = Vec::new();
        for (_, value, list, code) in all {
            if distinct.last() != Some(&value) {
                distinct.push(value);
            }
            maps[list as usize][code as usize] = distinct.len() as u32 - 1;
        }
        (Values::new(distinct.into_iter(), |value, bytes| bytes.extend_from_slice(value)), maps)
    }
}

/// The distinct values of some rows, given by the text of a row, and the code of each row.
///
/// `None` if that is not worth it, or a text is too long. O(rows), with one hash for each row that has another text than the one
/// before it, and one sort of the distinct texts.
pub(super) fn coded<'t>(
    rows: usize,
    text: impl Fn(usize) -> Option<Text<'t>>,
    worth: Worth,
) -> Option<(Values, Vec<u32>)> {
    if worth != Worth::Always && rows > 0 && !repeats(rows, &text, worth) {
        return None;
    }
    let mut distinct = Distinct::default();
    let mut codes = Vec::with_capacity(rows);
    let mut bytes = 0;
    let mut last: Option<(Text<'t>, u32)> = None;
    for row in 0..rows {
        let text = text(row);
        let code = match (text, last) {
            (None, _) => distinct.null_code(),
            (Some(text), Some((same, code))) if same == text => code,
            (Some(text), _) if text.bytes.len() > TEXT_BYTES_MAX && worth != Worth::Always => {
                return None;
            }
            (Some(text), _) => {
                let code = distinct.code(text);
                last = Some((text, code));
                code
            }
        };
        bytes += value_len(text);
        codes.push(code);
    }
    let (values, ranks) = distinct.ranked();
    codes.iter_mut().for_each(|code| *code = ranks[*code as usize]);
    worth.allows(rows, values.coded_bytes(rows), bytes).then_some((values, codes))
}

/// Texts by the numbers of a dictionary's entries, of which each that rows have is looked at once.
pub(super) struct Entries<'t> {
    /// The texts of the entries that rows have.
    used: Vec<Option<Text<'t>>>,
    /// Of each row the number of its text among those.
    numbers: Vec<u32>,
    /// Bytes of all rows' values, and of the entries'.
    bytes: usize,
    of_used: usize,
}

impl<'t> Entries<'t> {
    /// `None` if there are more entries than rows: most are used by no row then.
    pub fn of(
        entry_of: &[usize],
        is_null: impl Fn(usize) -> bool,
        entry: impl Fn(usize) -> Text<'t>,
    ) -> Option<Entries<'t>> {
        const UNUSED: u32 = u32::MAX;
        let rows = entry_of.len();
        let entries = entry_of.iter().max().map_or(0, |last| last + 1);
        if entries > rows {
            return None;
        }
        // The last one is of nulls.
        let mut number_of = vec![UNUSED; entries + 1];
        let (mut used, mut lens) = (Vec::new(), Vec::new());
        let (mut numbers, mut bytes) = (Vec::with_capacity(rows), 0);
        for (row, &at) in entry_of.iter().enumerate() {
            let is_null = is_null(row);
            let number = &mut number_of[if is_null { entries } else { at }];
            if *number == UNUSED {
                *number = used.len() as u32;
                let text = (!is_null).then(|| entry(at));
                used.push(text);
                lens.push(value_len(text));
            }
            numbers.push(*number);
            bytes += lens[*number as usize];
        }
        Some(Entries { used, numbers, bytes, of_used: lens.iter().sum() })
    }

    /// What [`coded`] gives.
    pub fn coded(&self, worth: Worth) -> Option<(Values, Vec<u32>)> {
        let rows = self.numbers.len();
        let longest = self.used.iter().map(|text| value_len(*text)).max().unwrap_or(0);
        if worth != Worth::Always && longest > TEXT_BYTES_MAX {
            return None;
        }
        // As if no entries were alike: there are fewer values if some are.
        if !worth.allows(rows, coded_bytes(rows, self.used.len(), self.of_used), self.bytes) {
            return None;
        }
        let used = |number: usize| self.used[number];
        let (values, codes) = coded(self.used.len(), used, Worth::Always)?;
        Some((values, self.by_row(&codes)))
    }

    /// What [`Lookup::codes`] gives.
    pub fn codes(&self, lookup: &Lookup) -> Option<Vec<u32>> {
        lookup.codes(self.used.len(), |number| self.used[number]).map(|codes| self.by_row(&codes))
    }

    fn by_row(&self, codes: &[u32]) -> Vec<u32> {
        self.numbers.iter().map(|number| codes[*number as usize]).collect()
    }
}

/// Bytes of a text in a key.
fn value_len(text: Option<Text<'_>>) -> usize {
    1 + text.map_or(0, |text| text.bytes.len() + 1)
}

/// Bytes of the greatest of some codes that begin with 0.
pub(super) fn code_width(count: u64) -> usize {
    match count.saturating_sub(1) {
        0 => 0,
        greatest => (greatest.ilog2() / u8::BITS + 1) as usize,
    }
}

/// Bytes of the codes of some rows and of distinct values, which have `of_values` bytes in all.
fn coded_bytes(rows: usize, distinct: usize, of_values: usize) -> usize {
    rows * code_width(distinct as u64) + of_values + distinct * size_of::<u32>()
}

/// Whether a sample of the values says that codes will pay. There is a row at least.
fn repeats<'t>(rows: usize, text: impl Fn(usize) -> Option<Text<'t>>, worth: Worth) -> bool {
    let wanted = (rows / SAMPLED_SHARE).clamp(*SAMPLED.start(), *SAMPLED.end());
    let mut distinct = Distinct::default();
    let (mut times, mut is_taken): (Vec<u32>, Vec<bool>) = (Vec::new(), vec![false; rows]);
    let (mut sampled, mut bytes) = (0, 0);
    // Rows at random, each once: values may come in turn. The hash has no seed, so that the same rows get the same codes.
    for number in 0..wanted as u64 {
        let row = FixedState::default().hash_one(number) as usize % rows;
        if std::mem::replace(&mut is_taken[row], true) {
            continue;
        }
        let text = text(row);
        let code = match text {
            None => distinct.null_code(),
            Some(text) => distinct.code(text),
        } as usize;
        times.resize(times.len().max(code + 1), 0);
        times[code] += 1;
        sampled += 1;
        bytes += value_len(text);
    }
    let expected = expected_distinct(rows, &times);
    let of_values = expected * bytes / sampled;
    worth.allows(rows, coded_bytes(rows, expected, of_values), bytes * rows / sampled)
}

/// An estimate of the distinct values of `rows` rows, from how many `times` each value occurs in a sample (Chao, *Nonparametric Estimation
/// of the Number of Classes in a Population*, 1984).
fn expected_distinct(rows: usize, times: &[u32]) -> usize {
    let have = |wanted: u32| times.iter().filter(|&&times| times == wanted).count() as f64;
    let (once, twice) = (have(1), have(2));
    let unseen = match twice {
        0.0 => once * (once - 1.0) / 2.0,
        _ => once * once / (2.0 * twice),
    };
    let all = times.len() as f64 + unseen;
    let of_rows = all * (1.0 - (-(rows as f64) / all).exp());
    (of_rows as usize).clamp(times.len(), rows)
}

/// Values whose codes are found by text.
#[derive(Debug)]
pub(crate) struct Lookup {
    values: Arc<Values>,
    table: HashTable<u32>,
    /// Of each value what is compared first of its text.
    words: Box<[([u128; 2], u32)]>,
    hashes: FixedState,
}

impl Lookup {
    /// One hash for each value.
    pub fn new(values: Arc<Values>) -> Lookup {
        let hashes = FixedState::default();
        let texts = || values.iter().map(text_of).enumerate();
        let mut table = HashTable::with_capacity(values.len());
        let hash_of =
            |code: &u32| text_of(values.get(*code as usize)).map_or(0, |text| hash(&hashes, text));
        for (code, text) in texts() {
            if let Some(text) = text {
                table.insert_unique(hash(&hashes, text), code as u32, hash_of);
            }
        }
        let words = texts().map(|(_, text)| text.map_or(([0; 2], 0), words)).collect();
        Lookup { values, table, words, hashes }
    }

    pub fn values(&self) -> &Arc<Values> {
        &self.values
    }

    /// The heap bytes held.
    pub fn allocated_bytes(&self) -> usize {
        self.values.allocated_bytes() + size_of_val(&*self.words) + self.table.allocation_size()
    }

    #[inline]
    fn code(&self, text: Text<'_>) -> Option<u32> {
        let own = words(text);
        let is_all = text.as_words().is_some();
        let is_same = |code: &u32| {
            let code = *code as usize;
            self.words[code] == own && (is_all || text_of(self.values.get(code)) == Some(text))
        };
        self.table.find(hash(&self.hashes, text), is_same).copied()
    }

    /// The code of each row, given by its text. `None` if a text is not among the values.
    pub fn codes<'t>(
        &self,
        rows: usize,
        text: impl Fn(usize) -> Option<Text<'t>>,
    ) -> Option<Vec<u32>> {
        let null = self.values.has_null().then_some(0);
        (0..rows).map(|row| text(row).map_or(null, |text| self.code(text))).collect()
    }
}

/// The text of a value in a key; `None` is null.
pub(super) fn text_of(value: &[u8]) -> Option<Text<'_>> {
    match value {
        [] | [NULL] => None,
        value => Some(Text::new(&value[1..value.len() - 1])),
    }
}

/// The words of a text, if these are all of it, and its length.
#[inline]
fn words(text: Text<'_>) -> ([u128; 2], u32) {
    (text.as_words().unwrap_or_default(), text.bytes.len() as u32)
}

#[inline]
fn hash(hashes: &FixedState, text: Text<'_>) -> u64 {
    let mut hasher = hashes.build_hasher();
    match text.as_words() {
        // One number says all of a text of sixteen bytes or fewer: none has zeros.
        Some([word, 0]) => hasher.write_u128(word),
        Some([first, last]) => {
            hasher.write_u128(first);
            hasher.write_u128(last ^ text.bytes.len() as u128);
        }
        None => hasher.write(text.bytes),
    }
    hasher.finish()
}

/// Texts that get numbers in the order in which they come.
#[derive(Default)]
struct Distinct<'t> {
    table: HashTable<u32>,
    values: Vec<Option<Text<'t>>>,
    null: Option<u32>,
    hashes: FixedState,
}

impl<'t> Distinct<'t> {
    fn null_code(&mut self) -> u32 {
        *self.null.get_or_insert_with(|| {
            self.values.push(None);
            self.values.len() as u32 - 1
        })
    }

    #[inline]
    fn code(&mut self, text: Text<'t>) -> u32 {
        let Distinct { table, values, hashes, .. } = self;
        let is_same = |number: &u32| values[*number as usize] == Some(text);
        let rehash = |number: &u32| values[*number as usize].map_or(0, |text| hash(hashes, text));
        match table.entry(hash(hashes, text), is_same, rehash) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(place) => {
                let number = values.len() as u32;
                place.insert(number);
                values.push(Some(text));
                number
            }
        }
    }

    /// The values in their order, and the place there of each by its number.
    fn ranked(&self) -> (Values, Vec<u32>) {
        let text = |number: u32| self.values[number as usize];
        let bytes = |number: u32| text(number).map(|text| text.bytes);
        let word = |number: u32| text(number).map_or(0, Text::rank);
        let mut order: Vec<(u128, u32)> =
            (0..self.values.len() as u32).map(|number| (word(number), number)).collect();
        order.sort_unstable_by(|left, right| {
            left.0.cmp(&right.0).then_with(|| bytes(left.1).cmp(&bytes(right.1)))
        });
        let mut ranks = vec![0; order.len()];
        order.iter().zip(0..).for_each(|((_, number), rank)| ranks[*number as usize] = rank);
        (Values::of_texts(order.iter().map(|(_, number)| text(*number))), ranks)
    }
}

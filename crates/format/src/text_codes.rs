//! Which columns of texts outside the key get codes, and with those of which list.
//!
//! What pays for [keys](crate::key::KeyCodes) pays here: the same sample decides. Codes ascend as texts do.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StringArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::DataType;

use crate::byte_bounds;
use crate::key::{Lookup, Payloads, Values, Worth, coded_texts, distinct_texts, worth};
use crate::texts_by_code::{
    Codes, Strings, are_one, code_bytes, is_by_code, of_codes, plain, texts_of,
};

/// The list of texts that the rows of a batch had. The next batches get the same codes where they can, so that runs that come together
/// mostly have one list.
#[derive(Debug)]
pub struct KnownTexts {
    lookup: Arc<Lookup>,
    texts: ArrayRef,
}

impl KnownTexts {
    fn new(lookup: Arc<Lookup>) -> KnownTexts {
        KnownTexts { texts: list_of(lookup.values()), lookup }
    }

    /// The heap bytes held.
    pub fn allocated_bytes(&self) -> usize {
        self.lookup.allocated_bytes() + self.texts.get_buffer_memory_size()
    }
}

/// Whether codes can be given to a column: of few rows, or where all are null, nothing is to be found out of those that come later.
pub fn tells_worth(column: &dyn Array) -> bool {
    worth(column.len()).is_some() && has_texts(column)
}

/// A column of texts, which may have come as a dictionary, by code, with the list to look texts up in for the next batch; `None` if codes
/// are not worth it. O(rows), with a hash for each text, or for each entry of a dictionary that rows have.
pub fn by_code(
    column: &ArrayRef,
    known: Option<&Arc<KnownTexts>>,
) -> Option<(ArrayRef, Arc<KnownTexts>)> {
    let worth = worth(column.len())?;
    let payloads = Payloads::of_texts(column);
    let texts = coded_texts(&payloads, column.len(), worth, known.map(|known| &known.lookup))?;
    let list = match known.filter(|_| !texts.is_new) {
        Some(known) => known.clone(),
        None => Arc::new(KnownTexts::new(texts.lookup)),
    };
    Some((of_values(&texts.codes, list.lookup.values(), &list.texts), list))
}

/// A column that was put together, by code if that is worth it now, else plain.
pub fn settled(column: &ArrayRef) -> ArrayRef {
    let worth = worth(column.len());
    match (texts_of(column), worth) {
        (None, Some(worth)) if *column.data_type() == DataType::Utf8 => {
            let payloads = Payloads::of_texts(column);
            match distinct_texts(&payloads, column.len(), worth) {
                Some((values, codes)) => of_values(&codes, &values, &list_of(&values)),
                None => column.clone(),
            }
        }
        (None, _) => column.clone(),
        (Some(list), worth) if is_kept(worth, &[column], list) => column.clone(),
        (Some(_), _) => plain(column),
    }
}

/// Brings pieces of one column of texts into one form: by code with one list, if some are so and that is worth it, else plain. No
/// text is hashed of pieces that are by code.
pub fn alike(pieces: &mut [ArrayRef]) {
    if !pieces.iter().any(|piece| is_by_code(piece)) {
        return;
    }
    match brought_together(pieces) {
        Some(together) => pieces.clone_from_slice(&together),
        None => pieces.iter_mut().for_each(|piece| *piece = plain(piece)),
    }
}

/// The pieces by code with one list; `None` if that is not worth it.
fn brought_together(pieces: &[ArrayRef]) -> Option<Vec<ArrayRef>> {
    let with_texts = || pieces.iter().filter(|piece| has_texts(piece));
    let rows = |by_code: bool| -> usize {
        with_texts().filter(|piece| is_by_code(piece) == by_code).map(Array::len).sum()
    };
    // Most texts would be hashed here. `settled` does that once the pieces are put together, if it pays.
    if rows(false) > rows(true) && may_be_plain(with_texts()) {
        return None;
    }
    let coded = |piece: &ArrayRef| match (is_by_code(piece), has_texts(piece)) {
        (_, false) => None,
        (true, true) => Some(piece.clone()),
        (false, true) => {
            let payloads = Payloads::of_texts(piece);
            let (values, codes) = distinct_texts(&payloads, piece.len(), Worth::Always)
                .expect("codes are given in any case");
            Some(of_values(&codes, &values, &list_of(&values)))
        }
    };
    let coded: Vec<Option<ArrayRef>> = pieces.iter().map(coded).collect();
    let mut lists: Vec<&ArrayRef> = Vec::new();
    let mut number_of: Vec<usize> = Vec::with_capacity(pieces.len());
    for piece in coded.iter().flatten() {
        let own = list_of_coded(piece);
        let known = lists.iter().position(|list| are_one(list, own));
        number_of.push(known.unwrap_or(lists.len()));
        if known.is_none() {
            lists.push(own);
        }
    }
    let (list, maps) = merged(&lists);
    let with_texts: Vec<&ArrayRef> = coded.iter().flatten().collect();
    if !is_kept(worth(pieces.iter().map(Array::len).sum()), &with_texts, &list) {
        return None;
    }
    let mut numbers = number_of.into_iter();
    let recoded = |(piece, given): (&Option<ArrayRef>, &ArrayRef)| match piece {
        None => {
            let nulls = NullBuffer::new_null(given.len());
            of_codes(std::iter::repeat_n(0, given.len()), Some(nulls), &list)
        }
        Some(piece) => {
            let map = &maps[numbers.next().expect("each piece has a list")];
            if are_one(list_of_coded(piece), &list) {
                return piece.clone();
            }
            let codes = Codes::of(piece).expect("it is by code");
            // A row without a text may have any code.
            let code = |row| map.get(codes.at(row)).copied().unwrap_or_default();
            of_codes((0..piece.len()).map(code), piece.nulls().cloned(), &list)
        }
    };
    Some(coded.iter().zip(pieces).map(recoded).collect())
}

fn list_of_coded(column: &ArrayRef) -> &ArrayRef {
    texts_of(column).expect("it is by code")
}

fn has_texts(column: &dyn Array) -> bool {
    column.logical_null_count() < column.len()
}

/// Whether a column by code stays so.
fn is_kept(worth: Option<Worth>, columns: &[&ArrayRef], list: &ArrayRef) -> bool {
    worth.is_some_and(|worth| is_worth(worth, columns, list))
        || !may_be_plain(columns.iter().copied())
}

/// Whether the texts of some columns, and those of as many more, fit an array without codes. O(rows) of columns by code.
fn may_be_plain<'a>(columns: impl Iterator<Item = &'a ArrayRef>) -> bool {
    columns.map(bytes_of).sum::<usize>() <= byte_bounds::array() / 2
}

fn bytes_of(column: &ArrayRef) -> usize {
    Strings::of(column).expect("columns of texts").bytes_in(0..column.len())
}

/// Whether a list of texts for some columns by code takes enough less than their texts as they are. O(rows).
fn is_worth(worth: Worth, columns: &[&ArrayRef], list: &ArrayRef) -> bool {
    let rows = columns.iter().map(|column| column.len()).sum::<usize>();
    let texts = list.as_string::<i32>();
    let of_list = texts.value_offsets()[texts.len()] as usize + size_of_val(texts.value_offsets());
    let plain = columns.iter().copied().map(bytes_of).sum::<usize>() + rows * size_of::<i32>();
    worth.allows(rows, rows * code_bytes(texts.len()) + of_list, plain)
}

/// One list of the texts of several, which is one of them if it has all, and what the codes of each become. O(texts · log lists).
fn merged(lists: &[&ArrayRef]) -> (ArrayRef, Vec<Vec<u32>>) {
    let mut all: Vec<(&str, u32, u32)> = Vec::new();
    for (number, list) in lists.iter().enumerate() {
        let texts = list.as_string::<i32>();
        all.extend((0..texts.len()).map(|code| (texts.value(code), number as u32, code as u32)));
    }
    // Lists are sorted, and a stable sort finds that out.
    all.sort_by_key(|(text, ..)| *text);
    let mut maps: Vec<Vec<u32>> = lists.iter().map(|list| vec![0; list.len()]).collect();
    let mut distinct: Vec<&str> = Vec::new();
    for (text, list, code) in all {
        if distinct.last() != Some(&text) {
            distinct.push(text);
        }
        maps[list as usize][code as usize] = distinct.len() as u32 - 1;
    }
    let list = match lists.iter().find(|list| list.len() == distinct.len()) {
        Some(list) => (*list).clone(),
        None => Arc::new(StringArray::from_iter_values(&distinct)),
    };
    (list, maps)
}

/// The texts of some values, which may have a null before them, as an array.
fn list_of(values: &Values) -> ArrayRef {
    let texts = values.texts();
    let (mut bytes, mut offsets) = (Vec::new(), vec![0]);
    for text in texts {
        bytes.extend_from_slice(text);
        offsets.push(i32::try_from(bytes.len()).expect("a list is shorter than what it is of"));
    }
    offsets.shrink_to_fit();
    bytes.shrink_to_fit();
    let offsets = OffsetBuffer::new(offsets.into());
    let list = StringArray::try_new(offsets, Buffer::from_vec(bytes), None);
    Arc::new(list.expect("texts are whole"))
}

/// A column of the codes of values, whose texts are in a list.
fn of_values(codes: &[u32], values: &Values, list: &ArrayRef) -> ArrayRef {
    if !values.has_null() {
        return of_codes(codes.iter().copied(), None, list);
    }
    let nulls: NullBuffer = codes.iter().map(|code| *code > 0).collect();
    let nulls = (nulls.null_count() > 0).then_some(nulls);
    of_codes(codes.iter().map(|code| code.saturating_sub(1)), nulls, list)
}

#[cfg(test)]
mod tests {
    use arrow_array::types::Int32Type;
    use arrow_array::{DictionaryArray, NullArray, new_null_array};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::pick::Pick;
    use crate::texts_by_code::picked;

    /// Texts of few values, some null, in batches.
    fn batches() -> impl Strategy<Value = Vec<Vec<Option<String>>>> {
        let text = prop_oneof![
            1 => Just(None),
            8 => "[a-f]{0,2}".prop_map(Some),
            2 => "city\0? ?[0-9\u{1}]{0,3}\0?".prop_map(Some),
        ];
        let batch = prop_oneof![
            4 => vec(text, 1024..1500),
            1 => vec("[a-e]".prop_map(Some), 1..50),
            1 => (1..1100usize).prop_map(|rows| vec![None; rows]),
            1 => (1024..1100usize).prop_map(|rows| {
                (0..rows).map(|at| Some(format!("all of them apart {at}"))).collect()
            }),
        ];
        vec(batch, 1..5)
    }

    fn flat(texts: &[Option<String>]) -> ArrayRef {
        Arc::new(texts.iter().map(Option::as_deref).collect::<StringArray>())
    }

    fn are_same(column: &ArrayRef, other: &ArrayRef) -> bool {
        column.as_ref() == other.as_ref()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

        #[test]
        fn texts_are_what_they_were_however_they_come_together(
            batches in batches(),
            picks in vec(any::<(prop::sample::Index, prop::sample::Index)>(), 0..300),
        ) {
            let mut known: Option<Arc<KnownTexts>> = None;
            let mut pieces: Vec<ArrayRef> = Vec::new();
            for (number, batch) in batches.iter().enumerate() {
                let texts = flat(batch);
                // As a dictionary of any order, by turns.
                let given = match number % 2 {
                    0 => texts.clone(),
                    _ => {
                        let codes: DictionaryArray<Int32Type> =
                            batch.iter().map(Option::as_deref).collect();
                        Arc::new(codes) as ArrayRef
                    }
                };
                let held = match by_code(&given, known.as_ref()) {
                    Some((coded, list)) => {
                        known = Some(list);
                        let distinct = texts_of(&coded).unwrap().as_string::<i32>();
                        prop_assert_eq!(distinct.null_count(), 0);
                        let rises = |at| distinct.value(at - 1) < distinct.value(at);
                        prop_assert!((1..distinct.len()).all(rises));
                        coded
                    }
                    None => plain(&given),
                };
                prop_assert!(are_same(&plain(&held), &texts));
                pieces.push(held);
            }
            let columns: Vec<&dyn Array> = pieces.iter().map(|piece| piece.as_ref()).collect();
            let picks: Vec<Pick> = picks
                .iter()
                .map(|(piece, row)| {
                    let piece = piece.index(pieces.len());
                    Pick::new(piece, row.index(pieces[piece].len()))
                })
                .collect();
            let expected: Vec<_> =
                picks.iter().map(|pick| batches[pick.part()][pick.row()].clone()).collect();
            prop_assert!(are_same(&picked(&columns, &picks), &flat(&expected)));
            alike(&mut pieces);
            let lists: Vec<_> = pieces.iter().map(|piece| texts_of(piece)).collect();
            for (piece, batch) in pieces.iter().zip(&batches) {
                prop_assert_eq!(piece.data_type(), pieces[0].data_type());
                prop_assert!(are_same(&plain(piece), &flat(batch)));
                let is_one = match (texts_of(piece), lists[0]) {
                    (Some(list), Some(first)) => are_one(list, first),
                    (list, first) => list.is_none() && first.is_none(),
                };
                prop_assert!(is_one);
                prop_assert_eq!(settled(&flat(batch)).len(), batch.len());
                let settled = settled(piece);
                prop_assert!(are_same(&plain(&settled), &flat(batch)));
            }
        }
    }

    #[test]
    fn a_list_that_has_all_texts_is_kept_and_no_code_changes() {
        let texts = |range: std::ops::Range<usize>| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(
                (0..2000)
                    .map(|row| format!("a city of number {}", range.start + row % range.len())),
            ))
        };
        let (first, known) = by_code(&texts(0..20), None).unwrap();
        let (same, still) = by_code(&texts(5..15), Some(&known)).unwrap();
        assert!(Arc::ptr_eq(&known, &still), "no text is new");
        assert!(are_one(texts_of(&first).unwrap(), texts_of(&same).unwrap()));
        let (more, grown) = by_code(&texts(10..30), Some(&known)).unwrap();
        assert_eq!(texts_of(&more).unwrap().len(), 30, "old texts and new ones");
        let mut pieces = [first, same, more];
        alike(&mut pieces);
        assert!(pieces.iter().all(|piece| are_one(texts_of(piece).unwrap(), &grown.texts)));
    }

    #[test]
    fn texts_that_hardly_repeat_stay_as_they_are() {
        let apart: ArrayRef =
            Arc::new(StringArray::from_iter_values((0..3000).map(|row| format!("row {row}"))));
        assert!(by_code(&apart, None).is_none());
        assert_eq!(settled(&apart).as_ref(), apart.as_ref());
    }

    #[test]
    fn columns_without_texts_tell_nothing_and_take_any_list() {
        let texts: ArrayRef =
            Arc::new(StringArray::from_iter_values((0..2000).map(|row| ["a city", "b"][row % 2])));
        let (coded, _) = by_code(&texts, None).unwrap();
        assert!(tells_worth(&texts) && !tells_worth(&texts.slice(0, 100)));
        let nulls: [ArrayRef; 2] =
            [new_null_array(&DataType::Utf8, 2000), Arc::new(NullArray::new(2000))];
        for nulls in nulls {
            assert!(!tells_worth(&nulls));
            let mut pieces = [coded.clone(), nulls.clone(), coded.clone()];
            alike(&mut pieces);
            assert!(is_by_code(&pieces[1]) && pieces[1].null_count() == 2000);
            assert_eq!(plain(&pieces[1]).as_ref(), &new_null_array(&DataType::Utf8, 2000));
        }
    }
}

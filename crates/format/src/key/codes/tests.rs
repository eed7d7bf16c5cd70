use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, Int32Array, Int64Array, StringArray};
use arrow_schema::DataType;
use arrow_select::take::take;
use proptest::collection::vec;
use proptest::prelude::*;

use super::encode::encode_if_worth;
use super::worth::Worth;
use super::*;
use crate::key::arbitrary::{column, data_type};
use crate::key::{Bound, Keys, encode_keys};

/// Key columns of random types, a text among them, of up to 40 rows, and where rows are cut in two.
fn key_columns() -> impl Strategy<Value = (Vec<ArrayRef>, usize)> {
    (vec(data_type(), 0..3), vec(data_type(), 0..3), 1..40usize, 0..40usize).prop_flat_map(
        |(before, behind, len, cut)| {
            let types = before.into_iter().chain([DataType::Utf8]).chain(behind);
            let columns: Vec<_> = types.map(|of| column(of, len)).collect();
            (columns, Just(cut.min(len)))
        },
    )
}

fn types(columns: &[ArrayRef]) -> Vec<DataType> {
    columns.iter().map(|column| column.data_type().clone()).collect()
}

/// Keys by code, unless each column of texts has a very long one.
fn by_code_or_not(columns: &[ArrayRef]) -> Option<(Keys, KeyCodes)> {
    let CodedKeys { keys, codes, .. } = encode_if_worth(columns, Worth::Always, None, true);
    Some((keys, codes?))
}

fn by_code_if_worth(columns: &[ArrayRef]) -> (Keys, Option<KeyCodes>) {
    let CodedKeys { keys, codes, .. } = encode_keys_by_code(columns, None, false);
    (keys, codes)
}

fn by_code(columns: &[ArrayRef]) -> (Keys, KeyCodes) {
    by_code_or_not(columns).expect("short texts have codes")
}

fn slices(columns: &[ArrayRef], from: usize, to: usize) -> Vec<ArrayRef> {
    columns.iter().map(|column| column.slice(from, to - from)).collect()
}

/// Places at, behind and within keys of some columns.
fn bounds(columns: &[ArrayRef]) -> Vec<Bound> {
    let keys = encode_keys(columns);
    let mut bounds = Vec::new();
    for row in 0..keys.len() {
        let key = keys.value(row);
        bounds.extend([Bound::at_key(key), Bound::past_key(key)]);
        for end in 0..=key.len() {
            bounds
                .extend([false, true].map(|is_past| Bound::of_parts(key[..end].to_vec(), is_past)));
        }
        for count in 0..=columns.len() {
            let prefix: Vec<ArrayRef> =
                columns[..count].iter().map(|column| column.slice(row, 1)).collect();
            bounds.extend([Bound::before(&prefix), Bound::after(&prefix)]);
        }
    }
    bounds
}

/// What keys by code must be, of some columns.
fn check(keys: &Keys, codes: &KeyCodes, columns: &[ArrayRef]) {
    let plain = encode_keys(columns);
    assert_eq!(codes.spelled(keys), plain);
    for row in 0..keys.len() {
        let key = plain.value(row);
        assert_eq!(codes.spelled_key(keys.value(row)), key);
        assert_eq!(codes.key(key).as_deref(), Some(keys.value(row)), "{key:?}");
        assert!(key.len() <= codes.spelled_len_max(keys.value(row).len()));
        for other in 0..keys.len() {
            assert_eq!(
                keys.value(row).cmp(keys.value(other)),
                key.cmp(plain.value(other)),
                "{key:?} and {:?}",
                plain.value(other)
            );
        }
    }
}

fn check_bounds(keys: &Keys, codes: &KeyCodes, plain: &Keys, bounds: &[Bound]) {
    for bound in bounds {
        let of_codes = codes.bound(bound);
        for row in 0..keys.len() {
            assert_eq!(
                of_codes.lies_before(keys.value(row)),
                bound.lies_before(plain.value(row)),
                "{bound:?}, as {of_codes:?}, and {:?}, by code {:?}",
                plain.value(row),
                keys.value(row)
            );
        }
    }
}

proptest! {
    #[test]
    fn keys_by_code_compare_and_are_spelled_as_keys((columns, _) in key_columns()) {
        let Some((keys, codes)) = by_code_or_not(&columns) else { return Ok(()) };
        check(&keys, &codes, &columns);
    }

    /// Bounds of rows that have codes, and of rows that have none.
    #[test]
    fn bounds_lie_where_they_do_among_keys((columns, cut) in key_columns()) {
        let first = slices(&columns, 0, cut);
        prop_assume!(cut > 0);
        let Some((keys, codes)) = by_code_or_not(&first) else { return Ok(()) };
        let all = bounds(&columns);
        check_bounds(&keys, &codes, &encode_keys(&first), &all);
        // Rows from before the last column was there.
        let fewer = &first[..first.len() - 1];
        if let Some((keys, codes)) = by_code_or_not(fewer) {
            check_bounds(&keys, &codes, &encode_keys(fewer), &all);
        }
    }

    #[test]
    fn keys_that_no_row_has_are_not_found((columns, cut) in key_columns()) {
        let first = slices(&columns, 0, cut);
        prop_assume!(cut > 0);
        let Some((keys, codes)) = by_code_or_not(&first) else { return Ok(()) };
        let (plain, all) = (encode_keys(&first), encode_keys(&columns));
        for key in all.iter() {
            let found = codes.key(key).and_then(|key| keys.iter().position(|other| *other == key));
            prop_assert_eq!(found, plain.iter().position(|other| other == key));
        }
    }

    /// Parts with codes and without, and a part from before the last column was there.
    #[test]
    fn keys_of_parts_come_into_the_same_codes(
        (columns, cut) in key_columns(),
        are_coded in vec(any::<bool>(), 3),
    ) {
        let len = columns[0].len();
        let middle = cut / 2;
        let cuts = [(0, middle), (middle, cut), (cut, len)];
        let shown: Vec<Vec<ArrayRef>> =
            cuts.iter().map(|&(from, to)| slices(&columns, from, to)).collect();
        let earlier = &shown[1][..shown[1].len() - 1];
        let parts: Vec<(Keys, Option<KeyCodes>)> = shown
            .iter()
            .chain([&earlier.to_vec()])
            .zip(are_coded.iter().chain([&true]))
            .map(|(columns, is_coded)| {
                let has_text = columns.iter().any(|column| *column.data_type() == DataType::Utf8);
                match *is_coded && has_text && !columns[0].is_empty() {
                    true => {
                        let coded = encode_if_worth(columns, Worth::Always, None, true);
                        (coded.keys, coded.codes)
                    }
                    false => (encode_keys(columns), None),
                }
            })
            .collect();
        let given: Vec<_> = parts.iter().map(|(keys, codes)| (keys, codes.as_ref())).collect();
        let plain: Vec<&[u8]> = Vec::new();
        let mut plain = plain;
        for (keys, codes) in &parts {
            let spelled = codes.as_ref().map_or_else(|| keys.clone(), |codes| codes.spelled(keys));
            plain.extend(spelled.iter().map(<[u8]>::to_vec).map(|key| &*key.leak()));
        }
        let alike = coded_alike(&given, &types(&columns));
        prop_assert_eq!(alike.is_some(), parts.iter().any(|(_, codes)| codes.is_some()));
        if let Some((keys, codes)) = alike {
            prop_assert!(keys.iter().zip(&parts).all(|(new, (old, _))| new.len() == old.len()));
            let keys: Keys = keys.iter().flat_map(Keys::iter).collect();
            let plain: Keys = plain.into_iter().collect();
            prop_assert_eq!(codes.spelled(&keys), plain.clone());
            for (row, other) in (0..keys.len()).flat_map(|row| [(row, 0), (row, keys.len() - 1)]) {
                prop_assert_eq!(
                    keys.value(row).cmp(keys.value(other)),
                    plain.value(row).cmp(plain.value(other))
                );
            }
            let (keys, codes) = settled(keys, Some(codes), &types(&columns));
            prop_assert!(codes.is_none(), "few rows have no codes");
            prop_assert_eq!(keys, plain);
        }
    }

    #[test]
    fn texts_by_code_of_the_caller_get_the_codes_of_texts(
        texts in vec(proptest::option::of("[a-c\\x00\\x01]{0,3}"), 1..60),
        begin in 0..20usize,
    ) {
        let by_caller: DictionaryArray<Int32Type> = texts.iter().map(Option::as_deref).collect();
        let by_caller: ArrayRef = Arc::new(by_caller);
        let plain: ArrayRef = Arc::new(StringArray::from(texts));
        let begin = begin.min(plain.len() - 1);
        let rest = |column: &ArrayRef| vec![column.slice(begin, column.len() - begin)];
        prop_assert_eq!(by_code(&rest(&by_caller)), by_code(&rest(&plain)));
    }
}

fn repeated(rows: usize, distinct: usize) -> ArrayRef {
    // A step that has no divisor with the numbers of values in common.
    Arc::new(StringArray::from_iter_values(
        (0..rows).map(|row| format!("text {}", row * 7_919 % distinct)),
    ))
}

fn times(rows: usize) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values((0..rows as i64).map(|row| 1_700_000_000_000 + row)))
}

#[test]
fn texts_that_repeat_get_codes_and_others_do_not() {
    let few = [times(10_000), repeated(10_000, 300)];
    let (keys, codes) = by_code_if_worth(&few);
    let codes = codes.expect("300 texts of 10,000 rows");
    // Two bytes of a time, two of a text.
    assert_eq!(keys.width(), Some(4));
    check(&keys.slice(0, 50), &codes, &slices(&few, 0, 50));
    let many = [times(10_000), repeated(10_000, 10_000)];
    assert_eq!(by_code_if_worth(&many), (encode_keys(&many), None));
    let mixed = [times(10_000), repeated(10_000, 10_000), repeated(10_000, 300)];
    let (keys, codes) = by_code_if_worth(&mixed);
    check(&keys.slice(9_000, 50), &codes.expect("of one column"), &slices(&mixed, 9_000, 9_050));
    let few_rows = [times(1_000), repeated(1_000, 3)];
    assert_eq!(by_code_if_worth(&few_rows), (encode_keys(&few_rows), None));
    let numbers = [times(10_000), times(10_000)];
    assert_eq!(by_code_if_worth(&numbers), (encode_keys(&numbers), None));
}

#[test]
fn keys_get_codes_later_and_lose_them_if_hardly_a_text_repeats() {
    let few = [times(5_000), repeated(5_000, 300)];
    let (keys, codes) = settled(encode_keys(&few), None, &types(&few));
    assert_eq!((keys, codes), by_code_if_worth(&few));
    let many = [times(5_000), repeated(5_000, 5_000)];
    assert_eq!(settled(encode_keys(&many), None, &types(&many)), (encode_keys(&many), None));
    let (keys, codes) = by_code(&many);
    assert_eq!(settled(keys, Some(codes), &types(&many)), (encode_keys(&many), None));
    let [few, many] = [repeated(5_000, 10), repeated(5_000, 5_000)];
    let (keys, codes) = by_code(&[few.clone(), many.clone()]);
    let types = [DataType::Utf8, DataType::Utf8];
    let (keys, codes) = settled(keys, Some(codes), &types);
    // The first column keeps its codes.
    assert_eq!((keys, codes), by_code_if_worth(&[few, many]));
}

/// Batches with the texts of the batches before, with others, and with fewer.
#[test]
fn batches_get_the_codes_of_those_before_while_these_are_worth_it() {
    let encode = |texts: &[ArrayRef], known: Option<&KnownCodes>| {
        let CodedKeys { keys, codes, known } = encode_keys_by_code(texts, known, false);
        let codes = codes.expect("texts repeat");
        check(&keys.slice(0, 20), &codes, &slices(texts, 0, 20));
        (codes, known)
    };
    let of = |rows: usize, from: usize, distinct: usize| -> Vec<ArrayRef> {
        let text = |row: usize| format!("text {:05}", from + row * 7_919 % distinct);
        vec![Arc::new(StringArray::from_iter_values((0..rows).map(text)))]
    };
    let (first, known) = encode(&of(10_000, 0, 300), None);
    let known = known.expect("the first are new");
    let (same, unchanged) = encode(&of(10_000, 0, 300), Some(&known));
    assert!(unchanged.is_none() && same.values_apart(&first) == 0);
    let (fewer, unchanged) = encode(&of(10_000, 0, 100), Some(&known));
    assert!(unchanged.is_none() && fewer.values_apart(&first) == 0);
    // A few more come to the list.
    let (more, known) = encode(&of(10_000, 250, 100), Some(&known));
    assert_eq!(more.values_apart(&first), 350);
    let known = known.expect("there are more");
    let (again, unchanged) = encode(&of(10_000, 0, 300), Some(&known));
    assert!(unchanged.is_none() && again.values_apart(&more) == 0);
    // Few rows do not carry a list that is longer than what they save, ...
    let (long, known) = encode(&of(10_000, 0, 2_000), Some(&known));
    let known = known.expect("there are more");
    assert_eq!(long.values_apart(&first), 2_000);
    let (few, _) = encode(&of(1_024, 0, 20), Some(&known));
    assert_eq!(few.values_apart(&first), 20);
    // ... nor do rows that have other texts throughout make it longer and longer.
    let mut known = known;
    for batch in 1..40 {
        let (codes, now) = encode(&of(10_000, 3_000 * batch, 300), Some(&known));
        assert!(codes.values_apart(&first) <= 5 * 300, "{}", codes.values_apart(&first));
        known = now.expect("others are new");
    }
}

/// Also keys of more columns than batches before had.
#[test]
fn times_that_go_on_keep_their_codes_and_other_columns_begin_anew() {
    let batch = |from: i64| -> Vec<ArrayRef> {
        let times = (0..5_000).map(|row| 1_700_000_000_000 + from + row);
        vec![Arc::new(Int64Array::from_iter_values(times)), repeated(5_000, 100)]
    };
    let mut known: Option<KnownCodes> = None;
    let mut changes = 0;
    for number in 0..200 {
        let columns = batch(number * 5_000);
        let coded = encode_keys_by_code(&columns, known.as_ref(), false);
        let codes = coded.codes.expect("texts repeat");
        check(&coded.keys.slice(4_990, 10), &codes, &slices(&columns, 4_990, 5_000));
        changes += usize::from(coded.known.is_some());
        known = coded.known.or(known);
    }
    assert!(changes <= 4, "{changes} of 200 batches had other codes than those before");
    let wider = [batch(0), vec![repeated(5_000, 7)]].concat();
    let coded = encode_keys_by_code(&wider, known.as_ref(), false);
    check(&coded.keys.slice(0, 10), &coded.codes.expect("texts repeat"), &slices(&wider, 0, 10));
}

#[test]
fn a_very_long_text_keeps_its_column_without_codes() {
    let texts = (0..2_000).map(|row| if row == 1_999 { "x".repeat(300) } else { "y".into() });
    let long: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    let columns = [long.clone(), repeated(2_000, 5)];
    let (keys, codes) = by_code_if_worth(&columns);
    check(
        &keys.slice(1_990, 10),
        &codes.expect("of the other column"),
        &slices(&columns, 1_990, 2_000),
    );
    assert_eq!(by_code_if_worth(std::slice::from_ref(&long)), (encode_keys(&[long]), None));
}

#[test]
fn dictionaries_of_many_entries_that_few_rows_use_cost_what_the_rows_cost() {
    let entries =
        StringArray::from_iter_values((0..100_000).map(|entry| (entry % 50_000).to_string()));
    let used = Int32Array::from_iter_values((0..2_000).map(|row| 99_000 + row % 20));
    let by_entry = DictionaryArray::<Int32Type>::new(used, Arc::new(entries));
    let plain = take(by_entry.values(), by_entry.keys(), None).unwrap();
    let by_entry: ArrayRef = Arc::new(by_entry);
    assert_eq!(by_code_if_worth(&[by_entry]), by_code_if_worth(&[plain]));
}

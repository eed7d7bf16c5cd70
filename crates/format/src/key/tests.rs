use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int8Array, Int32Array, Int64Array, StringArray,
    new_null_array,
};
use arrow_schema::DataType;
use proptest::collection::vec;
use proptest::prelude::*;

use super::arbitrary::{Cell, cell, column, data_type, tuple};
use super::*;
use crate::cursor::{Cursor, put_bytes};
use crate::key::encoding::PRESENT;
use crate::pick::Pick;

/// Key columns of random types and up to 12 rows.
fn key_columns() -> impl Strategy<Value = Vec<ArrayRef>> {
    (vec(data_type(), 1..4), 1..12usize)
        .prop_flat_map(|(types, len)| types.into_iter().map(|t| column(t, len)).collect::<Vec<_>>())
}

fn types(columns: &[ArrayRef]) -> Vec<DataType> {
    columns.iter().map(|column| column.data_type().clone()).collect()
}

/// The first `count` columns of one row, as a bound takes them.
fn prefix(columns: &[ArrayRef], row: usize, count: usize) -> Vec<ArrayRef> {
    columns[..count].iter().map(|column| column.slice(row, 1)).collect()
}

/// Some texts of a dictionary, of which some are null, the row's code of one, if it has one, and where a slice of the rows begins.
fn by_code() -> impl Strategy<Value = (Vec<Option<String>>, Vec<Option<i8>>, usize)> {
    let texts = vec(proptest::option::of("[a-c\\x00\\x01]{0,20}"), 1..5);
    texts.prop_flat_map(|texts| {
        let code = proptest::option::of(0..texts.len() as i8);
        (Just(texts), vec(code, 1..30), 0..30usize)
    })
}

proptest! {
    #[test]
    fn texts_by_code_make_the_keys_of_the_texts((texts, codes, begin) in by_code()) {
        let texts = Arc::new(StringArray::from(texts));
        let by_code = DictionaryArray::<Int8Type>::new(Int8Array::from(codes), texts);
        let by_code = by_code.slice(begin.min(by_code.len()), by_code.len().saturating_sub(begin));
        let plain = arrow_select::take::take(by_code.values(), by_code.keys(), None).unwrap();
        let by_code: ArrayRef = Arc::new(by_code);
        let number: ArrayRef = Arc::new(Int64Array::from_iter_values(0..by_code.len() as i64));
        for columns in [[&by_code, &number], [&number, &by_code], [&by_code, &by_code]] {
            let plain = columns.map(|column| if Arc::ptr_eq(column, &by_code) { &plain } else { column });
            prop_assert_eq!(encode_keys(&columns.map(Arc::clone)), encode_keys(&plain.map(Arc::clone)));
        }
    }

    #[test]
    fn keys_behind_each_other_are_those_of_all_parts(
        parts in vec((vec(vec(any::<u8>(), 0..3), 0..6), 0..6usize), 1..5)
    ) {
        let parts: Vec<Keys> = parts
            .iter()
            .map(|(keys, begin)| {
                let keys: Keys = keys.iter().collect();
                keys.slice(*begin.min(&keys.len()), keys.len().saturating_sub(*begin))
            })
            .collect();
        let all: Keys = parts.iter().flat_map(|part| part.iter()).collect();
        let mut together = KeysBuilder::for_all(&parts);
        parts.iter().for_each(|part| together.extend_keys(part));
        prop_assert_eq!(together.finish(), all);
    }

    #[test]
    fn keys_compare_as_their_tuples(columns in key_columns()) {
        let keys = encode_keys(&columns);
        for left in 0..keys.len() {
            for right in 0..keys.len() {
                prop_assert_eq!(
                    keys.value(left).cmp(keys.value(right)),
                    tuple(&columns, left).cmp(&tuple(&columns, right)),
                    "{:?} and {:?}", tuple(&columns, left), tuple(&columns, right)
                );
            }
        }
    }

    #[test]
    fn key_columns_read_back(columns in key_columns()) {
        let keys = encode_keys(&columns);
        for (position, column) in columns.iter().enumerate() {
            let decoded = decode_column(&keys, &types(&columns), position).unwrap();
            prop_assert_eq!(decoded.data_type(), column.data_type());
            for row in 0..keys.len() {
                prop_assert_eq!(cell(&decoded, row), cell(column, row));
            }
        }
    }

    #[test]
    fn a_split_column_is_the_encoded_value(columns in key_columns()) {
        let keys = encode_keys(&columns);
        for (position, column) in columns.iter().enumerate() {
            let mut encoded = Vec::new();
            for row in 0..keys.len() {
                let split = split_column(keys.value(row), &types(&columns), position).unwrap();
                let mut value = Vec::new();
                encode_value(column, row, &mut value);
                prop_assert_eq!(split, value);
                encoded.push(split);
            }
            let decoded = decode_values(&encoded, column.data_type()).unwrap();
            for row in 0..keys.len() {
                prop_assert_eq!(cell(&decoded, row), cell(column, row));
            }
        }
    }

    #[test]
    fn a_column_added_to_the_key_later_changes_no_key(columns in key_columns(), added in data_type()) {
        let mut wider = columns.clone();
        wider.push(new_null_array(&added, columns[0].len()));
        prop_assert_eq!(encode_keys(&wider), encode_keys(&columns));
    }

    #[test]
    fn a_bound_divides_keys_as_the_prefix_divides_tuples(columns in key_columns()) {
        let keys = encode_keys(&columns);
        for count in 0..=columns.len() {
            for end in 0..keys.len() {
                let values = prefix(&columns, end, count);
                let (before, after) = (Bound::before(&values), Bound::after(&values));
                for row in 0..keys.len() {
                    let order = tuple(&columns[..count], row).cmp(&tuple(&columns[..count], end));
                    let key = keys.value(row);
                    prop_assert_eq!(before.lies_before(key), order.is_ge());
                    prop_assert_eq!(after.lies_before(key), order.is_gt());
                    for split in 0..=key.len() {
                        let (head, tail) = key.split_at(split);
                        prop_assert_eq!(before.within(head).lies_before(tail), order.is_ge());
                        prop_assert_eq!(after.within(head).lies_before(tail), order.is_gt());
                    }
                }
            }
        }
    }

    #[test]
    fn a_lesser_bound_lies_before_all_that_a_greater_does(
        keys in vec(vec(0..3u8, 0..4), 1..8),
        past in vec(any::<bool>(), 8)
    ) {
        let bounds: Vec<Bound> = keys
            .iter()
            .zip(past)
            .map(|(key, past)| {
                let prefix: [ArrayRef; 1] = [Arc::new(StringArray::from(vec![
                    String::from_utf8(key.clone()).expect("ASCII"),
                ]))];
                if past { Bound::after(&prefix) } else { Bound::before(&prefix) }
            })
            .chain(keys.iter().map(|key| Bound::at_key(key)))
            .chain(keys.iter().map(|key| Bound::past_key(key)))
            .collect();
        for (lesser, greater) in bounds.iter().flat_map(|a| bounds.iter().map(move |b| (a, b))) {
            prop_assert_eq!(lesser.cmp(greater), greater.cmp(lesser).reverse());
            prop_assert_eq!(lesser == greater, lesser.cmp(greater).is_eq());
            for key in &keys {
                if lesser <= greater && greater.lies_before(key) {
                    prop_assert!(lesser.lies_before(key));
                }
            }
        }
    }

    #[test]
    fn a_bound_at_a_key_divides_by_byte_order(
        keys in vec(vec(prop_oneof![0..3u8, any::<u8>()], 0..4), 1..8)
    ) {
        for bound in &keys {
            for key in &keys {
                prop_assert_eq!(Bound::at_key(bound).lies_before(key), key >= bound);
                prop_assert_eq!(Bound::past_key(bound).lies_before(key), key > bound);
            }
        }
    }

    #[test]
    fn a_separator_is_the_shortest_prefix_that_separates(
        mut keys in vec(vec(0..3u8, 0..5), 2)
    ) {
        keys.sort();
        let (previous, first) = (&keys[0][..], &keys[1][..]);
        let separator = separator(previous, first);
        prop_assert!(first.starts_with(separator));
        if previous == first {
            prop_assert_eq!(separator, first);
        } else {
            prop_assert!(previous < separator && separator <= first);
            prop_assert!(&separator[..separator.len() - 1] <= previous, "it could be shorter");
        }
    }

    #[test]
    fn damaged_keys_decode_or_fail_but_never_panic(
        columns in key_columns(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let types = types(&columns);
        let mut bytes = encode_keys(&columns).value(0).to_vec();
        if bytes.is_empty() {
            bytes.push(PRESENT);
        }
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        let keys = Keys::from_iter([&bytes]);
        for position in 0..types.len() {
            if let Ok(column) = decode_column(&keys, &types, position) {
                prop_assert_eq!(column.len(), 1);
            }
            let _ = decode_values(&[&bytes], &types[position]);
        }
    }
}

/// Byte strings of one length, or of several.
fn byte_strings() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let byte = prop_oneof![Just(0x00u8), Just(0x01), Just(0x02), Just(0xff), any::<u8>()];
    let of_one_length = (0..20usize, byte.clone()).prop_flat_map(|(length, first)| {
        vec(vec(prop_oneof![Just(first), any::<u8>()], length), 0..12)
    });
    prop_oneof![of_one_length, vec(vec(byte, 0..20), 0..12)]
}

proptest! {
    #[test]
    fn keys_of_one_length_and_of_several_are_those_that_were_put_in(
        strings in byte_strings(),
        others in byte_strings(),
        picks in vec((any::<bool>(), any::<prop::sample::Index>()), 0..20),
        range in any::<(prop::sample::Index, prop::sample::Index)>(),
    ) {
        let (keys, other) = (Keys::from_iter(&strings), Keys::from_iter(&others));
        prop_assert!(keys.iter().eq(strings.iter().map(|string| &string[..])));
        let is_even = strings.windows(2).all(|two| two[0].len() == two[1].len());
        prop_assert_eq!(keys.width().is_some(), is_even);
        let offsets = std::iter::once(0)
            .chain(strings.iter().scan(0, |end, string| { *end += string.len() as i32; Some(*end) }));
        let by_offsets = Keys::new(offsets.collect(), strings.concat());
        prop_assert_eq!(&by_offsets, &keys);
        prop_assert_eq!(by_offsets.width().is_some(), is_even);

        let (a, b) = (range.0.index(strings.len() + 1), range.1.index(strings.len() + 1));
        let range = a.min(b)..a.max(b);
        let slice = keys.slice(range.start, range.len());
        prop_assert!(slice.iter().eq(strings[range.clone()].iter().map(|string| &string[..])));
        prop_assert_eq!(slice.bytes(), strings[range.clone()].concat().len());
        let mut words = vec![1; range.len()];
        keys.leading_words(range.start, &mut words);
        prop_assert!(words.into_iter().eq(slice.iter().map(leading_word)));
        prop_assert_eq!(keys.bytes_in(range), slice.bytes());

        let of_part = |(is_other, pick): &(bool, prop::sample::Index)| {
            let of = if *is_other { &others } else { &strings };
            (!of.is_empty()).then(|| Pick::new(usize::from(*is_other), pick.index(of.len().max(1))))
        };
        let picks: Vec<Pick> = picks.iter().filter_map(of_part).collect();
        let expected: Vec<&[u8]> =
            picks.iter().map(|pick| &[&strings, &others][pick.part()][pick.row()][..]).collect();
        let parts = [&keys, &other];
        prop_assert!(Keys::interleave(&parts, &picks).iter().eq(expected.iter().copied()));
        prop_assert_eq!(Keys::picked_bytes(&parts, &picks), expected.concat().len());
        let taken: Vec<u32> =
            picks.iter().filter(|pick| pick.part() == 0).map(|pick| pick.row() as u32).collect();
        let expected = taken.iter().map(|&row| &strings[row as usize][..]);
        prop_assert!(keys.take(&taken).iter().eq(expected));
    }

    #[test]
    fn words_of_keys_order_as_they_do(left in vec(any::<u8>(), 0..20), cut in 0..20usize, right in vec(any::<u8>(), 0..20)) {
        // Many begin alike.
        let right = [&left[..cut.min(left.len())], &right[..]].concat();
        for (left, right) in [(&left, &right), (&right, &left)] {
            let words = leading_word(left).cmp(&leading_word(right));
            prop_assert!(words.is_eq() || words == left.cmp(right));
            if left.len() == right.len() && left.len() <= 16 {
                prop_assert_eq!(words, left.cmp(right));
            }
        }
    }

    #[test]
    fn columns_of_keys_of_one_length_read_as_they_do_beside_a_longer_key(
        strings in byte_strings(),
        types in vec(data_type(), 1..4),
    ) {
        let Some(first) = strings.first() else { return Ok(()) };
        // What follows a column is not looked at.
        let longer = [&first[..], &[0]].concat();
        let uneven = Keys::from_iter(strings.iter().chain([&longer]));
        for position in 0..types.len() {
            let even = decode_column(&Keys::from_iter(&strings), &types, position);
            let beside = decode_column(&uneven, &types, position);
            prop_assert_eq!(even.is_ok(), beside.is_ok());
            if let (Ok(even), Ok(beside)) = (even, beside) {
                for row in 0..strings.len() {
                    prop_assert_eq!(cell(&even, row), cell(&beside, row));
                }
            }
        }
    }
}

/// Sorted byte strings that begin alike, many of them more than once.
fn sorted_keys() -> impl Strategy<Value = Keys> {
    let byte = prop_oneof![Just(0x00u8), Just(0x01), Just(0x7f), Just(0xff), any::<u8>()];
    let of_length = |bytes: std::ops::Range<usize>| vec(byte.clone(), bytes);
    (of_length(0..6), vec(of_length(0..3), 1..4), vec((0..4usize, of_length(0..11)), 0..400))
        .prop_map(|(shared, middles, rests)| {
            let key = |(middle, rest): (usize, Vec<u8>)| {
                [shared.clone(), middles[middle % middles.len()].clone(), rest].concat()
            };
            let mut keys: Vec<Vec<u8>> = rests.into_iter().map(key).collect();
            keys.sort_unstable();
            Keys::from_iter(keys)
        })
}

proptest! {
    #[test]
    fn fences_find_what_a_look_at_every_key_finds(
        keys in sorted_keys(),
        others in vec(vec(any::<u8>(), 0..12), 4),
        picks in vec((any::<prop::sample::Index>(), 0..12usize), 8),
    ) {
        let fences = KeyFences::new(&keys);
        let picked = picks.iter().filter(|_| !keys.is_empty()).map(|(pick, length)| {
            let key = keys.value(pick.index(keys.len()));
            key[..key.len().min(*length)].to_vec()
        });
        for bytes in picked.chain(keys.iter().step_by(37).map(<[u8]>::to_vec)).chain(others) {
            let past_prefix = {
                let mut encoded = vec![1];
                put_bytes(&mut encoded, &bytes);
                Bound::decode(&mut Cursor::new(&encoded, "bound")).unwrap()
            };
            for bound in [Bound::at_key(&bytes), Bound::past_key(&bytes), past_prefix] {
                let before = keys.iter().filter(|key| !bound.lies_before(key)).count();
                let mut compared = 0;
                prop_assert_eq!(fences.rank(&keys, &bound, &mut compared), before);
            }
            let last = keys.iter().rposition(|key| key == bytes);
            prop_assert_eq!(fences.last(&keys, &bytes, &mut 0), last);
        }
    }

    #[test]
    fn searches_that_are_done_together_find_what_each_finds_alone(
        lists in vec(sorted_keys(), 0..6),
        others in vec(vec(any::<u8>(), 0..6), 3),
    ) {
        let fences: Vec<KeyFences> = lists.iter().map(KeyFences::new).collect();
        let keys = lists.iter().flat_map(|keys| keys.iter().step_by(31).map(<[u8]>::to_vec));
        let bounds: Vec<Bound> =
            keys.chain(others).flat_map(|key| [Bound::at_key(&key), Bound::past_key(&key)]).collect();
        let each = || bounds.iter().flat_map(|bound| fences.iter().zip(&lists).map(move |of| (bound, of)));
        let mut compared_alone = 0;
        let alone: Vec<usize> =
            each().map(|(bound, (fences, keys))| fences.rank(keys, bound, &mut compared_alone)).collect();
        let mut together: Vec<_> =
            each().map(|(bound, (fences, keys))| fences.search(keys, bound)).collect();
        let mut compared = 0;
        search_together(&mut together, &mut compared);
        prop_assert_eq!(together.iter().map(|search| search.rank()).collect::<Vec<_>>(), alone);
        prop_assert_eq!(compared, compared_alone);
    }
}

/// Sorted keys, enough for fences of several levels: numbers of two to eight bytes, two of them, or texts. They lie
/// evenly or far apart at one end, and some come many times.
fn many_keys() -> impl Strategy<Value = Keys> {
    let len = prop_oneof![1_000..3_000u64, 16_000..18_000u64];
    let first = prop_oneof![Just(0), any::<u64>(), Just(u64::MAX - 10_000)];
    (len, 0..4u32, 1..200u64, first, 0..5usize).prop_map(|(len, power, times, first, shape)| {
        let number = |at: u64| first.saturating_add((at / times).pow(power));
        let numbers: Vec<u64> = (0..len).map(number).collect();
        let mut keys: Vec<Vec<u8>> = numbers
            .iter()
            .map(|number| match shape {
                0 => (*number as u16).to_be_bytes().to_vec(),
                1 => (*number as u32).to_be_bytes().to_vec(),
                2 => [&[1], &number.to_be_bytes()[..]].concat(),
                3 => [number.to_be_bytes(), (number % 7).to_be_bytes()].concat(),
                _ => number.to_string().into_bytes(),
            })
            .collect();
        keys.sort_unstable();
        Keys::from_iter(keys)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn fences_of_several_levels_find_what_a_look_at_every_key_finds(
        keys in many_keys(),
        picks in vec((any::<prop::sample::Index>(), 0..17usize, any::<u8>()), 12),
    ) {
        let fences = KeyFences::new(&keys);
        for (pick, length, last) in picks {
            let key = keys.value(pick.index(keys.len()));
            let cut = key[..key.len().min(length)].to_vec();
            let beside = [&cut[..cut.len().saturating_sub(1)], &[last]].concat();
            for bytes in [key.to_vec(), cut, beside] {
                let mut encoded = vec![1];
                put_bytes(&mut encoded, &bytes);
                let past_prefix = Bound::decode(&mut Cursor::new(&encoded, "bound")).unwrap();
                for bound in [Bound::at_key(&bytes), Bound::past_key(&bytes), past_prefix] {
                    let before = keys.iter().take_while(|key| !bound.lies_before(key)).count();
                    let mut compared = 0;
                    prop_assert_eq!(fences.rank(&keys, &bound, &mut compared), before);
                    let words_tell_all = keys.width().is_some_and(|width| width <= 8);
                    prop_assert!(compared <= 9 || !words_tell_all, "{} keys", compared);
                }
                let last = keys.iter().rposition(|key| key == bytes);
                prop_assert_eq!(fences.last(&keys, &bytes, &mut 0), last);
            }
        }
    }
}

#[test]
fn a_search_by_fences_compares_few_keys() {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..100_000).map(|n| n * 3)));
    let keys = encode_keys(&[numbers]);
    let fences = KeyFences::new(&keys);
    assert!(fences.allocated_bytes() < 100_000 / 7);
    for number in (0..100_000).step_by(997) {
        let mut compared = 0;
        assert_eq!(fences.last(&keys, keys.value(number), &mut compared), Some(number));
        assert!(compared <= 8, "{compared} keys of 100,000");
    }
}

#[test]
fn a_null_at_the_end_of_an_upper_bound_covers_the_shorter_keys() {
    let a: ArrayRef = Arc::new(Int64Array::from(vec![7]));
    let null = new_null_array(&DataType::Int64, 1);
    let one: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let key = |columns: &[&ArrayRef]| {
        let columns: Vec<ArrayRef> = columns.iter().map(|column| (*column).clone()).collect();
        encode_keys(&columns).value(0).to_vec()
    };
    let after = Bound::after(&[a.clone(), null.clone()]);
    assert!(!after.lies_before(&key(&[&a, &null, &null])));
    assert!(!after.lies_before(&key(&[&a, &null, &one])));
    assert!(after.lies_before(&key(&[&a, &one, &null])));
}

#[test]
fn zeros_are_one_key_and_so_are_nans() {
    let floats: ArrayRef = Arc::new(arrow_array::Float64Array::from(vec![
        0.0,
        -0.0,
        f64::NAN,
        -f64::NAN,
        f64::INFINITY,
    ]));
    let keys = encode_keys(&[floats]);
    assert_eq!(keys.value(0), keys.value(1));
    assert_eq!(keys.value(2), keys.value(3));
    assert!(keys.value(4) < keys.value(2));
}

#[test]
fn the_bytes_of_a_key_are_those_drawn_in_the_format() {
    let columns: [ArrayRef; 4] = [
        Arc::new(Int64Array::from(vec![-2])),
        Arc::new(StringArray::from(vec!["a\0\u{1}"])),
        new_null_array(&DataType::Boolean, 1),
        Arc::new(arrow_array::Float32Array::from(vec![1.0])),
    ];
    let expected = [
        &[0x01, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe][..],
        &[0x01, b'a', 0x01, 0x01, 0x01, 0x02, 0x00],
        &[0x00],
        &[0x01, 0xbf, 0x80, 0x00, 0x00],
    ]
    .concat();
    assert_eq!(encode_keys(&columns).value(0), expected);
    assert_eq!(cell(&columns[1], 0), Cell::Str("a\0\u{1}".into()));
}

#[test]
fn malformed_keys_are_errors() {
    let string = &[DataType::Utf8][..];
    let cases: [(&[u8], &[DataType]); 6] = [
        (&[0x02], string),
        (&[0x01, b'a'], string),
        (&[0x01, 0x01, 0x03, 0x00], string),
        (&[0x01, 0x01, 0x00], string),
        (&[0x01, 0xff, 0x00], string),
        (&[0x01, 0x02], &[DataType::Boolean]),
    ];
    for (key, types) in cases {
        let keys = Keys::from_iter([key]);
        assert!(decode_column(&keys, types, 0).is_err(), "{key:?} decodes");
    }
    assert!(decode_values(&[&[0x00, 0x00]], &DataType::Utf8).is_err(), "one byte too many");
    assert!(decode_values(&[&[]], &DataType::Utf8).is_err(), "no byte at all");
}

#[test]
fn columns_of_picked_keys_are_those_of_the_keys_copied() {
    let int = |from: i64| Arc::new(Int64Array::from_iter_values(from..from + 50)) as ArrayRef;
    let short = |from: i32| Arc::new(Int32Array::from_iter_values(from..from + 50)) as ArrayRef;
    let all_null = || new_null_array(&DataType::Int64, 50);
    let texts = || Arc::new(StringArray::from(vec!["abc"; 50]));
    // Which columns are decoded, of which keys.
    let tables: [(&[usize], Vec<ArrayRef>); 7] = [
        (&[0], vec![int(-20)]),
        (&[0], vec![short(-20)]),
        (&[0, 1], vec![short(3), int(-5)]),
        (&[0, 1], vec![int(-5), int(90)]),
        // Longer than keys are for which it is worth it; keys of one length with nulls, and with texts.
        (&[], vec![int(1), int(2), int(3)]),
        (&[], vec![all_null(), int(1)]),
        (&[0], vec![short(1), texts()]),
    ];
    for (decoded, columns) in tables {
        let (keys, types) = (encode_keys(&columns), types(&columns));
        let parts = [&keys.slice(0, 20), &keys.slice(20, 30)];
        let picks: Vec<Pick> = (0..800)
            .map(|at| if at % 3 == 0 { Pick::new(1, at % 30) } else { Pick::new(0, at % 20) })
            .collect();
        let copied = Keys::interleave(&parts, &picks);
        for position in 0..types.len() {
            let found = decode_picked(&parts, &picks, &types, position);
            assert_eq!(found.is_some(), decoded.contains(&position), "{types:?}, {position}");
            if let Some(found) = found {
                assert_eq!(&found, &decode_column(&copied, &types, position).unwrap());
            }
        }
    }
    // A column was added to the key between the parts.
    let parts = [&encode_keys(&[int(0)]), &encode_keys(&[int(0), int(0)])];
    let types = [DataType::Int64, DataType::Int64];
    assert!(decode_picked(&parts, &[Pick::new(0, 1), Pick::new(1, 1)], &types, 0).is_none());
}

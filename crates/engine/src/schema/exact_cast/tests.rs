use arrow_array::types::{Int8Type, Int64Type, UInt32Type};
use arrow_array::{
    BinaryArray, BooleanArray, Date32Array, Date64Array, Decimal128Array, DictionaryArray,
    Float32Array, Float64Array, Int8Array, Int32Array, Int64Array, LargeBinaryArray,
    LargeStringArray, StringArray, StringViewArray, TimestampMicrosecondArray,
    TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray, UInt64Array,
};
use arrow_buffer::Buffer;
use arrow_cast::display::array_value_to_string;

use super::*;

const DAY_MS: i64 = 86_400_000;

/// A case: values, the type wanted, and what becomes of each value.
type Case = (ArrayRef, DataType, Vec<Fate>);

#[derive(Debug, PartialEq)]
enum Fate {
    Kept,
    Refused,
}
use Fate::{Kept, Refused};

fn timestamp(unit: TimeUnit) -> DataType {
    DataType::Timestamp(unit, None)
}

fn decimals(values: &[i128], precision: u8, scale: i8) -> ArrayRef {
    let values = Decimal128Array::from(values.to_vec());
    Arc::new(values.with_precision_and_scale(precision, scale).unwrap())
}

fn floats(values: &[f64]) -> ArrayRef {
    Arc::new(Float64Array::from(values.to_vec()))
}

fn integers(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn numbers() -> Vec<Case> {
    let halves: ArrayRef = Arc::new(Float32Array::from(vec![1.0, 0.5]));
    let largest: ArrayRef = Arc::new(UInt64Array::from(vec![0, u64::MAX]));
    let some: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(128)]));
    let packed = DictionaryArray::<Int8Type>::try_new(vec![0, 1, 1].into(), floats(&[2.0, 2.5]));
    vec![
        (
            floats(&[0.1, 1e300, -1e300, 3.5e38, f64::INFINITY, f64::NAN, 1e-300, -0.0]),
            DataType::Float32,
            vec![Kept, Refused, Refused, Refused, Kept, Kept, Kept, Kept],
        ),
        (floats(&[65504.0, 65536.0, 0.1]), DataType::Float16, vec![Kept, Refused, Kept]),
        (halves.clone(), DataType::Float64, vec![Kept, Kept]),
        (halves, DataType::Int64, vec![Kept, Refused]),
        (
            floats(&[1.0, 1.5, -0.0, f64::NAN, f64::INFINITY, 9.2e18, 9.3e18]),
            DataType::Int64,
            vec![Kept, Refused, Kept, Refused, Refused, Kept, Refused],
        ),
        (floats(&[255.0, 256.0, -1.0]), DataType::UInt8, vec![Kept, Refused, Refused]),
        (integers(&[127, 128, -128, -129]), DataType::Int8, vec![Kept, Refused, Kept, Refused]),
        (integers(&[0, -1, i64::MAX]), DataType::UInt64, vec![Kept, Refused, Kept]),
        (largest.clone(), DataType::Int64, vec![Kept, Refused]),
        (largest, DataType::Float64, vec![Kept, Refused]),
        (integers(&[1 << 53, (1 << 53) + 1]), DataType::Float64, vec![Kept, Refused]),
        (integers(&[1 << 24, (1 << 24) + 1]), DataType::Float32, vec![Kept, Refused]),
        (some, DataType::Int8, vec![Kept, Kept, Refused]),
        (Arc::new(packed.unwrap()), DataType::Int32, vec![Kept, Refused, Refused]),
    ]
}

fn decimal_numbers() -> Vec<Case> {
    let eighths = || decimals(&[125, 120, -1], 10, 2);
    vec![
        (eighths(), DataType::Decimal128(10, 1), vec![Refused, Kept, Refused]),
        (eighths(), DataType::Decimal128(12, 4), vec![Kept, Kept, Kept]),
        (decimals(&[99_999, 1], 5, 2), DataType::Decimal128(4, 2), vec![Refused, Kept]),
        (decimals(&[500, 550, -100], 10, 2), DataType::Int8, vec![Kept, Refused, Kept]),
        (decimals(&[i128::from(i64::MAX) + 1, 7], 38, 0), DataType::Int64, vec![Refused, Kept]),
        (integers(&[999, 1000]), DataType::Decimal128(5, 2), vec![Kept, Refused]),
    ]
}

fn times() -> Vec<Case> {
    let nanoseconds =
        |values: &[i64]| -> ArrayRef { Arc::new(TimestampNanosecondArray::from(values.to_vec())) };
    let seconds =
        |values: &[i64]| -> ArrayRef { Arc::new(TimestampSecondArray::from(values.to_vec())) };
    let milliseconds =
        |values: &[i64]| -> ArrayRef { Arc::new(Date64Array::from(values.to_vec())) };
    let days: ArrayRef = Arc::new(Date32Array::from(vec![0, -1, 2_932_896]));
    let microseconds: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![0, 1, i64::MAX]));
    let zoned = TimestampMillisecondArray::from(vec![1000, 1001]).with_timezone("UTC");
    let elsewhere = DataType::Timestamp(TimeUnit::Second, Some("America/New_York".into()));
    vec![
        (
            nanoseconds(&[1000, 1, 999, -1, -1000]),
            timestamp(TimeUnit::Microsecond),
            vec![Kept, Refused, Refused, Refused, Kept],
        ),
        (
            seconds(&[1, i64::MAX, i64::MIN]),
            timestamp(TimeUnit::Nanosecond),
            vec![Kept, Refused, Refused],
        ),
        (Arc::new(zoned), elsewhere, vec![Kept, Refused]),
        (
            milliseconds(&[DAY_MS, -DAY_MS, 1, -1, i64::MAX]),
            DataType::Date32,
            vec![Kept, Kept, Refused, Refused, Refused],
        ),
        // Arrow multiplies these without a check.
        (milliseconds(&[1, i64::MAX]), timestamp(TimeUnit::Microsecond), vec![Kept, Refused]),
        (milliseconds(&[1, i64::MAX]), timestamp(TimeUnit::Nanosecond), vec![Kept, Refused]),
        (milliseconds(&[1000, 1]), timestamp(TimeUnit::Second), vec![Kept, Refused]),
        (days.clone(), timestamp(TimeUnit::Second), vec![Kept, Kept, Kept]),
        (days, timestamp(TimeUnit::Nanosecond), vec![Kept, Kept, Refused]),
        // Arrow gives up on a column with a year that its calendar lacks.
        (microseconds, DataType::Date32, vec![Kept, Refused, Refused]),
        (seconds(&[86_400, i64::MAX, 1]), DataType::Date32, vec![Kept, Refused, Refused]),
    ]
}

#[test]
fn a_cast_keeps_a_value_or_tells_its_row() {
    for (values, to, fates) in numbers().into_iter().chain(decimal_numbers()).chain(times()) {
        let from = values.data_type();
        let cast = exact_cast(&values, &to, "x").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(cast.values.data_type(), &to);
        let unfit: Vec<usize> = (0..fates.len()).filter(|&row| fates[row] == Refused).collect();
        assert_eq!(cast.unfit, unfit, "{from} to {to}");
        let back = cast_with_options(&cast.values, from, &CastOptions::default());
        for row in (0..fates.len()).filter(|row| !unfit.contains(row)) {
            assert_eq!(values.is_null(row), cast.values.is_null(row), "{from} to {to}, row {row}");
            if !to.is_floating() && !from.is_floating() {
                let text = |array: &ArrayRef| array_value_to_string(array, row).unwrap();
                assert_eq!(text(&values), text(back.as_ref().unwrap()), "{from} to {to}");
            }
        }
    }
}

#[test]
fn values_of_another_kind_are_no_values_of_a_column() {
    let text: ArrayRef = Arc::new(StringArray::from(vec!["1"]));
    let truths: ArrayRef = Arc::new(BooleanArray::from(vec![true]));
    let naive: ArrayRef = Arc::new(TimestampSecondArray::from(vec![0]));
    let zoned: ArrayRef = Arc::new(TimestampSecondArray::from(vec![0]).with_timezone("UTC"));
    for (values, to) in [
        (&text, DataType::Int64),
        (&truths, DataType::Int64),
        (&integers(&[1]), DataType::Boolean),
        (&integers(&[1]), DataType::Utf8),
        (&integers(&[1]), timestamp(TimeUnit::Second)),
        (&floats(&[1.5]), DataType::Decimal128(10, 2)),
        (&decimals(&[15], 2, 1), DataType::Float64),
        (&zoned, timestamp(TimeUnit::Second)),
        (&naive, zoned.data_type().clone()),
        (&zoned, DataType::Date32),
    ] {
        let error = exact_cast(values, &to, "x").err().expect("refused").to_string();
        let from = values.data_type();
        let (stores, given) = (type_name(&to), type_name(from));
        let said = format!("column \"x\" stores {stores}, but {given} was given");
        assert!(error.starts_with(&said), "{error}");
        assert_eq!(error.contains("zone"), from.is_temporal(), "{error}");
    }
}

#[test]
fn a_null_among_the_values_of_a_dictionary_is_null() {
    let names: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
    for (values, to) in [(names, DataType::Utf8), (numbers, DataType::Int64)] {
        let keys = vec![Some(0), Some(1), None].into();
        let packed = DictionaryArray::<UInt32Type>::try_new(keys, values).unwrap();
        let cast = exact_cast(&(Arc::new(packed) as ArrayRef), &to, "x").unwrap();
        assert!(cast.unfit.is_empty());
        assert_eq!([0, 1, 2].map(|row| cast.values.is_null(row)), [false, true, true]);
    }
}

#[test]
fn more_text_than_one_array_holds_is_an_error_that_says_so() {
    // They share one text, so the test needs no such memory.
    let (text, rows) = ("x".repeat(1 << 20), 2049);
    let values = Arc::new(StringArray::from(vec![text.as_str()]));
    let keys = vec![0; rows].into();
    let packed = DictionaryArray::<UInt32Type>::try_new(keys, values).unwrap();
    let views = StringViewArray::from(vec![text.as_str()]);
    let views = StringViewArray::new(
        vec![views.views()[0]; rows].into(),
        views.data_buffers().to_vec(),
        None,
    );
    let large = LargeBinaryArray::new(
        OffsetBuffer::new(vec![0, 3 << 30].into()),
        Buffer::from_vec(vec![0u8; 3 << 30]),
        None,
    );
    let (packed, views): (ArrayRef, ArrayRef) = (Arc::new(packed), Arc::new(views));
    let large: ArrayRef = Arc::new(large);
    for (values, to) in
        [(packed, DataType::Utf8), (views, DataType::Utf8), (large, DataType::Binary)]
    {
        let error = exact_cast(&values, &to, "x").err().expect("refused").to_string();
        assert!(error.contains("\"x\" have more than 2 GiB in total"), "{error}");
    }
}

#[test]
fn of_a_dictionary_only_what_rows_have_is_looked_at() {
    // An entry of three GiB, which no row has, and more entries than there are codes of 31 bits.
    let end = 3 << 30;
    let offsets = OffsetBuffer::new(vec![0, end, end + 2].into());
    let texts = Buffer::from_vec(vec![b'x'; end as usize + 2]);
    let texts = Arc::new(LargeStringArray::new(offsets, texts, None));
    let by_code: ArrayRef = Arc::new(DictionaryArray::<UInt32Type>::new(vec![1; 10].into(), texts));
    let cast = exact_cast(&by_code, &DataType::Utf8, "x").unwrap();
    assert_eq!(cast.values.as_ref(), &StringArray::from(vec!["xx"; 10]) as &dyn Array);

    let entries = Arc::new(Int8Array::from(vec![7; (1 << 31) + 1]));
    let by_code: ArrayRef =
        Arc::new(DictionaryArray::<Int64Type>::new(vec![1 << 31; 3].into(), entries));
    let cast = exact_cast(&by_code, &DataType::Int64, "x").unwrap();
    assert_eq!(cast.values.as_ref(), &Int64Array::from(vec![7; 3]) as &dyn Array);
    assert!(cast.unfit.is_empty());
}

#[test]
fn a_slice_from_behind_two_gib_of_large_values_is_as_good_as_others() {
    let end = 3 << 30;
    let offsets = OffsetBuffer::new(vec![0, end - 2, end].into());
    let values = LargeBinaryArray::new(offsets, Buffer::from_vec(vec![0u8; end as usize]), None);
    let last: ArrayRef = Arc::new(values.slice(1, 1));
    let cast = exact_cast(&last, &DataType::Binary, "x").unwrap();
    assert_eq!(cast.values.as_ref(), &BinaryArray::from(vec![&b"\0\0"[..]]) as &dyn Array);
}

#[test]
fn every_nan_comes_over_as_the_one_that_keys_have() {
    let bits = [0xfff8 << 48, (0x7ff8 << 48) | 0x123, 0x7ff8 << 48, 1 << 63, 0x3ff8 << 48];
    let values = floats(&bits.map(f64::from_bits));
    let nan = f64::NAN.to_bits();
    let cast = exact_cast(&values, &DataType::Float64, "x").unwrap();
    let found = cast.values.as_primitive::<Float64Type>().values();
    assert_eq!(
        found.iter().map(|value| value.to_bits()).collect::<Vec<_>>(),
        [nan, nan, nan, 1 << 63, 0x3ff8 << 48]
    );
    let narrow = exact_cast(&values, &DataType::Float32, "x").unwrap().values;
    let found = narrow.as_primitive::<Float32Type>().values();
    assert!(found[..3].iter().all(|value| value.to_bits() == f32::NAN.to_bits()));
    let same = exact_cast(&narrow, &DataType::Float32, "x").unwrap().values;
    assert!(Arc::ptr_eq(&same, &narrow), "a column without another NaN is not copied");
}

//! Whether the text of a value says what a column stores, and no more.
//!
//! The parsers of Arrow drop what a type has no room for: fractions of whole numbers, digits behind those of a
//! decimal or a time, the time of day of a date, the offset of a time where the column has no zone, the last digit of
//! bytes in hex. A number beyond all floats becomes infinite, a leap second the one before or after it, and a whole
//! number of JSON that no integer can be parsed from goes through a float.

use arrow_schema::{DataType, Field, Schema, TimeUnit};

use crate::files::records::Syntax;
use crate::files::time_text::has_offset;

/// The columns of which a text may say more than they store, as text.
///
/// Looking at them costs a second parse, so a text without the signs of such values, a point or an exponent in a
/// number or a time of day, has none.
pub fn doubtful(schema: &Schema, text: &[u8], syntax: Syntax) -> Vec<Field> {
    let signs = Signs::of(text);
    // In CSV, a whole number has to look like one, and a time is none.
    let has_rounded =
        syntax == Syntax::Jsonl && (signs.has_point || signs.has_exponent || signs.has_many_digits);
    let is_doubtful = |data_type: &DataType| match data_type {
        whole if whole.is_integer() => has_rounded,
        float if float.is_floating() => signs.has_exponent,
        DataType::Timestamp(_, zone) => {
            has_rounded
                || signs.has_point
                || signs.has_leap_second
                || (zone.is_none() && signs.has_offset)
        }
        decimal if decimal.is_decimal() => signs.has_point || signs.has_exponent,
        DataType::Date32 => has_rounded || signs.has_time,
        DataType::Binary => syntax == Syntax::Jsonl,
        _ => false,
    };
    let fields = schema.fields().iter().filter(|field| is_doubtful(field.data_type()));
    fields.map(|field| Field::new(field.name(), DataType::Utf8, true)).collect()
}

/// Whether a column of this type holds all that a text says. What is no value at all is not this question.
pub fn holds(to: &DataType, text: &str) -> bool {
    match to {
        whole if whole.is_integer() => is_kept(text),
        DataType::Float64 => is_finite(text.parse::<f64>().ok(), text),
        float if float.is_floating() => is_finite(text.parse::<f32>().ok().map(f64::from), text),
        DataType::Decimal128(_, scale) => places(text) <= i64::from(*scale),
        // A number counts the column's unit.
        DataType::Timestamp(..) if is_number(text) => {
            is_kept(text) && whole(text).is_some_and(|whole| i64::try_from(whole).is_ok())
        }
        DataType::Timestamp(unit, zone) => {
            time_places(text) <= places_of(*unit)
                && (zone.is_some() || !has_offset(text))
                && !has_leap_second(text)
        }
        DataType::Date32 if is_number(text) => is_kept(text),
        DataType::Date32 => {
            let time = text.split_once(['T', 't', ' ']).map_or("", |(_, time)| time);
            !time.contains(|digit: char| ('1'..='9').contains(&digit)) && !has_offset(text)
        }
        _ => true,
    }
}

/// [`holds`], of a text in a file, where bytes are in hex.
pub fn holds_from_file(to: &DataType, text: &str) -> bool {
    match to {
        DataType::Binary => text.len().is_multiple_of(2),
        to => holds(to, text),
    }
}

/// Whether a whole number comes through the parser of JSON, which makes a float of what is no integer of 64 bits as it is
/// written.
fn is_kept(number: &str) -> bool {
    number.parse::<i64>().is_ok()
        || number.parse::<u64>().is_ok()
        || whole(number)
            .is_some_and(|whole| number.parse::<f64>().is_ok_and(|float| float as i128 == whole))
}

/// The whole number of at most 38 digits that a number is.
fn whole(number: &str) -> Option<i128> {
    let (digits, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (before, behind) = digits.split_once('.').unwrap_or((digits, ""));
    let behind = behind.trim_end_matches('0');
    let exponent = exponent.parse::<i64>().ok()? - behind.len() as i64;
    let digits: i128 = format!("{before}{behind}").parse().ok()?;
    if digits == 0 {
        return Some(0);
    }
    let power = 10_i128.checked_pow(u32::try_from(exponent.unsigned_abs()).ok()?)?;
    match exponent {
        0.. => digits.checked_mul(power),
        _ => (digits % power == 0).then(|| digits / power),
    }
}

fn is_number(text: &str) -> bool {
    text.parse::<f64>().is_ok()
}

/// Whether the seconds of a time are 60. No minute is, and no offset has seconds.
fn has_leap_second(time: &str) -> bool {
    time.contains(":60")
}

/// Whether a float holds another value than a whole number that is written out. One that was written from a float has
/// no more digits than that has.
pub fn is_rounded(number: &str) -> bool {
    let is_whole = number.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit());
    is_whole && number.parse::<f64>().is_ok_and(|float| float.to_string() != number)
}

/// What there is to do about a text that a column does not hold, if there is more to say than that.
pub fn hint(to: &DataType, text: &str) -> &'static str {
    match to {
        DataType::Timestamp(_, None) if has_offset(text) => {
            "; the column has no time zone: remove the offset, or use a column with a time zone"
        }
        DataType::Timestamp(..) if has_leap_second(text) => {
            "; leap seconds cannot be stored: use the second before or after"
        }
        DataType::Binary => "; bytes in hex have two digits each",
        _ => "",
    }
}

/// What a text has somewhere.
#[derive(Default)]
struct Signs {
    has_point: bool,
    has_exponent: bool,
    has_time: bool,
    has_offset: bool,
    has_leap_second: bool,
    /// More than every integer of 64 bits has room for.
    has_many_digits: bool,
}

impl Signs {
    fn of(text: &[u8]) -> Signs {
        let mut signs = Signs::default();
        let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
        // The digits that end here, and what stands before them.
        let (mut digits, mut before, mut previous) = (0, b'\n', b'\n');
        for (at, &byte) in text.iter().enumerate() {
            if byte.is_ascii_digit() {
                if digits == 0 {
                    before = previous;
                }
                digits += 1;
                signs.has_many_digits |= digits >= 19;
                signs.has_leap_second |=
                    digits == 2 && before == b':' && (previous, byte) == (b'6', b'0');
                previous = byte;
                continue;
            }
            let next = text.get(at + 1);
            match byte {
                b'.' => signs.has_point |= is_digit(next),
                b'e' | b'E' if digits > 0 || previous == b'.' => {
                    signs.has_exponent |= is_digit(next) || matches!(next, Some(b'+' | b'-'));
                }
                b':' => signs.has_time |= digits > 0 && is_digit(next),
                b'Z' | b'z' | b'+' => signs.has_offset |= digits > 0,
                // Behind minutes or seconds; in a date they stand elsewhere. Fractions of a second are recognised by their point.
                b'-' | b' ' => signs.has_offset |= digits >= 6 || digits > 0 && before == b':',
                _ => {}
            }
            (digits, previous) = (0, byte);
        }
        signs
    }
}

/// The digits behind the point of a number, but for zeros at its end: 2 of "1.250", 3 of "12.5e-2". Fewer than none
/// where zeros stand before the point.
fn places(number: &str) -> i64 {
    let (digits, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let behind = digits.split_once('.').map_or("", |(_, behind)| behind).len();
    let digits = digits.replace('.', "");
    let zeros = digits.len() - digits.trim_end_matches('0').len();
    if digits.trim_start_matches(['+', '-', '0']).is_empty() {
        return 0;
    }
    behind as i64 - zeros as i64 - exponent.parse::<i64>().unwrap_or(0)
}

/// Of a time those of its seconds.
fn time_places(text: &str) -> i64 {
    let behind = text.split_once('.').map_or("", |(_, behind)| behind);
    let digits = behind.trim_start_matches(|each: char| each.is_ascii_digit());
    behind[..behind.len() - digits.len()].trim_end_matches('0').len() as i64
}

fn places_of(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

/// Digits never stand for infinity.
fn is_finite(number: Option<f64>, text: &str) -> bool {
    let is_written_out = text.bytes().any(|byte| byte.is_ascii_digit());
    !(is_written_out && number.is_some_and(f64::is_infinite))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_fits_if_nothing_of_it_is_dropped() {
        let time = |unit| DataType::Timestamp(unit, None);
        let moment = |unit| DataType::Timestamp(unit, Some("UTC".into()));
        let cents = DataType::Decimal128(10, 2);
        for (to, kept, dropped) in [
            (
                DataType::Int64,
                &[
                    "1",
                    "-1",
                    "1.0",
                    "1.5e1",
                    "150e-1",
                    "0e-5",
                    "0.0",
                    "9007199254740993",
                    "9007199254740992.0",
                    "-9223372036854775808",
                    "1e18",
                ][..],
                &[
                    "1.5",
                    "-0.1",
                    "1e-1",
                    "15e-2",
                    "100.01",
                    "9007199254740993.0",
                    "9007199254740993e0",
                    "-9223372036854775809",
                    "1e400",
                ][..],
            ),
            (
                DataType::Float32,
                &["1e38", "0.1", "-3.4e38", "inf", "1e-99", "NaN"],
                &["1e39", "-1e300"],
            ),
            (DataType::Float64, &["1e300", "-inf"], &["1e309", "-1e999"]),
            (
                cents,
                &["1.25", "1.250", "125e-2", "1", "1e5", "0.000"],
                &["1.255", "1e-3", "-0.001"],
            ),
            (
                time(TimeUnit::Second),
                &["2024-01-01", "2024-01-01T00:00:00", "2024-01-01 00:00:00.000", "17", "17.0"],
                &[
                    "1e30",
                    "-1e30",
                    "9223372036854775808",
                    "9007199254740993.0",
                    "2024-01-01T23:59:60",
                    "2024-01-01 23:59:60.5",
                    "2024-01-01T00:00:00.5",
                    "17.5",
                    "2024-01-01T00:00:00Z",
                    "2024-01-01T00:00:00z",
                    "2024-01-01T00:00:00+00:00",
                    "2024-01-01T00:00:00-04:00",
                    "2024-01-01 00:00:00 -04",
                    "2024-01-01 000000-04",
                    "2024-01-01 000000 Europe/Oslo",
                    "2024-01-01 00:00:00 Europe/Oslo",
                ],
            ),
            (
                moment(TimeUnit::Microsecond),
                &[
                    "2024-01-01T00:00:00.123456+01:00",
                    "2024-01-01T00:00:00.1234560",
                    "2024-01-01T00:00:00Z",
                    "2024-01-01T00:00:00-04:00",
                ],
                &["2024-01-01T00:00:00.1234567", "2024-01-01T00:00:00.000000001Z"],
            ),
            (
                DataType::Date32,
                &["2024-01-01", "2024-01-01T00:00:00", "15706", "15706.0"],
                &[
                    "1.5",
                    "-0.5",
                    "2024-01-01T05:00:00",
                    "2024-01-01 00:00:01",
                    "2024-01-01T00:00:00+02:00",
                    "2024-01-01T00:00:00Z",
                    "2024-01-01T00:00:00 -00:00",
                ],
            ),
            (DataType::Binary, &["", "00ff"], &["0", "abc"]),
        ] {
            for text in kept {
                assert!(holds_from_file(&to, text), "{to} holds {text}");
            }
            for text in dropped {
                assert!(!holds_from_file(&to, text), "{to} does not hold {text}");
            }
            // What is dropped is not overlooked beforehand.
            let schema = Schema::new(vec![Field::new("x", to.clone(), true)]);
            for text in dropped {
                let text = match text.parse::<f64>() {
                    Ok(_) => format!("{{\"x\": {text}}}\n"),
                    Err(_) => format!("{{\"x\": {text:?}}}\n"),
                };
                let found = doubtful(&schema, text.as_bytes(), Syntax::Jsonl);
                assert_eq!(found.len(), 1, "{to}: {text}");
            }
        }
    }

    #[test]
    fn a_whole_number_is_rounded_if_the_nearest_float_is_written_in_another_way() {
        for kept in ["0", "-7", "9007199254740992", "18446744073709552000", "1.5", "1e30"] {
            assert!(!is_rounded(kept), "{kept}");
        }
        let many_digits = "9".repeat(400);
        for rounded in ["9007199254740993", "-12345678901234567891", many_digits.as_str()] {
            assert!(is_rounded(rounded), "{rounded}");
        }
    }

    #[test]
    fn ordinary_texts_are_not_parsed_twice() {
        let types = [
            DataType::Int64,
            DataType::Float64,
            DataType::Date32,
            DataType::Timestamp(TimeUnit::Second, None),
        ];
        let fields = types.iter().map(|each| Field::new(each.to_string(), each.clone(), true));
        let schema = Schema::new(fields.collect::<Vec<_>>());
        let text = br#"{"a":1, "b": "end. Next - 5", "c":"2024-01-01 00:00:00", "d": true}"#;
        let found = doubtful(&schema, text, Syntax::Jsonl);
        assert_eq!(found.iter().map(Field::name).collect::<Vec<_>>(), ["Date32"]);
        let with_fraction = br#"{"a":1.5}"#;
        assert_eq!(doubtful(&schema, with_fraction, Syntax::Jsonl).len(), 3);
        assert_eq!(doubtful(&schema, with_fraction, Syntax::Csv { separator: b',' }).len(), 1);
    }
}

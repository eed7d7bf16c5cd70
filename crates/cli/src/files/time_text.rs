//! Times as text: what a column of them holds, and whether a text has an offset from UTC.
//!
//! A time with an offset is a moment, one without is the reading of a clock somewhere. So a column of the one
//! has the time zone UTC, a column of the other has none, and a column of both stays text.

use std::ops::BitOr;

use arrow_schema::{DataType, TimeUnit};

/// Where the time of day begins, behind the date and one more character.
const TIME_AT: usize = 11;
/// "2024-01-01T00:00:00".
const SECONDS_LEN: usize = 19;
const DATE: &[u8] = b"dddd-dd-dd";
const TIME: &[u8] = b"dd:dd:dd";

/// What texts of a column have been seen to be.
#[derive(Clone, Copy, Default, PartialEq)]
struct Seen {
    dates: bool,
    moments: bool,
    clock_readings: bool,
    others: bool,
    /// The most digits behind the point of the seconds.
    digits: usize,
}

/// The type of a column with these texts, or `None` if they are not all times, or no texts at all.
pub fn time_type<'a>(texts: impl IntoIterator<Item = &'a str>) -> Option<DataType> {
    let seen = texts.into_iter().map(seen).fold(Seen::default(), BitOr::bitor);
    let unit = match seen.digits {
        0 => TimeUnit::Second,
        1..=3 => TimeUnit::Millisecond,
        4..=6 => TimeUnit::Microsecond,
        _ => TimeUnit::Nanosecond,
    };
    match seen {
        Seen { others: true, .. } => None,
        // A date is a reading of the calendar somewhere, too.
        Seen { moments: true, dates: false, clock_readings: false, .. } => {
            Some(DataType::Timestamp(unit, Some("UTC".into())))
        }
        Seen { moments: true, .. } => None,
        Seen { clock_readings: true, .. } => Some(DataType::Timestamp(unit, None)),
        Seen { dates: true, .. } => Some(DataType::Date32),
        _ => None,
    }
}

/// Whether a text that is parsed as a time, or as a date, says how far from UTC it is.
pub fn has_offset(text: &str) -> bool {
    let is_of_time = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b':' | b'.');
    let bytes = text.as_bytes();
    fits(bytes, DATE)
        && bytes.get(TIME_AT..).is_some_and(|rest| rest.iter().any(|byte| !is_of_time(byte)))
}

impl BitOr for Seen {
    type Output = Seen;

    fn bitor(self, other: Seen) -> Seen {
        Seen {
            dates: self.dates | other.dates,
            moments: self.moments | other.moments,
            clock_readings: self.clock_readings | other.clock_readings,
            others: self.others | other.others,
            digits: self.digits.max(other.digits),
        }
    }
}

fn seen(text: &str) -> Seen {
    let bytes = text.as_bytes();
    let other = Seen { others: true, ..Seen::default() };
    if !fits(bytes, DATE) {
        return other;
    }
    if bytes.len() == DATE.len() {
        return Seen { dates: true, ..Seen::default() };
    }
    if !matches!(bytes[DATE.len()], b'T' | b' ') || !fits(&bytes[TIME_AT..], TIME) {
        return other;
    }
    let rest = &bytes[SECONDS_LEN..];
    let (digits, rest) = match rest.strip_prefix(b".") {
        None => (0, rest),
        Some(behind) => {
            let digits = behind.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if !(1..=9).contains(&digits) {
                return other;
            }
            (digits, &behind[digits..])
        }
    };
    match rest {
        [] => Seen { clock_readings: true, digits, ..Seen::default() },
        offset if is_offset(offset) => Seen { moments: true, digits, ..Seen::default() },
        _ => other,
    }
}

/// "Z", "+02", "-0230" or " +02:30".
fn is_offset(text: &[u8]) -> bool {
    let text = text.strip_prefix(b" ").unwrap_or(text);
    match text {
        [b'Z' | b'z'] => true,
        [b'+' | b'-', rest @ ..] => [&b"dd"[..], b"dddd", b"dd:dd"]
            .iter()
            .any(|form| rest.len() == form.len() && fits(rest, form)),
        _ => false,
    }
}

/// Whether a text begins with a form, of which each `d` stands for a digit.
fn fits(text: &[u8], form: &[u8]) -> bool {
    let fits = |(byte, form): (&u8, &u8)| match form {
        b'd' => byte.is_ascii_digit(),
        other => byte == other,
    };
    text.len() >= form.len() && text.iter().zip(form).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_of_moments_of_clock_readings_of_dates_or_of_text() {
        let moment = |unit| Some(DataType::Timestamp(unit, Some("UTC".into())));
        let clock = |unit| Some(DataType::Timestamp(unit, None));
        let (s, ms, us, ns) =
            (TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond);
        for (texts, expected) in [
            (&["2024-01-01"][..], Some(DataType::Date32)),
            (&["2024-01-01T00:00:00"], clock(s)),
            (&["2024-01-01 00:00:00", "2024-01-01"], clock(s)),
            (&["2024-01-01T00:00:00.1", "2024-01-01T00:00:00"], clock(ms)),
            (&["2024-01-01T00:00:00.123456"], clock(us)),
            (&["2024-01-01T00:00:00.1234567"], clock(ns)),
            (&["2024-01-01T00:00:00Z"], moment(s)),
            (&["2024-01-01T00:00:00z", "2024-01-01 00:00:00 +02:00"], moment(s)),
            (&["2024-01-01T00:00:00.123-0130", "2024-01-01T00:00:00+01"], moment(ms)),
            (&["2024-01-01T00:00:00.1234567+00:00"], moment(ns)),
            // Both, or a date that says as little.
            (&["2024-01-01T00:00:00Z", "2024-01-01T00:00:00"], None),
            (&["2024-01-01T00:00:00Z", "2024-01-01"], None),
            (&["2024-01-01T00:00:00Z", "soon"], None),
            (&["2024-01-01", "17"], None),
            (&[], None),
            (&[""], None),
            (&["2024-01-01T"], None),
            (&["2024-01-01T00:00"], None),
            (&["2024-01-01T00:00:00."], None),
            (&["2024-01-01T00:00:00.1234567890"], None),
            (&["2024-01-01T00:00:00 UTC"], None),
            (&["2024-01-01T00:00:00+2"], None),
            (&["2024-01-01T00:00:00é"], None),
        ] {
            assert_eq!(time_type(texts.iter().copied()), expected, "{texts:?}");
        }
    }

    #[test]
    fn an_offset_is_what_stands_behind_the_time() {
        for text in [
            "2024-01-01T00:00:00Z",
            "2024-01-01 00:00:00.5 +02",
            "2024-01-01T000000-0400",
            "2024-01-01T00:00:00 Europe/Oslo",
            "2024-01-01T00:00:00.000000z",
        ] {
            assert!(has_offset(text), "{text}");
        }
        for text in
            ["2024-01-01", "2024-01-01T00:00:00.5", "2024-01-01 000000", "17", "-1.5e7", "x", ""]
        {
            assert!(!has_offset(text), "{text}");
        }
    }
}

//! Figures of an estimate as people read them: with the digits that the interval supports.
//!
//! An interval whose half is 0.0123 wide says nothing of the fifth decimal. So a figure has decimals down to the second digit of the
//! half width, and the ends have as many, rounded outward: what is shown holds at least as often as what was computed. What is
//! exact is shown whole if it is a whole number, else with six digits.

use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, TimeUnit};
use drillcore_sample::interval::{Interval, Method};

use crate::schema::number::{Number, is_time, values_of};

/// Digits of the half width that are shown.
const WIDTH_DIGITS: i32 = 2;
/// Digits of a number of which nothing says how many it has.
const DIGITS: i32 = 6;
/// Whole numbers below this are floats without a gap.
const WHOLE_MAX: f64 = (1u64 << 53) as f64;
/// Seconds of the half width from which on times are shown without fractions: these have its second digit.
const SECONDS_WIDE: f64 = 10.0;

/// The value, the lower and the upper end as text. Where there is no end, `unbounded`; an end that cannot be known, as the upper
/// one of a lower bound, and a value that no draw gave, are `unknown`. What does not exist is `null`.
pub fn shown_figures(interval: &Interval, has_value: bool) -> [String; 3] {
    let Interval { value, low, high, method } = *interval;
    let place = match method {
        Method::Exact => None,
        _ => half_width(interval).map(|width| WIDTH_DIGITS - 1 - width.log10().floor() as i32),
    };
    let rounded = |number: f64, round: fn(f64) -> f64| match place {
        Some(place) if number.is_finite() => at_place(number, place, round),
        _ => whole(number),
    };
    let texts = [rounded(value, f64::round), rounded(low, f64::floor), rounded(high, f64::ceil)];
    with_words(interval, has_value, texts)
}

/// The same of figures that are integers, dates or timestamps. All their digits are shown, but no fractions of a second where
/// the interval of a time is wider than some.
pub fn shown_values(
    numbers: [Option<Number>; 3],
    data_type: &DataType,
    interval: &Interval,
    has_value: bool,
) -> [String; 3] {
    let second = match data_type {
        DataType::Timestamp(unit, _) => units_per_second(*unit),
        _ => 1,
    };
    let is_met = matches!(interval.method, Method::Exact | Method::LowerBound);
    let is_wide = half_width(interval).is_some_and(|width| width >= SECONDS_WIDE * second as f64);
    let unit = if is_wide && !is_met { second } else { 1 };
    let added = [unit / 2, 0, unit - 1];
    let text = |(number, added): (Option<Number>, i64)| {
        let number = match number? {
            Number::Signed(number) => {
                let unit = i128::from(unit);
                let rounded = (i128::from(number) + i128::from(added)).div_euclid(unit) * unit;
                Number::Signed(i64::try_from(rounded).unwrap_or(number))
            }
            number => number,
        };
        Some(if is_time(data_type) {
            time(number, data_type)
        } else {
            in_thousands(number.to_string())
        })
    };
    let [value, low, high] = numbers;
    let texts = [(value, added[0]), (low, added[1]), (high, added[2])].map(text);
    with_words(interval, has_value, texts.map(|text| text.unwrap_or_else(|| "unknown".to_string())))
}

/// A date or timestamp; in UTC where the name of its zone means nothing here.
fn time(number: Number, data_type: &DataType) -> String {
    let shown = |data_type: &DataType| {
        let values = values_of(&[Some(number)], data_type);
        let options = FormatOptions::new().with_display_error(true);
        ArrayFormatter::try_new(&values, &options).map(|values| values.value(0).to_string())
    };
    let in_utc = || match data_type {
        DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(*unit, Some("+00:00".into())),
        other => other.clone(),
    };
    shown(data_type).or_else(|_| shown(&in_utc())).unwrap_or_else(|error| error.to_string())
}

fn units_per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// The distance to the nearer end that there is.
fn half_width(interval: &Interval) -> Option<f64> {
    let Interval { value, low, high, .. } = *interval;
    let widths = [value - low, high - value].into_iter();
    widths.filter(|width| width.is_finite() && *width > 0.0).reduce(f64::min)
}

/// The texts, but words for what is not there or not known.
fn with_words(interval: &Interval, has_value: bool, texts: [String; 3]) -> [String; 3] {
    let Interval { value, low, high, method } = *interval;
    let end = |number: f64, text: String| match number {
        number if number.is_nan() => "unknown".to_string(),
        number if number.is_infinite() && method == Method::LowerBound => "unknown".to_string(),
        number if number.is_infinite() => "unbounded".to_string(),
        _ => text,
    };
    let is_missing = value.is_nan() && !has_value;
    match (method, texts) {
        (Method::Exact, _) if is_missing => ["null"; 3].map(str::to_string),
        (Method::Exact, texts) => texts,
        (_, [_, of_low, of_high]) if is_missing => {
            ["unknown".to_string(), end(low, of_low), end(high, of_high)]
        }
        (_, [of_value, of_low, of_high]) => [of_value, end(low, of_low), end(high, of_high)],
    }
}

/// A whole number with all its digits, another with six.
pub fn whole(number: f64) -> String {
    if !number.is_finite() {
        return if number.is_nan() { "NaN".to_string() } else { format!("{number}") };
    }
    if number == number.trunc() && number.abs() < WHOLE_MAX {
        return in_thousands(format!("{:.0}", number + 0.0));
    }
    let place = DIGITS - 1 - number.abs().log10().floor() as i32;
    let text = at_place(number, place, f64::round);
    match text.split_once('e') {
        Some((digits, exponent)) => format!("{}e{exponent}", without_zeros(digits)),
        None => without_zeros(&text).to_string(),
    }
}

/// A number rounded to a decimal place; a negative one is left of the point.
fn at_place(number: f64, place: i32, round: fn(f64) -> f64) -> String {
    let unit = 10f64.powi(place.abs().min(300));
    let scaled = if place >= 0 { number * unit } else { number / unit };
    // A number that stands at the place already is not moved by what is lost of its digits.
    let nearest = scaled.round();
    let near = (scaled - nearest).abs() <= 1e-9 * nearest.abs().max(1.0);
    let scaled = if near { nearest } else { round(scaled) };
    let rounded = if place >= 0 { scaled / unit } else { scaled * unit } + 0.0;
    let size = number.abs().max(rounded.abs());
    if size != 0.0 && !(1e-4..1e15).contains(&size) {
        let digits = (place + size.log10().floor() as i32).clamp(0, 15) as usize;
        return format!("{rounded:.digits$e}");
    }
    in_thousands(format!("{rounded:.*}", place.clamp(0, 17) as usize))
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// Commas between thousands, left of the point.
fn in_thousands(text: String) -> String {
    let (sign, rest) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    let (digits, decimals) = rest.split_once('.').map_or((rest, None), |(a, b)| (a, Some(b)));
    let mut shown = sign.to_string();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    decimals.map_or(shown.clone(), |decimals| format!("{shown}.{decimals}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(value: f64, low: f64, high: f64) -> [String; 3] {
        shown_figures(&Interval { value, low, high, method: Method::StudentT }, !value.is_nan())
    }

    #[test]
    fn figures_have_the_digits_that_their_interval_supports() {
        for (numbers, expected) in [
            ([12.345_678_9, 12.222_2, 12.470_1], ["12.35", "12.22", "12.48"]),
            ([123_456.7, 119_135.2, 127_777.7], ["123,500", "119,100", "127,800"]),
            ([0.5, 0.25, 0.75], ["0.50", "0.25", "0.75"]),
            ([-3.0, -4.0, -2.0], ["-3.0", "-4.0", "-2.0"]),
            ([7.0, 7.0, 7.0], ["7", "7", "7"]),
            ([1e-9, 0.5e-9, 2e-9], ["1.00e-9", "5.0e-10", "2.00e-9"]),
            ([0.0, -0.001_234, 0.001_234], ["0.0000", "-0.0013", "0.0013"]),
            ([5.0, 1.0, f64::INFINITY], ["5.0", "1.0", "unbounded"]),
            ([f64::NAN, f64::NEG_INFINITY, f64::INFINITY], ["unknown", "unbounded", "unbounded"]),
            ([f64::NAN, 0.25, 1_234.5], ["unknown", "0.25", "1234.5"]),
        ] {
            let [value, low, high] = numbers;
            let expected = expected.map(|text| text.replace("1234.5", "1,234.5"));
            assert_eq!(shown(value, low, high), expected, "{numbers:?}");
        }
    }

    #[test]
    fn what_is_exact_is_shown_whole_or_with_six_digits() {
        let of = |value: f64| shown_figures(&Interval::exact(value), !value.is_nan())[0].clone();
        let numbers = [3_469_478.0, 12.345_678_9, 0.1, f64::NAN, -0.0, 1.5e20, f64::INFINITY];
        let expected = ["3,469,478", "12.3457", "0.1", "null", "0", "1.5e20", "inf"];
        assert_eq!(numbers.map(of), expected);
    }

    #[test]
    fn a_lower_bound_has_no_upper_end_that_could_be_known() {
        let interval =
            Interval { value: 12.0, low: 12.0, high: f64::INFINITY, method: Method::LowerBound };
        assert_eq!(shown_figures(&interval, true), ["12", "12", "unknown"]);
    }

    /// What is shown is no narrower than what was computed, and no more than a tenth of the half width wider at each end.
    #[test]
    fn shown_ends_hold_what_the_interval_holds() {
        let mut rng = drillcore_sample::rng::Rng::keyed(11, 0);
        for _ in 0..2_000 {
            let value = (rng.unit_f64() - 0.5) * 10f64.powi(rng.below(12) as i32);
            let half = rng.unit_f64() * 10f64.powi(rng.below(8) as i32 - 3) + 1e-3;
            let [_, low, high] = shown(value, value - half, value + half)
                .map(|text| text.replace(',', "").parse::<f64>().unwrap());
            let off = 1e-9 * value.abs().max(1.0);
            assert!(low <= value - half + off && high >= value + half - off, "{value} {half}");
            assert!(low >= value - half * 1.11 - off && high <= value + half * 1.11 + off);
        }
    }
}

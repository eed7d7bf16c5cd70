//! Lengths of time, such as "7d" and "1h 30m", as they are read and shown.

use std::time::Duration;

/// The units that are shown, with their seconds.
const UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];

/// Units of the calendar, and about how many days they have.
const CALENDAR: [(&[&str], u64); 2] =
    [(&["M", "month", "months"], 30), (&["y", "yr", "yrs", "year", "years"], 365)];

/// Reads a length.
///
/// # Errors
/// What is wrong with it. Months and years are refused: they have no one length.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let units = text.split(|c: char| !c.is_ascii_alphabetic());
    for unit in units.filter(|unit| !unit.is_empty()) {
        if let Some((_, days)) = CALENDAR.iter().find(|(names, _)| names.contains(&unit)) {
            return Err(format!(
                "{text:?} is not a length of time: months and years vary in length; use days, such as {days}d"
            ));
        }
    }
    humantime::parse_duration(text.trim())
        .map_err(|_| format!("{text:?} is not a length of time; write it as 7d, 12h or \"1h 30m\""))
}

/// A length of whole seconds, as [`parse_duration`] reads it.
pub fn duration_text(duration: Duration) -> String {
    let mut rest = duration.as_secs();
    let mut parts = Vec::new();
    for (unit, seconds) in UNITS {
        if rest >= seconds {
            parts.push(format!("{}{unit}", rest / seconds));
            rest %= seconds;
        }
    }
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_reads_back() {
        for (seconds, text) in
            [(1, "1s"), (5_400, "1h 30m"), (604_800, "7d"), (90_061, "1d 1h 1m 1s")]
        {
            let duration = Duration::from_secs(seconds);
            assert_eq!(duration_text(duration), text);
            assert_eq!(parse_duration(text), Ok(duration));
        }
        for (text, days) in
            [("1 month", "30d"), ("2y", "365d"), ("1year 3d", "365d"), ("6M", "30d")]
        {
            let refused = parse_duration(text).unwrap_err();
            assert!(refused.contains("months and years") && refused.contains(days), "{refused}");
        }
        assert!(parse_duration("90m").is_ok() && parse_duration("3min").is_ok());
        assert!(parse_duration("soon").unwrap_err().contains("write it as 7d"));
    }
}

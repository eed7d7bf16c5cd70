//! Column types as they are typed: the names that the Python package takes, and decimals.

use arrow_array::timezone::Tz;
use arrow_schema::{DataType, TimeUnit};
use drillcore::Error;

/// Types without parameters. A name with brackets or parentheses is taken apart instead.
const NAMES: [(&str, DataType); 14] = [
    ("bool", DataType::Boolean),
    ("int8", DataType::Int8),
    ("int16", DataType::Int16),
    ("int32", DataType::Int32),
    ("int64", DataType::Int64),
    ("uint8", DataType::UInt8),
    ("uint16", DataType::UInt16),
    ("uint32", DataType::UInt32),
    ("uint64", DataType::UInt64),
    ("float32", DataType::Float32),
    ("float64", DataType::Float64),
    ("string", DataType::Utf8),
    ("binary", DataType::Binary),
    ("date32", DataType::Date32),
];
const LIST: &str = "list<string>";

/// Names that other languages and databases have for types, and those that are meant.
const USUAL_NAMES: [(&str, &str); 11] = [
    ("int", "int64"),
    ("integer", "int64"),
    ("long", "int64"),
    ("float", "float64"),
    ("double", "float64"),
    ("str", "string"),
    ("text", "string"),
    ("datetime", "timestamp[us]"),
    ("timestamp", "timestamp[us]"),
    ("boolean", "bool"),
    ("date", "date32"),
];

/// The type of a name: "int64", "timestamp[us, UTC]", "decimal128(10, 2)", "list<string>".
pub fn column_type(text: &str) -> Result<DataType, String> {
    let text = text.trim();
    if text == LIST {
        return Ok(DataType::new_list(DataType::Utf8, true));
    }
    let plain = NAMES.iter().find(|(name, _)| *name == text).map(|(_, of_name)| of_name.clone());
    if let Some(timestamp) = timestamp(text) {
        return check_zone(&timestamp).map(|()| timestamp);
    }
    plain.or_else(|| decimal(text)).ok_or_else(|| {
        let usual = USUAL_NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        if let Some((_, meant)) = usual {
            return format!("unknown type {text:?}; did you mean {meant:?}?");
        }
        let names = NAMES.iter().map(|(name, _)| *name);
        let others = [LIST, "timestamp[us]", "timestamp[us, UTC]", "decimal128(10, 2)"];
        Error::unknown("type", text, names.chain(others)).to_string()
    })
}

/// "timestamp[UNIT]" or "timestamp[UNIT, ZONE]".
fn timestamp(text: &str) -> Option<DataType> {
    let parameters = text.strip_prefix("timestamp[")?.strip_suffix(']')?;
    let (unit, zone) = match parameters.split_once(',') {
        Some((unit, zone)) => (unit, Some(zone.trim().trim_start_matches("tz="))),
        None => (parameters, None),
    };
    let unit = match unit.trim() {
        "s" => TimeUnit::Second,
        "ms" => TimeUnit::Millisecond,
        "us" => TimeUnit::Microsecond,
        "ns" => TimeUnit::Nanosecond,
        _ => return None,
    };
    match zone {
        Some("") => None,
        zone => Some(DataType::Timestamp(unit, zone.map(Into::into))),
    }
}

/// Refuses a time zone that no clock shows: rows could not be printed.
///
/// # Errors
/// What is wrong, and which names there are.
pub fn check_zone(data_type: &DataType) -> Result<(), String> {
    let DataType::Timestamp(_, Some(zone)) = data_type else { return Ok(()) };
    let parsed: Result<Tz, _> = zone.parse();
    parsed.map(|_| ()).map_err(|_| {
        format!(
            "unknown time zone {zone:?}; use a name such as \"UTC\", \"Europe/Oslo\" or \"+01:00\""
        )
    })
}

/// "decimal128(PRECISION, SCALE)".
fn decimal(text: &str) -> Option<DataType> {
    let parameters = text.strip_prefix("decimal128(")?.strip_suffix(')')?;
    let (precision, scale) = parameters.split_once(',')?;
    Some(DataType::Decimal128(precision.trim().parse().ok()?, scale.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use drillcore::type_name;

    use super::*;

    #[test]
    fn a_type_is_shown_by_the_name_that_is_read() {
        let others = [
            LIST,
            "timestamp[s]",
            "timestamp[ns, UTC]",
            "timestamp[us, +02:00]",
            "decimal128(10, 2)",
        ];
        for name in NAMES.iter().map(|(name, _)| *name).chain(others) {
            assert_eq!(type_name(&column_type(name).unwrap()), name);
        }
    }

    #[test]
    fn a_name_of_another_language_is_answered_with_the_type_that_is_meant() {
        for (name, meant) in USUAL_NAMES {
            let expected = format!("unknown type {name:?}; did you mean {meant:?}?");
            assert_eq!(column_type(name).unwrap_err(), expected);
            assert!(column_type(meant).is_ok(), "{meant}");
        }
        assert!(column_type("INT").unwrap_err().ends_with("did you mean \"int64\"?"));
    }
}

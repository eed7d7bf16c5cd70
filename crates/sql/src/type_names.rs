//! Names of types in messages of DataFusion and Arrow, as users write them.

use std::borrow::Cow;

/// Types without parameters: as DataFusion has them, and as schemas have them.
const NAMES: [(&str, &str); 17] = [
    ("Boolean", "bool"),
    ("Int8", "int8"),
    ("Int16", "int16"),
    ("Int32", "int32"),
    ("Int64", "int64"),
    ("UInt8", "uint8"),
    ("UInt16", "uint16"),
    ("UInt32", "uint32"),
    ("UInt64", "uint64"),
    ("Float16", "float16"),
    ("Float32", "float32"),
    ("Float64", "float64"),
    ("Utf8", "string"),
    ("LargeUtf8", "large_string"),
    ("Utf8View", "string_view"),
    ("Date32", "date32"),
    ("Date64", "date64"),
];
/// Types with parameters, which stand in parentheses.
const FAMILIES: [(&str, &str); 6] = [
    ("Timestamp", "timestamp"),
    ("Time32", "time32"),
    ("Time64", "time64"),
    ("Duration", "duration"),
    ("Decimal128", "decimal128"),
    ("Decimal256", "decimal256"),
];
const UNITS: [(&str, &str); 8] = [
    ("s", "s"),
    ("ms", "ms"),
    ("µs", "us"),
    ("ns", "ns"),
    ("Second", "s"),
    ("Millisecond", "ms"),
    ("Microsecond", "us"),
    ("Nanosecond", "ns"),
];

/// A message whose types have the names that schemas have for them. What stands in quotes stays: it is the user's.
///
/// ```
/// use drillcore_sql::with_type_names;
///
/// assert_eq!(with_type_names("cannot cast 'Utf8' to Int64"), "cannot cast 'Utf8' to int64");
/// ```
pub fn with_type_names(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    let (mut rest, mut quote) = (message, None);
    while let Some(first) = rest.chars().next() {
        let len = match quote {
            None => rest.find(|c| !is_of_word(c)).unwrap_or(rest.len()),
            Some(_) => 0,
        };
        let (word, behind) = rest.split_at(len);
        if word.is_empty() {
            match (quote, first) {
                (None, '\'' | '"' | '`') => quote = Some(first),
                (Some(open), close) if open == close => quote = None,
                _ => {}
            }
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let name = |names: &[(&str, &'static str)]| {
            names.iter().find(|(theirs, _)| *theirs == word).map(|(_, ours)| *ours)
        };
        rest = behind;
        match (name(&NAMES), name(&FAMILIES)) {
            // With a value behind it, it is the value that is shown.
            (Some(ours), _) if !behind.starts_with('(') => out.push_str(ours),
            (_, Some(ours)) if behind.starts_with('(') => match parameters(ours, &behind[1..]) {
                Some((named, end)) => {
                    out.push_str(&named);
                    rest = &behind[1 + end..];
                }
                None => out.push_str(word),
            },
            _ => out.push_str(word),
        }
    }
    out
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '.'
}

/// The name of a type with the parameters at the beginning of a text, and where they end.
fn parameters(family: &str, text: &str) -> Option<(String, usize)> {
    let end = text.find(')')?;
    // A zone that may be missing has parentheses of its own.
    let end = if text[..end].contains("Some(") { end + 1 } else { end };
    let given = text.get(..end)?;
    if family.starts_with("decimal") {
        return Some((format!("{family}({given})"), end + 1));
    }
    let (unit, zone) = given.split_once(',').unwrap_or((given, ""));
    let unit = UNITS.iter().find(|(theirs, _)| *theirs == unit.trim())?.1;
    let zone = zone.trim().trim_start_matches("Some(").trim_matches([')', '"']);
    let zone: Cow<'_, str> = match zone {
        "" | "None" => "".into(),
        zone => format!(", {zone}").into(),
    };
    Some((format!("{family}[{unit}{zone}]"), end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_the_names_of_schemas_and_quotes_stay() {
        for (theirs, ours) in [
            ("sum(Utf8)", "sum(string)"),
            (
                "Cannot coerce arithmetic expression Timestamp(µs, \"UTC\") + Utf8 to valid types",
                "Cannot coerce arithmetic expression timestamp[us, UTC] + string to valid types",
            ),
            ("Timestamp(Nanosecond, None), Date32", "timestamp[ns], date32"),
            ("Timestamp(Second, Some(\"+01:00\")).", "timestamp[s, +01:00]."),
            ("Decimal128(10, 2) and List(Int64)", "decimal128(10, 2) and List(int64)"),
            ("column 'Utf8' and \"Int64\"", "column 'Utf8' and \"Int64\""),
            ("Utf8(\"x\"), MyInt64, t.Int64", "Utf8(\"x\"), MyInt64, t.Int64"),
            ("Timestamp( is broken", "Timestamp( is broken"),
            ("Timestamp(Some(", "Timestamp(Some("),
            ("it doesn't", "it doesn't"),
        ] {
            assert_eq!(with_type_names(theirs), ours);
        }
    }
}

//! JSON lines with objects and arrays in them, as lines that columns can be made of.
//!
//! An object is spread over columns: the field `b` of column `a` is column `a.b`, at any depth. Where it is null, all of
//! these columns are. An array of strings is a list. Any other array is text, as JSON, and so is each array or object
//! of a column that has such arrays, or that stores strings.

use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;

use arrow_schema::{DataType, Schema};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::files::records::Records;

/// Objects and arrays within each other, that of the line counted.
pub const DEPTH_MAX: usize = 32;

/// The same records, flat; `None` if all of them are already. `known` are the columns, unless they are to be guessed.
/// `given` are the types of some columns that were asked for: if it is that of strings, every value is made one. Objects and
/// arrays in others are null where columns are to be guessed.
///
/// # Errors
/// What is wrong with the first record that cannot be made flat. One that is not JSON is left as it is.
pub fn flat(
    records: &Records,
    known: Option<&Schema>,
    given: &[(String, DataType)],
) -> Result<Option<Records>, String> {
    let all = || (0..records.len()).map(|record| records.text(record..record + 1));
    let (has_objects, has_texts) = (has_objects(known), has_texts(given));
    let is_changed = |text: &[u8]| has_texts || is_nested(text) || has_objects && has_null(text);
    if !all().any(is_changed) {
        return Ok(None);
    }
    let mut flat = Records::default();
    for (record, text) in all().enumerate() {
        let line = records.lines(record..record + 1)[0];
        match is_changed(text) {
            true => flat.push(&flat_line(text, known, given)?, line),
            false => flat.push(text, line),
        }
    }
    Ok(Some(flat))
}

/// The columns of a new table with an array that is no list of strings, with the type that they have then. `given` are
/// the types of others.
pub fn array_texts(records: &Records, given: &[(String, DataType)]) -> Vec<(String, DataType)> {
    let mut texts = HashSet::new();
    let all = (0..records.len()).map(|record| records.text(record..record + 1));
    for line in all.filter(|line| is_nested(line)) {
        let mut flattening = Flattening::new(line, None, given);
        // What is wrong with a line is said once it is made flat.
        let _ = flattening.object("", 1);
        texts.extend(flattening.array_texts);
    }
    texts.into_iter().map(|name| (name, DataType::Utf8)).collect()
}

/// Whether lines of these columns may have to be made flat: a look at all of them that costs little.
pub fn may_change(text: &[u8], known: &Schema, given: &[(String, DataType)]) -> bool {
    if has_texts(given) {
        return true;
    }
    let mut opened = 0;
    let mut lines = 0;
    for byte in text {
        match byte {
            b'{' => opened += 1,
            b'[' => return true,
            b'\n' => lines += 1,
            _ => {}
        }
    }
    opened > lines || has_objects(Some(known)) && has_null(text)
}

/// Whether some of the columns are fields of an object, which may be null.
fn has_objects(known: Option<&Schema>) -> bool {
    known.is_some_and(|known| known.fields().iter().any(|field| field.name().contains('.')))
}

fn has_texts(given: &[(String, DataType)]) -> bool {
    given.iter().any(|(_, given)| *given == DataType::Utf8)
}

fn has_null(text: &[u8]) -> bool {
    text.windows(4).any(|four| four == b"null")
}

/// Whether a line may have an object or an array in it.
fn is_nested(line: &[u8]) -> bool {
    let opens = |byte: &u8| matches!(byte, b'{' | b'[');
    line.iter().position(opens).is_some_and(|first| line[first + 1..].iter().any(opens))
}

fn flat_line(
    line: &[u8],
    known: Option<&Schema>,
    given: &[(String, DataType)],
) -> Result<Vec<u8>, String> {
    let mut flattening = Flattening::new(line, known, given);
    match flattening.object("", 1) {
        Ok(()) => {
            let Flattening { at, mut out, .. } = flattening;
            out.push(b'}');
            // What else there is in the line is for the decoder to refuse.
            out.extend_from_slice(&line[at..]);
            Ok(out)
        }
        Err(Stop::NotJson) => Ok(line.to_vec()),
        Err(Stop::Refused(why)) => Err(why),
    }
}

/// Why a line cannot be made flat.
enum Stop {
    /// The decoder says more of it.
    NotJson,
    Refused(String),
}

struct Flattening<'a> {
    line: &'a [u8],
    at: usize,
    known: Option<&'a Schema>,
    given: &'a [(String, DataType)],
    out: Vec<u8>,
    names: HashSet<String>,
    /// The columns with an array that was made text because it is no list of strings.
    array_texts: Vec<String>,
}

impl<'a> Flattening<'a> {
    fn new(
        line: &'a [u8],
        known: Option<&'a Schema>,
        given: &'a [(String, DataType)],
    ) -> Flattening<'a> {
        let (out, names) = (vec![b'{'], HashSet::new());
        Flattening { line, at: 0, known, given, out, names, array_texts: Vec::new() }
    }

    /// The fields of an object, whose names begin with `prefix`.
    fn object(&mut self, prefix: &str, depth: usize) -> Result<(), Stop> {
        self.expect(b'{')?;
        if self.peek()? == b'}' {
            return self.expect(b'}');
        }
        loop {
            self.peek()?;
            let name = self.string()?;
            let name: String = serde_json::from_slice(name).map_err(|_| Stop::NotJson)?;
            self.expect(b':')?;
            self.value(format!("{prefix}{name}"), depth)?;
            match self.peek()? {
                b',' => self.expect(b',')?,
                _ => return self.expect(b'}'),
            }
        }
    }

    fn value(&mut self, name: String, depth: usize) -> Result<(), Stop> {
        let first = self.peek()?;
        let known = self.known.and_then(|known| known.field_with_name(&name).ok());
        let given = self.given.iter().rfind(|(given, _)| *given == name).map(|(_, given)| given);
        let stores = known.map(|field| field.data_type()).or(given);
        if first == b'{' && stores.is_none() {
            if depth == DEPTH_MAX {
                return Err(too_deep(&name));
            }
            return self.object(&format!("{name}."), depth + 1);
        }
        let value = self.whole(&name, depth)?;
        if value == b"null" && stores.is_none() {
            // An object that is null: all its columns are.
            let fields = self.fields_of(&name);
            if !fields.is_empty() {
                return fields.into_iter().try_for_each(|field| self.put(field, value, false));
            }
        }
        let is_scalar = !matches!(first, b'"' | b'[' | b'{') && value != b"null";
        match (first, stores) {
            (b'[', None) if self.known.is_none() && !is_list_of_strings(value) => {
                self.put(name.clone(), value, true)?;
                self.array_texts.push(name);
                Ok(())
            }
            (b'[' | b'{', Some(DataType::Utf8)) => self.put(name, value, true),
            // Where columns are guessed, what their given types cannot hold is none of the guess.
            (b'[' | b'{', Some(_)) if self.known.is_none() => self.put(name, b"null", false),
            _ if is_scalar && given == Some(&DataType::Utf8) => self.put(name, value, true),
            _ => self.put(name, value, false),
        }
    }

    /// The known columns that are fields of an object.
    fn fields_of(&self, object: &str) -> Vec<String> {
        let is_field =
            |name: &&String| name.strip_prefix(object).is_some_and(|rest| rest.starts_with('.'));
        let known = self.known.iter().flat_map(|known| known.fields());
        known.map(|field| field.name()).filter(is_field).cloned().collect()
    }

    /// Writes a value, as it is or as text.
    fn put(&mut self, name: String, value: &[u8], is_text: bool) -> Result<(), Stop> {
        if !self.names.insert(name.clone()) {
            return Err(Stop::Refused(two_values(&name)));
        }
        if self.out.len() > 1 {
            self.out.push(b',');
        }
        self.put_string(&name);
        self.out.push(b':');
        if is_text {
            serde_json::from_slice::<IgnoredAny>(value).map_err(|_| Stop::NotJson)?;
            self.put_string(std::str::from_utf8(value).map_err(|_| Stop::NotJson)?);
        } else {
            self.out.extend_from_slice(value);
        }
        Ok(())
    }

    /// The text of a value, with all that is in it.
    fn whole(&mut self, name: &str, depth: usize) -> Result<&'a [u8], Stop> {
        let start = self.at;
        let mut open = 0;
        loop {
            match self.line.get(self.at).ok_or(Stop::NotJson)? {
                b'"' => drop(self.string()?),
                b'{' | b'[' => {
                    open += 1;
                    if depth + open > DEPTH_MAX {
                        return Err(too_deep(name));
                    }
                    self.at += 1;
                }
                b'}' | b']' | b',' if open == 0 => break,
                b'}' | b']' => {
                    open -= 1;
                    self.at += 1;
                }
                _ => self.at += 1,
            }
        }
        Ok(self.line[start..self.at].trim_ascii_end())
    }

    /// A string with its quotes.
    fn string(&mut self) -> Result<&'a [u8], Stop> {
        let start = self.at;
        if self.line.get(start) != Some(&b'"') {
            return Err(Stop::NotJson);
        }
        self.at += 1;
        loop {
            match self.line.get(self.at).ok_or(Stop::NotJson)? {
                b'\\' => self.at += 2,
                b'"' => break,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Ok(&self.line[start..self.at])
    }

    /// The next byte that is no space.
    fn peek(&mut self) -> Result<u8, Stop> {
        while self.line.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.line.get(self.at).copied().ok_or(Stop::NotJson)
    }

    fn expect(&mut self, byte: u8) -> Result<(), Stop> {
        if self.peek()? != byte {
            return Err(Stop::NotJson);
        }
        self.at += 1;
        Ok(())
    }

    fn put_string(&mut self, text: &str) {
        let quoted = serde_json::to_string(text).expect("a string has a form in JSON");
        self.out.extend_from_slice(quoted.as_bytes());
    }
}

/// The value of a flat line with a name, as it is written.
pub fn value<'a>(line: &'a [u8], name: &str) -> Option<&'a str> {
    let mut scanned = Flattening::new(line, None, &[]);
    scanned.expect(b'{').ok()?;
    loop {
        scanned.peek().ok()?;
        let found: String = serde_json::from_slice(scanned.string().ok()?).ok()?;
        scanned.expect(b':').ok()?;
        scanned.peek().ok()?;
        let value = scanned.whole(&found, 1).ok()?;
        if found == name {
            return std::str::from_utf8(value).ok();
        }
        scanned.expect(b',').ok()?;
    }
}

/// The names of a line, in its order; none of a line that is not JSON.
pub fn names(line: &[u8]) -> Vec<String> {
    names_of(line).unwrap_or_default()
}

/// The names of a line that is an object and nothing else, in its order.
pub fn names_of<'de, N: Deserialize<'de>>(line: &'de [u8]) -> serde_json::Result<Vec<N>> {
    struct Names<N>(PhantomData<N>);
    impl<'de, N: Deserialize<'de>> Visitor<'de> for Names<N> {
        type Value = Vec<N>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<N>, A::Error> {
            let mut names = Vec::new();
            while let Some((name, IgnoredAny)) = map.next_entry::<N, IgnoredAny>()? {
                names.push(name);
            }
            Ok(names)
        }
    }
    let mut line = serde_json::Deserializer::from_slice(line);
    let names = line.deserialize_map(Names(PhantomData))?;
    line.end()?;
    Ok(names)
}

/// Why a line is refused that has a column twice.
pub fn two_values(name: &str) -> String {
    format!("column {name:?} has two values; rename one of the fields")
}

fn too_deep(name: &str) -> Stop {
    Stop::Refused(format!(
        "column {name:?} is nested deeper than {DEPTH_MAX} levels, the limit; write the inner ones as text"
    ))
}

/// Strings and nulls, or nothing.
fn is_list_of_strings(array: &[u8]) -> bool {
    serde_json::from_slice::<Vec<Option<String>>>(array).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::Field;

    fn line(text: &str, known: Option<&Schema>) -> Result<String, String> {
        flat_line(text.as_bytes(), known, &[]).map(|line| String::from_utf8(line).unwrap())
    }

    #[test]
    fn a_type_that_is_given_says_what_becomes_of_an_object() {
        let given = [("a".to_string(), DataType::Utf8), ("b.c".to_string(), DataType::Utf8)];
        let line = br#"{"a": {"x": 1}, "b": {"c": {"y": 2}, "d": 3}, "e": [1]}"#;
        let flat = String::from_utf8(flat_line(line, None, &given).unwrap()).unwrap();
        assert_eq!(flat, r#"{"a":"{\"x\": 1}","b.c":"{\"y\": 2}","b.d":3,"e":"[1]"}"#);
        for (scalar, expected) in [("1.50", "\"1.50\""), ("true", "\"true\""), ("null", "null")] {
            let line = format!("{{\"a\": {scalar}, \"b\": {scalar}}}");
            let flat =
                String::from_utf8(flat_line(line.as_bytes(), None, &given).unwrap()).unwrap();
            assert_eq!(flat, format!("{{\"a\":{expected},\"b\":{scalar}}}"));
        }
        let other = [("a".to_string(), DataType::Int64)];
        let known = Schema::new(vec![Field::new("a", DataType::Int64, true)]);
        for (known, expected) in [(None, r#"{"a":null}"#), (Some(&known), r#"{"a":{"x": 1}}"#)] {
            let flat = flat_line(br#"{"a": {"x": 1}}"#, known, &other).unwrap();
            assert_eq!(String::from_utf8(flat).unwrap(), expected);
        }
        // What is no value is left to the decoder.
        assert_eq!(flat_line(b"{\"a\": 1x}", None, &given).unwrap(), b"{\"a\": 1x}");
    }

    #[test]
    fn a_value_is_found_as_it_is_written() {
        let line = br#" {"a": 1.50 , "b\u0041": [1, {"c": ","}], "d": "x}"}"#;
        let found = ["a", "bA", "d", "c"].map(|name| value(line, name));
        assert_eq!(found, [Some("1.50"), Some(r#"[1, {"c": ","}]"#), Some("\"x}\""), None]);
    }

    #[test]
    fn names_come_in_the_order_of_the_line() {
        assert_eq!(names(br#" {"z": 1, "a": {"b": [2]}, "z\u0041": null}"#), ["z", "a", "zA"]);
        assert!(names(b"[1]").is_empty() && names(b"{\"a\": ").is_empty());
    }

    #[test]
    fn objects_are_spread_and_arrays_are_lists_of_strings_or_text() {
        for (text, expected) in [
            (r#"{"a": {"b": 1, "c": {"d": "x"}}, "e": null}"#, r#"{"a.b":1,"a.c.d":"x","e":null}"#),
            (
                r#"{"a": ["x", null], "b": [1, {"c": "}]"}]}"#,
                r#"{"a":["x", null],"b":"[1, {\"c\": \"}]\"}]"}"#,
            ),
            (r#"{"a": {}, "b": [], "c": 1.50e3 }"#, r#"{"b":[],"c":1.50e3}"#),
            (r#"{"a\"{": {"\u00e9": "{["}} {"x": 1}"#, "{\"a\\\"{.é\":\"{[\"} {\"x\": 1}"),
            // What is not JSON is left to the decoder.
            (r#"{"a": {"b": 1"#, r#"{"a": {"b": 1"#),
            (r#"{"a": [1,,2]}"#, r#"{"a": [1,,2]}"#),
        ] {
            assert_eq!(line(text, None), Ok(expected.to_string()), "{text}");
        }
    }

    #[test]
    fn columns_that_store_strings_keep_what_is_nested_as_text() {
        let field = |name, data_type| Field::new(name, data_type, true);
        let known = Schema::new(vec![
            field("text", DataType::Utf8),
            field("a.b", DataType::Int64),
            field("list", DataType::new_list(DataType::Utf8, true)),
        ]);
        let nested = r#"{"text": {"x": [1]}, "a": {"b": 1}, "list": ["x"]}"#;
        let expected = r#"{"text":"{\"x\": [1]}","a.b":1,"list":["x"]}"#;
        assert_eq!(line(nested, Some(&known)), Ok(expected.to_string()));
        let null = r#"{"text": null, "a": null, "list": []}"#;
        let expected = r#"{"text":null,"a.b":null,"list":[]}"#;
        assert_eq!(line(null, Some(&known)), Ok(expected.to_string()));
    }

    #[test]
    fn what_is_nested_too_deep_or_has_two_values_is_refused_with_its_column() {
        let nested = |depth: usize, open: &str, close: &str| {
            format!("{{\"a\":{}1{}}}", open.repeat(depth - 1), close.repeat(depth - 1))
        };
        for (open, close) in [("{\"b\":", "}"), ("[", "]")] {
            assert!(line(&nested(DEPTH_MAX, open, close), None).is_ok());
            let refused = line(&nested(DEPTH_MAX + 1, open, close), None).unwrap_err();
            assert!(refused.contains("deeper than 32 levels"), "{refused}");
        }
        let twice = line(r#"{"a.b": 1, "a": {"b": 2}}"#, None).unwrap_err();
        assert!(twice.contains("column \"a.b\" has two values"), "{twice}");
    }
}

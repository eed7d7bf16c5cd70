//! What a word at the prompt may become: names of tables and columns, keywords, functions and commands.

use std::collections::BTreeMap;
use std::sync::Arc;

use drillcore::{Result, Snapshot, type_name};
use parking_lot::Mutex;
use reedline::{Completer, Span, Suggestion};

/// Words of SQL that begin or join parts of a query.
const KEYWORDS: [&str; 71] = [
    "all",
    "and",
    "any",
    "as",
    "asc",
    "between",
    "by",
    "case",
    "cast",
    "cross",
    "current",
    "date",
    "desc",
    "describe",
    "distinct",
    "else",
    "end",
    "except",
    "exists",
    "explain",
    "false",
    "filter",
    "first",
    "following",
    "from",
    "full",
    "group",
    "having",
    "ilike",
    "in",
    "inner",
    "intersect",
    "interval",
    "is",
    "join",
    "last",
    "lateral",
    "left",
    "like",
    "limit",
    "natural",
    "not",
    "null",
    "nulls",
    "offset",
    "on",
    "or",
    "order",
    "outer",
    "over",
    "partition",
    "preceding",
    "qualify",
    "range",
    "repeatable",
    "right",
    "rows",
    "select",
    "show",
    "tables",
    "tablesample",
    "then",
    "timestamp",
    "true",
    "unbounded",
    "union",
    "using",
    "values",
    "when",
    "where",
    "with",
];

/// The functions that are used most.
const FUNCTIONS: [&str; 52] = [
    "abs",
    "approx_avg_ci",
    "approx_count_ci",
    "approx_distinct",
    "approx_median",
    "approx_percentile_cont",
    "approx_quantile_ci",
    "approx_sum_ci",
    "array_length",
    "avg",
    "ceil",
    "coalesce",
    "concat",
    "corr",
    "count",
    "date_bin",
    "date_part",
    "date_trunc",
    "dense_rank",
    "exp",
    "extract",
    "first_value",
    "floor",
    "greatest",
    "lag",
    "last_value",
    "lead",
    "least",
    "length",
    "ln",
    "lower",
    "max",
    "median",
    "min",
    "now",
    "nullif",
    "power",
    "rank",
    "regexp_like",
    "replace",
    "round",
    "row_number",
    "sample",
    "sqrt",
    "stddev",
    "strpos",
    "substr",
    "sum",
    "to_timestamp",
    "trim",
    "upper",
    "variance",
];

/// Words that a table's name follows.
const BEFORE_TABLES: [&str; 6] = ["from", "join", "describe", "table", "\\d", "update"];

pub const COMMANDS: [&str; 4] = ["\\d", "\\x", "\\q", "\\?"];

/// Tables with their columns, as of the last look; shared with the one who looks.
#[derive(Clone, Default)]
pub struct Names {
    tables: Arc<Mutex<BTreeMap<String, Vec<ColumnName>>>>,
}

#[derive(Clone)]
struct ColumnName {
    name: String,
    type_name: String,
}

impl Names {
    /// Takes the names of a snapshot.
    pub fn refresh(&self, snapshot: &Snapshot) -> Result<()> {
        let mut tables = BTreeMap::new();
        for name in snapshot.tables() {
            let schema = snapshot.table(&name)?.schema();
            let columns = schema.columns.fields().iter().map(|field| ColumnName {
                name: field.name().clone(),
                type_name: type_name(field.data_type()),
            });
            tables.insert(name, columns.collect());
        }
        *self.tables.lock() = tables;
        Ok(())
    }
}

impl Completer for Names {
    fn complete(&mut self, line: &str, cursor: usize) -> Vec<Suggestion> {
        let before = &line[..cursor];
        let start = before
            .rfind(|char: char| !is_word(char))
            .map_or(0, |at| at + before[at..].chars().next().map_or(0, char::len_utf8));
        let word = &before[start..];
        let mut found = Found {
            word: word.to_lowercase(),
            span: Span::new(start, cursor),
            suggestions: Vec::new(),
        };
        let rest = before[..start].trim_end();
        if rest.is_empty() && word.starts_with('\\') {
            COMMANDS.iter().for_each(|command| found.offer(command, "command"));
            return found.suggestions;
        }
        let tables = self.tables.lock();
        // "flights." is followed by its columns, and an alias by those of any table.
        if let Some(table) = rest.strip_suffix('.').filter(|_| before[..start].ends_with('.')) {
            let table =
                table.rsplit(|char: char| !is_word(char) && char != '"').next().unwrap_or("");
            let table = table.trim_matches('"');
            for (_, columns) in
                tables.iter().filter(|(name, _)| *name == table || !tables.contains_key(table))
            {
                columns.iter().for_each(|column| found.offer_name(&column.name, &column.type_name));
            }
            return found.suggestions;
        }
        let last_word = rest.rsplit(char::is_whitespace).next().unwrap_or("").to_lowercase();
        let is_table_next = BEFORE_TABLES.contains(&last_word.as_str());
        if !is_table_next {
            // Of the tables that the statement names, if it names any yet.
            let named = |name: &String| line.split(|char| !is_word(char)).any(|word| word == name);
            let names_any = tables.keys().any(named);
            let of_query = tables.iter().filter(|(name, _)| !names_any || named(name));
            for (_, columns) in of_query {
                columns.iter().for_each(|column| found.offer_name(&column.name, &column.type_name));
            }
        }
        tables.keys().for_each(|table| found.offer_name(table, "table"));
        // Nothing typed yet may become any name, but the list of keywords is of no use then.
        if !is_table_next && !word.is_empty() {
            let is_upper = word.chars().all(|char| !char.is_lowercase());
            let typed = |text: &str| if is_upper { text.to_uppercase() } else { text.to_string() };
            KEYWORDS.iter().for_each(|keyword| found.offer(&typed(keyword), "keyword"));
            FUNCTIONS.iter().for_each(|function| found.offer(&typed(function), "function"));
        }
        found.suggestions
    }
}

/// Whether a character belongs to a word that is completed.
fn is_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_' || char == '\\'
}

struct Found {
    word: String,
    span: Span,
    suggestions: Vec<Suggestion>,
}

impl Found {
    /// A name, in quotes where it is no plain word.
    fn offer_name(&mut self, name: &str, what: &str) {
        let is_plain = !name.starts_with(|char: char| char.is_ascii_digit())
            && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_');
        if is_plain {
            self.offer(name, what);
        } else if name.to_lowercase().starts_with(&self.word) {
            self.push(format!("\"{}\"", name.replace('"', "\"\"")), what);
        }
    }

    fn offer(&mut self, value: &str, what: &str) {
        if value.to_lowercase().starts_with(&self.word) {
            self.push(value.to_string(), what);
        }
    }

    /// Two tables may have a column of one name.
    fn push(&mut self, value: String, what: &str) {
        if self.suggestions.iter().any(|known| known.value == value) {
            return;
        }
        self.suggestions.push(Suggestion {
            value,
            description: Some(what.to_string()),
            span: self.span,
            append_whitespace: what != "function",
            ..Suggestion::default()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let names = Names::default();
        let table = |columns: &[&str]| {
            let column =
                |name: &&str| ColumnName { name: name.to_string(), type_name: "int64".to_string() };
            columns.iter().map(column).collect::<Vec<_>>()
        };
        let mut tables = names.tables.lock();
        tables.insert("flights".to_string(), table(&["carrier", "day", "Delay in air"]));
        tables.insert("planes".to_string(), table(&["carrier", "seats"]));
        drop(tables);
        names
    }

    fn offered(line: &str) -> Vec<String> {
        let cursor = line.find('^').unwrap();
        let offered = names().complete(&line.replace('^', ""), cursor);
        offered.into_iter().map(|suggestion| suggestion.value).collect()
    }

    #[test]
    fn what_is_offered_depends_on_the_words_before() {
        assert_eq!(offered("select * from ^"), ["flights", "planes"]);
        assert_eq!(offered("select * from fl^ where 1 = 1"), ["flights"]);
        assert_eq!(offered("\\d p^"), ["planes"]);
        assert_eq!(offered("\\^"), COMMANDS);
        assert_eq!(offered("select planes.^"), ["carrier", "seats"]);
        assert_eq!(offered("select s^ from planes")[0], "seats");
        assert!(!offered("select d^ from planes").contains(&"day".to_string()));
        assert_eq!(offered("select del^ from flights"), ["\"Delay in air\""]);
        assert_eq!(offered("SELECT carrier FROM flights GRO^"), ["GROUP"]);
        assert_eq!(offered("select tablesam^"), ["tablesample"]);
        assert_eq!(offered("select x^yz"), [""; 0]);
    }

    #[test]
    fn the_word_before_the_cursor_is_replaced_whatever_its_bytes() {
        let line = "select 'Zürich', carr";
        let suggestion = &names().complete(line, line.len())[0];
        assert_eq!(&line[suggestion.span.start..suggestion.span.end], "carr");
        assert_eq!(suggestion.value, "carrier");
    }
}

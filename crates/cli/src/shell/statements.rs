//! Text with several SQL statements, cut at the semicolons that end them.

use std::mem;

/// A statement without its semicolon.
#[derive(Debug, PartialEq, Eq)]
pub struct Statement {
    pub text: String,
    /// The line that it begins in, counted from 1.
    pub line: usize,
}

/// Statements, and whether the text ends behind the last semicolon.
#[derive(Debug, PartialEq, Eq)]
pub struct Statements {
    /// The last one may lack its semicolon. None of them is empty.
    pub statements: Vec<Statement>,
    pub is_complete: bool,
}

/// What the scanner is in.
#[derive(Clone, Copy, PartialEq)]
enum Within {
    Code,
    /// A string or a name, up to this quote.
    Quotes(char),
    /// A string, up to two dollar signs.
    Dollars,
    LineComment,
    /// Comments of this depth: one may hold others.
    BlockComment(u32),
}

/// Cuts a text into statements. Semicolons in strings, quoted names and comments end none.
pub fn split(text: &str) -> Statements {
    let mut statements = Vec::new();
    let mut within = Within::Code;
    // Of the statement under way: its text, the line it begins in, and whether it says anything.
    let (mut statement, mut line, mut says) = (String::new(), 1, false);
    let mut lines = 1;
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        let next = chars.peek().copied();
        let mut is_pair = true;
        within = match (within, char, next) {
            (Within::Code, '-', Some('-')) => Within::LineComment,
            (Within::Code, '/', Some('*')) => Within::BlockComment(1),
            (Within::Code, '$', Some('$')) => Within::Dollars,
            (Within::Dollars, '$', Some('$')) => Within::Code,
            (Within::BlockComment(depth), '/', Some('*')) => Within::BlockComment(depth + 1),
            (Within::BlockComment(1), '*', Some('/')) => Within::Code,
            (Within::BlockComment(depth), '*', Some('/')) => Within::BlockComment(depth - 1),
            (within, char, _) => {
                is_pair = false;
                match (within, char) {
                    (Within::LineComment, '\n') => Within::Code,
                    (Within::Quotes(quote), char) if char == quote => Within::Code,
                    // A quote that is doubled ends one string and begins the next, which comes to the same.
                    (Within::Code, '\'' | '"' | '`') => Within::Quotes(char),
                    (Within::Code, ';') => {
                        if mem::take(&mut says) {
                            let text = mem::take(&mut statement).trim().to_string();
                            statements.push(Statement { text, line });
                        }
                        statement.clear();
                        continue;
                    }
                    (within, _) => within,
                }
            }
        };
        let is_comment = matches!(within, Within::LineComment | Within::BlockComment(_))
            || is_pair && within == Within::Code;
        if !says && !is_comment && !char.is_whitespace() {
            (says, line) = (true, lines);
        }
        statement.push(char);
        lines += usize::from(char == '\n');
        if is_pair {
            statement.extend(chars.next());
        }
    }
    let is_complete = !says && matches!(within, Within::Code | Within::LineComment);
    if says {
        statements.push(Statement { text: statement.trim().to_string(), line });
    }
    Statements { statements, is_complete }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        split(text).statements.into_iter().map(|statement| statement.text).collect()
    }

    #[test]
    fn only_semicolons_between_statements_end_one() {
        assert_eq!(texts("select 1; select 2;"), ["select 1", "select 2"]);
        assert_eq!(
            texts("select ';', \"a;b\", 'it''s; so';"),
            ["select ';', \"a;b\", 'it''s; so'"]
        );
        assert_eq!(texts("select $$a'; b$$; 2"), ["select $$a'; b$$", "2"]);
        assert_eq!(texts("select 1 -- one; two\n+ 1;"), ["select 1 -- one; two\n+ 1"]);
        assert_eq!(
            texts("select /* a; /* b; */ c; */ 1; 2"),
            ["select /* a; /* b; */ c; */ 1", "2"]
        );
        assert_eq!(texts(" ;; -- nothing;\n /* ; */ ;"), [""; 0]);
        assert_eq!(texts("select 5 / 2 - -1;"), ["select 5 / 2 - -1"]);
    }

    #[test]
    fn a_text_is_complete_behind_its_last_semicolon() {
        for complete in ["", "select 1;", "select 1; -- done", "select 1; /* done */ ", "-- none"] {
            assert!(split(complete).is_complete, "{complete:?}");
        }
        for open in [
            "select 1",
            "select 1; select",
            "select ';",
            "select \";",
            "select $$;",
            "/* a; ",
            "a; /* b",
        ] {
            assert!(!split(open).is_complete, "{open:?}");
        }
    }

    #[test]
    fn a_statement_knows_the_line_that_it_begins_in() {
        let split = split("-- first\n\nselect 1;\nselect\n2; /* a\nb */ select 3");
        let lines: Vec<usize> = split.statements.iter().map(|statement| statement.line).collect();
        assert_eq!(lines, [3, 4, 6]);
    }
}

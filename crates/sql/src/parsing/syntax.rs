//! From text to a syntax tree: what is SQL, how its operators bind, and which statements a query may be.

use std::any::TypeId;

use datafusion::common::DataFusionError;
use datafusion::logical_expr::ScalarUDF;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{
    Expr, ExprWithAlias, Query, SetExpr, Statement as SqlStatement,
};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use drillcore::{Error, ErrorKind};

use crate::advice::{Advice, with_advice};
use crate::error::to_datafusion;
use crate::parsing::parameters::{Parameters, substituted};

/// Parsing, planning and testing recurse as deep as conditions are joined: this deep they go.
const JOINED_MAX: usize = 2_000;

/// The one statement of a query with its parameters, and the functions that give some of their values.
pub fn statement(
    text: &str,
    parameters: &Parameters,
) -> Result<(Statement, Vec<ScalarUDF>), DataFusionError> {
    let (statement, functions) = parsed(text, parameters)?;
    check_reads(&statement)?;
    Ok((statement, functions))
}

/// Whether a text begins with `DELETE`, behind comments at most. Of a text without the word this costs a look at it.
///
/// ```
/// use drillcore_sql::is_delete;
///
/// assert!(is_delete("/* old rows */ delete from flights where id < 10"));
/// assert!(!is_delete("select 'delete'"));
/// ```
pub fn is_delete(text: &str) -> bool {
    const WORD: &[u8] = b"delete";
    if !text.as_bytes().windows(WORD.len()).any(|part| part.eq_ignore_ascii_case(WORD)) {
        return false;
    }
    // What has no tokens is no query either, and refused as such.
    let tokens = Tokenizer::new(&Bound, text).tokenize().unwrap_or_default();
    let first = tokens.iter().find(|token| !matches!(token, Token::Whitespace(_)));
    matches!(first, Some(Token::Word(word)) if word.keyword == Keyword::DELETE)
}

/// The one statement of a text that deletes rows, which is checked by who runs it.
pub fn deleting(text: &str, parameters: &Parameters) -> Result<Statement, DataFusionError> {
    let (statement, functions) = parsed(text, parameters)?;
    match functions.is_empty() {
        true => Ok(statement),
        // Its condition is planned by itself, from text.
        false => Err(invalid(
            "a parameter of a delete is a number, a string, a boolean or null; write a time as \
             timestamp '2026-01-31 09:00:00'"
                .to_string(),
        )),
    }
}

fn parsed(
    text: &str,
    parameters: &Parameters,
) -> Result<(Statement, Vec<ScalarUDF>), DataFusionError> {
    let (tokens, functions) = substituted(checked_tokens(text)?, parameters)?;
    let mut statements =
        DFParserBuilder::new(tokens).with_dialect(&Bound).build()?.parse_statements()?;
    let count = statements.len();
    let (Some(statement), 1) = (statements.pop_front(), count) else {
        return Err(invalid(format!(
            "the text has {count} statements; a query must be exactly one"
        )));
    };
    Ok((statement, functions))
}

/// A condition, or another expression on one row.
pub fn expression(text: &str) -> Result<ExprWithAlias, DataFusionError> {
    DFParserBuilder::new(checked_tokens(text)?).with_dialect(&Bound).build()?.parse_into_expr()
}

/// The tokens of a text. Refuses text with more conditions joined than the stack is made for.
fn checked_tokens(text: &str) -> Result<Vec<TokenWithSpan>, DataFusionError> {
    let tokens = Tokenizer::new(&Bound, text)
        .tokenize_with_location()
        .map_err(|error| DataFusionError::SQL(Box::new(error.into()), None))?;
    let joins = |token: &&TokenWithSpan| match &token.token {
        Token::Word(word) => matches!(word.keyword, Keyword::AND | Keyword::OR | Keyword::NOT),
        Token::Plus | Token::Minus | Token::Mul | Token::Div | Token::StringConcat => true,
        _ => false,
    };
    let found = tokens.iter().filter(joins).count();
    if found <= JOINED_MAX {
        return Ok(tokens);
    }
    Err(invalid(format!(
        "the text has {found} operators; the limit is {JOINED_MAX}. Use IN (...) for long lists of values"
    )))
}

/// Refuses a statement that is no query, and says what does the same.
fn check_reads(statement: &Statement) -> Result<(), DataFusionError> {
    match statement {
        Statement::Statement(statement) => check_statement(statement),
        Statement::Explain(explain) => check_reads(&explain.statement),
        Statement::CopyTo(_) => Err(no_query("COPY", Advice::WriteFile)),
        Statement::CreateExternalTable(_) => {
            Err(no_query("CREATE EXTERNAL TABLE", Advice::LoadFile))
        }
        Statement::Reset(_) => Err(no_query("RESET", Advice::PassOptions)),
    }
}

const TRANSACTIONS: &str = "each write is one commit, and each query reads one snapshot";
const VIEWS: &str = "use WITH to name a query inside another";
const VALUES: &str = "write the values into the text of the query";

fn check_statement(statement: &SqlStatement) -> Result<(), DataFusionError> {
    Err(match statement {
        SqlStatement::Explain { statement, .. } => return check_statement(statement),
        SqlStatement::Query(query) => return check_query(query),
        SqlStatement::ExplainTable { .. }
        | SqlStatement::ShowTables { .. }
        | SqlStatement::ShowColumns { .. }
        | SqlStatement::ShowFunctions { .. }
        | SqlStatement::ShowVariable { .. } => return Ok(()),
        SqlStatement::Insert(_) => no_query("INSERT", Advice::Append),
        SqlStatement::Update(_) => no_query("UPDATE", Advice::Update),
        SqlStatement::Merge(_) => no_query("MERGE", Advice::Replace),
        SqlStatement::Delete(_) => no_query("DELETE", Advice::Delete),
        SqlStatement::Truncate(_) => no_query("TRUNCATE", Advice::Truncate),
        SqlStatement::CreateTable(_) => no_query("CREATE TABLE", Advice::CreateTable),
        SqlStatement::Drop { .. } => no_query("DROP", Advice::DropTable),
        SqlStatement::AlterTable(_) => no_query("ALTER TABLE", Advice::AlterTable),
        SqlStatement::CreateView(_) => unsupported("CREATE VIEW", VIEWS),
        SqlStatement::Copy { .. } => no_query("COPY", Advice::WriteFile),
        SqlStatement::Set(_) => no_query("SET", Advice::PassOptions),
        SqlStatement::StartTransaction { .. } => unsupported("BEGIN", TRANSACTIONS),
        SqlStatement::Commit { .. } => unsupported("COMMIT", TRANSACTIONS),
        SqlStatement::Rollback { .. } => unsupported("ROLLBACK", TRANSACTIONS),
        SqlStatement::Prepare { .. } => unsupported("PREPARE", VALUES),
        SqlStatement::Execute { .. } => unsupported("EXECUTE", VALUES),
        other => {
            let text = other.to_string();
            let verb = text.split([' ', '(']).next().unwrap_or_default();
            unsupported(verb, "use SELECT, EXPLAIN, SHOW TABLES or DESCRIBE")
        }
    })
}

/// Queries may hold other statements, too.
fn check_query(query: &Query) -> Result<(), DataFusionError> {
    let mut named = query.with.iter().flat_map(|with| &with.cte_tables);
    named.try_for_each(|table| check_query(&table.query))?;
    match query.body.as_ref() {
        SetExpr::Insert(change)
        | SetExpr::Update(change)
        | SetExpr::Delete(change)
        | SetExpr::Merge(change) => check_statement(change),
        SetExpr::Select(select) if select.into.is_some() => {
            Err(no_query("SELECT INTO", Advice::AppendQuery))
        }
        _ => Ok(()),
    }
}

/// Each face has a call or an option for what the verb does.
fn no_query(verb: &str, advice: Advice) -> DataFusionError {
    to_datafusion(with_advice(ErrorKind::InvalidArgument, read_only(verb), advice))
}

/// Nothing outside of SQL does what the verb does.
fn unsupported(verb: &str, instead: &str) -> DataFusionError {
    invalid(format!("{}; {instead}", read_only(verb)))
}

fn read_only(verb: &str) -> String {
    format!("queries are read-only, so {verb} is not supported")
}

fn invalid(message: String) -> DataFusionError {
    to_datafusion(Error::new(ErrorKind::InvalidArgument, message))
}

/// The generic dialect, with `IS [NOT] DISTINCT FROM` bound as tightly as the other comparisons with IS.
///
/// sqlparser 0.62 takes all that follows for its right side: `a IS DISTINCT FROM b AND c` was `a IS DISTINCT FROM
/// (b AND c)`.
#[derive(Debug)]
struct Bound;

/// What the generic dialect answers to these questions. It is the list of all that it answers in another way than
/// `Dialect` does by default, which a new sqlparser may make longer.
macro_rules! as_generic {
    ($($question:ident),* $(,)?) => {
        $(fn $question(&self) -> bool { GenericDialect.$question() })*
    };
}

impl Dialect for Bound {
    fn parse_infix(
        &self,
        parser: &mut Parser,
        left: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        use Keyword::{DISTINCT, FROM, IS, NOT};
        let is_negated = match () {
            () if parser.parse_keywords(&[IS, DISTINCT, FROM]) => false,
            () if parser.parse_keywords(&[IS, NOT, DISTINCT, FROM]) => true,
            () => return None,
        };
        let right = parser.parse_subexpr(precedence);
        let of = if is_negated { Expr::IsNotDistinctFrom } else { Expr::IsDistinctFrom };
        Some(right.map(|right| of(Box::new(left.clone()), Box::new(right))))
    }

    /// For all else that depends on the dialect.
    fn dialect(&self) -> TypeId {
        TypeId::of::<GenericDialect>()
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        GenericDialect.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        GenericDialect.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        GenericDialect.is_identifier_part(ch)
    }

    as_generic!(
        supports_unicode_string_literal,
        supports_partition_by_after_order_by,
        supports_array_join_syntax,
        supports_group_by_expr,
        supports_group_by_with_modifier,
        supports_left_associative_joins_without_parens,
        supports_connect_by,
        supports_match_recognize,
        supports_pipe_operator,
        supports_start_transaction_modifier,
        supports_window_function_null_treatment_arg,
        supports_dictionary_syntax,
        supports_window_clause_named_window_reference,
        supports_parenthesized_set_variables,
        supports_select_wildcard_except,
        support_map_literal_syntax,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_extract_comma_syntax,
        supports_create_view_comment_syntax,
        supports_parens_around_table_factor,
        supports_values_as_table_factor,
        supports_create_index_with_clause,
        supports_explain_with_utility_options,
        supports_limit_comma,
        supports_update_order_by,
        supports_from_first_select,
        supports_projection_trailing_commas,
        supports_asc_desc_in_column_definition,
        supports_try_convert,
        supports_bitwise_shift_operators,
        supports_comment_on,
        supports_load_extension,
        supports_named_fn_args_with_assignment_operator,
        supports_struct_literal,
        supports_empty_projections,
        supports_nested_comments,
        supports_multiline_comment_hints,
        supports_user_host_grantee,
        supports_string_escape_constant,
        supports_array_typedef_with_brackets,
        supports_match_against,
        supports_set_names,
        supports_comma_separated_set_assignments,
        supports_filter_during_aggregation,
        supports_select_wildcard_exclude,
        supports_data_type_signed_suffix,
        supports_interval_options,
        supports_quote_delimited_string,
        supports_select_wildcard_replace,
        supports_select_wildcard_ilike,
        supports_select_wildcard_rename,
        supports_optimize_table,
        supports_install,
        supports_detach,
        supports_prewhere,
        supports_with_fill,
        supports_limit_by,
        supports_interpolate,
        supports_settings,
        supports_select_format,
        supports_comment_optimizer_hint,
        supports_constraint_keyword_without_name,
        supports_key_column_option,
        supports_comma_separated_trim,
        supports_cte_without_as,
        supports_select_item_multi_column_alias,
        supports_xml_expressions,
    );
}

#[cfg(test)]
mod tests {
    use drillcore_sample::rng::Rng;

    use super::*;
    use crate::trees::{Parsed, each_parsed};

    /// Infix operators from the loosest to the tightest, and how tightly each binds.
    const INFIX: [(&str, u8); 9] = [
        ("or", 1),
        ("and", 2),
        ("is distinct from", 4),
        ("is not distinct from", 4),
        ("=", 5),
        ("<", 5),
        ("+", 6),
        ("-", 6),
        ("*", 7),
    ];
    const NOT: u8 = 3;
    const IS: u8 = 4;

    /// An expression with as few parentheses as it takes, and with all.
    struct Text {
        few: String,
        all: String,
        /// Of the operator that is applied last.
        binds: u8,
    }

    fn random(rng: &mut Rng, depth: u64) -> Text {
        if depth == 0 || rng.below(5) == 0 {
            let name = ["a", "b", "c", "1"][rng.below(4) as usize].to_string();
            return Text { few: name.clone(), all: name, binds: u8::MAX };
        }
        let within = |text: &Text, needed: bool| match needed {
            true => format!("({})", text.few),
            false => text.few.clone(),
        };
        let (choice, left) = (rng.below(12) as usize, random(rng, depth - 1));
        match INFIX.get(choice) {
            Some((operator, binds)) => {
                let right = random(rng, depth - 1);
                // Equal ones stand from left to right.
                let (few_left, few_right) =
                    (within(&left, left.binds < *binds), within(&right, right.binds <= *binds));
                let few = format!("{few_left} {operator} {few_right}");
                Text { few, all: format!("({} {operator} {})", left.all, right.all), binds: *binds }
            }
            None if choice < 10 => {
                let few = format!("not {}", within(&left, left.binds < NOT));
                Text { few, all: format!("(not {})", left.all), binds: NOT }
            }
            None => {
                let few = format!("{} is null", within(&left, left.binds < IS));
                Text { few, all: format!("({} is null)", left.all), binds: IS }
            }
        }
    }

    fn tree(text: &str) -> Expr {
        let mut parsed = expression(text).unwrap_or_else(|error| panic!("{text}: {error}")).expr;
        let bared = each_parsed(&mut parsed, &mut |part| {
            let Parsed::Expr(expr) = part else { return Ok(()) };
            while let Expr::Nested(inner) = expr {
                *expr = inner.as_ref().clone();
            }
            Ok(())
        });
        bared.unwrap();
        parsed
    }

    #[test]
    fn operators_bind_as_tightly_beside_is_distinct_from_as_elsewhere() {
        for seed in 0..3_000 {
            let text = random(&mut Rng::keyed(seed, 3), 4);
            let (few, all) = (tree(&text.few), tree(&text.all));
            assert_eq!(few, all, "seed {seed}: {} is {}", text.few, text.all);
        }
    }

    #[test]
    fn comparisons_with_is_distinct_from_can_be_many() {
        let part = "a is distinct from b and c is not distinct from d";
        let text = vec![part; 300].join(" and ");
        assert!(expression(&text).is_ok());
    }
}

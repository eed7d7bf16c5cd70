//! Queries that are refused, and what the errors say.

use drillcore::*;
use drillcore_sql::{QueryOptions, query};

use crate::fixtures::*;
use crate::query::{database, refused};

#[test]
fn what_cannot_be_meant_is_refused() {
    let db = database(100);
    let said = |text: &str| refused(&db, text).to_string();
    let unknown = refused(&db, "select * from flihgts");
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
    assert!(unknown.to_string().contains("did you mean \"flights\"?"), "{unknown}");
    let unknown = refused(&db, "select carier from flights");
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
    assert!(unknown.to_string().contains("did you mean \"carrier\"?"), "{unknown}");
    assert!(said("select * fro flights").contains("invalid SQL"));
    assert!(said("select x.carrier from flights f").contains("unknown table \"x\""));
    let quoted = said("select carrier from flights where carrier = \"UA\"");
    assert!(quoted.contains("Use single quotes for strings"), "{quoted}");
    assert!(said("select summ(delay) from flights").contains("did you mean \"sum\"?"));
    assert!(said("select * from smple('flights', 3)").contains("did you mean \"sample\"?"));
    let text = said("select sum(carrier) from flights");
    assert!(text.starts_with("no function matches sum(string); use sum(Decimal), "), "{text}");
    assert!(!text.contains("bug"), "{text}");
    let ambiguous = "select carrier from flights f join airlines a on f.carrier = a.carrier";
    assert!(said(ambiguous).contains("several tables have a column carrier"));
    let ungrouped = said("select carrier, delay from flights group by carrier");
    assert!(ungrouped.starts_with("flights.delay is neither in GROUP BY nor"), "{ungrouped}");
    let substring = said("select substr(1)");
    assert_eq!(substring, "Substring without for/from is not valid");
    let quoted = said("select cast('Error Foo { code: 1 }' as bigint)");
    assert!(quoted.starts_with("\"Error Foo { code: 1 }\" is not a valid int64; "), "{quoted}");
    let try_cast = "use a value of that type, or try_cast to get null instead";
    for (text, found) in [
        ("select * from flights where flight = 'x'", "\"x\" is not a valid int64"),
        (
            "select cast(carrier as date) from flights where carrier = 'UA'",
            "\"UA\" is not a valid date32",
        ),
        ("select cast('it''s to value of' as int)", "\"it's to value of\" is not a valid int32"),
    ] {
        assert_eq!(said(text), format!("{found}; {try_cast}"));
    }
    for (text, name) in [
        ("select flight, flight from flights", "flights.flight"),
        ("select delay as a, flight as a from flights", "a"),
        ("select sum(delay), sum(delay) from flights", "sum(flights.delay)"),
    ] {
        let expected = format!("two result columns have the name {name:?}; name one with AS");
        assert_eq!(said(text), expected);
    }
    for (text, expected) in [
        ("select * from flights where", "an expression"),
        ("select * from", "an identifier"),
        ("select (1", ")"),
    ] {
        let ends = format!("invalid SQL: the text ends where {expected} is expected; complete it");
        assert_eq!(said(text), ends);
    }
    let window = refused(&db, "select sum(delay) over w from flights");
    assert_eq!(window.kind(), ErrorKind::NotFound);
    assert_eq!(window.to_string(), "unknown window \"w\"; define it with WINDOW w AS (...)");
    assert!(said("select * from flights where sum(delay) > 3").contains("HAVING"));
    assert!(said("select * from flights limit delay").contains("columns cannot be used here"));
    let later =
        "select (select max(g.delay) from flights g where g.flight > f.flight) from flights f";
    assert!(said(later).contains("columns with = only; join with"), "{}", said(later));
    let out_of_range = |text: &str| {
        let error = refused(&db, text);
        assert_eq!(error.kind(), ErrorKind::OutOfRange, "{text}: {error}");
        error.to_string()
    };
    let digits = out_of_range("select ceil(cast(999.99 as decimal(5, 2)))");
    assert!(digits.contains("a decimal of more digits"), "{digits}");
    let day = "arrow_cast('2020-03-07T02:30:00', 'Timestamp(s, \"America/New_York\")')";
    let skipped = out_of_range(&format!("select {day} + interval '1 day'"));
    assert!(skipped.contains("add hours instead of days"), "{skipped}");
    for text in ["", "select 1; select 2", "select * from 'file.csv'"] {
        let error = refused(&db, text);
        assert!(
            matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::NotFound),
            "{text}: {error}"
        );
    }
    assert!(said("select * from flights tablesample (5)").contains("5 ROWS or 5 PERCENT"));
    assert!(said("select * from flights tablesample (-5 rows)").contains("whole number"));
    assert!(said("select * from flights tablesample (1.5 rows)").contains("whole number"));
    assert!(said("select * from flights tablesample (101 percent)").contains("between 0 and 100"));
    assert!(said("select * from flights tablesample system (5)").contains("whole blocks"));
    assert!(said("select * from flights tablesample bernoulli (5 rows)").contains("percentage"));
    assert!(said("select * from flights tablesample (bucket 1 out of 5)").contains("BUCKET"));
    let seed = "select * from flights tablesample (5 rows) repeatable";
    assert!(said(&format!("{seed} (-1)")).contains("invalid SQL"));
    assert!(said(&format!("{seed} (1.5)")).contains("seed"));
    assert!(said("select * from (select 1) s tablesample (5 rows)").contains("needs a table"));
    let cte = "with s as (select * from flights) select * from s tablesample (5 rows)";
    assert!(said(cte).contains("needs a table"));
    let renamed = "select * from flights f(a, b, c) tablesample (5 rows)";
    assert!(said(renamed).contains("cannot rename columns"));
    let sample = "select * from flights f tablesample (5 rows) where";
    for outer in [
        "exists (select 1 from airlines a where a.carrier = f.carrier)",
        "delay > (select avg(delay) from flights g where g.carrier = f.carrier)",
        "carrier in (select carrier from airlines where length(name) = f.delay)",
    ] {
        assert!(
            said(&format!("{sample} {outer}")).contains("refers to the sampled row"),
            "{outer}"
        );
    }
    assert!(said(&format!("{sample} delay > all (select 1)")).contains("ANY or ALL"));
    let several = format!("{sample} delay = (select delay from flights)");
    assert!(said(&several).contains("several"), "{}", said(&several));
    assert!(said("select * from sample('flihgts', 5)").contains("did you mean"));
    assert!(said("select * from sample('flights', -5)").contains("sample('flights', 100)"));
    assert!(said("select * from sample('flights')").contains("sample('flights', 100)"));
    let options = QueryOptions { threads: Some(0), ..Default::default() };
    assert!(query(&db.snapshot().unwrap(), "select 1", &options).is_err());
    // Errors that rows make come out too, and the next query runs.
    assert!(said("select 1 / (flight - 5) from flights").contains("zero"));
    assert_eq!(numbers(&run(&db, "select count(*) from flights")), [100]);
}

/// A statement that is no query is answered with the call that does what it would.
#[test]
fn a_statement_that_changes_something_names_the_call_that_does_it() {
    let db = database(100);
    let each = "pass threads and memory_bytes with each query";
    let commits = "each write is one commit, and each query reads one snapshot";
    let text = "write the values into the text of the query";
    let query = "use SELECT, EXPLAIN, SHOW TABLES or DESCRIBE";
    let drop = "use drop_table to remove a table";
    for (text, verb, instead) in [
        ("insert into flights values ('AA', 1, 2)", "INSERT", "use append to add rows"),
        (
            "with x as (select * from flights) insert into flights select * from x",
            "INSERT",
            "use append to add rows",
        ),
        ("update flights set delay = 0", "UPDATE", "use update to change rows of an upsert table"),
        (
            "merge into flights f using flights g on f.flight = g.flight when matched then delete",
            "MERGE",
            "use append to add or replace rows of an upsert table",
        ),
        ("delete from flights", "DELETE", "use delete_selected to delete rows"),
        ("explain delete from flights", "DELETE", "use delete_selected to delete rows"),
        (
            "with x as (delete from flights returning *) select * from x",
            "DELETE",
            "use delete_selected to delete rows",
        ),
        (
            "truncate table flights",
            "TRUNCATE",
            "use truncate to delete all rows, or drop_table to remove a table",
        ),
        ("drop table flights", "DROP", drop),
        ("create table x (a int)", "CREATE TABLE", "use create_table"),
        ("create table x as select 1", "CREATE TABLE", "use create_table"),
        (
            "create external table x stored as csv location 'x.csv'",
            "CREATE EXTERNAL TABLE",
            "use create_table, then load the file into the table",
        ),
        (
            "alter table flights add column gate int",
            "ALTER TABLE",
            "use add_column, rename_column, drop_column or widen",
        ),
        ("create view late as select 1", "CREATE VIEW", "use WITH to name a query inside another"),
        (
            "select * into x from flights",
            "SELECT INTO",
            "use append to add the rows of a query to a table",
        ),
        ("copy flights to 'x.csv'", "COPY", "write the rows of a query to a file instead"),
        ("copy (select 1) to 'x.csv'", "COPY", "write the rows of a query to a file instead"),
        ("explain copy flights to 'x.csv'", "COPY", "write the rows of a query to a file instead"),
        ("set datafusion.execution.batch_size = 1", "SET", each),
        ("set time zone 'UTC'", "SET", each),
        ("reset datafusion.execution.batch_size", "RESET", each),
        ("begin", "BEGIN", commits),
        ("commit", "COMMIT", commits),
        ("rollback", "ROLLBACK", commits),
        ("prepare p as select 1", "PREPARE", text),
        ("execute p", "EXECUTE", text),
        ("grant select on flights to x", "GRANT", query),
        ("create schema x", "CREATE", query),
        ("create index i on flights (delay)", "CREATE", query),
        ("vacuum", "VACUUM", query),
        ("use x", "USE", query),
    ] {
        let error = refused(&db, text);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}: {error}");
        let expected = format!("queries are read-only, so {verb} is not supported; {instead}");
        assert_eq!(error.to_string(), expected, "{text}");
    }
    for text in ["show tables", "describe flights", "show columns from flights", "explain select 1"]
    {
        assert!(!run(&db, text).is_empty(), "{text}");
    }
    assert_eq!(numbers(&run(&db, "select count(*) from flights")), [100]);
}

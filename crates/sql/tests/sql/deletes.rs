//! `DELETE` statements.

use std::sync::Arc;

use drillcore::arrow_array::{ArrayRef, Int64Array, StringArray};
use drillcore::*;
use drillcore_sql::Parameters;

use crate::fixtures::*;

fn flights() -> Database {
    let db = Database::in_memory(Options::default()).unwrap();
    let carriers: StringArray = (0..100).map(|id| Some(["UA", "DL"][id % 2])).collect();
    let rows = rows_of([
        ("id", Arc::new(Int64Array::from_iter_values(0..100)), false),
        ("carrier", Arc::new(carriers), true),
    ]);
    add_table_of(&db, "flights", TableSpec::new(rows.schema(), ["id"]).set("carrier"), &rows);
    db
}

fn delete(db: &Database, text: &str) -> Result<Option<DeleteResult>> {
    drillcore_sql::delete(db, text, &Parameters::None, &Interrupt::never())
}

#[test]
fn a_delete_gives_its_rows_and_leaves_others() {
    let db = flights();
    assert_eq!(delete(&db, "select 1").unwrap(), None);
    let deleted = delete(&db, " DELETE from flights where carrier = 'UA' and id >= 50").unwrap();
    assert_eq!(deleted.unwrap().rows, 25);
    let commented = "-- by hand\n/* /* twice */ over */ delete from flights where id = 99";
    assert_eq!(delete(&db, commented).unwrap().unwrap().rows, 1);
    for other in
        ["-- delete\nselect 1", "/* delete from flights */", "\"delete\"", "select 'delete'"]
    {
        assert_eq!(delete(&db, other).unwrap(), None, "{other}");
    }
    let listed = Parameters::Listed(vec![Arc::new(Int64Array::from(vec![10])) as ArrayRef]);
    let text = "delete from flights where id < ?";
    let deleted = drillcore_sql::delete(&db, text, &listed, &Interrupt::never()).unwrap();
    assert_eq!(deleted.unwrap().rows, 10);
    assert_eq!(db.table("flights").unwrap().snapshot().unwrap().rows().unwrap(), 64);
}

#[test]
fn a_delete_that_is_more_or_less_than_one_is_refused() {
    let db = flights();
    for (text, kind, message) in [
        ("delete from flights", ErrorKind::InvalidArgument, "call truncate"),
        (
            "delete from flights where id = 1 returning id",
            ErrorKind::InvalidArgument,
            "other clauses",
        ),
        ("delete from flights as f where f.id = 1", ErrorKind::InvalidArgument, "other clauses"),
        (
            "delete from flights where id = 1; delete from flights where id = 2",
            ErrorKind::InvalidArgument,
            "2 statements",
        ),
        ("delete from flight where id = 1", ErrorKind::NotFound, "flights"),
        ("delete from flights where idd = 1", ErrorKind::NotFound, "id"),
        (
            "delete from flights tablesample (5 rows) where id > 1",
            ErrorKind::InvalidArgument,
            "other clauses",
        ),
        (
            "delete from flights where id in (select id from flights)",
            ErrorKind::InvalidArgument,
            "a condition cannot contain a subquery; run it as a query first",
        ),
        (
            "delete from flights where id = 1 or id < (select max(id) from flights)",
            ErrorKind::InvalidArgument,
            "a condition cannot contain a subquery",
        ),
        ("delete flights when", ErrorKind::InvalidArgument, ""),
    ] {
        let error = delete(&db, text).unwrap_err();
        assert_eq!(error.kind(), kind, "{text}: {error}");
        assert!(error.to_string().contains(message), "{text}: {error}");
    }
    assert_eq!(db.table("flights").unwrap().snapshot().unwrap().rows().unwrap(), 100);
}

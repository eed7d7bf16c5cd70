//! Queries over columns that lie by themselves beside the rows: what they do not name is not read.

use std::sync::Arc;

use drillcore::arrow_array::{ArrayRef, Int64Array};
use drillcore::*;
use drillcore_sql::QueryOptions;

use crate::fixtures::*;

/// Three groups of rows, the last of them short.
const ROWS: i64 = 70_001;

#[test]
fn a_query_reads_the_columns_that_it_names_and_no_other() {
    let files = Arc::new(directory::MemoryDirectory::new());
    let options = Options { cache_bytes: 0, maintenance_threads: 1, ..Default::default() };
    let db = Database::open_in(files, options).unwrap();
    // Scattered, so that no zone says that its rows cannot pass.
    let scattered = |factor: i64, below: i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..ROWS).map(|id| id * factor % below)))
    };
    let ids = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let rows = rows_of([
        ("id", ids, false),
        ("x", scattered(7919, 1009), true),
        ("y", scattered(31, 7), true),
        ("z", scattered(17, 1 << 30), true),
    ]);
    add_table(&db, "t", &rows);
    db.compact().unwrap();
    let pages = || db.stats().map(|of| (of.stream_pages_read, of.blocks_read)).unwrap();
    let pages_of = |text: &str| {
        let before = pages();
        let one = QueryOptions { threads: Some(1), ..Default::default() };
        let found = run_with(&db, text, &one);
        assert!(found.iter().map(|batch| batch.num_rows()).sum::<usize>() > 0, "{text}");
        (pages().0 - before.0, pages().1 - before.1)
    };
    // The first time the directory, too.
    assert_eq!(pages_of("select sum(x) from t"), (3 + 1, 0));
    for (text, streams) in [
        ("select count(*) from t", 0),
        ("select sum(x) from t", 3),
        ("select avg(x), min(x), count(x) from t", 3),
        ("select count(*) from t where x > 500", 3),
        ("select sum(x) from t where x > 500", 3),
        ("select y, sum(x) from t group by y", 6),
        ("select sum(z) from t where x > 500", 6),
        ("select count(distinct y) from t", 3),
    ] {
        assert_eq!(pages_of(text), (streams, 0), "{text}");
    }
}

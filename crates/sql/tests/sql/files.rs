//! Files beside tables: what is read of them, and what is refused.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::*;
use drillcore::arrow_schema::DataType;
use drillcore::*;
use drillcore_sql::QueryOptions;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use crate::fixtures::*;

fn database() -> Database {
    database_of(&rows_of([("id", Arc::new(Int64Array::from_iter_values(0..100)), false)]))
}

/// Numbers from 0 to `rows` with their halves, 10,000 to a row group.
fn write_parquet(path: &Path, rows: i64) {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("n", Arc::new(Int64Array::from_iter_values(0..rows))),
        ("half", Arc::new(Float64Array::from_iter_values((0..rows).map(|n| n as f64 / 2.0)))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(10_000)).build();
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn ask(db: &Database, text: &str) -> Result<Vec<RecordBatch>> {
    answer(db, text, &QueryOptions::default())
}

fn ints(db: &Database, text: &str) -> Vec<i64> {
    numbers(&run(db, text))
}

fn plan(db: &Database, text: &str) -> String {
    texts(&run(db, &format!("explain {text}")), 1)
}

#[test]
fn row_groups_in_which_no_row_can_pass_are_not_read() {
    let (db, folder) = (database(), tempfile::tempdir().unwrap());
    let path = folder.path().join("n.parquet");
    write_parquet(&path, 95_000);
    let from = format!("from read_parquet('{}')", path.display());
    assert!(plan(&db, &format!("select half {from}")).contains("columns=[half], row_groups=10"));
    let few = format!("select n {from} where n between 19998 and 20001 order by n");
    assert!(plan(&db, &few).contains("row_groups=2"), "{}", plan(&db, &few));
    assert_eq!(ints(&db, &few), vec![19_998, 19_999, 20_000, 20_001]);
    // Of floats, bounds leave out NaN.
    let half = format!("select n {from} where half > 47499 order by n");
    assert!(plan(&db, &half).contains("row_groups=10"));
    assert_eq!(ints(&db, &half), vec![94_999]);
    let joined = format!("select id {from} join t on n = id where id >= 98 order by id");
    assert_eq!(ints(&db, &joined), vec![98, 99]);
    assert_eq!(ints(&db, &format!("select count(*) {from}")), vec![95_000]);
    assert_eq!(ints(&db, &format!("select n {from} limit 3")).len(), 3);
}

#[test]
fn a_quote_that_is_not_closed_does_not_take_the_file_into_memory() {
    let (db, folder) = (database(), tempfile::tempdir().unwrap());
    let path = folder.path().join("open.csv");
    let mut file = BufWriter::new(File::create(&path).unwrap());
    // One in the middle of a value opens nothing.
    file.write_all(b"a,b\n1,5\" pipe\n2,\"open\n").unwrap();
    for _ in 0..90 {
        file.write_all(&[b'x'; 1 << 20]).unwrap();
        file.write_all(b"\n").unwrap();
    }
    file.into_inner().unwrap().sync_all().unwrap();
    let error = ask(&db, &format!("select * from read_csv('{}')", path.display())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let message = error.to_string();
    assert!(message.contains("open.csv") && message.contains("not closed"), "{message}");
}

#[test]
fn a_quote_that_is_never_closed_is_an_error_that_names_the_line_that_opens_it() {
    let (db, folder) = (database(), tempfile::tempdir().unwrap());
    let path = folder.path().join("open.csv");
    for (text, line) in [
        // All that stands behind it would be one value.
        ("id,c\n1,\"a\nxxx\n", 2),
        ("id,c\r\n1,\"a\r\nb\"\r\n\r\n2,\"c\r\n", 5),
        ("id,c\n1,\"", 2),
        ("id,c\n1,\"a\"\"\n", 2),
    ] {
        std::fs::write(&path, text).unwrap();
        let text = format!("select * from read_csv('{}')", path.display());
        let error = ask(&db, &text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let message = error.to_string();
        let said = format!("line {line}: the quote that opens here is not closed; add");
        assert!(message.contains("open.csv") && message.contains(&said), "{message}");
    }
    // The last line need not end.
    std::fs::write(&path, "id,c\n1,\"a\"").unwrap();
    let text = format!("select id from read_csv('{}') where c = 'a'", path.display());
    assert_eq!(ints(&db, &text), vec![1]);
}

#[test]
fn a_damaged_csv_file_is_refused_by_line_with_what_to_do() {
    let (db, folder) = (database(), tempfile::tempdir().unwrap());
    let path = folder.path().join("bad.csv");
    for (text, said) in [
        (
            &b"a,b\n1,2\n\n3\n4,5\n"[..],
            "line 4: expected 2 values, as many as the first line names, but found 1",
        ),
        (
            b"a,b\n1,\"x\ny\"\n2,z,3",
            "line 4: expected 2 values, as many as the first line names, but found 3",
        ),
        (b"a,b\n1,2\n\xff,3\n", "line 3: the text is not valid UTF-8; save the file as UTF-8"),
        (b"a\n2013-02-28\n2013-02-31\n", "row 2: \"2013-02-31\" is not a date32, unlike"),
    ] {
        std::fs::write(&path, text).unwrap();
        let text = format!("select * from read_csv('{}')", path.display());
        let error = ask(&db, &text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let message = error.to_string();
        assert!(message.contains("bad.csv") && message.contains(said), "{message}");
    }
    // A blank line is no row, and neither is the end of a line of its own.
    std::fs::write(&path, "a,b\r\n1,2\r\n\r\n3,\r\n\n").unwrap();
    let text = format!("select a from read_csv('{}')", path.display());
    assert_eq!(ints(&db, &text), vec![1, 3]);
}

#[test]
fn values_in_quotes_may_have_quotes_and_lines() {
    let (db, folder) = (database(), tempfile::tempdir().unwrap());
    let path = folder.path().join("quotes.csv");
    std::fs::write(&path, "a,b\r\n\"1\",\"x \"\"y\"\"\nz\"\r\n2,5\" pipe\r\n").unwrap();
    let from = format!("from read_csv('{}')", path.display());
    let text = format!("select a {from} where b = 'x \"y\"\nz' or b = '5\" pipe' order by a");
    assert_eq!(ints(&db, &text), vec![1, 2]);
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let db = database();
    for (path, kind, wanted) in [
        ("/nowhere/at/all", ErrorKind::NotFound, "there is no file"),
        ("/", ErrorKind::Io, "not a regular file"),
        ("/dev/zero", ErrorKind::Io, "not a regular file"),
    ] {
        for function in ["read_csv", "read_parquet"] {
            let error = ask(&db, &format!("select * from {function}('{path}')")).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(wanted), "{error}");
        }
    }
}

#[test]
fn a_column_of_times_with_a_leap_second_is_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("times.csv");
    let answer = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let found = ask(&database(), &format!("select at from read_csv('{}')", path.display()));
        found.unwrap().remove(0).column(0).clone()
    };
    for leap in ["2016-12-31T23:59:60", "2016-12-31T23:59:60.75Z"] {
        let found = answer(&format!("at\n2020-01-01T00:00:00\n{leap}\n"));
        assert_eq!(found.as_string::<i32>().value(1), leap);
    }
    let found = answer("at\n2020-01-01T00:00:00\n");
    assert!(matches!(found.data_type(), DataType::Timestamp(_, None)), "{found:?}");
}

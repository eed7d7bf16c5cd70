//! The command as scripts use it: what it prints, and how it exits.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{ArrayRef, BinaryArray, Int64Array, RecordBatch};
use parquet::arrow::ArrowWriter;

fn drillcore(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drillcore"));
    command.current_dir(folder).args(arguments).output().unwrap()
}

/// What a call that must succeed prints.
fn prints(folder: &Path, arguments: &[&str]) -> String {
    let output = drillcore(folder, arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// The exit code and the message of a call that must fail.
fn fails(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let output = drillcore(folder, arguments);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{arguments:?} succeeded");
    (output.status.code().unwrap(), message)
}

const CSV: &str = "hour,city,delay\n2024-01-01T00:00:00,Oslo,5\n2024-01-01T00:00:00,Rome,\n\
                   2024-01-01T01:00:00,Oslo,7\n2024-01-01T02:00:00,,9\n";

/// A folder with `db`, whose table `t` holds the rows of `CSV`.
fn with_table() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.csv"), CSV).unwrap();
    let key = ["--key", "hour,city", "--set", "city", "--quiet"];
    let printed = prints(folder.path(), &[&["ingest", "db", "t", "a.csv"], &key[..]].concat());
    assert_eq!(printed, "4 rows appended to t, 0 left out\n");
    folder
}

#[test]
fn rows_come_back_by_every_verb() {
    let folder = with_table();
    let run = |arguments: &[&str]| prints(folder.path(), arguments);
    assert_eq!(run(&["scan", "db", "t", "--output", "csv"]), CSV);
    assert_eq!(run(&["count", "db", "t"]), "4\n");
    assert_eq!(run(&["count", "db", "t", "--set", "Oslo"]), "2\n");
    assert_eq!(run(&["count", "db", "t", "--null-set"]), "1\n");
    assert_eq!(
        run(&["count", "db", "t", "--from", "2024-01-01T01:00:00", "--to", "2024-01-01T01:00:00"]),
        "1\n"
    );
    let row = run(&["get", "db", "t", "2024-01-01T01:00:00", "Oslo", "--output", "jsonl"]);
    assert_eq!(row, "{\"hour\":\"2024-01-01T01:00:00\",\"city\":\"Oslo\",\"delay\":7}\n");
    let sample =
        ["sample", "db", "t", "3", "--seed", "1", "--columns", "city,delay", "--output", "csv"];
    assert_eq!(run(&sample).lines().count(), 4);
    assert_eq!(run(&sample), run(&sample), "one seed, one sample");
    assert_eq!(run(&["sets", "db", "t", "--output", "csv"]), "set,rows\n,1\nOslo,2\nRome,1\n");
    let estimate = run(&["estimate", "db", "t", "avg(delay)", "--output", "csv"]);
    assert_eq!(estimate.lines().nth(1), Some("7.0,7.0,7.0,4"), "all rows drawn: exact");
    assert!(run(&["scan", "db", "t"]).ends_with("4 rows\n"));
    run(&["compact", "db"]);
    assert_eq!(run(&["verify", "db"]).split(',').next(), Some("1 segments"));
    assert!(run(&["stats", "db"]).contains("\"rows\":4"));
}

#[test]
fn packed_files_other_formats_and_standard_input_are_read() {
    let folder = with_table();
    let path = |name: &str| folder.path().join(name);
    let gz = std::fs::File::create(path("b.csv.gz")).unwrap();
    let mut gz = flate2::write::GzEncoder::new(gz, flate2::Compression::fast());
    gz.write_all(CSV.as_bytes()).unwrap();
    gz.finish().unwrap();
    std::fs::write(path("c.csv.zst"), zstd::encode_all(CSV.as_bytes(), 1).unwrap()).unwrap();
    let line = r#"{"hour": "2024-01-02T00:00:00", "city": "Bern", "delay": 1}"#;
    std::fs::write(path("d.jsonl"), line).unwrap();
    let arrow = drillcore(folder.path(), &["scan", "db", "t", "--output", "arrow"]).stdout;
    std::fs::write(path("e.arrow"), arrow).unwrap();
    let files = ["b.csv.gz", "c.csv.zst", "d.jsonl", "e.arrow"];
    let printed = prints(folder.path(), &[&["ingest", "db", "t", "--quiet"], &files[..]].concat());
    assert_eq!(printed, "13 rows appended to t, 0 left out\n");

    let mut child = Command::new(env!("CARGO_BIN_EXE_drillcore"))
        .current_dir(folder.path())
        .args(["ingest", "db", "t", "-", "--quiet"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(CSV.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(prints(folder.path(), &["count", "db", "t"]), "21\n");
}

#[test]
fn lists_and_binary_go_through_every_format_that_can_hold_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let run = |arguments: &[&str]| prints(folder.path(), arguments);
    let mut tags = ListBuilder::new(StringBuilder::new());
    tags.append_value([Some("a"), None]);
    tags.append_value([None::<&str>; 0]);
    tags.append_null();
    let photos = BinaryArray::from(vec![Some(&[0xff, 0x01][..]), None, Some(&[])]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..3))),
        ("tags", Arc::new(tags.finish())),
        ("photo", Arc::new(photos)),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let file = std::fs::File::create(path("a.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let ingest =
        |table: &str, file: &str| run(&["ingest", "db", table, file, "--key=id", "--quiet"]);
    ingest("t", "a.parquet");

    let jsonl = run(&["scan", "db", "t", "--output", "jsonl"]);
    let expected = "{\"id\":0,\"tags\":[\"a\",null],\"photo\":\"ff01\"}\n{\"id\":1,\"tags\":[]}\n\
                    {\"id\":2,\"photo\":\"\"}\n";
    assert_eq!(jsonl, expected);
    std::fs::write(path("b.jsonl"), &jsonl).unwrap();
    let arrow = drillcore(folder.path(), &["scan", "db", "t", "--output", "arrow"]).stdout;
    std::fs::write(path("c.arrow"), arrow).unwrap();
    for file in ["b.jsonl", "c.arrow"] {
        // JSON does not say that text is binary in hex: the table does.
        ingest("t", file);
        let again = run(&["scan", "db", "t", "--output", "jsonl"]);
        let mut distinct: Vec<&str> = again.lines().collect();
        distinct.dedup();
        assert_eq!(distinct, jsonl.lines().collect::<Vec<_>>(), "{file}");
    }
    let table = run(&["get", "db", "t", "0"]);
    assert!(table.contains("| 0  | [a, ] | ff01  |"), "{table}");

    let scan = ["scan", "db", "t", "--output", "csv"];
    let (code, message) = fails(folder.path(), &scan);
    assert!(code == 2 && message.contains("column \"tags\" holds lists"), "{message}");
    let photos = run(&[&scan[..], &["--columns", "photo", "--limit", "1"]].concat());
    assert_eq!(photos, "photo\nff01\n");
    std::fs::write(path("d.csv"), "id,photo\n9,ff01\n").unwrap();
    let (_, message) = fails(folder.path(), &["ingest", "db", "t", "d.csv", "--quiet"]);
    assert!(message.contains("column \"photo\" stores Binary, which CSV cannot hold"), "{message}");
}

#[test]
fn what_is_wrong_is_said_and_the_exit_code_tells_what_to_do() {
    let folder = with_table();
    let fails = |arguments: &[&str]| fails(folder.path(), arguments);
    let (code, message) = fails(&["count", "db", "tt"]);
    assert_eq!(
        (code, message.as_str()),
        (2, "drillcore: unknown table \"tt\"; did you mean \"t\"?\n")
    );
    let (code, message) = fails(&["scan", "db", "t", "--columns", "cty"]);
    assert_eq!(
        (code, message.as_str()),
        (2, "drillcore: unknown column \"cty\"; did you mean \"city\"?\n")
    );
    assert_eq!(fails(&["count", "nowhere", "t"]).0, 2);
    assert_eq!(fails(&["sample", "db", "t", "5"]).0, 2);
    assert_eq!(fails(&["sample", "db", "t", "many"]).0, 2);
    assert_eq!(fails(&["count", "db", "t", "--from", "yesterday"]).0, 2);
    assert_eq!(fails(&["get", "db", "t", "2024-01-01T01:00:00", "Bern"]).0, 1, "no such row");
    assert_eq!(fails(&["ingest", "db", "new", "a.csv"]).0, 2, "a new table needs a key");
    assert_eq!(fails(&["ingest", "db", "t", "missing.csv"]).0, 3);
    assert_eq!(fails(&["estimate", "db", "t", "sum(delay)"]).0, 2);

    std::fs::write(
        folder.path().join("bad.csv"),
        "hour,city,delay\n2024-01-03T00:00:00,Oslo,soon\n",
    )
    .unwrap();
    let (code, message) = fails(&["ingest", "db", "t", "bad.csv", "--quiet"]);
    assert_eq!(code, 2);
    assert!(message.contains("bad.csv") && message.contains("soon"), "{message}");
    std::fs::write(
        folder.path().join("strange.csv"),
        "hour,city,dealy\n2024-01-03T00:00:00,Oslo,1\n",
    )
    .unwrap();
    let (code, message) = fails(&["ingest", "db", "t", "strange.csv", "--quiet"]);
    assert!(code == 2 && message.contains("did you mean \"delay\"?"), "{message}");
    assert_eq!(prints(folder.path(), &["count", "db", "t"]), "4\n", "nothing was changed");
}

#[test]
fn bench_prints_a_table_and_figures_of_both_engines() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["bench", "sets", "--rows", "2000", "--repetitions", "1"];
    let printed = prints(folder.path(), &arguments);
    let figures: Vec<&str> = printed.lines().filter(|line| line.starts_with('{')).collect();
    for engine in ["drillcore", "sqlite"] {
        let named = format!("\"engine\":\"{engine}\"");
        assert!(figures.iter().any(|line| line.contains(&named)), "{printed}");
    }
    let (code, message) = fails(folder.path(), &["bench", "sets", "--rows", "1"]);
    assert!(code == 2 && message.contains("2000"), "{message}");
}

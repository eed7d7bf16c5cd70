//! The command as scripts use it: what it prints, and how it exits.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{
    ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray, TimestampSecondArray,
};
use drillcore::{Database, OnError, Options};
use parquet::arrow::ArrowWriter;

use crate::{drillcore, prints, refused};

/// The command, begun with Ctrl-C ignored, as it is behind `nohup`: an interrupt that comes before it has set its
/// handler is lost, and does not end it otherwise than we want to see. The shell that begins it says when it ignores
/// Ctrl-C; what the command itself prints is behind that line.
fn begin_deaf(folder: &Path, arguments: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let mut shell = Command::new("sh");
    shell.current_dir(folder).args(["-c", "trap '' INT; echo deaf; exec \"$0\" \"$@\""]);
    shell.arg(env!("CARGO_BIN_EXE_drillcore")).args(arguments);
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = shell.spawn().unwrap();
    let mut printed = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    printed.read_line(&mut first).unwrap();
    assert_eq!(first, "deaf\n");
    (child, printed)
}

/// What a child process ends with that is interrupted until it does.
fn interrupted(mut child: Child) -> Output {
    let asked = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if asked.elapsed() > Duration::from_secs(20) {
            child.kill().unwrap();
            panic!("it goes on: {:?}", child.wait_with_output());
        }
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().is_ok());
        std::thread::sleep(Duration::from_millis(50));
    }
    child.wait_with_output().unwrap()
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
    assert_eq!(run(&["scan", "db", "t", "--output", "csv", "--threads", "2"]), CSV);
    let drawn = |threads| run(&["sample", "db", "t", "2", "--seed", "1", "--threads", threads]);
    assert_eq!(drawn("1"), drawn("3"));
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
    run(&["estimate", "db", "t", "count", "--by", "city", "-n", "2", "--simultaneous"]);
    let sum = "sum(delay * 2) filter (where delay > -1e9)";
    let several = run(&["estimate", "db", "t", sum, "median(delay)", "--output", "csv"]);
    assert!(several.lines().nth(1).unwrap().starts_with("42.0,42.0,42.0,"), "{several}");
    let by = ["--by", "city", "--by", "upper(city)"];
    let header = run(&[&["estimate", "db", "t", "count", "--output", "csv"][..], &by].concat());
    assert!(header.starts_with("city,upper(city),count,"), "{header}");
    assert!(run(&["scan", "db", "t"]).ends_with("4 rows\n"));
    run(&["compact", "db"]);
    assert!(run(&["verify", "db"]).starts_with("checked 1 segment with "));
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

    // What is packed shows it by its first bytes, whatever its name.
    let bytes = |name: &str| std::fs::read(path(name)).unwrap();
    // Also behind a frame that is to be skipped, of four bytes.
    let skipped = [0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4];
    std::fs::write(path("f.csv"), [&skipped[..], &bytes("c.csv.zst")].concat()).unwrap();
    std::fs::write(path("g.csv.gz"), CSV).unwrap();
    let printed = prints(folder.path(), &["ingest", "db", "t", "--quiet", "f.csv", "g.csv.gz"]);
    assert_eq!(printed, "8 rows appended to t, 0 left out\n");
    for (input, table) in [
        (CSV.as_bytes().to_vec(), "t"),
        (bytes("b.csv.gz"), "t"),
        (bytes("c.csv.zst"), "t"),
        (bytes("b.csv.gz"), "new"),
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_drillcore"))
            .current_dir(folder.path())
            .args(["ingest", "db", table, "-", "--quiet"])
            .args((table == "new").then_some("--key=hour"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&input).unwrap();
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(prints(folder.path(), &["count", "db", "t"]), "37\n");
    assert_eq!(prints(folder.path(), &["count", "db", "new"]), "4\n");
}

#[test]
fn cells_may_be_separated_by_other_characters_than_commas() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| prints(folder.path(), arguments);
    let text = "id;note\n1;\"a;b,\n\"\"c\"\"\"\n2;1,5\n";
    std::fs::write(folder.path().join("a.csv"), text).unwrap();
    std::fs::write(folder.path().join("b.tsv"), text.replace(';', "\t")).unwrap();
    std::fs::write(folder.path().join("c.txt"), text.replace(';', "\t")).unwrap();
    run(&["ingest", "db", "a", "a.csv", "--separator=;", "--key=id", "--quiet"]);
    run(&["ingest", "db", "b", "b.tsv", "--key=id", "--quiet"]);
    run(&["ingest", "db", "c", "c.txt", "--separator=\\t", "--format=csv", "--key=id", "--quiet"]);
    let a = run(&["scan", "db", "a", "--output=csv"]);
    assert_eq!(a, "id,note\n1,\"a;b,\n\"\"c\"\"\"\n2,\"1,5\"\n");
    assert_eq!(run(&["scan", "db", "b", "--output=csv"]), a.replace(';', "\t"));
    assert_eq!(run(&["scan", "db", "c", "--output=csv"]), a.replace(';', "\t"));
    let message =
        refused(folder.path(), &["ingest", "db", "a", "a.csv", "--separator=ab", "--key=id"]);
    assert!(message.contains("expected one ASCII character"), "{message}");
    for (file, hint) in [("a.csv", "--separator ';'"), ("c.txt", "--separator '\\t'")] {
        let ingest = ["ingest", "db", "new", file, "--format=csv", "--key=id", "--quiet"];
        let message = refused(folder.path(), &ingest);
        assert!(message.contains(hint), "{message}");
    }
}

#[test]
fn a_header_without_rows_is_one_of_the_table() {
    let folder = with_table();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("none.csv"), CSV.lines().next().unwrap()).unwrap();
    let printed = prints(folder.path(), &["ingest", "db", "t", "none.csv", "--quiet"]);
    assert_eq!(printed, "0 rows appended to t, 0 left out\n");
    std::fs::write(path("other.csv"), "hour,foo\n").unwrap();
    let message = refused(folder.path(), &["ingest", "db", "t", "other.csv", "--quiet"]);
    assert!(message.contains("other.csv") && message.contains("\"foo\""), "{message}");
}

#[test]
fn keys_and_ends_of_ranges_may_be_negative_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| prints(folder.path(), arguments);
    std::fs::write(folder.path().join("a.csv"), "id,n\n-5,1\n-3,2\n4,3\n").unwrap();
    run(&["ingest", "db", "t", "a.csv", "--key=id", "--quiet"]);
    assert_eq!(run(&["count", "db", "t", "--from", "-4"]), "2\n");
    assert_eq!(run(&["count", "db", "t", "--from", "-5", "--to", "-3"]), "2\n");
    assert!(run(&["get", "db", "t", "-5", "--output=csv"]).contains("-5,1"));
}

#[test]
fn a_local_time_that_clocks_show_twice_or_never_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    for (file, line) in [
        ("a.csv", "id,at\n1,2024-03-31T02:30:00\n"),
        ("b.csv", "id,at\n1,2024-10-27T02:30:00\n"),
        ("c.jsonl", "{\"id\": 1, \"at\": \"2024-03-31T02:30:00\"}\n"),
    ] {
        std::fs::write(folder.path().join(file), line).unwrap();
        let zone = "--type=at=timestamp[us, Europe/Berlin]";
        let message = refused(folder.path(), &["ingest", "db", "t", file, "--key=id", zone]);
        assert!(
            message.contains("clocks in Europe/Berlin show this time twice or never"),
            "{message}"
        );
    }
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
    let expected = "{\"id\":0,\"tags\":[\"a\",null],\"photo\":\"ff01\"}\n\
                    {\"id\":1,\"tags\":[],\"photo\":null}\n{\"id\":2,\"tags\":null,\"photo\":\"\"}\n";
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
    assert!(code == 2 && message.contains("column \"tags\" contains lists"), "{message}");
    let photos = run(&[&scan[..], &["--columns", "photo", "--limit", "1"]].concat());
    assert_eq!(photos, "photo\nff01\n");
    std::fs::write(path("d.csv"), "id,photo\n9,ff01\n").unwrap();
    let (_, message) = fails(folder.path(), &["ingest", "db", "t", "d.csv", "--quiet"]);
    assert!(message.contains("column \"photo\" stores binary, which CSV cannot hold"), "{message}");
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
    for call in
        [&["scan", "db", "t", "--threads", "0"][..], &["sample", "db", "t", "1", "--threads", "0"]]
    {
        let (code, message) = fails(call);
        assert!(code == 2 && message.contains("thread"), "{code} {message}");
    }
    let (code, message) = fails(&["scan", "db", "t", "--columns", "cty"]);
    assert_eq!(
        (code, message.as_str()),
        (2, "drillcore: unknown column \"cty\"; did you mean \"city\"?\n")
    );
    assert_eq!(fails(&["count", "nowhere", "t"]).0, 2);
    let (code, message) = fails(&["sample", "db", "t", "5"]);
    assert!(code == 2 && message.contains("the selection has 4") && message.contains("--at-most"));
    assert_eq!(fails(&["sample", "db", "t", "many"]).0, 2);
    assert_eq!(fails(&["count", "db", "t", "--from", "yesterday"]).0, 2);
    assert_eq!(fails(&["get", "db", "t", "2024-01-01T01:00:00", "Bern"]).0, 1, "no such row");
    assert_eq!(fails(&["ingest", "db", "new", "a.csv"]).0, 2, "a new table needs a key");
    assert_eq!(fails(&["ingest", "db", "t", "missing.csv"]).0, 3);
    assert_eq!(fails(&["estimate", "db", "t", "mode(delay)"]).0, 2);

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
    // A function of DataFusion that panics: no fault of the call, nor of the database.
    let broken = "select array_position([1], 1, -9223372036854775808)";
    let (code, message) = fails(&["sql", "db", broken]);
    assert!(code == 4 && message.contains("drillcore: internal error: "), "{code} {message}");
    assert_eq!(prints(folder.path(), &["count", "db", "t"]), "4\n", "nothing was changed");
}

#[test]
fn events_fold_into_a_rollup_table_that_skips_other_columns() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let run = |arguments: &[&str]| prints(folder.path(), arguments);
    write(
        "a.csv",
        "note,hour,city,delay\n1,2024-01-01T00:10:00,Oslo,5\n2,2024-01-01T00:20:00,Oslo,7\n\
         3,2024-01-01T01:00:00,Oslo,\n4,2024-01-01T01:30:00,Rome,9\n",
    );
    // A skipped column may hold anything.
    write("b.csv", "city,note,delay,hour\nRome,n/a,1,2024-01-01T01:59:59\n");
    write("c.jsonl", "{\"hour\": \"2024-01-01T01:00:01\", \"city\": \"Rome\", \"note\": [{}]}\n");
    let rollup = [
        "--merge=rollup",
        "--time=hour",
        "--granularity=1h",
        "--dimension=city",
        "--set=city",
        "--metric=n=count",
        "--metric=delay=sum(delay)",
        "--metric",
        "worst = max(delay)",
        "--quiet",
    ];
    let files = ["ingest", "db", "t", "a.csv", "b.csv", "c.jsonl"];
    assert_eq!(run(&[&files[..], &rollup].concat()), "6 rows appended to t, 0 left out\n");
    assert_eq!(
        run(&["scan", "db", "t", "--output", "csv"]),
        "hour,city,n,delay,worst\n2024-01-01T00:00:00,Oslo,2,12,7\n\
         2024-01-01T01:00:00,Oslo,1,,\n2024-01-01T01:00:00,Rome,3,10,9\n"
    );
    assert_eq!(run(&["count", "db", "t"]), "3\n");
    assert_eq!(run(&["count", "db", "t", "--events", "--set", "Rome"]), "3\n");
    // Parquet and Arrow files are narrowed, too.
    let arrow = drillcore(
        folder.path(),
        &["sql", "db", "select hour, city, delay, n as x from t", "--output", "arrow"],
    );
    std::fs::write(folder.path().join("d.arrow"), arrow.stdout).unwrap();
    run(&["ingest", "db", "t", "d.arrow", "--quiet"]);
    assert_eq!(run(&["count", "db", "t", "--events"]), "9\n");

    let fails = |arguments: &[&str]| fails(folder.path(), arguments);
    write("typo.csv", "hour,city,dealy\n2024-01-01T00:10:00,Oslo,5\n");
    let (code, message) = fails(&["ingest", "db", "t", "typo.csv", "--quiet"]);
    assert!(code == 2 && message.contains("did you mean \"dealy\"?"), "{message}");
    let new = ["ingest", "db", "new", "a.csv", "--merge=rollup", "--key=city"];
    let refused = |options: &[&str]| {
        let (code, message) = fails(&[&new[..], options].concat());
        assert_eq!(code, 2, "{message}");
        message
    };
    assert!(refused(&["--metric=x=sum(dealy)"]).contains("did you mean \"delay\"?"));
    assert!(refused(&["--metric=x=summ(delay)"]).contains("did you mean \"sum\"?"));
    assert!(refused(&["--metric=sum(delay)"]).contains("expected NAME=EXPRESSION"));
    assert!(refused(&["--time=hour", "--granularity=week"]).contains("30m, 1h, 1d"));
    assert!(refused(&["--time=hour"]).contains("--granularity"));
    let (code, message) =
        fails(&["ingest", "db", "new", "a.csv", "--key=city", "--metric=n=count"]);
    assert!(code == 2 && message.contains("--metric needs a rollup table"), "{message}");
}

#[test]
fn a_rollup_table_discovers_the_columns_of_files() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let run = |arguments: &[&str]| prints(folder.path(), arguments);
    write("a.csv", "city,delay,code\nOslo,5,1\nOslo,7,1\nRome,9,\n");
    write("b.csv", "city,delay,gate,empty\nRome,1,B7,\n");
    write("c.jsonl", "{\"city\": \"Rome\", \"delay\": 2, \"code\": 70000, \"vip\": true}\n");
    let options =
        ["--merge=rollup", "--key=city", "--discover", "--metric=delay=sum(delay)", "--quiet"];
    let files = ["ingest", "db", "t", "a.csv", "b.csv", "c.jsonl"];
    assert_eq!(run(&[&files[..], &options].concat()), "5 rows appended to t, 0 left out\n");
    assert_eq!(
        run(&["scan", "db", "t", "--output", "csv"]),
        "city,delay,code,gate,vip\nOslo,12,1,,\nRome,9,,,\nRome,1,,B7,\nRome,2,70000,,true\n"
    );
    assert!(run(&["get", "db", "t", "Rome"]).contains('9'));
    let fails = |arguments: &[&str]| fails(folder.path(), arguments);
    let (code, message) = fails(&["get", "db", "t", "Rome", "1", "B7", "true", "x"]);
    assert!(
        code == 2
            && message.contains("a key has 4 values (city, code, gate, vip), but 5 were given"),
        "{message}"
    );
    write("d.csv", "city,delay,code\nRome,1,x\n");
    let (code, message) = fails(&["ingest", "db", "t", "d.csv", "--quiet"]);
    assert!(code == 2 && message.contains("d.csv"), "{message}");
    assert_eq!(run(&["count", "db", "t", "--events"]), "5\n");
}

#[test]
fn deleted_rows_are_counted_once() {
    let folder = with_table();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let run = |arguments: &[&str]| prints(folder.path(), arguments);
    write("planes.csv", "tail,seats\nN1,100\nN2,200\nN3,300\nN4,400\n");
    run(&["ingest", "db", "planes", "planes.csv", "--key=tail", "--merge=upsert", "--quiet"]);
    assert_eq!(run(&["delete", "db", "planes", "N1"]), "1 rows deleted from planes\n");
    assert_eq!(run(&["delete", "db", "planes", "N1"]), "0 rows deleted from planes\n");
    write("gone.csv", "reason,tail\nold,N2\nold,N2\nlost,N9\nold,N4\n");
    assert_eq!(
        run(&["delete", "db", "planes", "--keys", "gone.csv"]),
        "2 rows deleted from planes\n"
    );
    assert_eq!(run(&["scan", "db", "planes", "--output", "csv"]), "tail,seats\nN3,300\n");

    let fails = |arguments: &[&str]| fails(folder.path(), arguments);
    let (code, message) = fails(&["delete", "db", "t", "2024-01-01T00:00:00", "Oslo"]);
    assert!(code == 2 && message.contains("is not an upsert table"), "{message}");
    write("typo.csv", "tial\nN3\n");
    let (code, message) = fails(&["delete", "db", "planes", "--keys", "typo.csv"]);
    assert!(code == 2 && message.contains("did you mean \"tial\"?"), "{message}");
    assert_eq!(fails(&["delete", "db", "planes"]).0, 2, "a key or a file is needed");
    assert_eq!(fails(&["delete", "db", "planes", "N3", "N4"]).0, 2, "the key has one column");
    assert_eq!(run(&["count", "db", "t"]), "4\n");
    assert_eq!(run(&["count", "db", "planes"]), "1\n");
}

#[test]
fn a_named_snapshot_is_read_by_every_verb_until_it_is_dropped() {
    let folder = with_table();
    let run = |arguments: &[&str]| prints(folder.path(), arguments);
    assert_eq!(run(&["snapshots", "db", "--output", "csv"]), "snapshot,lsn\n");
    assert_eq!(run(&["snapshot", "db", "before"]), "created snapshot before, as of commit 1\n");
    let sample = ["sample", "db", "t", "3", "--seed", "7", "--at", "before", "--output", "csv"];
    let drawn = run(&sample);
    run(&["ingest", "db", "t", "a.csv", "--quiet"]);
    run(&["compact", "db"]);
    assert_eq!(
        run(&["snapshot", "db", "before"]),
        "snapshot before already exists, as of commit 1\n"
    );
    assert_eq!(run(&["snapshot", "db", "after"]), "created snapshot after, as of commit 2\n");
    assert_eq!(run(&["snapshots", "db", "--output", "csv"]), "snapshot,lsn\nafter,2\nbefore,1\n");

    assert_eq!(run(&["count", "db", "t"]), "8\n");
    assert_eq!(run(&["count", "db", "t", "--at", "before"]), "4\n");
    assert_eq!(run(&["scan", "db", "t", "--at", "before", "--output", "csv"]), CSV);
    assert_eq!(run(&sample), drawn, "one seed, one sample, whatever was appended and merged since");
    let sets = run(&["sets", "db", "t", "--at", "before", "--output", "csv"]);
    assert_eq!(sets, "set,rows\n,1\nOslo,2\nRome,1\n");
    let sql = ["sql", "db", "select count(*) as n from t", "--at", "before", "--output", "csv"];
    assert_eq!(run(&sql), "n\n4\n");
    let estimate = ["estimate", "db", "t", "count", "--at", "before", "--output", "csv"];
    assert_eq!(run(&estimate).lines().nth(1), Some("4.0,4.0,4.0,0"), "an index knows it");
    let key = ["2024-01-01T01:00:00", "Oslo", "--at", "before", "--columns=delay", "--output=csv"];
    assert_eq!(run(&[&["get", "db", "t"], &key[..]].concat()), "delay\n7\n");
    let tables = run(&["tables", "db", "--at", "before", "--output", "csv"]);
    assert_eq!(tables, "table,merge,key,set,rows\nt,append,\"hour,city\",city,4\n");

    let fails = |arguments: &[&str]| fails(folder.path(), arguments);
    let (code, message) = fails(&["count", "db", "t", "--at", "befor"]);
    assert!(code == 2 && message.contains("did you mean \"before\"?"), "{message}");
    assert_eq!(run(&["drop-snapshot", "db", "before"]), "dropped snapshot before\n");
    assert_eq!(fails(&["count", "db", "t", "--at", "before"]).0, 2);
    assert_eq!(fails(&["drop-snapshot", "db", "before"]).0, 2);
    assert_eq!(run(&["count", "db", "t", "--at", "after"]), "8\n");
}

#[test]
fn tables_are_listed_as_they_are_made() {
    let folder = with_table();
    let run = |arguments: &[&str]| prints(folder.path(), arguments);
    let rollup = ["--merge=rollup", "--dimension=city", "--metric=n=count", "--quiet"];
    run(&[&["ingest", "db", "by_city", "a.csv"], &rollup[..]].concat());
    run(&["ingest", "db", "u", "a.csv", "--merge=upsert", "--key=hour", "--quiet"]);
    assert_eq!(
        run(&["tables", "db", "--output", "csv"]),
        "table,merge,key,set,rows\nby_city,rollup,city,,3\nt,append,\"hour,city\",city,4\n\
         u,upsert,hour,,3\n"
    );
    assert!(run(&["tables", "db"]).contains("| t       | append | hour,city | city | 4    |"));
}

#[test]
fn the_demo_checks_its_answers_and_can_be_kept() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| prints(folder.path(), arguments);
    let printed = run(&["demo", "--rows", "20000", "--database", "kept"]);
    for part in
        ["generated", "| Tern ", "One departure by its key", "miles", "select", "nothing damaged"]
    {
        assert!(printed.contains(part), "{part:?} is missing in {printed}");
    }
    assert_eq!(run(&["count", "kept", "departures"]), "20000\n");
    assert_eq!(run(&["count", "kept", "hourly", "--events"]), "20000\n");
    let (code, message) = fails(folder.path(), &["demo", "--database", "kept"]);
    assert!(code == 2 && message.contains("kept already has tables"), "{message}");
    run(&["demo", "--rows", "1000"]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn every_verb_explains_itself_with_an_example() {
    let folder = tempfile::tempdir().unwrap();
    let help = prints(folder.path(), &["help"]);
    for code in
        ["0    done", "1    no match", "2    the command line", "3    the database", "130  stopped"]
    {
        assert!(help.contains(code), "{code:?} is missing in {help}");
    }
    let (_, verbs) = help.split_once("Commands:\n").unwrap();
    let verbs = verbs.lines().take_while(|line| !line.is_empty());
    let verbs: Vec<&str> = verbs.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(verbs.len() > 15, "{verbs:?}");
    for verb in verbs.into_iter().filter(|verb| *verb != "help") {
        let help = prints(folder.path(), &[verb, "--help"]);
        assert!(help.contains(&format!("drillcore {verb}")), "no example in {help}");
        let undescribed = help.lines().zip(help.lines().skip(1)).find(|(line, next)| {
            line.trim_start().starts_with(['<', '-']) && !line.contains("  ") && next.is_empty()
        });
        assert_eq!(undescribed, None, "{verb}");
    }
    let (code, message) = fails(folder.path(), &["cuont", "db", "t"]);
    assert!(code == 2 && message.contains("'count'"), "{message}");
}

#[test]
fn a_reader_that_has_had_enough_is_no_fault() {
    let folder = with_table();
    for arguments in
        [&["count", "db", "t"][..], &["scan", "db", "t"], &["stats", "db"], &["tables", "db"]]
    {
        let mut child = Command::new(env!("CARGO_BIN_EXE_drillcore"))
            .current_dir(folder.path())
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It opens the database first, so the pipe is closed once it prints.
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
        assert!(output.status.success(), "{arguments:?}");
    }
}

#[test]
fn readers_run_beside_a_writer_and_writers_say_that_there_is_one() {
    let folder = with_table();
    prints(folder.path(), &["snapshot", "db", "before"]);
    let db = Database::open(folder.path().join("db"), Options::default()).unwrap();
    let run = |arguments: &[&str]| prints(folder.path(), arguments);
    let more = RecordBatch::try_from_iter([
        ("hour", Arc::new(TimestampSecondArray::from(vec![1_704_412_800])) as ArrayRef),
        ("city", Arc::new(StringArray::from(vec!["Bern"]))),
    ]);
    db.table("t").unwrap().append(&more.unwrap(), OnError::Raise).unwrap();
    assert_eq!(run(&["count", "db", "t"]), "5\n");
    assert_eq!(run(&["count", "db", "t", "--at", "before"]), "4\n");
    assert_eq!(run(&["scan", "db", "t", "--at", "before", "--output", "csv"]), CSV);
    let key = ["2024-01-01T01:00:00", "Oslo", "--columns=delay", "--output=csv"];
    for at in [&[][..], &["--at=before"]] {
        let reads: [&[&str]; 6] = [
            &[&["get", "db", "t"], &key[..]].concat(),
            &["sample", "db", "t", "4"],
            &["estimate", "db", "t", "avg(delay)"],
            &["sets", "db", "t"],
            &["sql", "db", "select * from t"],
            &["tables", "db"],
        ];
        reads.iter().for_each(|read| drop(run(&[read, at].concat())));
    }
    assert_eq!(run(&["snapshots", "db", "--output", "csv"]), "snapshot,lsn\nbefore,1\n");
    assert!(run(&["verify", "db"]).starts_with("checked 1 segment with "));
    let stats = run(&["stats", "db"]);
    assert!(stats.contains("\"rows\":5,") && stats.contains("\"flushes\":null,"), "{stats}");

    for arguments in [
        &["ingest", "db", "t", "a.csv", "--quiet"][..],
        &["delete", "db", "t", "2024-01-01T00:00:00", "Oslo"],
        &["snapshot", "db", "new"],
        &["drop-snapshot", "db", "before"],
        &["compact", "db"],
    ] {
        let (code, message) = fails(folder.path(), arguments);
        assert!(
            code == 3 && message.contains("another process has this database open"),
            "{message}"
        );
    }
    let leases = || {
        let names = std::fs::read_dir(folder.path().join("db")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("lease-")).count()
    };
    assert_eq!(leases(), 0, "no verb leaves its lease behind");
    db.close().unwrap();
    assert_eq!(run(&["count", "db", "t", "--at", "before"]), "4\n");
}

#[test]
fn verify_finds_damage_beside_a_writer_and_says_where() {
    let folder = with_table();
    prints(folder.path(), &["compact", "db"]);
    let database = folder.path().join("db");
    let names = std::fs::read_dir(&database).unwrap().map(|entry| entry.unwrap().path());
    let is_segment = |path: &PathBuf| path.to_string_lossy().contains("segment-");
    let segment = names.into_iter().find(is_segment).unwrap();
    let _db = Database::open(&database, Options::default()).unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let output = drillcore(folder.path(), &["verify", "db"]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains("damaged: segment") && printed.contains("at byte"), "{printed}");
    assert!(printed.ends_with("\nrestore the database from an undamaged backup\n"), "{printed}");
}

#[test]
fn verify_finds_damage_of_the_log() {
    let folder = with_table();
    let healthy = prints(folder.path(), &["verify", "db"]);
    let expected = "checked 0 segments with 0 stored rows (named snapshots included), 0 B; log ";
    assert!(healthy.starts_with(expected), "{healthy}");
    let names = std::fs::read_dir(folder.path().join("db")).unwrap();
    let mut paths = names.map(|entry| entry.unwrap().path());
    let log = paths.find(|path| path.to_string_lossy().contains("wal-")).unwrap();
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let output = drillcore(folder.path(), &["verify", "db"]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.starts_with("damaged: "), "{printed}");
    assert_eq!(drillcore(folder.path(), &["count", "db", "t"]).status.code(), Some(3));
}

#[test]
fn what_is_no_database_is_told_apart() {
    let folder = with_table();
    std::fs::create_dir(folder.path().join("photos")).unwrap();
    std::fs::write(folder.path().join("photos/cat.jpg"), "meow").unwrap();
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    for (database, expected, message) in [
        ("nowhere", 2, "directory nowhere does not exist"),
        ("photos", 2, "photos"),
        ("empty", 2, "there is no database in empty"),
        ("a.csv", 3, "cannot open a.csv"),
    ] {
        for arguments in [
            &["count", database, "t"][..],
            &["count", database, "t", "--at", "s"],
            &["delete", database, "t", "1"],
            &["snapshots", database],
            &["tables", database],
            &["verify", database],
        ] {
            let (code, said) = fails(folder.path(), arguments);
            assert!(code == expected && said.contains(message), "{arguments:?}: {code}, {said}");
        }
    }
    assert_eq!(fails(folder.path(), &["ingest", "photos", "t", "a.csv", "--key=hour"]).0, 2);
    let photos = std::fs::read_dir(folder.path().join("photos")).unwrap();
    assert_eq!(photos.count(), 1, "what is no database is left alone");
}

#[test]
fn a_column_behind_the_guessed_beginning_of_a_file_is_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let plain = "{\"id\": 1}\n".repeat(10_000);
    write("a.jsonl", &format!("{plain}{{\"id\": 2, \"late\": 3}}\n"));
    let ingest = ["ingest", "db", "t", "a.jsonl", "--key", "id", "--quiet"];
    let (code, message) = fails(folder.path(), &ingest);
    assert!(code == 2 && message.contains("late"), "{message}");
    // A table that has the column takes it from anywhere.
    write("b.jsonl", "{\"id\": 1, \"late\": 2}\n");
    prints(folder.path(), &["ingest", "db", "u", "b.jsonl", "--key", "id", "--quiet"]);
    prints(folder.path(), &["ingest", "db", "u", "a.jsonl", "--quiet"]);
    assert_eq!(prints(folder.path(), &["count", "db", "u", "--where", "late = 3"]), "1\n");
}

#[test]
fn what_cannot_begin_to_go_in_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("a.csv", CSV);
    write("debt.csv", "id,weight\n1,-5\n");
    write("torn.parquet", "PAR1, but not for long");
    std::fs::write(folder.path().join("torn.csv.gz"), b"\x1f\x8bno gzip").unwrap();
    write("a.unknown", CSV);
    let mistakes: [(&[&str], i32, &str); 10] = [
        (&["missing.csv", "--key=hour"], 3, "cannot read missing.csv"),
        (&["a.csv", "missing.csv", "--key=hour"], 3, "cannot read missing.csv"),
        (&["torn.parquet", "--key=hour"], 3, "cannot read torn.parquet"),
        (&["torn.csv.gz", "--key=hour"], 3, "cannot read torn.csv.gz"),
        (&["a.unknown", "--key=hour"], 2, "use --format"),
        (&["a.csv"], 2, "use --key"),
        (&["a.csv", "--key=huor"], 2, "did you mean \"hour\"?"),
        (&["a.csv", "--key=hour", "--weights=city"], 2, "city"),
        (&["debt.csv", "--key=id", "--weights=weight"], 2, "debt.csv, in the 1 rows from line 2:"),
        (&["-", "--key=hour"], 2, "-: the file has no rows"),
    ];
    let refused = || {
        for (arguments, expected, said) in mistakes {
            let ingest = [&["ingest", "db", "t", "--quiet"], arguments].concat();
            let (code, message) = fails(folder.path(), &ingest);
            assert!(code == expected && message.contains(said), "{arguments:?}: {message}");
        }
    };
    refused();
    assert!(!folder.path().join("db").exists());
    std::fs::create_dir(folder.path().join("db")).unwrap();
    refused();
    assert_eq!(std::fs::read_dir(folder.path().join("db")).unwrap().count(), 0);
    prints(folder.path(), &["ingest", "db", "other", "a.csv", "--key=hour", "--quiet"]);
    refused();
    let tables = prints(folder.path(), &["tables", "db", "--output", "csv"]);
    assert_eq!(tables, "table,merge,key,set,rows\nother,append,hour,,4\n");
}

#[test]
fn a_column_is_added_in_every_type_and_takes_values_from_then_on() {
    let folder = with_table();
    let run = |arguments: &[&str]| prints(folder.path(), arguments);
    let types = [
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float32",
        "float64",
        "string",
        "binary",
        "date32",
        "list<string>",
        "timestamp[us]",
        "timestamp[ns, Europe/Oslo]",
        "decimal128(10, 2)",
    ];
    for (number, name) in types.into_iter().enumerate() {
        let column = format!("c{number}");
        let printed = run(&["add-column", "db", "t", &column, name]);
        assert_eq!(printed, format!("{column} added to t\n"));
    }
    let line =
        r#"{"hour": "2024-01-02T00:00:00", "city": "Bern", "c4": 7, "c14": ["a"], "c17": 1.25}"#;
    std::fs::write(folder.path().join("b.jsonl"), line).unwrap();
    run(&["ingest", "db", "t", "b.jsonl", "--quiet"]);
    let columns = ["--columns", "city,c4,c14,c17", "--output", "jsonl"];
    let found = run(&[&["scan", "db", "t", "--where", "c4 = 7"], &columns[..]].concat());
    assert_eq!(found, "{\"city\":\"Bern\",\"c4\":7,\"c14\":[\"a\"],\"c17\":1.25}\n");
    assert_eq!(run(&["count", "db", "t", "--where", "c4 is null"]), "4\n");

    let refused = |table: &str, column: &str, name: &str| {
        let (code, message) = fails(folder.path(), &["add-column", "db", table, column, name]);
        assert_eq!(code, 2, "{message}");
        message
    };
    assert!(refused("t", "x", "flaot64").contains("did you mean \"float64\"?"));
    assert!(refused("t", "x", "timestamp[h]").contains("unknown type"));
    assert!(refused("t", "city", "string").contains("already has a column \"city\""));
    assert!(refused("tt", "x", "string").contains("did you mean \"t\"?"));
}

#[test]
fn set_indexes_are_switched_and_answer_alike() {
    let folder = tempfile::tempdir().unwrap();
    let lines: String = (0..5_000).map(|id| format!("{id},{}\n", ["a", "b", ""][id % 3])).collect();
    std::fs::write(folder.path().join("a.csv"), format!("id,name\n{lines}")).unwrap();
    let run = |arguments: &[&str]| prints(folder.path(), arguments);
    let shape = ["--key=id", "--set=name", "--no-set-index", "--quiet"];
    run(&[&["ingest", "db", "t", "a.csv"], &shape[..]].concat());
    run(&["compact", "db"]);
    let indexed = || {
        let stats = run(&["stats", "db"]);
        let from = stats.find("\"indexed_sets\":").unwrap() + 15;
        stats[from..=from + stats[from..].find('}').unwrap()].to_string()
    };
    let counts = || {
        let of_a = run(&["count", "db", "t", "--set", "a"]);
        [
            of_a,
            run(&["count", "db", "t", "--null-set"]),
            run(&["sets", "db", "t", "--output", "csv"]),
        ]
    };
    let before = counts();
    assert_eq!(before[2], "set,rows\n,1666\na,1667\nb,1667\n");
    assert_eq!(indexed(), r#"{"all":false,"exceptions":0,"rows_to_index":0,"fault":null}"#);
    let printed = run(&["index-sets", "db", "t", "a", "--null-set", "--quiet"]);
    assert_eq!(printed, "indexed sets of t\n");
    assert_eq!(indexed(), r#"{"all":false,"exceptions":2,"rows_to_index":0,"fault":null}"#);
    assert_eq!(counts(), before);
    run(&["index-sets", "db", "t", "--all", "--quiet"]);
    run(&["index-sets", "db", "t", "--all"]);
    assert_eq!(counts(), before);
    run(&["unindex-sets", "db", "t", "b"]);
    assert_eq!(indexed(), r#"{"all":true,"exceptions":1,"rows_to_index":0,"fault":null}"#);
    run(&["unindex-sets", "db", "t", "--all"]);
    run(&["verify", "db"]);
    assert_eq!(counts(), before);

    let refused = |arguments: &[&str]| {
        let (code, message) = fails(folder.path(), arguments);
        assert_eq!(code, 2, "{message}");
        message
    };
    for verb in ["index-sets", "unindex-sets"] {
        let message = refused(&[verb, "db", "t"]);
        assert!(message.contains("no set is given; name sets, or use --all or --null-set"));
    }
    assert!(refused(&["index-sets", "db", "t", "a", "--all"]).contains("--all"));
    assert!(refused(&["index-sets", "db", "tt", "a"]).contains("did you mean \"t\"?"));
    run(&["ingest", "db", "plain", "a.csv", "--key=id", "--quiet"]);
    assert!(refused(&["index-sets", "db", "plain", "--all"]).contains("no set column"));
    let message = refused(&["unindex-sets", "db", "plain", "a"]);
    assert!(message.contains("no set column") && !message.contains("--where"), "{message}");
    assert!(refused(&["count", "db", "plain", "--set", "a"]).contains("or use --where"));
}

#[test]
fn ctrl_c_ends_with_130() {
    let folder = tempfile::tempdir().unwrap();
    let demo = ["demo", "--rows", "20000000", "--database", "db"];
    let (child, mut printed) = begin_deaf(folder.path(), &demo);
    let mut first = String::new();
    printed.read_line(&mut first).unwrap();
    assert!(first.contains("generated"), "{first}");
    let output = interrupted(child);
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "drillcore: interrupted\n");
    prints(folder.path(), &["verify", "db"]);
}

#[test]
fn lines_that_cannot_be_parsed_are_left_out_and_told_or_refuse_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &[u8]| std::fs::write(folder.path().join(name), text).unwrap();
    write("good.csv", b"a,b\n0,x\n");
    prints(folder.path(), &["ingest", "db", "t", "good.csv", "--key=a", "--quiet"]);
    // A quoted cell over two lines, a blank line, and line ends of both kinds move rows and lines apart.
    write("bad.csv", b"a,b\r\n1,\"x\ny\"\n\nfour,x\r\n2,y\n3\n4,z,5\n9.5,n\n5,\xff\n6,last");
    write(
        "bad.jsonl",
        b"{\"a\": 7}\n\n{\"a\": \"eight\"}\n{\"a\": 9\n[10]\n{\"a\": 11, \"b\": \"x\"}\n{\"a\": 12} {\"a\": 13}\n",
    );
    let skip = |file: &str| {
        let ingest = ["ingest", "db", "t", file, "--quiet", "--on-error=skip"];
        let output = drillcore(folder.path(), &ingest);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{errors}");
        (String::from_utf8(output.stdout).unwrap(), errors)
    };
    let (printed, errors) = skip("bad.csv");
    assert_eq!(printed, "3 rows appended to t, 5 left out\n", "{errors}");
    for said in [
        "bad.csv, line 5: column \"a\" stores int64, which cannot hold \"four\"",
        "bad.csv, line 7: incorrect number of fields, expected 2 got 1",
        "bad.csv, line 8: incorrect number of fields, expected 2 got 3",
        "bad.csv, line 9: column \"a\" stores int64, which cannot hold \"9.5\"",
        "bad.csv, line 10: the line is not valid UTF-8",
    ] {
        assert!(errors.contains(said), "{said:?} is missing in {errors}");
    }
    let (printed, errors) = skip("bad.jsonl");
    assert_eq!(printed, "2 rows appended to t, 4 left out\n", "{errors}");
    for said in [
        "line 3: column \"a\" stores int64, which cannot hold \"eight\"; correct it, or",
        "line 4: ",
        "line 5: ",
        "line 7: ",
    ] {
        assert!(errors.contains(said), "{said:?} is missing in {errors}");
    }
    let rows = prints(folder.path(), &["scan", "db", "t", "--columns=a", "--output=csv"]);
    assert_eq!(rows, "a\n0\n1\n2\n6\n7\n11\n");

    for (file, said) in
        [("bad.csv", "bad.csv, line 5: column \"a\""), ("bad.jsonl", "bad.jsonl, line 3: ")]
    {
        let (code, message) = fails(folder.path(), &["ingest", "db", "t", file, "--quiet"]);
        assert!(code == 2 && message.contains(said), "{message}");
    }
    // A file without one good line.
    write("none.csv", b"a,b\nx,y\n");
    assert_eq!(skip("none.csv").0, "0 rows appended to t, 1 left out\n");
    assert_eq!(prints(folder.path(), &["count", "db", "t"]), "6\n");
    // What parses but does not fit is reported by its line, too.
    write("debt.csv", b"a,w\n1,\"\n\"\n\n2,x\n-3,y\n");
    let debt = ["ingest", "db", "debt", "debt.csv", "--key=w", "--weights=a", "--quiet"];
    let output = drillcore(folder.path(), &[&debt[..], &["--on-error=skip"]].concat());
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("debt.csv, line 6: weight column \"a\""), "{errors}");
    // A new table's columns come from the lines that are JSON.
    let new = ["ingest", "db", "new", "torn.jsonl", "--key=a", "--quiet"];
    write("torn.jsonl", b"{\"a\": 1}\n{\"a\": \n{\"a\": 2}\n");
    let (code, message) = fails(folder.path(), &new);
    assert!(code == 2 && message.contains("torn.jsonl, line 2: "), "{message}");
    let printed = prints(folder.path(), &[&new[..], &["--on-error=skip"]].concat());
    assert_eq!(printed, "2 rows appended to new, 1 left out\n");
}

#[test]
fn json_lines_hold_one_object_a_line_however_the_rows_add_up() {
    let folder = with_table();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    // As many objects as lines: two of them in the second, and one over the next two.
    let text = "{\"a\": 0}\n{\"a\": 1} {\"a\": 2}\n{\"a\":\n4}\n{\"a\": 5}\n";
    write("bad.jsonl", text);
    write("first.jsonl", "{\"a\": -1}\n");
    prints(folder.path(), &["ingest", "db", "known", "first.jsonl", "--key=a", "--quiet"]);
    for table in ["known", "new"] {
        let ingest = ["ingest", "db", table, "bad.jsonl", "--key=a", "--quiet"];
        let (code, message) = fails(folder.path(), &ingest);
        assert!(code == 2 && message.contains("bad.jsonl, line 2: "), "{message}");
        let output = drillcore(folder.path(), &[&ingest[..], &["--on-error=skip"]].concat());
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(printed, format!("2 rows appended to {table}, 3 left out\n"));
        let errors = String::from_utf8(output.stderr).unwrap();
        for said in [
            "line 2: the line has more than one object; write one JSON object per line",
            "line 3: the object continues on the next line; write one JSON object per line",
            "line 4: ",
        ] {
            assert!(errors.contains(said), "{said:?} is missing in {errors}");
        }
        let where_known = ["scan", "db", table, "--output=csv", "--where=a >= 0"];
        assert_eq!(prints(folder.path(), &where_known), "a\n0\n5\n");
    }
}

#[test]
fn a_text_that_says_more_than_its_column_stores_is_refused_by_line() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let run = |arguments: &[&str]| prints(folder.path(), arguments);
    write("first.csv", "id\n0\n");
    run(&["ingest", "db", "t", "first.csv", "--key=id", "--quiet"]);
    let columns = [
        ("at", "timestamp[ms]"),
        ("day", "date32"),
        ("share", "float32"),
        ("price", "decimal128(10, 2)"),
        ("n", "int64"),
    ];
    for (name, stores) in columns {
        run(&["add-column", "db", "t", name, stores]);
    }
    let cases = [
        ("at", "2024-01-01T00:00:00.123", "2024-01-01T00:00:00.1234"),
        ("day", "2024-01-01", "2024-01-01T05:00:00"),
        ("share", "1e38", "1e39"),
        ("price", "1.250", "1.255"),
        ("n", "7", "7.5"),
    ];
    let mut id = 0;
    for (name, kept, dropped) in cases {
        let is_number = kept.parse::<f64>().is_ok();
        for format in ["csv", "jsonl"] {
            let mut line = |text: &str| {
                id += 1;
                match format {
                    "csv" => format!("{id},{text}\n"),
                    _ if is_number => format!("{{\"id\": {id}, {name:?}: {text}}}\n"),
                    _ => format!("{{\"id\": {id}, {name:?}: {text:?}}}\n"),
                }
            };
            let lines = [kept, dropped, kept].map(&mut line).concat();
            let head = if format == "csv" { format!("id,{name}\n") } else { "\n".to_string() };
            let file = format!("{name}.{format}");
            write(&file, &(head + &lines));
            let ingest = ["ingest", "db", "t", &file, "--quiet"];
            let (code, message) = fails(folder.path(), &ingest);
            let said = format!("{file}, line 3: column {name:?} stores ");
            assert!(code == 2 && message.contains(&said), "{message}");
            assert!(message.contains(&format!("cannot hold {dropped:?}")), "{message}");
            let skip = [&ingest[..], &["--on-error=skip"]].concat();
            assert_eq!(run(&skip), "2 rows appended to t, 1 left out\n");
        }
        let count = ["count", "db", "t", "--where", &format!("{name} is not null")];
        assert_eq!(run(&count), "4\n");
    }
    // A column's type is guessed from the first lines; what comes behind them is not cut to it.
    let seconds = "0,2024-01-01T00:00:00\n".repeat(10_000);
    write("late.csv", &format!("id,at\n{seconds}1,2024-01-01T00:00:00.5\n"));
    let late = ["ingest", "db", "late", "late.csv", "--key=id", "--quiet"];
    let (code, message) = fails(folder.path(), &late);
    assert!(code == 2 && message.contains("late.csv, line 10002: column \"at\""), "{message}");
}

#[test]
fn files_as_other_programs_write_them_make_tables() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let ingest = |table: &str, file: &str| {
        prints(folder.path(), &["ingest", "db", table, file, "--key=a", "--quiet"])
    };
    let jsonl = |table: &str| prints(folder.path(), &["scan", "db", table, "--output=jsonl"]);
    // A mark of the byte order in front, line ends of two bytes, and a column without values.
    for (file, text) in [
        ("a.csv", "\u{feff}a,b,c\r\n1,,x\r\n2,,y\r\n"),
        ("b.jsonl", "\u{feff}{\"a\": 1, \"b\": null, \"c\": \"x\"}\n{\"a\": 2, \"c\": \"y\"}\n"),
    ] {
        write(file, text);
        let table = file.split_at(1).0;
        assert_eq!(ingest(table, file), format!("2 rows appended to {table}, 0 left out\n"));
        // Once more, into a table that is there.
        ingest(table, file);
        let rows = ["{\"a\":1,\"b\":null,\"c\":\"x\"}\n", "{\"a\":2,\"b\":null,\"c\":\"y\"}\n"];
        let rows = rows.map(|row| row.repeat(2)).concat();
        assert_eq!(jsonl(table), rows);
    }
    write("lists.jsonl", "{\"a\": 1, \"b\": []}\n{\"a\": 2}\n");
    ingest("lists", "lists.jsonl");
    assert_eq!(jsonl("lists"), "{\"a\":1,\"b\":[]}\n{\"a\":2,\"b\":null}\n");
    write("head.csv", "a,b\n");
    write("nothing.csv", "");
    write("nothing.jsonl", "\n");
    write("pretty.json", "{\n  \"a\": 1\n}\n");
    write("array.json", "[{\"a\": 1}, {\"a\": 2}]\n");
    for (file, code, said) in [
        ("head.csv", 2, "head.csv: the file has no rows"),
        ("nothing.csv", 2, "nothing.csv: the file has no rows"),
        ("nothing.jsonl", 2, "nothing.jsonl: the file has no rows"),
        ("pretty.json", 2, "pretty.json, line 1: "),
        ("pretty.json", 2, "write one JSON object per line"),
        ("array.json", 2, "write one JSON object per line"),
        ("db", 3, "it is a directory"),
    ] {
        let new = ["ingest", "db", "new", file, "--key=a", "--quiet", "--format"];
        let format = if file.contains("json") { "jsonl" } else { "csv" };
        let (exit, message) = fails(folder.path(), &[&new[..], &[format]].concat());
        assert!(exit == code && message.contains(said), "{file}: {message}");
    }
    // Into a table that is there, no rows are no fault.
    assert_eq!(ingest("a", "head.csv"), "0 rows appended to a, 0 left out\n");
}

#[test]
fn pipes_are_files_that_can_be_read_once() {
    let folder = with_table();
    let path = |name: &str| folder.path().join(name);
    let parquet = |hours: std::ops::Range<i64>| {
        let days = TimestampSecondArray::from_iter_values(hours.map(|hour| hour * 3600));
        let cities = StringArray::from(vec!["Bern"; days.len()]);
        let columns: Vec<(&str, ArrayRef)> =
            vec![("hour", Arc::new(days)), ("city", Arc::new(cities))];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.into_inner().unwrap()
    };
    let line =
        |hour: u32| format!("{{\"hour\": \"2024-02-01T{hour:02}:00:00\", \"city\": \"Bern\"}}\n");
    // More than a pipe holds, so that both ends have to wait for each other.
    let lines: String = (0..20_000).map(|row| line(row % 24)).collect();
    let csv: String =
        CSV.lines().take(1).chain(["2024-03-01T00:00:00,Rome,1"]).collect::<Vec<_>>().join("\n");
    let gz = {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(csv.as_bytes()).unwrap();
        gz.finish().unwrap()
    };
    let pipes: Vec<(&str, Vec<u8>)> = vec![
        ("a.csv", csv.into_bytes()),
        ("b.csv.gz", gz),
        ("c.jsonl", lines.into_bytes()),
        ("d.parquet", parquet(0..3)),
    ];
    std::fs::remove_file(path("a.csv")).unwrap();
    for (name, bytes) in pipes {
        assert!(Command::new("mkfifo").arg(path(name)).status().unwrap().success());
        let ingest = |options: &[&str]| {
            let (pipe, bytes) = (path(name), bytes.clone());
            let writer = std::thread::spawn(move || std::fs::write(pipe, bytes));
            let ingest = ["ingest", options[0], "t", name, "--quiet"];
            let printed = prints(folder.path(), &[&ingest[..], &options[1..]].concat());
            writer.join().unwrap().unwrap();
            printed
        };
        // What a new table is made from is read a second and a third time, as far as it was.
        let new = ingest(&[&format!("new {name}"), "--key", "hour,city"]);
        assert_eq!(ingest(&["db"]), new, "{name}");
    }
    assert_eq!(prints(folder.path(), &["count", "db", "t"]), "20009\n");
    let (name, typo) = ("z.jsonl", path("z.jsonl"));
    assert!(Command::new("mkfifo").arg(&typo).status().unwrap().success());
    let writer = std::thread::spawn(move || std::fs::write(typo, "{\"hour\": 5x}\n"));
    let (code, message) = fails(folder.path(), &["ingest", "db", "t", name, "--quiet"]);
    assert!(code == 2 && message.contains("z.jsonl, line 1: "), "{message}");
    writer.join().unwrap().unwrap();
}

#[test]
fn keys_to_delete_come_from_standard_input_and_pipes_too() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("planes.csv", "tail,seats\nN1,100\nN2,200\nN3,300\nN4,400\n");
    let ingest = ["ingest", "db", "planes", "planes.csv", "--key=tail", "--merge=upsert"];
    prints(folder.path(), &[&ingest[..], &["--quiet"]].concat());
    let delete = |options: &[&str], text: &str| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_drillcore"))
            .current_dir(folder.path())
            .args([&["delete", "db", "planes", "--keys", "-"], options].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), errors)
    };
    let deleted = |rows: u64| format!("{rows} rows deleted from planes\n");
    assert_eq!(delete(&[], "tail\nN1\nN9\n"), (Some(0), deleted(1), String::new()));
    let jsonl = ["--format", "jsonl"];
    assert_eq!(delete(&jsonl, "{\"tail\": \"N2\"}\n"), (Some(0), deleted(1), String::new()));
    let (code, printed, errors) = delete(&jsonl, "{\"tail\": \"N3\"\n");
    assert!(code == Some(2) && printed.is_empty(), "{printed}");
    assert!(
        !errors.contains("rows before the error") && errors.contains("-, line 1: "),
        "{errors}"
    );
    let pipe = folder.path().join("keys.csv");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let writer = std::thread::spawn(move || std::fs::write(pipe, "tail\nN4\n"));
    let keys = ["delete", "db", "planes", "--keys", "keys.csv"];
    assert_eq!(prints(folder.path(), &keys), deleted(1));
    writer.join().unwrap().unwrap();
    let left = prints(folder.path(), &["scan", "db", "planes", "--output", "csv"]);
    assert_eq!(left, "tail,seats\nN3,300\n");
}

#[test]
fn bad_lines_in_the_midst_of_many_are_found_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = "a,b\n".to_string();
    for row in 0..30_000 {
        match row % 5_000 {
            17 => text.push_str("oops,x\n"),
            _ => text.push_str(&format!("{row},\"x\ny\"\n")),
        }
    }
    std::fs::write(folder.path().join("a.csv"), "a,b\n-1,x\n").unwrap();
    std::fs::write(folder.path().join("b.csv"), text).unwrap();
    prints(folder.path(), &["ingest", "db", "t", "a.csv", "--key=a", "--quiet"]);
    let ingest = ["ingest", "db", "t", "b.csv", "--quiet", "--on-error=skip"];
    let output = drillcore(folder.path(), &ingest);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "29,994 rows appended to t, 6 left out\n");
    let errors = String::from_utf8(output.stderr).unwrap();
    for bad in 0..6 {
        // Each good row has two lines, each bad one before it has one.
        let line = 2 + 2 * (bad * 5_000 + 17) - bad;
        assert!(errors.contains(&format!("b.csv, line {line}: ")), "{line} is missing in {errors}");
    }
}

#[test]
fn a_file_that_was_cut_off_is_unusable_wherever_that_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut csv = "a,b\n".to_string();
    (0..300_000_u64).for_each(|a| {
        csv.push_str(&format!("{a},{}\n", a.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 2))
    });
    std::fs::write(path("a.csv"), &csv).unwrap();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(csv.as_bytes()).unwrap();
    let ids = Int64Array::from_iter_values(0..100_000);
    let batch = RecordBatch::try_from_iter([("a", Arc::new(ids) as ArrayRef)]).unwrap();
    let mut file = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    let mut stream = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    for start in (0..100_000).step_by(10_000) {
        file.write(&batch.slice(start, 10_000)).unwrap();
        stream.write(&batch.slice(start, 10_000)).unwrap();
    }
    let files = [
        ("cut.csv.gz", gz.finish().unwrap()),
        ("file.arrow", file.into_inner().unwrap()),
        ("stream.arrow", stream.into_inner().unwrap()),
    ];
    std::fs::write(path("first.csv"), "a,b\n-1,1\n").unwrap();
    prints(folder.path(), &["ingest", "db", "t", "first.csv", "--key=a", "--quiet"]);
    for (name, bytes) in files {
        std::fs::write(path(name), &bytes[..bytes.len() * 9 / 10]).unwrap();
        let (code, message) = fails(folder.path(), &["ingest", "db", "t", name, "--quiet"]);
        assert!(code == 3 && message.contains(&format!("cannot read {name}")), "{code}: {message}");
    }
    prints(folder.path(), &["verify", "db"]);
}

#[test]
fn a_first_record_longer_than_what_types_are_guessed_from_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let long = "x".repeat(5 << 20);
    write("a.csv", &format!("a,b\n1,\"{long}\n\"\n2,y\n"));
    write("b.jsonl", &format!("{{\"a\": 1, \"b\": \"{long}\"}}\n{{\"a\": 2, \"b\": \"y\"}}\n"));
    for file in ["a.csv", "b.jsonl"] {
        let printed =
            prints(folder.path(), &["ingest", file.split_at(1).0, "t", file, "--key=a", "--quiet"]);
        assert_eq!(printed, "2 rows appended to t, 0 left out\n");
    }
}

#[test]
fn ctrl_c_ends_a_wait_for_standard_input() {
    let folder = with_table();
    for (arguments, begun) in [
        (&["ingest", "db", "t", "-", "--quiet"][..], ""),
        (&["ingest", "db", "t", "-", "--quiet"], "hour,city,delay\n2024-01-05T00:00:00,Oslo,5\n"),
        (&["sql", "db", "-"], "select"),
    ] {
        let (mut child, _printed) = begin_deaf(folder.path(), arguments);
        let mut input = child.stdin.take().unwrap();
        input.write_all(begun.as_bytes()).unwrap();
        let output = interrupted(child);
        assert_eq!(output.status.code(), Some(130), "{arguments:?}");
        assert!(String::from_utf8(output.stderr).unwrap().ends_with("drillcore: interrupted\n"));
        drop(input);
    }
    prints(folder.path(), &["verify", "db"]);
}

#[test]
fn bench_runs_the_program_beside_this_one_and_gives_its_exit_code() {
    // Links, because a program that was just written cannot be started while another test forks.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let command = folder.path().join("drillcore");
    std::fs::hard_link(env!("CARGO_BIN_EXE_drillcore"), &command).unwrap();
    let bench = |arguments: &[&str]| {
        let output = Command::new(&command)
            .arg("bench")
            .args(arguments)
            .env("PATH", folder.path())
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    };
    let (code, _, message) = bench(&["sets"]);
    assert!(code == 3 && message.contains("run `make bench`"), "{message}");

    std::os::unix::fs::symlink("/bin/sh", folder.path().join("drillcore-bench")).unwrap();
    let arguments = ["-c", "echo \"$@\"; exit 7", "sh", "sets", "--rows", "2000", "--help"];
    assert_eq!(bench(&arguments), (7, "sets --rows 2000 --help\n".to_string(), String::new()));
}

#[test]
fn a_table_is_dropped_only_when_that_is_confirmed() {
    let folder = with_table();
    let without = fails(folder.path(), &["drop-table", "db", "t"]);
    assert!(without.0 == 2 && without.1.contains("use --yes to confirm"), "{without:?}");
    let unknown = fails(folder.path(), &["drop-table", "db", "tt", "--yes"]);
    assert!(unknown.0 == 2 && unknown.1.contains("did you mean \"t\""), "{unknown:?}");
    prints(folder.path(), &["snapshot", "db", "before"]);
    assert_eq!(prints(folder.path(), &["count", "db", "t"]), "4\n");
    assert_eq!(prints(folder.path(), &["drop-table", "db", "t", "--yes"]), "dropped table t\n");
    assert_eq!(fails(folder.path(), &["count", "db", "t"]).0, 2);
    assert_eq!(prints(folder.path(), &["count", "db", "t", "--at", "before"]), "4\n");
}

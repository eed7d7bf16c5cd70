//! Files that go in: their formats, what in them is refused, and why.

use crate::{CSV, begin_deaf, drillcore, fails, interrupted, prints, refused, with_table};
use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{
    ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray, TimestampSecondArray,
};
use parquet::arrow::ArrowWriter;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

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
        "bad.csv, line 10: the line is not valid UTF-8; save the file as UTF-8",
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
fn what_is_not_json_is_refused_with_the_reason_of_the_line() {
    let folder = with_table();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("first.jsonl", "{\"a\": -1, \"s\": \"\"}\n");
    prints(folder.path(), &["ingest", "db", "known", "first.jsonl", "--key=a", "--quiet"]);
    for (line, said) in [
        (r#"{"a": 1, "s": "x",}"#, "line 1: the line is not JSON: trailing comma at byte 19"),
        (r#"{"a": 01, "s": "x"}"#, "line 1: the line is not JSON: invalid number at byte "),
        (r#"{"a": 1., "s": "x"}"#, "line 1: "),
        (r#"{"a": 1, "s": "\ud800"}"#, "surrogate"),
    ] {
        write("bad.jsonl", &format!("{line}\n{{\"a\": 2, \"s\": \"y\"}}\n"));
        let ingest = ["ingest", "db", "known", "bad.jsonl", "--quiet", "--on-error=skip"];
        let output = drillcore(folder.path(), &ingest);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.contains(said) && !errors.contains("column"), "{line}: {errors}");
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(printed, "1 row appended to known, 1 left out\n", "{line}");
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
        ("long", "int64"),
        ("seconds", "timestamp[s]"),
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
        ("long", "9007199254740993", "9007199254740993.0"),
        ("seconds", "2024-01-01T23:59:59", "2024-01-01T23:59:60"),
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
fn a_text_in_utf_16_is_refused_as_such() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("a.csv", "a,b\n1,2\n"), ("b.jsonl", "{\"a\": 1}\n")] {
        for bytes_of in [u16::to_le_bytes as fn(u16) -> [u8; 2], u16::to_be_bytes] {
            let units = std::iter::once(0xfeff).chain(text.encode_utf16());
            let bytes: Vec<u8> = units.flat_map(bytes_of).collect();
            std::fs::write(folder.path().join(name), bytes).unwrap();
            let message = refused(folder.path(), &["ingest", "db", "t", name, "--key=a"]);
            let said =
                format!("drillcore: {name}: the text is in UTF-16; save the file as UTF-8\n");
            assert_eq!(message, said);
        }
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
fn a_header_that_is_no_text_and_a_name_given_twice_are_refused_by_line() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &[u8]| std::fs::write(folder.path().join(name), text).unwrap();
    write("header.csv", b"id,d\xe9j\xe0\n1,x\n");
    write("twice.jsonl", b"{\"id\": 1, \"a\": 2}\n{\"id\": 2, \"a\": \"lost\", \"a\": 3}\n");
    write("escaped.jsonl", b"{\"id\": 1, \"a\": 2}\n{\"id\": 2, \"\\u0061\": 4, \"a\": 3}\n");
    for (file, said) in [
        ("header.csv", "header.csv, line 1: the line is not valid UTF-8; save the file as UTF-8"),
        (
            "twice.jsonl",
            "twice.jsonl, line 2: column \"a\" has two values; rename one of the fields",
        ),
        ("escaped.jsonl", "escaped.jsonl, line 2: column \"a\" has two values"),
    ] {
        let ingest = ["ingest", "db", "t", file, "--key=id", "--quiet"];
        let (code, message) = fails(folder.path(), &ingest);
        assert!(code == 2 && message.contains(said), "{message}");
    }
    let skip = ["ingest", "db", "t", "twice.jsonl", "--key=id", "--quiet", "--on-error=skip"];
    assert_eq!(prints(folder.path(), &skip), "1 row appended to t, 1 left out\n");
    write("empty.csv", b"");
    assert_eq!(fails(folder.path(), &["ingest", "db", "new", "empty.csv", "--quiet"]).0, 2);
}

//! What files say is what tables hold: times with their offsets, columns in the types they are guessed to have,
//! and options that hold for the table that is there.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{RecordBatch, TimestampMicrosecondArray};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field, Schema, TimeUnit};

use crate::{drillcore, fails, prints, refused, with_table};

/// The same values of column "at" in each format of text, as a file each.
fn files(folder: &Path, times: &[&str]) -> [&'static str; 2] {
    let csv: String = times.iter().map(|time| format!("{time},7\n")).collect();
    std::fs::write(folder.join("a.csv"), format!("at,n\n{csv}")).unwrap();
    let lines = times.iter().map(|time| format!("{{\"at\": \"{time}\", \"n\": 7}}\n"));
    std::fs::write(folder.join("a.jsonl"), lines.collect::<String>()).unwrap();
    ["a.csv", "a.jsonl"]
}

fn type_of(folder: &Path, table: &str, column: &str) -> String {
    let query = format!(
        "select data_type from information_schema.columns where table_name = '{table}' and \
         column_name = '{column}'"
    );
    let printed = prints(folder, &["sql", "db", &query, "--output=csv"]);
    printed.lines().nth(1).unwrap().trim_matches('"').replace("\"\"", "\"")
}

#[test]
fn times_are_guessed_alike_from_csv_and_from_json_lines() {
    for (times, expected, shown) in [
        (&["2024-01-01", "2024-02-29"][..], "Date32", "2024-01-01"),
        (&["2024-01-01T10:00:00"], "Timestamp(s)", "2024-01-01T10:00:00"),
        (
            &["2024-01-01T10:00:00", "2024-01-01 10:00:00.25"],
            "Timestamp(ms)",
            "2024-01-01T10:00:00",
        ),
        (&["2024-01-01T10:00:00Z"], "Timestamp(s, \"UTC\")", "2024-01-01T10:00:00Z"),
        (
            &["2024-01-01T10:00:00+02:00", "2024-01-01T10:00:00Z"],
            "Timestamp(s, \"UTC\")",
            "2024-01-01T08:00:00Z",
        ),
        (
            &["2024-01-01T10:00:00.123456-04:00"],
            "Timestamp(µs, \"UTC\")",
            "2024-01-01T14:00:00.123456Z",
        ),
        // They cannot all be read as moments, so they stay as they are written.
        (&["2024-01-01T10:00:00", "2024-01-01T10:00:00Z"], "Utf8", "2024-01-01T10:00:00"),
        (&["2024-01-01T10:00:00 or so"], "Utf8", "2024-01-01T10:00:00 or so"),
        (&["soon", "2024-01-01"], "Utf8", "2024-01-01"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        for (file, table) in files(folder, times).into_iter().zip(["csv", "jsonl"]) {
            prints(folder, &["ingest", "db", table, file, "--key=at", "--quiet"]);
            assert_eq!(type_of(folder, table, "at"), expected, "{times:?} from {file}");
            let scan = ["scan", "db", table, "--columns=at", "--limit=1", "--output=csv"];
            assert_eq!(prints(folder, &scan), format!("at\n{shown}\n"), "{file}");
        }
    }
}

#[test]
fn a_rollup_table_is_made_from_json_lines_and_from_times_with_offsets() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let times = ["2024-01-01T10:10:00Z", "2024-01-01T12:50:00+02:00", "2024-01-01T11:00:00Z"];
    let rollup = ["--merge=rollup", "--time=at", "--granularity=1h", "--metric=n=count", "--quiet"];
    for (file, table) in files(folder, &times).into_iter().zip(["csv", "jsonl"]) {
        prints(folder, &[&["ingest", "db", table, file], &rollup[..]].concat());
        assert_eq!(
            prints(folder, &["scan", "db", table, "--output=csv"]),
            "at,n\n2024-01-01T10:00:00Z,2\n2024-01-01T11:00:00Z,1\n"
        );
    }
}

#[test]
fn an_offset_is_never_dropped_and_a_column_with_a_zone_takes_times_with_and_without() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("first.csv"), "id\n0\n").unwrap();
    prints(folder, &["ingest", "db", "t", "first.csv", "--key=id", "--quiet"]);
    for (column, stores) in [
        ("clock", "timestamp[us]"),
        ("utc", "timestamp[us, UTC]"),
        ("oslo", "timestamp[us, Europe/Oslo]"),
        ("day", "date32"),
    ] {
        prints(folder, &["add-column", "db", "t", column, stores]);
    }
    let mut id = 0;
    let mut ingest = |column: &str, time: &str, format: &str| {
        id += 1;
        let text = match format {
            "csv" => format!("id,{column}\n{id},{time}\n"),
            _ => format!("{{\"id\": {id}, {column:?}: {time:?}}}\n"),
        };
        let file = format!("a.{format}");
        std::fs::write(folder.join(&file), text).unwrap();
        (id, drillcore(folder, &["ingest", "db", "t", &file, "--quiet"]))
    };
    for format in ["csv", "jsonl"] {
        for (column, time) in [
            ("clock", "2024-07-01T10:00:00Z"),
            ("clock", "2024-07-01T10:00:00+00:00"),
            ("clock", "2024-07-01 10:00:00 -04:00"),
            ("clock", "2024-07-01 100000 +02:00"),
            ("clock", "2024-07-01T10:00:00.5z"),
            ("day", "2024-07-01T00:00:00Z"),
            ("day", "2024-07-01T00:00:00-04:00"),
        ] {
            let (_, output) = ingest(column, time, format);
            let message = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{format}, {time} into {column}");
            let line = if format == "csv" { 2 } else { 1 };
            let said = format!("a.{format}, line {line}: column {column:?} stores");
            assert!(message.contains(&said) && message.contains(time), "{message}");
            assert_eq!(message.contains("has no time zone"), column == "clock", "{message}");
        }
        for (column, time, expected) in [
            ("clock", "2024-07-01T10:00:00.25", "2024-07-01T10:00:00.250"),
            ("utc", "2024-07-01T10:00:00+02:00", "2024-07-01T08:00:00Z"),
            ("utc", "2024-07-01T10:00:00", "2024-07-01T10:00:00Z"),
            ("oslo", "2024-07-01T10:00:00Z", "2024-07-01T12:00:00+02:00"),
            // A time without an offset is what a clock there shows.
            ("oslo", "2024-07-01T10:00:00", "2024-07-01T10:00:00+02:00"),
            ("oslo", "2024-01-01T10:00:00", "2024-01-01T10:00:00+01:00"),
            ("day", "2024-07-01T00:00:00", "2024-07-01"),
        ] {
            let (id, output) = ingest(column, time, format);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let key = id.to_string();
            let found =
                prints(folder, &["get", "db", "t", &key, "--columns", column, "--output=csv"]);
            assert_eq!(found, format!("{column}\n{expected}\n"), "{format}");
        }
        // An hour that is twice, or never, on that clock.
        for time in ["2024-10-27T02:30:00", "2024-03-31T02:30:00"] {
            assert_eq!(ingest("oslo", time, format).1.status.code(), Some(2), "{time}");
        }
    }
}

#[test]
fn values_on_the_command_line_are_read_as_strictly_as_those_of_files() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("a.csv"), "at,n\n2024-07-01T10:00:00,1\n").unwrap();
    std::fs::write(folder.join("z.csv"), "at,n\n2024-07-01T10:00:00Z,1\n").unwrap();
    let upsert = ["--key=at", "--merge=upsert", "--quiet"];
    prints(folder, &[&["ingest", "db", "clock", "a.csv"], &upsert[..]].concat());
    prints(folder, &[&["ingest", "db", "utc", "z.csv"], &upsert[..]].concat());
    for text in ["2024-07-01T10:00:00Z", "2024-07-01T12:00:00+02:00", "2024-07-01T10:00:00.5"] {
        for arguments in [
            &["get", "db", "clock", text][..],
            &["count", "db", "clock", "--from", text],
            &["scan", "db", "clock", "--to", text],
            &["delete", "db", "clock", text],
        ] {
            let message = refused(folder, arguments);
            assert!(message.contains("which cannot hold"), "{message}");
        }
    }
    assert_eq!(prints(folder, &["count", "db", "clock"]), "1\n");
    for text in ["2024-07-01T10:00:00Z", "2024-07-01T12:00:00+02:00", "2024-07-01T10:00:00"] {
        prints(folder, &["get", "db", "utc", text]);
    }
}

#[test]
fn options_that_contradict_the_table_that_is_there_are_refused_and_those_that_agree_pass() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let csv = "at,city,delay,weight\n2024-01-01T10:10:00,Oslo,5,1\n";
    std::fs::write(folder.join("a.csv"), csv).unwrap();
    let plain = ["--key=at,city", "--set=city", "--weights=weight,delay"];
    let rollup = [
        "--merge=rollup",
        "--time=at",
        "--granularity=1h",
        "--dimension=city",
        "--set=city",
        "--metric=n=count",
        "--metric=delay=sum(delay)",
    ];
    let call = |table: &'static str, options: &[&'static str]| -> Vec<&str> {
        [&["ingest", "db", table, "a.csv", "--quiet"], options].concat()
    };
    prints(folder, &call("plain", &plain));
    prints(folder, &call("rollup", &rollup));
    // A script that makes the table if it is missing calls the same again.
    prints(folder, &call("plain", &plain));
    prints(folder, &call("rollup", &rollup));
    for (table, option) in [
        ("plain", "--merge=append"),
        ("plain", "--key=at,city"),
        ("plain", "--set=city"),
        ("plain", "--weights=delay,weight"),
        ("rollup", "--key=at,city"),
        ("rollup", "--merge=rollup"),
    ] {
        prints(folder, &call(table, &[option]));
    }
    prints(folder, &call("some", &["--key=at", "--streams=delay,weight"]));
    prints(folder, &call("none", &["--key=at", "--no-streams"]));
    prints(folder, &call("some", &["--streams=delay,weight"]));
    prints(folder, &call("none", &["--no-streams"]));
    prints(folder, &call("rollup", &["--metric=delay=SUM( delay )", "--metric=n = count(*)"]));
    prints(folder, &call("rollup", &["--time=at", "--granularity=1h"]));
    let cases: [(&'static str, &[&'static str], &str); 19] = [
        ("plain", &["--key=at"], "--key is at, but the table has at,city"),
        ("plain", &["--key=city,at"], "--key is city,at, but the table has at,city"),
        ("plain", &["--merge=upsert"], "--merge is upsert, but the table has append"),
        ("plain", &["--set=at"], "--set is at, but the table has city"),
        ("plain", &["--weights=delay"], "--weights is delay, but the table has weight,delay"),
        ("plain", &["--metric=n=count"], "--metric is n=count, but the table has none"),
        ("plain", &["--dimension=delay"], "--dimension is delay, but the table has at,city"),
        ("plain", &["--discover"], "--discover is given, but the table has fixed dimensions"),
        (
            "plain",
            &["--set=city", "--no-set-index"],
            "--no-set-index is given, but the table has indexed sets",
        ),
        ("some", &["--streams=delay"], "--streams is delay, but the table has delay,weight"),
        ("some", &["--no-streams"], "--no-streams is given, but the table has delay,weight"),
        ("none", &["--streams=delay"], "--streams is delay, but the table has none"),
        ("rollup", &["--merge=append"], "--merge is append, but the table has rollup"),
        ("rollup", &["--weights=delay"], "--weights is delay, but the table has none"),
        ("rollup", &["--key=city"], "--key is city, but the table has at,city"),
        ("rollup", &["--time=at", "--granularity=1d"], "--granularity is 1d, but the table has 1h"),
        ("rollup", &["--time=city", "--granularity=1h"], "--time is city, but the table has at"),
        (
            "rollup",
            &["--metric=n=count"],
            "--metric is n=count, but the table has n=count,delay=sum(delay)",
        ),
        (
            "rollup",
            &["--metric=n=count", "--metric=delay=max(delay)"],
            "--metric is n=count,delay=max(delay), but the table has n=count,delay=sum(delay)",
        ),
    ];
    let before = prints(folder, &["count", "db", "plain"]);
    for (table, options, said) in cases {
        let message = refused(folder, &call(table, options));
        assert!(
            message.contains(&format!("table {table:?} exists and does not match")),
            "{message}"
        );
        assert!(message.contains(said), "{said:?} is missing in {message}");
    }
    let both = refused(folder, &call("plain", &["--key=at", "--merge=upsert"]));
    assert!(both.contains("--key is") && both.contains("--merge is"), "{both}");
    assert_eq!(prints(folder, &["count", "db", "plain"]), before);
    // Dimensions that were added may be named, and left out.
    prints(folder, &["add-column", "db", "rollup", "weight", "int64"]);
    prints(folder, &call("rollup", &rollup));
    prints(folder, &call("rollup", &["--dimension=at,city,weight"]));
}

#[test]
fn a_quote_that_is_never_closed_does_not_swallow_the_rows_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("a.csv"), "id,name\n1,x\n2,\"y\n3,z\n4,z\n").unwrap();
    std::fs::write(folder.join("b.csv"), "id,name\n1,x\n").unwrap();
    prints(folder, &["ingest", "db", "known", "b.csv", "--key=id", "--quiet"]);
    for table in ["known", "new"] {
        for on_error in ["--on-error=raise", "--on-error=skip"] {
            let ingest = ["ingest", "db", table, "a.csv", "--key=id", "--quiet", on_error];
            let message = refused(folder, &ingest);
            assert!(message.contains("a.csv, line 3: the quote that opens here"), "{message}");
        }
    }
}

#[test]
fn a_url_and_an_empty_name_are_refused_by_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("a.csv"), "id,name\n1,x\n").unwrap();
    std::fs::write(folder.join("unnamed.csv"), "id,,name\n1,2,x\n").unwrap();
    for database in ["s3://bucket/x", "file:///tmp/x", "https://example.org/x", ":memory:"] {
        for arguments in [
            &["ingest", database, "t", "a.csv", "--key=id"][..],
            &["count", database, "t"],
            &["sql", database, "select 1"],
            &["demo", "--rows=1000", "--database", database],
        ] {
            let message = refused(folder, arguments);
            assert!(message.contains(database) && message.contains("give"), "{message}");
        }
    }
    prints(folder, &["ingest", "db", "t", "a.csv", "--key=id", "--quiet"]);
    for arguments in [
        &["ingest", "db", "", "a.csv", "--key=id"][..],
        &["ingest", "db", "u", "unnamed.csv", "--key=id"],
        &["add-column", "db", "t", "", "int64"],
        &["add-column", "db", "t", " ", "int64"],
        &["snapshot", "db", ""],
    ] {
        assert!(refused(folder, arguments).contains("is not a valid name of a"));
    }
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["a.csv", "db", "unnamed.csv"]);
}

#[test]
fn what_is_nested_in_json_lines_is_spread_over_columns_or_kept_as_text() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let lines = [
        r#"{"id": 1, "user": {"name": "Ann", "seen": "2024-01-01T10:00:00+02:00"}, "tags": ["a"], "path": [[1, 2]]}"#,
        r#"{"id": 2, "user": null, "tags": [], "path": [{"x": "]"}]}"#,
    ];
    std::fs::write(folder.join("a.jsonl"), lines.join("\n")).unwrap();
    prints(folder, &["ingest", "db", "t", "a.jsonl", "--key=id", "--quiet"]);
    assert_eq!(type_of(folder, "t", "user.seen"), "Timestamp(s, \"UTC\")");
    let scan = prints(folder, &["scan", "db", "t", "--output=jsonl"]);
    let expected = [
        r#"{"id":1,"user.name":"Ann","user.seen":"2024-01-01T08:00:00Z","tags":["a"],"path":"[[1, 2]]"}"#,
        r#"{"id":2,"user.name":null,"user.seen":null,"tags":[],"path":"[{\"x\": \"]\"}]"}"#,
    ];
    let value = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
    let found: Vec<_> = scan.lines().map(value).collect();
    assert_eq!(found, expected.map(value));
    // What an export writes comes back, as its columns have these names.
    prints(folder, &["export", "db", "t", "b.jsonl", "--quiet"]);
    prints(folder, &["ingest", "db", "u", "b.jsonl", "--key=id", "--quiet"]);
    let again = prints(folder, &["scan", "db", "u", "--output=jsonl"]);
    assert_eq!(again.lines().map(value).collect::<Vec<_>>(), found);

    let deep = format!("{{\"id\": 3, \"user\": {}1{}}}", "{\"a\": ".repeat(40), "}".repeat(40));
    std::fs::write(folder.join("deep.jsonl"), format!("{}\n{deep}\n", lines[0])).unwrap();
    for table in ["t", "new"] {
        let message = refused(folder, &["ingest", "db", table, "deep.jsonl", "--key=id"]);
        assert!(message.contains("deep.jsonl, line 2: column \"user.a.a"), "{message}");
        assert!(message.contains("nested deeper than 32 levels, the limit"), "{message}");
    }
    assert_eq!(prints(folder, &["count", "db", "t"]), "2\n");
    let skip = ["ingest", "db", "new", "deep.jsonl", "--key=id", "--on-error=skip", "--quiet"];
    assert!(prints(folder, &skip).starts_with("1 row appended to new, 1 left out"));
}

#[test]
fn columns_of_json_lines_have_the_order_of_the_file_and_objects_may_be_text() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let lines = [
        r#"{"zeta": 1, "id": 1, "user": {"name": "Ann", "age": 7}, "alpha": [1, 2]}"#,
        r#"{"id": 2, "more": true, "user": {"mail": "b@c"}, "zeta": 2}"#,
    ];
    std::fs::write(folder.join("a.jsonl"), lines.join("\n")).unwrap();
    prints(folder, &["ingest", "db", "t", "a.jsonl", "--key=id", "--quiet"]);
    let first = |table: &str| {
        let scan = prints(folder, &["scan", "db", table, "--output=csv"]);
        scan.lines().next().unwrap().to_string()
    };
    assert_eq!(first("t"), "zeta,id,user.name,user.age,alpha,more,user.mail");
    let typed = ["ingest", "db", "u", "a.jsonl", "--key=id", "--quiet"];
    let given = ["--type=user=string", "--type=zeta=int16"];
    prints(folder, &[&typed[..], &given].concat());
    assert_eq!(first("u"), "zeta,id,user,alpha,more");
    let users = prints(folder, &["scan", "db", "u", "--columns=user", "--output=jsonl"]);
    let value = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
    assert_eq!(value(users.lines().next().unwrap())["user"], r#"{"name": "Ann", "age": 7}"#);
    // Goes on as it began, also without the option.
    prints(folder, &["ingest", "db", "u", "a.jsonl", "--quiet"]);
    assert_eq!(prints(folder, &["count", "db", "u"]), "4\n");
    let unknown =
        refused(folder, &["ingest", "db", "v", "a.jsonl", "--key=id", "--type=usr=string"]);
    assert!(unknown.contains("unknown column \"usr\""), "{unknown}");
}

#[test]
fn an_object_that_is_null_in_a_row_is_null_in_all_its_columns() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let lines = [
        r#"{"id": 1, "user": {"name": "Ann", "home": {"city": "Oslo"}}}"#,
        r#"{"id": 2, "user": null}"#,
        r#"{"id": 3, "user": {"name": "Bob", "home": null}}"#,
    ];
    std::fs::write(folder.join("a.jsonl"), lines.join("\n")).unwrap();
    std::fs::write(folder.join("null.jsonl"), "{\"id\": 4, \"user\": null}\n").unwrap();
    // Rows of an upsert table must have all columns: null is a value for each of them.
    for (table, merge) in [("t", "append"), ("u", "upsert")] {
        let ingest = ["ingest", "db", table, "a.jsonl", "--key=id", "--merge", merge, "--quiet"];
        assert_eq!(prints(folder, &ingest), format!("3 rows appended to {table}, 0 left out\n"));
        prints(folder, &["ingest", "db", table, "null.jsonl", "--quiet"]);
        assert_eq!(
            prints(folder, &["scan", "db", table, "--output=csv"]),
            "id,user.name,user.home.city\n1,Ann,Oslo\n2,,\n3,Bob,\n4,,\n"
        );
    }
}

#[test]
fn a_column_of_mixed_types_in_json_lines_is_text_if_its_type_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let lines = [
        r#"{"id": 1, "a": 5, "b": 7}"#,
        r#"{"id": 2, "a": "x", "b": {"c": 1}}"#,
        r#"{"id": 3, "a": 1.50, "b": 8}"#,
        r#"{"id": 4, "a": 12345678901234567891, "b": null}"#,
    ];
    std::fs::write(folder.join("a.jsonl"), lines.join("\n")).unwrap();
    let ingest = ["ingest", "db", "t", "a.jsonl", "--key=id", "--quiet"];
    for (given, said) in [
        (
            &["--type=b=string"][..],
            "line 1: column \"a\" stores string, which cannot hold 5; use --type a=string to store it as text",
        ),
        (
            &["--type=a=string"],
            "line 2: column \"b\" stores int64, which cannot hold {\"c\": 1}; correct it, or store the column as text \
             in a new table, with --type b=string",
        ),
    ] {
        let message = refused(folder, &[&ingest[..], given].concat());
        assert!(message.contains(said), "{message}");
    }
    let given = ["--type=a=string", "--type=b=string"];
    // Into a new table, and into the one that is there then.
    for _ in 0..2 {
        prints(folder, &[&ingest[..], &given].concat());
    }
    let all = "select id, a, b from t group by id, a, b order by id";
    assert_eq!(
        prints(folder, &["sql", "db", all, "--output=jsonl"]),
        "{\"id\":1,\"a\":\"5\",\"b\":\"7\"}\n\
         {\"id\":2,\"a\":\"x\",\"b\":\"{\\\"c\\\": 1}\"}\n\
         {\"id\":3,\"a\":\"1.50\",\"b\":\"8\"}\n\
         {\"id\":4,\"a\":\"12345678901234567891\",\"b\":null}\n"
    );
    assert_eq!(prints(folder, &["count", "db", "t"]), "8\n");
}

#[test]
fn a_whole_number_that_a_float_would_change_needs_a_type() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let lines = "{\"id\": 1, \"v\": 1}\n\n{\"id\": 2, \"v\": 12345678901234567891}\n";
    std::fs::write(folder.join("a.jsonl"), lines).unwrap();
    let ingest = ["ingest", "db", "t", "a.jsonl", "--key=id", "--quiet"];
    let message = refused(folder, &ingest);
    let said = "a.jsonl, line 3: column \"v\" would store float64, which cannot hold 12345678901234567891 exactly";
    assert!(message.contains(said) && message.contains("--type v=float64"), "{message}");
    for (table, given, stored) in [
        ("whole", "v=uint64", "{\"v\":12345678901234567891}"),
        ("rounded", "v=float64", "{\"v\":1.2345678901234567e19}"),
    ] {
        let typed = ["ingest", "db", table, "a.jsonl", "--key=id", "--quiet", "--type", given];
        prints(folder, &typed);
        let found = prints(folder, &["scan", "db", table, "--columns=v", "--output=jsonl"]);
        assert_eq!(found.lines().nth(1), Some(stored));
    }
    std::fs::write(folder.join("c.csv"), "id,v\n1,0.5\n2,9007199254740993\n").unwrap();
    let message = refused(folder, &["ingest", "db", "c", "c.csv", "--key=id", "--quiet"]);
    assert!(message.contains("c.csv, line 3: column \"v\" would store float64"), "{message}");
    // A program that knows floats only writes no more digits than a float has.
    std::fs::write(folder.join("b.jsonl"), "{\"id\": 1, \"v\": 18446744073709552000}\n").unwrap();
    prints(folder, &["ingest", "db", "u", "b.jsonl", "--key=id", "--quiet"]);
    assert_eq!(type_of(folder, "u", "v"), "Float64");
}

#[test]
fn an_array_that_is_no_list_of_strings_makes_all_arrays_of_its_column_text() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let lines = [
        r#"{"id": 1, "n": [1,2], "o": [], "s": ["a"], "l": []}"#,
        r#"{"id": 2, "n": [], "o": [{"a":1}], "s": [1], "l": ["x"]}"#,
        r#"{"id": 3, "n": null, "s": [null]}"#,
    ];
    std::fs::write(folder.join("a.jsonl"), lines.join("\n")).unwrap();
    let printed = prints(folder, &["ingest", "db", "t", "a.jsonl", "--key=id", "--quiet"]);
    assert_eq!(printed, "3 rows appended to t, 0 left out\n");
    assert_eq!(
        prints(folder, &["scan", "db", "t", "--output=jsonl"]),
        "{\"id\":1,\"n\":\"[1,2]\",\"o\":\"[]\",\"s\":\"[\\\"a\\\"]\",\"l\":[]}\n\
         {\"id\":2,\"n\":\"[]\",\"o\":\"[{\\\"a\\\":1}]\",\"s\":\"[1]\",\"l\":[\"x\"]}\n\
         {\"id\":3,\"n\":null,\"o\":null,\"s\":\"[null]\",\"l\":null}\n"
    );
}

#[test]
fn an_object_or_array_that_the_given_type_cannot_hold_is_named_with_its_line_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (table, value) in [("t", r#"{"b": 1}"#), ("u", "[1, 2]"), ("v", r#"["x"]"#)] {
        let lines = format!("{{\"id\": 1, \"a\": 7}}\n\n{{\"id\": 2, \"a\": {value}}}\n");
        std::fs::write(folder.join("a.jsonl"), lines).unwrap();
        let ingest = ["ingest", "db", table, "a.jsonl", "--key=id", "--type=a=int64", "--quiet"];
        let said = format!(
            "a.jsonl, line 3: column \"a\" stores int64, which cannot hold {value}; correct it, or store the column as text \
             in a new table, with --type a=string"
        );
        let message = refused(folder, &ingest);
        assert!(message.contains(&said), "{message}");
        let skipped = drillcore(folder, &[&ingest[..], &["--on-error=skip"]].concat());
        assert_eq!(skipped.stdout, format!("1 row appended to {table}, 1 left out\n").as_bytes());
        let reported = String::from_utf8(skipped.stderr).unwrap();
        assert!(reported.contains(&said["a.jsonl, ".len()..]), "{reported}");
        // Where the table is there, too.
        assert!(refused(folder, &ingest).contains(&said));
        // What it says works.
        let text =
            ["ingest", "db", &format!("{table}_text"), "a.jsonl", "--key=id", "--type=a=string"];
        assert!(prints(folder, &text).starts_with("2 rows"));
    }
}

/// Rows in such a zone could be stored, and never printed.
#[test]
fn a_time_zone_that_does_not_exist_is_refused_before_a_table_has_it() {
    let folder = with_table();
    let folder = folder.path();
    let known = "use a name such as \"UTC\", \"Europe/Oslo\" or \"+01:00\"";
    let add = ["add-column", "db", "t", "at", "timestamp[us, Mars/Base]"];
    assert!(refused(folder, &add).contains(known), "{}", refused(folder, &add));
    let given =
        ["ingest", "db", "new", "a.csv", "--key=city", "--type=hour=timestamp[s, Mars/Base]"];
    assert!(refused(folder, &given).contains(known));
    let zone = Some("Mars/Base".into());
    let at = Field::new("at", DataType::Timestamp(TimeUnit::Microsecond, zone), false);
    let columns = Arc::new(Schema::new(vec![at]));
    let at = TimestampMicrosecondArray::from(vec![1]).with_timezone("Mars/Base");
    let rows = RecordBatch::try_new(columns.clone(), vec![Arc::new(at)]).unwrap();
    let file = File::create(folder.join("a.arrow")).unwrap();
    let mut writer = StreamWriter::try_new(file, &columns).unwrap();
    writer.write(&rows).unwrap();
    writer.finish().unwrap();
    let from_file = ["ingest", "db", "new", "a.arrow", "--key=at"];
    let message = refused(folder, &from_file);
    assert!(message.contains("a.arrow: column \"at\"") && message.contains(known), "{message}");
    let in_utc = [&from_file[..], &["--type=at=timestamp[us, UTC]"]].concat();
    assert!(prints(folder, &in_utc).starts_with("1 row appended"));
    assert!(prints(folder, &["scan", "db", "new"]).contains("1970-01-01T00:00:00.000001Z"));
}

#[test]
fn a_file_that_is_no_arrow_file_is_not_said_to_be_too_large() {
    let folder = with_table();
    let folder = folder.path();
    std::fs::write(folder.join("bad.arrow"), "garbage, and more of it").unwrap();
    let (code, message) = fails(folder, &["ingest", "db", "new", "bad.arrow", "--key=k"]);
    assert_eq!(code, 3);
    assert!(message.contains("the file is not an Arrow IPC file or stream"), "{message}");
}

//! The command as scripts use it: what it prints, and how it exits.

use crate::{CSV, begin_deaf, drillcore, fails, interrupted, prints, refused, with_table};
use arrow_array::{ArrayRef, RecordBatch, StringArray, TimestampSecondArray};
use drillcore::{Database, OnError, Options};
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

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

//! What makes a shell comfortable: scripts of SQL, descriptions, completions and manual pages. The prompt itself, which
//! needs a terminal, is tested with the Python package.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn drillcore(folder: &Path, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_drillcore"))
        .current_dir(folder)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Who refuses the arguments reads no input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// What a call that must succeed prints.
fn prints(folder: &Path, arguments: &[&str], input: &str) -> String {
    let output = drillcore(folder, arguments, input);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

const CSV: &str = "id,zip,city,miles\n1,00123,Oslo,5\n2,00456,Rome,7\n3,00123,Oslo,9\n";

/// A folder with `db`, whose tables `t` and `by_city` were made from standard input.
fn with_tables() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let types = ["--type=zip=string", "--type=id=int32", "--type", "miles=int16"];
    let key = ["--key=id", "--set=city", "--weights=miles", "--merge=upsert", "--quiet"];
    let ingest = [&["ingest", "db", "t", "-"], &types[..], &key[..]].concat();
    assert_eq!(prints(folder.path(), &ingest, CSV), "3 rows appended to t, 0 left out\n");
    let rollup = ["--merge=rollup", "--dimension=city", "--metric=far=max(miles)", "--quiet"];
    prints(folder.path(), &[&["ingest", "db", "by_city", "-"], &rollup[..]].concat(), CSV);
    prints(folder.path(), &["compact", "db"], "");
    folder
}

#[test]
fn types_that_are_given_are_those_of_the_table_and_others_are_refused() {
    let folder = with_tables();
    let scan = prints(folder.path(), &["scan", "db", "t", "--output=csv"], "");
    assert_eq!(scan, CSV);
    let again = ["ingest", "db", "t", "-", "--quiet", "--type=zip=string"];
    assert_eq!(prints(folder.path(), &again, CSV), "3 rows appended to t, 0 left out\n");
    for (table, given, said) in [
        ("t", "zip=int64", "--type is zip=int64, but the table has string"),
        ("t", "zap=int64", "--type is zap=int64, but the table has no such column"),
        ("new", "zap=int64", "did you mean \"zip\""),
        ("new", "zip=text", "unknown type \"text\""),
        ("new", "zip", "expected COLUMN=TYPE"),
        // The text is what does not fit, and no table is made for it.
        ("new", "city=int64", "column \"city\" stores int64, which cannot hold \"Oslo\""),
    ] {
        let ingest = ["ingest", "db", table, "-", "--quiet", "--key=id", "--type", given];
        let output = drillcore(folder.path(), &ingest, CSV);
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && message.contains(said), "{given}: {message}");
    }
    // One type, said twice, is no contradiction.
    for (second, said) in
        [("zip=int64", "column \"zip\" two types, string and int64"), ("zip=string", "")]
    {
        let ingest = ["ingest", "db", "t", "-", "--quiet", "--type=zip=string", "--type", second];
        let output = drillcore(folder.path(), &ingest, CSV);
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() == said.is_empty() && message.contains(said), "{message}");
    }
    let tables = prints(folder.path(), &["tables", "db", "--output=csv"], "");
    assert_eq!(tables.lines().count(), 3, "{tables}");
}

#[test]
fn a_long_standard_input_makes_a_table_of_all_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    // More than types are guessed from, and more than is kept in memory.
    let lines: String =
        (0..60_000).map(|id| format!("{{\"id\": {id}, \"text\": \"{id:0100}\"}}\n")).collect();
    assert!(lines.len() > 6 << 20);
    let ingest = ["ingest", "db", "t", "-", "--format=jsonl", "--key=id", "--quiet"];
    let printed = prints(folder.path(), &ingest, &lines);
    assert_eq!(printed, "60,000 rows appended to t, 0 left out\n");
    let query =
        "select count(distinct id) as n, min(id) as low, max(id) as high, max(text) as text from t";
    let found = prints(folder.path(), &["sql", "db", query, "--output=csv"], "");
    assert_eq!(found, format!("n,low,high,text\n60000,0,59999,{:0100}\n", 59_999));
}

#[test]
fn statements_on_standard_input_run_up_to_the_first_that_fails() {
    let folder = with_tables();
    let sql = ["sql", "db", "--output=csv"];
    let script = "-- two; of them\nselect count(*) as n from t; select ';' as a;\n\nselect 1 as b";
    assert_eq!(prints(folder.path(), &sql, script), "n\n3\na\n;\nb\n1\n");
    assert_eq!(prints(folder.path(), &sql, ""), "");
    let output = drillcore(folder.path(), &sql, "select 1 as a;\n\nselect * from tt;\nselect 2;");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "a\n1\n");
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        message.starts_with("drillcore: standard input, line 3: unknown table \"tt\""),
        "{message}"
    );
    let output = drillcore(folder.path(), &sql, "select 1 as a;\n\\d t;");
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("line 2: \\d is a command of the prompt"), "{message}");
    let output = drillcore(folder.path(), &["sql", "db", "--at=never"], "");
    assert_eq!(
        output.status.code(),
        Some(2),
        "a snapshot that is not there is noticed before a query"
    );
}

#[test]
fn a_statement_that_changes_something_is_refused_with_the_command_for_it() {
    let folder = with_tables();
    for (text, said) in [
        (
            "/* by hand */ delete from t where id = 1",
            "use `drillcore delete DATABASE TABLE --where CONDITION`",
        ),
        ("insert into t values (1)", "use `drillcore ingest` to add rows"),
        ("drop table t", "use `drillcore drop-table` to remove a table"),
        ("set x = 1", "give `drillcore sql` --threads and --memory-bytes"),
    ] {
        for (arguments, input) in [(&["sql", "db", text][..], ""), (&["sql", "db"], text)] {
            let output = drillcore(folder.path(), arguments, input);
            let message = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{message}");
            assert!(message.contains(said), "{message}");
        }
    }
    let sort = ["sql", "db", "--memory-bytes=1", "select id, count(*) from t group by id"];
    let output = drillcore(folder.path(), &sort, "");
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("raise --memory-bytes, or"), "{message}");
}

#[test]
fn a_table_spells_out_what_would_move_the_cursor_or_set_a_color() {
    let folder = with_tables();
    let sql = "select chr(27) || '[31m' as red, 'a' || chr(10) || 'b' as lines, 1 as \"\u{7}\"";
    let table = prints(folder.path(), &["sql", "db", sql], "");
    assert!(table.contains("| \\u{1b}[31m | a     | "), "{table}");
    assert!(!table.contains(|char: char| char.is_control() && char != '\n'), "{table:?}");
    let csv = prints(folder.path(), &["sql", "db", sql, "--output=csv"], "");
    assert!(csv.contains("\u{1b}[31m") && csv.contains('\u{7}'), "{csv:?}");
}

#[test]
fn a_description_has_all_of_a_table() {
    let folder = with_tables();
    let describe =
        |arguments: &[&str]| prints(folder.path(), &[&["describe", "db"], arguments].concat(), "");
    let all = describe(&["--output=csv"]);
    let lines: Vec<&str> = all.lines().collect();
    assert_eq!(lines[0], "table,merge,key,set,weights,columns,rows,segments,bytes");
    assert!(lines[1].starts_with("by_city,rollup,city,,,2,2,1,"), "{all}");
    assert!(lines[2].starts_with("t,upsert,id,city,miles,4,3,1,"), "{all}");
    assert!(lines[1..].iter().all(|line| !line.ends_with(",0")), "a segment has bytes: {all}");
    assert_eq!(
        describe(&["t", "--output=csv"]),
        "column,type,nullable,role\nid,int32,true,key 1\nzip,string,true,\ncity,string,true,set\n\
         miles,int16,true,weight\n"
    );
    let rollup = describe(&["by_city"]);
    for part in ["merge     rollup", "rows      2", "in 1 segment\n", "| max(miles) |", "key 1"] {
        assert!(rollup.contains(part), "{part:?} is missing in {rollup}");
    }
    let output = drillcore(folder.path(), &["describe", "db", "by_cty"], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("did you mean \"by_city\""));
}

#[test]
fn completions_and_manual_pages_name_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    let help = prints(folder.path(), &["help"], "");
    let (_, verbs) = help.split_once("Commands:\n").unwrap();
    let verbs = verbs.lines().take_while(|line| !line.is_empty());
    let verbs: Vec<&str> = verbs.filter_map(|line| line.split_whitespace().next()).collect();
    for shell in ["bash", "zsh", "fish"] {
        let script = prints(folder.path(), &["completions", shell], "");
        assert!(verbs.iter().all(|verb| script.contains(verb)), "{shell}");
        assert!(script.contains("force") && script.contains("jsonl"), "{shell}");
    }
    let script = prints(folder.path(), &["completions", "bash"], "");
    let words = "COMP_WORDS=(drillcore exp); COMP_CWORD=1; _drillcore drillcore exp drillcore; \
                 echo \"${COMPREPLY[@]}\"";
    let bash = Command::new("bash").args(["-c", &format!("{script}\n{words}")]).output().unwrap();
    assert_eq!(String::from_utf8(bash.stdout).unwrap(), "export\n");

    let printed = prints(folder.path(), &["man", "pages/man1"], "");
    assert_eq!(printed, format!("{} pages written to pages/man1\n", verbs.len()));
    let page =
        |name: &str| std::fs::read_to_string(folder.path().join("pages/man1").join(name)).unwrap();
    assert!(page("drillcore.1").contains("drillcore\\-export(1)"));
    for verb in verbs.iter().filter(|verb| **verb != "help") {
        assert!(page(&format!("drillcore-{verb}.1")).contains("drillcore"), "{verb}");
    }
    assert!(page("drillcore-export.1").contains("\\-\\-sample"));
}

/// A table of as many rows as a pipe has no room for.
fn long_table(folder: &Path) {
    let rows: String = (0..20_000).map(|id| format!("{id},{id:0100}\n")).collect();
    std::fs::write(folder.join("long.csv"), format!("id,text\n{rows}")).unwrap();
    prints(
        folder,
        &["ingest", "long", "t", "long.csv", "--key", "id", "--type", "text=string"],
        "",
    );
}

#[test]
fn who_reads_the_beginning_of_the_output_has_no_errors() {
    let folder = tempfile::tempdir().unwrap();
    long_table(folder.path());
    for format in ["csv", "jsonl", "table", "arrow"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drillcore"));
        command.current_dir(folder.path()).args(["scan", "long", "t", "--output", format]);
        let mut scan = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = [0];
        scan.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let output = scan.wait_with_output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), errors.as_str()), (Some(0), ""), "{format}");
    }
}

#[test]
fn an_exit_code_does_not_depend_on_who_hears_the_message() {
    let folder = tempfile::tempdir().unwrap();
    long_table(folder.path());
    let ended = |arguments: &[&str]| {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_drillcore"));
        let command = command.current_dir(folder.path()).args(arguments);
        command.stdout(Stdio::null()).stderr(full).status().unwrap().code()
    };
    assert_eq!(ended(&["count", "long", "nosuch"]), Some(2));
    assert_eq!(ended(&["estimate", "long", "t", "avg(id)", "-n", "100"]), Some(0));
}

#[test]
fn a_table_shows_the_beginning_of_a_text_that_has_no_end() {
    let folder = tempfile::tempdir().unwrap();
    let text = "ä".repeat(1 << 20);
    std::fs::write(folder.path().join("a.csv"), format!("id,text\n1,{text}\n")).unwrap();
    prints(folder.path(), &["ingest", "db", "t", "a.csv", "--key", "id"], "");
    let table = prints(folder.path(), &["scan", "db", "t"], "");
    assert!(table.contains("ä... (2,097,152 bytes; --output csv has them all)"), "{}", table.len());
    assert!(table.len() < 200_000);
    assert!(prints(folder.path(), &["scan", "db", "t", "--output", "csv"], "").contains(&text));
}

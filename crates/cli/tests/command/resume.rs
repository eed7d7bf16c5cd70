//! Ingesting on all cores keeps the order of the file, and goes on where it was killed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::{drillcore, prints, refused};

const ROWS: usize = 400_000;

/// Records whose texts span lines and hold quotes, in CSV and as JSON lines.
fn write_files(folder: &Path) -> [&'static str; 4] {
    let note = |row: usize| format!("note \"{}\"\nof {row}", row % 7);
    let csv = |row| format!("{row},\"{}\"\n", note(row).replace('"', "\"\""));
    let json = |row| {
        let note = note(row).replace('"', "\\\"").replace('\n', "\\n");
        format!("{{\"id\": {row}, \"note\": \"{note}\"}}\n")
    };
    let csv: String = (0..ROWS).map(csv).collect();
    let json: String = (0..ROWS).map(json).collect();
    std::fs::write(folder.join("a.csv"), format!("id,note\n{csv}")).unwrap();
    std::fs::write(folder.join("a.jsonl"), json).unwrap();
    prints(folder, &["ingest", "source", "t", "a.csv", "--key=id", "--quiet"]);
    for file in ["a.parquet", "a.arrow"] {
        prints(folder, &["export", "source", "t", file, "--quiet"]);
    }
    ["a.csv", "a.jsonl", "a.parquet", "a.arrow"]
}

fn rows(folder: &Path, table: &str) -> String {
    let query =
        format!("select count(*), count(distinct id), min(id), max(id), min(note) from {table}");
    prints(folder, &["sql", "db", &query, "--output=csv"]).lines().skip(1).collect()
}

#[test]
fn an_ingest_that_is_killed_again_and_again_goes_on_without_loss_or_duplicates() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (file, table) in write_files(folder).into_iter().zip(["csv", "jsonl", "parquet", "arrow"]) {
        let arguments =
            ["ingest", "db", table, file, "--key=id", "--quiet", "--resume", "--batch-rows=1000"];
        let mut kills = 0;
        // Short ones first, as it may take no longer than a tenth of a second.
        for pause in (0..50).map(|round| 10 + 15 * round) {
            let mut command = Command::new(env!("CARGO_BIN_EXE_drillcore"));
            command.current_dir(folder).args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
            let mut ingest = command.spawn().unwrap();
            thread::sleep(Duration::from_millis(pause));
            // SIGKILL: nothing is tidied up.
            ingest.kill().unwrap();
            if ingest.wait().unwrap().success() {
                break;
            }
            kills += 1;
        }
        let done = drillcore(folder, &arguments);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        assert!(kills > 1, "{file} was ingested before it could be killed");
        let last = ROWS - 1;
        let whole = format!("{ROWS},{ROWS},0,{last},\"note \"\"0\"\"of 0\"");
        assert_eq!(rows(folder, table), whole, "{file} after {kills} kills");
        // All of it is in, so nothing is left to do, also after a flush.
        prints(folder, &["compact", "db"]);
        let again = prints(folder, &arguments);
        assert!(again.starts_with("0 rows appended"), "{again}");
        // Without the option, the same rows come once more.
        prints(folder, &["ingest", "db", table, file, "--quiet"]);
        assert!(rows(folder, table).starts_with(&format!("{},{ROWS},", 2 * ROWS)));
    }
}

#[test]
fn a_file_that_has_changed_and_standard_input_cannot_be_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("a.csv"), "id\n1\n2\nx\n").unwrap();
    let arguments =
        ["ingest", "db", "t", "a.csv", "--key=id", "--type=id=int64", "--resume", "--batch-rows=2"];
    let failed = drillcore(folder, &arguments);
    let message = String::from_utf8(failed.stderr).unwrap();
    assert!(message.contains("line 4") && message.contains("appended 2 rows"), "{message}");
    std::fs::write(folder.join("a.csv"), "id\n1\n2\n3\n4\n").unwrap();
    let message = refused(folder, &arguments);
    assert!(message.contains("has changed since 2 of its records were ingested"), "{message}");
    assert!(message.contains("it had 9 bytes then, and has 11 now"), "{message}");
    let message = refused(folder, &["ingest", "db", "t", "-", "--resume"]);
    assert!(message.contains("can be read only once"), "{message}");
    assert_eq!(prints(folder, &["count", "db", "t"]), "2\n");
    // It is the table that was begun, whatever another one is called.
    std::fs::write(folder.join("b.csv"), "id\n1\n2\n").unwrap();
    prints(folder, &["ingest", "db", "t", "b.csv", "--quiet", "--resume"]);
    prints(folder, &["ingest", "db", "u", "b.csv", "--quiet", "--resume", "--key=id"]);
    assert_eq!(prints(folder, &["count", "db", "u"]), "2\n");
}

#[test]
fn an_ingest_is_resumed_that_began_without_the_option_and_ended_in_whatever_way() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("a.csv"), "id,n\n1,1\n2,2\n").unwrap();
    std::fs::write(folder.join("b.csv"), "id,n\n3,x\n").unwrap();
    let ingest = ["ingest", "db", "t", "a.csv", "b.csv", "--key=id", "--quiet"];
    let resume = [&ingest[..], &["--resume"]].concat();
    let message = refused(folder, &ingest);
    assert!(message.contains("b.csv, line 2"), "{message}");
    std::fs::write(folder.join("b.csv"), "id,n\n3,3\n").unwrap();
    assert!(prints(folder, &resume).starts_with("1 row appended"));
    // Nothing is left to do, also of one that ended as it should.
    assert!(prints(folder, &resume).starts_with("0 rows appended"));
    std::fs::write(folder.join("c.csv"), "id,n\n4,4\n").unwrap();
    prints(folder, &["ingest", "db", "t", "c.csv", "--quiet"]);
    let again = ["ingest", "db", "t", "c.csv", "--quiet", "--resume"];
    assert!(prints(folder, &again).starts_with("0 rows appended"));
    assert_eq!(prints(folder, &["count", "db", "t"]), "4\n");
    std::fs::write(folder.join("c.csv"), "id,n\n4,4\n5,5\n").unwrap();
    let message = refused(folder, &again);
    assert!(message.contains("has changed since 1 of its records"), "{message}");
}

/// More files than are known for long: of those of one call none is forgotten, as often as they are given.
#[test]
fn many_files_are_ingested_twice_and_then_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let names: Vec<String> = (0..1_030).map(|file| format!("{file}.csv")).collect();
    for (id, name) in names.iter().enumerate() {
        std::fs::write(folder.join(name), format!("id\n{id}\n")).unwrap();
    }
    let files = || names.iter().map(String::as_str);
    let ingest: Vec<&str> =
        ["ingest", "db", "t", "--key=id", "--quiet"].into_iter().chain(files()).collect();
    let resume: Vec<&str> = ingest.iter().copied().chain(["--resume"]).collect();
    assert!(prints(folder, &ingest).starts_with("1,030 rows appended"));
    assert!(prints(folder, &resume).starts_with("0 rows appended"));
    assert!(prints(folder, &ingest).starts_with("1,030 rows appended"));
    assert!(prints(folder, &resume).starts_with("0 rows appended"));
    // Once others come, thirty of them are forgotten.
    std::fs::write(folder.join("other.csv"), "id\n-1\n").unwrap();
    prints(folder, &["ingest", "db", "t", "other.csv", "--quiet"]);
    assert!(prints(folder, &resume).starts_with("30 rows appended"));
    // Of a table that is gone nothing is known.
    prints(folder, &["drop-table", "db", "t", "--yes"]);
    prints(folder, &["ingest", "db", "u", "other.csv", "--key=id", "--quiet"]);
    let db = drillcore::Database::open(folder.join("db"), Default::default()).unwrap();
    let known: Vec<String> = db.positions().unwrap().into_keys().collect();
    assert!(known.len() == 1 && known[0].ends_with("other.csv"), "{known:?}");
}

#[test]
fn of_rows_with_one_key_the_last_of_the_file_is_kept_however_many_threads_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let line = |row: usize| format!("{},{row}\n", row % 100);
    let csv: String = (0..200_000).map(line).collect();
    std::fs::write(folder.join("a.csv"), format!("id,n\n{csv}")).unwrap();
    for threads in ["--threads=1", "--threads=7"] {
        let table = threads.trim_start_matches("--threads=");
        let options = ["--key=id", "--merge=upsert", "--batch-rows=500", "--quiet", threads];
        prints(folder, &[&["ingest", "db", &format!("t{table}"), "a.csv"][..], &options].concat());
        let query = format!("select min(n), max(n), count(*) from t{table}");
        let found = prints(folder, &["sql", "db", &query, "--output=csv"]);
        assert_eq!(found.lines().nth(1), Some("199900,199999,100"), "{threads}");
    }
}

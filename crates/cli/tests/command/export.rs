//! `drillcore export`: whole files or none, with what a scan gives.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampSecondArray};
use arrow_schema::{DataType, TimeUnit};
use drillcore::{Database, OnError, Options, TableSpec};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::statistics::Statistics;

use crate::{drillcore, prints, refused};

/// A folder with `db`, whose table `t` has this many rows with the key `id`, and times in seconds.
fn with_rows(rows: i64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path().join("db"), Options::default()).unwrap();
    // Backwards, so that key order is not the order of arrival.
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows).rev()));
    let seconds: ArrayRef = Arc::new(TimestampSecondArray::from_iter_values((0..rows).rev()));
    let names = (0..rows).rev().map(|id| (id % 7 != 0).then(|| format!("name, {id}")));
    let names: ArrayRef = Arc::new(names.collect::<StringArray>());
    let columns = [("id", ids, false), ("at", seconds, false), ("name", names, true)];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let spec = TableSpec::new(batch.schema(), ["id"]).set("name").without_set_index();
    let table = db.create_table("t", spec).unwrap();
    for first in (0..batch.num_rows()).step_by(50_000) {
        let part = batch.slice(first, 50_000.min(batch.num_rows() - first));
        table.append(&part, OnError::Raise).unwrap();
    }
    db.close().unwrap();
    folder
}

fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn every_format_comes_back_as_the_same_rows() {
    let folder = with_rows(1_000);
    let run = |arguments: &[&str]| prints(folder.path(), arguments);
    // A table made of JSON lines has its columns in the order of their names.
    let rows =
        |database: &str| run(&["scan", database, "t", "--columns=id,at,name", "--output=jsonl"]);
    let expected = rows("db");
    let names = [
        "a.parquet",
        "a.arrow",
        "a.arrows",
        "a.jsonl",
        "a.jsonl.gz",
        "a.csv",
        "a.csv.gz",
        "a.csv.zst",
    ];
    for name in names {
        let printed = run(&["export", "db", "t", name]);
        assert_eq!(printed, format!("1,000 rows exported to {name}\n"));
        let new = format!("db of {name}");
        run(&["ingest", &new, "t", name, "--key=id", "--quiet"]);
        assert!(rows(&new) == expected, "{name}");
    }
    // To standard output, a file without an end of its own is one, too.
    for (format, like) in [("csv", "a.csv"), ("jsonl", "a.jsonl"), ("arrow", "a.arrows")] {
        let output = drillcore(folder.path(), &["export", "db", "t", "-", "--format", format]);
        assert_eq!(output.stdout, fs::read(folder.path().join(like)).unwrap(), "{format}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "1,000 rows exported\n");
    }
    let output = drillcore(folder.path(), &["export", "db", "t", "-", "--format", "parquet"]);
    assert_eq!(output.stdout, fs::read(folder.path().join("a.parquet")).unwrap());
}

#[test]
fn parquet_has_row_groups_in_key_order_with_statistics() {
    let rows = 300_000;
    let folder = with_rows(rows);
    let read = |name: &str| {
        let file = File::open(folder.path().join(name)).unwrap();
        ParquetRecordBatchReaderBuilder::try_new(file).unwrap()
    };
    prints(folder.path(), &["export", "db", "t", "a.parquet", "--threads", "3"]);
    let file = read("a.parquet");
    let at = file.schema().field_with_name("at").unwrap().data_type().clone();
    assert_eq!(at, DataType::Timestamp(TimeUnit::Millisecond, None));
    let metadata = file.metadata().clone();
    assert_eq!(metadata.file_metadata().num_rows(), rows);
    assert!(metadata.num_row_groups() > 1);
    let mut first = 0;
    for group in metadata.row_groups() {
        let sorted = &group.sorting_columns().unwrap()[..];
        assert_eq!((sorted.len(), sorted[0].column_idx, sorted[0].descending), (1, 0, false));
        let Some(Statistics::Int64(ids)) = group.column(0).statistics() else {
            panic!("no statistics: {group:?}");
        };
        let past_last = first + group.num_rows();
        assert_eq!((ids.min_opt(), ids.max_opt()), (Some(&first), Some(&(past_last - 1))));
        // Ids that count up take next to nothing, and so do times.
        assert!(
            group.column(0).compressed_size() < 20_000,
            "{}",
            group.column(0).compressed_size()
        );
        assert!(group.column(2).statistics().unwrap().null_count_opt().unwrap() > 0);
        first = past_last;
    }
    let batches = file.build().unwrap().map(|batch| batch.unwrap());
    let ids: Vec<i64> = batches
        .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec())
        .collect();
    assert_eq!(ids, (0..rows).collect::<Vec<_>>());

    prints(folder.path(), &["export", "db", "t", "b.parquet", "--reverse", "--columns", "name,id"]);
    let group = read("b.parquet").metadata().row_group(0).clone();
    let sorted = &group.sorting_columns().unwrap()[0];
    assert_eq!((sorted.column_idx, sorted.descending, sorted.nulls_first), (1, true, false));
    prints(folder.path(), &["export", "db", "t", "c.parquet", "--columns", "name"]);
    assert!(read("c.parquet").metadata().row_group(0).sorting_columns().is_none());
}

#[test]
fn the_rows_are_those_that_a_scan_or_a_sample_selects() {
    let folder = with_rows(1_000);
    let run = |arguments: &[&str]| prints(folder.path(), arguments);
    run(&["snapshot", "db", "before"]);
    fs::write(folder.path().join("more.csv"), "id,at,name\n5000,1970-01-01,new\n").unwrap();
    run(&["ingest", "db", "t", "more.csv", "--quiet"]);
    let same = |verb: &[&str], options: &[&str], exports: &[&str]| {
        let printed = run(&[verb, options, &["--output", "csv"]].concat());
        let export = [&["export", "db", "t", "x.csv", "--force"], exports, options].concat();
        run(&export);
        assert_eq!(fs::read_to_string(folder.path().join("x.csv")).unwrap(), printed, "{export:?}");
        printed.lines().count() - 1
    };
    let scan = ["scan", "db", "t"];
    assert_eq!(same(&scan, &[], &[]), 1001);
    assert_eq!(same(&scan, &["--from", "10", "--to", "19", "--reverse"], &[]), 10);
    assert_eq!(same(&scan, &["--where", "id % 100 = 1", "--columns", "name,id"], &[]), 10);
    assert_eq!(same(&scan, &["--set", "name, 3", "--set", "new"], &[]), 2);
    assert_eq!(same(&scan, &["--null-set", "--limit", "3"], &[]), 3);
    assert_eq!(same(&scan, &["--at", "before"], &[]), 1000);
    let sample = ["sample", "db", "t", "20"];
    assert_eq!(same(&sample, &["--seed", "7", "--where", "id < 300"], &["--sample", "20"]), 20);
    assert_eq!(same(&sample, &["--seed", "7", "--at", "before"], &["--sample", "20"]), 20);
    let weight = refused(
        folder.path(),
        &["export", "db", "t", "y.csv", "--sample", "2", "--weight", "name"],
    );
    assert!(weight.contains("weight"), "{weight}");
    let few = refused(folder.path(), &["export", "db", "t", "y.csv", "--sample", "5000"]);
    assert!(few.contains("--at-most"), "{few}");
    assert!(!files(folder.path()).contains(&"y.csv".to_string()));
}

#[test]
fn what_exists_stays_unless_force_says_otherwise_and_bad_targets_are_refused() {
    let folder = with_rows(10);
    let refused = |arguments: &[&str]| refused(folder.path(), arguments);
    let path = |name: &str| folder.path().join(name);
    fs::write(path("old.csv"), "mine").unwrap();
    let said = refused(&["export", "db", "t", "old.csv"]);
    assert_eq!(said, "drillcore: old.csv exists; use --force to replace it\n");
    assert_eq!(fs::read_to_string(path("old.csv")).unwrap(), "mine");
    std::os::unix::fs::symlink("old.csv", path("link.csv")).unwrap();
    prints(folder.path(), &["export", "db", "t", "link.csv", "--force", "--limit=1"]);
    assert!(fs::symlink_metadata(path("link.csv")).unwrap().is_symlink());
    assert_eq!(
        fs::read_to_string(path("old.csv")).unwrap(),
        "id,at,name\n0,1970-01-01T00:00:00,\n"
    );
    for (target, said) in [
        ("db/x.csv", "is in the directory of the database"),
        ("db", "is not a regular file"),
        ("/dev/null", "is not a regular file"),
        ("x.bin", "does not show the format"),
        ("x.parquet.gz", "only CSV and JSONL can be compressed"),
        ("missing/x.csv", "directory missing does not exist"),
    ] {
        let format: &[&str] = if target.starts_with("x.") { &[] } else { &["--format=csv"] };
        let message = refused(&[&["export", "db", "t", target, "--force"], format].concat());
        assert!(message.contains(said), "{target}: {message}");
    }
    assert!(refused(&["export", "db", "tt", "x.csv"]).contains("did you mean \"t\""));
    assert!(refused(&["export", "db", "t", "x.csv", "--seed=1"]).contains("--sample"));
    assert_eq!(files(folder.path()), ["db", "link.csv", "old.csv"]);
}

#[test]
fn an_error_in_the_midst_leaves_no_file_and_an_old_one_as_it_was() {
    let folder = with_rows(200_000);
    fs::write(folder.path().join("old.parquet"), "mine").unwrap();
    for name in ["new.csv", "new.parquet", "old.parquet"] {
        let fails = "100 / (id - 190000) < 1000";
        let said =
            refused(folder.path(), &["export", "db", "t", name, "--force", "--where", fails]);
        assert!(said.to_lowercase().contains("zero"), "{said}");
    }
    assert_eq!(files(folder.path()), ["db", "old.parquet"]);
    assert_eq!(fs::read_to_string(folder.path().join("old.parquet")).unwrap(), "mine");
}

#[test]
fn ctrl_c_leaves_no_file() {
    let folder = with_rows(1_000_000);
    for name in ["a.csv.gz", "a.parquet"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_drillcore"))
            .current_dir(folder.path())
            .args(["export", "db", "t", name, "--threads=1"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        let has_begun = || files(folder.path()).iter().any(|file| file.starts_with('.'));
        while !has_begun() {
            assert!(begun.elapsed() < Duration::from_secs(20), "it does not begin");
            assert!(
                child.try_wait().unwrap().is_none(),
                "it ended: {:?}",
                child.wait_with_output()
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().is_ok());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), &said[..]), (Some(130), "drillcore: interrupted\n"));
        assert_eq!(files(folder.path()), ["db"]);
    }
}

//! Every bench runs to its end on few rows: the answers agree, and each figure has its line.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use clap::Parser;
use drillcore_bench::{Arguments, Error, run};
use serde_json::Value;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    arguments: Arguments,
}

const KEYS: [&str; 7] = ["bench", "case", "engine", "threads", "metric", "value", "unit"];

/// Rows of most benches here.
const FEW: &str = "2000";

fn arguments(bench: &str, rows: &str, dir: &Path, json: &str) -> Arguments {
    let dir = dir.to_str().unwrap();
    let few = ["--rows", rows, "--threads", "2", "--repetitions", "1", "--dir", dir];
    let typed = [&["bench", bench, "--json", json][..], &few].concat();
    Command::try_parse_from(typed).unwrap_or_else(|error| panic!("{error}")).arguments
}

/// Runs one bench; gives what it printed and the lines of its JSON file.
fn figures(bench: &str) -> (String, Vec<Value>) {
    figures_of(bench, FEW)
}

fn figures_of(bench: &str, rows: &str) -> (String, Vec<Value>) {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("figures");
    let mut printed = Vec::new();
    let arguments = arguments(bench, rows, folder.path(), json.to_str().unwrap());
    run(&arguments, &AtomicBool::new(false), &mut printed).unwrap();
    let lines = std::fs::read_to_string(&json).unwrap();
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "only the figures are left: {left:?}");
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    (String::from_utf8(printed).unwrap(), lines.lines().map(parse).collect())
}

/// The names in a field, each once.
fn names<'a>(lines: impl Iterator<Item = &'a Value>, field: &str) -> BTreeSet<&'a str> {
    lines.map(|line| line[field].as_str().unwrap()).collect()
}

/// Checks a bench whose cases are `cases`, each beside SQLite.
fn check(bench: &str, cases: &[&str]) {
    check_beside(bench, &[("sqlite", cases)]);
}

/// Checks a bench by the cases of each peer.
fn check_beside(bench: &str, cases_of: &[(&str, &[&str])]) {
    let (printed, lines) = figures(bench);
    let cases = cases_of.iter().flat_map(|(_, cases)| cases.iter().copied()).collect();
    assert_eq!(names(lines.iter(), "case"), cases, "{bench}");
    for line in &lines {
        assert!(KEYS.iter().all(|key| line.get(key).is_some()), "{line}");
        assert_eq!(line["bench"], bench, "{line}");
        assert!(line["value"].as_f64().is_some_and(|value| value >= 0.0), "{line}");
        assert!(line["threads"].as_u64().is_some_and(|threads| threads > 0), "{line}");
    }
    let cases =
        cases_of.iter().flat_map(|(peer, cases)| cases.iter().map(move |case| (peer, case)));
    for (peer, case) in cases {
        let of_case = || lines.iter().filter(|line| line["case"] == *case);
        let engines = names(of_case(), "engine");
        assert!(engines.contains("drillcore") && engines.contains(peer), "{engines:?}");
        let is_compared = |line: &Value| line["ratio"].as_f64().is_some_and(|ratio| ratio > 0.0);
        assert!(of_case().any(|line| line["engine"] == "drillcore" && is_compared(line)));
        assert!(printed.contains(case), "{printed}");
    }
}

#[test]
fn ingest_measures_appends_in_both_orders_rollups_and_rows_in_memory() {
    let on_disk =
        ["keys in order", "keys shuffled", "keys shuffled, set index", "rollup by minute and city"];
    let in_memory = [
        "basic, rollup, in memory",
        "basic, rollup, texts by code, in memory",
        "basic, plain, in memory",
        "basic, plain, texts by code, in memory",
        "simple float, rollup, in memory",
        "simple float, rollup of 1,000 keys, in memory",
        "simple float, plain, in memory",
        "basic, rollup, until memory is full",
        "basic, plain, until memory is full",
    ];
    let pairs = ["two whole numbers, plain, in memory"];
    let cases: [(&str, &[&str]); 3] =
        [("sqlite", &on_disk), ("skip list of rows", &in_memory), ("skip list", &pairs)];
    check_beside("ingest", &cases);
}

#[test]
fn writer_measures_adds_of_few_rows_beside_appends_by_hand() {
    let (printed, lines) = figures("writer");
    let cases = ["1 rows per add", "100 rows per add", "1,000 rows per add"];
    assert_eq!(names(lines.iter(), "case"), cases.into());
    let engines = ["drillcore", "appends by hand", "rows made and dropped"];
    assert_eq!(names(lines.iter(), "engine"), engines.into());
    assert!(lines.iter().all(|line| line["value"].as_f64().is_some_and(|rate| rate > 0.0)));
    assert!(cases.iter().all(|case| printed.contains(case)), "{printed}");
}

#[test]
fn upserts_measures_updates_beside_appends_and_counts_after_each_commit() {
    // Several batches, so that some replace others.
    let (printed, lines) = figures_of("upserts", "30000");
    let cases = ["half of them updates", "counts in memory"];
    assert_eq!(names(lines.iter(), "case"), cases.into());
    let value = |metric: &str| {
        let line = lines.iter().find(|line| line["metric"] == metric);
        line.unwrap_or_else(|| panic!("{printed}"))["value"].as_f64().unwrap()
    };
    let engines = names(lines.iter(), "engine");
    assert!(engines.contains("drillcore") && engines.contains("drillcore, append"), "{engines:?}");
    assert!(value("first count") > 0.0 && value("later count") > 0.0, "{printed}");
}

#[test]
fn durability_measures_appends_by_what_is_promised_and_the_way_back() {
    let (printed, lines) = figures("durability");
    let cases = ["appends of 1,000 rows", "opening after a crash"];
    assert_eq!(names(lines.iter(), "case"), cases.into());
    let engines =
        ["drillcore, none", "drillcore, os", "drillcore, fsync", "drillcore", "read of the log"];
    assert_eq!(names(lines.iter(), "engine"), engines.into());
    assert!(lines.iter().all(|line| line["value"].as_f64().is_some_and(|v| v > 0.0)), "{printed}");
}

#[test]
fn commits_measures_one_table_and_many_with_and_without_reads() {
    let (printed, lines) = figures("commits");
    let cases = ["1 rows", "10 rows", "100 rows", "1,000 rows"];
    assert_eq!(names(lines.iter(), "case"), cases.into());
    assert_eq!(names(lines.iter(), "engine").len(), 6, "{printed}");
    assert!(lines.iter().all(|line| line["value"].as_f64().is_some_and(|v| v > 0.0)), "{printed}");
}

#[test]
fn beside_measures_samples_and_appends_at_once() {
    let (printed, lines) = figures("beside");
    let engines = ["no writer", "1,000 appends/s", "appends without pause"];
    assert_eq!(names(lines.iter(), "engine"), engines.into());
    let of_appends = lines.iter().filter(|line| line["metric"] == "append, 99.9th percentile");
    assert_eq!(of_appends.count(), 2, "{printed}");
    assert!(lines.iter().all(|line| line["value"].as_f64().is_some_and(|v| v > 0.0)), "{printed}");
}

#[test]
fn reads_measures_gets_with_and_without_caches_and_a_scan() {
    let nothing_cached = if cfg!(target_os = "linux") { &["nothing cached"][..] } else { &[] };
    check("reads", &[nothing_cached, &["all cached", "scan of all rows"]].concat());
}

#[test]
fn readers_measures_gets_past_the_systems_cache_and_what_sharing_gains() {
    let (printed, lines) = figures("readers");
    let cases = [
        "any record, 8 MiB of cache",
        "any record, 64 MiB of cache",
        "ten records, nothing kept",
        "any record, all cached",
        "ten records, all cached",
    ];
    assert_eq!(names(lines.iter(), "case"), cases.into());
    let value = |case: &str, engine: &str, metric: &str| {
        let is_it = |line: &&Value| {
            line["case"] == case && line["engine"] == engine && line["metric"] == metric
        };
        lines.iter().find(is_it).unwrap_or_else(|| panic!("{printed}"))["value"].as_f64().unwrap()
    };
    let alone = value(cases[2], "drillcore, a database each", "pages per read");
    assert!((1.9..=2.1).contains(&alone), "an index page and a block: {alone}");
    assert!(value(cases[2], "drillcore", "pages per read") < alone);
    assert!(value(cases[0], "drillcore", "reads") > 0.0);
    assert!(cases[3..].iter().all(|case| value(case, "drillcore", "pages per read") == 0.0));
}

#[test]
fn sets_measures_three_sizes_with_and_without_an_index() {
    check(
        "sets",
        &[
            "10 rows, by index",
            "10 rows, without index",
            "100 rows, by index",
            "100 rows, without index",
            "200 rows, by index",
            "200 rows, without index",
        ],
    );
}

#[test]
fn columns_measures_scans_in_memory_and_on_disk_beside_a_copy() {
    let (printed, lines) = figures("columns");
    let places = ["in memory as it came", "in memory after a rest", "on disk"];
    let cases: Vec<String> = places
        .iter()
        .flat_map(|place| ["key", "value"].map(|column| format!("the {column} {place}")))
        .collect();
    assert_eq!(names(lines.iter(), "case"), cases.iter().map(String::as_str).collect());
    assert!(lines.iter().all(|line| line["value"].as_f64().is_some_and(|v| v > 0.0)), "{printed}");
}

#[test]
fn sampling_measures_samples_that_fit_their_population() {
    let cases = ["table", "key range", "set"]
        .map(|of| [format!("1 of the {of}"), format!("100 of the {of}")]);
    let cases: Vec<&str> = cases.iter().flatten().map(String::as_str).collect();
    check("sampling", &cases);
}

#[test]
fn ranges_measures_draws_with_deletes_and_by_weight_beside_a_sorted_array() {
    let (_, lines) = figures("ranges");
    let counts = ["1", "10", "100", "1,000", "10,000"].map(|n| format!("{n} of a range"));
    assert_eq!(names(lines.iter(), "case"), counts.iter().map(String::as_str).collect());
    let ours =
        ["drillcore", "drillcore, as it came", "drillcore, 5 % deleted", "drillcore, by weight"];
    let others = ["drillcore, 5 % deleted, as it came", "sorted array"];
    let engines = [&ours[..], &others].concat();
    assert_eq!(names(lines.iter(), "engine"), engines.into_iter().collect());
    assert!(lines.iter().all(|line| line["value"].as_f64().is_some_and(|value| value > 0.0)));
}

#[test]
fn weights_measures_draws_by_weight_beside_running_sums() {
    let (_, lines) = figures("weights");
    let cases = [
        "of the table",
        "of a thousandth of the keys",
        "of a set",
        "of a set in a tenth of the keys",
    ];
    let cases: Vec<String> =
        cases.iter().flat_map(|of| ["1", "1,000"].map(|n| format!("{n} {of}"))).collect();
    assert_eq!(names(lines.iter(), "case"), cases.iter().map(String::as_str).collect());
    assert_eq!(names(lines.iter(), "engine"), ["drillcore", "running sums"].into());
    assert!(lines.iter().all(|line| line["value"].as_f64().is_some_and(|value| value > 0.0)));
}

#[test]
fn figures_can_follow_the_tables_on_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    let mut printed = Vec::new();
    let arguments = arguments("sets", FEW, folder.path(), "-");
    run(&arguments, &AtomicBool::new(false), &mut printed).unwrap();
    let printed = String::from_utf8(printed).unwrap();
    let lines: Vec<&str> = printed.lines().skip_while(|line| !line.starts_with('{')).collect();
    assert!(!lines.is_empty());
    for line in lines {
        serde_json::from_str::<Value>(line).unwrap();
    }
}

#[test]
fn a_stopped_bench_says_so_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = arguments("reads", FEW, folder.path(), "-");
    let error = run(&arguments, &AtomicBool::new(true), &mut Vec::new()).unwrap_err();
    assert!(matches!(error, Error::Interrupted), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = arguments("reads", FEW, &folder.path().join("missing"), "-");
    let error = run(&arguments, &AtomicBool::new(false), &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");
}

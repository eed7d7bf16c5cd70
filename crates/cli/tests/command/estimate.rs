//! Estimates from the shell: what a person reads, and what a script gets.

use std::fs;

use crate::{drillcore, prints, refused};

/// Cells of a printed table, row by row.
fn cells(table: &str) -> Vec<Vec<String>> {
    let rows = table.lines().filter(|line| line.starts_with('|'));
    let of_row =
        |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().to_string()).collect();
    rows.map(of_row).collect()
}

#[test]
fn figures_are_rounded_for_people_and_whole_for_scripts() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut csv = "id,place,delay\n".to_string();
    for id in 0..20_000i64 {
        let place = ["Oslo", "Rome"][(id % 2) as usize];
        csv += &format!("{id},{place},{}\n", (id * 7_919 % 1_009) as f64 / 3.0);
    }
    fs::write(folder.join("t.csv"), csv).unwrap();
    prints(folder, &["ingest", "t.drill", "t", "t.csv", "--key", "id", "--set", "place"]);
    let estimate = |more: &[&str]| {
        let call = [&["estimate", "t.drill", "t", "avg(delay)", "--seed", "7"], more].concat();
        let output = drillcore(folder, &call);
        assert!(output.status.success(), "{call:?}");
        let [out, err] =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (out, err)
    };
    let (text, how) = estimate(&["-n", "1000"]);
    let (csv, _) = estimate(&["--n", "1000", "--output", "csv"]);
    let shown = &cells(&text)[1];
    let exact: Vec<f64> =
        csv.lines().nth(1).unwrap().split(',').map(|x| x.parse().unwrap()).collect();
    let numbers: Vec<f64> =
        shown.iter().map(|cell| cell.replace(',', "").parse().unwrap()).collect();
    // Two digits of the half width, which is some 6.
    assert!(
        shown[..3].iter().all(|cell| cell.len() == 5 && cell.find('.') == Some(3)),
        "{shown:?}"
    );
    assert!((numbers[0] - exact[0]).abs() <= 0.05 + 1e-9);
    assert!(numbers[1] <= exact[1] && exact[1] - numbers[1] <= 0.1 + 1e-9);
    assert!(numbers[2] >= exact[2] && numbers[2] - exact[2] <= 0.1 + 1e-9);
    assert!(exact[1].to_string().len() > 8, "a script gets all digits: {csv}");
    assert_eq!(numbers[3], 1_000.0);
    assert!(
        how.starts_with("drew 1,000 of 20,000 rows; intervals: t, each at 95 % confidence"),
        "{how}"
    );

    // What is known is said to be.
    let call = ["estimate", "t.drill", "t", "count", "--by", "place"];
    let output = drillcore(folder, &call);
    let how = String::from_utf8(output.stderr).unwrap();
    assert_eq!(how, "exact: an index answered for 20,000 rows; none were drawn\n");
    let rows = cells(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(rows[1], ["Oslo", "10,000", "10,000", "10,000", "0"]);

    // Where nothing bounds it, no end is shown as a number.
    let (text, how) = estimate(&["ratio(delay, id)", "--where", "delay + id < 0", "-n", "50"]);
    let shown = &cells(&text)[1];
    assert_eq!(shown[3..6], ["unknown", "unbounded", "unbounded"]);
    assert!(!text.contains("inf") && !text.contains("NaN"), "{text}");
    let note = "ratio(delay, id): none of the 50 rows drawn meets the condition; at most ";
    assert!(how.lines().any(|line| line.starts_with(note)), "{how}");
}

#[test]
fn events_of_a_rollup_table_are_estimated_if_they_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut csv = "id,miles\n".to_string();
    for id in 0..50 {
        csv += &format!("{id},{id}\n").repeat(id + 1);
    }
    fs::write(folder.join("t.csv"), csv).unwrap();
    let shape = ["--merge", "rollup", "--key", "id", "--dimension", "miles", "--metric", "n=count"];
    let ingest = [&["ingest", "t.drill", "t", "t.csv"], &shape[..]].concat();
    prints(folder, &ingest);
    let call = ["estimate", "t.drill", "t", "count", "avg(miles)", "--output", "csv"];
    assert_eq!(prints(folder, &call).lines().nth(1), Some("50.0,50.0,50.0,24.5,24.5,24.5,50"));
    let by_event = [&call[..], &["--events"]].concat();
    // The sum of i (i + 1) over that of i + 1.
    let mean = 41_650.0 / 1_275.0;
    let line = format!("1275.0,1275.0,1275.0,{mean},{mean},{mean},1275");
    assert_eq!(prints(folder, &by_event).lines().nth(1), Some(line.as_str()));
}

#[test]
fn times_are_printed_as_times_in_every_output_and_in_queries() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut csv = "id,at\n".to_string();
    for id in 0..3_000 {
        csv += &format!("{id},2013-07-{:02}T{:02}:00:00Z\n", 1 + id % 31, id * 7 % 24);
    }
    fs::write(folder.join("t.csv"), csv).unwrap();
    prints(folder, &["ingest", "t.drill", "t", "t.csv", "--key", "id"]);
    let estimate = |more: &[&str]| prints(folder, &[&["estimate", "t.drill", "t"], more].concat());
    let text = estimate(&["min(at)", "max(at)", "count filter (where id < 10)", "-n", "5000"]);
    let shown = &cells(&text)[1];
    assert_eq!(shown[0], "2013-07-01T00:00:00Z");
    assert_eq!(shown[3], "2013-07-31T23:00:00Z");
    assert_eq!(shown[6], "10");
    let jsonl = estimate(&["max(at)", "--output", "jsonl"]);
    assert!(jsonl.contains("\"max(at)\":\"2013-07-31T23:00:00"), "{jsonl}");
    let query = "select approx_median_ci(at) as m from t";
    let table = prints(folder, &["sql", "t.drill", query]);
    assert!(table.contains("{value: 2013-07-16T"), "{table}");
    let error = ["estimate", "t.drill", "t", "median(at)", "--error", "5%"];
    assert!(refused(folder, &error).contains("give the error as a number of "));
}

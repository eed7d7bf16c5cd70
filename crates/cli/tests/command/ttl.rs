//! How long rows are kept, from the shell.

use std::fs;

use crate::{prints, refused};

#[test]
fn rows_expire_and_what_has_does_not_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("v.csv"), "ts,id\n2001-01-01T00:00:00,1\n2999-01-01T00:00:00,2\n")
        .unwrap();
    let ingest = ["ingest", "v.drill", "v", "v.csv", "--key", "ts", "--ttl", "ts=7d"];
    prints(folder, &ingest);
    let count = || prints(folder, &["count", "v.drill", "v"]);
    assert_eq!(count().trim(), "1");
    assert!(prints(folder, &["describe", "v.drill", "v"]).contains("kept      7d after ts"));
    let kept = prints(folder, &["set-ttl", "v.drill", "v", "--none"]);
    assert_eq!(kept, "rows of v are kept for good\n");
    assert_eq!(count().trim(), "1");
    prints(folder, &["ingest", "v.drill", "v", "v.csv"]);
    assert_eq!(count().trim(), "3", "what comes later is new");
    let kept = prints(folder, &["set-ttl", "v.drill", "v", "ts", "1h 30m"]);
    assert_eq!(kept, "rows of v are kept for 1h 30m after ts\n");
    assert_eq!(count().trim(), "2");
    let message = refused(folder, &["ingest", "v.drill", "v", "v.csv", "--ttl", "ts=7d"]);
    assert!(message.contains("--ttl"), "{message}");
    for (arguments, says) in [
        (vec!["id", "7d"], "needs a timestamp or date column"),
        (vec!["ts", "soon"], "write it as 7d"),
        (vec!["ts"], "TIME"),
        (vec![], "COLUMN"),
        (vec!["ts", "1d", "--none"], "--none"),
    ] {
        let message = refused(folder, &[vec!["set-ttl", "v.drill", "v"], arguments].concat());
        assert!(message.contains(says), "{message}");
    }
}

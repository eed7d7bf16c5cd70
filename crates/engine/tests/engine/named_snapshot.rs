//! Named snapshots: the same rows and the same samples after writes, merges, drops and restarts.

use std::sync::Arc;

use drillcore::arrow_array::Int64Array;
use drillcore::*;

use crate::fixtures::{ids, place_rows, places_spec};

/// What a snapshot answers: rows of a, of b, sets of b, and a sample of each.
fn answers(snapshot: &Snapshot) -> (u64, u64, Vec<u64>, Vec<i64>, Vec<i64>) {
    let (a, b) = (snapshot.table("a").unwrap(), snapshot.table("b").unwrap());
    let request = SampleRequest { n: 20, seed: Some(9), ..Default::default() };
    (
        a.rows().unwrap(),
        b.rows().unwrap(),
        b.sets().unwrap().rows,
        ids(&a.sample(&request).unwrap()),
        ids(&b.sample(&request).unwrap()),
    )
}

fn segment_files(folder: &std::path::Path) -> usize {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with("segment-")).count()
}

#[test]
fn a_named_snapshot_gives_the_same_answers_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let a = db.create_table("a", places_spec(Merge::Append)).unwrap();
    let b = db.create_table("b", places_spec(Merge::Upsert)).unwrap();
    db.create_table("empty", places_spec(Merge::Append)).unwrap();
    db.append(&[("a", &place_rows(0..500, "x")), ("b", &place_rows(0..300, "x"))]).unwrap();
    db.flush().unwrap();
    db.append(&[("a", &place_rows(500..900, "y")), ("b", &place_rows(200..400, "y"))]).unwrap();
    b.delete(&[Arc::new(Int64Array::from(vec![0, 399]))]).unwrap();

    let pinned = db.named_snapshot("monday").unwrap();
    let expected = answers(&pinned);
    assert_eq!((expected.0, expected.1, expected.2.clone()), (900, 398, vec![199, 199]));
    assert_eq!(pinned.table("empty").unwrap().rows().unwrap(), 0);
    assert_eq!(db.snapshots().unwrap(), [("monday".to_string(), pinned.lsn())]);
    drop(pinned);

    a.append(&place_rows(0..700, "z"), OnError::Raise).unwrap();
    b.append(&place_rows(0..400, "z"), OnError::Raise).unwrap();
    db.compact().unwrap();
    assert_eq!(answers(&db.named_snapshot("monday").unwrap()), expected, "after merges");
    let tuesday = answers(&db.named_snapshot("tuesday").unwrap());
    assert_eq!((tuesday.0, tuesday.1), (1_600, 400));
    drop((a, b));
    db.drop_table("b").unwrap();
    db.create_table("b", places_spec(Merge::Append)).unwrap();
    db.close().unwrap();
    drop(db);

    let db = Database::open(folder.path(), Options::default()).unwrap();
    assert_eq!(
        answers(&db.named_snapshot("monday").unwrap()),
        expected,
        "after a restart and a drop"
    );
    assert_eq!(answers(&db.named_snapshot("tuesday").unwrap()), tuesday);
    assert_eq!(db.table("b").unwrap().snapshot().unwrap().rows().unwrap(), 0);
    let reopened = db.named_snapshot("monday").unwrap();

    let before = segment_files(folder.path());
    db.drop_snapshot("monday").unwrap();
    assert_eq!(answers(&reopened), expected, "who holds it reads on");
    drop(reopened);
    assert!(segment_files(folder.path()) < before, "files that only monday needed are gone");
    let error = db.drop_snapshot("tusday").unwrap_err();
    assert_eq!(error.to_string(), r#"unknown snapshot "tusday"; did you mean "tuesday"?"#);
    db.close().unwrap();
    drop(db);
    let db = Database::open(folder.path(), Options::default()).unwrap();
    assert_eq!(answers(&db.named_snapshot("tuesday").unwrap()), tuesday);
    db.drop_snapshot("tuesday").unwrap();
    db.compact().unwrap();
    assert_eq!(segment_files(folder.path()), 1, "only table a has rows");
    assert!(db.verify().unwrap().faults.is_empty());
}

#[test]
fn pinning_beside_writers_and_merges_cuts_all_tables_at_one_commit() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { memory_bytes: 1 << 20, ..Default::default() };
    let db = Database::open(folder.path(), options.clone()).unwrap();
    db.create_table("a", places_spec(Merge::Append)).unwrap();
    db.create_table("b", places_spec(Merge::Upsert)).unwrap();
    let mut expected = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for step in 0..150 {
                let rows = place_rows(step * 100..(step + 1) * 100, "x");
                db.append(&[("a", &rows), ("b", &rows)]).unwrap();
                if step % 40 == 39 {
                    db.compact().unwrap();
                }
            }
        });
        for number in 0..12 {
            let snapshot = db.named_snapshot(&format!("s{number}")).unwrap();
            let counts = ["a", "b"].map(|name| snapshot.table(name).unwrap().rows().unwrap());
            assert_eq!(counts[0], counts[1], "both tables show the same commits");
            expected.push((counts, snapshot.lsn()));
        }
    });
    db.close().unwrap();
    drop(db);
    let db = Database::open(folder.path(), options).unwrap();
    for (number, (counts, lsn)) in expected.into_iter().enumerate() {
        let snapshot = db.named_snapshot(&format!("s{number}")).unwrap();
        assert_eq!(snapshot.lsn(), lsn);
        let found = ["a", "b"].map(|name| snapshot.table(name).unwrap().rows().unwrap());
        assert_eq!(found, counts);
    }
}

const CACHE_BYTES: u64 = 1 << 20;

fn refresh(reader: &Database) {
    reader.refresh().unwrap();
}

#[test]
fn a_reader_opens_the_named_snapshots_of_its_last_refresh_and_makes_none() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    db.create_table("a", places_spec(Merge::Append)).unwrap();
    db.create_table("b", places_spec(Merge::Upsert)).unwrap();
    db.append(&[("a", &place_rows(0..500, "x")), ("b", &place_rows(0..300, "x"))]).unwrap();
    let monday = answers(&db.named_snapshot("monday").unwrap());
    db.append(&[("a", &place_rows(500..900, "y")), ("b", &place_rows(200..400, "y"))]).unwrap();
    db.compact().unwrap();

    let reader = Database::open_read_only(
        folder.path(),
        ReadOptions { cache_bytes: CACHE_BYTES, ..ReadOptions::default() },
    )
    .unwrap();
    assert_eq!(reader.snapshots().unwrap(), db.snapshots().unwrap());
    assert_eq!(answers(&reader.named_snapshot("monday").unwrap()), monday);
    assert_eq!(reader.named_snapshot("monday").unwrap().lsn(), Lsn(1));
    let error = reader.named_snapshot("munday").err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(error.to_string(), r#"unknown snapshot "munday"; did you mean "monday"?"#);
    assert_eq!(reader.named_snapshot("").err().unwrap().kind(), ErrorKind::NotFound);

    let tuesday = answers(&db.named_snapshot("tuesday").unwrap());
    assert!(reader.named_snapshot("tuesday").is_err(), "not before a refresh");
    refresh(&reader);
    assert_eq!(reader.snapshots().unwrap(), db.snapshots().unwrap());
    assert_eq!(answers(&reader.named_snapshot("tuesday").unwrap()), tuesday);
    assert_eq!(answers(&reader.named_snapshot("monday").unwrap()), monday);
    assert_eq!(db.snapshots().unwrap().len(), 2, "a reader pins nothing");

    // Without a writer, too.
    let held = reader.named_snapshot("monday").unwrap();
    db.close().unwrap();
    assert_eq!(answers(&reader.named_snapshot("monday").unwrap()), monday);
    reader.close().unwrap();
    assert_eq!(answers(&held), monday);
    assert_eq!(reader.snapshots().err().unwrap().kind(), ErrorKind::Closed);
    assert_eq!(reader.named_snapshot("monday").err().unwrap().kind(), ErrorKind::Closed);
}

/// One reader opens it before the writer drops it, the other one only after, and after a restart.
#[test]
fn a_dropped_snapshot_stays_whole_for_readers_that_have_not_moved_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let db = Database::open(&path, Options::default()).unwrap();
    db.create_table("a", places_spec(Merge::Append)).unwrap();
    db.create_table("b", places_spec(Merge::Upsert)).unwrap();
    db.append(&[("a", &place_rows(0..500, "x")), ("b", &place_rows(0..300, "x"))]).unwrap();
    db.flush().unwrap();
    db.append(&[("a", &place_rows(500..900, "y")), ("b", &place_rows(200..400, "y"))]).unwrap();
    // A segment of each table and one of the snapshot's own.
    let monday = answers(&db.named_snapshot("monday").unwrap());
    let [early, late] = [0, 1].map(|_| {
        Database::open_read_only(
            &path,
            ReadOptions { cache_bytes: CACHE_BYTES, ..ReadOptions::default() },
        )
        .unwrap()
    });
    let held = early.named_snapshot("monday").unwrap();

    db.compact().unwrap();
    db.drop_snapshot("monday").unwrap();
    db.compact().unwrap();
    assert!(db.stats().unwrap().writer.unwrap().held_back_bytes > 0, "its files wait for readers");
    assert_eq!(answers(&held), monday);
    assert_eq!(answers(&late.named_snapshot("monday").unwrap()), monday);
    assert_eq!(late.verify().unwrap().segments, 4);

    db.close().unwrap();
    drop(db);
    let db = Database::open(&path, Options::default()).unwrap();
    assert_eq!(answers(&late.named_snapshot("monday").unwrap()), monday, "after a restart");
    let report = late.verify().unwrap();
    assert_eq!((report.segments, report.faults), (4, vec![]));
    let before = segment_files(&path);

    for reader in [&early, &late] {
        refresh(reader);
        let error = reader.named_snapshot("monday").err().unwrap();
        assert_eq!(error.to_string(), r#"unknown snapshot "monday"; there are none"#);
    }
    assert_eq!(answers(&held), monday, "who holds it reads on");
    drop((early, late));
    db.append(&[("a", &place_rows(0..1, "z"))]).unwrap();
    db.compact().unwrap();
    assert!(
        segment_files(&path) >= before,
        "who holds it needs its files, whether they are open or not"
    );
    assert_eq!(answers(&held), monday);
    drop(held);
    db.append(&[("a", &place_rows(0..1, "z"))]).unwrap();
    db.compact().unwrap();
    assert!(segment_files(&path) < before, "files that only monday needed are gone");
}

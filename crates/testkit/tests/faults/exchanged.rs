//! Files of another database, of another time, or cut, in the place of a database's own: each is whole by itself, and none may
//! pass for what it is not.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use drillcore::arrow_array::{Int64Array, RecordBatch, StringArray};
use drillcore::*;

/// Rows of which all but the values are the same, whatever `value`.
fn batch(value: i64) -> RecordBatch {
    let ids: Int64Array = (0..1_000).map(Some).collect();
    let sets: StringArray =
        (0..1_000).map(|id| Some(if (id + value) % 2 == 0 { "even" } else { "odd" })).collect();
    let values: Int64Array = (0..1_000).map(|id| Some(value + id % 50)).collect();
    let columns = [
        ("id", Arc::new(ids) as _),
        ("set", Arc::new(sets) as _),
        ("value", Arc::new(values) as _),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn open(path: &Path) -> Result<Database> {
    Database::open(path, Options::default())
}

fn open_read_only(path: &Path) -> Result<Database> {
    Database::open_read_only(path, ReadOptions::default())
}

fn create(path: &Path) {
    let db = open(path).unwrap();
    let spec = TableSpec::new(batch(0).schema(), ["id"]).set("set").without_set_index();
    db.create_table("t", spec.merge(Merge::Upsert)).unwrap();
    db.close().unwrap();
}

/// A segment with a postings file beside it.
fn fill(path: &Path, value: i64) {
    let db = open(path).unwrap();
    let table = db.table("t").unwrap();
    table.append(&batch(value), OnError::Raise).unwrap();
    db.flush().unwrap();
    table.index_all_sets().unwrap();
    table.wait_for_set_index().unwrap();
    db.close().unwrap();
}

/// The file of the folder whose name begins so.
fn named(path: &Path, start: &str) -> String {
    let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| name.starts_with(start));
    names.sort();
    names.pop().unwrap_or_else(|| panic!("no {start} in {}", path.display()))
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn first_value(db: &Database) -> Vec<i64> {
    let rows = db.table("t").unwrap().snapshot().unwrap().scan(ScanRequest::default()).unwrap();
    let batches: Vec<RecordBatch> = rows.map(Result::unwrap).collect();
    let of_batch = |batch: &RecordBatch| {
        let values = batch.column_by_name("value").unwrap().as_any();
        values.downcast_ref::<Int64Array>().unwrap().value(0)
    };
    batches.iter().take(1).map(of_batch).collect()
}

#[track_caller]
fn assert_corrupt<T>(refused: Result<T>, named: &str) {
    let error = refused.err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains(named), "{error}");
}

#[test]
fn a_file_of_another_database_in_the_place_of_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
    for (value, path) in [&one, &other].into_iter().enumerate() {
        create(path);
        fill(path, value as i64);
    }
    for start in ["segment-", "postings-"] {
        let name = named(&one, start);
        assert_eq!(name, named(&other, start));
        let own = fs::read(one.join(&name)).unwrap();
        assert_eq!(own.len() as u64, fs::metadata(other.join(&name)).unwrap().len());
        fs::copy(other.join(&name), one.join(&name)).unwrap();
        assert_corrupt(open(&one), &name);
        assert_corrupt(open_read_only(&one), &name);
        fs::write(one.join(&name), own).unwrap();
    }
    assert_eq!(first_value(&open(&one).unwrap()), [0]);
}

#[test]
fn a_backup_is_not_taken_for_that_of_a_database_that_went_another_way() {
    let folder = tempfile::tempdir().unwrap();
    let [path, before, backup] = ["db", "before", "backup"].map(|name| folder.path().join(name));
    create(&path);
    copy_all(&path, &before);
    fill(&path, 0);
    open(&path).unwrap().backup(&backup, true).unwrap();
    fs::remove_dir_all(&path).unwrap();
    fs::rename(&before, &path).unwrap();
    fill(&path, 1);
    let refused = open(&path).unwrap().backup(&backup, true).unwrap_err();
    assert!(refused.to_string().contains("of the backup differs"), "{refused}");
    assert_eq!(first_value(&open_read_only(&backup).unwrap()), [0]);
}

#[test]
fn a_manifest_that_lost_its_end_is_refused_by_readers_and_backups_too() {
    let folder = tempfile::tempdir().unwrap();
    let [path, backup] = ["db", "backup"].map(|name| folder.path().join(name));
    create(&path);
    let db = open(&path).unwrap();
    let manifest = path.join(named(&path, "manifest-"));
    let len = fs::metadata(&manifest).unwrap().len();
    let reader = open_read_only(&path).unwrap();
    db.table("t").unwrap().append(&batch(0), OnError::Raise).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    assert!(fs::metadata(&manifest).unwrap().len() > len);
    let file = fs::File::options().write(true).open(manifest).unwrap();
    file.set_len(len).unwrap();
    assert_corrupt(open(&path), "the manifest lost its end");
    assert_corrupt(open_read_only(&path), "the manifest lost its end");
    assert_corrupt(reader.backup(&backup, true), "the manifest lost its end");
    assert!(!backup.exists());
}

#[test]
fn a_cut_segment_is_neither_backed_up_nor_restored() {
    let folder = tempfile::tempdir().unwrap();
    let [path, backup, restored] =
        ["db", "backup", "restored"].map(|name| folder.path().join(name));
    create(&path);
    fill(&path, 0);
    open(&path).unwrap().backup(&backup, true).unwrap();
    let name = named(&backup, "segment-");
    fs::File::options().write(true).open(backup.join(&name)).unwrap().set_len(9).unwrap();
    let restore = drillcore::restore(&backup, &restored, true, &Interrupt::default());
    assert_corrupt(restore, &name);
    assert!(!restored.exists());

    let db = open(&path).unwrap();
    fs::File::options().write(true).open(path.join(&name)).unwrap().set_len(0).unwrap();
    assert_corrupt(db.backup(folder.path().join("later"), true), &name);
}

/// Segments of a later backup that was not finished hold commits that the earlier one lacks.
#[test]
fn what_an_unfinished_backup_leaves_is_of_no_account_whoever_opens_the_earlier_one() {
    let folder = tempfile::tempdir().unwrap();
    let [path, backup] = ["db", "backup"].map(|name| folder.path().join(name));
    create(&path);
    fill(&path, 0);
    open(&path).unwrap().backup(&backup, true).unwrap();
    fill(&path, 1);
    let later = named(&path, "segment-");
    assert_ne!(later, named(&backup, "segment-"));
    fs::copy(path.join(&later), backup.join(&later)).unwrap();

    // A reader keeps it from being removed.
    let reader = open_read_only(&backup).unwrap();
    open(&backup).unwrap().close().unwrap();
    assert_eq!(named(&backup, "segment-"), later);
    assert_eq!(first_value(&open_read_only(&backup).unwrap()), [0]);
    assert_eq!(first_value(&open(&backup).unwrap()), [0]);
    reader.close().unwrap();
    open(&backup).unwrap().close().unwrap();
    assert_ne!(named(&backup, "segment-"), later);
}

fn log_files(path: &Path) -> usize {
    let files = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
    files.filter(|name| name.to_string_lossy().starts_with("wal-")).count()
}

#[test]
fn openings_that_append_a_row_each_do_not_pile_log_files_up() {
    const OPENINGS: i64 = 150;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    create(&path);
    for opening in 0..OPENINGS {
        let db = open(&path).unwrap();
        let row = batch(opening).slice(opening as usize, 1);
        db.table("t").unwrap().append(&row, OnError::Raise).unwrap();
        db.close().unwrap();
    }
    assert!(log_files(&path) <= 80, "{}", log_files(&path));
    let table = open_read_only(&path).unwrap().table("t").unwrap();
    assert_eq!(table.snapshot().unwrap().rows().unwrap(), OPENINGS as u64);
}

#[test]
fn openings_that_note_a_position_each_do_not_pile_log_files_up() {
    const OPENINGS: u64 = 150;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    create(&path);
    for opening in 0..OPENINGS {
        let db = open(&path).unwrap();
        let position =
            SourcePosition { source: "rows".into(), position: opening.to_string().into() };
        db.prepare(&[], OnError::Raise).unwrap().commit(&[position]).unwrap();
        db.close().unwrap();
    }
    assert!(log_files(&path) <= 80, "{}", log_files(&path));
    let positions = open(&path).unwrap().positions().unwrap();
    assert_eq!(positions.get("rows").unwrap(), (OPENINGS - 1).to_string().as_bytes());
}

//! An opening that is refused changes nothing: once the files are repaired or put back, the database opens again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use drillcore::arrow_array::{Int64Array, RecordBatch};
use drillcore::arrow_schema::DataType;
use drillcore::*;

use crate::fixtures::schema_of;

fn batch(ids: std::ops::Range<i64>) -> RecordBatch {
    let ids: Int64Array = ids.map(Some).collect();
    RecordBatch::try_from_iter([("id", Arc::new(ids) as _)]).unwrap()
}

/// A database with 1,000 rows in a segment, and perhaps one more in the log.
fn make(path: &Path, is_logged: bool) {
    let db = Database::open(path, Options::default()).unwrap();
    let spec = TableSpec::new(schema_of(&[("id", DataType::Int64, false)]), ["id"]);
    let table = db.create_table("t", spec).unwrap();
    table.append(&batch(0..1000), OnError::Raise).unwrap();
    db.flush().unwrap();
    if is_logged {
        table.append(&batch(1000..1001), OnError::Raise).unwrap();
    }
    db.close().unwrap();
}

fn files(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    let named = entries.map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        (name, std::fs::read(entry.path()).unwrap())
    });
    named.collect()
}

fn rows(path: &Path) -> Result<u64> {
    let db = Database::open(path, Options::default())?;
    db.table("t")?.snapshot()?.rows()
}

#[test]
fn a_refused_opening_changes_nothing_and_what_was_damaged_can_be_put_back() {
    for is_logged in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        make(folder.path(), is_logged);
        let whole = files(folder.path());
        let of = |prefix: &str| whole.keys().find(|name| name.starts_with(prefix)).unwrap().clone();
        let manifest = of("manifest-");
        let segment = of("segment-");
        let len = whole[&manifest].len();
        let damages = [
            // Behind the last edit is a closing frame of 29 bytes.
            (&manifest, Some(len - 30)),
            (&manifest, Some(len - 32)),
            (&manifest, Some(0)),
            (&manifest, Some(3)),
            (&manifest, None),
            (&segment, Some(100)),
            (&segment, None),
        ];
        for (name, left) in damages {
            let case = format!("{name} cut to {left:?}, logged: {is_logged}");
            let file = folder.path().join(name);
            match left {
                Some(len) => std::fs::write(&file, &whole[name][..len]).unwrap(),
                None => std::fs::remove_file(&file).unwrap(),
            }
            let damaged = files(folder.path());
            let error = rows(folder.path()).expect_err(&case);
            let is_segment_gone = *name == segment && left.is_none();
            let expected = if is_segment_gone { ErrorKind::Io } else { ErrorKind::Corrupt };
            assert_eq!(error.kind(), expected, "{case}: {error}");
            assert_eq!(files(folder.path()), damaged, "{case}: {error}");
            if *name == manifest && left.is_none_or(|left| left < 10) {
                let error = Database::open_read_only(
                    folder.path(),
                    ReadOptions { cache_bytes: 1 << 20, ..ReadOptions::default() },
                )
                .err()
                .expect(&case);
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{case}: {error}");
            }
            std::fs::write(&file, &whole[name]).unwrap();
            assert_eq!(files(folder.path()), whole);
        }
        assert_eq!(rows(folder.path()).unwrap(), 1000 + u64::from(is_logged));
    }
}

#[test]
fn the_error_of_an_opening_gives_the_reason_of_the_operating_system() {
    use std::error::Error as _;

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "no folder").unwrap();
    let options = Options { create: false, ..Options::default() };
    for (path, expected) in [
        (folder.path().join("none"), std::io::ErrorKind::NotFound),
        (file, std::io::ErrorKind::NotADirectory),
    ] {
        let error = Database::open(path, options.clone()).err().expect("there is no database");
        let source = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
        assert_eq!(source.expect("the system refused").kind(), expected, "{error}");
    }
}

//! What lies in a database's folder under the name of one of its files and is no such file: a folder, a pipe, a
//! socket, a link. Beside a database that works it is in the way at most; in the place of what the database needs
//! it is an error. No call hangs, and nothing outside of the folder is made or changed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use drillcore::arrow_array::{Int64Array, RecordBatch};
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::*;
use drillcore_testkit::deadline::{wait_until, within};

/// No call takes this long, unless it hangs.
const LIMIT: Duration = Duration::from_secs(30);
const CACHE_BYTES: u64 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Folder,
    Pipe,
    Socket,
    /// A link to a file outside that there is not.
    DanglingLink,
    /// A link to a file outside; in the place of a file, to that file, moved.
    Link,
}

impl Kind {
    const ALL: [Kind; 5] = [Kind::Folder, Kind::Pipe, Kind::Socket, Kind::DanglingLink, Kind::Link];

    /// Puts one at `path`, moving what is there to `outside`.
    fn put(self, path: &Path, outside: &Path) {
        let moved = outside.join("moved");
        if path.exists() {
            fs::rename(path, &moved).unwrap();
        } else {
            fs::write(&moved, b"somebody's letters").unwrap();
        }
        match self {
            Kind::Folder => {
                fs::create_dir(path).unwrap();
                fs::write(path.join("letter"), b"somebody's").unwrap();
            }
            Kind::Pipe => {
                assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
            }
            Kind::Socket => drop(UnixListener::bind(path).unwrap()),
            Kind::DanglingLink => symlink(outside.join("missing"), path).unwrap(),
            Kind::Link => symlink(&moved, path).unwrap(),
        }
    }

    /// What of this kind an error says.
    fn said(self) -> &'static str {
        match self {
            Kind::Folder => "a directory",
            Kind::Pipe => "a pipe",
            Kind::Socket => "a socket",
            Kind::DanglingLink | Kind::Link => "a symbolic link",
        }
    }
}

/// What calls do about something in a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Neither writer nor reader opens.
    Refused,
    /// The writer does not open; a reader does not look there.
    WriterRefused,
    /// Everything works. What cannot be cleaned up is reported.
    Works,
}

/// A place, as the prefix of a file of the database or as a name of its own, and what must come of something
/// strange there.
const PLACES: [(&str, Outcome); 12] = [
    ("LOCK", Outcome::WriterRefused),
    ("manifest-", Outcome::Refused),
    ("manifest-00000099.log", Outcome::Refused),
    ("wal-", Outcome::Refused),
    ("wal-00000000000000000999.log", Outcome::Refused),
    ("segment-", Outcome::Refused),
    ("postings-", Outcome::Refused),
    ("segment-00000077.drill", Outcome::Works),
    ("postings-00000077.drill", Outcome::Works),
    ("lease-00000000-000000000000-00000000000000aa", Outcome::Works),
    ("lease-00000001-000000000001-00000000000000aa", Outcome::Works),
    ("lease-x", Outcome::Works),
];

fn batch(ids: std::ops::Range<i64>) -> RecordBatch {
    let ids: Arc<Int64Array> = Arc::new(ids.map(Some).collect());
    let sets: Int64Array = ids.iter().map(|id| Some(id? % 7)).collect();
    RecordBatch::try_from_iter([("id", ids as _), ("set", Arc::new(sets) as _)]).unwrap()
}

/// A database with 1,000 rows in a segment that has postings beside it, and one more row in the log.
fn make(path: &Path) {
    let db = Database::open(path, Options::default()).unwrap();
    let fields = ["id", "set"].map(|name| Field::new(name, DataType::Int64, false));
    let spec = TableSpec::new(Arc::new(Schema::new(fields.to_vec())), ["id"])
        .set("set")
        .without_set_index();
    let table = db.create_table("t", spec).unwrap();
    table.append(&batch(0..1000), OnError::Raise).unwrap();
    db.flush().unwrap();
    table.index_all_sets().unwrap();
    table.wait_for_set_index().unwrap();
    table.append(&batch(1000..1001), OnError::Raise).unwrap();
    db.close().unwrap();
}

fn names(path: &Path) -> Vec<String> {
    let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

/// The files of a folder, with what they hold.
fn files(path: &Path) -> BTreeMap<String, Vec<u8>> {
    names(path).into_iter().map(|name| (name.clone(), fs::read(path.join(name)).unwrap())).collect()
}

/// Where `place` is in a database.
fn located(path: &Path, place: &str) -> PathBuf {
    let is_whole = place.starts_with("lease") || place.contains('.') || place == "LOCK";
    match is_whole {
        true => path.join(place),
        false => {
            let mut names = names(path).into_iter();
            path.join(names.find(|name| name.starts_with(place)).expect("the database has one"))
        }
    }
}

/// Opens, writes in every way, and closes; returns what the database said of its cleaning up meanwhile.
fn write(path: &Path, from: i64) -> Result<WriterStats> {
    let db = Database::open(path, Options::default())?;
    write_in(&db, from)?;
    let stats = db.stats()?.writer.expect("of a writer");
    db.close()?;
    Ok(stats)
}

fn write_in(db: &Database, from: i64) -> Result<()> {
    let table = db.table("t")?;
    table.append(&batch(from..from + 1), OnError::Raise)?;
    db.flush()?;
    table.append(&batch(from + 1..from + 2), OnError::Raise)?;
    db.compact()?;
    db.named_snapshot("now")?;
    db.drop_snapshot("now")?;
    let report = db.verify()?;
    assert_eq!(report.faults, Vec::<String>::new());
    assert_eq!(table.snapshot()?.rows()?, from as u64 + 2);
    Ok(())
}

fn read(path: &Path) -> Result<u64> {
    let reader = Database::open_read_only(
        path,
        ReadOptions { cache_bytes: CACHE_BYTES, ..ReadOptions::default() },
    )?;
    let report = reader.verify()?;
    assert_eq!(report.faults, Vec::<String>::new());
    let rows = reader.snapshot()?.table("t")?.rows();
    reader.close()?;
    rows
}

#[test]
fn something_strange_in_the_place_of_a_file_is_an_error_and_elsewhere_in_the_way_at_most() {
    let whole = tempfile::tempdir().unwrap();
    make(whole.path());
    for (place, outcome) in PLACES {
        for kind in Kind::ALL {
            let case = format!("{kind:?} at {place}");
            let folder = tempfile::tempdir().unwrap();
            let (path, outside) = (folder.path().join("db"), folder.path().join("outside"));
            fs::create_dir(&path).unwrap();
            fs::create_dir(&outside).unwrap();
            for name in names(whole.path()) {
                fs::copy(whole.path().join(&name), path.join(&name)).unwrap();
            }
            let strange = located(&path, place);
            kind.put(&strange, &outside);
            let before = files(&outside);

            let (of_reader, of_writer) = {
                let path = path.clone();
                within(LIMIT, &case, move || (read(&path), write(&path, 1001)))
            };
            let refused = |error: Error| {
                assert!(
                    matches!(error.kind(), ErrorKind::Io | ErrorKind::Corrupt),
                    "{case}: {error}"
                );
                let name = strange.file_name().unwrap().to_str().unwrap();
                let said = error.to_string();
                assert!(said.contains(name) && said.contains(kind.said()), "{case}: {error}");
            };
            match outcome {
                Outcome::Works => {
                    assert_eq!(of_reader.unwrap_or_else(|error| panic!("{case}: {error}")), 1001);
                    of_writer.unwrap_or_else(|error| panic!("{case}: {error}"));
                    let again = path.clone();
                    let again = within(LIMIT, &case, move || (write(&again, 1003), read(&again)));
                    again.0.unwrap_or_else(|error| panic!("{case}: {error}"));
                    assert_eq!(again.1.unwrap(), 1005, "{case}");
                }
                Outcome::WriterRefused => {
                    assert_eq!(of_reader.unwrap_or_else(|error| panic!("{case}: {error}")), 1001);
                    refused(of_writer.err().unwrap_or_else(|| panic!("{case}: the writer opens")));
                }
                Outcome::Refused => {
                    refused(of_reader.err().unwrap_or_else(|| panic!("{case}: a reader opens")));
                    refused(of_writer.err().unwrap_or_else(|| panic!("{case}: the writer opens")));
                }
            }
            assert_eq!(files(&outside), before, "{case}: the outside has changed");
            if kind == Kind::Folder {
                assert_eq!(names(&strange), ["letter"], "{case}: it is not ours");
            }
        }
    }
}

/// What comes while a writer has the database open is met by cleaning up, in the middle of its work.
#[test]
fn something_strange_in_the_place_of_a_lease_counts_as_held_and_is_reported() {
    for kind in Kind::ALL {
        let folder = tempfile::tempdir().unwrap();
        let (path, outside) = (folder.path().join("db"), folder.path().join("outside"));
        make(&path);
        fs::create_dir(&outside).unwrap();
        let name = "lease-00000001-000000000001-00000000000000aa";
        let stats = within(LIMIT, &format!("{kind:?}"), move || {
            let db = Database::open(&path, Options::default()).unwrap();
            kind.put(&path.join(name), &outside);
            write_in(&db, 1001).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
            let held = db.stats().unwrap().writer.unwrap();
            match kind {
                Kind::Folder => fs::remove_dir_all(path.join(name)).unwrap(),
                _ => fs::remove_file(path.join(name)).unwrap(),
            }
            write_in(&db, 1003).unwrap();
            // A merge of a worker that has just ended may hold its inputs still.
            wait_until(LIMIT, &format!("{kind:?}: nothing is held back"), || {
                db.stats().unwrap().writer.unwrap().held_back_bytes == 0
            });
            let freed = db.stats().unwrap().writer.unwrap();
            db.close().unwrap();
            assert!(!outside.join("missing").exists(), "{kind:?}: a file was made outside");
            [held, freed]
        });
        let [held, freed] = stats;
        assert_eq!(held.failure, None, "{kind:?}");
        assert!(held.held_back_bytes > 0, "{kind:?}: it counts as held");
        let [said] = &held.untried_leases[..] else { panic!("{kind:?}: {held:?}") };
        assert!(said.contains(name) && said.contains(kind.said()), "{said}");
        assert_eq!((freed.held_back_bytes, freed.untried_leases), (0, vec![]), "{kind:?}");
    }
}

//! Backups onto a disk that fails, fills up, or loses power at any operation: there is the earlier backup or the
//! later one, whole, or none where there was none.

use std::sync::Arc;

use drillcore::directory::{Directory, MemoryDirectory};
use drillcore::*;
use drillcore_sample::rng::Rng;
use drillcore_testkit::fault_directory::{Fault, FaultDirectory, Unsynced};
use drillcore_testkit::numbered_batches::{append, create_tables, last_batches};

const WRITER: i32 = 1;
const SEED: u64 = 31;

/// A database whose files are of several segments.
fn database() -> Database {
    let options = Options { segment_bytes: 40_000, ..Options::default() };
    let db = Database::in_memory(options).unwrap();
    create_tables(&db).unwrap();
    db
}

fn append_to(db: &Database, batches: std::ops::RangeInclusive<u64>) {
    for number in batches {
        append(db, WRITER, number).unwrap();
    }
}

/// The last batch in a folder, which must be whole; none if it holds no database.
fn last_in(folder: MemoryDirectory) -> Option<u64> {
    let names = folder.list().unwrap();
    if !names.iter().any(|name| name.starts_with("manifest-") && name.ends_with(".log")) {
        return None;
    }
    let db = Database::open_in(Arc::new(folder), Options::default()).unwrap();
    assert!(db.verify().unwrap().faults.is_empty());
    Some(last_batches(&db.snapshot().unwrap()).get(&WRITER).copied().unwrap_or(0))
}

/// Backs up twice, the second time with a fault. Returns whether the fault was met.
fn back_up_with(fault: impl Fn(u64) -> Fault, nth: u64, earlier: bool) -> bool {
    let (db, target) = (database(), FaultDirectory::new());
    append_to(&db, 1..=3);
    if earlier {
        db.backup_in(Arc::new(target.clone()), false).unwrap();
    }
    append_to(&db, 4..=6);
    let begins = target.operations().len() as u64;
    target.set_fault(Some(fault(begins + nth)));
    let stored = db.backup_in(Arc::new(target.clone()), false);
    target.set_fault(None);
    let before = earlier.then_some(3);
    let mut rng = Rng::keyed(SEED, nth);
    for unsynced in [Unsynced::Dropped, Unsynced::Kept, Unsynced::Pages, Unsynced::Pages] {
        let left = last_in(target.crash_image(unsynced, &mut rng));
        match stored {
            Ok(_) => assert_eq!(left, Some(6), "{unsynced:?}, operation {nth}"),
            Err(_) => {
                assert!(
                    left == before || left == Some(6),
                    "{left:?} {unsynced:?}, operation {nth}"
                );
            }
        }
    }
    // A failure may come after the later one is whole.
    if let Err(error) = &stored {
        assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::StorageFull), "{error}");
        assert!(error.to_string().contains("injected"), "{error}");
        assert!(db.stats().unwrap().writer.unwrap().failure.is_none(), "the database goes on");
        append_to(&db, 7..=7);
        db.backup_in(Arc::new(target.clone()), false).unwrap();
        assert_eq!(last_in(target.crash_image(Unsynced::Dropped, &mut rng)), Some(7));
    }
    target.operations().len() as u64 > begins + nth
}

#[test]
fn whatever_fails_there_is_the_earlier_backup_or_the_later_one_and_the_next_call_goes_on() {
    for earlier in [false, true] {
        for fault in [Fault::Once, Fault::Forever, Fault::DiskFull] {
            let met = (0..).take_while(|nth| back_up_with(fault, *nth, earlier)).count();
            assert!(met > 10, "{met} operations");
        }
    }
}

use super::*;
use crate::maintenance::jobs::Picked;
use crate::maintenance::scheduler::pick_flush;
use crate::{Durability, OnError};
use arrow_array::Int64Array;
use arrow_schema::{DataType, Field, Schema};
use drillcore_storage::files::memory_directory::MemoryDirectory;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

fn with_row(db: &Database) {
    let spec = TableSpec::new(
        Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)])),
        ["id"],
    );
    append(&db.create_table("t", spec).unwrap());
}

fn append(table: &Table) {
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let batch = RecordBatch::try_from_iter([("id", ids)]).unwrap();
    table.append(&batch, OnError::Raise).unwrap();
}

/// Takes the only row there is out of play.
fn pick(core: &Core) -> Picked<'_> {
    let visible = core.visible();
    let flush = |state: &mut crate::state::guarded::State| {
        let table = *state.tables.keys().next().expect("there is one");
        pick_flush(state, table, visible, u64::MAX)
    };
    Picked::choose(core, core.state(), flush).ok().expect("there is a run")
}

#[test]
fn a_job_that_is_picked_and_never_run_gives_its_rows_back_and_closing_goes_on() {
    let db = Database::in_memory(Options::default()).unwrap();
    with_row(&db);
    drop(pick(db.core().unwrap()));
    db.flush().unwrap();
    assert_eq!(db.stats().unwrap().tables[0].segments, 1);
    db.close().unwrap();
}

#[test]
fn what_goes_with_the_last_handle_is_not_written_out_by_closing() {
    let flushes = |db: Database| {
        with_row(&db);
        db.close().unwrap();
        db.core().unwrap().state().counts.flushes
    };
    assert_eq!(flushes(Database::in_memory(Options::default()).unwrap()), 0);
    let options = Options { durability: Durability::None, ..Options::default() };
    assert_eq!(flushes(Database::open_in(Arc::new(MemoryDirectory::new()), options).unwrap()), 1);
}

/// A call that waits for the rows, or for the job, fails with the reason.
#[test]
fn a_panic_between_picking_a_job_and_running_it_hangs_nobody() {
    let options = Options { durability: Durability::None, ..Options::default() };
    let db = Database::open_in(Arc::new(MemoryDirectory::new()), options).unwrap();
    with_row(&db);
    let panics = || {
        let _picked = pick(db.core().unwrap());
        panic!("broken on purpose");
    };
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    assert_eq!(db.core().unwrap().underway.count(), 0);
    let is_taken = |db: &Database| db.core().unwrap().state().tables[&TableId(1)].runs[0].taken;
    assert!(!is_taken(&db), "the row is in play");
    assert_eq!(db.flush().unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(db.close().unwrap_err().kind(), ErrorKind::ReadOnly);
}

/// Of all that a commit does under the lock, each step took it for itself: eight times.
#[test]
fn an_append_locks_the_state_once_for_the_shape_of_its_table_and_once_or_twice_to_commit() {
    for (durability, most) in [(Durability::None, 2), (Durability::Os, 3)] {
        let options = Options { durability, ..Options::default() };
        let db = Database::open_in(Arc::new(MemoryDirectory::new()), options).unwrap();
        with_row(&db);
        let table = db.table("t").unwrap();
        let core = db.core().unwrap();
        let locked = || core.locked.load(Ordering::Relaxed);
        let of_append = || {
            let before = locked();
            append(&table);
            locked() - before
        };
        // Some of them compact runs, and beside some a worker looks for something to do.
        assert_eq!((0..30).map(|_| of_append()).min(), Some(most), "{durability:?}");
    }
}

//! Tables with a past, in every state that maintenance can leave them in.
//!
//! Every table shows the rows with ids 0 to [`NEWEST`]. In an upsert table some of them were written before
//! with other values, and other rows were deleted; in a rollup table a row has one to three events, spread over
//! commits. So a draw that takes dead rows for live ones, or rows for events, shows.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use drillcore::arrow_array::{ArrayRef, Int64Array};
use drillcore::directory::LocalDirectory;
use drillcore::{
    Database, MaintenanceHold, OnError, Options, ReadOptions, Selection, Table, TableSnapshot,
};
use drillcore_sample::rng::Rng;

use crate::deadline::wait_until;
use crate::event_table::{Events, Kind, sample_ids};
use crate::gate_directory::GateDirectory;

/// What all tables have.
pub const EVENTS: Events = Events { teams: 4, payload_bytes: 20 };
/// Unequal, so that a sampler that takes pieces for equal shows.
pub const BATCHES: [i64; 6] = [1, 3, 10, 26, 60, 140];
/// The id of the row committed last before the snapshot.
pub const NEWEST: i64 = 240;
/// Ids from here on are deleted again.
const DELETED: i64 = 1_000;
const TABLE: &str = "events";
const PATIENCE: Duration = Duration::from_secs(20);

/// One commit.
pub enum Commit {
    /// Rows, with the ids whose values they have.
    Rows {
        /// Of the rows.
        ids: Vec<i64>,
        /// Of those whose values they have.
        like: Vec<i64>,
    },
    /// Deletes of some ids.
    Delete(Vec<i64>),
}

/// The commits of one of the [`BATCHES`].
pub fn commits(kind: Kind, batch: usize) -> Vec<Commit> {
    let ids = ids_of_batch(batch);
    let again = |batch: usize, is_again: &dyn Fn(i64) -> bool| -> Vec<i64> {
        ids_of_batch(batch).into_iter().filter(|id| is_again(*id)).collect()
    };
    let last = BATCHES.len() - 1;
    match kind {
        Kind::Append => vec![Commit::Rows { like: ids.clone(), ids }],
        Kind::Upsert => {
            // Rows of the next batches come early, as if they were others: they move to their set later.
            let mut early = Vec::new();
            for (ahead, is_again) in [(1, 1), (2, 2)] {
                if batch + ahead <= last {
                    early.extend(again(batch + ahead, &|id| id % 3 >= is_again));
                }
            }
            early.extend((0..20).map(|row| DELETED + 20 * batch as i64 + row));
            let like = ids.iter().copied().chain(early.iter().map(|id| id + 1)).collect();
            let rows = Commit::Rows { ids: [ids, early].concat(), like };
            let deleted = |batch: i64| (0..20).map(move |row| DELETED + 20 * batch + row);
            match batch {
                2 => vec![rows, Commit::Delete(deleted(1).collect())],
                5 => vec![
                    rows,
                    Commit::Delete((0..6).filter(|b| *b != 1).flat_map(deleted).collect()),
                ],
                _ => vec![rows],
            }
        }
        Kind::Rollup => {
            // Further events of the rows of earlier batches; the last batch brings those of its own.
            let mut events = ids;
            for (behind, is_again) in [(1, 1), (2, 2)] {
                if batch >= behind {
                    events.extend(again(batch - behind, &|id| id % 3 >= is_again));
                }
                if batch == last {
                    let missing = if behind == 1 { last..last + 1 } else { last - 1..last + 1 };
                    missing.for_each(|batch| events.extend(again(batch, &|id| id % 3 >= is_again)));
                }
            }
            vec![Commit::Rows { like: events.clone(), ids: events }]
        }
    }
}

fn ids_of_batch(batch: usize) -> Vec<i64> {
    let start: i64 = BATCHES[..batch].iter().sum();
    (start..start + BATCHES[batch]).map(shuffled).collect()
}

/// A permutation of the row numbers, so that every batch has keys from all over.
fn shuffled(number: i64) -> i64 {
    number * 77 % NEWEST
}

/// How many events a row of a rollup table has.
pub fn events_of(id: i64) -> i64 {
    1 + id % 3
}

/// What can be drawn of rows with some ids: the rows, or their events, which have numbers of their own.
pub fn drawable(kind: Kind, ids: impl IntoIterator<Item = i64>) -> Vec<i64> {
    let ids = ids.into_iter();
    match kind {
        Kind::Rollup => ids.flat_map(|id| (0..events_of(id)).map(move |e| event(id, e))).collect(),
        _ => ids.collect(),
    }
}

fn event(id: i64, number: i64) -> i64 {
    4 * id + number
}

/// A snapshot of rows 0 to [`NEWEST`], with whatever keeps the state as it is.
pub struct Prepared {
    /// What it is called in messages.
    pub state: &'static str,
    /// Of the table.
    pub kind: Kind,
    /// What is read.
    pub snapshot: TableSnapshot,
    _opened: Opened,
}

impl Prepared {
    /// Draws a sample. A row of a rollup table becomes one of its events, each equally likely and, without
    /// replacement, none twice: if events are drawn uniformly, so are these.
    pub fn draw(&self, selection: &Selection, size: u64, replace: bool, seed: u64) -> Vec<i64> {
        let ids = sample_ids(&self.snapshot, selection, replace, size, seed);
        if self.kind != Kind::Rollup {
            return ids;
        }
        let mut rng = Rng::keyed(seed, 77);
        let mut drawn: Vec<i64> = Vec::with_capacity(ids.len());
        for id in ids {
            let mut free: Vec<i64> = (0..events_of(id)).map(|number| event(id, number)).collect();
            free.retain(|event| replace || !drawn.contains(event));
            // One event too many is no event of the row.
            let none_left = event(id, 3);
            let chosen = (!free.is_empty()).then(|| free[rng.below(free.len() as u64) as usize]);
            drawn.push(chosen.unwrap_or(none_left));
        }
        drawn
    }
}

/// Brings a table into a state, and takes the snapshot.
type Prepare = fn(&mut Opened) -> TableSnapshot;

/// A table in each state.
pub fn prepared_states(kind: Kind) -> Vec<Prepared> {
    let states: [(&str, Prepare); 10] = [
        ("buffer only", |opened| opened.filled(&[])),
        ("held maintenance", |opened| {
            opened.hold();
            opened.filled(&[])
        }),
        ("full buffer", |opened| {
            opened.hold();
            opened.fill_buffer();
            opened.filled(&[])
        }),
        ("memory and disk", |opened| {
            opened.hold();
            opened.filled(&[2, 4])
        }),
        ("during a flush", |opened| {
            opened.append_batches(&[2]);
            opened.stop_within(|database| database.flush());
            opened.append_newest();
            opened.snapshot()
        }),
        ("during a merge", |opened| {
            // Else workers may have merged all of it before.
            opened.hold();
            opened.append_batches(&[2, 4, 5]);
            opened.stop_within(|database| database.compact());
            opened.append_newest();
            opened.snapshot()
        }),
        ("after a merge", |opened| {
            opened.append_batches(&[0, 1, 2, 3, 4, 5]);
            opened.database().compact().unwrap();
            opened.append_newest();
            opened.snapshot()
        }),
        ("reopened", |opened| {
            opened.filled(&[3]);
            opened.reopen();
            opened.snapshot()
        }),
        ("in a reader", |opened| {
            opened.filled(&[3]);
            let reader = Database::open_read_only(
                &opened.path,
                ReadOptions { cache_bytes: 1 << 20, ..ReadOptions::default() },
            )
            .unwrap();
            let snapshot = reader.snapshot().unwrap().table(TABLE).unwrap();
            opened.reader = Some(reader);
            snapshot
        }),
        ("named, merged and reopened", |opened| {
            opened.filled(&[3]);
            opened.database().named_snapshot("named").unwrap();
            opened.append_later();
            opened.database().compact().unwrap();
            opened.reopen();
            opened.database().named_snapshot("named").unwrap().table(TABLE).unwrap()
        }),
    ];
    let prepared = states.map(|(state, prepare)| {
        let mut opened = Opened::new(kind);
        let snapshot = prepare(&mut opened);
        // Whatever happens from now on is not in the snapshot.
        opened.append_later();
        Prepared { state, kind, snapshot, _opened: opened }
    });
    prepared.into()
}

/// A database with one table, in a folder of its own.
pub struct Opened {
    kind: Kind,
    database: Option<Database>,
    directory: GateDirectory,
    hold: Option<MaintenanceHold>,
    reader: Option<Database>,
    stopped: Option<JoinHandle<()>>,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Opened {
    /// A database with an empty table.
    pub fn new(kind: Kind) -> Opened {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let directory = directory(&path);
        let database = open(&directory);
        database.create_table(TABLE, Events::spec_of(kind)).unwrap();
        Opened {
            kind,
            database: Some(database),
            directory,
            hold: None,
            reader: None,
            stopped: None,
            path,
            _folder: folder,
        }
    }

    /// The database.
    pub fn database(&self) -> &Database {
        self.database.as_ref().expect("open but while it is reopened")
    }

    /// Its table.
    pub fn table(&self) -> Table {
        self.database().table(TABLE).unwrap()
    }

    /// The table as it is now.
    pub fn snapshot(&self) -> TableSnapshot {
        self.table().snapshot().unwrap()
    }

    /// Keeps the pieces as they are.
    pub fn hold(&mut self) {
        self.hold = Some(self.database().hold_maintenance());
    }

    /// Appends rows with these ids.
    pub fn append(&self, ids: &[i64]) {
        self.commit(&Commit::Rows { ids: ids.to_vec(), like: ids.to_vec() });
    }

    /// Makes one commit.
    pub fn commit(&self, commit: &Commit) {
        match commit {
            Commit::Rows { ids, like } => {
                let batch = EVENTS.batch_like(ids, like);
                self.table().append(&batch, OnError::Raise).unwrap();
            }
            Commit::Delete(ids) => {
                let keys: ArrayRef = Arc::new(Int64Array::from(ids.clone()));
                self.table().delete(&[keys]).unwrap();
            }
        }
    }

    /// Appends everything, and flushes behind some batches.
    fn filled(&mut self, flushed: &[usize]) -> TableSnapshot {
        self.append_batches(flushed);
        self.append_newest();
        self.snapshot()
    }

    fn append_batches(&self, flushed: &[usize]) {
        for batch in 0..BATCHES.len() {
            commits(self.kind, batch).iter().for_each(|commit| self.commit(commit));
            if flushed.contains(&batch) {
                self.database().flush().unwrap();
            }
        }
    }

    fn append_newest(&self) {
        self.append(&[NEWEST]);
    }

    /// A new row, and changes of old ones where there can be some.
    fn append_later(&self) {
        self.append(&[NEWEST + 1]);
        match self.kind {
            Kind::Append => {}
            Kind::Upsert => {
                self.commit(&Commit::Rows { ids: vec![5, 6], like: vec![6, 7] });
                self.commit(&Commit::Delete(vec![7, 8]));
            }
            Kind::Rollup => self.append(&[5, 6, 5]),
        }
        if self.stopped.is_none() {
            self.database().flush().unwrap();
        }
    }

    /// Fills memory up to nearly its limit with rows of another table.
    fn fill_buffer(&self) {
        let events = Events { payload_bytes: 1_000, ..EVENTS };
        let filler = self.database().create_table("filler", Events::spec()).unwrap();
        let room = || {
            let stats = self.database().stats().unwrap();
            stats.writer.unwrap().memory_bytes_limit - stats.buffered_bytes
        };
        for start in (0..).step_by(50) {
            if room() < 200 << 10 {
                break;
            }
            events.append(&filler, &(start..start + 50).collect::<Vec<_>>());
        }
        assert!(room() < Options::MEMORY_BYTES_MIN / 4, "appends are being slowed");
    }

    /// Begins some work that writes a segment, and leaves it stuck there.
    fn stop_within(&mut self, work: fn(&Database) -> drillcore::Result<()>) {
        self.directory.shut();
        let database = self.database().clone();
        self.stopped = Some(std::thread::spawn(move || work(&database).unwrap()));
        wait_until(PATIENCE, "a segment is begun", || self.directory.waiting() > 0);
    }

    fn reopen(&mut self) {
        self.hold = None;
        let database = self.database.take().expect("open but while it is reopened");
        database.close().unwrap();
        drop(database);
        self.database = Some(open(&self.directory));
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.directory.open_up();
        if let Some(stopped) = self.stopped.take() {
            // It panics only if what it did failed, which is to be heard of.
            stopped.join().unwrap();
        }
    }
}

fn directory(path: &Path) -> GateDirectory {
    GateDirectory::new(Arc::new(LocalDirectory::create(path).unwrap()))
}

fn open(directory: &GateDirectory) -> Database {
    let options = Options { memory_bytes: Options::MEMORY_BYTES_MIN, ..Default::default() };
    Database::open_in(Arc::new(directory.clone()), options).unwrap()
}

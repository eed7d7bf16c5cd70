//! Random operations on a database and on the model, compared as they go.

use std::collections::BTreeMap;
use std::path::PathBuf;

use drillcore::arrow_array::RecordBatch;
use drillcore::*;
use drillcore_sample::rng::Rng;

use crate::cell::Cell;
use crate::model::ModelTable;
use crate::read_back::check_table;
use crate::shape::Shape;

/// Tables at once, at most.
const TABLE_COUNT_MAX: usize = 4;
/// Questions asked of a table each time it is compared.
const QUESTIONS: usize = 4;

type Model = BTreeMap<String, ModelTable>;

/// A database, what it should hold, and snapshots taken on the way.
pub struct RandomOps {
    path: PathBuf,
    options: Options,
    database: Option<Database>,
    hold: Option<MaintenanceHold>,
    model: Model,
    kept: Vec<(Snapshot, Model)>,
    rng: Rng,
    log: OpLog,
}

/// What was done so far; printed when a check panics.
struct OpLog {
    seed: u64,
    lines: Vec<String>,
}

impl Drop for OpLog {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}, operations so far:\n{}", self.seed, self.lines.join("\n"));
        }
    }
}

/// What is appended to one table.
struct Pending {
    name: String,
    rows: Vec<Vec<Cell>>,
    batch: RecordBatch,
}

impl RandomOps {
    /// Opens a database in an empty folder, with options that the seed chooses: little memory, any
    /// durability, any cache.
    pub fn new(path: PathBuf, seed: u64) -> RandomOps {
        let mut rng = Rng::keyed(seed, 0);
        let durability = [Durability::Os, Durability::Os, Durability::None, Durability::Fsync];
        let options = Options {
            durability: durability[rng.below(4) as usize],
            memory_bytes: Options::MEMORY_BYTES_MIN,
            cache_bytes: [0, 100_000, 16 << 20][rng.below(3) as usize],
            maintenance_threads: 1 + rng.below(2) as usize,
            wal_bytes_max: [200_000, 1 << 30][rng.below(2) as usize],
            create: true,
        };
        let log = OpLog { seed, lines: vec![format!("{options:?}")] };
        let database = Some(Database::open(&path, options.clone()).unwrap());
        RandomOps {
            path,
            options,
            database,
            hold: None,
            model: Model::new(),
            kept: Vec::new(),
            rng,
            log,
        }
    }

    /// Carries out `steps` operations, comparing on the way and at the end.
    pub fn run(&mut self, steps: usize) {
        for step in 0..steps {
            self.step();
            if step % 3 == 2 {
                self.compare_one();
            }
        }
        self.log("compare all, reopen, compare all");
        self.compare_all();
        self.reopen();
        self.compare_all();
        let report = self.database().verify(&Interrupt::never()).unwrap();
        assert!(report.faults.is_empty(), "{:?}", report.faults);
    }

    fn step(&mut self) {
        match self.rng.below(100) {
            0..8 => self.create_table(),
            8..10 => self.drop_table(),
            10..68 => self.append(),
            68..74 => {
                self.log("flush");
                self.database().flush().unwrap();
            }
            74..78 => {
                self.log("compact");
                self.database().compact().unwrap();
                let stats = self.database().stats().unwrap();
                assert!(stats.tables.iter().all(|t| t.segments <= 1 && t.rows >= t.runs));
            }
            78..84 => {
                self.log("hold or release");
                self.hold = match self.hold.take() {
                    None => Some(self.database().hold_maintenance()),
                    Some(_) => None,
                };
            }
            84..90 => self.keep_snapshot(),
            90..95 => self.compare_kept(),
            _ => self.reopen(),
        }
    }

    fn create_table(&mut self) {
        if self.model.len() == TABLE_COUNT_MAX {
            return;
        }
        let shapes = Shape::all();
        let shape = shapes[self.rng.below(shapes.len() as u64) as usize].clone();
        let name = format!("t{}", self.rng.below(6));
        self.log(format!(
            "create {name}: key {:?}, set {:?}, {:?}",
            shape.key, shape.set, shape.columns
        ));
        let created = self.database().create_table(&name, shape.spec());
        if self.model.contains_key(&name) {
            assert_eq!(created.err().unwrap().kind(), ErrorKind::AlreadyExists);
            return;
        }
        created.unwrap();
        self.model.insert(name, ModelTable::new(shape));
    }

    fn drop_table(&mut self) {
        let Some(name) = self.random_table() else { return };
        self.log(format!("drop {name}"));
        self.database().drop_table(&name).unwrap();
        self.model.remove(&name);
    }

    /// Appends to one table, or in one commit to several.
    fn append(&mut self) {
        if self.model.is_empty() {
            return self.create_table();
        }
        let mut names: Vec<String> = self.model.keys().cloned().collect();
        while names.len() > 1 && self.rng.below(3) > 0 {
            names.remove(self.rng.below(names.len() as u64) as usize);
        }
        self.make_room_under_hold(names.len());
        let pending: Vec<Pending> = names.into_iter().map(|name| self.random_rows(name)).collect();
        let total: u64 = pending.iter().map(|p| p.rows.len() as u64).sum();
        let what: Vec<String> =
            pending.iter().map(|p| format!("{} rows to {}", p.rows.len(), p.name)).collect();
        self.log(format!("append {}", what.join(", ")));
        let before = self.database().snapshot().unwrap().lsn();
        let appended = match &pending[..] {
            [one] if self.rng.below(2) == 0 => {
                self.database().table(&one.name).unwrap().append(&one.batch, OnError::Raise)
            }
            many => {
                let batches: Vec<_> = many.iter().map(|p| (p.name.as_str(), &p.batch)).collect();
                self.database().append(&batches)
            }
        };
        match appended {
            Ok(result) => {
                assert_eq!((result.rows, result.rejected.len()), (total, 0));
                assert_eq!(result.lsn, before + u64::from(total > 0));
                for p in pending {
                    self.model.get_mut(&p.name).unwrap().append(&p.rows);
                }
            }
            // Long strings can make a batch larger than a commit may be. Then nothing is appended.
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
                assert!(error.to_string().contains("smaller batches"), "{error}");
                self.log("  too large for one commit");
            }
        }
    }

    fn random_rows(&mut self, name: String) -> Pending {
        let count = match self.rng.below(10) {
            0 => 0,
            1..6 => 1 + self.rng.below(20),
            6..9 => 1 + self.rng.below(600),
            _ => 1 + self.rng.below(3_000),
        };
        let shape = &self.model[&name].shape;
        let rows = shape.rows(&mut self.rng, count);
        let batch = shape.batch(&rows);
        Pending { name, rows, batch }
    }

    /// With maintenance held, an append at the limit would wait for this very thread to release it.
    fn make_room_under_hold(&mut self, commits: usize) {
        if self.hold.is_none() {
            return;
        }
        let stats = self.database().stats().unwrap();
        let largest = commits as u64 * self.options.memory_bytes / 4;
        if stats.buffered_bytes + largest > self.options.memory_bytes {
            self.log("flush, under a hold");
            self.database().flush().unwrap();
        }
    }

    fn keep_snapshot(&mut self) {
        self.log("keep a snapshot");
        if self.kept.len() == 3 {
            self.kept.remove(0);
        }
        self.kept.push((self.database().snapshot().unwrap(), self.model.clone()));
    }

    /// A snapshot shows what it showed, whatever happened since.
    fn compare_kept(&mut self) {
        if self.kept.is_empty() {
            return;
        }
        let index = self.rng.below(self.kept.len() as u64) as usize;
        self.log(format!("compare kept snapshot {index}"));
        let (snapshot, model) = &self.kept[index];
        compare(snapshot, model, &mut self.rng);
    }

    fn compare_one(&mut self) {
        let Some(name) = self.random_table() else { return };
        self.log(format!("compare {name}"));
        let table = self.database().table(&name).unwrap().snapshot().unwrap();
        check_table(&table, &self.model[&name], QUESTIONS, &mut self.rng);
    }

    fn compare_all(&mut self) {
        let snapshot = self.database().snapshot().unwrap();
        compare(&snapshot, &self.model, &mut self.rng);
        for index in 0..self.kept.len() {
            let (snapshot, model) = &self.kept[index];
            compare(snapshot, model, &mut self.rng);
        }
    }

    /// Kept snapshots outlive the database they were taken of.
    fn reopen(&mut self) {
        self.log("reopen");
        self.hold = None;
        let before = self.database().snapshot().unwrap().lsn();
        let database = self.database.take().expect("the database is open");
        if self.rng.below(2) == 0 {
            database.close().unwrap();
            assert_eq!(database.snapshot().err().unwrap().kind(), ErrorKind::Closed);
        }
        drop(database);
        self.database = Some(Database::open(&self.path, self.options.clone()).unwrap());
        assert_eq!(self.database().snapshot().unwrap().lsn(), before, "commits go on counting");
    }

    fn random_table(&mut self) -> Option<String> {
        let names: Vec<&String> = self.model.keys().collect();
        let count = names.len() as u64;
        (count > 0).then(|| names[self.rng.below(count) as usize].clone())
    }

    fn database(&self) -> &Database {
        self.database.as_ref().expect("the database is open")
    }

    fn log(&mut self, line: impl Into<String>) {
        self.log.lines.push(line.into());
    }
}

fn compare(snapshot: &Snapshot, model: &Model, rng: &mut Rng) {
    assert_eq!(snapshot.tables(), model.keys().cloned().collect::<Vec<_>>());
    for (name, table) in model {
        check_table(&snapshot.table(name).unwrap(), table, QUESTIONS, rng);
    }
}

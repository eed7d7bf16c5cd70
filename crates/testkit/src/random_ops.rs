//! Random operations on a database and on the model, compared as they go.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use drillcore::arrow_array::RecordBatch;
use drillcore::arrow_schema::DataType;
use drillcore::directory::{Directory, LocalDirectory, ReadMode};
use drillcore::*;
use drillcore_format::key::give_codes_always;
use drillcore_format::streams::page::is_streamable;
use drillcore_sample::rng::Rng;
use drillcore_storage::files::open_files::OpenFiles;

use crate::cell::{Cell, rows_of};
use crate::hashed_condition::HashedCondition;
use crate::model::{ModelBetween, ModelSelection, ModelTable};
use crate::read_back::{check_table, random_key, random_selection, random_sets, to_selection};
use crate::shape::{Policy, Shape};
use crate::texts_by_code::texts_by_code;

/// Tables at once, at most.
const TABLE_COUNT_MAX: usize = 4;
/// Questions asked of a table each time it is compared.
const QUESTIONS: usize = 4;

/// Named snapshots at once, at most.
const NAMED_COUNT_MAX: u64 = 2;
/// Pages that a reader beside the writer keeps.
const READER_CACHE_BYTES: u64 = 100_000;

type Model = BTreeMap<String, ModelTable>;

/// A database, what it should hold, and what was opened of it on the way: snapshots, named ones, and a
/// reader beside the writer.
pub struct RandomOps {
    files: Files,
    options: Options,
    database: Option<Database>,
    hold: Option<MaintenanceHold>,
    model: Model,
    kept: Vec<(Snapshot, Model)>,
    named: BTreeMap<String, Pinned>,
    /// With what there was when it was last refreshed.
    reader: Option<(Database, Seen)>,
    rng: Rng,
    log: OpLog,
}

/// The folder of a database, and how it is read.
struct Files {
    path: PathBuf,
    mode: ReadMode,
    /// Segments that the writer, or a reader, has open at once.
    open_max: usize,
}

/// What a reader shows until it is refreshed.
struct Seen {
    model: Model,
    named: BTreeMap<String, Pinned>,
}

/// What a named snapshot shows for good.
#[derive(Clone)]
struct Pinned {
    lsn: Lsn,
    model: Model,
    /// One sample of each table.
    drawn: Vec<Vec<Vec<Cell>>>,
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
    /// durability, any cache, any way to read.
    pub fn new(path: PathBuf, seed: u64) -> RandomOps {
        let mut rng = Rng::keyed(seed, 0);
        let durability = [Durability::Os, Durability::Os, Durability::None, Durability::Fsync];
        let options = Options {
            durability: durability[rng.below(4) as usize],
            memory_bytes: Options::MEMORY_BYTES_MIN,
            cache_bytes: [0, 100_000, 16 << 20][rng.below(3) as usize],
            maintenance_threads: 1 + rng.below(2) as usize,
            wal_bytes_max: [200_000, 1 << 30][rng.below(2) as usize],
            segment_bytes: [40_000, 200_000, 1 << 30][rng.below(3) as usize],
            ..Default::default()
        };
        let open_max = [2, 5, 1_000][rng.below(3) as usize];
        let mode = ReadMode { direct_io: rng.below(2) == 0, io_uring: rng.below(2) == 0 };
        // Without a cache, each of some 100,000 reads of one run would wait for the device.
        let cache_bytes = options.cache_bytes.max(if mode.direct_io { 100_000 } else { 0 });
        let options = Options { cache_bytes, ..options };
        let lines = vec![format!("{options:?}, {open_max} files at once, {mode:?}")];
        let log = OpLog { seed, lines };
        let files = Files { path, mode, open_max };
        let database = Some(Database::open_in(files.folder(), options.clone()).unwrap());
        RandomOps {
            files,
            options,
            database,
            hold: None,
            model: Model::new(),
            kept: Vec::new(),
            named: BTreeMap::new(),
            reader: None,
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
        let verified = self.database().verify();
        let beside = self.reader.as_ref().map(|(reader, _)| reader.verify());
        for report in [Some(verified), beside].into_iter().flatten() {
            let report = report.unwrap();
            assert!(report.faults.is_empty(), "{:?}", report.faults);
        }
    }

    fn step(&mut self) {
        match self.rng.below(100) {
            0..8 => self.create_table(),
            8..10 => self.drop_table(),
            10..42 => self.append(),
            42..48 => self.delete_selected(),
            48..51 => self.add_column(),
            51..55 => self.switch_set_index(),
            55..62 => self.delete(),
            62..67 => {
                self.log("flush");
                self.database().flush().unwrap();
            }
            67..71 => {
                self.log("compact");
                self.database().compact().unwrap();
                let stats = self.database().stats().unwrap();
                assert!(stats.tables.iter().all(|t| t.levels <= 1 && t.rows >= t.runs));
            }
            71..76 => {
                self.log("hold or release");
                self.hold = match self.hold.take() {
                    None => Some(self.database().hold_maintenance()),
                    Some(_) => None,
                };
            }
            76..79 => self.keep_snapshot(),
            79..81 => self.compare_kept(),
            81..83 => {
                self.log("spill what snapshots hold");
                self.database().spill_snapshots().unwrap();
            }
            83..86 => self.pin_or_unpin(),
            86..91 => self.read_beside(),
            91..94 => self.rename_or_copy_table(),
            94..96 => self.back_up(),
            _ => self.reopen(),
        }
    }

    /// The columns that lie by themselves: what sizes say, none, or some.
    fn streams_of(&mut self, shape: &Shape) -> Option<Vec<String>> {
        let are_chosen = self.rng.below(3);
        if are_chosen == 0 {
            return None;
        }
        let fields = shape.columns.fields().iter();
        let can_be = fields.filter(|field| is_streamable(field.data_type()));
        let some = can_be.filter(|_| are_chosen == 1 && self.rng.below(2) == 0);
        Some(some.map(|field| field.name().clone()).collect())
    }

    fn create_table(&mut self) {
        if self.model.len() == TABLE_COUNT_MAX {
            return;
        }
        let shapes = Shape::all();
        let shape = shapes[self.rng.below(shapes.len() as u64) as usize].clone();
        let name = format!("t{}", self.rng.below(6));
        let streams = self.streams_of(&shape);
        self.log(format!(
            "create {name}: key {:?}, set {:?}, streams {streams:?}, {:?}, {:?}",
            shape.key, shape.set, shape.policy, shape.columns
        ));
        let spec = TableSpec { set_index: self.rng.below(3) > 0, streams, ..shape.spec() };
        let created = self.database().create_table(&name, spec);
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

    /// Gives a table another name, or copies it.
    fn rename_or_copy_table(&mut self) {
        let Some(old) = self.random_table() else { return };
        let new = format!("t{}", self.rng.below(6));
        let is_copy = self.model.len() < TABLE_COUNT_MAX && self.rng.below(2) == 0;
        self.log(format!("{} {old} to {new}", if is_copy { "copy" } else { "rename" }));
        let done = match is_copy {
            true => self.database().copy_table(&old, &new),
            false => self.database().rename_table(&old, &new),
        };
        if self.model.contains_key(&new) {
            assert_eq!(done.err().unwrap().kind(), ErrorKind::AlreadyExists);
            return;
        }
        assert_eq!(done.unwrap().name(), new);
        let table = self.model[&old].clone();
        if !is_copy {
            self.model.remove(&old);
        }
        self.model.insert(new, table);
    }

    /// Backs up to one folder again and again, and compares what is there.
    fn back_up(&mut self) {
        self.log("back up");
        let path = self.files.path.with_extension("backup");
        let copy = self.rng.below(4) == 0;
        self.database().backup(&path, copy).unwrap();
        let backup = Database::open_read_only(&path, ReadOptions::default()).unwrap();
        compare(&backup.snapshot().unwrap(), &self.model, &mut self.rng);
        for (name, pinned) in &self.named {
            compare_pinned(&backup.named_snapshot(name).unwrap(), pinned, &mut self.rng);
        }
        assert!(backup.verify().unwrap().faults.is_empty());
    }

    /// Adds a column to a table, unless it has one of that name, or would be a dimension without an order.
    fn add_column(&mut self) {
        let Some(table) = self.random_table() else { return };
        let list = DataType::new_list(DataType::Utf8, true);
        let types = [DataType::Utf8, DataType::Int64, DataType::Boolean, DataType::Float64, list];
        let data_type = &types[self.rng.below(types.len() as u64) as usize];
        let name = format!("added{}", self.rng.below(6));
        self.log(format!("add {name}, {data_type:?}, to {table}"));
        let added = self.database().table(&table).unwrap().add_column(&name, data_type);
        let known = self.model.get_mut(&table).expect("chosen among these");
        let is_rollup = matches!(known.shape.policy, Policy::Rollup(_));
        let has_name = known.shape.columns.column_with_name(&name).is_some();
        match (has_name, is_rollup && data_type.is_nested()) {
            (true, _) => assert_eq!(added.unwrap_err().kind(), ErrorKind::AlreadyExists),
            (_, true) => assert_eq!(added.unwrap_err().kind(), ErrorKind::InvalidArgument),
            _ => {
                added.unwrap();
                known.add_column(&name, data_type);
            }
        }
    }

    /// Indexes sets of a table or not: all of them, or some that rows have. No answer changes.
    fn switch_set_index(&mut self) {
        let Some(name) = self.random_table() else { return };
        let (known, indexes) = (&self.model[&name], self.rng.below(2) == 0);
        let some = (self.rng.below(2) == 0).then(|| random_sets(known, &mut self.rng));
        let what = if some.is_some() { "some sets" } else { "all sets" };
        let has_sets = known.shape.set.is_some();
        self.log(format!("{} {what} of {name}", if indexes { "index" } else { "unindex" }));
        let table = self.database().table(&name).unwrap();
        let switched = match (indexes, &some) {
            (true, None) => table.index_all_sets(),
            (false, None) => table.unindex_all_sets(),
            (true, Some(sets)) => table.index_sets(sets),
            (false, Some(sets)) => table.unindex_sets(sets),
        };
        match has_sets {
            true => switched.unwrap(),
            false => assert_eq!(switched.unwrap_err().kind(), ErrorKind::InvalidArgument),
        }
        let is_held = self.hold.is_some();
        if has_sets && !is_held && self.rng.below(2) == 0 {
            self.log("wait for the set index");
            table.wait_for_set_index().unwrap();
            let stats = self.database().stats().unwrap();
            let of_table = stats.tables.iter().find(|table| table.name == name).unwrap();
            assert_eq!(of_table.indexed_sets.as_ref().unwrap().rows_to_index, 0);
        }
    }

    /// Appends to one table, or in one commit to several.
    fn append(&mut self) {
        // Keys by code in two batches of three, beside keys without: no answer changes.
        give_codes_always(!self.log.lines.len().is_multiple_of(3));
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
                assert_eq!(result.lsn, Lsn(before.0 + u64::from(total > 0)));
                for p in pending {
                    self.model.get_mut(&p.name).unwrap().append(&p.rows);
                }
            }
            Err(error) => self.check_too_large(&error),
        }
    }

    /// Deletes keys of one table in one commit: some that have a row and some that have none, or all.
    fn delete(&mut self) {
        let of_upserts = |table: &ModelTable| matches!(table.shape.policy, Policy::Upsert);
        let names: Vec<String> = self
            .model
            .iter()
            .filter(|(_, table)| of_upserts(table))
            .map(|(name, _)| name.clone())
            .collect();
        if names.is_empty() {
            return self.append();
        }
        self.make_room_under_hold(1);
        let name = &names[self.rng.below(names.len() as u64) as usize];
        let table = &self.model[name];
        let keys: Vec<Vec<Cell>> = match self.rng.below(12) {
            0 => table.rows().iter().map(|row| row.key.clone()).collect(),
            _ => (0..self.rng.below(400)).map(|_| random_key(table, &mut self.rng)).collect(),
        };
        let arrays = table.shape.key_arrays(&keys);
        self.log(format!("delete {} keys of {name}", keys.len()));
        let before = self.database().snapshot().unwrap().lsn();
        match self.database().table(name).unwrap().delete(&arrays) {
            Ok(deleted) => {
                let keys: HashSet<Vec<Cell>> =
                    keys.iter().map(|key| key.iter().map(Cell::normalised).collect()).collect();
                let model = self.model.get_mut(name).expect("chosen above");
                let rows = model.delete_shown(|row| keys.contains(&row.key));
                assert_eq!(deleted.rows, rows);
                assert_eq!(deleted.lsn, Lsn(before.0 + u64::from(rows > 0)));
            }
            Err(error) => self.check_too_large(&error),
        }
    }

    /// Deletes rows of one table by key range, sets, a condition, or all of them.
    fn delete_selected(&mut self) {
        let Some(name) = self.random_table() else { return self.append() };
        self.make_room_under_hold(1);
        let known = &self.model[&name];
        let mut wanted = random_selection(known, &mut self.rng);
        let fields = known.shape.columns.fields();
        let columns: Vec<usize> = match known.shape.policy {
            Policy::Rollup(_) => known.shape.key.clone(),
            Policy::Append | Policy::Upsert => (0..fields.len()).collect(),
        };
        let column = columns[self.rng.below(columns.len() as u64) as usize];
        let modulus = 1 + self.rng.below(4);
        let condition = (self.rng.below(3) == 0)
            .then(|| HashedCondition::new(fields[column].name(), modulus, self.rng.below(modulus)));
        if condition.is_some() && self.rng.below(2) == 0 {
            wanted = ModelSelection::default();
        }
        let is_reversed = wanted.between.as_ref().is_some_and(ModelBetween::is_reversed);
        let predicate = condition.clone().map(|condition| Arc::new(condition) as Arc<_>);
        let selection = Selection { predicate, ..to_selection(known, &wanted) };
        let has_end = |between: &ModelBetween| between.low.is_some() || between.high.is_some();
        let selects_by_nothing = !wanted.between.as_ref().is_some_and(has_end)
            && wanted.sets.is_none()
            && condition.is_none();
        self.log(format!("delete {wanted:?} and {condition:?} of {name}"));
        let before = self.database().snapshot().unwrap().lsn();
        let table = self.database().table(&name).unwrap();
        let deleted = match selects_by_nothing {
            true => {
                let refused = table.delete_selected(&selection).unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
                table.truncate()
            }
            false => table.delete_selected(&selection),
        };
        let deleted = match deleted {
            Ok(deleted) => deleted,
            Err(error) if is_reversed => {
                return assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            }
            Err(error) => return self.check_too_large(&error),
        };
        let model = self.model.get_mut(&name).expect("chosen among these");
        let shape = model.clone();
        let rows = model.delete_shown(|row| {
            let passes = condition.as_ref().is_none_or(|test| test.passes(&row.cells[column]));
            passes && shape.selects(row, &wanted)
        });
        self.log(format!("  {rows} rows"));
        assert_eq!(deleted.rows, rows);
        let lsn = self.database().snapshot().unwrap().lsn();
        assert!(deleted.lsn == lsn && lsn.0 - before.0 <= 1 && (rows == 0 || lsn > before));
    }

    /// Long strings can make a batch larger than a commit may be. Then nothing is committed.
    fn check_too_large(&mut self, error: &Error) {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("smaller batches"), "{error}");
        self.log("  too large for one commit");
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
        let batch = match (shape.batch(&rows), self.rng.below(3)) {
            (batch, 0) => texts_by_code(&batch),
            (batch, _) => batch,
        };
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

    /// Makes a named snapshot, or opens one that is there and compares it, or drops it.
    fn pin_or_unpin(&mut self) {
        let name = format!("s{}", self.rng.below(NAMED_COUNT_MAX));
        if !self.named.contains_key(&name) {
            self.log(format!("pin {name}"));
            let snapshot = self.database().named_snapshot(&name).unwrap();
            let (lsn, model) = (snapshot.lsn(), self.model.clone());
            assert_eq!(lsn, self.database().snapshot().unwrap().lsn());
            self.named.insert(name, Pinned { lsn, model, drawn: draw_from_each(&snapshot) });
        } else if self.rng.below(4) > 0 {
            self.compare_named(&name);
        } else {
            self.log(format!("unpin {name}"));
            self.database().drop_snapshot(&name).unwrap();
            self.named.remove(&name);
        }
        let expected = self.named.iter().map(|(name, pinned)| (name.clone(), pinned.lsn));
        assert_eq!(self.database().snapshots().unwrap(), expected.collect::<Vec<_>>());
    }

    fn compare_named(&mut self, name: &str) {
        self.log(format!("compare named {name}"));
        let snapshot = self.database().named_snapshot(name).unwrap();
        compare_pinned(&snapshot, &self.named[name], &mut self.rng);
    }

    /// Opens a reader beside the writer, has it move on, or closes it. Until it moves on it shows what it
    /// showed.
    fn read_beside(&mut self) {
        let choice = self.rng.below(8);
        if choice == 0 {
            self.log("close the reader");
            if let Some((reader, _)) = self.reader.take() {
                reader.close().unwrap();
                assert_eq!(reader.snapshot().err().unwrap().kind(), ErrorKind::Closed);
            }
            return;
        }
        if choice > 2 || self.reader.is_none() {
            self.move_reader();
        }
        self.compare_reader();
    }

    fn move_reader(&mut self) {
        // Without a log, a reader sees what has been written out.
        let is_logged = self.options.durability != Durability::None;
        if !is_logged {
            self.database().flush().unwrap();
        }
        let lsn = self.database().snapshot().unwrap().lsn();
        let now = Seen { model: self.model.clone(), named: self.named.clone() };
        if let Some((reader, seen)) = &mut self.reader {
            self.log.lines.push("refresh the reader".into());
            let at_least = if is_logged { lsn } else { Lsn(0) };
            reader.refresh_to(at_least, Duration::ZERO).unwrap();
            *seen = now;
        } else {
            self.log("open a reader");
            let options = ReadOptions { cache_bytes: READER_CACHE_BYTES, ..Default::default() };
            let reader = Database::open_read_only_in(self.files.folder(), options).unwrap();
            self.reader = Some((reader, now));
        }
        let (reader, _) = self.reader.as_ref().expect("just opened");
        let found = reader.snapshot().unwrap().lsn();
        assert!(found == lsn || !is_logged && found < lsn, "at commit {found} of {lsn}");
    }

    fn compare_reader(&mut self) {
        let Some((reader, seen)) = &self.reader else { return };
        self.log.lines.push("compare the reader".into());
        compare(&reader.snapshot().unwrap(), &seen.model, &mut self.rng);
        let expected = seen.named.iter().map(|(name, pinned)| (name.clone(), pinned.lsn));
        assert_eq!(reader.snapshots().unwrap(), expected.collect::<Vec<_>>());
        // The writer may have dropped it since.
        if let Some((name, pinned)) =
            seen.named.iter().nth(self.rng.below(NAMED_COUNT_MAX) as usize)
        {
            self.log.lines.push(format!("compare the reader's {name}"));
            compare_pinned(&reader.named_snapshot(name).unwrap(), pinned, &mut self.rng);
        }
        if self.rng.below(3) == 0 {
            self.log.lines.push("open another reader at the reader's moment".into());
            let moment = reader.moment().unwrap();
            let at = match self.rng.below(2) {
                0 => At::Moment(moment.clone()),
                _ => At::Moment(Moment::new(moment.version(), moment.lsn())),
            };
            let options = ReadOptions { at, cache_bytes: READER_CACHE_BYTES, ..Default::default() };
            let other = Database::open_read_only_in(self.files.folder(), options).unwrap();
            assert_eq!(other.moment().unwrap(), moment);
            assert_eq!(other.refresh().unwrap_err().kind(), ErrorKind::Unsupported);
            compare(&other.snapshot().unwrap(), &seen.model, &mut self.rng);
        }
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
        for name in self.named.keys().cloned().collect::<Vec<_>>() {
            self.compare_named(&name);
        }
        self.compare_reader();
    }

    /// Kept snapshots and readers outlive the database that they are of.
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
        let opened = Database::open_in(self.files.folder(), self.options.clone());
        self.database = Some(opened.unwrap());
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

impl Files {
    /// The folder, of which at most `open_max` files are open at once, beside those that are being read.
    fn folder(&self) -> Arc<dyn Directory> {
        let local = LocalDirectory::create_for(&self.path, self.mode).unwrap();
        Arc::new(OpenFiles::with_limit(Arc::new(local), self.open_max))
    }
}

/// A sample of each table with one seed.
fn draw_from_each(snapshot: &Snapshot) -> Vec<Vec<Vec<Cell>>> {
    let request = SampleRequest { n: 30, at_most: true, seed: Some(1), ..Default::default() };
    let draw = |name: &String| rows_of(&snapshot.table(name).unwrap().sample(&request).unwrap());
    snapshot.tables().iter().map(draw).collect()
}

fn compare_pinned(snapshot: &Snapshot, pinned: &Pinned, rng: &mut Rng) {
    assert_eq!(snapshot.lsn(), pinned.lsn);
    assert_eq!(draw_from_each(snapshot), pinned.drawn, "the same samples for ever");
    compare(snapshot, &pinned.model, rng);
}

fn compare(snapshot: &Snapshot, model: &Model, rng: &mut Rng) {
    assert_eq!(snapshot.tables(), model.keys().cloned().collect::<Vec<_>>());
    for (name, table) in model {
        check_table(&snapshot.table(name).unwrap(), table, QUESTIONS, rng);
    }
}

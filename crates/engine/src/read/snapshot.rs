//! Snapshots: the read face of the engine.
//!
//! A snapshot is a handle to lists of immutable pieces. Taking one copies no rows; holding one keeps its
//! pieces alive; reading one never waits for writers.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch};
use drillcore_format::byte_bounds;
use drillcore_format::key::{decode_values, encode_keys, encode_value};
use drillcore_format::rows::{Layout, Rows};
use drillcore_format::schema::{MergePolicy, Rollup, TableSchema};

use crate::calls::interrupt::Interrupt;
use crate::error::{Error, Result};
use crate::merge::merger::{Direction, Fold};
use crate::merge::resolving::{resolve, with_flags};
use crate::merge::rollup::{fold, shown};
use crate::read::partition::{KeyPartition, ScanPlan};
use crate::read::passing::{Partials, count_passing, passing, passing_partials};
use crate::read::scan::{Scan, ScanRequest};
use crate::read::weighted::{EVENTS, Weighted};
use crate::schema::conform::cast;
use crate::select::fetch::{gather, no_rows, too_many_string_bytes};
use crate::select::predicate::column;
use crate::select::selection::{Question, Scope, Selected, Selection};
use crate::select::unindexed_sets::count_sets;
use crate::state::version::{TableVersion, Version};

/// Whole rows of a rollup table that are folded at once.
const FOLDED_AT_ONCE: usize = 1024;

/// All tables of a database at one moment.
#[derive(Clone)]
pub struct Snapshot {
    version: Arc<Version>,
}

/// One table at one moment.
#[derive(Clone)]
pub struct TableSnapshot {
    table: Arc<TableVersion>,
}

/// The rows that a list of keys found.
#[derive(Debug, Clone)]
pub struct Found {
    /// The rows.
    pub rows: RecordBatch,
    /// For each key its row in `rows`, if there is one.
    pub positions: Vec<Option<u32>>,
}

/// Rows of a rollup table, complete.
pub(crate) struct WholeRows {
    pub rows: Rows,
    /// For each key its row, if there is one.
    pub positions: Vec<Option<u32>>,
}

/// The sets of a table, in order of their values, with their numbers of rows.
#[derive(Debug, Clone)]
pub struct Sets {
    /// Values of the set column; null stands for the rows without a value.
    pub values: ArrayRef,
    /// How many rows each set has.
    pub rows: Vec<u64>,
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("lsn", &self.lsn()).finish_non_exhaustive()
    }
}

impl fmt::Debug for TableSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("TableSnapshot");
        shown.field("name", &self.name()).field("lsn", &self.lsn()).finish_non_exhaustive()
    }
}

impl Snapshot {
    pub(crate) fn new(version: Arc<Version>) -> Snapshot {
        Snapshot { version }
    }

    /// The newest commit that the snapshot shows.
    pub fn lsn(&self) -> u64 {
        self.version.lsn.0
    }

    /// The names of all tables, in order.
    pub fn tables(&self) -> Vec<String> {
        self.version.tables.keys().map(|name| name.to_string()).collect()
    }

    /// One of the tables.
    pub fn table(&self, name: &str) -> Result<TableSnapshot> {
        match self.version.tables.get(name) {
            Some(table) => Ok(TableSnapshot { table: table.clone() }),
            None => {
                Err(Error::unknown("table", name, self.version.tables.keys().map(AsRef::as_ref)))
            }
        }
    }
}

impl TableSnapshot {
    /// The table's name.
    pub fn name(&self) -> &str {
        &self.table.name
    }

    /// The table's shape at this moment.
    pub fn schema(&self) -> Arc<TableSchema> {
        self.table.schema.clone()
    }

    /// The table's number in its database, which no other table ever has: names can be given again.
    pub fn id(&self) -> u32 {
        self.table.id.0
    }

    /// The newest commit that the snapshot shows.
    pub fn lsn(&self) -> u64 {
        self.table.lsn.0
    }

    /// The number of rows. O(1), but for the first call on an upsert table's snapshot, which merges the
    /// keys of all pieces.
    pub fn rows(&self) -> Result<u64> {
        self.count(&Selection::default())
    }

    /// The number of sorted arrays that hold the rows, in memory and on disk.
    pub fn pieces(&self) -> usize {
        self.table.pieces.len()
    }

    /// The newest row of each key. `keys` holds one array a key column, all of one length.
    ///
    /// Pieces are searched newest first until one has the key: in each on disk at most one index page is
    /// read, and a block where the key is.
    pub fn get(&self, keys: &[ArrayRef], columns: Option<&[String]>) -> Result<Found> {
        self.get_interruptibly(keys, columns, &Interrupt::never())
    }

    /// [`TableSnapshot::get`] that can be stopped.
    pub fn get_interruptibly(
        &self,
        keys: &[ArrayRef],
        columns: Option<&[String]>,
        interrupt: &Interrupt,
    ) -> Result<Found> {
        let columns = self.columns(columns)?;
        let keys = self.encode_keys(keys)?;
        let layout = &self.table.layout;
        if let Some(rollup) = layout.rollup() {
            let whole = self.whole_rows(&keys, interrupt)?;
            let rows = match whole.rows.is_empty() {
                true => no_rows(layout, &columns),
                false => shown(layout, rollup, &whole.rows, &columns)?,
            };
            return Ok(Found { rows, positions: whole.positions });
        }
        let needed = layout.projection(&columns);
        let flagged = layout.has_tombstones().then(|| with_flags(layout, &needed));
        let read = flagged.as_ref().unwrap_or(&needed);
        let mut parts: Vec<Rows> = Vec::new();
        // The part and the row of each key that has one.
        let mut found: Vec<Option<(usize, usize)>> = vec![None; keys.len()];
        let mut missing: Vec<u32> = (0..keys.len() as u32).collect();
        // Keys, and any column of strings: if all are full, one of them is more than full.
        let bytes_max = byte_bounds::array().saturating_mul(read.values.len() + 1);
        let mut bytes = 0;
        for piece in self.table.pieces.iter().rev() {
            for hits in piece.get(&keys, &missing, read, bytes_max - bytes, interrupt)? {
                if piece.segment().is_some() {
                    bytes += hits.rows.string_bytes();
                }
                if bytes > bytes_max {
                    return Err(too_many_string_bytes(keys.len(), bytes));
                }
                for &(key, row) in &hits.found {
                    found[key as usize] = Some((parts.len(), row as usize));
                }
                parts.push(hits.rows);
            }
            missing.retain(|&key| found[key as usize].is_none());
            if missing.is_empty() {
                break;
            }
        }
        if let Some(flagged) = &flagged {
            let is_deleted =
                |(part, row): (usize, usize)| parts[part].value(0).as_boolean().value(row);
            found.iter_mut().for_each(|place| *place = place.filter(|&place| !is_deleted(place)));
            parts.iter_mut().for_each(|rows| *rows = rows.narrow(flagged, &needed));
        }
        let picks: Vec<(usize, usize)> = found.iter().flatten().copied().collect();
        let mut numbers = 0..picks.len() as u32;
        let positions = found.iter().map(|place| place.and_then(|_| numbers.next())).collect();
        if picks.is_empty() {
            return Ok(Found { rows: no_rows(layout, &columns), positions });
        }
        Ok(Found { rows: layout.decode(&gather(parts, &picks)?, &columns)?, positions })
    }

    /// The selected rows in key order, streamed; ties in commit order, reversed when the scan is.
    pub fn scan(&self, request: ScanRequest) -> Result<Scan> {
        Scan::new(&self.partition(&request)?, &request)
    }

    /// Up to `count` partitions of keys that share the selected rows about equally, none of them empty, to be
    /// scanned side by side; one after the other they give what [`TableSnapshot::scan`] gives. They are fewer
    /// where a partition would not be worth a thread, or where many rows have one key. A limit is that of each.
    ///
    /// Looks at some keys of each partition. A set of an upsert table is resolved first.
    pub fn scan_partitions(
        &self,
        request: &ScanRequest,
        count: usize,
    ) -> Result<Vec<KeyPartition>> {
        let whole = self.partition(request)?;
        whole.split_by_keys(whole.worth(request.partition_rows).min(count))
    }

    /// All that a request asks for.
    fn partition(&self, request: &ScanRequest) -> Result<KeyPartition> {
        let layout = &self.table.layout;
        let columns = self.columns(request.columns.as_deref())?;
        let Question { scope, test } = request.selection.check(&self.table.schema)?;
        // The live rows of a range come out of the merge by themselves, those of a set do not.
        let (selected, fold) = if scope.is_by_set() && layout.has_tombstones() {
            (self.resolved(Question { scope, test: None }, &request.interrupt)?, Fold::KeepAll)
        } else {
            (self.candidates(&scope, &request.interrupt)?, Fold::of(layout))
        };
        let direction = if request.reverse { Direction::Reverse } else { Direction::Forward };
        let interrupt = request.interrupt.clone();
        let plan = ScanPlan::new(layout, columns, test, fold, direction, interrupt);
        Ok(KeyPartition::new(selected, plan.limited(request.limit)))
    }

    /// The exact number of selected rows, from indexes alone; in an upsert or rollup table from the keys of
    /// the selection, once a snapshot. With a predicate that indexes do not answer, from the columns that it
    /// reads.
    pub fn count(&self, selection: &Selection) -> Result<u64> {
        self.count_interruptibly(selection, &Interrupt::never())
    }

    /// [`TableSnapshot::count`] that can be stopped.
    pub fn count_interruptibly(&self, selection: &Selection, interrupt: &Interrupt) -> Result<u64> {
        let question = selection.check(&self.table.schema)?;
        let is_append = self.table.schema.merge == MergePolicy::Append;
        match &question.test {
            None if is_append && question.scope.takes_a_pass(&self.table.pieces) => {
                let TableVersion { layout, pieces, passed, .. } = &*self.table;
                match passed.get(&question) {
                    Some(known) => Ok(known.len()),
                    // Nobody asked for the rows, so their list is not kept.
                    None => Ok(question.scope.select(layout, pieces.clone(), interrupt)?.len()),
                }
            }
            // Listing what passes would take memory, and counting it does not.
            Some(test) if is_append && self.table.resolved.get(&question).is_none() => {
                let candidates = self.candidates(&question.scope, interrupt)?;
                count_passing(&candidates, &self.table.layout, test, interrupt)
            }
            _ => Ok(self.resolved(question, interrupt)?.len()),
        }
    }

    /// The exact number of events folded into the selected rows of a rollup table, from running sums unless
    /// rows have to be tested; in another table, of rows.
    pub fn count_events(&self, selection: &Selection) -> Result<u64> {
        self.count_events_interruptibly(selection, &Interrupt::never())
    }

    /// [`TableSnapshot::count_events`] that can be stopped.
    pub fn count_events_interruptibly(
        &self,
        selection: &Selection,
        interrupt: &Interrupt,
    ) -> Result<u64> {
        let layout = &self.table.layout;
        if layout.rollup().is_none() {
            return self.count_interruptibly(selection, interrupt);
        }
        let question = selection.check(&self.table.schema)?;
        let partials = self.partials(&question, interrupt)?;
        let events = Weighted::new(partials, layout, EVENTS, interrupt)?;
        events.events()
    }

    /// Every set with its exact number of rows. Reads the set directories of all pieces; where not all sets
    /// are indexed, the set column.
    pub fn sets(&self) -> Result<Sets> {
        self.sets_interruptibly(&Interrupt::never())
    }

    /// [`TableSnapshot::sets`] that can be stopped.
    pub fn sets_interruptibly(&self, interrupt: &Interrupt) -> Result<Sets> {
        let column = self.table.schema.set_column().ok_or_else(Error::no_set_column)?;
        let mut rows_of: BTreeMap<Box<[u8]>, u64> = BTreeMap::new();
        if self.table.schema.merge != MergePolicy::Append {
            self.count_live_sets(column, &mut rows_of, interrupt)?;
        } else {
            for piece in self.table.pieces.iter() {
                interrupt.check()?;
                let add = |value: &[u8], rows| *rows_of.entry(value.into()).or_default() += rows;
                if !piece.list_sets(interrupt, add)? {
                    count_sets(&self.table.layout, piece, &mut rows_of, interrupt)?;
                }
            }
        }
        let encoded: Vec<&[u8]> = rows_of.keys().map(AsRef::as_ref).collect();
        let values = decode_values(&encoded, self.table.schema.columns.field(column).data_type())?;
        Ok(Sets { values, rows: rows_of.into_values().collect() })
    }

    /// Whether the rows of every set were listed in every piece when this was first asked of the snapshot: what
    /// rests on it stays the same.
    pub(crate) fn lists_every_set(&self) -> bool {
        let all = || self.table.pieces.iter().all(|piece| piece.indexed().is_all());
        *self.table.lists_every_set.get_or_init(all)
    }

    pub(crate) fn table(&self) -> &TableVersion {
        &self.table
    }

    /// The selected rows, resolved: numbered through, each alive and passing.
    pub(crate) fn resolved(
        &self,
        question: Question,
        interrupt: &Interrupt,
    ) -> Result<Arc<Selected>> {
        let TableVersion { schema, layout, pieces, resolved, .. } = &*self.table;
        let scope = &question.scope;
        if schema.merge == MergePolicy::Append && question.test.is_none() {
            return self.candidates(scope, interrupt);
        }
        if let Some(known) = resolved.get(&question) {
            return Ok(known);
        }
        let selected = match &question.test {
            None => resolve(layout, scope, pieces.clone(), interrupt)?,
            Some(test) if layout.rollup().is_some() => {
                let candidates = self.candidates(scope, interrupt)?;
                passing_partials(&candidates, layout, test, Partials::Newest, interrupt)?
            }
            Some(test) => {
                let scope = scope.clone();
                let shown = self.resolved(Question { scope, test: None }, interrupt)?;
                passing(&shown, layout, test, interrupt)?
            }
        };
        Ok(resolved.keep(question, Arc::new(selected)))
    }

    /// All partial rows of the selected rows of a rollup table.
    pub(crate) fn partials(
        &self,
        question: &Question,
        interrupt: &Interrupt,
    ) -> Result<Arc<Selected>> {
        let candidates = self.candidates(&question.scope, interrupt)?;
        let Some(test) = &question.test else { return Ok(candidates) };
        let layout = &self.table.layout;
        passing_partials(&candidates, layout, test, Partials::All, interrupt).map(Arc::new)
    }

    /// What indexes find, in an upsert table dead rows among it. Everything is selected once a version.
    pub(crate) fn candidates(&self, scope: &Scope, interrupt: &Interrupt) -> Result<Arc<Selected>> {
        if scope.is_everything() {
            let whole = || Arc::new(Selected::whole(self.table.pieces.clone()));
            return Ok(self.table.whole.get_or_init(whole).clone());
        }
        let TableVersion { layout, pieces, passed, .. } = &*self.table;
        let select = || Ok(Arc::new(scope.select(layout, pieces.clone(), interrupt)?));
        if !scope.takes_a_pass(pieces) {
            return select();
        }
        let question = Question { scope: scope.clone(), test: None };
        match passed.get(&question) {
            Some(known) => Ok(known),
            None => Ok(passed.keep(question, select()?)),
        }
    }

    /// The whole rows of a rollup table with some keys, each found key once, with all values.
    pub(crate) fn whole_rows(
        &self,
        keys: &BinaryArray,
        interrupt: &Interrupt,
    ) -> Result<WholeRows> {
        let layout = &self.table.layout;
        let rollup = layout.rollup().expect("asked of rollup tables only");
        let all = layout.all();
        // The keys as they come for the first time, and for each key its number among these.
        let mut number_of: HashMap<&[u8], usize> = HashMap::new();
        let mut distinct: Vec<u32> = Vec::new();
        let mut numbers = Vec::with_capacity(keys.len());
        for key in 0..keys.len() {
            numbers.push(*number_of.entry(keys.value(key)).or_insert_with(|| {
                distinct.push(key as u32);
                distinct.len() - 1
            }));
        }
        let mut whole: Vec<Rows> = Vec::new();
        let mut whole_count = 0;
        let mut row_of: Vec<Option<u32>> = Vec::with_capacity(distinct.len());
        for asked in distinct.chunks(FOLDED_AT_ONCE) {
            interrupt.check()?;
            let mut parts: Vec<Rows> = Vec::new();
            // Key, part and row of each partial row, in this order: older pieces come first.
            let mut partials: Vec<(u32, usize, usize)> = Vec::new();
            for piece in self.table.pieces.iter() {
                for hits in piece.get(keys, asked, &all, usize::MAX, interrupt)? {
                    let place = |(key, row): (u32, u32)| (key, parts.len(), row as usize);
                    partials.extend(hits.found.into_iter().map(place));
                    parts.push(hits.rows);
                }
            }
            partials.sort_unstable();
            let mut groups = partials.chunk_by(|a, b| a.0 == b.0).peekable();
            for &key in asked {
                let is_found = groups.next_if(|group| group[0].0 == key).is_some();
                row_of.push(is_found.then_some(whole_count));
                whole_count += u32::from(is_found);
            }
            if !partials.is_empty() {
                whole.push(fold_partials(layout, rollup, parts, &partials)?);
            }
        }
        let positions = numbers.into_iter().map(|number| row_of[number]).collect();
        if whole.is_empty() {
            return Ok(WholeRows { rows: Rows::new(0, None, Vec::new()), positions });
        }
        let rows_of = |part: usize| (0..whole[part].len()).map(move |row| (part, row));
        let picks: Vec<(usize, usize)> = (0..whole.len()).flat_map(rows_of).collect();
        Ok(WholeRows { rows: gather(whole, &picks)?, positions })
    }

    /// Directories count dead and partial rows too, so the sets of folded rows are read.
    fn count_live_sets(
        &self,
        column: usize,
        rows_of: &mut BTreeMap<Box<[u8]>, u64>,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let name = self.table.schema.columns.field(column).name().clone();
        let interrupt = interrupt.clone();
        let request = ScanRequest { columns: Some(vec![name]), interrupt, ..Default::default() };
        for batch in self.scan(request)? {
            let batch = batch?;
            let mut value = Vec::new();
            for row in 0..batch.num_rows() {
                value.clear();
                encode_value(batch.column(0), row, &mut value);
                match rows_of.get_mut(value.as_slice()) {
                    Some(rows) => *rows += 1,
                    None => *rows_of.entry(value.as_slice().into()).or_default() += 1,
                }
            }
        }
        Ok(())
    }

    /// The index of a column.
    pub(crate) fn column(&self, name: &str) -> Result<usize> {
        column(&self.table.schema, name)
    }

    pub(crate) fn columns(&self, names: Option<&[String]>) -> Result<Vec<usize>> {
        match names {
            None => Ok((0..self.table.schema.columns.fields().len()).collect()),
            Some(names) => names.iter().map(|name| self.column(name)).collect(),
        }
    }

    fn encode_keys(&self, keys: &[ArrayRef]) -> Result<BinaryArray> {
        encode_whole_keys(&self.table.schema, keys)
    }
}

/// Folds partial rows, each given as its key, part and row, sorted.
fn fold_partials(
    layout: &Layout,
    rollup: &Rollup,
    parts: Vec<Rows>,
    partials: &[(u32, usize, usize)],
) -> Result<Rows> {
    let picks: Vec<(usize, usize)> = partials.iter().map(|&(_, part, row)| (part, row)).collect();
    let mut end = 0;
    let ends = partials.chunk_by(|a, b| a.0 == b.0).map(|group| {
        end += group.len() as u32;
        end
    });
    fold(layout, rollup, &gather(parts, &picks)?, &ends.collect::<Vec<_>>())
}

/// Encodes whole keys, given as one array a key column.
pub(crate) fn encode_whole_keys(schema: &TableSchema, keys: &[ArrayRef]) -> Result<BinaryArray> {
    // Dimensions that were not declared may be left off: such keys end in nulls, which are not encoded.
    let least = schema.rollup().map_or(schema.key.len(), |rollup| rollup.declared);
    if keys.len() < least || keys.len() > schema.key.len() {
        let names: Vec<&str> =
            schema.key.iter().map(|&column| schema.columns.field(column).name().as_str()).collect();
        let count = match least == names.len() {
            true => least.to_string(),
            false => format!("{least} to {}", names.len()),
        };
        let message = format!(
            "a key needs {count} values ({}), but {} were given",
            names.join(", "),
            keys.len()
        );
        return Err(Error::invalid(message));
    }
    let mut columns = Vec::with_capacity(keys.len());
    for (values, &column) in keys.iter().zip(&schema.key) {
        if values.len() != keys[0].len() {
            return Err(Error::invalid("the key columns have different lengths"));
        }
        let field = schema.columns.field(column);
        columns.push(cast(values, field.data_type(), field.name())?);
    }
    Ok(encode_keys(&columns))
}

//! A table of numbered events: every column of a row follows from its id, so a test knows what each read
//! should give without keeping the rows.

use std::fmt::Write;
use std::sync::Arc;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use drillcore::arrow_schema::{DataType, Field, Schema, SchemaRef};
use drillcore::{
    AppendResult, Between, Closed, Merge, Metric, OnError, RollupSpec, SampleRequest, ScanRequest,
    Selection, Table, TableSnapshot, TableSpec,
};
use drillcore_sample::rng::Rng;

/// The shape of the rows.
#[derive(Debug, Clone, Copy)]
pub struct Events {
    /// Row `id` is of team `id % teams`; the set column is the team's name.
    pub teams: i64,
    /// Length of the text column.
    pub payload_bytes: usize,
}

impl Events {
    /// Columns `id` (the key), `team` (the set column), `weight`, `value` and `payload`.
    pub fn columns() -> SchemaRef {
        Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int64, false),
            Field::new("team", DataType::Utf8, true),
            Field::new("weight", DataType::Int64, false),
            Field::new("value", DataType::Float64, false),
            Field::new("payload", DataType::Utf8, false),
        ]))
    }

    /// The table as it is created.
    pub fn spec() -> TableSpec {
        TableSpec::new(Events::columns(), ["id"]).set("team")
    }

    /// A table of another merge policy, with weights `weight` and `value` where it can have some. In a rollup
    /// table the team is in the key, too, and `n` counts a row's events.
    pub fn spec_of(kind: Kind) -> TableSpec {
        let weighted =
            TableSpec { weights: vec!["weight".into(), "value".into()], ..Events::spec() };
        match kind {
            Kind::Append => weighted,
            Kind::Upsert => TableSpec { merge: Merge::Upsert, ..weighted },
            Kind::Rollup => TableSpec {
                key: vec!["id".into(), "team".into()],
                merge: Merge::Rollup(
                    RollupSpec::default()
                        .metric("n", Metric::Count)
                        .metric("weight", Metric::sum("weight")),
                ),
                ..Events::spec()
            },
        }
    }

    /// The rows with these ids, in this order.
    pub fn batch(&self, ids: &[i64]) -> RecordBatch {
        self.batch_like(ids, ids)
    }

    /// Rows with these ids whose other columns are those of the ids `like`.
    pub fn batch_like(&self, ids: &[i64], like: &[i64]) -> RecordBatch {
        assert_eq!(ids.len(), like.len());
        let mut payload = String::with_capacity(self.payload_bytes + 16);
        let mut payloads = Vec::with_capacity(ids.len());
        for &id in like {
            payload.clear();
            let mut rng = Rng::keyed(id as u64, 1);
            while payload.len() < self.payload_bytes {
                let _ = write!(payload, "{:016x}", rng.next_u64());
            }
            payloads.push(payload[..self.payload_bytes].to_string());
        }
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(ids.to_vec())),
            Arc::new(like.iter().map(|id| Some(self.team(*id))).collect::<StringArray>()),
            Arc::new(like.iter().map(|id| Some(Events::weight(*id))).collect::<Int64Array>()),
            Arc::new(like.iter().map(|id| Some(Events::value(*id))).collect::<Float64Array>()),
            Arc::new(StringArray::from(payloads)),
        ];
        RecordBatch::try_new(Events::columns(), columns).expect("the columns fit the schema")
    }

    /// Appends the rows with these ids, in this order, as one commit.
    ///
    /// # Panics
    /// If the engine refuses.
    pub fn append(&self, table: &Table, ids: &[i64]) -> AppendResult {
        table.append(&self.batch(ids), OnError::Raise).expect("the rows fit the table")
    }

    /// The name of a row's team, nine bytes long.
    pub fn team(&self, id: i64) -> String {
        format!("team-{:04}", id % self.teams)
    }

    /// A row's weight: every tenth has none, one weighs as much as hundreds of others.
    pub fn weight(id: i64) -> i64 {
        match id {
            77 => 2_700,
            id if id % 10 == 0 => 0,
            id => 1 + id % 19,
        }
    }

    /// A row's value: as if drawn uniformly from [0, 100).
    pub fn value(id: i64) -> f64 {
        100.0 * Rng::keyed(id as u64, 2).unit_f64()
    }

    /// The rows of one team.
    pub fn of_team(&self, team: i64) -> Selection {
        let name: ArrayRef = Arc::new(StringArray::from(vec![self.team(team)]));
        Selection { between: None, sets: Some(name), ..Default::default() }
    }
}

/// What equal keys mean to a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Every row is kept.
    Append,
    /// The newest row of a key is kept.
    Upsert,
    /// Rows are folded by key.
    Rollup,
}

impl Kind {
    /// Each of them.
    pub const ALL: [Kind; 3] = [Kind::Append, Kind::Upsert, Kind::Rollup];
}

/// The rows with ids `low..=high`.
pub fn id_range(low: i64, high: i64) -> Selection {
    let end = |id: i64| Some(vec![Arc::new(Int64Array::from(vec![id])) as ArrayRef]);
    let between = Between { low: end(low), high: end(high), closed: Closed::Both };
    Selection { between: Some(between), sets: None, ..Default::default() }
}

/// The ids of a batch whose first column they are.
pub fn ids(batch: &RecordBatch) -> Vec<i64> {
    batch.column(0).as_primitive::<Int64Type>().values().to_vec()
}

/// The selected ids in the order of a scan.
///
/// # Panics
/// If the engine refuses.
pub fn scan_ids(table: &TableSnapshot, selection: &Selection) -> Vec<i64> {
    let columns = Some(vec!["id".into()]);
    let request = ScanRequest { selection: selection.clone(), columns, ..Default::default() };
    let batches = table.scan(request).expect("the selection fits the table");
    batches.flat_map(|batch| ids(&batch.expect("the files are whole"))).collect()
}

/// Draws one sample and gives its ids in draw order.
///
/// # Panics
/// If the engine refuses.
pub fn sample_ids(
    table: &TableSnapshot,
    selection: &Selection,
    replace: bool,
    n: u64,
    seed: u64,
) -> Vec<i64> {
    weighted_sample_ids(table, selection, None, replace, n, seed)
}

/// [`sample_ids`] in proportion to a weight column.
///
/// # Panics
/// If the engine refuses.
pub fn weighted_sample_ids(
    table: &TableSnapshot,
    selection: &Selection,
    weight: Option<&str>,
    replace: bool,
    n: u64,
    seed: u64,
) -> Vec<i64> {
    let request = SampleRequest {
        n,
        selection: selection.clone(),
        weight: weight.map(str::to_string),
        replace,
        seed: Some(seed),
        columns: Some(vec!["id".into()]),
        ..Default::default()
    };
    ids(&table.sample(&request).unwrap_or_else(|error| panic!("seed {seed}: {error}")))
}

//! Splits: what they share equally, and samples of several of them that are one sample of all.
//!
//! That they are the scan, one after the other, is compared with the model after random operations in
//! `crates/testkit/src/read_back.rs`.

use std::sync::Arc;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Float64Type;
use drillcore::arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch};
use drillcore::arrow_schema::DataType;
use drillcore::*;
use drillcore_sample::goodness::chi_square_p_value;

use crate::fixtures::{between, ids, schema_of};

/// The chance that a fair sampler fails one of the tests below, were its seeds drawn afresh.
const FALSE_ALARM: f64 = 1e-6;
const SEED: u64 = 0x5eed_0c00;

fn two_weights_spec(merge: Merge) -> TableSpec {
    let columns = schema_of(&[
        ("id", DataType::Int64, false),
        ("w", DataType::Int64, false),
        ("f", DataType::Float64, false),
    ]);
    TableSpec::new(columns, ["id"]).merge(merge).weights(["w", "f"])
}

fn batch(rows: &[(i64, i64)]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0))),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1))),
        Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.1 as f64 / 8.0))),
    ];
    RecordBatch::try_new(two_weights_spec(Merge::Append).columns, columns).unwrap()
}

fn split(table: &TableSnapshot, count: usize, selection: &Selection) -> Vec<Selection> {
    let splits = table.splits(count, selection).unwrap();
    let of = |split: KeySplit| Selection { split: Some(split.range), ..selection.clone() };
    splits.into_iter().map(of).collect()
}

#[test]
fn splits_have_about_equally_many_rows_of_any_order_of_appends_and_cut_no_key() {
    let db = Database::in_memory(Options::default()).unwrap();
    let table = db.create_table("t", two_weights_spec(Merge::Append)).unwrap();
    // Ten pieces over each other, two of them much longer than the others, and a key of a tenth of the rows.
    for piece in 0..10i64 {
        let rows = if piece % 5 == 0 { 20_000 } else { 1_000 };
        let id = |row: i64| if row % 10 == 0 { 500_000 } else { (row * 7919 + piece) % 1_000_000 };
        let rows: Vec<(i64, i64)> = (0..rows).map(|row| (id(row), 1)).collect();
        table.append(&batch(&rows), OnError::Raise).unwrap();
        db.flush().unwrap();
    }
    let now = table.snapshot().unwrap();
    assert!(now.pieces() > 1);
    let total = now.rows().unwrap();
    for count in [1, 2, 3, 7, 16, 100] {
        let splits = now.splits(count, &Selection::default()).unwrap();
        let rows: Vec<u64> = splits.iter().map(|split| split.rows.unwrap()).collect();
        assert_eq!(rows.iter().sum::<u64>(), total);
        let (share, of_key) = (total / count as u64, total / 10);
        let most = share * 5 / 4 + of_key.min(share * 2);
        let largest = rows.iter().max().unwrap();
        assert!(
            splits.len() <= count && *largest <= most.max(of_key + share / 4),
            "{count}: {rows:?}"
        );
        // What the key of many rows leaves is shared as well.
        let others = rows.iter().filter(|rows| **rows < of_key.min(share * 5 / 4)).count();
        assert!(count < 16 || others * 10 >= count * 8, "{count}: {rows:?}");
        let ends = splits.windows(2).all(|pair| pair[0].range.high == pair[1].range.low);
        assert!(ends && splits[0].range.low.is_none());
        assert!(splits[splits.len() - 1].range.high.is_none());
    }
    let none = Some(between(-2, -1));
    let none = Selection { between: none, ..Selection::default() };
    assert_eq!(now.splits(4, &none).unwrap(), []);
    let refused = now.splits(0, &Selection::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let stopped = now.interrupted_by(Interrupt::new(Arc::new(|| true)));
    let refused = stopped.splits(9, &Selection::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Interrupted);
}

#[test]
fn a_split_is_split_again_into_parts_of_it() {
    let db = Database::in_memory(Options::default()).unwrap();
    let table = db.create_table("t", two_weights_spec(Merge::Append)).unwrap();
    let rows: Vec<(i64, i64)> = (0..1_000).map(|id| (id, 1)).collect();
    table.append(&batch(&rows), OnError::Raise).unwrap();
    let now = table.snapshot().unwrap();
    let ids = |selection: &Selection| {
        let selection = selection.clone();
        let scan = now.scan(ScanRequest { selection, ..Default::default() }).unwrap();
        scan.flat_map(|batch| ids(&batch.unwrap())).collect::<Vec<i64>>()
    };
    for outer in split(&now, 3, &Selection::default()) {
        let parts: Vec<i64> = split(&now, 4, &outer).iter().flat_map(ids).collect();
        assert_eq!(parts, ids(&outer));
    }
}

fn times(batch: &RecordBatch) -> Vec<f64> {
    batch["arrival_time"].as_primitive::<Float64Type>().values().to_vec()
}

/// Rows with ids that are no multiple of three.
#[derive(Debug)]
struct NoThird([String; 1]);

impl Predicate for NoThird {
    fn columns(&self) -> &[String] {
        &self.0
    }

    fn select(&self, rows: &RecordBatch) -> Result<BooleanArray> {
        Ok(ids(rows).into_iter().map(|id| Some(id % 3 != 0)).collect())
    }

    fn text(&self) -> &str {
        "id % 3 <> 0"
    }
}

/// A table with rows of very different weights, and those of them that the selection shows.
struct Weighed {
    what: &'static str,
    table: TableSnapshot,
    selection: Selection,
    /// Id and weight of what is selected.
    rows: Vec<(i64, i64)>,
    _db: Database,
}

const ROWS: i64 = 12;

fn weight(id: i64) -> i64 {
    // One has no weight, one has most of it.
    match id {
        4 => 0,
        8 => 40,
        id => 1 + id % 5,
    }
}

fn weighed() -> Vec<Weighed> {
    let rows: Vec<(i64, i64)> = (0..ROWS).map(|id| (id, weight(id))).collect();
    let everything = Selection::default;
    let no_third: Arc<dyn Predicate> = Arc::new(NoThird(["id".into()]));
    let no_third = Selection { predicate: Some(no_third), ..everything() };
    let make = |what, merge: Merge, selection: Selection| {
        let db = Database::in_memory(Options::default()).unwrap();
        let table = db.create_table("t", two_weights_spec(merge.clone())).unwrap();
        if matches!(merge, Merge::Upsert) {
            // Dead rows with weights of their own.
            let dead: Vec<(i64, i64)> = (0..ROWS).map(|id| (id, 30)).collect();
            table.append(&batch(&dead), OnError::Raise).unwrap();
            db.flush().unwrap();
        }
        for half in rows.chunks(5) {
            table.append(&batch(half), OnError::Raise).unwrap();
        }
        let is_in = |row: &&(i64, i64)| selection.predicate.is_none() || row.0 % 3 != 0;
        let rows = rows.iter().filter(is_in).copied().collect();
        Weighed { what, table: table.snapshot().unwrap(), selection, rows, _db: db }
    };
    vec![
        make("append", Merge::Append, everything()),
        make("append with a condition", Merge::Append, no_third.clone()),
        make("upsert", Merge::Upsert, everything()),
        make("upsert with a condition", Merge::Upsert, no_third),
    ]
}

/// The p value of ordered pairs against successive draws by weight from all rows.
fn p_value_of_pairs(rows: &[(i64, i64)], pairs: impl Iterator<Item = (i64, i64)>) -> f64 {
    let total = rows.iter().map(|row| row.1).sum::<i64>() as f64;
    let heavy: Vec<(i64, f64)> =
        rows.iter().filter(|row| row.1 > 0).map(|row| (row.0, row.1 as f64)).collect();
    let mut cells: Vec<((i64, i64), f64)> = Vec::new();
    for (first, of_first) in &heavy {
        for (second, of_second) in heavy.iter().filter(|row| row.0 != *first) {
            let chance = of_first / total * of_second / (total - of_first);
            cells.push(((*first, *second), chance));
        }
    }
    let mut observed = vec![0u64; cells.len()];
    let mut drawn = 0;
    for pair in pairs {
        let cell = cells.iter().position(|cell| cell.0 == pair).expect("a pair that can be drawn");
        observed[cell] += 1;
        drawn += 1;
    }
    let expected: Vec<f64> = cells.iter().map(|cell| cell.1 * f64::from(drawn)).collect();
    chi_square_p_value(&observed, &expected)
}

/// Null hypothesis: the two earliest rows of three splits, each drawn by itself with arrival times, are two successive draws
/// by weight from all rows; 30,000 pairs in each of four kinds of tables and of two columns, over all pairs that can be drawn.
/// False alarm 1e-6 each. Twin: the first of each split without regard to when it came.
#[test]
fn the_earliest_rows_of_all_splits_are_successive_draws_from_all_of_them() {
    const DRAWS: u64 = 30_000;
    for Weighed { what, table, selection, rows, .. } in weighed() {
        let splits = split(&table, 3, &selection);
        assert_eq!(splits.len(), 3, "{what}");
        let draw = |seed: u64, column: &str| {
            let of_split = |(number, selection): (usize, &Selection)| {
                let request = SampleRequest {
                    n: 2,
                    selection: selection.clone(),
                    weight: Some(column.into()),
                    arrival_times: true,
                    at_most: true,
                    seed: Some(SEED + seed * 3 + number as u64),
                    columns: Some(vec!["id".into()]),
                    ..Default::default()
                };
                let drawn = table.sample(&request).unwrap();
                times(&drawn).into_iter().zip(ids(&drawn)).collect::<Vec<_>>()
            };
            splits.iter().enumerate().map(of_split).collect::<Vec<_>>()
        };
        for column in ["w", "f"] {
            let earliest = (0..DRAWS).map(|seed| {
                let mut drawn: Vec<(f64, i64)> = draw(seed, column).concat();
                drawn.sort_by(|a, b| a.0.total_cmp(&b.0));
                (drawn[0].1, drawn[1].1)
            });
            let p = p_value_of_pairs(&rows, earliest);
            assert!(p > FALSE_ALARM, "{what}, {column}, seed {SEED:#x}: p = {p:e}");
        }
        // Splits are taken in turn, as if they had the same weight.
        let in_turn = (0..DRAWS).map(|seed| {
            let drawn = draw(seed, "w");
            let first = seed as usize % 3;
            (drawn[first][0].1, drawn[(first + 1) % 3][0].1)
        });
        let twin = p_value_of_pairs(&rows, in_turn);
        assert!(twin < FALSE_ALARM, "{what}: splits in turn passed: p = {twin:e}");
    }
}

/// Null hypothesis: the arrival time of each row is exponential with its weight as the rate, where all rows are drawn, so
/// that draws by rejection and draws among what is left both come. 4,000 samples, ten cells that are equally likely for
/// each row; false alarm 1e-6 each. Twin: the times of a table whose weights are all one.
#[test]
fn arrival_times_are_exponential_with_the_weight_as_the_rate() {
    const SAMPLES: u64 = 4_000;
    for Weighed { what, table, selection, rows, .. } in weighed() {
        for (column, scale) in [("w", 1.0), ("f", 0.125)] {
            let mut cells = vec![[[0u64; 10]; 2]; ROWS as usize];
            for seed in 0..SAMPLES {
                let request = SampleRequest {
                    n: 100,
                    selection: selection.clone(),
                    weight: Some(column.into()),
                    arrival_times: true,
                    at_most: true,
                    seed: Some(SEED + seed),
                    ..Default::default()
                };
                let drawn = table.sample(&request).unwrap();
                let times = times(&drawn);
                assert_eq!(drawn.num_rows(), rows.iter().filter(|row| row.1 > 0).count(), "{what}");
                assert!(times.is_sorted() && times[0] > 0.0, "{what}: {times:?}");
                for (id, time) in ids(&drawn).into_iter().zip(times) {
                    for (twin, rate) in [weight(id) as f64 * scale, scale].into_iter().enumerate() {
                        let cell = (1.0 - (-time * rate).exp()) * 10.0;
                        cells[id as usize][twin][cell.min(9.0) as usize] += 1;
                    }
                }
            }
            let expected = [SAMPLES as f64 / 10.0; 10];
            for (id, of_weight) in rows.iter().filter(|row| row.1 > 0) {
                let [p, twin] =
                    cells[*id as usize].map(|cells| chi_square_p_value(&cells, &expected));
                assert!(p > FALSE_ALARM, "{what}, {column}, row {id}, seed {SEED:#x}: p = {p:e}");
                assert!(
                    *of_weight == 1 || twin < FALSE_ALARM,
                    "{what}: row {id} passed as 1: {twin:e}"
                );
            }
        }
    }
}

#[test]
fn arrival_times_change_no_draw_and_are_of_draws_by_weight_without_replacement() {
    for Weighed { what, table, selection, .. } in weighed() {
        for n in 0..ROWS as u64 {
            let weight = Some("w".to_string());
            let with = SampleRequest {
                n,
                selection: selection.clone(),
                weight: weight.clone(),
                arrival_times: true,
                at_most: true,
                seed: Some(SEED + n),
                ..Default::default()
            };
            let without = SampleRequest { arrival_times: false, ..with.clone() };
            let (with, without) = (table.sample(&with).unwrap(), table.sample(&without).unwrap());
            assert_eq!(with.project(&[0, 1, 2]).unwrap(), without, "{what}, {n} rows");
        }
        let of_weight = SampleRequest {
            n: 1,
            selection,
            weight: Some("w".into()),
            arrival_times: true,
            ..Default::default()
        };
        for (request, part) in [
            (SampleRequest { weight: None, ..of_weight.clone() }, "give a weight"),
            (SampleRequest { replace: true, ..of_weight.clone() }, "without replacement"),
            (
                SampleRequest { with_probability: true, ..of_weight.clone() },
                "probabilities are not available",
            ),
        ] {
            let error = table.sample(&request).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}

//! Weighted draws are exactly proportional, in memory, across pieces and on disk.
//!
//! Null hypothesis of each check: row `i` is drawn with the chance of its weight. 60,000 draws over 300
//! rows, chi-square, false-alarm rate 1e-6, fixed seeds. The twin that draws uniformly fails it.

use std::sync::Arc;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Float64Type;
use drillcore::arrow_array::{Float64Array, Int64Array, RecordBatch, StringArray};
use drillcore::arrow_schema::DataType;
use drillcore::*;
use drillcore_sample::goodness::chi_square_p_value;

use crate::fixtures::{between, ids, schema_of};

const ROWS: i64 = 300;
const DRAWS: u64 = 60_000;
const FALSE_ALARM: f64 = 1e-6;

/// Every tenth row weighs nothing, one weighs as much as all others together.
fn weight(id: i64) -> i64 {
    match id {
        id if id % 10 == 0 => 0,
        77 => 2_700,
        id => 1 + id % 19,
    }
}

fn batch(ids: &[i64]) -> RecordBatch {
    let sets = StringArray::from_iter_values(ids.iter().map(|id| format!("s{}", id % 3)));
    let whole: Int64Array = ids.iter().map(|&id| Some(weight(id))).collect();
    let share: Float64Array = ids.iter().map(|&id| Some(weight(id) as f64 / 1024.0)).collect();
    RecordBatch::try_from_iter([
        ("id", Arc::new(Int64Array::from(ids.to_vec())) as _),
        ("s", Arc::new(sets) as _),
        ("whole", Arc::new(whole) as _),
        ("share", Arc::new(share) as _),
    ])
    .unwrap()
}

fn two_weights_spec() -> TableSpec {
    TableSpec::new(
        schema_of(&[
            ("id", DataType::Int64, false),
            ("s", DataType::Utf8, false),
            ("whole", DataType::Int64, false),
            ("share", DataType::Float64, false),
        ]),
        ["id"],
    )
    .set("s")
    .weights(["whole", "share"])
}

/// The p value of a sample against the weights of the rows that `is_in` the selection.
fn p_value(drawn: &RecordBatch, is_in: impl Fn(i64) -> bool) -> f64 {
    let cells: Vec<i64> = (0..ROWS).filter(|&id| is_in(id) && weight(id) > 0).collect();
    let total: i64 = cells.iter().map(|&id| weight(id)).sum();
    let mut observed = vec![0u64; cells.len()];
    for id in ids(drawn) {
        let cell =
            cells.binary_search(&id).expect("drawn rows are in the selection and weigh something");
        observed[cell] += 1;
    }
    let share = |&id: &i64| weight(id) as f64 / total as f64 * drawn.num_rows() as f64;
    chi_square_p_value(&observed, &cells.iter().map(share).collect::<Vec<_>>())
}

fn check(table: &Table, state: &str) {
    let snapshot = table.snapshot().unwrap();
    let range = between(50, 200);
    let set: Option<drillcore::arrow_array::ArrayRef> =
        Some(Arc::new(StringArray::from(vec!["s2"])));
    for (seed, column) in [(1, "whole"), (2, "share")] {
        for in_range in [false, true] {
            for in_set in [false, true] {
                let selection = Selection {
                    between: in_range.then(|| range.clone()),
                    sets: set.clone().filter(|_| in_set),
                    ..Default::default()
                };
                let is_in =
                    |id: i64| (!in_range || (50..=200).contains(&id)) && (!in_set || id % 3 == 2);
                let request = SampleRequest {
                    n: DRAWS,
                    selection: selection.clone(),
                    weight: Some(column.into()),
                    replace: true,
                    with_probability: true,
                    seed: Some(seed),
                    ..Default::default()
                };
                let drawn = snapshot.sample(&request).unwrap();
                let p = p_value(&drawn, is_in);
                assert!(
                    p > FALSE_ALARM,
                    "{state}, {column}, range {in_range}, set {in_set}: p = {p:e}"
                );

                let total: i64 = (0..ROWS).filter(|&id| is_in(id)).map(weight).sum();
                let chances =
                    drawn.column_by_name("probability").unwrap().as_primitive::<Float64Type>();
                for (id, chance) in ids(&drawn).into_iter().zip(chances.values()).take(100) {
                    assert!((chance - weight(id) as f64 / total as f64).abs() < 1e-12);
                }

                let weighing = (0..ROWS).filter(|&id| is_in(id) && weight(id) > 0).count() as u64;
                let all = SampleRequest {
                    n: weighing,
                    replace: false,
                    with_probability: false,
                    ..request
                };
                let mut different = ids(&snapshot.sample(&all).unwrap());
                different.sort_unstable();
                different.dedup();
                assert_eq!(
                    different.len() as u64,
                    weighing,
                    "every row that weighs something, once"
                );
                let too_many = SampleRequest { n: weighing + 1, ..all };
                assert_eq!(snapshot.sample(&too_many).unwrap_err().kind(), ErrorKind::TooFewRows);
            }
        }
    }
    let uniform = SampleRequest { n: DRAWS, replace: true, seed: Some(3), ..Default::default() };
    let weighing: Vec<i64> = (0..ROWS).filter(|&id| weight(id) > 0).collect();
    let drawn = snapshot.sample(&uniform).unwrap();
    let kept: Vec<i64> = ids(&drawn).into_iter().filter(|id| weighing.contains(id)).collect();
    assert!(p_value(&batch(&kept), |_| true) < FALSE_ALARM, "{state}: the uniform twin passed");
}

#[test]
fn a_row_is_drawn_in_proportion_to_its_weight_in_every_state_of_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", two_weights_spec()).unwrap();
    let order: Vec<i64> = (0..ROWS).map(|i| i * 71 % ROWS).collect();
    let (first, rest) = order.split_at(130);
    table.append(&batch(first), OnError::Raise).unwrap();
    db.flush().unwrap();
    for part in rest.chunks(60) {
        table.append(&batch(part), OnError::Raise).unwrap();
    }
    check(&table, "memory and disk");
    db.flush().unwrap();
    check(&table, "several segments");
    db.compact().unwrap();
    check(&table, "one segment");
    assert!(db.verify().unwrap().faults.is_empty());
}

#[test]
fn a_row_of_a_set_without_an_index_is_drawn_in_proportion_to_its_weight() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", TableSpec { set_index: false, ..two_weights_spec() }).unwrap();
    table.append(&batch(&(0..ROWS).collect::<Vec<i64>>()), OnError::Raise).unwrap();
    check(&table, "memory");
    db.flush().unwrap();
    check(&table, "one segment");
}

/// In whole groups of members, and in those that a range cuts.
#[test]
fn a_seed_draws_the_same_rows_by_weight_whether_or_not_sets_are_indexed() {
    for merge in [Merge::Append, Merge::Upsert] {
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open(folder.path(), Options::default()).unwrap();
        let spec = TableSpec { set_index: false, ..two_weights_spec().merge(merge) };
        let table = db.create_table("t", spec).unwrap();
        for part in 0..2 {
            let rows: Vec<i64> = (0..4_000).map(|row| 2 * row + part).collect();
            table.append(&batch(&rows), OnError::Raise).unwrap();
            db.flush().unwrap();
        }
        table.append(&batch(&(8_000..8_100).collect::<Vec<i64>>()), OnError::Raise).unwrap();
        let snapshot = table.snapshot().unwrap();
        let draws = |sets: &[&str]| {
            let mut draws = Vec::new();
            for range in [None, Some(between(700, 1_500)), Some(between(1_000, 7_999))] {
                for (seed, replace) in [(1, false), (2, true)] {
                    for weight in ["whole", "share"] {
                        let sets = Some(Arc::new(StringArray::from(sets.to_vec())) as _);
                        let request = SampleRequest {
                            n: 60,
                            selection: Selection {
                                between: range.clone(),
                                sets,
                                ..Default::default()
                            },
                            weight: Some(weight.into()),
                            replace,
                            seed: Some(seed),
                            ..Default::default()
                        };
                        draws.push(ids(&snapshot.sample(&request).unwrap()));
                    }
                }
            }
            draws
        };
        let all = || [draws(&["s0"]), draws(&["s1", "s2"])];
        let without = all();
        for set in ["s1", "s0", "s2"] {
            table.index_sets(&(Arc::new(StringArray::from(vec![set])) as _)).unwrap();
            table.wait_for_set_index().unwrap();
            assert_eq!(all(), without, "{set} is indexed");
        }
    }
}

/// Null hypothesis: of rows with the weights 1, 2 and 3, successive draws give each ordered pair with
/// chance `w1 / 6 * w2 / (6 - w1)`. 30,000 pairs, chi-square over the six, false-alarm rate 1e-6.
#[test]
fn draws_without_replacement_are_successive_draws_by_weight() {
    let db = Database::in_memory(Options::default()).unwrap();
    let table = db.create_table("t", two_weights_spec()).unwrap();
    // Rows 1, 20 and 2 weigh 2, 0 and 3; row 57 weighs 1.
    assert_eq!([1, 20, 2, 57].map(weight), [2, 0, 3, 1]);
    table.append(&batch(&[1, 20, 2, 57]), OnError::Raise).unwrap();
    let snapshot = table.snapshot().unwrap();
    let rows = [57, 1, 2];
    let mut observed = [0u64; 9];
    for seed in 0..30_000 {
        let request = SampleRequest {
            n: 2,
            weight: Some("whole".into()),
            seed: Some(seed),
            ..Default::default()
        };
        let drawn = ids(&snapshot.sample(&request).unwrap());
        let place = |id: i64| rows.iter().position(|&row| row == id).unwrap();
        observed[place(drawn[0]) * 3 + place(drawn[1])] += 1;
    }
    let (mut seen, mut expected) = (Vec::new(), Vec::new());
    for (first, w1) in [1.0, 2.0, 3.0].into_iter().enumerate() {
        for (second, w2) in [1.0, 2.0, 3.0].into_iter().enumerate() {
            if first != second {
                seen.push(observed[first * 3 + second]);
                expected.push(30_000.0 * w1 / 6.0 * w2 / (6.0 - w1));
            }
        }
    }
    let p = chi_square_p_value(&seen, &expected);
    assert!(p > FALSE_ALARM, "p = {p:e}: {seen:?}");
    let swapped: Vec<u64> = seen.iter().rev().copied().collect();
    assert!(chi_square_p_value(&swapped, &expected) < FALSE_ALARM, "the twin passed");
}

/// Who draws a few rows, and then more with the same seed, gets the few first, with the same arrival times.
#[test]
fn more_rows_begin_with_those_that_fewer_are() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", two_weights_spec()).unwrap();
    let rows: Vec<i64> = (0..4_000).collect();
    let weights = rows.iter().map(|&id| if id == 77 { 1 << 40 } else { 1 + id % 19 });
    let mut columns = batch(&rows).columns().to_vec();
    columns[2] = Arc::new(Int64Array::from_iter_values(weights));
    let batch = RecordBatch::try_new(batch(&rows).schema(), columns).unwrap();
    table.append(&batch, OnError::Raise).unwrap();
    let check = |state: &str| {
        let snapshot = table.snapshot().unwrap();
        let of_set = Some(Arc::new(StringArray::from(vec!["s1"])) as _);
        for (sets, weight) in [(None, "whole"), (None, "share"), (of_set, "share")] {
            for seed in 0..10 {
                let drawn = |n| {
                    let selection = Selection { sets: sets.clone(), ..Default::default() };
                    let request = SampleRequest {
                        n,
                        selection,
                        weight: Some(weight.into()),
                        seed: Some(seed),
                        arrival_times: true,
                        ..Default::default()
                    };
                    snapshot.sample(&request).unwrap()
                };
                let many = drawn(1_200);
                for n in [1, 2, 30, 500] {
                    assert_eq!(drawn(n), many.slice(0, n as usize), "{state}, {weight}, {n} rows");
                }
            }
        }
    };
    check("in memory");
    db.flush().unwrap();
    check("on disk");
}

/// A set in memory is added up where it is drawn from, until its sums are worth keeping: no draw may depend on that.
#[test]
fn the_sums_that_are_kept_of_a_set_change_no_draw_and_are_counted() {
    let rows: Vec<i64> = (0..30_000).collect();
    for kind in [Merge::Append, Merge::Upsert] {
        let db = Database::in_memory(Options::default()).unwrap();
        let table = db.create_table("t", two_weights_spec().merge(kind.clone())).unwrap();
        let _hold = db.hold_maintenance();
        for rows in rows.chunks(9_000) {
            table.append(&batch(rows), OnError::Raise).unwrap();
        }
        let snapshot = table.snapshot().unwrap();
        let sets: Option<drillcore::arrow_array::ArrayRef> =
            Some(Arc::new(StringArray::from(vec!["s1"])));
        let drawn = |range: (i64, i64), weight: &str, replace, seed| {
            let selection = Selection { sets: sets.clone(), ..Default::default() };
            let selection = Selection { between: Some(between(range.0, range.1)), ..selection };
            let (weight, seed) = (Some(weight.into()), Some(seed));
            let request =
                SampleRequest { n: 50, selection, weight, replace, seed, ..Default::default() };
            ids(&snapshot.sample(&request).unwrap())
        };
        let all = || -> Vec<Vec<i64>> {
            let ranges = [(40, 1_039), (8_900, 9_300), (17_500, 19_000)];
            let calls = ranges.into_iter().flat_map(|range| {
                ["whole", "share"]
                    .into_iter()
                    .flat_map(move |weight| [(range, weight, true, 1), (range, weight, false, 2)])
            });
            calls
                .map(|(range, weight, replace, seed)| drawn(range, weight, replace, seed))
                .collect()
        };
        let one_by_one = all();
        let (rows, kept) = (|| db.stats().unwrap().row_bytes, || db.stats().unwrap().list_bytes);
        let (rows_before, before) = (rows(), kept());
        drawn((0, 30_000), "whole", true, 3);
        let of_whole = kept() - before;
        assert!((10_000..60_000).contains(&of_whole), "{of_whole} bytes for 10,000 members");
        assert_eq!(all(), one_by_one, "{kind:?}");
        drawn((0, 30_000), "share", true, 3);
        assert_eq!(all(), one_by_one, "{kind:?}");
        assert!(kept() > before + of_whole);
        assert_eq!(rows(), rows_before, "they are not rows");
        assert_eq!(db.stats().unwrap().writer.unwrap().snapshot_row_bytes, 0);
    }
}

#[test]
fn what_is_no_weight_is_refused_by_row_and_nothing_is_changed() {
    let db = Database::in_memory(Options::default()).unwrap();
    let table = db.create_table("t", two_weights_spec()).unwrap();
    let mut bad = batch(&[1, 2]).columns().to_vec();
    bad[3] = Arc::new(Float64Array::from(vec![1.0, f64::NAN]));
    let bad = RecordBatch::try_new(two_weights_spec().columns, bad).unwrap();
    let error = table.append(&bad, OnError::Raise).unwrap_err();
    assert_eq!(error.to_string(), r#"row 1: weight column "share" must hold a finite number"#);
    assert_eq!(table.snapshot().unwrap().rows().unwrap(), 0);
    assert_eq!(table.append(&bad, OnError::Skip).unwrap().rejected[0].row, 1);

    let request = SampleRequest { weight: Some("hole".into()), ..Default::default() };
    let error = table.snapshot().unwrap().sample(&request).unwrap_err();
    assert_eq!(error.to_string(), r#"unknown weight "hole"; did you mean "whole"?"#);
    let key_weight = TableSpec { weights: vec!["id".into()], ..two_weights_spec() };
    assert_eq!(db.create_table("u", key_weight).err().unwrap().kind(), ErrorKind::InvalidArgument);
}

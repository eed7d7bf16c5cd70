//! Predicates: in every kind of table and state, each read shows exactly the rows that pass as they are
//! shown, and draws among them with the chances they should have.

use std::collections::BTreeMap;
use std::sync::Arc;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use drillcore::arrow_schema::DataType;
use drillcore::*;
use drillcore_sample::goodness::chi_square_p_value;
use drillcore_sample::rng::Rng;

use crate::fixtures::{between, schema_of};

/// `value % modulus == rest`, null where the value is; perhaps with what indexes can make of it.
#[derive(Debug)]
struct Remainder {
    modulus: i64,
    rest: i64,
    columns: Vec<String>,
    text: String,
    between: Option<Between>,
    sets: Option<ArrayRef>,
}

impl Remainder {
    fn new(modulus: i64, rest: i64) -> Remainder {
        let text = format!("value % {modulus} = {rest}");
        let columns = vec!["value".into()];
        Remainder { modulus, rest, columns, text, between: None, sets: None }
    }

    fn passes(&self, value: Option<i64>) -> bool {
        value.is_some_and(|value| value.rem_euclid(self.modulus) == self.rest)
    }
}

impl Predicate for Remainder {
    fn between(&self) -> Option<&Between> {
        self.between.as_ref()
    }

    fn sets(&self) -> Option<&ArrayRef> {
        self.sets.as_ref()
    }

    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn select(&self, rows: &RecordBatch) -> Result<BooleanArray> {
        assert_eq!(rows.num_columns(), 1);
        let values = rows.column(0).as_primitive::<Int64Type>();
        Ok(values.iter().map(|value| value.map(|value| self.passes(Some(value)))).collect())
    }

    fn text(&self) -> &str {
        &self.text
    }
}

/// Id, place and value.
type Row = (i64, String, Option<i64>);

fn loaded_places_spec(merge: Merge) -> TableSpec {
    let is_rollup = matches!(merge, Merge::Rollup(_));
    let key = if is_rollup { vec!["id", "place"] } else { vec!["id"] };
    TableSpec::new(
        schema_of(&[
            ("id", DataType::Int64, false),
            ("place", DataType::Utf8, false),
            ("value", DataType::Int64, true),
            ("load", DataType::Int64, false),
        ]),
        key,
    )
    .set("place")
    .weights(if is_rollup { vec![] } else { vec!["load"] })
    .merge(merge)
}

fn rollup() -> Merge {
    Merge::Rollup(
        RollupSpec::default().metric("value", Metric::sum("value")).metric("n", Metric::Count),
    )
}

/// What a row weighs.
fn load(id: i64) -> i64 {
    id % 5
}

fn batch(rows: &[Row]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| Some(row.0)).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| Some(row.1.clone())).collect::<StringArray>()),
        Arc::new(rows.iter().map(|row| row.2).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| Some(load(row.0))).collect::<Int64Array>()),
    ];
    RecordBatch::try_new(loaded_places_spec(Merge::Append).columns, columns).unwrap()
}

fn wanted() -> Option<Vec<String>> {
    Some(vec!["id".into(), "place".into(), "value".into()])
}

fn rows(batches: impl IntoIterator<Item = RecordBatch>) -> Vec<Row> {
    let of_batch = |batch: RecordBatch| {
        let ids = batch.column(0).as_primitive::<Int64Type>();
        let places = batch.column(1).as_string::<i32>();
        let values = batch.column(2).as_primitive::<Int64Type>();
        (0..batch.num_rows())
            .map(|row| {
                let value = values.is_valid(row).then(|| values.value(row));
                (ids.value(row), places.value(row).to_string(), value)
            })
            .collect::<Vec<_>>()
    };
    batches.into_iter().flat_map(of_batch).collect()
}

/// What a table should show, with the number of events of each row.
fn fold(merge: &Merge, appended: &[Row]) -> Vec<(Row, u64)> {
    match merge {
        Merge::Append => {
            let mut shown: Vec<(Row, u64)> = appended.iter().map(|row| (row.clone(), 1)).collect();
            shown.sort_by_key(|(row, _)| row.0);
            shown
        }
        Merge::Upsert => {
            let newest: BTreeMap<i64, Row> =
                appended.iter().map(|row| (row.0, row.clone())).collect();
            newest.into_values().map(|row| (row, 1)).collect()
        }
        _ => {
            let mut folded: BTreeMap<(i64, String), (Option<i64>, u64)> = BTreeMap::new();
            for (id, place, value) in appended {
                let (sum, events) = folded.entry((*id, place.clone())).or_default();
                *events += 1;
                if let Some(value) = value {
                    *sum = Some(sum.unwrap_or(0) + value);
                }
            }
            folded
                .into_iter()
                .map(|((id, place), (sum, events))| ((id, place, sum), events))
                .collect()
        }
    }
}

fn check(table: &TableSnapshot, shown: &[(Row, u64)], rng: &mut Rng) {
    let mut predicate = Remainder::new(2 + rng.below(4) as i64, rng.below(2) as i64);
    let (low, high) = (rng.below(300) as i64, rng.below(300) as i64);
    let (low, high) = (low.min(high), low.max(high));
    let place = format!("p{}", rng.below(3));
    let set: ArrayRef = Arc::new(StringArray::from(vec![place.clone()]));
    let mut selection = Selection::default();
    // The range and the set are asked for by the caller, or implied by the predicate, or neither.
    let (by_range, by_set) = (rng.below(3), rng.below(3));
    match by_range {
        0 => selection.between = Some(between(low, high)),
        1 => predicate.between = Some(between(low, high)),
        _ => {}
    }
    match by_set {
        0 => selection.sets = Some(set),
        1 => predicate.sets = Some(set),
        _ => {}
    }
    predicate.text += &format!(" {:?} {:?}", predicate.between, predicate.sets);
    let passes = |row: &Row| {
        (by_range == 2 || (low..=high).contains(&row.0))
            && (by_set == 2 || row.1 == place)
            && predicate.passes(row.2)
    };
    let passing: Vec<&(Row, u64)> = shown.iter().filter(|(row, _)| passes(row)).collect();
    let expected: Vec<Row> = passing.iter().map(|(row, _)| row.clone()).collect();
    let events: u64 = passing.iter().map(|(_, events)| events).sum();
    selection.predicate = Some(Arc::new(predicate));

    let scan = |request: ScanRequest| rows(table.scan(request).unwrap().map(Result::unwrap));
    let request =
        ScanRequest { selection: selection.clone(), columns: wanted(), ..Default::default() };
    assert_eq!(scan(request.clone()), expected);
    let limit = rng.below(5);
    let first: Vec<Row> = expected.iter().take(limit as usize).cloned().collect();
    assert_eq!(scan(ScanRequest { limit: Some(limit), ..request.clone() }), first);
    let mut backwards = scan(ScanRequest { reverse: true, ..request.clone() });
    backwards.reverse();
    assert_eq!(backwards, expected);
    // The tested column need not be among those wanted.
    let ids = ScanRequest { columns: Some(vec!["id".into()]), ..request };
    let ids: usize = table.scan(ids).unwrap().map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(ids, expected.len());

    for _ in 0..2 {
        assert_eq!(table.count(&selection).unwrap(), expected.len() as u64);
    }
    assert_eq!(table.count_events(&selection).unwrap(), events);

    let n = expected.len() as u64;
    let request = SampleRequest {
        n,
        selection: selection.clone(),
        unit: Unit::Rows,
        seed: Some(rng.next_u64()),
        columns: wanted(),
        ..Default::default()
    };
    let sorted = |batch: RecordBatch| {
        let mut drawn = rows([batch]);
        drawn.sort();
        drawn
    };
    let mut in_order = expected.clone();
    in_order.sort();
    assert_eq!(sorted(table.sample(&request).unwrap()), in_order, "a sample of all is all");
    let share = ShareRequest {
        share: 1.0,
        selection: selection.clone(),
        columns: wanted(),
        ..Default::default()
    };
    assert_eq!(sorted(table.sample_share(&share).unwrap()), in_order);
    let none = ShareRequest { share: 0.0, ..share };
    assert_eq!(table.sample_share(&none).unwrap().num_rows(), 0);
    let more = SampleRequest { n: n + 1, ..request.clone() };
    assert_eq!(table.sample(&more).unwrap_err().kind(), ErrorKind::TooFewRows);
    for with_probability in [false, true] {
        let few = SampleRequest { n: n / 3, with_probability, ..request.clone() };
        let (drawn, report) = table.sample_with_report(&few).unwrap();
        assert!(report.attempts >= n / 3);
        assert!(rows([drawn]).iter().all(|row| expected.contains(row)));
    }
    let all_events = SampleRequest { n: events, unit: Unit::Events, ..request };
    let mut of_row: BTreeMap<Row, u64> = BTreeMap::new();
    rows([table.sample(&all_events).unwrap()])
        .into_iter()
        .for_each(|row| *of_row.entry(row).or_default() += 1);
    let mut expected_events: BTreeMap<Row, u64> = BTreeMap::new();
    passing
        .iter()
        .for_each(|(row, events)| *expected_events.entry(row.clone()).or_default() += events);
    assert_eq!(of_row, expected_events, "all events of the rows that pass");
}

#[test]
fn every_read_shows_the_rows_that_pass() {
    for (seed, merge) in [Merge::Append, Merge::Upsert, rollup()].into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path(), Options::default()).unwrap();
        db.create_table("t", loaded_places_spec(merge.clone())).unwrap();
        let table = db.table("t").unwrap();
        let mut rng = Rng::keyed(seed as u64, 3);
        let mut appended: Vec<Row> = Vec::new();
        for step in 0..60 {
            let rows: Vec<Row> = (0..rng.below(40))
                .map(|_| {
                    let value = (rng.below(8) > 0).then(|| rng.below(1000) as i64);
                    (rng.below(250) as i64, format!("p{}", rng.below(3)), value)
                })
                .collect();
            table.append(&batch(&rows), OnError::Raise).unwrap();
            appended.extend(rows);
            if step % 13 == 7 {
                db.flush().unwrap();
            }
            if step % 29 == 20 {
                db.compact().unwrap();
            }
            let shown = fold(&merge, &appended);
            for _ in 0..3 {
                check(&table.snapshot().unwrap(), &shown, &mut rng);
            }
        }
    }
}

/// Tallies the ids of samples with many seeds.
fn tally(table: &TableSnapshot, request: &SampleRequest, samples: u64) -> BTreeMap<i64, u64> {
    let mut drawn = BTreeMap::new();
    for seed in 0..samples {
        let request = SampleRequest { seed: Some(seed), columns: wanted(), ..request.clone() };
        for (id, ..) in rows([table.sample(&request).unwrap()]) {
            *drawn.entry(id).or_default() += 1;
        }
    }
    drawn
}

/// The p-value of a tally where ids should come in proportion to `weight`.
fn fit(drawn: &BTreeMap<i64, u64>, ids: &[i64], weight: impl Fn(i64) -> f64) -> f64 {
    let total: u64 = drawn.values().sum();
    let ids: Vec<i64> = ids.iter().copied().filter(|&id| weight(id) > 0.0).collect();
    let sum: f64 = ids.iter().map(|&id| weight(id)).sum();
    let observed: Vec<u64> =
        ids.iter().map(|id| drawn.get(id).copied().unwrap_or_default()).collect();
    assert_eq!(observed.iter().sum::<u64>(), total, "something was drawn that does not pass");
    let expected: Vec<f64> = ids.iter().map(|&id| weight(id) / sum * total as f64).collect();
    chi_square_p_value(&observed, &expected)
}

#[test]
fn rows_that_pass_are_drawn_with_the_right_chances() {
    for merge in [Merge::Append, Merge::Upsert, rollup()] {
        let is_rollup = matches!(merge, Merge::Rollup(_));
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path(), Options::default()).unwrap();
        db.create_table("t", loaded_places_spec(merge.clone())).unwrap();
        let table = db.table("t").unwrap();
        let _hold = db.hold_maintenance();
        // Pieces of very different sizes, so that choosing a piece first would show.
        for (from, to) in [(0, 300), (300, 310), (310, 400)] {
            let rows: Vec<Row> = (from..to).map(|id| (id, "p".into(), Some(id))).collect();
            table.append(&batch(&rows), OnError::Raise).unwrap();
        }
        if is_rollup {
            // Row 60 has four events; its sum stays what it was.
            let more: Vec<Row> = (0..3).map(|_| (60, "p".into(), Some(0))).collect();
            table.append(&batch(&more), OnError::Raise).unwrap();
        }
        let snapshot = table.snapshot().unwrap();
        // One in 4 is found by rejection, one in 40 only after the tries ran out.
        for (modulus, is_resolved) in [(4, false), (40, true)] {
            let ids: Vec<i64> = (0..400).filter(|id| id % modulus == 20 % modulus).collect();
            let predicate: Arc<dyn Predicate> = Arc::new(Remainder::new(modulus, 20 % modulus));
            let selection = Selection { predicate: Some(predicate), ..Default::default() };
            let request = SampleRequest { n: 3, selection, ..Default::default() };
            let uniform = |_| 1.0;
            let by_events = |id| if is_rollup && id == 60 { 4.0 } else { 1.0 };
            let weighted = |id| load(id) as f64;

            // Of other seeds one in some thousands runs out of tries with one row in 4, too.
            let seeded = SampleRequest { seed: Some(1), ..request.clone() };
            let (_, report) = snapshot.sample_with_report(&seeded).unwrap();
            let found_late = report.resolved;
            assert!(is_resolved || !found_late, "{report:?}");
            for replace in [false, true] {
                let request = SampleRequest { replace, ..request.clone() };
                let drawn = tally(&snapshot, &request, 4_000);
                if replace || !is_rollup {
                    let p = fit(&drawn, &ids, by_events);
                    assert!(p > 1e-6, "{merge:?} {modulus} {replace}: {p}");
                    let twin = fit(&drawn, &ids, |id| if id < 300 { 1.0 } else { 1.3 });
                    assert!(twin < 1e-6, "a wrong expectation passes: {twin}");
                }
            }
            if is_rollup {
                let rows = SampleRequest { unit: Unit::Rows, ..request };
                let p = fit(&tally(&snapshot, &rows, 4_000), &ids, uniform);
                assert!(p > 1e-6, "rows: {p}");
                continue;
            }
            let selection = request.selection.clone();
            let request = SampleRequest { weight: Some("load".into()), ..request };
            // Of ids that are 20 modulo 40 all weigh nothing; these weigh 1, 3, 0, 2 and 4.
            let (ids, request) = if modulus == 40 {
                let ids: Vec<i64> = (0..400).filter(|id| id % 97 == 1).collect();
                let predicate: Arc<dyn Predicate> = Arc::new(Remainder::new(97, 1));
                let selection = Selection { predicate: Some(predicate), ..selection };
                (ids, SampleRequest { selection, ..request })
            } else {
                (ids, request)
            };
            let with = SampleRequest { replace: true, ..request.clone() };
            let drawn = tally(&snapshot, &with, 4_000);
            let p = fit(&drawn, &ids, weighted);
            assert!(p > 1e-6, "weighted: {p}");
            assert!(fit(&drawn, &ids, |id| (load(id) > 0) as u8 as f64) < 1e-6);
            // Without replacement: the first of three is in proportion, and so is the second, given the
            // first, which the chance to be second adds up from.
            let firsts = tally_place(&snapshot, &request, 6_000, 0);
            assert!(fit(&firsts, &ids, weighted) > 1e-6);
            let sum: f64 = ids.iter().map(|&id| weighted(id)).sum();
            let second = |id: i64| -> f64 {
                let others = ids.iter().filter(|&&other| other != id);
                let chance = |other: f64| other / sum * weighted(id) / (sum - other);
                others.map(|&other| chance(weighted(other))).sum()
            };
            let seconds = tally_place(&snapshot, &request, 6_000, 1);
            let p = fit(&seconds, &ids, second);
            assert!(p > 1e-6, "{modulus}: second draws {p}");
            if modulus == 40 {
                // Few rows: there the second draw clearly differs from the first.
                assert!(fit(&seconds, &ids, weighted) < 1e-6);
            }
        }
    }
}

/// Tallies the ids at one place of samples with many seeds.
fn tally_place(
    table: &TableSnapshot,
    request: &SampleRequest,
    samples: u64,
    place: usize,
) -> BTreeMap<i64, u64> {
    let mut drawn = BTreeMap::new();
    for seed in 0..samples {
        let request = SampleRequest { seed: Some(seed), columns: wanted(), ..request.clone() };
        *drawn.entry(rows([table.sample(&request).unwrap()])[place].0).or_default() += 1;
    }
    drawn
}

#[test]
fn a_share_takes_each_passing_row_with_its_chance() {
    let db = Database::in_memory(Options::default()).unwrap();
    db.create_table("t", loaded_places_spec(Merge::Append)).unwrap();
    let table = db.table("t").unwrap();
    let appended: Vec<Row> = (0..400).map(|id| (id, "p".into(), Some(id))).collect();
    table.append(&batch(&appended), OnError::Raise).unwrap();
    let snapshot = table.snapshot().unwrap();
    let predicate: Arc<dyn Predicate> = Arc::new(Remainder::new(4, 1));
    let mut taken: BTreeMap<i64, u64> = BTreeMap::new();
    let mut squares = 0.0;
    for seed in 0..2_000 {
        let request = ShareRequest {
            share: 0.2,
            selection: Selection { predicate: Some(predicate.clone()), ..Default::default() },
            seed: Some(seed),
            columns: wanted(),
        };
        let drawn = rows([snapshot.sample_share(&request).unwrap()]);
        squares += (drawn.len() as f64 - 20.0).powi(2);
        drawn.into_iter().for_each(|(id, ..)| *taken.entry(id).or_default() += 1);
    }
    let ids: Vec<i64> = (0..400).filter(|id| id % 4 == 1).collect();
    assert!(fit(&taken, &ids, |_| 1.0) > 1e-6);
    let total: u64 = taken.values().sum();
    // 200,000 trials of chance 0.2: a standard deviation is 179.
    assert!((39_000..41_000).contains(&total), "{total}");
    // The size varies as that of independent trials does, with variance 16, not as of a fixed number.
    let variance = squares / 2_000.0;
    assert!((13.0..19.0).contains(&variance), "{variance}");
    let beyond = ShareRequest { share: 1.5, ..Default::default() };
    assert_eq!(snapshot.sample_share(&beyond).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn estimates_are_of_the_rows_that_pass() {
    for merge in [Merge::Append, Merge::Upsert, rollup()] {
        let db = Database::in_memory(Options::default()).unwrap();
        db.create_table("t", loaded_places_spec(merge.clone())).unwrap();
        let table = db.table("t").unwrap();
        let appended: Vec<Row> =
            (0..20_000).map(|id| (id, format!("p{}", id % 3), Some(id % 1000))).collect();
        if matches!(merge, Merge::Rollup(_)) {
            // Two partial rows that would pass or fail otherwise than their sum does.
            let part = |of: fn(i64) -> i64| -> Vec<Row> {
                let rows = appended.iter().cloned();
                rows.map(|(id, place, value)| (id, place, value.map(of))).collect()
            };
            table.append(&batch(&part(|value| value / 3)), OnError::Raise).unwrap();
            db.flush().unwrap();
            table.append(&batch(&part(|value| value - value / 3)), OnError::Raise).unwrap();
        } else {
            table.append(&batch(&appended), OnError::Raise).unwrap();
        }
        let snapshot = table.snapshot().unwrap();
        let predicate = Remainder::new(7, 3);
        let passing: Vec<f64> = appended
            .iter()
            .filter(|row| predicate.passes(row.2))
            .map(|row| row.2.unwrap() as f64)
            .collect();
        let (count, mean) =
            (passing.len() as f64, passing.iter().sum::<f64>() / passing.len() as f64);
        let predicate: Arc<dyn Predicate> = Arc::new(predicate);
        let request = |n, seed| EstimateRequest {
            aggregates: vec![
                ("rows".into(), Aggregate::Count),
                ("mean".into(), Aggregate::avg("value")),
            ],
            selection: Selection { predicate: Some(predicate.clone()), ..Default::default() },
            stop: Stop::Rows(n),
            seed: Some(seed),
            ..Default::default()
        };
        let estimate = |request: &EstimateRequest| snapshot.estimate(request).unwrap();
        let whole = estimate(&request(20_000, 0));
        assert!(whole.exact);
        assert_eq!(whole.aggregates[0].intervals[0].value, count);
        assert!((whole.aggregates[1].intervals[0].value - mean).abs() < 1e-9);
        let mut inside = [0; 2];
        for seed in 0..400 {
            let estimate = estimate(&request(1_000, seed));
            assert!(!estimate.exact);
            assert_eq!((estimate.sampled, estimate.population), (1_000, 20_000));
            for (aggregate, truth) in [count, mean].into_iter().enumerate() {
                let interval = &estimate.aggregates[aggregate].intervals[0];
                inside[aggregate] += u32::from((interval.low..=interval.high).contains(&truth));
            }
        }
        // 95 % of 400 is 380, with a standard deviation of 4.4.
        assert!(inside.iter().all(|inside| (360..=398).contains(inside)), "{inside:?}");
        // By group: a third each, and nothing of what fails.
        let grouped = EstimateRequest { by: vec!["place".into()], ..request(20_000, 0) };
        let grouped = estimate(&grouped);
        let rows: f64 = grouped.aggregates[0].intervals.iter().map(|of_group| of_group.value).sum();
        assert_eq!(rows, count);
    }
}

/// Tombstones have no values, also in columns that take no nulls.
#[test]
fn samples_with_a_condition_pass_over_deleted_rows() {
    let db = Database::in_memory(Options::default()).unwrap();
    let _hold = db.hold_maintenance();
    let table = db.create_table("t", loaded_places_spec(Merge::Upsert)).unwrap();
    let rows: Vec<Row> = (0..1_000).map(|id| (id, "here".to_string(), Some(id))).collect();
    table.append(&batch(&rows), OnError::Raise).unwrap();
    let deleted = (0..1_000).filter(|id| id % 3 == 0);
    table.delete(&[Arc::new(Int64Array::from_iter_values(deleted))]).unwrap();
    let mut passing = Remainder::new(5, 1);
    passing.columns = vec!["load".into()];
    let passing: Arc<dyn Predicate> = Arc::new(passing);
    for state in ["in memory", "written out"] {
        let snapshot = table.snapshot().unwrap();
        let selection = Selection { predicate: Some(passing.clone()), ..Selection::default() };
        let mut attempts = 0;
        for seed in 0..50 {
            let request = SampleRequest {
                n: 20,
                selection: selection.clone(),
                seed: Some(seed),
                columns: wanted(),
                ..SampleRequest::default()
            };
            let (drawn, report) = snapshot.sample_with_report(&request).unwrap();
            attempts += report.attempts;
            let ids = drawn.column(0).as_primitive::<Int64Type>();
            assert_eq!(ids.len(), 20);
            assert!(ids.values().iter().all(|id| id % 5 == 1 && id % 3 != 0), "{state}: {ids:?}");
        }
        assert!(attempts > 50 * 20 * 4, "{state}: most tries fail: {attempts}");
        db.flush().unwrap();
    }
}

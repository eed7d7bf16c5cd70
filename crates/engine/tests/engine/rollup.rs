//! Rollup tables against a map: every row is exactly the fold of its events, in every state, and events are
//! drawn with equal chances.

use std::collections::BTreeMap;
use std::sync::Arc;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::{Float64Type, Int64Type, TimestampSecondType};
use drillcore::arrow_array::{
    Array, ArrayRef, Float64Array, Int16Array, Int64Array, RecordBatch, StringArray,
    TimestampSecondArray,
};
use drillcore::arrow_schema::{DataType, TimeUnit};
use drillcore::*;
use drillcore_sample::goodness::chi_square_p_value;
use drillcore_sample::rng::Rng;

use crate::fixtures::{named, schema_of};

/// Time, place, delay, share.
type Event = (i64, Option<String>, Option<i64>, Option<f64>);
/// Hour and place.
type Key = (i64, Option<String>);
/// Events, sum and greatest of delays, sum and least of shares, averages of delays, shares and seconds.
type Folded = (i64, Option<i64>, Option<i64>, Option<f64>, Option<f64>, [Option<f64>; 3]);
/// The events of each row.
type Model = BTreeMap<Key, Vec<Event>>;

fn hourly_places_spec() -> TableSpec {
    TableSpec::new(
        schema_of(&[
            ("ts", DataType::Timestamp(TimeUnit::Second, None), false),
            ("place", DataType::Utf8, true),
            ("delay", DataType::Int64, true),
            ("share", DataType::Float64, true),
            ("second", DataType::Int16, false),
        ]),
        ["ts", "place"],
    )
    .set("place")
    .merge(Merge::Rollup(
        RollupSpec::default()
            .time("ts", Granularity::HOUR)
            .metric("n", Metric::Count)
            .metric("delay", Metric::sum("delay"))
            .metric("worst", Metric::max("delay"))
            .metric("share", Metric::sum("share"))
            .metric("least", Metric::min("share"))
            .metric("mean_delay", Metric::avg("delay"))
            .metric("mean_share", Metric::avg("share"))
            .metric("mean_second", Metric::avg("second")),
    ))
}

fn batch(events: &[Event]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(events.iter().map(|event| Some(event.0)).collect::<TimestampSecondArray>()),
        Arc::new(events.iter().map(|event| event.1.clone()).collect::<StringArray>()),
        Arc::new(events.iter().map(|event| event.2).collect::<Int64Array>()),
        Arc::new(events.iter().map(|event| event.3).collect::<Float64Array>()),
        Arc::new(Int16Array::from_iter_values(events.iter().map(second))),
    ];
    RecordBatch::try_new(hourly_places_spec().columns, columns).unwrap()
}

fn second(event: &Event) -> i16 {
    event.0.rem_euclid(60) as i16
}

fn add_events(model: &mut Model, events: &[Event]) {
    for event in events {
        let hour = event.0 - event.0.rem_euclid(3600);
        model.entry((hour, event.1.clone())).or_default().push(event.clone());
    }
}

/// What is shown of some events.
fn folded(events: &[Event]) -> Folded {
    let delays: Vec<i64> = events.iter().filter_map(|event| event.2).collect();
    let shares: Vec<f64> = events.iter().filter_map(|event| event.3).collect();
    let delay = (!delays.is_empty()).then(|| delays.iter().sum::<i64>());
    let share = (!shares.is_empty()).then(|| shares.iter().sum::<f64>());
    let seconds: i64 = events.iter().map(|event| i64::from(second(event))).sum();
    let averages = [
        delay.map(|sum| sum as f64 / delays.len() as f64),
        share.map(|sum| sum / shares.len() as f64),
        Some(seconds as f64 / events.len() as f64),
    ];
    let least = shares.iter().copied().reduce(f64::min);
    (events.len() as i64, delay, delays.iter().copied().max(), share, least, averages)
}

fn rows(batches: impl IntoIterator<Item = RecordBatch>) -> Vec<(Key, Folded)> {
    let of_batch = |batch: RecordBatch| {
        let ts = batch.column(0).as_primitive::<TimestampSecondType>();
        let place = batch.column(1).as_string::<i32>();
        let integer = |column: usize, row: usize| {
            let values = batch.column(column).as_primitive::<Int64Type>();
            values.is_valid(row).then(|| values.value(row))
        };
        let float = |column: usize, row: usize| {
            let values = batch.column(column).as_primitive::<Float64Type>();
            values.is_valid(row).then(|| values.value(row))
        };
        let row = |row: usize| {
            let place = place.is_valid(row).then(|| place.value(row).to_string());
            let folded = (
                integer(2, row).unwrap(),
                integer(3, row),
                integer(4, row),
                float(5, row),
                float(6, row),
                [7, 8, 9].map(|column| float(column, row)),
            );
            ((ts.value(row), place), folded)
        };
        (0..batch.num_rows()).map(row).collect::<Vec<_>>()
    };
    batches.into_iter().flat_map(of_batch).collect()
}

fn scan(table: &TableSnapshot, request: ScanRequest) -> Vec<(Key, Folded)> {
    rows(table.scan(request).unwrap().map(Result::unwrap))
}

fn ts(value: i64) -> ArrayRef {
    Arc::new(TimestampSecondArray::from(vec![value]))
}

fn check(table: &TableSnapshot, model: &Model, rng: &mut Rng) {
    let all: Vec<(Key, Folded)> =
        model.iter().map(|(key, events)| (key.clone(), folded(events))).collect();
    assert_eq!(scan(table, ScanRequest::default()), all);
    let mut backwards = scan(table, ScanRequest { reverse: true, ..Default::default() });
    backwards.reverse();
    assert_eq!(backwards, all);

    let low = rng.below(10) as i64 * 3600;
    let high = low + rng.below(10) as i64 * 3600;
    let between =
        Between { low: Some(vec![ts(low)]), high: Some(vec![ts(high)]), closed: Closed::Both };
    let place = (rng.below(4) > 0).then(|| format!("p{}", rng.below(3)));
    let set: ArrayRef = Arc::new(StringArray::from(vec![place.clone()]));
    for between in [None, Some(between)] {
        for sets in [None, Some(set.clone())] {
            let selection =
                Selection { between: between.clone(), sets: sets.clone(), ..Default::default() };
            let passes = |row: &&(Key, Folded)| {
                (between.is_none() || (low..=high).contains(&row.0.0))
                    && (sets.is_none() || row.0.1 == place)
            };
            let expected: Vec<_> = all.iter().filter(passes).cloned().collect();
            let request = ScanRequest { selection: selection.clone(), ..Default::default() };
            assert_eq!(scan(table, request), expected);
            assert_eq!(table.count(&selection).unwrap(), expected.len() as u64);
            let events: i64 = expected.iter().map(|row| row.1.0).sum();
            assert_eq!(table.count_events(&selection).unwrap(), events as u64);
            // All events without replacement: each row comes once an event, whole.
            let n = events as u64;
            let request = SampleRequest { n, selection, seed: Some(7), ..Default::default() };
            let mut drawn = rows([table.sample(&request).unwrap()]);
            drawn.sort_by(|a, b| a.0.cmp(&b.0));
            let repeated = expected.iter().flat_map(|row| vec![row.clone(); row.1.0 as usize]);
            assert_eq!(drawn, repeated.collect::<Vec<_>>());
            let more = SampleRequest { n: n + 1, ..request };
            assert_eq!(table.sample(&more).unwrap_err().kind(), ErrorKind::TooFewRows);
            check_estimates(table, &more.selection, &expected);
            check_estimates_by_event(table, &more.selection, &expected);
        }
    }
    let sets = table.sets().unwrap();
    assert_eq!(sets.rows.iter().sum::<u64>(), all.len() as u64);
    for ((hour, place), folded) in all.iter().take(20) {
        let places: ArrayRef =
            Arc::new(StringArray::from(vec![place.clone(), Some("none".into())]));
        let hours: ArrayRef = Arc::new(TimestampSecondArray::from(vec![*hour, *hour]));
        let found = table.get(&[hours, places], None).unwrap();
        assert_eq!(found.positions, [Some(0), None]);
        assert_eq!(rows([found.rows])[0].1, *folded);
    }
}

/// Estimates are of rows: with all drawn they are what a scan shows, by dimension and by metric, and of a few
/// rows each is whole.
fn check_estimates(table: &TableSnapshot, selection: &Selection, expected: &[(Key, Folded)]) {
    let measures = [
        Aggregate::avg("n"),
        Aggregate::avg("delay"),
        Aggregate::avg("worst"),
        Aggregate::avg("mean_share"),
    ];
    let measure = |row: &Folded| {
        [Some(row.0 as f64), row.1.map(|sum| sum as f64), row.2.map(|most| most as f64), row.5[1]]
    };
    let whole = EstimateRequest {
        aggregates: [named(&[Aggregate::Count]), named(&measures)].concat(),
        selection: selection.clone(),
        stop: Stop::Rows(u64::MAX),
        ..Default::default()
    };
    let estimate = |request: &EstimateRequest| table.estimate(request).unwrap();
    for by in [None, Some("place"), Some("n")] {
        let mut groups: BTreeMap<(Option<String>, i64), Vec<&Folded>> = BTreeMap::new();
        for (key, row) in expected {
            let group = match by {
                None => (None, 0),
                Some("place") => (key.1.clone(), 0),
                _ => (None, row.0),
            };
            groups.entry(group).or_default().push(row);
        }
        if by.is_none() {
            groups.entry((None, 0)).or_default();
        }
        let found = estimate(&EstimateRequest {
            by: by.map(String::from).into_iter().collect(),
            ..whole.clone()
        });
        assert!(found.exact, "{}", found.method);
        assert_eq!(found.population, expected.len() as u64);
        assert_eq!(found.drawn, groups.values().map(|g| g.len() as u64).collect::<Vec<_>>());
        for (group, rows) in groups.values().enumerate() {
            let count = found.aggregates[0].intervals[group];
            assert_eq!(count, Interval::exact(rows.len() as f64));
            for slot in 0..measures.len() {
                let values: Vec<f64> = rows.iter().filter_map(|row| measure(row)[slot]).collect();
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                let value = found.aggregates[1 + slot].intervals[group].value;
                let is_close = (value - mean).abs() <= 1e-9 * mean.abs().max(1.0);
                assert!(is_close || values.is_empty() && value.is_nan(), "{value}, not {mean}");
            }
        }
    }
    if expected.len() > 3 {
        let few = EstimateRequest {
            aggregates: named(&[Aggregate::Count, Aggregate::avg("n"), Aggregate::avg("delay")]),
            by: vec!["n".into()],
            stop: Stop::Rows(3),
            seed: Some(1),
            ..whole
        };
        let few = estimate(&few);
        assert_eq!((few.sampled, few.population), (3, expected.len() as u64));
        let sizes = few.groups[0].as_primitive::<Int64Type>();
        for (group, &n) in sizes.values().iter().enumerate() {
            // A partial row would be of a size that no row has, or of another delay.
            assert_eq!(few.aggregates[1].intervals[group].value, n as f64);
            let of_size = expected.iter().filter(|row| row.1.0 == n);
            let delays: Vec<f64> = of_size.filter_map(|row| Some(row.1.1? as f64)).collect();
            let value = few.aggregates[2].intervals[group].value;
            if few.drawn[group] == 1 && !value.is_nan() {
                assert!(delays.contains(&value), "{value} is the delay of no row of {n} events");
            }
        }
    }
    if selection.sets.is_none() && selection.between.is_none() && !expected.is_empty() {
        let one = EstimateRequest {
            aggregates: named(&[Aggregate::Count]),
            by: vec!["place".into()],
            stop: Stop::Rows(1),
            ..Default::default()
        };
        assert!(estimate(&one).exact, "the rows of each set are known");
    }
}

/// Estimates by event are of each row as often as it has events, whether the events are drawn or the rows read.
fn check_estimates_by_event(
    table: &TableSnapshot,
    selection: &Selection,
    expected: &[(Key, Folded)],
) {
    let events = expected.iter().map(|row| row.1.0 as u64).sum::<u64>();
    let figures = [
        Aggregate::Count,
        Aggregate::values("delay"),
        Aggregate::avg("n"),
        Aggregate::sum("delay"),
        Aggregate::variance("n"),
        Aggregate::quantile("delay", 0.8),
        Aggregate::median("share"),
        Aggregate::ratio("share", "n"),
        Aggregate::distinct("place"),
    ];
    for by in [None, Some("place")] {
        let mut groups: BTreeMap<Option<String>, Vec<&Folded>> = BTreeMap::new();
        for (key, row) in expected {
            let group = groups.entry(by.and_then(|_| key.1.clone())).or_default();
            group.extend(std::iter::repeat_n(row, row.0 as usize));
        }
        if by.is_none() {
            groups.entry(None).or_default();
        }
        for stop in [Stop::Rows(u64::MAX), Stop::Error(HalfWidth::Relative(1e-12))] {
            let request = EstimateRequest {
                aggregates: named(&figures),
                by: by.map(String::from).into_iter().collect(),
                selection: selection.clone(),
                unit: Unit::Events,
                stop,
                ..Default::default()
            };
            let found = table.estimate(&request).unwrap();
            assert!(found.exact, "{}", found.method);
            assert_eq!((found.unit, found.population), (Unit::Events, events));
            assert_eq!(found.aggregates[0].intervals.len(), groups.len());
            for (at, (place, rows)) in groups.iter().enumerate() {
                let different = match (by, rows.is_empty()) {
                    (_, true) => 0,
                    (Some(_), _) => usize::from(place.is_some()),
                    (None, _) => {
                        let mut places: Vec<_> =
                            expected.iter().filter_map(|row| row.0.1.as_ref()).collect();
                        places.sort_unstable();
                        places.dedup();
                        places.len()
                    }
                };
                let truths = figures_of(rows, different);
                for (aggregate, truth) in found.aggregates.iter().zip(truths) {
                    let value = aggregate.intervals[at].value;
                    let is_close =
                        truth.is_some_and(|x| (value - x).abs() <= 1e-9 * x.abs().max(1.0));
                    let name = &aggregate.name;
                    assert!(is_close || truth.is_none() && value.is_nan(), "{name}: {value}");
                }
            }
        }
    }
}

/// The figures of rows, in the order of [`check_estimates_by_event`].
fn figures_of(rows: &[&Folded], different: usize) -> Vec<Option<f64>> {
    let mut delays: Vec<f64> =
        rows.iter().filter_map(|row| row.1.map(|delay| delay as f64)).collect();
    let mut shares: Vec<f64> = rows.iter().filter_map(|row| row.3).collect();
    delays.sort_unstable_by(f64::total_cmp);
    shares.sort_unstable_by(f64::total_cmp);
    let counts: Vec<f64> = rows.iter().map(|row| row.0 as f64).collect();
    let all: f64 = counts.iter().sum();
    let mean = all / counts.len() as f64;
    let squares = counts.iter().map(|n| (n - mean).powi(2)).sum::<f64>();
    let has = |numbers: &[f64], figure: f64| (!numbers.is_empty()).then_some(figure);
    let quantile = |numbers: &[f64], share: f64| {
        let place = share * (numbers.len() as f64 - 1.0);
        let at = |place: f64| numbers[place as usize];
        at(place.floor()) + (at(place.ceil()) - at(place.floor())) * place.fract()
    };
    vec![
        Some(rows.len() as f64),
        Some(delays.len() as f64),
        has(&counts, mean),
        has(&delays, delays.iter().sum()),
        (counts.len() > 1).then(|| squares / (counts.len() as f64 - 1.0)),
        (!delays.is_empty()).then(|| quantile(&delays, 0.8)),
        (!shares.is_empty()).then(|| quantile(&shares, 0.5)),
        has(&shares, shares.iter().sum::<f64>() / all),
        Some(different as f64),
    ]
}

fn random_events(rng: &mut Rng, len: u64) -> Vec<Event> {
    (0..len)
        .map(|_| {
            let place = (rng.below(4) > 0).then(|| format!("p{}", rng.below(3)));
            let delay = (rng.below(5) > 0).then(|| rng.below(100) as i64 - 20);
            // Eighths add up exactly in any order.
            let share = (rng.below(5) > 0).then(|| rng.below(100) as f64 / 8.0);
            (rng.below(20 * 3600) as i64 - 3600, place, delay, share)
        })
        .collect()
}

#[test]
fn rows_are_the_exact_fold_of_their_events_at_every_step() {
    for seed in 0..8 {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { memory_bytes: 1 << 20, ..Default::default() };
        let mut db = Database::open(folder.path(), options.clone()).unwrap();
        let mut table = db.create_table("t", hourly_places_spec()).unwrap();
        let mut rng = Rng::keyed(seed, 0);
        let mut model = Model::new();
        let mut held = Vec::new();
        for step in 0..40 {
            match rng.below(9) {
                0..=5 => {
                    let len = rng.below(120);
                    let events = random_events(&mut rng, len);
                    let result = table.append(&batch(&events), OnError::Raise).unwrap();
                    assert_eq!(result.rows, events.len() as u64);
                    add_events(&mut model, &events);
                }
                6 => db.flush().unwrap(),
                7 => db.compact().unwrap(),
                _ => {
                    held.push((table.snapshot().unwrap(), model.clone()));
                    drop(table);
                    db.close().unwrap();
                    db = Database::open(folder.path(), options.clone()).unwrap();
                    table = db.table("t").unwrap();
                }
            }
            println!("seed {seed}, step {step}");
            check(&table.snapshot().unwrap(), &model, &mut rng);
        }
        for (snapshot, model) in &held {
            check(snapshot, model, &mut rng);
        }
        assert!(db.verify().unwrap().faults.is_empty());
    }
}

/// Null hypothesis: a row is drawn with the chance of its events. 20,000 draws over 40 rows of 1 to 40
/// events, spread over three pieces; chi-square, false-alarm rate 1e-6. The twin that draws every row
/// equally often fails.
#[test]
fn a_row_is_drawn_once_for_each_of_its_events() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", hourly_places_spec()).unwrap();
    for part in 0..3 {
        let events: Vec<Event> = (0..40i64)
            .flat_map(|hour| (0..=hour).map(move |event| (hour * 3600 + event, None, None, None)))
            .filter(|event| event.0 % 3 == part)
            .collect();
        table.append(&batch(&events), OnError::Raise).unwrap();
        if part < 2 {
            db.flush().unwrap();
        }
    }
    for state in ["three pieces", "one segment"] {
        let snapshot = table.snapshot().unwrap();
        let request =
            SampleRequest { n: 20_000, replace: true, seed: Some(5), ..Default::default() };
        let mut observed = vec![0u64; 40];
        for ((hour, _), folded) in rows([snapshot.sample(&request).unwrap()]) {
            assert_eq!(folded.0, hour / 3600 + 1, "a drawn row is whole");
            observed[(hour / 3600) as usize] += 1;
        }
        let total = (1..=40).sum::<i64>() as f64;
        let expected: Vec<f64> = (1..=40).map(|events| events as f64 / total * 20_000.0).collect();
        let p = chi_square_p_value(&observed, &expected);
        assert!(p > 1e-6, "{state}: p = {p:e}");
        assert!(chi_square_p_value(&[500; 40], &expected) < 1e-6, "the twin passed");
        db.compact().unwrap();
    }
}

#[test]
fn a_sum_that_does_not_fit_is_an_error_until_it_fits_again() {
    let db = Database::in_memory(Options::default()).unwrap();
    let table = db.create_table("t", hourly_places_spec()).unwrap();
    let event = |delay: i64| batch(&[(0, None, Some(delay), None)]);
    table.append(&event(i64::MAX), OnError::Raise).unwrap();
    table.append(&event(i64::MAX), OnError::Raise).unwrap();
    let scan = || table.snapshot().unwrap().scan(ScanRequest::default()).unwrap().next().unwrap();
    let columns = Some(vec!["mean_delay".to_string()]);
    let mut average = table.snapshot().unwrap().scan(ScanRequest { columns, ..Default::default() });
    let average = average.as_mut().unwrap().next().unwrap().unwrap();
    let average = average.column(0).as_primitive::<Float64Type>().value(0);
    assert_eq!(average, i64::MAX as f64, "the average fits");
    let error = scan().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfRange);
    assert!(error.to_string().contains("18446744073709551614"), "{error}");
    db.compact().unwrap();
    assert_eq!(scan().unwrap_err().kind(), ErrorKind::OutOfRange);
    table.append(&event(-i64::MAX), OnError::Raise).unwrap();
    assert_eq!(rows([scan().unwrap()])[0].1.1, Some(i64::MAX));
}

#[test]
fn what_cannot_be_folded_is_refused_with_names() {
    let db = Database::in_memory(Options::default()).unwrap();
    let refused = |change: &dyn Fn(&mut TableSpec, &mut RollupSpec)| {
        let mut spec = hourly_places_spec();
        let Merge::Rollup(mut rollup) = spec.merge.clone() else { unreachable!() };
        change(&mut spec, &mut rollup);
        spec.merge = Merge::Rollup(rollup);
        db.create_table("t", spec).err().expect("refused").to_string()
    };
    let metric = |metric: Metric| vec![("m".to_string(), metric)];
    assert!(
        refused(&|_, rollup| rollup.metrics = metric(Metric::sum("place")))
            .contains("has type string")
    );
    assert!(
        refused(&|_, rollup| rollup.metrics = metric(Metric::avg("place")))
            .contains("has type string")
    );
    assert!(
        refused(&|_, rollup| rollup.metrics = metric(Metric::sum("dealy"))).contains("\"delay\"")
    );
    assert!(
        refused(&|_, rollup| rollup.time = Some("delay".into())).contains("must be a timestamp")
    );
    assert!(refused(&|spec, _| spec.set = Some("delay".into())).contains("must be in the key"));
    assert!(refused(&|spec, _| spec.weights = vec!["delay".into()]).contains("draw events"));
    assert!(db.tables().unwrap().is_empty());
}

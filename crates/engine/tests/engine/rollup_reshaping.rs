//! Metrics of rollup tables that are dropped, columns of their events that are widened, and dimensions that are added,
//! in any order beside everything else: each read agrees with a model that folds all events anew.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_cast::cast;
use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use drillcore::arrow_schema::{DataType, Field, Schema, TimeUnit};
use drillcore::*;
use drillcore_sample::rng::Rng;

/// The columns of the events that metrics are made of, each with whether it may be null.
const INPUTS: [(&str, bool); 4] =
    [("delay", true), ("share", true), ("load", false), ("late", true)];

/// Seconds and dimensions, and the value of each input.
#[derive(Clone)]
struct Event {
    seconds: i64,
    dimensions: BTreeMap<String, String>,
    inputs: [Option<f64>; 4],
}

/// The dimensions of a row as text, without those that are null.
type Key = (i64, BTreeMap<String, String>);

#[derive(Clone)]
struct Model {
    /// Name, kind, and the input's place.
    metrics: Vec<(String, &'static str, Option<usize>)>,
    dimensions: Vec<String>,
    types: [DataType; 4],
    events: BTreeMap<Key, Vec<Event>>,
}

fn hourly_places_spec() -> TableSpec {
    let types = Model::new().types;
    let inputs = INPUTS.iter().zip(types);
    let inputs = inputs.map(|((name, nullable), of)| Field::new(*name, of, *nullable));
    let mut columns = vec![
        Field::new("ts", DataType::Timestamp(TimeUnit::Second, None), false),
        Field::new("place", DataType::Utf8, true),
    ];
    columns.extend(inputs);
    let metrics = Model::new().metrics.into_iter().map(|(name, kind, input)| {
        let metric = match (kind, input.map(|input| INPUTS[input].0)) {
            ("sum", Some(input)) => Metric::sum(input),
            ("min", Some(input)) => Metric::min(input),
            ("max", Some(input)) => Metric::max(input),
            ("avg", Some(input)) => Metric::avg(input),
            _ => Metric::Count,
        };
        (name, metric)
    });
    TableSpec::new(Arc::new(Schema::new(columns)), ["ts", "place"]).set("place").merge(
        Merge::Rollup(RollupSpec {
            time: Some("ts".into()),
            granularity: Granularity::HOUR,
            metrics: metrics.collect(),
            discover: false,
        }),
    )
}

impl Model {
    fn new() -> Model {
        let metric = |name: &str, kind, input| (name.to_string(), kind, input);
        Model {
            metrics: vec![
                metric("n", "count", None),
                metric("delays", "sum", Some(0)),
                metric("worst", "max", Some(0)),
                metric("mean_delay", "avg", Some(0)),
                metric("shares", "sum", Some(1)),
                metric("least_share", "min", Some(1)),
                metric("mean_share", "avg", Some(1)),
                metric("loads", "sum", Some(2)),
                metric("mean_load", "avg", Some(2)),
                metric("stays", "sum", Some(3)),
            ],
            dimensions: vec!["place".into()],
            types: [DataType::Int8, DataType::Float32, DataType::UInt8, DataType::Int16],
            events: BTreeMap::new(),
        }
    }

    fn needs(&self, input: usize) -> bool {
        self.metrics.iter().any(|(_, _, of)| *of == Some(input))
    }

    fn append(&mut self, table: &Table, rng: &mut Rng) {
        let event = |rng: &mut Rng| {
            let mut inputs = [None; 4];
            for (value, (_, nullable)) in inputs.iter_mut().zip(INPUTS) {
                // Quarters are exact in every type of float.
                let quarters = rng.below(400) as f64 / 4.0;
                *value = (!nullable || rng.below(4) > 0).then_some(quarters);
            }
            for input in [0, 2, 3] {
                inputs[input] = inputs[input].map(f64::floor);
            }
            let named = self.dimensions.iter().filter_map(|name| {
                let value = format!("p{}", rng.below(3));
                (rng.below(4) > 0).then(|| (name.clone(), value))
            });
            Event { dimensions: named.collect(), seconds: rng.below(4 * 3600) as i64, inputs }
        };
        let mut events: Vec<Event> = (0..1 + rng.below(30)).map(|_| event(rng)).collect();
        let seconds: ArrayRef =
            Arc::new(events.iter().map(|e| Some(e.seconds)).collect::<Int64Array>());
        let time = DataType::Timestamp(TimeUnit::Second, None);
        let mut columns = vec![("ts".to_string(), cast(&seconds, &time).unwrap())];
        for name in &self.dimensions {
            let values = events.iter().map(|event| event.dimensions.get(name).cloned());
            columns.push((name.clone(), Arc::new(values.collect::<StringArray>()) as ArrayRef));
        }
        for (input, (name, _)) in INPUTS.iter().enumerate() {
            // What no metric is made of any more may be missing.
            if !self.needs(input) && rng.below(2) == 0 {
                events.iter_mut().for_each(|event| event.inputs[input] = None);
                continue;
            }
            let values: ArrayRef =
                Arc::new(events.iter().map(|event| event.inputs[input]).collect::<Float64Array>());
            columns.push((name.to_string(), cast(&values, &self.types[input]).unwrap()));
        }
        let fields: Vec<Field> = columns
            .iter()
            .map(|(name, of)| Field::new(name, of.data_type().clone(), true))
            .collect();
        let arrays = columns.into_iter().map(|(_, array)| array).collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
        table.append(&batch, OnError::Raise).unwrap();
        for event in events {
            let hour = event.seconds - event.seconds % 3600;
            self.events.entry((hour, event.dimensions.clone())).or_default().push(event);
        }
    }

    /// What is shown of the events of a row.
    fn folded(&self, events: &[Event]) -> BTreeMap<String, f64> {
        let metric = |(name, kind, input): &(String, &str, Option<usize>)| {
            let Some(input) = *input else { return Some((name.clone(), events.len() as f64)) };
            let values: Vec<f64> = events.iter().filter_map(|event| event.inputs[input]).collect();
            let sum: f64 = values.iter().sum();
            let of_some = match *kind {
                "sum" => sum,
                "avg" => sum / values.len() as f64,
                "min" => values.iter().copied().reduce(f64::min)?,
                _ => values.iter().copied().reduce(f64::max)?,
            };
            (!values.is_empty()).then(|| (name.clone(), of_some))
        };
        self.metrics.iter().filter_map(metric).collect()
    }

    fn check(&self, table: &TableSnapshot, rng: &mut Rng) {
        let folded = |(key, events): (&Key, &Vec<Event>)| (key.clone(), self.folded(events));
        let all: BTreeMap<Key, BTreeMap<String, f64>> = self.events.iter().map(folded).collect();
        let scan = table.scan(ScanRequest::default()).unwrap();
        assert_eq!(self.found(scan.map(Result::unwrap)), all);
        let selection = Selection::default();
        assert_eq!(table.count(&selection).unwrap(), all.len() as u64);
        let n: usize = self.events.values().map(Vec::len).sum();
        assert_eq!(table.count_events(&selection).unwrap(), n as u64);
        // A metric by itself, which may lie apart from the others.
        if !self.metrics.is_empty() {
            let (name, ..) = &self.metrics[rng.below(self.metrics.len() as u64) as usize];
            let mut columns = vec!["ts".to_string(), name.clone()];
            columns.extend(self.dimensions.clone());
            let request = ScanRequest { columns: Some(columns), ..ScanRequest::default() };
            let found = self.found(table.scan(request).unwrap().map(Result::unwrap));
            let only = |row: &BTreeMap<String, f64>| row.get(name).copied();
            let expected: Vec<_> = all.iter().map(|(key, row)| (key, only(row))).collect();
            assert_eq!(
                found.iter().map(|(key, row)| (key, only(row))).collect::<Vec<_>>(),
                expected
            );
        }
        if n > 0 {
            // Every event once, each as the row that it is part of.
            let request = SampleRequest { n: n as u64, seed: Some(7), ..SampleRequest::default() };
            let drawn = table.sample(&request).unwrap();
            assert_eq!(self.found([drawn]), all);
        }
    }

    fn found(
        &self,
        batches: impl IntoIterator<Item = RecordBatch>,
    ) -> BTreeMap<Key, BTreeMap<String, f64>> {
        let mut rows = BTreeMap::new();
        for batch in batches {
            let text = |column: &ArrayRef| cast(column, &DataType::Utf8).unwrap();
            let schema = batch.schema();
            let columns: Vec<(&String, ArrayRef)> = schema
                .fields()
                .iter()
                .zip(batch.columns())
                .map(|(field, column)| match field.name().as_str() {
                    "ts" => (field.name(), text(&cast(column, &DataType::Int64).unwrap())),
                    _ => (field.name(), text(column)),
                })
                .collect();
            for row in 0..batch.num_rows() {
                let (mut hour, mut dimensions, mut metrics) = (0, BTreeMap::new(), BTreeMap::new());
                for (name, texts) in &columns {
                    let texts = texts.as_string::<i32>();
                    if texts.is_null(row) {
                        continue;
                    }
                    let text = texts.value(row);
                    match name.as_str() {
                        "ts" => hour = text.parse().unwrap(),
                        _ if self.dimensions.contains(name) => {
                            dimensions.insert((*name).clone(), text.to_string());
                        }
                        _ => drop(metrics.insert((*name).clone(), text.parse().unwrap())),
                    }
                }
                rows.insert((hour, dimensions), metrics);
            }
        }
        rows
    }
}

fn wider(data_type: &DataType) -> Option<DataType> {
    Some(match data_type {
        DataType::Int8 => DataType::Int16,
        DataType::Int16 => DataType::Int64,
        DataType::UInt8 => DataType::UInt32,
        DataType::Float32 => DataType::Float64,
        _ => return None,
    })
}

fn run(seed: u64, durability: Durability) {
    let folder = tempfile::tempdir().unwrap();
    let rng = &mut Rng::keyed(seed, 9);
    let options = || Options { durability, segment_bytes: 100_000, ..Options::default() };
    let mut db = Database::open(folder.path(), options()).unwrap();
    let mut table = db.create_table("t", hourly_places_spec()).unwrap();
    let mut name = "t".to_string();
    let mut model = Model::new();
    let reader = Database::open_read_only(folder.path(), ReadOptions::default()).unwrap();
    let mut held: Vec<(TableSnapshot, Model)> = Vec::new();
    let mut named: Vec<(String, String, Model)> = Vec::new();
    for step in 0..120 {
        match rng.below(15) {
            0..=4 => model.append(&table, rng),
            5 | 6 => db.flush().unwrap(),
            7 => db.compact().unwrap(),
            8 => {
                drop(table);
                held.clear();
                if rng.below(2) == 0 {
                    db.close().unwrap();
                }
                drop(db);
                db = Database::open(folder.path(), options()).unwrap();
                table = db.table(&name).unwrap();
            }
            9 if step > 10 && !model.metrics.is_empty() => {
                let any = rng.below(model.metrics.len() as u64) as usize;
                table.drop_column(&model.metrics.remove(any).0).unwrap();
            }
            10 => {
                let input = rng.below(4) as usize;
                if let Some(to) = wider(&model.types[input]) {
                    table.widen(INPUTS[input].0, &to).unwrap();
                    model.types[input] = to;
                }
            }
            11 if model.dimensions.len() < 4 => {
                // One of them has the name of a metric that may be gone.
                let is_known = rng.below(2) == 0;
                let fresh = if is_known { "stays".to_string() } else { format!("d{step}") };
                let is_there = model.metrics.iter().any(|(of, ..)| *of == fresh);
                match table.add_column(&fresh, &DataType::Utf8) {
                    Ok(()) => model.dimensions.push(fresh),
                    Err(_) => assert!(is_there || model.dimensions.contains(&fresh)),
                }
            }
            12 => {
                named.push((format!("s{step}"), name.clone(), model.clone()));
                db.named_snapshot(&format!("s{step}")).unwrap();
                held.push((table.snapshot().unwrap(), model.clone()));
            }
            13 if rng.below(2) == 0 => {
                let copy = format!("copy {step}");
                table = db.copy_table(&name, &copy).unwrap();
                db.drop_table(&name).unwrap();
                name = copy;
            }
            14 if !model.metrics.is_empty() => {
                let any = rng.below(model.metrics.len() as u64) as usize;
                let fresh = format!("m{step}");
                table.rename_column(&model.metrics[any].0, &fresh).unwrap();
                model.metrics[any].0 = fresh;
            }
            _ => {}
        }
        model.check(&table.snapshot().unwrap(), rng);
        if step % 10 == 0 {
            held.iter().for_each(|(snapshot, then)| then.check(snapshot, rng));
            for (pinned, of, then) in &named {
                then.check(&db.named_snapshot(pinned).unwrap().table(of).unwrap(), rng);
            }
            assert_eq!(db.verify().unwrap().faults, Vec::<String>::new());
            if durability != Durability::None {
                reader.refresh().unwrap();
                model.check(&reader.snapshot().unwrap().table(&name).unwrap(), rng);
            }
        }
    }
}

#[test]
fn rows_are_the_fold_of_their_events_whatever_becomes_of_metrics_and_inputs() {
    let seeds = if std::env::var_os("DRILLCORE_LONG").is_some() { 80 } else { 6 };
    for seed in 0..seeds {
        println!("seed {seed}");
        run(seed, if seed % 3 == 0 { Durability::None } else { Durability::Os });
    }
}

#[test]
fn what_needs_the_events_anew_is_refused_and_changes_nothing() {
    let db = Database::in_memory(Options::default()).unwrap();
    let table = db.create_table("t", hourly_places_spec()).unwrap();
    let before = table.schema();
    let refused = |result: Result<()>, kind: ErrorKind, said: &str| {
        let error = result.unwrap_err();
        assert!(error.kind() == kind && error.to_string().contains(said), "{error}");
        assert_eq!(table.schema(), before);
    };
    let invalid = ErrorKind::InvalidArgument;
    refused(table.drop_column("place"), invalid, "\"place\" is a dimension");
    refused(table.drop_column("delay"), invalid, "only its events do");
    refused(table.drop_column("nope"), ErrorKind::NotFound, "unknown column");
    refused(table.widen("place", &DataType::Binary), invalid, "\"place\" is a dimension");
    let metric = "\"worst\" is a metric of type int64, the widest that metrics have; the column of the events is \"delay\"";
    refused(table.widen("worst", &DataType::Int64), invalid, metric);
    refused(table.widen("load", &DataType::UInt64), invalid, "metrics are made of it");
    refused(
        table.widen("delay", &DataType::Float64),
        invalid,
        "of type int8 cannot be widened to float64",
    );
    refused(table.widen("share", &DataType::Float32), invalid, "cannot be widened");
    // Nothing is made of it any more, and then any type will do.
    table.drop_column("loads").unwrap();
    table.drop_column("mean_load").unwrap();
    table.widen("load", &DataType::UInt64).unwrap();
}

#[test]
fn a_metric_may_have_the_name_of_its_input_again() {
    let columns = Schema::new(vec![
        Field::new("place", DataType::Utf8, true),
        Field::new("load", DataType::Int64, false),
    ]);
    let metrics = vec![("load".to_string(), Metric::sum("load"))];
    let spec = TableSpec::new(Arc::new(columns), ["place"])
        .merge(Merge::Rollup(RollupSpec { metrics, ..RollupSpec::default() }));
    let db = Database::in_memory(Options::default()).unwrap();
    let table = db.create_table("t", spec).unwrap();
    let names = || {
        let columns = table.schema().columns.clone();
        columns.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>()
    };
    table.rename_column("load", "total").unwrap();
    assert_eq!(names(), ["place", "total"]);
    table.rename_column("total", "load").unwrap();
    assert_eq!(names(), ["place", "load"]);
    // Then the input, which has a name of its own once the metric does not share it.
    table.rename_column("load", "total").unwrap();
    table.rename_column("load", "given").unwrap();
    table.rename_column("total", "load").unwrap();
    let refused = |old: &str, new: &str| {
        let error = table.rename_column(old, new).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{old} as {new}: {error}");
    };
    refused("load", "place");
    refused("given", "place");
    refused("place", "given");
    refused("place", "load");
    table.rename_column("given", "load").unwrap();
    let event = RecordBatch::try_from_iter_with_nullable([
        ("place", Arc::new(StringArray::from(vec!["a", "a"])) as ArrayRef, true),
        ("load", Arc::new(Int64Array::from(vec![2, 3])), false),
    ]);
    table.append(&event.unwrap(), OnError::Raise).unwrap();
    assert_eq!(table.snapshot().unwrap().count(&Selection::default()).unwrap(), 1);
}

//! Draw rows and estimate averages while a thread goes on appending: `cargo run -p drillcore --example sampling`.

use std::sync::Arc;
use std::thread;

use drillcore::arrow_array::{Float64Array, Int64Array, RecordBatch, StringArray};
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::{
    Aggregate, Database, EstimateRequest, HalfWidth, OnError, Options, Result, SampleRequest,
    Selection, Stop, TableSpec,
};

/// Batches appended before the table is read, and in all.
const BEFORE: i64 = 20;
const BATCHES: i64 = 30;
const ROWS: i64 = 20_000;

fn main() -> Result<()> {
    let db = Database::in_memory(Options::default())?;
    let columns = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("sensor", DataType::Utf8, false),
        Field::new("load", DataType::Float64, false),
        Field::new("bytes", DataType::Int64, false),
    ]));
    let spec = TableSpec::new(columns.clone(), ["id"]).set("sensor").weights(["bytes"]);
    let readings = db.create_table("readings", spec)?;
    let batch = |number: i64| {
        let ids = || number * ROWS..(number + 1) * ROWS;
        RecordBatch::try_new(
            columns.clone(),
            vec![
                Arc::new(Int64Array::from_iter_values(ids())),
                Arc::new(StringArray::from_iter_values(ids().map(|id| format!("s{}", id % 20)))),
                Arc::new(Float64Array::from_iter_values(ids().map(|id| (id % 101) as f64 / 100.0))),
                Arc::new(Int64Array::from_iter_values(ids().map(|id| id % 7))),
            ],
        )
        .expect("the arrays fit the columns")
    };
    for number in 0..BEFORE {
        readings.append(&batch(number), OnError::Raise)?;
    }

    thread::scope(|scope| {
        let writer = scope.spawn(|| -> Result<()> {
            for number in BEFORE..BATCHES {
                readings.append(&batch(number), OnError::Raise)?;
            }
            Ok(())
        });

        // Each row of this moment is equally likely, and the seed draws the same rows of it again.
        let now = readings.snapshot()?;
        let request = SampleRequest { n: 5, seed: Some(7), ..SampleRequest::default() };
        println!("five rows: {:?}", now.sample(&request)?);

        // In proportion to a column, within a set.
        let sensor = Selection {
            sets: Some(Arc::new(StringArray::from(vec!["s3"]))),
            ..Selection::default()
        };
        let weight = Some("bytes".to_string());
        let request = SampleRequest { n: 3, selection: sensor, weight, ..SampleRequest::default() };
        println!("three rows of s3, by bytes: {:?}", now.sample(&request)?);

        // Draws until each interval is as narrow as this, then says how wide it is.
        let estimate = now.estimate(&EstimateRequest {
            aggregates: vec![("load".into(), Aggregate::avg("load"))],
            stop: Stop::Error(HalfWidth::Relative(0.02)),
            ..EstimateRequest::default()
        })?;
        let load = estimate.aggregates[0].intervals[0];
        println!(
            "average load {:.3}, between {:.3} and {:.3} with 95 % confidence, from {} rows drawn of {}",
            load.value, load.low, load.high, estimate.sampled, estimate.population
        );
        writer.join().expect("the writer does not panic")
    })?;
    db.close()
}

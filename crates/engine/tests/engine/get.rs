//! Rows by their keys, in runs and in segments whose keys overlap or do not.

use std::collections::BTreeMap;
use std::sync::Arc;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::arrow_array::{ArrayRef, RecordBatch, StringArray};
use drillcore::arrow_schema::DataType;
use drillcore::*;
use drillcore_sample::rng::Rng;

use crate::fixtures::{integers, of_keys, schema_of};

const IDS: u64 = 6_000;

fn rows(ids: &[i64], n: i64) -> RecordBatch {
    let columns = [
        ("id", DataType::Int64, false),
        ("place", DataType::Utf8, false),
        ("n", DataType::Int64, false),
    ];
    let counts = integers(ids.iter().map(|_| n));
    RecordBatch::try_new(schema_of(&columns), [key_of(ids), vec![counts]].concat()).unwrap()
}

/// Ids and places, which follow from them and are few.
fn key_of(ids: &[i64]) -> Vec<ArrayRef> {
    let places = ids.iter().map(|id| format!("place {}", id % 13));
    vec![integers(ids.iter().copied()), Arc::new(StringArray::from_iter_values(places))]
}

/// Ids of a batch: neighbours, or from everywhere.
fn some_ids(rng: &mut Rng) -> Vec<i64> {
    let count = 1 + rng.below(400);
    let from = rng.below(IDS - count);
    let mut ids: Vec<i64> = match rng.below(3) {
        0 => (from..from + count).map(|id| id as i64).collect(),
        _ => (0..count).map(|_| rng.below(IDS) as i64).collect(),
    };
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Whatever is asked for with a call, and whichever pieces have it, the newest row of each key comes back, or all of them folded.
#[test]
fn keys_are_found_in_whichever_pieces_have_them() {
    let rollup = RollupSpec::default().metric("n", Metric::sum("n"));
    for (seed, merge) in [(1, Merge::Append), (2, Merge::Upsert), (3, Merge::Rollup(rollup))] {
        let adds_up = matches!(merge, Merge::Rollup(_));
        let database = Database::in_memory(Options::default()).unwrap();
        let _hold = database.hold_maintenance();
        let spec = TableSpec::new(rows(&[0], 0).schema(), ["id", "place"]).merge(merge);
        let table = database.create_table("t", spec).unwrap();
        let mut rng = Rng::keyed(seed, 0);
        let mut expected: BTreeMap<i64, i64> = BTreeMap::new();
        for step in 1..101 {
            match rng.below(12) {
                0 if step > 20 => {
                    let low = rng.below(IDS) as i64;
                    let high = low + rng.below(200) as i64;
                    table.delete_selected(&of_keys(low, high)).unwrap();
                    expected.retain(|id, _| !(low..=high).contains(id));
                }
                0..5 => database.flush().unwrap(),
                _ => {
                    let ids = some_ids(&mut rng);
                    table.append(&rows(&ids, step), OnError::Raise).unwrap();
                    for id in ids {
                        let value = expected.entry(id).or_default();
                        *value = if adds_up { *value + step } else { step };
                    }
                }
            }
            let snapshot = table.snapshot().unwrap();
            for count in [1, 1, 2, 9, if step % 20 == 0 { 5_000 } else { 200 }] {
                let asked: Vec<i64> =
                    (0..count).map(|_| rng.below(IDS + 100) as i64 - 50).collect();
                let found = snapshot.get(&key_of(&asked), None).unwrap();
                let n = found.rows.column(2).as_primitive::<Int64Type>();
                let id = found.rows.column(0).as_primitive::<Int64Type>();
                for (asked, position) in asked.iter().zip(&found.positions) {
                    let row = position.map(|row| row as usize);
                    assert_eq!(row.map(|row| n.value(row)), expected.get(asked).copied());
                    assert!(row.is_none_or(|row| id.value(row) == *asked));
                }
            }
        }
        let stats = database.stats().unwrap();
        assert!(stats.tables[0].segments > 20, "{}", stats.tables[0].segments);
    }
}

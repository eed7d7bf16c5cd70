//! Each read of each call fails once: the call is an error or right, and what is asked after it is right.

use std::sync::Arc;

use drillcore::arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use drillcore::*;
use drillcore_testkit::event_table::{Events, Kind, id_range};
use drillcore_testkit::fault_directory::{FaultDirectory, ReadFault};

use crate::slow_directory::keys;

const EVENTS: Events = Events { teams: 7, payload_bytes: 20 };
const ROWS: i64 = 4_000;

fn open(directory: &FaultDirectory) -> Result<Database> {
    let options = Options { cache_bytes: 0, maintenance_threads: 1, ..Options::default() };
    Database::open_in(Arc::new(directory.clone()), options)
}

/// A segment, one with rows between its own, one with later keys, and rows in the log. The later ones have less than half of the bytes of
/// the first, so that nothing is merged in the moment after an opening.
fn closed_database(kind: Kind) -> FaultDirectory {
    let directory = FaultDirectory::new();
    let db = open(&directory).unwrap();
    let _hold = db.hold_maintenance();
    let table = db.create_table("events", Events::spec_of(kind)).unwrap();
    let even = (0..ROWS).filter(|id| id % 2 == 0);
    let third = (0..ROWS / 2).filter(|id| id % 3 == 0);
    for ids in [even.collect::<Vec<_>>(), third.collect(), (ROWS..ROWS + 200).collect()] {
        EVENTS.append(&table, &ids);
        db.flush().unwrap();
    }
    EVENTS.append(&table, &[1, ROWS + 200]);
    db.close().unwrap();
    directory
}

type Answer = Result<Vec<RecordBatch>>;

fn scanned(table: &TableSnapshot, selection: Selection, columns: Option<&str>) -> Answer {
    let columns = columns.map(|column| vec![column.to_string()]);
    table.scan(ScanRequest { selection, columns, ..Default::default() })?.collect()
}

fn drawn(table: &TableSnapshot, selection: Selection, weight: Option<&str>) -> Answer {
    let (weight, replace) = (weight.map(str::to_string), weight.is_some());
    let (n, seed) = (50, Some(3));
    let request = SampleRequest { n, seed, selection, weight, replace, ..Default::default() };
    Ok(vec![table.sample(&request)?])
}

fn counted(table: &TableSnapshot, selection: Selection) -> Answer {
    let count: ArrayRef = Arc::new(UInt64Array::from(vec![table.count(&selection)?]));
    Ok(vec![RecordBatch::try_from_iter([("count", count)]).unwrap()])
}

type Call = (&'static str, fn(&TableSnapshot) -> Answer);

const CALLS: [Call; 10] = [
    ("scan", |table| scanned(table, Selection::default(), None)),
    ("scan of a column", |table| scanned(table, id_range(ROWS / 2, ROWS), Some("weight"))),
    ("scan of a set", |table| scanned(table, EVENTS.of_team(3), None)),
    ("sample", |table| drawn(table, Selection::default(), None)),
    ("sample of a set", |table| drawn(table, EVENTS.of_team(3), None)),
    ("sample by weight", |table| drawn(table, id_range(500, 3_000), Some("weight"))),
    ("rows of keys", |table| {
        let ids = (0..60).map(|id| id * 7_919 % (ROWS + 500));
        Ok(vec![table.get(&keys(ids), None)?.rows])
    }),
    ("count of a range", |table| counted(table, id_range(700, 2_900))),
    ("count of a set", |table| counted(table, EVENTS.of_team(3))),
    ("sets", |table| {
        let sets = table.sets()?;
        let rows: ArrayRef = Arc::new(UInt64Array::from(sets.rows));
        Ok(vec![RecordBatch::try_from_iter([("set", sets.values), ("rows", rows)]).unwrap()])
    }),
];

/// A fault of the read of some number.
type OfRead = fn(u64) -> ReadFault;

/// Errors that say that a file could not be read, or is too short.
fn check_error(error: &Error, context: &str) {
    let is_of_read = matches!(error.kind(), ErrorKind::Io | ErrorKind::Corrupt);
    assert!(is_of_read, "{context}: {:?}: {error}", error.kind());
}

#[test]
fn whichever_read_of_a_call_fails_the_call_is_an_error_or_right_and_the_next_is_right() {
    for kind in [Kind::Append, Kind::Upsert] {
        let directory = closed_database(kind);
        for (name, call) in CALLS {
            let ask = |fault: Option<(OfRead, u64)>| {
                let db = open(&directory).unwrap();
                let _hold = db.hold_maintenance();
                let table = db.table("events").unwrap().snapshot().unwrap();
                let before = directory.reads();
                directory.set_read_fault(fault.map(|(fault, number)| fault(before + number)));
                let answer = call(&table);
                let reads = directory.reads() - before;
                directory.set_read_fault(None);
                (answer, call(&table), reads)
            };
            let (expected, _, reads) = ask(None);
            let expected = expected.unwrap();
            assert!(expected.iter().any(|batch| batch.num_rows() > 0), "{name}");
            let mut errors = 0;
            for number in 0..reads {
                for fault in [ReadFault::Device as OfRead, ReadFault::EndOfFile] {
                    let (answer, next, _) = ask(Some((fault, number)));
                    let context = format!("{kind:?}, {name}, {:?}", fault(number));
                    match answer {
                        Ok(answer) => assert!(answer == expected, "{context}"),
                        Err(error) => {
                            check_error(&error, &context);
                            errors += 1;
                        }
                    }
                    assert!(next.unwrap() == expected, "{context}, then without");
                }
            }
            println!("{kind:?}, {name}: {reads} reads, {errors} errors");
            // What is read in vain may fail in vain.
            assert!(errors > reads / 2, "{kind:?}, {name}: {errors} errors of {reads} reads");
        }
    }
}

#[test]
fn whichever_read_of_an_opening_fails_it_is_an_error_or_whole_and_the_next_is_whole() {
    let directory = closed_database(Kind::Append);
    let rows = |db: &Database| db.table("events").unwrap().snapshot().unwrap().rows().unwrap();
    let before = directory.reads();
    let expected = rows(&open(&directory).unwrap());
    let reads = directory.reads() - before;
    for number in 0..reads {
        for fault in [ReadFault::Device as OfRead, ReadFault::EndOfFile] {
            let context = format!("{:?}", fault(number));
            directory.set_read_fault(Some(fault(directory.reads() + number)));
            match open(&directory) {
                Ok(db) => assert_eq!(rows(&db), expected, "{context}"),
                Err(error) => check_error(&error, &context),
            }
            directory.set_read_fault(None);
            let db = open(&directory).unwrap();
            assert_eq!(rows(&db), expected, "{context}, then without");
            assert!(db.verify().unwrap().faults.is_empty(), "{context}");
        }
    }
}

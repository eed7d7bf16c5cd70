//! Bench `load`: records that are more than memory, until they are written out and merged, and how steadily they go in.
//!
//! A record is a key of 16 bytes and a value of 100, both of noise, so there is nothing to compress, and each batch has keys
//! from everywhere. Both engines get little memory for rows, and so write each record several times.

use std::path::Path;
use std::time::Instant;

use drillcore::{Database, Options, Selection};

use crate::error::Result;
use crate::figures::report::{Report, grouped};
use crate::peers::file_pages::{sync, write_in_chunks};
#[cfg(feature = "rocksdb")]
use crate::peers::rocksdb_load;
use crate::rows::workload::BATCH_ROWS;
use crate::tables::engine::DRILLCORE;
use crate::tables::record_table;
use crate::tables::records::{
    RECORD_BYTES, Records, WRITTEN_OUT, WRITTEN_ROWS, check_rows, loaded,
};
use crate::trials::setup::Setup;
use crate::trials::trial::{Contender, Outcome, Role};

pub fn load(setup: &Setup) -> Result<Report> {
    let mut trial = setup.trial("load");
    let records = Records::of(setup.arguments);
    let memory_bytes = records.memory_bytes;
    let mut contenders = Vec::new();
    for threads in setup.thread_counts() {
        contenders.push(Contender::new(DRILLCORE, threads, Role::Subject, move |_| {
            let folder = setup.fresh_folder()?;
            of_drillcore(folder.path(), records, threads)
        }));
    }
    #[cfg(feature = "rocksdb")]
    for threads in setup.thread_counts() {
        contenders.push(Contender::new("rocksdb", threads, Role::Peer, move |_| {
            let folder = setup.fresh_folder()?;
            rocksdb_load::of_rocksdb(folder.path(), records, threads)
        }));
    }
    contenders.push(Contender::new("write", 1, Role::Floor, move |_| {
        let (path, mut bytes) = (setup.path("written"), Vec::new());
        let mut seconds = 0.0;
        for number in 0..records.batches() {
            bytes.extend(records.batch(number).concat());
            if bytes.len() as u64 >= memory_bytes || number + 1 == records.batches() {
                let started = Instant::now();
                write_in_chunks(&path, &bytes, 1 << 20)?;
                sync(&path)?;
                seconds += started.elapsed().as_secs_f64();
                bytes.clear();
            }
        }
        Ok(Outcome { values: vec![(WRITTEN_OUT, records.rows as f64 / seconds)], answer: None })
    }));
    trial.compare("keys shuffled", None, &mut contenders)?;
    let (rows, memory) = (grouped(records.rows), memory_bytes >> 20);
    Ok(trial.finish(format!(
        "{rows} records of {RECORD_BYTES} bytes through {memory} MiB, in commits of {} rows",
        grouped(BATCH_ROWS as u64)
    )))
}

fn of_drillcore(folder: &Path, records: Records, threads: u32) -> Result<Outcome> {
    let options = Options { memory_bytes: records.memory_bytes, ..Options::default() };
    let db = Database::open(folder, options)?;
    let table = record_table::create(&db)?;
    let segments = || Ok(db.stats()?.tables[0].segments);
    let append = |records: Vec<[u8; RECORD_BYTES]>| record_table::append(&table, &records);
    let outcome =
        loaded(records, threads, append, segments, || Ok(db.flush()?), || Ok(db.compact()?))?;
    let rows = table.snapshot()?.count(&Selection::default())?;
    check_rows(DRILLCORE, rows, records)?;
    let written = db.stats()?.writer.map_or(0, |writer| writer.rows_written);
    db.close()?;
    Ok(outcome.with(WRITTEN_ROWS, written as f64 / records.rows as f64))
}

//! RocksDB as its users set it up for writes: a log without syncs, background work on all cores, no compression of what
//! cannot be compressed.

use std::path::Path;
use std::thread;

use rocksdb::{DB, DBCompressionType, IteratorMode, WriteBatch};

use crate::error::{Error, Result};
use crate::tables::records::{KEY_BYTES, RECORD_BYTES, Records, WRITTEN_ROWS, check_rows, loaded};
use crate::trials::trial::Outcome;

pub fn of_rocksdb(folder: &Path, records: Records, threads: u32) -> Result<Outcome> {
    let fail =
        |error: rocksdb::Error| Error::io("load", folder)(std::io::Error::other(error.to_string()));
    let mut options = rocksdb::Options::default();
    options.create_if_missing(true);
    options.set_compression_type(DBCompressionType::None);
    options.increase_parallelism(thread::available_parallelism().map_or(2, |n| n.get() as i32));
    options.set_db_write_buffer_size(records.memory_bytes as usize);
    options.set_write_buffer_size(records.memory_bytes as usize / 2);
    let db = DB::open(&options, folder.join("db")).map_err(fail)?;
    let append = |records: Vec<[u8; RECORD_BYTES]>| {
        let mut batch = WriteBatch::default();
        for record in &records {
            batch.put(&record[..KEY_BYTES], &record[KEY_BYTES..]);
        }
        db.write(batch).map_err(fail)
    };
    let files = || Ok(db.live_files().map_err(fail)?.len() as u64);
    let merge = || {
        db.compact_range::<&[u8], &[u8]>(None, None);
        Ok(())
    };
    let outcome = loaded(records, threads, append, files, || db.flush().map_err(fail), merge)?;
    let rows = db.iterator(IteratorMode::Start).count() as u64;
    check_rows("rocksdb", rows, records)?;
    Ok(outcome.with(WRITTEN_ROWS, f64::NAN))
}

//! RocksDB as its users set it up for reads from the device: a filter of 10 bits a key, and its index either in parts that
//! the block cache holds, or wholly in memory.

use std::path::Path;

use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, DB, DBCompressionType, Options, ReadOptions,
    WriteBatch, WriteOptions,
};

use crate::error::{Error, Result};
use crate::peers::read_peer::ReadPeer;
use crate::tables::records::{KEY_BYTES, Records, check_found};

const NAMES: [&str; 2] = ["rocksdb, index in parts", "rocksdb, index in memory"];

/// Opens both anew, each with a block cache of `cache_bytes`, past the cache of the system.
pub fn both(folder: &Path, cache_bytes: u64) -> Result<Vec<ReadPeer>> {
    let opened = |name| {
        let db = open(folder, name, cache_bytes)?;
        Ok(ReadPeer::new(name, move |key| {
            let mut options = ReadOptions::default();
            options.set_verify_checksums(true);
            let found = db.get_pinned_opt(key, &options).map_err(fail)?;
            check_found(name, found.map_or(0, |_| 1))
        }))
    };
    NAMES.into_iter().map(opened).collect()
}

/// Loads the records once for each setting: filters and indexes are written as they are read.
pub fn load(folder: &Path, records: Records) -> Result<()> {
    for name in NAMES {
        let db = open(folder, name, 64 << 20)?;
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        for number in 0..records.batches() {
            let mut batch = WriteBatch::default();
            for record in records.batch(number) {
                batch.put(&record[..KEY_BYTES], &record[KEY_BYTES..]);
            }
            db.write_opt(batch, &options).map_err(fail)?;
        }
        db.flush().map_err(fail)?;
        db.compact_range::<&[u8], &[u8]>(None, None);
    }
    Ok(())
}

fn open(folder: &Path, name: &str, cache_bytes: u64) -> Result<DB> {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(&Cache::new_lru_cache(cache_bytes as usize).map_err(fail)?);
    blocks.set_bloom_filter(10.0, false);
    blocks.set_format_version(5);
    if name == NAMES[0] {
        blocks.set_cache_index_and_filter_blocks(true);
        blocks.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
        blocks.set_partition_filters(true);
        blocks.set_metadata_block_size(4096);
        blocks.set_pin_top_level_index_and_filter(true);
    }
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_compression_type(DBCompressionType::None);
    options.set_use_direct_reads(true);
    options.set_max_open_files(-1);
    options.increase_parallelism(2);
    options.set_block_based_table_factory(&blocks);
    DB::open(&options, folder.join(name)).map_err(fail)
}

fn fail(error: rocksdb::Error) -> Error {
    Error::io("use", Path::new("rocksdb"))(std::io::Error::other(error.to_string()))
}

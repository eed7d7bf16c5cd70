//! redb, a copy-on-write tree with a cache of its own, over files that the system caches, too: so it is measured only where everything is
//! cached.

use std::path::{Path, PathBuf};

use redb::{Builder, Durability, TableDefinition};

use crate::error::{Error, Result};
use crate::peers::read_peer::ReadPeer;
use crate::tables::records::{KEY_BYTES, Key, Records, check_found};

const NAME: &str = "redb";
const TABLE: TableDefinition<'_, &Key, &[u8]> = TableDefinition::new("records");

/// Loads the records, one transaction for each batch; the last one is synced.
pub fn load(folder: &Path, records: Records) -> Result<()> {
    let db = Builder::new().create(path(folder)).map_err(fail)?;
    for number in 0..records.batches() {
        let mut transaction = db.begin_write().map_err(fail)?;
        if number + 1 < records.batches() {
            transaction.set_durability(Durability::None);
        }
        {
            let mut table = transaction.open_table(TABLE).map_err(fail)?;
            for record in records.batch(number) {
                let key = record.first_chunk::<KEY_BYTES>().expect("a record has a key");
                table.insert(key, &record[KEY_BYTES..]).map_err(fail)?;
            }
        }
        transaction.commit().map_err(fail)?;
    }
    Ok(())
}

/// Opens it anew, with one snapshot for all readers.
pub fn open(folder: &Path, cache_bytes: u64) -> Result<ReadPeer> {
    let db = Builder::new().set_cache_size(cache_bytes as usize).open(path(folder));
    let db = db.map_err(fail)?;
    let table = db.begin_read().map_err(fail)?.open_table(TABLE).map_err(fail)?;
    Ok(ReadPeer::new(NAME, move |key| {
        let _held = &db;
        let found = table.get(key).map_err(fail)?;
        check_found(NAME, found.map_or(0, |_| 1))
    }))
}

fn path(folder: &Path) -> PathBuf {
    folder.join("records.redb")
}

fn fail(error: impl Into<redb::Error>) -> Error {
    Error::io("use", Path::new(NAME))(std::io::Error::other(error.into().to_string()))
}

//! The engines that bench `readers` measures beside ours, each behind a feature.

use std::path::Path;

use crate::error::Result;
use crate::peers::read_peer::ReadPeer;
#[cfg(feature = "redb")]
use crate::peers::redb_reads;
#[cfg(feature = "rocksdb")]
use crate::peers::rocksdb_reads;
use crate::tables::records::Records;

/// Loads the records into each.
#[allow(unused_variables, reason = "without features there is none")]
pub fn load(folder: &Path, records: Records) -> Result<()> {
    #[cfg(feature = "rocksdb")]
    rocksdb_reads::load(folder, records)?;
    #[cfg(feature = "redb")]
    redb_reads::load(folder, records)?;
    Ok(())
}

/// Those that read past the cache of the system, with so much of their own.
#[allow(unused_variables, reason = "without features there is none")]
pub fn past_the_system(folder: &Path, cache_bytes: u64) -> Result<Vec<ReadPeer>> {
    #[cfg(feature = "rocksdb")]
    return rocksdb_reads::both(folder, cache_bytes);
    #[cfg(not(feature = "rocksdb"))]
    Ok(Vec::new())
}

/// All, with a cache that holds everything.
pub fn with_cache(folder: &Path, cache_bytes: u64) -> Result<Vec<ReadPeer>> {
    #[allow(unused_mut, reason = "without the feature there is no more")]
    let mut peers = past_the_system(folder, cache_bytes)?;
    #[cfg(feature = "redb")]
    peers.push(redb_reads::open(folder, cache_bytes)?);
    Ok(peers)
}

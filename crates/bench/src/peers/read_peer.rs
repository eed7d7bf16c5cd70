//! Another engine that records are read from.

use crate::error::Result;
use crate::tables::records::Key;

/// Reads a record by its key, and fails where there is none.
type Get = dyn Fn(&Key) -> Result<()> + Send + Sync;

/// An engine that has the records, opened anew.
pub struct ReadPeer {
    pub name: &'static str,
    get: Box<Get>,
}

impl ReadPeer {
    /// An engine whose `get` fails where there is no such record.
    #[cfg(any(feature = "redb", feature = "rocksdb"))]
    pub fn new(
        name: &'static str,
        get: impl Fn(&Key) -> Result<()> + Send + Sync + 'static,
    ) -> ReadPeer {
        ReadPeer { name, get: Box::new(get) }
    }

    pub fn get(&self, key: &Key) -> Result<()> {
        (self.get)(key)
    }
}

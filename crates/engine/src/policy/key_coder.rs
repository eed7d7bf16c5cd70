//! The codes that the keys of a table's batches get.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::ArrayRef;
use drillcore_format::key::{KeyCodes, Keys, KnownCodes, encode_keys_by_code};
use parking_lot::Mutex;

/// Batches after which it is looked again whether texts repeat that did not so far.
const BATCHES_BETWEEN_LOOKS: u64 = 64;

/// Encodes the keys of batches, by code where that is worth it, and with the codes of the batches before where these had the same
/// values: runs of such batches are compacted without writing their keys anew.
#[derive(Debug, Default)]
pub struct KeyCoder {
    known: Mutex<Option<Arc<KnownCodes>>>,
    batches: AtomicU64,
}

impl KeyCoder {
    /// One key per row of key columns, and what codes in it stand for. Of batches that are encoded at the same time the last one
    /// says what is known.
    pub fn encode(&self, columns: &[ArrayRef]) -> (Keys, Option<KeyCodes>) {
        let batch = self.batches.fetch_add(1, Ordering::Relaxed);
        let known = self.known.lock().clone();
        let looks_again = batch.is_multiple_of(BATCHES_BETWEEN_LOOKS);
        let coded = encode_keys_by_code(columns, known.as_deref(), looks_again);
        if let Some(known) = coded.known {
            *self.known.lock() = Some(Arc::new(known));
        }
        (coded.keys, coded.codes)
    }
}

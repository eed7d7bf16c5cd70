//! The codes that the keys and the texts of a table's batches get.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::ArrayRef;
use drillcore_format::key::{KeyCodes, Keys, KnownCodes, encode_keys_by_code};
use drillcore_format::text_codes::{KnownTexts, by_code, plain};
use parking_lot::Mutex;

/// Batches after which it is looked again whether texts repeat that did not so far.
const BATCHES_BETWEEN_LOOKS: u64 = 64;

/// Encodes batches, by code where that is worth it, and with the codes of the batches before where these had the same values: runs of
/// such batches are compacted without writing their keys and texts anew. Of batches that are encoded at the same time the last one
/// says what is known.
#[derive(Debug, Default)]
pub struct BatchCoder {
    known: Mutex<Option<Arc<KnownCodes>>>,
    /// Of columns outside the key, by their index among the values: the list that their texts have; none of those that do not repeat.
    texts: Mutex<HashMap<usize, Option<Arc<KnownTexts>>>>,
    batches: AtomicU64,
}

impl BatchCoder {
    /// One key per row of key columns, and what codes in it stand for.
    pub fn keys(&self, columns: &[ArrayRef]) -> (Keys, Option<KeyCodes>) {
        let batch = self.batches.fetch_add(1, Ordering::Relaxed);
        let known = self.known.lock().clone();
        let coded = encode_keys_by_code(columns, known.as_deref(), looks_again(batch));
        if let Some(known) = coded.known {
            *self.known.lock() = Some(Arc::new(known));
        }
        (coded.keys, coded.codes)
    }

    /// A column of texts outside the key as it is stored: by code, or plain.
    pub fn texts(&self, value: usize, column: &ArrayRef) -> ArrayRef {
        let before = self.texts.lock().get(&value).cloned();
        let known = match &before {
            Some(None) if !looks_again(self.batches.load(Ordering::Relaxed)) => {
                return plain(column);
            }
            before => before.as_ref().and_then(Option::as_ref),
        };
        let (stored, list) = match by_code(column, known) {
            Some((coded, list)) => (coded, Some(list)),
            None => (plain(column), None),
        };
        let is_known = |list: &Arc<KnownTexts>| known.is_some_and(|known| Arc::ptr_eq(known, list));
        if !list.as_ref().is_some_and(is_known) {
            self.texts.lock().insert(value, list);
        }
        stored
    }
}

fn looks_again(batch: u64) -> bool {
    batch.is_multiple_of(BATCHES_BETWEEN_LOOKS)
}

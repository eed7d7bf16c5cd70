//! The codes that the keys and the texts of a table's batches get.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::ArrayRef;
use drillcore_format::key::{KeyCodes, Keys, KnownCodes, encode_keys_by_code};
use drillcore_format::text_codes::{KnownTexts, by_code, tells_worth};
use drillcore_format::texts_by_code::plain;
use parking_lot::Mutex;

/// Batches after which it is looked again whether texts repeat that did not so far.
const BATCHES_BETWEEN_LOOKS: u64 = 64;
/// A longer list is not kept for the next batches: it counts nowhere.
const KNOWN_BYTES_MAX: usize = 1 << 20;

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

/// Encodes one batch.
#[derive(Clone, Copy)]
pub struct OneBatch<'c> {
    coder: &'c BatchCoder,
    looks_again: bool,
}

impl BatchCoder {
    pub fn next_batch(&self) -> OneBatch<'_> {
        let batch = self.batches.fetch_add(1, Ordering::Relaxed);
        OneBatch { coder: self, looks_again: batch.is_multiple_of(BATCHES_BETWEEN_LOOKS) }
    }
}

impl OneBatch<'_> {
    /// One key per row of key columns, and what codes in it stand for.
    pub fn keys(self, columns: &[ArrayRef]) -> (Keys, Option<KeyCodes>) {
        let known = self.coder.known.lock().clone();
        let coded = encode_keys_by_code(columns, known.as_deref(), self.looks_again);
        if let Some(known) = coded.known {
            *self.coder.known.lock() = Some(Arc::new(known));
        }
        (coded.keys, coded.codes)
    }

    /// A column of texts outside the key as it is stored: by code, or plain.
    pub fn texts(self, value: usize, column: &ArrayRef) -> ArrayRef {
        let before = self.coder.texts.lock().get(&value).cloned();
        let known = match &before {
            _ if !tells_worth(column) => return plain(column),
            Some(None) if !self.looks_again => return plain(column),
            before => before.as_ref().and_then(Option::as_ref),
        };
        let Some((coded, list)) = by_code(column, known) else {
            self.coder.texts.lock().insert(value, None);
            return plain(column);
        };
        if !known.is_some_and(|known| Arc::ptr_eq(known, &list)) {
            let mut all = self.coder.texts.lock();
            match list.allocated_bytes() <= KNOWN_BYTES_MAX {
                true => all.insert(value, Some(list)),
                false => all.remove(&value),
            };
        }
        coded
    }
}

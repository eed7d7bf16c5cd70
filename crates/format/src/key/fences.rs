//! Fences: every 64th of some sorted keys, as a machine word. They bring a search near its end before it reads a key.

use std::ops::RangeInclusive;

use super::bound::{Bound, BoundWithin};
use super::keys::Keys;

/// Keys from one fence to the next: what is searched key by key lies together then, and fences take an eighth of a byte a
/// key.
const STRIDE: usize = 64;

/// Fences of sorted keys.
///
/// A fence is the first eight bytes of a key behind what all keys begin with, as a number, which orders like the keys as
/// far as it goes. So a search among fences reads a word each step, out of a list that stays in the processor's caches,
/// where a search among keys waits for memory twice.
#[derive(Debug)]
pub struct KeyFences {
    /// Bytes that all keys begin with.
    shared: Box<[u8]>,
    fences: Box<[u64]>,
    keys: usize,
}

impl KeyFences {
    /// Fences of keys that ascend. O(keys / 64).
    pub fn new(keys: &Keys) -> KeyFences {
        let shared = match keys.len() {
            0 => &[][..],
            len => common_prefix(keys.value(0), keys.value(len - 1)),
        };
        let fence = |number: usize| word(&keys.value(number)[shared.len()..], 0x00);
        let fences = (0..keys.len()).step_by(STRIDE).map(fence).collect();
        KeyFences { shared: shared.into(), fences, keys: keys.len() }
    }

    /// The number of keys before a bound. `keys` are those that the fences were made of. O(log keys), of which the last
    /// few steps compare keys; `compared` grows by their number.
    pub fn rank(&self, keys: &Keys, bound: &Bound, compared: &mut usize) -> usize {
        match bound.within(&self.shared) {
            BoundWithin::Before => 0,
            BoundWithin::Behind => self.keys,
            within @ BoundWithin::At { rest, past_prefix } => {
                let least = word(rest, 0x00);
                let greatest = if past_prefix { word(rest, 0xff) } else { least };
                self.search(keys, least..=greatest, compared, |tail| within.lies_before(tail))
            }
        }
    }

    /// The number of the last key that equals `key`, if one does. Costs what [`KeyFences::rank`] does.
    pub fn last(&self, keys: &Keys, key: &[u8], compared: &mut usize) -> Option<usize> {
        let rest = key.strip_prefix(&*self.shared)?;
        let least = word(rest, 0x00);
        let past = self.search(keys, least..=least, compared, |tail| tail > rest);
        *compared += 1;
        past.checked_sub(1).filter(|&last| keys.value(last) == key)
    }

    pub fn allocated_bytes(&self) -> usize {
        self.shared.len() + size_of_val(&*self.fences)
    }

    /// The first key that lies behind some place, or the number of keys. Those whose words are less than all of `words` do
    /// not, those whose words are greater do, and of the others `is_behind` says, which gets what comes after the shared
    /// bytes.
    fn search(
        &self,
        keys: &Keys,
        words: RangeInclusive<u64>,
        compared: &mut usize,
        is_behind: impl Fn(&[u8]) -> bool,
    ) -> usize {
        let (least, greatest) = words.into_inner();
        let below = self.fences.partition_point(|&fence| fence < least);
        let others = &self.fences[below..];
        let among = match others.first() {
            Some(&fence) if fence <= greatest => others.partition_point(|&fence| fence <= greatest),
            _ => 0,
        };
        let mut low = below.checked_sub(1).map_or(0, |last| last * STRIDE + 1);
        let mut high = self.keys.min((below + among) * STRIDE);
        while low < high {
            *compared += 1;
            let middle = low + (high - low) / 2;
            let tail = &keys.value(middle)[self.shared.len()..];
            let word = word(tail, 0x00);
            if word > greatest || word >= least && is_behind(tail) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }
}

fn common_prefix<'k>(first: &'k [u8], last: &[u8]) -> &'k [u8] {
    let shared = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    &first[..shared]
}

/// The first eight bytes as a number that orders like them; what is missing is filled up.
fn word(bytes: &[u8], fill: u8) -> u64 {
    match bytes.first_chunk() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let mut first = [fill; size_of::<u64>()];
            first[..bytes.len()].copy_from_slice(bytes);
            u64::from_be_bytes(first)
        }
    }
}

//! How many blocks are read together: enough to keep a device busy, and no more bytes than a bound.

use std::sync::mpsc::sync_channel;
use std::thread::{self, Builder};

/// Blocks of one wave of reads: some times as many as a device answers at once, so that the end of a wave, where fewer
/// are under way, is a small part of it.
const BLOCKS: usize = 256;
/// Bytes of blocks that are held at the same time, unless one block is longer.
const BYTES: u64 = 4 << 20;

/// Cuts what has a block each into waves.
pub fn block_windows<T>(items: &[T], bytes: impl Fn(&T) -> u32) -> impl Iterator<Item = &[T]> {
    let mut rest = items;
    std::iter::from_fn(move || {
        let mut sum = 0;
        let fits = |item: &&T| {
            sum += u64::from(bytes(item));
            sum <= BYTES
        };
        let count = rest.iter().take(BLOCKS).take_while(fits).count().max(1).min(rest.len());
        let (window, later) = rest.split_at(count);
        rest = later;
        (!window.is_empty()).then_some(window)
    })
}

/// Calls `each` with one wave after the other and with what `read` gave for it, until it fails or says that no more is wanted. A
/// thread reads the next wave meanwhile, where there is one: so a device is not idle while blocks are taken apart, and two
/// waves are held.
pub fn read_ahead<'i, T: Sync, R: Send, E>(
    items: &'i [T],
    bytes: impl Fn(&T) -> u32 + Sync,
    read: impl Fn(&'i [T]) -> R + Sync,
    mut each: impl FnMut(&'i [T], R) -> Result<bool, E>,
) -> Result<bool, E> {
    let mut windows = block_windows(items, &bytes);
    let Some(first) = windows.next() else { return Ok(true) };
    if first.len() == items.len() {
        return each(first, read(first));
    }
    thread::scope(|scope| {
        let (sender, receiver) = sync_channel(0);
        let (read, bytes) = (&read, &bytes);
        let ahead = move || {
            let rest = block_windows(items, bytes).skip(1);
            // The receiver is gone once the caller wants no more.
            rest.map(read).map(|wave| sender.send(wave)).take_while(Result::is_ok).for_each(drop);
        };
        let ahead = Builder::new().name("drillcore-read-ahead".into()).spawn_scoped(scope, ahead);
        let mut next = Some(read(first));
        let mut window = first;
        while let Some(wave) = next.take() {
            if !each(window, wave)? {
                return Ok(false);
            }
            let Some(later) = windows.next() else { break };
            window = later;
            next = match &ahead {
                Ok(_) => receiver.recv().ok(),
                Err(_) => Some(read(window)),
            };
        }
        Ok(true)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waves_that_are_read_ahead_come_in_order_until_no_more_is_wanted() {
        for count in [0, 1, 256, 257, 2_000] {
            let items: Vec<u32> = (0..count).collect();
            for wanted in [0, 1, 300, 5_000] {
                let mut seen = Vec::new();
                let whole = read_ahead(
                    &items,
                    |_| 4096,
                    |window| window.to_vec(),
                    |window, wave| {
                        assert_eq!(window, wave);
                        seen.extend(wave);
                        Ok::<bool, ()>(seen.len() < wanted)
                    },
                );
                assert!(items.starts_with(&seen));
                assert_eq!(whole, Ok(seen.len() < wanted || count == 0));
                assert!(seen.len() >= wanted.min(items.len()));
            }
        }
        let failed = read_ahead(&[1; 600], |_| 4096, |_| (), |_, ()| Err::<bool, u8>(7));
        assert_eq!(failed, Err(7));
    }

    #[test]
    fn waves_keep_to_both_bounds_and_lose_nothing() {
        let lens = |bytes: &[u32]| -> Vec<usize> {
            let windows: Vec<&[u32]> = block_windows(bytes, |bytes| *bytes).collect();
            assert_eq!(windows.concat(), bytes);
            windows.iter().map(|window| window.len()).collect()
        };
        assert_eq!(lens(&[]), [0; 0]);
        assert_eq!(lens(&[4096; 600]), [256, 256, 88]);
        assert_eq!(lens(&[9 << 20, 4096, 3 << 20, 2 << 20]), [1, 2, 1]);
    }
}

//! How many blocks are read together: enough to keep a device busy, and no more bytes than a bound.

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

#[cfg(test)]
mod tests {
    use super::*;

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

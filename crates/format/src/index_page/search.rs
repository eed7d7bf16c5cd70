//! Binary searches for numbers below a length.

/// The last of `len` separators that does not lie behind a bound, else the first.
pub(super) fn last_before(len: usize, lies_behind: impl FnMut(usize) -> bool) -> usize {
    partition_point(len, lies_behind).saturating_sub(1)
}

/// The first of `0..len` for which `past` holds, else `len`; `past` must not turn false again.
pub(super) fn partition_point(len: usize, mut past: impl FnMut(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        if past(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

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

/// As [`partition_point`], in few steps if the answer is near `guess`, and in about twice as many if it is not: from there on, steps
/// double (Bentley and Yao, Information Processing Letters 1976).
pub(super) fn partition_point_near(
    guess: usize,
    len: usize,
    mut past: impl FnMut(usize) -> bool,
) -> usize {
    let (mut low, mut high, mut step) = (0, len, 1);
    if guess < len && !past(guess) {
        low = guess + 1;
        while low + step < high {
            if past(low + step - 1) {
                high = low + step - 1;
                break;
            }
            low += step;
            step *= 2;
        }
    } else {
        high = guess.min(len);
        while low + step < high {
            if !past(high - step) {
                low = high - step + 1;
                break;
            }
            high -= step;
            step *= 2;
        }
    }
    low + partition_point(high - low, |number| past(low + number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guess_changes_how_long_a_search_takes_and_not_what_it_finds() {
        for len in 0..70 {
            for (answer, guess) in
                (0..=len).flat_map(|answer| (0..len + 3).map(move |g| (answer, g)))
            {
                let mut looks = 0;
                let past = |number: usize| {
                    assert!(number < len);
                    looks += 1;
                    number >= answer
                };
                assert_eq!(partition_point_near(guess, len, past), answer, "{len} {guess}");
                let far = guess.abs_diff(answer) + 2;
                assert!(
                    looks <= 2 * far.ilog2() + 3,
                    "{looks} looks for {answer} from {guess} of {len}"
                );
            }
        }
    }
}

//! [`overlap`]: what two ranges have in common.

use std::ops::Range;

/// The part of a range that lies in another one. It is empty if there is none; its start may then lie behind its end.
pub fn overlap<T: Ord + Copy>(range: &Range<T>, other: &Range<T>) -> Range<T> {
    range.start.max(other.start)..range.end.min(other.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_only_touch_have_nothing_in_common() {
        assert_eq!(overlap(&(2..7), &(4..9)), 4..7);
        assert_eq!(overlap(&(4..9), &(2..7)), 4..7);
        assert_eq!(overlap(&(2..9), &(4..7)), 4..7);
        assert!(overlap(&(2..4), &(4..7)).is_empty());
        assert!(overlap(&(2..4), &(6..7)).is_empty());
    }
}

//! How the budget of a page cache is divided.
//!
//! Index pages of open segments that are resident come first, up to a half. Of the rest, pages that describe rows have 40 %
//! for certain and blocks of rows 60 %, so that neither starves the other; but what one of them does not use, the
//! other may.

/// The share of the budget that resident index pages may take, in percent ...
const RESIDENT_PERCENT_MAX: u64 = 50;
/// ... and of the rest, what pages that describe rows have for certain.
const INDEX_PERCENT: u64 = 40;
/// The border between the two moves by this part of what they share.
const STEP_SHARE: u64 = 32;

/// Bytes for each use of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shares {
    budget: u64,
    resident: u64,
    index: u64,
}

impl Shares {
    pub fn of(budget: u64) -> Shares {
        Shares { budget, resident: 0, index: percent(budget, INDEX_PERCENT) }
    }

    pub fn resident(&self) -> u64 {
        self.resident
    }

    /// For pages that describe rows.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// For blocks of rows.
    pub fn blocks(&self) -> u64 {
        self.shared() - self.index
    }

    /// Takes some bytes for resident pages, if they fit.
    pub fn reserve(&mut self, bytes: u64) -> bool {
        let Some(resident) = self.resident.checked_add(bytes) else { return false };
        if resident > percent(self.budget, RESIDENT_PERCENT_MAX) {
            return false;
        }
        self.set_resident(resident);
        true
    }

    /// Gives them back.
    pub fn release(&mut self, bytes: u64) {
        self.set_resident(self.resident - bytes);
    }

    fn set_resident(&mut self, resident: u64) {
        let before = self.shared();
        self.resident = resident;
        let scaled = u128::from(self.index) * u128::from(self.shared()) / u128::from(before.max(1));
        self.index = scaled as u64;
    }

    /// Moves the border by a step towards the one that does not use its bytes, seen how many each holds; if both are full,
    /// towards what each has for certain. Says whether it moved.
    pub fn balance(&mut self, index_held: u64, blocks_held: u64) -> bool {
        let step = self.shared() / STEP_SHARE;
        let is_full = |held: u64, share: u64| held.saturating_add(step) >= share;
        let is_idle = |held: u64, share: u64| held.saturating_add(step * 2) <= share;
        let before = self.index;
        let certain = percent(self.shared(), INDEX_PERCENT);
        let index_full = is_full(index_held, self.index);
        let blocks_full = is_full(blocks_held, self.blocks());
        if index_full && is_idle(blocks_held, self.blocks()) {
            self.index += step;
        } else if blocks_full && is_idle(index_held, self.index) {
            self.index -= step;
        } else if index_full && blocks_full {
            self.index = match self.index < certain {
                true => certain.min(self.index + step),
                false => certain.max(self.index - step.min(self.index)),
            };
        }
        self.index != before
    }

    /// What is not resident.
    fn shared(&self) -> u64 {
        self.budget - self.resident
    }
}

fn percent(bytes: u64, percent: u64) -> u64 {
    (u128::from(bytes) * u128::from(percent) / 100) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_one_side_does_not_use_the_other_gets_until_it_is_wanted() {
        let mut shares = Shares::of(1000);
        assert_eq!((shares.index(), shares.blocks()), (400, 600));
        // Only blocks are read.
        while shares.balance(0, shares.blocks()) {}
        assert!(shares.blocks() > 900, "{shares:?}");
        // Now all that is held of the others is full, too.
        while shares.balance(shares.index(), shares.blocks()) {}
        assert_eq!((shares.index(), shares.blocks()), (400, 600));
        while shares.balance(shares.index(), 0) {}
        assert!(shares.index() > 900, "{shares:?}");
    }

    #[test]
    fn resident_pages_take_a_half_at_most_and_give_it_back() {
        let mut shares = Shares::of(1000);
        assert!(shares.reserve(300) && !shares.reserve(201) && shares.reserve(200));
        assert_eq!((shares.resident(), shares.index(), shares.blocks()), (500, 200, 300));
        shares.release(500);
        assert_eq!((shares.index(), shares.blocks()), (400, 600));
        assert!(!shares.reserve(u64::MAX));
        assert!(!Shares::of(0).reserve(1));
    }

    proptest! {
        #[test]
        fn the_shares_are_the_budget_whatever_happens(
            budget: u64, events in prop::collection::vec((any::<u64>(), any::<u64>(), 0u8..3), 0..50)
        ) {
            let mut shares = Shares::of(budget);
            for (one, other, what) in events {
                match what {
                    0 => drop(shares.reserve(one % 1000)),
                    1 if shares.resident() > 0 => shares.release(one % shares.resident()),
                    _ => drop(shares.balance(one, other)),
                }
                let sum = u128::from(shares.resident()) + u128::from(shares.index()) + u128::from(shares.blocks());
                prop_assert_eq!(sum, u128::from(budget));
            }
        }
    }
}

//! Running sums of weights over the members of sets of a run, for those sets that are drawn from.
//!
//! To add up the weights of some members takes as many steps. Once draws have added up as many as a set has, the sums of all its
//! members are kept with the run. So a set that is drawn from often costs, however its draws are spread over key ranges, at most
//! twice what it costs to add it up once, and a set that is never drawn from by weight takes no memory. There is a limit to what all
//! sums of a database take; beyond it none are added, until runs go with theirs.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::Result;
use crate::pieces::memory_meter::{Charge, MemoryMeter};
use crate::pieces::weight_index::WeightIndex;

/// Sums of fewer members are not worth keeping.
const MEMBERS_MIN: u64 = 256;
/// What the sums of a set take besides their arrays: the objects around these, and the entry. Less than two bytes per member.
const ENTRY_BYTES: usize = 400;

/// See the module.
#[derive(Debug, Default)]
pub struct MemberWeights {
    of_sets: Mutex<HashMap<SetWeight, Known>>,
}

/// A weight column of a set, by the position of the set's first member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SetWeight {
    pub first: u32,
    pub weight: usize,
}

#[derive(Debug)]
enum Known {
    /// How many members were added up so far.
    Added(u64),
    Kept(Arc<KeptWeights>),
}

/// The weights of a set's members in their order, with running sums.
#[derive(Debug)]
pub struct KeptWeights {
    pub sums: WeightIndex,
    _charge: Charge,
}

impl MemberWeights {
    /// The sums of a set that has some `members`, of which `asked` are drawn from now. `None` if it is as well to add up these; else
    /// `find` gives them once, and the meter counts them.
    pub fn sums(
        &self,
        of: SetWeight,
        members: u64,
        asked: u64,
        meter: &MemoryMeter,
        find: impl FnOnce() -> Result<WeightIndex>,
    ) -> Result<Option<Arc<KeptWeights>>> {
        if members < MEMBERS_MIN {
            return Ok(None);
        }
        match self.of_sets.lock().entry(of).or_insert(Known::Added(0)) {
            Known::Kept(kept) => return Ok(Some(kept.clone())),
            Known::Added(added) => {
                *added = added.saturating_add(asked);
                if *added < members || !meter.has_room_for_sums() {
                    return Ok(None);
                }
            }
        }
        // Without the lock, though two threads may find the same: other sets are drawn from meanwhile.
        let sums = find()?;
        let charge = meter.charge_sums((sums.bytes_with_values() + ENTRY_BYTES) as u64);
        let kept = Arc::new(KeptWeights { sums, _charge: charge });
        self.of_sets.lock().insert(of, Known::Kept(kept.clone()));
        Ok(Some(kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Int64Array};

    /// At least what the sums of 1,000 weights of eight bytes take.
    const SUM_BYTES: u64 = 9_000;

    #[test]
    fn sums_are_kept_once_as_many_members_were_asked_for_as_there_are() {
        let (weights, meter) = (MemberWeights::default(), MemoryMeter::with_sums(2 * SUM_BYTES));
        let find = || WeightIndex::new(&(Arc::new(Int64Array::from(vec![1; 1_000])) as ArrayRef));
        let of = |first: u32| SetWeight { first, weight: 0 };
        let asked = |first: u32, members: u64, asked: u64| {
            weights.sums(of(first), members, asked, &meter, find).unwrap().is_some()
        };
        assert!(!asked(0, MEMBERS_MIN - 1, MEMBERS_MIN - 1), "too few");
        assert!(!asked(0, 1_000, 400));
        assert!(!asked(0, 1_000, 400));
        assert_eq!(meter.list_bytes(), 0);
        assert!(asked(0, 1_000, 400));
        assert!(asked(0, 1_000, 1), "they are known");
        assert!(!asked(1_000, 1_000, 400), "another set");
        let of_one = meter.list_bytes();
        assert!((8_000..=SUM_BYTES).contains(&of_one), "{of_one}");
        assert!(asked(2_000, 1_000, 1_000), "all at once");
        assert!(asked(3_000, 1_000, 1_000), "there was room for some of it");
        assert!(!asked(4_000, 1_000, 1_000), "there is none");
        assert_eq!((meter.list_bytes(), meter.all_row_bytes()), (3 * of_one, 0));
        drop(weights);
        assert_eq!(meter.list_bytes(), 0);
    }
}

//! How much reads would have saved, had a table fewer runs.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::state::work_signal::WorkSignal;

/// Searches that a thread counts for itself before it adds them to those of the others, in the mean and at the most.
const SEARCHES_TOGETHER: u64 = 32;
const SEARCHES_TOGETHER_MAX: u64 = 2 * SEARCHES_TOGETHER - 1;
/// Workers are woken after this number of searches, and then each time it has doubled.
pub const SEARCHES_MIN: u64 = 1 << 10;

/// Searches of all runs of a table since reads had some of them compacted last. Clones share the count.
#[derive(Clone)]
pub struct RunDemand {
    searches: Arc<AtomicU64>,
    /// Where workers wait.
    work: Arc<WorkSignal>,
}

/// What a thread has counted for itself.
#[derive(Clone, Copy)]
struct Counted {
    searches: u64,
    /// With this many they are added to a table.
    together: u64,
    /// Where the pseudo-random sequence of these numbers is.
    sequence: u64,
}

impl Counted {
    /// Each thread begins elsewhere, so one that ends after a few searches may have added them.
    fn of_new_thread() -> Counted {
        static THREADS: AtomicU64 = AtomicU64::new(0);
        let sequence = THREADS.fetch_add(1, Ordering::Relaxed);
        Counted { searches: 0, together: 0, sequence }.begun_anew()
    }

    fn begun_anew(self) -> Counted {
        // SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
        let sequence = self.sequence.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (sequence ^ (sequence >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let together = 1 + (mixed ^ (mixed >> 31)) % SEARCHES_TOGETHER_MAX;
        Counted { searches: 0, together, sequence }
    }
}

impl RunDemand {
    pub fn new(searches: Arc<AtomicU64>, work: Arc<WorkSignal>) -> RunDemand {
        RunDemand { searches, work }
    }

    /// Counts searches of all runs. Mostly that is an addition of the thread's own: what it has counted together counts for the
    /// table that it searches then. After how many searches that is, is random: so each table gets its share in the mean, in
    /// whatever turns a thread searches several.
    pub fn note(&self, searches: u64) {
        thread_local! {
            static COUNTED: Cell<Counted> = Cell::new(Counted::of_new_thread());
        }
        let mut counted = COUNTED.get();
        counted.searches = counted.searches.saturating_add(searches);
        if counted.searches < counted.together {
            COUNTED.set(counted);
            return;
        }
        COUNTED.set(counted.begun_anew());
        let counted = counted.searches;
        let before = self.searches.fetch_add(counted, Ordering::Relaxed);
        let after = before.saturating_add(counted);
        if after >= SEARCHES_MIN && (before.max(1).ilog2() < after.ilog2()) {
            self.work.raise_by_reads();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two tables that a thread searched in turns, one got all searches: each 64th.
    #[test]
    fn tables_that_are_searched_in_turns_each_get_their_share() {
        const ROUNDS: u64 = 1 << 16;
        for turns in [[1, 1], [1, 3], [63, 1], [5, 2]] {
            let counts = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
            let demands =
                counts.each_ref().map(|count| RunDemand::new(count.clone(), Arc::default()));
            for _ in 0..ROUNDS {
                for (demand, searches) in demands.iter().zip(turns) {
                    (0..searches).for_each(|_| demand.note(1));
                }
            }
            let counts = counts.map(|count| count.load(Ordering::Relaxed));
            let all = ROUNDS * (turns[0] + turns[1]);
            assert!(counts[0] + counts[1] > all - SEARCHES_TOGETHER_MAX, "{counts:?} of {all}");
            for (count, searches) in counts.into_iter().zip(turns) {
                let share = (ROUNDS * searches) as f64;
                assert!((count as f64 / share - 1.0).abs() < 0.25, "{counts:?} in turns {turns:?}");
            }
        }
    }
}

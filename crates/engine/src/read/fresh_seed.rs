//! Seeds for draws that name none.

use std::cell::RefCell;

use drillcore_sample::rng::Rng;
use drillcore_storage::files::process::Process;

/// Seeds are drawn from a stream of their own.
const STREAM: u64 = 0x5eed;

thread_local! {
    /// Asking the operating system takes a tenth of a draw of one row, so it is asked once per thread and process.
    static SEEDS: RefCell<Option<(Process, Rng)>> = const { RefCell::new(None) };
}

/// A seed that no other call gets: not in this thread, in another, or in a process that was forked off.
pub fn fresh_seed() -> u64 {
    SEEDS.with_borrow_mut(|seeds| next(seeds, Process::current()))
}

fn next(seeds: &mut Option<(Process, Rng)>, here: Process) -> u64 {
    // A fork has the numbers of the process that it left.
    seeds.take_if(|(process, _)| *process != here);
    let (_, rng) = seeds.get_or_insert_with(|| {
        let seed = getrandom::u64().expect("the operating system gives random numbers");
        (here, Rng::keyed(seed, STREAM))
    });
    rng.next_u64()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::thread;

    use super::*;

    #[test]
    fn seeds_of_all_threads_differ() {
        let draw = || (0..100).map(|_| fresh_seed()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| thread::spawn(draw)).collect();
        let seeds: HashSet<u64> =
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).chain(draw()).collect();
        assert_eq!(seeds.len(), 500);
    }
}

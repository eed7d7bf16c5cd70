//! Work in equal steps that several threads share; the calling thread is one of them.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Builder};

use crate::error::{Error, Result};

/// The stack of a thread: tests of deep conditions, and expressions, take a stack of their own where less than 4 MiB are left.
const STACK_BYTES: usize = 8 << 20;

/// The results of steps 0 to `count`, in order. Threads take step after step until none is left or one fails;
/// with one thread, nothing is started.
pub fn side_by_side<T: Send>(
    count: usize,
    threads: usize,
    step: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    if threads.min(count) < 2 {
        return (0..count).map(step).collect();
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok(done);
            }
            match step(number) {
                Ok(result) => done.push((number, result)),
                Err(error) => {
                    next.store(count, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
    };
    let mut done = thread::scope(|scope| {
        // Where no thread can be started, those that there are do the work.
        let thread = || Builder::new().name("drillcore-read".into()).stack_size(STACK_BYTES);
        let start = |_| thread().spawn_scoped(scope, work).ok();
        let others: Vec<_> = (1..threads.min(count)).filter_map(start).collect();
        let mut done = work();
        for other in others {
            let others = other.join().unwrap_or_else(|panic| resume_unwind(panic));
            done = done.and_then(|mut done| {
                done.extend(others?);
                Ok(done)
            });
        }
        done
    })?;
    done.sort_unstable_by_key(|(number, _)| *number);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

/// How many threads a call takes that was asked for some, by default one per core, where each should have
/// `items_per_thread` at least.
pub fn threads_for(asked: Option<usize>, items: u64, items_per_thread: u64) -> Result<usize> {
    let most = usize::try_from(items / items_per_thread).unwrap_or(usize::MAX).max(1);
    match asked {
        Some(0) => Err(Error::invalid("threads must be at least 1, got 0")),
        Some(threads) => Ok(threads.min(most)),
        // To count the cores takes longer than to read a few rows.
        None if most == 1 => Ok(1),
        None => Ok(thread::available_parallelism().map_or(1, usize::from).min(most)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn results_come_in_order_whoever_did_the_work() {
        for threads in [1, 2, 3, 200] {
            let squares = side_by_side(100, threads, |number| Ok(number * number)).unwrap();
            assert_eq!(squares, (0..100).map(|number| number * number).collect::<Vec<_>>());
        }
        assert!(side_by_side(0, 3, Ok).unwrap().is_empty());
    }

    #[test]
    fn an_error_ends_the_work() {
        for threads in [1, 3] {
            let steps = AtomicUsize::new(0);
            let done = side_by_side(1_000_000, threads, |number| {
                steps.fetch_add(1, Ordering::Relaxed);
                if number == 5 { Err(Error::new(ErrorKind::Io, "the disk burns")) } else { Ok(()) }
            });
            assert_eq!(done.unwrap_err().kind(), ErrorKind::Io);
            assert!(steps.load(Ordering::Relaxed) < 1_000_000);
        }
    }

    #[test]
    fn nobody_waits_for_a_thread_with_nothing_to_do() {
        assert_eq!(threads_for(Some(8), 99, 100).unwrap(), 1);
        assert_eq!(threads_for(None, 99, 100).unwrap(), 1);
        assert_eq!(threads_for(Some(8), 350, 100).unwrap(), 3);
        assert_eq!(threads_for(Some(2), 1_000_000, 100).unwrap(), 2);
        assert_eq!(
            threads_for(Some(0), 1_000_000, 100).unwrap_err().kind(),
            ErrorKind::InvalidArgument
        );
    }
}

//! Loads under way, each shared by all who want the same thing.
//!
//! Whoever wants a page first loads it; who wants it before that is over waits, and gets what came of it, the error
//! too. So a page that cannot be read costs each of its readers the time of one read, however many they are.
//! Nothing is kept of a load that is over: later readers try anew.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::Arc;

use crate::error::{Result, StorageError};
use crate::sync::{Condvar, Mutex};

/// The loads of one kind of things.
pub struct SharedLoads<K, V> {
    under_way: Mutex<HashMap<K, Arc<Load<V>>>>,
}

struct Load<V> {
    end: Mutex<Option<End<V>>>,
    ended: Condvar,
}

enum End<V> {
    Loaded(V),
    Failed(StorageError),
    /// It panicked.
    Abandoned,
}

/// What one who wants something does about it.
enum Role<'a, K: Hash + Eq, V> {
    Loads(Loading<'a, K, V>),
    Waits(Arc<Load<V>>),
}

/// Loads for all. However that ends, nobody is left waiting.
struct Loading<'a, K: Hash + Eq, V> {
    loads: &'a SharedLoads<K, V>,
    key: K,
    load: Arc<Load<V>>,
    end: End<V>,
}

impl<K: Hash + Eq + Copy, V: Clone> SharedLoads<K, V> {
    pub fn new() -> SharedLoads<K, V> {
        SharedLoads { under_way: Mutex::default() }
    }

    /// What `find` has, or a load under way brings, or else `load`. What was loaded is given to `keep` before
    /// anyone can load it again.
    pub fn get(
        &self,
        key: K,
        find: impl Fn() -> Option<V>,
        load: impl FnOnce() -> Result<V>,
        keep: impl FnOnce(V),
    ) -> Result<V> {
        loop {
            if let Some(found) = find() {
                return Ok(found);
            }
            match self.role(key) {
                Role::Waits(load) => match load.wait() {
                    Some(result) => return result,
                    None => continue,
                },
                Role::Loads(mut loading) => {
                    // It may have been kept since.
                    let result = match find() {
                        Some(found) => Ok(found),
                        None => load().inspect(|loaded| keep(loaded.clone())),
                    };
                    loading.end = match &result {
                        Ok(loaded) => End::Loaded(loaded.clone()),
                        Err(error) => End::Failed(error.clone()),
                    };
                    return result;
                }
            }
        }
    }

    fn role(&self, key: K) -> Role<'_, K, V> {
        match self.under_way.lock().entry(key) {
            Entry::Occupied(load) => Role::Waits(load.get().clone()),
            Entry::Vacant(place) => {
                let load = Arc::new(Load { end: Mutex::new(None), ended: Condvar::new() });
                place.insert(load.clone());
                Role::Loads(Loading { loads: self, key, load, end: End::Abandoned })
            }
        }
    }
}

impl<V: Clone> Load<V> {
    /// What came of it; `None` if nothing did, and somebody else has to load.
    fn wait(&self) -> Option<Result<V>> {
        let mut end = self.end.lock();
        loop {
            match &*end {
                None => end = self.ended.wait(end),
                Some(End::Loaded(loaded)) => return Some(Ok(loaded.clone())),
                Some(End::Failed(error)) => return Some(Err(error.clone())),
                Some(End::Abandoned) => return None,
            }
        }
    }
}

impl<K: Hash + Eq, V> Drop for Loading<'_, K, V> {
    fn drop(&mut self) {
        // Who comes from now on loads anew; who came before holds the load.
        self.loads.under_way.lock().remove(&self.key);
        *self.load.end.lock() = Some(std::mem::replace(&mut self.end, End::Abandoned));
        self.load.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::error::IoContext;

    const READERS: usize = 16;
    const READ: Duration = Duration::from_millis(200);

    /// What each of some readers gets who come together, and how long all of them took.
    fn together(read: impl Fn(usize) -> Result<u64> + Sync) -> (Vec<Result<u64>>, Duration) {
        let loads = SharedLoads::new();
        let barrier = Barrier::new(READERS);
        let started = Instant::now();
        let results = thread::scope(|scope| {
            let reader = |number: usize| {
                let (loads, barrier, read) = (&loads, &barrier, &read);
                scope.spawn(move || {
                    barrier.wait();
                    loads.get(7, || None, || read(number), |_| ())
                })
            };
            let readers: Vec<_> = (0..READERS).map(reader).collect();
            readers.into_iter().map(|reader| reader.join().unwrap()).collect()
        });
        assert!(loads.under_way.lock().is_empty());
        (results, started.elapsed())
    }

    #[test]
    fn of_readers_that_want_what_cannot_be_read_one_tries_and_all_hear_why_it_failed() {
        let tries = AtomicUsize::new(0);
        let (results, took) = together(|_| {
            tries.fetch_add(1, Ordering::SeqCst);
            thread::sleep(READ);
            let failed: std::io::Result<u64> = Err(std::io::Error::from_raw_os_error(5));
            failed.context("read", "a file")
        });
        assert_eq!(tries.load(Ordering::SeqCst), 1);
        // One after the other they would take sixteen times as long.
        assert!((READ..4 * READ).contains(&took), "{took:?}");
        let messages = results.iter().map(|result| result.as_ref().unwrap_err().to_string());
        assert!(messages.clone().all(|message| message.contains("os error 5")));
        assert_eq!(messages.collect::<std::collections::BTreeSet<_>>().len(), 1);
    }

    #[test]
    fn a_later_reader_tries_anew() {
        let loads: SharedLoads<u8, u64> = SharedLoads::new();
        let failed = || -> Result<u64> { Err(StorageError::Locked) };
        assert!(loads.get(1, || None, failed, |_| panic!("nothing was loaded")).is_err());
        let kept = AtomicUsize::new(0);
        let keep = |loaded| kept.store(loaded as usize, Ordering::SeqCst);
        assert_eq!(loads.get(1, || None, || Ok(5), keep).unwrap(), 5);
        assert_eq!(kept.load(Ordering::SeqCst), 5);
        assert_eq!(loads.get(1, || Some(6), failed, |_| ()).unwrap(), 6);
    }

    #[test]
    fn what_is_kept_while_a_reader_comes_to_load_it_is_not_loaded_twice() {
        let loads: SharedLoads<u8, u64> = SharedLoads::new();
        let looks = AtomicUsize::new(0);
        // Another reader keeps it between the first look and the second.
        let find = || (looks.fetch_add(1, Ordering::SeqCst) > 0).then_some(3);
        let found = loads.get(1, find, || panic!("it is there"), |_| ());
        assert_eq!(found.unwrap(), 3);
    }

    #[test]
    fn a_load_that_panics_leaves_nobody_waiting() {
        let loads: SharedLoads<u8, u64> = SharedLoads::new();
        let barrier = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                let panics = || -> Result<u64> {
                    barrier.wait();
                    thread::sleep(Duration::from_millis(20));
                    panic!("on purpose");
                };
                let call = AssertUnwindSafe(|| loads.get(1, || None, panics, |_| ()));
                assert!(catch_unwind(call).is_err());
            });
            barrier.wait();
            assert_eq!(loads.get(1, || None, || Ok(4), |_| ()).unwrap(), 4);
        });
    }
}

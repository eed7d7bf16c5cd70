//! Loads under way, each shared by all who want the same thing.
//!
//! The first thread that wants a page loads it; threads that want it before that is over wait, and get the page, or
//! the error. So a page that cannot be read costs each of its readers the time of a read or two, however many they are.
//! A page is shared until the last of those who waited for it has taken it, which on a busy machine is some time after it
//! came: who wants it meanwhile gets it, too. Nothing is kept beyond that, and nothing of a load that failed: later
//! readers try anew.
//!
//! What one caller loads together may come together, as neighbours in a file do, and one slow page then holds up others. Who waits
//! for such a load for too long loads by itself, alone, and for all who come later.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;

use crate::error::{Result, StorageError};
use crate::few::Few;
use crate::sync::{Latch, Mutex, MutexGuard};

/// Parts with a lock each, so that loads of different things seldom meet at one.
const PARTS: usize = 64;

/// The loads of one kind of things.
pub struct SharedLoads<K, V> {
    under_way: Box<[Mutex<Loads<K, V>>]>,
    hasher: RandomState,
}

type Loads<K, V> = HashMap<K, Shared<V>, RandomState>;

/// How long a caller waits for all that is loaded together with others, before it loads the rest alone.
const PATIENCE: Duration = Duration::from_millis(100);

struct Load<V> {
    end: Latch<End<V>>,
    /// Whether its caller wanted other things, too.
    is_together: bool,
}

struct Shared<V> {
    load: Arc<Load<V>>,
    /// Who loads it and who waits for it, and has not taken it yet.
    users: usize,
}

#[derive(Clone)]
enum End<V> {
    Loaded(V),
    Failed(StorageError),
    /// It panicked.
    Abandoned,
}

/// Ends a load, by its number among those of a call.
pub type EndLoad<'a, V> = &'a mut dyn FnMut(usize, Result<V>);

/// What a caller loads beside the things that it asks for.
pub struct Beside<'a> {
    /// Whether anything comes in the same reads as another.
    pub come_together: bool,
    /// Done before loads of other callers are waited for.
    pub before_waiting: Option<&'a mut dyn FnMut()>,
}

impl Beside<'_> {
    /// Some things, and nothing else.
    pub fn nothing(things: usize) -> Self {
        Beside { come_together: things > 1, before_waiting: None }
    }
}

/// What one who wants something does about it.
enum Role<'a, K: Hash + Eq + Copy, V: Clone> {
    Loads(Loading<'a, K, V>),
    Waits(Waiting<'a, K, V>),
}

/// Loads for all. However that ends, no thread is left waiting.
struct Loading<'a, K: Hash + Eq + Copy, V: Clone> {
    loads: &'a SharedLoads<K, V>,
    key: K,
    load: Arc<Load<V>>,
    end: End<V>,
}

/// Waits for what another loads. Has it taken once this is dropped.
struct Waiting<'a, K: Hash + Eq + Copy, V: Clone> {
    loads: &'a SharedLoads<K, V>,
    key: K,
    load: Arc<Load<V>>,
}

impl<K: Hash + Eq + Copy, V: Clone> SharedLoads<K, V> {
    pub fn new() -> SharedLoads<K, V> {
        let under_way = (0..PARTS).map(|_| Mutex::default()).collect();
        SharedLoads { under_way, hasher: RandomState::default() }
    }

    /// Several things, in order: what `find` has, or a load under way brings, or else `load`. It is called for all at once
    /// that no caller has or loads, and for each by itself that another loads and is late with. It gets their positions, and ends the
    /// load of each by its number among these, so a caller waits for nothing that it did not ask for. What was loaded is given
    /// to `keep` before its load ends.
    pub fn get_many(
        &self,
        keys: &[K],
        find: impl Fn(&K) -> Option<V>,
        mut load: impl FnMut(&[usize], EndLoad<'_, V>),
        keep: impl Fn(K, V),
        Beside { come_together, mut before_waiting }: Beside<'_>,
    ) -> Few<Result<V>> {
        let mut results: Few<Option<Result<V>>> =
            keys.iter().map(|key| find(key).map(Ok)).collect();
        while results.iter().any(Option::is_none) {
            let mut positions = Few::new();
            let mut loading: Few<Option<Loading<'_, K, V>>> = Few::new();
            let mut waiting: Few<(usize, Waiting<'_, K, V>)> = Few::new();
            for (position, key) in keys.iter().enumerate() {
                if results[position].is_some() {
                    continue;
                }
                match self.role(*key, come_together) {
                    Role::Waits(load) => waiting.push((position, load)),
                    // It may have been kept since.
                    Role::Loads(mut own) => match find(key) {
                        Some(found) => results[position] = Some(own.ends(Ok(found))),
                        None => {
                            positions.push(position);
                            loading.push(Some(own));
                        }
                    },
                }
            }
            // A caller loads its own part before it waits for others: so no two callers wait for each other.
            if !positions.is_empty() {
                load(&positions, &mut |number, result| {
                    let mut own = loading[number].take().expect("each load ends once");
                    if let Ok(loaded) = &result {
                        keep(own.key, loaded.clone());
                    }
                    results[positions[number]] = Some(own.ends(result));
                });
                assert!(loading.iter().all(Option::is_none), "each load has a result");
            }
            if let Some(before_waiting) = &mut before_waiting {
                before_waiting();
            }
            let mut patience_ends = None;
            for (position, waiting) in waiting {
                let patience_ends = *patience_ends.get_or_insert_with(|| Instant::now() + PATIENCE);
                results[position] = match waiting.load.wait(patience_ends) {
                    Some(End::Loaded(loaded)) => Some(Ok(loaded)),
                    Some(End::Failed(error)) => Some(Err(error)),
                    // Another thread has to load.
                    Some(End::Abandoned) => None,
                    None => self.overtake(keys[position], &waiting.load).map(|mut own| {
                        let mut ended = None;
                        load(&[position], &mut |_, result| {
                            if let Ok(loaded) = &result {
                                keep(own.key, loaded.clone());
                            }
                            ended = Some(own.ends(result));
                        });
                        ended.expect("the load has a result")
                    }),
                };
            }
        }
        results.into_iter().flatten().collect()
    }

    fn part(&self, key: &K) -> MutexGuard<'_, Loads<K, V>> {
        // The low bits choose the place in a part's own table.
        let part = (self.hasher.hash_one(key) >> 32) as usize % PARTS;
        self.under_way[part].lock()
    }

    /// Takes the place of a load that is late: threads that come from now on wait for this one. `None` if it ended after all, or
    /// another thread was faster.
    fn overtake(&self, key: K, late: &Arc<Load<V>>) -> Option<Loading<'_, K, V>> {
        let mut under_way = self.part(&key);
        let shared = under_way.get_mut(&key).filter(|shared| Arc::ptr_eq(&shared.load, late))?;
        let load = Load::new(false);
        *shared = Shared { load: load.clone(), users: 1 };
        Some(Loading { loads: self, key, load, end: End::Abandoned })
    }

    fn role(&self, key: K, is_together: bool) -> Role<'_, K, V> {
        match self.part(&key).entry(key) {
            Entry::Occupied(mut shared) => {
                let shared = shared.get_mut();
                shared.users += 1;
                Role::Waits(Waiting { loads: self, key, load: shared.load.clone() })
            }
            Entry::Vacant(place) => {
                let load = Load::new(is_together);
                place.insert(Shared { load: load.clone(), users: 1 });
                Role::Loads(Loading { loads: self, key, load, end: End::Abandoned })
            }
        }
    }

    /// One who wanted it has what came of the load.
    fn leave(&self, key: K, load: &Arc<Load<V>>) {
        let mut under_way = self.part(&key);
        if let Entry::Occupied(mut shared) = under_way.entry(key)
            && Arc::ptr_eq(&shared.get().load, load)
        {
            shared.get_mut().users -= 1;
            if shared.get().users == 0 || !matches!(load.end.get(), Some(End::Loaded(_))) {
                shared.remove();
            }
        }
    }
}

impl<V: Clone> Load<V> {
    fn new(is_together: bool) -> Arc<Load<V>> {
        Arc::new(Load { end: Latch::default(), is_together })
    }

    /// What comes of it; `None` if it is together with others and not there in time.
    fn wait(&self, patience_ends: Instant) -> Option<End<V>> {
        match self.is_together {
            true => self.end.wait_until(patience_ends),
            false => Some(self.end.wait()),
        }
    }
}

impl<K: Hash + Eq + Copy, V: Clone> Loading<'_, K, V> {
    /// What all get once this is dropped.
    fn ends(&mut self, result: Result<V>) -> Result<V> {
        self.end = match &result {
            Ok(loaded) => End::Loaded(loaded.clone()),
            Err(error) => End::Failed(error.clone()),
        };
        result
    }
}

impl<K: Hash + Eq + Copy, V: Clone> Drop for Waiting<'_, K, V> {
    fn drop(&mut self) {
        self.loads.leave(self.key, &self.load);
    }
}

impl<K: Hash + Eq + Copy, V: Clone> Drop for Loading<'_, K, V> {
    fn drop(&mut self) {
        self.load.end.set(std::mem::replace(&mut self.end, End::Abandoned));
        self.loads.leave(self.key, &self.load);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;
    use crate::error::IoContext;

    const READERS: usize = 16;
    const READ: Duration = Duration::from_millis(200);

    fn get<K: Hash + Eq + Copy, V: Clone>(
        loads: &SharedLoads<K, V>,
        key: K,
        find: impl Fn() -> Option<V>,
        load: impl FnOnce() -> Result<V>,
        keep: impl Fn(V),
    ) -> Result<V> {
        let mut load = Some(load);
        let load = |_: &[usize], end: EndLoad<'_, V>| {
            end(0, load.take().expect("it is loaded once")());
        };
        let mut results =
            loads.get_many(&[key], |_| find(), load, |_, loaded| keep(loaded), Beside::nothing(1));
        results.pop().expect("one thing was asked for")
    }

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
                    get(loads, 7, || None, || read(number), |_| ())
                })
            };
            let readers: Vec<_> = (0..READERS).map(reader).collect();
            readers.into_iter().map(|reader| reader.join().unwrap()).collect()
        });
        assert!(loads.under_way.iter().all(|part| part.lock().is_empty()));
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
        assert!(get(&loads, 1, || None, failed, |_| panic!("nothing was loaded")).is_err());
        let kept = AtomicUsize::new(0);
        let keep = |loaded| kept.store(loaded as usize, Ordering::SeqCst);
        assert_eq!(get(&loads, 1, || None, || Ok(5), keep).unwrap(), 5);
        assert_eq!(kept.load(Ordering::SeqCst), 5);
        assert_eq!(get(&loads, 1, || Some(6), failed, |_| ()).unwrap(), 6);
    }

    #[test]
    fn a_page_is_shared_until_all_who_waited_for_it_have_it() {
        let loads: SharedLoads<u8, u64> = SharedLoads::new();
        let Role::Loads(mut own) = loads.role(1, false) else { panic!("no other reader loads it") };
        let Role::Waits(first) = loads.role(1, false) else { panic!("it is under way") };
        assert!(own.ends(Ok(5)).is_ok());
        drop(own);
        let panics = || panic!("it is there");
        assert_eq!(
            get(&loads, 1, || None, panics, |_| ()).unwrap(),
            5,
            "who comes late has it, too"
        );
        assert!(matches!(first.load.wait(Instant::now()), Some(End::Loaded(5))));
        drop(first);
        assert!(lock_is_empty(&loads));
        assert_eq!(get(&loads, 1, || None, || Ok(6), |_| ()).unwrap(), 6);
    }

    #[test]
    fn what_is_kept_while_a_reader_comes_to_load_it_is_not_loaded_twice() {
        let loads: SharedLoads<u8, u64> = SharedLoads::new();
        let looks = AtomicUsize::new(0);
        // Another reader keeps it between the first look and the second.
        let find = || (looks.fetch_add(1, Ordering::SeqCst) > 0).then_some(3);
        let found = get(&loads, 1, find, || panic!("it is there"), |_| ());
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
                let call = AssertUnwindSafe(|| get(&loads, 1, || None, panics, |_| ()));
                assert!(catch_unwind(call).is_err());
            });
            barrier.wait();
            assert_eq!(get(&loads, 1, || None, || Ok(4), |_| ()).unwrap(), 4);
        });
    }

    #[test]
    fn of_several_things_those_that_are_missing_are_loaded_at_once() {
        let loads: SharedLoads<u8, u64> = SharedLoads::new();
        let kept = Mutex::new(vec![(2, 20)]);
        let find = |key: &u8| kept.lock().iter().find(|(k, _)| k == key).map(|(_, value)| *value);
        let calls = AtomicUsize::new(0);
        let load = |positions: &[usize], end: EndLoad<'_, u64>| {
            calls.fetch_add(1, Ordering::SeqCst);
            // A thing that is asked for twice is loaded once.
            assert_eq!(positions, [0, 2, 4]);
            end(2, Ok(40));
            end(0, Ok(10));
            end(1, Err(StorageError::Locked));
        };
        let keep = |key, value| kept.lock().push((key, value));
        let results = loads.get_many(&[1, 2, 3, 1, 4], find, load, keep, Beside::nothing(5));
        let values: Vec<Option<u64>> = results.into_iter().map(Result::ok).collect();
        assert_eq!(values, [Some(10), Some(20), None, Some(10), Some(40)]);
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        assert_eq!(*kept.lock(), [(2, 20), (4, 40), (1, 10)], "in the order of their ends");
        assert!(lock_is_empty(&loads));
    }

    #[test]
    fn who_waits_too_long_for_what_is_loaded_with_others_loads_it_alone_for_all_who_come_later() {
        let loads: SharedLoads<u8, u64> = SharedLoads::new();
        let slow = 20 * PATIENCE;
        let started = Barrier::new(READERS + 1);
        let alone = AtomicUsize::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                let load = |_: &[usize], end: EndLoad<'_, u64>| {
                    started.wait();
                    thread::sleep(slow);
                    (0..2).for_each(|number| end(number, Ok(10)));
                };
                let results =
                    loads.get_many(&[1, 2], |_| None, load, |_, _| (), Beside::nothing(2));
                assert!(results.into_iter().all(|result| result.unwrap() == 10));
            });
            for _ in 0..READERS {
                scope.spawn(|| {
                    started.wait();
                    let began = Instant::now();
                    let load = || {
                        alone.fetch_add(1, Ordering::SeqCst);
                        thread::sleep(PATIENCE / 2);
                        Ok(20)
                    };
                    assert_eq!(get(&loads, 2, || None, load, |_| ()).unwrap(), 20);
                    assert!(began.elapsed() < slow);
                });
            }
        });
        // Who is so late that this load has ended, too, loads once more.
        assert!((1..READERS / 2).contains(&alone.load(Ordering::SeqCst)), "{alone:?}");
        assert!(lock_is_empty(&loads));
    }

    #[test]
    fn patience_is_for_all_that_a_caller_wants_not_for_each() {
        const PAGES: u8 = 20;
        let loads: SharedLoads<u8, u64> = SharedLoads::new();
        let keys: Vec<u8> = (0..PAGES).collect();
        let slow = 10 * PATIENCE;
        let started = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                let load = |positions: &[usize], end: EndLoad<'_, u64>| {
                    started.wait();
                    thread::sleep(slow);
                    (0..positions.len()).for_each(|number| end(number, Ok(10)));
                };
                assert!(
                    loads
                        .get_many(&keys, |_| None, load, |_, _| (), Beside::nothing(keys.len()))
                        .iter()
                        .all(Result::is_ok)
                );
            });
            started.wait();
            let began = Instant::now();
            let load = |_: &[usize], end: EndLoad<'_, u64>| end(0, Ok(20));
            let results =
                loads.get_many(&keys, |_| None, load, |_, _| (), Beside::nothing(keys.len()));
            assert!(results.into_iter().all(|result| result.unwrap() == 20));
            // One after the other they would take twice as long as the slow load.
            assert!(began.elapsed() < slow, "{:?}", began.elapsed());
        });
        assert!(lock_is_empty(&loads));
    }

    #[test]
    fn callers_that_want_the_same_things_in_other_orders_do_not_block_each_other() {
        let loads: SharedLoads<u64, u64> = SharedLoads::new();
        let loaded = AtomicUsize::new(0);
        let barrier = Barrier::new(READERS);
        thread::scope(|scope| {
            for reader in 0..READERS as u64 {
                let (loads, loaded, barrier) = (&loads, &loaded, &barrier);
                scope.spawn(move || {
                    let keys: Vec<u64> = (0..50).map(|key| (key * (2 * reader + 1)) % 50).collect();
                    barrier.wait();
                    let load = |positions: &[usize], end: EndLoad<'_, u64>| {
                        loaded.fetch_add(positions.len(), Ordering::SeqCst);
                        for (number, &position) in positions.iter().enumerate() {
                            thread::sleep(Duration::from_micros(20));
                            end(number, Ok(keys[position] * 7));
                        }
                    };
                    let results = loads.get_many(
                        &keys,
                        |_| None,
                        load,
                        |_, _| (),
                        Beside::nothing(keys.len()),
                    );
                    for (key, result) in keys.iter().zip(results) {
                        assert_eq!(result.unwrap(), key * 7);
                    }
                });
            }
        });
        assert!(loaded.load(Ordering::SeqCst) < 50 * READERS, "some were shared");
        assert!(lock_is_empty(&loads));
    }

    #[test]
    fn who_wants_one_thing_of_a_call_does_not_wait_for_the_others() {
        let loads: SharedLoads<u8, u64> = SharedLoads::new();
        let (came, went) = (Barrier::new(2), Barrier::new(2));
        thread::scope(|scope| {
            scope.spawn(|| {
                let load = |_: &[usize], end: EndLoad<'_, u64>| {
                    came.wait();
                    end(1, Ok(20));
                    // The other has it before this one is there.
                    went.wait();
                    end(0, Ok(10));
                };
                let results =
                    loads.get_many(&[1, 2], |_| None, load, |_, _| (), Beside::nothing(2));
                assert!(results.iter().all(Result::is_ok));
            });
            let Role::Waits(wanted) = ({
                came.wait();
                loads.role(2, false)
            }) else {
                // It came and went already.
                went.wait();
                return;
            };
            // It may not be there yet, but is before the other comes.
            let end = wanted.load.wait(Instant::now() + Duration::from_secs(60));
            drop(wanted);
            went.wait();
            assert!(matches!(end, Some(End::Loaded(20))));
        });
    }

    fn lock_is_empty<K, V>(loads: &SharedLoads<K, V>) -> bool {
        loads.under_way.iter().all(|part| part.lock().is_empty())
    }
}

//! Threads that read, for files whose answers take long where the system does not take several reads at once.
//!
//! They serve all calls of the process, are started as there is work for them, and end when there has been none for a while. A
//! process that was forked off has none of them, and its locks and queues may be in any state: there, each call has threads of
//! its own.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::background::be_in_foreground;
use crate::files::reads::{ReadBytes, ReadRequest, TakeRead, read_in_turn};

/// Reads under way at the same time: of a device that answers in 20 ms, 12,000 come in a second ...
const THREADS_MAX: usize = 256;
/// ... and of one call, so that no call waits until a long one before it is done.
const READS_PER_CALL: usize = 64;
/// Threads that wait for work ...
const IDLE_MAX: usize = 64;
/// ... for so long, before they end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The process whose threads these are; 0 before there are any.
static OWNER: AtomicU32 = AtomicU32::new(0);
static STATE: Mutex<State> = Mutex::new(State { tasks: VecDeque::new(), threads: 0, idle: 0 });
static WORK: Condvar = Condvar::new();

thread_local! {
    /// Whether this is one of the threads. A file that reads others must not wait for them.
    static IS_READER: Cell<bool> = const { Cell::new(false) };
}

struct State {
    tasks: VecDeque<Task>,
    threads: usize,
    idle: usize,
}

/// What came of a read, if it did not panic.
type Answer = (usize, thread::Result<io::Result<ReadBytes>>);

struct Task {
    number: usize,
    request: ReadRequest,
    answers: Sender<Answer>,
}

/// Reads ranges with a thread for each, 64 at a time.
pub fn read_with_threads(requests: &[ReadRequest], take: TakeRead<'_>) {
    if requests.len() <= 1 || IS_READER.get() {
        return read_in_turn(requests, take);
    }
    let here = std::process::id();
    let owner = OWNER.compare_exchange(0, here, Ordering::Relaxed, Ordering::Relaxed);
    if owner.is_err_and(|owner| owner != here) {
        return read_with_own_threads(requests, take);
    }
    let (answers, taken) = channel();
    let task = |number: usize| Task {
        number,
        request: requests[number].clone(),
        answers: answers.clone(),
    };
    let first = requests.len().min(READS_PER_CALL);
    add((0..first).map(task));
    let mut next = first;
    for _ in 0..requests.len() {
        let (number, read) = taken.recv().expect("the caller holds a sender");
        if next < requests.len() {
            add(std::iter::once(task(next)));
            next += 1;
        }
        take(number, read.unwrap_or_else(|panic| resume_unwind(panic)));
    }
}

/// Has threads do some tasks, in turn.
fn add(tasks: impl Iterator<Item = Task>) {
    let mut state = STATE.lock();
    let before = state.tasks.len();
    state.tasks.extend(tasks);
    let added = state.tasks.len() - before;
    while state.idle < state.tasks.len() && state.threads < THREADS_MAX {
        let started = Builder::new().name("drillcore-io".into()).spawn(serve);
        if started.is_err() {
            break;
        }
        // It looks for work before it is idle.
        state.threads += 1;
        state.idle += 1;
    }
    // Where no thread can be started, the caller does the work.
    let is_alone = state.threads == 0;
    let rest = if is_alone { std::mem::take(&mut state.tasks) } else { VecDeque::new() };
    drop(state);
    for _ in 0..added {
        WORK.notify_one();
    }
    rest.into_iter().for_each(Task::run);
}

/// What a thread does.
fn serve() {
    be_in_foreground();
    IS_READER.set(true);
    let mut state = STATE.lock();
    let mut last = Instant::now();
    loop {
        while let Some(task) = state.tasks.pop_front() {
            state.idle -= 1;
            drop(state);
            task.run();
            last = Instant::now();
            state = STATE.lock();
            state.idle += 1;
        }
        if state.idle > IDLE_MAX || last.elapsed() >= PATIENCE {
            state.idle -= 1;
            state.threads -= 1;
            return;
        }
        WORK.wait_until(&mut state, last + PATIENCE);
    }
}

impl Task {
    fn run(self) {
        let Task { number, request, answers } = self;
        let read = catch_unwind(AssertUnwindSafe(|| {
            let read = request.read();
            drop(request);
            read
        }));
        // Who asked waits for all answers, unless it panicked.
        let _ = answers.send((number, read));
    }
}

/// Reads ranges with threads that end with the call.
fn read_with_own_threads(requests: &[ReadRequest], take: TakeRead<'_>) {
    let (answers, taken) = channel::<Answer>();
    let next = AtomicUsize::new(0);
    let work = |answers: Sender<Answer>| {
        while let Some((number, request)) = {
            let number = next.fetch_add(1, Ordering::Relaxed);
            requests.get(number).map(|request| (number, request.clone()))
        } {
            Task { number, request, answers: answers.clone() }.run();
        }
    };
    thread::scope(|scope| {
        let mut started = 0;
        for _ in 0..READS_PER_CALL.min(requests.len()) {
            let (work, answers) = (&work, answers.clone());
            let thread = Builder::new().name("drillcore-io".into());
            started += usize::from(thread.spawn_scoped(scope, move || work(answers)).is_ok());
        }
        if started == 0 {
            work(answers.clone());
        }
        drop(answers);
        for (number, read) in taken {
            take(number, read.unwrap_or_else(|panic| resume_unwind(panic)));
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};

    use super::*;
    use crate::files::reads::ReadFile;

    /// A file of as many reads as must be under way together, or else none of them ends; or of one that panics.
    struct Together(Option<Barrier>);

    impl ReadFile for Together {
        fn byte_len(&self) -> io::Result<u64> {
            Ok(u64::MAX)
        }

        fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
            self.0.as_ref().expect("on purpose").wait();
            buffer.fill(offset as u8);
            Ok(())
        }
    }

    fn requests(file: &Arc<Together>, count: usize) -> Vec<ReadRequest> {
        let request = |number| ReadRequest { file: file.clone(), offset: number as u64, len: 3 };
        (0..count).map(request).collect()
    }

    #[test]
    fn reads_of_a_call_are_under_way_together_and_each_is_taken_once() {
        for read in [read_with_threads, read_with_own_threads] {
            for _ in 0..3 {
                let file = Arc::new(Together(Some(Barrier::new(READS_PER_CALL))));
                let mut taken = vec![0; 4 * READS_PER_CALL];
                read(&requests(&file, taken.len()), &mut |number, read| {
                    assert_eq!(read.unwrap().as_slice(), [number as u8; 3]);
                    taken[number] += 1;
                });
                assert!(taken.iter().all(|&times| times == 1));
            }
        }
    }

    /// A file whose reads read others.
    struct Nested(Arc<Together>);

    impl ReadFile for Nested {
        fn byte_len(&self) -> io::Result<u64> {
            Ok(u64::MAX)
        }

        fn read_exact_at(&self, buffer: &mut [u8], _offset: u64) -> io::Result<()> {
            let mut sum = 0;
            read_with_threads(&requests(&self.0, 3), &mut |_, read| {
                sum += read.unwrap().as_slice()[0];
            });
            buffer.fill(sum);
            Ok(())
        }
    }

    #[test]
    fn a_file_may_read_others_meanwhile() {
        let file = Arc::new(Nested(Arc::new(Together(Some(Barrier::new(1))))));
        let request = |_| ReadRequest { file: file.clone(), offset: 0, len: 1 };
        let requests: Vec<ReadRequest> = (0..2 * THREADS_MAX).map(request).collect();
        read_with_threads(&requests, &mut |_, read| assert_eq!(read.unwrap().as_slice(), [3]));
    }

    #[test]
    fn a_read_that_panics_panics_where_it_was_asked_for() {
        for read in [read_with_threads, read_with_own_threads] {
            let read = || read(&requests(&Arc::new(Together(None)), 2), &mut |_, _| ());
            assert!(catch_unwind(AssertUnwindSafe(read)).is_err());
        }
    }
}

//! Threads that read, for files whose answers take long where the system does not take several reads at once.
//!
//! They serve all calls of the process, are started as there is work for them, and end when there has been none for a while.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, Builder};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::files::process::Process;
use crate::files::reads::{ReadBytes, ReadRequest, TakeRead, read_in_turn};

/// Reads under way at the same time: those of a device that answers in 20 ms come 12,000 times a second.
const THREADS_MAX: usize = 256;
/// How long a thread waits for work before it ends.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a process that was forked off waits for a lock that may never be free there.
const FORK_PATIENCE: Duration = Duration::from_millis(100);

/// The threads of this process, or of the one that it was forked off.
static OF_PROCESS: Mutex<Option<(Process, Arc<Readers>)>> = Mutex::new(None);

#[derive(Default)]
struct Readers {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    tasks: VecDeque<Task>,
    threads: usize,
    idle: usize,
}

struct Task {
    number: usize,
    request: ReadRequest,
    answers: Sender<(usize, thread::Result<io::Result<ReadBytes>>)>,
}

/// Reads ranges with a thread for each, as long as there are not too many.
pub fn read_with_threads(requests: &[ReadRequest], take: TakeRead<'_>) {
    let Some(readers) = (requests.len() > 1).then(readers).flatten() else {
        return read_in_turn(requests, take);
    };
    let (answers, taken) = channel();
    let task = |(number, request): (usize, &ReadRequest)| Task {
        number,
        request: request.clone(),
        answers: answers.clone(),
    };
    readers.add(requests.iter().enumerate().map(task));
    drop(answers);
    for (number, read) in taken {
        take(number, read.unwrap_or_else(|panic| resume_unwind(panic)));
    }
}

/// `None` in a process that was forked off while another thread held the lock.
fn readers() -> Option<Arc<Readers>> {
    let here = Process::current();
    let mut of_process = OF_PROCESS.try_lock_for(FORK_PATIENCE)?;
    match &*of_process {
        Some((process, readers)) if *process == here => Some(readers.clone()),
        _ => {
            // The threads of another process are not here.
            let readers = Arc::<Readers>::default();
            std::mem::forget(of_process.replace((here, readers.clone())));
            Some(readers)
        }
    }
}

impl Readers {
    fn add(self: &Arc<Readers>, tasks: impl Iterator<Item = Task>) {
        let mut state = self.state.lock();
        state.tasks.extend(tasks);
        while state.idle < state.tasks.len() && state.threads < THREADS_MAX {
            let readers = self.clone();
            let started = Builder::new().name("drillcore-io".into()).spawn(move || readers.serve());
            if started.is_err() {
                break;
            }
            // It looks for work before it is idle.
            state.threads += 1;
            state.idle += 1;
        }
        // Where no thread can be started, the caller does the work.
        let rest =
            if state.threads == 0 { std::mem::take(&mut state.tasks) } else { VecDeque::new() };
        drop(state);
        self.work.notify_all();
        rest.into_iter().for_each(Task::run);
    }

    fn serve(&self) {
        let mut state = self.state.lock();
        loop {
            while let Some(task) = state.tasks.pop_front() {
                state.idle -= 1;
                drop(state);
                task.run();
                state = self.state.lock();
                state.idle += 1;
            }
            if self.work.wait_for(&mut state, PATIENCE).timed_out() && state.tasks.is_empty() {
                state.idle -= 1;
                state.threads -= 1;
                return;
            }
        }
    }
}

impl Task {
    fn run(self) {
        let read = catch_unwind(AssertUnwindSafe(|| self.request.read()));
        // Who asked waits for all answers.
        let _ = self.answers.send((self.number, read));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

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
        for _ in 0..3 {
            let file = Arc::new(Together(Some(Barrier::new(100))));
            let mut taken = vec![0; 100];
            read_with_threads(&requests(&file, 100), &mut |number, read| {
                assert_eq!(read.unwrap().as_slice(), [number as u8; 3]);
                taken[number] += 1;
            });
            assert_eq!(taken, [1; 100]);
        }
    }

    #[test]
    fn a_read_that_panics_panics_where_it_was_asked_for() {
        let read = || read_with_threads(&requests(&Arc::new(Together(None)), 2), &mut |_, _| ());
        assert!(catch_unwind(AssertUnwindSafe(read)).is_err());
    }
}

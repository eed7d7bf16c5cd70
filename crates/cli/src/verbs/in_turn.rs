//! Turns: what several threads make ready is done in its order, by one of them at a time.

use parking_lot::{Condvar, Mutex};

/// The turns of tasks numbered from 0 without gaps.
#[derive(Default)]
pub struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    next: u64,
    has_failed: bool,
}

/// The turn of one task. Dropped before it is done, it is the last one.
pub struct Turn<'a> {
    turns: &'a Turns,
    is_done: bool,
}

impl Turns {
    /// Waits until all tasks before this one are done. There is no turn once one of them has failed.
    pub fn wait(&self, number: u64) -> Option<Turn<'_>> {
        let mut state = self.state.lock();
        while state.next != number && !state.has_failed {
            self.changed.wait(&mut state);
        }
        // A turn that is not handed out must not be made, as its drop says that it was not done.
        let is_next = !state.has_failed;
        drop(state);
        is_next.then(|| Turn { turns: self, is_done: false })
    }

    /// Whether a task was not done.
    pub fn have_failed(&self) -> bool {
        self.state.lock().has_failed
    }
}

impl Turn<'_> {
    /// Lets the next task have its turn.
    pub fn done(mut self) {
        self.is_done = true;
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.turns.state.lock();
        match self.is_done {
            true => state.next += 1,
            false => state.has_failed = true,
        }
        drop(state);
        self.turns.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn tasks_are_done_in_their_order_up_to_the_one_that_fails() {
        let turns = Turns::default();
        let (sender, done) = mpsc::channel();
        thread::scope(|scope| {
            for first in [2, 1, 0] {
                let (turns, sender) = (&turns, sender.clone());
                scope.spawn(move || {
                    for number in (first..100).step_by(3) {
                        let Some(turn) = turns.wait(number) else { return };
                        sender.send(number).unwrap();
                        if number == 70 {
                            return;
                        }
                        turn.done();
                    }
                });
            }
        });
        drop(sender);
        assert!(turns.have_failed());
        assert_eq!(done.iter().collect::<Vec<u64>>(), (0..=70).collect::<Vec<_>>());
    }
}

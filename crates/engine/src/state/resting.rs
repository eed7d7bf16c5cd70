//! Tables to which no rows come: their runs are compacted for reads to come, at no cost to writers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use drillcore_format::ids::{Lsn, TableId};

/// How often workers look at tables whose runs have changed. A table rests that has the same newest commit twice.
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// After how long memory may have room that it had not. Snapshots hold some of it, and do not say when they end.
const ROOM_PAUSE: Duration = Duration::from_secs(1);

/// Which tables rest, as workers find out: a commit notes no time, and of many commits few wake a worker.
#[derive(Debug, Default)]
pub struct Resting {
    /// Tables that have changed, with their newest commit at the last look, if there was one since.
    watched: BTreeMap<TableId, Option<Lsn>>,
    /// When a worker looks next, if one knows that it should.
    next_look: Option<Instant>,
    /// Tables that rest, and whose runs are to be compacted ...
    rested: BTreeSet<TableId>,
    /// ... and those for which memory had no room, ...
    without_room: BTreeSet<TableId>,
    /// ... with the moment at which they are tried again, if there are some.
    next_try: Option<Instant>,
}

impl Resting {
    /// Adds a table whose runs have changed. O(log tables).
    pub fn watch(&mut self, id: TableId) {
        self.watched.entry(id).or_default();
    }

    /// Whether a worker should be woken to look at tables.
    pub fn is_unwatched(&self) -> bool {
        self.next_look.is_none() && !self.watched.is_empty()
    }

    /// When a worker should look again.
    pub fn next_look(&self) -> Option<Instant> {
        self.next_look
    }

    /// Looks at the tables that have changed, if it is time to. `newest` gives the newest commit of a table, and `None` of one that has
    /// nothing to compact. O(tables that have changed).
    pub fn look(&mut self, now: Instant, newest: impl Fn(TableId) -> Option<Lsn>) {
        if self.next_look.is_some_and(|next| now < next) {
            return;
        }
        if self.next_try.is_some_and(|next| next <= now) {
            self.rested.append(&mut self.without_room);
            self.next_try = None;
        }
        self.watched.retain(|id, seen| {
            let before = std::mem::replace(seen, newest(*id));
            if seen.is_some() && before == *seen {
                self.rested.insert(*id);
            }
            seen.is_some() && before != *seen
        });
        self.next_look = match self.watched.is_empty() {
            true => self.next_try,
            false => Some(now + LOOK_PAUSE),
        };
    }

    /// A table that rests, once.
    pub fn take(&mut self) -> Option<TableId> {
        self.rested.pop_first()
    }

    /// Puts a table back for which memory has no room.
    pub fn put_off(&mut self, id: TableId, now: Instant) {
        self.without_room.insert(id);
        let next_try = *self.next_try.get_or_insert(now + ROOM_PAUSE);
        self.next_look.get_or_insert(next_try);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: TableId = TableId(1);

    #[test]
    fn a_table_rests_that_has_the_same_newest_commit_twice() {
        let (mut resting, start) = (Resting::default(), Instant::now());
        let look = |resting: &mut Resting, millis, newest| {
            resting.look(start + Duration::from_millis(millis), |_| newest);
            (resting.take(), resting.next_look().map(|next| (next - start).as_millis()))
        };
        assert_eq!(look(&mut resting, 0, Some(Lsn(1))), (None, None), "nothing has changed");
        resting.watch(ID);
        assert!(resting.is_unwatched());
        assert_eq!(look(&mut resting, 50, Some(Lsn(1))), (None, Some(150)));
        assert!(!resting.is_unwatched());
        assert_eq!(look(&mut resting, 149, Some(Lsn(1))), (None, Some(150)), "too early");
        resting.watch(ID);
        assert_eq!(look(&mut resting, 150, Some(Lsn(2))), (None, Some(250)));
        assert_eq!(look(&mut resting, 270, Some(Lsn(2))), (Some(ID), None));
        assert_eq!(look(&mut resting, 400, Some(Lsn(2))), (None, None), "that was said");
        resting.watch(ID);
        assert_eq!(look(&mut resting, 500, None), (None, None), "it has nothing to compact");
        assert!(!resting.is_unwatched());
    }

    #[test]
    fn a_table_without_room_is_taken_again_later() {
        let (mut resting, start) = (Resting::default(), Instant::now());
        let after = |millis| start + Duration::from_millis(millis);
        resting.put_off(ID, start);
        assert_eq!((resting.take(), resting.next_look()), (None, Some(after(1_000))));
        resting.put_off(TableId(2), after(500));
        resting.look(after(999), |_| None);
        assert_eq!(resting.take(), None);
        // Others that have changed meanwhile are looked at more often then.
        resting.watch(TableId(3));
        resting.look(after(1_000), |_| Some(Lsn(1)));
        assert_eq!((resting.take(), resting.take()), (Some(ID), Some(TableId(2))));
        assert_eq!((resting.take(), resting.next_look()), (None, Some(after(1_100))));
    }
}

//! How far sources of rows have been read: as the manifest says, and as commits say that are in the log.
//!
//! A commit leaves the log once all commits before some LSN are in segments. With the edit that says so goes the newest
//! position before it, so that no position is lost, and none is on stable storage before the rows that it stands for.

use std::collections::{BTreeMap, VecDeque};

use drillcore_format::ids::Lsn;
use drillcore_format::logged_commit::SourcePosition;
use drillcore_format::manifest_edit::Edit;

/// The positions of all sources.
#[derive(Debug, Clone, Default)]
pub struct Positions {
    /// In the manifest, of commits before this one.
    noted_before: Lsn,
    noted: BTreeMap<String, Vec<u8>>,
    /// Of later commits, in their order.
    since: VecDeque<(Lsn, SourcePosition)>,
}

impl Positions {
    /// As a manifest has them.
    pub fn noted(noted: BTreeMap<String, Vec<u8>>, needed_from: Lsn) -> Positions {
        Positions { noted_before: needed_from, noted, since: VecDeque::new() }
    }

    /// Adds those of a commit, later than all before. What the manifest has, a log file may have still.
    pub fn add(&mut self, lsn: Lsn, positions: impl IntoIterator<Item = SourcePosition>) {
        if lsn < self.noted_before {
            return;
        }
        self.since.extend(positions.into_iter().map(|position| (lsn, position)));
    }

    /// Adds what an earlier look at the log gave.
    pub fn add_later(&mut self, earlier: &Positions) {
        let later = earlier.since.iter().filter(|(lsn, _)| *lsn >= self.noted_before);
        self.since.extend(later.cloned());
    }

    /// All of them as of a commit.
    pub fn at(&self, visible: Lsn) -> BTreeMap<String, Vec<u8>> {
        let mut positions = self.noted.clone();
        self.before(Lsn(visible.0 + 1)).for_each(|position| set(&mut positions, position));
        positions
    }

    /// All of them as of a commit; `None` if what the manifest has may be of later ones.
    pub fn as_of(&self, lsn: Lsn) -> Option<BTreeMap<String, Vec<u8>>> {
        (self.noted_before.0 <= lsn.0 + 1).then(|| self.at(lsn))
    }

    /// What the manifest has to say when the commits before `needed_from` leave the log.
    pub fn edits_before(&self, needed_from: Lsn) -> Vec<Edit> {
        // The newest of each source.
        let newest: BTreeMap<&str, &SourcePosition> =
            self.before(needed_from).map(|position| (position.source.as_str(), position)).collect();
        newest.into_values().cloned().map(Edit::SetPosition).collect()
    }

    /// Notes that the manifest has said so.
    pub fn note_before(&mut self, needed_from: Lsn) {
        self.noted_before = self.noted_before.max(needed_from);
        while self.since.front().is_some_and(|(lsn, _)| *lsn < needed_from) {
            let (_, position) = self.since.pop_front().expect("looked at above");
            set(&mut self.noted, &position);
        }
    }

    fn before(&self, lsn: Lsn) -> impl Iterator<Item = &SourcePosition> {
        self.since.iter().take_while(move |(of, _)| *of < lsn).map(|(_, position)| position)
    }
}

fn set(positions: &mut BTreeMap<String, Vec<u8>>, position: &SourcePosition) {
    let SourcePosition { source, position } = position;
    match position.is_empty() {
        true => positions.remove(source),
        false => positions.insert(source.clone(), position.clone()),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(source: &str, position: &str) -> SourcePosition {
        SourcePosition { source: source.into(), position: position.into() }
    }

    fn shown(positions: &Positions, visible: u64) -> Vec<(String, String)> {
        let all = positions.at(Lsn(visible)).into_iter();
        all.map(|(source, position)| (source, String::from_utf8(position).unwrap())).collect()
    }

    #[test]
    fn what_leaves_the_log_is_the_newest_of_each_source_and_nothing_later() {
        let noted = BTreeMap::from([("a".to_string(), b"0".to_vec()), ("z".into(), b"9".to_vec())]);
        let mut positions = Positions::noted(noted, Lsn(3));
        positions.add(Lsn(2), [position("a", "-1")]);
        positions.add(Lsn(3), [position("a", "1"), position("b", "1")]);
        positions.add(Lsn(5), [position("a", "2"), position("z", "")]);
        positions.add(Lsn(7), [position("a", "3")]);
        let at_five = [("a".to_string(), "2".to_string()), ("b".into(), "1".into())];
        assert_eq!(shown(&positions, 5), at_five);
        assert_eq!(positions.as_of(Lsn(5)), Some(positions.at(Lsn(5))));
        let edits = [position("a", "2"), position("b", "1"), position("z", "")];
        assert_eq!(positions.edits_before(Lsn(7)), edits.map(Edit::SetPosition));
        positions.note_before(Lsn(7));
        assert_eq!(shown(&positions, 6), at_five);
        assert_eq!((positions.as_of(Lsn(5)), positions.as_of(Lsn(6)).is_some()), (None, true));
        assert_eq!(positions.edits_before(Lsn(8)), [Edit::SetPosition(position("a", "3"))]);
    }
}

//! Which segments of a table to merge.

use std::collections::HashSet;

use drillcore_storage::segments::segment::Segment;

use crate::maintenance::room::{self, Spare};
use crate::maintenance::tiering::{IsOut, Tiering, level_candidates, segment_candidates};
use crate::state::core::Core;
use crate::state::guarded::State;
use crate::state::levels::{groups_to_merge, in_key_order, levels};
use crate::state::slots::Slot;
use crate::state::table_state::TableState;

/// A segment is written anew once one row in this many was erased, ...
const ERASED_SHARE: u64 = 10;
/// ... but where rows expire, one in this many: they go on to, until the segment can be dropped.
const EXPIRED_SHARE: u64 = 2;
/// Levels merged at once.
const SEGMENT_FANOUT: usize = 4;
const SEGMENT_SMALLEST_BYTES: u64 = 4 << 20;
/// Parts of `segment_bytes` that small neighbours have together.
const MERGE_PARTS: u64 = 8;

/// How many bytes of small neighbours are made one segment though their keys do not overlap: a table is read the better, the fewer
/// segments it has.
pub fn small_bytes(core: &Core) -> u64 {
    core.options.segment_bytes / MERGE_PARTS
}

/// Segments that should become one, by their numbers, of `largest` bytes at most and none that is out: those of levels that are many, or
/// those of one level that are small. See [`levels`].
pub fn merge_groups(
    table: &TableState,
    small: u64,
    largest: u64,
    is_out: IsOut<'_>,
) -> Option<Vec<Vec<usize>>> {
    let tiering = Tiering { fanout: SEGMENT_FANOUT, smallest: SEGMENT_SMALLEST_BYTES, largest };
    let segments = &table.segments;
    if let Some(group) = to_reclaim(segments, largest, is_out, |erased, rows| erased == rows) {
        return Some(vec![group]);
    }
    let levels = levels(segments.iter().map(|slot| &*slot.piece));
    let candidates = level_candidates(segments, &levels, is_out);
    let mut window = tiering.pick(&candidates);
    if !table.schema.repeats_keys() {
        window = window.or_else(|| tiering.pick_all(&candidates));
    }
    if let Some(window) = window {
        let window = levels[window.start].start..levels[window.end - 1].end;
        return Some(groups_to_merge(segments, window, small));
    }
    let mut of_small = levels.into_iter().filter_map(|level| {
        let numbers = in_key_order(segments, level);
        let of_small = Tiering { largest: largest.min(small), ..tiering };
        let window = of_small.pick(&segment_candidates(segments, &numbers, is_out))?;
        let mut group = numbers[window].to_vec();
        group.sort_unstable();
        Some(group)
    });
    let share = if table.schema.ttl.is_some() { EXPIRED_SHARE } else { ERASED_SHARE };
    let much = |erased: u64, rows: u64| erased >= rows.div_ceil(share);
    let group = of_small.next().or_else(|| to_reclaim(segments, largest, is_out, much))?;
    Some(vec![group])
}

/// A segment of which so much was erased that it is worth writing anew, or is nothing to write.
fn to_reclaim(
    segments: &[Slot<Segment>],
    largest: u64,
    is_out: IsOut<'_>,
    is_worth: impl Fn(u64, u64) -> bool,
) -> Option<Vec<usize>> {
    let is_wanted = |slot: &Slot<Segment>| {
        let erased = slot.erased.as_ref().map_or(0, |erased| erased.len().into());
        let is_short = live_bytes(slot) <= largest;
        erased > 0 && !is_out(slot) && is_short && is_worth(erased, slot.piece.rows())
    };
    segments.iter().position(is_wanted).map(|number| vec![number])
}

/// About what the segments of some groups take once more, without what was erased of them.
pub fn bytes_of(table: &TableState, groups: &[Vec<usize>]) -> u64 {
    groups.iter().flatten().map(|&number| live_bytes(&table.segments[number])).sum()
}

/// About what a segment takes without its erased rows.
fn live_bytes(slot: &Slot<Segment>) -> u64 {
    let erased = slot.erased.as_ref().map_or(0, |erased| u64::from(erased.len()));
    let share = (slot.piece.rows() - erased) as f64 / slot.piece.rows() as f64;
    (slot.piece.disk_bytes() as f64 * share) as u64
}

/// Segments that become one each, by their numbers, so that the segments of a table become one level.
pub fn full_merge_groups(table: &TableState, small: u64) -> Vec<Vec<usize>> {
    let mut groups = groups_to_merge(&table.segments, 0..table.segments.len(), small);
    let merged: HashSet<usize> = groups.iter().flatten().copied().collect();
    // Of those that overlap no others, what was erased goes as well.
    let alone = (0..table.segments.len()).filter(|number| !merged.contains(number));
    groups.extend(alone.filter(|&n| table.segments[n].erased.is_some()).map(|n| vec![n]));
    groups
}

/// Whether a job that has taken a segment should give it back, for a call or a worker that would merge it then: no merge for which there
/// is no room, or of segments that could not be read, as it would come to nothing.
pub fn is_to_be_merged(core: &Core, state: &State, table: &TableState, segment: &Segment) -> bool {
    let small = small_bytes(core);
    let groups = if table.compact_calls > 0 {
        full_merge_groups(table, small)
    } else if state.holds > 0 || table.merge_put_off.is_some() {
        return false;
    } else {
        let is_it = |slot: &Slot<Segment>| slot.piece.id() == segment.id();
        let is_out = |slot: &Slot<Segment>| slot.unreadable.is_some() || slot.taken && !is_it(slot);
        let Some(groups) = merge_groups(table, small, u64::MAX, &is_out) else { return false };
        if room::check(core, Spare::Flushes, "a merge", bytes_of(table, &groups)).is_err() {
            return false;
        }
        groups
    };
    groups.iter().flatten().any(|&number| table.segments[number].piece.id() == segment.id())
}

//! A whole segment, read through the storage floor in all ways.
//!
//! The first part of an input selects the table; the others are the segment's file.

use std::sync::Arc;

use drillcore::directory::{Directory, MemoryDirectory};
use drillcore_format::ids::SegmentId;
use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::key::Keys;
use drillcore_format::ordinal_intervals::OrdinalIntervals;
use drillcore_format::postings::WEIGHT_GROUP;
use drillcore_format::rows::{Layout, Rows};
use drillcore_storage::pages::files_ahead::FilesAhead;
use drillcore_storage::pages::page_cache::PageCache;
use drillcore_storage::postings::set_postings::SegmentMembers;
use drillcore_storage::segments::columns::ColumnReader;
use drillcore_storage::segments::fetch::{Wanted, fetch};
use drillcore_storage::segments::lookup::{Ask, Lookup, Searched, Which};
use drillcore_storage::segments::postings_writer::write_postings;
use drillcore_storage::segments::segment::Segment;
use drillcore_storage::segments::segment_check::check_segment;
use drillcore_storage::segments::segment_writer::SegmentWriter;

use super::files::assemble;
use super::outcome::Outcome;
use super::parts::{byte, part};
use super::tables::{bounds, projections, table, use_rows};

/// A segment that rows are copied to, and a postings file for their sets.
const COPY: SegmentId = SegmentId(1 << 30);
const POSTINGS: SegmentId = SegmentId((1 << 30) + 1);
/// Rows that are read one by one, at most.
const ROWS_MAX: u64 = 3_000;

/// Opens the file, reads it in all ways, checks it, and copies what it holds.
pub fn segment(parts: &[Vec<u8>]) -> Outcome {
    let mut outcome = Outcome::default();
    let layout = &table(byte(part(parts, 0), 0)).layout;
    let directory = assemble(parts.iter().skip(1));
    let names = directory.list().expect("memory is there");
    let Some(id) = names.iter().find_map(|name| Segment::id_of(name)) else { return outcome };
    let cache = Arc::new(PageCache::new(Arc::new(directory.clone()), 1 << 20));
    let opened = Segment::open(&directory, id, layout, cache);
    let Some(segment) = outcome.note(opened).map(Arc::new) else { return outcome };
    use_columns(&segment, layout, &mut outcome);
    let rows = use_segment(&segment, layout, &mut outcome);
    outcome.note(check_segment(Arc::new(directory.clone()), &segment, |_| true));
    if let Some(rows) = rows {
        copy(&directory, &segment, layout, &rows, &mut outcome);
    }
    if layout.schema().set.is_some() {
        let indexed = IndexedSets::all();
        let directory = Arc::new(directory);
        let written =
            write_postings(directory.clone(), POSTINGS, &segment, &indexed, |_| Some(usize::MAX));
        if let Some(Some(meta)) = outcome.note(written) {
            let postings = outcome
                .note(segment.open_postings(&mut FilesAhead::none(directory.as_ref()), meta));
            postings.into_iter().for_each(|postings| drop(segment.attach_postings(postings)));
            use_sets(&segment, layout.weight_count(), &mut outcome);
        }
    }
    outcome
}

/// Reads each column by itself, and all together.
fn use_columns(segment: &Arc<Segment>, layout: &Layout, outcome: &mut Outcome) {
    let columns = layout.schema().columns.fields().len();
    let each = (0..columns).map(|column| vec![column]).chain([(0..columns).collect()]);
    for columns in each {
        let key = layout.key_positions(&columns).into_iter();
        let key: Vec<_> = key.map(|at| (at, layout.key_types()[at].clone())).collect();
        let values = layout.projection(&columns);
        let reader = outcome.note(ColumnReader::open(segment.clone(), &key, &values));
        let Some(Some(mut reader)) = reader else { continue };
        let rows = segment.rows().min(reader.group_rows());
        for ordinals in [0..rows, rows / 3..rows.div_ceil(2) + 1, rows - 1..rows] {
            outcome.note(reader.read(ordinals.start..ordinals.end.min(rows), rows));
        }
    }
}

/// Gives all rows, if they can be read and are not too many.
fn use_segment(segment: &Segment, layout: &Layout, outcome: &mut Outcome) -> Option<Rows> {
    let rows = segment.rows();
    let few = rows.min(ROWS_MAX);
    let everything = outcome.note(segment.read(0, few, &layout.all()));
    let keys: Vec<Vec<u8>> = everything.iter().flat_map(keys_of).collect();
    everything.iter().for_each(|rows| use_rows(layout, rows, outcome));
    for bound in bounds(&keys) {
        let rank = outcome.note(segment.rank(&bound));
        assert!(rank.is_none_or(|rank| rank <= rows), "a rank lies past the rows");
    }
    let asked: Vec<&[u8]> = keys.iter().map(Vec::as_slice).chain([&b""[..], b"\x01zzz"]).collect();
    let numbers: Vec<u32> = (0..asked.len() as u32).step_by(asked.len().div_ceil(60)).collect();
    let keys = Keys::from_iter(&asked);
    let every_third_row = (0..rows as u32).step_by(3).map(|row| row..row + 1);
    let erased = OrdinalIntervals::new(every_third_row);
    for projection in projections(layout) {
        for erased in [None, Some(&erased)] {
            let lookup = Lookup {
                segments: &[Searched::new(0, segment, erased, &keys, &numbers)],
                keys: &keys,
                asked: &numbers,
                projection: &projection,
                bytes_max: usize::MAX,
                which: Which::First,
                ask: &|_, number| if number % 2 == 0 { Ask::Filter } else { Ask::Block },
                go_on: &|_| true,
            };
            outcome.note(lookup.find());
        }
        for (from, to) in [(0, few), (few / 3, few - few / 4), (rows - few, rows)] {
            outcome.note(segment.read(from, to.max(from), &projection));
        }
        let every_third: Vec<u32> = (0..few as u32).step_by(3).collect();
        let last = (rows - 1) as u32;
        for ordinals in [vec![0], vec![last], every_third, vec![0, 0, last, last], Vec::new()] {
            let wanted = [Wanted { segment, ordinals: &ordinals }];
            outcome.note(fetch(&wanted, &projection, usize::MAX, &|| true, &mut |_, _| true));
        }
    }
    let columns: Vec<usize> = (0..layout.schema().columns.fields().len()).collect();
    for ordinals in [0..rows, rows / 3..rows, rows - 1..rows, 0..0] {
        outcome.note(segment.zones(layout, ordinals.clone(), &columns));
        columns.iter().for_each(|&column| {
            outcome.note(segment.zones(layout, ordinals.clone(), &[column]));
        });
    }
    use_weights(segment, layout, outcome);
    use_sets(segment, layout.weight_count(), outcome);
    (rows == few).then_some(everything).flatten()
}

fn use_weights(segment: &Segment, layout: &Layout, outcome: &mut Outcome) {
    let rows = segment.rows();
    for weight in 0..layout.weight_count() {
        let mut last = 0;
        for ordinal in (0..rows.min(ROWS_MAX)).chain([rows - 1, rows]) {
            let before = outcome.note(segment.weight_before(weight, ordinal));
            // Draws take the difference of two of them.
            assert!(before.is_none_or(|before| before >= last), "running sums do not fall");
            last = before.unwrap_or(last);
        }
        let Some(total) = outcome.note(segment.weight_before(weight, rows)) else { continue };
        let units = [0, 1, total / 3, total / 2, total.saturating_sub(1)];
        let units: Vec<u128> = units.into_iter().filter(|unit| *unit < total).collect();
        let wanted: Vec<(&Segment, u128)> = units.iter().map(|unit| (segment, *unit)).collect();
        if let Some(found) = outcome.note(Segment::rows_of_weight(&wanted, weight)) {
            assert!(found.iter().all(|(row, units)| *row < rows && *units > 0));
        }
    }
}

fn use_sets(segment: &Segment, weights: usize, outcome: &mut Outcome) {
    let Some(postings) = segment.postings() else { return };
    let mut values: Vec<Vec<u8>> = vec![Vec::new(), vec![0], vec![1, 0xff]];
    outcome.note(postings.sets(|value, rows| {
        assert!((1..=segment.rows()).contains(&rows), "a set has {rows} rows");
        values.push(value.to_vec());
        true
    }));
    values.truncate(100);
    for value in &values {
        let Some(Some(members)) = outcome.note(postings.members(value)) else { continue };
        let count = members.len();
        assert!(count <= segment.rows() && members.is_empty() == (count == 0));
        for position in [0, count / 2, count.saturating_sub(1)] {
            if position < count {
                let ordinal = outcome.note(members.ordinal(position));
                assert!(ordinal.is_none_or(|ordinal| ordinal < segment.rows()));
            }
        }
        for ordinal in [0, 1, segment.rows() / 2, segment.rows(), u64::MAX] {
            let rank = outcome.note(members.rank(ordinal));
            assert!(rank.is_none_or(|rank| rank <= count), "a rank lies past the members");
        }
        for positions in [0..count.min(ROWS_MAX), count / 3..count.min(count / 3 + 300)] {
            let mut ordinals = Vec::new();
            if outcome.note(members.ordinals(positions, &mut ordinals)).is_some() {
                assert!(ordinals.is_sorted_by(|a, b| a < b), "ordinals ascend");
                assert!(ordinals.iter().all(|ordinal| u64::from(*ordinal) < segment.rows()));
            }
        }
        if count == 0 {
            continue;
        }
        let wanted = [0, count / 2, count / 2, count - 1].map(|position| (&members, position));
        let mut ordinals = Vec::new();
        if outcome.note(SegmentMembers::ordinals_of(&wanted, &mut ordinals)).is_some() {
            assert_eq!(ordinals.len(), wanted.len());
            assert!(ordinals.iter().all(|ordinal| u64::from(*ordinal) < segment.rows()));
        }
        for weight in 0..weights {
            let total = members.weight(weight);
            let units: Vec<u128> = [0, total / 2, total.saturating_sub(1)]
                .into_iter()
                .filter(|u| *u < total)
                .collect();
            let wanted: Vec<(&SegmentMembers, u128)> =
                units.iter().map(|unit| (&members, *unit)).collect();
            if let Some(groups) = outcome.note(SegmentMembers::groups_of_units(&wanted, weight)) {
                for (unit, group) in units.iter().zip(groups) {
                    assert!((group.before..group.before + group.weight.sum).contains(unit));
                }
            }
            let last = [(&members, (count - 1) / WEIGHT_GROUP)];
            outcome.note(SegmentMembers::groups_of_numbers(&last, weight));
        }
    }
}

/// What a merge does with rows: writes them to a segment of their own.
fn copy(
    directory: &MemoryDirectory,
    segment: &Segment,
    layout: &Layout,
    rows: &Rows,
    outcome: &mut Outcome,
) {
    let (directory, table) = (Arc::new(directory.clone()), segment.table());
    let writer = SegmentWriter::create(directory.clone(), COPY, table, layout, segment.lsns());
    let Some(mut writer) = outcome.note(writer) else { return };
    if outcome.note(writer.append(rows)).is_none() || outcome.note(writer.finish()).is_none() {
        return;
    }
    let cache = Arc::new(PageCache::new(directory.clone(), 1 << 20));
    let opened = Segment::open(directory.as_ref(), COPY, layout, cache);
    let copied = outcome.note(opened).expect("what was written can be opened");
    assert_eq!(copied.rows(), rows.len() as u64);
}

fn keys_of(rows: &Rows) -> Vec<Vec<u8>> {
    (0..rows.len()).map(|row| rows.key(row).to_vec()).collect()
}

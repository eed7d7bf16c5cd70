use std::collections::BTreeMap;

use drillcore_format::ids::{Lsn, LsnRange, TableId};
use drillcore_format::manifest_edit::{PinnedTable, PostingsMeta, SegmentMeta};
use drillcore_format::ordinal_intervals::OrdinalIntervals;
use drillcore_format::schema::TableSchema;

use super::*;
use crate::files::memory_directory::MemoryDirectory;

fn open(directory: &MemoryDirectory) -> Result<(Manifest, ManifestState)> {
    let (manifest, state, replaced) = Manifest::open(Arc::new(directory.clone()), 7, SegmentId(1))?;
    replaced.iter().for_each(|(_, name)| directory.remove(name).unwrap());
    Ok((manifest, state))
}

fn segment(id: u64, first: u64, last: u64) -> SegmentMeta {
    let lsns = LsnRange { first: Lsn(first), last: Lsn(last) };
    SegmentMeta { id: SegmentId(id), rows: 10, bytes: 4096, fingerprint: id, lsns, blocks: 1 }
}

fn create_table() -> Edit {
    use arrow_schema::{DataType, Field, Schema};
    let columns = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false)]));
    let merge = drillcore_format::schema::MergePolicy::Append;
    let schema = TableSchema { merge, ..TableSchema::new(columns, vec![0]) };
    Edit::CreateTable { table: TableId(1), name: "t".into(), schema }
}

#[test]
fn edits_come_back_and_segments_stay_in_their_order() {
    let directory = MemoryDirectory::new();
    let (mut manifest, state) = open(&directory).unwrap();
    assert!(state.tables.is_empty());
    let table = TableId(1);
    manifest.commit(&[create_table()]).unwrap();
    for (id, lsn) in [(2, 3), (4, 5), (3, 7), (5, 9)] {
        let segment = segment(id, lsn - 2, lsn);
        let flushed = Edit::Flushed { table, lsn: Lsn(lsn) };
        manifest.commit(&[Edit::AddSegment { table, segment }, flushed]).unwrap();
    }
    // The keys of one between them overlap neither.
    let merged = Edit::ReplaceSegments {
        table,
        removed: vec![SegmentId(3), SegmentId(2)],
        added: vec![segment(8, 1, 7), segment(7, 1, 7)],
    };
    manifest.commit(&[merged, Edit::NextLsn(Lsn(10))]).unwrap();
    for _ in 0..3 {
        let (_, state) = open(&directory).unwrap();
        let ids: Vec<u64> = state.tables[&table].segments.iter().map(|s| s.id.0).collect();
        assert_eq!(ids, [8, 7, 4, 5]);
        assert_eq!(state.tables[&table].flushed, Lsn(9));
        assert_eq!((state.next_segment, state.next_lsn), (SegmentId(9), Lsn(10)));
    }
    let mut state = open(&directory).unwrap().1;
    let replace = |removed: &[u64], added: Vec<SegmentMeta>| {
        let removed = removed.iter().map(|id| SegmentId(*id)).collect();
        Edit::ReplaceSegments { table, removed, added }
    };
    let unknown = state.apply(&replace(&[4, 4], vec![])).unwrap_err();
    assert!(unknown.contains("unknown"), "{unknown}");
    state.apply(&replace(&[], vec![segment(7, 1, 7)])).unwrap();
    let twice = state.check().unwrap_err();
    assert!(twice.contains("twice"), "{twice}");
    assert_eq!(directory.list().unwrap().len(), 1, "older manifests are removed");
}

#[test]
fn erased_rows_add_up_and_go_with_their_segment() {
    let directory = MemoryDirectory::new();
    let (mut manifest, _) = open(&directory).unwrap();
    let (table, id) = (TableId(1), SegmentId(2));
    let flushed = Edit::Flushed { table, lsn: Lsn(9) };
    let add = Edit::AddSegment { table, segment: segment(2, 1, 9) };
    manifest.commit(&[create_table(), add, flushed]).unwrap();
    let erase = |id: u64, rows: std::ops::Range<u32>| Edit::EraseRows {
        table,
        segments: vec![(SegmentId(id), OrdinalIntervals::of_range(rows))],
    };
    manifest.commit(&[erase(2, 0..3)]).unwrap();
    manifest.commit(&[erase(2, 2..10)]).unwrap();
    for _ in 0..2 {
        let erased = &open(&directory).unwrap().1.tables[&table].erased;
        assert_eq!(erased[&id], OrdinalIntervals::of_range(0..10));
    }
    let (mut manifest, mut state) = open(&directory).unwrap();
    for (edit, message) in [(erase(3, 0..1), "unknown"), (erase(2, 4..11), "10 rows")] {
        let refused = state.apply(&edit).unwrap_err();
        assert!(refused.contains(message), "{refused}");
    }
    let gone = Edit::ReplaceSegments { table, removed: vec![id], added: vec![] };
    manifest.commit(&[gone]).unwrap();
    assert!(open(&directory).unwrap().1.tables[&table].erased.is_empty());
}

#[test]
fn postings_stay_with_their_segment_for_as_long_as_anything_has_it() {
    let directory = MemoryDirectory::new();
    let (mut manifest, _) = open(&directory).unwrap();
    let (table, id) = (TableId(1), SegmentId(2));
    manifest.commit(&[create_table()]).unwrap();
    let flushed = Edit::Flushed { table, lsn: Lsn(9) };
    let add = Edit::AddSegment { table, segment: segment(2, 1, 9) };
    manifest.commit(&[add, flushed]).unwrap();
    let postings = |file| PostingsMeta { file: SegmentId(file), bytes: 4096, fingerprint: file };
    let attach = |file| Edit::AttachPostings { segment: id, postings: postings(file) };
    manifest.commit(&[attach(5)]).unwrap();
    manifest.commit(&[attach(7)]).unwrap();
    let reopened = || open(&directory).unwrap();
    assert_eq!(reopened().1.postings, BTreeMap::from([(id, postings(7))]));
    let (mut manifest, state) = reopened();
    assert_eq!(state.next_segment, SegmentId(8), "the file's number is taken");
    let (name, schema) = ("t".to_string(), state.tables[&table].schema.clone());
    let pinned =
        PinnedTable { table, name, schema, segments: vec![segment(2, 1, 9)], erased: vec![] };
    let tables = vec![pinned];
    let pin = Edit::PinSnapshot { name: "s".into(), lsn: Lsn(9), clock: 7, tables };
    manifest.commit(&[pin]).unwrap();
    manifest.commit(&[Edit::ReplaceSegments { table, removed: vec![id], added: vec![] }]).unwrap();
    let (mut manifest, state) = reopened();
    assert_eq!(state.postings.len(), 1, "the snapshot has it");
    manifest.commit(&[Edit::DropSnapshot { name: "s".into() }]).unwrap();
    assert!(reopened().1.postings.is_empty());
    let mut state = reopened().1;
    assert!(state.apply(&attach(9)).unwrap_err().contains("unknown segment"));
}

#[test]
fn an_edit_cut_short_is_as_if_it_had_not_been() {
    let directory = MemoryDirectory::new();
    let (mut manifest, _) = open(&directory).unwrap();
    manifest.commit(&[create_table()]).unwrap();
    let (name, whole) = (manifest.name.clone(), read_file(&directory, &manifest.name).unwrap());
    manifest.commit(&[Edit::Flushed { table: TableId(1), lsn: Lsn(3) }]).unwrap();
    let bytes = read_file(&directory, &name).unwrap();
    for cut in whole.len()..bytes.len() {
        let crashed = MemoryDirectory::new();
        crashed.create(&name).unwrap().write_all(&bytes[..cut]).unwrap();
        let (_, state) = open(&crashed).unwrap();
        assert_eq!(state.tables[&TableId(1)].flushed, Lsn(0));
    }
}

/// It has its name only once it is whole.
#[test]
fn a_manifest_that_was_being_made_is_none_and_one_without_an_edit_is_an_error() {
    let directory = MemoryDirectory::new();
    let (mut manifest, _) = open(&directory).unwrap();
    manifest.commit(&[create_table()]).unwrap();
    manifest.close();
    let unfinished = read_file(&directory, &manifest.name).unwrap()[..20].to_vec();
    let left = directory.create("manifest-00000002.log.new").unwrap();
    left.write_all(&unfinished).unwrap();
    assert_eq!(open(&directory).unwrap().1.tables.len(), 1);
    for len in [0, 20] {
        directory.create("manifest-00000003.log").unwrap().write_all(&unfinished[..len]).unwrap();
        let error = Manifest::read(&directory).unwrap_err().to_string();
        assert!(error.contains("manifest-00000003.log"), "{error}");
        assert!(open(&directory).is_err());
        directory.remove("manifest-00000003.log").unwrap();
    }
}

#[test]
fn a_flipped_bit_is_an_error_that_names_the_file() {
    let directory = MemoryDirectory::new();
    let (mut manifest, _) = open(&directory).unwrap();
    manifest.commit(&[create_table()]).unwrap();
    let name = manifest.name.clone();
    let mut bytes = read_file(&directory, &name).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    directory.remove(&name).unwrap();
    directory.create(&name).unwrap().write_all(&bytes).unwrap();
    let error = open(&directory).err().expect("damage is seen").to_string();
    assert!(error.contains(&name), "{error}");
}

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::cursor::{put_u16, put_varint};
use crate::error::Result;
use crate::ids::SegmentId;
use crate::page::{PAGE_BYTES, PageAddress, PageKind, read_page};
use crate::postings::skip_table::put_place_entry;

const SEGMENT: SegmentId = SegmentId(3);
const START: u64 = 5 * PAGE_BYTES as u64;

/// The ordinals of each set.
type Lists = BTreeMap<Vec<u8>, Vec<u32>>;

/// The postings of a segment as its file holds them.
struct Written {
    bytes: Vec<u8>,
    summary: SetDirectorySummary,
}

impl Written {
    fn new(lists: &Lists, rows: usize) -> Written {
        let mut bytes = Vec::new();
        let mut writer = PostingsWriter::new(SEGMENT, START, 0);
        for (value, ordinals) in lists {
            let all = ordinals.len() == rows;
            writer.push(
                value,
                ordinals.iter().copied(),
                ordinals.len() as u64,
                all,
                &[],
                &mut bytes,
            );
            assert_eq!(writer.offset(), START + bytes.len() as u64);
        }
        let summary = writer.finish(&mut bytes);
        assert_eq!(summary.end(), START + bytes.len() as u64);
        let mut encoded = Vec::new();
        summary.encode(&mut encoded);
        assert_eq!(SetDirectorySummary::decode(&encoded).as_ref(), Ok(&summary));
        Written { bytes, summary }
    }

    fn page(&self, kind: PageKind, offset: u64, bytes: usize) -> Result<&[u8]> {
        let start = (offset - START) as usize;
        read_page(&self.bytes[start..start + bytes], kind, PageAddress { segment: SEGMENT, offset })
    }

    fn postings_page(&self, offset: u64) -> Result<&[u8]> {
        self.page(PageKind::Postings, offset, PAGE_BYTES)
    }

    fn directory_page(&self, page: usize) -> DirectoryPage<'_> {
        let (offset, bytes) = self.summary.place(page);
        let page = self.page(PageKind::SetDirectory, offset, bytes as usize).unwrap();
        DirectoryPage::parse(page, 0).unwrap()
    }

    fn find(&self, value: &[u8]) -> Option<SetEntry> {
        self.directory_page(self.summary.page_of_value(value)?).find(value).unwrap()
    }

    fn entries(&self) -> Vec<SetEntry> {
        (0..self.summary.len())
            .flat_map(|page| self.directory_page(page).entries())
            .collect::<Result<_>>()
            .unwrap()
    }

    /// All ordinals of a list, chunk by chunk.
    fn ordinals(&self, entry: &SetEntry) -> Vec<u32> {
        let mut ordinals = Vec::new();
        for member in (0..entry.count).step_by(CHUNK) {
            match entry.chunk_of_member(member, |offset| self.postings_page(offset)).unwrap() {
                None => return (0..entry.count as u32).collect(),
                Some((place, within)) => {
                    assert_eq!(within, 0);
                    let decode = |chunk: PostingChunk<'_>| {
                        chunk.decode_into(&mut ordinals);
                        Ok(())
                    };
                    place.chunk(|offset| self.postings_page(offset), decode).unwrap();
                }
            }
        }
        ordinals
    }

    /// Searches list `value` at `members` and around their ordinals and compares with the list.
    fn check(&self, value: &[u8], ordinals: &[u32], members: impl Iterator<Item = usize>) {
        let entry = self.find(value).expect("the set is listed");
        assert_eq!(entry.count, ordinals.len() as u64);
        assert_eq!(self.ordinals(&entry), ordinals);
        let mut reads = 0;
        let mut read = |offset| {
            reads += 1;
            self.postings_page(offset)
        };
        let mut searches = 0;
        for member in members {
            let ordinal = ordinals[member];
            assert_eq!(entry.select(member as u64, &mut read), Ok(ordinal));
            for near in [ordinal.saturating_sub(1), ordinal, ordinal.saturating_add(1)] {
                let expected = ordinals.partition_point(|&other| other < near) as u64;
                assert_eq!(entry.rank(near, &mut read), Ok(expected), "rank of {near}");
            }
            searches += 4;
            let end = ordinals.len().min(member + 600);
            let mut read = |offset| self.postings_page(offset);
            let mut some = Vec::new();
            entry.ordinals(member as u64..end as u64, &mut read, &mut some).unwrap();
            assert_eq!(some, ordinals[member..end]);
        }
        let reads_max = if ordinals.len() <= 128 { 0 } else { 2 * searches };
        assert!(reads <= reads_max, "{reads} page reads for {searches} searches");
    }
}

/// Ascending ordinals below 2^32, with steps up to `2^step_bits`.
fn any_list() -> impl Strategy<Value = Vec<u32>> {
    let len = prop_oneof![3 => 1usize..4, 2 => 1usize..700, 1 => 700usize..2_000];
    (len, 0u32..20, any::<u64>(), any::<u32>()).prop_map(|(len, step_bits, seed, first)| {
        let (mut state, mut ordinal) = (seed | 1, first >> 4);
        let next = |_| {
            let found = ordinal;
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            ordinal += 1 + (state as u32 & ((1 << step_bits) - 1));
            found
        };
        (0..len).map(next).collect()
    })
}

fn any_lists() -> impl Strategy<Value = Lists> {
    prop::collection::btree_map(prop::collection::vec(any::<u8>(), 0..12), any_list(), 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_list_is_found_and_searched_like_an_array(lists in any_lists(), seed in 0usize..50) {
        let written = Written::new(&lists, usize::MAX);
        prop_assert_eq!(written.summary.sets(), lists.len() as u64);
        let entries = written.entries();
        let listed: Vec<&[u8]> = entries.iter().map(|entry| &entry.value[..]).collect();
        prop_assert_eq!(listed, lists.keys().map(|value| &value[..]).collect::<Vec<_>>());
        for (value, ordinals) in &lists {
            let ends = [0, ordinals.len() - 1].into_iter();
            written.check(value, ordinals, ends.chain((seed..ordinals.len()).step_by(50)));
        }
    }

    #[test]
    fn a_value_that_names_no_set_is_not_found(lists in any_lists(), value in prop::collection::vec(any::<u8>(), 0..3)) {
        let written = Written::new(&lists, usize::MAX);
        prop_assert_eq!(written.find(&value).is_some(), lists.contains_key(&value));
    }

    #[test]
    fn a_chunk_reads_back(ordinals in prop::collection::btree_set(any::<u32>(), 1..=CHUNK), before in 0usize..9) {
        let ordinals: Vec<u32> = ordinals.into_iter().collect();
        let mut payload = vec![0; before];
        chunk::put_chunk(&ordinals, &mut payload);
        prop_assert_eq!(payload.len(), before + chunk::chunk_len(&ordinals));
        let chunk = PostingChunk::parse(&payload, before as u16).unwrap();
        let mut decoded = Vec::new();
        chunk.decode_into(&mut decoded);
        prop_assert_eq!(&decoded, &ordinals);
        prop_assert_eq!((chunk.len(), chunk.first()), (ordinals.len(), ordinals[0]));
        prop_assert_eq!(chunk.rank(u32::MAX), ordinals.partition_point(|&ordinal| ordinal < u32::MAX));
        prop_assert!(PostingChunk::parse(&payload[..payload.len() - 1], before as u16).is_err() || ordinals.len() == 1);
    }

    #[test]
    fn random_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0u16..20, small in 0u8..3) {
        // Small counts come often enough to reach past the headers.
        for byte in bytes.iter_mut().skip(1).take(3) {
            *byte = (*byte).min(small);
        }
        if let Ok(chunk) = PostingChunk::parse(&bytes, at) {
            chunk.decode_into(&mut Vec::new());
            chunk.rank(bytes.len() as u32);
        }
        if let Ok(table) = SkipTable::parse(&bytes, at) {
            table.chunk(table.chunk_of_ordinal(7));
        }
        if let Ok(page) = DirectoryPage::parse(&bytes, 1) {
            for entry in page.entries().flatten() {
                let _ = page.find(&entry.value);
            }
        }
        let _ = SetDirectorySummary::decode(&bytes);
    }
}

#[test]
fn a_list_of_several_skip_tables_is_searched_in_two_reads() {
    let members = 3 * TABLE_MEMBERS as u32 + 1000;
    let sparse: Vec<u32> = (0..members).map(|i| i * 40 + i % 7).collect();
    let dense: Vec<u32> = (100..members).collect();
    let tail: Vec<u32> =
        (0..=TABLE_MEMBERS as u32).map(|i| u32::MAX - 1 - (TABLE_MEMBERS as u32 - i) * 9).collect();
    let lists = Lists::from([
        (b"a".to_vec(), sparse),
        (b"b".to_vec(), vec![5]),
        (b"c".to_vec(), dense),
        (b"d".to_vec(), tail),
    ]);
    let written = Written::new(&lists, usize::MAX);
    for (value, ordinals) in &lists {
        let edges = (0..ordinals.len())
            .step_by(TABLE_MEMBERS as usize)
            .chain((0..ordinals.len()).step_by(CHUNK));
        let around = edges.flat_map(|edge| [edge.saturating_sub(1), edge]);
        written.check(value, ordinals, around.chain([ordinals.len() - 1]));
    }
    let ListPlace::Skips(root) = written.find(b"a").unwrap().place else {
        panic!("a long list has skip tables")
    };
    assert_eq!(root.tables(), 4);
}

#[test]
fn a_set_that_is_the_whole_segment_stores_no_ordinals() {
    let rows = 100_000;
    let lists = Lists::from([(b"only".to_vec(), (0..rows).collect())]);
    let written = Written::new(&lists, rows as usize);
    assert_eq!(written.bytes.len(), PAGE_BYTES, "one directory page");
    let entry = written.find(b"only").unwrap();
    assert_eq!(entry.place, ListPlace::All);
    written.check(b"only", &lists[&b"only"[..]], [0, 50_000, 99_999].into_iter());
}

#[test]
fn a_short_list_lies_in_the_directory_entry() {
    for (members, is_inline) in [(1, true), (128, true), (129, false), (256, false)] {
        // The last ordinal is far away, so that all take 32 bits.
        let list: Vec<u32> = (0..members - 1).map(|i| i * 3).chain([u32::MAX]).collect();
        let lists = Lists::from([(b"set".to_vec(), list)]);
        let written = Written::new(&lists, usize::MAX);
        let entry = written.find(b"set").unwrap();
        assert_eq!(matches!(entry.place, ListPlace::Inline(_)), is_inline, "{members} members");
        let pages = if is_inline { 1 } else { 2 };
        assert_eq!(written.bytes.len(), pages * PAGE_BYTES, "{members} members");
        written.check(b"set", &lists[&b"set"[..]], 0..members as usize);
    }
}

#[test]
fn a_list_in_an_entry_that_does_not_fit_its_count_is_malformed() {
    /// A directory page of one entry: its count, kind of list, and what follows.
    fn found(count: u64, kind: u8, rest: &[u8]) -> Result<Option<SetEntry>> {
        let mut entry = vec![1, b'a'];
        put_varint(&mut entry, count);
        entry.push(kind);
        entry.extend_from_slice(rest);
        let mut payload = 1u32.to_le_bytes().to_vec();
        payload.extend_from_slice(&(entry.len() as u32).to_le_bytes());
        payload.extend_from_slice(&entry);
        DirectoryPage::parse(&payload, 0).unwrap().find(b"a")
    }
    let list = |width: u8, packed: &[u8]| [&[7, 0, 0, 0, width], packed].concat();
    assert!(found(3, 3, &list(8, &[0, 1, 5])).unwrap().is_some());
    // No members, more than such a list may have, more than there are bytes for, and bytes left over.
    assert!(found(0, 3, &list(8, &[])).is_err());
    assert!(found(128, 3, &list(0, &[])).is_ok());
    assert!(found(129, 3, &list(0, &[])).is_err());
    assert!(found(300, 3, &list(0, &[])).is_err());
    assert!(found(u64::MAX, 3, &list(0, &[])).is_err());
    assert!(found(3, 3, &list(8, &[0, 1])).is_err());
    assert!(found(3, 3, &list(8, &[0, 1, 5, 9])).is_err());
    // Wider than an ordinal, and past the last ordinal.
    assert!(found(1, 3, &list(33, &[0; 5])).is_err());
    assert!(
        found(2, 3, &[&[7, 0, 0, 0, 32][..], &[0, 0, 0, 0, 255, 255, 255, 255]].concat()).is_err()
    );
    // A chunk of its own that is short enough for the entry.
    assert!(found(128, 1, &[0; 6]).is_err());
    assert!(found(129, 1, &[0; 6]).is_ok());
}

#[test]
fn a_group_that_cannot_weigh_what_its_entry_says_is_malformed() {
    let entry = |sum: u128, max: u64| {
        let mut bytes = Vec::new();
        let mut writer = PostingsWriter::new(SEGMENT, START, 1);
        let weight = GroupWeight { sum, max };
        writer.push(b"set", [4, 5, 9].into_iter(), 3, false, &[vec![weight]], &mut bytes);
        let summary = writer.finish(&mut bytes);
        let (offset, _) = summary.place(0);
        let address = PageAddress { segment: SEGMENT, offset };
        let page = read_page(&bytes, PageKind::SetDirectory, address).unwrap();
        DirectoryPage::parse(page, 1).unwrap().find(b"set").map(|_| ())
    };
    assert_eq!(entry(3 * u128::from(u64::MAX), u64::MAX), Ok(()));
    assert!(entry(31, 10).is_err());
    assert!(entry(9, 10).is_err());
}

#[test]
fn thousands_of_tiny_sets_share_pages() {
    let sets = 20_000u32;
    let lists: Lists = (0..sets).map(|i| (i.to_be_bytes().to_vec(), vec![i, i + sets])).collect();
    let written = Written::new(&lists, usize::MAX);
    let bytes_per_set = written.bytes.len() as f64 / f64::from(sets);
    assert!(bytes_per_set < 30.0, "{bytes_per_set} bytes per set");
    for (value, ordinals) in lists.iter().step_by(97) {
        written.check(value, ordinals, 0..2);
    }
}

#[test]
fn long_set_values_leave_the_writer_before_its_memory_grows() {
    // The first has a list on a postings page, which is open while directory pages of the others wait for it.
    let list = |i: u8| if i == 0 { (0..200).collect() } else { vec![u32::from(i)] };
    let lists: Lists = (0..80u8).map(|i| ([&[i][..], &[7; 60_000]].concat(), list(i))).collect();
    let (mut bytes, mut writer) = (Vec::new(), PostingsWriter::new(SEGMENT, START, 0));
    let (mut pushed, mut most_held) = (0, 0);
    for (value, ordinals) in &lists {
        let count = ordinals.len() as u64;
        writer.push(value, ordinals.iter().copied(), count, false, &[], &mut bytes);
        pushed += value.len();
        most_held = pushed.saturating_sub(bytes.len()).max(most_held);
    }
    assert!((1 << 20..3 << 19).contains(&most_held), "{most_held} of {pushed} bytes held");
    let written = Written::new(&lists, usize::MAX);
    for (value, ordinals) in &lists {
        written.check(value, ordinals, 0..1);
    }
}

#[test]
fn pages_are_filled_to_three_quarters_whatever_the_width() {
    for step in [1u32, 3, 50, 1000, 5000] {
        let ordinals: Vec<u32> = (0..800_000).map(|i| i * step).collect();
        let written = Written::new(&Lists::from([(b"set".to_vec(), ordinals.clone())]), usize::MAX);
        let packed: usize = ordinals.chunks(CHUNK).map(chunk::chunk_len).sum();
        let share = packed as f64 / written.bytes.len() as f64;
        assert!(share > 0.73, "{share} filled at steps of {step}");
    }
}

#[test]
#[should_panic(expected = "ordinals do not rise")]
fn a_list_that_does_not_rise_is_a_bug_of_the_caller() {
    let mut writer = PostingsWriter::new(SEGMENT, START, 0);
    writer.push(b"set", [1, 1].into_iter(), 2, false, &[], &mut Vec::new());
}

#[test]
#[should_panic(expected = "a set has other than 3 members")]
fn a_wrong_count_is_a_bug_of_the_caller() {
    let mut writer = PostingsWriter::new(SEGMENT, START, 0);
    writer.push(b"set", [1, 2].into_iter(), 3, false, &[], &mut Vec::new());
}

#[test]
fn a_skip_table_that_runs_past_its_page_is_malformed() {
    let mut payload = Vec::new();
    put_u16(&mut payload, 2);
    put_place_entry(&mut payload, 4, ItemPlace { page_offset: START, position: 9 });
    assert!(SkipTable::parse(&payload, 0).is_err());
    payload[0] = 1;
    assert_eq!(
        SkipTable::parse(&payload, 0).unwrap().chunk(0),
        ItemPlace { page_offset: START, position: 9 }
    );
}

proptest! {
    #[test]
    fn groups_are_found_by_weight_and_by_number(
        groups in prop::collection::vec((prop_oneof![Just(0), 0u64..5, any::<u64>()], 1..129u128), 1..400),
        shares in prop::collection::vec(0.0..1.0, 20),
        missing in 0..WEIGHT_GROUP
    ) {
        // The entry of a set of one group has its number of members beside the sum.
        let members = if groups.len() == 1 { WEIGHT_GROUP - missing } else { WEIGHT_GROUP };
        let group = |&(max, heavy): &(u64, u128)| {
            GroupWeight { sum: u128::from(max) * heavy.min(u128::from(members)), max }
        };
        let groups: Vec<GroupWeight> = groups.iter().map(group).collect();
        let (count, mut bytes) = (groups.len() as u64 * WEIGHT_GROUP - missing, Vec::new());
        let mut writer = PostingsWriter::new(SEGMENT, START, 2);
        let ones = vec![GroupWeight { sum: 1, max: 1 }; groups.len()];
        writer.push(b"set", 0..count as u32, count, false, &[ones, groups.clone()], &mut bytes);
        let summary = writer.finish(&mut bytes);
        let page = |kind, offset: u64, len: u32| {
            let start = (offset - START) as usize;
            let address = PageAddress { segment: SEGMENT, offset };
            read_page(&bytes[start..start + len as usize], kind, address).unwrap()
        };
        let (offset, len) = summary.place(0);
        let directory = DirectoryPage::parse(page(PageKind::SetDirectory, offset, len), 2).unwrap();
        let entry = directory.find(b"set").unwrap().unwrap();
        prop_assert_eq!(entry.weights[0].total(), groups.len() as u128);
        let tables = match &entry.weights[1] {
            SetWeights::Group(group) => {
                prop_assert_eq!(vec![*group], groups);
                return Ok(());
            }
            SetWeights::Tables(tables) => tables,
        };
        let payload = |table| page(PageKind::Postings, tables.place(table).page_offset, PAGE_BYTES as u32);
        let mut found = Vec::new();
        for number in 0..groups.len() as u64 {
            let table = tables.table_of_group(number);
            found.push(tables.group_of_number(table, payload(table), number).unwrap());
        }
        let mut before = 0;
        for (number, (group, &weight)) in found.iter().zip(&groups).enumerate() {
            prop_assert_eq!(*group, WeightGroup { number: number as u64, before, weight });
            before += weight.sum;
        }
        prop_assert_eq!(entry.weights[1].total(), before);
        for share in shares {
            let unit = (before as f64 * share) as u128;
            if unit < before {
                let table = tables.table_of_unit(unit);
                let group = tables.group_of_unit(table, payload(table), unit).unwrap();
                prop_assert!((group.before..group.before + group.weight.sum).contains(&unit));
                prop_assert_eq!(group, found[group.number as usize]);
            }
        }
    }
}

//! Payloads of pages, one kind a target: decoded, then searched in all ways.
//!
//! The first part of an input selects the decoder's other arguments, the second is the payload.

use std::sync::Arc;

use drillcore_format::block::{BlockView, Picked, RowsBuilder, value_count};
use drillcore_format::cursor::Cursor;
use drillcore_format::dictionary::{Dictionary, DictionaryBuilder, encode_dictionary};
use drillcore_format::error::FormatError;
use drillcore_format::file_tail::{FileKind, FileTail, TAIL_BYTES};
use drillcore_format::ids::SegmentId;
use drillcore_format::index_page::{IndexPage, Summary, key_hash, may_contain};
use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::key::{Keys, decode_column, decode_values, has_more_columns, split_column};
use drillcore_format::page::{HEADER_BYTES, PageAddress, PageKind, read_page};
use drillcore_format::postings::{
    DirectoryPage, PostingChunk, SetDirectorySummary, SetEntry, SetWeights, SkipTable, WEIGHT_GROUP,
};
use drillcore_format::postings_footer::PostingsFooter;
use drillcore_format::rows::Layout;
use drillcore_format::segment_footer::SegmentFooter;
use drillcore_format::statistics_page::{Zones, ZonesBuilder};
use drillcore_format::symbol_table::StringCompressor;

use drillcore::arrow_array::StringArray;

use super::outcome::Outcome;
use super::parts::{byte, number, part};
use super::tables::{bounds, projections, table, use_rows};

/// Things of a kind that are looked at one by one, at most.
const LOOKED_AT: usize = 300;

/// The kinds of pages.
pub const KINDS: [PageKind; 13] = [
    PageKind::Block,
    PageKind::Index,
    PageKind::Postings,
    PageKind::SetDirectory,
    PageKind::SetSummary,
    PageKind::Summary,
    PageKind::Footer,
    PageKind::Statistics,
    PageKind::Filter,
    PageKind::Stream,
    PageKind::Dictionary,
    PageKind::StreamDirectory,
    PageKind::Extent,
];

/// Rows of the selected table.
pub fn block(parts: &[Vec<u8>]) -> Outcome {
    let mut outcome = Outcome::default();
    let layout = &table(byte(part(parts, 0), 0)).layout;
    use_block(layout, part(parts, 1), &texts_and_symbols(), &mut outcome);
    outcome
}

/// Reads all rows of a block, by range and one by one, and searches its keys. Each value has the dictionary, whether it is of texts
/// or not.
pub fn use_block(
    layout: &Layout,
    payload: &[u8],
    dictionary: &Arc<Dictionary>,
    outcome: &mut Outcome,
) {
    outcome.note(value_count(payload));
    let Some(view) = outcome.note(BlockView::parse(payload, layout)) else { return };
    let values = 0..layout.value_types().len();
    let dictionaries: Vec<_> = values.map(|value| (value, dictionary.clone())).collect();
    let view = view.with_dictionaries(&dictionaries);
    let rows = view.rows();
    let mut keys = Vec::new();
    for row in 0..rows.min(LOOKED_AT) {
        let mut key = Vec::new();
        outcome.note(view.key_into(row, &mut key));
        outcome.note(view.compare_key(row, &key));
        keys.push(key);
    }
    for bound in bounds(&keys) {
        let rank = outcome.note(view.rank(&bound));
        assert!(rank.is_none_or(|rank| rank <= rows), "a rank lies past the rows");
    }
    let picks: Vec<u32> =
        (0..rows as u32).step_by(3).chain([0, 0][..rows.min(2)].to_vec()).collect();
    for projection in projections(layout) {
        // Whatever lies apart is found there.
        let collected = |picked: Picked<'_>| {
            let places = view.extents(&projection, picked)?;
            let extents = vec![Arc::from(&b"apart"[..]); places.len()];
            let view = view.clone().with_extents(&extents);
            let mut builder = RowsBuilder::new(&projection, rows);
            match picked {
                Picked::Range(from, to) => builder.append_range(&view, from, to)?,
                Picked::Rows(rows) => builder.append_rows(&view, rows)?,
            }
            builder.finish()
        };
        let ranges = [(0, rows), (rows / 3, rows - rows / 4)];
        let ranges = ranges.into_iter().filter(|(from, to)| from <= to);
        for (from, to) in ranges {
            let found = collected(Picked::Range(from, to));
            if let Some(found) = outcome.note(found)
                && projection == layout.all()
            {
                use_rows(layout, &found, outcome);
            }
        }
        outcome.note(collected(Picked::Rows(&picks)));
    }
}

/// A dictionary of texts, with symbols by which others are compressed.
pub fn texts_and_symbols() -> Arc<Dictionary> {
    let texts = StringArray::from_iter_values((0..1_000).map(|at| at.to_string()));
    let (mut builder, mut compressor) = <(DictionaryBuilder, StringCompressor)>::default();
    builder.codes(&texts, usize::MAX).expect("they are few and short");
    let lines = StringArray::from_iter_values((0..2_000).map(|at| format!("line {at} of many")));
    compressor.compress(&lines, true).expect("they are alike");
    let payload = encode_dictionary(Some(&builder), &compressor).expect("it has both");
    Arc::new(Dictionary::decode(&payload).expect("it was just encoded"))
}

/// Blocks by number, ordinal, key and weight.
pub fn index_page(parts: &[Vec<u8>]) -> Outcome {
    let mut outcome = Outcome::default();
    let Some(page) = outcome.note(IndexPage::parse(part(parts, 1))) else { return outcome };
    let step = page.blocks().div_ceil(LOOKED_AT);
    for number in (0..page.blocks()).step_by(step) {
        let place = page.block(number);
        assert!(place.rows > 0 && place.bytes > 0);
        for ordinal in [place.first_ordinal, place.first_ordinal + u64::from(place.rows) - 1] {
            assert_eq!(page.block_of_ordinal(ordinal).number, number);
        }
        for weight in 0..page.weights() {
            let (before, after) =
                (page.weight_before(weight, number), page.weight_before(weight, number + 1));
            assert!(before <= after, "running sums do not fall");
            if before < after {
                assert_eq!(page.block_of_weight(weight, after - 1).number, number);
            }
        }
    }
    assert_eq!(
        page.block_of_ordinal(page.first_ordinal() + page.rows() - 1).number + 1,
        page.blocks()
    );
    for bound in bounds(&[part(parts, 1).to_vec(), part(parts, 2).to_vec()]) {
        assert!(page.block_of_bound(&bound).number < page.blocks());
    }
    for hash in [key_hash(part(parts, 2)), number(part(parts, 0), 0)] {
        if let Some(place) = page.filter_place(hash) {
            assert!(place.page < page.filter_pages());
            let _ = may_contain(part(parts, 2), place, hash);
        }
    }
    outcome
}

/// Index pages by ordinal, key and weight.
pub fn index_summary(parts: &[Vec<u8>]) -> Outcome {
    let mut outcome = Outcome::default();
    let Some(summary) = outcome.note(Summary::decode(part(parts, 1))) else { return outcome };
    let mut again = Vec::new();
    summary.encode(&mut again);
    assert_eq!(Summary::decode(&again).as_ref(), Ok(&summary), "what was read can be written");
    let step = summary.len().div_ceil(LOOKED_AT).max(1);
    for page in (0..summary.len()).step_by(step) {
        assert_eq!(summary.page_of_ordinal(summary.first_ordinal(page)), page);
        let ((offset, bytes), (area, area_bytes)) = (summary.place(page), summary.area());
        assert!(offset >= area && offset + u64::from(bytes) <= area + area_bytes);
        let (statistics, bytes) = summary.statistics_place(page);
        assert!(statistics.checked_add(u64::from(bytes)).is_some());
        let around = bounds(&[summary.separator(page).to_vec()]);
        assert!(around.iter().all(|bound| summary.page_of_bound(bound) < summary.len()));
        for weight in 0..summary.weights() {
            let (before, after) =
                (summary.weight_before(weight, page), summary.weight_before(weight, page + 1));
            assert!(before <= after, "running sums do not fall");
            if before < after {
                assert_eq!(summary.page_of_weight(weight, after - 1), page);
            }
        }
    }
    outcome
}

/// Zones of the selected table. The selector also says how many rows the index page has.
pub fn statistics_page(parts: &[Vec<u8>]) -> Outcome {
    let mut outcome = Outcome::default();
    let (selector, payload) = (part(parts, 0), part(parts, 1));
    let layout = &table(byte(selector, 0)).layout;
    let rows = number(selector, 1) & 0xffff_ffff;
    let columns: Vec<usize> = (0..layout.schema().columns.fields().len()).collect();
    let all = std::iter::once(columns.clone());
    for columns in all.chain(columns.iter().map(|column| vec![*column])) {
        let mut builder = ZonesBuilder::new(layout, &columns, 1000);
        let zones = builder.append_page(payload, rows).and_then(|()| builder.finish());
        let Some(zones) = outcome.note(zones) else { continue };
        for ordinals in [0..u64::MAX, 1000..1000 + rows, 1001..1001 + rows / 2, 0..0] {
            use_zones(&zones.overlapping(ordinals), &columns);
        }
    }
    outcome
}

fn use_zones(zones: &Zones, columns: &[usize]) {
    let _blocks: u64 = zones.blocks().values().iter().sum();
    for zone in 0..zones.len() {
        assert!(!zones.ordinals(zone).is_empty());
        assert_eq!(zones.span(zone).rows, zones.rows().value(zone));
    }
    for &column in columns {
        let known = zones.column(column).expect("the column was asked for");
        assert_eq!((known.mins.len(), known.maxes.len()), (zones.len(), zones.len()));
        assert_eq!(known.null_counts.len(), zones.len());
    }
    zones.renumbered(columns);
}

/// A postings page: chunks and skip tables at some positions, and the lists of a directory page (the third part)
/// whose chunks are all looked for in it.
pub fn postings(parts: &[Vec<u8>]) -> Outcome {
    let mut outcome = Outcome::default();
    let (selector, page, directory) = (part(parts, 0), part(parts, 1), part(parts, 2));
    let positions = selector.chunks(2).map(|pair| u16::from_le_bytes([pair[0], byte(pair, 1)]));
    for position in positions.chain([0]) {
        if let Some(chunk) = outcome.note(PostingChunk::parse(page, position)) {
            let mut ordinals = Vec::new();
            chunk.decode_into(&mut ordinals);
            let selected = (0..chunk.len()).map(|member| chunk.select(member));
            assert!(selected.eq(ordinals.iter().copied()));
            for &ordinal in &ordinals {
                assert!(chunk.rank(ordinal) <= chunk.len());
            }
        }
        if let Some(table) = outcome.note(SkipTable::parse(page, position)) {
            let places = (0..table.chunks()).map(|chunk| table.chunk(chunk).page_offset);
            assert!(places.max().is_some());
            for ordinal in [0, 1, 1 << 16, u32::MAX] {
                assert!(table.chunk_of_ordinal(ordinal) < table.chunks());
            }
        }
    }
    for weights in 0..2 {
        if let Some(directory) = outcome.note(DirectoryPage::parse(directory, weights)) {
            for entry in directory.entries().take(LOOKED_AT) {
                if let Some(entry) = outcome.note(entry) {
                    use_list(&entry, page, &mut outcome);
                    use_weights(&entry, page, &mut outcome);
                }
            }
        }
    }
    outcome
}

/// Looks for groups of members by weight and by number, in tables of which every page is `page`.
fn use_weights(entry: &SetEntry, page: &[u8], outcome: &mut Outcome) {
    for weights in &entry.weights {
        let tables = match weights {
            SetWeights::Group(group) => {
                let max = u128::from(group.max);
                assert!(max <= group.sum && group.sum <= u128::from(entry.count) * max);
                continue;
            }
            SetWeights::Tables(tables) => tables,
        };
        let total = weights.total();
        for unit in [0, 1, total / 2, total.saturating_sub(1)].into_iter().filter(|&u| u < total) {
            let table = tables.table_of_unit(unit);
            if let Some(group) = outcome.note(tables.group_of_unit(table, page, unit)) {
                assert!((group.before..group.before + group.weight.sum).contains(&unit));
            }
        }
        for group in [0, 1, (entry.count - 1) / WEIGHT_GROUP] {
            if group <= (entry.count - 1) / WEIGHT_GROUP {
                let table = tables.table_of_group(group);
                outcome.note(tables.group_of_number(table, page, group));
            }
        }
    }
}

/// Searches a list, of which every page is `page`.
fn use_list(entry: &SetEntry, page: &[u8], outcome: &mut Outcome) {
    let read = |_| Ok::<_, FormatError>(page);
    let (count, last) = (entry.count, entry.count - 1);
    for member in [0, 1, 255, 256, count / 2, last].into_iter().filter(|member| *member < count) {
        outcome.note(entry.select(member, read));
    }
    for ordinal in [0, 1, 100, 1 << 20, u32::MAX] {
        let rank = outcome.note(entry.rank(ordinal, read));
        assert!(rank.is_none_or(|rank| rank <= count), "a rank lies past the members");
    }
    let mut ordinals = Vec::new();
    for members in [0..count.min(1_000), last.saturating_sub(600)..count, 0..0] {
        outcome.note(entry.ordinals(members, read, &mut ordinals));
    }
}

/// A set directory page of a table of some weight columns: every entry, and each value looked for.
pub fn set_directory(parts: &[Vec<u8>]) -> Outcome {
    let mut outcome = Outcome::default();
    let weights = part(parts, 0).first().map_or(0, |weights| usize::from(weights % 4));
    let page = outcome.note(DirectoryPage::parse(part(parts, 1), weights));
    let Some(page) = page else { return outcome };
    assert_eq!(page.is_empty(), page.entries().next().is_none());
    for entry in page.entries().take(LOOKED_AT) {
        if let Some(entry) = outcome.note(entry) {
            outcome.note(page.find(&entry.value));
        }
    }
    outcome.note(page.find(part(parts, 2)));
    outcome.note(page.find(&[]));
    outcome
}

/// The summary of a set directory: pages by value.
pub fn set_summary(parts: &[Vec<u8>]) -> Outcome {
    let mut outcome = Outcome::default();
    let decoded = SetDirectorySummary::decode(part(parts, 1));
    let Some(summary) = outcome.note(decoded) else { return outcome };
    let mut again = Vec::new();
    summary.encode(&mut again);
    assert_eq!(SetDirectorySummary::decode(&again).as_ref(), Ok(&summary));
    for page in 0..summary.len().min(LOOKED_AT) {
        assert_eq!(summary.page_of_value(summary.first_value(page)), Some(page));
        summary.place(page);
    }
    assert!(summary.page_of_value(part(parts, 2)).is_none_or(|page| page < summary.len()));
    outcome
}

/// Footers of both kinds, and the sets that they say are indexed.
pub fn footer(parts: &[Vec<u8>]) -> Outcome {
    let mut outcome = Outcome::default();
    let payload = part(parts, 1);
    let mut again = Vec::new();
    match byte(part(parts, 0), 0) % 3 {
        0 => {
            let Some(footer) = outcome.note(SegmentFooter::decode(payload)) else { return outcome };
            footer.encode(&mut again);
            assert_eq!(SegmentFooter::decode(&again).as_ref(), Ok(&footer));
            use_indexed(&footer.indexed);
        }
        1 => {
            let Some(footer) = outcome.note(PostingsFooter::decode(payload)) else {
                return outcome;
            };
            footer.encode(&mut again);
            assert_eq!(PostingsFooter::decode(&again).as_ref(), Ok(&footer));
            use_indexed(&footer.indexed);
        }
        _ => {
            let decoded = IndexedSets::decode(&mut Cursor::new(payload, "indexed sets"));
            outcome.note(decoded).iter().for_each(use_indexed);
        }
    }
    outcome
}

fn use_indexed(indexed: &IndexedSets) {
    let values: Vec<Vec<u8>> = indexed.exceptions().map(<[u8]>::to_vec).collect();
    assert!(values.iter().all(|value| indexed.contains(value) != indexed.is_all_but_exceptions()));
    assert!(indexed.cover(indexed) && IndexedSets::all().cover(indexed));
    assert!(indexed.with(values.clone()).cover(&indexed.without(values)));
}

/// A page around its payload, and the tail of a file: the checksums are put right, the rest is as it comes.
pub fn envelope(parts: &[Vec<u8>]) -> Outcome {
    let mut outcome = Outcome::default();
    let address = PageAddress { segment: SegmentId(7), offset: number(part(parts, 0), 0) };
    let mut page = part(parts, 1).to_vec();
    repair_page(&mut page, address);
    for kind in KINDS {
        outcome.note(read_page(&page, kind, address));
    }
    let mut tail = [0; TAIL_BYTES];
    for (at, byte) in part(parts, 2).iter().take(TAIL_BYTES).enumerate() {
        tail[at] = *byte;
    }
    let checksums = [&tail[8..24], &tail[..8]].map(crc32c::crc32c);
    tail[24..28].copy_from_slice(&checksums[0].to_le_bytes());
    tail[28..32].copy_from_slice(&checksums[1].to_le_bytes());
    for kind in [FileKind::Segment, FileKind::Postings] {
        outcome.note(FileTail::read(kind, &tail));
    }
    outcome
}

/// Puts the checksum of a page right, if its payload lies within it.
fn repair_page(page: &mut [u8], address: PageAddress) {
    if page.len() < HEADER_BYTES {
        return;
    }
    let payload_len = u32::from_le_bytes(page[8..12].try_into().expect("four bytes were sliced"));
    let Some(covered) = page.get(4..(HEADER_BYTES + payload_len as usize)) else { return };
    let place = [address.segment.0.to_le_bytes(), address.offset.to_le_bytes()].concat();
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&place), covered);
    page[..4].copy_from_slice(&checksum.to_le_bytes());
}

/// Keys of the selected table, a part each: taken apart, column by column, and as values of sets.
pub fn key(parts: &[Vec<u8>]) -> Outcome {
    let mut outcome = Outcome::default();
    let types = table(byte(part(parts, 0), 0)).layout.key_types();
    let keys: Vec<&[u8]> = parts.iter().skip(1).map(Vec::as_slice).collect();
    for position in 0..types.len() {
        for key in &keys {
            outcome.note(split_column(key, types, position));
            outcome.note(decode_column(&Keys::from_iter([key]), types, position));
            outcome.note(decode_values(&[key], &types[position]));
        }
        outcome.note(decode_column(&Keys::from_iter(&keys), types, position));
    }
    for key in &keys {
        outcome.note(has_more_columns(key, types));
    }
    for bound in bounds(&parts.iter().skip(1).cloned().collect::<Vec<_>>()) {
        let behind = keys.iter().filter(|key| bound.lies_before(key)).count();
        assert!(behind <= keys.len());
    }
    outcome
}

//! Zones of whole segments: what they say, what reading them costs, and that the check compares them with
//! the rows.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow_schema::{Field, Schema};
use drillcore_format::ids::{Lsn, LsnRange, SegmentId, TableId};
use drillcore_format::page::{
    HEADER_BYTES, PageAddress, PageKind, page_len, read_page, write_page,
};
use drillcore_format::rows::Layout;
use drillcore_format::schema::TableSchema;
use drillcore_storage::files::directory::{Directory, read_file};
use drillcore_storage::files::memory_directory::MemoryDirectory;
use drillcore_storage::pages::page_cache::PageCache;
use drillcore_storage::segments::segment::Segment;
use drillcore_storage::segments::segment_check::check_segment;
use drillcore_storage::segments::segment_writer::SegmentWriter;

const ID: SegmentId = SegmentId(1);

fn layout(batch: &RecordBatch) -> Layout {
    Layout::new(&TableSchema::new(batch.schema(), vec![0]))
}

/// A segment of the batch's rows, which are sorted by the first column.
fn cache_of(files: &MemoryDirectory, budget_bytes: u64) -> Arc<PageCache> {
    Arc::new(PageCache::new(Arc::new(files.clone()), budget_bytes))
}

fn segment(files: &MemoryDirectory, batch: &RecordBatch) -> Segment {
    let layout = layout(batch);
    let lsns = LsnRange { first: Lsn(1), last: Lsn(1) };
    let directory: Arc<dyn Directory> = Arc::new(files.clone());
    let mut writer = SegmentWriter::create(directory, ID, TableId(1), &layout, lsns).unwrap();
    let rows = layout.encode(batch);
    for from in (0..rows.len()).step_by(8192) {
        writer.append(&rows.slice(from, (rows.len() - from).min(8192))).unwrap();
    }
    writer.finish().unwrap();
    Segment::open(files, ID, &layout, cache_of(files, 64 << 20)).unwrap()
}

fn batch(columns: Vec<(String, ArrayRef)>) -> RecordBatch {
    let field = |(name, array): &(String, ArrayRef)| {
        Field::new(name, array.data_type().clone(), array.null_count() > 0)
    };
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<Field>>());
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(schema), arrays).unwrap()
}

/// Ten columns of flights, ordered by time.
fn flights(rows: i64) -> RecordBatch {
    let mix = |row: i64, salt: i64| (row * 7919 + salt).wrapping_mul(0x09e3_779b_97f4_a7c1) >> 20;
    let ints = |salt: i64, below: i64| -> ArrayRef {
        Arc::new(
            (0..rows).map(|row| mix(row, salt).rem_euclid(below) as i32).collect::<Int32Array>(),
        )
    };
    let names = |salt: i64, count: i64| -> ArrayRef {
        let name = |row| format!("{:X}", 0xA000 + mix(row, salt).rem_euclid(count));
        Arc::new(StringArray::from_iter_values((0..rows).map(name)))
    };
    let delays = (0..rows).map(|row| (row % 11 > 0).then(|| (mix(row, 9) % 10_000) as f64 / 10.0));
    let late = (0..rows).map(|row| Some(mix(row, 10) % 5 == 0));
    batch(vec![
        ("at".into(), Arc::new(Int64Array::from_iter_values((0..rows).map(|row| row * 3)))),
        ("carrier".into(), names(1, 14)),
        ("origin".into(), names(2, 300)),
        ("dest".into(), names(3, 300)),
        ("flight".into(), ints(4, 9000)),
        ("tail".into(), names(5, 5000)),
        ("distance".into(), ints(6, 5000)),
        ("delay".into(), Arc::new(delays.collect::<Float64Array>())),
        ("taxi".into(), ints(8, 60)),
        ("late".into(), Arc::new(late.collect::<BooleanArray>())),
    ])
}

/// Where the pages of a kind lie in a segment's file.
fn pages(file: &[u8], wanted: PageKind) -> Vec<std::ops::Range<usize>> {
    let padded = [PageKind::Block, PageKind::Index, PageKind::Statistics].map(|kind| kind as u8);
    let (mut pages, mut at) = (Vec::new(), 0);
    while padded.contains(&file[at + 4]) {
        let payload_len = u32::from_le_bytes(file[at + 8..at + 12].try_into().unwrap()) as usize;
        let len = page_len(at as u64, payload_len, true);
        if file[at + 4] == wanted as u8 {
            pages.push(at..at + len);
        }
        at += len;
    }
    pages
}

#[test]
fn zones_tell_where_values_lie_and_cost_no_block() {
    let files = MemoryDirectory::new();
    let rows = 300_000;
    let segment = segment(&files, &flights(rows));
    let cache = cache_of(&files, 64 << 20);
    let segment = Segment::open(&files, ID, &layout(&flights(1)), cache.clone())
        .unwrap_or_else(|error| panic!("{}: {error}", segment.rows()));
    for (from, to) in [(0, 1), (0, 300_000), (17_000, 17_100), (299_999, 300_000), (5, 5)] {
        let zones = segment.zones(&layout(&flights(1)), from..to, &[0]).unwrap();
        let at = zones.column(0).unwrap();
        let mut next = zones.first_ordinals().values().first().copied().unwrap_or(to);
        assert!(next <= from && (zones.is_empty() == (from == to)));
        for zone in 0..zones.len() {
            let ordinals = zones.ordinals(zone);
            assert_eq!(ordinals.start, next);
            assert!(
                ordinals.start < to && ordinals.end > from,
                "{ordinals:?} overlaps {from}..{to}"
            );
            let bound = |array: &ArrayRef| array.as_primitive::<Int64Type>().value(zone);
            assert_eq!(bound(&at.mins), ordinals.start as i64 * 3);
            assert_eq!(bound(&at.maxes), (ordinals.end as i64 - 1) * 3);
            next = ordinals.end;
        }
        assert!(next >= to);
        assert!(zones.column(1).is_none(), "a column that was not asked for");
    }
    let counts = cache.counts().read();
    assert_eq!((counts.blocks, counts.index_pages), (0, 0));
    assert!(counts.statistics_pages > 1);
    let before = counts.statistics_pages;
    segment.zones(&layout(&flights(1)), 0..300_000, &[1, 7]).unwrap();
    assert_eq!(cache.counts().read().statistics_pages, before, "pages are kept");
}

#[test]
fn statistics_are_a_small_share_of_a_segment_however_wide_its_rows() {
    let wide = |count: i64| {
        let column = |at: i64| {
            let values =
                (0..300).map(move |row| if at == 0 { row } else { row * at * 7919 % 10_007 });
            (format!("c{at}"), Arc::new(Int64Array::from_iter_values(values)) as ArrayRef)
        };
        batch((0..count).map(column).collect())
    };
    for (what, batch) in [("10 columns", flights(40_000)), ("1,000 columns", wide(1000))] {
        let files = MemoryDirectory::new();
        let segment = segment(&files, &batch);
        check_segment(Arc::new(files.clone()), &segment, |_| true).unwrap();
        let file = read_file(&files, &Segment::file_name(ID)).unwrap();
        let statistics = pages(&file, PageKind::Statistics);
        let bytes: usize = statistics.iter().map(|page| page.len()).sum();
        let payload = |page: &std::ops::Range<usize>| {
            let at = page.start + HEADER_BYTES - 4;
            u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize
        };
        let payloads: usize = statistics.iter().map(payload).sum();
        let zones = segment.zones(&layout(&batch), 0..segment.rows(), &[]).unwrap();
        let (blocks, share) = (segment.blocks() as usize, 100.0 * bytes as f64 / file.len() as f64);
        println!(
            "{what}: {} rows, {blocks} blocks, {} zones, {} pages of {bytes} bytes, {} a block without \
             padding; {share:.1} % of {} bytes",
            segment.rows(),
            zones.len(),
            statistics.len(),
            payloads / blocks,
            file.len(),
        );
        assert!(share < 6.0, "{what}: {share} %");
    }
}

#[test]
fn the_check_finds_zones_that_do_not_describe_their_rows() {
    let files = MemoryDirectory::new();
    let sound = segment(&files, &flights(5000));
    check_segment(Arc::new(files.clone()), &sound, |_| true).unwrap();
    let name = Segment::file_name(ID);
    let file = read_file(&files, &name).unwrap();
    let page = pages(&file, PageKind::Statistics)[0].clone();
    let address = PageAddress { segment: ID, offset: page.start as u64 };
    let payload = read_page(&file[page.clone()], PageKind::Statistics, address).unwrap();
    let all: Vec<usize> = (0..10).collect();
    let layout = layout(&flights(1));
    let said = sound.zones(&layout, 0..sound.rows(), &all).unwrap();
    // Changed bits under a checksum that fits them. Some mean the same, such as those beneath a null.
    let mut found = 0;
    for at in (0..payload.len()).step_by(3) {
        let mut payload = payload.to_vec();
        payload[at] ^= 1;
        let mut forged = Vec::new();
        write_page(PageKind::Statistics, address, &payload, true, &mut forged);
        let mut file = file.clone();
        file[page.clone()].copy_from_slice(&forged);
        let copy = MemoryDirectory::new();
        copy.create(&name).unwrap().write_all(&file).unwrap();
        match check_segment(Arc::new(copy.clone()), &sound, |_| true) {
            Err(error) => found += usize::from(error.to_string().contains("do not describe them")),
            Ok(()) => {
                let cache = cache_of(&copy, 1 << 20);
                let forged = Segment::open(&copy, ID, &layout, cache).unwrap();
                let found = forged.zones(&layout, 0..sound.rows(), &all).unwrap();
                assert_eq!(found, said, "byte {at}");
            }
        }
    }
    assert!(found > 100, "{found} zones decode and are wrong");
}

/// The blocks of an index page wait in memory until it is written.
#[test]
fn rows_that_have_many_pages_each_close_index_pages_early() {
    const ROWS: i64 = 60;
    let noise = |row: i64, column: i64| {
        let word = |at: i64| {
            let mixed = (row * 7919 + column * 104_729 + at).wrapping_mul(0x1e37_79b9_7f4a_7c15);
            format!("{:016x}", mixed ^ (mixed >> 29))
        };
        (0..60).map(word).collect::<String>()
    };
    let mut columns: Vec<(String, ArrayRef)> =
        vec![("at".into(), Arc::new(Int64Array::from_iter_values(0..ROWS)))];
    for column in 0..400 {
        let texts = StringArray::from_iter_values((0..ROWS).map(|row| noise(row, column)));
        columns.push((format!("c{column}"), Arc::new(texts)));
    }
    let files = MemoryDirectory::new();
    let batch = batch(columns);
    let segment = segment(&files, &batch);
    let mib = segment.bytes() >> 20;
    assert!(mib >= 10, "{mib} MiB");
    assert!(
        segment.statistics_page_count() >= mib / 5,
        "{} of {mib} MiB",
        segment.statistics_page_count()
    );
    let rows = segment.read(0, ROWS as u64, &layout(&batch).all()).unwrap();
    assert_eq!(rows.len() as i64, ROWS);
}

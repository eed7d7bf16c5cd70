//! The bytes of pages and logs, pinned: a change here is a change of the format, which also needs
//! `docs/format.md`, a version number and CHANGELOG.md.
//!
//! With `UPDATE_GOLDEN=1` in the environment the files are written instead of compared.

mod apart;
mod streams;

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use drillcore_format::file_tail::{FileKind, FileTail, TAIL_BYTES};
use drillcore_format::frame::{FileHeader, FrameWriter, LogKind, PayloadBuilder};
use drillcore_format::frame_reader::FrameReader;
use drillcore_format::ids::{Lsn, LsnRange, SegmentId, TableId};
use drillcore_format::index_page::{
    FinishedIndexPage, IndexPage, IndexPageBuilder, Summary, key_hash, may_contain,
};
use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::key::Bound;
use drillcore_format::logged_commit::{
    Erased, LoggedCommit, LoggedErasure, SourcePosition, decode_commit, put_batch, put_erasure,
    put_source_position,
};
use drillcore_format::manifest_edit::{
    BackupMark, Edit, PinnedTable, PostingsMeta, SegmentMeta, decode_edits, encode_edits,
};
use drillcore_format::ordinal_intervals::OrdinalIntervals;
use drillcore_format::page::{PAGE_BYTES, PageAddress, PageKind, read_page, write_page};
use drillcore_format::postings::{
    CHUNK, DirectoryPage, GroupWeight, PostingsWriter, SetDirectorySummary, SetWeights,
    WEIGHT_GROUP,
};
use drillcore_format::postings_footer::PostingsFooter;
use drillcore_format::rows::Layout;
use drillcore_format::schema::{
    MergePolicy, MetricKind, Rollup, StoredGranularity, StoredMetric, TableSchema, TimeToLive,
    list_of_strings,
};
use drillcore_format::segment_footer::SegmentFooter;
use drillcore_format::statistics_page::{StatisticsPageBuilder, Zones, ZonesBuilder};
use drillcore_format::streams::directory::StreamColumn;

/// Asserts that `bytes` are those of the golden file, and returns the file's.
fn golden(name: &str, bytes: &[u8]) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, bytes).unwrap();
    }
    let pinned = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let first = pinned.iter().zip(bytes).position(|(a, b)| a != b);
    assert!(
        pinned == bytes,
        "{name}: {} bytes, {} pinned, first difference at {first:?}",
        bytes.len(),
        pinned.len()
    );
    pinned
}

fn address(offset: u64) -> PageAddress {
    PageAddress { segment: SegmentId(9), offset }
}

/// The frames of a log file that ends with its last frame.
fn frames(bytes: &[u8], kind: LogKind, first: u64) -> Vec<(u64, &[u8])> {
    let (_, mut reader) = FrameReader::new(bytes, kind, first).unwrap();
    let mut frames = Vec::new();
    while let Some(frame) = reader.next_frame().unwrap() {
        frames.push((frame.sequence, frame.payload));
    }
    assert_eq!(reader.at(), bytes.len());
    frames
}

#[test]
fn a_wal_keeps_its_bytes() {
    let first = [(TableId(1), &b"rows of table 1"[..]), (TableId(7), b"rows of table 7")];
    // The last one fills a sector with zeros.
    let second = [(TableId(7), &[0u8; 1200][..])];
    let mut bytes = Vec::new();
    let header = FileHeader { kind: LogKind::Wal, nonce: 0x5eed };
    header.put(&mut bytes);
    // Frame 4, in the file before, was not known to be synced.
    let mut writer = FrameWriter::new(header, 5, 4);
    let range =
        Erased::Range { low: Some(Bound::at_key(b"low")), high: Some(Bound::past_key(b"up")) };
    let listed = vec![(SegmentId(3), OrdinalIntervals::new([0..7, 300..301]))];
    let erasures = [
        LoggedErasure { table: TableId(1), rows: range },
        LoggedErasure {
            table: TableId(7),
            rows: Erased::Listed { manifest: (2, 300), segments: listed },
        },
    ];
    let commits = [(&first[..], &[][..]), (&second[..], &[]), (&[], &erasures[..])];
    for (batches, erasures) in commits {
        let mut payload = PayloadBuilder::new(0);
        for (table, block) in batches {
            put_batch(*table, |out| out.extend_from_slice(block), payload.out());
        }
        erasures.iter().for_each(|erasure| put_erasure(erasure, payload.out()));
        bytes.extend_from_slice(writer.place(&mut payload.finish()));
    }
    writer.note_synced();
    writer.put_closing(&mut bytes);
    let pinned = golden("wal-v5.bin", &bytes);
    assert_eq!(FileHeader::read(&pinned, LogKind::Wal), Ok(header));
    let read: Vec<_> = frames(&pinned, LogKind::Wal, 5)
        .into_iter()
        .map(|(lsn, payload)| (lsn, decode_commit(payload).unwrap()))
        .collect();
    let commits = commits.map(|(batches, erasures)| LoggedCommit {
        batches: batches.to_vec(),
        erasures: erasures.to_vec(),
        positions: Vec::new(),
    });
    assert_eq!(read, (5..).zip(commits).collect::<Vec<_>>());
}

#[test]
fn a_manifest_keeps_its_bytes() {
    let lists = manifest_edits(1, true);
    let mut bytes = Vec::new();
    let header = FileHeader { kind: LogKind::Manifest, nonce: 3 };
    header.put(&mut bytes);
    let mut writer = FrameWriter::new(header, 0, 0);
    for edits in &lists {
        let mut payload = Vec::new();
        encode_edits(edits, &mut payload);
        writer.put(&payload, &mut bytes);
        writer.note_synced();
    }
    let pinned = golden("manifest-v5.bin", &bytes);
    assert_eq!(edits_of(&pinned), lists);
}

fn edits_of(manifest: &[u8]) -> Vec<Vec<Edit>> {
    let payloads = frames(manifest, LogKind::Manifest, 0);
    payloads.into_iter().map(|(_, payload)| decode_edits(payload).unwrap()).collect()
}

/// Edits of each kind, with a rollup table of `declared` dimensions.
fn manifest_edits(declared: usize, discovers: bool) -> Vec<Vec<Edit>> {
    let columns = Arc::new(Schema::new(vec![
        Field::new("carrier", DataType::Utf8, false),
        Field::new("at", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), false),
        Field::new("delay", DataType::Float64, true),
        Field::new("photo", DataType::Binary, true),
        Field::new("tags", list_of_strings(), true),
    ]));
    let schema = TableSchema {
        set: Some(0.into()),
        weights: vec![2],
        ..TableSchema::new(columns, vec![0, 1])
    };
    let hourly = hourly_schema(&schema, declared, discovers);
    let lsns = LsnRange { first: Lsn(1), last: Lsn(300) };
    let (fingerprint, blocks) = (0x0102_0304_0506_0708, 1200);
    let segment = SegmentMeta {
        id: SegmentId(12),
        rows: 70_000,
        bytes: 5_000_000,
        fingerprint,
        lsns,
        blocks,
    };
    let table = TableId(2);
    let kept = PinnedTable {
        table,
        name: "flights".into(),
        schema: schema.clone(),
        segments: vec![segment.clone()],
        erased: vec![(segment.id, OrdinalIntervals::of_range(5..9))],
    };
    let erased = vec![(segment.id, OrdinalIntervals::new([5..9, 60_000..70_000]))];
    let added = Field::new("paid", DataType::Decimal128(12, 2), true);
    vec![
        vec![
            Edit::CreateTable { table, name: "flights".into(), schema },
            Edit::NextTable(TableId(3)),
            Edit::NextSegment(SegmentId(13)),
            Edit::NextLsn(Lsn(301)),
        ],
        vec![Edit::CreateTable { table: TableId(3), name: "hourly".into(), schema: hourly }],
        vec![Edit::AddSegment { table, segment }, Edit::Flushed { table, lsn: Lsn(300) }],
        vec![Edit::EraseRows { table, segments: erased }],
        vec![Edit::PinSnapshot {
            name: "monday".into(),
            lsn: Lsn(300),
            clock: 1_700_000_000,
            tables: vec![kept],
        }],
        vec![Edit::DropSnapshot { name: "monday".into() }],
        vec![Edit::AddColumn { table, column: Arc::new(added) }],
        vec![
            Edit::ReplaceSegments {
                table,
                removed: vec![SegmentId(12), SegmentId(9)],
                added: vec![],
            },
            Edit::DropTable { table },
        ],
    ]
}

/// The events of `events` by hour and carrier, with a metric of each kind.
fn hourly_schema(events: &TableSchema, declared: usize, discovers: bool) -> TableSchema {
    let metric = |kind, input| StoredMetric { kind, input };
    let metrics = vec![
        metric(MetricKind::Count, None),
        metric(MetricKind::Sum, Some(2)),
        metric(MetricKind::Min, Some(2)),
        metric(MetricKind::Max, Some(2)),
        metric(MetricKind::Avg, Some(2)),
    ];
    let of_events = events.columns.fields();
    let shown =
        ["delay", "least", "worst", "mean"].map(|name| Field::new(name, DataType::Float64, true));
    let mut fields: Vec<Field> = vec![of_events[1].as_ref().clone(), of_events[0].as_ref().clone()];
    fields.push(Field::new("n", DataType::Int64, false));
    fields.extend(shown);
    let rollup = Rollup {
        events: events.columns.clone(),
        time: Some(0),
        granularity: StoredGranularity::Seconds(3600),
        metrics,
        declared,
        discovers,
    };
    TableSchema {
        set: Some(1.into()),
        merge: MergePolicy::Rollup(rollup),
        ..TableSchema::new(Arc::new(Schema::new(fields)), vec![0, 1])
    }
}

#[test]
fn positions_of_sources_keep_their_bytes() {
    let position = |source: &str, position: &[u8]| SourcePosition {
        source: source.to_string(),
        position: position.to_vec(),
    };
    let positions = vec![position("topic-0", b"123"), position("forgotten", b"")];
    let mut commit = Vec::new();
    put_batch(TableId(1), |out| out.extend_from_slice(b"rows"), &mut commit);
    positions.iter().for_each(|position| put_source_position(position, &mut commit));
    let edits: Vec<Edit> = positions.iter().cloned().map(Edit::SetPosition).collect();
    let mut bytes = Vec::new();
    encode_edits(&edits, &mut bytes);
    let commit = golden("commit-with-positions-v2.bin", &commit);
    assert_eq!(decode_commit(&commit).map(|commit| commit.positions), Ok(positions));
    assert_eq!(decode_edits(&golden("position-edits-v1.bin", &bytes)), Ok(edits));
}

#[test]
fn edits_of_set_indexes_keep_their_bytes() {
    let columns = Arc::new(Schema::new(vec![Field::new("carrier", DataType::Utf8, false)]));
    let all = TableSchema { set: Some(0.into()), ..TableSchema::new(columns, vec![0]) };
    let some = IndexedSets::none().with([b"\x01AA\x00".to_vec(), b"\x01UA\x00".to_vec()]);
    let (table, name) = (TableId(1), "flights".to_string());
    let postings = PostingsMeta { file: SegmentId(18), bytes: 20_480, fingerprint: 9 };
    let edits = vec![
        Edit::CreateTable { table, name, schema: all.with_indexed(IndexedSets::none()) },
        Edit::IndexSets { table, indexed: some.clone() },
        Edit::AttachPostings { segment: SegmentId(12), postings },
        Edit::IndexSets { table, indexed: IndexedSets::all().without([b"\x00".to_vec()]) },
    ];
    let mut bytes = Vec::new();
    encode_edits(&edits, &mut bytes);
    assert_eq!(decode_edits(&golden("set-index-edits-v1.bin", &bytes)), Ok(edits));
}

#[test]
fn edits_of_a_time_to_live_keep_their_bytes() {
    let at = DataType::Timestamp(TimeUnit::Microsecond, None);
    let columns = Arc::new(Schema::new(vec![Field::new("at", at, false)]));
    let week = Some(TimeToLive { column: 0, seconds: 604_800 });
    let schema = TableSchema { ttl: week, ..TableSchema::new(columns, vec![0]) };
    let (table, name) = (TableId(1), "events".to_string());
    let edits = vec![
        Edit::CreateTable { table, name, schema },
        Edit::SetTtl { table, ttl: None },
        Edit::SetTtl { table, ttl: week },
    ];
    let mut bytes = Vec::new();
    encode_edits(&edits, &mut bytes);
    assert_eq!(decode_edits(&golden("ttl-edits-v1.bin", &bytes)), Ok(edits));
}

#[test]
fn edits_of_backups_and_of_columns_that_move_keep_their_bytes() {
    let field = |name: &str, of: DataType| Field::new(name, of, true);
    let made = TableSchema {
        set: Some(2.into()),
        merge: MergePolicy::Upsert { declared: 3 },
        weights: vec![1],
        ..TableSchema::new(
            Arc::new(Schema::new(vec![
                field("tail", DataType::Utf8),
                field("seats", DataType::Int16),
                field("model", DataType::Utf8),
            ])),
            vec![0],
        )
    };
    let wide = made.with_wider(1, &DataType::Int32).with_wider(1, &DataType::Int64);
    let added = wide.with_column(Arc::new(field("gate", DataType::Float32)));
    let reshaped = added.without_column(3).with_name(2, "type");
    assert_eq!(reshaped.check(), Ok(()));
    assert!(reshaped.continues(&added) && added.continues(&made) && !made.continues(&added));
    let numbers: Vec<usize> = (0..3).map(|column| reshaped.stored.number(column)).collect();
    assert_eq!((numbers, reshaped.stored_count()), (vec![0, 4, 2], 6));
    let earlier: Vec<usize> =
        reshaped.stored.earlier(4).iter().map(|retired| retired.number).collect();
    assert_eq!(earlier, [3, 1]);
    let (table, database) = (TableId(1), 0x0123_4567_89ab_cdef_u128);
    let edits = vec![
        Edit::CreateTable { table, name: "planes".into(), schema: made },
        Edit::RenameTable { table, name: "fleet".into() },
        Edit::Reshape { table, schema: reshaped },
        Edit::Identify { database },
        Edit::MarkBackup(BackupMark { database, lsn: Lsn(300), was_opened: true }),
    ];
    let mut bytes = Vec::new();
    encode_edits(&edits, &mut bytes);
    assert_eq!(decode_edits(&golden("reshaping-edits-v1.bin", &bytes)), Ok(edits));
    // Numbers that are given twice, or not at all.
    for at in 0..bytes.len() {
        let mut crafted = bytes.clone();
        crafted[at] = crafted[at].wrapping_add(1);
        let _ = decode_edits(&crafted);
    }
}

#[test]
fn an_upsert_table_keeps_its_bytes() {
    let field = |name, nullable| Field::new(name, DataType::Utf8, nullable);
    let fields = vec![field("tail", false), field("model", true), field("added", true)];
    let schema = TableSchema {
        merge: MergePolicy::Upsert { declared: 2 },
        ..TableSchema::new(Arc::new(Schema::new(fields)), vec![0])
    };
    let edits = vec![Edit::CreateTable { table: TableId(1), name: "planes".into(), schema }];
    let mut bytes = Vec::new();
    encode_edits(&edits, &mut bytes);
    assert_eq!(decode_edits(&golden("upsert-table-v1.bin", &bytes)), Ok(edits));
}

#[test]
fn a_segment_footer_and_its_tail_keep_their_bytes() {
    let footer = SegmentFooter {
        segment: SegmentId(9),
        table: TableId(2),
        rows: 70_000,
        lsns: LsnRange { first: Lsn(1), last: Lsn(300) },
        columns: 3,
        first_key: b"\x01AA\x00".to_vec(),
        last_key: b"\x01ZZ\x00".to_vec(),
        summary: (4_915_200, 210),
        streams: Some((72_000, 300)),
        dictionaries: vec![(StreamColumn::Value(2), (71_000, 1_000))],
        set_directory: Some((4_923_392, 96)),
        indexed: IndexedSets::all(),
        set_column: Some(0),
        blocks: 1200,
        index_pages: 20,
    };
    let payload = |footer: &SegmentFooter| {
        let mut payload = Vec::new();
        footer.encode(&mut payload);
        payload
    };
    let pinned = pinned_end("segment-footer-v7.bin", FileKind::Segment, &payload(&footer));
    assert_eq!(SegmentFooter::decode(&pinned), Ok(footer.clone()));
    let indexed = IndexedSets::none().with([b"\x01UA\x00".to_vec()]);
    let footer = SegmentFooter { indexed, ..footer };
    let name = "segment-footer-v7-some-sets.bin";
    let pinned = pinned_end(name, FileKind::Segment, &payload(&footer));
    assert_eq!(SegmentFooter::decode(&pinned), Ok(footer));
}

#[test]
fn a_postings_footer_and_its_tail_keep_their_bytes() {
    let footer = PostingsFooter {
        file: SegmentId(9),
        segment: SegmentId(7),
        rows: 70_000,
        set_column: 2,
        indexed: IndexedSets::all().without([b"\x00".to_vec()]),
        set_directory: (4_923_392, 96),
    };
    let mut payload = Vec::new();
    footer.encode(&mut payload);
    let pinned = pinned_end("postings-footer-v7.bin", FileKind::Postings, &payload);
    assert_eq!(PostingsFooter::decode(&pinned), Ok(footer));
}

/// The payload of a footer page, of the pinned end of a file.
fn pinned_end(name: &str, kind: FileKind, payload: &[u8]) -> Vec<u8> {
    let offset = 4_927_488;
    let mut bytes = Vec::new();
    write_page(PageKind::Footer, address(offset), payload, false, &mut bytes);
    let footer_bytes = bytes.len() as u32;
    let fingerprint = 0x1234_5678_9abc_def0;
    let tail_of_file = FileTail { footer_offset: offset, footer_bytes, fingerprint };
    tail_of_file.write(kind, &mut bytes);
    let pinned = golden(name, &bytes);
    let (page, tail) = pinned.split_last_chunk::<TAIL_BYTES>().unwrap();
    assert_eq!(FileTail::read(kind, tail), Ok(tail_of_file));
    read_page(page, PageKind::Footer, address(offset)).unwrap().to_vec()
}

#[test]
fn an_index_page_and_a_summary_keep_their_bytes() {
    let mut builder = IndexPageBuilder::new();
    for block in 0..50u32 {
        let hashes: Vec<u64> =
            (0..40u32).map(|row| key_hash(&(block * 40 + row).to_be_bytes())).collect();
        builder.push(
            format!("flight/{block:03}").as_bytes(),
            40,
            1 + block % 2,
            u64::from(block / 20) * 3000,
            &hashes,
            &[u128::from(block % 3), 1 << (60 + block % 8)],
        );
    }
    let FinishedIndexPage { payload, filter_pages } = builder.finish(2000, 81_920);
    let mut bytes = Vec::new();
    write_page(PageKind::Index, address(8192), &payload, true, &mut bytes);
    let [filter_page] = filter_pages.try_into().unwrap();
    write_page(PageKind::Filter, address(12_288), &filter_page, true, &mut bytes);
    let pinned = golden("index-page-v2.bin", &bytes);
    let (index_page, filter_page) = pinned.split_at(PAGE_BYTES);
    let page =
        IndexPage::parse(read_page(index_page, PageKind::Index, address(8192)).unwrap()).unwrap();
    let filter_page = read_page(filter_page, PageKind::Filter, address(12_288)).unwrap();
    assert_eq!((page.blocks(), page.rows(), page.first_ordinal()), (50, 2000, 2000));
    let place = page.block_of_bound(&Bound::at_key(b"flight/031x"));
    assert_eq!((place.number, place.first_ordinal, place.rows), (31, 2000 + 31 * 40, 40));
    assert_eq!(
        (place.offset, place.bytes),
        (81_920 + (31 + 15) * PAGE_BYTES as u64, 2 * PAGE_BYTES as u32)
    );
    assert_eq!(page.filter_pages(), 1);
    assert!((0..2000u32).all(|row| {
        let hash = key_hash(&row.to_be_bytes());
        may_contain(filter_page, page.filter_place(hash).unwrap(), hash).unwrap()
    }));

    let mut summary = Summary::new();
    summary.push(b"", 0, 4096, (40_960, 8192));
    summary.push_weights(&[7, 1 << 70]);
    summary.push(b"flight/000", 2000, 4096, (389_120, 4096));
    summary.push_weights(&[0, 5]);
    let mut payload = Vec::new();
    summary.encode(&mut payload);
    assert_eq!(Summary::decode(&golden("index-summary-v1.bin", &payload)), Ok(summary));
}

#[test]
fn a_statistics_page_keeps_its_bytes() {
    let columns = Arc::new(Schema::new(vec![
        Field::new("carrier", DataType::Utf8, true),
        Field::new("at", DataType::Int64, false),
        Field::new("delay", DataType::Float64, true),
        Field::new("late", DataType::Boolean, true),
    ]));
    let schema = TableSchema::new(columns.clone(), vec![0, 1]);
    // One zone with a long name, one with a NaN and nulls only, one with both zeros.
    let long = "Lufthansa CityLine – Münchener Zubringer".to_string();
    let carriers = [None, Some("AA"), Some(&long), Some("M"), Some("N"), Some("O")];
    let delays = [Some(-1.5), None, Some(3.0), Some(f64::NAN), Some(0.0), Some(-0.0)];
    let late = [Some(false), None, Some(true), None, Some(true), Some(true)];
    let batch = RecordBatch::try_new(
        columns,
        vec![
            Arc::new(StringArray::from(carriers.to_vec())) as ArrayRef,
            Arc::new(Int64Array::from_iter_values(1..=6)),
            Arc::new(Float64Array::from(delays.to_vec())),
            Arc::new(BooleanArray::from(late.to_vec())),
        ],
    );
    let layout = Layout::new(&schema);
    let rows = layout.encode(&batch.unwrap());
    let mut builder = StatisticsPageBuilder::new(&layout);
    builder.begin_batch(layout.stored_columns(&rows).unwrap());
    [3, 1, 2].into_iter().for_each(|rows| builder.push_block(rows, PAGE_BYTES));
    builder.end_batch();
    let mut bytes = Vec::new();
    write_page(PageKind::Statistics, address(8192), &builder.finish(), true, &mut bytes);
    let pinned = golden("statistics-page-v1.bin", &bytes);
    let mut zones = ZonesBuilder::new(&layout, &[0, 1, 2, 3], 2000);
    let payload = read_page(&pinned, PageKind::Statistics, address(8192)).unwrap();
    zones.append_page(payload, 6).unwrap();
    let zones = zones.finish().unwrap();
    let spans: Vec<_> = (0..zones.len()).map(|zone| zones.span(zone)).collect();
    assert_eq!(spans.iter().map(|span| span.rows).collect::<Vec<_>>(), [3, 1, 2]);
    assert_eq!(zones, Zones::measure(&layout, &rows, 2000, &spans).unwrap());
}

#[test]
fn postings_and_their_directory_keep_their_bytes() {
    let lists: [(&[u8], Vec<u32>); 4] = [
        (b"AA", vec![17]),
        (b"DL", (0..3 * CHUNK as u32).map(|i| i * 5 + i % 3).collect()),
        (b"OO", (0..128).map(|i| i * i).collect()),
        (b"UA", (1000..1200).collect()),
    ];
    let mut bytes = Vec::new();
    let mut writer = PostingsWriter::new(SegmentId(9), 8192, 1);
    // Each member weighs its ordinal.
    let group = |of: &[u32]| {
        let sum = of.iter().map(|&ordinal| u128::from(ordinal)).sum();
        GroupWeight { sum, max: u64::from(of[of.len() - 1]) }
    };
    let groups = |list: &[u32]| list.chunks(WEIGHT_GROUP as usize).map(group).collect::<Vec<_>>();
    for (value, ordinals) in &lists {
        let (len, weights) = (ordinals.len() as u64, [groups(ordinals)]);
        writer.push(value, ordinals.iter().copied(), len, false, &weights, &mut bytes);
    }
    let summary = writer.finish(&mut bytes);
    summary.encode(&mut bytes);
    let pinned = golden("postings-v6.bin", &bytes);

    let (postings, rest) = pinned.split_at(PAGE_BYTES);
    let (directory, summary_bytes) = rest.split_at(PAGE_BYTES);
    assert_eq!(SetDirectorySummary::decode(summary_bytes), Ok(summary));
    let payload = read_page(postings, PageKind::Postings, address(8192)).unwrap();
    let directory =
        read_page(directory, PageKind::SetDirectory, address(8192 + PAGE_BYTES as u64)).unwrap();
    let directory = DirectoryPage::parse(directory, 1).unwrap();
    for (value, ordinals) in &lists {
        let entry = directory.find(value).unwrap().unwrap();
        let read = |offset| {
            assert_eq!(offset, 8192);
            drillcore_format::error::Result::Ok(payload)
        };
        let found: Vec<u32> =
            (0..entry.count).map(|member| entry.select(member, read).unwrap()).collect();
        assert_eq!(&found, ordinals);
        let all = groups(ordinals);
        match &entry.weights[0] {
            SetWeights::Group(group) => assert_eq!([*group].as_slice(), all),
            SetWeights::Tables(tables) => {
                let found = (0..all.len() as u64)
                    .map(|number| tables.group_of_number(0, payload, number).unwrap().weight);
                assert_eq!(found.collect::<Vec<_>>(), all);
            }
        }
    }
}

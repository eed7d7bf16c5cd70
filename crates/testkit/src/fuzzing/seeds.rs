//! The inputs that mutations begin with: small files of the store, and their parts.
//!
//! Everything comes from tables of `Shape::all`, written by the engine. Their segments are then written anew with small
//! pages, so that a few rows make several blocks and index pages. One build makes the same seeds each time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use drillcore::arrow_schema::DataType;
use drillcore::directory::{Directory, MemoryDirectory, read_file};
use drillcore::{Database, OnError, Options, Table};
use drillcore_format::dictionary::Dictionary;
use drillcore_format::file_tail::{FileKind, FileTail};
use drillcore_format::frame::{FrameWriter, LogKind};
use drillcore_format::frame_reader::FrameReader;
use drillcore_format::ids::{SegmentId, TableId};
use drillcore_format::index_page::IndexPage;
use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::manifest_edit::{Edit, SegmentMeta, decode_edits, encode_edits};
use drillcore_format::page::{PageAddress, PageKind, write_page};
use drillcore_format::postings::{
    GroupWeight, ListPlace, PostingsWriter, SetDirectorySummary, WEIGHT_GROUP,
};
use drillcore_format::rows::Layout;
use drillcore_format::schema::{SetColumn, TableSchema};
use drillcore_format::streams::page::StreamView;
use drillcore_sample::rng::Rng;
use drillcore_storage::manifest::Manifest;
use drillcore_storage::pages::page_cache::PageCache;
use drillcore_storage::pages::paged_file::file_of;
use drillcore_storage::segments::segment::Segment;
use drillcore_storage::segments::segment_writer::SegmentWriter;

use super::files::{FINGERPRINT, pages, take_apart};
use super::parts::{join, number};
use super::streams::stream_types;
use super::tables::{table, tables};
use crate::cell::Cell;

/// An input that the store wrote, of one target.
pub struct Seed {
    /// The target that it is for.
    pub target: &'static str,
    /// Of its file.
    pub name: String,
    /// The bytes.
    pub input: Vec<u8>,
}

/// A database folder that seeds are made of.
struct Folder {
    name: &'static str,
    /// Its tables, as numbers among [`tables`].
    tables: &'static [u8],
    past: Past,
}

/// What happened in a folder.
#[derive(Clone, Copy, PartialEq)]
enum Past {
    /// Appends and flushes in turn.
    Segments,
    /// Appends only, and an added column: everything is in the log.
    Log,
    /// Sets indexed later, a named snapshot, in one folder an added column.
    Changes,
    /// One set with most of the rows, and nothing but segments.
    LargeSet,
}

const FOLDERS: [Folder; 11] = [
    Folder { name: "append", tables: &[0], past: Past::Segments },
    Folder { name: "append_changed", tables: &[0], past: Past::Changes },
    Folder { name: "append_in_the_log", tables: &[0], past: Past::Log },
    Folder { name: "key_of_three_columns", tables: &[1], past: Past::Segments },
    Folder { name: "time", tables: &[3], past: Past::Segments },
    Folder { name: "large_set", tables: &[5], past: Past::LargeSet },
    Folder { name: "weights", tables: &[6], past: Past::Changes },
    Folder { name: "upsert", tables: &[7], past: Past::Changes },
    Folder { name: "upsert_weights", tables: &[13], past: Past::Segments },
    Folder { name: "rollup", tables: &[14], past: Past::Changes },
    Folder { name: "two_tables", tables: &[15, 2], past: Past::Segments },
];

/// Rows of a batch.
const BATCH_ROWS: u64 = 14;
/// More equal rows than a chunk of a posting list holds.
const LARGE_SET_ROWS: usize = 300;
/// When named snapshots are taken, in seconds since 1970: the same files come out at any time of day.
const CLOCK: u64 = 1_700_000_000;
/// The number that a database gets at random.
const IDENTITY: u128 = 0x1d;
/// Bytes of a block and an index page of the segments that are written anew.
const PAGE_BYTES: (usize, usize) = (260, 330);

/// All seeds, in no order.
pub fn seeds() -> Vec<Seed> {
    let mut seeds = Vec::new();
    for (number, folder) in FOLDERS.iter().enumerate() {
        let files = folder.files(number as u64);
        let parts = take_apart(&files);
        let mut add = |target, name: String, parts: &[Vec<u8>]| {
            let name = format!("{}{name}", folder.name);
            seeds.push(Seed { target, name, input: join(parts) });
        };
        add("database", String::new(), &parts);
        folder.add_logs(&parts, &mut add);
        for name in files.list().expect("memory is there") {
            if let Some((kind, id)) = file_of(&name) {
                let bytes = read_file(&files, &name).expect("the file is there");
                folder.add_pages(kind, id, &pages(&bytes, id), &mut add);
            }
        }
    }
    seeds.extend(of_schemas());
    seeds.push(of_a_long_list());
    seeds.push(of_an_envelope());
    // Segments of one past are much alike, and one of each is enough.
    let mut known = BTreeSet::new();
    seeds.retain(|seed| known.insert((seed.target, seed.name.clone())));
    seeds
}

impl Folder {
    /// The files of the closed database.
    fn files(&self, seed: u64) -> MemoryDirectory {
        let files = MemoryDirectory::new();
        let options = Options { maintenance_threads: 1, ..Options::default() };
        let database = Database::open_in(Arc::new(files.clone()), options).expect("a new one");
        let hold = database.hold_maintenance();
        let mut rng = Rng::keyed(seed, 0);
        let made: Vec<(u8, Table)> = self
            .tables
            .iter()
            .map(|&number| {
                let spec = table(number).shape.spec();
                (number, database.create_table(&format!("t{number}"), spec).expect("a new one"))
            })
            .collect();
        for (number, table) in &made {
            if self.past == Past::Changes && table.schema().set.is_some() {
                table.unindex_all_sets().expect("a table with sets");
            }
            self.append(*number, table, &mut rng);
        }
        self.flush(&database);
        for (number, table) in &made {
            self.append(*number, table, &mut rng);
            self.change(*number, table, &mut rng);
        }
        self.flush(&database);
        if self.past == Past::Changes {
            let with_sets = || made.iter().filter(|(_, table)| table.schema().set.is_some());
            for (_, table) in with_sets() {
                table.index_all_sets().expect("a table with sets");
            }
            // What is to be merged is merged before it is indexed.
            drop(hold);
            for (_, table) in with_sets() {
                table.wait_for_set_index().expect("it is indexed");
            }
            database.named_snapshot("pinned").expect("a new one");
        }
        if self.past != Past::LargeSet {
            made.iter().for_each(|(number, table)| self.append(*number, table, &mut rng));
        }
        database.close().expect("a healthy database");
        with_small_pages(&files)
    }

    /// Whether rows of the table have more columns than its shape.
    fn adds_column(&self) -> bool {
        self.past == Past::Log || self.name == "append_changed"
    }

    fn flush(&self, database: &Database) {
        if self.past != Past::Log {
            database.flush().expect("a healthy database");
        }
    }

    fn append(&self, number: u8, to: &Table, rng: &mut Rng) {
        let shape = &table(number).shape;
        let mut rows = shape.rows(rng, BATCH_ROWS);
        if self.past == Past::LargeSet {
            rows.extend((0..LARGE_SET_ROWS).map(|_| vec![Cell::Int(7)]));
        }
        to.append(&shape.batch(&rows), OnError::Raise).expect("rows of the table's shape");
    }

    /// Deletes rows, and adds a column.
    fn change(&self, number: u8, of: &Table, rng: &mut Rng) {
        let shape = &table(number).shape;
        if matches!(of.schema().merge, drillcore::MergePolicy::Upsert { .. }) {
            let rows = shape.rows(rng, 3);
            let keys: Vec<Vec<Cell>> = rows.iter().map(|row| shape.stored(row).0).collect();
            of.delete(&shape.key_arrays(&keys)).expect("keys of the table's shape");
        }
        if self.adds_column() {
            of.add_column("added", &DataType::Int32).expect("a new column");
        }
    }

    /// Manifest and log, and what is in them.
    fn add_logs(&self, parts: &[Vec<u8>], add: &mut impl FnMut(&'static str, String, &[Vec<u8>])) {
        // Marks and numbers of files and frames take nine bytes.
        let of_log = |name: u8| {
            let from = parts.iter().position(|part| part[0] == name);
            let from = from.map_or(&[][..], |from| &parts[from..]);
            let len = from.iter().skip(1).take_while(|part| part[0] == 0x11).count();
            from.iter().take(len + 1).cloned().collect::<Vec<_>>()
        };
        let (manifest, wal) = (of_log(0x10), of_log(0x20));
        add("manifest", String::new(), &manifest);
        let payload = |frame: &Vec<u8>| frame[9..].to_vec();
        let frames = |frames: &[Vec<u8>]| -> Vec<Vec<u8>> {
            frames.iter().skip(1).map(|frame| [vec![0], payload(frame)].concat()).collect()
        };
        for (kind, name, log) in [(0u8, "_wal", &wal), (1, "_manifest", &manifest)] {
            if log.len() > 1 {
                let torn = vec![vec![1, 0x55, 0x55, 0x55]];
                let log = [vec![vec![kind]], frames(log), torn].concat();
                add("frames", name.to_string(), &log);
            }
        }
        // In the first commit of a log the table has its first shape.
        if let (Some(frame), [table]) = (wal.get(1), self.tables)
            && (self.past == Past::Log || !self.adds_column())
        {
            add("commit", String::new(), &[vec![*table], payload(frame)]);
        }
    }

    /// A file of pages as a whole, and each kind of page in it.
    fn add_pages(
        &self,
        kind: FileKind,
        id: SegmentId,
        pages: &[Vec<u8>],
        add: &mut impl FnMut(&'static str, String, &[Vec<u8>]),
    ) {
        let table = self.tables[0];
        let mut begin = vec![0x30];
        begin.extend_from_slice(&id.0.to_le_bytes());
        if kind == FileKind::Segment && self.tables.len() == 1 && !self.adds_column() {
            let file = [vec![vec![table], begin], pages.to_vec()].concat();
            add("segment", String::new(), &file);
        }
        let of_kind = |kind: PageKind| {
            let pages = pages.iter().filter(move |page| page[0] == kind as u8);
            pages.map(|page| page[1..].to_vec()).collect::<Vec<_>>()
        };
        let example = b"\x01\x80\x00\x00\x00\x00\x00\x00\x07".to_vec();
        if self.tables.len() == 1 && !self.adds_column() {
            for block in of_kind(PageKind::Block).into_iter().take(1) {
                add("block", String::new(), &[vec![table], block]);
            }
            let index = of_kind(PageKind::Index);
            for (statistics, index) in of_kind(PageKind::Statistics).into_iter().zip(&index).take(1)
            {
                let rows = IndexPage::parse(index).expect("a whole index page").rows();
                let selector = [&[table][..], &rows.to_le_bytes()].concat();
                add("statistics_page", String::new(), &[selector, statistics]);
            }
            let dictionaries = of_kind(PageKind::Dictionary);
            let block = of_kind(PageKind::Block).into_iter().next().unwrap_or_default();
            for dictionary in dictionaries.iter().take(1) {
                add("dictionary", String::new(), &[vec![table], dictionary.clone(), block.clone()]);
            }
            let dictionary = dictionaries.into_iter().next().unwrap_or_default();
            for (number, page) in of_kind(PageKind::Stream).into_iter().enumerate() {
                // Which column it is of is written elsewhere: of those that it may be of, the first.
                let types = stream_types(self::table(table));
                let texts = Dictionary::decode(&dictionary).ok();
                let texts = texts.as_ref().map(Dictionary::texts);
                let is_of = |of: &DataType| {
                    let view = StreamView::parse(&page, of);
                    view.is_ok_and(|view| view.decode(0, view.rows(), of, texts).is_ok())
                };
                if let Some(column) = types.iter().position(is_of) {
                    let selector = vec![table, column as u8];
                    add("stream", format!("_{number}"), &[selector, page, dictionary.clone()]);
                }
            }
            for index in index.into_iter().take(1) {
                add("index_page", String::new(), &[vec![3; 8], index, example.clone()]);
            }
        }
        let rows = |page: Vec<u8>| IndexPage::parse(&page).expect("a whole index page").rows();
        let rows: u64 = of_kind(PageKind::Index).into_iter().map(rows).sum();
        for directory in of_kind(PageKind::StreamDirectory) {
            add("stream_directory", String::new(), &[rows.to_le_bytes().to_vec(), directory]);
        }
        for summary in of_kind(PageKind::Summary) {
            add("index_summary", String::new(), &[Vec::new(), summary]);
        }
        for directory in of_kind(PageKind::SetDirectory).into_iter().take(1) {
            let summary = SetDirectorySummary::decode(&of_kind(PageKind::SetSummary)[0]);
            let weights = vec![summary.expect("a healthy page").weights() as u8];
            add("set_directory", String::new(), &[weights, directory.clone(), example.clone()]);
            // Without one, all lists are in the directory.
            let page = of_kind(PageKind::Postings).into_iter().next().unwrap_or_default();
            add("postings", String::new(), &[vec![0, 0, 9, 0], page, directory]);
        }
        for summary in of_kind(PageKind::SetSummary) {
            add("set_summary", String::new(), &[Vec::new(), summary, example.clone()]);
        }
        for footer in of_kind(PageKind::Footer) {
            let (selector, name) = match kind {
                FileKind::Segment => (0, ""),
                FileKind::Postings => (1, "_postings"),
            };
            add("footer", name.to_string(), &[vec![selector], footer]);
        }
    }
}

/// The same database, whose segments have small pages.
fn with_small_pages(files: &MemoryDirectory) -> MemoryDirectory {
    let state = Manifest::read(files).expect("a healthy database").state;
    let rewritten = MemoryDirectory::new();
    let mut metas: BTreeMap<SegmentId, SegmentMeta> = BTreeMap::new();
    let of_tables = state.tables.iter().map(|(id, table)| (*id, &table.schema, &table.segments));
    let pinned = state.snapshots.values().flat_map(|snapshot| &snapshot.tables);
    let pinned = pinned.map(|table| (table.table, &table.schema, &table.segments));
    for (table, schema, segments) in of_tables.chain(pinned) {
        for meta in segments {
            let rewrite = || rewrite(files, &rewritten, table, schema, meta);
            metas.entry(meta.id).or_insert_with(rewrite);
        }
    }
    for name in files.list().expect("memory is there") {
        if Segment::id_of(&name).is_some() {
            continue;
        }
        let mut bytes = read_file(files, &name).expect("the file is there");
        if name.starts_with("manifest-") {
            bytes = with_metas(&bytes, &metas);
        }
        let file = rewritten.create(&name).expect("a new file");
        file.write_all(&bytes).expect("memory is there");
    }
    rewritten
}

fn rewrite(
    from: &MemoryDirectory,
    to: &MemoryDirectory,
    table: TableId,
    schema: &TableSchema,
    meta: &SegmentMeta,
) -> SegmentMeta {
    let layout = Layout::new(schema);
    let cache = |of: &MemoryDirectory| Arc::new(PageCache::new(Arc::new(of.clone()), 1 << 20));
    let segment = Segment::open(from, meta.id, &layout, cache(from)).expect("a healthy segment");
    // What was written without lists gets none.
    let listed = segment.postings().is_some_and(|postings| postings.file() == meta.id);
    let indexed = if listed { IndexedSets::all() } else { IndexedSets::none() };
    let layout = Layout::new(&schema.with_indexed(indexed));
    let rows = segment.read(0, segment.rows(), &layout.all()).expect("a healthy segment");
    let lsns = segment.lsns();
    let mut writer = SegmentWriter::create(Arc::new(to.clone()), meta.id, table, &layout, lsns)
        .expect("a new file")
        .with_page_bytes(PAGE_BYTES.0, PAGE_BYTES.1);
    writer.append(&rows).expect("rows of a healthy segment");
    writer.finish().expect("memory is there");
    Segment::open(to, meta.id, &layout, cache(to)).expect("a healthy segment").meta()
}

/// A manifest that describes other files of the same segments.
fn with_metas(manifest: &[u8], metas: &BTreeMap<SegmentId, SegmentMeta>) -> Vec<u8> {
    let mut rewritten = Vec::new();
    let (header, mut reader) =
        FrameReader::new(manifest, LogKind::Manifest, 0).expect("a healthy manifest");
    header.put(&mut rewritten);
    let mut frames = FrameWriter::new(header, 0, 0);
    while let Some(frame) = reader.next_frame().expect("a healthy manifest") {
        let mut edits = decode_edits(frame.payload).expect("a healthy manifest");
        for edit in &mut edits {
            let segments: Vec<&mut SegmentMeta> = match edit {
                Edit::AddSegment { segment, .. } => vec![segment],
                Edit::ReplaceSegments { added, .. } => added.iter_mut().collect(),
                Edit::Identify { database } => {
                    *database = IDENTITY;
                    Vec::new()
                }
                Edit::PinSnapshot { clock, tables, .. } => {
                    *clock = CLOCK;
                    tables.iter_mut().flat_map(|table| &mut table.segments).collect()
                }
                Edit::AttachPostings { postings, .. } => {
                    postings.fingerprint = FINGERPRINT;
                    Vec::new()
                }
                _ => Vec::new(),
            };
            for segment in segments {
                // Others were merged away.
                *segment = metas.get(&segment.id).unwrap_or(segment).clone();
                segment.fingerprint = FINGERPRINT;
            }
        }
        let mut payload = Vec::new();
        encode_edits(&edits, &mut payload);
        frames.put(&payload, &mut rewritten);
    }
    rewritten
}

/// Every table's schema, and for some of them a key of each row.
fn of_schemas() -> Vec<Seed> {
    let mut seeds = Vec::new();
    for (number, table) in tables().iter().enumerate() {
        let some = IndexedSets::none().with([vec![0], vec![1, 2]]);
        let schema = table.schema.with_indexed(some);
        let mut payload = Vec::new();
        schema.encode(&mut payload);
        let name = format!("table_{number:02}");
        let input = join(&[Vec::new(), payload]);
        seeds.push(Seed { target: "schema", name: name.clone(), input });
        if let Some(SetColumn { indexed, .. }) = &schema.set {
            let mut payload = Vec::new();
            indexed.encode(&mut payload);
            let (name, input) = ("indexed_sets".to_string(), join(&[vec![2], payload]));
            seeds.push(Seed { target: "footer", name, input });
        }
        if table.layout.rollup().is_none() {
            let mut rng = Rng::keyed(number as u64, 1);
            let rows = table.shape.batch(&table.shape.rows(&mut rng, 8));
            let rows = table.layout.encode(&rows);
            let keys = (0..rows.len()).map(|row| rows.key(row).to_vec());
            let parts: Vec<Vec<u8>> = std::iter::once(vec![number as u8]).chain(keys).collect();
            seeds.push(Seed { target: "key", name, input: join(&parts) });
        }
    }
    seeds
}

/// Lists of four kinds: of several chunks, of one chunk, in the directory, and of all rows. They have one postings page.
fn of_a_long_list() -> Seed {
    let (rows, mut file) = (2_000u32, Vec::new());
    let segment = SegmentId(1);
    let mut writer = PostingsWriter::new(segment, 0, 1);
    let mut push = |value: &[u8], list: Vec<u32>| {
        let (len, is_all) = (list.len() as u64, list.len() == rows as usize);
        let group = |of: &[u32]| {
            let mut weight = GroupWeight::default();
            of.iter().for_each(|&ordinal| weight.add(u64::from(ordinal % 7)));
            weight
        };
        let weights = [list.chunks(WEIGHT_GROUP as usize).map(group).collect()];
        writer.push(value, list.into_iter(), len, is_all, &weights, &mut file);
    };
    push(b"a", (0..rows).collect());
    push(b"b", (0..rows).step_by(3).collect());
    push(b"c", vec![5, 6, 1_000]);
    push(b"d", (7..200).collect());
    let summary = writer.finish(&mut file);
    assert_eq!(summary.len(), 1, "one directory page is enough");
    // No tail follows here.
    FileTail { footer_offset: 0, footer_bytes: 0, fingerprint: 0 }
        .write(FileKind::Postings, &mut file);
    let pages = pages(&file, segment);
    let of_kind = |kind: PageKind| {
        pages.iter().find(|page| page[0] == kind as u8).expect("there is one")[1..].to_vec()
    };
    let (page, directory) = (of_kind(PageKind::Postings), of_kind(PageKind::SetDirectory));
    let entry = drillcore_format::postings::DirectoryPage::parse(&directory, 1)
        .and_then(|page| page.find(b"b"))
        .expect("a healthy page")
        .expect("the set is there");
    let ListPlace::Skips(root) = entry.place else { panic!("a list of several chunks") };
    let selector = root.table(0).position.to_le_bytes().to_vec();
    let input = join(&[selector, page, directory]);
    Seed { target: "postings", name: "long_list".into(), input }
}

fn of_an_envelope() -> Seed {
    let address = PageAddress { segment: SegmentId(7), offset: 8192 };
    let (mut page, mut tail) = (Vec::new(), Vec::new());
    write_page(PageKind::Footer, address, b"a payload", false, &mut page);
    let footer_bytes = page.len() as u32;
    FileTail { footer_offset: 8192, footer_bytes, fingerprint: 7 }
        .write(FileKind::Segment, &mut tail);
    let parts = [8192u64.to_le_bytes().to_vec(), page, tail];
    assert_eq!(number(&parts[0], 0), 8192);
    Seed { target: "envelope", name: "page_and_tail".into(), input: join(&parts) }
}

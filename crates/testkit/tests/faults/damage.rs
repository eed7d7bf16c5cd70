//! Flipped bits, in every kind of page and file of a closed database.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use drillcore::arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::directory::{Directory, MemoryDirectory, read_file};
use drillcore::*;
use drillcore_format::file_tail::TAIL_BYTES;
use drillcore_format::ids::SegmentId;
use drillcore_format::page::{PageAddress, PageKind, page_len, read_page};
use drillcore_sample::rng::Rng;
use drillcore_storage::pages::paged_file::file_of;
use drillcore_testkit::cell::{from_array, rows_of};

const SEED: u64 = 5;
const SEGMENT_ROWS: i64 = 30_000;
const LOGGED_ROWS: i64 = 300;
/// Rows of two segments that share no keys, and of some that were written later.
const LOWER_ROWS: i64 = 6_000;
const UPPER_ROWS: i64 = 10_000;
/// Keys of the first of these segments are below, ...
const FIRST_KEYS: i64 = 50_000;
/// ... and those of the segment above both.
const UPPER_KEYS: i64 = 30_000;

fn options() -> Options {
    Options { memory_bytes: 64 << 20, maintenance_threads: 1, ..Default::default() }
}

fn open(files: &MemoryDirectory) -> Result<Database> {
    Database::open_in(Arc::new(files.clone()), options())
}

/// The key of a row: its id, scattered.
fn key(id: i64) -> i64 {
    id * 7_919 % 100_003
}

/// Half of all rows are in one set, the others in one of a thousand.
fn batch(ids: impl Iterator<Item = i64> + Clone) -> RecordBatch {
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8, true),
        Field::new("note", DataType::Utf8, true),
    ]));
    // Some are so long that they lie apart from their rows.
    let note = |id: i64| (id % 1_000 == 0).then(|| "a note ".repeat(300 + id as usize % 17));
    let notes: StringArray = ids.clone().map(note).collect();
    let scattered: Int64Array = ids.clone().map(|id| Some(key(id))).collect();
    let name = |id: i64| match id % 2 {
        0 => Some("most".to_string()),
        _ => (id % 5 > 0).then(|| format!("a set with the number {}", id % 1_000)),
    };
    let names: StringArray = ids.map(name).collect();
    let columns: Vec<ArrayRef> = vec![Arc::new(scattered), Arc::new(names), Arc::new(notes)];
    RecordBatch::try_new(schema, columns).unwrap()
}

/// Where the lists of sets lie.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Sets {
    InTheSegment,
    Beside,
}

/// One segment, which together with the file beside it has pages of every kind, and a log with a few commits.
fn closed_database(sets: Sets) -> MemoryDirectory {
    let files = MemoryDirectory::new();
    let database = open(&files).unwrap();
    let spec = TableSpec {
        set_index: sets == Sets::InTheSegment,
        ..TableSpec::new(batch(0..0).schema(), ["id"]).set("name")
    };
    let table = database.create_table("t", spec).unwrap();
    table.append(&batch(0..SEGMENT_ROWS), OnError::Raise).unwrap();
    database.flush().unwrap();
    table.index_all_sets().unwrap();
    table.wait_for_set_index().unwrap();
    for first in (0..LOGGED_ROWS).step_by(100) {
        table.append(&batch(first..first + 100), OnError::Raise).unwrap();
    }
    database.close().unwrap();
    files
}

/// Two segments of all columns that share no keys, and a newer one above a part of the first.
fn closed_layers() -> MemoryDirectory {
    let files = MemoryDirectory::new();
    let database = open(&files).unwrap();
    let _hold = database.hold_maintenance();
    let spec = TableSpec::new(batch(0..0).schema(), ["id"]).set("name");
    let table = database.create_table("t", spec).unwrap();
    let (lower, upper) = (0..LOWER_ROWS, LOWER_ROWS..LOWER_ROWS + UPPER_ROWS);
    let batches = [
        batch(lower.clone().filter(|id| key(*id) < FIRST_KEYS)),
        batch(lower.filter(|id| key(*id) >= FIRST_KEYS)),
        batch(upper.filter(|id| key(*id) < UPPER_KEYS)),
    ];
    for batch in &batches {
        table.append(batch, OnError::Raise).unwrap();
        database.flush().unwrap();
    }
    let of_table = database.stats().unwrap().tables.remove(0);
    assert_eq!((of_table.segments, of_table.levels), (3, 2));
    database.close().unwrap();
    files
}

/// The rows with a note, which are in few blocks: zones say so.
#[derive(Debug)]
struct WithNote([String; 1]);

impl Predicate for WithNote {
    fn columns(&self) -> &[String] {
        &self.0
    }

    fn select(&self, rows: &RecordBatch) -> Result<BooleanArray> {
        let notes = rows.column(0);
        Ok((0..notes.len()).map(|row| Some(notes.is_valid(row))).collect())
    }

    fn zone_columns(&self) -> &[String] {
        &self.0
    }

    fn may_match(&self, zones: &Zones) -> Result<BooleanArray> {
        let Some(known) = zones.column(0) else {
            return Ok(BooleanArray::from(vec![true; zones.len()]));
        };
        let counts = known.null_counts.values().iter().zip(zones.rows().values());
        Ok(counts.map(|(nulls, rows)| Some(nulls < rows)).collect())
    }

    fn text(&self) -> &str {
        "note is not null"
    }
}

type Answers = Vec<Result<u64>>;

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn int(value: i64) -> ArrayRef {
    Arc::new(Int64Array::from(vec![value]))
}

fn scanned(table: &TableSnapshot, request: ScanRequest) -> Result<u64> {
    let batches = table.scan(request)?.collect::<Result<Vec<_>>>()?;
    Ok(hash(batches.iter().flat_map(rows_of).collect::<Vec<_>>()))
}

fn found(table: &TableSnapshot, key: i64) -> Result<u64> {
    table.get(&[int(key)], None).map(|found| hash((found.positions, rows_of(&found.rows))))
}

/// The answers to questions of which single columns, zones and filters are read, as hashes.
fn answers_of_layers(table: &TableSnapshot) -> Answers {
    let columns = [None, Some("id"), Some("name"), Some("note")].into_iter();
    let columns = columns.map(|column| column.map(|column| vec![column.to_string()]));
    let mut answers: Answers = columns
        .map(|columns| scanned(table, ScanRequest { columns, ..Default::default() }))
        .collect();
    let with_note: Arc<dyn Predicate> = Arc::new(WithNote(["note".to_string()]));
    let selection = Selection { predicate: Some(with_note), ..Default::default() };
    answers.push(table.count(&selection));
    answers.push(scanned(table, ScanRequest { selection, ..Default::default() }));
    let of_set = |name: &str| Selection {
        sets: Some(Arc::new(StringArray::from(vec![name]))),
        ..Default::default()
    };
    for selection in [Selection::default(), of_set("most"), of_set("a set with the number 333")] {
        let request =
            SampleRequest { n: 50, selection, seed: Some(1), at_most: true, ..Default::default() };
        answers.push(table.sample(&request).map(|batch| hash(rows_of(&batch))));
    }
    // Some of them lie beneath the segment above, which has none of them.
    answers.extend((0..LOWER_ROWS).step_by(150).map(|id| found(table, key(id))));
    answers
}

/// The answers to a fixed list of questions, as hashes.
fn answers(table: &TableSnapshot) -> Answers {
    let range = |low: i64, high: i64| Between {
        low: Some(vec![int(low)]),
        high: Some(vec![int(high)]),
        closed: Closed::Both,
    };
    let sets = |names: &[Option<&str>]| -> Option<ArrayRef> {
        Some(Arc::new(StringArray::from(names.to_vec())))
    };
    let one_set = Some("a set with the number 333");
    let selections = [
        Selection::default(),
        Selection { between: Some(range(5_000, 9_000)), sets: None, ..Default::default() },
        Selection { between: None, sets: sets(&[Some("most")]), ..Default::default() },
        Selection { between: None, sets: sets(&[None, one_set]), ..Default::default() },
        Selection {
            between: Some(range(0, 60_000)),
            sets: sets(&[Some("most"), one_set]),
            ..Default::default()
        },
    ];
    let mut answers = Vec::new();
    for selection in selections {
        answers.push(table.count(&selection));
        for reverse in [false, true] {
            let selection = selection.clone();
            answers.push(scanned(table, ScanRequest { selection, reverse, ..Default::default() }));
        }
        for seed in [1, 2] {
            let request = SampleRequest {
                n: 50,
                selection: selection.clone(),
                seed: Some(seed),
                at_most: true,
                ..Default::default()
            };
            answers.push(table.sample(&request).map(|batch| hash(rows_of(&batch))));
        }
    }
    answers.extend((0..100_003).step_by(5_000).map(|key| found(table, key)));
    answers.push(table.sets().map(|sets| hash((from_array(sets.values.as_ref()), sets.rows))));
    answers
}

fn copy(files: &MemoryDirectory, change: impl Fn(&str, &mut Vec<u8>)) -> MemoryDirectory {
    let copied = MemoryDirectory::new();
    for name in files.list().unwrap() {
        let mut bytes = read_file(files, &name).unwrap();
        change(&name, &mut bytes);
        copied.create(&name).unwrap().write_all(&bytes).unwrap();
    }
    copied
}

/// Where the pages of a segment file lie, and its tail: kind, from, to.
fn pages(bytes: &[u8], segment: SegmentId) -> Vec<(String, usize, usize)> {
    use PageKind::*;
    let rows =
        [Block, Index, Statistics, Filter, Stream, Dictionary, StreamDirectory, Extent, Summary];
    let kinds = [&rows[..], &[Postings, SetDirectory, SetSummary, Footer]].concat();
    let (mut pages, mut at) = (Vec::new(), 0);
    while at < bytes.len() - TAIL_BYTES {
        let payload_len = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
        let page = [true, false].into_iter().find_map(|pad| {
            let page = bytes.get(at..at + page_len(at as u64, payload_len, pad))?;
            let address = PageAddress { segment, offset: at as u64 };
            let kind = kinds.iter().copied().find(|kind| *kind as u8 == page[4])?;
            read_page(page, kind, address).ok().map(|_| (kind, page.len()))
        });
        let (kind, len) = page.unwrap_or_else(|| panic!("byte {at} begins no page"));
        // Zeros behind the last extents of some blocks belong to no page, and nothing reads them.
        let is_extent = kind == PageKind::Extent;
        let own = if is_extent { page_len(at as u64, payload_len, false) } else { len };
        pages.push((kind.name().to_string(), at, at + own));
        at += len;
    }
    pages.push(("tail".to_string(), at, bytes.len()));
    pages
}

/// Every region of every file: what it is, its file, from, to.
fn regions(files: &MemoryDirectory) -> Vec<(String, String, usize, usize)> {
    let mut regions = Vec::new();
    for name in files.list().unwrap() {
        let bytes = read_file(files, &name).unwrap();
        match file_of(&name) {
            Some((file, number)) => {
                for (kind, from, to) in pages(&bytes, number) {
                    regions.push((format!("{kind} of a {}", file.name()), name.clone(), from, to));
                }
            }
            None => {
                let kind = name.split('-').next().expect("split gives one part").to_string();
                regions.push((kind, name.clone(), 0, bytes.len()));
            }
        }
    }
    regions
}

#[test]
fn a_flipped_bit_is_an_error_that_names_the_file_or_changes_no_answer() {
    let long = std::env::var_os("DRILLCORE_LONG").is_some();
    let mut refused = BTreeMap::new();
    // Kinds of regions in a segment, or there and in a file beside it, in a log and in a manifest.
    for (sets, kinds_expected) in [(Sets::InTheSegment, 16), (Sets::Beside, 18)] {
        let flips = if long { 1_000 } else { 40 };
        flip_bits(&closed_database(sets), answers, kinds_expected, flips, &mut refused);
    }
    let flips = if long { 1_000 } else { 15 };
    flip_bits(&closed_layers(), answers_of_layers, 15, flips, &mut refused);
    // Not by `verify` alone.
    for (kind, refused) in &refused {
        assert!(*refused > 0, "no answer was refused for a flipped bit in: {kind}");
    }
}

/// Counts in `refused`, by kind, the flips for which an answer was an error.
fn flip_bits(
    files: &MemoryDirectory,
    answers: fn(&TableSnapshot) -> Answers,
    kinds_expected: usize,
    flips: u64,
    refused: &mut BTreeMap<String, u64>,
) {
    let regions = regions(files);
    let mut kinds: Vec<&String> = regions.iter().map(|region| &region.0).collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), kinds_expected, "{kinds:?}");
    let expected = {
        let database = open(&copy(files, |_, _| ())).unwrap();
        answers(&database.table("t").unwrap().snapshot().unwrap())
    };
    assert!(expected.iter().all(Result::is_ok));

    let mut rng = Rng::keyed(SEED, 0);
    for kind in kinds {
        let of_kind: Vec<_> = regions.iter().filter(|region| region.0 == *kind).collect();
        let mut refused_here = 0;
        for _ in 0..flips {
            let (_, file, from, to) = of_kind[rng.below(of_kind.len() as u64) as usize];
            let at = from + rng.below((to - from) as u64) as usize;
            let bit = rng.below(8);
            let context = format!("{kind}, {file}, bit {bit} of byte {at}");
            let damaged = copy(files, |name, bytes| {
                if name == file {
                    bytes[at] ^= 1 << bit;
                }
            });
            refused_here +=
                u64::from(check_damaged(&damaged, file, answers, &expected, &context) > 0);
        }
        println!("{kind}: {flips} flips, for {refused_here} of them an answer was refused");
        *refused.entry(kind.clone()).or_default() += refused_here;
    }
}

/// Returns how many answers were errors.
fn check_damaged(
    files: &MemoryDirectory,
    file: &str,
    answers: fn(&TableSnapshot) -> Answers,
    expected: &[Result<u64>],
    context: &str,
) -> usize {
    let check = |error: &Error| {
        let is_damage = matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported);
        assert!(is_damage, "{context}: {:?}: {error}", error.kind());
        assert!(error.to_string().contains(file), "{context}: {error}");
    };
    let database = match open(files) {
        Ok(database) => database,
        Err(error) => {
            check(&error);
            return expected.len();
        }
    };
    let found = answers(&database.table("t").unwrap().snapshot().unwrap());
    for (number, (found, expected)) in found.iter().zip(expected).enumerate() {
        match found {
            Ok(found) => {
                let expected = expected.as_ref().expect("the sound database answers");
                assert_eq!(found, expected, "{context}: answer {number} differs");
            }
            Err(error) => check(error),
        }
    }
    let report = database.verify().unwrap();
    assert_eq!(report.faults.len(), 1, "{context}: {:?}", report.faults);
    assert!(report.faults[0].contains(file), "{context}: {:?}", report.faults);
    found.iter().filter(|answer| answer.is_err()).count()
}

#[test]
fn a_file_cut_short_or_missing_is_an_error_that_names_it() {
    let files = closed_database(Sets::Beside);
    let paged: Vec<String> =
        files.list().unwrap().into_iter().filter(|name| file_of(name).is_some()).collect();
    assert_eq!(paged.len(), 2);
    paged.iter().for_each(|name| cut_short(&files, name));
}

fn cut_short(files: &MemoryDirectory, segment: &str) {
    let whole = read_file(files, segment).unwrap();
    for len in [0, 10, TAIL_BYTES, 4096, whole.len() / 2, whole.len() - 1] {
        let cut = copy(files, |name, bytes| {
            if name == segment {
                bytes.truncate(len);
            }
        });
        let error = open(&cut).err().unwrap_or_else(|| panic!("{len} bytes open"));
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{len} bytes: {error}");
        assert!(error.to_string().contains(segment), "{len} bytes: {error}");
    }
    let missing = copy(files, |_, _| ());
    missing.remove(segment).unwrap();
    let error = open(&missing).err().unwrap();
    assert!(error.to_string().contains(segment), "{error}");
}

#[test]
fn verify_finds_a_flipped_bit_in_a_page_that_the_cache_holds_undamaged() {
    let files = closed_database(Sets::Beside);
    let folder = tempfile::tempdir().unwrap();
    for name in files.list().unwrap() {
        std::fs::write(folder.path().join(&name), read_file(&files, &name).unwrap()).unwrap();
    }
    let database = Database::open(folder.path(), options()).unwrap();
    let before = answers(&database.table("t").unwrap().snapshot().unwrap());
    assert!(before.iter().all(Result::is_ok));
    let mut kinds = Vec::new();
    for (kind, file, from, to) in regions(&files) {
        if file_of(&file).is_none() || kinds.contains(&kind) {
            continue;
        }
        let at = (from + to.min(from + 64)) as u64 / 2;
        let path = folder.path().join(&file);
        let segment = std::fs::File::options().read(true).write(true).open(path).unwrap();
        let mut byte = [0];
        segment.read_exact_at(&mut byte, at).unwrap();
        segment.write_all_at(&[byte[0] ^ 1], at).unwrap();
        let report = database.verify().unwrap();
        assert_eq!(report.faults.len(), 1, "{kind}: {:?}", report.faults);
        assert!(report.faults[0].contains(&file), "{kind}: {:?}", report.faults);
        segment.write_all_at(&byte, at).unwrap();
        kinds.push(kind);
    }
    assert_eq!(kinds.len(), 16, "pages of every kind: {kinds:?}");
    assert!(database.verify().unwrap().faults.is_empty());
}

#[test]
fn a_folder_that_lost_its_manifest_is_refused_and_keeps_its_files() {
    let files = closed_database(Sets::InTheSegment);
    let lost = copy(&files, |_, _| ());
    for name in files.list().unwrap().iter().filter(|name| name.starts_with("manifest-")) {
        lost.remove(name).unwrap();
    }
    let left = lost.list().unwrap();
    let without_segments = copy(&lost, |_, _| ());
    for name in left.iter().filter(|name| name.starts_with("segment-")) {
        without_segments.remove(name).unwrap();
    }
    for folder in [lost, without_segments] {
        let left = folder.list().unwrap();
        assert!(!left.is_empty());
        let error = open(&folder).err().expect("refused");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("no manifest"), "{error}");
        assert_eq!(folder.list().unwrap(), left);
    }
}

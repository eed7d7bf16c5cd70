//! Reads of segments, many at once: of files that are slow, that fail, that are read in each way that there is, and of
//! another version.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use drillcore::arrow_array::{ArrayRef, RecordBatch, StringArray};
use drillcore::directory::{Directory, MemoryDirectory};
use drillcore::*;
use drillcore_format::file_tail::TAIL_BYTES;
use drillcore_storage::files::local_directory::LocalDirectory;
use drillcore_storage::segments::segment::Segment;
use drillcore_testkit::event_table::{self, Events};

use crate::slow_directory::{EVENTS, FAR, NOWHERE, ROWS, STUCK, SlowDirectory, keys};

/// A database without a cache, whose rows are in one segment.
fn database(directory: &SlowDirectory) -> (Database, TableSnapshot) {
    let options = Options { cache_bytes: 0, ..Options::default() };
    let db = Database::open_in(Arc::new(directory.clone()), options).unwrap();
    fill(&db);
    let table = db.table("events").unwrap().snapshot().unwrap();
    (db, table)
}

fn fill(db: &Database) {
    let table = db.create_table("events", Events::spec()).unwrap();
    for ids in (0..ROWS).collect::<Vec<_>>().chunks(5_000) {
        EVENTS.append(&table, ids);
    }
    db.compact().unwrap();
}

/// Rows drawn, looked up and taken of a set.
fn answers(table: &TableSnapshot) -> Vec<RecordBatch> {
    let request = SampleRequest { n: 400, seed: Some(3), ..Default::default() };
    let sample = table.sample(&request).unwrap();
    let found = table.get(&keys((0..400).map(|id| id * 7919 % (2 * ROWS))), None).unwrap();
    let sets: ArrayRef = Arc::new(StringArray::from(vec![EVENTS.team(7)]));
    let selection = Selection { sets: Some(sets), ..Default::default() };
    let scan = table.scan(ScanRequest { selection, ..Default::default() }).unwrap();
    let mut answers = vec![sample, found.rows];
    answers.extend(scan.map(|batch| batch.unwrap()));
    answers
}

#[test]
fn rows_of_a_device_that_is_far_away_come_many_at_once() {
    let directory = SlowDirectory::new();
    let (_db, table) = database(&directory);
    let expected = answers(&table);
    assert!(expected.iter().map(RecordBatch::num_rows).sum::<usize>() > 1_000);
    directory.disk.most_under_way.store(0, Ordering::SeqCst);
    directory.take(FAR);
    let started = Instant::now();
    assert_eq!(answers(&table), expected);
    let took = started.elapsed();
    let most = directory.disk.most_under_way.load(Ordering::SeqCst);
    println!("{took:?}, {most} under way");
    assert!(most >= 32, "{most} under way");
    // Over 1,000 blocks, one after the other, would take 20 s.
    assert!(took < 200 * FAR, "{took:?}");
}

/// Each of them once listed the directory, which takes a trip and more the more files there are.
#[test]
fn segments_that_a_snapshot_alone_held_are_removed_together() {
    const SEGMENTS: i64 = 8;
    let directory = SlowDirectory::new();
    let db = Database::open_in(Arc::new(directory.clone()), Options::default()).unwrap();
    let hold = db.hold_maintenance();
    let table = db.create_table("events", Events::spec()).unwrap();
    for part in 0..SEGMENTS {
        EVENTS.append(&table, &(part * 100..part * 100 + 100).collect::<Vec<_>>());
        db.flush().unwrap();
    }
    let before = table.snapshot().unwrap();
    assert_eq!(before.count(&Selection::default()).unwrap(), 100 * SEGMENTS as u64);
    drop(hold);
    db.compact().unwrap();
    let segments = || {
        let names = directory.list().unwrap();
        names.iter().filter(|name| Segment::id_of(name).is_some()).count()
    };
    assert_eq!(segments(), SEGMENTS as usize + 1, "the snapshot reads the segments before");
    let _hold = db.hold_maintenance();
    let listed = directory.disk.lists.load(Ordering::SeqCst);
    drop(before);
    assert_eq!(directory.disk.lists.load(Ordering::SeqCst), listed + 1);
    assert_eq!(segments(), 1);
}

/// Dictionaries and blocks are read together, and shared by all who want them: here by callers of which each has other blocks, and
/// without a cache, so that all are read again and again.
#[test]
fn callers_that_share_dictionaries_and_blocks_do_not_wait_for_each_other_for_ever() {
    let directory = SlowDirectory::new();
    let (_db, table) = database(&directory);
    let drawn = |seed: u64| {
        let request = SampleRequest { n: 20, seed: Some(seed), ..Default::default() };
        table.sample(&request).unwrap()
    };
    let found = |seed: u64| {
        let ids = (0..20).map(|id| (id * 7919 + seed as i64 * 31) % ROWS);
        table.get(&keys(ids), None).unwrap().rows
    };
    let expected: Vec<[RecordBatch; 2]> = (0..8).map(|seed| [drawn(seed), found(seed)]).collect();
    directory.take(Duration::from_millis(1));
    thread::scope(|scope| {
        for reader in 0..16 {
            let (expected, drawn, found) = (&expected, &drawn, &found);
            scope.spawn(move || {
                for seed in (0..60).map(|round| (round + reader) % 8) {
                    let answer = [drawn(seed), found(seed)];
                    assert_eq!(answer, expected[seed as usize]);
                }
            });
        }
    });
}

#[test]
fn a_page_that_cannot_be_read_fails_those_who_need_it_together_and_no_others() {
    const READERS: usize = 40;
    let directory = SlowDirectory::new();
    let (_db, table) = database(&directory);
    let (bad, good) = (keys([7_000]), keys([12_000]));
    // Without a column that has a dictionary the block is read last.
    table.get(&bad, Some(&["id".to_string()])).unwrap();
    directory.break_at(directory.disk.last.load(Ordering::SeqCst));
    directory.take(Duration::from_millis(200));
    let started = Instant::now();
    thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                let error = table.get(&bad, None).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                assert!(error.to_string().contains("cannot read segment-"), "{error}");
            });
        }
    });
    let took = started.elapsed();
    // An index page, and the block; one reader after the other would take 16 s.
    assert!(took < Duration::from_secs(4), "{took:?}");
    directory.take(Duration::ZERO);
    assert_eq!(table.get(&good, None).unwrap().positions, [Some(0)]);
    let among_others = keys((0..300).map(|number| number * 66).chain([7_000]));
    assert_eq!(table.get(&among_others, None).unwrap_err().kind(), ErrorKind::Io);
    let all = SampleRequest { n: ROWS as u64, seed: Some(1), ..Default::default() };
    assert_eq!(table.sample(&all).unwrap_err().kind(), ErrorKind::Io);
    directory.break_at(NOWHERE);
    assert_eq!(table.get(&among_others, None).unwrap().positions.iter().flatten().count(), 301);
    assert_eq!(table.sample(&all).unwrap().num_rows() as i64, ROWS);
}

#[test]
fn a_page_that_takes_seconds_holds_up_those_who_need_it_and_no_others() {
    const READERS: i64 = 20;
    let directory = SlowDirectory::new();
    let (_db, table) = database(&directory);
    // Without a column that has a dictionary the block is read last.
    table.get(&keys([7_000]), Some(&["id".to_string()])).unwrap();
    directory.disk.stuck.store(directory.disk.last.load(Ordering::SeqCst), Ordering::SeqCst);
    directory.take(Duration::from_millis(50));
    let started = Instant::now();
    thread::scope(|scope| {
        // Asks for all blocks at once, the slow one among them.
        let sample = scope.spawn(|| {
            let all = SampleRequest { n: ROWS as u64, seed: Some(1), ..Default::default() };
            assert_eq!(table.sample(&all).unwrap().num_rows() as i64, ROWS);
            started.elapsed()
        });
        let others = (0..READERS).map(|reader| {
            let table = &table;
            scope.spawn(move || {
                // While the sample waits, of blocks beside the slow one and elsewhere.
                thread::sleep(Duration::from_millis(80));
                for id in [7_000 - 40 * reader - 100, 7_100 + 40 * reader, 500 * reader + 250] {
                    assert_eq!(table.get(&keys([id]), None).unwrap().positions, [Some(0)]);
                }
                started.elapsed()
            })
        });
        let others: Vec<_> = others.collect();
        let last = others.into_iter().map(|other| other.join().unwrap()).max().unwrap();
        let of_sample = sample.join().unwrap();
        assert!(of_sample >= STUCK, "{of_sample:?}");
        assert!(last < STUCK, "{last:?}");
    });
}

/// A device that fails for a while keeps merges and set indexes from being made, and nothing else.
#[test]
fn merges_and_set_indexes_wait_for_a_device_that_cannot_be_read() {
    let directory = SlowDirectory::new();
    let options = Options { cache_bytes: 0, ..Options::default() };
    let db = Database::open_in(Arc::new(directory.clone()), options).unwrap();
    let table = db.create_table("events", Events::spec()).unwrap();
    table.unindex_all_sets().unwrap();
    let hold = db.hold_maintenance();
    for part in 0..6 {
        EVENTS.append(&table, &(0..2_000).map(|id| id * 6 + part).collect::<Vec<_>>());
        db.flush().unwrap();
    }
    let is_broken = |is_so: bool| directory.disk.is_broken.store(is_so, Ordering::SeqCst);
    is_broken(true);
    drop(hold);
    let error = db.compact().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    table.index_all_sets().unwrap();
    let error = table.wait_for_set_index().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    let stats = || db.stats().unwrap();
    assert!(stats().tables[0].merge_put_off.as_ref().unwrap().contains("os error 5"));
    assert_eq!(stats().writer.unwrap().failure, None);
    // Rows go in, and out to the disk once what was written there can be read.
    EVENTS.append(&table, &[100_000]);
    assert_eq!(db.flush().unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(stats().writer.unwrap().failure, None);
    is_broken(false);
    db.flush().unwrap();
    db.compact().unwrap();
    table.wait_for_set_index().unwrap();
    assert_eq!(stats().tables[0].segments, 1);
    assert_eq!(table.snapshot().unwrap().rows().unwrap(), 12_001);
    assert!(db.verify().unwrap().faults.is_empty());
}

/// A damaged page keeps the rows of its segment from being merged; what is intact is read, and all is written as before.
#[test]
fn a_damaged_segment_is_not_merged_and_keeps_nobody_from_writing() {
    let directory = SlowDirectory::new();
    let options = || Options { cache_bytes: 0, ..Options::default() };
    {
        let db = Database::open_in(Arc::new(directory.clone()), options()).unwrap();
        let table = db.create_table("events", Events::spec()).unwrap();
        let _hold = db.hold_maintenance();
        for part in 0..3 {
            EVENTS.append(&table, &(0..2_000).map(|id| id * 3 + part).collect::<Vec<_>>());
            db.flush().unwrap();
        }
        db.close().unwrap();
    }
    let files = &directory.files;
    let names = files.list().unwrap();
    let name = names.iter().find(|name| name.starts_with("segment-")).unwrap();
    let mut bytes = drillcore::directory::read_file(files, name).unwrap();
    bytes[9_000] ^= 1;
    files.remove(name).unwrap();
    files.create(name).unwrap().write_all(&bytes).unwrap();
    let db = Database::open_in(Arc::new(files.clone()), options()).unwrap();
    let table = db.table("events").unwrap();
    for _ in 0..2 {
        let error = db.compact().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
    EVENTS.append(&table, &[100_000]);
    db.flush().unwrap();
    let stats = db.stats().unwrap();
    assert_eq!(stats.writer.unwrap().failure, None);
    assert!(stats.tables[0].merge_put_off.as_ref().unwrap().contains(name));
    assert_eq!(table.snapshot().unwrap().get(&keys([100_000]), None).unwrap().positions, [Some(0)]);
    assert_eq!(db.verify().unwrap().faults.len(), 1);
    db.close().unwrap();
}

/// Filters of several segments are read together, also of those that are asked in vain.
#[test]
fn damage_of_an_older_segment_does_not_matter_to_keys_that_a_newer_one_has() {
    let files = MemoryDirectory::new();
    let options = || Options { cache_bytes: 0, ..Options::default() };
    let ids = |part: i64| (0..2_000).map(move |id| id * 3 + part);
    {
        let db = Database::open_in(Arc::new(files.clone()), options()).unwrap();
        let table = db.create_table("events", Events::spec()).unwrap();
        let _hold = db.hold_maintenance();
        for part in 0..3 {
            EVENTS.append(&table, &ids(part).collect::<Vec<_>>());
            db.flush().unwrap();
        }
        db.close().unwrap();
    }
    let names = files.list().unwrap().into_iter().filter(|name| name.starts_with("segment-"));
    let oldest = names.min().unwrap();
    let intact = drillcore::directory::read_file(&files, &oldest).unwrap();
    let (mut failed_newest, mut failed_oldest) = (0, 0);
    for at in (0..intact.len()).step_by(4096) {
        let mut bytes = intact.clone();
        bytes[at + 20] ^= 1;
        files.remove(&oldest).unwrap();
        files.create(&oldest).unwrap().write_all(&bytes).unwrap();
        let Ok(db) = Database::open_in(Arc::new(files.clone()), options()) else { continue };
        let _hold = db.hold_maintenance();
        let snapshot = db.table("events").unwrap().snapshot().unwrap();
        let fails = |part: i64| {
            let asked: Vec<i64> = ids(part).skip(800).step_by(20).take(40).collect();
            let found = snapshot.get(&keys(asked.iter().copied()), None);
            usize::from(found.is_err())
        };
        failed_newest += fails(2);
        failed_oldest += fails(0);
    }
    assert_eq!(failed_newest, 0);
    assert!(failed_oldest > 3, "{failed_oldest}");
}

#[test]
fn keys_in_no_order_have_each_block_read_once() {
    let directory = SlowDirectory::new();
    let (_db, table) = database(&directory);
    let reads = |ids: Vec<i64>| {
        directory.disk.reads.store(0, Ordering::SeqCst);
        let found = table.get(&keys(ids.iter().copied()), None).unwrap();
        for (id, position) in ids.iter().zip(&found.positions) {
            let row = found.rows.slice(position.unwrap() as usize, 1);
            assert_eq!(drillcore_testkit::event_table::ids(&row), [*id]);
        }
        directory.disk.reads.load(Ordering::SeqCst)
    };
    let in_order = reads((0..3_000).collect());
    let in_no_order = reads((0..3_000).map(|at| at * 1_777 % 3_000).collect());
    assert!(in_no_order <= in_order + in_order / 10, "{in_no_order} reads, {in_order} in order");
}

/// Each with direct reads or without, and with rings or without.
const WAYS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

#[test]
fn every_way_to_read_gives_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    {
        let db = Database::open(&path, Options::default()).unwrap();
        fill(&db);
        db.close().unwrap();
    }
    // Rings, where the system has some.
    let by_default = LocalDirectory::open(&path).unwrap().reads_by();
    let mut expected = None;
    for (direct_io, io_uring) in WAYS {
        let options = ReadOptions { cache_bytes: 0, direct_io, io_uring, ..Default::default() };
        let db = Database::open_read_only(&path, options).unwrap();
        let table = db.table("events").unwrap().snapshot().unwrap();
        let found = answers(&table);
        assert_eq!(*expected.get_or_insert(found.clone()), found, "{direct_io} {io_uring}");
        let all = table.scan(ScanRequest::default()).unwrap();
        assert_eq!(all.map(|batch| batch.unwrap().num_rows() as i64).sum::<i64>(), ROWS);
        let stats = db.stats().unwrap();
        assert!(stats.blocks_read > 1_000, "{stats:?}");
        assert_eq!(stats.reads_by, if io_uring { by_default } else { "threads" });
        println!("direct_io {direct_io}, io_uring {io_uring}: {}", stats.reads_by);
        assert!(db.verify().unwrap().faults.is_empty());
    }
}

/// Postings say which rows a set has: those of another segment would say it of the wrong ones.
#[test]
fn a_postings_file_of_another_segment_is_refused_by_name_and_left_as_it_is() {
    let files = MemoryDirectory::new();
    let open = || Database::open_in(Arc::new(files.clone()), Options::default());
    {
        let db = open().unwrap();
        let table = db.create_table("events", Events::spec()).unwrap();
        table.unindex_all_sets().unwrap();
        let _hold = db.hold_maintenance();
        for part in 0..2 {
            EVENTS.append(&table, &(0..2_000).map(|id| id * 2 + part).collect::<Vec<_>>());
            db.flush().unwrap();
        }
    }
    {
        let db = open().unwrap();
        let table = db.table("events").unwrap();
        table.index_all_sets().unwrap();
        table.wait_for_set_index().unwrap();
        db.close().unwrap();
    }
    let before = contents(&files);
    let postings: Vec<_> =
        before.iter().filter(|(name, _)| name.starts_with("postings-")).collect();
    let [(first, of_first), (second, of_second)] = postings[..] else {
        panic!("{} postings files", postings.len())
    };
    for (name, bytes) in [(first, of_second), (second, of_first)] {
        replace(&files, name, bytes);
    }
    let swapped = contents(&files);
    let error = open().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("postings-"), "{error}");
    let after = contents(&files);
    for (name, bytes) in &swapped {
        assert_eq!(after.get(name), Some(bytes), "{name} is as it was");
    }
}

/// Of all files their names and bytes.
fn contents(files: &MemoryDirectory) -> BTreeMap<String, Vec<u8>> {
    let read = |name: String| (drillcore::directory::read_file(files, &name).unwrap(), name);
    files.list().unwrap().into_iter().map(read).map(|(bytes, name)| (name, bytes)).collect()
}

fn replace(files: &MemoryDirectory, name: &str, bytes: &[u8]) {
    files.remove(name).unwrap();
    files.create(name).unwrap().write_all(bytes).unwrap();
}

/// A log file's bytes, or those of a file of pages, with another version and the checksums of that.
fn with_version(bytes: &[u8], is_log: bool, version: u8) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    // Where the version is, and from where to where checksums cover it, which follow.
    let (at, from, ends) = match is_log {
        true => (8, 0, vec![12, 20]),
        false => {
            let tail = bytes.len() - TAIL_BYTES;
            (tail + 20, tail + 8, vec![tail + 24])
        }
    };
    bytes[at] = version;
    for end in ends {
        let checksum = crc32c::crc32c(&bytes[from..end]);
        bytes[end..end + 4].copy_from_slice(&checksum.to_le_bytes());
    }
    bytes
}

#[test]
fn a_database_of_another_version_is_refused_by_name_and_left_as_it_is() {
    let files = MemoryDirectory::new();
    let open = || Database::open_in(Arc::new(files.clone()), Options::default());
    {
        let db = open().unwrap();
        let table = db.create_table("events", Events::spec()).unwrap();
        table.unindex_all_sets().unwrap();
        EVENTS.append(&table, &(0..2_000).collect::<Vec<_>>());
        db.flush().unwrap();
        table.index_all_sets().unwrap();
        table.wait_for_set_index().unwrap();
        EVENTS.append(&table, &[5_000]);
        db.close().unwrap();
    }
    let intact = contents(&files);
    for (stem, is_log, reads, versions) in [
        ("segment-", false, 7, [1, 6, 8]),
        ("postings-", false, 7, [1, 6, 8]),
        ("manifest-", true, 5, [1, 4, 6]),
        ("wal-0", true, 5, [1, 4, 6]),
    ] {
        let (name, bytes) = intact.iter().find(|(name, _)| name.starts_with(stem)).unwrap();
        for version in versions {
            replace(&files, name, &with_version(bytes, is_log, version));
            let before = contents(&files);
            let error = open().err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            let expected = format!("format version {version}; this build reads version {reads}");
            let message = error.to_string();
            assert!(message.contains(&expected) && message.contains(name), "{message}");
            assert_eq!(contents(&files), before, "{name} of version {version}");
        }
        replace(&files, name, bytes);
    }
    let db = open().unwrap();
    assert_eq!(db.table("events").unwrap().snapshot().unwrap().rows().unwrap(), 2_001);
}

/// What was read before the end that is left is right, and what is asked for behind it is an error.
#[test]
fn a_segment_that_is_cut_while_it_is_open_gives_errors_and_no_wrong_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    {
        let db = Database::open(&path, Options::default()).unwrap();
        fill(&db);
        db.close().unwrap();
    }
    let names = LocalDirectory::open(&path).unwrap().list().unwrap();
    let segment = names.iter().find(|name| Segment::id_of(name).is_some()).unwrap();
    let segment = path.join(segment);
    let intact = std::fs::read(&segment).unwrap();
    let expected: Vec<i64> = (0..ROWS).collect();
    for (direct_io, io_uring) in WAYS {
        std::fs::write(&segment, &intact).unwrap();
        let options = ReadOptions { direct_io, io_uring, ..Default::default() };
        let db = Database::open_read_only(&path, options).unwrap();
        let table = db.table("events").unwrap().snapshot().unwrap();
        // What says where rows lie is at the end of the file. From now on it is in memory, with one block.
        table.get(&keys([ROWS / 2]), None).unwrap();
        // Between pages, within one, and to nothing.
        let lens = [intact.len() / 8192 * 4096, intact.len() / 4 + 1, 5_000, 0];
        for (round, len) in lens.into_iter().enumerate() {
            File::options().write(true).open(&segment).unwrap().set_len(len as u64).unwrap();
            let (mut right, mut failed) = (0, 0);
            let mut check = |read: Result<RecordBatch>| match read {
                Ok(rows) => {
                    assert_eq!(rows, EVENTS.batch(&event_table::ids(&rows)), "{len} bytes");
                    right += rows.num_rows();
                    Some(event_table::ids(&rows))
                }
                Err(error) => {
                    let kinds = [ErrorKind::Io, ErrorKind::Corrupt];
                    assert!(kinds.contains(&error.kind()), "{error}");
                    assert!(error.to_string().contains("segment-"), "{error}");
                    failed += 1;
                    None
                }
            };
            let scan = table.scan(ScanRequest { threads: Some(1), ..Default::default() });
            let mut found = Vec::new();
            match scan {
                Ok(scan) => scan.for_each(|batch| found.extend(check(batch).unwrap_or_default())),
                Err(error) => drop(check(Err(error))),
            }
            assert!(found.len() < expected.len() && expected.starts_with(&found), "{len} bytes");
            // Other ones each time: what was read is in memory.
            for id in (0..ROWS).skip(round * 100).step_by(501) {
                let found = check(table.get(&keys([id]), None).map(|found| found.rows));
                assert!(found.is_none_or(|found| found == [id]));
            }
            let sample = SampleRequest { n: 300, seed: Some(len as u64), ..Default::default() };
            assert!(check(table.sample(&sample)).is_none());
            println!("direct_io {direct_io}, io_uring {io_uring}, {len} bytes: {right}, {failed}");
            assert!(failed > 10 && right >= len / 100_000, "{right} and {failed}");
        }
    }
}

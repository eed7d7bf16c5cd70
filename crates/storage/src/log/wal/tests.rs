//! A log written, damaged and read again.

use super::*;
use crate::files::directory::read_file;
use crate::files::memory_directory::MemoryDirectory;
use crate::log::log_files::log_files;
use crate::log::reading::{LogRead, read_log};
use crate::log::recovery::{recover_log, write_log};

/// To the end of the log.
const ALL: Lsn = Lsn(u64::MAX);

/// LSN and payload.
type Commit = (u64, Vec<u8>);

fn recover(directory: &MemoryDirectory, needed_from: u64) -> Result<(Wal, Vec<Commit>)> {
    let mut commits = Vec::new();
    let shared: Arc<dyn Directory> = Arc::new(directory.clone());
    let nonce = directory.list().unwrap().len() as u32;
    let (wal, _) =
        recover_log(shared, LogOptions::new(true, nonce), Lsn(needed_from), |lsn, payload| {
            commits.push((lsn.0, payload.to_vec()));
            Ok::<(), StorageError>(())
        })?;
    Ok((wal, commits))
}

fn log(wal: &Wal, lsn: u64, payload: &[u8]) {
    wal.enqueue(Lsn(lsn), Payload::of(payload));
    wal.write_through(Lsn(lsn)).unwrap();
}

fn names(directory: &MemoryDirectory) -> Vec<String> {
    log_files(directory).unwrap().into_iter().map(|(_, name)| name).collect()
}

fn remove_before(directory: &MemoryDirectory, wal: &Wal, needed_from: u64) {
    for file in wal.release_before(Lsn(needed_from)) {
        directory.remove(&file.name).unwrap();
    }
}

/// Changes the bytes of one of the log's files, the oldest of which has number 0.
fn rewrite(directory: &MemoryDirectory, number: usize, change: impl FnOnce(&mut Vec<u8>)) {
    let name = names(directory).swap_remove(number);
    let mut bytes = read_file(directory, &name).unwrap();
    change(&mut bytes);
    directory.remove(&name).unwrap();
    directory.create(&name).unwrap().write_all(&bytes).unwrap();
}

#[test]
fn commits_come_back_in_order_over_several_openings() {
    let directory = MemoryDirectory::new();
    for round in 0..3u64 {
        let (wal, commits) = recover(&directory, 1).unwrap();
        assert_eq!(commits.len() as u64, round * 2);
        log(&wal, round * 2 + 1, b"odd");
        log(&wal, round * 2 + 2, b"even");
    }
    let (_, commits) = recover(&directory, 1).unwrap();
    assert_eq!(commits.iter().map(|c| c.0).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(commits[3].1, b"even");
}

/// Files that a reader at an earlier moment needs may stay, and those behind them go.
#[test]
fn a_log_with_files_that_only_an_earlier_moment_needs_is_read_up_to_there_and_as_it_is_now() {
    let directory = MemoryDirectory::new();
    for first in [1, 3, 5, 7] {
        let commits: [(Lsn, &[u8]); 2] = [(Lsn(first), b"odd"), (Lsn(first + 1), b"even")];
        write_log(&directory, first as u32, &commits).unwrap();
    }
    let all = names(&directory);
    assert_eq!(all.len(), 4);
    directory.remove(&all[2]).unwrap();
    let read = |needed_from, to| {
        let mut found = Vec::new();
        let read = read_log(&directory, Lsn(needed_from), Lsn(to), None, |lsn, _| {
            found.push(lsn.0);
            Ok::<(), StorageError>(())
        });
        read.map(|read| (found, read.last.map(|last| last.0)))
    };
    assert_eq!(read(1, 4).unwrap(), (vec![1, 2, 3, 4], Some(4)));
    assert_eq!(read(2, 3).unwrap(), (vec![1, 2, 3], Some(3)));
    assert_eq!(read(3, 4).unwrap(), (vec![3, 4], Some(4)), "the file before is not read");
    assert_eq!(read(8, u64::MAX).unwrap(), (vec![7, 8], Some(8)));
    assert!(read(5, u64::MAX).is_err(), "what is missing is needed");
    let (wal, commits) = recover(&directory, 8).unwrap();
    assert_eq!(commits.iter().map(|commit| commit.0).collect::<Vec<_>>(), [7, 8]);
    let released: Vec<u64> = wal.release_before(Lsn(8)).iter().map(|file| file.first.0).collect();
    assert_eq!(released, [1, 3], "those of a reader are let go of again");
}

#[test]
fn writing_all_enqueued_leaves_nothing_to_whoever_enqueued_it() {
    let directory = MemoryDirectory::new();
    let (wal, _) = recover(&directory, 1).unwrap();
    wal.write_all_enqueued().unwrap();
    wal.enqueue(Lsn(1), Payload::of(b"first"));
    wal.enqueue(Lsn(2), Payload::of(b"second"));
    wal.write_all_enqueued().unwrap();
    assert_eq!(wal.logged(), Lsn(2));
    assert_eq!(recover(&directory, 1).unwrap().1.len(), 2);
    wal.write_through(Lsn(1)).unwrap();
}

#[test]
fn a_torn_last_commit_is_dropped_and_the_log_goes_on_behind_it() {
    let directory = MemoryDirectory::new();
    let (wal, _) = recover(&directory, 1).unwrap();
    log(&wal, 1, b"whole");
    log(&wal, 2, b"torn");
    rewrite(&directory, 0, |bytes| bytes.truncate(bytes.len() - 1));
    let (wal, commits) = recover(&directory, 1).unwrap();
    assert_eq!(commits, [(1, b"whole".to_vec())]);
    log(&wal, 2, b"again");
    assert_eq!(recover(&directory, 1).unwrap().1[1], (2, b"again".to_vec()));
}

#[test]
fn a_flipped_bit_in_an_acknowledged_commit_is_an_error() {
    let directory = MemoryDirectory::new();
    let (wal, _) = recover(&directory, 1).unwrap();
    log(&wal, 1, b"first");
    log(&wal, 2, b"second");
    rewrite(&directory, 0, |bytes| {
        let len = bytes.len();
        bytes[len - 2] ^= 0x10;
    });
    assert!(matches!(recover(&directory, 1), Err(StorageError::Damaged { .. })));
}

#[test]
fn a_missing_file_is_an_error_and_a_file_no_longer_needed_is_removed() {
    let directory = MemoryDirectory::new();
    let (wal, _) = recover(&directory, 1).unwrap();
    log(&wal, 1, b"a");
    drop(wal);
    let (wal, _) = recover(&directory, 1).unwrap();
    log(&wal, 2, b"b");
    assert_eq!(log_files(&directory).unwrap().len(), 2);
    remove_before(&directory, &wal, 2);
    assert_eq!(log_files(&directory).unwrap().len(), 1);
    drop(wal);
    assert!(matches!(recover(&directory, 1), Err(StorageError::Inconsistent { .. })));
    assert_eq!(recover(&directory, 2).unwrap().1.len(), 1);
}

/// A file has its name only with a header, and is begun only once all before it is synced.
#[test]
fn a_file_without_a_header_or_cut_short_before_another_one_is_an_error() {
    for (cut, left, expected) in
        [(2, 50, Some(2)), (2, 3, None), (1, 3, None), (1, 50, None), (1, 24, None)]
    {
        let directory = MemoryDirectory::new();
        for lsn in 1..=3 {
            log(&recover(&directory, 1).unwrap().0, lsn, b"a commit");
        }
        let read = || read_log(&directory, Lsn(1), ALL, None, |_, _| Ok::<(), StorageError>(()));
        assert_eq!(read().unwrap().last, Some(Lsn(3)));
        let name = &names(&directory)[cut];
        let bytes = read_file(&directory, name).unwrap();
        directory.remove(name).unwrap();
        directory.create(name).unwrap().write_all(&bytes[..left]).unwrap();
        let found = read().ok().map(|found| found.last.unwrap().0);
        assert_eq!(found, expected, "of file {cut}, {left} bytes");
        assert_eq!(recover(&directory, 1).is_err(), expected.is_none());
    }
}

#[test]
fn what_no_mark_covers_is_written_anew_once_and_a_closed_log_not_at_all() {
    let directory = MemoryDirectory::new();
    let (wal, _) = recover(&directory, 1).unwrap();
    (1..=3).for_each(|lsn| log(&wal, lsn, b"a commit"));
    let whole = read_file(&directory, &names(&directory)[0]).unwrap();
    // The third says that those before it are synced.
    let first_lsns = || -> Vec<u64> {
        log_files(&directory).unwrap().into_iter().map(|(first, _)| first.0).collect()
    };
    for _ in 0..2 {
        assert_eq!(recover(&directory, 1).unwrap().1.len(), 3);
        assert_eq!(first_lsns(), [1, 3]);
    }
    assert_eq!(read_file(&directory, &names(&directory)[0]).unwrap(), whole, "not touched");
    let (wal, _) = recover(&directory, 1).unwrap();
    log(&wal, 4, b"another");
    wal.close().unwrap();
    for _ in 0..2 {
        assert_eq!(recover(&directory, 1).unwrap().1.len(), 4);
        assert_eq!(first_lsns(), [1, 3, 4]);
    }
}

#[test]
fn what_is_in_segments_is_not_written_anew() {
    let directory = MemoryDirectory::new();
    let (wal, _) = recover(&directory, 1).unwrap();
    (1..=3).for_each(|lsn| wal.enqueue(Lsn(lsn), Payload::of(b"a commit")));
    wal.write_through(Lsn(3)).unwrap();
    assert_eq!(recover(&directory, 4).unwrap().1.len(), 3);
    assert_eq!(names(&directory).len(), 1);
    recover(&directory, 3).unwrap();
    assert_eq!(names(&directory).len(), 2);
}

/// A reader goes on where it was, although the writer has started anew and written its last commits to another
/// file, or to another one of the same name.
#[test]
fn a_reader_goes_on_over_a_new_opening_of_the_writer() {
    for commits in [1, 3] {
        let directory = MemoryDirectory::new();
        let (wal, _) = recover(&directory, 1).unwrap();
        (1..=commits).for_each(|lsn| log(&wal, lsn, b"a commit"));
        let read = |before: Option<&LogRead>| {
            let mut heard = Vec::new();
            let read = read_log(&directory, Lsn(1), ALL, before, |lsn, _| {
                heard.push(lsn.0);
                Ok::<(), StorageError>(())
            });
            (read.unwrap(), heard)
        };
        let (before, heard) = read(None);
        assert!(heard.into_iter().eq(1..=commits));
        let (wal, _) = recover(&directory, 1).unwrap();
        let (before, heard) = read(Some(&before));
        assert_eq!(heard, [0; 0]);
        log(&wal, commits + 1, b"another");
        assert_eq!(read(Some(&before)).1, [commits + 1]);
        assert!(read(None).1.into_iter().eq(1..=commits + 1));
    }
}

#[test]
fn a_removed_file_that_a_power_cut_brings_back_is_no_damage() {
    let directory = MemoryDirectory::new();
    let mut first_file = None;
    for lsn in 1..=3 {
        let (wal, _) = recover(&directory, 1).unwrap();
        log(&wal, lsn, b"x");
        wal.close().unwrap();
        let name = names(&directory)[0].clone();
        first_file.get_or_insert_with(|| (name.clone(), read_file(&directory, &name).unwrap()));
    }
    let (wal, _) = recover(&directory, 1).unwrap();
    remove_before(&directory, &wal, 3);
    drop(wal);
    let (name, bytes) = first_file.unwrap();
    directory.create(&name).unwrap().write_all(&bytes).unwrap();
    let lsns = |commits: Vec<(u64, Vec<u8>)>| commits.iter().map(|c| c.0).collect::<Vec<_>>();
    assert_eq!(lsns(recover(&directory, 3).unwrap().1), [3], "it is passed over");
    assert!(matches!(recover(&directory, 2), Err(StorageError::Inconsistent { .. })));
}

#[test]
fn threads_that_commit_together_all_see_their_commit_logged() {
    let directory = MemoryDirectory::new();
    let (wal, _) = recover(&directory, 1).unwrap();
    let next = Mutex::new(1u64);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let lsn = {
                        let mut next = next.lock();
                        wal.enqueue(Lsn(*next), Payload::of(&next.to_le_bytes()));
                        *next += 1;
                        Lsn(*next - 1)
                    };
                    wal.write_through(lsn).unwrap();
                    assert!(wal.logged() >= lsn);
                }
            });
        }
    });
    drop(wal);
    assert_eq!(recover(&directory, 1).unwrap().1.len(), 800);
}

/// A log of which the third commit begins another file, which does not know whether the second is on stable storage; or
/// with `is_known`, a fourth commit there does.
fn log_of_two_files(is_known: bool) -> MemoryDirectory {
    let directory = MemoryDirectory::new();
    let shared: Arc<dyn Directory> = Arc::new(directory.clone());
    let options = LogOptions { file_bytes: 190, ..LogOptions::new(false, 9) };
    let replay = |_: Lsn, _: &[u8]| Ok::<(), StorageError>(());
    let (wal, _) = recover_log(shared, options, Lsn(1), replay).unwrap();
    for lsn in 1..=3 {
        // The first two fill a file, and the log's thread is at work behind the first.
        log(&wal, lsn, &[7; 60]);
        wal.end_upkeep();
    }
    assert_eq!(names(&directory).len(), 2);
    if is_known {
        wal.make_durable().unwrap();
        log(&wal, 4, b"with a mark");
    }
    directory
}

#[test]
fn the_end_of_a_full_file_may_be_lost_and_takes_the_next_file_along() {
    for lost in [1, 88, 89] {
        let directory = log_of_two_files(false);
        assert_eq!(read_numbers(&directory).unwrap(), [1, 2, 3]);
        rewrite(&directory, 0, |bytes| bytes.truncate(bytes.len() - lost));
        assert_eq!(read_numbers(&directory).unwrap(), [1], "{lost} bytes");
        assert_eq!(recovered_numbers(&directory), [1], "{lost} bytes");
        assert_eq!(names(&directory).len(), 1, "nothing may follow later");
    }
}

#[test]
fn a_mark_in_the_next_file_makes_a_bad_frame_damage() {
    for lost in [1, 88, 89] {
        let directory = log_of_two_files(true);
        assert_eq!(read_numbers(&directory).unwrap(), [1, 2, 3, 4]);
        rewrite(&directory, 0, |bytes| bytes.truncate(bytes.len() - lost));
        assert!(read_numbers(&directory).is_err(), "{lost} bytes");
        assert!(recover(&directory, 1).is_err(), "{lost} bytes");
        assert_eq!(names(&directory).len(), 2);
    }
    let directory = log_of_two_files(false);
    rewrite(&directory, 0, |bytes| bytes[150] ^= 1);
    assert!(recover(&directory, 1).is_err(), "no lost write looks like that");
}

fn recovered_numbers(directory: &MemoryDirectory) -> Vec<u64> {
    recover(directory, 1).unwrap().1.into_iter().map(|(lsn, _)| lsn).collect()
}

fn read_numbers(directory: &MemoryDirectory) -> Result<Vec<u64>> {
    let mut numbers = Vec::new();
    read_log(directory, Lsn(1), ALL, None, |lsn, _| {
        numbers.push(lsn.0);
        Ok::<(), StorageError>(())
    })?;
    Ok(numbers)
}

/// A commit of which nothing needs a file of the log may be written and not yet synced when all files are released.
#[test]
fn a_file_is_begun_behind_all_that_was_written() {
    let directory = MemoryDirectory::new();
    let (wal, _) = recover(&directory, 1).unwrap();
    wal.make_ready(Lsn(1)).unwrap();
    wal.enqueue(Lsn(1), Payload::of(b"how far a source was read"));
    wal.shared.written.reach(Lsn(1), || wal.write()).unwrap();
    remove_before(&directory, &wal, 2);
    // For the next commit, while none is visible.
    wal.make_ready(Lsn(1)).unwrap();
    assert_eq!(names(&directory), [file_name(Lsn(2))]);
    wal.write_through(Lsn(1)).unwrap();
    log(&wal, 2, b"the next");
    assert_eq!(recover(&directory, 2).unwrap().1, [(2, b"the next".to_vec())]);
}

//! The log by itself, over many lives: commits of a few bytes and of many pages, syncs that fail, processes that are
//! killed, and power cuts that lose any of the pages that were not synced.

use std::sync::Arc;

use drillcore::directory::Directory;
use drillcore_format::frame::Payload;
use drillcore_format::ids::Lsn;
use drillcore_sample::rng::Rng;
use drillcore_storage::error::{Result, StorageError};
use drillcore_storage::log::log_files::is_log_file;
use drillcore_storage::log::recovery::recover_log;
use drillcore_storage::log::wal::{LogOptions, Wal};
use drillcore_testkit::fault_directory::{Fault, FaultDirectory, Unsynced};
use drillcore_testkit::repetitions::repetitions;

/// Files have some commits each, so that many are begun.
const FILE_BYTES: u64 = 40_000;

/// A log over its lives, and what it must still have.
struct Lives {
    rng: Rng,
    directory: FaultDirectory,
    /// Payloads by LSN, from 1 on, as far as a log may hold them.
    commits: Vec<Vec<u8>>,
    /// How many of them must be there after a kill, ...
    acknowledged: usize,
    /// ... and how many after a power cut.
    durable: usize,
    /// The log is needed from this LSN on.
    needed_from: u64,
    /// Power cuts that took a commit.
    losses: u64,
    /// Files that were begun because one was full.
    begun: u64,
    story: Vec<String>,
}

impl Drop for Lives {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.story.join("\n"));
        }
    }
}

impl Lives {
    fn new(seed: u64) -> Lives {
        Lives {
            rng: Rng::keyed(seed, 0),
            directory: FaultDirectory::new(),
            commits: Vec::new(),
            acknowledged: 0,
            durable: 0,
            needed_from: 1,
            losses: 0,
            begun: 0,
            story: vec![format!("seed {seed}")],
        }
    }

    fn tell(&mut self, event: String) {
        let (total, acknowledged, durable) = (self.commits.len(), self.acknowledged, self.durable);
        self.story.push(format!("{event} ({durable} of {acknowledged} of {total} durable)"));
    }

    /// Opens the log, which must hold a prefix that has all it promised, and nothing but what was committed.
    fn open(&mut self, sync: bool) -> Option<Wal> {
        let mut found: Vec<(u64, Vec<u8>)> = Vec::new();
        let nonce = self.rng.next_u64() as u32;
        let shared: Arc<dyn Directory> = Arc::new(self.directory.clone());
        let options = LogOptions { file_bytes: FILE_BYTES, ..LogOptions::new(sync, nonce) };
        let opened = recover_log(shared, options, Lsn(self.needed_from), |lsn, payload| {
            found.push((lsn.0, payload.to_vec()));
            Ok::<(), StorageError>(())
        });
        let wal = match opened {
            Ok((wal, _)) => wal,
            Err(error) => {
                assert!(error.to_string().contains("injected"), "opening: {error}");
                self.tell(format!("opening failed: {error}"));
                self.directory.set_fault(None);
                return None;
            }
        };
        let last = found.last().map_or(0, |(lsn, _)| *lsn).max(self.needed_from - 1) as usize;
        self.tell(format!("opened at {last}, needed from {}, sync: {sync}", self.needed_from));
        assert!(last >= self.acknowledged, "{last} of {} acknowledged", self.acknowledged);
        let needed = found.iter().filter(|(lsn, _)| *lsn >= self.needed_from).map(|(lsn, _)| *lsn);
        assert!(needed.eq(self.needed_from..=last as u64), "no gap");
        for (lsn, payload) in found {
            assert!(self.commits[lsn as usize - 1] == payload, "commit {lsn} is another one");
        }
        self.commits.truncate(last);
        // What an opening shows, it has made durable.
        (self.acknowledged, self.durable) = (last, last);
        Some(wal)
    }

    fn payload(&mut self) -> Vec<u8> {
        let rng = &mut self.rng;
        let len = match rng.below(6) {
            0 => 1 + rng.below(30),
            1 | 2 => 1 + rng.below(600),
            3 | 4 => 1 + rng.below(6_000),
            _ => 1 + rng.below(40_000),
        };
        let mut payload: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
        // Rows may well hold zeros, but a commit does not begin with one.
        let zeros = rng.below(2 * len + 1).min(len) as usize;
        let from = rng.below(len - zeros as u64 + 1) as usize;
        payload[from..from + zeros].fill(0);
        payload[0] |= 1;
        payload
    }

    /// Commits, in groups, until something fails.
    fn write(&mut self, wal: &Wal, sync: bool) {
        if self.rng.below(2) == 0 {
            let nth = self.directory.operations().len() as u64 + self.rng.below(20);
            let then = nth + 1 + self.rng.below(10);
            let faults = [Fault::Once(nth), Fault::Forever(nth), Fault::OnceThenForever(nth, then)];
            self.directory.set_fault(Some(faults[self.rng.below(3) as usize]));
        }
        for _ in 0..self.rng.below(12) {
            for _ in 0..1 + self.rng.below(4) {
                let payload = self.payload();
                self.commits.push(payload.clone());
                wal.enqueue(Lsn(self.commits.len() as u64), Payload::of(&payload));
            }
            let last = self.commits.len();
            if let Err(error) = wal.write_through(Lsn(last as u64)) {
                self.tell(format!("commit {last} failed: {error}"));
                return;
            }
            self.acknowledged = last;
            if self.rng.below(2) == 0 {
                wal.end_upkeep();
            }
            if sync {
                self.durable = last;
            }
            if self.rng.below(4) == 0 && !self.make_durable(wal) {
                return;
            }
        }
    }

    fn make_durable(&mut self, wal: &Wal) -> bool {
        let done = wal.make_durable();
        self.tell(format!("made durable: {done:?}"));
        if done.is_ok() {
            self.durable = self.acknowledged;
        }
        done.is_ok()
    }

    /// As if segments held some of what is durable.
    fn shorten(&mut self, wal: &Wal) -> Result<()> {
        let room = self.durable as u64 + 2 - self.needed_from;
        self.needed_from += self.rng.below(room);
        self.tell(format!("needed from {}", self.needed_from));
        wal.release_before(Lsn(self.needed_from)).into_iter().try_for_each(|file| {
            let removed = self.directory.remove(&file.name);
            removed.map_err(|source| StorageError::Io { action: "remove", file: file.name, source })
        })
    }

    fn log_files(&self) -> u64 {
        let names = self.directory.list().unwrap_or_default();
        names.iter().filter(|name| is_log_file(name)).count() as u64
    }

    fn cut_power(&mut self) {
        let unsynced = Unsynced::ALL[self.rng.below(Unsynced::ALL.len() as u64) as usize];
        let image = self.directory.crash_image(unsynced, &mut self.rng);
        self.directory = FaultDirectory::restarted(&image);
        if unsynced != Unsynced::Kept {
            self.acknowledged = self.durable;
        }
        self.tell(format!("power cut: {unsynced:?}"));
    }

    fn live(&mut self) {
        let sync = self.rng.below(2) == 0;
        let before = self.commits.len();
        let wal = self.open(sync);
        self.losses += u64::from(self.commits.len() < before);
        if let Some(wal) = wal {
            let files = self.log_files();
            // Else nothing is committed before files go.
            if self.rng.below(4) > 0 {
                self.write(&wal, sync);
            }
            // Without a file an opening begins one.
            self.begun += (self.log_files() - files).saturating_sub(1);
            if self.rng.below(4) == 0 {
                let _ = self.shorten(&wal);
            }
        }
        if self.rng.below(2) == 0 {
            self.cut_power();
        } else {
            // Without the fault the next life goes on with what is in the cache.
            self.directory.set_fault(None);
            self.tell("killed".into());
        }
    }
}

#[test]
fn whatever_pages_are_lost_and_syncs_fail_a_log_opens_to_a_prefix_with_all_it_promised() {
    let (mut losses, mut begun) = (0, 0);
    for seed in 0..repetitions(400) {
        let mut lives = Lives::new(seed);
        (0..8).for_each(|_| lives.live());
        losses += lives.losses;
        begun += lives.begun;
    }
    println!(
        "{losses} openings lacked commits that were not durable; {begun} files followed on full ones"
    );
    assert!(losses > 100, "{losses}");
    assert!(begun > 100, "{begun}");
}

#[test]
fn a_failed_sync_of_the_logs_thread_fails_the_close_if_no_commit_was_told() {
    let directory = FaultDirectory::new();
    let options = LogOptions { file_bytes: 4_000, ..LogOptions::new(false, 1) };
    let replay = |_: Lsn, _: &[u8]| Ok::<(), StorageError>(());
    let (wal, _) = recover_log(Arc::new(directory.clone()), options, Lsn(1), replay).unwrap();
    wal.make_ready(Lsn(1)).unwrap();
    // The write of the commit, and then the thread's sync.
    directory.set_fault(Some(Fault::Once(directory.operations().len() as u64 + 1)));
    wal.enqueue(Lsn(1), Payload::of(&[7; 3_000]));
    wal.write_through(Lsn(1)).unwrap();
    let error = wal.close().unwrap_err();
    assert!(error.to_string().contains("injected"), "{error}");
    wal.close().unwrap();
}

#[test]
fn a_failed_sync_of_the_logs_thread_ends_the_log_and_loses_nothing_that_reads_saw() {
    let directory = FaultDirectory::new();
    let open = || {
        let mut found = Vec::new();
        let options = LogOptions { file_bytes: 4_000, ..LogOptions::new(false, 1) };
        let shared: Arc<dyn Directory> = Arc::new(directory.clone());
        let (wal, _) = recover_log(shared, options, Lsn(1), |lsn, _| {
            found.push(lsn.0);
            Ok::<(), StorageError>(())
        })
        .unwrap();
        (wal, found)
    };
    let commit = |wal: &Wal, lsn: u64| {
        wal.enqueue(Lsn(lsn), Payload::of(&[7; 3_000]));
        wal.write_through(Lsn(lsn))
    };
    let (wal, _) = open();
    wal.make_ready(Lsn(1)).unwrap();
    // The write of the commit, and then the thread's sync.
    let sync = directory.operations().len() as u64 + 1;
    directory.set_fault(Some(Fault::Once(sync)));
    commit(&wal, 1).unwrap();
    wal.end_upkeep();
    let error = commit(&wal, 2).unwrap_err();
    assert!(
        matches!(&error, StorageError::LogFailed { first } if first.contains("injected")),
        "{error}"
    );
    drop(wal);
    // The pages count as clean, so no sync brings them to the disk: the opening writes them anew.
    assert_eq!(open().1, [1]);
    let image = directory.crash_image(Unsynced::Dropped, &mut Rng::keyed(0, 0));
    assert!(image.list().unwrap().iter().any(|name| is_log_file(name)));
    let mut found = Vec::new();
    recover_log(Arc::new(image), LogOptions::new(false, 2), Lsn(1), |lsn, _| {
        found.push(lsn.0);
        Ok::<(), StorageError>(())
    })
    .unwrap();
    assert_eq!(found, [1]);
}

#[test]
fn what_lay_behind_the_end_of_a_log_does_not_come_back_without_what_was_before() {
    let open = |directory: &FaultDirectory, needed_from: u64| {
        let options =
            LogOptions { file_bytes: 4_000, ..LogOptions::new(false, needed_from as u32) };
        let shared: Arc<dyn Directory> = Arc::new(directory.clone());
        let replay = |_: Lsn, _: &[u8]| Ok::<(), StorageError>(());
        recover_log(shared, options, Lsn(needed_from), replay)
    };
    let log_files = |directory: &FaultDirectory| {
        let names = directory.list().unwrap();
        names.iter().filter(|name| is_log_file(name)).count()
    };
    let directory = FaultDirectory::new();
    let (wal, _) = open(&directory, 1).unwrap();
    // The second fills the file, whose end the thread has not synced when the third begins another.
    for (lsn, bytes) in [(1, 2_500), (2, 1_800), (3, 100)] {
        wal.enqueue(Lsn(lsn), Payload::of(&vec![7; bytes]));
        wal.write_through(Lsn(lsn)).unwrap();
        wal.end_upkeep();
    }
    assert_eq!(log_files(&directory), 2);
    let mut tried = 0;
    for seed in 0..100 {
        let rng = &mut Rng::keyed(seed, 0);
        let cut = FaultDirectory::restarted(&directory.crash_image(Unsynced::Sectors, rng));
        let found = log_files(&cut);
        let (wal, last) = open(&cut, 1).unwrap();
        if found < 2 || last != Some(Lsn(1)) {
            continue;
        }
        // What is flushed of it is in no segment, so nothing syncs the folder: rows that were erased.
        for file in wal.release_before(Lsn(2)) {
            cut.remove(&file.name).unwrap();
        }
        let image = cut.crash_image(Unsynced::Cut, rng);
        open(&FaultDirectory::restarted(&image), 2).unwrap();
        tried += 1;
    }
    assert!(tried > 10, "{tried}");
}

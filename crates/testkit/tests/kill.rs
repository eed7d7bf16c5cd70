//! A writer process killed with SIGKILL, again and again, on one database.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use drillcore::directory::{Directory, LocalDirectory, MemoryDirectory, read_file};
use drillcore::*;
use drillcore_sample::rng::Rng;
use drillcore_storage::pages::paged_file::file_of;
use drillcore_testkit::deadline::wait_until;
use drillcore_testkit::numbered_batches::{TABLES, append, create_tables, last_batches};
use drillcore_testkit::stuck_directory::StuckDirectory;

/// Names the database folder to the child process.
const FOLDER_VARIABLE: &str = "DRILLCORE_KILL_FOLDER";
const WRITERS: i32 = 2;
const SEED: u64 = 9;
/// What the child does at most, should its parent be gone: far more than it comes to before it is killed.
const BATCHES_MAX: u64 = 100_000;
const COMPACTIONS_MAX: u32 = 3_000;
const SWITCHES_MAX: usize = 12_000;

fn options() -> Options {
    Options {
        memory_bytes: Options::MEMORY_BYTES_MIN,
        // Some rounds write rows out for the log's sake.
        wal_bytes_max: 400_000,
        // Flushes and merges write several segments, by several threads.
        segment_bytes: 100_000,
        ..Default::default()
    }
}

/// The child: appends until it is killed, and reports each acknowledged batch as a line
/// "ack WRITER NUMBER". Started by the test below.
#[test]
#[ignore = "runs as the child of the other test"]
fn writer_that_gets_killed() {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE) else { return };
    let database = Database::open(folder, options()).unwrap();
    create_tables(&database).unwrap();
    let last = last_batches(&database.snapshot().unwrap());
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (database, last) = (&database, last.get(&writer).copied().unwrap_or(0));
            scope.spawn(move || {
                // Ends when the pipe is closed by its reader, at the latest with the last number.
                for number in last + 1..last + BATCHES_MAX {
                    append(database, writer, number).unwrap();
                    // One write call, so that a kill leaves no half line behind a whole one.
                    let line = format!("ack {writer} {number}\n");
                    std::io::stdout().write_all(line.as_bytes()).unwrap();
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..COMPACTIONS_MAX {
                std::thread::sleep(Duration::from_millis(40));
                database.compact().unwrap();
            }
        });
        // Lists of sets are made anew, for the segments that there are.
        scope.spawn(|| {
            for name in TABLES.into_iter().cycle().take(SWITCHES_MAX) {
                let table = database.table(name).unwrap();
                table.unindex_all_sets().unwrap();
                std::thread::sleep(Duration::from_millis(5));
                table.index_all_sets().unwrap();
                std::thread::sleep(Duration::from_millis(5));
            }
        });
    });
}

/// Runs the child for `millis` after its first acknowledgement, kills it and returns the last
/// acknowledged batch of each writer.
fn run_and_kill(folder: &std::path::Path, millis: u64) -> BTreeMap<i32, u64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "writer_that_gets_killed", "--nocapture"])
        .env(FOLDER_VARIABLE, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().expect("the child's output is piped")).lines();
    let (first_sender, first_ack) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut acknowledged = BTreeMap::new();
        for line in lines.map_while(std::io::Result::ok) {
            // The test runner prints a line of its own, without a line end, before the first one.
            let words: Vec<&str> = line.split(' ').rev().take(3).collect();
            let [number, writer, word] = words[..] else { continue };
            if !word.ends_with("ack") {
                continue;
            }
            let _ = first_sender.send(());
            acknowledged.insert(writer.parse().unwrap(), number.parse().unwrap());
        }
        acknowledged
    });
    let started = first_ack.recv_timeout(Duration::from_secs(60));
    std::thread::sleep(Duration::from_millis(millis));
    let exited = child.try_wait().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let acknowledged = reader.join().unwrap();
    assert!(started.is_ok() && exited.is_none(), "the child ended by itself: {exited:?}");
    acknowledged
}

#[test]
fn a_killed_writer_loses_no_acknowledged_batch_and_leaves_none_in_part() {
    let long = std::env::var_os("DRILLCORE_LONG").is_some();
    let rounds = if long { 200 } else { 20 };
    let folder = tempfile::tempdir().unwrap();
    let mut path = folder.path().join("db");
    let mut rng = Rng::keyed(SEED, 0);
    let mut total = 0;
    for round in 0..rounds {
        if round % 20 == 19 {
            // From time to time afresh, so that rounds stay short.
            path = folder.path().join(format!("db{round}"));
        }
        let acknowledged = run_and_kill(&path, rng.below(120));
        let database = Database::open(&path, options()).unwrap();
        let found = last_batches(&database.snapshot().unwrap());
        for (writer, number) in &acknowledged {
            let found = found.get(writer).copied().unwrap_or(0);
            // A writer has at most one batch under way that was not acknowledged.
            let allowed = *number..=*number + 1;
            assert!(allowed.contains(&found), "round {round}: {found} of {acknowledged:?}");
        }
        let report = database.verify().unwrap();
        assert!(report.faults.is_empty(), "round {round}: {:?}", report.faults);
        total = found.values().sum();
    }
    println!("{rounds} kills, {total} batches in the last database");
}

/// Names the job and the number of its step to the child process.
const JOB_VARIABLE: &str = "DRILLCORE_KILL_JOB";
const STEP_VARIABLE: &str = "DRILLCORE_KILL_STEP";
/// Batches that are there when the job begins.
const BATCHES: u64 = 24;
/// Steps of the jobs of the first table, and some of the second.
const STEPS: usize = 9;
const PATIENCE: Duration = Duration::from_secs(60);

fn one_thread() -> Options {
    Options { maintenance_threads: 1, ..Default::default() }
}

/// A database for which a job is left to do, as a killed writer left it. Made in memory, where nothing has to be synced.
fn before_job(job: &str) -> MemoryDirectory {
    let files = MemoryDirectory::new();
    let database = Database::open_in(Arc::new(files.clone()), one_thread()).unwrap();
    create_tables(&database).unwrap();
    let _hold = database.hold_maintenance();
    for name in TABLES.into_iter().filter(|_| job == "index") {
        database.table(name).unwrap().unindex_all_sets().unwrap();
    }
    for number in 1..=BATCHES {
        append(&database, 0, number).unwrap();
        if number % (BATCHES / 3) == 0 && (number < BATCHES || job != "flush") {
            database.flush().unwrap();
        }
    }
    if job == "index" {
        database.compact().unwrap();
    }
    database.close().unwrap();
    files
}

/// The child: does a job, and stops for good before one of its steps, which it prints. Started by the test below.
#[test]
#[ignore = "runs as the child of the other test"]
fn writer_that_gets_killed_in_a_job() {
    let Ok(job) = std::env::var(JOB_VARIABLE) else { return };
    let folder = std::env::var_os(FOLDER_VARIABLE).expect("the parent names the folder");
    let step: usize = std::env::var(STEP_VARIABLE).unwrap().parse().unwrap();
    let local = LocalDirectory::create(Path::new(&folder)).unwrap();
    let directory = StuckDirectory::new(Arc::new(local));
    let database = Database::open_in(Arc::new(directory.clone()), one_thread()).unwrap();
    let hold = database.hold_maintenance();
    let tables = TABLES.map(|name| database.table(name).unwrap());
    if job == "index" {
        tables.iter().for_each(|table| table.index_all_sets().unwrap());
    }
    let before = directory.written().len();
    directory.stick_after(step);
    std::thread::spawn(move || match job.as_str() {
        "flush" => database.flush().unwrap(),
        "compact" => database.compact().unwrap(),
        _ => {
            drop(hold);
            tables.iter().for_each(|table| table.wait_for_set_index().unwrap());
        }
    });
    wait_until(PATIENCE, "the job comes to that step", || directory.is_stuck());
    let line = format!("\nabout to {}\n", directory.written()[before + step]);
    std::io::stdout().write_all(line.as_bytes()).unwrap();
    // Until it is killed, or longer, should its parent be gone.
    std::thread::sleep(PATIENCE);
}

/// Runs the child up to a step of its job, kills it, and returns what it was about to do.
fn kill_in_job(folder: &Path, job: &str, step: usize) -> String {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "writer_that_gets_killed_in_a_job", "--nocapture"])
        .env(FOLDER_VARIABLE, folder)
        .env(JOB_VARIABLE, job)
        .env(STEP_VARIABLE, step.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().expect("the child's output is piped")).lines();
    let about_to = |line: String| line.strip_prefix("about to ").map(str::to_string);
    let what = lines.map_while(std::io::Result::ok).find_map(about_to);
    child.kill().unwrap();
    child.wait().unwrap();
    what.unwrap_or_else(|| panic!("{job}, step {step}: the child ended by itself"))
}

/// Segments, and lists of sets beside them.
fn paged_files(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| file_of(name).is_some()).collect()
}

#[test]
fn a_writer_killed_before_any_step_of_a_job_loses_nothing_and_leaves_no_file_for_good() {
    for (job, lists) in [("flush", 0), ("compact", 0), ("index", TABLES.len())] {
        let files = before_job(job);
        let (mut steps, mut orphans) = (Vec::new(), 0);
        for step in 0..STEPS {
            let folder = tempfile::tempdir().unwrap();
            for name in files.list().unwrap() {
                let bytes = read_file(&files, &name).unwrap();
                std::fs::write(folder.path().join(name), bytes).unwrap();
            }
            let what = kill_in_job(folder.path(), job, step);
            let context = format!("{job}, killed when about to {what}");
            let before = paged_files(folder.path());
            let database = Database::open(folder.path(), one_thread()).unwrap();
            orphans += before.difference(&paged_files(folder.path())).count();
            let found = last_batches(&database.snapshot().unwrap());
            assert_eq!(found, BTreeMap::from([(0, BATCHES)]), "{context}");
            let report = database.verify().unwrap();
            assert!(report.faults.is_empty(), "{context}: {:?}", report.faults);
            for name in TABLES {
                database.table(name).unwrap().wait_for_set_index().unwrap();
            }
            let segments = || -> u64 {
                database.stats().unwrap().tables.iter().map(|table| table.segments).sum()
            };
            let is_each_named = || paged_files(folder.path()).len() == segments() as usize + lists;
            wait_until(PATIENCE, &context, is_each_named);
            steps.push(what);
        }
        println!("{job}: {orphans} files were removed, killed when about to {steps:?}");
        for step in ["create ", "write ", "sync ", "sync the folder", "write manifest-"] {
            assert!(steps.iter().any(|what| what.starts_with(step)), "{job}: {step}: {steps:?}");
        }
        assert!(orphans > 1, "{job}: {steps:?}");
    }
}

#[test]
fn a_second_process_cannot_open_a_database_that_is_being_written() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(folder.path(), options()).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "opener_that_is_refused", "--nocapture"])
        .env(FOLDER_VARIABLE, folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let refused = Database::open(folder.path(), options()).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Locked, "the same process is refused, too: {refused}");
    database.close().unwrap();
    Database::open(folder.path(), options()).unwrap();
}

#[test]
#[ignore = "runs as the child of the other test"]
fn opener_that_is_refused() {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE) else { return };
    let error = Database::open(folder, options()).err().expect("the parent has it open");
    assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
}

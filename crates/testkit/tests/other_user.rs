//! Processes of several users on one database: who may read it, and that no reader keeps the writer from writing.
//!
//! Only a superuser can start processes of other users; without that, these tests say that they were left out.

use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use drillcore::directory::{Directory, LocalDirectory};
use drillcore::*;
use drillcore_testkit::deadline::within;
use drillcore_testkit::numbered_batches::{append, create_tables, last_batches};

/// Names the database folder to a child process.
const FOLDER_VARIABLE: &str = "DRILLCORE_USER_FOLDER";
const LIMIT: Duration = Duration::from_secs(60);
const CACHE_BYTES: u64 = 1 << 20;
/// Users without rights, and the group that both are in.
const OWNER: u32 = 65_534;
const ORPHAN: u32 = 65_533;
const GROUP: u32 = 65_532;
const OTHER_GROUP: u32 = 65_531;

/// A folder for a database of `OWNER`, and a copy of this program that all users may run.
struct Setting {
    _base: tempfile::TempDir,
    program: PathBuf,
    database: PathBuf,
}

impl Setting {
    /// `None` where this process may not start others as other users.
    fn new(mode: u32) -> Option<Setting> {
        let base = tempfile::tempdir().unwrap();
        if fs::metadata(base.path()).unwrap().uid() != 0 {
            println!("left out: only a superuser can start processes of other users");
            return None;
        }
        fs::set_permissions(base.path(), Permissions::from_mode(0o755)).unwrap();
        let (program, database) = (base.path().join("program"), base.path().join("db"));
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(&database).unwrap();
        chown(&database, Some(OWNER), Some(GROUP)).unwrap();
        fs::set_permissions(&database, Permissions::from_mode(mode)).unwrap();
        Some(Setting { _base: base, program, database })
    }

    fn start(&self, test: &str, (user, group): (u32, u32)) -> Process {
        let mut command = Command::new(&self.program);
        command
            .args(["--ignored", "--exact", test, "--nocapture"])
            .env(FOLDER_VARIABLE, &self.database)
            .current_dir("/")
            .uid(user)
            .gid(group)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = loop {
            match command.spawn() {
                // A process that another test starts just now holds what the program was copied through.
                Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                    thread::sleep(Duration::from_millis(5));
                }
                child => break child.unwrap(),
            }
        };
        let stdin = child.stdin.take().expect("it is piped");
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        Process { child, stdin, stdout: Some(stdout) }
    }
}

/// A child process that does one thing for each line it reads, and answers with one.
struct Process {
    child: Child,
    stdin: ChildStdin,
    stdout: Option<BufReader<ChildStdout>>,
}

impl Process {
    /// The answer to a command.
    fn asked(&mut self, command: &str) -> String {
        writeln!(self.stdin, "{command}").unwrap();
        let mut stdout = self.stdout.take().expect("it is put back below");
        let (stdout, answer) = within(LIMIT, command, move || {
            let mut line = String::new();
            // The test runner prints lines of its own.
            while !line.contains("answer: ") {
                line.clear();
                assert!(stdout.read_line(&mut line).unwrap() > 0, "the child has ended");
            }
            (stdout, line)
        });
        self.stdout = Some(stdout);
        answer.split_once("answer: ").expect("looked for above").1.trim_end().to_string()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Does what each line of standard input says, until it ends.
fn answer(mut answer: impl FnMut(&str) -> String) {
    for line in std::io::stdin().lines() {
        println!("answer: {}", answer(&line.unwrap()));
    }
}

/// Commands are numbers: the batch to append. What it does to all batches so far makes files to be removed.
#[test]
#[ignore = "runs as the child of the other tests"]
fn writer_child() {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE) else { return };
    let database = Database::open(folder, Options::default()).unwrap();
    create_tables(&database).unwrap();
    answer(|number| {
        let write = || -> Result<WriterStats> {
            append(&database, 1, number.parse().unwrap())?;
            database.compact()?;
            let stats = || database.stats().map(|stats| stats.writer.expect("of a writer"));
            // A merge of a worker that has just ended may hold its inputs still.
            for _ in 0..50 {
                if stats()?.held_back_bytes == 0 {
                    break;
                }
                thread::sleep(Duration::from_millis(10));
            }
            stats()
        };
        match write() {
            Ok(stats) => {
                let WriterStats { held_back_bytes, untried_leases, failure, .. } = stats;
                let is_held = held_back_bytes > 0;
                format!("held back: {is_held}, untried: {untried_leases:?}, failure: {failure:?}")
            }
            Err(error) => format!("{:?}: {error}", error.kind()),
        }
    });
}

/// Commands are "open", which opens and leaves it open, and "close".
#[test]
#[ignore = "runs as the child of the other tests"]
fn reader_child() {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE) else { return };
    let mut reader = None;
    answer(|command| {
        if command == "close" {
            reader = None;
            return "closed".into();
        }
        match Database::open_read_only(
            &folder,
            ReadOptions { cache_bytes: CACHE_BYTES, ..ReadOptions::default() },
        ) {
            Ok(opened) => {
                let batches = last_batches(&opened.snapshot().unwrap());
                reader = Some(opened);
                format!("{batches:?}")
            }
            Err(error) => format!("{:?}: {error}", error.kind()),
        }
    });
}

const NOTHING_HELD: &str = "held back: false, untried: [], failure: None";
const HELD: &str = "held back: true, untried: [], failure: None";

/// As `sudo drillcore count` does.
#[test]
fn a_reader_of_the_superuser_does_not_keep_the_owner_from_writing() {
    let Some(setting) = Setting::new(0o700) else { return };
    let mut writer = setting.start("writer_child", (OWNER, GROUP));
    assert_eq!(writer.asked("1"), NOTHING_HELD);
    assert_eq!(writer.asked("2"), NOTHING_HELD);
    let reader = Database::open_read_only(
        &setting.database,
        ReadOptions { cache_bytes: CACHE_BYTES, ..ReadOptions::default() },
    )
    .unwrap();
    assert_eq!(writer.asked("3"), HELD);
    assert_eq!(last_batches(&reader.snapshot().unwrap())[&1], 2);
    // A reader that died leaves its lease behind.
    std::mem::forget(reader);
    assert_eq!(writer.asked("4"), HELD);
    let leases = || {
        let names = fs::read_dir(&setting.database).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("lease-")).collect::<Vec<_>>()
    };
    assert_eq!(leases().len(), 2, "on segments, and on the moment");
    for name in leases() {
        let lease = fs::metadata(setting.database.join(name)).unwrap();
        assert_eq!((lease.uid(), lease.gid()), (OWNER, GROUP), "it is the owner's to try");
    }
}

/// Where the superuser cannot give files away, its lease cannot be tried: it counts as held, and is reported.
#[test]
fn a_lease_that_the_writer_may_not_open_counts_as_held_and_is_reported() {
    let Some(setting) = Setting::new(0o700) else { return };
    let mut writer = setting.start("writer_child", (OWNER, GROUP));
    assert_eq!(writer.asked("1"), NOTHING_HELD);
    let lease = setting.database.join("lease-00000001-000000000001-00000000000000aa");
    fs::write(&lease, b"").unwrap();
    fs::set_permissions(&lease, Permissions::from_mode(0o600)).unwrap();
    for batch in ["2", "3", "4"] {
        let said = writer.asked(batch);
        assert!(said.starts_with("held back: true, untried: [\"cannot check lease-"), "{said}");
        assert!(said.contains("Permission denied") && said.ends_with("failure: None"), "{said}");
    }
    drop(writer);
    // Opening meets it, too.
    let mut writer = setting.start("writer_child", (OWNER, GROUP));
    assert!(writer.asked("6").ends_with("failure: None"));
    fs::remove_file(&lease).unwrap();
    assert_eq!(writer.asked("7"), NOTHING_HELD);
}

/// The rule for those who are to read: the folder's permissions are those of its files, and a reader needs to
/// make its lease. With the sticky bit it can remove nothing that is not its own.
#[test]
fn the_folder_says_who_reads_and_a_group_may_beside_its_owner() {
    let Some(setting) = Setting::new(0o1770) else { return };
    let mut writer = setting.start("writer_child", (OWNER, GROUP));
    assert_eq!(writer.asked("1"), NOTHING_HELD);
    let mut reader = setting.start("reader_child", (ORPHAN, GROUP));
    assert_eq!(reader.asked("open"), "{1: 1}");
    assert_eq!(writer.asked("2"), HELD);
    assert_eq!(writer.asked("3"), HELD);
    assert_eq!(reader.asked("close"), "closed");
    assert_eq!(writer.asked("5"), NOTHING_HELD);
    for entry in fs::read_dir(&setting.database).unwrap() {
        let entry = entry.unwrap();
        let (name, mode) = (entry.file_name(), entry.metadata().unwrap().mode() & 0o777);
        let expected = 0o640;
        assert_eq!(mode, expected, "{name:?} has mode {mode:o}");
    }
    let mut outsider = setting.start("reader_child", (ORPHAN, OTHER_GROUP));
    let said = outsider.asked("open");
    assert!(said.starts_with("Io: ") && said.contains("Permission denied"), "{said}");
}

#[test]
fn a_reader_that_may_not_leave_a_lease_learns_what_it_needs() {
    let Some(setting) = Setting::new(0o750) else { return };
    let mut writer = setting.start("writer_child", (OWNER, GROUP));
    assert_eq!(writer.asked("1"), NOTHING_HELD);
    let mut reader = setting.start("reader_child", (ORPHAN, GROUP));
    let said = reader.asked("open");
    assert!(said.starts_with("Io: ") && said.contains("lease"), "{said}");
    assert!(said.contains("write permission"), "{said}");
}

/// Of one user, whatever its rights: modes are looked at, not tried.
#[test]
fn files_take_the_permissions_of_their_folder() {
    for (folder_mode, file_mode) in
        [(0o700, 0o600), (0o750, 0o640), (0o755, 0o644), (0o770, 0o660), (0o1770, 0o640)]
    {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(folder_mode)).unwrap();
        let directory = LocalDirectory::open(folder.path()).unwrap();
        directory.create("a").unwrap();
        let mode = |name: &str| mode(&folder.path().join(name));
        assert_eq!(mode("a"), file_mode, "in a folder of mode {folder_mode:o}");
        let lock = directory.lock("LOCK").unwrap();
        assert!(lock.is_some());
        let group_may_write = folder_mode & 0o020 != 0;
        assert_eq!(mode("LOCK") & 0o044 != 0, group_may_write, "folder mode {folder_mode:o}");
    }
}

#[test]
fn a_database_is_its_owners_unless_its_folder_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.drill");
    Database::open(&path, Options::default()).unwrap().close().unwrap();
    assert_eq!(mode(&path), 0o700);
    for entry in fs::read_dir(&path).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(mode(&entry.path()), 0o600, "{:?}", entry.file_name());
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

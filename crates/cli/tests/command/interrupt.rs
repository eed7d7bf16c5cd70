//! Ctrl-C ends each verb with 130, wherever it waits for a disk that is stuck, and nothing is lost by it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

/// How long the disk is stuck, in milliseconds: far beyond the limit.
const STUCK_MS: &str = "120000";
/// Far more than it takes to end.
const LIMIT: Duration = Duration::from_secs(20);

/// What waits for a disk: the environment variable that says for how long.
const SYNCS: &str = "SLOW_DISK_SYNC_MS";
const READS: &str = "SLOW_DISK_READ_MS";

const WRITING: [&[&str]; 8] = [
    &["ingest", "db", "t", "more.csv", "--quiet"],
    &["delete", "db", "u", "3"],
    &["add-column", "db", "t", "added", "float64"],
    &["index-sets", "db", "t", "--all", "--quiet"],
    &["unindex-sets", "db", "u", "--all"],
    &["snapshot", "db", "new"],
    &["drop-snapshot", "db", "old"],
    &["compact", "db"],
];

const READING: [&[&str]; 12] = [
    &["export", "db", "t", "x.parquet", "--force", "--quiet"],
    &["get", "db", "t", "3"],
    &["scan", "db", "t"],
    &["count", "db", "t", "--where", "b > 1"],
    &["sample", "db", "t", "5"],
    &["estimate", "db", "t", "avg(b)"],
    &["sets", "db", "t"],
    &["sql", "db", "select count(*) from t"],
    &["tables", "db"],
    &["snapshots", "db"],
    &["stats", "db"],
    &["verify", "db"],
];

/// A folder with a database that has something to do for each verb, and the library that makes its disk slow.
struct Setting {
    folder: tempfile::TempDir,
    library: PathBuf,
}

impl Setting {
    fn new() -> Setting {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("slow_disk.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slow_disk.c");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(&library)
            .arg(&source)
            .arg("-ldl")
            .status();
        assert!(compiled.unwrap().success(), "cc compiles {}", source.display());
        let rows = |from: i32, to: i32| {
            let rows = (from..to).map(|row| format!("{row},{},s{}\n", row % 100, row % 3));
            format!("a,b,c\n{}", rows.collect::<String>())
        };
        std::fs::write(folder.path().join("rows.csv"), rows(0, 2000)).unwrap();
        std::fs::write(folder.path().join("more.csv"), rows(2000, 2100)).unwrap();
        let setting = Setting { folder, library };
        for arguments in [
            &["ingest", "db", "t", "rows.csv", "--key=a", "--set=c", "--no-set-index", "--quiet"][..],
            &["ingest", "db", "u", "rows.csv", "--key=a", "--set=c", "--merge=upsert", "--quiet"],
            &["snapshot", "db", "old"],
            &["compact", "db"],
            &["ingest", "db", "t", "rows.csv", "--quiet"],
        ] {
            setting.works(arguments);
        }
        setting
    }

    fn copy(&self) -> Setting {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (self.folder.path(), folder.path());
        for name in ["rows.csv", "more.csv"] {
            std::fs::copy(from.join(name), to.join(name)).unwrap();
        }
        std::fs::create_dir(to.join("db")).unwrap();
        for entry in std::fs::read_dir(from.join("db")).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), to.join("db").join(entry.file_name())).unwrap();
        }
        Setting { folder, library: self.library.clone() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drillcore"));
        command.current_dir(self.folder.path()).args(arguments);
        command
    }

    fn works(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Interrupts a verb once it is stuck in what waits for a disk, after it had waited `skip` times; says no if
    /// it waits less often.
    fn interrupts(&self, arguments: &[&str], waiting: &str, skip: usize) -> bool {
        let case = format!("{arguments:?} stuck in {waiting}, {skip} before");
        let trigger = self.folder.path().join("trigger");
        let met = self.folder.path().join("trigger.met");
        let _ = std::fs::remove_file(&met);
        std::fs::write(&trigger, b"").unwrap();
        let mut child = self
            .command(arguments)
            .env("LD_PRELOAD", &self.library)
            .env("SLOW_DISK_TRIGGER", &trigger)
            .env("SLOW_DISK_FOLDER", self.folder.path().canonicalize().unwrap().join("db"))
            .env("SLOW_DISK_SKIP", skip.to_string())
            .env(waiting, STUCK_MS)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait(&mut child, &case, |child| met.exists() || child.try_wait().unwrap().is_some());
        if !met.exists() {
            assert!(child.wait().unwrap().success(), "{case}");
            return false;
        }
        let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(kill.unwrap().success());
        wait(&mut child, &case, |child| child.try_wait().unwrap().is_some());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(130), "{case}: {said}");
        assert!(said.ends_with("drillcore: interrupted\n"), "{case}: {said}");
        true
    }
}

fn wait(child: &mut Child, case: &str, is_over: impl Fn(&mut Child) -> bool) {
    let started = Instant::now();
    while !is_over(child) {
        if started.elapsed() > LIMIT {
            child.kill().unwrap();
            panic!("{case}: it goes on");
        }
        sleep(Duration::from_millis(5));
    }
}

/// Interrupts a verb that writes in each of its waits for the disk, and returns how many it has.
fn interrupt_each_wait(setting: &Setting, arguments: &[&str]) -> usize {
    for waits in 0.. {
        // In a copy each, so that the verb finds what it is to do.
        let copied = setting.copy();
        if !copied.interrupts(arguments, SYNCS, waits) {
            return waits;
        }
        assert!(copied.works(&["verify", "db"]).starts_with("checked "));
        let count: u64 = copied.works(&["count", "db", "t"]).trim().parse().unwrap();
        assert!((4000..=4100).contains(&count), "{arguments:?}: {count} rows");
        copied.works(&["ingest", "db", "t", "rows.csv", "--quiet"]);
    }
    unreachable!("a verb ends")
}

#[test]
fn ctrl_c_ends_every_verb_that_writes_wherever_the_disk_is_stuck() {
    let setting = Setting::new();
    // Beside each other: what they do is wait.
    let waits = thread::scope(|scope| {
        let verbs =
            WRITING.map(|arguments| scope.spawn(|| interrupt_each_wait(&setting, arguments)));
        verbs.into_iter().map(|verb| verb.join().unwrap()).sum::<usize>()
    });
    assert!(waits >= 2 * WRITING.len(), "each opens, at least: {waits}");
}

#[test]
fn ctrl_c_ends_every_verb_that_reads_wherever_the_disk_is_stuck() {
    let setting = Setting::new();
    // Beside each other: what they do is wait.
    thread::scope(|scope| {
        for arguments in READING {
            let copied = setting.copy();
            scope.spawn(move || {
                let mut waits = 0;
                while copied.interrupts(arguments, READS, waits) {
                    // Opening takes many reads; then the verb's own come.
                    waits += 1 + waits / 2;
                }
                assert!(waits > 0, "{arguments:?} reads nothing");
            });
        }
    });
}

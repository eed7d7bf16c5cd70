//! The command as scripts and people use it, a theme each. One program, as linking one takes longer than running it.

mod estimate;
mod export;
mod files;
mod ingest;
#[cfg(target_os = "linux")]
mod interrupt;
#[cfg(target_os = "linux")]
mod memory;
mod resume;
mod shell;
mod ttl;
mod verbs;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn drillcore(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drillcore"));
    command.current_dir(folder).args(arguments).output().unwrap()
}

/// What a call that must succeed prints.
fn prints(folder: &Path, arguments: &[&str]) -> String {
    let output = drillcore(folder, arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// The message of a call that is wrong.
fn refused(folder: &Path, arguments: &[&str]) -> String {
    let output = drillcore(folder, arguments);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
    message
}

/// The command, begun with Ctrl-C ignored, as it is behind `nohup`: an interrupt that comes before it has set its
/// handler is lost, and does not end it otherwise than we want to see. The shell that begins it says when it ignores
/// Ctrl-C; what the command itself prints is behind that line.
fn begin_deaf(folder: &Path, arguments: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let mut shell = Command::new("sh");
    shell.current_dir(folder).args(["-c", "trap '' INT; echo deaf; exec \"$0\" \"$@\""]);
    shell.arg(env!("CARGO_BIN_EXE_drillcore")).args(arguments);
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = shell.spawn().unwrap();
    let mut printed = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    printed.read_line(&mut first).unwrap();
    assert_eq!(first, "deaf\n");
    (child, printed)
}

/// What a child process ends with that is interrupted until it does.
fn interrupted(mut child: Child) -> Output {
    let asked = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if asked.elapsed() > Duration::from_secs(20) {
            child.kill().unwrap();
            panic!("it goes on: {:?}", child.wait_with_output());
        }
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().is_ok());
        std::thread::sleep(Duration::from_millis(50));
    }
    child.wait_with_output().unwrap()
}

/// The exit code and the message of a call that must fail.
fn fails(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let output = drillcore(folder, arguments);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{arguments:?} succeeded");
    (output.status.code().unwrap(), message)
}

const CSV: &str = "hour,city,delay\n2024-01-01T00:00:00,Oslo,5\n2024-01-01T00:00:00,Rome,\n\
                   2024-01-01T01:00:00,Oslo,7\n2024-01-01T02:00:00,,9\n";

/// A folder with `db`, whose table `t` holds the rows of `CSV`.
fn with_table() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.csv"), CSV).unwrap();
    let key = ["--key", "hour,city", "--set", "city", "--quiet"];
    let printed = prints(folder.path(), &[&["ingest", "db", "t", "a.csv"], &key[..]].concat());
    assert_eq!(printed, "4 rows appended to t, 0 left out\n");
    folder
}

//! The command as scripts and people use it, a theme each. One program, as linking one takes longer than running it.

mod estimate;
mod export;
mod files;
mod resume;
mod shell;
mod ttl;
mod verbs;

use std::path::Path;
use std::process::{Command, Output};

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

//! The benches, which are a program of their own.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Command;

use crate::process::fault::Fault;

const PROGRAM: &str = "drillcore-bench";

/// Runs the program of the benches to its end and returns its exit code.
pub fn run_beside(arguments: &[OsString]) -> Result<u8, Fault> {
    let ended = match Command::new(beside_this()).args(arguments).status() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Command::new(PROGRAM).args(arguments).status()
        }
        ended => ended,
    };
    match ended {
        // Ended by a signal, it has no code.
        Ok(status) => {
            status.code().map_or_else(|| Err(Fault::interrupted()), |code| Ok(code as u8))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Fault::unusable(format!(
            "{PROGRAM} was not found next to this program or on the PATH; in a checkout, run `make bench`"
        ))),
        Err(error) => Err(Fault::unusable(format!("cannot run {PROGRAM}: {error}"))),
    }
}

fn beside_this() -> PathBuf {
    let this = env::current_exe().unwrap_or_default();
    this.with_file_name(format!("{PROGRAM}{}", env::consts::EXE_SUFFIX))
}

//! `drillcore-bench`: the benches without the rest of the command, so that an optimised build is quick.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;
use drillcore_bench::{Arguments, Error};

/// Measures Drillcore beside a peer, in one run, over the same rows.
#[derive(Debug, Parser)]
#[command(name = "drillcore-bench", version)]
struct Command {
    #[command(flatten)]
    arguments: Arguments,
}

fn main() -> ExitCode {
    let command = Command::parse();
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    // Without a handler Ctrl-C ends the process at once and leaves its folder behind.
    let _ = ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed));
    match drillcore_bench::run(&command.arguments, &stop, &mut io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("drillcore-bench: {error}");
            ExitCode::from(exit_code(&error))
        }
    }
}

/// Returns the exit code that the command `drillcore` gives for such an error.
fn exit_code(error: &Error) -> u8 {
    match error {
        Error::Disagreement { .. } => 1,
        Error::Interrupted => 130,
        _ => 3,
    }
}

//! The `drillcore` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(drillcore_cli::main(std::env::args_os()))
}

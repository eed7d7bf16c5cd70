//! Benches: Drillcore beside a peer, in one run, over the same rows, with answers that must agree.
//!
//! `docs/benchmarks.md` says what is compared and how it is measured. Modules, from the ground up:

#![forbid(unsafe_code)]

mod error;
mod arguments;
mod figures;
mod rows;
mod trials;
mod tables;
mod peers;
mod benches;

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;

pub use arguments::{Arguments, Bench};
pub use error::{Error, Result};

use crate::benches::{
    beside, cold, columns, commits, draws, durability, ingest, load, ranges, readers, reads,
    sampling, sets, upserts, weights, writer,
};
use crate::figures::machine::machine;
use crate::figures::report::Circumstances;
use crate::trials::setup::Setup;

/// Runs the benches, and writes their tables to `out` and their figures as JSON lines to where the
/// arguments say. Once `stop` is set, it ends before the next measurement.
///
/// # Errors
/// `Disagreement` if two engines give different answers, and what the engines and the files report.
pub fn run(arguments: &Arguments, stop: &AtomicBool, out: &mut dyn Write) -> Result<()> {
    match run_all(arguments, stop, out) {
        // The reader of the pipe has had enough, as `head` does.
        Err(Error::Print(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

fn run_all(arguments: &Arguments, stop: &AtomicBool, out: &mut dyn Write) -> Result<()> {
    let circumstances = Circumstances {
        machine: machine(),
        rows: arguments.rows,
        repetitions: arguments.repetitions,
        seed: arguments.seed,
    };
    let mut print = |text: &str| {
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Error::Print)
    };
    let command: Vec<String> = std::env::args().collect();
    let Circumstances { machine, repetitions, .. } = &circumstances;
    print(&format!("{machine}\n{}\n", command.join(" ")))?;
    print(&format!("medians of {repetitions} rounds, after one round to warm up\n"))?;
    let setup = Setup::new(arguments, stop)?;
    let benches = if arguments.benches.is_empty() { &Bench::ALL[..] } else { &arguments.benches };
    let mut json = String::new();
    for bench in benches {
        let report = match bench {
            Bench::Ingest => ingest::ingest(&setup)?,
            Bench::Writer => writer::writer(&setup)?,
            Bench::Load => load::load(&setup)?,
            Bench::Upserts => upserts::upserts(&setup)?,
            Bench::Durability => durability::durability(&setup)?,
            Bench::Commits => commits::commits(&setup)?,
            Bench::Reads => reads::reads(&setup)?,
            Bench::Readers => readers::readers(&setup)?,
            Bench::Sets => sets::sets(&setup)?,
            Bench::Columns => columns::columns(&setup)?,
            Bench::Sampling => sampling::sampling(&setup)?,
            Bench::Ranges => ranges::ranges(&setup)?,
            Bench::Weights => weights::weights(&setup)?,
            Bench::Beside => beside::beside(&setup)?,
            Bench::Draws => draws::draws(&setup)?,
            Bench::Cold => cold::cold(&setup)?,
        };
        print(&format!("\n{}", report.table()))?;
        json += &report.json_lines(&circumstances);
    }
    if arguments.json == Path::new("-") {
        return print(&format!("\n{json}"));
    }
    fs::write(&arguments.json, json).map_err(Error::io("write", &arguments.json))
}

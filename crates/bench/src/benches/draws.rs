//! Bench `draws`: random records of a table that is larger than memory, from a database that was just opened.

use std::time::Instant;

use drillcore::SampleRequest;
use drillcore_sample::rng::Rng;

use crate::error::Result;
use crate::figures::metric::{Metric, micros};
use crate::figures::report::{Report, grouped};
use crate::peers::file_pages::DevicePages;
use crate::tables::engine::{DRILLCORE, pages_read};
use crate::tables::record_table;
use crate::tables::records::{RECORD_BYTES, Records, check_rows, resident_bytes};
use crate::trials::setup::Setup;
use crate::trials::trial::{Contender, Outcome, Role};

/// Records of one call.
const DRAWS: [u64; 2] = [100, 1_000];
/// The engine's cache, in which the index has its share.
const CACHE_BYTES: u64 = 256 << 20;

const TIME: Metric = Metric::time("time");
const OPENED: Metric = Metric::time("opened in");
const READS: Metric = Metric::count("pages read", "pages");
const MEMORY: Metric = Metric::count("memory held", "MiB");

pub fn draws(setup: &Setup) -> Result<Report> {
    let mut trial = setup.trial("draws");
    let records = Records::of(setup.arguments);
    trial.announce("loading the records")?;
    let folder = setup.fresh_folder()?;
    let ours = folder.path().join(DRILLCORE);
    record_table::load(&ours, records)?;
    let device = DevicePages::open(&ours)?;
    for draws in DRAWS {
        let of_engine = |round| {
            let started = Instant::now();
            let db = record_table::open_cold(&ours, CACHE_BYTES)?;
            let table = record_table::open(&db)?;
            let opened = started.elapsed().as_secs_f64();
            let before = pages_read(&db)?;
            let request = SampleRequest { n: draws, seed: Some(round), ..SampleRequest::default() };
            let started = Instant::now();
            let drawn = table.sample(&request)?;
            let seconds = started.elapsed().as_secs_f64();
            check_rows(DRILLCORE, drawn.num_rows() as u64, Records { rows: draws, ..records })?;
            let reads = (pages_read(&db)? - before) as f64;
            let values = vec![
                (TIME, micros(seconds)),
                (OPENED, micros(opened)),
                (READS, reads),
                (MEMORY, resident_bytes() as f64 / f64::from(1 << 20)),
            ];
            Ok(Outcome { values, answer: None })
        };
        let of_device = |round| {
            let mut rng = Rng::keyed(setup.arguments.seed, round);
            let seconds = device.read_at_once(draws, &mut rng)?;
            let values = vec![(TIME, micros(seconds)), (READS, draws as f64)];
            Ok(Outcome { values, answer: None })
        };
        let mut contenders = [
            Contender::new(DRILLCORE, 1, Role::Subject, of_engine),
            Contender::new("pages, 64 at once", 1, Role::Floor, of_device),
        ];
        trial.compare(&format!("{} random records", grouped(draws)), None, &mut contenders)?;
    }
    Ok(trial.finish(format!("{} records of {RECORD_BYTES} bytes", grouped(records.rows))))
}

//! Bench `sampling`: different rows, uniformly at random, of a table, a key range and a set.

use std::collections::HashSet;
use std::hint::black_box;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array};
use drillcore::{Between, Closed, SampleRequest, Selection, TableSnapshot};
use drillcore_sample::choose::WithoutReplacement;
use drillcore_sample::rng::Rng;
use rusqlite::Statement;

use crate::benches::loaded::Loaded;
use crate::error::Result;
use crate::figures::metric::{Metric, micros, quantile};
use crate::figures::report::{Report, grouped};
use crate::peers::file_pages::PageFile;
use crate::peers::sqlite::{self, SQLITE, Sqlite};
use crate::rows::event::{Answer, Event, events};
use crate::rows::workload::TENTH;
use crate::tables::engine::{self, DRILLCORE, pages_read};
use crate::trials::setup::Setup;
use crate::trials::trial::{Contender, Outcome, Role, time_calls};

/// Rows of a sample.
const COUNTS: [u64; 3] = [1, 100, 10_000];
/// The same rows, none of them written out yet.
const IN_MEMORY: &str = "drillcore in memory";
/// Random keys, looked up one by one: right only where keys have no gaps.
const BY_ROWID: &str = "sqlite by rowid";

const TIME: Metric = Metric::time("time");
/// What a sample reads from files when nothing is in the engine's cache.
const PAGES: Metric = Metric::count("pages, uncached", "pages");
/// Keys compared and rows handed on.
const EXAMINED: Metric = Metric::count("rows examined", "rows");

/// What is drawn from, with the number of rows of the table.
#[derive(Clone, Copy)]
enum SampleSource {
    Table(u64),
    /// A tenth of the keys, in the middle.
    KeyRange(u64),
    /// A tenth of the rows, anywhere.
    Set(u64),
}

/// The rows of one sample.
#[derive(Default)]
struct Drawn {
    ids: Vec<i64>,
    /// Proof that all values were read.
    values: Answer,
}

pub fn sampling(setup: &Setup) -> Result<Report> {
    let mut trial = setup.trial("sampling");
    let loaded = Loaded::load(setup, &trial)?;
    let (db, on_disk) = loaded.open_drillcore()?;
    // The snapshot stays readable, and the files can be opened again beside it.
    db.close()?;
    let folder = setup.fresh_folder()?;
    let db_in_memory = engine::open(folder.path())?;
    let table = engine::create_events(&db_in_memory, true)?;
    engine::append_all(&table, &loaded.workload.batches, setup.arguments.threads)?;
    let in_memory = table.snapshot()?;
    let sqlite = loaded.open_sqlite()?;
    let (seed, rows) = (setup.arguments.seed, loaded.workload.rows);
    let floor = PageFile::create(&setup.path("floor"), loaded.workload.bytes, seed)?;
    for source in [SampleSource::Table(rows), SampleSource::KeyRange(rows), SampleSource::Set(rows)]
    {
        let mut by_random = sqlite.prepare(&source.order_by_random())?;
        for n in COUNTS.into_iter().filter(|&n| n <= source.rows()) {
            let rng = || Rng::keyed(seed, n);
            let mut contenders = vec![
                Contender::new(DRILLCORE, 1, Role::Subject, |_| {
                    let mut rng = rng();
                    let outcome = timed(|| drawn(&on_disk, source, n, rng.next_u64()))?;
                    let (uncached, table) = loaded.open_drillcore()?;
                    drawn(&table, source, n, rng.next_u64())?;
                    Ok(outcome.with(PAGES, pages_read(&uncached)? as f64))
                }),
                Contender::new(IN_MEMORY, 1, Role::Subject, |_| {
                    let mut rng = rng();
                    let outcome = timed(|| drawn(&in_memory, source, n, rng.next_u64()))?;
                    let before = db_in_memory.stats()?.rows_examined;
                    drawn(&in_memory, source, n, rng.next_u64())?;
                    let examined = db_in_memory.stats()?.rows_examined - before;
                    Ok(outcome.with(EXAMINED, examined as f64))
                }),
                Contender::new(SQLITE, 1, Role::Peer, |_| {
                    timed(|| ordered_by_random(&mut by_random, source, n))
                }),
                Contender::new("pread 4 KiB", 1, Role::Floor, |_| {
                    let mut rng = rng();
                    let read = || (0..n).try_for_each(|_| floor.read_one(&mut rng));
                    let (mut seconds, ()) = time_calls(read)?;
                    let time = micros(quantile(&mut seconds, 0.5));
                    Ok(Outcome { values: vec![(TIME, time)], answer: None })
                }),
            ];
            if let SampleSource::Table(_) = source {
                let (sqlite, mut rng) = (&sqlite, rng());
                contenders.push(Contender::new(BY_ROWID, 1, Role::Peer, move |_| {
                    timed(|| looked_up_by_rowid(sqlite, source, n, &mut rng))
                }));
            }
            let case = format!("{} of the {}", grouped(n), source.name());
            trial.compare(&case, Some(Answer::any(n)), &mut contenders)?;
        }
    }
    Ok(trial.finish(loaded.description))
}

impl SampleSource {
    fn name(self) -> &'static str {
        match self {
            SampleSource::Table(_) => "table",
            SampleSource::KeyRange(_) => "key range",
            SampleSource::Set(_) => "set",
        }
    }

    fn rows(self) -> u64 {
        match self {
            SampleSource::Table(rows) => rows,
            SampleSource::KeyRange(rows) | SampleSource::Set(rows) => rows / 10,
        }
    }

    /// The first key and the last.
    fn ids(self) -> (i64, i64) {
        match self {
            SampleSource::Table(rows) | SampleSource::Set(rows) => (1, rows as i64),
            SampleSource::KeyRange(rows) => {
                let first = rows as i64 / 2;
                (first, first + self.rows() as i64 - 1)
            }
        }
    }

    fn contains(self, event: &Event) -> bool {
        let (first, last) = self.ids();
        let is_of_set = !matches!(self, SampleSource::Set(_)) || event.city == TENTH;
        is_of_set && (first..=last).contains(&event.id)
    }

    fn selection(self) -> Selection {
        let (first, last) = self.ids();
        let end =
            |id: i64| -> Option<Vec<ArrayRef>> { Some(vec![Arc::new(Int64Array::from(vec![id]))]) };
        let between = Between { low: end(first), high: end(last), closed: Closed::Both };
        match self {
            SampleSource::Table(_) => Selection::default(),
            SampleSource::KeyRange(_) => {
                Selection { between: Some(between), ..Selection::default() }
            }
            SampleSource::Set(_) => engine::of_set(TENTH),
        }
    }

    /// What SQLite's users write, for `?1` rows.
    fn order_by_random(self) -> String {
        let (first, last) = self.ids();
        let which = match self {
            SampleSource::Table(_) => String::new(),
            SampleSource::KeyRange(_) => format!("where id between {first} and {last}"),
            SampleSource::Set(_) => format!("where city = '{}'", TENTH),
        };
        format!("select * from events {which} order by random() limit ?1")
    }
}

impl Drawn {
    fn add(&mut self, source: SampleSource, event: &Event) {
        self.values.add(event);
        // A row from elsewhere is then missing in the count.
        if source.contains(event) {
            self.ids.push(event.id);
        }
    }

    /// The number of different rows of the source.
    fn answer(&self) -> Answer {
        black_box(self.values);
        Answer::any(self.ids.iter().collect::<HashSet<_>>().len() as u64)
    }
}

fn drawn(table: &TableSnapshot, source: SampleSource, n: u64, seed: u64) -> Result<Drawn> {
    let selection = source.selection();
    let threads = Some(1);
    let request =
        SampleRequest { n, selection, seed: Some(seed), threads, ..SampleRequest::default() };
    let rows = table.sample(&request)?;
    let mut drawn = Drawn::default();
    events(&rows).for_each(|event| drawn.add(source, &event));
    Ok(drawn)
}

fn ordered_by_random(statement: &mut Statement, source: SampleSource, n: u64) -> Result<Drawn> {
    let mut drawn = Drawn::default();
    sqlite::each(statement, (n as i64,), |event| drawn.add(source, &event))?;
    Ok(drawn)
}

fn looked_up_by_rowid(
    sqlite: &Sqlite,
    source: SampleSource,
    n: u64,
    rng: &mut Rng,
) -> Result<Drawn> {
    let mut drawn = Drawn::default();
    sqlite.in_transaction(|| {
        let highest: i64 =
            sqlite.prepare("select max(id) from events")?.query_row((), |row| row.get(0))?;
        let mut numbers = Vec::new();
        WithoutReplacement::new(highest as u64).draw_into(rng, n as usize, &mut numbers);
        let mut by_rowid = sqlite.prepare("select * from events where id = ?1")?;
        numbers.iter().try_for_each(|&number| {
            let id = number as i64 + 1;
            sqlite::each(&mut by_rowid, (id,), |event| drawn.add(source, &event))
        })
    })?;
    Ok(drawn)
}

fn timed(mut draw: impl FnMut() -> Result<Drawn>) -> Result<Outcome> {
    let (mut seconds, drawn) = time_calls(&mut draw)?;
    let values = vec![(TIME, micros(quantile(&mut seconds, 0.5)))];
    Ok(Outcome { values, answer: Some(drawn.answer()) })
}

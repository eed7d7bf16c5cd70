//! Bench `readers`: single records by key, asked for by many readers at once, past the cache of the system.
//!
//! The table is larger than the engine's cache, so almost every read asks the device. Then a hundred readers want the same ten
//! records, and nothing is kept; what they share are the reads under way. Last, everything is in the cache.

mod peers;

use std::thread;
use std::time::Instant;

use drillcore::{Database, TableSnapshot};
use drillcore_sample::rng::Rng;

use crate::error::Result;
use crate::figures::metric::{Metric, micros, quantile};
use crate::figures::report::{Report, grouped};
use crate::peers::file_pages::DevicePages;
use crate::peers::read_peer::ReadPeer;
use crate::tables::engine::{DRILLCORE, pages_read};
use crate::tables::record_table::{self, get};
use crate::tables::records::{Key, RECORD_BYTES, Records};
use crate::trials::setup::Setup;
use crate::trials::trial::{Contender, Outcome, Role};

/// Readers at once.
const READERS: [u32; 3] = [1, 8, 100];
/// MiB of cache.
const CACHES: [u64; 2] = [8, 64];
/// Records of a round for all readers together, at most.
const GETS_MAX: u64 = 20_000;
/// Records that the readers of the last case share, and how many these are.
const HOT: usize = 10;
const SHARERS: u32 = 100;
/// Records of a round of that case, at most: some seconds of reading, so that how readers begin and end is a small part of it.
const SHARED_GETS_MAX: u64 = 200_000;
/// Readers at once where everything is in the cache, ...
const CACHED_READERS: [u32; 4] = [1, 2, 8, 100];
/// ... records of a round then, at most, and bytes of cache per byte of records.
const CACHED_GETS_MAX: u64 = 1_000_000;
const CACHE_FACTOR: u64 = 2;
/// Keys that are asked for, at most: from all over the table.
const KEYS_MAX: u64 = 1 << 20;

const RATE: Metric = Metric::rate("reads", "reads/s");
const TIMES: [(Metric, f64); 6] = [
    (Metric::time("median"), 0.5),
    (Metric::time("90th percentile"), 0.9),
    (Metric::time("95th percentile"), 0.95),
    (Metric::time("99th percentile"), 0.99),
    (Metric::time("99.9th percentile"), 0.999),
    (Metric::time("longest"), 1.0),
];
const MEAN: Metric = Metric::time("mean");
const PAGES: Metric = Metric::count("pages per read", "pages");
const KIBS: Metric = Metric::count("KiB per read", "KiB");

pub fn readers(setup: &Setup) -> Result<Report> {
    let mut trial = setup.trial("readers");
    let records = Records::of(setup.arguments);
    trial.announce("loading the records")?;
    let folder = setup.fresh_folder()?;
    let ours = folder.path().join(DRILLCORE);
    record_table::load(&ours, records)?;
    let has_peers = !setup.arguments.without_peers;
    if has_peers {
        peers::load(folder.path(), records)?;
    }
    let past_the_system = |cache_bytes| match has_peers {
        true => peers::past_the_system(folder.path(), cache_bytes),
        false => Ok(Vec::new()),
    };
    let keys = keys(records);
    let gets = (records.rows / 20).clamp(100, GETS_MAX);
    let device = DevicePages::open(&ours)?;
    for cache in CACHES {
        for readers in READERS {
            let work = Work { keys: &keys, readers, gets, seed: setup.arguments.seed };
            let db = record_table::open_cold(&ours, cache << 20)?;
            let table = record_table::open(&db)?;
            let peers = past_the_system(cache << 20)?;
            let mut contenders = vec![
                Contender::new(DRILLCORE, readers, Role::Subject, |round| {
                    measured(&db, work, round, |_| |key| get(&table, key))
                }),
                Contender::new("pread 4 KiB", readers, Role::Floor, |round| {
                    work.run(round, |reader| {
                        let mut rng = Rng::keyed(!round, u64::from(reader));
                        let device = &device;
                        move |_| device.read_one(&mut rng)
                    })
                }),
            ];
            contenders.extend(peers.iter().map(|peer| work.of_peer(peer)));
            trial.compare(&format!("any record, {cache} MiB of cache"), None, &mut contenders)?;
        }
    }
    let hot: Vec<Key> = keys.chunks(keys.len() / HOT).map(|some| some[0]).take(HOT).collect();
    let shared_gets = (records.rows / 5).clamp(100, SHARED_GETS_MAX);
    let work = Work { keys: &hot, readers: SHARERS, gets: shared_gets, seed: setup.arguments.seed };
    let db = record_table::open_cold(&ours, 0)?;
    let table = record_table::open(&db)?;
    // One database for each reader, so no reads are shared.
    let alone: Vec<Database> =
        (0..SHARERS).map(|_| record_table::open_cold(&ours, 0)).collect::<Result<_>>()?;
    let tables: Vec<TableSnapshot> = alone.iter().map(record_table::open).collect::<Result<_>>()?;
    let past_caches = past_the_system(0)?;
    let mut contenders = vec![
        Contender::new(DRILLCORE, SHARERS, Role::Subject, |round| {
            measured(&db, work, round, |_| |key| get(&table, key))
        }),
        Contender::new("drillcore, a database each", SHARERS, Role::Subject, |round| {
            let read = || {
                alone
                    .iter()
                    .map(reads)
                    .try_fold((0, 0), |sum, next| next.map(|n| (sum.0 + n.0, sum.1 + n.1)))
            };
            let before = read()?;
            let outcome = work.run(round, |reader| {
                let table = &tables[reader as usize];
                move |key| get(table, key)
            })?;
            Ok(with_reads(outcome, work, before, read()?))
        }),
    ];
    contenders.extend(past_caches.iter().map(|peer| work.of_peer(peer)));
    trial.compare("ten records, nothing kept", None, &mut contenders)?;
    drop(contenders);
    drop(past_caches);
    let cache_bytes = records.rows * RECORD_BYTES as u64 * CACHE_FACTOR + (64 << 20);
    let db = record_table::open_cold(&ours, cache_bytes)?;
    let table = record_table::open(&db)?;
    let cached = match has_peers {
        true => peers::with_cache(folder.path(), cache_bytes)?,
        false => Vec::new(),
    };
    trial.announce("reading all records into the caches")?;
    for key in &keys {
        get(&table, key)?;
        cached.iter().try_for_each(|peer| peer.get(key))?;
    }
    let gets = (records.rows / 2).clamp(100, CACHED_GETS_MAX);
    for (case, keys) in [("any record, all cached", &keys), ("ten records, all cached", &hot)] {
        for readers in CACHED_READERS {
            let work = Work { keys, readers, gets, seed: setup.arguments.seed };
            let mut contenders = vec![Contender::new(DRILLCORE, readers, Role::Subject, |round| {
                measured(&db, work, round, |_| |key| get(&table, key))
            })];
            contenders.extend(cached.iter().map(|peer| work.of_peer(peer)));
            trial.compare(case, None, &mut contenders)?;
        }
    }
    let (rows, gets) = (grouped(records.rows), grouped(gets));
    Ok(trial.finish(format!("{rows} records of {RECORD_BYTES} bytes, {gets} reads a round")))
}

/// What readers do in a round.
#[derive(Clone, Copy)]
struct Work<'a> {
    keys: &'a [Key],
    readers: u32,
    gets: u64,
    seed: u64,
}

impl<'a> Work<'a> {
    /// Another engine that does the same.
    fn of_peer(self, peer: &'a ReadPeer) -> Contender<'a> {
        Contender::new(peer.name, self.readers, Role::Peer, move |round| {
            self.run(round, |_| |key: &Key| peer.get(key))
        })
    }

    /// Has all readers ask for their part of the keys, each of `get` which it is given by number.
    fn run<G: FnMut(&Key) -> Result<()>>(
        self,
        round: u64,
        get: impl Fn(u32) -> G + Sync,
    ) -> Result<Outcome> {
        let each = self.gets.div_ceil(u64::from(self.readers));
        let work = |reader: u32| -> Result<Vec<f64>> {
            let (mut get, mut seconds) = (get(reader), Vec::with_capacity(each as usize));
            let mut rng = Rng::keyed(self.seed, (round << 32) | u64::from(reader));
            for _ in 0..each {
                let key = &self.keys[rng.below(self.keys.len() as u64) as usize];
                let started = Instant::now();
                get(key)?;
                seconds.push(started.elapsed().as_secs_f64());
            }
            Ok(seconds)
        };
        let started = Instant::now();
        let done: Vec<Result<Vec<f64>>> = thread::scope(|scope| {
            let readers: Vec<_> =
                (0..self.readers).map(|reader| scope.spawn(move || work(reader))).collect();
            let join = |reader: thread::ScopedJoinHandle<'_, _>| reader.join();
            readers.into_iter().map(|reader| join(reader).expect("it does not panic")).collect()
        });
        let elapsed = started.elapsed().as_secs_f64();
        let mut seconds = done.into_iter().collect::<Result<Vec<_>>>()?.concat();
        let mut values = vec![(RATE, seconds.len() as f64 / elapsed)];
        values.push((MEAN, micros(seconds.iter().sum::<f64>() / seconds.len() as f64)));
        values.extend(TIMES.map(|(time, share)| (time, micros(quantile(&mut seconds, share)))));
        Ok(Outcome { values, answer: None })
    }
}

/// A round of ours, with what it read.
fn measured<G: FnMut(&Key) -> Result<()>>(
    db: &Database,
    work: Work<'_>,
    round: u64,
    get: impl Fn(u32) -> G + Sync,
) -> Result<Outcome> {
    let before = reads(db)?;
    let outcome = work.run(round, get)?;
    Ok(with_reads(outcome, work, before, reads(db)?))
}

fn with_reads(outcome: Outcome, work: Work<'_>, before: (u64, u64), after: (u64, u64)) -> Outcome {
    let gets = (work.gets.div_ceil(u64::from(work.readers)) * u64::from(work.readers)) as f64;
    let kibs = (after.1 - before.1) as f64 / 1024.0;
    outcome.with(PAGES, (after.0 - before.0) as f64 / gets).with(KIBS, kibs / gets)
}

/// Pages and bytes read so far.
fn reads(db: &Database) -> Result<(u64, u64)> {
    Ok((pages_read(db)?, db.stats()?.bytes_read))
}

/// Some of the keys, the same number of each batch, shuffled as they are noise.
fn keys(records: Records) -> Vec<Key> {
    let step = records.rows.div_ceil(KEYS_MAX).max(1) as usize;
    let of_batch = |number: u64| records.batch(number).into_iter().step_by(step);
    let key = |record: [u8; RECORD_BYTES]| *record.first_chunk().expect("a record has a key");
    (0..records.batches()).flat_map(of_batch).map(key).collect()
}

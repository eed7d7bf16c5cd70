//! Stored inputs of the fuzz targets, and a bounded number of seeded mutations of each.
//!
//! `UPDATE_CORPORA=1` writes the generated ones anew, `DRILLCORE_LONG=1` tries ten times as many mutations, and
//! `DRILLCORE_FUZZ_SECONDS=600` mutates each target for so long, from a seed of its own. An input that makes the store panic is
//! written to the folder that the failure names: once it is understood it belongs, as small as it gets, in the corpus under a name
//! that begins with `found-`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::path::PathBuf;
use std::sync::Once;
use std::thread;
use std::time::{Duration, Instant};

use drillcore_sample::rng::Rng;
use drillcore_storage::sync::{Mutex, MutexGuard};
use drillcore_testkit::counting_allocator::CountingAllocator;
use drillcore_testkit::fuzzing::corpora::{FOUND, folder, stored};
use drillcore_testkit::fuzzing::mutation::mutate;
use drillcore_testkit::fuzzing::parts::{join, split};
use drillcore_testkit::fuzzing::seeds::seeds;
use drillcore_testkit::fuzzing::{FuzzTarget, TARGETS};
use drillcore_testkit::repetitions::repetitions;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const SEED: u64 = 23;
/// Inputs take kilobytes, so what asks for more than this at once believed a number that it should not have.
const REQUEST_BYTES_MAX: u64 = 64 << 20;
/// For how many seconds each target is mutated, instead of a number of times.
const SECONDS_VARIABLE: &str = "DRILLCORE_FUZZ_SECONDS";

/// What panicked: thread, place and message.
static PANICS: Mutex<Vec<Panic>> = Mutex::new(Vec::new());

#[derive(Clone)]
struct Panic {
    thread: Option<String>,
    place: String,
    message: String,
}

/// Notes every panic of every thread instead of printing it.
fn note_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = take_hook();
        set_hook(Box::new(move |panic| {
            let thread = thread::current().name().map(str::to_string);
            let place = panic.location().map_or("somewhere".into(), ToString::to_string);
            if place.contains("tests/corpora.rs") {
                return print(panic);
            }
            let payload = panic.payload();
            let text = payload.downcast_ref::<&str>().copied();
            let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
            let message = text.unwrap_or("no message").to_string();
            panics().push(Panic { thread, place, message });
        }));
    });
}

fn panics() -> MutexGuard<'static, Vec<Panic>> {
    PANICS.lock()
}

/// Runs an input, and says what went wrong: at which place, and how.
fn fault(target: &FuzzTarget, input: &[u8]) -> Option<(String, String)> {
    note_panics();
    let own = thread::current().name().map(str::to_string);
    let is_here = |panic: &Panic| {
        // Only this target has the store start threads.
        let is_stores = panic.thread.as_ref().is_some_and(|name| name.starts_with("drillcore-"));
        panic.thread == own || is_stores && target.name == "database"
    };
    CountingAllocator::forget_largest_request();
    let ran = catch_unwind(AssertUnwindSafe(|| target.run(input)));
    let largest = CountingAllocator::largest_request();
    let mut panics = panics();
    let panic = panics.iter().find(|panic| is_here(panic)).cloned();
    panics.retain(|panic| !is_here(panic));
    match (ran, panic) {
        (_, Some(panic)) => Some((panic.place, panic.message)),
        (Err(_), None) => Some(("unknown".into(), "a panic without a trace".into())),
        (Ok(_), None) if largest > REQUEST_BYTES_MAX => {
            Some(("allocation".into(), format!("{largest} bytes were asked for at once")))
        }
        (Ok(_), None) => None,
    }
}

/// Collects faults, the first input of each place.
#[derive(Default)]
struct Faults {
    found: BTreeMap<String, (String, PathBuf, u64)>,
}

impl Faults {
    fn look_at(&mut self, target: &FuzzTarget, input: &[u8]) {
        let Some((place, message)) = fault(target, input) else { return };
        if let Some((_, _, count)) = self.found.get_mut(&place) {
            *count += 1;
            return;
        }
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("found").join(target.name);
        fs::create_dir_all(&folder).expect("the folder for temporary files can be written");
        let path = folder.join(format!("{FOUND}{:08x}", crc32c::crc32c(input)));
        fs::write(&path, input).expect("the folder for temporary files can be written");
        self.found.insert(place, (message, path, 1));
    }

    fn report(self, target: &FuzzTarget) {
        let lines: Vec<String> = self
            .found
            .iter()
            .map(|(place, (message, path, count))| {
                format!("{count} times at {place}: {message}\n    {}", path.display())
            })
            .collect();
        assert!(lines.is_empty(), "{} ({SEED}):\n{}", target.name, lines.join("\n"));
    }
}

/// Mutates the stored inputs of a target, each `times` times.
fn mutate_stored(name: &str, times: u64) {
    let target = FuzzTarget::named(name);
    let inputs: Vec<Vec<Vec<u8>>> =
        stored(&target).iter().map(|stored| split(&stored.input)).collect();
    let seconds = std::env::var(SECONDS_VARIABLE).ok().map(|text| {
        let seconds = text.parse().unwrap_or_else(|_| panic!("{SECONDS_VARIABLE}={text}"));
        (Duration::from_secs(seconds), drillcore::fresh_seed())
    });
    let (mut faults, started, mut tried) = (Faults::default(), Instant::now(), 0u64);
    for round in 0.. {
        let goes_on = match seconds {
            Some((seconds, _)) => started.elapsed() < seconds,
            None => round < repetitions(times),
        };
        if !goes_on {
            break;
        }
        for (number, parts) in inputs.iter().enumerate() {
            let mut rng = Rng::keyed(seconds.map_or(SEED, |(_, seed)| seed), tried);
            let mut mutated = parts.clone();
            let other = &inputs[(number + rng.below(inputs.len() as u64) as usize) % inputs.len()];
            mutate(&mut mutated, other, &mut rng);
            faults.look_at(&target, &join(&mutated));
            tried += 1;
        }
    }
    println!("{name}: {tried} mutations");
    faults.report(&target);
}

/// A test a target, so that they run side by side.
macro_rules! mutated {
    ($($test:ident: $target:literal, $times:literal;)*) => {$(
        #[test]
        fn $test() {
            mutate_stored($target, $times);
        }
    )*};
}

mutated! {
    a_crafted_block_is_read_or_refused: "block", 300;
    a_crafted_index_page_is_read_or_refused: "index_page", 1_000;
    a_crafted_index_summary_is_read_or_refused: "index_summary", 1_000;
    a_crafted_statistics_page_is_read_or_refused: "statistics_page", 300;
    a_crafted_postings_page_is_read_or_refused: "postings", 1_000;
    a_crafted_set_directory_is_read_or_refused: "set_directory", 1_000;
    a_crafted_set_summary_is_read_or_refused: "set_summary", 1_000;
    a_crafted_footer_is_read_or_refused: "footer", 1_000;
    a_crafted_envelope_is_read_or_refused: "envelope", 5_000;
    a_crafted_key_is_read_or_refused: "key", 1_000;
    a_crafted_schema_is_read_or_refused: "schema", 300;
    crafted_frames_are_read_or_refused: "frames", 300;
    a_crafted_commit_is_read_or_refused: "commit", 300;
    a_crafted_manifest_is_read_or_refused: "manifest", 300;
    a_crafted_segment_is_read_or_refused: "segment", 60;
    a_crafted_database_is_read_or_refused: "database", 8;
}

#[test]
fn no_stored_input_makes_the_store_panic() {
    for target in TARGETS {
        let (mut faults, inputs) = (Faults::default(), stored(&target));
        assert!(!inputs.is_empty(), "{} has no inputs", target.name);
        inputs.iter().for_each(|stored| faults.look_at(&target, &stored.input));
        faults.report(&target);
    }
}

#[test]
fn every_seed_is_read_to_its_end_and_answers() {
    for seed in seeds() {
        let outcome = FuzzTarget::named(seed.target).run(&seed.input);
        let (target, name) = (seed.target, &seed.name);
        assert!(outcome.answered > 0, "{target}, {name}");
        // Of these, some calls are made with what cannot be answered.
        if !["postings", "frames", "envelope", "key"].contains(&target) {
            assert_eq!(outcome.refused, 0, "{target}, {name}: {:?}", outcome.first_refusal);
        }
    }
}

#[test]
fn the_stored_corpora_are_those_that_the_generator_makes() {
    let update = std::env::var_os("UPDATE_CORPORA").is_some();
    let hint = "run this test with UPDATE_CORPORA=1, and look at what changed";
    for target in TARGETS {
        let folder = folder(&target);
        let made = seeds().into_iter().filter(|seed| seed.target == target.name);
        let made: BTreeMap<String, Vec<u8>> = made.map(|seed| (seed.name, seed.input)).collect();
        if update {
            fs::create_dir_all(&folder).unwrap();
            let stale = stored(&target).into_iter().map(|stored| stored.name);
            let stale = stale.filter(|name| !name.starts_with(FOUND) && !made.contains_key(name));
            stale.for_each(|name| fs::remove_file(folder.join(name)).unwrap());
            made.iter().for_each(|(name, input)| fs::write(folder.join(name), input).unwrap());
        }
        let mut kept = BTreeSet::new();
        for stored in stored(&target).into_iter().filter(|stored| !stored.name.starts_with(FOUND)) {
            let (target, name) = (target.name, &stored.name);
            assert_eq!(made.get(name), Some(&stored.input), "{target}/{name}: {hint}");
            kept.insert(stored.name);
        }
        assert_eq!(kept.len(), made.len(), "{}: {hint}", target.name);
    }
}

//! The engine's samples are uniform and independent, whatever state the table is in, and its intervals
//! hold as often as they say.
//!
//! Every check here rejects a fair sampler in one of a million runs with fresh seeds
//! ([`FALSE_ALARM`](drillcore_testkit::statistics::FALSE_ALARM)); seeds are fixed, so a run that passes
//! passes again. The sizes of the samples stand at each test.

use std::collections::BTreeSet;

use drillcore::{
    Database, ErrorKind, MaintenanceHold, Options, SampleRequest, Selection, Table, TableSnapshot,
};
use drillcore_testkit::biased_samplers as biased;
use drillcore_testkit::event_table::{Events, id_range, ids, sample_ids};
use drillcore_testkit::repetitions::repetitions;
use drillcore_testkit::statistics::{
    Draw, Effort, Population, Verdict, assert_biased, assert_fair, distinct, never_drawn,
    ordered_samples, overlaps, positions, shares,
};

const EVENTS: Events = Events { teams: 4, payload_bytes: 20 };
const SEED: u64 = 0x5eed_1000_0000;
/// Unequal, so that a sampler that takes pieces for equal shows.
const BATCHES: [i64; 6] = [1, 3, 10, 26, 60, 140];
const ROWS: i64 = 240;

struct Opened {
    db: Database,
    table: Table,
    folder: tempfile::TempDir,
    /// Keeps the pieces of a state as they are.
    _hold: Option<MaintenanceHold>,
}

impl Opened {
    fn new(options: Options) -> Opened {
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open(folder.path().join("db"), options).unwrap();
        let table = db.create_table("events", Events::spec()).unwrap();
        Opened { db, table, folder, _hold: None }
    }

    fn append(&self, ids: &[i64]) {
        EVENTS.append(&self.table, ids);
    }

    /// Appends the shuffled rows of batch `number`.
    fn append_batch(&self, number: usize) {
        let start: i64 = BATCHES[..number].iter().sum();
        let ids: Vec<i64> = (start..start + BATCHES[number]).map(shuffled).collect();
        self.append(&ids);
    }
}

/// A permutation of the row numbers, so that every batch has keys from all over.
fn shuffled(number: i64) -> i64 {
    number * 77 % ROWS
}

/// A snapshot of all `ROWS` rows, of which the last committed has id `ROWS`; rows committed later have higher ids.
struct Prepared {
    state: &'static str,
    snapshot: TableSnapshot,
    _opened: Opened,
}

/// The table in each state that maintenance can leave it in.
fn prepared_states() -> Vec<Prepared> {
    let mut states = Vec::new();
    let mut add = |state: &'static str, prepare: fn(Opened) -> Opened| {
        let opened = prepare(Opened::new(Options::default()));
        opened.append(&[ROWS]);
        let snapshot = opened.table.snapshot().unwrap();
        opened.append(&[ROWS + 1]);
        opened.db.flush().unwrap();
        states.push(Prepared { state, snapshot, _opened: opened });
    };
    add("buffer only", |opened| {
        (0..BATCHES.len()).for_each(|number| opened.append_batch(number));
        opened
    });
    add("held maintenance", |opened| {
        let hold = Some(opened.db.hold_maintenance());
        (0..BATCHES.len()).for_each(|number| opened.append_batch(number));
        Opened { _hold: hold, ..opened }
    });
    add("memory and disk", |opened| {
        let hold = Some(opened.db.hold_maintenance());
        for number in 0..BATCHES.len() {
            opened.append_batch(number);
            if number == 2 || number == 4 {
                opened.db.flush().unwrap();
            }
        }
        Opened { _hold: hold, ..opened }
    });
    add("after a merge", |opened| {
        for number in 0..BATCHES.len() {
            opened.append_batch(number);
            opened.db.flush().unwrap();
        }
        opened.db.compact().unwrap();
        opened
    });
    add("reopened", |opened| {
        for number in 0..BATCHES.len() {
            opened.append_batch(number);
            if number == 3 {
                opened.db.flush().unwrap();
            }
        }
        let Opened { db, table, folder, .. } = opened;
        drop(table);
        db.close().unwrap();
        drop(db);
        let db = Database::open(folder.path().join("db"), Options::default()).unwrap();
        let table = db.table("events").unwrap();
        Opened { db, table, folder, _hold: None }
    });
    states
}

/// All checks of samples of one selection, the first and the last row also by themselves: twice 24,000
/// rows in samples of five or fewer, as many samples of one
/// row as there are rows, 1,000 pairs of samples of up to twenty, samples with replacement as large
/// as the selection, 4,000 samples by position.
fn battery(
    population: &Population,
    draw: &mut dyn FnMut(u64, bool, u64) -> Vec<i64>,
) -> Vec<Verdict> {
    let half = (population.len() / 2).max(1);
    let mut without = |size, seed| draw(size, false, seed);
    let effort = |size: u64, samples: u64, part: u64| Effort {
        size: size.min(half),
        samples: repetitions(samples),
        first_seed: SEED + (part << 28),
    };
    let ends = [vec![population.ids()[0]], vec![population.ids()[population.ids().len() - 1]]];
    let ends = (population.len() > 2).then_some(ends);
    let mut verdicts = vec![
        shares(population, ends.as_ref().map(|e| e.as_slice()), effort(5, 4_800, 5), &mut without),
        shares(population, None, effort(5, 4_800, 0), &mut without),
        positions(population, effort(8, 4_000, 1), &mut without),
        never_drawn(population, SEED + (2 << 28), &mut without),
    ];
    if population.len() > 1 {
        verdicts.push(overlaps(population, effort(20, 1_000, 3), &mut without));
    }
    let mut with = |size, seed| draw(size, true, seed);
    verdicts.push(distinct(population, repetitions(5), SEED + (4 << 28), &mut with));
    verdicts
}

fn check_selection(state: &Prepared, what: &str, selection: &Selection, ids: Vec<i64>) {
    assert_eq!(state.snapshot.count(selection).unwrap(), ids.len() as u64, "{}", state.state);
    let population = Population::new(ids);
    let mut draw =
        |size, replace, seed| sample_ids(&state.snapshot, selection, replace, size, seed);
    let of = format!("{what}, {}", state.state);
    assert_fair(&of, SEED, battery(&population, &mut draw));
}

/// Null hypotheses: those of the battery. The population holds the row committed last before the
/// snapshot, with chance 1/n as any other, and lacks the one committed after, which fails every check.
#[test]
fn samples_of_whole_tables_are_fair_in_every_state() {
    for state in prepared_states() {
        check_selection(&state, "all rows", &Selection::default(), (0..=ROWS).collect());
    }
}

#[test]
fn samples_of_a_set_are_fair_in_every_state() {
    for state in prepared_states() {
        let members = (0..=ROWS).filter(|id| id % EVENTS.teams == 2).collect();
        check_selection(&state, "a set", &EVENTS.of_team(2), members);
    }
}

#[test]
fn samples_of_a_key_range_are_fair_in_every_state() {
    for state in prepared_states() {
        check_selection(&state, "a range", &id_range(31, 200), (31..=200).collect());
        let top = id_range(ROWS - 20, ROWS + 5);
        check_selection(&state, "the newest keys", &top, (ROWS - 20..=ROWS).collect());
        check_selection(&state, "one key", &id_range(77, 77), vec![77]);
    }
}

#[test]
fn samples_of_a_set_in_a_key_range_are_fair_in_every_state() {
    for state in prepared_states() {
        let selection = Selection { sets: EVENTS.of_team(1).sets, ..id_range(31, 200) };
        let members = (31..=200).filter(|id| id % EVENTS.teams == 1).collect();
        check_selection(&state, "a set in a range", &selection, members);
    }
}

#[test]
fn states_are_what_their_names_say() {
    let pieces: Vec<(&str, usize)> =
        prepared_states().iter().map(|state| (state.state, state.snapshot.pieces())).collect();
    let of = |name: &str| pieces.iter().find(|(state, _)| *state == name).unwrap().1;
    assert_eq!(of("held maintenance"), BATCHES.len() + 1);
    assert!(of("memory and disk") >= 4, "{pieces:?}");
    assert_eq!(of("after a merge"), 2);
}

#[test]
fn an_empty_table_gives_a_typed_error_or_at_most_nothing() {
    let opened = Opened::new(Options::default());
    let snapshot = opened.table.snapshot().unwrap();
    for replace in [false, true] {
        let request = SampleRequest { n: 1, replace, seed: Some(SEED), ..Default::default() };
        let error = snapshot.sample(&request).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooFewRows, "{error}");
        let request = SampleRequest { at_most: true, ..request };
        assert_eq!(snapshot.sample(&request).unwrap().num_rows(), 0);
    }
}

#[test]
fn the_only_row_is_drawn_always_and_never_twice() {
    let opened = Opened::new(Options::default());
    opened.append(&[5]);
    for flushed in [false, true] {
        if flushed {
            opened.db.flush().unwrap();
        }
        let snapshot = opened.table.snapshot().unwrap();
        let population = Population::new(vec![5]);
        let mut draw =
            |size, replace, seed| sample_ids(&snapshot, &Selection::default(), replace, size, seed);
        assert_fair("one row", SEED, battery(&population, &mut draw));
        let request = SampleRequest { n: 2, ..Default::default() };
        assert_eq!(snapshot.sample(&request).unwrap_err().kind(), ErrorKind::TooFewRows);
        let request = SampleRequest { at_most: true, ..request };
        assert_eq!(ids(&snapshot.sample(&request).unwrap()), [5]);
    }
}

/// Null hypothesis: samples without a given seed are independent. 2,000 pairs of samples of 20 of 241.
#[test]
fn samples_with_fresh_seeds_are_independent() {
    let state = &prepared_states()[0];
    let population = Population::new((0..=ROWS).collect());
    let effort = Effort { size: 20, samples: repetitions(2_000), first_seed: 0 };
    let mut draw = |n, _| {
        let request = SampleRequest { n, ..Default::default() };
        ids(&state.snapshot.sample(&request).unwrap())
    };
    // Fresh seeds differ from run to run, so this one test alarms for nothing once in a million runs.
    assert_fair("fresh seeds", 0, [overlaps(&population, effort, &mut draw)]);
}

/// A table whose block and page boundaries are known, in one segment with runs above it.
///
/// Rows of about a KiB, so that a block holds a few and an index page some hundreds. Reading keys in
/// order with a cache that keeps the last block, a read of a block is a step into the next one.
struct Boundaries {
    population: Population,
    classes: Vec<Vec<i64>>,
    snapshot: TableSnapshot,
    _opened: Opened,
}

fn boundaries() -> Boundaries {
    const DISK_ROWS: i64 = 3_000;
    let events = Events { teams: 4, payload_bytes: 1_000 };
    let options = Options { cache_bytes: 8 << 20, ..Default::default() };
    let opened = Opened::new(options);
    let append = |ids: Vec<i64>| {
        events.append(&opened.table, &ids);
    };
    (0..DISK_ROWS / 500).for_each(|batch| append((batch * 500..(batch + 1) * 500).collect()));
    opened.db.compact().unwrap();
    let on_disk = opened.table.snapshot().unwrap();
    assert_eq!(on_disk.pieces(), 1);

    let (mut blocks, mut pages) = (BTreeSet::from([0]), BTreeSet::from([0]));
    let mut before = opened.db.stats().unwrap();
    for id in 0..DISK_ROWS {
        let key = std::sync::Arc::new(drillcore::arrow_array::Int64Array::from(vec![id]));
        assert_eq!(on_disk.get(&[key], None).unwrap().positions, [Some(0)]);
        let after = opened.db.stats().unwrap();
        if after.blocks_read > before.blocks_read {
            blocks.insert(id);
        }
        if after.index_pages_read > before.index_pages_read {
            pages.insert(id);
        }
        before = after;
    }
    assert!(blocks.len() > 500 && pages.len() >= 2, "{} {}", blocks.len(), pages.len());

    let _hold = opened.db.hold_maintenance();
    append((DISK_ROWS..DISK_ROWS + 300).collect());
    append((DISK_ROWS + 300..DISK_ROWS + 399).collect());
    let newest = DISK_ROWS + 399;
    append(vec![newest]);
    let snapshot = opened.table.snapshot().unwrap();
    let last = |firsts: &BTreeSet<i64>, end: i64| -> Vec<i64> {
        firsts.iter().skip(1).map(|first| first - 1).chain([end - 1]).collect()
    };
    let without = |ids: Vec<i64>, others: &[&[i64]]| -> Vec<i64> {
        ids.into_iter().filter(|id| others.iter().all(|other| !other.contains(id))).collect()
    };
    let page_firsts: Vec<i64> = pages.iter().copied().collect();
    let page_lasts = last(&pages, DISK_ROWS);
    let block_firsts = without(blocks.iter().copied().collect(), &[&page_firsts]);
    let block_lasts =
        without(last(&blocks, DISK_ROWS), &[&page_firsts, &page_lasts, &block_firsts]);
    let run_ends = vec![DISK_ROWS, DISK_ROWS + 299, DISK_ROWS + 300, DISK_ROWS + 398];
    Boundaries {
        population: Population::new((0..=newest).collect()),
        classes: vec![page_firsts, page_lasts, block_firsts, block_lasts, run_ends, vec![newest]],
        snapshot,
        _opened: opened,
    }
}

/// Null hypothesis: first and last rows of index pages, of blocks and of runs, and the newest row, each have
/// their share of the draws. 300,000 rows in samples of 500, of 3,400. Twins: samplers that never draw the
/// last row of a block, the first of an index page, the newest.
#[test]
fn rows_at_the_boundaries_of_pieces_pages_and_blocks_have_their_share() {
    let Boundaries { population, classes, snapshot, _opened } = boundaries();
    let effort = Effort { size: 500, samples: repetitions(600), first_seed: SEED };
    let mut draw = |size, seed| sample_ids(&snapshot, &Selection::default(), false, size, seed);
    let verdict = shares(&population, Some(&classes), effort, &mut draw);
    assert_fair("boundaries", SEED, [verdict]);
    assert_fair("every row", SEED, [shares(&population, None, effort, &mut draw)]);

    // Small samples, or nearly all would hold a row that the twin is blind to.
    let effort = Effort { size: 2, samples: 100_000, first_seed: SEED };
    let mut fair = biased::fair(population.ids(), false);
    for (class, name) in [(0, "first of a page"), (3, "last of a block"), (5, "the newest")] {
        let mut twin = biased::blind_to(classes[class].clone(), &mut fair);
        let verdict = shares(&population, Some(&classes), effort, &mut twin);
        assert_biased(&format!("a sampler blind to {name}"), SEED, &verdict);
    }
}

/// Null hypothesis: all ordered samples are equally likely, for every table of one to five rows, however
/// its rows are divided into pieces, of one and two rows, with and without replacement. At least 100 samples
/// for each ordered outcome.
#[test]
fn all_ordered_samples_of_tiny_tables_are_equally_likely() {
    for rows in 1..=5u32 {
        // Bit i of `cuts` says that a piece ends after row i.
        for cuts in 0..1u32 << (rows - 1) {
            let options = Options { memory_bytes: 1 << 20, ..Default::default() };
            let db = Database::in_memory(options).unwrap();
            let _hold = db.hold_maintenance();
            let table = db.create_table("events", Events::spec()).unwrap();
            let mut piece = Vec::new();
            for row in 0..rows {
                piece.push(i64::from(row * 3 % rows.max(4)));
                if cuts >> row & 1 == 1 || row + 1 == rows {
                    EVENTS.append(&table, &piece);
                    piece.clear();
                    if cuts & 1 == 1 && row == 0 {
                        db.flush().unwrap();
                    }
                }
            }
            let population =
                Population::new((0..rows).map(|row| i64::from(row * 3 % rows.max(4))).collect());
            let snapshot = table.snapshot().unwrap();
            assert_eq!(snapshot.pieces(), cuts.count_ones() as usize + 1);
            for (size, replace) in [(1, false), (1, true), (2, true), (2, false)] {
                if size > u64::from(rows) {
                    continue;
                }
                let effort = Effort { size, samples: repetitions(2_500), first_seed: SEED };
                let mut draw =
                    |n, seed| sample_ids(&snapshot, &Selection::default(), replace, n, seed);
                let verdict = ordered_samples(&population, replace, effort, &mut draw);
                assert_fair(&format!("{rows} rows, cuts {cuts:b}"), SEED, [verdict]);
            }
        }
    }
}

/// The checks themselves: a fair sampler that shares nothing with the engine but the generator passes
/// all, and each biased one is rejected by the check that is there for it, with the effort that the engine's
/// samples are given.
#[test]
fn every_check_lets_a_fair_sampler_pass_and_rejects_its_biased_twin() {
    let all: Vec<i64> = (0..=ROWS).collect();
    let population = Population::new(all.clone());
    let mut without = biased::fair(&all, false);
    let mut with = biased::fair(&all, true);
    let mut draw = |size, replace: bool, seed| {
        if replace { with(size, seed) } else { without(size, seed) }
    };
    assert_fair("the reference", SEED, battery(&population, &mut draw));

    let reject = |name: &str, check: usize, without: &mut Draw<'_>, with: &mut Draw<'_>| {
        let mut draw = |size, replace: bool, seed| {
            if replace { with(size, seed) } else { without(size, seed) }
        };
        assert_biased(name, SEED, &battery(&population, &mut draw)[check]);
    };
    const NEWEST: usize = 0;
    const SHARES: usize = 1;
    const POSITIONS: usize = 2;
    const NEVER_DRAWN: usize = 3;
    const OVERLAPS: usize = 4;
    const DISTINCT: usize = 5;

    let pieces: Vec<Vec<i64>> = (0..BATCHES.len())
        .map(|number| {
            let start: i64 = BATCHES[..number].iter().sum();
            (start..start + BATCHES[number]).map(shuffled).collect()
        })
        .chain([vec![ROWS]])
        .collect();
    let fair = || biased::fair(&all, false);
    let with = || biased::fair(&all, true);
    reject("weighs pieces alike", SHARES, &mut biased::weighs_pieces_alike(&pieces), &mut with());
    reject("takes remainders", SHARES, &mut biased::takes_remainders(&all), &mut with());
    let mut base = fair();
    let mut blind = biased::blind_to(vec![ROWS], &mut base);
    reject("skips the newest row", NEWEST, &mut blind, &mut with());
    let mut first_block = biased::fair(&all[..60], false);
    reject("stays in the first block", NEVER_DRAWN, &mut first_block, &mut with());
    let mut base = fair();
    reject("sorts", POSITIONS, &mut biased::sorts(&mut base), &mut with());
    let mut base = fair();
    let mut repeats = biased::repeats_last_sample(&mut base);
    reject("repeats the last sample", OVERLAPS, &mut repeats, &mut with());
    reject("draws neighbours", OVERLAPS, &mut biased::draws_neighbours(&all), &mut with());
    reject("forgets to replace", DISTINCT, &mut fair(), &mut fair());
    let later: Vec<i64> = (0..=ROWS + 1).collect();
    let mut shows_later = biased::fair(&later, false);
    reject("shows a row committed later", SHARES, &mut shows_later, &mut with());

    let five = Population::new((0..5).collect());
    let effort = Effort { size: 2, samples: 2_500, first_seed: SEED };
    let mut neighbours = biased::draws_neighbours(five.ids());
    let verdict = ordered_samples(&five, false, effort, &mut neighbours);
    assert_biased("draws neighbours", SEED, &verdict);
}

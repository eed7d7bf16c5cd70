//! The engine's samples are uniform and independent, whatever state the table is in, and its intervals
//! hold as often as they say.
//!
//! Every check here rejects a fair sampler in one of a million runs with fresh seeds
//! ([`FALSE_ALARM`](drillcore_testkit::statistics::FALSE_ALARM)); seeds are fixed, so a run that passes
//! passes again. The sizes of the samples stand at each test.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use drillcore::arrow_array::Int64Array;
use drillcore::{Database, ErrorKind, Options, SampleRequest, Selection, TableSnapshot};
use drillcore_testkit::biased_samplers as biased;
use drillcore_testkit::event_table::{
    Events, Kind, id_range, ids, sample_ids, weighted_sample_ids,
};
use drillcore_testkit::repetitions::repetitions;
use drillcore_testkit::statistics::{
    Draw, DrawableRows, Effort, Verdict, assert_biased, assert_fair, distinct, first_and_second,
    never_drawn, ordered_samples, overlaps, positions, shares, weighted_shares,
};
use drillcore_testkit::table_states::{
    BATCHES, Commit, EVENTS, NEWEST, Opened, commits, drawable, prepared_states,
};

const SEED: u64 = 0x5eed_1000_0000;

/// All checks of samples of one selection, the first and the last row also by themselves. They look at the same
/// 2,400 samples of up to ten rows: at their rows, their order, and pairs of them; besides at as many samples of one
/// row as there are rows, and three samples with replacement as large as the selection.
fn battery(
    population: &DrawableRows,
    draw: &mut dyn FnMut(u64, bool, u64) -> Vec<i64>,
) -> Vec<Verdict> {
    let half = (population.len() / 2).max(1);
    let samples = repetitions(2_400);
    let effort = Effort { size: half.min(10), samples, first_seed: SEED };
    let mut drawn: HashMap<(u64, u64), Vec<i64>> = HashMap::new();
    let mut without =
        |size, seed| drawn.entry((size, seed)).or_insert_with(|| draw(size, false, seed)).clone();
    let ends = [vec![population.ids()[0]], vec![population.ids()[population.ids().len() - 1]]];
    let ends = (population.len() > 2).then_some(ends);
    let mut verdicts = vec![
        shares(population, ends.as_ref().map(|e| e.as_slice()), effort, &mut without),
        shares(population, None, effort, &mut without),
        positions(population, effort, &mut without),
        never_drawn(population, SEED + (1 << 28), &mut without),
    ];
    if population.len() > 1 {
        let pairs = Effort { samples: samples / 2, ..effort };
        verdicts.push(overlaps(population, pairs, &mut without));
    }
    let mut with = |size, seed| draw(size, true, seed);
    verdicts.push(distinct(population, repetitions(3), SEED + (2 << 28), &mut with));
    verdicts
}

/// Selections with the ids that each holds.
fn selections() -> Vec<(&'static str, Selection, Vec<i64>)> {
    let of_team = |team: i64, ids: std::ops::RangeInclusive<i64>| -> Vec<i64> {
        ids.filter(|id| id % EVENTS.teams == team).collect()
    };
    let set_in_range = Selection { sets: EVENTS.of_team(1).sets, ..id_range(31, 200) };
    vec![
        ("all rows", Selection::default(), (0..=NEWEST).collect()),
        ("a set", EVENTS.of_team(2), of_team(2, 0..=NEWEST)),
        ("a range", id_range(31, 200), (31..=200).collect()),
        ("the newest keys", id_range(NEWEST - 20, NEWEST + 5), (NEWEST - 20..=NEWEST).collect()),
        ("one key", id_range(77, 77), vec![77]),
        ("a set in a range", set_in_range, of_team(1, 31..=200)),
    ]
}

/// Null hypotheses: those of the battery, for every selection in every state of a table. The population holds the
/// row committed last before the snapshot, with the same chance as any other, and lacks the one committed
/// after, which fails every check.
fn check_all_states(kind: Kind) {
    for state in prepared_states(kind) {
        for (what, selection, ids) in selections() {
            let of = format!("{what}, {}, {kind:?}", state.state);
            assert_eq!(state.snapshot.count(&selection).unwrap(), ids.len() as u64, "{of}");
            let population = DrawableRows::new(drawable(kind, ids));
            let counted = state.snapshot.count_events(&selection).unwrap();
            assert_eq!(counted, population.len(), "{of}");
            let mut draw = |size, replace, seed| state.draw(&selection, size, replace, seed);
            assert_eq!(draw(1, false, SEED), draw(1, false, SEED), "{of}: one seed, one sample");
            assert_eq!(draw(50, true, SEED), draw(50, true, SEED), "{of}: one seed, one sample");
            assert_fair(&of, SEED, battery(&population, &mut draw));
        }
    }
}

#[test]
fn samples_of_append_tables_are_fair_in_every_state() {
    check_all_states(Kind::Append);
}

#[test]
fn samples_of_upsert_tables_are_fair_over_live_rows_in_every_state() {
    check_all_states(Kind::Upsert);
}

#[test]
fn samples_of_rollup_tables_are_fair_over_events_in_every_state() {
    check_all_states(Kind::Rollup);
}

fn weight_of(column: &str, id: i64) -> f64 {
    match column {
        "weight" => Events::weight(id) as f64,
        _ => Events::value(id),
    }
}

/// Null hypotheses: draws with replacement come in proportion to the weight (30 samples of 1,000), and those
/// without are successive draws by weight (3,000 samples of two); by an integer weight of which one row has as much as
/// hundreds of others and every tenth none, and by a float weight; of all rows, and of a set in a range.
#[test]
fn weighted_samples_are_in_proportion_to_live_weights_in_every_state() {
    for kind in [Kind::Append, Kind::Upsert] {
        for state in prepared_states(kind) {
            for (what, selection, ids) in selections() {
                if !["all rows", "a set in a range"].contains(&what) {
                    continue;
                }
                for column in ["weight", "value"] {
                    let population = DrawableRows::weighted(&ids, |id| weight_of(column, id));
                    let mut draw = |replace, size, seed| {
                        let weight = Some(column);
                        weighted_sample_ids(
                            &state.snapshot,
                            &selection,
                            weight,
                            replace,
                            size,
                            seed,
                        )
                    };
                    let verdicts = weighted_battery(&population, &mut draw);
                    let of = format!("{what} by {column}, {}, {kind:?}", state.state);
                    assert_fair(&of, SEED, verdicts);
                }
            }
        }
    }
}

/// Null hypotheses: those of the weighted battery, of sets whose members on disk are drawn by groups of 128, and in memory by
/// sums that are kept: whole, and cut by a range on both sides. The twin that weighs groups alone fails.
#[test]
fn weighted_samples_of_long_sets_are_in_proportion() {
    let long = Events { teams: 2, payload_bytes: 20 };
    for (kind, on_disk) in
        [(Kind::Append, false), (Kind::Append, true), (Kind::Upsert, false), (Kind::Upsert, true)]
    {
        let opened = Opened::new(kind);
        long.append(&opened.table(), &(0..3_000).collect::<Vec<_>>());
        if on_disk {
            opened.database().compact().unwrap();
        }
        let snapshot = opened.snapshot();
        assert_eq!(snapshot.pieces(), 1);
        for (low, high) in [(0, 3_000), (301, 2_404), (5, 255)] {
            let sets = long.of_team(1).sets;
            let selection = Selection { sets, ..id_range(low, high) };
            let ids: Vec<i64> = (low..=high).filter(|id| id % 2 == 1 && *id < 3_000).collect();
            for column in ["weight", "value"] {
                let weight = |id| weight_of(column, id);
                let population = DrawableRows::weighted(&ids, weight);
                let mut draw = |replace, size, seed| {
                    let by = Some(column);
                    weighted_sample_ids(&snapshot, &selection, by, replace, size, seed)
                };
                let verdicts = weighted_battery(&population, &mut draw);
                let of = format!("{low}..={high} by {column}, {kind:?}, on disk {on_disk}");
                assert_fair(&of, SEED, verdicts);
                let mut groups = biased::weighs_only_groups(population.ids(), weight, 128);
                let effort = Effort { size: 1_000, samples: repetitions(30), first_seed: SEED };
                let verdict = weighted_shares(&population, effort, &mut groups);
                assert_biased("weighs only groups", SEED, &verdict);
            }
        }
    }
}

fn weighted_battery(
    population: &DrawableRows,
    draw: &mut dyn FnMut(bool, u64, u64) -> Vec<i64>,
) -> [Verdict; 2] {
    let with = Effort { size: 1_000, samples: repetitions(30), first_seed: SEED };
    let without = Effort { size: 2, samples: repetitions(3_000), first_seed: SEED };
    [
        weighted_shares(population, with, &mut |size, seed| draw(true, size, seed)),
        first_and_second(population, without, &mut |size, seed| draw(false, size, seed)),
    ]
}

/// Null hypotheses: those of the battery. 80 rows live of 1,120 versions, so drawing ten of them among all versions
/// is given up in about every third sample, and the live ones are listed.
#[test]
fn samples_of_a_table_of_mostly_dead_rows_are_fair() {
    let mut opened = Opened::new(Kind::Upsert);
    opened.hold();
    opened.append(&(0..400).collect::<Vec<_>>());
    opened.append(&(0..400).rev().collect::<Vec<_>>());
    opened.commit(&Commit::Delete((0..400).filter(|id| id % 5 > 0).collect()));
    let snapshot = opened.snapshot();
    let population = DrawableRows::new((0..80).map(|row| 5 * row).collect());
    let mut draw =
        |size, replace, seed| sample_ids(&snapshot, &Selection::default(), replace, size, seed);
    assert_fair("mostly dead rows", SEED, battery(&population, &mut draw));
}

#[test]
fn states_are_what_their_names_say() {
    let states = prepared_states(Kind::Append);
    let of = |name: &str| {
        let state = states.iter().find(|state| state.state == name).unwrap();
        state.snapshot.pieces()
    };
    assert_eq!(of("held maintenance"), BATCHES.len() + 1);
    assert!(of("memory and disk") >= 4);
    assert!(of("during a flush") >= 3);
    assert_eq!(of("during a merge"), 4);
    assert_eq!(of("after a merge"), 2);
    assert_eq!(of("named, merged and reopened"), 2);
}

/// A table that never had rows, and one whose rows were all deleted.
#[test]
fn an_empty_table_gives_a_typed_error_or_at_most_nothing() {
    for kind in Kind::ALL {
        let opened = Opened::new(kind);
        let check = |snapshot: &TableSnapshot| {
            for replace in [false, true] {
                let request =
                    SampleRequest { n: 1, replace, seed: Some(SEED), ..Default::default() };
                let error = snapshot.sample(&request).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::TooFewRows, "{error}");
                let request = SampleRequest { at_most: true, ..request };
                assert_eq!(snapshot.sample(&request).unwrap().num_rows(), 0);
            }
        };
        check(&opened.snapshot());
        if kind == Kind::Upsert {
            opened.append(&[1, 2, 3]);
            opened.database().flush().unwrap();
            opened.commit(&Commit::Delete(vec![1, 2, 3, 4]));
            check(&opened.snapshot());
        }
    }
}

#[test]
fn the_only_row_is_drawn_always_and_never_twice() {
    for kind in Kind::ALL {
        let opened = Opened::new(kind);
        opened.append(&[5]);
        if kind == Kind::Upsert {
            opened.append(&[4, 5, 6]);
            opened.commit(&Commit::Delete(vec![4, 6]));
        }
        for flushed in [false, true] {
            if flushed {
                opened.database().flush().unwrap();
            }
            let snapshot = opened.snapshot();
            let population = DrawableRows::new(vec![5]);
            let mut draw = |size, replace, seed| {
                sample_ids(&snapshot, &Selection::default(), replace, size, seed)
            };
            assert_fair("one row", SEED, battery(&population, &mut draw));
            let request = SampleRequest { n: 2, ..Default::default() };
            assert_eq!(snapshot.sample(&request).unwrap_err().kind(), ErrorKind::TooFewRows);
            let request = SampleRequest { at_most: true, ..request };
            assert_eq!(ids(&snapshot.sample(&request).unwrap()), [5]);
        }
    }
}

/// Null hypothesis: samples without a given seed are independent. 2,000 pairs of samples of 20 of 241.
#[test]
fn samples_with_fresh_seeds_are_independent() {
    let opened = Opened::new(Kind::Append);
    let all: Vec<i64> = (0..241).collect();
    opened.append(&all);
    let (snapshot, population) = (opened.snapshot(), DrawableRows::new(all));
    let effort = Effort { size: 20, samples: repetitions(2_000), first_seed: 0 };
    let mut draw = |n, _| {
        let request = SampleRequest { n, ..Default::default() };
        ids(&snapshot.sample(&request).unwrap())
    };
    // Fresh seeds differ from run to run, so this one test alarms for nothing once in a million runs.
    assert_fair("fresh seeds", 0, [overlaps(&population, effort, &mut draw)]);
}

/// A table whose block and page boundaries are known, in one segment with runs above it.
///
/// Rows of about a KiB, so that a block holds a few and an index page some hundreds. Reading keys in
/// order with a cache that keeps the last block, a read of a block is a step into the next one.
struct Boundaries {
    population: DrawableRows,
    classes: Vec<Vec<i64>>,
    snapshot: TableSnapshot,
    _db: Database,
}

fn boundaries() -> Boundaries {
    const DISK_ROWS: i64 = 3_000;
    let events = Events { teams: 4, payload_bytes: 1_000 };
    // So small that it does not keep the index as a whole.
    let options = Options { cache_bytes: 16 << 10, ..Default::default() };
    let db = Database::in_memory(options).unwrap();
    let table = db.create_table("events", Events::spec()).unwrap();
    let append = |ids: Vec<i64>| {
        events.append(&table, &ids);
    };
    (0..DISK_ROWS / 500).for_each(|batch| append((batch * 500..(batch + 1) * 500).collect()));
    db.compact().unwrap();
    let on_disk = table.snapshot().unwrap();
    assert_eq!(on_disk.pieces(), 1);

    let (mut blocks, mut pages) = (BTreeSet::from([0]), BTreeSet::from([0]));
    let mut before = db.stats().unwrap();
    for id in 0..DISK_ROWS {
        let key = Arc::new(Int64Array::from(vec![id]));
        assert_eq!(on_disk.get(&[key], None).unwrap().positions, [Some(0)]);
        let after = db.stats().unwrap();
        if after.blocks_read > before.blocks_read {
            blocks.insert(id);
        }
        if after.index_pages_read > before.index_pages_read {
            pages.insert(id);
        }
        before = after;
    }
    assert!(blocks.len() > 300 && pages.len() >= 2, "{} {}", blocks.len(), pages.len());

    let _hold = db.hold_maintenance();
    append((DISK_ROWS..DISK_ROWS + 300).collect());
    append((DISK_ROWS + 300..DISK_ROWS + 399).collect());
    let newest = DISK_ROWS + 399;
    append(vec![newest]);
    let snapshot = table.snapshot().unwrap();
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
        population: DrawableRows::new((0..=newest).collect()),
        classes: vec![page_firsts, page_lasts, block_firsts, block_lasts, run_ends, vec![newest]],
        snapshot,
        _db: db,
    }
}

/// Null hypothesis: first and last rows of index pages, of blocks and of runs, and the newest row, each have
/// their share of the draws. 300,000 rows in samples of 500, of 3,400. Twins: samplers that never draw the
/// last row of a block, the first of an index page, the newest.
#[test]
fn rows_at_the_boundaries_of_pieces_pages_and_blocks_have_their_share() {
    let Boundaries { population, classes, snapshot, _db } = boundaries();
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
                DrawableRows::new((0..rows).map(|row| i64::from(row * 3 % rows.max(4))).collect());
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

/// Null hypothesis: each ordered sample has its chance, that of successive draws by weight; of up to four live rows
/// with unequal weights beside one without any, in an append and an upsert table, cut into pieces in every way.
/// At least 8,000 samples of one to three rows, with and without replacement.
#[test]
fn ordered_weighted_samples_of_tiny_tables_have_their_chances() {
    // Weights 3, 0, 11, 7 and 2.
    let rows = [2, 20, 10 + 19, 6 + 19, 1];
    for kind in [Kind::Append, Kind::Upsert] {
        for cuts in 0..1u32 << (rows.len() - 1) {
            let mut opened = Opened::new(kind);
            opened.hold();
            let mut piece = Vec::new();
            for (number, row) in rows.into_iter().enumerate() {
                piece.push(row);
                if cuts >> number & 1 == 1 || number + 1 == rows.len() {
                    opened.append(&piece);
                    piece.clear();
                    if kind == Kind::Upsert {
                        // Again, with another weight first, and one that is deleted.
                        opened.commit(&Commit::Rows { ids: vec![row, 57], like: vec![77, 77] });
                        opened.commit(&Commit::Delete(vec![57]));
                        opened.append(&[row]);
                    }
                    if cuts & 2 == 2 && number == 1 {
                        opened.database().flush().unwrap();
                    }
                }
            }
            let population = DrawableRows::weighted(&rows, |id| Events::weight(id) as f64);
            let snapshot = opened.snapshot();
            for (size, replace) in [(1, true), (2, true), (2, false), (3, false)] {
                let effort = Effort { size, samples: repetitions(2_000), first_seed: SEED };
                let mut draw = |n, seed| {
                    let (everything, weight) = (Selection::default(), Some("weight"));
                    weighted_sample_ids(&snapshot, &everything, weight, replace, n, seed)
                };
                let verdict = ordered_samples(&population, replace, effort, &mut draw);
                assert_fair(&format!("{kind:?}, cuts {cuts:b}"), SEED, [verdict]);
            }
        }
    }
}

/// The versions of all rows of an upsert table, commit by commit, and whether each is alive.
fn versions() -> Vec<Vec<(i64, bool)>> {
    let mut pieces: Vec<Vec<(i64, bool)>> = Vec::new();
    for commit in (0..BATCHES.len()).flat_map(|batch| commits(Kind::Upsert, batch)) {
        let (ids, is_live) = match commit {
            Commit::Rows { ids, .. } => (ids, true),
            Commit::Delete(ids) => (ids, false),
        };
        for version in pieces.iter_mut().flatten().filter(|(id, _)| ids.contains(id)) {
            version.1 = false;
        }
        pieces.push(ids.into_iter().map(|id| (id, is_live)).collect());
    }
    pieces.push(vec![(NEWEST, true)]);
    pieces
}

/// The checks themselves: a fair sampler that shares nothing with the engine but the generator passes
/// all, and each biased one is rejected by the check that is there for it, with the effort that the engine's
/// samples are given.
#[test]
fn every_check_lets_a_fair_sampler_pass_and_rejects_its_biased_twin() {
    let all: Vec<i64> = (0..=NEWEST).collect();
    let population = DrawableRows::new(all.clone());
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
    const ENDS: usize = 0;
    const SHARES: usize = 1;
    const POSITIONS: usize = 2;
    const NEVER_DRAWN: usize = 3;
    const OVERLAPS: usize = 4;
    const DISTINCT: usize = 5;

    let pieces: Vec<Vec<i64>> = (0..BATCHES.len())
        .flat_map(|batch| commits(Kind::Append, batch))
        .map(|commit| match commit {
            Commit::Rows { ids, .. } => ids,
            Commit::Delete(_) => Vec::new(),
        })
        .chain([vec![NEWEST]])
        .collect();
    let versions = versions();
    let fair = || biased::fair(&all, false);
    let with = || biased::fair(&all, true);
    reject("weighs pieces alike", SHARES, &mut biased::weighs_pieces_alike(&pieces), &mut with());
    reject("draws versions", SHARES, &mut biased::draws_versions(&versions), &mut with());
    let mut stays = biased::stays_in_the_piece(&versions);
    reject("stays in the piece of a dead row", SHARES, &mut stays, &mut with());
    reject("takes remainders", SHARES, &mut biased::takes_remainders(&all), &mut with());
    let mut base = fair();
    let mut blind = biased::blind_to(vec![NEWEST], &mut base);
    reject("skips the newest row", ENDS, &mut blind, &mut with());
    let mut first_block = biased::fair(&all[..60], false);
    reject("stays in the first block", NEVER_DRAWN, &mut first_block, &mut with());
    let mut base = fair();
    reject("sorts", POSITIONS, &mut biased::sorts(&mut base), &mut with());
    let mut base = fair();
    let mut repeats = biased::repeats_last_sample(&mut base);
    reject("repeats the last sample", OVERLAPS, &mut repeats, &mut with());
    reject("draws neighbours", OVERLAPS, &mut biased::draws_neighbours(&all), &mut with());
    reject("forgets to replace", DISTINCT, &mut fair(), &mut fair());
    let later: Vec<i64> = (0..=NEWEST + 1).collect();
    let mut shows_later = biased::fair(&later, false);
    reject("shows a row committed later", SHARES, &mut shows_later, &mut with());

    let rows: Vec<Vec<i64>> = all.iter().map(|&id| drawable(Kind::Rollup, [id])).collect();
    let events = DrawableRows::new(rows.concat());
    let mut draws_rows = biased::weighs_pieces_alike(&rows);
    let mut draw = |size, _, seed| draws_rows(size, seed);
    assert_biased("draws rows for events", SEED, &battery(&events, &mut draw)[SHARES]);

    for column in ["weight", "value"] {
        let population = DrawableRows::weighted(&all, |id| weight_of(column, id));
        let weight = |id| weight_of(column, id);
        let mut with = biased::by_weight(population.ids(), weight);
        let mut only_first = biased::weighs_only_the_first(population.ids(), weight);
        let mut draw =
            |replace, size, seed| if replace { with(size, seed) } else { only_first(size, seed) };
        let [shares, successive] = weighted_battery(&population, &mut draw);
        assert_fair("with replacement", SEED, [shares]);
        assert_biased("weighs only the first", SEED, &successive);
        if column == "weight" {
            // Rows come again often only where one outweighs the others.
            let mut forgets = biased::forgets_weights(population.ids(), weight);
            let without = Effort { size: 2, samples: 3_000, first_seed: SEED };
            let verdict = first_and_second(&population, without, &mut forgets);
            assert_biased("forgets weights", SEED, &verdict);
        }
        let mut uniform = [false, true].map(|replace| biased::fair(population.ids(), replace));
        let mut draw = |replace, size, seed| uniform[usize::from(replace)](size, seed);
        for verdict in weighted_battery(&population, &mut draw) {
            assert_biased("draws uniformly", SEED, &verdict);
        }
    }

    let five = DrawableRows::new((0..5).collect());
    let effort = Effort { size: 2, samples: 2_500, first_seed: SEED };
    let mut neighbours = biased::draws_neighbours(five.ids());
    let verdict = ordered_samples(&five, false, effort, &mut neighbours);
    assert_biased("draws neighbours", SEED, &verdict);

    let weight = |id| Events::weight(id) as f64;
    let unequal = DrawableRows::weighted(&[2, 29, 25, 1], weight);
    let effort = Effort { size: 2, samples: 2_000, first_seed: SEED };
    let mut forgets = biased::forgets_weights(unequal.ids(), weight);
    let verdict = ordered_samples(&unequal, false, effort, &mut forgets);
    assert_biased("forgets weights", SEED, &verdict);
}

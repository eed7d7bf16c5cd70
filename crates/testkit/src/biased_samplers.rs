//! Samplers that are wrong in ways real ones have been: the twins that each check must reject.

use drillcore_sample::choose::{WithReplacement, WithoutReplacement};
use drillcore_sample::rng::Rng;

use crate::statistics::Draw;

/// A fair sampler, independent of the engine: what all checks must let pass.
pub fn fair(ids: &[i64], replace: bool) -> impl FnMut(u64, u64) -> Vec<i64> + '_ {
    move |size, seed| {
        let mut rng = Rng::keyed(seed, 0);
        let mut numbers = Vec::new();
        let (population, size) = (ids.len() as u64, size as usize);
        if replace {
            WithReplacement::new(population).draw_into(&mut rng, size, &mut numbers);
        } else {
            WithoutReplacement::new(population).draw_into(&mut rng, size, &mut numbers);
        }
        numbers.into_iter().map(|number| ids[number as usize]).collect()
    }
}

/// Never draws some rows, which are few: the newest, those at the ends of blocks.
pub fn blind_to<'a>(
    hidden: Vec<i64>,
    draw: &'a mut Draw<'_>,
) -> impl FnMut(u64, u64) -> Vec<i64> + 'a {
    move |size, seed| {
        // Seeds of its own, so that what it draws instead does not depend on later samples.
        let mut sample = draw(size, seed);
        let mut retry = seed.wrapping_add(1 << 40);
        while sample.iter().any(|id| hidden.contains(id)) {
            retry = retry.wrapping_add(1 << 40);
            sample = draw(size, retry);
        }
        sample
    }
}

/// Chooses a piece first, all equally likely, then a row of it: rows of small pieces come too often. So do the events
/// of rows with few, where rows are drawn for events.
pub fn weighs_pieces_alike(pieces: &[Vec<i64>]) -> impl FnMut(u64, u64) -> Vec<i64> + '_ {
    move |size, seed| {
        let mut rng = Rng::keyed(seed, 0);
        distinct(size, || {
            let piece = &pieces[rng.below(pieces.len() as u64) as usize];
            piece[rng.below(piece.len() as u64) as usize]
        })
    }
}

/// Draws among the versions of rows, of which one may be dead, and shows the row: those that were written more often
/// come too often.
pub fn draws_versions(pieces: &[Vec<(i64, bool)>]) -> impl FnMut(u64, u64) -> Vec<i64> + '_ {
    let alive: Vec<i64> =
        pieces.iter().flatten().filter(|(_, is_live)| *is_live).map(|(id, _)| *id).collect();
    let versions: Vec<i64> =
        pieces.iter().flatten().map(|(id, _)| *id).filter(|id| alive.contains(id)).collect();
    move |size, seed| {
        let mut rng = Rng::keyed(seed, 0);
        distinct(size, || versions[rng.below(versions.len() as u64) as usize])
    }
}

/// Chooses a piece by its versions, and after a dead row draws again in the same piece instead of among all: live
/// rows beside many dead ones come too often.
pub fn stays_in_the_piece(pieces: &[Vec<(i64, bool)>]) -> impl FnMut(u64, u64) -> Vec<i64> + '_ {
    let all: Vec<usize> =
        pieces.iter().enumerate().flat_map(|(number, piece)| vec![number; piece.len()]).collect();
    move |size, seed| {
        let mut rng = Rng::keyed(seed, 0);
        distinct(size, || {
            loop {
                let piece = &pieces[all[rng.below(all.len() as u64) as usize]];
                if piece.iter().all(|(_, is_live)| !is_live) {
                    continue;
                }
                break loop {
                    let (id, is_live) = piece[rng.below(piece.len() as u64) as usize];
                    if is_live {
                        break id;
                    }
                };
            }
        })
    }
}

/// Draws fairly by weight, with replacement.
pub fn by_weight<'a>(
    ids: &'a [i64],
    weight: impl Fn(i64) -> f64,
) -> impl FnMut(u64, u64) -> Vec<i64> + 'a {
    let choose = choose_by_weight(ids, weight);
    move |size, seed| {
        let mut rng = Rng::keyed(seed, 0);
        (0..size).map(|_| choose(&mut rng)).collect()
    }
}

/// Draws by weight without replacement, but a row that comes again gives way to any other, as if weights did not
/// count any more.
pub fn forgets_weights<'a>(
    ids: &'a [i64],
    weight: impl Fn(i64) -> f64,
) -> impl FnMut(u64, u64) -> Vec<i64> + 'a {
    let choose = choose_by_weight(ids, weight);
    move |size, seed| {
        let mut rng = Rng::keyed(seed, 0);
        let mut sample = Vec::new();
        while (sample.len() as u64) < size {
            let mut id = choose(&mut rng);
            while sample.contains(&id) {
                id = ids[rng.below(ids.len() as u64) as usize];
            }
            sample.push(id);
        }
        sample
    }
}

/// Draws the first row by weight and all others uniformly.
pub fn weighs_only_the_first<'a>(
    ids: &'a [i64],
    weight: impl Fn(i64) -> f64,
) -> impl FnMut(u64, u64) -> Vec<i64> + 'a {
    let choose = choose_by_weight(ids, weight);
    move |size, seed| {
        let mut rng = Rng::keyed(seed, 0);
        let mut first = Some(choose(&mut rng));
        distinct(size, || first.take().unwrap_or_else(|| ids[rng.below(ids.len() as u64) as usize]))
    }
}

/// Chooses a group of rows by weight, and then any of its rows.
pub fn weighs_only_groups<'a>(
    ids: &'a [i64],
    weight: impl Fn(i64) -> f64,
    group: usize,
) -> impl FnMut(u64, u64) -> Vec<i64> + 'a {
    let choose = choose_by_weight(ids, weight);
    move |size, seed| {
        let mut rng = Rng::keyed(seed, 0);
        let mut draw = || {
            let id = choose(&mut rng);
            let at = ids.iter().position(|other| *other == id).expect("it was chosen among them");
            let members = ids.chunks(group).nth(at / group).expect("a group of it");
            members[rng.below(members.len() as u64) as usize]
        };
        (0..size).map(|_| draw()).collect()
    }
}

fn choose_by_weight<'a>(
    ids: &'a [i64],
    weight: impl Fn(i64) -> f64,
) -> impl Fn(&mut Rng) -> i64 + 'a {
    let mut sum = 0.0;
    let add = |id: &i64| {
        sum += weight(*id);
        sum
    };
    let ends: Vec<f64> = ids.iter().map(add).collect();
    move |rng| {
        let unit = rng.unit_f64() * sum;
        ids[ends.partition_point(|&end| end <= unit)]
    }
}

/// Gives each second sample again.
pub fn repeats_last_sample<'a>(draw: &'a mut Draw<'_>) -> impl FnMut(u64, u64) -> Vec<i64> + 'a {
    move |size, seed| draw(size, seed & !1)
}

/// Takes the remainder of a random byte: the first rows come too often.
pub fn takes_remainders(ids: &[i64]) -> impl FnMut(u64, u64) -> Vec<i64> + '_ {
    move |size, seed| {
        let mut rng = Rng::keyed(seed, 0);
        distinct(size, || ids[(rng.next_u64() >> 56) as usize % ids.len()])
    }
}

/// Gives the sample in key order, as a store that reads block by block would like to.
pub fn sorts<'a>(draw: &'a mut Draw<'_>) -> impl FnMut(u64, u64) -> Vec<i64> + 'a {
    move |size, seed| {
        let mut sample = draw(size, seed);
        sample.sort_unstable();
        sample
    }
}

/// Draws one row, and its neighbours for the rest of the sample: each row equally often, never alone.
pub fn draws_neighbours(ids: &[i64]) -> impl FnMut(u64, u64) -> Vec<i64> + '_ {
    move |size, seed| {
        let first = Rng::keyed(seed, 0).below(ids.len() as u64);
        (first..first + size).map(|number| ids[number as usize % ids.len()]).collect()
    }
}

fn distinct(size: u64, mut draw: impl FnMut() -> i64) -> Vec<i64> {
    let mut sample = Vec::new();
    while (sample.len() as u64) < size {
        let id = draw();
        if !sample.contains(&id) {
            sample.push(id);
        }
    }
    sample
}

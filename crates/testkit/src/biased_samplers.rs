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

/// Chooses a piece first, all equally likely, then a row of it: rows of small pieces come too often.
pub fn weighs_pieces_alike(pieces: &[Vec<i64>]) -> impl FnMut(u64, u64) -> Vec<i64> + '_ {
    move |size, seed| {
        let mut rng = Rng::keyed(seed, 0);
        distinct(size, || {
            let piece = &pieces[rng.below(pieces.len() as u64) as usize];
            piece[rng.below(piece.len() as u64) as usize]
        })
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

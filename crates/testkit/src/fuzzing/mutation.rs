//! Changing an input a little: one seed, one change.

use drillcore_format::cursor::{Cursor, put_varint};
use drillcore_sample::rng::Rng;

/// Numbers at which arithmetic goes wrong.
const EDGES: [u64; 26] = [
    0,
    1,
    2,
    3,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x101,
    0x3fff,
    0x4000,
    0x7fff,
    0x8000,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fffe,
    0xffff_ffff,
    0x1_0000_0000,
    i64::MAX as u64 - 1,
    i64::MAX as u64,
    i64::MAX as u64 + 1,
    u64::MAX - 1,
    u64::MAX,
    4096,
];

/// The longest run of bytes that is copied, taken out or put in.
const RUN_MAX: u64 = 40;

/// Changes parts in one to four places. `other` lends bytes and parts.
pub fn mutate(parts: &mut Vec<Vec<u8>>, other: &[Vec<u8>], rng: &mut Rng) {
    for _ in 0..=rng.below(4) {
        if parts.is_empty() || rng.below(24) == 0 {
            mutate_list(parts, other, rng);
        } else {
            let at = pick(parts.len(), rng);
            let lender = other.get(pick(other.len(), rng)).map_or(&[][..], Vec::as_slice);
            mutate_bytes(&mut parts[at], lender, rng);
        }
    }
}

/// Drops, repeats, swaps or borrows a part.
fn mutate_list(parts: &mut Vec<Vec<u8>>, other: &[Vec<u8>], rng: &mut Rng) {
    let len = parts.len();
    match rng.below(4) {
        0 if len > 0 => drop(parts.remove(pick(len, rng))),
        1 if len > 0 => parts.insert(pick(len, rng), parts[pick(len, rng)].clone()),
        2 if len > 1 => parts.swap(pick(len, rng), pick(len, rng)),
        _ if !other.is_empty() => {
            let borrowed = other[pick(other.len(), rng)].clone();
            parts.insert(pick(len + 1, rng), borrowed);
        }
        _ => {}
    }
}

fn mutate_bytes(bytes: &mut Vec<u8>, lender: &[u8], rng: &mut Rng) {
    if bytes.is_empty() {
        bytes.push(rng.below(256) as u8);
        return;
    }
    let at = pick(bytes.len(), rng);
    match rng.below(12) {
        0 => bytes[at] ^= 1 << rng.below(8),
        1 => bytes[at] = [0, 0xff, 1, 0x80, 0x7f][pick(5, rng)],
        2 => bytes[at] = bytes[at].wrapping_add([1, 0xff][pick(2, rng)]),
        3 | 4 => put_edge(bytes, at, rng),
        5 | 6 => replace_varint(bytes, at, rng),
        7 => {
            let other = pick(bytes.len(), rng);
            bytes.swap(at, other);
        }
        8 => bytes.truncate(at),
        9 => {
            let end = (at + run(rng)).min(bytes.len());
            bytes.drain(at..end);
        }
        10 => {
            let end = (at + run(rng)).min(bytes.len());
            let copied = bytes[at..end].to_vec();
            let to = pick(bytes.len(), rng);
            bytes.splice(to..to, copied);
        }
        _ => splice(bytes, at, lender, rng),
    }
}

/// Puts a number of one, two, four or eight bytes that arithmetic goes wrong at, or one that lies beside what is there.
fn put_edge(bytes: &mut [u8], at: usize, rng: &mut Rng) {
    let width = [1, 2, 4, 8][pick(4, rng)].min(bytes.len() - at);
    let present = &mut bytes[at..at + width];
    let mut wide = [0; 8];
    wide[..width].copy_from_slice(present);
    let number = edge_near(u64::from_le_bytes(wide), rng);
    present.copy_from_slice(&number.to_le_bytes()[..width]);
}

/// Takes what lies at a place for a variable-length number, and puts another one there, of whatever length.
fn replace_varint(bytes: &mut Vec<u8>, at: usize, rng: &mut Rng) {
    let mut cursor = Cursor::new(&bytes[at..], "input");
    let Ok(present) = cursor.varint() else { return };
    let end = bytes.len() - cursor.rest().len();
    let mut other = Vec::new();
    put_varint(&mut other, edge_near(present, rng));
    bytes.splice(at..end, other);
}

fn edge_near(present: u64, rng: &mut Rng) -> u64 {
    match rng.below(5) {
        0 => present.wrapping_add(1),
        1 => present.wrapping_sub(1),
        2 => present.wrapping_mul(2),
        _ => EDGES[pick(EDGES.len(), rng)],
    }
}

/// Overwrites some bytes, or puts some in, that another input has.
fn splice(bytes: &mut Vec<u8>, at: usize, lender: &[u8], rng: &mut Rng) {
    if lender.is_empty() {
        return;
    }
    let from = pick(lender.len(), rng);
    let lent = &lender[from..(from + run(rng)).min(lender.len())];
    let end = if rng.below(2) == 0 { at } else { (at + lent.len()).min(bytes.len()) };
    bytes.splice(at..end, lent.iter().copied());
}

fn run(rng: &mut Rng) -> usize {
    1 + rng.below(RUN_MAX) as usize
}

/// A position below `len`; 0 if that is 0.
fn pick(len: usize, rng: &mut Rng) -> usize {
    rng.below(len.max(1) as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_makes_one_change_and_any_input_can_be_changed() {
        let parts = vec![vec![1, 2, 3], vec![0x80; 60], Vec::new()];
        let changed = |seed: u64| {
            let mut changed = parts.clone();
            mutate(&mut changed, &parts, &mut Rng::keyed(seed, 0));
            changed
        };
        assert!((0..500).all(|seed| changed(seed) == changed(seed)));
        let different = (0..500).filter(|seed| changed(*seed) != parts).count();
        assert!(different > 450, "{different} of 500 changes changed anything");
        let mut nothing = Vec::new();
        (0..100).for_each(|seed| mutate(&mut nothing, &[], &mut Rng::keyed(seed, 0)));
    }
}

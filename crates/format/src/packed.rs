//! Lists of numbers of as many bits each, the least significant bit first.

/// Bits of the greatest of some numbers.
pub(crate) fn width_of(greatest: u64) -> u8 {
    (u64::BITS - greatest.leading_zeros()) as u8
}

/// The bytes of `count` numbers of `width` bits.
pub(crate) fn packed_len(count: usize, width: u8) -> usize {
    (count * usize::from(width)).div_ceil(8)
}

/// Appends numbers of at most `width` bits each, the least significant bit first, up to a whole byte.
pub(crate) fn put_packed(numbers: impl Iterator<Item = u64>, width: u8, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let (mut pending, mut bits) = (0u128, 0u32);
    for number in numbers {
        pending |= u128::from(number) << bits;
        bits += u32::from(width);
        if bits >= u64::BITS {
            out.extend_from_slice(&(pending as u64).to_le_bytes());
            pending >>= u64::BITS;
            bits -= u64::BITS;
        }
    }
    out.extend_from_slice(&pending.to_le_bytes()[..bits.div_ceil(8) as usize]);
}

/// The number at `index` of a packed list, which must hold it. O(1).
#[inline]
pub(crate) fn packed_at(bytes: &[u8], width: u8, index: usize) -> u64 {
    let bit = index * usize::from(width);
    let rest = &bytes[bit / 8..];
    let mask = mask_of(width);
    match rest.first_chunk::<8>() {
        Some(word) if width <= BITS_PER_LOAD_MAX => (u64::from_le_bytes(*word) >> (bit % 8)) & mask,
        _ => {
            let mut word = [0u8; 16];
            let len = rest.len().min(16);
            word[..len].copy_from_slice(&rest[..len]);
            (u128::from_le_bytes(word) >> (bit % 8)) as u64 & mask
        }
    }
}

/// The widest number that eight bytes hold wherever in the first of them it begins.
const BITS_PER_LOAD_MAX: u8 = 57;

fn mask_of(width: u8) -> u64 {
    u64::MAX.checked_shr(u64::BITS - u32::from(width)).unwrap_or(0)
}

/// Writes the first numbers of a packed list, which must hold them.
pub(crate) fn unpack(bytes: &[u8], width: u8, out: &mut [u64]) {
    if width == 0 {
        return out.fill(0);
    }
    let done = match width {
        1..=BITS_PER_LOAD_MAX => EIGHTS[usize::from(width) - 1](bytes, out),
        _ => 0,
    };
    for (index, number) in out.iter_mut().enumerate().skip(done) {
        *number = packed_at(bytes, width, index);
    }
}

/// What is done to as many numbers of a width as can be loaded with eight bytes each, by eights; each says how many.
type UnpackEights = fn(&[u8], &mut [u64]) -> usize;
type CompareEights = fn(&[u8], usize, u64) -> (usize, bool);

macro_rules! of_each_width {
    ($eights:ident) => { of_each_width!($eights 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28
        29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57) };
    ($eights:ident $($width:literal)*) => { [$($eights::<$width>),*] };
}

/// By width, from 1 on.
const EIGHTS: [UnpackEights; BITS_PER_LOAD_MAX as usize] = of_each_width!(unpack_eights);
const EIGHTS_COMPARED: [CompareEights; BITS_PER_LOAD_MAX as usize] = of_each_width!(compare_eights);

/// How many eights of numbers can be loaded with eight bytes each.
fn eights_in<const WIDTH: usize>(bytes: &[u8], count: usize) -> usize {
    (bytes.len().saturating_sub(8) / WIDTH).min(count / 8)
}

/// The number at `index` of eight, of which each begins where it always does: a quarter of the time of positions that are
/// computed.
#[inline(always)]
fn one_of_eight<const WIDTH: usize>(packed: &[u8], index: usize) -> u64 {
    let (byte, bit) = (index * WIDTH / 8, index * WIDTH % 8);
    let word = packed[byte..byte + 8].try_into().expect("eight bytes were cut");
    (u64::from_le_bytes(word) >> bit) & mask_of(WIDTH as u8)
}

fn unpack_eights<const WIDTH: usize>(bytes: &[u8], out: &mut [u64]) -> usize {
    let eights = eights_in::<WIDTH>(bytes, out.len());
    for (number, eight) in out.chunks_exact_mut(8).take(eights).enumerate() {
        let packed = &bytes[number * WIDTH..(number + 1) * WIDTH + 8];
        for (index, number) in eight.iter_mut().enumerate() {
            *number = one_of_eight::<WIDTH>(packed, index);
        }
    }
    eights * 8
}

fn compare_eights<const WIDTH: usize>(bytes: &[u8], count: usize, wanted: u64) -> (usize, bool) {
    let eights = eights_in::<WIDTH>(bytes, count);
    let mut found = false;
    for number in 0..eights {
        let packed = &bytes[number * WIDTH..(number + 1) * WIDTH + 8];
        for index in 0..8 {
            found |= one_of_eight::<WIDTH>(packed, index) == wanted;
        }
    }
    (eights * 8, found)
}

/// Whether a number is among the first `count` of a packed list, which must hold them. What is compared is not written
/// anywhere: a third of the time of [`unpack`] and a look.
pub(crate) fn has_packed(bytes: &[u8], width: u8, count: usize, wanted: u64) -> bool {
    if width_of(wanted) > width {
        return false;
    }
    if width == 0 {
        return count > 0;
    }
    let (done, found) = match width {
        1..=BITS_PER_LOAD_MAX => EIGHTS_COMPARED[usize::from(width) - 1](bytes, count, wanted),
        _ => (0, false),
    };
    found || (done..count).any(|index| packed_at(bytes, width, index) == wanted)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn packed_numbers_are_found_one_by_one(width in 0..=64u8, words in vec(any::<u64>(), 1..70)) {
            let numbers: Vec<u64> = words.iter().map(|word| word & mask_of(width)).collect();
            let mut bytes = Vec::new();
            put_packed(numbers.iter().copied(), width, &mut bytes);
            prop_assert_eq!(bytes.len(), packed_len(numbers.len(), width));
            for (index, number) in numbers.iter().enumerate() {
                prop_assert_eq!(packed_at(&bytes, width, index), *number);
            }
            let mut unpacked = vec![1; numbers.len()];
            unpack(&bytes, width, &mut unpacked);
            prop_assert_eq!(&unpacked, &numbers);
            for count in [0, 1, numbers.len() / 2, numbers.len()] {
                for wanted in numbers.iter().copied().chain([0, 1, u64::MAX]) {
                    let has = has_packed(&bytes, width, count, wanted);
                    prop_assert_eq!(has, numbers[..count].contains(&wanted));
                }
            }
        }
    }
}

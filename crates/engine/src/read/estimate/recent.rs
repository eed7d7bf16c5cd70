//! Places for what was met last, so that what comes again soon is mostly found with one look.

/// How many there are.
pub const RECENT: usize = 1 << RECENT_BITS;
const RECENT_BITS: u32 = 9;

/// The place of a number: multiplied, because numbers often differ in their lowest bits, or in none of these (Knuth, The Art of
/// Computer Programming, 6.4).
#[inline]
pub fn recent_place(number: u64) -> usize {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - RECENT_BITS)) as usize
}

//! The fixed-width values that columns hold: their order as bytes, their little-endian form, and what they are multiples of.

use std::sync::Arc;

use arrow_array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_schema::DataType;

use crate::packed::width_of;

/// A native value of fixed width.
pub(crate) trait Fixed: Copy {
    /// Bytes of a value.
    const WIDTH: usize;
    /// Whether differences of values are exact, so that a column can be stored as distances.
    const IS_INTEGER: bool;

    /// Writes `WIDTH` bytes whose bytewise order is the order of values. Floats are normalised:
    /// -0.0 is written as 0.0, every NaN as the one that is greater than all numbers.
    fn put_ordered(self, out: &mut [u8]);
    /// Reads `WIDTH` bytes written by [`Fixed::put_ordered`].
    fn from_ordered(bytes: &[u8]) -> Self;
    fn put_le(self, out: &mut Vec<u8>);
    fn read_le(bytes: &[u8]) -> Self;
    /// Some total order in which only values of the same bits are equal.
    fn precedes(self, other: Self) -> bool;
    /// The least and the greatest of some values, which are so in Arrow's total order, as bounds that hold
    /// in any order of floats: a zero takes the sign that lies further out. `None` if a value is NaN.
    fn bounds(least: Self, greatest: Self) -> Option<(Self, Self)>;
    /// The least of all integers of the type.
    fn least() -> Self;
    /// How far an integer lies above `floor`.
    fn distance_from(self, floor: Self) -> u64;
    /// The integer that lies `distance` above `self`, wrapping.
    fn plus(self, distance: u64) -> Self;
    /// How many powers of ten a value can be multiplied by to become an integer, 10^0 among them: 0 of integers, whose
    /// distances are exact anyway.
    const SCALES: u8;
    /// What an integer that a value was multiplied to stays below: so far that neither the rounding of the value nor that
    /// of the product comes near to half of one, so each scale that is large enough gives the same value.
    const SCALED_END: i64;
    /// The integer below [`Fixed::SCALED_END`] that, divided by 10^`scale`, is this value to the bit, if there is one.
    fn scaled(self, scale: u8) -> Option<i64>;
    /// The value of such an integer.
    fn of_scaled(integer: i64, scale: u8) -> Self;
}

/// An array of values as a column of a type has them, which may say more than the values: a time zone, or digits.
pub(crate) fn typed<T: ArrowPrimitiveType>(
    array: PrimitiveArray<T>,
    data_type: &DataType,
) -> ArrayRef {
    match T::DATA_TYPE == *data_type {
        true => Arc::new(array),
        false => Arc::new(array.with_data_type(data_type.clone())),
    }
}

/// By which power of ten some numbers are integers, and which: grows number by number.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Scaling {
    #[default]
    Nothing,
    Of {
        scale: u8,
        least: i64,
        greatest: i64,
    },
    /// Some number is no such integer.
    Impossible,
}

impl Scaling {
    /// Takes in one more number. One multiplication and one division, as long as the scale stays.
    #[inline]
    pub fn push<N: Fixed>(&mut self, value: N) {
        let (scale, least, greatest) = match *self {
            Scaling::Impossible => return,
            Scaling::Nothing => (0, None, None),
            Scaling::Of { scale, least, greatest } => (scale, Some(least), Some(greatest)),
        };
        let found = (scale..N::SCALES).find_map(|scale| Some((scale, value.scaled(scale)?)));
        *self = found
            .and_then(|(found, integer)| {
                // Integers that are multiplied stay exact while they are small enough.
                let raised = |integer: i64| {
                    let factor = 10i64.pow(u32::from(found - scale));
                    let raised = integer.checked_mul(factor)?;
                    (factor == 1 || raised.unsigned_abs() < N::SCALED_END as u64).then_some(raised)
                };
                let least =
                    least.map_or(Some(integer), |least| Some(raised(least)?.min(integer)))?;
                let greatest = greatest
                    .map_or(Some(integer), |greatest| Some(raised(greatest)?.max(integer)))?;
                Some(Scaling::Of { scale: found, least, greatest })
            })
            .unwrap_or(Scaling::Impossible);
    }

    /// The scale, the least integer, and the bits of the widest distance from it.
    pub fn form(self) -> Option<(u8, i64, u8)> {
        match self {
            Scaling::Of { scale, least, greatest } => {
                Some((scale, least, width_of(greatest.wrapping_sub(least) as u64)))
            }
            _ => None,
        }
    }

    pub fn width(self) -> Option<u8> {
        self.form().map(|(_, _, width)| width)
    }
}

/// Powers of ten that a float is multiplied by at most. All are exact, so a division by one rounds once.
const POWERS: [f64; 15] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14];

macro_rules! fixed_integer {
    ($($native:ty as $unsigned:ty),*) => {$(
        impl Fixed for $native {
            const WIDTH: usize = size_of::<$native>();
            const IS_INTEGER: bool = true;

            fn put_ordered(self, out: &mut [u8]) {
                // `MIN` has exactly the sign bit set, or nothing where there is no sign.
                let flipped = self as $unsigned ^ <$native>::MIN as $unsigned;
                out.copy_from_slice(&flipped.to_be_bytes());
            }
            fn from_ordered(bytes: &[u8]) -> Self {
                let bytes = bytes.try_into().expect("the caller cut the width of the type");
                (<$unsigned>::from_be_bytes(bytes) ^ <$native>::MIN as $unsigned) as $native
            }
            fn put_le(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn read_le(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("the caller cut the width of the type"))
            }
            fn precedes(self, other: Self) -> bool {
                self < other
            }
            fn bounds(least: Self, greatest: Self) -> Option<(Self, Self)> {
                Some((least, greatest))
            }
            fn least() -> Self {
                <$native>::MIN
            }
            fn distance_from(self, floor: Self) -> u64 {
                u64::from(self.wrapping_sub(floor) as $unsigned)
            }
            fn plus(self, distance: u64) -> Self {
                self.wrapping_add(distance as $native)
            }
            const SCALES: u8 = 0;
            const SCALED_END: i64 = 0;
            fn scaled(self, _scale: u8) -> Option<i64> {
                unreachable!("integers are stored as distances")
            }
            fn of_scaled(_integer: i64, _scale: u8) -> Self {
                unreachable!("integers are stored as distances")
            }
        }
    )*};
}

fixed_integer!(i8 as u8, i16 as u16, i32 as u32, i64 as u64);
fixed_integer!(u8 as u8, u16 as u16, u32 as u32, u64 as u64);

impl Fixed for i128 {
    const WIDTH: usize = 16;
    // Distances are 64-bit, so wide integers are stored as they are.
    const IS_INTEGER: bool = false;

    fn put_ordered(self, out: &mut [u8]) {
        out.copy_from_slice(&(self ^ i128::MIN).to_be_bytes());
    }
    fn from_ordered(bytes: &[u8]) -> Self {
        let bytes = bytes.try_into().expect("the caller cut the width of the type");
        i128::from_be_bytes(bytes) ^ i128::MIN
    }
    fn put_le(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
    fn read_le(bytes: &[u8]) -> Self {
        Self::from_le_bytes(bytes.try_into().expect("the caller cut the width of the type"))
    }
    fn precedes(self, other: Self) -> bool {
        self < other
    }
    fn bounds(least: Self, greatest: Self) -> Option<(Self, Self)> {
        Some((least, greatest))
    }
    fn least() -> Self {
        unreachable!("wide integers are not stored as distances")
    }
    fn distance_from(self, _floor: Self) -> u64 {
        unreachable!("wide integers are not stored as distances")
    }
    fn plus(self, _distance: u64) -> Self {
        unreachable!("wide integers are not stored as distances")
    }
    const SCALES: u8 = 1;
    const SCALED_END: i64 = i64::MAX;
    fn scaled(self, _scale: u8) -> Option<i64> {
        i64::try_from(self).ok()
    }
    fn of_scaled(integer: i64, _scale: u8) -> Self {
        i128::from(integer)
    }
}

macro_rules! fixed_float {
    ($($native:ty as $bits:ty, NaN $nan:literal);*) => {$(
        impl Fixed for $native {
            const WIDTH: usize = size_of::<$native>();
            const IS_INTEGER: bool = false;

            fn put_ordered(self, out: &mut [u8]) {
                // Adding 0.0 turns -0.0 into 0.0 and changes nothing else.
                let bits: $bits = if self.is_nan() { $nan } else { (self + 0.0).to_bits() };
                let sign = 1 << (<$bits>::BITS - 1);
                let flipped = if bits & sign == 0 { bits | sign } else { !bits };
                out.copy_from_slice(&flipped.to_be_bytes());
            }
            fn from_ordered(bytes: &[u8]) -> Self {
                let bytes = bytes.try_into().expect("the caller cut the width of the type");
                let flipped = <$bits>::from_be_bytes(bytes);
                let sign = 1 << (<$bits>::BITS - 1);
                Self::from_bits(if flipped & sign == 0 { !flipped } else { flipped ^ sign })
            }
            fn put_le(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn read_le(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("the caller cut the width of the type"))
            }
            fn precedes(self, other: Self) -> bool {
                self.to_bits() < other.to_bits()
            }
            fn bounds(least: Self, greatest: Self) -> Option<(Self, Self)> {
                // In the total order NaNs lie outside of all numbers, on the side of their sign.
                let outward = |value: Self, zero: Self| if value == 0.0 { zero } else { value };
                let has_nan = least.is_nan() || greatest.is_nan();
                (!has_nan).then(|| (outward(least, -0.0), outward(greatest, 0.0)))
            }
            fn least() -> Self {
                unreachable!("floats are not stored as distances")
            }
            fn distance_from(self, _floor: Self) -> u64 {
                unreachable!("floats are not stored as distances")
            }
            fn plus(self, _distance: u64) -> Self {
                unreachable!("floats are not stored as distances")
            }
            const SCALES: u8 = POWERS.len() as u8;
            const SCALED_END: i64 = 1 << (<$native>::MANTISSA_DIGITS - 3);
            #[inline]
            fn scaled(self, scale: u8) -> Option<i64> {
                let multiple = f64::from(self) * POWERS[usize::from(scale)];
                // Rounded by half, away from zero; what is too large becomes the largest.
                let integer = (multiple + 0.5f64.copysign(multiple)) as i64;
                let is_exact = integer.unsigned_abs() < Self::SCALED_END as u64
                    && Self::of_scaled(integer, scale).to_bits() == self.to_bits();
                is_exact.then_some(integer)
            }
            #[inline]
            fn of_scaled(integer: i64, scale: u8) -> Self {
                (integer as f64 / POWERS[usize::from(scale)]) as $native
            }
        }
    )*};
}

fixed_float!(f32 as u32, NaN 0x7fc0_0000; f64 as u64, NaN 0x7ff8_0000_0000_0000);

/// Runs `$body` with `$Type` standing for the Arrow type of a fixed-width column, or `$otherwise`
/// for booleans, strings and whatever is not stored at all.
macro_rules! with_fixed_type {
    ($data_type:expr, $Type:ident => $body:expr, $otherwise:expr) => {{
        use arrow_array::types as t;
        use arrow_schema::{DataType as D, TimeUnit as U};
        match $data_type {
            D::Int8 => {
                type $Type = t::Int8Type;
                $body
            }
            D::Int16 => {
                type $Type = t::Int16Type;
                $body
            }
            D::Int32 => {
                type $Type = t::Int32Type;
                $body
            }
            D::Int64 => {
                type $Type = t::Int64Type;
                $body
            }
            D::UInt8 => {
                type $Type = t::UInt8Type;
                $body
            }
            D::UInt16 => {
                type $Type = t::UInt16Type;
                $body
            }
            D::UInt32 => {
                type $Type = t::UInt32Type;
                $body
            }
            D::UInt64 => {
                type $Type = t::UInt64Type;
                $body
            }
            D::Float32 => {
                type $Type = t::Float32Type;
                $body
            }
            D::Float64 => {
                type $Type = t::Float64Type;
                $body
            }
            D::Date32 => {
                type $Type = t::Date32Type;
                $body
            }
            D::Decimal128(_, _) => {
                type $Type = t::Decimal128Type;
                $body
            }
            D::Timestamp(U::Second, _) => {
                type $Type = t::TimestampSecondType;
                $body
            }
            D::Timestamp(U::Millisecond, _) => {
                type $Type = t::TimestampMillisecondType;
                $body
            }
            D::Timestamp(U::Microsecond, _) => {
                type $Type = t::TimestampMicrosecondType;
                $body
            }
            D::Timestamp(U::Nanosecond, _) => {
                type $Type = t::TimestampNanosecondType;
                $body
            }
            _ => $otherwise,
        }
    }};
}
pub(crate) use with_fixed_type;

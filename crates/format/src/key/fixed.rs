//! The fixed-width values that columns hold: their order as bytes, and their little-endian form.

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
    /// How far an integer lies above `floor`.
    fn distance_from(self, floor: Self) -> u64;
    /// The integer that lies `distance` above `self`, wrapping.
    fn plus(self, distance: u64) -> Self;
}

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
            fn distance_from(self, floor: Self) -> u64 {
                u64::from(self.wrapping_sub(floor) as $unsigned)
            }
            fn plus(self, distance: u64) -> Self {
                self.wrapping_add(distance as $native)
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
    fn distance_from(self, _floor: Self) -> u64 {
        unreachable!("wide integers are not stored as distances")
    }
    fn plus(self, _distance: u64) -> Self {
        unreachable!("wide integers are not stored as distances")
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
            fn distance_from(self, _floor: Self) -> u64 {
                unreachable!("floats are not stored as distances")
            }
            fn plus(self, _distance: u64) -> Self {
                unreachable!("floats are not stored as distances")
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

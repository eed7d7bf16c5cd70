//! How a file is packed, by its first bytes.

/// What a file was packed by.
///
/// ```
/// use drillcore_sql::Packing;
///
/// assert_eq!(Packing::of(&[0x1f, 0x8b, 8, 0]), Packing::Gzip);
/// assert_eq!(Packing::of(b"carrier,delay"), Packing::None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Packing {
    /// It is as it is read.
    None,
    /// gzip, in one member or several.
    Gzip,
    /// zstd.
    Zstd,
}

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// Behind any byte from 0x50 to 0x5f: a frame of zstd that is to be skipped, with which some writers begin.
const ZSTD_SKIPPABLE: &[u8] = &[0x2a, 0x4d, 0x18];

impl Packing {
    /// As many bytes show it.
    pub const BEGINNING_BYTES: usize = ZSTD.len();

    /// The packing of a file that begins with these bytes, or with more. No text begins so, nor Parquet or Arrow.
    pub fn of(beginning: &[u8]) -> Packing {
        match beginning {
            _ if beginning.starts_with(GZIP) => Packing::Gzip,
            _ if beginning.starts_with(ZSTD) => Packing::Zstd,
            [0x50..=0x5f, rest @ ..] if rest.starts_with(ZSTD_SKIPPABLE) => Packing::Zstd,
            _ => Packing::None,
        }
    }
}

//! Groups: the rows of a segment, cut at the same ordinals for all its streams.

use arrow_schema::DataType;

use crate::rows::Layout;

/// The most rows of a group: enough that a page of five bits a value fills five pages of the disk, and so few that a
/// thread's groups fit the processor's cache.
pub const GROUP_ROWS_MAX: u64 = 32 << 10;
/// The fewest: smaller pages would not be worth reading by themselves.
pub const GROUP_ROWS_MIN: u64 = 1 << 10;
/// Bytes of all columns of a group, unpacked, which a writer holds until the group is whole.
const GROUP_BYTES: u64 = 8 << 20;
/// Bytes that a text is taken for.
const TEXT_BYTES: u64 = 16;

/// Rows of a group in new segments of a table: a power of two, smaller the more columns there are.
pub fn group_rows(layout: &Layout) -> u64 {
    let types = layout.key_types().iter().chain(layout.value_types());
    let width = |of: &DataType| of.primitive_width().map_or(TEXT_BYTES, |width| width as u64);
    let fitting = GROUP_BYTES / types.map(width).sum::<u64>().max(1);
    let power_below = 1u64 << (u64::BITS - 1 - fitting.max(1).leading_zeros());
    power_below.clamp(GROUP_ROWS_MIN, GROUP_ROWS_MAX)
}

/// Whether a group can have that number of rows.
pub fn is_group_rows(rows: u64) -> bool {
    rows.is_power_of_two() && (GROUP_ROWS_MIN..=GROUP_ROWS_MAX).contains(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tests::of_types;

    #[test]
    fn a_group_has_fewer_rows_the_more_columns_there_are() {
        let rows = |columns: usize| group_rows(&of_types(&vec![DataType::Int64; columns]));
        assert_eq!(
            [1, 12, 32, 33, 100, 1000, 5000].map(rows),
            [32768, 32768, 32768, 16384, 8192, 1024, 1024]
        );
        assert!([1, 40, 1000].into_iter().all(|columns| is_group_rows(rows(columns))));
        assert!(![0, 512, 3000, 65536].into_iter().any(is_group_rows));
    }
}

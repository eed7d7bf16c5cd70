use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::error::Result;
use crate::key::arbitrary::{Cell, cell};
use crate::rows::tests::table;
use crate::rows::{Layout, Rows};
use crate::schema::TableSchema;

/// Strings around the length at which bounds are cut, of characters of one to four bytes, many of them
/// before a gap or the end of the code points.
fn strings() -> impl Strategy<Value = Vec<Option<String>>> {
    let letter =
        select(vec!['a', '\u{7f}', 'é', '\u{7ff}', '\u{d7ff}', '語', '\u{ffff}', '🜚', char::MAX]);
    let mixed = vec(letter.clone(), 0..40).prop_map(|letters| letters.into_iter().collect());
    let same = (letter, 0..40usize).prop_map(|(letter, len)| letter.to_string().repeat(len));
    vec(prop::option::weighted(0.9, prop_oneof![mixed, same]), 1..8)
}

fn layout_of(columns: Vec<Field>, key: Vec<usize>) -> Layout {
    let columns = Arc::new(Schema::new(columns));
    Layout::new(&TableSchema::new(columns, key))
}

/// The page of zones of rows as they come in, in blocks with the given numbers of rows and bytes.
fn written(layout: &Layout, batches: &[&Rows], blocks: &[(usize, usize)]) -> Vec<u8> {
    let mut builder = StatisticsPageBuilder::new(layout);
    for rows in batches {
        builder.begin_batch(layout.stored_columns(rows).unwrap());
        let (mut left, mut blocks) = (rows.len(), blocks.iter().cycle());
        while left > 0 {
            let &(len, bytes) = blocks.next().unwrap();
            builder.push_block(len.min(left), bytes);
            left -= len.min(left);
        }
        builder.end_batch();
    }
    builder.finish()
}

fn read(layout: &Layout, payload: &[u8], rows: u64) -> Result<Zones> {
    let columns: Vec<usize> = (0..layout.schema().columns.fields().len()).collect();
    let mut builder = ZonesBuilder::new(layout, &columns, 1000);
    builder.append_page(payload, rows)?;
    builder.finish()
}

/// The order of two values, if the order of numbers and the total order of floats agree on it.
fn order(left: (&ArrayRef, usize), right: (&ArrayRef, usize)) -> Option<Ordering> {
    let float = |(array, row): (&ArrayRef, usize)| match array.data_type() {
        DataType::Float32 => Some(f64::from(array.as_primitive::<Float32Type>().value(row))),
        DataType::Float64 => Some(array.as_primitive::<Float64Type>().value(row)),
        _ => None,
    };
    match (float(left), float(right)) {
        (Some(left), Some(right)) => {
            let by_number = left.partial_cmp(&right)?;
            let total = left.total_cmp(&right);
            (by_number.is_eq() || by_number == total).then_some(total)
        }
        _ => Some(cell(left.0, left.1).cmp(&cell(right.0, right.1))),
    }
}

/// What is wrong with what is said of one zone of a column.
fn fault(
    column: &ArrayRef,
    zone: Range<usize>,
    said: &ColumnZones,
    number: usize,
) -> Option<String> {
    let nulls = zone.clone().filter(|&row| column.is_null(row)).count() as u64;
    if said.null_counts.value(number) != nulls {
        return Some(format!("{nulls} nulls, not {}", said.null_counts.value(number)));
    }
    let present: Vec<usize> = zone.filter(|&row| column.is_valid(row)).collect();
    for &row in &present {
        let (min, max) = ((&said.mins, number), (&said.maxes, number));
        if said.mins.is_valid(number) && !order(min, (column, row)).is_some_and(Ordering::is_le) {
            return Some(format!("{:?} lies below the minimum", cell(column, row)));
        }
        if said.maxes.is_valid(number) && !order((column, row), max).is_some_and(Ordering::is_le) {
            return Some(format!("{:?} lies above the maximum", cell(column, row)));
        }
    }
    let is_nan = |&row: &usize| order((column, row), (column, row)).is_none();
    // Bytes and lists have no bounds.
    let has_bounds = !matches!(column.data_type(), DataType::Binary | DataType::List(_));
    let known = has_bounds && !present.is_empty() && !present.iter().any(is_nan);
    let least = present.iter().map(|&row| cell(column, row)).min();
    let greatest = present.iter().map(|&row| cell(column, row)).max();
    let said_min = said.mins.is_valid(number).then(|| cell(&said.mins, number));
    let said_max = said.maxes.is_valid(number).then(|| cell(&said.maxes, number));
    let (least, greatest) = (least.filter(|_| known), greatest.filter(|_| known));
    let tight = match (&least, &greatest) {
        (Some(Cell::Str(least)), Some(Cell::Str(greatest))) => {
            let cut = |string: &str| string.len() > 32;
            let min_fits = match &said_min {
                Some(Cell::Str(min)) if cut(least) => min.len() > 28 && least.starts_with(min),
                min => *min == Some(Cell::Str(least.clone())),
            };
            let max_fits = match &said_max {
                Some(Cell::Str(max)) if cut(greatest) => max.len() <= 35,
                None => cut(greatest) && greatest.starts_with(&char::MAX.to_string().repeat(8)),
                max => *max == Some(Cell::Str(greatest.clone())),
            };
            min_fits && max_fits
        }
        _ => said_min == least && said_max == greatest,
    };
    (!tight).then(|| format!("{said_min:?} to {said_max:?} for {least:?} to {greatest:?}"))
}

fn check(zones: &Zones, columns: &[ArrayRef], rows: usize) -> std::result::Result<(), String> {
    let mut next = 0;
    for zone in 0..zones.len() {
        let ordinals = zones.ordinals(zone);
        assert_eq!(ordinals.start, 1000 + next as u64, "zones follow each other");
        let rows = next..(ordinals.end - 1000) as usize;
        next = rows.end;
        for (number, column) in columns.iter().enumerate() {
            let said = zones.column(number).expect("every column was asked for");
            if let Some(fault) = fault(column, rows.clone(), said, zone) {
                return Err(format!("zone {zone}, column {number}: {fault}"));
            }
        }
    }
    assert_eq!(next, rows, "zones cover all rows");
    Ok(())
}

proptest! {
    #[test]
    fn zones_bound_every_value_tightly_and_count_every_null(
        (schema, batch) in table(1..60),
        blocks in vec((1..8usize, prop_oneof![Just(100usize), Just(4096)]), 1..8),
    ) {
        let layout = Layout::new(&schema);
        let rows = layout.encode(&batch);
        let zones = read(&layout, &written(&layout, &[&rows], &blocks), rows.len() as u64).unwrap();
        let columns = layout.stored_columns(&rows).unwrap();
        prop_assert_eq!(check(&zones, &columns, rows.len()), Ok(()));
    }

    #[test]
    fn strings_of_any_length_and_characters_lie_between_their_bounds(strings in strings()) {
        let layout = layout_of(vec![Field::new("s", DataType::Utf8, true)], vec![]);
        let column: ArrayRef = Arc::new(StringArray::from(strings));
        let batch = RecordBatch::try_new(layout.schema().columns.clone(), vec![column.clone()]);
        let rows = layout.encode(&batch.unwrap());
        let zones = read(&layout, &written(&layout, &[&rows], &[(3, 4096)]), rows.len() as u64);
        prop_assert_eq!(check(&zones.unwrap(), &[column], rows.len()), Ok(()));
    }

    #[test]
    fn zones_of_several_batches_are_those_of_each(
        (schema, batch) in table(2..40), cut in any::<prop::sample::Index>(),
    ) {
        let layout = Layout::new(&schema);
        let rows = layout.encode(&batch);
        let cut = 1 + cut.index(rows.len() - 1);
        let parts = [rows.slice(0, cut), rows.slice(cut, rows.len() - cut)];
        let payload = written(&layout, &[&parts[0], &parts[1]], &[(4, 4096)]);
        let zones = read(&layout, &payload, rows.len() as u64).unwrap();
        let columns = layout.stored_columns(&rows).unwrap();
        prop_assert_eq!(check(&zones, &columns, rows.len()), Ok(()));
        let spans: Vec<ZoneSpan> = (0..zones.len()).map(|zone| zones.span(zone)).collect();
        prop_assert_eq!(&zones, &Zones::measure(&layout, &rows, 1000, &spans).unwrap());
    }

    #[test]
    fn zones_that_overlap_ordinals_are_found_as_by_hand(
        lens in vec(1..5usize, 1..20), from in 990..1060u64, len in 0..40u64,
    ) {
        let layout = layout_of(vec![Field::new("n", DataType::Int64, false)], vec![]);
        let rows: usize = lens.iter().sum();
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
        let batch = RecordBatch::try_new(layout.schema().columns.clone(), vec![column]);
        let rows = layout.encode(&batch.unwrap());
        let blocks: Vec<(usize, usize)> = lens.iter().map(|&len| (len, 4096)).collect();
        let all = read(&layout, &written(&layout, &[&rows], &blocks), rows.len() as u64).unwrap();
        prop_assert_eq!(all.len(), lens.len());
        let wanted = from..from + len;
        let overlaps = |zone: &usize| {
            let ordinals = all.ordinals(*zone);
            ordinals.start.max(wanted.start) < ordinals.end.min(wanted.end)
        };
        let by_hand: Vec<_> = (0..all.len()).filter(overlaps).map(|zone| all.ordinals(zone)).collect();
        let found = all.overlapping(wanted.clone());
        let found: Vec<_> = (0..found.len()).map(|zone| found.ordinals(zone)).collect();
        prop_assert_eq!(found, by_hand);
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..120), rows in 0..20u64) {
        let layout = layout_of(vec![Field::new("s", DataType::Utf8, true)], vec![]);
        let _ = read(&layout, &bytes, rows);
    }
}

/// The biased twins of the check: bounds with classic mistakes.
#[test]
fn bounds_with_a_classic_mistake_fail_the_check() {
    let long: ArrayRef = Arc::new(StringArray::from(vec!["é".repeat(40), "a".repeat(40)]));
    let cut: ArrayRef = Arc::new(StringArray::from(vec!["é".repeat(16)]));
    let a: ArrayRef = Arc::new(StringArray::from(vec!["a".repeat(32)]));
    let zeros: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, 1.0]));
    let nan: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN, 2.0, 1.0]));
    let float = |value: f64| -> ArrayRef { Arc::new(Float64Array::from(vec![value])) };
    let null_counts = UInt64Array::from(vec![0]);
    for (mistake, column, mins, maxes, expected) in [
        ("a maximum cut but not incremented", &long, a, cut, "above the maximum"),
        ("a minimum of the other zero", &zeros, float(0.0), float(1.0), "below the minimum"),
        ("NaN left out", &nan, float(1.0), float(2.0), "below the minimum"),
        ("bounds that bound nothing", &zeros, float(-9.0), float(9.0), "for Some"),
    ] {
        let said = ColumnZones { mins, maxes, null_counts: null_counts.clone() };
        let found = fault(column, 0..column.len(), &said, 0).expect(mistake);
        assert!(found.contains(expected), "{mistake}: {found}");
    }
}

#[test]
fn a_zone_ends_with_the_blocks_that_outweigh_its_bounds() {
    let fields = |count: usize| -> Vec<Field> {
        (0..count).map(|at| Field::new(format!("c{at}"), DataType::Int64, false)).collect()
    };
    for (columns, blocks_in_zone) in [(10, 1), (32, 1), (33, 2), (1000, 32)] {
        let layout = layout_of(fields(columns), vec![]);
        let arrays = (0..columns)
            .map(|_| Arc::new(Int64Array::from_iter_values(0..64)) as ArrayRef)
            .collect();
        let batch = RecordBatch::try_new(layout.schema().columns.clone(), arrays).unwrap();
        let rows = layout.encode(&batch);
        let zones = read(&layout, &written(&layout, &[&rows], &[(1, 4096)]), 64).unwrap();
        let expected = vec![blocks_in_zone; 64 / blocks_in_zone as usize];
        assert_eq!(zones.blocks().values().to_vec(), expected, "{columns} columns");
    }
}

#[test]
fn a_column_added_later_is_null_in_older_zones() {
    let fields =
        vec![Field::new("a", DataType::Int64, false), Field::new("b", DataType::Utf8, true)];
    let narrow = layout_of(fields[..1].to_vec(), vec![]);
    let wide = layout_of(fields, vec![]);
    let column: ArrayRef = Arc::new(Int64Array::from(vec![3, 1, 2, 9]));
    let batch = RecordBatch::try_new(narrow.schema().columns.clone(), vec![column]).unwrap();
    let payload = written(&narrow, &[&narrow.encode(&batch)], &[(3, 4096)]);
    let zones = read(&wide, &payload, 4).unwrap();
    let added = zones.column(1).unwrap();
    assert_eq!(added.null_counts.values().to_vec(), [3, 1]);
    assert_eq!((added.mins.null_count(), added.maxes.null_count()), (2, 2));
    assert_eq!(
        zones.column(0).unwrap().maxes.as_primitive::<arrow_array::types::Int64Type>().value(0),
        3
    );
}

#[test]
fn a_page_that_describes_other_rows_is_malformed() {
    let layout = layout_of(vec![Field::new("a", DataType::Int64, false)], vec![]);
    let column: ArrayRef = Arc::new(Int64Array::from(vec![3, 1, 2, 9]));
    let batch = RecordBatch::try_new(layout.schema().columns.clone(), vec![column]).unwrap();
    let payload = written(&layout, &[&layout.encode(&batch)], &[(3, 4096)]);
    assert!(read(&layout, &payload, 4).is_ok());
    assert!(read(&layout, &payload, 5).unwrap_err().to_string().contains("do not have 5 rows"));
    for len in 0..payload.len() {
        assert!(read(&layout, &payload[..len], 4).is_err(), "{len} bytes");
    }
}

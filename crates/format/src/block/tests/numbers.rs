//! Numbers of a block: distances, weights and short decimals.

use arrow_array::{Float32Array, Float64Array, UInt8Array};

use super::*;
use crate::key::Keys;
use crate::key::fixed::{Fixed, Scaling};
use crate::weight::stored_units;

#[test]
fn distances_at_the_edges_of_their_widths_read_back() {
    let layout = table_of(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("value", DataType::Int64, false),
    ]);
    for edge in [1i64 << 8, 1 << 16, 1 << 32] {
        for greatest in [edge - 1, edge, edge + 1] {
            let values = vec![-7, greatest - 7, -6, -5, -4];
            let columns: Vec<ArrayRef> = vec![
                Arc::new(Int64Array::from_iter_values(0..5)),
                Arc::new(Int64Array::from(values)),
            ];
            let batch = RecordBatch::try_new(layout.schema().columns.clone(), columns).unwrap();
            let rows = layout.encode(&batch);
            let bytes = encoded(&rows, 0, 5);
            let view = BlockView::parse(&bytes, &layout).unwrap();
            assert_same(&fetch(&view, &layout.all(), 0, 5).unwrap(), &rows);
        }
    }
}

/// A column of weights in one of the encodings, some rows of it null.
fn weights() -> impl Strategy<Value = ArrayRef> {
    let some = |null: bool, value: u32| (!null).then_some(value);
    let rows = vec((any::<bool>(), any::<u32>()), 1..300);
    (0..5, 0..33u32, any::<bool>(), rows).prop_map(move |(form, shift, with_nulls, rows)| {
        let values = rows
            .iter()
            .map(|&(null, value)| some(null && with_nulls, value.checked_shr(shift).unwrap_or(0)));
        match form {
            0 => Arc::new(values.map(|v| v.map(|v| v as i64)).collect::<Int64Array>()) as ArrayRef,
            1 => Arc::new(values.map(|v| v.map(|v| v as u8)).collect::<UInt8Array>()),
            2 => Arc::new(values.map(|v| v.map(|v| v as f32)).collect::<Float32Array>()),
            3 => {
                Arc::new(values.map(|v| v.map(|v| f64::from(v) / 100.0)).collect::<Float64Array>())
            }
            _ => Arc::new(values.map(|v| v.map(|v| f64::from(v).sqrt())).collect::<Float64Array>()),
        }
    })
}

proptest! {
    #[test]
    fn units_of_weight_are_found_as_in_a_running_sum(
        weights in weights(),
        picks in vec(any::<Index>(), 1..8),
    ) {
        let field = Field::new("w", weights.data_type().clone(), true);
        let layout = table_of(vec![Field::new("k", DataType::Int64, false), field]);
        let keys = (0..weights.len() as u32).map(u32::to_be_bytes).collect();
        let units = stored_units(&weights).unwrap();
        let rows = Rows::new(weights.len(), Some(keys), vec![weights]);
        let bytes = encoded(&rows, 0, rows.len());
        let view = BlockView::parse(&bytes, &layout).unwrap();
        let weight = layout.stored(false, vec![0]);
        let mut sums = vec![0u128];
        units.iter().for_each(|&unit| sums.push(sums[sums.len() - 1] + u128::from(unit)));
        let total = sums[units.len()];
        prop_assert_eq!(view.row_of_unit(&weight, total).unwrap(), None);
        for pick in picks {
            let row = pick.index(units.len());
            prop_assert_eq!(view.weight_before(&weight, row).unwrap(), sums[row]);
            // The first unit of the row and its last, if it has any.
            if units[row] > 0 {
                let found = Some((row, units[row]));
                prop_assert_eq!(view.row_of_unit(&weight, sums[row]).unwrap(), found);
                prop_assert_eq!(view.row_of_unit(&weight, sums[row + 1] - 1).unwrap(), found);
            }
        }
    }
}

#[test]
fn a_number_that_is_no_weight_is_malformed() {
    let (key, weight) =
        (Field::new("k", DataType::Int64, false), Field::new("w", DataType::Int64, true));
    let layout = table_of(vec![key, weight]);
    let keys = Keys::from_iter([b"a", b"b"]);
    let rows = Rows::new(2, Some(keys), vec![Arc::new(Int64Array::from(vec![1, -1]))]);
    let bytes = encoded(&rows, 0, 2);
    let view = BlockView::parse(&bytes, &layout).unwrap();
    let error = view.row_of_unit(&layout.stored(false, vec![0]), 1).unwrap_err();
    assert!(error.to_string().contains("the weight of row 1 is Negative"), "{error}");
}

/// Floats that are short decimals, mostly, of few or many digits.
fn decimals() -> impl Strategy<Value = Vec<f64>> {
    let one =
        (any::<i64>(), 1..60u32, 0..12i32, 0..40u8).prop_map(|(digits, bits, scale, kind)| {
            match kind {
                0 => -0.0,
                1 => f64::from_bits(digits as u64),
                _ => (digits >> bits) as f64 / 10f64.powi(scale),
            }
        });
    vec(one, 1..60)
}

proptest! {
    #[test]
    fn floats_read_back_to_the_bit(values in decimals()) {
        let layout = table_of(vec![
            Field::new("id", DataType::Int64, false),
            Field::new("wide", DataType::Float64, false),
            Field::new("short", DataType::Float32, false),
        ]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(0..values.len() as i64)),
            Arc::new(Float64Array::from(values.clone())),
            Arc::new(Float32Array::from_iter_values(values.iter().map(|value| *value as f32))),
        ];
        let batch = RecordBatch::try_new(layout.schema().columns.clone(), columns).unwrap();
        let rows = layout.encode(&batch);
        for (from, to) in [(0, values.len()), (values.len() / 2, values.len())] {
            let bytes = encoded(&rows, from, to);
            let view = BlockView::parse(&bytes, &layout).unwrap();
            let read = fetch(&view, &layout.all(), 0, to - from).unwrap();
            for (read, rows) in read.values().iter().zip(rows.slice(from, to - from).values()) {
                let bits = |array: &ArrayRef| array.to_data().buffers()[0].as_slice().to_vec();
                // A slice's buffer is whole.
                let copied = crate::rows::tests::taken(rows, &(0..rows.len() as u32).collect::<Vec<_>>());
                prop_assert_eq!(bits(read), bits(&copied));
            }
        }
    }

    #[test]
    fn a_scale_that_rose_is_that_of_all_numbers_before(values in decimals()) {
        let mut scaling = Scaling::default();
        values.iter().for_each(|value| scaling.push(*value));
        if let Some((scale, least, width)) = scaling.form() {
            for value in &values {
                let distance = value.scaled(scale).unwrap().wrapping_sub(least) as u64;
                prop_assert!(width == 64 || distance >> width == 0, "{value} of {values:?}");
            }
        }
        let short: Vec<f32> = values.iter().map(|value| *value as f32).collect();
        let mut scaling = Scaling::default();
        short.iter().for_each(|value| scaling.push(*value));
        if let Some((scale, least, width)) = scaling.form() {
            for value in &short {
                let distance = value.scaled(scale).unwrap().wrapping_sub(least) as u64;
                prop_assert!(width == 64 || distance >> width == 0, "{value} of {short:?}");
            }
        }
    }
}

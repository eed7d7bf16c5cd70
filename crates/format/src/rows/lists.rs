//! A list of strings as one byte string, the form in which lists are stored.
//!
//! So a list is compressed, moved and counted as any other string, and only who shows it takes it
//! apart. The bytes are drawn in `docs/format.md`, section "Stored values".

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, BinaryArray, ListArray, StringArray};
use arrow_buffer::{Buffer, NullBufferBuilder, OffsetBuffer};

use crate::cursor::{Cursor, put_varint};
use crate::error::Result;
use crate::schema::list_item;

/// Each item begins with 0 if it is null, else with one more than its length.
const NULL: u64 = 0;

/// One byte string a list, null for null. O(bytes).
///
/// Panics if the items are not strings, or the lists take 2 GiB.
pub(super) fn encode_lists(lists: &ListArray) -> BinaryArray {
    let items = lists.values().as_string::<i32>();
    let mut bytes = Vec::new();
    let mut offsets = Vec::with_capacity(lists.len() + 1);
    offsets.push(0i32);
    for (row, ends) in lists.value_offsets().windows(2).enumerate() {
        // A null may have items beneath it.
        let end = if lists.is_valid(row) { ends[1] } else { ends[0] };
        for item in ends[0] as usize..end as usize {
            if items.is_null(item) {
                put_varint(&mut bytes, NULL);
                continue;
            }
            let item = items.value(item).as_bytes();
            put_varint(&mut bytes, item.len() as u64 + 1);
            bytes.extend_from_slice(item);
        }
        offsets.push(i32::try_from(bytes.len()).expect("lists stay below 2 GiB"));
    }
    BinaryArray::new(OffsetBuffer::new(offsets.into()), bytes.into(), lists.nulls().cloned())
}

/// The lists that [`encode_lists`] was given. O(bytes); fails on bytes that are no lists of UTF-8.
pub(super) fn decode_lists(encoded: &BinaryArray) -> Result<ListArray> {
    let mut lists = Vec::with_capacity(encoded.len() + 1);
    let (mut bytes, mut ends, mut nulls) = (Vec::new(), vec![0i32], NullBufferBuilder::new(0));
    lists.push(0i32);
    for list in encoded.iter() {
        let mut cursor = Cursor::new(list.unwrap_or_default(), "list");
        while !cursor.is_empty() {
            let item = match cursor.varint()? {
                NULL => None,
                len => Some(text(&mut cursor, len - 1)?),
            };
            bytes.extend_from_slice(item.unwrap_or_default().as_bytes());
            // The strings, and their number, are smaller than `encoded`, whose ends are 32-bit.
            ends.push(bytes.len() as i32);
            nulls.append(item.is_some());
        }
        lists.push(ends.len() as i32 - 1);
    }
    let items =
        StringArray::new(OffsetBuffer::new(ends.into()), Buffer::from(bytes), nulls.finish());
    let lists = OffsetBuffer::new(lists.into());
    Ok(ListArray::new(list_item(), lists, Arc::new(items), encoded.nulls().cloned()))
}

fn text<'a>(cursor: &mut Cursor<'a>, len: u64) -> Result<&'a str> {
    let too_long = |_| cursor.error("an item is longer than memory");
    let len = usize::try_from(len).map_err(too_long)?;
    let bytes = cursor.take(len)?;
    std::str::from_utf8(bytes).map_err(|_| cursor.error("an item is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use arrow_array::builder::{ListBuilder, StringBuilder};
    use arrow_buffer::NullBuffer;

    use super::*;

    #[test]
    fn an_item_is_its_length_and_its_bytes() {
        let mut lists = ListBuilder::new(StringBuilder::new());
        lists.append_value([Some("ab"), None, Some("")]);
        lists.append_value([None::<&str>; 0]);
        lists.append_null();
        let lists = lists.finish();
        let encoded = encode_lists(&lists);
        assert_eq!(encoded.value(0), [3, b'a', b'b', 0, 1]);
        assert_eq!((encoded.value(1), encoded.is_valid(1)), (&[][..], true));
        assert!(encoded.is_null(2));
        assert_eq!(decode_lists(&encoded).unwrap(), lists);
    }

    #[test]
    fn items_beneath_a_null_are_not_stored() {
        let items = Arc::new(StringArray::from(vec!["a", "b", "c"]));
        let ends = OffsetBuffer::new(vec![0, 1, 2, 3].into());
        let nulls = NullBuffer::from(vec![true, false, true]);
        let lists = ListArray::new(list_item(), ends, items, Some(nulls));
        let encoded = encode_lists(&lists.slice(1, 2));
        assert_eq!(encoded.value_data(), [2, b'c']);
        assert_eq!(decode_lists(&encoded).unwrap(), lists.slice(1, 2));
    }

    #[test]
    fn bytes_that_are_no_list_are_malformed() {
        let cut_short = [2, b'a', 3, b'b'];
        let not_utf_8 = [3, 0xff, 0xff];
        let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, b'a'];
        for bytes in [&cut_short[..], &not_utf_8, &huge, &[0x80]] {
            let encoded = BinaryArray::from_iter_values([&[2, b'a'], bytes]);
            assert!(decode_lists(&encoded).is_err(), "{bytes:?}");
        }
    }
}

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
struct Block {
    separator: Vec<u8>,
    rows: u32,
    pages: u32,
    extent_bytes: u64,
    hashes: Vec<u64>,
    /// One small, one that takes more than 64 bits.
    weights: [u128; 2],
}

/// Blocks with ascending separators over a small alphabet, so that equal ones are common; every row
/// count and page count width occurs.
fn any_blocks() -> impl Strategy<Value = Vec<Block>> {
    let rows = prop_oneof![1u32..5, 1u32..500, 1u32..200_000];
    let pages = prop_oneof![Just(1u32), 1u32..300, 1u32..100_000];
    let block = (
        prop::collection::vec(0u8..3, 0..6),
        rows,
        pages,
        prop::collection::vec(any::<u64>(), 1..20),
        [0u128..4, 0u128..1 << 100],
        prop_oneof![Just(0u64), 1u64..5000, 0u64..1 << 30],
    );
    let blocks = prop::collection::vec(block, 1..60);
    (blocks, prop::collection::vec(any::<u8>(), 0..300), any::<bool>()).prop_map(
        |(blocks, prefix, has_extents)| {
            let mut separators: Vec<Vec<u8>> =
                blocks.iter().map(|block| [&prefix[..], &block.0[..]].concat()).collect();
            separators.sort();
            blocks
                .into_iter()
                .zip(separators)
                .map(|((_, rows, pages, mut hashes, weights, extent_bytes), separator)| {
                    // A row takes a byte at least, and has one key.
                    let rows = rows.min(pages * PAGE_BYTES as u32);
                    hashes.truncate(rows as usize);
                    let extent_bytes = if has_extents { extent_bytes } else { 0 };
                    Block { separator, rows, pages, extent_bytes, hashes, weights }
                })
                .collect()
        },
    )
}

fn encode(builder: &mut IndexPageBuilder, blocks: &[Block]) -> FinishedIndexPage {
    for block in blocks {
        let Block { separator, rows, pages, extent_bytes, hashes, weights } = block;
        builder.push(separator, *rows, *pages, *extent_bytes, hashes, weights);
    }
    assert_eq!(builder.len(), blocks.len());
    assert_eq!(builder.first_separator(), blocks[0].separator);
    builder.finish(1000, 8192)
}

fn places(blocks: &[Block]) -> Vec<BlockPlace> {
    let (mut first_ordinal, mut offset) = (1000, 8192);
    let place = |(number, block): (usize, &Block)| {
        let bytes = block.pages * PAGE_BYTES as u32;
        let extent_bytes = block.extent_bytes.next_multiple_of(1024);
        let rows = block.rows;
        let place = BlockPlace { first_ordinal, rows, offset, bytes, extent_bytes, number };
        first_ordinal += u64::from(block.rows);
        offset += u64::from(bytes);
        place
    };
    blocks.iter().enumerate().map(place).collect()
}

/// Separators that begin alike for longer than what is compared at first.
#[test]
fn a_separator_that_is_less_than_the_one_before_is_damage() {
    let page_of = |separators: [&[u8]; 2]| {
        let mut builder = IndexPageBuilder::new();
        for separator in [&[], separators[0], separators[1]] {
            builder.push(separator, 1, 1, 0, &[1], &[]);
        }
        builder.finish(0, 4096).payload
    };
    for less in [&b"separator"[..], b"separate", b"s", b"separator\0"] {
        let greater = [less, b"\0"].concat();
        assert!(IndexPage::parse(&page_of([less, &greater])).is_ok());
    }
    let mut swapped = page_of([b"separator1", b"separator2"]);
    let second = swapped.len() - 1;
    swapped[second] = b'0';
    let error = IndexPage::parse(&swapped).unwrap_err().to_string();
    assert!(error.contains("separator 2 is less than the one before"), "{error}");
}

proptest! {
    #[test]
    fn leading_words_never_contradict_the_order_of_strings(
        one in prop::collection::vec(prop::sample::select(vec![0u8, 1, 255]), 0..12),
        other in prop::collection::vec(prop::sample::select(vec![0u8, 1, 255]), 0..12),
        behind in prop::collection::vec(any::<u8>(), 0..9),
    ) {
        let word = |string: &[u8]| leading_word(&[string, &behind].concat(), string.len());
        prop_assert_eq!((word(&one), &one).cmp(&(word(&other), &other)), one.cmp(&other));
    }

    #[test]
    fn blocks_read_back_from_a_builder_that_was_used_before(before in any_blocks(), blocks in any_blocks()) {
        let mut builder = IndexPageBuilder::new();
        encode(&mut builder, &before);
        let FinishedIndexPage { payload, filter_pages } = encode(&mut builder, &blocks);
        let page = IndexPage::parse(&payload).unwrap();
        prop_assert_eq!(page.blocks(), blocks.len());
        prop_assert_eq!(page.rows(), blocks.iter().map(|block| u64::from(block.rows)).sum::<u64>());
        for (number, place) in places(&blocks).into_iter().enumerate() {
            prop_assert_eq!(page.block(number), place);
            prop_assert_eq!(page.block_of_ordinal(place.first_ordinal), place);
            prop_assert_eq!(page.block_of_ordinal(place.first_ordinal + u64::from(place.rows) - 1), place);
        }
        for hash in blocks.iter().flat_map(|block| &block.hashes) {
            let place = page.filter_place(*hash).unwrap();
            prop_assert_eq!(may_contain(&filter_pages[place.page], place, *hash), Ok(true));
        }
        prop_assert_eq!(page.filter_pages(), filter_pages.len());
        prop_assert_eq!(page.weights(), 2);
        for weight in 0..2 {
            let mut before = 0;
            for (number, block) in blocks.iter().enumerate() {
                prop_assert_eq!(page.weight_before(weight, number), before);
                if block.weights[weight] > 0 {
                    let last = before + block.weights[weight] - 1;
                    prop_assert_eq!(page.block_of_weight(weight, before).number, number);
                    prop_assert_eq!(page.block_of_weight(weight, last).number, number);
                }
                before += block.weights[weight];
            }
            prop_assert_eq!(page.weight_before(weight, blocks.len()), before);
        }
    }

    #[test]
    fn searching_by_bound_agrees_with_a_linear_scan(
        blocks in any_blocks(), tail in prop::collection::vec(0u8..4, 0..6), which in any::<prop::sample::Index>(),
        past_equal: bool
    ) {
        // Bounds near the separators: one of them, cut and continued by other bytes.
        let mut bound = blocks[which.index(blocks.len())].separator.clone();
        bound.truncate(bound.len().saturating_sub(tail.len()));
        bound.extend(tail);
        let at_or_past = |key: &[u8]| if past_equal { key > &bound[..] } else { key >= &bound[..] };
        let expected = blocks.iter().rposition(|block| !at_or_past(&block.separator)).unwrap_or(0);
        let page = IndexPage::parse(&encode(&mut IndexPageBuilder::new(), &blocks).payload).unwrap();
        let bound = if past_equal { Bound::past_key(&bound) } else { Bound::at_key(&bound) };
        prop_assert_eq!(page.block_of_bound(&bound).number, expected);
    }

    #[test]
    fn a_damaged_page_is_an_error_or_searchable_and_never_a_panic(
        blocks in any_blocks(), at in any::<prop::sample::Index>(), byte: u8, len in any::<prop::sample::Index>()
    ) {
        let mut bytes = encode(&mut IndexPageBuilder::new(), &blocks).payload;
        prop_assert!(IndexPage::parse(&bytes[..len.index(bytes.len())]).is_err());
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(page) = IndexPage::parse(&bytes) {
            page.block_of_ordinal(page.first_ordinal() + page.rows() - 1);
            page.block_of_bound(&Bound::at_key(&blocks[0].separator));
            let _ = page.filter_place(7);
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let _ = IndexPage::parse(&bytes);
    }
}

/// Ascending keys that differ within their first eight bytes.
fn key(row: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&(row << 20).to_be_bytes());
    key[8..].copy_from_slice(&row.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

#[test]
fn an_entry_for_a_16_byte_key_takes_at_most_16_bytes() {
    let mut builder = IndexPageBuilder::new();
    let rows_of_block = 40;
    for block in 0..64u64 {
        let rows = block * rows_of_block..(block + 1) * rows_of_block;
        let hashes: Vec<u64> = rows.map(|row| key_hash(&key(row))).collect();
        // The caller shortens separators to what tells neighbouring keys apart.
        builder.push(&key(block * rows_of_block)[..8], rows_of_block as u32, 1, 0, &hashes, &[]);
    }
    assert!(builder.encoded_len() <= 64 * 16 + FIXED_BYTES, "{} bytes", builder.encoded_len());
}

#[test]
fn equal_keys_that_straddle_blocks_are_found_from_the_first() {
    let mut builder = IndexPageBuilder::new();
    for (separator, hash) in [(b"a", 1), (b"k", 2), (b"k", 2), (b"z", 3)] {
        builder.push(separator, 10, 1, 0, &[hash], &[]);
    }
    let page = IndexPage::parse(&builder.finish(0, 0).payload).unwrap();
    // Rows "k" may end block 0, fill block 1 and begin block 2.
    assert_eq!(page.block_of_bound(&Bound::at_key(b"k")).number, 0);
    assert_eq!(page.block_of_bound(&Bound::past_key(b"k")).number, 2);
}

#[test]
fn a_repeated_key_takes_filter_space_once() {
    let mut builder = IndexPageBuilder::new();
    builder.push(b"k", 4000, 1, 0, &[42; 4000], &[]);
    builder.push(b"k", 4000, 1, 0, &[42; 4000], &[]);
    let filter_pages = builder.finish(0, 0).filter_pages;
    assert_eq!(filter_pages.iter().map(Vec::len).collect::<Vec<_>>(), [filter::LINE_BYTES]);
}

#[test]
#[should_panic(expected = "ordinal 1100 is none of the 100 from 1000 on")]
fn an_ordinal_of_another_page_is_a_bug_of_the_caller() {
    let mut builder = IndexPageBuilder::new();
    builder.push(b"k", 100, 1, 0, &[42], &[]);
    let page = IndexPage::parse(&builder.finish(1000, 0).payload).unwrap();
    page.block_of_ordinal(1100);
}

//! Growing lists of ascending ordinals, any number of them in one arena, kept as variable-length gaps: a byte or two each.
//!
//! A list is a chain of chunks. The first has 8 bytes, each next one twice as many as the one before it, up to a KiB. So a list of one
//! ordinal takes as little as it can, and a long one little more than its gaps; and nothing is copied as lists grow.

/// Bytes of the smallest chunk, which others are multiples of.
const BLOCK_BYTES: usize = 8;
/// The largest chunk has as many blocks as two to the power of this.
const ORDER_MAX: u32 = 7;
/// At the end of a chunk: the block where the next one begins.
const LINK_BYTES: usize = 4;
const SLAB_BYTES: usize = 64 << 10;
const SLAB_BLOCKS: usize = SLAB_BYTES / BLOCK_BYTES;

/// Where lists keep their gaps.
#[derive(Default)]
pub struct OrdinalArena {
    slabs: Vec<Box<[u8]>>,
    /// Blocks that are taken.
    blocks: usize,
}

/// Ascending ordinals in an arena.
#[derive(Debug, Clone, Copy, Default)]
pub struct OrdinalList {
    len: u32,
    last: u32,
    /// The blocks where the first chunk begins, and the last one.
    first: u32,
    tail: u32,
    /// Bytes that the last one has, ...
    used: u16,
    /// ... and its size as a power of two, in blocks.
    order: u16,
}

/// The bytes of a list that was not changed since.
struct Gaps<'a> {
    arena: &'a OrdinalArena,
    chunk: u32,
    used: usize,
    order: u32,
}

impl OrdinalArena {
    /// The bytes of all chunks.
    pub fn bytes_taken(&self) -> usize {
        self.blocks * BLOCK_BYTES
    }

    /// Takes a chunk, and gives the block where it begins.
    fn chunk(&mut self, order: u32) -> u32 {
        let blocks = 1usize << order;
        let slab_has_room = self.blocks % SLAB_BLOCKS + blocks <= SLAB_BLOCKS;
        if !slab_has_room {
            self.blocks = self.blocks.next_multiple_of(SLAB_BLOCKS);
        }
        let begin = self.blocks;
        if begin / SLAB_BLOCKS == self.slabs.len() {
            self.slabs.push(vec![0; SLAB_BYTES].into());
        }
        self.blocks += blocks;
        u32::try_from(begin).expect("32 GiB hold the ordinals of a segment")
    }

    fn bytes_mut(&mut self, chunk: u32, order: u32) -> &mut [u8] {
        let (slab, block) = (chunk as usize / SLAB_BLOCKS, chunk as usize % SLAB_BLOCKS);
        &mut self.slabs[slab][block * BLOCK_BYTES..][..BLOCK_BYTES << order]
    }

    fn bytes(&self, chunk: u32, order: u32) -> &[u8] {
        let (slab, block) = (chunk as usize / SLAB_BLOCKS, chunk as usize % SLAB_BLOCKS);
        &self.slabs[slab][block * BLOCK_BYTES..][..BLOCK_BYTES << order]
    }
}

impl OrdinalList {
    /// Adds an ordinal that lies above all before. A list has all of its ordinals in one arena.
    pub fn push(&mut self, arena: &mut OrdinalArena, ordinal: u32) {
        assert!(self.len == 0 || ordinal > self.last, "ordinals ascend");
        if self.len == 0 {
            self.first = arena.chunk(0);
            self.tail = self.first;
        }
        let mut gap = ordinal - self.last;
        while gap >= 0x80 {
            self.push_byte(arena, gap as u8 | 0x80);
            gap >>= 7;
        }
        self.push_byte(arena, gap as u8);
        self.last = ordinal;
        self.len += 1;
    }

    fn push_byte(&mut self, arena: &mut OrdinalArena, byte: u8) {
        let (order, used) = (u32::from(self.order), usize::from(self.used));
        let chunk = arena.bytes_mut(self.tail, order);
        let room = chunk.len() - LINK_BYTES;
        if used < room {
            chunk[used] = byte;
            self.used += 1;
            return;
        }
        let next_order = (order + 1).min(ORDER_MAX);
        let next = arena.chunk(next_order);
        arena.bytes_mut(self.tail, order)[room..].copy_from_slice(&next.to_le_bytes());
        arena.bytes_mut(next, next_order)[0] = byte;
        (self.tail, self.order, self.used) = (next, next_order as u16, 1);
    }

    pub fn len(&self) -> u64 {
        self.len.into()
    }

    /// The ordinals in order.
    pub fn iter<'a>(&self, arena: &'a OrdinalArena) -> impl Iterator<Item = u32> + use<'a> {
        let mut gaps = Gaps { arena, chunk: self.first, used: 0, order: 0 };
        let mut ordinal = 0;
        (0..self.len).map(move |_| {
            ordinal += gaps.next();
            ordinal
        })
    }
}

impl Gaps<'_> {
    fn next(&mut self) -> u32 {
        let (mut gap, mut shift) = (0, 0);
        loop {
            let byte = self.next_byte();
            gap |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return gap;
            }
            shift += 7;
        }
    }

    fn next_byte(&mut self) -> u8 {
        let chunk = self.arena.bytes(self.chunk, self.order);
        let (bytes, link) = chunk.split_at(chunk.len() - LINK_BYTES);
        if let Some(&byte) = bytes.get(self.used) {
            self.used += 1;
            return byte;
        }
        self.chunk = u32::from_le_bytes(link.try_into().expect("a link has four bytes"));
        self.order = (self.order + 1).min(ORDER_MAX);
        self.used = 1;
        self.arena.bytes(self.chunk, self.order)[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinals_come_back_in_order() {
        let (mut arena, mut list) = (OrdinalArena::default(), OrdinalList::default());
        assert_eq!(list.iter(&arena).count(), 0);
        [0, 1, 5, 1000, u32::MAX].into_iter().for_each(|ordinal| list.push(&mut arena, ordinal));
        assert_eq!(list.iter(&arena).collect::<Vec<_>>(), [0, 1, 5, 1000, u32::MAX]);
        assert_eq!(list.len(), 5);
    }

    #[test]
    fn lists_that_grow_side_by_side_keep_apart_and_take_little_more_than_their_gaps() {
        let mut state = 1u64;
        let mut below = |bound: u64| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 33) % bound
        };
        let mut arena = OrdinalArena::default();
        let mut lists = vec![(OrdinalList::default(), Vec::new()); 3_000];
        for ordinal in 0..1_000_000u32 {
            // A few have most, and many have one or none.
            let most = 1 << below(12);
            let (list, expected) = &mut lists[below(most) as usize % 3_000];
            let ordinal = ordinal * 4 + below(4) as u32;
            list.push(&mut arena, ordinal);
            expected.push(ordinal);
        }
        for (list, expected) in &lists {
            assert_eq!(list.iter(&arena).collect::<Vec<_>>(), *expected);
        }
        assert!(arena.slabs.len() * SLAB_BYTES <= 4 << 20, "{} slabs", arena.slabs.len());
    }
}

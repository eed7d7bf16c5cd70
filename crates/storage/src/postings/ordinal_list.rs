//! A growing list of ascending ordinals, kept as variable-length gaps: a byte or two each.

use drillcore_format::cursor::{Cursor, put_varint};

/// Ascending ordinals.
#[derive(Debug, Default)]
pub struct OrdinalList {
    gaps: Vec<u8>,
    len: u64,
    last: u32,
}

impl OrdinalList {
    /// Adds an ordinal that lies above all before.
    pub fn push(&mut self, ordinal: u32) {
        assert!(self.len == 0 || ordinal > self.last, "ordinals ascend");
        put_varint(&mut self.gaps, u64::from(ordinal - self.last));
        self.last = ordinal;
        self.len += 1;
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let mut gaps = Cursor::new(&self.gaps, "ordinal list");
        let mut ordinal = 0;
        std::iter::from_fn(move || {
            if gaps.is_empty() {
                return None;
            }
            ordinal += gaps.varint().expect("written by push") as u32;
            Some(ordinal)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinals_come_back_in_order() {
        let mut list = OrdinalList::default();
        [0, 1, 5, 1000, u32::MAX].into_iter().for_each(|ordinal| list.push(ordinal));
        assert_eq!(list.iter().collect::<Vec<_>>(), [0, 1, 5, 1000, u32::MAX]);
        assert_eq!(list.len(), 5);
    }
}

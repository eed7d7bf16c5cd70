//! A list of byte strings: their ends, then their bytes.
//!
//! The smallest form is chosen by [`ListSize`], which knows the length before anything is written.

use crate::block::encoding_byte::malformed;
use crate::cursor::{put_u16, put_u32};
use crate::error::Result;

/// All strings have the same length, at least one byte: no ends are written.
const SAME_LEN: u8 = 1;
/// Ends of one, two or four bytes.
const ENDS_U8: u8 = 2;
const ENDS_U16: u8 = 3;
const ENDS_U32: u8 = 4;

/// The size of a list that grows string by string.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ListSize {
    pub count: usize,
    /// Bytes of all strings together.
    pub total: usize,
    /// The length of the first string, while all others have it too.
    same_len: Option<usize>,
}

impl ListSize {
    pub fn push(&mut self, len: usize) {
        self.push_even(1, len);
    }

    /// Takes in `count` strings of `len` bytes.
    pub fn push_even(&mut self, count: usize, len: usize) {
        if self.count == 0 {
            self.same_len = Some(len);
        } else if self.same_len != Some(len) {
            self.same_len = None;
        }
        self.count += count;
        self.total += count * len;
    }

    /// Takes in strings that lie one behind the other, at least one, by the offset of the first and the end of each.
    pub fn push_consecutive(&mut self, offsets: &[i32]) {
        let len = |ends: &[i32]| (ends[1] - ends[0]) as usize;
        let first = len(offsets);
        let is_even = offsets.windows(2).all(|ends| len(ends) == first);
        let is_first = self.count == 0;
        let same_len = if is_first { Some(first) } else { self.same_len };
        self.same_len = same_len.filter(|len| is_even && *len == first);
        self.count += offsets.len() - 1;
        self.total += (offsets[offsets.len() - 1] - offsets[0]) as usize;
    }

    /// The size after `dropped` bytes are taken from the front of every string.
    pub fn without_prefix(self, dropped: usize) -> ListSize {
        ListSize {
            count: self.count,
            total: self.total - self.count * dropped,
            same_len: self.same_len.map(|len| len - dropped),
        }
    }

    /// The size of some strings, of `total` bytes, that are each left of one of these if `dropped` bytes are taken from it. If all of
    /// these have one length, so have they; if not, nor have they.
    pub fn of_some(self, count: usize, total: usize, dropped: usize) -> ListSize {
        ListSize { count, total, same_len: self.same_len.map(|len| len - dropped) }
    }

    pub fn form(&self) -> u8 {
        if self.same_len.is_some_and(|len| len > 0) {
            SAME_LEN
        } else if self.total <= usize::from(u8::MAX) {
            ENDS_U8
        } else if self.total <= usize::from(u16::MAX) {
            ENDS_U16
        } else {
            ENDS_U32
        }
    }

    /// Bytes of the list.
    pub fn len(&self) -> usize {
        self.count * end_width(self.form()).expect("a form that was just chosen") + self.total
    }

    /// Appends the list of the strings that were pushed, in the same order.
    pub fn write<'s>(&self, strings: impl Iterator<Item = &'s [u8]> + Clone, out: &mut Vec<u8>) {
        let mut end = 0;
        let ends = strings.clone().map(|string| {
            end += string.len();
            end
        });
        self.write_ends(ends, out);
        for string in strings {
            out.extend_from_slice(string);
        }
    }

    /// The same for strings that lie one behind the other in `bytes`: by where the first begins and where each ends.
    pub fn write_consecutive(&self, offsets: &[i32], bytes: &[u8], out: &mut Vec<u8>) {
        let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
        self.write_ends(offsets[1..].iter().map(|end| (end - first) as usize), out);
        out.extend_from_slice(&bytes[first as usize..last as usize]);
    }

    fn write_ends(&self, ends: impl Iterator<Item = usize>, out: &mut Vec<u8>) {
        match self.form() {
            ENDS_U8 => ends.for_each(|end| out.push(end as u8)),
            ENDS_U16 => ends.for_each(|end| put_u16(out, end as u16)),
            ENDS_U32 => ends.for_each(|end| put_u32(out, u32::try_from(end).expect("4 GiB"))),
            _ => {}
        }
    }
}

/// Bytes of an end, or `None` for an unknown form.
fn end_width(form: u8) -> Option<usize> {
    match form {
        SAME_LEN => Some(0),
        ENDS_U8 => Some(1),
        ENDS_U16 => Some(2),
        ENDS_U32 => Some(4),
        _ => None,
    }
}

/// A list in encoded form; every access is checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListView<'a> {
    count: usize,
    end_width: usize,
    /// The length of every string where no ends are written.
    same_len: usize,
    ends: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> ListView<'a> {
    /// The list of `count` strings that fills `bytes`. O(1).
    pub fn parse(form: u8, count: usize, bytes: &'a [u8]) -> Result<ListView<'a>> {
        let end_width =
            end_width(form).ok_or_else(|| malformed(format!("unknown list form {form}")))?;
        let split = count.checked_mul(end_width).and_then(|len| bytes.split_at_checked(len));
        let Some((ends, bytes)) = split else {
            return Err(malformed(format!("{} bytes hold no {count} strings", bytes.len())));
        };
        let same_len = bytes.len().checked_div(count).unwrap_or(0);
        let list = ListView { count, end_width, same_len, ends, bytes };
        // Without ends a string has at least one byte, so a count cannot exceed what is stored.
        let is_complete = match end_width {
            0 => same_len * count == bytes.len() && (same_len > 0 || count == 0),
            _ => list.end(count) == bytes.len(),
        };
        if !is_complete {
            return Err(malformed(format!("{count} strings do not fill {} bytes", bytes.len())));
        }
        Ok(list)
    }

    /// Where the first `count` strings end.
    fn end(&self, count: usize) -> usize {
        if count == 0 {
            return 0;
        }
        let at = (count - 1) * self.end_width;
        let end = &self.ends[at..at + self.end_width];
        match *end {
            [] => count * self.same_len,
            [a] => usize::from(a),
            [a, b] => end_u16([a, b]),
            [a, b, c, d] => end_u32([a, b, c, d]),
            _ => unreachable!("an end has at most four bytes"),
        }
    }

    /// The string at `index`, which the caller keeps below the count. O(1).
    pub fn get(&self, index: usize) -> Result<&'a [u8]> {
        assert!(index < self.count, "string {index} of {}", self.count);
        let (start, end) = (self.end(index), self.end(index + 1));
        self.bytes.get(start..end).ok_or_else(|| malformed("ends of strings decrease"))
    }

    /// The bytes of the strings `from..to`, and the length of each, where no ends are written. Its bytes are complete.
    pub fn even_range(&self, from: usize, to: usize) -> Option<(usize, &'a [u8])> {
        assert!(from <= to && to <= self.count, "strings {from}..{to} of {}", self.count);
        let is_even = self.end_width == 0 && self.same_len > 0;
        is_even.then(|| (self.same_len, &self.bytes[from * self.same_len..to * self.same_len]))
    }

    /// The bytes of the strings `from..to`, after handing out where each ends in them.
    pub fn range(&self, from: usize, to: usize, each_end: impl FnMut(usize)) -> Result<&'a [u8]> {
        assert!(from <= to && to <= self.count, "strings {from}..{to} of {}", self.count);
        let start = self.end(from);
        let ends = &self.ends[from * self.end_width..to * self.end_width];
        // One loop for each width.
        let end = match self.end_width {
            0 => rising((from + 1..=to).map(|count| count * self.same_len), start, each_end),
            1 => rising(ends.iter().map(|&end| usize::from(end)), start, each_end),
            2 => rising(ends.as_chunks().0.iter().map(|&end| end_u16(end)), start, each_end),
            _ => rising(ends.as_chunks().0.iter().map(|&end| end_u32(end)), start, each_end),
        };
        let end = end.ok_or_else(|| malformed("ends of strings decrease"))?;
        self.bytes.get(start..end).ok_or_else(|| malformed("a string ends past its list"))
    }
}

/// Hands out each end as seen from `start`, and returns the last; `None` if one falls.
fn rising(
    ends: impl Iterator<Item = usize>,
    start: usize,
    mut each_end: impl FnMut(usize),
) -> Option<usize> {
    let mut last = start;
    for end in ends {
        if end < last {
            return None;
        }
        last = end;
        each_end(end - start);
    }
    Some(last)
}

fn end_u16(bytes: [u8; 2]) -> usize {
    usize::from(u16::from_le_bytes(bytes))
}

fn end_u32(bytes: [u8; 4]) -> usize {
    u32::from_le_bytes(bytes) as usize
}

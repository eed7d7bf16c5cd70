//! Lists of 64-bit words, bit-packed in frames.
//!
//! Each frame of [`FRAME`] words has a reference and the width of its widest distance from it: *frame of reference*
//! (Goldstein, Ramakrishnan and Shaft, *Compressing Relations and Indexes*, ICDE 1998). Where the steps from word to
//! word need fewer bits than the words, as in times that rise, the steps are packed instead.

use crate::cursor::{Cursor, put_u64};
use crate::error::Result;
use crate::packed::{packed_len, put_packed, unpack, width_of};

/// Words of a frame; the last one of a list may have fewer.
pub const FRAME: usize = 1024;
/// The words themselves: the least of a frame, then each one's distance from it.
const DISTANCES: u8 = 1;
/// From each word to the next, wrapping: the frame's first word, the least step, then each step's distance from that.
const STEPS: u8 = 2;

const WORDS: &str = "packed words";

/// How a frame is written.
struct Frame {
    reference: u64,
    /// Of steps.
    least: u64,
    width: u8,
}

/// Appends a list of words; its length is not part of it. O(words).
pub fn put_words(words: &[u64], out: &mut Vec<u8>) {
    let distances: Vec<Frame> = words.chunks(FRAME).map(Frame::of_distances).collect();
    let steps: Vec<Frame> = words.chunks(FRAME).map(Frame::of_steps).collect();
    let bytes = |frames: &[Frame], header: usize| -> usize {
        let lens = words.chunks(FRAME).map(<[u64]>::len);
        frames.iter().zip(lens).map(|(frame, len)| header + packed_len(len, frame.width)).sum()
    };
    if bytes(&steps, STEPS_HEADER) < bytes(&distances, DISTANCES_HEADER) {
        out.push(STEPS);
        for Frame { reference, least, width } in &steps {
            put_u64(out, *reference);
            put_u64(out, *least);
            out.push(*width);
        }
        for (frame, words) in steps.iter().zip(words.chunks(FRAME)) {
            let step = |pair: &[u64]| pair[1].wrapping_sub(pair[0]).wrapping_sub(frame.least);
            // The first word is the reference.
            let packed = std::iter::once(0).chain(words.windows(2).map(step));
            put_packed(packed, frame.width, out);
        }
    } else {
        out.push(DISTANCES);
        for Frame { reference, width, .. } in &distances {
            put_u64(out, *reference);
            out.push(*width);
        }
        for (frame, words) in distances.iter().zip(words.chunks(FRAME)) {
            put_packed(words.iter().map(|word| word - frame.reference), frame.width, out);
        }
    }
}

const DISTANCES_HEADER: usize = 8 + 1;
const STEPS_HEADER: usize = 8 + 8 + 1;

impl Frame {
    fn of_distances(words: &[u64]) -> Frame {
        let (least, greatest) = words
            .iter()
            .fold((u64::MAX, 0), |(least, greatest), &word| (least.min(word), greatest.max(word)));
        Frame { reference: least, least: 0, width: width_of(greatest - least) }
    }

    fn of_steps(words: &[u64]) -> Frame {
        let steps = || words.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]) as i64);
        let least = steps().min().unwrap_or(0) as u64;
        let widest = steps().map(|step| (step as u64).wrapping_sub(least)).max().unwrap_or(0);
        Frame { reference: words[0], least, width: width_of(widest) }
    }
}

/// A list of words, opened for reading.
#[derive(Debug, Clone)]
pub struct WordsView<'a> {
    len: usize,
    steps: bool,
    headers: &'a [u8],
    packed: &'a [u8],
    /// Where each frame begins in `packed`.
    starts: Vec<usize>,
}

impl<'a> WordsView<'a> {
    /// Takes the `len` words that fill `bytes`. O(frames); fails if they do not.
    pub fn parse(bytes: &'a [u8], len: usize) -> Result<WordsView<'a>> {
        let mut cursor = Cursor::new(bytes, WORDS);
        let steps = match cursor.u8()? {
            DISTANCES => false,
            STEPS => true,
            other => return Err(cursor.error(format!("form {other}"))),
        };
        let header = if steps { STEPS_HEADER } else { DISTANCES_HEADER };
        let frames = len.div_ceil(FRAME);
        let headers = cursor.take(frames.saturating_mul(header))?;
        let packed = cursor.rest();
        let (mut starts, mut end) = (Vec::with_capacity(frames), 0);
        for (number, header) in headers.chunks_exact(header).enumerate() {
            let width = header[header.len() - 1];
            if u32::from(width) > u64::BITS {
                return Err(cursor.error(format!("words of {width} bits")));
            }
            starts.push(end);
            end += packed_len(FRAME.min(len - number * FRAME), width);
        }
        if end != packed.len() {
            return Err(cursor.error(format!("{} bytes of words, not {end}", packed.len())));
        }
        Ok(WordsView { len, steps, headers, packed, starts })
    }

    /// Calls `each` with the words `from..to`, some at a time. O(words), and those before them in the first frame.
    pub fn for_each(&self, from: usize, to: usize, mut each: impl FnMut(&[u64])) {
        assert!(from <= to && to <= self.len, "words {from}..{to} of {}", self.len);
        let mut scratch = [0u64; FRAME];
        let mut next = from;
        while next < to {
            let frame = next / FRAME;
            let first = frame * FRAME;
            let end = to.min(first + FRAME) - first;
            self.read_frame(frame, &mut scratch[..end]);
            each(&scratch[next - first..end]);
            next = first + end;
        }
    }

    /// Writes the first words of a frame.
    fn read_frame(&self, frame: usize, out: &mut [u64]) {
        let header = if self.steps { STEPS_HEADER } else { DISTANCES_HEADER };
        let header = &self.headers[frame * header..(frame + 1) * header];
        let word =
            |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        let (reference, width) = (word(0), header[header.len() - 1]);
        unpack(&self.packed[self.starts[frame]..], width, out);
        if self.steps {
            let least = word(8);
            let mut last = reference;
            out[0] = reference;
            for step in &mut out[1..] {
                last = last.wrapping_add(least).wrapping_add(*step);
                *step = last;
            }
        } else {
            // Only bytes that break the promise of the format can overflow; those read as some word.
            out.iter_mut().for_each(|word| *word = word.wrapping_add(reference));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn words() -> impl Strategy<Value = Vec<u64>> {
        let len = prop_oneof![1..40usize, FRAME - 1..FRAME + 2, 2 * FRAME..3 * FRAME];
        (len, any::<u64>(), 0..=64u32, any::<bool>()).prop_flat_map(|(len, base, bits, rising)| {
            let noise = vec(any::<u64>(), len);
            noise.prop_map(move |noise| {
                let small = |word: u64| word.checked_shr(64 - bits).unwrap_or(0);
                let mut last = base;
                let word = |word: u64| match rising {
                    true => {
                        last = last.wrapping_add(small(word));
                        last
                    }
                    false => base.wrapping_add(small(word)),
                };
                noise.into_iter().map(word).collect()
            })
        })
    }

    fn read(view: &WordsView<'_>, from: usize, to: usize) -> Vec<u64> {
        let mut read = Vec::new();
        view.for_each(from, to, |words| read.extend_from_slice(words));
        read
    }

    proptest! {
        #[test]
        fn words_read_back_from_anywhere(words in words(), ends in any::<(u16, u16)>()) {
            let mut bytes = Vec::new();
            put_words(&words, &mut bytes);
            let view = WordsView::parse(&bytes, words.len()).unwrap();
            prop_assert_eq!(&read(&view, 0, words.len()), &words);
            let (a, b) = (usize::from(ends.0) % words.len(), usize::from(ends.1) % words.len());
            let (from, to) = (a.min(b), a.max(b) + 1);
            prop_assert_eq!(read(&view, from, to), &words[from..to]);
            prop_assert!(WordsView::parse(&bytes[..bytes.len() - 1], words.len()).is_err());
        }

        #[test]
        fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..200), len in 0..3000usize) {
            if let Ok(view) = WordsView::parse(&bytes, len) {
                read(&view, 0, len);
            }
        }
    }

    #[test]
    fn words_that_rise_evenly_take_no_bits() {
        let words: Vec<u64> = (0..2048).map(|at| 1_000_000 + at * 700).collect();
        let mut bytes = Vec::new();
        put_words(&words, &mut bytes);
        assert_eq!(bytes.len(), 1 + 2 * STEPS_HEADER);
    }
}

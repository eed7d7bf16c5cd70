//! Lists of 64-bit words, cut into [frames](crate::streams::frames).

use std::ops::Range;

use crate::cursor::{Cursor, put_varint};
use crate::error::Result;
use crate::streams::frames::{FRAME, FrameView, put_frame};

const WORDS: &str = "packed words";

/// Appends a list of words; its length is not part of it. O(words).
pub fn put_words(words: &[u64], out: &mut Vec<u8>) {
    let (mut frames, mut bytes) = (Vec::new(), 0);
    for frame in words.chunks(FRAME) {
        put_frame(frame, &mut frames);
        put_varint(out, (frames.len() - bytes) as u64);
        bytes = frames.len();
    }
    out.append(&mut frames);
}

/// A list of words, opened for reading.
#[derive(Debug, Clone)]
pub struct WordsView<'a> {
    len: usize,
    /// Of each frame.
    frames: Vec<&'a [u8]>,
}

impl<'a> WordsView<'a> {
    /// Takes the `len` words that fill `bytes`. O(frames), none of which is looked at; fails if they do not.
    pub fn parse(bytes: &'a [u8], len: usize) -> Result<WordsView<'a>> {
        let mut lens = Cursor::new(bytes, WORDS);
        let mut frames = lens.clone();
        (0..len).step_by(FRAME).try_for_each(|_| frames.varint().map(|_| ()))?;
        let take = |_| {
            let bytes = usize::try_from(lens.varint()?).unwrap_or(usize::MAX);
            frames.take(bytes)
        };
        let all = (0..len).step_by(FRAME).map(take).collect::<Result<_>>()?;
        frames.finish()?;
        Ok(WordsView { len, frames: all })
    }

    /// Calls `each` with the words `from..to`, some at a time, and the position of the first of them. O(words), and those
    /// before them in the first frame. Fails on a frame that is malformed.
    pub fn for_each(
        &self,
        from: usize,
        to: usize,
        mut each: impl FnMut(usize, &[u64]),
    ) -> Result<()> {
        let mut scratch = [0u64; FRAME];
        self.for_each_frame(from, to, |frame, first, within| {
            frame.read(&mut scratch[..within.end]);
            each(first + within.start, &scratch[within]);
        })
    }

    /// Calls `each` with the positions from `from` to `to` at which a word is. O(words), of which few are unpacked. Fails on a
    /// frame that is malformed.
    pub fn find(
        &self,
        from: usize,
        to: usize,
        wanted: u64,
        mut each: impl FnMut(usize),
    ) -> Result<()> {
        let mut scratch = [0u64; FRAME];
        self.for_each_frame(from, to, |frame, first, within| {
            if frame.may_hold(wanted) {
                frame.read(&mut scratch[..within.end]);
                let positions = within.filter(|&at| scratch[at] == wanted);
                positions.for_each(|at| each(first + at));
            }
        })
    }

    /// Calls `each` with every frame of the words `from..to`, the position of its first word, and which of its words are among
    /// them.
    fn for_each_frame(
        &self,
        from: usize,
        to: usize,
        mut each: impl FnMut(&FrameView<'_>, usize, Range<usize>),
    ) -> Result<()> {
        assert!(from <= to && to <= self.len, "words {from}..{to} of {}", self.len);
        let mut next = from;
        while next < to {
            let first = next / FRAME * FRAME;
            let end = to.min(first + FRAME);
            let len = FRAME.min(self.len - first);
            each(
                &FrameView::parse(self.frames[next / FRAME], len)?,
                first,
                next - first..end - first,
            );
            next = end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Lists for each form, and of several forms one after the other.
    fn words() -> impl Strategy<Value = Vec<u64>> {
        let len = prop_oneof![1..40usize, FRAME - 1..FRAME + 2, 2 * FRAME..3 * FRAME];
        (len, any::<u64>(), 0..=64u32, 0..5u8).prop_flat_map(|(len, base, bits, shape)| {
            let noise = vec(any::<u64>(), len);
            noise.prop_map(move |noise| {
                let small = |word: u64| word.checked_shr(64 - bits).unwrap_or(0);
                let mut last = base;
                let word = |(at, &word): (usize, &u64)| match shape {
                    0 => base.wrapping_add(small(word)),
                    1 => {
                        last = last.wrapping_add(small(word));
                        last
                    }
                    2 => base.wrapping_add(small(noise[at / 50])),
                    3 if word % 64 > 0 => base.wrapping_add(word % 7),
                    3 => base.wrapping_add(small(word)),
                    _ => base.wrapping_add(noise[word as usize % noise.len().min(5)] % 60_000),
                };
                noise.iter().enumerate().map(word).collect()
            })
        })
    }

    fn read(view: &WordsView<'_>, from: usize, to: usize) -> Vec<u64> {
        let mut read = Vec::new();
        let extend = |at, words: &[u64]| {
            assert_eq!(at, from + read.len());
            read.extend_from_slice(words);
        };
        view.for_each(from, to, extend).unwrap();
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
            for wanted in [words[from], words[to - 1].wrapping_add(1)] {
                let mut found = Vec::new();
                view.find(from, to, wanted, |at| found.push(at)).unwrap();
                let expected: Vec<usize> = (from..to).filter(|&at| words[at] == wanted).collect();
                prop_assert_eq!(found, expected);
            }
            prop_assert!(WordsView::parse(&bytes[..bytes.len() - 1], words.len()).is_err());
        }

        #[test]
        fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..200), len in 0..3000usize) {
            if let Ok(view) = WordsView::parse(&bytes, len) {
                let _ = view.for_each(0, len, |_, _| ());
                let _ = view.find(0, len, 7, |_| ());
            }
        }
    }
}

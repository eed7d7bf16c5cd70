//! A frame: up to [`FRAME`] words of a stream, in whichever form takes the fewest bytes.
//!
//! | form | after |
//! |---|---|
//! | distances from the least, of equal width | *frame of reference*: Goldstein, Ramakrishnan and Shaft, *Compressing Relations and Indexes*, ICDE 1998 |
//! | the same, a few of them wider | *PFOR*: Zukowski, Heman, Nes and Boncz, *Super-Scalar RAM-CPU Cache Compression*, ICDE 2006 |
//! | steps from word to word | for times and ordinals, which rise |
//! | runs of equal words, by their lengths or a mark where each begins | for what the key is sorted by |
//! | codes into a list of the words that occur | for sizes and prices of which there are few |
//!
//! The bytes of each form are known before any is written. A search for a word passes over frames that say by their least
//! word and the width of distances from it that they do not hold it, and compares the others as they are packed.

use crate::cursor::{Cursor, put_u16, put_u64};
use crate::error::Result;
use crate::packed::{has_packed, packed_at, packed_len, put_packed, unpack, width_of};

/// Words of a frame; the last one of a list may have fewer.
pub const FRAME: usize = 1024;
/// The widest number that a position in a frame needs.
const POSITION_BITS: u8 = FRAME.ilog2() as u8;

const DISTANCES: u8 = 1;
const STEPS: u8 = 2;
const RUNS: u8 = 3;
const PATCHED: u8 = 4;
const CODES: u8 = 5;
const MARKED: u8 = 6;

const FRAME_OF_WORDS: &str = "frame of words";

/// Distances of more bits are not counted by value: that takes a bitmap of 2^bits.
const COUNTED_BITS: u8 = 16;

/// What decides the form of a frame.
struct Sizes {
    least: u64,
    width: u8,
    least_step: u64,
    step_width: u8,
    runs: usize,
    /// Bits of most distances, where a few are wider.
    patched_width: u8,
    /// How many those few are.
    patches: usize,
    /// The distances that occur; empty if they are not worth counting.
    entries: Vec<u64>,
}

/// Appends a frame. O(words).
pub(super) fn put_frame(words: &[u64], out: &mut Vec<u8>) {
    let sizes = Sizes::of(words);
    let count = words.len();
    let distances = || words.iter().map(|word| word - sizes.least);
    let runs = || words.chunk_by(|a, b| a == b);
    let put_runs = |out: &mut Vec<u8>| {
        out.push(sizes.width);
        put_u16(out, sizes.runs as u16);
        put_packed(runs().map(|run| run[0] - sizes.least), sizes.width, out);
    };
    let forms = [DISTANCES, STEPS, RUNS, PATCHED, CODES, MARKED];
    let best = forms.into_iter().min_by_key(|form| sizes.bytes(*form, count));
    let start = out.len();
    let form = best.expect("there are forms");
    out.push(form);
    put_u64(out, if form == STEPS { words[0] } else { sizes.least });
    match form {
        STEPS => {
            put_u64(out, sizes.least_step);
            out.push(sizes.step_width);
            let step = |pair: &[u64]| pair[1].wrapping_sub(pair[0]).wrapping_sub(sizes.least_step);
            // The first word is in the header.
            let packed = std::iter::once(0).chain(words.windows(2).map(step));
            put_packed(packed, sizes.step_width, out);
        }
        RUNS => {
            put_runs(out);
            put_packed(runs().map(|run| run.len() as u64 - 1), POSITION_BITS, out);
        }
        MARKED => {
            put_runs(out);
            let begins = words.windows(2).map(|pair| u64::from(pair[0] != pair[1]));
            put_packed(std::iter::once(1).chain(begins), 1, out);
        }
        PATCHED => {
            let wide =
                || distances().enumerate().filter(|(_, of)| width_of(*of) > sizes.patched_width);
            out.push(sizes.width);
            out.push(sizes.patched_width);
            put_u16(out, sizes.patches as u16);
            let mask = (1 << sizes.patched_width) - 1;
            put_packed(distances().map(|distance| distance & mask), sizes.patched_width, out);
            put_packed(wide().map(|(at, _)| at as u64), POSITION_BITS, out);
            let upper = sizes.width - sizes.patched_width;
            put_packed(wide().map(|(_, distance)| distance >> sizes.patched_width), upper, out);
        }
        CODES => {
            out.push(sizes.width);
            put_u16(out, sizes.entries.len() as u16);
            put_packed(sizes.entries.iter().copied(), sizes.width, out);
            let code = |distance: u64| sizes.entries.binary_search(&distance).expect("it occurs");
            put_packed(distances().map(|of| code(of) as u64), sizes.code_width(), out);
        }
        _ => {
            out.push(sizes.width);
            put_packed(distances(), sizes.width, out);
        }
    }
    debug_assert_eq!(out.len() - start, sizes.bytes(form, count), "form {form}");
}

impl Sizes {
    fn of(words: &[u64]) -> Sizes {
        let (least, greatest) = words
            .iter()
            .fold((u64::MAX, 0), |(least, greatest), &word| (least.min(word), greatest.max(word)));
        let width = width_of(greatest - least);
        let steps = || words.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]));
        let least_step = steps().min_by_key(|step| *step as i64).unwrap_or(0);
        let widest = steps().map(|step| step.wrapping_sub(least_step)).max().unwrap_or(0);
        let runs = 1 + steps().filter(|step| *step != 0).count();
        let (patched_width, patches) = patched(words, least, width);
        let mut sizes = Sizes {
            least,
            width,
            least_step,
            step_width: width_of(widest),
            runs,
            patched_width,
            patches,
            entries: Vec::new(),
        };
        // Where runs are long, they take less than any list.
        if (2..=COUNTED_BITS).contains(&width) && runs > words.len() / 8 {
            sizes.entries = occurring(words, least, width);
        }
        sizes
    }

    /// Bytes of `count` words in a form; `usize::MAX` if they have no such form.
    fn bytes(&self, form: u8, count: usize) -> usize {
        let body = match form {
            DISTANCES => packed_len(count, self.width),
            STEPS => 8 + packed_len(count, self.step_width),
            RUNS => 2 + packed_len(self.runs, self.width) + packed_len(self.runs, POSITION_BITS),
            MARKED => 2 + packed_len(self.runs, self.width) + packed_len(count, 1),
            PATCHED if self.patches > 0 => {
                1 + 2
                    + packed_len(count, self.patched_width)
                    + packed_len(self.patches, POSITION_BITS)
                    + packed_len(self.patches, self.width - self.patched_width)
            }
            CODES if !self.entries.is_empty() => {
                2 + packed_len(self.entries.len(), self.width)
                    + packed_len(count, self.code_width())
            }
            _ => return usize::MAX,
        };
        1 + 8 + 1 + body
    }

    fn code_width(&self) -> u8 {
        code_width(self.entries.len())
    }
}

/// Bits of a code into a list.
fn code_width(entries: usize) -> u8 {
    width_of(entries as u64 - 1)
}

/// The width of most distances that takes the fewest bytes if wider ones are written apart, and how many those are.
fn patched(words: &[u64], least: u64, width: u8) -> (u8, usize) {
    let mut of_width = [0usize; 65];
    words.iter().for_each(|word| of_width[usize::from(width_of(word - least))] += 1);
    let (mut wider, mut best) = (0, (usize::MAX, width, 0));
    for narrow in (0..width).rev() {
        wider += of_width[usize::from(narrow) + 1];
        let bits =
            words.len() * usize::from(narrow) + wider * usize::from(POSITION_BITS + width - narrow);
        best = best.min((bits, narrow, wider));
    }
    (best.1, best.2)
}

/// The distances that occur, rising.
fn occurring(words: &[u64], least: u64, width: u8) -> Vec<u64> {
    let mut bits = vec![0u64; (1usize << width).div_ceil(64)];
    words.iter().map(|word| word - least).for_each(|of| bits[of as usize / 64] |= 1 << (of % 64));
    let in_word = |(at, &bits): (usize, &u64)| {
        let rest = std::iter::successors((bits != 0).then_some(bits), |bits| {
            let rest = bits & (bits - 1);
            (rest != 0).then_some(rest)
        });
        rest.map(move |rest| at as u64 * 64 + u64::from(rest.trailing_zeros()))
    };
    bits.iter().enumerate().flat_map(in_word).collect()
}

/// A frame, opened for reading.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameView<'a> {
    len: usize,
    reference: u64,
    form: Form<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Form<'a> {
    Distances {
        width: u8,
        packed: &'a [u8],
    },
    Steps {
        least: u64,
        width: u8,
        packed: &'a [u8],
    },
    Runs {
        width: u8,
        values: &'a [u8],
        lens: &'a [u8],
        count: usize,
    },
    Marked {
        width: u8,
        values: &'a [u8],
        marks: &'a [u8],
        count: usize,
    },
    Patched {
        wide: u8,
        width: u8,
        packed: &'a [u8],
        places: &'a [u8],
        uppers: &'a [u8],
        count: usize,
    },
    Codes {
        width: u8,
        entries: &'a [u8],
        codes: &'a [u8],
        count: usize,
    },
}

impl<'a> FrameView<'a> {
    /// Takes the frame of `len` words that fills `bytes`. O(1), of runs and patches O(them); fails if it does not.
    pub(super) fn parse(bytes: &'a [u8], len: usize) -> Result<FrameView<'a>> {
        let cursor = &mut Cursor::new(bytes, FRAME_OF_WORDS);
        let (form, reference) = (cursor.u8()?, cursor.u64()?);
        let form = match form {
            DISTANCES => {
                let width = take_width(cursor)?;
                Form::Distances { width, packed: cursor.take(packed_len(len, width))? }
            }
            STEPS => {
                let (least, width) = (cursor.u64()?, take_width(cursor)?);
                Form::Steps { least, width, packed: cursor.take(packed_len(len, width))? }
            }
            RUNS => {
                let (width, count, values) = take_listed(cursor, len)?;
                let lens = cursor.take(packed_len(count, POSITION_BITS))?;
                let sum: u64 = (0..count).map(|run| packed_at(lens, POSITION_BITS, run) + 1).sum();
                if sum != len as u64 {
                    return Err(cursor.error(format!("runs of {sum} words, not {len}")));
                }
                Form::Runs { width, values, lens, count }
            }
            MARKED => {
                let (width, count, values) = take_listed(cursor, len)?;
                let marks = cursor.take(packed_len(len, 1))?;
                let marked = marks.iter().map(|byte| byte.count_ones() as usize).sum::<usize>();
                if marks[0] & 1 == 0 || marked != count {
                    return Err(cursor.error(format!("{marked} marks of {count} runs")));
                }
                Form::Marked { width, values, marks, count }
            }
            PATCHED => {
                let (wide, width) = (take_width(cursor)?, take_width(cursor)?);
                if width >= wide {
                    return Err(cursor.error(format!("{wide} bits beside {width}")));
                }
                let count = take_count(cursor, len)?;
                let packed = cursor.take(packed_len(len, width))?;
                let places = cursor.take(packed_len(count, POSITION_BITS))?;
                let uppers = cursor.take(packed_len(count, wide - width))?;
                if (0..count).any(|patch| packed_at(places, POSITION_BITS, patch) >= len as u64) {
                    return Err(cursor.error(format!("a patch beyond {len} words")));
                }
                Form::Patched { wide, width, packed, places, uppers, count }
            }
            CODES => {
                let (width, count, entries) = take_listed(cursor, len)?;
                let codes = cursor.take(packed_len(len, code_width(count)))?;
                Form::Codes { width, entries, codes, count }
            }
            other => return Err(cursor.error(format!("form {other}"))),
        };
        match cursor.is_empty() {
            true => Ok(FrameView { len, reference, form }),
            false => Err(cursor.error("bytes left over")),
        }
    }

    /// Writes the first words of the frame. Bytes that break the promise of the format read as some words.
    pub(super) fn read(&self, out: &mut [u64]) {
        let plus = |word: &mut u64| *word = word.wrapping_add(self.reference);
        match self.form {
            Form::Distances { width, packed } => {
                unpack(packed, width, out);
                out.iter_mut().for_each(plus);
            }
            Form::Steps { least, width, packed } => {
                unpack(packed, width, out);
                let mut last = self.reference;
                if let Some((first, steps)) = out.split_first_mut() {
                    *first = last;
                    for step in steps {
                        last = last.wrapping_add(least).wrapping_add(*step);
                        *step = last;
                    }
                }
            }
            Form::Runs { width, values, lens, count } => {
                let mut at = 0;
                for run in 0..count {
                    if at >= out.len() {
                        break;
                    }
                    let len = packed_at(lens, POSITION_BITS, run) as usize + 1;
                    let end = out.len().min(at + len);
                    out[at..end].fill(self.reference.wrapping_add(packed_at(values, width, run)));
                    at = end;
                }
            }
            Form::Marked { width, values, marks, count } => {
                let mut of_runs = [0u64; FRAME];
                unpack(values, width, &mut of_runs[..count]);
                let mut runs = 0usize;
                for (at, word) in out.iter_mut().enumerate() {
                    runs += usize::from(marks[at / 8] >> (at % 8) & 1);
                    // The first word has a mark.
                    *word = self.reference.wrapping_add(of_runs[(runs - 1) % FRAME]);
                }
            }
            Form::Patched { wide, width, packed, places, uppers, count } => {
                unpack(packed, width, out);
                for patch in 0..count {
                    let at = packed_at(places, POSITION_BITS, patch) as usize;
                    if let Some(word) = out.get_mut(at) {
                        *word |= packed_at(uppers, wide - width, patch) << width;
                    }
                }
                out.iter_mut().for_each(plus);
            }
            Form::Codes { width, entries, codes, count } => {
                let mut entries_of = [0u64; FRAME];
                unpack(entries, width, &mut entries_of[..count]);
                entries_of[..count].iter_mut().for_each(plus);
                unpack(codes, code_width(count), out);
                // A power of two: no code of ten bits is beyond it.
                out.iter_mut().for_each(|word| *word = entries_of[*word as usize % FRAME]);
            }
        }
    }

    /// Whether a word may be among these. Of distances and codes, none is written anywhere: they are compared as they are
    /// unpacked.
    pub(super) fn may_hold(&self, wanted: u64) -> bool {
        let distance = wanted.wrapping_sub(self.reference);
        match self.form {
            Form::Distances { width, packed } => has_packed(packed, width, self.len, distance),
            Form::Runs { width, .. }
            | Form::Marked { width, .. }
            | Form::Patched { wide: width, .. } => width_of(distance) <= width,
            Form::Codes { width, entries, codes, count } => {
                let code = (0..count).find(|&code| packed_at(entries, width, code) == distance);
                code.is_some_and(|code| has_packed(codes, code_width(count), self.len, code as u64))
            }
            Form::Steps { .. } => true,
        }
    }
}

fn take_width(cursor: &mut Cursor<'_>) -> Result<u8> {
    let width = cursor.u8()?;
    match u32::from(width) <= u64::BITS {
        true => Ok(width),
        false => Err(cursor.error(format!("words of {width} bits"))),
    }
}

/// The width of some distances, their number, and they: one for each run, or for each entry.
fn take_listed<'a>(cursor: &mut Cursor<'a>, len: usize) -> Result<(u8, usize, &'a [u8])> {
    let (width, count) = (take_width(cursor)?, take_count(cursor, len)?);
    Ok((width, count, cursor.take(packed_len(count, width))?))
}

/// How many runs, patches or entries a frame has.
fn take_count(cursor: &mut Cursor<'_>, len: usize) -> Result<usize> {
    let count = usize::from(cursor.u16()?);
    match (1..=len).contains(&count) {
        true => Ok(count),
        false => Err(cursor.error(format!("{count} parts of {len} words"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form_of(words: &[u64]) -> (u8, usize) {
        let mut bytes = Vec::new();
        put_frame(words, &mut bytes);
        let view = FrameView::parse(&bytes, words.len()).unwrap();
        for to in [0, 1, words.len() / 2, words.len()] {
            let mut read = vec![0; to];
            view.read(&mut read);
            assert_eq!(read, &words[..to]);
        }
        assert!(words.iter().all(|&word| view.may_hold(word)));
        (bytes[0], bytes.len())
    }

    #[test]
    fn words_take_the_form_that_suits_them() {
        let scattered = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let rows = || 0..FRAME as u64;
        let any: Vec<u64> = rows().map(scattered).collect();
        let evenly: Vec<u64> = rows().map(|at| 1_000_000 + at * 700).collect();
        let runs: Vec<u64> = rows().map(|at| scattered(at / 100)).collect();
        let odd: Vec<u64> = rows()
            .map(|at| if at % 100 == 7 { scattered(at) } else { scattered(at) % 64 })
            .collect();
        let few: Vec<u64> = rows().map(|at| scattered(at) % 16 * 999 + 50).collect();
        let short: Vec<u64> = rows().map(|at| scattered(at / 3)).collect();
        let (packed, header) = (packed_len(FRAME, 44), 10);
        assert_eq!(form_of(&any), (DISTANCES, header + packed));
        assert_eq!(form_of(&evenly), (STEPS, header + 8));
        let (form, bytes) = form_of(&runs);
        assert!(form == RUNS && bytes < 100, "{form}: {bytes}");
        assert_eq!(form_of(&short), (MARKED, header + 2 + packed_len(342, 44) + FRAME / 8));
        let (form, bytes) = form_of(&odd);
        assert!(form == PATCHED && bytes < packed_len(FRAME, 7), "{form}: {bytes}");
        assert_eq!(form_of(&few), (CODES, header + 2 + packed_len(16, 14) + FRAME / 2));
    }

    #[test]
    fn a_frame_without_a_word_is_passed_over() {
        let frames: [(&[u64], u64); 3] =
            [(&[100, 117, 103], 99), (&[90; 700], 91), (&[5, 6, 5, 6, 5, 1 << 40], 1 << 41)];
        for (words, other) in frames {
            let mut bytes = Vec::new();
            put_frame(words, &mut bytes);
            let view = FrameView::parse(&bytes, words.len()).unwrap();
            assert!(words.iter().all(|&word| view.may_hold(word)) && !view.may_hold(other));
        }
    }

    #[test]
    fn parts_that_do_not_make_a_frame_are_refused() {
        let runs = |lens: &[u64]| {
            let mut bytes = vec![RUNS];
            put_u64(&mut bytes, 5);
            bytes.push(0);
            put_u16(&mut bytes, lens.len() as u16);
            put_packed(lens.iter().map(|len| len - 1), POSITION_BITS, &mut bytes);
            FrameView::parse(&bytes, 10).is_ok()
        };
        assert!(runs(&[4, 6]) && runs(&[10]));
        assert!(!runs(&[4, 5]) && !runs(&[4, 7]) && !runs(&[]) && !runs(&[1; 11]));
        let marked = |marks: [u8; 2], count: u16| {
            let mut bytes = vec![MARKED];
            put_u64(&mut bytes, 5);
            bytes.push(0);
            put_u16(&mut bytes, count);
            bytes.extend(marks);
            FrameView::parse(&bytes, 10).is_ok()
        };
        assert!(marked([0b101, 0b10], 3) && marked([1, 0], 1));
        assert!(!marked([0b101, 0b10], 4) && !marked([0b100, 0b10], 2) && !marked([0, 0], 0));
        let patched = |place: u64, wide: u8, width: u8| {
            let mut bytes = vec![PATCHED];
            put_u64(&mut bytes, 5);
            bytes.extend([wide, width]);
            put_u16(&mut bytes, 1);
            put_packed([0; 10].into_iter(), width, &mut bytes);
            put_packed([place].into_iter(), POSITION_BITS, &mut bytes);
            put_packed([1].into_iter(), wide.saturating_sub(width), &mut bytes);
            FrameView::parse(&bytes, 10).is_ok()
        };
        assert!(patched(9, 12, 3));
        assert!(
            !patched(10, 12, 3) && !patched(9, 3, 3) && !patched(9, 2, 3) && !patched(9, 65, 3)
        );
    }
}

//! A text of a key, with its beginning as a machine word.

/// Bytes of a word.
const WORD: usize = size_of::<u128>();

/// What of sixteen bytes belongs to a text that has fewer, by its length.
const MASKS: [u128; WORD + 1] = {
    let (mut masks, mut len) = ([u128::MAX; WORD + 1], 0);
    while len < WORD {
        masks[len] = (1 << (u8::BITS as usize * len)) - 1;
        len += 1;
    }
    masks
};

/// A text as keys have it, but for its tag and its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text<'t> {
    /// The first sixteen bytes as a number, the first one lowest, with zeros behind the end: all of most texts.
    word: u128,
    pub bytes: &'t [u8],
}

impl<'t> Text<'t> {
    #[inline]
    pub fn new(bytes: &'t [u8]) -> Text<'t> {
        match bytes.first_chunk() {
            Some(first) => Text { word: u128::from_le_bytes(*first), bytes },
            None => {
                let mut word = [0; WORD];
                word[..bytes.len()].copy_from_slice(bytes);
                Text { word: u128::from_le_bytes(word), bytes }
            }
        }
    }

    /// `len` of some bytes, from `begin` on. Where others follow, its word is one read.
    #[inline]
    pub fn within(bytes: &'t [u8], begin: usize, len: usize) -> Text<'t> {
        let text = &bytes[begin..begin + len];
        match bytes[begin..].first_chunk() {
            Some(chunk) => {
                let word = u128::from_le_bytes(*chunk) & MASKS[len.min(WORD)];
                Text { word, bytes: text }
            }
            None => Text::new(text),
        }
    }

    /// A number of the first bytes that no greater text exceeds.
    pub fn rank(self) -> u128 {
        self.word.swap_bytes()
    }

    /// The first bytes and the last as numbers, if they are all: texts of the same length with the same numbers are the same.
    #[inline]
    pub fn as_words(self) -> Option<[u128; 2]> {
        match self.bytes.last_chunk() {
            _ if self.bytes.len() <= WORD => Some([self.word, 0]),
            Some(last) if self.bytes.len() <= 2 * WORD => {
                Some([self.word, u128::from_le_bytes(*last)])
            }
            _ => None,
        }
    }
}

impl PartialEq for Text<'_> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.word == other.word
            && self.bytes.len() == other.bytes.len()
            && (self.bytes.len() <= WORD || self.bytes == other.bytes)
    }
}

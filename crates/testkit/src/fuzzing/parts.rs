//! An input as a list of byte strings: pages, frames, or what a target needs to know besides.
//!
//! Each has its length before it, as two bytes, least significant first. Any bytes are such a list: what is cut short is
//! shorter.

/// The longest part that is kept whole.
pub const PART_BYTES_MAX: usize = u16::MAX as usize;

/// The parts of an input.
pub fn split(mut input: &[u8]) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    while let Some((len, rest)) = input.split_first_chunk() {
        let len = usize::from(u16::from_le_bytes(*len)).min(rest.len());
        parts.push(rest[..len].to_vec());
        input = &rest[len..];
    }
    parts
}

/// The input of some parts, of which those that are too long are cut.
pub fn join(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut input = Vec::new();
    for part in parts {
        let part = &part[..part.len().min(PART_BYTES_MAX)];
        input.extend_from_slice(&(part.len() as u16).to_le_bytes());
        input.extend_from_slice(part);
    }
    input
}

/// The part at a position, empty where there is none.
pub fn part(parts: &[Vec<u8>], at: usize) -> &[u8] {
    parts.get(at).map_or(&[], Vec::as_slice)
}

/// The byte at a position of a part, 0 where there is none.
pub fn byte(part: &[u8], at: usize) -> u8 {
    part.get(at).copied().unwrap_or(0)
}

/// The eight bytes at a position of a part as a number, with zeros behind its end.
pub fn number(part: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|offset| byte(part, at + offset)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back_and_any_bytes_are_some() {
        let parts = vec![b"one".to_vec(), Vec::new(), vec![7; 300]];
        assert_eq!(split(&join(&parts)), parts);
        assert_eq!(split(&[5, 0, 1, 2]), [[1, 2]]);
        assert_eq!(split(&[5]), Vec::<Vec<u8>>::new());
    }
}

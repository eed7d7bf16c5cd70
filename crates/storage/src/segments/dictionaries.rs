//! The dictionaries of segments, which blocks and streams say nothing without.

use std::sync::Arc;

use drillcore_format::dictionary::{Dictionaries, Dictionary};
use drillcore_format::index_page::BlockPlace;
use drillcore_format::page::PageKind;
use drillcore_format::rows::Projection;
use drillcore_format::streams::directory::StreamColumn;

use crate::error::Result;
use crate::few::Few;
use crate::pages::held_dictionary::HeldDictionary;
use crate::pages::page_cache::{PageCache, WithPayloads};
use crate::pages::paged_file::PageRequest;
use crate::segments::segment::Segment;

/// Bytes of dictionaries that are read together, unless those of one segment have more.
const BYTES_AT_ONCE: u64 = 4 << 20;

/// The dictionaries of some columns of values of a segment, by the numbers of these.
pub type OfSegment = Few<(usize, Arc<Dictionary>)>;

/// Bytes of dictionaries that are held for segments whose blocks come again.
const BYTES_HELD: u64 = 16 << 20;

/// The dictionaries of the segments whose blocks come next.
#[derive(Default)]
pub(super) struct Ahead(Few<Read>);

/// The dictionaries of the segment with a number, by which these ascend.
struct Read {
    of: usize,
    dictionaries: OfSegment,
    /// As they are stored.
    bytes: u64,
}

impl Segment {
    /// The dictionaries of what is projected. A page for each that is not in memory, read together. Who holds them spares who reads on
    /// to read them again.
    pub fn dictionaries(&self, projection: &Projection) -> Result<OfSegment> {
        let mut dictionaries = of_each(self.shared_cache(), &[self], projection, &[]).0?;
        Ok(dictionaries.pop().expect("those of one segment were asked for"))
    }

    /// The same of each of some segments, which share a page cache: read together.
    pub fn dictionaries_of_each(
        segments: &[&Segment],
        projection: &Projection,
    ) -> Result<Vec<OfSegment>> {
        let Some(first) = segments.first() else { return Ok(Vec::new()) };
        Ok(of_each(first.shared_cache(), segments, projection, &[]).0?.into_vec())
    }

    /// Those of one segment, and the payload of a row block. What is not in memory is read together.
    pub(super) fn dictionaries_with_block(
        &self,
        projection: &Projection,
        place: &BlockPlace,
    ) -> (Result<OfSegment>, Result<Arc<[u8]>>) {
        let held = |(number, value): (usize, usize)| {
            self.held_dictionaries[number].find().map(|dictionary| (value, dictionary))
        };
        let block = self.block_request(place);
        // Those of a segment that is read often are held.
        if let Some(held) = self.projected_dictionaries(projection).map(held).collect() {
            return (Ok(held), self.cache().payload(block));
        }
        let (dictionaries, mut payloads) =
            of_each(self.shared_cache(), &[self], projection, &[block]);
        let of_one = |mut of_segments: Few<OfSegment>| {
            of_segments.pop().expect("those of one segment were asked for")
        };
        (dictionaries.map(of_one), payloads.pop().expect("one block was asked for"))
    }

    fn dictionary_bytes(&self, projection: &Projection) -> u64 {
        let bytes = |(number, _): (usize, usize)| u64::from(self.footer.dictionaries[number].1.1);
        self.projected_dictionaries(projection).map(bytes).sum()
    }

    /// The numbers of the dictionaries of what is projected, each with that of its column of values.
    fn projected_dictionaries(
        &self,
        projection: &Projection,
    ) -> impl Iterator<Item = (usize, usize)> {
        let of_value = |(number, (column, _)): (usize, &(StreamColumn, _))| match column {
            StreamColumn::Value(value) => Some((number, *value as usize)),
            StreamColumn::Key(_) => None,
        };
        let of_values = self.footer.dictionaries.iter().enumerate().filter_map(of_value);
        of_values.filter(|(_, value)| projection.values.binary_search(value).is_ok())
    }
}

/// The dictionaries of what is projected of some segments, and the payloads of some of their row blocks; the segments share a
/// page cache. What is not in memory is read together.
pub(super) fn of_each(
    cache: &Arc<PageCache>,
    segments: &[&Segment],
    projection: &Projection,
    blocks: &[PageRequest<'_>],
) -> WithPayloads<Few<OfSegment>> {
    let projected = |segment: &&Segment| segment.projected_dictionaries(projection).collect();
    let projected: Few<Few<(usize, usize)>> = segments.iter().map(projected).collect();
    let wanted: Few<(&Segment, usize)> = segments
        .iter()
        .zip(&projected)
        .flat_map(|(segment, columns)| columns.iter().map(|&(number, _)| (*segment, number)))
        .collect();
    let (found, payloads) = read(cache, &wanted, blocks);
    let of_segments = |found: Few<Arc<Dictionary>>| {
        let mut found = found.into_iter();
        let mut of_value = |(_, value)| (value, found.next().expect("each was asked for"));
        projected.into_iter().map(|of| of.into_iter().map(&mut of_value).collect()).collect()
    };
    (found.map(of_segments), payloads)
}

/// Some dictionaries, by segments and their numbers there, and payloads of row blocks, read together.
pub(super) fn read(
    cache: &Arc<PageCache>,
    wanted: &[(&Segment, usize)],
    blocks: &[PageRequest<'_>],
) -> WithPayloads<Few<Arc<Dictionary>>> {
    let place = |(segment, number): (&Segment, usize)| segment.footer.dictionaries[number].1;
    let requests: Few<_> = wanted
        .iter()
        .map(|&(segment, number)| {
            let request = segment.stream_request(place((segment, number)), PageKind::Dictionary);
            (&segment.held_dictionaries[number], request)
        })
        .collect();
    HeldDictionary::get_many(cache, &requests, blocks, |at, payload| {
        let damaged = |error| wanted[at].0.damaged(place(wanted[at]).0, error);
        Dictionary::decode(payload).map_err(damaged)
    })
}

impl Ahead {
    /// The dictionaries of some segments, which come with numbers that ascend, as many as have few bytes, at least one's; and the payloads of
    /// some row blocks.
    pub fn read<'s>(
        cache: &Arc<PageCache>,
        numbers: impl Iterator<Item = usize>,
        segment: impl Fn(usize) -> &'s Segment,
        projection: &Projection,
        blocks: &[PageRequest<'_>],
    ) -> WithPayloads<Ahead> {
        let mut next: Few<usize> = numbers.collect();
        next.dedup();
        let mut sizes: Few<u64> = Few::new();
        let mut sum = 0;
        for &number in &next {
            let bytes = segment(number).dictionary_bytes(projection);
            sum += bytes;
            if sum > BYTES_AT_ONCE && !sizes.is_empty() {
                break;
            }
            sizes.push(bytes);
        }
        next.truncate(sizes.len());
        let segments: Few<&Segment> = next.iter().map(|&number| segment(number)).collect();
        let (read, payloads) = of_each(cache, &segments, projection, blocks);
        let of_segment = |((of, bytes), dictionaries)| Read { of, bytes, dictionaries };
        let ahead = |read: Few<OfSegment>| {
            Ahead(next.into_iter().zip(sizes).zip(read).map(of_segment).collect())
        };
        (read.map(ahead), payloads)
    }

    /// Holds those of other segments as well, which come next. If that would be many bytes, those that were held are let go, the last first:
    /// segments that are read in turn find the first ones again.
    pub fn add(&mut self, others: Ahead) {
        if self.0.is_empty() {
            *self = others;
            return;
        }
        let next: Few<usize> = others.0.iter().map(|read| read.of).collect();
        for read in others.0 {
            if let Err(at) = self.0.binary_search_by_key(&read.of, |held| held.of) {
                self.0.insert(at, read);
            }
        }
        let mut bytes: u64 = self.0.iter().map(|read| read.bytes).sum();
        for at in (0..self.0.len()).rev() {
            if bytes > BYTES_HELD && !next.contains(&self.0[at].of) {
                bytes -= self.0.remove(at).bytes;
            }
        }
    }

    /// Those of a segment; `None` if they were not read.
    pub fn of(&self, number: usize) -> Option<&Dictionaries> {
        let at = self.0.binary_search_by_key(&number, |read| read.of).ok()?;
        Some(&self.0[at].dictionaries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(segments: &[(usize, u64)]) -> Ahead {
        let read = |&(of, mebibytes)| Read { of, bytes: mebibytes << 20, dictionaries: Few::new() };
        Ahead(segments.iter().map(read).collect())
    }

    #[test]
    fn dictionaries_that_come_next_and_the_first_of_the_others_are_held() {
        let mut held = of(&[(0, 5), (1, 5)]);
        let mut check = |added: &[(usize, u64)], expected: &[usize]| {
            held.add(of(added));
            let numbers: Vec<usize> = held.0.iter().map(|read| read.of).collect();
            assert_eq!(numbers, expected);
        };
        check(&[(4, 5)], &[0, 1, 4]);
        // Those that are there already take no more room.
        check(&[(1, 5), (4, 5)], &[0, 1, 4]);
        check(&[(2, 5)], &[0, 1, 2]);
        check(&[(3, 40)], &[3]);
        check(&[(5, 1), (6, 1)], &[5, 6]);
    }
}

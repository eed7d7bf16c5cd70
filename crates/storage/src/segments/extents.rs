//! Reading long values, which lie apart from the blocks of their rows.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use drillcore_format::block::{BlockView, Picked};
use drillcore_format::extents::ExtentPlace;
use drillcore_format::page::PageKind;
use drillcore_format::rows::Projection;

use crate::error::Result;
use crate::few::Few;
use crate::files::reads::ReadBytes;
use crate::pages::page_cache::PageCache;
use crate::pages::paged_file::PageRequest;
use crate::segments::segment::Segment;

/// Bytes of long values that are read together, unless those of one block are longer.
const TOGETHER_BYTES: u64 = 4 << 20;
/// Bytes of the file that are read at once where they follow each other, unless one value is longer ...
const SEQUENCE_BYTES: u64 = 1 << 20;
/// ... and between two that are read together all the same.
const GAP_BYTES: u64 = 8 << 10;

/// Long values of blocks that are taken apart one after the other, read for several of them at once.
#[derive(Default)]
pub(super) struct ExtentsAhead {
    read: VecDeque<Vec<Arc<[u8]>>>,
}

impl ExtentsAhead {
    /// Those of the next block. `places` says where those of a block lie, by how many blocks come before it from now on;
    /// nothing behind the last one.
    pub fn next<'s>(
        &mut self,
        cache: &PageCache,
        mut places: impl FnMut(usize) -> Result<Option<(&'s Segment, Vec<ExtentPlace>)>>,
    ) -> Result<Vec<Arc<[u8]>>> {
        if let Some(read) = self.read.pop_front() {
            return Ok(read);
        }
        let mut requests: Few<PageRequest<'_>> = Few::new();
        let (mut counts, mut bytes) = (Vec::new(), 0);
        while bytes < TOGETHER_BYTES
            && let Some((segment, places)) = places(counts.len())?
        {
            counts.push(places.len());
            bytes += places.iter().map(|(_, bytes)| u64::from(*bytes)).sum::<u64>();
            requests.extend(places.into_iter().map(|place| segment.extent_request(place)));
        }
        let mut values = match requests.is_empty() {
            true => Few::new(),
            false => cache.payloads(&requests),
        }
        .into_iter();
        for count in counts {
            self.read.push_back(values.by_ref().take(count).collect::<Result<_>>()?);
        }
        Ok(self.read.pop_front().unwrap_or_default())
    }
}

impl Segment {
    fn extent_request(&self, (offset, bytes): ExtentPlace) -> PageRequest<'_> {
        PageRequest { file: self.file(), offset, bytes, kind: PageKind::Extent }
    }

    /// Where the values of some rows of a block lie that lie apart.
    pub(super) fn extents_of(
        &self,
        offset: u64,
        view: &BlockView<'_>,
        projection: &Projection,
        rows: Picked<'_>,
    ) -> Result<Vec<ExtentPlace>> {
        view.extents(projection, rows).map_err(|error| self.damaged(offset, error))
    }

    /// Long values, in the order of their places, read together.
    pub(super) fn extents(&self, places: &[ExtentPlace]) -> Result<Vec<Arc<[u8]>>> {
        let requests: Few<PageRequest<'_>> =
            places.iter().map(|place| self.extent_request(*place)).collect();
        match requests.is_empty() {
            true => Ok(Vec::new()),
            false => self.cache().payloads(&requests).into_iter().collect(),
        }
    }

    /// Long values for who reads all of a file, in the order of their places, past the cache: those that lie side by side at
    /// once.
    pub(super) fn read_extents(&self, places: &[ExtentPlace]) -> Result<Vec<Arc<[u8]>>> {
        let mut in_file: Vec<usize> = (0..places.len()).collect();
        in_file.sort_unstable_by_key(|&number| places[number].0);
        let mut values: Vec<Arc<[u8]>> = vec![Arc::from([]); places.len()];
        let end = |number: usize| places[number].0.saturating_add(u64::from(places[number].1));
        let (mut rest, mut buffer) = (in_file.as_slice(), ReadBytes::default());
        while let Some(&first) = rest.first() {
            let start = places[first].0;
            let near = |pair: &&[usize]| {
                let (before, next) = (pair[0], pair[1]);
                places[next].0 <= end(before).saturating_add(GAP_BYTES)
                    && end(next) - start <= SEQUENCE_BYTES
            };
            let count = 1 + rest.windows(2).take_while(near).count();
            let (together, later) = rest.split_at(count);
            let last = together.iter().map(|&number| end(number)).max().unwrap_or(start);
            buffer = self.read_over(buffer, start, last - start)?;
            let counts = self.cache().counts();
            counts.extents.fetch_add(together.len() as u64, Ordering::Relaxed);
            for &number in together {
                let (offset, len) = places[number];
                let at = (offset - start) as usize;
                let page = &buffer.as_slice()[at..at + len as usize];
                values[number] = self.file().payload(page, PageKind::Extent, offset)?.into();
            }
            rest = later;
        }
        Ok(values)
    }
}

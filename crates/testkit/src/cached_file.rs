//! A file as a system with a page cache holds it: what reads see, and what a power cut cannot take.
//!
//! A write goes to pages in memory and makes them dirty; a sync brings the dirty pages to the disk. A sync that
//! fails leaves pages clean that are not on disk, as Linux does: reads go on to see them, and no later sync
//! brings them there, unless the page is written to again.
//!
//! Until then the system may bring each page to the disk at any time, as it is at that time, or not at all; and
//! where the power goes meanwhile, some of its sectors. Files only grow, so what is not there reads as zeros.

use std::collections::BTreeSet;

use drillcore_sample::rng::Rng;

/// The unit of the cache.
const PAGE_BYTES: usize = 4096;
/// The unit in which a disk writes.
const SECTOR_BYTES: usize = 512;

/// What a power cut does to bytes that were not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsynced {
    /// They are gone, and so are unsynced changes of the folder.
    Dropped,
    /// They are all there, and so are unsynced changes of the folder.
    Kept,
    /// Each file ends at a random one of them; each change of the folder happened or did not.
    Cut,
    /// Each file has its length, but is zero from a random sector on; the folder as with `Cut`.
    Zeroed,
    /// Each page is there as it was after some write since the last sync, or as it was synced; the folder as
    /// with `Cut`.
    Pages,
    /// The same by sector: the power went while pages were being written.
    Sectors,
}

impl Unsynced {
    /// Each of them.
    pub const ALL: [Unsynced; 6] = [
        Unsynced::Dropped,
        Unsynced::Kept,
        Unsynced::Cut,
        Unsynced::Zeroed,
        Unsynced::Pages,
        Unsynced::Sectors,
    ];
}

/// One file.
#[derive(Debug, Clone, Default)]
pub struct CachedFile {
    /// What reads see.
    seen: Vec<u8>,
    /// What a power cut cannot take. Where it is shorter, or differs from `seen`, it is zero.
    disk: Vec<u8>,
    /// The pages that the next sync writes.
    dirty: BTreeSet<usize>,
    /// How long the file was after each write since the last sync, oldest first.
    lens: Vec<usize>,
}

impl CachedFile {
    /// A file with these bytes on disk.
    pub fn on_disk(bytes: Vec<u8>) -> CachedFile {
        CachedFile { seen: bytes.clone(), disk: bytes, ..Default::default() }
    }

    /// What reads see.
    pub fn bytes(&self) -> &[u8] {
        &self.seen
    }

    /// Writes behind the end, without a sync.
    pub fn append(&mut self, bytes: &[u8]) {
        let from = self.seen.len();
        self.seen.extend_from_slice(bytes);
        if !bytes.is_empty() {
            self.dirty.extend(from / PAGE_BYTES..=(self.seen.len() - 1) / PAGE_BYTES);
            self.lens.push(self.seen.len());
        }
    }

    /// Brings the dirty pages and the length to the disk.
    pub fn sync(&mut self) {
        self.disk.resize(self.seen.len(), 0);
        for page in std::mem::take(&mut self.dirty) {
            let range = page * PAGE_BYTES..self.seen.len().min((page + 1) * PAGE_BYTES);
            self.disk[range.clone()].copy_from_slice(&self.seen[range]);
        }
        self.lens.clear();
    }

    /// Takes the dirty pages for written, although the disk refused them.
    pub fn fail_sync(&mut self) {
        self.dirty.clear();
    }

    /// What a power cut leaves.
    pub fn after_power_cut(&self, unsynced: Unsynced, rng: &mut Rng) -> Vec<u8> {
        let certain_len = self.certain_len();
        let cut = certain_len + rng.below((self.seen.len() - certain_len) as u64 + 1) as usize;
        let mut image = self.disk.clone();
        match unsynced {
            Unsynced::Dropped => image,
            Unsynced::Kept => self.seen.clone(),
            Unsynced::Cut => {
                image.resize(self.disk.len().max(cut), 0);
                image[..cut].copy_from_slice(&self.seen[..cut]);
                image
            }
            Unsynced::Zeroed => {
                let from = (cut / SECTOR_BYTES * SECTOR_BYTES).max(certain_len);
                image.resize(self.seen.len(), 0);
                image[..from].copy_from_slice(&self.seen[..from]);
                image
            }
            Unsynced::Pages => self.by_unit(PAGE_BYTES, rng),
            Unsynced::Sectors => self.by_unit(SECTOR_BYTES, rng),
        }
    }

    /// Up to where the disk holds what reads see.
    fn certain_len(&self) -> usize {
        let chunks = self.seen.chunks(PAGE_BYTES).zip(self.disk.chunks(PAGE_BYTES));
        let same = chunks.take_while(|(seen, disk)| seen == disk).count() * PAGE_BYTES;
        let same = same.min(self.disk.len());
        let rest = self.seen[same..].iter().zip(&self.disk[same..]);
        same + rest.take_while(|(seen, disk)| seen == disk).count()
    }

    fn by_unit(&self, unit_bytes: usize, rng: &mut Rng) -> Vec<u8> {
        let any_len = |rng: &mut Rng| match self.lens.len() as u64 {
            0 => self.seen.len(),
            writes => self.lens[rng.below(writes) as usize],
        };
        let len = if rng.below(2) == 0 { self.seen.len() } else { any_len(rng) };
        let mut image = self.disk.clone();
        image.resize(len.max(self.disk.len()), 0);
        let lost_of_8 = 1 + rng.below(7);
        for from in (0..image.len()).step_by(unit_bytes) {
            // How much of the unit was there when it was written.
            let written = match rng.below(8) {
                share if share < lost_of_8 => 0,
                7 => any_len(rng),
                _ => self.seen.len(),
            };
            let to = written.min(from + unit_bytes).min(image.len());
            if from < to {
                image[from..to].copy_from_slice(&self.seen[from..to]);
            }
        }
        image
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images(file: &CachedFile, unsynced: Unsynced) -> impl Iterator<Item = Vec<u8>> {
        (0..200).map(move |seed| file.after_power_cut(unsynced, &mut Rng::keyed(seed, 0)))
    }

    #[test]
    fn what_was_synced_is_in_every_image_and_the_rest_as_asked() {
        let mut file = CachedFile::default();
        file.append(&[1; 600]);
        file.sync();
        file.append(&[2; 9000]);
        file.append(&[3; 1000]);
        for unsynced in Unsynced::ALL {
            assert!(images(&file, unsynced).all(|image| image[..600] == [1; 600]), "{unsynced:?}");
        }
        assert!(images(&file, Unsynced::Dropped).all(|image| image.len() == 600));
        assert!(images(&file, Unsynced::Kept).all(|image| image == file.bytes()));
        let is_prefix = |image: Vec<u8>| file.bytes().starts_with(&image);
        assert!(images(&file, Unsynced::Cut).all(is_prefix));
        for image in images(&file, Unsynced::Zeroed) {
            let zeros = image.iter().rev().take_while(|byte| **byte == 0).count();
            assert_eq!(image.len(), 10_600);
            assert_eq!(image[..10_600 - zeros], file.bytes()[..10_600 - zeros]);
        }
    }

    #[test]
    fn pages_and_sectors_are_lost_in_any_order_and_kept_as_some_write_left_them() {
        let mut file = CachedFile::default();
        file.append(&[1; 600]);
        file.sync();
        file.append(&[2; 9000]);
        file.append(&[3; 1000]);
        for (unsynced, unit) in [(Unsynced::Pages, PAGE_BYTES), (Unsynced::Sectors, SECTOR_BYTES)] {
            let (mut hole, mut older, mut shorter) = (false, false, false);
            for image in images(&file, unsynced) {
                let lost_first = image.get(600) == Some(&0);
                hole |= lost_first && image.get(9000) == Some(&2);
                let end_of_page = 9600_usize.next_multiple_of(unit).min(10_600) - 1;
                older |= image.get(9599) == Some(&2) && image.get(end_of_page) == Some(&0);
                shorter |= image.len() == 9600;
                for (at, byte) in image.iter().enumerate() {
                    assert!(*byte == file.bytes()[at] || at >= 600 && *byte == 0, "byte {at}");
                }
            }
            assert!(hole && older && shorter, "{unsynced:?}: {hole}, {older}, {shorter}");
        }
    }

    #[test]
    fn a_failed_sync_leaves_pages_that_no_later_sync_writes() {
        let mut file = CachedFile::default();
        file.append(&[1; 5000]);
        file.fail_sync();
        file.append(&[2; 5000]);
        file.sync();
        let [mut expected, seen] = [vec![0; 10_000], file.bytes().to_vec()];
        // The second page was written to again, the first was not.
        expected[4096..].copy_from_slice(&seen[4096..]);
        assert!(images(&file, Unsynced::Dropped).all(|image| image == expected));
        assert!(images(&file, Unsynced::Pages).any(|image| image == seen), "it may be there");
        assert_eq!(seen[..5000], [1; 5000], "reads see it all");
    }
}

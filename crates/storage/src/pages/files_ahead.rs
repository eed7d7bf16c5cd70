//! Opening many files of pages: the ends of those that come next are read together.

use std::collections::{HashMap, VecDeque};

use drillcore_format::file_tail::FileKind;
use drillcore_format::ids::SegmentId;
use drillcore_format::manifest_edit::PostingsMeta;

use crate::error::Result;
use crate::files::directory::Directory;
use crate::pages::paged_file::{FileEnd, PagedFile};

/// Files whose ends are read together: 2 MiB at most.
const FILES_AT_ONCE: usize = 128;

/// Files that are about to be opened.
pub struct FilesAhead<'d> {
    directory: &'d dyn Directory,
    /// Those that were not read, in about the order in which they will be asked for.
    left: VecDeque<(FileKind, SegmentId)>,
    /// Both kinds are numbered together.
    read: HashMap<SegmentId, Result<(PagedFile, FileEnd)>>,
}

impl<'d> FilesAhead<'d> {
    /// Nothing to read ahead: each file is read once it is asked for.
    pub fn none(directory: &'d dyn Directory) -> FilesAhead<'d> {
        FilesAhead { directory, left: VecDeque::new(), read: HashMap::new() }
    }

    /// Segments in about the order in which they will be opened, each with its postings if these have a file of their own.
    pub fn of_segments(
        directory: &'d dyn Directory,
        segments: impl Iterator<Item = (SegmentId, Option<PostingsMeta>)>,
    ) -> FilesAhead<'d> {
        let files_of = |(segment, postings): (SegmentId, Option<PostingsMeta>)| {
            let postings = postings.map(|postings| (FileKind::Postings, postings.file));
            std::iter::once((FileKind::Segment, segment)).chain(postings)
        };
        let left = segments.flat_map(files_of).collect();
        FilesAhead { left, ..FilesAhead::none(directory) }
    }

    /// A file with its end. The first of each few dozen has those behind it read, too; an error of one of them is kept for it.
    pub(crate) fn open(&mut self, kind: FileKind, id: SegmentId) -> Result<(PagedFile, FileEnd)> {
        if let Some(opened) = self.read.remove(&id) {
            return opened;
        }
        // Those before it are not asked for.
        if let Some(at) = self.left.iter().position(|left| *left == (kind, id)) {
            self.left.drain(..at);
            self.read_next();
        }
        match self.read.remove(&id) {
            Some(opened) => opened,
            None => PagedFile::open(self.directory, kind, id),
        }
    }

    fn read_next(&mut self) {
        let next = self.left.drain(..FILES_AT_ONCE.min(self.left.len()));
        let mut unread = Vec::new();
        for (kind, id) in next {
            match PagedFile::open_unread(self.directory, kind, id) {
                Ok(file) => unread.push((kind, file)),
                Err(error) => drop(self.read.insert(id, Err(error))),
            }
        }
        let ends: Vec<_> = unread.iter().map(|(_, file)| (file, file.end())).collect();
        let read = PagedFile::read_ranges(self.directory, &ends);
        for ((kind, mut file), end) in unread.into_iter().zip(read) {
            let id = file.id();
            let opened = end.and_then(|end| Ok((file.check_end(kind, end)?, file)));
            self.read.insert(id, opened.map(|(end, file)| (file, end)));
        }
    }
}

//! Orphans: segments and postings that the manifest does not name. They were being written at a crash, or they wait for
//! readers; or they show that the manifest lost its end.

use drillcore_format::ids::{Lsn, SegmentId};
use drillcore_storage::files::directory::Directory;
use drillcore_storage::manifest::ManifestState;
use drillcore_storage::pages::paged_file::file_of;
use drillcore_storage::segments::segment::Segment;

use crate::catalog::backup_target::file_names;
use crate::error::{Error, ErrorKind, Result};

/// The orphans of a directory.
pub struct Orphans(Vec<String>);

impl Orphans {
    /// The segments and postings of a directory, of which a manifest names none yet.
    ///
    /// Beside a writer they are listed before the manifest is read: of a segment that is whole then, either the manifest
    /// or the log has the commits.
    pub fn listed(directory: &dyn Directory) -> Result<Orphans> {
        let io = |error| Error::io("cannot list the database directory", error);
        let mut names = directory.list().map_err(io)?;
        names.retain(|name| file_of(name).is_some());
        Ok(Orphans(names))
    }

    /// Those that a manifest does not name.
    pub fn of(self, found: &ManifestState) -> Orphans {
        let named = file_names(found);
        Orphans(self.0.into_iter().filter(|name| !named.contains(name)).collect())
    }

    /// Their names.
    pub fn names(&self) -> &[String] {
        &self.0
    }

    /// Refuses a manifest that lacks an edit which must have been there: a whole segment that it does not name
    /// holds commits that are neither in the log nor in a segment that it names. `next_segment` is the manifest's, and
    /// `last` the last commit that it or the log has.
    ///
    /// A crash leaves no such thing. Where there is a log, it is durable before a segment is whole, and its files
    /// go only after the edit; without one, an edit before the segment is begun says that its number is taken.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn check_no_edit_is_lost(
        &self,
        directory: &dyn Directory,
        next_segment: SegmentId,
        last: Lsn,
    ) -> Result<()> {
        for name in &self.0 {
            let Some(id) = Segment::id_of(name).filter(|id| *id >= next_segment) else { continue };
            let commits = match Segment::commits_in(directory, id) {
                Ok(commits) => commits,
                // It may be whole, but cannot be looked at now.
                Err(error) if error.lack().is_some() => return Err(error.into()),
                // One that was being written at a crash is not whole.
                Err(_) => continue,
            };
            if commits.last > last {
                let message = format!(
                    "the manifest lost its end: {name} has commits up to {}, but the manifest and the log end at \
                     commit {last}. Nothing was changed. Restore the manifest from a copy, or move {name} \
                     away to open the database without these commits",
                    commits.last
                );
                return Err(Error::new(ErrorKind::Corrupt, message));
            }
        }
        Ok(())
    }
}

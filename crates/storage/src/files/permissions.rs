//! Who may use the files of a directory: its owner, and whom the directory's own permissions let in.
//!
//! A new file belongs to the owner and the group of its directory, as far as this process may give it away: a
//! superuser can, so what `sudo` leaves behind is in no user's way. A group, or all others, may read a file if they may read the
//! directory, and write it if they may write the directory and no sticky bit keeps them from other users' files. So
//! `chmod g+rx` on the directory, before the database is made, lets a group read it. The umask is not asked: it says
//! nothing about the directory.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};

use rustix::fs::Mode;

const OWNER_READS_AND_WRITES: u32 = 0o600;
const OTHERS_READ: u32 = 0o044;
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;
const ALL: u32 = 0o777;

/// The permissions that a file of a directory is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileAccess {
    owner: u32,
    group: u32,
    mode: u32,
}

impl FileAccess {
    /// Of a file that holds something.
    pub fn of_data(folder: &File) -> io::Result<FileAccess> {
        FileAccess::of(folder, |mode| mode & OTHERS_READ | writers(mode))
    }

    /// Of an empty file that is there to be locked. A process that can open it can lock it, so only those may that can
    /// make such a file themselves: a writer tries the locks of its readers.
    pub fn of_lock(folder: &File) -> io::Result<FileAccess> {
        FileAccess::of(folder, |mode| (mode & OTHERS_WRITE) << 1 | writers(mode))
    }

    fn of(folder: &File, of_others: impl FnOnce(u32) -> u32) -> io::Result<FileAccess> {
        let folder = folder.metadata()?;
        let mode = OWNER_READS_AND_WRITES | of_others(folder.mode());
        Ok(FileAccess { owner: folder.uid(), group: folder.gid(), mode })
    }

    /// What a file is made with, before it is known whose it will be.
    pub fn at_first() -> Mode {
        Mode::RUSR | Mode::WUSR
    }

    /// Gives a file that was just made what it lacks of this. Where the system refuses, the file stays less open
    /// than it should be, never more.
    pub fn grant(self, file: &File) -> io::Result<()> {
        let made = file.metadata()?;
        if (made.uid(), made.gid()) != (self.owner, self.group) {
            let given = fchown(file, Some(self.owner), Some(self.group));
            let group_only = || fchown(file, None, Some(self.group));
            if given.or_else(|_| group_only()).is_err() && made.gid() != self.group {
                // The bits of the group are meant for another one than the file has.
                return Ok(());
            }
        }
        if file.metadata()?.mode() & ALL != self.mode {
            let _ = file.set_permissions(Permissions::from_mode(self.mode));
        }
        Ok(())
    }
}

/// Those besides the owner who may write files that are not their own.
fn writers(folder_mode: u32) -> u32 {
    if folder_mode & STICKY == 0 { folder_mode & OTHERS_WRITE } else { 0 }
}

//! What `drillcore backup` and `restore` are given.

use std::path::PathBuf;

use clap::Args;

pub const BACKUP_EXAMPLES: &str = "\
The files are hard links where the file system can make them, and copies otherwise. A hard link takes no room; if its
bytes are damaged on the disk, the database and the backup are both damaged. --copy always copies.
While another process writes, only a new backup can be made; it has the newest complete commit.

Examples:
  drillcore backup flights.drill flights.backup
  drillcore backup flights.drill /mnt/other/flights.backup --copy
  drillcore count flights.backup flights";

pub const RESTORE_EXAMPLES: &str = "\
The backup stays as it is. A backup can also be read in place, with every command that reads.

Example:
  drillcore restore flights.backup again.drill";

#[derive(Debug, Args)]
pub struct Backup {
    /// The database directory.
    pub database: PathBuf,
    /// The directory of the backup: new, or an earlier backup of this database.
    pub path: PathBuf,
    /// Copy all files instead of linking them.
    #[arg(long)]
    pub copy: bool,
}

#[derive(Debug, Args)]
pub struct Restore {
    /// The directory of the backup.
    pub backup: PathBuf,
    /// The directory of the new database; it must not exist.
    pub path: PathBuf,
    /// Copy all files instead of linking them.
    #[arg(long)]
    pub copy: bool,
}

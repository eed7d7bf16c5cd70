//! Where an export goes: a file that appears under its name once it is complete, or standard output.

use std::fs::{self, Permissions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::NamedTempFile;

use crate::printing::noting::Noting;
use crate::process::ctrl_c::remove_if_killed;
use crate::process::fault::Fault;

/// Bytes that are written at once.
const BUFFER_BYTES: usize = 1 << 20;
/// What a new file may be read and written by, less what the user's mask takes away.
const NEW_FILE_MODE: u32 = 0o666;

/// A target that has been opened. Dropping it leaves no file behind.
pub struct ExportTarget {
    file: Option<NewFile>,
    is_closed: Arc<AtomicBool>,
}

/// A file beside the one that it will be.
struct NewFile {
    path: PathBuf,
    temporary: NamedTempFile,
    replaces: bool,
}

impl ExportTarget {
    /// Begins a file, or standard output for `-`. Refuses a path that exists unless `force` says to replace it, and
    /// one in the directory of the database.
    pub fn open(name: &str, force: bool, database: &Path) -> Result<ExportTarget, Fault> {
        let is_closed = Arc::new(AtomicBool::new(false));
        if name == "-" {
            return Ok(ExportTarget { file: None, is_closed });
        }
        let path = PathBuf::from(name);
        match fs::symlink_metadata(&path) {
            Ok(_) => check_replaceable(name, force)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(cannot_write(name, &error)),
        }
        // Of a link the file that it leads to is written, as the shell's `>` does.
        let path = fs::canonicalize(&path).unwrap_or(path);
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        if !folder.is_dir() {
            let what = format!("directory {} does not exist; create it first", folder.display());
            return Err(Fault::wrong_call(what));
        }
        if fs::canonicalize(folder).ok() == fs::canonicalize(database).ok() {
            return Err(Fault::wrong_call(format!(
                "{name} is in the directory of the database; write it to another directory"
            )));
        }
        let temporary = tempfile::Builder::new()
            .prefix(".drillcore-export-")
            .permissions(Permissions::from_mode(NEW_FILE_MODE))
            .tempfile_in(folder)
            .map_err(|error| cannot_write(name, &error))?;
        remove_if_killed(temporary.path());
        let file = NewFile { path, temporary, replaces: force };
        Ok(ExportTarget { file: Some(file), is_closed })
    }

    /// Where the bytes go.
    pub fn writer(&self) -> io::Result<Box<dyn Write + Send>> {
        let is_closed = self.is_closed.clone();
        Ok(match &self.file {
            None => Box::new(Noting::new(BufWriter::new(io::stdout()), is_closed)),
            Some(file) => Box::new(BufWriter::with_capacity(
                BUFFER_BYTES,
                file.temporary.as_file().try_clone()?,
            )),
        })
    }

    /// Whether the one who reads our standard output has gone.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Gives the file its name. All that was written must have been flushed.
    pub fn keep(self, name: &str) -> Result<(), Fault> {
        let Some(file) = self.file else { return Ok(()) };
        // Otherwise a power loss could leave the name with nothing behind it.
        file.temporary.as_file().sync_all().map_err(|error| cannot_write(name, &error))?;
        let kept = match file.replaces {
            true => file.temporary.persist(&file.path),
            false => file.temporary.persist_noclobber(&file.path),
        };
        match kept {
            Ok(_) => Ok(()),
            Err(error) if error.error.kind() == ErrorKind::AlreadyExists => Err(exists(name)),
            Err(error) => Err(cannot_write(name, &error.error)),
        }
    }
}

fn check_replaceable(name: &str, force: bool) -> Result<(), Fault> {
    if fs::metadata(name).is_ok_and(|found| !found.is_file()) {
        let what = format!(
            "{name} is not a regular file; write to another name, or to - for standard output"
        );
        return Err(Fault::wrong_call(what));
    }
    if force { Ok(()) } else { Err(exists(name)) }
}

fn exists(name: &str) -> Fault {
    Fault::wrong_call(format!("{name} exists; use --force to replace it"))
}

fn cannot_write(name: &str, error: &io::Error) -> Fault {
    Fault::unusable(format!("cannot write {name}: {error}"))
}

//! Files of one directory in another: under a second name, or copied.
//!
//! Files are never changed once they are whole, so two directories may share one. A link needs no room and no time; what
//! damages the file damages it in both directories.

use std::io;

use rustix::fs::{AtFlags, linkat};

use crate::files::directory::Directory;

/// Bytes that are copied at once.
const CHUNK_BYTES: u64 = 1 << 20;
/// The end of a segment or postings file has its footer, with checksums, numbers and counts: so much is compared.
const END_BYTES: u64 = 64 << 10;

/// How a file came into the other directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// Both directories name one file, which takes its room once.
    Linked,
    /// The bytes are there twice.
    Copied,
}

/// Gives a file its name in another directory, too, where the file system can do that; copies it where it cannot, or if
/// `copy` says so. A copy is on stable storage when this returns; its name is after [`Directory::sync`]. `go_on` is
/// asked after every MiB.
pub fn store(
    source: &dyn Directory,
    name: &str,
    target: &dyn Directory,
    copy: bool,
    go_on: &dyn Fn() -> io::Result<()>,
) -> io::Result<Stored> {
    // Whatever keeps it from being linked (another file system, too many names, a file of another user), a copy shows
    // whether it can be had at all.
    if !copy && link(source, name, target).is_ok() {
        return Ok(Stored::Linked);
    }
    copy_as(source, name, target, name, go_on)?;
    Ok(Stored::Copied)
}

/// Copies a file to another name, on stable storage when this returns.
pub fn copy_as(
    source: &dyn Directory,
    name: &str,
    target: &dyn Directory,
    target_name: &str,
    go_on: &dyn Fn() -> io::Result<()>,
) -> io::Result<()> {
    let file = source.open(name)?;
    let len = file.byte_len()?;
    let written = target.create(target_name)?;
    let mut buffer = Vec::new();
    let mut at = 0;
    while at < len {
        go_on()?;
        buffer.resize(CHUNK_BYTES.min(len - at) as usize, 0);
        file.read_exact_at(&mut buffer, at)?;
        written.write_all(&buffer)?;
        at += buffer.len() as u64;
    }
    written.sync()
}

/// Whether two directories share a file.
pub fn is_shared(one: &dyn Directory, other: &dyn Directory, name: &str) -> io::Result<bool> {
    let (one, other) = (one.open(name)?.identity()?, other.open(name)?.identity()?);
    Ok(one.is_some() && one == other)
}

/// Whether two directories have the same file under a name: a shared one, or one of the same length with the same end.
pub fn is_same(one: &dyn Directory, other: &dyn Directory, name: &str) -> io::Result<bool> {
    let (one, other) = (one.open(name)?, other.open(name)?);
    let (of_one, of_other) = (one.identity()?, other.identity()?);
    if of_one.is_some() && of_one == of_other {
        return Ok(true);
    }
    let len = one.byte_len()?;
    if other.byte_len()? != len {
        return Ok(false);
    }
    let end = END_BYTES.min(len);
    let mut ends = [vec![0; end as usize], vec![0; end as usize]];
    one.read_exact_at(&mut ends[0], len - end)?;
    other.read_exact_at(&mut ends[1], len - end)?;
    Ok(ends[0] == ends[1])
}

fn link(source: &dyn Directory, name: &str, target: &dyn Directory) -> io::Result<()> {
    let (Some(from), Some(to)) = (source.local_folder(), target.local_folder()) else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    Ok(linkat(from, name, to, name, AtFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::directory::read_file;
    use crate::files::local_directory::LocalDirectory;
    use crate::files::memory_directory::MemoryDirectory;

    #[test]
    fn a_file_is_shared_where_that_can_be_and_otherwise_copied() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [one, other] = folders.each_ref().map(|f| LocalDirectory::open(f.path()).unwrap());
        let bytes: Vec<u8> = (0..3_000_000u32).map(|at| (at % 251) as u8).collect();
        let goes_on = || Ok(());
        for (name, copy) in [("a", false), ("b", true)] {
            one.create(name).unwrap().write_all(&bytes).unwrap();
            let stored = store(&one, name, &other, copy, &goes_on).unwrap();
            assert_eq!(stored, if copy { Stored::Copied } else { Stored::Linked });
            assert_eq!(is_shared(&one, &other, name).unwrap(), !copy);
            assert!(is_same(&one, &other, name).unwrap());
            assert!(read_file(&other, name).unwrap() == bytes);
        }
        let memory = MemoryDirectory::new();
        assert_eq!(store(&one, "a", &memory, false, &goes_on).unwrap(), Stored::Copied);
        assert!(is_same(&one, &memory, "a").unwrap());
        memory.remove("a").unwrap();
        memory.create("a").unwrap().write_all(&bytes[1..]).unwrap();
        assert!(!is_same(&one, &memory, "a").unwrap());
        let stop = || Err(io::ErrorKind::Interrupted.into());
        assert!(copy_as(&one, "a", &memory, "c", &stop).is_err());
    }
}

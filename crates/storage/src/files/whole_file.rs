//! Files that are never seen half written.

use std::io;

use crate::files::directory::{Directory, WriteFile};

/// What the name of a file ends in until it is whole.
const UNFINISHED: &str = ".new";

/// A file on stable storage that has no name of its own yet.
pub(crate) struct UnnamedFile {
    unfinished: String,
    file: Box<dyn WriteFile>,
}

impl UnnamedFile {
    /// Makes one with these bytes, which is to become a file like `name`. One that was left behind goes.
    pub fn create(directory: &dyn Directory, name: &str, bytes: &[u8]) -> io::Result<UnnamedFile> {
        let unfinished = format!("{name}{UNFINISHED}");
        let file = match directory.create(&unfinished) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                directory.remove(&unfinished)?;
                directory.create(&unfinished)?
            }
            created => created?,
        };
        if let Err(error) = file.write_all(bytes).and_then(|()| file.sync()) {
            // Where room is short, it would take some of it.
            let _ = directory.remove(&unfinished);
            return Err(error);
        }
        Ok(UnnamedFile { unfinished, file })
    }

    /// Gives it a name, in the place of the file that has it. The name is seen, and not durable yet. A file that does not
    /// get it is removed.
    pub fn give_name(
        self,
        directory: &dyn Directory,
        name: &str,
    ) -> io::Result<Box<dyn WriteFile>> {
        match directory.rename(&self.unfinished, name) {
            Ok(()) => Ok(self.file),
            Err(error) => {
                let _ = self.remove(directory);
                Err(error)
            }
        }
    }

    pub fn remove(self, directory: &dyn Directory) -> io::Result<()> {
        directory.remove(&self.unfinished)
    }
}

/// Makes a file that is never seen without these bytes: it gets its name, in the place of the file that has it, once
/// they are on stable storage. When this returns, the name is as well. What is written to the file then is up
/// to the caller to sync.
pub fn create_whole(
    directory: &dyn Directory,
    name: &str,
    bytes: &[u8],
) -> io::Result<Box<dyn WriteFile>> {
    let file = UnnamedFile::create(directory, name, bytes)?.give_name(directory, name)?;
    // Whatever it was for want of: the name is seen, and may not be durable.
    directory.sync().map_err(|error| io::Error::other(format!("the directory: {error}")))?;
    Ok(file)
}

/// Whether a file of this name was being made, perhaps when the process died.
pub fn is_unfinished(name: &str) -> bool {
    name.ends_with(UNFINISHED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::directory::read_file;
    use crate::files::local_directory::LocalDirectory;
    use crate::files::memory_directory::MemoryDirectory;

    fn both(test: impl Fn(&dyn Directory)) {
        let folder = tempfile::tempdir().unwrap();
        test(&LocalDirectory::create(&folder.path().join("db")).unwrap());
        test(&MemoryDirectory::new());
    }

    #[test]
    fn a_file_that_is_made_whole_takes_the_place_of_another_and_can_be_written_to() {
        both(|directory| {
            directory.create("a").unwrap().write_all(b"old").unwrap();
            directory.create("a.new").unwrap().write_all(b"left behind").unwrap();
            let before = directory.open("a").unwrap();
            let file = create_whole(directory, "a", b"new").unwrap();
            file.write_all_of(&[b"er", b"", b" still"]).unwrap();
            assert_eq!(directory.list().unwrap(), ["a"]);
            assert_eq!(read_file(directory, "a").unwrap(), b"newer still");
            assert_eq!(before.byte_len().unwrap(), 3, "who reads the old one goes on");
            assert!(directory.rename("b", "a").is_err());
            assert!(is_unfinished("a.new") && !is_unfinished("a"));
        });
    }

    #[test]
    fn many_parts_are_written_in_their_order() {
        both(|directory| {
            let parts: Vec<Vec<u8>> =
                (0..3_000u32).map(|part| part.to_le_bytes().to_vec()).collect();
            let borrowed: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            directory.create("a").unwrap().write_all_of(&borrowed).unwrap();
            assert_eq!(read_file(directory, "a").unwrap(), parts.concat());
        });
    }
}

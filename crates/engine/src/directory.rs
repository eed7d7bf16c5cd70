//! Where files are kept: the door to them, and the directories that come with the engine.
//!
//! A file is written once, front to back, and never changed afterwards.

/// The descriptor that [`ReadFile::descriptor`] returns, for concurrent reads.
///
/// ```
/// use drillcore::directory::{Directory, MemoryDirectory};
///
/// let folder = MemoryDirectory::new();
/// folder.create("notes")?;
/// assert!(folder.open("notes")?.descriptor().is_none(), "it is in memory");
/// # std::io::Result::Ok(())
/// ```
pub use drillcore_storage::files::directory::Descriptor;
/// Where a database keeps its files: [`Database::open_in`](crate::Database::open_in).
///
/// ```
/// use std::sync::Arc;
///
/// use drillcore::directory::{Directory, MemoryDirectory};
/// use drillcore::{Database, Options};
///
/// fn bytes(directory: &dyn Directory) -> std::io::Result<u64> {
///     let files = directory.list()?.into_iter();
///     files.map(|name| directory.open(&name)?.byte_len()).sum()
/// }
///
/// let folder = MemoryDirectory::new();
/// Database::open_in(Arc::new(folder.clone()), Options::default())?.close()?;
/// assert!(bytes(&folder).unwrap() > 0);
/// # drillcore::Result::Ok(())
/// ```
pub use drillcore_storage::files::directory::Directory;
/// What [`ReadFile::identity`] gives.
///
/// ```
/// use drillcore::directory::{Directory, LocalDirectory};
///
/// # let folder = tempfile::tempdir()?;
/// let folder = LocalDirectory::open(folder.path())?;
/// folder.create("draft")?;
/// let draft = folder.open("draft")?.identity()?;
/// folder.rename("draft", "notes")?;
/// assert_eq!(folder.open("notes")?.identity()?, draft);
/// # std::io::Result::Ok(())
/// ```
pub use drillcore_storage::files::directory::FileIdentity;
/// What [`Directory::lock`] gives, held until it is dropped.
///
/// ```
/// use drillcore::directory::{Directory, LocalDirectory};
///
/// # let folder = tempfile::tempdir()?;
/// let folder = LocalDirectory::open(folder.path())?;
/// let lock = folder.lock("LOCK")?.expect("no process holds it");
/// assert!(folder.lock("LOCK")?.is_none());
/// drop(lock);
/// assert!(folder.lock("LOCK")?.is_some());
/// # std::io::Result::Ok(())
/// ```
pub use drillcore_storage::files::directory::Lock;
/// What [`Directory::open`] gives.
///
/// ```
/// use drillcore::directory::{Directory, MemoryDirectory};
///
/// let folder = MemoryDirectory::new();
/// folder.create("notes")?.write_all(b"one, two")?;
/// let (file, mut word) = (folder.open("notes")?, [0; 3]);
/// file.read_exact_at(&mut word, 5)?;
/// assert_eq!((&word, file.byte_len()?), (b"two", 8));
/// # std::io::Result::Ok(())
/// ```
pub use drillcore_storage::files::directory::ReadFile;
/// What [`Directory::create`] gives.
///
/// ```
/// use drillcore::directory::{Directory, MemoryDirectory};
///
/// let folder = MemoryDirectory::new();
/// let mut file = folder.create("notes")?;
/// file.write_all(b"one")?;
/// // Now its bytes survive a power cut; its name does once the directory is synced, too.
/// file.sync()?;
/// folder.sync()?;
/// # std::io::Result::Ok(())
/// ```
pub use drillcore_storage::files::directory::WriteFile;
/// For files that fit memory.
///
/// ```
/// use drillcore::directory::{Directory, MemoryDirectory, read_file};
///
/// let folder = MemoryDirectory::new();
/// folder.create("notes")?.write_all(b"one")?;
/// assert_eq!(read_file(&folder, "notes")?, b"one");
/// # std::io::Result::Ok(())
/// ```
pub use drillcore_storage::files::directory::read_file;
/// Where [`Database::open`](crate::Database::open) keeps a database.
///
/// ```
/// use drillcore::directory::{Directory, LocalDirectory};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("flights.drill");
/// let folder = LocalDirectory::create(&path)?;
/// assert!(folder.list()?.is_empty() && folder.local_folder().is_some());
/// # std::io::Result::Ok(())
/// ```
pub use drillcore_storage::files::local_directory::LocalDirectory;
/// For [`LocalDirectory::open_for`] and [`LocalDirectory::create_for`].
///
/// ```
/// use drillcore::directory::{Directory, LocalDirectory, ReadMode};
///
/// # let folder = tempfile::tempdir()?;
/// let mode = ReadMode { io_uring: false, ..ReadMode::default() };
/// let folder = LocalDirectory::open_for(folder.path(), mode)?;
/// assert_eq!(folder.reads_by(), "threads");
/// # std::io::Result::Ok(())
/// ```
pub use drillcore_storage::files::local_directory::ReadMode;
/// A directory in memory, for tests and temporary databases.
///
/// ```
/// use drillcore::directory::{Directory, MemoryDirectory};
///
/// let folder = MemoryDirectory::new();
/// let same = folder.clone();
/// folder.create("notes")?;
/// assert_eq!(same.list()?, ["notes"]);
/// # std::io::Result::Ok(())
/// ```
pub use drillcore_storage::files::memory_directory::MemoryDirectory;
pub use drillcore_storage::files::read_threads::read_with_threads;
/// What [`Directory::read_many`] and [`ReadRequest::read`] give.
///
/// ```
/// use drillcore::directory::{Directory, MemoryDirectory, ReadRequest};
///
/// let folder = MemoryDirectory::new();
/// folder.create("notes")?.write_all(b"one")?;
/// let bytes = ReadRequest { file: folder.open("notes")?, offset: 1, len: 2 }.read()?;
/// assert_eq!(bytes.as_slice(), b"ne");
/// # std::io::Result::Ok(())
/// ```
pub use drillcore_storage::files::reads::ReadBytes;
/// What [`Directory::read_many`] takes.
///
/// ```
/// use drillcore::directory::{Directory, MemoryDirectory, ReadRequest};
///
/// let folder = MemoryDirectory::new();
/// folder.create("notes")?.write_all(b"one, two")?;
/// let file = folder.open("notes")?;
/// let request = |offset| ReadRequest { file: file.clone(), offset, len: 3 };
/// let words = folder.read_many(&[request(0), request(5), request(7)]);
/// assert_eq!(words[1].as_ref().unwrap().as_slice(), b"two");
/// assert!(words[2].is_err(), "the file ends before");
/// # std::io::Result::Ok(())
/// ```
pub use drillcore_storage::files::reads::ReadRequest;
/// What [`Directory::read_each`] calls with the result of each read.
///
/// ```
/// use drillcore::directory::{Directory, MemoryDirectory, ReadRequest, TakeRead};
///
/// let folder = MemoryDirectory::new();
/// folder.create("notes")?.write_all(b"one, two")?;
/// let file = folder.open("notes")?;
/// let requests = [0, 5].map(|offset| ReadRequest { file: file.clone(), offset, len: 3 });
/// let mut words = vec![String::new(); 2];
/// let take: TakeRead<'_> = &mut |number, read| {
///     words[number] = String::from_utf8(read.unwrap().as_slice().to_vec()).unwrap();
/// };
/// folder.read_each(&requests, take);
/// assert_eq!(words, ["one", "two"]);
/// # std::io::Result::Ok(())
/// ```
pub use drillcore_storage::files::reads::TakeRead;
pub use drillcore_storage::files::reads::read_in_turn;

//! Files that are opened, closed and opened again.

use super::*;
use std::collections::BTreeMap;
use std::ops::Range;

use parking_lot::MutexGuard;

use crate::files::local_directory::LocalDirectory;
use crate::files::memory_directory::MemoryDirectory;

const FILES: usize = 20;
/// A test that lacks descriptors closes the files of all pools of the process, also those of tests that count how
/// often files are opened.
static ALONE: Mutex<()> = Mutex::new(());

/// A directory in memory that counts what is open, and refuses descriptors above a number of them.
#[derive(Clone)]
struct Counting {
    files: MemoryDirectory,
    open: Arc<Mutex<Counts>>,
}

#[derive(Default)]
struct Counts {
    open: BTreeMap<String, usize>,
    opened: usize,
    most: usize,
    granted: Option<usize>,
    /// A read of one of these files ends only after its name is taken out.
    held: Vec<String>,
    /// How many reads have begun to wait for that.
    waiting: usize,
}

impl Counts {
    fn now(&self) -> usize {
        self.open.values().sum()
    }
}

struct Counted {
    file: Arc<dyn ReadFile>,
    name: String,
    open: Arc<Mutex<Counts>>,
}

impl ReadFile for Counted {
    fn byte_len(&self) -> io::Result<u64> {
        self.file.byte_len()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let is_held = || self.open.lock().held.contains(&self.name);
        if is_held() {
            self.open.lock().waiting += 1;
        }
        while is_held() {
            thread::sleep(Duration::from_millis(1));
        }
        self.file.read_exact_at(buffer, offset)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        *self.open.lock().open.get_mut(&self.name).unwrap() -= 1;
    }
}

impl Counting {
    /// With files "0", "1" and so on, each of which holds its number.
    fn new() -> Counting {
        let files = MemoryDirectory::new();
        for number in 0..FILES {
            let file = files.create(&number.to_string()).unwrap();
            file.write_all(&[number as u8]).unwrap();
        }
        Counting { files, open: Arc::default() }
    }

    fn take(&self) -> io::Result<MutexGuard<'_, Counts>> {
        let counts = self.open.lock();
        match counts.granted {
            Some(granted) if counts.now() >= granted => Err(io::Error::from_raw_os_error(24)),
            _ => Ok(counts),
        }
    }
}

impl Directory for Counting {
    fn list(&self) -> io::Result<Vec<String>> {
        drop(self.take()?);
        self.files.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
        let mut counts = self.take()?;
        let file = self.files.open(name)?;
        *counts.open.entry(name.into()).or_default() += 1;
        counts.opened += 1;
        counts.most = counts.most.max(counts.now());
        Ok(Arc::new(Counted { file, name: name.into(), open: self.open.clone() }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        drop(self.take()?);
        self.files.create(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.files.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.files.sync()
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        drop(self.take()?);
        self.files.lock(name)
    }
}

fn open_all(files: &OpenFiles) -> Vec<Arc<dyn ReadFile>> {
    (0..FILES).map(|number| files.open(&number.to_string()).unwrap()).collect()
}

fn read(file: &dyn ReadFile) -> io::Result<u8> {
    let mut byte = [0];
    file.read_exact_at(&mut byte, 0).map(|()| byte[0])
}

/// Reads some of the files together, as a wave of reads does.
fn read_wave(files: &OpenFiles, handles: &[Arc<dyn ReadFile>], range: Range<usize>) {
    let request = |file: &Arc<dyn ReadFile>| ReadRequest { file: file.clone(), offset: 0, len: 1 };
    let requests: Vec<_> = handles[range.clone()].iter().map(request).collect();
    for (number, read) in range.zip(files.read_many(&requests)) {
        assert_eq!(read.unwrap().as_slice(), [number as u8]);
    }
}

#[test]
fn waves_of_many_callers_open_no_more_files_than_the_limit_together() {
    let _alone = ALONE.lock();
    for limit in [2, 5] {
        let counting = Counting::new();
        let files = OpenFiles::with_limit(Arc::new(counting.clone()), limit);
        let handles = open_all(&files);
        thread::scope(|scope| {
            let read_all = || (0..20).for_each(|_| read_wave(&files, &handles, 0..FILES));
            (0..8).for_each(|_| drop(scope.spawn(read_all)));
        });
        // What is kept, what waves opened, and of each caller one file that another opened, too.
        let most = counting.open.lock().most;
        assert!(most <= 2 * limit + 8, "{most} with a limit of {limit}");
    }
}

#[test]
fn a_wave_waits_for_files_that_were_closed_while_they_are_read() {
    let _alone = ALONE.lock();
    let counting = Counting::new();
    let files = OpenFiles::with_limit(Arc::new(counting.clone()), 2);
    let handles = open_all(&files);
    let last = FILES - 2..FILES;
    counting.open.lock().held = last.clone().map(|number| number.to_string()).collect();
    let open_in_turn = thread::scope(|scope| {
        let (files, handles) = (&files, &handles[..]);
        let wave = |range| scope.spawn(move || read_wave(files, handles, range));
        let now = || counting.open.lock().now();
        // The first are open when they are read, and closed for the second meanwhile.
        wave(last);
        while counting.open.lock().waiting == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        let first = now();
        wave(0..2).join().unwrap();
        let second = now();
        // The third would be too many.
        wave(2..4);
        thread::sleep(Duration::from_millis(50));
        let third = now();
        counting.open.lock().held.clear();
        [first, second, third]
    });
    assert_eq!(open_in_turn, [2, 4, 4]);
    assert_eq!(counting.open.lock().most, 4);
}

#[test]
fn no_more_files_are_open_than_the_limit_and_all_can_be_read() {
    let _alone = ALONE.lock();
    for limit in [1, 3, FILES - 1, FILES] {
        let counting = Counting::new();
        let files = OpenFiles::with_limit(Arc::new(counting.clone()), limit);
        let handles = open_all(&files);
        for _ in 0..3 {
            for (number, handle) in handles.iter().enumerate() {
                assert_eq!(read(&**handle).unwrap(), number as u8);
                assert_eq!(handle.byte_len().unwrap(), 1);
            }
        }
        let counts = counting.open.lock();
        // One more while it is being opened.
        assert!(counts.now() == limit && counts.most <= limit + 1, "{} open", counts.most);
        if limit == FILES {
            assert_eq!(counts.opened, FILES, "none is opened twice");
        }
    }
}

#[test]
fn what_is_read_again_and_again_stays_open() {
    let _alone = ALONE.lock();
    let counting = Counting::new();
    let files = OpenFiles::with_limit(Arc::new(counting.clone()), 3);
    let handles = open_all(&files);
    read(&*handles[0]).unwrap();
    for round in 0..100 {
        read(&*handles[0]).unwrap();
        read(&*handles[1 + round % (FILES - 1)]).unwrap();
    }
    let opened = counting.open.lock().opened;
    // At first, each of the others at each read, and once the one that stays.
    assert!(opened <= FILES + 100 + 1, "{opened} times");
}

#[test]
fn a_dropped_handle_closes_its_file() {
    let counting = Counting::new();
    let files = OpenFiles::with_limit(Arc::new(counting.clone()), 5);
    let handles = open_all(&files);
    assert_eq!(counting.open.lock().now(), 5);
    drop(handles);
    assert_eq!(counting.open.lock().now(), 0);
    assert!(files.pool.open.lock().is_empty());
}

#[test]
fn whatever_needs_a_descriptor_gets_that_of_a_file_that_is_not_read() {
    let _alone = ALONE.lock();
    let counting = Counting::new();
    let files = OpenFiles::with_limit(Arc::new(counting.clone()), FILES);
    // Another database of the same process.
    let other = OpenFiles::with_limit(Arc::new(counting.clone()), FILES);
    let handles = open_all(&files);
    counting.open.lock().granted = Some(FILES);
    for call in 0..5 {
        match call {
            0 => assert_eq!(other.list().unwrap().len(), FILES),
            1 => drop(other.create("new").unwrap()),
            2 => assert!(other.lock("LOCK").unwrap().is_some()),
            3 => assert!(other.try_lock("LOCK").unwrap().is_some()),
            _ => drop(other.open("new").unwrap()),
        }
        for (number, handle) in handles.iter().enumerate() {
            assert_eq!(read(&**handle).unwrap(), number as u8);
        }
    }
    assert!(counting.open.lock().opened > FILES);
    counting.open.lock().granted = Some(0);
    let error = other.create("newer").err().unwrap();
    assert_eq!(Lack::of(&error), Some(Lack::Descriptors), "none is left to give");
    counting.open.lock().granted = None;
    other.create("newer").unwrap();
}

#[test]
fn any_number_of_threads_reads_what_it_asked_for() {
    let counting = Counting::new();
    let files = OpenFiles::with_limit(Arc::new(counting.clone()), 2);
    let handles = open_all(&files);
    thread::scope(|scope| {
        for first in 0..8 {
            let handles = &handles;
            scope.spawn(move || {
                for step in 0..2_000 {
                    let number = (first * 7 + step * 3) % FILES;
                    assert_eq!(read(&*handles[number]).unwrap(), number as u8);
                }
            });
        }
    });
    assert!(counting.open.lock().now() <= 2);
    assert_eq!(files.pool.open.lock().len(), counting.open.lock().now());
}

#[test]
fn another_file_of_the_same_name_is_not_read_for_the_one_that_was_opened() {
    let folder = tempfile::tempdir().unwrap();
    let local: Arc<dyn Directory> = Arc::new(LocalDirectory::open(folder.path()).unwrap());
    let files = OpenFiles::with_limit(local, 1);
    for name in ["a", "b"] {
        files.create(name).unwrap().write_all(&[1]).unwrap();
    }
    let handle = files.open("a").unwrap();
    files.open("b").unwrap();
    assert_eq!(read(&*handle).unwrap(), 1);
    let _b = files.open("b").unwrap();
    read(&*_b).unwrap();
    std::fs::write(folder.path().join("c"), [2]).unwrap();
    std::fs::rename(folder.path().join("c"), folder.path().join("a")).unwrap();
    let error = read(&*handle).unwrap_err();
    assert!(error.to_string().contains("replaced the one"), "{error}");
}

#[test]
fn a_share_of_what_the_process_may_have_is_taken() {
    let soft = rlimit::Resource::NOFILE.get_soft().unwrap();
    let limit = limit_of_process() as u64;
    assert!((LEAST as u64..=MOST as u64).contains(&limit));
    assert!(limit == LEAST as u64 || limit <= soft / SHARE);
}

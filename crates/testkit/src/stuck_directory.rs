//! A folder whose disk gets stuck: one operation that writes, or all of some files, do not return until they are
//! released. And a count of all that write, to tell whether any came after a moment.

use std::io;
use std::sync::Arc;

use drillcore_storage::files::directory::{Directory, Lock, ReadFile, WriteFile};
use drillcore_storage::files::reads::{ReadRequest, TakeRead};
use drillcore_storage::sync::{Condvar, Mutex, MutexGuard};

/// A folder around another one. Clones share the disk.
#[derive(Clone)]
pub struct StuckDirectory {
    inner: Arc<dyn Directory>,
    disk: Arc<Disk>,
}

#[derive(Default)]
struct Disk {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The operations that wrote or tried to, by what they did.
    written: Vec<String>,
    sticks: Option<Sticks>,
    /// How many are stuck.
    stuck: usize,
    /// How often they were released.
    released: u64,
}

/// Which operations get stuck.
enum Sticks {
    /// The one of this number.
    At(usize),
    /// All whose descriptions begin so, as `sync wal-` or `create segment-`.
    All(&'static str),
}

impl StuckDirectory {
    /// The same files, none of which is stuck.
    pub fn new(inner: Arc<dyn Directory>) -> StuckDirectory {
        StuckDirectory { inner, disk: Arc::default() }
    }

    /// Has the next operation but `others` get stuck.
    pub fn stick_after(&self, others: usize) {
        let mut state = self.state();
        state.sticks = Some(Sticks::At(state.written.len() + others));
    }

    /// Has every operation get stuck whose description begins so, as `sync wal-` or `create segment-`.
    pub fn stick_on(&self, beginning: &'static str) {
        self.state().sticks = Some(Sticks::All(beginning));
    }

    /// Whether an operation is stuck, and not released yet.
    pub fn is_stuck(&self) -> bool {
        self.state().stuck > 0
    }

    /// Lets what is stuck go on, and nothing get stuck any more.
    pub fn release(&self) {
        let mut state = self.state();
        state.sticks = None;
        state.stuck = 0;
        state.released += 1;
        self.disk.changed.notify_all();
    }

    /// What was written so far.
    pub fn written(&self) -> Vec<String> {
        self.state().written.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.disk.state.lock()
    }

    fn write(&self, operation: &str, name: &str) {
        let mut state = self.state();
        let number = state.written.len();
        let what = format!("{operation} {name}");
        let is_stuck = match state.sticks {
            None => false,
            Some(Sticks::At(at)) => at == number,
            Some(Sticks::All(beginning)) => what.starts_with(beginning),
        };
        state.written.push(what);
        if is_stuck {
            state.stuck += 1;
            let released = state.released;
            while state.released == released {
                state = self.disk.changed.wait(state);
            }
        }
    }
}

impl Directory for StuckDirectory {
    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
        self.inner.open(name)
    }

    fn open_pages(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
        self.inner.open_pages(name)
    }

    fn read_each(&self, requests: &[ReadRequest], take: TakeRead<'_>) {
        self.inner.read_each(requests, take);
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        self.write("create", name);
        let file = self.inner.create(name)?;
        Ok(Box::new(Writer { directory: self.clone(), name: name.to_string(), file }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.write("rename to", to);
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.write("remove", name);
        self.inner.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.write("sync", "the folder");
        self.inner.sync()
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        self.write("lock", name);
        self.inner.lock(name)
    }
}

struct Writer {
    directory: StuckDirectory,
    name: String,
    file: Box<dyn WriteFile>,
}

impl WriteFile for Writer {
    fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        self.directory.write("write", &self.name);
        self.file.write_all(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.directory.write("sync", &self.name);
        self.file.sync()
    }
}

//! A folder in which writing of segments, or of postings beside them, can be held up or slowed down, so that a flush, a merge or a
//! job that lists sets stays half-way for as long as a test wants to look.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use drillcore_storage::files::directory::{Directory, Lock, ReadFile, WriteFile};
use drillcore_storage::files::reads::{ReadRequest, TakeRead};
use drillcore_storage::sync::{Condvar, Mutex, MutexGuard, thread};

/// A folder around another one. Clones share the gate, which is open at first.
#[derive(Clone)]
pub struct GateDirectory {
    inner: Arc<dyn Directory>,
    /// How the names of the files begin that are held up.
    prefix: &'static str,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    is_shut: bool,
    /// What each write takes.
    pause: Duration,
    waiting: usize,
    begun: usize,
}

impl GateDirectory {
    /// The same files, of which segments can be held up, with all gates open.
    pub fn new(inner: Arc<dyn Directory>) -> GateDirectory {
        GateDirectory { inner, prefix: "segment-", gate: Arc::default() }
    }

    /// The same files, of which postings beside segments can be held up, with all gates open.
    pub fn of_postings(inner: Arc<dyn Directory>) -> GateDirectory {
        GateDirectory { prefix: "postings-", ..GateDirectory::new(inner) }
    }

    /// From now on each thread that begins such a file waits.
    pub fn shut(&self) {
        self.state().is_shut = true;
    }

    /// Lets all go on.
    pub fn open_up(&self) {
        self.state().is_shut = false;
        self.gate.changed.notify_all();
    }

    /// From now on each write to such a file takes so long, to those that were begun before, too.
    pub fn slow_down(&self, pause: Duration) {
        self.state().pause = pause;
    }

    /// How many such files were begun, or wait for it.
    pub fn begun(&self) -> usize {
        self.state().begun
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.state().waiting
    }

    fn state(&self) -> MutexGuard<'_, GateState> {
        self.gate.state.lock()
    }
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock();
        state.begun += 1;
        state.waiting += 1;
        while state.is_shut {
            state = self.changed.wait(state);
        }
        state.waiting -= 1;
    }
}

impl Directory for GateDirectory {
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
        if !name.starts_with(self.prefix) {
            return self.inner.create(name);
        }
        self.gate.pass();
        Ok(Box::new(SlowFile { inner: self.inner.create(name)?, gate: self.gate.clone() }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }

    fn free_bytes(&self) -> io::Result<Option<u64>> {
        self.inner.free_bytes()
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        self.inner.lock(name)
    }

    fn try_lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        self.inner.try_lock(name)
    }

    fn is_locked_here(&self, name: &str) -> bool {
        self.inner.is_locked_here(name)
    }
}

/// A file under construction.
struct SlowFile {
    inner: Box<dyn WriteFile>,
    gate: Arc<Gate>,
}

impl WriteFile for SlowFile {
    fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        let pause = self.gate.state.lock().pause;
        if !pause.is_zero() {
            thread::sleep(pause);
        }
        self.inner.write_all(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }
}

//! What the operating system keeps of files, and what it costs to read and write them without any
//! structure: the floors beneath every engine.

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use drillcore::directory::{Directory, LocalDirectory, ReadBytes, ReadFile, ReadMode, ReadRequest};
use drillcore_sample::rng::Rng;

use crate::error::{Error, Result};

pub const PAGE_BYTES: usize = 4096;
/// What a sequential read asks for at once.
const CHUNK_BYTES: usize = 1 << 20;

/// A file of whole pages of noise.
pub struct PageFile {
    path: PathBuf,
    file: File,
    pages: u64,
}

impl PageFile {
    /// At least `bytes` long.
    pub fn create(path: &Path, bytes: u64, seed: u64) -> Result<PageFile> {
        let pages = bytes.div_ceil(PAGE_BYTES as u64).max(1);
        let mut rng = Rng::keyed(seed, 0);
        let mut noise = || rng.next_u64().to_le_bytes();
        let words = pages * (PAGE_BYTES / 8) as u64;
        let bytes: Vec<u8> = (0..words).flat_map(|_| noise()).collect();
        write_in_chunks(path, &bytes, CHUNK_BYTES)?;
        let file = File::open(path).map_err(Error::io("open", path))?;
        // Else the system writes it while it is read.
        file.sync_all().map_err(Error::io("sync", path))?;
        Ok(PageFile { path: path.to_path_buf(), file, pages })
    }

    /// Reads one page at random.
    pub fn read_one(&self, rng: &mut Rng) -> Result<()> {
        let mut page = [0; PAGE_BYTES];
        let offset = rng.below(self.pages) * PAGE_BYTES as u64;
        self.file.read_exact_at(&mut page, offset).map_err(Error::io("read", &self.path))?;
        black_box(page);
        Ok(())
    }

    /// Reads the file from begin to end.
    pub fn read_all(&self) -> Result<()> {
        let mut file = File::open(&self.path).map_err(Error::io("open", &self.path))?;
        let mut chunk = vec![0; CHUNK_BYTES];
        while file.read(&mut chunk).map_err(Error::io("read", &self.path))? > 0 {
            black_box(&chunk);
        }
        Ok(())
    }
}

/// Bytes of a read of a pass over a file, and how many threads make them.
const PASS_READ_BYTES: u64 = 1 << 20;
const PASS_THREADS: usize = 4;

/// Pages of some files, past the system's cache: what there is to read at random, without any structure.
pub struct DevicePages {
    folder: PathBuf,
    device: LocalDirectory,
    /// Each with the number of the page behind its last one, counted over all files.
    files: Vec<(u64, Arc<dyn ReadFile>)>,
}

impl DevicePages {
    /// Those of all files of a folder.
    pub fn open(folder: &Path) -> Result<DevicePages> {
        let mode = ReadMode { direct_io: true, ..ReadMode::default() };
        let device = LocalDirectory::open_for(folder, mode).map_err(Error::io("open", folder))?;
        let (mut files, mut end) = (Vec::new(), 0);
        for name in device.list().map_err(Error::io("list", folder))? {
            let file = device.open_pages(&name).map_err(Error::io("open", folder))?;
            let bytes = file.byte_len().map_err(Error::io("look at", folder))?;
            end += bytes / PAGE_BYTES as u64;
            files.push((end, file));
        }
        Ok(DevicePages { folder: folder.to_path_buf(), device, files })
    }

    /// Reads one page at random.
    pub fn read_one(&self, rng: &mut Rng) -> Result<()> {
        let (file, offset) = self.place(rng.below(self.pages()));
        let mut page = [0; PAGE_BYTES];
        let read = file.read_exact_at(&mut page, offset);
        black_box(page);
        read.map_err(Error::io("read", &self.folder))
    }

    /// Reads pages at random, all in one call, and returns the seconds it took.
    pub fn read_at_once(&self, reads: u64, rng: &mut Rng) -> Result<f64> {
        let mut pages: Vec<u64> = (0..reads).map(|_| rng.below(self.pages())).collect();
        pages.sort_unstable();
        let request = |page| {
            let (file, offset) = self.place(page);
            ReadRequest { file: file.clone(), offset, len: PAGE_BYTES }
        };
        let requests: Vec<ReadRequest> = pages.into_iter().map(request).collect();
        let started = Instant::now();
        let read = self.device.read_many(&requests);
        let seconds = started.elapsed().as_secs_f64();
        let failed = Error::io("read", &self.folder);
        read.into_iter().try_for_each(|page| page.map(|_| ())).map_err(failed)?;
        Ok(seconds)
    }

    /// Reads all files from their beginning to their end, some long reads at once, each thread into the same memory again and again,
    /// and returns the seconds it took.
    pub fn read_all(&self) -> Result<f64> {
        let started = Instant::now();
        let mut reads: Vec<(&dyn ReadFile, u64, usize)> = Vec::new();
        for (_, file) in &self.files {
            let bytes = file.byte_len().map_err(Error::io("look at", &self.folder))?;
            let len = |offset: u64| (bytes - offset).min(PASS_READ_BYTES) as usize;
            let offsets = (0..bytes).step_by(PASS_READ_BYTES as usize);
            reads.extend(offsets.map(|offset| (&**file, offset, len(offset))));
        }
        let next = AtomicUsize::new(0);
        let read_on = || -> io::Result<()> {
            let mut read = ReadBytes::default();
            while let Some((file, offset, len)) = reads.get(next.fetch_add(1, Ordering::Relaxed)) {
                read = file.read_over(read, *offset, *len)?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..PASS_THREADS).map(|_| scope.spawn(read_on)).collect();
            let mut ends = threads.into_iter().map(|thread| thread.join().expect("no panic"));
            ends.try_for_each(|end| end.map_err(Error::io("read", &self.folder)))
        })?;
        Ok(started.elapsed().as_secs_f64())
    }

    fn pages(&self) -> u64 {
        self.files.last().map_or(0, |(end, _)| *end)
    }

    /// The file of a page, and where in it that begins.
    fn place(&self, page: u64) -> (&Arc<dyn ReadFile>, u64) {
        let number = self.files.partition_point(|(end, _)| *end <= page);
        let first = if number == 0 { 0 } else { self.files[number - 1].0 };
        (&self.files[number].1, (page - first) * PAGE_BYTES as u64)
    }
}

/// Writes a new file, a chunk a call.
pub fn write_in_chunks(path: &Path, bytes: &[u8], chunk_bytes: usize) -> Result<()> {
    let mut file = File::create(path).map_err(Error::io("create", path))?;
    for chunk in bytes.chunks(chunk_bytes) {
        file.write_all(chunk).map_err(Error::io("write", path))?;
    }
    Ok(())
}

/// Waits until what was written to a file is on the disk.
pub fn sync(path: &Path) -> Result<()> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    file.sync_all().map_err(Error::io("sync", path))
}

/// Makes the operating system write out all files of a folder and forget their pages, so that the next read
/// asks the disk. Where it cannot be made to, this returns false.
pub fn forget_pages(folder: &Path) -> Result<bool> {
    for path in files_in(folder)? {
        sync(&path)?;
        #[cfg(target_os = "linux")]
        {
            let file = File::open(&path).map_err(Error::io("open", &path))?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)
                .map_err(|error| Error::io("forget", &path)(error.into()))?;
        }
    }
    Ok(cfg!(target_os = "linux"))
}

/// The bytes of all files of a folder.
pub fn folder_bytes(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for path in files_in(folder)? {
        bytes += fs::metadata(&path).map_err(Error::io("look at", &path))?.len();
    }
    Ok(bytes)
}

fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let list =
        || fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>();
    list().map_err(Error::io("list", folder))
}

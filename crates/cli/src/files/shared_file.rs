//! A file that several threads read at once, each where it wants: with a file's own position they would meet.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

/// A file of known length. Clones share it.
#[derive(Clone)]
pub struct SharedFile {
    file: Arc<File>,
    len: u64,
}

impl SharedFile {
    pub fn new(file: File) -> io::Result<SharedFile> {
        let len = file.metadata()?.len();
        Ok(SharedFile { file: Arc::new(file), len })
    }
}

impl Length for SharedFile {
    fn len(&self) -> u64 {
        self.len
    }
}

impl ChunkReader for SharedFile {
    type T = BufReader<ReadFrom>;

    fn get_read(&self, start: u64) -> Result<BufReader<ReadFrom>> {
        Ok(BufReader::new(ReadFrom { file: self.file.clone(), start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        // A length in a file may be damage, so it is not to be trusted with memory.
        if start.checked_add(length as u64).is_none_or(|end| end > self.len) {
            return Err(ParquetError::EOF(format!(
                "{length} bytes at byte {start} lie beyond the end of the file, at {}",
                self.len
            )));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}

/// The bytes of a file from some place on.
pub struct ReadFrom {
    file: Arc<File>,
    start: u64,
}

impl Read for ReadFrom {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.file.read_at(buffer, self.start)?;
        self.start += len as u64;
        Ok(len)
    }
}

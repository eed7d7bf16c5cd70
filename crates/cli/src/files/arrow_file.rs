//! Arrow IPC, in a file or as a stream, read message by message: memory holds one batch, however long the
//! file is.
//!
//! A file is a stream between two magic words, with a footer that is not needed to read it from its beginning
//! to its end. So it may be packed, or come through a pipe, and nothing is kept on the side.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::convert::fb_to_schema;
use arrow_ipc::reader::{read_dictionary, read_record_batch};
use arrow_ipc::{Message, root_as_message};
use arrow_schema::{ArrowError, SchemaRef};
use indicatif::HumanCount;

/// The largest batch, as it lies in the file and as it is unpacked. A length in a file may be damage, so it is
/// not to be trusted with memory.
const BATCH_BYTES_MAX: usize = 256 << 20;
/// A body of this size is asked for as if it were larger: from some size on, which grows up to 32 MiB, allocators have
/// pages of its own for what is asked for, and give them back when it is freed. One thread reads bodies, and others free
/// them; in one heap that left holes of many times their size. Pages that are not touched take no memory.
const LARGE_BODY_BYTES: usize = 1 << 20;
const OWN_PAGES_BYTES: usize = (32 << 20) + 1;
/// The largest description of a batch, or of the columns.
const METADATA_BYTES_MAX: usize = 16 << 20;
const MAGIC: &[u8] = b"ARROW1";
/// What files begin with of the format before, which has other messages.
const FEATHER_1: &[u8] = b"FEA1";
/// Messages begin at multiples of it, with zeros before them where they would not.
const WORD_LEN: usize = 8;
/// Before the length of a message, but in files of long ago.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// The batches of an Arrow file or stream.
pub struct ArrowFile<R> {
    file: R,
    /// Whether it begins with the magic word. Then it ends with it, too.
    is_file: bool,
    schema: SchemaRef,
    /// Shared with the batches that were read before the newest of them.
    dictionaries: Arc<HashMap<i64, ArrayRef>>,
    is_at_end: bool,
}

/// A batch as it lies in the file. To decode it needs no file, so another thread can.
pub struct EncodedBatch {
    metadata: Vec<u8>,
    body: Buffer,
    schema: SchemaRef,
    dictionaries: Arc<HashMap<i64, ArrayRef>>,
    rows: u64,
}

impl EncodedBatch {
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Before it is decoded.
    pub fn bytes(&self) -> u64 {
        self.body.len() as u64
    }

    pub fn decode(self) -> Result<RecordBatch, ArrowError> {
        // What the library does not check of a message, it asserts.
        let decode = AssertUnwindSafe(|| {
            let message = message(&self.metadata)?;
            let batch = message.header_as_record_batch().expect("it was looked at before");
            check_buffers(&batch, &self.body)?;
            let (schema, version) = (self.schema.clone(), message.version());
            let rows =
                read_record_batch(&self.body, batch, schema, &self.dictionaries, None, &version)?;
            if rows.num_rows() as u64 == self.rows { Ok(rows) } else { Err(inconsistent()) }
        });
        catch_unwind(decode).unwrap_or_else(|_| Err(inconsistent()))
    }
}

/// A file, behind the part of its first word that still is to be read.
type Buffered<R> = BufReader<io::Chain<io::Cursor<Vec<u8>>, R>>;

impl<R: Read> ArrowFile<Buffered<R>> {
    /// Reads the columns.
    pub fn open(mut file: R) -> Result<ArrowFile<Buffered<R>>, ArrowError> {
        // A pipe may give less than a word at first.
        let mut first_word = Vec::new();
        file.by_ref().take(WORD_LEN as u64).read_to_end(&mut first_word)?;
        if first_word.starts_with(FEATHER_1) {
            return Err(ipc(
                "the file is of Feather version 1; write it as version 2, or as an Arrow IPC file",
            ));
        }
        let is_file = first_word.len() == WORD_LEN && first_word.starts_with(MAGIC);
        if !is_file && !is_start_of_message(&first_word) {
            return Err(ipc(
                "the file is not an Arrow IPC file or stream; use --format if it has another format",
            ));
        }
        if is_file {
            first_word.clear();
        }
        let mut file = BufReader::new(io::Cursor::new(first_word).chain(file));
        if is_file {
            // Some writers fill up more than one word.
            while file.fill_buf()?.starts_with(&[0; WORD_LEN]) {
                file.consume(WORD_LEN);
            }
        }
        let Some(metadata) = metadata(&mut file)? else {
            return Err(ipc("the file ends before its schema; write it again"));
        };
        let message = message(&metadata)?;
        let Some(schema) = message.header_as_schema().filter(|schema| schema.fields().is_some())
        else {
            return Err(ipc(
                "the file does not begin with a schema; write it as an Arrow IPC file or stream",
            ));
        };
        if !schema.endianness().equals_to_target_endianness() {
            return Err(ipc(
                "the byte order of the file is not that of this machine; write it again here",
            ));
        }
        body(&mut file, &message)?;
        let schema = catch_unwind(AssertUnwindSafe(|| fb_to_schema(schema)));
        let schema =
            Arc::new(schema.map_err(|_| ipc("the schema is inconsistent; write the file again"))?);
        Ok(ArrowFile { file, is_file, schema, dictionaries: Arc::default(), is_at_end: false })
    }
}

impl<R: BufRead> ArrowFile<R> {
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn next_batch(&mut self) -> Result<Option<EncodedBatch>, ArrowError> {
        while let Some(metadata) = metadata(&mut self.file)? {
            let message = message(&metadata)?;
            let body = body(&mut self.file, &message)?;
            if let Some(batch) = message.header_as_record_batch() {
                let rows = u64::try_from(batch.length()).map_err(|_| inconsistent())?;
                let (schema, dictionaries) = (self.schema.clone(), self.dictionaries.clone());
                return Ok(Some(EncodedBatch { metadata, body, schema, dictionaries, rows }));
            }
            let Some(dictionary) = message.header_as_dictionary_batch() else {
                let what = message.header_type().variant_name().unwrap_or("unknown");
                return Err(ipc(format!("expected a batch, but found a message of type {what}")));
            };
            let values = dictionary.data().ok_or_else(|| ipc("a dictionary has no values"))?;
            check_buffers(&values, &body)?;
            let version = message.version();
            let dictionaries = Arc::make_mut(&mut self.dictionaries);
            read_dictionary(&body, dictionary, &self.schema, dictionaries, &version)?;
        }
        if self.is_file {
            self.check_end()?;
        }
        Ok(None)
    }

    /// What is behind the last batch of a file ends with the magic word, unless the file was cut off.
    fn check_end(&mut self) -> Result<(), ArrowError> {
        let mut last = Vec::new();
        loop {
            let read = self.file.fill_buf()?;
            if read.is_empty() {
                break;
            }
            last.extend_from_slice(&read[read.len().saturating_sub(MAGIC.len())..]);
            last.drain(..last.len().saturating_sub(MAGIC.len()));
            let len = read.len();
            self.file.consume(len);
        }
        if last == MAGIC { Ok(()) } else { Err(ipc("the file is cut off; write it again")) }
    }
}

impl<R: BufRead> Iterator for ArrowFile<R> {
    type Item = Result<EncodedBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_at_end {
            return None;
        }
        // What the library does not check of a message, it asserts.
        let batch = catch_unwind(AssertUnwindSafe(|| self.next_batch()));
        let batch = batch.unwrap_or_else(|_| Err(inconsistent())).transpose();
        self.is_at_end = !matches!(batch, Some(Ok(_)));
        batch
    }
}

/// The description of the next message, or nothing at the end.
fn metadata(file: &mut impl BufRead) -> Result<Option<Vec<u8>>, ArrowError> {
    if file.fill_buf()?.is_empty() {
        return Ok(None);
    }
    let mut prefix = [0; 4];
    file.read_exact(&mut prefix)?;
    if prefix == CONTINUATION {
        file.read_exact(&mut prefix)?;
    }
    let len = u32::from_le_bytes(prefix) as usize;
    if len > METADATA_BYTES_MAX {
        return Err(too_large("a message header", len, METADATA_BYTES_MAX));
    }
    let mut metadata = vec![0; len];
    file.read_exact(&mut metadata)?;
    Ok((len > 0).then_some(metadata))
}

fn message(metadata: &[u8]) -> Result<Message<'_>, ArrowError> {
    root_as_message(metadata).map_err(|error| ipc(format!("a message cannot be read: {error}")))
}

/// What the message describes.
fn body(file: &mut impl Read, message: &Message<'_>) -> Result<Buffer, ArrowError> {
    let len = usize::try_from(message.bodyLength()).unwrap_or(usize::MAX);
    if len > BATCH_BYTES_MAX {
        return Err(too_large("a batch", len, BATCH_BYTES_MAX));
    }
    // Aligned, so that columns need not be copied out of it.
    let capacity = if len < LARGE_BODY_BYTES { len } else { len.max(OWN_PAGES_BYTES) };
    let mut body = MutableBuffer::with_capacity(capacity);
    body.resize(len, 0);
    file.read_exact(&mut body)?;
    Ok(body.into())
}

/// Refuses a batch whose columns do not lie in its body, or would be too large unpacked.
fn check_buffers(batch: &arrow_ipc::RecordBatch<'_>, body: &[u8]) -> Result<(), ArrowError> {
    let is_packed = batch.compression().is_some();
    let mut unpacked_bytes = 0_usize;
    for buffer in batch.buffers().into_iter().flatten() {
        let (offset, len) = (buffer.offset(), buffer.length());
        let range = usize::try_from(offset).ok().zip(usize::try_from(len).ok());
        let bytes = range.and_then(|(offset, len)| body.get(offset..offset.checked_add(len)?));
        let Some(bytes) = bytes else {
            return Err(ipc(format!(
                "a column has {len} bytes at byte {offset}, but its batch has {}",
                body.len()
            )));
        };
        if let (true, Some(prefix)) = (is_packed, bytes.first_chunk::<8>()) {
            // -1 says that it is not packed.
            let len = i64::from_le_bytes(*prefix).max(0);
            unpacked_bytes =
                unpacked_bytes.saturating_add(usize::try_from(len).unwrap_or(usize::MAX));
        }
    }
    if unpacked_bytes > BATCH_BYTES_MAX {
        return Err(too_large("an uncompressed batch", unpacked_bytes, BATCH_BYTES_MAX));
    }
    Ok(())
}

/// Whether a stream can begin like this: with a mark, or with the length of its schema in files of long ago. Where less than a word
/// is there, it is said later that the file ends too early.
fn is_start_of_message(first_word: &[u8]) -> bool {
    let Some(&first) = first_word.first_chunk::<4>().filter(|_| first_word.len() == WORD_LEN)
    else {
        return true;
    };
    let len = usize::try_from(i32::from_le_bytes(first));
    first == CONTINUATION || len.is_ok_and(|len| len <= METADATA_BYTES_MAX)
}

fn too_large(what: &str, bytes: usize, limit: usize) -> ArrowError {
    let [bytes, limit] = [bytes, limit].map(|bytes| HumanCount(bytes as u64));
    ipc(format!(
        "{what} has {bytes} bytes; the limit is {limit}. Write the file in smaller batches"
    ))
}

fn inconsistent() -> ArrowError {
    ipc("a message is inconsistent; write the file again")
}

fn ipc(what: impl Into<String>) -> ArrowError {
    ArrowError::IpcError(what.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::{DictionaryArray, Int64Array, StringArray, types::Int32Type};
    use arrow_ipc::CompressionType;
    use arrow_ipc::writer::{DictionaryHandling, FileWriter, IpcWriteOptions, StreamWriter};
    use arrow_schema::DataType;

    fn batches() -> Vec<RecordBatch> {
        let batch = |first: i64| {
            let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + 1000));
            let words =
                (first..first + 1000).map(|id| (id % 7 != 0).then(|| format!("w{}", id % 50)));
            let texts: ArrayRef = Arc::new(words.clone().collect::<StringArray>());
            let words: Vec<Option<String>> = words.collect();
            let codes: DictionaryArray<Int32Type> = words.iter().map(Option::as_deref).collect();
            let codes: ArrayRef = Arc::new(codes);
            RecordBatch::try_from_iter_with_nullable([
                ("id", ids, false),
                ("text", texts, true),
                ("code", codes, true),
            ])
            .unwrap()
        };
        vec![batch(0), batch(0).slice(0, 0), batch(0).slice(100, 300)]
    }

    fn options(packing: Option<CompressionType>) -> IpcWriteOptions {
        IpcWriteOptions::default().try_with_compression(packing).unwrap()
    }

    fn file(packing: Option<CompressionType>) -> Vec<u8> {
        let schema = batches()[0].schema();
        let options = options(packing);
        let mut file = FileWriter::try_new_with_options(Vec::new(), &schema, options).unwrap();
        batches().iter().for_each(|batch| file.write(batch).unwrap());
        file.into_inner().unwrap()
    }

    fn stream(packing: Option<CompressionType>) -> Vec<u8> {
        let schema = batches()[0].schema();
        let options = options(packing);
        let mut stream = StreamWriter::try_new_with_options(Vec::new(), &schema, options).unwrap();
        batches().iter().for_each(|batch| stream.write(batch).unwrap());
        stream.into_inner().unwrap()
    }

    fn read(bytes: &[u8]) -> Result<Vec<RecordBatch>, ArrowError> {
        ArrowFile::open(bytes)?.map(|batch| batch?.decode()).collect()
    }

    #[test]
    fn files_and_streams_are_read_packed_or_not() {
        for packing in [None, Some(CompressionType::ZSTD), Some(CompressionType::LZ4_FRAME)] {
            for bytes in [file(packing), stream(packing)] {
                assert_eq!(ArrowFile::open(&bytes[..]).unwrap().schema(), batches()[0].schema());
                assert_eq!(read(&bytes).unwrap(), batches());
            }
        }
    }

    /// The second batch has one entry more, which a writer may give alone; of a stream also other entries altogether.
    #[test]
    fn dictionaries_may_grow_and_change_from_batch_to_batch() {
        let batch = |codes: &[i32], words: &[&str]| {
            let (codes, words) = (codes.to_vec().into(), StringArray::from(words.to_vec()));
            let column = DictionaryArray::<Int32Type>::new(codes, Arc::new(words));
            RecordBatch::try_from_iter([("code", Arc::new(column) as ArrayRef)]).unwrap()
        };
        let texts = |batch: &RecordBatch| {
            let column = arrow_cast::cast(batch.column(0), &DataType::Utf8).unwrap();
            let texts = column.as_string::<i32>().iter();
            texts.map(|text| text.unwrap().to_string()).collect::<Vec<_>>()
        };
        let first = batch(&[0, 1, 0], &["a", "b"]);
        let grown = batch(&[2, 1], &["a", "b", "c"]);
        let other = batch(&[1, 0], &["x", "y"]);
        let schema = first.schema();
        let deltas =
            || IpcWriteOptions::default().with_dictionary_handling(DictionaryHandling::Delta);
        let mut file = FileWriter::try_new_with_options(Vec::new(), &schema, deltas()).unwrap();
        let mut stream = StreamWriter::try_new_with_options(Vec::new(), &schema, deltas()).unwrap();
        [&first, &grown].into_iter().for_each(|batch| file.write(batch).unwrap());
        [&first, &grown, &other].into_iter().for_each(|batch| stream.write(batch).unwrap());
        let expected = [vec!["a", "b", "a"], vec!["c", "b"], vec!["y", "x"]];
        for (bytes, batches) in [(file.into_inner().unwrap(), 2), (stream.into_inner().unwrap(), 3)]
        {
            let read: Vec<_> = read(&bytes).unwrap().iter().map(texts).collect();
            assert_eq!(read, expected[..batches]);
        }
    }

    #[test]
    fn what_is_cut_off_is_an_error_wherever_that_is() {
        let bytes = file(None);
        // In the padding of the magic word, or in anything behind it.
        for len in (0..bytes.len()).step_by(61).chain(bytes.len() - 20..bytes.len()) {
            assert!(read(&bytes[..len]).is_err(), "{len} of {} bytes", bytes.len());
        }
        let bytes = stream(None);
        let whole = read(&bytes).unwrap().len();
        for len in (0..bytes.len() - 8).step_by(61) {
            // A stream may just end, but only between its batches.
            assert!(!read(&bytes[..len]).is_ok_and(|read| read.len() == whole), "{len}");
        }
    }

    #[test]
    fn lengths_that_cannot_be_meant_take_no_memory_and_end_in_errors() {
        for packing in [None, Some(CompressionType::ZSTD)] {
            let whole = stream(packing);
            // Behind the columns, each aligned word that describes a batch may be a length or an offset.
            let is_word = |at: &usize| whole[*at..].starts_with(&CONTINUATION);
            let messages = (0..whole.len() - 8).step_by(WORD_LEN).filter(is_word).skip(1);
            for at in messages.flat_map(|message| (message..message + 600).step_by(4)) {
                for wrong in [i64::MAX, i64::from(i32::MAX), -2, 1 << 40] {
                    let mut bytes = whole.clone();
                    let Some(word) = bytes.get_mut(at..at + 8) else { continue };
                    word.copy_from_slice(&wrong.to_le_bytes());
                    let _ = read(&bytes);
                }
            }
        }
        for (bytes, said) in [
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f][..], "the limit is"),
            (&[0; 4000], "ends before its schema"),
            (b"ARROW1\0\0", "ends before its schema"),
            (b"", "ends before its schema"),
            (b"FEA1\0\0\0\0\x10\0\0\0", "is of Feather version 1"),
        ] {
            let error = read(bytes).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}

//! What a file may make the command hold: bounded, whatever it says of itself. Each file is small on disk and
//! would be gigabytes in memory; the command's peak is measured in a process of its own.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use drillcore::{Database, OnError, Options, TableSpec};

/// Below this stays the peak of every case; about 80 MiB of it are the program itself.
const PEAK_BYTES_MAX: u64 = 400 << 20;
/// Threads read ahead of who writes: that takes 360 to 460 MiB for the table here, which has 790.
const EXPORT_PEAK_BYTES_MAX: u64 = 600 << 20;
/// Each file has more than this, unpacked.
const UNPACKED_BYTES: usize = 2 << 30;
const DEADLINE: Duration = Duration::from_secs(120);

/// The exit code, what was printed to standard error, and the peak of resident memory in bytes.
fn measured(folder: &Path, arguments: &[&str], input: Stdio) -> (i32, String, u64) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_drillcore"))
        .current_dir(folder)
        .args(arguments)
        .stdin(input)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let (started, mut peak) = (Instant::now(), 0);
    while child.try_wait().unwrap().is_none() {
        // It only ever grows, so the last look is the peak but for what is allocated in the last milliseconds.
        peak = peak.max(high_water_bytes(&status).unwrap_or(0));
        if started.elapsed() > DEADLINE || peak > 4 * PEAK_BYTES_MAX {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{arguments:?}: ended at {peak} bytes after {:?}", started.elapsed());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap_or(-1), message, peak)
}

fn high_water_bytes(status: &str) -> Option<u64> {
    let text = std::fs::read_to_string(status).ok()?;
    let line = text.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

/// Packed `beginning`, then `part` again and again: a packed file may consist of several.
fn packed(beginning: &[u8], part: &[u8]) -> Vec<u8> {
    let part_packed = zstd::encode_all(part, 1).unwrap();
    let mut bytes = zstd::encode_all(beginning, 1).unwrap();
    (0..UNPACKED_BYTES.div_ceil(part.len())).for_each(|_| bytes.extend_from_slice(&part_packed));
    assert!(bytes.len() < 4 << 20, "{} bytes are no small file", bytes.len());
    bytes
}

fn gzipped(part: &[u8]) -> Vec<u8> {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gz.write_all(part).unwrap();
    gz.finish().unwrap().repeat(UNPACKED_BYTES / part.len())
}

#[test]
fn records_without_an_end_are_refused_by_line_in_bounded_memory() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    let zeros = vec![0; 16 << 20];
    let lines = "2,x\n".repeat(4 << 20);
    write("quote.csv.zst", &packed(b"id,name\n1,x\n2,\"x\n", lines.as_bytes()));
    write("zeros.csv.zst", &packed(b"id,name\n1,x\n", &zeros));
    write("zeros.csv.gz", &gzipped(&zeros));
    write("zeros.jsonl.zst", &packed(b"{\"id\": 1}\n", &zeros));
    write("header.csv.zst", &packed(b"id,\"na", &lines.as_bytes()[..16 << 20]));
    write(
        "string.jsonl.zst",
        &packed(b"{\"id\": 1}\n{\"id\": \"", "x".repeat(16 << 20).as_bytes()),
    );
    write("commas.csv.zst", &packed(b"id", &[&[b','; (16 << 20) - 1][..], b"\n"].concat()));
    write("first.csv", b"id,name\n0,x\n");
    let done = measured(
        folder.path(),
        &["ingest", "db", "known", "first.csv", "--key=id", "--quiet"],
        Stdio::null(),
    );
    assert_eq!(done.0, 0, "{}", done.1);
    for (file, said) in [
        ("quote.csv.zst", "quote.csv.zst, line 3: the quote that opens here is not closed within"),
        ("zeros.csv.zst", "zeros.csv.zst, line 3: the record has more than"),
        ("zeros.csv.gz", "zeros.csv.gz, line 1: the record has more than"),
        ("zeros.jsonl.zst", "zeros.jsonl.zst, line 2: the record has more than"),
        (
            "header.csv.zst",
            "header.csv.zst, line 1: the quote that opens here is not closed within",
        ),
        ("string.jsonl.zst", "string.jsonl.zst, line 2: the record has more than"),
        ("commas.csv.zst", "commas.csv.zst, line 1: the record has 16,777,216 columns"),
    ] {
        for table in ["new", "known"] {
            for on_error in ["--on-error=raise", "--on-error=skip"] {
                let ingest = ["ingest", "db", table, file, "--key=id", "--quiet", on_error];
                let (code, message, peak) = measured(folder.path(), &ingest, Stdio::null());
                assert!(code == 2 && message.contains(said), "{code}: {message}");
                assert!(peak < PEAK_BYTES_MAX, "{file} into {table}: {} MiB", peak >> 20);
            }
        }
    }
}

#[test]
fn one_record_with_a_million_columns_is_refused_in_bounded_memory() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let names: String = (0..1_000_000).map(|name| format!("\"{name:07}\":0,")).collect();
    write("names.jsonl", &format!("{{{names}\"id\":0}}\n"));
    write("objects.jsonl", &format!("{{\"a\": {{{names}\"b\":0}}, \"id\": 0}}\n"));
    write("first.csv", "id,name\n0,x\n");
    let known = ["ingest", "db", "known", "first.csv", "--key=id", "--quiet"];
    assert_eq!(measured(folder.path(), &known, Stdio::null()).0, 0);
    for file in ["names.jsonl", "objects.jsonl"] {
        for table in ["new", "known"] {
            let ingest = ["ingest", "db", table, file, "--key=id", "--quiet"];
            let (code, message, peak) = measured(folder.path(), &ingest, Stdio::null());
            assert!(code == 2 && message.contains(&format!("{file}, line 1: ")), "{message}");
            assert!(peak < PEAK_BYTES_MAX, "{file} into {table}: {} MiB", peak >> 20);
        }
    }
}

#[test]
fn endless_standard_input_is_refused_in_bounded_memory() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("first.csv"), "id,name\n0,x\n").unwrap();
    let key = ["ingest", "db", "t", "first.csv", "--key=id", "--quiet"];
    assert_eq!(measured(folder.path(), &key, Stdio::null()).0, 0);
    for arguments in [
        &["ingest", "db", "t", "-", "--quiet"][..],
        &["ingest", "db", "t", "-", "--quiet", "--format=jsonl"],
        &["ingest", "db", "t", "-", "--quiet", "--format=arrow"],
        &["delete", "db", "t", "--keys", "-"],
        &["sql", "db", "-"],
    ] {
        let zeros = std::fs::File::open("/dev/zero").unwrap();
        let (code, message, peak) = measured(folder.path(), arguments, zeros.into());
        assert!(code == 2 || code == 3, "{arguments:?}: {code}: {message}");
        assert!(peak < PEAK_BYTES_MAX, "{arguments:?}: {} MiB", peak >> 20);
    }
}

#[test]
fn arrow_files_and_streams_are_read_batch_by_batch() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    // One wide column that the table does not take, so that memory is that of the reader alone.
    let rows = 16_384;
    let wide: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(1024); rows]));
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1; rows]));
    let batch = RecordBatch::try_from_iter([("id", ids), ("wide", wide)]).unwrap();
    let batches = UNPACKED_BYTES / (rows * 1024) / 2;
    let create = |name: &str| std::fs::File::create(path(name)).unwrap();
    let zstd = |name: &str| zstd::Encoder::new(create(name), 1).unwrap().auto_finish();
    let mut file = FileWriter::try_new(zstd("a.arrow.zst"), &batch.schema()).unwrap();
    let mut stream = StreamWriter::try_new(zstd("b.arrows.zst"), &batch.schema()).unwrap();
    for _ in 0..batches {
        file.write(&batch).unwrap();
        stream.write(&batch).unwrap();
    }
    file.finish().unwrap();
    stream.finish().unwrap();
    drop((file, stream));
    for file in ["a.arrow.zst", "b.arrows.zst"] {
        let rollup = ["--merge=rollup", "--key=id", "--metric=n=count", "--quiet"];
        let ingest = [&["ingest", "db", "t", file], &rollup[..]].concat();
        let (code, message, peak) = measured(folder.path(), &ingest, Stdio::null());
        assert_eq!(code, 0, "{message}");
        assert!(peak < PEAK_BYTES_MAX, "{file}: {} MiB", peak >> 20);
    }
    let count = Command::new(env!("CARGO_BIN_EXE_drillcore"))
        .current_dir(folder.path())
        .args(["count", "db", "t", "--events"])
        .output()
        .unwrap();
    let expected = 2 * batches * rows;
    assert_eq!(String::from_utf8(count.stdout).unwrap(), format!("{expected}\n"));
}

#[test]
fn what_is_unpacked_to_disk_has_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let zeros = vec![0; 16 << 20];
    std::fs::write(folder.path().join("a.parquet.zst"), packed(b"PAR1", &zeros)).unwrap();
    let ingest = ["ingest", "db", "t", "a.parquet.zst", "--key=id", "--quiet"];
    let (code, message, peak) = measured(folder.path(), &ingest, Stdio::null());
    assert!(code == 2 && message.contains("a.parquet.zst has more than"), "{code}: {message}");
    assert!(peak < PEAK_BYTES_MAX, "{} MiB", peak >> 20);
}

#[test]
fn a_table_is_exported_batch_by_batch() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path().join("db"), Options::default()).unwrap();
    let (rows, batches) = (16_384, 48);
    let wide = |batch: i64| {
        let ids = Int64Array::from_iter_values((0..rows).map(|row| batch * rows + row));
        let texts = ids.values().iter().map(|id| format!("{id:01000}"));
        let wide: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
        RecordBatch::try_from_iter([("id", Arc::new(ids) as ArrayRef), ("wide", wide)]).unwrap()
    };
    let table = db.create_table("t", TableSpec::new(wide(0).schema(), ["id"])).unwrap();
    (0..batches).for_each(|batch| drop(table.append(&wide(batch), OnError::Raise).unwrap()));
    // Every reader holds in memory what is only in the log.
    db.flush().unwrap();
    db.close().unwrap();
    for name in ["a.parquet", "a.arrow", "a.csv.zst", "a.jsonl"] {
        let (code, message, peak) =
            measured(folder.path(), &["export", "db", "t", name], Stdio::null());
        assert_eq!(code, 0, "{message}");
        assert!(peak < EXPORT_PEAK_BYTES_MAX, "{name}: {} MiB", peak >> 20);
        std::fs::remove_file(folder.path().join(name)).unwrap();
    }
}

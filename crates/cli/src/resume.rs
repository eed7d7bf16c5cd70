//! How far a file has been ingested: stored with each commit of its rows, so that an ingest that was killed can go on.

use std::fs::File;
use std::io::{self, Read};
use std::time::{SystemTime, UNIX_EPOCH};

use drillcore::{SourcePosition, Table};
use serde_json::{Value, json};
use twox_hash::XxHash64;

use crate::batches::unusable;
use crate::fault::Fault;
use crate::source;

/// Bytes at the beginning of a file by which it is known again.
const BEGINNING_BYTES: u64 = 64 << 10;
/// Files of a table that were read to their end and not to be resumed, and are still known when others are read.
const KNOWN_FILES_MAX: usize = 1_000;

/// A file on its way into a table.
pub struct FileProgress {
    source: String,
    identity: Identity,
    /// Records or rows that are in already.
    pub records_before: u64,
    /// Whether that is all of them.
    pub is_whole: bool,
}

/// What a file is known again by.
#[derive(PartialEq)]
struct Identity {
    bytes: u64,
    /// Nanoseconds since 1970.
    modified: u64,
    beginning: u64,
}

impl FileProgress {
    /// How far a file was ingested into a table; nothing of what can be read only once. Without `resumes` it begins anew.
    pub fn of(table: &Table, name: &str, resumes: bool) -> Result<Option<FileProgress>, Fault> {
        if source::is_read_once(name) {
            return match resumes {
                false => Ok(None),
                true => Err(Fault::wrong_call(format!(
                    "--resume needs files, but {name:?} can be read only once; write it to a file first, or leave \
                     --resume out"
                ))),
            };
        }
        let path = std::fs::canonicalize(name).map_err(|error| unusable(name, &error))?;
        let identity = Identity::of(name).map_err(|error| unusable(name, &error))?;
        // The number of the table, as another table may get its name.
        let source = format!("ingest:{}:{}", table.number(), path.display());
        let mut progress = FileProgress { source, identity, records_before: 0, is_whole: false };
        if resumes && let Some(position) = table.database().positions()?.get(&progress.source) {
            progress.take_up(name, position)?;
        }
        Ok(Some(progress))
    }

    /// The position behind the first `records` records or rows.
    pub fn at(&self, records: u64) -> SourcePosition {
        self.position(records, None)
    }

    /// The position at the end. That of a file that was not to be resumed is [forgotten](forgotten) some day.
    pub fn end(&self, records: u64, resumes: bool) -> SourcePosition {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.position(records, Some(if resumes { 0 } else { now.as_millis() as u64 }))
    }

    /// With the time of its end, if the file is whole; 0 if that is kept for ever.
    fn position(&self, records: u64, ended: Option<u64>) -> SourcePosition {
        let Identity { bytes, modified, beginning } = self.identity;
        let position = json!({
            "records": records,
            "is_whole": ended.is_some(),
            "ended": ended,
            "bytes": bytes,
            "modified": modified,
            "beginning": beginning,
        });
        SourcePosition { source: self.source.clone(), position: position.to_string().into() }
    }

    fn take_up(&mut self, name: &str, position: &[u8]) -> Result<(), Fault> {
        let found: Value = serde_json::from_slice(position).unwrap_or_default();
        let number = |field: &str| found[field].as_u64();
        let (Some(records), Some(is_whole)) = (number("records"), found["is_whole"].as_bool())
        else {
            return Err(Fault::unusable(format!(
                "another program stored the position of {:?}, so --resume cannot continue from it; ingest the file without \
                 --resume",
                self.source
            )));
        };
        let [bytes, modified, beginning] =
            ["bytes", "modified", "beginning"].map(|field| number(field).unwrap_or_default());
        if self.identity != (Identity { bytes, modified, beginning }) {
            let now = self.identity.bytes;
            let what = match now == bytes {
                true => "its contents or its time of change differ".to_string(),
                false => format!("it had {bytes} bytes then, and has {now} now"),
            };
            return Err(Fault::wrong_call(format!(
                "{name} has changed since {records} of its records were ingested: {what}. Put the file back as it was, or \
                 ingest what is not in the table yet from another file, without --resume"
            )));
        }
        (self.records_before, self.is_whole) = (records, is_whole);
        Ok(())
    }
}

/// What is to be stored as the positions of files that were read to their end into a table, so that they are forgotten: all but
/// the last thousand of those that were not to be resumed.
pub fn forgotten(table: &Table) -> Result<Vec<SourcePosition>, Fault> {
    let of_table = format!("ingest:{}:", table.number());
    let ended = |position: &[u8]| {
        let found: Value = serde_json::from_slice(position).ok()?;
        found["ended"].as_u64().filter(|&ended| ended > 0)
    };
    let positions = table.database().positions()?;
    let mut known: Vec<(u64, String)> = positions
        .into_iter()
        .filter(|(source, _)| source.starts_with(&of_table))
        .filter_map(|(source, position)| Some((ended(&position)?, source)))
        .collect();
    known.sort_unstable();
    known.truncate(known.len().saturating_sub(KNOWN_FILES_MAX));
    let forgotten = |(_, source)| SourcePosition { source, position: Vec::new() };
    Ok(known.into_iter().map(forgotten).collect())
}

impl Identity {
    fn of(name: &str) -> io::Result<Identity> {
        let file = File::open(name)?;
        let metadata = file.metadata()?;
        let modified = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut beginning = Vec::new();
        file.take(BEGINNING_BYTES).read_to_end(&mut beginning)?;
        Ok(Identity {
            bytes: metadata.len(),
            modified: u64::try_from(modified.as_nanos()).unwrap_or(u64::MAX),
            beginning: XxHash64::oneshot(0, &beginning),
        })
    }
}

//! How far a file has been ingested: stored with each commit of its rows, so that an ingest that was killed can go on.

use std::collections::HashSet;
use std::fs::{File, canonicalize};
use std::io::{self, Read};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use drillcore::{Error, SourcePosition, Table};
use indicatif::HumanCount;
use serde_json::{Value, json};
use twox_hash::XxHash64;

use crate::files::batches::unusable;
use crate::files::source;
use crate::process::fault::Fault;

/// Bytes at the beginning of a file by which it is known again.
const BEGINNING_BYTES: u64 = 64 << 10;
/// What the names of positions begin with.
const PREFIX: &str = "ingest:";
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
        let path = canonicalize(name).map_err(|error| unusable(name, &error))?;
        let identity = Identity::of(name).map_err(|error| unusable(name, &error))?;
        let source = source_of(table, &path);
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
                false => {
                    let [then, now] = [bytes, now].map(HumanCount);
                    format!("it had {then} bytes then, and has {now} now")
                }
            };
            let records = HumanCount(records);
            return Err(Fault::wrong_call(format!(
                "{name} has changed since {records} of its records were ingested: {what}. Put the file back as it was, or \
                 ingest what is not in the table yet from another file, without --resume"
            )));
        }
        (self.records_before, self.is_whole) = (records, is_whole);
        Ok(())
    }
}

/// What an ingest of some files into a table is to store so that positions are forgotten: those of files that were read to their
/// end and not to be resumed, all but the last thousand of the table, and all of tables that were dropped. Never those of these
/// files.
pub fn forgotten(table: &Table, files: &[String]) -> Result<Vec<SourcePosition>, Fault> {
    let db = table.database();
    let names = db.tables()?;
    let known = names.iter().map(|name| Ok(db.table(name)?.number().to_string()));
    let known: HashSet<String> = known.collect::<Result<_, Error>>()?;
    let own = files.iter().filter_map(|name| Some(source_of(table, &canonicalize(name).ok()?)));
    let own: HashSet<String> = own.collect();
    let (mut forgotten, mut ended) = (Vec::new(), Vec::new());
    for (source, position) in db.positions()? {
        let Some(rest) = source.strip_prefix(PREFIX) else { continue };
        let number = rest.split(':').next().unwrap_or_default();
        match ended_at(&position) {
            _ if own.contains(&source) => {}
            _ if !known.contains(number) => forgotten.push(source),
            Some(at) if number == table.number().to_string() => ended.push((at, source)),
            _ => {}
        }
    }
    ended.sort_unstable();
    ended.truncate(ended.len().saturating_sub(KNOWN_FILES_MAX));
    let sources = forgotten.into_iter().chain(ended.into_iter().map(|(_, source)| source));
    Ok(sources.map(|source| SourcePosition { source, position: Vec::new() }).collect())
}

/// When a file was read to its end that was not to be resumed, in milliseconds since 1970.
fn ended_at(position: &[u8]) -> Option<u64> {
    let found: Value = serde_json::from_slice(position).ok()?;
    found["ended"].as_u64().filter(|&ended| ended > 0)
}

/// The name of a file's position. By the number of the table, as another table may get its name.
fn source_of(table: &Table, path: &Path) -> String {
    format!("{PREFIX}{}:{}", table.number(), path.display())
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

//! What logs hold: frames, commits, edits of the manifest, and the schemas in them.

use std::sync::Arc;

use drillcore::arrow_schema::{DataType, Field};
use drillcore_format::block::RowsBuilder;
use drillcore_format::cursor::Cursor;
use drillcore_format::frame::{FileHeader, FrameWriter, LogKind};
use drillcore_format::frame_reader::FrameReader;
use drillcore_format::ids::SegmentId;
use drillcore_format::logged_commit::decode_commit;
use drillcore_format::manifest_edit::{decode_edits, encode_edits};
use drillcore_format::rows::Layout;
use drillcore_format::schema::TableSchema;
use drillcore_format::statistics_page::ZonesBuilder;
use drillcore_storage::manifest::Manifest;

use super::files::{assemble, put_frame};
use super::outcome::Outcome;
use super::pages::{texts_and_symbols, use_block};
use super::parts::{byte, part};
use super::tables::{table, use_rows};

/// A log is read on from a multiple of this.
const SECTOR_BYTES: usize = 512;

/// A table's shape, and what is made of it before there are rows.
pub fn schema(parts: &[Vec<u8>]) -> Outcome {
    let mut outcome = Outcome::default();
    let mut cursor = Cursor::new(part(parts, 1), "schema");
    let decoded = TableSchema::decode(&mut cursor);
    if let Some(schema) = outcome.note(decoded) {
        use_schema(&schema, &mut outcome);
    }
    outcome
}

fn use_schema(schema: &TableSchema, outcome: &mut Outcome) {
    let mut again = Vec::new();
    schema.encode(&mut again);
    let read = TableSchema::decode(&mut Cursor::new(&again, "schema"));
    assert_eq!(read.as_ref(), Ok(schema), "what was read can be written");
    assert!(schema.widens(schema));
    let layout = Layout::new(schema);
    outcome.note(RowsBuilder::new(&layout.all(), 0).finish()).iter().for_each(|rows| {
        use_rows(&layout, rows, &mut Outcome::default());
    });
    let columns: Vec<usize> = (0..schema.columns.fields().len()).collect();
    outcome.note(ZonesBuilder::new(&layout, &columns, 0).finish());
    let names = schema.columns.fields().iter().map(|field| field.name().len()).max();
    let fresh = "x".repeat(names.unwrap_or(0) + 1);
    let wider = schema.with_column(Arc::new(Field::new(fresh, DataType::Int64, true)));
    assert!(wider.widens(schema));
    Layout::new(&wider);
}

/// A log file. The selector says of which kind; every other part is a frame's payload behind a 0, or bytes as they
/// are.
pub fn frames(parts: &[Vec<u8>]) -> Outcome {
    let mut outcome = Outcome::default();
    let kind =
        if byte(part(parts, 0), 0).is_multiple_of(2) { LogKind::Wal } else { LogKind::Manifest };
    let mut log = Vec::new();
    let header = FileHeader { kind, nonce: 7 };
    header.put(&mut log);
    let mut frames = FrameWriter::new(header, 1, 1);
    for part in parts.iter().skip(1) {
        match part.split_first() {
            Some((0, payload)) => put_frame(&mut frames, payload, &mut log),
            Some((_, bytes)) => log.extend_from_slice(bytes),
            None => {}
        }
    }
    let Some((_, mut reader)) = outcome.note(FrameReader::new(&log, kind, 1)) else {
        return outcome;
    };
    loop {
        let at = reader.at();
        let Some(Some(frame)) = outcome.note(reader.next_frame()) else { break };
        assert!(at < reader.at() && reader.at() <= log.len());
        // Not every frame holds a commit, nor edits.
        let _ = decode_commit(frame.payload);
        let _ = decode_edits(frame.payload);
    }
    // From the middle of things.
    for at in (0..=log.len()).step_by(log.len().div_ceil(200)) {
        let sector = at / SECTOR_BYTES * SECTOR_BYTES;
        let _ = FrameReader::resume(&header, &log[sector..], at - sector, 2).next_frame();
        let _ = FileHeader::read(&log[at..], kind);
    }
    outcome
}

/// The payload of a commit: rows of the selected table.
pub fn commit(parts: &[Vec<u8>]) -> Outcome {
    let mut outcome = Outcome::default();
    let layout = &table(byte(part(parts, 0), 0)).layout;
    let decoded = decode_commit(part(parts, 1));
    for (_, block) in outcome.note(decoded).into_iter().flat_map(|commit| commit.batches) {
        use_block(layout, block, &texts_and_symbols(), &mut outcome);
    }
    outcome
}

/// A manifest, read as a whole and frame by frame.
pub fn manifest(parts: &[Vec<u8>]) -> Outcome {
    let mut outcome = Outcome::default();
    for part in parts {
        let Ok(edits) = decode_edits(part.get(9..).unwrap_or_default()) else { continue };
        let mut again = Vec::new();
        encode_edits(&edits, &mut again);
        assert_eq!(decode_edits(&again), Ok(edits), "what was read can be written");
    }
    let directory = assemble(parts);
    let Some(found) = outcome.note(Manifest::read(&directory)) else { return outcome };
    let pinned = found.state.snapshots.values().flat_map(|snapshot| &snapshot.tables);
    let schemas = pinned.map(|table| &table.schema);
    for schema in schemas.chain(found.state.tables.values().map(|table| &table.schema)) {
        use_schema(schema, &mut outcome);
    }
    if let Some((_, opened, _)) =
        outcome.note(Manifest::open(Arc::new(directory.clone()), 7, SegmentId(1)))
    {
        let mut expected = found.state;
        expected.identity.get_or_insert(7);
        assert_eq!(opened, expected);
        let again = outcome.note(Manifest::read(&directory));
        assert_eq!(again.map(|found| found.state), Some(opened), "what was read can be written");
    }
    outcome
}

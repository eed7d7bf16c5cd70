//! Manifest edits: how the list of tables and segments of a database changes.
//!
//! The manifest is a log of frames ([`crate::frame`]); one frame holds one list of edits, and the
//! list takes effect as a whole. Applying edits, and whether one makes sense after the others, is
//! left to the storage floor. Drawn in `docs/format.md`, section "Manifest edits".

use arrow_schema::FieldRef;

use crate::cursor::{Cursor, put_bytes, put_varint};
use crate::error::Result;
#[cfg(doc)]
use crate::file_tail::FileTail;
use crate::ids::{Lsn, LsnRange, SegmentId, TableId};
use crate::indexed_sets::IndexedSets;
use crate::logged_commit::{SourcePosition, put_erased, put_position, read_erased, read_position};
use crate::ordinal_intervals::OrdinalIntervals;
use crate::schema::{TableSchema, TimeToLive, put_column, read_column};

/// What the manifest says about a live segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentMeta {
    /// The segment's number, which its file's name contains.
    pub id: SegmentId,
    /// How many row versions it holds, erased ones and tombstones included.
    pub rows: u64,
    /// The length of the segment file.
    pub bytes: u64,
    /// What tells it from other files with that name: see [`FileTail::fingerprint`].
    pub fingerprint: u64,
    /// The commits that its rows come from.
    pub lsns: LsnRange,
    /// How many blocks it has.
    pub blocks: u64,
}

/// One table of a named snapshot. It stands by itself, so that the table may change, or go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedTable {
    /// The table's number when the snapshot was taken.
    pub table: TableId,
    /// The table's name then.
    pub name: String,
    /// The table's shape then, which tells how the segments below are read.
    pub schema: TableSchema,
    /// Oldest first.
    pub segments: Vec<SegmentMeta>,
    /// Which rows of these were erased.
    pub erased: Vec<(SegmentId, OrdinalIntervals)>,
}

/// What the manifest says about a postings file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostingsMeta {
    /// The file's own number, given out among those of segments.
    pub file: SegmentId,
    /// The length of the file.
    pub bytes: u64,
    /// What tells it from other files with that name: see [`FileTail::fingerprint`].
    pub fingerprint: u64,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// A table came into being, without rows.
    CreateTable {
        /// Its number, which no table had before.
        table: TableId,
        /// Its name, which no table has.
        name: String,
        /// Its columns, key, sets and merge policy.
        schema: TableSchema,
    },
    /// A table is gone, with all its segments. Named snapshots keep what they show of it.
    DropTable {
        /// Its number, which is not used again.
        table: TableId,
    },
    /// The table has a segment more, newer than its others.
    AddSegment {
        /// The table that grew.
        table: TableId,
        /// Its newest segment.
        segment: SegmentMeta,
    },
    /// Segments of a table were merged. What came of them stands where the first of them stood.
    ReplaceSegments {
        /// The table that was compacted.
        table: TableId,
        /// The segments that were merged.
        removed: Vec<SegmentId>,
        /// What was written of them, oldest first. None if no row was left.
        added: Vec<SegmentMeta>,
    },
    /// The table's segments hold every commit up to `lsn`.
    Flushed {
        /// The table that was flushed.
        table: TableId,
        /// The newest commit that its segments hold.
        lsn: Lsn,
    },
    /// Ids from this one on are unused.
    NextTable(TableId),
    /// Segments and postings files get numbers from this one on.
    NextSegment(SegmentId),
    /// Commits from this one on are still needed from the log.
    NextLsn(Lsn),
    /// Keeps all tables as they were at `lsn`, under a name. What had expired at `clock`, in seconds since 1970, is not shown.
    PinSnapshot {
        /// The name that no other snapshot has.
        name: String,
        /// The newest commit that it shows.
        lsn: Lsn,
        /// The time, in whole seconds since 1970, against which expiry is decided.
        clock: u64,
        /// Every table as it was then.
        tables: Vec<PinnedTable>,
    },
    /// A named snapshot is no longer kept.
    DropSnapshot {
        /// The snapshot's name.
        name: String,
    },
    /// The table's schema ends in one more column, which is nullable and outside the key.
    AddColumn {
        /// The table that got the column.
        table: TableId,
        /// The column's name and type. Rows from before are null there.
        column: FieldRef,
    },
    /// Which sets of the table are indexed from now on.
    IndexSets {
        /// The table whose sets are meant.
        table: TableId,
        /// All that are indexed, not only those that changed.
        indexed: IndexedSets,
    },
    /// The segment's postings lie in this file, in place of those before.
    AttachPostings {
        /// The segment whose rows they list.
        segment: SegmentId,
        /// The file of the postings.
        postings: PostingsMeta,
    },
    /// More rows of a table's segments were erased.
    EraseRows {
        /// The table that the segments belong to.
        table: TableId,
        /// The ordinals that were erased, per segment. What earlier edits erased stays erased.
        segments: Vec<(SegmentId, OrdinalIntervals)>,
    },
    /// How far a source has been read, as commits say that have left the log.
    SetPosition(SourcePosition),
    /// How long rows of the table are kept from now on.
    SetTtl {
        /// The table whose rows expire.
        table: TableId,
        /// The time column and the age; `None` keeps rows for good.
        ttl: Option<TimeToLive>,
    },
    /// The database's own number, by which its backups know it.
    Identify {
        /// A random number.
        database: u128,
    },
    /// The folder is a backup.
    MarkBackup(BackupMark),
    /// A table has another name.
    RenameTable {
        /// The table, whose number stays.
        table: TableId,
        /// Its new name, which no table has.
        name: String,
    },
    /// Columns of a table were renamed, dropped or widened: its shape from now on.
    Reshape {
        /// The table whose columns changed.
        table: TableId,
        /// Its whole shape, with where rows stored before have its columns.
        schema: TableSchema,
    },
}

/// What the manifest of a backup says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupMark {
    /// The number of the database that was backed up; 0 if it had none.
    pub database: u128,
    /// The newest commit in it.
    pub lsn: Lsn,
    /// It was opened for writing since: it is a database of its own.
    pub was_opened: bool,
}

mod tag {
    pub const CREATE_TABLE: u8 = 1;
    pub const DROP_TABLE: u8 = 2;
    pub const ADD_SEGMENT: u8 = 3;
    pub const REPLACE_SEGMENTS: u8 = 4;
    pub const FLUSHED: u8 = 5;
    pub const NEXT_TABLE: u8 = 6;
    pub const NEXT_SEGMENT: u8 = 7;
    pub const NEXT_LSN: u8 = 8;
    pub const PIN_SNAPSHOT: u8 = 9;
    pub const DROP_SNAPSHOT: u8 = 10;
    pub const ADD_COLUMN: u8 = 11;
    pub const INDEX_SETS: u8 = 12;
    pub const ATTACH_POSTINGS: u8 = 13;
    pub const ERASE_ROWS: u8 = 14;
    pub const SET_TTL: u8 = 15;
    pub const IDENTIFY: u8 = 16;
    pub const MARK_BACKUP: u8 = 17;
    pub const RENAME_TABLE: u8 = 18;
    pub const RESHAPE: u8 = 19;
    pub const SET_POSITION: u8 = 20;
}

/// Appends a list of edits, the payload of one manifest frame.
pub fn encode_edits(edits: &[Edit], out: &mut Vec<u8>) {
    put_varint(out, edits.len() as u64);
    for edit in edits {
        encode_edit(edit, out);
    }
}

/// Reads what [`encode_edits`] wrote. An edit of an unknown kind is malformed, and named.
pub fn decode_edits(payload: &[u8]) -> Result<Vec<Edit>> {
    let mut cursor = Cursor::new(payload, "manifest edit");
    let count = cursor.varint()?;
    // No capacity from `count`: it is not to be trusted with memory before the edits are there.
    let mut edits = Vec::new();
    for _ in 0..count {
        edits.push(decode_edit(&mut cursor)?);
    }
    cursor.finish()?;
    Ok(edits)
}

fn encode_edit(edit: &Edit, out: &mut Vec<u8>) {
    match edit {
        Edit::CreateTable { table, name, schema } => {
            put_tag(out, tag::CREATE_TABLE, u64::from(table.0));
            put_bytes(out, name.as_bytes());
            schema.encode(out);
        }
        Edit::DropTable { table } => put_tag(out, tag::DROP_TABLE, u64::from(table.0)),
        Edit::AddSegment { table, segment } => {
            put_tag(out, tag::ADD_SEGMENT, u64::from(table.0));
            put_segment(segment, out);
        }
        Edit::ReplaceSegments { table, removed, added } => {
            put_tag(out, tag::REPLACE_SEGMENTS, u64::from(table.0));
            put_varint(out, removed.len() as u64);
            removed.iter().for_each(|segment| put_varint(out, segment.0));
            put_segments(added, out);
        }
        Edit::Flushed { table, lsn } => {
            put_tag(out, tag::FLUSHED, u64::from(table.0));
            put_varint(out, lsn.0);
        }
        Edit::NextTable(table) => put_tag(out, tag::NEXT_TABLE, u64::from(table.0)),
        Edit::NextSegment(segment) => put_tag(out, tag::NEXT_SEGMENT, segment.0),
        Edit::NextLsn(lsn) => put_tag(out, tag::NEXT_LSN, lsn.0),
        Edit::PinSnapshot { name, lsn, clock, tables } => {
            put_tag(out, tag::PIN_SNAPSHOT, lsn.0);
            put_bytes(out, name.as_bytes());
            put_varint(out, *clock);
            put_varint(out, tables.len() as u64);
            for table in tables {
                put_varint(out, u64::from(table.table.0));
                put_bytes(out, table.name.as_bytes());
                table.schema.encode(out);
                put_segments(&table.segments, out);
                put_erased(&table.erased, out);
            }
        }
        Edit::DropSnapshot { name } => {
            out.push(tag::DROP_SNAPSHOT);
            put_bytes(out, name.as_bytes());
        }
        Edit::AddColumn { table, column } => {
            put_tag(out, tag::ADD_COLUMN, u64::from(table.0));
            put_column(column, out);
        }
        Edit::IndexSets { table, indexed } => {
            put_tag(out, tag::INDEX_SETS, u64::from(table.0));
            indexed.encode(out);
        }
        Edit::AttachPostings { segment, postings } => {
            put_tag(out, tag::ATTACH_POSTINGS, segment.0);
            put_varint(out, postings.file.0);
            put_varint(out, postings.bytes);
            out.extend(postings.fingerprint.to_le_bytes());
        }
        Edit::EraseRows { table, segments } => {
            put_tag(out, tag::ERASE_ROWS, u64::from(table.0));
            put_erased(segments, out);
        }
        Edit::SetTtl { table, ttl } => {
            put_tag(out, tag::SET_TTL, u64::from(table.0));
            out.push(u8::from(ttl.is_some()));
            ttl.iter().for_each(|ttl| ttl.encode(out));
        }
        Edit::Identify { database } => {
            out.push(tag::IDENTIFY);
            out.extend(database.to_le_bytes());
        }
        Edit::MarkBackup(BackupMark { database, lsn, was_opened }) => {
            put_tag(out, tag::MARK_BACKUP, lsn.0);
            out.push(u8::from(*was_opened));
            out.extend(database.to_le_bytes());
        }
        Edit::SetPosition(position) => {
            out.push(tag::SET_POSITION);
            put_position(position, out);
        }
        Edit::RenameTable { table, name } => {
            put_tag(out, tag::RENAME_TABLE, u64::from(table.0));
            put_bytes(out, name.as_bytes());
        }
        Edit::Reshape { table, schema } => {
            put_tag(out, tag::RESHAPE, u64::from(table.0));
            schema.encode(out);
        }
    }
}

fn put_segments(segments: &[SegmentMeta], out: &mut Vec<u8>) {
    put_varint(out, segments.len() as u64);
    segments.iter().for_each(|segment| put_segment(segment, out));
}

fn put_segment(segment: &SegmentMeta, out: &mut Vec<u8>) {
    put_varint(out, segment.id.0);
    put_varint(out, segment.rows);
    put_varint(out, segment.bytes);
    out.extend(segment.fingerprint.to_le_bytes());
    put_varint(out, segment.lsns.first.0);
    put_varint(out, segment.lsns.last.0);
    put_varint(out, segment.blocks);
}

/// Most edits begin with their tag and the id they are about.
fn put_tag(out: &mut Vec<u8>, tag: u8, id: u64) {
    out.push(tag);
    put_varint(out, id);
}

fn decode_edit(cursor: &mut Cursor<'_>) -> Result<Edit> {
    let edit = match cursor.u8()? {
        tag::CREATE_TABLE => Edit::CreateTable {
            table: cursor.table_id()?,
            name: cursor.str()?.to_string(),
            schema: TableSchema::decode(cursor)?,
        },
        tag::DROP_TABLE => Edit::DropTable { table: cursor.table_id()? },
        tag::ADD_SEGMENT => {
            Edit::AddSegment { table: cursor.table_id()?, segment: segment_meta(cursor)? }
        }
        tag::REPLACE_SEGMENTS => {
            let table = cursor.table_id()?;
            let mut removed = Vec::new();
            for _ in 0..cursor.varint()? {
                removed.push(cursor.segment_id()?);
            }
            Edit::ReplaceSegments { table, removed, added: segment_metas(cursor)? }
        }
        tag::FLUSHED => Edit::Flushed { table: cursor.table_id()?, lsn: cursor.lsn()? },
        tag::NEXT_TABLE => {
            let end = u64::from(TableId::MAX.0) + 1;
            Edit::NextTable(TableId(cursor.varint_below("next table", end)? as u32))
        }
        tag::NEXT_SEGMENT => {
            let end = SegmentId::MAX.0 + 1;
            Edit::NextSegment(SegmentId(cursor.varint_below("next segment", end)?))
        }
        tag::NEXT_LSN => Edit::NextLsn(Lsn(cursor.varint_below("next LSN", Lsn::MAX.0 + 1)?)),
        tag::PIN_SNAPSHOT => {
            let lsn = cursor.lsn()?;
            let name = cursor.str()?.to_string();
            let clock = cursor.varint()?;
            let mut tables = Vec::new();
            for _ in 0..cursor.varint()? {
                tables.push(pinned_table(cursor)?);
            }
            Edit::PinSnapshot { name, lsn, clock, tables }
        }
        tag::DROP_SNAPSHOT => Edit::DropSnapshot { name: cursor.str()?.to_string() },
        tag::ADD_COLUMN => {
            let (table, column) = (cursor.table_id()?, read_column(cursor)?);
            if !column.is_nullable() {
                let name = column.name();
                return Err(cursor.error(format!("added column {name:?} takes no nulls")));
            }
            Edit::AddColumn { table, column: column.into() }
        }
        tag::INDEX_SETS => {
            Edit::IndexSets { table: cursor.table_id()?, indexed: IndexedSets::decode(cursor)? }
        }
        tag::ATTACH_POSTINGS => {
            let segment = cursor.segment_id()?;
            let (file, bytes) = (cursor.segment_id()?, cursor.varint()?);
            let fingerprint = cursor.u64()?;
            Edit::AttachPostings { segment, postings: PostingsMeta { file, bytes, fingerprint } }
        }
        tag::ERASE_ROWS => {
            Edit::EraseRows { table: cursor.table_id()?, segments: read_erased(cursor)? }
        }
        tag::SET_TTL => {
            let table = cursor.table_id()?;
            let ttl = match cursor.u8()? {
                0 => None,
                1 => Some(TimeToLive::decode(cursor)?),
                other => {
                    return Err(
                        cursor.error(format!("a time to live is there or not, got {other}"))
                    );
                }
            };
            Edit::SetTtl { table, ttl }
        }
        tag::IDENTIFY => Edit::Identify { database: read_number(cursor)? },
        tag::MARK_BACKUP => {
            let (lsn, was_opened) = (cursor.lsn()?, cursor.u8()? != 0);
            Edit::MarkBackup(BackupMark { database: read_number(cursor)?, lsn, was_opened })
        }
        tag::SET_POSITION => Edit::SetPosition(read_position(cursor)?),
        tag::RENAME_TABLE => {
            Edit::RenameTable { table: cursor.table_id()?, name: cursor.str()?.to_string() }
        }
        tag::RESHAPE => {
            Edit::Reshape { table: cursor.table_id()?, schema: TableSchema::decode(cursor)? }
        }
        other => return Err(cursor.error(format!("unknown edit {other}"))),
    };
    Ok(edit)
}

fn read_number(cursor: &mut Cursor<'_>) -> Result<u128> {
    let bytes = cursor.take(size_of::<u128>())?;
    Ok(u128::from_le_bytes(bytes.try_into().expect("as many as were asked for")))
}

fn pinned_table(cursor: &mut Cursor<'_>) -> Result<PinnedTable> {
    let table = cursor.table_id()?;
    let name = cursor.str()?.to_string();
    let schema = TableSchema::decode(cursor)?;
    let segments = segment_metas(cursor)?;
    Ok(PinnedTable { table, name, schema, segments, erased: read_erased(cursor)? })
}

fn segment_metas(cursor: &mut Cursor<'_>) -> Result<Vec<SegmentMeta>> {
    let mut segments = Vec::new();
    for _ in 0..cursor.varint()? {
        segments.push(segment_meta(cursor)?);
    }
    Ok(segments)
}

fn segment_meta(cursor: &mut Cursor<'_>) -> Result<SegmentMeta> {
    Ok(SegmentMeta {
        id: cursor.segment_id()?,
        rows: cursor.varint()?,
        bytes: cursor.varint()?,
        fingerprint: cursor.u64()?,
        lsns: cursor.lsns()?,
        blocks: cursor.varint()?,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::{DataType, Field, Schema};
    use proptest::prelude::*;

    use super::*;
    use crate::indexed_sets::arbitrary::indexed_sets;
    use crate::key::arbitrary::data_type;
    use crate::schema::SetColumn;

    fn any_schema() -> impl Strategy<Value = TableSchema> {
        let names = prop::collection::vec("[^\\x00]{0,8}", 1..5);
        let sets = prop::option::of(indexed_sets());
        (names, any::<prop::sample::Index>(), sets).prop_map(|(names, index, indexed)| {
            let width = names.len();
            let names = names.into_iter().enumerate().map(|(at, name)| format!("{at}{name}"));
            let fields: Vec<Field> =
                names.map(|name| Field::new(name, DataType::Utf8, true)).collect();
            let key = vec![index.index(width)];
            let set = indexed.map(|indexed| SetColumn { column: index.index(width), indexed });
            TableSchema { set, ..TableSchema::new(Arc::new(Schema::new(fields)), key) }
        })
    }

    fn any_edit() -> impl Strategy<Value = Edit> {
        let table = || (0..TableId::MAX.0).prop_map(TableId);
        let segment = || (0..SegmentId::MAX.0).prop_map(SegmentId);
        let lsn = || (0..Lsn::MAX.0).prop_map(Lsn);
        let meta = (segment(), any::<(u64, u64, u64, u64)>(), lsn(), lsn()).prop_map(
            |(id, numbers, a, b)| {
                let (rows, bytes, fingerprint, blocks) = numbers;
                let lsns = LsnRange { first: a.min(b), last: a.max(b) };
                SegmentMeta { id, rows, bytes, fingerprint, lsns, blocks }
            },
        );
        let segments = prop::collection::vec(meta.clone(), 0..3);
        let rows = prop::collection::btree_set(0u32..99, 0..9)
            .prop_map(|ordinals| OrdinalIntervals::of(&ordinals.into_iter().collect::<Vec<_>>()));
        let erased = prop::collection::vec((segment(), rows), 0..3);
        let pinned = (table(), ".{0,12}", any_schema(), segments, erased.clone()).prop_map(
            |(table, name, schema, segments, erased)| PinnedTable {
                table,
                name,
                schema,
                segments,
                erased,
            },
        );
        prop_oneof![
            (table(), ".{0,12}", any_schema())
                .prop_map(|(table, name, schema)| Edit::CreateTable { table, name, schema }),
            table().prop_map(|table| Edit::DropTable { table }),
            (table(), meta.clone())
                .prop_map(|(table, segment)| Edit::AddSegment { table, segment }),
            (table(), prop::collection::vec(segment(), 0..3), prop::collection::vec(meta, 0..3))
                .prop_map(|(table, removed, added)| {
                    Edit::ReplaceSegments { table, removed, added }
                }),
            (table(), lsn()).prop_map(|(table, lsn)| Edit::Flushed { table, lsn }),
            table().prop_map(Edit::NextTable),
            segment().prop_map(Edit::NextSegment),
            lsn().prop_map(Edit::NextLsn),
            (lsn(), any::<u64>(), ".{0,12}", prop::collection::vec(pinned, 0..3)).prop_map(
                |(lsn, clock, name, tables)| Edit::PinSnapshot { name, lsn, clock, tables }
            ),
            ".{0,12}".prop_map(|name| Edit::DropSnapshot { name }),
            (table(), ".{0,12}", data_type()).prop_map(|(table, name, data_type)| {
                let column = Arc::new(Field::new(name, data_type, true));
                Edit::AddColumn { table, column }
            }),
            (table(), indexed_sets())
                .prop_map(|(table, indexed)| Edit::IndexSets { table, indexed }),
            (segment(), segment(), any::<(u64, u64)>()).prop_map(
                |(segment, file, (bytes, fingerprint))| Edit::AttachPostings {
                    segment,
                    postings: PostingsMeta { file, bytes, fingerprint },
                }
            ),
            (table(), erased).prop_map(|(table, segments)| Edit::EraseRows { table, segments }),
            (table(), prop::option::of((0usize..9, 0..TimeToLive::SECONDS_MAX))).prop_map(
                |(table, ttl)| {
                    let ttl = ttl.map(|(column, seconds)| TimeToLive { column, seconds });
                    Edit::SetTtl { table, ttl }
                }
            ),
            any::<u128>().prop_map(|database| Edit::Identify { database }),
            (table(), ".{0,12}").prop_map(|(table, name)| Edit::RenameTable { table, name }),
            (table(), any_schema()).prop_map(|(table, schema)| Edit::Reshape { table, schema }),
            (any::<u128>(), lsn(), any::<bool>()).prop_map(|(database, lsn, was_opened)| {
                Edit::MarkBackup(BackupMark { database, lsn, was_opened })
            }),
            (".{0,9}", prop::collection::vec(any::<u8>(), 0..9)).prop_map(|(source, position)| {
                Edit::SetPosition(SourcePosition { source, position })
            }),
        ]
    }

    proptest! {
        #[test]
        fn edits_read_back_and_every_prefix_of_them_is_an_error(edits in prop::collection::vec(any_edit(), 0..6)) {
            let mut bytes = Vec::new();
            encode_edits(&edits, &mut bytes);
            prop_assert_eq!(decode_edits(&bytes), Ok(edits));
            for len in 0..bytes.len() {
                prop_assert!(decode_edits(&bytes[..len]).is_err());
            }
        }

        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = decode_edits(&bytes);
        }
    }

    #[test]
    fn an_unknown_edit_is_named() {
        let error = decode_edits(&[1, 99, 0]).unwrap_err();
        assert!(error.to_string().contains("unknown edit 99"), "{error}");
    }
}

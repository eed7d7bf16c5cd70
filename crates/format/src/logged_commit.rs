//! The payload of a commit's frame in the write-ahead log: per table the block of its new rows, or which of its rows were
//! erased, and how far the rows have been read from where they come from. Drawn in `docs/format.md`, section "Log files".

use crate::cursor::{Cursor, put_bytes, put_u32, put_varint};
use crate::error::Result;
use crate::ids::{SegmentId, TableId};
use crate::key::Bound;
use crate::ordinal_intervals::OrdinalIntervals;

/// What a commit did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedCommit<'a> {
    /// Tables with the blocks of their new rows.
    pub batches: Vec<(TableId, &'a [u8])>,
    /// Rows of earlier commits that this one erased.
    pub erasures: Vec<LoggedErasure>,
    /// How far sources have been read with this commit. A source that is not named stays where it was.
    pub positions: Vec<SourcePosition>,
}

/// How far a source of rows, such as a file or a partition of a topic, has been read. It is for who reads the source
/// to know what the bytes mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcePosition {
    /// The name that the caller gave the source.
    pub source: String,
    /// None of a source that is forgotten.
    pub position: Vec<u8>,
}

/// Which rows of a table a commit erased. Rows of later commits are not among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedErasure {
    /// The table whose rows were erased.
    pub table: TableId,
    /// Which of them.
    pub rows: Erased,
}

/// Rows that were erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Erased {
    /// All whose keys lie between two places.
    Range {
        /// Where the range begins; `None` takes all from the least key on.
        low: Option<Bound>,
        /// Where it ends; `None` takes all up to the greatest key.
        high: Option<Bound>,
    },
    /// Rows of segments, as the manifest listed them at some version. The table had no other rows.
    Listed {
        /// That version: the number of the manifest's file, and of the last edit in it.
        manifest: (u64, u64),
        /// The ordinals of the erased rows, per segment.
        segments: Vec<(SegmentId, OrdinalIntervals)>,
    },
}

/// The first byte of a change. None is zero, so that a payload does not begin with one.
mod tag {
    pub const BATCH: u8 = 1;
    pub const LISTED: u8 = 2;
    pub const POSITION: u8 = 3;
    /// Two bits more say which ends there are.
    pub const RANGE: u8 = 4;
    pub const RANGE_WITH_BOTH_ENDS: u8 = RANGE | 3;
}

/// Appends a table's new rows: the block that `put` appends.
pub fn put_batch(table: TableId, put: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    out.push(tag::BATCH);
    put_u32(out, table.0);
    let len_at = out.len();
    put_u32(out, 0);
    put(out);
    let len = out.len() - len_at - size_of::<u32>();
    let len = u32::try_from(len).expect("a batch is shorter than 4 GiB");
    out[len_at..len_at + size_of::<u32>()].copy_from_slice(&len.to_le_bytes());
}

/// Appends an erasure.
pub fn put_erasure(LoggedErasure { table, rows }: &LoggedErasure, out: &mut Vec<u8>) {
    match rows {
        Erased::Range { low, high } => {
            let ends = u8::from(low.is_some()) | u8::from(high.is_some()) << 1;
            out.push(tag::RANGE | ends);
            put_u32(out, table.0);
            [low, high].into_iter().flatten().for_each(|bound| bound.encode(out));
        }
        Erased::Listed { manifest: (file, edit), segments } => {
            out.push(tag::LISTED);
            put_u32(out, table.0);
            put_varint(out, *file);
            put_varint(out, *edit);
            put_erased(segments, out);
        }
    }
}

/// Appends how far a source has been read.
pub fn put_source_position(position: &SourcePosition, out: &mut Vec<u8>) {
    out.push(tag::POSITION);
    put_position(position, out);
}

/// Reads the payload of a commit: what the functions above appended, up to its end.
pub fn decode_commit(payload: &[u8]) -> Result<LoggedCommit<'_>> {
    let mut cursor = Cursor::new(payload, "commit");
    let (mut batches, mut erasures, mut positions) = (Vec::new(), Vec::new(), Vec::new());
    while !cursor.is_empty() {
        match cursor.u8()? {
            tag::BATCH => {
                let table = TableId(cursor.u32()?);
                let len = cursor.u32()? as usize;
                batches.push((table, cursor.take(len)?));
            }
            tag::POSITION => positions.push(read_position(&mut cursor)?),
            kind => erasures.push(read_erasure(kind, &mut cursor)?),
        }
    }
    Ok(LoggedCommit { batches, erasures, positions })
}

fn read_erasure(kind: u8, cursor: &mut Cursor<'_>) -> Result<LoggedErasure> {
    let table = TableId(cursor.u32()?);
    let rows = match kind {
        tag::RANGE..=tag::RANGE_WITH_BOTH_ENDS => {
            let mut bound = |is_there: bool| is_there.then(|| Bound::decode(cursor)).transpose();
            Erased::Range { low: bound(kind & 1 != 0)?, high: bound(kind & 2 != 0)? }
        }
        tag::LISTED => {
            let manifest = (cursor.varint()?, cursor.varint()?);
            Erased::Listed { manifest, segments: read_erased(cursor)? }
        }
        other => return Err(cursor.error(format!("unknown kind of change {other}"))),
    };
    Ok(LoggedErasure { table, rows })
}

/// Appends the position of a source.
pub fn put_position(position: &SourcePosition, out: &mut Vec<u8>) {
    put_bytes(out, position.source.as_bytes());
    put_bytes(out, &position.position);
}

/// Reads what [`put_position`] wrote.
pub fn read_position(cursor: &mut Cursor<'_>) -> Result<SourcePosition> {
    Ok(SourcePosition { source: cursor.str()?.to_string(), position: cursor.bytes()?.to_vec() })
}

/// Appends erased rows of some segments.
pub fn put_erased(segments: &[(SegmentId, OrdinalIntervals)], out: &mut Vec<u8>) {
    put_varint(out, segments.len() as u64);
    for (segment, ordinals) in segments {
        put_varint(out, segment.0);
        // With its length, so that it can be passed over.
        let mut bytes = Vec::new();
        ordinals.encode(&mut bytes);
        put_bytes(out, &bytes);
    }
}

/// Reads what [`put_erased`] wrote.
pub fn read_erased(cursor: &mut Cursor<'_>) -> Result<Vec<(SegmentId, OrdinalIntervals)>> {
    let mut segments = Vec::new();
    for _ in 0..cursor.varint()? {
        let segment = cursor.segment_id()?;
        let mut bytes = Cursor::new(cursor.bytes()?, "erased rows");
        let ordinals = OrdinalIntervals::decode(&mut bytes)?;
        bytes.finish()?;
        segments.push((segment, ordinals));
    }
    Ok(segments)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bound() -> impl Strategy<Value = Option<Bound>> {
        let key = prop::collection::vec(any::<u8>(), 0..9);
        prop::option::of((key, any::<bool>()).prop_map(|(key, is_past)| match is_past {
            true => Bound::past_key(&key),
            false => Bound::at_key(&key),
        }))
    }

    fn erased() -> impl Strategy<Value = Erased> {
        let ordinals = prop::collection::btree_set(0u32..90, 0..20)
            .prop_map(|ordinals| OrdinalIntervals::of(&ordinals.into_iter().collect::<Vec<_>>()));
        let segments = prop::collection::vec((0u64..99, ordinals), 0..4);
        let segments = segments
            .prop_map(|all| all.into_iter().map(|(id, rows)| (SegmentId(id), rows)).collect());
        prop_oneof![
            (bound(), bound()).prop_map(|(low, high)| Erased::Range { low, high }),
            (any::<(u64, u64)>(), segments)
                .prop_map(|(manifest, segments)| Erased::Listed { manifest, segments }),
        ]
    }

    proptest! {
        #[test]
        fn a_commit_reads_back_and_what_ends_within_a_change_is_an_error(
            batches in prop::collection::vec((any::<u32>(), prop::collection::vec(any::<u8>(), 0..50)), 0..5),
            erasures in prop::collection::vec((any::<u32>(), erased()), 0..3),
            positions in prop::collection::vec((".{0,9}", prop::collection::vec(any::<u8>(), 0..9)), 0..3),
        ) {
            let batches: Vec<(TableId, &[u8])> =
                batches.iter().map(|(table, block)| (TableId(*table), &block[..])).collect();
            let erasures: Vec<LoggedErasure> = erasures
                .into_iter()
                .map(|(table, rows)| LoggedErasure { table: TableId(table), rows })
                .collect();
            let positions = positions.into_iter();
            let positions: Vec<SourcePosition> =
                positions.map(|(source, position)| SourcePosition { source, position }).collect();
            let mut payload = Vec::new();
            let mut ends = vec![0];
            for (table, block) in &batches {
                put_batch(*table, |out| out.extend_from_slice(block), &mut payload);
                ends.push(payload.len());
            }
            for erasure in &erasures {
                put_erasure(erasure, &mut payload);
                ends.push(payload.len());
            }
            for position in &positions {
                put_source_position(position, &mut payload);
                ends.push(payload.len());
            }
            prop_assert!(payload.first() != Some(&0));
            prop_assert_eq!(
                decode_commit(&payload),
                Ok(LoggedCommit { batches, erasures, positions })
            );
            for len in 0..payload.len() {
                // Whole changes are a commit, too: how many there were is for the frame's checksum to tell.
                prop_assert_eq!(decode_commit(&payload[..len]).is_ok(), ends.contains(&len));
            }
        }
    }
}

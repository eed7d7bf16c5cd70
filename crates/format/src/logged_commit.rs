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
    pub erasures: Vec<Erasure>,
    pub positions: Vec<SourcePosition>,
}

/// How far a source of rows, such as a file or a partition of a topic, has been read. It is for who reads the source
/// to know what the bytes mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcePosition {
    pub source: String,
    /// None of a source that is forgotten.
    pub position: Vec<u8>,
}

/// Which rows of a table a commit erased. Rows of later commits are not among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Erasure {
    pub table: TableId,
    pub rows: Erased,
}

/// Rows that were erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Erased {
    /// All whose keys lie between two places; `None` is unbounded.
    Range { low: Option<Bound>, high: Option<Bound> },
    /// Rows of segments, as the manifest listed them at some version: of its file of that number, after the edit of that
    /// number. The table had no other rows.
    Listed { manifest: (u64, u64), segments: Vec<(SegmentId, OrdinalIntervals)> },
}

mod tag {
    /// Two bits say which ends there are.
    pub const RANGE: u8 = 0;
    pub const LISTED: u8 = 4;
    pub const POSITION: u8 = 5;
}

/// A change that is of no table: its number is given to none.
const NO_TABLE: TableId = TableId(0);

/// Appends the payload of a commit.
pub fn encode_commit(
    batches: &[(TableId, &[u8])],
    erasures: &[Erasure],
    positions: &[SourcePosition],
    out: &mut Vec<u8>,
) {
    // Of all together, so that the first byte of a payload is not zero.
    put_varint(out, (batches.len() + erasures.len() + positions.len()) as u64);
    put_varint(out, batches.len() as u64);
    for (table, block) in batches {
        put_u32(out, table.0);
        put_u32(out, u32::try_from(block.len()).expect("a batch is shorter than 4 GiB"));
        out.extend_from_slice(block);
    }
    for Erasure { table, rows } in erasures {
        put_u32(out, table.0);
        match rows {
            Erased::Range { low, high } => {
                let ends = u8::from(low.is_some()) | u8::from(high.is_some()) << 1;
                out.push(tag::RANGE | ends);
                [low, high].into_iter().flatten().for_each(|bound| bound.encode(out));
            }
            Erased::Listed { manifest: (file, edit), segments } => {
                out.push(tag::LISTED);
                put_varint(out, *file);
                put_varint(out, *edit);
                put_erased(segments, out);
            }
        }
    }
    for position in positions {
        put_u32(out, NO_TABLE.0);
        out.push(tag::POSITION);
        put_position(position, out);
    }
}

/// Reads what [`encode_commit`] wrote.
pub fn decode_commit(payload: &[u8]) -> Result<LoggedCommit<'_>> {
    let mut cursor = Cursor::new(payload, "commit");
    // No capacity from counts: they are not to be trusted with memory before what they count is there.
    let (mut batches, mut erasures, mut positions) = (Vec::new(), Vec::new(), Vec::new());
    let (all, of_batches) = (cursor.varint()?, cursor.varint()?);
    let Some(of_others) = all.checked_sub(of_batches) else {
        return Err(cursor.error(format!("{of_batches} of {all} changes are batches")));
    };
    for _ in 0..of_batches {
        let table = TableId(cursor.u32()?);
        let len = cursor.u32()? as usize;
        batches.push((table, cursor.take(len)?));
    }
    for _ in 0..of_others {
        let table = TableId(cursor.u32()?);
        let rows = match cursor.u8()? {
            ends @ tag::RANGE..tag::LISTED => {
                let mut bound =
                    |is_there: bool| is_there.then(|| Bound::decode(&mut cursor)).transpose();
                Erased::Range { low: bound(ends & 1 != 0)?, high: bound(ends & 2 != 0)? }
            }
            tag::LISTED => {
                let manifest = (cursor.varint()?, cursor.varint()?);
                Erased::Listed { manifest, segments: read_erased(&mut cursor)? }
            }
            tag::POSITION if table == NO_TABLE => {
                positions.push(read_position(&mut cursor)?);
                continue;
            }
            other => return Err(cursor.error(format!("unknown kind of change {other}"))),
        };
        erasures.push(Erasure { table, rows });
    }
    cursor.finish()?;
    Ok(LoggedCommit { batches, erasures, positions })
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

    #[test]
    fn a_payload_begins_with_no_zero_and_has_no_more_batches_than_changes() {
        let rows = Erased::Range { low: None, high: None };
        let mut payload = Vec::new();
        encode_commit(&[], &[Erasure { table: TableId(1), rows }], &[], &mut payload);
        assert_eq!(payload[..2], [1, 0]);
        assert!(decode_commit(&[1, 2, 0]).is_err());
    }

    proptest! {
        #[test]
        fn a_commit_reads_back_and_every_prefix_of_it_is_an_error(
            batches in prop::collection::vec((any::<u32>(), prop::collection::vec(any::<u8>(), 0..50)), 0..5),
            erasures in prop::collection::vec((any::<u32>(), erased()), 0..3),
            positions in prop::collection::vec((".{0,9}", prop::collection::vec(any::<u8>(), 0..9)), 0..3),
        ) {
            let batches: Vec<(TableId, &[u8])> =
                batches.iter().map(|(table, block)| (TableId(*table), &block[..])).collect();
            let erasures: Vec<Erasure> = erasures
                .into_iter()
                .map(|(table, rows)| Erasure { table: TableId(table), rows })
                .collect();
            let positions = positions.into_iter();
            let positions: Vec<SourcePosition> =
                positions.map(|(source, position)| SourcePosition { source, position }).collect();
            let mut payload = Vec::new();
            encode_commit(&batches, &erasures, &positions, &mut payload);
            prop_assert_eq!(
                decode_commit(&payload),
                Ok(LoggedCommit { batches, erasures, positions })
            );
            for len in 0..payload.len() {
                prop_assert!(decode_commit(&payload[..len]).is_err());
            }
        }
    }
}

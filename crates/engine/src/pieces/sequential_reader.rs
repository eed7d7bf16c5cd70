//! Reading many rows of a piece one after the other, by columns where they lie by themselves.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use drillcore_format::dictionary::Dictionary;
use drillcore_format::rows::{Layout, Projection, Rows};
use drillcore_storage::segments::columns::ColumnReader;
use drillcore_storage::segments::segment::Segment;
use drillcore_storage::segments::sequence::{BlocksAhead, End, InSequence, read_ahead};

use crate::error::Result;
use crate::pieces::piece::Piece;

/// A smaller share of a group than one row in eight is read from blocks: a page of a stream is read whole.
const SHARE_OF_GROUP: u64 = 8;

/// Rows read at once from streams, at least and at most, unless their groups have fewer: powers of two, as is the number of these.
const CHUNK_ROWS: RangeInclusive<u64> = 2048..=32_768;

/// Reads rows of one piece in sequence.
pub struct SequentialReader {
    piece: Piece,
    projection: Projection,
    columns: Option<ColumnReader>,
    /// Of a run whose keys are by code, what is needed of these: positions in the key.
    key: Option<(Layout, Vec<usize>)>,
    chunk_rows: u64,
    /// Those that rows from blocks need, so that none is read for each chunk.
    dictionaries: Option<Vec<Arc<Dictionary>>>,
    blocks_ahead: BlocksAhead,
}

impl SequentialReader {
    /// Reads what `projection` says, with keys if it says so.
    pub fn of_rows(piece: Piece, projection: Projection) -> SequentialReader {
        let chunk_rows = *CHUNK_ROWS.end();
        let (columns, key, dictionaries) = Default::default();
        let of_one = |segment: &Arc<Segment>| BlocksAhead::of_one(segment);
        let blocks_ahead = piece.segment().map(of_one).unwrap_or_default();
        SequentialReader { piece, projection, columns, key, chunk_rows, dictionaries, blocks_ahead }
    }

    /// Reads what `projection` says for who needs of the key no more than some columns of the table: rows may have these in place of keys,
    /// about `rows_at_once` of them. Of the first of some pieces, of one at least.
    ///
    /// On disk: the directory of the streams, and a dictionary for each column of texts, once, a few MiB in all. Those of all pieces
    /// are read together.
    pub fn of_columns_of_some(
        pieces: &[Piece],
        projection: &Projection,
        layout: &Layout,
        columns: &[usize],
        rows_at_once: u64,
    ) -> Result<Vec<SequentialReader>> {
        let positions = layout.key_positions(columns);
        let key: Vec<_> =
            positions.iter().map(|&at| (at, layout.key_types()[at].clone())).collect();
        let mut on_disk: Vec<Arc<Segment>> =
            pieces.iter().filter_map(|piece| piece.segment().cloned()).collect();
        on_disk.truncate(ColumnReader::opened_together(&on_disk, &key, projection));
        let mut of_segments = ColumnReader::open_each(&on_disk, &key, projection)?.into_iter();
        // The power of two that is no more.
        let chunk_rows = 1 << rows_at_once.clamp(*CHUNK_ROWS.start(), *CHUNK_ROWS.end()).ilog2();
        let mut readers = Vec::new();
        for piece in pieces {
            let columns = match piece.segment().map(|_| of_segments.next()) {
                None => None,
                Some(Some(of_segment)) => of_segment,
                Some(None) => break,
            };
            let is_coded = projection.keys && piece.run().is_some_and(|run| run.has_key_codes());
            let key = is_coded.then(|| (layout.clone(), positions.clone()));
            let new = SequentialReader::of_rows(piece.clone(), projection.clone());
            readers.push(SequentialReader { columns, key, chunk_rows, ..new });
        }
        Ok(readers)
    }

    /// Has the rows read together that some readers take from streams first: as many as are few bytes. Each is given with the first
    /// ordinal, and how many rows it will read in sequence.
    pub fn read_columns_ahead<'r>(
        readers: impl Iterator<Item = (&'r mut SequentialReader, u64, u64)>,
    ) {
        let worth = readers.filter_map(|(reader, first, in_sequence)| {
            Some((reader.worth_reading(first, in_sequence)?, first))
        });
        ColumnReader::read_ahead(worth);
    }

    /// How many of some pieces have few bytes of dictionaries of what is projected, at least one.
    pub fn opened_together(pieces: &[&Piece], projection: &Projection) -> usize {
        let on_disk: Vec<Arc<Segment>> =
            pieces.iter().filter_map(|piece| piece.segment().cloned()).collect();
        let opened = ColumnReader::opened_together(&on_disk, &[], projection);
        let first_left = on_disk.get(opened);
        let is_opened = |piece: &&&Piece| match (piece.segment(), first_left) {
            (Some(segment), Some(left)) => !Arc::ptr_eq(segment, left),
            _ => true,
        };
        pieces.iter().take_while(is_opened).count()
    }

    /// Whether there are columns to read.
    pub fn has_columns(&self) -> bool {
        self.columns.is_some()
    }

    /// How many rows are best read at once: from multiple to multiple of that.
    pub fn chunk_rows(&self) -> u64 {
        let of_group = self.columns.as_ref().map(ColumnReader::group_rows);
        self.chunk_rows.min(of_group.unwrap_or(self.chunk_rows))
    }

    /// Some of the `in_sequence` rows that will be read one after the other, from streams, if that is worth it; rows behind them are
    /// wanted up to where the sequence ends. They must not reach over a multiple of [`SequentialReader::chunk_rows`].
    pub fn read_columns(
        &mut self,
        ordinals: Range<u64>,
        in_sequence: u64,
        sequence_end: u64,
    ) -> Result<Option<Rows>> {
        match self.worth_reading(ordinals.start, in_sequence) {
            Some(columns) => Ok(columns.read(ordinals, sequence_end)?),
            None => Ok(None),
        }
    }

    /// As [`SequentialReader::read_columns`], the codes of the only column, if it is one of texts: see
    /// [`ColumnReader::for_each_code`].
    pub fn read_codes(
        &mut self,
        ordinals: Range<u64>,
        in_sequence: u64,
        each: impl FnMut(u64, &[u64], &dyn Fn(usize) -> bool),
    ) -> Result<bool> {
        match self.worth_reading(ordinals.start, in_sequence) {
            Some(columns) => {
                let end = ordinals.start.saturating_add(in_sequence);
                Ok(columns.for_each_code(ordinals, end, each)?)
            }
            None => Ok(false),
        }
    }

    /// The same, the ordinals that have one of some codes: see [`ColumnReader::find_codes`].
    pub fn find_codes(
        &mut self,
        ordinals: Range<u64>,
        in_sequence: u64,
        sought: &[u64],
        each: impl FnMut(u64, u64),
    ) -> Result<bool> {
        match self.worth_reading(ordinals.start, in_sequence) {
            Some(columns) => {
                let end = ordinals.start.saturating_add(in_sequence);
                Ok(columns.find_codes(ordinals, end, sought, each)?)
            }
            None => Ok(false),
        }
    }

    /// The texts that codes of the only column stand for, if it is a stream of texts.
    pub fn dictionary(&self) -> Option<&Arc<Dictionary>> {
        self.columns.as_ref()?.dictionary()
    }

    fn worth_reading(&mut self, ordinal: u64, in_sequence: u64) -> Option<&mut ColumnReader> {
        let columns = self.columns.as_mut()?;
        let first = ordinal - ordinal % columns.group_rows();
        let of_group = columns.group_rows().min(self.piece.rows() - first);
        let is_worth = in_sequence >= of_group / SHARE_OF_GROUP;
        (is_worth || columns.is_in_hand(ordinal)).then_some(columns)
    }

    /// The first rows of a range, from blocks, or from a run: about as many as have `bytes_max` of keys and strings, at least one. What
    /// is read beyond them, up to where the sequence ends, is there for the next call.
    pub fn read_some(
        &mut self,
        ordinals: Range<u64>,
        bytes_max: usize,
        sequence_end: u64,
    ) -> Result<Rows> {
        if let (Some((layout, key)), Some(run)) = (&self.key, self.piece.run()) {
            let portion = run.portion(ordinals, End::First, &self.projection, bytes_max);
            return run.slice_by_columns(portion, &self.projection, layout, key);
        }
        let Some(segment) = self.piece.segment() else {
            return self.piece.read_some(ordinals, &self.projection, bytes_max);
        };
        if self.dictionaries.is_none() {
            let held = segment.dictionaries(&self.projection)?.into_iter();
            self.dictionaries = Some(held.map(|(_, entries)| entries).collect());
        }
        let ahead = &mut self.blocks_ahead;
        Ok(segment.read_some(ordinals, &self.projection, bytes_max, ahead, sequence_end)?)
    }

    /// Limits what it reads ahead to its share among some `readers` that are merged. Says whether it then reads blocks ahead at all.
    pub fn share_blocks_ahead(&mut self, readers: usize) -> bool {
        self.blocks_ahead.share(readers);
        self.columns.is_none() && self.blocks_ahead.is_kept()
    }

    /// Has the blocks read together that some readers need next, each for a step of rows, behind which others follow up to an end. All
    /// read the same columns. Those of runs and of streams are left out, and those that read no blocks ahead.
    pub fn read_blocks_ahead(readers: Vec<(&mut SequentialReader, Range<u64>, u64)>) -> Result<()> {
        let is_by_blocks = |(reader, _, _): &(&mut SequentialReader, Range<u64>, u64)| {
            reader.columns.is_none() && reader.blocks_ahead.is_kept()
        };
        let mut readers: Vec<_> = readers.into_iter().filter(is_by_blocks).collect();
        let mut new: Vec<&mut SequentialReader> = readers
            .iter_mut()
            .filter_map(|(reader, _, _)| reader.dictionaries.is_none().then_some(&mut **reader))
            .collect();
        if let Some(first) = new.first() {
            let segments: Vec<&Segment> =
                new.iter().filter_map(|reader| reader.piece.segment()).map(|of| &**of).collect();
            let read = Segment::dictionaries_of_each(&segments, &first.projection)?;
            for (reader, of_segment) in new.iter_mut().zip(read) {
                let entries = of_segment.into_iter().map(|(_, entries)| entries);
                reader.dictionaries = Some(entries.collect());
            }
        }
        let mut wanted = Vec::with_capacity(readers.len());
        for (reader, step, end) in readers {
            let SequentialReader { piece, blocks_ahead, .. } = reader;
            let segment = piece.segment().expect("it is none of a run");
            let (rows, step_end) = (step.start..end, step.end);
            wanted.push(InSequence { segment, rows, step_end, ahead: blocks_ahead });
        }
        Ok(read_ahead(wanted)?)
    }
}

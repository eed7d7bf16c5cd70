//! A piece's selected rows as a sorted stream, for merging.

use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};

use drillcore_format::byte_bounds;
use drillcore_format::rows::{Layout, Projection, Rows};
use drillcore_storage::segments::sequence::TOGETHER_MAX;

use crate::calls::interrupt::Interrupt;
use crate::error::Result;
use crate::merge::members_ahead::{DENSE_MIN, DENSE_SHARE, MembersAhead, are_dense, next_ordinals};
use crate::merge::merger::{Direction, RowSource};
use crate::pieces::live_rows::LiveRows;
use crate::pieces::piece::{Members, Piece, Wanted, fetch_together};
use crate::pieces::sequential_reader::SequentialReader;
use crate::select::pruning::Pruning;
use crate::select::selection::{Part, Selected};

/// Rows a source reads at once, unless they are long ([`byte_bounds::chunk`]). Few enough that a merge of many
/// segments stays within a few MiB.
const CHUNK_ROWS: u64 = 2048;
/// Rows of several pieces that are read together before any is merged. Columns of so few are not worth reading.
const TOGETHER_ROWS_MAX: u64 = DENSE_MIN;
/// Rows whose zones are looked at together, so that their memory is bounded.
const WINDOW_ROWS: u64 = 1 << 16;

/// Some rows of one piece, in key order or against it.
pub struct PieceSource {
    piece: Piece,
    projection: Projection,
    /// What is projected of a segment, if the rows are read in the types in which a run holds them.
    in_stored_types: Option<Projection>,
    reader: SequentialReader,
    /// Rows read at once from blocks, and their bytes of keys and strings.
    chunk_rows: u64,
    chunk_bytes: usize,
    /// A guess how many rows take `chunk_bytes`, from the rows that were read last against the key order.
    rows_of_chunk: u64,
    direction: Direction,
    rest: Rest,
    /// Rows that were read with those of other sources; they come before the rest.
    ready: VecDeque<(Rows, Vec<u32>)>,
    /// Of an interval, what is not left out.
    live: Option<LiveRows>,
    pruning: Option<Pruning>,
    interrupt: Interrupt,
    /// Of a run, the rows that were given last.
    given: Option<Ordinals>,
    /// The last key read, where the order of keys is checked.
    last_key: Option<Vec<u8>>,
}

/// What has not been read yet.
enum Rest {
    /// Ascending ranges of ordinals to read, and those beyond them whose zones have not been looked at.
    Interval { window: VecDeque<Range<u64>>, unseen: Range<u64> },
    /// The union of sets, and its next ordinals, in order.
    Members { sets: Vec<MembersAhead>, next: Vec<u32> },
}

/// Which rows were read.
enum Ordinals {
    /// In the direction of the source.
    Interval(Range<u64>),
    /// In order.
    Listed(Vec<u32>),
}

impl PieceSource {
    /// All rows of a piece but those that were erased.
    pub fn whole(piece: Piece, projection: Projection, direction: Direction) -> PieceSource {
        let (rest, live) = (Rest::interval(0..piece.rows()), piece.unerased());
        PieceSource { live, ..PieceSource::new(piece, projection, direction, rest) }
    }

    /// The selected rows of each piece that has some, with the number of the piece, oldest first. Rows of an interval
    /// are left out where zones tell that they cannot pass a test.
    pub fn of<'a>(
        selected: &'a Selected,
        projection: &'a Projection,
        direction: Direction,
        pruning: Option<&'a Pruning>,
        interrupt: &'a Interrupt,
    ) -> impl Iterator<Item = (usize, PieceSource)> + 'a {
        selected.by_piece().map(move |(number, parts)| {
            let mut live = None;
            let rest = match parts {
                [Part { members: None, from, to, .. }] => Rest::interval(*from..*to),
                [Part { members: Some(Members::Live(rows)), from, to, .. }] => {
                    live = Some(rows.clone());
                    Rest::interval(rows.ordinal(*from)..rows.ordinal(*to - 1) + 1)
                }
                _ => {
                    let sets = parts.iter().cloned().map(MembersAhead::new).collect();
                    Rest::Members { sets, next: Vec::new() }
                }
            };
            let piece = selected.pieces()[number].clone();
            let source = PieceSource::new(piece, projection.clone(), direction, rest);
            let (pruning, interrupt) = (pruning.cloned(), interrupt.clone());
            (number, PieceSource { live, pruning, interrupt, ..source })
        })
    }

    fn new(piece: Piece, projection: Projection, direction: Direction, rest: Rest) -> PieceSource {
        PieceSource {
            reader: SequentialReader::of_rows(piece.clone(), projection.clone()),
            piece,
            projection,
            in_stored_types: None,
            chunk_rows: CHUNK_ROWS,
            chunk_bytes: byte_bounds::chunk(),
            rows_of_chunk: u64::MAX,
            direction,
            rest,
            ready: VecDeque::new(),
            live: None,
            pruning: None,
            interrupt: Interrupt::never(),
            given: None,
            last_key: None,
        }
    }

    /// The same rows for who does not merge them: as many as `chunk_rows` at once, and of their keys no more than some
    /// columns of the table.
    pub fn by_columns(
        self,
        layout: &Layout,
        columns: &[usize],
        chunk_rows: u64,
    ) -> Result<PieceSource> {
        let mut sources = VecDeque::from([self]);
        PieceSource::some_by_columns(&mut sources, layout, columns, chunk_rows)?;
        Ok(sources.pop_front().expect("it was put in"))
    }

    /// [`PieceSource::by_columns`] of the first of some sources, which are read one after the other, at least of one; says of how many.
    /// What these need first is read together.
    pub fn some_by_columns(
        sources: &mut VecDeque<PieceSource>,
        layout: &Layout,
        columns: &[usize],
        chunk_rows: u64,
    ) -> Result<usize> {
        let Some(first) = sources.front() else { return Ok(0) };
        let projection = first.projection.clone();
        // Whether sets are read by columns takes looks at their postings.
        let is_by_set = |source: &PieceSource| matches!(source.rest, Rest::Members { .. });
        let pieces: Vec<&Piece> = sources
            .iter()
            .enumerate()
            .take_while(|(at, source)| *at == 0 || !is_by_set(source))
            .map(|(_, source)| &source.piece)
            .take(TOGETHER_MAX)
            .collect();
        let most = SequentialReader::opened_together(&pieces, &projection);
        let mut by_columns = Vec::new();
        for (at, source) in sources.iter().enumerate().take(most) {
            if source.is_worth_columns(columns, chunk_rows)? {
                by_columns.push(at);
            }
        }
        let pieces: Vec<Piece> = by_columns.iter().map(|&at| sources[at].piece.clone()).collect();
        let readers = SequentialReader::of_columns_of_some(
            &pieces,
            &projection,
            layout,
            columns,
            chunk_rows,
        )?;
        let opened = match by_columns.get(readers.len()) {
            Some(next) => *next,
            None => most,
        };
        for (at, reader) in by_columns.into_iter().zip(readers) {
            sources[at].reader = reader;
        }
        let sources = &mut sources.make_contiguous()[..opened];
        sources.iter_mut().for_each(|source| source.chunk_rows = chunk_rows);
        PieceSource::look_at_zones(sources.iter_mut())?;
        let mut of_columns = Vec::new();
        for source in sources.iter_mut().filter(|source| source.reader.has_columns()) {
            if let Rest::Interval { .. } = source.rest
                && let Some(range) = source.next_range()?
            {
                let first = match source.direction {
                    Direction::Forward => range.start,
                    Direction::Reverse => range.end - 1,
                };
                of_columns.push((&mut source.reader, first, range.end - range.start));
            }
        }
        SequentialReader::read_columns_ahead(of_columns.into_iter());
        PieceSource::read_blocks_ahead(sources.iter_mut().collect())?;
        Ok(opened)
    }

    /// Has the blocks read together that some sources need next, of those of intervals in segments that read none from streams. Their
    /// zones, where these are asked, are read before.
    fn read_blocks_ahead(sources: Vec<&mut PieceSource>) -> Result<()> {
        let by_blocks =
            |source: &&mut PieceSource| source.is_on_disk() && !source.reader.has_columns();
        let mut sources: Vec<&mut PieceSource> = sources.into_iter().filter(by_blocks).collect();
        PieceSource::look_at_zones(sources.iter_mut().map(|source| &mut **source))?;
        let mut wanted = Vec::new();
        for source in sources {
            let Rest::Interval { .. } = &source.rest else { continue };
            let Some(range) = source.next_range()? else { continue };
            let step = source.next_step(&range);
            let (step, end) = match source.direction {
                Direction::Forward => (step, range.end),
                Direction::Reverse => {
                    let step = source.last_portion(step)?;
                    (step.clone(), step.end)
                }
            };
            wanted.push((&mut source.reader, step, end));
        }
        match wanted.len() {
            0 | 1 => Ok(()),
            _ => SequentialReader::read_blocks_ahead(wanted),
        }
    }

    fn is_worth_columns(&self, columns: &[usize], chunk_rows: u64) -> Result<bool> {
        match &self.rest {
            Rest::Interval { .. } => Ok(chunk_rows >= CHUNK_ROWS),
            Rest::Members { sets, .. } => {
                Ok(self.ready.is_empty() && are_dense(sets, columns.len(), &self.piece)?)
            }
        }
    }

    /// Has the zones looked at of the rows of intervals that come next: read together.
    fn look_at_zones<'s>(sources: impl Iterator<Item = &'s mut PieceSource>) -> Result<()> {
        let mut unseen_by = Vec::new();
        for source in sources {
            let Rest::Interval { window, unseen } = &mut source.rest else { continue };
            if let Some(pruning) = &source.pruning
                && window.is_empty()
                && !unseen.is_empty()
            {
                let next = source.direction.take_next(unseen, WINDOW_ROWS);
                unseen_by.push((pruning, &source.piece, next, window));
            }
        }
        let Some((pruning, ..)) = unseen_by.first() else { return Ok(()) };
        let wanted: Vec<(&Piece, Range<u64>)> =
            unseen_by.iter().map(|(_, piece, next, _)| (*piece, next.clone())).collect();
        let kept = pruning.prune_each(&wanted)?;
        for ((.., window), kept) in unseen_by.into_iter().zip(kept) {
            *window = kept.into();
        }
        Ok(())
    }

    /// The same rows, of which no more are read at once than have some bytes of keys and strings, and one.
    pub fn in_chunks_of(self, chunk_bytes: usize) -> PieceSource {
        PieceSource { chunk_bytes, ..self }
    }

    /// The same rows for who decodes them once they are merged, in the types in which a run holds them: what is moved of a row are
    /// codes of texts, and narrow numbers.
    pub fn in_held_types(mut self) -> PieceSource {
        if let Some(run) = self.piece.run() {
            let in_held_types = run.held_rows().in_held_types(&self.projection);
            self.in_stored_types = Some(std::mem::replace(&mut self.projection, in_held_types));
            self.reader = SequentialReader::of_rows(self.piece.clone(), self.projection.clone());
        }
        self
    }

    /// Reads rows of sets of the first groups of sources, as long as all together have few: their postings together, and their blocks.
    /// Else a set costs the trips to the device of each piece, one after the other. Gives the number of groups that have nothing more to
    /// be read together.
    pub fn read_together<'s>(
        groups: impl Iterator<Item = &'s mut Vec<PieceSource>>,
    ) -> Result<usize> {
        let mut few: Vec<&mut PieceSource> = Vec::new();
        let (mut rows, mut bytes, mut done) = (0, 0, 0);
        'groups: for group in groups {
            for source in group {
                let Rest::Members { sets, .. } = &source.rest else { continue };
                if !source.is_on_disk() {
                    continue;
                }
                let len: u64 = sets.iter().map(MembersAhead::len).sum();
                rows += len;
                bytes += len.saturating_mul(source.piece.mean_row_bytes());
                if rows > TOGETHER_ROWS_MAX || bytes > byte_bounds::chunk() as u64 {
                    break 'groups;
                }
                few.push(source);
            }
            done += 1;
        }
        if few.len() < 2 {
            return Ok(done);
        }
        let sets = few.iter_mut().flat_map(|source| {
            let PieceSource { rest, direction, .. } = &mut **source;
            let sets = match rest {
                Rest::Members { sets, .. } => sets.iter_mut(),
                Rest::Interval { .. } => unreachable!("those of sets were taken"),
            };
            sets.map(|set| (set, *direction))
        });
        MembersAhead::look_up_all(sets)?;
        for source in &mut few {
            source.look_up_members()?;
        }
        let PieceSource { projection, interrupt, .. } = &*few[0];
        let wanted: Vec<Wanted<'_>> = few
            .iter()
            .map(|source| match &source.rest {
                Rest::Members { next, .. } => Wanted { piece: &source.piece, ordinals: next },
                Rest::Interval { .. } => unreachable!("those of sets were taken"),
            })
            .collect();
        let mut read: Vec<Vec<Rows>> = vec![Vec::new(); few.len()];
        // Rows of sets may be longer than others: the sources read by themselves what is left.
        let mut bytes = 0;
        fetch_together(&wanted, projection, byte_bounds::chunk(), interrupt, |number, rows| {
            bytes += rows.string_bytes();
            read[number].push(rows);
            Ok(match bytes < byte_bounds::batch() {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            })
        })?;
        for (source, read) in few.iter_mut().zip(read) {
            let Rest::Members { next, .. } = &mut source.rest else {
                unreachable!("those of sets were taken")
            };
            for rows in read {
                let later = next.split_off(rows.len());
                source.ready.push_back((rows, std::mem::replace(next, later)));
            }
        }
        Ok(done)
    }

    /// Whether it reads a segment.
    pub fn is_on_disk(&self) -> bool {
        self.piece.segment().is_some()
    }

    /// Whether it reads a run whose keys would have to be spelled, of which [`PieceSource::by_columns`] decodes the columns that are wanted.
    pub fn is_by_code(&self) -> bool {
        self.piece.run().is_some_and(|run| run.has_key_codes())
    }

    /// Fails where keys do not rise, as they do unless a segment is damaged: for what writes rows in their order.
    /// They are read forwards.
    pub fn in_checked_order(self) -> PieceSource {
        PieceSource { last_key: Some(Vec::new()), ..self }
    }

    fn check_order(&mut self, rows: &Rows) -> Result<()> {
        let (Some(last), Some(segment)) = (&mut self.last_key, self.piece.segment()) else {
            return Ok(());
        };
        if *last.as_slice() > *rows.key(0) || rows.first_out_of_order(false).is_some() {
            return Err(segment.inconsistent("its keys are not ascending".into()).into());
        }
        last.clear();
        last.extend_from_slice(rows.key(rows.len() - 1));
        Ok(())
    }

    /// The next rows, at least one, with their ordinals; `None` at the end.
    pub fn next_placed(&mut self) -> Result<Option<(Rows, Vec<u32>)>> {
        let Some((rows, ordinals)) = self.next_chunk()? else { return Ok(None) };
        let ordinals = match (ordinals, self.direction) {
            (Ordinals::Listed(ordinals), _) => ordinals,
            (Ordinals::Interval(interval), Direction::Forward) => {
                interval.map(|ordinal| ordinal as u32).collect()
            }
            (Ordinals::Interval(interval), Direction::Reverse) => {
                interval.rev().map(|ordinal| ordinal as u32).collect()
            }
        };
        Ok(Some((rows, ordinals)))
    }

    /// The next rows, in order, and which they are.
    fn next_chunk(&mut self) -> Result<Option<(Rows, Ordinals)>> {
        self.interrupt.check()?;
        let ready = self.ready.pop_front();
        let chunk = match (ready, &self.rest) {
            (Some((rows, ordinals)), _) => Some((rows, Ordinals::Listed(ordinals))),
            (None, Rest::Interval { .. }) => self.next_interval()?,
            (None, Rest::Members { .. }) => self.next_members()?,
        };
        if let Some((rows, _)) = &chunk {
            self.check_order(rows)?;
        }
        Ok(chunk)
    }

    /// The next rows of an interval, or that it has ended.
    fn next_interval(&mut self) -> Result<Option<(Rows, Ordinals)>> {
        let Some(range) = self.next_range()? else { return Ok(None) };
        let len = up_to_multiple(&range, self.direction, self.reader.chunk_rows());
        let chunk = self.direction.take_next(&mut range.clone(), len);
        let sequence_end = match self.direction {
            Direction::Forward => range.end,
            Direction::Reverse => chunk.end,
        };
        let in_sequence = range.end - range.start;
        let by_columns = self.reader.read_columns(chunk.clone(), in_sequence, sequence_end)?;
        let (rows, chunk) = match by_columns {
            Some(rows) => (rows, chunk),
            None => {
                let ahead = self.next_step(&range);
                match self.direction {
                    Direction::Forward => {
                        let first = ahead.start;
                        let rows = self.reader.read_some(ahead, self.chunk_bytes, range.end)?;
                        let chunk = first..first + rows.len() as u64;
                        (rows, chunk)
                    }
                    Direction::Reverse => self.read_last(ahead)?,
                }
            }
        };
        self.go_past(&chunk);
        let Some(some) = self.live.as_ref().filter(|live| !live.are_all(&chunk)) else {
            let rows = match self.direction {
                Direction::Forward => rows,
                Direction::Reverse => rows.take(&(0..rows.len() as u32).rev().collect::<Vec<_>>()),
            };
            return Ok(Some((rows, Ordinals::Interval(chunk))));
        };
        let first = chunk.start as u32;
        let mut live = Vec::new();
        some.ordinals_in(chunk, &mut live);
        if self.direction == Direction::Reverse {
            live.reverse();
        }
        let within: Vec<u32> = live.iter().map(|ordinal| ordinal - first).collect();
        Ok(Some((rows.take(&within), Ordinals::Listed(live))))
    }

    /// The rows of an interval that come next side by side, but for those that are left out; `None` at the end. It begins and ends
    /// with rows that are not.
    fn next_range(&mut self) -> Result<Option<Range<u64>>> {
        loop {
            PieceSource::look_at_zones(std::iter::once(&mut *self))?;
            let Rest::Interval { window, unseen } = &mut self.rest else {
                unreachable!("asked for by those of an interval")
            };
            if self.pruning.is_none() && window.is_empty() && !unseen.is_empty() {
                window.push_back(std::mem::take(unseen));
            }
            let next = match self.direction {
                Direction::Forward => window.front_mut(),
                Direction::Reverse => window.back_mut(),
            };
            let Some(range) = next else {
                if unseen.is_empty() {
                    return Ok(None);
                }
                self.interrupt.check()?;
                continue;
            };
            let live = match &self.live {
                None => Some(range.clone()),
                Some(live) => live.trimmed(range.clone()),
            };
            if let Some(live) = live {
                *range = live.clone();
                return Ok(Some(live));
            }
            match self.direction {
                Direction::Forward => window.pop_front(),
                Direction::Reverse => window.pop_back(),
            };
        }
    }

    /// Goes on behind a chunk of the rows that came next.
    fn go_past(&mut self, chunk: &Range<u64>) {
        let Rest::Interval { window, .. } = &mut self.rest else {
            unreachable!("asked for by those of an interval")
        };
        let (next, direction) = match self.direction {
            Direction::Forward => (window.front_mut(), Direction::Forward),
            Direction::Reverse => (window.back_mut(), Direction::Reverse),
        };
        let range = next.expect("the chunk is a part of it");
        direction.take_next(range, chunk.end - chunk.start);
        if range.is_empty() {
            match direction {
                Direction::Forward => window.pop_front(),
                Direction::Reverse => window.pop_back(),
            };
        }
    }

    /// What is read of a range at once from blocks, unless the rows are long.
    fn next_step(&self, range: &Range<u64>) -> Range<u64> {
        let len = up_to_multiple(range, self.direction, self.chunk_rows);
        self.direction.take_next(&mut range.clone(), len)
    }

    /// The last rows of an interval, and which they are: as many as take `chunk_bytes`, or those of a block. How many these are is known
    /// of rows as they are stored, and guessed by those that were read before; where the guess is wrong, fewer are read anew.
    fn read_last(&mut self, interval: Range<u64>) -> Result<(Rows, Range<u64>)> {
        let bytes_max = self.chunk_bytes;
        loop {
            self.interrupt.check()?;
            let chunk = self.last_portion(interval.clone())?;
            let rows = self.reader.read_some(chunk.clone(), bytes_max, chunk.end)?;
            let read = rows.len() as u64;
            if read == chunk.end - chunk.start {
                let bytes = rows.string_bytes().max(1) as u64;
                // Somewhat fewer, as those that come next may be longer; and one that is longer than a chunk is read, too.
                let aim = bytes_max as u64 / 8 * 7;
                self.rows_of_chunk = (aim.saturating_mul(read) / bytes).max(1);
                return Ok((rows, chunk));
            }
            // A long row may lie near the end, with all the others before it.
            self.rows_of_chunk = read.min((chunk.end - chunk.start) / 2).max(1);
        }
    }

    fn last_portion(&self, interval: Range<u64>) -> Result<Range<u64>> {
        let (bytes_max, rows_max) = (self.chunk_bytes, self.rows_of_chunk);
        self.piece.last_portion(interval, &self.projection, bytes_max, rows_max)
    }

    fn next_members(&mut self) -> Result<Option<(Rows, Ordinals)>> {
        let Rest::Members { next, .. } = &self.rest else {
            unreachable!("asked for by next_chunk")
        };
        if next.is_empty() && !self.look_up_members()? {
            return Ok(None);
        }
        if let Some(found) = self.next_members_by_columns()? {
            return Ok(Some(found));
        }
        let Rest::Members { next, .. } = &mut self.rest else {
            unreachable!("asked for by next_chunk")
        };
        let bytes_max = byte_bounds::chunk();
        let rows = self.piece.fetch_some(next, &self.projection, bytes_max, &self.interrupt)?;
        let later = next.split_off(rows.len());
        let ordinals = std::mem::replace(next, later);
        Ok(Some((rows, Ordinals::Listed(ordinals))))
    }
}

impl PieceSource {
    /// Looks up some more ordinals of members; says whether there are any.
    fn look_up_members(&mut self) -> Result<bool> {
        let Rest::Members { sets, next } = &mut self.rest else {
            unreachable!("asked for by next_chunk")
        };
        let known = next.len();
        next.extend(next_ordinals(&self.piece, sets, self.direction, CHUNK_ROWS as usize)?);
        // No row is in two sets, and in each they ascend: so says the list of a segment, if it is not damaged.
        let fresh = &next[known.saturating_sub(1)..];
        let is_in_order = match self.direction {
            Direction::Forward => fresh.is_sorted_by(|a, b| a < b),
            Direction::Reverse => fresh.is_sorted_by(|a, b| a > b),
        };
        match self.piece.segment() {
            Some(segment) if !is_in_order => {
                Err(segment.inconsistent("the rows of its sets overlap".into()).into())
            }
            _ => Ok(next.len() > known),
        }
    }

    /// The next members of one chunk of the piece, out of columns, where there are some and enough of its rows are members.
    fn next_members_by_columns(&mut self) -> Result<Option<(Rows, Ordinals)>> {
        if !self.reader.has_columns() {
            return Ok(None);
        }
        let step = self.reader.chunk_rows();
        let chunk_of = |ordinal: u32| u64::from(ordinal) / step;
        let is_in_one = |next: &[u32]| chunk_of(next[0]) == chunk_of(next[next.len() - 1]);
        while matches!(&self.rest, Rest::Members { next, .. } if is_in_one(next))
            && self.look_up_members()?
        {}
        let Rest::Members { next, .. } = &mut self.rest else {
            unreachable!("asked for by next_chunk")
        };
        let chunk = chunk_of(next[0]);
        let len = next.iter().take_while(|&&ordinal| chunk_of(ordinal) == chunk).count();
        let (first, last) = (next[0].min(next[len - 1]), next[0].max(next[len - 1]));
        let range = u64::from(first)..u64::from(last) + 1;
        if (len as u64) < (range.end - range.start) / DENSE_SHARE {
            return Ok(None);
        }
        let end = range.end;
        let Some(rows) = self.reader.read_columns(range, u64::MAX, end)? else { return Ok(None) };
        let later = next.split_off(len);
        let ordinals = std::mem::replace(next, later);
        let within: Vec<u32> = ordinals.iter().map(|ordinal| ordinal - first).collect();
        Ok(Some((rows.take(&within), Ordinals::Listed(ordinals))))
    }
}

impl RowSource for PieceSource {
    fn next_rows(&mut self) -> Result<Option<Rows>> {
        let chunk = self.next_chunk()?;
        let (rows, ordinals) = chunk.unzip();
        self.given = ordinals.filter(|_| self.piece.run().is_some());
        Ok(rows)
    }

    fn let_go_of_spilled(&mut self, rest: usize) -> Result<Option<Rows>> {
        if !self.piece.is_spilled() {
            return Ok(None);
        }
        let piece = self.piece.where_it_lies();
        let projection = self.in_stored_types.as_ref().unwrap_or(&self.projection).clone();
        let again = match &self.given {
            Some(given) if rest > 0 => {
                let rest = given.last(rest, self.direction);
                Some(piece.fetch(&rest, &projection, &Interrupt::never())?)
            }
            _ => None,
        };
        if let Rest::Members { sets, .. } = &mut self.rest {
            sets.iter_mut().try_for_each(|set| set.let_go_of(&self.piece))?;
        }
        self.reader = SequentialReader::of_rows(piece.clone(), projection.clone());
        (self.piece, self.projection) = (piece, projection);
        (self.in_stored_types, self.given) = (None, None);
        Ok(again)
    }

    /// Those of intervals in segments, unless they are many or the system reads ahead by itself.
    fn read_ahead<'s>(sources: impl Iterator<Item = &'s mut PieceSource>) -> Result<bool> {
        let mut sources: Vec<&mut PieceSource> = sources.filter(|of| of.is_on_disk()).collect();
        let (count, mut is_worth) = (sources.len(), false);
        for source in &mut sources {
            is_worth |= source.reader.share_blocks_ahead(count);
        }
        if is_worth {
            PieceSource::read_blocks_ahead(sources)?;
        }
        Ok(is_worth)
    }
}

impl Ordinals {
    /// The last of them, in order.
    fn last(&self, count: usize, direction: Direction) -> Vec<u32> {
        match (self, direction) {
            (Ordinals::Listed(ordinals), _) => ordinals[ordinals.len() - count..].to_vec(),
            (Ordinals::Interval(range), Direction::Forward) => {
                (range.end - count as u64..range.end).map(|ordinal| ordinal as u32).collect()
            }
            (Ordinals::Interval(range), Direction::Reverse) => {
                let last = range.start..range.start + count as u64;
                last.rev().map(|ordinal| ordinal as u32).collect()
            }
        }
    }
}

impl Rest {
    fn interval(ordinals: Range<u64>) -> Rest {
        Rest::Interval { window: VecDeque::new(), unseen: ordinals }
    }
}

/// How many ordinals lie between the end of a range that comes next and a multiple of `step`. So chunks begin
/// where those did that a block was written of, and fewer blocks are read for two chunks.
fn up_to_multiple(range: &Range<u64>, direction: Direction, step: u64) -> u64 {
    match direction {
        Direction::Forward => step - range.start % step,
        Direction::Reverse => (range.end - 1) % step + 1,
    }
}

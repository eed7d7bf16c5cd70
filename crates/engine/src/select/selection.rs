//! Selecting: from a question to ordinals in pieces.
//!
//! A selection is a list of parts, each an interval of ordinals or of a set's members in one piece. Its
//! rows are numbered through, 0 to `len`, so a sample is drawn by number and a count needs no rows.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use drillcore_format::key;
use drillcore_format::rows::Layout;
use drillcore_format::schema::TableSchema;
use drillcore_sample::prefix_sums::PrefixSums;
use drillcore_storage::postings::set_postings::SegmentMembers;

use crate::calls::interrupt::Interrupt;
use crate::error::{Error, Result};
use crate::pieces::alive_rows::AliveRows;
use crate::pieces::live_rows::LiveRows;
use crate::pieces::piece::{Members, Piece, UnindexedSet};
use crate::schema::conform::cast;
use crate::select::key_range::{Between, KeyRange, SplitRange};
use crate::select::predicate::{Predicate, Test};
use crate::select::unindexed_sets::{SetColumn, SetColumns, list_members};

/// Numbers that are made places between two looks at the interrupt, where nothing has to be looked up.
const NUMBERS_AT_ONCE: usize = 1 << 14;

/// Which rows a call is about. All of them by default.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use std::sync::Arc;
///
/// use drillcore::Selection;
/// use drillcore::arrow_array::StringArray;
///
/// let sets = Some(Arc::new(StringArray::from(vec!["UA"])) as _);
/// let united = Selection { sets, ..Selection::default() };
/// assert_eq!(flights.snapshot()?.count(&united)?, 30);
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// A key range.
    pub between: Option<Between>,
    /// Values of the set column; a null element stands for the rows without a value.
    pub sets: Option<ArrayRef>,
    /// A condition on each row: on a folded row, where keys fold.
    pub predicate: Option<Arc<dyn Predicate>>,
    /// The key range of a split: a share of what the others select. See [`TableSnapshot::splits`](crate::TableSnapshot::splits).
    pub split: Option<SplitRange>,
}

/// A selection, checked and encoded for one table: what indexes find, and what is tested of that.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    pub scope: Scope,
    pub test: Option<Test>,
}

/// The part of a selection that indexes answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Scope {
    range: KeyRange,
    /// Encoded values, each once, in order.
    sets: Option<Vec<Vec<u8>>>,
}

/// The rows of some pieces that pass a scope.
pub struct Selected {
    pieces: Arc<[Piece]>,
    parts: Vec<Part>,
    sums: PrefixSums,
}

/// The ordinals `from..to` of a piece, or of a set's members in it.
#[derive(Clone)]
pub struct Part {
    pub piece: usize,
    pub members: Option<Members>,
    pub from: u64,
    pub to: u64,
}

/// One row of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    pub piece: u32,
    pub ordinal: u32,
}

impl Place {
    /// Panics if there are 2^32 pieces.
    pub fn new(piece: usize, ordinal: u32) -> Place {
        Place { piece: u32::try_from(piece).expect("pieces have 32 bits"), ordinal }
    }
}

impl Selection {
    /// Checks the selection against a table. What the predicate says of keys and sets narrows the scope.
    pub fn check(&self, schema: &TableSchema) -> Result<Question> {
        let range = self.between.as_ref().map(|between| KeyRange::new(schema, between));
        let range = range.transpose()?.unwrap_or_default();
        let range = self.split.iter().map(KeyRange::of_split).fold(range, KeyRange::and);
        let sets = self.sets.as_ref().map(|values| encode_sets(schema, values));
        let scope = Scope { range, sets: sets.transpose()? };
        let Some(predicate) = &self.predicate else { return Ok(Question { scope, test: None }) };
        let implied = predicate.between().map(|between| KeyRange::or_empty(schema, between));
        let sets = predicate.sets().map(|values| encode_sets(schema, values));
        let scope = Scope {
            range: scope.range.and(implied.transpose()?.unwrap_or_default()),
            sets: match (scope.sets, sets.transpose()?) {
                (Some(mut asked), Some(implied)) => {
                    asked.retain(|set| implied.binary_search(set).is_ok());
                    Some(asked)
                }
                (asked, implied) => asked.or(implied),
            },
        };
        Ok(Question { scope, test: Test::new(schema, predicate)? })
    }
}

impl Question {
    /// The key range, if that is all there is to the question.
    pub fn key_range(&self) -> Option<&KeyRange> {
        (self.test.is_none() && self.scope.sets.is_none()).then_some(&self.scope.range)
    }

    /// All rows of a key range.
    pub fn of_range(range: KeyRange) -> Question {
        Question { scope: Scope { range, sets: None }, test: None }
    }
}

impl Scope {
    /// Whether every row passes.
    pub fn is_everything(&self) -> bool {
        self.range.is_everything() && self.sets.is_none()
    }

    /// Whether rows are chosen by set, not only by key.
    pub fn is_by_set(&self) -> bool {
        self.sets.is_some()
    }

    /// Whether some piece does not list the rows of every set asked for, so that they have to be looked for.
    pub fn takes_a_pass(&self, pieces: &[Piece]) -> bool {
        let Some(sets) = &self.sets else { return false };
        pieces.iter().any(|piece| {
            let indexed = piece.indexed();
            !sets.iter().all(|set| indexed.contains(set))
        })
    }

    /// Finds the rows of `pieces` that pass. On disk, a range end costs one index page and one block per
    /// piece, a set one directory page, each read for all pieces together; sets that are not indexed there, one pass over the set column.
    pub fn select(
        &self,
        layout: &Layout,
        pieces: Arc<[Piece]>,
        interrupt: &Interrupt,
    ) -> Result<Selected> {
        let ranges = self.range.ordinals(&pieces)?;
        let Some(sets) = &self.sets else {
            let of_piece = pieces.iter().zip(ranges).enumerate();
            let parts = of_piece.map(|(number, (piece, range))| live_part(number, piece, range));
            let parts = parts.collect();
            return Ok(Selected::of_parts(pieces, parts));
        };
        let mut found: Vec<(usize, Members, Range<u64>)> = Vec::new();
        let indexed = Piece::members_in_each(&pieces, sets, interrupt)?;
        let of_pieces: Vec<OfPiece<'_>> = pieces
            .iter()
            .zip(indexed.into_iter().zip(ranges))
            .enumerate()
            .map(|(number, (piece, (indexed, range)))| OfPiece { number, piece, indexed, range })
            .collect();
        let to_read = of_pieces.iter().filter(|of_piece| of_piece.takes_a_pass());
        let to_read = to_read.map(|of_piece| (of_piece.piece, of_piece.range.clone()));
        let mut columns = SetColumns::new(layout, to_read);
        for of_piece in of_pieces {
            let column = if of_piece.takes_a_pass() { columns.open_next()? } else { None };
            let (number, range) = (of_piece.number, of_piece.range.clone());
            // In the order of the sets, with or without an index: the same draws take the same rows.
            let members = of_piece.members(sets, column, interrupt)?;
            let some = members.into_iter().filter(|members| members.len() > 0);
            found.extend(some.map(|members| (number, members, range.clone())));
        }
        let is_whole = |(number, members, range): &(usize, Members, Range<u64>)| {
            matches!(members, Members::Listed(_) | Members::Unindexed(_))
                || *range == (0..pieces[*number].rows())
        };
        let ends =
            found.iter().filter(|found| !is_whole(found)).flat_map(|(number, members, range)| {
                [range.start, range.end].map(|end| (&pieces[*number], members, end))
            });
        let mut ranks = Piece::member_ranks(&ends.collect::<Vec<_>>())?.into_iter();
        let mut parts = Vec::with_capacity(found.len());
        for of_set in found {
            let (from, to) = match is_whole(&of_set) {
                true => (0, of_set.1.len()),
                false => {
                    let mut next = || ranks.next().expect("each end was asked for");
                    (next(), next())
                }
            };
            let (piece, members, _) = of_set;
            let part = Part { piece, members: Some(members), from, to };
            parts.push(without_erased(&pieces[piece], part)?);
        }
        Ok(Selected::of_parts(pieces, parts))
    }
}

impl Scope {
    /// Of what [`Scope::select`] finds the rows that are alive, in the order of their ordinals; `None` stands for all rows of a
    /// piece. O(pieces); by set each member is looked at.
    pub fn select_alive(
        &self,
        candidates: &Selected,
        alive: &[Option<Arc<AliveRows>>],
        interrupt: &Interrupt,
    ) -> Result<Selected> {
        let pieces = candidates.pieces().clone();
        if self.is_by_set() {
            let mut ordinals = vec![Vec::new(); pieces.len()];
            for part in candidates.parts() {
                interrupt.check()?;
                part.ordinals(&pieces[part.piece], part.from..part.to, &mut ordinals[part.piece])?;
            }
            for (ordinals, alive) in ordinals.iter_mut().zip(alive) {
                if let Some(alive) = alive {
                    ordinals.retain(|&ordinal| alive.contains(ordinal));
                }
                ordinals.sort_unstable();
            }
            return Ok(Selected::listed(pieces, ordinals));
        }
        let of_alive = |part: &Part| {
            let Some(alive) = &alive[part.piece] else { return part.clone() };
            // What was erased at the ends is not alive.
            let (first, last) = match &part.members {
                Some(Members::Live(live)) => (live.ordinal(part.from), live.ordinal(part.to - 1)),
                _ => (part.from, part.to - 1),
            };
            Part {
                piece: part.piece,
                members: Some(Members::Live(LiveRows::Alive(alive.clone()))),
                from: alive.rank(first),
                to: alive.rank(last + 1),
            }
        };
        let parts = candidates.parts().iter().map(of_alive).collect();
        Ok(Selected::of_parts(pieces, parts))
    }
}

impl Selected {
    /// Some parts of some pieces, which may be empty.
    pub fn of_parts(pieces: Arc<[Piece]>, mut parts: Vec<Part>) -> Selected {
        parts.retain(|part| part.from < part.to);
        let sums = PrefixSums::from_counts(parts.iter().map(Part::len));
        Selected { pieces, parts, sums }
    }

    /// Some rows of each piece, by ordinals that ascend.
    pub fn listed(pieces: Arc<[Piece]>, ordinals: Vec<Vec<u32>>) -> Selected {
        assert_eq!(pieces.len(), ordinals.len());
        let part = |(piece, ordinals): (usize, Vec<u32>)| {
            let to = ordinals.len() as u64;
            Part { piece, members: Some(Members::Listed(ordinals.into())), from: 0, to }
        };
        let parts = ordinals.into_iter().enumerate().map(part).collect();
        Selected::of_parts(pieces, parts)
    }

    /// All rows of some pieces.
    pub fn whole(pieces: Arc<[Piece]>) -> Selected {
        let whole = |(number, piece): (usize, &Piece)| live_part(number, piece, 0..piece.rows());
        let parts = pieces.iter().enumerate().map(whole).collect();
        Selected::of_parts(pieces, parts)
    }

    /// The number of rows.
    pub fn len(&self) -> u64 {
        self.sums.total()
    }

    /// The same rows from the files of runs that were spilled, if there are such. Of a set in one of these the rows are listed.
    pub fn where_it_lies(&self) -> Option<Selected> {
        if !self.pieces.iter().any(Piece::is_spilled) {
            return None;
        }
        let part = |part: &Part| match (self.pieces[part.piece].run(), &part.members) {
            (Some(run), Some(Members::Run(range))) if run.spilled().is_some() => {
                let (from, to) = (range.start + part.from as u32, range.start + part.to as u32);
                let members = Some(Members::Listed(run.ordinals(&(from..to)).into()));
                Part { members, from: 0, to: part.len(), ..*part }
            }
            _ => part.clone(),
        };
        let parts = self.parts.iter().map(part).collect();
        let pieces = self.pieces.iter().map(Piece::where_it_lies).collect();
        Some(Selected::of_parts(pieces, parts))
    }

    /// What lists of ordinals take in memory, that are only this selection's.
    pub fn list_bytes(&self) -> u64 {
        let bytes = |part: &Part| match &part.members {
            Some(Members::Listed(ordinals) | Members::Unindexed(UnindexedSet { ordinals, .. })) => {
                size_of_val(&**ordinals) as u64
            }
            _ => 0,
        };
        self.parts.iter().map(bytes).sum()
    }

    pub fn pieces(&self) -> &Arc<[Piece]> {
        &self.pieces
    }

    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The parts of each piece that has some, with its number, oldest first.
    pub fn by_piece(&self) -> impl Iterator<Item = (usize, &[Part])> {
        let parts_of = self.parts.chunk_by(|a, b| a.piece == b.piece);
        parts_of.map(|parts| (parts[0].piece, parts))
    }

    /// The rows with some numbers, each below `len`, in that order. What has to be read of indexes is read together.
    pub fn places(&self, numbers: &[u64], interrupt: &Interrupt) -> Result<Vec<Place>> {
        if self.parts.iter().all(|part| part.members.is_none()) {
            return self.places_in_intervals(numbers, interrupt);
        }
        let mut places = Vec::with_capacity(numbers.len());
        let locator = self.sums.locator(numbers.len());
        let parts = self.parts_for(numbers.len(), interrupt)?;
        for numbers in numbers.chunks(Interrupt::LOOKUPS) {
            interrupt.check()?;
            // Of those whose set is listed on disk the part, the position in it, and the draw.
            let mut on_disk = Vec::new();
            for &number in numbers {
                let (part_number, position) = locator.locate(number);
                let part = &parts[part_number];
                let position = part.from + position;
                let ordinal = match part.members.as_ref().and_then(Members::in_segment) {
                    Some(_) => {
                        on_disk.push((part_number, position, places.len()));
                        0
                    }
                    None => part.ordinal(&self.pieces[part.piece], position)?,
                };
                places.push(Place { piece: part.piece as u32, ordinal: ordinal as u32 });
            }
            on_disk.sort_unstable();
            let members = |&(part, position, _): &(usize, u64, usize)| {
                let members = parts[part].members.as_ref().and_then(Members::in_segment);
                (members.expect("its set is listed on disk"), position)
            };
            let wanted: Vec<(&SegmentMembers, u64)> = on_disk.iter().map(members).collect();
            let mut ordinals = Vec::with_capacity(wanted.len());
            SegmentMembers::ordinals_of(&wanted, &mut ordinals)?;
            for ((.., at), ordinal) in on_disk.into_iter().zip(ordinals) {
                places[at].ordinal = ordinal;
            }
        }
        Ok(places)
    }

    /// The parts, to find the rows of `numbers` in. For at least as many numbers as there are rows, those of bitmaps are
    /// listed: a search of a bitmap for each would cost several times as much.
    fn parts_for(&self, numbers: usize, interrupt: &Interrupt) -> Result<Cow<'_, [Part]>> {
        let is_bitmap = |part: &Part| matches!(part.members, Some(Members::Live(_)));
        if self.len() > numbers as u64 || !self.parts.iter().any(is_bitmap) {
            return Ok(Cow::Borrowed(&self.parts));
        }
        let parts = self.parts.iter().map(|part| match is_bitmap(part) {
            true => {
                interrupt.check()?;
                part.listed(&self.pieces[part.piece])
            }
            false => Ok(part.clone()),
        });
        Ok(Cow::Owned(parts.collect::<Result<_>>()?))
    }

    /// [`Selected::places`] where each part is an interval of ordinals.
    fn places_in_intervals(&self, numbers: &[u64], interrupt: &Interrupt) -> Result<Vec<Place>> {
        let mut places = Vec::with_capacity(numbers.len());
        let locator = self.sums.locator(numbers.len());
        let place = |&number: &u64| {
            let (part, position) = locator.locate(number);
            let Part { piece, from, .. } = self.parts[part];
            Place { piece: piece as u32, ordinal: (from + position) as u32 }
        };
        for numbers in numbers.chunks(NUMBERS_AT_ONCE) {
            interrupt.check()?;
            places.extend(numbers.iter().map(place));
        }
        Ok(places)
    }
}

impl Part {
    pub fn len(&self) -> u64 {
        self.to - self.from
    }

    /// The ordinal at `position`, which lies in `from..to`.
    pub fn ordinal(&self, piece: &Piece, position: u64) -> Result<u64> {
        match &self.members {
            None => Ok(position),
            Some(members) => piece.member(members, position),
        }
    }

    /// The same rows, each listed.
    fn listed(&self, piece: &Piece) -> Result<Part> {
        let mut ordinals = Vec::with_capacity(self.len() as usize);
        self.ordinals(piece, self.from..self.to, &mut ordinals)?;
        let members = Some(Members::Listed(ordinals.into()));
        Ok(Part { piece: self.piece, members, from: 0, to: self.len() })
    }

    /// Appends the ordinals at `positions`, which lie in `from..to`.
    pub fn ordinals(&self, piece: &Piece, positions: Range<u64>, out: &mut Vec<u32>) -> Result<()> {
        match &self.members {
            None => out.extend(positions.map(|position| position as u32)),
            Some(members) => piece.ordinals(members, positions, out)?,
        }
        Ok(())
    }
}

/// The rows of an interval that were not erased, in the piece with some number.
fn live_part(number: usize, piece: &Piece, ordinals: Range<u64>) -> Part {
    let Range { start: from, end: to } = ordinals;
    match piece.unerased().filter(|live| !live.are_all(&(from..to))) {
        Some(live) => {
            let (from, to) = (live.rank(from), live.rank(to));
            Part { piece: number, members: Some(Members::Live(live)), from, to }
        }
        None => Part { piece: number, members: None, from, to },
    }
}

/// A part of a set without the rows that were erased. Where there are such rows in the piece, all of the part are looked up.
fn without_erased(piece: &Piece, part: Part) -> Result<Part> {
    let Some(erased) = piece.erased.as_ref().filter(|_| part.from < part.to) else {
        return Ok(part);
    };
    let mut ordinals = Vec::with_capacity(part.len() as usize);
    part.ordinals(piece, part.from..part.to, &mut ordinals)?;
    let found = ordinals.len();
    ordinals.retain(|&ordinal| !erased.contains(ordinal));
    if ordinals.len() == found {
        return Ok(part);
    }
    let to = ordinals.len() as u64;
    Ok(Part { members: Some(Members::Listed(ordinals.into())), from: 0, to, ..part })
}

/// What is known of the rows of some sets in a piece before any are looked for.
struct OfPiece<'p> {
    number: usize,
    piece: &'p Piece,
    /// The members of each set that is indexed.
    indexed: Vec<Option<Members>>,
    /// Where others are looked for.
    range: Range<u64>,
}

impl OfPiece<'_> {
    fn takes_a_pass(&self) -> bool {
        !self.range.is_empty() && self.indexed.iter().any(Option::is_none)
    }

    /// The members of each set: all of those that are indexed, or else those of the range from a pass over the set column, which is
    /// given where there are some.
    fn members(
        self,
        sets: &[Vec<u8>],
        column: Option<SetColumn<'_>>,
        interrupt: &Interrupt,
    ) -> Result<Vec<Members>> {
        let OfPiece { piece, indexed, range, .. } = self;
        let unlisted = sets.iter().zip(&indexed).filter(|(_, members)| members.is_none());
        let unlisted: Vec<&[u8]> = unlisted.map(|(set, _)| set.as_slice()).collect();
        let listed = match column {
            None => vec![Arc::from([]); unlisted.len()],
            Some(column) => list_members(&column, &unlisted, range.clone(), interrupt)?,
        };
        let mut listed = unlisted.into_iter().zip(listed);
        let mut next = || {
            let (value, ordinals) = listed.next().expect("one was listed for each");
            match piece.is_of_run() {
                true => Members::Listed(ordinals),
                false => {
                    let (value, range) = (value.into(), range.clone());
                    Members::Unindexed(UnindexedSet { value, range, ordinals })
                }
            }
        };
        Ok(indexed.into_iter().map(|members| members.unwrap_or_else(&mut next)).collect())
    }
}

/// The encoded values of some sets of a table, each once, in order.
pub fn encode_sets(schema: &TableSchema, values: &ArrayRef) -> Result<Vec<Vec<u8>>> {
    let column = schema.set_column().ok_or_else(Error::no_set_column)?;
    let field = schema.columns.field(column);
    let values = cast(values, field.data_type(), field.name())?;
    let mut sets: Vec<Vec<u8>> = (0..values.len())
        .map(|row| {
            let mut bytes = Vec::new();
            key::encode_value(&values, row, &mut bytes);
            bytes
        })
        .collect();
    sets.sort_unstable();
    sets.dedup();
    Ok(sets)
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int64Array, RecordBatch};
    use arrow_schema::{DataType, Field, Schema};

    use super::*;
    use crate::{Closed, Database, Merge, OnError, Options, TableSpec};

    #[test]
    fn a_number_has_the_same_place_however_many_are_asked_for() {
        let db = Database::in_memory(Options::default()).unwrap();
        let columns = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
        let spec = TableSpec::new(columns.clone(), ["id"]).merge(Merge::Upsert);
        let table = db.create_table("newest", spec).unwrap();
        let ids = |ids: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(ids)) };
        for from in [0, 3_000] {
            let rows = vec![ids((from..from + 3_000).collect())];
            table
                .append(&RecordBatch::try_new(columns.clone(), rows).unwrap(), OnError::Raise)
                .unwrap();
        }
        table.delete(&[ids((0..6_000).step_by(7).collect())]).unwrap();
        let snapshot = table.snapshot().unwrap();
        let [low, high] = [500, 5_500].map(|id| Some(vec![ids(vec![id])]));
        let between = Between { low, high, closed: Closed::Both };
        let selection = Selection { between: Some(between), ..Selection::default() };
        let question = selection.check(snapshot.table().layout.schema()).unwrap();
        let interrupt = Interrupt::default();
        let selected = snapshot.resolved(question, &interrupt).unwrap();
        let is_bitmap = |part: &Part| matches!(part.members, Some(Members::Live(_)));
        assert!(selected.parts().iter().any(is_bitmap), "rows are searched for in bitmaps");

        let numbers: Vec<u64> = (0..selected.len()).rev().collect();
        let by_itself = |&number: &u64| selected.places(&[number], &interrupt).unwrap()[0];
        let one_by_one: Vec<Place> = numbers.iter().map(by_itself).collect();
        assert_eq!(selected.places(&numbers, &interrupt).unwrap(), one_by_one);
        assert!(!selected.parts_for(numbers.len(), &interrupt).unwrap().iter().any(is_bitmap));
    }
}

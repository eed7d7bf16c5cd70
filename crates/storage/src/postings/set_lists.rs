//! Collecting the rows of each set while a segment's rows go by, and writing them as postings.
//!
//! Lists have a bound in memory. Where they outgrow it, sets are left out, the last ones by value: the rows then go by once more for
//! these.

use std::hash::BuildHasher;

use drillcore_format::byte_bounds;
use drillcore_format::error::FormatError;
use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::page::PageKind;
use drillcore_format::postings::{GroupWeight, PostingsWriter, WEIGHT_GROUP};
use drillcore_format::rows::{Layout, Rows};
use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::error::Result;
use crate::pages::page_writer::PageWriter;
use crate::postings::ordinal_list::{OrdinalArena, OrdinalList};

/// Bytes of a set beside its value, its ordinals and its weights: its list, where its value ends, and its number among others.
const SET_BYTES: usize = size_of::<OrdinalList>() + size_of::<u64>() + 2 * size_of::<u32>();
/// Vectors grow by this part of their length: twice that would be a lot to reserve.
const GROWTH_PART: usize = 8;

/// The ordinals of indexed sets: a byte or two a row, and some 100 bytes and its value per set. Of each weight column what the
/// members weigh: a quarter of a byte per row, and at least 56 bytes per set.
///
/// What is reserved for them is about [`byte_bounds::lists`], or a [limit](SetLists::limit), and as much again as their largest part while
/// it grows. A single set takes what it needs.
pub struct SetLists {
    indexed: IndexedSets,
    weight_columns: usize,
    /// Lists of the sets before this value were made in earlier passes, ...
    from: Vec<u8>,
    /// ... and those from this one on are left out.
    until: Option<Vec<u8>>,
    /// What all lists may take, unless there is only one.
    bytes_max: usize,
    /// How many rows went by whose sets are neither.
    rows: u64,
    /// The numbers of sets, to be found by their values.
    numbers: HashTable<u32>,
    hasher: RandomState,
    /// All values, one after the other, ...
    values: Vec<u8>,
    /// ... and where that of each set ends.
    ends: Vec<u64>,
    /// By the set's number.
    ordinals: Vec<OrdinalList>,
    arena: OrdinalArena,
    /// By the set's number, of each group of members one for each weight column. Empty, if there is none.
    groups: Vec<Vec<GroupWeight>>,
    /// What the groups take.
    group_bytes: usize,
}

/// Why rows of a set are listed, or not.
#[derive(Clone, Copy)]
enum Listing {
    /// In the list with this number.
    In(usize),
    NotIndexed,
    InAnotherPass,
}

/// The members of a set.
pub struct SetList<'a> {
    lists: &'a SetLists,
    number: usize,
}

impl<'a> SetList<'a> {
    pub fn len(&self) -> u64 {
        self.lists.ordinals[self.number].len()
    }

    pub fn ordinals(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.lists.ordinals[self.number].iter(&self.lists.arena)
    }

    /// What each group weighs by one weight column.
    pub fn groups(&self, weight: usize) -> impl Iterator<Item = GroupWeight> + use<'a> {
        let of_set = self.lists.groups.get(self.number).map_or(&[][..], Vec::as_slice);
        of_set.iter().copied().skip(weight).step_by(self.lists.weight_columns.max(1))
    }
}

impl SetLists {
    /// Lists of all sets that are indexed, of which some may be [left out](SetLists::of_those_left_out).
    pub fn new(indexed: IndexedSets, layout: &Layout) -> SetLists {
        SetLists::within(byte_bounds::lists(), indexed, layout.weight_count())
    }

    /// Has them take no more than this from now on. [`byte_bounds::lists`] holds in any case.
    pub fn limit(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max.min(byte_bounds::lists());
    }

    /// Lists of those that had no room in these, for which all rows of the segment have to be noted again. `None` if there are none.
    pub fn of_those_left_out(&self) -> Option<SetLists> {
        Some(self.empty(self.until.clone()?, None))
    }

    /// Whether lists may go on to grow. That of a single set always may.
    pub fn have_room(&self) -> bool {
        self.len() <= 1 || self.bytes() <= self.bytes_max
    }

    /// Leaves out as many sets as it takes until the others have room.
    pub fn make_room(&mut self) {
        while !self.have_room() {
            self.leave_half_out();
        }
    }

    /// How many of the rows that were noted are done with, now that these lists are made: of sets that are not left out, and were not
    /// listed before.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Such lists of other sets, so far without rows.
    fn empty(&self, from: Vec<u8>, until: Option<Vec<u8>>) -> SetLists {
        let all = SetLists::within(self.bytes_max, self.indexed.clone(), self.weight_columns);
        SetLists { from, until, ..all }
    }

    fn within(bytes_max: usize, indexed: IndexedSets, weight_columns: usize) -> SetLists {
        SetLists {
            indexed,
            weight_columns,
            from: Vec::new(),
            until: None,
            bytes_max,
            rows: 0,
            numbers: HashTable::new(),
            hasher: RandomState::default(),
            values: Vec::new(),
            ends: Vec::new(),
            ordinals: Vec::new(),
            arena: OrdinalArena::default(),
            groups: Vec::new(),
            group_bytes: 0,
        }
    }

    pub fn indexed(&self) -> &IndexedSets {
        &self.indexed
    }

    /// Adds rows that follow those before. The first has the ordinal `first`; `weights` has for each weight column the units
    /// of each row.
    pub fn note(
        &mut self,
        layout: &Layout,
        rows: &Rows,
        weights: &[Vec<u64>],
        first: u64,
    ) -> std::result::Result<(), FormatError> {
        if self.indexed.is_none() {
            return Ok(());
        }
        let Some(codes) = layout.set_codes(rows)? else { return Ok(()) };
        let first = u32::try_from(first + rows.len() as u64)
            .expect("a segment has fewer than 2^32 rows")
            - rows.len() as u32;
        let listings: Vec<Listing> = codes.values.iter().map(|value| self.listing(value)).collect();
        for (row, &code) in codes.codes.iter().enumerate() {
            match listings[code as usize] {
                Listing::In(number) => {
                    let units = weights.iter().map(|units| units[row]);
                    self.push(number, first + row as u32, units);
                }
                Listing::NotIndexed => {}
                Listing::InAnotherPass => continue,
            }
            self.rows += 1;
        }
        Ok(())
    }

    /// What is reserved for the lists, about. Postings of them take no more.
    pub fn bytes(&self) -> usize {
        self.values.capacity()
            + self.ends.capacity() * size_of::<u64>()
            + self.ordinals.capacity() * size_of::<OrdinalList>()
            + self.groups.capacity() * size_of::<Vec<GroupWeight>>()
            + self.numbers.allocation_size()
            + self.arena.bytes_taken()
            + self.group_bytes
    }

    /// Leaves the sets out that are last by value and have about half of the bytes; at least one, and not all.
    fn leave_half_out(&mut self) {
        let value = |number: u32| value_at(&self.values, &self.ends, number as usize);
        let bytes_of = |number: u32| {
            let groups =
                self.groups.get(number as usize).map_or(0, |of| size_of_val(of.as_slice()));
            let rows = self.ordinals[number as usize].len();
            (SET_BYTES + value(number).len() + groups) as u64 + 2 * rows
        };
        let numbers = self.in_order();
        let half = numbers.iter().map(|&number| bytes_of(number)).sum::<u64>() / 2;
        let mut bytes = 0;
        let is_kept = |number: &&u32| {
            bytes += bytes_of(**number);
            bytes <= half
        };
        let count = numbers.iter().take_while(is_kept).count().min(numbers.len() - 1);
        let (kept, left_out) = numbers.split_at(count.max(1));
        let until = match count {
            // The first has more than half. None behind it comes in: else it would be copied for each few that do.
            0 => [value(kept[0]), &[0]].concat(),
            _ => value(left_out[0]).to_vec(),
        };
        let rows_out = |number: &u32| self.ordinals[*number as usize].len();
        let rows = self.rows - left_out.iter().map(rows_out).sum::<u64>();
        let mut fewer = self.empty(self.from.clone(), Some(until));
        fewer.reserve(kept.len(), kept.iter().map(|&number| value(number).len()).sum());
        for &number in kept {
            let number = number as usize;
            let to = fewer.number(value_at(&self.values, &self.ends, number));
            for ordinal in self.ordinals[number].iter(&self.arena) {
                fewer.ordinals[to].push(&mut fewer.arena, ordinal);
            }
            if let Some(groups) = self.groups.get_mut(number) {
                fewer.group_bytes += size_of_val(groups.as_slice());
                fewer.groups[to] = std::mem::take(groups);
            }
        }
        fewer.rows = rows;
        *self = fewer;
    }

    /// Adds a member to a set's list, with what it weighs by each weight column.
    fn push(&mut self, number: usize, ordinal: u32, units: impl Iterator<Item = u64>) {
        if self.weight_columns > 0 {
            self.weigh(number, units);
        }
        self.ordinals[number].push(&mut self.arena, ordinal);
    }

    /// Adds what a member of a set weighs, before it is listed.
    fn weigh(&mut self, number: usize, units: impl Iterator<Item = u64>) {
        let groups = &mut self.groups[number];
        if self.ordinals[number].len().is_multiple_of(WEIGHT_GROUP) {
            // Most sets of a table with many have one group.
            grow(groups, self.weight_columns);
            groups.resize(groups.len() + self.weight_columns, GroupWeight::default());
            self.group_bytes += self.weight_columns * size_of::<GroupWeight>();
        }
        let last = groups.len() - self.weight_columns;
        groups[last..].iter_mut().zip(units).for_each(|(group, units)| group.add(units));
    }

    fn listing(&mut self, value: &[u8]) -> Listing {
        let is_left_out = self.until.as_ref().is_some_and(|until| value >= until.as_slice());
        if is_left_out || value < self.from.as_slice() {
            Listing::InAnotherPass
        } else if self.indexed.contains(value) {
            Listing::In(self.number(value))
        } else {
            Listing::NotIndexed
        }
    }

    /// The number of a set, a new one if need be.
    fn number(&mut self, value: &[u8]) -> usize {
        let SetLists { numbers, hasher, values, ends, .. } = self;
        let hash = hasher.hash_one(value);
        let is_it = |number: &u32| value_at(values, ends, *number as usize) == value;
        if let Some(&number) = numbers.find(hash, is_it) {
            return number as usize;
        }
        let number = ends.len();
        grow(values, value.len());
        values.extend_from_slice(value);
        grow(ends, 1);
        ends.push(values.len() as u64);
        let hash_of = |number: &u32| hasher.hash_one(value_at(values, ends, *number as usize));
        numbers.insert_unique(hash, number as u32, hash_of);
        grow(&mut self.ordinals, 1);
        self.ordinals.push(OrdinalList::default());
        if self.weight_columns > 0 {
            grow(&mut self.groups, 1);
            self.groups.push(Vec::new());
        }
        number
    }

    /// Makes room for some sets, and no more, whose values have some bytes.
    fn reserve(&mut self, sets: usize, value_bytes: usize) {
        self.values.reserve_exact(value_bytes);
        self.ends.reserve_exact(sets);
        self.ordinals.reserve_exact(sets);
        if self.weight_columns > 0 {
            self.groups.reserve_exact(sets);
        }
    }

    /// The number of sets with rows.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Each set with its members, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], SetList<'_>)> {
        let value = |number| value_at(&self.values, &self.ends, number);
        (0..self.len()).map(move |number| (value(number), SetList { lists: self, number }))
    }

    /// The numbers of all sets, in the order of their values.
    fn in_order(&self) -> Vec<u32> {
        let value = |number: u32| value_at(&self.values, &self.ends, number as usize);
        let mut numbers: Vec<u32> = (0..self.len() as u32).collect();
        numbers.sort_unstable_by_key(|&number| value(number));
        numbers
    }

    /// Writes postings of the sets that are not left out, of a segment of `rows` rows. `postings` has those of the sets before.
    pub fn write(
        &self,
        rows: u64,
        postings: &mut PostingsWriter,
        file: &mut PageWriter,
    ) -> Result<()> {
        for number in self.in_order() {
            let value = value_at(&self.values, &self.ends, number as usize);
            let list = SetList { lists: self, number: number as usize };
            let weights: Vec<Vec<GroupWeight>> =
                (0..self.weight_columns).map(|weight| list.groups(weight).collect()).collect();
            let (len, all) = (list.len(), list.len() == rows);
            postings.push(value, list.ordinals(), len, all, &weights, file.pending());
            file.write_portion()?;
        }
        Ok(())
    }

    /// Writes postings, directory and its summary, whose place is returned. The segment has `rows` rows, and no set is left out.
    pub fn write_all(&self, rows: u64, file: &mut PageWriter) -> Result<(u64, u32)> {
        assert!(self.until.is_none(), "sets are left out");
        let mut postings = PostingsWriter::new(file.id(), file.position(), self.weight_columns);
        self.write(rows, &mut postings, file)?;
        Ok(put_directory(postings, file))
    }
}

/// Writes what is left of postings, their directory and its summary, whose place is returned.
pub fn put_directory(postings: PostingsWriter, file: &mut PageWriter) -> (u64, u32) {
    let directory = postings.finish(file.pending());
    let mut payload = Vec::new();
    directory.encode(&mut payload);
    file.put_page(PageKind::SetSummary, &payload, false)
}

/// Makes room for `more`, and for some others.
fn grow<T>(vector: &mut Vec<T>, more: usize) {
    if vector.capacity() - vector.len() < more {
        vector.reserve_exact(more.max(vector.len() / GROWTH_PART));
    }
}

/// The value of a set, of all that lie one after the other.
fn value_at<'a>(values: &'a [u8], ends: &[u64], number: usize) -> &'a [u8] {
    let begin = number.checked_sub(1).map_or(0, |before| ends[before]);
    &values[begin as usize..ends[number] as usize]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use arrow_schema::{DataType, Field, Schema};
    use drillcore_format::file_tail::FileKind;
    use drillcore_format::ids::SegmentId;
    use drillcore_format::key::encode_value;
    use drillcore_format::schema::{SetColumn, TableSchema};

    use super::*;
    use crate::files::directory::Directory;
    use crate::files::memory_directory::MemoryDirectory;

    const ROWS: i64 = 6_000;

    /// Rows of sets of which one has half of all, some have hundreds, and most have one.
    fn rows() -> (Layout, Rows) {
        let fields =
            [("id", DataType::Int64), ("team", DataType::Utf8), ("weight", DataType::Int64)];
        let fields: Vec<Field> =
            fields.into_iter().map(|(name, of)| Field::new(name, of, name == "team")).collect();
        let columns = Arc::new(Schema::new(fields));
        let mut schema = TableSchema::new(columns.clone(), vec![0]);
        schema.set = Some(SetColumn { column: 1, indexed: IndexedSets::all() });
        schema.weights = vec![2];
        let team = |id: i64| match id % 6 {
            0..3 => Some("m".to_string()),
            3 => None,
            4 => Some(format!("k{}", id % 7)),
            _ => Some(format!("{:04}", id * 7 % 9_973)),
        };
        let arrays: [ArrayRef; 3] = [
            Arc::new(Int64Array::from_iter_values(0..ROWS)),
            Arc::new((0..ROWS).map(team).collect::<StringArray>()),
            Arc::new(Int64Array::from_iter_values((0..ROWS).map(|id| id % 50))),
        ];
        let layout = Layout::new(&schema);
        let rows = layout.encode(&RecordBatch::try_new(columns, arrays.to_vec()).unwrap());
        (layout, rows)
    }

    /// The file of postings made by lists that take `bytes_max` at most, and the number of passes.
    fn written(bytes_max: usize, indexed: &IndexedSets) -> (Vec<u8>, usize) {
        let (layout, rows) = rows();
        let directory = Arc::new(MemoryDirectory::new());
        let mut file =
            PageWriter::create(directory.clone(), FileKind::Postings, SegmentId(3)).unwrap();
        let name = file.name().to_string();
        let mut postings = PostingsWriter::new(file.id(), file.position(), layout.weight_count());
        let mut next = Some(SetLists::within(bytes_max, indexed.clone(), layout.weight_count()));
        let (mut passes, mut done) = (0, 0);
        while let Some(mut lists) = next {
            for from in (0..rows.len()).step_by(500) {
                let some = rows.slice(from, 500);
                let weights = (from..from + 500).map(|id| id as u64 % 50).collect();
                lists.note(&layout, &some, &[weights], from as u64).unwrap();
                lists.make_room();
                assert!(lists.len() == 1 || lists.bytes() <= bytes_max);
            }
            lists.write(ROWS as u64, &mut postings, &mut file).unwrap();
            passes += 1;
            done += lists.rows();
            next = lists.of_those_left_out();
        }
        if indexed.is_all() {
            assert_eq!(done, ROWS as u64);
        }
        let place = put_directory(postings, &mut file);
        file.finish(format!("{place:?}").as_bytes()).unwrap();
        let file = directory.open(&name).unwrap();
        let mut bytes = vec![0; file.byte_len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        (bytes, passes)
    }

    #[test]
    fn postings_are_the_same_in_however_many_passes_they_are_made() {
        let mut excepted = Vec::new();
        encode_value(&(Arc::new(StringArray::from(vec!["k3"])) as ArrayRef), 0, &mut excepted);
        let some = IndexedSets::all().without([excepted]);
        for indexed in [IndexedSets::all(), some] {
            let (whole, passes) = written(usize::MAX, &indexed);
            assert_eq!(passes, 1);
            let mut most = 0;
            for bytes_max in [100_000, 30_000, 8_000, 1_000, 0] {
                let (file, passes) = written(bytes_max, &indexed);
                assert!(file == whole, "{passes} passes");
                most = most.max(passes);
            }
            // With no room at all a pass lists one set.
            assert!(most > 1_000, "{most} passes");
        }
    }

    #[test]
    fn a_first_set_of_half_the_room_or_more_is_listed_alone() {
        let (layout, rows) = rows();
        // More of them than of all others together, and before these by value: rows without a team.
        let of_none: Vec<u32> = (3..rows.len() as u32).step_by(6).collect();
        let of_others: Vec<u32> = (5..rows.len() as u32).step_by(6).rev().collect();
        let mut lists = SetLists::within(4_000, IndexedSets::all(), layout.weight_count());
        let mut from = 0;
        let mut note = |lists: &mut SetLists, of: &[u32]| {
            let some = rows.take(of);
            lists.note(&layout, &some, &[vec![1; of.len()]], from).unwrap();
            lists.make_room();
            from += of.len() as u64;
        };
        (0..5).for_each(|_| note(&mut lists, &of_none));
        let mut ends = 0;
        for of_some in of_others.chunks(10) {
            let before = lists.until.clone();
            note(&mut lists, of_some);
            ends += usize::from(lists.until != before);
        }
        assert_eq!((lists.len(), lists.rows(), ends), (1, 5 * of_none.len() as u64, 1));
    }
}

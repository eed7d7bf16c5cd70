//! What the members of a set weigh, by groups of [`WEIGHT_GROUP`].
//!
//! A set of one group has that in its directory entry. For other sets, a *weight table* has the running sum and the largest
//! weight of each of up to [`TABLE_GROUPS`] groups in a row. The set's directory entry has the running sums of the tables. So the group that holds a unit of weight, or a member, is found with
//! one table; and a member is drawn from it in proportion to its weight by drawing any of the group and accepting it with its
//! weight over the largest. Drawn in `docs/format.md`, section "Weights of sets".

use crate::cursor::{Cursor, put_u16, put_u32, put_varint, put_varint_u128};
use crate::error::{FormatError, Result};
use crate::postings::item_place::{ItemPlace, item_at, page_number, place_of};

/// The members of a group; only the last group of a list may have fewer.
pub const WEIGHT_GROUP: u64 = 128;

/// The groups of a weight table; only the last table of a list may have fewer.
pub(super) const TABLE_GROUPS: u64 = 128;

/// The members whose groups one weight table lists.
pub(super) const WEIGHT_TABLE_MEMBERS: u64 = WEIGHT_GROUP * TABLE_GROUPS;

/// The bytes of an entry of a set's directory entry: running sum and place of a weight table.
const ENTRY_BYTES: usize = 22;

const TABLE: &str = "weight table";

/// What the members of a group weigh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupWeight {
    /// Of all of them.
    pub sum: u128,
    /// Of the heaviest.
    pub max: u64,
}

/// A group of members, by weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WeightGroup {
    /// The position of the group among those of the set.
    pub number: u64,
    /// What the members of all groups before it weigh.
    pub before: u128,
    /// What the members of the group itself weigh.
    pub weight: GroupWeight,
}

impl GroupWeight {
    /// Adds a member.
    pub fn add(&mut self, units: u64) {
        self.sum += u128::from(units);
        self.max = self.max.max(units);
    }

    /// Whether some member of `count` at most weighs the most, and all together at most that each.
    fn is_possible(self, count: u64) -> bool {
        let max = u128::from(self.max);
        max <= self.sum && self.sum <= max * u128::from(count)
    }
}

/// What the members of a set weigh by one weight column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetWeights {
    /// All are one group.
    Group(GroupWeight),
    /// Groups are listed in tables.
    Tables(WeightTables),
}

impl SetWeights {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            SetWeights::Group(weight) => {
                put_varint_u128(out, weight.sum);
                put_varint(out, weight.max);
            }
            SetWeights::Tables(tables) => out.extend_from_slice(tables.entries()),
        }
    }

    /// Reads the weights of a set of `count` members. Fails where running sums fall, or a sum does not go with the largest.
    pub(super) fn decode(count: u64, cursor: &mut Cursor<'_>) -> Result<SetWeights> {
        if count > WEIGHT_GROUP {
            return Ok(SetWeights::Tables(WeightTables::decode(count, cursor)?));
        }
        let weight = GroupWeight { sum: cursor.varint_u128()?, max: cursor.varint()? };
        match weight.is_possible(count) {
            true => Ok(SetWeights::Group(weight)),
            false => Err(cursor.error(format!("{count} members weigh {weight:?}"))),
        }
    }

    /// What all members weigh.
    pub fn total(&self) -> u128 {
        match self {
            SetWeights::Group(weight) => weight.sum,
            SetWeights::Tables(tables) => tables.total(),
        }
    }
}

/// Where the weight tables of a set lie, and what each sums up to, of one weight column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightTables {
    entries: Box<[u8]>,
}

impl WeightTables {
    /// Running sums and places.
    pub(super) fn of(tables: &[(u128, ItemPlace)]) -> WeightTables {
        let mut entries = Vec::with_capacity(tables.len() * ENTRY_BYTES);
        for &(end, place) in tables {
            entries.extend_from_slice(&end.to_le_bytes());
            put_u32(&mut entries, page_number(place));
            put_u16(&mut entries, place.position);
        }
        WeightTables { entries: entries.into() }
    }

    /// Reads the tables of a set of `count` members. Fails where running sums fall.
    pub(super) fn decode(count: u64, cursor: &mut Cursor<'_>) -> Result<WeightTables> {
        let tables = count.div_ceil(WEIGHT_TABLE_MEMBERS) as usize;
        let entries = cursor.take(tables.saturating_mul(ENTRY_BYTES))?.into();
        let tables = WeightTables { entries };
        match (1..tables.len()).find(|&table| tables.end(table - 1) > tables.end(table)) {
            None => Ok(tables),
            Some(table) => Err(cursor.error(format!("weights fall at table {table}"))),
        }
    }

    pub(super) fn entries(&self) -> &[u8] {
        &self.entries
    }

    fn len(&self) -> usize {
        self.entries.len() / ENTRY_BYTES
    }

    fn total(&self) -> u128 {
        self.end(self.len() - 1)
    }

    /// What the members of the tables up to and with one weigh.
    fn end(&self, table: usize) -> u128 {
        let at = table * ENTRY_BYTES;
        u128::from_le_bytes(self.entries[at..at + 16].try_into().expect("16 bytes were sliced"))
    }

    fn before(&self, table: usize) -> u128 {
        table.checked_sub(1).map_or(0, |previous| self.end(previous))
    }

    /// The table with the group of a number.
    pub fn table_of_group(&self, group: u64) -> usize {
        (group / TABLE_GROUPS) as usize
    }

    /// The table with a unit, which lies below the total.
    pub fn table_of_unit(&self, unit: u128) -> usize {
        let (mut low, mut high) = (0, self.len() - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.end(middle) <= unit {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Where a weight table lies. O(1). Panics if the set has no table of that number.
    pub fn place(&self, table: usize) -> ItemPlace {
        let at = table * ENTRY_BYTES + 16;
        let page = u32::from_le_bytes(self.entries[at..at + 4].try_into().expect("four bytes"));
        place_of(page, u16::from_le_bytes([self.entries[at + 4], self.entries[at + 5]]))
    }

    /// The group with a unit, which a table has, in the payload of the table's page.
    pub fn group_of_unit(&self, table: usize, payload: &[u8], unit: u128) -> Result<WeightGroup> {
        let (groups, before) = (self.table(table, payload)?, self.before(table));
        let mut group = 0;
        while group + 1 < groups.len() && before + groups.end(group) <= unit {
            group += 1;
        }
        Ok(self.group(table, &groups, group))
    }

    /// The group of a number, which a table has, in the payload of the table's page.
    pub fn group_of_number(
        &self,
        table: usize,
        payload: &[u8],
        number: u64,
    ) -> Result<WeightGroup> {
        let groups = self.table(table, payload)?;
        let group = (number % TABLE_GROUPS) as usize;
        if group >= groups.len() {
            return Err(FormatError::malformed(
                TABLE,
                format!("group {group} of {}", groups.len()),
            ));
        }
        Ok(self.group(table, &groups, group))
    }

    fn table<'a>(&self, table: usize, payload: &'a [u8]) -> Result<WeightTable<'a>> {
        let groups = WeightTable::parse(payload, self.place(table).position)?;
        let (found, expected) =
            (groups.end(groups.len() - 1), self.end(table) - self.before(table));
        match found == expected {
            true => Ok(groups),
            false => {
                let detail = format!("its groups sum up to {found}, not {expected}");
                Err(FormatError::malformed(TABLE, detail))
            }
        }
    }

    fn group(&self, table: usize, groups: &WeightTable<'_>, group: usize) -> WeightGroup {
        let before = group.checked_sub(1).map_or(0, |previous| groups.end(previous));
        WeightGroup {
            number: table as u64 * TABLE_GROUPS + group as u64,
            before: self.before(table) + before,
            weight: GroupWeight { sum: groups.end(group) - before, max: groups.max(group) },
        }
    }
}

/// A weight table inside a postings page's payload: of each group the running sum and the largest weight.
struct WeightTable<'a> {
    width: usize,
    groups: &'a [u8],
}

impl<'a> WeightTable<'a> {
    /// The table at `position` of a postings page's payload. O(groups): running sums must not fall, nor a largest weight lie
    /// above the sum.
    fn parse(payload: &'a [u8], position: u16) -> Result<WeightTable<'a>> {
        let mut cursor = Cursor::new(item_at(payload, position)?, TABLE);
        let (groups, width) = (cursor.u8()?, usize::from(cursor.u8()?));
        if !(1..=TABLE_GROUPS).contains(&u64::from(groups)) || ![8, 16].contains(&width) {
            return Err(cursor.error(format!("{groups} groups of {width} bytes")));
        }
        let groups = cursor.take(usize::from(groups) * (width + 8))?;
        let table = WeightTable { width, groups };
        let mut before = 0;
        for group in 0..table.len() {
            let (end, max) = (table.end(group), table.max(group));
            let is_possible = end
                .checked_sub(before)
                .is_some_and(|sum| GroupWeight { sum, max }.is_possible(WEIGHT_GROUP));
            if !is_possible {
                return Err(cursor
                    .error(format!("group {group} weighs {before}..{end}, its heaviest {max}")));
            }
            before = end;
        }
        Ok(table)
    }

    fn len(&self) -> usize {
        self.groups.len() / (self.width + 8)
    }

    fn end(&self, group: usize) -> u128 {
        let at = group * (self.width + 8);
        let mut bytes = [0; 16];
        bytes[..self.width].copy_from_slice(&self.groups[at..at + self.width]);
        u128::from_le_bytes(bytes)
    }

    fn max(&self, group: usize) -> u64 {
        let at = group * (self.width + 8) + self.width;
        u64::from_le_bytes(self.groups[at..at + 8].try_into().expect("eight bytes were sliced"))
    }
}

/// Bytes of a weight table.
pub(super) fn table_len(groups: &[GroupWeight]) -> usize {
    2 + groups.len() * (sum_width(groups) + 8)
}

/// Appends a table of groups, 1 to [`TABLE_GROUPS`] of them.
pub(super) fn put_table(groups: &[GroupWeight], out: &mut Vec<u8>) {
    let width = sum_width(groups);
    out.extend_from_slice(&[groups.len() as u8, width as u8]);
    let mut end = 0u128;
    for group in groups {
        end += group.sum;
        out.extend_from_slice(&end.to_le_bytes()[..width]);
        out.extend_from_slice(&group.max.to_le_bytes());
    }
}

/// Bytes of a running sum.
fn sum_width(groups: &[GroupWeight]) -> usize {
    let sum: u128 = groups.iter().map(|group| group.sum).sum();
    if sum <= u128::from(u64::MAX) { 8 } else { 16 }
}

//! When the rows of one piece expire.

use std::sync::Arc;

use drillcore_format::ordinal_intervals::OrdinalIntervals;
use drillcore_format::rows::Layout;
use drillcore_format::schema::ExpiryLimit;
use drillcore_format::statistics_page::Zones;

use crate::calls::interrupt::Interrupt;
use crate::error::Result;
use crate::merge::merger::Direction;
use crate::merge::piece_source::PieceSource;
use crate::pieces::memory_meter::{Charge, MemoryMeter};
use crate::pieces::piece::Piece;
use crate::pieces::times::{first_time, times};
use crate::select::expiry::expired;
use crate::select::selection::Selected;
use crate::state::erasing::erased_by;

/// Rows of a piece that are remembered with their times, so that it is not read anew each second: 16 bytes each.
const UPCOMING_MAX: usize = 1 << 16;
/// Rows read at once.
const CHUNK_ROWS: u64 = 8192;

/// The rows of a piece that expire next. O(1) a row, and a pass over the column for every [`UPCOMING_MAX`] rows; where the
/// time comes first in the key, a search for those that expire at once.
#[derive(Debug, Clone)]
pub struct Expiring {
    /// Times and ordinals, the latest first.
    upcoming: Vec<(i64, u32)>,
    /// For the memory that these take, also once some were taken.
    charge: Option<Arc<Charge>>,
    /// No other row has a time below this one.
    known_to: i64,
}

impl Expiring {
    /// What a look at the piece itself says, without reading: that nothing has expired. `None` if something may have.
    pub fn known(piece: &Piece, layout: &Layout, limit: ExpiryLimit) -> Option<Expiring> {
        let schema = layout.schema();
        let earliest = match piece.run() {
            Some(run) => {
                let earliest = run.earliest()?;
                let is_of_column = earliest.stored == schema.stored.number(limit.column);
                is_of_column.then_some(earliest.time)?
            }
            None if schema.key[0] == limit.column => {
                first_time(layout, piece.key_ends().0).ok().flatten()?
            }
            None => return None,
        };
        (earliest >= limit.before).then(|| Expiring::known_up_to(earliest))
    }

    fn known_up_to(known_to: i64) -> Expiring {
        Expiring { upcoming: Vec::new(), charge: None, known_to }
    }

    /// What of a piece has expired, and what expires next. Reads the column, unless the key or zones say enough.
    pub fn find(
        piece: &Piece,
        layout: &Layout,
        limit: ExpiryLimit,
        meter: &MemoryMeter,
        interrupt: &Interrupt,
    ) -> Result<(OrdinalIntervals, Expiring)> {
        let ExpiryLimit { column, before } = limit;
        if let Some(known) = Expiring::known(piece, layout, limit) {
            return Ok((OrdinalIntervals::default(), known));
        }
        let question = expired(layout.schema(), limit)?;
        if question.key_range().is_some() {
            let gone = erased_by(&question, layout, piece, interrupt)?;
            let next = match u64::from(gone.end()) {
                past if past < piece.rows() && !gone.is_empty() => {
                    let keys = layout.stored(true, Vec::new());
                    let first = piece.fetch(&[past as u32], &keys, interrupt)?;
                    first_time(layout, first.key(0))?
                }
                past if past == piece.rows() => Some(i64::MAX),
                _ => None,
            };
            let known_to = next.unwrap_or(before);
            return Ok((gone, Expiring::known_up_to(known_to)));
        }
        let zones = piece.zones(layout, 0..piece.rows(), &[column])?;
        if let Some(known_to) = zones.and_then(|zones| earliest(&zones)).filter(|at| *at >= before)
        {
            let nothing = OrdinalIntervals::default();
            return Ok((nothing, Expiring::known_up_to(known_to)));
        }
        let mut gone: Vec<u32> = Vec::new();
        let mut expiring = Expiring::known_up_to(i64::MAX);
        let selected = Selected::whole([piece.clone()].into());
        let projection = layout.projection(&[column]);
        for (_, source) in
            PieceSource::of(&selected, &projection, Direction::Forward, None, interrupt)
        {
            let mut source = source.by_columns(layout, &[column], CHUNK_ROWS)?;
            while let Some((rows, ordinals)) = source.next_placed()? {
                interrupt.check()?;
                let rows = layout.decode(&rows, &[column])?;
                for (time, &ordinal) in times(rows.column(0)).iter().zip(&ordinals) {
                    match time {
                        Some(time) if time < before => gone.push(ordinal),
                        Some(time) => expiring.add(time, ordinal),
                        None => {}
                    }
                }
            }
        }
        expiring.keep_earliest();
        expiring.upcoming.sort_unstable_by(|a, b| b.cmp(a));
        expiring.upcoming.shrink_to_fit();
        let bytes = std::mem::size_of_val(expiring.upcoming.as_slice()) as u64;
        expiring.charge = (bytes > 0).then(|| Arc::new(meter.charge_times(bytes)));
        Ok((OrdinalIntervals::of(&gone), expiring))
    }

    /// The rows with times below `before` that were not taken yet; `None` if it is not known which they are.
    pub fn take(&mut self, before: i64) -> Option<OrdinalIntervals> {
        if before > self.known_to {
            return None;
        }
        let kept = self.upcoming.partition_point(|(time, _)| *time >= before);
        let mut gone: Vec<u32> = self.upcoming.drain(kept..).map(|(_, ordinal)| ordinal).collect();
        gone.sort_unstable();
        Some(OrdinalIntervals::of(&gone))
    }

    /// Bytes of memory that are charged for it.
    pub fn bytes(&self) -> u64 {
        self.charge.as_ref().map_or(0, |charge| charge.bytes())
    }

    /// Whether it is known what expires up to there.
    pub fn is_known_to(&self, before: i64) -> bool {
        before <= self.known_to
    }

    /// Adds a row, and forgets the latest where they are too many.
    fn add(&mut self, time: i64, ordinal: u32) {
        if time >= self.known_to {
            return;
        }
        self.upcoming.push((time, ordinal));
        if self.upcoming.len() == 2 * UPCOMING_MAX {
            self.keep_earliest();
        }
    }

    /// Forgets the latest rows where they are too many.
    fn keep_earliest(&mut self) {
        if self.upcoming.len() > UPCOMING_MAX {
            let (_, (latest, _), _) = self.upcoming.select_nth_unstable(UPCOMING_MAX);
            let known_to = *latest;
            self.known_to = known_to;
            self.upcoming.retain(|(time, _)| *time < known_to);
        }
    }
}

/// The earliest time in some zones, with [`i64::MAX`] for none; `None` if it is not known.
fn earliest(zones: &Zones) -> Option<i64> {
    let known = zones.column(0)?;
    let mut earliest = i64::MAX;
    let least = times(&known.mins);
    for ((least, nulls), rows) in least.iter().zip(&known.null_counts).zip(zones.rows()) {
        match least {
            Some(least) => earliest = earliest.min(least),
            None if nulls.is_some() && nulls == rows => {}
            None => return None,
        }
    }
    Some(earliest)
}

//! When the rows of one piece expire.

use drillcore_format::ordinal_intervals::OrdinalIntervals;
use drillcore_format::rows::Layout;
use drillcore_format::schema::ExpiryLimit;
use drillcore_format::statistics_page::Zones;

use crate::calls::interrupt::Interrupt;
use crate::error::Result;
use crate::merge::erasing::erased_by;
use crate::merge::merger::Direction;
use crate::merge::piece_source::PieceSource;
use crate::pieces::piece::Piece;
use crate::select::expiry::{expired, times};
use crate::select::selection::Selected;

/// Rows of a piece that are remembered with their times, so that it is not read anew each second: 12 bytes each.
const UPCOMING_MAX: usize = 1 << 18;
/// Rows read at once.
const CHUNK_ROWS: u64 = 8192;

/// The rows of a piece that expire next. O(1) a row, and a pass over the column for every [`UPCOMING_MAX`] rows; where the
/// time comes first in the key, a search for each look.
#[derive(Debug, Clone)]
pub struct Expiring {
    /// Times and ordinals, the latest first.
    upcoming: Vec<(i64, u32)>,
    /// No other row has a time below this one.
    known_to: i64,
}

impl Expiring {
    /// What of a piece has expired, and what expires next. Reads the column, unless the key or zones say enough.
    pub fn find(
        piece: &Piece,
        layout: &Layout,
        limit: ExpiryLimit,
        interrupt: &Interrupt,
    ) -> Result<(OrdinalIntervals, Expiring)> {
        let ExpiryLimit { column, before } = limit;
        let question = expired(layout.schema(), limit)?;
        if question.key_range().is_some() {
            let gone = erased_by(&question, layout, piece, interrupt)?;
            return Ok((gone, Expiring { upcoming: Vec::new(), known_to: before }));
        }
        let zones = piece.zones(layout, 0..piece.rows(), &[column])?;
        if let Some(known_to) = zones.and_then(|zones| earliest(&zones)).filter(|at| *at >= before)
        {
            let nothing = OrdinalIntervals::default();
            return Ok((nothing, Expiring { upcoming: Vec::new(), known_to }));
        }
        let mut gone: Vec<u32> = Vec::new();
        let mut expiring = Expiring { upcoming: Vec::new(), known_to: i64::MAX };
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
        expiring.upcoming.sort_unstable_by(|a, b| b.cmp(a));
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

    /// Whether it is known what expires up to there.
    pub fn is_known_to(&self, before: i64) -> bool {
        before <= self.known_to
    }

    /// Adds a row, and forgets the latest half where they are too many.
    fn add(&mut self, time: i64, ordinal: u32) {
        if time >= self.known_to {
            return;
        }
        self.upcoming.push((time, ordinal));
        if self.upcoming.len() == 2 * UPCOMING_MAX {
            let (_, (latest, _), _) = self.upcoming.select_nth_unstable(UPCOMING_MAX);
            self.known_to = *latest;
            let known_to = self.known_to;
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

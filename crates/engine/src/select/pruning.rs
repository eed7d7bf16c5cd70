//! Leaving out the zones of a segment in which no row can pass a test.

use std::ops::Range;

use drillcore_format::overlap::overlap;
use drillcore_format::rows::Layout;
use drillcore_format::statistics_page::Zones;
use drillcore_storage::segments::segment::Segment;

use crate::error::Result;
use crate::pieces::piece::Piece;
use crate::select::predicate::Test;

/// A test whose zones are worth a look.
#[derive(Debug, Clone)]
pub struct Pruning {
    test: Test,
    layout: Layout,
    columns: Vec<usize>,
}

impl Pruning {
    /// `None` if zones can tell nothing that the test may rely on.
    pub fn new(layout: &Layout, test: Option<&Test>) -> Option<Pruning> {
        let test = test?;
        let columns = test.prunable_columns(layout.schema());
        let (test, layout) = (test.clone(), layout.clone());
        (!columns.is_empty()).then_some(Pruning { test, layout, columns })
    }

    /// Cuts some ordinals of some pieces down to those that may pass: ascending ranges that do not touch, of each piece. On
    /// disk: one statistics page for each index page that the ordinals lie in; those of all pieces are read together.
    pub fn prune_each(&self, wanted: &[(&Piece, Range<u64>)]) -> Result<Vec<Vec<Range<u64>>>> {
        let is_on_disk = |(piece, _): &&(&Piece, Range<u64>)| piece.segment().is_some();
        let on_disk: Vec<(&Piece, Range<u64>)> =
            wanted.iter().filter(is_on_disk).cloned().collect();
        let mut zones = Piece::zones_of_each(&on_disk, &self.layout, &self.columns)?.into_iter();
        let of_piece = |(piece, ordinals): &(&Piece, Range<u64>)| match piece.segment() {
            None => Ok(vec![ordinals.clone()]),
            Some(segment) => {
                let zones = zones.next().expect("those of each were asked for");
                self.prune_segment(segment, &zones, ordinals)
            }
        };
        wanted.iter().map(of_piece).collect()
    }

    fn prune_segment(
        &self,
        segment: &Segment,
        zones: &Zones,
        ordinals: &Range<u64>,
    ) -> Result<Vec<Range<u64>>> {
        let mut kept: Vec<Range<u64>> = Vec::new();
        let mut pruned = 0;
        for (zone, may_match) in self.test.may_match(zones)?.into_iter().enumerate() {
            let of_zone = zones.ordinals(zone);
            if !may_match {
                // A zone that begins before the ordinals was counted with those before, if at all.
                let begins_here = of_zone.start >= ordinals.start;
                pruned += if begins_here { zones.blocks().value(zone) } else { 0 };
                continue;
            }
            let part = overlap(&of_zone, ordinals);
            match kept.last_mut() {
                Some(last) if last.end == part.start => last.end = part.end,
                _ => kept.push(part),
            }
        }
        segment.count_pruned(pruned);
        Ok(kept)
    }
}

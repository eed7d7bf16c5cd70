//! Checking all segments of a database, by its writer or by a reader.

use std::sync::Arc;

use drillcore_storage::files::directory::Directory;
use drillcore_storage::segments::segment::Segment;
use drillcore_storage::segments::segment_check::check_segment;

use crate::calls::interrupt::{Asked, Interrupt};
use crate::calls::progress::Progress;
use crate::error::Result;

/// What a check of all segments found.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// let db = flights.database();
/// db.flush()?;
/// let report = db.verify()?;
/// assert!(report.faults.is_empty(), "damaged: {:?}", report.faults);
/// assert_eq!((report.segments, report.rows), (1, 100));
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
#[non_exhaustive]
pub struct VerifyReport {
    /// Segments read.
    pub segments: u64,
    /// Of the segments that can be opened.
    pub rows: u64,
    /// As `rows`.
    pub bytes: u64,
    /// One message per damaged segment; empty if all is well.
    pub faults: Vec<String>,
}

impl VerifyReport {
    /// Checks segments, each open or with the reason why it cannot be opened. The caller sees to it that their files
    /// stay. Fails only on the interrupt.
    pub(crate) fn of(
        directory: &Arc<dyn Directory>,
        segments: Vec<Result<Arc<Segment>>>,
        interrupt: &Interrupt,
        progress: &Progress,
    ) -> Result<VerifyReport> {
        let mut report = VerifyReport::default();
        progress.expect(segments.iter().flatten().map(|segment| segment.bytes()).sum());
        for segment in segments {
            report.segments += 1;
            let segment = match segment {
                Ok(segment) => segment,
                Err(error) => {
                    report.faults.push(error.found().to_string());
                    continue;
                }
            };
            let asked = Asked::new(interrupt);
            let (bytes, rows) = (u128::from(segment.bytes()), u128::from(segment.rows()));
            let checked = check_segment(directory.clone(), &segment, |checked| {
                let of_segment = bytes * u128::from(checked) / rows.max(1);
                progress.reach(report.bytes + of_segment as u64);
                asked.go_on()
            });
            asked.answer()?;
            report.rows += segment.rows();
            report.bytes += segment.bytes();
            progress.reach(report.bytes);
            report.faults.extend(checked.err().map(|error| error.to_string()));
        }
        Ok(report)
    }
}

//! Statistics pages: of each zone of a segment, how many nulls a column has and what bounds its values.
//!
//! A *zone* is one block, or several in a row where blocks are short beside what is said of them; a
//! statistics page describes the zones of one index page and lies right behind it. Its payload is a row
//! block with one row per zone, so numbers that are alike cost little and a reader decodes only the columns
//! it asks for. Scans read these pages to leave zones out, estimates for what bounds a column. Which zones can be left out
//! without changing an answer is left to others. Drawn in `docs/format.md`, section "Statistics pages".

mod bounds;
mod statistics_layout;
mod builder;
mod zones;
#[cfg(test)]
mod tests;

pub use builder::StatisticsPageBuilder;
pub use statistics_layout::ZoneSpan;
pub use zones::{ColumnZones, Zones, ZonesBuilder};

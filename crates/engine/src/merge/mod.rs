//! Rows of several pieces in key order, and what equal keys come to.

pub mod disjoint;
pub mod merger;
mod members_ahead;
pub mod piece_source;
pub mod passing;
pub mod carried_liveness;
pub mod compacted_run;
pub mod key_table;
pub mod known_dead;
pub mod resolving;
pub mod finding_dead;

//! Estimates: aggregates of a selection from a sample of it, with intervals that hold for the way the
//! sampling stopped.
//!
//! Rows are drawn without replacement, in growing rounds, from the same numbering that samples use. Of a
//! rollup table they are whole rows, so that what a scan shows is estimated, or, if asked for, events. What an index knows (the
//! number of rows selected; of each set, when grouped by the set column) is not estimated but given, and where reading rows
//! costs less than drawing on, they are read.

mod shown_figures;
pub mod result;
pub mod aggregate;
pub mod computed;
pub mod request;
mod bounds;
mod population;
mod plan;
mod recent;
mod distinct;
mod numbers;
mod reading;
mod tally;
mod levels;
mod unreached;
mod figures;
mod notes;
mod looks;
mod next_step;
mod drawing;

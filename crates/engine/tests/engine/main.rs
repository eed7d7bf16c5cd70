//! The engine by its public face, a capability each. One program, as linking one takes longer than running it.

mod add_column;
mod background_writer;
mod column_streams;
mod deleting;
mod discover;
mod estimate_stops;
mod face;
mod heavy_tails;
mod limits;
mod levels;
mod long_values;
mod named_snapshot;
mod names;
mod opening;
mod overflow;
mod predicate;
mod pruning;
mod reader;
mod resident_index;
mod rollup;
mod set_indexes;
mod several_threads;
mod time_to_live;
mod upsert;
mod weighted;
mod whole_rows;

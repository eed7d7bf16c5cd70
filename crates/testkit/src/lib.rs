//! Tests of the whole engine and what they need: an obviously right model, random operations against it,
//! and a folder that fails and crashes on demand. Nothing depends on this crate. Modules, from the
//! ground up:

pub mod cell;
pub mod rollup_shape;
pub mod shape;
pub mod model;
pub mod hashed_condition;
pub mod read_back;
pub mod texts_by_code;
pub mod random_ops;
pub mod cached_file;
pub mod fault_directory;
pub mod gate_directory;
pub mod stuck_directory;
pub mod writing_calls;
pub mod numbered_batches;
pub mod counting_allocator;
pub mod deadline;
pub mod at_rest;
pub mod repetitions;
pub mod event_table;
pub mod table_states;
pub mod statistics;
pub mod biased_samplers;
pub mod fuzzing;

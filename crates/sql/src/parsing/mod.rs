//! From text to a syntax tree, with values in the place of placeholders.

pub mod parameters;
pub mod syntax;
pub mod columns_first;
pub mod from_first;
pub mod cast_names;
pub mod grouping_sets;
pub mod wrong_forms;

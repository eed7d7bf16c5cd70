//! Files that rows come from, and how values are written as text.

pub mod source;
pub mod records;
pub mod time_text;
pub mod written_times;
pub mod exact_text;
pub mod batches;
pub mod flat_json;
pub mod parser;
pub mod text_file;
pub mod arrow_file;
pub mod shared_file;
pub mod input;

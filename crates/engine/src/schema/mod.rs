//! What a table is made of, and how rows are made to fit it.
//!
//! Pure functions of schemas and Arrow arrays; nothing here knows where rows are held.

pub mod name;
pub mod number;
pub mod metric;
pub mod granularity;
pub mod columns;
pub mod table_spec;
pub mod difference;
pub mod exact_cast;
pub mod value_limits;
pub mod conform;
pub mod whole_keys;
pub mod unit;

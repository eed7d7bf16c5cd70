//! What a table's merge policy makes of its rows. The other folders do not ask which policy a table has.

pub mod rollup;
pub mod tombstones;
pub mod fold;
pub mod table_policy;
pub mod refusals;
pub mod column_changes;

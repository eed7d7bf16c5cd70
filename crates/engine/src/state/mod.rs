//! What an open database holds at this moment, how it was opened, and what all its handles share.

pub mod moment;
pub mod options;
pub mod plenty;
pub mod clock;
pub mod erasing;
pub mod expiring;
pub mod put_off;
pub mod slots;
pub mod compaction;
pub mod levels;
pub mod work_signal;
pub mod underway;
pub mod run_demand;
pub mod version;
pub mod erasures;
pub mod positions;
pub mod table_state;
pub mod worklist;
pub mod resting;
pub mod spilling;
pub mod newest_version;
pub mod retired;
pub mod guarded;
#[cfg(feature = "shuttle")]
pub mod publication_fault;
pub mod core;

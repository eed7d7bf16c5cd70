//! What an open database holds at this moment, and what all its handles share.

pub mod clock;
pub mod expiring;
pub mod slots;
pub mod levels;
pub mod put_off;
pub mod version;
pub mod erasures;
pub mod positions;
pub mod table_state;
pub mod guarded;
#[cfg(shuttle)]
pub mod publication_fault;
pub mod core;

//! The benches, each a module, in the order in which they run; first the table that those of reads ask.

pub mod loaded;
pub mod ingest;
pub mod writer;
pub mod load;
pub mod upserts;
pub mod durability;
pub mod commits;
pub mod reads;
pub mod readers;
pub mod sets;
pub mod columns;
pub mod sampling;
pub mod ranges;
pub mod weights;
pub mod beside;
pub mod draws;
pub mod cold;

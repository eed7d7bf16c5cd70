//! Files: the directory a database lives in, its log, its manifest and its segments.
//!
//! Everything here is about bytes that outlive the process and about reading them back as few at a time
//! as the question allows. What a row means, and when to write which file, is left to the engine.
//! Modules, from the ground up:

pub mod sync;
pub mod background;
pub mod error;
pub mod few;
pub mod processor_waits;
pub mod files;
pub mod log;
pub mod manifest;
pub mod pages;
pub mod postings;
pub mod segments;

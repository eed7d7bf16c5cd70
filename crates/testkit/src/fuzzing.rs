//! Fuzzing: bytes that somebody else made up, behind checksums that are right.
//!
//! A checksum keeps chance away from the decoders, not intent, and not a bug that wrote what it should
//! not. So each [`Target`] puts its input behind right checksums, decodes it and then *uses* it in every
//! way there is: whatever the bytes say, the outcome is an answer or a typed error, never a panic, an
//! endless loop or an allocation of gigabytes. Inputs are lists of [`parts`], so that a
//! [`mutation`] changes what a page says without tearing the next one off.
//!
//! The same targets serve three: the stored corpora and a bounded number of seeded mutations of them
//! (`tests/corpora.rs`), and `cargo fuzz` in the folder `fuzz` of the repository.

pub mod corpora;
pub mod database;
pub mod files;
pub mod logs;
pub mod mutation;
pub mod outcome;
pub mod pages;
pub mod parts;
pub mod seeds;
pub mod segment;
pub mod tables;

use outcome::Outcome;
use parts::split;

/// One kind of bytes, and what is done with them.
#[derive(Clone, Copy)]
pub struct Target {
    pub name: &'static str,
    run: fn(&[Vec<u8>]) -> Outcome,
}

/// Every target, each with the name of its corpus and of its program in `fuzz/fuzz_targets`.
pub const TARGETS: [Target; 16] = [
    Target { name: "block", run: pages::block },
    Target { name: "index_page", run: pages::index_page },
    Target { name: "index_summary", run: pages::index_summary },
    Target { name: "statistics_page", run: pages::statistics_page },
    Target { name: "postings", run: pages::postings },
    Target { name: "set_directory", run: pages::set_directory },
    Target { name: "set_summary", run: pages::set_summary },
    Target { name: "footer", run: pages::footer },
    Target { name: "envelope", run: pages::envelope },
    Target { name: "key", run: pages::key },
    Target { name: "schema", run: logs::schema },
    Target { name: "frames", run: logs::frames },
    Target { name: "commit", run: logs::commit },
    Target { name: "manifest", run: logs::manifest },
    Target { name: "segment", run: segment::segment },
    Target { name: "database", run: database::database },
];

impl Target {
    /// The target of that name.
    ///
    /// # Panics
    /// If there is none.
    pub fn named(name: &str) -> Target {
        let found = TARGETS.iter().find(|target| target.name == name);
        *found.unwrap_or_else(|| panic!("there is no target {name:?}"))
    }

    /// Decodes an input and uses what comes of it.
    ///
    /// # Panics
    /// If the store does: that is what is looked for. Also if an error is of a kind that damaged bytes must
    /// not have.
    pub fn run(&self, input: &[u8]) -> Outcome {
        (self.run)(&split(input))
    }
}

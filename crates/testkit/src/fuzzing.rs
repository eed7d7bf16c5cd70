//! Fuzzing: crafted bytes, behind checksums that are right.
//!
//! A checksum keeps chance away from the decoders, not intent, and not a bug that wrote what it should
//! not. So each [`FuzzTarget`] puts its input behind right checksums, decodes it and then *uses* it in every
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
pub mod streams;
pub mod tables;

use outcome::Outcome;
use parts::split;

/// One kind of bytes, and what is done with them.
#[derive(Clone, Copy)]
pub struct FuzzTarget {
    /// What it is called on the command line and in the corpus.
    pub name: &'static str,
    run: fn(&[Vec<u8>]) -> Outcome,
}

/// Every target, each with the name of its corpus and of its program in `fuzz/fuzz_targets`.
pub const TARGETS: [FuzzTarget; 19] = [
    FuzzTarget { name: "block", run: pages::block },
    FuzzTarget { name: "index_page", run: pages::index_page },
    FuzzTarget { name: "index_summary", run: pages::index_summary },
    FuzzTarget { name: "statistics_page", run: pages::statistics_page },
    FuzzTarget { name: "stream", run: streams::stream },
    FuzzTarget { name: "stream_directory", run: streams::stream_directory },
    FuzzTarget { name: "dictionary", run: streams::dictionary },
    FuzzTarget { name: "postings", run: pages::postings },
    FuzzTarget { name: "set_directory", run: pages::set_directory },
    FuzzTarget { name: "set_summary", run: pages::set_summary },
    FuzzTarget { name: "footer", run: pages::footer },
    FuzzTarget { name: "envelope", run: pages::envelope },
    FuzzTarget { name: "key", run: pages::key },
    FuzzTarget { name: "schema", run: logs::schema },
    FuzzTarget { name: "frames", run: logs::frames },
    FuzzTarget { name: "commit", run: logs::commit },
    FuzzTarget { name: "manifest", run: logs::manifest },
    FuzzTarget { name: "segment", run: segment::segment },
    FuzzTarget { name: "database", run: database::database },
];

impl FuzzTarget {
    /// The target of that name.
    ///
    /// # Panics
    /// If there is none.
    pub fn named(name: &str) -> FuzzTarget {
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

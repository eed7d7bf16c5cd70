//! The stored inputs of each target: those that [`seeds`](super::seeds) makes, and those that once made the store panic.

use std::fs;
use std::path::PathBuf;

use super::FuzzTarget;

/// An input that fuzzing has found begins so; the others are made by the generator.
pub const FOUND: &str = "found-";

/// A stored input.
pub struct Stored {
    /// Of its file.
    pub name: String,
    /// The bytes.
    pub input: Vec<u8>,
}

/// Where the inputs of a target lie.
pub fn folder(target: &FuzzTarget) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpora").join(target.name)
}

/// The inputs of a target, by name.
///
/// # Panics
/// If they cannot be read.
pub fn stored(target: &FuzzTarget) -> Vec<Stored> {
    let folder = folder(target);
    let entries =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut inputs: Vec<Stored> = entries
        .map(|entry| {
            let path = entry.expect("the folder can be listed").path();
            let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
            Stored { name, input: fs::read(&path).expect("a file can be read") }
        })
        .collect();
    inputs.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    inputs
}

//! What all benches of one call share.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use tempfile::TempDir;

use crate::arguments::Arguments;
use crate::error::{Error, Result};
use crate::rows::workload::{Order, Workload};
use crate::trials::trial::Trial;

pub struct Setup<'a> {
    pub arguments: &'a Arguments,
    pub stop: &'a AtomicBool,
    folder: TempDir,
}

impl<'a> Setup<'a> {
    /// Makes the folder that is removed when the setup is dropped.
    pub fn new(arguments: &'a Arguments, stop: &'a AtomicBool) -> Result<Setup<'a>> {
        let parent = arguments.dir.clone().unwrap_or_else(std::env::temp_dir);
        Ok(Setup { arguments, stop, folder: folder_in(&parent)? })
    }

    pub fn trial(&self, bench: &'static str) -> Trial<'a> {
        let trial = Trial::new(bench, self.arguments.repetitions, self.stop)
            .of_cases(self.arguments.cases.clone());
        if self.arguments.without_peers { trial.without_peers() } else { trial }
    }

    /// The rows that the arguments ask for.
    pub fn workload(&self, trial: &Trial, order: Order) -> Result<Workload> {
        trial.announce("generating the rows")?;
        Ok(Workload::generate(self.arguments.rows, order, self.arguments.seed))
    }

    /// A new folder, removed when it is dropped.
    pub fn fresh_folder(&self) -> Result<TempDir> {
        folder_in(self.folder.path())
    }

    /// A file or folder that is there until the end.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// 1, 2, 4 and so on, and the most; none below the least.
    pub fn thread_counts(&self) -> Vec<u32> {
        let Arguments { threads: most, threads_from: least, .. } = *self.arguments;
        let mut counts: Vec<u32> = (0..u32::BITS).map(|power| 1 << power).collect();
        counts.retain(|&count| count < most);
        counts.push(most);
        counts.retain(|&count| count >= least);
        counts
    }
}

fn folder_in(parent: &Path) -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix("drillcore-bench-")
        .tempdir_in(parent)
        .map_err(Error::io("create a directory in", parent))
}

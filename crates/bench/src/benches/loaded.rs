//! The table that the benches of reads ask: the same rows in both engines, written out and packed.

use std::fs;
use std::path::{Path, PathBuf};

use drillcore::{Database, TableSnapshot};
use tempfile::TempDir;

use crate::error::{Error, Result};
use crate::figures::report::megabytes;
use crate::peers::file_pages::folder_bytes;
use crate::peers::sqlite::Sqlite;
use crate::rows::workload::{Order, Workload};
use crate::tables::engine::{self, EVENTS};
use crate::trials::setup::Setup;
use crate::trials::trial::Trial;

pub struct Loaded {
    pub workload: Workload,
    /// Each engine's files in a folder of their own.
    pub drillcore: PathBuf,
    pub sqlite: PathBuf,
    /// A line for people.
    pub description: String,
    /// Removed with all that is in it.
    _folder: TempDir,
}

impl Loaded {
    /// Both get the rows in shuffled order and then do what their users would: one merges all into one
    /// segment, the other packs its pages and counts for its planner. The peer gets none if the trial has no peers.
    pub fn load(setup: &Setup, trial: &Trial) -> Result<Loaded> {
        let workload = setup.workload(trial, Order::Shuffled)?;
        trial.announce("loading")?;
        let folder = setup.fresh_folder()?;
        let (drillcore, sqlite) = (folder.path().join("drillcore"), folder.path().join("sqlite"));
        let db = engine::open(&drillcore)?;
        let table = engine::create_events(&db, true)?;
        engine::append_all(&table, &workload.batches, setup.arguments.threads)?;
        db.compact()?;
        let segments = table.snapshot()?.pieces();
        db.close()?;
        fs::create_dir(&sqlite).map_err(Error::io("make", &sqlite))?;
        let peer = open_sqlite(&sqlite)?;
        peer.create_events(true)?;
        if trial.has_peers() {
            peer.insert_all(&workload.batches)?;
            peer.settle()?;
        }
        drop(peer);
        let on_disk = megabytes(folder_bytes(&drillcore)?);
        let mut description =
            format!("{workload}; on disk drillcore {on_disk} in {segments} segment");
        if trial.has_peers() {
            description.push_str(&format!(", sqlite {}", megabytes(folder_bytes(&sqlite)?)));
        }
        Ok(Loaded { workload, drillcore, sqlite, description, _folder: folder })
    }

    pub fn open_drillcore(&self) -> Result<(Database, TableSnapshot)> {
        let db = engine::open(&self.drillcore)?;
        let table = db.table(EVENTS)?.snapshot()?;
        Ok((db, table))
    }

    pub fn open_sqlite(&self) -> Result<Sqlite> {
        open_sqlite(&self.sqlite)
    }
}

fn open_sqlite(folder: &Path) -> Result<Sqlite> {
    Sqlite::open(&folder.join("db"))
}

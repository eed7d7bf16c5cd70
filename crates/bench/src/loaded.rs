//! The table that the benches of reads ask: the same rows in both engines, written out and packed.

use std::fs;
use std::path::PathBuf;

use drillcore::{Database, TableSnapshot};
use tempfile::TempDir;

use crate::engine::{self, EVENTS};
use crate::error::{Error, Result};
use crate::file_pages::folder_bytes;
use crate::report::megabytes;
use crate::setup::Setup;
use crate::sqlite::Sqlite;
use crate::trial::Trial;
use crate::workload::{Order, Workload};

pub struct Loaded {
    pub workload: Workload,
    /// Each engine's files in a folder of their own.
    pub drillcore: PathBuf,
    pub sqlite: PathBuf,
    /// Removed with all that is in it.
    _folder: TempDir,
}

impl Loaded {
    /// Both get the rows in shuffled order and then do what their users would: one merges all into one
    /// segment, the other packs its pages and counts for its planner.
    pub fn load(setup: &Setup, trial: &Trial) -> Result<Loaded> {
        let workload = setup.workload(trial, Order::Shuffled)?;
        trial.announce("loading")?;
        let folder = setup.fresh_folder()?;
        let (drillcore, sqlite) = (folder.path().join("drillcore"), folder.path().join("sqlite"));
        let db = engine::open(&drillcore)?;
        let table = engine::create_events(&db, true)?;
        engine::append_all(&table, &workload.batches, setup.arguments.threads)?;
        db.compact()?;
        db.close()?;
        fs::create_dir(&sqlite).map_err(Error::io("make", &sqlite))?;
        let loaded = Loaded { workload, drillcore, sqlite, _folder: folder };
        let sqlite = loaded.open_sqlite()?;
        sqlite.create_events(true)?;
        sqlite.insert_all(&loaded.workload.batches)?;
        sqlite.settle()?;
        Ok(loaded)
    }

    pub fn open_drillcore(&self) -> Result<(Database, TableSnapshot)> {
        let db = engine::open(&self.drillcore)?;
        let table = db.table(EVENTS)?.snapshot()?;
        Ok((db, table))
    }

    pub fn open_sqlite(&self) -> Result<Sqlite> {
        Sqlite::open(&self.sqlite.join("db"))
    }

    /// A line for people.
    pub fn describe(&self) -> Result<String> {
        let (_db, table) = self.open_drillcore()?;
        Ok(format!(
            "{}; on disk drillcore {} in {} segment, sqlite {}",
            self.workload,
            megabytes(folder_bytes(&self.drillcore)?),
            table.pieces(),
            megabytes(folder_bytes(&self.sqlite)?),
        ))
    }
}

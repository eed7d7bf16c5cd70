//! `drillcore._native`: the engine as Python sees it.
//!
//! Every class wraps one engine type and adds only what the border needs: Arrow data crosses as
//! capsules, the interpreter is released while the engine works, signals interrupt long calls, and
//! engine errors become the classes of `drillcore.errors`. Checking and converting arguments is left
//! to the Python layer above, which is the public face.

#![forbid(unsafe_code)]

mod error;
mod duration;
mod progress;
mod signals;
mod sound;
mod arrow_data;
mod selection;
mod rows;
mod parquet_writer;
mod estimate;
mod estimate_looks;
mod plain_row;
mod table;
mod database;
mod writer;

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;

/// The command of the shell: prints, and returns the exit code. `arguments` begin with the program's name.
#[pyfunction]
fn command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| drillcore_cli::main(arguments))
}

/// Makes a database of a backup; see `Database.backup` for what is returned.
#[pyfunction]
fn restore(
    py: Python<'_>,
    backup: PathBuf,
    path: PathBuf,
    copy: bool,
) -> PyResult<database::BackupTuple> {
    let restore = |interrupt| drillcore::restore(&backup, &path, copy, &interrupt);
    Ok(database::backup_tuple(signals::call(py, restore)?))
}

/// Whether a text of SQL begins with `delete`, behind comments at most.
#[pyfunction]
fn is_delete(text: &str) -> bool {
    drillcore_sql::is_delete(text)
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<database::Database>()?;
    module.add_class::<database::Snapshot>()?;
    module.add_class::<table::Table>()?;
    module.add_class::<table::TableSnapshot>()?;
    module.add_class::<writer::Writer>()?;
    module.add_class::<progress::Progress>()?;
    module.add_class::<rows::Scan>()?;
    module.add_class::<parquet_writer::ParquetWriter>()?;
    module.add_class::<estimate::Estimate>()?;
    module.add_class::<estimate_looks::EstimateLooks>()?;
    module.add_function(wrap_pyfunction!(command, module)?)?;
    module.add_function(wrap_pyfunction!(restore, module)?)?;
    module.add_function(wrap_pyfunction!(is_delete, module)?)?;
    Ok(())
}

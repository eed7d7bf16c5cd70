//! `drillcore._native`: the engine as Python sees it.
//!
//! Every class wraps one engine type and adds only what the border needs: Arrow data crosses as
//! capsules, the interpreter is released while the engine works, signals interrupt long calls, and
//! engine errors become the classes of `drillcore.errors`. Checking and converting arguments is left
//! to the Python layer above, which is the public face.

mod error;
mod signals;
mod handle;
mod selection;
mod rows;
mod estimate;
mod table;
mod database;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<database::Database>()?;
    module.add_class::<database::Snapshot>()?;
    module.add_class::<table::Table>()?;
    module.add_class::<table::TableSnapshot>()?;
    module.add_class::<rows::Scan>()?;
    module.add_class::<estimate::Estimate>()?;
    Ok(())
}

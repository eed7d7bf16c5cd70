//! `drillcore set-ttl`: how long rows of a table are kept.

use drillcore::Interrupt;

use crate::arguments::SetTtl;
use crate::fault::Fault;
use crate::lasting::lasting_text;
use crate::opening::open;
use crate::output::print_line;

pub fn set_ttl(arguments: &SetTtl, interrupt: &Interrupt) -> Result<(), Fault> {
    let SetTtl { source, column, lasting, .. } = arguments;
    let db = open(&source.database, interrupt)?;
    let ttl = column.as_deref().zip(*lasting);
    db.table(&source.table)?.set_ttl(ttl)?;
    db.close()?;
    print_line(&match ttl {
        None => format!("rows of {} are kept for good", source.table),
        Some((column, lasting)) => {
            let lasting = lasting_text(lasting);
            format!("rows of {} are kept for {lasting} after {column}", source.table)
        }
    })
}

//! `drillcore set-ttl`: how long rows of a table are kept.

use drillcore::Interrupt;

use crate::arguments::altering::SetTtl;
use crate::duration::duration_text;
use crate::printing::output::print_line;
use crate::process::fault::Fault;
use crate::process::opening::open;

pub fn set_ttl(arguments: &SetTtl, interrupt: &Interrupt) -> Result<(), Fault> {
    let SetTtl { source, column, duration, .. } = arguments;
    let db = open(&source.database, interrupt)?;
    let ttl = column.as_deref().zip(*duration);
    db.table(&source.table)?.set_ttl(ttl)?;
    db.close()?;
    print_line(&match ttl {
        None => format!("rows of {} are kept for good", source.table),
        Some((column, duration)) => {
            let duration = duration_text(duration);
            format!("rows of {} are kept for {duration} after {column}", source.table)
        }
    })
}

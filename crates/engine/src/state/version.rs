//! All tables at one moment, as snapshots hold them.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use drillcore_format::ids::{Lsn, TableId};
use drillcore_format::rows::Layout;
use drillcore_format::schema::TableSchema;
use drillcore_storage::segments::segment::Segment;

use crate::pieces::piece::Piece;
use crate::select::resolved_selections::ResolvedSelections;
use crate::select::selection::Selected;

/// All tables at one LSN. Immutable; holding it keeps its pieces alive.
pub struct Version {
    pub lsn: Lsn,
    pub tables: BTreeMap<Arc<str>, Arc<TableVersion>>,
}

/// One table in a version: its pieces, oldest first.
pub struct TableVersion {
    pub id: TableId,
    pub name: Arc<str>,
    pub lsn: Lsn,
    pub layout: Layout,
    pub schema: Arc<TableSchema>,
    pub pieces: Arc<[Piece]>,
    /// The selection of everything, made when first asked for.
    pub whole: OnceLock<Arc<Selected>>,
    pub resolved: ResolvedSelections,
    /// Rows of sets without an index that were looked for.
    pub passed: ResolvedSelections,
    /// Whether all pieces listed all sets when somebody wanted to know.
    pub lists_every_set: OnceLock<bool>,
}

impl Version {
    /// The segments of all tables.
    pub fn segments(&self) -> impl Iterator<Item = &Arc<Segment>> {
        let pieces = self.tables.values().flat_map(|table| table.pieces.iter());
        pieces.filter_map(Piece::segment)
    }
}

impl TableVersion {
    /// A table at one LSN.
    pub fn new(
        id: TableId,
        name: Arc<str>,
        layout: Layout,
        lsn: Lsn,
        pieces: Arc<[Piece]>,
    ) -> TableVersion {
        let schema = Arc::new(layout.schema().clone());
        let (whole, resolved) = (OnceLock::new(), ResolvedSelections::default());
        let passed = ResolvedSelections::default();
        let lists_every_set = OnceLock::new();
        TableVersion {
            id,
            name,
            lsn,
            layout,
            schema,
            pieces,
            whole,
            resolved,
            passed,
            lists_every_set,
        }
    }
}

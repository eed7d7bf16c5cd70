//! Which zones of a segment can hold a row that passes, by the bounds of their columns.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray};
use arrow_schema::SchemaRef;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use drillcore::Zones;

/// A condition put in terms of bounds.
#[derive(Debug)]
pub struct ZoneTest {
    test: PruningPredicate,
    columns: Vec<String>,
}

impl ZoneTest {
    /// What bounds can say of a test of these columns; `None` if nothing.
    pub fn new(test: &Arc<dyn PhysicalExpr>, columns: SchemaRef) -> Option<ZoneTest> {
        let names = columns.fields().iter().map(|field| field.name().clone()).collect();
        let test = PruningPredicateBuilder::new()
            .with_file_schema(columns)
            .try_build(Arc::clone(test))
            .ok()?;
        (!test.always_true()).then_some(ZoneTest { test, columns: names })
    }

    /// The columns of the test, in the order in which zones know them.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// False for zones in which no row passes.
    pub fn may_match(&self, zones: &Zones) -> Result<BooleanArray> {
        let statistics = ZoneStatistics { zones, columns: &self.columns };
        self.test.prune(&statistics).map(BooleanArray::from)
    }
}

struct ZoneStatistics<'a> {
    zones: &'a Zones,
    columns: &'a [String],
}

impl ZoneStatistics<'_> {
    fn column(&self, column: &Column) -> Option<&drillcore::ColumnZones> {
        let at = self.columns.iter().position(|name| *name == column.name)?;
        self.zones.column(at)
    }
}

impl PruningStatistics for ZoneStatistics<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        Some(self.column(column)?.mins.clone())
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        Some(self.column(column)?.maxes.clone())
    }

    fn num_containers(&self) -> usize {
        self.zones.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        Some(Arc::new(self.column(column)?.null_counts.clone()))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(self.zones.rows().clone()))
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

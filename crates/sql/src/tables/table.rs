//! The tables of a snapshot, as a query finds them.

use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{MemTable, SchemaProvider, Session, TableProvider};
use datafusion::common::DataFusionError;
use datafusion::error::Result;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use drillcore::{Interrupt, Snapshot, TableSnapshot};
use parking_lot::Mutex;

use crate::conditions::predicate::{Condition, check_plain};
use crate::session;
use crate::tables::scan_exec::{ScanExec, Threads, Wanted};
use crate::tables::subqueries::answered;

/// All tables of a snapshot.
pub struct Tables {
    snapshot: Snapshot,
    threads: Threads,
    /// Names that were asked for and are no tables.
    unknown: Mutex<Vec<String>>,
    /// What was estimated for the query, by its name.
    estimates: Mutex<Vec<(String, Arc<MemTable>)>>,
}

/// One table, or a sample of it.
#[derive(Clone)]
pub struct Table {
    pub table: TableSnapshot,
    pub threads: Threads,
    pub wanted: Wanted,
    /// Conditions that a sample is drawn under, with unqualified columns. Queries in them are not answered yet.
    pub conditions: Vec<Expr>,
}

impl Tables {
    pub fn new(snapshot: Snapshot, threads: Threads) -> Tables {
        Tables { snapshot, threads, unknown: Mutex::default(), estimates: Mutex::default() }
    }

    /// The table of that name.
    pub fn find(&self, name: &str) -> drillcore::Result<Table> {
        Ok(Table {
            table: self.snapshot.table(name)?,
            threads: self.threads,
            wanted: Wanted::All,
            conditions: Vec::new(),
        })
    }

    /// Adds what was estimated of a table, and says under which name it is found.
    pub fn add_estimates(&self, table: &str, found: RecordBatch) -> Result<String> {
        let mut estimates = self.estimates.lock();
        let plain = format!("estimates of {table}");
        let is_taken = |name: &str| {
            self.snapshot.table(name).is_ok() || estimates.iter().any(|(known, _)| known == name)
        };
        let numbered = (2..).map(|number| format!("{plain} ({number})"));
        let mut names = std::iter::once(plain.clone()).chain(numbered);
        let name = names.find(|name| !is_taken(name)).expect("there are more numbers than tables");
        let rows = MemTable::try_new(found.schema(), vec![vec![found]])?;
        estimates.push((name.clone(), Arc::new(rows)));
        Ok(name)
    }

    /// What stops the query.
    pub fn interrupt(&self) -> &Interrupt {
        self.snapshot.interrupt()
    }

    /// The names asked for that no table has.
    pub fn unknown(&self) -> Vec<String> {
        self.unknown.lock().clone()
    }
}

#[async_trait]
impl SchemaProvider for Tables {
    fn table_names(&self) -> Vec<String> {
        self.snapshot.tables()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        let estimates = self.estimates.lock().iter().find(|(known, _)| known == name).cloned();
        if let Some((_, rows)) = estimates {
            return Ok(Some(rows));
        }
        match self.find(name) {
            Ok(table) => Ok(Some(Arc::new(table))),
            // Table functions are asked for here too.
            Err(_) => {
                self.unknown.lock().push(name.to_string());
                Ok(None)
            }
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        self.snapshot.table(name).is_ok()
    }
}

#[async_trait]
impl TableProvider for Table {
    fn schema(&self) -> SchemaRef {
        self.table.schema().columns.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| match self.wanted {
            Wanted::All if check_plain(filter).is_ok() => TableProviderFilterPushDown::Exact,
            // What a sample is drawn under is settled before anything is pushed.
            _ => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = self.table.schema();
        let all: Vec<usize>;
        let projection = match projection {
            Some(projection) => projection,
            None => {
                all = (0..schema.columns.fields().len()).collect();
                &all
            }
        };
        let mut conditions: Vec<Expr> = filters.to_vec();
        for condition in &self.conditions {
            conditions.push(answered(condition.clone(), session).await?);
        }
        let condition = match conjunction(conditions) {
            None => None,
            Some(condition) => Some(Condition::of(&schema, condition, session::expressions())?),
        };
        Ok(Arc::new(ScanExec::new(
            self.table.clone(),
            projection,
            condition,
            self.wanted,
            limit,
            self.threads,
        )?))
    }
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tables").field("names", &self.snapshot.tables()).finish()
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("name", &self.table.name()).finish()
    }
}

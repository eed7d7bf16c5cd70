//! Files beside tables: the table functions `read_parquet` and `read_csv`.
//!
//! A file is opened when the query is planned, and read again when it runs: of Parquet only the columns that the query
//! needs, in the row groups where a row may meet its conditions, several at a time; of CSV all lines, but only the
//! values of those columns are parsed. What is wrong with a file is an error that names it.

use std::fmt;
use std::fs::File;
use std::io;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, ScalarValue, Statistics, internal_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning,
    PlanProperties, ReplaceChildrenOptions,
};
use drillcore::{Error, ErrorKind, Interrupt};

use crate::error::to_datafusion;
use crate::files::csv_file::CsvFile;
use crate::files::parquet_file::{Batches, ParquetFile};
use crate::rules::one_nan::normalised_rows;
use crate::tables::scan_exec::show_scan;

/// Batches that may wait for the operator above.
const BATCHES_AHEAD: usize = 2;
/// Rows that are worth a thread.
const THREAD_ROWS: usize = 32_768;

/// What a file is read as.
#[derive(Debug, Clone)]
enum Format {
    Parquet(ParquetFile),
    Csv(CsvFile),
}

/// A file that a query reads.
#[derive(Debug, Clone)]
pub struct FileTable {
    path: String,
    format: Format,
    schema: SchemaRef,
    threads: usize,
    interrupt: Interrupt,
}

/// A table function that reads a file.
#[derive(Debug)]
pub struct ReadFile {
    reads: Reads,
    threads: usize,
    interrupt: Interrupt,
}

/// Which function it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reads {
    Parquet,
    Csv,
}

impl Reads {
    /// The name of the function.
    pub fn name(self) -> &'static str {
        match self {
            Reads::Parquet => "read_parquet",
            Reads::Csv => "read_csv",
        }
    }

    fn usage(self) -> &'static str {
        match self {
            Reads::Parquet => {
                "read_parquet needs the path of one file, such as read_parquet('x.parquet')"
            }
            Reads::Csv => {
                "read_csv needs the path of one file and optionally the character between values, such as \
                 read_csv('x.csv') or read_csv('x.csv', ';')"
            }
        }
    }
}

impl ReadFile {
    pub fn new(reads: Reads, threads: usize, interrupt: Interrupt) -> ReadFile {
        ReadFile { reads, threads, interrupt }
    }
}

impl TableFunctionImpl for ReadFile {
    fn call_with_args(&self, arguments: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let usage = || invalid(self.reads.usage());
        let texts = arguments.exprs().iter().map(|argument| match argument {
            Expr::Literal(ScalarValue::Utf8(Some(text)), _) => Ok(text.as_str()),
            _ => Err(usage()),
        });
        let texts = texts.collect::<Result<Vec<&str>>>()?;
        let (path, delimiter) = match (self.reads, &texts[..]) {
            (_, [path]) => (*path, b','),
            (Reads::Csv, [path, delimiter]) => match delimiter.as_bytes() {
                [delimiter] => (*path, *delimiter),
                _ => {
                    return Err(invalid(
                        "read_csv: the character between values must be one of ASCII",
                    ));
                }
            },
            _ => return Err(usage()),
        };
        let format =
            self.open(path, delimiter).map_err(|error| unreadable(path, self.reads, error))?;
        let schema = match &format {
            Format::Parquet(file) => file.schema(),
            Format::Csv(file) => file.schema(),
        };
        check_names(path, &schema)?;
        Ok(Arc::new(FileTable {
            path: path.to_string(),
            format,
            schema,
            threads: self.threads,
            interrupt: self.interrupt.clone(),
        }))
    }
}

impl ReadFile {
    fn open(&self, path: &str, delimiter: u8) -> std::result::Result<Format, ArrowError> {
        // Before it is opened, since opening a pipe waits for its other end.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::other("it is not a regular file; give the path of one").into());
        }
        Ok(match self.reads {
            Reads::Parquet => Format::Parquet(ParquetFile::open(&File::open(path)?)?),
            Reads::Csv => Format::Csv(CsvFile::open(path, delimiter, &self.interrupt)?),
        })
    }
}

/// A query cannot tell two columns of one name apart.
fn check_names(path: &str, schema: &SchemaRef) -> Result<()> {
    let fields = schema.fields();
    let twice = (1..fields.len())
        .find(|&at| fields[..at].iter().any(|before| before.name() == fields[at].name()));
    match twice {
        None => Ok(()),
        Some(at) => {
            Err(invalid(&format!("{path:?} has two columns {:?}; rename one", fields[at].name())))
        }
    }
}

/// The error of a file that cannot be opened or read.
fn unreadable(path: &str, reads: Reads, error: ArrowError) -> DataFusionError {
    let format = match reads {
        Reads::Parquet => "Parquet",
        Reads::Csv => "CSV",
    };
    let error = match error {
        ArrowError::IoError(_, error) => match error.downcast::<Error>() {
            Ok(ours) => return to_datafusion(ours),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let message = format!("there is no file {path:?}; check the path");
                return to_datafusion(Error::new(ErrorKind::NotFound, message));
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => error.to_string(),
            Err(error) => return to_datafusion(Error::io(format!("cannot read {path:?}"), error)),
        },
        ArrowError::ParquetError(message) => message,
        ArrowError::CsvError(message) | ArrowError::ParseError(message) => {
            CsvFile::reworded(&message)
        }
        other => other.to_string(),
    };
    let error = error.trim_start_matches("Parquet error: ");
    invalid(&format!("{path:?} cannot be read as {format}: {error}"))
}

fn invalid(message: &str) -> DataFusionError {
    to_datafusion(Error::new(ErrorKind::InvalidArgument, message))
}

#[async_trait]
impl TableProvider for FileTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Conditions choose row groups only; their rows are tested above.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = match projection {
            Some(projection) => projection.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let parts = match &self.format {
            Format::Csv(_) => vec![Vec::new()],
            Format::Parquet(file) => {
                let condition = conjunction(filters.to_vec()).and_then(|condition| {
                    let columns = DFSchema::try_from(self.schema.clone()).ok()?;
                    session.create_physical_expr(condition, &columns).ok()
                });
                spread(file, file.row_groups(condition), self.threads)
            }
        };
        let schema = Arc::new(self.schema.project(&columns)?);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(parts.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let properties = Arc::new(properties);
        Ok(Arc::new(FileExec { file: self.clone(), columns, parts, limit, properties }))
    }
}

/// Row groups in parts of about as many rows each, as many parts as are worth a thread.
fn spread(file: &ParquetFile, row_groups: Vec<usize>, threads: usize) -> Vec<Vec<usize>> {
    let rows = file.rows(&row_groups);
    let count = threads.min(rows / THREAD_ROWS).min(row_groups.len()).max(1);
    let (mut parts, mut before) = (vec![Vec::new(); count], 0);
    for row_group in row_groups {
        parts[(before * count / rows.max(1)).min(count - 1)].push(row_group);
        before += file.rows(&[row_group]);
    }
    parts
}

/// Reads some columns of a file.
#[derive(Debug, Clone)]
struct FileExec {
    file: FileTable,
    columns: Vec<usize>,
    /// What each partition reads of Parquet: its row groups.
    parts: Vec<Vec<usize>>,
    limit: Option<usize>,
    properties: Arc<PlanProperties>,
}

impl FileExec {
    /// The batches of a partition, with the columns in the order of the file.
    fn batches(&self, part: usize, rising: &[usize]) -> std::result::Result<Batches, ArrowError> {
        Ok(match &self.file.format {
            Format::Parquet(file) => {
                let opened = File::open(&self.file.path)?;
                Box::new(file.read(opened, rising, self.parts[part].clone(), self.limit)?)
            }
            Format::Csv(file) => {
                // Lines are counted by their values, so one column is read where none is wanted.
                let wanted = if rising.is_empty() { &[0] } else { rising };
                Box::new(file.read(&self.file.path, wanted, &self.file.interrupt)?)
            }
        })
    }

    /// Calls `send` with batch after batch of a partition until it says that no more are wanted.
    fn read(&self, part: usize, mut send: impl FnMut(RecordBatch) -> bool) -> Result<()> {
        let reads = match self.file.format {
            Format::Parquet(_) => Reads::Parquet,
            Format::Csv(_) => Reads::Csv,
        };
        let unreadable = |error| unreadable(&self.file.path, reads, error);
        let mut rising = self.columns.clone();
        rising.sort_unstable();
        let order: Vec<usize> = self
            .columns
            .iter()
            .map(|column| rising.binary_search(column).expect("it is one of them"))
            .collect();
        let mut left = self.limit.unwrap_or(usize::MAX);
        for batch in self.batches(part, &rising).map_err(unreadable)? {
            self.file.interrupt.check().map_err(to_datafusion)?;
            let batch = batch.map_err(unreadable)?.project(&order)?;
            let batch = batch.slice(0, batch.num_rows().min(left));
            left -= batch.num_rows();
            if !send(normalised_rows(batch)) || left == 0 {
                break;
            }
        }
        Ok(())
    }
}

impl DisplayAs for FileExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let names = self.columns.iter().map(|&column| self.file.schema.field(column).name());
        let names: Vec<&str> = names.map(String::as_str).collect();
        let mut parts = vec![("file", self.file.path.clone())];
        parts.push(("columns", format!("[{}]", names.join(", "))));
        if let Format::Parquet(_) = self.file.format {
            parts.push(("row_groups", self.parts.iter().map(Vec::len).sum::<usize>().to_string()));
        }
        parts.extend(self.limit.map(|limit| ("limit", limit.to_string())));
        show_scan("FileScan", &parts, format, f)
    }
}

impl ExecutionPlan for FileExec {
    fn name(&self) -> &'static str {
        "FileScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a file scan has no children") }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let scan = self.clone();
        let mut stream = RecordBatchReceiverStreamBuilder::new(self.schema(), BATCHES_AHEAD);
        let sender = stream.tx();
        stream.spawn_blocking(move || {
            scan.read(partition, |batch| sender.blocking_send(Ok(batch)).is_ok())
        });
        Ok(stream.build())
    }

    /// The number of rows, so that of two sides of a join the smaller one is held.
    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let rows = match &self.file.format {
            Format::Csv(_) => Precision::Absent,
            Format::Parquet(file) => {
                let rows = match partition {
                    Some(partition) => file.rows(&self.parts[partition]),
                    None => self.parts.iter().map(|part| file.rows(part)).sum(),
                };
                match self.limit {
                    None => Precision::Exact(rows),
                    Some(limit) => Precision::Inexact(rows.min(limit)),
                }
            }
        };
        Ok(Arc::new(Statistics::new_unknown(&self.schema()).with_num_rows(rows)))
    }
}

//! A Parquet file as rows of a query: some columns of some row groups.
//!
//! DataFusion has a reader of its own behind a feature. It would bring another build of the `parquet` crate, with
//! asynchronous reads and an object store; this one takes the crate as the command has it already.

use std::collections::HashSet;
use std::fs::File;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, UInt64Array};
use arrow_schema::{ArrowError, DataType, FieldRef, Fields, Schema, SchemaRef};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::reader::ChunkReader;

/// Rows of a batch.
const BATCH_ROWS: usize = 8192;

/// Reads the footer of a Parquet file, with the types that its columns are read as.
///
/// Where Arrow's schema in the file has a dictionary of other values than strings and bytes, these come without one: the reader has none of
/// booleans and decimals.
///
/// # Errors
/// If the file is damaged.
pub fn parquet_metadata(file: &impl ChunkReader) -> Result<ArrowReaderMetadata, ParquetError> {
    let metadata = ArrowReaderMetadata::load(file, ArrowReaderOptions::new())?;
    let plain = |field: &FieldRef| match field.data_type() {
        DataType::Dictionary(_, values)
            if !values.is_string()
                && !matches!(**values, DataType::Binary | DataType::LargeBinary) =>
        {
            Arc::new(field.as_ref().clone().with_data_type(values.as_ref().clone()))
        }
        _ => field.clone(),
    };
    let columns: Fields = metadata.schema().fields().iter().map(plain).collect();
    if &columns == metadata.schema().fields() {
        return Ok(metadata);
    }
    let schema = Schema::new_with_metadata(columns, metadata.schema().metadata().clone());
    let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
    ArrowReaderMetadata::try_new(metadata.metadata().clone(), options)
}

/// An open file, with what its footer says.
#[derive(Debug, Clone)]
pub struct ParquetFile {
    metadata: ArrowReaderMetadata,
}

impl ParquetFile {
    /// Reads the footer.
    pub fn open(file: &File) -> Result<ParquetFile, ParquetError> {
        Ok(ParquetFile { metadata: parquet_metadata(file)? })
    }

    pub fn schema(&self) -> SchemaRef {
        self.metadata.schema().clone()
    }

    /// All row groups, by position, or those in which a row may meet a condition on the file's columns.
    pub fn row_groups(&self, condition: Option<Arc<dyn PhysicalExpr>>) -> Vec<usize> {
        let count = self.metadata.metadata().num_row_groups();
        let predicate = condition.and_then(|condition| {
            PruningPredicateBuilder::new()
                .with_file_schema(self.metadata.schema().clone())
                .try_build(condition)
                .ok()
        });
        // What cannot be judged is read.
        let kept = predicate.and_then(|predicate| predicate.prune(&RowGroups(self)).ok());
        match kept {
            Some(kept) if kept.len() == count => (0..count).filter(|&at| kept[at]).collect(),
            _ => (0..count).collect(),
        }
    }

    /// Rows of some row groups.
    pub fn rows(&self, row_groups: &[usize]) -> usize {
        let rows = |&at: &usize| self.metadata.metadata().row_group(at).num_rows();
        row_groups.iter().map(rows).sum::<i64>().try_into().unwrap_or(0)
    }

    /// Reads columns, by position in rising order, of some row groups.
    pub fn read(
        &self,
        file: File,
        columns: &[usize],
        row_groups: Vec<usize>,
        limit: Option<usize>,
    ) -> Result<ParquetRecordBatchReader, ParquetError> {
        let columns =
            ProjectionMask::roots(self.metadata.parquet_schema(), columns.iter().copied());
        let reader =
            ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
                .with_projection(columns)
                .with_row_groups(row_groups)
                .with_batch_size(BATCH_ROWS);
        match limit {
            None => reader.build(),
            Some(limit) => reader.with_limit(limit).build(),
        }
    }
}

/// The batches of a reader, with Arrow's errors.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

/// The statistics of a file's row groups.
struct RowGroups<'a>(&'a ParquetFile);

impl RowGroups<'_> {
    fn converter(&self, column: &Column) -> Option<StatisticsConverter<'_>> {
        let (schema, metadata) = (self.0.metadata.schema(), &self.0.metadata);
        let field = schema.field_with_name(&column.name).ok()?;
        // Writers leave NaN out of the bounds, and here it is greater than all other floats.
        if field.data_type().is_floating() {
            return None;
        }
        StatisticsConverter::try_new(&column.name, schema, metadata.parquet_schema()).ok()
    }
}

impl PruningStatistics for RowGroups<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        let row_groups = self.0.metadata.metadata().row_groups();
        self.converter(column)?.row_group_mins(row_groups).ok()
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        let row_groups = self.0.metadata.metadata().row_groups();
        self.converter(column)?.row_group_maxes(row_groups).ok()
    }

    fn num_containers(&self) -> usize {
        self.0.metadata.metadata().num_row_groups()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let row_groups = self.0.metadata.metadata().row_groups();
        let converter = self.converter(column)?.with_missing_null_counts_as_zero(false);
        Some(Arc::new(converter.row_group_null_counts(row_groups).ok()?))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let row_groups = self.0.metadata.metadata().row_groups();
        let rows = row_groups.iter().map(|row_group| row_group.num_rows().max(0) as u64);
        Some(Arc::new(UInt64Array::from_iter_values(rows)))
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

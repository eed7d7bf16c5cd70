//! What an estimate is of: aggregates, and the columns they need.

use arrow_array::RecordBatch;
use arrow_schema::DataType;
use arrow_select::filter::filter_record_batch;
use drillcore_format::key::encode_value;
use drillcore_format::schema::is_key_type;

use crate::error::{Error, Result};
use crate::read::estimate::aggregate::Aggregate;
use crate::read::estimate::request::EstimateRequest;
use crate::read::estimate::result::column_names;
use crate::read::snapshot::TableSnapshot;
use crate::schema::conform::cast;
use crate::select::predicate::Test;

/// An aggregate whose column was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Measure {
    Count,
    /// The mean of one of [`EstimatePlan::measures`], over its non-null values.
    Avg(usize),
}

/// An encoded value of the grouping column with its exact number of rows.
pub type KnownGroup = (Vec<u8>, u64);

/// The checked request.
pub struct EstimatePlan {
    pub aggregates: Vec<(String, Measure)>,
    pub by_name: Option<String>,
    /// Position of the grouping column among `columns`, and its type.
    pub by: Option<(usize, DataType)>,
    /// Positions of averaged columns among `columns`.
    pub measures: Vec<usize>,
    columns: Vec<usize>,
    test: Option<DrawnTest>,
}

/// Which of the drawn rows count.
struct DrawnTest {
    test: Test,
    /// Positions of its columns among those drawn.
    places: Vec<usize>,
}

impl EstimatePlan {
    pub fn new(
        table: &TableSnapshot,
        request: &EstimateRequest,
        test: Option<Test>,
    ) -> Result<EstimatePlan> {
        if request.aggregates.is_empty() {
            return Err(Error::invalid(
                "an estimate needs at least one aggregate, such as \"count\"",
            ));
        }
        let mut plan = EstimatePlan {
            aggregates: Vec::new(),
            by_name: request.by.clone(),
            by: None,
            measures: Vec::new(),
            columns: Vec::new(),
            test: None,
        };
        check_columns(request)?;
        for (name, aggregate) in &request.aggregates {
            let measure = match aggregate {
                Aggregate::Count => Measure::Count,
                Aggregate::Avg(column) => plan.average(table, column)?,
            };
            plan.aggregates.push((name.clone(), measure));
        }
        if let Some(by) = &request.by {
            let column = table.column(by)?;
            let data_type = table.schema().columns.field(column).data_type().clone();
            if !is_key_type(&data_type) {
                return Err(Error::invalid(format!(
                    "cannot group by column {by:?}: it has type {data_type}, and groups are of single \
                     values with an order"
                )));
            }
            plan.by = Some((plan.place(column), data_type));
        }
        if let Some(test) = test {
            let places = test.columns().iter().map(|&column| plan.place(column)).collect();
            plan.test = Some(DrawnTest { test, places });
        }
        Ok(plan)
    }

    /// Whether drawn rows have to pass a test to count.
    pub fn is_tested(&self) -> bool {
        self.test.is_some()
    }

    /// Those of the drawn rows that count.
    pub fn passing(&self, drawn: RecordBatch) -> Result<RecordBatch> {
        let Some(DrawnTest { test, places }) = &self.test else { return Ok(drawn) };
        let passes = test.passes(&drawn.project(places).expect("these columns were drawn"))?;
        Ok(filter_record_batch(&drawn, &passes).expect("one answer a row"))
    }

    /// The columns of the schema to draw.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The columns of the schema that are averaged.
    pub fn measured_columns(&self) -> Vec<usize> {
        self.measures.iter().map(|&place| self.columns[place]).collect()
    }

    /// When grouped by the set column, with no more asked than sets: each set that can occur with its exact
    /// number of rows.
    pub fn known_groups(
        &self,
        table: &TableSnapshot,
        request: &EstimateRequest,
    ) -> Result<Option<Vec<KnownGroup>>> {
        let set_column = table.schema().set_column();
        let by_set = self.by.as_ref().is_some_and(|(at, _)| set_column == Some(self.columns[*at]));
        if !by_set || request.selection.between.is_some() || request.selection.predicate.is_some() {
            return Ok(None);
        }
        // Where they have to be looked for, the sizes of sets are as unknown as those of other groups.
        if table.looks_for_sets() {
            return Ok(None);
        }
        let sets = table.sets_interruptibly(&request.interrupt)?;
        let schema = table.schema();
        let field = schema.columns.field(schema.set_column().expect("grouped by the set column"));
        // Of the column's type, as the sets are: other types are encoded otherwise.
        let wanted = request.selection.sets.as_ref();
        let wanted = wanted.map(|values| cast(values, field.data_type(), field.name()));
        let wanted: Option<Vec<Vec<u8>>> = wanted
            .transpose()?
            .map(|values| (0..values.len()).map(|row| encoded(&values, row)).collect());
        let groups =
            sets.rows.iter().enumerate().map(|(row, &rows)| (encoded(&sets.values, row), rows));
        let kept =
            groups.filter(|(value, _)| wanted.as_ref().is_none_or(|wanted| wanted.contains(value)));
        Ok(Some(kept.collect()))
    }

    fn average(&mut self, table: &TableSnapshot, name: &str) -> Result<Measure> {
        let column = table.column(name)?;
        let schema = table.schema();
        let data_type = schema.columns.field(column).data_type();
        if !(data_type.is_integer() || data_type.is_floating()) {
            return Err(Error::invalid(format!(
                "avg needs numbers, but column {name:?} has type {data_type}"
            )));
        }
        let place = self.place(column);
        let slot = self.measures.iter().position(|&known| known == place).unwrap_or_else(|| {
            self.measures.push(place);
            self.measures.len() - 1
        });
        Ok(Measure::Avg(slot))
    }

    /// The position of a column among those drawn.
    fn place(&mut self, column: usize) -> usize {
        self.columns.iter().position(|&known| known == column).unwrap_or_else(|| {
            self.columns.push(column);
            self.columns.len() - 1
        })
    }
}

/// Refuses a result in which two columns would have one name.
fn check_columns(request: &EstimateRequest) -> Result<()> {
    let aggregates = request.aggregates.iter().map(|(name, _)| name.as_str());
    let names = column_names(request.by.as_deref(), aggregates);
    match names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        None => Ok(()),
        Some((_, name)) => Err(Error::invalid(format!(
            "the result would have two columns {name:?}: it has the group, each aggregate with _low and _high, and \
             \"sampled\"; give the aggregates other names"
        ))),
    }
}

fn encoded(values: &arrow_array::ArrayRef, row: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_value(values, row, &mut bytes);
    bytes
}

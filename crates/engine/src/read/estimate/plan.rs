//! What an estimate is of: figures, and the columns they need.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, TimeUnit};
use arrow_select::filter::filter_record_batch;
use drillcore_format::key::encode_value;
use drillcore_format::schema::is_key_type;
use drillcore_format::type_name::type_name;

use crate::error::{Error, Result};
use crate::policy::table_policy::TablePolicy;
use crate::read::estimate::aggregate::Aggregate;
use crate::read::estimate::bounds::Known;
use crate::read::estimate::computed::{Computed, Expression};
use crate::read::estimate::request::{EstimateRequest, HalfWidth, Stop};
use crate::read::estimate::result::column_names;
use crate::read::snapshot::TableSnapshot;
use crate::schema::conform::cast;
use crate::schema::number::{is_time, number_type};
use crate::schema::unit::Unit;
use crate::select::predicate::Test;

/// An aggregate whose columns were found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Measure {
    /// The rows of a group.
    Count,
    /// What becomes of one of [`EstimatePlan::slots`].
    Of(Figure, usize),
}

/// What becomes of the values of a group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Figure {
    Values,
    Avg,
    Sum,
    Variance,
    StdDev,
    Quantile(f64),
    Min,
    Max,
    Ratio,
    Distinct,
}

impl Figure {
    /// Whether few large values may carry most of it.
    pub fn leans_on_tails(self) -> bool {
        matches!(
            self,
            Figure::Avg | Figure::Sum | Figure::Variance | Figure::StdDev | Figure::Ratio
        )
    }

    /// Whether it is a value of the column, or lies between two of them, so that the values need no sum.
    fn is_of_order(self) -> bool {
        matches!(self, Figure::Min | Figure::Max | Figure::Quantile(_))
    }

    /// What it is called in sentences.
    pub fn noun(self) -> &'static str {
        match self {
            Figure::Avg => "average",
            Figure::Variance => "variance",
            Figure::StdDev => "standard deviation",
            Figure::Quantile(_) => "quantile",
            Figure::Ratio => "ratio",
            Figure::Sum => "sum",
            Figure::Values | Figure::Distinct => "count",
            Figure::Min | Figure::Max => "value",
        }
    }
}

/// Values that figures are made of.
#[derive(Debug, Clone)]
pub struct Slot {
    pub input: Input,
    /// Whether single numbers are kept of those drawn, and of those read.
    pub keeps_drawn: bool,
    pub keeps_read: bool,
    /// Whether those read need moments, or their extremes.
    pub squares: bool,
    pub extremes: bool,
    /// Whether a row may lack a value; of a ratio, either of them.
    pub may_lack: bool,
    /// Whether it is a column of the table, all of whose values are in the bounds that pieces know.
    pub is_stored: bool,
    /// Of the values; of a ratio, of what becomes of them.
    pub data_type: DataType,
}

/// Positions among the columns of [`EstimatePlan::values`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Input {
    Numbers(usize),
    Pair(usize, usize),
    Values(usize),
}

impl Input {
    /// The columns whose numbers are added up.
    pub fn places(self) -> Vec<usize> {
        match self {
            Input::Numbers(place) => vec![place],
            Input::Pair(upper, lower) => vec![upper, lower],
            Input::Values(_) => Vec::new(),
        }
    }
}

/// The encoded values of a group with its exact number of rows.
pub type KnownGroup = (Vec<u8>, u64);

/// The checked request.
pub struct EstimatePlan {
    pub aggregates: Vec<(String, Measure)>,
    pub by_names: Vec<String>,
    /// Positions of the grouping columns, and their types.
    pub by: Vec<(usize, DataType)>,
    pub slots: Vec<Slot>,
    columns: Vec<usize>,
    sources: Vec<Source>,
    test: Option<DrawnTest>,
    /// What is drawn and counted.
    pub unit: Unit,
    /// Whether all rows of the pieces count, so that bounds are values that a row has.
    pub bounds_are_met: bool,
}

/// Where the values of a position come from.
enum Source {
    /// A column that is drawn.
    Drawn(usize),
    Computed(ComputedColumn),
}

struct ComputedColumn {
    name: String,
    expression: Arc<dyn Expression>,
    /// Positions of its columns among those drawn.
    places: Vec<usize>,
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
            by_names: request.by.clone(),
            by: Vec::new(),
            slots: Vec::new(),
            columns: Vec::new(),
            sources: Vec::new(),
            test: None,
            unit: TablePolicy::of(&table.table().layout).unit(request.unit),
            bounds_are_met: false,
        };
        check_columns(request)?;
        for (name, aggregate) in &request.aggregates {
            let measure = plan.measure(table, request, aggregate)?;
            plan.aggregates.push((name.clone(), measure));
        }
        plan.check_width(request.stop)?;
        for by in &request.by {
            let (place, data_type, _) = plan.place(table, request, by)?;
            if !is_key_type(&data_type) {
                return Err(Error::invalid(format!(
                    "cannot group by column {by:?}: it has type {}; group by a column of numbers, strings, dates, timestamps or \
                     booleans",
                    type_name(&data_type)
                )));
            }
            plan.by.push((place, data_type));
        }
        if let Some(test) = test {
            let places = test.columns().iter().map(|&column| plan.drawn_place(column)).collect();
            plan.test = Some(DrawnTest { test, places });
        }
        Ok(plan)
    }

    /// Whether drawn rows have to pass a test to count.
    pub fn is_tested(&self) -> bool {
        self.test.is_some()
    }

    /// The values of those of the drawn rows that count, position by position.
    pub fn passing(&self, drawn: RecordBatch) -> Result<RowValues> {
        let Some(DrawnTest { test, places }) = &self.test else { return self.values(&drawn) };
        let passes = test.passes(&drawn.project(places).expect("these columns were drawn"))?;
        self.values(&filter_record_batch(&drawn, &passes).expect("one answer per row"))
    }

    /// The values of rows that count, which hold [`EstimatePlan::columns`].
    pub fn values(&self, rows: &RecordBatch) -> Result<RowValues> {
        let value = |source: &Source| match source {
            Source::Drawn(column) => Ok(rows.column(*column).clone()),
            Source::Computed(computed) => computed.evaluate(rows),
        };
        let columns = self.sources.iter().map(value).collect::<Result<Vec<_>>>()?;
        Ok(RowValues { rows: rows.num_rows(), columns, times: None })
    }

    /// The columns of the schema to draw.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The columns of the schema whose bounds bound the numbers of a position; `None` where no column does.
    pub fn bounding_columns(&self, table: &TableSnapshot) -> Vec<Option<usize>> {
        let bounding = |source: &Source| match source {
            Source::Drawn(column) => Some(self.columns[*column]),
            Source::Computed(computed) => {
                computed.expression.chooses_from().and_then(|name| table.column(name).ok())
            }
        };
        let is_summed =
            |place: &usize| self.slots.iter().any(|slot| slot.input.places().contains(place));
        let places = self.sources.iter().enumerate();
        places.map(|(at, source)| bounding(source).filter(|_| is_summed(&at))).collect()
    }

    /// When grouped by the set column alone, with no more asked than sets: each set that can occur with its exact
    /// number of rows.
    pub fn known_groups(
        &self,
        table: &TableSnapshot,
        request: &EstimateRequest,
    ) -> Result<Option<Vec<KnownGroup>>> {
        // What a set index knows is how many rows a set has, not how many events.
        if self.unit == Unit::Events
            || !self.is_by_set(table)
            || request.selection.between.is_some()
            || request.selection.predicate.is_some()
        {
            return Ok(None);
        }
        // Where they have to be looked for, the sizes of sets are as unknown as those of other groups.
        if table.looks_for_sets() {
            return Ok(None);
        }
        let sets = table.sets()?;
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

    fn is_by_set(&self, table: &TableSnapshot) -> bool {
        let [(place, _)] = self.by[..] else { return false };
        let Source::Drawn(column) = self.sources[place] else { return false };
        table.schema().set_column() == Some(self.columns[column])
    }

    /// Refuses figures that no sample gives, where all there is to know of them is a sample. `known` is what is known of each
    /// position.
    pub fn check_sampled(&self, known: &[Known]) -> Result<()> {
        for (name, measure) in &self.aggregates {
            let Measure::Of(figure @ (Figure::Min | Figure::Max), slot) = *measure else {
                continue;
            };
            let Input::Numbers(place) = self.slots[slot].input else { continue };
            let is_known = self.extremes_are_known(slot) && known[place] != Known::Nothing;
            if !is_known {
                let which = if figure == Figure::Min { "smaller" } else { "larger" };
                return Err(Error::invalid(format!(
                    "{name} cannot be estimated from a sample, because a row that was not drawn may have a {which} value; stop by \
                     an error to read all rows, or use SQL"
                )));
            }
        }
        Ok(())
    }

    fn extremes_are_known(&self, slot: usize) -> bool {
        let is_plain = self.by.is_empty() && self.test.is_none() && self.slots[slot].is_stored;
        self.bounds_are_met && is_plain
    }

    /// The type of what becomes of values: extremes are values of the column, but of decimals, and quantiles of times are times.
    /// Others are floats.
    pub fn data_type(&self, measure: Measure) -> &DataType {
        match measure {
            Measure::Of(Figure::Min | Figure::Max, slot) => &self.slots[slot].data_type,
            Measure::Of(Figure::Quantile(_), slot) if is_time(&self.slots[slot].data_type) => {
                &self.slots[slot].data_type
            }
            _ => &DataType::Float64,
        }
    }

    /// Refuses an error that is a share of a time, which has no zero that means something.
    fn check_width(&self, stop: Stop) -> Result<()> {
        let Stop::Error(HalfWidth::Relative(_)) = stop else { return Ok(()) };
        for (name, measure) in &self.aggregates {
            let Measure::Of(Figure::Quantile(_), _) = measure else { continue };
            let unit = match self.data_type(*measure) {
                DataType::Date32 => "days",
                DataType::Timestamp(TimeUnit::Second, _) => "seconds",
                DataType::Timestamp(TimeUnit::Millisecond, _) => "milliseconds",
                DataType::Timestamp(TimeUnit::Microsecond, _) => "microseconds",
                DataType::Timestamp(TimeUnit::Nanosecond, _) => "nanoseconds",
                _ => continue,
            };
            return Err(Error::invalid(format!(
                "{name} is a time, so its error cannot be a share of it; give the error as a number of {unit}"
            )));
        }
        Ok(())
    }

    /// Whether some figure is known only once all rows are read.
    pub fn needs_all_rows(&self, known: &[Known]) -> bool {
        self.aggregates.iter().any(|(_, measure)| match *measure {
            Measure::Of(Figure::Distinct, _) => true,
            Measure::Of(Figure::Min | Figure::Max, slot) => match self.slots[slot].input {
                Input::Numbers(place) => {
                    !self.extremes_are_known(slot) || known[place] == Known::Nothing
                }
                _ => true,
            },
            _ => false,
        })
    }

    fn measure(
        &mut self,
        table: &TableSnapshot,
        request: &EstimateRequest,
        aggregate: &Aggregate,
    ) -> Result<Measure> {
        let mut of = |name: &str, figure: Figure, column: &str| -> Result<Measure> {
            let (place, data_type, may_lack) =
                self.number(table, request, name, column, figure.is_of_order())?;
            let slot = self.slot(Input::Numbers(place), data_type, may_lack);
            let slot_of = &mut self.slots[slot];
            slot_of.keeps_drawn |=
                matches!(figure, Figure::Variance | Figure::StdDev | Figure::Quantile(_));
            slot_of.keeps_read |= matches!(figure, Figure::Quantile(_));
            slot_of.squares |= matches!(figure, Figure::Variance | Figure::StdDev);
            slot_of.extremes |= matches!(figure, Figure::Min | Figure::Max);
            Ok(Measure::Of(figure, slot))
        };
        match aggregate {
            Aggregate::Count => Ok(Measure::Count),
            Aggregate::Avg(column) => of("avg", Figure::Avg, column),
            Aggregate::Sum(column) => of("sum", Figure::Sum, column),
            Aggregate::Variance(column) => of("variance", Figure::Variance, column),
            Aggregate::StdDev(column) => of("stddev", Figure::StdDev, column),
            Aggregate::Min(column) => of("min", Figure::Min, column),
            Aggregate::Max(column) => of("max", Figure::Max, column),
            Aggregate::Quantile(column, share) => {
                if !(0.0..=1.0).contains(share) {
                    return Err(Error::invalid(format!(
                        "a quantile takes a share from 0 to 1, such as 0.95, not {share}"
                    )));
                }
                // No zero has a sign.
                of("quantile", Figure::Quantile(share + 0.0), column)
            }
            Aggregate::Ratio(upper, lower) => {
                let (upper, _, upper_may_lack) =
                    self.number(table, request, "ratio", upper, false)?;
                let (lower, _, lower_may_lack) =
                    self.number(table, request, "ratio", lower, false)?;
                let may_lack = upper_may_lack || lower_may_lack;
                let slot = self.slot(Input::Pair(upper, lower), DataType::Float64, may_lack);
                Ok(Measure::Of(Figure::Ratio, slot))
            }
            Aggregate::Values(column) => {
                let (place, data_type, may_lack) = self.place(table, request, column)?;
                let (input, data_type) = match number_type(&data_type) {
                    Some(number_type) => (Input::Numbers(place), number_type),
                    None => (Input::Values(place), data_type),
                };
                if let Input::Values(_) = input
                    && !is_key_type(&data_type)
                {
                    return Err(Error::invalid(format!(
                        "cannot count the values of column {column:?}, which has type {}; count the rows where it is not \
                         null",
                        type_name(&data_type)
                    )));
                }
                Ok(Measure::Of(Figure::Values, self.slot(input, data_type, may_lack)))
            }
            Aggregate::Distinct(column) => {
                let (place, data_type, may_lack) = self.place(table, request, column)?;
                if !is_key_type(&data_type) {
                    return Err(Error::invalid(format!(
                        "distinct needs single values with an order, but column {column:?} has type {}",
                        type_name(&data_type)
                    )));
                }
                let slot = self.slot(Input::Values(place), data_type, may_lack);
                (self.slots[slot].keeps_drawn, self.slots[slot].keeps_read) = (true, true);
                Ok(Measure::Of(Figure::Distinct, slot))
            }
        }
    }

    fn slot(&mut self, input: Input, data_type: DataType, may_lack: bool) -> usize {
        self.slots.iter().position(|slot| slot.input == input).unwrap_or_else(|| {
            let is_stored = match input {
                Input::Numbers(place) => matches!(self.sources[place], Source::Drawn(_)),
                _ => false,
            };
            self.slots.push(Slot {
                input,
                keeps_drawn: false,
                keeps_read: false,
                squares: false,
                extremes: false,
                may_lack,
                is_stored,
                data_type,
            });
            self.slots.len() - 1
        })
    }

    /// The position of a column of numbers, or where `takes_times`, of dates or timestamps, its type, and whether a row may lack
    /// a value.
    fn number(
        &mut self,
        table: &TableSnapshot,
        request: &EstimateRequest,
        aggregate: &str,
        name: &str,
        takes_times: bool,
    ) -> Result<(usize, DataType, bool)> {
        let (place, data_type, may_lack) = self.place(table, request, name)?;
        let is_time = is_time(&data_type);
        if let Some(number_type) = number_type(&data_type) {
            return Ok((place, number_type, may_lack));
        }
        if is_time && takes_times {
            return Ok((place, data_type, may_lack));
        }
        let needed = if takes_times { "numbers, dates or timestamps" } else { "numbers" };
        let instead =
            if is_time { "; of times, estimate min, max, median or quantile" } else { "" };
        Err(Error::invalid(format!(
            "{aggregate} needs {needed}, but column {name:?} has type {}{instead}",
            type_name(&data_type)
        )))
    }

    /// The position of a column by name, its type, and whether it may be null.
    fn place(
        &mut self,
        table: &TableSnapshot,
        request: &EstimateRequest,
        name: &str,
    ) -> Result<(usize, DataType, bool)> {
        if let Some(computed) = request.computed.iter().find(|computed| computed.name == name) {
            let data_type = computed.expression.data_type().clone();
            return Ok((self.computed_place(table, computed)?, data_type, true));
        }
        let column = table.column(name)?;
        let field = table.schema().columns.field(column).clone();
        let may_be_null = TablePolicy::of(&table.table().layout).may_be_null(column);
        let drawn = self.drawn_place(column);
        let is_it = |source: &Source| matches!(source, Source::Drawn(known) if *known == drawn);
        let place = self.source(is_it, || Source::Drawn(drawn));
        Ok((place, field.data_type().clone(), may_be_null))
    }

    fn computed_place(&mut self, table: &TableSnapshot, computed: &Computed) -> Result<usize> {
        let mut places = Vec::new();
        for name in computed.expression.columns() {
            let column = table.column(name)?;
            places.push(self.drawn_place(column));
        }
        let is_it = |source: &Source| matches!(source, Source::Computed(known) if known.name == computed.name);
        let source = || {
            let Computed { name, expression } = computed.clone();
            Source::Computed(ComputedColumn { name, expression, places })
        };
        Ok(self.source(is_it, source))
    }

    fn source(&mut self, is_it: impl Fn(&Source) -> bool, new: impl FnOnce() -> Source) -> usize {
        self.sources.iter().position(is_it).unwrap_or_else(|| {
            self.sources.push(new());
            self.sources.len() - 1
        })
    }

    /// The position of a column among those drawn.
    fn drawn_place(&mut self, column: usize) -> usize {
        self.columns.iter().position(|&known| known == column).unwrap_or_else(|| {
            self.columns.push(column);
            self.columns.len() - 1
        })
    }
}

impl ComputedColumn {
    fn evaluate(&self, rows: &RecordBatch) -> Result<ArrayRef> {
        let read = rows.project(&self.places).expect("these columns were drawn");
        let values = self.expression.evaluate(&read)?;
        let (found, wanted) = (values.len(), rows.num_rows());
        if found != wanted || values.data_type() != self.expression.data_type() {
            return Err(Error::invalid(format!(
                "the expression {:?} gave {found} values of type {} for {wanted} rows; it must give one per row, of type {}",
                self.name,
                type_name(values.data_type()),
                type_name(self.expression.data_type())
            )));
        }
        Ok(values)
    }
}

/// The values of some rows, position by position.
pub struct RowValues {
    pub rows: usize,
    pub columns: Vec<ArrayRef>,
    /// How many events each row has, where events are counted.
    times: Option<Vec<u64>>,
}

impl RowValues {
    /// The same rows; each counts as often as `times` says.
    pub fn repeated(self, times: Vec<u64>) -> RowValues {
        assert_eq!(times.len(), self.rows, "one number per row");
        RowValues { times: Some(times), ..self }
    }

    /// How often each row counts; `None` where each does once.
    pub fn times(&self) -> Option<&[u64]> {
        self.times.as_deref()
    }

    /// How many rows or events these are.
    pub fn count(&self) -> u64 {
        self.times.as_ref().map_or(self.rows as u64, |times| times.iter().sum())
    }
}

/// Refuses a result in which two columns would have one name.
fn check_columns(request: &EstimateRequest) -> Result<()> {
    let aggregates = request.aggregates.iter().map(|(name, _)| name.as_str());
    let names = column_names(&request.by, aggregates);
    match names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        None => Ok(()),
        Some((_, name)) => Err(Error::invalid(format!(
            "the result would have two columns named {name:?}; group by each column once, and give aggregates other names (an \
             aggregate x has the columns x, x_low and x_high, and \"sampled\" is reserved)"
        ))),
    }
}

fn encoded(values: &ArrayRef, row: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_value(values, row, &mut bytes);
    bytes
}

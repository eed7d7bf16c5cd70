//! Conditions on rows. The engine parses nothing: the caller that parses text passes it a [`Predicate`].

use std::fmt;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use drillcore_format::schema::TableSchema;
use drillcore_format::statistics_page::Zones;

use crate::error::{Error, Result};
use crate::select::key_range::Between;

/// A condition that a row of a table meets or not, whatever the other rows are: asked twice, it answers
/// the same.
///
/// A condition may be taken apart: into a key range and sets, which indexes find, and a test of the rows
/// in them.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use std::sync::Arc;
///
/// use drillcore::arrow_array::cast::AsArray;
/// use drillcore::arrow_array::types::Int64Type;
/// use drillcore::arrow_array::{BooleanArray, RecordBatch};
/// use drillcore::{Predicate, Result, Selection};
///
/// #[derive(Debug)]
/// struct Late {
///     columns: [String; 1],
/// }
///
/// impl Predicate for Late {
///     fn columns(&self) -> &[String] {
///         &self.columns
///     }
///
///     fn select(&self, rows: &RecordBatch) -> Result<BooleanArray> {
///         let delays = rows.column(0).as_primitive::<Int64Type>();
///         Ok(delays.iter().map(|delay| delay.map(|delay| delay > 30)).collect())
///     }
///
///     fn text(&self) -> &str {
///         "delay > 30"
///     }
/// }
///
/// let late: Arc<dyn Predicate> = Arc::new(Late { columns: ["delay".to_string()] });
/// let selection = Selection { predicate: Some(late), ..Selection::default() };
/// assert_eq!(flights.snapshot()?.count(&selection)?, 38);
/// # drillcore::Result::Ok(())
/// ```
pub trait Predicate: fmt::Debug + Send + Sync {
    /// A key range that every row that passes lies in. Its ends may be in the wrong order: then none does.
    fn between(&self) -> Option<&Between> {
        None
    }

    /// Values of the set column, one of which every row that passes has; a null element stands for the
    /// rows without a value.
    fn sets(&self) -> Option<&ArrayRef> {
        None
    }

    /// Whether every row in the range and the sets passes, so that none need be tested.
    fn is_exact(&self) -> bool {
        false
    }

    /// Names of the columns that the test reads; may be none.
    fn columns(&self) -> &[String];

    /// Tests rows, which have exactly the columns of [`Predicate::columns`], in that order: one element a
    /// row. Null is no.
    fn select(&self, rows: &RecordBatch) -> Result<BooleanArray>;

    /// Names of the columns whose zones can show that no row passes; none by default.
    fn zone_columns(&self) -> &[String] {
        &[]
    }

    /// Which zones may hold a row that passes: one element per zone, and only false excludes one. What is known
    /// of the column `zone_columns()[at]` is `zones.column(at)`; `None` means that it may hold any value, as
    /// do null bounds.
    fn may_match(&self, zones: &Zones) -> Result<BooleanArray> {
        Ok(BooleanArray::from(vec![true; zones.len()]))
    }

    /// Says which condition this is: predicates with one text select the same rows of a table.
    fn text(&self) -> &str;
}

/// A predicate whose columns were found in a table.
#[derive(Debug, Clone)]
pub struct Test {
    predicate: Arc<dyn Predicate>,
    columns: Vec<usize>,
    zone_columns: Vec<usize>,
}

impl Test {
    /// What is left to test of a predicate, if anything is.
    pub fn new(schema: &TableSchema, predicate: &Arc<dyn Predicate>) -> Result<Option<Test>> {
        if predicate.is_exact() {
            return Ok(None);
        }
        let indexes = |names: &[String]| -> Result<Vec<usize>> {
            names.iter().map(|name| column(schema, name)).collect()
        };
        let (columns, zone_columns) =
            (indexes(predicate.columns())?, indexes(predicate.zone_columns())?);
        Ok(Some(Test { predicate: predicate.clone(), columns, zone_columns }))
    }

    /// What passes both.
    pub fn both(first: Option<&Test>, second: Option<Test>) -> Option<Test> {
        let (Some(first), Some(second)) = (first, &second) else {
            return first.cloned().or(second);
        };
        let columns: Vec<usize> = first.columns.iter().chain(&second.columns).copied().collect();
        let zone_columns = second.zone_columns.clone();
        let predicate = Arc::new(Both::new(&first.predicate, &second.predicate));
        Some(Test { predicate, columns, zone_columns })
    }

    /// The columns of the table that are read.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Which rows pass: no element is null. `rows` has the columns of [`Test::columns`] in that order.
    pub fn passes(&self, rows: &RecordBatch) -> Result<BooleanArray> {
        let passes = self.predicate.select(rows)?;
        check_answers(&passes, rows.num_rows(), "rows")?;
        Ok(match passes.nulls() {
            None => passes,
            Some(valid) => BooleanArray::new(passes.values() & valid.inner(), None),
        })
    }

    /// The columns of the table whose zones can exclude rows without changing an answer; see
    /// [`TableSchema::is_prunable`].
    pub fn prunable_columns(&self, schema: &TableSchema) -> Vec<usize> {
        self.zone_columns.iter().copied().filter(|&column| schema.is_prunable(column)).collect()
    }

    /// Whether each zone may hold a row that passes.
    pub fn may_match(&self, zones: &Zones) -> Result<Vec<bool>> {
        let may_match = self.predicate.may_match(&zones.renumbered(&self.zone_columns))?;
        check_answers(&may_match, zones.len(), "zones")?;
        Ok(may_match.iter().map(|answer| answer.unwrap_or(true)).collect())
    }
}

/// Two conditions. What the first knows of zones is not made use of.
#[derive(Debug)]
struct Both {
    first: Arc<dyn Predicate>,
    second: Arc<dyn Predicate>,
    columns: Vec<String>,
    text: String,
}

impl Both {
    fn new(first: &Arc<dyn Predicate>, second: &Arc<dyn Predicate>) -> Both {
        Both {
            first: first.clone(),
            second: second.clone(),
            columns: [first.columns(), second.columns()].concat(),
            text: format!("({}) and ({})", first.text(), second.text()),
        }
    }
}

impl Predicate for Both {
    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn select(&self, rows: &RecordBatch) -> Result<BooleanArray> {
        let of_first = self.first.columns().len();
        let (of_first, of_second): (Vec<usize>, Vec<usize>) =
            (0..self.columns.len()).partition(|&at| at < of_first);
        let part = |columns: &[usize]| rows.project(columns).expect("these columns were read");
        let first = self.first.select(&part(&of_first))?;
        // A row that is not shown must not fail the second, so it is not asked of it.
        let shown = filter_record_batch(&part(&of_second), &first).expect("one answer per row");
        let second = self.second.select(&shown)?;
        check_answers(&second, shown.num_rows(), "rows")?;
        let mut second = second.iter();
        let both = first.iter().map(|shown| match shown {
            Some(true) => second.next().expect("one answer for each row that is shown"),
            _ => Some(false),
        });
        Ok(both.collect())
    }

    fn zone_columns(&self) -> &[String] {
        self.second.zone_columns()
    }

    fn may_match(&self, zones: &Zones) -> Result<BooleanArray> {
        self.second.may_match(zones)
    }

    fn text(&self) -> &str {
        &self.text
    }
}

impl PartialEq for Test {
    fn eq(&self, other: &Test) -> bool {
        self.columns == other.columns && self.predicate.text() == other.predicate.text()
    }
}

fn check_answers(answers: &BooleanArray, wanted: usize, what: &str) -> Result<()> {
    if answers.len() == wanted {
        return Ok(());
    }
    let found = answers.len();
    Err(Error::invalid(format!(
        "the predicate returned {found} answers for {wanted} {what}; it must return one per row"
    )))
}

/// The index of a table's column.
pub fn column(schema: &TableSchema, name: &str) -> Result<usize> {
    let columns = &schema.columns;
    let names = || columns.fields().iter().map(|field| field.name().as_str());
    columns.index_of(name).map_err(|_| Error::unknown("column", name, names()))
}

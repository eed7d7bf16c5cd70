//! Bringing a caller's batch to the table's columns and types, without losing anything on the way.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, Field, FieldRef, Schema};
use arrow_select::filter::FilterBuilder;
use drillcore_format::schema::{MergePolicy, TableSchema};
use drillcore_format::type_name::type_name;
use drillcore_format::value_bytes::value_bytes;
use drillcore_format::weight::{self, NoWeight};

use crate::error::{Error, Result};
use crate::schema::exact_cast::exact_cast;
use crate::schema::value_limits::too_long;

/// What to do with rows that do not fit the table.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use std::sync::Arc;
///
/// use drillcore::OnError;
/// use drillcore::arrow_array::{Int64Array, RecordBatch};
///
/// let ids = Arc::new(Int64Array::from(vec![Some(100), None]));
/// let delays = Arc::new(Int64Array::from(vec![5, 6]));
/// let batch = RecordBatch::try_from_iter([("id", ids as _), ("delay", delays as _)]).unwrap();
/// assert!(flights.append(&batch, OnError::Raise).is_err(), "a row has no id");
/// assert_eq!(flights.append(&batch, OnError::Skip)?.rows, 1);
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnError {
    /// Refuse the whole batch, naming the first such row.
    #[default]
    Raise,
    /// Leave them out, and report them.
    Skip,
}

/// How a batch is appended. An [`OnError`] stands for the options with that and the rest as by default.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use drillcore::{AppendOptions, OnError};
///
/// let options = AppendOptions { fill_nulls: true, ..AppendOptions::from(OnError::Skip) };
/// # let batch = flights.snapshot()?.scan(Default::default())?.next().unwrap()?;
/// assert_eq!(flights.append(&batch, options)?.rows, 100);
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AppendOptions {
    /// What happens to rows that do not fit.
    pub on_error: OnError,
    /// Whether columns that the batch lacks are null in its rows, also in an upsert table. There an appended
    /// row replaces the whole row of its key, so without this a batch has every column that the table was
    /// made with. Columns added later may always be missing, so that those who append need not change first. Weights and
    /// columns that are not nullable are never filled.
    pub fill_nulls: bool,
}

impl From<OnError> for AppendOptions {
    fn from(on_error: OnError) -> AppendOptions {
        AppendOptions { on_error, ..AppendOptions::default() }
    }
}

/// A row that was left out.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use std::sync::Arc;
///
/// use drillcore::OnError;
/// use drillcore::arrow_array::{Int64Array, RecordBatch};
///
/// let ids = Arc::new(Int64Array::from(vec![100, 101]));
/// let delays = Arc::new(Int64Array::from(vec![Some(5), None]));
/// let batch = RecordBatch::try_from_iter([("id", ids as _), ("delay", delays as _)]).unwrap();
/// let rejected = flights.append(&batch, OnError::Skip)?.rejected;
/// assert_eq!(rejected[0].row, 1);
/// println!("{}", rejected[0].reason);
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejected {
    /// Its position in the batch.
    pub row: u64,
    /// What is wrong with it.
    pub reason: String,
}

/// A batch in the table's shape, and the rows that had to stay out.
pub struct Conformed {
    pub batch: RecordBatch,
    pub rejected: Vec<Rejected>,
}

/// Matches columns by name and casts them where nothing is lost. Nullable columns that are neither key
/// columns nor weights may be missing and read as null; in an upsert table see [`AppendOptions::fill_nulls`]. `keyed`
/// are the columns whose values become part of the key, those of `schema.key` among them.
pub fn conform(
    schema: &TableSchema,
    keyed: &[usize],
    batch: &RecordBatch,
    options: AppendOptions,
) -> Result<Conformed> {
    conform_columns(schema, keyed, batch, options, cast_rows)
}

/// [`conform`] for rows that are encoded: columns of texts that came as dictionaries stay so; of what is folded, those of the key.
pub fn conform_by_code(
    schema: &TableSchema,
    keyed: &[usize],
    batch: &RecordBatch,
    options: AppendOptions,
) -> Result<Conformed> {
    conform_columns(schema, keyed, batch, options, |values, to, column| {
        let is_keyed = || keyed.iter().any(|&keyed| schema.columns.field(keyed).name() == column);
        let may_stay = !matches!(schema.merge, MergePolicy::Rollup(_)) || is_keyed();
        let by_code = if may_stay { with_texts(values, to, column)? } else { None };
        match by_code {
            Some(by_code) => Ok((by_code, Vec::new())),
            None => cast_rows(values, to, column),
        }
    })
}

fn conform_columns(
    schema: &TableSchema,
    keyed: &[usize],
    batch: &RecordBatch,
    options: AppendOptions,
    cast: impl Fn(&ArrayRef, &DataType, &str) -> Result<(ArrayRef, Vec<Rejected>)>,
) -> Result<Conformed> {
    let AppendOptions { on_error, fill_nulls } = options;
    let places = places(schema, batch)?;
    let whole_row = if fill_nulls { 0 } else { schema.whole_row_columns().len() };
    let mut lacking: Vec<&str> = Vec::new();
    let mut columns = Vec::with_capacity(schema.columns.fields().len());
    let mut rejected: Vec<Rejected> = Vec::new();
    for (index, field) in schema.columns.fields().iter().enumerate() {
        let Some(values) = places[index].map(|place| batch.column(place)) else {
            columns.push(missing_column(schema, index, batch.num_rows())?);
            lacking.extend((index < whole_row).then_some(field.name().as_str()));
            continue;
        };
        let (values, bad) = cast(values, field.data_type(), field.name())?;
        rejected.extend(bad);
        if !field.is_nullable() {
            rejected.extend(nulls_in(field, &values));
        }
        if schema.weights.contains(&index) {
            rejected.extend(without_weight(field, &values));
        }
        columns.push(values);
    }
    if !lacking.is_empty() {
        return Err(Error::lacks_columns("the batch", &lacking));
    }
    let too_long = too_long(&schema.columns, keyed, schema.set_column(), &columns);
    rejected.extend(too_long.into_iter().map(|(row, reason)| Rejected { row: row as u64, reason }));
    rejected.sort_by_key(|rejected| rejected.row);
    rejected.dedup_by_key(|rejected| rejected.row);
    if let (Some(first), OnError::Raise) = (rejected.first(), on_error) {
        let more = match rejected.len() {
            1 => String::new(),
            2 => ". 1 more row does not fit".to_string(),
            n => format!(". {} more rows do not fit", n - 1),
        };
        return Err(Error::invalid(format!("row {}: {}{more}", first.row, first.reason)));
    }
    let batch = keep_good_rows(schema, columns, batch.num_rows(), &rejected)?;
    Ok(Conformed { batch, rejected })
}

/// Casts values to a column's type, or says which value does not fit.
pub fn cast(values: &ArrayRef, to: &DataType, column: &str) -> Result<ArrayRef> {
    let (values, bad) = cast_rows(values, to, column)?;
    match bad.into_iter().next() {
        Some(first) => Err(Error::invalid(first.reason)),
        None => Ok(values),
    }
}

/// Where the batch has each column of the table, if it does.
fn places(schema: &TableSchema, batch: &RecordBatch) -> Result<Vec<Option<usize>>> {
    let (known, given) = (schema.columns.fields(), batch.schema_ref().fields());
    let mut in_order = known.iter().zip(given).map(|(known, given)| known.name() == given.name());
    if given.len() == known.len() && in_order.all(|is_same| is_same) {
        return Ok((0..known.len()).map(Some).collect());
    }
    let mut by_name: HashMap<&str, usize> = HashMap::with_capacity(given.len());
    for (place, field) in given.iter().enumerate() {
        if by_name.insert(field.name(), place).is_some() {
            return Err(Error::invalid(format!(
                "column {:?} appears twice in the batch; rename or remove one",
                field.name()
            )));
        }
    }
    let places: Vec<_> = known.iter().map(|field| by_name.remove(field.name().as_str())).collect();
    match by_name.into_iter().min_by_key(|&(_, place)| place) {
        None => Ok(places),
        Some((unknown, _)) => {
            let valid = known.iter().map(|field| field.name().as_str());
            Err(Error::unknown("column", unknown, valid))
        }
    }
}

fn missing_column(schema: &TableSchema, index: usize, rows: usize) -> Result<ArrayRef> {
    let field = schema.columns.field(index);
    if schema.key.contains(&index) {
        return Err(Error::invalid(format!(
            "the batch lacks key column {:?}; add it",
            field.name()
        )));
    }
    if schema.weights.contains(&index) {
        return Err(Error::invalid(format!(
            "the batch lacks weight column {:?}, which cannot hold null; add it, with 0 for rows that samples by weight do not draw",
            field.name()
        )));
    }
    if !field.is_nullable() {
        return Err(Error::invalid(format!(
            "the batch lacks column {:?}, which is not nullable; add it",
            field.name()
        )));
    }
    Ok(new_null_array(field.data_type(), rows))
}

fn nulls_in(field: &Field, values: &ArrayRef) -> Vec<Rejected> {
    let Some(nulls) = values.logical_nulls().filter(|nulls| nulls.null_count() > 0) else {
        return Vec::new();
    };
    (0..values.len())
        .filter(|&row| nulls.is_null(row))
        .map(|row| Rejected {
            row: row as u64,
            reason: format!(
                "column {:?} is not nullable, but the value is null; give it a value",
                field.name()
            ),
        })
        .collect()
}

/// The rows whose value is no weight.
fn without_weight(field: &Field, values: &ArrayRef) -> Vec<Rejected> {
    if weight::units(values).is_ok() {
        return Vec::new();
    }
    let fault = |row: usize| weight::units(&values.slice(row, 1)).err().map(|(_, why)| (row, why));
    let reason = |why| match why {
        NoWeight::Null => "cannot hold null; use 0 for a row that samples by weight do not draw",
        NoWeight::Negative => "cannot hold a negative number; use 0 or more",
        NoWeight::NotFinite => "must hold a finite number",
        NoWeight::TooLarge => "must hold a number below 2^32",
    };
    (0..values.len())
        .filter_map(fault)
        .map(|(row, why)| Rejected {
            row: row as u64,
            reason: format!("weight column {:?} {}", field.name(), reason(why)),
        })
        .collect()
}

/// Texts of a larger dictionary are not all looked at.
const DICTIONARY_BYTES_MAX: usize = 64 << 20;

/// A dictionary whose values are texts, wherever they lie in memory, with those in the type of the table's texts. `None` for other
/// columns, and for a large dictionary, of which few values may be used.
fn with_texts(values: &ArrayRef, to: &DataType, column: &str) -> Result<Option<ArrayRef>> {
    let DataType::Dictionary(..) = values.data_type() else { return Ok(None) };
    let by_code = values.as_any_dictionary();
    let texts = by_code.values();
    if *to != DataType::Utf8
        || texts.is_empty()
        || texts.len() > values.len()
        || value_bytes(texts) > DICTIONARY_BYTES_MAX
    {
        return Ok(None);
    }
    match texts.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            Ok(Some(by_code.with_values(cast(texts, to, column)?)))
        }
        _ => Ok(None),
    }
}

/// Casts what can be cast, and lists the rows whose value would change.
fn cast_rows(values: &ArrayRef, to: &DataType, column: &str) -> Result<(ArrayRef, Vec<Rejected>)> {
    let cast = exact_cast(values, to, column)?;
    let reason = |row: usize| {
        let options = FormatOptions::default().with_display_error(false);
        let shown = ArrayFormatter::try_new(values, &options)
            .and_then(|formatter| formatter.value(row).try_to_string());
        // A time may be beyond all that calendars have.
        let value =
            shown.unwrap_or_else(|_| format!("a {} out of range", type_name(values.data_type())));
        format!(
            "column {column:?} stores {}, which cannot hold {value}; correct the value",
            type_name(to)
        )
    };
    let rejected = |row: usize| Rejected { row: row as u64, reason: reason(row) };
    Ok((cast.values, cast.unfit.into_iter().map(rejected).collect()))
}

fn keep_good_rows(
    schema: &TableSchema,
    mut columns: Vec<ArrayRef>,
    mut rows: usize,
    rejected: &[Rejected],
) -> Result<RecordBatch> {
    let fault =
        |error: arrow_schema::ArrowError| Error::invalid(error.to_string()).with_source(error);
    if !rejected.is_empty() {
        let mut keep = vec![true; rows];
        rejected.iter().for_each(|rejected| keep[rejected.row as usize] = false);
        let keep = FilterBuilder::new(&BooleanArray::from(keep)).optimize().build();
        rows = keep.count();
        // Column by column: bad rows may hold nulls where the table allows none.
        let kept = columns.iter().map(|column| keep.filter(column));
        columns = kept.collect::<std::result::Result<_, _>>().map_err(fault)?;
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let fields = schema.columns.fields().iter().zip(&columns);
    let shape = match fields.clone().all(|(field, array)| field.data_type() == array.data_type()) {
        true => schema.columns.clone(),
        false => {
            let of_array = |(field, array): (&FieldRef, &ArrayRef)| {
                field.as_ref().clone().with_data_type(array.data_type().clone())
            };
            Arc::new(Schema::new(fields.map(of_array).collect::<Vec<_>>()))
        }
    };
    RecordBatch::try_new_with_options(shape, columns, &options).map_err(fault)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::builder::{ListBuilder, NullBuilder, StringBuilder};
    use arrow_array::{
        BinaryArray, Float64Array, Int32Array, Int64Array, StringArray, StringViewArray,
    };

    fn schema() -> TableSchema {
        let columns = Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int64, false),
            Field::new("name", DataType::Utf8, true),
        ]));
        TableSchema::new(columns, vec![0])
    }

    fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
            .unwrap()
    }

    fn error(batch: &RecordBatch) -> String {
        conform(&schema(), &schema().key, batch, OnError::Raise.into())
            .err()
            .expect("refused")
            .to_string()
    }

    #[test]
    fn columns_are_matched_by_name_and_cast_when_nothing_is_lost() {
        let given = batch(vec![
            ("name", Arc::new(StringViewArray::from(vec!["a", "b"]))),
            ("id", Arc::new(Int32Array::from(vec![1, 2]))),
        ]);
        let conformed =
            conform(&schema(), &schema().key, &given, OnError::Raise.into()).unwrap().batch;
        assert_eq!(conformed.schema(), schema().columns);
        assert_eq!(conformed.column(0).as_ref(), &Int64Array::from(vec![1, 2]) as &dyn Array);
        assert_eq!(conformed.column(1).as_ref(), &StringArray::from(vec!["a", "b"]) as &dyn Array);
        let without_name = batch(vec![("id", Arc::new(Float64Array::from(vec![1.0])))]);
        assert_eq!(
            conform(&schema(), &schema().key, &without_name, OnError::Raise.into())
                .unwrap()
                .batch
                .column(1)
                .null_count(),
            1
        );
    }

    #[test]
    fn the_ways_to_lay_out_binary_and_lists_are_one_type() {
        let list = DataType::new_list(DataType::Utf8, true);
        let bytes = BinaryArray::from(vec![Some(&b"ab"[..]), None, Some(b"\xff\0")]);
        let bytes: ArrayRef = Arc::new(bytes);
        let fixed = DataType::FixedSizeBinary(2);
        for layout in [fixed, DataType::LargeBinary, DataType::BinaryView, DataType::Binary] {
            let given = arrow_cast::cast(&bytes, &layout).unwrap();
            assert_eq!(&cast(&given, &DataType::Binary, "photo").unwrap(), &bytes, "{layout}");
        }
        let mut lists = ListBuilder::new(StringBuilder::new());
        lists.append_value([Some("a"), None]);
        lists.append_null();
        lists.append_value([Some("é"), Some("")]);
        let lists: ArrayRef = Arc::new(lists.finish());
        for item in [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View] {
            let item = Arc::new(Field::new("element", item, true));
            for layout in [
                DataType::List(item.clone()),
                DataType::LargeList(item.clone()),
                DataType::ListView(item.clone()),
                DataType::LargeListView(item.clone()),
                DataType::FixedSizeList(item, 2),
            ] {
                let given = arrow_cast::cast(&lists, &layout).unwrap();
                assert_eq!(given.data_type(), &layout);
                assert_eq!(&cast(&given, &list, "tags").unwrap(), &lists, "{layout}");
            }
        }
        let mut empty = ListBuilder::new(NullBuilder::new());
        empty.append(true);
        let empty: ArrayRef = Arc::new(empty.finish());
        assert_eq!(cast(&empty, &list, "tags").unwrap().as_list::<i32>().value_length(0), 0);
        let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        for (values, to) in [(&text, &DataType::Binary), (&text, &list), (&lists, &DataType::Utf8)]
        {
            assert!(cast(values, to, "x").unwrap_err().to_string().contains("was given"));
        }
    }

    #[test]
    fn a_value_that_would_change_is_refused_by_row() {
        let given = batch(vec![("id", Arc::new(Float64Array::from(vec![1.0, 1.5, f64::NAN])))]);
        assert_eq!(
            error(&given),
            r#"row 1: column "id" stores int64, which cannot hold 1.5; correct the value. 1 more row does not fit"#
        );
    }

    #[test]
    fn skip_keeps_the_good_rows_and_reports_the_bad_ones() {
        let given = batch(vec![("id", Arc::new(Int64Array::from(vec![Some(7), None, Some(9)])))]);
        let conformed = conform(&schema(), &schema().key, &given, OnError::Skip.into()).unwrap();
        assert_eq!(conformed.batch.num_rows(), 2);
        let reason = r#"column "id" is not nullable, but the value is null; give it a value"#;
        let reason = reason.to_string();
        assert_eq!(conformed.rejected, [Rejected { row: 1, reason }]);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_names() {
        let text: ArrayRef = Arc::new(StringArray::from(vec!["1"]));
        let id: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        assert_eq!(
            error(&batch(vec![("id", text.clone())])),
            r#"column "id" stores int64, but string was given"#
        );
        assert_eq!(
            error(&batch(vec![("name", text.clone())])),
            r#"the batch lacks key column "id"; add it"#
        );
        assert_eq!(
            error(&batch(vec![("id", id.clone()), ("nmae", text)])),
            r#"unknown column "nmae"; did you mean "name"?"#
        );
        assert_eq!(
            error(&batch(vec![("id", id.clone()), ("id", id)])),
            r#"column "id" appears twice in the batch; rename or remove one"#
        );
    }
}

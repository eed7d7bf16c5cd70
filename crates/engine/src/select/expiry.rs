//! Which rows have expired, as questions about the column that tells.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Date32Array, Int64Array, RecordBatch};
use arrow_schema::DataType;
use drillcore_format::schema::{ExpiryLimit, TableSchema};
use drillcore_format::statistics_page::Zones;

use crate::error::Result;
use crate::pieces::times::times;
use crate::select::key_range::{Between, Closed};
use crate::select::predicate::{Predicate, Test};
use crate::select::selection::{Question, Selection};

/// The rows that have expired: a key range where the column is the first of the key.
pub fn expired(schema: &TableSchema, limit: ExpiryLimit) -> Result<Question> {
    let predicate = Some(Arc::new(Expiry::new(schema, limit, true)) as Arc<dyn Predicate>);
    Selection { predicate, ..Selection::default() }.check(schema)
}

/// Whether a row has not expired.
pub fn unexpired(schema: &TableSchema, limit: ExpiryLimit) -> Result<Test> {
    let predicate: Arc<dyn Predicate> = Arc::new(Expiry::new(schema, limit, false));
    Ok(Test::new(schema, &predicate)?.expect("no key range says it"))
}

/// Rows on one side of the limit. One without a time never expires.
#[derive(Debug)]
struct Expiry {
    columns: [String; 1],
    before: i64,
    /// Which side.
    is_expired: bool,
    between: Option<Between>,
    text: String,
}

impl Expiry {
    fn new(schema: &TableSchema, limit: ExpiryLimit, is_expired: bool) -> Expiry {
        let ExpiryLimit { column, before } = limit;
        let field = schema.columns.field(column);
        let at = |time: i64| {
            let time: ArrayRef = match field.data_type() {
                DataType::Date32 => {
                    let day = time.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
                    Arc::new(Date32Array::from(vec![day]))
                }
                _ => Arc::new(Int64Array::from(vec![time])),
            };
            Some(vec![arrow_cast::cast(&time, field.data_type()).expect("integers are times")])
        };
        let is_first_of_key = schema.key[0] == column;
        let between = (is_expired && is_first_of_key).then(|| {
            // Without a low end, the rows without a time would be among them.
            let low = if field.is_nullable() { at(i64::MIN) } else { None };
            Between { low, high: at(before), closed: Closed::Left }
        });
        let side = if is_expired { "before" } else { "not before" };
        let text = format!("{:?} {side} {before}", field.name());
        Expiry { columns: [field.name().clone()], before, is_expired, between, text }
    }
}

impl Predicate for Expiry {
    fn between(&self) -> Option<&Between> {
        self.between.as_ref()
    }

    fn is_exact(&self) -> bool {
        self.between.is_some()
    }

    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn select(&self, rows: &RecordBatch) -> Result<BooleanArray> {
        let times = times(rows.column(0));
        let passes = |time: Option<i64>| {
            Some(time.is_some_and(|time| time < self.before) == self.is_expired)
        };
        Ok(times.iter().map(passes).collect())
    }

    fn zone_columns(&self) -> &[String] {
        if self.is_expired { &self.columns } else { &[] }
    }

    fn may_match(&self, zones: &Zones) -> Result<BooleanArray> {
        let Some(known) = zones.column(0) else {
            return Ok(BooleanArray::from(vec![true; zones.len()]));
        };
        let least = times(&known.mins);
        Ok(least.iter().map(|least| least.map(|least| least < self.before)).collect())
    }

    fn text(&self) -> &str {
        &self.text
    }
}

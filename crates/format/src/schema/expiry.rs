//! What of a table has expired at some moment.

use arrow_schema::{DataType, TimeUnit};

use crate::schema::rollup::StoredGranularity;
use crate::schema::table_schema::{MergePolicy, TableSchema};
use crate::schema::time_to_live::TimeToLive;

/// What has expired at some moment: values of a column of timestamps or dates, in its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpiryLimit {
    /// Index among the table's columns.
    pub column: usize,
    /// Rows with values below this one have expired.
    pub before: i64,
}

/// A date stands for all of its day.
const DAY_SECONDS: u32 = 86_400;

impl TableSchema {
    /// The same table with another time to live.
    pub fn with_ttl(&self, ttl: Option<TimeToLive>) -> TableSchema {
        TableSchema { ttl, ..self.clone() }
    }

    /// What has expired at `clock`, in seconds since 1970. A row whose time was truncated to a step expires by the end of
    /// the step, and one with a date by the end of the day in UTC.
    pub fn expiry_limit(&self, clock: u64) -> Option<ExpiryLimit> {
        let TimeToLive { column, seconds } = self.ttl?;
        let newest = clock as i128 - i128::from(seconds) - i128::from(self.step_seconds(column));
        let newest = match self.columns.field(column).data_type() {
            DataType::Date32 => newest.div_euclid(DAY_SECONDS.into()),
            DataType::Timestamp(TimeUnit::Second, _) => newest,
            DataType::Timestamp(TimeUnit::Millisecond, _) => newest * 1_000,
            DataType::Timestamp(TimeUnit::Microsecond, _) => newest * 1_000_000,
            DataType::Timestamp(TimeUnit::Nanosecond, _) => newest * 1_000_000_000,
            other => unreachable!("the time to live of a column of {other}"),
        };
        let before = newest + 1;
        let before = before.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        Some(ExpiryLimit { column, before })
    }

    /// Whether each stored row tells by itself whether it has expired, as those do that no other replaces, or that have the
    /// time in their key. Elsewhere the newest version of a row tells.
    pub fn expires_by_stored_row(&self) -> bool {
        let replaces = matches!(self.merge, MergePolicy::Upsert { .. });
        self.ttl.is_some_and(|ttl| !replaces || self.key.contains(&ttl.column))
    }

    /// The length of the steps that times of a column are truncated to.
    fn step_seconds(&self, column: usize) -> u32 {
        if *self.columns.field(column).data_type() == DataType::Date32 {
            return DAY_SECONDS;
        }
        let Some(rollup) = self.rollup() else { return 0 };
        let is_truncated = rollup.time.is_some_and(|position| self.key[position] == column);
        match rollup.granularity {
            StoredGranularity::Seconds(seconds) if is_truncated => seconds,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::{Field, Schema};

    use super::*;
    use crate::schema::rollup::Rollup;

    fn schema(unit: TimeUnit, merge: MergePolicy) -> TableSchema {
        let columns = vec![
            Field::new("ts", DataType::Timestamp(unit, None), false),
            Field::new("id", DataType::Int64, false),
        ];
        TableSchema {
            merge,
            ttl: Some(TimeToLive { column: 0, seconds: 10 }),
            ..TableSchema::new(Arc::new(Schema::new(columns)), vec![0])
        }
    }

    #[test]
    fn a_row_has_expired_once_its_time_to_live_is_over() {
        for (unit, per_second) in [
            (TimeUnit::Second, 1),
            (TimeUnit::Millisecond, 1_000),
            (TimeUnit::Microsecond, 1_000_000),
            (TimeUnit::Nanosecond, 1_000_000_000),
        ] {
            let limit = schema(unit, MergePolicy::Append).expiry_limit(1_000).unwrap();
            assert_eq!(limit, ExpiryLimit { column: 0, before: 990 * per_second + 1 });
        }
        let long = TimeToLive { column: 0, seconds: TimeToLive::SECONDS_MAX };
        let long = schema(TimeUnit::Nanosecond, MergePolicy::Append).with_ttl(Some(long));
        assert_eq!(long.check(), Ok(()));
        assert_eq!(long.expiry_limit(0).unwrap().before, -9_223_372_036_000_000_000 + 1);
        assert_eq!(long.expiry_limit(u64::MAX).unwrap().before, i64::MAX);
    }

    #[test]
    fn a_date_expires_by_the_end_of_its_day() {
        let mut daily = schema(TimeUnit::Second, MergePolicy::Append);
        daily.columns = Arc::new(Schema::new(vec![Field::new("day", DataType::Date32, false)]));
        assert_eq!(daily.check(), Ok(()));
        let day = u64::from(DAY_SECONDS);
        assert_eq!(daily.expiry_limit(3 * day + 9).unwrap().before, 2, "days 0 and 1");
        assert_eq!(daily.expiry_limit(3 * day + 10).unwrap().before, 3);
        assert_eq!(daily.expiry_limit(0).unwrap().before, -1);
    }

    #[test]
    fn a_step_expires_by_its_end() {
        let mut hourly = schema(TimeUnit::Second, MergePolicy::Append);
        hourly.merge = MergePolicy::Rollup(Rollup {
            events: hourly.columns.clone(),
            time: Some(0),
            granularity: StoredGranularity::Seconds(3_600),
            metrics: vec![],
            declared: 1,
            discovers: false,
        });
        assert_eq!(hourly.expiry_limit(3_609).unwrap().before, 0);
        assert_eq!(hourly.expiry_limit(3_610).unwrap().before, 1, "the step that begins at 0");
    }
}

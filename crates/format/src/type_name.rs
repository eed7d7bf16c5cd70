//! Names of types, as users write them in schemas.

use arrow_schema::{DataType, IntervalUnit, TimeUnit};

/// The name of a type: `int64`, `timestamp[us, UTC]`, `decimal128(10, 2)`. Of one that no column is stored in, the name
/// that pyarrow has for it.
///
/// ```
/// use arrow_schema::{DataType, TimeUnit};
/// use drillcore_format::type_name::type_name;
///
/// assert_eq!(type_name(&DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))), "timestamp[us, UTC]");
/// assert_eq!(type_name(&DataType::new_list(DataType::Utf8, true)), "list<string>");
/// ```
pub fn type_name(data_type: &DataType) -> String {
    let name = match data_type {
        DataType::Null => "null",
        DataType::Boolean => "bool",
        DataType::Int8 => "int8",
        DataType::Int16 => "int16",
        DataType::Int32 => "int32",
        DataType::Int64 => "int64",
        DataType::UInt8 => "uint8",
        DataType::UInt16 => "uint16",
        DataType::UInt32 => "uint32",
        DataType::UInt64 => "uint64",
        DataType::Float16 => "float16",
        DataType::Float32 => "float32",
        DataType::Float64 => "float64",
        DataType::Utf8 => "string",
        DataType::LargeUtf8 => "large_string",
        DataType::Utf8View => "string_view",
        DataType::Binary => "binary",
        DataType::LargeBinary => "large_binary",
        DataType::BinaryView => "binary_view",
        DataType::Date32 => "date32",
        DataType::Date64 => "date64",
        DataType::Interval(IntervalUnit::YearMonth) => "month_interval",
        DataType::Interval(IntervalUnit::DayTime) => "day_time_interval",
        DataType::Interval(IntervalUnit::MonthDayNano) => "month_day_nano_interval",
        other => return composed(other),
    };
    name.to_string()
}

/// The name of a type that is made of others, or of numbers.
fn composed(data_type: &DataType) -> String {
    match data_type {
        DataType::Timestamp(unit, None) => format!("timestamp[{}]", unit_name(*unit)),
        DataType::Timestamp(unit, Some(zone)) => format!("timestamp[{}, {zone}]", unit_name(*unit)),
        DataType::Time32(unit) => format!("time32[{}]", unit_name(*unit)),
        DataType::Time64(unit) => format!("time64[{}]", unit_name(*unit)),
        DataType::Duration(unit) => format!("duration[{}]", unit_name(*unit)),
        DataType::Decimal32(precision, scale) => format!("decimal32({precision}, {scale})"),
        DataType::Decimal64(precision, scale) => format!("decimal64({precision}, {scale})"),
        DataType::Decimal128(precision, scale) => format!("decimal128({precision}, {scale})"),
        DataType::Decimal256(precision, scale) => format!("decimal256({precision}, {scale})"),
        DataType::FixedSizeBinary(len) => format!("fixed_size_binary[{len}]"),
        DataType::List(item) => format!("list<{}>", type_name(item.data_type())),
        DataType::LargeList(item) => format!("large_list<{}>", type_name(item.data_type())),
        DataType::ListView(item) => format!("list_view<{}>", type_name(item.data_type())),
        DataType::LargeListView(item) => {
            format!("large_list_view<{}>", type_name(item.data_type()))
        }
        DataType::FixedSizeList(item, len) => {
            format!("fixed_size_list<{}>[{len}]", type_name(item.data_type()))
        }
        DataType::Struct(fields) => {
            let field = |field: &arrow_schema::FieldRef| {
                format!("{}: {}", field.name(), type_name(field.data_type()))
            };
            format!("struct<{}>", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
        DataType::Map(entry, _) => match entry.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {
                let of = |at: usize| type_name(fields[at].data_type());
                format!("map<{}, {}>", of(0), of(1))
            }
            other => format!("map<{}>", type_name(other)),
        },
        DataType::Dictionary(_, values) => format!("dictionary<{}>", type_name(values)),
        DataType::RunEndEncoded(_, values) => {
            format!("run_end_encoded<{}>", type_name(values.data_type()))
        }
        DataType::Union(_, _) => "union".to_string(),
        other => other.to_string(),
    }
}

fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

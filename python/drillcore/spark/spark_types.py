"""Columns of a table as columns of Spark, and back.

Spark has no unsigned integers, no seconds, milliseconds or nanoseconds, and no zone in a column. A column that has them
becomes the smallest type of Spark that holds all of its values, and the field's metadata keeps its own type, which a
write takes again. What Spark would round is refused by its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as st

from drillcore.arguments.names import unknown_name
from drillcore.arrow.schema import parse_type, plain_type
from drillcore.arrow.type_names import type_name
from drillcore.errors import Error, InvalidArgumentError, OutOfRangeError

TYPE_KEY = "drillcore_type"
"""The key of a field's metadata that holds the type of the column in the table, where Spark has another."""

_PLAIN: dict[pa.DataType, st.DataType] = {
    pa.bool_(): st.BooleanType(),
    pa.int8(): st.ByteType(),
    pa.int16(): st.ShortType(),
    pa.int32(): st.IntegerType(),
    pa.int64(): st.LongType(),
    pa.uint8(): st.ShortType(),
    pa.uint16(): st.IntegerType(),
    pa.uint32(): st.LongType(),
    pa.uint64(): st.DecimalType(20, 0),
    pa.float32(): st.FloatType(),
    pa.float64(): st.DoubleType(),
    pa.string(): st.StringType(),
    pa.binary(): st.BinaryType(),
    pa.date32(): st.DateType(),
}
_ARROW: dict[type[st.DataType], pa.DataType] = {
    st.BooleanType: pa.bool_(),
    st.ByteType: pa.int8(),
    st.ShortType: pa.int16(),
    st.IntegerType: pa.int32(),
    st.LongType: pa.int64(),
    st.FloatType: pa.float32(),
    st.DoubleType: pa.float64(),
    st.StringType: pa.string(),
    st.BinaryType: pa.binary(),
    st.DateType: pa.date32(),
    st.TimestampType: pa.timestamp("us", "UTC"),
    st.TimestampNTZType: pa.timestamp("us"),
}


def spark_schema(schema: pa.Schema, metadata: dict[str, Any] | None = None) -> st.StructType:
    """Return the columns of a table as Spark's; ``metadata`` is added to that of each.

    Raises
    ------
    InvalidArgumentError
        If Spark would round the values of a column.

    Examples
    --------
    >>> columns = pa.schema({"id": pa.uint32(), "at": pa.timestamp("s", "Europe/Oslo")})
    >>> spark_schema(columns).simpleString()
    'struct<id:bigint,at:timestamp>'
    """
    made = st.StructType()
    for field in schema:
        kind = spark_type(field)
        own = {} if arrow_type(kind) == field.type else {TYPE_KEY: str(field.type)}
        made = made.add(field.name, kind, field.nullable, {**own, **(metadata or {})})
    return made


def spark_type(field: pa.Field) -> st.DataType:
    """Return the type of Spark that holds every value of a column."""
    kind, is_a = plain_type(field.type), pa.types
    if kind in _PLAIN:
        return _PLAIN[kind]
    if is_a.is_decimal128(kind) and 0 <= kind.scale <= kind.precision:
        return st.DecimalType(kind.precision, kind.scale)
    if is_a.is_timestamp(kind) and kind.unit != "ns":
        return st.TimestampNTZType() if kind.tz is None else st.TimestampType()
    if kind == pa.list_(pa.string()):
        return st.ArrayType(st.StringType(), True)
    why = "which Spark would round to microseconds" if is_a.is_timestamp(kind) else "which Spark does not have"
    raise InvalidArgumentError(
        f'column "{field.name}" has type {type_name(kind)}, {why}; name the columns to read without it, by '
        '.option("columns", "a, b")'
    )


def arrow_type(kind: st.DataType) -> pa.DataType | None:
    """Return the type that a new table gets for a type of Spark; ``None`` where tables have none like it."""
    if isinstance(kind, st.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, st.ArrayType) and isinstance(kind.elementType, st.StringType):
        return pa.list_(pa.string())
    return _ARROW.get(type(kind))


def table_schema(schema: st.StructType, there: pa.Schema | None = None) -> pa.Schema:
    """Return the columns that a table has for a frame of Spark.

    A column that is ``there`` under its name keeps its type, if the frame has what Spark makes of that.

    Raises
    ------
    InvalidArgumentError
        If a column has a type that tables do not have.

    Examples
    --------
    >>> columns = pa.schema({"id": pa.uint64(), "at": pa.timestamp("ms", "Europe/Oslo")})
    >>> table_schema(spark_schema(columns)).equals(columns)
    True
    """
    fields = []
    for field in schema.fields:
        kind = arrow_type(field.dataType)
        if kind is None:
            raise InvalidArgumentError(
                f'column "{field.name}" has type {field.dataType.simpleString()}, which a table cannot have; cast it, '
                "or drop it before writing"
            )
        stored = _type_there(field, there) or _kept_type(field)
        fields.append(pa.field(field.name, kind if stored is None else stored, field.nullable))
    return pa.schema(fields)


def to_spark(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of a table with the columns and types of :func:`spark_batch_schema`.

    Raises
    ------
    OutOfRangeError
        If a time does not fit in microseconds since 1970.
    """
    arrays = [_cast(batch.column(field.name), field) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def spark_batch_schema(schema: pa.Schema, columns: Sequence[str] | None = None) -> pa.Schema:
    """Return what Spark expects of batches with the columns of a table, or with these of them.

    Raises
    ------
    NotFoundError
        If a column does not exist.
    """
    names = schema.names if columns is None else columns
    fields = []
    for name in names:
        if name not in schema.names:
            raise unknown_name("column", name, schema.names)
        field = schema.field(name)
        kind = spark_type(field)
        held = pa.list_(pa.field("element", pa.string())) if isinstance(kind, st.ArrayType) else arrow_type(kind)
        fields.append(pa.field(name, held, field.nullable))
    return pa.schema(fields)


def to_table(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of Spark with the types of a table, whose columns may stand in another order.

    Raises
    ------
    OutOfRangeError
        If a value does not fit the type of its column.
    InvalidArgumentError
        If there is a null in a column that has none.
    """
    for field in schema:
        if not field.nullable and batch.column(field.name).null_count:
            raise InvalidArgumentError(
                f'column "{field.name}" has nulls, and the table allows none in it; filter them out, or fill them'
            )
    arrays = [_cast(batch.column(field.name), field) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _type_there(field: st.StructField, there: pa.Schema | None) -> pa.DataType | None:
    if there is None or field.name not in there.names:
        return None
    kind = there.field(field.name).type
    try:
        return kind if spark_type(pa.field(field.name, kind)) == field.dataType else None
    except InvalidArgumentError:
        return None


def _kept_type(field: st.StructField) -> pa.DataType | None:
    """The type that the column had in the table it was read from, if Spark's is still the one for it."""
    name = (field.metadata or {}).get(TYPE_KEY)
    if not isinstance(name, str):
        return None
    try:
        kind = parse_type(field.name, name)
        return kind if spark_type(pa.field(field.name, kind)) == field.dataType else None
    except Error:
        return None


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type == field.type:
        return column
    try:
        return pc.cast(column, field.type)
    except pa.ArrowInvalid as error:
        raise OutOfRangeError(
            f'column "{field.name}" has a value that {type_name(field.type)} cannot hold: {error}'
        ) from None

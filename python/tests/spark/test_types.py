"""Every type of a table as a type of Spark and back, or refused by the column's name."""

from __future__ import annotations

import datetime as dt
import decimal
import inspect
import os
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

import drillcore
from drillcore.arrow.schema import TYPE_NAMES
from drillcore.spark.collection import read_collection
from drillcore.spark.spark_types import spark_batch_schema, spark_schema, table_schema, to_spark, to_table

DAY = dt.date(2013, 7, 4)
NOON = dt.datetime(2013, 7, 4, 12, 0, 7)
UTC = dt.timezone.utc

VALUES: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False],
    pa.int8(): [-(2**7), 2**7 - 1],
    pa.int16(): [-(2**15), 2**15 - 1],
    pa.int32(): [-(2**31), 2**31 - 1],
    pa.int64(): [-(2**63), 2**63 - 1],
    pa.uint8(): [0, 2**8 - 1],
    pa.uint16(): [0, 2**16 - 1],
    pa.uint32(): [0, 2**32 - 1],
    pa.uint64(): [0, 2**64 - 1],
    pa.float32(): [0.5, float("inf")],
    pa.float64(): [1e300, -0.0],
    pa.string(): ["", "Ærø\u2603"],
    pa.binary(): [b"", b"\x00\xff"],
    pa.date32(): [dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    pa.list_(pa.string()): [[], ["a", None]],
    pa.decimal128(38, 0): [decimal.Decimal(10**38 - 1), decimal.Decimal(-1)],
    pa.decimal128(7, 2): [decimal.Decimal("12345.67"), decimal.Decimal("-0.01")],
    pa.timestamp("s"): [NOON, dt.datetime(1900, 1, 1)],
    pa.timestamp("ms"): [NOON.replace(microsecond=7_000), NOON],
    pa.timestamp("us"): [NOON.replace(microsecond=7), NOON],
    pa.timestamp("s", "Europe/Oslo"): [NOON.replace(tzinfo=UTC), dt.datetime(1900, 1, 1, tzinfo=UTC)],
    pa.timestamp("ms", "UTC"): [NOON.replace(microsecond=7_000, tzinfo=UTC), NOON.replace(tzinfo=UTC)],
    pa.timestamp("us", "+01:00"): [NOON.replace(microsecond=7, tzinfo=UTC), NOON.replace(tzinfo=UTC)],
}


def every_type() -> pa.Table:
    """Two rows and one of nulls, with a column of each type, and a key."""
    columns = {f"c{at}": pa.array([*values, None], kind) for at, (kind, values) in enumerate(VALUES.items())}
    return pa.table({"id": pa.array([1, 2, 3]), **columns})


def test_the_table_has_every_type_that_a_table_can_have() -> None:
    assert set(TYPE_NAMES.values()) <= set(VALUES)


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_a_type_comes_back_as_it_was(kind: pa.DataType) -> None:
    schema = pa.schema([pa.field("x", kind)])
    assert table_schema(spark_schema(schema)).equals(schema)
    batch = pa.record_batch({"x": pa.array([*VALUES[kind], None], kind)})
    sent = to_spark(batch, spark_batch_schema(schema))
    assert to_table(sent, schema).equals(batch)


def test_batches_have_the_types_that_spark_checks() -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = every_type().schema
    # Before 4.3 it is always UTC.
    zone = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    assert to_arrow_schema(spark_schema(schema), **zone).equals(spark_batch_schema(schema))


def test_what_spark_would_round_is_refused_by_its_name() -> None:
    for kind in (pa.timestamp("ns"), pa.timestamp("ns", "UTC")):
        with pytest.raises(drillcore.InvalidArgumentError, match=r'column "at" has type .*ns.*round to microseconds'):
            spark_schema(pa.schema([pa.field("id", pa.int64()), pa.field("at", kind)]))
    with pytest.raises(drillcore.InvalidArgumentError, match=r'column "x" has type .*-2.*which Spark does not have'):
        spark_schema(pa.schema([pa.field("x", pa.decimal128(5, -2))]))


def test_a_time_beyond_microseconds_is_an_error_and_not_another_time() -> None:
    schema = pa.schema([pa.field("at", pa.timestamp("s"))])
    far = pa.record_batch({"at": pa.array([2**62], pa.int64()).cast(pa.timestamp("s"))})
    with pytest.raises(drillcore.OutOfRangeError, match=r'column "at" has a value that timestamp'):
        to_spark(far, spark_batch_schema(schema))


def test_a_column_that_spark_changed_takes_the_type_it_has_now() -> None:
    made = spark_schema(pa.schema({"x": pa.uint8()}))
    from pyspark.sql.types import LongType, StructType

    widened = StructType().add("x", LongType(), True, made["x"].metadata)
    assert table_schema(widened).field("x").type == pa.int64()


def test_frames_of_every_type_are_written_as_they_are(spark: Any, folder: str) -> None:
    table = every_type()
    schema = spark_schema(table.schema)
    sent = [to_spark(batch, spark_batch_schema(table.schema)) for batch in table.to_batches()]
    frame = spark.createDataFrame(pa.Table.from_batches(sent), schema)
    frame.coalesce(1).write.format("drillcore").mode("append").options(path=folder, table="t", key="id").save()
    collection = read_collection(folder)
    assert collection is not None and collection.shape.schema.equals(table.schema)
    with drillcore.open(os.path.join(folder, collection.members[0].path), read_only=True) as db:
        assert db.table("t").scan().arrow().equals(table)

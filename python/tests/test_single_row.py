"""Appends of one dict, which have a way of their own, store and refuse what appends of several do."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from typing import Any

import pyarrow as pa
import pytest

import drillcore
from drillcore.data import Needed, to_arrow
from drillcore.single_row import SingleRow

UTC = dt.timezone.utc
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        ("flag", pa.bool_()),
        ("small", pa.float32()),
        ("large", pa.float64()),
        ("name", pa.string()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("cost", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("ns")),
        ("second", pa.timestamp("s")),
        ("tags", pa.list_(pa.string())),
    ]
)
VALUES: dict[str, list[Any]] = {
    "id": [1, 2**31, -(2**31), True, 1.0, 1.5, "1", None],
    "flag": [True, 1, None],
    "small": [0.1, 1, 1e300, math.nan, None],
    "large": [0.1, 2**53 + 1, 7, decimal.Decimal("0.5"), None],
    "name": ["a", "", "\ud800", 5, b"a", None],
    "raw": [b"a", "a", bytearray(b"b"), None],
    "day": [dt.date(2013, 7, 4), dt.datetime(2013, 7, 4), None],
    "cost": [decimal.Decimal("1.25"), 3, decimal.Decimal("0.001"), 1.5, None],
    "at": [dt.datetime(2013, 7, 4, tzinfo=UTC), dt.datetime(2013, 7, 4), "2013-07-04T00:00Z", None],
    "local": [dt.datetime(2013, 7, 4), dt.datetime(2013, 7, 4, tzinfo=UTC), dt.datetime(2500, 1, 1), None],
    "second": [dt.datetime(2013, 7, 4), dt.datetime(2013, 7, 4, 0, 0, 0, 5), None],
    "tags": [["a", None], [], "a", None],
}


def appended(rows: list[dict[str, Any]], times: int, fill_nulls: bool = False, merge: str = "append") -> Any:
    with drillcore.open(":memory:") as db:
        t = db.create_table("t", SCHEMA, key="id", merge=merge)
        try:
            for _ in range(times):
                t.append(rows, fill_nulls=fill_nulls)
        except drillcore.Error as error:
            return type(error), str(error)
        return t.scan().arrow()


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in VALUES.items() for value in values])
def test_each_value_is_stored_or_refused_as_among_others(name: str, value: Any) -> None:
    row = {"id": 0, name: value}
    one = appended([row], 1)
    two = appended([row, row], 1)
    if isinstance(one, pa.Table):
        assert one.to_pydict().keys() == two.to_pydict().keys()
        assert repr(two.to_pylist()) == repr(one.to_pylist() * 2)
    else:
        assert one[0] is two[0]
        assert one[1] == two[1].replace(", and 1 more rows", "")


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"flag": True},
        {"id": 1, "nmae": "x"},
        {"id": 1, 5: "x"},
        {"id": 1, "na\0me": "x"},
        {"id": 1, "\ud800": 1},
        {"id": 1},
    ],
)
@pytest.mark.parametrize("fill_nulls", [False, True])
@pytest.mark.parametrize("merge", ["append", "upsert"])
def test_each_shape_is_stored_or_refused_as_among_others(row: Any, fill_nulls: bool, merge: str) -> None:
    one = appended([row], 1, fill_nulls, merge)
    two = appended([row, row], 1, fill_nulls, merge)
    if isinstance(one, pa.Table):
        assert one.slice(0, 1).equals(two.slice(0, 1))
    else:
        assert one == two


def test_plain_rows_take_the_short_way_and_give_what_the_long_one_gives() -> None:
    row = {name: values[0] for name, values in VALUES.items() if name not in ("small", "second", "tags")}
    short = SingleRow(SCHEMA, Needed(["id"]))
    batch = short.batch(row)
    assert batch is not None
    assert batch.to_pylist() == to_arrow([row], SCHEMA).to_pylist()
    assert short.batch({"id": 1, "small": 0.5}) is None
    assert short.batch({"at": dt.datetime(2013, 7, 4)}) is None
    assert short.batch({"id": 1, "at": dt.datetime(2013, 7, 4)}) is None


def test_a_column_added_later_is_taken(database: drillcore.Database) -> None:
    t = database.create_table("t", {"id": "int64"}, key="id")
    t.append([{"id": 1}])
    t.add_column("gate", "string")
    t.append([{"id": 2, "gate": "B7"}])
    assert t.get(2) == {"id": 2, "gate": "B7"}

"""What Python values become: themselves, or an error, and never another value."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import drillcore

UTC = dt.timezone.utc


class Unshown:
    def __repr__(self) -> str:
        raise RuntimeError("not for you")


CHANGED: dict[str, tuple[Any, Any]] = {
    "a decimal in whole numbers": ("int64", Decimal("1.5")),
    "a narrow numpy float in whole numbers": ("int64", np.float32(1.5)),
    "a fraction in whole numbers": ("int64", Fraction(3, 2)),
    "an infinite decimal in whole numbers": ("int64", Decimal("Infinity")),
    "a decimal of a billion digits in whole numbers": ("int64", Decimal("1e999999999")),
    "a signalling NaN in whole numbers": ("int64", Decimal("sNaN")),
    "a numpy bool in whole numbers": ("int64", np.bool_(True)),
    "a whole number beyond floats": ("float64", 2**53 + 1),
    "a decimal that is no float": ("float64", Decimal("0.1")),
    "a float beyond narrow floats": ("float32", 1e300),
    "a decimal with more digits": (pa.decimal128(10, 2), Decimal("1.234")),
    "a float in decimals": (pa.decimal128(10, 2), 1.5),
    "a number in text": ("string", 5),
    "bytes in text": ("string", b"a"),
    "half a surrogate pair": ("string", "\ud800"),
    "text in bytes": ("binary", "a"),
    "a number in dates": ("date32", 5),
    "a time of day in dates": ("date32", pd.Timestamp("2020-01-01 05:00")),
    "a numpy time of day in dates": ("date32", np.datetime64("2020-01-01T05")),
    "a pandas time finer than the unit": ("timestamp[us]", pd.Timestamp(1001)),
    "a numpy time finer than the unit": ("timestamp[us]", np.datetime64(1001, "ns")),
    "a numpy time without the column's zone": ("timestamp[us, UTC]", np.datetime64(1001, "us")),
    "a date in times": ("timestamp[us]", dt.date(2020, 1, 1)),
    "a number in times": ("timestamp[us]", np.int64(5)),
    "bytes in a list of texts": ("list<string>", [b"a"]),
    "numbers in a list of texts": ("list<string>", [5]),
    "a number in bools": ("bool", 1),
    "a time of Arrow beyond the unit": ("timestamp[us]", pa.scalar(2**62, pa.timestamp("s"))),
    "a time of Arrow finer than the unit": ("timestamp[us]", pa.scalar(1001, pa.timestamp("ns"))),
    "a time of Arrow without the column's zone": ("timestamp[us, UTC]", pa.scalar(1, pa.timestamp("us"))),
    "a time of Arrow in dates": ("date32", pa.scalar(2**62, pa.timestamp("s"))),
    "a date of Arrow beyond those of Python": ("date32", pa.scalar(2**30, pa.date32())),
    "a time of Arrow in whole numbers": ("int64", pa.scalar(2**62, pa.timestamp("s"))),
    "a value that cannot be shown": ("float64", Unshown()),
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_value_that_would_change_is_refused(name: str) -> None:
    kind, value = CHANGED[name]
    table = drillcore.open(":memory:").create_table("t", {"id": "int64", "x": kind}, key="id")
    with pytest.raises((drillcore.InvalidArgumentError, drillcore.InvalidTypeError), match='column "x"'):
        table.append([{"id": 0, "x": None}, {"id": 1, "x": value}])
    assert len(table) == 0
    assert table.append([{"id": 1, "x": value}], on_error="skip").rejected[0].row == 0


@pytest.mark.parametrize("data", [pa.table, pd.DataFrame, pl.DataFrame])
def test_columns_of_floats_beyond_narrow_floats_are_refused_by_row(data: Any) -> None:
    table = drillcore.open(":memory:").create_table("t", {"id": "int64", "x": "float32"}, key="id")
    given = data({"id": [0, 1, 2], "x": [float("inf"), 0.1, -1e300]})
    with pytest.raises(drillcore.InvalidArgumentError, match=r'row 2: column "x" stores float32, .* -1e300'):
        table.append(given)
    assert len(table) == 0
    result = table.append(given, on_error="skip")
    assert (result.rows, [each.row for each in result.rejected]) == (2, [2])
    assert table.scan(columns=["x"]).arrow().column(0).to_pylist() == [float("inf"), np.float32(0.1).item()]


KEPT: dict[str, tuple[Any, Any, Any]] = {
    "a whole decimal": ("int64", Decimal("2.0"), 2),
    "a whole float": ("int64", 2.0, 2),
    "a numpy number": ("int64", np.uint8(2), 2),
    "an array of no dimension": ("int64", np.array(2), 2),
    "a scalar of Arrow": ("int64", pa.scalar(2), 2),
    "pandas's NA": ("int64", pd.NA, None),
    "a decimal that is a float": ("float64", Decimal("0.5"), 0.5),
    "a float that is rounded": ("float32", 0.1, np.float32(0.1).item()),
    "an infinite narrow float": ("float32", float("inf"), float("inf")),
    "a numpy number in decimals": (pa.decimal128(10, 2), np.int64(5), Decimal("5.00")),
    "a numpy text": ("string", np.str_("a"), "a"),
    "a numpy bool": ("bool", np.bool_(True), True),
    "a bytearray": ("binary", bytearray(b"a"), b"a"),
    "a numpy date": ("date32", np.datetime64("2020-01-02"), dt.date(2020, 1, 2)),
    "a numpy time": ("timestamp[us]", np.datetime64(1000, "ns"), dt.datetime(1970, 1, 1, 0, 0, 0, 1)),
    "a numpy NaT": ("timestamp[us]", np.datetime64("NaT"), None),
    "a pandas NaT": ("timestamp[us]", pd.NaT, None),
    "a pandas time": ("timestamp[us]", pd.Timestamp(1000), dt.datetime(1970, 1, 1, 0, 0, 0, 1)),
    "a time of Arrow beyond datetimes": ("timestamp[s]", pa.scalar(2**40, pa.timestamp("s")), 2**40),
    "a pandas time beyond datetimes": ("timestamp[s]", pd.Timestamp(np.datetime64(2**40, "s")), 2**40),
    "a time of Arrow": ("timestamp[us]", pa.scalar(1, pa.timestamp("ms")), dt.datetime(1970, 1, 1, 0, 0, 0, 1000)),
    "a text as time": ("timestamp[s, UTC]", "2020-01-02T03:04:05+01:00", dt.datetime(2020, 1, 2, 2, 4, 5, tzinfo=UTC)),
    "an array of texts": ("list<string>", np.array(["a", "b"]), ["a", "b"]),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_value_that_fits_is_kept_whatever_its_class(name: str) -> None:
    kind, value, expected = KEPT[name]
    table = drillcore.open(":memory:").create_table("t", {"id": "int64", "x": kind}, key="id")
    table.append([{"id": 0, "x": value}, {"id": 1, "x": None}])
    found = table.scan(columns=["x"]).arrow().column(0)
    assert (found.cast(pa.int64()) if type(expected) is int else found).to_pylist() == [expected, None]


def test_texts_and_datetimes_may_stand_in_one_column() -> None:
    table = drillcore.open(":memory:").create_table("t", {"at": "timestamp[ms]"}, key="at")
    rows = ["2020-01-01T00:00:00.25", pd.NaT, pd.Timestamp(0), np.datetime64("2020-01-01"), dt.datetime(2021, 1, 1)]
    table.append([{"at": value} for value in rows])
    found = [row["at"] for row in table.scan().arrow().to_pylist()]
    year = dt.datetime(2020, 1, 1)
    assert found == [None, dt.datetime(1970, 1, 1), year, year.replace(microsecond=250_000), year.replace(year=2021)]


OTHER_KEYS: dict[str, Any] = {
    "two values for one": [(1, 2)],
    "no value": [()],
    "a fraction": [Decimal("1.5")],
    "a numpy fraction": [np.float32(1.5)],
    "a numpy bool": [np.bool_(True)],
    "text": pa.array(["1"]),
    "a column of fractions": pa.array([1.5]),
    "a column of bools": pa.array([True]),
    "bytes, which are numbers to Python": b"\x01",
    "a dict, which is its names to Python": {1: "x"},
    "a table with its key twice": pa.table([pa.array([1]), pa.array([1])], names=["k", "k"]),
    "a table without its key": pa.table({"j": [1]}),
}


@pytest.mark.parametrize("name", OTHER_KEYS)
def test_no_other_row_is_found_or_deleted_than_the_one_named(name: str) -> None:
    table = drillcore.open(":memory:").create_table("t", {"k": "int64", "v": "int64"}, key="k", merge="upsert")
    table.append([{"k": i, "v": i} for i in range(3)])
    for call in (table.get_many, table.delete):
        with pytest.raises((drillcore.InvalidArgumentError, drillcore.InvalidTypeError)):
            call(OTHER_KEYS[name])
    assert len(table) == 3


def test_keys_are_values_tuples_or_columns_of_any_library() -> None:
    import polars as pl

    table = drillcore.open(":memory:").create_table("t", {"k": "int64"}, key="k")
    table.append([{"k": i} for i in range(3)])
    columns = [pa.array([2, 0]), pa.chunked_array([[2], [0]]), pd.Series([2, 0]), pl.Series([2, 0])]
    frames = [pa.table({"k": [2, 0]}), pd.DataFrame({"k": [2, 0]}), pl.DataFrame({"k": [2, 0]})]
    for keys in [[2, 0], [(2,), (0,)], np.array([2, 0]), [np.int64(2), 0.0], *columns, *frames]:
        assert table.get_many(keys).arrow().column(0).to_pylist() == [2, 0], keys


def test_a_missing_value_is_no_bound_and_no_set() -> None:
    schema = {"at": "timestamp[us]", "g": "string"}
    table = drillcore.open(":memory:").create_table("t", schema, key="at", set="g")
    with pytest.raises(drillcore.InvalidArgumentError, match="NaT is not a valid end"):
        table.count(between=(pd.NaT, None))
    with pytest.raises(drillcore.InvalidArgumentError, match=r"drillcore\.NULL"):
        table.count(set=pd.NA)


def test_a_bound_is_not_cut_to_fit() -> None:
    table = drillcore.open(":memory:").create_table("t", {"k": "int64"}, key="k")
    table.append([{"k": i} for i in range(6)])
    assert table.count(between=(Decimal(2), np.int8(5))) == 4
    with pytest.raises(drillcore.InvalidArgumentError, match=r"1\.5"):
        table.count(between=(Decimal("1.5"), 5))


def test_a_time_beyond_the_key_is_refused_in_our_own_words() -> None:
    table = drillcore.open(":memory:").create_table("t", {"at": "timestamp[us]"}, key="at", merge="upsert")
    far = pa.scalar(2**62, pa.timestamp("s"))
    for call in (lambda: table.get(far), lambda: table.get_many([far]), lambda: table.count(between=(far, None))):
        with pytest.raises(drillcore.InvalidArgumentError, match="out of range of a timestamp in us"):
            call()


@pytest.mark.parametrize("call", ["append", "load", "update", "get_many", "create"])
def test_objects_and_large_numbers_of_polars_are_refused(call: str) -> None:
    db = drillcore.open(":memory:")
    table = db.create_table("t", {"id": "int64", "x": "binary"}, key="id", merge="upsert")
    calls = {
        "append": table.append,
        "load": table.load,
        "update": lambda data: table.update(data, missing="insert"),
        "get_many": table.get_many,
        "create": lambda data: db.create_table("new", data, key="id"),
    }
    objects = pl.DataFrame({"id": [1], "x": pl.Series([b"a"], dtype=pl.Object)})
    with pytest.raises(drillcore.InvalidArgumentError, match=r'column "x" has the polars type Object.* dicts'):
        calls[call](objects)
    wide = pl.DataFrame({"id": pl.Series([1], dtype=pl.Int128)})
    with pytest.raises(drillcore.InvalidArgumentError, match=r'column "id" has the polars type Int128.* Int64'):
        calls[call](wide)
    assert len(table) == 0
    assert table.append(objects.to_dicts()).rows == table.append(wide.to_dicts(), fill_nulls=True).rows == 1

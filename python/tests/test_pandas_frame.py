"""Frames of pandas: what they hold is stored as dicts of the same values are, and comes back unchanged."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import drillcore
from drillcore import InvalidArgumentError, InvalidTypeError

REFUSED = (InvalidArgumentError, InvalidTypeError)
DAY, AT = dt.date(2013, 7, 4), dt.datetime(2013, 7, 4, 5)
FINE = pd.Timestamp("2013-07-04 05:00:00.000001001")

OBJECTS: dict[str, tuple[Any, list[Any]]] = {
    "a time of day among dates": ("date32", [DAY, AT]),
    "a date among times": ("timestamp[us]", [AT, DAY]),
    "a zone among times without one": ("timestamp[us]", [AT, AT.replace(tzinfo=dt.timezone.utc)]),
    "no zone among times with one": ("timestamp[us, UTC]", [AT.replace(tzinfo=dt.timezone.utc), AT]),
    "nanoseconds in nanoseconds": ("timestamp[ns]", [FINE, pd.Timestamp(AT), None]),
    "nanoseconds with a zone": ("timestamp[ns, Europe/Oslo]", [FINE.tz_localize("Europe/Oslo"), None]),
    "nanoseconds in microseconds": ("timestamp[us]", [pd.Timestamp(AT), FINE]),
    "texts as times": ("timestamp[us]", ["2013-07-04T05:00:00", AT, pd.NaT]),
    "a bool among floats": ("float64", [2.5, True]),
    "a text among bytes": ("binary", [b"\xff", "é"]),
    "bytes among texts": ("string", ["é", b"\xff"]),
    "a number among texts": ("string", ["a", 5, "b"]),
    "a decimal NaN": (pa.decimal128(10, 2), [Decimal("1.5"), Decimal("NaN")]),
    "a decimal NaN among texts": ("string", ["a", Decimal("NaN")]),
    "large numbers": ("uint64", [2**63, 1, None]),
    "numbers beyond the type": ("int64", [1, 2**70]),
    "a number among bools": ("bool", [True, 1, None]),
    "whole floats": ("int64", [1, 2.0, 2.5]),
    "lists": ("list<string>", [["a"], np.array(["b"], dtype=object), None, [5]]),
    "marks of missing values": ("string", ["a", None, pd.NA, pd.NaT]),
}


def pair(kind: Any) -> tuple[drillcore.Table, drillcore.Table]:
    db = drillcore.open(":memory:")
    return tuple(db.create_table(name, {"id": "int64", "x": kind}, key="id", merge="upsert") for name in "ab")  # type: ignore[return-value]


def both(values: list[Any]) -> tuple[pd.DataFrame, list[dict[str, Any]]]:
    """The same rows as a frame and as dicts."""
    frame = pd.DataFrame({"id": range(len(values)), "x": pd.Series(values, dtype=object)})
    return frame, [{"id": i, "x": value} for i, value in enumerate(values)]


def outcome(call: Callable[[], Any]) -> str:
    try:
        return f"{call().rows} rows"
    except REFUSED as error:
        return str(error)


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_in_a_frame_are_stored_or_refused_as_those_in_dicts(name: str) -> None:
    kind, values = OBJECTS[name]
    table, model = pair(kind)
    frame, dicts = both(values)
    assert outcome(lambda: table.append(frame)) == outcome(lambda: model.append(dicts))
    assert table.scan().arrow() == model.scan().arrow()
    found, expected = table.append(frame, on_error="skip"), model.append(dicts, on_error="skip")
    assert (found.rows, found.rejected) == (expected.rows, expected.rejected)
    assert table.scan().arrow() == model.scan().arrow()


@pytest.mark.parametrize("name", OBJECTS)
def test_a_load_an_update_and_a_writer_take_objects_as_an_append_does(name: str) -> None:
    kind, values = OBJECTS[name]
    frame, dicts = both(values)
    model, _ = pair(kind)
    expected = outcome(lambda: model.append(dicts))
    loaded, updated = pair(kind)
    assert outcome(lambda: loaded.load(frame)).split(";")[0] == expected.split(";")[0]
    assert outcome(lambda: updated.update(frame, missing="insert")) == expected
    assert loaded.scan().arrow() == updated.scan().arrow() == model.scan().arrow()

    rejected = [row.row for row in model.append(dicts, on_error="skip").rejected]
    assert [row.row for row in loaded.load(frame, on_error="skip").rejected] == rejected
    writer = updated.writer(on_error="skip")
    writer.add(frame)
    assert [row.row["id"] for row in writer.close().failed] == rejected
    assert loaded.scan().arrow() == updated.scan().arrow() == model.scan().arrow()


def test_a_load_names_and_skips_rows_by_their_place_in_the_stream() -> None:
    table, _ = pair("int64")
    frame, _ = both([1] * 15 + ["x"] + [2] * 4)
    with pytest.raises(InvalidArgumentError, match=r"row 15: column \"x\" .* 10 rows were loaded"):
        table.load(frame, commit_rows=10)
    result = table.load(frame, commit_rows=10, on_error="skip")
    assert (result.rows, [row.row for row in result.rejected]) == (19, [15])


def test_nan_is_no_value_in_a_frame() -> None:
    for kind, value in (("string", "a"), ("float64", 0.5), ("int64", 5), ("date32", DAY)):
        table, _ = pair(kind)
        table.append(both([value, float("nan"), np.float32("nan")])[0])
        assert table.scan().arrow()["x"].to_pylist() == [value, None, None]


def test_a_frame_of_a_class_of_its_own_is_a_frame() -> None:
    class Measured(pd.DataFrame):
        pass

    table, _ = pair("float64")
    with pytest.raises(InvalidTypeError, match="True is a bool"):
        table.append(Measured(both([2.5, True])[0]))


def test_categories_of_objects_are_those_of_the_column() -> None:
    table, _ = pair("string")
    codes = {"categories": pd.Index(["b", "a", 5], dtype=object)}
    table.append(pd.DataFrame({"id": [0, 1, 2], "x": pd.Categorical(["a", None, "b"], **codes)}))
    assert table.scan().arrow()["x"].to_pylist() == ["a", None, "b"]
    with pytest.raises(InvalidTypeError, match=r'row 1: column "x" \(string\): 5 is not a string'):
        table.append(pd.DataFrame({"id": [0, 1], "x": pd.Categorical(["a", 5], **codes)}))
    times, _ = pair("timestamp[ns]")
    fine = pd.Categorical([FINE, FINE], categories=pd.Index([FINE], dtype=object))
    times.append(pd.DataFrame({"id": [0, 1], "x": fine}))
    assert times.scan().arrow()["x"].cast(pa.int64()).to_pylist() == [FINE.value] * 2


ODD: dict[str, tuple[Any, str]] = {
    "another byte order": (np.array([1], ">i4"), "in the byte order of other machines; use .astype('int32') of it"),
    "a sparse column": (pd.arrays.SparseArray([1, 2]), "is sparse, which Arrow does not support; use .sparse"),
    "intervals of zones off by seconds": (
        pd.interval_range(pd.Timestamp(AT, tz=dt.timezone(dt.timedelta(seconds=15))), periods=1),
        "has the type interval",
    ),
    "complex numbers": (np.array([1j]), "has the type complex128, which Arrow does not support"),
}


@pytest.mark.parametrize("name", ODD)
def test_a_column_without_an_arrow_form_says_what_it_is(name: str) -> None:
    values, says = ODD[name]
    table, _ = pair("int64")
    with pytest.raises(InvalidArgumentError) as error:
        table.append(pd.DataFrame({"id": range(len(values)), "x": values}))
    assert str(error.value).startswith('column "x" ') and says in str(error.value)


@pytest.mark.parametrize("is_categorical", [False, True])
def test_periods_are_refused_as_they_are_no_numbers(is_categorical: bool) -> None:
    months = pd.period_range("2020-01", periods=2, freq="M")
    frame = pd.DataFrame({"id": [0, 1], "x": pd.Categorical(months) if is_categorical else months})
    table, _ = pair("int64")
    for call in (
        lambda: table.append(frame),
        lambda: table.append(frame, on_error="skip"),
        lambda: table.load(frame),
        lambda: table.writer().add(frame),
        lambda: drillcore.open(":memory:").create_table("t", frame, key="id"),
    ):
        with pytest.raises(InvalidTypeError, match=r'column "x" has the type period\[M\], .* use \.dt\.to_timestamp'):
            call()
    assert table.count() == 0
    table, _ = pair("timestamp[us]")
    assert table.append(frame.assign(x=frame["x"].dt.to_timestamp())).rows == 2
    table, _ = pair("string")
    table.append(frame.assign(x=frame["x"].astype(str)))
    assert table.scan().arrow()["x"].to_pylist() == ["2020-01", "2020-02"]


@pytest.mark.parametrize("is_categorical", [False, True])
def test_times_of_a_zone_that_is_off_by_seconds_are_moments(is_categorical: bool) -> None:
    at = pd.Series([pd.Timestamp(AT, tz=dt.timezone(dt.timedelta(seconds=15)))])
    frame = pd.DataFrame({"at": at.astype("category") if is_categorical else at})
    table = drillcore.open(":memory:").create_table("t", frame, key="at")
    assert str(table.schema.field("at").type).endswith("tz=UTC]")
    assert table.append(frame, on_error="skip").rows == 1
    assert table.scan().arrow()["at"].to_pylist() == [at[0].to_pydatetime()]
    assert len(table.get_many(frame)) == 1


def test_a_table_made_of_a_frame_holds_all_of_its_objects() -> None:
    frame = pd.DataFrame({"id": pd.Series([2**63, 1], dtype=object), "at": pd.Series([FINE, pd.NaT], dtype=object)})
    table = drillcore.open(":memory:").create_table("t", frame, key="id")
    assert [str(kind) for kind in table.schema.types] == ["uint64", "timestamp[ns]"]
    table.append(frame)
    assert table.scan().arrow()["at"].cast(pa.int64()).to_pylist() == [None, FINE.value]
    with pytest.raises(InvalidTypeError, match=r'row 1: column "id" \(float64\): True is a bool'):
        drillcore.open(":memory:").create_table("t", pd.DataFrame({"id": [2.5, True]}, dtype=object), key="id")


def test_keys_of_objects_are_values_of_the_key() -> None:
    table = drillcore.open(":memory:").create_table("t", {"at": "timestamp[ns]"}, key="at")
    table.append([{"at": FINE}])
    keys = pd.Series([FINE, FINE + pd.Timedelta(1)], dtype=object)
    assert len(table.get_many(keys)) == len(table.get_many(keys.to_frame("at"))) == 1
    with pytest.raises(InvalidTypeError):
        table.get_many(pd.Series([DAY], dtype=object))


def test_whole_numbers_with_nulls_come_back_as_they_are() -> None:
    kinds = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
    db = drillcore.open(":memory:")
    table = db.create_table("t", {"id": "int64", **{str(kind): kind for kind in kinds}}, key="id")
    most = {str(kind): 2 ** (kind.bit_width - pa.types.is_signed_integer(kind)) - 1 for kind in kinds}
    table.append([{"id": 1, **most}, {"id": 2}])
    frame = table.scan().df()
    assert [str(kind) for kind in frame.dtypes[1:]] == [
        str(kind).replace("int", "Int").replace("u", "U") for kind in kinds
    ]
    assert frame["id"].dtype == np.int64
    assert {name: frame[name][0] for name in most} == most
    assert table.scan(where="id = 1").df().dtypes["uint64"] == np.uint64
    again = db.create_table("again", table.schema, key="id")
    again.append(frame)
    assert again.scan().arrow() == table.scan().arrow()
    sums = db.sql("select id, sum(int64) as total from t group by id").df()
    assert [str(kind) for kind in sums.dtypes] == ["int64", "Int64"]


def test_rows_of_all_types_come_back_from_a_frame() -> None:
    kinds = {
        "id": "int64",
        "n": "int64",
        "x": "float64",
        "ok": "bool",
        "name": "string",
        "raw": "binary",
        "day": "date32",
        "at": "timestamp[ns, Europe/Oslo]",
        "seconds": "timestamp[s]",
        "price": pa.decimal128(10, 2),
        "tags": "list<string>",
    }
    values = [1, 2**53 + 1, 0.5, True, "é", b"\xff", DAY, FINE.tz_localize("UTC"), AT, Decimal("1.50"), ["a", None]]
    db = drillcore.open(":memory:")
    tables = [db.create_table(name, kinds, key="id") for name in "ab"]
    tables[0].append([dict(zip(kinds, values, strict=True)), {"id": 2}])
    tables[1].append(tables[0].scan().df())
    assert tables[1].scan().arrow() == tables[0].scan().arrow()

"""Messages are about the caller's rows and columns: never the words of Python or pyarrow about their own types."""

from __future__ import annotations

import datetime as dt
import html
import os
import pathlib
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import drillcore
from drillcore.arrow.cells import is_nan

LEAKS = [
    "C long",
    "C integer",
    "C unsigned",
    "assume_timezone",
    "pyarrow",
    "PyLong",
    "codec",
    "IEEE",
    "Rescaling",
    "inferred",
    "Could not convert",
    "Failed to parse",
    "Conversion failed",
    "signaling",
    "as a scalar",
    "to unsigned int",
    "int too",
    "Expected bytes",
]

UNFIT: dict[str, list[Any]] = {
    "int8": [
        128,
        -129,
        2**70,
        "x",
        Decimal("sNaN"),
        float("nan"),
        float("inf"),
        np.uint8(200),
        2**5000,
        Decimal("1e400"),
    ],
    "int32": [2**31, -(2**40), "1", b"1", dt.date(2020, 1, 1)],
    "int64": [2**63, -(2**63) - 1, 2**70, 1.5, Fraction(1, 3), [1], {}, object()],
    "uint8": [-1, 256],
    "uint64": [-1, 2**64, 2**65, np.int64(-1)],
    "float32": [2**24 + 1, 1e300, 2**200, "x", Decimal("0.1"), 2**5000],
    "float64": [2**53 + 1, 2**5000, "1.5", Decimal("sNaN"), Fraction(1, 3), True],
    "bool": [1, "true", np.int8(1)],
    "string": [1, b"x", "\ud800", ["x"]],
    "binary": ["x", 1],
    "date32": [1, "2020-01-01", dt.datetime(2020, 1, 1), np.datetime64("NaT", "D").astype("int64").item()],
    "timestamp[s]": [
        "soon",
        "",
        "2020",
        "2020-01-01T00:00:00Z",
        "2020-01-01T00:00:00.5",
        "\ud800",
        dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc),
        1,
    ],
    "timestamp[ns]": [dt.datetime(3000, 1, 1), "3000-01-01", dt.datetime(1, 1, 1), np.datetime64("3000-01-01")],
    "timestamp[us, UTC]": [
        "2020-01-01T00:00:00",
        "2020-01-01",
        "soon",
        dt.datetime(2020, 1, 1),
        "2020-13-01T00:00:00Z",
    ],
    "list<string>": ["x", [1], ["\ud800"], [b"x"]],
}
DECIMALS = [Decimal("1.234"), Decimal("12345678901"), 10**50, 10**9, Decimal("NaN"), Decimal("Infinity"), 1.5, "x"]

CASES = [(kind, value) for kind, values in UNFIT.items() for value in values]
CASES += [(pa.decimal128(10, 2), value) for value in DECIMALS]
GOOD = {"id": 0, "x": None}


def refused(call: Callable[[], object]) -> str:
    with pytest.raises((drillcore.InvalidArgumentError, drillcore.InvalidTypeError)) as caught:
        call()
    message = str(caught.value)
    assert not [leak for leak in LEAKS if leak in message], message
    assert len(message) < 400, message
    return message


@pytest.mark.parametrize(("kind", "value"), CASES, ids=[f"{kind}-{value!r:.20}" for kind, value in CASES])
def test_a_value_that_does_not_fit_is_named_with_its_row_and_column(kind: Any, value: Any) -> None:
    db = drillcore.open(":memory:")
    table = db.create_table("t", {"id": "int64", "x": kind}, key="id")
    rows = [GOOD, {"id": 1, "x": None}, {"id": 2, "x": value}, {"id": 3, "x": value}]
    for call in (
        lambda: table.append(rows),
        lambda: db.append({"t": rows}),
        lambda: table.load(rows),
        lambda: table.load(iter([rows])),
    ):
        assert refused(call).startswith('row 2: column "x" ('), refused(call)
    assert len(table) == 0
    result = table.append(rows, on_error="skip")
    assert [each.row for each in result.rejected] == [2, 3] and result.rows == 2
    for each in result.rejected:
        assert each.reason.startswith('column "x" (') and not [leak for leak in LEAKS if leak in each.reason]


@pytest.mark.parametrize(
    "kind", ["int8", "uint64", "float64", "string", "date32", "timestamp[s]", "timestamp[us, UTC]"]
)
def test_keys_bounds_and_sets_that_do_not_fit_are_named(kind: str) -> None:
    db = drillcore.open(":memory:")
    table = db.create_table("t", {"k": kind}, key="k", merge="upsert", set="k")
    for value in UNFIT[kind]:
        if is_nan(value):
            continue  # which is no bound of any column, and a message of its own
        for call in (
            lambda value=value: table.get(value),
            lambda value=value: table.get_many([(value,)]),
            lambda value=value: table.delete([(value,)]),
            lambda value=value: table.count(between=((value,), None)),
            lambda value=value: table.count(set=[value]),
        ):
            assert '"k"' in refused(call)


@pytest.mark.parametrize(
    ("kind", "zone", "said"),
    [
        ("timestamp[us, UTC]", None, "has none; give it one, as in datetime(..., tzinfo=timezone.utc)"),
        ("timestamp[us]", dt.timezone.utc, "but 2020-01-01T00:00:00+00:00 has UTC; remove its tzinfo"),
    ],
)
def test_a_datetime_whose_zone_does_not_fit_says_what_to_do(kind: str, zone: dt.tzinfo | None, said: str) -> None:
    table = drillcore.open(":memory:").create_table("t", {"at": kind}, key="at")
    at = dt.datetime(2020, 1, 1, tzinfo=zone)
    assert refused(lambda: table.append([{"at": at}])).endswith(said)
    assert said in refused(lambda: table.get(at))


OTHER_FORMS: dict[str, tuple[Callable[[], Any], str]] = {
    "a frame of mixed values": (
        lambda: pd.DataFrame({"id": [1, 2, "x"]}),
        "row 2: column \"id\" (int64): 'x' is not a number",
    ),
    "a frame of objects": (lambda: pd.DataFrame({"id": [1], "x": [object()]}), 'row 0: column "x" (int8): <object'),
    "a frame with a name twice": (lambda: pd.DataFrame([[1, 2]], columns=["id", "id"]), '"id"'),
    "a frame of numbers too large": (lambda: pd.DataFrame({"id": [1, 2**70]}), 'row 1: column "id"'),
    "a batch of other numbers": (lambda: pa.table({"id": [1, 2], "x": [1, 300]}), "row 1"),
    "a polars frame of other numbers": (lambda: pl.DataFrame({"id": [1, 2], "x": [1, 300]}), "row 1"),
}


@pytest.mark.parametrize("form", OTHER_FORMS)
def test_frames_and_batches_are_refused_by_row_in_our_own_words(form: str) -> None:
    data, said = OTHER_FORMS[form]
    table = drillcore.open(":memory:").create_table("t", {"id": "int64", "x": "int8"}, key="id")
    assert said in refused(lambda: table.append(data()))


def test_a_new_dimension_of_mixed_values_is_named_with_its_row() -> None:
    rollup = {"dimensions": "discover", "metrics": {"n": "count"}}
    table = drillcore.open(":memory:").create_table("t", {"id": "int64"}, key="id", merge="rollup", rollup=rollup)
    message = refused(lambda: table.append([{"id": 1, "new": 1}, {"id": 2, "new": "x"}]))
    assert message.startswith("row 1: column \"new\" (int64): 'x' is not a number; all values of a new column")


def test_a_table_of_another_shape_says_what_differs() -> None:
    db = drillcore.open(":memory:")
    db.create_table("t", {"id": "int64", "x": "float64"}, key="id")
    for columns, options, said in [
        ({"id": "int64", "x": "string"}, {"key": "id"}, 'column "x" has type float64, not string'),
        ({"id": "int64"}, {"key": "id", "merge": "upsert"}, "its merge is append, not upsert"),
        ({"id": "int64", "y": "int64"}, {"key": "id"}, 'it has no column "y"'),
        ({"id": "int64", "x": "float64"}, {"key": "x"}, "its key is (id), not (x)"),
    ]:
        with pytest.raises(drillcore.AlreadyExistsError, match="already exists with another shape: ") as caught:
            db.create_table("t", columns, exist_ok=True, **options)
        assert said in str(caught.value)


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    "path", ["s3://b/x", "gs://b", "file:///tmp/x", "https://h/x", pathlib.PurePosixPath("s3://b/x"), "s3:/b/x"]
)
def test_a_url_is_no_folder(
    path: str | os.PathLike[str], read_only: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(drillcore.InvalidArgumentError, match=r"is a URL .*give"):
        drillcore.open(path, read_only=read_only)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["", " ", "\n", "\0", "\0x", "x" * 1025])
def test_one_rule_says_what_is_no_name(name: str) -> None:
    db = drillcore.open(":memory:")
    table = db.create_table("t", {"id": "int64"}, key="id")
    rollup = {"metrics": {name: "count"}}
    for call in (
        lambda: db.create_table(name, {"id": "int64"}, key="id"),
        lambda: db.create_table("u", {"id": "int64", name: "int64"}, key="id"),
        lambda: db.create_table("u", {"id": "int64"}, key="id", merge="rollup", rollup=rollup),
        lambda: table.add_column(name, "int64"),
        lambda: db.snapshot(name),
        lambda: db.create_table("u", pa.schema({"id": pa.int64(), name: pa.int64()}), key="id"),
    ):
        message = refused(call)
        assert "name of a" in message or "NUL" in message
    # Arrow ends names at NUL on the way into the engine, where it would be another column.
    for data in ([{f"id{name}": 1}], pa.table({f"id{name}": [1]})) if name else ():
        with pytest.raises((drillcore.InvalidArgumentError, drillcore.NotFoundError)):
            table.append(data)
    assert len(table) == 0
    assert db.tables() == ["t"] and db.snapshots() == {}


@pytest.mark.parametrize(
    ("kind", "value"),
    [("float64", "no"), ("date32", "x"), ("timestamp[us, Europe/Oslo]", "x"), ("list<string>", 5), ("float32", "no")],
)
def test_types_are_named_as_in_schemas(kind: str, value: Any) -> None:
    """The engine does so, and a caller finds the words that the schema was written with."""
    table = drillcore.open(":memory:").create_table("t", {"id": "int64", "x": kind}, key="id")
    with pytest.raises((drillcore.InvalidArgumentError, drillcore.InvalidTypeError), match=re.escape(f"({kind})")):
        table.append([{"id": 1, "x": value}])
    assert f"x: {kind}" in repr(table) and kind in html.unescape(table._repr_html_())

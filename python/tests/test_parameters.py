"""Parameters of queries: any value stands for a literal, and none is missing or left over."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import drillcore

UTC = dt.timezone.utc
ROWS = [
    {
        "id": i,
        "carrier": ["UA", "DL", None][i % 3],
        "day": dt.date(2013, 7, 1 + i),
        "at": dt.datetime(2013, 7, 1 + i, 9, tzinfo=UTC),
        "local": dt.datetime(2013, 7, 1 + i, 9, 0, 0, 250_000),
        "delay": i / 2,
        "raw": bytes([i]),
        "late": i % 2 == 0,
    }
    for i in range(20)
]
SCHEMA = {
    "id": "int64",
    "carrier": "string",
    "day": "date32",
    "at": "timestamp[us, America/New_York]",
    "local": "timestamp[ms]",
    "delay": "float64",
    "raw": "binary",
    "late": "bool",
}


@pytest.fixture
def db(tmp_path: Path) -> Any:
    with drillcore.open(tmp_path / "db") as db:
        t = db.create_table("t", SCHEMA, key="id", set="carrier")
        t.append(ROWS)
        yield db


def ids(rows: drillcore.Rows) -> list[int]:
    return rows.arrow()["id"].to_pylist()


VALUES = [
    ("id = ?", 7, [7]),
    ("id = ?", Decimal(7), [7]),
    ("id = ?", np.int32(7), [7]),
    ("id < ?", 2**70, list(range(20))),
    ("id > ?", -(2**63), list(range(20))),
    ("id < ?", float("inf"), list(range(20))),
    ("carrier = ?", "DL", list(range(1, 20, 3))),
    ("carrier is not distinct from ?", None, list(range(2, 20, 3))),
    ("carrier = ?", None, []),
    ("carrier = ?", pd.NA, []),
    ("day = ?", dt.date(2013, 7, 4), [3]),
    ("day >= ?", np.datetime64("2013-07-19"), [18, 19]),
    ("at = ?", dt.datetime(2013, 7, 4, 9, tzinfo=UTC), [3]),
    ("at = ?", dt.datetime(2013, 7, 4, 11, tzinfo=dt.timezone(dt.timedelta(hours=2))), [3]),
    ("at >= ?", pd.Timestamp("2013-07-20T09:00:00Z"), [19]),
    ("local = ?", dt.datetime(2013, 7, 4, 9, 0, 0, 250_000), [3]),
    ("local = ?", dt.datetime(2013, 7, 4, 9, 0, 0, 250_001), []),
    ("local > ?", dt.datetime(2013, 7, 19, 9, 0, 0, 250_001), [19]),
    ("local - ? >= timestamp '2013-07-19T09:00:00'", dt.timedelta(days=1), [19]),
    ("delay = ?", 4.5, [9]),
    ("delay = ?", np.float32(4.5), [9]),
    ("raw = ?", b"\x03", [3]),
    ("raw = ?", bytearray(b"\x03"), [3]),
    ("late = ? and id < 4", True, [0, 2]),
    ("late = ? and id < 4", np.bool_(False), [1, 3]),
    ("id = ?", pa.scalar(7, pa.uint8()), [7]),
    ("carrier = ? and id < 4", pa.scalar("UA", pa.large_string()), [0, 3]),
    ("id = ?", pa.scalar(None, pa.int32()), []),
]


@pytest.mark.parametrize(("condition", "value", "wanted"), VALUES, ids=lambda value: str(value)[:40])
def test_a_value_of_each_type_is_compared_as_it_is(db: Any, condition: str, value: Any, wanted: list[int]) -> None:
    query = f"select id from t where {condition} order by id"
    assert ids(db.sql(query, [value])) == wanted
    assert ids(db.sql(query.replace("?", "$value"), {"value": value})) == wanted


@pytest.mark.parametrize("value", [True, -5, 2**63 - 1, -(2**63), 2**64 - 1, 1.5, -0.1, 1e300, "it''s ?", b"\0'", ""])
def test_a_value_comes_back_as_it_went_in(db: Any, value: Any) -> None:
    assert db.sql("select ? as v", [value]).arrow().to_pylist() == [{"v": value}]


def test_snapshots_and_readers_take_parameters(db: Any, tmp_path: Path) -> None:
    query = "select id from t where id between ? and ? order by id"
    with db.snapshot() as snapshot:
        assert ids(snapshot.sql(query, (3, 4))) == [3, 4]
    with drillcore.open(tmp_path / "db", read_only=True) as reader:
        assert ids(reader.sql(query, [3, 4])) == [3, 4]
        assert ids(reader.snapshot().sql("select id from t where id = $id", {"id": 5})) == [5]


def test_a_parameter_is_never_read_as_sql(db: Any) -> None:
    assert ids(db.sql("select id from t where carrier = ?", ["UA' or 'a' = 'a"])) == []


def test_parameters_are_answered_by_indexes(db: Any) -> None:
    query = "explain select delay from t where id >= ? and carrier = ?"
    plan = db.sql(query, [3, "UA"]).arrow()["plan"].to_pylist()
    assert plan == db.sql(query.replace("?", "3", 1).replace("?", "'UA'")).arrow()["plan"].to_pylist()
    assert "range=" in plan[-1]
    assert "sets=" in plan[-1]
    assert "test=" not in plan[-1]


MISSING = [
    ("select ?", None, "pass a parameter"),
    ("select ?, ?", [1], r"placeholder 2 \(\?\) has no value"),
    ("select ?", [1, 2], "parameter 2 of 2 is not used"),
    ("select 1", [1], "parameter 1 of 1 is not used"),
    ("select 1", {"low": 1}, 'parameter "low" is not used'),
    ("select $low", {}, r"\$low has no value"),
    ("select $low", {"high": 1}, r"\$low has no value; there are: high"),
    ("select $low", [1], r"\$low has a name"),
    ("select ?", {"low": 1}, r"\? has no name"),
]


@pytest.mark.parametrize(("query", "parameters", "message"), MISSING)
def test_a_parameter_missing_or_left_over_is_named(db: Any, query: str, parameters: Any, message: str) -> None:
    with pytest.raises(drillcore.InvalidArgumentError, match=message):
        db.sql(query, parameters)


WRONG = [
    ("UA", TypeError, "expected a list of values"),
    (7, TypeError, "expected a list of values"),
    ({1}, TypeError, "expected a list of values"),
    ([[1, 2]], TypeError, r"parameter 1: \[1, 2\] is a list; use one placeholder for each value"),
    ({"a": object()}, TypeError, 'parameter "a": expected None, bool, int'),
    ({1: 1}, TypeError, "expected a name"),
    ([10**40], ValueError, "more than 38 digits"),
    ([Decimal("NaN")], ValueError, "not a finite decimal"),
    (["\ud800"], ValueError, "UTF-8"),
]


@pytest.mark.parametrize(("parameters", "kind", "message"), WRONG)
def test_what_is_no_value_of_sql_is_refused(db: Any, parameters: Any, kind: type, message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        db.sql("select 1", parameters)
    assert isinstance(caught.value, drillcore.Error)


def test_a_parameter_keeps_its_nanoseconds() -> None:
    with drillcore.open(":memory:") as db:
        fine = pd.Timestamp(1_001)
        table = db.create_table("t", {"at": "timestamp[ns]"}, key="at")
        table.append([{"at": fine}, {"at": fine.floor("us")}])
        for value in (fine, fine.to_datetime64(), pa.scalar(fine.value, pa.timestamp("ns"))):
            assert db.sql("select count(*) as n from t where at = ?", [value]).arrow()["n"].to_pylist() == [1]
        far = db.sql("select ? as at, ? as lasts", [fine.tz_localize("Europe/Oslo"), pd.Timedelta(1_001)]).arrow()
        assert far["at"].type == pa.timestamp("ns", "Europe/Oslo")
        assert far["lasts"].cast(pa.int64()).to_pylist() == [1_001]

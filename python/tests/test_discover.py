"""Discovered dimensions hold what pandas groups."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import drillcore

ROLLUP = {"dimensions": "discover", "metrics": {"n": "count", "total": "sum(bytes)"}}
SCHEMA = {"day": "int64", "bytes": "int64"}


@pytest.fixture
def hits(database: drillcore.Database) -> drillcore.Table:
    return database.create_table("hits", SCHEMA, key="day", set="day", merge="rollup", rollup=ROLLUP)


def as_frame(rows: drillcore.Rows, dimensions: list[str]) -> list[tuple[Any, ...]]:
    columns = ["day", *dimensions, "n", "total"]
    return sorted((tuple(row[name] for name in columns) for row in rows.arrow().to_pylist()), key=repr)


def test_dimensions_found_on_the_way_fold_as_pandas_groups(database: drillcore.Database, hits: drillcore.Table) -> None:
    rng = np.random.default_rng(7)
    names = ["host", "status", "ok", "share"]
    values = {
        "host": lambda n: rng.choice(["a", "b", None], n),
        "status": lambda n: pd.array(rng.choice([200, 404, 500], n), dtype="int32"),
        "ok": lambda n: rng.choice([True, False], n),
        "share": lambda n: rng.choice([0.25, 0.5], n).astype("float32"),
    }
    frames = []
    for part in range(12):
        size = 200
        frame = pd.DataFrame({"day": rng.integers(0, 5, size), "bytes": rng.integers(0, 1000, size)})
        for name in names[: part // 3]:
            frame[name] = values[name](size)
        frames.append(frame)
        data = [frame, pa.Table.from_pandas(frame, preserve_index=False), pl.from_pandas(frame)][part % 3]
        assert hits.append(data).rows == size
        if part % 4 == 3:
            database.flush()
    known = names[:3]
    assert hits.key == ["day", *known]
    assert hits.schema.field("status").type == pa.int64()
    events = pl.concat([pl.from_pandas(frame) for frame in frames], how="diagonal_relaxed")
    expected = events.group_by("day", *known).agg(pl.len().cast(pl.Int64).alias("n"), pl.sum("bytes").alias("total"))
    wanted = sorted(expected.select("day", *known, "n", "total").rows(), key=repr)
    assert as_frame(hits.scan(), known) == wanted
    assert len(hits) == len(wanted)
    assert hits.count(unit="events") == 2400
    by_host = database.sql("select host, sum(n) as n from hits group by host order by host nulls first")
    counts = events.group_by("host").agg(pl.len().alias("n")).sort("host", nulls_last=False)
    assert by_host.arrow().to_pydict() == counts.cast({"n": pl.Int64}).to_dict(as_series=False)
    sampled = hits.sample(50, where="status = 404").arrow().to_pylist()
    assert {row["status"] for row in sampled} == {404}
    assert hits.count(where="ok is null") == sum(row[3] is None for row in wanted)
    database.compact()
    assert as_frame(hits.scan(), known) == wanted
    database.verify()


def test_dicts_bring_columns_of_the_type_of_their_values(hits: drillcore.Table) -> None:
    assert hits.append([{"day": 1, "host": "a"}, {"day": 1, "code": 7, "bytes": 5}]).rows == 2
    assert hits.schema.names == ["day", "n", "total", "host", "code"]
    assert hits.get(1, None, 7) == {"day": 1, "n": 1, "total": 5, "host": None, "code": 7}
    assert hits.get(1, "a")["n"] == 1
    assert hits.get(1) is None
    assert len(hits.get_many([(1, "a"), (1, "b")])) == 1
    with pytest.raises(drillcore.InvalidTypeError, match=r'row 1: column "mixed" \(string\): 2 is not a string'):
        hits.append([{"day": 1, "mixed": "a"}, {"day": 1, "mixed": 2}])
    with pytest.raises(drillcore.InvalidArgumentError, match="code"):
        hits.append([{"day": 1, "code": "x"}])
    with pytest.raises(drillcore.InvalidArgumentError, match="has type list<string>"):
        hits.append([{"day": 1, "tags": ["a"]}])
    result = hits.append([{"day": 1, "code": "x"}, {"day": 2, "city": "Oslo"}], on_error="skip")
    assert (result.rows, result.rejected[0].row) == (1, 0)
    assert hits.key == ["day", "host", "code", "city"]


def test_a_table_takes_its_columns_up_again_and_a_reader_follows(tmp_path: Path) -> None:
    path = tmp_path / "db"
    make: dict[str, Any] = {"key": "day", "merge": "rollup", "rollup": ROLLUP, "exist_ok": True}
    with drillcore.open(path) as db, drillcore.open(path, read_only=True) as reader:
        db.create_table("hits", SCHEMA, **make).append([{"day": 1}])
        reader.refresh()
        lsn = db.table("hits").append([{"day": 1, "host": "a"}]).lsn
        assert reader.table("hits").key == ["day"]
        reader.refresh(at_least=lsn)
        assert reader.table("hits").key == ["day", "host"]
        assert len(reader.table("hits")) == 2
    with drillcore.open(path) as db:
        hits = db.create_table("hits", SCHEMA, **make)
        assert hits.key == ["day", "host"]
        assert hits.append([{"day": 1, "host": "a"}]).rows == 1
        assert hits.get(1, "a")["n"] == 2


def test_appends_of_dicts_over_several_tables_know_the_columns_of_events(database: drillcore.Database) -> None:
    rollup = {"metrics": {"total": "sum(bytes)"}}
    t = database.create_table("t", SCHEMA, key="day", merge="rollup", rollup=rollup)
    database.append({"t": [{"day": 1, "bytes": 5}, {"day": 1, "bytes": 6}]})
    assert t.get(1)["total"] == 11


def test_of_values_of_several_types_skip_keeps_those_like_the_first(hits: drillcore.Table) -> None:
    rows: list[dict[str, Any]] = [
        {"day": 1, "code": None},
        {"day": 2, "code": 7},
        {"day": 3, "code": "x"},
        {"day": 4, "code": 8.0, "city": "Oslo"},
        {"day": 5, "code": 8.5},
        {"day": 6, "city": 9},
        {"day": 7, "tags": ["a"]},
        {"day": 8, "total": 5},
        {"day": "nine"},
        {"day": 10},
    ]
    with pytest.raises(drillcore.Error):
        hits.append(rows)
    assert len(hits) == 0 and hits.key == ["day"]
    result = hits.append(rows, on_error="skip")
    assert result.rows == 4
    reasons = {each.row: each.reason for each in result.rejected}
    assert list(reasons) == [2, 4, 5, 6, 7, 8]
    assert "column \"code\" (int64): 'x' is not a number; the first value of a new column" in reasons[2]
    assert "8.5 is not a whole number" in reasons[4]
    assert 'column "city" (string)' in reasons[5]
    assert 'new column "tags"' in reasons[6]
    assert reasons[7] == 'dimension "total" has the name of a metric; rename it'
    assert hits.key == ["day", "code", "city"]
    assert [(row["day"], row["code"], row["city"]) for row in hits.scan().arrow().to_pylist()] == [
        (1, None, None),
        (2, 7, None),
        (4, 8, "Oslo"),
        (10, None, None),
    ]


def test_a_fault_in_another_row_does_not_change_the_type_of_a_new_dimension(hits: drillcore.Table) -> None:
    rows: list[dict[str, Any]] = [{"day": 1, "share": 1}, {"day": 2, "share": 0.5}, {"day": "three"}]
    result = hits.append(rows, on_error="skip")
    assert (result.rows, [each.row for each in result.rejected]) == (2, [2])
    assert hits.schema.field("share").type == pa.float64()


AT, FINE = dt.datetime(2013, 1, 1, 5), pd.Timestamp(1_001)
MIXED: dict[str, tuple[list[Any], str]] = {
    "a date and a time of it": ([dt.date(2013, 1, 1), AT], "has a time of day"),
    "a time with a zone": ([AT, AT.replace(tzinfo=dt.timezone.utc)], "has UTC"),
    "a bool among floats": ([2.5, True], "True is a bool"),
    "numbers with no common type": ([2**63, -1], "-1 is out of range"),
    "NaN among texts": (["a", float("nan")], "nan is not a string"),
}


@pytest.mark.parametrize("name", MIXED)
def test_values_that_one_dimension_would_change_are_refused_by_row(hits: drillcore.Table, name: str) -> None:
    values, says = MIXED[name]
    rows = [{"day": 1, "d": value} for value in values]
    with pytest.raises((drillcore.InvalidArgumentError, drillcore.InvalidTypeError)) as error:
        hits.append(rows)
    assert str(error.value).startswith('row 1: column "d"') and says in str(error.value)
    result = hits.append(rows, on_error="skip")
    assert (result.rows, [row.row for row in result.rejected]) == (1, [1])
    assert says in result.rejected[0].reason


HELD: dict[str, tuple[list[Any], str]] = {
    "nanoseconds": ([FINE, FINE + pd.Timedelta(1)], "timestamp[ns]"),
    "nanoseconds of numpy": ([np.datetime64(1_001, "ns"), np.datetime64(1_002, "ns")], "timestamp[ns]"),
    "nanoseconds of pyarrow": (
        [pa.scalar(1_001, pa.timestamp("ns")), pa.scalar(1_002, pa.timestamp("ns"))],
        "timestamp[ns]",
    ),
    "days of numpy": ([np.datetime64("2013-01-01"), np.datetime64("2013-01-02")], "date32[day]"),
    "large numbers": ([2**63, 1], "uint64"),
    "pandas's NA": ([pd.NA, 1], "int64"),
    "pandas's NaT": ([pd.NaT, AT], "timestamp[us]"),
    "small numbers of numpy": ([np.int8(1), 2.5], "double"),
}


@pytest.mark.parametrize("name", HELD)
def test_a_new_dimension_tells_its_values_apart(hits: drillcore.Table, name: str) -> None:
    values, kind = HELD[name]
    assert hits.append([{"day": 1, "d": value} for value in values]).rows == 2
    assert (str(hits.schema.field("d").type), len(hits)) == (kind, 2)
    frame = pd.DataFrame({"day": 1, "d": pd.Series(values, dtype=object)})
    assert hits.append(frame).rows == 2
    assert len(hits) == 2

"""Rollup tables hold exactly what pandas folds."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import drillcore

SCHEMA = pa.schema(
    [
        pa.field("at", pa.timestamp("s", "UTC"), nullable=False),
        pa.field("host", pa.string(), nullable=False),
        pa.field("delay", pa.int64()),
        pa.field("load", pa.float64()),
    ]
)
ROLLUP: dict[str, Any] = {
    "time": "at",
    "granularity": "hour",
    "dimensions": ["host"],
    "metrics": {
        "n": "count",
        "delay": "sum(delay)",
        "least": "min(delay)",
        "most": "max(delay)",
        "load": "sum(load)",
        "mean": "avg(delay)",
    },
}
METRICS = list(ROLLUP["metrics"])


def events(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    start = pd.Timestamp("2013-03-10", tz="UTC")
    # Sums of quarters are exact in floats, in whatever order.
    frame = pd.DataFrame(
        {
            "at": start + pd.to_timedelta(rng.integers(0, 48 * 3600, rows), unit="s"),
            "host": rng.choice(list("abcd"), rows),
            "delay": pd.array(rng.integers(-1000, 1000, rows), dtype="Int64"),
            "load": rng.integers(0, 100, rows) / 4,
        }
    )
    frame["at"] = frame["at"].astype("datetime64[s, UTC]")
    frame.loc[rng.random(rows) < 0.3, "delay"] = pd.NA
    return frame


def folded(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows that pandas makes of the events."""
    groups = frame.assign(at=frame["at"].dt.floor("h")).groupby(["at", "host"], sort=True)
    result = pd.DataFrame(
        {
            "n": groups.size(),
            "delay": groups["delay"].sum(min_count=1),
            "least": groups["delay"].min(),
            "most": groups["delay"].max(),
            "load": groups["load"].sum(),
            "mean": groups["delay"].mean(),
        }
    ).reset_index()
    rows = pa.Table.from_pandas(result, preserve_index=False).to_pylist()
    return [{**row, "at": pd.Timestamp(row["at"]).to_pydatetime()} for row in rows]


def as_rows(rows: drillcore.Rows) -> list[dict[str, Any]]:
    return [{**row, "at": pd.Timestamp(row["at"]).to_pydatetime()} for row in rows.arrow().to_pylist()]


@pytest.fixture
def hourly(database: drillcore.Database) -> drillcore.Table:
    return database.create_table("hourly", SCHEMA, key="at", set="host", merge="rollup", rollup=ROLLUP)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_row_is_what_pandas_folds_the_events_to(
    database: drillcore.Database, hourly: drillcore.Table, seed: int
) -> None:
    frame = events(4000, seed)
    for part in range(8):
        batch = frame.iloc[part * 500 : (part + 1) * 500]
        assert hourly.append(batch).rows == 500
        if part % 3 == 1:
            database.flush()
        so_far = folded(frame.iloc[: (part + 1) * 500])
        assert as_rows(hourly.scan()) == so_far
        assert len(hourly) == hourly.count() == len(so_far)
        assert hourly.count(unit="events") == (part + 1) * 500
    database.compact()
    assert as_rows(hourly.scan()) == so_far
    of_b = [row for row in so_far if row["host"] == "b"]
    assert as_rows(hourly.scan(set="b")) == of_b
    assert hourly.count(set="b", unit="events") == sum(row["n"] for row in of_b) == int((frame["host"] == "b").sum())
    row = so_far[10]
    assert hourly.get(row["at"], row["host"]) == hourly.scan(limit=11).arrow().to_pylist()[10]


def test_the_schema_shows_the_folded_columns_and_appends_take_those_of_the_events(hourly: drillcore.Table) -> None:
    assert hourly.key == ["at", "host"]
    assert hourly.schema.names == ["at", "host", *METRICS]
    assert hourly.append_schema == SCHEMA
    assert hourly.schema.field("load").type == pa.float64()
    assert "merge='rollup'" in repr(hourly)


def test_dicts_are_events(hourly: drillcore.Table) -> None:
    nine = datetime(2013, 1, 1, 9, tzinfo=pd.Timestamp.now("UTC").tzinfo)
    rows = [{"at": nine + timedelta(minutes=i), "host": "a", "delay": i, "load": 0.5} for i in range(3)]
    result = hourly.append([*rows, {"at": nine, "host": "a", "delay": "late"}], on_error="skip")
    assert (result.rows, [each.row for each in result.rejected]) == (3, [3])
    found = hourly.get(nine, "a")
    assert found is not None
    assert [found[name] for name in METRICS] == [3, 3, 0, 2, 1.5, 1.0]


def test_one_commit_feeds_events_and_their_rollup(database: drillcore.Database, hourly: drillcore.Table) -> None:
    plain = database.create_table("events", SCHEMA, key=["at", "host"])
    frame = events(300, 9)
    dicts = [{"at": row["at"], "host": row["host"]} for row in pa.Table.from_pandas(frame).to_pylist()]
    for part in range(0, 300, 100):
        database.append({"events": frame.iloc[part : part + 100], "hourly": dicts[part : part + 100]})
        with database.snapshot() as snapshot:
            assert len(snapshot.table("events")) == snapshot.table("hourly").count(unit="events") == part + 100
    assert len(plain) == 300


def test_draws_are_of_events(hourly: drillcore.Table) -> None:
    nine = datetime(2013, 1, 1, 9, tzinfo=pd.Timestamp.now("UTC").tzinfo)
    hourly.append([{"at": nine, "host": "a"}] + [{"at": nine, "host": "b"}] * 9)
    drawn = hourly.sample(10).arrow()["host"].to_pylist()
    assert sorted(drawn) == ["a", *"bbbbbbbbb"]
    rows = hourly.sample(2, replace=True, with_probability=True).arrow().to_pylist()
    assert [row["probability"] for row in rows] == [pytest.approx(0.1)] * 2
    with pytest.raises(drillcore.TooFewRowsError):
        hourly.sample(11)


def test_estimates_are_of_rows_where_samples_are_of_events(
    database: drillcore.Database, hourly: drillcore.Table
) -> None:
    frame = events(4000, 5)
    for part in range(4):
        hourly.append(frame.iloc[part * 1000 : (part + 1) * 1000])
        if part % 2 == 0:
            database.flush()
    rows = folded(frame)
    average = {name: database.sql(f"select avg({name}) from hourly").arrow().column(0)[0].as_py() for name in METRICS}
    for name in METRICS:
        whole = hourly.estimate(f"avg({name})", n=len(rows))
        assert (whole.exact, whole.value) == (True, pytest.approx(average[name])), name
    some = hourly.estimate(["count", "avg(n)"], n=100, seed=3).df()
    assert list(some["count"]) == [len(rows)]
    assert some["avg(n)_low"][0] < average["n"] < some["avg(n)_high"][0]
    by_host = hourly.estimate("count", by="host", n=1)
    assert by_host.exact
    assert by_host.df()["count"].tolist() == [sum(row["host"] == host for row in rows) for host in "abcd"]
    late = hourly.estimate("avg(n)", where="delay > 0", n=len(rows))
    assert late.value == pytest.approx(float(np.mean([row["n"] for row in rows if (row["delay"] or 0) > 0])))


def test_a_sum_beyond_its_type_is_an_error_and_never_wrapped(hourly: drillcore.Table) -> None:
    nine = datetime(2013, 1, 1, 9, tzinfo=pd.Timestamp.now("UTC").tzinfo)
    for _ in range(2):
        hourly.append([{"at": nine, "host": "a", "delay": 2**62}])
    assert hourly.count() == 1
    for read in (lambda: hourly.scan().arrow(), lambda: hourly.get(nine, "a"), lambda: hourly.sample(1)):
        with pytest.raises(drillcore.OutOfRangeError, match="delay") as caught:
            read()
        assert isinstance(caught.value, OverflowError)
    hourly.append([{"at": nine, "host": "a", "delay": -1}])
    found = hourly.get(nine, "a")
    assert found is not None and found["delay"] == 2**63 - 1, "inside, the sum was exact all along"


@pytest.mark.parametrize(
    ("granularity", "minutes"), [("none", [1, 7, 59]), ("minute", [1, 7, 59]), ("5m", [0, 5, 55]), ("1h", [0])]
)
def test_time_is_truncated_to_the_granularity(
    database: drillcore.Database, granularity: str, minutes: list[int]
) -> None:
    table = database.create_table(
        "t",
        {"at": "timestamp[ms]"},
        key="at",
        merge="rollup",
        rollup={"time": "at", "granularity": granularity, "metrics": {"n": "count"}},
    )
    table.append([{"at": datetime(2013, 1, 1, 9, minute)} for minute in (1, 7, 59)])
    assert [row["at"].minute for row in table.scan().arrow().to_pylist()] == minutes


def test_a_rollup_needs_neither_time_nor_metrics(database: drillcore.Database) -> None:
    table = database.create_table("t", {"word": "string"}, key="word", merge="rollup", rollup={})
    table.append([{"word": word} for word in ["to", "be", "or", "not", "to", "be"]])
    assert table.scan().arrow()["word"].to_pylist() == ["be", "not", "or", "to"]
    assert table.count(between=("be", "be"), unit="events") == 2


def test_a_rollup_is_one_after_opening_again(tmp_path: Path) -> None:
    frame = events(1000, 4)
    with drillcore.open(tmp_path / "db") as db:
        options: dict[str, Any] = {"key": ["at"], "merge": "rollup", "rollup": ROLLUP}
        db.create_table("hourly", SCHEMA, **options).append(frame.iloc[:600])
    with drillcore.open(tmp_path / "db") as db:
        table = db.create_table("hourly", SCHEMA, **options, exist_ok=True)
        table.append(frame.iloc[600:])
        assert as_rows(table.scan()) == folded(frame)


def test_a_dict_without_time_or_a_declared_dimension_is_refused_whatever_the_others_have(
    database: drillcore.Database,
) -> None:
    schema = {"at": "timestamp[s]", "host": "string", "load": "float64"}
    hourly = database.create_table("hourly", schema, key="at", merge="rollup", rollup=ROLLUP | {"metrics": {}})
    whole = {"at": datetime(2013, 1, 1), "host": "a"}
    for name in ("at", "host"):
        lacking = {key: value for key, value in whole.items() if key != name}
        for rows in ([lacking], [whole, lacking]):
            with pytest.raises(drillcore.InvalidArgumentError, match=f'lacks key column "{name}"'):
                hourly.append(rows)
            assert len(hourly) == 0
        result = hourly.append([lacking, whole, lacking], on_error="skip")
        assert (result.rows, [each.row for each in result.rejected]) == (1, [0, 2])
        assert result.rejected[0].reason == f'the dict lacks key column "{name}"; add it, with None for null'
        database.drop_table("hourly")
        hourly = database.create_table("hourly", schema, key="at", merge="rollup", rollup=ROLLUP | {"metrics": {}})
    # A dimension that came later is none that a dict must have.
    hourly.add_column("rack", "int64")
    assert hourly.append([whole | {"rack": 1}, whole]).rows == 2
    assert hourly.append([{"at": None, "host": None}]).rows == 1

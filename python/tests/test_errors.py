"""Every mistake has its class, and a message that says what to do."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from events import event_rows, moment

import drillcore
from drillcore import Database, Table

NOT_FOUND = (drillcore.NotFoundError, KeyError)
INVALID = (drillcore.InvalidArgumentError, ValueError)
TYPE = (drillcore.InvalidTypeError, TypeError)
TOO_FEW = (drillcore.TooFewRowsError, ValueError)


def folded(db: Database, key: list[str] | None = None, rollup: Any = None, **changes: Any) -> Table:
    """A rollup table whose definition is right but for ``changes``."""
    options = {name: changes.pop(name) for name in ("set", "weights") if name in changes}
    whole = {"time": "ts", "granularity": "hour", "dimensions": ["host"], "metrics": {"n": "count"}}
    schema = {"ts": "timestamp[s]", "host": "string", "load": "float64"}
    return db.create_table(
        "folded", schema, key=key or ["ts"], merge="rollup", rollup=rollup or {**whole, **changes}, **options
    )


def upserted(db: Database) -> Table:
    return db.create_table("upserted", {"name": "string", "id": "int64"}, key=["name", "id"], merge="upsert")


def weighted(db: Database) -> Table:
    """Three rows, one of them without weight."""
    table = db.create_table("weighted", {"id": "int64", "weight": "float64"}, key="id", weights="weight")
    table.append(pa.table({"id": [0, 1, 2], "weight": [0.0, 1.0, 2.5]}))
    return table


def weigh(db: Database, weights: list[float | None]) -> None:
    table = weighted(db)
    try:
        table.append(pa.table({"id": range(10, 10 + len(weights)), "weight": weights}))
    finally:
        assert len(table) == 3, "a refused batch stores nothing"


MISTAKES: dict[str, tuple[Callable[[Database, Table], Any], tuple[type, type], str]] = {
    "an unknown table": (lambda db, t: db.table("event"), NOT_FOUND, 'did you mean "events"'),
    "a table to drop": (lambda db, t: db.drop_table("evnts"), NOT_FOUND, 'did you mean "events"'),
    "an unknown table in a snapshot": (lambda db, t: db.snapshot().table("event"), NOT_FOUND, "did you mean"),
    "an unknown column": (lambda db, t: t.scan(columns=["dealy"]), NOT_FOUND, 'did you mean "delay"'),
    "an unknown column of a sample": (lambda db, t: t.sample(1, columns=["dealy"]), NOT_FOUND, "delay"),
    "an unknown column of get_many": (
        lambda db, t: t.get_many([(moment(0), 0)], columns=["dealy"]),
        NOT_FOUND,
        "delay",
    ),
    "an unknown column to append": (
        lambda db, t: t.append([{"ts": moment(0), "flight": 1, "dealy": 1.0}]),
        NOT_FOUND,
        'did you mean "delay"',
    ),
    "an unknown aggregate": (lambda db, t: t.estimate("avgg(delay)", n=10), NOT_FOUND, 'did you mean "avg"'),
    "an aggregate of an unknown column": (lambda db, t: t.estimate("avg(dealy)", n=10), NOT_FOUND, "delay"),
    "an average of text": (lambda db, t: t.estimate("avg(carrier)", n=10), INVALID, "carrier"),
    "a group by an unknown column": (lambda db, t: t.estimate("count", by="carier", n=10), NOT_FOUND, "carrier"),
    "a set where there are none": (
        lambda db, t: db.create_table("x", {"id": "int64"}, key="id").count(set="a"),
        INVALID,
        "no set column",
    ),
    "a set of the wrong type": (lambda db, t: t.count(set=7), TYPE, "carrier"),
    "None as a set": (lambda db, t: t.count(set=[None]), INVALID, "drillcore.NULL"),
    "text for a number": (
        lambda db, t: t.append([{"ts": moment(0), "flight": "x"}]),
        INVALID,
        'column "flight" .int64.',
    ),
    "a fraction for a whole number": (
        lambda db, t: t.append(pa.table({"ts": [moment(0)], "flight": [1.5]})),
        INVALID,
        "1.5",
    ),
    "a column of the wrong type": (
        lambda db, t: t.append(pa.table({"ts": [moment(0)], "flight": ["1"]})),
        INVALID,
        '"flight" stores int64',
    ),
    "a missing key column": (lambda db, t: t.append([{"flight": 1}]), INVALID, 'key column "ts"'),
    "a null where none is taken": (
        lambda db, t: t.append([{"ts": moment(0), "flight": None}]),
        INVALID,
        "is not nullable",
    ),
    "the same column twice": (
        lambda db, t: t.append(
            pa.table([pa.array([moment(0)]), pa.array([1]), pa.array([1])], names=["ts", "flight", "flight"])
        ),
        INVALID,
        "twice",
    ),
    "data that is no data": (lambda db, t: t.append(7), TYPE, "list of dicts"),
    "columns as a dict": (lambda db, t: t.append({"flight": [1]}), TYPE, r"pyarrow.table\(data\) for columns"),
    "rows as tuples": (lambda db, t: t.append([(1, 2)]), TYPE, "not a list with tuple"),
    "a query of polars not yet run": (lambda db, t: t.append(pl.LazyFrame({"flight": [1]})), TYPE, "collect"),
    "times without the column's zone": (
        lambda db, t: t.append(pa.table({"ts": [datetime(2013, 1, 1)], "flight": [1]})),
        INVALID,
        "give the times a time zone",
    ),
    "several tables as a list": (lambda db, t: db.append([("events", [])]), TYPE, "dict from table name"),
    "an append to an unknown table": (lambda db, t: db.append({"event": []}), NOT_FOUND, "events"),
    "on_error by another name": (lambda db, t: t.append([], on_error="ignore"), INVALID, '"raise" or "skip"'),
    "a key of too few values": (lambda db, t: t.get(moment(0)), INVALID, "ts, flight"),
    "a key of the wrong type": (lambda db, t: t.get(moment(0), "x"), INVALID, "flight"),
    "a fraction in a key": (lambda db, t: t.get(moment(0), 0.5), INVALID, "whole number"),
    "a bool in a key": (lambda db, t: t.get(moment(0), False), TYPE, "bool"),
    "a number beyond the type": (lambda db, t: t.get(moment(0), 2**70), INVALID, "out of range"),
    "a number for a time": (lambda db, t: t.get(0, 0), TYPE, "not a datetime"),
    "a text without an offset": (lambda db, t: t.get("2013-01-01", 0), INVALID, "has no offset"),
    "a key without its zone": (lambda db, t: t.get(datetime(2013, 1, 1), 0), INVALID, "America/New_York"),
    "keys without a key column": (
        lambda db, t: t.get_many(pa.table({"ts": [moment(0)]})),
        INVALID,
        "flight.*but 1 was given",
    ),
    "keys without their first column": (lambda db, t: t.get_many(pa.table({"flight": [1]})), INVALID, '"ts"'),
    "keys without a dimension": (
        lambda db, t: t.get_many(np.array(1)),
        TYPE,
        "list of keys or Arrow data, not ndarray",
    ),
    "keys that are no keys": (lambda db, t: t.get_many("abc"), TYPE, "list of keys"),
    "bounds that are no pair": (lambda db, t: t.count(between=moment(0)), TYPE, "pair"),
    "a bound longer than the key": (
        lambda db, t: t.count(between=((moment(0), 1, 2), None)),
        INVALID,
        "values of the first key columns",
    ),
    "reversed bounds": (lambda db, t: t.count(between=(moment(5), moment(3))), INVALID, "low|before|above|after"),
    "reversed bounds of a scan": (
        lambda db, t: t.scan(between=(moment(5), moment(3))),
        INVALID,
        "low|before|above|after",
    ),
    "closed by another name": (lambda db, t: t.count(closed="open"), INVALID, "'left'"),
    "a negative sample": (lambda db, t: t.sample(-1), INVALID, "n: expected a number of at least 0, not -1"),
    "a sample of a fraction": (lambda db, t: t.sample(1.5), TYPE, "whole number"),
    "a negative limit": (lambda db, t: t.scan(limit=-1), INVALID, "limit"),
    "a sample larger than the table": (lambda db, t: t.sample(1001), TOO_FEW, "1,?000"),
    "a sample of an empty selection": (lambda db, t: t.sample(1, between=(moment(9999), None)), TOO_FEW, "no row"),
    "a seed that is no number": (lambda db, t: t.sample(1, seed="x"), TYPE, "seed"),
    "a negative seed": (lambda db, t: t.sample(1, seed=-1), INVALID, "seed"),
    "columns as one name": (lambda db, t: t.scan(columns="delay"), TYPE, "list of names"),
    "two ways to stop": (lambda db, t: t.estimate("count", n=5, seconds=1), INVALID, "one stopping condition"),
    "an error of nothing": (lambda db, t: t.estimate("avg(delay)", error=0), INVALID, "positive"),
    "an error in words": (lambda db, t: t.estimate("avg(delay)", error="small"), INVALID, '"2%"'),
    "an estimate of no rows": (lambda db, t: t.estimate("avg(delay)", n=0), INVALID, "at least 1"),
    "no aggregate": (lambda db, t: t.estimate([], n=5), INVALID, "at least one"),
    "certainty": (lambda db, t: t.estimate("avg(delay)", n=5, confidence=1.0), INVALID, "0.95"),
    "a type by another name": (
        lambda db, t: db.create_table("x", {"id": "int46"}, key="id"),
        INVALID,
        'did you mean "int64"',
    ),
    "a type by its name in Python": (
        lambda db, t: db.create_table("x", {"id": "int"}, key="id"),
        INVALID,
        'unknown type "int"; did you mean "int64"',
    ),
    "a type by its name in SQL": (
        lambda db, t: t.add_column("x", "TIMESTAMP"),
        INVALID,
        r"did you mean \"timestamp\[us\]\"",
    ),
    "a decimal of too many digits": (
        lambda db, t: db.create_table("x", {"id": "int64", "cost": "decimal128(39, 2)"}, key="id"),
        INVALID,
        'column "cost": the precision of a decimal must be from 1 to 38, got 39',
    ),
    "a decimal of no digits": (lambda db, t: t.add_column("cost", "decimal128(0, 0)"), INVALID, "from 1 to 38, got 0"),
    "a decimal with more places than digits": (
        lambda db, t: t.add_column("cost", "decimal128(4, 5)"),
        INVALID,
        'column "cost": the scale of a decimal must be from 0 to its precision, 4, got 5',
    ),
    "a decimal of a negative scale": (
        lambda db, t: t.add_column("cost", "decimal128(4, -2)"),
        INVALID,
        "must be from 0 to its precision, 4, got -2",
    ),
    "a decimal without bits": (
        lambda db, t: t.add_column("cost", "decimal(10, 2)"),
        INVALID,
        'did you mean "decimal128',
    ),
    "a type that cannot be stored": (
        lambda db, t: db.create_table("x", pa.schema({"id": pa.list_(pa.int64())}), key="id"),
        INVALID,
        "id",
    ),
    "a key that is no column": (lambda db, t: db.create_table("x", {"id": "int64"}, key="ix"), NOT_FOUND, '"id"'),
    "a set that is no column": (
        lambda db, t: db.create_table("x", {"id": "int64"}, key="id", set="ix"),
        NOT_FOUND,
        '"id"',
    ),
    "a schema that is none": (lambda db, t: db.create_table("x", 7, key="id"), TYPE, "pyarrow.Schema"),
    "a merge policy that is not there": (
        lambda db, t: db.create_table("x", {"id": "int64"}, key="id", merge="replace"),
        INVALID,
        "'append', 'upsert', 'rollup'",
    ),
    "a batch with a null where its own schema has none": (
        lambda db, t: t.append(
            pa.RecordBatch.from_arrays(
                [pa.array([None], pa.int64())], schema=pa.schema([pa.field("id", pa.int64(), False)])
            )
        ),
        INVALID,
        "data cannot be read: .*non-nullable",
    ),
    "a rollup without its dict": (
        lambda db, t: db.create_table("x", {"id": "int64"}, key="id", merge="rollup"),
        INVALID,
        "needs rollup=",
    ),
    "a rollup dict for another policy": (
        lambda db, t: db.create_table("x", {"id": "int64"}, key="id", rollup={}),
        INVALID,
        'merge="rollup"',
    ),
    "a rollup that is no dict": (lambda db, t: folded(db, None, rollup="hour"), TYPE, "'granularity'"),
    "an unknown key of rollup": (lambda db, t: folded(db, metric={"n": "count"}), NOT_FOUND, 'did you mean "metrics"'),
    "an unknown granularity": (lambda db, t: folded(db, granularity="huor"), NOT_FOUND, 'did you mean "hour"'),
    "a granularity that is no name": (lambda db, t: folded(db, granularity=3600), TYPE, "granularity"),
    "a time without a granularity": (lambda db, t: folded(db, granularity=None), INVALID, '"none"'),
    "a granularity without a time": (lambda db, t: folded(db, time=None), INVALID, "time column"),
    "a time that is no column": (lambda db, t: folded(db, time="st"), NOT_FOUND, "time column"),
    "a time column that has no times": (lambda db, t: folded(db, time="host"), INVALID, "timestamp"),
    "a time outside the key": (lambda db, t: folded(db, ["host"]), INVALID, "must be in the key"),
    "a dimension that is no column": (lambda db, t: folded(db, dimensions=["hots"]), NOT_FOUND, '"host"'),
    "dimensions that are no names": (lambda db, t: folded(db, dimensions=[1]), TYPE, "rollup dimensions"),
    "metrics as a list": (lambda db, t: folded(db, metrics=["count"]), TYPE, "rollup metrics"),
    "an unknown metric": (lambda db, t: folded(db, metrics={"x": "smu(load)"}), NOT_FOUND, 'did you mean "sum"'),
    "a metric of an unknown column": (lambda db, t: folded(db, metrics={"x": "sum(laod)"}), NOT_FOUND, '"load"'),
    "a metric of text": (lambda db, t: folded(db, metrics={"x": "sum(host)"}), INVALID, "string"),
    "a count of a column": (lambda db, t: folded(db, metrics={"x": "count(load)"}), INVALID, "takes no column"),
    "a metric without an end": (lambda db, t: folded(db, metrics={"x": "sum(load"}), INVALID, "parenthesis"),
    "a metric named as a dimension": (lambda db, t: folded(db, metrics={"host": "count"}), INVALID, "twice"),
    "a set outside the key of a rollup": (lambda db, t: folded(db, set="load"), INVALID, "must be in the key"),
    "weights of a rollup": (lambda db, t: folded(db, weights=["load"]), INVALID, "cannot have weights"),
    "a weighted draw from a rollup": (lambda db, t: folded(db).sample(1, weight="load"), INVALID, "draw events"),
    "a delete from a rollup": (lambda db, t: folded(db).delete([("2013-01-01", "a")]), INVALID, 'merge="rollup"'),
    "a delete from an append table": (lambda db, t: t.delete([(moment(0), 0)]), INVALID, "cannot delete rows by"),
    "a delete of nothing": (lambda db, t: t.delete(), INVALID, r"truncate\(\)"),
    "a delete of keys and a condition": (lambda db, t: upserted(db).delete([("a", 1)], where="x"), INVALID, "not both"),
    "a delete by a metric": (lambda db, t: folded(db).delete(where="n > 1"), INVALID, "'n'|\"n\""),
    "a delete of an unknown column": (lambda db, t: t.delete(where="nowhere = 1"), NOT_FOUND, "nowhere"),
    "a delete of half a key": (lambda db, t: upserted(db).delete([("a",)]), INVALID, "2 values .*, but 1 was"),
    "keys of several lengths": (lambda db, t: upserted(db).delete([("a", 1), ("b",)]), INVALID, "has 1 values"),
    "a delete of one key": (lambda db, t: upserted(db).delete(("a", 1)), INVALID, "tuple of 2 values"),
    "a delete of no key": (lambda db, t: upserted(db).delete(7), TYPE, "list of keys"),
    "a delete of a key of the wrong type": (lambda db, t: upserted(db).delete([("a", "b")]), INVALID, "'b'"),
    "a delete by Arrow without a key column": (
        lambda db, t: upserted(db).delete(pa.table({"name": ["a"]})),
        INVALID,
        "name, id.*but 1 was",
    ),
    "a unit by another name": (lambda db, t: t.count(unit="event"), INVALID, "'events'"),
    "a weight where there are none": (lambda db, t: t.sample(1, weight="delay"), NOT_FOUND, "there are none"),
    "an unknown weight": (lambda db, t: weighted(db).sample(1, weight="wieght"), NOT_FOUND, 'did you mean "weight"'),
    "a weight that is no name": (lambda db, t: weighted(db).sample(1, weight=2), TYPE, "weight"),
    "probabilities without a closed form": (
        lambda db, t: weighted(db).sample(1, weight="weight", with_probability=True),
        INVALID,
        "with replacement",
    ),
    "more different rows than have a weight": (
        lambda db, t: weighted(db).sample(3, weight="weight"),
        TOO_FEW,
        "2 of the 3 selected",
    ),
    "a weight that is no column": (
        lambda db, t: db.create_table("x", {"id": "int64"}, key="id", weights=["w"]),
        NOT_FOUND,
        "weight column",
    ),
    "a weight that is text": (
        lambda db, t: db.create_table("x", {"id": "int64", "w": "string"}, key="id", weights=["w"]),
        INVALID,
        "must be a number",
    ),
    "a weight in the key": (
        lambda db, t: db.create_table("x", {"id": "int64"}, key="id", weights=["id"]),
        INVALID,
        "cannot be a weight",
    ),
    "weights that are no names": (
        lambda db, t: db.create_table("x", {"id": "int64"}, key="id", weights=7),
        TYPE,
        "list of names",
    ),
    "a negative weight": (lambda db, t: weigh(db, [1.0, -0.5]), INVALID, 'row 1: .*"weight" cannot hold a negative'),
    "a weight of NaN": (lambda db, t: weigh(db, [float("nan"), 1.0]), INVALID, 'row 0: .*"weight" must hold'),
    "an infinite weight": (lambda db, t: weigh(db, [1.0, float("inf")]), INVALID, 'row 1: .*"weight" must hold'),
    "a null weight": (lambda db, t: weigh(db, [1.0, 2.0, None]), INVALID, 'row 2: .*"weight" cannot hold null'),
    "a load of nothing to load": (lambda db, t: t.load(7), TYPE, "iterator"),
    "a load of text": (lambda db, t: t.load("file.csv"), TYPE, "iterator"),
    "a load of numbers": (lambda db, t: t.load([1, 2]), TYPE, "item 0"),
    "a load of single dicts": (lambda db, t: t.load(iter([{"flight": 1}])), TYPE, "item 0 .* not dict"),
    "commits of no rows": (lambda db, t: t.load([], commit_rows=0), INVALID, "commit_rows"),
    "commits of half a row": (lambda db, t: t.load([], commit_rows=0.5), TYPE, "commit_rows"),
    "progress that cannot be called": (lambda db, t: t.load([], progress=1), TYPE, "progress"),
    "a load with on_error by another name": (lambda db, t: t.load([], on_error="stop"), INVALID, '"raise" or "skip"'),
    "a table without a key": (lambda db, t: db.create_table("x", {"id": "int64"}, key=[]), INVALID, "key"),
    "the same column twice in a schema": (
        lambda db, t: db.create_table("x", pa.schema([("id", pa.int64()), ("id", pa.int64())]), key="id"),
        INVALID,
        "id",
    ),
    "a percentage of two points": (lambda db, t: t.estimate("avg(delay)", error="1.2.3%"), INVALID, '"2%"'),
    "a group that is no name": (lambda db, t: t.estimate("count", by=[3], n=5), TYPE, "by: expected a name"),
    "an aggregate named as its group": (
        lambda db, t: t.estimate({"carrier": "count"}, by="carrier", n=5),
        INVALID,
        'two columns named "carrier"',
    ),
    "a group named as the rows drawn": (
        lambda db, t: t.estimate("count", by="sampled", n=5),
        INVALID,
        'columns named "sampled"',
    ),
    "an aggregate named as an end of another": (
        lambda db, t: t.estimate({"a": "avg(delay)", "a_low": "count"}, n=5),
        INVALID,
        'two columns named "a_low"',
    ),
    "a column twice": (lambda db, t: t.sample(1, columns=["delay", "delay"]), INVALID, '"delay" is listed twice'),
    "a column of a scan twice": (lambda db, t: t.scan(columns=["delay", "delay"]), INVALID, "listed twice"),
    "a delete of a key of no values": (lambda db, t: upserted(db).delete([()]), INVALID, "tuple of 2 values"),
    "a series as rows": (lambda db, t: t.append(pd.Series([1])), TYPE, "one column"),
    "a polars series as rows": (lambda db, t: t.append(pl.Series([1])), TYPE, "one column"),
    "an Arrow column as rows": (lambda db, t: t.append(pa.chunked_array([[1]])), TYPE, "one column"),
    "a load of a series": (lambda db, t: t.load(pd.Series([1])), TYPE, "one column"),
    "a data frame with a column twice": (
        lambda db, t: t.append(pd.DataFrame([[1, 2]], columns=["flight", "flight"])),
        INVALID,
        'has two columns "flight"; rename one',
    ),
    "a data frame of anything": (
        lambda db, t: t.append(pd.DataFrame({"flight": [object()]})),
        INVALID,
        r"row 0: column .flight. \(int64\): .* is not a number",
    ),
    "a schema of anything": (
        lambda db, t: db.create_table("x", pd.DataFrame({"id": [object()]}), key="id"),
        INVALID,
        "row 0: column .id.: .* which Arrow does not support; convert it",
    ),
    "a schema of one column": (lambda db, t: db.create_table("x", pd.Series([1]), key="id"), TYPE, "pyarrow.Schema"),
    "a schema of one type": (lambda db, t: db.create_table("x", pa.int64(), key="id"), TYPE, "pyarrow.Schema"),
    "an unknown time zone": (
        lambda db, t: db.create_table("x", {"at": "timestamp[us, europe/osol]"}, key="at"),
        INVALID,
        'did you mean "Europe/Oslo"',
    ),
    "an unknown time zone of Arrow": (
        lambda db, t: db.create_table("x", pa.schema({"at": pa.timestamp("us", "Mars/Base")}), key="at"),
        INVALID,
        'unknown time zone "Mars/Base"',
    ),
    "a folder as time zone": (lambda db, t: t.add_column("at", pa.timestamp("s", "America")), INVALID, "time zone"),
    "half a surrogate pair as a condition": (lambda db, t: t.count(where="'\ud800'"), INVALID, "UTF-8"),
    "half a surrogate pair as a query": (lambda db, t: db.sql("select '\ud800'"), INVALID, "UTF-8"),
    "half a surrogate pair as a table": (lambda db, t: db.table("\ud800"), INVALID, "UTF-8"),
    "half a surrogate pair as a table of a snapshot": (lambda db, t: db.snapshot().table("\ud800"), INVALID, "UTF-8"),
    "half a surrogate pair as a column": (lambda db, t: t.scan(columns=["\ud800"]), INVALID, "UTF-8"),
    "half a surrogate pair as a column of a dict": (
        lambda db, t: t.append([{"ts": moment(0), "flight": 1, "\ud800": 1}]),
        INVALID,
        "UTF-8",
    ),
    "half a surrogate pair as a new column": (
        lambda db, t: db.create_table("x", {"\ud800": "int64"}, key="id"),
        INVALID,
        "UTF-8",
    ),
    "half a surrogate pair as an aggregate": (lambda db, t: t.estimate("avg(\ud800)", n=5), INVALID, "UTF-8"),
    "half a surrogate pair as a key": (
        lambda db, t: db.create_table("x", {"id": "int64"}, key="\ud800"),
        INVALID,
        "key: .*UTF-8",
    ),
    "half a surrogate pair as a weight": (
        lambda db, t: db.create_table("x", {"id": "int64"}, key="id", weights="\ud800"),
        INVALID,
        "weights: .*UTF-8",
    ),
    "half a surrogate pair as a time to live": (lambda db, t: t.set_ttl("ts", "\ud800"), INVALID, "ttl: .*UTF-8"),
    "half a surrogate pair as a path": (lambda db, t: drillcore.open("\ud800"), INVALID, "path"),
    "no path": (lambda db, t: drillcore.open(""), INVALID, "expected a directory or ':memory:'"),
    "a path with a NUL": (lambda db, t: drillcore.open("a\0b"), INVALID, "path"),
    "too many threads": (lambda db, t: db.sql("select 1", threads=2**62), INVALID, "from 1 to 1,024"),
    "too many threads of a scan": (lambda db, t: t.scan(threads=1025), INVALID, "from 1 to 1,024"),
    "too many threads of a database": (lambda db, t: drillcore.open(":memory:", threads=2**40), INVALID, "1,024"),
    "a sample beyond 64 bits": (lambda db, t: t.sample(2**64), INVALID, r"0 to 2\*\*64 - 1"),
    "a limit beyond 64 bits": (lambda db, t: t.scan(limit=2**64), INVALID, r"0 to 2\*\*64 - 1"),
    "a budget beyond 64 bits": (lambda db, t: drillcore.open(":memory:", memory_bytes=2**64), INVALID, "2.*64 - 1"),
    "a sample of thousands of digits": (lambda db, t: t.sample(10**5000), INVALID, "too long to show"),
    "an error beyond floats": (lambda db, t: t.estimate("avg(delay)", error=10**400), INVALID, "positive number"),
    "one dict without a key column": (
        lambda db, t: t.append([{"ts": moment(0), "flight": 1}, {"ts": moment(0)}]),
        INVALID,
        'row 1: the dict lacks key column "flight"',
    ),
    "one dict with a key column misspelt": (
        lambda db, t: t.append([{"ts": moment(0), "flight": 1}, {"ts": moment(0), "fligth": 1}]),
        INVALID,
        'row 1: unknown column "fligth"; did you mean "flight"',
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_raises_its_class_and_says_what_to_do(database: Database, events: Table, mistake: str) -> None:
    call, classes, message = MISTAKES[mistake]
    with pytest.raises(drillcore.Error, match=message) as caught:
        call(database, events)
    for kind in classes:
        assert isinstance(caught.value, kind)
    assert len(events) == 1000


def test_a_set_without_rows_is_empty_and_cannot_be_sampled(events: Table) -> None:
    assert events.count(set="XX") == 0
    assert events.scan(set="XX").arrow().num_rows == 0
    with pytest.raises(drillcore.TooFewRowsError, match="no row is selected"):
        events.sample(1, set="XX")


def test_a_time_finer_than_the_column_is_refused(database: Database) -> None:
    table = database.create_table("t", {"at": "timestamp[s]", "day": "date32"}, key="at")
    with pytest.raises(drillcore.InvalidArgumentError, match="finer"):
        table.append([{"at": datetime(2013, 1, 1, 0, 0, 0, 5)}])
    with pytest.raises(drillcore.InvalidTypeError, match="time of day"):
        table.append([{"at": datetime(2013, 1, 1), "day": datetime(2013, 1, 1, 5)}])
    assert len(table) == 0


def test_nan_is_no_bound(database: Database) -> None:
    table = database.create_table("t", {"x": "float64"}, key="x")
    with pytest.raises(drillcore.InvalidArgumentError, match="NaN"):
        table.count(between=(float("nan"), None))


def test_a_message_reads_as_written(database: Database) -> None:
    # A plain KeyError would show its message in quotes.
    with pytest.raises(KeyError) as caught:
        database.table("nothing")
    assert str(caught.value).startswith("unknown table")


def test_every_class_derives_from_error_and_from_a_builtin() -> None:
    for name in drillcore.__all__:
        kind = getattr(drillcore, name)
        if isinstance(kind, type) and issubclass(kind, BaseException) and kind is not drillcore.Error:
            assert issubclass(kind, drillcore.Error)
            assert any(base.__module__ == "builtins" and base is not builtins.Exception for base in kind.__mro__[2:-3])


def test_options_of_open_are_checked() -> None:
    for options, kind in [
        ({"durability": "maybe"}, drillcore.InvalidArgumentError),
        ({"memory_bytes": -1}, drillcore.InvalidArgumentError),
        ({"threads": "two"}, drillcore.InvalidTypeError),
    ]:
        with pytest.raises(kind):
            drillcore.open(":memory:", **options)  # type: ignore[arg-type]
    with pytest.raises(drillcore.InvalidTypeError):
        drillcore.open(7)  # type: ignore[arg-type]


def test_skip_keeps_good_rows_and_reports_bad_ones(events: Table) -> None:
    data = pa.table(
        {"ts": [moment(5000 + i) for i in range(4)], "flight": pa.array([1.0, 2.5, None, 4.0])},
    )
    result = events.append(data, on_error="skip")
    assert result.rows == 2
    assert [each.row for each in result.rejected] == [1, 2]
    assert "2.5" in result.rejected[0].reason
    assert len(events) == 1002


def test_skip_reports_bad_dicts_by_their_position(events: Table) -> None:
    rows = [
        {"ts": moment(5000), "flight": 1},
        {"ts": moment(5001), "flight": "x"},
        {"ts": moment(5002), "flight": None},
        {"ts": moment(5003), "flight": 4, "delay": 1.5},
    ]
    result = events.append(rows, on_error="skip")
    assert result.rows == 2
    assert [each.row for each in result.rejected] == [1, 2]
    assert len(events) == 1002


def test_raise_stores_nothing_of_a_batch_with_one_bad_row(events: Table) -> None:
    with pytest.raises(drillcore.InvalidArgumentError, match="row 1"):
        events.append(pa.table({"ts": [moment(5000), moment(5001)], "flight": [1.0, 2.5]}))
    assert len(events) == 1000


def test_a_closed_database_says_so_whatever_is_called(database: Database, events: Table) -> None:
    records = database.create_table("records", {"id": "string"}, key="id", merge="upsert")
    database.close()
    calls: list[Callable[[], Any]] = [
        lambda: events.append(event_rows(0, 1)),
        lambda: events.load(event_rows(0, 1)),
        lambda: events.load([]),
        lambda: records.delete(["a"]),
        lambda: records.count(unit="events"),
        lambda: events.count(),
        lambda: events.get(moment(0), 0),
        lambda: events.sample(1),
        lambda: len(events),
        database.tables,
        database.snapshot,
        database.flush,
        database.compact,
        database.verify,
        database.stats,
        lambda: database.table("events"),
        lambda: database.create_table("x", {"id": "int64"}, key="id"),
        lambda: database.drop_table("events"),
    ]
    for call in calls:
        with pytest.raises(drillcore.ClosedError, match="closed"):
            call()


def test_skip_leaves_out_dicts_with_columns_the_table_lacks(database: Database) -> None:
    table = database.create_table("t", {"k": "int64", "s": "string"}, key="k")
    rows = [{"k": 1}, {"k": 2, "sz": "a"}, {"s": "a"}, {"k": 4, "s": 5}, {"k": None}]
    result = table.append(rows, on_error="skip")
    assert (result.rows, [each.row for each in result.rejected]) == (2, [1, 2, 3])
    reasons = [each.reason for each in result.rejected]
    assert (
        'did you mean "s"' in reasons[0] and 'lacks key column "k"' in reasons[1] and "5 is not a string" in reasons[2]
    )
    assert table.scan(columns=["k"]).arrow().column(0).to_pylist() == [None, 1]


def test_skip_leaves_out_dicts_with_unknown_columns_of_a_rollup_too(database: Database) -> None:
    result = folded(database).append(
        [{"host": "a", "ts": "2013-01-01"}, {"hots": "a", "ts": "2013-01-01"}], on_error="skip"
    )
    assert (result.rows, result.rejected[0].row) == (1, 1)
    assert 'did you mean "host"' in result.rejected[0].reason


def test_an_error_shows_the_beginning_of_a_long_value(database: Database) -> None:
    table = database.create_table("t", {"k": "int64"}, key="k")
    with pytest.raises(drillcore.InvalidArgumentError) as caught:
        table.get("x" * 1_000_000)
    assert len(str(caught.value)) < 200


def test_the_cause_of_data_that_cannot_be_read_is_kept(database: Database) -> None:
    class Broken:
        def __arrow_c_array__(self, requested_schema: object = None) -> object:
            raise ValueError("no more rows")

    table = database.create_table("broken", {"id": "int64"}, key="id")
    with pytest.raises(drillcore.InvalidArgumentError, match="no more rows") as raised:
        table.append(Broken())
    assert type(raised.value.__cause__) is ValueError

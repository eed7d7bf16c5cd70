"""Random queries give the rows that DuckDB gives, but for what docs/sql.md lists under "Other engines"."""

from __future__ import annotations

import datetime as dt
import math
import os
import random
from collections import Counter
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from random_sql import SCHEMA, Queries, Sql, rows

import drillcore

#: Each seed is a database of its own; more of them with DRILLCORE_LONG=1, or those of DRILLCORE_SEEDS="7,8".
SEEDS = [int(seed) for seed in os.environ.get("DRILLCORE_SEEDS", "").split(",") if seed] or range(
    200 if os.environ.get("DRILLCORE_LONG") else 4
)
QUERIES = 60
ROWS = 60

#: The tables: the same columns, and each a way of its own to find rows: by a plain key, by keys of floats and decimals,
#: and by sets of text and floats.
TABLES: dict[str, dict[str, Any]] = {
    "t": {"key": "k"},
    "u": {"key": ["f", "k"], "set": "s"},
    "v": {"key": ["e", "day", "k"], "set": "g"},
}


def database(rng: random.Random) -> tuple[drillcore.Database, duckdb.DuckDBPyConnection]:
    """The same tables in both engines."""
    ours, theirs = drillcore.open(":memory:"), duckdb.connect()
    theirs.execute("set order_by_non_integer_literal = true")
    for name, options in TABLES.items():
        data = rows(rng, ROWS)
        table = ours.create_table(name, SCHEMA, **options)
        table.append(data.slice(0, ROWS * 2 // 3))
        # Some rows in segments, so that their bounds are looked at, and some in memory.
        ours.flush()
        table.append(data.slice(ROWS * 2 // 3))
        theirs.register("data", data)
        theirs.execute(f"create table {name} as select * from data")
        theirs.unregister("data")
    return ours, theirs


def cell(value: Any) -> Any:
    """A value as both engines give it: numbers by value, one NaN, one zero, and sums of floats to twelve digits."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return value if math.isinf(value) else float(f"{value:.12g}") + 0.0
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else value.normalize()
    if isinstance(value, dt.datetime):
        return value.isoformat()
    return value


def cells(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows of a table."""
    columns = [[cell(value) for value in column.to_pylist()] for column in table.columns]
    return list(zip(*columns, strict=True))


def answer(run: Any) -> list[tuple[Any, ...]] | str:
    """The rows that a call gives, or its error."""
    try:
        return cells(run())
    except (drillcore.Error, duckdb.Error) as error:
        return f"{type(error).__name__}: {error}"


def same(ours: Any, theirs: Any, is_ordered: bool) -> bool:
    """Whether two answers are one."""
    if isinstance(ours, str) or isinstance(theirs, str):
        return False
    return ours == theirs if is_ordered else Counter(ours) == Counter(theirs)


def difference(seed: int, text: Sql, ours: Any, theirs: Any) -> str:
    """What to look at when two answers differ."""

    def shown(answer: Any, other: Any) -> str:
        if isinstance(answer, str):
            return answer
        only = list((Counter(answer) - Counter(other if isinstance(other, list) else [])).elements())
        return f"{len(answer)} rows, of which only here: {str(only)[:1500]}"

    return (
        f"\nseed {seed}\nours:   {text.ours}\n  {shown(ours, theirs)}\nDuckDB: {text.theirs}\n  {shown(theirs, ours)}"
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_query_gives_the_rows_that_duckdb_gives(seed: int) -> None:
    rng = random.Random(seed)
    ours, theirs = database(rng)
    queries = Queries(rng, list(TABLES))
    differences, errors = [], 0
    for _ in range(QUERIES):
        text, is_ordered = queries.query()
        found = answer(lambda text=text: ours.sql(text.ours, threads=2).arrow())
        expected = answer(lambda text=text: theirs.sql(text.theirs).to_arrow_table())
        errors += isinstance(expected, str)
        if not same(found, expected, is_ordered):
            differences.append(difference(seed, text, found, expected))
    assert not differences, f"{len(differences)} differ" + "\n".join(differences[:5])
    assert errors == 0, "a query that fails compares nothing"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_condition_lets_the_rows_pass_that_duckdb_lets_pass(seed: int) -> None:
    rng = random.Random(1_000_000 + seed)
    ours, theirs = database(rng)
    queries = Queries(rng, list(TABLES))
    differences = []
    for at in range(QUERIES):
        name = list(TABLES)[at % len(TABLES)]
        table = ours.table(name)
        text = queries.where([name])
        # A condition is about the columns of one table, which needs no name.
        where = text.ours.removeprefix("where ").replace(f"{name}.", "")
        expected = answer(
            lambda text=text, name=name: theirs.sql(f"select k from {name} {text.theirs}").to_arrow_table()
        )
        found = answer(lambda table=table, where=where: table.scan(where=where, columns=["k"]).arrow())
        if not same(found, expected, False):
            differences.append(difference(seed, Sql(where, text.theirs), found, expected))
            continue
        assert table.count(where=where) == len(expected), (seed, where)
        drawn = answer(
            lambda table=table, where=where: table.sample(ROWS, where=where, columns=["k"], at_most=True).arrow()
        )
        assert same(drawn, expected, False), difference(seed, Sql(where, text.theirs), drawn, expected)
    assert not differences, f"{len(differences)} differ" + "\n".join(differences[:5])

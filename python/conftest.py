"""What the examples in docstrings stand on: a small database with one table."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

import drillcore


@pytest.fixture
def db() -> Iterator[drillcore.Database]:
    with drillcore.open(":memory:") as database:
        yield database


@pytest.fixture
def flights(db: drillcore.Database) -> drillcore.Table:
    schema = {"carrier": "string", "flight": "int64", "delay": "float64"}
    table = db.create_table("flights", schema, key=["carrier", "flight"], set="carrier")
    table.append(
        [
            {"carrier": "UA", "flight": 1, "delay": 3.0},
            {"carrier": "DL", "flight": 2, "delay": -2.0},
            {"carrier": "UA", "flight": 3, "delay": 9.0},
            {"carrier": "DL", "flight": 4, "delay": 0.0},
        ]
    )
    return table


@pytest.fixture
def planes(db: drillcore.Database) -> drillcore.Table:
    schema = {"tail": "string", "seats": "int64"}
    table = db.create_table("planes", schema, key="tail", merge="upsert", weights="seats")
    table.append([{"tail": "N1", "seats": 50}, {"tail": "N2", "seats": 150}])
    return table


@pytest.fixture
def hourly(db: drillcore.Database) -> drillcore.Table:
    schema = {"at": "timestamp[s]", "host": "string", "load": "float64"}
    rollup = {"time": "at", "granularity": "hour", "metrics": {"n": "count", "load": "sum(load)"}}
    table = db.create_table("hourly", schema, key=["at", "host"], merge="rollup", rollup=rollup)
    table.append(
        [
            {"at": datetime(2013, 1, 1, 9, 5), "host": "a", "load": 0.5},
            {"at": datetime(2013, 1, 1, 9, 55), "host": "a", "load": 1.0},
            {"at": datetime(2013, 1, 1, 10, 0), "host": "a", "load": 0.25},
        ]
    )
    return table


@pytest.fixture(autouse=True)
def _names(doctest_namespace: dict[str, Any]) -> None:
    doctest_namespace["drillcore"] = drillcore

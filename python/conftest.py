"""What the examples in docstrings stand on: a small database with one table."""

from __future__ import annotations

from collections.abc import Iterator
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


@pytest.fixture(autouse=True)
def _names(doctest_namespace: dict[str, Any]) -> None:
    doctest_namespace["drillcore"] = drillcore
